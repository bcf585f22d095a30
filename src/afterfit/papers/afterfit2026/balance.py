"""Prop. 2: with weight decay, a diagonal net keeps a loss of margins in balance with Q at the decayed start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers._measure import examples, power_law
from afterfit.papers.afterfit2026 import PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Balance"]

_SLOW = (1.0, 2.0, 4.0, 8.0)  # λt at which directions are compared: kernel regime, on the way, and rich regime
_STEPS = (0.5, 0.25, 0.125, 0.0625)  # of λt, between two programs; all of _SLOW are multiples
_SCALE = 4.0  # α


class _Case(NamedTuple):
    λ: float
    seed: int


_Runs = Mapping[_Case, "af.Run"]
_Gaps = Mapping[_Case, np.ndarray]  # the largest distance over the slow times, for each length of step


class Balance(Entry):
    paper, name = PAPER, "balance"
    title = "With a margin loss, a diagonal net keeps the loss in balance with Q at the decayed start"
    where = "Prop. 2"
    about = (
        "Let w = w₊² − w₋² follow the flow of a loss of margins L(w) with weight decay λ from w₊ = w₋ = α. By Prop. 1, "
        "∇Q_a(w) = Xᵀν with a = αe^{−λt}, and in slow time s = λt the multipliers move as dν/ds = −(4/λ)L′: the pull "
        "of the loss is in balance with the change of ∇Q. Steps of length Δ in s, taken backward, are convex programs: "
        "w(s) = argmin (4Δ/λ)·L(w) + Q_{a(s)}(w) − ⟨Xᵀν(s−Δ), w⟩. They converge to the run as O(Δ), from the "
        "kernel regime, where Q is a ridge and w/‖w‖ is near the largest L2 margin (Lyu et al. 2023, Thm 3.4), to the "
        "rich one, where Q is near the L1 norm (Thm 3.5); λ enters only as the weight of the loss, so that some tens "
        "of programs foresee a run of any length. Proof: backward Euler for an equation whose right-hand side is "
        "monotone in the metric of Q. The runs are by implicit steps in w₊ and w₋ themselves, and the programs are "
        "solved by Newton's method, which knows nothing of the flow."
    )
    notes = (
        "Where it fails: for D > 2 the equation of ν has e^{(D−2)λt} in it; from w₊ ≠ w₋ the scale is not α. If one "
        "supposes that all νᵢ grow at one rate ρ, dν/ds = ρν, the programs are L(w) + (λρ/4)·Q_a(w) and need no past: "
        "so does `forecast`. That is a heuristic, whose direction is off by about a tenth in the rich regime however "
        "short the steps are; that it is within 0.1, half or a third of the distance of the nearer limit was tried "
        "first, and did not hold on seeds up to 32. What is claimed now is measured on seeds from 41 on."
    )

    def runs(self, scale: str) -> dict[str, dict[_Case, af.Experiment]]:
        n, d, seeds = (24, 80, 1) if scale == "paper" else (16, 40, 1)
        λs = (1e-2, 1e-3, 1e-4, 1e-5) if scale == "paper" else (1e-2, 1e-4)

        def flow(case: _Case) -> af.Experiment:
            until, first = 2.0**3 / case.λ, 2.0**-10 / case.λ
            return af.Experiment(
                task=af.tasks.SparseClassification(n=n, d=d, sparsity=3),
                model=af.models.DiagonalNet(),
                penalty=af.penalties.L2(case.λ),
                dynamics=af.dynamics.GradientFlow(until=until, first=first, method="implicit", rtol=1e-6),
                init=af.inits.Constant(_SCALE),
                observations=13 * 8 + 1,  # eight a doubling of time, so that all of _SLOW are among them
                seed=case.seed,
            )

        return {"flows": {_Case(λ, seed): flow(_Case(λ, seed)) for λ in λs for seed in range(41, 41 + seeds)}}

    @once
    def gaps(self, flows: _Runs) -> dict[_Case, np.ndarray]:
        """How far the programs are from each run, at the worst of the slow times, for each length of step."""
        return {case: np.array([_gap(run, Δ) for Δ in _STEPS]) for case, run in flows.items()}

    @once
    def one_rate(self, flows: _Runs) -> dict[_Case, np.ndarray]:
        """The same if all multipliers are taken to grow at one rate."""
        return {case: np.array([_gap(run, Δ, one_rate=True) for Δ in _STEPS]) for case, run in flows.items()}

    def picture(self, flows: _Runs, gaps: _Gaps, one_rate: _Gaps) -> Figure:
        figure = af.plot.Figure(figsize=(11, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        first = next(iter(flows.values()))
        curves = first.curves.isel(time=slice(1, None))
        for side, style in (("train", "--"), ("test", "-")):
            left.plot(curves["time"], 100 * curves[f"{side}_accuracy"], style, color="k", label=side)
        left.set(ylabel="accuracy in %", ylim=(40, 102))
        af.plot.log_time_axes(left)
        af.plot.mark_phases(left, first.verdict)
        left.legend(fontsize="small", frameon=False, loc="lower right")
        for label, found, marker in (("convex programs", gaps, "o"), ("one rate for all", one_rate, "s")):
            for case, values in found.items():
                again = None if case != next(iter(found)) else label
                right.loglog(_STEPS, values, marker=marker, mfc="none", color="k", lw=0.8, label=again)
        right.loglog(_STEPS, 0.05 * np.array(_STEPS), color="0.6", ls=":", label="∝ Δ")
        right.set(xlabel="step Δ of slow time λt", ylabel="largest distance of the direction of w")
        right.set_xticks(_STEPS, [f"{Δ:g}" for Δ in _STEPS])
        right.minorticks_off()
        right.legend(fontsize="small", frameon=False)
        return figure

    @claim("convex programs in slow time converge to the run at first order in their step", says="O(Δ), at every λ")
    def converges(self, gaps: _Gaps) -> Finding:
        return _first_order(gaps)

    @control(converges, "one rate for all multipliers")
    def with_one_rate(self, one_rate: _Gaps) -> Finding:
        return _first_order(one_rate)

    @control(converges, "Q at the start itself, which does not decay")
    def without_decay(self, flows: _Runs) -> Finding:
        return _first_order(
            {case: np.array([_gap(run, Δ, decays=False) for Δ in _STEPS]) for case, run in flows.items()}
        )

    @claim(
        "one rate for all multipliers is a heuristic, off by some hundredths however short the steps", says="not O(Δ)"
    )
    def is_off(self, one_rate: _Gaps) -> Finding:
        return _off(one_rate)

    @control(is_off, "the programs with their past")
    def is_not_off(self, gaps: _Gaps) -> Finding:
        return _off(gaps)


def _gap(run: af.Run, Δ: float, *, one_rate: bool = False, decays: bool = True) -> float:
    """The largest distance between the direction of a run and that of the programs, over the slow times."""
    λ = run.spec["penalty"]["strength"]
    goals = _programs(run, Δ, one_rate, decays)
    found = {s: run.curves["weights"].sel(time=s / λ, method="nearest") for s in _SLOW}
    assert all(abs(λ * float(w["time"]) / s - 1) < 1e-6 for s, w in found.items()), "all slow times are observed"
    return max(float(np.linalg.norm(_unit(w.values) - _unit(goals[s]))) for s, w in found.items())


def _programs(run: af.Run, Δ: float, one_rate: bool, decays: bool) -> dict[float, np.ndarray]:
    """w at the slow times, by backward steps of Δ in λt."""
    from scipy.special import expit

    X, y = examples(run)
    Z, λ = y[:, None] * X, run.spec["penalty"]["strength"]
    w, ν, ρ, found = np.zeros(X.shape[1]), np.zeros(len(y)), 2.0, {}
    for s in Δ * np.arange(1, round(_SLOW[-1] / Δ) + 1):
        Q = af.theory.Q(_SCALE * np.exp(-s if decays else 0.0), 1.0)
        weight, past = (4 / (λ * ρ), 0 * ν) if one_rate else (4 * Δ / λ, ν)
        w = _program(Z, Q, weight, Z.T @ past, w)
        before, ν = ν, past + weight * expit(-Z @ w) / len(y)
        if one_rate and before.any():
            ρ = float(np.clip(np.log(ν.sum() / before.sum()) / Δ, 0.02, 2.0))
        found[float(s)] = w
    return {s: found[s] for s in _SLOW}


def _program(Z: np.ndarray, Q: af.theory.Q, weight: float, past: np.ndarray, w: np.ndarray) -> np.ndarray:
    """argmin weight·(mean logistic loss of the margins Zw) + Q(w) − ⟨past, w⟩, over `weight`, from a guess."""
    from scipy.optimize import minimize
    from scipy.special import expit

    n, smallest = len(Z), 4 * Q.alpha**4

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        margins = Z @ w
        slope = (Q.gradient(w) - past) / weight - Z.T @ expit(-margins) / n
        return float(np.logaddexp(0, -margins).mean() + (Q.value(w) - past @ w) / weight), slope

    def curvature(w: np.ndarray) -> np.ndarray:
        share = expit(-Z @ w)
        return (Z.T * (share * (1 - share) / n)) @ Z + np.diag(1 / (weight * np.sqrt(w**2 + smallest)))

    return minimize(objective, w, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-12}).x


def _unit(w: np.ndarray) -> np.ndarray:
    return w / np.linalg.norm(w)


def _first_order(gaps: _Gaps) -> Finding:
    """Whether the exponent of the distance in Δ is 1, within 0.2: steps of 0.5 are not yet short."""
    laws = {case: power_law(_STEPS, found) for case, found in gaps.items()}
    words = ", ".join(f"{law.value:.2f} (λ={case.λ:.0e}, seed {case.seed})" for case, law in laws.items())
    least = max(found[-1] for found in gaps.values())
    return Finding(
        f"exponents {words}; at most {least:.2g} away with Δ = {_STEPS[-1]:g}",
        all(abs(law.value - 1) <= 0.2 for law in laws.values()),
    )


def _off(gaps: _Gaps) -> Finding:
    """Whether distances with the shortest step are some hundredths, 0.02 or more, on every run."""
    left = [float(found[-1]) for found in gaps.values()]
    return Finding(f"{min(left):.2g} to {max(left):.2g} away with Δ = {_STEPS[-1]:g}", min(left) >= 0.02)
