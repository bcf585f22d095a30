"""One curve read as an error over log time, and how long it meets its threshold."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from afterfit.criteria import Threshold
from afterfit.diagnose.verdict import Settings
from afterfit.diagnose.words import at, number
from afterfit.spec import require

FEWEST = 3  # observations: below this one stray point would decide
_SAMPLES = 101  # of a curve, evenly spread in log time, to take a median


@dataclasses.dataclass(frozen=True)
class Errors:
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
        return slice(min(begins, self.tau.size - FEWEST), None)

    @property
    def end(self) -> float:
        """The error at the end: a median, so that one stray observation decides nothing."""
        return float(np.median(self.error[self.tail]))

    def first(self, count: int) -> Errors:
        """The first `count` observations."""
        return dataclasses.replace(self, tau=self.tau[:count], curve=self.curve[:count])

    def between(self, start: float, stop: float) -> NDArray:
        """The error at times evenly spread in log time, so that no grid of observations weighs more."""
        return np.interp(np.linspace(start, stop, _SAMPLES), self.tau, self.error)

    def value(self, error: float) -> float:
        """`error` in the units of the curve."""
        return error if self.threshold.like == "error" else self.ceiling - error

    def say(self, error: float) -> str:
        return number(self.value(error))

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


def stays_from(tau: NDArray, error: NDArray, level: float, tail: slice, patience: float) -> int | None:
    """The first observation from which `error` ≤ `level` until the end, lapses forgiven; None if not so."""
    if np.median(error[tail]) > level:
        return None
    met = error <= level
    return _lowest(_surplus(tau, met, patience)[: np.flatnonzero(met)[-1] + 1])


def best_stretch(tau: NDArray, met: NDArray, patience: float) -> tuple[int, int]:
    """The first and last observation of the stretch of largest surplus."""
    surplus = _surplus(tau, met, patience)
    last = int(np.argmax(surplus[1:] - np.minimum.accumulate(surplus[:-1])))
    return _lowest(surplus[: last + 1]), last


def crossing(tau: NDArray, values: NDArray, i: int, level: float, *, logs: bool) -> float:
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


@dataclasses.dataclass(frozen=True)
class Spell:
    """When a curve met its threshold, in log time: from `start` to `lost`, or to the end if that is None."""

    start: float
    lost: float | None
    lasted: bool
    sentence: str


def spell_of(curve: Errors) -> Spell | None:
    """The spell that lasts to the end, else the longest that was lost, else None."""
    tau, error, level, s = curve.tau, curve.error, curve.level, curve.settings
    met = error <= level
    first = stays_from(tau, error, level, curve.tail, s.patience)
    if first is not None:
        start = crossing(tau, error, first, level, logs=True)
        lapses = int(np.sum(~met[first:]))
        notes = [f"but for {lapses} of {tau.size - first} observations"] if lapses else []
        notes += ["already at the first observation"] if first == 0 else []
        note = f" ({', '.join(notes)})" if notes else ""
        return Spell(start, None, True, f"{curve.met} from {at(start)} to the end{note}.")
    if not met.any():
        return None
    first, last = best_stretch(tau, met, s.patience)
    start = crossing(tau, error, first, level, logs=True)
    lost = crossing(tau, error, last + 1, level, logs=True)
    lasted = lost - start >= s.lasting
    held = f"{curve.met} from {at(start)} to {at(lost)}"
    # A threshold needs some slack to be lost, or a level that hovers at it would be a collapse.
    near = stays_from(tau, error, s.fall * level, curve.tail, s.patience)
    if lasted and near is not None and near <= last:
        kept = f"an error within a factor {number(s.fall)} of the threshold's counts as kept"
        return Spell(start, None, True, f"{held}, and {curve.say(curve.end)} at the end ({kept}).")
    brief = "" if lasted else f", too briefly to count ({number(lost - start)} decades)"
    return Spell(start, lost, lasted, f"{held}{brief}, then lost: {curve.say(curve.end)} at the end.")


def sentence(curve: Errors, spell: Spell | None) -> str:
    if spell is not None:
        return spell.sentence
    best = curve.say(float(np.min(curve.error)))
    return f"never {curve.met}: {curve.say(curve.end)} at the end, {best} at best."
