"""Stochastic gradient descent with noise on the labels."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from afterfit._base.errors import require
from afterfit.dynamics._base import Discrete
from afterfit.dynamics._problem import Problem, take_examples
from afterfit.models._inputs import as_inputs

__all__ = ["LabelNoiseSGD"]


class LabelNoiseSGD(Discrete):
    """θ ← θ − η∇(f(θ; xᵢ) − yᵢ + ξ)², i uniform and ξ ~ N(0, noise²) anew each step (Lyu et al. 2023, (6))."""

    label_noise = True

    noise: float = 1.0

    def __check_init__(self):
        require(self.noise >= 0, f"noise is a standard deviation and must be 0 or more, got {self.noise}.")

    def step(
        self, problem: Problem, params: PyTree[Array], memory: Any, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Any]:
        which, how_much = jax.random.split(key)
        example = jax.random.randint(which, (1,), 0, problem.data.n)
        inputs, targets = take_examples(problem.data, example)
        noise = self.noise * jax.random.normal(how_much, (), targets.dtype)

        def loss(params: PyTree[Array]) -> Float[Array, ""]:
            # A mask's outputs and targets are 0 off the one entry, so noise goes to that entry only.
            residual = problem.model(params, inputs) - targets
            return jnp.sum(residual**2) + 2 * noise * jnp.sum(residual)

        gradient = jax.tree.map(jnp.add, jax.grad(loss)(params), problem.penalty.weighted_subgradient(params))
        return jax.tree.map(lambda p, g: p - self.lr * g, params, gradient), memory

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        targets = as_inputs(problem.data.inputs).observed(problem.data.targets, problem.data.n)
        require(
            problem.task.loss.metric == "error" and targets.ndim == 1,
            "LabelNoiseSGD adds noise to real labels and needs a task with a squared loss and one output.",
        )
