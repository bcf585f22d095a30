"""Runs on measurements of coherence τ, App. G: descent and its flow, and what is read off them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Finding, run_all
from afterfit.papers._measure import Interval, first_step, mean_of
from afterfit.papers.notsawo2025.agreement import Answer, agree
from afterfit.papers.notsawo2025.coherent import draw_of
from afterfit.papers.notsawo2025.recovery import CLOSE, GOAL, descent, settling_step

if TYPE_CHECKING:
    from afterfit.papers import Progress

__all__ = [
    "Cell",
    "agrees",
    "at_next_tau",
    "dealt_anew",
    "flow_of",
    "follows",
    "later_where_found",
    "on_matrix",
    "one_by_one",
    "sooner_where_found",
    "times_fall",
    "times_rise",
]

_SIZE = 10.0  # ‖A*‖_F in the notebook
_SPACING = 1.2  # observations of a run are up to 18 % apart


def on_matrix(
    task: af.tasks.MatrixCompletion, alpha: float, beta: float, steps: float, seed: int, observations: int
) -> af.Experiment:
    """Subgradient descent on ½Σ(A − A*)² over the observed entries + β‖A‖_*, in units in which ‖A*‖_F is 10."""
    strength = beta * float(np.linalg.norm(draw_of(task, seed).truth)) / _SIZE
    of_vector = descent(task, alpha, beta, steps, seed, observations)
    return dataclasses.replace(of_vector, penalty=af.penalties.Nuclear(strength))


def flow_of(run: af.Experiment, method: str = "proximal") -> af.Experiment:
    """The flow of a descent, to the same time."""
    dynamics: Any = run.dynamics
    end = dynamics.lr * dynamics.steps
    rtol = 1e-3 if method == "proximal" else None  # with 10⁻⁴ t₂ is the same
    flow = af.dynamics.GradientFlow(until=end, first=1.0, method=method, rtol=rtol)
    return dataclasses.replace(run, dynamics=flow)


def one_by_one(runs: Mapping[Any, af.Experiment], label: str, progress: Progress) -> list[af.Run]:
    """Runs that do not go on together: flows of one batch wait for each other's steps, and take four times as long."""
    return [run_all({str(key): run}, f"{label} {key}", progress)[str(key)] for key, run in runs.items()]


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
    wobble: float = 0.0  # αβ

    @classmethod
    def of(cls, run: af.Run, alpha: float) -> Cell:
        """Read a run, a flow or descent, in steps of size α."""
        task, curves = run.spec["task"], run.curves
        steps, train, test = curves["time"].values / alpha, curves["train_error"].values, curves["test_error"].values
        error, size = float(test[-1]), np.linalg.norm(run.data.targets) / np.linalg.norm(run.data.truth)
        return cls(
            run=run,
            N=int(task["N"] if "N" in task else task["observed"]),
            tau=float(task["coherence"]),
            seed=run.spec["seed"],
            t1=first_step(steps, train, GOAL) if size > 1e-9 else 0.0,  # no non-zero was read: nothing to fit
            t2=settling_step(steps, test) if error <= CLOSE else np.inf,
            error=error,
            wobble=alpha * run.spec["penalty"]["strength"],
        )

    @property
    def found(self) -> bool:
        return self.error <= CLOSE

    @property
    def delay(self) -> float:
        """t₂ − t₁."""
        return self.t2 - self.t1 if self.t2 < np.inf else np.inf


def times_rise(cells: Iterable[Cell], value: Callable[[Cell], float], of: str, numbers: Sequence[int]) -> Finding:
    """Whether with τ a time rises, or does not come, for each of these N: it is ∞ where it does not come.

    By Page's test for an order, in which every draw ranks its own times, the rise is no chance; and in the median over
    draws it is at least twofold from the first τ to the last. Measurements at random differ from one τ to the next, and
    times with them, so that medians in between need not be in order.
    """
    return _ordered(cells, value, of, numbers, sign=+1)


def times_fall(cells: Iterable[Cell], value: Callable[[Cell], float], of: str, numbers: Sequence[int]) -> Finding:
    """The same the other way."""
    return _ordered(cells, value, of, numbers, sign=-1)


def _ordered(
    cells: Iterable[Cell], value: Callable[[Cell], float], of: str, numbers: Sequence[int], *, sign: int
) -> Finding:
    from scipy.stats import page_trend_test, rankdata

    words, holds, cells, count = [], [], list(cells), 0
    for N in numbers:
        group = [cell for cell in cells if cell.N == N]
        taus, seeds = sorted({c.tau for c in group}), sorted({c.seed for c in group})
        times = {(c.tau, c.seed): value(c) for c in group}
        table = np.array([[times[tau, seed] for tau in taus] for seed in seeds])
        medians = np.median(table, axis=0)
        low, high = medians[[0, -1]][::sign]
        ranks = rankdata(sign * table, axis=1)
        p = float(page_trend_test(ranks, ranked=True, method="asymptotic").pvalue)
        words.append(f"{', '.join(f'{m:.2g}' for m in medians)} (N={N}, p={p:.1g})")
        holds.append(bool(2 * low <= high) and p <= 0.025)
        count = len(seeds)
    taus = sorted({c.tau for c in cells})
    return Finding(
        f"medians of {of} over {count} draws, for τ = {', '.join(f'{t:g}' for t in taus)}: {'; '.join(words)}",
        all(holds) and bool(holds),
    )


