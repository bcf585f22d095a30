"""What Figs 1a and 1b share: the diagonal net, its picture and its two predictions."""

from __future__ import annotations

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from afterfit import theory
from afterfit.papers.gallery import Finding
from afterfit.papers.lyu2023.accuracy import accuracy_picture
from afterfit.run import Run

__all__ = ["LR", "diagonal_picture", "margin_accuracies", "norm_finding", "transition_finding"]

LR = 0.01  # the authors' learning rate, which turns training time into their steps


def diagonal_picture(run: Run) -> Figure:
    """Accuracies and norm of a diagonal net beside what is predicted: both margins, (1/λ)·log α and α·exp(−λt)."""
    decay, alpha = run.spec["penalty"]["strength"], run.spec["init"]["norm"]
    clock = np.log(alpha) / decay

    def predictions(accuracy: Axes, norm: Axes) -> None:
        time = run.curves["time"].values[1:]
        early = time[time <= clock]
        norm.plot(early, alpha * np.exp(-decay * early), color="k", ls=":", lw=1.4, label=r"$\alpha\,e^{-\lambda t}$")
        norm.set_yscale("log")
        for (name, level), style in zip(margin_accuracies(run).items(), ((0, (6, 2)), (0, (2, 1))), strict=True):
            accuracy.axhline(100 * level, color="#7B3294", lw=1.2, ls=style, zorder=1, label=f"{name} classifier")
        for ax in (accuracy, norm):
            ax.axvspan(clock / 2, 2 * clock, color="0.9", zorder=0)
            label = r"$(1/\lambda)\log\alpha$, and within ×2" if ax is accuracy else None
            ax.axvline(clock, color="0.5", lw=1, zorder=1, label=label)

    return accuracy_picture(run, LR, chance=0.5, predictions=predictions)


def margin_accuracies(run: Run) -> dict[str, float]:
    """Test accuracy of the classifiers that the early and the late phase lead to (Cors 3.6 and 3.7)."""
    instance = theory.instance_of(run)
    ends = {"max-L2-margin": theory.max_l2_margin, "max-L1-margin": theory.max_l1_margin}
    with jax.enable_x64(True):
        return {name: instance.score_weights(find(instance.design, instance.targets))[1] for name, find in ends.items()}


def transition_finding(claim: str, run: Run) -> Finding:
    """When the test accuracy of a diagonal net is half-way, against (1/λ)·log α."""
    decay, alpha = run.spec["penalty"]["strength"], run.spec["init"]["norm"]
    halfway, clock = run.verdict.t_half or np.inf, float(np.log(alpha) / decay)
    return Finding(
        claim,
        f"(1/λ)·log α = {clock:.3g}, sharp as α → ∞",
        f"half-way at t={halfway:.3g}, {halfway / clock:.2f} of it; 10–90 % within "
        f"{run.verdict.width_decades or np.nan:.2f} decades",
        0.5 <= halfway / clock <= 2,
    )


def norm_finding(claim: str, run: Run) -> Finding:
    """‖θ‖ of a diagonal net against α·exp(−λt), until t = 1/λ, when it has fallen to α/e."""
    decay, alpha = run.spec["penalty"]["strength"], run.spec["init"]["norm"]
    early = run.curves["norm_l2"].sel(time=slice(None, 1 / decay))
    ratio = early / (alpha * np.exp(-decay * early["time"]))
    return Finding(
        claim,
        "the norm decays, the direction stays: θ(t) ≈ α·exp(−λt)·θ_init (§3.2.1)",
        f"‖θ‖/(α·exp(−λt)) between {float(ratio.min()):.4g} and {float(ratio.max()):.4g} until t = 1/λ = {1 / decay:g}",
        bool((abs(ratio - 1) <= 0.05).all()),
    )
