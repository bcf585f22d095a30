"""Recovery from measurements of coherence τ, App. G: how many the convex programs need.

Of the measurements of a sparse vector ⌊τN⌋ are columns of its basis and the others Gaussian; of the observed entries of
a matrix ⌊τN⌋ are those of the largest leverage μᵢ + νⱼ and the others uniform.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import mean_of
from afterfit.papers.notsawo2025.completion import fewest, masks_of
from afterfit.papers.notsawo2025.recovery import least_l1_recovers, measured

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = [
    "SWEEPS",
    "coherence_rises",
    "coherences_of",
    "completed",
    "draw_of",
    "exponential",
    "falls",
    "found_from",
    "least_entries",
    "least_measurements",
    "leverage_order",
    "mixed",
    "reads_support",
    "rises",
]

SWEEPS = 600  # of the splitting: with 150 some matrices are missed that an interior-point method finds


def mixed(n: int, sparsity: int, N: int, tau: float) -> af.tasks.SparseRecovery:
    """Sparse recovery with ⌊τN⌋ rows from the basis, and N − ⌊τN⌋ Gaussian ones of variance 1/N."""
    return measured(n, sparsity, N).replace(coherence=float(tau))


def completed(size: int, rank: int, N: int, tau: float) -> af.tasks.MatrixCompletion:
    """N entries of a square matrix UVᵀ with Gaussian factors, ⌊τN⌋ of them those of the largest leverage."""
    return af.tasks.MatrixCompletion(size, size, rank, observed=N, coherence=float(tau), reduction="half_sum")


def draw_of(task: af.tasks.Task, seed: int) -> af.tasks.Data:
    """The data that a run of this seed has."""
    return task.draw(np.random.default_rng(seed))


def least_measurements(n: int, sparsity: int, tau: float, seeds: Sequence[int]) -> np.ndarray:
    """For each draw, the least N from which the vector of least ℓ₁ norm is a*; n + 1 if there is none.

    With more measurements a draw keeps those that it has, up to their scale: what is found stays found.
    """
    return np.array(
        [_least(lambda N, seed=seed: least_l1_recovers(draw_of(mixed(n, sparsity, N, tau), seed)), n) for seed in seeds]
    )


def _least(found: Callable[[int], bool], most: int) -> int:
    """The least number up to `most` from which on it is found, by bisection; `most` + 1 if none."""
    missed, there = 0, most + 1
    while there - missed > 1:
        middle = (missed + there) // 2
        missed, there = (missed, middle) if found(middle) else (middle, there)
    return there


def least_entries(
    size: int, rank: int, taus: Sequence[float], seeds: Sequence[int], smallest_first: bool = False
) -> dict[float, np.ndarray]:
    """For each τ and draw, the least N from which the matrix of least nuclear norm is A*.

    The entries at random are the first of one random order that are not among those of the largest leverage (of the
    smallest, if asked), so that with more entries a draw keeps those that it has.
    """
    truths, leverage, order = (np.array(each) for each in zip(*map(_drawn(size, rank), seeds), strict=True))
    if smallest_first:
        leverage = leverage.max() - leverage
    k, t = len(seeds), np.repeat(taus, len(seeds))
    truths, leverage, order = (np.tile(each, (len(taus), 1, 1)) for each in (truths, leverage, order))
    needed = fewest(truths, lambda counts: masks_of(_keys(leverage, order, t, counts), counts), SWEEPS)
    return {tau: needed[i * k : (i + 1) * k] for i, tau in enumerate(taus)}


def _drawn(size: int, rank: int) -> Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """A*, the place of each entry by leverage, and in a random order."""
    task = completed(size, rank, 1, 0.0)

    def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        U, V = task.draw_factors(rng)
        truth = U @ V.T
        return truth, leverage_order(truth, rank), rng.permutation(truth.size).reshape(truth.shape)

    return drawn


def leverage_order(truth: Float[np.ndarray, "m n"], rank: int) -> np.ndarray:
    """The place of each entry in the order of falling μᵢ + νⱼ, from 0."""
    scores = np.add.outer(*af.theory.sensing.leverage_scores(truth, rank)).ravel()
    return np.argsort(np.argsort(-scores, kind="stable")).reshape(truth.shape)


def _keys(leverage: np.ndarray, order: np.ndarray, tau: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Keys of which the least are the ⌊τN⌋ entries first in leverage, then the others in their order."""
    coherent = np.floor(tau * counts + 1e-9)[:, None, None]
    return np.where(leverage < coherent, leverage - leverage.max() - 1, order)


def found_from(needed: np.ndarray, N: int) -> float:
    """The share of draws that are found from N measurements."""
    return float(np.mean(needed <= N))


def rises(needed: Mapping[Any, np.ndarray], of: str, along: str) -> Finding:
    """Whether what draws need rises from each value to the next, in the mean over draws with its interval."""
    steps = [mean_of(more - less) for less, more in itertools.pairwise(needed.values())]
    return Finding(_said(needed, of, along), all(step.low > 0 for step in steps))


