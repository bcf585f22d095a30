"""Tangent features at real sizes: products with J, some of its kernel, and its mean kernel, each compiled.

A 10,000 x 10,000 kernel is 0.8 GB, but a product with it is one pass forwards and one backwards through the model.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from afterfit._base import jacobians
from afterfit._base.definitions import compiled
from afterfit._base.jacobians import Linearisation
from afterfit._base.kernels import gram_of_examples
from afterfit._base.machine import blas_on_one_thread
from afterfit._base.spectrum import largest_eigenvalue
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._problem import Problem
from afterfit.models._inputs import as_inputs
from afterfit.theory._matrix_free import least_eigenvalue

__all__ = ["MOST", "Features"]

MOST = 3000  # outputs whose kernel is factorised in seconds

_TOGETHER = 512  # gradients at least, of which inner products are computed: few sizes are few compiled programs
_WIDEST = 5000  # examples whose mean kernel is factorised: 0.2 GB, in seconds


class Features(eqx.Module):
    """J of a problem's m outputs at some parameters, those of the p parameters only that are `trained` (1, others 0).

    Vectors of parameters are flat, and so are those of outputs.
    """

    problem: Problem
    moving: PyTree[Array]
    fixed: PyTree[Array]
    trained: PyTree[Array]

    def __init__(self, problem: Problem, params: PyTree[Array], trained: PyTree[Array] | None = None):
        if trained is None:
            trained = jax.tree.map(jnp.ones_like, params)
        self.problem = problem
        some = jax.tree.map(lambda leaf: bool(jnp.any(leaf != 0)), trained)
        self.moving, self.fixed = eqx.partition(params, some)
        self.trained = eqx.filter(trained, some)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the outputs: n, or n x c."""
        return jax.eval_shape(lambda moving: self._of(moving), self.moving).shape

    @property
    def parameters(self) -> int:
        """How many are trained."""
        return int(sum(float(jnp.sum(leaf)) for leaf in jax.tree.leaves(self.trained)))

    def product(self, r: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        """JJᵀr."""
        return np.asarray(_product(self, jnp.asarray(r, float)))

    def push_forward(self, h: Float[np.ndarray, " p"]) -> Float[np.ndarray, " m"]:
        """Jh."""
        return np.asarray(_pushed(self, jnp.asarray(h, float)))

    def pull_back(self, r: Float[np.ndarray, " m"]) -> Float[np.ndarray, " p"]:
        """Jᵀr."""
        return np.asarray(_pulled(self, jnp.asarray(r, float)))

    def gram(self, examples: Int[np.ndarray, " k"], weights: Float[np.ndarray, "k c"]) -> Float[np.ndarray, "k k"]:
        """Inner products of k gradients, each of a weighted sum of the outputs of one example."""
        k = len(examples)
        filled = np.minimum(np.arange(max(_TOGETHER, 1 << (k - 1).bit_length())), k - 1)  # few sizes: few programs
        return np.asarray(_gram(self, jnp.asarray(examples[filled]), jnp.asarray(weights[filled])))[:k, :k]

    def displaced(self, h: Float[np.ndarray, " p"], scale: float = 1.0) -> PyTree[Array]:
        """The parameters, and scale·h more."""
        moved = jax.tree.map(lambda leaf, step: leaf + scale * step, self.moving, self._tree(jnp.asarray(h)))
        return eqx.combine(moved, self.fixed)

    @functools.cached_property
    def preconditioner(self) -> Any:
        """r ↦ r/K for K about K₁ ⊗ I: as if the outputs of an example were alike and had nothing in common.

        So it is for a wide network whose last layer is random. K₁ is the mean over the outputs of their kernels.
        Nothing is done where that is too large, or the model does not act on one example at a time.
        """
        n, *outputs = self.shape
        if n > _WIDEST or not self.problem.model.separate:
            return lambda r: r
        from scipy.linalg import cho_factor, cho_solve

        K = np.array(_mean_kernel(self))
        K[np.diag_indices(n)] += 1e-12 * np.mean(np.diag(K))  # dependent rows
        factors = cho_factor(K, overwrite_a=True)
        return lambda r: cho_solve(factors, r.reshape(n, *outputs)).ravel()

    @property
    def apart(self) -> bool:
        """Whether an example's gradients are those of a model of it alone: no array is trained in part."""
        return self.problem.model.separate and all(bool(jnp.all(leaf == 1)) for leaf in jax.tree.leaves(self.trained))

    @functools.cached_property
    def kernel(self) -> Float[np.ndarray, "m m"]:
        """JJᵀ itself, for examples `apart`."""
        return np.asarray(_kernel(self))

    @functools.cached_property
    def largest(self) -> float:
        """The largest eigenvalue of JJᵀ."""
        start = np.random.default_rng(0).standard_normal(math.prod(self.shape))
        return float(_largest(self, jnp.asarray(start)))

    @functools.cached_property
    def least(self) -> float:
        """The least eigenvalue of JJᵀ, from above."""
        m = math.prod(self.shape)
        if m > self.parameters:
            return 0.0
        with blas_on_one_thread():
            return max(0.0, least_eigenvalue(self.product, m, self.preconditioner))

    def _of(self, moving: PyTree[Array]) -> Array:
        return tangent.outputs(self.problem, eqx.combine(moving, self.fixed))

    def _linearised(self) -> Linearisation:
        return jacobians.linearise(self._of, self.moving)

    def _kernel_product(self, r: Float[Array, " m"]) -> Float[Array, " m"]:
        at = self._linearised()
        return jnp.ravel(at.push_forward(self._tree(self._flat(at.pull_back(r.reshape(at.value.shape))))))

    def _flat(self, h: PyTree[Array]) -> Float[Array, " p"]:
        return ravel_pytree(jax.tree.map(jnp.multiply, h, self.trained))[0]

    def _tree(self, h: Float[Array, " p"]) -> PyTree[Array]:
        return jax.tree.map(jnp.multiply, ravel_pytree(self.moving)[1](h), self.trained)


@compiled
def _product(of: Features, r: Array) -> Array:
    return of._kernel_product(r)


@compiled
def _largest(of: Features, start: Array) -> Array:
    return largest_eigenvalue(of._kernel_product, start)


@compiled
def _pushed(of: Features, h: Array) -> Array:
    return jnp.ravel(of._linearised().push_forward(of._tree(h)))


@compiled
def _pulled(of: Features, r: Array) -> Array:
    at = of._linearised()
    return of._flat(at.pull_back(r.reshape(at.value.shape)))


@compiled
def _gram(of: Features, examples: Array, weights: Array) -> Array:
    problem, inputs = of.problem, as_inputs(of.problem.data.inputs)
    if problem.model.separate:

        def weighted(moving: PyTree[Array], example: tuple[Any, Array]) -> Array:
            x, w = example
            return w @ jnp.ravel(problem.model(eqx.combine(moving, of.fixed), x))

        chosen = jax.tree.map(lambda leaf: leaf[examples], inputs.apart(problem.data.n))
        return gram_of_examples(weighted, of.moving, (chosen, weights))
    at = of._linearised()
    alone = lambda i, w: jnp.zeros((len(at.value), w.size)).at[i].set(w).reshape(at.value.shape)  # noqa: E731
    columns = jax.lax.map(lambda row: at.push_forward(at.pull_back(alone(*row))), (examples, weights))
    return jnp.einsum("jkc,kc->jk", columns.reshape(len(columns), len(at.value), -1)[:, examples], weights)


@compiled
def _mean_kernel(of: Features) -> Array:
    return _of_examples(of, mean=True)


@compiled
def _kernel(of: Features) -> Array:
    return _of_examples(of)


def _of_examples(of: Features, mean: bool = False) -> Array:
    problem = of.problem
    examples = as_inputs(problem.data.inputs).apart(problem.data.n)
    return gram_of_examples(lambda m, x: problem.model(eqx.combine(m, of.fixed), x), of.moving, examples, mean=mean)
