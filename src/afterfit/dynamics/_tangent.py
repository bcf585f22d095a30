"""A problem seen from its data: the outputs that the data constrain, and the model's first-order change there.

With m outputs and p parameters, J is the m x p Jacobian of the outputs (its rows are the tangent features), K = JJᵀ the
tangent kernel, r the derivative of the loss with respect to the outputs and H its second derivative. Gradient flow is
θ' = −Jᵀr − β∇h(θ). J itself is never formed where products with it are enough.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit._base import jacobians
from afterfit._base.jacobians import Linearisation
from afterfit._base.kernels import gram_of_examples
from afterfit.dynamics._problem import Problem
from afterfit.models._inputs import as_inputs

__all__ = [
    "Linearisation",
    "curvature",
    "gram",
    "kernel",
    "linearise",
    "of_weights",
    "outputs",
    "residual",
    "rows",
    "targets",
]

_TOGETHER = 2**26  # numbers of a Jacobian that are held at once: half a gigabyte


def outputs(problem: Problem, params: PyTree[Array]) -> Float[Array, "n ..."]:
    """What the model says of every training example; of a matrix, its observed entries as a vector."""
    return _observed(problem, problem.model.outputs(params, problem.data.inputs))


def of_weights(problem: Problem, weights: Array) -> Float[Array, " n"]:
    """What a linear predictor says of every training example."""
    return _observed(problem, as_inputs(problem.data.inputs).measure(weights))


def targets(problem: Problem) -> Array:
    """What it should say, in the same shape (or class numbers)."""
    return _observed(problem, problem.data.targets)


def residual(problem: Problem, outputs: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
    """r, the derivative of the training loss with respect to the outputs."""
    return jax.grad(lambda o: problem.task.loss(o, targets(problem), problem.data.n))(outputs)


def curvature(problem: Problem, outputs: Float[Array, "n ..."]) -> Float[Array, "n c c"]:
    """H, the second derivative of the loss with respect to the c outputs of each example."""
    # Examples do not mix in a loss, so one direction tells a column of every example's block.
    flat = outputs.reshape(outputs.shape[0], -1)

    def column(direction: Float[Array, " c"]) -> Float[Array, "n c"]:
        along = jnp.broadcast_to(direction, flat.shape).reshape(outputs.shape)
        _, change = jax.jvp(lambda o: residual(problem, o), (outputs,), (along,))
        return change.reshape(flat.shape)

    return jax.vmap(column, out_axes=2)(jnp.eye(flat.shape[1], dtype=flat.dtype))


def linearise(problem: Problem, params: PyTree[Array]) -> Linearisation:
    """The outputs at `params`, and products with their Jacobian there."""
    return jacobians.linearise(lambda p: outputs(problem, p), params)


def kernel(problem: Problem, params: PyTree[Array]) -> Float[Array, "m m"]:
    """K = JJᵀ, the tangent kernel on the training data, with the outputs of all examples in a row."""
    inputs, n = as_inputs(problem.data.inputs), problem.data.n
    model, params = problem.model.tangent_at(params)
    known = inputs.kernel(model, params, n)
    if known is not None:
        return known
    if model.separate:
        return gram_of_examples(model, params, inputs.apart(n))
    return gram(jacobians.linearise(lambda p: _observed(problem, model.outputs(p, problem.data.inputs)), params))


def rows(problem: Problem, params: PyTree[Array]) -> PyTree[Float[Array, "m ..."]]:
    """J itself: a tree as the parameters are, each array with a first axis more, for the outputs in a row."""
    inputs, n = as_inputs(problem.data.inputs), problem.data.n
    model, params = problem.model.tangent_at(params)
    if model.separate:
        jacobian = jax.vmap(lambda x: jax.jacrev(lambda p: jnp.ravel(model(p, x)))(params))(inputs.apart(n))
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), jacobian)
    at = linearise(problem, params)
    return jax.vmap(at.pull_back)(jnp.eye(at.value.size, dtype=at.value.dtype).reshape(-1, *at.value.shape))


def gram(at: Linearisation) -> Float[Array, "m m"]:
    """JJᵀ of any function, in memory bounded by its result and some times `_TOGETHER` numbers."""
    shape, m = at.value.shape, at.value.size
    units = jnp.eye(m, dtype=at.value.dtype).reshape(m, *shape)
    way = jax.make_jaxpr(at.pull_back)(at.value)
    p = sum(result.size for result in way.out_avals)
    widest = max((out.aval.size for step in way.eqns for out in step.outvars), default=p)  # all examples, on the way
    together = max(1, _TOGETHER // (8 * max(p, widest)))
    if m * p > _TOGETHER:  # J itself would be too large: K column by column, some together
        columns = jax.lax.map(lambda r: at.push_forward(at.pull_back(r)), units, batch_size=together)
        return columns.reshape(m, m)
    rows = jax.lax.map(at.pull_back, units, batch_size=together) if m > together else jax.vmap(at.pull_back)(units)
    flat = [leaf.reshape(m, -1) for leaf in jax.tree.leaves(rows)]
    return sum((leaf @ leaf.T for leaf in flat), start=jnp.zeros((m, m), flat[0].dtype))


def _observed(problem: Problem, values: Array) -> Array:
    return as_inputs(problem.data.inputs).observed(values, problem.data.n)
