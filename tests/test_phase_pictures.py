"""Pictures of sweeps show what they are given, read back from what was drawn."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.colors import LogNorm, to_rgb

from afterfit._base.errors import SpecError
from afterfit._diagnose import VERDICTS
from afterfit._sweeps.laws import fit_power_law
from afterfit._sweeps.phases import VERDICT_STYLES, draw_phases, middle
from afterfit._sweeps.pictures import curves_by_knob, scaling_law_figure

STRENGTHS, SCALES = np.logspace(-6, -2, 5), np.logspace(0, 2, 3)


def sweep_of(values: np.ndarray, name: str) -> xr.DataArray:
    """`values` over two knobs and the seed."""
    coords = {"penalty.strength": STRENGTHS, "init.scale": SCALES, "seed": np.arange(values.shape[-1])}
    return xr.DataArray(values, dims=tuple(coords), coords=coords, name=name)


def lightness(colour: str) -> float:
    """CIE L*."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    y = linear @ [0.2126, 0.7152, 0.0722]
    return 116 * np.cbrt(y) - 16 if y > 0.008856 else 903.3 * y


def legend_texts(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_every_verdict_is_told_apart_without_colour():
    assert set(VERDICT_STYLES) == set(VERDICTS)
    for (one, hatch), (other, another) in itertools.combinations(VERDICT_STYLES.values(), 2):
        assert abs(lightness(one) - lightness(other)) > 9
        assert hatch != another or abs(lightness(one) - lightness(other)) > 20


def test_a_diagram_of_kinds_shows_majority_and_dissent():
    rng = np.random.default_rng(0)
    kinds = rng.choice(["grokking", "never fitted", "misgrokking"], size=(5, 3, 5), p=[0.7, 0.2, 0.1]).astype(object)
    kinds[0, 0] = None  # not run yet
    figure = draw_phases(sweep_of(kinds, "verdict"), x="penalty.strength", y="init.scale")
    ax = figure.axes[0]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("penalty.strength", "init.scale")
    whole = np.log10(STRENGTHS[1] / STRENGTHS[0]) * np.log10(SCALES[1] / SCALES[0])  # area of a cell, in decades
    drawn: dict[tuple[int, int], dict[str, float]] = {}
    for collection in ax.collections:
        if not collection.get_gid():
            continue
        kind, rank = collection.get_gid().split(", rank ")
        assert isinstance(collection, PolyCollection)
        assert np.allclose(collection.get_facecolor()[0][:3], to_rgb(VERDICT_STYLES[kind][0]))
        for path in collection.get_paths():
            corners = np.log10(path.vertices[:4])
            middle, size = corners.mean(axis=0), np.ptp(corners, axis=0)
            cell = (round(middle[0] + 6), round(middle[1]))
            assert kind not in drawn.setdefault(cell, {})
            drawn[cell][kind] = 1.0 if rank == "1" else float(size.prod() / whole)
    for cell in itertools.product(range(5), range(3)):
        if cell == (0, 0):
            assert cell not in drawn
            continue
        counts = sorted(((kinds[cell] == kind).mean(), kind) for kind in set(kinds[cell]))[::-1]
        shown = drawn[cell]
        assert len(shown) == min(len(counts), 2)
        first, *second = sorted(shown, key=shown.get, reverse=True)
        assert (kinds[cell] == first).mean() == counts[0][0]
        for kind in second:
            assert shown[kind] == pytest.approx((kinds[cell] == kind).mean())
            assert shown[kind] == pytest.approx(counts[1][0])
    assert set(legend_texts(ax)) == {"grokking", "never fitted", "misgrokking", "no run"}
    assert "second most frequent" in ax.get_title(loc="left")


def test_cells_meet_half_way_in_logs():
    kinds = np.full((5, 3, 1), "grokking", object)
    kinds[2:] = "diverged"
    ax = draw_phases(sweep_of(kinds, "verdict")).axes[0]
    ends = {c.get_gid().split(",")[0]: c.get_datalim(ax.transData) for c in ax.collections if c.get_gid()}
    assert ends["grokking"].x0 == pytest.approx(10**-6.5)
    assert ends["grokking"].x1 == pytest.approx(10**-4.5) == pytest.approx(ends["diverged"].x0)


def test_a_diagram_of_numbers_shows_medians_and_marks_never():
    rng = np.random.default_rng(1)
    times = 10 ** rng.uniform(1, 6, size=(5, 3, 3))
    times[0, 0, :2] = np.inf  # never in two of three: the median is never
    times[1, 1, 0] = np.inf  # in one of three: the median is the larger of the other two
    times[4, 2] = np.nan  # not run
    figure = draw_phases(sweep_of(times, "t_gen"), x="init.scale")
    ax = figure.axes[0]
    (mesh,) = (c for c in ax.collections if isinstance(c, QuadMesh))
    assert isinstance(mesh.norm, LogNorm)
    shown = mesh.get_array().reshape(5, 3)
    assert set(zip(*np.ma.getmaskarray(shown).nonzero(), strict=True)) == {(0, 0), (4, 2)}
    assert shown[1, 1] == max(times[1, 1, 1:])
    np.testing.assert_allclose(shown[2:4], np.median(times, axis=-1)[2:4])
    assert legend_texts(ax) == ["never, for most seeds", "inner squares: never, its share of seeds", "no run"]
    (part,) = (c for c in ax.collections if c.get_gid() == "never, in part")
    (square,) = part.get_paths()
    sides = np.ptp(np.log10(square.vertices[:4]), axis=0)
    assert sides.prod() == pytest.approx(1 / 3), "one seed of three, of a cell that is one decade each way"
    assert "t_gen" in figure.axes[1].get_ylabel()


def test_half_of_the_seeds_is_not_never():
    # With two seeds every tie used to be drawn as never: between a number and never there is no mean.
    times = np.full((5, 3, 2), np.inf)
    times[..., 0] = 7.0
    times[0, 0] = 3.0, 5.0
    times[1, 0] = np.nan, 4.0  # one of two was run
    np.testing.assert_array_equal(middle(times)[:2, 0], [3.0, 4.0])
    assert (middle(times)[2:] == 7.0).all()
    figure = draw_phases(sweep_of(times, "t_gen"))
    (mesh,) = (c for c in figure.axes[0].collections if isinstance(c, QuadMesh))
    assert not np.ma.getmaskarray(mesh.get_array()).any()
    assert "the lower of two" in figure.axes[1].get_ylabel()
    assert legend_texts(figure.axes[0]) == ["inner squares: never, its share of seeds"]


def dataset_of(errors: np.ndarray, verdicts: list[list[str]]) -> xr.Dataset:
    """A sweep's dataset over one knob: errors (knob, seed, time), the same for training and test."""
    dims = ("init.scale", "seed")
    status = np.where(np.array(verdicts) == "diverged", "diverged", "finished")
    return xr.Dataset(
        {
            "verdict": (dims, verdicts),
            "status": (dims, status),
            **{f"{side}_error": ((*dims, "time"), errors) for side in ("train", "test")},
        },
        {"init.scale": [1.0, 30.0], "seed": [0, 1], "time": np.logspace(-1, 3, errors.shape[-1])},
    )


def test_curves_that_diverge_do_not_stretch_the_axis():
    tame = np.geomspace(1, 1e-3, 20)
    wild = np.where(np.arange(20) < 8, 10.0 ** (12 * np.arange(20)), np.nan)
    data = dataset_of(np.array([[tame, wild], [wild, wild]]), [["grokking", "diverged"], ["diverged"] * 2])
    figure = curves_by_knob(data, "error", "init.scale")
    for ax in figure.axes[:2]:
        assert ax.get_ylim()[1] < 10
        assert ax.get_ylim()[0] > 1e-4
        # Of a seed that diverged and one that did not, the median (the lower of two) is the one that did not.
        np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), tame[1:])
    assert "3 of 4 runs diverged" in figure.get_suptitle()
    figure.draw_without_rendering()


