"""The tools of compressed sensing by brute force, and every inequality that App. G states of them."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from afterfit import SpecError, tasks, theory
from afterfit.theory import sensing

few = settings(max_examples=20)
ROUNDING = 1e-9  # eigenvalues of small Gram matrices are good to 1e-14; the inequalities get this much slack


@st.composite
def matrices(draw, most=7, unit=False):
    """An m x n Gaussian matrix with 2 ≤ m ≤ n ≤ `most`, its columns of different or of unit norm."""
    n = draw(st.integers(3, most))
    m = draw(st.integers(2, n))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    A = rng.standard_normal((m, n)) * rng.uniform(0.5, 1.5, n)
    return A / np.linalg.norm(A, axis=0) if unit else A


def _normed(rng, m, n):
    A = rng.standard_normal((m, n))
    return A / np.linalg.norm(A, axis=0)


# Coherence


@few
@given(matrices(), st.integers(0, 2**16))
def test_coherence_by_loops(A, seed):
    B = np.random.default_rng(seed).standard_normal((len(A), 4))

    def cosine(a, b):
        return abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b)

    n = A.shape[1]
    assert math.isclose(sensing.coherence(A, B), max(cosine(a, b) for a in A.T for b in B.T))
    pairs = itertools.combinations(range(n), 2)
    assert math.isclose(sensing.mutual_coherence(A), max(cosine(A[:, i], A[:, j]) for i, j in pairs))
    for s in range(1, n):
        sums = [
            sum(cosine(A[:, i], A[:, j]) for j in J)
            for i in range(n)
            for J in itertools.combinations([j for j in range(n) if j != i], s)
        ]
        assert math.isclose(sensing.one_coherence(A, s), max(sums))
        assert sensing.one_coherence(A, s) <= s * sensing.mutual_coherence(A) + ROUNDING  # after Def. G.2


def test_mutual_coherence_over_the_printed_pairs_leaves_some_out():
    # i in [m], j in [n] as printed: two equal columns beyond the m-th are not compared, and μ ≠ δ₂ (Prop. G.3).
    A = np.array([[1.0, 0.0, 0.6, 0.6], [0.0, 1.0, 0.8, 0.8]])
    printed = max(abs(A[:, i] @ A[:, j]) for i in range(2) for j in range(4) if i != j)
    assert math.isclose(printed, 0.8)
    assert math.isclose(sensing.mutual_coherence(A), 1.0)
    assert math.isclose(sensing.restricted_isometry(A, 2).upper, 1.0)


@few
@given(matrices(most=12))
def test_welch_bounds(A):
    m, n = A.shape
    bound = sensing.welch_bound(m, n)
    assert sensing.mutual_coherence(A) >= bound - ROUNDING
    for s in range(1, math.isqrt(n - 1) + 1):  # s ≤ √(n − 1)
        assert sensing.one_coherence(A, s) >= s * bound - ROUNDING


def test_equiangular_tight_frames_attain_the_welch_bound():
    golden = (1 + math.sqrt(5)) / 2
    icosahedron = np.array(
        [[0, 1, golden], [0, 1, -golden], [1, golden, 0], [1, -golden, 0], [golden, 0, 1], [-golden, 0, 1]]
    ).T
    simplex = np.linalg.svd(np.eye(5) - 0.2)[0][:, :4].T  # five vectors in four dimensions
    for frame in (icosahedron, simplex):
        assert math.isclose(sensing.mutual_coherence(frame), sensing.welch_bound(*frame.shape))


def test_fourier_basis_has_coherence_zero_and_beside_the_identity_that_of_example_g1():
    n = 9
    phi = np.fft.fft(np.eye(n)) / np.sqrt(n)
    # Orthonormal columns: 0, not the 1/√n of Example G.1, which is that of the 2n columns of (I Φ).
    assert sensing.mutual_coherence(phi) <= 1e-12
    assert math.isclose(sensing.coherence(np.eye(n), phi), 1 / np.sqrt(n))
    for s in range(1, n + 1):
        assert math.isclose(sensing.one_coherence(np.hstack([np.eye(n), phi]), s), s / np.sqrt(n))


def _coherences(C1, n=40, N=10, m=30, draws=300):
    """μ(Mᵀ, Φ) and max|MΦ| of draws with n^C₁·M standard Gaussian, and the bound of Thm G.4 at C₂ = 1."""
    rng = np.random.default_rng(0)
    phi = np.linalg.qr(rng.standard_normal((n, m)))[0]
    M = [rng.standard_normal((N, n)) / n**C1 for _ in range(draws)]
    bound = 2 * np.sqrt(np.log(n * N)) / n**C1
    return np.array([sensing.coherence(x.T, phi) for x in M]), np.array([np.abs(x @ phi).max() for x in M]), bound


@pytest.mark.parametrize("C1", [0.25, 0.5, 1.0])
def test_theorem_g4_bounds_the_products_and_the_coherence_up_to_c1_of_a_half(C1):
    # At most 1/(nN) = 1/400 of the draws may exceed the bound. μ does not know the scale of M, which C₁ is:
    # beyond C₁ = ½ the bound falls below μ itself. The proof is about the products ⟨Mᵢ, φⱼ⟩, without the norms.
    mu, products, bound = _coherences(C1)
    assert np.mean(products > bound) <= 1 / 400 + 2 / np.sqrt(400 * len(mu))  # and two standard deviations
    if C1 <= 0.5:
        assert np.mean(mu > bound) <= 1 / 400 + 2 / np.sqrt(400 * len(mu))
    else:
        assert np.all(mu > bound)


# Restricted isometry


@few
@given(matrices())
def test_restricted_isometry_by_a_loop_over_supports(A):
    n = A.shape[1]
    before = 0.0
    for s in range(1, n + 1):
        singular = [np.linalg.svd(A[:, J], compute_uv=False) for J in itertools.combinations(range(n), s)]
        # A support larger than the rank has a zero eigenvalue that svd of a wide matrix does not list.
        lows = [x[-1] ** 2 if len(x) == s else 0.0 for x in singular]
        expected = max(max(x[0] ** 2 - 1 for x in singular), max(1 - low for low in lows))
        delta = sensing.restricted_isometry(A, s)
        assert delta.exact
        assert math.isclose(delta.lower, expected, abs_tol=ROUNDING)
        assert before <= delta.lower + ROUNDING  # δ_s ≤ δ_{s+1}
        before = delta.lower
        # The condition numbers of Def. G.1, where it bounds them: δ_s < 1.
        if delta.lower < 1 - 1e-6:
            worst = max(x[0] / x[-1] for x in singular)
            assert worst <= np.sqrt((1 + delta.lower) / (1 - delta.lower)) * (1 + ROUNDING)


@few
@given(matrices(), st.integers(1, 3), st.integers(0, 2**16))
def test_no_sparse_vector_is_stretched_more(A, s, seed):
    rng = np.random.default_rng(seed)
    delta = sensing.restricted_isometry(A, s).upper
    for _ in range(20):
        x = np.zeros(A.shape[1])
        x[rng.choice(len(x), s, replace=False)] = rng.standard_normal(s)
        size = np.sum(x**2)
        assert (1 - delta) * size - ROUNDING <= np.sum((A @ x) ** 2) <= (1 + delta) * size + ROUNDING


@few
@given(matrices(unit=True))
def test_proposition_g3(A):
    n = A.shape[1]
    gram = A.T @ A - np.eye(n)
    mu = sensing.mutual_coherence(A)
    assert math.isclose(mu, sensing.restricted_isometry(A, 2).lower, abs_tol=ROUNDING)
    for s in range(1, n):
        columns = max(
            np.linalg.norm(gram[np.ix_(J, J)], 1) for J in itertools.combinations(range(n), s + 1)
        )  # ‖·‖_{1→1}, the largest sum of a column
        assert math.isclose(sensing.one_coherence(A, s), columns, abs_tol=ROUNDING)
        assert sensing.restricted_isometry(A, s).lower <= sensing.one_coherence(A, s - 1) + ROUNDING
        assert sensing.one_coherence(A, s - 1) <= (s - 1) * mu + ROUNDING


@few
@given(matrices(), st.integers(1, 5))
def test_bounds_of_restricted_isometry_contain_it(A, s):
    s = min(s, A.shape[1])
    exact = sensing.restricted_isometry(A, s).lower
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensing, "SUPPORTS", 0)
        bounds = sensing.restricted_isometry(A, s)
    assert bounds.lower <= exact + ROUNDING
    assert exact <= bounds.upper + ROUNDING


def test_bounds_of_restricted_isometry_are_near_on_a_matrix_of_the_paper_s_size():
    A = _normed(np.random.default_rng(0), 30, 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensing, "SUPPORTS", 0)
        bounds = sensing.restricted_isometry(A, 3)
    exact = sensing.restricted_isometry(A, 3)
    assert exact.exact
    assert 0.95 * exact.lower <= bounds.lower <= exact.lower + ROUNDING
    assert bounds.upper <= sensing.one_coherence(A, 2) + ROUNDING  # unit columns: Prop. G.3


def test_theorem_g5_is_about_entries_of_variance_one_over_the_number_of_measurements():
    # N ≥ Cδ⁻²(s ln(n/s) + ln(1/η)): δ_s falls like N^{−½}, of Gaussian and of Bernoulli matrices alike. With variance
    # 1/n, that of M in App. G.1.2, E‖Mx‖² = (N/n)‖x‖² and δ_s is near |N/n − 1| instead.
    rng = np.random.default_rng(0)
    n, s, many = 12, 2, np.array([100, 400, 1600])
    for draw in (rng.standard_normal, lambda shape: rng.choice([-1.0, 1.0], shape)):
        delta = [
            np.median([sensing.restricted_isometry(draw((N, n)) / np.sqrt(N), s).lower for _ in range(9)]) for N in many
        ]
        slope = np.polyfit(np.log(many), np.log(delta), 1)[0]
        assert abs(slope + 0.5) <= 0.1
    wide = sensing.restricted_isometry(rng.standard_normal((1600, n)) / np.sqrt(n), s).lower
    assert abs(wide - (1600 / n - 1)) <= 0.2 * 1600 / n


@few
@given(st.integers(0, 2**16), st.integers(1, 6))
def test_rank_restricted_isometry_of_two_by_two_matrices_on_a_grid(seed, N):
    F = np.random.default_rng(seed).standard_normal((N, 2, 2)) / np.sqrt(N)
    angles = np.linspace(0, np.pi, 200)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    values = np.sum(np.einsum("Nij,ia,jb->Nab", F, circle, circle) ** 2, axis=0)
    delta = sensing.rank_restricted_isometry(F, 1)
    on_grid = np.max(np.abs(values - 1))
    # A grid of steps π/200 misses an extremum by a second-order term, below its curvature times the square of it.
    assert delta.lower >= on_grid - ROUNDING
    assert delta.lower <= on_grid + 4 * np.sum(F**2) * (np.pi / 200) ** 2
    everything = sensing.rank_restricted_isometry(F, 2)
    assert everything.exact
    assert delta.lower <= delta.upper
    assert math.isclose(everything.lower, sensing.restricted_isometry(F.reshape(N, 4), 4).lower, abs_tol=ROUNDING)


# Null space properties


def _circuits(A):
    """The kernel vectors of smallest support, the vertices of ker A ∩ {‖u‖₁ ≤ 1}: of r + 1 columns of rank r."""
    r, n = np.linalg.matrix_rank(A), A.shape[1]
    found = []
    for J in itertools.combinations(range(n), r + 1):
        _, singular, Vt = np.linalg.svd(A[:, J])
        if singular[r - 1] > 1e-10:
            u = np.zeros(n)
            u[list(J)] = Vt[-1]
            found.append(u / np.abs(u).sum())
    return np.abs(np.array(found))


def _largest_odds(shares):
    """ρ = θ/(1 − θ) of the largest share θ."""
    largest = shares.max()
    return np.inf if largest > 1 - 1e-9 else largest / (1 - largest)


@few
@given(matrices(), st.integers(1, 3))
def test_null_space_constant_by_the_vertices_of_the_kernel(A, s):
    n = A.shape[1]
    s = min(s, n - 1)
    if len(A) == n:
        assert sensing.null_space_constant(A, s) == sensing.Constant(0.0, 0.0)
        return
    u = _circuits(A)
    shares = np.sort(u, axis=1)[:, -s:].sum(axis=1)
    found = sensing.null_space_constant(A, s)
    assert found.exact
    np.testing.assert_allclose(found.lower, _largest_odds(shares), rtol=1e-5)  # HiGHS's tolerance, 1e-7, on θ near 1
    on_S = u[:, :s].sum(axis=1)
    one = sensing.null_space_constant(A, support=range(s))
    np.testing.assert_allclose(one.lower, _largest_odds(on_S), rtol=1e-5)
    assert one.lower <= found.lower * (1 + 1e-6)
    # Def. C.34's other form: 2‖u_S‖₁ < ‖u‖₁, S the largest entries, when and only when ρ < 1.
    if abs(found.lower - 1) > 1e-4:
        assert (found.lower < 1) == bool(np.all(2 * shares < 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensing, "PROGRAMS", 0)
        for bounds, exact in (
            (sensing.null_space_constant(A, s), found.lower),
            (sensing.null_space_constant(A, support=range(s)), one.lower),
        ):
            assert bounds.lower <= exact * (1 + 1e-6)
            assert exact <= bounds.upper * (1 + 1e-6)


def test_null_space_constant_of_a_line():
    # ker A = span(u): ρ_s is the ratio of the s largest |uᵢ| to the others.
    u = np.array([3.0, -2.0, 1.0, 1.0, 1.0])
    A = np.linalg.svd(u[None, :])[2][1:]
    assert math.isclose(sensing.null_space_constant(A, 1).lower, 3 / 5, rel_tol=1e-7)
    assert math.isclose(sensing.null_space_constant(A, 2).lower, 5 / 3, rel_tol=1e-7)
    assert math.isclose(sensing.null_space_constant(A, support=[1, 2]).lower, 3 / 5, rel_tol=1e-7)
    dependent = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert sensing.null_space_constant(dependent, support=[0, 1]).lower == np.inf


@pytest.mark.parametrize("seed", range(3))
def test_null_space_constant_by_dual_certificates(seed):
    # max over signs ε of min ‖A_{S̄}ᵀλ‖_∞ over A_Sᵀλ = ε: another program, another solver.
    A = np.random.default_rng(seed).standard_normal((5, 9))
    S, rest = [2, 4, 7], [0, 1, 3, 5, 6, 8]
    values = []
    for signs in itertools.product((1.0, -1.0), repeat=3):
        multiplier = cp.Variable(5)
        problem = cp.Problem(
            cp.Minimize(cp.norm_inf(A[:, rest].T @ multiplier)), [A[:, S].T @ multiplier == np.array(signs)]
        )
        values.append(problem.solve(solver="CLARABEL"))
    np.testing.assert_allclose(sensing.null_space_constant(A, support=S).lower, max(values), rtol=1e-6)


def test_basis_pursuit_finds_every_vector_on_a_support_where_and_only_where_the_constant_is_below_one():
    # On S the program finds all vectors of a pattern of signs or misses some: one vector a pattern will do, the
    # magnitudes being free of influence where the minimiser is unique (Foucart & Rauhut 2013, Thm 4.30).
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(12):
        A = rng.standard_normal((5, 9))
        S = rng.choice(9, 2, replace=False)
        rho = sensing.null_space_constant(A, support=S.tolist()).lower
        missed = 0.0
        for signs in itertools.product((1.0, -1.0), repeat=2):
            truth = np.zeros(9)
            truth[S] = signs
            missed = max(missed, np.abs(theory.min_l1(A, A @ truth) - truth).max())
        assert (rho < 1) == (missed <= 1e-7), (rho, missed)
        seen.add(rho < 1)
    assert seen == {True, False}


@few
@given(matrices(), st.integers(0, 2**16))
def test_theorem_c36_bounds_and_is_attained(A, seed):
    rng = np.random.default_rng(seed)
    n = A.shape[1]
    S = [0]
    rho = sensing.null_space_constant(A, support=S).lower
    assume(len(A) < n and rho < 0.999)
    kernel = np.linalg.svd(A)[2][len(A) :]
    off = np.arange(1, n)
    for _ in range(20):
        u = rng.standard_normal(n)
        v = u + rng.standard_normal(len(kernel)) @ kernel
        excess = np.abs(v).sum() - np.abs(u).sum() + 2 * np.abs(u[off]).sum()
        assert np.abs(v - u).sum() <= sensing.recovery_bound(rho, 0.0, excess, 0.0) * (1 + 1e-6)
    # Only if: for the kernel vector w that needs ρ, u = −w_S and v = w_{S̄} make it an equality.
    w = _circuits(A)[np.argmax(_circuits(A)[:, 0])]
    excess = w[off].sum() - w[0]
    np.testing.assert_allclose(w.sum(), sensing.recovery_bound(rho, 0.0, excess, 0.0), rtol=1e-5)


def test_what_is_drawn_from_theorem_c36_has_the_two_vectors_exchanged():
    # ‖a − a*‖₁ ≤ 2(1 + ρ)/(1 − ρ)·σ_s(a), a the solution of basis pursuit: here a is 1-sparse, σ₁(a) = 0, and not a*.
    A = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])  # kernel (1, 1, 1)
    rho = sensing.null_space_constant(A, 1).lower
    assert math.isclose(rho, 0.5, rel_tol=1e-7)
    truth = np.array([1.0, 1.0, 0.0])
    found = theory.min_l1(A, A @ truth)
    np.testing.assert_allclose(found, [0, 0, -1], atol=1e-9)
    defect = [np.sort(np.abs(a))[:-1].sum() for a in (found, truth)]
    error = np.abs(found - truth).sum()
    assert error > 1 > sensing.recovery_bound(rho, 0.0, 2 * defect[0], 0.0)
    assert error <= sensing.recovery_bound(rho, 0.0, 2 * defect[1], 0.0)  # with σ_s(a*) it holds


@pytest.mark.parametrize("seed", range(3))
def test_robust_null_space_constant_holds_and_is_attained(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((6, 9))
    S, rest = [1, 5], [0, 2, 3, 4, 6, 7, 8]
    least = sensing.null_space_constant(A, support=S).lower
    assert sensing.robust_null_space_constant(A, 0.95 * least, S) == np.inf
    rho = 1.1 * least
    tau = sensing.robust_null_space_constant(A, rho, S)
    # The primal: the largest ⟨ε, u_S⟩ − ρ‖u_{S̄}‖₁ with ‖Au‖₂ ≤ 1.
    best, extremal = -np.inf, np.zeros(9)
    for signs in itertools.product((1.0, -1.0), repeat=2):
        u = cp.Variable(9)
        value = cp.Problem(cp.Maximize(np.array(signs) @ u[S] - rho * cp.norm1(u[rest])), [cp.norm2(A @ u) <= 1]).solve(
            solver="CLARABEL"
        )
        if value > best:
            best, extremal = value, u.value
    np.testing.assert_allclose(tau, best, rtol=1e-5)
    np.testing.assert_allclose(sensing.robust_null_space_constant(3 * A, rho, S), tau / 3, rtol=1e-5)
    u = rng.standard_normal((2000, 9)) * rng.uniform(0, 1, 9) ** 4
    slack = rho * np.abs(u[:, rest]).sum(axis=1) + tau * np.linalg.norm(u @ A.T, axis=1) - np.abs(u[:, S]).sum(axis=1)
    assert np.all(slack >= -1e-6)
    if rho < 1:
        # Thm C.38, and the vectors −w_S, w_{S̄} that attain it.
        v = u + rng.standard_normal(u.shape)
        excess = np.abs(v).sum(axis=1) - np.abs(u).sum(axis=1) + 2 * np.abs(u[:, rest]).sum(axis=1)
        bound = sensing.recovery_bound(rho, tau, excess, np.linalg.norm((v - u) @ A.T, axis=1))
        assert np.all(np.abs(v - u).sum(axis=1) <= bound * (1 + 1e-6))
        sizes = np.abs(extremal)
        bound = sensing.recovery_bound(rho, tau, sizes[rest].sum() - sizes[S].sum(), np.linalg.norm(A @ extremal))
        np.testing.assert_allclose(sizes.sum(), bound, rtol=1e-4)


def test_some_robust_example_has_rho_below_one():
    # Or the half of the test above that is about Thm C.38 would be empty.
    least = [
        sensing.null_space_constant(np.random.default_rng(k).standard_normal((6, 9)), support=[1, 5]).lower
        for k in range(3)
    ]
    assert 1.1 * min(least) < 1


@few
@given(st.integers(0, 2**16), st.integers(1, 2))
def test_theorem_c47_on_a_kernel_of_one_matrix(seed, r):
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.standard_normal((5, 5)))[0] * rng.uniform(0.8, 1.2, 5)  # spans the kernel
    F = np.linalg.svd(W.reshape(1, -1))[2][1:].reshape(-1, 5, 5)
    rho = sensing.rank_null_space_constant(F, r).lower
    sigma = np.linalg.svd(W, compute_uv=False)
    assert math.isclose(rho, sigma[:r].sum() / sigma[r:].sum(), rel_tol=1e-9)
    assume(rho < 0.999)
    for _ in range(20):
        A = rng.standard_normal((5, 5))
        B = A + rng.standard_normal() * 3 * W
        nuclear = [np.linalg.svd(X, compute_uv=False) for X in (A, B, B - A)]
        excess = nuclear[1].sum() - nuclear[0].sum() + 2 * nuclear[0][r:].sum()
        assert nuclear[2].sum() <= sensing.recovery_bound(rho, 0.0, excess, 0.0) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_of_the_rank_null_space_constant_contain_it(seed):
    # A kernel of dimension two is a circle of directions, gone through in small steps.
    F = np.random.default_rng(seed).standard_normal((10, 3, 4))
    kernel = np.linalg.svd(F.reshape(10, -1))[2][10:].reshape(2, 3, 4)
    angles = np.linspace(0, np.pi, 4001)
    circle = np.tensordot(np.stack([np.cos(angles), np.sin(angles)]).T, kernel, axes=1)
    sigma = np.linalg.svd(circle, compute_uv=False)
    for r in (1, 2):
        share = (sigma[:, :r].sum(axis=1) / sigma.sum(axis=1)).max()  # θ, and ρ = θ/(1 − θ)
        bounds = sensing.rank_null_space_constant(F, r)
        lower, upper = (1 - 1 / (1 + rho) for rho in (bounds.lower, bounds.upper))
        # Singular values move by less than the angle, so θ by a few steps of π/4000. A local search may end too low.
        assert share - 0.01 <= lower <= share + 5e-3
        assert share <= upper
    assert sensing.rank_null_space_constant(F, 3).lower == np.inf
    assert sensing.rank_null_space_constant(np.eye(12).reshape(12, 3, 4), 1) == sensing.Constant(0.0, 0.0)


# Local coherence and the random orthogonal model


@few
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**16))
def test_local_coherences(rows, columns, seed):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, min(rows, columns) + 1))
    U, V = (np.linalg.qr(rng.standard_normal((k, r)))[0] for k in (rows, columns))
    A = (U * rng.uniform(0.5, 2.0, r)) @ V.T
    mu, nu = sensing.leverage_scores(A, r)
    # (122) from projections made in another way, AA⁺ and A⁺A.
    np.testing.assert_allclose(mu, rows / r * np.diag(A @ np.linalg.pinv(A)), atol=1e-9)
    np.testing.assert_allclose(nu, columns / r * np.diag(np.linalg.pinv(A) @ A), atol=1e-9)
    np.testing.assert_allclose(sensing.local_coherences(U), mu, atol=1e-9)
    np.testing.assert_allclose(sensing.local_coherences(V), nu, atol=1e-9)
    np.testing.assert_allclose([mu.sum(), nu.sum()], [rows, columns])  # ‖U‖_F² = r
    for scores, n in ((mu, rows), (nu, columns)):
        assert np.all(scores >= 0)
        assert 1 - ROUNDING <= scores.max() <= n / r + ROUNDING  # Def. G.8
    # (124): against other orthonormal bases, the scores of P₁ᵀAP₂.
    P, Q = (np.linalg.qr(rng.standard_normal((k, k)))[0] for k in (rows, columns))
    turned = sensing.leverage_scores(P.T @ A @ Q, r)
    np.testing.assert_allclose(sensing.local_coherences(U, P), turned[0], atol=1e-9)
    np.testing.assert_allclose(sensing.local_coherences(V, Q), turned[1], atol=1e-9)
    assert 1 - ROUNDING <= sensing.subspace_coherence(U, P) <= rows / r + ROUNDING
    mu_0, mu_1 = sensing.completion_coherences(A, r)
    assert math.isclose(mu_0, max(mu.max(), nu.max()))
    assert np.abs(U @ V.T).max() <= mu_1 * np.sqrt(r / (rows * columns)) + ROUNDING
    assert mu_1 <= mu_0 * np.sqrt(r) + ROUNDING


def test_coherence_of_a_subspace_has_its_range_for_orthonormal_bases_only():
    U = np.array([[1.0], [0.0]])
    assert math.isclose(sensing.subspace_coherence(U), 2.0)  # n/r: along a basis vector
    assert math.isclose(sensing.subspace_coherence(np.ones((2, 1))), 1.0)  # as far from both as can be
    assert sensing.subspace_coherence(U, 3 * np.eye(2)) > 2.0  # "a basis" of Def. G.8 is too much


def test_random_orthogonal_model_and_the_sparse_basis_of_a_matrix():
    # Def. G.6 with singular values 1/√r; vec(A*) = (V* ⊗ U*)vec(Σ*), sparse in an orthonormal basis (App. G.2.1).
    U, V = tasks.MatrixCompletion(6, 5, 3, truth="orthogonal").draw_factors(np.random.default_rng(0))
    A = U @ V.T
    np.testing.assert_allclose(np.linalg.svd(A, compute_uv=False), [3**-0.5] * 3 + [0, 0], atol=1e-12)
    left, sigma, right = np.linalg.svd(A)
    phi = np.kron(right.T, left)
    np.testing.assert_allclose(phi.T @ phi, np.eye(30), atol=1e-12)
    full = np.zeros((6, 5))
    np.fill_diagonal(full, sigma)
    np.testing.assert_allclose(phi @ full.ravel(order="F"), A.ravel(order="F"), atol=1e-12)  # vec stacks columns
    # Uniform directions: E μᵢ = 1 for each row, whatever the rank.
    task = tasks.MatrixCompletion(6, 5, 2, truth="orthogonal")
    factors = [task.draw_factors(np.random.default_rng(k)) for k in range(400)]
    scores = [sensing.leverage_scores(U @ V.T, 2)[0] for U, V in factors]
    np.testing.assert_allclose(np.mean(scores, axis=0), 1.0, atol=4 * np.std(scores) / 20)  # four standard errors


# Step sizes


@few
@given(st.integers(2, 5), st.integers(2, 5), st.integers(1, 8), st.floats(0.01, 0.5), st.integers(0, 2**16))
def test_step_conditions(rows, columns, N, share, seed):
    X = np.random.default_rng(seed).standard_normal((N, rows, columns))
    flat = X.reshape(N, -1)
    n = flat.shape[1]
    H = flat.T @ flat
    sigma = np.linalg.norm(H, 2)
    alpha, beta = share * 2 / sigma, share * sigma / np.sqrt(n)
    for penalty, hessian, end in (
        ("l1", H, sigma / np.sqrt(n)),
        ("nuclear", H, sigma / np.sqrt(min(rows, columns))),
        ("l2", H + beta * np.eye(n), np.inf),
    ):
        step = sensing.step_conditions(X if penalty == "nuclear" else flat, alpha, beta, penalty)
        assert math.isclose(step.sigma_max, sigma)
        assert math.isclose(step.alpha_max, 2 / np.linalg.norm(hessian, 2))
        assert math.isclose(step.beta_max, end)
        np.testing.assert_allclose(step.rho_2, np.linalg.norm(np.eye(n) - alpha * hessian, 2))
        rows_of_X = np.linalg.svd(flat, full_matrices=False)[2]
        inside = rows_of_X @ (np.eye(n) - alpha * hessian) @ rows_of_X.T
        np.testing.assert_allclose(step.rho_2_rows, np.linalg.norm(inside, 2), atol=1e-9)
        assert step.holds == (alpha < step.alpha_max)  # β is inside for all three
        assert not sensing.step_conditions(X, 1.01 * step.alpha_max, beta, penalty).holds
        if penalty != "l2":
            assert not sensing.step_conditions(X, alpha, 1.01 * end, penalty).holds
            # Fewer measurements than unknowns: the printed ρ₂ is 1, and 2αβ√n/(1 − ρ₂) infinite.
            assert (step.rho_2 < 1) == (n <= N)
            assert step.rho_2_rows < 1


def test_theorem_3_6_along_gradient_descent():
    rng = np.random.default_rng(0)
    X, truth = rng.standard_normal((4, 7)), rng.standard_normal(7)
    y, beta = X @ truth, 0.1
    end = np.linalg.solve(X.T @ X + beta * np.eye(7), X.T @ y)
    missed = truth - X.T @ np.linalg.pinv(X @ X.T) @ X @ truth
    assert np.linalg.norm(end - truth) >= np.linalg.norm(missed)
    largest = sensing.step_conditions(X, 1.0, beta, "l2").alpha_max
    for share in (0.5, 0.95, 1.05):
        step = sensing.step_conditions(X, share * largest, beta, "l2")
        a = start = rng.standard_normal(7)
        for t in range(1, 60):
            a = a - share * largest * (X.T @ (X @ a - y) + beta * a)
            assert np.linalg.norm(a - end) <= step.rho_2**t * np.linalg.norm(start - end) * (1 + ROUNDING)
        assert step.holds == (share < 1) == (step.rho_2 < 1)
        assert (np.linalg.norm(a - end) < np.linalg.norm(start - end)) == step.holds


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sensing.coherence(np.zeros((3, 2)), np.eye(3)), "column 0 is zero"),
        (lambda: sensing.one_coherence(np.eye(3), 3), "between 0 and 2, got 3"),
        (lambda: sensing.welch_bound(4, 3), "m=4, n=3"),
        (lambda: sensing.restricted_isometry(np.eye(3), 4), "got s=4"),
        (lambda: sensing.rank_restricted_isometry(np.ones((2, 3, 4)), 4), "between 1 and 3, got r=4"),
        (lambda: sensing.null_space_constant(np.eye(3)), "an order s or of one support"),
        (lambda: sensing.null_space_constant(np.eye(3), 2, support=[0]), "not of both"),
        (lambda: sensing.null_space_constant(np.eye(3), 0), "got s=0"),
        (lambda: sensing.null_space_constant(np.eye(3), support=[3]), r"got \[3\]"),
        (lambda: sensing.robust_null_space_constant(np.eye(3), -1.0, [0]), "got -1"),
        (lambda: sensing.robust_null_space_constant(np.eye(30), 0.5, range(20)), r"\|S\|=20"),
        (lambda: sensing.recovery_bound(1.0, 1.0, 1.0, 1.0), "got 1.0"),
        (lambda: sensing.local_coherences(np.ones((3, 2))), "independent"),
        (lambda: sensing.step_conditions(np.eye(3), 0.1, 0.1, "l3"), "did you mean"),
        (lambda: sensing.step_conditions(np.eye(3), 0.1, 0.1, "nuclear"), "N x n1 x n2"),
    ],
)
def test_what_has_no_meaning_is_refused(call, words):
    with pytest.raises(SpecError, match=words):
        call()
