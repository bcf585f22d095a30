"""Fig. 2c: modular addition under more and less weight decay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.lyu2023.modular import accuracy_fan, modular_flow, transition
from afterfit.plot import legend_below, mark_phases
from afterfit.run import Run
from afterfit.sweeps.laws import PowerLaw, fit_power_law

__all__ = ["Fig2c"]


class Fig2c(Entry):
    id = "lyu2023/fig2c"
    title = "More weight decay groks modular addition earlier, until training collapses"
    where = "Fig. 2c, §2"
    about = (
        "The net of Fig. 2a with weight decay λ over decades. The theorems of §3 put the transition at (1/λ)·log α, so "
        "its time is fitted by a power of λ, over the runs that keep their fit; a run that ends before its transition "
        "counts as one whose time is longer than that. Collapsed is a run that ends with less than half of its "
        "training examples right. The runs are gradient flow in place of the authors' descent at rate 0.002, as in "
        "Fig. 2a."
    )
    claims = (
        "the transition moves earlier as weight decay grows",
        "its time is proportional to 1/λ",
        "as weight decay decreases, grokking becomes more significant: t_gen/t_fit grows",
        "above a threshold weight decay makes the training accuracy collapse",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        # How long: in units of 1/λ, and at least. A strong decay has to be fitted against, which takes its time.
        turns, least = (10, 3e4) if scale == "paper" else (4, 2e3)
        return {
            f"λ={decay:g}": modular_flow(scale, decay, until=max(turns / decay, least))
            for decay in (1e-4, 1e-5, 1e-3, 1e-2)
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(12, 5.2), layout="constrained")
        path, place = figure.subplots(1, 2)
        headline, rising = next(iter(runs.values())), _rising(runs)
        accuracy_fan(path, rising, [rf"test, $\lambda={_power(run)}$" for run in rising])
        path.set_title(rf"times of $\lambda={_power(headline)}$", pad=18)  # above the phases
        mark_phases(path, headline.verdict)
        kept = [run for run in rising if not _collapsed(run)]
        decays = np.array([_decay(run) for run in kept])
        for level, style in ((0.5, "ko"), (None, "ks")):
            law = _law(kept, level)
            times = [transition(run, level) for run in kept]
            share = f"{100 * (level or headline.criteria.test.value):g} %"
            place.plot(decays, [t.time for t in times], style, mfc="none", label=f"{share} of test examples")
            line = "k-" if level else "k--"
            if law is not None:
                label = rf"{share}: $\propto\lambda^{{{law.exponent:.2f}}}$"
                place.plot(decays, law(decays), line, lw=1.0, label=label)
            for decay, t in zip(decays, times, strict=True):
                if t.censored:
                    place.annotate("later", (decay, t.time), textcoords="offset points", xytext=(4, 4))
        place.set(xscale="log", yscale="log", xlabel=r"weight decay $\lambda$", ylabel="time $t$ of the transition")
        first = transition(kept[0], 0.5).time
        place.plot(decays, first * decays[0] / decays, color="0.6", lw=1.0, label=r"$\propto 1/\lambda$")
        lost = [_decay(run) for run in rising if _collapsed(run)]
        if lost:
            place.axvspan(lost[0] / 1.5, lost[-1] * 1.5, color="0.9", zorder=0, label="training collapses")
        legend_below(place)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        rising = _rising(runs)
        kept, lost = ([run for run in rising if _collapsed(run) is so] for so in (False, True))
        halfway, general = ([transition(run, level) for run in kept] for level in (0.5, None))
        threshold = kept[0].criteria.test.value
        yield Finding(
            self.claims[0],
            "increasing weight decay makes the transition happen earlier",
            f"50 % of test examples at t={_by_decay(kept, halfway)}; {threshold:.0%} at t={_by_decay(kept, general)}",
            all(bool(np.all(np.diff([t.time for t in times]) < 0)) for times in (halfway, general))
            and not any(t.censored for t in (*halfway[1:], *general[1:])),
        )
        laws = {"50 %": _law(kept, 0.5), f"{threshold:.0%}": _law(kept, None)}
        yield Finding(
            self.claims[1],
            "a sharp transition around (1/λ)·log α (Thms 3.4 and 3.5)",
            "; ".join(
                f"{name}: {law.describe('t', 'λ') if law else 'fewer than two runs'}" for name, law in laws.items()
            ),
            all(law is not None and -1.25 <= law.exponent <= -0.75 for law in laws.values()),
        )
        delays = [t.time / (run.verdict.t_fit or np.inf) for run, t in zip(kept, general, strict=True)]
        yield Finding(
            self.claims[2],
            "it takes more time for the test accuracy to exhibit the sharp transition",
            f"t_gen/t_fit {_by_decay(kept, [f'{delay:.3g}' for delay in delays])}",
            bool(np.all(np.diff(delays) < 0)),
        )
        training = [run.curves["train_accuracy"].values for run in rising]
        yield Finding(
            self.claims[3],
            "so strong that it even hinders the optimisation of the training loss and causes the training accuracy to "
            "collapse eventually",
            "training accuracy at best and at the end "
            + _by_decay(rising, [f"{curve.max():.1%} and {curve[-1]:.1%}" for curve in training]),
            bool(lost) and max(_decay(run) for run in kept) < min(_decay(run) for run in lost),
        )


def _decay(run: Run) -> float:
    return run.spec["penalty"]["strength"]


def _power(run: Run) -> str:
    """λ for Matplotlib's mathtext, as a power of ten where it is one."""
    exponent = np.log10(_decay(run))
    return f"10^{{{exponent:.0f}}}" if np.isclose(exponent, round(exponent)) else f"{_decay(run):g}"


def _rising(runs: Mapping[str, Run]) -> list[Run]:
    return sorted(runs.values(), key=_decay)


def _collapsed(run: Run) -> bool:
    return float(run.curves["train_accuracy"][-1]) < 0.5


def _law(kept: list[Run], level: float | None) -> PowerLaw | None:
    """The time of the transition as a power of λ; None where fewer than two runs came to it."""
    times = [transition(run, level) for run in kept]
    if sum(not t.censored for t in times) < 2:
        return None
    return fit_power_law([_decay(run) for run in kept], [t.time for t in times], [t.censored for t in times])


def _by_decay(runs: list[Run], values: list) -> str:
    return ", ".join(f"{value} (λ={_decay(run):g})" for value, run in zip(values, runs, strict=True))
