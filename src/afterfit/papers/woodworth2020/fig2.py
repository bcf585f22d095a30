"""Fig. 2 and (8)–(9): the distance from the start is not what gradient flow minimises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers._measure import examples, relative_distance
from afterfit.papers.woodworth2020 import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Fig2"]

_ALPHA = 0.1  # of the headline
_Q: dict[str, Any] = {"color": "#222222", "ls": "-", "lw": 1.8}
_R: dict[str, Any] = {"color": "#D55E00", "ls": "--", "lw": 1.8}


class Fig2(Entry):
    paper, name = PAPER, "fig2"
    title = "The flow does not minimise the distance from its start"
    where = "Fig. 2, (8)–(9), §4"
    about = (
        "R_α(β) is the least ‖w − α1‖² over parameters with w₊² − w₋² = β. It looks like Q_α and has the same limits, "
        "L2 for α → ∞ and L1 for α → 0, but the flow ends at argmin Q_α. R_α(β) = α²Σr(βᵢ/α²); the paper has "
        "no α². r(z) is the smaller of two real roots of the quartic that the paper prints, where it says that there "
        "is one. With s the multiplier of w₊² − w₋² = z the nearest point is (1/(1 − s), 1/(1 + s)), so "
        "z = (1 − s)⁻² − (1 + s)⁻² = h₄(s) and r is the q₄ of Thm 3: from its start, depth 2 is explicitly what depth "
        "4 is implicitly."
    )
    notes = (
        "p_z has two real roots, and r is the smaller. ‖w − α1‖² is of order α², so that R_{α,1} is α²Σr(βᵢ/α²); "
        "the printed sum lacks the α². Neither changes where the minimum of R is."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment]]:
        n, d, sparsity = (40, 100, 5) if scale == "paper" else (6, 16, 2)
        return {
            "flows": {
                alpha: af.Experiment(
                    task=af.tasks.SparseRegression(n=n, d=d, sparsity=sparsity, noise_variance=0.01),
                    model=af.models.DiagonalNet(depth=2),
                    dynamics=af.dynamics.GradientFlow(until=200.0, rtol=1e-9, atol=1e-12, first=1e-3),
                    init=af.inits.Constant(scale=alpha),
                    observations=80,
                )
                for alpha in (_ALPHA, 0.3)
            }
        }

    def picture(self, flows: Mapping[float, af.Run]) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.4), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _show_potentials(left)
        _show_rates(middle)
        _show_flow(right, flows[_ALPHA])
        af.plot.legend_below(left, middle, right, ncols=3)
        return figure

    @once
    def searched(self, scale: str) -> dict[float, float]:
        """r(z) by search."""
        return {float(z): nearest(z) for z in np.geomspace(0.01, 1e3, 60 if scale == "paper" else 12)}

    @claim(
        "r(z) = min ‖w − 1‖² over w₊² − w₋² = z is a root of p_z",
        says="p_z(u) = u⁴ − 6u³ + (12 − 2z²)u² − (8 + 10z²)u + z² + z⁴",
    )
    def is_a_root(self, searched: Mapping[float, float]) -> Finding:
        at_root = max(
            float(np.abs(np.polyval(quartic(z), r)) / np.polyval(np.abs(quartic(z)), r)) for z, r in searched.items()
        )
        by_theory = max(abs(_r(z) / r - 1) for z, r in searched.items())
        return Finding(
            f"r by search, {len(searched)} values of z from {min(searched):g} to {max(searched):g}: |p_z(r)| is at "
            f"most {at_root:.1g} of its terms; theory.R agrees with the search to {by_theory:.1g}",
            at_root <= 1e-9 and by_theory <= 1e-7,
        )

    @claim(
        "r(z) is the unique real root of p_z",
        says="one real root",
        fails="Of p_z two roots are real; r is the smaller.",
    )
    def is_the_only_root(self, searched: Mapping[float, float]) -> Finding:
        real = {z: real_roots(z) for z in searched}
        which = max(abs(real[z][0] / r - 1) for z, r in searched.items())
        return Finding(
            f"p_z has {min(map(len, real.values()))} real roots for each z, "
            f"{' and '.join(f'{u:.4g}' for u in real_roots(1.0))} "
            f"at z=1, where r = {nearest(1.0):.4g}; r is the smaller, to {which:.1g}",
            all(len(roots) == 1 for roots in real.values()),
        )

    @claim(
        "R_{α,1}(β) = Σ r(βᵢ/α²)",
        says="equality",
        fails="Printed without the α² that ‖w − α1‖² has.",
    )
    def sums_r(self) -> Finding:
        alpha, beta = 0.1, np.array([0.5, -2.0])
        printed = sum(nearest(b / alpha**2) for b in beta)
        true = sum(_nearest_from(abs(b), alpha) for b in beta)
        return Finding(
            f"α={alpha:g}, β=(0.5, −2): min ‖w − α1‖² = {true:.4g} by search, Σr(βᵢ/α²) = {printed:.4g}, "
            f"α²Σr(βᵢ/α²) = {alpha**2 * printed:.4g}",
            abs(true / printed - 1) <= 1e-6,
        )

    @claim("q and r are not simple rescalings of each other", says="r is algebraic, q is not")
    def no_rescaling(self) -> Finding:
        ratios = {z: _q(z) / _r(z) for z in (1e-3, 1.0, 1e3, 1e6, 1e9)}
        # b·q(az) is b·a·|z|·log|z| for large z and r(z) is |z|: no a and b make r/|z| and b·q(az)/|z| agree.
        growth, level = (f(1e10) / (10 * f(1e9)) - 1 for f in (_q, _r))
        return Finding(
            "q/r is " + ", ".join(f"{ratio:.3g} (z={z:g})" for z, ratio in ratios.items()) + "; from z=10⁹ to 10¹⁰ "
            f"q(z)/z grows by {growth:.2g} of itself, as log z does, and r(z)/z by {level:.1g}",
            growth > 0.04 and level < 1e-4 and ratios[1e9] > 2 * ratios[1e3],
        )

    @claim(
        "R_α has the same limits as Q_α: min-L1 as α → 0 and min-L2 as α → ∞",
        says="the limiting behaviour of the two matches",
    )
    def same_limits(self, flows: Mapping[float, af.Run]) -> Finding:
        X, y = examples(flows[_ALPHA])

        def gaps(alpha: float, limit: np.ndarray) -> list[float]:
            return [relative_distance(p(alpha).minimise(X, y), limit) for p in (af.theory.R, af.theory.Q)]

        small, large = gaps(1e-8, af.theory.min_l1(X, y)), gaps(1e4, af.theory.min_l2(X, y))
        return Finding(
            f"distance of argmin R_α from min-L1 at α=1e-8: {small[0]:.1g} (argmin Q_α: {small[1]:.1g}); "
            f"from min-L2 at α=1e4: {large[0]:.1g} ({large[1]:.1g})",
            small[0] <= 1e-4 and large[0] <= 1e-4,
        )

    @claim(
        "R_α approaches ‖·‖₁ polynomially in α, Q_α only logarithmically",
        says="polynomially, against exponentially small α for Q",
    )
    def other_rates(self) -> Finding:
        slope = np.log(_gap_r(1e-4) / _gap_r(1e-8)) / np.log(1e4)
        logs = _gap_q(1e-8) / _gap_q(1e-4)
        return Finding(
            f"for |βᵢ|=1: |R_α/‖β‖₁ − 1| is {_gap_r(1e-4):.1g} (α=1e-4) and {_gap_r(1e-8):.1g} (α=1e-8), like "
            f"α^{slope:.2f}; |Q_α/(log(1/α²)‖β‖₁) − 1| is {_gap_q(1e-4):.2g} and {_gap_q(1e-8):.2g}: "
            "halved, as 1/log(1/α²) is",
            abs(slope - 1) <= 0.01 and abs(logs - 0.5) <= 0.01,
        )

    @claim(
        "the flow ends at argmin Q_α and not at argmin R_α",
        says="Q_α ≠ R_α, and the limit is argmin Q_α by Thm 1",
    )
    def ends_at_q(self, flows: Mapping[float, af.Run]) -> Finding:
        apart = {
            alpha: [relative_distance(run.curves["weights"][-1].values, limit) for limit in _minimisers(run)]
            for alpha, run in flows.items()
        }
        return Finding(
            "relative distance from argmin Q_α and from argmin R_α: "
            + ", ".join(f"{to_q:.1g} and {to_r:.2g} (α={alpha:g})" for alpha, (to_q, to_r) in apart.items()),
            max(to_q for to_q, _ in apart.values()) <= 1e-3 and max(to_r for _, to_r in apart.values()) >= 0.05,
        )


def nearest(z: float) -> float:
    """r(z) by its definition: the least ‖w − 1‖² over w₊² − w₋² = z."""
    return _nearest_from(abs(z), 1.0)


def _nearest_from(beta: float, alpha: float) -> float:
    """min ‖w − α1‖² over w₊² − w₋² = β ≥ 0, searched along the curve w₊ = √β·cosh(t), w₋ = √β·sinh(t)."""
    from scipy.optimize import minimize_scalar

    if beta == 0:
        return 0.0
    size = np.sqrt(beta)
    # w₋ is between 0 and α at the best point.
    found: Any = minimize_scalar(
        lambda t: (size * np.cosh(t) - alpha) ** 2 + (size * np.sinh(t) - alpha) ** 2,
        bounds=(0.0, float(np.arcsinh(alpha / size))),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return float(found.fun)


def quartic(z: float) -> np.ndarray:
    """The coefficients of p_z, as they are printed in §4."""
    return np.array([1, -6, 12 - 2 * z**2, -(8 + 10 * z**2), z**2 + z**4])


def real_roots(z: float) -> np.ndarray:
    """The real roots of p_z, the smallest first."""
    roots = np.roots(quartic(z))
    return np.sort(roots[np.abs(roots.imag) <= 1e-6 * np.abs(roots)].real)


def _q(z: float) -> float:
    return af.theory.Q(1.0).value([z])


def _r(z: float) -> float:
    return af.theory.R(1.0).value([z])


def _gap_q(alpha: float) -> float:
    return abs(af.theory.Q(alpha).value([1.0]) / (-2 * np.log(alpha)) - 1)


def _gap_r(alpha: float) -> float:
    return abs(af.theory.R(alpha).value([1.0]) - 1)


def _minimisers(run: af.Run) -> tuple[np.ndarray, np.ndarray]:
    """argmin Q_α and argmin R_α for the data and the scale of a run."""
    (X, y), alpha = examples(run), run.spec["init"]["scale"]
    return af.theory.Q(alpha).minimise(X, y), af.theory.R(alpha).minimise(X, y)


def _show_potentials(ax: Axes) -> None:
    z, circles = np.linspace(-10, 10, 401), np.arange(-9.0, 10.0, 3.0)
    ax.plot(z, [_q(x) for x in z], **_Q, label=r"$q(z)$")
    ax.plot(z, [_r(x) for x in z], **_R, label=r"$r(z)$")
    ax.plot(circles, [nearest(x) for x in circles], "ko", mfc="none", label=r"$r(z)$ by search")
    ax.set(xlabel=r"$z$", ylabel=r"$q(z)$, $r(z)$", ylim=(-0.5, None))


def _show_rates(ax: Axes) -> None:
    """How Q_α and R_α approach the L1 norm."""
    alphas = np.geomspace(1e-8, 1e-1, 80)
    for gap, style, name in (
        (_gap_q, _Q, r"$|Q_\alpha/(\log(1/\alpha^2)\,\|\beta\|_1)-1|$"),
        (_gap_r, _R, r"$|R_\alpha/\|\beta\|_1-1|$"),
    ):
        ax.plot(alphas, [gap(alpha) for alpha in alphas], **style, label=name)
    ax.plot(alphas, 2 * alphas, color="0.8", lw=4.0, zorder=1, label=r"$2\alpha$")
    ax.set(xscale="log", yscale="log", xlabel=r"scale $\alpha$")
    ax.set(ylabel=r"relative distance from $\|\beta\|_1$, $|\beta_i|=1$")


def _show_flow(ax: Axes, run: af.Run) -> None:
    """How far the flow is from both minimisers."""
    curves, (by_q, by_r) = run.curves.isel(time=slice(1, None)), _minimisers(run)
    for limit, style, name in (
        (by_q, _Q, r"from $\mathrm{argmin}\,Q_\alpha$"),
        (by_r, _R, r"from $\mathrm{argmin}\,R_\alpha$"),
    ):
        distance = np.linalg.norm(curves["weights"].values - limit, axis=1) / np.linalg.norm(limit)
        ax.plot(curves["time"], distance, **style, label=name)
    ax.set(yscale="log", ylabel=r"relative distance of $\beta(t)$")
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)
    ax.set_title(rf"the flow from $\alpha={run.spec['init']['scale']:g}$", pad=18)  # above the phases' labels
