"""When a run must turn: the times that the papers' theorems predict, against what the run did."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

from afterfit import tangent
from afterfit.dynamics import LabelNoiseSGD
from afterfit.models import DiagonalNet, Linear
from afterfit.penalties import L1, Nuclear
from afterfit.run import Run
from afterfit.theory.instance import Instance, instance_of
from afterfit.theory.kernel import MOST
from afterfit.theory.named import Named
from afterfit.theory.programs import min_l1, min_l2, min_nuclear
from afterfit.turns import computing

__all__ = ["WINDOW", "Clock", "clock", "turning_time"]

WINDOW = 0.5  # c of the (1 ± c)-window around (1/λ)·log α
_CLOSE = 0.01  # how close to its end, relatively, a penalty counts as minimised


@dataclasses.dataclass(frozen=True)
class Clock:
    """A predicted time, in units of training time, and what the run did.

    `event` is what the theorem times: `"fit"` (t_fit), `"generalisation"` (t_gen), `"turn"` (the test metric half-way
    between its plateaus) or `"penalty"` (the penalty within 1 % of its least). `measured` is that time in the run, None
    if it did not come, and `ratio` is measured/prediction. `window` is the theorem's own margin. With `bound` the
    theorem says "at most": a ratio below 1 agrees.
    """

    name: str
    source: str
    event: str
    prediction: float
    measured: float | None
    window: tuple[float, float] | None = None
    bound: bool = False

    @property
    def ratio(self) -> float | None:
        """measured/prediction."""
        return None if self.measured is None else self.measured / self.prediction

    def __str__(self) -> str:
        sign = "≤" if self.bound else "≈"
        seen = "not seen" if self.ratio is None else f"measured {self.measured:.3g}, {self.ratio:.2g} of it"
        return f"{self.name} = {self.prediction:.3g} {sign} time of {self.event}: {seen} ({self.source})"


def clock(run: Run) -> Named:
    """Every clock that applies to a run: its prediction, and its ratio to what the run did.

    ```python
    print(af.theory.clock(run))
    af.theory.clock(run)["(1/λ)·log α"].ratio
    ```
    """
    instance = instance_of(run)
    with computing():
        return Named(_clocks(instance, run))


def turning_time(run: Run) -> float | None:
    """When the test metric has come half-way from its value at t_fit to its last; None if it hardly changes."""
    if run.verdict.t_fit is None:
        return None
    since = run.curves[f"test_{run.metric}"].sel(time=slice(run.verdict.t_fit, None))
    values = np.asarray(since.values, dtype=float)
    if abs(values[-1] - values[0]) < 0.05 * max(abs(values[0]), abs(values[-1])):
        return None
    half = np.abs(values - values[-1]) <= abs(values[0] - values[-1]) / 2
    return float(since["time"].values[half][0])


def _clocks(instance: Instance, run: Run) -> Iterator[Clock]:
    yield from _decay(instance, run)
    yield from _fit(instance, run)
    yield from _convex(instance, run)
    if isinstance(instance.experiment.dynamics, LabelNoiseSGD):
        # η⁻² steps of size η.
        step = float(instance.experiment.dynamics.lr)
        yield Clock("η⁻² steps", "Lyu et al. 2023, Thm B.1", "generalisation", 1 / step, run.verdict.t_gen)


def _decay(instance: Instance, run: Run) -> Iterator[Clock]:
    """Weight decay: the slow time scale 1/λ, and (1/λ)·log α where the start is large."""
    decay, degree, alpha = instance.decay, instance.model.degree, instance.initial_norm
    if not decay:
        return
    if instance.regression:
        yield Clock("1/λ", "Boursier et al. 2025, Prop. 2", "turn", 1 / decay, turning_time(run))
    if degree is None or degree < 2 or alpha <= 1:
        return
    middle = float(np.log(alpha) / decay)
    yield Clock(
        "(1/λ)·log α",
        "Lyu et al. 2023, Thms 3.4–3.10",
        "turn",
        middle,
        turning_time(run),
        ((1 - WINDOW) * middle, (1 + WINDOW) * middle),
    )
    if type(instance.model) is DiagonalNet and instance.regression:
        # α^D·e^{−Dλt}, what is left of the start in the predictor's units, meets the predictor: in squared norms, with
        # which weight decay counts, the predictor is |β|^{2/D}.
        size = float(np.max(np.abs(min_l1(instance.design, instance.targets))))
        entry = float(np.max(np.abs(instance.initial["plus"])))
        time = (np.log(entry) - np.log(size) / degree) / decay
        if time > 0:
            name = f"(1/λ)·log(α/‖β‖_∞^(1/{degree}))"
            yield Clock(name, "Woodworth et al. 2020, §5, with Lyu et al. 2023", "turn", time, turning_time(run))


def _fit(instance: Instance, run: Run) -> Iterator[Clock]:
    """log(1/ε)/α steps of size α: the loss falls at least as e^{−χt}, χ the Chatterjee–Łojasiewicz constant."""
    if not instance.regression or instance.targets.size > MOST:
        return
    values = np.linalg.eigvalsh(np.asarray(tangent.kernel(instance.problem, instance.initial)))
    # |∇g|² ≥ χ·g with g = (c/2)‖f − y‖² and ∇g = cJᵀ(f − y): χ = 2c·λ_min(JJᵀ), exact for linear models.
    chi = 2 * instance.half_factor * float(values[0])
    start = float(
        instance.task.score(tangent.outputs(instance.problem, instance.initial), jnp.asarray(instance.targets))
    )
    goal = run.criteria.train.value
    if chi <= 1e-12 * values[-1] or start <= goal:
        return
    time = 2 * np.log(start / goal) / chi  # the loss is the square of the error
    yield Clock(
        "log(1/ε)/χ", "Notsawo et al. 2025, Thm 2.1", "fit", float(time), run.verdict.t_fit, bound=instance.model.linear
    )


def _convex(instance: Instance, run: Run) -> Iterator[Clock]:
    """Linear models with an L1 or nuclear penalty: how far the penalty has to carry the least-squares solution."""
    penalty, kind = instance.experiment.penalty, type(instance.experiment.penalty)
    if type(instance.experiment.model) is not Linear or kind not in (L1, Nuclear) or not penalty.strength:
        return
    X, y, beta = instance.design, instance.targets, float(penalty.strength)
    matrices = kind is Nuclear and X.ndim == 3
    flat = X.reshape(len(X), -1)
    landed = min_l2(flat, y - flat @ np.asarray(instance.initial["weights"]).ravel()).reshape(X.shape[1:])
    landed = landed + np.asarray(instance.initial["weights"])
    end = min_nuclear(X, y) if matrices else min_l1(flat, y).reshape(X.shape[1:])
    gap = landed - end
    far = float(np.linalg.norm(gap, 2)) if matrices else float(np.max(np.abs(gap)))
    name = "‖Â − A*‖₂/β" if matrices else "‖â − a*‖_∞/β"
    figure = "Fig. 29" if matrices else "Fig. 4"
    yield Clock(name, f"Notsawo et al. 2025, {figure}", "generalisation", far / beta, run.verdict.t_gen)
    least = float(np.linalg.norm(end, "nuc") if matrices else np.sum(np.abs(end)))
    eta = 2 * _CLOSE * least  # h − h* ≤ η/2 is what Δt(η) promises
    bound = float(np.sum(gap**2)) / (beta * eta)
    times, values = run.curves["time"].values, run.curves["penalty"].values
    reached = np.flatnonzero(values[np.argmax(values) :] <= (1 + _CLOSE) * least)  # the norm grows with the fit first
    when = float(times[np.argmax(values) + reached[0]]) if len(reached) else None
    yield Clock("‖x(t₁) − x*‖²/(βη)", "Notsawo et al. 2025, Thm 2.1", "penalty", bound, when, bound=True)
