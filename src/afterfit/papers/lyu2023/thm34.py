"""Thm 3.4 and Cor. 3.6: until (1/λ)·log α a diagonal net is the kernel classifier."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Finding, claim, control, correction, once
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.regimes import (
    STYLES,
    At,
    Law,
    Regime,
    by_c,
    first_to_last,
    in_words,
    kernel_regime,
    law,
    laws,
    margin_flows,
    mark_shares,
    off_the_start,
    weights_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm34"]

_SHARES = (0.2, 0.5, 0.8)  # 1 − c
_SEED = 15  # not seen before the criteria were written
_CHANGED = (
    "At first distances had to fall with each α; then a power had only to be nearer to its law than to the "
    "rival. Now its interval holds the law, or the power moves towards it. Measured since on seed 15, not seen before."
)


class Thm34(Regime):
    paper, name = PAPER, "thm3.4"
    title = "Until (1/λ)·log α a diagonal net is the classifier of largest L2 margin"
    where = "Thm 3.4, Cor. 3.6, App. C.2"
    about = (
        "Gradient flow on u² − v² with the exponential loss and weight decay λ = 1/α, from u = v = (α, …, α), stopped "
        "at t = (1 − c)/λ·log α for rising α. The direction of w is compared with that of largest L2 margin, and the "
        "outputs with Z(α)·⟨∇f(θ̄; x), h*⟩. Here L = 2. Inputs are Gaussian and labels those of a 3-sparse teacher. "
        "F⁻¹ is the inverse of x ↦ x·log x."
    )
    notes = "The direction of the limit depends on none of the slips."

    def runs(self, scale: str) -> dict[str, dict[At, af.Experiment]]:
        return {"flows": margin_flows(scale, _SHARES, _SEED)}

    @once
    def widest(self, headline: af.Run) -> np.ndarray:
        """The weights of largest L2 margin, of margin 1."""
        return af.theory.max_l2_margin(headline.data.inputs, headline.data.targets)

    @once
    def ends(self, groups: dict[float, list[af.Run]], widest: np.ndarray) -> dict[float, list[_End]]:
        """Where the runs ended, by c and in the order of α."""
        return {c: [_end(run, widest) for run in group] for c, group in groups.items()}

    @once
    def every(self, ends: dict[float, list[_End]]) -> list[_End]:
        return list(itertools.chain.from_iterable(ends.values()))

    def picture(self, headline: af.Run, widest: np.ndarray, ends: dict[float, list[_End]]) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.8), layout="constrained")
        path, direction, size = figure.subplots(1, 3)
        _draw_path(path, headline, _unit(widest))
        for (c, group), style in zip(ends.items(), STYLES, strict=True):
            alphas, label = np.array([end.alpha for end in group]), f"c = {c:g}"
            direction.loglog(alphas, [end.off for end in group], **style, label=label)
            size.semilogx(alphas, [end.gamma * end.size for end in group], **style, label=label, ls="")
            for factor, dashes in ((1, ":"), (2, "-")):
                size.semilogx(alphas, (factor * c + 1) * np.log(alphas), color=style["color"], ls=dashes, lw=1.2)
        size.plot([], [], "k:", label=r"printed: $\log(\alpha^{c}/\lambda)$")
        size.plot([], [], "k-", lw=1.2, label=r"$\log(\alpha^{2c}/\lambda)$")
        direction.set(ylabel=r"distance of $w/\|w\|_2$ from the largest $L^2$ margin")
        size.set(ylabel=r"$\gamma_\mathrm{ntk}\|h\|_2$, and $\gamma_\mathrm{ntk}Z$")
        for ax in (direction, size):
            ax.set(xlabel=r"scale $\alpha$ of the start", title=r"at $t=(1-c)/\lambda\cdot\log\alpha$")
        af.plot.legend_below(*figure.axes)
        return figure

    @claim(
        "Cor. 3.6: w/‖w‖₂ tends to the direction of largest L2 margin",
        says="for every c in (0, 1), as α → ∞",
        changed=_CHANGED,
    )
    def tends_to_l2(self, every: list[_End], ends: dict[float, list[_End]], reached: str) -> Finding:
        off = by_c(ends, lambda end: end.off)
        # A loss that falls like e^{−margin} evens the margins out to within 1/log(1/𝓛), which goes to 0 as α grows: the
        # distance has to go like its first power. One that stays somewhere else goes like the power 0.
        power = law([-end.log_loss for end in every], [end.off for end in every])
        return Finding(
            f"distance {reached}: {first_to_last(off)}; over all α and c like log(1/𝓛)^({power})",
            power.tends_to(-1, 0),
        )

    @control(tends_to_l2, "the direction of largest L1 margin in its place")
    def does_not_tend_to_l1(self, ends: dict[float, list[_End]], headline: af.Run, reached: str) -> Finding:
        narrow = _unit(af.theory.max_l1_margin(headline.data.inputs, headline.data.targets))
        aside = {c: [dataclasses.replace(end, widest=narrow) for end in group] for c, group in ends.items()}
        return self.tends_to_l2([end for group in aside.values() for end in group], aside, reached)

    @claim(
        "the kernel classifier of Thm 3.4 is that of largest L2 margin, with γ_ntk = 2√2·γ₂",
        says="∇f(θ̄; x) = (2x, −2x)",
    )
    def kernel_is_l2(self, headline: af.Run, widest: np.ndarray) -> Finding:
        kernel, predictor = kernel_regime(headline)
        assert predictor.margin is not None
        apart = float(np.linalg.norm(_unit(kernel) - _unit(widest)))
        # Features at αθ̄ are α^{L−1} times those at θ̄. Both programs are solved to some ten digits.
        ratio = predictor.margin / headline.spec["init"]["scale"] / _ntk_margin(widest)
        return Finding(
            f"directions {apart:.1g} apart, γ_ntk/(2√2·γ₂) = {ratio:.6f}",
            apart <= 1e-6 and abs(ratio - 1) <= 1e-6,
        )

    @control(kernel_is_l2, "the classifier of largest L1 margin")
    def kernel_is_not_l1(self, headline: af.Run) -> Finding:
        return self.kernel_is_l2(headline, af.theory.max_l1_margin(headline.data.inputs, headline.data.targets))

    @claim(
        "f/Z tends to ⟨∇f(θ̄; x), h*⟩ with the printed Z = log(α^c/λ)/γ_ntk",
        says="Z = log(α^c/λ)/γ_ntk (Thm 3.4, Thm C.9)",
        changed=_CHANGED,
    )
    def has_the_printed_size(self, ends: dict[float, list[_End]], headline: af.Run) -> Finding:
        return _size_finding(ends, 1, headline.data.test_inputs)

    @correction(
        has_the_printed_size,
        "Z = log(α^{2(L−1)c}/λ)/γ_ntk",
        why="The proof of Thm C.9 has log(1/𝓛) = log A − 2(L−1)(1−c)·log α + O(log log A) with A = α^{2(L−1)}/λ. That "
        "is log(α^{2(L−1)c}/λ), not the log(α^c/λ) of its next line; the two agree for L = 3/2 only.",
        touches="Yes: the limit in Thm 3.4 is a constant times what is printed. No: the classifier is the same.",
        where="Thm 3.4, Thm C.9",
    )
    def has_the_proved_size(self, ends: dict[float, list[_End]], headline: af.Run) -> Finding:
        return _size_finding(ends, 2, headline.data.test_inputs)

    @claim(
        "the loss is below (8), Lemma C.4",
        says="𝓛 ≤ max{1/(1 + γ²A(1 − e^{−2(L−1)λt})/16(L−1)), e^{2(L−1)λt}/(F⁻¹(γ²A/8L) − 1)}",
    )
    def is_below(self, every: list[_End]) -> Finding:
        return _below([np.exp(end.log_loss) / end.upper() for end in every])

    @control(is_below, "(8) without e^{2(L−1)λt}, as if the kernel did not shrink with the norm")
    def shrinks(self, every: list[_End]) -> Finding:
        return _below([np.exp(end.log_loss) / end.upper(shrinking=0) for end in every])

    @claim(
        "the loss is above (17), Lemma C.7",
        says="𝓛 ≥ min{n/F⁻¹(2G²Ae^{−2(L−1)λt}/nL), exp(1 − 2(L−1)λ)/n}",
    )
    def is_above(self, every: list[_End]) -> Finding:
        return _above([np.exp(end.log_loss) / end.lower(1, 1 - 2 * end.decay) for end in every])

    @correction(
        is_above,
        "𝓛 ≥ min{1/(n·F⁻¹(2G²Ae^{−2(L−1)λt}/nL)), exp(1 − 4(L−1)/L)/n}",
        why="The proof bounds F(1/(n𝓛)) by 2G²A…/nL: 𝓛 ≥ 1/(n·F⁻¹), n² times lower than n/F⁻¹. At the boundary of 𝓔 "
        "the "
        "derivative of F is −(1 + log 1/n𝓛)·(λL/2)·F, to be held against −2(L−1)λ·F; the factor λL/2 was lost, with "
        "which "
        "the condition is 1 + log 1/n𝓛 > 4(L−1)/L.",
        touches="No: log(1/𝓛) is used up to O(log log A), and the second term is never the smaller until T_max.",
        where="App. C.2, Lemma C.7, (17)",
    )
    def is_above_the_derived(self, every: list[_End]) -> Finding:
        return _above([np.exp(end.log_loss) / end.lower(-1, -1) for end in every])

    @claim(
        "every margin is at least log(1/𝓛) (proof of Thm C.9)",
        says="min qᵢ/‖h‖ ≥ log((1/n)·Σexp(−qᵢ))/‖h‖ + … ≥ log(1/𝓛)/‖h‖ + …",
    )
    def margins_above_the_mean(self, every: list[_End]) -> Finding:
        return _margins_finding(every, 0.0)

    @correction(
        margins_above_the_mean,
        "log(1/𝓛) − log n ≤ min qᵢ ≤ log(1/𝓛)",
        why="𝓛 is a mean of exp(−qᵢ), so that exp(−min qᵢ)/n ≤ 𝓛 ≤ exp(−min qᵢ); and log((1/n)·Σexp(−qᵢ)) is log 𝓛, "
        "which "
        "is negative. The chain has the sign and the log n lost.",
        touches="No: ‖h‖ → ∞, and log n over it goes to 0.",
        where="App. C.2, proof of Thm C.9",
    )
    def margins_near_the_mean(self, every: list[_End]) -> Finding:
        return _margins_finding(every, float(np.log(len(every[0].y))))

    @claim(
        "e^{λt}θ/α − θ̄ is of order α^{−L}e^{Lλt}·log A (Lemma C.5)",
        says="O(α^{−L}·log A)·e^{Lλt}",
        changed=_CHANGED,
    )
    def moves_little(self, ends: dict[float, list[_End]], alphas: list[float]) -> Finding:
        return _moves_finding(ends, alphas, {c: -2 * c for c in ends})

    @control(moves_little, "θ/α − θ̄, with which others measure a kernel regime, in its place")
    def moves_more(self, ends: dict[float, list[_End]], alphas: list[float]) -> Finding:
        plain = {c: [dataclasses.replace(end, moved=end.away) for end in group] for c, group in ends.items()}
        return self.moves_little(plain, alphas)

    @claim(
        "e^{λt}θ/α − θ̄ is of the size (1/γ_ntk)·α^L·e^{−Lλt}·log(α^c/λ) (§3.2.1)",
        says="e^{λt}θ/α − θ̄ ≈ (1/γ_ntk)·α^L·e^{−Lλt}·log(α^c/λ)·h* at (1 − c)/λ·log α",
    )
    def moves_as_printed(self, ends: dict[float, list[_End]], alphas: list[float]) -> Finding:
        return _moves_finding(ends, alphas, {c: 2 * c for c in ends})

    @correction(
        moves_as_printed,
        "e^{λt}θ/α − θ̄ ≈ (1/γ_ntk)·α^{−L}·e^{Lλt}·log(α^{2(L−1)c}/λ)·h*",
        why="f = α^L·e^{−Lλt}·⟨∇f(θ̄), e^{λt}θ/α − θ̄⟩, two lines above, is of order log(1/𝓛): what multiplies the large "
        "factor is small by the same factor. Lemma C.5 has it so.",
        touches="No: the proof uses Lemma C.5.",
        where="§3.2.1, key proof insight",
    )
    def moves_as_proved(self, ends: dict[float, list[_End]], alphas: list[float]) -> Finding:
        return _moves_finding(ends, alphas, {c: -2 * c for c in ends})


@dataclasses.dataclass(frozen=True)
class _End:
    """The end of a run, at t = (1 − c)/λ·log α, with what the theorem compares it to. L = 2."""

    X: np.ndarray
    y: np.ndarray
    widest: np.ndarray  # the direction of largest L2 margin
    gamma: float  # γ_ntk, the margin on the features (2x, −2x)
    alpha: float
    decay: float
    t: float
    w: np.ndarray
    moved: float  # ‖e^{λt}θ/α − θ̄‖
    away: float  # ‖θ/α − θ̄‖

    @property
    def off(self) -> float:
        """‖w/‖w‖ − w₂*‖."""
        return float(np.linalg.norm(_unit(self.w) - self.widest))

    @property
    def size(self) -> float:
        """‖h‖: outputs ⟨w, x⟩ = ⟨(2x, −2x), h⟩ along h* = (w₂*, −w₂*)/√2 have ‖w‖ = 2√2·‖h‖."""
        return float(np.linalg.norm(self.w)) / (2 * np.sqrt(2))

    @property
    def log_loss(self) -> float:
        return float(np.log(np.mean(np.exp(-self.margins))))

    @property
    def A(self) -> float:
        """α^{2(L−1)}/λ."""
        return self.alpha**2 / self.decay

    def worst_output(self, fresh: np.ndarray, gamma_z: float) -> float:
        """max over fresh x of |f/Z − ⟨∇f(θ̄; x), h*⟩|, relative to the largest of the latter."""
        limit = 2 * np.sqrt(2) * self.widest  # the weights of ⟨∇f(θ̄; x), h*⟩
        off = fresh @ (self.w * self.gamma / gamma_z - limit)
        return float(np.max(np.abs(off)) / np.max(np.abs(fresh @ limit)))

    @property
    def margins(self) -> np.ndarray:
        """qᵢ."""
        return self.y * (self.X @ self.w)

    def upper(self, shrinking: float = 2) -> float:
        """(8), with e^{shrinking·λt}."""
        first = 1 / (1 - self.gamma**2 / 16 * self.A * np.expm1(-2 * self.decay * self.t))
        risen = np.exp(shrinking * self.decay * self.t)
        return float(max(first, risen / (_inverse(self.gamma**2 / 16 * self.A) - 1)))

    def lower(self, power: int, exponent: float) -> float:
        """(17), with n^power/F⁻¹ and exp(exponent)/n."""
        n = len(self.y)
        steepest = 2 * np.sqrt(2) * np.max(np.linalg.norm(self.X, axis=1)) + self.gamma / 2
        first = float(n) ** power / _inverse(steepest**2 / n * self.A * np.exp(-2 * self.decay * self.t))
        return float(min(first, np.exp(exponent) / n))


def _end(run: af.Run, widest: np.ndarray) -> _End:
    return _End(
        X=run.data.inputs,
        y=run.data.targets,
        widest=_unit(widest),
        gamma=_ntk_margin(widest),
        alpha=run.spec["init"]["scale"],
        decay=run.spec["penalty"]["strength"],
        t=run.spec["dynamics"]["until"],
        w=weights_of(run),
        moved=off_the_start(run),
        away=off_the_start(run, with_decay=False),
    )


def _ntk_margin(widest: np.ndarray) -> float:
    """The margin on the features (2x, −2x) of weights that have margin 1 on x."""
    return 2 * np.sqrt(2) / float(np.linalg.norm(widest))


def _size_finding(ends: dict[float, list[_End]], factor: float, fresh: np.ndarray) -> Finding:
    """f against Z, where γ_ntk·Z = log(α^{factor·c}/λ)."""
    largest = {c: group[-1] for c, group in ends.items()}
    gamma_z = {c: np.log(end.alpha ** (factor * c) / end.decay) for c, end in largest.items()}
    worst = max(end.worst_output(fresh, gamma_z[c]) for c, end in largest.items())
    found = _share_of_c(ends)
    # The two laws have 1 and 2 for it.
    return Finding(
        f"γ_ntk·‖h‖, log log A allowed for, is log(α^{{kc}}/λ) + const with k = {found} over all α and c, for "
        f"{factor}; ‖h‖/Z at α={max(end.alpha for end in largest.values()):g}: "
        + ", ".join(f"{end.gamma * end.size / gamma_z[c]:.3f} (c={c:g})" for c, end in largest.items())
        + f"; f/Z off by up to {worst:.2f} of its largest limit over {len(fresh)} fresh x",
        found.tends_to(factor, 3 - factor),
    )


def _share_of_c(ends: dict[float, list[_End]]) -> Law:
    """k of F(e^q) = const·α^{kc}/λ with q = γ_ntk·‖h‖, by least squares; the proof's F brings the log log A."""
    every = [(c, end) for c, group in ends.items() for end in group]
    sizes = np.array([end.gamma * end.size for _, end in every])
    left = np.exp(sizes + np.log(sizes)) * [end.decay for _, end in every]
    return law([end.alpha**c for c, end in every], left)


