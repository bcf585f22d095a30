"""Flows against each other, SciPy's integrator, closed forms, small-step descent and convex solvers."""

from __future__ import annotations

import functools
import itertools
import pickle
import re

import cloudpickle
import cvxpy as cp
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import flat
from scipy.integrate import solve_ivp
from small_problems import X, Y, posed, reference, task

import afterfit as af
from afterfit._base.errors import SpecError
from afterfit._training.experiment import Experiment
from afterfit.dynamics import GradientDescent, GradientFlow, ProximalGradient, RiemannianFlow
from afterfit.dynamics import _methods as methods
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._methods import FlowState, Method
from afterfit.inits import Constant, Gaussian, He, Identity
from afterfit.models import (
    MLP,
    DiagonalNet,
    DiagonalProduct,
    Linear,
    MatrixFactorisation,
    SymmetricFactorisation,
    Tangent,
)
from afterfit.penalties import L1, L2, ElasticNet, GroupLasso, NoPenalty, Nuclear
from afterfit.tasks import MatrixCompletion, ModularArithmetic, SparseClassification, SparseRecovery

# Every method against SciPy on the gradient of the problem, and so against every other.


def follow(method, problem_spec, until, **settings):
    run = af.train(
        **problem_spec, dynamics=GradientFlow(until, first=1e-3 * until, method=method, **settings), observations=8
    )
    assert run.status == "finished", run.message
    assert run.spec["dynamics"]["method"] == method
    return run


SIGNED = Constant(0.5, shape=(1.0, -0.8, 0.6, 1.2, -1.0, 0.9, 0.7))
DIAGONAL = [
    (DiagonalNet(2), Gaussian(0.6), "squared"),
    (DiagonalNet(3), SIGNED, "squared"),
    (DiagonalNet(4), Constant(0.7), "logistic"),
    (DiagonalNet(2), Constant(0.7), "exponential"),
    (DiagonalProduct(2), Gaussian(0.6), "squared"),
    (DiagonalProduct(3), Gaussian(0.8), "squared"),
    (DiagonalProduct(4), Constant(0.8), "exponential"),
]


@pytest.mark.parametrize(("model", "init", "loss"), DIAGONAL)
def test_dual_flow_is_the_flow(model, init, loss):
    spec = {"task": task(loss), "model": model, "init": init, "penalty": L2(0.03)}
    run = follow("dual", spec, 30.0, rtol=1e-8)
    with jax.enable_x64(True):
        problem, params = posed(model, init, spec["penalty"], spec["task"])
        exact = reference(problem, params, 30.0)
    # Errors of some hundred steps of 10⁻⁸ each, in parameters of size 1.
    np.testing.assert_allclose(flat(run.params), exact, atol=3e-6)


def test_dual_flow_goes_on_when_decay_and_push_are_both_beyond_floating_point():
    # At λt = 2000, e^{−λt} is no float; the weights that fit the data are where they were at λt = 20.
    spec = {"task": task(), "model": DiagonalNet(3), "init": Constant(0.7), "penalty": L2(0.01)}
    early, late = (follow("dual", spec, until).params for until in (2e3, 2e5))
    fitting = np.abs(early["plus"] ** 3 - early["minus"] ** 3) > 0.1
    assert np.any(fitting)
    weights = [side["plus"] ** 3 - side["minus"] ** 3 for side in (early, late)]
    np.testing.assert_allclose(weights[1][fitting], weights[0][fitting], rtol=1e-3)


def test_dual_flow_of_many_data_and_without_a_penalty(monkeypatch):
    # The other integrator of the dual variables, which problems get whose kernel is dear.
    monkeypatch.setattr("afterfit.dynamics._methods.dual._CHEAP_KERNEL", 0)
    with jax.enable_x64(True):
        problem, params = posed(DiagonalNet(3), SIGNED)
        flow, why = GradientFlow(30.0, rtol=1e-7).resolve(problem, params)
        state = jax.jit(lambda p: flow.start(problem, p, jax.random.key(0)))(params)
        state = eqx.filter_jit(lambda s: flow.advance(problem, s, jnp.asarray(30.0), jnp.asarray(10**6)))(state)
        exact = reference(problem, params, 30.0)
    assert "Runge–Kutta–Chebyshev" in why
    assert int(state.memory.linear_solves) == 0
    np.testing.assert_allclose(flat(state.params), exact, atol=3e-5)


