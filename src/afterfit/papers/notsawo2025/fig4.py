"""Figs 4 and 26: how long sparse recovery takes, and how close it comes, over step sizes α and strengths β."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once, run_all
from afterfit.papers._measure import first_step, log_slope
from afterfit.papers.notsawo2025 import PAPER
from afterfit.papers.notsawo2025.recovery import GOAL, Recovery, descent, gap, grouped, least_l1_recovers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from afterfit.papers import Progress

__all__ = ["Fig4"]

_LONG = 3.0  # how long a run is, in ‖â − a*‖_∞/(αβ) steps
_ALIKE = 1.1  # times that differ by less are the same: observations are 4 to 7 % apart
_SIZES = {"s": 9.0, "o": 6.0, "^": 3.5}  # of markers: those of equal αβ lie on one another


class _At(NamedTuple):
    α: float
    αβ: float
    seed: int


class Fig4(Entry):
    paper, name = PAPER, "fig4"
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
    notes = (
        "(1) App. C.4 lets every coordinate move by αβ a step once the data are fitted, so that the farthest is the "
        "last to arrive and t₂ − t₁ is ‖â − a*‖_∞/(αβ). But a has to stay on {Xa = y}, which ties the coordinates "
        "together: over forty draws it takes 0.7 to 8 times as long, 1.35 times in the median. Proportion is right, "
        "within its error (an exponent of 1.07 ± 0.35); the constant is not. (2) At t₂ as defined ‖a − a*‖₂ is "
        "10⁻⁴‖a*‖₂ whatever αβ, so that ‖a(t₂) − a*‖₁ cannot be proportional to αβ. What is proportional, along β, "
        "is the error at the end; since the fall is so steep, it is also what one sees at the first logged step "
        "after t₂. (3) That error is not a function of αβ. It has two parts: the lasso's own, proportional to β "
        "whatever α, and the steps of size αβ that coordinates at 0 make around it. On the first draw ‖a − a*‖₁ = "
        "β(15 + 69α), and the minimiser of the objective, found by a convex solver, has 15.2 β. At α = 0.1 the "
        "first part is two thirds, so a smaller α with a larger β ends farther away: ten times the α at equal αβ "
        "ends about five times as close.\n\n"
        "A run that rests above 10⁻⁴ has no t₂, and is left out of the first law, not taken for a late one: it "
        "would never be there."
    )

    def runs(self, scale: str) -> dict[str, dict[_At, af.Experiment]]:
        if scale == "paper":
            task, seeds = af.tasks.SparseRecovery(n=100, sparsity=5, N=30, scale=1.0), (1, 2, 3)
            alphas, products = 10.0 ** np.array([-1.0, -1.5, -0.5]), 10 ** np.arange(-6.0, -3.4, 0.5)
            products, observations = np.append(products, 10**-6.5), 400
        else:
            task, seeds = af.tasks.SparseRecovery(n=40, sparsity=2, N=18, scale=1.0), (3, 8, 22)
            alphas, products = 10.0 ** np.array([-1.0, -0.5]), 10 ** np.arange(-5.5, -3.4, 0.5)
            observations = 200
        steps = {seed: _LONG * _gap_of_draw(task, seed) for seed in seeds}  # times 1/(αβ)
        return {
            "descents": {
                _At(α, αβ, seed): descent(task, α, αβ / α, steps[seed] / αβ, seed, observations)
                for seed, α, αβ in itertools.product(seeds, alphas, products)
            }
        }

    def picture(self, cells: list[Recovery]) -> Figure:
        figure = af.plot.Figure(figsize=(11, 9), layout="constrained")
        (times, errors), (along_beta, along_alpha) = figure.subplots(2, 2)
        _draw_times(times, cells)
        _draw_errors(errors, cells)
        first = cells[0]
        same_alpha = [c for c in cells if (c.alpha, c.seed) == (first.alpha, first.seed)]
        _draw_curves(along_beta, same_alpha, "beta")
        title = rf"$\alpha={af.plot.mathtext(first.alpha)}$, seed {first.seed}"
        along_beta.set_title(title, fontsize="medium", pad=18)
        af.plot.mark_phases(along_beta, _in_steps(first))
        alphas = {c.alpha for c in cells}
        shared = [group for group in grouped(cells, "seed", "beta") if {c.alpha for c in group} == alphas]
        same_beta = max(shared or [same_alpha[:1]], key=lambda group: (group[0].seed == first.seed, -group[0].beta))
        _draw_curves(along_alpha, same_beta, "alpha")
        title = rf"$\beta={af.plot.mathtext(same_beta[0].beta)}$, seed {first.seed}"
        along_alpha.set_title(title, fontsize="medium", pad=18)
        return figure

    @once
    def cells(self, descents: dict[_At, af.Run]) -> list[Recovery]:
        """Every run by its numbers."""
        return [Recovery.of(run) for run in descents.values()]

    @once
    def settings(self, cells: list[Recovery]) -> list[list[Recovery]]:
        """The runs of each pair (α, β), one a draw."""
        return grouped(cells, "alpha", "beta")

    @once
    def reached(self, settings: list[list[Recovery]]) -> list[list[Recovery]]:
        """The pairs (α, β) that come to 10⁻⁴ on every draw.

        A run at rest above 10⁻⁴ is not late: it will never be there, and says nothing about how long that takes.
        """
        return [group for group in settings if all(c.t2 < np.inf for c in group)]

    @once
    def draws(self, cells: list[Recovery], scale: str, progress: Progress) -> list[Recovery]:
        """Other draws at one α and β, those on which a* can be found."""
        task, alpha, product = cells[0].run.experiment.task, 10**-0.5, 10**-4.5
        experiments = {}
        for seed in range(40 if scale == "paper" else 20):
            steps = 10 * _gap_of_draw(task, seed) / product
            experiment = descent(task, alpha, product / alpha, steps, seed)
            if least_l1_recovers(experiment.draw()):
                experiments[f"seed {seed}"] = experiment
        return [Recovery.of(run) for run in run_all(experiments, f"{self.id}: draws", progress).values()]

    @claim("t₂ ∝ 1/(αβ)", says="t₂ ∝ ‖â − a*‖_∞/(αβ)")
    def recovery_takes(self, settings: list[list[Recovery]], reached: list[list[Recovery]]) -> Finding:
        law = _law(reached, "t2")
        return Finding(
            f"t₂ ∝ (αβ)^p with p = {_told(law)}, αβ {_span([g[0].product for g in reached])}; of "
            f"{len(settings)} pairs (α, β) {len(reached)} come to 10⁻⁴ on every draw, the others plateau above it",
            abs(law.exponent + 1) <= 0.05,
        )

    @claim(
        "the error is at its plateau after a number of steps ∝ 1/(αβ), above 10⁻⁴ or below",
        says="small αβ require longer time to converge",
    )
    def plateau_takes(self, settings: list[list[Recovery]], reached: list[list[Recovery]]) -> Finding:
        law, shares = _law(settings, "plateau"), [c.t2 / c.plateau for group in reached for c in group]
        return Finding(
            f"steps ∝ (αβ)^p with p = {_told(law)}, αβ {_span([g[0].product for g in settings])}; where "
            f"there is a t₂ it is {min(shares):.2f} to {max(shares):.2f} of it",
            abs(law.exponent + 1) <= 0.05,
        )

    @claim("t₂ and the step of the plateau depend on αβ alone", says="a function of αβ")
    def times_depend_on_the_product(self, cells: list[Recovery]) -> Finding:
        spread = {name: max(_spreads(cells, name)) for name in ("t2", "plateau")}
        alphas = sorted({c.alpha for c in cells})
        return Finding(
            f"α from {alphas[0]:.2g} to {alphas[-1]:.2g} at equal αβ, each draw: they differ by at most "
            f"{spread['t2'] - 1:.1%} (t₂) and {spread['plateau'] - 1:.1%} (plateau)",
            max(spread.values()) <= _ALIKE,
        )

    @claim("over draws, t₂ ∝ ‖â − a*‖_∞", says="t₂ ∝ ‖â − a*‖_∞/(αβ)")
    def farther_takes_longer(self, draws: list[Recovery]) -> Finding:
        import scipy.stats

        # Where the error does not come down to 10⁻⁴, its plateau stands for t₂.
        far, slow = np.array([c.gap for c in draws]), np.array([c.plateau * c.product for c in draws])
        line: Any = scipy.stats.linregress(np.log(far), np.log(slow))
        half = float(scipy.stats.t.ppf(0.975, len(draws) - 2) * line.stderr)
        return Finding(
            f"{len(draws)} draws with ‖â − a*‖_∞ from {far.min():.2g} to {far.max():.2g}: steps ∝ ‖â − a*‖_∞^p with p "
            f"= {line.slope:.2f} ± {half:.2f} (95 %), correlation of the logarithms {line.rvalue:.2f}",
            abs(line.slope - 1) <= half and half < 0.5,
        )

    @claim(
        "App. C.4: a is at a* from step t₁ + ‖â − a*‖_∞/(αβ) on, and not before",
        says="‖a − a*‖_∞ = O(αβ) for (and only for) t ≥ t₁ + ⌈‖a(t₁) − a*‖_∞/(αβ)⌉, since every coordinate moves by αβ",
        fails="Xa = y ties the coordinates together: they do not move by αβ a step, each by itself.",
    )
    def coordinates_move_alike(self, draws: list[Recovery]) -> Finding:
        ratio = np.array([(c.plateau - _turn(c.run)) * c.product / c.gap for c in draws])
        return Finding(
            f"the same draws, t₁ where β‖H‖ overtakes ‖G‖: {ratio.min():.2f} to {ratio.max():.2f} of that many steps "
            f"after t₁, {np.median(ratio):.2f} in the median. Xa = y ties the coordinates together, so that their "
            "speeds are not αβ",
            ratio.max() / ratio.min() <= _ALIKE,
        )

    @claim(
        "‖a(t₂) − a*‖₁ ∝ αβ, with t₂ as defined",
        says="‖a(t₂) − a*‖₁ ∝ αβ",
        fails="At t₂ ‖a − a*‖₂ is 10⁻⁴‖a*‖₂ by definition. The error at the end is what falls with β.",
    )
    def error_at_t2(self, reached: list[list[Recovery]]) -> Finding:
        law = _law(reached, "distance_at_t2")
        return Finding(
            f"‖a(t₂) − a*‖₂ is 10⁻⁴‖a*‖₂ whatever αβ; ‖a(t₂) − a*‖₁ ∝ (αβ)^p with p = {_told(law)}, "
            f"αβ {_span([group[0].product for group in reached])}",
            abs(law.exponent - 1) <= 0.05,
        )

    @claim(
        "‖a − a*‖₁ ∝ αβ at the end, along β",
        says="small αβ do so at a lower generalisation error; the error when t → ∞",
    )
    def error_at_the_end(self, cells: list[Recovery]) -> Finding:
        laws = {group[0].alpha: _law(grouped(group, "beta"), "distance") for group in grouped(cells, "alpha")}
        return Finding(
            "‖a − a*‖₁ ∝ β^p with p = " + "; ".join(f"{_told(law)} (α={alpha:.2g})" for alpha, law in laws.items()),
            all(abs(law.exponent - 1) <= 0.05 for law in laws.values()),
        )

    @claim(
        "‖a − a*‖₁ at the end depends on αβ alone",
        says="‖a(t₂) − a*‖₁ as a function of αβ",
        fails="It is β(C + cα): the lasso's own error, which does not know α, and steps of size αβ.",
    )
    def error_depends_on_the_product(self, cells: list[Recovery]) -> Finding:
        spread, first = _spreads(cells, "distance"), cells[0]
        of_first = grouped([c for c in cells if c.seed == first.seed], "alpha")
        per_beta = {group[0].alpha: float(np.median([c.distance / c.beta for c in group])) for group in of_first}
        slope, level = np.polyfit(list(per_beta), list(per_beta.values()), 1)
        return Finding(
            f"at equal αβ the largest α ends {min(spread):.1f} to {max(spread):.1f} times as close as the smallest. "
            "‖a − a*‖₁/β is "
            + ", ".join(f"{value:.3g} (α={alpha:.2g})" for alpha, value in sorted(per_beta.items()))
            + f", so {level:.3g} + {slope:.3g}α (seed {first.seed}): the lasso's own error, {_lasso(first):.3g} β, "
            "and steps of αβ around it",
            max(spread) <= _ALIKE,
        )

    @claim(
        "larger α or β: the error is at its plateau earlier, and the plateau is higher",
        says="larger α and/or β lead to fast convergence and do so at a suboptimal value of the test error (Fig. 26)",
    )
    def larger_is_faster_and_worse(self, cells: list[Recovery]) -> Finding:
        so = {
            knob: [
                more.distance > less.distance and more.plateau < less.plateau
                for group in grouped(cells, "seed", fixed)
                for less, more in itertools.pairwise(_sorted(group, knob))
            ]
            for knob, fixed in (("beta", "alpha"), ("alpha", "beta"))
        }
        return Finding(
            f"so for {sum(so['beta'])} of {len(so['beta'])} neighbours in β at equal α, and for "
            f"{sum(so['alpha'])} of {len(so['alpha'])} in α at equal β, the plateau in ‖a − a*‖₁",
            all(pairs and all(pairs) for pairs in so.values()),
        )

    @claim("generalisation for small β only", says="generalisation occurs mainly for small (but non-zero) β")
    def small_penalties_generalise(self, cells: list[Recovery]) -> Finding:
        groups = grouped(cells, "seed", "alpha")
        largest = [max((c.beta for c in g if c.t2 < np.inf), default=0.0) for g in groups]
        smallest = [min((c.beta for c in g if c.t2 == np.inf), default=np.inf) for g in groups]
        return Finding(
            f"to 10⁻⁴ for β up to {_span(largest)} and not from {_span(smallest)} on, depending on α and the draw",
            all(yes < no for yes, no in zip(largest, smallest, strict=True)) and min(largest) > 0,
        )

    @claim(
        "large β: no memorisation either",
        says="large β pushes the recovery error to plateau at a suboptimal value early in training (causing complete "
        "memorisation) or oscillations (causing no memorisation)",
    )
    def large_penalties_do_not_fit(self, cells: list[Recovery]) -> Finding:
        ordered = [_sorted(group, "beta") for group in grouped(cells, "seed", "alpha")]
        weakest, strongest = ([group[end].train for group in ordered] for end in (0, -1))
        return Finding(
            f"training error at the end {_span(strongest)} for the largest β of each α and "
            f"{_span(weakest)} for the smallest; like β^"
            f"{log_slope([c.beta for c in cells], [c.train for c in cells]):.2f}",
            min(strongest) > GOAL and max(weakest) <= GOAL,
        )


def _gap_of_draw(task: af.tasks.Task, seed: int) -> float:
    """‖â − a*‖_∞ of the data that an experiment with this seed sees."""
    return gap(descent(task, 1.0, 1.0, 1, seed).draw())


def _sorted(cells: Sequence[Recovery], name: str) -> list[Recovery]:
    return sorted(cells, key=lambda cell: getattr(cell, name))


def _law(settings: Sequence[Sequence[Recovery]], name: str) -> af.PowerLaw:
    """A number of the runs against αβ: one list of runs a setting, one run a draw."""
    values = np.array([[getattr(cell, name) for cell in group] for group in settings])
    return af.fit_power_law([group[0].product for group in settings], values, np.zeros(values.shape, bool))


def _told(law: af.PowerLaw) -> str:
    low, high = law.interval or (law.exponent, law.exponent)
    return f"{law.exponent:.3f} (95 % over {law.seeds} draws: {low:.3f} to {high:.3f})"


def _span(values: Sequence[float]) -> str:
    low, high = (f"{value:.2g}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _spreads(cells: Sequence[Recovery], name: str) -> list[float]:
    """How many times as large as its smallest the largest of a number is, among the runs of each draw and αβ."""
    groups = [[getattr(c, name) for c in group] for group in grouped(cells, "seed", "product")]
    seen = [[value for value in group if value != np.inf] for group in groups]
    return [max(group) / min(group) for group in seen if group]


def _lasso(cell: Recovery) -> float:
    """‖a − a*‖₁/β of the minimiser of ½‖Xa − y‖² + β‖a‖₁."""
    data = cell.run.data
    return float(np.abs(af.theory.lasso(data.inputs, data.targets, cell.beta) - data.truth).sum() / cell.beta)


def _turn(run: af.Run) -> float:
    """The step from which the penalty's gradient is the larger one."""
    curves = run.curves
    return first_step(curves["step"].values, (curves["loss_gradient"] / curves["penalty_gradient"]).values, 1.0)


