"""Draws of Fig. 3: a run of a ReLU net, its function with its kinks, the program of its data, and how they compare."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import first_step, relative_distance, slope_variation
from afterfit.papers.boursier2025.fourier import NEAR, on_most
from afterfit.papers.boursier2025.univariate import Kink, Net, Program, kinks, net_of, penalised, penalised_slopes

__all__ = [
    "LEAST",
    "Draw",
    "Draws",
    "arrived",
    "at_the_end_of",
    "beside",
    "few",
    "has_dropped",
    "least",
    "same_function",
    "same_kinks",
    "slowly",
    "span",
]

_KINK = 0.02  # a change of slope is a kink from this share of ∫|f*″| on, that of the teacher's slope
LEAST = 0.005  # F + (λ/2)‖w‖² is at its minimum to 0.5 %, as for Fig. 2


class Draw:
    """A run of Fig. 3 and what its net is held against: the teacher f*, the examples, the penalised program."""

    def __init__(self, run: af.Run):
        self.run = run
        self.x, self.y = run.data.inputs[:, 0], run.data.targets
        self.grid, self.teacher = run.data.test_inputs[:, 0], run.data.test_targets  # an even grid of [−2, 2]
        self.decay: float = run.spec["penalty"]["strength"]
        self.times = run.checkpoints.times
        self.nets = [net_of(params) for params in run.checkpoints]

    @classmethod
    def each(cls, runs: Mapping[int, af.Run]) -> dict[int, Draw]:
        return {seed: cls(run) for seed, run in runs.items()}

    @functools.cached_property
    def program(self) -> Program:
        """The penalised variational problem."""
        return penalised(self.x, self.y, self.decay)

    @functools.cached_property
    def unweighted(self) -> Net:
        """The solution as if biases were not penalised."""
        return penalised_slopes(self.x, self.y, self.decay)

    @property
    def end(self) -> Net:
        return net_of(self.run.params)

    def net(self, time: float) -> Net:
        """That kept nearest to a time on a log axis."""
        return net_of(self.run.checkpoints.near(time))

    def left(self, loss: str) -> np.ndarray:
        """`train_loss` or `test_loss` along the run, of what it is for the function 0."""
        targets = self.y if loss == "train_loss" else self.teacher
        return self.run.curves[loss].values / (np.mean(targets**2) / 2)

    def error(self, net: Net) -> float:
        """The relative distance from the teacher in root mean square, as `test_error` is."""
        return relative_distance(net(self.grid), self.teacher)

    def away(self, net: Net, goal: Net) -> float:
        """The relative distance of a function from another, likewise."""
        return relative_distance(net(self.grid), goal(self.grid))

    def apart(self, one: Net, other: Net) -> float:
        """max |f − g| on [−2, 2], of max |f*|."""
        return float(np.max(np.abs(one(self.grid) - other(self.grid))) / np.max(np.abs(self.teacher)))

    def excess(self, net: Net) -> float:
        """By how much F + (λ/2)‖w‖² of a net is above the least value, relative to that."""
        value = np.mean((net(self.x) - self.y) ** 2) / 2 + self.decay / 2 * net.squared_norm
        return float(value / self.program.value - 1)

    def kinks(self, net: Net, share: float = _KINK) -> list[Kink]:
        """Those of a net, as large as is stated for this teacher."""
        return kinks(net, share * slope_variation(self.grid, self.teacher))

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """The number of kinks at the times kept."""
        return np.array([len(self.kinks(net)) for net in self.nets])

    def count(self, time: float) -> int:
        """At the time kept that is nearest on a log axis; inf is the end."""
        away = np.abs(np.log(self.times[1:]) - np.log(min(time, self.times[-1])))
        return int(self.counts[1 + np.argmin(away)])


Draws = Mapping[int, Draw]  # by seed


def arrived(draws: Draws) -> Draws:
    """Those whose F + (λ/2)‖w‖² is within 10⁻⁴ of its minimum at the end."""
    return {seed: draw for seed, draw in draws.items() if draw.excess(draw.end) <= 1e-4}


def has_dropped(draws: Draws, loss: str, time: float, to: float) -> Finding:
    """Whether a loss is at most so much of that of the function 0 at a time, on half of the draws and more."""
    times = next(iter(draws.values())).run.curves["time"].values
    curves = [draw.left(loss) for draw in draws.values()]
    left = [float(curve[np.argmin(np.abs(times - time))]) for curve in curves]
    since = [first_step(times, curve, to) for curve in curves]
    words, most = on_most([one <= to for one in left], 0.5)
    return Finding(
        f"at t = {time:g}, {np.median(left):.2g} of the loss of the function 0 is left (median; {span(left)}), at "
        f"most {to:g} {words}; first at t = {span(since)} (median {np.median(since):.3g})",
        most,
    )


def beside(draws: Draws, others: Draws, time: float) -> Finding:
    """Whether functions are the others' at a time, to 5 % in root mean square, on every draw."""
    gaps = [draw.away(draw.net(time), others[seed].net(time)) for seed, draw in draws.items()]
    return Finding(
        f"relative distance at t = {time:g} {np.median(gaps):.2g} (median) and {max(gaps):.2g} (largest), over "
        f"{len(gaps)} draws",
        max(gaps) <= NEAR,
    )


