"""What a task is: data, the loss exactly as its paper writes it, a test metric, and often the truth."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from afterfit.criteria import Criteria
from afterfit.inputs import Signature
from afterfit.losses import Loss, Squared
from afterfit.models import LinearModel, Model
from afterfit.spec import Spec, nearest, require

__all__ = ["Data", "Task", "check_choice", "check_positive"]


class Data(eqx.Module):
    """One draw of a task. `truth` is the ground truth in weight space, `slopes` the teacher's ∂f*/∂x at the
    training inputs, `noise_variance` that of the labels; each is None or 0 where there is none."""

    inputs: Any
    targets: Any
    test_inputs: Any
    test_targets: Any
    truth: Any = None
    slopes: Any = None
    noise_variance: Any = 0.0
    n: int = eqx.field(static=True, kw_only=True)
    n_test: int = eqx.field(static=True, kw_only=True)


class Task(Spec):
    """A learning problem. A new one is a subclass with `signature`, `loss`, `criteria` and `draw`.

    `metric` names what its curves are: `"error"` (‖outputs − targets‖/‖targets‖) or `"accuracy"`.
    `precision` is `"double"` or `"single"`.
    """

    precision: str = eqx.field(default="double", kw_only=True)

    def __check_init__(self):
        check_choice("precision", self.precision, ("double", "single"))

    @property
    @abc.abstractmethod
    def signature(self) -> Signature:
        """The shapes of one input and of one output."""

    @property
    @abc.abstractmethod
    def loss(self) -> Loss:
        """The training loss, with its paper's factor."""

    @property
    @abc.abstractmethod
    def criteria(self) -> Criteria:
        """When the training and the test metric count as fitted and generalised."""

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator) -> Data:
        """One draw of the data, as NumPy arrays."""

    @property
    def metric(self) -> str:
        """`"error"` or `"accuracy"`."""
        return "error" if isinstance(self.loss, Squared) else "accuracy"

    def score(self, outputs: Array, targets: Array) -> Float[Array, ""]:
        """The metric of given outputs."""
        if self.metric == "error":
            return jnp.linalg.norm(jnp.ravel(outputs - targets)) / jnp.linalg.norm(jnp.ravel(targets))
        if outputs.ndim == 1:  # binary, targets ±1; an output of exactly 0 is half right
            return jnp.mean((1 + jnp.sign(outputs) * targets) / 2)
        return jnp.mean(jnp.argmax(outputs, axis=1) == targets, dtype=outputs.dtype)

    def test_metrics(self, model: Model, params: PyTree[Array], data: Data) -> dict[str, Array]:
        """The metric and the loss on the test data; tasks with a closed form give that instead."""
        outputs = model(params, data.test_inputs)
        return {
            f"test_{self.metric}": self.score(outputs, data.test_targets),
            "test_loss": self.loss(outputs, data.test_targets, data.n_test),
        }

    def population_risk(self, weights: Array, data: Data) -> Array | None:
        """The population risk of a linear predictor, in closed form; None where there is none."""
        return None

    def metrics(self, model: Model, params: PyTree[Array], data: Data) -> dict[str, Array]:
        """Everything recorded about fit and generalisation at one time."""
        outputs = model(params, data.inputs)
        curves = {
            "train_loss": self.loss(outputs, data.targets, data.n),
            f"train_{self.metric}": self.score(outputs, data.targets),
            **self.test_metrics(model, params, data),
        }
        if self.metric == "accuracy":  # such a loss can fall below the smallest float and still matter
            log_loss = self.loss.log_value(outputs, data.targets, data.n)
            curves["log10_train_loss"] = log_loss / jnp.log(10.0)
        if isinstance(model, LinearModel):
            risk = self.population_risk(model.weights(params), data)
            if risk is not None:
                curves["population_risk"] = risk
        return curves


def share_of(share: float, total: int) -> int:
    """⌊share·total⌋, where 0.29 of 100 is 29 although 0.29·100 is 28.999… in floating point."""
    return int(np.floor(share * total + 1e-9))


def check_positive(**values: float) -> None:
    """Refuse a size or a number that is not positive, by its name."""
    for name, value in values.items():
        require(value > 0, f"{name} must be positive, got {value}.")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a word that is not one of `choices`."""
    require(value in choices, f"unknown {name} {value!r}: {nearest(str(value), choices)}")
