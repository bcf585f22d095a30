"""Every potential by its definition, every minimiser by another solver, at scales from 10⁻³⁰⁰ to 10³⁰⁰."""

import dataclasses

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar

import afterfit as af
from afterfit import SpecError, theory
from afterfit.theory import Q, QDepth, R, SpectralQ, thresholds

SCALES = (1e-300, 1e-150, 1e-10, 1.0, 1e10, 1e150, 1e300)
POTENTIALS = (Q, lambda alpha: QDepth(alpha, 3), lambda alpha: QDepth(alpha, 4), lambda alpha: QDepth(alpha, 9), R)
NAMES = ("Q", "D=3", "D=4", "D=9", "R")
FEW = settings(derandomize=True, max_examples=25, deadline=None)


def _problem(n=8, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X, beta = rng.standard_normal((n, d)), np.zeros(d)
    beta[:3] = rng.standard_normal(3)
    return X, X @ beta + 0.1 * rng.standard_normal(n)


def _off_row_space(X, gradient):
    """The share of a gradient that no Xᵀν can be: 0 at a minimiser on {β : Xβ = y}."""
    return np.linalg.norm(gradient - X.T @ np.linalg.lstsq(X.T, gradient, rcond=None)[0]) / np.linalg.norm(gradient)


def _h_inverse(z, depth):
    """h_D⁻¹ as it is printed in Thm 3, by bisection."""
    p = depth / (depth - 2)
    return brentq(lambda s: (1 - s) ** -p - (1 + s) ** -p - z, 0, 1 - 1e-12, xtol=1e-15)


def _least_distance(z):
    """min ‖w − 1‖² over w₊² − w₋² = z ≥ 0, by a search over w₋."""
    found = [
        minimize_scalar(
            lambda w: (np.sqrt(z + w**2) - 1) ** 2 + (w - 1) ** 2,
            bounds=bounds,
            method="bounded",
            options={"xatol": 1e-10},
        )
        for bounds in ((-2, 0), (0, 2))
    ]
    return min(solution.fun for solution in found)


# Values and gradients


@pytest.mark.parametrize("z", [1e-3, 0.3, 5.0, 200.0])
def test_values_are_the_integrals_that_define_them(z):
    by_integral = quad(lambda t: np.arcsinh(t / 2), 0, z, epsabs=0, epsrel=1e-12)[0]
    np.testing.assert_allclose(Q(1.0).value([z]), by_integral, rtol=1e-11)
    # The formula of Thm 1, where its terms do not cancel
    if z >= 0.3:
        np.testing.assert_allclose(Q(1.0).value([z]), 2 - np.sqrt(4 + z**2) + z * np.arcsinh(z / 2), rtol=1e-12)
    for depth in (3, 4, 9, 100):
        by_integral = quad(_h_inverse, 0, z, args=(depth,), epsabs=0, epsrel=1e-11)[0]
        np.testing.assert_allclose(QDepth(1.0, depth).value([z]), by_integral, rtol=1e-10)
        np.testing.assert_allclose(QDepth(1.0, depth).gradient([-z]), [-_h_inverse(z, depth)], rtol=1e-10)


@pytest.mark.parametrize("z", [0.01, 0.5, 3.0, 30.0, 1e3])
def test_r_is_a_distance_and_the_smaller_real_root_of_the_quartic(z):
    r = R(1.0).value([z])
    np.testing.assert_allclose(r, _least_distance(z), rtol=1e-8)  # the search ends 1e-10 from the best w
    quartic = [1, -6, 12 - 2 * z**2, -(8 + 10 * z**2), z**2 + z**4]
    roots = np.roots(quartic)
    real = np.sort(roots[np.abs(roots.imag) < 1e-6 * np.abs(roots)].real)
    assert len(real) == 2  # §4 says that there is one
    np.testing.assert_allclose(r, real[0], rtol=1e-6)
    # R_α is α²Σr(β/α²): the paper's formula has no α²; and r is q₄.
    for alpha in (0.3, 2.0):
        beta = np.array([alpha**2 * z, -(alpha**2) * z])
        np.testing.assert_allclose(R(alpha).value(beta), 2 * alpha**2 * r, rtol=1e-12)
        np.testing.assert_allclose(R(alpha).value(beta), QDepth(np.sqrt(alpha), 4).value(beta), rtol=1e-12)


@pytest.mark.parametrize("make", POTENTIALS, ids=NAMES)
@pytest.mark.parametrize("alpha", [0.03, 1.0, 20.0])
def test_gradients_are_slopes_of_values(make, alpha):
    rng = np.random.default_rng(0)
    beta, h = rng.standard_normal(6), 1e-5
    slopes = [(make(alpha).value(beta + h * e) - make(alpha).value(beta - h * e)) / (2 * h) for e in np.eye(6)]
    # Rounding of the values, 1e-16 of them over h, and h² of the third derivative, at most β/|β|³
    np.testing.assert_allclose(make(alpha).gradient(beta), slopes, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("alpha", SCALES)
def test_values_at_extreme_scales_are_the_asymptotes(alpha):
    beta = np.array([0.5, -3.0, 1e-5, 0.0])
    size = np.abs(beta[:3])
    if alpha < 1e-5:  # z ≥ 10⁵: the next terms of q are 1/z of the first
        expected = np.sum(size * (np.log(size) - 2 * np.log(alpha) - 1))
        np.testing.assert_allclose(Q(alpha).value(beta), expected, rtol=1e-9)
        np.testing.assert_allclose(QDepth(alpha, 3).value(beta), size.sum(), rtol=1e-7)
        np.testing.assert_allclose(Q(alpha).gradient(beta)[0], np.log(0.5) - 2 * np.log(alpha), rtol=1e-12)
    elif alpha > 1:  # φ(z) = z²/4 and z²/8, to z²/48 = 10⁻²¹ of that
        moderate = size * alpha  # so that β²/α² is a floating-point number
        np.testing.assert_allclose(Q(alpha).value(moderate), np.sum(size**2) / 4, rtol=1e-10)
        np.testing.assert_allclose(R(alpha).value(moderate), np.sum(size**2) / 8, rtol=1e-10)
    else:
        assert 0 < Q(alpha).value(beta) < 10


# Minimisers


@pytest.mark.parametrize("alpha", [0.2, 1.0])
@pytest.mark.parametrize("uniform", [True, False])
def test_q_agrees_with_exponential_cones(alpha, uniform):
    # The dual written for CVXPY's exponential cones; away from very large α it is well scaled, and Clarabel's
    # own tolerance of 1e-8 on the objective leaves about its square root on the argument.
    X, y = _problem()
    shape = np.ones(20) if uniform else np.random.default_rng(1).uniform(0.5, 2.0, 20)
    c = alpha**2 * shape**2
    nu = cp.Variable(len(y))
    mass = cp.sum(cp.exp(X.T @ nu + np.log(c)) + cp.exp(-X.T @ nu + np.log(c)))
    cp.Problem(cp.Maximize(y @ nu - mass)).solve(solver="CLARABEL")
    assert nu.value is not None
    by_cones = 2 * c * np.sinh(X.T @ nu.value)
    np.testing.assert_allclose(Q(alpha, shape).minimise(X, y), by_cones, atol=1e-3 * np.abs(by_cones).max())


@pytest.mark.parametrize("decay", [1.0, 0.3])
def test_q_from_any_start_agrees_with_exponential_cones(decay):
    # The dual of the form that the flow keeps, β = w₊²e^s − w₋²e^{−s}, s = Xᵀν. The tolerance is Clarabel's again.
    X, y = _problem()
    rng = np.random.default_rng(2)
    plus, minus = rng.standard_normal((2, 20))
    nu = cp.Variable(len(y))
    mass = cp.sum(cp.exp(X.T @ nu + 2 * np.log(np.abs(decay * plus))))
    mass += cp.sum(cp.exp(-X.T @ nu + 2 * np.log(np.abs(decay * minus))))
    cp.Problem(cp.Maximize(y @ nu - mass)).solve(solver="CLARABEL")
    assert nu.value is not None
    by_cones = decay**2 * (plus**2 * np.exp(X.T @ nu.value) - minus**2 * np.exp(-X.T @ nu.value))
    found = dataclasses.replace(Q.from_start(plus, minus), alpha=decay).minimise(X, y)
    np.testing.assert_allclose(found, by_cones, atol=1e-3 * np.abs(by_cones).max())
    np.testing.assert_allclose(found, Q.from_start(decay * plus, -decay * minus).minimise(X, y), rtol=1e-7, atol=1e-9)


def test_q_from_any_start_is_least_where_the_flow_starts():
    plus, minus = np.array([0.5, -1.0, 2.0]), np.array([0.1, 1.5, -2.0])
    q, beta = Q.from_start(plus, minus), plus**2 - minus**2
    np.testing.assert_allclose(q.gradient(beta), 0, atol=1e-14)
    h = 1e-5
    slopes = [(q.value(beta + 0.3 + h * e) - q.value(beta + 0.3 - h * e)) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(q.gradient(beta + 0.3), slopes, rtol=1e-6, atol=1e-9)
    # On data that the start fits, the data y = 0 included, it stays.
    X = np.array([[1.0, -0.5, 2.0], [0.3, 1.0, 0.7]])
    np.testing.assert_allclose(q.minimise(X, X @ beta), beta, rtol=1e-9, atol=1e-12)
    X = X - np.outer(X @ beta, beta) / (beta @ beta)
    np.testing.assert_allclose(q.minimise(X, np.zeros(2)), beta, rtol=1e-9, atol=1e-12)
    balanced = Q.from_start(plus, plus)
    X, y = X[:, ::-1], np.array([1.0, -2.0])
    np.testing.assert_allclose(balanced.minimise(X, y), Q(1.0, plus).minimise(X, y), rtol=1e-12)


def test_a_start_with_zeros_or_of_two_shapes_is_refused():
    with pytest.raises(SpecError, match="without zero entries"):
        Q.from_start([1.0, 0.0], [1.0, 1.0])
    with pytest.raises(SpecError, match="of one shape"):
        Q.from_start([1.0, 1.0], [1.0])
    with pytest.raises(SpecError, match="the tilt must be finite"):
        Q(1.0, tilt=np.inf)
    with pytest.raises(SpecError, match="the tilt has 2 entries, but there are 3 weights"):
        Q(1.0, tilt=[0.1, 0.2]).value([1.0, 2.0, 3.0])


@pytest.mark.parametrize(("potential", "c", "power"), [(QDepth(0.4, 3), 0.4**3, 3), (R(0.2), 0.2**2, 2)])
def test_powers_agree_with_cones(potential, c, power):
    # The conjugate of φ is ((1 − s)^{1−p} + (1 + s)^{1−p} − 2)/(p − 1): power cones. The tolerance is Clarabel's again.
    X, y = _problem()
    nu = cp.Variable(len(y))
    mass = cp.sum(cp.power(1 - X.T @ nu, 1 - power) + cp.power(1 + X.T @ nu, 1 - power)) / (power - 1)
    cp.Problem(cp.Maximize(y @ nu - c * mass)).solve(solver="CLARABEL")
    assert nu.value is not None
    s = X.T @ nu.value
    by_cones = c * ((1 - s) ** -power - (1 + s) ** -power)
    np.testing.assert_allclose(potential.minimise(X, y), by_cones, atol=1e-3 * np.abs(by_cones).max())


@pytest.mark.parametrize("make", POTENTIALS, ids=NAMES)
@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0, 30.0])
def test_minimisers_satisfy_their_optimality_conditions(make, alpha):
    X, y = _problem()
    if make is not Q:
        alpha = max(alpha, 0.03)  # nearer to L1 the gradient is ±1 to rounding and says nothing of ν
    beta = make(alpha).minimise(X, y)
    np.testing.assert_allclose(X @ beta, y, atol=1e-10)
    assert _off_row_space(X, make(alpha).gradient(beta)) <= 1e-8


@pytest.mark.parametrize("make", POTENTIALS, ids=NAMES)
@pytest.mark.parametrize("alpha", SCALES)
def test_minimisers_at_extreme_scales_are_those_of_l1_and_l2(make, alpha):
    X, y = _problem()
    beta = make(alpha).minimise(X, y)
    assert np.linalg.norm(X @ beta - y) <= 1e-10 * np.linalg.norm(y)
    if alpha >= 1e10:
        least = theory.min_l2(X, y)
        assert np.linalg.norm(beta - least) <= 1e-10 * np.linalg.norm(least)
    elif alpha <= 1e-10:
        least = theory.min_l1(X, y)
        # For Q the distance is α to a power, twice the least slack of the dual program, which is small here.
        near = 1e-2 if make is Q and alpha > 1e-100 else 1e-7
        assert np.linalg.norm(beta - least) <= near * np.linalg.norm(least)


@pytest.mark.parametrize("alpha", SCALES)
def test_shape_weighs_the_l2_limit_only(alpha):
    X, y = _problem()
    shape = np.random.default_rng(1).uniform(0.25, 2.0, 20)
    beta = Q(alpha, shape).minimise(X, y)
    assert np.linalg.norm(X @ beta - y) <= 1e-10 * np.linalg.norm(y)
    if alpha >= 1e10:
        weighted = shape * theory.min_l2(X * shape, y)
        assert np.linalg.norm(beta - weighted) <= 1e-10 * np.linalg.norm(weighted)
    elif alpha <= 1e-150:
        least = theory.min_l1(X, y)
        assert np.linalg.norm(beta - least) <= 1e-7 * np.linalg.norm(least)


def test_many_weights_and_few_equations():
    X, y = _problem(50, 2000)
    for potential in (Q(1e-10), QDepth(1e-2, 3)):
        beta = potential.minimise(X, y)
        assert np.linalg.norm(X @ beta - y) <= 1e-10 * np.linalg.norm(y)
        assert np.abs(beta).sum() <= 1.01 * np.abs(theory.min_l1(X, y)).sum()


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_minimisers_are_where_gradient_flow_ends(depth):
    # Thms 1 and 3, by a flow that knows nothing of potentials.
    alpha = 0.3
    run = af.train(
        task=af.tasks.SparseRegression(n=4, d=8, sparsity=2, noise_variance=0.01),
        model=af.models.DiagonalNet(depth=depth),
        dynamics=af.dynamics.GradientFlow(until=300.0, rtol=1e-9, atol=1e-12),
        init=af.inits.Constant(scale=alpha),
        observations=5,
    )
    data = af.Experiment.from_dict(run.spec).draw()
    potential = Q(alpha) if depth == 2 else QDepth(alpha, depth)
    end = potential.minimise(data.inputs, data.targets)
    assert np.linalg.norm(run.curves["weights"][-1].values - end) <= 1e-5 * np.linalg.norm(end)
    assert np.linalg.norm(theory.min_l2(data.inputs, data.targets) - end) >= 1e-2 * np.linalg.norm(end)


def test_degenerate_problems():
    X = np.random.default_rng(0).standard_normal((6, 15))
    y = X[:, 2].copy()  # a sparse solution: fewer weights than equations
    for make in POTENTIALS:
        np.testing.assert_allclose(make(1e-200).minimise(X, y), np.eye(15)[2], atol=1e-8)
    X[:, 9] = -X[:, 2]  # of the least L1 norm is now every mixture; the potentials take the even one
    for potential in (Q(1e-200), QDepth(1e-4, 3), R(1e-4)):
        np.testing.assert_allclose(potential.minimise(X, y), (np.eye(15)[2] - np.eye(15)[9]) / 2, atol=1e-6)
    np.testing.assert_array_equal(Q(1.0).minimise(X, np.zeros(6)), np.zeros(15))
    twice = np.concatenate([X, X])
    np.testing.assert_allclose(
        Q(0.1).minimise(twice, np.concatenate([y, y])), Q(0.1).minimise(X, y), atol=1e-10
    )  # the same equations
    with pytest.raises(theory.NotSeparableError, match="no β has Xβ = y"):
        Q(0.1).minimise(twice, np.concatenate([y, -y]))


def test_what_cannot_be_is_refused():
    for wrong in (0.0, -1.0, np.inf, np.nan):
        for make in (*POTENTIALS, SpectralQ):
            with pytest.raises(af.SpecError, match="positive finite number"):
                make(wrong)
    with pytest.raises(af.SpecError, match=r"for depth 2 use Q\(alpha\)"):
        QDepth(1.0, 2)
    with pytest.raises(af.SpecError, match="zero entries"):
        Q(1.0, [1.0, 0.0])
    with pytest.raises(af.SpecError, match="2 entries, but there are 3 weights"):
        Q(1.0, [1.0, 2.0]).value([1.0, 2.0, 3.0])
    with pytest.raises(af.SpecError, match="got shapes"):
        Q(1.0).minimise(np.ones((2, 3)), np.ones(3))
    with pytest.raises(af.SpecError, match="symmetric"):
        SpectralQ(1.0).minimise(np.array([[[0.0, 1.0], [0.0, 0.0]]]), np.ones(1))


# Properties

_exponents = st.floats(-300, 300)
_weights = st.lists(st.floats(-3, 3).filter(lambda x: abs(x) > 1e-3), min_size=3, max_size=3).map(np.array)


@FEW
@given(st.sampled_from(POTENTIALS), st.floats(-4, 4), _weights, _weights, st.floats(0, 1))
def test_potentials_are_convex(make, exponent, a, b, share):
    potential = make(10.0**exponent)
    middle = potential.value(share * a + (1 - share) * b)
    chord = share * potential.value(a) + (1 - share) * potential.value(b)
    assert middle <= chord * (1 + 1e-12)
    assert (potential.gradient(a) - potential.gradient(b)) @ (a - b) >= -1e-12 * np.abs(potential.gradient(a)).sum()


@FEW
@given(_exponents, st.floats(-1, 1), _weights)
def test_potentials_scale_with_their_start(exponent, factor, beta):
    # Q_{cα}(c²β) = c²Q_α(β), and the same with c^D; logarithms of the scale cost a few digits at 10³⁰⁰.
    c, alpha = 10.0**factor, 10.0 ** (0.9 * exponent)
    for potential, scaled, power in (
        (Q(alpha), Q(c * alpha), 2),
        (R(alpha), R(c * alpha), 2),
        (QDepth(alpha, 3), QDepth(c * alpha, 3), 3),
    ):
        value = potential.value(beta)
        np.testing.assert_allclose(scaled.value(c**power * beta), c**power * value, rtol=1e-11, atol=1e-305)


@FEW
@given(st.floats(0.02, 3), st.integers(0, 10**6), st.floats(-2, 4))
def test_lemmas_5_and_7(epsilon, seed, exponent):
    rng = np.random.default_rng(seed)
    beta = 10.0**exponent * rng.standard_normal(rng.integers(1, 20))
    l1, l2 = np.abs(beta).sum(), np.linalg.norm(beta)
    log_alpha = thresholds.log_alpha_lemma5(epsilon, l1, beta.size)
    for less in (1.0, 2.0):
        if -690 < less * log_alpha < 0:
            ratio = Q(np.exp(less * log_alpha)).value(beta) / (-2 * less * log_alpha) / l1
            assert 1 - epsilon <= ratio <= 1 + epsilon
    for more in (1.0, 10.0):
        alpha = more * thresholds.alpha_lemma7(epsilon, l2)
        assert 1 - epsilon <= 4 * alpha**2 * Q(alpha).value(beta) / l2**2 <= 1 + epsilon


@FEW
@given(st.floats(0.01, 1.2), st.floats(1, 1e4), st.floats(0, 30))
def test_lemma_6(epsilon, more, above):
    d = int(np.ceil(max(3, 12 ** (4 * epsilon)) * more))
    log_alpha = thresholds.log_alpha_lemma6(epsilon, d) + above
    if log_alpha > -690:
        alpha = np.exp(log_alpha)
        # v = e₁ and w = 1/√d; Q(w) is d times that of one coordinate, and ‖w‖₁ = √d.
        ratio = Q(alpha).value([1.0]) / (d * Q(alpha).value([d**-0.5]) / np.sqrt(d))
        assert ratio >= 1 + epsilon


@FEW
@given(st.floats(0.05, 3), st.integers(0, 10**6), st.floats(-1, 3), st.booleans())
def test_theorem_2(epsilon, seed, exponent, tied):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    d = n + int(rng.integers(3, 15))
    X = rng.standard_normal((n, d))
    if tied:  # nearly equal columns, for which L1 is hard to reach
        X = rng.standard_normal((n, 1)) * (1 - 10 ** rng.uniform(-3, -0.5, d)) + 1e-2 * X
    y = 10.0**exponent * X[:, 0]
    l1, l2 = np.abs(theory.min_l1(X, y)).sum(), np.linalg.norm(theory.min_l2(X, y))
    log_alpha = thresholds.log_alpha_thm2_l1(epsilon, l1, d)
    if log_alpha > -690:
        assert np.abs(Q(np.exp(log_alpha)).minimise(X, y)).sum() <= (1 + epsilon) * l1
    kernel = Q(thresholds.alpha_thm2_l2(epsilon, l2)).minimise(X, y)
    assert np.sum(kernel**2) <= (1 + epsilon) * l2**2


def test_thresholds_have_logs_where_there_are_no_numbers():
    assert thresholds.log_alpha_thm2_l1(1e-3, 1.0, 1000) == -1e6
    assert np.exp(-1e6) == 0
    with pytest.raises(af.SpecError, match="0 < ε < d"):
        thresholds.log_alpha_thm2_l1(3.0, 1.0, 2)
    with pytest.raises(af.SpecError, match=r"d ≥ max\(e, 12\^\(4ε\)\) = 144"):
        thresholds.log_alpha_lemma6(0.5, 100)


def test_q_goes_from_l2_to_l1():
    X, y = _problem()
    l1 = np.abs(theory.min_l1(X, y)).sum()
    excess = [np.abs(Q(alpha).minimise(X, y)).sum() / l1 - 1 for alpha in (1e-1, 1e-3, 1e-6)]
    assert 0 < excess[2] < excess[1] < excess[0]  # the approach to L1 is only logarithmic in α
    assert excess[2] <= 0.05


# Spectra


def _measurements(n=6, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d, d))
    X, u = X + X.transpose(0, 2, 1), rng.standard_normal((d, 1))
    return X, np.tensordot(X, u @ u.T, axes=2)