@pytest.mark.parametrize(("depth", "alpha"), [(2, 1e3), (2, 1e4), (3, 1e3)])
def test_the_kernel_regime_of_a_large_start_is_right_at_the_default_tolerance(depth, alpha):
    # Outputs are differences of numbers α^D times as large. At rtol = 10⁻⁵ they were off by up to 100 times here.
    spec = {"task": task("exponential"), "model": DiagonalNet(depth), "init": Constant(alpha), "penalty": NoPenalty()}
    run = follow("dual", spec, 10.0)
    labels, n = spec["task"].y, len(X)
    speed = 10.0 * 2 * depth**2 * alpha ** (2 * depth - 2)  # f' = −Kr with the kernel K of the start, in time t/10
    kernel_flow = solve_ivp(
        lambda t, f: speed * X @ X.T @ (labels * np.exp(-labels * f)) / n,
        (0, 1),
        np.zeros(n),
        method="Radau",
        rtol=1e-8,
        first_step=1e-2 / speed,
    )
    plus, minus = run.params["plus"], run.params["minus"]
    weights = (plus - minus) * sum(plus ** (depth - 1 - k) * minus**k for k in range(depth))
    # Nothing damps errors of outputs under an exponential loss: those of some ten steps add up.
    np.testing.assert_allclose(X @ weights, kernel_flow.y[:, -1], rtol=3e-3)


@pytest.mark.parametrize(("depth", "alpha"), [(2, 1e4), (3, 1e3)])
def test_weight_decay_does_not_take_outputs_of_a_large_start_off_the_data(depth, alpha):
    # At half the time at which it ends the kernel regime. At rtol = 10⁻⁵ the weights are 1 % of what they should be.
    spec = {"task": task(), "model": DiagonalNet(depth), "init": Constant(alpha), "penalty": L2(1 / alpha)}
    run = follow("dual", spec, 0.5 * alpha * np.log(alpha))
    np.testing.assert_allclose(X @ run.curves.weights.values[-1], Y, atol=1e-4)


def test_a_start_too_large_for_floating_point_is_refused_before_any_step():
    spec = {"task": task(), "model": DiagonalNet(3), "init": Constant(1e5), "penalty": NoPenalty()}
    with pytest.raises(SpecError, match=r"parameters of about 1e\+05.*3e\+16 times.*float64.*begin with smaller"):
        af.train(**spec, dynamics=GradientFlow(1.0))


SMOOTH = {
    "net": {"task": task(), "model": MLP((4,)), "init": Gaussian(0.7), "penalty": L2(0.01)},
    "matrix": {
        "task": MatrixCompletion(6, 6, 1, observed=0.5),
        "model": MatrixFactorisation(4),
        "init": Gaussian(0.7),
        "penalty": L2(0.01),
    },
    "table": {
        "task": MatrixCompletion(6, 6, 1, observed=0.4, truth="multiplication_table", reduction="mean"),
        "model": SymmetricFactorisation(),
        "init": Identity(1.0),
        "penalty": L2(0.01),
    },
    "labels": {"task": task("logistic"), "model": DiagonalNet(), "init": Gaussian(0.6), "penalty": L2(0.01)},
}


@functools.cache
def smooth_reference(name):
    spec = SMOOTH[name]
    with jax.enable_x64(True):
        return reference(*posed(spec["model"], spec["init"], spec["penalty"], spec["task"]), 60.0)


@pytest.mark.parametrize("method", ["explicit", "implicit", "krylov", "stabilised"])
@pytest.mark.parametrize("name", ["matrix", "table", "labels"])
def test_methods_follow_the_same_flow_and_obey_their_tolerance(name, method):
    spec = SMOOTH[name]
    exact = smooth_reference(name)
    size = np.linalg.norm(exact)
    default = Method.named(method).default_rtol
    errors, steps = [], []
    for rtol in (10 * default, default, 0.1 * default):  # a decade each way
        run = follow(method, spec, 60.0, rtol=rtol, atol=1e-12)
        errors.append(np.linalg.norm(flat(run.params) - exact) / size)
        steps.append(run.work["steps_accepted"])
        # Local errors add up over the steps made, but the flow forgets most of them.
        assert errors[-1] <= 30 * rtol, (errors, rtol)
    assert steps[0] <= steps[1] <= steps[2]


def test_a_flow_without_a_matrix_takes_the_steps_of_the_one_with_it():
    # Two computations of the same Newton iterations: as many of them, and the same end but for what either leaves.
    spec = SMOOTH["matrix"] | {"penalty": L2(1e-4)}
    dense, free = (follow(method, spec, 2e5, rtol=1e-4) for method in ("implicit", "krylov"))
    assert free.work["linear_solves"] == pytest.approx(dense.work["linear_solves"], rel=0.02)
    assert free.work["right_hand_sides"] > 5 * dense.work["right_hand_sides"]  # products are counted
    # 0.003 of what a step is allowed is left by a solve.
    np.testing.assert_allclose(flat(free.params), flat(dense.params), atol=1e-5 * np.linalg.norm(flat(dense.params)))


