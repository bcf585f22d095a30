"""Label noise: steps whose random numbers are drawn in blocks, a seed of its own, and the flow that it becomes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import flat
from jax.flatten_util import ravel_pytree
from small_problems import X, Y, posed, task

import afterfit as af
from afterfit import SpecError
from afterfit._sweeps.plan import plan
from afterfit._sweeps.processes import run_many
from afterfit.dynamics import LabelNoiseFlow, LabelNoiseSGD
from afterfit.dynamics._riemannian import _Manifold, pull_back
from afterfit.dynamics._stochastic import _TOGETHER
from afterfit.inits import Constant, Gaussian
from afterfit.models import MLP, DiagonalNet
from afterfit.penalties import L2

NET = {"task": task(), "model": DiagonalNet(), "init": Constant(0.6)}


def test_steps_are_those_of_the_formula_with_examples_and_noise_of_their_block():
    lr, noise, steps = 0.01, 0.3, 2 * _TOGETHER + 17
    run = af.train(**NET, dynamics=LabelNoiseSGD(lr, steps, noise, seed=5), observations=40)
    u, v = np.full(7, 0.6), np.full(7, 0.6)
    with jax.enable_x64(True):
        drawn = []
        for block in range(3):
            which, how_much = jax.random.split(jax.random.fold_in(jax.random.key(5), block))
            examples = np.asarray(jax.random.randint(which, (_TOGETHER,), 0, 4))
            drawn += zip(examples, noise * np.asarray(jax.random.normal(how_much, (_TOGETHER,))), strict=True)
    weights = [u**2 - v**2]
    for i, xi in drawn[:steps]:
        pull = 4 * lr * (X[i] @ (u**2 - v**2) - Y[i] + xi) * X[i]
        u, v = u - pull * u, v + pull * v
        weights.append(u**2 - v**2)
    # However the steps were grouped on the way to the observations.
    np.testing.assert_allclose(run.curves.weights.values, np.stack(weights)[run.curves.step.values], atol=1e-12)


def test_a_seed_of_its_own_changes_the_noise_and_not_the_data():
    spec = {"task": af.tasks.SparseRegression(5, 7, 1), "model": DiagonalNet(), "init": Constant(0.6), "seed": 3}
    own, same, other, run_s = (
        af.train(**spec, dynamics=LabelNoiseSGD(0.01, 300, seed=seed), observations=3) for seed in (8, 8, 9, None)
    )
    np.testing.assert_array_equal(own.data.inputs, other.data.inputs)
    np.testing.assert_array_equal(own.params["plus"], same.params["plus"])
    assert np.any(own.params["plus"] != other.params["plus"])
    assert np.any(own.params["plus"] != run_s.params["plus"])
    decided = af.train(**spec, dynamics=LabelNoiseSGD(0.01, 300, seed=3), observations=3)
    np.testing.assert_array_equal(run_s.params["plus"], decided.params["plus"])
    with pytest.raises(SpecError, match=r"dynamics\.seed must be a whole number"):
        LabelNoiseSGD(0.01, 300, seed=-1)


def test_runs_that_differ_in_the_seed_of_their_noise_are_one_program_on_the_same_data():
    experiment = af.Experiment(**NET, dynamics=LabelNoiseSGD(0.01, 300))
    jobs = plan([experiment.set({"dynamics.seed": k}) for k in range(20)], memory=1e9, workers=1)
    assert [(len(job.experiments), job.shared) for job in jobs] == [(20, True)]


def test_a_subclass_with_a_step_of_its_own_makes_that_step():
    class Shrinking(LabelNoiseSGD):
        def step(self, problem, params, memory, key):
            return jax.tree.map(lambda p: (1 - self.lr) * p, params), memory

    run = af.train(**NET, dynamics=Shrinking(0.01, 50), observations=3)
    np.testing.assert_allclose(run.params["plus"], 0.6 * 0.99**50, rtol=1e-12)


@pytest.mark.parametrize("model", [DiagonalNet(), DiagonalNet(3), MLP((5,), "hidden", activation="tanh")])
def test_the_flow_goes_down_the_trace_of_the_hessian_by_differences(model):
    with jax.enable_x64(True):
        problem, params = posed(model, Gaussian(0.8))
        for _ in range(20):
            params = pull_back(problem, params)
        dynamics = LabelNoiseFlow(1.0, noise=0.7)
        θ, tree = ravel_pytree(params)
        field = flat(_Manifold().field(dynamics._sliding(problem), jnp.zeros(()), params))

        def loss(θ):  # the mean of squares, whatever the task's own factor
            return jnp.mean((problem.model.outputs(tree(θ), problem.data.inputs) - problem.data.targets) ** 2)

        assert float(loss(θ)) < 1e-20
        trace = jax.jit(lambda θ: jnp.trace(jax.hessian(loss)(θ)))
        step = 1e-5
        units = np.eye(len(θ))
        slope = np.array([float(trace(θ + step * e) - trace(θ - step * e)) / (2 * step) for e in units])
        J = np.asarray(jax.jacobian(lambda θ: problem.model.outputs(tree(θ), problem.data.inputs))(θ))
    along = np.eye(J.shape[1]) - np.linalg.pinv(J) @ J
    expected = -0.5 * 0.7**2 * along @ slope
    np.testing.assert_allclose(field, expected, atol=1e-6 * np.linalg.norm(expected))


def test_steps_of_label_noise_become_the_flow_in_slow_time_at_first_order():
    flow = af.train(**NET, dynamics=LabelNoiseFlow(0.1, first=0.05), observations=2)
    assert flow.status == "finished"
    assert flow.plot().axes[-1].get_xlabel() == "slow time τ = η² · steps"
    steps, away = (4e-3, 2e-3, 1e-3), []
    for lr in steps:
        dynamics = LabelNoiseSGD(lr, round(0.1 / lr**2))
        experiment = af.Experiment(**NET, dynamics=dynamics, observations=2)
        runs = run_many({str(seed): experiment.set({"dynamics.seed": seed}) for seed in range(48)})
        mean = np.mean([_weights(run.params) for run in runs.values()], axis=0)
        away.append(np.linalg.norm(mean - flow.curves.weights.values[-1]))
    # Means over 48 seeds have a standard error of a tenth of the distance at the largest η, a fifth at the smallest.
    slope = np.polyfit(np.log(steps), np.log(away), 1)[0]
    assert 0.75 < slope < 1.25, away
    fitted = af.train(**NET, dynamics=af.dynamics.GradientFlow(200.0), observations=2)
    moved = np.linalg.norm(flow.curves.weights.values[-1] - fitted.curves.weights.values[-1])
    assert away[-1] < 0.1 * moved  # it has come far from where it was fitted


def _weights(params):
    return params["plus"] ** 2 - params["minus"] ** 2


def test_the_flow_refuses_what_it_is_no_limit_of():
    with pytest.raises(SpecError, match=r"the limit without a penalty.*leave out L2"):
        af.train(**NET, penalty=L2(0.1), dynamics=LabelNoiseFlow(1.0))
    with pytest.raises(SpecError, match="LabelNoiseFlow adds noise to real labels"):
        af.train(**NET | {"task": task("logistic")}, dynamics=LabelNoiseFlow(1.0))
    with pytest.raises(SpecError, match="noise is a standard deviation"):
        LabelNoiseFlow(1.0, noise=-1.0)
