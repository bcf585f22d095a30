"""Flows against each other, SciPy's integrator, closed forms, small-step descent and convex solvers."""

from __future__ import annotations

import itertools
import re

import cvxpy as cp
import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import as_jax, flat, random_like
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import afterfit as af
from afterfit import derivatives, tangent
from afterfit.dynamics import GradientDescent, GradientFlow, RiemannianFlow
from afterfit.dynamics.methods import METHODS
from afterfit.dynamics.methods.chebyshev import RungeKuttaChebyshev, chebyshev_step, spectral_radius, stages
from afterfit.dynamics.methods.implicit import GaussNewton
from afterfit.dynamics.methods.newton import SimplifiedNewton
from afterfit.dynamics.riemannian import constraints
from afterfit.experiment import Experiment
from afterfit.inits import Constant, Gaussian, He, Identity
from afterfit.models import (
    MLP,
    DeepMatrixFactorisation,
    DiagonalNet,
    DiagonalProduct,
    Linear,
    MatrixFactorisation,
    SymmetricFactorisation,
    Tangent,
)
from afterfit.penalties import L1, L2, NoPenalty, Nuclear
from afterfit.spec import SpecError
from afterfit.tasks import Arrays, MatrixCompletion, ModularArithmetic, SparseClassification, SparseRecovery
from afterfit.train import prepare

RNG = np.random.default_rng(1)
X = RNG.standard_normal((4, 7))
Y = RNG.standard_normal(4)
LABELS = np.sign(X @ RNG.standard_normal(7))


def task(loss: str = "squared", X=X, Y=Y):
    if loss == "squared":
        return Arrays(X, Y, X, Y, reduction="half_sum")
    return Arrays(X, LABELS, X, LABELS, loss_name=loss)


def posed(model, init=None, penalty=None, task=task(), seed=0):
    """A problem and its initial parameters, as a run would have them."""
    experiment = Experiment(
        task=task,
        model=model,
        dynamics=GradientFlow(1.0),
        penalty=penalty or NoPenalty(),
        init=init or Gaussian(0.5),
        seed=seed,
    )
    return prepare(experiment)


def reference(problem, params, until):
    """The parameters at `until` by SciPy's eighth-order method on the problem's gradient."""
    leaves, structure = jax.tree.flatten(params)
    cuts = np.cumsum([leaf.size for leaf in leaves])[:-1]

    def tree(z):
        pieces = np.split(z, cuts)
        return jax.tree.unflatten(
            structure, [jnp.asarray(p).reshape(q.shape) for p, q in zip(pieces, leaves, strict=True)]
        )

    gradient = jax.jit(lambda z: problem.gradient(z))
    solution = solve_ivp(
        lambda t, z: -flat(gradient(tree(z))), (0, until), flat(params), method="DOP853", rtol=1e-11, atol=1e-13
    )
    return solution.y[:, -1]


# The solvers, as anyone may use them through Diffrax.


def pendulum(t, y, args):
    return jnp.stack([y[1], -jnp.sin(y[0]) + 0.3 * jnp.cos(2 * t)])


def fixed(solver, steps, until=2.0, field=pendulum, y0=(1.0, 0.2)):
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field), solver, 0.0, until, until / steps, jnp.asarray(y0), max_steps=steps + 1
    )
    return np.asarray(solution.ys)[-1]


def exact_pendulum():
    return solve_ivp(
        lambda t, y: [y[1], -np.sin(y[0]) + 0.3 * np.cos(2 * t)],
        (0, 2),
        [1.0, 0.2],
        method="DOP853",
        rtol=1e-13,
        atol=1e-14,
    ).y[:, -1]


class WithMatrix:
    """Newton iterations with any matrix in place of the Jacobian."""

    def __init__(self, field, matrix, gh):
        self.field, self.gh, self.inverse = field, gh, jnp.linalg.inv(jnp.eye(len(matrix)) - gh * matrix)

    def improve(self, t, base, y, extra):
        return self.inverse @ (base + self.gh * self.field(t, y, None) - y), extra


def newton(field, matrix):
    return SimplifiedNewton(
        corrector=lambda t, y, args, gh: WithMatrix(field, matrix, gh),
        extra=lambda t, y, args: (),
        size=lambda args, y, change: jnp.linalg.norm(change) / 1e-9,
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.array([[0.0, 1.0], [-0.7, 0.0]])])
def test_implicit_steps_have_order_3_whatever_matrix_iterates(matrix):
    exact = exact_pendulum()
    errors = [np.linalg.norm(fixed(newton(pendulum, matrix), steps) - exact) for steps in (20, 40, 80)]
    # 2³ = 8 in the limit.
    assert all(6.5 < coarse / fine < 9.5 for coarse, fine in itertools.pairwise(errors)), errors


