"""Draws of Fig. 4: a run, the convex programs of its data and start, and whether the weights are at their solutions."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import at, examples, first_step, relative_distance, share
from afterfit.papers._paths import initial
from afterfit.papers.boursier2025.decays import falls, falls_like

__all__ = [
    "NEAR",
    "Draw",
    "Draws",
    "Programs",
    "Sweep",
    "at_lasso",
    "at_least_norm",
    "ends_at",
    "ends_come_to",
    "grok_with",
    "is_close",
    "moves_through",
    "on_most",
    "on_the_way",
    "reaches",
]

NEAR = 0.05  # what two curves of the figure can differ by without being told apart
_Key = TypeVar("_Key")


@dataclasses.dataclass(frozen=True, eq=False)
class Programs:
    """The convex programs of a draw: the data, and the Q of its start (Woodworth et al. 2020, Thm 1, from any u, v)."""

    X: np.ndarray
    y: np.ndarray
    truth: np.ndarray
    potential: af.theory.Q
    decay: float  # the λ of the lasso

    @classmethod
    def of(cls, run: af.Run, decay: float) -> Programs:
        u, v = np.split(initial(run), 2)
        return cls(*examples(run), run.data.truth, af.theory.Q.from_start((u + v) / 2, (u - v) / 2), decay)

    def decayed(self, by: float, outputs: np.ndarray | None = None) -> np.ndarray:
        """argmin Q for u and v that are multiplied by a number, subject to Xβ = y or to other outputs."""
        potential = dataclasses.replace(self.potential, alpha=float(by))
        return potential.minimise(self.X, self.y if outputs is None else outputs)

    @functools.cached_property
    def early(self) -> np.ndarray:
        return self.decayed(1.0)

    @property
    def of_twice(self) -> np.ndarray:
        return self.decayed(2.0)

    @property
    def untilted(self) -> np.ndarray:
        """argmin Q for the same |u² − v²| and u ⊙ v = 0."""
        return dataclasses.replace(self.potential, tilt=0.0).minimise(self.X, self.y)

    @functools.cached_property
    def late(self) -> np.ndarray:
        return af.theory.min_l1(self.X, self.y)

    @property
    def least_squares(self) -> np.ndarray:
        return af.theory.min_l2(self.X, self.y)

    @functools.cached_property
    def lasso(self) -> np.ndarray:
        """argmin (1/2n)‖Xβ − y‖² + λ‖β‖₁."""
        return af.theory.lasso(self.X, self.y, len(self.y) * self.decay)


@dataclasses.dataclass(frozen=True, eq=False)
class Draw:
    """A run, and its programs at a λ, which need not be its own. Their solutions are known by their names there."""

    run: af.Run
    decay: float

    @classmethod
    def each(cls, runs: Mapping[_Key, af.Run], decay: float) -> dict[_Key, Draw]:
        return {key: cls(run, decay) for key, run in runs.items()}

    @functools.cached_property
    def programs(self) -> Programs:
        return Programs.of(self.run, self.decay)

    def at(self, name: str, t: float = np.inf) -> np.ndarray:
        """What was recorded next to a time, or at the end."""
        return at(self.run, name, t)

    def between(self, name: str, begin: float, end: float = np.inf) -> np.ndarray:
        """What was recorded from one time to another, to rounding."""
        return self.run.curves[name].sel(time=slice(0.999 * begin, 1.001 * end)).values

    def part_way(self, name: str, part: float, begin: float, power: int = 1) -> float:
        """When a curve, to a power, has gone that part of its way from a time to its end; inf if not down by 1 %."""
        values = self.between(name, begin) ** power
        level = values[0] + part * (values[-1] - values[0])
        return first_step(self.between("time", begin), values, level) if values[-1] < 0.99 * values[0] else np.inf

    def gap(self, goal: str, t: float = np.inf) -> float:
        """How far the weights β = u ⊙ v are from a program's solution, relatively, at a time or at the end."""
        return relative_distance(self.at("weights", t), getattr(self.programs, goal))

    def gaps(self, goal: str) -> np.ndarray:
        """The same at every observation."""
        solution = getattr(self.programs, goal)
        return np.linalg.norm(self.run.curves["weights"].values - solution, axis=1) / np.linalg.norm(solution)

    def first_near(self, goal: str) -> float:
        """When the weights are first within 5 % of a program's solution; inf if never."""
        return first_step(self.run.curves["time"].values, self.gaps(goal), NEAR)

    def recovers(self, weights: np.ndarray) -> bool:
        """Whether weights are within 5 % of the teacher's."""
        return relative_distance(weights, self.programs.truth) <= NEAR


Draws = Mapping[int, Draw]
Sweep = Mapping[int, Mapping[float, Draw]]  # by seed and λ


def on_most(hits: Sequence[bool], least: float) -> tuple[str, bool]:
    """A share of draws with its interval, and whether it is at least so large."""
    return f"on {sum(hits)} of {len(hits)} draws (share {share(sum(hits), len(hits))})", sum(hits) >= least * len(hits)


def ends_at(goal: str, draws: Draws) -> Finding:
    """To 10⁻⁵: each step of the flow is right to 10⁻⁷ and less."""
    gaps = [draw.gap(goal) for draw in draws.values()]
    fit = max(float(draw.at("train_error")) for draw in draws.values())
    return Finding(
        f"relative distance {min(gaps):.1g} to {max(gaps):.1g} over {len(gaps)} draws, fitted to {fit:.1g}",
        max(gaps) <= 1e-5,
    )


