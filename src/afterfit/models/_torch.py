"""Networks that exist already in PyTorch, read layer by layer with their weights. PyTorch itself is not needed."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from afterfit._base.errors import require
from afterfit.models._base import Model, Parameter
from afterfit.models._inputs import Signature, as_inputs, preactivations
from afterfit.models._network import ACTIVATIONS, Activation
from afterfit.models._wrap import held_params, said_of_params

__all__ = ["Sequential", "from_torch"]

_ACTIVATIONS = {
    **{name: ACTIVATIONS[name] for name in ("relu", "tanh", "gelu", "silu", "sigmoid")},
    "gelu_tanh": Activation(functools.partial(jax.nn.gelu, approximate=True), smooth=True, degree=None),
}


class NetLayer(NamedTuple):
    """A layer of a net: its name there, what it is, and of one with weights their shape and whether it has a bias."""

    name: str
    kind: str  # "linear", "embedding", "flatten" or an activation
    shape: tuple[int, ...] = ()
    bias: bool = False

    @property
    def weighted(self) -> bool:
        return self.kind in ("linear", "embedding")


class Sequential(Model):
    """A chain of layers with its initial weights, as `from_torch` reads it from a `torch.nn.Sequential`.

    Parameters have their names in PyTorch's `state_dict`, such as `"0.weight"`. On a task with one number an example,
    a last layer with one output gives that number.
    """

    in_python_only: ClassVar[bool] = True
    responsive, separate = True, True

    layers: tuple[NetLayer, ...]
    initial: dict[str, Any]

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "initial", held_params(self.initial))

    def __check_init__(self):
        require(any(layer.weighted for layer in self.layers), "the net has no layer with weights: nothing to train.")
        for layer in self.layers[1:]:
            require(
                layer.kind != "embedding",
                f"layer {layer.name!r} embeds tokens, which only the first layer can: write the net as a function of "
                "parameters and input, af.models.Function.",
            )

    def parameters(self, signature: Signature) -> dict[str, Parameter]:
        found, last = {}, self._last_linear
        shape = signature.inputs
        for layer in self.layers:
            if layer.kind == "flatten":
                shape = (math.prod(shape),)
            elif layer.kind == "embedding":
                found[f"{layer.name}.weight"] = Parameter(layer.shape, fan_in=layer.shape[0])
                shape = (*shape, layer.shape[1])
            elif layer.kind == "linear":
                outputs, inputs = layer.shape
                require(
                    shape[-1:] == (inputs,),
                    f"the net's layer {layer.name!r} takes {inputs} numbers, but on this task, with inputs of shape "
                    f"{signature.inputs}, it gets {shape}{self._hint(signature)}.",
                )
                found[f"{layer.name}.weight"] = Parameter(layer.shape, fan_in=inputs)
                if layer.bias:
                    found[f"{layer.name}.bias"] = Parameter((outputs,), fan_in=inputs, bias=True)
                shape = (*shape[:-1], outputs)
        if signature.outputs == () and shape == (1,) and last is not None:  # as of an `MLP`: (1,) and () have one layer
            found[f"{last.name}.weight"] = Parameter((last.shape[1],), fan_in=last.shape[1])
            if last.bias:
                found[f"{last.name}.bias"] = Parameter((), fan_in=last.shape[1], bias=True)
            shape = ()
        require(
            shape == signature.outputs,
            f"the net gives outputs of shape {shape} an example, but the task has {signature.outputs}: give it a last "
            f"layer with {math.prod(signature.outputs)} outputs{self._hint(signature)}.",
        )
        return found

    def _hint(self, signature: Signature) -> str:
        """What may be the matter with tokens."""
        if self.layers[0].kind != "embedding":
            return ""
        if signature.tokens is not None and signature.inputs[0] > signature.tokens:
            return ', and a net that embeds tokens wants form="tokens"'
        return ", and put a Flatten() behind the embedding to have the vectors of all tokens in one"

    def check_inputs(self, inputs: Any) -> None:
        if self.layers[0].kind != "embedding":
            return
        tokens, rows = np.asarray(as_inputs(inputs).symbols()), self.layers[0].shape[0]
        wrong = tokens[(tokens != np.round(tokens)) | (tokens < 0) | (tokens >= rows)]
        require(
            wrong.size == 0,
            f"the net embeds tokens 0, 1, …, {rows - 1}, but the inputs have {np.unique(wrong)[:3].tolist()}: choose a "
            "larger embedding, or number the tokens from 0.",
        )

    def __call__(self, params: dict[str, Array], inputs: Any) -> Array:
        embeds = self.layers[0].kind == "embedding"
        h = as_inputs(inputs).symbols().astype(int) if embeds else as_inputs(inputs).dense()
        for layer in self.layers:
            if layer.kind == "flatten":
                h = h.reshape(len(h), -1) if h.ndim > 2 else h
            elif layer.kind == "embedding":
                h = params[f"{layer.name}.weight"][h]
            elif layer.kind == "linear":
                own = ("weight", "bias") if layer.bias else ("weight",)
                h = preactivations(h, {name: params[f"{layer.name}.{name}"] for name in own})
            else:
                h = _ACTIVATIONS[layer.kind].function(h)
        return h

    @property
    def operations(self) -> int:
        return len(self.layers)

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return all(_ACTIVATIONS[layer.kind].smooth for layer in self.layers if layer.kind in _ACTIVATIONS)

    @property
    def degree(self) -> int | None:
        degree: int | None = 0
        for layer in self.layers:
            if degree is None:
                return None
            if layer.weighted:  # a bias is of degree 1, which the other terms are in the first layer only
                degree = None if layer.bias and degree else degree + 1
            elif layer.kind in _ACTIVATIONS and degree:
                each = _ACTIVATIONS[layer.kind].degree
                degree = None if each is None else each * degree
        return degree

    @property
    def linear(self) -> bool:
        first = next(place for place, layer in enumerate(self.layers) if layer.weighted)
        return all(layer.kind == "flatten" for layer in self.layers[first + 1 :])

    @property
    def _last_linear(self) -> NetLayer | None:
        return next((layer for layer in reversed(self.layers) if layer.kind == "linear"), None)

    def zero_last_layer(self, params: dict[str, Any]) -> dict[str, Any]:
        last = self.layers[-1]
        if last.kind != "linear":
            return super().zero_last_layer(params)
        own = (f"{last.name}.weight", f"{last.name}.bias")
        return {name: np.zeros_like(array) if name in own else array for name, array in params.items()}

    def to_dict(self) -> dict[str, Any]:
        """The layers, shapes and a digest of the initial weights."""
        return {**self._said_of_it(), **said_of_params(self.initial), **self._settings(but=("initial",))}


def from_torch(net: Any) -> Sequential:
    """A `torch.nn.Sequential` as a model, which starts at the weights that the net has now.

    Layers may be `Linear`, `Embedding` (the first), `Flatten`, `Identity`, `ReLU`, `Tanh`, `GELU`, `SiLU`, `Sigmoid`,
    and `Sequential` of these; any other is refused by its name. The net is left as it is, and what is done to it later
    changes nothing here. The run's precision is the task's. `init=af.inits.Own(8.0)` starts at eight times the weights.

    ```python
    net = torch.nn.Sequential(torch.nn.Linear(64, 200), torch.nn.ReLU(), torch.nn.Linear(200, 10))
    run = af.train(task=task, model=af.models.from_torch(net), dynamics=af.dynamics.AdamW(1e-3, 10_000))

    state = {name: torch.tensor(run.params[name]).reshape(old.shape) for name, old in net.state_dict().items()}
    net.load_state_dict(state)  # and back
    ```
    """
    nn = getattr(sys.modules.get("torch"), "nn", None)  # who has such a net has imported it
    require(
        nn is not None and type(net) is nn.Sequential,
        f"from_torch takes a torch.nn.Sequential, got {_shown(net)}: give the one that is in it, or {_FUNCTION}",
    )
    layers, initial, seen = [], {}, {}
    for name, module in _unnested(nn, net, ""):
        layer = _read(nn, name, module)
        if layer is None:
            continue
        layers.append(layer)
        for own in ("weight", "bias")[: 0 if not layer.weighted else 2 if layer.bias else 1]:
            tensor = getattr(module, own)
            require(
                id(tensor) not in seen,
                f"layers {seen.get(id(tensor))!r} and {name!r} of the net share their weights, which from_torch would "
                f"train apart: {_FUNCTION}",
            )
            require(
                tensor.requires_grad,
                f"the {own} of layer {name!r} of the net is frozen (requires_grad=False), but all weights are trained: "
                f"call net.requires_grad_(True) first. With some kept as they are, {_FUNCTION}",
            )
            seen[id(tensor)] = name
            initial[f"{name}.{own}"] = tensor.detach().cpu().double().numpy()
    return Sequential(tuple(layers), initial)


_FUNCTION = "write the net as a function of parameters and input, af.models.Function."
_KINDS = {
    "Linear": "linear",
    "Embedding": "embedding",
    "Flatten": "flatten",
    "Identity": "",
    "Dropout": "",
    "ReLU": "relu",
    "Tanh": "tanh",
    "GELU": "gelu",
    "SiLU": "silu",
    "Sigmoid": "sigmoid",
}


def _unnested(nn: Any, module: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The layers of a net in their order, by their names in its `state_dict`; those used twice come twice."""
    if type(module) is not nn.Sequential:
        yield name, module
        return
    _check_plain(name, module, "Sequential")
    for key, child in module._modules.items():
        yield from _unnested(nn, child, f"{name}.{key}" if name else key)


