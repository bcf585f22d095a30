"""Thms 3.10 and 3.12: after (1/λ)·log α matrix completion minimises the norm."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Finding, claim, once
from afterfit.papers._measure import log_slope, relative_distance
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.regimes import (
    At,
    Regime,
    by_c,
    end_slopes,
    falls,
    first_to_last,
    mark_shares,
    scale_ticks,
    table_flow,
    weights_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm310"]

_SHARES = (1.0, 1.5, 1.9)  # 1 + c; the first is where the regime begins


class Thm310(Regime):
    paper, name = PAPER, "thm3.10"
    title = "After (1/λ)·log α matrix completion minimises the norm, and recovers the matrix as t → ∞"
    where = "Thms 3.10 and 3.12, App. D.2 and F"
    about = (
        "UUᵀ − VVᵀ on half the entries of the multiplication table. First from U = V = αI with λ = 1/α, stopped at "
        "t = (1 + c)/λ·log α, the last time that Thm 3.10 allows: how far θ is from a KKT point of min ‖θ‖² subject "
        "to fᵢ(θ) = yᵢ (R2). Then from α = 3 with N(0, σ²) added to all entries, for falling λ, until the "
        "flow is at rest: Thm 3.12, where W minimises (42), Σ(⟨Pᵢ, W⟩ − yᵢ)²/n + (λ/2)‖W‖_*, which a convex solver "
        "does on its own. The hypothesis N ≳ μ⁴·d·log²d of Thm 3.12 leaves its constant open; with "
        "1 it would ask for more entries than this matrix has, so that more is checked than is proved."
    )

    def runs(self, scale: str) -> dict[str, dict[Any, af.Experiment]]:
        if scale == "paper":
            d, observations = 16, 100
            alphas, decays = (1000.0, 300.0, 100.0, 30.0, 10.0), (0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5)
        else:
            d, alphas, decays, observations = 10, (300.0, 100.0, 30.0), (0.03, 3e-4), 30
        ats = [At(α, share) for α in alphas for share in _SHARES[::-1]]
        return {
            "flows": {at: table_flow(d, 0.5, *at, observations) for at in ats},
            "perturbed": {
                λ: table_flow(d, 0.5, 3.0, 60.0, observations, λ).set({"init.perturbation": 0.1}) for λ in decays
            },
        }

    @once
    def late(self, groups: dict[float, list[af.Run]]) -> dict[float, list[af.Run]]:
        """The runs that go on after (1/λ)·log α."""
        return {c: group for c, group in groups.items() if c > 0}

    @once
    def ends(self, late: dict[float, list[af.Run]]) -> dict[float, list[_End]]:
        """Where they ended, by c and in the order of α."""
        return {c: [_end(run) for run in group] for c, group in late.items()}

    @once
    def truth(self, headline: af.Run) -> np.ndarray:
        """X*."""
        return headline.data.truth

    @once
    def convex(self, perturbed: dict[float, af.Run]) -> dict[float, np.ndarray]:
        """argmin (42), by λ."""
        return {λ: _convex(λ, run) for λ, run in perturbed.items()}

    @once
    def errors(self, perturbed: dict[float, af.Run], truth: np.ndarray) -> dict[float, float]:
        """‖W − X*‖_F of the flows at rest, by λ."""
        return {λ: float(np.linalg.norm(weights_of(run) - truth)) for λ, run in perturbed.items()}

    def picture(
        self,
        headline: af.Run,
        ends: dict[float, list[_End]],
        alphas: list[float],
        errors: dict[float, float],
        convex: dict[float, np.ndarray],
        truth: np.ndarray,
    ) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.8), layout="constrained")
        path, stationary, recovery = figure.subplots(1, 3)
        _draw_path(path, headline)
        for (c, group), marker, grey in zip(ends.items(), ("o", "s"), ("0.55", "0.0"), strict=True):
            style = {"color": grey, "marker": marker, "mfc": "none"}
            residuals, misfits = [end.kkt.residual for end in group], [end.kkt.infeasibility for end in group]
            stationary.loglog(alphas, residuals, **style, label=f"residual, c = {c:g}")
            stationary.loglog(alphas, misfits, **style, ls=":", label=f"misfit, c = {c:g}")
        stationary.set(xlabel=r"scale $\alpha$ of the start", ylabel="KKT residual and misfit of R2")
        scale_ticks(stationary, alphas)
        stationary.set(title=r"at $t=(1+c)/\lambda\cdot\log\alpha$")
        decays = np.array(list(errors))
        recovery.loglog(decays, list(errors.values()), "ko", mfc="none", label="flow")
        solved = [np.linalg.norm(W - truth) for W in convex.values()]
        recovery.loglog(decays, solved, color="0.6", lw=1.0, zorder=0, label="convex program (42)")
        bound = r"$\sqrt{\lambda}\,\|X^*\|_*\,\mu^2\log d$"
        recovery.loglog(decays, np.sqrt(decays) * _factor(truth), **af.plot.TEST, label=bound)
        recovery.set(xlabel=r"weight decay $\lambda$", ylabel=r"$\|W-X^*\|_F$", title=r"perturbed start, $t\to\infty$")
        af.plot.legend_below(*figure.axes)
        return figure

    @claim(
        "the KKT residual of R2 goes to 0 with α",
        says="every limit point is a KKT point, for every c > 0, as α → ∞",
    )
    def tends_to_kkt(self, ends: dict[float, list[_End]], alphas: list[float], reached: str) -> Finding:
        return _vanishing(f"residual {reached}", by_c(ends, lambda end: end.kkt.residual), alphas)

    @claim("the data are fitted at that time", says="a KKT point is feasible; 𝓛 = O(λ²) at (1/λ)·log α")
    def fits(self, ends: dict[float, list[_End]], alphas: list[float], reached: str) -> Finding:
        return _vanishing(f"‖f − y‖/‖y‖ {reached}", by_c(ends, lambda end: end.kkt.infeasibility), alphas)

    @claim("‖θ‖ is bounded between (1/λ)·log α and (1 + c)/λ·log α (Lemma D.8)", says="max over t of ‖θ‖ = O(1)")
    def norm_is_bounded(self, groups: dict[float, list[af.Run]], alphas: list[float], truth: np.ndarray) -> Finding:
        norms = by_c(groups, lambda run: float(run.curves["norm_l2"][-1]))
        return Finding(
            f"for α = {', '.join(f'{α:g}' for α in alphas)}: "
            + "; ".join(", ".join(f"{size:.3g}" for size in sizes) + f" (c={c:g})" for c, sizes in norms.items())
            + f"; ‖θ̄‖ = √(2d) = {np.sqrt(2 * len(truth)):.3g}",
            all(sizes[-1] <= 1.05 * sizes[-2] for sizes in norms.values())
            and max(norms[0]) == max(map(max, norms.values())),
        )

    @claim("‖∇𝓛_λ‖ = O(λ·(log 1/λ)^{−1/2}) at that time", says="at some t up to (1 + c)/λ·log α (App. D.2)")
    def gradient_is_small(self, ends: dict[float, list[_End]], reached: str) -> Finding:
        orders = by_c(ends, lambda end: end.gradient / (end.decay * np.log(1 / end.decay) ** -0.5))
        return Finding(
            f"‖∇𝓛_λ‖ at the last t over λ·(log 1/λ)^−½, {reached}: {first_to_last(orders)}",
            all(o[-1] <= o[0] for o in orders.values()),
        )

    @claim(
        "W tends to the minimum nuclear norm solution",
        says="if the KKT point is global (Ding et al. 2022); not proved",
    )
    def tends_to_least(
        self, late: dict[float, list[af.Run]], headline: af.Run, truth: np.ndarray, reached: str
    ) -> Finding:
        X = af.theory.single_entries(headline.data.inputs.mask)
        least = af.theory.min_nuclear(X, np.tensordot(X, truth, 2), symmetric=True)
        off = by_c(late, lambda run: relative_distance(weights_of(run), least))
        return Finding(
            f"‖W − argmin ‖·‖_*‖ relative, {reached}: {first_to_last(off)}; that solution is "
            f"{relative_distance(least, truth):.1g} from X*",
            all(np.all(np.diff(o[-3:]) < 0) and o[-1] <= 0.5 * o[-3] for o in off.values()),
        )

    @claim(
        "Thm 3.12: the flow from a perturbed start ends at the global minimum",
        says="a global minimiser of 𝓛_λ, for any σ > 0, almost surely; its W minimises (42)",
    )
    def ends_at_the_minimum(
        self, perturbed: dict[float, af.Run], convex: dict[float, np.ndarray], truth: np.ndarray
    ) -> Finding:
        size = np.linalg.norm(truth)
        apart = {λ: float(np.linalg.norm(weights_of(run) - convex[λ]) / size) for λ, run in perturbed.items()}
        return Finding(
            "σ=0.1, ‖W − argmin (42)‖/‖X*‖: " + ", ".join(f"{gap:.1g} (λ={λ:g})" for λ, gap in apart.items()),
            max(apart.values()) <= 1e-3,
        )

    @claim("Thm 3.12: ‖W − X*‖_F ≲ √λ·‖X*‖_*·μ²·log d", says="with probability 1 − d^{−3}, up to a constant")
    def recovers(self, errors: dict[float, float], truth: np.ndarray) -> Finding:
        shares = {λ: error / (np.sqrt(λ) * _factor(truth)) for λ, error in errors.items()}
        last = list(errors)[-2:]
        return Finding(
            f"over √λ·‖X*‖_*·μ²·log d, μ={_incoherence(truth):.3g}: "
            + ", ".join(f"{share:.2g} (λ={λ:g})" for λ, share in shares.items())
            + f"; ‖W − X*‖_F itself like λ^{log_slope(last, [errors[λ] for λ in last]):.2f}, better than the bound: "
            "the recovery is exact at λ = 0",
            max(shares.values()) <= 1 and bool(np.all(np.diff(list(shares.values())) < 0)),
        )


@dataclasses.dataclass(frozen=True)
class _End:
    """The end of a run, and how near it is to a KKT point."""

    decay: float
    kkt: af.theory.Stationarity
    gradient: float  # ‖∇𝓛_λ‖


def _end(run: af.Run) -> _End:
    return _End(run.spec["penalty"]["strength"], *end_slopes(run))


def _vanishing(what: str, gaps: dict[float, list[float]], alphas: list[float]) -> Finding:
    """Whether something falls with α for every c, at last like a power of it."""
    return Finding(
        f"{what}: {falls(alphas, gaps)}",
        all(np.all(np.diff(g) < 0) and log_slope(alphas[-2:], g[-2:]) < -0.1 for g in gaps.values()),
    )


def _incoherence(truth: np.ndarray) -> float:
    """μ of a symmetric matrix of rank 1: d times the largest squared entry of its singular vector."""
    return len(truth) * float(np.max(np.abs(np.linalg.svd(truth)[0][:, 0]))) ** 2


def _factor(truth: np.ndarray) -> float:
    """‖X*‖_*·μ²·log d, which times √λ is the bound of Thm 3.12 up to a constant."""
    return float(np.linalg.norm(truth, "nuc") * _incoherence(truth) ** 2 * np.log(len(truth)))


def _convex(λ: float, run: af.Run) -> np.ndarray:
    """argmin (42), which times n/2 is ½Σ(⟨Pᵢ, W⟩ − yᵢ)² + (λn/4)‖W‖_*."""
    X = af.theory.single_entries(run.data.inputs.mask)
    return af.theory.nuclear_penalised(X, np.tensordot(X, run.data.truth, 2), λ * run.data.n / 4, symmetric=True)


def _draw_path(ax: Axes, run: af.Run) -> None:
    """Both errors over time."""
    curves = run.curves.isel(time=slice(1, None))
    ax.plot(curves["time"], curves["train_error"], **af.plot.TRAIN, label="training error")
    ax.plot(curves["time"], curves["test_error"], **af.plot.TEST, label=r"$\|W-X^*\|_F/\|X^*\|_F$")
    mark_shares(ax, run, _SHARES)
    ax.set(yscale="log", ylabel=rf"relative error, $\alpha={run.spec['init']['scale']:g}$")
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)
