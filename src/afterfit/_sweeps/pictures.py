"""Pictures of scaling laws, and of curves by knob."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from numpy.typing import ArrayLike, NDArray

from afterfit._sweeps.laws import PowerLaw
from afterfit._sweeps.phases import middle, setting_of
from afterfit.plot import Figure, drawable, in_short, legend_below, plain, positive

__all__ = ["curves_by_knob", "scaling_law_figure"]

_POINTS = {"color": "#0072B2", "marker": "o", "markersize": 4}


def scaling_law_figure(
    x: ArrayLike,
    t: ArrayLike,
    censored: ArrayLike,
    law: PowerLaw,
    *,
    x_name: str = "x",
    t_name: str = "t",
) -> Figure:
    """Times against a knob with the law fitted to them; the arguments are those of `fit_power_law`, and its result.

    Runs of one seed are joined by a thin line, unless there are several at one x. A censored run is a hollow point at
    its end, with an arrow: its time lies above. What was left out (NaN in `t`) is counted in words. The band is the
    law's confidence interval over seeds.
    """
    x = np.asarray(x, float)
    t, censored = (np.asarray(array).reshape(len(x), -1) for array in (t, censored))
    order = np.argsort(x)
    x, t, censored = x[order], t[order].astype(float), censored[order].astype(bool)
    figure = Figure(figsize=(7.0, 5.0), layout="constrained")
    ax = figure.subplots()
    ax.set_xscale("log")
    ax.set_yscale("log")
    line = np.geomspace(x.min(), x.max(), 200)
    band = law.band(line)
    if band is not None:
        ax.fill_between(line, *band, color="0.85", linewidth=0, label=f"{100 * law.level:g} % interval of the law")
    ax.plot(line, law(line), color="k", linewidth=1.6, label="law", zorder=3)
    width = 0.6 if len(np.unique(x)) == len(x) else 0.0
    for seed in range(t.shape[1]):
        label = (f"runs, {law.seeds} seeds" if law.seeds > 1 else "runs") if seed == 0 else None
        ax.plot(x, np.where(censored[:, seed], np.nan, t[:, seed]), label=label, alpha=0.8, linewidth=width, **_POINTS)
    if censored.any():
        places = np.broadcast_to(x[:, None], t.shape)[censored], t[censored]
        label = "not there by its end (censored)"
        look = {"color": "#D55E00", "marker": "o", "markerfacecolor": "w", "markersize": 4, "linestyle": ""}
        ax.errorbar(*places, yerr=0.35 * places[1], lolims=True, elinewidth=0.8, label=label, zorder=4, **look)
    ax.set_xlabel(plain(x_name))
    ax.set_ylabel(t_name)
    title = f"{t_name} ∝ ({plain(x_name)})$^p$,  {_exponent_in_words(law)}"
    if law.n_left_out:
        title += f"\n{law.n_left_out} runs broke down (diverged) and are left out"
    ax.set_title(title, loc="left", fontsize="medium")
    ax.grid(True, which="major", color="0.9", linewidth=0.6)
    legend_below(ax)
    return figure


def _exponent_in_words(law: PowerLaw) -> str:
    if law.interval is None:
        return f"p = {law.exponent:.3g} (one seed: no interval)"
    return f"p = {law.exponent:.3g} ({100 * law.level:g} % interval {law.interval[0]:.3g} to {law.interval[1]:.3g})"


def curves_by_knob(data: xr.Dataset, metric: str, knob: str) -> Figure:
    """Training and test curves for every value of a knob: medians over seeds, other knobs at their middle value.

    `data` is a sweep's dataset with its curves, `metric` its task's, and `knob` a dimension.
    A run that diverged counts as above all others from its end on, and does not stretch the axis: a median of such runs
    leaves through the top.
    """
    others = [str(name) for name in data["verdict"].dims if name not in (knob, "seed")]
    data = data.isel({name: data.sizes[name] // 2 for name in others})
    values = data[knob].values
    numbers = values.dtype.kind in "if"
    log = numbers and len(values) > 1 and values.min() > 0 and values.max() >= 30 * values.min()
    places = values.astype(float) if numbers else np.arange(len(values), dtype=float)
    norm = (LogNorm if log else Normalize)(places.min(), places.max() if len(values) > 1 else places.min() + 1)
    shade = mpl.colormaps["viridis_r"]
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    later = data.isel(time=slice(1, None))
    diverged = data["verdict"] == "diverged"
    tame = []
    for ax, side, words in zip(axes, ("train", "test"), ("training", "test"), strict=True):
        runs = later[f"{side}_{metric}"].transpose(knob, "time", "seed")
        if metric != "accuracy":
            tame.append(runs.where(~diverged).values.ravel())
            runs = runs.where(~(diverged & runs.isnull()), np.inf)
        for place, curve in zip(places, middle(runs.values), strict=True):
            ax.plot(later["time"], drawable(curve), color=shade(0.08 + 0.92 * norm(place)), linewidth=1.4)
        ax.set(xscale="log", xlabel="training time", title=f"{words} {metric}")
        if metric != "accuracy":
            ax.set_yscale("log")
        ax.grid(True, color="0.9", linewidth=0.6)
    axes[0].set_ylabel(metric)
    said = [f"median over {data.sizes['seed']} seeds"] if data.sizes["seed"] > 1 else []
    said += [f"at {setting_of(data[name])} = {in_short(data[name].item())}" for name in others]
    if diverged.any():
        said.append(f"{int(diverged.sum())} of {int((data['status'] != '').sum())} runs diverged")
        _let_out(axes[0], tame)
    if said:
        figure.suptitle(plain("; ".join(said)), fontsize="medium")
    faint = LinearSegmentedColormap.from_list("used", shade(np.linspace(0.08, 1, 64)))
    bar = figure.colorbar(ScalarMappable(norm, faint), ax=axes, label=plain(setting_of(data[knob])))
    if not numbers:
        bar.set_ticks(places.tolist(), labels=[plain(str(value)) for value in values])
    return figure


def _let_out(ax: Axes, tame: list[NDArray]) -> None:
    """Limit a log axis to the runs that did not diverge, so that the others leave through its top."""
    values = positive(*tame) if tame else np.empty(0)
    if values.size:
        ax.set_ylim(values.min() / 2, values.max() * 2)
