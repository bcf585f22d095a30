"""Fig. 2c: modular addition under more and less weight decay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.modular import Transition, accuracy_fan, modular_flow, transition

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


__all__ = ["Fig2c"]


class _Under(NamedTuple):
    λ: float


class Fig2c(Entry):
    paper, name = PAPER, "fig2c"
    title = "More weight decay groks modular addition earlier, until training collapses"
    where = "Fig. 2c, §2"
    about = (
        "The net of Fig. 2a with weight decay λ over decades. The theorems of §3 put the transition at (1/λ)·log α, so "
        "its time is fitted by a power of λ, over the runs that keep their fit; a run that ends before its transition "
        "counts as one whose time is longer than that. Collapsed is a run that ends with less than half of its "
        "training examples right. The runs are gradient flow in place of the authors' descent at rate 0.002, as in "
        "Fig. 2a."
    )

    def runs(self, scale: str) -> dict[str, dict[_Under, af.Experiment]]:
        # How long: in units of 1/λ, and at least. A strong decay has to be fitted against, which takes its time.
        turns, least = (10, 3e4) if scale == "paper" else (4, 2e3)
        return {
            "flows": {_Under(λ): modular_flow(scale, λ, until=max(turns / λ, least)) for λ in (1e-4, 1e-5, 1e-3, 1e-2)}
        }

    @once
    def rising(self, flows: dict[_Under, af.Run]) -> dict[float, af.Run]:
        """The runs by λ, in its order."""
        return {λ: flows[_Under(λ)] for (λ,) in sorted(flows)}

    @once
    def kept(self, rising: dict[float, af.Run]) -> dict[float, af.Run]:
        """The runs that keep their fit."""
        return {λ: run for λ, run in rising.items() if not _collapsed(run)}

    @once
    def lost(self, rising: dict[float, af.Run]) -> list[float]:
        """λ of those that do not."""
        return [λ for λ, run in rising.items() if _collapsed(run)]

    @once
    def threshold(self, kept: dict[float, af.Run]) -> float:
        """The test accuracy that counts as generalised."""
        return kept[min(kept)].criteria.test.value

    @once
    def halfway(self, kept: dict[float, af.Run]) -> dict[float, Transition]:
        """When half of the test examples are right, by λ."""
        return {λ: transition(run, 0.5) for λ, run in kept.items()}

    @once
    def general(self, kept: dict[float, af.Run]) -> dict[float, Transition]:
        """When the test accuracy is at the verdict's threshold, by λ."""
        return {λ: transition(run) for λ, run in kept.items()}

    def picture(
        self,
        rising: dict[float, af.Run],
        lost: list[float],
        halfway: dict[float, Transition],
        general: dict[float, Transition],
        threshold: float,
    ) -> Figure:
        figure = af.plot.Figure(figsize=(12, 5.2), layout="constrained")
        path, place = figure.subplots(1, 2)
        accuracy_fan(path, list(rising.values()), [rf"test, $\lambda={_power(λ)}$" for λ in rising])
        path.set_title(rf"times of $\lambda={_power(1e-4)}$", pad=18)  # above the phases
        af.plot.mark_phases(path, rising[1e-4].verdict)
        _draw_law(place, halfway, "50 %", "ko", "k-")
        _draw_law(place, general, f"{100 * threshold:g} %", "ks", "k--")
        decays = np.array(list(halfway))
        first = halfway[decays[0]].time
        place.set(xscale="log", yscale="log", xlabel=r"weight decay $\lambda$", ylabel="time $t$ of the transition")
        place.plot(decays, first * decays[0] / decays, color="0.6", lw=1.0, label=r"$\propto 1/\lambda$")
        if lost:
            place.axvspan(lost[0] / 1.5, lost[-1] * 1.5, color="0.9", zorder=0, label="training collapses")
        af.plot.legend_below(place)
        return figure

    @claim(
        "the transition moves earlier as weight decay grows",
        says="increasing weight decay makes the transition happen earlier",
    )
    def is_earlier(
        self, halfway: dict[float, Transition], general: dict[float, Transition], threshold: float
    ) -> Finding:
        but_first = (*list(halfway.values())[1:], *list(general.values())[1:])
        return Finding(
            f"50 % of test examples at t={_by_λ(halfway)}; {threshold:.0%} at t={_by_λ(general)}",
            all(np.all(np.diff([t.time for t in found.values()]) < 0) for found in (halfway, general))
            and not any(t.censored for t in but_first),
        )

    @claim("its time is proportional to 1/λ", says="a sharp transition around (1/λ)·log α (Thms 3.4 and 3.5)")
    def is_inverse(
        self, halfway: dict[float, Transition], general: dict[float, Transition], threshold: float
    ) -> Finding:
        laws = {"50 %": _law(halfway), f"{threshold:.0%}": _law(general)}
        return Finding(
            "; ".join(
                f"{name}: {law.describe('t', 'λ') if law else 'fewer than two runs'}" for name, law in laws.items()
            ),
            all(law is not None and -1.25 <= law.exponent <= -0.75 for law in laws.values()),
        )

    @claim(
        "as weight decay decreases, grokking becomes more significant: t_gen/t_fit grows",
        says="it takes more time for the test accuracy to exhibit the sharp transition",
    )
    def is_more_significant(self, kept: dict[float, af.Run], general: dict[float, Transition]) -> Finding:
        delays = {λ: general[λ].time / (run.verdict.t_fit or np.inf) for λ, run in kept.items()}
        return Finding(
            f"t_gen/t_fit {_by_λ({λ: f'{delay:.3g}' for λ, delay in delays.items()})}",
            bool(np.all(np.diff(list(delays.values())) < 0)),
        )

    @claim(
        "above a threshold weight decay makes the training accuracy collapse",
        says="so strong that it even hinders the optimisation of the training loss and causes the training accuracy to "
        "collapse eventually",
    )
    def collapses(self, rising: dict[float, af.Run], kept: dict[float, af.Run], lost: list[float]) -> Finding:
        training = {λ: run.curves["train_accuracy"].values for λ, run in rising.items()}
        return Finding(
            "training accuracy at best and at the end "
            + _by_λ({λ: f"{curve.max():.1%} and {curve[-1]:.1%}" for λ, curve in training.items()}),
            bool(lost) and max(kept) < min(lost),
        )


