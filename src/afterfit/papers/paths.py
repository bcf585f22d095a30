"""Parameters along a flow: a run keeps curves and its last parameters, so it is run anew to every time."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from afterfit.experiment import Experiment
from afterfit.papers.gallery import run_all
from afterfit.run import Run
from afterfit.train import prepare

__all__ = ["flat", "initial", "parameters_at"]


def parameters_at(
    times: Sequence[float] | np.ndarray, experiment: Experiment, label: str, progress: bool | None
) -> np.ndarray:
    """All parameters of a flow at each of `times`, one row a time."""
    ends = {
        f"t={t:g}": experiment.set({"dynamics.until": float(t), "dynamics.first": 0.5 * float(t), "observations": 2})
        for t in times
    }
    return np.stack([flat(run) for run in run_all(ends, label, progress).values()])


def flat(run: Run) -> np.ndarray:
    """The last parameters of a run as one vector."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(run.params)])


def initial(run: Run) -> np.ndarray:
    """The parameters that a run starts from, as one vector."""
    with jax.enable_x64(True):
        _, params = prepare(Experiment.from_dict(run.spec))
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])