@pytest.mark.parametrize("hidden", [(16,), (64,), (32, 32), (16, 16, 16)])
def test_auto_keeps_off_steps_that_kinks_make_short_for_relu_nets_of_any_shape_as_for_those_written_by_a_user(hidden):
    def relu(params, x):
        for layer in params[:-1]:
            x = jax.nn.relu(layer @ x)
        return (params[-1] @ x)[0]

    rng = np.random.default_rng(0)
    sizes = (7, *hidden, 1)
    start = [rng.standard_normal((b, a)) / a**0.5 for a, b in itertools.pairwise(sizes)]
    for model, init in ((MLP(hidden), He()), (af.models.Function(relu, start), af.inits.Own())):
        with jax.enable_x64(True):
            problem, params = posed(model, init, L2(1e-3))
            for until in (10.0, 1e6):  # mild or not
                assert GradientFlow(until).resolve(problem, params)[0].method == "stabilised"


def test_auto_follows_a_users_classes():
    # Tasks are posed without their arrays, and this one counts its classes in them.
    labels = np.arange(4) % 3
    spec = SMOOTH["net"] | {"task": af.tasks.Arrays(X, labels, X, labels, loss_name="cross_entropy")}
    assert af.train(**spec, dynamics=GradientFlow(1.0), observations=4).status == "finished"


def test_relu_nets_are_followed_within_the_norm_wise_tolerance():
    # Kinks: no order to expect, but the tolerance has to hold, and halving it must not change the result by more.
    tolerances = {"explicit": 1e-6, "stabilised": 1e-4, "implicit": 1e-4}
    ends = [flat(follow(method, SMOOTH["net"], 30.0, rtol=rtol).params) for method, rtol in tolerances.items()]
    size = np.linalg.norm(ends[0])
    assert all(np.linalg.norm(end - ends[0]) <= 1e-2 * size for end in ends[1:])


@pytest.mark.parametrize(
    ("method", "spec"), [("implicit", SMOOTH["matrix"]), ("dual", SMOOTH["labels"] | {"task": task()})]
)
def test_steps_grow_to_the_slow_time_scale(method, spec):
    steps = {}
    for decay in (1e-3, 1e-6):
        run = follow(method, spec | {"penalty": L2(decay)}, 20 / decay)
        steps[decay] = sum(run.work[name] for name in ("steps_accepted", "steps_rejected"))
    # A thousand times the time and the stiffness for hardly more steps.
    assert steps[1e-6] < 1.5 * steps[1e-3], steps


def test_work_counts_every_gradient():
    seen = []

    class Counted(L2):
        def subgradient(self, params):
            jax.debug.callback(lambda: seen.append(1))
            return super().subgradient(params)

    spec = SMOOTH["matrix"]
    with jax.enable_x64(True):
        problem, params = posed(spec["model"], spec["init"], Counted(0.01), spec["task"])
        for method in ("explicit", "implicit", "krylov", "stabilised"):
            flow, _ = GradientFlow(20.0, method=method, rtol=1e-3).resolve(problem, params)
            state = jax.jit(lambda p, flow=flow: flow.start(problem, p, jax.random.key(0)))(params)
            jax.effects_barrier()
            seen.clear()
            before = int(state.memory.right_hand_sides)
            advance = eqx.filter_jit(lambda s, flow=flow: flow.advance(problem, s, jnp.asarray(20.0), jnp.asarray(99)))
            state = advance(state)
            jax.effects_barrier()
            work = flow.work(state)
            counted = int(work["right_hand_sides"]) - before
            if method == "explicit":  # its first evaluation was booked at the start and is made in the first step
                assert len(seen) == counted + 1
            elif method == "implicit":
                assert len(seen) == counted
            elif method == "krylov":  # a gradient a Newton iteration; the others are products with the matrix
                assert len(seen) == int(work["linear_solves"]) < counted
            else:  # products with the Hessian are work, too, at most one or two a step here
                assert 0 <= counted - len(seen) <= 2 * int(state.step)
            assert int(work["steps_accepted"] + work["steps_rejected"]) == int(state.step)


# Conserved quantities.


@pytest.mark.parametrize("method", ["explicit", "implicit", "stabilised", "dual"])
def test_conserved_quantities_along_the_path(method):
    # (u² − v²)·e^{2λt} of u ⊙ v; only the dual flow has it built in.
    decay = 0.02
    spec = {"task": task(), "model": DiagonalProduct(2), "init": Gaussian(0.6), "penalty": L2(decay)}
    with jax.enable_x64(True):
        _, params = posed(spec["model"], spec["init"], spec["penalty"])
    u0, v0 = (np.asarray(factor) for factor in params["factors"])
    for until in (1.0, 30.0):
        run = follow(method, spec, until, rtol=1e-6)
        u, v = run.params["factors"]
        exact = (u0**2 - v0**2) * np.exp(-2 * decay * until)
        # Nothing damps an error in what is conserved: some hundred steps of 10⁻⁶ each add up.
        np.testing.assert_allclose(u**2 - v**2, exact, atol=1e-12 if method == "dual" else 1e-4)


