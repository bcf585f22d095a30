"""Experiments: as plain data, as TOML files, and with arrays of every kind."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

import afterfit as af
from afterfit import Experiment, SpecError
from afterfit._training.run import Run
from afterfit._training.train import prepare, run_experiment
from fuzz import plain
from fuzz.nouns import HOSTILE, choose, leaves, replaced, sensible, structure, to_toml
from fuzz.oracles import Refusal, attempt, demand, same_bits

__all__ = ["check", "draw"]

_BLOCK = 20  # cases that share their structure, so that its program is compiled once
_CLOSE = 1e-7  # of the largest parameter: 20 steps of rounding errors of 1e-16, grown by a hundred million
_TINY = 1e-300  # below, numbers have fewer digits, and compiled code takes them for 0
_FOLLOWED = 1e-2  # the same of a flow: steps of its default tolerance of 1e-3 or less, whose errors add up


@dataclasses.dataclass(frozen=True)
class Settings:
    """An experiment as plain data; `wrong` is the path of the setting that was made hostile, if any."""

    data: dict[str, Any]
    wrong: tuple[Any, ...] = ()
    seed: int = 0  # of what the check itself makes up


@dataclasses.dataclass(frozen=True)
class Data:
    """The user's own arrays, of some type: named by the way they are made from plain ones."""

    form: str
    loss: str
    seed: int


