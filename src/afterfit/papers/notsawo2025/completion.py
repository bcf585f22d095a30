"""How many entries a low-rank matrix needs, to be found by nuclear-norm minimisation: Thms G.7, G.11 and G.12."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import Interval, log_slope, power_law

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = [
    "Needs",
    "Peaked",
    "does_not_grow",
    "fewest",
    "found",
    "freedom",
    "grow_like_coherence",
    "grow_like_random",
    "growth",
    "masks_of",
    "needs_of_peaked",
    "needs_of_random",
    "needs_of_steep",
    "orthogonal_law",
    "solver_agrees",
]

_SWEEPS = 150  # of the splitting, which converges at a linear rate where a matrix is found
_FOUND = 1e-3  # the relative error that counts as found


class Needs(NamedTuple):
    """How many entries draws of an n x n matrix of rank r needed, taken one after the other at random."""

    n: int
    rank: int
    entries: list[int]


class Peaked(NamedTuple):
    """Draws of an n x n matrix of rank 1 with one coherence: the least numbers of entries, and the least rates c₀.

    Entries are observed with probability min(c₀·w, 1), of which `local` is the least c₀ for w = (μᵢ + νⱼ)·r·ln²(2n)/n,
    `uniform` that for the mean of these w and `exchanged` that for the w of rows and columns in the reverse order.
    `entries` is as in `Needs`, and `smallest_first` is how many there are if they are taken by their size.
    """

    n: int
    mu_0: float
    mu_1: float
    entries: list[int]
    smallest_first: list[int]
    local: list[float]
    uniform: list[float]
    exchanged: list[float]


def needs_of_random(sizes: list[tuple[int, int]], draws: int) -> list[Needs]:
    """Of the random orthogonal model (Def. G.6), for sizes n and ranks r."""
    rng, needs = np.random.default_rng(27), []
    for n, rank in sizes:
        task = af.tasks.MatrixCompletion(n, n, rank, truth="orthogonal")
        truths = np.array([U @ V.T for U, V in (task.draw_factors(rng) for _ in range(draws))])
        needs.append(Needs(n, rank, _fewest(truths, rng.uniform(size=truths.shape))[0].tolist()))
    return needs


def needs_of_peaked(n: int, powers: list[float], draws: int) -> list[Peaked]:
    """Of matrices ±uvᵀ with uᵢ and vᵢ like i^{−a}, for several a: the larger, the more coherent."""
    rng, found = np.random.default_rng(17), []
    for power in powers:
        truths = _peaked(n, power, draws, rng)
        mu_0, mu_1 = af.theory.sensing.completion_coherences(truths[0], 1)
        rows, columns = af.theory.sensing.leverage_scores(truths[0], 1)
        weights = np.add.outer(rows, columns) * np.log(2 * n) ** 2 / n
        keys = rng.uniform(size=truths.shape)
        entries, _ = _fewest(truths, keys)
        smallest_first, _ = _fewest(truths, np.round(np.abs(truths), 9) + 1e-12 * keys)
        rates = [_fewest(truths, keys / of)[1].tolist() for of in (weights, weights.mean(), weights[::-1, ::-1])]
        found.append(Peaked(n, mu_0, mu_1, entries.tolist(), smallest_first.tolist(), *rates))
    return found


def needs_of_steep(sizes: list[int], draws: int) -> list[Needs]:
    """Of matrices ±uvᵀ with uᵢ and vᵢ like i^{−1.2}, which are not of the random orthogonal model."""
    rng, needs = np.random.default_rng(26), []
    for n in sizes:
        truths = _peaked(n, 1.2, draws, rng)
        needs.append(Needs(n, 1, _fewest(truths, rng.uniform(size=truths.shape))[0].tolist()))
    return needs


def _peaked(n: int, power: float, draws: int, rng: np.random.Generator) -> Float[np.ndarray, "k n n"]:
    """±uvᵀ with unit vectors u and v, whose entries are like i^{−power}."""
    sizes = np.arange(1.0, n + 1) ** -power
    u = sizes / np.linalg.norm(sizes)
    return rng.choice([-1.0, 1.0], (draws, n, 1)) * np.outer(u, u) * rng.choice([-1.0, 1.0], (draws, 1, n))


def growth(x: Sequence[float], needed: Sequence[Sequence[float]], law: Sequence[float]) -> Interval:
    """The exponent of x with which what is needed, beside a law, grows."""
    beside = [np.array(values) / expected for values, expected in zip(needed, law, strict=True)]
    return power_law(np.repeat(x, [len(values) for values in needed]), np.concatenate(beside))


def does_not_grow(
    x: Sequence[float], needed: Sequence[Sequence[float]], law: Sequence[float], rival: float, of: str
) -> Finding:
    """Whether what is needed, beside a law, does not grow with x: the exponent is at most half of a rival's.

    The theorems leave their constants open, and say that some constant times the law is enough for every x. `rival` is
    the exponent that what is needed would have beside the law if a rival one were enough, or has without the law: all
    of the exponent's interval must be on the law's side of the middle.
    """
    exponent, medians = growth(x, needed, law), [np.median(v) / each for v, each in zip(needed, law, strict=True)]
    return Finding(
        f"what is needed beside the law, in the median {', '.join(f'{each:.2g}' for each in medians)} for {of} = "
        f"{', '.join(f'{value:.3g}' for value in x)}, goes like {of} to the power {exponent}, allowed "
        f"{rival / 2:.2g} ({len(needed[0])} draws each)",
        exponent.high <= rival / 2,
    )


def grow_like_random(needs: Sequence[Needs], law: Callable[[Needs], float]) -> Finding:
    """Whether the entries that are needed do not grow with n beside a law, for each rank.

    The rival is the number of degrees of freedom, r(2n − r): n^{5/4}·ln n is about n^{0.65} apart from it.
    """
    found = {}
    for rank in sorted({of.rank for of in needs}):
        same = [of for of in needs if of.rank == rank]
        sizes = [float(of.n) for of in same]
        rival = log_slope(sizes, [orthogonal_law(of) / freedom(of) for of in same])
        found[rank] = does_not_grow(sizes, [of.entries for of in same], [law(of) for of in same], rival, "n")
    said = "; ".join(f"r={rank}: {finding.measured}" for rank, finding in found.items())
    return Finding(said, all(finding.holds for finding in found.values()))


def orthogonal_law(of: Needs) -> float:
    """n^{5/4}·r·ln n of Thm G.7."""
    return of.n**1.25 * of.rank * float(np.log(of.n))


def freedom(of: Needs) -> float:
    """The degrees of freedom of an n x n matrix of rank r."""
    return of.rank * (2.0 * of.n - of.rank)


def grow_like_coherence(peaked: Sequence[Peaked], needed: Sequence[Sequence[float]]) -> Finding:
    """Whether the entries that are needed do not grow with μ₀ beside max(μ₁², √μ₀·μ₁, μ₀n^¼), the law of Thm G.11.

    The rival does not know the coherence. Whether the law is attained is said, not asked. Nor is anything asked where
    the law, with the constant of the incoherent matrices, is above the n² entries that there are.
    """
    laws = [max(of.mu_1**2, of.mu_0**0.5 * of.mu_1, of.mu_0 * of.n**0.25) for of in peaked]
    x, constant = [of.mu_0 for of in peaked], float(np.median(needed[0])) / laws[0]
    within = constant * max(laws) / peaked[0].n ** 2
    found = does_not_grow(x, needed, laws, log_slope(x, laws), "μ₀")
    exponent = growth(x, needed, laws)
    attained = f"the law is {'attained' if exponent.holds(0) else 'exceeded' if exponent.low > 0 else 'not attained'}"
    return Finding(
        f"n = {peaked[0].n}: {found.measured}; {attained}, and is up to {within:.2f} of all entries",
        found.holds and within <= 1,
    )


def solver_agrees(n: int, draws: int) -> float:
    """On which share of draws a convex solver finds the matrix from the fewest entries, and not from a quarter less."""
    rng, task = np.random.default_rng(7), af.tasks.MatrixCompletion(n, n, 1, truth="orthogonal")
    truths = np.array([U @ V.T for U, V in (task.draw_factors(rng) for _ in range(draws))])
    keys = rng.uniform(size=truths.shape)
    entries, _ = _fewest(truths, keys)
    agreed = []
    for share, expected in ((1.0, True), (0.75, False)):
        masks = masks_of(keys, (share * entries).astype(int))
        for truth, mask in zip(truths, masks, strict=True):
            X = np.zeros((mask.sum(), n, n))
            X[np.arange(len(X)), *np.nonzero(mask)] = 1.0
            error = np.linalg.norm(af.theory.min_nuclear(X, truth[mask]) - truth) / np.linalg.norm(truth)
            agreed.append((error <= _FOUND) == expected)
    return float(np.mean(agreed))


def _fewest(truths: Float[np.ndarray, "k n n"], keys: Float[np.ndarray, "k n n"]) -> tuple[np.ndarray, np.ndarray]:
    """How many entries, in the order of their keys, find each matrix, and the key of the last."""
    high = fewest(truths, lambda counts: masks_of(keys, counts))
    ordered = np.sort(keys.reshape(len(keys), -1), axis=1)
    return high, ordered[np.arange(len(keys)), high - 1]


def fewest(
    truths: Float[np.ndarray, "k n n"], masks: Callable[[np.ndarray], np.ndarray], sweeps: int = _SWEEPS
) -> np.ndarray:
    """How many entries find each matrix, by bisection; `masks` are those of such numbers, the more with the fewer.

    What is found from some entries is found from more.
    """
    low, high = np.zeros(len(truths), int), np.full(len(truths), truths[0].size)  # missed, found
    while np.any(high - low > 1):
        middle = (low + high) // 2
        there = found(truths, masks(middle), sweeps)
        low, high = np.where(there, low, middle), np.where(there, middle, high)
    return high


def masks_of(keys: Float[np.ndarray, "k n n"], counts: np.ndarray) -> np.ndarray:
    """So many entries of each matrix, those of the least keys."""
    ranks = np.argsort(np.argsort(keys.reshape(len(keys), -1), axis=1), axis=1)
    return (ranks < counts[:, None]).reshape(keys.shape)


def found(truths: Float[np.ndarray, "k n n"], masks: np.ndarray, sweeps: int = _SWEEPS) -> np.ndarray:
    """Whether argmin ‖W‖_* with these entries is the truth: Douglas–Rachford splitting, all matrices at once."""
    sizes = np.linalg.norm(truths, axis=(1, 2))
    z = truths * masks
    w = z
    for _ in range(sweeps):
        w = np.where(masks, truths, z)
        turned = 2 * w - z
        squares, V = np.linalg.eigh(turned.transpose(0, 2, 1) @ turned)
        kept = np.maximum(1 - sizes[:, None] / 10 / np.sqrt(np.maximum(squares, np.finfo(float).tiny)), 0)
        z = z - w + turned @ (V * kept[:, None, :]) @ V.transpose(0, 2, 1)  # singular values less size/10
    return np.linalg.norm(w - truths, axis=(1, 2)) <= _FOUND * sizes
