"""What keeps a theorem, a clock or a route from speaking to an instance: None, or a sentence without its full stop.

They ask what nouns can do, not which they are: a noun of your own that states the same is spoken to as well.
"""

from __future__ import annotations

import numpy as np

from afterfit.models import LinearModel
from afterfit.theory._features import MOST
from afterfit.theory._instance import Instance

__all__ = [
    "not_balanced",
    "not_decayed",
    "not_diagonal",
    "not_direct",
    "not_factorised",
    "not_homogeneous",
    "not_in_steps",
    "not_its_metric",
    "not_label_noise",
    "not_linear_in_input",
    "not_margin",
    "not_matrices",
    "not_penalty",
    "not_squared",
    "not_uniform",
    "not_vectors",
]


def __dir__() -> list[str]:
    return __all__


_PENALTIES = {"none": "no penalty", "l2": "L2", "l1": "L1", "nuclear": "Nuclear"}


def not_squared(instance: Instance) -> str | None:
    """For squared losses."""
    return None if instance.regression else f"it is for squared losses, not {type(instance.task.loss).__name__}"


def not_its_metric(instance: Instance) -> str | None:
    """For tasks that are judged as their loss suggests: by the error of a squared loss, the accuracy of others."""
    its, judged = instance.task.loss.metric, instance.task.metric
    return None if its == judged else f"it is about the {its}, and this task is judged by its {judged}"


def not_margin(instance: Instance) -> str | None:
    """For classification, whose losses reward margins."""
    return "it is for classification, and the loss is Squared" if instance.regression else None


def not_direct(instance: Instance) -> str | None:
    """For the linear model, whose parameters are its weights."""
    model = instance.experiment.model
    return None if model.direct else f"it is for Linear, not {type(model).__name__}"


def not_diagonal(instance: Instance) -> str | None:
    """For diagonal nets, whose weights are w₊^D − w₋^D."""
    model = instance.experiment.model
    return None if model.power is not None else f"it is for DiagonalNet, not {type(model).__name__}"


def not_balanced(instance: Instance) -> str | None:
    """For diagonal nets that start at w₊ = w₋, where every weight is 0 and can move."""
    wrong = not_diagonal(instance)
    if wrong is not None:
        return wrong
    plus, minus = (np.asarray(instance.initial[name]) for name in ("plus", "minus"))
    balanced = np.array_equal(plus, minus) and bool(np.all(plus != 0))
    return None if balanced else "it is for a start with w₊ = w₋ without a zero entry"


def not_uniform(instance: Instance) -> str | None:
    """For a balanced start with one α for all weights."""
    start = instance.balanced_start
    return None if np.ptp(start) <= 1e-12 * start[0] else "it is for a start with all entries equal"


def not_linear_in_input(instance: Instance) -> str | None:
    """For models ⟨weights, x⟩."""
    if isinstance(instance.model, LinearModel):
        return None
    return f"it is for models that are linear in their input, and {type(instance.experiment.model).__name__} is not"


def not_vectors(instance: Instance) -> str | None:
    """For linear predictors of vectors."""
    return not_linear_in_input(instance) or (None if instance.design.ndim == 2 else "it is for vectors, not matrices")


def not_matrices(instance: Instance) -> str | None:
    """For linear predictors of matrices."""
    return not_linear_in_input(instance) or (None if instance.design.ndim == 3 else "it is for matrices, not vectors")


def not_penalty(instance: Instance, *forms: str) -> str | None:
    """For penalties of these forms: `"none"`, `"l2"` (weight decay), `"l1"` or `"nuclear"`; strength 0 is none."""
    form, penalty = instance.penalty_form, instance.experiment.penalty
    if form in forms:
        return None
    here = "no penalty" if form == "none" else f"{type(penalty).__name__} of strength {penalty.strength:g}"
    return f"it is for {' or '.join(_PENALTIES[wanted] for wanted in forms)}, not {here}"


def not_decayed(instance: Instance) -> str | None:
    """For weight decay."""
    return not_penalty(instance, "l2")


def not_in_steps(instance: Instance) -> str | None:
    """For dynamics that have a step size."""
    flow = type(instance.experiment.dynamics).__name__
    return f"it is for dynamics in steps, not {flow}" if instance.step_size is None else None


def not_label_noise(instance: Instance) -> str | None:
    """For dynamics in steps that noise on the labels moves among the solutions."""
    dynamics = instance.experiment.dynamics
    other = None if dynamics.label_noise else f"it is for LabelNoiseSGD, not {type(dynamics).__name__}"
    return other or not_in_steps(instance)


def not_homogeneous(instance: Instance) -> str | None:
    """For models with f(c·θ, x) = c^L · f(θ, x)."""
    degree, name = instance.model.degree, type(instance.experiment.model).__name__
    if degree is None:
        return f"it is for models that state their degree of homogeneity, which {name} does not"
    return None if degree >= 2 else f"it is for models of degree 2 or more in their parameters, and {name} has {degree}"


def not_factorised(m: int) -> str | None:
    """For as many outputs m as a tangent kernel can have that is factorised again and again."""
    return None if m <= MOST else f"it factorises the tangent kernel at every step, and {m} outputs are too many"
