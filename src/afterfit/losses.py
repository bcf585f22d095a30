"""Losses, with the exact factor each paper writes in front of the sum.

A loss is called as `loss(outputs, targets, n)` with `n` the number of examples, since some papers sum over
examples and others average. `log_value` is its logarithm, computed without underflow: without weight decay a
classification loss falls below 10^-300 and training goes on (Lyu et al. 2023, App. B.1).
"""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from afterfit._base.errors import nearest, require
from afterfit._base.spec import Capable

__all__ = ["CrossEntropy", "Exponential", "Logistic", "Loss", "Squared"]


def __dir__() -> list[str]:
    return __all__


_FACTORS = {
    "sum": lambda n: 1.0,  # Woodworth et al. 2020, §2; Boursier et al. 2025, (8)
    "half_sum": lambda n: 0.5,  # Notsawo et al. 2025, §3.1
    "mean": lambda n: 1.0 / n,  # Lyu et al. 2023, (2)
    "half_mean": lambda n: 0.5 / n,  # Boursier et al. 2025, Fig. 3; Notsawo et al. 2025, §4
}


class Loss(Capable, eqx.Module):
    """factor(n) · Σᵢ ℓ(outputᵢ, targetᵢ). A new one is a subclass with `each` and the `metric` that belongs to it.

    `metric` is what fit and generalisation are measured by: `"error"` where outputs are to equal real targets,
    `"accuracy"` where they are to be right. `form` is what theorems call ℓ: `"squared"`, `"logistic"`,
    `"exponential"` or `"cross_entropy"`; None for one that none is about.
    """

    formula: ClassVar[tuple[str, ...]] = ("each", "log_each", "__call__", "log_value")
    capabilities: ClassVar[tuple[str, ...]] = ("form",)

    metric: ClassVar[str]
    form: ClassVar[str | None] = None

    reduction: str = eqx.field(default="mean", static=True)

    def __check_init__(self):
        require(
            self.reduction in _FACTORS,
            f"unknown loss reduction {self.reduction!r}: {nearest(self.reduction, _FACTORS)}",
        )

    def each(self, outputs: Array, targets: Array) -> Array:
        """ℓ of each example."""
        raise TypeError(f"{type(self).__name__} does not define its loss: write the method each().")

    def __call__(self, outputs: Array, targets: Array, n: int) -> Float[Array, ""]:
        return _FACTORS[self.reduction](n) * jnp.sum(self.each(outputs, targets))

    def log_value(self, outputs: Array, targets: Array, n: int) -> Float[Array, ""]:
        """The logarithm of the loss."""
        return jnp.log(self(outputs, targets, n))


class Squared(Loss):
    """ℓ = (output − target)²."""

    metric, form = "error", "squared"

    def each(self, outputs: Array, targets: Array) -> Array:
        return (outputs - targets) ** 2


class _ExponentialTail(Loss):
    """A loss that falls exponentially with the margin, so that its logarithm has to be computed for itself."""

    metric = "accuracy"

    def log_each(self, outputs: Array, targets: Array) -> Array:
        """log ℓ of each example, without underflow."""
        raise TypeError(f"{type(self).__name__} does not define its logarithm: write the method log_each().")

    def log_value(self, outputs: Array, targets: Array, n: int) -> Float[Array, ""]:
        return jnp.log(_FACTORS[self.reduction](n)) + jax.nn.logsumexp(self.log_each(outputs, targets))


class Logistic(_ExponentialTail):
    """ℓ = log(1 + exp(−target·output)), targets ±1."""

    form = "logistic"

    def each(self, outputs: Float[Array, " n"], targets: Float[Array, " n"]) -> Float[Array, " n"]:
        return jax.nn.softplus(-targets * outputs)

    def log_each(self, outputs: Float[Array, " n"], targets: Float[Array, " n"]) -> Float[Array, " n"]:
        return _log_softplus(-targets * outputs)


class Exponential(_ExponentialTail):
    """ℓ = exp(−target·output), targets ±1."""

    form = "exponential"

    def each(self, outputs: Float[Array, " n"], targets: Float[Array, " n"]) -> Float[Array, " n"]:
        return jnp.exp(-targets * outputs)

    def log_each(self, outputs: Float[Array, " n"], targets: Float[Array, " n"]) -> Float[Array, " n"]:
        return -targets * outputs


class CrossEntropy(_ExponentialTail):
    """ℓ = −log softmax(output)[target], targets class numbers."""

    form = "cross_entropy"

    def each(self, outputs: Float[Array, "n c"], targets: Int[Array, " n"]) -> Float[Array, " n"]:
        chosen = jnp.take_along_axis(outputs, targets[:, None], axis=1)[:, 0]
        return jax.nn.logsumexp(outputs, axis=1) - chosen

    def log_each(self, outputs: Float[Array, "n c"], targets: Int[Array, " n"]) -> Float[Array, " n"]:
        # ℓ = log(1 + Σ_{j≠y} exp(z_j − z_y)) = softplus(s), s the log-sum-exp of the margins with their sign.
        chosen = jnp.take_along_axis(outputs, targets[:, None], axis=1)
        is_target = jnp.arange(outputs.shape[1]) == targets[:, None]
        others = jnp.where(is_target, -jnp.inf, outputs - chosen)
        return _log_softplus(jax.nn.logsumexp(others, axis=1))


def _log_softplus(s: Array) -> Array:
    """log log(1 + eˢ), which is s to double precision once s < −40."""
    far = s < -40.0
    return jnp.where(far, s, jnp.log(jax.nn.softplus(jnp.where(far, 0.0, s))))
