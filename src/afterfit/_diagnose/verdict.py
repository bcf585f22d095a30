"""What diagnosis says, and where it draws its lines."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Self

from afterfit._base.errors import nearest, require
from afterfit._base.html import escape, listed
from afterfit._diagnose.thresholds import Criteria, Threshold
from afterfit._diagnose.words import number

__all__ = ["NUMBERS", "VERDICTS", "DiagnosisSettings", "Verdict"]


VERDICTS = (
    "grokking",
    "grokking under way",
    "misgrokking",
    "generalised with the fit",
    "never generalised",
    "never fitted",
    "training collapsed",
    "grokking without understanding",
    "diverged",
)
NUMBERS = (  # what a verdict says in numbers, each of which there may be none of
    "t_fit",
    "t_gen",
    "t_half",
    "delay_ratio",
    "delay",
    "width_decades",
    "width_relative",
    "progress",
    "t_expected",
)
_UNGENERALISED = ("misgrokking", "never generalised", "grokking under way", "grokking without understanding")


@dataclasses.dataclass(frozen=True)
class DiagnosisSettings:
    """Where diagnosis draws its lines. Every default can be changed: `DiagnosisSettings(delay=10.0)`.

    - `delay`: t_gen / t_fit from which generalisation counts as delayed. Both times depend on thresholds and
      on where the observations lie: asking an exponentially falling error for 10⁻⁴ instead of 10⁻² already
      doubles its time. A ratio of 3, half a decade, is the first that such choices do not explain.
    - `fall`: the factor that makes a change of error count. A transition takes the test error down by at
      least this factor; a threshold, once met, is lost when the error ends more than this factor above it.
    - `lasting`: decades of time that a state must last to count; 0.3 is a factor of two. What was met for
      less and lost again never was; a level is settled when it has been held so long at the end.
    - `patience`: how brief a lapse is forgiven. A threshold counts as met throughout if a lapse takes at most
      this share of the log time for which it was met before the lapse, and of that for which it is met after.
    - `end`: decades at the end of the run that give the end level; 0.05 is the last tenth of the training time.
      Up to four times as many where they hold fewer than five observations; a sparser curve ends where its last
      observation is.
    - `begun`: the share of the way from its plateau to its threshold that a late rise of the test curve must have
      made to count as grokking under way; errors go their way in logs.
    - `rank`: Spearman rank correlation from which the test error is said to move with a norm.
    - `blowup`: a training error that ends this many times above where it began has diverged.
    """

    delay: float = 3.0
    fall: float = 2.0
    lasting: float = 0.3
    patience: float = 0.1
    end: float = 0.05
    begun: float = 0.25
    rank: float = 0.9
    blowup: float = 1e3

    def __post_init__(self):
        for name in ("delay", "fall", "blowup"):
            value = getattr(self, name)
            require(value > 1, f"diagnosis setting {name} is a factor and must exceed 1, got {value!r}.")
        for name in ("lasting", "end"):
            value = getattr(self, name)
            require(value > 0, f"diagnosis setting {name} is in decades and must be positive, got {value!r}.")
        for name in ("patience", "begun", "rank"):
            value = getattr(self, name)
            require(0 < value < 1, f"diagnosis setting {name} must lie between 0 and 1, got {value!r}.")


@dataclasses.dataclass(frozen=True, repr=False)
class Verdict:
    """What the curves show.

    `kind` is one of `VERDICTS`. `t_fit` and `t_gen` are the times from which the thresholds are met and stay
    met; where that was lost again (training collapsed, misgrokking) they are when it was first met. A time is
    `None` where there is none, and `inf` where it has no float: the evidence then gives its logarithm.

    `t_half` is when the test curve is half-way between its levels before and after the transition, and
    `width_decades` how long it takes from 10 % to 90 % of the way, in log₁₀ time; `width_relative` is that
    stretch of time divided by t_gen, or by t_half where the transition does not lead to generalisation.
    `plateaus` holds the levels `train_end`, `test_after` (both at the end) and, where there is a transition,
    `test_before`, in the units of the curves. `fitted_at_first_sight` says that the first observation was
    fitted already, so that t_fit is an upper bound and the delay a lower one.

    Of grokking under way, `progress` is the share of the way from the plateau to the threshold that is done, and
    `t_expected` the time at which the test curve would get there at its present pace: a guess, no forecast.
    """

    kind: str
    t_fit: float | None
    t_gen: float | None
    delay_ratio: float | None
    delay: float | None
    width_decades: float | None
    width_relative: float | None
    plateaus: dict[str, float]
    evidence: tuple[str, ...]
    criteria: Criteria
    fitted_at_first_sight: bool = False
    progress: float | None = None
    t_expected: float | None = None
    t_half: float | None = None

    def __post_init__(self):
        require(self.kind in VERDICTS, f"unknown verdict {self.kind!r}: {nearest(str(self.kind), VERDICTS)}")

    def __str__(self) -> str:
        facts = []
        if self.t_fit is not None:
            facts.append(f"fitted at t={number(self.t_fit)}")
        if self.t_gen is not None:
            facts.append(f"generalised at t={number(self.t_gen)}")
        if self.kind == "grokking" and self.delay_ratio is not None:
            facts.append(f"delay {'at least ' if self.fitted_at_first_sight else ''}x{number(self.delay_ratio)}")
        if self.kind in ("never fitted", "training collapsed"):
            facts.append(f"train {self.criteria.train.like} {number(self.plateaus['train_end'])} at the end")
        if self.kind in _UNGENERALISED:
            facts.append(f"test {self.criteria.test.like} {number(self.plateaus['test_after'])} at the end")
        if self.progress is not None and self.t_expected is not None:
            before, goal = number(self.plateaus["test_before"]), number(self.criteria.test.value)
            facts.append(f"{math.floor(100 * self.progress)} % of the way from {before} to {goal}")
            facts.append(f"at its present pace there at t={number(self.t_expected)}")
        return f"{self.kind.capitalize()}: {', '.join(facts)}" if facts else self.kind.capitalize()

    def __repr__(self) -> str:
        return f"<Verdict {self}>"

    def describe(self) -> str:
        """The verdict and its evidence, one sentence a line."""
        return "\n".join([str(self), *(f"  - {sentence}" for sentence in self.evidence)])

    def _repr_html_(self) -> str:
        return f"<p><strong>{escape(self)}</strong></p>{listed(self.evidence)}"

    def to_dict(self) -> dict[str, Any]:
        """This verdict as plain data, ready for JSON (which has no infinity: it is written as `"inf"`)."""
        data = dataclasses.asdict(self)
        data["evidence"] = list(self.evidence)
        return {name: str(v) if isinstance(v, float) and math.isinf(v) else v for name, v in data.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The verdict that `to_dict` wrote."""
        fields = [f.name for f in dataclasses.fields(cls)]
        for name in data:
            require(name in fields, f"{name} is not part of a verdict: {nearest(name, fields)}")
        missing = [f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING and f.name not in data]
        require(not missing, f"a verdict needs a value for {', '.join(missing)}.")
        values = dict(data)
        for name in NUMBERS:
            values[name] = None if data.get(name) is None else float(data[name])
        values["plateaus"] = {name: float(level) for name, level in data["plateaus"].items()}
        values["evidence"] = tuple(data["evidence"])
        values["criteria"] = Criteria(**{name: Threshold(**t) for name, t in data["criteria"].items()})
        return cls(**values)
