"""Fig. 2b: modular addition from larger starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import jax
import numpy as np
from matplotlib.figure import Figure

from afterfit import inits
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.lyu2023.modular import LR, accuracy_fan, modular_flow, transition
from afterfit.plot import legend_below, mark_phases
from afterfit.run import Run
from afterfit.train import prepare

__all__ = ["Fig2b"]


class Fig2b(Entry):
    id = "lyu2023/fig2b"
    title = "The larger the start, the later modular addition is grokked"
    where = "Fig. 2b, §2"
    about = (
        "The net of Fig. 2a, with W₁ from He initialisation times α and W₂ = 0, so that the output starts at 0 "
        "whatever α. The theorems of §3 put the transition at (1/λ)·log α as α → ∞, for starts whose layers are all "
        "scaled by α; here only W₁ is, but λ lets the difference of the layers' squared norms fall like e^{−2λt}, "
        "which takes the same time. So the time is held against log α, in units of 1/λ. The runs are gradient flow in "
        "place of the authors' descent at rate 0.002, as in Fig. 2a."
    )
    claims = (
        "the initial output is exactly 0 for every α",
        "every α groks: fitted while test accuracy is close to random guessing, near 100 % at the end",
        "the transition moves later as α grows from 1 to 100",
        "its time is linear in log α, with slope 1/λ",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        decay, rest, observations = (1e-4, 10, 200) if scale == "paper" else (1e-3, 6, 100)
        return {
            f"α={alpha}": modular_flow(
                scale,
                decay,
                until=float(rest + 1.5 * np.log(alpha)) / decay,
                init=inits.ZeroLastLayer(init=inits.He(scale=float(alpha))),
                first=100 * LR / alpha,  # the larger the start, the sooner it fits
                observations=observations,
            )
            for alpha in (100, 10, 1)
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(12, 5.2), layout="constrained")
        path, place = figure.subplots(1, 2)
        rising = _rising(runs)
        headline, decay = rising[-1], rising[-1].spec["penalty"]["strength"]
        accuracy_fan(path, rising, [rf"test, $\alpha={_alpha(run):g}$" for run in rising])
        path.set_title(rf"$\lambda={decay:g}$; times of $\alpha={_alpha(headline):g}$", pad=18)  # above the phases
        mark_phases(path, headline.verdict)
        alphas = np.array([_alpha(run) for run in rising])
        for level, style in ((0.5, "ko-"), (None, "ks--")):
            times = [transition(run, level).time for run in rising]
            name = f"{100 * (level or headline.criteria.test.value):g} % of test examples"
            place.plot(alphas, decay * np.array(times), style, mfc="none", label=name)
        late = decay * transition(headline, 0.5).time - np.log(alphas[-1])
        place.plot(alphas, np.log(alphas) + late, color="0.6", lw=1.0, label=r"$\lambda t=\log\alpha+$const")
        place.set(xscale="log", xlabel=r"scale $\alpha$ of the start", ylabel=r"$\lambda t$ of the transition")
        place.set(ylim=(0, None))
        legend_below(place)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        rising = _rising(runs)
        alphas, decay = [_alpha(run) for run in rising], rising[0].spec["penalty"]["strength"]
        outputs = [_largest_initial_output(run) for run in rising]
        yield Finding(
            self.claims[0],
            "W₂ = 0, so that the initial model output is always 0",
            "largest |f| at t=0: " + _by_alpha(alphas, outputs),
            max(outputs) == 0,
        )
        chance = 1 / rising[0].spec["task"]["p"]
        fitted = [run.verdict.t_fit or np.inf for run in rising]
        guesses = [
            float(run.curves["test_accuracy"].sel(time=t, method="nearest"))
            for run, t in zip(rising, fitted, strict=True)
        ]
        ends = [float(run.curves["test_accuracy"][-1]) for run in rising]
        yield Finding(
            self.claims[1],
            "grokking with a sharp transition",
            "test accuracy "
            + ", ".join(
                f"{guess:.1%} when fitted, at t={t:.3g}, and {end:.1%} at the end (α={alpha:g})"
                for guess, t, end, alpha in zip(guesses, fitted, ends, alphas, strict=True)
            )
            + f"; 1/p = {chance:.1%}",
            all(run.verdict.kind == "grokking" for run in rising)
            and max(guesses) <= chance + 0.05
            and min(ends) >= 0.95,
        )
        halfway, general = ([transition(run, level) for run in rising] for level in (0.5, None))
        yield Finding(
            self.claims[2],
            "the sharp transition in test accuracy is delayed when α increases from 1 to 100",
            f"50 % of test examples at t={_by_alpha(alphas, halfway)}; "
            f"{rising[0].criteria.test.value:.0%} at t={_by_alpha(alphas, general)}",
            all(
                bool(np.all(np.diff([t.time for t in times]) > 0)) and not any(t.censored for t in times)
                for times in (halfway, general)
            ),
        )
        slopes = decay * np.diff([t.time for t in halfway]) / np.diff(np.log(alphas))
        overall = decay * np.polyfit(np.log(alphas), [t.time for t in halfway], 1)[0]
        yield Finding(
            self.claims[3],
            "a sharp transition around (1/λ)·log α, as α → ∞ (Thms 3.4 and 3.5)",
            f"λ·dt/d(log α), at 50 %: {overall:.2f}; between neighbours "
            + ", ".join(f"{s:.2f}" for s in slopes)
            + f", at {rising[0].criteria.test.value:.0%} "
            + ", ".join(f"{s:.2f}" for s in decay * np.diff([t.time for t in general]) / np.diff(np.log(alphas))),
            bool(np.all(np.abs(slopes - 1) <= 0.3)),
        )


def _alpha(run: Run) -> float:
    return run.spec["init"]["init"]["scale"]


def _rising(runs: Mapping[str, Run]) -> list[Run]:
    return sorted(runs.values(), key=_alpha)


def _by_alpha(alphas: list[float], values: list) -> str:
    return ", ".join(f"{value} (α={alpha:g})" for value, alpha in zip(values, alphas, strict=True))


def _largest_initial_output(run: Run) -> float:
    with jax.enable_x64(True):
        problem, params = prepare(Experiment.from_dict(run.spec))
        data = problem.data
        return max(float(abs(problem.model(params, x)).max()) for x in (data.inputs, data.test_inputs))
