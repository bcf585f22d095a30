"""What a model is shown: the few kinds of input, and how a linear map acts on each.

Most inputs are plain arrays with one row per example. Two kinds have structure worth keeping: the observed
entries of a matrix (`Entries`) and concatenated one-hot vectors (`OneHot`), whose product with a weight
matrix is a table lookup rather than a matrix product.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

__all__ = ["Entries", "OneHot", "Signature", "measure", "preactivations"]


@dataclasses.dataclass(frozen=True)
class Signature:
    """What a model must know of a task to have parameters: the shapes of one input and of one output.

    `inputs` is `(d,)` for vectors and `(rows, columns)` for matrices; `outputs` is `()` for one number and
    `(c,)` for c numbers; `tokens` is how many symbols there are when inputs are made of symbols.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    tokens: int | None = None


class Entries(eqx.Module):
    """Observed entries of a matrix: 1 where observed, 0 elsewhere.

    The outputs on these inputs are the whole matrix with the unobserved entries set to zero: a product with a
    mask costs less than gathering and scattering the entries, at every size the papers use.
    """

    mask: Float[Any, "rows columns"]


class OneHot(eqx.Module):
    """Each example is k tokens in range(size), standing for the concatenation of their one-hot vectors."""

    tokens: Int[Any, "n k"]
    size: int = eqx.field(static=True)

    def dense(self) -> Float[Array, "n k*size"]:
        """The one-hot vectors written out."""
        return jax.nn.one_hot(self.tokens, self.size).reshape(self.tokens.shape[0], -1)

    def rows(self) -> list[Int[Array, " n"]]:
        """Which rows of a (k·size)-row table the examples add up."""
        return [self.tokens[:, k] + k * self.size for k in range(self.tokens.shape[1])]


def measure(inputs: Any, weights: Array) -> Array:
    """⟨weights, input⟩ for every input: the outputs of a model that is linear in its input."""
    if isinstance(inputs, Entries):
        return inputs.mask * weights
    if isinstance(inputs, OneHot):
        return sum((weights[row] for row in inputs.rows()), start=jnp.zeros((), weights.dtype))
    if weights.ndim == 1:
        return inputs @ weights
    return jnp.tensordot(inputs, weights, axes=weights.ndim)


def preactivations(inputs: Any, weight: Float[Array, "h d"], bias: Float[Array, " h"] | None) -> Float[Array, "n h"]:
    """W x + b for every input."""
    if isinstance(inputs, OneHot):
        k = inputs.tokens.shape[1]
        # The bias is shared out over the k looked-up rows: adding it to the (small) table costs less, forwards
        # and backwards, than adding it to all n examples. The barrier makes XLA write the transposed table
        # once instead of striding through the weights at every lookup.
        table = weight.T if bias is None else weight.T + bias / k
        table = jax.lax.optimization_barrier(table)
        return sum((table[row] for row in inputs.rows()), start=jnp.zeros((), table.dtype))
    h = inputs @ weight.T
    return h if bias is None else h + bias
