"""Figs 4 and 26: how long sparse recovery takes, and how close it comes, over step sizes α and strengths β."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, correction, once, passing, run_all
from afterfit.papers._measure import Interval, first_step, mean_of, power_law
from afterfit.papers.notsawo2025 import PAPER
from afterfit.papers.notsawo2025.recovery import (
    GOAL,
    Recovery,
    descent,
    gap,
    grouped,
    least_l1_recovers,
    measured,
    power_law_within,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from afterfit.papers import Progress

__all__ = ["Fig4"]

_SMALL = 1.01e-4  # β up to here: the second phase is the longer one, and the lasso has the support of a*
_PLATEAU = 1.01e-2  # β up to here: the error comes to a plateau
_ALIKE = 1.1  # numbers that differ by less are the same: observations are 3 to 7 % apart
_NORMS = {"‖·‖_∞": np.inf, "‖·‖₂": 2.0, "‖·‖₁": 1.0}
_NEAR = 0.05  # how near an exponent is to be: over two decades, observations that far apart make 0.015
_MARKERS = dict(zip("so^vDP", (9.0, 7.5, 6.5, 5.5, 4.0, 3.5), strict=True))  # those of equal αβ are on one another


class _At(NamedTuple):
    α: float
    β: float
    seed: int


class Fig4(Entry):
    paper, name = PAPER, "fig4"
    title = "Recovery takes of the order of ‖â − a*‖_∞/(αβ) steps, and ends closer for smaller β"
    where = "Figs 4 and 26, §3.1, H.1"
    about = (
        "The sparse recovery of Fig. 3, without noise, for six step sizes α from 0.005 to 0.1 and strengths β = 10⁻⁶, "
        "…, 10⁻¹ of the L1 penalty: the grid of the authors' notebook, on one draw, and without 10⁻⁶ on two more. â is "
        "the least-squares solution, a* the truth. As in the notebook, t₂ is the first step at which ‖a − a*‖₂/‖a*‖₂ "
        "is within 5 % of its plateau, and what is drawn is ‖a − a*‖₁/n. A run has 1000/α steps to fit and "
        "3/(αβ) times the largest ‖â − a*‖_∞, which is enough to be at rest (the notebook has 10⁸ for each)."
    )
    notes = (
        "(1) With c·a* and c·β a run is c times as large (Fig. 3), so that t₂ is of degree one in a*: over draws of "
        "different size it is proportional to every norm of â − a*. What can tell norms apart is the shape of â − a*, "
        "and that is what the row on norms goes by: with five non-zeros the 2-norm follows t₂ better, with two the "
        "∞-norm did. (2) App. C.4 lets every coordinate move by αβ a step once the data are fitted, so "
        "that the farthest is the last to arrive. It offers the time that follows as a suggestion. But a has to stay "
        "on {Xa = y}, which ties the coordinates together: the time is of this order and not this. "
        "(3) The error at the end has two parts: the lasso's own, proportional to β whatever α, and the steps of size "
        "αβ that coordinates at 0 make around it. In the authors' grid β spans five decades and α 1.3, so that on "
        "their axis it looks like a function of αβ. (4) With β = 10⁻¹ the lasso itself does not fit, and the training "
        "error is largely its own. But proximal descent comes to rest there and subgradient descent does not: its "
        "predictions swing by more than the 10⁻³ that would count as memorisation. (5) Laws are read off β ≤ 10⁻⁴, "
        "where the second phase is the longer one, and plateaus off β ≤ 10⁻²."
    )

    def runs(self, scale: str) -> dict[str, dict[_At, af.Experiment] | dict[int, af.Experiment]]:
        if scale == "paper":
            task, observations = measured(100, 5, 30), 400
            alphas = (0.1, 0.005, 0.01, 0.0275, 0.055, 0.0825)
            strengths = {
                1: (1e-5, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1),
                **dict.fromkeys((2, 3), (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)),
            }
        else:
            task, observations = measured(60, 4, 30), 200
            alphas = (0.1, 10**-1.5)
            strengths = dict.fromkeys((1, 2, 3), (1e-5, 10**-4.5, 1e-4, 1e-3, 1e-2, 1e-1))
        far = {seed: gap(descent(task, 1.0, 1.0, 1, seed).draw()) for seed in strengths}

        def steps(α: float, β: float) -> int:
            return round(3 * max(far[seed] for seed, each in strengths.items() if β in each) / (α * β) + 1000 / α)

        descents = {
            _At(α, β, seed): descent(task, α, β, steps(α, β), seed, observations)
            for seed, each in strengths.items()
            for β, α in itertools.product(each, alphas)
        }
        strongest = {seed: descents[_At(0.1, 1e-1, seed)] for seed in strengths}
        proximal = af.dynamics.ProximalGradient(lr=0.1, steps=steps(0.1, 1e-1))
        return {
            "descents": descents,
            "free": {seed: run.set({"penalty.strength": 0.0}) for seed, run in strongest.items()},
            "proximal": {seed: dataclasses.replace(run, dynamics=proximal) for seed, run in strongest.items()},
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
    def small(self, cells: list[Recovery]) -> list[Recovery]:
        """The runs with β ≤ 10⁻⁴."""
        return [c for c in cells if c.beta <= _SMALL]

    @once
    def draws(self, cells: list[Recovery], scale: str, progress: Progress) -> list[Recovery]:
        """Other draws at one α and β, on which a* can be found and was: at rest for the last tenth of the steps."""
        task, (count, steps) = cells[0].run.experiment.task, (100, 300_000) if scale == "paper" else (40, 150_000)
        experiments = {f"seed {seed}": descent(task, 0.1, 1e-4, steps, seed) for seed in range(400, 400 + count)}
        possible = {name: each for name, each in experiments.items() if least_l1_recovers(each.draw())}
        draws = [Recovery.of(run) for run in run_all(possible, f"{self.id}: draws", progress).values()]
        return [c for c in draws if c.t2 < 0.9 * steps]

    @claim("t₂ ∝ 1/(αβ)", says="t₂ ∝ ‖â − a*‖_∞/(αβ)")
    def recovery_takes(self, small: list[Recovery]) -> Finding:
        return _inverse(small, lambda c: c.t2)

    @control(recovery_takes, "t₁")
    def memorisation_takes(self, small: list[Recovery]) -> Finding:
        return _inverse([c for c in small if c.t1 < np.inf], lambda c: c.t1)

    @claim("t₂ depends on αβ alone", says="as a function of αβ")
    def times_depend_on_the_product(self, small: list[Recovery]) -> Finding:
        return _alike(small, lambda c: c.t2)

    @control(times_depend_on_the_product, "t₂ as a function of β, α·t₂")
    def times_depend_on_the_strength(self, small: list[Recovery]) -> Finding:
        return _alike(small, lambda c: c.alpha * c.t2)

    @claim(
        "over draws, t₂ ∝ ‖â − a*‖_∞",
        says="t₂ ∝ ‖â − a*‖_∞/(αβ)",
        fails="The draws are nearer to the 2-norm: the exponent that tells the two apart, 0 for ‖·‖₂ and 1 for ‖·‖_∞, "
        "is below ½, and 1 outside its interval. On one draw, as in the figure, nothing can tell norms apart.",
        changed="The quick scale had two non-zeros, with which the ∞-norm is the better one. It has four now, which is "
        "nearer to the five of the paper; draws are those from seed 400 on.",
    )
    def farther_takes_longer(self, draws: list[Recovery]) -> Finding:
        return _norm_law(draws, np.array([c.t2 * c.product for c in draws]))

    @passing(farther_takes_longer, "times that are made up, ‖â − a*‖_∞/(αβ) with the scatter that was measured")
    def would_take_longer(self, draws: list[Recovery]) -> Finding:
        far = np.array([c.gap for c in draws])
        scatter = np.random.default_rng(0).permutation([c.t2 * c.product for c in draws] / far)
        return _norm_law(draws, far * scatter)

    @claim(
        "App. C.4: a is at a* of the order of ‖â − a*‖_∞/(αβ) steps after t₁",
        says="“This suggest that we may have” ‖a − a*‖_∞ = O(αβ) for (and only for) t ≥ t₁ + ⌈‖a(t₁) − a*‖_∞/(αβ)⌉, "
        "as every coordinate moves by αβ",
        changed="It was asked as an equality before, to a tenth on nine draws of ten, and failed; the paper offers it "
        "as a suggestion, and it is the order that is asked now, on draws from seed 400 on. On others, from seed "
        "100 on, 0.68 to 4.18 of that many steps, 1.36 in the median, had been seen.",
    )
    def coordinates_move_alike(self, small: list[Recovery], draws: list[Recovery]) -> Finding:
        return _of_order(small, draws, lambda c: c.t2 - _turn(c.run), np.inf)

    @control(coordinates_move_alike, "‖â − a*‖₁/(αβ)")
    def coordinates_move_in_turn(self, small: list[Recovery], draws: list[Recovery]) -> Finding:
        return _of_order(small, draws, lambda c: c.t2 - _turn(c.run), 1)

    @control(coordinates_move_alike, "t₁ itself")
    def fits_sooner(self, small: list[Recovery], draws: list[Recovery]) -> Finding:
        return _of_order(small, draws, lambda c: _turn(c.run), np.inf)

    @claim(
        "‖a(t₂) − a*‖₁ ∝ αβ, with t₂ as defined",
        says="‖a(t₂) − a*‖₁ ∝ αβ, t₂ the smallest t with ‖a − a*‖₂/‖a*‖₂ ≤ 10⁻⁴",
    )
    def error_at_t2(self, cells: list[Recovery]) -> Finding:
        reached = [c for c in cells if c.caption < np.inf]
        found = f"of {len(cells)} runs {len(reached)} come to 10⁻⁴"
        if len({c.product for c in reached}) < 3:
            return Finding(f"{found}, with too few αβ for a law", False)
        law = power_law_within(grouped(reached, "seed"), lambda c: c.product, lambda c: c.distance_at_caption)
        return Finding(
            f"{found}, where ‖a(t₂) − a*‖₂ is 10⁻⁴‖a*‖₂ whatever αβ: ‖a(t₂) − a*‖₁ ∝ (αβ)^p with p = {law}",
            _is_near(law, 1),
        )

    @correction(
        error_at_t2,
        "‖a(t₂) − a*‖₁ ∝ β at each α, with t₂ the step at which the error is within 5 % of its plateau",
        why="With t₂ as printed ‖a(t₂) − a*‖₂ is 10⁻⁴‖a*‖₂ by definition, whatever αβ, and for most β not reached. The "
        "notebook has t₂ as it is said here, at which the error is that of the end.",
        touches="No: the figure was made with the other t₂. That the error goes by β, and not by αβ, is another row.",
        where="caption of Fig. 4",
    )
    def error_at_the_plateau(self, small: list[Recovery]) -> Finding:
        return _along_strength(small, lambda c: c.distance_at_t2)

    @claim(
        "‖a − a*‖₁ ∝ αβ at the end, along β",
        says="small αβ do so at a lower generalisation error; the error when t → ∞",
    )
    def error_at_the_end(self, small: list[Recovery]) -> Finding:
        return _along_strength(small, lambda c: c.distance)

    @control(error_at_the_end, "the squared error g at the end")
    def squared_error_at_the_end(self, small: list[Recovery]) -> Finding:
        return _along_strength(small, lambda c: c.train**2)

    @claim("‖a − a*‖₁ at the end depends on αβ alone", says="‖a(t₂) − a*‖₁ as a function of αβ")
    def error_depends_on_the_product(self, small: list[Recovery]) -> Finding:
        return _alike(small, lambda c: c.distance)

    @correction(
        error_depends_on_the_product,
        "‖a − a*‖₁ at the end is β(C + cα), with C the lasso's own",
        why="The end is the lasso solution, whose distance from a* is Cβ and does not know α, with steps of size αβ "
        "around it, which coordinates at 0 make for ever.",
        touches="Yes: of two pairs (α, β) with the same αβ the one with the larger α ends closer; a smaller αβ ends "
        "closer only if it is not bought with a larger β.",
        where="Fig. 4 and its caption",
    )
    def error_is_the_lasso_s(self, small: list[Recovery]) -> Finding:
        # C from a line through ‖a − a*‖₁/β over α, against a convex program; coordinates at 0 do not step at random,
        # and the line is good to about a tenth.
        fits, lassos = [], []
        for group in grouped(small, "seed"):
            fits.append(np.polyfit([c.alpha for c in group], [c.distance / c.beta for c in group], 1)[::-1])
            lassos.append(_lasso(group[0]))
        lines = [
            f"{level:.3g} + {slope:.3g}α (lasso: {own:.3g})" for (level, slope), own in zip(fits, lassos, strict=True)
        ]
        return Finding(
            f"‖a − a*‖₁/β on {len(fits)} draws: {', '.join(lines)}",
            all(abs(level / own - 1) <= 0.1 and slope > 0 for (level, slope), own in zip(fits, lassos, strict=True)),
        )

    @claim(
        "larger α or β: the error is at its plateau earlier, and the plateau is higher",
        says="larger α and/or β lead to fast convergence and do so at a suboptimal value of the test error (Fig. 26)",
    )
    def larger_is_faster_and_worse(self, cells: list[Recovery]) -> Finding:
        settled = [c for c in cells if c.beta <= _PLATEAU]
        return _faster_and_worse(
            {"β": (grouped(settled, "seed", "alpha"), "beta"), "α": (grouped(settled, "seed", "beta"), "alpha")}
        )

    @control(larger_is_faster_and_worse, "larger α at equal αβ")
    def larger_at_equal_products(self, small: list[Recovery]) -> Finding:
        pairs = [group for group in grouped(small, "seed", "product") if len(group) > 1]
        return _faster_and_worse({"α at equal αβ": (pairs, "alpha")})

    @claim("generalisation for small β only", says="generalisation occurs mainly for small (but non-zero) β")
    def small_penalties_generalise(self, cells: list[Recovery], free: dict[int, af.Run]) -> Finding:
        return _generalise_up_to(cells, free, 1.0)

    @control(small_penalties_generalise, "a thirtieth of the time, ‖â − a*‖_∞/(10αβ)")
    def nothing_generalises_yet(self, cells: list[Recovery], free: dict[int, af.Run]) -> Finding:
        return _generalise_up_to(cells, free, 1 / 30)

    @claim(
        "large β: no memorisation either",
        says="large β pushes the recovery error to plateau at a suboptimal value early in training (causing complete "
        "memorisation) or oscillations (causing no memorisation)",
    )
    def large_penalties_do_not_fit(self, cells: list[Recovery]) -> Finding:
        # By the 10⁻³ of t₁: not at any step with the largest β, and at the end with the smallest.
        ends = [(group[0], group[-1]) for group in (_sorted(g, "beta") for g in grouped(cells, "seed", "alpha"))]
        weakest = [weak.train for weak, _ in ends]
        strongest = [float(strong.run.curves["train_error"].min()) for _, strong in ends]
        return Finding(
            f"training error {_span(strongest)} at the least for the largest β of each α, {ends[0][1].beta:.0e}, and "
            f"{_span(weakest)} at the end for the smallest",
            min(strongest) > GOAL and max(weakest) <= GOAL,
        )

    @control(large_penalties_do_not_fit, "β up to 10⁻⁵")
    def small_penalties_fit(self, cells: list[Recovery]) -> Finding:
        return self.large_penalties_do_not_fit([c for c in cells if c.beta <= 1.01e-5])

    @claim(
        "large β: oscillations that alone forbid memorisation",
        says="oscillations (causing no memorisation); sign flipping in each coordinate, without convergence to a "
        "minimiser of f (Lemma C.33)",
    )
    def large_penalties_oscillate(self, cells: list[Recovery]) -> Finding:
        largest = max(c.beta for c in cells)
        return _oscillate([c.run for c in cells if c.beta == largest])

    @control(large_penalties_oscillate, "β = 10⁻⁵")
    def small_penalties_rest(self, cells: list[Recovery]) -> Finding:
        return _oscillate([c.run for c in cells if c.beta == 1e-5])

    @control(large_penalties_oscillate, "the lasso, by proximal descent with the largest β")
    def the_lasso_rests(self, proximal: dict[int, af.Run]) -> Finding:
        return _oscillate(list(proximal.values()))


def _sorted(cells: Sequence[Recovery], name: str) -> list[Recovery]:
    return sorted(cells, key=lambda cell: getattr(cell, name))


def _is_near(law: Interval, exponent: float) -> bool:
    """Whether the interval is within 0.05 of an exponent."""
    return exponent - _NEAR <= law.low and law.high <= exponent + _NEAR


def _inverse(cells: Sequence[Recovery], time: Callable[[Recovery], float]) -> Finding:
    # Along α and along β by itself: an exponent of −1 in both is 1/(αβ), and no other.
    laws = {
        knob: power_law_within(grouped(cells, "seed", fixed), lambda c, knob=knob: getattr(c, knob), time)
        for knob, fixed in (("alpha", "beta"), ("beta", "alpha"))
    }
    return Finding(
        f"steps ∝ α^p β^q with p = {laws['alpha']} and q = {laws['beta']}, αβ {_span([c.product for c in cells])}",
        all(_is_near(law, -1) for law in laws.values()),
    )


def _alike(cells: Sequence[Recovery], value: Callable[[Recovery], float]) -> Finding:
    groups = [[value(c) for c in group] for group in grouped(cells, "seed", "product") if len(group) > 1]
    spread = [max(group) / min(group) for group in groups]
    return Finding(
        f"{len(groups)} times runs with equal αβ and other α: they differ by a factor {_span(spread)}",
        max(spread) <= _ALIKE,
    )


def _along_strength(cells: Sequence[Recovery], value: Callable[[Recovery], float]) -> Finding:
    law = power_law_within(grouped(cells, "seed", "alpha"), lambda c: c.beta, value)
    return Finding(f"∝ β^p at each α with p = {law}, β {_span([c.beta for c in cells])}", _is_near(law, 1))


def _norm_law(draws: Sequence[Recovery], times: np.ndarray) -> Finding:
    # Twice the a* takes twice the time, so that every norm has exponent 1 over draws of different size. Over the share
    # of one norm in another, size does not count: with t₂ ∝ ‖·‖_∞ and no other, t₂/‖·‖₂ goes like ‖·‖_∞/‖·‖₂, and like
    # the power 0 of it if ‖·‖₂ is the one.
    norms = {name: np.array([gap(c.run.data, of) for c in draws]) for name, of in _NORMS.items()}
    law = power_law(norms["‖·‖_∞"] / norms["‖·‖₂"], times / norms["‖·‖₂"])
    scatter = ", ".join(f"{np.std(np.log(times / far)):.2f} ({name})" for name, far in norms.items())
    return Finding(
        f"{len(draws)} draws: t₂/‖·‖₂ ∝ (‖·‖_∞/‖·‖₂)^p of â − a* with p = {law}; standard deviation of "
        f"log t₂/‖â − a*‖: {scatter}",
        law.holds(1) and not law.holds(0),
    )


def _of_order(
    cells: Sequence[Recovery], draws: Sequence[Recovery], steps: Callable[[Recovery], float], norm: float
) -> Finding:
    # Of an order is with that law, exponent 1 over α and β, and by a factor whose nearest power of ten is 1, for a draw
    # in the mean and by its interval.
    def told(cell: Recovery) -> float:
        return gap(cell.run.data, norm) / cell.product

    law = power_law_within(grouped(cells, "seed"), told, steps)
    ratios = np.array([steps(c) / told(c) for c in draws])
    mean = Interval(*(10**end for end in mean_of(np.log10(ratios).tolist())))
    return Finding(
        f"steps ∝ (‖â − a*‖/(αβ))^p with p = {law} over {len(cells)} pairs α, β; {mean} times that in the mean of "
        f"{len(draws)} draws, {_span(ratios.tolist())} on each, and within a tenth of it on "
        f"{np.mean(np.abs(ratios - 1) <= 0.1):.0%}",
        _is_near(law, 1) and mean.low >= 10**-0.5 and mean.high <= 10**0.5,
    )


def _faster_and_worse(along: dict[str, tuple[list[list[Recovery]], str]]) -> Finding:
    laws = {
        knob: [
            power_law_within(groups, lambda c, name=name: getattr(c, name), value)
            for value in (lambda c: c.t2, lambda c: c.distance)
        ]
        for knob, (groups, name) in along.items()
    }
    return Finding(
        "; ".join(
            f"along {knob} t₂ has the exponent {t2} and ‖a − a*‖₁ {distance}" for knob, (t2, distance) in laws.items()
        ),
        all(t2.high < 0 < distance.low for t2, distance in laws.values()),
    )


def _generalise_up_to(cells: Sequence[Recovery], free: dict[int, af.Run], part: float) -> Finding:
    # To 10⁻³, in the first `part` of the steps: for every α and draw up to some β and not beyond, nor without penalty.
    def reaches(cell: Recovery) -> bool:
        step, error = (cell.run.curves[name].values for name in ("step", "test_error"))
        return bool(error[step <= part * step[-1]].min() <= GOAL)

    groups = grouped(cells, "seed", "alpha")
    largest = [max((c.beta for c in g if reaches(c)), default=0.0) for g in groups]
    smallest = [min((c.beta for c in g if not reaches(c)), default=np.inf) for g in groups]
    without = min(float(run.curves["test_error"].min()) for run in free.values())
    return Finding(
        f"to 10⁻³ for β up to {_span(largest)} and not from {_span(smallest)} on; {without:.2g} at the least for β = 0",
        all(0 < yes < no for yes, no in zip(largest, smallest, strict=True)) and without > GOAL,
    )


def _oscillate(runs: Sequence[af.Run]) -> Finding:
    # If the predictions swing about their mean by more than 10⁻³‖y‖, then the training error cannot stay at 10⁻³,
    # wherever that mean is: this is not the lasso's bias.
    swings, train = [_swing(run) for run in runs], [float(run.curves["train_error"][-1]) for run in runs]
    return Finding(
        f"over the next 1000 steps Xa swings by {_span(swings)} of ‖y‖; training error {_span(train)}",
        min(swings) > GOAL,
    )


def _swing(run: af.Run) -> float:
    """How far Xa is from its mean over the next 1000 steps, in the root mean square and relative to ‖y‖."""
    X, y = run.data.inputs, run.data.targets
    a, alpha, beta = np.array(run.params["weights"]), run.spec["dynamics"]["lr"], run.spec["penalty"]["strength"]
    proximal, seen = isinstance(run.experiment.dynamics, af.dynamics.ProximalGradient), []
    for _ in range(1000):
        seen.append(X @ a)
        forward = a - alpha * X.T @ (seen[-1] - y)
        shrunk = np.sign(forward) * np.maximum(np.abs(forward) - alpha * beta, 0)
        a = shrunk if proximal else forward - alpha * beta * np.sign(a)
    about = np.linalg.norm(seen - np.mean(seen, axis=0), axis=1)
    return float(np.sqrt(np.mean(about**2)) / np.linalg.norm(y))


def _span(values: Sequence[float]) -> str:
    low, high = (f"{value:.2g}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _lasso(cell: Recovery) -> float:
    """‖a − a*‖₁/β of the minimiser of ½‖Xa − y‖² + β‖a‖₁."""
    data = cell.run.data
    return float(np.abs(af.theory.lasso(data.inputs, data.targets, cell.beta) - data.truth).sum() / cell.beta)


def _turn(run: af.Run) -> float:
    """The step from which the penalty's gradient is the larger one."""
    curves = run.curves
    return first_step(curves["step"].values, (curves["loss_gradient"] / curves["penalty_gradient"]).values, 1.0)


