"""Specifications: every noun is plain data that can be written down, read back, changed and compared.

A noun (a task, a model, a penalty, a dynamics, an initialisation) is a frozen [`Spec`][afterfit.spec.Spec]
whose fields are numbers, strings, tuples or other nouns. `to_dict` writes it as nested dictionaries, ready
for TOML or JSON; `from_dict` reads it back and refuses what it does not know, naming the nearest thing it does.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

__all__ = ["Spec", "SpecError", "nearest", "require"]


class SpecError(ValueError):
    """Something asked for cannot be: the message says what, with its value, and what to do."""


def require(condition: bool, message: str) -> None:
    """Raise a `SpecError` with `message` unless `condition` holds."""
    if not condition:
        raise SpecError(message)


def nearest(word: str, choices: Iterable[str]) -> str:
    """The end of an error message: the nearest valid choice to `word`, or all of them."""
    choices = sorted(choices)
    folded = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(str(word).lower(), folded, n=1, cutoff=0.5)
    return f"did you mean {folded[close[0]]!r}?" if close else f"choose one of: {', '.join(choices)}."


class Spec(eqx.Module):
    """Base of all nouns. A direct subclass (`Task`, `Model`, …) is a family; its subclasses are its members.

    Subclasses declare their fields as in a dataclass and check them in `__check_init__`. A member becomes
    known to `from_dict`, and so to TOML files, by being defined.
    """

    family: ClassVar[type[Spec] | None] = None
    in_python_only: ClassVar[bool] = False  # holds arrays or functions, which plain data cannot
    members: ClassVar[dict[str, type[Spec]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if Spec in cls.__bases__:
            cls.family, cls.members = cls, {}
        elif cls.family is not None and not cls.__name__.startswith("_"):
            cls.members[cls.__name__] = cls

    def __post_init__(self):
        # One number has one form, so that one run has one name: 1 for a real number is 1.0, NumPy's are Python's.
        for field in dataclasses.fields(self):
            value = _typed(getattr(self, field.name), field, f"{type(self).__name__}.{field.name}")
            object.__setattr__(self, field.name, value)

    def to_dict(self) -> dict[str, Any]:
        """This noun as plain data: its kind and every field, defaults included."""
        fields = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self) if f.init}
        return {"kind": type(self).__name__, **fields}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "") -> Self:
        """The noun that `data` describes. `where` (such as `"penalty"`) names the place in error messages."""
        where = where or (cls.family or cls).__name__.lower()
        require(isinstance(data, Mapping), f"{where} must be a table of settings, got {data!r}.")
        members = {name: kind for name, kind in cls.members.items() if not inspect.isabstract(kind)}
        require("kind" in data, f"{where} does not say its kind: choose one of: {', '.join(sorted(members))}.")
        kind = data["kind"]
        if not (isinstance(kind, str) and kind in members):
            raise SpecError(f"unknown {where} {kind!r}: {nearest(str(kind), members)}")
        member = members[kind]
        require(
            not member.in_python_only,
            f"{where} {kind} holds arrays or functions and exists in Python only: build it there and call train().",
        )
        fields = {f.name: f for f in dataclasses.fields(member) if f.init}
        values = {}
        for name, value in data.items():
            if name == "kind":
                continue
            if name not in fields:
                raise SpecError(f"{where}.{name} is not a setting of {kind}: {nearest(name, fields)}")
            values[name] = _typed(value, fields[name], f"{where}.{name}")
        missing = [
            name
            for name, f in fields.items()
            if name not in values and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        ]
        require(not missing, f"{where} {kind} needs a value for {', '.join(missing)}.")
        return member(**values)  # pyright: ignore[reportReturnType]

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed (and checked again)."""
        known = [f.name for f in dataclasses.fields(self)]
        for name in changes:
            require(name in known, f"{name} is not a setting of {type(self).__name__}: {nearest(name, known)}")
        return dataclasses.replace(self, **changes)


def _plain(value: Any) -> Any:
    """`value` as JSON would have it."""
    if isinstance(value, Spec):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return value


def _typed(value: Any, field: dataclasses.Field, where: str) -> Any:
    """`value` as the field's annotation wants it: nested nouns built, lists to tuples, 1 to 1.0."""
    # A class in a module without postponed annotations has types here, others have their words.
    kind: Any = field.type
    annotation = kind.__name__ if isinstance(kind, type) and not hasattr(kind, "__origin__") else str(kind)
    many = re.fullmatch(r"tuple\[(\w+), \.\.\.\](.*)", annotation)
    if value is None and "None" in annotation:
        return None
    if many is None:
        return _one(value, annotation, where)
    if not isinstance(value, tuple | list):
        raise SpecError(f"{where} must be a list, got {value!r}.")
    return tuple(_one(item, many[1], f"{where}[{k}]") for k, item in enumerate(value))


def _one(value: Any, annotation: str, where: str) -> Any:
    """One value as its annotation wants it."""
    if isinstance(value, Tracer | Spec):  # a number only once it is computed, or a noun built already
        return value
    wanted = [word for word in _WORDS if word in annotation.replace("|", " ").split()]
    value = _plain_number(value) if wanted else value
    for family in Spec.__subclasses__():
        if family.__name__ in re.findall(r"\w+", annotation):
            return family.from_dict(value, where)
    if "float" in wanted and "int" not in wanted and type(value) is int:
        value = float(value) if abs(value) < 2**1023 else math.inf
    if wanted == ["int"] and isinstance(value, float) and value.is_integer():
        return int(value)
    require(
        not wanted or type(value).__name__ in wanted,
        f"{where} must be {' or '.join(_WORDS[word] for word in wanted)}, got {value!r}.",
    )
    require(_is_finite(value), f"{where} must be a finite number, got {value!r:.40}.")
    if isinstance(value, str) and not value.isascii():
        require(_is_text(value), f"{where} must be text that UTF-8 can write, got {value!r}.")
    return value


def _plain_number(value: Any) -> Any:
    """A number of NumPy's or JAX's as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic | np.ndarray | jax.Array) and value.ndim == 0 else value


def _is_text(value: str) -> bool:
    """Whether a word can be written down: a file's name that is no UTF-8 cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_finite(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) < _BEYOND
    return not isinstance(value, float) or math.isfinite(value)


_BEYOND = 10**30  # more of anything there is not, and products of such numbers still have a floating form
_WORDS = {"int": "a whole number", "float": "a number", "str": "a word", "bool": "true or false"}