def _moves_finding(ends: dict[float, list[_End]], alphas: list[float], expected: dict[float, float]) -> Finding:
    """‖e^{λt}θ/α − θ̄‖/log A as powers of α, by c: α^{−kc}; the rival, of one layer less, is α^{−(k−1)c}."""
    powers = laws(alphas, by_c(ends, lambda end: end.moved / np.log(end.A)))
    return Finding(
        f"‖e^{{λt}}θ/α − θ̄‖/log A goes like {in_words(powers, halves=True)}, for "
        + ", ".join(f"α^{power:g}" for power in expected.values()),
        all(power.tends_to(expected[c], expected[c] + c) for c, power in powers.items()),
    )


def _margins_finding(every: list[_End], allowed: float) -> Finding:
    """min qᵢ − log(1/𝓛), which `allowed` says how much may be missing of."""
    short = [end.margins.min() + end.log_loss for end in every]
    return Finding(
        f"min qᵢ − log(1/𝓛) between {min(short):.2f} and {max(short):.2f}, for {0.0 - allowed:.2f} or more",
        min(short) >= -allowed and max(short) <= 0,
    )


def _below(shares: list[float]) -> Finding:
    return Finding(f"𝓛 over it, {len(shares)} runs: {_range(shares)}", max(shares) <= 1)


