"""Woodworth et al. 2020: the implicit bias of diagonal nets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from afterfit.models import LinearModel
from afterfit.theory._instance import Instance
from afterfit.theory._limits import ArgminQ, ArgminQDepth, MinL1, MinL2
from afterfit.theory._theorems._base import Case, Check, Outcome, Theorem
from afterfit.theory.obstacles import not_diagonal, not_penalty, not_squared
from afterfit.theory.thresholds import alpha_thm2_l2, log_alpha_thm2_l1

__all__ = ["ImplicitBias"]

_EPSILON = 0.1  # of Thm 2: within 10 % of the least norm


class ImplicitBias(Theorem):
    name = "Woodworth et al. 2020, Thms 1 to 3"
    says = "Without penalty, a diagonal net that fits ends at the solution of least Q, between L1 and L2."

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_diagonal(instance) or not_penalty(instance, "none")

    def assumptions(self, case: Case) -> Iterator[Check]:
        plus, minus = (np.asarray(case.instance.initial[name]) for name in ("plus", "minus"))
        apart = float(np.max(np.abs(plus - minus)))
        yield Check("w₊(0) = w₋(0)", f"they differ by {apart:.2g}", apart == 0)
        yield Check("w₀ has no zero entry", f"the smallest is {np.min(np.abs(plus)):.2g}", bool(np.all(plus != 0)))
        missing = float(case.run.curves["train_error"].values[-1])
        yield Check("the flow fits: Xβ = y", f"train error {missing:.2g} at the end", missing <= 1e-3)

    def predictions(self, case: Case) -> Iterator[Outcome]:
        for limit, said in case.near(ArgminQ, ArgminQDepth):
            yield Outcome(f"the end is {limit.name}", f"ended {said}")
        instance, model = case.instance, case.instance.model
        if isinstance(model, LinearModel) and model.power == 2 and MinL1 in case.limits:
            l1 = float(np.sum(np.abs(case.limits[MinL1].predictor)))
            l2 = float(np.linalg.norm(case.limits[MinL2].predictor))
            alpha, d = float(np.max(np.abs(instance.initial["plus"]))), instance.design.shape[1]
            low, high = log_alpha_thm2_l1(_EPSILON, l1, d) / np.log(10), alpha_thm2_l2(_EPSILON, l2)
            end = np.asarray(model.weights(instance.end))
            yield Outcome(
                f"{_EPSILON:.0%} above min-L1 for α ≤ 10^{low:.3g}, above min-L2 for α ≥ {high:.3g} (here {alpha:.3g})",
                f"‖β‖₁ is {np.sum(np.abs(end)) / l1:.3g} of the least, ‖β‖₂² {np.sum(end**2) / l2**2:.3g} of the least",
            )
