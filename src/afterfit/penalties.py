"""Penalties: what pulls on the parameters once the data are fitted.

The objective of a run is loss + strength · value(params). A penalty has a value, a subgradient, and where it
exists a proximal map. This is *coupled* weight decay: the penalty's gradient goes through the optimiser like
the loss's. *Decoupled* weight decay is not a penalty but part of an optimiser: `dynamics.AdamW(weight_decay=…)`.

A new penalty is a subclass of `Penalty` with `value`; `subgradient` is JAX's gradient of it unless you know
better, and `prox` is only needed for proximal descent. What else is known of it (`smooth = True`, …) opens methods and
theorems to it. Penalties add up: `L1(1e-5) + L2(1e-3)`.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit._base.errors import SpecError, nearest, require
from afterfit._base.spec import Spec

if TYPE_CHECKING:
    from afterfit.models import Model
    from afterfit.tasks import Data

__all__ = ["L1", "L2", "NoPenalty", "Nuclear", "Penalty", "Sobolev", "Sum"]


def __dir__() -> list[str]:
    return __all__


class Penalty(Spec):
    """A penalty h with a strength β ≥ 0: the objective is loss + β·h(params).

    What is known of h beside its values is for the class that writes `value` (or `subgradient`) to say:

    - `smooth`: whether h has a continuous gradient where the model has one. A flow that meets kinks is followed by
      other means, and a penalty that does not say it is smooth is taken to have some.
    - `degree`: h(c·params) = c^degree · h(params) for c > 0.
    - `norm`: `"l1"` or `"nuclear"` where h is that norm, of the parameters or of the weights that they stand for.
    - `decay`: λ where β·h = ½λ‖θ‖², weight decay; 0 where there is no penalty.
    - `subgradient` and `prox`, where there is something better than JAX's gradient, and than nothing.
    """

    formula: ClassVar[tuple[str, ...]] = ("value", "subgradient", "bind", "weighted_value", "weighted_subgradient")
    capabilities: ClassVar[tuple[str, ...]] = ("smooth", "degree", "norm", "decay", "subgradient", "prox", "proximal")

    smooth: ClassVar[bool] = False
    norm: ClassVar[str | None] = None

    strength: float

    def __check_init__(self):
        if isinstance(self.strength, float):  # not while JAX traces it
            require(self.strength >= 0, f"a penalty's strength must be 0 or more, got {self.strength}.")

    @property
    def weakest(self) -> float:
        """The smallest strength above 0 of what it is made of, or 0: its inverse is the slow time scale."""
        return float(self.strength)

    @property
    def degree(self) -> int | None:
        """The degree of homogeneity of h; None if there is none, or any."""
        return None

    @property
    def decay(self) -> float | Array | None:
        """λ where β·h = ½λ‖θ‖², 0 where there is no penalty, None for any other."""
        return None

    @property
    def proximal(self) -> bool:
        """Whether there is a `prox`."""
        return type(self).prox is not Penalty.prox

    @abc.abstractmethod
    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        """h(params), without the strength."""

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        """One element of ∂h(params), without the strength."""
        return jax.grad(self.value)(params)

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        """argmin over z of ½‖z − params‖² + step·h(z)."""
        raise SpecError(f"the penalty {type(self).__name__.lstrip('_')} has no proximal map: use GradientDescent.")

    def bind(self, model: Model, data: Data) -> Penalty:
        """The penalty on this model and these data; most do not look at them."""
        return self

    def weighted_value(self, params: PyTree[Array]) -> Float[Array, ""]:
        """β·h(params)."""
        return self.strength * self.value(params)

    def weighted_subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        """β·H(params), H a subgradient."""
        return jax.tree.map(lambda g: self.strength * g, self.subgradient(params))

    def weighted_prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        """The proximal map of step·β·h."""
        return self.prox(params, step * self.strength)

    def __add__(self, other: Penalty) -> Sum:
        return Sum(penalties=(self, other))


class NoPenalty(Penalty):
    """No penalty at all."""

    smooth = True

    strength: float = 0.0

    def __check_init__(self):
        require(
            not isinstance(self.strength, float) or self.strength == 0,
            f"there is no penalty that a strength of {self.strength} could be of: choose one, such as "
            f"penalty.kind=L2 with penalty.strength={self.strength}.",
        )

    @property
    def decay(self) -> float:
        return 0.0

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return jnp.zeros(())

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(jnp.zeros_like, params)

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        return params


class L1(Penalty):
    """‖θ‖₁, with subgradient sign(θ) and sign(0) = 0; its prox is soft thresholding."""

    norm = "l1"

    @property
    def degree(self) -> int:
        return 1

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return _total(jax.tree.map(lambda leaf: jnp.sum(jnp.abs(leaf)), params))

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(jnp.sign, params)

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: jnp.sign(leaf) * jnp.maximum(jnp.abs(leaf) - step, 0), params)


class L2(Penalty):
    """½‖θ‖₂², whose gradient is θ: weight decay."""

    smooth = True

    @property
    def degree(self) -> int:
        return 2

    @property
    def decay(self) -> float | Array:
        return self.strength

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return 0.5 * _total(jax.tree.map(lambda leaf: jnp.sum(leaf**2), params))

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        return params

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: leaf / (1 + step), params)


class Nuclear(Penalty):
    """The nuclear norm ‖A‖_* (the sum of the singular values).

    `of="parameters"` sums it over all matrices among the parameters (Notsawo et al. 2025, App. H.3), which for
    `models.Linear` is the norm of the matrix itself (§3.2); `of="weights"` takes it of the matrix that a
    factorised model stands for, ‖UVᵀ‖_*. The subgradient is UVᵀ from the singular value decomposition, over
    the singular values that are not 0; the prox is singular value thresholding. Vectors among the parameters
    (biases) are left alone.
    """

    norm = "nuclear"

    of: str = "parameters"

    def __check_init__(self):
        kinds = ("parameters", "weights")
        require(self.of in kinds, f"unknown Nuclear.of {self.of!r}: {nearest(self.of, kinds)}")

    @property
    def degree(self) -> int | None:
        return 1 if self.of == "parameters" else None  # that of the weights: known once it is bound to a model

    def bind(self, model: Model, data: Data) -> Penalty:
        if self.of == "parameters":
            return self
        require(
            hasattr(model, "weights"),
            f"the nuclear norm of the weights needs a model of a matrix, not {type(model).__name__}.",
        )
        return _NuclearOfWeights(strength=self.strength, model=model)

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        matrices = [leaf for leaf in jax.tree.leaves(params) if jnp.ndim(leaf) == 2]
        require(
            bool(matrices),
            "Nuclear needs a matrix among the parameters, and this model has none: use L1 or L2.",
        )
        return _total([jnp.sum(jnp.linalg.svd(matrix, compute_uv=False)) for matrix in matrices])

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        def of_matrix(A: Float[Array, "m n"]) -> Float[Array, "m n"]:
            U, s, Vt = jnp.linalg.svd(A, full_matrices=False)
            # Directions whose singular value is zero to rounding may take any weight in [-1, 1]: 0 is the
            # least-norm choice, as sign(0) = 0 is for L1.
            keep = s > s[0] * max(A.shape) * jnp.finfo(A.dtype).eps
            return (U * keep) @ Vt

        return jax.tree.map(lambda leaf: of_matrix(leaf) if leaf.ndim == 2 else jnp.zeros_like(leaf), params)

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        def of_matrix(A: Float[Array, "m n"]) -> Float[Array, "m n"]:
            U, s, Vt = jnp.linalg.svd(A, full_matrices=False)
            return (U * jnp.maximum(s - step, 0)) @ Vt

        return jax.tree.map(lambda leaf: of_matrix(leaf) if leaf.ndim == 2 else leaf, params)


class _NuclearOfWeights(Penalty):
    norm = "nuclear"

    model: Any

    @property
    def degree(self) -> int | None:
        return self.model.degree

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return Nuclear(1.0).value(self.model.weights(params))

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        weights, pull_back = jax.vjp(self.model.weights, params)
        return pull_back(Nuclear(1.0).subgradient(weights))[0]


class Sobolev(Penalty):
    """(1/N) Σᵢ ‖∂f/∂x(xᵢ) − ∂f*/∂x(xᵢ)‖_F², the slopes against the teacher's (Notsawo et al. 2025, (125)).

    Needs a task that knows the slopes of its teacher: `tasks.TeacherStudent`.
    """

    smooth = True  # where the model's slopes are

    def bind(self, model: Model, data: Data) -> Penalty:
        require(
            data.slopes is not None,
            "Sobolev compares the model's slopes with the teacher's, and this task knows none: "
            "use tasks.TeacherStudent.",
        )
        return _BoundSobolev(strength=self.strength, model=model, inputs=data.inputs, slopes=data.slopes)

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        raise SpecError("Sobolev depends on the model and the data: call bind(model, data) first, as train does.")


class _BoundSobolev(Penalty):
    smooth = True  # where the model's slopes are

    model: Any
    inputs: Any
    slopes: Any

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        def slope(x: Float[Array, " d"]) -> Float[Array, "c d"]:
            return jax.jacobian(lambda x: self.model(params, x[None])[0])(x)

        slopes = jax.vmap(slope)(self.inputs)
        return jnp.sum((slopes.reshape(self.slopes.shape) - self.slopes) ** 2) / self.slopes.shape[0]


class Sum(Penalty):
    """A sum of penalties, each with its own strength; `strength` multiplies them all."""

    strength: float = 1.0
    penalties: tuple[Penalty, ...] = ()

    def __check_init__(self):
        require(len(self.penalties) >= 1, "a Sum needs at least one penalty.")

    def bind(self, model: Model, data: Data) -> Penalty:
        return Sum(self.strength, tuple(penalty.bind(model, data) for penalty in self.penalties))

    @property
    def weakest(self) -> float:
        return float(self.strength) * min((p.weakest for p in self.penalties if p.weakest > 0), default=0.0)

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return all(penalty.smooth for penalty in self.penalties)

    @property
    def degree(self) -> int | None:
        degrees = {penalty.degree for penalty in self.penalties}
        return degrees.pop() if len(degrees) == 1 else None

    @property
    def proximal(self) -> bool:
        # prox of L1 + L2 is soft-thresholding, then shrinking; sums in general have no such composition.
        known = sorted("l1" if p.norm == "l1" else "l2" if p.decay is not None else "" for p in self.penalties)
        return known == ["l1", "l2"]

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return _total([penalty.weighted_value(params) for penalty in self.penalties])

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        parts = [penalty.weighted_subgradient(params) for penalty in self.penalties]
        return jax.tree.map(lambda *gs: _total(list(gs)), *parts)

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        require(self.proximal, "the proximal map of a sum is known for L1 + L2 only: use GradientDescent.")
        for penalty in sorted(self.penalties, key=lambda penalty: penalty.norm != "l1"):
            params = penalty.weighted_prox(params, step)
        return params


def _total(values: PyTree[Array]) -> Array:
    leaves = jax.tree.leaves(values)
    total = leaves[0]
    for leaf in leaves[1:]:
        total = total + leaf
    return total
