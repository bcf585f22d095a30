"""Where a run must end: every limit that theory knows for it, and how far the run is from each.

A new limit is a subclass of `Limit` with a `name`.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import jax
import numpy as np

from afterfit._base import html
from afterfit._base.errors import Unanswered
from afterfit._base.rules import Rule
from afterfit._base.turns import interruptible
from afterfit._training.run import Run
from afterfit.models import LeastNorm, Linear, LinearModel
from afterfit.theory._answers import Answers, with_how
from afterfit.theory._instance import Instance, instance_of
from afterfit.theory._kernel import KernelPredictor, has_last_layer, kernel_predictor, last_layer_predictor
from afterfit.theory._potentials import Q, QDepth
from afterfit.theory._programs import (
    lasso,
    max_l1_margin,
    max_l2_margin,
    min_l1,
    min_l2,
    min_lp,
    min_nuclear,
    nuclear_penalised,
    ridge,
)
from afterfit.theory.obstacles import (
    not_balanced,
    not_decayed,
    not_diagonal,
    not_linear_in_input,
    not_margin,
    not_matrices,
    not_penalty,
    not_squared,
    not_uniform,
    not_vectors,
)

__all__ = [
    "ArgminQ",
    "ArgminQDepth",
    "KernelInterpolation",
    "KernelMaxMargin",
    "Lasso",
    "LastLayerOnly",
    "Limit",
    "Limits",
    "MaxL1Margin",
    "MaxL2Margin",
    "MinL1",
    "MinL2",
    "MinLp",
    "MinNuclear",
    "NuclearPenalised",
    "Ridge",
    "limits",
]

_WIDEST = 4000  # weights up to which the lasso goes to a general solver


class Limit(Rule):
    """A predictor that some theorem sends the run to.

    `regime` is `"kernel"` (early, or from a large start), `"rich"` (late, or from a small one), `"between"` or
    `"penalised"` (the end at the penalty's finite strength). `train` and `test` are its metrics, in the task's units.
    `distance` is that of the run's end from it: ‖w − w_limit‖/‖w_limit‖ of the predictors (their test outputs for a
    model that is not linear in its input); for classifiers, of their directions. `how` says what was not computed
    exactly, or not on all examples.

    One of your own says when it applies (`obstacle`) and finds the predictor (`find`).
    """

    source: str
    regime: ClassVar[str]
    how: str = ""

    train: float
    test: float
    distance: float
    predictor: np.ndarray

    def __init__(self, instance: Instance):
        found = self.find(instance)
        if isinstance(found, KernelPredictor):
            model, params, self.how = found.model, found.params, found.how
        else:
            model, params = Linear(), {"weights": jax.numpy.asarray(found)}
        self.train, self.test = instance.score(model, params)
        self.predictor = _predictor(instance, model, params)
        self.distance = _apart(instance, _predictor(instance, instance.model, instance.end), self.predictor)

    @classmethod
    @abc.abstractmethod
    def obstacle(cls, instance: Instance) -> str | None:
        """Why it is no limit of this instance; None if it is."""

    @abc.abstractmethod
    def find(self, instance: Instance) -> np.ndarray | KernelPredictor:
        """The weights of a linear predictor, or one on tangent features; `Unanswered` if it turns out not to exist."""

    def __str__(self) -> str:
        return (
            f"{self.name:24} {self.regime:10} {self.test:10.4g} {self.distance:9.2g}  {with_how(self.source, self.how)}"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(test={self.test:.4g}, distance={self.distance:.2g})"


class Limits(Answers):
    """The limits of one run, in order, by class and by name; `silent` says of the others why they do not apply."""

    @property
    def nearest(self) -> Limit:
        """The limit that the run ended closest to."""
        if not self:
            raise Unanswered(f"no limit is known for this run: {'; '.join(self.silent.values())}.")
        return min(self, key=lambda limit: limit.distance)

    def __str__(self) -> str:
        head = f"{'limit':24} {'regime':10} {'test':>10} {'distance':>9}  source"
        reasons: dict[str, list[str]] = {}  # there are many limits, and few reasons
        for rule, why in self.silent.items():
            reasons.setdefault(why, []).append(rule.name)
        silent = (f"{', '.join(names)}: not for this run: {why}" for why, names in reasons.items())
        return "\n".join([head, *map(str, self), *silent])

    def _repr_html_(self) -> str:
        rows = [
            (
                limit.name,
                limit.regime,
                f"{limit.train:.4g}",
                f"{limit.test:.4g}",
                f"{limit.distance:.2g}",
                with_how(limit.source, limit.how),
            )
            for limit in self
        ]
        head = ("limit", "regime", "train", "test", "distance of the end", "source")
        return html.table(head, rows, "Where it could end") + self._silent_html()


def limits(run: Run) -> Limits:
    """Every limit that theory knows for a run: what it is worth, and how far from it the run ended.

    ```python
    print(af.theory.limits(run))
    af.theory.limits(run)[af.theory.MaxL1Margin].distance
    ```
    """
    return limits_of(instance_of(run))


def limits_of(instance: Instance) -> Limits:
    """The same of a run whose problem is posed already."""
    return interruptible(lambda: Limits.of(Limit.known(), instance, lambda limit: limit(instance)))


def _predictor(instance: Instance, model: Any, params: Any) -> np.ndarray:
    if isinstance(model, LinearModel):
        return np.asarray(model.weights(params))
    return np.asarray(model(params, instance.problem.data.test_inputs))


def _apart(instance: Instance, end: np.ndarray, limit: np.ndarray) -> float:
    a, b = end.ravel(), limit.ravel()
    if not instance.regression:
        a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


# ------------------------------------------------------------------------------------------------ the kernel regime


class KernelInterpolation(Limit):
    """The interpolating predictor of least norm on the tangent features at the start."""

    name, source, regime = "kernel interpolation", "Lyu et al. 2023, Thm 3.9", "kernel"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance)

    def find(self, instance: Instance) -> KernelPredictor:
        return kernel_predictor(instance)


class KernelMaxMargin(Limit):
    """The classifier of largest margin on the tangent features at the start."""

    name, source, regime = "kernel max-margin", "Lyu et al. 2023, Thm 3.4", "kernel"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_margin(instance)

    def find(self, instance: Instance) -> KernelPredictor:
        return kernel_predictor(instance)


class LastLayerOnly(Limit):
    """The same on the features of the last layer, whose weights start from 0."""

    name, source, regime = "last layer only", "Woodworth et al. 2020, Fig. 6c", "kernel"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        model = instance.experiment.model
        if instance.model.linear:
            return f"{type(model).__name__} is linear in its parameters: training all is no more than this"
        named = has_last_layer(model)
        return None if named else f"it is for models that name their last layer, which {type(model).__name__} does not"

    def find(self, instance: Instance) -> KernelPredictor:
        return last_layer_predictor(instance)


# -------------------------------------------------------------------------------- linear classifiers of large margin


class MaxL2Margin(Limit):
    """argmin ‖w‖₂ subject to yᵢ⟨w, xᵢ⟩ ≥ 1."""

    name, source, regime = "max-L2-margin", "Lyu et al. 2023, Cor. 3.6", "kernel"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_margin(instance) or not_vectors(instance)

    def find(self, instance: Instance) -> np.ndarray:
        return max_l2_margin(instance.design, instance.targets)


class MaxL1Margin(Limit):
    """argmin ‖w‖₁ subject to yᵢ⟨w, xᵢ⟩ ≥ 1."""

    name, source, regime = "max-L1-margin", "Lyu et al. 2023, Cor. 3.7", "rich"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_margin(instance) or not_vectors(instance)

    def find(self, instance: Instance) -> np.ndarray:
        return max_l1_margin(instance.design, instance.targets)


# ----------------------------------------------------------------------------------------- solutions of least norm


class MinL2(Limit):
    """The interpolating weights of least L2 norm."""

    name, source, regime = "min-L2", "Woodworth et al. 2020, §4", "kernel"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_linear_in_input(instance)

    def find(self, instance: Instance) -> np.ndarray:
        return min_l2(instance.rows, instance.targets).reshape(instance.design.shape[1:])


class MinL1(Limit):
    """The interpolating weights of least L1 norm."""

    name, source, regime = "min-L1", "Woodworth et al. 2020, §4", "rich"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_vectors(instance)

    def find(self, instance: Instance) -> np.ndarray:
        return min_l1(instance.design, instance.targets)


class MinLp(Limit):
    """The stationary point of Σ|βᵢ|^{2/D} among the solutions that the run's end leads to, D > 2 the depth."""

    name, source, regime = "stationary min-L(2/D)", "Woodworth et al. 2020, §5", "rich"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_diagonal(instance) or cls._shallow(instance) or not_decayed(instance)

    @staticmethod
    def _shallow(instance: Instance) -> str | None:
        return None if instance.depth > 2 else f"it is for depths above 2, not {instance.depth}"

    def find(self, instance: Instance) -> np.ndarray:
        end = _predictor(instance, instance.model, instance.end)
        return min_lp(instance.design, instance.targets, 2 / instance.depth, end)


