"""Descent as a plain loop of NumPy, with gradients written out by hand: the second way of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from afterfit import Experiment

__all__ = ["descend"]

Params = dict[str, np.ndarray]
Gradient = Callable[[Params], Params]


def descend(experiment: Experiment, data: Any, start: Params) -> Params | None:
    """The parameters after all steps; None for an experiment that this loop does not know."""
    outputs = _MODELS.get(type(experiment.model).__name__)
    loss = _slope_of_loss(experiment.task, data)
    penalty = _subgradient(experiment.penalty)
    step = _STEPS.get(type(experiment.dynamics).__name__)
    if not (outputs and loss and penalty and step) or experiment.task.precision != "double":
        return None
    X = np.asarray(data.inputs, float)
    if X.ndim != 2 or any(leaf.ndim != 1 for leaf in start.values()):
        return None

    def gradient(params: Params) -> Params:
        weights, pull_back = outputs(experiment.model, params)
        return pull_back(X.T @ loss(X @ weights))

    return step(experiment, gradient, penalty, start)


# ------------------------------------------------------------------------------------------------ the pieces


def _linear(model: Any, params: Params) -> tuple[np.ndarray, Callable[[np.ndarray], Params]]:
    return params["weights"], lambda slope: {"weights": slope}


def _diagonal(model: Any, params: Params) -> tuple[np.ndarray, Callable[[np.ndarray], Params]]:
    D, p, m = model.depth, params["plus"], params["minus"]
    return p**D - m**D, lambda slope: {"plus": D * p ** (D - 1) * slope, "minus": -D * m ** (D - 1) * slope}


_MODELS = {"Linear": _linear, "DiagonalNet": _diagonal}


def _slope_of_loss(task: Any, data: Any) -> Callable[[np.ndarray], np.ndarray] | None:
    """∂loss/∂outputs."""
    y, n = np.asarray(data.targets, float), data.n
    factor = {"sum": 1.0, "half_sum": 0.5, "mean": 1 / n, "half_mean": 0.5 / n}[task.loss.reduction]
    slopes = {
        "Squared": lambda f: 2 * factor * (f - y),
        "Logistic": lambda f: -factor * y / (1 + np.exp(y * f)),
        "Exponential": lambda f: -factor * y * np.exp(-y * f),
    }
    return slopes.get(type(task.loss).__name__)


def _subgradient(penalty: Any) -> Gradient | None:
    kind, strength = type(penalty).__name__, penalty.strength
    if kind == "Sum":
        parts = [_subgradient(part) for part in penalty.penalties]
        if not all(parts):
            return None
        return lambda params: {k: strength * sum(part(params)[k] for part in parts if part) for k in params}
    known = {"NoPenalty": np.zeros_like, "L1": lambda p: strength * np.sign(p), "L2": lambda p: strength * p}
    return (lambda params: {k: known[kind](p) for k, p in params.items()}) if kind in known else None


def _gradient_descent(e: Any, gradient: Gradient, penalty: Gradient, params: Params) -> Params:
    for _ in range(e.dynamics.steps):
        g, h = gradient(params), penalty(params)
        params = {k: p - e.dynamics.lr * (g[k] + h[k]) for k, p in params.items()}
    return params


def _proximal(e: Any, gradient: Gradient, penalty: Gradient, params: Params) -> Params | None:
    """argmin ½‖z − p‖² + Σ a|z| + ½b z², a and b the weights of L1 and L2 times the step."""
    parts = e.penalty.penalties if type(e.penalty).__name__ == "Sum" else (e.penalty,)
    outer = e.penalty.strength if type(e.penalty).__name__ == "Sum" else 1.0
    a = outer * sum(part.strength for part in parts if type(part).__name__ == "L1")
    b = outer * sum(part.strength for part in parts if type(part).__name__ == "L2")
    for _ in range(e.dynamics.steps):
        g, lr = gradient(params), e.dynamics.lr
        moved = {k: p - lr * g[k] for k, p in params.items()}
        params = {k: np.sign(z) * np.maximum(np.abs(z) - lr * a, 0) / (1 + lr * b) for k, z in moved.items()}
    return params


def _adam(e: Any, gradient: Gradient, penalty: Gradient, params: Params) -> Params:
    d = e.dynamics
    decay = getattr(d, "weight_decay", 0.0)
    m = {k: np.zeros_like(p) for k, p in params.items()}
    v = {k: np.zeros_like(p) for k, p in params.items()}
    for t in range(1, d.steps + 1):
        g, h = gradient(params), penalty(params)
        m = {k: d.b1 * m[k] + (1 - d.b1) * (g[k] + h[k]) for k in m}
        v = {k: d.b2 * v[k] + (1 - d.b2) * (g[k] + h[k]) ** 2 for k in v}
        rescaled = {k: (m[k] / (1 - d.b1**t)) / (np.sqrt(v[k] / (1 - d.b2**t)) + d.eps) for k in m}
        params = {k: p - d.lr * (rescaled[k] + decay * p) for k, p in params.items()}
    return params


_STEPS = {"GradientDescent": _gradient_descent, "ProximalGradient": _proximal, "Adam": _adam, "AdamW": _adam}
