"""Every limit by two independent routes."""

import cvxpy as cp
import numpy as np
import pytest

import afterfit as af
from afterfit import theory


def _problem(n=8, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X, beta = rng.standard_normal((n, d)), np.zeros(d)
    beta[:3] = rng.standard_normal(3)
    return X, X @ beta + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("alpha", [0.2, 1.0])
@pytest.mark.parametrize("uniform", [True, False])
def test_min_q_agrees_with_exponential_cones(alpha, uniform):
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
    np.testing.assert_allclose(theory.min_q(X, y, alpha, shape), by_cones, atol=1e-3 * np.abs(by_cones).max())


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 1.0, 30.0])
def test_min_q_satisfies_its_optimality_conditions(alpha):
    # Xβ = y, and ∇Q(β) = arcsinh(β/2α²) lies in the row space of X (Woodworth et al. 2020, App. D).
    X, y = _problem()
    beta = theory.min_q(X, y, alpha)
    gradient = np.arcsinh(beta / (2 * alpha**2))
    np.testing.assert_allclose(X @ beta, y, atol=1e-6)
    off_row_space = gradient - X.T @ np.linalg.lstsq(X.T, gradient, rcond=None)[0]
    assert np.linalg.norm(off_row_space) <= 1e-8 * np.linalg.norm(gradient)


def test_q_goes_from_l2_to_l1():
    X, y = _problem()
    least_l1, least_l2 = theory.min_l1(X, y), theory.min_l2(X, y)
    # Thm 2: α ≥ √(2(1+ε)(1+2/ε)‖β₂‖) gives ‖β‖₂² ≤ (1+ε)‖β₂‖₂², here with ε = 10⁻³.
    epsilon = 1e-3
    alpha = np.sqrt(2 * (1 + epsilon) * (1 + 2 / epsilon) * np.linalg.norm(least_l2))
    rich, kernel = theory.min_q(X, y, 1e-6), theory.min_q(X, y, alpha)
    assert np.sum(kernel**2) <= (1 + epsilon) * np.sum(least_l2**2)
    excess = [np.abs(theory.min_q(X, y, a)).sum() / np.abs(least_l1).sum() - 1 for a in (1e-1, 1e-3, 1e-6)]
    assert 0 < excess[2] < excess[1] < excess[0]  # the approach to L1 is only logarithmic in α
    assert np.abs(rich).sum() <= 1.05 * np.abs(least_l1).sum()


def test_min_l1_agrees_with_cvxpy():
    X, y = _problem()
    beta = cp.Variable(20)
    value = cp.Problem(cp.Minimize(cp.norm1(beta)), [X @ beta == y]).solve(solver="CLARABEL")
    ours = theory.min_l1(X, y)
    np.testing.assert_allclose(X @ ours, y, atol=1e-8)
    np.testing.assert_allclose(np.abs(ours).sum(), value, rtol=1e-6)


def test_nuclear_penalised_agrees_with_singular_value_thresholding():
    # Two solvers with nothing in common: an interior-point method, and our proximal descent run to its end.
    task = af.tasks.MatrixCompletion(8, 7, 2, observed=35)
    strength = 0.3
    experiment = af.Experiment(
        task=task,
        model=af.models.Linear(),
        penalty=af.penalties.Nuclear(strength),
        dynamics=af.dynamics.ProximalGradient(lr=0.25, steps=20_000),
        init=af.inits.Gaussian(1.0),
    )
    data = experiment.draw()
    run = af.train(
        task=task,
        model=experiment.model,
        penalty=experiment.penalty,
        dynamics=experiment.dynamics,
        init=experiment.init,
        observations=5,
    )
    by_cone = theory.nuclear_penalised(data.inputs.mask, data.truth, strength)
    np.testing.assert_allclose(run.params["weights"], by_cone, atol=1e-4 * np.abs(by_cone).max())


def test_min_nuclear_is_the_limit_of_weak_penalties():
    data = af.tasks.MatrixCompletion(7, 7, 1, observed=30).draw(np.random.default_rng(0))
    limit = theory.min_nuclear(data.inputs.mask, data.truth)
    np.testing.assert_allclose(data.inputs.mask * limit, data.targets, atol=1e-5)
    gaps = [
        np.linalg.norm(theory.nuclear_penalised(data.inputs.mask, data.truth, strength) - limit)
        for strength in (1.0, 0.1, 0.01)
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] <= 0.02 * np.linalg.norm(data.truth)
