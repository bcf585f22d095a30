"""Figs 27 and 28: how many measurements sparse recovery needs, over sparsities s and numbers of measurements N."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.notsawo2025.recovery import GOAL, Recovery, grouped, least_l1_recovers
from afterfit.plot import log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Fig27"]

_CLOSE = 1e-3  # a relative error that is a* but for what the penalty leaves, and that no other end point has


class Fig27(Entry):
    id = "notsawo2025/fig27"
    title = "A sparser vector needs fewer measurements"
    where = "Figs 27 and 28, §3.1, H.1"
    about = (
        "The sparse recovery of Fig. 3 for sparsities s and numbers of measurements N, on two draws. t₁ and t₂ are the "
        "first steps with ‖Xa − y‖ ≤ 10⁻⁴‖y‖ and ‖a − a*‖ ≤ 10⁻⁴‖a*‖, or the maximum training step, which the paper "
        "does not give. The penalty keeps a at a distance of order β from a* for good: on some draws with a small a* "
        "that alone is above 10⁻⁴, and is told from a failure by a second threshold, 10⁻³. How often a* is the "
        "interpolator of least ℓ₁ norm is counted on more draws by a linear program."
    )
    claims = (
        "smaller s requires smaller N: share of draws, by the linear program",
        "smaller s requires smaller N: descent, to 10⁻³",
        "smaller s requires smaller N: descent, to 10⁻⁴ as in t₂",
        "descent recovers where and only where the linear program does",
        "t₂ comes where and only where the lasso's solution is within 10⁻⁴ of a*",
        "memorisation comes first: t₁ ≤ t₂",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            n, sparsities, numbers, seeds = 100, (5, 1, 10, 15), (30, 10, 20, *range(40, 101, 10)), (1, 2)
            size, alpha, beta, steps = 1.0, 0.1, 1e-5, 4_000_000
        else:
            n, sparsities, numbers, seeds = 30, (2, 1, 4), (12, 6, 18, 24), (3,)
            size, alpha, beta, steps = 10.0, 0.4, 1e-4, 800_000
        return {
            f"s={s} N={N} seed {seed}": Experiment(
                task=tasks.SparseRecovery(n=n, sparsity=s, N=N, scale=size),
                model=models.Linear(),
                penalty=penalties.L1(beta),
                dynamics=dynamics.GradientDescent(lr=alpha, steps=steps),
                init=inits.ScaledGaussian(1e-6),
                seed=seed,
            )
            for seed, N, s in itertools.product(seeds, numbers, sparsities)
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        cells = [Recovery.of(run) for run in runs.values()]
        first = cells[0]
        cells = sorted((c for c in cells if c.seed == first.seed), key=lambda c: (c.sparsity, c.N))
        figure = Figure(figsize=(13.5, 9.5), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=(1, 1.6))
        by_sparsity = grouped(cells, "sparsity")
        panels = above.subplots(1, len(by_sparsity), sharey=True, squeeze=False)[0]
        for ax, group in zip(panels, by_sparsity, strict=True):
            _draw_curves(ax, group)
            if first in group:
                mark_phases(ax, first.run.verdict)
        handles, labels = panels[0].get_legend_handles_labels()
        above.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize="small")
        (t1, t2), (train, test) = below.subplots(2, 2)
        _draw_map(t1, cells, "memorisation step $t_1$", lambda c: c.t1)
        _draw_map(t2, cells, "generalisation step $t_2$", lambda c: c.t2)
        _draw_map(train, cells, "training error at $t_1$", lambda c: _seen(c, "train"), limits=(-5, 0))
        _draw_map(test, cells, "recovery error at $t_2$", lambda c: _seen(c, "test"), limits=(-5, 0))
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        cells = [Recovery.of(run) for run in runs.values()]
        yield self._shares(cells, draws=20)
        says = "smaller s requires a smaller N for generalisation"
        close = {_key(c): c.test <= _CLOSE for c in cells}
        by_draw = [_smallest(group, close) for group in grouped(cells, "seed")]
        told = "smallest N from which every larger one recovers, by s, each draw: "
        yield Finding(self.claims[1], says, told + "; ".join(map(_list, by_draw)), all(map(_non_decreasing, by_draw)))
        met = {_key(c): c.t2 < np.inf for c in cells}
        by_draw = [_smallest(group, met) for group in grouped(cells, "seed")]
        yield Finding(self.claims[2], says, told + "; ".join(map(_list, by_draw)), all(map(_non_decreasing, by_draw)))
        yield from self._programs(cells)
        both = [c for c in cells if c.t2 < np.inf]
        delays = [c.t2 / c.t1 for c in both]
        yield Finding(
            self.claims[5],
            "the training error goes first",
            f"of the {len(both)} runs with a t₂, t₂/t₁ from {min(delays):.3g} to {max(delays):.3g}",
            min(delays) >= 1,
        )

    def _shares(self, cells: Sequence[Recovery], draws: int) -> Finding:
        """How often a* is the interpolator of least ℓ₁ norm, by s and N."""
        task = Experiment.from_dict(cells[0].run.spec).task
        numbers = sorted({c.N for c in cells})
        half, told, shares = {}, [], []
        for s in sorted({c.sparsity for c in cells}):
            found = []
            for N in numbers:
                trial = task.replace(sparsity=s, N=N)
                data = (trial.draw(np.random.default_rng([seed, 0])) for seed in range(draws))
                found.append(sum(map(least_l1_recovers, data)) / draws)
            half[s] = next((N for N, share in zip(numbers, found, strict=True) if share >= 0.5), np.inf)
            shares.append(found)
            told.append(f"s={s}: " + ", ".join(f"{share:.0%}" for share in found))
        return Finding(
            self.claims[0],
            "small s requires small N for generalisation",
            f"{draws} draws, N={', '.join(map(str, numbers))}: {'; '.join(told)}. Half of them from N = {_list(half)}",
            _non_decreasing(half) and bool(np.all(np.diff(shares, axis=0) <= 0)),
        )

    def _programs(self, cells: Sequence[Recovery]) -> Iterator[Finding]:
        data = {_key(c): Experiment.from_dict(c.run.spec).draw() for c in cells}
        possible = {_key(c): least_l1_recovers(data[_key(c)]) for c in cells}
        found = [c for c in cells if c.test <= _CLOSE]
        missed = [c for c in cells if possible[_key(c)] and c.test > _CLOSE]
        wrong = [c for c in found if not possible[_key(c)]]
        yield Finding(
            self.claims[3],
            "a* is the minimum-ℓ₁ solution when N is large enough, and descent finds it",
            f"of {len(cells)} runs {len(found)} are within 10⁻³ of a* at the last step; the program finds a* on "
            f"{sum(possible.values())}, {len(missed)} of which descent misses{_names(missed)}, and not on {len(wrong)} "
            "of those where descent does",
            not missed and not wrong,
        )
        lasso = {_key(c): _lasso_error(c) for c in cells}
        missed = [c for c in cells if lasso[_key(c)] <= GOAL and c.t2 == np.inf]
        wrong = [c for c in cells if lasso[_key(c)] > GOAL and c.t2 < np.inf]
        yield Finding(
            self.claims[4],
            "t₂ is a threshold of 10⁻⁴ or the maximum training step",
            f"t₂ comes in {sum(c.t2 < np.inf for c in cells)} runs of {len(cells)}, the solution of the lasso is that "
            f"close in {sum(error <= GOAL for error in lasso.values())}; not in time {len(missed)}{_names(missed)}, "
            f"unforeseen {len(wrong)}{_names(wrong)}",
            not missed and not wrong,
        )


def _key(cell: Recovery) -> tuple[int, int, int]:
    return cell.seed, cell.sparsity, cell.N


def _names(cells: Sequence[Recovery]) -> str:
    """Which cells these are, in brackets, with how far from a* they end."""
    if not cells:
        return ""
    return " (" + ", ".join(f"s={c.sparsity} N={c.N} seed {c.seed}: {c.test:.2g}" for c in cells) + ")"


def _smallest(cells: Sequence[Recovery], good: Mapping[tuple[int, int, int], bool]) -> dict[int, float]:
    """For each s the smallest N from which on all are good; inf if the largest is not."""
    found = {}
    for group in grouped(cells, "sparsity"):
        bad = [c.N for c in group if not good[_key(c)]]
        found[group[0].sparsity] = min((c.N for c in group if max(bad, default=0) < c.N), default=np.inf)
    return found


def _list(by_sparsity: Mapping[int, float]) -> str:
    return ", ".join(f"{N:g} (s={s})" for s, N in by_sparsity.items())


def _non_decreasing(by_sparsity: Mapping[int, float]) -> bool:
    return all(less <= more for less, more in itertools.pairwise(by_sparsity.values()))


def _lasso_error(cell: Recovery) -> float:
    """‖a − a*‖/‖a*‖ of the minimiser of ½‖Xa − y‖² + β‖a‖₁."""
    data = Experiment.from_dict(cell.run.spec).draw()
    found = theory.lasso(data.inputs, data.targets, cell.beta)
    return float(np.linalg.norm(found - data.truth) / np.linalg.norm(data.truth))


def _seen(cell: Recovery, side: str) -> float:
    """The error at the first observation from t₁ or t₂ on, or at the maximum training step."""
    error = cell.run.curves[f"{side}_error"].values
    (below,) = np.nonzero(error <= GOAL)
    return float(error[below[0] if len(below) else -1])


def _draw_curves(ax: Axes, cells: Sequence[Recovery]) -> None:
    """Training and recovery error of one s, a shade for each N."""
    for cell, shade in zip(cells, colormaps["viridis"](np.linspace(0.9, 0.0, len(cells))), strict=True):
        curves = cell.run.curves.isel(time=slice(1, None))
        ax.plot(curves["time"], curves["test_error"], color=shade, lw=1.8, label=f"$N={cell.N}$")
        ax.plot(curves["time"], curves["train_error"], color=shade, lw=0.9, ls="--")
    ax.plot([], [], color="0.3", lw=1.8, label="recovery")
    ax.plot([], [], color="0.3", lw=0.9, ls="--", label="training")
    ax.axhline(GOAL, color="0.4", lw=1.0, ls=(0, (1, 2)))
    ax.set_title(f"$s={cells[0].sparsity}$", fontsize="medium", pad=18)
    ax.set(yscale="log", ylabel="relative error")
    log_time_axes(ax)


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
        colour = "w" if image.norm(number) < 0.6 else "k"
        ax.text(column, row, words, ha="center", va="center", color=colour, fontsize="small")
    image.set_data(shown)
    ax.set_title(rf"$\log_{{10}}$ of the {title}", fontsize="medium")
    ax.set(xlabel="measurements $N$", ylabel="non-zeros $s$")
    ax.set_xticks(range(len(columns)), [str(N) for N in columns])
    ax.set_yticks(range(len(rows)), [str(s) for s in rows])
