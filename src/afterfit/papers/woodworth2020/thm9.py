"""Thm 9 and Cor. 10: the kernel regime of matrix factorisation."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, tasks
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding, run_all
from afterfit.papers.measure import log_slope
from afterfit.papers.paths import flat, initial, parameters_at
from afterfit.papers.woodworth2020.bounds import Start, start_of
from afterfit.plot import legend_below, log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Thm9"]


class Thm9(Entry):
    id = "woodworth2020/thm9"
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
    claims = (
        "the hypotheses of Thm 9 hold here",
        "‖W(T) − W(0)‖ is below its bound",
        "‖W(T) − W_TK(T)‖ is below its bound",
        "the residual has y' = −Σ(y − y*) with the Σ of (71)–(73)",
        "Cor. 10: the way is of order 1/(α√k) + α in α",
        "Cor. 10: the way is of order 1/(α√k) + α in k",
        "Cor. 10: k as large as (94) is enough for Thm 9",
        "outside the kernel regime, α²k ≪ 1, the flow leaves its tangent model",
    )

    _alphas = (0.3, 0.003, 0.01, 0.03, 0.1, 1.0)  # the first is the headline

    def experiments(self, scale: str) -> dict[str, Experiment]:
        d, k = (5, 10_000) if scale == "paper" else (4, 4_000)
        wide = models.MatrixFactorisation(k)
        return {
            f"{name} α={alpha:g}": Experiment(
                task=tasks.MatrixCompletion(d, d, 1, observed=0.5),
                model=model,
                dynamics=_flow(alpha, k),
                init=inits.Gaussian(alpha),
                observations=60,
            )
            for alpha in self._alphas
            for name, model in (("flow", wide), ("tangent", models.Tangent(wide)))
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.6), layout="constrained")
        left, *paths = figure.subplots(1, 3)
        alphas = np.sort(self._alphas)
        pairs = [_pair(runs, alpha) for alpha in alphas]
        starts = [start_of(flow) for flow, _ in pairs]
        way = [np.linalg.norm(flat(flow) - initial(flow)) for flow, _ in pairs]
        apart = [np.linalg.norm(flat(flow) - flat(tangent)) for flow, tangent in pairs]
        left.plot(alphas, way, "ko", mfc="none", label=r"$\|W-W(0)\|$")
        left.plot(alphas, apart, "ks", label=r"$\|W-W_\mathrm{TK}\|$")
        left.plot(
            alphas,
            [start.misfit / np.sqrt(2 * start.mu) for start in starts],
            color="0.5",
            lw=1.0,
            label=r"$\|y(0)-y^*\|/\sqrt{2\mu}$",
        )
        proved = [start.close and start.fits for start in starts]
        for bound, style, label in (
            ([start.way for start in starts], "--", "bound on the first"),
            ([start.apart for start in starts], ":", "bound on the second"),
        ):
            left.plot(alphas[proved], np.array(bound)[proved], color="#D55E00", ls=style, lw=1.8, label=label)
        left.set(xscale="log", yscale="log", xlabel=r"scale $\alpha$ of the start", ylabel="distance of the parameters")
        left.set_title("at the end", pad=18)
        for ax, alpha in zip(paths, (self._alphas[0], alphas[0]), strict=True):
            flow, tangent = _pair(runs, alpha)
            for run, style, label in (
                (flow, {"color": "0.55", "lw": 2.4}, "flow"),
                (tangent, {"color": "#D55E00", "ls": "--", "lw": 1.2}, "its tangent model"),
            ):
                curves = run.curves.isel(time=slice(1, None))
                lines = ax.plot(curves["time"], curves["singular_values"], **style)
                lines[0].set_label(label)
            log_time_axes(ax)
            ax.set(ylabel=r"singular values of $UV^\top$, or of its linearisation")
            ax.set_title(rf"$\alpha={alpha:g}$, $\alpha^2k={start_of(flow).mu:.3g}$", pad=18)  # above the phases
            mark_phases(ax, flow.verdict)
        legend_below(left, *paths)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        alphas = np.sort(self._alphas)
        starts = {alpha: start_of(_pair(runs, alpha)[0]) for alpha in alphas}
        proved = [alpha for alpha, start in starts.items() if start.close and start.fits]
        first = starts[self._alphas[0]]
        half = first.lifted()
        yield Finding(
            self.claims[0],
            "μ > 4Λγ/λ, and ‖y(0) − y*‖ ≤ (μλ/√Λ)(1 − √((1 + γ/μ)/(1 + λ/4Λ)))",
            f"α={self._alphas[0]:g}, d={first.d}, k={first.k}: λ={first.least:g}, Λ={first.largest:g}; "
            f"μ={first.mu:.4g}, 4Λγ/λ={4 * first.largest * first.gamma / first.least:.4g}; "
            f"‖y(0) − y*‖={first.misfit:.4g}, at most {first.allowed:.4g} ({half.allowed:.4g} if lifted); "
            "they hold for α in " + ", ".join(f"{alpha:g}" for alpha in proved),
            first.close and first.fits and half.close and half.fits,
        )
        times = np.geomspace(0.01, 1, 24 if scale == "paper" else 3)  # as shares of the time to the end
        ways, gaps = {}, {}
        for alpha in alphas:
            flow, tangent = (
                parameters_at(times * run.spec["dynamics"]["until"], Experiment.from_dict(run.spec), self.id, progress)
                for run in _pair(runs, alpha)
            )
            ways[alpha] = float(np.linalg.norm(flow - initial(_pair(runs, alpha)[0]), axis=1).max())
            gaps[alpha] = float(np.linalg.norm(flow - tangent, axis=1).max())
        for claim, formula, measured, bound in (
            (self.claims[1], "√(Λ + λ/4)·‖y(0) − y*‖/(λ√μ)", ways, "way"),
            (
                self.claims[2],
                "Λ√(1 + λ/4Λ)·‖y(0) − y*‖²/(λ²μ^{3/2}) + 2√Λ·√(1 + γ/μ)·‖y(0) − y*‖/(λ√μ)",
                gaps,
                "apart",
            ),
        ):
            printed = {alpha: measured[alpha] / getattr(starts[alpha], bound) for alpha in proved}
            lifted = max(measured[alpha] / getattr(starts[alpha].lifted(), bound) for alpha in proved)
            yield Finding(
                claim,
                f"sup_T ≤ {formula}",
                f"largest of {len(times)} times: "
                + ", ".join(f"{measured[a]:.3g}, {share:.2g} of the bound (α={a:g})" for a, share in printed.items())
                + f"; with λ and Λ of the lifted measurements at most {lifted:.2g}",
                max(*printed.values(), lifted) <= 1,
            )
        measured, four = _residual_rates(_pair(runs, self._alphas[0])[0], self.id, progress)
        errors = [float(np.linalg.norm(rate - measured) / np.linalg.norm(measured)) for rate in (four, 2 * four)]
        yield Finding(
            self.claims[3],
            "Σₘₙ = 4⟨WWᵀ, XₙXₘ⟩, X the lifted measurements, for which f = ⟨WWᵀ, X⟩",
            f"off by {errors[0]:.2g} of the flow's own rate at t=0; with 8 in place of 4, as the gradient of Σ(f − y)² "
            f"has it, by {errors[1]:.1g}",
            errors[0] <= 1e-3,
        )
        wide = [alpha for alpha in alphas if starts[alpha].mu >= 1]
        orders = {alpha: ways[alpha] / starts[alpha].order for alpha in wide}
        slope = log_slope(wide[-2:], [ways[alpha] for alpha in wide[-2:]])
        yield Finding(
            self.claims[4],
            "sup_T ‖W(T) − W(0)‖ ≤ O(1/(α√k) + α) for α² ≥ Ω(1/k)",
            f"k={first.k}: over 1/(α√k) + α it is "
            + ", ".join(f"{share:.2f} (α={alpha:g})" for alpha, share in orders.items())
            + f"; between the last two it grows like α^{slope:.2f}",
            max(orders.values()) <= 4 * min(orders.values()) and abs(slope - 1) <= 0.05,
        )
        yield self._in_width(runs, scale, progress)
        yield _printed_width(first)
        shares = {alpha: gaps[alpha] / ways[alpha] for alpha in alphas}
        yield Finding(
            self.claims[7],
            "the kernel regime needs α²√k = ω(1/√k), that is α²k → ∞",
            "‖W − W_TK‖ over ‖W − W(0)‖: "
            + ", ".join(f"{share:.2g} (α²k={starts[alpha].mu:.2g})" for alpha, share in shares.items()),
            shares[alphas[0]] >= 1 and max(shares[alpha] for alpha in proved) <= 0.02,
        )

    def _in_width(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Finding:
        """The way at a fixed α, at which 1/(α√k) is the larger term, for several widths."""
        alpha, widths = 0.03, (2_500, 10_000, 40_000) if scale == "paper" else (4_000, 16_000)
        experiment = Experiment.from_dict(_pair(runs, alpha)[0].spec)
        wide = run_all(
            {
                f"k={k}": dataclasses.replace(experiment, model=models.MatrixFactorisation(k), dynamics=_flow(alpha, k))
                for k in widths
            },
            self.id,
            progress,
        )
        ways = [float(np.linalg.norm(flat(run) - initial(run))) for run in wide.values()]
        slope = log_slope(widths, ways)
        return Finding(
            self.claims[5],
            "a wider model moves less, like 1/√k while 1/(α√k) is the larger term",
            f"α={alpha:g}: "
            + ", ".join(f"{way:.3g} (k={k})" for k, way in zip(widths, ways, strict=True))
            + f", like k^{slope:.2f}; 1/(α√k) + α itself like "
            f"k^{log_slope(widths, [1 / (alpha * np.sqrt(k)) + alpha for k in widths]):.2f}",
            -0.6 <= slope <= -0.4,
        )


def _flow(alpha: float, k: int) -> dynamics.GradientFlow:
    """The flow until the residual, which falls like e^{−4α²kt} or faster, is e⁻⁴⁰ of the first."""
    end = 10 / (alpha**2 * k)
    return dynamics.GradientFlow(until=end, first=1e-4 * end, rtol=1e-6)


def _pair(runs: Mapping[str, Run], alpha: float) -> tuple[Run, Run]:
    """The flow from a scale α, and that of its tangent model."""
    return runs[f"flow α={alpha:g}"], runs[f"tangent α={alpha:g}"]


def _residual_rates(run: Run, label: str, progress: bool | None) -> tuple[np.ndarray, np.ndarray]:
    """y' at t = 0: of the flow, and −Σ(y − y*) with the Σ of (72)."""
    experiment, start = Experiment.from_dict(run.spec), start_of(run)
    data, d = experiment.draw(), start.d
    places = np.argwhere(data.inputs.mask > 0)
    lifted = np.zeros((len(places), 2 * d, 2 * d))
    for X, (i, j) in zip(lifted, places, strict=True):
        X[i, d + j] = X[d + j, i] = 0.5
    t = 1e-6 / start.mu
    G0, G1 = (
        W @ W.T
        for W in (w.reshape(2 * d, start.k) for w in (initial(run), parameters_at([t], experiment, label, progress)[0]))
    )
    before, after = (np.tensordot(lifted, G, axes=2) for G in (G0, G1))
    sigma = 4 * np.einsum("nab,bc,mca->nm", lifted, G0, lifted)
    return (after - before) / t, -sigma @ (before - data.truth[tuple(places.T)])


def _printed_width(start: Start) -> Finding:
    """Whether the k of (94) makes the hypothesis on ‖y(0) − y*‖ hold, by the formulas of the proof alone."""
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
        Thm9.claims[6],
        "k ≥ Y/(2α²√Λ(λ + 4Λ)), beside two widths that do not depend on α and Y",
        f"by the formulas alone, ‖y*‖ = Y = {Y:.3g}, α={alpha:.1g}: at that k, {printed:.2g}, (92) allows "
        f"‖y(0) − y*‖ ≤ {allowed(printed):.2g}·Y, and y(0) is of size α²√k = {alpha**2 * np.sqrt(printed):.1g}; "
        f"(97) needs k ≥ 2Y√Λ(4 + 16Λ/λ)/(α²λ), {needed / printed:.3g} times as large, which "
        f"allows {allowed(needed):.2g}·Y: the same order in α",
        allowed(printed) >= 1,
    )
