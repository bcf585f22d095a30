"""Pictures of runs. Matplotlib's object interface only: no window, no display, no global state."""

from __future__ import annotations

import dataclasses
import math
import re
import textwrap
from typing import TYPE_CHECKING, Any

import matplotlib.figure
import numpy as np

from afterfit._base.curves import KNOWN, TIME_LABEL
from afterfit._base.errors import nearest, require
from afterfit._base.html import picture_bytes
from afterfit._base.spec import DEFINING, Spec

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from afterfit._diagnose import Verdict
    from afterfit._training.run import Run

__all__ = [
    "TEST",
    "TRAIN",
    "Figure",
    "Moment",
    "Overlay",
    "drawable",
    "in_short",
    "legend_below",
    "log_time_axes",
    "mark_phases",
    "mathtext",
    "plain",
    "plot_curves",
    "plot_run",
    "positive",
    "setting_line",
]


def __dir__() -> list[str]:
    return __all__


# Colour-blind safe, and told apart without colour by their dashes and widths.
TRAIN = {"color": "#0072B2", "linestyle": "--", "linewidth": 1.4}
TEST = {"color": "#D55E00", "linestyle": "-", "linewidth": 2.0}
_NORMS = {
    "norm_l2": (r"$\Vert\theta\Vert_2$", {"color": "#222222", "linestyle": "-", "linewidth": 1.6}),
    "norm_l1": (
        r"$\Vert\theta\Vert_1$",
        {"color": "#009E73", "linestyle": (0, (5, 1.5, 1, 1.5)), "linewidth": 1.6},
    ),
}
_PHASES = {"t_fit": (r"t_\mathrm{fit}", ":"), "t_gen": (r"t_\mathrm{gen}", "-.")}


class Figure(matplotlib.figure.Figure):
    """Matplotlib's, shown by a notebook wherever it is the value of a cell, without `%matplotlib inline` or pyplot."""

    def _repr_png_(self) -> bytes:
        return picture_bytes(self)


_MOST = 40  # lines of one quantity
_FAR = 1e3  # times its first value, beyond which a diverging curve leaves through the top of the picture


@dataclasses.dataclass(frozen=True)
class Moment:
    """When theory says that something happens: about `time`, between `low` and `high`; `seen` is when it did.

    `firm` says that the theory gives the constant, so that `time` itself means something (of one that may be at once,
    `low` 0, only where it is the latest). `says` is its name in the
    picture, in words and mathtext.
    """

    says: str
    time: float
    low: float
    high: float
    firm: bool
    seen: float | None = None


@dataclasses.dataclass(frozen=True)
class Overlay:
    """What theory says of a run, to be drawn over it.

    `curves` are foreseen test metrics (times, values) and `levels` values of the test metric, each by its name;
    `moments` are predicted times.
    """

    levels: dict[str, float] = dataclasses.field(default_factory=dict)
    moments: tuple[Moment, ...] = ()
    curves: dict[str, tuple[NDArray, NDArray]] = dataclasses.field(default_factory=dict)


