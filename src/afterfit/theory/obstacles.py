"""What keeps a theorem, a clock or a route from speaking to an instance: None, or a sentence without its full stop."""

from __future__ import annotations

from afterfit.losses import Squared
from afterfit.models import LinearModel
from afterfit.penalties import L2, NoPenalty
from afterfit.theory.instance import Instance

__all__ = [
    "not_decayed",
    "not_dynamics",
    "not_homogeneous",
    "not_linear_in_input",
    "not_margin",
    "not_matrices",
    "not_model",
    "not_penalty",
    "not_squared",
    "not_vectors",
]


def not_squared(instance: Instance) -> str | None:
    loss = instance.task.loss
    return None if isinstance(loss, Squared) else f"it is for squared losses, not {type(loss).__name__}"


def not_margin(instance: Instance) -> str | None:
    return "it is for classification, and the loss is Squared" if instance.regression else None


def not_model(instance: Instance, *known: type) -> str | None:
    model = type(instance.experiment.model)
    return None if model in known else f"it is for {_names(known)}, not {model.__name__}"


def not_linear_in_input(instance: Instance) -> str | None:
    if isinstance(instance.model, LinearModel):
        return None
    return f"it is for models that are linear in their input, and {type(instance.experiment.model).__name__} is not"


def not_vectors(instance: Instance) -> str | None:
    """For linear predictors of vectors; so with the next."""
    return not_linear_in_input(instance) or (None if instance.design.ndim == 2 else "it is for vectors, not matrices")


def not_matrices(instance: Instance) -> str | None:
    return not_linear_in_input(instance) or (None if instance.design.ndim == 3 else "it is for matrices, not vectors")


def not_penalty(instance: Instance, *known: type) -> str | None:
    """A penalty of strength 0 is none."""
    penalty = instance.experiment.penalty
    kind = type(penalty) if penalty.strength else NoPenalty
    if kind in known:
        return None
    here = "no penalty" if kind is NoPenalty else f"{kind.__name__} of strength {penalty.strength:g}"
    needed = " or ".join("no penalty" if k is NoPenalty else k.__name__ for k in known)
    return f"it is for {needed}, not {here}"


def not_decayed(instance: Instance) -> str | None:
    return not_penalty(instance, L2)


def not_dynamics(instance: Instance, known: type) -> str | None:
    dynamics = instance.experiment.dynamics
    return None if isinstance(dynamics, known) else f"it is for {known.__name__}, not {type(dynamics).__name__}"


def not_homogeneous(instance: Instance) -> str | None:
    degree, name = instance.model.degree, type(instance.experiment.model).__name__
    if degree is None:
        return f"it is for models that state their degree of homogeneity, which {name} does not"
    return None if degree >= 2 else f"it is for models of degree 2 or more in their parameters, and {name} has {degree}"


def _names(known: tuple[type, ...]) -> str:
    return " or ".join(kind.__name__ for kind in known)
