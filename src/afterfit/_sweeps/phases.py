"""Phase diagrams: maps of kinds and of numbers over knobs."""

from __future__ import annotations

import dataclasses
from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis
from matplotlib.collections import PolyCollection
from matplotlib.colors import LogNorm, Normalize, rgb_to_hsv, to_hex, to_rgb
from numpy.typing import NDArray

from afterfit._base.errors import nearest, require
from afterfit.plot import Figure, legend_below, plain

__all__ = ["VERDICT_STYLES", "draw_phases", "middle", "setting_of"]

# Told apart by colour, by lightness (in this order, light to dark) and by hatching.
VERDICT_STYLES = {
    "generalised with the fit": ("#FDF4C8", ""),
    "grokking under way": ("#FAD384", ".."),
    "grokking without understanding": ("#EDAAC6", "\\\\\\"),
    "grokking": ("#DF931C", ""),
    "training collapsed": ("#3A9A84", "++"),
    "never generalised": ("#2B74B8", "///"),
    "misgrokking": ("#7A3B96", "xx"),
    "never fitted": ("#4A2C2A", "---"),
    "diverged": ("#000000", "|||"),
}
_HATCHES = ("", "///", "xx", "\\\\\\", "++", "---", "|||")
_NO_RUN = "no run"
_HATCHED: dict[str, Any] = {"edgecolor": "0.45", "linewidth": 0.0, "hatch": "xxx"}  # never
_POINTS = {"color": "#0072B2", "linewidth": 0.6, "marker": "o", "markersize": 4}


def draw_phases(
    values: xr.DataArray,
    x: str | None = None,
    y: str | None = None,
    *,
    run: xr.DataArray | None = None,
    never: str = "never",
) -> Figure:
    """A map of `values` over one or two knobs, which are its dimensions besides `seed`.

    Of kinds (verdicts, statuses; None where there is no run), a cell shows the most frequent over seeds. Where seeds
    disagree, an inner square shows the second, with its share of seeds as its share of the cell; of equally frequent
    ones, the second is the one further down in the legend. Over one knob, shares are stacked.

    Of numbers (NaN where there is no run), a cell shows the median over seeds, of an even number the lower of the two
    in the middle. inf is what never came, and is called `never`: it counts as above all numbers, and cells where the
    median is never are hatched. Where it is for some seeds, a hatched inner square shows their share. Over one knob, a
    point is a run, and a triangle at the top one that never did.

    `x` and `y` say which knob goes where, by the settings that they are; by default, the first and the second. `run`
    says which cells were run, where others are inferred: they get a dot.
    """
    x, y = _places(values, x, y)
    if "seed" not in values.dims:
        values = values.expand_dims("seed")
    kinds = values.dtype.kind in "OU"
    if kinds:
        values = values.astype(object).fillna(_NO_RUN)
    over = [knob for knob in (y, x) if knob is not None]
    cells = values.transpose(*over, "seed").values
    name = str(values.name or "value")
    was_run = None if run is None else run.transpose(*over).values.astype(bool)

    figure = Figure(figsize=(7.5, 4.8), layout="constrained")
    ax = figure.subplots()
    across = _Knob.of(values[x])
    across.label(ax.xaxis)
    ax.set_xlim(across.edges[0], across.edges[-1])
    if y is None:
        _draw_shares(ax, cells, across) if kinds else _draw_points(ax, cells, across, name, never)
        dots = None if was_run is None else (across.at[was_run], np.zeros(was_run.sum()))
        transform = ax.get_xaxis_transform()
    else:
        up = _Knob.of(values[y])
        up.label(ax.yaxis)
        ax.set_ylim(up.edges[0], up.edges[-1])
        _draw_kinds(ax, cells, across, up, name) if kinds else _draw_numbers(ax, cells, across, up, name, never)
        dots = None if was_run is None else (across.at[np.nonzero(was_run)[1]], up.at[np.nonzero(was_run)[0]])
        transform = ax.transData
    if dots is not None:
        look = {"marker": "o", "color": "w", "markeredgecolor": "k", "markeredgewidth": 0.8, "markersize": 3.5}
        ax.plot(*dots, linestyle="", label="run (else inferred)", transform=transform, clip_on=False, zorder=4, **look)
    if kinds:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, fontsize="small", title=name)
    elif ax.get_legend_handles_labels()[0]:
        legend_below(ax)
    return figure


