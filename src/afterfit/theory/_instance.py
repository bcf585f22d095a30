"""A run's own problem, posed again: what it was fitted to, where it started and where it ended."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from afterfit._base.allowance import time_to_factorise
from afterfit._base.definitions import compiled
from afterfit._base.errors import SpecError, require
from afterfit._base.turns import computing
from afterfit._training.experiment import Experiment
from afterfit._training.run import Run
from afterfit._training.train import prepare
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._problem import Problem, norm
from afterfit.models import Linear, Model
from afterfit.models._inputs import as_inputs
from afterfit.tasks import Data, Task
from afterfit.theory._features import MOST, Features
from afterfit.theory._programs import min_l1, min_nuclear

__all__ = ["Instance", "instance_of", "posed"]

_FEW = 1000  # outputs whose kernel is factorised for its largest eigenvalue alone


@dataclasses.dataclass(frozen=True)
class Instance:
    """A problem with the parameters that a run starts from, and, once it was run, those that it ended at.

    Everything numerical on it is to be done inside `jax.enable_x64(True)`.
    """

    experiment: Experiment
    problem: Problem
    initial: PyTree[Array]
    final: PyTree[Array] | None = None

    def __repr__(self) -> str:
        task, model = (type(noun).__name__ for noun in (self.experiment.task, self.experiment.model))
        return f"<Instance of {task} with {model}, {'posed' if self.final is None else 'run'}>"

    @property
    def task(self) -> Task:
        return self.experiment.task

    @property
    def model(self) -> Model:
        return self.problem.model

    @property
    def regression(self) -> bool:
        """Whether the loss is a squared one, which can be brought to 0; the others are margin losses."""
        return self.task.loss.form == "squared"

    @property
    def decay(self) -> float:
        """λ of weight decay ½λ‖θ‖², 0 for any other penalty."""
        return float(self.experiment.penalty.decay or 0.0)

    @property
    def penalty_form(self) -> str | None:
        """`"none"`, `"l2"` (weight decay), `"l1"` or `"nuclear"`; None for a penalty that no theorem is about."""
        penalty = self.experiment.penalty
        if not penalty.strength:
            return "none"
        return penalty.norm if penalty.decay is None else "l2" if penalty.decay else "none"

    @property
    def strength(self) -> float:
        """What the theorems call the penalty's strength: λ of weight decay ½λ‖θ‖², β of any other penalty β·h."""
        return self.decay if self.penalty_form == "l2" else float(self.experiment.penalty.strength)

    @property
    def step_size(self) -> float | None:
        """The step of a discrete dynamics, None for a flow."""
        return self.experiment.dynamics.step_size

    @functools.cached_property
    def initial_norm(self) -> float:
        """α, the Euclidean norm of the initial parameters, as in the code of Lyu et al. 2023."""
        return float(norm(self.initial))

    @functools.cached_property
    def design(self) -> np.ndarray:
        """X of a model that is linear in its input: one row (or matrix) an example, outputs = ⟨X, weights⟩."""
        return np.asarray(as_inputs(self.problem.data.inputs).design(self.problem.data.n))

    @property
    def rows(self) -> np.ndarray:
        """X with one row an example, matrices written out."""
        return self.design.reshape(len(self.design), -1)

    @functools.cached_property
    def targets(self) -> np.ndarray:
        """y, one number an example (of a matrix, its observed entries)."""
        return np.asarray(tangent.targets(self.problem))

    @functools.cached_property
    def kernel(self) -> np.ndarray:
        """K = JJᵀ, the tangent kernel at the start, with the outputs of all examples in a row."""
        return np.asarray(_kernel(self.problem, self.initial))

    @functools.cached_property
    def initial_outputs(self) -> np.ndarray:
        """What the model says of every training example at the start."""
        return np.asarray(_outputs(self.problem, self.initial))

    @functools.cached_property
    def kernel_values(self) -> np.ndarray:
        """Eigenvalues of the tangent kernel at the start, the least first."""
        time_to_factorise(self.targets.size)
        return np.linalg.eigvalsh(self.kernel)

    @functools.cached_property
    def features(self) -> Features:
        """The tangent features at the start, for sizes whose kernel is not formed."""
        return Features(self.problem, self.initial)

    @property
    def many(self) -> bool:
        """Whether there are too many outputs for their kernel to be factorised in seconds."""
        return self.targets.size > MOST

    @functools.cached_property
    def curvature(self) -> float:
        """The largest eigenvalue of the tangent kernel at the start."""
        return self.features.largest if self.targets.size > _FEW else float(self.kernel_values[-1])

    @functools.cached_property
    def independence(self) -> float:
        """The least eigenvalue of the tangent kernel at the start; of `many` outputs, from above."""
        return self.features.least if self.many else float(self.kernel_values[0])

    @property
    def depth(self) -> int:
        """D of a diagonal net w₊^D − w₋^D."""
        depth = self.experiment.model.power
        assert depth is not None, "an obstacle to any other"
        return depth

    @property
    def balanced_start(self) -> np.ndarray:
        """α of a diagonal net that starts at w₊ = w₋, one number a weight; their common sign does not count."""
        return np.abs(np.asarray(self.initial["plus"]))

    @functools.cached_property
    def least_penalty(self) -> np.ndarray:
        """The interpolating weights of least L1 norm, or nuclear norm for matrices with a nuclear penalty."""
        X, y = self.design, self.targets
        if self.penalty_form == "nuclear" and X.ndim == 3:
            return min_nuclear(X, y)
        return min_l1(self.rows, y).reshape(X.shape[1:])

    @property
    def half_factor(self) -> float:
        """c of a squared loss c·½Σ(output − target)²: penalties are divided by it to have ½‖Xw − y‖² in front."""
        return 2 * float(self.task.loss(jnp.ones(1), jnp.zeros(1), self.problem.data.n))

    @property
    def end(self) -> PyTree[Array]:
        """The parameters that the run ended at."""
        assert self.final is not None, "an instance of an experiment that was not run has no end"
        return self.final

    def score_weights(self, weights: np.ndarray) -> tuple[float, float]:
        """Training and test metric of a linear predictor."""
        return self.score(Linear(), {"weights": jnp.asarray(weights)})

    def score(self, model: Model, params: PyTree[Array]) -> tuple[float, float]:
        """Training and test metric of any model."""
        metrics = _metrics(self.problem.task, model, params, self.problem.data)
        return float(metrics[f"train_{self.task.metric}"]), float(metrics[f"test_{self.task.metric}"])


