"""What a way to foresee a run is, and what keeps one from speaking."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from afterfit._base.rules import Rule
from afterfit.models import Model
from afterfit.theory._instance import Instance
from afterfit.theory.obstacles import not_its_metric

__all__ = [
    "SLOW_TIMES",
    "Curves",
    "Route",
    "not_followed",
    "not_stable",
    "scored",
]

SLOW_TIMES = 48  # at which a slow path is computed; between them it is interpolated


@dataclasses.dataclass(frozen=True)
class Curves:
    """Foreseen training and test metric at some times.

    `caveats` are what is taken for granted, sentences without their full stop; `steps` how many steps of training were
    made to find them, of whatever flow.
    """

    train: np.ndarray
    test: np.ndarray
    caveats: tuple[str, ...] = ()
    steps: int = 0


class Route(Rule):
    """A way to foresee a run, and the `curves` that it foresees at some `times`.

    `name` is the theory in words, `source` where it is from, and `cost` what following it takes. Routes are
    asked in the order of their `turn`, and the first that speaks is followed: those for linear models from 0 on, for
    diagonal nets from 20, for any model from 30.

    One of your own says when it speaks (`obstacle`) and foresees the curves (`follow`).
    """

    source: ClassVar[str]
    cost: ClassVar[str]

    times: np.ndarray
    curves: Curves

    def __init__(self, instance: Instance, times: np.ndarray):
        self.times = times
        self.curves = self.follow(instance, times)

    @classmethod
    @abc.abstractmethod
    def obstacle(cls, instance: Instance) -> str | None:
        """Why it does not speak to this instance; None if it does."""

    @abc.abstractmethod
    def follow(self, instance: Instance, times: np.ndarray) -> Curves:
        """The metrics at those training times; `Unanswered` if the theorem's limit turns out not to exist."""


def not_followed(instance: Instance) -> str | None:
    """Why a route does not speak to a dynamics; so with the next."""
    dynamics = instance.experiment.dynamics
    if other := not_its_metric(instance):
        return other
    return None if dynamics.follows_flow else f"it describes gradient flow and descent, not {type(dynamics).__name__}"


def not_stable(instance: Instance) -> str | None:
    """Descent follows the flow only at steps below 2 over the curvature: else it diverges, or ends elsewhere."""
    if instance.step_size is None:
        return None
    curvature = instance.half_factor * instance.curvature
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
