"""A Runge–Kutta–Chebyshev method as a Diffrax solver."""

from __future__ import annotations

from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from afterfit.dynamics._methods._base import Solver
from afterfit.dynamics._problem import norm

__all__ = ["RungeKuttaChebyshev", "chebyshev_solver"]

_DAMPING = 2 / 13  # ε of Sommeijer, Shampine and Verwer (1997), whose RKC this is
_SAFETY = 1.25  # the power method approaches the spectral radius from below
_POWER_STEPS = 20
_TRUSTED = 4  # steps to make without asking again, when the radius did not change
_AGREEMENT = 0.1  # relative change at which a power iteration is taken to have converged


class _State(eqx.Module):
    """f(y) at the start of the step, what is known of the largest curvature, and what the last step cost."""

    field: PyTree[Array]
    direction: PyTree[Array]
    radius: Float[Array, ""]
    steady: Int[Array, ""]  # steps for which the radius may be trusted
    evaluations: Int[Array, ""]


class RungeKuttaChebyshev(diffrax.AbstractAdaptiveSolver):
    """Second order, explicit, as many stages as stability asks for: s of them reach 0.65·s² along the negative axis.

    Made for gradient flows: their Jacobian is symmetric, and negative where it matters. Its spectral radius is
    estimated by a power iteration that starts from the last one's direction: before every step while it changes, every
    fifth step while it does not, and at once when a step fails.
    """

    term_structure: ClassVar = diffrax.ODETerm
    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation

    def order(self, terms: Any) -> int:
        return 2

    def error_order(self, terms: Any) -> int:
        return 3

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> _State:
        field = terms.vf(t0, y0, args)
        dtype = jax.tree.leaves(y0)[0].dtype
        zero = jnp.zeros((), jnp.int64)
        return _State(field, self.any_direction(y0), jnp.zeros((), dtype), zero, zero)

    @staticmethod
    def any_direction(y: PyTree[Array]) -> PyTree[Array]:
        """A direction that hardly any eigenvector is orthogonal to."""
        return jax.tree.map(lambda y: jnp.cos(1.0 + jnp.arange(y.size, dtype=y.dtype) ** 1.5).reshape(y.shape), y)

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, y0, args)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: _State, made_jump: Any
    ) -> tuple[Any, Any, dict[str, Any], _State, Any]:
        h, f0 = t1 - t0, solver_state.field
        radius, direction, steady, tries = jax.lax.cond(
            solver_state.steady > 0,
            lambda: (solver_state.radius, solver_state.direction, solver_state.steady - 1, jnp.zeros((), jnp.int64)),
            lambda: _estimate(lambda y: terms.vf(t0, y, args), y0, solver_state),
        )
        s = stages(h * _SAFETY * radius)
        y1 = chebyshev_step(lambda t, y: terms.vf(t0 + t * h, y, args), y0, f0, h, s)
        f1 = terms.vf(t1, y1, args)
        error = jax.tree.map(lambda a, b, fa, fb: 0.8 * (a - b) + 0.4 * h * (fa + fb), y0, y1, f0, f1)
        state = _State(f1, direction, radius, steady, s.astype(jnp.int64) + tries)
        return y1, error, {"y0": y0, "y1": y1}, state, diffrax.RESULTS.successful


def _estimate(field: Any, y0: PyTree, state: _State) -> tuple[Array, PyTree, Array, Array]:
    """The radius and its direction now, for how many steps they may be trusted, and the evaluations they took."""
    radius, direction, tries = spectral_radius(field, y0, state.direction, state.radius)
    changed = jnp.abs(radius - state.radius) > _AGREEMENT * radius
    return radius, direction, jnp.where(changed, 0, _TRUSTED).astype(jnp.int64), tries


def stages(z: Float[Array, ""]) -> Int[Array, ""]:
    """How many stages a step of h needs when z = h times the spectral radius."""
    return 1 + jnp.ceil(jnp.sqrt(1 + 1.54 * z.astype(jnp.float64))).astype(jnp.int32)


def longest(limit: int | Array, radius: Float[Array, ""]) -> Float[Array, ""]:
    """The longest step that `limit` stages keep stable."""
    return ((limit - 1) ** 2 - 1) / (1.54 * _SAFETY * jnp.maximum(radius, jnp.finfo(radius.dtype).tiny))


def chebyshev_solver(rtol: float | Array) -> Solver:
    """The method for steps with an error of `rtol`."""

    def longest_accurate(state: _State) -> Float[Array, ""]:
        # Rounding grows with the square of the number of stages (Sommeijer et al. 1997, §2.2).
        eps = jnp.finfo(state.radius.dtype).eps
        limit = jnp.maximum(jnp.floor(jnp.sqrt(rtol / (10 * eps))), 3)
        return jnp.where(state.radius > 0, longest(limit, state.radius), jnp.inf)

    return Solver(
        RungeKuttaChebyshev(),
        cost=lambda state: (state.evaluations, 0),
        longest=longest_accurate,
        after_rejection=_look_again,
    )


