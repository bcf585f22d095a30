"""What the rules of a family say of one run: those that apply, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from afterfit._base import html
from afterfit._base.allowance import time_left
from afterfit._base.errors import Unanswered, nearest
from afterfit._base.rules import Rule
from afterfit.theory._instance import Instance

__all__ = ["Answers", "answer", "with_how"]


def answer(rule: type[Rule], instance: Instance, apply: Callable[[], Any]) -> Any:
    """What a rule gives when it is applied to an instance, or, in words, why it does not apply."""
    try:
        why = rule.obstacle(instance)  # which may take a while to see, too
        if why is not None:
            return why
        time_left()(0.0)
        return apply()
    except Unanswered as error:
        return str(error)


def with_how(source: str, how: str) -> str:
    """Where something is from, and how it was found if that is worth saying."""
    return f"{source}; {how}" if how else source


class Answers(tuple):
    """The rules of a family that apply to a run, in order: `told[0]`, by class or, for people, by name.

    ```python
    told[SlowTime]  # or told["1/λ"]; a KeyError that says why if it does not apply
    SlowTime in told
    told.silent[LabelNoiseTime]  # why it does not apply
    ```
    """

    silent: dict[type[Rule], str]

    @classmethod
    def of(cls, rules: Iterable[type[Rule]], instance: Instance, apply: Callable[[type[Any]], Any]) -> Self:
        """Each rule applied to an instance, if it can be."""
        answers = {rule: answer(rule, instance, lambda rule=rule: apply(rule)) for rule in rules}
        told = cls(found for found in answers.values() if not isinstance(found, str))
        told.silent = {rule: why for rule, why in answers.items() if isinstance(why, str)}
        return told

    def get(self, rule: type[Rule]) -> Any | None:
        """What a rule of the family gives, None if it does not apply."""
        if self._rule(rule) in self.silent:
            return None
        return self[rule]

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str | type):
            return super().__getitem__(key)
        rule = self._rule(key)
        if rule in self.silent:
            raise KeyError(f"{rule.name} does not apply: {self.silent[rule]}")
        return next(thing for thing in self if type(thing) is rule)

    def __contains__(self, key: object) -> bool:
        return self._rule(key) not in self.silent if isinstance(key, str | type) else super().__contains__(key)

    def _rule(self, key: str | type) -> type[Rule]:
        """The rule of a class or name, whether it applies or not."""
        asked = [*map(type, self), *self.silent]
        names = [rule.name for rule in asked]
        if isinstance(key, type):
            if key not in asked:
                raise KeyError(f"{key.__name__} is none of those that were asked: {', '.join(names)}")
            return key
        if key not in names:
            raise KeyError(f"nothing here is named {key!r}: {nearest(key, names)}")
        if names.count(key) > 1:
            classes = [rule.__name__ for rule in asked if rule.name == key]
            raise KeyError(f"several are named {key!r}: ask for one of the classes {', '.join(classes)}.")
        return asked[names.index(key)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(thing.name for thing in self) or 'none applies'}>"

    def _silent_html(self) -> str:
        """Those that do not apply, folded away."""
        return html.folded(
            f"{len(self.silent)} that do not apply", [f"{rule.name}: {why}" for rule, why in self.silent.items()]
        )