@pytest.mark.usefixtures("x64")
def test_implicit_steps_follow_a_moving_stiff_equilibrium_in_long_steps():
    # Prothero and Robinson: y' = −10⁶(y − cos t) − sin t, whose solution is cos t; steps of 10⁵ times the fast scale.
    def field(t, y, args):
        return -1e6 * (y - jnp.cos(t)) - jnp.sin(t)

    end = fixed(newton(field, np.array([[-1e6]])), 20, field=field, y0=(1.0,))
    assert abs(end[0] - np.cos(2.0)) < 1e-4


@pytest.mark.usefixtures("x64")
def test_a_step_whose_stages_do_not_converge_fails():
    solver = newton(lambda t, y, args: -1e6 * y, np.zeros((1, 1)))  # the wrong matrix for a stiff field
    terms = diffrax.ODETerm(lambda t, y, args: -1e6 * y)
    y0 = jnp.ones(1)
    state = solver.init(terms, 0.0, 1.0, y0, None)
    _, error, *_ = solver.step(terms, jnp.asarray(0.0), jnp.asarray(1.0), y0, None, state, made_jump=False)
    assert np.all(np.isinf(error))


@pytest.mark.usefixtures("x64")
def test_chebyshev_has_order_2():
    exact = exact_pendulum()
    errors = [np.linalg.norm(fixed(RungeKuttaChebyshev(), steps) - exact) for steps in (40, 80, 160)]
    assert all(3.3 < coarse / fine < 4.7 for coarse, fine in itertools.pairwise(errors)), errors


@pytest.mark.usefixtures("x64")
def test_chebyshev_follows_the_heat_equation_in_steps_far_beyond_explicit_stability():
    n = 60
    A = (np.diag(-2 * np.ones(n)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)) * (n + 1) ** 2
    x = np.arange(1, n + 1) / (n + 1)
    y0 = np.sin(np.pi * x) + 0.5 * np.sin(4 * np.pi * x)
    kappa, Q = np.linalg.eigh(A)
    exact = Q @ (np.exp(0.1 * kappa) * (Q.T @ y0))
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: jnp.asarray(A) @ y),
        RungeKuttaChebyshev(),
        0.0,
        0.1,
        1e-5,
        jnp.asarray(y0),
        stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-5),
    )
    np.testing.assert_allclose(np.asarray(solution.ys)[-1], exact, atol=1e-3)
    # An explicit method is held to 2/|κ|: these steps are longer, by more than ten times on average.
    assert 0.1 / int(solution.stats["num_steps"]) > 10 * 2 / np.max(np.abs(kappa))


@jax.jit
def one_step(lam, s):
    return chebyshev_step(lambda t, y: -lam * y, jnp.ones(()), -lam, jnp.ones(()), s)


@pytest.mark.usefixtures("x64")
@given(z=st.floats(0.0, 5e3), share=st.floats(0.0, 1.0))
def test_chebyshev_is_stable_with_the_stages_it_takes(z, share):
    # y' = −λy for any λ up to z, in one step of 1 with as many stages as z asks for.
    lam = share * z
    y1 = one_step(jnp.asarray(lam), stages(jnp.asarray(z)))
    assert abs(float(y1)) <= 1 + 1e-9
    if lam < 0.5:  # second order: the error of a step is below the next term of the exponential
        assert abs(float(y1) - np.exp(-lam)) <= lam**3 / 6 + 1e-12


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("seed", range(3))
def test_spectral_radius_is_that_of_the_hessian(seed):
    problem, params = posed(MLP((5,)), penalty=L2(0.1), seed=seed)
    start = jax.tree.map(jnp.asarray, params)
    vector, tree = jax.flatten_util.ravel_pytree(start)
    hessian = jax.hessian(lambda v: problem.objective(tree(v)))(vector)
    exact = np.max(np.abs(np.linalg.eigvalsh(hessian)))

    def field(params):
        return jax.tree.map(jnp.negative, problem.gradient(params))

    found, _, _ = spectral_radius(field, start, RungeKuttaChebyshev.any_direction(start), jnp.zeros(()))
    # From below, and by less than the solver's margin of 25 %.
    assert 0.8 * exact <= float(found) <= exact * (1 + 1e-5)


