"""The limit of weak penalties: closed forms, convergence at first order, and where it ends."""

from __future__ import annotations

import jax
import numpy as np
from conftest import as_jax, flat, random_like
from small_problems import X, Y, posed, task

import afterfit as af
from afterfit.dynamics import GradientFlow, RiemannianFlow
from afterfit.dynamics._riemannian import constraints
from afterfit.inits import Constant, Gaussian
from afterfit.models import (
    DiagonalNet,
    Linear,
)
from afterfit.penalties import L2
from afterfit.tasks import Arrays

# The limit of weak penalties.


def test_riemannian_flow_of_linear_regression_is_its_closed_form(tmp_path):
    # w(τ) = X⁺y + e^{−τ}(I − X⁺X)w₀: (23)–(24) as λ → 0 in slow time.
    run = af.train(
        task=task(),
        model=Linear(),
        init=Gaussian(1.0),
        penalty=L2(0.5),
        dynamics=RiemannianFlow(5.0, first=1e-3),
        observations=20,
    )
    w0, tau = run.curves.weights.values[0], run.curves.time.values[1:, None]
    pseudo = np.linalg.pinv(X)
    exact = pseudo @ Y + np.exp(-tau) * (w0 - pseudo @ X @ w0)
    np.testing.assert_allclose(run.curves.weights.values[1:], exact, atol=1e-6)
    assert run.status == "finished"
    for told in (run, af.load(run.save(tmp_path / "run"))):  # its time is another than that of other runs
        assert told.plot().axes[-1].get_xlabel() == "slow time τ = penalty strength · t"


def test_weak_penalties_converge_to_the_riemannian_flow_at_first_order():
    spec = {"task": task(), "model": DiagonalNet(), "init": Gaussian(0.6)}
    limit = af.train(**spec, penalty=L2(1.0), dynamics=RiemannianFlow(1.0, first=0.1), observations=6)
    errors = []
    for decay in (1e-2, 1e-3, 1e-4):
        flow = GradientFlow(1 / decay, first=0.1 / decay, rtol=1e-7)
        run = af.train(**spec, penalty=L2(decay), dynamics=flow, observations=6)
        errors.append(np.max(np.linalg.norm(run.curves.weights.values[1:] - limit.curves.weights.values[1:], axis=1)))
    # The parameters lag behind the manifold by O(λ) (Boursier et al. 2025, Prop. 2 says only that it vanishes).
    slope = np.polyfit(np.log([1e-2, 1e-3, 1e-4]), np.log(errors), 1)[0]
    assert 0.85 < slope < 1.15, errors
    # The data stay fitted on the way.
    assert np.all(limit.curves.train_error.values[1:] < 1e-9)


def test_duplicate_examples_do_not_change_the_riemannian_flow():
    single = {"model": DiagonalNet(), "init": Gaussian(0.6), "penalty": L2(1.0), "dynamics": RiemannianFlow(1.0)}
    once = af.train(task=task(), **single, observations=4)
    twice = af.train(task=task(X=np.vstack([X, X[:2]]), Y=np.append(Y, Y[:2])), **single, observations=4)
    # The fast phase differs: an example that counts twice pulls twice as hard. So start both on the manifold instead.
    with jax.enable_x64(True):
        problem, _ = posed(DiagonalNet(), penalty=L2(1.0))
        doubled, _ = posed(DiagonalNet(), penalty=L2(1.0), task=task(X=np.vstack([X, X[:2]]), Y=np.append(Y, Y[:2])))
        params = as_jax(once.params)
        one, two = constraints(problem, params), constraints(doubled, params)
        direction = as_jax(random_like(params, np.random.default_rng(0)))
        np.testing.assert_allclose(flat(one.project(direction)), flat(two.project(direction)), atol=1e-9)
        assert int(one.rank) == int(two.rank) == 4
        # A projection: applying it again changes nothing, and the outputs do not move.
        projected = one.project(direction)
        np.testing.assert_allclose(flat(one.project(projected)), flat(projected), atol=1e-10)
        np.testing.assert_allclose(one.at.push_forward(projected), 0, atol=1e-10)
    assert twice.status == "finished"
    assert np.all(twice.curves.train_error.values[1:] < 1e-9)


def test_rank_loss_is_reported_as_a_singular_point():
    # Two examples whose least-L1 solution has one weight: at its end the two constraints have one gradient.
    X2, Y2 = np.array([[1.0, 0.0, 0.8], [0.0, 1.0, 0.8]]), np.array([0.8, 0.8])
    run = af.train(
        task=Arrays(X2, Y2, X2, Y2, reduction="half_sum"),
        model=DiagonalNet(),
        init=Constant(1.0),
        penalty=L2(1.0),
        dynamics=RiemannianFlow(100.0, first=1e-2),
        observations=60,
    )
    assert run.status == "singular"
    assert "of 2 independent examples 1 are left" in run.message
    assert run.curves.train_error.values[-1] < 1e-6
    np.testing.assert_allclose(run.curves.weights.values[-1], [0, 0, 1], atol=1e-4)


def test_data_that_cannot_be_fitted_end_the_fast_phase_with_a_clear_message():
    tall = np.random.default_rng(0).standard_normal((9, 3))
    run = af.train(
        task=task(X=tall, Y=np.arange(9.0)),
        model=Linear(),
        init=Gaussian(1.0),
        penalty=L2(1.0),
        dynamics=RiemannianFlow(1.0),
        observations=4,
    )
    assert run.status == "step limit"
    assert "the data are not fitted" in run.message
    assert "a model that can fit the data" in run.message
