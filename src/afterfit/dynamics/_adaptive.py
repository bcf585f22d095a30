"""Adam, AdamW and any other transformation of gradients, from Optax."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from afterfit._base.errors import SpecError, require
from afterfit.dynamics._base import State
from afterfit.dynamics._optax import as_recipe, codes_of, made, makers_of, said_of
from afterfit.dynamics._optimiser import Optimiser
from afterfit.dynamics._problem import Problem

__all__ = ["Adam", "AdamW", "Optax"]


class Adam(Optimiser):
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

    def begin(self, params: PyTree[Array]) -> Any:
        return self.optimiser().init(params)

    def update(self, gradient: PyTree[Array], memory: Any, params: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        return self.optimiser().update(gradient, memory, params)


class AdamW(Adam):
    """Adam with *decoupled* weight decay: θ shrinks by lr·weight_decay·θ a step, past Adam's rescaling.

    Not the same as `penalty=L2(weight_decay)`, which Adam would rescale. PyTorch's default is 0.01.
    """

    weight_decay: float = 0.01

    def __check_init__(self):
        require(self.weight_decay >= 0, f"weight_decay must be 0 or more, got {self.weight_decay}.")

    @property
    def decay(self) -> float:
        return self.weight_decay

    def optimiser(self) -> Any:
        import optax

        return optax.adamw(self.lr, self.b1, self.b2, self.eps, weight_decay=self.weight_decay)


class Optax(Optimiser):
    """Any gradient transformation of Optax's, or of one's own in its form.

    It gets the gradient with the penalty's added. `lr` multiplies what comes out; at 1, the default, the step size is
    the transformation's own, and training time counts steps.

    ```python
    af.dynamics.Optax(optax.lion(1e-3), steps=10_000)
    af.dynamics.Optax({"kind": "lion", "learning_rate": 1e-3}, steps=10_000)
    ```

    The table is what TOML has: a name of Optax's (`"lion"`, `"contrib.muon"`, …) and its arguments; a list of tables is
    their chain. An object is told by a digest of its code and of all numbers in it, and exists in Python only. What
    asks for more than gradient and parameters (`lbfgs`) cannot be used.
    """

    told: ClassVar[tuple[str, ...]] = ("schedule", "transformation")

    transformation: Any  # pyright: ignore[reportGeneralTypeIssues]  (what has a default comes by name only)
    lr: float = eqx.field(default=1.0, kw_only=True)
    steps: int = eqx.field(kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "transformation", as_recipe(self.transformation, "dynamics.transformation"))

    def __check_init__(self):
        optimiser = self.optimiser()
        whole = all(callable(getattr(optimiser, name, None)) for name in ("init", "update"))
        require(whole, f"Optax needs a gradient transformation, such as optax.lion(1e-3), got {optimiser!r:.80}.")

    def optimiser(self) -> Any:
        """The Optax transformation."""
        return made(self.transformation, "dynamics.transformation")

    @property
    def memory_kind(self) -> str:
        return f"{self.kind}: {' '.join(makers_of(self.optimiser()))}"

    def begin(self, params: PyTree[Array]) -> Any:
        return jax.tree.map(_as_numbers, self.optimiser().init(params))

    def update(self, gradient: PyTree[Array], memory: Any, params: PyTree[Array]) -> tuple[PyTree[Array], Any]:
        optimiser = self.optimiser()
        state = jax.tree.map(_as_it_was, memory, jax.eval_shape(optimiser.init, params))
        updates, after = optimiser.update(gradient, state, params)
        # A loop has one type for each number in it, and a transformation may be less strict about its own.
        after = jax.tree.map(lambda new, old: _as_numbers(new).astype(old.dtype), after, memory)
        return jax.tree.map(lambda u: self.lr * u, updates), after

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        super().check(problem, params)
        try:
            memory = jax.eval_shape(self.begin, params)
            update, after = jax.eval_shape(self.update, params, memory, params)
        except Exception as error:  # whatever the user's transformation raises
            raise SpecError(
                f"the transformation cannot make a step from gradient and parameters alone: {error}"
            ) from None
        for name, before, now in (("updates", params, update), ("a state", memory, after)):
            same = jax.tree.map(jnp.shape, before) == jax.tree.map(jnp.shape, now)
            require(same, f"the transformation must give {name} of the shapes of what it got.")

    def trouble(self, state: State) -> Array:
        numbers = [leaf for leaf in jax.tree.leaves(state.memory.own) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        return jnp.any(jnp.stack([jnp.zeros((), bool), *(jnp.any(jnp.isnan(leaf)) for leaf in numbers)]))

    def complaint(self, state: State) -> tuple[str, str]:
        return "diverged", f"what the optimiser remembers is no longer a number at step {state.step}: try {self.knob}."

    def to_dict(self) -> dict[str, Any]:
        """Its settings; a transformation that was given as an object is told by a digest of its code."""
        return {**super().to_dict(), "transformation": said_of(self.transformation)}

    def codes(self) -> Iterator[str]:
        yield from super().codes()
        yield from codes_of(self.transformation, "the transformation of dynamics.Optax")


def _as_numbers(leaf: Any) -> Array:
    """An array of a transformation's state; a random key, which no file can hold, as the numbers that it is."""
    leaf = jnp.asarray(leaf)
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _as_it_was(leaf: Array, like: Any) -> Array:
    """The inverse of `_as_numbers`, for an array that was like that."""
    return jax.random.wrap_key_data(leaf) if _is_key(like) else leaf


def _is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
