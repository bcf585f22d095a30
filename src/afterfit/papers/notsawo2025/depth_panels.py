"""The panels of the picture of depth in the place of the ℓ₁ penalty, Figs 9, 17 and 18."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers.notsawo2025.depth import FOUND, Draw, Size, by_seed, end_of, reached

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_curves", "draw_sizes", "draw_times"]

_LOOKS = {1: ("0.55", ":"), 2: ("#0072B2", "--"), 3: ("#D55E00", "-"), 4: ("#222222", "-.")}


def draw_curves(ax: Axes, runs: Mapping[int, af.Run]) -> None:
    """Training and recovery error for each depth, on one draw."""
    for L, run in sorted(runs.items()):
        colour, style = _LOOKS[L]
        curves, size = run.curves.isel(time=slice(1, None)), af.plot.mathtext(run.spec["init"]["scale"])
        ax.plot(curves["time"], curves["test_error"], color=colour, ls=style, lw=2.0, label=f"$L={L}$, start ${size}$")
        ax.plot(curves["time"], np.maximum(curves["train_error"], 1e-6), color=colour, ls=style, lw=0.8)
    ax.plot([], [], color="0.3", lw=0.8, label="training, thin")
    ax.set(yscale="log", ylabel="relative error", ylim=(1e-5, None))


def draw_sizes(ax: Axes, sizes: Mapping[Size, af.Run], draws: Mapping[Draw, af.Run]) -> None:
    """The smallest recovery error of each run over N, a line for each depth, and those at the end of other draws."""
    task = next(iter(sizes.values())).spec["task"]
    for L in sorted({size.L for size in sizes} | {draw.L for draw in draws}):
        colour, style = _LOOKS[L]
        points = sorted((N, float(run.curves["test_error"].min())) for (of, N), run in sizes.items() if of == L)
        if len(points) > 1:
            ax.plot(*zip(*points, strict=True), color=colour, ls=style, marker="o", ms=4, label=f"$L={L}$")
        ends = [end_of(run) for run in by_seed(draws, L).values()]
        places = next(iter(draws.values())).spec["task"]["N"] + 0.012 * task["n"] * (L - 2)
        label = None if len(points) > 1 else f"$L={L}$, draws"
        ax.plot([places] * len(ends), ends, "_", color=colour, ms=9, mew=1.4, label=label)
    numbers = np.linspace(0, task["n"], 200)
    ax.plot(numbers, np.sqrt(1 - numbers / task["n"]), color="0.6", lw=3.5, alpha=0.5, label=r"$\sqrt{1-N/n}$")
    ax.set(xlabel="measurements $N$", ylabel=r"$\|a-a^*\|_2/\|a^*\|_2$", ylim=(0, 1.4))


def draw_times(
    ax: Axes, draws: Mapping[Draw, af.Run], pairs: Mapping[Draw, af.Run], penalised: Mapping[int, af.Run]
) -> None:
    """When training and recovery error are at 0.2, on each draw."""
    fourth = [run for draw, run in pairs.items() if (draw.L, draw.start) == (4, "uneven")]
    groups: dict[str, Sequence[af.Run]] = {r"$L=1$, $\ell_1$": list(penalised.values())}
    groups |= {f"$L={L}$": list(by_seed(draws, L).values()) for L in (2, 3)} | {"$L=4$": fourth}
    for place, runs in enumerate(groups.values()):
        for name, shift, colour, marker in (
            ("train_error", -0.12, "#0072B2", "s"),
            ("test_error", 0.12, "#D55E00", "o"),
        ):
            times = [reached(run, name) for run in runs]
            spread = shift + np.linspace(-0.05, 0.05, len(times))
            label = {"train_error": "training", "test_error": "recovery"}[name] if place == 0 else None
            ax.plot(place + spread, times, marker, color=colour, mfc="none", ms=5, label=label)
    ax.set_xticks(range(len(groups)), list(groups))
    ax.set(yscale="log", xlabel="depth", ylabel=f"time until an error of {FOUND:g}")
