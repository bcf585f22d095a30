"""Networks: fully connected ones, tokens embedded, and convolutions of images."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from afterfit._base.errors import SpecError, nearest, require
from afterfit._base.spec import later
from afterfit.models._base import Model, Parameter
from afterfit.models._inputs import Signature, as_inputs, preactivations

__all__ = ["MLP", "ConvNet", "EmbeddingMLP"]

_BIASES = ("none", "hidden", "all")
_PAIRS = 8  # times as many pairs as examples, up to which a product of all of them costs less


class Activation(NamedTuple):
    """σ, whether it is smooth, and its degree: σ(c·x) = c^degree·σ(x) for c > 0, or None."""

    function: Callable[[Array], Array]
    smooth: bool
    degree: int | None


ACTIVATIONS = {
    "relu": Activation(jax.nn.relu, smooth=False, degree=1),
    "tanh": Activation(jnp.tanh, smooth=True, degree=None),
    "gelu": Activation(functools.partial(jax.nn.gelu, approximate=False), smooth=True, degree=None),  # as PyTorch's
    "silu": Activation(jax.nn.silu, smooth=True, degree=None),
    "sigmoid": Activation(jax.nn.sigmoid, smooth=True, degree=None),
    "quadratic": Activation(jnp.square, smooth=True, degree=2),
}


class MLP(Model):
    """Fully connected network of any depth, of ReLU units unless told otherwise.

    `hidden` are the widths of the hidden layers; `biases` says which layers have one: `"none"`, `"hidden"`
    (all but the last: W₂ ReLU(W₁x + b₁), Lyu et al. 2023, (1)), or `"all"`. Weights have the papers' shape
    (outputs, inputs). `activation` is `"relu"`, `"tanh"`, `"gelu"`, `"silu"`, `"sigmoid"` or `"quadratic"` (x²).

    ```python
    MLP(hidden=(1024,), biases="hidden")
    ```
    """

    responsive, separate = True, True

    hidden: tuple[int, ...]
    biases: str = "none"
    activation: str = later("relu")

    def __check_init__(self):
        require(
            len(self.hidden) >= 1 and all(h >= 1 for h in self.hidden),
            f"hidden must be one or more positive widths, such as (100,), got {self.hidden!r}.",
        )
        require(self.biases in _BIASES, f"unknown biases {self.biases!r}: {nearest(self.biases, _BIASES)}")
        known = self.activation in ACTIVATIONS
        require(known, f"unknown activation {self.activation!r}: {nearest(self.activation, ACTIVATIONS)}")

    def parameters(self, signature: Signature) -> dict[str, list[dict[str, Parameter]]]:
        require(
            len(signature.inputs) == 1,
            f"an MLP takes vectors, but the task has inputs of shape {signature.inputs}: choose a matrix model, or of "
            "images a ConvNet.",
        )
        sizes = [signature.inputs[0], *self.hidden, int(np.prod(signature.outputs))]
        layers = []
        for depth, (m, n) in enumerate(itertools.pairwise(sizes)):
            layer = {"weight": Parameter((n, m), fan_in=m)}
            last = depth == len(sizes) - 2
            if self.biases == "all" or (self.biases == "hidden" and not last):
                layer["bias"] = Parameter((n,), fan_in=m, bias=True)
            layers.append(layer)
        # The output shape is kept as a fact about the last layer: () and (1,) have the same weights.
        if signature.outputs == ():
            layers[-1]["weight"] = Parameter((sizes[-2],), fan_in=sizes[-2])
            if "bias" in layers[-1]:
                layers[-1]["bias"] = Parameter((), fan_in=sizes[-2], bias=True)
        return {"layers": layers}

    def __call__(self, params: dict[str, list[dict[str, Array]]], inputs: Any) -> Array:
        first, *inner, last = params["layers"]
        activate = ACTIVATIONS[self.activation].function

        def hidden(h: Float[Array, "n h"]) -> Float[Array, "n h"]:
            for layer in inner:
                h = preactivations(activate(h), layer)
            return activate(h)

        return as_inputs(inputs).through(first, hidden, last)

    @property
    def operations(self) -> int:
        return len(self.hidden) + 1

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return ACTIVATIONS[self.activation].smooth

    @property
    def degree(self) -> int | None:
        each = ACTIVATIONS[self.activation].degree
        # A bias adds a term of its own layer's degree; it matches the other terms only in the first layer.
        first_only = self.biases == "hidden" and len(self.hidden) == 1
        if each is None or not (self.biases == "none" or first_only):
            return None
        return functools.reduce(lambda degree, _: each * degree + 1, self.hidden, 1)  # a layer's weights add 1

    def zero_last_layer(self, params: Any) -> Any:
        *others, last = params["layers"]
        return {"layers": [*others, jax.tree.map(np.zeros_like, last)]}

    def symmetrise(self, params: Any) -> Any:
        require(
            len(self.hidden) == 1 and self.hidden[0] % 2 == 0,
            f"copies with opposite signs need one hidden layer of even width, got hidden={self.hidden}.",
        )
        first, last = params["layers"]
        half = self.hidden[0] // 2
        first = {name: np.concatenate([array[:half]] * 2) for name, array in first.items()}
        out = last["weight"][..., :half]
        last = {name: np.zeros_like(array) for name, array in last.items()}
        last["weight"] = np.concatenate([out, -out], axis=-1)
        return {"layers": [first, last]}


class EmbeddingMLP(Model):
    """b₂ + W₂ ReLU(b₁ + W₁(E⟨x₁⟩ ∘ E⟨x₂⟩)): tokens embedded and multiplied (Notsawo et al. 2025, §2.1).

    `product` is what ∘ stands for: `"entrywise"`, or `"matrix"`, the product of embeddings that are square matrices,
    row by row. `shared`: one table E for both symbols of a pair; without it E₁ and E₂. `biases` is
    `"all"` or `"none"`. The authors' code has matrix products, two tables and no biases:

    ```python
    EmbeddingMLP(embedding=64, hidden=64, product="matrix", shared=False, biases="none")
    ```
    """

    smooth, responsive, separate = False, True, True

    embedding: int = 64
    hidden: int = 64
    product: str = later("entrywise")
    shared: bool = later(True)
    biases: str = later("all")

    def __check_init__(self):
        require(
            min(self.embedding, self.hidden) >= 1,
            f"embedding and hidden must be positive, got {self.embedding} and {self.hidden}.",
        )
        products, biases = ("entrywise", "matrix"), ("all", "none")
        require(self.product in products, f"unknown product {self.product!r}: {nearest(self.product, products)}")
        require(self.biases in biases, f"unknown biases {self.biases!r}: {nearest(self.biases, biases)}")
        require(
            self.product == "entrywise" or math.isqrt(self.embedding) ** 2 == self.embedding,
            f"for a product of matrices embedding must be a square, such as 64 = 8², got {self.embedding}.",
        )

    def parameters(self, signature: Signature) -> dict[str, Parameter]:
        if signature.tokens is None:
            raise SpecError("an EmbeddingMLP takes tokens: choose a task such as ModularArithmetic, or an MLP.")
        p, d1, d2 = signature.tokens, self.embedding, self.hidden
        outputs = int(np.prod(signature.outputs))
        tables = ("E",) if self.shared else ("E1", "E2")
        parameters = {table: Parameter((p, d1), fan_in=p, table=True) for table in tables}
        parameters |= {"W1": Parameter((d2, d1), fan_in=d1), "W2": Parameter((outputs, d2), fan_in=d2)}
        if self.biases == "all":
            parameters |= {"b1": Parameter((d2,), fan_in=d1, bias=True), "b2": Parameter((outputs,), d2, bias=True)}
        return parameters

    def __call__(self, params: dict[str, Array], inputs: Any) -> Float[Array, "n outputs"]:
        tokens = as_inputs(inputs).symbols()
        tables = [params["E" if self.shared else f"E{k + 1}"] for k in range(tokens.shape[1])]
        h = jax.nn.relu(preactivations(self._embedded(tables, tokens), _layer(params, 1)))
        return preactivations(h, _layer(params, 2))

    def _embedded(self, tables: list[Float[Array, "p d"]], tokens: Int[Array, "n k"]) -> Float[Array, "n d"]:
        """The product of the embeddings of each example's symbols."""
        if self.product == "entrywise":
            return functools.reduce(jnp.multiply, (table[tokens[:, k]] for k, table in enumerate(tables)))
        (n, k), (p, d), s = tokens.shape, tables[0].shape, math.isqrt(self.embedding)
        if k == 2 and p**2 <= _PAIRS * n:
            # All pairs of symbols by one product of large matrices, and looked up: quicker than many of small ones.
            right = jnp.swapaxes(tables[1].reshape(p, s, s), 0, 1).reshape(s, p * s)
            pairs = (tables[0].reshape(p * s, s) @ right).reshape(p, s, p, s)
            return pairs[tokens[:, 0], :, tokens[:, 1], :].reshape(n, d)
        matrices = (table[tokens[:, k]].reshape(n, s, s) for k, table in enumerate(tables))
        return functools.reduce(jnp.matmul, matrices).reshape(n, d)

    @property
    def degree(self) -> int | None:
        return 4 if self.biases == "none" else None  # two embeddings and two layers

    def zero_last_layer(self, params: Any) -> Any:
        return params | {name: np.zeros_like(params[name]) for name in ("W2", "b2") if name in params}


