"""Where flows on diagonal nets end, and the minimisers of Q that they are held against.

Evidence about argmin Q comes from flows of the parameters themselves (`explicit`): the variables of the `dual` method
satisfy the optimality conditions of argmin Q at every time, so that its ends could show nothing else.
"""

from __future__ import annotations

import numpy as np

import afterfit as af
from afterfit.papers._measure import examples

__all__ = ["end", "minimiser", "parameter_flow", "start_shape"]


def parameter_flow(slowest: float, alpha: float, first: float, atol: float = 1e-12) -> af.dynamics.GradientFlow:
    """The flow of the parameters themselves, until weights that start at 0 have come to rest.

    Its rates are of order 1 for α ≪ 0.1, `slowest` the time that the last of the weights takes, and of order α² beyond.
    """
    fast = 1 + (10 * alpha) ** 2
    return af.dynamics.GradientFlow(until=slowest / fast, first=first / fast, rtol=1e-9, atol=atol, method="explicit")


def end(run: af.Run) -> np.ndarray:
    """The weights β at the end."""
    return run.curves["weights"][-1].values


def start_shape(run: af.Run) -> np.ndarray:
    """The w₀ of a run."""
    shape = run.spec["init"]["shape"]
    return np.ones(run.spec["task"]["d"]) if shape is None else np.asarray(shape)


def minimiser(run: af.Run, alpha: float | None = None, w0: np.ndarray | float | None = None) -> np.ndarray:
    """argmin Q_{α,w₀} for the data, scale and shape of a run, or for another scale or shape."""
    scale = run.spec["init"]["scale"] if alpha is None else alpha
    return af.theory.Q(scale, start_shape(run) if w0 is None else w0).minimise(*examples(run))