def _in_steps(cell: Recovery) -> af.Verdict:
    """The verdict with its times counted in steps."""
    verdict = cell.run.verdict
    times = {name: getattr(verdict, name) for name in ("t_fit", "t_gen")}
    return dataclasses.replace(verdict, **{name: t if t is None else t / cell.alpha for name, t in times.items()})


def _colours(cells: Sequence[Recovery]) -> dict[int, str]:
    return dict(zip(dict.fromkeys(c.seed for c in cells), itertools.cycle(("#0072B2", "#D55E00", "#222222"))))


def _markers(cells: Sequence[Recovery]) -> dict[float, str]:
    return dict(zip(sorted({c.alpha for c in cells}), itertools.cycle("so^")))


def _draw_times(ax: Axes, cells: Sequence[Recovery]) -> None:
    """t₂ over αβ, or the step of the plateau where there is none, beside ‖â − a*‖_∞/(αβ)."""
    for (seed, colour), (alpha, marker) in itertools.product(_colours(cells).items(), _markers(cells).items()):
        here = [c for c in cells if (c.seed, c.alpha) == (seed, alpha)]
        there, not_there = [c for c in here if c.t2 < np.inf], [c for c in here if c.t2 == np.inf]
        look = {"marker": marker, "ls": "", "color": colour, "ms": _SIZES[marker]}
        ax.plot([c.product for c in there], [c.t2 for c in there], **look)
        ax.plot([c.product for c in not_there], [c.plateau for c in not_there], **look, mfc="none")
    ends = _ends(cells)
    for (seed, colour), style in zip(_colours(cells).items(), ("-", "--", ":"), strict=False):
        far = next(c.gap for c in cells if c.seed == seed)
        label = rf"$\|\hat a-a^*\|_\infty/(\alpha\beta)$, seed {seed}"
        ax.plot(ends, far / ends, color=colour, ls=style, lw=1.3, label=label)
    ax.plot([], [], "o", color="0.3", label="$t_2$")
    ax.plot([], [], "o", color="0.3", mfc="none", label=r"at its plateau, above $10^{-4}$")
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha\beta$", ylabel="steps")
    af.plot.legend_below(ax)


