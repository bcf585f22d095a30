"""Stochastic gradient descent with noise on the labels, and the slow flow that it becomes as its step goes to 0."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from afterfit._base.curves import SQUARED_STEPS
from afterfit._base.errors import require
from afterfit._base.spec import later
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._base import Discrete, State
from afterfit.dynamics._problem import Problem, take_examples
from afterfit.dynamics._riemannian import RiemannianFlow
from afterfit.models._inputs import as_inputs
from afterfit.penalties import NoPenalty, Penalty

__all__ = ["LabelNoiseFlow", "LabelNoiseSGD"]

_TOGETHER = 128  # steps whose random numbers are drawn at once: one by one they are most of what a step costs


class LabelNoiseSGD(Discrete):
    """θ ← θ − η∇(f(θ; xᵢ) − yᵢ + ξ)², i uniform and ξ ~ N(0, noise²) anew each step (Lyu et al. 2023, (6)).

    `seed` draws examples and noise from a seed of its own, so that they can change while the data stay; without it the
    run's seed decides both. What becomes of it as η → 0, after T/η² steps, is `LabelNoiseFlow`.
    """

    label_noise = True
    meaning: ClassVar[int] = 2  # in 1 random numbers were drawn step by step
    whole_numbers = ("steps", "seed")

    noise: float = 1.0
    seed: int | None = later(None)

    def __check_init__(self):
        _check_noise(self.noise)
        require(
            not isinstance(self.seed, int) or 0 <= self.seed < 2**63,
            f"dynamics.seed must be a whole number, 0 or more and below 2^63, got {self.seed}.",
        )

    def start(self, problem: Problem, params: PyTree[Array], key: Key[Array, ""]) -> State:
        return super().start(problem, params, key if self.seed is None else jax.random.key(self.seed))

    def advance(self, problem: Problem, state: State, target: Array, limit: Int[Array, ""]) -> State:
        if type(self).step is not LabelNoiseSGD.step:  # a subclass with a step of its own, which asks for a key
            return super().advance(problem, state, target, limit)
        last = jnp.maximum(state.step, jnp.minimum(target, state.step + limit))

        def some(block: Int[Array, ""], params: PyTree[Array]) -> PyTree[Array]:
            examples, noises = self._drawn(problem, jax.random.fold_in(state.key, block), _TOGETHER)
            steps = block * _TOGETHER + jnp.arange(_TOGETHER)
            # Steps of the block that are not asked for now have size 0: runs that go together need no other mask.
            lrs = jnp.where((state.step <= steps) & (steps < last), self.lr, 0.0)

            def body(params: PyTree[Array], drawn: tuple[Array, Array, Array]) -> tuple[PyTree[Array], None]:
                return self._moved(problem, params, *drawn), None

            return jax.lax.scan(body, params, (examples, noises, lrs), unroll=4)[0]

        blocks = state.step // _TOGETHER, -(-last // _TOGETHER)
        return State(jax.lax.fori_loop(*blocks, some, state.params), state.memory, last, state.key)

    def step(
        self, problem: Problem, params: PyTree[Array], memory: Any, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Any]:
        (example,), (noise,) = self._drawn(problem, key, 1)
        return self._moved(problem, params, example, noise, self.lr), memory

    def _drawn(
        self, problem: Problem, key: Key[Array, ""], steps: int
    ) -> tuple[Int[Array, " steps"], Float[Array, " steps"]]:
        """The examples of so many steps, and the noise on their labels."""
        which, how_much = jax.random.split(key)
        examples = jax.random.randint(which, (steps,), 0, problem.data.n)
        return examples, self.noise * jax.random.normal(how_much, (steps,), problem.data.targets.dtype)

    def _moved(
        self,
        problem: Problem,
        params: PyTree[Array],
        example: Int[Array, ""],
        noise: Float[Array, ""],
        lr: float | Float[Array, ""],
    ) -> PyTree[Array]:
        """The parameters after the step with one example and the noise on its label."""
        inputs, targets = take_examples(problem.data, example[None])

        def loss(params: PyTree[Array]) -> Float[Array, ""]:
            # A mask's outputs and targets are 0 off the one entry, so noise goes to that entry only.
            residual = problem.model(params, inputs) - targets
            return jnp.sum(residual**2) + 2 * noise * jnp.sum(residual)

        gradient = jax.tree.map(jnp.add, jax.grad(loss)(params), problem.penalty.weighted_subgradient(params))
        return jax.tree.map(lambda p, g: p - lr * g, params, gradient)

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        _check_labels(self, problem)


class LabelNoiseFlow(RiemannianFlow):
    """The limit of `LabelNoiseSGD` as η → 0, in slow time τ = η²·steps (Li et al. 2022, Thm 4.6; Lyu et al. 2023, (6)).

    First the gradient flow to its limit θ_GF, which takes no slow time; then the averaged dynamics
    θ' = −½·noise²·P(θ)∇tr∇²L(θ) among the parameters that fit the data, P the projection onto their tangent space and L
    the mean of the squared residuals, whatever the factor of the task's own loss: noise pushes the parameters off that
    manifold, and curvature brings them back a little lower. tr∇²L is there (2/n)·Σ‖∇f(θ; xᵢ)‖². Needs a squared loss,
    one output and no penalty. `RiemannianFlow` says how it is followed, and where it ends.

    ```python
    LabelNoiseFlow(until=0.5)  # LabelNoiseSGD(lr=1e-3, steps=500_000) for a smaller and smaller lr
    ```
    """

    clock = SQUARED_STEPS

    noise: float = eqx.field(default=1.0, kw_only=True)

    def __check_init__(self):
        _check_noise(self.noise)

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        _check_labels(self, problem)
        require(
            isinstance(problem.penalty, NoPenalty),
            f"LabelNoiseFlow is the limit without a penalty, whose pull on the parameters would be 1/η times as strong "
            f"as that of the noise: leave out {type(problem.penalty).__name__}.",
        )
        super().check(problem, params)

    def lowered(self, problem: Problem) -> Penalty:
        return _Flatness(strength=1.0, problem=problem, noise=self.noise)


class _Flatness(Penalty):
    """½·noise²·tr∇²L where the data are fitted, which is noise²·tr(JJᵀ)/n, J the Jacobian of the outputs."""

    smooth = True  # where the model is

    problem: Problem
    noise: float | Array

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return self.noise**2 * jnp.trace(tangent.kernel(self.problem, params)) / self.problem.data.n


def _check_noise(noise: Any) -> None:
    require(
        not isinstance(noise, float) or noise >= 0,
        f"noise is a standard deviation and must be 0 or more, got {noise}.",
    )


def _check_labels(dynamics: Any, problem: Problem) -> None:
    targets = as_inputs(problem.data.inputs).observed(problem.data.targets, problem.data.n)
    require(
        problem.task.loss.metric == "error" and targets.ndim == 1,
        f"{type(dynamics).__name__} adds noise to real labels and needs a task with a squared loss and one output.",
    )
