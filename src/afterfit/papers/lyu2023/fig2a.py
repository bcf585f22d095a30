"""Fig. 2a: modular addition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once, passing
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.accuracy import ALL, accuracy_picture, first_time
from afterfit.papers.lyu2023.modular import DECAY, LR, UNTIL, authors_start, modular_flow, transition

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Fig2a"]

_AUTHORS, _FINER = "the authors' W₂", "half the tolerance"


class Fig2a(Entry):
    paper, name = PAPER, "fig2a"
    title = "A two-layer ReLU net groks modular addition"
    where = "Fig. 2a, §2"
    about = (
        "W₂ ReLU(W₁x + b₁) of width 1024 learns a + b mod 97 from 40 % of all pairs, shown as two one-hot vectors, "
        "with the mean cross-entropy, weight decay λ = 10⁻⁴ on all parameters and He initialisation. The authors make "
        "steps of gradient descent at rate 0.002, some 10⁷ of them, which would take days here; it is gradient flow "
        "instead, which so small a rate follows closely, in single precision. The authors' code draws W₂ with "
        "variance 1/1024, where He initialisation, which the paper names, has 2/1024: both are run. What is claimed is "
        "asked of the flow at half the tolerance, too, and the transition is dated by its half-way time, which hardly "
        "depends on it; the last few per cent do."
    )

    def runs(self, scale: str) -> dict[str, Any]:
        until, seed = UNTIL[scale], 0 if scale == "paper" else 3  # the small net was chosen on seeds 0 to 2
        others = {_AUTHORS: modular_flow(scale, DECAY, until, authors_start(), seed=seed)}
        if scale == "paper":
            others[_FINER] = modular_flow(scale, DECAY, until, finer=2)
        return {
            "run": modular_flow(scale, DECAY, until, seed=seed),
            "others": others,
            "free": modular_flow(scale, 0.0, until, seed=seed),
        }

    @once
    def each(self, run: af.Run, others: dict[str, af.Run]) -> dict[str, af.Run]:
        """The runs of which everything is asked, with weight decay."""
        return {"He's W₂": run, **others}

    def picture(self, run: af.Run, others: dict[str, af.Run], free: af.Run) -> Figure:
        def beside(accuracy: Axes, norm: Axes) -> None:
            styles = zip(
                ({**others, "no weight decay": free}).items(), ("-.", "--", ":")[-1 - len(others) :], strict=True
            )
            for (words, of), style in styles:
                curves = of.curves.isel(time=slice(1, None))
                label = f"test, {words}"
                accuracy.plot(curves["time"], 100 * curves["test_accuracy"], color="0.4", ls=style, lw=1.4, label=label)

        return accuracy_picture(run, LR, _chance(run), beside)

    @claim(
        "training accuracy reaches 100 % within 10⁶ steps",
        says={"paper": "100 % in 10⁶ steps", "quick": "100 % before weight decay acts, at t ≈ 1/λ"},
    )
    def fits(self, each: dict[str, af.Run], scale: str) -> Finding:
        return _full(each, "train_accuracy", scale)

    @control(fits, "test accuracy in its place")
    def fits_the_unseen(self, each: dict[str, af.Run], scale: str) -> Finding:
        return _full(each, "test_accuracy", scale)

    @claim("test accuracy is then close to random guessing", says="the test accuracy remains close to random guessing")
    def guesses(self, each: dict[str, af.Run]) -> Finding:
        return _guesses({words: (of, _fitted(of)) for words, of in each.items()})

    @control(guesses, "a hundred times as late")
    def guesses_late(self, each: dict[str, af.Run]) -> Finding:
        return _guesses({words: (of, 100 * _fitted(of)) for words, of in each.items()})

    @claim(
        "test accuracy jumps to 100 %, at least an order of magnitude later than the fit",
        says="it suddenly jumps to 100 %; App. B.1: a sharp transition, which there is not without weight decay",
    )
    def groks(self, each: dict[str, af.Run]) -> Finding:
        return _grokking(each)

    @control(groks, "a run without weight decay")
    def groks_by_itself(self, free: af.Run) -> Finding:
        return _grokking({"λ = 0": free})

    @claim(
        "test accuracy jumps to 100 % an order of magnitude later, at ~10⁷ steps",
        says="100 % in 10⁶ steps, and after one additional order of magnitude in the number of steps, the test "
        "accuracy suddenly jumps to 100 %; App. B.1: a sharp transition at ~10⁷ steps",
        fails={
            "paper": "10⁷ steps later it is not: half-way at 2·10⁷ steps, 95 % at 3·10⁷. The order is right.",
            "quick": "Ten times the time of the fit later it has hardly begun: half-way at 45 to 55 times.",
        },
    )
    def jumps(self, each: dict[str, af.Run], scale: str) -> Finding:
        return _jumps(each, {w: 1.1e7 * LR if scale == "paper" else 11 * _fitted(of) for w, of in each.items()})

    @passing(jumps, "the same runs at their end")
    def jumps_in_the_end(self, each: dict[str, af.Run]) -> Finding:
        return _jumps(each, {words: float(of.curves["time"][-1]) for words, of in each.items()})


def _chance(run: af.Run) -> float:
    """The accuracy of random guessing."""
    return 1 / run.spec["task"]["p"]


def _fitted(run: af.Run) -> float:
    """When the training accuracy is first 100 %."""
    return first_time(run.curves, run.curves["train_accuracy"].values >= ALL)


def _half(run: af.Run) -> float:
    """When half of the test examples are right; inf if never."""
    found = transition(run, 0.5)
    return np.inf if found.censored else found.time


def _full(each: Mapping[str, af.Run], of: str, scale: str) -> Finding:
    """Whether an accuracy is 100 % by 10⁶ steps, or by 1/λ."""
    full = {words: first_time(run.curves, run.curves[of].values >= ALL) for words, run in each.items()}
    latest = 1e6 * LR if scale == "paper" else 1 / DECAY
    return Finding(
        "100 % "
        + ", ".join(
            f"from t={time:.3g}, {time / LR:.2g} steps ({words})" if np.isfinite(time) else f"never ({words})"
            for words, time in full.items()
        ),
        max(full.values()) <= latest,
    )


def _guesses(each: Mapping[str, tuple[af.Run, float]]) -> Finding:
    """Whether the test accuracy of runs is that of guessing, to 5 %, at a time of each."""
    at = {w: float(run.curves["test_accuracy"].sel(time=time, method="nearest")) for w, (run, time) in each.items()}
    chance = max(_chance(run) for run, _ in each.values())
    return Finding(
        ", ".join(f"{at[words]:.1%} at t={time:.3g} ({words})" for words, (_, time) in each.items())
        + f", beside 1/p = {chance:.1%}",
        max(at.values()) <= chance + 0.05,
    )


def _grokking(each: Mapping[str, af.Run]) -> Finding:
    """Whether runs jump to 100 %, to 1 %, ten times as late as they fit or later, and from 10 to 90 % in a decade.

    Where one has half the tolerance, its half-way time may differ by 5 %: half of what the time of 95 % differed by.
    """
    found = [_jump(words, run) for words, run in each.items()]
    if _FINER in each:
        moved = abs(_half(each["He's W₂"]) / _half(each[_FINER]) - 1)
        found.append(Finding(f"half the tolerance moves the half-way time by {moved:.1%}", moved <= 0.05))
    return Finding("; ".join(one.measured for one in found), all(one.holds for one in found))


def _jump(words: str, run: af.Run) -> Finding:
    last, half, width = float(run.curves["test_accuracy"][-1]), _half(run), run.verdict.width_decades
    if not np.isfinite(half) or width is None:
        return Finding(f"{last:.2%} at the end, never half-way ({words})", False)
    delay = half / _fitted(run)
    return Finding(
        f"half-way at t={half:.3g} ({half / LR:.2g} steps), {delay:.3g} times the time of the fit, 10–90 % within "
        f"{width:.2f} decades, {last:.2%} at the end ({words})",
        run.verdict.kind == "grokking" and last >= 0.99 and delay >= 10 and width < 1,
    )


def _jumps(each: Mapping[str, af.Run], times: Mapping[str, float]) -> Finding:
    """Whether one of the runs is right on all test examples by its time."""
    found = {words: _by_then(run, times[words]) for words, run in each.items()}
    return Finding(
        "; ".join(f"{words}: {one.measured}" for words, one in found.items()),
        any(one.holds for one in found.values()),
    )


def _by_then(run: af.Run, time: float) -> Finding:
    """Whether the test accuracy is 100 %, to 1 %, by a time."""
    accuracy = float(run.curves["test_accuracy"].sel(time=time, method="nearest"))
    return Finding(
        f"{accuracy:.1%} at t={time:.3g} ({time / LR:.2g} steps), half-way at {transition(run, 0.5)}, 95 % at "
        f"{transition(run)}",
        accuracy >= 0.99,
    )
