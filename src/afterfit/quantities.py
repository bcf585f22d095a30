"""Quantities to record along a run, beside its metrics and norms: `af.train(..., observe={"rank": EffectiveRank()})`.

A function of the user's, f(params, data), is one as it is; a new kind is a subclass of `Quantity` with `value`.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from afterfit._base.definitions import code_of, said_of_function
from afterfit._base.errors import require
from afterfit._base.spec import Spec
from afterfit._base.spectrum import largest_eigenvalue
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._problem import Problem, norm, sum_over, take_examples
from afterfit.models import LinearModel
from afterfit.tasks._base import are_signs

__all__ = [
    "DistanceFromStart",
    "EffectiveRank",
    "FeatureDistance",
    "Function",
    "KernelAlignment",
    "Margin",
    "Quantity",
    "Sharpness",
]


def __dir__() -> list[str]:
    return __all__


class Quantity(Spec):
    """Something to record whenever a run is observed. A new one is a subclass with `value`.

    `problem` has the run's `data`, `model`, `penalty`, `loss`, `gradient` and `objective`. All of it is compiled with
    the rest of an observation.

    ```python
    class Sparsity(af.quantities.Quantity):
        level: float = 1e-3

        def value(self, problem, params, memory):
            return sum(jnp.sum(jnp.abs(p) > self.level) for p in jax.tree.leaves(params))
    ```
    """

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        """Refuse a problem on which it means nothing, before any work."""
        return

    def begin(self, problem: Problem, params: PyTree[Array]) -> PyTree[Array]:
        """What it keeps of the start of the run: the `memory` that `value` is given."""
        return ()

    @abc.abstractmethod
    def value(self, problem: Problem, params: PyTree[Array], memory: PyTree[Array]) -> Array:
        """Its value at `params`: a number, or an array of them."""


class Function(Quantity):
    """Any pure function f(params, data) of JAX arrays, as `observe` takes it: `observe={"largest": f}`.

    `data` has `inputs`, `targets`, `test_inputs`, `test_targets`, and the `truth` where the task has one.
    """

    in_python_only: ClassVar[bool] = True

    function: Callable[[Any, Any], Any]

    def __check_init__(self):
        require(callable(self.function), f"a quantity is a function f(params, data), got {self.function!r:.60}.")

    def value(self, problem: Problem, params: PyTree[Array], memory: PyTree[Array]) -> Array:
        return self.function(params, problem.data)

    def to_dict(self) -> dict[str, Any]:
        """The function's name and a digest of its code."""
        return {**self._said_of_it(), **said_of_function(self.function)}

    def codes(self) -> Iterator[str]:
        yield from super().codes()
        yield code_of(self.function, "the function of an observed quantity")


class EffectiveRank(Quantity):
    """exp of the entropy of the singular values, divided by their sum (Roy & Vetterli 2007): 1 up to the full rank.

    Of the weights of a model that is linear in its input (of a vector of weights, how many of them there are in
    effect); of any other model, one number for each array of its parameters with two axes or more.
    """

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        require(bool(self._matrices(problem, params)), "EffectiveRank is of matrices, and the parameters have none.")

    def value(self, problem: Problem, params: PyTree[Array], memory: PyTree[Array]) -> Array:
        ranks = [_effective_rank(matrix) for matrix in self._matrices(problem, params)]
        return ranks[0] if isinstance(problem.model, LinearModel) else jnp.stack(ranks)

    @staticmethod
    def _matrices(problem: Problem, params: PyTree[Array]) -> list[Array]:
        if isinstance(problem.model, LinearModel):
            return [problem.model.weights(params)]
        return [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(params) if leaf.ndim >= 2]


def _effective_rank(matrix: Array) -> Float[Array, ""]:
    values = jnp.abs(matrix) if matrix.ndim == 1 else jnp.linalg.svd(matrix, compute_uv=False)
    shares = values / jnp.maximum(jnp.sum(values), jnp.finfo(values.dtype).tiny)
    return jnp.exp(-jnp.sum(shares * jnp.log(jnp.where(shares > 0, shares, 1.0))))


class Margin(Quantity):
    """The least margin of a training example, negative until all of them are right.

    With labels ±1 the margin is label x output; with classes it is how far the right one's output is above the others'.
    Where the model is homogeneous of degree L it is divided by ‖θ‖^L, as in the theorems (Lyu et al. 2023, §3.3).
    """

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        require(
            problem.task.metric == "accuracy" or problem.task.loss.metric == "accuracy",
            f"Margin is of a classification, and {type(problem.task).__name__} is judged by its {problem.task.metric}.",
        )

    def value(self, problem: Problem, params: PyTree[Array], memory: PyTree[Array]) -> Array:
        outputs, targets = tangent.outputs(problem, params), tangent.targets(problem)
        degree = problem.model.degree
        return jnp.min(_margins(outputs, targets)) / (norm(params) ** degree if degree else 1.0)


