"""§4, (6)–(7): the shape of the start matters in the kernel regime and not in the rich limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import examples, log_slope, relative_distance
from afterfit.plot import log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Shape"]


class Shape(Entry):
    id = "woodworth2020/shape"
    title = "The shape of the start decides the kernel limit and not the rich one"
    where = "§4, (6)–(7)"
    about = (
        "The diagonal net w₊² − w₋² starts at α·w₀, for a uniform and two non-uniform w₀. As α → ∞ gradient flow ends "
        "at the least L2 norm weighted by 1/w₀², another point for each w₀. As α → 0 it ends at the least L1 norm "
        "whatever w₀ is, since Q_{α,w₀} is a sum of |βᵢ|·(log|βᵢ| − 2log α − 2log|w₀ᵢ| − 1), in which the shape weighs "
        "1/log(1/α²) of the whole. For large |z| the paper prints q(z) = |z|log|z| + O(1/|z|); it is "
        "|z|log|z| − |z| + 2 + O(1/|z|), and (7) follows all the same."
    )
    claims = (
        "kernel limit: the flow ends at the least L2 norm weighted by 1/w₀²",
        "kernel limit: it is another point for each w₀",
        "rich limit: the ends from all w₀ come together at the least L1 norm",
        "(6): Q_{α,w₀}(β) = Σ βᵢ²/(4α²w₀ᵢ²) + O(α⁻⁶)",
        "(7): Q_{α,w₀}(β)/log(1/α²) = ‖β‖₁ + O(1/log(1/α²))",
        "for large |z|, q(z) = |z|log|z| + O(1/|z|)",
    )

    _alphas = (1e-6, 1e-2, 10.0)  # the first is the headline

    def experiments(self, scale: str) -> dict[str, Experiment]:
        n, d, sparsity = (20, 40, 4) if scale == "paper" else (5, 12, 1)
        alphas = np.geomspace(self._alphas[0], self._alphas[-1], 9) if scale == "paper" else self._alphas
        rising = np.geomspace(0.4, 2.5, d)
        shapes = {"uniform": None, "rising": rising, "falling": rising[::-1]}
        return {
            f"{name} α={alpha:.3g}": Experiment(
                task=tasks.SparseRegression(n=n, d=d, sparsity=sparsity, noise_variance=0.01),
                model=models.DiagonalNet(depth=2),
                # Large α makes the flow fast (its rates grow like α²); small α leaves coordinates near 0 slow.
                dynamics=dynamics.GradientFlow(
                    until=1e5 / max(1.0, alpha) ** 2, rtol=1e-8, atol=1e-12, first=1e-3 / max(1.0, alpha) ** 2
                ),
                init=inits.Constant(scale=float(alpha), shape=None if w0 is None else tuple(map(float, w0))),
                observations=60,
            )
            for alpha in alphas
            for name, w0 in shapes.items()
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 5.0), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        styles = {
            "uniform": {"color": "k", "ls": "-", "marker": "o"},
            "rising": {"color": "#D55E00", "ls": "--", "marker": "^"},
            "falling": {"color": "#0072B2", "ls": "-.", "marker": "v"},
        }
        X, y = examples(next(iter(runs.values())))
        least = theory.min_l1(X, y)
        for name, style in styles.items():
            group = [run for key, run in runs.items() if key.startswith(name)]
            line, mark = {k: style[k] for k in ("color", "ls")}, {"color": style["color"], "marker": style["marker"]}
            shape, weighted = _shape(group[0]), _weighted_l2(group[0])
            for ax, end, smallest in ((left, least, 1e-60), (middle, weighted, 1e-8)):
                alphas = np.geomspace(smallest, 1e2, 40)
                ends = [theory.Q(alpha, shape).minimise(X, y) for alpha in alphas]
                ax.plot(alphas, [relative_distance(beta, end) for beta in ends], **line, lw=1.4, label=rf"$w_0$ {name}")
                ax.plot(
                    [_alpha(run) for run in group],
                    [relative_distance(_end(run), end) for run in group],
                    ls="",
                    mfc="none",
                    **mark,
                )
            curves = group[0].curves.isel(time=slice(1, None))
            right.plot(
                curves["time"], [relative_distance(beta, least) for beta in curves["weights"].values], **line, lw=1.4
            )
        left.set(ylabel=r"relative distance of $\beta$ from the least $\ell_1$ norm")
        middle.set(ylabel=r"relative distance of $\beta$ from the weighted least $\ell_2$ norm")
        for ax in (left, middle):
            ax.set(xscale="log", yscale="log", ylim=(1e-8, 5), xlabel=r"scale $\alpha$ of the start")
            ax.set_title("lines: argmin Q, marks: gradient flow", fontsize="medium")
        left.set_xticks([1e-60, 1e-40, 1e-20, 1.0])
        right.set(yscale="log", ylabel=r"relative distance of $\beta(t)$ from the least $\ell_1$ norm")
        log_time_axes(right)
        headline = next(iter(runs.values()))
        mark_phases(right, headline.verdict)
        right.set_title(
            rf"$\alpha=10^{{{np.log10(_alpha(headline)):.0f}}}$, phases of the uniform start", pad=18, fontsize="medium"
        )
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        small, large = (
            {key.split()[0]: run for key, run in runs.items() if _alpha(run) == alpha}
            for alpha in (self._alphas[0], self._alphas[-1])
        )
        X, y = examples(small["uniform"])
        gaps = {name: relative_distance(_end(run), _weighted_l2(run)) for name, run in large.items()}
        yield Finding(
            self.claims[0],
            "a quadratic norm weighted by diag(1/w₀²)",
            f"relative distance at α={self._alphas[-1]:g}: " + ", ".join(f"{gap:.1g} ({k})" for k, gap in gaps.items()),
            max(gaps.values()) <= 1e-3,
        )
        plain = theory.min_l2(X, y)
        wrong = {name: relative_distance(_end(run), plain) for name, run in large.items() if name != "uniform"}
        wrong["between the two"] = relative_distance(_end(large["rising"]), _end(large["falling"]))
        yield Finding(
            self.claims[1],
            "w₀ affects the implicit bias in the kernel regime",
            f"at α={self._alphas[-1]:g}, relative distance from the plain least L2 norm: "
            + ", ".join(f"{gap:.2g} ({name})" for name, gap in wrong.items()),
            min(wrong.values()) >= 0.1,
        )
        least = theory.min_l1(X, y)
        by_alpha = {
            alpha: max(relative_distance(_end(run), least) for run in runs.values() if _alpha(run) == alpha)
            for alpha in sorted({_alpha(run) for run in runs.values()})
        }
        farther = {
            alpha: max(relative_distance(theory.Q(alpha, _shape(run)).minimise(X, y), least) for run in small.values())
            for alpha in (1e-10, 1e-100, 1e-300)
        }
        yield Finding(
            self.claims[2],
            "regardless of the shape of the initialisation",
            "largest relative distance of the three ends from the least L1 norm: "
            + ", ".join(f"{gap:.2g} (α={alpha:.3g})" for alpha, gap in by_alpha.items())
            + "; of argmin Q: "
            + ", ".join(f"{gap:.1g} (α={alpha:g})" for alpha, gap in farther.items()),
            bool(np.all(np.diff(list(by_alpha.values())) > 0) and farther[1e-300] <= 1e-6),
        )
        beta, w0 = np.array([0.5, -2.0, 1.0]), np.array([0.5, 1.0, 2.0])
        alphas = np.array([3.0, 6.0, 12.0])
        rest = [theory.Q(a, w0).value(beta) - np.sum(beta**2 / (4 * a**2 * w0**2)) for a in alphas]
        slope = log_slope(alphas, np.abs(rest))
        yield Finding(
            self.claims[3],
            "a rest of order α⁻⁶",
            f"the rest falls like α^{slope:.3f} from α={alphas[0]:g} to {alphas[-1]:g}",
            abs(slope + 6) <= 0.1,
        )
        l1 = np.abs(beta).sum()
        tiny = (1e-10, 1e-100, 1e-300)
        scaled = [(theory.Q(a, w0).value(beta) / (-2 * np.log(a)) - l1) * -2 * np.log(a) for a in tiny]
        yield Finding(
            self.claims[4],
            "a rest of order 1/log(1/α²)",
            "the rest times log(1/α²) is " + ", ".join(f"{r:.4f} (α={a:g})" for r, a in zip(scaled, tiny, strict=True)),
            max(scaled) - min(scaled) <= 1e-3 * abs(scaled[0]),
        )
        far = np.array([1e2, 1e4, 1e6])
        printed = [z * abs(theory.Q(1.0).value([z]) - z * np.log(z)) for z in far]
        right = [z * abs(2 - np.sqrt(4 + z**2) + z * np.arcsinh(z / 2) - (z * np.log(z) - z + 2)) for z in (1e2, 1e3)]
        yield Finding(
            self.claims[5],
            "|q(z) − |z|log|z||·|z| stays bounded",
            "it is "
            + ", ".join(f"{gap:.2g} (z={z:g})" for gap, z in zip(printed, far, strict=True))
            + f"; with |z|log|z| − |z| + 2 in place of |z|log|z| {right[0]:.3f} (z=100) and {right[1]:.3f} (z=1000)",
            max(printed) <= 10 * min(printed),
        )


def _alpha(run: Run) -> float:
    return run.spec["init"]["scale"]


def _shape(run: Run) -> np.ndarray:
    """w₀."""
    shape = run.spec["init"]["shape"]
    return np.ones(run.spec["task"]["d"]) if shape is None else np.asarray(shape)


def _end(run: Run) -> np.ndarray:
    return run.curves["weights"][-1].values


def _weighted_l2(run: Run) -> np.ndarray:
    """argmin Σ βᵢ²/w₀ᵢ² subject to Xβ = y."""
    return theory.min_l2(*examples(run), _shape(run) ** -2.0)
