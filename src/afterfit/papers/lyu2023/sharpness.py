"""The transition at (1/λ)·log α, and how sharp it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.lyu2023.regimes import margin_flow, scale_of
from afterfit.plot import legend_below, log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Sharpness"]


class Sharpness(Entry):
    id = "lyu2023/sharpness"
    title = "The transition is at (1/λ)·log α, and sharper for larger α"
    where = "§3.2, Thms 3.4–3.10"
    about = (
        "A diagonal net with the exponential loss and Gaussian inputs, whose population risk is an angle over π, from "
        "(α, …, α) with α over decades, and with λ over decades at one α. The transition is read off the risk: "
        "half-way between its values in the kernel regime and at the end, and from 10 % to 90 % of the way. The "
        "theorems put it between (1 − c)/λ·log α and (1 + c)/λ·log α for every c > 0, as α → ∞. At finite α it is "
        "later by a constant times 1/λ, which the proof lets depend on λ by (1/L)·log log(1/λ) (Lemma C.5)."
    )
    claims = (
        "the half-way time is (1/λ)·log α up to a constant: slope 1 in log α",
        "the half-way time over (1/λ)·log α tends to 1",
        "the width relative to the half-way time shrinks as α grows",
        "the width is of order 1/λ, whatever α: the relative one falls like 1/log α",
        "at a fixed α, time is in units of 1/λ, up to ½·log log(1/λ)",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            n, d, alphas, decays, observations = 60, 200, (1e4, 1e3, 1e2, 1e1), (1e-1, 1e-3, 1e-4, 1e-5), 200
        else:
            n, d, alphas, decays, observations = 30, 100, (1e3, 1e2, 1e1), (1e-1, 1e-3), 80
        middle, fixed = 1e-2, 1e3
        grid = [(alpha, middle) for alpha in alphas] + [(fixed, decay) for decay in decays]
        return {f"α={alpha:g} λ={decay:g}": _flow(n, d, alpha, decay, observations) for alpha, decay in grid}

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.8), layout="constrained")
        path, place, width = figure.subplots(1, 3)
        rising, falling = _in_alpha(runs), _in_decay(runs)
        headline = next(iter(runs.values()))
        for run, grey in zip(rising, np.linspace(0.7, 0.0, len(rising)), strict=True):
            curves = run.curves.isel(time=slice(1, None))
            path.plot(
                curves["time"],
                curves["population_risk"],
                color=str(grey),
                label=rf"$\alpha=10^{{{np.log10(scale_of(run)):g}}}$",
            )
            path.axvline(_clock(run), color=str(grey), lw=0.8, ls="--")
        path.plot([], [], "k--", lw=0.8, label=r"$(1/\lambda)\log\alpha$")
        path.set(ylabel="population risk")
        log_time_axes(path)
        path.set_xlim(left=0.8 * headline.spec["dynamics"]["first"])
        path.set_title(rf"$\lambda={_decay(headline):g}$", pad=18)  # above the phases
        mark_phases(path, headline.verdict)
        logs = np.log([scale_of(run) for run in rising])
        passages = [passage(run) for run in rising]
        place.errorbar(
            logs,
            [p.halfway for p in passages],
            yerr=np.array([(p.halfway - p.begin, p.end - p.halfway) for p in passages]).T,
            fmt="ko",
            mfc="none",
            capsize=3,
            label=r"half-way, 10–90 %",
        )
        place.plot(logs, logs, "k--", lw=0.8, label=r"$\lambda t=\log\alpha$")
        place.set(
            xlabel=r"$\log\alpha$", ylabel=r"$\lambda t$ of the transition", title=rf"$\lambda={_decay(headline):g}$"
        )
        width.plot(
            logs, [p.width / p.halfway for p in passages], "ko", mfc="none", label=r"$\alpha$ varied: width/half-way"
        )
        mean, shift = (float(np.mean(x)) for x in ([p.width for p in passages], [p.halfway for p in passages] - logs))
        fine = np.linspace(logs[0], logs[-1], 50)
        width.plot(
            fine,
            mean / (fine + shift),
            color="0.5",
            lw=1.0,
            label=r"constant width, half-way at $\log\alpha+$const",
        )
        others = [passage(run) for run in falling]
        width.plot(
            np.full(len(others), np.log(scale_of(falling[0]))),
            [p.width / p.halfway for p in others],
            "k+",
            label=r"$\lambda$ varied",
        )
        width.set(xlabel=r"$\log\alpha$", ylabel="width (10–90 %) / half-way time", ylim=(0, None))
        legend_below(*figure.axes)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        rising, falling = _in_alpha(runs), _in_decay(runs)
        alphas = np.array([scale_of(run) for run in rising])
        passages = [passage(run) for run in rising]
        halfway, width = np.array([p.halfway for p in passages]), np.array([p.width for p in passages])
        slope, constant = np.polyfit(np.log(alphas), halfway, 1)
        yield Finding(
            self.claims[0],
            "a sharp transition around (1/λ)·log α",
            "λt half-way "
            + ", ".join(f"{t:.2f} (α={alpha:g})" for t, alpha in zip(halfway, alphas, strict=True))
            + f": {slope:.4f}·log α + {constant:.2f}",
            abs(slope - 1) <= 0.02,
        )
        ratio, late = halfway / np.log(alphas), halfway - np.log(alphas)
        yield Finding(
            self.claims[1],
            "within (1 ± c)/λ·log α for every c > 0",
            ", ".join(f"{r:.3f} (α={alpha:g})" for r, alpha in zip(ratio, alphas, strict=True))
            + f"; it is late by {late.min():.2f} to {late.max():.2f} times 1/λ at every α, so that the limit is 1",
            bool(np.all(np.diff(ratio) < 0) and late.max() <= 1.2 * late.min()),
        )
        relative = width / halfway
        yield Finding(
            self.claims[2],
            "sharp as α → ∞",
            "width/half-way time "
            + ", ".join(f"{r:.2f} (α={alpha:g})" for r, alpha in zip(relative, alphas, strict=True)),
            bool(np.all(np.diff(relative) < 0)),
        )
        yield Finding(
            self.claims[3],
            "not in the paper; it follows where only αe^{−λt} matters",
            "λ·width " + ", ".join(f"{w:.2f} (α={alpha:g})" for w, alpha in zip(width, alphas, strict=True)),
            bool(width.max() <= 1.25 * width.min()),
        )
        decays = np.array([_decay(run) for run in falling])
        later = np.array([passage(run).halfway for run in falling]) - np.log(scale_of(falling[0]))
        expected = 0.5 * np.log(np.log(1 / decays))
        yield Finding(
            self.claims[4],
            "the kernel regime ends at (1/λ)·(log α − (1/L)·log log A + const)",
            f"α={scale_of(falling[0]):g}: λt − log α half-way is "
            + ", ".join(f"{s:.2f} (λ={decay:g})" for s, decay in zip(later, decays, strict=True))
            + f"; from first to last it falls by {later[0] - later[-1]:.2f}, ½·log log(1/λ) grows by "
            f"{expected[-1] - expected[0]:.2f}",
            bool(np.all(np.diff(later) < 0) and later[0] - later[-1] <= 2 * (expected[-1] - expected[0])),
        )


@dataclasses.dataclass(frozen=True)
class Passage:
    """When the risk has come 10 %, half and 90 % of its way, in units of 1/λ."""

    begin: float
    halfway: float
    end: float

    @property
    def width(self) -> float:
        return self.end - self.begin


def passage(run: Run) -> Passage:
    """The transition of a run, from its population risk at λt = ½·log α, in the kernel regime, to the last."""
    curves, decay = run.curves.isel(time=slice(1, None)), _decay(run)
    passed, risk = decay * curves["time"].values, curves["population_risk"].values
    before, after = np.interp(0.5 * np.log(scale_of(run)), passed, risk), risk[-1]
    way = (before - risk) / (before - after)

    def crossing(share: float) -> float:
        k = int(np.flatnonzero((way >= share) & (passed > 0.5 * np.log(scale_of(run))))[0])
        return float(np.interp(share, way[k - 1 : k + 1], passed[k - 1 : k + 1]))

    return Passage(*(crossing(share) for share in (0.1, 0.5, 0.9)))


def _flow(n: int, d: int, alpha: float, decay: float, observations: int) -> Experiment:
    """Well past the transition, with most observations around it."""
    return margin_flow(n, d, alpha, 1.0, observations).set(
        {
            "penalty.strength": decay,
            "dynamics.until": float((np.log(alpha) + 10) / decay),
            "dynamics.first": 0.05 / decay,
        }
    )


def _decay(run: Run) -> float:
    return run.spec["penalty"]["strength"]


def _clock(run: Run) -> float:
    return float(np.log(scale_of(run)) / _decay(run))


def _in_alpha(runs: Mapping[str, Run]) -> list[Run]:
    """The runs with the first one's λ, in the order of α."""
    first = next(iter(runs.values()))
    return sorted((run for run in runs.values() if _decay(run) == _decay(first)), key=scale_of)


def _in_decay(runs: Mapping[str, Run]) -> list[Run]:
    """The runs with α = 10³, in the order of falling λ."""
    return sorted((run for run in runs.values() if scale_of(run) == 1e3), key=lambda run: -_decay(run))
