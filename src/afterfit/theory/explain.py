"""One page on a run: which theorems speak to it, whether their assumptions hold, what they predict, what happened."""

from __future__ import annotations

import dataclasses
import textwrap

from afterfit.run import Run
from afterfit.theory.limits import Limits
from afterfit.theory.named import Named
from afterfit.theory.theorems import THEOREMS, Case, Check, Outcome
from afterfit.turns import computing

__all__ = ["Explanation", "Reading", "explain"]

_MARKS = {True: "✓", False: "✗", None: "?"}


@dataclasses.dataclass(frozen=True)
class Reading:
    """One theorem read on one run."""

    theorem: str
    says: str
    checks: tuple[Check, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def applies(self) -> bool | None:
        """Whether all assumptions hold; None where some cannot be told."""
        known = [check.holds for check in self.checks if check.needed]
        return False if False in known else None if None in known else True

    def __str__(self) -> str:
        verdict = {
            True: "its assumptions hold here",
            False: "its assumptions do not all hold here",
            None: "not all of its assumptions can be told",
        }[self.applies]
        lines = [
            f"{self.theorem}: {verdict}",
            *textwrap.wrap(self.says, 100, initial_indent="  ", subsequent_indent="  "),
        ]
        lines += [f"    {_MARKS[c.holds] if c.needed else '·'} {c.name}: {c.number}" for c in self.checks]
        lines += [f"    → {outcome.predicts}: {outcome.happened}" for outcome in self.outcomes]
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What theory says of a run. Print it for the page."""

    verdict: str
    readings: tuple[Reading, ...]
    limits: Limits
    clocks: Named

    def __str__(self) -> str:
        theorems = "\n\n".join(map(str, self.readings)) or "No theorem of the four papers speaks to this run."
        parts = [self.verdict, theorems, f"Where it could end\n{textwrap.indent(str(self.limits), '  ')}"]
        if self.clocks:
            parts.append(f"When it should turn\n{textwrap.indent(str(self.clocks), '  ')}")
        return "\n\n".join(parts)

    __repr__ = __str__


def explain(run: Run) -> Explanation:
    """Which theorem speaks to a run, whether its assumptions hold here, what it predicts, and what happened.

    ```python
    print(af.theory.explain(run))
    ```
    """
    case = Case(run)
    readings = []
    with computing():
        for theorem in THEOREMS:
            if theorem.speaks(case.instance):
                checks, outcomes = tuple(theorem.assumptions(case)), tuple(theorem.outcomes(case))
                readings.append(Reading(theorem.name, theorem.says, checks, outcomes))
    return Explanation(str(run.verdict), tuple(readings), case.limits, case.clocks)
