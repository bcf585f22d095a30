"""Convex programs, each by two independent routes."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import afterfit as af
from afterfit import SpecError, theory
from afterfit.theory import _programs as programs


def _problem(n=8, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X, beta = rng.standard_normal((n, d)), np.zeros(d)
    beta[:3] = rng.standard_normal(3)
    return X, X @ beta + 0.1 * rng.standard_normal(n)


def _labelled(n=20, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sign(X[:, :3].sum(axis=1))


# Regression


def test_min_l1_agrees_with_cvxpy():
    X, y = _problem()
    beta = cp.Variable(20)
    value = cp.Problem(cp.Minimize(cp.norm1(beta)), [X @ beta == y]).solve(solver="CLARABEL")
    ours = theory.min_l1(X, y)
    np.testing.assert_allclose(X @ ours, y, atol=1e-8)
    np.testing.assert_allclose(np.abs(ours).sum(), value, rtol=1e-6)


def test_weighted_min_l2_agrees_with_cvxpy():
    X, y = _problem()
    weights = np.random.default_rng(1).uniform(0.1, 10, 20)
    beta = cp.Variable(20)
    cp.Problem(cp.Minimize(cp.sum(cp.multiply(weights, beta**2))), [X @ beta == y]).solve(solver="CLARABEL")
    np.testing.assert_allclose(theory.min_l2(X, y, weights), beta.value, atol=1e-6)
    np.testing.assert_allclose(theory.min_l2(X, y), np.linalg.pinv(X) @ y, atol=1e-12)


@pytest.mark.parametrize("equal", [True, False])
def test_wide_linear_programs_are_narrowed_without_loss(equal):
    # Both routes end in HiGHS; one sees all 3000 columns, the other those that the dual method leaves.
    X, y = _labelled(n=25, d=3000, seed=3)
    if equal:
        y = X[:, :4] @ np.array([1.0, -2.0, 0.5, 1.0]) + 0.1 * y
    solve = theory.min_l1 if equal else theory.max_l1_margin
    ours = solve(X, y)
    whole = programs._linear_program(X if equal else y[:, None] * X, y if equal else np.ones(25), equal)
    np.testing.assert_allclose(np.abs(ours).sum(), np.abs(whole).sum(), rtol=1e-8)
    if equal:
        np.testing.assert_allclose(X @ ours, y, atol=1e-8)
    else:
        assert np.min(y * (X @ ours)) >= 1 - 1e-8


@pytest.mark.parametrize("strength", [1e-5, 1e-2, 1.0])
def test_lasso_satisfies_its_optimality_conditions(strength):
    X, y = _problem()
    a = theory.lasso(X, y, strength)
    slope = X.T @ (y - X @ a)
    assert np.max(np.abs(slope)) <= strength * (1 + 1e-6)
    on = np.abs(a) > 1e-8
    assert on.any()
    np.testing.assert_allclose(slope[on], strength * np.sign(a[on]), rtol=1e-5)


def test_a_penalty_too_strong_leaves_nothing():
    X, y = _problem()
    np.testing.assert_allclose(theory.lasso(X, y, 1.01 * np.max(np.abs(X.T @ y))), 0, atol=1e-6)


@pytest.mark.parametrize("shape", [(8, 20), (20, 8)])
def test_ridge_is_least_squares_with_more_rows(shape):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal(shape), rng.standard_normal(shape[0])
    more = np.concatenate([X, np.sqrt(0.3) * np.eye(shape[1])])
    best = np.linalg.lstsq(more, np.concatenate([y, np.zeros(shape[1])]), rcond=None)[0]
    np.testing.assert_allclose(theory.ridge(X, y, 0.3), best, atol=1e-12)


@given(st.integers(0, 1000), st.sampled_from([1 / 2, 2 / 3]))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_min_lp_ends_at_a_stationary_point_below_its_start(seed, p):
    X, y = _problem(n=5, d=12, seed=seed)
    start = theory.min_l2(X, y)
    beta = theory.min_lp(X, y, p, start)
    np.testing.assert_allclose(X @ beta, y, atol=1e-7)
    assert np.sum(np.abs(beta) ** p) < np.sum(np.abs(start) ** p)
    # A concave sum on a polytope is least at corners, which have at most n entries; there all are stationary.
    assert np.count_nonzero(beta) <= 5
    assert theory.lp_residual(X, beta, p) < 1e-6
    assert theory.lp_residual(X, start, p) > 1e-2
    with pytest.raises(SpecError, match=r"between 0 and 1, got 1\.5"):
        theory.min_lp(X, y, 1.5, start)


# Classification


def test_margins_agree_with_cvxpy():
    X, y = _labelled()
    for solve, norm in ((theory.max_l2_margin, cp.norm2), (theory.max_l1_margin, cp.norm1)):
        w = cp.Variable(40)
        value = cp.Problem(cp.Minimize(norm(w)), [cp.multiply(y, X @ w) >= 1]).solve(solver="CLARABEL")
        ours = solve(X, y)
        assert np.min(y * (X @ ours)) >= 1 - 1e-9
        np.testing.assert_allclose(float(norm(ours).value), value, rtol=1e-6)


def test_the_max_margin_has_multipliers_on_the_margin_only():
    X, y = _labelled()
    Z = y[:, None] * X
    nu = theory.max_margin(Z @ Z.T)
    margins = Z @ (Z.T @ nu)
    assert np.all(nu >= 0)
    np.testing.assert_allclose(nu * (margins - 1), 0, atol=1e-9)
    np.testing.assert_allclose(np.sum(nu), np.sum((Z.T @ nu) ** 2), rtol=1e-9)  # strong duality


def test_data_without_a_separating_direction_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3)), np.sign(rng.standard_normal(60))
    for solve in (theory.max_l2_margin, theory.max_l1_margin):
        with pytest.raises(theory.NotSeparableError):
            solve(X, y)


# Matrices


def test_nuclear_penalised_agrees_with_singular_value_thresholding():
    # Two solvers with nothing in common: an interior-point method, and our proximal descent run to its end.
    task = af.tasks.MatrixCompletion(8, 7, 2, observed=35, reduction="half_sum")
    strength = 0.3
    experiment = af.Experiment(
        task=task,
        model=af.models.Linear(),
        penalty=af.penalties.Nuclear(strength),
        dynamics=af.dynamics.ProximalGradient(lr=0.5, steps=20_000),
        init=af.inits.Gaussian(1.0),
        observations=5,
    )
    data = experiment.draw()
    run = af.run_experiment(experiment)
    X, y = theory.single_entries(data.inputs.mask), data.truth[data.inputs.mask > 0]
    by_cone = theory.nuclear_penalised(X, y, strength)
    np.testing.assert_allclose(run.params["weights"], by_cone, atol=1e-4 * np.abs(by_cone).max())


def test_min_nuclear_is_the_limit_of_weak_penalties():
    data = af.tasks.MatrixCompletion(7, 7, 1, observed=30).draw(np.random.default_rng(0))
    X, y = theory.single_entries(data.inputs.mask), data.truth[data.inputs.mask > 0]
    limit = theory.min_nuclear(X, y)
    np.testing.assert_allclose(data.inputs.mask * limit, data.targets, atol=1e-5)
    gaps = [np.linalg.norm(theory.nuclear_penalised(X, y, strength) - limit) for strength in (0.5, 0.05, 0.005)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] <= 0.02 * np.linalg.norm(data.truth)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("strength", [None, 0.2])
def test_splitting_agrees_with_cones(monkeypatch, symmetric, strength):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((8, 2)) @ rng.standard_normal((2, 8))
    M = M + M.T if symmetric else M
    X = rng.standard_normal((30, 8, 8))
    y = np.tensordot(X, M)

    def solve():
        if strength is None:
            return theory.min_nuclear(X, y, symmetric=symmetric)
        return theory.nuclear_penalised(X, y, strength, symmetric=symmetric)

    by_cones = solve()
    monkeypatch.setattr(programs, "_FACES", 0)
    by_splitting = solve()
    # Clarabel stops at 1e-8 of the objective, which leaves about its square root on the argument.
    np.testing.assert_allclose(by_splitting, by_cones, atol=2e-4 * np.abs(M).max())
    np.testing.assert_allclose(np.linalg.norm(by_splitting, "nuc"), np.linalg.norm(by_cones, "nuc"), rtol=1e-5)
    if symmetric:
        np.testing.assert_allclose(by_splitting, by_splitting.T, atol=1e-9)
