"""Where runs end and when: Thms 3.1 and 3.3."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import share
from afterfit.papers.notsawo2025.null_space import Robust, null_space_constant, reached

__all__ = [
    "Ball",
    "comes_there",
    "ends_there",
    "stays_near_the_data",
]

_NEAR = 0.05  # the relative error up to which a run is at its end


class Ball(NamedTuple):
    """The ball around â in which Thm 3.1 sees a(t) from step t₁ on."""

    radius: float
    t1: float

    def late(self, run: af.Run) -> np.ndarray:
        """Which observations are from t₁ on."""
        return run.curves["step"].values >= self.t1


def ends_there(runs: Iterable[af.Run], at_fit: bool) -> Finding:
    """Whether runs, in the end or once they fit, are at the minimum-ℓ₁ a, which is a* where ρ_S < 1.

    They are so if they are within 0.05‖a*‖, which is more than a penalty of 10⁻³ leaves. Where ρ_S ≥ 1 a* may be found,
    and some other vector on S is not: by the intervals of the shares, more are found where ρ_S < 1.
    """
    sound: list[bool] = []
    others: list[bool] = []
    at_least: list[bool] = []
    for run in runs:
        data, weights = run.data, run.curves["weights"].values
        a = weights[np.argmax(run.curves["train_error"].values <= 1e-3) if at_fit else -1]
        least = af.theory.min_l1(data.inputs, data.targets)
        close = [np.linalg.norm(a - goal) <= _NEAR * np.linalg.norm(data.truth) for goal in (data.truth, least)]
        (sound if null_space_constant(data) < 1 else others).append(bool(close[0]))
        at_least.append(bool(close[1]))
    with_it, without, there = (share(sum(each), len(each)) for each in (sound, others, at_least))
    return Finding(
        f"at a* are a share {with_it} of the {len(sound)} draws with ρ_S < 1 and {without} of the {len(others)} "
        f"others; at the minimum-ℓ₁ a are {there} of all",
        all(sound) and with_it.low > without.high and all(at_least),
    )


def comes_there(runs: dict[int, af.Run], weights: dict[int, np.ndarray], sound: dict[int, Robust]) -> Finding:
    """Whether weights, at the steps of runs, come to Thm 3.3's C₁η + C₂αβ within Δt, where ρ_S < 1, for three η.

    A bound that is met at t₁ already says nothing, and does not count.
    """
    found = [reached(runs[seed], weights[seed], eta, sound[seed]) for seed in sound for eta in (0.4, 0.2, 0.1)]
    telling = [one for one in found if one.bound < one.at_first]
    shares = [one.steps / one.allowed for one in telling]
    met = sum(taken <= 1 for taken in shares)
    return Finding(
        f"{len(sound)} of {len(runs)} draws have ρ_S < 1; of {len(telling)} bounds (of {len(found)}) below the error "
        f"at t₁, {met} are met by then (share {share(met, len(telling))}), after {min(shares):.2g} to "
        f"{max(shares):.2g} of Δt",
        met == len(telling) and len(telling) > 0,
    )


def stays_near_the_data(run: af.Run, step: af.theory.sensing.StepConditions, ball: Ball) -> Finding:
    """Whether ‖Xa(t) − y*‖₂ is within ‖X‖ times the ball's radius from t₁ on."""
    weights, data = run.curves["weights"].values, run.data
    residual = np.linalg.norm(weights @ data.inputs.T - data.targets, axis=1)[ball.late(run)]
    allowed = np.sqrt(step.sigma_max) * ball.radius
    return Finding(
        f"from step {ball.t1:.0f} on at most {residual.max():.2g}, allowed {allowed:.2g} (ρ₂={step.rho_2_rows:.3f})",
        bool(np.all(residual <= allowed)),
    )
