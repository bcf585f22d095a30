"""Thm 9 and Cor. 10: the kernel regime of matrix factorisation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once, run_all
from afterfit.papers._measure import log_slope, relative_distance
from afterfit.papers._paths import flat, initial, parameters_at
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.bounds import Start, start_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm9"]

_ALPHA = 0.3  # of the headline
_ALPHAS = (0.003, 0.01, 0.03, 0.1, _ALPHA, 1.0)
_ByScale = Mapping[float, "af.Run"]
_Starts = Mapping[float, Start]
_Ways = Mapping[float, float]


class Thm9(Entry):
    paper, name = PAPER, "thm9"
    title = "Wide matrix factorisation stays near its tangent model"
    where = "Thm 9, Cor. 10, App. H"
    about = (
        "UVᵀ with k columns is fitted to some entries of a matrix by gradient flow on Σ(f − y)², from N(0, α²) "
        "entries; W is U above V, and W_TK the flow of the model linearised at W(0), in closed form. Thm 9 bounds the "
        "way of W and its distance from W_TK, if W(0)W(0)ᵀ is within γ of μI and the start fits well enough. Observed "
        "entries are orthonormal measurements: λ = Λ = 1 in the theorem. Its 𝒳 has the rows vec(Xₙ), "
        "while its proof is about the lifted measurements ½[0 Xₙ; Xₙᵀ 0], for which λ and Λ are half as large: both "
        "readings are checked. W(0)W(0)ᵀ is 2d x 2d, so the hypotheses need k ≥ 2d, not k ≥ d. The factors of the "
        "proof are not those of the loss: for Σ(f − y)² it is W' = −4ΣrₙX̄ₙW and Σ = 8𝒳̄(I ⊗ WWᵀ)𝒳̄ᵀ. With these, and λ "
        "and Λ those of 𝒳, its steps give 2√2/3 of the printed bounds, which therefore hold. The second bound is "
        "about twice the first, no more than the triangle inequality; what is measured is far below it."
    )
    notes = (
        "Σ in (71)–(73) is half of what the gradient of Σ(f − y)² gives. The bounds of the theorem stand: with the "
        "right factor the same proof gives smaller ones. In Cor. 10 the last of the widths (94) is upside down: "
        "(97), which it is to ensure, needs a width several hundred times as large; the order in α is the same."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment]]:
        d, k = (5, 10_000) if scale == "paper" else (4, 4_000)
        wide = af.models.MatrixFactorisation(k)
        alphas = (_ALPHA, *(alpha for alpha in _ALPHAS if alpha != _ALPHA))
        return {
            name: {
                alpha: af.Experiment(
                    task=af.tasks.MatrixCompletion(d, d, 1, observed=0.5),
                    model=model,
                    dynamics=_flow(alpha, k),
                    init=af.inits.Gaussian(alpha),
                    observations=60,
                )
                for alpha in alphas
            }
            for name, model in (("flows", wide), ("tangents", af.models.Tangent(wide)))
        }

    def picture(self, flows: _ByScale, tangents: _ByScale, starts: _Starts, proved: list[float]) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.6), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _show_ends(left, flows, tangents, starts)
        _show_bounds(left, starts, proved)
        for ax, alpha in ((middle, _ALPHA), (right, _ALPHAS[0])):
            _show_path(ax, flows[alpha], tangents[alpha])
            ax.set_title(rf"$\alpha={alpha:g}$, $\alpha^2k={starts[alpha].mu:.3g}$", pad=18)  # above the phases
        af.plot.legend_below(left, middle, right)
        return figure

    @once
    def starts(self, flows: _ByScale) -> dict[float, Start]:
        """What Thm 9 asks of each start, by α."""
        return {alpha: start_of(flows[alpha]) for alpha in _ALPHAS}

    @once
    def proved(self, starts: _Starts) -> list[float]:
        """The α of which Thm 9 speaks."""
        return [alpha for alpha, start in starts.items() if start.close and start.fits]

    @once
    def shares(self, scale: str) -> np.ndarray:
        """When the paths are looked at, as shares of the time to the end."""
        return np.geomspace(0.01, 1, 24 if scale == "paper" else 3)

    @once
    def moved(
        self, flows: _ByScale, tangents: _ByScale, shares: np.ndarray, progress: bool | None
    ) -> dict[float, tuple[float, float]]:
        """The largest ‖W − W(0)‖ and the largest ‖W − W_TK‖ at those times, by α."""
        moved = {}
        for alpha in _ALPHAS:
            W, W_TK = (
                parameters_at(shares * run.spec["dynamics"]["until"], run.experiment, self.id, progress)
                for run in (flows[alpha], tangents[alpha])
            )
            moved[alpha] = _largest(W - initial(flows[alpha])), _largest(W - W_TK)
        return moved

    @once
    def ways(self, moved: Mapping[float, tuple[float, float]]) -> dict[float, float]:
        """sup ‖W − W(0)‖, by α."""
        return {alpha: way for alpha, (way, _) in moved.items()}

    @once
    def gaps(self, moved: Mapping[float, tuple[float, float]]) -> dict[float, float]:
        """sup ‖W − W_TK‖, by α."""
        return {alpha: gap for alpha, (_, gap) in moved.items()}

    @claim(
        "the hypotheses of Thm 9 hold here",
        says="μ > 4Λγ/λ, and ‖y(0) − y*‖ ≤ (μλ/√Λ)(1 − √((1 + γ/μ)/(1 + λ/4Λ)))",
    )
    def hypotheses(self, starts: _Starts, proved: list[float]) -> Finding:
        start, lifted = starts[_ALPHA], starts[_ALPHA].lifted()
        return Finding(
            f"α={_ALPHA:g}, d={start.d}, k={start.k}: λ={start.least:g}, Λ={start.largest:g}; "
            f"μ={start.mu:.4g}, 4Λγ/λ={4 * start.largest * start.gamma / start.least:.4g}; "
            f"‖y(0) − y*‖={start.misfit:.4g}, at most {start.allowed:.4g} ({lifted.allowed:.4g} if lifted); "
            "they hold for α in " + ", ".join(f"{alpha:g}" for alpha in proved),
            start.close and start.fits and lifted.close and lifted.fits,
        )

    @claim("‖W(T) − W(0)‖ is below its bound", says="sup_T ≤ √(Λ + λ/4)·‖y(0) − y*‖/(λ√μ)")
    def way_is_bounded(self, ways: _Ways, starts: _Starts, proved: list[float], shares: np.ndarray) -> Finding:
        bounds = {alpha: starts[alpha].way for alpha in proved}
        lifted = {alpha: starts[alpha].lifted().way for alpha in proved}
        return _below(ways, bounds, lifted, len(shares))

    @claim(
        "‖W(T) − W_TK(T)‖ is below its bound",
        says="sup_T ≤ Λ√(1 + λ/4Λ)·‖y(0) − y*‖²/(λ²μ^{3/2}) + 2√Λ·√(1 + γ/μ)·‖y(0) − y*‖/(λ√μ)",
    )
    def gap_is_bounded(self, gaps: _Ways, starts: _Starts, proved: list[float], shares: np.ndarray) -> Finding:
        bounds = {alpha: starts[alpha].apart for alpha in proved}
        lifted = {alpha: starts[alpha].lifted().apart for alpha in proved}
        return _below(gaps, bounds, lifted, len(shares))

    @claim(
        "the residual has y' = −Σ(y − y*) with the Σ of (71)–(73)",
        says="Σₘₙ = 4⟨WWᵀ, XₙXₘ⟩, X the lifted measurements, for which f = ⟨WWᵀ, X⟩",
        fails="The gradient of Σ(f − y)² with f = ⟨WWᵀ, X⟩ has 8 where (72) has 4. The bounds are loose enough to "
        "stay.",
    )
    def residual_moves(self, flows: _ByScale, progress: bool | None) -> Finding:
        measured, four = _residual_rates(flows[_ALPHA], self.id, progress)
        off, off_eight = relative_distance(four, measured), relative_distance(2 * four, measured)
        return Finding(
            f"off by {off:.2g} of the flow's own rate at t=0; with 8 in place of 4, as the gradient of Σ(f − y)² "
            f"has it, by {off_eight:.1g}",
            off <= 1e-3,
        )

    @claim(
        "Cor. 10: the way is of order 1/(α√k) + α in α",
        says="sup_T ‖W(T) − W(0)‖ ≤ O(1/(α√k) + α) for α² ≥ Ω(1/k)",
    )
    def way_over_scales(self, ways: _Ways, starts: _Starts) -> Finding:
        orders = {alpha: ways[alpha] / start.order for alpha, start in starts.items() if start.mu >= 1}
        last = list(orders)[-2:]
        slope = log_slope(last, [ways[alpha] for alpha in last])
        return Finding(
            f"k={starts[_ALPHA].k}: over 1/(α√k) + α it is "
            + ", ".join(f"{share:.2f} (α={alpha:g})" for alpha, share in orders.items())
            + f"; between the last two it grows like α^{slope:.2f}",
            max(orders.values()) <= 4 * min(orders.values()) and abs(slope - 1) <= 0.05,
        )

    @claim(
        "Cor. 10: the way is of order 1/(α√k) + α in k",
        says="a wider model moves less, like 1/√k while 1/(α√k) is the larger term",
    )
    def way_over_widths(self, flows: _ByScale, scale: str, progress: bool | None) -> Finding:
        alpha, widths = 0.03, (2_500, 10_000, 40_000) if scale == "paper" else (4_000, 16_000)
        experiments = {
            f"k={k}": dataclasses.replace(
                flows[alpha].experiment, model=af.models.MatrixFactorisation(k), dynamics=_flow(alpha, k)
            )
            for k in widths
        }
        runs = run_all(experiments, self.id, progress).values()
        ways = [float(np.linalg.norm(flat(run) - initial(run))) for run in runs]
        slope, wanted = (log_slope(widths, w) for w in (ways, [1 / (alpha * np.sqrt(k)) + alpha for k in widths]))
        return Finding(
            f"α={alpha:g}: "
            + ", ".join(f"{way:.3g} (k={k})" for k, way in zip(widths, ways, strict=True))
            + f", like k^{slope:.2f}; 1/(α√k) + α itself like k^{wanted:.2f}",
            -0.6 <= slope <= -0.4,
        )

    @claim(
        "Cor. 10: k as large as (94) is enough for Thm 9",
        says="k ≥ Y/(2α²√Λ(λ + 4Λ)), beside two widths that do not depend on α and Y",
        fails="The last width of (94) is upside down: (97) needs one (4(λ + 4Λ)√Λ/λ)² times as large, 400 at "
        "λ = Λ = 1.",
    )
    def wide_enough(self, starts: _Starts) -> Finding:
        """By the formulas of the proof alone: whether the hypothesis on ‖y(0) − y*‖ holds with that k."""
        start = starts[_ALPHA]
        d, Y, least, largest = start.d, start.target, start.least, start.largest
        ratio = 4 + 16 * largest / least
        others = max(8192 * largest**2 * d / least**2, 512 * d**3 * largest**3 * ratio**2 / least**2)
        alpha = 0.1 * np.sqrt(Y / others)  # so small that the last of the three widths is the largest

        def allowed(k: float) -> float:
            """The ‖y(0) − y*‖ that (92) allows, over Y."""
            gamma, mu = 8 * alpha**2 * np.sqrt(2 * k * d), alpha**2 * k
            return dataclasses.replace(start, k=round(k), alpha=alpha, mu=mu, gamma=gamma).allowed / Y

        printed = Y / (2 * alpha**2 * np.sqrt(largest) * (least + 4 * largest))
        needed = 2 * Y * np.sqrt(largest) * ratio / (alpha**2 * least)  # what (97) uses
        return Finding(
            f"by the formulas alone, ‖y*‖ = Y = {Y:.3g}, α={alpha:.1g}: at that k, {printed:.2g}, (92) allows "
            f"‖y(0) − y*‖ ≤ {allowed(printed):.2g}·Y, and y(0) is of size α²√k = {alpha**2 * np.sqrt(printed):.1g}; "
            f"(97) needs k ≥ 2Y√Λ(4 + 16Λ/λ)/(α²λ), {needed / printed:.3g} times as large, which "
            f"allows {allowed(needed):.2g}·Y: the same order in α",
            allowed(printed) >= 1,
        )

    @claim(
        "outside the kernel regime, α²k ≪ 1, the flow leaves its tangent model",
        says="the kernel regime needs α²√k = ω(1/√k), that is α²k → ∞",
    )
    def leaves_outside(self, ways: _Ways, gaps: _Ways, starts: _Starts, proved: list[float]) -> Finding:
        shares = {alpha: gaps[alpha] / ways[alpha] for alpha in _ALPHAS}
        return Finding(
            "‖W − W_TK‖ over ‖W − W(0)‖: "
            + ", ".join(f"{share:.2g} (α²k={starts[alpha].mu:.2g})" for alpha, share in shares.items()),
            shares[_ALPHAS[0]] >= 1 and max(shares[alpha] for alpha in proved) <= 0.02,
        )


def _flow(alpha: float, k: int) -> af.dynamics.GradientFlow:
    """The flow until the residual, which falls like e^{−4α²kt} or faster, is e⁻⁴⁰ of the first."""
    end = 10 / (alpha**2 * k)
    return af.dynamics.GradientFlow(until=end, first=1e-4 * end, rtol=1e-6)


def _largest(apart: np.ndarray) -> float:
    return float(np.linalg.norm(apart, axis=1).max())


def _below(measured: _Ways, bounds: _Ways, lifted: _Ways, times: int) -> Finding:
    """Whether what was measured is below its bounds, with λ and Λ of 𝒳 and of the lifted measurements."""
    shares = {alpha: measured[alpha] / bound for alpha, bound in bounds.items()}
    largest = max(measured[alpha] / bound for alpha, bound in lifted.items())
    return Finding(
        f"largest of {times} times: "
        + ", ".join(f"{measured[a]:.3g}, {share:.2g} of the bound (α={a:g})" for a, share in shares.items())
        + f"; with λ and Λ of the lifted measurements at most {largest:.2g}",
        max(*shares.values(), largest) <= 1,
    )


def _residual_rates(run: af.Run, label: str, progress: bool | None) -> tuple[np.ndarray, np.ndarray]:
    """y' at t = 0: of the flow, and −Σ(y − y*) with the Σ of (72)."""
    start = start_of(run)
    d, t = start.d, 1e-6 / start.mu
    places = np.argwhere(run.data.inputs.mask > 0)
    lifted = np.zeros((len(places), 2 * d, 2 * d))
    for X, (i, j) in zip(lifted, places, strict=True):
        X[i, d + j] = X[d + j, i] = 0.5
    W0, W1 = (w.reshape(2 * d, start.k) for w in (initial(run), parameters_at([t], run.experiment, label, progress)[0]))
    before, after = (np.tensordot(lifted, W @ W.T, axes=2) for W in (W0, W1))
    sigma = 4 * np.einsum("nab,bc,mca->nm", lifted, W0 @ W0.T, lifted)
    return (after - before) / t, -sigma @ (before - run.data.truth[tuple(places.T)])


