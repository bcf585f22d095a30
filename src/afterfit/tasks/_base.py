"""What a task is: data, the loss exactly as its paper writes it, a test metric, and often the truth."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from afterfit._base.errors import nearest, require
from afterfit._base.spec import Spec
from afterfit._diagnose.thresholds import Criteria
from afterfit.losses import CrossEntropy, Loss, Squared
from afterfit.models import LinearModel, Model
from afterfit.models._inputs import Signature, as_classes, as_inputs, as_numbers

__all__ = ["Data", "Task", "are_signs", "check_choice", "check_positive", "checked"]


CLASS_LOSSES = {"cross_entropy": CrossEntropy, "squared": Squared}  # of tasks whose answers are classes


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

    `metric` names the curves that it is judged by: `"error"` (‖outputs − targets‖/‖targets‖), `"accuracy"` or `"loss"`.
    It is what its loss says unless the task says otherwise: a squared loss on classes may be judged by its accuracy.
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
    def numbers(self) -> int:
        """How many numbers a draw needs at least, told without drawing: what exceeds the machine is refused before.

        From `n` and `n_test`, where the task has them, and its signature.
        """
        counts = (getattr(self, name, 0) for name in ("n", "n_test"))
        examples = sum(count for count in counts if isinstance(count, int))
        return examples * (math.prod(self.signature.inputs) + math.prod(self.signature.outputs))

    @property
    def metric(self) -> str:
        """`"error"`, `"accuracy"` or `"loss"`; here as its loss says."""
        metric, kind = getattr(self.loss, "metric", None), type(self.loss).__name__
        require(
            metric in ("error", "accuracy"),
            f'the loss {kind} must say what fit is measured by, metric = "error" or "accuracy", got {metric!r}.',
        )
        return str(metric)

    def score(self, outputs: Array, targets: Array) -> Float[Array, ""]:
        """The metric of given outputs."""
        if self.metric == "error":
            return jnp.linalg.norm(jnp.ravel(outputs - targets)) / jnp.linalg.norm(jnp.ravel(targets))
        if are_signs(outputs, targets):  # an output of exactly 0 is half right
            return jnp.mean((1 + jnp.sign(outputs) * targets) / 2)
        right = targets if targets.ndim == 1 else jnp.argmax(targets, axis=1)  # class numbers, or a number a class
        return jnp.mean(jnp.argmax(outputs, axis=1) == right, dtype=outputs.dtype)

    def _measured(self, side: str, outputs: Array, targets: Array, n: int) -> dict[str, Array]:
        """The metric and the loss of given outputs, as the curves of one side are called."""
        scores = {} if self.metric == "loss" else {f"{side}_{self.metric}": self.score(outputs, targets)}
        return {**scores, f"{side}_loss": self.loss(outputs, targets, n)}

    def test_metrics(self, model: Model, params: PyTree[Array], data: Data) -> dict[str, Array]:
        """The metric and the loss on the test data; tasks with a closed form give that instead."""
        return self._measured("test", model.outputs(params, data.test_inputs), data.test_targets, data.n_test)

    def population_risk(self, weights: Array, data: Data) -> Array | None:
        """The population risk of a linear predictor, in closed form; None where there is none."""
        return None

    def metrics(self, model: Model, params: PyTree[Array], data: Data) -> dict[str, Array]:
        """Everything recorded about fit and generalisation at one time."""
        outputs = model.outputs(params, data.inputs)
        train = self._measured("train", outputs, data.targets, data.n)
        curves = {"train_loss": train["train_loss"], **train, **self.test_metrics(model, params, data)}
        if self.loss.metric == "accuracy":  # such a loss can fall below the smallest float and still matter
            log_loss = self.loss.log_value(outputs, data.targets, data.n)
            curves["log10_train_loss"] = log_loss / jnp.log(10.0)
        if isinstance(model, LinearModel):
            risk = self.population_risk(model.weights(params), data)
            if risk is not None:
                curves["population_risk"] = risk
        return curves


def checked(task: Task, data: Data) -> Data:
    """What a task has drawn, as arrays of finite floating numbers whose shapes fit each other and its signature.

    Symbols (where the signature counts `tokens`) and class numbers stay whole. Nothing is left to broadcasting, which
    would make of a column of targets a square of residuals without a word.
    """
    classes = task.loss.metric == "accuracy" and task.signature.outputs != ()
    parts: dict[str, Any] = {}
    for prefix, n, count in (("", data.n, "n"), ("test_", data.n_test, "n_test")):
        inputs, given = getattr(data, f"{prefix}inputs"), getattr(data, f"{prefix}targets")
        parts[f"{prefix}inputs"] = _checked_inputs(task, inputs, n, f"{prefix}inputs", count)
        targets = as_numbers(given, f"the task's {prefix}targets")
        rows = as_inputs(inputs).layout(n)
        wanted = rows if classes else (*rows, *task.signature.outputs)
        require(
            targets.shape == wanted,
            f"the task's {prefix}targets have shape {targets.shape}, but {n} examples need {wanted}.",
        )
        if classes:
            targets = as_classes(targets, f"the task's {prefix}targets", *task.signature.outputs)
        parts[f"{prefix}targets"] = targets
    if task.metric == "error":
        # A task with a truth measures its test error against that, and may have test targets of 0.
        for name in ("targets", "test_targets")[: 2 if data.truth is None else 1]:
            require(
                bool(np.any(parts[name])),
                f"the {name.replace('_', ' ')} are all 0, and errors are relative to their size: 0/0. Shift them, "
                "or draw others (another seed).",
            )
    return dataclasses.replace(data, **parts, n=int(data.n), n_test=int(data.n_test))


def _checked_inputs(task: Task, inputs: Any, n: int, name: str, count: str) -> Any:
    """Inputs of `n` examples, floating unless they are symbols."""
    whole = isinstance(n, int | np.integer) and n >= 1
    require(whole, f"the task's {count} must be a whole number, 1 or more, got {n!r}.")
    return as_inputs(inputs).checked(task.signature, n, name, count)


def are_signs(outputs: Array, targets: Array) -> bool:
    """Whether it is the sign of one output that counts, targets being ±1, and not the largest of several."""
    return outputs.ndim == 1 or outputs.shape == targets.shape == (len(outputs), 1)


def one_hot(classes: np.ndarray, count: int) -> np.ndarray:
    """Class numbers as rows of `count` numbers, 1 for the class and 0 for others: what a squared loss compares with."""
    return (classes[:, None] == np.arange(count)).astype(float)


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
