"""What a pair of training curves shows: when it fitted, when it generalised, and one verdict in words.

Only the curves are used, so a run of `afterfit` and a CSV file from elsewhere are diagnosed alike.

Everything is done on errors over log time. An accuracy a is read as the error 1 − a (100 − a in percent), and
time as τ = log₁₀ t: grokking lives on a log axis, and a verdict must not depend on the unit of time.
"""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from afterfit.criteria import Criteria, Threshold
from afterfit.spec import SpecError, nearest, require

__all__ = ["VERDICTS", "Settings", "Verdict", "diagnose", "explain_criteria", "guess_criteria", "read_csv"]

VERDICTS = (
    "grokking",
    "misgrokking",
    "generalised with the fit",
    "never generalised",
    "never fitted",
    "training collapsed",
    "grokking without understanding",
    "diverged",
)

_FEWEST = 3  # observations: below this one stray point would decide
_TRANSITION = (0.1, 0.9)  # the shares of a passage between which its width is measured
_SAMPLES = 101  # of a curve, evenly spread in log time, to take a median


@dataclasses.dataclass(frozen=True)
class Settings:
    """Where diagnosis draws its lines. Every default can be changed: `Settings(delay=10.0)`.

    - `delay`: t_gen / t_fit from which generalisation counts as delayed. Both times depend on thresholds and
      on where the observations lie: asking an exponentially falling error for 10⁻⁴ instead of 10⁻² already
      doubles its time. A ratio of 3, half a decade, is the first that such choices do not explain.
    - `fall`: the factor that makes a change of error count. A transition takes the test error down by at
      least this factor; a threshold, once met, is lost when the error ends more than this factor above it.
    - `lasting`: decades of time that a state must last to count; 0.3 is a factor of two. What was met for
      less and lost again never was; a level is settled when it has been held so long at the end.
    - `patience`: how brief a lapse is forgiven. A threshold counts as met throughout if a lapse takes at most
      this share of the log time for which it was met before the lapse, and of that for which it is met after.
    - `end`: decades at the end of the run whose median is the end level, three observations at least; 0.05 is
      the last tenth of the training time.
    - `rank`: Spearman rank correlation from which the test error is said to move with a norm.
    - `blowup`: a training error that ends this many times above where it began has diverged.
    """

    delay: float = 3.0
    fall: float = 2.0
    lasting: float = 0.3
    patience: float = 0.1
    end: float = 0.05
    rank: float = 0.9
    blowup: float = 1e3

    def __post_init__(self):
        for name in ("delay", "fall", "blowup"):
            value = getattr(self, name)
            require(value > 1, f"diagnosis setting {name} is a factor and must exceed 1, got {value!r}.")
        for name in ("lasting", "end"):
            value = getattr(self, name)
            require(value > 0, f"diagnosis setting {name} is in decades and must be positive, got {value!r}.")
        for name in ("patience", "rank"):
            value = getattr(self, name)
            require(0 < value < 1, f"diagnosis setting {name} must lie between 0 and 1, got {value!r}.")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the curves show.

    `kind` is one of `VERDICTS`. `t_fit` and `t_gen` are the times from which the thresholds are met and stay
    met; where that was lost again (training collapsed, misgrokking) they are when it was first met. A time is
    `None` where there is none, and `inf` where it has no float: the evidence then gives its logarithm.

    `width_decades` is how long the test curve takes from 10 % to 90 % of the way between its levels before
    and after the transition, in log₁₀ time; `width_relative` is that stretch of time divided by t_gen, or by
    the time of half-way where the transition does not lead to generalisation. `plateaus` holds the levels
    `train_end`, `test_after` (both at the end) and, where there is a transition, `test_before`, in the units
    of the curves.
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

    def __post_init__(self):
        require(self.kind in VERDICTS, f"unknown verdict {self.kind!r}: {nearest(str(self.kind), VERDICTS)}")

    def __str__(self) -> str:
        facts = []
        if self.t_fit is not None:
            facts.append(f"fitted at t={_number(self.t_fit)}")
        if self.t_gen is not None:
            facts.append(f"generalised at t={_number(self.t_gen)}")
        if self.kind == "grokking" and self.delay_ratio is not None:
            facts.append(f"delay x{_number(self.delay_ratio)}")
        if self.kind in ("never fitted", "training collapsed"):
            facts.append(f"train {self.criteria.train.like} {_number(self.plateaus['train_end'])} at the end")
        if self.kind in ("misgrokking", "never generalised", "grokking without understanding"):
            facts.append(f"test {self.criteria.test.like} {_number(self.plateaus['test_after'])} at the end")
        return f"{self.kind.capitalize()}: {', '.join(facts)}" if facts else self.kind.capitalize()

    def describe(self) -> str:
        """The verdict and its evidence, one sentence a line."""
        return "\n".join([str(self), *(f"  - {sentence}" for sentence in self.evidence)])

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
        missing = [name for name in fields if name not in data]
        require(not missing, f"a verdict needs a value for {', '.join(missing)}.")
        values = dict(data)
        for name in ("t_fit", "t_gen", "delay_ratio", "delay", "width_decades", "width_relative"):
            values[name] = None if data[name] is None else float(data[name])
        values["plateaus"] = dict(data["plateaus"])
        values["evidence"] = tuple(data["evidence"])
        values["criteria"] = Criteria(**{name: Threshold(**t) for name, t in data["criteria"].items()})
        return cls(**values)