@dataclasses.dataclass(frozen=True)
class _Knob:
    """Where a knob's values lie on an axis, the edges of their cells, and what the axis says."""

    name: str
    at: NDArray
    edges: NDArray
    logarithmic: bool
    words: list[str] | None  # of values that are not numbers

    @classmethod
    def of(cls, knob: xr.DataArray) -> _Knob:
        values, words = knob.values, None
        if values.dtype.kind not in "iuf":
            values, words = np.arange(len(values)), [str(value) for value in values]
        values = values.astype(float)
        logarithmic = _log_spaced(values)
        place = np.log(values) if logarithmic else values
        half = np.diff(place) / 2 if len(place) > 1 else np.array([0.5])
        edges = np.concatenate([[place[0] - half[0]], place[:-1] + half[: len(place) - 1], [place[-1] + half[-1]]])
        return cls(setting_of(knob), values, np.exp(edges) if logarithmic else edges, logarithmic, words)

    def label(self, axis: Axis) -> None:
        """Scale, ticks and label of `axis`."""
        axis.axes.set(**{("xscale" if isinstance(axis, XAxis) else "yscale"): "log" if self.logarithmic else "linear"})
        if self.words is not None:
            axis.set_ticks(self.at, [plain(word) for word in self.words])
        axis.set_label_text(plain(self.name))

    def inner(self, share: NDArray, which: NDArray) -> tuple[NDArray, NDArray]:
        """The ends of the middle `share` of the cells `which`, as seen on the axis."""
        edges = np.log(self.edges) if self.logarithmic else self.edges
        middle, width = (edges[1:] + edges[:-1])[which] / 2, np.diff(edges)[which] * share / 2
        ends = middle - width, middle + width
        return (np.exp(ends[0]), np.exp(ends[1])) if self.logarithmic else ends


def _log_spaced(values: NDArray) -> bool:
    """Whether values step by factors rather than by differences; of two, whether they are a decade apart."""
    if len(values) < 2 or values.min() <= 0:
        return False
    if len(values) == 2:
        return bool(values.max() >= 10 * values.min())
    steps, factors = np.diff(values), np.diff(np.log(values))
    return bool(np.std(factors) / abs(factors.mean()) < np.std(steps) / abs(steps.mean()))


def _places(values: xr.DataArray, x: str | None, y: str | None) -> tuple[str, str | None]:
    """Which dimension goes across and which up."""
    knobs = {setting_of(values[name]): str(name) for name in values.dims if name != "seed"}
    require(
        len(knobs) in (1, 2),
        f"a phase diagram has one or two knobs, and here are {len(knobs)} ({', '.join(knobs)}): "
        "choose a value of each of the others first.",
    )
    for name in (x, y):
        require(name is None or name in knobs, f"{name!r} is not a knob here: {nearest(str(name), knobs)}")
    require(x is None or x != y, f"x and y are both {x!r}: give two knobs, or one of them.")
    x = x or next(name for name in knobs if name != y)
    return knobs[x], next((word for name, word in knobs.items() if name != x), None)


def setting_of(knob: xr.DataArray) -> str:
    """The setting that a dimension stands for."""
    return str(knob.attrs.get("setting", knob.name))


def _styles(kinds: list[str]) -> dict[str, tuple[str, str]]:
    """Colour and hatching of each kind: fixed for verdicts, from light to dark for anything else."""
    if set(kinds) <= VERDICT_STYLES.keys():
        return {kind: style for kind, style in VERDICT_STYLES.items() if kind in kinds}
    shades = mpl.colormaps["viridis_r"](np.linspace(0.02, 1, len(kinds)))
    return {kind: (to_hex(shades[k]), _HATCHES[k % len(_HATCHES)]) for k, kind in enumerate(kinds)}


def _shares(cells: NDArray) -> tuple[dict[str, tuple[str, str]], NDArray]:
    """The styles of the kinds that occur, and the share of each over seeds (kinds, cells…), of the seeds that ran."""
    styles = _styles(sorted(set(cells.ravel().tolist()) - {_NO_RUN}))
    counts = np.array([(cells == kind).sum(axis=-1) for kind in styles]).reshape(len(styles), *cells.shape[:-1])
    return styles, counts / np.maximum(counts.sum(axis=0), 1)


def _patch(style: tuple[str, str]) -> dict[str, Any]:
    """How a kind is drawn. The hatching is dark on light and light on dark."""
    colour, hatch = style
    light = rgb_to_hsv(to_rgb(colour))[2] > 0.75
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "0.25" if light else "0.75", "linewidth": 0.0}


def _draw_kinds(ax: Axes, cells: NDArray, across: _Knob, up: _Knob, name: str) -> None:
    """The most frequent kind as a cell, the second as a square in it."""
    styles, shares = _shares(cells)
    ranking = np.argsort(-shares, axis=0, kind="stable")
    for k, (kind, style) in enumerate(styles.items()):
        label = kind
        for rank in range(min(len(styles), 2)):
            rows, columns = np.nonzero((ranking[rank] == k) & (shares[k] > 0))
            if not len(rows):
                continue
            side = np.sqrt(shares[k][rows, columns]) if rank else np.ones(len(rows))
            (left, right), (low, high) = across.inner(side, columns), up.inner(side, rows)
            corners = _corners(left, right, low, high)
            look = {"zorder": 1 + rank, "antialiased": False, "gid": f"{kind}, rank {rank + 1}", **_patch(style)}
            ax.add_collection(PolyCollection(list(corners), label=label, **look))
            label = "_nolegend_"
    if not shares.sum(axis=0).all():
        _swatch(ax, _NO_RUN)
    if np.any((shares > 0).sum(axis=0) > 1):
        words = f"Inner squares: the second most frequent {name} (or as frequent), its share of seeds as area."
        ax.set_title(words, loc="left", fontsize="small", color="0.3")


