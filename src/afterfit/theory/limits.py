"""Where a run must end: every limit that theory knows for it, and how far the run is from each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from afterfit.models import (
    DeepMatrixFactorisation,
    DiagonalNet,
    DiagonalProduct,
    Linear,
    LinearModel,
    MatrixFactorisation,
    SymmetricFactorisation,
)
from afterfit.penalties import L1, L2, NoPenalty, Nuclear
from afterfit.run import Run
from afterfit.spec import SpecError
from afterfit.theory.instance import Instance, instance_of
from afterfit.theory.kernel import KernelPredictor, has_last_layer, kernel_predictor, last_layer_predictor
from afterfit.theory.named import Named
from afterfit.theory.potentials import Q, QDepth
from afterfit.theory.programs import (
    NotSeparableError,
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
from afterfit.turns import computing

__all__ = ["Limit", "Limits", "limits"]

_WIDEST = 4000  # weights up to which the lasso goes to a general solver


@dataclasses.dataclass(frozen=True)
class Limit:
    """A predictor that some theorem sends the run to.

    `regime` is `"kernel"` (early, or from a large start), `"rich"` (late, or from a small one), `"between"` or
    `"penalised"` (the end at the penalty's finite strength). `train` and `test` are its metrics, in the task's units.
    `distance` is that of the run's end from it: ‖w − w_limit‖/‖w_limit‖ of the predictors (their test outputs for a
    model that is not linear in its input); for classifiers, of their directions.
    """

    name: str
    source: str
    regime: str
    train: float
    test: float
    distance: float
    predictor: np.ndarray

    def __str__(self) -> str:
        return f"{self.name:24} {self.regime:10} {self.test:10.4g} {self.distance:9.2g}  {self.source}"


class Limits(Named):
    """The limits of one run, in order and by name; `skipped` says of others why they could not be computed."""

    skipped: dict[str, str]

    @property
    def nearest(self) -> Limit:
        """The limit that the run ended closest to."""
        if not self:
            raise SpecError(f"no limit could be computed for this run: {'; '.join(self.skipped.values())}")
        return min(self, key=lambda limit: limit.distance)

    def __str__(self) -> str:
        head = f"{'limit':24} {'regime':10} {'test':>10} {'distance':>9}  source"
        return "\n".join(
            [head, *map(str, self), *(f"{name:24} not computed: {why}" for name, why in self.skipped.items())]
        )

    __repr__ = __str__


@dataclasses.dataclass(frozen=True)
class _Candidate:
    name: str
    source: str
    regime: str
    find: Callable[[], Any]  # weights, or a KernelPredictor


def limits(run: Run) -> Limits:
    """Every limit that theory knows for a run: what it is worth, and how far from it the run ended.

    ```python
    print(af.theory.limits(run))
    af.theory.limits(run)["max-L1-margin"].distance
    ```
    """
    instance = instance_of(run)
    known, skipped = [], {}
    with computing():
        for candidate in _candidates(instance):
            try:
                known.append(_measured(instance, candidate))
            except (SpecError, NotSeparableError, RuntimeError) as error:
                skipped[candidate.name] = str(error)
    if not isinstance(instance.model, LinearModel):
        name = type(instance.experiment.model).__name__
        skipped["least norms" if instance.regression else "max margins"] = (
            f"they are for models that are linear in their input, and {name} is not"
        )
    found = Limits(known)
    found.skipped = skipped
    return found


def _measured(instance: Instance, candidate: _Candidate) -> Limit:
    found = candidate.find()
    if isinstance(found, KernelPredictor):
        model, params = found.model, found.params
    else:
        model, params = Linear(), {"weights": jax.numpy.asarray(found)}
    train, test = instance.score(model, params)
    limit, end = _predictor(instance, model, params), _predictor(instance, instance.model, instance.end)
    return Limit(
        candidate.name, candidate.source, candidate.regime, train, test, _apart(instance, end, limit), np.asarray(limit)
    )


def _predictor(instance: Instance, model: Any, params: Any) -> np.ndarray:
    if isinstance(model, LinearModel):
        return np.asarray(model.weights(params))
    return np.asarray(model(params, instance.problem.data.test_inputs))


def _apart(instance: Instance, end: np.ndarray, limit: np.ndarray) -> float:
    a, b = end.ravel(), limit.ravel()
    if not instance.regression:
        a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def _candidates(instance: Instance) -> Iterator[_Candidate]:
    yield _kernel(instance)
    if has_last_layer(instance.experiment.model) and not instance.model.linear:
        yield _Candidate(
            "last layer only", "Woodworth et al. 2020, Fig. 6c", "kernel", lambda: last_layer_predictor(instance)
        )
    if not isinstance(instance.model, LinearModel):
        return
    if not instance.regression:
        yield from _margins(instance)
        return
    yield from _least_norms(instance)
    yield from _potentials(instance)
    yield from _penalised(instance)


def _kernel(instance: Instance) -> _Candidate:
    name, source = ("kernel interpolation", "Thm 3.9") if instance.regression else ("kernel max-margin", "Thm 3.4")
    return _Candidate(name, f"Lyu et al. 2023, {source}", "kernel", lambda: kernel_predictor(instance))


def _margins(instance: Instance) -> Iterator[_Candidate]:
    X, y = instance.design, instance.targets
    if X.ndim == 2:
        yield _Candidate("max-L2-margin", "Lyu et al. 2023, Cor. 3.6", "kernel", lambda: max_l2_margin(X, y))
        yield _Candidate("max-L1-margin", "Lyu et al. 2023, Cor. 3.7", "rich", lambda: max_l1_margin(X, y))


def _least_norms(instance: Instance) -> Iterator[_Candidate]:
    X, y, model = instance.design, instance.targets, instance.experiment.model
    flat, shape = X.reshape(len(X), -1), X.shape[1:]
    yield _Candidate("min-L2", "Woodworth et al. 2020, §4", "kernel", lambda: min_l2(flat, y).reshape(shape))
    if X.ndim == 2:
        yield _Candidate("min-L1", "Woodworth et al. 2020, §4", "rich", lambda: min_l1(X, y))
        if type(model) is DiagonalNet and model.depth > 2 and instance.decay:
            power = 2 / model.depth
            yield _Candidate(
                f"min-L(2/{model.depth}), stationary",
                "Woodworth et al. 2020, §5",
                "rich",
                lambda: min_lp(X, y, power, np.asarray(model.weights(instance.end))),
            )
    else:
        symmetric = type(model) is SymmetricFactorisation
        yield _Candidate(
            "min-nuclear", "Lyu et al. 2023, §3.3.3", "rich", lambda: min_nuclear(X, y, symmetric=symmetric)
        )


def _potentials(instance: Instance) -> Iterator[_Candidate]:
    model, penalty = instance.experiment.model, instance.experiment.penalty
    if type(model) is not DiagonalNet or not (type(penalty) is NoPenalty or penalty.strength == 0):
        return
    plus, minus = (np.asarray(instance.initial[name]) for name in ("plus", "minus"))
    if not np.array_equal(plus, minus):
        return
    X, y = instance.design, instance.targets
    if model.depth == 2:
        yield _Candidate("argmin Q", "Woodworth et al. 2020, Thm 1", "between", lambda: Q(1.0, plus).minimise(X, y))
    elif np.ptp(plus) == 0:
        potential = QDepth(abs(float(plus[0])), model.depth)
        yield _Candidate("argmin Q^D", "Woodworth et al. 2020, Thm 3", "between", lambda: potential.minimise(X, y))


def _penalised(instance: Instance) -> Iterator[_Candidate]:
    """The end at a finite strength, where the penalty on the parameters is known as one on the predictor.

    Weight decay ½λ‖θ‖² is ½λ‖β‖₁ on w₊² − w₋², λ‖β‖₁ on u ⊙ v, λ‖W‖_* on UVᵀ and ½λ‖W‖_* on UUᵀ − VVᵀ, each being the
    least over all parameters with that predictor.
    """
    model, penalty = instance.experiment.model, instance.experiment.penalty
    if type(penalty) not in (L1, L2, Nuclear) or penalty.strength == 0:
        return
    X, y, strength = instance.design, instance.targets, float(penalty.strength) / instance.half_factor
    flat, shape = X.reshape(len(X), -1), X.shape[1:]

    def l1(strength: float, source: str) -> _Candidate:
        return _Candidate("lasso", source, "penalised", lambda: _lasso(flat, y, strength).reshape(shape))

    def nuclear(strength: float, source: str, symmetric: bool = False) -> _Candidate:
        return _Candidate(
            "nuclear-penalised",
            source,
            "penalised",
            lambda: nuclear_penalised(X, y, strength, symmetric=symmetric),
        )

    if type(penalty) is L2:
        if type(model) is Linear:
            yield _Candidate(
                "ridge", "Notsawo et al. 2025, Thm 3.6", "penalised", lambda: ridge(flat, y, strength).reshape(shape)
            )
        elif type(model) is DiagonalNet and model.depth == 2:
            yield l1(strength / 2, "Lyu et al. 2023, Cor. 3.7")
        elif type(model) is DiagonalProduct and model.depth == 2:
            yield l1(strength, "Boursier et al. 2025, App. D.2")
        elif type(model) is MatrixFactorisation or (type(model) is DeepMatrixFactorisation and model.depth == 2):
            yield nuclear(strength, "Boursier et al. 2025, §5")
        elif type(model) is SymmetricFactorisation:
            yield nuclear(strength / 2, "Lyu et al. 2023, §3.3.3", symmetric=True)
    elif type(model) is Linear and type(penalty) is L1:
        yield l1(strength, "Notsawo et al. 2025, Thm 3.1")
    elif type(model) is Linear and X.ndim == 3:
        yield nuclear(strength, "Notsawo et al. 2025, Thm 3.4")


def _lasso(X: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    if X.shape[1] > _WIDEST:
        raise SpecError(f"{X.shape[1]} weights are too many for the lasso here: at most {_WIDEST}.")
    return lasso(X, y, strength)
