"""Figs 11 and 34: a ReLU student of a ReLU teacher groks under a Sobolev penalty."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers._measure import at
from afterfit.papers.notsawo2025 import PAPER
from afterfit.papers.notsawo2025.teacher import (
    CHANGED,
    SIZES,
    At,
    Student,
    delays_in_order,
    draw_curves,
    draw_times,
    exponents,
    fits_first,
    in_steps,
    inverse_times,
    reversed_strengths,
    slower,
    smallest_in_order,
    student,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    _Runs = Mapping[At, af.Run]
    _Cells = list[Student]

__all__ = ["Fig11"]

# The notebook (SOB, cells 9 to 17) has α = 1e-4, 5.5e-4, 1e-3, 5.5e-3, 1e-2, 5.5e-2, β = 1e-7, …, 1e-1 by decades, and
# 10⁵ steps for each. Here are those whose t₂ comes in some thousand steps.
_ALPHAS = {"paper": (5.5e-3, 1e-3, 1e-2), "quick": (5.5e-3, 1e-2)}
_BETAS = (1e-2, 1e-1, 1e-3)
_STEPS = {"paper": 5_000, "quick": 3_500}
_STRONGER = {"paper": (1e-1, 1.0, 1e-2), "quick": (1e-1, 1.0)}  # β of the text's penalty, which takes longer
_SEEDS = {"paper": (10, 11, 12), "quick": (7, 8, 9)}  # the notebook draws teacher, data and student without a seed


class Fig11(Entry):
    paper, name = PAPER, "fig11"
    title = "A student that is shown its teacher's slopes generalises the sooner, the more they count"
    where = "Figs 11 and 34, §4, H.3.3"
    about = (
        "The teacher and student of Fig. 10, with the slopes ∂y*/∂x of the teacher at the training inputs: added to "
        "the loss is β‖J − J*‖_F, of the slopes of the student and the teacher at all N inputs together. This is the "
        "authors' notebook, which makes the figure. The text has β/N Σ ‖Jᵢ − Jᵢ*‖_F², and in (125) 1/N for the 1/2N of "
        "the loss; that is run as well. t₁ and t₂ are those of Fig. 10. The notebook goes on for 10⁵ steps, for β down "
        "to 10⁻⁷; here are those α and β for which t₂ comes within 5000 steps, or nearly so, on three draws."
    )
    notes = (
        "The notebook's penalty pulls with a force of β however small the differences are, the text's with "
        "2β‖J − J*‖_F/N, which is larger than β at the start, where ‖J − J*‖_F ≈ √(cdN/4) is 71 at N = d = 100 (14 at "
        "20), and smaller once it is below N/2. With the same β the text's takes longer, and a stronger one shows the "
        "same. Slopes say 2d numbers more of the teacher for each example."
    )

    def runs(self, scale: str) -> dict[str, dict[At, af.Experiment]]:
        def sobolev(α: float, β: float, seed: int, form: str = "norm") -> af.Experiment:
            return student(SIZES[scale], af.penalties.Sobolev(β, form=form), α, _STEPS[scale], seed)

        alphas = _ALPHAS[scale]
        grid = {
            At("Sobolev", α, β, seed): sobolev(α, β, seed)
            for seed in _SEEDS[scale]
            for α, β in itertools.product(alphas, _BETAS)
        }
        text = {
            At("text", alphas[0], β, seed): sobolev(alphas[0], β, seed, "mean_square").set({"task.reduction": "mean"})
            for seed, β in itertools.product(_SEEDS[scale], _STRONGER[scale])
        }
        free = {At("none", alphas[0], 0.0, seed): sobolev(alphas[0], 0.0, seed) for seed in _SEEDS[scale]}
        return {"grid": grid, "text": text, "free": free}

    def picture(self, cells: _Cells, as_printed: _Cells) -> Figure:
        first = [c for c in cells if c.seed == cells[0].seed]
        figure = af.plot.Figure(figsize=(13.5, 9.5), layout="constrained")
        above, (printed, times, printed_times) = figure.subplots(2, 3)
        alphas = sorted({c.alpha for c in first})
        for ax in above[len(alphas) :]:
            ax.remove()
        for ax, alpha in zip(above, alphas, strict=False):
            here = [c for c in first if c.alpha == alpha]
            draw_curves(ax, here)
            ax.set_title(rf"notebook, $\alpha={af.plot.mathtext(alpha)}$", fontsize="medium", pad=18)
            if first[0] in here:
                af.plot.mark_phases(ax, in_steps(first[0]))
        draw_curves(printed, [c for c in as_printed if c.seed == first[0].seed])
        printed.set_title(rf"text, $\alpha={af.plot.mathtext(as_printed[0].alpha)}$", fontsize="medium", pad=18)
        for ax, of, name in ((times, cells, "notebook"), (printed_times, as_printed, "text")):
            draw_times(ax, of)
            ax.set_title(f"{name}, {len({c.seed for c in of})} draws", fontsize="medium", pad=18)
        af.plot.legend_below(*above[: len(alphas)], printed, ncols=3)
        af.plot.legend_below(times, printed_times)
        return figure

    @once
    def cells(self, grid: _Runs) -> _Cells:
        return [Student.of(run) for run in grid.values()]

    @once
    def as_printed(self, text: _Runs) -> _Cells:
        """The runs with the penalty and the loss of (125)."""
        return [Student.of(run) for run in text.values()]

    @once
    def alone(self, cells: _Cells) -> _Cells:
        """The run of each draw that is looked at by itself."""
        return [c for c in cells if (c.alpha, c.beta) == (cells[0].alpha, cells[0].beta)]

    @claim(
        "it memorises, and generalises ten times as many steps later or more",
        says="delay between memorisation and generalisation (Fig. 34)",
    )
    def groks(self, alone: _Cells) -> Finding:
        return fits_first(alone)

    @control(groks, "β = 0")
    def memorises_for_good(self, free: _Runs) -> Finding:
        return fits_first([Student.of(run) for run in free.values()])

    @claim(
        "of runs that memorise, the larger αβ, the faster the grokking",
        says="large αβ values lead to faster grokking (Figs 11, 34)",
    )
    def order(self, cells: _Cells) -> Finding:
        return delays_in_order(cells)

    @control(order, "t₁ in place of the delay")
    def no_order_of_fits(self, cells: _Cells) -> Finding:
        return delays_in_order(cells, lambda c: c.t1)

    @claim(
        "the same by a t₂ like the notebook's, the step at which the test loss is down",
        says="the step of the smallest test loss is what the notebook draws",
        changed=CHANGED + "at quick scale on draws 7 to 9, at paper scale on 10 to 12.",
    )
    def order_of_smallest(self, cells: _Cells) -> Finding:
        return smallest_in_order(cells)

    @control(order_of_smallest, "the same steps with the order of β reversed")
    def no_reversed_order_of_smallest(self, cells: _Cells) -> Finding:
        return smallest_in_order(reversed_strengths(cells))

    @claim(
        "a student that memorises is left with more than half of the differences of slopes at the start, and with less "
        "than half at the end",
        says="the model not only fits the data but also respects known smoothness constraints",
    )
    def slopes_are_left(self, alone: _Cells) -> Finding:
        return _slopes_left(alone, lambda c: c.t1)

    @control(slopes_are_left, "t₂ in place of t₁")
    def slopes_are_gone(self, alone: _Cells) -> Finding:
        return _slopes_left(alone, lambda c: c.t2)

    @claim(
        "under Adam t₂ falls with α, and with β slower than 1/β",
        says="not in the paper, whose 1/(αβ) is for descent (Thm 2.1)",
    )
    def slower_than_inverse(self, cells: _Cells) -> Finding:
        return slower({"Sobolev": exponents(cells, lambda c: c.t2)})

    @control(slower_than_inverse, "steps that are made up, 1/(αβ) with the scatter that was measured")
    def would_be_inverse(self, cells: _Cells) -> Finding:
        return slower({"Sobolev": exponents(cells, inverse_times(cells))})

    @claim(
        "with the penalty and the loss of the text: of runs that memorise, the larger β, the faster the grokking",
        says="β/N Σ ‖∂y/∂x − ∂y*/∂x‖_F², with 1/N before the loss (125)",
    )
    def order_as_printed(self, as_printed: _Cells) -> Finding:
        return delays_in_order(as_printed)

    @control(order_as_printed, "the same delays with the order of β reversed")
    def no_reversed_order_as_printed(self, as_printed: _Cells) -> Finding:
        return delays_in_order(reversed_strengths(as_printed))

    @claim(
        "with the same α and β the text's penalty takes longer than the notebook's",
        says="not in the paper, which has the one in its text and the other in its figures",
    )
    def text_takes_longer(self, cells: _Cells, as_printed: _Cells) -> Finding:
        return _longer(as_printed, cells)

    @control(text_takes_longer, "the two exchanged")
    def notebook_takes_longer(self, cells: _Cells, as_printed: _Cells) -> Finding:
        return _longer(cells, as_printed)


def _slopes_left(cells: Sequence[Student], fitted: Callable[[Student], float]) -> Finding:
    # Of ‖J − J*‖_F, which is the penalty.
    def part(c: Student, step: float) -> float:
        return float(at(c.run, "penalty", c.alpha * step) / c.run.curves["penalty"].values[0])

    parts = [(part(c, fitted(c)), part(c, np.inf)) for c in cells]
    words = ", ".join(f"{memorised:.2f} and {end:.2f}" for memorised, end in parts)
    when = ", ".join(f"{fitted(c):.3g}" for c in cells)
    return Finding(
        f"of ‖J − J*‖_F at the start is left, at step {when} and at the end: {words}",
        all(memorised > 0.5 > end for memorised, end in parts),
    )


def _longer(cells: Sequence[Student], than: Sequence[Student]) -> Finding:
    # Of every pair of which one of the two comes; one that does not come takes longer.
    others = {(c.alpha, c.beta, c.seed): c.t2 for c in than}
    pairs = [(c, others[c.alpha, c.beta, c.seed]) for c in cells if (c.alpha, c.beta, c.seed) in others]
    decided = [(c, other) for c, other in pairs if min(c.t2, other) < np.inf]
    words = ", ".join(f"{c.t2:.3g} beside {other:.3g} (β = {c.beta:.0e}, seed {c.seed})" for c, other in decided)
    return Finding(f"t₂: {words}", bool(decided) and all(c.t2 > other for c, other in decided))