def test_products_of_several_factors_keep_what_is_conserved_and_may_change_sign():
    # The dual flow of three factors is not exact by construction: A_k² − A_j² tells.
    spec = {"task": task(), "model": DiagonalProduct(3), "init": Gaussian(0.8), "penalty": L2(1e-3)}
    with jax.enable_x64(True):
        _, params = posed(spec["model"], spec["init"])
    start, end = (np.stack(p["factors"]) for p in (params, follow("dual", spec, 2e3).params))
    exact = np.diff(start**2, axis=0) * np.exp(-2 * 1e-3 * 2e3)
    np.testing.assert_allclose(np.diff(end**2, axis=0), exact, atol=1e-6)
    assert np.any(np.sign(start) != np.sign(end))


# Closed forms.


@pytest.mark.parametrize("decay", [0.0, 0.05])
def test_exact_is_the_closed_form_of_linear_regression(decay):
    run = follow(
        "exact",
        {"task": task(), "model": Linear(), "init": Gaussian(1.0), "penalty": L2(decay) if decay else NoPenalty()},
        200.0,
    )
    # Boursier et al. (23)–(24) in the singular basis, for ½‖Xw − y‖² as their rate σ² + λ has it.
    _, values, Vt = np.linalg.svd(X)
    sigma2 = np.append(values**2, np.zeros(3))
    w0 = run.curves.weights.values[0]
    z0, star = Vt @ w0, Vt @ np.linalg.pinv(X) @ Y
    end = sigma2 / np.maximum(sigma2 + decay, 1e-300) * star
    t = run.curves.time.values[:, None]
    exact = (end + np.exp(-(sigma2 + decay) * t) * (z0 - end)) @ Vt
    np.testing.assert_allclose(run.curves.weights.values, exact, atol=1e-12)
    assert run.work["right_hand_sides"] == 0


def test_descent_converges_to_the_exact_flow_at_first_order():
    spec = {"task": task(), "model": Linear(), "init": Gaussian(1.0), "penalty": L2(0.05)}
    exact = flat(follow("exact", spec, 4.0).params)
    errors = [
        np.linalg.norm(flat(af.train(**spec, dynamics=GradientDescent(lr, round(4 / lr))).params) - exact)
        for lr in (0.02, 0.01, 0.005)
    ]
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 2, atol=0.1)


@pytest.mark.parametrize(
    ("model", "init", "of"),
    [
        (MLP((6,), biases="hidden"), Gaussian(0.7), task()),
        (SymmetricFactorisation(), Gaussian(0.7), MatrixCompletion(5, 5, 1, observed=0.4)),
    ],
)
def test_kernel_flow_is_the_flow_of_the_linearised_model_and_ends_at_kernel_interpolation(model, init, of):
    spec = {"task": of, "model": Tangent(model), "init": init, "penalty": NoPenalty()}
    assert af.train(**spec, dynamics=GradientFlow(1.0)).method.startswith("exact")
    with jax.enable_x64(True):
        problem, params = posed(Tangent(model), init, task=of)
        exact = reference(problem, params, 5.0)
        bare, _ = posed(model, init, task=of)
        start, tree = jax.flatten_util.ravel_pytree(params)
        J = jax.jit(jax.jacrev(lambda v: tangent.outputs(bare, tree(v))))(start)
        missing = tangent.targets(bare) - tangent.outputs(bare, params)
        interpolating = start + np.linalg.pinv(np.asarray(J)) @ missing
    np.testing.assert_allclose(flat(follow("exact", spec, 5.0).params), exact, atol=1e-8)
    np.testing.assert_allclose(flat(follow("exact", spec, 1e7).params), interpolating, atol=1e-6)


# The path under an L1 penalty.

LASSO = {
    "task": SparseRecovery(n=20, sparsity=2, N=8, scale=1.0),
    "model": Linear(),
    "init": Gaussian(0.5),
    "penalty": L1(0.01),
}


def test_l1_path_is_the_limit_of_subgradient_descent():
    path = follow("path", LASSO, 100.0)
    assert path.work["linear_solves"] > 5  # signs do change on the way
    errors = []
    for lr in (0.1, 0.05, 0.025):
        run = af.train(**LASSO, dynamics=GradientDescent(lr, round(100 / lr)))
        errors.append(np.linalg.norm(run.params["weights"] - path.params["weights"]))
    # Descent chatters around 0 by lr·β a weight and lags by O(lr): first order in lr.
    assert errors[2] < errors[1] < errors[0]
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 2, atol=0.5)