def diagnose(
    time: ArrayLike,
    train: ArrayLike,
    test: ArrayLike,
    criteria: Criteria,
    *,
    norms: Mapping[str, ArrayLike] | None = None,
    diverged: bool = False,
    log10_time: ArrayLike | None = None,
    settings: Settings = Settings(),
) -> Verdict:
    """What the curves `train` and `test` over `time` show, by the thresholds in `criteria`.

    `time` increases. It may begin at 0, the initialisation, which has no place on a log axis: the first
    positive time is the resolution, and what is met by then is reported at that time. Where times are too
    large for a float, give `log10_time`, which is then used instead. `norms` are further curves, by name,
    that a falling test error is compared with. `diverged` says that training stopped for numerical reasons; a
    curve that is not finite says so itself. What happened before is diagnosed either way.

    ```python
    t = np.logspace(-2, 6, 161)
    verdict = diagnose(t, np.exp(-t), 1 / (1 + (t / 1e4) ** 4), Criteria.errors(fit=1e-2, generalise=0.05))
    print(verdict)  # Grokking: fitted at t=4.6, generalised at t=2.1e4, delay x4.5e3
    print(verdict.describe())  # the same with its evidence
    ```
    """
    tau = _log_time(np.asarray(time, dtype=float), log10_time)
    # t = 0 (log -inf) is the initialisation: it says nothing about times that the next observation does not.
    later = tau > -np.inf
    count = int(np.sum(later))
    require(count >= _FEWEST, f"diagnosis needs at least {_FEWEST} observations at positive times, got {count}.")

    def column(name: str, values: ArrayLike) -> NDArray:
        array = np.asarray(values, dtype=float)
        require(
            array.shape == tau.shape,
            f"{name} must have one value for each of the {tau.size} times, got shape {array.shape}.",
        )
        return array[later]

    train_errors = _Errors("train", tau[later], column("train", train), criteria.train, settings)
    test_errors = _Errors("test", tau[later], column("test", test), criteria.test, settings)
    others = {name: column(f"norm {name}", norm) for name, norm in (norms or {}).items()}
    good = _until_divergence(train_errors, test_errors)
    if diverged or good < train_errors.tau.size:
        return _judge_divergence(train_errors, test_errors, others, good)
    return _judge(train_errors, test_errors, others)


def _log_time(time: NDArray, log10_time: ArrayLike | None) -> NDArray:
    """τ = log₁₀ t, checked."""
    require(time.ndim == 1, f"time must be a list of numbers, got an array of shape {time.shape}.")
    if log10_time is None:
        require(
            bool(np.all(np.isfinite(time)) and np.all(time >= 0)),
            "time must be finite and not negative; give log10_time where times are too large for a float.",
        )
        with np.errstate(divide="ignore"):
            tau = np.log10(time)
    else:
        tau = np.asarray(log10_time, dtype=float)
        require(
            tau.shape == time.shape,
            f"log10_time has shape {tau.shape} and time {time.shape}: make them alike.",
        )
        require(bool(np.all(tau < np.inf)), "log10_time must be made of finite numbers (-inf for t=0).")
    clock = time if log10_time is None else tau
    backwards = np.flatnonzero(clock[1:] <= clock[:-1])
    if backwards.size:
        raise SpecError(f"time must increase, but observation {backwards[0] + 1} (counted from 0) does not.")
    return tau


