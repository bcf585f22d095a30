"""The steps of `implicit` with stages whose pull of each example is computed from the stage, not an unknown."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import afterfit as af

if TYPE_CHECKING:
    from jaxtyping import Array, PyTree

__all__ = ["steps_without_the_pull"]


def steps_without_the_pull(run: af.Run) -> int:
    """How many steps the flow of a run takes, of the same method and tolerance, if ρ is computed from each stage."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    instance = af.theory.instance_of(run)
    with jax.enable_x64(True):
        strength = jnp.asarray(run.spec["penalty"]["strength"])  # traced: one compilation serves every λ
        problem = eqx.tree_at(lambda problem: problem.penalty.strength, instance.problem, strength)
        targets = jnp.asarray(run.curves["time"].values[1:])
        return int(_follow()(problem, instance.initial, targets))


@functools.cache  # on first use, since the gallery is listed without JAX
def _follow() -> Callable[..., Array]:
    """A compiled function: the steps, rejected ones too, of a flow that lands on all `targets`."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from afterfit.dynamics import _tangent as tangent
    from afterfit.dynamics._base import State
    from afterfit.dynamics._methods.implicit import GaussNewton, Implicit

    class FromTheStage(GaussNewton):
        def improve(self, t: Array, base: Any, params: Any, rho: Array) -> tuple[Any, Array, int | Array]:
            return super().improve(
                t, base, params, tangent.residual(self.problem, tangent.outputs(self.problem, params))
            )

    class WithoutThePull(Implicit):  # without a name of its own: nobody can ask for it
        def corrector(self, problem: af.dynamics.Problem, params: Any, gh: Array) -> GaussNewton:
            return FromTheStage(problem, params, gh)

    method = WithoutThePull(rtol=Implicit.default_rtol, atol=1e-9, max_steps=1_000_000)

    @eqx.filter_jit
    def follow(problem: af.dynamics.Problem, params: PyTree[Array], targets: Array) -> Array:
        start = State(params, method.start(problem, params), jnp.zeros((), jnp.int64), jax.random.key(0))
        last = jnp.asarray(method.max_steps)
        end, _ = jax.lax.scan(lambda s, target: (method.advance(problem, s, target, last), None), start, targets)
        return end.step

    return follow
