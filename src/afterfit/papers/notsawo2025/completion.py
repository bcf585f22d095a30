"""How many entries a low-rank matrix needs, to be found by nuclear-norm minimisation: Thms G.7, G.11 and G.12."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import power_law

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Needs", "Peaked", "does_not_grow", "needs_of_peaked", "needs_of_random", "solver_agrees"]

_SWEEPS = 150  # of the splitting, which converges at a linear rate where a matrix is found
_FOUND = 1e-3  # the relative error that counts as found


class Needs(NamedTuple):
    """How many entries draws of an n x n matrix of rank r needed, taken one after the other at random."""

    n: int
    rank: int
    entries: list[int]


class Peaked(NamedTuple):
    """Draws of an n x n matrix of rank 1 with one coherence: the least numbers of entries, and the least rates c₀.

    Entries are observed with probability min(c₀·w, 1), of which `local` is the least c₀ for w = (μᵢ + νⱼ)·r·ln²(2n)/n
    and `uniform` that for the mean of these w. `entries` is as in `Needs`.
    """

    n: int
    mu_0: float
    mu_1: float
    entries: list[int]
    local: list[float]
    uniform: list[float]


def needs_of_random(sizes: list[tuple[int, int]], draws: int) -> list[Needs]:
    """Of the random orthogonal model (Def. G.6), for sizes n and ranks r."""
    rng, needs = np.random.default_rng(25), []
    for n, rank in sizes:
        task = af.tasks.MatrixCompletion(n, n, rank, truth="orthogonal")
        truths = np.array([U @ V.T for U, V in (task.draw_factors(rng) for _ in range(draws))])
        needs.append(Needs(n, rank, _fewest(truths, rng.uniform(size=truths.shape))[0].tolist()))
    return needs


def needs_of_peaked(n: int, powers: list[float], draws: int) -> list[Peaked]:
    """Of matrices ±uvᵀ with uᵢ and vᵢ like i^{−a}, for several a: the larger, the more coherent."""
    rng, found = np.random.default_rng(16), []
    for power in powers:
        sizes = np.arange(1.0, n + 1) ** -power
        u = sizes / np.linalg.norm(sizes)
        truths = rng.choice([-1.0, 1.0], (draws, n, 1)) * np.outer(u, u) * rng.choice([-1.0, 1.0], (draws, 1, n))
        mu_0, mu_1 = af.theory.sensing.completion_coherences(truths[0], 1)
        rows, columns = af.theory.sensing.leverage_scores(truths[0], 1)
        weights = np.add.outer(rows, columns) * np.log(2 * n) ** 2 / n
        keys = rng.uniform(size=truths.shape)
        entries, _ = _fewest(truths, keys)
        _, local = _fewest(truths, keys / weights)
        _, uniform = _fewest(truths, keys / weights.mean())
        found.append(Peaked(n, mu_0, mu_1, entries.tolist(), local.tolist(), uniform.tolist()))
    return found


def does_not_grow(x: list[float], needed: Sequence[Sequence[float]], law: list[float], of: str) -> Finding:
    """Whether what is needed, beside a law, is not seen to grow with x: the exponent's interval reaches 0 or less.

    The theorems leave their constants open, and say that some constant times the law is enough for every x. The
    interval must be narrow enough, 0.6 at most, to tell the law from others: n^{5/4}·ln n from n, about n^{0.65} apart.
    """
    beside = [np.array(values) / expected for values, expected in zip(needed, law, strict=True)]
    exponent = power_law(np.repeat(x, [len(values) for values in needed]), np.concatenate(beside))
    return Finding(
        f"what is needed beside the law, in the median {', '.join(f'{np.median(b):.2g}' for b in beside)} for {of} = "
        f"{', '.join(f'{value:.3g}' for value in x)}, goes like {of} to the power {exponent} ({len(needed[0])} draws "
        "each)",
        exponent.low <= 0 and exponent.high - exponent.low <= 0.6,
    )


def solver_agrees(n: int, draws: int) -> float:
    """On which share of draws a convex solver finds the matrix from the fewest entries, and not from a quarter less."""
    rng, task = np.random.default_rng(7), af.tasks.MatrixCompletion(n, n, 1, truth="orthogonal")
    truths = np.array([U @ V.T for U, V in (task.draw_factors(rng) for _ in range(draws))])
    keys = rng.uniform(size=truths.shape)
    entries, _ = _fewest(truths, keys)
    agreed = []
    for share, expected in ((1.0, True), (0.75, False)):
        masks = _masks(keys, (share * entries).astype(int))
        for truth, mask in zip(truths, masks, strict=True):
            X = np.zeros((mask.sum(), n, n))
            X[np.arange(len(X)), *np.nonzero(mask)] = 1.0
            error = np.linalg.norm(af.theory.min_nuclear(X, truth[mask]) - truth) / np.linalg.norm(truth)
            agreed.append((error <= _FOUND) == expected)
    return float(np.mean(agreed))


def _fewest(truths: Float[np.ndarray, "k n n"], keys: Float[np.ndarray, "k n n"]) -> tuple[np.ndarray, np.ndarray]:
    """How many entries, in the order of their keys, find each matrix, and the key of the last; by bisection.

    What is found from some entries is found from more.
    """
    low, high = np.zeros(len(truths), int), np.full(len(truths), truths[0].size)  # missed, found
    while np.any(high - low > 1):
        middle = (low + high) // 2
        found = _found(truths, _masks(keys, middle))
        low, high = np.where(found, low, middle), np.where(found, middle, high)
    ordered = np.sort(keys.reshape(len(keys), -1), axis=1)
    return high, ordered[np.arange(len(keys)), high - 1]


def _masks(keys: Float[np.ndarray, "k n n"], counts: np.ndarray) -> np.ndarray:
    """So many entries of each matrix, those of the least keys."""
    ranks = np.argsort(np.argsort(keys.reshape(len(keys), -1), axis=1), axis=1)
    return (ranks < counts[:, None]).reshape(keys.shape)


def _found(truths: Float[np.ndarray, "k n n"], masks: np.ndarray) -> np.ndarray:
    """Whether argmin ‖W‖_* with these entries is the truth: Douglas–Rachford splitting, all matrices at once."""
    sizes = np.linalg.norm(truths, axis=(1, 2))
    z = truths * masks
    w = z
    for _ in range(_SWEEPS):
        w = np.where(masks, truths, z)
        turned = 2 * w - z
        squares, V = np.linalg.eigh(turned.transpose(0, 2, 1) @ turned)
        kept = np.maximum(1 - sizes[:, None] / 10 / np.sqrt(np.maximum(squares, np.finfo(float).tiny)), 0)
        z = z - w + turned @ (V * kept[:, None, :]) @ V.transpose(0, 2, 1)  # singular values less size/10
    return np.linalg.norm(w - truths, axis=(1, 2)) <= _FOUND * sizes
