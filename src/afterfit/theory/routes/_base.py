"""What a way to foresee a run is, and what keeps one from speaking."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from afterfit import tangent
from afterfit.dynamics import GradientDescent, GradientFlow, ProjectedSubgradient, ProximalGradient
from afterfit.models import Model
from afterfit.theory.instance import Instance

__all__ = [
    "SLOW_TIMES",
    "Curves",
    "Route",
    "Unanswered",
    "not_followed",
    "not_stable",
    "rows_of",
    "scored",
]

SLOW_TIMES = 48  # at which a slow path is computed; between them it is interpolated
_FOLLOWED = (GradientFlow, GradientDescent, ProximalGradient, ProjectedSubgradient)  # dynamics that a flow describes


@dataclasses.dataclass(frozen=True)
class Curves:
    """Foreseen training and test metric at some times."""

    train: np.ndarray
    test: np.ndarray
    caveats: tuple[str, ...] = ()


class Unanswered(Exception):
    """A theory that seemed to speak to an instance has no limit there; the message says why."""


class Route(abc.ABC):
    """A way to foresee a run. `by` names the theory."""

    by: ClassVar[str]

    @abc.abstractmethod
    def obstacle(self, instance: Instance) -> str | None:
        """Why it does not speak to this instance; None if it does."""

    @abc.abstractmethod
    def curves(self, instance: Instance, times: np.ndarray) -> Curves:
        """The metrics at those training times; `Unanswered` if the theorem's limit turns out not to exist."""


def not_followed(instance: Instance) -> str | None:
    """Why a route does not speak to a dynamics; so with the next."""
    name = type(instance.experiment.dynamics)
    return None if name in _FOLLOWED else f"it describes gradient flow and descent, not {name.__name__}"


def not_stable(instance: Instance) -> str | None:
    """Descent follows the flow only at steps below 2 over the curvature: else it diverges, or ends elsewhere."""
    if instance.step_size is None:
        return None
    kernel = np.asarray(tangent.kernel(instance.problem, instance.initial))
    curvature = instance.half_factor * float(np.linalg.eigvalsh(kernel)[-1])
    if instance.step_size * curvature <= 2:
        return None
    return f"steps of {instance.step_size:g} do not follow the flow, whose curvature at the start is {curvature:.3g}"


def scored(instance: Instance, model: Model, params: PyTree[Array]) -> np.ndarray:
    """Training and test metric of a model, one row for each row of its parameters."""
    names = [f"{side}_{instance.task.metric}" for side in ("train", "test")]

    def score(row: PyTree[Array]) -> Array:
        metrics = instance.task.metrics(model, row, instance.problem.data)
        return jnp.stack([metrics[name] for name in names])

    return np.array(jax.jit(lambda rows: jax.lax.map(score, rows))(jax.tree.map(jnp.asarray, params)))


def rows_of(instance: Instance) -> np.ndarray:
    """X with one row an example, matrices written out."""
    return instance.design.reshape(len(instance.design), -1)
