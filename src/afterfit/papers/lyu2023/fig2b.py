"""Fig. 2b: modular addition from larger starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.modular import LR, Transition, accuracy_fan, modular_flow, transition

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Fig2b"]


class _From(NamedTuple):
    α: int


class Fig2b(Entry):
    paper, name = PAPER, "fig2b"
    title = "The larger the start, the later modular addition is grokked"
    where = "Fig. 2b, §2"
    about = (
        "The net of Fig. 2a, with W₁ from He initialisation times α and W₂ = 0, so that the output starts at 0 "
        "whatever α. The theorems of §3 put the transition at (1/λ)·log α as α → ∞, for starts whose layers are all "
        "scaled by α; here only W₁ is, but λ lets the difference of the layers' squared norms fall like e^{−2λt}, "
        "which takes the same time. So the time is held against log α, in units of 1/λ. The runs are gradient flow in "
        "place of the authors' descent at rate 0.002, as in Fig. 2a."
    )

    def runs(self, scale: str) -> dict[str, dict[_From, af.Experiment]]:
        decay, rest, observations = (1e-4, 10, 200) if scale == "paper" else (1e-3, 6, 100)

        def flow(α: int) -> af.Experiment:
            return modular_flow(
                scale,
                decay,
                until=float(rest + 1.5 * np.log(α)) / decay,
                init=af.inits.ZeroLastLayer(init=af.inits.He(scale=float(α))),
                first=100 * LR / α,  # the larger the start, the sooner it fits
                observations=observations,
            )

        return {"flows": {_From(α): flow(α) for α in (100, 10, 1)}}

    @once
    def rising(self, flows: dict[_From, af.Run]) -> dict[float, af.Run]:
        """The runs by α, in its order."""
        return {α: flows[_From(α)] for (α,) in sorted(flows)}

    @once
    def decay(self, rising: dict[float, af.Run]) -> float:
        """λ of all runs."""
        return rising[1].spec["penalty"]["strength"]

    @once
    def threshold(self, rising: dict[float, af.Run]) -> float:
        """The test accuracy that counts as generalised."""
        return rising[1].criteria.test.value

    @once
    def halfway(self, rising: dict[float, af.Run]) -> dict[float, Transition]:
        """When half of the test examples are right, by α."""
        return {α: transition(run, 0.5) for α, run in rising.items()}

    @once
    def general(self, rising: dict[float, af.Run]) -> dict[float, Transition]:
        """When the test accuracy is at the verdict's threshold, by α."""
        return {α: transition(run) for α, run in rising.items()}

    def picture(
        self,
        rising: dict[float, af.Run],
        decay: float,
        halfway: dict[float, Transition],
        general: dict[float, Transition],
        threshold: float,
    ) -> Figure:
        figure = af.plot.Figure(figsize=(12, 5.2), layout="constrained")
        path, place = figure.subplots(1, 2)
        largest = max(rising)
        accuracy_fan(path, list(rising.values()), [rf"test, $\alpha={α:g}$" for α in rising])
        path.set_title(rf"$\lambda={decay:g}$; times of $\alpha={largest:g}$", pad=18)  # above the phases
        af.plot.mark_phases(path, rising[largest].verdict)
        for found, level, style in ((halfway, 0.5, "ko-"), (general, threshold, "ks--")):
            label = f"{100 * level:g} % of test examples"
            place.plot(list(found), decay * _times(found), style, mfc="none", label=label)
        alphas = np.array(list(rising))
        late = decay * halfway[largest].time - np.log(largest)
        place.plot(alphas, np.log(alphas) + late, color="0.6", lw=1.0, label=r"$\lambda t=\log\alpha+$const")
        place.set(xscale="log", xlabel=r"scale $\alpha$ of the start", ylabel=r"$\lambda t$ of the transition")
        place.set(ylim=(0, None))
        af.plot.legend_below(place)
        return figure

    @claim("the initial output is exactly 0 for every α", says="W₂ = 0, so that the initial model output is always 0")
    def starts_at_zero(self, rising: dict[float, af.Run]) -> Finding:
        outputs = {α: _largest_initial_output(run) for α, run in rising.items()}
        return Finding("largest |f| at t=0: " + _by_α(outputs), max(outputs.values()) == 0)

    @claim(
        "every α groks: fitted while test accuracy is close to random guessing, near 100 % at the end",
        says="grokking with a sharp transition",
    )
    def groks(self, rising: dict[float, af.Run]) -> Finding:
        chance = 1 / rising[1].spec["task"]["p"]
        fitted = {α: run.verdict.t_fit or np.inf for α, run in rising.items()}
        test = {α: run.curves["test_accuracy"] for α, run in rising.items()}
        guesses = {α: float(test[α].sel(time=fitted[α], method="nearest")) for α in rising}
        ends = {α: float(test[α][-1]) for α in rising}
        return Finding(
            "test accuracy "
            + ", ".join(
                f"{guesses[α]:.1%} when fitted, at t={fitted[α]:.3g}, and {ends[α]:.1%} at the end (α={α:g})"
                for α in rising
            )
            + f"; 1/p = {chance:.1%}",
            all(run.verdict.kind == "grokking" for run in rising.values())
            and max(guesses.values()) <= chance + 0.05
            and min(ends.values()) >= 0.95,
        )

    @claim(
        "the transition moves later as α grows from 1 to 100",
        says="the sharp transition in test accuracy is delayed when α increases from 1 to 100",
    )
    def is_delayed(
        self, halfway: dict[float, Transition], general: dict[float, Transition], threshold: float
    ) -> Finding:
        return Finding(
            f"50 % of test examples at t={_by_α(halfway)}; {threshold:.0%} at t={_by_α(general)}",
            all(
                np.all(np.diff(_times(found)) > 0) and not any(t.censored for t in found.values())
                for found in (halfway, general)
            ),
        )

    @claim(
        "its time is linear in log α, with slope 1/λ",
        says="a sharp transition around (1/λ)·log α, as α → ∞ (Thms 3.4 and 3.5)",
    )
    def is_logarithmic(
        self, halfway: dict[float, Transition], general: dict[float, Transition], threshold: float, decay: float
    ) -> Finding:
        logs = np.log(list(halfway))
        slopes, others = (decay * np.diff(_times(found)) / np.diff(logs) for found in (halfway, general))
        overall = decay * np.polyfit(logs, _times(halfway), 1)[0]
        return Finding(
            f"λ·dt/d(log α), at 50 %: {overall:.2f}; between neighbours "
            + ", ".join(f"{slope:.2f}" for slope in slopes)
            + f", at {threshold:.0%} "
            + ", ".join(f"{slope:.2f}" for slope in others),
            bool(np.all(np.abs(slopes - 1) <= 0.3)),
        )


def _times(found: Mapping[float, Transition]) -> np.ndarray:
    return np.array([t.time for t in found.values()])


def _by_α(values: Mapping[float, object]) -> str:
    return ", ".join(f"{value} (α={α:g})" for α, value in values.items())


def _largest_initial_output(run: af.Run) -> float:
    import jax

    with jax.enable_x64(True):
        start = af.theory.instance_of(run)
        data = start.problem.data
        return max(float(abs(start.model(start.initial, x)).max()) for x in (data.inputs, data.test_inputs))