@compiled
def _kernel(problem: Problem, params: PyTree[Array]) -> Array:
    return tangent.kernel(problem, params)


@compiled
def _outputs(problem: Problem, params: PyTree[Array]) -> Array:
    return tangent.outputs(problem, params)


@compiled
def _metrics(task: Task, model: Model, params: PyTree[Array], data: Data) -> dict[str, Array]:
    return task.metrics(model, params, data)


def posed(experiment: Experiment | Mapping[str, Any]) -> Instance:
    """The instance of an experiment that need not have been run."""
    require(
        isinstance(experiment, Experiment | Mapping),
        f"this takes an Experiment or its specification (run.spec), got {experiment!r}: read a file with "
        "Experiment.from_toml, and give of a run its run.spec.",
    )
    if not isinstance(experiment, Experiment):
        experiment = Experiment.from_dict(experiment)
    require(
        experiment.init.past is None,
        "theory speaks of a run from its start under one penalty, and this one goes on from another: ask it of that "
        "one, or train from its parameters, with init=af.inits.From(run.params).",
    )
    loss = experiment.task.loss
    require(
        loss.form is not None,
        f"theory knows the losses Squared, Logistic, Exponential, CrossEntropy, not {type(loss).__name__}.",
    )
    with computing():
        problem, params = prepare(experiment)
        require(
            not as_inputs(problem.data.inputs).on_disk,
            "theory looks at all inputs at once, which are in a memory-mapped file: ask it of the same experiment with "
            "them in memory, np.array(X), or with a part of them, np.array(X[:1000]).",
        )
        params = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), params)
    return Instance(experiment, problem, params)


def instance_of(run: Run) -> Instance:
    """The instance of a run, with the parameters that it ended at."""
    require(isinstance(run, Run), f"theory speaks of a run, such as train() returns or load() reads, got {run!r:.60}.")
    try:
        experiment = run.experiment
    except SpecError as error:
        raise SpecError(
            f"theory needs the run's own problem, which its files do not hold ({error}) Use the run that train() "
            "returned instead of the loaded one."
        ) from None
    with computing():
        final = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), run.params)
    return dataclasses.replace(posed(experiment), final=final)
