"""An experiment: everything that defines a run, as plain data."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import tomllib
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from afterfit._base.definitions import Untold
from afterfit._base.errors import SpecError, nearest, require
from afterfit._base.spec import DEFINING, Spec, plain_number
from afterfit.dynamics import Dynamics
from afterfit.inits import Init, Own
from afterfit.models import Model
from afterfit.penalties import NoPenalty, Penalty
from afterfit.quantities import Function, Quantity
from afterfit.tasks import Data, Task
from afterfit.tasks._base import checked

__all__ = ["Experiment", "as_whole", "flatten", "is_id", "spec_to_toml", "value_to_toml"]

_NOUNS = {"task": Task, "model": Model, "penalty": Penalty, "dynamics": Dynamics, "init": Init}
_NUMBERS = ("seed", "observations", "checkpoints")
_BARE = re.compile("[A-Za-z0-9_-]+")  # a key that TOML takes without quotes
_SWEEP = ("over", "refine", "seeds")  # what [sweep] may say


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A task, a model, a penalty, a dynamics, an initialisation and a seed.

    `observations` is how many log-spaced times a run is observed at, `observe` what is recorded there beside its
    metrics and norms, by name. `checkpoints` is how many times its parameters are kept along the way, or when.

    ```python
    experiment = Experiment.from_toml("my.toml").set({"penalty.strength": 1e-4})
    ```
    """

    task: Task
    model: Model
    dynamics: Dynamics
    penalty: Penalty = NoPenalty()
    init: Init = Own()
    seed: int = 0
    observations: int = 200
    observe: Mapping[str, Quantity] = dataclasses.field(default_factory=dict, hash=False)
    checkpoints: int | tuple[float, ...] = 0
    meaning: ClassVar[int] = 1  # raised when what is around the nouns computes something else, for all runs

    def __post_init__(self):
        for name in _NUMBERS:
            object.__setattr__(self, name, as_whole(getattr(self, name)))
        object.__setattr__(self, "observe", _as_quantities(self.observe))
        object.__setattr__(self, "checkpoints", _as_checkpoints(self.checkpoints))
        for name, noun in _NOUNS.items():
            value = getattr(self, name)
            if not isinstance(value, noun):  # its words only then: of a sweep there are many experiments
                raise SpecError(f"{name} must be one of afterfit.{_PLACES[name]}, got {value!r}.")
        require(
            type(self.seed) is int and 0 <= self.seed < 2**63,
            f"seed must be a whole number, 0 or more and below 2^63, got {self.seed!r:.40}.",
        )
        require(
            type(self.observations) is int and 2 <= self.observations < 2**63,
            f"observations must be a whole number, 2 or more and below 2^63, got {self.observations!r:.40}.",
        )

    def to_dict(self) -> dict[str, Any]:
        """The full specification, defaults included, ready for JSON or TOML."""
        nouns = {name: getattr(self, name).to_dict() for name in _NOUNS}
        return {**nouns, "seed": self.seed, "observations": self.observations, **self._extras()}

    def _extras(self) -> dict[str, Any]:
        """What is asked of a run beside its usual curves; not said where nothing is: older runs keep their ids."""
        observe = {name: quantity.to_dict() for name, quantity in self.observe.items()}
        kept = list(self.checkpoints) if isinstance(self.checkpoints, tuple) else self.checkpoints
        return {name: value for name, value in (("observe", observe), ("checkpoints", kept)) if value}

    @property
    def id(self) -> str:
        """The name of this experiment: 16 hex digits that change with any setting, and with what a class computes."""
        try:
            return self._name()
        except Untold as error:
            raise SpecError(
                f"what this experiment computes cannot be told from its specification ({error}). So it has no name: it "
                "can be run (af.train) and saved (run.save) but not stored."
            ) from None

    @property
    def id_if_any(self) -> str:
        """`id`, or nothing for an experiment that has none."""
        try:
            return self._name()
        except Untold:
            return ""

    def _name(self) -> str:
        """`id`; `Untold` if there is none."""
        said = {name: _told(getattr(self, name)) for name in _NOUNS}
        said |= {"seed": str(self.seed), "observations": str(self.observations)}
        if extras := self._extras():
            for quantity in self.observe.values():
                _told(quantity)  # so that all of it can be
            said |= {name: json.dumps(value, sort_keys=True) for name, value in extras.items()}
        if self.meaning != 1:
            said["meaning"] = str(self.meaning)
        text = ",".join(f'"{name}":{said[name]}' for name in sorted(said))
        return hashlib.sha256(f"{{{text}}}".encode()).hexdigest()[:16]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Experiment:
        """The experiment that plain data describe; refuses what it does not know."""
        known = (*_NOUNS, *_NUMBERS, "observe")
        require(isinstance(data, Mapping), f"an experiment is a table of settings, got {data!r:.60}.")
        for key in data:
            require(key in known, f"{key!r} is not a part of an experiment: {nearest(key, known)}")
        for key in ("task", "model", "dynamics"):
            require(key in data, f"the experiment does not say its {key}: add a [{key}] table.")
        try:
            nouns = {key: noun.from_dict(data[key], key) for key, noun in _NOUNS.items() if key in data}
        except RecursionError:
            raise SpecError("the experiment has settings nested too deeply to be read.") from None
        return cls(**nouns, **{key: data[key] for key in (*_NUMBERS, "observe") if key in data})

    @classmethod
    def from_toml(cls, path: str | Path) -> Experiment:
        """Read an experiment from a TOML file with tables [task], [model], [penalty], [dynamics], [init].

        A table [sweep] is for `afterfit sweep`, and left alone here.
        """
        data = cls.read_toml(path)
        cls.pop_sweep(data)
        return cls.from_dict(data)

    @staticmethod
    def pop_sweep(data: dict[str, Any]) -> dict[str, Any]:
        """Take the table [sweep] out of what a TOML file says; refuses what does not belong into it."""
        table = data.pop("sweep", {})
        require(isinstance(table, Mapping), f"[sweep] must be a table, got {table!r}.")
        for key in table:
            above = " Settings of the experiment stand above the first table." if key in _NUMBERS else ""
            require(key in _SWEEP, f"[sweep] has no {key!r}: {nearest(key, _SWEEP)}{above}")
        return table

    @staticmethod
    def read_toml(path: str | Path) -> dict[str, Any]:
        """What a TOML file says, as plain data."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")  # some editors begin a file with a byte-order mark
        except OSError as error:
            raise SpecError(f"cannot read {path}: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise SpecError(f"{path} is not a text file: an experiment is written in TOML.") from None
        try:
            return tomllib.loads(text)
        except ValueError as error:  # tomllib's own, and Python's of a number with thousands of digits
            raise SpecError(f"{path} is not valid TOML: {error}.") from None
        except RecursionError:
            raise SpecError(f"{path} has tables or lists nested too deeply to be read.") from None

    def to_toml(self) -> str:
        """This experiment as TOML, one dotted name a line: what `from_toml` and `afterfit run my.toml` read."""
        return spec_to_toml(self.to_dict())

    def set(self, changes: Mapping[str, Any]) -> Experiment:
        """A copy with some settings changed, by their dotted names: `{"penalty.strength": 1e-4}`.

        Setting a `kind` leaves out all settings of the old one: give those that the new one needs as well.
        """
        by_noun: dict[str, dict[str, Any]] = {}
        for path, value in changes.items():
            head, _, rest = path.partition(".")
            whole = head in _NUMBERS or (head in (*_NOUNS, "observe") and isinstance(value, Mapping))
            if not rest and not whole:
                raise SpecError(f"there is no setting {path!r}: {nearest(path, self._names())}")
            if rest and head not in (*_NOUNS, "observe"):
                raise SpecError(f"there is no {head!r} to set: {nearest(head, _NOUNS)}")
            by_noun.setdefault(head, {})[rest] = value
        parts = {}
        for head, changed in by_noun.items():
            if head in _NUMBERS:
                parts[head] = changed[""]
            else:
                parts[head] = self._set_observed(changed) if head == "observe" else self._set_noun(head, changed)
        return dataclasses.replace(self, **parts)

    def _set_observed(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """What is observed, with changes to all of it (named "") and to quantities by their dotted names."""
        observe = dict(changes.get("", self.observe))
        below: dict[str, dict[str, Any]] = {}
        for path, value in changes.items():
            name, _, rest = path.partition(".")
            if path and not rest:
                observe[name] = value
            elif path:
                below.setdefault(name, {})[rest] = value
        for name, deep in below.items():
            now = observe.get(name)
            where = f"observe.{name}"
            observe[name] = now.changed(deep, where) if isinstance(now, Quantity) else {**(now or {}), **deep}
        return observe

    def _set_noun(self, head: str, changes: Mapping[str, Any]) -> Any:
        """One noun with all its changes made together: they may only be possible together."""
        noun, family = getattr(self, head), _NOUNS[head]
        if "" in changes:  # a whole noun, given as a table
            return family.from_dict({**changes[""], **{k: v for k, v in changes.items() if k}}, head)
        own = [f.name for f in dataclasses.fields(noun)]
        for name in changes if "kind" not in changes else ():
            if name.partition(".")[0] not in own:
                path = f"{head}.{name}"
                raise SpecError(f"there is no setting {path!r}: {nearest(path, self._names())}")
        return noun.changed(changes, head)

    def _names(self) -> list[str]:
        """The dotted names of all settings."""
        return _paths(self.to_dict())

    def draw(self) -> Data:
        """The data of this experiment, as NumPy arrays: the same that its run sees."""
        return checked(self.task, self.task.draw(np.random.default_rng([self.seed, 0])))

    def __str__(self) -> str:
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)


def _as_quantities(observe: Any) -> dict[str, Quantity]:
    """What is to be observed, by name: quantities, functions f(params, data), or tables of plain data."""
    require(
        isinstance(observe, Mapping),
        f"observe is a table of quantities by name, such as {{'rank': af.quantities.EffectiveRank()}}, got "
        f"{observe!r:.60}.",
    )
    found = {}
    for name, quantity in observe.items():
        require(
            isinstance(name, str) and name.isidentifier(),
            f"a quantity is observed under a name, letters and digits such as 'rank', got {name!r}.",
        )
        if isinstance(quantity, Mapping):
            quantity = Quantity.from_dict(quantity, f"observe.{name}")
        if isinstance(quantity, type):
            raise SpecError(f"observe.{name} is a class, and has to be made: write {quantity.__name__}().")
        found[name] = quantity if isinstance(quantity, Quantity) else Function(quantity)
    return found


def _as_checkpoints(given: Any) -> int | tuple[float, ...]:
    """How many checkpoints, or the times of them, sorted."""
    if isinstance(given, np.ndarray | list | tuple):
        times = sorted({plain_number(time) for time in given})
        sound = all(isinstance(time, int | float) and 0 <= time < math.inf for time in times)
        require(sound and bool(times), f"checkpoints are a number of them, or times of 0 or more, got {given!r:.60}.")
        return tuple(float(time) for time in times)
    require(
        type(given) is int and given >= 0,
        f"checkpoints are a number of them, or a list of times, such as 20 or [1e2, 1e4], got {given!r:.60}.",
    )
    return given


_PLACES = {
    "task": "tasks",
    "model": "models",
    "penalty": "penalties",
    "dynamics": "dynamics",
    "init": "inits",
}


_TOLD: dict[int, tuple[weakref.ref[Spec], str]] = {}  # by the identity of nouns, while they are there


def _told(noun: Spec) -> str:
    """A noun as a line of JSON; `Untold` if that cannot tell what it computes.

    It is kept, for thousands of experiments of a sweep share their nouns; not if a class or function of the user's is
    in it, which may have changed the next time.
    """
    kept = _TOLD.get(id(noun))
    if kept is not None and kept[0]() is noun and not noun.company:
        return kept[1]
    codes = list(noun.codes())  # also so that all of it can be told
    try:
        text = json.dumps(noun.identity(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except TypeError as error:  # a noun whose own to_dict does not give plain data
        raise Untold(str(error)) from None
    if not codes:
        place = id(noun)
        _TOLD[place] = weakref.ref(noun, lambda _: _TOLD.pop(place, None)), text
    return text


def flatten(spec: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A specification by the dotted names that `--set` takes: `{"penalty.strength": 1e-4, …}`."""
    flat = {}
    for name, value in spec.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def spec_to_toml(spec: Mapping[str, Any]) -> str:
    """A specification, also one of a run that cannot be posed again, as TOML: one dotted name a line."""
    return "\n".join(f"{name} = {value_to_toml(value)}" for name, value in flatten(spec).items() if value is not None)


def value_to_toml(value: Any) -> str:
    """One value as TOML has it."""
    if isinstance(value, Mapping):
        parts = ((name if _BARE.fullmatch(name) else json.dumps(name), part) for name, part in value.items())
        return "{" + ", ".join(f"{name} = {value_to_toml(part)}" for name, part in parts if part is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(value_to_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)  # JSON has no inf
    return json.dumps(value, ensure_ascii=False)


def as_whole(value: Any) -> Any:
    """A whole number as Python's own, if it is one: NumPy's, JAX's, or 1e3 as TOML and the command line write it."""
    value = plain_number(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def is_id(name: str) -> bool:
    """Whether a name is one that `Experiment.id` gives."""
    return re.fullmatch("[0-9a-f]{16}", name) is not None


def _paths(data: Mapping[str, Any], prefix: str = "") -> list[str]:
    found = []
    for key, value in data.items():
        said = key in DEFINING and key != "kind"  # it follows from the class, and cannot be set
        found += [f"{prefix}{key}"] if not said and (prefix or not isinstance(value, dict)) else []
        found += _paths(value, f"{prefix}{key}.") if isinstance(value, dict) else []
    return found
