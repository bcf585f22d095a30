"""Dynamics against NumPy loops of the published formulas, convex solvers, closed forms and SciPy's integrator."""

from __future__ import annotations

import cvxpy as cp
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import as_jax, flat, random_like
from scipy.integrate import solve_ivp
from scipy.special import logsumexp

import afterfit as af
from afterfit._base.errors import SpecError
from afterfit._training.train import prepare
from afterfit.dynamics import (
    SGD,
    Adam,
    AdamW,
    GradientDescent,
    GradientFlow,
    LabelNoiseSGD,
    LossScaledDescent,
    ProjectedSubgradient,
    ProximalGradient,
)
from afterfit.inits import Constant, Gaussian, Own
from afterfit.models import MLP, DiagonalNet, Function, Linear, MatrixFactorisation
from afterfit.penalties import L1, L2, GroupLasso, NoPenalty, Nuclear
from afterfit.tasks import Arrays, MatrixCompletion, ModularArithmetic, SparseClassification, TeacherStudent

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 6))
Y = RNG.standard_normal(4)
W0 = np.where(RNG.uniform(size=6) < 0.5, RNG.standard_normal(6), 0.0)  # some exact zeros: sign(0) = 0 matters
SEPARABLE = np.sign(X @ np.ones(6))

# NumPy and XLA add in different orders and XLA uses fused multiply-adds: 1e-16 a step, damped by the descent.
SAME = {"rtol": 1e-12, "atol": 1e-14}


def regression(reduction="half_sum", X=X, Y=Y):
    return Arrays(X, Y, X, Y, reduction=reduction)


def classification():
    return Arrays(X, SEPARABLE, X, SEPARABLE, loss_name="logistic")


@eqx.filter_jit
def start(dynamics, problem, params, key):
    return dynamics.start(problem, params, key)


@eqx.filter_jit
def advance(dynamics, problem, state, target):
    return dynamics.advance(problem, state, target, jnp.asarray(10**9))


def drawn(task):
    """The data that a run of this task sees, seed 0."""
    return af.Experiment(task, Linear(), GradientDescent(0.1, 1)).draw()


def posed(task, model, penalty, dynamics=None):
    """The problem that a run of these would go down."""
    dynamics = dynamics or GradientDescent(0.1, 1)
    return prepare(af.Experiment(task, model, dynamics, penalty, init=Gaussian()))[0]


def path(dynamics, task, params, targets, model=None, penalty=None, seed=0):
    """The states at the given steps."""
    with jax.enable_x64(True):
        problem = posed(task, model or Linear(), penalty or NoPenalty(), dynamics)
        state = start(dynamics, problem, as_jax(params), jax.random.key(seed))
        states = []
        for target in targets:
            state = advance(dynamics, problem, state, jnp.asarray(target))
            states.append(jax.tree.map(np.asarray, (state.params, state.memory, dynamics.log10_time(state))))
    return states


def weights(states):
    return np.array([params["weights"] for params, *_ in states])


# Deterministic descent.


def diagonal_slope(plus, minus, decay=0.01, n=4):
    """Gradient of (1/2n)‖X(u² − v²) − y‖² + (λ/2)(‖u‖² + ‖v‖²)."""
    g = X.T @ (X @ (plus**2 - minus**2) - Y) / n
    return 2 * plus * g + decay * plus, -2 * minus * g + decay * minus


def test_gradient_descent_on_a_diagonal_net():
    plus, minus = np.full(6, 0.5), np.full(6, 0.4)
    dynamics = GradientDescent(lr=0.05, steps=50)
    found = path(
        dynamics, regression("half_mean"), {"plus": plus, "minus": minus}, range(1, 51), DiagonalNet(), L2(0.01)
    )
    for params, *_ in found:
        a, b = diagonal_slope(plus, minus)
        plus, minus = plus - 0.05 * a, minus - 0.05 * b
        np.testing.assert_allclose(params["plus"], plus, **SAME)
        np.testing.assert_allclose(params["minus"], minus, **SAME)
    np.testing.assert_allclose(found[-1][2], np.log10(50 * 0.05), rtol=1e-14)  # time is the sum of step sizes


