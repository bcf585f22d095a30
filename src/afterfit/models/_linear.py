"""Linear predictors of a vector, and the diagonal nets that reparametrise them."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from afterfit._base.errors import require
from afterfit.models._base import LeastNorm, LinearModel, Parameter, scalar_output
from afterfit.models._inputs import Signature

__all__ = ["DiagonalNet", "DiagonalProduct", "Linear"]

_SUBSTEPS = 8  # of the Runge–Kutta method that follows three or more factors


class Linear(LinearModel):
    """The linear model itself: the parameters are the weights (a vector, or a matrix on matrix tasks)."""

    smooth, responsive, direct = True, True, True

    def parameters(self, signature: Signature) -> dict[str, Parameter]:
        scalar_output(self, signature)
        return {"weights": Parameter(signature.inputs, fan_in=int(np.prod(signature.inputs)))}

    def weights(self, params: dict[str, Array]) -> Array:
        return params["weights"]

    def weight_kernel(self, params: dict[str, Array]) -> Array:
        return params["weights"] * 0 + 1

    @property
    def degree(self) -> int:
        return 1

    @property
    def linear(self) -> bool:
        return True

    @property
    def least_norm(self) -> LeastNorm:
        return LeastNorm(0.5, 2.0, source="Notsawo et al. 2025, Thm 3.6")

    def zero_last_layer(self, params: Any) -> Any:
        return {"weights": np.zeros_like(params["weights"])}


class DiagonalNet(LinearModel):
    """Diagonal linear net: weights w₊^D − w₋^D (Woodworth et al. 2020, (3) and (10); Lyu et al. 2023, (4)).

    `depth` is D ≥ 2. Started at w₊ = w₋ its output is zero.
    """

    smooth, responsive = True, True

    depth: int = 2

    def __check_init__(self):
        require(self.depth >= 2, f"a DiagonalNet has depth 2 or more, got {self.depth}: use Linear for depth 1.")

    def parameters(self, signature: Signature) -> dict[str, Parameter]:
        scalar_output(self, signature)
        return {"plus": Parameter(signature.inputs), "minus": Parameter(signature.inputs)}

    def weights(self, params: dict[str, Float[Array, " d"]]) -> Float[Array, " d"]:
        # p^D − m^D = (p − m)(p^{D−1} + p^{D−2}m + … + m^{D−1}): exactly 0 where p = m, and no cancellation near it.
        p, m, D = params["plus"], params["minus"], self.depth
        total = p ** (D - 1)
        for k in range(1, D):
            total = total + p ** (D - 1 - k) * m**k
        return (p - m) * total

    @property
    def operations(self) -> int:
        return self.depth

    def weight_kernel(self, params: dict[str, Float[Array, " d"]]) -> Float[Array, " d"]:
        p, m, D = params["plus"], params["minus"], self.depth
        return D**2 * (p ** (2 * D - 2) + m ** (2 * D - 2))

    @property
    def degree(self) -> int:
        return self.depth

    @property
    def power(self) -> int:
        return self.depth

    @property
    def least_norm(self) -> LeastNorm:
        source = "Lyu et al. 2023, Cor. 3.7" if self.depth == 2 else "Woodworth et al. 2020, §5"
        return LeastNorm(0.5, 2 / self.depth, source=source)

    def pushed(self, params: dict[str, Float[Array, " d"]], push: Float[Array, " d"]) -> dict[str, Float[Array, " d"]]:
        # w₊' = −D·w₊^{D−1}·q, and the same with the other sign for w₋.
        D = self.depth
        return {"plus": _moved(params["plus"], D, D * push), "minus": _moved(params["minus"], D, -D * push)}

    def symmetrise(self, params: Any) -> Any:
        return {"plus": params["plus"], "minus": params["plus"].copy()}


class DiagonalProduct(LinearModel):
    """Deep diagonal net: weights ⊙ₖ Aₖ, the entrywise product of L factors (Notsawo et al. 2025, §3.5).

    With depth 2 it is ⟨u ⊙ v, x⟩ (Boursier et al. 2025, App. D.2).
    """

    smooth, responsive = True, True

    depth: int = 2

    def __check_init__(self):
        require(self.depth >= 1, f"depth must be 1 or more, got {self.depth}.")

    def parameters(self, signature: Signature) -> dict[str, list[Parameter]]:
        scalar_output(self, signature)
        n = int(np.prod(signature.inputs))
        return {"factors": [Parameter(signature.inputs, fan_in=n)] * self.depth}

    def weights(self, params: dict[str, list[Float[Array, " d"]]]) -> Float[Array, " d"]:
        product = params["factors"][0]
        for factor in params["factors"][1:]:
            product = product * factor
        return product

    def weight_kernel(self, params: dict[str, list[Float[Array, " d"]]]) -> Float[Array, " d"]:
        factors, one = params["factors"], params["factors"][0] * 0 + 1
        others = (math.prod(factors[:k] + factors[k + 1 :], start=one) for k in range(self.depth))
        return sum((other**2 for other in others), start=0 * one)

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
        # (L/2)·|w|^{2/L} with all factors of a weight in balance.
        return LeastNorm(self.depth / 2, 2 / self.depth, source="Boursier et al. 2025, App. D.2")

    def pushed(
        self, params: dict[str, list[Float[Array, " d"]]], push: Float[Array, " d"]
    ) -> dict[str, list[Float[Array, " d"]]]:
        if self.depth == 2:
            # (u + v)' = −q(u + v) and (u − v)' = q(u − v): u² − v² is conserved.
            u, v = params["factors"]
            both, apart = (u + v) * jnp.exp(-push), (u - v) * jnp.exp(push)
            return {"factors": [(both + apart) / 2, (both - apart) / 2]}
        return {"factors": list(_moved_factors(jnp.stack(params["factors"]), push))}

    def zero_last_layer(self, params: Any) -> Any:
        *others, last = params["factors"]
        return {"factors": [*others, np.zeros_like(last)]}


def _moved(w: Float[Array, " d"], D: int, push: Float[Array, " d"]) -> Float[Array, " d"]:
    """Where w' = −w^{D−1}·push' takes w: w·exp(−push), and for D > 2 w^{2−D} grows by (D−2)·push."""
    if D == 2:
        return w * jnp.exp(-push)
    # In magnitudes: the sign of w stays, and turns the push around where D is odd.
    inverse = jnp.abs(w) ** (2 - D) + (D - 2) * jnp.sign(w) ** D * push
    return jnp.sign(w) * inverse ** (-1 / (D - 2))


def _moved_factors(factors: Float[Array, "L d"], push: Float[Array, " d"]) -> Float[Array, "L d"]:
    """Where A_k' = −(∏_{j≠k} A_j)·push' takes three or more factors.

    All A_k² − A_j² are conserved, so each weight moves on a curve that `push` is the parameter of; for equal magnitudes
    it is that of `_moved`, for three factors one of elliptic functions. It is followed by Runge–Kutta steps, to 10⁻⁷ of
    what a step that halves a weight changes.
    """

    def slope(A: Float[Array, "L d"]) -> Float[Array, "L d"]:
        return -push / _SUBSTEPS * jnp.stack([jnp.prod(jnp.delete(A, k, axis=0), axis=0) for k in range(len(A))])

    def substep(_: Array, A: Float[Array, "L d"]) -> Float[Array, "L d"]:
        k1 = slope(A)
        k2 = slope(A + k1 / 2)
        k3 = slope(A + k2 / 2)
        return A + (k1 + 2 * k2 + 2 * k3 + slope(A + k3)) / 6

    return jax.lax.fori_loop(0, _SUBSTEPS, substep, factors)
