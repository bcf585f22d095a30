"""Every limit by two independent routes."""

import cvxpy as cp
import numpy as np

import afterfit as af
from afterfit import theory


def _problem(n=8, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X, beta = rng.standard_normal((n, d)), np.zeros(d)
    beta[:3] = rng.standard_normal(3)
    return X, X @ beta + 0.1 * rng.standard_normal(n)


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
