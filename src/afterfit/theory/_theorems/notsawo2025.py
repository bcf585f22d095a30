"""Notsawo et al. 2025: two phases of descent, sparse and low-rank recovery, grokking without understanding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from afterfit._base.allowance import TimeIsUp
from afterfit.theory import sensing
from afterfit.theory._clocks import Descent, FitTime, MatrixDescent, PenaltyBound
from afterfit.theory._instance import Instance
from afterfit.theory._landscape import chatterjee_lojasiewicz
from afterfit.theory._limits import Lasso, MinL1, MinNuclear, NuclearPenalised, Ridge
from afterfit.theory._theorems._base import Case, Check, Outcome, Theorem, timed
from afterfit.theory.obstacles import (
    not_decayed,
    not_direct,
    not_in_steps,
    not_matrices,
    not_penalty,
    not_squared,
    not_vectors,
)

__all__ = ["MatrixRecovery", "SparseRecovery", "TwoPhases", "WithoutUnderstanding"]

_SIGNS = 6  # entries of a support whose 2^s signs are all gone through


class SparseRecovery(Theorem):
    name = "Notsawo et al. 2025, Thms 3.1 and 3.3"
    says = (
        "Subgradient descent with a weak L1 penalty first fits by least squares, then lowers ‖a‖₁ at αβ a step; under "
        "the null space property the least ‖a‖₁ is the truth."
    )

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_direct(instance) or not_vectors(instance) or not_penalty(instance, "l1")

    def assumptions(self, case: Case) -> Iterator[Check]:
        yield from steps(case.instance, "l1")
        X = case.instance.design
        truth = case.instance.problem.data.truth
        if truth is None:
            return
        support = np.flatnonzero(np.asarray(truth))
        s = len(support)
        yield Check(
            "incoherence",
            f"μ = {sensing.mutual_coherence(X):.3g} (Welch {sensing.welch_bound(*X.shape):.3g}), "
            f"μ₁({s}) = {sensing.one_coherence(X, s):.3g}",
            None,
            needed=False,
        )
        isometry = sensing.restricted_isometry(X / np.linalg.norm(X, axis=0), 2 * s)
        yield Check(
            f"RIP of unit columns: δ_{2 * s} < 1/√2", _between(isometry), _below(isometry, 2**-0.5), needed=False
        )
        if s > _SIGNS:
            yield Check("null space property on the support", f"{s} entries are too many to check all signs", None)
            return
        rho = sensing.null_space_constant(X, support=support.tolist())
        yield Check("null space property on the support: ρ < 1", _between(rho), _below(rho, 1.0))
        if rho.upper < 1:
            wider = (1 + rho.upper) / 2
            tau = sensing.robust_null_space_constant(X, wider, support.tolist())
            yield Check(f"robust null space property with ρ = {wider:.3g}", f"τ = {tau:.3g}", bool(np.isfinite(tau)))

    def predictions(self, case: Case) -> Iterator[Outcome]:
        yield from timed(case, Descent, PenaltyBound)
        for limit, said in case.near(Lasso, MinL1):
            yield Outcome(f"the end is {limit.name}", f"ended {said}")


class MatrixRecovery(Theorem):
    name = "Notsawo et al. 2025, Thms 3.4 and 3.5"
    says = "The same with a weak nuclear-norm penalty on a matrix: singular values fall at αβ a step."

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        wrong = not_squared(instance) or not_direct(instance)
        return wrong or not_matrices(instance) or not_penalty(instance, "nuclear")

    def assumptions(self, case: Case) -> Iterator[Check]:
        yield from steps(case.instance, "nuclear")
        truth = case.instance.problem.data.truth
        if truth is None:
            return
        truth = np.asarray(truth)
        rank = int(np.linalg.matrix_rank(truth, tol=1e-8 * np.linalg.norm(truth, 2)))
        mu0, mu1 = sensing.completion_coherences(truth, rank)
        yield Check("coherence of the truth's singular spaces", f"μ₀ = {mu0:.3g}, μ₁ = {mu1:.3g}", None, needed=False)
        rows, columns = sensing.leverage_scores(truth, rank)
        scores = f"rows {rows.min():.2g} to {rows.max():.2g}, columns {columns.min():.2g} to {columns.max():.2g}"
        yield Check("leverage scores of the truth", scores, None, needed=False)
        freedom = rank * (sum(truth.shape) - rank)
        n = len(case.instance.targets)
        yield Check("at least r(n₁ + n₂ − r) observations", f"{n} for {freedom} degrees of freedom", n >= freedom)

    def predictions(self, case: Case) -> Iterator[Outcome]:
        yield from timed(case, MatrixDescent, PenaltyBound)
        for limit, said in case.near(NuclearPenalised, MinNuclear):
            yield Outcome(f"the end is {limit.name}", f"ended {said}")


class WithoutUnderstanding(Theorem):
    name = "Notsawo et al. 2025, Thm 3.6"
    says = (
        "A linear model with weight decay converges to the ridge solution, which with fewer examples than weights "
        "misses all of the truth that is orthogonal to the inputs."
    )

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_direct(instance) or not_decayed(instance)

    def assumptions(self, case: Case) -> Iterator[Check]:
        yield from steps(case.instance, "l2")
        n, d = case.instance.rows.shape
        yield Check("fewer examples than weights", f"{n} for {d}", n < d)

    def predictions(self, case: Case) -> Iterator[Outcome]:
        for _, said in case.near(Ridge):
            yield Outcome("the end is the ridge solution", f"ended {said}")
        truth = case.instance.problem.data.truth
        if truth is not None:
            X, a = case.instance.rows, np.asarray(truth).ravel()
            missed = float(np.linalg.norm(a - np.linalg.pinv(X) @ (X @ a)) / np.linalg.norm(a))
            last = float(case.run.curves[f"test_{case.run.metric}"].values[-1])
            yield Outcome(f"a test error of at least {missed:.3g}", f"{last:.3g} at the end")


class TwoPhases(Theorem):
    name = "Notsawo et al. 2025, Thm 2.1"
    says = (
        "Where the loss satisfies the Chatterjee–Łojasiewicz inequality at the start, it falls in of order log(1/ε)/α "
        "steps, and the penalty is minimised in of order 1/(αβ) more."
    )

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        if instance.penalty_form == "none":
            return "it is for a penalty, and there is none"
        return not_squared(instance) or not_in_steps(instance)

    def assumptions(self, case: Case) -> Iterator[Check]:
        instance, problem = case.instance, case.instance.problem
        # The smallest ball that can hold: it has to reach a point where the loss is 0.
        reach = 2 * np.sqrt(float(problem.loss(instance.initial)))
        radius = 2 * max(reach, instance.initial_norm, 1.0)
        try:
            found = chatterjee_lojasiewicz(problem, instance.initial, radius)
        except TimeIsUp as error:
            yield Check("r-CL at the start: 4g < r²χ", str(error), None)
            return
        kind = "exact" if found.exact else "an upper bound"
        yield Check(
            "r-CL at the start: 4g < r²χ",
            f"χ = {found.least:.3g} ({kind}) at r = {radius:.3g}: 4g = {4 * found.loss:.3g}, r²χ = "
            f"{radius**2 * found.least:.3g}",
            found.holds if found.exact or not found.holds else None,
        )

    def predictions(self, case: Case) -> Iterator[Outcome]:
        yield from timed(case, FitTime)


def steps(instance: Instance, penalty: str) -> Iterator[Check]:
    """Whether the steps of a descent are as small as the theorems on that penalty ask."""
    if instance.step_size is None:
        yield Check("step size", "a flow, which has none", True)
        return
    # The theorems have ½‖Xa − y‖² in front; another factor is a change of α and β.
    c = instance.half_factor
    alpha, beta = instance.step_size * c, instance.strength / c
    found = sensing.step_conditions(instance.design, alpha, beta, penalty)
    yield Check(
        "step size and strength are small enough",
        f"α = {alpha:.3g} < {found.alpha_max:.3g}, β = {beta:.3g} < {found.beta_max:.3g}",
        found.holds,
    )


def _between(constant: sensing.Constant) -> str:
    return f"{constant.lower:.3g}" if constant.exact else f"between {constant.lower:.3g} and {constant.upper:.3g}"


def _below(constant: sensing.Constant, level: float) -> bool | None:
    if constant.upper < level:
        return True
    return False if constant.lower >= level else None