def later_where_found(cells: Iterable[Cell], numbers: Sequence[int]) -> Finding:
    """Whether draws of which t₂ comes at several τ have it later at the largest of these than at the smallest.

    For each of these N, in the mean over draws of log t₂(τ′)/t₂(τ), with its interval. How many have it at each τ is no
    part of this.
    """
    return _ratios(cells, numbers, sign=+1)


def sooner_where_found(cells: Iterable[Cell], numbers: Sequence[int]) -> Finding:
    """The same the other way."""
    return _ratios(cells, numbers, sign=-1)


def _ratios(cells: Iterable[Cell], numbers: Sequence[int], *, sign: int) -> Finding:
    words, holds = [], []
    draws = _timed_of_draws(cells)
    for N in numbers:
        pairs = [(several[0], several[-1]) for (of, _), several in draws.items() if of == N and len(several) > 1]
        logs = np.array([np.log(last.t2 / first.t2) for first, last in pairs])
        if len(logs) < 2:
            words.append(f"too few, {len(logs)} (N={N})")
            holds.append(False)
            continue
        mean = mean_of(logs)
        ratio = Interval(*(float(np.exp(end)) for end in mean))
        words.append(f"{ratio}, above 1 on {int(np.sum(logs > 0))} of {len(logs)} (N={N})")
        holds.append(mean.low > 0 if sign > 0 else mean.high < 0)
    return Finding(
        "geometric mean of t₂(τ′)/t₂(τ), τ′ the largest and τ the smallest at which t₂ comes on a draw, over the draws "
        f"with two or more: {'; '.join(words)}",
        all(holds) and bool(holds),
    )


def dealt_anew(cells: Iterable[Cell]) -> list[Cell]:
    """Cells with each draw's t₂ dealt by chance to the τ at which they come: as many come at each τ as before."""
    rng, dealt = np.random.default_rng(0), []
    for several in _timed_of_draws(cells).values():
        times = rng.permutation([cell.t2 for cell in several])
        dealt += [dataclasses.replace(cell, t2=float(t2)) for cell, t2 in zip(several, times, strict=True)]
    return dealt


def _timed_of_draws(cells: Iterable[Cell]) -> dict[tuple[int, int], list[Cell]]:
    """By N and draw, the cells in which t₂ comes, in the order of τ."""
    draws: dict[tuple[int, int], list[Cell]] = {}
    for cell in sorted(cells, key=lambda c: c.tau):
        if cell.t2 < np.inf:
            draws.setdefault((cell.N, cell.seed), []).append(cell)
    return draws


def agrees(cells: Sequence[Cell], possible: Sequence[bool], program: str, least: float) -> Finding:
    """Whether runs find the truth where and only where a convex program does, at the pairs (N, τ)."""
    both = sorted(zip(cells, possible, strict=True), key=lambda each: (each[0].N, each[0].tau))
    answers = [Answer(f"N={cell.N}", f"τ={cell.tau:g}", cell.found, bool(can)) for cell, can in both]
    return agree(answers, program, "pairs (N, τ)", least)


def at_next_tau(cells: Sequence[Cell], possible: Sequence[bool]) -> list[bool]:
    """The answers for the same N and draw at the next τ, and after the last at the first."""
    taus = sorted({cell.tau for cell in cells})
    after = dict(zip(taus, [*taus[1:], taus[0]], strict=True))
    answers = {(cell.N, cell.tau, cell.seed): can for cell, can in zip(cells, possible, strict=True)}
    return [answers[cell.N, after[cell.tau], cell.seed] for cell in cells]


def follows(cells: Iterable[Cell], others: Sequence[Cell]) -> Finding:
    """Whether runs by another method find what those of the same N, τ and draw do, as late, and end where they do.

    The step of a recovery error of 10⁻² is the same but for the distance of two observations. Descent goes on around
    its end in steps of αβ, so that the errors may differ by αβ√n beside the norm of the truth.
    """
    by_place = {(cell.N, cell.tau, cell.seed): cell for cell in cells}
    times, apart = [], []
    for other in others:
        cell, truth = by_place[other.N, other.tau, other.seed], other.run.data.truth
        first, second = (_found_at(each) for each in (other, cell))
        times.append(1.0 if first == second else first / second)  # also where both are ∞
        wobble = other.wobble * np.sqrt(truth.size) / np.linalg.norm(truth)
        apart.append(abs(other.error - cell.error) / wobble)
    return Finding(
        ", ".join(f"(N={c.N}, τ={c.tau:g})" for c in others)
        + f", one draw each: an error of 10⁻² comes after {min(times):.3f} to {max(times):.3f} of the other's steps, "
        f"and the errors at the end differ by at most {max(apart):.3g} of αβ√n beside the norm of the truth",
        all(1 / _SPACING <= ratio <= _SPACING for ratio in times) and max(apart) <= 1,
    )


def _found_at(cell: Cell) -> float:
    """The step at which the recovery error is first at 10⁻², inf if never."""
    curves = cell.run.curves
    return first_step(curves["time"].values, curves["test_error"].values, CLOSE)
