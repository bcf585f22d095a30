"""Descent under the nuclear norm: gradients on the way, singular values that fade, and their pictures."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import at, first_step
from afterfit.papers.notsawo2025.matrices import Death, Recovered, deaths, null_part, span
from afterfit.papers.notsawo2025.recovery import errors_match

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "alpha_of",
    "as_closely",
    "between",
    "condition_on_tangents",
    "crossing",
    "die_in_turn",
    "draw_curves",
    "draw_errors",
    "draw_sweep",
    "draw_times",
    "draw_values",
    "falls_by",
    "fits_at_rate",
    "gradient_ratio",
    "in_proportion",
    "moving_part",
    "norm_settles",
    "of_order",
    "over_time",
]

_LEVEL = 10  # a singular value at 0 moves about it by αβ a step: within so many steps of 0 it is dead
_SPREAD = 3.0  # the last dies so many times as late as the first, if they die in turn
_MARKERS = dict(zip("so^vDP", (9.0, 7.5, 6.5, 5.5, 4.0, 3.5), strict=True))  # those of equal αβ are on one another


def alpha_of(run: af.Run) -> float:
    """The step size."""
    return run.spec["dynamics"]["lr"]


def between(run: af.Run, first: float, last: float) -> np.ndarray:
    """Which observations are from the one time on and before the other."""
    time = run.curves["time"].values
    return (time >= first) & (time < last)


def gradient_ratio(run: af.Run) -> np.ndarray:
    """‖G‖/(β‖H‖) at every observation."""
    return (run.curves["loss_gradient"] / run.curves["penalty_gradient"]).values


def crossing(run: af.Run) -> float:
    """The step at which the penalty's gradient overtakes that of the loss."""
    return first_step(run.curves["step"].values, gradient_ratio(run), 1.0)


def condition_on_tangents(run: af.Run) -> float:
    """The condition number, on the tangent space of the matrices of rank r at A*, of P: of what is seen of a matrix."""
    truth = np.asarray(run.data.truth)
    n, rank = len(truth), run.spec["task"]["rank"]
    U, _, Vt = np.linalg.svd(truth)
    basis = [np.outer(U[:, i], Vt[j]) for i in range(n) for j in range(n) if i < rank or j < rank]
    seen = [(E - null_part(run.data, E)).ravel() for E in basis]
    values = np.linalg.svd(np.array(seen), compute_uv=False)
    return float(values[0] / values[-1])


def falls_by(run: af.Run) -> tuple[np.ndarray, np.ndarray, float]:
    """A at the two checkpoints after the fit, and how far αβ a step goes between them."""
    earlier, later = (np.asarray(params["weights"]) for params in run.checkpoints)
    times = run.checkpoints.times
    return earlier, later, run.spec["penalty"]["strength"] * float(times[1] - times[0])


def moving_part(data: af.tasks.Data, A: np.ndarray, level: float) -> np.ndarray:
    """(1 − P)(H + W), H over the singular values above `level`, W on the spaces of the others such that it is least.

    These are at 0 and stay there: their signs change from step to step so that nothing moves them in the mean.
    """
    U, s, Vt = np.linalg.svd(A)
    alive = s > level
    H = null_part(data, U[:, alive] @ Vt[alive])
    pairs = [null_part(data, np.outer(u, v)).ravel() for u in U[:, ~alive].T for v in Vt[~alive]]
    if not pairs:
        return H
    W = np.array(pairs).T
    return H - (W @ np.linalg.lstsq(W, H.ravel(), rcond=None)[0]).reshape(H.shape)


def in_proportion(run: af.Run, t1: float, rank: int) -> np.ndarray:
    """Singular values that are made up: from t₁ on all but `rank` shrink in proportion with ‖A‖_* − ‖A*‖_*."""
    values = run.curves["singular_values"].values.copy()
    start = int(np.argmax(run.curves["time"].values >= t1))
    above = np.abs(values.sum(axis=1) - np.linalg.norm(run.data.truth, "nuc"))
    values[start:, rank:] = values[start, rank:] * (above[start:, None] / above[start])
    return values


def die_in_turn(run: af.Run, values: np.ndarray, t1: float, t2: float, rank: int, beta: float) -> Finding:
    """Whether all but `rank` of the singular values of a run die, one by one, and the others live.

    In turn is: no two at one observation, which are 3 % apart, and the last three times as late as the first.
    """
    found = _deaths(run, values, t1, beta)
    when = [d.step for d in found if d.step < np.inf]
    told = ", ".join(f"{d.before:.2g} at {d.step:.2g}" for d in found if d.step < np.inf) or "none"
    return Finding(
        f"of {values.shape[1]} singular values {values.shape[1] - len(found)} are 0 at t₁ and {len(when)} die (size at "
        f"t₁, step): {told}; {len(found) - len(when)} live; t₂ is step {t2 / alpha_of(run):.2g}",
        len(found) - len(when) == rank
        and all(later > earlier for earlier, later in itertools.pairwise(when))
        and _spread(when) >= _SPREAD,
    )


