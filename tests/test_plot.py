"""Pictures say what the verdict says, in any kind of run, without touching global state."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from afterfit.criteria import Criteria
from afterfit.curves import dataset
from afterfit.plot import plot_run, setting_line
from afterfit.run import Run

SPEC = {
    "task": {"kind": "SparseRecovery", "precision": "double", "n": 100, "sparsity": 5, "N": 30},
    "model": {"kind": "Linear"},
    "penalty": {"kind": "L1", "strength": 1e-5},
    "dynamics": {"kind": "GradientDescent", "lr": 0.1, "steps": 1_000_000},
    "init": {"kind": "Gaussian", "seed": None, "scale": 1.0},
    "seed": 3,
    "observations": 100,
}


def make_run(kind: str = "grokking", **changes) -> Run:
    """A run with made-up curves of which the verdict is known."""
    log_time = np.concatenate([[-np.inf], np.linspace(-2, 6, 100)])
    t = 10.0**log_time
    metric, criteria = "error", Criteria.errors(fit=1e-2, generalise=0.05)
    train = np.exp(-t) + 1e-6
    test = 1 / (1 + (t / 1e4) ** 4) + 1e-3
    norm = 1 + 5 / (1 + t / 1e3)
    status = "finished"
    if kind == "accuracy":
        metric, criteria = "accuracy", Criteria.accuracies()
        train, test = 1 - train / 2, 1 - test / 2
    if kind == "with the fit":
        test = np.exp(-t / 1.5) + 1e-3
    if kind == "log time":
        log_time = np.where(t > 1, t, log_time)
        t = np.where(log_time < 308, 10.0 ** np.minimum(log_time, 308), np.inf)
    if kind == "diverged":
        status = "diverged"
        train, test = (np.exp(np.minimum(t, 700)) for _ in range(2))
        train[-1], norm[-1] = np.nan, np.inf
    columns = {f"train_{metric}": train, f"test_{metric}": test, "norm_l2": norm, "norm_l1": 2 * norm**2}
    facts = {
        "spec": SPEC,
        "curves": dataset(columns, list(t), list(log_time), list(range(t.size))),
        "params": {},
        "metric": metric,
        "criteria": criteria,
        "status": status,
        "message": "",
        "work": {"steps": 1_000_000},
        "seconds": 1.5,
    }
    return Run(**(facts | changes))


@pytest.mark.parametrize("kind", ["grokking", "accuracy", "with the fit", "log time", "diverged"])
def test_every_kind_of_run_has_a_picture(kind):
    run = make_run(kind)
    figure = plot_run(run)
    figure.draw_without_rendering()  # warnings are errors here
    above, below = figure.axes
    assert type(figure) is Figure
    assert figure.canvas.manager is None, "nothing global: no window manages the figure"
    assert "training time t" in below.get_xlabel()
    assert below.get_xscale() == ("symlog" if kind == "log time" else "log")
    assert above.get_ylabel() == ("accuracy" if kind == "accuracy" else "relative error")
    assert figure.get_suptitle() == run.verdict.kind.capitalize()
    curves = above.get_lines()[:2]
    assert len({line.get_linestyle() for line in curves}) == 2, "told apart without colour"
    for line in curves:
        x = np.asarray(line.get_xdata())
        assert len(x) == 100
        assert np.all(np.isfinite(x)), "t = 0 has no place on a log axis"
    check_phases(figure, run, in_logs=kind == "log time")


def check_phases(figure, run, in_logs):
    """t_fit and t_gen are marked on both panels, and their labels, the legend and the title are clear."""
    times = [t for t in (run.verdict.t_fit, run.verdict.t_gen) if t is not None and math.isfinite(t)]
    for ax in figure.axes:
        vertical = [line.get_xdata()[0] for line in ax.get_lines() if list(line.get_ydata()) == [0, 1]]
        assert sorted(vertical) == pytest.approx(sorted(map(math.log10, times) if in_logs else times))
        assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1
    words = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(words) == len(times)
    words.append(figure.axes[0]._left_title.get_window_extent())
    assert not any(one.overlaps(other) for one, other in itertools.combinations(words, 2))


def test_setting_line_leaves_defaults_out():
    assert setting_line(SPEC) == (
        "SparseRecovery(n=100, sparsity=5, N=30) · Linear · L1(strength=1e-05) · "
        "GradientDescent(lr=0.1, steps=1_000_000) · Gaussian · seed 3"
    )
