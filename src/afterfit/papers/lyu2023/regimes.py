"""What Thms 3.4 to 3.10 share: the flow from α·θ̄ with λ a power of 1/α, up to a time in units of (1/λ)·log α."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import jax
import numpy as np
from matplotlib.axes import Axes

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit.experiment import Experiment
from afterfit.problem import norm
from afterfit.run import Run
from afterfit.theory.instance import instance_of
from afterfit.theory.stationarity import Stationarity, kkt

__all__ = [
    "by_share",
    "end_slopes",
    "margin_flow",
    "margin_flows",
    "mark_shares",
    "scale_of",
    "scale_ticks",
    "table_flow",
    "weights_of",
]


def margin_flow(n: int, d: int, alpha: float, share: float, observations: int, power: int = 1) -> Experiment:
    """A diagonal net on Gaussian inputs with the exponential loss, from (α, …, α) until share·(1/λ)·log α, λ = α^−p.

    Gaussian inputs have one classifier of largest L1 margin; ±1 inputs can have many.
    """
    decay = alpha**-power
    return Experiment(
        task=tasks.SparseClassification(n=n, d=d, sparsity=3, design="gaussian", loss_name="exponential"),
        model=models.DiagonalNet(),
        penalty=penalties.L2(decay),
        # An error of rtol in θ is one of α²·rtol in the outputs, and a loss that has vanished does not take a step that
        # went too far back.
        dynamics=dynamics.GradientFlow(
            until=float(share / decay * np.log(alpha)), first=1e-3 / decay, rtol=1e-2 / alpha**2, atol=1e-100
        ),
        init=inits.Constant(scale=alpha),
        observations=observations,
    )


def margin_flows(scale: str, shares: Sequence[float], power: int = 1) -> dict[str, Experiment]:
    """Such flows for α over decades, until each share: those of Thms 3.4 and 3.5. The largest α comes first."""
    n, d, decades, observations = (
        (20, 100, np.arange(5, 0.9, -0.5), 120) if scale == "paper" else (10, 30, np.arange(4, 0.9, -1), 40)
    )
    return {
        f"α={alpha:.4g} share {share:g}": margin_flow(n, d, float(alpha), share, observations, power)
        for alpha in 10.0**decades
        for share in sorted(shares, reverse=True)
    }


def table_flow(
    d: int, observed: float, alpha: float, share: float, observations: int, decay: float | None = None
) -> Experiment:
    """UUᵀ − VVᵀ on the multiplication table, from U = V = αI until share·(1/λ)·log α, λ = 1/α unless it is given."""
    decay = decay or 1 / alpha
    end = float(share / decay * np.log(alpha))
    return Experiment(
        task=tasks.MatrixCompletion(d, d, 1, observed=observed, truth="multiplication_table", reduction="mean"),
        model=models.SymmetricFactorisation(),
        penalty=penalties.L2(decay),
        dynamics=dynamics.GradientFlow(until=end, first=1e-2 / alpha**2, rtol=1e-7, method="implicit"),
        init=inits.Identity(alpha),
        observations=observations,
    )


def by_share(runs: Mapping[str, Run], shares: Iterable[float]) -> dict[float, list[Run]]:
    """The runs until each share of (1/λ)·log α, in the order of α; their names end in the share."""
    return {
        share: sorted((run for name, run in runs.items() if name.endswith(f" {share:g}")), key=scale_of)
        for share in shares
    }


def end_slopes(run: Run) -> tuple[Stationarity, float]:
    """How near the end of a run is to a KKT point of R1 or R2, and ‖∇𝓛_λ‖ there."""
    with jax.enable_x64(True):
        instance = instance_of(run)
        assert instance.final is not None
        return kkt(instance.problem, instance.final), float(norm(instance.problem.gradient(instance.final)))


def mark_shares(ax: Axes, run: Run, shares: Sequence[float]) -> None:
    """Mark the times share·(1/λ)·log α of a run by thin grey lines."""
    label = rf"$\lambda t/\log\alpha={', '.join(f'{share:g}' for share in shares)}$"
    for k, share in enumerate(shares):
        time = share * np.log(scale_of(run)) / run.spec["penalty"]["strength"]
        ax.axvline(time, color="0.6", lw=0.8, label=label if k == 0 else None)


def scale_ticks(ax: Axes, runs: Sequence[Run]) -> None:
    """Ticks at the scales of some runs, on an axis too short for powers of ten."""
    alphas = [scale_of(run) for run in runs]
    ax.set_xticks(alphas, [f"{alpha:g}" for alpha in alphas])
    ax.set_xticks([], minor=True)


def scale_of(run: Run) -> float:
    """α of a run."""
    return run.spec["init"]["scale"]


def weights_of(run: Run) -> np.ndarray:
    """w = u² − v² of a diagonal net, or W = UUᵀ − VVᵀ, at the end of a run."""
    if "plus" in run.params:
        return (run.params["plus"] + run.params["minus"]) * (run.params["plus"] - run.params["minus"])
    return run.params["U"] @ run.params["U"].T - run.params["V"] @ run.params["V"].T
