"""The solvers that flows are followed with, as anyone may use them, and what they are made of."""

from __future__ import annotations

import itertools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import as_jax, flat
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from small_problems import X, posed, task

from afterfit._base import jacobians
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._methods.implicit import GaussNewton
from afterfit.dynamics._methods.krylov import MatrixFree
from afterfit.dynamics._solvers.chebyshev import RungeKuttaChebyshev, chebyshev_step, spectral_radius, stages
from afterfit.dynamics._solvers.newton import SimplifiedNewton
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
from afterfit.penalties import L2
from afterfit.tasks import MatrixCompletion, ModularArithmetic

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
        return self.inverse @ (base + self.gh * self.field(t, y, None) - y), extra, 0


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
    hessian = jax.jit(jax.hessian(lambda v: problem.objective(tree(v))))(vector)
    exact = np.max(np.abs(np.linalg.eigvalsh(hessian)))

    def field(params):
        return jax.tree.map(jnp.negative, problem.gradient(params))

    found, _, _ = jax.jit(lambda p: spectral_radius(field, p, RungeKuttaChebyshev.any_direction(p), jnp.zeros(())))(
        start
    )
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
    direction = rng.standard_normal(start.size)
    J = np.asarray(jax.jit(jax.jacrev(lambda v: tangent.outputs(problem, tree(v))))(at)).reshape(-1, start.size)

    @jax.jit
    def found(params, direction):
        linear = tangent.linearise(problem, params)
        products = linear.push_forward(direction), linear.pull_back(linear.value)
        return tangent.kernel(problem, params), linear.value, *products

    kernel, value, forward, back = found(tree(at), tree(direction))
    np.testing.assert_allclose(kernel, J @ J.T, atol=1e-12 * np.linalg.norm(J) ** 2)
    np.testing.assert_allclose(np.ravel(forward), J @ direction, atol=1e-12)
    np.testing.assert_allclose(flat(back), J.T @ np.ravel(value), atol=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("corrector", [GaussNewton, lambda *of: MatrixFree(*of, jnp.asarray(1e-9))])
@pytest.mark.parametrize("name", ["diagonal", "factors", "classes"])
def test_gauss_newton_solves_its_linear_equations(name, corrector):
    model, of = MODELS[name]
    problem, params = posed(model, task=of, penalty=L2(0.3))
    start, tree = jax.flatten_util.ravel_pytree(params)
    J = np.asarray(jax.jit(jax.jacrev(lambda v: tangent.outputs(problem, tree(v)).ravel()))(start))
    out = jax.jit(lambda p: tangent.outputs(problem, p))(params)
    # The second derivative of the loss by differentiating the whole of it, blocks and all.
    H = np.asarray(
        jax.jit(
            jax.hessian(lambda o: problem.task.loss(o.reshape(out.shape), tangent.targets(problem), problem.data.n))
        )(np.ravel(out))
    )
    rng, gh = np.random.default_rng(0), 0.7
    R1, R2 = rng.standard_normal(start.size), rng.standard_normal(out.size)
    found = jax.jit(lambda p, *R: corrector(problem, p, jnp.asarray(gh)).solve(*R))(
        params, tree(R1), R2.reshape(out.shape)
    )
    # dθ + gh(Jᵀdρ + β·dθ) = R₁ and dρ − H J dθ = R₂, as one dense system.
    p, m = start.size, out.size
    matrix = np.block([[(1 + gh * 0.3) * np.eye(p), gh * J.T], [-H @ J, np.eye(m)]])
    exact = np.linalg.solve(matrix, np.concatenate([R1, R2]))
    np.testing.assert_allclose(np.concatenate([flat(found[0]), np.ravel(found[1])]), exact, atol=1e-10)


def test_linearise_agrees_with_forward_differentiation():
    f = jax.tree_util.Partial(lambda p: jnp.sin(p["a"]) * p["b"])
    at, along = as_jax({"a": X[0], "b": X[1]}), as_jax({"a": X[2], "b": X[3]})
    linear = jacobians.linearise(f, at)
    np.testing.assert_allclose(linear.push_forward(along), jax.jvp(f, (at,), (along,))[1], rtol=1e-6)