def _margins(outputs: Array, targets: Array) -> Float[Array, " n"]:
    if are_signs(outputs, targets):
        return jnp.ravel(targets * outputs)
    right = targets if targets.ndim == 1 else jnp.argmax(targets, axis=1)  # class numbers, or a number a class
    chosen = jax.nn.one_hot(right, outputs.shape[1], dtype=bool)
    others = jnp.max(jnp.where(chosen, -jnp.inf, outputs), axis=1)
    return jnp.sum(jnp.where(chosen, outputs, 0.0), axis=1) - others


class DistanceFromStart(Quantity):
    """‖θ − θ₀‖₂/‖θ₀‖₂, how far the parameters have come; without the division where the start is 0.

    The start is that of the run: of one that goes on from another, that is where it goes on.
    """

    def begin(self, problem: Problem, params: PyTree[Array]) -> PyTree[Array]:
        return params

    def value(self, problem: Problem, params: PyTree[Array], memory: PyTree[Array]) -> Array:
        size = norm(memory)
        return norm(jax.tree.map(jnp.subtract, params, memory)) / jnp.where(size > 0, size, 1.0)


class KernelAlignment(Quantity):
    """⟨K, K₀⟩/(‖K‖‖K₀‖), K the tangent kernel on the training data and K₀ that at the start: 1 in the kernel regime.

    Of the first `examples` training examples, so that it stays cheap where there are many. The start is that of the
    run: of one that goes on from another, that is where it goes on.
    """

    examples: int = 100

    def __check_init__(self):
        require(self.examples >= 1, f"examples must be 1 or more, got {self.examples}.")

    def begin(self, problem: Problem, params: PyTree[Array]) -> PyTree[Array]:
        return self._kernel(problem, params)

    def value(self, problem: Problem, params: PyTree[Array], memory: PyTree[Array]) -> Array:
        kernel = self._kernel(problem, params)
        sizes = jnp.linalg.norm(kernel) * jnp.linalg.norm(memory)
        return jnp.sum(kernel * memory) / jnp.maximum(sizes, jnp.finfo(kernel.dtype).tiny)

    def _kernel(self, problem: Problem, params: PyTree[Array]) -> Float[Array, "m m"]:
        return tangent.kernel(first_examples(problem, self.examples), params)


class FeatureDistance(Quantity):
    """1 − ⟨J, J₀⟩/(‖J‖‖J₀‖), J the tangent features ∇f(θ; x) of the training data and J₀ those at the start.

    The cosine distance of the features of all examples together: 0 in the kernel regime (the "grad distance" of
    Woodworth et al. 2020, Fig. 6b). Of the first `examples` training examples, so that it stays cheap where there are
    many. The start is that of the run: of one that goes on from another, that is where it goes on.
    """

    examples: int = 100

    def __check_init__(self):
        require(self.examples >= 1, f"examples must be 1 or more, got {self.examples}.")

    def begin(self, problem: Problem, params: PyTree[Array]) -> PyTree[Array]:
        return params  # the features themselves would be as many times larger as there are examples

    def value(self, problem: Problem, params: PyTree[Array], memory: PyTree[Array]) -> Array:
        some = first_examples(problem, self.examples)
        now, start = tangent.rows(some, params), tangent.rows(some, memory)
        product = sum_over(jax.tree.map(jnp.multiply, now, start), jnp.sum)
        sizes = norm(now) * norm(start)
        return 1.0 - product / jnp.maximum(sizes, jnp.finfo(sizes.dtype).tiny)


def first_examples(problem: Problem, count: int) -> Problem:
    """The problem with the first `count` of its training examples, all of them if there are no more."""
    if problem.data.n <= count:
        return problem
    inputs, targets = take_examples(problem.data, jnp.arange(count))
    return dataclasses.replace(problem, data=dataclasses.replace(problem.data, inputs=inputs, targets=targets, n=count))


class Sharpness(Quantity):
    """The largest eigenvalue of the Hessian of loss + penalty: gradient descent is stable below 2/lr.

    By 40 products with the Hessian (the method of Lanczos). Kinks have no part in it.
    """

    def value(self, problem: Problem, params: PyTree[Array], memory: PyTree[Array]) -> Array:
        at, as_tree = ravel_pytree(params)

        def slope(flat: Array) -> Array:
            return ravel_pytree(problem.gradient(as_tree(flat)))[0]

        start = jax.random.normal(jax.random.key(0), at.shape, at.dtype)  # any direction, the same one always
        return largest_eigenvalue(lambda direction: jax.jvp(slope, (at,), (direction,))[1], start)