def at_the_end_of(goals: Draws, draws: Draws, time: float) -> Finding:
    """Whether functions are the ends of other runs at a time, to 5 % in root mean square, on half of the draws."""
    gaps = [draw.away(draw.net(time), goals[seed].end) for seed, draw in draws.items()]
    words, most = on_most([gap <= NEAR for gap in gaps], 0.5)
    along = np.array([[draw.away(net, goals[seed].end) for net in draw.nets] for seed, draw in draws.items()])
    near = np.sum(along <= NEAR, axis=0)
    when = next(iter(draws.values())).times[int(near.argmax())]
    return Finding(
        f"relative distance at t = {time:g} {np.median(gaps):.2g} (median; {span(gaps)}), within 5 % {words}; at its "
        f"nearest {np.median(along.min(axis=1)):.2g} (median), within 5 % on {np.sum(along.min(axis=1) <= NEAR)} at "
        f"some time, and on the most at once, {near.max()}, at t = {when:.3g}",
        most,
    )


def few(draws: Draws, early: float, late: float) -> Finding:
    """Whether there are more kinks than examples early, and at most half as many as examples late, on every draw."""
    n = len(next(iter(draws.values())).x)
    first, last = ([draw.count(time) for draw in draws.values()] for time in (early, late))
    return Finding(
        f"{span(first)} kinks at t = {early:g} and {span(last)} later, over {len(first)} draws, for n = {n} examples",
        min(first) > n and max(last) <= n / 2,
    )


def slowly(draws: Draws, early: float, slow: float) -> Finding:
    """Whether the number of kinks is half-way from an early one to its last between `slow` and ten times that.

    And before all but there: three quarters and more of the early ones are still there at a tenth of `slow`.
    """
    halves = []
    for draw in draws.values():
        first, last = draw.count(early), draw.counts[-1]
        below = draw.times[(draw.times >= early) & (draw.counts <= (first + last) / 2)]
        halves.append(float(below[0]) if last <= first / 2 else float("inf"))
    kept = [draw.count(0.1 * slow) / draw.count(early) for draw in draws.values()]
    return Finding(
        f"of those at t = {early:g}, {span(kept)} are there at t = {0.1 * slow:g}; half-way at t = {span(halves)}",
        min(kept) >= 0.75 and min(halves) >= slow and max(halves) <= 10 * slow,
    )


def least(excesses: Sequence[float]) -> Finding:
    """Whether F + (λ/2)‖w‖² is its minimum on every draw."""
    return Finding(
        f"F + (λ/2)‖w‖² above its minimum by {np.median(excesses):.2g} of it (median) and {max(excesses):.2g} "
        f"(largest), over {len(excesses)} draws",
        max(excesses) <= LEAST,
    )


def same_function(pairs: Sequence[tuple[Draw, Net]]) -> Finding:
    """Whether functions are those at the ends of runs, to 1 % of the teacher's largest value on [−2, 2]."""
    gaps = [draw.apart(draw.end, net) for draw, net in pairs]
    return Finding(
        f"max |f − f_end| on [−2, 2] is {np.median(gaps):.2g} of max |f*| (median) and {max(gaps):.2g} (largest), "
        f"at most 0.01 on {sum(gap <= 0.01 for gap in gaps)} of {len(gaps)} draws",
        max(gaps) <= 0.01,
    )


def same_kinks(pairs: Sequence[tuple[Draw, Net]]) -> Finding:
    """Whether nets have the kinks of the ends of runs: one more or one less at most, and each close to one.

    Kinks just below and above the stated size make up the one. Those of twice that size and more are to be within
    0.05, the width that is one kink, of a kink of half that size and more, and the other way round.
    """
    more, away = [], []
    for draw, net in pairs:
        ends = draw.end, net
        count, wanted = (len(draw.kinks(end)) for end in ends)
        more.append(abs(count - wanted))
        for one, other in (ends, ends[::-1]):
            places = np.array([kink.place for kink in draw.kinks(other, 0.5 * _KINK)])
            away += [float(np.min(np.abs(places - kink.place), initial=4.0)) for kink in draw.kinks(one, 2 * _KINK)]
    return Finding(
        f"as many on {more.count(0)} of {len(more)} draws, and at most {max(more)} more or less; kinks at most "
        f"{max(away, default=0):.2g} apart",
        max(more) <= 1 and max(away, default=0) <= 0.05,
    )


def span(values: Sequence[float]) -> str:
    """From the least to the largest, in the digits that matter."""
    low, high = min(values), max(values)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
