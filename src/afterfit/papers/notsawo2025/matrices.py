"""Low-rank matrices under the nuclear norm: the setting of all entries, and what is read off a run of it.

The settings are those of the authors' notebooks, which are not always those of the text. A* = UVᵀ with Gaussian
factors, rescaled to the Frobenius norm √(n₁n₂) (text: singular values 1/√r, or the random orthogonal model). The
notebooks pass a seed of 0 for it, which their generator takes for no seed, so that the A* of the figures cannot be made
again: here it is drawn from the seed of the run. Runs start at 10⁻⁶·I (text: 10⁻⁶·N(0, 1/n)).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers._measure import Interval, first_step, relative_distance
from afterfit.papers.notsawo2025.recovery import slope_within

__all__ = [
    "EXACT",
    "Death",
    "Recovered",
    "along",
    "completed",
    "deaths",
    "fitted",
    "gap",
    "grouped",
    "judged",
    "least_nuclear",
    "least_nuclear_recovers",
    "least_penalised_error",
    "null_part",
    "penalised",
    "sensed",
    "settling",
    "span",
]

_START = 1e-6  # ζ of the notebooks and of App. D.2
EXACT = 1e-3  # the relative error that counts as found: of programs that find A* it is below 10⁻⁶


def completed(n: int, rank: int, N: int) -> af.tasks.MatrixCompletion:
    """N entries of an n x n matrix, chosen at random."""
    return af.tasks.MatrixCompletion(n, n, rank, observed=N, reduction="half_sum", size=float(n))


def sensed(n: int, rank: int, N: int, variance: float) -> af.tasks.MatrixSensing:
    """N numbers x⁽¹⁾ᵀA*x⁽²⁾ with independent Gaussian x of this variance: 1/N in the notebook, 1/n² in the text."""
    return af.tasks.MatrixSensing(
        n, n, rank, N=N, measurements="rank_one", variance=variance, reduction="half_sum", size=float(n)
    )


def penalised(
    task: af.tasks.Task, beta: float, dynamics: af.dynamics.Dynamics, seed: int, observations: int = 200
) -> af.Experiment:
    """½‖X vec(A) − y‖² + β‖A‖_*, from 10⁻⁶·I."""
    return af.Experiment(
        task=task,
        model=af.models.Linear(),
        penalty=af.penalties.Nuclear(float(beta)),
        dynamics=dynamics,
        init=af.inits.Identity(_START),
        seed=seed,
        observations=observations,
    )


def judged(run: af.Run, goal: float) -> af.Verdict:
    """The verdict, with one relative error for both t₁ and t₂."""
    return run.diagnose(fit=goal, generalise=goal)


def _measurements(data: af.tasks.Data) -> tuple[np.ndarray, np.ndarray]:
    """X, one matrix a measurement, and y; where measurements depend on one another, as many that do not."""
    truth = np.asarray(data.truth)
    if not hasattr(data.inputs, "mask"):
        U, s, Vt = np.linalg.svd(np.asarray(data.inputs).reshape(len(data.targets), -1), full_matrices=False)
        rank = int(np.sum(s > 1e-10 * s[0]))
        return Vt[:rank].reshape(rank, *truth.shape), (U.T[:rank] @ np.asarray(data.targets)) / s[:rank]
    rows, columns = np.nonzero(np.asarray(data.inputs.mask))
    X = np.zeros((len(rows), *truth.shape))
    X[np.arange(len(rows)), rows, columns] = 1.0
    return X, truth[rows, columns]


def fitted(data: af.tasks.Data) -> np.ndarray:
    """Â, the matrix of least Frobenius norm that fits."""
    X, y = _measurements(data)
    return af.theory.min_l2(X.reshape(len(X), -1), y).reshape(X.shape[1:])


def gap(data: af.tasks.Data, norm: float | str = 2) -> float:
    """‖Â − A*‖ in this norm of matrices."""
    return float(np.linalg.norm(fitted(data) - data.truth, norm))  # pyright: ignore[reportArgumentType, reportCallIssue]


def null_part(data: af.tasks.Data, A: np.ndarray) -> np.ndarray:
    """The part of a matrix that no measurement sees."""
    X = _measurements(data)[0].reshape(-1, A.size)  # orthonormal rows
    return A - (X.T @ (X @ A.ravel())).reshape(A.shape)


def least_nuclear(data: af.tasks.Data) -> np.ndarray:
    """The matrix of least nuclear norm that fits."""
    return af.theory.min_nuclear(*_measurements(data))


def least_penalised_error(data: af.tasks.Data, beta: float) -> float:
    """How far the minimiser of ½‖P(A − A*)‖² + β‖A‖_* is from A*, relative to it, P what the entries see."""
    return relative_distance(af.theory.nuclear_penalised(*_measurements(data), beta), np.asarray(data.truth))


def least_nuclear_recovers(data: af.tasks.Data) -> bool:
    """Whether A* is the matrix of least nuclear norm that fits."""
    return relative_distance(least_nuclear(data), np.asarray(data.truth)) <= EXACT


@dataclasses.dataclass(frozen=True)
class Recovered:
    """A run of descent by its numbers. Times are steps; inf where they do not come.

    `t2` is the step at which the relative error ‖A − A*‖_F/‖A*‖_F comes to its plateau (`settling`), `caption` the
    first with 10⁻⁴. `train` and `test` are the relative errors at the end, `test` the mean of the last five as it
    swings about its plateau, `gap` is ‖Â − A*‖_{2→2}.
    """

    run: af.Run = dataclasses.field(repr=False)
    alpha: float
    beta: float
    seed: int
    gap: float
    t2: float
    caption: float
    train: float
    test: float

    @property
    def product(self) -> float:
        """αβ."""
        return self.alpha * self.beta

    @classmethod
    def of(cls, run: af.Run) -> Recovered:
        """Read a run of descent."""
        steps, test = (run.curves[name].values for name in ("step", "test_error"))
        return cls(
            run=run,
            alpha=run.spec["dynamics"]["lr"],
            beta=run.spec["penalty"]["strength"],
            seed=run.spec["seed"],
            gap=gap(run.data),
            t2=settling(steps, test),
            caption=first_step(steps, test, 1e-4),
            train=float(run.curves["train_error"][-1]),
            test=float(test[-5:].mean()),
        )


def settling(steps: np.ndarray, errors: np.ndarray) -> float:
    """The first step with an error of at most 5/4 of that at which it ends, the mean of the last three.

    The notebooks have 5 % above or below, which is less than the error swings about its plateau where α is of order 1.
    It falls to the plateau along a straight line, and the two times differ by less than β of them.
    """
    return first_step(steps, errors, 1.25 * float(errors[-3:].mean()))


def grouped(cells: Iterable[Recovered], *names: str) -> list[list[Recovered]]:
    """Cells that agree in the numbers of these names, to six digits; in the order of these numbers."""
    groups: dict[tuple[float, ...], list[Recovered]] = {}
    for cell in cells:
        groups.setdefault(tuple(float(f"{getattr(cell, name):.6g}") for name in names), []).append(cell)
    return [groups[key] for key in sorted(groups)]


def along(
    groups: Sequence[Sequence[Recovered]], x: Callable[[Recovered], float], y: Callable[[Recovered], float]
) -> Interval:
    """The exponent p of y = C·xᵖ with a constant C for each group, by least squares, with Student's interval."""
    return slope_within([[(np.log(x(cell)), np.log(y(cell))) for cell in group] for group in groups])


class Death(NamedTuple):
    """A singular value that goes to 0 and stays there: at which step, and how large it was after the fit."""

    step: float
    before: float


def deaths(steps: np.ndarray, values: np.ndarray, start: int, level: float) -> list[Death]:
    """When each singular value is at `level` or below for good, of those that are above it at observation `start`.

    The smallest first; inf for one that is above it at the end.
    """
    found = []
    for column in values.T[::-1]:
        if column[start] <= level:
            continue
        (above,) = np.nonzero(column > level)
        last = int(above[-1]) + 1
        found.append(Death(float(steps[last]) if last < len(steps) else np.inf, float(column[start])))
    return found


def span(values: Sequence[float]) -> str:
    """The least and the largest of some numbers, in words."""
    low, high = (f"{value:.2g}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
