"""The panels of the picture of coherent measurements, Figs 8 and 19 to 23."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers.notsawo2025.coherent import found_from
from afterfit.papers.notsawo2025.coherent_runs import Cell
from afterfit.papers.notsawo2025.recovery import CLOSE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "draw_by_sparsity",
    "draw_coherences",
    "draw_curves",
    "draw_errors",
    "draw_needs",
    "draw_shares",
    "draw_times",
]

_SHARE = r"share $\tau$ of coherent measurements"
_STYLES = (("o", "-"), ("s", "--"), ("^", "-."), ("D", ":"), ("v", (0, (5, 1, 1, 1))), ("P", (0, (1, 1))))


def _shades(count: int) -> np.ndarray:
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0.0, 0.88, count))


def draw_curves(ax: Axes, cells: Sequence[Cell], words: str) -> None:
    """Training and recovery error of the first draw and N, a shade for each τ (Figs 8, 21 and 23)."""
    shown = sorted((c for c in cells if (c.N, c.seed) == (cells[0].N, cells[0].seed)), key=lambda c: c.tau)
    for cell, shade in zip(shown, _shades(len(shown)), strict=True):
        curves = cell.run.curves.isel(time=slice(1, None))
        ax.plot(curves["time"], curves["test_error"], color=shade, lw=1.8, label=rf"$\tau={cell.tau:g}$")
        ax.plot(curves["time"], curves["train_error"], color=shade, lw=0.9, ls="--")
    ax.plot([], [], color="0.3", lw=1.8, label="recovery")
    ax.plot([], [], color="0.3", lw=0.9, ls="--", label="training")
    ax.axhline(CLOSE, color="0.4", lw=1.0, ls=(0, (1, 2)))
    ax.set(yscale="log", ylabel="relative error")
    ax.set_title(f"{words}, $N={cells[0].N}$, one draw", fontsize="medium", pad=18)
    af.plot.log_time_axes(ax)
    af.plot.legend_below(ax, ncols=4)


def draw_shares(ax: Axes, needed: Mapping[float, np.ndarray], words: str) -> None:
    """The share of draws that the convex program finds, at every N and τ, and where it passes one half."""
    numbers = np.arange(min(map(np.min, needed.values())) - 5, max(map(np.max, needed.values())) + 1)
    taus = np.array(list(needed))
    shares = np.array([[found_from(least, int(N)) for N in numbers] for least in needed.values()])
    image = ax.pcolormesh(numbers, taus, shares, cmap="viridis", vmin=0, vmax=1, shading="nearest")
    ax.plot([np.median(least) for least in needed.values()], taus, color="w", lw=2.4)
    ax.plot([np.median(least) for least in needed.values()], taus, "o--", color="k", lw=1.2, ms=4, label="median need")
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.ax.set(ylabel="share of draws found", xlabel=" ")
    ax.set(xlabel="measurements $N$", ylabel=_SHARE, xlim=(numbers[0] - 0.5, numbers[-1] + 0.5), ylim=(0, 1))
    ax.set_title(f"{words}: convex program", fontsize="medium")
    af.plot.legend_below(ax)


def draw_errors(ax: Axes, cells: Sequence[Cell], words: str) -> None:
    """log₁₀ of the recovery error at the end, in the geometric mean over draws, written into each (N, τ)."""
    rows, columns = sorted({c.tau for c in cells}), sorted({c.N for c in cells})
    shown = np.full((len(rows), len(columns)), np.nan)
    for i, tau in enumerate(rows):
        for j, N in enumerate(columns):
            logs = [np.log10(max(c.error, 1e-16)) for c in cells if (c.tau, c.N) == (tau, N)]
            shown[i, j] = number = float(np.mean(logs))
            ax.text(
                j, i, f"{number:.1f}", ha="center", va="center", color="k" if number > -1.6 else "w", fontsize="x-small"
            )
    image = ax.imshow(shown, origin="lower", aspect="auto", cmap="viridis", vmin=-4, vmax=0)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.ax.set(ylabel=r"$\log_{10}$ of the recovery error", xlabel=" ")
    ax.set(xlabel="measurements $N$", ylabel=_SHARE)
    ax.set_xticks(range(len(columns)), [str(N) for N in columns])
    ax.set_yticks(range(len(rows)), [f"{tau:g}" for tau in rows])
    ax.set_title(f"{words}: runs, at the end", fontsize="medium")


def draw_times(ax: Axes, cells: Sequence[Cell], words: str) -> None:
    """Medians of t₁ and t₂ over τ, for some N, with quartiles; ∞ is at the top (Figs 22 and 23)."""
    numbers = sorted({c.N for c in cells if len({d.seed for d in cells if d.N == c.N}) > 1})
    numbers = numbers[:: max(1, round(len(numbers) / 4))]
    finite = [c.t2 for c in cells if c.t2 < np.inf]
    top = 4 * max(finite)
    for N, shade, (marker, dashes) in zip(numbers, _shades(len(numbers)), _STYLES, strict=False):
        group = [c for c in cells if c.N == N]
        taus = sorted({c.tau for c in group})
        t2 = np.array([np.minimum([c.t2 for c in group if c.tau == tau], top) for tau in taus])
        t1 = [float(np.median([c.t1 for c in group if c.tau == tau])) for tau in taus]
        low, middle, high = np.quantile(t2, [0.25, 0.5, 0.75], axis=1, method="nearest")
        ax.fill_between(taus, low, high, color=shade, alpha=0.18, lw=0)
        ax.plot(taus, middle, color=shade, ls=dashes, marker=marker, ms=5, lw=1.6, label=f"$N={N}$")
        ax.plot(taus, t1, color=shade, ls=dashes, marker=marker, ms=3, lw=0.7, mfc="none")
    ax.axhline(top, color="0.5", lw=0.8, ls=":")
    ax.text(0.0, top, r"$\infty$: not found", va="bottom", fontsize="small", color="0.3")
    ax.plot([], [], color="0.3", lw=1.6, label="$t_2$")
    ax.plot([], [], color="0.3", lw=0.7, label="$t_1$")
    ax.set(yscale="log", ylim=(None, 4 * top), xlabel=_SHARE, ylabel="steps")
    ax.set_title(f"{words}: when", fontsize="medium")
    af.plot.legend_below(ax, ncols=3)


def draw_coherences(ax: Axes, N: Sequence[int], coherences: Mapping[float, np.ndarray]) -> None:
    """μ(Mᵀ, Φ) over N, for several τ (Fig. 19a)."""
    for (tau, values), shade, (_, dashes) in zip(coherences.items(), _shades(len(coherences)), _STYLES, strict=False):
        ax.fill_between(N, values.min(axis=0), values.max(axis=0), color=shade, alpha=0.18, lw=0)
        ax.plot(N, values.mean(axis=0), color=shade, ls=dashes, lw=1.8, label=rf"$\tau={tau:g}$")
    ax.set(xlabel="measurements $N$", ylabel=r"coherence $\mu(M^\top,\Phi)$", ylim=(0, 1.05))
    ax.set_title("coherence (Fig. 19a)", fontsize="medium")
    af.plot.legend_below(ax, ncols=4)


def draw_by_sparsity(ax: Axes, by_sparsity: Mapping[float, Mapping[int, np.ndarray]]) -> None:
    """How many measurements the linear program needs, over s (Fig. 19b)."""
    for (tau, needed), shade, (marker, dashes) in zip(
        by_sparsity.items(), _shades(len(by_sparsity)), _STYLES, strict=False
    ):
        _draw_band(ax, needed, shade, marker, dashes, rf"$\tau={tau:g}$")
    ax.set(xlabel="non-zeros $s$", ylabel="measurements needed", xscale="log", ylim=(0, None))
    ticks = list(next(iter(by_sparsity.values())))
    ax.set_xticks(ticks, [str(s) for s in ticks])
    ax.minorticks_off()
    ax.set_title("sparse recovery: linear program (Fig. 19b)", fontsize="medium")
    af.plot.legend_below(ax, ncols=3)


def draw_needs(ax: Axes, needed: Mapping[float, np.ndarray], of: str) -> None:
    """How many measurements the convex program needs, over τ."""
    _draw_band(ax, needed, np.array([0.0, 0.0, 0.0, 1.0]), "o", "-", "median, 10 to 90 % of draws")
    ax.set(xlabel=_SHARE, ylabel=f"{of} needed")
    ax.set_title(f"convex program: {of} needed", fontsize="medium")
    af.plot.legend_below(ax)


def _draw_band(
    ax: Axes, needed: Mapping[Any, np.ndarray], shade: np.ndarray, marker: str, dashes: Any, label: str
) -> None:
    x, draws = list(needed), list(needed.values())
    low, middle, high = np.quantile(draws, [0.1, 0.5, 0.9], axis=1)
    ax.fill_between(x, low, high, color=shade, alpha=0.18, lw=0)
    ax.plot(x, middle, color=shade, ls=dashes, marker=marker, ms=5, lw=1.6, label=label)