def _draw_shares(ax: Axes, cells: NDArray, across: _Knob) -> None:
    """The shares of kinds over seeds, stacked, over one knob."""
    styles, shares = _shares(cells)
    below = np.cumsum(shares, axis=0) - shares
    left, width = across.edges[:-1], np.diff(across.edges)
    for share, bottom, (kind, style) in zip(shares, below, styles.items(), strict=True):
        ax.bar(left, share, width, bottom, align="edge", label=kind, antialiased=False, **_patch(style))
    ax.set_ylim(0, 1)
    ax.set_ylabel("share of seeds")


def _corners(left: NDArray, right: NDArray, low: NDArray, high: NDArray) -> list[NDArray]:
    """Rectangles, as a PolyCollection takes them."""
    return list(np.array([[left, low], [right, low], [right, high], [left, high]]).transpose(2, 0, 1))


def middle(values: NDArray) -> NDArray:
    """The median along the last axis, of an even number the lower of the two in the middle; NaN does not count.

    Between a number and inf there is no mean: half of the runs got there, and the other half did not.
    """
    count = np.sum(~np.isnan(values), axis=-1, keepdims=True)
    return np.take_along_axis(np.sort(values, axis=-1), np.maximum(count - 1, 0) // 2, axis=-1)[..., 0]


def _draw_numbers(ax: Axes, cells: NDArray, across: _Knob, up: _Knob, name: str, never: str) -> None:
    """The median over seeds as colour, on a log scale where it spans a decade."""
    median, several = middle(cells), cells.shape[-1] > 1
    shown, lost = np.isfinite(median), np.isposinf(median)
    if shown.any():
        norm = (LogNorm if _by_decades(median[shown]) else Normalize)(median[shown].min(), median[shown].max())
        mesh = ax.pcolormesh(across.edges, up.edges, np.ma.masked_array(median, ~shown), norm=norm, cmap="viridis")
        many = ", median over seeds" + (" (the lower of two)" if cells.shape[-1] % 2 == 0 else "") if several else ""
        ax.figure.colorbar(mesh, ax=ax, label=f"{name}{many}")
    if lost.any():
        ax.pcolor(across.edges, up.edges, np.ma.masked_array(np.zeros(lost.shape), ~lost), cmap="Greys", **_HATCHED)
        _swatch(ax, f"{never}, for most seeds" if several else never, _HATCHED["hatch"])
    share = np.isposinf(cells).sum(axis=-1) / np.maximum((~np.isnan(cells)).sum(axis=-1), 1)
    rows, columns = np.nonzero(shown & (share > 0))
    if len(rows):
        side = np.sqrt(share[rows, columns])
        (left, right), (low, high) = across.inner(side, columns), up.inner(side, rows)
        look = {**_HATCHED, "facecolor": "w", "zorder": 2, "gid": "never, in part"}
        label = f"inner squares: {never}, its share of seeds"
        ax.add_collection(PolyCollection(_corners(left, right, low, high), label=label, **look))
    if np.isnan(median).any():
        _swatch(ax, _NO_RUN)


def _draw_points(ax: Axes, cells: NDArray, across: _Knob, name: str, never: str) -> None:
    """Every run as a point over one knob, those of a seed joined; never as a triangle at the top."""
    seeds = cells.shape[-1]
    drawn = np.where(np.isfinite(cells), cells, np.nan)
    for seed in range(seeds):
        label = (f"runs, {seeds} seeds" if seeds > 1 else "runs") if seed == 0 else None
        ax.plot(across.at, drawn[:, seed], label=label, alpha=0.8, **_POINTS)
    if _by_decades(drawn[~np.isnan(drawn)]):
        ax.set_yscale("log")
    counts, ran = np.isposinf(cells).sum(axis=-1), (~np.isnan(cells)).sum(axis=-1)
    top = ax.get_xaxis_transform()
    if counts.any():
        places = across.at[counts > 0]
        look = {"color": "#D55E00", "mfc": "w", "transform": top, "clip_on": False}
        ax.plot(places, np.ones_like(places), "^", label=never, **look)
    for place, count, total in zip(across.at, counts, ran, strict=True):
        if count and seeds > 1:
            look = {"xytext": (0, 5), "textcoords": "offset points", "ha": "center", "fontsize": "x-small"}
            ax.annotate(f"{count}/{total}", (place, 1.0), xycoords=top, **look)
    ax.set_ylabel(name)
    ax.grid(True, which="major", color="0.9", linewidth=0.6)


def _swatch(ax: Axes, label: str, hatch: str = "") -> None:
    """A line of the legend that belongs to nothing drawn."""
    nothing = [np.zeros((0, 2))]
    ax.add_collection(PolyCollection(nothing, label=label, facecolor="w", edgecolor="0.45", linewidth=0.6, hatch=hatch))


def _by_decades(values: NDArray) -> bool:
    """Whether values are positive and span a decade."""
    return bool(values.size and values.min() > 0 and values.max() >= 10 * values.min())
