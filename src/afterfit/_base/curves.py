"""Curves: an xarray.Dataset over training time, and its file."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from afterfit._base.errors import AfterfitError
from afterfit._base.machine import free_memory

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    import xarray as xr

__all__ = [
    "KNOWN",
    "SLOW_TIME",
    "SQUARED_STEPS",
    "TIME_LABEL",
    "TRAINING_TIME",
    "NotCurves",
    "axes_of",
    "dataset",
    "from_parquet",
    "meaning_of",
    "to_parquet",
]

# What the time of curves is, as their files say it, and as an axis does.
TRAINING_TIME = "sum of step sizes"
SLOW_TIME = "slow time: penalty strength x training time"
SQUARED_STEPS = "slow time: step size squared x steps"
TIME_LABEL = "training time t = Σ step sizes"
_LABELS = {
    TRAINING_TIME: TIME_LABEL,
    SLOW_TIME: "slow time τ = penalty strength · t",
    SQUARED_STEPS: "slow time τ = η² · steps",
}

_MEANING = {
    "train_loss": "training loss",
    "log10_train_loss": "log₁₀ of the training loss",
    "train_error": "relative training error ‖outputs − targets‖/‖targets‖",
    "train_accuracy": "training accuracy",
    "test_loss": "test loss",
    "test_error": "relative test error",
    "test_accuracy": "test accuracy",
    "population_risk": "population risk, in closed form",
    "penalty": "penalty h(θ), without its strength",
    "norm_l1": "‖θ‖₁",
    "norm_l2": "‖θ‖₂",
    "loss_gradient": "‖G‖₂, G the gradient of the loss",
    "penalty_gradient": "β‖H‖₂, H the subgradient of the penalty",
    "singular_values": "singular values of the weights",
    "weights": "weights of the linear predictor",
}
KNOWN = frozenset(_MEANING)  # anything else is a model's or task's own
_AXES = ("time", "log10_time", "step")  # what every curve is over
_LARGE = 1e8  # bytes from which on it is asked whether there is room for them
_DIMENSIONS = {"singular_values": ("index",), "weights": ("coordinate",)}


def meaning_of(name: str) -> str:
    """What a curve is, in words; a model's or task's own is called by its name."""
    return _MEANING.get(name, name)


def axes_of(name: str, count: int) -> tuple[str, ...]:
    """The names of the axes beside time of a curve that has so many: no other curve can have such a name."""
    return _DIMENSIONS.get(name, ())[:count] or tuple(f"{name}_{k}" for k in range(count))


def dataset(
    columns: Mapping[str, np.ndarray],
    time: Sequence[float],
    log10_time: Sequence[float],
    step: Sequence[int],
    clock: str = TRAINING_TIME,
) -> xr.Dataset:
    """Observed quantities as a Dataset over `time`, with the coordinates `step` and `log10_time` beside it.

    `time` says in its attributes which clock it is (`units`) and what to write on its axis (`label`).
    """
    import xarray as xr  # on first use: a third of a second that importing afterfit need not pay

    variables = {}
    for name, values in columns.items():
        values = np.asarray(values)
        variables[name] = (("time", *axes_of(name, values.ndim - 1)), values, {"long_name": meaning_of(name)})
    label = _LABELS.get(clock, f"time t: {clock}")
    coordinates = {
        "time": ("time", np.asarray(time), {"long_name": "training time", "units": clock, "label": label}),
        "log10_time": ("time", np.asarray(log10_time), {"long_name": "log₁₀ of the training time"}),
        "step": ("time", np.asarray(step), {"long_name": "steps made"}),
    }
    return xr.Dataset(variables, coordinates)


def to_parquet(curves: xr.Dataset) -> bytes:
    """One row an observation; a quantity with several numbers is a column of lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {}
    shapes = {}
    for name in (*_AXES, *curves.data_vars):
        values = curves[name].values
        shapes[str(name)] = list(values.shape[1:])
        if values.ndim > 1:
            flat = pa.array(values.reshape(-1))
            columns[str(name)] = pa.FixedSizeListArray.from_arrays(flat, int(np.prod(values.shape[1:])))
        else:
            columns[str(name)] = pa.array(values)
    table = pa.table(columns).replace_schema_metadata(
        {"afterfit": json.dumps({"shapes": shapes, "clock": curves["time"].attrs["units"]})}
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


class NotCurves(AfterfitError):
    """Bytes that are not curves as `to_parquet` writes them."""


def from_parquet(content: bytes) -> xr.Dataset:
    """The curves that `to_parquet` wrote; `NotCurves` if they are not that.

    Sizes that the file claims are checked before anything is made of them: `MemoryError` if that would not fit.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        _check_size(file, len(content))
        table = file.read(use_threads=False)
    except (pa.ArrowInvalid, OSError) as error:  # the bytes are in memory: Arrow's OSError is about what they say
        raise NotCurves(str(error)) from error
    facts = _facts(table)
    columns = {}
    for name, shape in facts["shapes"].items():
        column = table.column(name).combine_chunks()
        values = column.flatten() if shape else column
        columns[name] = values.to_numpy(zero_copy_only=False).reshape(len(table), *shape)
    return dataset(
        {name: values for name, values in columns.items() if name not in _AXES},
        columns["time"],
        columns["log10_time"],
        columns["step"],
        facts.get("clock", TRAINING_TIME),
    )


def _check_size(file: pq.ParquetFile, length: int) -> None:
    """Refuse a file whose numbers cannot be its own, or whose numbers do not fit into the memory that is free."""
    rows = file.metadata.num_rows
    if rows > length:  # no two observations are at the same time
        raise NotCurves(f"{rows} observations in {length} bytes")
    size = sum(8 * rows * _width(field.type) for field in file.schema_arrow)
    if size > _LARGE and size > free_memory():
        raise MemoryError(f"its curves take {size / 1e9:.1f} GB")


def _width(kind: pa.DataType) -> int:
    """How many numbers an observation has."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        return kind.list_size * _width(kind.value_type)
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise NotCurves(f"{kind} is not a number")
    return 1


def _facts(table: pa.Table) -> dict[str, Any]:
    """What the file says about its columns, if that is true of them."""
    try:
        facts = json.loads((table.schema.metadata or {}).get(b"afterfit", b"null"))
    except (ValueError, RecursionError) as error:
        raise NotCurves(str(error)) from error
    shapes = facts.get("shapes") if isinstance(facts, dict) else None
    if not isinstance(shapes, dict) or not {*_AXES} <= set(shapes) == set(table.column_names):
        raise NotCurves("it does not say what its columns are")
    for name, shape in shapes.items():
        width = _width(table.schema.field(name).type)
        plain = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
        if not plain or math.prod(shape) != width or (name in _AXES and shape):
            raise NotCurves(f"{name} has not the shape {shape}")
    return facts