def _show_ends(ax: Axes, flows: _ByScale, tangents: _ByScale, starts: _Starts) -> None:
    """The way of W and its distance from W_TK at the end, over α."""
    way = [np.linalg.norm(flat(flows[alpha]) - initial(flows[alpha])) for alpha in _ALPHAS]
    apart = [np.linalg.norm(flat(flows[alpha]) - flat(tangents[alpha])) for alpha in _ALPHAS]
    guide = [starts[alpha].misfit / np.sqrt(2 * starts[alpha].mu) for alpha in _ALPHAS]
    ax.plot(_ALPHAS, way, "ko", mfc="none", label=r"$\|W-W(0)\|$")
    ax.plot(_ALPHAS, apart, "ks", label=r"$\|W-W_\mathrm{TK}\|$")
    ax.plot(_ALPHAS, guide, color="0.5", lw=1.0, label=r"$\|y(0)-y^*\|/\sqrt{2\mu}$")
    ax.set(xscale="log", yscale="log", xlabel=r"scale $\alpha$ of the start", ylabel="distance of the parameters")
    ax.set_title("at the end", pad=18)


def _show_bounds(ax: Axes, starts: _Starts, proved: list[float]) -> None:
    """The bounds of Thm 9, where it speaks."""
    ways, gaps = [starts[alpha].way for alpha in proved], [starts[alpha].apart for alpha in proved]
    ax.plot(proved, ways, color="#D55E00", ls="--", lw=1.8, label="bound on the first")
    ax.plot(proved, gaps, color="#D55E00", ls=":", lw=1.8, label="bound on the second")


def _show_path(ax: Axes, flow: af.Run, tangent: af.Run) -> None:
    """The singular values of UVᵀ over time, by the flow and by its tangent model."""
    looks: tuple[tuple[af.Run, dict[str, Any], str], ...] = (
        (flow, {"color": "0.55", "lw": 2.4}, "flow"),
        (tangent, {"color": "#D55E00", "ls": "--", "lw": 1.2}, "its tangent model"),
    )
    for run, style, label in looks:
        curves = run.curves.isel(time=slice(1, None))
        lines = ax.plot(curves["time"], curves["singular_values"], **style)
        lines[0].set_label(label)
    af.plot.log_time_axes(ax)
    ax.set(ylabel=r"singular values of $UV^\top$, or of its linearisation")
    af.plot.mark_phases(ax, flow.verdict)
