"""Sparse recovery by subgradient descent: the setting of all entries, and what is read off a run of it.

The settings are those of the authors' notebooks, which are not always those of the text: measurements of variance 1/N
(text: 1/n), noise in Fig. 3 alone, t₁ by a threshold of 10⁻³ and t₂ by the plateau of the error (captions: 10⁻⁴).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import Interval, at, first_step, relative_distance

__all__ = [
    "CAPTION",
    "CLOSE",
    "GOAL",
    "Recovery",
    "descent",
    "errors_match",
    "gap",
    "grouped",
    "least_l1_recovers",
    "measured",
    "power_law_within",
    "settling_step",
    "slope_within",
]

GOAL = 1e-3  # the relative error that counts as reached in the notebooks
CAPTION = 1e-4  # and in the captions of Figs 4 and 28
CLOSE = 1e-2  # a* but for what the penalty leaves, also where a* is small; the notebooks' own for s = 1
_NEAR = 0.05  # an error is at its plateau within this share of it


def measured(n: int, sparsity: int, N: int, snr: float | None = None) -> af.tasks.SparseRecovery:
    """The task of the notebooks: a* ~ N(0, 1/n) on its support, measurements of variance 1/N."""
    return af.tasks.SparseRecovery(n=n, sparsity=sparsity, N=N, snr=snr, variance=1 / N)


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
    """A run by its numbers. Times are steps; inf where they do not come.

    `t1` is the first step with a relative training error ‖Xa − y‖/‖y‖ ≤ 10⁻³ (10⁻² for s = 1), `t2` the one at which
    the recovery error ‖a − a*‖/‖a*‖ comes to its plateau, `caption` the first with a recovery error ≤ 10⁻⁴. `train` and
    `test` are the errors at the last step. `distance` is ‖a − a*‖₁ there, `distance_at_t2` and `distance_at_caption` at
    those steps. `gap` is ‖â − a*‖_∞, â the least-squares solution.
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
    caption: float
    train: float
    test: float
    distance: float
    distance_at_t2: float
    distance_at_caption: float

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
        t2, caption = settling_step(steps, test), first_step(steps, test, CAPTION)

        def distance_at(step: float) -> float:
            there = np.interp(np.log(max(step, 1.0)), np.log(steps[1:]), np.log(distance[1:]))
            return float(np.exp(there)) if step < np.inf else np.nan

        return cls(
            run=run,
            alpha=spec["dynamics"]["lr"],
            beta=spec["penalty"]["strength"],
            sparsity=spec["task"]["sparsity"],
            N=spec["task"]["N"],
            seed=spec["seed"],
            gap=gap(data),
            t1=first_step(steps, train, CLOSE if spec["task"]["sparsity"] == 1 else GOAL),
            t2=t2,
            caption=caption,
            train=float(train[-1]),
            test=float(test[-1]),
            distance=float(distance[-1]),
            distance_at_t2=distance_at(t2),
            distance_at_caption=distance_at(caption),
        )


def settling_step(steps: np.ndarray, errors: np.ndarray) -> float:
    """The first of two observed steps in a row with an error within 5 % of where it ends, the mean of the last three.

    So t₂ of the notebooks. An error that comes from above is followed between observations, as in `first_step`.
    """
    end = float(errors[-3:].mean())
    near = np.abs(errors - end) <= _NEAR * end
    (both,) = np.nonzero(near[:-1] & near[1:])
    if not len(both):
        return float("inf")
    k = int(both[0])
    if k == 0 or errors[k - 1] < end:
        return float(steps[k])
    return first_step(steps[k - 1 : k + 1], errors[k - 1 : k + 1], (1 + _NEAR) * end)


def gap(data: af.tasks.Data, norm: float = np.inf) -> float:
    """‖â − a*‖ in this norm, â the least-squares solution of least norm."""
    return float(np.linalg.norm(af.theory.min_l2(data.inputs, data.targets) - data.truth, norm))


def least_l1_recovers(data: af.tasks.Data) -> bool:
    """Whether a* is the vector of least ℓ₁ norm with Xa = Xa*."""
    return relative_distance(af.theory.min_l1(data.inputs, data.inputs @ data.truth), data.truth) <= 1e-6


def grouped(cells: Iterable[Recovery], *names: str) -> list[list[Recovery]]:
    """Cells that agree in the numbers of these names, to six digits; in the order of these numbers."""
    groups: dict[tuple[float, ...], list[Recovery]] = {}
    for cell in cells:
        groups.setdefault(tuple(float(f"{getattr(cell, name):.6g}") for name in names), []).append(cell)
    return [groups[key] for key in sorted(groups)]


def power_law_within(
    groups: Sequence[Sequence[Recovery]], x: Callable[[Recovery], float], y: Callable[[Recovery], float]
) -> Interval:
    """The exponent p of y = C·xᵖ with a constant C for each group, by least squares, with Student's interval."""
    return slope_within([[(np.log(x(cell)), np.log(y(cell))) for cell in group] for group in groups])


def errors_match(run: af.Run, time: float, condition: float, name: str) -> Finding:
    """Whether recovery and training errors are at a time within a factor of each other, a condition number."""
    train, test = (float(at(run, f"{side}_error", time)) for side in ("train", "test"))
    return Finding(
        f"relative errors {'at the end' if time == np.inf else f'at t={time:.3g}'}: recovery {test:.2g}, training "
        f"{train:.2g}; {name} = {condition:.2f}",
        1 / condition <= test / train <= condition,
    )


def slope_within(groups: Sequence[Sequence[tuple[float, float]]]) -> Interval:
    """The slope b of y = bx + c, c a constant for each group of (x, y), by least squares, with Student's interval."""
    from scipy.stats import t

    centred = np.concatenate([np.array(group) - np.mean(group, axis=0) for group in groups])
    (across, up), free = centred.T, len(centred) - len(groups) - 1
    slope = float(across @ up / (across @ across))
    scatter = np.linalg.norm(up - slope * across) / np.linalg.norm(across) / np.sqrt(free)
    half = float(t.ppf(0.975, free) * scatter)
    return Interval(slope, slope - half, slope + half)