class MinNuclear(Limit):
    """The interpolating matrix of least nuclear norm."""

    name, source, regime = "min-nuclear", "Lyu et al. 2023, §3.3.3", "rich"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_matrices(instance)

    def find(self, instance: Instance) -> np.ndarray:
        return min_nuclear(instance.design, instance.targets, symmetric=_symmetric(instance))


# --------------------------------------------------------------------------------- diagonal nets without a penalty


class _Potential(Limit):
    """Where the flow of a diagonal net w₊^D − w₋^D ends from w₊ = w₋: between the kernel and the rich regime."""

    regime = "between"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return (
            not_squared(instance) or not_penalty(instance, "none") or not_balanced(instance) or cls._of_depth(instance)
        )

    @classmethod
    @abc.abstractmethod
    def _of_depth(cls, instance: Instance) -> str | None: ...


class ArgminQ(_Potential):
    """The solution of least Q."""

    name, source = "argmin Q", "Woodworth et al. 2020, Thm 1"

    @classmethod
    def _of_depth(cls, instance: Instance) -> str | None:
        return None if instance.depth == 2 else f"it is for depth 2, not {instance.depth}"

    def find(self, instance: Instance) -> np.ndarray:
        return Q(1.0, instance.balanced_start).minimise(instance.design, instance.targets)