# ---------------------------------------------------------------------------------------------------- curves


@dataclasses.dataclass(frozen=True)
class _Errors:
    """One curve, read as an error over log time τ."""

    name: str
    tau: NDArray
    curve: NDArray
    threshold: Threshold
    settings: Settings

    def __post_init__(self):
        value = self.threshold.value
        if self.threshold.like == "error":
            require(value >= 0, f"the {self.name} threshold of an error must not be negative, got {value!r}.")
        else:
            require(
                value <= 100,
                f"the {self.name} threshold of an accuracy is at most 1, or 100 in percent, got {value!r}.",
            )

    @property
    def ceiling(self) -> float:
        """The perfect accuracy: 1, or 100 where the threshold is in percent."""
        return 1.0 if self.threshold.value <= 1 else 100.0

    @property
    def error(self) -> NDArray:
        return self.curve if self.threshold.like == "error" else self.ceiling - self.curve

    @property
    def level(self) -> float:
        """The error at the threshold."""
        return self.threshold.value if self.threshold.like == "error" else self.ceiling - self.threshold.value

    @property
    def tail(self) -> slice:
        """The observations that give the end level."""
        begins = int(np.searchsorted(self.tau, self.tau[-1] - self.settings.end))
        return slice(min(begins, self.tau.size - _FEWEST), None)

    @property
    def end(self) -> float:
        """The error at the end: a median, so that one stray observation decides nothing."""
        return float(np.median(self.error[self.tail]))

    def first(self, count: int) -> _Errors:
        """The first `count` observations."""
        return dataclasses.replace(self, tau=self.tau[:count], curve=self.curve[:count])

    def between(self, start: float, stop: float) -> NDArray:
        """The error at times evenly spread in log time, so that no grid of observations weighs more."""
        return np.interp(np.linspace(start, stop, _SAMPLES), self.tau, self.error)

    def value(self, error: float) -> float:
        """`error` in the units of the curve."""
        return error if self.threshold.like == "error" else self.ceiling - error

    def say(self, error: float) -> str:
        return _number(self.value(error))

    @property
    def what(self) -> str:
        return f"{self.name} {self.threshold.like}"

    @property
    def met(self) -> str:
        """The condition in words: `test accuracy ≥ 0.95`."""
        return f"{self.what} {'≤' if self.threshold.like == 'error' else '≥'} {_number(self.threshold.value)}"

    @property
    def improves(self) -> str:
        return "falls" if self.threshold.like == "error" else "rises"


def _surplus(tau: NDArray, met: NDArray, patience: float) -> NDArray:
    """Log time for which `met` held before each observation, less 1/patience times that for which it did not.

    Two stretches are worth joining across a lapse when the surplus of each outweighs it, that is when `met`
    held 1/patience times as long as the lapse, before it and after it.
    """
    stands_for = np.diff(np.concatenate([tau[:1], (tau[1:] + tau[:-1]) / 2, tau[-1:]]))
    return np.concatenate([[0.0], np.cumsum(np.where(met, stands_for, -stands_for / patience))])


def _lowest(surplus: NDArray) -> int:
    """Where the stretch begins that ends with `surplus`: at its minimum.

    The last one, since observations too close for their log times to differ leave the surplus as it is.
    """
    return surplus.size - 1 - int(np.argmin(surplus[::-1]))


def _stays_from(tau: NDArray, error: NDArray, level: float, tail: slice, patience: float) -> int | None:
    """The first observation from which `error` ≤ `level` until the end, lapses forgiven; None if not so."""
    if np.median(error[tail]) > level:
        return None
    met = error <= level
    return _lowest(_surplus(tau, met, patience)[: np.flatnonzero(met)[-1] + 1])


def _best_stretch(tau: NDArray, met: NDArray, patience: float) -> tuple[int, int]:
    """The first and last observation of the stretch of largest surplus."""
    surplus = _surplus(tau, met, patience)
    last = int(np.argmax(surplus[1:] - np.minimum.accumulate(surplus[:-1])))
    return _lowest(surplus[: last + 1]), last