def is_close(goal: str, t: float, shown: Draw, draws: Draws) -> Finding:
    """To 5 % on the median draw: on some a small part of the fit, which matters to the weights, takes longer."""
    here, *gaps = (draw.gap(goal, t) for draw in (shown, *draws.values()))
    words, most = on_most([gap <= NEAR for gap in gaps], 0.5)
    return Finding(
        f"median {np.median(gaps):.2g} away relatively, {here:.2g} on the draw shown; within 5 % {words}", most
    )


def moves_through(draws: Draws, times: Sequence[float], scale: Callable[[float], float]) -> Finding:
    """Whether weights are argmin Q for their outputs, of the start times `scale` of λt; to a hundred steps' 10⁻⁶."""
    gaps = []
    for draw in draws.values():
        for t in times:
            weights, programs = draw.at("weights", t), draw.programs
            gaps.append(relative_distance(weights, programs.decayed(scale(draw.decay * t), programs.X @ weights)))
    return Finding(
        f"relative distance at most {max(gaps):.1g}, median {np.median(gaps):.1g}, at six times of {len(draws)} draws "
        f"from t = {times[0]:g} to {times[-1]:g}",
        max(gaps) <= 1e-4,
    )


def on_the_way(sweep: Sweep, λts: Sequence[float], scale: Callable[[float], float]) -> Finding:
    """The exponent of λ in the median draw's distance from argmin Q of the start times `scale` of λt, at each λt."""
    decays = [λ for λ in next(iter(sweep.values())) if λ <= 1e-5]

    def gap(draw: Draw, λt: float) -> float:
        return relative_distance(draw.at("weights", λt / draw.decay), draw.programs.decayed(scale(λt)))

    medians = {
        f"λt = {λt:g}": np.median([[gap(group[λ], λt) for λ in decays] for group in sweep.values()], axis=0)
        for λt in λts
    }
    found = falls_like(decays, medians)
    sizes = "; ".join(", ".join(f"{gap:.2g}" for gap in gaps) + f" at {where}" for where, gaps in medians.items())
    return Finding(
        f"median of {len(sweep)} draws, λ from {decays[0]:g} to {decays[-1]:g}: {sizes}; {found.measured}", found.holds
    )


def at_least_norm(shown: Draw, draws: Draws, t: float) -> Finding:
    """Weights within 5 % of the least L1 norm's, and ‖u‖² + ‖v‖² within 1 % of its least value, twice that norm."""
    here, *gaps = (draw.gap("late", t) for draw in (shown, *draws.values()))
    excess = float(shown.at("norm_l2", t) ** 2 / (2 * np.abs(shown.programs.late).sum()) - 1)
    return Finding(
        f"{here:.2g} away relatively at t = {t:g}, ‖w‖²/(2‖β‖₁) − 1 = {excess:.1g} (the share of draws within 5 % by "
        f"then is {share(sum(gap <= NEAR for gap in gaps), len(gaps))})",
        here <= NEAR and abs(excess) <= 0.01,
    )


def at_lasso(draws: Draws, t: float = np.inf) -> Finding:
    """To a thousandth, on every draw: a tenth of what the lasso is from the least L1 norm on a common draw."""
    t = min(t, float(next(iter(draws.values())).at("time")))
    gaps = [draw.gap("lasso", t) for draw in draws.values()]
    return Finding(
        f"relative distance at t = {t:g}: median {np.median(gaps):.1g}, largest {max(gaps):.1g} over {len(gaps)} draws",
        max(gaps) <= 1e-3,
    )


def ends_come_to(goal: str, sweep: Sweep) -> Finding:
    """Whether the distance of the median draw's end falls like λ, to a thousandth for the smallest."""
    decays = list(next(iter(sweep.values())))
    gaps = np.median([[draw.gap(goal) for draw in group.values()] for group in sweep.values()], axis=0)
    found = falls_like(decays, {"median draw": gaps})
    return Finding(
        f"λ from {decays[0]:g} to {decays[-1]:g}: {', '.join(f'{gap:.2g}' for gap in gaps)} away, median of "
        f"{len(sweep)} draws; {found.measured}",
        found.holds and gaps[-1] <= 1e-3,
    )


def grok_with(goal: str, draws: Draws) -> Finding:
    """Whether draws grok and end within 5 % of the teacher where a program does, on one draw and more."""
    each = list(draws.values())
    runs = [draw.recovers(draw.at("weights")) and draw.run.verdict.kind == "grokking" for draw in each]
    counts = Counter(zip(runs, [draw.recovers(getattr(draw.programs, goal)) for draw in each], strict=True))
    sparse = sum(draw.recovers(draw.programs.late) for draw in each)
    return Finding(
        f"both {counts[True, True]}, the run alone {counts[True, False]}, the program alone {counts[False, True]}, "
        f"neither {counts[False, False]}, of {len(each)}; the share of runs is {share(sum(runs), len(each))}, of the "
        f"least L1 norm itself {share(sparse, len(each))}",
        counts[True, False] == counts[False, True] == 0 < counts[True, True],
    )


def reaches(goal: str, flows: Mapping[str, Draw]) -> Finding:
    """Whether the last of some flows ends within 5 % of a program's solution, each nearer than the one before."""
    gaps = {name: draw.gap(goal) for name, draw in flows.items()}
    return Finding(
        "relative distance of the end " + ", ".join(f"{gap:.2g} from {name}" for name, gap in gaps.items()),
        list(gaps.values())[-1] <= NEAR and falls(list(gaps.values())),
    )
