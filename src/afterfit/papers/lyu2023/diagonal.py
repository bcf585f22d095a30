"""What Figs 1a and 1b share: the diagonal net's start and decay, its picture and its two predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers.lyu2023.accuracy import accuracy_picture
from afterfit.papers.lyu2023.clock import clock, clock_finding, clock_says

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "DECAY",
    "LR",
    "NORM",
    "NORM_SAYS",
    "TURN_SAYS",
    "diagonal_picture",
    "margin_accuracies",
    "norm_finding",
    "turn_finding",
]

LR = 0.01  # the authors' learning rate, which turns training time into their steps
NORM = {"paper": 128.0, "quick": 64.0}  # α, that of all parameters together
DECAY = {"paper": 1e-3, "quick": 1e-2}  # λ
TURN_SAYS = {scale: clock_says(NORM[scale], DECAY[scale]) for scale in NORM}
NORM_SAYS = "the norm decays, the direction stays: θ(t) ≈ α·exp(−λt)·θ_init (§3.2.1)"


def diagonal_picture(run: af.Run) -> Figure:
    """Accuracies and norm of a diagonal net beside what is predicted: both margins, (1/λ)·log α and α·exp(−λt)."""
    α, λ = _knobs(run)
    turn = clock(α, λ)

    def predictions(accuracy: Axes, norm: Axes) -> None:
        time = run.curves["time"].values[1:]
        early = time[time <= turn]
        norm.plot(early, α * np.exp(-λ * early), color="k", ls=":", lw=1.4, label=r"$\alpha\,e^{-\lambda t}$")
        norm.set_yscale("log")
        for (name, level), style in zip(margin_accuracies(run).items(), ((0, (6, 2)), (0, (2, 1))), strict=True):
            accuracy.axhline(100 * level, color="#7B3294", lw=1.2, ls=style, zorder=1, label=f"{name} classifier")
        for ax in (accuracy, norm):
            ax.axvspan(turn / 2, 2 * turn, color="0.9", zorder=0)
            label = r"$(1/\lambda)\log\alpha$, and within ×2" if ax is accuracy else None
            ax.axvline(turn, color="0.5", lw=1, zorder=1, label=label)

    return accuracy_picture(run, LR, chance=0.5, predictions=predictions)


def margin_accuracies(run: af.Run) -> dict[str, float]:
    """Test accuracy of the classifiers that the early and the late phase lead to (Cors 3.6 and 3.7)."""
    import jax

    instance = af.theory.instance_of(run)
    ends = {"max-L2-margin": af.theory.max_l2_margin, "max-L1-margin": af.theory.max_l1_margin}
    with jax.enable_x64(True):
        return {name: instance.score_weights(find(instance.design, instance.targets))[1] for name, find in ends.items()}


def turn_finding(run: af.Run) -> Finding:
    """When the test accuracy of a diagonal net is half-way, against (1/λ)·log α."""
    return clock_finding("half-way", run.verdict.t_half or np.inf, clock(*_knobs(run)), run)


def norm_finding(run: af.Run) -> Finding:
    """‖θ‖ of a diagonal net against α·exp(−λt), until t = 1/λ, when it has fallen to α/e."""
    α, λ = _knobs(run)
    early = run.curves["norm_l2"].sel(time=slice(None, 1 / λ))
    ratio = early / (α * np.exp(-λ * early["time"]))
    return Finding(
        f"‖θ‖/(α·exp(−λt)) between {float(ratio.min()):.4g} and {float(ratio.max()):.4g} until t = 1/λ = {1 / λ:g}",
        bool((abs(ratio - 1) <= 0.05).all()),
    )


def _knobs(run: af.Run) -> tuple[float, float]:
    """α and λ."""
    return run.spec["init"]["norm"], run.spec["penalty"]["strength"]
