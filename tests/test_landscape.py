"""What a theorem asks of the landscape, each by two routes: closed forms, full Hessians, brute force."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import flat, slope, unflat
from hypothesis import given, settings
from hypothesis import strategies as st

from afterfit import SpecError, dynamics, inits, models, penalties, tasks
from afterfit._training.experiment import Experiment
from afterfit._training.train import prepare
from afterfit.dynamics import _tangent as tangent
from afterfit.theory._landscape import (
    chatterjee_lojasiewicz,
    fit_steps,
    hessian_rank,
    homogeneity,
    slow_steps,
    step_sizes,
)

pytestmark = pytest.mark.usefixtures("x64")

VECTOR = tasks.SparseRegression(n=4, d=7, sparsity=2)
MATRIX = tasks.MatrixCompletion(4, 4, 1, observed=7)


def posed(task, model, init=None, seed=0):
    """A problem and where it starts."""
    return prepare(
        Experiment(
            task=task,
            model=model,
            init=inits.Gaussian(0.7) if init is None else init,
            penalty=penalties.L1(1e-3),
            dynamics=dynamics.GradientDescent(lr=0.1, steps=1),
            seed=seed,
        )
    )


def interpolated(problem, params):
    """The problem with the targets that `params` fit."""
    return eqx.tree_at(lambda p: p.data.targets, problem, problem.model(params, problem.data.inputs))


def own(X, y, function, initial, reduction="half_sum"):
    """A problem of any function on any data, of which only its values are known."""
    task = tasks.Arrays(X, y, X, y, reduction=reduction)
    return posed(task, models.Function(function, initial), inits.Own())


def linear(a, x):
    return a @ x


def product(a, x):
    return a[0] * a[1] * x[0]


def power(a, x):
    return jnp.sum(jnp.sign(a) * jnp.abs(a) ** x[0] * x[1:])


# Homogeneity


@pytest.mark.parametrize(
    ("task", "model", "init"),
    [
        (VECTOR, models.DiagonalNet(depth=3), inits.Constant(1.0)),  # zero output
        (VECTOR, models.DiagonalProduct(depth=4), inits.ZeroLastLayer(inits.Gaussian(1.0))),  # zero output
        (MATRIX, models.SymmetricFactorisation(), inits.Identity(2.0)),  # zero output, and no forward derivative
        (MATRIX, models.DeepMatrixFactorisation(depth=3), None),
        (VECTOR, models.MLP((5, 4)), None),
        (VECTOR, models.MLP((6,), biases="hidden"), inits.Symmetrised(inits.He())),  # zero output
        (VECTOR, models.Difference(models.MLP((5,))), None),  # zero output
        (VECTOR, models.MLP((5,), biases="all"), None),
        (VECTOR, models.Tangent(models.MLP((5,))), None),
    ],
)
def test_the_degree_measured_is_the_degree_stated(task, model, init):
    found = homogeneity(*posed(task, model, init)).degree
    if model.degree is None:
        assert found is None
    else:
        assert found == pytest.approx(model.degree, abs=1e-9)


@settings(max_examples=10)
@given(st.floats(0.5, 5.0))
def test_degrees_need_not_be_whole(q):
    X = np.random.default_rng(0).standard_normal((3, 4))
    X[:, 0] = q  # told with the data, so that one compilation serves every q
    assert homogeneity(*own(X, X[:, 1], power, np.ones(3))).degree == pytest.approx(q, abs=1e-9)


def test_a_function_that_scales_in_size_but_not_in_direction_is_not_homogeneous():
    # |f(cθ)| = c|f(θ)|, turned by an angle that depends on |θ|: only a comparison of vectors tells.
    X = np.eye(2)
    problem, params = own(
        X,
        X[0],
        lambda a, x: (jnp.array([[jnp.cos(a @ a), -jnp.sin(a @ a)], [jnp.sin(a @ a), jnp.cos(a @ a)]]) @ a) @ x,
        np.ones(2),
    )
    assert homogeneity(problem, params).degree is None


def test_a_model_that_is_zero_around_its_start_has_no_degree():
    X = np.eye(2)
    with pytest.raises(SpecError, match="no degree"):
        homogeneity(*own(X, X[0], lambda a, x: jnp.where(a[0] > 1e4, a @ x, 0.0), np.ones(2)))


# The manifold


@pytest.mark.parametrize(
    ("task", "model"),
    [
        (VECTOR, models.DiagonalProduct(depth=3)),
        (VECTOR.replace(reduction="half_mean"), models.MLP((3,))),
        (MATRIX, models.MatrixFactorisation(2)),
        (MATRIX, models.SymmetricFactorisation(2)),
    ],
)
def test_the_kernel_tells_the_rank_of_the_full_hessian(task, model):
    problem, params = posed(task, model)
    problem = interpolated(problem, params)
    seen = hessian_rank(problem, params)
    # Backwards twice: one of the models has no forward derivative.
    at = flat(params)
    loss = lambda w: problem.loss(unflat_jax(w, params))  # noqa: E731
    full = np.linalg.eigvalsh(np.asarray(jax.jit(jax.jacrev(jax.jacrev(loss)))(jnp.asarray(at))))[::-1]
    assert seen.interpolates
    m = len(seen.eigenvalues)
    short = min(m, len(at))  # with fewer parameters than outputs the rest of K's eigenvalues are 0
    np.testing.assert_allclose(seen.eigenvalues[:short], full[:short], atol=1e-11 * full[0])
    assert seen.rank == np.sum(full > 1e-10 * full[0])
    assert seen.dimension == len(at) - seen.rank
    assert seen.gap == pytest.approx(full[seen.rank - 1], rel=1e-6)


def unflat_jax(vector, like):
    """`conftest.unflat` for arrays that are being differentiated."""
    leaves, structure = jax.tree.flatten(like)
    cuts = np.cumsum([leaf.size for leaf in leaves])[:-1]
    pieces = jnp.split(vector, cuts)
    return jax.tree.unflatten(structure, [p.reshape(leaf.shape) for p, leaf in zip(pieces, leaves, strict=True)])


@settings(max_examples=15)
@given(st.sampled_from([2, 5]), st.integers(0, 7), st.integers(0, 99))
def test_a_diagonal_net_has_the_rank_of_its_active_coordinates(n, active, seed):
    # K = X diag(4(u² + v²)) Xᵀ has the rank of the columns of X whose coordinates are not null.
    problem, params = posed(VECTOR.replace(n=n), models.DiagonalNet(depth=2), seed=seed)
    params = jax.tree.map(lambda leaf: leaf.at[active:].set(0.0), params)
    seen = hessian_rank(interpolated(problem, params), params)
    assert seen.rank == min(n, active)
    assert seen.dimension == 2 * 7 - min(n, active)


def test_a_point_that_does_not_fit_is_said_not_to():
    problem, params = posed(VECTOR, models.DiagonalNet(depth=2))
    seen = hessian_rank(problem, params)
    assert not seen.interpolates
    outputs = np.asarray(tangent.outputs(problem, params))
    y = np.asarray(problem.data.targets)
    assert seen.misfit == pytest.approx(np.linalg.norm(outputs - y) / np.linalg.norm(y))
    # What is left out is not small there: the Hessian has more eigenvalues than the 4 outputs allow.
    hessian = jax.jit(jax.hessian(lambda w: problem.loss(unflat_jax(w, params))))(jnp.asarray(flat(params)))
    assert np.linalg.matrix_rank(np.asarray(hessian), tol=1e-6) > seen.rank == 4


def test_a_classification_loss_has_no_interpolating_points():
    task = tasks.SparseClassification(n=5, d=8, sparsity=1)
    with pytest.raises(SpecError, match=r"only a squared loss.*Logistic"):
        hessian_rank(*posed(task, models.DiagonalNet()))


# The condition of Chatterjee and Łojasiewicz


@settings(max_examples=4)
@given(st.integers(0, 99))
def test_the_closed_form_for_linear_models_is_what_descent_finds(seed):
    rng = np.random.default_rng(seed)
    X, y, a = rng.standard_normal((3, 5)), rng.standard_normal(3), rng.standard_normal(5)
    sigma = np.linalg.svd(X, compute_uv=False)[-1]
    way = np.linalg.norm(np.linalg.pinv(X) @ (X @ a - y))
    problem, params = own(X, y, linear, a, "mean")  # of which nobody says that it is linear
    known = eqx.tree_at(lambda p: p.model, problem, models.Tangent(problem.model).anchored(params))
    for radius in (1.1 * way, 5 * way):
        exact, found = chatterjee_lojasiewicz(known, params, radius), chatterjee_lojasiewicz(problem, params, radius)
        assert (exact.exact, found.exact) == (True, False)
        assert exact.least == pytest.approx(4 / 3 * sigma**2, rel=1e-9)  # 4cσ², c = 1/3
        # Descent comes from above, and near: the ratio is a Rayleigh quotient about any solution.
        assert exact.least * (1 - 1e-6) <= found.least <= 1.05 * exact.least
        assert exact.holds == (4 * exact.loss < radius**2 * exact.least)


def test_a_ball_that_reaches_no_solution_has_a_larger_constant():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((2, 3))
    y = 10 * np.linalg.svd(X)[0][:, 0]  # the residual at 0 has the largest ratio of all
    problem, params = posed(tasks.Arrays(X, y, X, y, reduction="half_sum"), models.Linear(), inits.Constant(0.0))
    radius = 0.3 * np.linalg.norm(np.linalg.pinv(X) @ y)
    found = chatterjee_lojasiewicz(problem, params, radius)
    points = rng.standard_normal((100_000, 3))
    points *= radius / np.linalg.norm(points, axis=1, keepdims=True) * rng.uniform(size=(100_000, 1)) ** (1 / 3)
    e = points @ X.T - y
    brute = np.min(np.sum((e @ X) ** 2, axis=1) / (0.5 * np.sum(e**2, axis=1)))
    assert not found.exact
    assert 0.97 * brute <= found.least <= brute  # 10⁵ points in a ball come within a few per cent of its surface
    assert found.least > 1.5 * 2 * np.linalg.svd(X, compute_uv=False)[-1] ** 2


def test_data_that_cannot_be_fitted_have_no_constant():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 3)), rng.standard_normal(6)
    problem, params = posed(tasks.Arrays(X, y, X, y), models.Linear())
    seen = chatterjee_lojasiewicz(problem, params, 10.0)
    assert (seen.least, seen.exact, seen.holds) == (0.0, True, False)


@settings(max_examples=4)
@given(st.floats(0.1, 0.8), st.floats(0.0, 6.28), st.floats(0.5, 2.0))
def test_the_constant_of_one_product(share, angle, x):
    # g = ½(uvx − y)² has ‖∇g‖²/g = 2x²(u² + v²), least at the point of the ball nearest to 0. y is out of reach.
    at = np.array([np.cos(angle), np.sin(angle)])
    problem, params = own(np.array([[x]]), np.array([100.0]), product, at)
    found = chatterjee_lojasiewicz(problem, params, share)
    assert found.least == pytest.approx(2 * x**2 * (1 - share) ** 2, rel=1e-3)
    assert found.least >= 2 * x**2 * (1 - share) ** 2 * (1 - 1e-9)


# Step sizes and clocks


def recovery(seed=1):
    return posed(tasks.SparseRecovery(n=12, sparsity=2, N=5, scale=1.0), models.Linear(), seed=seed)


def cl_radius(problem, params):
    """Twice the smallest radius at which g is r-CL: s = ½."""
    far = chatterjee_lojasiewicz(problem, params, 1e3)
    return 4 * np.sqrt(far.loss / far.least)


def test_the_constants_are_suprema_over_the_ball():
    problem, params = recovery()
    radius = cl_radius(problem, params)
    seen = step_sizes(problem, params, radius, penalty_slope=1.0)
    X, p = np.asarray(problem.data.inputs), 12
    assert np.abs(X.T @ X).max() == pytest.approx(seen.L2)
    assert np.linalg.svd(X, compute_uv=False)[0] ** 2 == pytest.approx(seen.L)
    rng = np.random.default_rng(0)
    start, loss = flat(params), jax.jit(lambda w: problem.loss(w))
    steepest = 0.0
    for direction in (*rng.standard_normal((10, p)), *(X.T @ X), *(-X.T @ X)):  # the last ones are the worst
        there = start + radius * direction / np.linalg.norm(direction)
        steepest = max(steepest, np.abs(slope(loss, unflat(there, params), 1e-5)).max())
    assert steepest == pytest.approx(seen.L1, rel=1e-6)
    assert 0 < seen.gamma < seen.epsilon < 1
    assert (1 - seen.epsilon) / (1 + seen.gamma) > 0.5  # s: (29)
    G = slope(loss, params)
    assert seen.beta_max * np.sqrt(p) == pytest.approx(seen.gamma * np.linalg.norm(G), rel=1e-6)


@settings(max_examples=6)
@given(st.integers(0, 99), st.floats(0.05, 0.99), st.floats(0.01, 0.99))
def test_descent_within_the_limits_does_what_the_theorem_says(seed, share_of_alpha, share_of_beta):
    # Thm C.16 while β‖H‖ ≤ γ‖G‖: geometric decay, and no way out of the ball. Plain NumPy steps.
    problem, params = recovery(seed)
    radius = cl_radius(problem, params)
    seen = step_sizes(problem, params, radius, penalty_slope=1.0)
    alpha, beta = share_of_alpha * seen.alpha_max, share_of_beta * seen.beta_max
    X, y = np.asarray(problem.data.inputs), np.asarray(problem.data.targets)
    a = start = flat(params)
    first = loss = 0.5 * np.sum((X @ a - y) ** 2)
    for k in range(1, 2000):
        G, H = X.T @ (X @ a - y), np.sign(a)
        if beta * np.linalg.norm(H) > seen.gamma * np.linalg.norm(G):
            break
        a = a - alpha * (G + beta * H)
        loss = 0.5 * np.sum((X @ a - y) ** 2)
        assert loss <= (1 - seen.delta(alpha)) ** k * first * (1 + 1e-12)
        assert np.linalg.norm(a - start) <= radius
        assert fit_steps(first, loss, seen.delta(alpha)) >= k * (1 - 1e-9)
    assert loss < first
    # C of (9) says how low a fit is guaranteed: γ‖G₀‖/β‖H‖ = τ^−t and ε_g = (1 − δ)^t g₀ for the same t.
    tau = 1 - (1 + seen.gamma) * alpha * seen.L
    assert tau ** (100 * seen.exponent(alpha)) == pytest.approx((1 - seen.delta(alpha)) ** 100)


def test_too_small_a_ball_is_refused():
    problem, params = recovery()
    with pytest.raises(SpecError, match=r"not r-CL.*larger radius"):
        step_sizes(problem, params, 0.4 * cl_radius(problem, params), penalty_slope=1.0)
    with pytest.raises(SpecError, match="DiagonalNet"):
        step_sizes(*posed(VECTOR, models.DiagonalNet()), radius=1.0, penalty_slope=1.0)
    with pytest.raises(SpecError, match="radius"):
        chatterjee_lojasiewicz(problem, params, 0.0)


@settings(max_examples=30)
@given(st.floats(1e-3, 1e3), st.floats(1e-12, 0.99), st.floats(1e-6, 0.9))
def test_the_first_clock_is_that_of_geometric_decay(loss, share, delta):
    t = fit_steps(loss, share * loss, delta)
    assert loss * (1 - delta) ** t == pytest.approx(share * loss, rel=1e-6)
    assert fit_steps(loss, 2 * loss, delta) == 0
    assert fit_steps(loss, share * loss, 1.0) == 1


@settings(max_examples=20)
@given(st.floats(0.05, 1.0), st.floats(1e-3, 0.2), st.floats(0.05, 2.0), st.floats(-3.0, 3.0), st.floats(-2.0, 2.0))
def test_the_second_clock_bounds_subgradient_descent(alpha, beta, eta, start, y):
    # f = ½(x − y)² + β|x| on the line, whose minimum is soft thresholding; C' = max F²/β² (Thm C.13).
    best = np.sign(y) * max(abs(y) - beta, 0.0)
    f = lambda x: 0.5 * (x - y) ** 2 + beta * abs(x)  # noqa: E731
    steps = int(np.ceil(slow_steps(abs(start - best), alpha, beta, eta)))
    x, least, largest = start, f(start), 0.0
    for _ in range(min(steps, 20_000)):
        F = x - y + beta * np.sign(x)
        largest = max(largest, F**2)
        x = x - alpha * F
        least = min(least, f(x))
    if steps <= 20_000:
        constant = largest / beta**2
        assert least - f(best) <= 0.5 * (eta + constant * alpha * beta) * beta + 1e-12


def test_clocks_refuse_what_has_no_meaning():
    with pytest.raises(SpecError, match="delta"):
        fit_steps(1.0, 0.1, 1.5)
    with pytest.raises(SpecError, match="eta"):
        slow_steps(1.0, 0.1, 0.1, 0.0)
    with pytest.raises(SpecError, match="goal"):
        fit_steps(1.0, 0.0, 0.1)