def over_time(values: Sequence[tuple[af.Run, np.ndarray]], rank: int) -> Finding:
    """Whether all but `rank` of the singular values of runs die, the last three times as late as the first."""
    said, holds = [], True
    for run, each in values:
        found = _deaths(run, each, alpha_of(run) * crossing(run), run.spec["penalty"]["strength"])
        when = [d.step for d in found if d.step < np.inf]
        steps = f", from step {when[0]:.2g} to {when[-1]:.2g}" if when else ""
        said.append(f"{len(when)} die and {len(found) - len(when)} live{steps} (seed {run.spec['seed']})")
        holds &= len(found) - len(when) == rank and _spread(when) >= _SPREAD
    return Finding("; ".join(said), holds)


def _deaths(run: af.Run, values: np.ndarray, t1: float, beta: float) -> list[Death]:
    start = int(np.argmax(run.curves["time"].values >= t1))
    return deaths(run.curves["step"].values, values, start, _LEVEL * alpha_of(run) * beta)


def _spread(steps: Sequence[float]) -> float:
    """How many times as late as the first the last is; 0 where there are not two."""
    return steps[-1] / steps[0] if len(steps) > 1 else 0.0


def of_order(run: af.Run, t1: float, t2: float, size: float) -> Finding:
    """Whether ‖X vec(A) − y*‖₂ is of the order of a number between 2t₁, where it no longer falls, and t₂."""
    # Of an order is with that for the nearest power of ten: one power of ten is printed.
    there = np.sqrt(2 * run.curves["train_loss"].values[between(run, 2 * t1, t2)])
    return Finding(
        f"‖X vec(A) − y*‖₂ is {there.min():.2g} to {there.max():.2g} between 2t₁ and t₂, β = {size:.0e}",
        bool(np.all(np.abs(np.log10(there / size)) <= 0.5)),
    )


def as_closely(run: af.Run, time: float) -> Finding:
    """Whether the two relative errors are as near to each other at a time as the measurements make them."""
    # With E = A − A* in the tangent space of the matrices of rank r at A*, ‖E‖/‖A*‖ and ‖PE‖/‖PA*‖ are within a factor
    # of each other, the condition number of P on that space: where E is what the penalty leaves, so much can differ.
    return errors_match(run, time, condition_on_tangents(run), "condition number")


def fits_at_rate(runs: Sequence[af.Run], step: Callable[[af.Run], float]) -> Finding:
    """Whether steps are those in which G falls to β‖H‖ at the rate 1 − α."""
    # P has singular values 1 and 0: G falls by exactly 1 − α a step from −PA*. In the end it is −βPH and not 0; as ‖PH‖
    # is about √(N/n²)‖H‖, what is left of −PA* when ‖G‖ = β‖H‖ is 1 − √(N/n²) of that at least. Steps are whole.
    off, allowed = [], []
    for run in runs:
        rate, n = -np.log1p(-alpha_of(run)), run.data.truth.shape[0]
        told = np.log(np.linalg.norm(run.data.targets) / (run.spec["penalty"]["strength"] * np.sqrt(n)))
        off.append(max(abs(rate * step(run) - told) - rate, 0))
        allowed.append(-np.log(1 - np.sqrt(run.data.n) / n))
    return Finding(
        f"log(1/(1 − α)) times the step is that to {span(off)}, and one step, on {len(runs)} runs; allowed "
        f"{span(allowed)}",
        all(each <= most for each, most in zip(off, allowed, strict=True)),
    )


def norm_settles(run: af.Run, t1: float, t2: float) -> Finding:
    """Whether ‖A‖_* is above ‖A*‖_* at t₁ and at it at t₂."""
    # At t₂ ‖A − A*‖_F is the goal times ‖A*‖_F, and ‖·‖_* at most √n times as much: one in a hundred.
    size = float(np.linalg.norm(run.data.truth, "nuc"))
    at_t1, at_t2 = (float(at(run, "singular_values", t).sum()) / size - 1 for t in (t1, t2))
    return Finding(
        f"‖A‖_* exceeds ‖A*‖_* by {at_t1:.1%} of it at t={t1:.3g} and by {at_t2:.2g} at t={t2:.3g}",
        abs(at_t2) <= 1e-2 < at_t1,
    )


def draw_curves(ax: Axes, run: af.Run) -> None:
    """The relative errors."""
    curves = run.curves.isel(time=slice(1, None))
    ax.plot(curves["time"], curves["train_error"], **af.plot.TRAIN, label=r"training $\|P(A-A^*)\|/\|PA^*\|$")
    ax.plot(curves["time"], curves["test_error"], **af.plot.TEST, label=r"recovery $\|A-A^*\|/\|A^*\|$")
    ax.set(yscale="log", ylabel="relative error")