def test_subgradient_descent_with_l1():
    w = W0
    found = path(GradientDescent(lr=0.05, steps=50), regression(), {"weights": w}, range(1, 51), penalty=L1(0.2))
    for step in weights(found):
        w = w - 0.05 * (X.T @ (X @ w - Y) + 0.2 * np.sign(w))
        np.testing.assert_allclose(step, w, **SAME)


def test_proximal_gradient_solves_the_lasso():
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((10, 20)), rng.standard_normal(10)
    lr = 1 / np.linalg.norm(A, 2) ** 2
    (state,) = path(ProximalGradient(lr, 1), regression(X=A, Y=b), {"weights": np.zeros(20)}, [20_000], penalty=L1(0.5))
    w = cp.Variable(20)
    cp.Problem(cp.Minimize(cp.sum_squares(A @ w - b) / 2 + 0.5 * cp.norm1(w))).solve(solver=cp.CLARABEL)
    found = state[0]["weights"]
    np.testing.assert_allclose(found, w.value, atol=1e-5)  # Clarabel's gap of 1e-8, less well in the point itself
    # Descent's own certificate is sharper: −Aᵀ(Aw − b) = λ·sign(w) on the support, at most λ off it.
    pull = A.T @ (b - A @ found)
    assert np.sum(found == 0) >= 8
    np.testing.assert_allclose(pull[found != 0], 0.5 * np.sign(found[found != 0]), rtol=1e-8)
    assert np.all(np.abs(pull[found == 0]) < 0.5)


def test_proximal_gradient_solves_nuclear_norm_completion():
    task = MatrixCompletion(4, 5, 1, observed=12, reduction="half_sum")
    data = drawn(task)
    (state,) = path(ProximalGradient(1.0, 1), task, {"weights": np.ones((4, 5))}, [5000], penalty=Nuclear(0.1))
    W = cp.Variable((4, 5))
    fit = cp.sum_squares(cp.multiply(data.inputs.mask, W) - data.targets) / 2
    cp.Problem(cp.Minimize(fit + 0.1 * cp.normNuc(W))).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(state[0]["weights"], W.value, atol=1e-4)  # an interior point: rank to 1e-5 or so


def test_projected_subgradient_on_a_vector():
    # Π(a) = a − Xᵀ(XXᵀ)†(Xa − y), Notsawo et al. App. D.1; a dependent row tests the pseudoinverse.
    A, b = np.vstack([X, X[0] + X[1]]), np.append(Y, Y[0] + Y[1])
    w = W0
    found = path(ProjectedSubgradient(0.05, 1), regression(X=A, Y=b), {"weights": w}, range(1, 31), penalty=L1(0.2))
    for step in weights(found):
        w = w - 0.05 * 0.2 * np.sign(w)
        w = w - A.T @ (np.linalg.pinv(A @ A.T, rcond=1e-12) @ (A @ w - b))
        np.testing.assert_allclose(step, w, rtol=1e-10, atol=1e-12)  # pinv of XXᵀ squares the condition number
        np.testing.assert_allclose(A @ step, b, rtol=1e-11)  # fitted after one step, and ever after
    # A projection is idempotent: without a pull, nothing moves any more.
    once, twice = weights(path(ProjectedSubgradient(0.05, 1), regression(X=A, Y=b), {"weights": W0}, [1, 2]))
    np.testing.assert_allclose(twice, once, **SAME)
    closest = W0 + np.linalg.lstsq(A, b - A @ W0, rcond=None)[0]
    np.testing.assert_allclose(once, closest, rtol=1e-11)


def test_projected_subgradient_on_observed_entries():
    task = MatrixCompletion(4, 5, 1, observed=12)
    data = drawn(task)
    W, seen = np.random.default_rng(1).standard_normal((4, 5)), data.inputs.mask == 1
    found = path(ProjectedSubgradient(0.1, 1), task, {"weights": W}, range(1, 11), penalty=Nuclear(0.3))
    for step in weights(found):
        U, _, Vt = np.linalg.svd(W, full_matrices=False)
        W = np.where(seen, data.truth, W - 0.1 * 0.3 * U @ Vt)
        np.testing.assert_allclose(step, W, rtol=1e-11, atol=1e-13)


