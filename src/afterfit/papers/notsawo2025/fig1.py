"""Fig. 1: a net groks modular addition under ℓ₁, ℓ₂ and nuclear-norm penalties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, passing
from afterfit.papers.notsawo2025 import PAPER
from afterfit.papers.notsawo2025.addition import (
    IN_WORDS,
    NORMS,
    SEEDS,
    SETTING,
    Cell,
    accuracy_fan,
    adam,
    adam_of_the_text,
    earlier_with,
    in_steps,
    times,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Fig1"]

_LONG = {"paper": 8000, "quick": 1200}  # steps of the runs whose norms are followed, ℓ₁ at its strongest
_CHECKPOINTS = 30  # at which the nuclear norm is computed
_FRESH = (34, 35, 36)  # seeds of the runs whose norms are followed
_CHANGE = 0.03  # by how much of itself a norm has to change to have risen or fallen: observed steps differ by less
_SHORTER = 3  # by how many times the delay of the text's net is shorter, or more
_TEXT = {"paper": ((1e-5, 1e-6), 3000), "quick": ((1e-4, 3e-5), 200)}  # β and steps of the text's net
_DECAY = 5e-5  # β of the text's weight decay: the largest of the notebook's for ℓ₂
_DECAYING = {"paper": 6090, "quick": 1500}  # steps under it
_LATE = 10  # times t₁: one decade of the figure's axis, before which a net that groks is not half right
_CHANGED = (
    "The share of pairs in order had to be above one half by an interval as of independent pairs, which they are not; "
    "and at quick scale, with other strengths, 4 pairs of ℓ₁ and ℓ₂ were left on seeds 1 and 2, all in order and too "
    "few, and ℓ* moved to seeds 3 and 4 with them. Times are exchanged now, at quick scale the net is smaller with "
    "strengths further apart, and seeds are {seeds}."
).format(seeds=", ".join(map(str, SEEDS)))
_SAYS = "for all these regularisation techniques, the smaller αβ, the longer the delay (§2.1)"


class _Course(NamedTuple):
    """The ℓ₂ norm of the weights at the start, at its largest before t₂, at t₂, at its least after that largest, at its
    largest after that least; the steps of the three in the middle; and the least test accuracy from the last on."""

    start: float
    peak: float
    general: float
    trough: float
    later: float
    steps: tuple[int, int, int]
    accuracy: float

    def __str__(self) -> str:
        middle = zip((self.peak, self.general, self.trough), self.steps, strict=True)
        return " → ".join(
            [f"{self.start:.1f}", *(f"{norm:.1f} (step {step})" for norm, step in middle), f"{self.later:.1f}"]
        )


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
        "from PyTorch's uniform default; but its two batches an epoch are of 2048 and 1715 examples, and here of 1881. "
        "Of ℓ₂ two β are stronger than the notebook's largest, 5·10⁻⁵. The text has another net, with one table E, an "
        "undefined product ∘ (taken entrywise here), biases, and N(0, 1/n₁) for all weights, and its ℓ₂ is weight "
        "decay: that net is run under ℓ₁, and the notebook's net with β/2 ‖θ‖² at that largest β. t₁ and t₂ are the "
        "first steps with 99 % of the training and 90 % of the test examples right; the authors mark the first least "
        "error of the steps they show. These are 6090 for ℓ₁ and 4090 for the others; here 6090 for ℓ₁ and ℓ₂, 5500 "
        "for ℓ* and 3000 for the text's net, each β on three draws. Norms are followed on three others, with the "
        "largest β of ℓ₁, for 8000 steps."
    )
    notes = (
        "(1) The text's net is symmetric: what it memorises of (x₁, x₂) it says of (x₂, x₁), and 40 % of the test "
        "pairs have their mirror image in the training data. (2) Too strong a penalty holds the net at 0: ℓ₂ with 10⁻³ "
        "at paper scale on seed 500, norm 0.1 and training accuracy 1 % at the last step. (3) β of one norm is not β "
        "of another: the pull of ℓ₁ on a matrix of m entries has the length β√m, that of ℓ₂ has β, that of β/2 ‖θ‖² "
        "has β‖W‖. With m = 6208 the notebook's β = 5·10⁻⁵ of ℓ₂ is as 6·10⁻⁷ of ℓ₁."
    )

    def runs(self, scale: str) -> dict[str, dict[Cell, af.Experiment]]:
        setting = SETTING[scale]

        cells = [
            Cell(norm, setting.lr, β, seed)
            for norm, strengths in setting.strengths.items()
            for seed in SEEDS
            for β in strengths
        ]
        followed = [Cell("l1", setting.lr, max(setting.strengths["l1"]), seed) for seed in _FRESH]
        strengths, steps = _TEXT[scale]
        text = [Cell("l1", setting.lr, β, seed) for seed in SEEDS for β in strengths]
        decay = [Cell("decay", setting.lr, _DECAY, seed) for seed in SEEDS]
        free = Cell("l1", setting.lr, 0.0, SEEDS[0])
        return {
            "descents": {cell: adam(setting, cell) for cell in cells},
            "followed": {cell: adam(setting, cell, _LONG[scale], _CHECKPOINTS) for cell in followed},
            "text": {c._replace(norm="text"): adam_of_the_text(setting, c, steps) for c in text},
            "decay": {cell: adam(setting, cell, _DECAYING[scale]) for cell in decay},
            "free": {free: adam(setting, free)},
        }

    def picture(self, descents: dict[Cell, af.Run], followed: dict[Cell, af.Run]) -> Figure:
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
        _draw_norms(bottom, list(followed.values()))
        return figure

    @claim("under each norm some run groks", says="ℓ₁ and ℓ* have the same effect on grokking as ℓ₂ (§2.1)")
    def groks(self, descents: dict[Cell, af.Run]) -> Finding:
        return _groks(descents)

    @control(groks, "β = 0")
    def never_groks(self, free: dict[Cell, af.Run]) -> Finding:
        return _groks(free)

    @claim(
        "½‖θ‖², the text's weight decay: every run groks with β = 5·10⁻⁵, the largest of the notebook's for ℓ₂",
        says="ℓ₂ is weight decay in the text (§2.1), β‖W‖ in the notebook",
        fails={"quick": "On one draw of three, seed 31, it does not generalise within the steps that are made."},
    )
    def decay_groks(self, decay: dict[Cell, af.Run]) -> Finding:
        return _all_grok(decay.values())

    @control(decay_groks, "β‖W‖ with this β, at quick scale with a larger one")
    def weakest_norm_groks(self, descents: dict[Cell, af.Run]) -> Finding:
        weakest = min(c.β for c in descents if c.norm == "l2")
        return _all_grok(run for c, run in descents.items() if (c.norm, c.β) == ("l2", weakest))

    @passing(decay_groks, "the two other draws")
    def two_decay_and_grok(self, decay: dict[Cell, af.Run]) -> Finding:
        return _all_grok(run for cell, run in decay.items() if cell.seed != SEEDS[0])

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
        "under ℓ₁ the ℓ₂ norm rises, falls, by t₂ already, and rises again, and the net still generalises",
        says="in the absence of weight decay the ℓ₂ norm is not monotonic after memorisation, and even increases "
        "without harming generalisation (§2.1)",
        changed="That it has fallen by t₂ was not asked for: a fall wholly after t₂ would have passed, on seeds 31 to "
        f"33. It is asked now, on seeds {', '.join(map(str, _FRESH))}.",
    )
    def norm_turns_twice(self, followed: dict[Cell, af.Run]) -> Finding:
        return _turns_twice(followed.values())

    @control(norm_turns_twice, "β = 0")
    def free_norm_turns(self, free: dict[Cell, af.Run]) -> Finding:
        return _turns_twice(free.values())

    @control(norm_turns_twice, "under ℓ₂")
    def decayed_norm_turns(self, descents: dict[Cell, af.Run]) -> Finding:
        strongest = max(c.β for c in descents if c.norm == "l2")
        return _turns_twice(run for c, run in descents.items() if (c.norm, c.β) == ("l2", strongest))

    @claim(
        "of nets that grok under ℓ₁ the ℓ₂ norm falls from 10 t₁, when they are below half, to t₂",
        says="“The ℓ₂ norm increases despite generalization” (caption), of which this is the opposite: the caption "
        "holds of the start and of what comes after the fall",
        changed="The caption was asked of the strongest β, from a tenth to nine tenths of the test examples, on seeds "
        "11 to 13 at quick scale, where the norm rose by 28, 172 and 14 %, and the claim was dropped. In pilots (seeds "
        "210 to 212) nets with the strongest β had a tenth right before they fitted, on the norm's first rise. It is "
        "asked of nets that grok, from 10 t₁ on, on seeds "
        f"{', '.join(map(str, SEEDS))}.",
    )
    def norm_falls_across(self, descents: dict[Cell, af.Run]) -> Finding:
        grok = [run for cell, run in descents.items() if cell.norm == "l1" and _is_late(run)]
        return _falls((run, _late(run), _general(run)) for run in grok)

    @control(norm_falls_across, "β = 0, from 10 t₁ to the end")
    def free_norm_falls(self, free: dict[Cell, af.Run]) -> Finding:
        return _falls((run, _late(run), -1) for run in free.values())

    @claim(
        f"under ℓ₁ the text's net has a delay that is {_SHORTER} times shorter or more, in the median of each β",
        says="one table E, E⟨x₁⟩ ∘ E⟨x₂⟩ and biases (§2.1), beside the notebook's net, which makes the figure",
    )
    def text_is_shorter(self, text: dict[Cell, af.Run], descents: dict[Cell, af.Run]) -> Finding:
        found = _shorter(text, descents, "delay")
        known = [_known_when_fitted(run) for run in text.values()]
        return Finding(
            f"{found.measured}; {min(known):.0%} to {max(known):.0%} of the test examples right at t₁", found.holds
        )

    @control(text_is_shorter, "t₁ in place of the delay")
    def text_fits_sooner(self, text: dict[Cell, af.Run], descents: dict[Cell, af.Run]) -> Finding:
        return _shorter(text, descents, "fit")


def _known_when_fitted(run: af.Run) -> float:
    """The share of test examples that are right at t₁."""
    return float(np.interp(times(run).fit, run.curves["step"], run.curves["test_accuracy"]))


def _shorter(text: dict[Cell, af.Run], descents: dict[Cell, af.Run], time: str) -> Finding:
    """Whether a time of the text's net is so much shorter than the notebook's, in the median over draws at each β.

    A delay of the notebook's that does not come lasts to the last step at least.
    """
    holds, words = [], []
    for β in dict.fromkeys(cell.β for cell in text):
        pairs = [(run, descents[cell._replace(norm="l1")]) for cell, run in text.items() if cell.β == β]
        own = [getattr(times(run), time) for run, _ in pairs]
        other = [min(getattr(times(run), time), run.curves["step"][-1] - times(run).fit) for _, run in pairs]
        holds.append(_SHORTER * np.median(own) <= np.median(other))
        words.append(f"{β:.0e}: {_in_words(own)} beside {_in_words(other)}")
    return Finding(f"steps by β and seed, to the last step where they do not come: {'; '.join(words)}", all(holds))


def _in_words(steps: Iterable[float]) -> str:
    return ", ".join(f"{step:.0f}" if step < np.inf else "never" for step in steps).replace("-", "−")


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


def _all_grok(runs: Iterable[af.Run]) -> Finding:
    """Whether every run generalises late."""
    runs = list(runs)
    late = [_is_late(run) for run in runs]
    words = "; ".join(_in_words(times(run)) for run in runs)
    return Finding(f"{sum(late)} of {len(late)} runs; t₁, t₂: {words}", all(late))


def _late(run: af.Run) -> int:
    """The first observation at ten times t₁ or later."""
    return int(np.searchsorted(run.curves["step"].values, _LATE * times(run).fit))


def _general(run: af.Run) -> int:
    """The first observation with 90 % of the test examples right; the last, if none has."""
    (general,) = np.nonzero(run.curves["test_accuracy"].values >= 0.9)
    return int(general[0]) if len(general) else run.curves.sizes["time"] - 1


def _falls(spans: Iterable[tuple[af.Run, int, int]]) -> Finding:
    """Whether between two observations of a run the ℓ₂ norm falls by 3 % or more, in every one."""
    changes = [
        run.curves["norm_l2"].values[until] / run.curves["norm_l2"].values[since] - 1 for run, since, until in spans
    ]
    words = ", ".join(f"{change:+.0%}".replace("-", "−") for change in changes)
    return Finding(f"{len(changes)} runs: {words}", bool(changes) and max(changes) <= -_CHANGE)


def _course(run: af.Run) -> _Course:
    norm, steps = run.curves["norm_l2"].values, run.curves["step"].values
    general = _general(run)
    peak = int(np.argmax(norm[: general + 1]))
    trough = peak + int(np.argmin(norm[peak:]))
    later = trough + int(np.argmax(norm[trough:]))
    return _Course(
        *norm[[0, peak, general, trough, later]],
        steps=(int(steps[peak]), int(steps[general]), int(steps[trough])),
        accuracy=float(run.curves["test_accuracy"].values[later:].min()),
    )


def _turns_twice(runs: Iterable[af.Run]) -> Finding:
    """Whether the norm rises, has fallen at t₂ and rises again, each by 3 % of itself or more, in every run, with 90 %
    right at the end."""
    courses = [_course(run) for run in runs]
    turned = [
        c.peak >= (1 + _CHANGE) * c.start
        and c.general <= (1 - _CHANGE) * c.peak
        and c.later >= (1 + _CHANGE) * c.trough
        and c.accuracy >= 0.9
        for c in courses
    ]
    accuracy = min(c.accuracy for c in courses)
    return Finding(
        f"{sum(turned)} of {len(courses)} runs, from the start to the peak, t₂, the trough and after: "
        f"{'; '.join(map(str, courses))}; at least {accuracy:.1%} of test examples right from the last on",
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