def _crossing(tau: NDArray, values: NDArray, i: int, level: float, *, logs: bool) -> float:
    """The log time at which `values` crosses `level` between observations i − 1 and i.

    It is interpolated, so that it hardly depends on the grid, and never before the last observation on the
    other side. With `logs` the value is interpolated in logs, where it can be: errors fall by factors.
    """
    if i == 0:
        return float(tau[0])
    if i == tau.size:
        return float(tau[-1])
    before, after = values[i - 1], values[i]
    if logs and min(before, after, level) > 0:
        before, after, level = np.log(before), np.log(after), np.log(level)
    share = (level - before) / (after - before)
    return float(tau[i - 1] + np.clip(share, 0, 1) * (tau[i] - tau[i - 1]))


# ---------------------------------------------------------------------------------------------------- states


@dataclasses.dataclass(frozen=True)
class _Spell:
    """When a curve met its threshold, in log time: from `start` to `lost`, or to the end if that is None."""

    start: float
    lost: float | None
    lasted: bool
    sentence: str


def _spell(curve: _Errors) -> _Spell | None:
    """The spell that lasts to the end, else the longest that was lost, else None."""
    tau, error, level, s = curve.tau, curve.error, curve.level, curve.settings
    met = error <= level
    first = _stays_from(tau, error, level, curve.tail, s.patience)
    if first is not None:
        start = _crossing(tau, error, first, level, logs=True)
        lapses = int(np.sum(~met[first:]))
        notes = [f"but for {lapses} of {tau.size - first} observations"] if lapses else []
        notes += ["already at the first observation"] if first == 0 else []
        note = f" ({', '.join(notes)})" if notes else ""
        return _Spell(start, None, True, f"{curve.met} from {_at(start)} to the end{note}.")
    if not met.any():
        return None
    first, last = _best_stretch(tau, met, s.patience)
    start = _crossing(tau, error, first, level, logs=True)
    lost = _crossing(tau, error, last + 1, level, logs=True)
    lasted = lost - start >= s.lasting
    held = f"{curve.met} from {_at(start)} to {_at(lost)}"
    # A threshold needs some slack to be lost, or a level that hovers at it would be a collapse.
    near = _stays_from(tau, error, s.fall * level, curve.tail, s.patience)
    if lasted and near is not None and near <= last:
        kept = f"an error within a factor {_number(s.fall)} of the threshold's counts as kept"
        return _Spell(start, None, True, f"{held}, and {curve.say(curve.end)} at the end ({kept}).")
    brief = "" if lasted else f", too briefly to count ({_number(lost - start)} decades)"
    return _Spell(start, lost, lasted, f"{held}{brief}, then lost: {curve.say(curve.end)} at the end.")


def _sentence(curve: _Errors, spell: _Spell | None) -> str:
    if spell is not None:
        return spell.sentence
    best = curve.say(float(np.min(curve.error)))
    return f"never {curve.met}: {curve.say(curve.end)} at the end, {best} at best."


@dataclasses.dataclass(frozen=True)
class _Passage:
    """The way of a curve from the level `before` to `after`: log times of 10 %, 50 % and 90 % of it."""

    before: float
    after: float
    begins: float
    middle: float
    ends: float
    spacing: float  # of the observations around the middle, in decades

    @property
    def width(self) -> float:
        return self.ends - self.begins

    def relative_to(self, tau: float) -> float:
        """The time from 10 % to 90 %, divided by the time 10^τ."""
        return _difference(self.ends - tau, self.begins - tau)


def _passage(curve: _Errors, before: float, after: float) -> _Passage | None:
    """The passage between two levels, either way, measured in the curve's own (linear) units."""
    if before == after:
        return None
    done = (curve.error - before) / (after - before)
    low, high = _TRANSITION
    half = _stays_from(curve.tau, -done, -0.5, curve.tail, curve.settings.patience)
    if half is None or not np.any(done[:half] < low):
        return None
    first = int(np.flatnonzero(done[:half] < low)[-1]) + 1
    reached = np.flatnonzero(done[half:] >= high)
    last = half + int(reached[0]) if reached.size else done.size
    crossings = ((first, low), (half, 0.5), (last, high))
    begins, middle, ends = (_crossing(curve.tau, done, i, share, logs=False) for i, share in crossings)
    return _Passage(before, after, begins, middle, ends, float(curve.tau[half] - curve.tau[half - 1]))


