"""What Thms 3.4 to 3.10 share: the flow from α·θ̄ with λ a power of 1/α, up to a time in units of (1/λ)·log α."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

import afterfit as af
from afterfit.papers import Entry, once
from afterfit.papers._measure import Interval, log_slope, power_law
from afterfit.papers.lyu2023.clock import clock

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "STYLES",
    "At",
    "Law",
    "Regime",
    "by_c",
    "end_slopes",
    "first_to_last",
    "in_words",
    "is_law",
    "kernel_regime",
    "kernel_regime_end",
    "largest_move",
    "law",
    "laws",
    "margin_flow",
    "margin_flows",
    "mark_shares",
    "mean_slope",
    "off_the_start",
    "regularised",
    "scale_ticks",
    "start_slope",
    "table_flow",
    "weights_of",
    "zero_filled",
    "zero_filled_loss",
]

STYLES: tuple[dict[str, Any], ...] = tuple(  # one for each c, from light to dark
    {"color": grey, "marker": marker, "mfc": "none"} for grey, marker in (("0.65", "o"), ("0.4", "s"), ("0.0", "^"))
)
_End = TypeVar("_End")


class At(NamedTuple):
    """Where a flow starts, αθ̄, and when it stops, at share·(1/λ)·log α."""

    α: float
    share: float


class Regime(Entry):
    """A theorem on `flows`, its runs, for rising α, up to times (1 − c)/λ·log α or (1 + c)/λ·log α."""

    @once
    def headline(self, flows: dict[At, af.Run]) -> af.Run:
        """The flow from the largest α to the latest time. All flows have its data."""
        return flows[max(flows)]

    @once
    def groups(self, flows: dict[At, af.Run]) -> dict[float, list[af.Run]]:
        """The runs by c, in the order of α."""
        groups: dict[float, list[af.Run]] = {}
        for at in sorted(flows):
            groups.setdefault(abs(1 - at.share), []).append(flows[at])
        return groups

    @once
    def alphas(self, flows: dict[At, af.Run]) -> list[float]:
        """Every α, rising."""
        return sorted({at.α for at in flows})

    @once
    def reached(self, alphas: list[float]) -> str:
        """From which α to which, in words."""
        return f"from α={alphas[0]:g} to {alphas[-1]:g}"


def margin_flow(n: int, d: int, α: float, share: float, observations: int, power: int = 1) -> af.Experiment:
    """A diagonal net on Gaussian inputs with the exponential loss, from (α, …, α) until share·(1/λ)·log α, λ = α^−p.

    Gaussian inputs have one classifier of largest L1 margin; ±1 inputs can have many. The flow is that of u and v: what
    is claimed of their direction is in no variable of the method.
    """
    decay = α**-power
    return af.Experiment(
        task=af.tasks.SparseClassification(n=n, d=d, sparsity=3, design="gaussian", loss_name="exponential"),
        model=af.models.DiagonalNet(),
        penalty=af.penalties.L2(decay),
        # An error of rtol in θ is one of α²·rtol in the outputs, and a loss that has vanished does not take a step that
        # went too far back.
        dynamics=af.dynamics.GradientFlow(
            until=float(share / decay * np.log(α)),
            first=1e-3 / decay,
            rtol=1e-2 / α**2,
            atol=1e-100,
            method="explicit",
        ),
        init=af.inits.Constant(scale=α),
        observations=observations,
    )


def margin_flows(scale: str, shares: Sequence[float], seed: int, power: int = 1) -> dict[At, af.Experiment]:
    """Such flows for α over decades, until each share: those of Thms 3.4 and 3.5. The largest α comes first."""
    n, d, decades, observations = (
        (20, 100, np.arange(5, 0.9, -0.5), 120) if scale == "paper" else (10, 30, np.arange(4, 0.9, -0.5), 40)
    )
    ats = [At(float(α), share) for α in 10.0**decades for share in sorted(shares, reverse=True)]
    return {at: margin_flow(n, d, at.α, at.share, observations, power).set({"seed": seed}) for at in ats}


def table_flow(
    d: int, observed: float, α: float, share: float, observations: int, decay: float | None = None
) -> af.Experiment:
    """UUᵀ − VVᵀ on the multiplication table, from U = V = αI until share·(1/λ)·log α, λ = 1/α unless it is given."""
    decay = decay or 1 / α
    end = float(share / decay * np.log(α))
    return af.Experiment(
        task=af.tasks.MatrixCompletion(d, d, 1, observed=observed, truth="multiplication_table", reduction="mean"),
        model=af.models.SymmetricFactorisation(),
        penalty=af.penalties.L2(decay),
        dynamics=af.dynamics.GradientFlow(until=end, first=1e-2 / α**2, rtol=1e-7, method="implicit"),
        init=af.inits.Identity(α),
        observations=observations,
    )


def weights_of(run: af.Run) -> np.ndarray:
    """w = u² − v² of a diagonal net, or W = UUᵀ − VVᵀ, at the end of a run."""
    if "plus" in run.params:
        return (run.params["plus"] + run.params["minus"]) * (run.params["plus"] - run.params["minus"])
    return run.params["U"] @ run.params["U"].T - run.params["V"] @ run.params["V"].T


def kernel_regime(run: af.Run) -> tuple[np.ndarray, af.theory.KernelPredictor]:
    """The weights of the kernel predictor at the start of a run, and that predictor."""
    import jax

    with jax.enable_x64(True):
        predictor = af.theory.kernel_predictor(af.theory.instance_of(run))
        assert isinstance(predictor.model, af.models.LinearModel)
        return np.asarray(predictor.model.weights(predictor.params)), predictor


def largest_move(run: af.Run) -> tuple[float, float]:
    """γ_ntk and ε_max of App. C.2: what ‖θ − θ̄‖ may be for ∇fᵢ of a diagonal net to move by γ_ntk/2 at most."""
    widest = af.theory.max_l2_margin(run.data.inputs, run.data.targets)
    γ = 2 * np.sqrt(2) / float(np.linalg.norm(widest))  # that of the features (2x, −2x)
    return γ, γ / (4 * float(np.max(np.abs(run.data.inputs))))


def kernel_regime_end(run: af.Run) -> float:
    """λT_max of a diagonal net: when ‖e^{λt}θ/α − θ̄‖ passes ε_max (App. C.2)."""
    curves, α = run.curves.isel(time=slice(1, None)), run.spec["init"]["scale"]
    passed = run.spec["penalty"]["strength"] * curves["time"].values
    # uv = α²e^{−2λt} all along, so that w tells both: (e^{λt}/α)² times the larger is z with z − 1/z = e^{2λt}|w|/α².
    grown = np.abs(curves["weights"].values) * np.exp(2 * passed)[:, None] / α**2
    larger = np.sqrt(grown / 2 + np.sqrt(1 + grown**2 / 4))
    moved = np.sqrt(np.sum((larger - 1) ** 2 + (1 / larger - 1) ** 2, axis=1))
    return float(np.interp(np.log(largest_move(run)[1]), np.log(moved), passed))


def end_slopes(run: af.Run) -> tuple[af.theory.Stationarity, float]:
    """How near the end of a run is to a KKT point of R1 or R2, and ‖∇𝓛_λ‖ there."""
    import jax
    from jax.flatten_util import ravel_pytree

    with jax.enable_x64(True):
        instance = af.theory.instance_of(run)
        gradient, _ = ravel_pytree(instance.problem.gradient(instance.end))
        return af.theory.kkt(instance.problem, instance.end), float(np.linalg.norm(gradient))


def start_slope(run: af.Run) -> float:
    """‖∇𝓛_λ‖ at the start of a run."""
    import jax
    from jax.flatten_util import ravel_pytree

    with jax.enable_x64(True):
        instance = af.theory.instance_of(run)
        gradient, _ = ravel_pytree(instance.problem.gradient(instance.initial))
        return float(np.linalg.norm(gradient))


def mean_slope(turned: af.Run, c: float) -> float:
    """What the proofs of Thms 3.5 and 3.10 have ‖∇𝓛_λ‖ below at some t up to (1 + c)/λ·log α, its constant and all.

    𝓛_λ falls by the integral of ‖∇𝓛_λ‖², and by no more than it has at (1/λ)·log α, where the run `turned` ends: the
    mean square over the c/λ·log α that follow is at most λ·𝓛_λ/(c·log α).
    """
    α, λ = turned.spec["init"]["scale"], turned.spec["penalty"]["strength"]
    return float(np.sqrt(λ / (c * np.log(α)))) * regularised(turned)


def regularised(run: af.Run) -> float:
    """√𝓛_λ at the end of a run."""
    last = run.curves.isel(time=-1)
    return float(np.sqrt(last["train_loss"] + run.spec["penalty"]["strength"] / 2 * last["norm_l2"] ** 2))


def off_the_start(run: af.Run, with_decay: bool = True) -> float:
    """‖e^{λt}θ/α − θ̄‖ at the end of a run: how far the direction has moved; or ‖θ/α − θ̄‖, the norm's decay and all."""
    α, λ, t = run.spec["init"]["scale"], run.spec["penalty"]["strength"], run.spec["dynamics"]["until"]
    start = np.eye(len(run.data.truth)) if "U" in run.params else 1.0
    grown = np.exp(λ * t) if with_decay else 1.0
    return float(np.linalg.norm([grown / α * part - start for part in run.params.values()]))