def test_l1_path_ends_at_the_lasso():
    path = af.train(**LASSO, dynamics=GradientFlow("settled"))
    assert path.method.startswith("path")
    data = Experiment.from_dict(path.spec).draw()
    w = cp.Variable(20)
    objective = 0.5 * cp.sum_squares(data.inputs @ w - data.targets) + 0.01 * cp.norm1(w)
    cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12)
    np.testing.assert_allclose(path.params["weights"], w.value, atol=1e-5)
    # Weights at rest are at 0 itself, not near it, and as many as the lasso has.
    assert np.sum(path.params["weights"] == 0) == np.sum(np.abs(w.value) < 1e-6)


def test_l1_path_drifts_on_straight_lines_between_events():
    weak = LASSO | {"penalty": L1(1e-5)}
    run = af.train(**weak, dynamics=GradientFlow(3e4, first=1e4, method="path"), observations=400)
    t, w = run.curves.time.values[1:], run.curves.weights.values[1:]
    slopes = np.diff(w, axis=0) / np.diff(t)[:, None] / 1e-5  # in slow time
    turns = np.linalg.norm(np.diff(slopes, axis=0), axis=1) > 1e-4
    # Straight but for a few corners, each a change of sign: it shows in a few differences, until fast modes have died.
    events = np.sum(np.any(np.diff(np.sign(w), axis=0) != 0, axis=1))
    assert 1 <= np.sum(turns) <= 5 * events < 40
    assert np.all(np.abs(slopes) < 3)


# Any penalty with a proximal map.

COMPLETION = {"task": MatrixCompletion(6, 6, 1, observed=0.5), "model": Linear(), "init": Gaussian(0.5)}
KINKED = {
    "groups": LASSO | {"penalty": GroupLasso(0.01, size=4)},
    "sparse groups": LASSO | {"penalty": L1(0.005) + GroupLasso(0.01, size=4)},
    "nuclear": COMPLETION | {"penalty": Nuclear(0.02)},
    "labels": SMOOTH["labels"] | {"model": Linear(), "penalty": ElasticNet(0.05, 0.8)},
    "diagonal": LASSO | {"model": DiagonalNet(), "penalty": L1(0.01)},
    "factors": SMOOTH["matrix"] | {"penalty": L1(0.01)},
}


@pytest.mark.parametrize("beta", [1e-2, 1e-4, 1e-6])
def test_proximal_flow_is_the_exact_path_at_all_times(beta):
    # Weights come to rest at 0, leave it and change sign on the way, in fast and in slow time.
    spec, until = LASSO | {"penalty": L1(beta)}, 1 / beta
    exact = follow("path", spec, until).curves.weights.values
    assert np.any(np.sign(exact[0]) * np.sign(exact[-1]) < 0)
    assert np.any(exact[-1] == 0)
    for rtol in (1e-4, 1e-5):
        found = follow("proximal", spec, until, rtol=rtol).curves.weights.values
        errors = np.linalg.norm(found - exact, axis=1) / np.linalg.norm(exact, axis=1)
        assert np.max(errors) <= 30 * rtol  # as of the other methods, above
    assert np.array_equal(found[-1] == 0, exact[-1] == 0)


@pytest.mark.parametrize("name", KINKED)
def test_proximal_flow_is_the_limit_of_proximal_descent(name):
    spec = KINKED[name]
    flow = follow("proximal", spec, 60.0, rtol=1e-6)
    steps = (0.004, 0.002)
    ends = [flat(af.train(**spec, dynamics=ProximalGradient(lr, round(60 / lr))).params) for lr in steps]
    coarse, fine = (np.linalg.norm(end - flat(flow.params)) for end in ends)
    # First order in lr, so that the flow is where the two of them point to.
    assert fine <= 0.6 * coarse
    limit = 2 * ends[1] - ends[0]
    assert np.linalg.norm(flat(flow.params) - limit) <= 2e-4 * np.linalg.norm(limit)
    assert np.array_equal(flat(flow.params) == 0, ends[1] == 0)
    loose = follow("proximal", spec, 60.0)
    assert np.linalg.norm(flat(loose.params) - flat(flow.params)) <= 30 * 1e-4 * np.linalg.norm(limit)


def groups_of_four(w):
    return sum(cp.norm(w[k : k + 4]) for k in range(0, 20, 4))