def test_spectral_gradient_is_the_slope_of_the_value():
    M = np.random.default_rng(0).standard_normal((4, 3))
    step = np.random.default_rng(1).standard_normal((4, 3))
    for mu in (0.1, 1.0, 10.0):
        slope = (SpectralQ(mu).value(M + 1e-5 * step) - SpectralQ(mu).value(M - 1e-5 * step)) / 2e-5
        np.testing.assert_allclose(np.sum(SpectralQ(mu).gradient(M) * step), slope, rtol=1e-7)


@pytest.mark.parametrize("mu", SCALES)
def test_spectral_minimiser_is_that_of_q_on_diagonals(mu):
    X, y = _problem(4, 9)
    rotation = np.linalg.qr(np.random.default_rng(2).standard_normal((9, 9)))[0]
    commuting = rotation @ (X[:, :, None] * np.eye(9)) @ rotation.T
    commuting = (commuting + commuting.transpose(0, 2, 1)) / 2
    expected = rotation @ np.diag(Q(mu).minimise(X, y)) @ rotation.T
    np.testing.assert_allclose(SpectralQ(mu).minimise(commuting, y), expected, atol=1e-9)


@pytest.mark.parametrize("mu", [0.01, 1.0, 100.0])
def test_spectral_minimiser_satisfies_its_optimality_conditions(mu):
    X, y = _measurements()
    M = SpectralQ(mu).minimise(X, y)
    np.testing.assert_allclose(np.tensordot(X, M, axes=2), y, atol=1e-10)
    assert _off_row_space(X.reshape(len(X), -1), SpectralQ(mu).gradient(M).ravel()) <= 1e-9


