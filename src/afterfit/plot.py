"""Pictures of runs. Matplotlib's object interface only: no window, no display, no global state."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from afterfit.spec import DEFINING, Spec, SpecError

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from afterfit.diagnose import Verdict
    from afterfit.run import Run

__all__ = [
    "TEST",
    "TRAIN",
    "Overlay",
    "legend_below",
    "log_time_axes",
    "mark_phases",
    "mathtext",
    "plot_run",
    "setting_line",
    "verdict_of",
]

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


@dataclasses.dataclass(frozen=True)
class Overlay:
    """What theory says of a run, to be drawn over it, each by its name.

    `levels` are values of the test metric, `times` are predicted times with a window or None, `curves` are predicted
    test metrics (times, values).
    """

    levels: dict[str, float] = dataclasses.field(default_factory=dict)
    times: dict[str, tuple[float, tuple[float, float] | None]] = dataclasses.field(default_factory=dict)
    curves: dict[str, tuple[NDArray, NDArray]] = dataclasses.field(default_factory=dict)


def plot_run(run: Run, overlay: Overlay | None = None) -> Figure:
    """Training and test curves over time with t_fit and t_gen marked, and the norms below.

    Time is on a log axis, so the initialisation at t = 0 is left out. Where times are too large for a float,
    the axis is log₁₀ t. `overlay` is drawn over it, as `af.theory.plot` does.

    ```python
    plot_run(run).savefig("run.png", dpi=150)
    ```
    """
    figure = Figure(figsize=(7.5, 5.4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    verdict, _ = verdict_of(run)
    kind = "no verdict" if verdict is None else verdict.kind
    unfinished = "" if run.status in ("finished", kind) else f" ({run.status})"
    figure.suptitle(f"{kind.capitalize()}{unfinished}", x=0.01, ha="left", weight="bold")
    setting = textwrap.fill(setting_line(run.spec), 100, break_long_words=False, break_on_hyphens=False)
    above.set_title(setting, loc="left", fontsize="small", color="0.3", pad=18)  # above the phases' labels
    x, shown, in_logs = _clock(run.curves)
    if not shown.any():  # cut short before the first step
        above.text(0.5, 0.5, "Nothing was observed after t = 0.", transform=above.transAxes, ha="center")
        above.set_axis_off()
        below.set_axis_off()
        return figure
    _draw_metric(above, run, x, shown)
    if overlay is not None and not in_logs:
        _draw_overlay(above, below, overlay, float(x[shown].min()), float(x[shown].max()))
    _draw_norms(below, run.curves, x, shown)
    log_time_axes(below, in_logs=in_logs)
    if "slow time" in run.curves["time"].attrs.get("units", ""):
        below.set_xlabel("slow time τ = penalty strength · t")
    if in_logs:
        below.set_xlim(x[shown].min(), x[shown].max())
    for ax in (above, below):
        if verdict is not None:
            mark_phases(ax, verdict, in_logs=in_logs, label=ax is above)
        ax.grid(True, which="major", color="0.9", linewidth=0.6)
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, fontsize="small")
    return figure


def verdict_of(run: Run) -> tuple[Verdict | None, str]:
    """The verdict on a run and its sentence; of one with too few observations, None and why there is none."""
    try:
        return run.verdict, str(run.verdict)
    except SpecError as error:
        return None, f"No verdict: {error}"


def log_time_axes(*axes: Axes, in_logs: bool = False) -> None:
    """Give `axes` the time axis of every picture here: logarithmic, with its unit.

    With `in_logs` the axes show log₁₀ t instead of t, for times that have no float; these span decades of
    their own, so the axis is logarithmic beyond ±1.
    """
    for ax in axes:
        if in_logs:
            decades = math.log10(max(ax.dataLim.x1, 10.0))
            ax.set_xscale("symlog", linthresh=1.0, linscale=max(1.0, decades / 12))  # room for -1, 0 and 1
            ax.set_xlabel("log₁₀ t,  training time t = Σ step sizes")
        else:
            ax.set_xscale("log")
            ax.set_xlabel("training time t = Σ step sizes")


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


def setting_line(spec: dict[str, Any]) -> str:
    """A specification in one line: every noun with the settings that are not its defaults."""
    nouns = [spec[name] for name in ("task", "model", "penalty", "dynamics", "init") if name in spec]
    words = [_say(noun) for noun in nouns if noun["kind"] not in ("NoPenalty", "Own")]
    return " · ".join([*words, f"seed {spec['seed']}"])


def _say(value: Any) -> str:
    """A value as a reader would write it; a noun as `Kind(name=value, …)` without its defaults."""
    if isinstance(value, dict) and "kind" in value:
        defaults = _defaults(value["kind"])
        told = [
            f"{name}={_say(v)}"
            for name, v in value.items()
            if name not in (*DEFINING, "sha256", "function_code") and not (name in defaults and defaults[name] == v)
        ]
        kind = value["kind"].rpartition(".")[2]  # without the module of a class from elsewhere
        return f"{kind}({', '.join(told)})" if told else kind
    if isinstance(value, list):
        # An array written out (a shape, say) would fill the page.
        return f"[{', '.join(map(_say, value))}]" if len(value) <= 4 else f"[{len(value)} values]"
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
    in_logs = not bool(np.all(np.isfinite(time)))
    return (log10_time if in_logs else time), np.isfinite(log10_time), in_logs


def _drawable(values: NDArray) -> NDArray:
    """`values` without what is near the end of floating-point numbers, where axes overflow."""
    return np.where(np.abs(values) < 1e150, values, np.nan)


def _draw_metric(ax: Axes, run: Run, x: NDArray, shown: NDArray) -> None:
    """The curves that the verdict is about, with the thresholds it used."""
    metric = run.metric
    train, test = (_drawable(run.curves[f"{side}_{metric}"].values) for side in ("train", "test"))
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
        return
    ax.set_yscale("log")
    ax.set_ylabel("relative error")
    both = np.concatenate([train[shown], test[shown]])
    both = both[np.isfinite(both) & (both > 0)]
    if both.size and run.status == "diverged":  # let it leave through the top, or nothing else can be seen
        ax.set_ylim(top=min(both.max(), 1e3 * max(train[0], test[0])))


_LEVELS = ("-", (0, (6, 2)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2, 1, 2)))  # told apart without colour
_TIMES = ((0, (4, 2)), (0, (1, 1.5)), "-", (0, (6, 1, 1, 1)))


def _draw_overlay(above: Axes, below: Axes, overlay: Overlay, first: float, last: float) -> None:
    """Theory in greys and purple, thinner than what was measured: levels across, times down, curves on top."""
    floor = above.get_ylim()[0] if above.get_yscale() == "log" else -np.inf
    for k, (name, level) in enumerate(overlay.levels.items()):
        if level > floor:
            style = _LEVELS[k % len(_LEVELS)]
            above.axhline(level, label=name, color="#7B3294", linewidth=0.9, linestyle=style, zorder=1.5)
    for k, (name, (time, window)) in enumerate(overlay.times.items()):
        if not first <= time <= last:
            continue
        for ax in (above, below):
            if window is not None:
                ax.axvspan(*window, color="0.93", zorder=0)
            label = name if ax is above else None
            ax.axvline(time, label=label, color="#7B3294", linewidth=1.2, linestyle=_TIMES[k % len(_TIMES)], zorder=1.6)
    for name, (times, values) in overlay.curves.items():
        above.plot(times, _drawable(values), label=name, color="k", linewidth=1.2, linestyle=(0, (1, 1.2)), zorder=3)


def _draw_norms(ax: Axes, curves: xr.Dataset, x: NDArray, shown: NDArray) -> None:
    """The norms on one axis, each divided by its last value, which the legend gives."""
    by_decades = False
    for name, (symbol, style) in _NORMS.items():
        values = _drawable(curves[name].values[shown])
        usable = values[np.isfinite(values) & (values > 0)]
        if not usable.size:
            continue
        last = float(usable[-1])
        # It falls by more than a decade, or spends most of the picture a decade below its end.
        by_decades |= usable.max() > 10 * last or np.median(usable) < 0.1 * last
        ax.plot(x[shown], values / last, label=f"{symbol}, last: {last:.3g}", **style)
    ax.set_ylabel("norm / its last value")
    if by_decades:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=0)


def mathtext(x: float) -> str:
    """A number for Matplotlib's mathtext: 0.031, 42 or 3.0·10⁵."""
    if 1e-2 <= abs(x) < 999.5:
        return f"{x:.3g}"
    mantissa, exponent = f"{x:.1e}".split("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}"
