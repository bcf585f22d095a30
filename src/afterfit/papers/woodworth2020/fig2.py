"""Fig. 2 and (8)–(9): the distance from the start is not what gradient flow minimises."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, correction, once
from afterfit.papers._measure import examples, power_law, relative_distance
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.ends import end, minimiser, parameter_flow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Fig2"]

_ALPHA = 0.1  # of the headline
_EVERY_Z = np.geomspace(0.01, 1e3, 500)
_Gap = Callable[[float], float]
_Q: dict[str, Any] = {"color": "#222222", "ls": "-", "lw": 1.8}
_R: dict[str, Any] = {"color": "#D55E00", "ls": "--", "lw": 1.8}


class Fig2(Entry):
    paper, name = PAPER, "fig2"
    title = "The flow does not minimise the distance from its start"
    where = "Fig. 2, (8)–(9), §4"
    about = (
        "R_α(β) is the least ‖w − α1‖² over parameters with w₊² − w₋² = β. It looks like Q_α and has the same limits, "
        "L2 for α → ∞ and L1 for α → 0, but the flow, followed by its parameters, ends at argmin Q_α. "
        "R_α(β) = α²Σr(βᵢ/α²), and r(z) is the smaller of the two real roots of a quartic. With s the multiplier of "
        "w₊² − w₋² = z the nearest point is (1/(1 − s), 1/(1 + s)), so z = (1 − s)⁻² − (1 + s)⁻² = h₄(s) and r is the "
        "q₄ of Thm 3: from its start, depth 2 is explicitly what depth 4 is implicitly."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment]]:
        n, d, sparsity = (40, 100, 5) if scale == "paper" else (6, 16, 2)
        return {
            "flows": {
                alpha: af.Experiment(
                    task=af.tasks.SparseRegression(n=n, d=d, sparsity=sparsity, noise_variance=0.01),
                    model=af.models.DiagonalNet(depth=2),
                    dynamics=parameter_flow(400.0, alpha, first=1e-3),
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
        return _is_a_root(searched)

    @control(is_a_root, "‖w − 1‖² at the nearest w with w₋ = 0")
    def is_no_root(self, searched: Mapping[float, float]) -> Finding:
        return _is_a_root({z: (np.sqrt(z) - 1) ** 2 + 1 for z in searched})

    @claim("r(z) is the unique real root of p_z", says="§4, after (9): r(z) is the unique real root of p_z(u)")
    def is_the_only_root(self) -> Finding:
        real = [real_roots(z) for z in _EVERY_Z]
        return Finding(
            f"{len(real)} values of z from {_EVERY_Z[0]:g} to {_EVERY_Z[-1]:g}: p_z has {min(map(len, real))} to "
            f"{max(map(len, real))} real roots, {' and '.join(f'{u:.4g}' for u in real_roots(1.0))} at z=1",
            all(len(roots) == 1 for roots in real),
        )

    @correction(
        is_the_only_root,
        "p_z has two real roots, and r(z) is the smaller",
        why="p_z > 0 at u = 0 and for large u, and p_z < 0 between: at z = 1 it is 2 at u = 0 and −11 at u = 1. Both "
        "roots are stationary values of ‖w − 1‖² on w₊² − w₋² = z; the larger is that on the branch w₊ < 0.",
        touches="No: r itself, Fig. 2 and what is said of them are of the smaller root.",
        where="§4, after (9)",
    )
    def is_the_smaller_of_two(self) -> Finding:
        """To 10⁻⁷: the roots of a quartic are found to 10⁻¹⁰ or so, the search to half the digits of z at least."""
        real = {z: real_roots(z) for z in _EVERY_Z}
        off = max(abs(roots[0] / nearest(z) - 1) for z, roots in real.items())
        return Finding(
            f"two real roots at {sum(len(roots) == 2 for roots in real.values())} of {len(real)} values of z; the "
            f"smaller is r by search to {off:.1g}",
            all(len(roots) == 2 for roots in real.values()) and off <= 1e-7,
        )

    @claim("R_{α,1}(β) = Σ r(βᵢ/α²)", says="§4, after (9): R_{α,1}(β) = Σᵢ r(βᵢ/α²)")
    def sums_r(self) -> Finding:
        return _is_the_sum(lambda alpha: 1.0)

    @correction(
        sums_r,
        "R_{α,1}(β) = α²·Σ r(βᵢ/α²)",
        why="With w = αu, ‖w − α1‖² = α²‖u − 1‖² and w₊² − w₋² = β is u₊² − u₋² = β/α²: the α² before the sum is lost. "
        "Q_α has it.",
        touches="No: a factor that does not depend on β moves no minimiser. Without it R_α would not approach ‖β‖₁ as "
        "α → 0, as the paper rightly says that it does.",
        where="§4, after (9)",
    )
    def sums_r_times_the_square(self) -> Finding:
        return _is_the_sum(lambda alpha: alpha**2)

    @claim("q and r are not simple rescalings of each other", says="r is algebraic, q is not")
    def no_rescaling(self) -> Finding:
        return _is_no_rescaling(_q)

    @control(no_rescaling, "3·r(2z), a rescaling of r")
    def a_rescaling(self) -> Finding:
        return _is_no_rescaling(lambda z: 3 * _r(2 * z))

    @claim(
        "R_α has the same limits as Q_α: min-L1 as α → 0 and min-L2 as α → ∞",
        says="the limiting behaviour of the two matches",
    )
    def same_limits(self, flows: Mapping[float, af.Run]) -> Finding:
        """At α so small and so large that the rests, α for R (below), 1/log(1/α²) for Q and α⁻⁴ for both, allow it."""
        return _have_limits(flows[_ALPHA], {af.theory.R: 1e-8, af.theory.Q: 1e-300}, 1e4)

    @control(same_limits, "α = 0.1 and 1, in between")
    def not_in_between(self, flows: Mapping[float, af.Run]) -> Finding:
        return _have_limits(flows[_ALPHA], {af.theory.R: 0.1, af.theory.Q: 0.1}, 1.0)

    @claim(
        "R_α approaches ‖·‖₁ polynomially in α, Q_α only logarithmically",
        says="polynomially, against exponentially small α for Q",
    )
    def other_rates(self) -> Finding:
        return _rates(_gap_r, _gap_q)

    @control(other_rates, "the two exchanged")
    def rates_exchanged(self) -> Finding:
        return _rates(_gap_q, _gap_r)

    @claim(
        "the flow ends at argmin Q_α and not at argmin R_α",
        says="Q_α ≠ R_α, and the limit is argmin Q_α by Thm 1",
    )
    def ends_at_q(self, flows: Mapping[float, af.Run]) -> Finding:
        return _ends_at("Q_α", minimiser, flows)

    @control(ends_at_q, "argmin R_α")
    def not_at_r(self, flows: Mapping[float, af.Run]) -> Finding:
        return _ends_at("R_α", _minimiser_of_r, flows)

    @control(ends_at_q, "Q with 2α² in place of α²")
    def not_at_another_q(self, flows: Mapping[float, af.Run]) -> Finding:
        return _ends_at("Q", lambda run: minimiser(run, alpha=np.sqrt(2) * run.spec["init"]["scale"]), flows)


def _is_a_root(values: Mapping[float, float]) -> Finding:
    """Whether values by z are roots of p_z, and those of theory.R."""
    at_root = max(
        float(np.abs(np.polyval(quartic(z), r)) / np.polyval(np.abs(quartic(z)), r)) for z, r in values.items()
    )
    by_theory = max(abs(_r(z) / r - 1) for z, r in values.items())
    return Finding(
        f"r by search, {len(values)} values of z from {min(values):g} to {max(values):g}: |p_z(r)| is at "
        f"most {at_root:.1g} of its terms; theory.R agrees with the search to {by_theory:.1g}",
        at_root <= 1e-9 and by_theory <= 1e-7,
    )


def _is_the_sum(factor: Callable[[float], float]) -> Finding:
    """Whether min ‖w − α1‖² by search is a factor, which may depend on α, times Σ r(βᵢ/α²)."""
    beta = np.array([0.5, -2.0, 0.03])
    off = {
        alpha: abs(
            factor(alpha) * sum(nearest(b / alpha**2) for b in beta) / sum(_nearest_from(abs(b), alpha) for b in beta)
            - 1
        )
        for alpha in (0.01, 0.1, 3.0)
    }
    return Finding(
        "β=(0.5, −2, 0.03): off from min ‖w − α1‖² by search by "
        + ", ".join(f"{gap:.2g} of it (α={alpha:g})" for alpha, gap in off.items()),
        max(off.values()) <= 1e-6,
    )


def _is_no_rescaling(q: Callable[[float], float]) -> Finding:
    """b·q(az) is b·a·|z|·log|z| for large z and r(z) is |z|: no a and b make r/|z| and b·q(az)/|z| agree."""
    ratios = {z: q(z) / _r(z) for z in (1e-3, 1.0, 1e3, 1e6, 1e9)}
    growth, level = (f(1e10) / (10 * f(1e9)) - 1 for f in (q, _r))
    return Finding(
        "q/r is " + ", ".join(f"{ratio:.3g} (z={z:g})" for z, ratio in ratios.items()) + "; from z=10⁹ to 10¹⁰ "
        f"q(z)/z grows by {growth:.2g} of itself, as log z does, and r(z)/z by {level:.1g}",
        growth > 0.04 and level < 1e-4 and ratios[1e9] > 2 * ratios[1e3],
    )


def _have_limits(run: af.Run, small: Mapping[Any, float], large: float) -> Finding:
    """Whether potentials are minimised at the least L1 norm at their `small` α and at the least L2 norm at `large`."""
    X, y = examples(run)
    l1, l2 = af.theory.min_l1(X, y), af.theory.min_l2(X, y)
    gaps = {p: (relative_distance(p(a).minimise(X, y), l1), a) for p, a in small.items()}
    far = {p: relative_distance(p(large).minimise(X, y), l2) for p in small}
    return Finding(
        "; ".join(
            f"argmin {p.__name__}_α: {gap:.1g} from min-L1 (α={a:g}), {far[p]:.1g} from min-L2 (α={large:g})"
            for p, (gap, a) in gaps.items()
        ),
        max(*(gap for gap, _ in gaps.values()), *far.values()) <= 1e-4,
    )


def _rates(polynomial: _Gap, logarithmic: _Gap) -> Finding:
    """The exponent 1 in α of the first, and −1 in log(1/α²) of the second, to 0.02: no other power comes near."""
    alphas = np.geomspace(1e-8, 1e-3, 6)
    in_alpha, in_log = (
        power_law(x, [gap(alpha) for alpha in alphas])
        for x, gap in ((alphas, polynomial), (-2 * np.log(alphas), logarithmic))
    )
    return Finding(
        f"for |βᵢ|=1, α from 1e-8 to 1e-3: the one like α to the power {in_alpha}, the other like log(1/α²) to the "
        f"power {in_log}",
        _near(1, in_alpha) and _near(-1, in_log),
    )


def _near(exponent: float, law: Sequence[float]) -> bool:
    return max(abs(number - exponent) for number in law) <= 0.02


def _ends_at(which: str, limit: Callable[[af.Run], np.ndarray], flows: Mapping[float, af.Run]) -> Finding:
    """To 10⁻⁵: each parameter is followed to 10⁻⁹ of itself."""
    gaps = {alpha: relative_distance(end(run), limit(run)) for alpha, run in flows.items()}
    return Finding(
        f"relative distance from argmin {which}: "
        + ", ".join(f"{gap:.2g} (α={alpha:g})" for alpha, gap in gaps.items()),
        max(gaps.values()) <= 1e-5,
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


def _minimiser_of_r(run: af.Run) -> np.ndarray:
    """argmin R_α for the data and the scale of a run."""
    return af.theory.R(run.spec["init"]["scale"]).minimise(*examples(run))


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
    curves, by_q, by_r = run.curves.isel(time=slice(1, None)), minimiser(run), _minimiser_of_r(run)
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
