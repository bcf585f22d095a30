"""Restricted isometry and coherence, held against what App. G says of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import power_law

__all__ = [
    "LAWS",
    "SLACK",
    "Isometries",
    "bounds_isometry",
    "draw_isometries",
    "falls_like_root",
    "follows_law",
    "is_isometry",
    "is_rank_isometry",
    "is_welch",
    "printed_coherence",
]

SLACK = 1e-9  # rounding; linear programs are good to 1e-7, and what rests on them gets 1e-6

# What N·δ_s² goes like over n and s, for η = ½: as Thm G.5 is printed, and with e; and those laws to which it has to be
# preferred: without a logarithm, by way of coherence (Prop. G.3 with μ like √(ln n/N)), and of all vectors.
LAWS: dict[str, Callable[[int, int], float]] = {
    "s·ln(n/s) + ln(1/η)": lambda n, s: s * np.log(n / s) + np.log(2),
    "s·ln(en/s) + ln(1/η)": lambda n, s: s * np.log(np.e * n / s) + np.log(2),
    "s + ln(1/η)": lambda n, s: s + np.log(2),
    "s²·ln n": lambda n, s: s**2 * np.log(n),
    "n": lambda n, s: float(n),
}
_MANY = (100, 200, 400, 800, 1600)  # numbers of measurements, over which δ_s falls
_SIZES = ((8, 2), (32, 2), (256, 2), (12, 2), (12, 4), (12, 6), (12, 12), (8, 8), (32, 32))  # n and s, at the last N


def is_isometry(matrices: list[np.ndarray], lag: int = 0, power: int = 2) -> Finding:
    """Whether δ_{s−lag} is max|σ^power − 1| over the singular values of s columns, grows, bounds condition numbers."""
    apart, rises, conditions = [], [], []
    for A in matrices:
        deltas = [af.theory.sensing.restricted_isometry(A, s).lower for s in range(1, 9)]
        rises.append(np.min(np.diff(deltas)))
        for s in range(1 + lag, 9):
            singular = np.array([np.linalg.svd(A[:, J], compute_uv=False) for J in _subsets(8, s)])
            delta = deltas[s - 1 - lag]
            apart.append(abs(delta - np.max(np.abs(singular**power - 1))))
            if delta < 1:
                conditions.append(np.max((singular[:, 0] / singular[:, -1]) ** 2) * (1 - delta) / (1 + delta))
    return Finding(
        f"{len(matrices)} matrices, s = {1 + lag} to 8: the two differ by at most {max(apart):.1g}; the smallest rise "
        f"of δ_s is {min(rises):.1g}; condition numbers at most {max(conditions):.3f} of their bounds (δ_s < 1 in "
        f"{len(conditions)} of {len(apart)})",
        max(apart) <= SLACK and min(rises) >= -SLACK and 0 < max(conditions) <= 1 + SLACK,
    )


def printed_coherence(A: np.ndarray) -> float:
    """The largest |cosine| of columns i ≠ j with i among the first m of the n, as Def. G.2 is printed."""
    unit = A / np.linalg.norm(A, axis=0)
    cosines = np.abs(unit.T @ unit) - np.eye(A.shape[1])
    return float(cosines[: A.shape[0]].max())


def is_welch(matrices: list[np.ndarray], mutual: Callable[[np.ndarray], float], factor: float = 1.0) -> Finding:
    """Whether μ₁(A, s) ≤ sμ(A), with μ as given, and μ and μ₁/s are above Welch's bound, times a factor.

    Simplices, n = m + 1 columns with cosines −1/m, are among the matrices: they attain it.
    """
    to_welch, to_mu = [], []
    for A in [*matrices, *map(_simplex, range(2, 7))]:
        n, welch, mu = A.shape[1], factor * af.theory.sensing.welch_bound(*A.shape), mutual(A)
        to_welch.append(mu / welch)
        for s in range(1, n):
            one = af.theory.sensing.one_coherence(A, s)
            to_mu.append(one / (s * mu))
            if s <= np.sqrt(n - 1):
                to_welch.append(one / (s * welch))
    return Finding(
        f"{len(matrices)} matrices of up to 12 columns and 5 simplices: μ₁/(sμ) at most {max(to_mu):.3f}; μ and μ₁/s "
        f"at least {min(to_welch):.3f} times {'' if factor == 1 else f'{factor:g} of '}Welch's bound",
        max(to_mu) <= 1 + SLACK and min(to_welch) >= 1 - SLACK,
    )


def _simplex(m: int) -> np.ndarray:
    """m + 1 unit vectors in ℝᵐ with the same angles."""
    centred = np.eye(m + 1) - 1 / (m + 1)
    U, sigma, _ = np.linalg.svd(centred)
    return (U[:, :m] * sigma[:m]).T


def bounds_isometry(matrices: list[np.ndarray]) -> Finding:
    """Whether Prop. G.3 holds."""
    equal, shares = [], []
    for A in matrices:
        gram, mu = A.T @ A - np.eye(8), af.theory.sensing.mutual_coherence(A)
        equal.append(abs(mu - af.theory.sensing.restricted_isometry(A, 2).lower))
        for s in range(1, 8):
            norms = [np.linalg.norm(gram[np.ix_(J, J)], 1) for J in _subsets(8, s + 1)]
            one = af.theory.sensing.one_coherence(A, s)
            equal.append(abs(one - max(norms)))
            shares += [af.theory.sensing.restricted_isometry(A, s + 1).lower / one, one / (s * mu)]
    return Finding(
        f"{len(matrices)} matrices: the equalities hold to {max(equal):.1g}; a smaller side is at most "
        f"{max(shares):.3f} of the larger",
        max(equal) <= SLACK and max(shares) <= 1 + SLACK,
    )


class Isometries(NamedTuple):
    """δ_s of random matrices, by their kind: over N for n = 12 and s = 2, and over (n, s) for one N.

    Entries have variance 1/N, as in Thm G.5; `unscaled` are those over N with variance 1/n, that of M in App. G.1.2.
    """

    falling: Mapping[str, Mapping[int, list[float]]]
    unscaled: Mapping[str, Mapping[int, list[float]]]
    over_sizes: Mapping[str, Mapping[tuple[int, int], list[float]]]


def draw_isometries(draws: int) -> Isometries:
    """So many matrices of each kind and the largest size, three times as many of others, and six times of each N."""
    rng, N = np.random.default_rng(42), _MANY[-1]
    kinds: dict[str, Callable[[tuple[int, int]], np.ndarray]] = {
        "Gaussian": rng.standard_normal,
        "Bernoulli": lambda shape: rng.choice([-1.0, 1.0], shape),
    }

    def deltas(A: list[np.ndarray], s: int) -> list[float]:
        return [af.theory.sensing.restricted_isometry(a, s).lower for a in A]

    falling, unscaled, over_sizes = {}, {}, {}
    for kind, draw in kinds.items():
        plain = {N: [draw((N, 12)) for _ in range(6 * draws)] for N in _MANY}
        falling[kind] = {N: deltas([A / np.sqrt(N) for A in several], 2) for N, several in plain.items()}
        unscaled[kind] = {N: deltas([A / np.sqrt(12) for A in several], 2) for N, several in plain.items()}
        over_sizes[kind] = {
            # What many columns have in the worst of many pairs varies little from draw to draw.
            (n, s): deltas([draw((N, n)) / np.sqrt(N) for _ in range(draws if n > 32 else 3 * draws)], s)
            for n, s in _SIZES
        }
    return Isometries(falling, unscaled, over_sizes)


def falls_like_root(falling: Mapping[str, Mapping[int, list[float]]]) -> Finding:
    """Whether δ_s goes like N^{−½}, with a constant for each kind: the interval holds −½, and not −¼ or −1."""
    steps, deltas = [], []
    for by_N in falling.values():
        of_kind = np.concatenate(list(by_N.values()))
        deltas.append(of_kind / np.exp(np.mean(np.log(of_kind))))
        steps.append(np.repeat(_MANY, [len(d) for d in by_N.values()]))
    slope = power_law(np.concatenate(steps), np.concatenate(deltas))
    return Finding(
        f"exponent of N {slope} ({' and '.join(falling)}; n=12, s=2, N={_MANY[0]} to {_MANY[-1]}, {len(deltas[0])} "
        "draws of each)",
        slope.holds(-0.5) and not slope.holds(-0.25) and not slope.holds(-1),
    )


def follows_law(over_sizes: Mapping[str, Mapping[tuple[int, int], list[float]]], law: str) -> Finding:
    """Whether N·δ_s² over n and s goes like this law rather than like the others of `LAWS`.

    Of these it must be the one beside which N·δ_s², in the median, varies least: by the smallest factor between the
    least and the largest over the sizes. That factor is what one C for all s and n costs.
    """

    def factor(of: Callable[[int, int], float]) -> float:
        beside = [
            [float(np.median(deltas)) ** 2 / of(n, s) for (n, s), deltas in by_size.items()]
            for by_size in over_sizes.values()
        ]
        return max(max(of_kind) / min(of_kind) for of_kind in beside)

    factors = {name: factor(of) for name, of in LAWS.items()}
    others = ", ".join(f"{value:.3g} ({name})" for name, value in factors.items() if name != law)
    return Finding(
        f"N·δ_s² beside {law} varies by the factor {factors[law]:.3g}, beside other laws by {others} (s=2 and n=8 to "
        f"256, n=12 and s=2 to 12, n=s=8 to 32; N={_MANY[-1]})",
        factors[law] == min(factors.values()),
    )


def is_rank_isometry(maps: list[np.ndarray], rank: int) -> Finding:
    """Whether δ_rank of maps F on 2 x k matrices is the largest |‖F(uvᵀ)‖² − 1|, found by going through all u.

    For a unit vector u in the plane F(uvᵀ) is linear in v, and its extremes are singular values. A grid of 2000 angles
    is off by some 1e-6.
    """
    angles = np.linspace(0, np.pi, 2000)
    u = np.stack([np.cos(angles), np.sin(angles)])
    apart, rises = [], []
    for F in maps:
        gram = np.einsum("Nij,Nkl->ijkl", F, F)
        squares = np.linalg.eigvalsh(np.einsum("ia,ka,ijkl->ajl", u, u, gram))
        constants = [af.theory.sensing.rank_restricted_isometry(F, r).lower for r in (1, 2)]
        apart.append(abs(constants[rank - 1] - np.max(np.abs(squares - 1))))
        rises.append(constants[1] - constants[0])
    return Finding(
        f"{len(maps)} maps of {maps[0].shape[1]} x {maps[0].shape[2]} matrices: δ_{rank} differs by at most "
        f"{max(apart):.2g} from the largest over matrices of rank 1; δ₂ − δ₁ is at least {min(rises):.2g}",
        max(apart) <= 1e-5 and min(rises) >= -SLACK,
    )


def _subsets(n: int, s: int) -> list[list[int]]:
    return [list(J) for J in itertools.combinations(range(n), s)]
