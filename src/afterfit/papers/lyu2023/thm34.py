"""Thm 3.4 and Cor. 3.6: until (1/λ)·log α a diagonal net is the kernel classifier."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Finding, claim, once
from afterfit.papers._measure import log_slope
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.regimes import (
    STYLES,
    At,
    Regime,
    by_c,
    first_to_last,
    kernel_regime,
    margin_flows,
    mark_shares,
    weights_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm34"]

_SHARES = (0.2, 0.5, 0.8)  # 1 − c


class Thm34(Regime):
    paper, name = PAPER, "thm3.4"
    title = "Until (1/λ)·log α a diagonal net is the classifier of largest L2 margin"
    where = "Thm 3.4, Cor. 3.6, App. C.2"
    about = (
        "Gradient flow on u² − v² with the exponential loss and weight decay λ = 1/α, from u = v = (α, …, α), stopped "
        "at t = (1 − c)/λ·log α for rising α. The direction of w is compared with that of largest L2 margin, and the "
        "outputs with Z(α)·⟨∇f(θ̄; x), h*⟩. The theorem prints Z = log(α^c/λ)/γ_ntk. Its proof has log(1/𝓛) = "
        "log A − 2(L−1)(1−c)·log α + O(log log A) with A = α^{2(L−1)}/λ, which is log(α^{2(L−1)c}/λ) and not the "
        "log(α^c/λ) of the next line; the two agree for L = 3/2 only. Here L = 2. Inputs are Gaussian and labels those "
        "of a 3-sparse teacher. F⁻¹ is the inverse of x ↦ x·log x."
    )
    notes = (
        "The printed Z = log(α^c/λ)/γ_ntk is right for L = 3/2 only. The proof has log(α^{2(L−1)c}/λ), with which "
        "the outputs agree. (17) has n/F⁻¹ where its proof has 1/(n·F⁻¹), n² times lower, and that bound holds. The "
        "direction of the limit depends on neither."
    )

    def runs(self, scale: str) -> dict[str, dict[At, af.Experiment]]:
        return {"flows": margin_flows(scale, _SHARES)}

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
    )
    def tends_to_l2(self, ends: dict[float, list[_End]], reached: str) -> Finding:
        off = by_c(ends, lambda end: end.off)
        # A loss that falls like e^{−margin} evens the margins out to within 1/log(1/𝓛): slow, but without a floor.
        even = by_c(ends, lambda end: end.off * -end.log_loss)
        return Finding(
            f"distance {reached}: {first_to_last(off)}; times log(1/𝓛), which grows without end, "
            f"{_range(list(itertools.chain.from_iterable(even.values())))}",
            all(np.all(np.diff(o) < 0) for o in off.values()) and all(e[-1] <= 1.5 * e[0] for e in even.values()),
        )

    @claim(
        "the kernel classifier of Thm 3.4 is that of largest L2 margin, with γ_ntk = 2√2·γ₂",
        says="∇f(θ̄; x) = (2x, −2x)",
    )
    def kernel_is_l2(self, headline: af.Run, every: list[_End]) -> Finding:
        kernel, predictor = kernel_regime(headline)
        assert predictor.margin is not None
        alpha, first = headline.spec["init"]["scale"], every[0]
        apart = float(np.linalg.norm(_unit(kernel) - first.widest))
        ratio = predictor.margin / alpha / first.gamma  # features at αθ̄ are α^{L−1} times those at θ̄
        return Finding(
            f"directions {apart:.1g} apart, γ_ntk/(2√2·γ₂) = {ratio:.6f}",
            apart <= 1e-6 and abs(ratio - 1) <= 1e-6,
        )

    @claim(
        "f/Z tends to ⟨∇f(θ̄; x), h*⟩ with the printed Z = log(α^c/λ)/γ_ntk",
        says="Z = log(α^c/λ)/γ_ntk, as printed",
        fails="The proof has log(1/𝓛) = log A − 2(L−1)(1−c)·log α, which is log(α^{2(L−1)c}/λ): α^c for L = 3/2 only.",
    )
    def has_the_printed_size(self, ends: dict[float, list[_End]], headline: af.Run) -> Finding:
        return _size_finding(ends, {c: c + 1 for c in ends}, headline.data.test_inputs)

    @claim(
        "f/Z tends to ⟨∇f(θ̄; x), h*⟩ with Z = log(α^{2(L−1)c}/λ)/γ_ntk",
        says="Z = log(α^{2c}/λ)/γ_ntk for L = 2: what Lemmas C.4 and C.7 give",
    )
    def has_the_proved_size(self, ends: dict[float, list[_End]], headline: af.Run) -> Finding:
        return _size_finding(ends, {c: 2 * c + 1 for c in ends}, headline.data.test_inputs)

    @claim(
        "the loss is below (8), Lemma C.4",
        says="𝓛 ≤ max{1/(1 + γ²A(1 − e^{−2(L−1)λt})/16(L−1)), e^{2(L−1)λt}/(F⁻¹(γ²A/8L) − 1)}",
    )
    def is_below(self, every: list[_End]) -> Finding:
        shares = [np.exp(end.log_loss) / end.upper() for end in every]
        return Finding(f"𝓛 over it, {len(every)} runs: {_range(shares)}", max(shares) <= 1)

    @claim(
        "the loss is above (17), Lemma C.7",
        says="𝓛 ≥ min{n/F⁻¹(2G²Ae^{−2(L−1)λt}/nL), exp(1 − 2(L−1)λ)/n}",
        fails="The proof bounds 1/(n𝓛) by F⁻¹: the loss is above 1/(n·F⁻¹), where (17) has n/F⁻¹.",
    )
    def is_above(self, every: list[_End]) -> Finding:
        printed, derived = ([np.exp(end.log_loss) / end.lower(power) for end in every] for power in (1, -1))
        return Finding(
            f"𝓛 over it, G the largest ‖∇f‖ that ε_max allows: {_range(printed)}; the proof's "
            f"F(1/n𝓛) ≤ 2G²A…/nL is 𝓛 ≥ 1/(n·F⁻¹), n² = {len(every[0].y) ** 2} times lower, and over that it is "
            f"{_range(derived)}",
            min(printed) >= 1,
        )

    @claim(
        "e^{λt}θ/α − θ̄ is of order α^{−L}e^{Lλt}·log A (Lemma C.5)",
        says="O(α^{−L}·log A)·e^{Lλt}; §3.2.1 prints the inverse, α^L·e^{−Lλt}, in its size",
    )
    def moves_little(self, ends: dict[float, list[_End]], every: list[_End], alphas: list[float]) -> Finding:
        orders = [end.moved / end.order for end in every]
        fall = log_slope(alphas, [end.moved for end in ends[0.5]])
        expected = log_slope(alphas, [end.order for end in ends[0.5]])
        return Finding(
            f"‖e^{{λt}}θ/α − θ̄‖ over α^{{−L}}e^{{Lλt}}·log A: {_range(orders)}; at c=0.5 it falls like "
            f"α^{fall:.2f}, α^{{−cL}}·log A like α^{expected:.2f}",
            max(orders) <= 1 and fall < -0.5,
        )


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
        return float(np.log(np.mean(np.exp(-self.y * (self.X @ self.w)))))

    @property
    def A(self) -> float:
        """α^{2(L−1)}/λ."""
        return self.alpha**2 / self.decay

    @property
    def order(self) -> float:
        """α^{−L}·e^{Lλt}·log A."""
        return float(np.exp(2 * self.decay * self.t) / self.alpha**2 * np.log(self.A))

    def worst_output(self, fresh: np.ndarray, gamma_z: float) -> float:
        """max over fresh x of |f/Z − ⟨∇f(θ̄; x), h*⟩|, relative to the largest of the latter."""
        limit = 2 * np.sqrt(2) * self.widest  # the weights of ⟨∇f(θ̄; x), h*⟩
        off = fresh @ (self.w * self.gamma / gamma_z - limit)
        return float(np.max(np.abs(off)) / np.max(np.abs(fresh @ limit)))

    def upper(self) -> float:
        """(8)."""
        first = 1 / (1 - self.gamma**2 / 16 * self.A * np.expm1(-2 * self.decay * self.t))
        return float(max(first, np.exp(2 * self.decay * self.t) / (_inverse(self.gamma**2 / 16 * self.A) - 1)))

    def lower(self, power: int) -> float:
        """(17), with n^power/F⁻¹."""
        n = len(self.y)
        steepest = 2 * np.sqrt(2) * np.max(np.linalg.norm(self.X, axis=1)) + self.gamma / 2
        first = float(n) ** power / _inverse(steepest**2 / n * self.A * np.exp(-2 * self.decay * self.t))
        return float(min(first, np.exp(1 - 2 * self.decay) / n))


def _end(run: af.Run, widest: np.ndarray) -> _End:
    alpha, decay, t = run.spec["init"]["scale"], run.spec["penalty"]["strength"], run.spec["dynamics"]["until"]
    moved = np.exp(decay * t) / alpha * np.concatenate([run.params["plus"], run.params["minus"]]) - 1
    return _End(
        X=run.data.inputs,
        y=run.data.targets,
        widest=_unit(widest),
        gamma=2 * np.sqrt(2) / float(np.linalg.norm(widest)),
        alpha=alpha,
        decay=decay,
        t=t,
        w=weights_of(run),
        moved=float(np.linalg.norm(moved)),
    )


def _size_finding(ends: dict[float, list[_End]], rates: dict[float, float], fresh: np.ndarray) -> Finding:
    """‖h‖ and f against Z where γ_ntk·Z = rate·log α, by c."""
    largest = {c: group[-1] for c, group in ends.items()}
    gamma_z = {c: rates[c] * np.log(end.alpha) for c, end in largest.items()}
    over = {c: end.gamma * end.size / gamma_z[c] for c, end in largest.items()}
    # x·log x = y makes log x grow by q/(1 + q) of log y, q = log x: the log log A of the proof.
    slowed = {c: rates[c] * -end.log_loss / (1 - end.log_loss) for c, end in largest.items()}
    growth = [_growth(group) / slowed[c] for c, group in ends.items()]
    worst = max(end.worst_output(fresh, gamma_z[c]) for c, end in largest.items())
    return Finding(
        f"‖h‖/Z at α={max(end.alpha for end in largest.values()):g}: "
        + ", ".join(f"{share:.3f} (c={c:g})" for c, share in over.items())
        + "; its growth with log α over that of Z, log log A allowed for: "
        + ", ".join(f"{ahead:.3f}" for ahead in growth)
        + f"; f/Z off by up to {worst:.2f} of its largest limit over {len(fresh)} fresh x",
        all(abs(ahead - 1) <= 0.03 for ahead in growth),
    )


def _growth(ends: list[_End]) -> float:
    """How much γ_ntk·‖h‖ grows with log α between the two largest α."""
    before, after = ends[-2:]
    return float(after.gamma * (after.size - before.size) / np.log(after.alpha / before.alpha))


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