def plot_run(run: Run, overlay: Overlay | None = None) -> Figure:
    """Training and test curves over time with t_fit and t_gen marked, and the norms below.

    Time is on a log axis, so the initialisation at t = 0 is left out. Where times are too large for a float,
    the axis is log₁₀ t. A curve that diverges leaves through the top. What the model observes of its own
    (`Model.observe`) has a panel below the norms; of a quantity with many numbers, some of them. `overlay` is drawn
    over it, as `af.theory.plot` does.

    ```python
    plot_run(run).savefig("run.png", dpi=150)
    ```
    """
    x, shown, in_logs = _clock(run.curves)
    overlay = overlay if overlay is not None and not in_logs else Overlay()
    own = [str(name) for name in run.curves if name not in KNOWN]
    heights = {"metric": 3.0, "norms": 2.0}
    if overlay.moments:
        heights["moments"] = 0.3 + 0.26 * len(overlay.moments)
    if own:
        heights["own"] = 1.5
    figure = Figure(figsize=(7.5, 0.4 + sum(heights.values())), layout="constrained")
    axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=list(heights.values()), squeeze=False)[:, 0]
    panels: dict[str, Axes] = dict(zip(heights, axes, strict=True))
    verdict, _ = run.verdict_or_reason()
    kind = "no verdict" if verdict is None else verdict.kind
    unfinished = "" if run.status in ("finished", kind) else f" ({run.status})"
    figure.suptitle(f"{kind.capitalize()}{unfinished}", x=0.01, ha="left", weight="bold")
    setting = textwrap.fill(setting_line(run.spec), 100, break_on_hyphens=False)
    axes[0].set_title(plain(setting), loc="left", fontsize="small", color="0.3", pad=18)  # above the phases' labels
    if not shown.any():  # cut short before the first step
        axes[0].text(0.5, 0.5, "Nothing was observed after t = 0.", transform=axes[0].transAxes, ha="center")
        for ax in axes:
            ax.set_axis_off()
        return figure
    diverged = "diverged" in (run.status, kind)
    _draw_metric(panels["metric"], run, x, shown, diverged, overlay)
    _draw_norms(panels["norms"], run.curves, x, shown, diverged)
    if own:
        _draw_own(panels["own"], run.curves, own, x, shown)
    log_time_axes(axes[-1], in_logs=in_logs, label=run.curves["time"].attrs.get("label", TIME_LABEL))
    axes[-1].set_xlim(*_ends(x[shown], in_logs))
    if overlay.moments:
        _draw_moments(panels["moments"], overlay.moments)
    for name, ax in panels.items():
        if not in_logs and "time" in run.spec.get("init", {}):  # it goes on from another run: where
            label = "goes on from here" if name == "metric" else None
            ax.axvline(run.spec["init"]["time"], color="0.75", linewidth=3.0, zorder=0.5, label=label)
        if verdict is not None:
            mark_phases(ax, verdict, in_logs=in_logs, label=name == "metric")
        ax.grid(True, which="major", color="0.9", linewidth=0.6)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, fontsize="small")
    return figure


def plot_curves(run: Run, y: str | None = None, x: str = "time", ax: Axes | None = None) -> matplotlib.figure.Figure:
    """One quantity of a run, `y`, over its time or its steps, on axes of its own or on yours: their figure.

    `y` is a name of `run.curves` (`"norm_l2"`, or one that your model observes), or one without its side: `"loss"` is
    the training and the test loss. The verdict's metric if it is not given. On your axes the colour is the next of
    their cycle, so that several runs can be compared.

    ```python
    for run in runs:
        plot_curves(run, "loss", x="step", ax=ax)
    ```
    """
    names = _sides(run, run.metric if y is None else y)
    where, shown, in_logs = _clock(run.curves) if x == "time" else _steps(run.curves, x)
    figure = Figure(figsize=(7.5, 3.4), layout="constrained") if ax is None else ax.figure.get_figure(root=True)
    on = figure.subplots() if ax is None else ax
    colour = None
    for name in names:
        values = _columns(run.curves, name, shown)
        look = TRAIN if name.startswith("train_") else TEST
        look = look if ax is None else {**look, "color": colour}
        look = look if values.shape[1] == 1 else {**look, "linewidth": 0.7}
        lines = on.plot(where[shown], values, **look)
        lines[0].set_label(_in_words(run.curves, name).replace("_", " "))
        colour = lines[0].get_color()
        usable = positive(values.ravel())
        if usable.size and usable.size == np.isfinite(values).sum() and usable.max() > 10 * usable.min():
            on.set_yscale("log")
    label = run.curves["time"].attrs.get("label", TIME_LABEL)
    log_time_axes(on, in_logs=in_logs, label=label if x == "time" else "steps")
    on.set_ylabel(plain(run.metric if y is None else y).replace("_", " "))
    verdict, _ = run.verdict_or_reason()
    if ax is None and x == "time" and verdict is not None:
        mark_phases(on, verdict, in_logs=in_logs)
    beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.02)} if ax is None else {}  # where it covers no curve
    on.legend(frameon=False, fontsize="small", **beside)
    return figure


def _sides(run: Run, y: str) -> list[str]:
    """The curves that a name means: itself, or that of the training and of the test data."""
    both = [name for name in (f"train_{y}", f"test_{y}") if name in run.curves]
    names = [y] if y in run.curves.data_vars else both
    known = {str(name) for name in run.curves.data_vars}
    short = {name.partition("_")[2] for name in known if name.startswith(("train_", "test_"))}
    require(bool(names), f"this run has no curve {y!r}: {nearest(y, known | short)}")
    return names