# Adam. Kingma and Ba (2015), Algorithm 1; Loshchilov and Hutter (2019), Algorithm 2 with the learning rate
# as schedule multiplier, which is PyTorch's form.


def adam(w, gradient, steps, lr, decay=0.0, b1=0.9, b2=0.999, eps=1e-8):
    m = v = 0.0
    for t in range(1, steps + 1):
        g = gradient(w)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        corrected = (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
        w = w - lr * corrected - lr * decay * w
    return w


def loss_slope(w):
    return X.T @ (X @ w - Y)


def test_adam_and_adamw():
    start_at = {"weights": W0}
    (plain,) = weights(path(Adam(0.05, 1), regression(), start_at, [50]))
    (tuned,) = weights(path(Adam(0.05, 1, b1=0.5, b2=0.9, eps=1e-3), regression(), start_at, [30]))
    (coupled,) = weights(path(Adam(0.05, 1), regression(), start_at, [50], penalty=L2(0.3)))
    (decoupled,) = weights(path(AdamW(0.05, 1, weight_decay=0.3), regression(), start_at, [50]))
    # (With b2 = 0.9 the steps do not die down but turn chaotic after some 40, so that one is compared earlier.)
    np.testing.assert_allclose(plain, adam(W0, loss_slope, 50, 0.05), **SAME)
    np.testing.assert_allclose(tuned, adam(W0, loss_slope, 30, 0.05, b1=0.5, b2=0.9, eps=1e-3), **SAME)
    np.testing.assert_allclose(coupled, adam(W0, lambda w: loss_slope(w) + 0.3 * w, 50, 0.05), **SAME)
    np.testing.assert_allclose(decoupled, adam(W0, loss_slope, 50, 0.05, decay=0.3), **SAME)
    assert np.linalg.norm(coupled - decoupled) > 0.1 * np.linalg.norm(decoupled)


# Randomness.


@pytest.mark.parametrize("batch", [4, 5])
def test_sgd_goes_through_the_data_once_an_epoch(batch):
    # With X = I an example moves its own coordinate only, from 0 by 2·lr·n/batch·y the first time.
    task = Arrays(np.eye(12), np.ones(12), np.eye(12), np.ones(12), reduction="sum")
    a_step = 2 * 0.01 * 12 / batch
    states = weights(path(SGD(0.01, 1, batch), task, {"weights": np.zeros(12)}, range(1, 4 * (12 // batch) + 1)))
    moved = np.diff(np.vstack([np.zeros(12), states]), axis=0) != 0
    assert np.all(moved.sum(axis=1) == batch)
    epochs = moved.reshape(4, 12 // batch, 12)
    assert np.all(epochs.sum(axis=1) <= 1), "an example twice in one epoch"
    np.testing.assert_allclose(states[0][moved[0]], a_step, rtol=1e-14)
    assert len({tuple(epoch[0]) for epoch in epochs}) == 4, "a new order every epoch"


@pytest.mark.parametrize(
    ("task", "model"),
    [
        (Arrays(*[RNG.standard_normal(s) for s in ((12, 5), 12, (2, 5), 2)], reduction="half_sum"), MLP((3,))),
        (MatrixCompletion(4, 5, 2, observed=12, reduction="mean"), MatrixFactorisation(2)),
        (ModularArithmetic(p=5, fraction=0.48, precision="double"), MLP((4,), "hidden")),
    ],
    ids=["vectors", "entries", "one-hot"],
)
def test_batch_gradients_are_unbiased(task, model):
    with jax.enable_x64(True):
        problem = posed(task, model, L2(0.1))
        assert problem.data.n == 12
        params = as_jax(random_like(model.parameters(task.signature), np.random.default_rng(1)))
        batches = np.random.default_rng(2).permutation(12).reshape(4, 3)  # an epoch: every example once
        each = jax.jit(lambda examples: problem.batch_gradient(params, examples))
        mean = np.mean([flat(each(jnp.asarray(batch))) for batch in batches], axis=0)
        np.testing.assert_allclose(mean, flat(jax.jit(lambda p: problem.gradient(p))(params)), rtol=1e-11, atol=1e-13)


def test_label_noise_sgd_has_the_mean_and_covariance_of_its_formula():
    # θ ← θ − η∇(f(xᵢ) − yᵢ + ξ)², i uniform, ξ ~ N(0, noise²): the update is −2η(rᵢ + ξ)∇f(xᵢ).
    lr, noise, many = 0.1, 0.7, 40_000
    plus, minus = np.linspace(0.5, 1.5, 6), np.linspace(1.0, 0.2, 6)
    with jax.enable_x64(True):
        problem = posed(regression("sum"), DiagonalNet(), NoPenalty())
        params = as_jax({"plus": plus, "minus": minus})
        dynamics = LabelNoiseSGD(lr, 1, noise)
        keys = jax.random.split(jax.random.key(0), many)
        moved, _ = jax.jit(jax.vmap(lambda key: dynamics.step(problem, params, (), key)))(keys)
        updates = np.concatenate([moved["plus"] - plus, moved["minus"] - minus], axis=1)
    r = X @ (plus**2 - minus**2) - Y
    slopes = np.concatenate([2 * plus * X, -2 * minus * X], axis=1)  # ∇f(xᵢ), one row an example
    mean = -2 * lr * (r @ slopes) / 4
    second = 4 * lr**2 * np.einsum("i,ij,ik->jk", r**2 + noise**2, slopes, slopes) / 4
    deviations = np.sqrt(np.diag(second) - mean**2)
    # 12 means within 4.5 standard errors each; second moments within 5 % (their relative error is about 1 %).
    assert np.all(np.abs(updates.mean(axis=0) - mean) <= 4.5 * deviations / np.sqrt(many))
    found = updates.T @ updates / many
    assert np.linalg.norm(found - second) <= 0.05 * np.linalg.norm(second)


def test_label_noise_sgd_moves_one_entry_of_a_matrix():
    task = MatrixCompletion(4, 5, 1, observed=12)
    mask = drawn(task).inputs.mask
    states = weights(path(LabelNoiseSGD(0.1, 1), task, {"weights": np.zeros((4, 5))}, range(1, 101)))
    moved = np.diff(np.concatenate([np.zeros((1, 4, 5)), states]), axis=0) != 0
    assert np.all(moved.sum(axis=(1, 2)) == 1)
    np.testing.assert_array_equal(np.any(moved, axis=0), mask == 1)  # all 12 entries within 100 steps, no other


# Beyond underflow.


def test_loss_scaled_descent_has_the_step_size_divided_by_the_loss():
    w, time = np.full(6, 0.1), 0.0
    found = path(LossScaledDescent(0.5, 1), classification(), {"weights": w}, range(1, 31))
    for params, _, log10_time in found:
        margins = SEPARABLE * (X @ w)
        step = 0.5 / np.mean(np.log1p(np.exp(-margins)))
        w = w + step * X.T @ (SEPARABLE / (1 + np.exp(margins))) / 4
        time += step
        np.testing.assert_allclose(params["weights"], w, rtol=1e-10)
        np.testing.assert_allclose(log10_time, np.log10(time), rtol=1e-10)


def test_loss_scaled_descent_goes_on_far_beyond_underflow():
    # The same steps in logarithms: log ℓ = log log(1 + e^-m), which is −m to 1e-13 beyond m = 30, and the slope
    # of ℓ is −e^(−log(1 + e^m)).
    steps, w, log_time = 3000, np.full(6, 0.1), -np.inf
    for _ in range(steps):
        margins = SEPARABLE * (X @ w)
        log_losses = np.where(margins > 30, -margins, np.log(np.log1p(np.exp(-np.minimum(margins, 30)))))
        log_sum = logsumexp(log_losses)
        w = w + 0.5 * X.T @ (SEPARABLE * np.exp(-np.logaddexp(0, margins) - log_sum))
        log_time = np.logaddexp(log_time, np.log(0.5) - log_sum + np.log(4))
    ((params, _, log10_time),) = path(
        LossScaledDescent(0.5, 1), classification(), {"weights": np.full(6, 0.1)}, [steps]
    )
    assert log10_time > 450, "far beyond 1e308"
    # Exponents of about 1000 are rounded at 1e-13, and that adds up over the steps.
    np.testing.assert_allclose(params["weights"], w, rtol=1e-9)
    np.testing.assert_allclose(log10_time, log_time / np.log(10), rtol=1e-9)


def test_loss_scaled_descent_runs_on_where_time_overflows():
    run = af.train(
        task=classification(),
        model=Linear(),
        dynamics=LossScaledDescent(0.5, 3000),
        init=Constant(0.1),
        observations=30,
    )
    curves = run.curves
    assert run.status == "finished"
    assert curves.time.values[-1] == np.inf
    assert np.all(np.isfinite(curves.log10_time.values[1:]))
    assert np.all(np.diff(curves.log10_time.values) > 0)
    assert curves.train_loss.values[-1] == 0
    assert np.all(np.isfinite(flat(run.params)))
    # The direction goes to the largest L2 margin (Soudry et al. 2018), found here by a convex solver.
    w = cp.Variable(6)
    cp.Problem(cp.Minimize(cp.sum_squares(w)), [cp.multiply(SEPARABLE, X @ w) >= 1]).solve(solver=cp.CLARABEL)
    direction = run.params["weights"] / np.linalg.norm(run.params["weights"])
    # Slowly: like 1/log t, and log t is about 1500 here.
    assert direction @ w.value / np.linalg.norm(w.value) > 1 - 1e-4


# Gradient flow.


def test_flow_of_linear_regression_is_its_closed_form():
    # F = ‖Xw − y‖² with (λ/2)‖w‖². Boursier et al. (23)-(24), where F's factor 2 goes to σ²: in the singular
    # basis z' = −2σ²(z − z*) − λz, so z → 2σ²/(2σ² + λ)·z* at the rate 2σ² + λ, and e^-λt z(0) off the data.
    decay = 0.02
    run = af.train(
        task=regression("sum"),
        model=Linear(),
        penalty=L2(decay),
        dynamics=GradientFlow(until=200.0, rtol=1e-9, atol=1e-12, method="explicit"),
        init=Constant(1.0, shape=tuple(range(1, 7))),
        observations=40,
    )
    _, values, Vt = np.linalg.svd(X)
    sigma2 = np.append(values**2, [0, 0])
    rate = 2 * sigma2 + decay
    z0, end = Vt @ np.arange(1.0, 7), 2 * sigma2 / rate * (Vt @ np.linalg.pinv(X) @ Y)
    t = run.curves.time.values[:, None]
    exact = (end + np.exp(-rate * t) * (z0 - end)) @ Vt
    assert run.status == "finished"
    assert t[-1] == pytest.approx(200.0)
    # The integrator keeps each step within rtol; errors of early steps are damped, so they do not add up.
    np.testing.assert_allclose(run.curves.weights.values, exact, rtol=1e-7, atol=1e-7)


FLOW = {
    "task": regression("half_mean"),
    "model": DiagonalNet(),
    "penalty": L2(0.01),
    "init": Constant(0.5),
}
END = 20.0


@pytest.fixture(scope="module")
def exact_end():
    """Where the flow of the diagonal net is at END, by SciPy's integrator on the NumPy gradient."""

    def field(t, z):
        return -np.concatenate(diagonal_slope(z[:6], z[6:]))

    return solve_ivp(field, (0, END), np.full(12, 0.5), method="DOP853", rtol=1e-13, atol=1e-15).y[:, -1]


def follow(dynamics, observations=10):
    run = af.train(**FLOW, dynamics=dynamics, observations=observations)
    assert run.status == "finished"
    return np.concatenate([run.params["plus"], run.params["minus"]]), run.work


def test_flow_is_as_accurate_as_asked_and_no_more_costly_than_its_order(exact_end):
    tolerances = np.array([1e-4, 1e-6, 1e-8, 1e-10])
    ends, work = zip(
        *[follow(GradientFlow(END, method="explicit", rtol=tol, atol=tol / 1e3)) for tol in tolerances], strict=True
    )
    errors = [np.linalg.norm(end - exact_end) for end in ends]
    assert np.all(np.diff(errors) < 0)
    assert np.all(errors <= 20 * tolerances)  # local errors add up over some hundred steps, and are damped
    # A step's error is of order dt⁵, so a tolerance 100 times smaller takes 100^(1/5) = 2.5 times the steps.
    steps = np.array([counts["steps_accepted"] for counts in work])
    assert np.all(steps[1:] / steps[:-1] < 3.5)
    assert 1.8 < steps[-1] / steps[-2] < 3.5
    assert all(counts["steps_rejected"] < 0.3 * counts["steps_accepted"] for counts in work)


def test_observing_a_flow_more_often_changes_it_within_tolerance(exact_end):
    # Steps are cut to land on observations, so the numbers differ, but no more than the tolerance allows.
    often, work = follow(GradientFlow(END, method="explicit", rtol=1e-8, atol=1e-11), observations=300)
    assert np.linalg.norm(often - exact_end) <= 20 * 1e-8
    seldom = follow(GradientFlow(END, method="explicit", rtol=1e-8, atol=1e-11))[1]
    assert work["steps_accepted"] < seldom["steps_accepted"] + 2 * 300, "cut steps start the controller anew"


def test_descent_converges_to_the_flow_at_first_order(exact_end):
    ends = [follow(GradientDescent(lr, round(END / lr)))[0] for lr in (0.04, 0.02, 0.01)]
    errors = [np.linalg.norm(end - exact_end) for end in ends]
    # Euler's error is C·lr + O(lr²): halving lr halves it, to a few per cent at these sizes.
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 2, atol=0.1)
    assert errors[-1] > 1e-6


def test_a_flow_out_of_steps_keeps_what_it_has():
    run = af.train(
        **FLOW, dynamics=GradientFlow(END, method="explicit", rtol=1e-8, atol=1e-11, max_steps=20), observations=10
    )
    assert run.status == "step limit"
    assert "max_steps (now 20)" in run.message
    assert f"of {END:.3g}" in run.message
    assert run.work["steps_accepted"] + run.work["steps_rejected"] == 20
    time = run.curves.time.values
    assert 2 <= len(time) <= 11
    assert time[-1] < END
    assert np.all(np.isfinite(run.curves.train_loss.values))
    # What it has is the flow: on to the last time by SciPy.
    exact = solve_ivp(
        lambda t, z: -np.concatenate(diagonal_slope(z[:6], z[6:])),
        (0, time[-1]),
        np.full(12, 0.5),
        rtol=1e-12,
        atol=1e-14,
    ).y[:, -1]
    np.testing.assert_allclose(np.concatenate([run.params["plus"], run.params["minus"]]), exact, atol=1e-7)


class Power(af.penalties.Penalty):
    """θᵖ/p of a single number: its flow is θ' = −β·θᵖ⁻¹, known in closed form."""

    power: float = 2.0
    sign: float = 1.0

    def value(self, params):
        return self.sign * params**self.power / self.power


def flow_of_a_number(power, sign, until):
    """θ over time from θ = 1, and how the run went. Numbers only differ: compiled once."""
    run = af.train(
        task=Arrays(np.ones((1, 1)), np.ones(1), np.ones((1, 1)), np.ones(1)),
        model=Function(constant, np.ones(())),
        penalty=Power(1.0, power, sign),
        dynamics=GradientFlow(until, max_steps=2000, first=0.1, method="explicit"),
        init=Own(),
        observations=8,
    )
    return run.curves.time.values, run.curves.norm_l2.values, run


def constant(params, x):
    """Fits a target of 1 whatever the parameter is, to rounding: one that does not depend on it at all is refused."""
    return 1.0 + 1e-200 * params


def test_flow_adapts_its_steps_to_slow_and_to_fast():
    # θ' = −θ³: θ = 1/√(1 + 2t). The explicit step may grow in proportion to t, so 10⁶ takes hundreds of steps.
    time, theta, run = flow_of_a_number(4.0, 1.0, until=1e6)
    assert run.status == "finished"
    np.testing.assert_allclose(theta, 1 / np.sqrt(1 + 2 * time), rtol=1e-5)
    assert run.work["steps_accepted"] + run.work["steps_rejected"] < 500
    # θ' = θ²: θ = 1/(1 − t), a thousand at the end. Errors of 1e-6 in θ = 1 are carried along in 1/θ = 1 − t.
    time, theta, run = flow_of_a_number(3.0, -1.0, until=0.999)
    assert run.status == "finished"
    np.testing.assert_allclose(1 / theta, 1 - time, atol=1e-5)


def test_a_flow_that_blows_up_in_finite_time_says_so():
    time, theta, run = flow_of_a_number(3.0, -1.0, until=2.0)
    assert run.status in ("step limit", "diverged")
    assert "max_steps" in run.message
    assert time[-1] < 1.001  # θ' = θ² ends at t = 1
    np.testing.assert_allclose(1 / theta[time < 0.9], 1 - time[time < 0.9], atol=1e-5)


# Refusals.


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: GradientDescent(0.0, 10), "lr must be positive, got 0"),
        (lambda: GradientDescent(-0.1, 10), "lr must be positive, got -0.1"),
        (lambda: GradientDescent(float("nan"), 10), "got nan"),
        (lambda: GradientDescent(0.1, 0), "steps must be 1 or more, got 0"),
        (lambda: Adam(0.1, 10, b1=1.0), "b1.*got 1"),
        (lambda: AdamW(0.1, 10, weight_decay=-1.0), "weight_decay.*got -1"),
        (lambda: SGD(0.1, 10, batch=0), "batch.*got 0"),
        (lambda: LabelNoiseSGD(0.1, 10, noise=-1.0), "noise.*got -1"),
        (lambda: GradientFlow(0.0), "until.*got 0"),
        (lambda: GradientFlow(float("inf")), "until.*got inf"),
        (lambda: GradientFlow(1.0, rtol=0.0), "rtol.*got 0"),
        (lambda: GradientFlow(1.0, max_steps=0), "max_steps.*got 0"),
        (lambda: GradientFlow(1.0, first=2.0), "between 0 and until=1.0, got first=2.0"),
    ],
)
def test_bad_numbers_are_refused_by_value(attempt, message):
    with pytest.raises(SpecError, match=message):
        attempt()


TEACHER = TeacherStudent(d=3, hidden=2, outputs=2, n=4, n_test=2)


@pytest.mark.parametrize(
    ("dynamics", "task", "model", "penalty", "message"),
    [
        (SGD(0.1, 1, batch=5), regression(), Linear(), NoPenalty(), "at most the number of examples, 4, got 5"),
        (LossScaledDescent(0.1, 1), classification(), Linear(), L2(0.1), "leave the penalty out"),
        (ProjectedSubgradient(0.1, 1), regression(), DiagonalNet(), L1(0.1), "models.Linear, not DiagonalNet"),
        (ProjectedSubgradient(0.1, 1), SparseClassification(4, 6), Linear(), L1(0.1), "squared loss"),
        (LabelNoiseSGD(0.1, 1), SparseClassification(4, 6), Linear(), NoPenalty(), "squared loss"),
        (LabelNoiseSGD(0.1, 1), TEACHER, MLP((3,)), NoPenalty(), "one output"),
        (
            LabelNoiseSGD(0.1, 1),
            Arrays(X, np.ones((4, 2)), X, np.ones((4, 2))),
            MLP((3,)),
            NoPenalty(),
            "one output",
        ),
        (
            ProximalGradient(0.1, 1),
            regression(),
            Linear(),
            GroupLasso(0.1, size=2) + GroupLasso(0.1, size=3),
            "L1 \\+ L2, and Sum has none",
        ),
    ],
)
def test_what_a_dynamics_cannot_run_is_refused_before_any_work(dynamics, task, model, penalty, message):
    experiment = af.Experiment(task=task, model=model, dynamics=dynamics, penalty=penalty, init=Gaussian())
    with jax.enable_x64(True), pytest.raises(SpecError, match=message):
        prepare(experiment)
