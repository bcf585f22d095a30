"""Specifications: every noun is plain data that can be written down, read back, changed and compared.

A noun (a task, a model, a penalty, a dynamics, an initialisation) is a frozen [`Spec`][afterfit._base.spec.Spec]
whose fields are numbers, strings, tuples or other nouns. `to_dict` writes it as nested dictionaries, ready
for TOML or JSON; `from_dict` reads it back and refuses what it does not know, naming the nearest thing it does.

The `kind` of a noun of afterfit's is its class's name, such as `L2`. A class from elsewhere is named with its module,
`mylab.penalties.L2`, and carries a digest of what defines it, its `code`. Who writes by hand may say where it is to be
had from, `mylab:L2`. Reading plain data imports nothing: a module that they name has to be imported by who reads them.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from afterfit._base.definitions import Untold, digest, held
from afterfit._base.errors import SpecError, nearest, require
from afterfit._base.rules import register

__all__ = ["DEFINING", "Capable", "Spec", "all_ours", "later", "place", "plain_number"]

DEFINING = ("kind", "code", "company", "meaning")  # what plain data say of a noun beside its settings


def later(default: Any) -> Any:
    """A setting that came after runs had names: it is said only where it is not `default`, so that they keep them."""
    return eqx.field(default=default, kw_only=True, metadata={"later": True})


def place() -> Any:
    """A setting that says where something is found and not what it is: plain data say it, but it names no run."""
    return eqx.field(metadata={"place": True})


class Capable:
    """A formula, and what is known of it beside its values.

    A family says which of its methods are the `formula`, and which of its attributes and methods are `capabilities`,
    with values that are safe where nothing is known. Whoever needs to know asks for a capability, not for a class. Who
    writes the formula anew says anew what is known of it: of what a subclass does not say, it has the family's safe
    value, whatever its other bases said.
    """

    formula: ClassVar[tuple[str, ...]] = ()
    capabilities: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)

        def said(name: str) -> list[int]:
            """Where among the bases it is said, the nearest first and the family last."""
            return [place for place, base in enumerate(cls.__mro__) if name in vars(base)]

        written = min((said(name)[0] for name in cls.formula if said(name)), default=0)
        for name in cls.capabilities:
            *_, family = places = said(name)
            if written < places[0] < family:
                setattr(cls, name, vars(cls.__mro__[family])[name])


class Spec(Capable, eqx.Module):
    """Base of all nouns. A direct subclass (`Task`, `Model`, …) is a family; its subclasses are its members.

    Subclasses declare their fields as in a dataclass and check them in `__check_init__`. A member becomes
    known to `from_dict`, and so to TOML files, by being defined (not in a function: such a class has no name by which
    it could be found).
    """

    family: ClassVar[type[Spec] | None] = None
    kind: ClassVar[str]  # what plain data call the class
    in_python_only: ClassVar[bool] = False  # holds arrays or functions, which plain data cannot
    members: ClassVar[dict[str, type[Spec]]]
    told: ClassVar[tuple[str, ...]] = ()  # settings that may hold functions, which `codes` of the class tells itself
    meaning: ClassVar[int] = 1  # raised when what a noun of afterfit's computes changes: its runs get other names

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.kind = cls.__name__ if _is_ours(cls) else f"{cls.__module__}.{cls.__qualname__}"
        for name, annotation in inspect.get_annotations(cls).items():
            free = name not in DEFINING or "ClassVar" in str(annotation)
            require(free, f"{cls.__name__} has a setting {name!r}, which has a meaning for every noun: rename it.")
        if Spec in cls.__bases__:
            cls.family, cls.members = cls, {}
        elif cls.family is not None and not cls.__name__.startswith("_") and "<locals>" not in cls.__qualname__:
            register(cls.members, cls.kind, cls)

    def __post_init__(self):
        # One number has one form, so that one run has one name: 1 for a real number is 1.0, NumPy's are Python's.
        for field in dataclasses.fields(self):
            value = _typed(getattr(self, field.name), field, f"{type(self).__name__}.{field.name}")
            if isinstance(value, np.ndarray):
                where = f"{type(self).__name__}.{field.name}"  # a copy of it would show what a mask hides
                require(not np.ma.is_masked(value), f"{where} has entries masked: fill them, or leave them out.")
                value = held(value)
            object.__setattr__(self, field.name, value)

    def to_dict(self) -> dict[str, Any]:
        """This noun as plain data: its kind and every field, defaults included (but for what came `later`)."""
        return {**self._said_of_it(), **self._settings()}

    def identity(self) -> dict[str, Any]:
        """What an experiment is named by: this noun as plain data, but for where things are found."""
        return {name: value for name, value in self.to_dict().items() if name not in self.places()}

    @classmethod
    def places(cls) -> tuple[str, ...]:
        """The settings that say where something is found."""
        return tuple(field.name for field in dataclasses.fields(cls) if "place" in field.metadata)

    def _settings(self, but: tuple[str, ...] = ()) -> dict[str, Any]:
        """Every field as plain data, `but` some."""
        values = {f: getattr(self, f.name) for f in dataclasses.fields(self) if f.init and f.name not in but}
        said = {f: value for f, value in values.items() if "later" not in f.metadata or value != f.default}
        return {f.name: _plain(value) for f, value in said.items()}

    def _said_of_it(self) -> dict[str, Any]:
        """What plain data say of a noun beside its settings."""
        said: dict[str, Any] = {"kind": self.kind}
        if not _is_ours(type(self)):
            said["code"] = _if_told(self._code)
        if self.company:
            said["company"] = self._company_code()
        return said if self.meaning == 1 else {**said, "meaning": self.meaning}

    def _company_code(self) -> str | None:
        """Digests of what it works with, in order; None where there is nothing, or nothing that can be told."""
        return _if_told(lambda: " ".join(map(digest, self.company))) or None

    @classmethod
    def _code(cls) -> str:
        """A digest of what defines a class from outside afterfit; `Untold` if it cannot be had."""
        try:
            return digest(cls)
        except Untold as error:
            raise Untold(f"{cls.kind}: {error}") from None

    @property
    def company(self) -> tuple[type, ...]:
        """Classes from outside afterfit that it works with and does not hold: they are part of what it computes."""
        return ()

    def codes(self) -> Iterator[str]:
        """Digests of all classes and functions from outside afterfit in this noun, as they are now.

        `Untold` if there is something in it of which plain data cannot say what it computes.
        """
        if not (ours := _is_ours(type(self))):
            yield self._code()
        yield from map(digest, self.company)
        if self.in_python_only:  # it says itself how it tells what it holds
            return
        for field in dataclasses.fields(self):
            for part in _flat(getattr(self, field.name)):
                if isinstance(part, Spec):
                    yield from part.codes()
                elif not ours and field.name not in self.told and not _is_plain(_plain(part)):
                    raise Untold(f"{self.kind}.{field.name} holds {part!r:.60}, which is not plain data")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "") -> Self:
        """The noun that `data` describes. `where` (such as `"penalty"`) names the place in error messages."""
        where = where or (cls.family or cls).__name__.lower()
        require(isinstance(data, Mapping), f"{where} must be a table of settings, got {data!r}.")
        require("kind" in data, f"{where} does not say its kind: choose one of: {', '.join(sorted(cls._concrete()))}.")
        member, kind = _called(data["kind"], cls._concrete(), where), data["kind"]
        member._check_unchanged(data, where)
        require(
            not member.in_python_only,
            f"{where} {kind} holds arrays or functions and exists in Python only: build it there and call train().",
        )
        fields = {f.name: f for f in dataclasses.fields(member) if f.init}
        values = {}
        for name, value in data.items():
            if name in DEFINING:
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
        noun = member(**values)
        before, now = data.get("company"), noun._company_code()
        require(
            before in (None, now),
            f"{where} {kind} was written beside other classes that it works with (their code was {before}, now it is "
            f"{now}): import those, or leave `company` out to have it as it is now.",
        )
        return noun  # pyright: ignore[reportReturnType]

    @classmethod
    def _concrete(cls) -> dict[str, type[Spec]]:
        """The members of the family of which there can be nouns, by their kinds."""
        return {name: kind for name, kind in cls.members.items() if not inspect.isabstract(kind)}

    @classmethod
    def _check_unchanged(cls, data: Mapping[str, Any], where: str) -> None:
        """Refuse data that were written when this class computed something else."""
        meant = data.get("meaning", cls.meaning)
        require(
            meant == cls.meaning,
            f"{where} {data['kind']} is of another version of afterfit, which computed something else "
            f"(meaning {meant}, here {cls.meaning}): leave `meaning` out to have it as it is now.",
        )
        if data.get("code") is None:
            return
        try:
            now = "" if _is_ours(cls) else cls._code()
        except Untold as error:
            raise SpecError(f"whether {where} is still what was written cannot be told: {error}.") from None
        require(
            data["code"] == now,
            f"{where} {data['kind']} was changed since this was written (its code was {data['code']}, now it is "
            f"{now or 'a class of afterfit'}): leave `code` out to have it as it is now.",
        )

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed (and checked again)."""
        known = [f.name for f in dataclasses.fields(self)]
        for name in changes:
            require(name in known, f"{name} is not a setting of {type(self).__name__}: {nearest(name, known)}")
        return dataclasses.replace(self, **changes)

    def changed(self, changes: Mapping[str, Any], where: str) -> Spec:
        """A copy with some settings changed, by their dotted names below `where`, all of them together."""
        kind = changes.get("kind", own := self.kind)
        if kind != own and _called(kind, self._concrete(), where) is not type(self):
            assert self.family is not None
            return self.family.from_dict(changes, where)
        below: dict[str, dict[str, Any]] = {}
        for path, value in changes.items():
            name, _, rest = path.partition(".")
            if path != "kind":
                below.setdefault(name, {})[rest] = value
        fields = {f.name: f for f in dataclasses.fields(self)}
        values = {}
        for name, deep in below.items():
            require(name in fields, f"{name} is not a setting of {kind}: {nearest(name, fields)}")
            values[name] = self._changed_setting(fields[name], deep, f"{where}.{name}")
        return self.replace(**values)

    def _changed_setting(self, field: dataclasses.Field, deep: Mapping[str, Any], where: str) -> Any:
        """The value of a setting after changes to all of it (named "") and to settings below it."""
        below = {name: value for name, value in deep.items() if name}
        whole, now = deep.get(""), getattr(self, field.name)
        if isinstance(whole, Mapping):
            return _typed({**whole, **below}, field, where)
        if not below:
            return _typed(whole, field, where)
        if isinstance(now, Spec):
            return now.changed(below, where)
        require(
            whole is None and (now is None or isinstance(now, Mapping)),
            f"there is no setting {f'{where}.{next(iter(below))}'!r}: {where} has no settings of its own.",
        )
        return _typed(_changed_table(now or {}, below), field, where)


