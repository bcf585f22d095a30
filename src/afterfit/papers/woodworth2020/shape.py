"""§4, (6)–(7): the shape of the start matters in the kernel regime and not in the rich limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, correction, once
from afterfit.papers._measure import examples, power_law, relative_distance
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.ends import end, minimiser, parameter_flow, start_shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Shape"]

_SMALL, _LARGE = 1e-6, 10.0  # the first is that of the headline
_BETA, _W0 = np.array([0.5, -2.0, 1.0]), np.array([0.5, 1.0, 2.0])  # to try (6) and (7) on
_ByScale = Mapping[float, "af.Run"]
_Limit = Callable[["af.Run"], np.ndarray]


class Shape(Entry):
    paper, name = PAPER, "shape"
    title = "The shape of the start decides the kernel limit and not the rich one"
    where = "§4, (6)–(7)"
    about = (
        "The diagonal net w₊² − w₋² starts at α·w₀, for a uniform and two non-uniform w₀. As α → ∞ gradient flow ends "
        "at the least L2 norm weighted by 1/w₀², another point for each w₀. As α → 0 it ends at the least L1 norm "
        "whatever w₀ is, since Q_{α,w₀} is a sum of |βᵢ|·(log|βᵢ| − 2log α − 2log|w₀ᵢ| − 1), in which the shape weighs "
        "1/log(1/α²) of the whole. The flows are those of the parameters: their integrator knows nothing of Q."
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
        return _ends_in_the_kernel_limit(by_shape, 2)

    @control(kernel_limit, "weighted by 1/|w₀|")
    def other_weights(self, by_shape: Mapping[str, _ByScale]) -> Finding:
        return _ends_in_the_kernel_limit(by_shape, 1)

    @claim(
        "kernel limit: it is another point for each w₀",
        says="w₀ affects the implicit bias in the kernel regime",
    )
    def kernel_limits_differ(self, rising: _ByScale, falling: _ByScale) -> Finding:
        return _differ(rising, falling, _LARGE)

    @control(kernel_limits_differ, "near the rich limit, where they come together")
    def rich_limits_do_not(self, rising: _ByScale, falling: _ByScale) -> Finding:
        return _differ(rising, falling, _SMALL)

    @claim(
        "rich limit: the ends from all w₀ come together at the least L1 norm",
        says="regardless of the shape of the initialisation",
    )
    def rich_limit(self, by_shape: Mapping[str, _ByScale], least: np.ndarray) -> Finding:
        return _come_to(lambda run: least, by_shape)

    @control(rich_limit, "least Σ|βᵢ|/w₀ᵢ², a rich limit with the weights of the kernel limit")
    def no_weighted_l1(self, by_shape: Mapping[str, _ByScale]) -> Finding:
        return _come_to(_weighted_l1, by_shape)

    @claim("(6): Q_{α,w₀}(β) = Σ βᵢ²/(4α²w₀ᵢ²) + O(α⁻⁶)", says="a rest of order α⁻⁶")
    def for_large_scales(self) -> Finding:
        return _large_scales(4.0)

    @control(for_large_scales, "2 in place of 4, as if q(z) were z²/2")
    def not_half(self) -> Finding:
        return _large_scales(2.0)

    @claim("(7): Q_{α,w₀}(β)/log(1/α²) = ‖β‖₁ + O(1/log(1/α²))", says="a rest of order 1/log(1/α²)")
    def for_small_scales(self) -> Finding:
        return _small_scales(float(np.abs(_BETA).sum()))

    @control(for_small_scales, "Σ|βᵢ|/w₀ᵢ² in place of ‖β‖₁")
    def not_weighted(self) -> Finding:
        return _small_scales(float(np.sum(np.abs(_BETA) / _W0**2)))

    @claim(
        "for large |z|, q(z) = |z|log|z| + O(1/|z|)",
        says="§4, before (7): for large |z|, q(z) = |z|log|z| + O(1/|z|)",
    )
    def for_large_arguments(self) -> Finding:
        return _asymptote(lambda z: z * np.log(z))

    @correction(
        for_large_arguments,
        "for large |z|, q(z) = |z|log|z| − |z| + 2 + O(1/|z|); the rest is −1/|z| to leading order",
        why="√(4 + z²) = |z| + 2/|z| + … and |z|·arcsinh(|z|/2) = |z|log|z| + 1/|z| + …, so that "
        "q(z) = 2 − √(4 + z²) + z·arcsinh(z/2) = |z|log|z| − |z| + 2 − 1/|z| + …: the terms −|z| + 2 are lost.",
        touches="No: −|z| + 2 is of lower order than |z|log|z|, and (7) holds as printed.",
        where="§4, before (7)",
    )
    def with_lower_terms(self) -> Finding:
        return _asymptote(lambda z: z * np.log(z) - z + 2)


def _ends_in_the_kernel_limit(by_shape: Mapping[str, _ByScale], power: float) -> Finding:
    """The rest of (6) is α⁻⁴ = 10⁻⁴ of its leading term at α = 10, β being of order 1."""
    large = {name: group[_LARGE] for name, group in by_shape.items()}
    gaps = {name: relative_distance(end(run), _weighted_l2(run, power)) for name, run in large.items()}
    return Finding(
        f"relative distance at α={_LARGE:g}: " + ", ".join(f"{gap:.1g} ({name})" for name, gap in gaps.items()),
        max(gaps.values()) <= 1e-4,
    )


def _differ(rising: _ByScale, falling: _ByScale, alpha: float) -> Finding:
    """Whether the plain least L2 norm and the ends from two shapes are three points."""
    plain, up, down = af.theory.min_l2(*examples(rising[alpha])), end(rising[alpha]), end(falling[alpha])
    gaps = {
        "rising": relative_distance(up, plain),
        "falling": relative_distance(down, plain),
        "between the two": relative_distance(up, down),
    }
    return Finding(
        f"at α={alpha:g}, relative distance from the plain least L2 norm: "
        + ", ".join(f"{gap:.2g} ({name})" for name, gap in gaps.items()),
        min(gaps.values()) >= 0.1,
    )


def _come_to(limit: _Limit, by_shape: Mapping[str, _ByScale]) -> Finding:
    """Whether the ends from all shapes come to a limit as α falls.

    The rest of (7) falls like 1/log(1/α²), so that flows only begin to show it. They end at argmin Q, which is asked of
    them first, to 10⁻³; argmin Q is then followed to α = 10⁻³⁰⁰, where it has to be at the limit to 10⁻⁶.
    """
    groups = by_shape.values()
    by_q = max(relative_distance(end(run), minimiser(run)) for group in groups for run in group.values())
    gaps = {a: max(relative_distance(end(g[a]), limit(g[a])) for g in groups) for a in by_shape["uniform"]}
    farther = {
        alpha: max(relative_distance(minimiser(g[_SMALL], alpha=alpha), limit(g[_SMALL])) for g in groups)
        for alpha in (1e-10, 1e-100, 1e-300)
    }
    return Finding(
        "largest relative distance of the three ends: "
        + ", ".join(f"{gap:.2g} (α={alpha:.3g})" for alpha, gap in gaps.items())
        + f"; the flows are at argmin Q to {by_q:.1g}, and that is at "
        + ", ".join(f"{gap:.1g} (α={alpha:g})" for alpha, gap in farther.items()),
        bool(np.all(np.diff(list(gaps.values())) > 0)) and by_q <= 1e-3 and farther[1e-300] <= 1e-6,
    )


def _large_scales(factor: float) -> Finding:
    """The exponent of the rest of (6), to 0.1: the next power is −10."""
    alphas = np.geomspace(3.0, 12.0, 5)
    rest = [af.theory.Q(a, _W0).value(_BETA) - np.sum(_BETA**2 / (factor * a**2 * _W0**2)) for a in alphas]
    law = power_law(alphas, np.abs(rest))
    return Finding(
        f"the rest falls like α to the power {law} from α={alphas[0]:g} to {alphas[-1]:g}",
        max(abs(law.low + 6), abs(law.high + 6)) <= 0.1,
    )


def _small_scales(norm: float) -> Finding:
    """Whether the rest of (7) times log(1/α²) is the same number over 290 decades of α."""
    rests = {}
    for alpha in (1e-10, 1e-100, 1e-300):
        log = -2 * np.log(alpha)
        rests[alpha] = (af.theory.Q(alpha, _W0).value(_BETA) / log - norm) * log
    return Finding(
        "the rest times log(1/α²) is " + ", ".join(f"{rest:.4f} (α={alpha:g})" for alpha, rest in rests.items()),
        max(rests.values()) - min(rests.values()) <= 1e-3 * abs(rests[1e-10]),
    )


def _asymptote(of: Callable[[float], float]) -> Finding:
    """Whether |z| times the rest stays within a factor 2 while z grows a hundredfold."""
    rests = {z: z * abs(af.theory.Q(1.0).value([z]) - of(z)) for z in (1e2, 1e3, 1e4)}
    return Finding(
        "|z| times the rest is " + ", ".join(f"{rest:.4g} (z={z:g})" for z, rest in rests.items()),
        max(rests.values()) <= 2 * min(rests.values()),
    )


def _flow(task: af.tasks.Task, alpha: float, shape: tuple[float, ...] | None) -> af.Experiment:
    return af.Experiment(
        task=task,
        model=af.models.DiagonalNet(depth=2),
        dynamics=parameter_flow(3000.0, alpha, first=1e-3),
        init=af.inits.Constant(scale=alpha, shape=shape),
        observations=60,
    )


def _weighted_l2(run: af.Run, power: float = 2) -> np.ndarray:
    """argmin Σ βᵢ²/|w₀ᵢ|ᵖ subject to Xβ = y."""
    return af.theory.min_l2(*examples(run), np.abs(start_shape(run)) ** -power)


def _weighted_l1(run: af.Run) -> np.ndarray:
    """argmin Σ |βᵢ|/w₀ᵢ² subject to Xβ = y."""
    (X, y), weight = examples(run), start_shape(run) ** 2
    return weight * af.theory.min_l1(X * weight, y)


def _show_ends(
    ax: Axes, group: _ByScale, limit: np.ndarray, smallest: float, line: dict[str, Any], marker: str
) -> None:
    """How far argmin Q (a line) and the flows' ends (marks) are from a limit, over α."""
    alphas = np.geomspace(smallest, 1e2, 40)
    ax.plot(alphas, [relative_distance(minimiser(group[_SMALL], alpha=alpha), limit) for alpha in alphas], **line)
    gaps = [relative_distance(end(run), limit) for run in group.values()]
    ax.plot(list(group), gaps, ls="", mfc="none", color=line["color"], marker=marker)
    ax.set(xscale="log", yscale="log", ylim=(1e-8, 5), xlabel=r"scale $\alpha$ of the start")
    ax.set_title("lines: argmin Q, marks: gradient flow", fontsize="medium")
