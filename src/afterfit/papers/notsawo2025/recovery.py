"""Sparse recovery by subgradient descent: the setting of all entries, and what is read off a run of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np

import afterfit as af
from afterfit.papers._measure import first_step

__all__ = ["GOAL", "Recovery", "descent", "gap", "grouped", "least_l1_recovers"]

GOAL = 1e-4  # the relative error that counts as memorisation (t₁) and as generalisation (t₂)


def descent(
    task: af.tasks.Task, alpha: float, beta: float, steps: float, seed: int, observations: int = 200
) -> af.Experiment:
    """Subgradient descent on ½‖Xa − y‖² + β‖a‖₁ with step α, from almost zero."""
    return af.Experiment(
        task=task,
        model=af.models.Linear(),
        penalty=af.penalties.L1(float(beta)),
        dynamics=af.dynamics.GradientDescent(lr=float(alpha), steps=round(steps)),
        init=af.inits.ScaledGaussian(1e-6),
        seed=seed,
        observations=observations,
    )


@dataclasses.dataclass(frozen=True)
class Recovery:
    """A run by its numbers. `t1`, `t2` and `plateau` are steps, not times; inf where they do not come.

    `plateau` is the step at which the recovery error is first down to twice its last value. `train` and `test` are the
    relative errors ‖Xa − y‖/‖y‖ and ‖a − a*‖/‖a*‖ at the last step. `distance` is ‖a − a*‖₁ there, `distance_at_t2`
    at t₂. `gap` is ‖â − a*‖_∞, â the least-squares solution.
    """

    run: af.Run = dataclasses.field(repr=False)
    alpha: float
    beta: float
    sparsity: int
    N: int
    seed: int
    gap: float
    t1: float
    t2: float
    plateau: float
    train: float
    test: float
    distance: float
    distance_at_t2: float

    @property
    def product(self) -> float:
        """αβ."""
        return self.alpha * self.beta

    @classmethod
    def of(cls, run: af.Run) -> Recovery:
        """Read a run of `descent`."""
        data, spec, curves = run.data, run.spec, run.curves
        steps, train, test = (curves[name].values for name in ("step", "train_error", "test_error"))
        distance = np.abs(curves["weights"].values - data.truth).sum(axis=1)
        t2 = first_step(steps, test, GOAL)
        at_t2 = np.interp(np.log(t2), np.log(steps[1:]), np.log(distance[1:])) if t2 < np.inf else np.nan
        return cls(
            run=run,
            alpha=spec["dynamics"]["lr"],
            beta=spec["penalty"]["strength"],
            sparsity=spec["task"]["sparsity"],
            N=spec["task"]["N"],
            seed=spec["seed"],
            gap=gap(data),
            t1=first_step(steps, train, GOAL),
            t2=t2,
            plateau=first_step(steps, test, 2 * test[-1]),
            train=float(train[-1]),
            test=float(test[-1]),
            distance=float(distance[-1]),
            distance_at_t2=float(np.exp(at_t2)),
        )


def gap(data: af.tasks.Data) -> float:
    """‖â − a*‖_∞, â the least-squares solution of least norm."""
    return float(np.max(np.abs(af.theory.min_l2(data.inputs, data.targets) - data.truth)))


def least_l1_recovers(data: af.tasks.Data) -> bool:
    """Whether a* is the interpolator of least ℓ₁ norm."""
    found = af.theory.min_l1(data.inputs, data.targets)
    return bool(np.linalg.norm(found - data.truth) <= 1e-6 * np.linalg.norm(data.truth))


def grouped(cells: Iterable[Recovery], *names: str) -> list[list[Recovery]]:
    """Cells that agree in the numbers of these names, to six digits; in the order of these numbers."""
    groups: dict[tuple[float, ...], list[Recovery]] = {}
    for cell in cells:
        groups.setdefault(tuple(float(f"{getattr(cell, name):.6g}") for name in names), []).append(cell)
    return [groups[key] for key in sorted(groups)]
