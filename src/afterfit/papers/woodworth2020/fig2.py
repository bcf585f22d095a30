"""Fig. 2 and (8)–(9): the distance from the start is not what gradient flow minimises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import examples, relative_distance
from afterfit.plot import legend_below, log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Fig2"]

_Q = {"color": "#222222", "ls": "-", "lw": 1.8}
_R = {"color": "#D55E00", "ls": "--", "lw": 1.8}


class Fig2(Entry):
    id = "woodworth2020/fig2"
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
    claims = (
        "r(z) = min ‖w − 1‖² over w₊² − w₋² = z is a root of p_z",
        "r(z) is the unique real root of p_z",
        "R_{α,1}(β) = Σ r(βᵢ/α²)",
        "q and r are not simple rescalings of each other",
        "R_α has the same limits as Q_α: min-L1 as α → 0 and min-L2 as α → ∞",
        "R_α approaches ‖·‖₁ polynomially in α, Q_α only logarithmically",
        "the flow ends at argmin Q_α and not at argmin R_α",
    )

    _alphas = (0.1, 0.3)  # the first is the headline

    def experiments(self, scale: str) -> dict[str, Experiment]:
        n, d, sparsity = (40, 100, 5) if scale == "paper" else (6, 16, 2)
        return {
            f"α={alpha:g}": Experiment(
                task=tasks.SparseRegression(n=n, d=d, sparsity=sparsity, noise_variance=0.01),
                model=models.DiagonalNet(depth=2),
                dynamics=dynamics.GradientFlow(until=200.0, rtol=1e-9, atol=1e-12, first=1e-3),
                init=inits.Constant(scale=alpha),
                observations=80,
            )
            for alpha in self._alphas
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.4), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        z = np.linspace(-10, 10, 401)
        left.plot(z, [theory.Q(1.0).value([x]) for x in z], **_Q, label=r"$q(z)$")
        left.plot(z, [theory.R(1.0).value([x]) for x in z], **_R, label=r"$r(z)$")
        circles = np.arange(-9.0, 10.0, 3.0)
        left.plot(circles, [nearest(x) for x in circles], "ko", mfc="none", label=r"$r(z)$ by search")
        left.set(xlabel=r"$z$", ylabel=r"$q(z)$, $r(z)$", ylim=(-0.5, None))
        alphas = np.geomspace(1e-8, 1e-1, 80)
        for gap, style, name in (
            (_gap_q, _Q, r"$|Q_\alpha/(\log(1/\alpha^2)\,\|\beta\|_1)-1|$"),
            (_gap_r, _R, r"$|R_\alpha/\|\beta\|_1-1|$"),
        ):
            middle.plot(alphas, [gap(alpha) for alpha in alphas], **style, label=name)
        middle.plot(alphas, 2 * alphas, color="0.8", lw=4.0, zorder=1, label=r"$2\alpha$")
        middle.set(
            xscale="log",
            yscale="log",
            xlabel=r"scale $\alpha$",
            ylabel=r"relative distance from $\|\beta\|_1$, $|\beta_i|=1$",
        )
        run = next(iter(runs.values()))
        curves = run.curves.isel(time=slice(1, None))
        for limit, style, name in zip(
            _minimisers(run),
            (_Q, _R),
            (r"from $\mathrm{argmin}\,Q_\alpha$", r"from $\mathrm{argmin}\,R_\alpha$"),
            strict=True,
        ):
            distance = np.linalg.norm(curves["weights"].values - limit, axis=1) / np.linalg.norm(limit)
            right.plot(curves["time"], distance, **style, label=name)
        right.set(yscale="log", ylabel=r"relative distance of $\beta(t)$")
        log_time_axes(right)
        mark_phases(right, run.verdict)
        right.set_title(rf"the flow from $\alpha={run.spec['init']['scale']:g}$", pad=18)
        legend_below(left, middle, right, ncols=3)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        some = np.geomspace(0.01, 1e3, 60 if scale == "paper" else 12)
        found = np.array([nearest(z) for z in some])
        at_root = max(
            abs(np.polyval(quartic(z), r)) / np.polyval(np.abs(quartic(z)), r) for z, r in zip(some, found, strict=True)
        )
        by_theory = max(abs(theory.R(1.0).value([z]) / r - 1) for z, r in zip(some, found, strict=True))
        yield Finding(
            self.claims[0],
            "p_z(u) = u⁴ − 6u³ + (12 − 2z²)u² − (8 + 10z²)u + z² + z⁴",
            f"r by search, {len(some)} values of z from {some[0]:g} to {some[-1]:g}: |p_z(r)| is at most {at_root:.1g} "
            f"of its terms; theory.R agrees with the search to {by_theory:.1g}",
            at_root <= 1e-9 and by_theory <= 1e-7,
        )
        real = [real_roots(z) for z in some]
        which = max(abs(roots[0] / r - 1) for roots, r in zip(real, found, strict=True))
        yield Finding(
            self.claims[1],
            "one real root",
            f"p_z has {min(map(len, real))} real roots for each z, {' and '.join(f'{u:.4g}' for u in real_roots(1.0))} "
            f"at z=1, where r = {nearest(1.0):.4g}; r is the smaller, to {which:.1g}",
            all(len(roots) == 1 for roots in real),
        )
        alpha, beta = 0.1, np.array([0.5, -2.0])
        least = sum(nearest(abs(b) / alpha**2) for b in beta)
        true = sum(_nearest_from(abs(b), alpha) for b in beta)
        yield Finding(
            self.claims[2],
            "equality",
            f"α={alpha:g}, β=(0.5, −2): min ‖w − α1‖² = {true:.4g} by search, Σr(βᵢ/α²) = {least:.4g}, "
            f"α²Σr(βᵢ/α²) = {alpha**2 * least:.4g}",
            abs(true / least - 1) <= 1e-6,
        )
        ends = {z: theory.Q(1.0).value([z]) / theory.R(1.0).value([z]) for z in (1e-3, 1.0, 1e3, 1e6, 1e9)}
        # b·q(az) is b·a·|z|·log|z| for large z and r(z) is |z|: no a and b make r/|z| and b·q(az)/|z| agree.
        growth = [theory.Q(1.0).value([10 * z]) / (10 * theory.Q(1.0).value([z])) for z in (1e3, 1e9)]
        level = [theory.R(1.0).value([10 * z]) / (10 * theory.R(1.0).value([z])) for z in (1e3, 1e9)]
        yield Finding(
            self.claims[3],
            "r is algebraic, q is not",
            "q/r is " + ", ".join(f"{ratio:.3g} (z={z:g})" for z, ratio in ends.items()) + "; from z=10⁹ to 10¹⁰ "
            f"q(z)/z grows by {growth[1] - 1:.2g} of itself, as log z does, and r(z)/z by {level[1] - 1:.1g}",
            growth[1] - 1 > 0.04 and level[1] - 1 < 1e-4 and ends[1e9] > 2 * ends[1e3],
        )
        X, y = examples(next(iter(runs.values())))
        limits = {1e-8: theory.min_l1(X, y), 1e4: theory.min_l2(X, y)}
        gaps = {
            alpha: [relative_distance(p(alpha).minimise(X, y), end) for p in (theory.R, theory.Q)]
            for alpha, end in limits.items()
        }
        yield Finding(
            self.claims[4],
            "the limiting behaviour of the two matches",
            f"distance of argmin R_α from min-L1 at α=1e-8: {gaps[1e-8][0]:.1g} (argmin Q_α: {gaps[1e-8][1]:.1g}); "
            f"from min-L2 at α=1e4: {gaps[1e4][0]:.1g} ({gaps[1e4][1]:.1g})",
            bool(gaps[1e-8][0] <= 1e-4 and gaps[1e4][0] <= 1e-4),
        )
        slope = np.log(_gap_r(1e-4) / _gap_r(1e-8)) / np.log(1e4)
        logs = _gap_q(1e-8) / _gap_q(1e-4)
        yield Finding(
            self.claims[5],
            "polynomially, against exponentially small α for Q",
            f"for |βᵢ|=1: |R_α/‖β‖₁ − 1| is {_gap_r(1e-4):.1g} (α=1e-4) and {_gap_r(1e-8):.1g} (α=1e-8), like "
            f"α^{slope:.2f}; |Q_α/(log(1/α²)‖β‖₁) − 1| is {_gap_q(1e-4):.2g} and {_gap_q(1e-8):.2g}: "
            "halved, as 1/log(1/α²) is",
            abs(slope - 1) <= 0.01 and abs(logs - 0.5) <= 0.01,
        )
        apart = {
            name: [relative_distance(run.curves["weights"][-1].values, limit) for limit in _minimisers(run)]
            for name, run in runs.items()
        }
        yield Finding(
            self.claims[6],
            "Q_α ≠ R_α, and the limit is argmin Q_α by Thm 1",
            "relative distance from argmin Q_α and from argmin R_α: "
            + ", ".join(f"{to_q:.1g} and {to_r:.2g} ({name})" for name, (to_q, to_r) in apart.items()),
            bool(max(to_q for to_q, _ in apart.values()) <= 1e-3 and max(to_r for _, to_r in apart.values()) >= 0.05),
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
    found = minimize_scalar(
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


def _minimisers(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """argmin Q_α and argmin R_α for the data and the scale of a run."""
    (X, y), alpha = examples(run), run.spec["init"]["scale"]
    return theory.Q(alpha).minimise(X, y), theory.R(alpha).minimise(X, y)


def _gap_q(alpha: float) -> float:
    return abs(theory.Q(alpha).value([1.0]) / (-2 * np.log(alpha)) - 1)


def _gap_r(alpha: float) -> float:
    return abs(theory.R(alpha).value([1.0]) - 1)
