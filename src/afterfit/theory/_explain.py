"""One page on a run: which theorems speak to it, whether their assumptions hold, what they predict, what happened."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable

from afterfit._base import html
from afterfit._base.allowance import LEAST, seconds_left, within
from afterfit._base.progress import progress_bar
from afterfit._base.turns import interruptible
from afterfit._training.run import Run
from afterfit.theory._answers import Answers
from afterfit.theory._clocks import Clocks
from afterfit.theory._limits import Limits
from afterfit.theory._theorems import Case, Theorem

__all__ = ["Explanation", "Readings", "explain", "explained"]

_SHARE = 0.6  # of the time that is left, for the clocks and then for the limits


class Readings(Answers):
    """The theorems that speak to one run; `silent` says of the others why they do not."""

    def __str__(self) -> str:
        return "\n\n".join(map(str, self)) or "No theorem that is known here speaks to this run."

    def _repr_html_(self) -> str:
        read = "".join(theorem._repr_html_() for theorem in self)
        return (read or f"<p>{html.escape(self)}</p>") + self._silent_html()


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """What theory says of a run. Print it for the page.

    `readings` are the theorems that speak to it, by class, by name and in order.
    """

    verdict: str
    readings: Readings
    limits: Limits
    clocks: Clocks

    def __str__(self) -> str:
        others = "\n".join(f"  {theorem.name}: {why}" for theorem, why in self.readings.silent.items())
        parts = [
            self.verdict,
            str(self.readings),
            f"Where it could end\n{textwrap.indent(str(self.limits), '  ')}",
            f"When it should turn\n{textwrap.indent(str(self.clocks), '  ')}",
            f"Theorems that do not speak to it\n{others}" if others else "",
        ]
        return "\n\n".join(filter(None, parts))

    def __repr__(self) -> str:
        counts = f"{len(self.readings)} theorems, {len(self.limits)} limits and {len(self.clocks)} clocks"
        return f"<Explanation: {counts} of a run. {self.verdict}>"

    def _repr_html_(self) -> str:
        parts = (self.readings, self.limits, self.clocks)
        return f"<p>{html.escape(self.verdict)}</p>" + "".join(part._repr_html_() for part in parts)


def explain(run: Run, *, thorough: bool = False, progress: bool | None = None) -> Explanation:
    """Which theorem speaks to a run, whether its assumptions hold here, what it predicts, and what happened.

    It takes no longer than the run did, or 5 s if that is more: what would is left out, and says so. `thorough` leaves
    nothing out. `progress` shows a bar (None: on a terminal).

    ```python
    print(af.theory.explain(run))
    ```
    """
    with progress_bar("theory", progress) as show:
        return explained(run, thorough, show)


def explained(run: Run, thorough: bool, show: Callable[[float], None] | None = None) -> Explanation:
    """The same, for somebody who shows how far it is."""
    with within(math.inf if thorough else max(LEAST, run.seconds), show):
        return interruptible(lambda: _explanation(Case(run)))


def _explanation(case: Case) -> Explanation:
    # What is quick first: most clocks are formulas, and the constants of theorems can take long. None takes all.
    with within(_SHARE * seconds_left()):
        clocks = case.clocks
    with within(_SHARE * seconds_left()):
        limits = case.limits
    readings = Readings.of(Theorem.known(), case.instance, lambda theorem: theorem(case))
    return Explanation(str(case.run.verdict), readings, limits, clocks)
