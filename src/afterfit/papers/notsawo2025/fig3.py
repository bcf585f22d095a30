"""Figs 3 and 25: sparse recovery groks under an L1 penalty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding, run_all
from afterfit.plot import TEST, TRAIN, legend_below, log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Fig3"]


class Fig3(Entry):
    id = "notsawo2025/fig3"
    title = "Sparse recovery groks under an L1 penalty"
    where = "Figs 3 and 25, §3.1"
    about = (
        "A 5-sparse vector of length 100 is sought from 30 Gaussian measurements by subgradient descent on "
        "½‖Xa − y‖² + β‖a‖₁ with step α = 10⁻¹ and β = 10⁻⁵, from almost zero. The data are fitted at t₁ by the "
        "least-squares solution; the penalty then moves a slowly along the interpolating set, at αβ a step, until "
        "‖a‖₁ = ‖a*‖₁ and with it a = a* at t₂. The paper does not give the size of a* for this figure; its entries "
        "are N(0, 1) here and there is no noise, with which the relative errors reach the paper's 10⁻⁴."
    )
    claims = (
        "the training error g falls below 10⁻⁶ first",
        "‖Xa − y*‖₂ decreases to 10⁻⁶",
        "recovery comes much later",
        "the recovery error comes down to the training error",
        "the gradient ratio crosses 1 at t₁",
        "‖a‖₁ converges to ‖a*‖₁ at t₂",
        "every component converges",
        "recovery on the draws where the convex program recovers",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            return {"run": self._experiment(n=100, sparsity=5, N=30, scale=1.0, steps=6_000_000)}
        return {"run": self._experiment(n=40, sparsity=2, N=18, scale=3.0, steps=4_000_000)}

    def _experiment(self, n: int, sparsity: int, N: int, scale: float, steps: int) -> Experiment:
        return Experiment(
            task=tasks.SparseRecovery(n=n, sparsity=sparsity, N=N, scale=scale),
            model=models.Linear(),
            penalty=penalties.L1(1e-5),
            dynamics=dynamics.GradientDescent(lr=0.1, steps=steps),
            init=inits.ScaledGaussian(1e-6),
            seed=1,
        )

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        run = runs["run"]
        curves = run.curves.isel(time=slice(1, None))
        truth = Experiment.from_dict(run.spec).draw().truth
        figure = Figure(figsize=(11, 7.6), layout="constrained")
        (errors, ratio), (norm, components) = figure.subplots(2, 2)
        time = curves["time"]
        errors.plot(time, curves["train_error"], **TRAIN, label=r"training $\|Xa-y^*\|/\|y^*\|$")
        errors.plot(time, curves["test_error"], **TEST, label=r"recovery $\|a-a^*\|/\|a^*\|$")
        foreseen, told = theory.forecast(run.spec), theory.clocks(run)[theory.Descent]
        errors.plot(foreseen.time, foreseen.test, color="k", ls=(0, (1, 1.2)), lw=1.2, label="recovery, foreseen")
        order = r"of order $\|\hat a-a^*\|_\infty/\beta$"
        errors.axvline(told.prediction, color="#7B3294", lw=1.2, ls=(0, (4, 2)), label=order)
        errors.set(yscale="log", ylabel="relative error")
        ratio.plot(time, curves["loss_gradient"] / curves["penalty_gradient"], color="#0072B2")
        ratio.axhline(1.0, color="k", ls=":", lw=1)
        ratio.set(yscale="log", ylabel=r"gradient ratio $\|G\|/(\beta\|H\|)$")
        norm.plot(time, curves["norm_l1"], color="0.2", label=r"$\|a\|_1$")
        norm.axhline(np.abs(truth).sum(), color="k", ls=":", lw=1.2, label=r"$\|a^*\|_1$")
        norm.set(ylabel=r"$\ell_1$ norm", ylim=(0, None))
        off, on = np.flatnonzero(truth == 0), np.flatnonzero(truth)
        lines = components.plot(time, curves["weights"][:, off], color="0.6", lw=0.7)
        lines[0].set_label("off the support")
        lines = components.plot(time, curves["weights"][:, on], color="#D55E00", lw=1.8)
        lines[0].set_label("on the support")
        for k, value in enumerate(truth[on]):
            components.axhline(value, color="k", ls=":", lw=1, label=r"$a^*_i$" if k == 0 else None)
        components.set(ylabel=r"components $a_i$")
        axes = (errors, ratio, norm, components)
        log_time_axes(*axes)
        for ax in axes:
            mark_phases(ax, run.verdict)
        legend_below(errors)
        legend_below(norm, components, ncols=3)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        run, curves, verdict = runs["run"], runs["run"].curves, runs["run"].verdict
        experiment = Experiment.from_dict(run.spec)
        data = experiment.draw()
        t_fit, t_gen = verdict.t_fit or np.inf, verdict.t_gen or np.inf
        between = (curves["time"].values >= t_fit) & (curves["time"].values < t_gen)
        plateau = curves["train_loss"].values[between]
        g_below = curves["time"][curves["train_loss"].values <= 1e-6]
        first_below = float(g_below[0]) if len(g_below) else np.inf
        yield Finding(
            self.claims[0],
            "the training error, defined as g(a) = ½‖Xa − y*‖², goes first, to 10⁻⁶",
            f"g ≤ 10⁻⁶ from t={first_below:.3g}, at most {np.max(plateau, initial=0.0):.2g} between t₁={t_fit:.3g} "
            f"and t₂={t_gen:.3g}",
            first_below < 0.1 * t_gen and bool(between.any() and np.all(plateau <= 1e-6)),
        )
        smallest = float(np.sqrt(2 * curves["train_loss"].min()))
        support = np.flatnonzero(data.truth)
        bound = 1e-5 * np.sqrt(len(support)) / np.linalg.svd(data.inputs[:, support], compute_uv=False)[0]
        yield Finding(
            self.claims[1],
            "‖Xa − y*‖₂ first decreases to 10⁻⁶",
            f"{smallest:.2g} at the least; with a at the lasso solution Xᵀ(y − Xa) = β·sign(a) on the support, so it "
            f"cannot be below β√s/σ_max(X_S) = {bound:.2g}",
            smallest <= 1.5e-6,
        )
        yield Finding(
            self.claims[2],
            "after a long training time",
            f"t₁={t_fit:.3g} (step {t_fit / 0.1:.3g}), t₂={t_gen:.3g} (step {t_gen / 0.1:.3g}): "
            f"t₂/t₁ = {t_gen / t_fit:.3g}",
            verdict.kind == "grokking" and t_gen > 100 * t_fit,
        )
        train, test = float(curves["train_error"][-1]), float(curves["test_error"][-1])
        yield Finding(
            self.claims[3],
            "the recovery error decreases and matches the training error",
            f"relative errors at the end: recovery {test:.2g}, training {train:.2g}",
            test <= 3 * train,
        )
        ratio = (curves["loss_gradient"] / curves["penalty_gradient"]).values
        after = np.flatnonzero(ratio < 1)
        crossing = float(curves["time"][after[0]]) if len(after) else np.inf
        yield Finding(
            self.claims[4],
            "G dominates βH until memorisation at t₁, then βH dominates",
            f"‖G‖ = β‖H‖ at t={crossing:.3g}, t₁={t_fit:.3g}; ratio {ratio[0]:.2g} at the start, "
            f"at most {np.max(ratio[between], initial=0.0):.2g} between t₁ and t₂",
            1 / 3 <= crossing / t_fit <= 3,
        )
        size = np.abs(data.truth).sum()
        at = {t: float(curves["norm_l1"].sel(time=t, method="nearest")) / size - 1 for t in (t_fit, t_gen)}
        yield Finding(
            self.claims[5],
            "‖a‖₁ converges to ‖a*‖₁ at t₂ = t₁ + Δt",
            f"‖a‖₁ exceeds ‖a*‖₁ by {at[t_fit]:.1%} at t₁ and by {at[t_gen]:.2g} of it at t₂",
            abs(at[t_gen]) <= 1e-3 < at[t_fit],
        )
        worst = float(np.max(np.abs(run.params["weights"] - data.truth)))
        yield Finding(
            self.claims[6],
            "aᵢ converges to aᵢ* for each i",
            f"largest |aᵢ − aᵢ*| at the end: {worst:.2g}, beside ‖a*‖_∞ = {np.abs(data.truth).max():.2g}",
            worst <= 1e-3 * np.abs(data.truth).max(),
        )
        draws = {f"seed {seed}": experiment.set({"seed": seed, "observations": 20}) for seed in range(10)}
        others = run_all(draws, f"{self.id}: draws", progress)
        found, possible, agree = 0, 0, 0
        for name, other in others.items():
            data = draws[name].draw()
            recovers = float(other.curves["test_error"][-1]) <= 1e-3
            convex = theory.min_l1(data.inputs, data.targets)
            can = bool(np.linalg.norm(convex - data.truth) <= 1e-6 * np.linalg.norm(data.truth))
            found, possible, agree = found + recovers, possible + can, agree + (recovers == can)
        yield Finding(
            self.claims[7],
            "a* is the minimum-ℓ₁ solution when N is large enough, and descent finds it",
            f"descent recovers (relative error ≤ 10⁻³) on {found} of {len(draws)} draws, the linear program on "
            f"{possible}; they agree on {agree}",
            agree >= 0.9 * len(draws),
        )
