"""What a theorem is here: a sentence, assumptions with their numbers, and what it predicts of a run."""

from __future__ import annotations

import abc
import dataclasses
import functools
import textwrap
from collections.abc import Iterator
from typing import ClassVar

from afterfit._base import html
from afterfit._base.allowance import time_left
from afterfit._base.errors import Unanswered
from afterfit._base.rules import Rule
from afterfit._training.run import Run
from afterfit.theory._clocks import Clock, Clocks, clocks_of
from afterfit.theory._instance import Instance, instance_of
from afterfit.theory._limits import Limit, Limits, limits_of
from afterfit.theory._stationarity import Stationarity, kkt

__all__ = ["Case", "Check", "Outcome", "Theorem", "seen", "smooth", "timed"]


@dataclasses.dataclass(frozen=True)
class Check:
    """One assumption on this instance: the number it comes to, and whether it holds (None: it cannot be told).

    What is not `needed` is worth knowing, but the theorem does without it.
    """

    name: str
    number: str
    holds: bool | None
    needed: bool = True


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a theorem predicts and what the run did."""

    predicts: str
    happened: str


class Case:
    """A run with what theory knows of it, each computed once."""

    def __init__(self, run: Run):
        self.run, self.instance = run, instance_of(run)

    @functools.cached_property
    def limits(self) -> Limits:
        return limits_of(self.instance)

    @functools.cached_property
    def clocks(self) -> Clocks:
        return clocks_of(self.instance, self.run)

    @property
    def kkt(self) -> Stationarity | None:
        """How far the end is from a KKT point of the rich regime's program; None if that cannot be told."""
        found = self.kkt_or_reason
        return None if isinstance(found, str) else found

    @functools.cached_property
    def kkt_or_reason(self) -> Stationarity | str:
        """The same, or why it cannot be told."""
        try:
            time_left()(0.0)
            return kkt(self.instance.problem, self.instance.end)
        except Unanswered as error:
            return str(error)

    def near(self, *kinds: type[Limit]) -> Iterator[tuple[Limit, str]]:
        """How far the run ended from some limits, in words, of those that apply."""
        for kind in kinds:
            limit = self.limits.get(kind)
            if limit is not None:
                yield limit, f"{limit.distance:.2g} from {limit.name} (its test {self.run.metric} {limit.test:.3g})"


_MARKS = {True: "✓", False: "✗", None: "?"}
_VERDICTS = {
    True: "its assumptions hold here",
    False: "its assumptions do not all hold here",
    None: "not all of its assumptions can be told",
}


class Theorem(Rule):
    """A theorem, read on one run. `name` is where it is found, `says` what it says in a sentence.

    `checks` are its assumptions held against the run's own instance, `outcomes` what it predicts and what happened.

    One of your own says which runs it is about (`obstacle`), what it assumes (`assumptions`) and what it predicts
    (`predictions`).
    """

    says: ClassVar[str]

    checks: tuple[Check, ...]
    outcomes: tuple[Outcome, ...]

    def __init__(self, case: Case):
        self.checks, self.outcomes = tuple(self.assumptions(case)), tuple(self.predictions(case))

    @classmethod
    @abc.abstractmethod
    def obstacle(cls, instance: Instance) -> str | None:
        """Why a run like this is not what it is about; None if it is."""

    @abc.abstractmethod
    def assumptions(self, case: Case) -> Iterator[Check]:
        """What it assumes, held against this instance."""

    @abc.abstractmethod
    def predictions(self, case: Case) -> Iterator[Outcome]:
        """What it predicts here, and what happened."""

    @property
    def applies(self) -> bool | None:
        """Whether all assumptions hold; None where some cannot be told."""
        known = [check.holds for check in self.checks if check.needed]
        return False if False in known else None if None in known else True

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {_VERDICTS[self.applies]}",
            *textwrap.wrap(self.says, 100, initial_indent="  ", subsequent_indent="  "),
        ]
        return "\n".join([*lines, *(f"    {mark} {what}: {number}" for mark, what, number in self._rows())])

    def __repr__(self) -> str:
        found = f"{len(self.checks)} checks, {len(self.outcomes)} outcomes"
        return f"<{type(self).__name__}: applies {self.applies}, {found}>"

    def _repr_html_(self) -> str:
        caption = f"{self.name}: {_VERDICTS[self.applies]}. {self.says}"
        return html.table(("", "assumes (→ predicts)", "here"), self._rows(), caption)

    def _rows(self) -> list[tuple[str, str, str]]:
        checks = [(_MARKS[check.holds] if check.needed else "·", check.name, check.number) for check in self.checks]
        return [*checks, *(("→", outcome.predicts, outcome.happened) for outcome in self.outcomes)]


def smooth(instance: Instance, name: str) -> Check:
    """Whether the model is smooth in its parameters, under the name that the theorem gives to it."""
    model = instance.experiment.model
    kind = type(model).__name__
    if model.smooth is None:
        return Check(name, f"not known of {kind}", None)
    if not model.smooth:
        return Check(name, f"{kind} has kinks", False)
    # What is smooth at 0 and homogeneous of a whole degree is one.
    return Check(name, "a polynomial of the parameters" if model.degree else f"{kind} says so", True)


def timed(case: Case, *kinds: type[Clock]) -> Iterator[Outcome]:
    """What some clocks predict, of those that apply."""
    for kind in kinds:
        told = case.clocks.get(kind)
        if told is not None:
            sign = "of order" if told.promise == "order" else told.promise
            yield Outcome(f"{told.event} {sign} {told.prediction:.3g} ({told.name})", seen(told))


def seen(told: Clock) -> str:
    """What the run did of what a clock told."""
    if told.measured is None:
        return "not seen"
    what = "the test metric is half-way at" if told.event == "turn" else "at"
    return f"{what} {told.measured:.3g}, {told.ratio:.2g} of it"
