"""Thm 4: wide matrix factorisation with commuting measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers._measure import examples, log_slope
from afterfit.papers._paths import initial
from afterfit.papers.woodworth2020 import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm4"]

_HELD = 0.5  # the σ√k of the runs over k
_ByWidth = Mapping[int, "af.Run"]


class Thm4(Entry):
    paper, name = PAPER, "thm4"
    title = "Wide UVᵀ with commuting measurements minimises Q of its spectrum"
    where = "Thm 4, §6, App. G"
    about = (
        "UVᵀ with k columns, entries from N(0, α²), is fitted by gradient flow to diagonal measurements. "
        "α²k = σ√k is held while k grows, so that the start of UVᵀ, of size σ = α²√k, goes to 0, and UUᵀ and VVᵀ go to "
        "α²kI. Then the limit goes to argmin Q_μ(spectrum(M)) with μ² = ½σ√k. Measurements that commute and are "
        "symmetric are diagonal in one basis, and a Gaussian start knows no basis, so diagonal ones are the "
        "general case. The spectrum has to be the singular values: by eigenvalues a matrix such as [1 1; −1 −1] would "
        "cost nothing."
    )

    def runs(self, scale: str) -> dict[str, dict[int, af.Experiment] | dict[float, af.Experiment]]:
        """By k with σ√k held, the widest first, and by σ√k at the widest."""
        d, N, widths = (8, 4, (10_000, 1_000, 100, 10)) if scale == "paper" else (5, 2, (2_000, 100))
        task = af.tasks.MatrixSensing(d, d, 2, N=N, measurements="diagonal")
        return {
            "held": {k: _flow(task, _HELD, k) for k in widths},
            "widest": {product: _flow(task, product, widths[0]) for product in (0.05, 5.0)},
        }

    def picture(self, held: _ByWidth, headline: af.Run) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.4), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _show_widths(left, held)
        _show_factors(middle, held)
        _show_spectrum(right, headline)
        af.plot.legend_below(left, middle, right, ncols=4)
        return figure

    @once
    def headline(self, held: _ByWidth) -> af.Run:
        """The widest of the runs with σ√k held."""
        return held[max(held)]

    @once
    def by_product(self, widest: Mapping[float, af.Run], headline: af.Run) -> dict[float, af.Run]:
        """The widest runs by σ√k, the smallest first."""
        return dict(sorted({**widest, _HELD: headline}.items()))

    @claim("the flow interpolates: L(M) = 0 at the end", says="assumed by the theorem")
    def interpolates(self, runs: Mapping[str, af.Run]) -> Finding:
        residual = max(float(run.curves["train_error"][-1]) for run in runs.values())
        return Finding(f"largest ‖⟨Xₙ, M⟩ − yₙ‖/‖y‖ of {len(runs)} runs: {residual:.1g}", residual <= 1e-6)

    @claim("M(0) is of size σ = α²√k, and goes to 0 with σ√k held", says="σ = ‖M(0)‖_F/d, of order α²√k")
    def starts_small(self, held: _ByWidth) -> Finding:
        sizes = {k: (_start_size(run), _product(run) / np.sqrt(k)) for k, run in held.items()}
        return Finding(
            "‖M(0)‖_F/d and α²√k: " + ", ".join(f"{size:.3g} and {s:.3g} (k={k})" for k, (size, s) in sizes.items()),
            all(abs(size / s - 1) <= 0.5 for size, s in sizes.values()),
        )

    @claim("the limit is argmin Q_μ(spectrum(M)) as k → ∞", says="equality in the limit")
    def ends_at_q(self, held: _ByWidth) -> Finding:
        gaps = {k: _distance(run, 0.5) for k, run in held.items()}
        slope = log_slope(list(gaps), list(gaps.values()))
        return Finding(
            f"σ√k={_HELD:g}: relative distance of M, all entries, "
            + ", ".join(f"{gap:.2g} (k={k})" for k, gap in gaps.items())
            + f", like k^{slope:.2f}: the start itself is of size σ, like k^−0.50",
            -0.75 <= slope <= -0.25 and gaps[max(gaps)] <= 0.1,
        )

    @claim("μ² is ½σ√k and no other multiple of it", says="μ² = ½σ√k")
    def no_other_multiple(self, held: _ByWidth, headline: af.Run) -> Finding:
        best = {k: best_factor(run) for k, run in held.items()}
        gaps = {factor: _distance(headline, factor, diagonal=True) for factor in (0.25, 0.5, 1.0)}
        return Finding(
            "nearest to the diagonal of M is argmin Q_μ with μ²/(σ√k) = "
            + ", ".join(f"{factor:.3g} (k={k})" for k, factor in best.items())
            + "; the distance of the widest is "
            + ", ".join(f"{gap:.2g} (μ²={factor:g}σ√k)" for factor, gap in gaps.items()),
            abs(best[max(best)] / 0.5 - 1) <= 0.15 and gaps[0.5] < 0.5 * min(gaps[0.25], gaps[1.0]),
        )

    @claim(
        "the limit goes from min-Frobenius to min-nuclear as μ falls",
        says="the trace norm for small μ and the Frobenius norm for large μ",
    )
    def goes_from_frobenius_to_nuclear(self, by_product: Mapping[float, af.Run], headline: af.Run) -> Finding:
        seen = {product: _excesses(np.abs(np.diag(_matrix(run))), run) for product, run in by_product.items()}
        nuclear, frobenius = zip(*seen.values(), strict=True)
        least, most = (
            _excesses(np.linalg.svd(af.theory.SpectralQ(mu).minimise(*examples(headline)), compute_uv=False), headline)
            for mu in (1e-300, 1e10)
        )
        return Finding(
            "excess over the least nuclear norm and over the least Frobenius norm, of the diagonal of M: "
            + ", ".join(f"{a:.2g} and {b:.2g} (σ√k={product:g})" for product, (a, b) in seen.items())
            + f"; of argmin Q_μ {least[0]:.1g} (nuclear, μ=1e-300) and {most[1]:.1g} (Frobenius, μ=1e10)",
            bool(np.all(np.diff(nuclear) > 0) and np.all(np.diff(frobenius) < 0) and max(least[0], most[1]) <= 1e-6),
        )


def _flow(task: af.tasks.Task, product: float, k: int) -> af.Experiment:
    return af.Experiment(
        task=task,
        model=af.models.MatrixFactorisation(k),
        # One method for all, so that runs of one width share what is compiled.
        dynamics=af.dynamics.GradientFlow(until=30 / min(product, 1.0), first=1e-3, rtol=1e-6, method="implicit"),
        init=af.inits.Gaussian(float(np.sqrt(product / k))),
        observations=40,
    )


def minimiser(run: af.Run, factor: float) -> np.ndarray:
    """argmin Q_μ(spectrum) for the data of a run, μ² = factor·σ√k."""
    return af.theory.SpectralQ(float(np.sqrt(factor * _product(run)))).minimise(*examples(run))


def best_factor(run: af.Run) -> float:
    """The μ²/(σ√k) whose minimiser is nearest to the diagonal of M."""
    from scipy.optimize import minimize_scalar

    found: Any = minimize_scalar(
        lambda log: _distance(run, float(np.exp(log)), diagonal=True),
        bounds=(-4.0, 2.0),
        method="bounded",
        options={"xatol": 1e-4},
    )
    return float(np.exp(found.x))


def _distance(run: af.Run, factor: float, diagonal: bool = False) -> float:
    """The relative distance of M, or of its diagonal, from argmin Q_μ."""
    M, limit = _matrix(run), minimiser(run, factor)
    apart = np.diag(M - limit) if diagonal else M - limit
    return float(np.linalg.norm(apart) / np.linalg.norm(limit))


def _excesses(sigma: np.ndarray, run: af.Run) -> tuple[float, float]:
    """How far Σσ and ‖σ‖ are above the least nuclear and the least Frobenius norm on the data of a run."""
    X, y = examples(run)
    diagonals = np.diagonal(X, axis1=1, axis2=2)  # of diagonal measurements both minimisers are diagonal
    least_l1, least_l2 = af.theory.min_l1(diagonals, y), af.theory.min_l2(diagonals, y)
    return (
        float(sigma.sum() / np.abs(least_l1).sum() - 1),
        float(np.linalg.norm(sigma) / np.linalg.norm(least_l2) - 1),
    )


def _matrix(run: af.Run) -> np.ndarray:
    return run.params["U"] @ run.params["V"].T


def _product(run: af.Run) -> float:
    """σ√k = α²k."""
    return run.spec["init"]["scale"] ** 2 * run.spec["model"]["rank"]


def _start_size(run: af.Run) -> float:
    """‖M(0)‖_F/d."""
    d = run.spec["task"]["rows"]
    U, V = initial(run).reshape(2, d, -1)
    return float(np.linalg.norm(U @ V.T) / d)


def _show_widths(ax: Axes, held: _ByWidth) -> None:
    """The distance from argmin Q_μ over k, for three μ."""
    looks: tuple[tuple[float, dict[str, Any], str], ...] = (
        (0.5, {"color": "k", "marker": "o", "ls": "-"}, r"$\mu^2=\frac{1}{2}\sigma\sqrt{k}$"),
        (0.25, {"color": "0.5", "marker": "s", "ls": "--", "mfc": "none"}, r"$\mu^2=\frac{1}{4}\sigma\sqrt{k}$"),
        (1.0, {"color": "#D55E00", "marker": "^", "ls": ":"}, r"$\mu^2=\sigma\sqrt{k}$"),
    )
    widths = list(held)
    for factor, style, name in looks:
        ax.plot(widths, [_distance(run, factor) for run in held.values()], **style, label=name)
    nearest = _distance(held[widths[0]], 0.5) * np.sqrt(widths[0])
    ax.plot(widths, nearest / np.sqrt(widths), color="0.7", lw=1.0, label=r"$\propto 1/\sqrt{k}$")
    ax.set(xscale="log", yscale="log", xlabel=r"width $k$, $\sigma\sqrt{k}$ held")
    ax.set(ylabel=r"relative distance of $M$ from $\mathrm{argmin}\,Q_\mu$")
    ax.set_title(rf"$\sigma\sqrt{{k}}={_HELD:g}$")


def _show_factors(ax: Axes, held: _ByWidth) -> None:
    """The distance of the diagonal from argmin Q_μ over μ²/(σ√k)."""
    factors = np.geomspace(0.05, 5, 60)
    for (k, run), style in zip(held.items(), ("k-", "k--", "k-.", "k:"), strict=False):
        ax.plot(factors, [_distance(run, factor, diagonal=True) for factor in factors], style, label=f"k = {k}")
    ax.axvline(0.5, color="0.5", lw=1.0, ls=":")
    ax.annotate("½", (0.5, 1.0), xycoords=ax.get_xaxis_transform(), ha="center", va="bottom")
    ax.set(xscale="log", yscale="log", xlabel=r"$\mu^2/(\sigma\sqrt{k})$")
    ax.set(ylabel=r"relative distance of $\mathrm{diag}(M)$ from $\mathrm{argmin}\,Q_\mu$")


def _show_spectrum(ax: Axes, run: af.Run) -> None:
    """The singular values over time, and those of argmin Q_μ."""
    curves = run.curves.isel(time=slice(1, None))
    lines = ax.plot(curves["time"], curves["singular_values"], color="0.35", lw=1.4)
    lines[0].set_label(f"flow, k = {run.spec['model']['rank']}")
    for i, sigma in enumerate(np.linalg.svd(minimiser(run, 0.5), compute_uv=False)):
        name = r"$\mathrm{argmin}\,Q_\mu$" if i == 0 else None
        ax.axhline(sigma, color="#D55E00", ls="--", lw=1.0, zorder=1, label=name)
    ax.set(ylabel=r"singular values of $UV^\top$")
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)