def _in_steps(cell: Recovery) -> af.Verdict:
    """The verdict with t₁ and t₂ for its times, counted in steps."""
    times = {name: t if t < np.inf else None for name, t in (("t_fit", cell.t1), ("t_gen", cell.t2))}
    return dataclasses.replace(cell.run.diagnose(fit=GOAL, generalise=GOAL), **times)


def _colours(cells: Sequence[Recovery]) -> dict[int, str]:
    return dict(zip(dict.fromkeys(c.seed for c in cells), itertools.cycle(("#0072B2", "#D55E00", "#222222"))))


def _markers(cells: Sequence[Recovery]) -> dict[float, str]:
    return dict(zip(sorted({c.alpha for c in cells}), itertools.cycle(_MARKERS)))


def _draw_times(ax: Axes, cells: Sequence[Recovery]) -> None:
    """t₂ over αβ, open where the error ends above 10⁻³, beside ‖â − a*‖_∞/(αβ)."""
    for (seed, colour), (alpha, marker) in itertools.product(_colours(cells).items(), _markers(cells).items()):
        here = [c for c in cells if (c.seed, c.alpha) == (seed, alpha) and c.t2 < np.inf]
        look = {"marker": marker, "ls": "", "color": colour, "ms": _MARKERS[marker]}
        near, far = [c for c in here if c.test <= GOAL], [c for c in here if c.test > GOAL]
        ax.plot([c.product for c in near], [c.t2 for c in near], **look)
        ax.plot([c.product for c in far], [c.t2 for c in far], **look, mfc="none")
    ends = _ends(cells)
    for (seed, colour), style in zip(_colours(cells).items(), ("-", "--", ":"), strict=False):
        far = next(c.gap for c in cells if c.seed == seed)
        label = rf"$\|\hat a-a^*\|_\infty/(\alpha\beta)$, seed {seed}"
        ax.plot(ends, far / ends, color=colour, ls=style, lw=1.3, label=label)
    ax.plot([], [], "o", color="0.3", label="$t_2$")
    ax.plot([], [], "o", color="0.3", mfc="none", label="$t_2$, error above $10^{-3}$")
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha\beta$", ylabel="steps")
    af.plot.legend_below(ax)


def _draw_errors(ax: Axes, cells: Sequence[Recovery]) -> None:
    """‖a − a*‖₁/n at the end over αβ."""
    n = len(cells[0].run.data.truth)
    for (seed, colour), (alpha, marker) in itertools.product(_colours(cells).items(), _markers(cells).items()):
        here = [c for c in cells if (c.seed, c.alpha) == (seed, alpha)]
        look = {"marker": marker, "ls": "", "color": colour, "ms": 6, "mfc": "none"}
        ax.plot([c.product for c in here], [c.distance / n for c in here], **look)
    for alpha, marker in _markers(cells).items():
        label = rf"$\alpha={af.plot.mathtext(alpha)}$"
        ax.plot([], [], marker=marker, ls="", color="0.3", mfc="none", label=label)
    for seed, colour in _colours(cells).items():
        ax.plot([], [], marker="_", ls="", ms=12, mew=3, color=colour, label=f"seed {seed}")
    ends, low = _ends(cells), min(c.distance / c.product for c in cells)
    ax.plot(ends, 0.5 * low / n * ends, color="k", ls=":", lw=1.3, label=r"slope of $\alpha\beta$")
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha\beta$", ylabel=r"$\|a-a^*\|_1/n$ at the end")
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
