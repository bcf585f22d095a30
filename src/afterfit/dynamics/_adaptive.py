"""Adam and AdamW, from Optax."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Key, PyTree

from afterfit._base.errors import require
from afterfit.dynamics._base import Discrete
from afterfit.dynamics._problem import Problem

__all__ = ["Adam", "AdamW"]


class Adam(Discrete):
    """Adam with PyTorch's defaults. A penalty's gradient goes through it: *coupled* weight decay.

    Training time is counted as lr·steps, as for the other discrete dynamics.
    """

    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    def __check_init__(self):
        for name in ("b1", "b2"):
            value = getattr(self, name)
            require(0 <= value < 1, f"{name} must be at least 0 and below 1, got {value}.")
        require(self.eps >= 0, f"eps must be 0 or more, got {self.eps}.")

    def optimiser(self) -> Any:
        """The Optax transformation."""
        import optax  # on first use: importing it costs a tenth of a second that most runs need not pay

        return optax.adam(self.lr, self.b1, self.b2, self.eps)

    def remember(self, problem: Problem, params: PyTree[Array]) -> Any:
        return self.optimiser().init(params)

    def step(
        self, problem: Problem, params: PyTree[Array], memory: Any, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Any]:
        import optax

        updates, memory = self.optimiser().update(problem.gradient(params), memory, params)
        return optax.apply_updates(params, updates), memory


class AdamW(Adam):
    """Adam with *decoupled* weight decay: θ shrinks by lr·weight_decay·θ a step, past Adam's rescaling.

    Not the same as `penalty=L2(weight_decay)`, which Adam would rescale. PyTorch's default is 0.01.
    """

    weight_decay: float = 0.01

    def __check_init__(self):
        require(self.weight_decay >= 0, f"weight_decay must be 0 or more, got {self.weight_decay}.")

    def optimiser(self) -> Any:
        import optax

        return optax.adamw(self.lr, self.b1, self.b2, self.eps, weight_decay=self.weight_decay)
