"""Any smooth model with weak weight decay: the kernel's fit, then the Riemannian flow on the solutions."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from afterfit._base.allowance import time_left, time_to_factorise
from afterfit._base.errors import Unanswered
from afterfit._training.train import run_experiment
from afterfit.dynamics import RiemannianFlow
from afterfit.dynamics import _tangent as tangent
from afterfit.models import Tangent
from afterfit.theory._instance import Instance
from afterfit.theory._routes._base import (
    SLOW_TIMES,
    Curves,
    Route,
    not_followed,
    not_stable,
    scored,
)
from afterfit.theory.obstacles import not_decayed, not_factorised, not_squared

__all__ = ["RiemannianLimit"]

_MOST_STEPS = 20_000  # of a limiting flow: a forecast that takes longer than the run is none
_TO_BEGIN = 10.0  # seconds: compiling it takes nearly as long


class RiemannianLimit(Route):
    """Any model with squared loss and weight decay: the flow of ‖θ‖²/2 on the solutions, followed once for every λ.

    It is the one route that trains: the limiting flow, not the run. Where λ is small that is the shorter way.
    """

    name = "the limit λ → 0: the Riemannian flow of the penalty on the solutions"
    source = "Boursier et al. 2025, Prop. 2"
    cost = f"that limiting flow is trained, in up to {_MOST_STEPS} steps, which serve every λ"
    turn = 30

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        model = instance.experiment.model
        if model.smooth is False:
            return f"it is for smooth models (Assumption 1), and {type(model).__name__} has kinks"
        return (
            not_squared(instance)
            or not_factorised(instance.targets.size)
            or not_decayed(instance)
            or not_followed(instance)
            or not_stable(instance)
        )

    def follow(self, instance: Instance, times: np.ndarray) -> Curves:
        experiment, beta = instance.experiment, float(instance.experiment.penalty.strength)  # its slow time is βt
        still = time_left()
        still(_TO_BEGIN)
        fast = _KernelFlow(instance)
        outputs = fast.outputs(times)
        missing = np.linalg.norm((outputs - instance.targets.ravel()), axis=1) / np.linalg.norm(instance.targets)
        end = beta * float(times[-1])
        flow = RiemannianFlow(until=end, first=1e-4 * end, max_steps=_MOST_STEPS)
        limiting = dataclasses.replace(experiment, dynamics=flow, observations=SLOW_TIMES)
        run = run_experiment(limiting, progress=lambda share: still(0.0))
        metric = instance.task.metric
        slow = run.curves["time"].values[1:] / beta
        if not len(slow) or slow[-1] <= 0:
            raise Unanswered(f"the unregularised flow does not come to a solution ({run.message})")
        train, test = (np.interp(times, slow, run.curves[f"{side}_{metric}"].values[1:]) for side in ("train", "test"))
        early = missing > instance.task.criteria.train.value
        if early.any():
            train[early], test[early] = scored(instance, fast.model, fast.along(times[early])).T
        caveats = fast.caveats()
        if experiment.model.smooth is None:
            caveats += (f"whether {type(experiment.model).__name__} is smooth, as the limit needs, is not known",)
        if run.status != "finished":
            caveats += (f"the limiting flow ends early ({run.message})",)
        train = np.where(early, train, np.maximum(train, missing))
        return Curves(train, test, caveats, steps=int(run.curves["step"].values[-1]))


class _KernelFlow:
    """Gradient flow on the linearised model without penalty: outputs in closed form (exact for linear models)."""

    def __init__(self, instance: Instance):
        problem, start = instance.problem, instance.initial
        self.instance, self.linear = instance, tangent.linearise(problem, start)
        self.model = Tangent(model=instance.model).anchored(start)
        time_to_factorise(instance.targets.size, vectors=True)
        self.values, self.vectors = np.linalg.eigh(instance.kernel)
        self.values = np.clip(self.values, 0.0, None)
        self.missing = self.vectors.T @ (np.asarray(self.linear.value).ravel() - instance.targets.ravel())
        self.rates = instance.half_factor * self.values

    def outputs(self, times: np.ndarray) -> np.ndarray:
        """Outputs on the training data, one row a time."""
        left = np.exp(-np.outer(times, self.rates)) * self.missing
        return self.instance.targets.ravel() + left @ self.vectors.T

    def along(self, times: np.ndarray):
        """The parameters, every array with one row a time."""
        moving = self.values > 1e-13 * self.values[-1]
        gone = self.missing[moving] * -np.expm1(-np.outer(times, self.rates[moving]))
        nu = (gone / self.values[moving]) @ self.vectors[:, moving].T
        back = jax.lax.map(self.linear.pull_back, jnp.asarray(nu).reshape(len(nu), *self.linear.value.shape))
        return jax.tree.map(jnp.subtract, self.instance.initial, back)

    def caveats(self) -> tuple[str, ...]:
        """Whether features would move during the fit: how far the kernel changes on the way to its own solution."""
        if self.instance.model.linear:
            return ()
        end = jax.tree.map(lambda rows: rows[0], self.along(np.array([np.inf])))
        after = np.asarray(tangent.kernel(self.instance.problem, end))
        before = (self.vectors * self.values) @ self.vectors.T
        change = float(np.linalg.norm(after - before) / np.linalg.norm(before))
        if change <= 0.5:
            return ()
        return (f"t_fit is the kernel regime's, but the tangent kernel would change by {change:.0%} on the way",)
