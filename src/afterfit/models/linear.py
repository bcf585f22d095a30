"""Linear predictors of a vector, and the diagonal nets that reparametrise them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from afterfit.inputs import Signature
from afterfit.models._base import LinearModel, Parameter, scalar_output
from afterfit.spec import require

__all__ = ["DiagonalNet", "DiagonalProduct", "Linear"]


class Linear(LinearModel):
    """The linear model itself: the parameters are the weights (a vector, or a matrix on matrix tasks)."""

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

    def zero_last_layer(self, params: Any) -> Any:
        return {"weights": np.zeros_like(params["weights"])}


class DiagonalNet(LinearModel):
    """Diagonal linear net: weights w₊^D − w₋^D (Woodworth et al. 2020, (3) and (10); Lyu et al. 2023, (4)).

    `depth` is D ≥ 2. Started at w₊ = w₋ its output is zero.
    """

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

    def symmetrise(self, params: Any) -> Any:
        return {"plus": params["plus"], "minus": params["plus"].copy()}


class DiagonalProduct(LinearModel):
    """Deep diagonal net: weights ⊙ₖ Aₖ, the entrywise product of L factors (Notsawo et al. 2025, §3.5).

    With depth 2 it is ⟨u ⊙ v, x⟩ (Boursier et al. 2025, App. D.2).
    """

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

    def zero_last_layer(self, params: Any) -> Any:
        *others, last = params["factors"]
        return {"factors": [*others, np.zeros_like(last)]}