def _draw_law(ax: Axes, found: Mapping[float, Transition], share: str, points: str, line: str) -> None:
    """When a share of the test examples is right, against λ, with the power law through it."""
    decays, law = np.array(list(found)), _law(found)
    ax.plot(decays, [t.time for t in found.values()], points, mfc="none", label=f"{share} of test examples")
    if law is not None:
        ax.plot(decays, law(decays), line, lw=1.0, label=rf"{share}: $\propto\lambda^{{{law.exponent:.2f}}}$")
    for λ, t in found.items():
        if t.censored:
            ax.annotate("later", (λ, t.time), textcoords="offset points", xytext=(4, 4))


def _power(λ: float) -> str:
    """λ for Matplotlib's mathtext, as the power of ten that it is."""
    return f"10^{{{np.log10(λ):.0f}}}"


def _collapsed(run: af.Run) -> bool:
    return float(run.curves["train_accuracy"][-1]) < 0.5


def _law(found: Mapping[float, Transition]) -> af.PowerLaw | None:
    """The time of the transition as a power of λ; None where fewer than two runs came to it."""
    times = list(found.values())
    if sum(not t.censored for t in times) < 2:
        return None
    return af.fit_power_law(list(found), [t.time for t in times], [t.censored for t in times])


def _by_λ(values: Mapping[float, object]) -> str:
    return ", ".join(f"{value} (λ={λ:g})" for λ, value in values.items())
