"""Parameters along a flow: a run keeps curves and its last parameters, so it is run anew to every time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import run_all

if TYPE_CHECKING:
    from afterfit.papers import Progress

__all__ = ["flat", "initial", "parameters_at"]


def parameters_at(
    times: Sequence[float] | np.ndarray, experiment: af.Experiment, label: str, progress: Progress
) -> np.ndarray:
    """All parameters of a flow at each of `times`, one row a time."""
    ends = {
        f"t={t:g}": experiment.set({"dynamics.until": float(t), "dynamics.first": 0.5 * float(t), "observations": 2})
        for t in times
    }
    return np.stack([flat(run) for run in run_all(ends, label, progress).values()])


def flat(run: af.Run) -> np.ndarray:
    """The last parameters of a run as one vector."""
    return _vector(run.params)


def initial(run: af.Run) -> np.ndarray:
    """The parameters that a run starts from, as one vector."""
    import jax

    with jax.enable_x64(True):
        return _vector(af.theory.instance_of(run).initial)


def _vector(params: Any) -> np.ndarray:
    import jax

    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])
