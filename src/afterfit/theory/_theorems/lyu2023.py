"""Lyu et al. 2023: kernel regime, then rich regime; margin bounds; label noise."""

from __future__ import annotations

import abc
from collections.abc import Iterator

import numpy as np

from afterfit._base.allowance import TimeIsUp
from afterfit._base.errors import NotSeparableError, Unanswered
from afterfit.models import LinearModel
from afterfit.tasks import SparseClassification
from afterfit.theory._answers import with_how
from afterfit.theory._clocks import KernelPhase, LabelNoiseTime, LargeStart
from afterfit.theory._instance import Instance
from afterfit.theory._kernel import kernel_predictor
from afterfit.theory._landscape import homogeneity
from afterfit.theory._limits import (
    KernelInterpolation,
    KernelMaxMargin,
    MaxL1Margin,
    MaxL2Margin,
    MinL1,
    MinNuclear,
)
from afterfit.theory._theorems._base import Case, Check, Outcome, Theorem, seen, smooth, timed
from afterfit.theory.bounds import l1_margin_bound, l2_margin_bound
from afterfit.theory.obstacles import (
    not_decayed,
    not_homogeneous,
    not_label_noise,
    not_margin,
    not_squared,
)

__all__ = ["Classification", "LabelNoise", "MarginBounds", "Regression"]


class _KernelThenRich(Theorem):
    """Shared by both halves of Lyu et al. 2023: homogeneous model, large start with zero output, weak decay."""

    def assumptions(self, case: Case) -> Iterator[Check]:
        instance = case.instance
        yield _homogeneous(instance)
        yield smooth(instance, "Assumption 3.1: f is C² in θ")
        start = instance.initial_outputs
        size = float(np.max(np.abs(start)))
        yield Check("Assumption 3.2: zero initial output", f"max |f(θ₀; xᵢ)| = {size:.2g}", size <= 1e-9)
        yield self._features(case)
        alpha, decay = instance.initial_norm, instance.decay
        power = -np.log(decay) / np.log(alpha) if alpha > 1 else np.nan
        yield Check("large start, weak decay: λ = α^(−p), p > 0", f"α = {alpha:.3g}, p = {power:.2g}", power > 0)

    @abc.abstractmethod
    def _features(self, case: Case) -> Check: ...

    def _turn(self, case: Case) -> Iterator[Outcome]:
        for kind, how in ((LargeStart, "as α → ∞, "), (KernelPhase, "with the constant of this start, ")):
            told = case.clocks.get(kind)
            if told is None:
                yield Outcome(f"{how}a turn at {kind.name}", f"not to be told: {case.clocks.silent[kind]}")
            else:
                low, high = told.window
                times = f"{told.name} = {told.prediction:.3g}, between {low:.3g} and {high:.3g}"
                yield Outcome(f"{how}a turn at {times}", seen(told))

    def _end(self, case: Case) -> Iterator[Outcome]:
        found = case.kkt_or_reason
        if isinstance(found, str):
            yield Outcome("late, a KKT point: residual 0", f"not to be told: {found}")
        else:
            told = found.program == "R1" and np.isfinite(found.slack)
            slack = "" if not told else f", {found.slack:.0%} of the multipliers' weight off the margin"
            yield Outcome(
                f"late, a KKT point of {found.program}: residual 0",
                with_how(f"residual {found.residual:.2g} at the end{slack}", found.how),
            )


class Classification(_KernelThenRich):
    name = "Lyu et al. 2023, Thms 3.4 and 3.5"
    says = (
        "From a large start with weak decay, a homogeneous classifier is the kernel max-margin one until (1/λ)·log α, "
        "and a KKT point of the max-margin problem R1 soon after."
    )

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_margin(instance) or not_decayed(instance) or not_homogeneous(instance)

    def _features(self, case: Case) -> Check:
        name = "Assumption 3.3: separable tangent features"
        try:
            found = kernel_predictor(case.instance)
        except NotSeparableError:
            return Check(name, "γ_ntk = 0", False)
        except Unanswered as error:
            return Check(name, str(error), None)
        return Check(name, with_how(f"γ_ntk = {found.margin:.3g}", found.how), True)

    def predictions(self, case: Case) -> Iterator[Outcome]:
        ends = [said for _, said in case.near(KernelMaxMargin, MaxL1Margin)]
        yield from self._turn(case)
        yield from self._end(case)
        if ends:
            yield Outcome("early the kernel classifier, late (diagonal nets) max-L1-margin", "ended " + ", ".join(ends))