def test_a_dollar_in_a_value_is_a_dollar():
    words = ["$$", r"$\bad{$"]
    coords = {"task.folder": words, "seed": [0]}
    kinds = xr.DataArray([["grokking"], ["diverged"]], coords, list(coords), name="verdict").astype(object)
    figure = draw_phases(kinds)
    figure.draw_without_rendering()
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == [
        word.replace("$", r"\$") for word in words
    ]
    data = dataset_of(np.ones((2, 2, 5)), [["grokking"] * 2] * 2).rename({"init.scale": "task.folder"})
    curves_by_knob(data.assign_coords({"task.folder": words}), "error", "task.folder").draw_without_rendering()


def test_a_refined_diagram_marks_what_was_run():
    kinds = sweep_of(np.full((5, 3, 1), "grokking", object), "verdict").isel(seed=0, drop=True)
    run = xr.zeros_like(kinds, bool)
    run[3, 1] = run[0, 2] = True
    (dots,) = draw_phases(kinds, run=run).axes[0].lines
    assert {(x, y) for x, y in dots.get_xydata()} == {(STRENGTHS[3], SCALES[1]), (STRENGTHS[0], SCALES[2])}


def test_over_one_knob_shares_are_stacked_and_runs_are_points():
    kinds = np.array([["grokking", "grokking", "diverged", "grokking"]] * 5, object)[:, None].repeat(3, 1)
    ax = draw_phases(sweep_of(kinds, "verdict")[:, 0]).axes[0]
    heights = {bars.get_label(): {bar.get_height() for bar in bars} for bars in ax.containers}
    assert heights == {"grokking": {0.75}, "diverged": {0.25}}
    times = 10.0 ** np.arange(60).reshape(5, 3, 4)
    times[4, 0, 1:] = np.inf
    ax = draw_phases(sweep_of(times, "t_gen")[:, 0]).axes[0]
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_array_equal(lines["runs, 4 seeds"].get_ydata(), times[:, 0, 0])
    assert lines["never"].get_xdata() == STRENGTHS[4]
    assert [text.get_text() for text in ax.texts] == ["3/4"]


