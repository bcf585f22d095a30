"""The way of a curve from one level to another: when, how sharply, and with which norm."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from afterfit._diagnose.curve import Errors, slope, stays_from
from afterfit._diagnose.words import at, difference, number, times

_TRANSITION = (0.1, 0.9)  # the shares of a passage between which its width is measured
_CRAWL = 0.05  # of the way that a curve has come: it makes less in `lasting` decades if it has settled
_SOON = 1.0  # decades within which a curve that crawls is expected to arrive, if it has not settled


@dataclasses.dataclass(frozen=True)
class Passage:
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
        return difference(self.ends - tau, self.begins - tau)


def passage_between(curve: Errors, before: float, after: float) -> Passage | None:
    """The passage between two levels, either way; its shares are those of the error, not of its logarithm."""
    if before == after:
        return None
    worsens = after > before
    low, half, high = (before + share * (after - before) for share in (_TRANSITION[0], 0.5, _TRANSITION[1]))
    middle = stays_from(curve, half, above=worsens)
    if middle is None:
        return None
    tau, error = curve.cut(low, half, high)
    left = (error < low) if worsens else (error > low)  # not begun yet
    done = (error >= high) if worsens else (error <= high)
    earlier, later = tau[left & (tau <= middle)], tau[done & (tau >= middle)]
    if not earlier.size:
        return None
    begins = tau[np.searchsorted(tau, earlier[-1], side="right") :][:1]  # the crossing that follows
    i = int(np.clip(np.searchsorted(curve.tau, middle), 1, curve.tau.size - 1))
    return Passage(
        before,
        after,
        begins=float(begins[0]),
        middle=middle,
        ends=float(later[0]) if later.size else float(tau[-1]),
        spacing=float(curve.tau[i] - curve.tau[i - 1]),
    )


def fall_of(curve: Errors, start: float, stop: float) -> Passage | None:
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
    fallen = stays_from(curve, (top + after) / 2)
    fallen = stop if fallen is None else min(fallen, stop)
    if fallen <= start:
        return None
    return passage_between(curve, float(np.median(curve.between(start, fallen))), after)


def expected(curve: Errors, fall: Passage) -> float | None:
    """The log time at which a curve that still improves would meet its threshold at its present pace; None if settled.

    It has settled if `lasting` decades at this pace make less than a twentieth of the way that it has come, and a
    decade does not take it to its threshold. The pace is that of a robust line through what follows nine tenths of
    the fall: through the last `lasting` decades at least, and four times as many at most.
    """
    lasting = curve.settings.lasting
    stretch = float(np.clip(curve.tau[-1] - fall.ends, lasting, 4 * lasting))
    ways = [curve.way(fall.before, error) for error in curve.between(curve.tau[-1] - stretch, curve.tau[-1])]
    pace = slope(np.array(ways)) / stretch
    done = curve.way(fall.before, fall.after)
    crawls = pace * lasting < _CRAWL * done
    if pace <= 0 or (crawls and pace * _SOON < 1 - done):
        return None
    return float(curve.tau[-1] + (1 - done) / pace)


@dataclasses.dataclass(frozen=True)
class Companion:
    """A norm that the test error moves with during its fall; `explains` if it falls by a like factor."""

    explains: bool
    sentence: str


def companions_of(curve: Errors, fall: Passage, norms: Mapping[str, NDArray]) -> list[Companion]:
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
            factors = f", {times(norm_rise)} for the error's {times(error_rise)}"
        moves = f"over that passage the test error moves with the norm {name}"
        found.append(Companion(explains, f"{moves} (rank correlation {rank:+.2f}{factors})."))
    return found


def say_passage(curve: Errors, passage: Passage) -> str:
    better = passage.after < passage.before
    goes = curve.improves if better else {"falls": "rises", "rises": "falls"}[curve.improves]
    coarse = (
        f", no sharper than the observations can tell, {number(passage.spacing)} decades apart"
        if passage.width < 2 * passage.spacing
        else ""
    )
    return (
        f"{curve.what} {goes} from {curve.say(passage.before)} to {curve.say(passage.after)}, half-way at "
        f"{at(passage.middle)}, from 10 % to 90 % within {number(passage.width)} decades{coarse}."
    )
