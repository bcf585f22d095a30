"""Figs 4 and 26: how long sparse recovery takes, and how close it comes, over step sizes α and strengths β."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks, theory
from afterfit.diagnose import Verdict
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding, run_all
from afterfit.papers.measure import first_step, log_slope
from afterfit.papers.notsawo2025.recovery import GOAL, Recovery, gap, grouped, least_l1_recovers
from afterfit.plot import legend_below, mark_phases, mathtext
from afterfit.run import Run
from afterfit.sweeps.laws import PowerLaw, fit_power_law

__all__ = ["Fig4"]

_LONG = 3.0  # how long a run is, in ‖â − a*‖_∞/(αβ) steps
_ALIKE = 1.1  # times that differ by less are the same: observations are 4 to 7 % apart
_SIZES = {"s": 9.0, "o": 6.0, "^": 3.5}  # of markers: those of equal αβ lie on one another


class Fig4(Entry):
    id = "notsawo2025/fig4"
    title = "Recovery takes of the order of ‖â − a*‖_∞/(αβ) steps, and ends closer for smaller αβ"
    where = "Figs 4 and 26, §3.1, H.1"
    about = (
        "The sparse recovery of Fig. 3 for several step sizes α and strengths β of the L1 penalty, on three draws. "
        "â is the least-squares solution, a* the truth, t₂ the first step with ‖a − a*‖₂ ≤ 10⁻⁴‖a*‖₂. The paper does "
        "not list its α and β: here αβ spans three decades, with three α for every αβ and for most β. A run has "
        "3‖â − a*‖_∞/(αβ) steps, which is its maximum training step where t₂ does not come. The error falls by orders "
        "of magnitude at once when the last coordinate arrives, and then stays: the end of that fall, where the error "
        "is twice its last value, is there for every α and β, and t₂ only where the last value is below 10⁻⁴."
    )
    claims = (
        "t₂ ∝ 1/(αβ)",
        "the error is at its plateau after a number of steps ∝ 1/(αβ), above 10⁻⁴ or below",
        "t₂ and the step of the plateau depend on αβ alone",
        "over draws, t₂ ∝ ‖â − a*‖_∞",
        "App. C.4: a is at a* from step t₁ + ‖â − a*‖_∞/(αβ) on, and not before",
        "‖a(t₂) − a*‖₁ ∝ αβ, with t₂ as defined",
        "‖a − a*‖₁ ∝ αβ at the end, along β",
        "‖a − a*‖₁ at the end depends on αβ alone",
        "larger α or β: the error is at its plateau earlier, and the plateau is higher",
        "generalisation for small β only",
        "large β: no memorisation either",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            task, seeds = tasks.SparseRecovery(n=100, sparsity=5, N=30, scale=1.0), (1, 2, 3)
            alphas, products = 10.0 ** np.array([-1.0, -1.5, -0.5]), 10 ** np.arange(-6.0, -3.4, 0.5)
            products, observations = np.append(products, 10**-6.5), 400
        else:
            task, seeds = tasks.SparseRecovery(n=40, sparsity=2, N=18, scale=1.0), (3, 8, 22)
            alphas, products = 10.0 ** np.array([-1.0, -0.5]), 10 ** np.arange(-5.5, -3.4, 0.5)
            observations = 200
        steps = {seed: _LONG * _gap_of_draw(task, seed) for seed in seeds}  # times 1/(αβ)
        return {
            f"α={alpha:.2g} αβ={product:.2g} seed {seed}": _experiment(
                task, alpha, product / alpha, seed, steps[seed] / product, observations
            )
            for seed, alpha, product in itertools.product(seeds, alphas, products)
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        cells = [Recovery.of(run) for run in runs.values()]
        figure = Figure(figsize=(11, 9), layout="constrained")
        (times, errors), (along_beta, along_alpha) = figure.subplots(2, 2)
        self._draw_times(times, cells)
        self._draw_errors(errors, cells)
        first = cells[0]
        same_alpha = [c for c in cells if (c.alpha, c.seed) == (first.alpha, first.seed)]
        self._draw_curves(along_beta, sorted(same_alpha, key=lambda c: c.beta), r"\beta")
        along_beta.set_title(rf"$\alpha={mathtext(first.alpha)}$, seed {first.seed}", fontsize="medium", pad=18)
        mark_phases(along_beta, _in_steps(first))
        alphas = {c.alpha for c in cells}
        shared = [group for group in grouped(cells, "seed", "beta") if {c.alpha for c in group} == alphas]
        group = max(shared or [same_alpha[:1]], key=lambda group: (group[0].seed == first.seed, -group[0].beta))
        self._draw_curves(along_alpha, sorted(group, key=lambda c: c.alpha), r"\alpha")
        along_alpha.set_title(rf"$\beta={mathtext(group[0].beta)}$, seed {first.seed}", fontsize="medium", pad=18)
        return figure

    def _draw_times(self, ax: Axes, cells: Sequence[Recovery]) -> None:
        for (seed, colour), (alpha, marker) in itertools.product(_colours(cells).items(), _markers(cells).items()):
            here = [c for c in cells if (c.seed, c.alpha) == (seed, alpha)]
            there, not_there = [c for c in here if c.t2 < np.inf], [c for c in here if c.t2 == np.inf]
            look = {"marker": marker, "ls": "", "color": colour, "ms": _SIZES[marker]}
            ax.plot([c.product for c in there], [c.t2 for c in there], **look)
            ax.plot([c.product for c in not_there], [c.plateau for c in not_there], **look, mfc="none")
        for (seed, colour), style in zip(_colours(cells).items(), ("-", "--", ":"), strict=False):
            far = next(c.gap for c in cells if c.seed == seed)
            ends = np.array([min(c.product for c in cells), max(c.product for c in cells)])
            label = rf"$\|\hat a-a^*\|_\infty/(\alpha\beta)$, seed {seed}"
            ax.plot(ends, far / ends, color=colour, ls=style, lw=1.3, label=label)
        ax.plot([], [], "o", color="0.3", label="$t_2$")
        ax.plot([], [], "o", color="0.3", mfc="none", label=r"at its plateau, above $10^{-4}$")
        ax.set(xscale="log", yscale="log", xlabel=r"$\alpha\beta$", ylabel="steps")
        legend_below(ax)

    def _draw_errors(self, ax: Axes, cells: Sequence[Recovery]) -> None:
        for (seed, colour), (alpha, marker) in itertools.product(_colours(cells).items(), _markers(cells).items()):
            here = [c for c in cells if (c.seed, c.alpha) == (seed, alpha)]
            look = {"marker": marker, "ls": "", "color": colour, "ms": 6, "mfc": "none"}
            ax.plot([c.product for c in here], [c.distance for c in here], **look)
        for alpha, marker in _markers(cells).items():
            ax.plot([], [], marker=marker, ls="", color="0.3", mfc="none", label=rf"$\alpha={mathtext(alpha)}$")
        for seed, colour in _colours(cells).items():
            ax.plot([], [], marker="_", ls="", ms=12, mew=3, color=colour, label=f"seed {seed}")
        ends = np.array([min(c.product for c in cells), max(c.product for c in cells)])
        low = min(c.distance / c.product for c in cells)
        ax.plot(ends, 0.5 * low * ends, color="k", ls=":", lw=1.3, label=r"slope of $\alpha\beta$")
        ax.set(xscale="log", yscale="log", xlabel=r"$\alpha\beta$", ylabel=r"$\|a-a^*\|_1$ at the end")
        legend_below(ax, ncols=3)

    def _draw_curves(self, ax: Axes, cells: Sequence[Recovery], symbol: str) -> None:
        shades = colormaps["viridis"](np.linspace(0.85, 0.0, len(cells)))
        for cell, shade in zip(cells, shades, strict=True):
            curves = cell.run.curves.isel(time=slice(1, None))
            value = cell.beta if symbol == r"\beta" else cell.alpha
            ax.plot(curves["step"], curves["test_error"], color=shade, lw=2.0, label=rf"${symbol}={mathtext(value)}$")
            ax.plot(curves["step"], curves["train_error"], color=shade, lw=1.1, ls="--")
        ax.plot([], [], color="0.3", lw=2.0, label="recovery")
        ax.plot([], [], color="0.3", lw=1.1, ls="--", label="training")
        ax.axhline(GOAL, color="0.4", lw=1.0, ls=(0, (1, 2)))
        ax.set(xscale="log", yscale="log", xlabel="training step", ylabel="relative error")
        legend_below(ax, ncols=3)

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        cells = [Recovery.of(run) for run in runs.values()]
        yield from self._times(cells)
        yield from self._draws(cells, 40 if scale == "paper" else 20, progress)
        yield from self._errors(cells)
        yield from self._regimes(cells)

    def _times(self, cells: Sequence[Recovery]) -> Iterator[Finding]:
        settings = grouped(cells, "alpha", "beta")
        # A run at rest above 10⁻⁴ is not late: it will never be there, and says nothing about how long that takes.
        reached = [group for group in settings if all(c.t2 < np.inf for c in group)]
        law = _law(reached, "t2")
        yield Finding(
            self.claims[0],
            "t₂ ∝ ‖â − a*‖_∞/(αβ)",
            f"t₂ ∝ (αβ)^p with p = {_told(law)}, αβ {_span([g[0].product for g in reached])}; of "
            f"{len(settings)} pairs (α, β) {len(reached)} come to 10⁻⁴ on every draw, the others plateau above it",
            abs(law.exponent + 1) <= 0.05,
        )
        law = _law(settings, "plateau")
        yield Finding(
            self.claims[1],
            "small αβ require longer time to converge",
            f"steps ∝ (αβ)^p with p = {_told(law)}, αβ {_span([g[0].product for g in settings])}; where "
            f"there is a t₂ it is {min(c.t2 / c.plateau for g in reached for c in g):.2f} to "
            f"{max(c.t2 / c.plateau for g in reached for c in g):.2f} of it",
            abs(law.exponent + 1) <= 0.05,
        )
        spread = {}
        for name in ("t2", "plateau"):
            groups = [[getattr(c, name) for c in g] for g in grouped(cells, "seed", "product")]
            groups = [[t for t in group if t < np.inf] for group in groups]
            spread[name] = max(max(group) / min(group) for group in groups if group)
        alphas = sorted({c.alpha for c in cells})
        yield Finding(
            self.claims[2],
            "a function of αβ",
            f"α from {alphas[0]:.2g} to {alphas[-1]:.2g} at equal αβ, each draw: they differ by at most "
            f"{spread['t2'] - 1:.1%} (t₂) and {spread['plateau'] - 1:.1%} (plateau)",
            max(spread.values()) <= _ALIKE,
        )

    def _draws(self, cells: Sequence[Recovery], count: int, progress: bool | None) -> Iterator[Finding]:
        """Other draws at one α and β. Where the error does not come down to 10⁻⁴, its plateau stands for t₂."""
        task, alpha, product = Experiment.from_dict(cells[0].run.spec).task, 10**-0.5, 10**-4.5
        draws = {}
        for seed in range(count):
            steps = 10 * _gap_of_draw(task, seed) / product
            draws[f"seed {seed}"] = _experiment(task, alpha, product / alpha, seed, steps, 200)
        experiments = {name: experiment for name, experiment in draws.items() if least_l1_recovers(experiment.draw())}
        others = [Recovery.of(run) for run in run_all(experiments, f"{self.id}: draws", progress).values()]
        far, slow = np.array([c.gap for c in others]), np.array([c.plateau * c.product for c in others])
        line: Any = scipy.stats.linregress(np.log(far), np.log(slow))
        half = float(scipy.stats.t.ppf(0.975, len(others) - 2) * line.stderr)
        yield Finding(
            self.claims[3],
            "t₂ ∝ ‖â − a*‖_∞/(αβ)",
            f"{len(others)} draws with ‖â − a*‖_∞ from {far.min():.2g} to {far.max():.2g}: steps ∝ ‖â − a*‖_∞^p with p "
            f"= {line.slope:.2f} ± {half:.2f} (95 %), correlation of the logarithms {line.rvalue:.2f}",
            abs(line.slope - 1) <= half and half < 0.5,
        )
        ratio = np.array([(c.plateau - _turn(c.run)) * c.product for c in others]) / far
        yield Finding(
            self.claims[4],
            "‖a − a*‖_∞ = O(αβ) for (and only for) t ≥ t₁ + ⌈‖a(t₁) − a*‖_∞/(αβ)⌉, since every coordinate moves by αβ",
            f"the same draws, t₁ where β‖H‖ overtakes ‖G‖: {ratio.min():.2f} to {ratio.max():.2f} of that many steps "
            f"after t₁, {np.median(ratio):.2f} in the median. Xa = y ties the coordinates together, so that their "
            "speeds are not αβ",
            ratio.max() / ratio.min() <= _ALIKE,
        )

    def _errors(self, cells: Sequence[Recovery]) -> Iterator[Finding]:
        reached = [group for group in grouped(cells, "alpha", "beta") if all(c.t2 < np.inf for c in group)]
        law, products = _law(reached, "distance_at_t2"), [group[0].product for group in reached]
        yield Finding(
            self.claims[5],
            "‖a(t₂) − a*‖₁ ∝ αβ",
            f"‖a(t₂) − a*‖₂ is 10⁻⁴‖a*‖₂ whatever αβ; ‖a(t₂) − a*‖₁ ∝ (αβ)^p with p = {_told(law)}, "
            f"αβ {_span(products)}",
            abs(law.exponent - 1) <= 0.05,
        )
        laws = {group[0].alpha: _law(grouped(group, "beta"), "distance") for group in grouped(cells, "alpha")}
        yield Finding(
            self.claims[6],
            "small αβ do so at a lower generalisation error; the error when t → ∞",
            "‖a − a*‖₁ ∝ β^p with p = " + "; ".join(f"{_told(law)} (α={alpha:.2g})" for alpha, law in laws.items()),
            all(abs(law.exponent - 1) <= 0.05 for law in laws.values()),
        )
        groups = [[c.distance for c in group] for group in grouped(cells, "seed", "product")]
        spread = [max(group) / min(group) for group in groups]
        first = cells[0].seed
        of_first = grouped([c for c in cells if c.seed == first], "alpha")
        per_beta = {group[0].alpha: float(np.median([c.distance / c.beta for c in group])) for group in of_first}
        slope = np.polyfit(list(per_beta), list(per_beta.values()), 1)
        yield Finding(
            self.claims[7],
            "‖a(t₂) − a*‖₁ as a function of αβ",
            f"at equal αβ the largest α ends {min(spread):.1f} to {max(spread):.1f} times as close as the smallest. "
            "‖a − a*‖₁/β is "
            + ", ".join(f"{value:.3g} (α={alpha:.2g})" for alpha, value in sorted(per_beta.items()))
            + f", so {slope[1]:.3g} + {slope[0]:.3g}α (seed {first}): the lasso's own error, {_lasso(cells[0]):.3g} β, "
            "and steps of αβ around it",
            max(spread) <= _ALIKE,
        )

    def _regimes(self, cells: Sequence[Recovery]) -> Iterator[Finding]:
        pairs = {"beta": 0, "alpha": 0}
        wrong = {"beta": 0, "alpha": 0}
        for knob, fixed in (("beta", "alpha"), ("alpha", "beta")):
            for group in grouped(cells, "seed", fixed):
                ordered = sorted(group, key=lambda c: getattr(c, knob))
                for less, more in itertools.pairwise(ordered):
                    pairs[knob] += 1
                    wrong[knob] += not (more.distance > less.distance and more.plateau < less.plateau)
        yield Finding(
            self.claims[8],
            "larger α and/or β lead to fast convergence and do so at a suboptimal value of the test error (Fig. 26)",
            f"so for {pairs['beta'] - wrong['beta']} of {pairs['beta']} neighbours in β at equal α, and for "
            f"{pairs['alpha'] - wrong['alpha']} of {pairs['alpha']} in α at equal β, the plateau in ‖a − a*‖₁",
            not any(wrong.values()) and all(pairs.values()),
        )
        groups = grouped(cells, "seed", "alpha")
        largest = [max((c.beta for c in g if c.t2 < np.inf), default=0.0) for g in groups]
        smallest = [min((c.beta for c in g if c.t2 == np.inf), default=np.inf) for g in groups]
        yield Finding(
            self.claims[9],
            "generalisation occurs mainly for small (but non-zero) β",
            f"to 10⁻⁴ for β up to {_span(largest)} and not from {_span(smallest)} on, depending on α and the draw",
            all(yes < no for yes, no in zip(largest, smallest, strict=True)) and min(largest) > 0,
        )
        strongest = [max(g, key=lambda c: c.beta) for g in groups]
        weakest = [min(g, key=lambda c: c.beta) for g in groups]
        yield Finding(
            self.claims[10],
            "large β pushes the recovery error to plateau at a suboptimal value early in training (causing complete "
            "memorisation) or oscillations (causing no memorisation)",
            f"training error at the end {_span([c.train for c in strongest])} for the largest β of each α and "
            f"{_span([c.train for c in weakest])} for the smallest; like β^"
            f"{log_slope([c.beta for c in cells], [c.train for c in cells]):.2f}",
            all(c.train > GOAL for c in strongest) and all(c.train <= GOAL for c in weakest),
        )


def _experiment(task: tasks.Task, alpha: float, beta: float, seed: int, steps: float, observations: int) -> Experiment:
    return Experiment(
        task=task,
        model=models.Linear(),
        penalty=penalties.L1(float(beta)),
        dynamics=dynamics.GradientDescent(lr=float(alpha), steps=round(steps)),
        init=inits.ScaledGaussian(1e-6),
        seed=seed,
        observations=observations,
    )


def _gap_of_draw(task: tasks.Task, seed: int) -> float:
    """‖â − a*‖_∞ of the data that an experiment with this seed sees."""
    return gap(_experiment(task, 1.0, 1.0, seed, 1, 2).draw())


def _law(settings: Sequence[Sequence[Recovery]], name: str) -> PowerLaw:
    """A number of the runs against αβ: one list of runs a setting, one run a draw."""
    values = np.array([[getattr(cell, name) for cell in group] for group in settings])
    return fit_power_law([group[0].product for group in settings], values, np.zeros(values.shape, bool))


def _told(law: PowerLaw) -> str:
    low, high = law.interval or (law.exponent, law.exponent)
    return f"{law.exponent:.3f} (95 % over {law.seeds} draws: {low:.3f} to {high:.3f})"


def _span(values: Sequence[float]) -> str:
    low, high = (f"{value:.2g}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _lasso(cell: Recovery) -> float:
    """‖a − a*‖₁/β of the minimiser of ½‖Xa − y‖² + β‖a‖₁."""
    data = Experiment.from_dict(cell.run.spec).draw()
    return float(np.abs(theory.lasso(data.inputs, data.targets, cell.beta) - data.truth).sum() / cell.beta)


def _turn(run: Run) -> float:
    """The step from which the penalty's gradient is the larger one."""
    curves = run.curves
    return first_step(curves["step"].values, (curves["loss_gradient"] / curves["penalty_gradient"]).values, 1.0)


def _in_steps(cell: Recovery) -> Verdict:
    """The verdict with its times counted in steps."""
    verdict = cell.run.verdict
    times = {name: getattr(verdict, name) for name in ("t_fit", "t_gen")}
    return dataclasses.replace(verdict, **{name: t if t is None else t / cell.alpha for name, t in times.items()})


def _colours(cells: Sequence[Recovery]) -> dict[int, str]:
    return dict(zip(dict.fromkeys(c.seed for c in cells), itertools.cycle(("#0072B2", "#D55E00", "#222222"))))


def _markers(cells: Sequence[Recovery]) -> dict[float, str]:
    return dict(zip(sorted({c.alpha for c in cells}), itertools.cycle("so^")))