def _layer(params: dict[str, Array], k: int) -> dict[str, Array]:
    """Weights and bias, if there is one, of a layer."""
    return {"weight": params[f"W{k}"]} | ({"bias": params[f"b{k}"]} if f"b{k}" in params else {})


class ConvNet(Model):
    """A network of 3×3 convolutions without biases, ReLU after each, max-pooling, and one linear layer at the end.

    `layers` is written as papers do: numbers are the channels of convolutions, which leave an image its height and
    width, M is the largest of 2×2 pixels, of which an odd side keeps its last row. All that is left then goes through
    the linear layer. Inputs are images of shape (height, width, channels): `tasks.Images(..., flat=False)`. Kernels
    have PyTorch's shape (outputs, inputs, 3, 3).

    ```python
    ConvNet("64-M-128-M-256-256-M-512-512-M-512-M")  # VGG11-like: Woodworth et al. 2020, App. B.2, without its FC
    ```
    """

    smooth, responsive, separate = False, True, True

    layers: str

    def __check_init__(self):
        channels = [part for part in self.layers.split("-") if part != "M"]
        require(
            len(channels) > 0 and all(re.fullmatch("[1-9][0-9]*", part) for part in channels),
            f"layers must be channels of convolutions and M for max-pooling, such as '16-M-32-M', got {self.layers!r}.",
        )

    @property
    def _layers(self) -> list[int | None]:
        """The channels of each convolution, None for max-pooling."""
        return [None if part == "M" else int(part) for part in self.layers.split("-")]

    def parameters(self, signature: Signature) -> dict[str, list[dict[str, Parameter]]]:
        require(
            len(signature.inputs) == 3,
            f"a ConvNet takes images of shape (height, width, channels), but the task has inputs of shape "
            f"{signature.inputs}: of tasks.Images, flat=False.",
        )
        height, width, channels = signature.inputs
        layers = []
        for wanted in self._layers:
            if wanted is None:
                height, width = -(-height // 2), -(-width // 2)
            else:
                layers.append({"weight": Parameter((wanted, channels, 3, 3), fan_in=9 * channels)})
                channels = wanted
        features = height * width * channels
        layers.append({"weight": Parameter((*signature.outputs, features), fan_in=features)})
        return {"layers": layers}

    def __call__(self, params: dict[str, list[dict[str, Array]]], inputs: Any) -> Array:
        *kernels, last = params["layers"]
        images, kernels = as_inputs(inputs).dense(), iter(kernels)
        for wanted in self._layers:
            images = _pooled(images) if wanted is None else jax.nn.relu(_convolved(images, next(kernels)["weight"]))
        return preactivations(images.reshape(len(images), -1), last)

    @property
    def operations(self) -> int:
        return 11 * (self.degree - 1) + 1

    @property
    def degree(self) -> int:
        return sum(wanted is not None for wanted in self._layers) + 1

    def zero_last_layer(self, params: Any) -> Any:
        *others, last = params["layers"]
        return {"layers": [*others, jax.tree.map(np.zeros_like, last)]}


def _convolved(images: Float[Array, "n h w c"], kernel: Float[Array, "k c 3 3"]) -> Float[Array, "n h w k"]:
    """Each image correlated with each kernel, 0 beyond the edges.

    As one product of matrices, of all neighbourhoods with all kernels. Runs go together, each with kernels of its own:
    products of matrices then stay such, and convolutions become grouped ones, which took three times as long.
    """
    _, h, w, _ = images.shape
    padded = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    neighbourhoods = jnp.concatenate([padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=-1)
    return neighbourhoods @ kernel.transpose(2, 3, 1, 0).reshape(-1, kernel.shape[0])


def _pooled(images: Float[Array, "n h w c"]) -> Float[Array, "n i j c"]:
    """The largest of 2×2 pixels; at an odd edge, of those that there are."""
    n, h, w, c = images.shape
    even = jnp.pad(images, ((0, 0), (0, h % 2), (0, w % 2), (0, 0)), constant_values=-jnp.inf)
    return even.reshape(n, (h + 1) // 2, 2, (w + 1) // 2, 2, c).max((2, 4))