def _above(shares: list[float]) -> Finding:
    return Finding(f"𝓛 over it, G the largest ‖∇f‖ that ε_max allows: {_range(shares)}", min(shares) >= 1)


def _inverse(y: float) -> float:
    """F⁻¹: x with x·log x = y."""
    from scipy.special import lambertw

    return float(np.exp(lambertw(y).real))


def _unit(w: np.ndarray) -> np.ndarray:
    return w / np.linalg.norm(w)


def _range(values: list[float]) -> str:
    return f"{min(values):.2g} to {max(values):.2g}"


def _draw_path(ax: Axes, run: af.Run, widest: np.ndarray) -> None:
    """The distance of w/‖w‖ from the direction of largest L2 margin over time."""
    curves, decade = run.curves.isel(time=slice(1, None)), np.log10(run.spec["init"]["scale"])
    units = curves["weights"].values / np.linalg.norm(curves["weights"].values, axis=1)[:, None]
    away = np.linalg.norm(units - widest, axis=1)
    ax.plot(curves["time"], away, color="0.2", label=rf"$\alpha=10^{{{decade:g}}}$")
    mark_shares(ax, run, _SHARES)
    ax.set(yscale="log", ylabel=r"distance of $w/\|w\|_2$ from the largest $L^2$ margin")
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)
