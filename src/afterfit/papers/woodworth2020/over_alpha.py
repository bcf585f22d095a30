"""Nets on images over the scale α of their start: what Figs 6c and 6d have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import mean_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

__all__ = [
    "At",
    "End",
    "Ends",
    "Runs",
    "alphas",
    "between",
    "differ",
    "early",
    "ends_of",
    "errors",
    "fit",
    "flat",
    "images_of",
    "in_pairs",
    "rise",
    "show_errors",
    "show_level",
    "show_path",
]


class At(NamedTuple):
    α: float
    seed: int
    kind: str = "net"


class End(NamedTuple):
    """What is seen at the end of a run; the error is the share of test images that are taken for others."""

    error: float
    train_accuracy: float
    loss: float
    of: str  # how many images of which set were fitted


Ends = Mapping[At, End]
Runs = Mapping[At, "af.Run"]


def ends_of(runs: Runs) -> Ends:
    return {at: _end(run.curves.isel(time=-1), run) for at, run in runs.items()}


def _end(last: xr.Dataset, run: af.Run) -> End:
    found = (1 - float(last["test_accuracy"]), float(last["train_accuracy"]), float(last["train_loss"]))
    return End(*found, f"{run.spec['task']['n']} of {run.spec['task']['source']}")


def early(runs: Runs) -> Ends:
    """What is seen of the same runs after a few steps, at a third of the observations."""
    return {at: _end(run.curves.isel(time=len(run.curves["time"]) // 3), run) for at, run in runs.items()}


def alphas(ends: Ends) -> list[float]:
    return sorted({at.α for at in ends})


def between(ends: Ends, low: float = 0.0, high: float = np.inf) -> Ends:
    return {at: end for at, end in ends.items() if low <= at.α <= high}


def errors(ends: Ends) -> dict[int, float]:
    """The mean test error over all α, by seed."""
    seeds = sorted({at.seed for at in ends})
    return {seed: float(np.mean([end.error for at, end in ends.items() if at.seed == seed])) for seed in seeds}


def in_pairs(one: Ends, other: Ends) -> tuple[np.ndarray, np.ndarray]:
    """Mean test errors of the one kind and of the other, of the draws that both have.

    In a pair the images are the same, and so are the random numbers at the start.
    """
    here, there = errors(one), errors(other)
    seeds = [seed for seed in here if seed in there]
    return np.array([here[seed] for seed in seeds]), np.array([there[seed] for seed in seeds])


def fit(ends: Ends) -> Finding:
    """Whether every net takes every training image for what it is."""
    every = np.array([end.train_accuracy for end in ends.values()])
    losses = [end.loss for end in ends.values()]
    return Finding(
        f"{images_of(ends)}: {int(np.sum(every == 1))} of {len(every)} runs at 100 %, the least at {every.min():.2%}; "
        f"losses from {min(losses):.1g} to {max(losses):.1g}",
        bool(np.all(every == 1)),
    )


def images_of(ends: Ends) -> str:
    """Which images it is about."""
    (of,) = {end.of for end in ends.values()}
    return of


def differ(higher: tuple[str, Ends], lower: tuple[str, Ends]) -> Finding:
    """Whether errors of the one kind are above those of the other: in every draw, and the whole interval of the mean.

    Draws go in pairs.
    """
    (here, one), (there, other) = higher, lower
    above, below = in_pairs(one, other)
    found = mean_of(100 * (above - below))
    return Finding(
        f"{images_of({**one, **other})}: test error {above.mean():.1%} {here}, {below.mean():.1%} {there}: "
        f"{found} points above it, in {int(np.sum(above > below))} of {len(above)} draws",
        found.low > 0 and bool(np.all(above > below)),
    )


def rise(ends: Ends, small: float, large: float) -> Finding:
    """Whether the error is higher from α = `large` on than up to α = `small`."""
    return differ((f"for α ≥ {large:g}", between(ends, low=large)), (f"for α ≤ {small:g}", between(ends, high=small)))


def flat(ends: Ends, low: float, high: float, rise: float) -> Finding:
    """Whether the mean errors of all α between are within half of a rise."""
    means = [float(np.mean(list(errors(between(ends, α, α)).values()))) for α in alphas(between(ends, low, high))]
    spread = max(means) - min(means)
    return Finding(
        f"{images_of(ends)}: {min(means):.1%} to {max(means):.1%} at {len(means)} scales α from {low:g} to {high:g}, "
        f"{spread / rise:.2f} of the rise of {100 * rise:.1f} points",
        spread <= rise / 2,
    )


# ----------------------------------------------------------------------------------------------------- pictures


def show_errors(ax: Axes, ends: Ends, **look: Any) -> None:
    """The mean test error over draws in percent, and all of them as a band."""
    table = 100 * np.array([[end.error for at, end in ends.items() if at.α == α] for α in alphas(ends)])
    ax.fill_between(alphas(ends), table.min(axis=1), table.max(axis=1), color=look["color"], alpha=0.15, lw=0)
    ax.plot(alphas(ends), table.mean(axis=1), ms=5, lw=1.6, **look)
    ax.set(xscale="log", xlabel=r"scale $\alpha$ of the start", ylabel="test error in %")
    ax.set_xticks(alphas(ends), [f"{α:g}" for α in alphas(ends)], minor=False)
    ax.set_xticks([], minor=True)


def show_level(ax: Axes, errors: Sequence[float], **look: Any) -> None:
    """A mean test error that has no α, and all draws as a band."""
    ax.axhspan(100 * min(errors), 100 * max(errors), color=look["color"], alpha=0.1, lw=0)
    ax.axhline(100 * float(np.mean(errors)), lw=1.4, **look)


def show_path(ax: Axes, runs: Mapping[At, af.Run]) -> None:
    """Training and test errors along runs, over steps' time; t_fit of the first is marked."""
    for (at, run), color, width in zip(runs.items(), ("#0072B2", "#D55E00", "#222222"), (1.2, 2.4, 1.8), strict=False):
        curves = run.curves.isel(time=slice(1, None))
        for side, style in (("train", "--"), ("test", "-")):
            values = 100 * (1 - curves[f"{side}_accuracy"])
            ax.plot(curves["time"], values, color=color, ls=style, lw=width, label=rf"{side}, $\alpha={at.α:g}$")
    ax.set(ylabel="errors along runs in %", ylim=(-2, None))
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, next(iter(runs.values())).verdict)
