"""Deterministic first-order methods, exactly as the papers define them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from afterfit._base.errors import SpecError, require
from afterfit._base.spec import later
from afterfit.dynamics._base import Discrete, Remembered, State
from afterfit.dynamics._optimiser import Optimiser
from afterfit.dynamics._problem import Problem, design_matrix
from afterfit.models._inputs import as_inputs

__all__ = ["SGD", "GradientDescent", "LossScaledDescent", "ProjectedSubgradient", "ProximalGradient"]


class GradientDescent(Optimiser):
    """θ ← θ − η(G + βH), G the gradient of the loss and H a subgradient of the penalty.

    With a smooth penalty this is gradient descent; with L1 or the nuclear norm it is subgradient descent
    (Notsawo et al. 2025, (1)). With a `momentum` μ it is heavy-ball descent as in PyTorch: θ ← θ − ηv, v ← μv + G + βH.
    """

    momentum: float | None = later(None)

    def __check_init__(self):
        require(
            self.momentum is None or 0 <= self.momentum < 1,
            f"momentum must be at least 0 and below 1, got {self.momentum}.",
        )

    @property
    def follows_flow(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.batch is None and self.momentum is None and self.schedule is None

    def begin(self, params: PyTree[Array]) -> PyTree[Array]:
        return () if self.momentum is None else jax.tree.map(jnp.zeros_like, params)

    def update(self, gradient: PyTree[Array], memory: Any, params: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        if self.momentum is not None:
            gradient = memory = jax.tree.map(lambda v, g: self.momentum * v + g, memory, gradient)
        return jax.tree.map(lambda g: -(self.lr * g), gradient), memory


class SGD(GradientDescent):
    """Mini-batch stochastic gradient descent: every epoch goes through the data once in a new random order.

    It is `GradientDescent` with a `batch`, of 256 examples a step unless told otherwise (those left over at the end of
    an epoch are skipped).
    """

    batch: int = 256  # pyright: ignore[reportIncompatibleVariableOverride]


class ProximalGradient(Discrete):
    """θ ← prox_{ηβh}(θ − ηG): ISTA for L1, singular value thresholding for the nuclear norm
    (Notsawo et al. 2025, App. D)."""

    follows_flow = True

    def step(
        self, problem: Problem, params: PyTree[Array], memory: Any, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Any]:
        forward = jax.tree.map(lambda p, g: p - self.lr * g, params, jax.grad(problem.loss)(params))
        return problem.penalty.weighted_prox(forward, self.lr), memory

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        kind = type(problem.penalty).__name__.lstrip("_")
        require(
            problem.penalty.proximal,
            f"ProximalGradient needs a penalty with a proximal map, such as L1, L2, Nuclear or L1 + L2, and {kind} has "
            "none that is known: use GradientDescent.",
        )


class ProjectedSubgradient(Discrete):
    """a ← Π(a − ηβH(a)), Π the projection onto {a : Xa = y} (Notsawo et al. 2025, App. D.1).

    The data are fitted after one step; only the penalty's subgradient moves the weights after that. Needs
    `models.Linear` and a squared loss.
    """

    follows_flow, fits_at_once = True, True

    def remember(self, problem: Problem, params: PyTree[Array]) -> Float[Array, "n N"]:
        return jnp.linalg.pinv(design_matrix(problem))

    def step(
        self, problem: Problem, params: PyTree[Array], memory: Float[Array, "n N"], key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Any]:
        moved = jax.tree.map(lambda p, h: p - self.lr * h, params, problem.penalty.weighted_subgradient(params))
        residual = problem.model(moved, problem.data.inputs) - problem.data.targets
        if as_inputs(problem.data.inputs).selects:
            return {"weights": moved["weights"] - residual}, memory
        correction = (memory @ residual).reshape(moved["weights"].shape)
        return {"weights": moved["weights"] - correction}, memory

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        design_matrix(problem)
        require(
            problem.task.loss.metric == "error",
            "ProjectedSubgradient fits targets exactly and needs a task with a squared loss.",
        )


class LossScaledDescent(Discrete):
    """Gradient descent with the step η/L(θ), L the training loss, and time kept in logarithms.

    θ ← θ − η∇L/L = θ − η∇log L (Lyu et al. 2023, App. B.1). Once the data are fitted L falls without end and
    the training time t = Σ η/L leaves the range of floating-point numbers; the curves carry log₁₀ t. Without
    penalty only, as in the paper: a penalty's gradient divided by L has no meaning in the limit.
    """

    def remember(self, problem: Problem, params: PyTree[Array]) -> Float[Array, ""]:
        return jnp.asarray(-jnp.inf, jnp.float64)  # log t: double, whatever the precision of the task

    def step(
        self, problem: Problem, params: PyTree[Array], memory: Float[Array, ""], key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Any]:
        log_loss, gradient = jax.value_and_grad(problem.log_loss)(params)
        log_time = jnp.logaddexp(memory, (jnp.log(self.lr) - log_loss).astype(jnp.float64))
        return jax.tree.map(lambda p, g: p - (self.lr * g).astype(p.dtype), params, gradient), log_time

    def log10_time(self, state: State) -> Float[Array, ""]:
        return state.memory / jnp.log(10.0)

    def positions(self, times: np.ndarray, past: Remembered | None = None) -> np.ndarray:
        raise SpecError("the clock of LossScaledDescent follows the loss, and is not known before: ask for a number.")

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        require(
            problem.penalty.weakest == 0,
            "LossScaledDescent goes down the loss alone: leave the penalty out.",
        )