PROGRAMS = {
    "groups": lambda w, X, y: 0.5 * cp.sum_squares(X @ w - y) + 0.01 * groups_of_four(w),
    "sparse groups": lambda w, X, y: 0.5 * cp.sum_squares(X @ w - y) + 0.005 * cp.norm1(w) + 0.01 * groups_of_four(w),
    "nuclear": lambda w, X, y: cp.sum_squares(cp.multiply(X.mask, w - y)) + 0.02 * cp.normNuc(w),
    "labels": lambda w, X, y: (
        cp.sum(cp.logistic(-cp.multiply(y, X @ w))) / len(y) + 0.05 * (0.8 * cp.norm1(w) + 0.1 * cp.sum_squares(w))
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_proximal_flow_ends_at_the_convex_program(name):
    spec = KINKED[name]
    run = af.train(**spec, dynamics=GradientFlow("settled"), observations=40)
    assert run.method.startswith("proximal")
    found, data = run.params["weights"], Experiment(**spec, dynamics=GradientFlow(1.0)).draw()
    w = cp.Variable(found.shape)
    cp.Problem(cp.Minimize(PROGRAMS[name](w, data.inputs, data.targets))).solve(solver=cp.CLARABEL)
    # At rest is to 10⁻⁴ of the norm.
    np.testing.assert_allclose(found, w.value, atol=1e-3 * np.linalg.norm(w.value))


def test_a_proximal_flow_that_has_come_to_rest_stays_there():
    """Its steps are then as long as the run, and what their last iterations leave is multiplied by that."""
    spec = {"task": af.tasks.SparseRegression(d=60, n=30, sparsity=3), "model": Linear(), "init": Gaussian(1.0)}
    flow = GradientFlow(1e4, method="proximal")
    loss = af.train(**spec, penalty=GroupLasso(1e-3, size=5), dynamics=flow, observations=100).curves.train_loss
    at_rest = loss.values[loss.time.values > 3e3]
    assert len(at_rest) >= 5
    # A loss of 10⁻¹² of the first: parameters off by a hundredth of rtol would show.
    np.testing.assert_allclose(at_rest, at_rest[0], rtol=0.05)


@pytest.mark.parametrize("penalty", [L1, GroupLasso], ids=["L1", "groups"])
def test_the_cost_of_a_proximal_flow_does_not_grow_with_the_slow_time_scale(penalty):
    steps = []
    for beta in (1e-2, 1e-4, 1e-6):
        run = follow("proximal", LASSO | {"penalty": penalty(beta)}, 20 / beta)
        steps.append(run.work["steps_accepted"] + run.work["steps_rejected"])
    assert max(steps) <= 3 * min(steps), steps


@pytest.mark.parametrize("name", ["net", "matrix"])
def test_the_rows_of_the_jacobian_are_the_gradients_of_the_outputs(name):
    spec = SMOOTH[name]
    with jax.enable_x64(True):
        problem, params = posed(spec["model"], spec["init"], spec["penalty"], spec["task"])
        start, tree = jax.flatten_util.ravel_pytree(params)
        J = jax.jit(jax.jacfwd(lambda v: tangent.outputs(problem, tree(v)).ravel()))(start)
        rows = jax.jit(lambda p: tangent.rows(problem, p))(params)
        flattened = np.concatenate([np.reshape(leaf, (len(J), -1)) for leaf in jax.tree.leaves(rows)], axis=1)
    np.testing.assert_allclose(flattened, J, atol=1e-12)


# What is chosen, and what is said.


@pytest.mark.parametrize(
    ("spec", "until", "method", "reason"),
    [
        (LASSO, 1e3, "path", "sign"),
        (LASSO | {"penalty": L2(0.01)}, 1e3, "exact", "closed form"),
        (LASSO | {"penalty": L2(0.01) + L2(0.02)}, 1e3, "exact", "closed form"),
        (LASSO | {"penalty": ElasticNet(0.01) + L2(0.02)}, 1e3, "proximal", "Sum has kinks, and a proximal map"),
        (SMOOTH["labels"], 1e3, "dual", "14 parameters.*4 dual variables"),
        (SMOOTH["labels"] | {"model": DiagonalProduct(3)}, 1e6, "dual", "21 parameters.*4 dual variables"),
        (SMOOTH["matrix"], 1.0, "explicit", "mild"),
        (SMOOTH["matrix"], 1e6, "implicit", "few"),
        (SMOOTH["matrix"] | {"penalty": Nuclear(0.01)}, 1e6, "proximal", "Nuclear has kinks"),
        (SMOOTH["matrix"] | {"penalty": Nuclear(0.01, of="weights")}, 1e6, "explicit", "has kinks"),
        (SMOOTH["net"] | {"penalty": GroupLasso(0.01)}, 1e6, "stabilised", "GroupLasso has kinks.*model has kinks"),
        (SMOOTH["net"], 10.0, "stabilised", "the model has kinks, at which the steps of others get short"),
        (
            {"task": ModularArithmetic(p=31, fraction=0.9), "model": MLP((4,)), "init": He(), "penalty": L2(1e-4)},
            1e9,
            "stabilised",
            "26784 numbers",
        ),
    ],
)
def test_the_flow_chooses_its_method_and_says_why(spec, until, method, reason):
    with jax.enable_x64(True):
        problem, params = posed(spec["model"], spec["init"], spec["penalty"], spec["task"])
        flow, why = GradientFlow(until).resolve(problem, params)
    assert flow.method == method
    assert flow.rtol == Method.named(method).default_rtol
    assert re.search(f"{method}: .*{reason}", why), why


@pytest.mark.parametrize(
    ("method", "spec", "message"),
    [
        ("dual", SMOOTH["matrix"], "DiagonalNet and DiagonalProduct.*not MatrixFactorisation.*implicit"),
        ("exact", SMOOTH["matrix"], "linear in their parameters, not MatrixFactorisation"),
        ("path", SMOOTH["matrix"], "models.Linear under penalties.L1"),
        ("implicit", SMOOTH["matrix"] | {"penalty": Nuclear(0.1)}, "Nuclear has kinks"),
        ("krylov", SMOOTH["matrix"] | {"penalty": Nuclear(0.1)}, "Nuclear has kinks"),
        ("dual", SMOOTH["labels"] | {"penalty": L1(0.1)}, "L2.*not L1"),
        ("proximal", SMOOTH["matrix"], "L2 has none.*implicit"),
        ("proximal", SMOOTH["matrix"] | {"penalty": Nuclear(0.1, of="weights")}, "has no proximal map"),
    ],
)
def test_a_method_that_cannot_is_refused_with_those_that_can(method, spec, message):
    with pytest.raises(SpecError, match=f"(?s)method '{method}' cannot follow this flow: .*{message}"):
        af.train(**spec, dynamics=GradientFlow(1.0, method=method))


def test_wrong_settings_are_refused():
    with pytest.raises(SpecError, match=r"unknown method 'implict'.*'implicit'"):
        GradientFlow(1.0, method="implict")
    with pytest.raises(SpecError, match=r"a time, .settled. or .certain., got 'setled'"):
        GradientFlow("setled")
    with pytest.raises(SpecError, match="horizon is for until"):
        GradientFlow(1.0, horizon=2.0)
    with pytest.raises(SpecError, match="squared loss"):
        af.train(**SMOOTH["labels"], dynamics=RiemannianFlow(1.0))
    with pytest.raises(SpecError, match=r"smooth penalty.*not NoPenalty"):
        af.train(**SMOOTH["matrix"] | {"penalty": NoPenalty()}, dynamics=RiemannianFlow(1.0))


@pytest.mark.parametrize("method", ["dual", "explicit", "implicit", "krylov", "stabilised", "path", "proximal"])
def test_every_method_stops_at_its_step_limit_and_keeps_what_it_has(method):
    spec = LASSO if method in ("path", "proximal") else SMOOTH["labels"]
    run = af.train(**spec, dynamics=GradientFlow(1e4, first=1e3, method=method, max_steps=6), observations=4)
    assert run.status == "step limit"
    assert "max_steps (now 6)" in run.message
    assert run.work["steps_accepted"] + run.work["steps_rejected"] == 6
    assert 2 <= len(run.curves.time) < 5
    assert np.all(np.isfinite(run.curves.train_loss.values))
    assert run.curves.time.values[-1] < 1e4


def test_the_method_is_kept_in_the_files_of_a_run(tmp_path):
    run = af.train(**SMOOTH["labels"], dynamics=GradientFlow(10.0), observations=5)
    again = af.load(run.save(tmp_path / "run"))
    assert again.method == run.method
    assert again.method.startswith("dual: ")
    assert again.spec["dynamics"]["method"] == "dual"
    assert again.spec["dynamics"]["rtol"] == Method.named("dual").default_rtol


# A method of one's own.


@pytest.fixture
def resting():
    """One class: the flow of a start at which the gradient is 0, which is followed by standing still."""

    class Resting(Method):
        name = "resting"

        @classmethod
        def obstacle(cls, problem, params):
            moves = np.any(flat(problem.gradient(params)) != 0)
            return "the gradient is not 0 at the start" if moves else None

        @classmethod
        def preferred(cls, flow):
            return f"nothing moves any of {flow.numbers} parameters"

        def start(self, problem, params):
            return FlowState.begin(())

        def advance(self, problem, state, target, last):
            time = target.astype(float)
            return eqx.tree_at(lambda s: (s.memory.time, s.step), state, (time, state.step + 1))

    yield Resting
    Method._known = {name: method for name, method in Method._known.items() if method is not Resting}


def test_a_new_method_is_one_class_which_auto_chooses_and_refusals_name(resting):
    at_rest = SMOOTH["matrix"] | {"init": Constant(0.0)}
    run = af.train(**at_rest, dynamics=GradientFlow(1e6), observations=4)
    assert run.method == f"resting: nothing moves any of {flat(run.params).size} parameters"
    assert np.ptp(run.curves.train_loss.values) == 0
    assert run.curves.time.values[-1] == 1e6
    assert af.train(**SMOOTH["matrix"], dynamics=GradientFlow(1.0), observations=4).method.startswith("explicit: ")
    with pytest.raises(SpecError, match=r"'resting' cannot follow this flow: the gradient is not 0.*one of: explicit"):
        af.train(**SMOOTH["matrix"], dynamics=GradientFlow(1.0, method="resting"))
    with pytest.raises(SpecError, match=r"'exact' cannot follow this flow: .*one of: resting, explicit"):
        af.train(**at_rest, dynamics=GradientFlow(1.0, method="exact"))
    with pytest.raises(SpecError, match="unknown method 'restig': did you mean 'resting'"):
        GradientFlow(1.0, method="restig")


def test_two_methods_of_one_name_are_not_mixed_up(resting):
    class Another(resting):
        name = "exact"

    try:
        with pytest.raises(SpecError, match=r"several methods are called 'exact'.*methods.exact.Exact.*Another"):
            GradientFlow(1.0, method="exact")
    finally:
        Method._known = {name: method for name, method in Method._known.items() if method is not Another}


def test_what_a_method_of_ones_own_computes_is_in_the_names_of_flows_that_it_may_follow(resting):
    auto, explicit = (
        af.Experiment(**SMOOTH["matrix"], dynamics=GradientFlow(1.0, method=method)) for method in ("auto", "explicit")
    )

    def names(*methods):
        Method._known = {name: method for name, method in Method._known.items() if method is not resting}
        for method in methods:
            method.know()
        return auto.id, explicit.id

    alone, followed = names(), names(resting)
    written = auto.to_dict()
    assert Experiment.from_dict(written).id == followed[0]
    resting.preferred = classmethod(lambda cls, flow: "another reason")
    changed = names(resting)
    assert len({alone[0], followed[0], changed[0]}) == 3
    assert alone[1] == followed[1] == changed[1]
    with pytest.raises(SpecError, match="dynamics GradientFlow was written beside other classes"):
        Experiment.from_dict(written)
    # A helper that never met the method has it with the flow.
    packed = cloudpickle.dumps(auto)
    assert names() == alone
    assert pickle.loads(packed).id == changed[0]  # noqa: S301
    assert resting in Method.known()


def test_the_curvature_is_computed_only_when_a_method_asks_for_it(monkeypatch):
    asked = []
    curvature = methods._base._curvature
    monkeypatch.setattr(methods._base, "_curvature", lambda *case: asked.append(1) or curvature(*case))
    for spec, times in ((SMOOTH["labels"], 0), (SMOOTH["matrix"] | {"penalty": NoPenalty()}, 1)):
        with jax.enable_x64(True):
            GradientFlow("settled").resolve(*posed(spec["model"], spec["init"], spec["penalty"], spec["task"]))
        assert len(asked) == times


# Until nothing happens any more.


def test_a_settled_run_ends_where_a_long_one_does_and_not_on_the_plateau():
    spec = {
        "task": SparseClassification(n=40, d=300, sparsity=1),
        "model": DiagonalNet(),
        "init": Constant(1.0),
        "penalty": L2(1e-3),
    }
    run = af.train(**spec, dynamics=GradientFlow("settled"))
    assert "settled at t=" in run.message
    assert run.spec["dynamics"]["horizon"] == pytest.approx(1e6)
    end = run.curves.time.values[-1]
    assert 1e4 <= end < 1e6  # past 10/λ, before the horizon
    long = af.train(**spec, dynamics=GradientFlow(10 * end, first=1.0))
    assert run.verdict.kind == long.verdict.kind == "grokking"
    assert run.verdict.t_gen == pytest.approx(long.verdict.t_gen, rel=0.05)  # observed at other times
    np.testing.assert_allclose(flat(run.params), flat(long.params), atol=1e-2 * np.max(flat(long.params)))


def test_a_run_without_penalty_settles_once_fitted():
    spec = SMOOTH["matrix"] | {"penalty": NoPenalty()}
    run = af.train(**spec, dynamics=GradientFlow("settled"))
    assert "settled" in run.message
    assert run.curves.train_error.values[-1] < 1e-3
    # A saddle is no place to rest: a tiny start stays there for long, and goes on all the same.
    tiny = af.train(**spec | {"init": Gaussian(1e-6)}, dynamics=GradientFlow("settled"))
    assert tiny.curves.train_error.values[-1] < 1e-3


def test_the_weakest_of_several_penalties_decides_when_a_run_may_settle():
    spec = SMOOTH["matrix"] | {"penalty": L2(1e-3) + L2(1e-5)}
    run = af.train(**spec, dynamics=GradientFlow("settled"))
    assert run.spec["dynamics"]["horizon"] == pytest.approx(1e8)
    assert run.curves.time.values[-1] >= 10 / 1e-5
    early = af.train(**spec, dynamics=GradientFlow("settled", horizon=100.0), observations=10)
    assert early.status == "finished"
    assert early.message == "not settled by its horizon, t=100."
