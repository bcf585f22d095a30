"""One page on a run: which theorems speak to it, whether their assumptions hold, what they predict, what happened."""

from __future__ import annotations

import dataclasses
import textwrap

from afterfit.run import Run
from afterfit.theory.clocks import Clocks
from afterfit.theory.limits import Limits
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
    """What theory says of a run. Print it for the page; `silent` says of the other theorems why they do not speak."""

    verdict: str
    readings: tuple[Reading, ...]
    limits: Limits
    clocks: Clocks
    silent: dict[str, str]

    def __str__(self) -> str:
        theorems = "\n\n".join(map(str, self.readings)) or "No theorem of the four papers speaks to this run."
        others = "\n".join(f"  {name}: {why}" for name, why in self.silent.items())
        parts = [
            self.verdict,
            theorems,
            f"Where it could end\n{textwrap.indent(str(self.limits), '  ')}",
            f"When it should turn\n{textwrap.indent(str(self.clocks), '  ')}",
            f"Theorems that do not speak to it\n{others}" if others else "",
        ]
        return "\n\n".join(filter(None, parts))

    __repr__ = __str__


def explain(run: Run) -> Explanation:
    """Which theorem speaks to a run, whether its assumptions hold here, what it predicts, and what happened.

    ```python
    print(af.theory.explain(run))
    ```
    """
    case = Case(run)
    readings, silent = [], {}
    with computing():
        for theorem in THEOREMS:
            why = theorem.obstacle(case.instance)
            if why is not None:
                silent[theorem.name] = why
                continue
            checks, outcomes = tuple(theorem.assumptions(case)), tuple(theorem.outcomes(case))
            readings.append(Reading(theorem.name, theorem.says, checks, outcomes))
    return Explanation(str(run.verdict), tuple(readings), case.limits, case.clocks, silent)