def _fall(curve: _Errors, start: float, stop: float) -> _Passage | None:
    """The fall of `curve` from its level after `start` to its end level, begun before `stop`.

    The level before is the median, in log time, from `start` to the fall. Where that is, is first told from
    the height that the curve exceeds for a tenth of the time: a maximum that no spike decides.
    """
    after = curve.end
    if stop <= start:
        return None
    top = float(np.quantile(curve.between(start, stop), 0.9))
    if top <= after:
        return None
    half = (top + after) / 2
    i = _stays_from(curve.tau, curve.error, half, curve.tail, curve.settings.patience)
    fallen = stop if i is None else min(_crossing(curve.tau, curve.error, i, half, logs=False), stop)
    if fallen <= start:
        return None
    return _passage(curve, float(np.median(curve.between(start, fallen))), after)


def _settled(curve: _Errors, fall: _Passage) -> bool:
    """Whether nine tenths of the fall (in log error) were over before the last `lasting` decades."""
    earlier = float(np.interp(curve.tau[-1] - curve.settings.lasting, curve.tau, curve.error))
    return earlier <= fall.after * (fall.before / fall.after) ** (1 - _TRANSITION[1])


@dataclasses.dataclass(frozen=True)
class _Companion:
    """A norm that the test error moves with during its fall; `explains` if it falls by a like factor."""

    explains: bool
    sentence: str


def _companions(curve: _Errors, fall: _Passage, norms: Mapping[str, NDArray]) -> list[_Companion]:
    """The norms whose ranks go with those of the error between 10 % and 90 % of its fall.

    Ranks alone cannot tell cause from company, since a fall and a decaying norm are both monotone. A norm
    explains the fall when it falls with it by a like factor: by at least the square root of the error's.
    """
    found = []
    during = (curve.tau >= fall.begins) & (curve.tau <= fall.ends)
    for name, norm in norms.items():
        seen = during & np.isfinite(norm)
        x, y = norm[seen], curve.error[seen]
        if x.size < 5 or np.ptp(x) == 0 or np.ptp(y) == 0:
            continue  # too few observations, or a constant, have no ranks
        from scipy.stats import spearmanr  # on first use: it takes a second to import

        rank = float(spearmanr(x, y).statistic)  # pyright: ignore[reportAttributeAccessIssue]
        if abs(rank) < curve.settings.rank:
            continue
        explains, factors = False, ""
        if min(x[0], x[-1], y[0], y[-1]) > 0:
            norm_rise, error_rise = (float(np.log10(z[-1]) - np.log10(z[0])) for z in (x, y))
            explains = rank > 0 and norm_rise <= error_rise / 2
            factors = f", {_times(norm_rise)} for the error's {_times(error_rise)}"
        moves = f"over that passage the test error moves with the norm {name}"
        found.append(_Companion(explains, f"{moves} (rank correlation {rank:+.2f}{factors})."))
    return found


# --------------------------------------------------------------------------------------------------- verdicts


def _judge(train: _Errors, test: _Errors, norms: Mapping[str, NDArray]) -> Verdict:
    """The verdict on curves that are finite throughout."""
    fit, gen = _spell(train), _spell(test)
    evidence = [_sentence(train, fit), _sentence(test, gen)]
    if fit is None or fit.lost is not None:
        fit, gen = (spell if spell is not None and spell.lasted else None for spell in (fit, gen))
        kind = "never fitted" if fit is None else "training collapsed"
        return _verdict(kind, train, test, fit, gen, None, evidence)
    if gen is None or gen.lost is not None:
        return _judge_ungeneralised(train, test, fit, gen, norms, evidence)
    return _judge_generalised(train, test, fit, gen, norms, evidence)


def _judge_generalised(
    train: _Errors, test: _Errors, fit: _Spell, gen: _Spell, norms: Mapping[str, NDArray], evidence: list[str]
) -> Verdict:
    """Fitted and generalised at the end: late, or with the fit."""
    s = test.settings
    decades = gen.start - fit.start
    late = decades >= np.log10(s.delay)
    passage = _fall(test, fit.start if late else test.tau[0], gen.start)
    at_least = "at least " if fit.start == train.tau[0] < gen.start else ""
    evidence.append(f"t_gen / t_fit is {at_least}{_times(decades)}; a delay starts at x{_number(s.delay)}.")
    if passage is not None:
        evidence.append(_say_passage(test, passage))
    # A curve that was at its threshold all along and drifts across it has made no transition.
    drift = late and (passage is None or passage.before < s.fall * test.level)
    if drift:
        evidence.append(
            f"between the two the test error is already within a factor {_number(s.fall)} of the threshold: "
            "it crosses late, but makes no transition."
        )
    if late and not drift and passage is not None:
        evidence += [c.sentence for c in _companions(test, passage, norms)]
        return _verdict("grokking", train, test, fit, gen, passage, evidence)
    return _verdict("generalised with the fit", train, test, fit, gen, passage, evidence)


