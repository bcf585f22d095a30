"""Thm 3.5 and Cor. 3.7: soon after (1/λ)·log α a diagonal net is the classifier of largest L1 margin."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.lyu2023.regimes import by_share, end_slopes, margin_flows, mark_shares, scale_of, weights_of
from afterfit.papers.measure import log_slope
from afterfit.plot import TEST, TRAIN, legend_below, log_time_axes, mark_phases
from afterfit.run import Run
from afterfit.theory.stationarity import Stationarity

__all__ = ["Thm35"]


class Thm35(Entry):
    id = "lyu2023/thm3.5"
    title = "Soon after (1/λ)·log α a diagonal net is the classifier of largest L1 margin"
    where = "Thm 3.5, Cor. 3.7, App. C.3"
    about = (
        "The flows of Thm 3.4, with λ = α⁻², stopped at t = (1 + c)/λ·log α. The theorem says of some t between "
        "(1/λ)·log α and that time that θ/‖θ‖ tends to the direction of a KKT point of min ‖θ‖² subject to yᵢfᵢ(θ) ≥ 1 "
        "(R1); it is checked at the last t allowed. The KKT residual is min over ν ≥ 0 of ‖θ − Σνᵢyᵢ∇fᵢ(θ)‖/‖θ‖, the "
        "slack the share of ν off the smallest margin. The KKT point is not proved to be global; here it is the "
        "classifier of largest L1 margin. Two errors are left: what remains of the start, αe^{−λt} = α^{−c}, and "
        "uneven margins, of order 1/log(1/λ), so that the direction is reached slowly."
    )
    claims = (
        "θ/‖θ‖ tends to a KKT point of R1: the residual goes to 0",
        "the multipliers move onto the smallest margins: the slack goes to 0",
        "the loss itself has the gradient that the proof needs: ‖∇𝓛_λ‖ = O(λ·(log 1/λ)^{−(1/2 − 1/L)})",
        "‖θ‖ = Θ((log 1/λ)^{1/L}) (Lemma C.11)",
        "the L1 margin tends to the largest",
        "w/‖w‖ tends to the direction of largest L1 margin, and leaves that of largest L2 margin",
    )

    _shares = (1.25, 1.5, 1.9)  # 1 + c

    def experiments(self, scale: str) -> dict[str, Experiment]:
        return margin_flows(scale, self._shares, power=2)

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.8), layout="constrained")
        path, stationary, margin = figure.subplots(1, 3)
        headline = next(iter(runs.values()))
        alpha = scale_of(headline)
        curves = headline.curves.isel(time=slice(1, None))
        units = curves["weights"].values / np.linalg.norm(curves["weights"].values, axis=1)[:, None]
        for goal, style, name in zip(_directions(headline), (TEST, TRAIN), ("L^1", "L^2"), strict=True):
            path.plot(
                curves["time"], np.linalg.norm(units - goal, axis=1), **style, label=f"from the largest ${name}$ margin"
            )
        mark_shares(path, headline, (1.0, *self._shares))
        path.set(yscale="log", ylabel=rf"distance of $w/\|w\|_2$, $\alpha=10^{{{np.log10(alpha):g}}}$")
        log_time_axes(path)
        mark_phases(path, headline.verdict)
        for (share, ends), marker, grey in zip(
            _ends(runs).items(), ("o", "s", "^"), ("0.65", "0.4", "0.0"), strict=True
        ):
            alphas, c = [end.alpha for end in ends], f"c = {share - 1:g}"
            style = {"color": grey, "marker": marker, "mfc": "none"}
            stationary.loglog(alphas, [end.kkt.residual for end in ends], **style, label=f"residual, {c}")
            stationary.loglog(alphas, [end.kkt.slack for end in ends], **style, ls=":", label=f"slack, {c}")
            margin.loglog(alphas, [1 - end.margin for end in ends], **style, label=f"margin, {c}")
            margin.loglog(alphas, [end.off for end in ends], **style, ls=":", label=f"direction, {c}")
        stationary.set(ylabel="KKT residual and slack of R1")
        margin.set(ylabel=r"1 − $L^1$ margin/largest, and distance of $w/\|w\|_2$")
        for ax in (stationary, margin):
            ax.set(xlabel=r"scale $\alpha$ of the start", title=r"at $t=(1+c)/\lambda\cdot\log\alpha$")
        legend_below(*figure.axes)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        groups = _ends(runs)
        every = [end for ends in groups.values() for end in ends]
        alphas = [end.alpha for end in every[: len(every) // len(groups)]]
        reached = f"from α={alphas[0]:g} to {alphas[-1]:g}"
        residual = {share: [end.kkt.residual for end in ends] for share, ends in groups.items()}
        yield Finding(
            self.claims[0],
            "for every c > 0 and some t up to (1 + c)/λ·log α, as α → ∞",
            f"{reached}: "
            + ", ".join(
                f"{r[0]:.2g} to {r[-1]:.2g}, like α^{log_slope(alphas[-2:], r[-2:]):.2f} at last (c={share - 1:g})"
                for share, r in residual.items()
            ),
            all(np.all(np.diff(r) < 0) and log_slope(alphas[-2:], r[-2:]) < -0.1 for r in residual.values()),
        )
        # Multipliers mean something near a KKT point only.
        slack = {share: [end.kkt.slack for end in ends if end.kkt.residual < 0.5] for share, ends in groups.items()}
        products = {s: [end.kkt.slack * np.log(1 / end.decay) for end in ends] for s, ends in groups.items()}
        yield Finding(
            self.claims[1],
            "ν is 0 off the smallest margin at a KKT point; ν̄ᵢ/ν̄ⱼ = exp(−‖θ‖^L·(qᵢ − qⱼ))",
            f"from a residual of 0.5 on, up to α={alphas[-1]:g}: "
            + ", ".join(f"{s[0]:.2g} to {s[-1]:.2g} (c={share - 1:g})" for share, s in slack.items())
            + "; times log(1/λ) at most "
            + f"{max(max(p) for p in products.values()):.2g}",
            all(len(s) >= 2 and np.all(np.diff(s) < 0) for s in slack.values()),
        )
        gradient = {share: [end.gradient / end.decay for end in ends] for share, ends in groups.items()}
        yield Finding(
            self.claims[2],
            "O(λ) for L = 2, at some t up to (1 + c)/λ·log α: (21)",
            f"‖∇𝓛_λ‖/λ at the last t, {reached}: "
            + ", ".join(f"{g[0]:.2g} to {g[-1]:.2g} (c={share - 1:g})" for share, g in gradient.items()),
            all(g[-1] <= g[0] for g in gradient.values()),
        )
        sizes = {share: [end.norm / np.sqrt(np.log(1 / end.decay)) for end in ends] for share, ends in groups.items()}
        yield Finding(
            self.claims[3],
            "of the order √(log 1/λ) for L = 2",
            f"‖θ‖/√(log 1/λ) {reached}: "
            + ", ".join(f"{s[0]:.2f} to {s[-1]:.2f} (c={share - 1:g})" for share, s in sizes.items())
            + ", changed by at most "
            + f"{max(abs(s[-1] / s[-2] - 1) for s in sizes.values()):.0%} between the last two α",
            all(abs(s[-1] / s[-2] - 1) <= 0.1 for s in sizes.values()),
        )
        margin = {share: [end.margin for end in ends] for share, ends in groups.items()}
        short = {s: [(1 - end.margin) * np.log(1 / end.decay) for end in ends] for s, ends in groups.items()}
        yield Finding(
            self.claims[4],
            "if the KKT point is global, it is the largest L1 margin",
            f"share of it, {reached}: "
            + ", ".join(f"{m[0]:.3f} to {m[-1]:.3f} (c={share - 1:g})" for share, m in margin.items())
            + f"; what is missing times log(1/λ): at most {max(max(s) for s in short.values()):.2g}",
            all(np.all(np.diff(m) > 0) for m in margin.values())
            and all(s[-1] <= 1.1 * max(s[:-1]) for s in short.values()),
        )
        off = {share: [end.off for end in ends] for share, ends in groups.items()}
        away, left = every[0].between, min(ends[-1].off_l2 for ends in groups.values())
        yield Finding(
            self.claims[5],
            "a transition from the largest L2 to the largest L1 margin",
            f"distance {reached}: "
            + ", ".join(f"{o[0]:.2g} to {o[-1]:.2g} (c={share - 1:g})" for share, o in off.items())
            + f"; from the L2 direction {left:.2g} or more at the last α; the two are {away:.2g} apart",
            all(np.all(np.diff(o) < 0) and o[-1] < 0.5 * away for o in off.values()),
        )


@dataclasses.dataclass(frozen=True)
class _End:
    """The end of a run, at t = (1 + c)/λ·log α, with what the theorem compares it to."""

    alpha: float
    decay: float
    kkt: Stationarity
    gradient: float  # ‖∇𝓛_λ‖
    norm: float  # ‖θ‖
    margin: float  # the L1 margin, as a share of the largest
    off: float  # distances of w/‖w‖ from the direction of largest L1 margin
    off_l2: float  # and L2 margin
    between: float  # and of the two directions from each other


def _directions(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """The directions of largest L1 and L2 margin."""
    data = Experiment.from_dict(run.spec).draw()
    l1, l2 = (program(data.inputs, data.targets) for program in (theory.max_l1_margin, theory.max_l2_margin))
    return l1 / np.linalg.norm(l1), l2 / np.linalg.norm(l2)


def _ends(runs: Mapping[str, Run]) -> dict[float, list[_End]]:
    """Where the runs ended, by their share of (1/λ)·log α and in the order of α. All have the same data."""
    headline = next(iter(runs.values()))
    data, (l1, l2) = Experiment.from_dict(headline.spec).draw(), _directions(headline)

    def l1_margin(w: np.ndarray) -> float:
        return float(np.min(data.targets * (data.inputs @ w)) / np.abs(w).sum())

    def end(run: Run) -> _End:
        stationarity, gradient = end_slopes(run)
        w = weights_of(run)
        unit = w / np.linalg.norm(w)
        return _End(
            alpha=scale_of(run),
            decay=run.spec["penalty"]["strength"],
            kkt=stationarity,
            gradient=gradient,
            norm=float(run.curves["norm_l2"][-1]),
            margin=l1_margin(w) / l1_margin(l1),
            off=float(np.linalg.norm(unit - l1)),
            off_l2=float(np.linalg.norm(unit - l2)),
            between=float(np.linalg.norm(l1 - l2)),
        )

    return {share: [end(run) for run in group] for share, group in by_share(runs, Thm35._shares).items()}