def _draw_errors(ax: Axes, cells: Sequence[Recovery]) -> None:
    """‖a − a*‖₁ at the end over αβ."""
    for (seed, colour), (alpha, marker) in itertools.product(_colours(cells).items(), _markers(cells).items()):
        here = [c for c in cells if (c.seed, c.alpha) == (seed, alpha)]
        look = {"marker": marker, "ls": "", "color": colour, "ms": 6, "mfc": "none"}
        ax.plot([c.product for c in here], [c.distance for c in here], **look)
    for alpha, marker in _markers(cells).items():
        label = rf"$\alpha={af.plot.mathtext(alpha)}$"
        ax.plot([], [], marker=marker, ls="", color="0.3", mfc="none", label=label)
    for seed, colour in _colours(cells).items():
        ax.plot([], [], marker="_", ls="", ms=12, mew=3, color=colour, label=f"seed {seed}")
    ends, low = _ends(cells), min(c.distance / c.product for c in cells)
    ax.plot(ends, 0.5 * low * ends, color="k", ls=":", lw=1.3, label=r"slope of $\alpha\beta$")
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha\beta$", ylabel=r"$\|a-a^*\|_1$ at the end")
    af.plot.legend_below(ax, ncols=3)


def _ends(cells: Sequence[Recovery]) -> np.ndarray:
    """The smallest and the largest αβ."""
    return np.array([min(c.product for c in cells), max(c.product for c in cells)])


def _draw_curves(ax: Axes, cells: Sequence[Recovery], knob: str) -> None:
    """Training and recovery error, a shade for each value of α or β."""
    from matplotlib import colormaps

    shades = colormaps["viridis"](np.linspace(0.85, 0.0, len(cells)))
    for cell, shade in zip(_sorted(cells, knob), shades, strict=True):
        curves, value = cell.run.curves.isel(time=slice(1, None)), af.plot.mathtext(getattr(cell, knob))
        ax.plot(curves["step"], curves["test_error"], color=shade, lw=2.0, label=rf"$\{knob}={value}$")
        ax.plot(curves["step"], curves["train_error"], color=shade, lw=1.1, ls="--")
    ax.plot([], [], color="0.3", lw=2.0, label="recovery")
    ax.plot([], [], color="0.3", lw=1.1, ls="--", label="training")
    ax.axhline(GOAL, color="0.4", lw=1.0, ls=(0, (1, 2)))
    ax.set(xscale="log", yscale="log", xlabel="training step", ylabel="relative error")
    af.plot.legend_below(ax, ncols=3)
