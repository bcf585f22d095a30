"""What PyTorch itself says of small nets: outputs, gradients, and where AdamW takes them.

    python tests/torch_reference.py      # with PyTorch: writes tests/torch_reference.npz

The file lets tests without PyTorch compare with its numbers; those with it ask it anew (`tests/test_torch_live.py`).
"""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_suffix(".npz")
LR, DECAY, STEPS = 1e-2, 0.1, 20


@dataclasses.dataclass(frozen=True)
class Net:
    """Layers of `torch.nn` by name and arguments, the shape of an input, how many tokens and classes, what is known."""

    layers: tuple[Any, ...]
    inputs: tuple[int, ...]
    tokens: int = 0
    classes: int = 0
    degree: int | None = None
    smooth: bool = True
    linear: bool = False

    def build(self, nn: Any) -> Any:
        return _chain(nn, self.layers)

    def data(self, seed: int = 0, n: int = 9) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        shape = (n, *self.inputs)
        X = rng.integers(self.tokens, size=shape) if self.tokens else rng.standard_normal(shape)
        return X, rng.integers(self.classes, size=n) if self.classes else rng.standard_normal(n)


def _chain(nn: Any, layers: Any) -> Any:
    return nn.Sequential(
        *(_chain(nn, layer) if isinstance(layer[0], tuple) else _layer(nn, *layer) for layer in layers)
    )


def _layer(nn: Any, kind: str, *arguments: Any) -> Any:
    settings = arguments[-1] if arguments and isinstance(arguments[-1], dict) else {}
    return getattr(nn, kind)(*arguments[: len(arguments) - bool(settings)], **settings)


NETS = {
    "relu": Net((("Linear", 4, 6), ("ReLU",), ("Linear", 6, 3, {"bias": False})), (4,), 0, 3, degree=2, smooth=False),
    "tanh": Net((("Linear", 4, 6, {"bias": False}), ("Tanh",), ("Linear", 6, 1)), (4,)),
    "squashed": Net((("Linear", 4, 1), ("Tanh",)), (4,)),
    "gelu": Net((("Linear", 4, 5), ("GELU",), ("Linear", 5, 5), ("GELU", "tanh"), ("Linear", 5, 3)), (4,), 0, 3),
    "others": Net((("Linear", 4, 5), ("SiLU",), (("Linear", 5, 5), ("Sigmoid",)), ("Linear", 5, 1)), (4,)),
    "images": Net((("Flatten",), ("Identity",), ("Linear", 6, 3), ("Dropout", 0.0)), (2, 3), 0, 3, 1, linear=True),
    "tokens": Net(
        (("Embedding", 5, 4), ("Flatten",), ("Linear", 8, 6, {"bias": False}), ("ReLU",), ("Linear", 6, 5)),
        (2,),
        tokens=5,
        classes=5,
        smooth=False,
    ),
}


def answers(net: Any, X: np.ndarray, y: np.ndarray, precision: str) -> dict[str, np.ndarray]:
    """Outputs, the gradient of the mean loss, and the weights after some steps of AdamW; weights as one vector."""
    import torch

    real = torch.float64 if precision == "double" else torch.float32
    inputs, targets = (
        torch.tensor(array).to(real) if array.dtype.kind == "f" else torch.tensor(array) for array in (X, y)
    )
    net = net.to(real)

    def loss() -> Any:
        outputs = net(inputs)
        if y.dtype.kind == "f":
            return torch.nn.functional.mse_loss(outputs[:, 0], targets)
        return torch.nn.functional.cross_entropy(outputs, targets)

    loss().backward()
    found = {"outputs": net(inputs).detach().numpy(), "gradient": flat(p.grad for p in net.parameters())}
    optimiser = torch.optim.AdamW(net.parameters(), lr=LR, weight_decay=DECAY)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
    return found | {"end": flat(net.parameters())}


def flat(tensors: Any) -> np.ndarray:
    """Tensors as one vector, in the order of PyTorch's state_dict."""
    return np.concatenate([tensor.detach().numpy().ravel() for tensor in tensors])


def main() -> None:
    import torch

    torch.manual_seed(0)
    found = {}
    for name, net in NETS.items():
        module = net.build(torch.nn)  # its weights are single, so that they are the same numbers in double
        found[f"{name} start"] = flat(module.parameters())
        for precision in ("double", "single"):
            said = answers(module if precision == "single" else copy.deepcopy(module), *net.data(), precision)
            found |= {f"{name} {precision} {key}": array for key, array in said.items()}
    np.savez_compressed(FILE, allow_pickle=False, version=torch.__version__, **found)


if __name__ == "__main__":
    main()
