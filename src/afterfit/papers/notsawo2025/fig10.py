"""Figs 10 and 31–33: a ReLU student of a ReLU teacher groks under L1, L2 and nuclear norm penalties."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once, passing
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

__all__ = ["Fig10"]


class _Grid(NamedTuple):
    """Steps α, strengths β, how many steps are made, and seeds. The first α and β are those looked at alone."""

    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    steps: int
    seeds: tuple[int, ...] = (7, 8, 9)  # the notebook draws teacher, data and student without a seed


# The notebook (TS, cells 9 to 17) has α = 1e-4, 5.5e-4, 1e-3, 5.5e-3, 1e-2, 5.5e-2, of which Fig. 10 shows the first,
# third and fourth, β = 1e-7, …, 1e-1 by decades, and 10⁶ steps for each. Here are those β whose t₂ comes in some
# thousand steps at some α. A step under the nuclear norm takes ten times as long: fewer steps, and draws. There were
# more of both at first; they were cut on other draws than these.
_GRIDS = {
    "paper": {
        "L1": _Grid((1e-3, 1e-4, 5.5e-3), (1e-3, 1e-1, 1e-2, 1e-4), 12_000),
        "L2": _Grid((5.5e-3, 1e-3, 1e-2), (1e-2, 1e-1), 9_000),
        "nuclear": _Grid((5.5e-3, 1e-3, 1e-2), (1e-2, 1e-1), 4_000, (7, 8)),
        "decay": _Grid((5.5e-3,), (1e-2, 1e-1, 1e-3), 8_000),
    },
    "quick": {
        "L1": _Grid((5.5e-3, 1e-2), (1e-3, 1e-1, 1e-2), 2_800),
        "L2": _Grid((5.5e-3, 1e-2), (1e-2, 1e-1), 2_500),
        "nuclear": _Grid((5.5e-3, 1e-2), (1e-2, 1e-1), 1_200, (7, 8)),
        "decay": _Grid((5.5e-3,), (1e-2, 1e-1), 2_000),
    },
}


class Fig10(Entry):
    paper, name = PAPER, "fig10"
    title = "A student of a ReLU teacher generalises the later, the weaker its L1, L2 or nuclear norm penalty"
    where = "Figs 10, 31, 32 and 33, §4, H.3.2"
    about = (
        "A teacher B* ReLU(A*x) with (d, r, c) = (100, 500, 2) and x, A*, rB* ~ N(0, 1) labels N = 100 examples; a "
        "student B ReLU(Ax) of the same shape, from entries of N(0, 1/500) in A and N(0, 1/2) in B, is trained on "
        "(1/2N) Σ ‖f − y‖² by Adam with step α, with β times a penalty added to the loss: Σ|θᵢ| (Figs 10, 31), the "
        "Frobenius norms of A and of B, not squared (Fig. 32), or their nuclear norms (Fig. 33). This is the authors' "
        "notebook; the text says ℓ₂ for the second and calls it weight decay elsewhere, and ½‖θ‖² is run as well. t₁ "
        "is the first step with a relative training error of 0.2, t₂ that with a relative test error of 0.95, less "
        "than the 1 of f = 0. The notebook has for t₂ the step at which the test loss is smallest, of all that are "
        "shown; that at which it is 5/4 of this is asked as well. The text has neither. The notebook goes on for 10⁶ "
        "steps, for β down to 10⁻⁷; here are the β for which t₂ comes within 12 000 steps at some α (Frobenius 9000, "
        "nuclear 4000), on three draws (nuclear two)."
    )
    notes = (
        "(1) The student starts with a test error of many times that of f = 0. Fitting the data takes from it what "
        "is seen of that in the data, and the rest is the test error of the memorising student; what the penalty does "
        "then is to take the rest away. (2) After "
        "its least value the test error rises, and a strong penalty goes on to bring weights to 0, f = 0 with all of "
        "them. So the smallest test loss is at a step of its own; where the loss stays level after its fall, it is at "
        "any step. (3) Adam divides a gradient by the root of the mean of its squares: t₂ need not go like 1/(αβ), and "
        "does not. Why its exponents are what they are was not looked into."
    )

    def runs(self, scale: str) -> dict[str, dict[At, af.Experiment]]:
        groups = {name: _grid(scale, name) for name in _GRIDS[scale]}
        (α, *_), (β, *_), _, seeds = _GRIDS[scale]["L1"]
        alone = {At("L1", α, β, seed): groups["L1"][At("L1", α, β, seed)] for seed in seeds}
        groups["L1"] |= {at: dataclasses.replace(experiment, checkpoints=60) for at, experiment in alone.items()}
        free = {At("none", α, 0.0, at.seed): run.set({"penalty.strength": 0.0}) for at, run in alone.items()}
        return {**groups, "free": free}

    def picture(self, l1: _Cells, l2: _Cells, nuclear_norm: _Cells) -> Figure:
        columns = 1 + len({c.alpha for c in l1})  # as many α of each penalty
        figure = af.plot.Figure(figsize=(4 * columns, 12.5), layout="constrained")
        panels = figure.subplots(3, columns)
        for row, (name, cells) in zip(panels, _named(l1, l2, nuclear_norm).items(), strict=True):
            first = [c for c in cells if c.seed == cells[0].seed]
            for ax, alpha in zip(row[:-1], sorted({c.alpha for c in first}), strict=True):
                here = [c for c in first if c.alpha == alpha]
                draw_curves(ax, here)
                ax.set_title(rf"{name}, $\alpha={af.plot.mathtext(alpha)}$", fontsize="medium", pad=18)
                if first[0] in here:
                    af.plot.mark_phases(ax, in_steps(first[0]))
            draw_times(row[-1], cells)
            row[-1].set_title(f"{name}, {len({c.seed for c in cells})} draws", fontsize="medium", pad=18)
            af.plot.legend_below(*row[:-1], ncols=3)
            af.plot.legend_below(row[-1])
        return figure

    @once
    def l1(self, L1: _Runs) -> _Cells:
        return [Student.of(run) for run in L1.values()]

    @once
    def l2(self, L2: _Runs) -> _Cells:
        return [Student.of(run) for run in L2.values()]

    @once
    def nuclear_norm(self, nuclear: _Runs) -> _Cells:
        return [Student.of(run) for run in nuclear.values()]

    @once
    def alone(self, l1: _Cells) -> _Cells:
        """The run of each draw that is looked at by itself."""
        return [c for c in l1 if (c.alpha, c.beta) == (l1[0].alpha, l1[0].beta)]

    @claim(
        "under L1 it memorises, and generalises ten times as many steps later or more",
        says="delay between memorisation and generalisation (Fig. 10)",
    )
    def groks(self, alone: _Cells) -> Finding:
        return fits_first(alone)

    @control(groks, "β = 0")
    def memorises_for_good(self, free: _Runs) -> Finding:
        return fits_first([Student.of(run) for run in free.values()])

    @claim(
        "L1: of runs that memorise, the smaller αβ, the longer the delay",
        says="the smaller αβ, the longer the delay (Figs 10, 31)",
    )
    def order_l1(self, l1: _Cells) -> Finding:
        return delays_in_order(l1)

    @control(order_l1, "t₁ in place of the delay")
    def no_order_of_fits_l1(self, l1: _Cells) -> Finding:
        return delays_in_order(l1, lambda c: c.t1)

    @claim(
        "L2, the Frobenius norms: of runs that memorise, the smaller αβ, the longer the delay",
        says="the smaller αβ, the longer the delay (Fig. 32)",
        fails={
            "paper": "On draw 9 fewer pairs are in order than the nine in ten that are asked for on every draw: with "
            "the same β α = 0.01 takes longer than 0.0055 there."
        },
    )
    def order_l2(self, l2: _Cells) -> Finding:
        return delays_in_order(l2)

    @passing(order_l2, "the two of these draws on which all pairs are in order")
    def order_l2_of_two(self, l2: _Cells) -> Finding:
        return delays_in_order([c for c in l2 if c.seed in (7, 8)])

    @control(order_l2, "the same delays with the order of β reversed")
    def no_reversed_order_l2(self, l2: _Cells) -> Finding:
        return delays_in_order(reversed_strengths(l2))

    @claim(
        "nuclear norm: of runs that memorise, the smaller αβ, the longer the delay",
        says="the smaller αβ, the longer the delay (Fig. 33)",
    )
    def order_nuclear(self, nuclear_norm: _Cells) -> Finding:
        return delays_in_order(nuclear_norm)

    @control(order_nuclear, "the same delays with the order of β reversed")
    def no_reversed_order_nuclear(self, nuclear_norm: _Cells) -> Finding:
        return delays_in_order(reversed_strengths(nuclear_norm))

    @claim(
        "the same by a t₂ like the notebook's, the step at which the test loss is down, for all three penalties",
        says="the step of the smallest test loss is what the notebook draws",
        changed=CHANGED + "on draws 7 to 9, of the nuclear norm 7 and 8.",
    )
    def order_of_smallest(self, l1: _Cells, l2: _Cells, nuclear_norm: _Cells) -> Finding:
        found = {name: smallest_in_order(cells) for name, cells in _named(l1, l2, nuclear_norm).items()}
        return Finding(
            "; ".join(f"{name}: {finding.measured}" for name, finding in found.items()),
            all(finding.holds for finding in found.values()),
        )

    @control(order_of_smallest, "the same steps with the order of β reversed")
    def no_reversed_order_of_smallest(self, l1: _Cells, l2: _Cells, nuclear_norm: _Cells) -> Finding:
        return self.order_of_smallest(*map(reversed_strengths, (l1, l2, nuclear_norm)))

    @claim(
        "under Adam t₂ falls with α, and with β slower than 1/β",
        says="not in the paper, whose 1/(αβ) is for descent (Thm 2.1)",
    )
    def slower_than_inverse(self, l1: _Cells, l2: _Cells, nuclear_norm: _Cells) -> Finding:
        named = _named(l1, l2, nuclear_norm)
        return slower({name: exponents(cells, lambda c: c.t2) for name, cells in named.items()})

    @control(slower_than_inverse, "steps that are made up, 1/(αβ) with the scatter that was measured")
    def would_be_inverse(self, l1: _Cells, l2: _Cells, nuclear_norm: _Cells) -> Finding:
        named = _named(l1, l2, nuclear_norm)
        return slower({name: exponents(cells, inverse_times(cells)) for name, cells in named.items()})

    @claim(
        "the early fall of the test error, up to t₁, is one of the output's size: its best multiple gets no better",
        says="not in the paper, in whose figures the test loss falls at once",
    )
    def early_fall(self, alone: _Cells) -> Finding:
        return _fall_of_size([(c.run, c.t1) for c in alone])

    @control(early_fall, "up to t₂ in place of t₁")
    def late_fall(self, alone: _Cells) -> Finding:
        return _fall_of_size([(c.run, c.t2) for c in alone])

    @claim(
        "½‖θ‖², which the text's words for L2 would be: of runs that memorise, the smaller β, the longer the delay",
        says="ℓ₂ is weight decay in the text",
    )
    def order_decay(self, decay: _Runs) -> Finding:
        return delays_in_order([Student.of(run) for run in decay.values()])

    @control(order_decay, "the same delays with the order of β reversed")
    def no_reversed_order_decay(self, decay: _Runs) -> Finding:
        return delays_in_order(reversed_strengths([Student.of(run) for run in decay.values()]))


def _grid(scale: str, name: str) -> dict[At, af.Experiment]:
    """The runs of one penalty, on every draw."""
    kinds = {
        "L1": af.penalties.L1,
        "L2": af.penalties.Frobenius,
        "nuclear": af.penalties.Nuclear,
        "decay": af.penalties.L2,
    }
    grid = _GRIDS[scale][name]
    return {
        At(name, α, β, seed): student(SIZES[scale], kinds[name](β), α, grid.steps, seed)
        for seed, α, β in itertools.product(grid.seeds, grid.alphas, grid.betas)
    }


def _named(l1: _Cells, l2: _Cells, nuclear: _Cells) -> dict[str, _Cells]:
    return {"L1": l1, "L2": l2, "nuclear norm": nuclear}


def _fall_of_size(runs: list[tuple[af.Run, float]]) -> Finding:
    # The output times the factor that suits the test data best has the error √(1 − cos²), cos that between f and y. The
    # error falls by a fifth or more, and that of the best multiple by no more than 0.05.
    falls, better, words = [], [], []
    for run, step in runs:
        errors = [_errors(run, params) for params in (run.checkpoints[0], run.checkpoints.near(step * _alpha(run)))]
        (start, free_start), (end, free_end) = errors
        falls.append(1 - end / start)
        better.append(free_start - free_end)
        words.append(f"{start:.3g} to {end:.3g}, of the best multiple {free_start:.3f} to {free_end:.3f}")
    return Finding(
        f"relative test errors from the start to step {', '.join(f'{step:.3g}' for _, step in runs)}: "
        + "; ".join(words),
        min(falls) >= 0.2 and max(better) <= 0.05,
    )


def _alpha(run: af.Run) -> float:
    return run.spec["dynamics"]["lr"]


def _errors(run: af.Run, params: Any) -> tuple[float, float]:
    """‖f − y‖/‖y‖ on the test data, and the least ‖cf − y‖/‖y‖ of a multiple of f."""
    A, B = (layer["weight"] for layer in params["layers"])
    f, y = (np.maximum(run.data.test_inputs @ A.T, 0) @ B.T).ravel(), run.data.test_targets.ravel()
    cosine = f @ y / (np.linalg.norm(f) * np.linalg.norm(y))
    return float(np.linalg.norm(f - y) / np.linalg.norm(y)), float(np.sqrt(1 - cosine**2))