def zero_filled(run: af.Run) -> np.ndarray:
    """The matrix of Cor. 3.11: entries seen, or whose mirror image is, right; the others 0."""
    mask = run.data.inputs.mask
    return np.maximum(mask, mask.T) * run.data.truth


def zero_filled_loss(run: af.Run) -> float:
    """The test loss of the matrix of Cor. 3.11."""
    hidden = run.data.test_inputs.mask
    return float(np.sum(hidden * (zero_filled(run) - run.data.truth) ** 2) / np.sum(hidden))


def by_c(ends: Mapping[float, Iterable[_End]], measure: Callable[[_End], float]) -> dict[float, list[float]]:
    """One number for each end of a flow, by c and in the order of α."""
    return {c: [measure(end) for end in group] for c, group in ends.items()}


def first_to_last(values: Mapping[float, Sequence[float]], digits: str = ".2g") -> str:
    """The numbers of each c at the smallest and the largest α, in words."""
    return ", ".join(f"{v[0]:{digits}} to {v[-1]:{digits}} (c={c:g})" for c, v in values.items())


@dataclasses.dataclass(frozen=True)
class Law:
    """A power by which something goes, with those over the lower and the upper half of the range."""

    over_all: Interval
    lower: float
    upper: float

    def __str__(self) -> str:
        return f"{self.over_all}, halves {self.lower:.3g} and {self.upper:.3g}"

    @property
    def high(self) -> float:
        """The upper end of the interval: what a bound is held against."""
        return self.over_all.high

    def tends_to(self, power: float, rival: float) -> bool:
        """Whether it is that of a law for x → ∞, and told apart from its rival: all of the interval is nearer to it.

        And the interval holds it, or the power moves towards it: over the upper half it is nearer than over the lower.
        The interval is of the scatter about a straight line. A law of the limit α → ∞ has corrections that bend the
        line where α is not yet large, and that is not scatter: runs without noise would miss such a law at any α. What
        they cannot do, if it is the limit, is to move away from it.
        """
        if not _nearer(self.over_all, power, rival):
            return False
        approaches = abs(self.upper - power) < min(abs(self.lower - power), abs(self.upper - rival))
        return self.over_all.holds(power) or approaches


