"""Boursier et al. 2025: two time scales."""

from __future__ import annotations

from collections.abc import Iterator

from afterfit._base.allowance import TimeIsUp
from afterfit.theory._answers import with_how
from afterfit.theory._clocks import SlowTime
from afterfit.theory._features import Features
from afterfit.theory._instance import Instance
from afterfit.theory._landscape import hessian_rank, misfit
from afterfit.theory._limits import Lasso, NuclearPenalised, Ridge
from afterfit.theory._theorems._base import Case, Check, Outcome, Theorem, smooth
from afterfit.theory.obstacles import not_decayed, not_squared

__all__ = ["TwoTimeScales"]


class TwoTimeScales(Theorem):
    name = "Boursier et al. 2025, Props 1 to 4"
    says = (
        "With weak decay λ, the run follows the unregularised flow to the solutions, then at times of order 1/λ the "
        "Riemannian flow of the norm among them, to a KKT point of least norm."
    )

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_decayed(instance)

    def assumptions(self, case: Case) -> Iterator[Check]:
        yield smooth(case.instance, "Assumption 1: F is C³")
        m = case.instance.targets.size
        if case.instance.many:
            yield _full_rank(case.instance)
            yield _interpolates(misfit(case.instance.problem, case.instance.end))
            return
        manifold = hessian_rank(case.instance.problem, case.instance.end)
        yield Check(
            "Assumption 2 at the end: full rank, Morse–Bott gap",
            f"rank {manifold.rank} of {m} outputs, dimension {manifold.dimension}, gap η = {manifold.gap:.2g} of "
            f"{manifold.eigenvalues[0]:.2g}",
            manifold.rank == m,
        )
        yield _interpolates(manifold.misfit)

    def predictions(self, case: Case) -> Iterator[Outcome]:
        told = case.clocks.get(SlowTime)
        if told is not None:
            seen = (
                "no turn was seen" if told.measured is None else f"half-way at {told.measured:.3g}, {told.ratio:.2g}/λ"
            )
            yield Outcome(f"the slow phase at times of order 1/λ = {told.prediction:.3g}", seen)
        found = case.kkt_or_reason
        seen = found if isinstance(found, str) else with_how(f"residual {found.residual:.2g} at the end", found.how)
        yield Outcome("the end is a KKT point of least norm (R2)", seen)
        ends = [said for _, said in case.near(NuclearPenalised, Lasso, Ridge)]
        if ends:
            yield Outcome("the global minimum at this λ", "ended " + ", ".join(ends))


def _interpolates(misfit: float) -> Check:
    return Check("the end interpolates", f"‖f − y‖/‖y‖ = {misfit:.2g}", misfit <= 1e-2)


def _full_rank(instance: Instance) -> Check:
    """Whether the Hessian at the end has full rank, of more outputs than can be factorised."""
    name, m = "Assumption 2 at the end: full rank, Morse–Bott gap", instance.targets.size
    at = Features(instance.problem, instance.end)
    if m > at.parameters:
        return Check(name, f"rank at most {at.parameters}, the parameters, of {m} outputs", False)
    try:
        gap, largest = (instance.half_factor * value for value in (at.least, at.largest))
    except TimeIsUp as error:
        return Check(name, str(error), None)
    return Check(name, f"gap at most η = {gap:.2g} of {largest:.2g}", None if gap > 1e-10 * largest else False)
