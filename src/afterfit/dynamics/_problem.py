"""A task observed through data, a model, and a penalty: the function that a dynamics goes down."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from afterfit._base.errors import require
from afterfit.models import Model
from afterfit.models._inputs import as_inputs
from afterfit.penalties import Penalty
from afterfit.tasks import Data, Task

__all__ = ["Problem", "pose"]


class Problem(eqx.Module):
    """f = g + β·h: the loss g of a model on data, and a penalty h with strength β.

    `watched` are the quantities that a run was asked to observe beside its own, by name: each with what it keeps of the
    start.
    """

    task: Task
    model: Model
    penalty: Penalty
    data: Data
    watched: dict[str, tuple[Any, PyTree[Array]]] = eqx.field(default_factory=dict)

    def loss(self, params: PyTree[Array]) -> Float[Array, ""]:
        """g(params), the training loss."""
        return self.task.loss(self.model.outputs(params, self.data.inputs), self.data.targets, self.data.n)

    def log_loss(self, params: PyTree[Array]) -> Float[Array, ""]:
        """log g(params), without underflow."""
        return self.task.loss.log_value(self.model.outputs(params, self.data.inputs), self.data.targets, self.data.n)

    def objective(self, params: PyTree[Array]) -> Float[Array, ""]:
        """g(params) + β·h(params)."""
        return self.loss(params) + self.penalty.weighted_value(params)

    def gradient(self, params: PyTree[Array]) -> PyTree[Array]:
        """G + β·H, G the gradient of the loss and H a subgradient of the penalty."""
        return jax.tree.map(jnp.add, jax.grad(self.loss)(params), self.penalty.weighted_subgradient(params))

    def batch_gradient(self, params: PyTree[Array], examples: Int[Array, " b"]) -> PyTree[Array]:
        """The gradient with the loss estimated, without bias, from some examples."""
        inputs, targets = take_examples(self.data, examples)
        share = self.data.n / examples.shape[0]

        def loss(params: PyTree[Array]) -> Float[Array, ""]:
            return share * self.task.loss(self.model(params, inputs), targets, self.data.n)

        return jax.tree.map(jnp.add, jax.grad(loss)(params), self.penalty.weighted_subgradient(params))

    def observe(self, params: PyTree[Array]) -> dict[str, Array]:
        """Every quantity that a run records at one time."""
        dtype = jax.tree.leaves(params)[0].dtype
        observed = {
            **self.usual(params),
            **self.model.observe(params),
            **{name: quantity.value(self, params, memory) for name, (quantity, memory) in self.watched.items()},
        }
        return {name: jnp.asarray(value, dtype) for name, value in observed.items()}

    def usual(self, params: PyTree[Array]) -> dict[str, Array]:
        """What is recorded of every model: metrics and norms."""
        return {
            **self.task.metrics(self.model, params, self.data),
            "penalty": self.penalty.value(params),
            "norm_l1": sum_over(params, lambda leaf: jnp.sum(jnp.abs(leaf))),
            "norm_l2": norm(params),
            "loss_gradient": norm(jax.grad(self.loss)(params)),
            "penalty_gradient": norm(self.penalty.weighted_subgradient(params)),
        }


def pose(task: Task, model: Model, penalty: Penalty, data: Data) -> Problem:
    """Put the problem together, the data in the task's precision."""
    data = jax.tree.map(lambda leaf: _as_array(leaf, task.precision), data)
    bound = penalty.bind(model, data)
    # Arrays inside specifications (the user's data, initial parameters) are not part of the function: what
    # the compiled code needs of them is in `data` and in the parameters.
    task, model = (
        eqx.filter(spec, lambda leaf: not isinstance(leaf, np.ndarray | jax.Array)) for spec in (task, model)
    )
    return Problem(task, model, bound, data)


def _as_array(leaf: Any, precision: str) -> Array:
    leaf = np.asarray(leaf)
    if np.issubdtype(leaf.dtype, np.floating):
        return jnp.asarray(leaf, jnp.float64 if precision == "double" else jnp.float32)
    return jnp.asarray(leaf)


def take_examples(data: Data, examples: Int[Array, " b"]) -> tuple[Any, Array]:
    """Inputs and targets of some training examples."""
    return as_inputs(data.inputs).take(examples, data.targets, data.n)


def design_matrix(problem: Problem) -> Float[Array, "N n"]:
    """The matrix X of a problem whose parameters are the weights: outputs = X·vec(weights)."""
    require(
        problem.model.direct,
        f"this dynamics projects onto {{a : Xa = y}} and needs models.Linear, not {type(problem.model).__name__}.",
    )
    n = problem.data.n
    return as_inputs(problem.data.inputs).design(n).reshape(n, -1)


def sum_over(tree: PyTree[Array], of: Any) -> Array:
    """Σ of `of(leaf)` over the arrays of a tree."""
    total = jnp.zeros(())
    for leaf in jax.tree.leaves(tree):
        total = total + of(leaf)
    return total


def norm(tree: PyTree[Array]) -> Array:
    """The Euclidean norm of all arrays of a tree together."""
    return jnp.sqrt(sum_over(tree, lambda leaf: jnp.sum(leaf**2)))
