"""What a sweep goes over: settings by their dotted names, and the values each takes."""

from __future__ import annotations

import math
import numbers
import tomllib
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from afterfit._base.errors import SpecError, require
from afterfit._base.machine import check_memory
from afterfit._base.spec import plain_number
from afterfit._training.experiment import Experiment, as_whole

__all__ = ["check_knobs", "check_runs", "check_seeds", "geomspace", "parse_knob", "parse_values", "plain_values"]

_EXPERIMENT = 1000  # bytes of an experiment and its name, which a sweep knows of each of its runs


def geomspace(start: float, stop: float, num: int = 50) -> tuple[float, ...]:
    """`num` values from `start` to `stop`, both included, each the same multiple of the one before: NumPy's, rounded.

    ```python
    af.geomspace(1e-6, 1e-2, 5)  # (1e-06, 1e-05, 0.0001, 0.001, 0.01)
    ```
    """
    for name, value in (("start", start), ("stop", stop)):
        positive = isinstance(value, numbers.Real) and 0 < value < math.inf
        require(positive, f"geomspace goes over positive numbers, got {name}={value!r}.")
    num = _check_count("geomspace", num)
    # 15 digits, so that 1e-5 is 1e-05 and not 9.999999999999999e-06: one number has one name, and so has its run.
    return tuple(float(f"{value:.15g}") for value in np.geomspace(start, stop, num))


def _check_count(what: str, num: Any) -> int:
    """How many values there are to be, before they are made."""
    num = as_whole(num)
    require(type(num) is int and num >= 1, f"{what} needs 1 value or more, got {num!r}.")
    check_runs(num)
    return num


def check_runs(count: int) -> None:
    """Refuse a sweep of more runs than there is memory for, before their settings are written out."""
    check_memory(
        _EXPERIMENT * count,
        f"the sweep would have {count:.3g} runs or more",
        lambda: "give fewer values or seeds, or have af.refine look for where the verdict changes",
    )


def check_seeds(spec: Experiment, seeds: Any) -> Sequence[int]:
    """The seeds of a sweep: so many from the experiment's own on, or those of a list."""
    seeds = as_whole(seeds)
    if type(seeds) is int:
        require(seeds >= 1, f"seeds must be 1 or more, got {seeds}.")
        check_runs(seeds)
        seeds = range(spec.seed, spec.seed + seeds)
    else:
        require(
            isinstance(seeds, Sequence | np.ndarray) and not isinstance(seeds, str),
            f"seeds must be a whole number or a list of them, got {seeds!r}.",
        )
        check_runs(len(seeds))
        seeds = [as_whole(seed) for seed in seeds]
    require(len(seeds) > 0, "a sweep needs one seed at least, got none.")
    for seed in (seeds[0], seeds[-1]) if isinstance(seeds, range) else seeds:
        spec.set({"seed": seed})  # refuses, in words, what cannot be
    require(len(set(seeds)) == len(seeds), f"a seed is given twice: {list(seeds)}.")
    return seeds


def plain_values(over: Mapping[str, Iterable[Any]]) -> dict[str, tuple[Any, ...]]:
    """The knobs of a sweep with their values as plain Python."""
    require(
        isinstance(over, Mapping) and bool(over),
        f"a sweep goes over one setting at least, such as over={{'penalty.strength': [1e-3, 1e-2]}}, got {over!r:.60}.",
    )
    for name, values in over.items():
        require(
            not isinstance(values, str) and isinstance(values, Iterable),
            f"{name} needs several values, such as af.geomspace(1e-6, 1e-2, 5), got {values!r}.",
        )
        if isinstance(values, Sized):
            check_runs(len(values))
    return {name: tuple(map(plain_number, values)) for name, values in over.items()}


def check_knobs(spec: Experiment, knobs: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse knobs that the experiment does not have, and values that it cannot take."""
    for name, values in knobs.items():
        require(name != "seed", "seeds have an argument of their own: seeds=5, or seeds=[3, 7].")
        require(bool(values), f"{name} needs one value at least, got none.")
        for value in values:
            spec.set({name: value})  # refuses, in words, what cannot be
        # 1 and 1.0 are one number; true is not 1.
        different = {value if type(value) in (int, float) else repr(value) for value in values}
        require(len(different) == len(values), f"{name} has a value twice: {list(values)}.")


def parse_knob(text: str) -> tuple[str, tuple[Any, ...]]:
    """A knob of the command line: `penalty.strength=log:1e-6:1e-2:17`, `=lin:0:1:5`, or values `=1e-3,1e-2`."""
    name, equals, values = text.partition("=")
    require(
        bool(equals and name and values),
        f"--over wants NAME=VALUES, such as penalty.strength=log:1e-6:1e-2:17, got {text!r}.",
    )
    return name.strip(), parse_values(values, name)


def parse_values(text: Any, name: str) -> tuple[Any, ...]:
    """Values of a knob as a file or the command line gives them: a list, `log:low:high:count`, `lin:low:high:count`."""
    if not isinstance(text, str):
        wanted = "wants a list of values, or log:1e-6:1e-2:17 or lin:0:1:5"
        require(isinstance(text, list | tuple), f"{name} {wanted}, got {text!r}.")
        return tuple(text)
    kind, *parts = text.split(":")
    if kind in ("log", "lin") and parts:
        try:
            low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
        except (ValueError, IndexError):
            raise SpecError(f"{kind} wants {kind}:low:high:count, such as {kind}:1:100:5, got {text!r}.") from None
        require(len(parts) == 3, f"{kind} wants {kind}:low:high:count, got {text!r}.")
        return geomspace(low, high, count) if kind == "log" else _linspace(low, high, count)
    try:
        table = tomllib.loads(f"values = [{text}]")
    except (ValueError, RecursionError):
        return tuple(text.split(","))  # words
    return tuple(table["values"]) if len(table) == 1 else (text,)  # a line break would have begun another key


def _linspace(low: float, high: float, count: int) -> tuple[float, ...]:
    require(math.isfinite(low) and math.isfinite(high), f"lin goes over finite numbers, got {low} and {high}.")
    return tuple(np.linspace(low, high, _check_count("lin", count)).tolist())