def law(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> Law:
    """The power p of y = C·xᵖ. The halves are those of the points in the order of x; a middle one is in both."""
    order = np.argsort(x)
    x, y, half = np.asarray(x)[order], np.asarray(y)[order], (len(order) + 1) // 2
    return Law(power_law(x, y), log_slope(x[:half], y[:half]), log_slope(x[-half:], y[-half:]))


def laws(x: Sequence[float], values: Mapping[float, Sequence[float]]) -> dict[float, Law]:
    """The powers of x by which numbers go, by c."""
    return {c: law(x, v) for c, v in values.items()}


def in_words(powers: Mapping[float, Law], base: str = "α", halves: bool = False) -> str:
    """Such powers, in words; with their halves, where a law is asked for and not a bound."""
    return ", ".join(f"{base}^({power if halves else power.over_all}) (c={c:g})" for c, power in powers.items())


def is_law(found: Interval, power: float, rival: float) -> bool:
    """Whether a power is that of a law and told apart from its rival: the interval holds it, and is nearer to it."""
    return found.holds(power) and _nearer(found, power, rival)


def _nearer(found: Interval, power: float, rival: float) -> bool:
    """Whether all of an interval is nearer to one power than to the other."""
    return max(abs(found.low - power), abs(found.high - power)) < abs(rival - power) / 2


def mark_shares(ax: Axes, run: af.Run, shares: Sequence[float]) -> None:
    """Mark the times share·(1/λ)·log α of a run by thin grey lines."""
    turn = clock(run.spec["init"]["scale"], run.spec["penalty"]["strength"])
    label = rf"$\lambda t/\log\alpha={', '.join(f'{share:g}' for share in shares)}$"
    for k, share in enumerate(shares):
        ax.axvline(share * turn, color="0.6", lw=0.8, label=label if k == 0 else None)


def scale_ticks(ax: Axes, alphas: Sequence[float]) -> None:
    """Ticks at every α, on an axis too short for powers of ten."""
    ax.set_xticks(alphas, [f"{α:g}" for α in alphas])
    ax.set_xticks([], minor=True)
