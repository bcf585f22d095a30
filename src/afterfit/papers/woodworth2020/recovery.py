"""Sparse regression by the minimisers of Q and Q^D: their error over the scale, and the largest scale that recovers.

Scales are those of the weights at the start, c = α^D, and known by log₁₀ c.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers.woodworth2020.ends import end

__all__ = [
    "THRESHOLD",
    "Posed",
    "as_foretold",
    "largest_scale",
    "log_alphas",
    "log_scale",
    "needed",
    "parameters",
    "potential",
    "recovery_scale",
]

THRESHOLD = 0.025  # Fig. 1(c) and Fig. 3(c): the population error that counts as recovery
_Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]


def potential(log_c: float, depth: int) -> af.theory.Q | af.theory.QDepth:
    """Q_α, or Q^D_α for a depth of 3 or more, at α^D = 10^log_c."""
    alpha = 10 ** (log_c / depth)
    return af.theory.Q(alpha) if depth == 2 else af.theory.QDepth(alpha, depth)


@dataclasses.dataclass(frozen=True, eq=False)
class Posed:
    """A sparse regression: X, y and the planted β*."""

    X: np.ndarray
    y: np.ndarray
    planted: np.ndarray

    @classmethod
    def draw(cls, task: af.tasks.SparseRegression, seed: int) -> Posed:
        """The data of a run with this seed."""
        data = task.draw(np.random.default_rng([seed, 0]))
        return cls(np.asarray(data.inputs), np.asarray(data.targets), np.asarray(data.truth))

    @classmethod
    def of(cls, run: af.Run) -> Posed:
        return cls(run.data.inputs, run.data.targets, run.data.truth)

    @functools.cached_property
    def _minimisers(self) -> af.theory.Minimisers:
        return af.theory.Minimisers(self.X, self.y)

    def error(self, beta: np.ndarray) -> float:
        """The population error E⟨β − β*, x⟩² = ‖β − β*‖²: that of predicting the plant, without the labels' noise."""
        return float(np.sum((beta - self.planted) ** 2))

    def minimiser(self, log_c: float, depth: int = 2) -> np.ndarray:
        """argmin Q^D at α^D = 10^log_c."""
        return self._minimisers.of(potential(log_c, depth))

    def errors(self, log_c: Iterable[float], depth: int = 2) -> np.ndarray:
        """The population error of argmin Q^D at each of the scales."""
        return np.array([self.error(self.minimiser(at, depth)) for at in log_c])


def largest_scale(measure: Callable[[float], float], level: float, smallest: float) -> float:
    """The largest log₁₀ c at which a measure is at most at a level; −∞ if it is nowhere down to `smallest`.

    Down from c = 10⁴ with strides that grow like log(1/c), until the measure is low enough, and by Brent's method
    between the last two. A dip of the measure between two strides is not seen.
    """
    from scipy.optimize import brentq

    @functools.cache
    def above(log_c: float) -> float:
        return float(np.log(measure(log_c) / level))

    at = 4.0
    while at > smallest:
        below = max(at - (2 if at > 0 else 0.5 + abs(at) / 2), smallest)
        if above(below) <= 0:
            return float(brentq(above, below, at, xtol=1e-4 * max(1.0, abs(below))))  # type: ignore[arg-type]
        at = below
    return -np.inf


def recovery_scale(posed: Posed, depth: int = 2, level: float = THRESHOLD) -> float:
    """log₁₀ α^D of the largest scale at which argmin Q^D has at most that population error."""
    return largest_scale(lambda log_c: posed.error(posed.minimiser(log_c, depth)), level, _smallest(depth))


def log_alphas(posed: Iterable[Posed], depth: int, levels: Sequence[float]) -> np.ndarray:
    """log₁₀ α, in the mean over draws, from which on argmin Q^D has an L1 norm at most so far above the least.

    By levels of the excess relative to the least, which is found to some 10⁻¹² of itself.
    """

    def of(one: Posed) -> list[float]:
        least = float(np.abs(af.theory.min_l1(one.X, one.y)).sum())

        def excess(log_c: float) -> float:
            return max(float(np.abs(one.minimiser(log_c, depth)).sum()) / least - 1, 1e-12)

        return [largest_scale(excess, level, _smallest(depth)) / depth for level in levels]

    return np.mean([of(one) for one in posed], axis=0)


def _smallest(depth: int) -> float:
    """log₁₀ α^D at which a root is given up: α = 10⁻³⁰⁰ for depth 2, argmin Q^D is the least L1 norm to 10⁻⁸ beyond."""
    return -600.0 if depth == 2 else -24.0


def as_foretold(
    sides: Mapping[str, af.Run], scale_of: Callable[[Posed, int], float], start: Callable[[af.Run], str]
) -> Finding:
    """Whether flows recover where they start below the largest scale, by draw and depth, and only there."""
    seen, right = [], []
    for label, run in sides.items():
        posed = Posed.of(run)
        error = posed.error(end(run))
        seen.append(f"{label}, {start(run)}: {error:.4f}")
        right.append((error <= THRESHOLD) == (log_scale(run) < scale_of(posed, run.spec["model"]["depth"])))
    return Finding(f"error of flows {'; '.join(seen)}: {sum(right)} of {len(right)} as foretold", all(right))


def needed(rule: _Rule, task: af.tasks.SparseRegression, seeds: Iterable[int], most: int) -> int:
    """The fewest samples with which a rule (X, y) ↦ β recovers in most draws, by bisection up to `most`."""
    draws = list(seeds)

    def recovers(n: int) -> bool:
        posed = (Posed.draw(task.replace(n=n), seed) for seed in draws)
        return bool(np.median([one.error(rule(one.X, one.y)) for one in posed]) <= THRESHOLD)

    fails, enough = task.sparsity, most
    while enough - fails > 1:
        middle = (fails + enough) // 2
        fails, enough = (fails, middle) if recovers(middle) else (middle, enough)
    return enough


def parameters(
    task: af.tasks.SparseRegression, depth: int, log_c: float, seed: int, until: float = 20.0
) -> af.Experiment:
    """The flow of the parameters of w₊^D − w₋^D from α^D = 10^log_c, `until` the weights have come to rest.

    It comes to rest sooner where α is large: the rates at the start are proportional to D²α^{2D−2}.
    """
    alpha = 10 ** (log_c / depth)
    fast = 1 + 25 * depth**2 * alpha ** (2 * depth - 2)
    return af.Experiment(
        task=task,
        model=af.models.DiagonalNet(depth=depth),
        dynamics=af.dynamics.GradientFlow(
            until=until / fast, first=1e-4 / fast, rtol=1e-9, atol=1e-12, method="explicit"
        ),
        init=af.inits.Constant(scale=alpha),
        seed=seed,
        observations=60,
    )


def log_scale(run: af.Run) -> float:
    """log₁₀ α^D of the start of a run."""
    return run.spec["model"]["depth"] * float(np.log10(run.spec["init"]["scale"]))