def draw_values(ax: Axes, run: af.Run, rank: int) -> None:
    """The singular values, those that live and those that die, beside those of A*."""
    curves, truth = run.curves.isel(time=slice(1, None)), np.linalg.svd(run.data.truth, compute_uv=False)
    values = curves["singular_values"].values
    lines = ax.plot(curves["time"], values[:, rank:], color="0.6", lw=0.9)
    lines[0].set_label("the others")
    lines = ax.plot(curves["time"], values[:, :rank], color="#D55E00", lw=1.8)
    lines[0].set_label(f"the {rank} largest" if rank > 1 else "the largest")
    for k, value in enumerate(truth[:rank]):
        ax.axhline(value, color="k", ls=":", lw=1, label=r"$\sigma_i(A^*)$" if k == 0 else None)
    ax.set(ylabel=r"singular values $\sigma_i$")


def _colours(cells: Sequence[Recovered]) -> dict[int, str]:
    return dict(zip(dict.fromkeys(c.seed for c in cells), itertools.cycle(("#0072B2", "#D55E00", "#222222"))))


def _markers(cells: Sequence[Recovered]) -> dict[float, str]:
    return dict(zip(sorted({c.alpha for c in cells}), itertools.cycle(_MARKERS)))


def _ends(cells: Sequence[Recovered]) -> np.ndarray:
    """The smallest and the largest αβ."""
    return np.array([min(c.product for c in cells), max(c.product for c in cells)])


def draw_times(ax: Axes, cells: Sequence[Recovered]) -> None:
    """t₂ over αβ, beside ‖Â − A*‖_{2→2}/(αβ)."""
    for (seed, colour), (alpha, marker) in itertools.product(_colours(cells).items(), _markers(cells).items()):
        here = [c for c in cells if (c.seed, c.alpha) == (seed, alpha) and c.t2 < np.inf]
        ax.plot([c.product for c in here], [c.t2 for c in here], marker, color=colour, ms=_MARKERS[marker], mfc="none")
    ends = _ends(cells)
    for (seed, colour), style in zip(_colours(cells).items(), ("-", "--", ":"), strict=False):
        far = next(c.gap for c in cells if c.seed == seed)
        label = rf"$\|\hat A-A^*\|_{{2\to2}}/(\alpha\beta)$, seed {seed}"
        ax.plot(ends, far / ends, color=colour, ls=style, lw=1.3, label=label)
    ax.plot([], [], "o", color="0.3", mfc="none", label="$t_2$")
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha\beta$", ylabel="steps")
    af.plot.legend_below(ax)


def draw_errors(ax: Axes, cells: Sequence[Recovered]) -> None:
    """‖A − A*‖_F/‖A*‖_F at the end over αβ."""
    for (seed, colour), (alpha, marker) in itertools.product(_colours(cells).items(), _markers(cells).items()):
        here = [c for c in cells if (c.seed, c.alpha) == (seed, alpha)]
        ax.plot([c.product for c in here], [c.test for c in here], marker, color=colour, ms=6, mfc="none")
    for alpha, marker in _markers(cells).items():
        ax.plot([], [], marker, color="0.3", mfc="none", label=rf"$\alpha={af.plot.mathtext(alpha)}$")
    ends, low = _ends(cells), min(c.test / c.product for c in cells)
    ax.plot(ends, 0.5 * low * ends, color="k", ls=":", lw=1.3, label=r"slope of $\alpha\beta$")
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha\beta$", ylabel=r"$\|A-A^*\|_F/\|A^*\|_F$ at the end")
    af.plot.legend_below(ax, ncols=3)


def draw_sweep(ax: Axes, cells: Sequence[Recovered], knob: str) -> None:
    """Training and recovery error, a shade for each value of α or β."""
    from matplotlib import colormaps

    shades = colormaps["viridis"](np.linspace(0.85, 0.0, len(cells)))
    for cell, shade in zip(sorted(cells, key=lambda cell: getattr(cell, knob)), shades, strict=True):
        curves, value = cell.run.curves.isel(time=slice(1, None)), af.plot.mathtext(getattr(cell, knob))
        ax.plot(curves["step"], curves["test_error"], color=shade, lw=2.0, label=rf"$\{knob}={value}$")
        ax.plot(curves["step"], curves["train_error"], color=shade, lw=1.1, ls="--")
    ax.plot([], [], color="0.3", lw=2.0, label="recovery")
    ax.plot([], [], color="0.3", lw=1.1, ls="--", label="training")
    fixed = "beta" if knob == "alpha" else "alpha"
    ax.set_title(rf"$\{fixed}={af.plot.mathtext(getattr(cells[0], fixed))}$", fontsize="medium")
    ax.set(xscale="log", yscale="log", xlabel="training step", ylabel="relative error")
    af.plot.legend_below(ax, ncols=2)
