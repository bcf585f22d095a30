"""Pictures say what the verdict says, in any kind of run, without touching global state."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from matplotlib.figure import Figure

import afterfit as af
from afterfit import SpecError
from afterfit._base.curves import dataset
from afterfit._diagnose.thresholds import Criteria
from afterfit._training.run import Run
from afterfit.plot import Moment, Overlay, plot_run, setting_line

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
    assert isinstance(figure, Figure)
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


def test_a_diverging_curve_leaves_through_the_top():
    run = make_run("diverged")
    assert np.nanmax(run.curves["test_error"]) > 1e90, "or there is nothing to leave"
    for ax, first in zip(plot_run(run).axes, (run.curves["test_error"].values[1], 1.0), strict=True):
        assert ax.get_ylim()[1] <= 1e4 * first
        assert ax.get_ylim()[0] > 1e-4


@pytest.mark.parametrize("time", [1e-2, 1e150])
def test_a_run_without_a_finite_number_has_a_picture(time):
    run = make_run("diverged")
    curves = run.curves.isel(time=slice(0, 2)) * np.nan
    curves = curves.assign_coords(time=[0.0, time], log10_time=("time", [-np.inf, math.log10(time)]))
    figure = plot_run(make_run("diverged", curves=curves))
    figure.draw_without_rendering()
    assert all("No finite" in ax.texts[0].get_text() for ax in figure.axes)


def test_single_precision_draws_without_a_warning():
    run = make_run()
    plot_run(make_run(curves=run.curves.astype(np.float32))).draw_without_rendering()  # warnings are errors here


@pytest.mark.parametrize("name", ["$$", r"$\bad{$", "a$b", "100 % $x_1$"])
def test_a_dollar_in_a_setting_is_a_dollar(name):
    figure = plot_run(make_run(spec=SPEC | {"task": {"kind": "Images", "folder": name, "n": 5}}))
    figure.draw_without_rendering()
    drawn = figure.axes[0]._left_title
    assert name.replace("$", r"\$") in drawn.get_text().replace("\n", " ")
    assert not drawn._preprocess_math(drawn.get_text())[1], "no formula"


def test_the_caption_of_arrays_is_short_and_inside_the_picture():
    shapes = {"X": [1000, 64], "y": [1000], "X_test": [797, 64], "y_test": [797]}
    task = {"kind": "Arrays", "shapes": shapes, "sha256": "0123456789abcdef" * 4, "fit": None}
    figure = plot_run(make_run(spec=SPEC | {"task": task}))
    figure.draw_without_rendering()
    title = figure.axes[0]._left_title
    assert "01234567…" in title.get_text()
    assert "89abcdef" not in title.get_text()
    assert title.get_window_extent().x1 <= figure.bbox.x1
    long = plot_run(make_run(spec=SPEC | {"task": {"kind": "Images", "folder": "deep/" * 60, "n": 5}}))
    long.draw_without_rendering()
    assert long.axes[0]._left_title.get_window_extent().x1 <= long.bbox.x1


def test_theory_is_drawn_as_firmly_as_it_is_claimed():
    moments = (
        Moment("about", 1e3, 5e2, 2e3, True, seen=1.5e3),
        Moment("order", 1e4, 1e3, 1e5, False),
        Moment("at most", 1e1, 0.0, 1e1, True),
    )
    levels = {f"level {k}": 0.1 * (k + 1) for k in range(4)}
    foreseen = {"foreseen": (np.array([1.0, 1e5]), np.array([1.0, 1e-30]))}
    plain, figure = plot_run(make_run()), plot_run(make_run(), Overlay(levels, moments, foreseen))
    above, _, clocks = figure.axes
    assert above.get_ylim() == plain.axes[0].get_ylim(), "what is foreseen does not stretch the axis"
    # No clock is a line across the curves: the only vertical lines are t_fit and t_gen.
    assert sum(list(line.get_ydata()) == [0, 1] for line in above.get_lines()) == 2
    styles = [line.get_linestyle() for line in above.get_lines() if line.get_label().startswith("level")]
    assert len(styles) == 4
    bars = [line for line in clocks.get_lines() if len(line.get_xdata()) == 2 and list(line.get_ydata()) != [0, 1]]
    assert [tuple(line.get_xdata()) for line in bars[:2]] == [(5e2, 2e3), (1e3, 1e5)]
    assert bars[0].get_linestyle() != bars[1].get_linestyle()
    ticks = [line.get_xdata()[0] for line in clocks.get_lines() if line.get_marker() == "|"]
    assert ticks == [1e3, 1e1], "an order of magnitude has no place of its own"
    assert [line.get_xdata()[0] for line in clocks.get_lines() if line.get_marker() == "D"] == [1.5e3]
    assert [text.get_text() for text in clocks.texts] == ["about", "order", "at most"]
    figure.draw_without_rendering()
    assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in clocks.texts)


def test_what_a_model_observes_of_its_own_is_drawn():
    run = make_run()
    mine = np.linspace(-3, 1, run.curves.sizes["time"])
    figure = plot_run(make_run(curves=run.curves.assign(sparsity=("time", mine))))
    (line,) = (line for line in figure.axes[-1].get_lines() if line.get_label().startswith("sparsity"))
    np.testing.assert_allclose(np.asarray(line.get_ydata()) * np.abs(mine[1:]).max(), mine[1:])
    assert len(plot_run(run).axes) == 2


def test_a_quantity_with_several_numbers_is_drawn_too():
    run = make_run()
    mine = np.linspace(-3, 1, 3 * run.curves.sizes["time"]).reshape(-1, 3)
    figure = plot_run(make_run(curves=run.curves.assign(angles=(("time", "which"), mine))))
    lines = [line for line in figure.axes[-1].get_lines() if len(line.get_xdata()) > 2]
    np.testing.assert_allclose(np.transpose([line.get_ydata() for line in lines]) * np.abs(mine[1:]).max(), mine[1:])
    many = run.curves.assign(many=(("time", "which"), np.ones((run.curves.sizes["time"], 5000))))
    assert len(plot_run(make_run(curves=many)).axes[-1].get_lines()) < 50


@pytest.mark.parametrize("x", ["time", "step"])
@pytest.mark.parametrize("y", [None, "error", "norm_l2"])
def test_one_panel_shows_what_was_asked_for(x, y):
    run = make_run()
    figure = run.plot(y, x=x, ax=None) if (x, y) != ("time", None) else run.plot("error")
    (ax,) = figure.axes
    names = ["norm_l2"] if y == "norm_l2" else ["train_error", "test_error"]
    drawn = [line for line in ax.get_lines() if len(line.get_xdata()) > 2]
    assert [line.get_label() for line in drawn] == [name.replace("_", " ") for name in names]
    for line, name in zip(drawn, names, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), run.curves[x].values[1:])
        np.testing.assert_array_equal(line.get_ydata(), run.curves[name].values[1:])
    figure.draw_without_rendering()


def test_runs_are_compared_on_axes_of_ones_own():
    figure = Figure()
    _, ax = figure.subplots(1, 2)
    for kind in ("grokking", "with the fit"):
        assert make_run(kind).plot(x="step", ax=ax) is figure
    train, test, other_train, other_test = (line.get_color() for line in ax.get_lines())
    assert train == test != other_train == other_test
    assert not figure.axes[0].get_lines()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"y": "norm_l3"}, "this run has no curve 'norm_l3': did you mean 'norm_l"),
        ({"y": "eror"}, "did you mean 'error'"),
        ({"x": "epoch"}, "over x='time' or x='step', got 'epoch'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(asked, said):
    with pytest.raises(SpecError, match=said):
        make_run().plot(**asked)


def test_of_many_numbers_the_largest_at_the_end_are_drawn_and_the_legend_says_so():
    run = af.train(
        task=af.tasks.SparseRecovery(n=60, sparsity=3, N=30),
        model=af.models.Linear(),
        penalty=af.penalties.L1(1e-2),
        dynamics=af.dynamics.ProximalGradient(0.1, 3000),
        init=af.inits.Gaussian(1.0),
        observations=20,
    )
    (ax,) = run.plot("weights").axes
    (label,) = ax.get_legend_handles_labels()[1]
    assert "40 of 60" in label
    ends = np.abs(run.curves.weights.values[-1])
    assert np.count_nonzero(ends) < 40, "or there would be a choice"
    drawn = [abs(line.get_ydata()[-1]) for line in ax.get_lines() if len(line.get_ydata()) > 2]  # not the marks
    assert set(ends[ends > 0]) <= set(drawn)
