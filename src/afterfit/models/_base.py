"""What a model is: parameters, a pure function of them, and how it scales."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Array, PyTree

from afterfit._base.errors import SpecError, require
from afterfit._base.spec import Spec
from afterfit.models._inputs import Inputs, Signature, as_inputs

if TYPE_CHECKING:
    from afterfit.inits import Init

__all__ = ["LeastNorm", "LinearModel", "Model", "Parameter"]


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One array of parameters, before it has values. `fan_in` is how many inputs each of its outputs sums.

    `table`: it is looked up and not multiplied with, as embeddings are; a token stands for a one-hot vector.
    """

    shape: tuple[int, ...]
    fan_in: int = 1
    bias: bool = False
    table: bool = False


@dataclasses.dataclass(frozen=True)
class LeastNorm:
    """What ½‖θ‖² is, at its least over all parameters θ with the same weights: factor · Σ|·|^power.

    The sum is over the entries of the weights, or over their singular values (`of`); `power` 2 is the squared L2 norm,
    1 the L1 or nuclear norm. `symmetric` where the weights are symmetric matrices only; `source` is where it is shown.
    """

    factor: float
    power: float
    of: str = "entries"
    symmetric: bool = False
    source: str = ""


class Model(Spec):
    """A pure function f(params, inputs), batched over inputs.

    A new model is a subclass with `parameters` and `__call__`. What is known of it beside its values is for the class
    that writes these (or `weights`) to say:

    - `degree`: f(c·params, x) = c^degree · f(params, x) for c > 0, or None when it is not homogeneous.
    - `linear`: whether the outputs are an affine function of the parameters.
    - `smooth`: whether they are a smooth one (False: it has kinks; None: not known).
    - `responsive`: whether they are known to depend on the parameters; of other models it is tried before a run.
    - `separate`: whether each output is a function of its own input alone. Tangent kernels, for implicit steps and for
      theory, then cost one gradient an example. It is tried before a run.
    - `direct`: whether the parameters are the weights of a linear model themselves, `params["weights"]`.
    - `power`: D where the weights are `params["plus"]**D − params["minus"]**D`, else None.
    - `least_norm`: what weight decay is as a norm of the weights (`LeastNorm`), else None.
    - `weight_kernel`, `entries_kernel`, `pushed` and `tangent_at`: closed forms, and ways, that save work.
    """

    formula: ClassVar[tuple[str, ...]] = ("parameters", "__call__", "weights", "anchored")
    capabilities: ClassVar[tuple[str, ...]] = (
        "degree",
        "linear",
        "smooth",
        "responsive",
        "separate",
        "direct",
        "power",
        "least_norm",
        "weight_kernel",
        "entries_kernel",
        "pushed",
        "tangent_at",
    )

    smooth: ClassVar[bool | None] = None
    responsive: ClassVar[bool] = False
    separate: ClassVar[bool] = False
    direct: ClassVar[bool] = False

    @abc.abstractmethod
    def parameters(self, signature: Signature) -> PyTree[Parameter]:
        """The arrays this model has on a task of that signature; raises `SpecError` where it does not fit."""

    @abc.abstractmethod
    def __call__(self, params: PyTree[Array], inputs: Any) -> Array:
        """Outputs, one row per input."""

    @property
    def in_parts(self) -> bool:
        """Whether outputs may be had of some inputs at a time, each being a function of its own input alone."""
        return self.separate

    def outputs(self, params: PyTree[Array], inputs: Any) -> Array:
        """Outputs on inputs of any kind: of those on disk, some at a time."""
        return inputs.evaluated(lambda some: self(params, some)) if isinstance(inputs, Inputs) else self(params, inputs)

    @property
    def degree(self) -> int | None:
        """The degree of homogeneity in the parameters, None if there is none."""
        return None

    def tangent_at(self, params: PyTree[Array]) -> tuple[Model, PyTree[Array]]:
        """A model and its parameters where it has the derivatives that this one has at `params`, for less work."""
        return self, params

    def check_inputs(self, inputs: Any) -> None:
        """Refuse inputs that it cannot take although their shape fits, such as tokens that it has no row for."""
        return

    def observe(self, params: PyTree[Array]) -> dict[str, Array]:
        """What else to record along a run, such as singular values."""
        return {}

    @property
    def operations(self) -> int:
        """How many operations on arrays an evaluation is written out as, at least: how long its program is."""
        return 1

    @property
    def linear(self) -> bool:
        """Whether the outputs are an affine function of the parameters."""
        return False

    @property
    def power(self) -> int | None:
        """D of weights w₊^D − w₋^D."""
        return None

    @property
    def least_norm(self) -> LeastNorm | None:
        """What weight decay is as a norm of the weights."""
        return None

    def anchored(self, params: PyTree[Array]) -> Model:
        """This model for a run that starts at `params`; most do not care where."""
        return self

    @property
    def has_anchor(self) -> bool:
        """Whether it depends on where a run starts."""
        return type(self).anchored is not Model.anchored

    def weight_kernel(self, params: PyTree[Array]) -> Array | None:
        """κ with JJᵀ = X diag(κ) Xᵀ, for a model of a vector whose weights each have parameters of their own."""
        return None

    def entries_kernel(self, params: PyTree[Array], rows: Array, columns: Array) -> Array | None:
        """The tangent kernel JJᵀ of entries of a matrix, in closed form; None where no shortcut is known."""
        return None

    def pushed(self, params: PyTree[Array], push: Array) -> PyTree[Array] | None:
        """Where θ' = −(∂w/∂θ)ᵀq takes the parameters θ of weights w while q adds up to `push`, one number a weight.

        For a homogeneous model whose weights each have parameters of their own; None where no closed form is known.
        """
        return None

    def initialise(self, init: Init, signature: Signature, rng: np.random.Generator) -> PyTree[np.ndarray]:
        """Initial parameters."""
        return init.apply(self, self.parameters(signature), rng)

    def zero_last_layer(self, params: PyTree) -> PyTree:
        """`params` with the last layer set to 0, so that every output is 0."""
        raise SpecError(f"{type(self).__name__} has no last layer to set to zero: choose another init.")

    def symmetrise(self, params: PyTree) -> PyTree:
        """`params` with each unit copied and its output sign turned, so that every output is 0."""
        raise SpecError(f"{type(self).__name__} has no units to copy with opposite signs: choose another init.")


class LinearModel(Model):
    """A model that is linear in its input (not in its parameters): f(params, x) = ⟨weights(params), x⟩."""

    @abc.abstractmethod
    def weights(self, params: PyTree[Array]) -> Array:
        """The linear predictor: a vector of length d, or a matrix."""

    def __call__(self, params: PyTree[Array], inputs: Any) -> Array:
        return as_inputs(inputs).measure(self.weights(params))

    @property
    def in_parts(self) -> bool:
        return self.separate or type(self).__call__ is LinearModel.__call__

    def observe(self, params: PyTree[Array]) -> dict[str, Array]:
        weights = self.weights(params)
        if weights.ndim == 2:
            import jax.numpy as jnp

            return {"singular_values": jnp.linalg.svd(weights, compute_uv=False)}
        # Every coordinate of a small predictor is worth seeing; a large one would swamp the curves.
        return {"weights": weights} if weights.size <= 1000 else {}


def scalar_output(model: Model, signature: Signature) -> None:
    """Refuse a task with vector outputs."""
    require(
        signature.outputs == (),
        f"{type(model).__name__} has one output, but the task wants {signature.outputs}: choose an MLP.",
    )
