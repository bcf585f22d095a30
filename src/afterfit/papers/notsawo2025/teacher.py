"""A ReLU teacher and its student (§4, App. H.3): the setting of Figs 10 and 11, what is read off a run, and its picture.

The settings are those of the authors' notebooks. Where the text says something else, the entries say what.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import Interval, first_step
from afterfit.papers.notsawo2025.recovery import slope_within

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "At",
    "Size",
    "Student",
    "draw_curves",
    "draw_times",
    "exponents",
    "grouped_by",
    "in_steps",
    "ordered",
    "student",
]

_MARKERS = "so^vDP"


class Size(NamedTuple):
    """(d, r, N) of App. H.3.2: inputs, hidden units of teacher and student, training examples."""

    d: int
    r: int
    N: int


class At(NamedTuple):
    """A cell of a grid: the penalty, the step α, the strength β, the draw."""

    penalty: str
    α: float
    β: float
    seed: int


def student(size: Size, penalty: af.penalties.Penalty, alpha: float, steps: int, seed: int) -> af.Experiment:
    """Adam with step α on the data of a teacher B* ReLU(A*x) with c = 2 outputs, x, A*, r·B* ~ N(0, 1).

    The student has the teacher's shape, no biases, and starts from N(0, 1/r) in A and N(0, 1/c) in B. The loss
    (1/2N) Σ ‖f − y‖² is that of the text and, for c = 2, the mean over N·c of the notebook, which has 1000 test
    examples, full batches and single precision.
    """
    return af.Experiment(
        task=af.tasks.TeacherStudent(d=size.d, hidden=size.r, outputs=2, n=size.N, n_test=1000, precision="single"),
        model=af.models.MLP((size.r,)),
        penalty=penalty,
        dynamics=af.dynamics.Adam(alpha, steps),
        init=af.inits.ScaledGaussian(1.0),
        seed=seed,
    )


@dataclasses.dataclass(frozen=True)
class Student:
    """A run of `student` by its numbers. Times are steps; inf where they do not come.

    `t1` is the first step with a relative training error ‖f − y‖/‖y‖ of `FITTED` or less, `t2` the first with a test
    error of `GENERALISED` or less. `least` is the first observed step with the smallest test loss, which is what the
    notebooks draw for t₂; where that is the last one the loss is still falling, and it is inf.
    """

    run: af.Run = dataclasses.field(repr=False)
    alpha: float
    beta: float
    seed: int
    t1: float
    t2: float
    least: float

    @classmethod
    def of(cls, run: af.Run) -> Student:
        """Read a run of `student`."""
        steps, train, test = (run.curves[name].values for name in ("step", "train_error", "test_error"))
        least = int(np.argmin(run.curves["test_loss"].values))
        return cls(
            run=run,
            alpha=run.spec["dynamics"]["lr"],
            beta=run.spec["penalty"]["strength"],
            seed=run.spec["seed"],
            t1=first_step(steps, train, FITTED),
            t2=first_step(steps, test, GENERALISED),
            least=float(steps[least]) if least < len(steps) - 1 else np.inf,
        )

    @property
    def product(self) -> float:
        """αβ."""
        return self.alpha * self.beta

    @property
    def delay(self) -> float:
        """t₂ − t₁."""
        return self.t2 - self.t1 if self.t2 < np.inf else np.inf
