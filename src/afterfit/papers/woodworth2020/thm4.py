"""Thm 4: wide matrix factorisation with commuting measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import examples, log_slope
from afterfit.papers.paths import initial
from afterfit.plot import legend_below, log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Thm4"]


class Thm4(Entry):
    id = "woodworth2020/thm4"
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
    claims = (
        "the flow interpolates: L(M) = 0 at the end",
        "M(0) is of size σ = α²√k, and goes to 0 with σ√k held",
        "the limit is argmin Q_μ(spectrum(M)) as k → ∞",
        "μ² is ½σ√k and no other multiple of it",
        "the limit goes from min-Frobenius to min-nuclear as μ falls",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        d, N, widths = (8, 4, (10_000, 1_000, 100, 10)) if scale == "paper" else (5, 2, (2_000, 100))
        settings = [(0.5, k) for k in widths] + [(product, widths[0]) for product in (0.05, 5.0)]
        return {
            f"σ√k={product:g} k={k}": Experiment(
                task=tasks.MatrixSensing(d, d, 2, N=N, measurements="diagonal"),
                model=models.MatrixFactorisation(k),
                # One method for all, so that runs of one width share what is compiled.
                dynamics=dynamics.GradientFlow(until=30 / min(product, 1.0), first=1e-3, rtol=1e-6, method="implicit"),
                init=inits.Gaussian(float(np.sqrt(product / k))),
                observations=40,
            )
            for product, k in settings
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.4), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        headline = next(iter(runs.values()))
        product, held = _product(headline), _held(runs)
        widths = [_width(run) for run in held]
        for factor, style, name in (
            (0.5, {"color": "k", "marker": "o", "ls": "-"}, r"$\mu^2=\frac{1}{2}\sigma\sqrt{k}$"),
            (0.25, {"color": "0.5", "marker": "s", "ls": "--", "mfc": "none"}, r"$\mu^2=\frac{1}{4}\sigma\sqrt{k}$"),
            (1.0, {"color": "#D55E00", "marker": "^", "ls": ":"}, r"$\mu^2=\sigma\sqrt{k}$"),
        ):
            left.plot(widths, [_distance(run, factor) for run in held], **style, label=name)
        nearest = _distance(headline, 0.5) * np.sqrt(widths[0])
        left.plot(widths, nearest / np.sqrt(widths), color="0.7", lw=1.0, label=r"$\propto 1/\sqrt{k}$")
        left.set(
            xscale="log",
            yscale="log",
            xlabel=r"width $k$, $\sigma\sqrt{k}$ held",
            ylabel=r"relative distance of $M$ from $\mathrm{argmin}\,Q_\mu$",
        )
        left.set_title(rf"$\sigma\sqrt{{k}}={product:g}$")
        factors = np.geomspace(0.05, 5, 60)
        for run, style in zip(held, ("k-", "k--", "k-.", "k:"), strict=False):
            middle.plot(factors, [_distance(run, f, diagonal=True) for f in factors], style, label=f"k = {_width(run)}")
        middle.axvline(0.5, color="0.5", lw=1.0, ls=":")
        middle.annotate("½", (0.5, 1.0), xycoords=middle.get_xaxis_transform(), ha="center", va="bottom")
        middle.set(
            xscale="log",
            yscale="log",
            xlabel=r"$\mu^2/(\sigma\sqrt{k})$",
            ylabel=r"relative distance of $\mathrm{diag}(M)$ from $\mathrm{argmin}\,Q_\mu$",
        )
        curves = headline.curves.isel(time=slice(1, None))
        lines = right.plot(curves["time"], curves["singular_values"], color="0.35", lw=1.4)
        lines[0].set_label(f"flow, k = {_width(headline)}")
        for i, sigma in enumerate(np.linalg.svd(minimiser(headline, 0.5), compute_uv=False)):
            name = r"$\mathrm{argmin}\,Q_\mu$" if i == 0 else None
            right.axhline(sigma, color="#D55E00", ls="--", lw=1.0, zorder=1, label=name)
        right.set(ylabel=r"singular values of $UV^\top$")
        log_time_axes(right)
        mark_phases(right, headline.verdict)
        legend_below(left, middle, right, ncols=4)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        residual = max(float(run.curves["train_error"][-1]) for run in runs.values())
        yield Finding(
            self.claims[0],
            "assumed by the theorem",
            f"largest ‖⟨Xₙ, M⟩ − yₙ‖/‖y‖ of {len(runs)} runs: {residual:.1g}",
            residual <= 1e-6,
        )
        held = _held(runs)
        sizes = {_width(run): (_start_size(run), _product(run) / np.sqrt(_width(run))) for run in held}
        yield Finding(
            self.claims[1],
            "σ = ‖M(0)‖_F/d, of order α²√k",
            "‖M(0)‖_F/d and α²√k: " + ", ".join(f"{size:.3g} and {s:.3g} (k={k})" for k, (size, s) in sizes.items()),
            all(abs(size / s - 1) <= 0.5 for size, s in sizes.values()),
        )
        widths, gaps = [_width(run) for run in held], [_distance(run, 0.5) for run in held]
        slope = log_slope(widths, gaps)
        yield Finding(
            self.claims[2],
            "equality in the limit",
            f"σ√k={_product(held[0]):g}: relative distance of M, all entries, "
            + ", ".join(f"{gap:.2g} (k={k})" for k, gap in zip(widths, gaps, strict=True))
            + f", like k^{slope:.2f}: the start itself is of size σ, like k^−0.50",
            -0.75 <= slope <= -0.25 and gaps[0] <= 0.1,
        )
        best = {_width(run): best_factor(run) for run in held}
        others = {factor: _distance(held[0], factor, diagonal=True) for factor in (0.25, 0.5, 1.0)}
        yield Finding(
            self.claims[3],
            "μ² = ½σ√k",
            "nearest to the diagonal of M is argmin Q_μ with μ²/(σ√k) = "
            + ", ".join(f"{factor:.3g} (k={k})" for k, factor in best.items())
            + "; the distance of the widest is "
            + ", ".join(f"{gap:.2g} (μ²={factor:g}σ√k)" for factor, gap in others.items()),
            abs(best[widths[0]] / 0.5 - 1) <= 0.15 and others[0.5] < 0.5 * min(others[0.25], others[1.0]),
        )
        wide = sorted((run for run in runs.values() if _width(run) == widths[0]), key=_product)
        seen = {_product(run): _excesses(np.abs(np.diag(_matrix(run))), run) for run in wide}
        extremes = [
            _excesses(np.linalg.svd(theory.SpectralQ(mu).minimise(*examples(wide[0])), compute_uv=False), wide[0])
            for mu in (1e-300, 1e10)
        ]
        nuclear, frobenius = ([excess[j] for excess in seen.values()] for j in (0, 1))
        yield Finding(
            self.claims[4],
            "the trace norm for small μ and the Frobenius norm for large μ",
            "excess over the least nuclear norm and over the least Frobenius norm, of the diagonal of M: "
            + ", ".join(f"{a:.2g} and {b:.2g} (σ√k={s:g})" for s, (a, b) in seen.items())
            + f"; of argmin Q_μ {extremes[0][0]:.1g} (nuclear, μ=1e-300) and {extremes[1][1]:.1g} (Frobenius, μ=1e10)",
            bool(
                nuclear[0] < nuclear[1] < nuclear[2]
                and frobenius[0] > frobenius[1] > frobenius[2]
                and max(extremes[0][0], extremes[1][1]) <= 1e-6
            ),
        )


def minimiser(run: Run, factor: float) -> np.ndarray:
    """argmin Q_μ(spectrum) for the data of a run, μ² = factor·σ√k."""
    return theory.SpectralQ(float(np.sqrt(factor * _product(run)))).minimise(*examples(run))


def best_factor(run: Run) -> float:
    """The μ²/(σ√k) whose minimiser is nearest to the diagonal of M."""
    from scipy.optimize import minimize_scalar

    found: Any = minimize_scalar(
        lambda log: _distance(run, float(np.exp(log)), diagonal=True),
        bounds=(-4.0, 2.0),
        method="bounded",
        options={"xatol": 1e-4},
    )
    return float(np.exp(found.x))


def _distance(run: Run, factor: float, diagonal: bool = False) -> float:
    M, limit = _matrix(run), minimiser(run, factor)
    apart = np.diag(M - limit) if diagonal else M - limit
    return float(np.linalg.norm(apart) / np.linalg.norm(limit))


def _excesses(sigma: np.ndarray, run: Run) -> tuple[float, float]:
    """How far Σσ and ‖σ‖ are above the least nuclear and the least Frobenius norm on the data of a run."""
    X, y = examples(run)
    diagonals = np.diagonal(X, axis1=1, axis2=2)  # of diagonal measurements both minimisers are diagonal
    least_l1, least_l2 = theory.min_l1(diagonals, y), theory.min_l2(diagonals, y)
    return (
        float(sigma.sum() / np.abs(least_l1).sum() - 1),
        float(np.linalg.norm(sigma) / np.linalg.norm(least_l2) - 1),
    )


def _held(runs: Mapping[str, Run]) -> list[Run]:
    """The runs with the σ√k of the headline, the widest first."""
    product = _product(next(iter(runs.values())))
    return [run for run in runs.values() if np.isclose(_product(run), product)]


def _matrix(run: Run) -> np.ndarray:
    return run.params["U"] @ run.params["V"].T


def _width(run: Run) -> int:
    return run.spec["model"]["rank"]


def _product(run: Run) -> float:
    """σ√k = α²k."""
    return run.spec["init"]["scale"] ** 2 * _width(run)


def _start_size(run: Run) -> float:
    """‖M(0)‖_F/d."""
    d = run.spec["task"]["rows"]
    U, V = initial(run).reshape(2, d, _width(run))
    return float(np.linalg.norm(U @ V.T) / d)