def falls(needed: Mapping[Any, np.ndarray], of: str, along: str) -> Finding:
    """Whether what draws need is less from each value on than at the first, and nowhere more than at the one before.

    In the mean over draws, with its interval: less is all of it below 0, more is all of it above.
    """
    values = list(needed.values())
    below = [mean_of(each - values[0]).high < 0 for each in values[1:]]
    risen = [mean_of(more - less).low > 0 for less, more in itertools.pairwise(values)]
    return Finding(_said(needed, of, along), all(below) and not any(risen))


def _said(needed: Mapping[Any, np.ndarray], of: str, along: str) -> str:
    means = [mean_of(each.astype(float)) for each in needed.values()]
    return (
        f"{of}, means of {len(next(iter(needed.values())))} draws: "
        + ", ".join(f"{m.value:.1f} ± {m.high - m.value:.1f}" for m in means)
        + f" for {along} = {', '.join(f'{x:g}' for x in needed)}"
    )


def reads_support(n: int, needed: Mapping[int, np.ndarray], seeds: Sequence[int]) -> Finding:
    """Whether at τ = 1 draws need as many measurements, by s, as read all their non-zeros: entries are read in turn."""
    exact, total, means = 0, 0, []
    for s, least in needed.items():
        last = np.array([1 + np.flatnonzero(draw_of(mixed(n, s, 1, 1.0), seed).truth)[-1] for seed in seeds])
        exact, total = exact + int(np.sum(least == last)), total + len(last)
        means.append(f"{least.mean():.1f} and {s * (n + 1) / (s + 1):.1f} (s={s})")
    return Finding(
        f"the least N is that of the last non-zero on {exact} of {total} draws; in the mean and by the law "
        + ", ".join(means),
        exact == total,
    )


def exponential(needed: Mapping[float, np.ndarray]) -> Finding:
    """Whether what draws need falls like e^{−bτ}: its logarithm falls, and on a straight line.

    Each draw has its own parabola in τ. Over draws, the mean slope is below 0 and the mean bend, the coefficient of τ²,
    may be 0, by their intervals.
    """
    taus, logs = np.array(list(needed)), np.log(np.array(list(needed.values()), dtype=float))
    slope, bend = mean_of(np.polyfit(taus, logs, 1)[0]), mean_of(np.polyfit(taus, logs, 2)[0])
    places = [0, len(taus) // 2, len(taus) - 1]
    means = ", ".join(f"{np.exp(np.mean(logs[k])):.1f} (τ={taus[k]:g})" for k in places)
    return Finding(
        f"log of the least N over {logs.shape[1]} draws: slope {slope} in τ, coefficient of τ² {bend}; geometric means "
        f"{means}",
        slope.high < 0 and bend.holds(0),
    )


def coherences_of(n: int, tau: float, numbers: Sequence[int], seeds: Sequence[int]) -> np.ndarray:
    """μ(Mᵀ, Φ) of measurements of sparse recovery, one row a draw and one column an N.

    X = MΦ are the rows of M in the coordinates of Φ, so that the cosines with its columns are the entries of X beside
    the norms of its rows.
    """
    largest = []
    for seed in seeds:
        cosines = [np.abs(X) / np.linalg.norm(X, axis=1, keepdims=True) for X in _inputs(n, tau, numbers, seed)]
        largest.append([float(each.max()) for each in cosines])
    return np.array(largest)


def _inputs(n: int, tau: float, numbers: Sequence[int], seed: int) -> Iterable[np.ndarray]:
    return (draw_of(mixed(n, 1, N, tau), seed).inputs for N in numbers)


def coherence_rises(coherences: Mapping[float, np.ndarray], numbers: Sequence[int]) -> Finding:
    """Whether μ(Mᵀ, Φ) of Gaussian measurements rises with N on every draw, and is 1 from ⌊τN⌋ = 1 on.

    Both are so by construction: a draw keeps its Gaussian measurements as N grows, so that the largest cosine cannot
    fall, and a measurement from the basis has a cosine of 1. It tests that measurements are drawn as the text has it.
    """
    gaussian = coherences[0.0]
    N = np.array(numbers[: gaussian.shape[1]])
    ones, below = [], []
    for tau, values in coherences.items():
        reads = tau * N >= 1 - 1e-9
        ones += list(values[:, reads].ravel())
        below += list(values[:, ~reads].ravel())
    return Finding(
        f"τ = 0: {gaussian[:, 0].mean():.2f} for N = 1 to {gaussian[:, -1].mean():.2f} for N = {N[-1]}, means of "
        f"{len(gaussian)} draws; before ⌊τN⌋ = 1 at most {max(below):.2f}, from then on at least {min(ones):.2g}",
        bool(np.all(np.diff(gaussian, axis=1) >= -1e-12) and np.all(gaussian[:, -1] > gaussian[:, 0]))
        and max(below) < 1
        and min(ones) >= 1 - 1e-9,
    )