def _steps(curves: xr.Dataset, x: str) -> tuple[NDArray, NDArray, bool]:
    """Steps in the place of time, as `_clock` gives that."""
    require(x == "step", f"curves are drawn over x='time' or x='step', got {x!r}.")
    steps = curves["step"].values
    require(bool(np.any(steps > 0)), "this run was followed without steps: draw it over x='time'.")
    return steps, steps > 0, False


def log_time_axes(*axes: Axes, in_logs: bool = False, label: str = TIME_LABEL) -> None:
    """Give `axes` the time axis of every picture here: logarithmic, with its unit.

    With `in_logs` the axes show log₁₀ t instead of t, for times that have no float; these span decades of
    their own, so the axis is logarithmic beyond ±1.
    """
    for ax in axes:
        if in_logs:
            decades = math.log10(max(ax.dataLim.x1, 10.0))
            ax.set_xscale("symlog", linthresh=1.0, linscale=max(1.0, decades / 12))  # room for -1, 0 and 1
            ax.set_xlabel(f"log₁₀ t,  {label}")
        else:
            ax.set_xscale("log")
            ax.set_xlabel(label)


def legend_below(*axes: Axes, ncols: int = 2, title: str | None = None) -> None:
    """Put the legend of each of `axes` below it, clear of its label, where it covers nothing."""
    for ax in axes:
        ax.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            borderaxespad=4.8,  # in font sizes: the room of tick labels and label, whatever the height of the axes
            ncols=ncols,
            frameon=False,
            fontsize="small",
            title=title,
            title_fontsize="small",
        )


def mark_phases(ax: Axes, verdict: Verdict, *, in_logs: bool = False, label: bool = True) -> None:
    """Mark t_fit (dotted) and t_gen (dash-dotted) by thin vertical lines, with their values above `ax`.

    Call it after plotting, when the limits of `ax` are known. A time that has no float is not marked.
    """
    times = [(getattr(verdict, name), name) for name in _PHASES if getattr(verdict, name) is not None]
    times = sorted((t, name) for t, name in times if 0 < t < math.inf)
    xs = [math.log10(t) if in_logs else t for t, _ in times]
    places = [float((ax.transData + ax.transAxes.inverted()).transform((x, 1.0))[0]) for x in xs]
    close = len(places) == 2 and places[1] - places[0] < 0.25
    for k, ((t, name), x, place) in enumerate(zip(times, xs, places, strict=True)):
        symbol, style = _PHASES[name]
        ax.axvline(x, color="0.35", linestyle=style, linewidth=1.0, zorder=1)
        if not label:
            continue
        inside = "left" if place < 0.1 else "right" if place > 0.9 else "center"
        align = ("right", "left")[k] if close else inside  # close ones would cover each other
        ax.annotate(
            f"${symbol} = {mathtext(t)}$",
            (x, 1.0),
            xycoords=ax.get_xaxis_transform(),
            xytext=((-4, 4)[k] if close else 0, 3),
            textcoords="offset points",
            ha=align,
            va="bottom",
            fontsize="small",
        )


def plain(text: str) -> str:
    """`text` for Matplotlib to draw letter by letter: a dollar would begin a formula."""
    return text.replace("$", r"\$")


def setting_line(spec: dict[str, Any]) -> str:
    """A specification in one line: every noun with the settings that are not its defaults."""
    nouns = [spec[name] for name in ("task", "model", "penalty", "dynamics", "init") if name in spec]
    words = [in_short(noun) for noun in nouns if noun["kind"] not in ("NoPenalty", "Own")]
    return " · ".join([*words, f"seed {spec['seed']}"])


def in_short(value: Any) -> str:
    """A value as a reader would write it; a noun as `Kind(name=value, …)` without its defaults."""
    if isinstance(value, dict) and "kind" in value:
        defaults = _defaults(value["kind"])
        told = [
            f"{name}={in_short(v)}"
            for name, v in value.items()
            if name not in (*DEFINING, "function_code") and not (name in defaults and defaults[name] == v)
        ]
        kind = value["kind"].rpartition(".")[2]  # without the module of a class from elsewhere
        return f"{kind}({', '.join(told)})" if told else kind
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {in_short(v)}' for name, v in value.items())}}}"
    if isinstance(value, str) and re.fullmatch("[0-9a-f]{32,}", value):
        return f"{value[:8]}…"  # a digest tells two arrays apart by its beginning
    if isinstance(value, list):
        # An array written out (a shape, say) would fill the page.
        return f"[{', '.join(map(in_short, value))}]" if len(value) <= 4 else f"[{len(value)} values]"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:_}" if type(value) is int and value >= 10_000 else str(value)


