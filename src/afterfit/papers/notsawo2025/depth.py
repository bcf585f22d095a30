"""Sparse recovery with a = A₁ ⊙ … ⊙ A_L, App. F.1: what is read off runs of several depths, and asked of them.

What is asked is written down before the draws that are reported are run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import at, first_step, power_law, share
from afterfit.papers.notsawo2025.recovery import CLOSE, least_l1_recovers

__all__ = [
    "FOUND",
    "Draw",
    "Size",
    "Start",
    "accelerates",
    "by_seed",
    "delays",
    "end_of",
    "ends_lower",
    "falls",
    "from_fewer",
    "groks",
    "is_abrupt",
    "judged",
    "nearer",
    "possible_of",
    "reached",
    "recover",
    "recover_by",
    "rests",
    "squares_error",
    "stairs",
    "stays_positive",
    "takes_longer",
    "together",
]

FOUND = 0.2  # a relative error that least squares, at √(1 − N/n), is far from
_LONG, _LEVEL = 1.5, 0.05  # a plateau: so many times as late, the error is lower by no more than this share of it
_STEEP = 1.3  # how many times as late the end of a stair may be, which is one in a picture over log t


class Size(NamedTuple):
    """A depth and a number of measurements."""

    L: int
    N: int


class Draw(NamedTuple):
    """A depth and a draw of the data."""

    L: int
    seed: int
    start: str = "Gaussian"


class Start(NamedTuple):
    """The size of a start and a draw of the data."""

    size: float
    seed: int


def judged(run: af.Run) -> af.Verdict:
    """The verdict with training errors to a hundredth and recovery errors to a tenth."""
    return run.diagnose(fit=CLOSE, generalise=0.1)


def possible_of(draws: Mapping[Draw, af.Run]) -> dict[Draw, af.Run]:
    """The draws on which a* is the interpolator of least ℓ₁ norm."""
    seeds = {draw.seed: run for draw, run in draws.items()}  # one draw of data, whatever L
    possible = {seed for seed, run in seeds.items() if least_l1_recovers(run.data)}
    return {draw: run for draw, run in draws.items() if draw.seed in possible}


def by_seed(draws: Mapping[Draw, af.Run], L: int) -> dict[int, af.Run]:
    """The runs of one depth."""
    return {draw.seed: run for draw, run in draws.items() if draw.L == L}


def reached(run: af.Run, name: str = "test_error") -> float:
    """The time at which an error is first at 0.2, inf if never."""
    return first_step(run.curves["time"].values, run.curves[name].values, FOUND)


def squares_error(run: af.Run, N: int | None = None) -> float:
    """‖â − a*‖/‖a*‖, â the least-squares solution of least norm; of the same draw with another N, if it is said."""
    data = run.data if N is None else run.experiment.set({"task.N": N, "task.variance": 1 / N}).draw()
    return float(np.linalg.norm(af.theory.min_l2(data.inputs, data.targets) - data.truth) / np.linalg.norm(data.truth))


def end_of(run: af.Run) -> float:
    """The recovery error at the end."""
    return float(run.curves["test_error"][-1])


def recover(draws: Mapping[Draw, af.Run], depths: Sequence[int]) -> Finding:
    """Whether these depths find a* more often than not, by the interval of the share, and L = 1 does not."""
    words, shares = [], {}
    for L in sorted({draw.L for draw in draws}):
        ends = [end_of(run) for run in by_seed(draws, L).values()]
        shares[L] = share(sum(end <= FOUND for end in ends), len(ends))
        words.append(f"{shares[L]} (L={L}, median error {np.median(ends):.2g}, {len(ends)} draws)")
    return Finding(
        f"error at most {FOUND:g} on a share " + ", ".join(words),
        all(shares[L].low > 0.5 for L in depths) and shares[1].high < 0.5,
    )


def recover_by(draws: Mapping[Draw, af.Run], L: int, time: float) -> Finding:
    """Whether this depth has found a* by a time on more than half of the draws, by the interval of the share."""
    runs = by_seed(draws, L).values()
    errors, times = [float(at(run, "test_error", time)) for run in runs], [reached(run) for run in runs]
    found = share(sum(t <= time for t in times), len(times))
    return Finding(
        f"L={L}: error at most {FOUND:g} by t = {time:g} on a share {found} of {len(times)} draws; in the median it is "
        f"{np.median(errors):.2g} then, and at most {FOUND:g} from t = {np.median(times):.3g} on",
        found.low > 0.5,
    )


def from_fewer(draws: Mapping[Draw, af.Run], depths: Sequence[int], errors: Mapping[Draw, float]) -> Finding:
    """Whether these depths are nearer to a* than least squares are with half as many measurements again.

    Least squares are where L = 1 ends. On more than half of the draws, by the interval of the share.
    """
    some = next(iter(draws.values()))
    n, N = (some.spec["task"][name] for name in ("n", "N"))
    words, right, squares, more = [], [], [np.nan], N + N // 2
    for L in depths:
        runs = by_seed(draws, L)
        squares = [squares_error(run, more) for run in runs.values()]
        own = [errors[Draw(L, seed)] for seed in runs]
        less = share(sum(a < b for a, b in zip(own, squares, strict=True)), len(own))
        right.append(less.low > 0.5)
        words.append(f"L={L} median {np.median(own):.2g}, less on a share {less} of {len(own)} draws")
    return Finding(
        f"n = {n}: errors with N = {N} beside those of least squares with N = {more}, median "
        f"{np.median(squares):.2g}: {'; '.join(words)}",
        all(right),
    )


def stays_positive(runs: Mapping[Draw, af.Run]) -> Finding:
    """Whether a stays positive, so that the negative part of a* is missed: on five draws of each depth or more.

    Draws of a* without negative entries say nothing.
    """
    least, over, counts = [], [], dict.fromkeys({draw.L for draw in runs}, 0)
    for draw, run in runs.items():
        truth = run.data.truth
        floor = float(np.linalg.norm(np.minimum(truth, 0)) / np.linalg.norm(truth))
        least.append(float(run.curves["weights"].values.min()))
        if floor > 0:
            over.append(float(run.curves["test_error"].min()) / floor)
            counts[draw.L] += 1
    return Finding(
        f"aᵢ ≥ {min(least):.2g} at all times; the recovery error is {min(over, default=np.nan):.3g} to "
        f"{max(over, default=np.nan):.3g} times ‖a*₋‖/‖a*‖ at the least, in {len(over)} of {len(runs)} runs with "
        "negative entries in a*",
        min(least) >= 0 and min(over, default=0) >= 1 and min(counts.values()) >= 5,
    )


def rests(runs: Iterable[af.Run], time: float) -> Finding:
    """Whether nothing has moved: a coordinate that grows takes a hundredth of the training error away."""
    left = [float(at(run, "train_error", time)) for run in runs]
    return Finding(
        f"relative training error {min(left):.4g} to {max(left):.4g} at t = {time:.3g}; {len(left)} draws",
        min(left) >= 0.99,
    )


def nearer(errors: Mapping[Start, float]) -> Finding:
    """Whether an error falls with the size of the start, on each draw at every step, and by a power law with p > 0."""
    seeds, sizes = sorted({start.seed for start in errors}), sorted({start.size for start in errors})
    steady = [all(np.diff([errors[Start(size, seed)] for size in sizes]) > 0) for seed in seeds]
    law = power_law([start.size for start in errors], list(errors.values()))
    medians = [float(np.median([errors[Start(size, seed)] for seed in seeds])) for size in sizes]
    return Finding(
        f"median error {', '.join(f'{e:.2g} (from {size:g})' for size, e in zip(sizes, medians, strict=True))}; ∝ "
        f"size^p with p = {law}; falls with every size on {sum(steady)} of {len(seeds)} draws",
        all(steady) and law.low > 0,
    )


def falls(draws: Mapping[Draw, af.Run], depths: Sequence[int], time: float) -> Finding:
    """Whether the error falls at every step of L on more than half of the draws, by the interval of the share."""
    words, right = [], []
    for fewer, more in itertools.pairwise(depths):
        a, b = by_seed(draws, fewer), by_seed(draws, more)
        less = [float(at(b[seed], "test_error", time)) < float(at(a[seed], "test_error", time)) for seed in a]
        found = share(sum(less), len(less))
        right.append(found.low > 0.5)
        words.append(f"from L={fewer} to {more} on a share {found}")
    medians = {L: np.median([float(at(run, "test_error", time)) for run in by_seed(draws, L).values()]) for L in depths}
    return Finding(
        f"the error falls {', '.join(words)}; median {', '.join(f'{e:.2g} (L={L})' for L, e in medians.items())}",
        all(right),
    )


def delays(shallow: Sequence[af.Run], two: Sequence[af.Run], three: Sequence[af.Run]) -> Finding:
    """Whether the delay is extremely small for L = 2 and none beyond.

    Extremely small is below ten, where the shallow case has two decades and more, which are seen on the figure's axis;
    none is below one and a half, in the median.
    """
    ratios = [[reached(run) / reached(run, "train_error") for run in runs] for runs in (shallow, two, three)]
    medians = [float(np.median(each)) for each in ratios]
    spread = [f"{m:.3g}, from {min(each):.3g} to {max(each):.3g}" for m, each in zip(medians, ratios, strict=True)]
    return Finding(
        f"time of a recovery error of {FOUND:g} over that of such a training error, median and range: "
        f"{spread[0]} (L=1 with ℓ₁), {spread[1]} (L=2), {spread[2]} (L=3)",
        medians[0] >= 100 and medians[1] < 10 and medians[2] < 1.5,
    )


def takes_longer(times: Mapping[int, Mapping[int, float]]) -> Finding:
    """Whether a* takes longer with every factor, three times in the median, on draws on which it is found with both."""
    words, right = [], []
    for fewer, more in itertools.pairwise(sorted(times)):
        both = [(t, times[more][seed]) for seed, t in times[fewer].items() if max(t, times[more][seed]) < np.inf]
        ratios = [late / early for early, late in both]
        right.append(min(ratios, default=0.0) > 1 and float(np.median(ratios)) >= 3)
        words.append(
            f"{min(ratios, default=np.nan):.3g} to {max(ratios, default=np.nan):.3g} times as long for L={more} as for "
            f"{fewer}, {np.median(ratios):.3g} in the median ({len(ratios)} draws)"
        )
    return Finding(f"time until an error of {FOUND:g}: " + ", ".join(words), all(right))


def _plateaus(time: np.ndarray, error: np.ndarray) -> int:
    """How many plateaus a falling error has on its way: below nine tenths of its start and above twice its end."""
    on_the_way = (error < 0.9 * error[0]) & (error > 2 * error[-1])
    time, error = time[on_the_way], error[on_the_way]
    count, k = 0, 0
    while k < len(time):
        (left,) = np.nonzero(np.abs(error[k:] / error[k] - 1) > _LEVEL)
        last = k + int(left[0]) - 1 if len(left) else len(time) - 1
        count += bool(time[last] >= _LONG * time[k])
        k = last + 1 if time[last] >= _LONG * time[k] else k + 1
    return count


def stairs(shallow: Sequence[af.Run], deep: Mapping[int, Sequence[af.Run]]) -> Finding:
    """Whether errors have plateaus on their way on more draws with more factors than in the shallow case.

    By Fisher's exact test, for the training and for the recovery error, for each of these depths.
    """
    from scipy.stats import fisher_exact

    words, right = [], []
    for name, of in (("train_error", "training"), ("test_error", "recovery")):
        none = [_plateaus(run.curves["time"].values, run.curves[name].values) for run in shallow]
        words.append(f"{of}: {sum(k > 0 for k in none)} of {len(none)} draws (L=1)")
        for L, runs in deep.items():
            own = [_plateaus(run.curves["time"].values, run.curves[name].values) for run in runs]
            table = [[sum(k > 0 for k in each), sum(k == 0 for k in each)] for each in (own, none)]
            p = float(np.asarray(fisher_exact(table, alternative="greater"))[1])
            right.append(p <= 0.025)
            words.append(f"{table[0][0]} of {len(own)} (L={L}, up to {max(own)} of them, p = {p:.1g})")
    return Finding("errors with plateaus on their way, " + ", ".join(words), all(right))


def _steepest(run: af.Run) -> float:
    """The largest share of the error at the start that is lost while the time grows by a factor of 1.3."""
    time, error = run.curves["time"].values[1:], run.curves["test_error"].values[1:]
    fine = np.geomspace(time[0], time[-1] / _STEEP, 2000)
    early, late = (np.interp(np.log(t), np.log(time), error) for t in (fine, _STEEP * fine))
    return float(np.max(early - late) / error[0])


def is_abrupt(draws: Mapping[Draw, af.Run], fewer: int, more: Sequence[int]) -> Finding:
    """Whether the steepest fall of the recovery error is steeper for these depths than for fewer factors.

    On most draws, by the interval of the share. It is what is lost while the time grows by a factor of 1.3.
    """
    first = {seed: _steepest(run) for seed, run in by_seed(draws, fewer).items()}
    words, right = [f"{np.median(list(first.values())):.2f} (L={fewer})"], []
    for L in more:
        own = {seed: _steepest(run) for seed, run in by_seed(draws, L).items()}
        steeper = share(sum(own[seed] > first[seed] for seed in own), len(own))
        right.append(steeper.low > 0.5)
        words.append(f"{np.median(list(own.values())):.2f} (L={L}, steeper on a share {steeper} of {len(own)} draws)")
    return Finding(
        f"most of the error that is lost while the time grows {_STEEP:g} times, medians: {', '.join(words)}", all(right)
    )


def groks(large: Mapping[Draw, af.Run], depths: Sequence[int]) -> Finding:
    """Whether these depths grok on most draws, by the interval of the share, and L = 1 so without understanding."""
    words, right = [], []
    for L in sorted({draw.L for draw in large}):
        kinds = [judged(run).kind for run in by_seed(large, L).values()]
        wanted = "grokking without understanding" if L == 1 else "grokking"
        words.append(f"{', '.join(f'{kind} ({kinds.count(kind)})' for kind in dict.fromkeys(kinds))} (L={L})")
        if L in (1, *depths):
            right.append(share(kinds.count(wanted), len(kinds)).low > 0.5)
    return Finding("; ".join(words), all(right))


def accelerates(large: Mapping[Draw, af.Run], depths: tuple[int, int]) -> Finding:
    """Whether t₂ − t₁ is less for the second of these depths, on most draws by the interval of the share."""
    waits = {L: {seed: judged(run).delay or np.inf for seed, run in by_seed(large, L).items()} for L in depths}
    ratios = [waits[depths[1]][seed] / wait for seed, wait in waits[depths[0]].items() if wait < np.inf]
    less = share(sum(ratio < 1 for ratio in ratios), len(ratios))
    return Finding(
        f"t₂ − t₁ for L={depths[1]} is {min(ratios):.2g} to {max(ratios):.2g} times that for L={depths[0]}, less on a "
        f"share {less} ({len(ratios)} draws)",
        less.low > 0.5,
    )


def ends_lower(fewer: Mapping[int, af.Run], more: Mapping[int, af.Run]) -> Finding:
    """Whether the error at the end is considerably lower with more factors: by half and more, in the median."""
    ratios = [end_of(more[seed]) / end_of(run) for seed, run in fewer.items()]
    return Finding(
        f"the error at the end is {min(ratios):.2g} to {max(ratios):.2g} times as large, {np.median(ratios):.2g} in "
        f"the median ({len(ratios)} draws)",
        float(np.median(ratios)) <= 0.5,
    )


def together(pairs: Mapping[int, tuple[af.Run, af.Run]]) -> Finding:
    """Whether descent and flow have the same recovery error, to a tenth, at the last time that both have come to."""
    apart = {}
    for L, (descent, flow) in pairs.items():
        end = min(float(run.curves["time"][-1]) for run in (descent, flow))
        errors = [np.log(float(at(run, "test_error", end))) for run in (descent, flow)]
        apart[L] = abs(float(np.exp(errors[0] - errors[1]) - 1))
    return Finding(
        "relative difference of the recovery errors at the end: "
        + ", ".join(f"{gap:.2g} (L={L})" for L, gap in sorted(apart.items())),
        max(apart.values()) <= 0.1,
    )