class ArgminQDepth(_Potential):
    """The solution of least Q^D."""

    name, source = "argmin Q^D", "Woodworth et al. 2020, Thm 3"

    @classmethod
    def _of_depth(cls, instance: Instance) -> str | None:
        return "it is for depths above 2, not 2" if instance.depth == 2 else not_uniform(instance)

    def find(self, instance: Instance) -> np.ndarray:
        return QDepth(float(instance.balanced_start[0]), instance.depth).minimise(instance.design, instance.targets)


# ------------------------------------------------------------------------------- the end at the penalty's strength


def _norm(instance: Instance) -> LeastNorm | None:
    """The penalty, over its strength, as a norm of the predictor, if that is known.

    Weight decay is what the model says: ½λ‖θ‖² is ½λ‖β‖₁ on w₊² − w₋², λ‖β‖₁ on u ⊙ v, λ‖W‖_* on UVᵀ and ½λ‖W‖_* on
    UUᵀ − VVᵀ, each being the least over all parameters with that predictor.
    """
    model, form = instance.experiment.model, instance.penalty_form
    if form == "l2":
        return model.least_norm
    if model.direct and form == "l1":
        return LeastNorm(1.0, 1.0, source="Notsawo et al. 2025, Thm 3.1")
    if model.direct and form == "nuclear":
        return LeastNorm(1.0, 1.0, of="singular values", source="Notsawo et al. 2025, Thm 3.4")
    return None


def _symmetric(instance: Instance) -> bool:
    norm = instance.experiment.model.least_norm
    return norm is not None and norm.symmetric


class _Penalised(Limit):
    """Where loss and penalty balance, where the penalty on the parameters is known as a norm of the predictor."""

    regime = "penalised"

    @classmethod
    @abc.abstractmethod
    def is_of(cls, norm: LeastNorm) -> bool:
        """Whether that is the norm it is for."""

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_linear_in_input(instance) or cls._not_this_norm(instance)

    @classmethod
    def _not_this_norm(cls, instance: Instance) -> str | None:
        if instance.penalty_form == "none":
            return "there is no penalty"
        norm = _norm(instance)
        penalty, model = (type(noun).__name__ for noun in (instance.experiment.penalty, instance.experiment.model))
        if norm is None:
            return f"which norm of the predictor {penalty} on the parameters of {model} comes to is not known"
        return None if cls.is_of(norm) else f"{penalty} on {model} comes to the sum of |{norm.of}|^{norm.power:.3g}"

    def find(self, instance: Instance) -> np.ndarray:
        norm = _norm(instance)
        assert norm is not None
        self.source = norm.source
        strength = instance.strength / instance.half_factor * norm.factor
        return self.minimise(instance, strength).reshape(instance.design.shape[1:])

    @abc.abstractmethod
    def minimise(self, instance: Instance, strength: float) -> np.ndarray:
        """argmin ½‖Xw − y‖² + strength·Σ|·|^power."""


class Ridge(_Penalised):
    """The end under an L2 norm of the predictor."""

    name = "ridge"

    @classmethod
    def is_of(cls, norm: LeastNorm) -> bool:
        return norm.power == 2

    def minimise(self, instance: Instance, strength: float) -> np.ndarray:
        return ridge(instance.rows, instance.targets, 2 * strength)  # it has ½‖w‖²


class Lasso(_Penalised):
    """The end under an L1 norm of the predictor."""

    name = "lasso"

    @classmethod
    def is_of(cls, norm: LeastNorm) -> bool:
        return norm.power == 1 and norm.of == "entries"

    def minimise(self, instance: Instance, strength: float) -> np.ndarray:
        weights = instance.rows.shape[1]
        if weights > _WIDEST:
            raise Unanswered(f"{weights} weights are too many for the lasso here: at most {_WIDEST}")
        return lasso(instance.rows, instance.targets, strength)


class NuclearPenalised(_Penalised):
    """The end under a nuclear norm of the predictor."""

    name = "nuclear-penalised"

    @classmethod
    def is_of(cls, norm: LeastNorm) -> bool:
        return norm.power == 1 and norm.of == "singular values"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return super().obstacle(instance) or not_matrices(instance)

    def minimise(self, instance: Instance, strength: float) -> np.ndarray:
        return nuclear_penalised(instance.design, instance.targets, strength, symmetric=_symmetric(instance))