def _judge_ungeneralised(
    train: _Errors,
    test: _Errors,
    fit: _Spell,
    gen: _Spell | None,
    norms: Mapping[str, NDArray],
    evidence: list[str],
) -> Verdict:
    """Fitted but not generalised at the end: it was lost, it fell short, or it never began."""
    s = test.settings
    if gen is not None and gen.lasted and gen.lost is not None and gen.lost >= fit.start - np.log10(s.delay):
        good = float(np.median(test.between(gen.start, gen.lost)))
        loss = _passage(test, good, test.end)
        if loss is not None:
            evidence.append(_say_passage(test, loss))
        return _verdict("misgrokking", train, test, fit, gen, loss, evidence)

    fall = _fall(test, fit.start, test.tau[-1])
    if fall is None or fall.before < s.fall * fall.after:
        factor = _number(max(1.0, fall.before / fall.after if fall else 1.0))
        evidence.append(f"since the fit the test error has fallen by x{factor}; a transition takes x{_number(s.fall)}.")
        return _verdict("never generalised", train, test, fit, None, None, evidence)
    evidence.append(_say_passage(test, fall))
    if fall.middle - fit.start < np.log10(s.delay):
        evidence.append(f"that is {_times(fall.middle - fit.start)} the time of the fit: no delay.")
        return _verdict("never generalised", train, test, fit, None, fall, evidence)
    companions = _companions(test, fall, norms)
    evidence += [c.sentence for c in companions]
    if _settled(test, fall):
        above = f", {_number(fall.after / test.level)} times the threshold's error" if test.level > 0 else ""
        evidence.append(f"it then settles at {test.say(fall.after)}{above}.")
    else:
        evidence.append(f"it still {test.improves} at the end: a longer run could tell where it settles.")
        if not any(c.explains for c in companions):
            return _verdict("never generalised", train, test, fit, None, fall, evidence)
    return _verdict("grokking without understanding", train, test, fit, None, fall, evidence)


def _until_divergence(train: _Errors, test: _Errors) -> int:
    """How many observations precede divergence: a value that is not finite, or a training error blown up."""
    strange = np.flatnonzero(~(np.isfinite(train.curve) & np.isfinite(test.curve)))
    good = int(strange[0]) if strange.size else train.tau.size
    if good < _FEWEST or train.threshold.like == "accuracy":
        return good
    tame = train.first(good)
    bound = train.settings.blowup * max(tame.error[0], tame.level)
    if 0 < bound < tame.end:
        good = int(np.flatnonzero(tame.error <= bound)[-1]) + 1
    return good


def _judge_divergence(train: _Errors, test: _Errors, norms: Mapping[str, NDArray], good: int) -> Verdict:
    """Divergence after the first `good` observations, with the verdict on those."""
    if good == train.tau.size:
        cause = f"training stopped for numerical reasons after {_at(train.tau[-1])}."
    elif np.isfinite(train.curve[good]) and np.isfinite(test.curve[good]):
        factor = _number(train.settings.blowup)
        cause = f"the train error has grown by more than x{factor} at {_at(train.tau[good])}."
    else:
        name = "train" if not np.isfinite(train.curve[good]) else "test"
        cause = f"the {name} curve is not a finite number at {_at(train.tau[good])}."
    if good < _FEWEST:
        few = f"only {good} observations precede it: too few to diagnose."
        criteria = Criteria(train.threshold, test.threshold)
        return Verdict("diverged", None, None, None, None, None, None, {}, (cause, few), criteria)
    earlier = _judge(train.first(good), test.first(good), {name: norm[:good] for name, norm in norms.items()})
    return dataclasses.replace(
        earlier, kind="diverged", evidence=(cause, f"until then: {earlier.kind}.", *earlier.evidence)
    )


