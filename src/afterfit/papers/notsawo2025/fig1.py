"""Fig. 1: a net groks modular addition under ℓ₁, ℓ₂ and nuclear-norm penalties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers.notsawo2025 import PAPER
from afterfit.papers.notsawo2025.addition import (
    IN_WORDS,
    NORMS,
    SEEDS,
    SETTING,
    Cell,
    accuracy_fan,
    adam,
    earlier_with,
    in_steps,
    times,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Fig1"]

_LONG = {"paper": 8000, "quick": 2000}  # steps under ℓ₁ at its strongest, whose norms are followed
_CHECKPOINTS = 30  # at which the nuclear norm is computed
_CHANGE = 0.03  # by how much of itself a norm has to change to have risen or fallen: observed steps differ by less
_LATE = 10  # times t₁: one decade of the figure's axis, before which a net that groks is not half right
_CHANGED = (
    "The share of pairs in order had to be above one half by an interval as of independent pairs, which they are not; "
    "and at quick scale, with other strengths, 4 pairs of ℓ₁ and ℓ₂ were left on seeds 1 and 2, all in order and too "
    "few, and ℓ* moved to seeds 3 and 4 with them. Times are exchanged now, at quick scale the net is smaller with "
    "strengths further apart, and seeds are {seeds}."
).format(seeds=", ".join(map(str, SEEDS)))
_SAYS = "for all these regularisation techniques, the smaller αβ, the longer the delay (§2.1)"


class _Course(NamedTuple):
    """The ℓ₂ norm of the weights at the start, at its largest before 90 % of the test examples are right, at its least
    after that largest, at its largest after that least; and the least test accuracy from the latter on."""

    start: float
    peak: float
    trough: float
    later: float
    accuracy: float

    def __str__(self) -> str:
        return f"{self.start:.1f} → {self.peak:.1f} → {self.trough:.1f} → {self.later:.1f}"


class Fig1(Entry):
    paper, name = PAPER, "fig1"
    title = "A net groks modular addition under ℓ₁, ℓ₂ and nuclear norms, later for weaker ones"
    where = "Fig. 1, §2.1, App. H.3.1"
    about = (
        "A net is to learn x₁ + x₂ mod 97 from 40 % of all pairs: W₂ ReLU(W₁ vec(E₁⟨x₁⟩E₂⟨x₂⟩)), cross-entropy, Adam "
        "at α = 10⁻² with PyTorch's defaults, mini-batches of half the examples. The loss has a penalty β·Σ‖W‖ over "
        "the four weight matrices: the entries' absolute sum (ℓ₁), the Frobenius norm, not squared (ℓ₂), or the "
        "nuclear norm (ℓ*). This is the authors' notebook, with the larger of its strengths β, which the paper does "
        "not give: two tables of embeddings, 64-vectors that are multiplied as 8×8 matrices, no biases, and embeddings "
        "from PyTorch's uniform default. Of ℓ₂ two β are stronger than the notebook's largest, 5·10⁻⁵, with which no "
        "run generalised. t₁ and t₂ are the first steps with 99 % of the training and 90 % of the test examples "
        "right; the authors mark the first least error of the steps they show. These are 6090 for ℓ₁ and 4090 for the "
        "others; here 6090 for ℓ₁ (8000 with the largest β) and ℓ₂ and 5500 for ℓ*, each β on three draws."
    )
    notes = (
        "(1) The text has one table E, an undefined product ∘ (taken entrywise here), biases, and "
        "N(0, 1/n₁) for all weights. Such a net is symmetric: what it memorises of (x₁, x₂) it says of (x₂, x₁). Tried "
        "on seed 500 with ℓ₁, 40 % of the test pairs have their mirror image in the training data, 67 % (β = 10⁻⁶) and "
        "74 % (10⁻⁵) of all test pairs were right at t₁ = 75, and t₂ was 1011 and 176: with 10⁻⁵ the long delay "
        "of the figure is gone. (2) Too strong a penalty holds the net at 0: ℓ₂ with 10⁻³ on seed 500, norm 0.1 and "
        "training accuracy 1 % at the last step. (3) β of one norm is not β of another: the pull of ℓ₁ on a "
        "matrix of m entries has the "
        "length β√m, that of ℓ₂ has β. With m = 6208 the notebook's β = 5·10⁻⁵ of ℓ₂ is as 6·10⁻⁷ of ℓ₁."
    )

    def runs(self, scale: str) -> dict[str, dict[Cell, af.Experiment]]:
        setting = SETTING[scale]

        def descent(cell: Cell) -> af.Experiment:
            if cell.norm != "l1":
                return adam(setting, cell)
            longer = cell.β == max(setting.strengths["l1"])
            return adam(setting, cell, _LONG[scale] if longer else None, _CHECKPOINTS)

        cells = [
            Cell(norm, setting.lr, β, seed)
            for norm, strengths in setting.strengths.items()
            for seed in SEEDS
            for β in strengths
        ]
        free = [Cell("l1", setting.lr, 0.0, SEEDS[0])]
        return {"descents": {cell: descent(cell) for cell in cells}, "free": {cell: descent(cell) for cell in free}}

    def picture(self, descents: dict[Cell, af.Run], strongest: dict[str, list[af.Run]]) -> Figure:
        figure = af.plot.Figure(figsize=(14, 9), layout="constrained")
        top, bottom = figure.subplots(2, 3)
        for ax, (norm, symbol) in zip(top, NORMS.items(), strict=True):
            groups: dict[float, list[af.Run]] = {}
            for cell, run in descents.items():
                if cell.norm == norm:
                    groups.setdefault(cell.β, []).append(run)
            accuracy_fan(ax, groups, r"\beta")
            af.plot.mark_phases(ax, in_steps(groups[max(groups)][0]))
            ax.set_title(f"penalty {symbol}: training (dashed), test (solid)", fontsize="medium", pad=18)
            af.plot.legend_below(ax, ncols=3)
        _draw_norms(bottom, strongest["l1"])
        return figure

    @once
    def strongest(self, descents: dict[Cell, af.Run]) -> dict[str, list[af.Run]]:
        """The runs with the largest β, by norm."""
        largest = {norm: max(c.β for c in descents if c.norm == norm) for norm in NORMS}
        return {norm: [run for c, run in descents.items() if (c.norm, c.β) == (norm, β)] for norm, β in largest.items()}

    @claim("under each norm the net groks", says="ℓ₁ and ℓ* have the same effect on grokking as ℓ₂ (§2.1)")
    def groks(self, descents: dict[Cell, af.Run]) -> Finding:
        return _groks(descents)

    @control(groks, "β = 0")
    def never_groks(self, free: dict[Cell, af.Run]) -> Finding:
        return _groks(free)

    @claim("ℓ₁: smaller β, later generalisation", says=_SAYS, changed=_CHANGED)
    def weaker_l1_is_later(self, descents: dict[Cell, af.Run]) -> Finding:
        return _weaker_is_later(descents, "l1")

    @control(weaker_l1_is_later, "t₁, when the data are fitted")
    def weaker_l1_fits_later(self, descents: dict[Cell, af.Run]) -> Finding:
        return _weaker_fits_later(descents, "l1")

    @control(weaker_l1_is_later, "the seed's number in place of β")
    def lower_l1_seed_is_later(self, descents: dict[Cell, af.Run]) -> Finding:
        return _lower_seed_is_later(descents, "l1")

    @claim("ℓ₂: smaller β, later generalisation", says=_SAYS, changed=_CHANGED)
    def weaker_l2_is_later(self, descents: dict[Cell, af.Run]) -> Finding:
        return _weaker_is_later(descents, "l2")

    @control(weaker_l2_is_later, "t₁, when the data are fitted")
    def weaker_l2_fits_later(self, descents: dict[Cell, af.Run]) -> Finding:
        return _weaker_fits_later(descents, "l2")

    @control(weaker_l2_is_later, "the seed's number in place of β")
    def lower_l2_seed_is_later(self, descents: dict[Cell, af.Run]) -> Finding:
        return _lower_seed_is_later(descents, "l2")

    @claim("ℓ*: smaller β, later generalisation", says=_SAYS, changed=_CHANGED)
    def weaker_nuclear_is_later(self, descents: dict[Cell, af.Run]) -> Finding:
        return _weaker_is_later(descents, "nuc")

    @control(weaker_nuclear_is_later, "t₁, when the data are fitted")
    def weaker_nuclear_fits_later(self, descents: dict[Cell, af.Run]) -> Finding:
        return _weaker_fits_later(descents, "nuc")

    @control(weaker_nuclear_is_later, "the seed's number in place of β")
    def lower_nuclear_seed_is_later(self, descents: dict[Cell, af.Run]) -> Finding:
        return _lower_seed_is_later(descents, "nuc")

    @claim(
        "under ℓ₁ the ℓ₂ norm rises, falls and rises again, and the net still generalises",
        says="in the absence of weight decay the ℓ₂ norm is not monotonic after memorisation, and even increases "
        "without harming generalisation (§2.1)",
    )
    def norm_turns_twice(self, strongest: dict[str, list[af.Run]]) -> Finding:
        return _turns_twice(strongest["l1"])

    @control(norm_turns_twice, "β = 0")
    def free_norm_turns(self, free: dict[Cell, af.Run]) -> Finding:
        return _turns_twice(free.values())

    @control(norm_turns_twice, "under ℓ₂")
    def decayed_norm_turns(self, strongest: dict[str, list[af.Run]]) -> Finding:
        return _turns_twice(strongest["l2"])

    @claim(
        "of nets that grok under ℓ₁ the ℓ₂ norm falls from 10 t₁, when they are below half, to t₂",
        says="“The ℓ₂ norm increases despite generalization” (caption)",
        changed="The caption was asked of the strongest β, from a tenth to nine tenths of the test examples, on seeds "
        "11 to 13 at quick scale, where the norm rose by 28, 172 and 14 %, and the claim was dropped. In pilots (seeds "
        "210 to 212) nets with the strongest β had a tenth right before they fitted, on the norm's first rise. It is "
        "asked of nets that grok, from 10 t₁ on, on seeds "
        f"{', '.join(map(str, SEEDS))}.",
    )
    def norm_falls_across(self, descents: dict[Cell, af.Run]) -> Finding:
        return _falls(descents, _across)

    @control(norm_falls_across, "from the start to t₁")
    def norm_falls_at_first(self, descents: dict[Cell, af.Run]) -> Finding:
        return _falls(descents, lambda run: (0, int(np.searchsorted(run.curves["step"].values, times(run).fit))))


def _weaker_is_later(descents: dict[Cell, af.Run], norm: str) -> Finding:
    """Whether of runs of one seed those with smaller β generalise later."""
    found = {c: times(run).general for c, run in descents.items() if c.norm == norm}
    order = earlier_with((c.β, c.seed, t) for c, t in found.items())
    words = [
        f"{β:.0e}: " + ", ".join(f"{t:.0f}" if t < np.inf else "never" for c, t in found.items() if c.β == β)
        for β in dict.fromkeys(c.β for c in found)
    ]
    return Finding(f"{order.measured}; t₂ by β and seed: {'; '.join(words)}", order.holds)


def _weaker_fits_later(descents: dict[Cell, af.Run], norm: str) -> Finding:
    return earlier_with((c.β, c.seed, times(run).fit) for c, run in descents.items() if c.norm == norm)


def _lower_seed_is_later(descents: dict[Cell, af.Run], norm: str) -> Finding:
    return earlier_with((c.seed, c.β, times(run).general) for c, run in descents.items() if c.norm == norm)


def _is_late(run: af.Run) -> bool:
    """Whether a run fits, is below half of the test examples ten times as late, and generalises after that."""
    t, accuracy = times(run), run.curves["test_accuracy"].values
    half = float(run.curves["step"].values[np.argmax(accuracy >= 0.5)])
    return bool(t.general < np.inf and half >= _LATE * t.fit)


def _groks(runs: dict[Cell, af.Run]) -> Finding:
    """Whether under each norm some run generalises late."""
    found: dict[str, list[float]] = {c.norm: [] for c in runs}
    for cell, run in runs.items():
        found[cell.norm] += [times(run).general / times(run).fit] if _is_late(run) else []
    of = {norm: sum(c.norm == norm for c in runs) for norm in found}
    words = [
        f"{IN_WORDS[norm]}: {len(each)} of {of[norm]} runs"
        + (f", t₂/t₁ from {min(each):.0f} to {max(each):.0f}" if each else "")
        for norm, each in found.items()
    ]
    return Finding("; ".join(words), all(found.values()))


def _across(run: af.Run) -> tuple[int, int]:
    """The first observation at ten times t₁ or later, and the first with 90 % of the test examples right."""
    late = np.searchsorted(run.curves["step"].values, _LATE * times(run).fit)
    return int(late), int(np.argmax(run.curves["test_accuracy"].values >= 0.9))


def _falls(descents: dict[Cell, af.Run], between: Callable[[af.Run], tuple[int, int]]) -> Finding:
    """Whether between two observations the ℓ₂ norm falls by 3 % or more, of every run under ℓ₁ that groks."""
    changes = []
    for cell, run in descents.items():
        if cell.norm == "l1" and _is_late(run):
            since, until = (float(run.curves["norm_l2"].values[k]) for k in between(run))
            changes.append(until / since - 1)
    words = ", ".join(f"{change:+.0%}".replace("-", "−") for change in changes)
    return Finding(f"{len(changes)} runs: {words}", bool(changes) and max(changes) <= -_CHANGE)


def _course(run: af.Run) -> _Course:
    curves = run.curves
    norm, accuracy = curves["norm_l2"].values, curves["test_accuracy"].values
    (general,) = np.nonzero(accuracy >= 0.9)
    before = int(general[0]) if len(general) else len(norm) - 1
    peak = int(np.argmax(norm[: before + 1]))
    trough = peak + int(np.argmin(norm[peak:]))
    later = trough + int(np.argmax(norm[trough:]))
    return _Course(norm[0], norm[peak], norm[trough], norm[later], float(accuracy[later:].min()))


def _turns_twice(runs: Iterable[af.Run]) -> Finding:
    """Whether the norm rises, falls and rises by 3 % of itself or more in every run, with 90 % right at the end."""
    courses = [_course(run) for run in runs]
    turned = [
        c.peak >= (1 + _CHANGE) * c.start
        and c.trough <= (1 - _CHANGE) * c.peak
        and c.later >= (1 + _CHANGE) * c.trough
        and c.accuracy >= 0.9
        for c in courses
    ]
    accuracy = min(c.accuracy for c in courses)
    return Finding(
        f"{sum(turned)} of {len(courses)} runs: {'; '.join(map(str, courses))}; at least {accuracy:.1%} of test "
        "examples right from the last on",
        all(turned),
    )


def _draw_norms(axes: Iterable[Axes], runs: Sequence[af.Run]) -> None:
    """The three norms along the runs under ℓ₁, the band over seeds, with the phases of the first."""
    first = runs[0]
    kept = np.array(first.checkpoints.steps)
    spectra = [[_nuclear(params) for params in run.checkpoints] for run in runs]
    steps = first.curves["step"].values
    shown = {
        "l1": (steps[1:], [run.curves["norm_l1"].values[1:] for run in runs]),
        "l2": (steps[1:], [run.curves["norm_l2"].values[1:] for run in runs]),
        "nuc": (kept[kept > 0], [np.array(each)[kept > 0] for each in spectra]),
    }
    for k, (ax, (norm, (at, values))) in enumerate(zip(axes, shown.items(), strict=True)):
        values = np.array(values)
        ax.fill_between(at, values.min(axis=0), values.max(axis=0), color="#0072B2", alpha=0.25, lw=0)
        ax.plot(at, np.median(values, axis=0), color="#0072B2", lw=1.8)
        ax.set(xscale="log", xlabel="training step", ylabel=f"{NORMS[norm]} norm of the weights", ylim=(0, None))
        strength = af.plot.mathtext(first.spec["penalty"]["strength"])
        af.plot.mark_phases(ax, in_steps(first), label=k == 0)
        ax.set_title(rf"under $\ell_1$, $\beta={strength}$, {len(runs)} seeds", fontsize="medium", pad=18)


def _nuclear(params: Mapping[str, np.ndarray]) -> float:
    """The sum of the nuclear norms of all weights."""
    return float(sum(np.linalg.svd(W, compute_uv=False).sum() for W in params.values()))