# What the methods are made of.


MODELS = {
    "linear": (Linear(), task()),
    "diagonal": (DiagonalNet(3), task()),
    "product": (DiagonalProduct(3), task()),
    "factors": (MatrixFactorisation(2), MatrixCompletion(4, 5, 2, observed=0.6)),
    "symmetric": (SymmetricFactorisation(), MatrixCompletion(4, 4, 2, observed=0.6)),
    "deep": (DeepMatrixFactorisation(3), MatrixCompletion(4, 5, 2, observed=0.6)),
    "classes": (MLP((6,), biases="hidden"), ModularArithmetic(p=3, fraction=0.6, precision="double")),
    "tangent": (Tangent(SymmetricFactorisation()), MatrixCompletion(4, 4, 2, observed=0.6)),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", MODELS)
def test_tangent_kernel_is_the_square_of_the_jacobian(name):
    model, of = MODELS[name]
    problem, params = posed(model, task=of)
    start, tree = jax.flatten_util.ravel_pytree(params)
    rng = np.random.default_rng(0)
    at = start + 0.1 * rng.standard_normal(start.size)
    J = jax.jacrev(lambda v: tangent.outputs(problem, tree(v)))(at).reshape(-1, start.size)
    np.testing.assert_allclose(tangent.kernel(problem, tree(at)), J @ J.T, atol=1e-12 * np.linalg.norm(J) ** 2)
    linear = tangent.linearise(problem, tree(at))
    direction = rng.standard_normal(start.size)
    np.testing.assert_allclose(linear.push_forward(tree(direction)).ravel(), J @ direction, atol=1e-12)
    np.testing.assert_allclose(flat(linear.pull_back(linear.value)), J.T @ linear.value.ravel(), atol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["diagonal", "factors", "classes"])
def test_gauss_newton_solves_its_linear_equations(name):
    model, of = MODELS[name]
    problem, params = posed(model, task=of, penalty=L2(0.3))
    start, tree = jax.flatten_util.ravel_pytree(params)
    J = jax.jacrev(lambda v: tangent.outputs(problem, tree(v)).ravel())(start)
    out = tangent.outputs(problem, params)
    # The second derivative of the loss by differentiating the whole of it, blocks and all.
    H = jax.hessian(lambda o: problem.task.loss(o.reshape(out.shape), tangent.targets(problem), problem.data.n))(
        out.ravel()
    )
    rng, gh = np.random.default_rng(0), 0.7
    R1, R2 = rng.standard_normal(start.size), rng.standard_normal(out.size)
    found = GaussNewton(problem, params, jnp.asarray(gh)).solve(tree(R1), jnp.asarray(R2).reshape(out.shape))
    # dθ + gh(Jᵀdρ + β·dθ) = R₁ and dρ − H J dθ = R₂, as one dense system.
    p, m = start.size, out.size
    matrix = np.block([[(1 + gh * 0.3) * np.eye(p), gh * J.T], [-H @ J, np.eye(m)]])
    exact = np.linalg.solve(matrix, np.concatenate([R1, R2]))
    np.testing.assert_allclose(np.concatenate([flat(found[0]), np.ravel(found[1])]), exact, atol=1e-10)


def test_linearise_agrees_with_forward_differentiation():
    f = jax.tree_util.Partial(lambda p: jnp.sin(p["a"]) * p["b"])
    at, along = as_jax({"a": X[0], "b": X[1]}), as_jax({"a": X[2], "b": X[3]})
    linear = derivatives.linearise(f, at)
    np.testing.assert_allclose(linear.push_forward(along), jax.jvp(f, (at,), (along,))[1], rtol=1e-6)


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
    monkeypatch.setattr("afterfit.dynamics.methods.dual._CHEAP_KERNEL", 0)
    with jax.enable_x64(True):
        problem, params = posed(DiagonalNet(3), SIGNED)
        flow, why = GradientFlow(30.0, rtol=1e-7).resolve(problem, params)
        state = flow.start(problem, params, jax.random.key(0))
        state = eqx.filter_jit(lambda s: flow.advance(problem, s, jnp.asarray(30.0), jnp.asarray(10**6)))(state)
        exact = reference(problem, params, 30.0)
    assert "Runge–Kutta–Chebyshev" in why
    assert int(state.memory.linear_solves) == 0
    np.testing.assert_allclose(flat(state.params), exact, atol=3e-5)


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


@pytest.mark.parametrize("method", ["explicit", "implicit", "stabilised"])
@pytest.mark.parametrize("name", ["matrix", "table", "labels"])
def test_methods_follow_the_same_flow_and_obey_their_tolerance(name, method):
    spec = SMOOTH[name]
    with jax.enable_x64(True):
        problem, params = posed(spec["model"], spec["init"], spec["penalty"], spec["task"])
        exact = reference(problem, params, 60.0)
    size = np.linalg.norm(exact)
    default = METHODS[method].default_rtol
    errors, steps = [], []
    for rtol in (10 * default, default, 0.1 * default):  # a decade each way
        run = follow(method, spec, 60.0, rtol=rtol, atol=1e-12)
        errors.append(np.linalg.norm(flat(run.params) - exact) / size)
        steps.append(run.work["steps_accepted"])
        # Local errors add up over the steps made, but the flow forgets most of them.
        assert errors[-1] <= 30 * rtol, (errors, rtol)
    assert steps[0] <= steps[1] <= steps[2]


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
        for method in ("explicit", "implicit", "stabilised"):
            flow, _ = GradientFlow(20.0, method=method, rtol=1e-3).resolve(problem, params)
            state = flow.start(problem, params, jax.random.key(0))
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
        J = jax.jacrev(lambda v: tangent.outputs(bare, tree(v)))(start)
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


# What is chosen, and what is said.


@pytest.mark.parametrize(
    ("spec", "until", "method", "reason"),
    [
        (LASSO, 1e3, "path", "sign"),
        (LASSO | {"penalty": L2(0.01)}, 1e3, "exact", "closed form"),
        (SMOOTH["labels"], 1e3, "dual", "14 parameters.*4 dual variables"),
        (SMOOTH["labels"] | {"model": DiagonalProduct(3)}, 1e6, "dual", "21 parameters.*4 dual variables"),
        (SMOOTH["matrix"], 1.0, "explicit", "mild"),
        (SMOOTH["matrix"], 1e6, "implicit", "few"),
        (SMOOTH["matrix"] | {"penalty": Nuclear(0.01)}, 1e6, "explicit", "Nuclear has kinks"),
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
    assert flow.rtol == METHODS[method].default_rtol
    assert re.search(f"{method}: .*{reason}", why), why


@pytest.mark.parametrize(
    ("method", "spec", "message"),
    [
        ("dual", SMOOTH["matrix"], "DiagonalNet and DiagonalProduct.*not MatrixFactorisation.*implicit"),
        ("exact", SMOOTH["matrix"], "linear in their parameters, not MatrixFactorisation"),
        ("path", SMOOTH["matrix"], "models.Linear under penalties.L1"),
        ("implicit", SMOOTH["matrix"] | {"penalty": Nuclear(0.1)}, "Nuclear has kinks"),
        ("dual", SMOOTH["labels"] | {"penalty": L1(0.1)}, "L2.*not L1"),
    ],
)
def test_a_method_that_cannot_is_refused_with_those_that_can(method, spec, message):
    with pytest.raises(SpecError, match=f"(?s)method '{method}' cannot follow this flow: .*{message}"):
        af.train(**spec, dynamics=GradientFlow(1.0, method=method))


def test_wrong_settings_are_refused():
    with pytest.raises(SpecError, match=r"unknown method 'implict'.*'implicit'"):
        GradientFlow(1.0, method="implict")
    with pytest.raises(SpecError, match=r"a time or .settled., got 'setled'"):
        GradientFlow("setled")
    with pytest.raises(SpecError, match="horizon is for until"):
        GradientFlow(1.0, horizon=2.0)
    with pytest.raises(SpecError, match="squared loss"):
        af.train(**SMOOTH["labels"], dynamics=RiemannianFlow(1.0))
    with pytest.raises(SpecError, match=r"smooth penalty.*not NoPenalty"):
        af.train(**SMOOTH["matrix"] | {"penalty": NoPenalty()}, dynamics=RiemannianFlow(1.0))


@pytest.mark.parametrize("method", ["dual", "explicit", "implicit", "stabilised", "path"])
def test_every_method_stops_at_its_step_limit_and_keeps_what_it_has(method):
    spec = LASSO if method == "path" else SMOOTH["labels"]
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
    assert again.spec["dynamics"]["rtol"] == METHODS["dual"].default_rtol


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


# The limit of weak penalties.


def test_riemannian_flow_of_linear_regression_is_its_closed_form():
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
    assert "slow time" in run.curves.time.attrs["units"]
    assert run.status == "finished"


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