def _defaults(kind: str) -> dict[str, Any]:
    """The default of every setting of a noun that has one."""
    known = {name: member for family in Spec.__subclasses__() for name, member in family.members.items()}
    if kind not in known:  # a noun of the user's own, not defined in this process
        return {}
    return {f.name: f.default for f in dataclasses.fields(known[kind])}


def _clock(curves: xr.Dataset) -> tuple[NDArray, NDArray, bool]:
    """Where to draw each observation, which have a place on the axis, and whether that is log₁₀ t."""
    time, log10_time = curves["time"].values, curves["log10_time"].values
    in_logs = not bool(np.all(np.isfinite(drawable(time))))
    return (log10_time if in_logs else time), np.isfinite(log10_time), in_logs


def _ends(x: NDArray, in_logs: bool) -> tuple[float, float]:
    """The limits of the time axis: those of the observations, with some room, and a width even where there is one."""
    first, last = float(x.min()), float(x.max())
    if in_logs:
        return (first, last) if first < last else (first - 1, last + 1)
    room = max((last / first) ** 0.04, 1.2)
    return first / room, last * room


def drawable(values: NDArray) -> NDArray:
    """`values` in double precision without what is near the end of its numbers, where axes overflow."""
    values = np.asarray(values, dtype=float)
    return np.where(np.abs(values) < 1e150, values, np.nan)


def positive(*curves: NDArray) -> NDArray:
    """All the values of some curves that have a place on a log axis."""
    values = np.concatenate(curves)
    return values[np.isfinite(values) & (values > 0)]


def _draw_metric(ax: Axes, run: Run, x: NDArray, shown: NDArray, diverged: bool, overlay: Overlay) -> None:
    """The curves that the verdict is about, with the thresholds it used and what theory says of them."""
    metric = run.metric
    train, test = (drawable(run.curves[f"{side}_{metric}"].values) for side in ("train", "test"))
    marker = "." if shown.sum() < 2 else ""  # a line needs two points
    ax.plot(x[shown], train[shown], label=f"train {metric}", marker=marker, **TRAIN)
    ax.plot(x[shown], test[shown], label=f"test {metric}", marker=marker, **TEST)
    criteria = run.criteria
    levels = sorted({criteria.train.value, criteria.test.value})
    for k, level in enumerate(levels):
        name = ("threshold" if len(levels) == 1 else "thresholds") if k == 0 else None
        ax.axhline(level, label=name, color="0.4", linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
    if metric == "accuracy":
        ax.set_ylim(-0.03, 1.05)
        ax.set_ylabel("accuracy")
    else:
        ax.set_ylabel("relative error" if metric == "error" else metric)
        both = positive(train[shown], test[shown])
        if not both.size:
            ax.text(0.5, 0.5, "No finite error was observed after t = 0.", transform=ax.transAxes, ha="center")
            ax.set_ylim(levels[0] / 2, 2 * levels[-1] or 1.0)  # one level alone is no axis
        ax.set_yscale("log" if both.size or min(levels) > 0 else "linear")
        if both.size and diverged:
            top = min(both.max(), _FAR * max(positive(train[:2], test[:2]), default=1.0))
            ax.set_ylim(min(both.min(), *levels) / 2, 2 * top)
    limits = ax.get_ylim()  # of what was measured: a foreseen curve may fall for ever
    for name, (times, values) in overlay.curves.items():
        ax.plot(times, drawable(values), label=name, color="k", linewidth=1.2, linestyle=(0, (1, 1.2)), zorder=3)
    ax.set_ylim(*limits)
    _draw_levels(ax, overlay.levels)


_LEVELS = ("-", (0, (6, 2)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2, 1, 2)))  # told apart without colour


def _draw_levels(ax: Axes, levels: dict[str, float]) -> None:
    """The test metric of limits, in purple and thinner than what was measured; none that the axis does not reach."""
    low, high = ax.get_ylim()
    for style, (name, level) in zip(_LEVELS, levels.items(), strict=False):
        if low < level < high or ax.get_yscale() != "log":
            ax.axhline(level, label=name, color="#7B3294", linewidth=0.9, linestyle=style, zorder=1.5)


