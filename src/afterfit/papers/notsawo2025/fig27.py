"""Figs 27 and 28: how many measurements sparse recovery needs, over sparsities s and numbers of measurements N."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once, run_all
from afterfit.papers._measure import relative_distance
from afterfit.papers.notsawo2025 import PAPER
from afterfit.papers.notsawo2025.recovery import GOAL, Recovery, descent, grouped, least_l1_recovers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from afterfit.papers import Progress

__all__ = ["Fig27"]

_TIMES = 10  # how much longer a run is followed that has not recovered
_CLOSE = 1e-3  # a relative error that is a* but for what the penalty leaves, and that no other end point has


class _Size(NamedTuple):
    s: int
    N: int


class Fig27(Entry):
    paper, name = PAPER, "fig27"
    title = "A sparser vector needs fewer measurements"
    where = "Figs 27 and 28, §3.1, H.1"
    about = (
        "The sparse recovery of Fig. 3 for sparsities s and numbers of measurements N. t₁ and t₂ are the first steps "
        "with ‖Xa − y‖ ≤ 10⁻⁴‖y‖ and ‖a − a*‖ ≤ 10⁻⁴‖a*‖, or the maximum training step, which the paper does not give. "
        "The penalty keeps a at a distance of order β from a* for good, where the lasso is; where a* is small that "
        "alone is above 10⁻⁴, and 10⁻³ tells it from a failure. On how many other draws a* is the interpolator of "
        "least ℓ₁ norm, and on how many the lasso is within 10⁻⁴ of it, convex programs say."
    )
    notes = (
        "That a sparser vector needs fewer measurements is so of recovery, and not of the threshold. The lasso is "
        "at a distance of about βn√s/N from a*, and 10⁻⁴‖a*‖ is small where a* has one entry and that is small: "
        "0.35 on this draw, which is then found from N = 10 on but not to 10⁻⁴ before N = 40; five entries are "
        "found to 10⁻⁴ from N = 30 on. Of ten draws the lasso is within 10⁻⁴ on 7 with s = 1 at N = 40, and on 10 "
        "with s = 10. In one run (s = 1, N = 30) the lasso is just within 10⁻⁴, at 0.97·10⁻⁴, and descent, which "
        "steps around it by αβ, just not. Two runs (s = 5, N = 20 and s = 10, N = 30) are on their way to a* at the "
        "last step; the flow, followed ten times as far, gets there."
    )

    def runs(self, scale: str) -> dict[str, dict[_Size, af.Experiment]]:
        if scale == "paper":
            n, sparsities, numbers, seed = 100, (5, 1, 10, 15), (30, 10, 20, *range(40, 101, 10)), 1
            size, alpha, beta, steps = 1.0, 0.1, 1e-5, 4_000_000
        else:
            n, sparsities, numbers, seed = 30, (2, 1, 4), (12, 6, 18, 24), 3
            size, alpha, beta, steps = 10.0, 0.4, 1e-4, 800_000
        return {
            "descents": {
                _Size(s, N): descent(
                    af.tasks.SparseRecovery(n=n, sparsity=s, N=N, scale=size), alpha, beta, steps, seed
                )
                for N, s in itertools.product(numbers, sparsities)
            }
        }

    def picture(self, cells: list[Recovery]) -> Figure:
        first, cells = cells[0], sorted(cells, key=lambda c: (c.sparsity, c.N))
        figure = af.plot.Figure(figsize=(13.5, 9.5), layout="constrained")
        halves: Any = figure.subfigures(2, 1, height_ratios=(1, 1.6))
        above, below = halves
        by_sparsity = grouped(cells, "sparsity")
        panels = above.subplots(1, len(by_sparsity), sharey=True, squeeze=False)[0]
        for ax, group in zip(panels, by_sparsity, strict=True):
            _draw_curves(ax, group)
            if first in group:
                af.plot.mark_phases(ax, first.run.verdict)
        handles, labels = panels[0].get_legend_handles_labels()
        above.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize="small")
        (t1, t2), (train, test) = below.subplots(2, 2)
        _draw_map(t1, cells, "memorisation step $t_1$", lambda c: c.t1)
        _draw_map(t2, cells, "generalisation step $t_2$", lambda c: c.t2)
        _draw_map(train, cells, "training error at $t_1$", lambda c: _seen(c, "train"), limits=(-5, 0))
        _draw_map(test, cells, "recovery error at $t_2$", lambda c: _seen(c, "test"), limits=(-5, 0))
        return figure

    @once
    def cells(self, descents: dict[_Size, af.Run]) -> list[Recovery]:
        """Every run by its numbers."""
        return [Recovery.of(run) for run in descents.values()]

    @claim(
        "smaller s requires smaller N: recovery to 10⁻³ on this draw",
        says="small s requires small N for generalisation",
    )
    def sparser_needs_fewer(self, cells: list[Recovery]) -> Finding:
        return _smallest_numbers(cells, _CLOSE)

    @claim(
        "smaller s requires smaller N: t₂, which is recovery to 10⁻⁴, on this draw",
        says="small s requires small N for generalisation",
        fails={"paper": "The only entry of a* is small on this draw, and the lasso's distance from it of order β."},
    )
    def sparser_needs_fewer_for_t2(self, cells: list[Recovery]) -> Finding:
        return _smallest_numbers(cells, GOAL)

    @claim(
        "smaller s requires smaller N: share of draws on which the linear program recovers",
        says="smaller s requires a smaller N for generalisation",
    )
    def linear_program_needs_fewer(self, cells: list[Recovery], scale: str) -> Finding:
        return _shares(cells, 20 if scale == "paper" else 12, least_l1_recovers)

    @claim(
        "smaller s requires smaller N: share of draws on which the lasso is within 10⁻⁴ of a*, as t₂ asks",
        says="smaller s requires a smaller N for generalisation",
        fails="The lasso stays at a distance of order β from a*, more than 10⁻⁴‖a*‖ where the only entry of a* is "
        "small.",
    )
    def lasso_needs_fewer(self, cells: list[Recovery], scale: str) -> Finding:
        return _shares(cells, 10 if scale == "paper" else 6, lambda data: _lasso_recovers(data, cells[0].beta))

    @claim(
        "given time, descent recovers where and only where the linear program does",
        says="a* is the minimum-ℓ₁ solution when N is large enough, and descent finds it",
    )
    def recovers_where_possible(self, cells: list[Recovery], progress: Progress) -> Finding:
        late = [c for c in cells if c.test > _CLOSE]
        longer = run_all({_named(c): _longer(c.run) for c in late}, f"{self.id}: longer", progress).values()
        saved = [c for c, run in zip(late, longer, strict=True) if run.curves["test_error"].values[-1] <= _CLOSE]
        found = [c.test <= _CLOSE or c in saved for c in cells]
        possible = [least_l1_recovers(c.run.data) for c in cells]
        which = f" ({', '.join(map(_named, saved))})" if saved else ""
        return Finding(
            f"of {len(cells)} runs {len(cells) - len(late)} are within 10⁻³ of a* at the last step and {len(saved)} "
            f"later{which}, by the flow followed {_TIMES} times as far; the program finds a* on "
            f"{sum(possible)}, {_disagreement(cells, found, possible)}",
            found == possible,
        )

    @claim(
        "t₂ comes where and only where the lasso is within 10⁻⁴ of a*",
        says="10⁻⁴ or the maximum training step",
        fails={"paper": "In one run the lasso is just within 10⁻⁴, and descent, which steps around it, just not."},
    )
    def t2_comes_where_possible(self, cells: list[Recovery]) -> Finding:
        found = [c.t2 < np.inf for c in cells]
        possible = [_lasso_recovers(c.run.data, c.beta) for c in cells]
        return Finding(
            f"t₂ comes in {sum(found)} runs of {len(cells)}, the lasso is that close on {sum(possible)}; "
            f"{_disagreement(cells, found, possible)}",
            found == possible,
        )

    @claim("where there is a t₂, t₁ is earlier", says="memorisation at t₁, then generalisation at t₂")
    def memorises_first(self, cells: list[Recovery]) -> Finding:
        delays = [c.t2 / c.t1 for c in cells if c.t2 < np.inf]
        return Finding(
            f"t₂/t₁ from {min(delays):.3g} to {max(delays):.3g} in {len(delays)} runs, above 10 in "
            f"{sum(delay > 10 for delay in delays)}",
            min(delays) >= 1,
        )


def _smallest_numbers(cells: Sequence[Recovery], level: float) -> Finding:
    """For each s, the N from which on the error comes down to `level`; inf if it does not at the largest."""
    smallest = {}
    for group in grouped(cells, "sparsity"):
        without = max((c.N for c in group if np.min(c.run.curves["test_error"]) > level), default=0)
        smallest[group[0].sparsity] = min((c.N for c in group if without < c.N), default=np.inf)
    return Finding(
        "smallest N from which on it comes: " + ", ".join(f"{N:g} (s={s})" for s, N in smallest.items()),
        all(less <= more for less, more in itertools.pairwise(smallest.values())),
    )


def _shares(cells: Sequence[Recovery], draws: int, recovers: Callable[[af.tasks.Data], bool]) -> Finding:
    """On how many of some draws a convex program finds a*, by s and N."""
    task, numbers = cells[0].run.experiment.task, sorted({c.N for c in cells})
    counts = {}
    for s in sorted({c.sparsity for c in cells}):
        sizes = [task.replace(sparsity=s, N=N) for N in numbers]
        counts[s] = [sum(recovers(t.draw(np.random.default_rng([k, 0]))) for k in range(draws)) for t in sizes]
    return Finding(
        f"of {draws} draws, for N={', '.join(map(str, numbers))}: "
        + "; ".join(f"{', '.join(map(str, found))} (s={s})" for s, found in counts.items()),
        bool(np.all(np.diff(list(counts.values()), axis=0) <= 0)),
    )


def _lasso_recovers(data: af.tasks.Data, beta: float) -> bool:
    """Whether the minimiser of ½‖Xa − y‖² + β‖a‖₁ is within 10⁻⁴ of a*."""
    return relative_distance(af.theory.lasso(data.inputs, data.targets, beta), data.truth) <= GOAL


def _longer(run: af.Run) -> af.Experiment:
    """The gradient flow, which descent follows, for some times as long."""
    flow = af.dynamics.GradientFlow(until=_TIMES * float(run.curves["time"][-1]))
    return dataclasses.replace(run.experiment, dynamics=flow, observations=20)


def _named(cell: Recovery) -> str:
    return f"s={cell.sparsity} N={cell.N}"


def _disagreement(cells: Sequence[Recovery], found: Sequence[bool], possible: Sequence[bool]) -> str:
    """In which runs the one is so and not the other, with how far from a* they end."""
    odd = [c for c, one, other in zip(cells, found, possible, strict=True) if one != other]
    if not odd:
        return "in the same runs"
    return "not in the same: " + ", ".join(f"{_named(c)} ends at {c.test:.2g}" for c in odd)


def _seen(cell: Recovery, side: str) -> float:
    """The error at the first observation from t₁ or t₂ on, or at the maximum training step."""
    error = cell.run.curves[f"{side}_error"].values
    (below,) = np.nonzero(error <= GOAL)
    return float(error[below[0] if len(below) else -1])


def _draw_curves(ax: Axes, cells: Sequence[Recovery]) -> None:
    """Training and recovery error of one s, a shade for each N."""
    from matplotlib import colormaps

    for cell, shade in zip(cells, colormaps["viridis"](np.linspace(0.9, 0.0, len(cells))), strict=True):
        curves = cell.run.curves.isel(time=slice(1, None))
        ax.plot(curves["time"], curves["test_error"], color=shade, lw=1.8, label=f"$N={cell.N}$")
        ax.plot(curves["time"], curves["train_error"], color=shade, lw=0.9, ls="--")
    ax.plot([], [], color="0.3", lw=1.8, label="recovery")
    ax.plot([], [], color="0.3", lw=0.9, ls="--", label="training")
    ax.axhline(GOAL, color="0.4", lw=1.0, ls=(0, (1, 2)))
    ax.set_title(f"$s={cells[0].sparsity}$", fontsize="medium", pad=18)
    ax.set(yscale="log", ylabel="relative error")
    af.plot.log_time_axes(ax)


def _draw_map(
    ax: Axes,
    cells: Sequence[Recovery],
    title: str,
    value: Callable[[Recovery], float],
    limits: tuple[float, float] = (1, 7),
) -> None:
    """log₁₀ of a number of every cell over (N, s), written into it; for a step that does not come, the last one."""
    rows, columns = sorted({c.sparsity for c in cells}), sorted({c.N for c in cells})
    shown = np.full((len(rows), len(columns)), np.nan)
    image = ax.imshow(shown, origin="lower", aspect="auto", cmap="viridis", vmin=limits[0], vmax=limits[1])
    for cell in cells:
        row, column, last = rows.index(cell.sparsity), columns.index(cell.N), float(cell.run.curves["step"][-1])
        shown[row, column] = number = np.log10(min(value(cell), last))
        words = f"{number:.1f}" if value(cell) <= last else f">{number:.1f}"
        colour = "w" if number - limits[0] < 0.6 * (limits[1] - limits[0]) else "k"
        ax.text(column, row, words, ha="center", va="center", color=colour, fontsize="small")
    image.set_data(shown)
    ax.set_title(rf"$\log_{{10}}$ of the {title}", fontsize="medium")
    ax.set(xlabel="measurements $N$", ylabel="non-zeros $s$")
    ax.set_xticks(range(len(columns)), [str(N) for N in columns])
    ax.set_yticks(range(len(rows)), [str(s) for s in rows])
