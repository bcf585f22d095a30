"""One curve read as an error over log time: its level at the end, and how long it meets its threshold."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
from numpy.typing import NDArray

from afterfit._diagnose.thresholds import Threshold
from afterfit._diagnose.verdict import DiagnosisSettings
from afterfit._diagnose.words import at, number

FEWEST = 3  # observations: below this one stray point would decide
_SAMPLES = 101  # of a curve, evenly spread in log time, to take a median
_HEEDED = 5  # observations at the end: with fewer, a robust line follows a single stray one …
_NEIGHBOURS = 41  # at most, of an observation, that its noise is told by
_FURTHEST = 4  # … but it looks no further back than this many times the settings' `end`, however few they are
_AS_GOOD = 0.1  # of the threshold: below it one error is as good as another
_HOVERING = 0.5  # lapses within the slack of the threshold are forgiven up to this share of the time it is met


@dataclasses.dataclass(frozen=True)
class Errors:
    """One curve, read as an error over log time τ.

    Between observations the error goes straight in logs over log time, as it falls by factors, but not below a
    tenth of its threshold: whether the next observation is 10⁻⁹ or 0 must not say when a threshold was crossed.
    All that is decided is decided on this line, so that observations added on it change nothing.
    """

    name: str
    tau: NDArray
    curve: NDArray
    threshold: Threshold
    settings: DiagnosisSettings

    @classmethod
    def observed(
        cls, name: str, tau: NDArray, values: NDArray, threshold: Threshold, settings: DiagnosisSettings
    ) -> Errors:
        """The curve at the positive times at which it has a value."""
        there = (tau > -np.inf) & np.isfinite(values)
        return cls(name, tau[there], values[there], threshold, settings)

    @property
    def ceiling(self) -> float:
        """The perfect accuracy: 1, or 100 where the threshold is in percent."""
        return self.threshold.ceiling

    @property
    def observed_error(self) -> NDArray:
        if self.threshold.like == "error":
            return self.curve
        return np.maximum(self.ceiling - self.curve, 0.0)  # rounding, or noise, may exceed the ceiling

    @functools.cached_property
    def error(self) -> NDArray:
        """The error without the noise that a dense log tells from its signal."""
        return _running_median(self.tau, self.observed_error, self.settings.end)

    @property
    def level(self) -> float:
        """The error at the threshold."""
        return self.threshold.value if self.threshold.like == "error" else self.ceiling - self.threshold.value

    @property
    def floor(self) -> float:
        return _AS_GOOD * self.level

    @functools.cached_property
    def end(self) -> float:
        """The error at the end: the last observation, kept between a robust line through the last stretch and its
        median.

        The stretch takes `end` decades of the settings, or five observations where these take longer, but no more than
        four times `end`. So a sparse curve ends where its last observation is, a curve that still improves where it has
        got to, and in a dense one neither noise nor a stray last observation decides.
        """
        s = self.settings
        reach = self.tau[-1] - self.tau[max(0, self.tau.size - _HEEDED)]
        start = max(self.tau[0], self.tau[-1] - np.clip(reach, s.end, _FURTHEST * s.end))
        samples = self.between(start, self.tau[-1])
        low, high = sorted((_end_of_line(samples), float(np.median(samples))))
        if low <= self.floor * (1 + 1e-9):
            low = 0.0  # the samples tell nothing below the floor, but for rounding
        return float(np.clip(self.error[-1], low, high))

    def between(self, start: float, stop: float) -> NDArray:
        """The error at times evenly spread in log time, so that no grid of observations weighs more."""
        tau = np.linspace(start, stop, _SAMPLES)
        straight = np.interp(tau, self.tau, self.error)
        if self.tau.size < 2:
            return straight
        i = np.clip(np.searchsorted(self.tau, tau), 1, self.tau.size - 1)
        in_logs = self._goes_in_logs(self.error[i - 1], self.error[i])
        floored = np.maximum(self.error, self.floor)
        logs = np.log(np.where(floored > 0, floored, 1.0))
        return np.where(in_logs, np.exp(np.interp(tau, self.tau, logs)), straight)

    def _goes_in_logs(self, one: NDArray, other: NDArray) -> NDArray:
        """Whether the error goes from `one` to `other` in logs: not below the floor, nor where there are none."""
        return (np.maximum(one, other) > self.floor) & (np.maximum(np.minimum(one, other), self.floor) > 0)

    def cut(self, *levels: float) -> tuple[NDArray, NDArray]:
        """Log times and errors with every crossing of the levels among them: no two are on opposite sides of one."""
        tau, error = self.tau, self.error
        for level in levels:
            over = error > level
            i = np.flatnonzero(over[1:] != over[:-1]) + 1
            before, after = error[i - 1], error[i]
            in_logs = self._goes_in_logs(before, after)
            low = np.maximum(np.minimum(before, after), self.floor)
            a, b, c = (_logs(x, low, in_logs) for x in (before, after, np.full(i.size, level)))
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.clip(np.where(a == b, 1.0, (c - a) / (b - a)), 0, 1)
            where = tau[i - 1] + share * (tau[i] - tau[i - 1])
            tau, error = np.insert(tau, i, where), np.insert(error, i, level)
        return tau, error

    def value(self, error: float) -> float:
        """`error` in the units of the curve."""
        return error if self.threshold.like == "error" else self.ceiling - error

    def say(self, error: float) -> str:
        return number(self.value(error))

    def way(self, before: float, now: float) -> float:
        """The share of the way from the error `before` to the threshold that is done; of an error in logs."""
        if self.threshold.like == "error" and min(before, now, self.level) > 0:
            before, now, goal = np.log(before), np.log(now), np.log(self.level)
        else:
            goal = self.level
        return float((before - now) / (before - goal))

    @property
    def what(self) -> str:
        return f"{self.name} {self.threshold.like}"

    @property
    def met(self) -> str:
        """The condition in words: `test accuracy ≥ 0.95`."""
        return f"{self.what} {'≤' if self.threshold.like == 'error' else '≥'} {number(self.threshold.value)}"

    @property
    def improves(self) -> str:
        return "falls" if self.threshold.like == "error" else "rises"


def _running_median(tau: NDArray, values: NDArray, reach: float) -> NDArray:
    """The median of the observations up to `reach` decades before and after each, as many on either side.

    Where that is fewer than five in all, noise cannot be told from signal, and values stay as they are; as they do
    wherever they go one way only.
    """
    i = np.arange(tau.size)
    sides = np.minimum(i - np.searchsorted(tau, tau - reach), np.searchsorted(tau, tau + reach, side="right") - 1 - i)
    smooth = values.copy()
    dense = np.flatnonzero(2 * sides + 1 >= _HEEDED)
    for part in np.array_split(dense, 1 + dense.size // 100_000):  # a bound on memory
        around = part[:, None] + np.rint(sides[part, None] * np.linspace(-1, 1, _NEIGHBOURS)).astype(int)
        middle = _NEIGHBOURS // 2
        smooth[part] = np.partition(values[around], middle, axis=1)[:, middle]  # the median, faster
    return smooth


def _logs(values: NDArray, low: NDArray, in_logs: NDArray) -> NDArray:
    """Logs of `values`, but for what is below `low`, where `in_logs`; elsewhere the values themselves."""
    return np.where(in_logs, np.log(np.where(in_logs, np.maximum(values, low), 1.0)), values)


def slope(samples: NDArray) -> float:
    """How far a robust line (Theil–Sen: the median of all slopes) through even samples goes from first to last."""
    i, j = np.triu_indices(samples.size, 1)
    return float(np.median((samples[j] - samples[i]) / (j - i))) * (samples.size - 1)


def _end_of_line(samples: NDArray) -> float:
    """Where a robust line through even samples ends, in logs if they have them."""
    logs = samples.min() > 0
    y = np.log(samples) if logs else samples
    end = float(np.median(y + slope(y) * np.linspace(1, 0, y.size)))
    return float(np.exp(end)) if logs else end


@dataclasses.dataclass(frozen=True)
class Hold:
    """The log time for which a condition held before each knot of a curve, less a multiple of that of its lapses.

    Two stretches are worth joining across a lapse when the surplus of each outweighs it: a lapse counts
    1/`patience` times, so the condition must have held that many times as long, before it and after it.
    """

    tau: NDArray
    error: NDArray
    met: NDArray
    surplus: NDArray

    @classmethod
    def of(cls, curve: Errors, level: float, *, above: bool = False, slack: float = 1.0) -> Hold:
        """How long the error is at most `level` (`above`: at least), lapses up to `slack` times `level` being mild."""
        tau, error = curve.cut(level, *([slack * level] if slack > 1 else []))
        worst = (np.minimum if above else np.maximum)(error[1:], error[:-1])
        met = worst >= level if above else worst <= level
        cost = np.where(worst <= slack * level, 1 / _HOVERING, 1 / curve.settings.patience)
        spans = np.diff(tau)
        return cls(tau, error, met, np.concatenate([[0.0], np.cumsum(np.where(met, spans, -cost * spans))]))

    def begins(self, knot: int) -> float:
        """When the stretch begins that ends at or after `knot`: at the lowest surplus until then.

        The last one, since observations too close for their log times to differ leave the surplus as it is.
        """
        return float(self.tau[knot - int(np.argmin(self.surplus[knot::-1]))])

    def best(self) -> tuple[float, float]:
        """When the stretch of largest surplus begins and ends; where it was only touched, that time twice."""
        if not self.met.any():
            touched = float(self.tau[np.argmin(self.error)])
            return touched, touched
        last = int(np.argmax(self.surplus[1:] - np.minimum.accumulate(self.surplus[:-1])))
        return self.begins(last), float(self.tau[last + 1])


def stays_from(curve: Errors, level: float, *, above: bool = False, slack: float = 1.0) -> float | None:
    """The log time from which the error is at most `level` (`above`: at least) to the end, lapses forgiven."""
    if curve.end < level if above else curve.end > level:
        return None
    hold = Hold.of(curve, level, above=above, slack=slack)
    if hold.error[-1] >= level if above else hold.error[-1] <= level:
        return hold.begins(hold.tau.size - 1)
    held = np.flatnonzero(hold.met)  # a stray observation comes last
    return hold.begins(int(held[-1])) if held.size else float(curve.tau[-1])


@dataclasses.dataclass(frozen=True)
class Spell:
    """When a curve met its threshold, in log time: from `start` to `lost`, or to the end if that is None.

    `lasted` says whether that is long enough to count; what did not last is not lost either.
    """

    start: float
    lost: float | None
    lasted: bool
    sentence: str


def spell_of(curve: Errors) -> Spell | None:
    """The spell that lasts to the end, else the longest that was lost, else None."""
    level, s = curve.level, curve.settings
    start = stays_from(curve, level, slack=s.fall)
    if start is not None:
        since = curve.tau >= start
        lapses = int(np.sum(curve.observed_error[since] > level))
        notes = [f"but for {lapses} of {int(np.sum(since))} observations"] if lapses else []
        notes += ["already at the first observation"] if start == curve.tau[0] else []
        note = f" ({', '.join(notes)})" if notes else ""
        return Spell(start, None, True, f"{curve.met} from {at(start)} to the end{note}.")
    if not np.any(curve.error <= level):
        return None
    start, lost = Hold.of(curve, level, slack=s.fall).best()
    lasted = lost - start >= s.lasting
    ends = f"{curve.say(curve.end)} at the end"
    if not lasted:
        return Spell(start, lost, False, f"{curve.met} too briefly to count, about {at(start)}; {ends}.")
    held = f"{curve.met} from {at(start)} to {at(lost)}"
    # A threshold needs some slack to be lost, or a level that hovers at it would be a collapse.
    near = stays_from(curve, s.fall * level)
    if near is not None and near <= lost:
        kept = f"an error within a factor {number(s.fall)} of the threshold's counts as kept"
        return Spell(start, None, True, f"{held}, and {ends} ({kept}).")
    return Spell(start, lost, True, f"{held}, then lost: {ends}.")


def sentence(curve: Errors, spell: Spell | None) -> str:
    if spell is not None:
        return spell.sentence
    best = curve.say(float(np.min(curve.observed_error)))
    return f"never {curve.met}: {curve.say(curve.end)} at the end, {best} at best."
