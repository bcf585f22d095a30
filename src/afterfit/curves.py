"""Curves: an xarray.Dataset over training time, and its file."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["KNOWN", "dataset", "from_parquet", "to_parquet"]

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
_DIMENSIONS = {"singular_values": ("index",), "weights": ("coordinate",)}


def dataset(
    columns: Mapping[str, np.ndarray],
    time: Sequence[float],
    log10_time: Sequence[float],
    step: Sequence[int],
    clock: str = "sum of step sizes",
) -> xr.Dataset:
    """Observed quantities as a Dataset over `time`, with the coordinates `step` and `log10_time` beside it."""
    import xarray as xr  # on first use: a third of a second that importing afterfit need not pay

    variables = {}
    for name, values in columns.items():
        values = np.asarray(values)
        extra = _DIMENSIONS.get(name) or tuple(f"{name}_{k}" for k in range(values.ndim - 1))
        variables[name] = (("time", *extra), values, {"long_name": _MEANING.get(name, name)})
    coordinates = {
        "time": ("time", np.asarray(time), {"long_name": "training time", "units": clock}),
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
    for name in ("time", "log10_time", "step", *curves.data_vars):
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


def from_parquet(content: bytes) -> xr.Dataset:
    """The curves that `to_parquet` wrote."""
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    facts = json.loads((table.schema.metadata or {})[b"afterfit"])
    columns = {}
    for name, shape in facts["shapes"].items():
        column = table.column(name).combine_chunks()
        values = column.flatten() if shape else column
        columns[name] = values.to_numpy(zero_copy_only=False).reshape(len(table), *shape)
    return dataset(
        {name: values for name, values in columns.items() if name not in ("time", "log10_time", "step")},
        columns["time"],
        columns["log10_time"],
        columns["step"],
        facts.get("clock", "sum of step sizes"),
    )
