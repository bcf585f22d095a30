"""A diagonally implicit Runge–Kutta method with a fixed matrix in its Newton iterations, as a Diffrax solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from afterfit.dynamics._methods._base import Solver

__all__ = ["CONVERGED", "Corrector", "SimplifiedNewton", "newton_solver"]

# Four stages, the first explicit; order 3, L-stable, stiffly accurate.
_TABLEAU: Any = diffrax.Kvaerno3.tableau
_TIMES = np.append(0.0, _TABLEAU.c)
_LOWER = np.stack([np.pad(row, (0, 4 - len(row))) for row in ([], *_TABLEAU.a_lower)])
_GAMMA, _ERROR = float(_TABLEAU.a_diagonal[-1]), _TABLEAU.b_error
_ITERATIONS = 8
CONVERGED = 0.03  # share of the allowed error by which the last Newton iteration may still move a stage


class Corrector(Protocol):
    """How stages are solved: a matrix factorised at the start of a step, and Newton iterations with it.

    `extra` is whatever else the iterations carry along from stage to stage and from step to step.
    """

    def improve(self, t: Any, base: Any, y: Any, extra: Any, /) -> tuple[Any, Any, int | Array]:
        """One Newton iteration on y = base + gh·field(t, y): the change of y, the new `extra`, and the products
        with the matrix that it took where the matrix is not there."""
        ...


class _State(eqx.Module):
    """y' at the start of the step, what the iterations carry along, and what the last step cost."""

    slope: PyTree[Array]
    extra: PyTree[Array]
    iterations: Int[Array, ""]
    products: Int[Array, ""]


class SimplifiedNewton(diffrax.AbstractAdaptiveSolver):
    """Kværnø's ESDIRK 3(2), its stages solved with one matrix a step.

    Diffrax's own `Kvaerno3` is the same tableau with `VeryChord` as its root finder, which factorises one matrix a step
    as well. It is not enough for three reasons:

    - `VeryChord` takes the Jacobian of the field itself and factorises that: p x p for p parameters, and indefinite
      away from the solutions. The correctors here factorise a matrix as large as the data. A linear solver of one's own
      would see the Jacobian as an operator only, not the problem that it came from.
    - The unknown of its iterations is the stage alone. Gauss–Newton steps have a second one, the pull of every example,
      which is carried on from stage to stage and from step to step (`extra`); found from the stage each time, it would
      keep steps short (`GaussNewton` says why).
    - It has converged by a norm of its own, entry by entry, and never before two iterations. Here that is decided in
      the units in which the error of a step is bounded, and one iteration may do.

    `corrector(t, y, args, gh)` factorises it, `extra(t, y, args)` is what the iterations carry along at first, and
    `size(args, y, change)` is a change of y over what is allowed: stages are iterated until changes are small against
    that, and a step whose stages do not converge fails.
    """

    corrector: Callable[..., Corrector] = eqx.field(static=True)
    extra: Callable[..., PyTree] = eqx.field(static=True)
    size: Callable[[Any, PyTree, PyTree], Array] = eqx.field(static=True)

    term_structure: ClassVar = diffrax.ODETerm
    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation

    def order(self, terms: Any) -> int:
        return 3

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> _State:
        zero = jnp.zeros((), jnp.int64)
        return _State(terms.vf(t0, y0, args), self.extra(t0, y0, args), zero, zero)

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, y0, args)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: _State, made_jump: Any
    ) -> tuple[Any, Any, dict[str, Any], _State, Any]:
        h = t1 - t0
        gh = _GAMMA * h
        corrector = self.corrector(t0, y0, args, gh)

        def stage(i: Array, carry: tuple) -> tuple:
            _, extra, slopes, converged, iterations, products = carry
            base = _combine(y0, h * jnp.asarray(_LOWER)[i], slopes)
            guess = jax.tree.map(lambda b, k: b + gh * k[i - 1], base, slopes)
            y, extra, change, made, took = self._solve(
                corrector, t0 + jnp.asarray(_TIMES)[i] * h, base, guess, extra, lambda dy: self.size(args, y0, dy)
            )
            # Not the field at y: a stage is known to the tolerance, and the field magnifies what is left.
            slopes = jax.tree.map(lambda k, y, b: k.at[i].set((y - b) / gh), slopes, y, base)
            return y, extra, slopes, converged & (change <= CONVERGED), iterations + made, products + took

        slopes = jax.tree.map(lambda k: jnp.zeros((4, *k.shape), k.dtype).at[0].set(k), solver_state.slope)
        zero = jnp.zeros((), jnp.int64)
        start = (y0, solver_state.extra, slopes, jnp.ones((), bool), zero, zero)
        # A loop over the stages: written out one by one they would take three times as long to compile.
        y, extra, slopes, converged, iterations, products = jax.lax.fori_loop(1, 4, stage, start)
        error = _combine(jax.tree.map(jnp.zeros_like, y0), h * _ERROR, slopes)
        error = jax.tree.map(lambda e: jnp.where(converged, e, jnp.inf), error)
        state = _State(jax.tree.map(lambda k: k[-1], slopes), extra, iterations, products)
        return y, error, {"y0": y0, "y1": y}, state, diffrax.RESULTS.successful  # stiffly accurate: the last stage

    def _solve(
        self, corrector: Corrector, t: Array, base: PyTree, guess: PyTree, extra: PyTree, size: Callable
    ) -> tuple[PyTree, PyTree, Array, Array, Array]:
        """A stage, what its iterations carry on, the size of their last change, their number and their products."""

        def unfinished(carry: tuple) -> Array:
            _, _, change, k, _ = carry
            return (change > CONVERGED) & (k < _ITERATIONS)

        def improve(carry: tuple) -> tuple:
            y, extra, _, k, products = carry
            change, extra, took = corrector.improve(t, base, y, extra)
            return jax.tree.map(jnp.add, y, change), extra, size(change), k + 1, products + took

        zero = jnp.zeros((), jnp.int64)
        far = jnp.asarray(jnp.inf, jax.eval_shape(size, guess).dtype)
        return jax.lax.while_loop(unfinished, improve, (guess, extra, far, zero, zero))


def newton_solver(
    corrector: Callable[..., Corrector],
    extra: Callable[..., PyTree],
    size: Callable[[Any, PyTree, PyTree], Array],
) -> Solver:
    """The method with these ways to correct a stage: every iteration is a right-hand side and a linear solve.

    A product with the matrix is counted as a right-hand side, too: it costs what a gradient does.
    """
    return Solver(
        SimplifiedNewton(corrector, extra, size),
        cost=lambda state: (state.iterations + state.products, state.iterations),
    )


def _combine(start: PyTree, weights: Array, slopes: PyTree) -> PyTree:
    """start + Σ weightᵢ·slopeᵢ."""
    return jax.tree.map(lambda s, k: s + jnp.tensordot(weights.astype(k.dtype), k, axes=1), start, slopes)
