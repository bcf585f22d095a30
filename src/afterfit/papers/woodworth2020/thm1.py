"""Thm 1: the end point of gradient flow on a diagonal net."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import examples, relative_distance
from afterfit.plot import log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Thm1"]


class Thm1(Entry):
    id = "woodworth2020/thm1"
    title = "Gradient flow on a diagonal net ends at the minimiser of Q"
    where = "Thm 1, §4"
    about = (
        "The diagonal net w₊² − w₋² is fitted by gradient flow to sparse regression with fewer examples than "
        "dimensions, from w₊ = w₋ = α·w₀. Whatever the scale α and the shape w₀ (no zero entries), the weights end at "
        "the interpolating β that minimises Q_{α,w₀}, which goes from a weighted L2 norm (α → ∞) to the L1 norm "
        "(α → 0). The minimiser is found by a convex solver that knows nothing of the flow."
    )
    claims = (
        "the flow interpolates: Xβ = y at the end",
        "uniform w₀: the limit is argmin Q_{α,1}",
        "non-uniform w₀: the limit is argmin Q_{α,w₀}",
        "the shape matters: with non-uniform w₀ the limit is not argmin Q_{α,1}",
        "the limit goes from min-L2 to min-L1 as α falls",
    )

    _alphas = (0.01, 0.1, 1.0, 10.0)

    def experiments(self, scale: str) -> dict[str, Experiment]:
        n, d, sparsity = (40, 100, 5) if scale == "paper" else (12, 30, 2)
        shape = tuple(float(w) for w in np.random.default_rng(0).uniform(0.25, 2.0, d))
        experiments = {}
        for alpha in self._alphas:
            for name, w0 in (("uniform", None), ("non-uniform", shape)):
                experiments[f"{name} α={alpha:g}"] = Experiment(
                    task=tasks.SparseRegression(n=n, d=d, sparsity=sparsity, noise_variance=0.01),
                    model=models.DiagonalNet(depth=2),
                    # Large α makes the flow fast (its rates grow like α²); small α leaves coordinates near 0 slow.
                    dynamics=dynamics.GradientFlow(
                        until=200.0 / max(1.0, alpha) ** 2, rtol=1e-9, atol=1e-12, first=1e-6
                    ),
                    init=inits.Constant(scale=alpha, shape=w0),
                    observations=120,
                )
        return experiments

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(11, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        limits = {name: minimiser(run) for name, run in runs.items()}
        greys = np.linspace(0.75, 0.0, len(runs) // 2)
        for k, (name, run) in enumerate(runs.items()):
            curves = run.curves.isel(time=slice(1, None))
            distance = np.linalg.norm(curves["weights"].values - limits[name], axis=1) / np.linalg.norm(limits[name])
            style = "-" if name.startswith("uniform") else "--"
            left.plot(curves["time"], distance, style, color=str(greys[k // 2]), label=name)
            if name.startswith("uniform"):
                order = np.argsort(limits[name])
                right.plot(limits[name][order], color=str(greys[k // 2]), lw=1.2)
                right.plot(
                    _end(run)[order],
                    ls="",
                    marker="o",
                    mfc="none",
                    ms=3.5,
                    color=str(greys[k // 2]),
                )
        left.set(yscale="log", ylabel=r"$\|\beta(t)-\mathrm{argmin}\,Q\|/\|\mathrm{argmin}\,Q\|$")
        log_time_axes(left)
        headline = next(iter(runs))
        mark_phases(left, runs[headline].verdict)
        left.legend(loc="lower left", fontsize="small", frameon=False, title=f"phases marked: {headline}")
        right.set(
            xlabel="coordinate, sorted",
            ylabel=r"$\beta_i$",
            title="uniform: circles the flow, lines argmin Q",
        )
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        residual = max(float(run.curves["train_error"][-1]) for run in runs.values())
        yield Finding(
            self.claims[0],
            "assumed by the theorem",
            f"largest ‖Xβ − y‖/‖y‖ of {len(runs)} runs: {residual:.1g}",
            residual <= 1e-4,
        )
        uniform, shaped = ({name: r for name, r in runs.items() if name.startswith(kind)} for kind in ("uni", "non"))
        for claim, group in ((self.claims[1], uniform), (self.claims[2], shaped)):
            gap_of = {name: relative_distance(_end(run), minimiser(run)) for name, run in group.items()}
            yield Finding(
                claim,
                "equality",
                "relative distance " + ", ".join(f"{gap:.1g} ({name.split()[1]})" for name, gap in gap_of.items()),
                max(gap_of.values()) <= 1e-3,
            )
        wrong = {name: relative_distance(_end(run), minimiser(run, uniform=True)) for name, run in shaped.items()}
        gaps = list(wrong.values())
        yield Finding(
            self.claims[3],
            "w₀ changes the weights of the limit norm for α → ∞ and not the L1 limit for α → 0",
            "distance to argmin Q_{α,1}: " + ", ".join(f"{gap:.2g} ({name.split()[1]})" for name, gap in wrong.items()),
            max(wrong.values()) >= 0.05 and gaps[-1] > gaps[0],
        )
        X, y = examples(next(iter(runs.values())))
        least_l1, least_l2 = theory.min_l1(X, y), theory.min_l2(X, y)
        weights = [run.params["plus"] ** 2 - run.params["minus"] ** 2 for run in uniform.values()]
        excess_l1 = [np.abs(w).sum() / np.abs(least_l1).sum() - 1 for w in weights]
        excess_l2 = [np.linalg.norm(w) / np.linalg.norm(least_l2) - 1 for w in weights]
        yield Finding(
            self.claims[4],
            "min-L1 as α → 0, min-L2 as α → ∞",
            f"excess L1 norm {excess_l1[0]:.1g} at α={self._alphas[0]:g} to {excess_l1[-1]:.2g} at "
            f"α={self._alphas[-1]:g}; excess L2 norm {excess_l2[0]:.2g} to {excess_l2[-1]:.1g}",
            bool(np.all(np.diff(excess_l1) > 0) and np.all(np.diff(excess_l2) < 0) and excess_l2[-1] < 1e-3),
        )


def minimiser(run: Run, uniform: bool = False) -> np.ndarray:
    """argmin Q for the data, scale and shape of a run (or for its scale and w₀ = 1)."""
    shape = run.spec["init"]["shape"]
    potential = theory.Q(run.spec["init"]["scale"], 1.0 if uniform or shape is None else shape)
    return potential.minimise(*examples(run))


def _end(run: Run) -> np.ndarray:
    return run.curves["weights"][-1].values