def _draw_moments(ax: Axes, moments: tuple[Moment, ...]) -> None:
    """A row each: a bar where theory allows it, its own time where it is firm, and when it was seen."""
    left, right = ax.get_xlim()
    purple = "#7B3294"

    def mark(time: float, row: int, marker: str, size: float, inside: str = purple, **look: Any) -> None:
        ax.plot([time], [row], marker=marker, markersize=size, color=purple, markerfacecolor=inside, **look)

    for row, moment in enumerate(moments):
        ends = [max(moment.low, left), min(moment.high, right)]
        style, width = ("-", 5.0) if moment.firm else ((0, (1, 1.2)), 1.6)
        ax.plot(ends, [row, row], color=purple, linewidth=width, linestyle=style, alpha=0.5, solid_capstyle="butt")
        if moment.firm and (moment.low > 0 or moment.time == moment.high):
            mark(moment.time, row, "|", 10, markeredgewidth=1.8)
        if moment.low < left:
            mark(left, row, "<", 5, clip_on=False)
        if moment.high > right:
            mark(right, row, ">", 5, clip_on=False)
        if moment.seen is not None:
            mark(moment.seen, row, "D", 5, inside="w", zorder=4)
        ax.annotate(
            moment.says,
            (1.0, row),
            xycoords=ax.get_yaxis_transform(),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize="small",
        )
    ax.set_xlim(left, right)
    ax.set_ylim(len(moments) - 0.4, -0.6)
    ax.set_yticks([])
    ax.set_ylabel("clocks\n(◇ seen)", rotation=0, ha="right", va="center", fontsize="small")


def _draw_norms(ax: Axes, curves: xr.Dataset, x: NDArray, shown: NDArray, diverged: bool) -> None:
    """The norms on one axis, each divided by its last value (its first if they diverge), which the legend gives."""
    which, by_decades = ("first", True) if diverged else ("last", False)
    drawn = np.empty(0)
    for name, (symbol, style) in _NORMS.items():
        values = drawable(curves[name].values[shown])
        usable = positive(values)
        if not usable.size:
            continue
        unit = float(usable[0 if diverged else -1])
        # It falls by more than a decade, or spends most of the picture a decade below its end.
        by_decades |= usable.max() > 10 * unit or np.median(usable) < 0.1 * unit
        ax.plot(x[shown], values / unit, label=f"{symbol}, {which}: ${mathtext(unit)}$", **style)
        drawn = np.concatenate([drawn, usable / unit])
    ax.set_ylabel(f"norm / its {which} value")
    if not drawn.size:
        ax.text(0.5, 0.5, "No finite norm was observed after t = 0.", transform=ax.transAxes, ha="center")
    elif by_decades:
        ax.set_yscale("log")
        if diverged:
            ax.set_ylim(drawn.min() / 2, 2 * min(drawn.max(), _FAR))
    else:
        ax.set_ylim(bottom=0)


def _draw_own(ax: Axes, curves: xr.Dataset, names: list[str], x: NDArray, shown: NDArray) -> None:
    """What the model observes of its own, each divided by its largest size, which the legend gives."""
    for style, name in zip(_LEVELS * len(names), names, strict=False):
        values = _columns(curves, name, shown)
        size = float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 0.0
        label = f"{_in_words(curves, name)}, largest: ${mathtext(size)}$"
        width = 1.4 if values.shape[1] == 1 else 0.7
        lines = ax.plot(x[shown], values / (size or 1.0), color="0.2", linestyle=style, linewidth=width)
        lines[0].set_label(label)
    ax.set_ylabel("own / largest")


def _columns(curves: xr.Dataset, name: str, shown: NDArray) -> NDArray:
    """A quantity with one column a number of it; of more than a picture can show, those largest at the end."""
    values = drawable(curves[name].values[shown])
    values = values.reshape(len(values), -1)
    last = np.abs(np.nan_to_num(values[-1])) if len(values) else np.zeros(values.shape[1])
    return values[:, np.sort(np.argsort(-last, kind="stable")[:_MOST])]


def _in_words(curves: xr.Dataset, name: str) -> str:
    """What is drawn of a quantity, for a legend."""
    count = curves[name][0].size
    return plain(name) if count <= _MOST else f"{plain(name)}\n({_MOST} of {count}, largest at the end)"


def mathtext(x: float) -> str:
    """A number for Matplotlib's mathtext: 0.031, 42 or 3.0·10⁵."""
    if x == 0 or 1e-2 <= abs(x) < 999.5:
        return f"{x:.3g}"
    mantissa, exponent = f"{x:.1e}".split("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
