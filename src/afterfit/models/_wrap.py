"""Models made from other things: a difference of two models, parts of one, and any pure function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from afterfit._base.definitions import code_of, digest_if_told, digest_of_arrays, held, said_of_function
from afterfit._base.errors import SpecError, require
from afterfit._base.files import leaves_by_place
from afterfit._base.jacobians import linearise
from afterfit.models._base import LinearModel, Model, Parameter
from afterfit.models._inputs import Signature, as_inputs, as_numbers

__all__ = ["Difference", "Function", "LastLayer", "Tangent"]


class Difference(Model):
    """(f(θ₁, x) − f(θ₂, x))/√2 with θ₁ = θ₂ at the start: the "difference trick" of Hu et al. 2020.

    It is one of the three ways to start at zero output that Lyu et al. 2023, §3.1, name. The factor keeps the
    tangent kernel at initialisation that of `model`. An init's norm or scale is that of each copy.
    """

    model: Model

    def parameters(self, signature: Signature) -> dict[str, PyTree[Parameter]]:
        inner = self.model.parameters(signature)
        return {"plus": inner, "minus": inner}

    def __call__(self, params: dict[str, PyTree[Array]], inputs: Any) -> Array:
        difference = self.model(params["plus"], inputs) - self.model(params["minus"], inputs)
        return difference / jnp.sqrt(2.0).astype(difference.dtype)

    @property
    def degree(self) -> int | None:
        return self.model.degree

    @property
    def smooth(self) -> bool | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.smooth

    @property
    def responsive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.responsive

    @property
    def separate(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.separate

    @property
    def in_parts(self) -> bool:
        return self.model.in_parts

    @property
    def operations(self) -> int:
        return 2 * self.model.operations

    def check_inputs(self, inputs: Any) -> None:
        self.model.check_inputs(inputs)

    def initialise(self, init: Any, signature: Signature, rng: np.random.Generator) -> PyTree[np.ndarray]:
        parameters = self.parameters(signature)
        if init.holds(parameters):  # where a run has ended, the two copies are no longer the same
            return init.apply(self, parameters, rng)
        start = self.model.initialise(init, signature, rng)
        return {"plus": start, "minus": jax.tree.map(np.copy, start)}


class Tangent(Model):
    """The linearisation of `model` where the run starts: f(θ₀, x) + ∇f(θ₀, x)·(θ − θ₀), the kernel regime itself.

    It has the parameters of `model` and starts at the same ones. With a squared loss, `GradientFlow` follows it in
    closed form.

    ```python
    af.models.Tangent(af.models.MLP((100,)))
    ```
    """

    smooth = True

    model: Model

    def parameters(self, signature: Signature) -> PyTree[Parameter]:
        return self.model.parameters(signature)

    def check_inputs(self, inputs: Any) -> None:
        self.model.check_inputs(inputs)

    def initialise(self, init: Any, signature: Signature, rng: np.random.Generator) -> PyTree[np.ndarray]:
        return self.model.initialise(init, signature, rng)

    @property
    def responsive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.responsive

    @property
    def operations(self) -> int:
        return self.model.operations

    @property
    def in_parts(self) -> bool:
        return self.model.in_parts

    def anchored(self, params: PyTree[Array]) -> Model:
        kind = _LinearTangent if isinstance(self.model, LinearModel) else _Tangent
        return kind(model=self.model, anchor=params)

    def __call__(self, params: PyTree[Array], inputs: Any) -> Array:
        raise SpecError("a Tangent model depends on where it starts: call anchored(params) first, as train does.")


class _Tangent(Model):
    smooth = True

    model: Any
    anchor: PyTree[Array]

    def parameters(self, signature: Signature) -> PyTree[Parameter]:
        return self.model.parameters(signature)

    @property
    def linear(self) -> bool:
        return True

    @property
    def responsive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.responsive

    @property
    def separate(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.separate

    def tangent_at(self, params: PyTree[Array]) -> tuple[Model, PyTree[Array]]:
        return self.model, self.anchor

    def __call__(self, params: PyTree[Array], inputs: Any) -> Array:
        return self._along(lambda anchor: self.model(anchor, inputs), params)

    def _along(self, f: Callable[[PyTree[Array]], Array], params: PyTree[Array]) -> Array:
        at = linearise(f, self.anchor)
        return at.value + at.push_forward(jax.tree.map(jnp.subtract, params, self.anchor))


class _LinearTangent(_Tangent, LinearModel):  # pyright: ignore[reportIncompatibleVariableOverride]
    smooth = True

    @property
    def linear(self) -> bool:
        return True

    @property
    def responsive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.responsive

    def tangent_at(self, params: PyTree[Array]) -> tuple[Model, PyTree[Array]]:
        return self.model, self.anchor

    def weights(self, params: PyTree[Array]) -> Array:
        return self._along(self.model.weights, params)


class LastLayer(Model):
    """`model` with all layers but the last left where the run starts: a linear predictor on random features.

    It has the parameters of `model` and starts at the same ones. Of other layers those at the start are used
    throughout, whatever a penalty makes of them since.

    ```python
    af.models.LastLayer(af.models.MLP((5000,)))  # Woodworth et al. 2020, App. B.2
    ```
    """

    smooth = True

    model: Model

    def __check_init__(self):
        has_one = type(self.model).zero_last_layer is not Model.zero_last_layer
        require(has_one, f"{type(self.model).__name__} has no last layer: choose a network, such as an MLP.")

    def parameters(self, signature: Signature) -> PyTree[Parameter]:
        return self.model.parameters(signature)

    def check_inputs(self, inputs: Any) -> None:
        self.model.check_inputs(inputs)

    def initialise(self, init: Any, signature: Signature, rng: np.random.Generator) -> PyTree[np.ndarray]:
        return self.model.initialise(init, signature, rng)

    @property
    def responsive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.responsive

    @property
    def operations(self) -> int:
        return self.model.operations

    @property
    def in_parts(self) -> bool:
        return self.model.in_parts

    def anchored(self, params: PyTree[Array]) -> Model:
        return _LastLayer(model=self.model, anchor=params)

    def __call__(self, params: PyTree[Array], inputs: Any) -> Array:
        raise SpecError("a LastLayer model depends on where it starts: call anchored(params) first, as train does.")


class _LastLayer(Model):
    smooth = True

    model: Any
    anchor: PyTree[Array]

    def parameters(self, signature: Signature) -> PyTree[Parameter]:
        return self.model.parameters(signature)

    @property
    def linear(self) -> bool:
        return True

    @property
    def responsive(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.responsive

    @property
    def separate(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.model.separate

    def __call__(self, params: PyTree[Array], inputs: Any) -> Array:
        kept = self.model.zero_last_layer(jax.tree.map(lambda leaf: np.ones(()), params))  # 0 in the last layer
        mixed = jax.tree.map(lambda keep, start, now: start if keep else now, kept, self.anchor, params)
        return self.model(mixed, inputs)


class Function(Model):
    """Any pure function f(params, x) of one input x, with its initial parameters.

    `homogeneity` is the degree you know it to have, if any.

    ```python
    def f(params, x):
        return jnp.tanh(params["W"] @ x) @ params["v"]


    model = af.models.Function(f, {"W": W0, "v": v0})
    ```
    """

    in_python_only: ClassVar[bool] = True
    separate = True

    function: Callable[[Any, Any], Any]
    initial: PyTree
    homogeneity: int | None = None

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "initial", held_params(self.initial))

    def __check_init__(self):
        require(callable(self.function), f"Function needs a function f(params, x), got {self.function!r}.")
        leaves = jax.tree.leaves(self.initial)
        require(bool(leaves), f"Function needs initial parameters, such as {{'w': np.zeros(3)}}, got {self.initial!r}.")

    def parameters(self, signature: Signature) -> PyTree[Parameter]:
        return jax.tree.map(lambda leaf: Parameter(np.shape(leaf)), self.initial)

    def __call__(self, params: PyTree[Array], inputs: Any) -> Array:
        return as_inputs(inputs).each(lambda x: self.function(params, x))

    @property
    def degree(self) -> int | None:
        return self.homogeneity

    def to_dict(self) -> dict[str, Any]:
        """The function's name and a digest of its code, shapes and a digest of the initial parameters."""
        return {
            **self._said_of_it(),
            **said_of_function(self.function),
            **said_of_params(self.initial),
            **({"parameters_code": digest_if_told(self._bare)} if _has_classes(self.initial) else {}),
            **self._settings(but=("function", "initial")),
        }

    @property
    def _bare(self) -> PyTree:
        """The initial parameters without their values: what classes are in the tree, for they may be called."""
        return jax.tree.map(lambda leaf: None, self.initial)

    def codes(self) -> Iterator[str]:
        yield from super().codes()
        yield code_of(self.function, "the function of models.Function")
        if _has_classes(self.initial):
            yield code_of(self._bare, "the parameters of models.Function")


def held_params(params: PyTree) -> PyTree[np.ndarray]:
    """Initial parameters that a user gives, as copies that nobody can write to."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):  # before a copy shows what a mask hides
        as_numbers(leaf, f"the initial parameter {jax.tree_util.keystr(path) or 'array'}")
    return jax.tree.map(held, params)


def said_of_params(params: PyTree[np.ndarray]) -> dict[str, Any]:
    """What plain data say of parameters: their shapes, and a digest of what is in them."""
    tree = leaves_by_place(params) if _has_classes(params) else params
    shapes = jax.tree.map(lambda leaf: list(np.shape(leaf)), tree)
    return {"parameters": shapes, "sha256": digest_of_arrays(jax.tree.leaves(params))}


def _has_classes(params: PyTree) -> bool:
    """Whether plain data cannot say the tree: there is a class in it, such as an Equinox module."""
    try:
        json.dumps(jax.tree.map(lambda leaf: 0, params), sort_keys=True)
    except TypeError:
        return True
    return False
