"""Products with the Jacobian of a function, forwards and backwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
from jaxtyping import Array, PyTree

__all__ = ["Linearisation", "linearise"]


class Linearisation(NamedTuple):
    """f(x + δ) ≈ value + Jδ: `push_forward` is δ ↦ Jδ and `pull_back` is r ↦ Jᵀr."""

    value: Array
    push_forward: Callable[[PyTree[Array]], Array]
    pull_back: Callable[[Array], PyTree[Array]]


def linearise(f: Callable[[PyTree[Array]], Array], x: PyTree[Array]) -> Linearisation:
    """The value of f at x, and products with its Jacobian there; f needs a reverse derivative only."""
    value, vjp = jax.vjp(f, x)

    def pull_back(r: Array) -> PyTree[Array]:
        return vjp(r)[0]

    # Not jax.jvp: the forward product is the transpose of the backward one, which is all that some models define.
    transposed = jax.linear_transpose(pull_back, value)
    return Linearisation(value, lambda direction: transposed(direction)[0], pull_back)
