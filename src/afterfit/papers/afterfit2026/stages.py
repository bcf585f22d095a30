"""Prop. 3: implicit stages that carry the pull of each example take as many steps at any weight decay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control
from afterfit.papers._measure import Interval, power_law
from afterfit.papers.afterfit2026 import PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Stages"]

_Runs = Mapping[float, "af.Run"]


class Stages(Entry):
    paper, name = PAPER, "stages"
    title = "Implicit steps that carry the pull of each example do not get shorter with weight decay"
    where = "Prop. 3"
    about = (
        "Once the data are fitted, the flow of L(f(θ)) + (λ/2)‖θ‖² is pulled off the interpolating parameters by λθ "
        "and held there by Jᵀρ, ρ = L′ of order λ. A stage of an implicit method solves θ = b − γh(J(θ)ᵀρ + λθ), "
        "ρ = L′(f(θ)), with γh of order 1/λ for steps on the slow time scale. If ρ is computed from a stage that is "
        "off the interpolating parameters by δ, it is off by O(δ), and moves the stage along them by γhδ: the stage "
        "has to be known to λ times the tolerance, or steps get shorter as λ^{1/4}. If ρ is an unknown of its own in "
        "the Newton iterations, carried on from stage to stage and from step to step, δ has no such effect, and the "
        "number of steps to a given λt does not depend on λ. Matrix completion by UUᵀ − VVᵀ of 86 entries, to λt = 20, "
        "at the default tolerance. Evidence is numerical: there is no proof."
    )
    notes = (
        "A Rosenbrock–W method with the same matrix, one linear solve a stage and no unknown ρ, took 289 to 2020 steps "
        "on this problem for λ from 10⁻³ to 10⁻⁷, before it was replaced: an exponent of −0.21. Where it fails: at "
        "kinks of the model the error control makes short steps whatever the stages are (flows, `implicit`); beyond "
        "2,000 outputs the matrix is too large, and conjugate gradients (`krylov`) are as many as the tangent kernel "
        "is ill-conditioned. The bound on the norm was 1 % at first, which a run with a tolerance of 0.1 kept, too "
        "(0.7 %): it is 10⁻³ since, on the same draw."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment]]:
        λs = np.geomspace(1e-2, 1e-8, 7) if scale == "paper" else np.geomspace(1e-3, 1e-6, 4)
        base = af.Experiment(
            task=af.tasks.MatrixCompletion(12, 12, 1, observed=0.6, reduction="sum"),
            model=af.models.MatrixFactorisation(6),
            dynamics=af.dynamics.GradientFlow(until=1.0, method="implicit"),
            init=af.inits.Gaussian(1.0),
            observations=40,
            seed=6,
        )

        def flow(λ: float, **changes: object) -> af.Experiment:
            times = {"dynamics.until": 20 / λ, "dynamics.first": 1e-4 / λ}
            return base.set({"penalty": {"kind": "L2", "strength": λ}, **times, **changes})

        return {
            "implicit": {float(λ): flow(float(λ)) for λ in λs},
            "finer": {float(λ): flow(float(λ), **{"dynamics.rtol": 1e-6}) for λ in λs},
            "coarse": {float(λ): flow(float(λ), **{"dynamics.rtol": 0.1}) for λ in λs[:1]},
            "stabilised": {float(λ): flow(float(λ), **{"dynamics.method": "stabilised"}) for λ in λs[:3]},
        }

    def picture(self, implicit: _Runs, stabilised: _Runs) -> Figure:
        figure = af.plot.Figure(figsize=(11, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        for (λ, run), grey in zip(implicit.items(), np.linspace(0.75, 0.0, len(implicit)), strict=True):
            curves = run.curves.isel(time=slice(1, None))
            left.plot(curves["time"], curves["test_error"], color=str(grey), label=f"λ = {λ:.0e}")
        left.set(yscale="log", ylabel="test error")
        af.plot.log_time_axes(left)
        af.plot.mark_phases(left, next(iter(implicit.values())).verdict)
        left.legend(fontsize="small", frameon=False)
        for runs, count, marker, label in (
            (implicit, _steps, "o", "steps of implicit"),
            (stabilised, _gradients, "s", "gradients of stabilised"),
        ):
            right.loglog(list(runs), count(runs), marker=marker, mfc="none", color="k", lw=0.8, label=label)
        λs = np.array(list(implicit))
        right.loglog(
            λs, _steps(implicit)[0] * (λs / λs[0]) ** -0.25, color="0.6", ls=":", label=r"$\propto\lambda^{-1/4}$"
        )
        right.set(xlabel="weight decay λ", ylabel=r"number until $\lambda t = 20$")
        right.legend(fontsize="small", frameon=False)
        return figure

    @claim("the number of steps to a given λt does not depend on λ", says="exponent 0")
    def as_many_steps(self, implicit: _Runs) -> Finding:
        return _flat(power_law(list(implicit), _steps(implicit)))

    @control(as_many_steps, "steps that get shorter as λ^{1/4}, with the scatter of these")
    def as_with_rosenbrock(self, implicit: _Runs) -> Finding:
        return _flat(power_law(list(implicit), _steps(implicit) * np.array(list(implicit)) ** -0.25))

    @control(as_many_steps, "gradients of the stabilised explicit method")
    def as_stabilised(self, stabilised: _Runs) -> Finding:
        return _flat(power_law(list(stabilised), _gradients(stabilised)))

    @claim("the steps keep their tolerance at any λ", says="the curve of a run with a hundredth of the tolerance")
    def as_exact(self, implicit: _Runs, finer: _Runs) -> Finding:
        return _near(implicit, finer)

    @control(as_exact, "a run with a tolerance of 0.1")
    def not_coarsely(self, coarse: _Runs, finer: _Runs) -> Finding:
        return _near(coarse, finer)


def _steps(runs: _Runs) -> np.ndarray:
    return np.array([run.work["steps_accepted"] + run.work["steps_rejected"] for run in runs.values()], float)


def _gradients(runs: _Runs) -> np.ndarray:
    return np.array([run.work["right_hand_sides"] for run in runs.values()], float)


def _flat(law: Interval) -> Finding:
    """Whether an exponent in λ is 0 and not −1/4: within a fifth of that, 0.05."""
    return Finding(f"exponent {law}", abs(law.value) <= 0.05)


def _near(runs: _Runs, goals: _Runs) -> Finding:
    """Whether the norm is that of more exact runs all along: to 10⁻³, ten steps' worth of the tolerance."""
    off = {λ: float(abs(run.curves["norm_l2"] / goals[λ].curves["norm_l2"] - 1).max()) for λ, run in runs.items()}
    words = ", ".join(f"{gap:.1g} (λ={λ:.0e})" for λ, gap in off.items())
    return Finding(f"the norm of the parameters is off by at most {words}", max(off.values()) <= 1e-3)
