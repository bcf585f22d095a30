"""§4, (6)–(7): the shape of the start matters in the kernel regime and not in the rich limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers._measure import examples, log_slope, relative_distance
from afterfit.papers.woodworth2020 import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Shape"]

_SMALL, _LARGE = 1e-6, 10.0  # the first is that of the headline
_BETA, _W0 = np.array([0.5, -2.0, 1.0]), np.array([0.5, 1.0, 2.0])  # to try (6) and (7) on
_ByScale = Mapping[float, "af.Run"]


class Shape(Entry):
    paper, name = PAPER, "shape"
    title = "The shape of the start decides the kernel limit and not the rich one"
    where = "§4, (6)–(7)"
    about = (
        "The diagonal net w₊² − w₋² starts at α·w₀, for a uniform and two non-uniform w₀. As α → ∞ gradient flow ends "
        "at the least L2 norm weighted by 1/w₀², another point for each w₀. As α → 0 it ends at the least L1 norm "
        "whatever w₀ is, since Q_{α,w₀} is a sum of |βᵢ|·(log|βᵢ| − 2log α − 2log|w₀ᵢ| − 1), in which the shape weighs "
        "1/log(1/α²) of the whole. For large |z| the paper prints q(z) = |z|log|z| + O(1/|z|); it is "
        "|z|log|z| − |z| + 2 + O(1/|z|), and (7) follows all the same."
    )
    notes = (
        "The asymptote of q is printed without its terms −|z| + 2. They are small beside |z|·log|z|, so that (7), "
        "which is concluded from it, holds."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment]]:
        n, d, sparsity = (20, 40, 4) if scale == "paper" else (5, 12, 1)
        alphas = np.geomspace(_SMALL, _LARGE, 9) if scale == "paper" else (_SMALL, 1e-2, _LARGE)
        task = af.tasks.SparseRegression(n=n, d=d, sparsity=sparsity, noise_variance=0.01)
        rising = tuple(float(w) for w in np.geomspace(0.4, 2.5, d))
        shapes = {"uniform": None, "rising": rising, "falling": rising[::-1]}
        return {name: {float(alpha): _flow(task, float(alpha), w0) for alpha in alphas} for name, w0 in shapes.items()}

    def picture(self, by_shape: Mapping[str, _ByScale], least: np.ndarray) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 5.0), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        styles = {"uniform": ("k", "-", "o"), "rising": ("#D55E00", "--", "^"), "falling": ("#0072B2", "-.", "v")}
        for name, (colour, dashes, marker) in styles.items():
            group, line = by_shape[name], {"color": colour, "ls": dashes, "lw": 1.4}
            for ax, limit, smallest in ((left, least, 1e-60), (middle, _weighted_l2(group[_SMALL]), 1e-8)):
                _show_ends(ax, group, limit, smallest, {**line, "label": rf"$w_0$ {name}"}, marker)
            curves = group[_SMALL].curves.isel(time=slice(1, None))
            right.plot(curves["time"], [relative_distance(beta, least) for beta in curves["weights"].values], **line)
        left.set(ylabel=r"relative distance of $\beta$ from the least $\ell_1$ norm")
        middle.set(ylabel=r"relative distance of $\beta$ from the weighted least $\ell_2$ norm")
        left.set_xticks([1e-60, 1e-40, 1e-20, 1.0])
        right.set(yscale="log", ylabel=r"relative distance of $\beta(t)$ from the least $\ell_1$ norm")
        af.plot.log_time_axes(right)
        af.plot.mark_phases(right, by_shape["uniform"][_SMALL].verdict)
        scale = rf"$\alpha=10^{{{np.log10(_SMALL):.0f}}}$"
        right.set_title(f"{scale}, phases of the uniform start", pad=18, fontsize="medium")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
        return figure

    @once
    def by_shape(self, uniform: _ByScale, rising: _ByScale, falling: _ByScale) -> dict[str, _ByScale]:
        return {"uniform": uniform, "rising": rising, "falling": falling}

    @once
    def least(self, uniform: _ByScale) -> np.ndarray:
        """The least L1 norm on the data of all runs."""
        return af.theory.min_l1(*examples(uniform[_SMALL]))

    @claim(
        "kernel limit: the flow ends at the least L2 norm weighted by 1/w₀²",
        says="a quadratic norm weighted by diag(1/w₀²)",
    )
    def kernel_limit(self, by_shape: Mapping[str, _ByScale]) -> Finding:
        large = {name: group[_LARGE] for name, group in by_shape.items()}
        gaps = {name: relative_distance(_end(run), _weighted_l2(run)) for name, run in large.items()}
        return Finding(
            f"relative distance at α={_LARGE:g}: " + ", ".join(f"{gap:.1g} ({name})" for name, gap in gaps.items()),
            max(gaps.values()) <= 1e-3,
        )

    @claim(
        "kernel limit: it is another point for each w₀",
        says="w₀ affects the implicit bias in the kernel regime",
    )
    def kernel_limits_differ(self, rising: _ByScale, falling: _ByScale) -> Finding:
        plain, up, down = af.theory.min_l2(*examples(rising[_LARGE])), _end(rising[_LARGE]), _end(falling[_LARGE])
        gaps = {
            "rising": relative_distance(up, plain),
            "falling": relative_distance(down, plain),
            "between the two": relative_distance(up, down),
        }
        return Finding(
            f"at α={_LARGE:g}, relative distance from the plain least L2 norm: "
            + ", ".join(f"{gap:.2g} ({name})" for name, gap in gaps.items()),
            min(gaps.values()) >= 0.1,
        )

    @claim(
        "rich limit: the ends from all w₀ come together at the least L1 norm",
        says="regardless of the shape of the initialisation",
    )
    def rich_limit(self, by_shape: Mapping[str, _ByScale], least: np.ndarray) -> Finding:
        groups = by_shape.values()
        gaps = {a: max(relative_distance(_end(group[a]), least) for group in groups) for a in by_shape["uniform"]}
        farther = {
            alpha: max(relative_distance(_minimiser(group[_SMALL], alpha), least) for group in groups)
            for alpha in (1e-10, 1e-100, 1e-300)
        }
        return Finding(
            "largest relative distance of the three ends from the least L1 norm: "
            + ", ".join(f"{gap:.2g} (α={alpha:.3g})" for alpha, gap in gaps.items())
            + "; of argmin Q: "
            + ", ".join(f"{gap:.1g} (α={alpha:g})" for alpha, gap in farther.items()),
            bool(np.all(np.diff(list(gaps.values())) > 0) and farther[1e-300] <= 1e-6),
        )

    @claim("(6): Q_{α,w₀}(β) = Σ βᵢ²/(4α²w₀ᵢ²) + O(α⁻⁶)", says="a rest of order α⁻⁶")
    def for_large_scales(self) -> Finding:
        alphas = np.array([3.0, 6.0, 12.0])
        rest = [af.theory.Q(a, _W0).value(_BETA) - np.sum(_BETA**2 / (4 * a**2 * _W0**2)) for a in alphas]
        slope = log_slope(alphas, np.abs(rest))
        return Finding(
            f"the rest falls like α^{slope:.3f} from α={alphas[0]:g} to {alphas[-1]:g}", abs(slope + 6) <= 0.1
        )

    @claim("(7): Q_{α,w₀}(β)/log(1/α²) = ‖β‖₁ + O(1/log(1/α²))", says="a rest of order 1/log(1/α²)")
    def for_small_scales(self) -> Finding:
        rests = {}
        for alpha in (1e-10, 1e-100, 1e-300):
            log = -2 * np.log(alpha)
            rests[alpha] = (af.theory.Q(alpha, _W0).value(_BETA) / log - np.abs(_BETA).sum()) * log
        return Finding(
            "the rest times log(1/α²) is " + ", ".join(f"{rest:.4f} (α={alpha:g})" for alpha, rest in rests.items()),
            max(rests.values()) - min(rests.values()) <= 1e-3 * abs(rests[1e-10]),
        )

    @claim(
        "for large |z|, q(z) = |z|log|z| + O(1/|z|)",
        says="|q(z) − |z|log|z||·|z| stays bounded",
        fails="The printed asymptote lacks −|z| + 2. What is concluded from it holds.",
    )
    def for_large_arguments(self) -> Finding:
        printed = {z: z * abs(af.theory.Q(1.0).value([z]) - z * np.log(z)) for z in (1e2, 1e4, 1e6)}
        right = [z * abs(2 - np.sqrt(4 + z**2) + z * np.arcsinh(z / 2) - (z * np.log(z) - z + 2)) for z in (1e2, 1e3)]
        return Finding(
            "it is "
            + ", ".join(f"{gap:.2g} (z={z:g})" for z, gap in printed.items())
            + f"; with |z|log|z| − |z| + 2 in place of |z|log|z| {right[0]:.3f} (z=100) and {right[1]:.3f} (z=1000)",
            max(printed.values()) <= 10 * min(printed.values()),
        )


def _flow(task: af.tasks.Task, alpha: float, shape: tuple[float, ...] | None) -> af.Experiment:
    fast = max(1.0, alpha) ** 2  # large α makes the flow fast; small α leaves coordinates near 0 slow
    return af.Experiment(
        task=task,
        model=af.models.DiagonalNet(depth=2),
        dynamics=af.dynamics.GradientFlow(until=1e5 / fast, rtol=1e-8, atol=1e-12, first=1e-3 / fast),
        init=af.inits.Constant(scale=alpha, shape=shape),
        observations=60,
    )


def _w0(run: af.Run) -> np.ndarray:
    shape = run.spec["init"]["shape"]
    return np.ones(run.spec["task"]["d"]) if shape is None else np.asarray(shape)


def _end(run: af.Run) -> np.ndarray:
    return run.curves["weights"][-1].values


def _minimiser(run: af.Run, alpha: float) -> np.ndarray:
    """argmin Q_{α,w₀} for the data and the shape of a run, at any α."""
    return af.theory.Q(alpha, _w0(run)).minimise(*examples(run))


def _weighted_l2(run: af.Run) -> np.ndarray:
    """argmin Σ βᵢ²/w₀ᵢ² subject to Xβ = y."""
    return af.theory.min_l2(*examples(run), _w0(run) ** -2.0)


def _show_ends(
    ax: Axes, group: _ByScale, limit: np.ndarray, smallest: float, line: dict[str, Any], marker: str
) -> None:
    """How far argmin Q (a line) and the flows' ends (marks) are from a limit, over α."""
    alphas = np.geomspace(smallest, 1e2, 40)
    ax.plot(alphas, [relative_distance(_minimiser(group[_SMALL], alpha), limit) for alpha in alphas], **line)
    gaps = [relative_distance(_end(run), limit) for run in group.values()]
    ax.plot(list(group), gaps, ls="", mfc="none", color=line["color"], marker=marker)
    ax.set(xscale="log", yscale="log", ylim=(1e-8, 5), xlabel=r"scale $\alpha$ of the start")
    ax.set_title("lines: argmin Q, marks: gradient flow", fontsize="medium")
