"""Recovery from measurements of coherence τ, App. G: how many the convex programs need, and runs by their numbers.

Of the measurements of a sparse vector ⌊τN⌋ are columns of its basis and the others Gaussian; of the observed entries of
a matrix ⌊τN⌋ are those of the largest leverage μᵢ + νⱼ and the others uniform.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import first_step, share
from afterfit.papers.notsawo2025.completion import fewest, masks_of
from afterfit.papers.notsawo2025.phases import mean_of
from afterfit.papers.notsawo2025.recovery import CLOSE, GOAL, least_l1_recovers, measured, settling_step

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = [
    "Cell",
    "agrees",
    "coherences_of",
    "completed",
    "draw_of",
    "exponential",
    "falls",
    "follows",
    "found_from",
    "least_entries",
    "least_measurements",
    "leverage_order",
    "mixed",
    "rises",
    "times_fall",
    "times_rise",
]

_APART = 1.1  # medians that differ by less are the same: observations of a run are 15 % apart, and followed between


def mixed(n: int, sparsity: int, N: int, tau: float) -> af.tasks.SparseRecovery:
    """Sparse recovery with ⌊τN⌋ rows from the basis, and N − ⌊τN⌋ Gaussian ones of variance 1/N."""
    return measured(n, sparsity, N).replace(coherence=float(tau))


def completed(rank: int, N: int, tau: float) -> af.tasks.MatrixCompletion:
    """N entries of a 10x10 matrix UVᵀ with Gaussian factors, ⌊τN⌋ of them those of the largest leverage."""
    return af.tasks.MatrixCompletion(10, 10, rank, observed=N, coherence=float(tau), reduction="half_sum")


def draw_of(task: af.tasks.Task, seed: int) -> af.tasks.Data:
    """The data that a run of this seed has."""
    return task.draw(np.random.default_rng(seed))


# ------------------------------------------------------------------------------------------------ convex programs


def least_measurements(n: int, sparsity: int, tau: float, seeds: Sequence[int]) -> np.ndarray:
    """For each draw, the least N from which the vector of least ℓ₁ norm is a*; n + 1 if there is none.

    With more measurements a draw keeps those that it has, up to their scale: what is found stays found.
    """
    return np.array(
        [
            _least(lambda N, seed=seed: least_l1_recovers(draw_of(mixed(n, sparsity, N, tau), seed)), n)
            for seed in seeds
        ]
    )


def _least(found: Callable[[int], bool], most: int) -> int:
    """The least number up to `most` from which on it is found, by bisection; `most` + 1 if none."""
    missed, there = 0, most + 1
    while there - missed > 1:
        middle = (missed + there) // 2
        missed, there = (missed, middle) if found(middle) else (middle, there)
    return there


def least_entries(
    rank: int, taus: Sequence[float], seeds: Sequence[int], smallest_first: bool = False
) -> dict[float, np.ndarray]:
    """For each τ and draw, the least N from which the matrix of least nuclear norm is A*.

    The entries at random are the first of one random order that are not among those of the largest leverage (of the
    smallest, if asked), so that with more entries a draw keeps those that it has.
    """
    truths, leverage, order = (np.array(each) for each in zip(*map(_drawn(rank), seeds), strict=True))
    if smallest_first:
        leverage = leverage.max() - leverage
    k, t = len(seeds), np.repeat(taus, len(seeds))
    truths, leverage, order = (np.tile(each, (len(taus), 1, 1)) for each in (truths, leverage, order))
    needed = fewest(truths, lambda counts: masks_of(_keys(leverage, order, t, counts), counts))
    return {tau: needed[i * k : (i + 1) * k] for i, tau in enumerate(taus)}


def _drawn(rank: int) -> Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """A*, the place of each entry by leverage, and in a random order."""
    task = completed(rank, 1, 0.0)

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


def rises(needed: Mapping[float, np.ndarray], of: str, along: str) -> Finding:
    """Whether what draws need rises from each value to the next, in the mean over draws with its interval."""
    steps = [mean_of(more - less) for less, more in itertools.pairwise(needed.values())]
    return Finding(_said(needed, of, along), all(step.low > 0 for step in steps))


def falls(needed: Mapping[float, np.ndarray], of: str, along: str) -> Finding:
    """Whether what draws need is less from each value on than at the first, and nowhere more than at the one before.

    In the mean over draws, with its interval: less is all of it below 0, more is all of it above.
    """
    values = list(needed.values())
    below = [mean_of(each - values[0]).high < 0 for each in values[1:]]
    risen = [mean_of(more - less).low > 0 for less, more in itertools.pairwise(values)]
    return Finding(_said(needed, of, along), all(below) and not any(risen))


def _said(needed: Mapping[float, np.ndarray], of: str, along: str) -> str:
    means = [mean_of(each.astype(float)) for each in needed.values()]
    return (
        f"{of}, means of {len(next(iter(needed.values())))} draws: "
        + ", ".join(f"{m.value:.1f} ± {m.high - m.value:.1f}" for m in means)
        + f" for {along} = {', '.join(f'{x:g}' for x in needed)}"
    )


def exponential(needed: Mapping[float, np.ndarray]) -> Finding:
    """Whether what draws need falls like e^{−bτ}: its logarithm falls, and on a straight line.

    Each draw has its own parabola in τ. Over draws, the mean slope is below 0 and the mean bend, the coefficient of τ²,
    may be 0, by their intervals.
    """
    taus, logs = np.array(list(needed)), np.log(np.array(list(needed.values()), dtype=float))
    slope, bend = mean_of(np.polyfit(taus, logs, 1)[0]), mean_of(np.polyfit(taus, logs, 2)[0])
    halves = [np.exp(np.mean(logs[k])) for k in (0, len(taus) // 2, -1)]
    return Finding(
        f"log of the least N: slope {slope} in τ, coefficient of τ² {bend}, over {logs.shape[1]} draws; geometric means "
        f"{halves[0]:.1f}, {halves[1]:.1f}, {halves[2]:.1f} for τ = {taus[0]:g}, {taus[len(taus) // 2]:g}, {taus[-1]:g}",
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


# ---------------------------------------------------------------------------------------------------------- runs


@dataclasses.dataclass(frozen=True)
class Cell:
    """A run by its numbers. Times are steps of size α; inf where they do not come.

    `t1` is the first step with a relative training error of 10⁻³. A run has `found` the truth if its relative recovery
    error ends at 10⁻² or below; then `t2` is where this error comes to its plateau. `error` is the one at the end.
    """

    run: af.Run = dataclasses.field(repr=False)
    N: int
    tau: float
    seed: int
    t1: float
    t2: float
    error: float

    @classmethod
    def of(cls, run: af.Run, alpha: float) -> Cell:
        """Read a run, a flow or descent, in steps of size α."""
        task, curves = run.spec["task"], run.curves
        steps, train, test = curves["time"].values / alpha, curves["train_error"].values, curves["test_error"].values
        error = float(test[-1])
        return cls(
            run=run,
            N=int(task["N"] if "N" in task else task["observed"]),
            tau=float(task["coherence"]),
            seed=run.spec["seed"],
            t1=first_step(steps, train, GOAL),
            t2=settling_step(steps, test) if error <= CLOSE else np.inf,
            error=error,
        )

    @property
    def found(self) -> bool:
        return self.error <= CLOSE

    @property
    def delay(self) -> float:
        """t₂ − t₁."""
        return self.t2 - self.t1 if self.t2 < np.inf else np.inf


def times_rise(cells: Iterable[Cell], value: Callable[[Cell], float], of: str, numbers: Sequence[int]) -> Finding:
    """Whether a time rises with τ for each of these N.

    Its median over draws, ∞ where it does not come, is nowhere smaller than at the τ before, and by Page's test for an
    order, in which every draw ranks its own times, the rise is no chance.
    """
    return _ordered(cells, value, of, numbers, +1)


def times_fall(cells: Iterable[Cell], value: Callable[[Cell], float], of: str, numbers: Sequence[int]) -> Finding:
    """The same the other way."""
    return _ordered(cells, value, of, numbers, -1)


def _ordered(
    cells: Iterable[Cell], value: Callable[[Cell], float], of: str, numbers: Sequence[int], sign: int
) -> Finding:
    from scipy.stats import page_trend_test, rankdata

    words, holds, cells, count = [], [], list(cells), 0
    for N in numbers:
        group = [cell for cell in cells if cell.N == N]
        taus, seeds = sorted({c.tau for c in group}), sorted({c.seed for c in group})
        times = {(c.tau, c.seed): value(c) for c in group}
        table = np.array([[times[tau, seed] for tau in taus] for seed in seeds])
        medians = np.median(table, axis=0)
        pairs = list(itertools.pairwise(medians if sign > 0 else medians[::-1]))
        steady = all(less <= _APART * more for less, more in pairs)
        ranks = rankdata(sign * table, axis=1)
        p = float(page_trend_test(ranks, ranked=True, method="asymptotic").pvalue)
        words.append(f"{', '.join(f'{m:.2g}' for m in medians)} (N={N}, p={p:.1g})")
        holds.append(steady and p <= 0.025)
        count = len(seeds)
    taus = sorted({c.tau for c in cells})
    return Finding(
        f"medians of {of} over {count} draws, for τ = {', '.join(f'{t:g}' for t in taus)}: {'; '.join(words)}",
        all(holds) and bool(holds),
    )


class _Answer(NamedTuple):
    found: bool
    possible: bool


def agrees(cells: Sequence[Cell], possible: Sequence[bool], program: str) -> Finding:
    """Whether runs find the truth where and only where a convex program does.

    They agree more often, by the interval of the share, than one and the same answer for all would.
    """
    answers = [_Answer(cell.found, bool(can)) for cell, can in zip(cells, possible, strict=True)]
    can, same = sum(a.possible for a in answers), sum(a.found == a.possible for a in answers)
    agreed, guessed = share(same, len(answers)), max(can, len(answers) - can) / len(answers)
    sizes = {(cell.N, cell.tau) for cell in cells}
    return Finding(
        f"at {len(sizes)} pairs (N, τ), {len(answers)} draws in all, runs find the truth on "
        f"{sum(a.found for a in answers)} and {program} on {can}; they agree on a share {agreed}, and one answer for "
        f"all would on {guessed:.2f}",
        agreed.low > guessed,
    )


def follows(flows: Iterable[Cell], descents: Sequence[Cell]) -> Finding:
    """Whether descents end where the flows of the same N, τ and draw do, and as late: both to a tenth."""
    by_place = {(flow.N, flow.tau, flow.seed): flow for flow in flows}
    times, errors = [], []
    for cell in descents:
        flow = by_place[cell.N, cell.tau, cell.seed]
        times.append(1.0 if cell.t2 == flow.t2 else cell.t2 / flow.t2)  # also where both are ∞
        errors.append(cell.error / flow.error)
    return Finding(
        f"{len(descents)} draws, "
        + ", ".join(f"(N={c.N}, τ={c.tau:g})" for c in descents)
        + f": t₂ is {min(times):.3f} to {max(times):.3f} and the error at the end {min(errors):.3f} to "
        f"{max(errors):.3f} of the flow's",
        all(1 / _APART <= ratio <= _APART for ratio in (*times, *errors)),
    )