def test_spectral_minimiser_goes_from_frobenius_to_nuclear():
    X, y = _measurements()
    least = theory.min_l2(X.reshape(len(X), -1), y).reshape(5, 5)
    np.testing.assert_allclose(SpectralQ(1e200).minimise(X, y), least, atol=1e-10)
    W = cp.Variable((5, 5))
    nuclear = cp.Problem(
        cp.Minimize(cp.normNuc(W)), [cp.sum(cp.multiply(x, W)) == t for x, t in zip(X, y, strict=True)]
    )
    value = nuclear.solve(solver="CLARABEL")
    rich = np.linalg.norm(SpectralQ(1e-300).minimise(X, y), "nuc")
    assert abs(rich / value - 1) <= 1e-3  # logarithmic in μ: log(5)/log(10⁶⁰⁰) at most


# Many at once


@pytest.mark.parametrize("make", POTENTIALS, ids=NAMES)
def test_minimisers_followed_from_each_other_are_those_from_scratch(make):
    X, y = _problem()
    minimisers = theory.Minimisers(X, y)
    # Down, up, and back between: from the next larger scale, from scratch, and from what is known.
    for alpha in (1.0, 0.3, 0.05, 30.0, 1e-8, 0.1, 0.02, 1e-8):
        np.testing.assert_allclose(minimisers.of(make(alpha)), make(alpha).minimise(X, y), rtol=1e-6, atol=1e-9)


def test_minimisers_keep_potentials_apart():
    X, y = _problem()
    minimisers, shape = theory.Minimisers(X, y), np.linspace(0.5, 2.0, 20)
    for potential in (Q(0.1), Q(0.1, shape), QDepth(0.1, 3), QDepth(0.1, 4), R(0.1), Q(0.01, shape), Q(0.01)):
        np.testing.assert_allclose(minimisers.of(potential), potential.minimise(X, y), rtol=1e-6, atol=1e-9)