def _look_again(state: _State, error: PyTree[Array]) -> _State:
    """The error of an unstable step points along the direction whose curvature was underestimated."""
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(error)]))
    direction = jax.tree.map(lambda e, d: jnp.where(finite, e, d), error, state.direction)
    return eqx.tree_at(lambda s: (s.direction, s.steady), state, (direction, jnp.zeros_like(state.steady)))


def spectral_radius(
    field: Any, y: PyTree, direction: PyTree, before: Float[Array, ""]
) -> tuple[Float[Array, ""], PyTree, Int[Array, ""]]:
    """The largest absolute eigenvalue of the Jacobian of `field` at y, its direction, and the products it took.

    A power iteration; `before` is an earlier estimate, 0 if there is none. The Jacobian is that of the smooth piece
    that y lies on: differences of the field would mistake the kinks of a ReLU net for curvature.
    """
    _, pull_back = jax.vjp(field, y)  # transposed, which has the same eigenvalues, and needs reverse derivatives only

    def unfinished(carry: tuple) -> Array:
        radius, last, _, k = carry
        return (k < 1) | ((jnp.abs(radius - last) > _AGREEMENT * radius) & (k < _POWER_STEPS))

    def iterate(carry: tuple) -> tuple:
        radius, _, direction, k = carry
        size = jnp.maximum(norm(direction), jnp.finfo(before.dtype).tiny).astype(before.dtype)
        (turned,) = pull_back(jax.tree.map(lambda v: v / size, direction))
        found = norm(turned).astype(before.dtype)
        # A field that does not change has no direction to tell: keep the old one.
        direction = jax.tree.map(lambda t, v: jnp.where(found > 0, t, v), turned, direction)
        return found, radius, direction, k + 1

    start = (before, jnp.zeros_like(before), direction, jnp.zeros((), jnp.int64))
    radius, last, direction, k = jax.lax.while_loop(unfinished, iterate, start)
    return jnp.where(k > 1, jnp.maximum(radius, last), radius), direction, k


def chebyshev_step(field: Any, y0: PyTree, f0: PyTree, h: Array, s: Int[Array, ""]) -> PyTree:
    """The s stages: formulas (2.1)–(2.4) of Sommeijer, Shampine and Verwer (1997), `field` in time from 0 to 1."""
    S = s.astype(jnp.float64)
    w0 = 1 + _DAMPING / S**2
    # T_s' and T_s'' at w0 through cosh(sθ), w0 = cosh θ; T_s solves (1 − w²)T'' − wT' + s²T = 0.
    theta = jnp.arccosh(w0)
    ends, slope = jnp.cosh(S * theta), S * jnp.sinh(S * theta) / jnp.sinh(theta)
    w1 = slope / ((S**2 * ends - w0 * slope) / (w0**2 - 1))

    def b(T1: Array, T2: Array) -> Array:
        return T2 / T1**2

    def lift(T: tuple, U: tuple) -> tuple:
        """T_j, T_j', T_j'' from those of j − 1 (T) and j − 2 (U)."""
        return (
            2 * w0 * T[0] - U[0],
            2 * T[0] + 2 * w0 * T[1] - U[1],
            4 * T[1] + 2 * w0 * T[2] - U[2],
        )

    zero, one = jnp.zeros(()), jnp.ones(())
    first, second = (w0, one, zero), (2 * w0**2 - 1, 4 * w0, 4 * one)
    b2 = b(second[1], second[2])

    def mix(y: PyTree, y_before: PyTree, f: PyTree, mu: Array, nu: Array, mu_h: Array, gamma_h: Array) -> PyTree:
        def of(a: Array, y1: Array, y2: Array, f: Array, f_start: Array) -> Array:
            c = [k.astype(a.dtype) for k in (1 - mu - nu, mu, nu, mu_h, gamma_h)]
            return c[0] * a + c[1] * y1 + c[2] * y2 + c[3] * f + c[4] * f_start

        return jax.tree.map(of, y0, y, y_before, f, f0)

    y_first = jax.tree.map(lambda a, f: a + (b2 * w1 * h).astype(a.dtype) * f, y0, f0)
    # Time of a stage: c_j = w1·T_j''/T_j', with c_1 = c_2/(4w0) and c_s = 1.
    c_first = w1 * second[2] / second[1] / (4 * w0)

    def stage(j: Array, carry: tuple) -> tuple:
        y, y_before, T, U, b1, b0, c = carry
        N = lift(T, U)
        bj = jnp.where(j == 2, b2, b(N[1], N[2]))
        a_before = 1 - b1 * T[0]
        mu, nu = 2 * bj * w0 / b1, -bj / b0
        mu_h = 2 * bj * w1 / b1 * h
        new = mix(y, y_before, field(c.astype(h.dtype), y), mu, nu, mu_h, -a_before * mu_h)
        return new, y, N, T, bj, b1, w1 * N[2] / N[1]

    carry = (y_first, y0, first, (one, zero, zero), b2, b2, c_first)
    return jax.lax.fori_loop(2, s + 1, stage, carry)[0]