class Regression(_KernelThenRich):
    name = "Lyu et al. 2023, Thms 3.9 and 3.10"
    says = (
        "From a large start with weak decay, a homogeneous model interpolates with its tangent kernel until "
        "(1/λ)·log α, and is a KKT point of the min-norm problem R2 soon after."
    )

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_decayed(instance) or not_homogeneous(instance)

    def _features(self, case: Case) -> Check:
        return _independent(case.instance, "Assumption 3.8: independent tangent features")

    def predictions(self, case: Case) -> Iterator[Outcome]:
        yield from self._turn(case)
        yield from self._end(case)
        ends = [said for _, said in case.near(KernelInterpolation, MinL1, MinNuclear)]
        yield Outcome("early kernel interpolation, late the least norm", "ended " + ", ".join(ends))


class MarginBounds(Theorem):
    name = "Lyu et al. 2023, Thms E.4 and E.5"
    says = (
        "On ±1 inputs with a k-sparse teacher, the max-L1-margin classifier generalises with of order k²·log d "
        "examples; the max-L2-margin one needs of order k·d."
    )

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        task = instance.task
        if not isinstance(task, SparseClassification):
            return f"it is for SparseClassification, not {type(task).__name__}"
        if task.design != "sign" or task.sparsity % 2 == 0:
            return f"it is for ±1 inputs and an odd sparsity, not design={task.design!r} and {task.sparsity}"
        return None

    def assumptions(self, case: Case) -> Iterator[Check]:
        task = case.instance.task
        assert isinstance(task, SparseClassification)
        yield Check("±1 inputs, ±1 teacher with an odd number k of entries", f"k = {task.sparsity}", True)

    def predictions(self, case: Case) -> Iterator[Outcome]:
        task, delta = case.instance.task, 0.05
        assert isinstance(task, SparseClassification)
        for kind, bound in ((MaxL1Margin, l1_margin_bound), (MaxL2Margin, l2_margin_bound)):
            limit = case.limits.get(kind)
            if limit is not None:
                most = bound(task.n, task.d, task.sparsity, delta)
                vacuous = " (says nothing: above ½)" if most > 0.5 else ""
                yield Outcome(
                    f"with 95 % confidence {limit.name} errs on at most {most:.3g} of the inputs{vacuous}",
                    f"it errs on {1 - limit.test:.3g}",
                )


class LabelNoise(Theorem):
    name = "Lyu et al. 2023, Thm B.1"
    says = "Label-noise SGD stays at the flow's limit for less than η⁻² steps, and generalises after that order."

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_label_noise(instance)

    def assumptions(self, case: Case) -> Iterator[Check]:
        instance = case.instance
        n, d = instance.targets.size, instance.design.shape[1] if isinstance(instance.model, LinearModel) else 0
        diagonal = instance.model.power is not None
        yield Check("diagonal net, Gaussian inputs, n < d", f"n = {n}, d = {d}", diagonal)

    def predictions(self, case: Case) -> Iterator[Outcome]:
        yield from timed(case, LabelNoiseTime)


def _homogeneous(instance: Instance) -> Check:
    found, stated = homogeneity(instance.problem, instance.initial), instance.model.degree
    seen = "none" if found.degree is None else f"{found.degree:.3g}"
    return Check(
        "Assumption 3.1: homogeneous in θ",
        f"degree {seen} measured (spread {found.spread:.1g}), {stated} stated",
        found.degree is not None and stated is not None and abs(found.degree - stated) < 1e-3,
    )


def _independent(instance: Instance, name: str) -> Check:
    m = instance.targets.size
    if instance.many and m > instance.features.parameters:
        return Check(name, f"{m} outputs of {instance.features.parameters} parameters", False)
    try:
        least, largest = instance.independence, instance.curvature
    except TimeIsUp as error:
        return Check(name, str(error), None)
    independent, most = bool(least > 1e-10 * largest), ""
    if instance.many:  # the least is known from above: whether it is too small can be told, not that it is not
        independent, most = None if independent else False, "at most "
    return Check(name, f"tangent kernel between {most}{least:.2g} and {largest:.2g}", independent)
