"""What a sweep goes over: settings by their dotted names, and the values each takes."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from afterfit.experiment import Experiment
from afterfit.spec import SpecError, require

__all__ = ["check_knobs", "logspace", "parse_knob"]


def logspace(low: float, high: float, count: int) -> tuple[float, ...]:
    """`count` values from `low` to `high`, both included, each the same multiple of the one before.

    ```python
    af.logspace(1e-6, 1e-2, 5)  # (1e-06, 1e-05, 0.0001, 0.001, 0.01)
    ```
    """
    for name, value in (("low", low), ("high", high)):
        require(0 < value < math.inf, f"logspace goes over positive numbers, got {name}={value}.")
    require(count >= 1, f"logspace needs 1 value or more, got count={count}.")
    # 15 digits, so that 1e-5 is 1e-05 and not 9.999999999999999e-06: one number has one name, and so has its run.
    return tuple(float(f"{value:.15g}") for value in np.geomspace(low, high, count))


def check_knobs(spec: Experiment, over: Mapping[str, Iterable[Any]]) -> dict[str, tuple[Any, ...]]:
    """The knobs with their values as plain Python; refuses what the experiment does not have or cannot take."""
    require(bool(over), "a sweep goes over one setting at least, such as over={'penalty.strength': [1e-3, 1e-2]}.")
    knobs = {}
    for name, values in over.items():
        require(name != "seed", "seeds have an argument of their own: seeds=5, or seeds=[3, 7].")
        require(
            not isinstance(values, str) and isinstance(values, Iterable),
            f"{name} needs several values, such as af.logspace(1e-6, 1e-2, 5), got {values!r}.",
        )
        plain = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        require(bool(plain), f"{name} needs one value at least, got none.")
        for value in plain:
            spec.set({name: value})  # refuses, in words, what cannot be
        require(len(set(map(repr, plain))) == len(plain), f"{name} has a value twice: {list(plain)}.")
        knobs[name] = plain
    return knobs


def parse_knob(text: str) -> tuple[str, tuple[Any, ...]]:
    """A knob of the command line: `penalty.strength=log:1e-6:1e-2:17`, `=lin:0:1:5`, or values `=1e-3,1e-2`."""
    name, equals, values = text.partition("=")
    require(
        bool(equals and name and values),
        f"--over wants NAME=VALUES, such as penalty.strength=log:1e-6:1e-2:17, got {text!r}.",
    )
    return name.strip(), parse_values(values)


def parse_values(text: str | Sequence[Any]) -> tuple[Any, ...]:
    """Values as a file or the command line gives them: a list, `log:low:high:count` or `lin:low:high:count`."""
    if not isinstance(text, str):
        return tuple(text)
    kind, *numbers = text.split(":")
    if kind in ("log", "lin") and numbers:
        try:
            low, high, count = float(numbers[0]), float(numbers[1]), int(numbers[2])
        except (ValueError, IndexError):
            raise SpecError(f"{kind} wants {kind}:low:high:count, such as {kind}:1:100:5, got {text!r}.") from None
        require(len(numbers) == 3, f"{kind} wants {kind}:low:high:count, got {text!r}.")
        return logspace(low, high, count) if kind == "log" else tuple(np.linspace(low, high, count).tolist())
    try:
        return tuple(tomllib.loads(f"values = [{text}]")["values"])
    except tomllib.TOMLDecodeError:
        return tuple(text.split(","))  # words
