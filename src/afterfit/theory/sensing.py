"""Which measurements can find a sparse vector or a low-rank matrix: the tools of Notsawo et al. 2025, §3 and App. G.

Coherence and local coherence are formulas. The restricted isometry and null space constants are maxima over all
supports: exact while there are few, and between two bounds beyond. Matrices are m x n, one column an entry of the
unknown vector.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float, Num
from numpy.typing import ArrayLike

from afterfit._base.errors import Unanswered, nearest, require
from afterfit.tasks._matrices import leverage_scores
from afterfit.theory._programs import check_solved, solve

__all__ = [
    "Constant",
    "StepConditions",
    "coherence",
    "completion_coherences",
    "leverage_scores",
    "local_coherences",
    "mutual_coherence",
    "null_space_constant",
    "one_coherence",
    "rank_null_space_constant",
    "rank_restricted_isometry",
    "recovery_bound",
    "restricted_isometry",
    "robust_null_space_constant",
    "step_conditions",
    "subspace_coherence",
    "welch_bound",
]


def __dir__() -> list[str]:
    return __all__


SUPPORTS = 200_000  # up to so many supports are gone through one by one for a restricted isometry constant
PROGRAMS = 2_000  # up to so many linear or cone programs are solved for a null space constant


@dataclasses.dataclass(frozen=True)
class Constant:
    """A number known to lie in [lower, upper]."""

    lower: float
    upper: float

    @property
    def exact(self) -> bool:
        """Whether the number itself is known."""
        return self.lower == self.upper


# Coherence (Def. G.2). Complex matrices too, for the Fourier basis of Example G.1.


def coherence(A: Num[np.ndarray, "q m"], B: Num[np.ndarray, "q n"]) -> float:
    """μ(A, B): the largest |cosine| between a column of A and a column of B (Def. G.2).

    Between measurements and a basis, columns of Mᵀ and of Φ, it is `coherence(M.T, Phi)`.
    """
    return float(np.max(np.abs(_unit(A).conj().T @ _unit(B))))


def mutual_coherence(A: Num[np.ndarray, "m n"]) -> float:
    """μ(A): the largest |cosine| between two different columns of A (Def. G.2).

    Over all pairs of columns, [n] x [n]; the definition is printed with [m] x [n], which leaves some out.
    """
    return one_coherence(A, 1)


def one_coherence(A: Num[np.ndarray, "m n"], s: int) -> float:
    """μ₁(A, s): the largest sum of |cosines| between a column and s others (Def. G.2); 0 for s = 0."""
    n = A.shape[1]
    require(0 <= s < n, f"1-coherence takes s other columns of {n}, so s is between 0 and {n - 1}, got {s}.")
    cosines = np.abs(_unit(A).conj().T @ _unit(A))
    np.fill_diagonal(cosines, 0.0)
    return float(np.max(_sum_of_largest(cosines, s)))


def welch_bound(m: int, n: int) -> float:
    """√((n − m)/(m(n − 1))), which μ(A) of n ≥ m columns of length m cannot be below (after Def. G.2).

    Times s, it bounds μ₁(A, s) while s ≤ √(n − 1). Equiangular tight frames attain it.
    """
    require(n >= m >= 1 and n >= 2, f"the Welch bound is about n ≥ m columns of length m, got m={m}, n={n}.")
    return math.sqrt((n - m) / (m * (n - 1)))


# Restricted isometry (Def. G.1 and (121)).


def restricted_isometry(A: Float[np.ndarray, "m n"], s: int) -> Constant:
    """δ_s(A): the largest |‖Ax‖² − 1| over unit vectors x with at most s non-zeros (Def. G.1).

    Exact while there are at most 200 000 supports. Beyond, the lower bound is the largest value on supports that
    are grown by truncated power iterations from every column. The upper bound is Prop. G.3's μ₁(A, s − 1), in the
    form of Gershgorin's discs for columns of any norm, or the extreme singular values of A where they are nearer.

    ```python
    restricted_isometry(np.random.default_rng(0).standard_normal((30, 100)) / 30**0.5, s=2)
    ```
    """
    n = A.shape[1]
    require(1 <= s <= n, f"sparsity is between 1 and the {n} columns of the matrix, got s={s}.")
    gram = A.T @ A
    if math.comb(n, s) <= SUPPORTS:
        delta = _isometry_on(gram, itertools.combinations(range(n), s), s)
        return Constant(delta, delta)
    found = _isometry_on(gram, _extreme_supports(gram, s), s)
    centres = np.diag(gram)
    radii = _sum_of_largest(np.abs(gram - np.diag(centres)), s - 1)
    spectrum = np.linalg.eigvalsh(gram)
    most = min(float(np.max(centres + radii)), float(spectrum[-1]))
    least = max(float(np.min(centres - radii)), float(spectrum[0]))
    return Constant(found, max(most - 1, 1 - least, found))


def rank_restricted_isometry(F: Float[np.ndarray, "N n1 n2"], r: int) -> Constant:
    """δ_r(F): the largest |‖F(X)‖² − 1| over matrices X of rank r and ‖X‖_F = 1, F(X)ᵢ = ⟨Fᵢ, X⟩ (121).

    The upper bound is that of all matrices, so the constant is exact for r = min(n₁, n₂). The lower bound fixes the
    column space of X and finds the best X in it, an eigenvector, then fixes its row space, and so on in turns.
    """
    N, rows, columns = F.shape
    smallest = min(rows, columns)
    require(1 <= r <= smallest, f"the rank of a {rows} x {columns} matrix is between 1 and {smallest}, got r={r}.")
    flat = F.reshape(N, -1)
    gram = flat.T @ flat
    spectrum, vectors = np.linalg.eigh(gram)
    upper = float(max(spectrum[-1] - 1, 1 - spectrum[0]))
    if r == smallest:
        return Constant(upper, upper)
    found = 0.0
    for end, starts in ((0, vectors[:, :10]), (-1, vectors[:, -10:])):  # the smallest and the largest ‖F(X)‖²
        for start in starts.T:
            maps, X, value = F, start.reshape(rows, columns), 1.0
            for _ in range(60):
                value, X = _best_in_column_space(maps, X, r, end)
                maps, X = maps.transpose(0, 2, 1), X.T
            found = max(found, abs(value - 1))
    return Constant(min(found, upper), upper)


# Null space properties (Defs 3.2, C.34, C.35 and C.37).


def null_space_constant(
    A: Float[np.ndarray, "m n"], s: int | None = None, support: Sequence[int] | None = None
) -> Constant:
    """The smallest ρ with ‖u_S‖₁ ≤ ρ‖u_{S̄}‖₁ for all u in ker A: of all |S| ≤ `s`, or of one S, the `support`.

    ρ < 1 is the null space property (Def. C.34): minimising ‖a‖₁ subject to Aa = y then finds every vector on S from
    its measurements. It is infinite if the columns on S are dependent, and 0 if A is injective.

    Exact by one linear program for each support and pattern of signs, while these are at most 2000. Beyond, with θ
    the share ‖u_S‖₁/‖u‖₁ and ρ = θ/(1 − θ): θ is at most the sum of what single entries can reach, and at
    least what successive programs reach that start from those entries.
    """
    n = A.shape[1]
    require((s is None) != (support is None), "ask for the constant of an order s or of one support, not of both.")
    if support is not None:
        chosen = _checked_support(support, n)
        size, supports = len(chosen), [chosen]
    else:
        assert s is not None
        require(1 <= s <= n, f"the order is between 1 and the {n} columns of the matrix, got s={s}.")
        chosen, size, supports = None, s, itertools.combinations(range(n), s)
    rows = np.linalg.svd(A, full_matrices=False)[2][: np.linalg.matrix_rank(A)]  # the same kernel, well scaled
    if len(rows) == n:
        return Constant(0.0, 0.0)
    if (math.comb(n, size) if chosen is None else 1) * 2 ** (size - 1) <= PROGRAMS:
        share = max(_share(rows, S, signs)[0] for S in supports for signs in _signs(len(S)))
        return Constant(_odds(share), _odds(share))
    alone = [_share(rows, (i,), np.ones(1)) for i in range(n)]
    shares = np.array([share for share, _ in alone])
    most = float(np.sort(shares)[-size:].sum()) if chosen is None else float(shares[list(chosen)].sum())
    starts = [u for _, u in alone] if chosen is None else [alone[i][1] for i in chosen]
    found = max(_climb(rows, u, size, chosen) for u in starts)
    return Constant(_odds(found), max(_odds(min(most, 1.0)), _odds(found)))


def robust_null_space_constant(A: Float[np.ndarray, "m n"], rho: float, support: Sequence[int]) -> float:
    """The smallest τ with ‖u_S‖₁ ≤ ρ‖u_{S̄}‖₁ + τ‖Au‖₂ for all u, S the `support` (Defs 3.2 and C.37).

    Printed with < instead of ≤, which u = 0 would forbid to every matrix. Infinite if `rho` is below the null space
    constant of S. For signs ε on S the supremum of ⟨ε, u_S⟩ − ρ‖u_{S̄}‖₁ over ‖Au‖₂ ≤ 1 is a cone program; its
    dual, the shortest λ with A_Sᵀλ = ε and ‖A_{S̄}ᵀλ‖_∞ ≤ ρ, is what is solved.
    """
    import cvxpy as cp

    chosen = _checked_support(support, A.shape[1])
    require(rho >= 0, f"rho must be 0 or more, got {rho}.")
    most = 1 + int(math.log2(PROGRAMS))
    require(
        len(chosen) <= most,
        f"2^(|S|−1) cone programs are too many for |S|={len(chosen)}: take {most} columns or fewer.",
    )
    rest = np.setdiff1d(np.arange(A.shape[1]), chosen)
    multiplier, signs = cp.Variable(A.shape[0]), cp.Parameter(len(chosen))
    constraints = [A[:, list(chosen)].T @ multiplier == signs]
    if len(rest):
        constraints.append(cp.abs(A[:, rest].T @ multiplier) <= rho)
    problem = cp.Problem(cp.Minimize(cp.norm2(multiplier)), constraints)
    tau = 0.0
    for pattern in _signs(len(chosen)):
        signs.value = pattern
        try:
            solve(problem)
        except Unanswered:
            if problem.status in ("infeasible", "infeasible_inaccurate"):
                return math.inf
            raise
        assert multiplier.value is not None
        tau = max(tau, float(np.linalg.norm(multiplier.value)))
    return tau


def rank_null_space_constant(F: Float[np.ndarray, "N n1 n2"], r: int) -> Constant:
    """The smallest ρ with Σ_{i≤r} σᵢ ≤ ρ Σ_{i>r} σᵢ for the singular values of all W in ker F (Def. C.46).

    Exact when the kernel is a line, or only 0. Otherwise, with θ = Σ_{i≤r} σᵢ/‖W‖_* and ρ = θ/(1 − θ): the lower
    bound is reached by successive nuclear-norm programs from the best of 1000 random W. For the upper one write P for
    the projection onto the kernel and W as a sum of σᵢuᵢvᵢᵀ: θ ≤ max √r·‖P(uvᵀ)‖_F, and ‖P(uvᵀ)‖_F² is a quadratic
    form of uvᵀ that exchanging the two indices of u leaves as it is, so it is at most the largest eigenvalue of the
    mean of P and P so exchanged. It says something for small kernels only.
    """
    N, rows, columns = F.shape
    smallest = min(rows, columns)
    require(1 <= r <= smallest, f"the rank of a {rows} x {columns} matrix is between 1 and {smallest}, got r={r}.")
    flat = F.reshape(N, -1)
    kernel = np.linalg.svd(flat)[2][np.linalg.matrix_rank(flat) :]
    if len(kernel) == 0:
        return Constant(0.0, 0.0)
    if r == smallest:
        return Constant(math.inf, math.inf)
    basis = kernel.reshape(-1, rows, columns)
    if len(basis) == 1:
        share = _leading_share(basis[0], r)
        return Constant(_odds(share), _odds(share))
    projection = (kernel.T @ kernel).reshape(rows, columns, rows, columns)
    mean = (projection + projection.transpose(2, 1, 0, 3)) / 2
    most = math.sqrt(r * float(np.linalg.eigvalsh(mean.reshape(rows * columns, -1))[-1]))
    random = np.tensordot(np.random.default_rng(0).standard_normal((1000, len(basis))), basis, axes=1)
    starts = sorted(random, key=lambda W: -_leading_share(W, r))[:5]
    found = max(_climb_ranks(basis, W, r) for W in starts)
    return Constant(_odds(found), max(_odds(min(most, 1.0)), _odds(found)))


def recovery_bound(rho: float, tau: float, excess: ArrayLike, residual: ArrayLike) -> np.ndarray:
    """What ‖v − u‖₁ can be at most, under the robust null space property with ρ and τ relative to S (Thm C.38).

    (1 + ρ)/(1 − ρ)·`excess` + 2τ/(1 − ρ)·`residual`, with excess ‖v‖₁ − ‖u‖₁ + 2‖u_{S̄}‖₁ and residual
    ‖A(v − u)‖₂. With residual 0 it is Thm C.36; with u = a* on S it is what Thm 3.3 rests on. With the
    nuclear norm for ‖·‖₁ and the singular values beyond the rth for u_{S̄} it is Thms C.47 and C.49 for matrices.
    """
    require(0 <= rho < 1, f"there is a bound for rho in [0, 1) only, got {rho}.")
    return ((1 + rho) * np.asarray(excess) + 2 * tau * np.asarray(residual)) / (1 - rho)


# Local coherence (Defs G.8 to G.10).


def local_coherences(
    U: Float[np.ndarray, "n r"], vectors: Float[np.ndarray, "n k"] | None = None
) -> Float[np.ndarray, " k"]:
    """(n/r)‖P_U uᵢ‖² of the columns uᵢ of `vectors`, P_U the projection onto the span of U's columns.

    Of the canonical basis, when no vectors are given, they are μᵢ or νⱼ of (122), U holding left or right singular
    vectors; of others, (123). `leverage_scores(A, r)` gives both kinds of (122) for a matrix A.
    """
    n, r = U.shape
    require(np.linalg.matrix_rank(U) == r, f"the {r} columns of U must be independent: they span the subspace.")
    Q = np.linalg.qr(U)[0]
    return n / r * np.sum((Q.T @ (np.eye(n) if vectors is None else vectors)) ** 2, axis=0)


def subspace_coherence(U: Float[np.ndarray, "n r"], basis: Float[np.ndarray, "n n"] | None = None) -> float:
    """μ(U): the largest of the `local_coherences` (Def. G.8). In [1, n/r] for an orthonormal basis."""
    return float(np.max(local_coherences(U, basis)))


def completion_coherences(A: Float[np.ndarray, "n1 n2"], rank: int) -> tuple[float, float]:
    """The smallest μ₀ and μ₁ of Candès & Recht (after Def. G.10).

    μ₀ is the largest local coherence of rows and columns, and μ₁ = max|(UVᵀ)ᵢⱼ|·√(n₁n₂/r), at most μ₀√r.
    """
    U, _, Vt = np.linalg.svd(A, full_matrices=False)
    largest = np.max(np.abs(U[:, :rank] @ Vt[:rank]))
    mu_0 = max(float(np.max(scores)) for scores in leverage_scores(A, rank))
    return mu_0, float(largest * np.sqrt(A.size / rank))


# Step sizes (Thms 3.1, 3.4 and 3.6).


@dataclasses.dataclass(frozen=True)
class StepConditions:
    """What a theorem asks of the step size α and strength β, and the ρ₂ that it defines.

    `alpha_max` and `beta_max` are the open ends of the allowed intervals from 0. `rho_2` is as printed, a norm on all
    of Rⁿ. `rho_2_rows` is over the row space of X only, as C.4 uses it (after (66)): with fewer measurements than
    unknowns the printed ρ₂ of Thms 3.1 and 3.4 is at least 1, and 2αβ√n/(1 − ρ₂) bounds nothing.
    """

    sigma_max: float
    alpha_max: float
    beta_max: float
    rho_2: float
    rho_2_rows: float
    holds: bool


def step_conditions(
    X: Float[np.ndarray, "N n"] | Float[np.ndarray, "N n1 n2"], alpha: float, beta: float, penalty: str
) -> StepConditions:
    """Whether α and β are small enough for the theorem of a penalty: `"l1"` 3.1, `"nuclear"` 3.4, `"l2"` 3.6.

    With σ = σ_max(XᵀX): 0 < ασ < 2 and 0 < β√n < σ for L1, √min(n₁, n₂) in the place of √n for the nuclear norm (X
    then holds N matrices), and 0 < α(σ + β) < 2 for L2.
    """
    choices = ("l1", "nuclear", "l2")
    require(penalty in choices, f"unknown penalty {penalty!r}: {nearest(penalty, choices)}")
    require(
        penalty != "nuclear" or X.ndim == 3,
        f"the nuclear norm is of matrices: X must be N x n1 x n2, got shape {X.shape}.",
    )
    flat = X.reshape(len(X), -1)
    spectrum = np.linalg.svd(flat, compute_uv=False) ** 2
    sigma, shift = float(spectrum[0]), beta if penalty == "l2" else 0.0
    nonzero = spectrum[spectrum > sigma * max(flat.shape) * np.finfo(float).eps]
    rows = float(np.max(np.abs(1 - alpha * (nonzero + shift))))
    everywhere = max(rows, abs(1 - alpha * shift)) if len(nonzero) < flat.shape[1] else rows
    alpha_max = 2 / (sigma + shift)
    width = {"l1": flat.shape[1], "nuclear": min(X.shape[1:])}.get(penalty)
    beta_max = math.inf if width is None else sigma / math.sqrt(width)
    holds = 0 < alpha < alpha_max and 0 < beta < beta_max
    return StepConditions(sigma, alpha_max, beta_max, everywhere, rows, holds)


def _unit(A: np.ndarray) -> np.ndarray:
    """A with its columns divided by their norms."""
    norms = np.linalg.norm(A, axis=0)
    require(bool(np.all(norms > 0)), f"column {int(np.argmin(norms))} is zero and has no direction: leave it out.")
    return A / norms


def _sum_of_largest(values: np.ndarray, k: int) -> np.ndarray:
    """The sum of the k largest values of each row."""
    return np.sort(values, axis=1)[:, values.shape[1] - k :].sum(axis=1)


def _isometry_on(gram: np.ndarray, supports: Iterator[Sequence[int]], s: int) -> float:
    """max ‖A_JᵀA_J − I‖ over given supports J of size s, many at a time."""
    found = 0.0
    block = max(1, 2_000_000 // s**2)  # numbers held at once
    while len(J := np.array(list(itertools.islice(supports, block)))):
        spectra = np.linalg.eigvalsh(gram[J[:, :, None], J[:, None, :]])
        found = max(found, float(np.max(spectra[:, -1] - 1)), float(np.max(1 - spectra[:, 0])))
    return found


def _extreme_supports(gram: np.ndarray, s: int) -> Iterator[Sequence[int]]:
    """Supports where ‖Ax‖² is large or small: x ↦ the s largest entries of Gx (or of (σ_max² − G)x), iterated."""
    n = len(gram)
    for matrix in (gram, np.linalg.eigvalsh(gram)[-1] * np.eye(n) - gram):
        x = np.eye(n)  # one column a start
        for _ in range(50):  # each step raises xᵀGx (Yuan & Zhang 2013)
            x = matrix @ x
            x[np.argsort(np.abs(x), axis=0)[: n - s], np.arange(n)] = 0.0
            x /= np.maximum(np.linalg.norm(x, axis=0), np.finfo(float).tiny)
        yield from np.sort(np.argsort(np.abs(x), axis=0)[n - s :].T, axis=1).tolist()


def _best_in_column_space(F: np.ndarray, X: np.ndarray, r: int, end: int) -> tuple[float, np.ndarray]:
    """The smallest (end 0) or largest (end −1) ‖F(X)‖² of unit matrices in the span of r left singular vectors of X."""
    U = np.linalg.svd(X)[0][:, :r]
    inside = np.einsum("Nij,ik->Nkj", F, U).reshape(len(F), -1)
    values, vectors = np.linalg.eigh(inside.T @ inside)
    return float(values[end]), U @ vectors[:, end].reshape(r, -1)


def _checked_support(support: Sequence[int], n: int) -> tuple[int, ...]:
    chosen = tuple(sorted({int(i) for i in support}))
    require(
        len(chosen) > 0 and chosen[0] >= 0 and chosen[-1] < n,
        f"a support is some of the columns 0 to {n - 1}, got {list(support)}.",
    )
    return chosen


def _signs(s: int) -> Iterator[np.ndarray]:
    """All patterns of s signs, one of each pair ±ε: norms do not tell them apart."""
    for pattern in itertools.product((1.0, -1.0), repeat=s - 1):
        yield np.array([1.0, *pattern])


def _share(rows: np.ndarray, support: Sequence[int], signs: np.ndarray) -> tuple[float, np.ndarray]:
    """max ⟨ε, u_S⟩ over u orthogonal to `rows` with ‖u‖₁ ≤ 1, and where: a linear program in u = u₊ − u₋."""
    from scipy.optimize import linprog

    n = rows.shape[1]
    gain = np.zeros(n)
    gain[list(support)] = signs
    solution = linprog(
        np.concatenate([-gain, gain]),
        A_eq=np.concatenate([rows, -rows], axis=1),
        b_eq=np.zeros(len(rows)),
        A_ub=np.ones((1, 2 * n)),
        b_ub=[1.0],
        method="highs",
    )
    check_solved(solution.success, solution.message)
    return min(-float(solution.fun), 1.0), solution.x[:n] - solution.x[n:]


def _odds(share: float) -> float:
    """ρ = θ/(1 − θ); a share within the solver's tolerance of 1 is 1."""
    return math.inf if share >= 1 - 1e-9 else max(0.0, share) / (1 - share)