def _changed_table(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A table that is no noun, with changes by dotted names; another kind leaves out the settings of the old one."""
    new = {} if "kind" in changes else dict(table)
    for path, value in changes.items():
        name, _, rest = path.partition(".")
        new[name] = _changed_table(new.get(name) or {}, {rest: value}) if rest else value
    return new


def _if_told(tell: Callable[[], str]) -> str | None:
    try:
        return tell()
    except Untold:
        return None


def _is_ours(noun: type[Spec]) -> bool:
    return noun.__module__.partition(".")[0] == "afterfit"


def all_ours(noun: Spec) -> bool:
    """Whether a noun is of afterfit, and all nouns in it."""
    parts = (part for field in dataclasses.fields(noun) for part in _flat(getattr(noun, field.name, None)))
    return _is_ours(type(noun)) and all(all_ours(part) for part in parts if isinstance(part, Spec))


def _called(kind: Any, members: Mapping[str, type[Spec]], where: str) -> type[Spec]:
    """The class of that kind: `module.Class`, `module:Class`, or without its module if it is the only one so called."""
    short: dict[str, list[str]] = {}
    for full in members:
        short.setdefault(full.rpartition(".")[2], []).append(full)
    words = kind if isinstance(kind, str) else ""
    full = [words] if words in members else _offered(words, members) if ":" in words else short.get(words, [])
    require(len(full) <= 1, f"there are several {where} {kind!r}: say which of {', '.join(full)}.")
    known = [name if len(called) == 1 else full for name, called in short.items() for full in called]
    require("<locals>" not in str(kind), f"{where} {kind} was defined in a function, where nobody can find it by name.")
    module, colon, name = words.rpartition(":" if ":" in words else ".")
    require(
        bool(full) or not module or module in sys.modules,
        f"{where} {kind!r} is in a module that is not imported: add --import {module} on the command line, or import "
        "it in Python before this is read.",
    )
    require(bool(full), f"unknown {where} {kind!r}: {nearest(name if colon else str(kind), known)}")
    return members[full[0]]


def _offered(kind: str, members: Mapping[str, type[Spec]]) -> list[str]:
    """The full name of `module:Class`, a class that a module defines or hands on. Nothing is imported."""
    module, _, name = kind.partition(":")
    there = getattr(sys.modules.get(module), "__dict__", {}).get(name)
    return [full for full, member in members.items() if full == f"{module}.{name}" or member is there]


def _flat(value: Any) -> Iterator[Any]:
    """A value, or those in a list."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _plain(value: Any) -> Any:
    """`value` as JSON would have it."""
    if isinstance(value, Spec):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, np.ndarray | jax.Array):
        values = np.asarray(value)
        plain = values.tolist()
        again = np.asarray(plain)
        if (again.dtype, again.shape) == (values.dtype, values.shape):
            return plain
        return {"values": plain, "dtype": str(values.dtype), "shape": list(values.shape)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return value


def _is_plain(value: Any) -> bool:
    """Whether JSON can say a value, and no other one in the same words."""
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_plain(part) for name, part in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)


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
    words = re.findall(r"\w+", annotation)
    wanted = [word for word in _WORDS if word in annotation.replace("|", " ").split()]
    value = plain_number(value) if wanted else value
    for family in Spec.__subclasses__():
        if family.__name__ in words:
            return family.from_dict(value, where)
    if "float" in wanted and "int" not in wanted and type(value) is int:
        value = float(value) if abs(value) < 2**1023 else math.inf
    if wanted == ["int"] and isinstance(value, float) and value.is_integer():
        return int(value)
    if wanted and type(value).__name__ not in wanted:  # arrays are long when written out: only if something is wrong
        raise SpecError(f"{where} must be {' or '.join(_WORDS[word] for word in wanted)}, got {value!r}.")
    if not _is_finite(value):
        raise SpecError(f"{where} must be a finite number, got {value!r:.40}.")
    if isinstance(value, str) and not value.isascii():
        require(_is_text(value), f"{where} must be text that UTF-8 can write, got {value!r}.")
    return value


def plain_number(value: Any) -> Any:
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