def draw(rng: np.random.Generator, number: int) -> Settings | Data:
    if rng.random() < 0.15:
        loss = choose(rng, ["squared", "squared", "logistic", "exponential", "cross_entropy"])
        return Data(choose(rng, list(_FORMS)), loss, int(rng.integers(100)))
    data = sensible(rng, structure(np.random.default_rng([number // _BLOCK])))
    seed = int(rng.integers(2**32))
    if rng.random() < 0.35:
        return Settings(data, seed=seed)
    path, _ = choose(rng, leaves(data))
    where = rng.random()
    if where < 0.1:
        path = (*path[:-1], "unknown") if isinstance(path[-1], str) else path
    elif where < 0.25 and len(path) > 1:
        path = path[:-1]  # a whole noun
    return Settings(replaced(data, path, choose(rng, HOSTILE)), path, seed)


def check(case: Settings | Data, place: Path) -> None:
    if isinstance(case, Data):
        _check_arrays(case)
        return
    rng = np.random.default_rng(case.seed)
    names = (str(case.wrong[-1]), str(case.wrong[0])) if case.wrong else ()
    experiment = attempt(lambda: Experiment.from_dict(copy.deepcopy(case.data)), *names)
    _check_written(experiment, case.data, rng, place)
    _check_id(experiment, case.data, rng)
    if _too_long(experiment):
        return
    run = attempt(lambda: run_experiment(experiment, progress=False))
    same_bits(run, run_experiment(Experiment.from_dict(json.loads(str(experiment))), progress=False), "run again")
    _check_plain(experiment, run)
    _check_kept(run, place, picture=rng.random() < 0.1)


# --------------------------------------------------------------------------------------------- plain data


def _check_written(experiment: Experiment, data: dict[str, Any], rng: np.random.Generator, place: Path) -> None:
    """What was written down is read back: as JSON, and as TOML."""
    text = json.dumps(experiment.to_dict(), allow_nan=False)
    demand(str(Experiment.from_dict(json.loads(text))) == str(experiment), "read back from JSON it differs")
    file = place / "experiment.toml"
    spelling = choose(rng, [repr, lambda x: f"{x:.17e}", lambda x: f"+{abs(x)!r}" if x > 0 else repr(x)])
    file.write_text(to_toml(experiment.to_dict(), spelling), encoding="utf-8")
    demand(str(Experiment.from_toml(file)) == str(experiment), "read back from TOML it differs")


def _check_id(experiment: Experiment, data: dict[str, Any], rng: np.random.Generator) -> None:
    """Another order and another spelling of numbers have the same name; another value has another."""
    name = experiment.id
    again = Experiment.from_dict(_respelled(_shuffled(data, rng), rng))
    demand(again.id == name, f"another name for the same in other words: {again}")
    full = experiment.to_dict()
    for path, value in leaves(full):
        other = _nearby(value)
        if other is None:
            continue
        try:
            changed = Experiment.from_dict(replaced(full, path, other))
        except SpecError:
            continue
        demand(changed.id != name, f"the same name with {path} {other!r} for {value!r}")


def _shuffled(data: Any, rng: np.random.Generator) -> Any:
    if isinstance(data, dict):
        keys = list(data)
        rng.shuffle(keys)
        return {key: _shuffled(data[key], rng) for key in keys}
    return [_shuffled(item, rng) for item in data] if isinstance(data, list) else data


def _respelled(data: Any, rng: np.random.Generator) -> Any:
    """The same numbers as other types."""
    if isinstance(data, dict):
        return {key: _respelled(value, rng) for key, value in data.items()}
    if isinstance(data, list):
        return [_respelled(value, rng) for value in data]
    if isinstance(data, float) and data.is_integer() and abs(data) < 2**53:
        return choose(rng, [data, int(data), np.float64(data)])
    if isinstance(data, float):
        return choose(rng, [data, np.float64(data)])
    if type(data) is int and abs(data) < 2**63:
        return choose(rng, [data, np.int64(data)])
    return data


def _nearby(value: Any) -> Any:
    """Another value of the same type, as near as can be."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return math.nextafter(value, math.inf) if isinstance(value, float) else None


# ------------------------------------------------------------------------------------------------- running


def _too_long(experiment: Experiment) -> bool:
    """Possible, and nothing to wait for here: 10¹² steps take days."""
    return getattr(experiment.dynamics, "steps", 0) > 10**4 or experiment.observations > 10**4


def _check_plain(experiment: Experiment, run: Run) -> None:
    """A run ends where a plain loop ends, unless it is at the mercy of rounding errors."""
    if run.status != "finished" or getattr(experiment.dynamics, "eps", 1) < 1e-12:
        return
    with jax.enable_x64(True), np.errstate(all="ignore"):
        _, start = prepare(experiment)
        expected = plain.train(experiment, experiment.draw(), start)
        if expected is None:
            return
        begin, found = (np.asarray(ravel_pytree(params)[0]) for params in (start, run.params))
    largest = max(np.max(np.abs(vector)) for vector in (expected, begin))
    if not largest < 1e3:  # steps that are too large make a rounding error grow without bound
        return
    error = np.max(np.abs(found - expected))
    close = _CLOSE if hasattr(experiment.dynamics, "steps") else _FOLLOWED
    demand(error <= close * largest + _TINY, f"the parameters are {error:.3g} from a plain loop's, of {largest:.3g}")


def _check_kept(run: Run, place: Path, picture: bool) -> None:
    """A run that was saved is read back bit for bit, and can be described and drawn."""
    same_bits(run, af.load(run.save(place / "run")), "saved and loaded")
    with contextlib.suppress(Refusal):  # of too few observations
        demand(bool(attempt(lambda: run.verdict.describe())), "a verdict without words")
    if picture:
        from afterfit._base.html import picture_bytes

        demand(len(picture_bytes(run.plot())) > 1000, "no picture")


# ------------------------------------------------------------------------------------------------- arrays


def _masked(x: np.ndarray) -> Any:
    return np.ma.masked_array(x, mask=np.zeros(x.shape, bool))


def _hidden(x: np.ndarray) -> Any:
    masked = _masked(x.astype(float))
    masked[0] = np.ma.masked
    return masked


def _pandas(x: np.ndarray) -> Any:
    pandas = __import__("pandas")
    return pandas.DataFrame(x) if x.ndim == 2 else pandas.Series(x)


def _xarray(x: np.ndarray) -> Any:
    return __import__("xarray").DataArray(x)


def _sparse(x: np.ndarray) -> Any:
    return __import__("scipy.sparse", fromlist=["csr_array"]).csr_array(np.atleast_2d(x))


def _with(value: Any) -> Callable[[np.ndarray], Any]:
    """The array with one value in it that does not belong there."""

    def change(x: np.ndarray) -> Any:
        changed = x.astype(float)
        changed.flat[0] = value
        return changed

    return change


# From small whole numbers to the same as somebody might have them. All can be told from their values alone.
_FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    **{
        kind: (lambda x, kind=kind: x.astype(kind)) for kind in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", ">f8", ">i4")
    },
    **{kind: (lambda x, kind=kind: x.astype(kind)) for kind in ("object", "U8", "c16", "S8")},
    "unsigned": lambda x: x.astype("u1") if x.min() >= 0 else x.astype("i2"),
    "lists": lambda x: x.tolist(),
    "tuples": lambda x: tuple(map(tuple, x.tolist())) if x.ndim == 2 else tuple(x.tolist()),
    "Fortran": np.asfortranarray,
    "reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "strided": lambda x: np.repeat(x, 2, axis=0)[::2],
    "read-only": lambda x: np.frombuffer(x.astype(float).tobytes()).reshape(x.shape),
    "masked": _masked,
    "hidden": _hidden,
    "pandas": _pandas,
    "xarray": _xarray,
    "sparse": _sparse,
    "jax": lambda x: __import__("jax").numpy.asarray(x),
    "nan": _with(np.nan),
    "inf": _with(np.inf),
    "flat": np.ravel,
    "empty": lambda x: x[:0],
    "none": lambda x: None,
    "word": lambda x: "X.npy",
    "number": lambda x: 3.0,
    "ragged": lambda x: [[1.0], [1.0, 2.0]],
    "column": lambda x: x[:, None],
}
_REFUSED = {"nan", "inf", "hidden", "empty", "none", "word", "number", "ragged", "c16"}  # in X, by everybody


def _check_arrays(case: Data) -> None:
    """Arrays of any type that are taken give the run of plain ones, bit for bit."""
    rng = np.random.default_rng(case.seed)
    X, y = rng.integers(0, 5, (6, 3)), rng.integers(0, 2, 6)
    if case.loss in ("logistic", "exponential"):
        y = 2 * y - 1
    y[:2] = [1, -1 if y.min() < 0 else 0]
    form = _FORMS[case.form]
    try:
        run = attempt(lambda: _train(form(X), y, case.loss))
    except Refusal:
        if case.form in ("f8", "f4", "i8", "i1", "unsigned", "lists", "Fortran", "strided", "read-only"):
            raise AssertionError(f"arrays as {case.form} are refused") from None
        raise
    demand(case.form not in _REFUSED, f"X with {case.form} in it is taken")
    plainly = _train(X.astype(float), y.astype(float), case.loss)
    for name in ("curves.parquet", "params.npz"):
        demand(run.files()[name] == plainly.files()[name], f"{name} of {case.form} differs from that of floats")


def _train(X: Any, y: Any, loss: str) -> Run:
    return af.train(
        task=af.tasks.Arrays(X, y, X, y, loss_name=loss),
        model=af.models.MLP((2,)),
        dynamics=af.dynamics.GradientDescent(0.01, 5),
        init=af.inits.He(),
        observations=4,
        progress=False,
    )