def _verdict(
    kind: str,
    train: _Errors,
    test: _Errors,
    fit: _Spell | None,
    gen: _Spell | None,
    passage: _Passage | None,
    evidence: Sequence[str],
) -> Verdict:
    """The verdict with its numbers, in the units of the user."""
    t_fit, t_gen = (None if spell is None else _ten(spell.start) for spell in (fit, gen))
    ratio = delay = None
    if fit is not None and gen is not None:
        ratio = _ten(gen.start - fit.start)
        delay = _difference(gen.start, fit.start)
    plateaus = {"train_end": train.value(train.end), "test_after": test.value(test.end)}
    width = relative = None
    if passage is not None:
        plateaus["test_before"] = test.value(passage.before)
        width = passage.width
        relative = passage.relative_to(passage.middle if gen is None or gen.lost is not None else gen.start)
    return Verdict(
        kind=kind,
        t_fit=t_fit,
        t_gen=t_gen,
        delay_ratio=ratio,
        delay=delay,
        width_decades=width,
        width_relative=relative,
        plateaus=plateaus,
        evidence=tuple(evidence),
        criteria=Criteria(train.threshold, test.threshold),
    )


# ------------------------------------------------------------------------------------------------------ words

_TOP = float(np.log10(np.finfo(float).max))


def _ten(tau: float) -> float:
    """10^τ, inf where that has no float."""
    return float(10.0**tau) if tau < _TOP else math.inf


def _difference(late: float, early: float) -> float:
    """10^late − 10^early; ±inf where that has no float."""
    if max(late, early) < _TOP:
        return _ten(late) - _ten(early)
    return math.copysign(math.inf, late - early) if late != early else 0.0


def _number(x: float) -> str:
    """A number as one writes it: 0.01, 42, 3.0e5."""
    if x == 0 or not math.isfinite(x) or 1e-2 <= abs(x) < 999.5:
        return f"{x:.3g}"
    mantissa, exponent = f"{x:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _at(tau: float) -> str:
    """The time 10^τ in words, by its logarithm where it has no float."""
    return f"t={_number(_ten(tau))}" if abs(tau) < _TOP else f"t=10^{tau:.6g}"


def _times(decades: float) -> str:
    """The factor 10^decades in words."""
    return f"x{_number(_ten(decades))}" if abs(decades) < _TOP else f"x10^{decades:.6g}"


def _say_passage(curve: _Errors, passage: _Passage) -> str:
    better = passage.after < passage.before
    goes = curve.improves if better else {"falls": "rises", "rises": "falls"}[curve.improves]
    coarse = (
        f", no sharper than the observations can tell, {_number(passage.spacing)} decades apart"
        if passage.width < 2 * passage.spacing
        else ""
    )
    return (
        f"{curve.what} {goes} from {curve.say(passage.before)} to {curve.say(passage.after)}, half-way at "
        f"{_at(passage.middle)}, from 10 % to 90 % within {_number(passage.width)} decades{coarse}."
    )


# -------------------------------------------------------------------------------------- curves from elsewhere


def guess_criteria(
    train: ArrayLike,
    test: ArrayLike,
    like: str | tuple[str, str] | None = None,
    fit: float | None = None,
    generalise: float | None = None,
) -> Criteria:
    """Criteria for curves of which nothing is known; say what was guessed with `explain_criteria`.

    What is given is used; the rest is guessed. `like` is `"error"` or `"accuracy"` for both curves, or a pair
    of these for train and test. Without it, a curve is an accuracy if it stays within [0, 1] and ends above
    its first value, or within [0, 100] and also passes 50 (then it is in percent); otherwise it is an error.
    Beside a training accuracy, a test curve whose values allow it is an accuracy too, whichever way it goes,
    since the test accuracy of a misgrokking run falls.

    Accuracies are fitted at 0.99 and generalised at 0.95 (99 and 95 in percent). Errors are fitted at 1 % of
    the first training error and generalised at 10 % of the first test error: looser, since a test error has a
    floor (noise, finite data) that a training error has not.

    ```python
    guess_criteria([2.3, 1e-4], [2.3, 0.1])  # errors: fitted at ≤ 0.023, generalised at ≤ 0.23
    ```
    """
    train_like, test_like = (like, like) if like is None or isinstance(like, str) else like
    train_values, test_values = _finite("train", train), _finite("test", test)
    train_scale = _accuracy_scale(train_values, train_like)
    test_scale = _accuracy_scale(test_values, test_like, beside=train_scale)
    return Criteria(
        _guess_threshold("train", train_values, train_scale, fit, 0.99, 0.01),
        _guess_threshold("test", test_values, test_scale, generalise, 0.95, 0.1),
    )