def _read(nn: Any, name: str, module: Any) -> NetLayer | None:
    """One layer; None if it does nothing. A class of the user's may compute anything, also one derived from these."""
    word = next((word for word in _KINDS if type(module) is getattr(nn, word)), "")
    require(
        word != "",
        f"from_torch does not know layer {name!r} of the net, {_shown(module)}: it takes {', '.join(_KINDS)} and "
        f"Sequential of these. Take it out, or {_FUNCTION}",
    )
    _check_plain(name, module, word)
    kind = _KINDS[word]
    if kind in ("linear", "embedding"):
        return NetLayer(name, kind, tuple(module.weight.shape), getattr(module, "bias", None) is not None)
    if kind == "gelu" and module.approximate == "tanh":
        kind = "gelu_tanh"
    return NetLayer(name, kind) if kind else None


def _check_plain(name: str, module: Any, word: str) -> None:
    """Refuse a layer that does what nothing here would do."""
    usual = {"padding_idx": None, "max_norm": None, "scale_grad_by_freq": False, "sparse": False}
    objection = ""
    if module._forward_hooks or module._forward_pre_hooks:
        objection = "has hooks, which may change what it computes"
    elif word == "Dropout" and module.p > 0:
        objection = "drops units at random, and there is no such noise here"
    elif word == "Flatten" and (module.start_dim, module.end_dim) != (1, -1):
        objection = "leaves some axes as they are, where Flatten() makes one vector of an example"
    elif word == "Embedding" and any(getattr(module, setting) != value for setting, value in usual.items()):
        objection = f"has one of {', '.join(usual)}, which change how it is trained"
    require(not objection, f"layer {name!r} of the net, {_shown(module)}, {objection}: take that out, or {_FUNCTION}")


def _shown(module: Any) -> str:
    """A module on one line, cut short."""
    return f"{' '.join(repr(module).split()):.60}"
