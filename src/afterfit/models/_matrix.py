"""Matrices as products of factors."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from afterfit._base.errors import require
from afterfit.models._base import LeastNorm, LinearModel, Parameter
from afterfit.models._inputs import Signature

__all__ = ["DeepMatrixFactorisation", "MatrixFactorisation", "SymmetricFactorisation"]


class _MatrixModel(LinearModel):
    """A model of a matrix, given by its factors."""

    def _shape(self, signature: Signature) -> tuple[int, int]:
        name = type(self).__name__
        require(
            len(signature.inputs) == 2 and signature.outputs == (),
            f"{name} is a model of a matrix, but the task has inputs of shape {signature.inputs}: "
            "choose a matrix task, or Linear or DiagonalNet.",
        )
        rows, columns = signature.inputs
        return rows, columns


class MatrixFactorisation(_MatrixModel):
    """W = UVᵀ with U ∈ R^{rows×rank}, V ∈ R^{columns×rank} (Boursier et al. 2025, (8); Woodworth et al. 2020, §6)."""

    smooth, responsive = True, True

    rank: int

    def __check_init__(self):
        require(self.rank >= 1, f"the rank of a factorisation must be 1 or more, got {self.rank}.")

    def parameters(self, signature: Signature) -> dict[str, Parameter]:
        rows, columns = self._shape(signature)
        return {
            "U": Parameter((rows, self.rank), fan_in=self.rank),
            "V": Parameter((columns, self.rank), fan_in=self.rank),
        }

    def weights(self, params: dict[str, Array]) -> Float[Array, "rows columns"]:
        return product_transposed(params["U"], params["V"])

    def entries_kernel(self, params: dict[str, Array], rows: Array, columns: Array) -> Float[Array, "m m"]:
        # ∂W_ij/∂U = e_i v_jᵀ and ∂W_ij/∂V = e_j u_iᵀ.
        U, V = params["U"], params["V"]
        same_row, same_column = rows[:, None] == rows, columns[:, None] == columns
        return same_row * (V @ V.T)[columns[:, None], columns] + same_column * (U @ U.T)[rows[:, None], rows]

    @property
    def degree(self) -> int:
        return 2

    @property
    def least_norm(self) -> LeastNorm:
        return LeastNorm(1.0, 1.0, of="singular values", source="Boursier et al. 2025, §5")

    def zero_last_layer(self, params: Any) -> Any:
        return {"U": params["U"], "V": np.zeros_like(params["V"])}

    def symmetrise(self, params: Any) -> Any:
        require(self.rank % 2 == 0, f"copies with opposite signs need an even rank, got {self.rank}.")
        half = self.rank // 2
        U, V = params["U"][:, :half], params["V"][:, :half]
        return {"U": np.concatenate([U, U], axis=1), "V": np.concatenate([V, -V], axis=1)}


class SymmetricFactorisation(_MatrixModel):
    """W = UUᵀ − VVᵀ with U, V ∈ R^{d×rank}, rank d when not given (Lyu et al. 2023, §3.3.3)."""

    smooth, responsive = True, True

    rank: int | None = None

    def __check_init__(self):
        require(
            self.rank is None or self.rank >= 1,
            f"the rank of a factorisation must be 1 or more, got {self.rank}.",
        )

    def parameters(self, signature: Signature) -> dict[str, Parameter]:
        rows, columns = self._shape(signature)
        require(rows == columns, f"UUᵀ − VVᵀ is square, but the task's matrix is {rows} x {columns}.")
        factor = Parameter((rows, self.rank or rows), fan_in=self.rank or rows)
        return {"U": factor, "V": factor}

    def weights(self, params: dict[str, Array]) -> Float[Array, "d d"]:
        return _difference_of_squares(params["U"], params["V"])

    def entries_kernel(self, params: dict[str, Array], rows: Array, columns: Array) -> Float[Array, "m m"]:
        # ∂W_ij/∂U = e_i u_jᵀ + e_j u_iᵀ, the same for V but for its sign, which the product of two forgets.
        G = params["U"] @ params["U"].T + params["V"] @ params["V"].T
        pairs = [(rows, columns), (columns, rows)]
        return sum(
            ((a[:, None] == b) * G[c[:, None], d] for a, c in pairs for b, d in pairs),
            start=jnp.zeros((rows.size, rows.size), G.dtype),
        )

    @property
    def degree(self) -> int:
        return 2

    @property
    def least_norm(self) -> LeastNorm:
        return LeastNorm(0.5, 1.0, of="singular values", symmetric=True, source="Lyu et al. 2023, §3.3.3")

    def symmetrise(self, params: Any) -> Any:
        return {"U": params["U"], "V": params["U"].copy()}


class DeepMatrixFactorisation(_MatrixModel):
    """W = A₁A₂⋯A_L, inner dimensions `width` (Notsawo et al. 2025, App. F.2). Depth 1 is the matrix itself."""

    smooth, responsive = True, True

    depth: int = 3
    width: int | None = None

    def __check_init__(self):
        require(self.depth >= 1, f"depth must be 1 or more, got {self.depth}.")
        require(self.width is None or self.width >= 1, f"width must be 1 or more, got {self.width}.")

    def parameters(self, signature: Signature) -> dict[str, list[Parameter]]:
        rows, columns = self._shape(signature)
        inner = [self.width or min(rows, columns)] * (self.depth - 1)
        sizes = [rows, *inner, columns]
        return {"factors": [Parameter((m, n), fan_in=n) for m, n in itertools.pairwise(sizes)]}

    def weights(self, params: dict[str, list[Array]]) -> Float[Array, "rows columns"]:
        product = params["factors"][0]
        for factor in params["factors"][1:]:
            product = product_transposed(product, factor.T)
        return product

    @property
    def operations(self) -> int:
        return self.depth

    @property
    def degree(self) -> int:
        return self.depth

    @property
    def linear(self) -> bool:
        return self.depth == 1

    @property
    def least_norm(self) -> LeastNorm:
        # ½‖θ‖² = (L/2)·Σσ^{2/L} with all factors in balance; for L = 2 it is the nuclear norm.
        return LeastNorm(self.depth / 2, 2 / self.depth, of="singular values", source="Boursier et al. 2025, §5")

    def zero_last_layer(self, params: Any) -> Any:
        *others, last = params["factors"]
        return {"factors": [*others, np.zeros_like(last)]}


@jax.custom_vjp
def _difference_of_squares(U: Float[Array, "d k"], V: Float[Array, "d k"]) -> Float[Array, "d d"]:
    """UUᵀ − VVᵀ, as the symmetric part of (U+V)(U−V)ᵀ.

    That is one product instead of two, and no cancellation between two large matrices when U ≈ V, which is
    where these runs start. The gradient is written out because JAX does not know that S + Sᵀ is symmetric and
    multiplies by transposes, at twice the cost of a whole step. (Forward-mode differentiation is not defined.)
    """
    half = product_transposed(U + V, U - V)
    return (half + half.T) / 2


def _difference_of_squares_forward(U: Array, V: Array) -> tuple[Array, tuple[Array, Array]]:
    return _difference_of_squares(U, V), (U, V)


def _difference_of_squares_backward(factors: tuple[Array, Array], S: Array) -> tuple[Array, Array]:
    U, V = factors
    both = S + S.T
    return both @ U, -(both @ V)


_difference_of_squares.defvjp(_difference_of_squares_forward, _difference_of_squares_backward)


def product_transposed(A: Float[Array, "m k"], B: Float[Array, "n k"]) -> Float[Array, "m n"]:
    """A Bᵀ.

    XLA calls a library for every matrix product, which on a CPU costs microseconds whatever the size. For
    small matrices, multiplying and summing in one fused loop is more than twice as fast (20 x 10 by 10 x 20:
    a whole descent step in 2.9 µs instead of 7.1).
    """
    if A.shape[0] * A.shape[1] * B.shape[0] <= 10_000:
        return jnp.sum(A[:, None, :] * B[None, :, :], axis=-1)
    return A @ B.T