def test_a_scaling_law_shows_runs_limits_and_law():
    rng = np.random.default_rng(2)
    x = np.logspace(-4, -1, 6)
    t = np.exp(1 - np.log(x)[:, None] + 0.3 * rng.normal(size=(6, 3)))
    censored = t > 1e4
    t = np.minimum(t, 1e4)
    law = fit_power_law(x, t, censored)
    figure = scaling_law_figure(x[::-1], t[::-1], censored[::-1], law, x_name="penalty.strength", t_name="t_gen")
    ax = figure.axes[0]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["law"].get_ydata(), law(lines["law"].get_xdata()))
    np.testing.assert_array_equal(lines["runs, 3 seeds"].get_ydata(), np.where(censored, np.nan, t)[:, 0])
    (limits,) = ax.containers
    np.testing.assert_array_equal(limits.lines[0].get_ydata(), np.full(censored.sum(), 1e4))
    assert f"p = {law.exponent:.3g}" in ax.get_title(loc="left")
    assert f"{law.interval[0]:.3g} to {law.interval[1]:.3g}" in ax.get_title(loc="left")


def test_what_is_no_phase_diagram_is_refused_in_words():
    values = sweep_of(np.zeros((5, 3, 1)), "t_gen")
    with pytest.raises(SpecError, match=r"did you mean 'penalty\.strength'"):
        draw_phases(values, x="penalty.strengt")
    with pytest.raises(SpecError, match="here are 3"):
        draw_phases(values.rename(seed="dynamics.lr"))
    with pytest.raises(SpecError, match="two knobs"):
        draw_phases(values, x="init.scale", y="init.scale")