def _climb(rows: np.ndarray, u: np.ndarray, size: int, support: Sequence[int] | None) -> float:
    """A large share ‖u_S‖₁/‖u‖₁ near u: the best u for its signs on S, its largest entries if S is free, in turns."""
    reached = 0.0
    for _ in range(20):
        S = np.argsort(-np.abs(u))[:size] if support is None else np.array(support)
        share, u = _share(rows, S.tolist(), np.where(u[S] < 0, -1.0, 1.0))
        if share <= reached + 1e-12:
            break
        reached = share
    return reached


def _leading_share(W: np.ndarray, r: int) -> float:
    """θ = Σ_{i≤r} σᵢ/‖W‖_*."""
    sigma = np.linalg.svd(W, compute_uv=False)
    return float(sigma[:r].sum() / sigma.sum())


def _climb_ranks(basis: np.ndarray, W: np.ndarray, r: int) -> float:
    """A large `_leading_share` near W: the best W for its leading singular vectors, in turns."""
    import cvxpy as cp

    weights, gains = cp.Variable(len(basis)), cp.Parameter(len(basis))
    combined = cp.reshape(basis.reshape(len(basis), -1).T @ weights, W.shape, order="C")
    problem = cp.Problem(cp.Maximize(gains @ weights), [cp.normNuc(combined) <= 1])
    reached = _leading_share(W, r)
    for _ in range(8):
        U, _, Vt = np.linalg.svd(W)
        gains.value = np.tensordot(basis, U[:, :r] @ Vt[:r], axes=2)
        solve(problem)
        assert weights.value is not None
        W = np.tensordot(weights.value, basis, axes=1)
        share = _leading_share(W, r)
        if share <= reached + 1e-7:  # what the solver's tolerance lets one tell apart
            break
        reached = share
    return reached
