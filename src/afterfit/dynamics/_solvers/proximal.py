"""Backward Euler steps through a proximal map, extrapolated to second order, as a Diffrax solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._methods._base import Solver
from afterfit.dynamics._problem import Problem

__all__ = ["ProximalEuler", "proximal_solver"]

_ITERATIONS = 20
_AHEAD = 1 / 16  # share of a step by which it looks ahead
# Share of the allowed error by which the last Newton iteration may still move the parameters. A hundredth would do for
# the error of a step, but what is left of the pulls is multiplied by the step, as long as the run where it rests.
_CONVERGED = 1e-4


class _State(eqx.Module):
    """The pulls of every example and of the penalty just after the last step, and what that cost."""

    pull: Float[Array, "n ..."]
    penalty: PyTree[Array]
    iterations: Int[Array, ""]


class _Solved(NamedTuple):
    """A backward Euler step: `params` = prox(`before`), the pull of every example, and how its iterations went."""

    params: PyTree[Array]
    before: PyTree[Array]
    pull: Float[Array, "n ..."]
    change: Float[Array, ""]
    iterations: Int[Array, ""]


class ProximalEuler(diffrax.AbstractAdaptiveSolver):
    """A backward Euler step, and two of half its length: their difference tells the error, and is extrapolated.

    Extrapolated before the last proximal map, not after it: what that sets to 0 (entries, groups, singular values)
    stays at 0.

    An entry that reaches 0 within a step and rests there is no error: the subgradient of a backward Euler step is then
    the mean of the flow's, whenever that happened. Two things are, and the difference need not see them:

    - An entry that leaves 0 or changes its sign early has the subgradient of the end from the start on, in all three
      steps. So how far that has turned in the first half counts as error (`turned`), where the entry moves in the end.
    - An entry that reaches 0 and goes on more slowly on the other side is stopped at 0 by all three. So a short step
      ahead looks whether what has come to rest does rest; how fast it leaves counts as error (`leaving`).

    `size(params, change)` is a change of the parameters over what is allowed; a step that has not been solved to a
    small share of that fails.
    """

    size: Callable[[PyTree, PyTree], Array] = eqx.field(static=True)

    term_structure: ClassVar = diffrax.ODETerm
    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation

    def order(self, terms: Any) -> int:
        return 2

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> _State:
        problem, _ = args
        pull = tangent.residual(problem, tangent.outputs(problem, y0))
        return _State(pull, problem.penalty.weighted_subgradient(y0), jnp.zeros((), jnp.int64))

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        return terms.vf(t0, y0, args)

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: _State, made_jump: Any
    ) -> tuple[Any, Any, dict[str, Any], _State, Any]:
        problem, _ = args
        h = t1 - t0
        euler = _BackwardEuler(problem, y0, lambda change: self.size(y0, change))
        whole = euler.step(y0, solver_state.pull, h)
        first = euler.step(y0, solver_state.pull, h / 2)
        second = euler.step(first.params, first.pull, h / 2)
        difference = jax.tree.map(jnp.subtract, second.params, whole.params)
        before = jax.tree.map(jnp.add, second.before, difference)
        y, P = jax.linearize(lambda q: problem.penalty.weighted_prox(q, h / 2), before)
        turned = P(euler.turn(first.before, h / 2, solver_state.penalty))
        ahead = euler.step(y, second.pull, h * _AHEAD)
        next_move = jax.tree.map(lambda a, y: (a - y) / _AHEAD, ahead.params, y)
        leaving = jax.tree.map(jnp.subtract, next_move, P(next_move))
        all_four = (whole, first, second, ahead)
        solved = jnp.stack([part.change for part in all_four]).max() <= euler.enough
        error = jax.tree.map(
            lambda *parts: jnp.where(solved, sum(map(jnp.abs, parts)), jnp.inf), difference, turned, leaving
        )
        iterations = jnp.stack([part.iterations for part in all_four]).sum()
        state = _State(ahead.pull, euler.subgradient(ahead.before, h * _AHEAD), iterations)
        return y, error, {"y0": y0, "y1": y}, state, diffrax.RESULTS.successful


class _BackwardEuler:
    """Newton iterations for θ = prox(base − hJ(θ)ᵀρ) and ρ = r(outputs(θ)), J fixed at where the step starts.

    prox is that of h·β·penalty, so that θ − base = −h(Jᵀρ + β·s) with a subgradient s at θ. ρ, the pull of each
    example, is an unknown of its own, as in `GaussNewton`.

    With P the derivative of prox, R₁ and R₂ the residuals of the two equations and H the curvature of the loss,
    dθ = R₁ − hPJᵀdρ and dρ = R₂ + HJdθ: so (I + hHJPJᵀ)dρ = R₂ + HJR₁, as large as the data. P is 0 on what the prox
    sets to 0, and has to follow it: it is taken anew in every iteration (a semismooth Newton method; Li, Sun and Toh
    2018 do the same for the lasso).
    """

    def __init__(self, problem: Problem, params: PyTree[Array], size: Callable[[PyTree], Array]):
        self.problem, self.size = problem, size
        self.rows = tangent.rows(problem, params)
        # In single precision rounding may be more than that share.
        rounding = jax.tree.map(lambda leaf: jnp.finfo(leaf.dtype).eps * leaf, params)
        self.enough = jnp.maximum(_CONVERGED, 8 * size(rounding))

    def subgradient(self, before: PyTree[Array], h: Float[Array, ""]) -> PyTree[Array]:
        """β·s, s the subgradient of the penalty at prox(before)."""
        after = self.problem.penalty.weighted_prox(before, h)
        return jax.tree.map(lambda b, a: (b - a) / h, before, after)

    def turn(self, before: PyTree[Array], h: Float[Array, ""], start: PyTree[Array]) -> PyTree[Array]:
        """By how much a subgradient that went evenly from `start` to that at prox(before) would have moved it less."""
        return jax.tree.map(lambda s, s0: h / 2 * (s - s0), self.subgradient(before, h), start)

    def step(self, base: PyTree[Array], pull: Float[Array, "n ..."], h: Float[Array, ""]) -> _Solved:
        def unfinished(solved: _Solved) -> Array:
            return (solved.change > self.enough) & (solved.iterations < _ITERATIONS)

        far = jnp.asarray(jnp.inf, jax.eval_shape(self.size, base).dtype)
        begin = _Solved(base, base, pull, far, jnp.zeros((), jnp.int64))
        return jax.lax.while_loop(unfinished, lambda solved: self._improved(base, h, solved), begin)

    def _improved(self, base: PyTree[Array], h: Float[Array, ""], solved: _Solved) -> _Solved:
        params, _, rho, _, iterations = solved
        here = tangent.linearise(self.problem, params)
        before = jax.tree.map(lambda b, f: b - h * f, base, here.pull_back(rho))
        after, P = jax.linearize(lambda q: self.problem.penalty.weighted_prox(q, h), before)
        R1 = jax.tree.map(jnp.subtract, after, params)
        R2 = tangent.residual(self.problem, here.value) - rho
        d_rho = self._solve(here.value, R1, R2, P, h)
        pulled = jax.tree.map(lambda rows: jnp.tensordot(d_rho.ravel(), rows, axes=1), self.rows)
        change = jax.tree.map(lambda R, p: R - h * p, R1, P(pulled))
        moved = jax.tree.map(jnp.add, params, change)
        before = jax.tree.map(lambda b, p: b - h * p, before, pulled)  # what prox maps there, and not one iteration ago
        return _Solved(moved, before, rho + d_rho, self.size(change), iterations + 1)

    def _solve(
        self, outputs: Array, R1: PyTree[Array], R2: Array, P: Callable[[PyTree], PyTree], h: Float[Array, ""]
    ) -> Float[Array, "n ..."]:
        """dρ."""
        H = tangent.curvature(self.problem, outputs)
        m, (n, c, _) = outputs.size, H.shape
        JPJ = _products(self.rows, jax.vmap(P)(self.rows))
        HJPJ = jnp.einsum("iab,ibk->iak", H, JPJ.reshape(n, c, m)).reshape(m, m)
        moved = _products(self.rows, jax.tree.map(lambda leaf: leaf[None], R1))
        right = R2.ravel() + jnp.einsum("iab,ib->ia", H, moved.reshape(n, c)).ravel()
        return jnp.linalg.solve(jnp.eye(m, dtype=h.dtype) + h * HJPJ, right).reshape(R2.shape)


def _products(rows: PyTree[Array], others: PyTree[Array]) -> Float[Array, "m k"]:
    """Inner products of trees, one in every row, with others."""
    pairs = zip(jax.tree.leaves(rows), jax.tree.leaves(others), strict=True)
    return sum(a.reshape(a.shape[0], -1) @ b.reshape(b.shape[0], -1).T for a, b in pairs)  # pyright: ignore


def proximal_solver(size: Callable[[PyTree, PyTree], Array]) -> Solver:
    """The solver: every iteration is a right-hand side and a linear solve."""
    return Solver(ProximalEuler(size), cost=lambda state: (state.iterations, state.iterations))
