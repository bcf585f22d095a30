"""Rules: what may apply to a problem, or not. One idiom for all of them.

A flow can be followed by some methods, foreseen by some theories, timed by some clocks; a log can be read by some
readers. Each is a class of one *family* that says what stands in its way, in words, or nothing; an instance of it is
the thing applied: a method that goes on, a clock that was told, a log that was opened.

A family is a subclass of `Rule`. A class of the family that has a `name` of its own is known from then on: there is no
list to be added to. What lies between (a base class of several rules) has no name. Others refer to a rule by its class,
never by its name, which is for people.

Where the first that applies is taken, rules are asked in the order of their `turn`: those for special cases early,
since they know most, those that take anything last.
"""

from __future__ import annotations

import abc
import importlib
import pkgutil
from typing import Any, ClassVar, Self

from afterfit._base.errors import require

__all__ = ["Rule", "discover", "register"]


class Rule(abc.ABC):
    """Something that may apply, or not.

    ```python
    class Reader(Rule):  # a family
        ...


    class Csv(Reader):  # one of the family, known by being defined
        name = "CSV"

        @classmethod
        def obstacle(cls, path):
            return None if path.suffix == ".csv" else "its name does not end in .csv"


    Reader.known()  # (Csv,)
    ```
    """

    name: ClassVar[str]
    turn: ClassVar[float] = 25.0  # before what says that it comes late, after what says that it comes early
    _known: ClassVar[dict[str, type[Rule]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if Rule in cls.__bases__:
            cls._known = {}
        elif "name" in cls.__dict__:
            cls.know()

    @classmethod
    def know(cls) -> None:
        """Have this rule known to its family, as defining it does."""
        # By where it was defined: a cell of a notebook that is run again replaces what it defined before.
        cls._known[f"{cls.__module__}.{cls.__qualname__}"] = cls

    @classmethod
    @abc.abstractmethod
    def obstacle(cls, *case: Any, **more: Any) -> str | None:
        """Why it does not apply, as a sentence without its full stop; None if it does."""

    @classmethod
    def known(cls) -> tuple[type[Self], ...]:
        """All of this family, in the order in which they were defined."""
        return tuple(rule for rule in cls._known.values() if issubclass(rule, cls))

    @classmethod
    def in_turn(cls) -> list[type[Self]]:
        """All of this family, in the order in which they are asked."""
        return sorted(cls.known(), key=lambda rule: rule.turn)


def register(known: dict[str, Any], name: str, cls: type) -> None:
    """Enter a class among those `known` by a name, which is refused to another class."""
    before = known.get(name, cls)
    one, other = (f"{kind.__module__}.{kind.__qualname__}" for kind in (cls, before))
    # By where they are defined: a module that is loaded again defines its classes again.
    require(one == other, f"{one} cannot be called {name}: so is {other}.")
    known[name] = cls


def discover(package: str) -> None:
    """Import every module of a package, so that the rules defined there are known: a new file needs no list."""
    path = importlib.import_module(package).__path__
    for module in sorted(pkgutil.iter_modules(path), key=lambda module: module.name):
        importlib.import_module(f"{package}.{module.name}")