def _finite(name: str, curve: ArrayLike) -> NDArray:
    values = np.asarray(curve, dtype=float)
    values = values[np.isfinite(values)]
    require(values.size > 0, f"the {name} curve has no finite value to guess its threshold from.")
    return values


def _accuracy_scale(values: NDArray, like: str | None, beside: float | None = None) -> float | None:
    """1 or 100 for an accuracy, None for an error; `beside` is the scale of the training accuracy, if any."""
    if like is not None:
        Threshold(like, 0.0)  # refuses an unknown word, naming the known ones
    if like == "error" or (like is None and (values.min() < 0 or values.max() > 100)):
        return None
    if beside is not None and values.max() <= beside:
        return beside
    rises = np.median(values[-max(1, values.size // 10) :]) > values[0]
    if values.max() <= 1:
        return 1.0 if like or rises else None
    return 100.0 if like or (rises and values.max() > 50) else None  # a rising test loss stays below 50


def _guess_threshold(
    name: str, values: NDArray, scale: float | None, given: float | None, accuracy: float, share: float
) -> Threshold:
    if scale is not None:
        return Threshold("accuracy", accuracy * scale if given is None else given)
    if given is None:
        require(
            values[0] > 0,
            f"the first {name} error is {values[0]:g}, which gives no scale: say at which error "
            f"it counts as {'fitted' if name == 'train' else 'generalised'}.",
        )
        given = share * float(values[0])
    return Threshold("error", given)


def explain_criteria(criteria: Criteria) -> str:
    """The criteria as one sentence: how each curve is read and what it has to reach."""
    words = [
        f"{name} is read as an {t.like}, {done} at {'≤' if t.like == 'error' else '≥'} {_number(t.value)}"
        for name, t, done in (("train", criteria.train, "fitted"), ("test", criteria.test, "generalised"))
    ]
    return "; ".join(words) + "."


def read_csv(path: str | Path, *, time: str, train: str, test: str, norms: Sequence[str] = ()) -> dict[str, NDArray]:
    """The named columns of a CSV file, as arrays `time`, `train`, `test` and one by the name of each norm.

    The first line names the columns; they are separated by commas, semicolons or tabs. `nan` and `inf` are
    numbers here: a curve may diverge.

    ```python
    curves = read_csv("log.csv", time="step", train="train_loss", test="val_loss")
    verdict = diagnose(**curves, criteria=guess_criteria(curves["train"], curves["test"]))
    ```
    """
    columns = {"time": time, "train": train, "test": test}
    for name in norms:
        require(name not in columns, f"a norm cannot be a column called {name!r}: rename it in the file.")
    columns |= {name: name for name in norms}
    path = Path(path)
    require(path.is_file(), f"there is no file {path}.")
    with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets may write a byte-order mark
        header = file.readline()
        require(bool(header.strip()), f"{path} is empty: its first line must name the columns.")
        separator = max(",;\t", key=lambda s: len(next(csv.reader([header], delimiter=s))))
        names = [name.strip() for name in next(csv.reader([header], delimiter=separator))]
        for column in columns.values():
            require(column in names, f"{path} has no column {column!r}: {nearest(column, names)}")
        # Rows are counted as an editor shows them: the header is line 1.
        rows = [(line, row) for line, row in enumerate(csv.reader(file, delimiter=separator), 2) if any(row)]
    require(bool(rows), f"{path} is empty: it names its columns and has no rows.")
    data = {
        key: np.array([_cell(path, line, row, names.index(column), column) for line, row in rows])
        for key, column in columns.items()
    }
    backwards = np.flatnonzero(~(data["time"][1:] > data["time"][:-1]))
    if backwards.size:
        i = backwards[0] + 1
        raise SpecError(
            f"{path}, line {rows[i][0]}: time must increase, but column {time!r} goes from "
            f"{data['time'][i - 1]:g} to {data['time'][i]:g}. A log of several runs has to be split."
        )
    return data


def _cell(path: Path, line: int, row: list[str], index: int, column: str) -> float:
    text = row[index].strip() if index < len(row) else ""
    try:
        return float(text)
    except ValueError:
        what = f"{text!r} is not a number" if text else "the cell is empty"
        raise SpecError(f"{path}, line {line}, column {column!r}: {what}.") from None
