"""Accuracies along a run: their picture, and when they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ALL", "accuracy_picture", "crossing", "first_time", "show_steps"]

ALL = 1 - 1e-6  # an accuracy of 100 %, up to rounding in single precision


def accuracy_picture(
    run: af.Run,
    lr: float,
    chance: float,
    predictions: Callable[[Axes, Axes], None] = lambda accuracy, norm: None,
    law: Callable[[Axes], None] | None = None,
) -> Figure:
    """Training and test accuracy, and the norm of the parameters, over time and the authors' steps; beside a law."""
    curves = run.curves.isel(time=slice(1, None))
    figure = af.plot.Figure(figsize=(11 if law is None else 15, 4.6), layout="constrained")
    accuracy, norm, *third = figure.subplots(1, 2 if law is None else 3)
    accuracy.plot(curves["time"], 100 * curves["train_accuracy"], **af.plot.TRAIN, label="training accuracy")
    accuracy.plot(curves["time"], 100 * curves["test_accuracy"], **af.plot.TEST, label="test accuracy")
    accuracy.axhline(100 * chance, color="k", ls=":", lw=1, label="random guessing")
    accuracy.set(ylabel="accuracy (%)", ylim=(100 * chance - 6, 104))
    norm.plot(curves["time"], curves["norm_l2"], color="0.6", lw=3, label=r"$\|\theta\|_2$")
    norm.set(ylabel="norm of the parameters")
    af.plot.log_time_axes(accuracy, norm)
    predictions(accuracy, norm)
    for ax in (accuracy, norm):
        show_steps(ax, lr, f"steps of gradient descent at rate {lr:g}")
        af.plot.mark_phases(ax, run.verdict, label=ax is accuracy)
    if law is not None:
        law(third[0])
    figure.legend(loc="outside lower center", ncols=3 if law is None else 4, frameon=False, fontsize="small")
    return figure


def show_steps(ax: Axes, lr: float, label: str) -> None:
    """A second axis below the one of time: how many steps of gradient descent that is."""
    ax.secondary_xaxis(-0.2, functions=(lambda t: np.divide(t, lr), lambda k: np.multiply(k, lr))).set_xlabel(label)


def first_time(curves, met: np.ndarray) -> float:
    """The first observation at which a condition is met."""
    times = curves["time"].values[met]
    return float(times[0]) if len(times) else np.inf


def crossing(run: af.Run, level: float) -> float:
    """When the test accuracy of a run first crosses a level, on a line in log t between observations; inf if never."""
    above = run.curves["test_accuracy"].values[1:] - level
    (changes,) = np.nonzero(above[1:] * above[:-1] <= 0)
    if not len(changes):
        return np.inf
    k = changes[0]
    before, after = np.log(run.curves["time"].values[1:][k : k + 2])
    return float(np.exp(before + (after - before) * above[k] / (above[k] - above[k + 1])))
