"""Thm 3.5 and Cor. 3.7: soon after (1/λ)·log α a diagonal net is the classifier of largest L1 margin."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Finding, claim, control, correction, once
from afterfit.papers._measure import power_law
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.regimes import (
    STYLES,
    At,
    Regime,
    by_c,
    end_slopes,
    first_to_last,
    in_words,
    kernel_regime_end,
    law,
    laws,
    margin_flows,
    mark_shares,
    mean_slope,
    weights_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm35"]

_SHARES = (1.25, 1.5, 1.9)  # 1 + c
_BEFORE = 0.5  # of (1/λ)·log α, in the kernel regime: what is claimed of later times must not hold then
_DECAY = 1e-2  # λ of the flows that keep it for every α
_SEED = 16  # not seen before the criteria were written
_CHANGED = (
    "At first a power had only to be nearer to its law than to the rival. Now its interval holds the law, or the "
    "power moves towards it. Measured since on seed 16, not seen before."
)


class Thm35(Regime):
    paper, name = PAPER, "thm3.5"
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
    notes = (
        "The theorem is for every λ = Θ(α^{−p}), p > 0. With λ = 1/α, tried first, log(1/λ) is half as large at the "
        "same α, and the limit farther off: λ = α⁻² was taken after those numbers were seen. All rows are measured on "
        "a draw that was not seen before; their laws in log(1/λ) were written when the numbers of another draw were "
        "known. λ = 1/α is no control, since the theorem holds for it too: at quick scale, on the draw of seed 14, it "
        "kept every row but that of the direction, too slow at c = 0.9 to be told from a floor. The control is the "
        "kernel regime, at half of (1/λ)·log α. That T_max moves by −½·log log A is the law of the bound of Lemma C.5; "
        "with γ_ntk/(2ε_max·λ) in the place of A (lyu2023/sharpness) it is met without a bend."
    )

    def runs(self, scale: str) -> dict[str, dict[Any, af.Experiment]]:
        return {
            "flows": margin_flows(scale, _SHARES, _SEED, power=2),
            "earlier": margin_flows(scale, (_BEFORE, 1.0), _SEED, power=2),
            "even": _even_flows(scale),
        }

    @once
    def directions(self, headline: af.Run) -> _Directions:
        X, y = headline.data.inputs, headline.data.targets
        return _Directions(*(_unit(program(X, y)) for program in (af.theory.max_l1_margin, af.theory.max_l2_margin)))

    @once
    def ends(self, groups: dict[float, list[af.Run]], directions: _Directions) -> dict[float, list[_End]]:
        """Where the runs ended, by c and in the order of α."""
        return {c: [_end(run, directions) for run in group] for c, group in groups.items()}

    @once
    def before(self, earlier: dict[At, af.Run], directions: _Directions) -> dict[float, list[_End]]:
        """The same of the kernel regime, under c = −½."""
        return {_BEFORE - 1: [_end(earlier[at], directions) for at in sorted(earlier) if at.share == _BEFORE]}

    @once
    def turned(self, earlier: dict[At, af.Run]) -> list[af.Run]:
        """The flows up to (1/λ)·log α, in the order of α."""
        return [earlier[at] for at in sorted(earlier) if at.share == 1]

    @once
    def logs(self, ends: dict[float, list[_End]]) -> list[float]:
        """log(1/λ), rising."""
        return [float(np.log(1 / end.decay)) for end in next(iter(ends.values()))]

    def picture(
        self, headline: af.Run, directions: _Directions, ends: dict[float, list[_End]], alphas: list[float]
    ) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.8), layout="constrained")
        path, stationary, margin = figure.subplots(1, 3)
        _draw_path(path, headline, directions)
        for (c, group), style in zip(ends.items(), STYLES, strict=True):
            stationary.loglog(alphas, [end.kkt.residual for end in group], **style, label=f"residual, c = {c:g}")
            stationary.loglog(alphas, [end.kkt.slack for end in group], **style, ls=":", label=f"slack, c = {c:g}")
            margin.loglog(alphas, [1 - end.margin for end in group], **style, label=f"margin, c = {c:g}")
            margin.loglog(alphas, [end.off_l1 for end in group], **style, ls=":", label=f"direction, c = {c:g}")
        stationary.set(ylabel="KKT residual and slack of R1")
        margin.set(ylabel=r"1 − $L^1$ margin/largest, and distance of $w/\|w\|_2$")
        for ax in (stationary, margin):
            ax.set(xlabel=r"scale $\alpha$ of the start", title=r"at $t=(1+c)/\lambda\cdot\log\alpha$")
        af.plot.legend_below(*figure.axes)
        return figure

    @claim(
        "θ/‖θ‖ tends to a KKT point of R1: the residual goes to 0",
        says="for every c > 0 and some t up to (1 + c)/λ·log α, as α → ∞; O((log 1/λ)^{−1/2}) for L = 2, (22)",
    )
    def tends_to_kkt(self, ends: dict[float, list[_End]], logs: list[float], reached: str) -> Finding:
        residual = by_c(ends, lambda end: end.kkt.residual)
        powers = laws(logs, residual)
        return Finding(
            f"{reached}: {first_to_last(residual)}; like {in_words(powers, 'log(1/λ)')}",
            all(power.high < -0.5 for power in powers.values()),  # as fast as (22) has it
        )

    @control(tends_to_kkt, "the kernel regime")
    def is_no_kkt_before(self, before: dict[float, list[_End]], logs: list[float], reached: str) -> Finding:
        return self.tends_to_kkt(before, logs, reached)

    @claim(
        "the multipliers move onto the smallest margins: the slack goes to 0",
        says="ν is 0 off the smallest margin at a KKT point; ν̄ᵢ/ν̄ⱼ = exp(−‖θ‖^L·(qᵢ − qⱼ))",
        changed="That multipliers count from a residual of 0.5 on was decided after first runs. The power had to be "
        "that of 1/log(1/λ) itself, until it went like −1.4 on seed 15 at quick scale: faster, which the claim allows. "
        "It is held against −½ now, as the margins are. Measured since on seed 16, not seen before.",
    )
    def slack_goes(self, ends: dict[float, list[_End]]) -> Finding:
        return _slack_finding([(end, end.kkt.multipliers) for end in _settled(ends)])

    @control(slack_goes, "the same multiplier for every example")
    def even_slack_stays(self, ends: dict[float, list[_End]]) -> Finding:
        return _slack_finding([(end, np.ones_like(end.margins)) for end in _settled(ends)])

    @claim(
        "the loss itself has the gradient that the proof needs: ‖∇𝓛_λ‖ = O(λ·(log 1/λ)^{−(1/2 − 1/L)})",
        says="O(λ) for L = 2, at some t up to (1 + c)/λ·log α: (21)",
    )
    def gradient_is_small(self, ends: dict[float, list[_End]], turned: list[af.Run]) -> Finding:
        # With the proof's constant: the mean square of the gradient until the last t.
        shares = {
            c: [end.gradient / mean_slope(run, abs(c)) for end, run in zip(group, turned, strict=True)]
            for c, group in ends.items()
        }
        return Finding(
            "‖∇𝓛_λ‖ over √(λ·𝓛_λ/(c·log α)), 𝓛_λ at (1/λ)·log α, from the smallest α to the largest: "
            f"{first_to_last(shares)}",
            max(map(max, shares.values())) <= 1,
        )

    @control(gradient_is_small, "the kernel regime, held against c = 0.5")
    def gradient_is_large_before(self, before: dict[float, list[_End]], turned: list[af.Run]) -> Finding:
        return self.gradient_is_small(before, turned)

    @claim("‖θ‖ = Θ((log 1/λ)^{1/L}) (Lemma C.11)", says="of the order √(log 1/λ) for L = 2", changed=_CHANGED)
    def norm_grows(self, ends: dict[float, list[_End]]) -> Finding:
        return _norm_finding(_free_of_start(ends), 0.5, 0.25)

    @control(norm_grows, "a constant norm: these, with √(log 1/λ) divided out")
    def constant_norm(self, ends: dict[float, list[_End]]) -> Finding:
        free = _free_of_start(ends)
        even = [dataclasses.replace(end, norm=end.norm / np.sqrt(np.log(1 / end.decay))) for end in free]
        return _norm_finding(even, 0.5, 0.25)

    @claim(
        "‖θ‖² = O((log 1/λ)^{1/L}) (proof of Lemma C.11)",
        says="‖θ(t)‖² ≤ (2/λ)·𝓛_λ(θ(0)) = O((log 1/λ)^{1/L})",
    )
    def norm_as_printed(self, ends: dict[float, list[_End]]) -> Finding:
        return _norm_finding(_free_of_start(ends), 0.25, 0.5)

    @correction(
        norm_as_printed,
        "‖θ‖² = O((log 1/λ)^{2/L})",
        why="𝓛_λ(θ(0)) = O(λ·(log 1/λ)^{2/L}) is the lemma's hypothesis, and 2/λ times that is O((log 1/λ)^{2/L}). "
        "What is "
        "printed would put ‖θ‖ below the Ω((log 1/λ)^{1/L}) of the line before.",
        touches="No: Lemma C.11 is stated, and used, as it follows from 2/L.",
        where="App. C.3, proof of Lemma C.11",
    )
    def norm_as_derived(self, ends: dict[float, list[_End]]) -> Finding:
        return self.norm_grows(ends)

    @claim("the L1 margin tends to the largest", says="if the KKT point is global, it is the largest L1 margin")
    def margin_grows(self, ends: dict[float, list[_End]], logs: list[float], reached: str) -> Finding:
        margin = by_c(ends, lambda end: end.margin)
        powers = laws(logs, by_c(ends, lambda end: 1 - end.margin))
        # Margins are even to within 1/log(1/λ), the power −1; what remains of the start goes faster, and a floor has 0.
        return Finding(
            f"share of it, {reached}: {first_to_last(margin, '.3f')}; what is missing goes like "
            f"{in_words(powers, 'log(1/λ)')}",
            all(power.high < -0.5 for power in powers.values()),
        )

    @control(margin_grows, "the kernel regime")
    def margin_is_small_before(self, before: dict[float, list[_End]], logs: list[float], reached: str) -> Finding:
        return self.margin_grows(before, logs, reached)

    @claim(
        "w/‖w‖ tends to the direction of largest L1 margin, and leaves that of largest L2 margin",
        says="a transition from the largest L2 to the largest L1 margin",
    )
    def direction_turns(
        self, ends: dict[float, list[_End]], directions: _Directions, logs: list[float], reached: str
    ) -> Finding:
        off = by_c(ends, lambda end: end.off_l1)
        powers = laws(logs, off)
        left = min(group[-1].off_l2 for group in ends.values())
        away = float(np.linalg.norm(directions.l1 - directions.l2))
        # A margin that lacks ε leaves the direction free by ε at best and by √ε at worst: the power −½ or beyond, to be
        # told from a floor's 0.
        return Finding(
            f"distance {reached}: {first_to_last(off)}, like {in_words(powers, 'log(1/λ)')}; from the L2 direction "
            f"{left:.2g} or more at the last α; the two are {away:.2g} apart",
            all(power.high < -0.25 for power in powers.values()) and all(o[-1] < 0.5 * away for o in off.values()),
        )

    @control(direction_turns, "the kernel regime")
    def direction_stays_before(
        self, before: dict[float, list[_End]], directions: _Directions, logs: list[float], reached: str
    ) -> Finding:
        return self.direction_turns(before, directions, logs, reached)

    @claim(
        "the largest L1 margin is the argmax of min yᵢ⟨w, xᵢ⟩ over S^{d−1} (§3.2.3)",
        says="equivalently w₁* := argmax over w in S^{d−1} of min yᵢ⟨w, xᵢ⟩, which is also w₂* of Cor. 3.6",
    )
    def widest_on_the_sphere(self, headline: af.Run, directions: _Directions) -> Finding:
        best = float(np.min(headline.data.targets * (headline.data.inputs @ directions.l2)))
        return _widest_finding(headline, directions, best, 2)

    @correction(
        widest_on_the_sphere,
        "w₁* = argmax over ‖w‖₁ = 1",
        why="min ‖w‖₁ subject to margins ≥ 1 has the largest margin for its L1 norm. Over S^{d−1}, the unit sphere of "
        "the "
        "L2 norm, the argmax is w₂*, and the two corollaries would say the same.",
        touches="No: the program before 'equivalently' is the right one.",
        where="§3.2.3",
    )
    def widest_on_the_diamond(self, headline: af.Run, directions: _Directions) -> Finding:
        return _widest_finding(headline, directions, _dual_margin(headline), 1)

    @claim(
        "with λ a power of α the kernel regime ends ½·log log A before (1/λ)·log α, up to a constant (Lemma C.5)",
        says="T_max ≥ (1/λ)·(log α − (1/L)·log log A + ΔT): a lower bound",
        changed=_CHANGED,
    )
    def kernel_regime_ends(self, groups: dict[float, list[af.Run]]) -> Finding:
        return _end_finding(groups[max(groups)])

    @control(kernel_regime_ends, "flows with one λ for every α, whose loss at T_max is the same")
    def ends_together(self, even: dict[float, af.Run]) -> Finding:
        return _end_finding([even[α] for α in sorted(even)])


@dataclasses.dataclass(frozen=True)
class _Directions:
    """The directions of largest L1 and L2 margin."""

    l1: np.ndarray
    l2: np.ndarray


@dataclasses.dataclass(frozen=True)
class _End:
    """The end of a run, at t = (1 + c)/λ·log α, with what the theorem compares it to."""

    decay: float
    start: float  # what remains of the start in ‖θ‖², 2d·α²e^{−2λt}
    margins: np.ndarray  # of the examples, the smallest 1
    kkt: af.theory.Stationarity
    gradient: float  # ‖∇𝓛_λ‖
    norm: float  # ‖θ‖
    margin: float  # the L1 margin, as a share of the largest
    off_l1: float  # distances of w/‖w‖ from the direction of largest L1 margin
    off_l2: float  # and L2 margin


def _end(run: af.Run, directions: _Directions) -> _End:
    stationarity, gradient = end_slopes(run)
    α, λ, t = run.spec["init"]["scale"], run.spec["penalty"]["strength"], run.spec["dynamics"]["until"]
    w = weights_of(run)
    margins = run.data.targets * (run.data.inputs @ w)
    return _End(
        decay=λ,
        start=2 * len(w) * float(α * np.exp(-λ * t)) ** 2,
        margins=margins / margins.min(),
        kkt=stationarity,
        gradient=gradient,
        norm=float(run.curves["norm_l2"][-1]),
        margin=_l1_margin(w, run) / _l1_margin(directions.l1, run),
        off_l1=float(np.linalg.norm(_unit(w) - directions.l1)),
        off_l2=float(np.linalg.norm(_unit(w) - directions.l2)),
    )


def _l1_margin(w: np.ndarray, run: af.Run) -> float:
    return float(np.min(run.data.targets * (run.data.inputs @ w)) / np.abs(w).sum())


def _settled(ends: dict[float, list[_End]]) -> list[_End]:
    """Those near enough to a KKT point for multipliers to mean something."""
    return [end for group in ends.values() for end in group if end.kkt.residual < 0.5]


def _free_of_start(ends: dict[float, list[_End]]) -> list[_End]:
    """Those in whose ‖θ‖² the start is a tenth or less: what grows with log(1/λ) is the rest."""
    return [end for group in ends.values() for end in group if end.start <= 0.1 * end.norm**2]


def _slack_finding(paired: list[tuple[_End, np.ndarray]]) -> Finding:
    """The share of multipliers off the smallest margin: 1/log(1/λ) or less, the power −1, where a floor has 0."""
    slack = [float(ν @ (end.margins - 1) / (ν @ end.margins)) for end, ν in paired]
    power = power_law([np.log(1 / end.decay) for end, _ in paired], slack)
    return Finding(
        f"{len(slack)} runs with a residual below 0.5: {max(slack):.2g} to {min(slack):.2g}, like log(1/λ)^({power})",
        power.high < -0.5,
    )


def _norm_finding(ends: list[_End], power: float, rival: float) -> Finding:
    """‖θ‖ as a power of log(1/λ)."""
    found = law([np.log(1 / end.decay) for end in ends], [end.norm for end in ends])
    return Finding(f"‖θ‖ goes like (log 1/λ)^({found}), {len(ends)} runs, for {power:g}", found.tends_to(power, rival))


def _widest_finding(run: af.Run, directions: _Directions, best: float, p: int) -> Finding:
    """The margin of the L1 classifier, of Lp norm 1, against the largest there is."""
    w = directions.l1 / np.linalg.norm(directions.l1, p)
    share = float(np.min(run.data.targets * (run.data.inputs @ w))) / best
    return Finding(f"its margin for ‖w‖_{p} = 1 is {share:.6f} of the largest", abs(share - 1) <= 1e-6)


def _dual_margin(run: af.Run) -> float:
    """The largest L1 margin by its dual: min over ν ≥ 0, Σν = 1, of ‖Σνᵢyᵢxᵢ‖_∞."""
    from scipy.optimize import linprog

    Z = run.data.targets[:, None] * run.data.inputs
    n, d = Z.shape
    below = np.concatenate([np.concatenate([Z.T, -Z.T]), -np.ones((2 * d, 1))], axis=1)
    total = np.append(np.ones(n), 0.0)[None]
    return float(linprog(np.append(np.zeros(n), 1.0), below, np.zeros(2 * d), total, [1.0]).fun)


def _even_flows(scale: str) -> dict[float, af.Experiment]:
    """The flows up to (1/λ)·log α with one λ, for every second α."""
    return {
        at.α: flow.set(
            {
                "penalty.strength": _DECAY,
                "dynamics.until": float(np.log(at.α) / _DECAY),
                "dynamics.first": 1e-3 / _DECAY,
            }
        )
        for at, flow in list(margin_flows(scale, (1.0,), _SEED).items())[::2]
    }


def _end_finding(runs: list[af.Run]) -> Finding:
    """e^{2λT_max}/α² as a power of log A: −1 if T_max has −½·log log A, and 0 if it has not."""
    alphas = np.array([run.spec["init"]["scale"] for run in runs])
    passed = np.array([kernel_regime_end(run) for run in runs])
    decays = np.array([run.spec["penalty"]["strength"] for run in runs])
    found = law(np.log(alphas**2 / decays), np.exp(2 * passed) / alphas**2)
    return Finding(
        f"λT_max − log α from {passed[0] - np.log(alphas[0]):.2f} (α={alphas[0]:g}) to "
        f"{passed[-1] - np.log(alphas[-1]):.2f} (α={alphas[-1]:g}); e^{{2λT_max}}/α² like (log A)^({found}), for "
        "−1",
        found.tends_to(-1, 0),
    )


def _unit(w: np.ndarray) -> np.ndarray:
    return w / np.linalg.norm(w)


def _draw_path(ax: Axes, run: af.Run, directions: _Directions) -> None:
    """The distance of w/‖w‖ from both directions over time."""
    curves = run.curves.isel(time=slice(1, None))
    units = curves["weights"].values / np.linalg.norm(curves["weights"].values, axis=1)[:, None]
    for goal, style, norm in ((directions.l1, af.plot.TEST, "L^1"), (directions.l2, af.plot.TRAIN, "L^2")):
        away = np.linalg.norm(units - goal, axis=1)
        ax.plot(curves["time"], away, **style, label=f"from the largest ${norm}$ margin")
    mark_shares(ax, run, (1.0, *_SHARES))
    decade = np.log10(run.spec["init"]["scale"])
    ax.set(yscale="log", ylabel=rf"distance of $w/\|w\|_2$, $\alpha=10^{{{decade:g}}}$")
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)
