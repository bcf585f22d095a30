"""The kernel regime: what a model does that only moves along its tangent features at initialisation.

Predictors are returned as parameters of the linearised model (`models.Tangent`, anchored where the run starts), so
that they predict, and are scored, as any other model.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from afterfit._base import jacobians
from afterfit._base.allowance import TimeIsUp, seconds_left, time_left, time_to_factorise, within
from afterfit._base.definitions import compiled
from afterfit._base.errors import Unanswered
from afterfit._base.jacobians import Linearisation
from afterfit._base.machine import blas_on_one_thread
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._problem import Problem, take_examples
from afterfit.models import Model, Tangent
from afterfit.theory._features import MOST, Features
from afterfit.theory._instance import Instance
from afterfit.theory._matrix_free import conjugate_gradients, least_squares, on_working_set
from afterfit.theory._programs import max_margin, pivoted

__all__ = [
    "KernelPredictor",
    "constraints",
    "has_last_layer",
    "kernel_predictor",
    "last_layer_predictor",
    "margin_features",
    "margins",
    "way_to_targets",
]

_FEW = 1000  # constraints that are solved for all together
_PASSES = 1e9  # outputs x examples x parameters from which on a derivative of everything is too long a way to a kernel
_SMALL = 1e-3  # to which share of itself a right-hand side is met, of more outputs than are factorised
_SAMPLE = 2000  # outputs of a part of the examples
_SHARE = 0.6  # of the time that is left, for an answer on all examples
_TO_BEGIN = 2.0  # seconds that a part of the examples takes, of which most are compiling

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class KernelPredictor:
    """A linear predictor on tangent features: `model` (the linearised one) at the parameters `params`.

    `norm` is ‖h*‖ of its displacement h* from the start. For classification it has margin 1 on every support vector,
    so that γ_ntk = 1/norm; None for regression. `how` says what was not computed exactly, or not on all examples.
    """

    model: Model = dataclasses.field(repr=False)
    params: PyTree[Array] = dataclasses.field(repr=False)
    norm: float
    margin: float | None = None
    how: str = ""


def once(f: Callable[[Instance], T]) -> Callable[[Instance], T]:
    """f of an instance, computed once for each: what it gave, or why it gave nothing (but for want of time)."""

    @functools.wraps(f)
    def known(instance: Instance) -> T:
        kept = vars(instance)
        if f.__name__ not in kept:
            try:
                kept[f.__name__] = f(instance)
            except TimeIsUp:
                raise
            except Unanswered as error:
                kept[f.__name__] = error
        if isinstance(kept[f.__name__], Unanswered):
            raise kept[f.__name__]
        return kept[f.__name__]

    return known


def margins(problem: Problem, outputs: Array) -> Float[Array, " m"]:
    """What a classifier must make positive: yᵢf(xᵢ), or with several classes the target's output less every other."""
    targets = tangent.targets(problem)
    if outputs.ndim == 1:
        return targets * outputs
    chosen = jnp.take_along_axis(outputs, targets[:, None], axis=1)
    c = outputs.shape[1]
    others = (targets[:, None] + jnp.arange(1, c)) % c
    return (chosen - jnp.take_along_axis(outputs, others, axis=1)).ravel()


def margin_features(problem: Problem, params: PyTree[Array]) -> Linearisation:
    """The margins at `params` and products with their Jacobian."""
    return jacobians.linearise(lambda p: margins(problem, tangent.outputs(problem, p)), params)


@once
def kernel_predictor(instance: Instance) -> KernelPredictor:
    """The limit of training along the tangent features at initialisation.

    Squared loss: argmin ‖h‖ subject to f(θ₀; xᵢ) + ⟨∇f(θ₀; xᵢ), h⟩ = yᵢ, interpolation by the tangent kernel
    (Lyu et al. 2023, K2, where f(θ₀; ·) = 0). Others: argmin ‖h‖ subject to margins ≥ 1 (K1), in its direction: far
    enough from the start that f(θ₀; ·) does not count.
    """
    return _on_features(instance, instance.initial, None)


@once
def last_layer_predictor(instance: Instance) -> KernelPredictor:
    """The same when only the last layer is trained, from 0 (Woodworth et al. 2020, Fig. 6c)."""
    model = instance.experiment.model
    ones = jax.tree.map(lambda leaf: np.ones(leaf.shape), instance.initial)
    layer = jax.tree.map(lambda leaf: 1.0 - leaf, model.zero_last_layer(ones))
    start = jax.tree.map(lambda leaf, last: jnp.asarray(np.asarray(leaf) * (1 - last)), instance.initial, layer)
    return _on_features(instance, start, layer)


def way_to_targets(instance: Instance) -> tuple[float, str]:
    """‖h‖ of the shortest h that brings outputs of 0 to the targets of a squared loss, and how it was found."""
    y = instance.targets.ravel()
    if not instance.many:
        return float(np.sqrt(y @ _solved(instance.kernel, y))), ""

    def exactly() -> tuple[float, str]:
        found, how = _shortest(instance.features, y, settled=1e-4)
        return float(np.linalg.norm(found)), how

    return in_time(instance, exactly, way_to_targets)


def _on_features(instance: Instance, start: PyTree[Array], trained: PyTree[Array] | None) -> KernelPredictor:
    """The predictor on tangent features at `start`, those of the parameters that are `trained` (0 or 1 each)."""
    problem = instance.problem
    m = math.prod(_shape(problem, start))
    work = m * problem.data.n * sum(leaf.size for leaf in jax.tree.leaves(start))
    if instance.many or (not instance.regression and (m > _FEW or work > _PASSES)):
        of = Features(problem, start, trained)
        return in_time(
            instance,
            lambda: (_interpolation if instance.regression else _max_margin)(instance, of, start),
            lambda some: _on_features(some, start, trained),
        )
    value = np.asarray(_value(problem, start))
    K = instance.kernel if instance.regression and trained is None else _products(instance, start, trained)
    if instance.regression:
        missing = (np.asarray(tangent.targets(problem)) - value).ravel()
        coefficients, scale, margin = _solved(K, missing), 1.0, None
    else:
        coefficients = max_margin(K)
        margin = float(1 / np.sqrt(coefficients @ K @ coefficients))
        scale = _far(value)
    params = _moved(problem, start, trained, coefficients.astype(value.dtype).reshape(value.shape), np.asarray(scale))
    size = float(np.sqrt(coefficients @ K @ coefficients))
    anchored = Tangent(model=instance.model).anchored(start)
    return KernelPredictor(anchored, params, size, margin)


def _products(instance: Instance, start: PyTree[Array], trained: PyTree[Array] | None) -> np.ndarray:
    """Inner products of the gradients of what is constrained."""
    of = Features(instance.problem, start, trained)
    return of.kernel if instance.regression and of.apart else np.asarray(_gram(instance.problem, start, trained))


def _far(outputs: np.ndarray) -> float:
    """The direction is what counts: far enough out that the outputs at the start are nothing beside it."""
    return 1e6 * max(1.0, float(np.max(np.abs(outputs))))


def _solved(K: np.ndarray, b: np.ndarray) -> np.ndarray:
    """ν with Kν = b, or the shortest that comes closest; of more than a few by Cholesky's factors, where K has them."""
    if len(b) > _FEW:
        from scipy.linalg import LinAlgError, cho_factor, cho_solve

        with contextlib.suppress(LinAlgError):
            nu = cho_solve(cho_factor(K), b)
            if np.linalg.norm(K @ nu - b) <= 1e-9 * np.linalg.norm(b):
                return nu
    time_to_factorise(len(b), vectors=True)
    return np.linalg.lstsq(K, b, rcond=1e-13)[0]


# ------------------------------------------------------------------------------------------------------ real sizes


def in_time(instance: Instance, exactly: Callable[[], T], on_some: Callable[[Instance], T]) -> T:
    """What is found `exactly`, if there is time; else on a part of the examples.

    The part is drawn with seed 0, and `how` of what is found says which: it is to be the last of a pair, or a field.
    """
    n, m = instance.problem.data.n, math.prod(_shape(instance.problem, instance.initial))
    k = max(1, n * _SAMPLE // m)
    try:
        with within(seconds_left() * (_SHARE if k < n else 1)), blas_on_one_thread():
            return exactly()
    except TimeIsUp:
        if k >= n:
            raise
        time_left()(_TO_BEGIN)
        examples = np.sort(np.random.default_rng(0).permutation(n)[:k])
        with blas_on_one_thread():
            found: Any = on_some(part_of(instance, examples))
        how = (
            f"on {k} of the {n} examples, drawn with seed 0, to take no longer than the run: thorough=True, or "
            "--thorough on the command line, takes all"
        )
        found = (*found[:-1], how) if isinstance(found, tuple) else dataclasses.replace(found, how=how)
        return found


def _shape(problem: Problem, params: PyTree[Array]) -> tuple[int, ...]:
    """That of the outputs on the training examples."""
    return jax.eval_shape(lambda p: tangent.outputs(problem, p), params).shape


def part_of(instance: Instance, examples: np.ndarray) -> Instance:
    """The same instance with fewer training examples."""
    problem = instance.problem
    inputs, targets = take_examples(problem.data, jnp.asarray(examples))
    slopes = None if problem.data.slopes is None else problem.data.slopes[examples]
    data = dataclasses.replace(problem.data, inputs=inputs, targets=targets, slopes=slopes, n=len(examples))
    return dataclasses.replace(instance, problem=dataclasses.replace(problem, data=data))


def _shortest(of: Features, b: np.ndarray, settled: float = 0.0) -> tuple[np.ndarray, str]:
    """The shortest h with Jh = b, or closest to it where outputs outnumber parameters, and how it was found."""
    if len(b) <= of.parameters:
        found = conjugate_gradients(of.product, b, of.preconditioner, _SMALL, settled)
        return of.pull_back(found.x), f"by conjugate gradients, to {max(found.residual, _SMALL):.0e}"
    found = least_squares(of.push_forward, of.pull_back, b, _SMALL)
    left = float(np.linalg.norm(of.push_forward(found.x) - b) / np.linalg.norm(b))
    return found.x, f"least squares, which leaves {left:.2g}: {len(b)} outputs have {of.parameters} parameters"


def _interpolation(instance: Instance, of: Features, start: PyTree[Array]) -> KernelPredictor:
    outputs = np.asarray(tangent.outputs(instance.problem, start)).ravel()
    h, how = _shortest(of, instance.targets.ravel() - outputs)
    anchored = Tangent(model=instance.model).anchored(start)
    return KernelPredictor(anchored, of.displaced(h), float(np.linalg.norm(h)), how=how)


def _max_margin(instance: Instance, of: Features, start: PyTree[Array]) -> KernelPredictor:
    margins = Margins(instance.problem, of)

    def solve(gram: np.ndarray, chosen: np.ndarray, guess: np.ndarray) -> np.ndarray:
        found = pivoted(gram, np.ones(len(gram)), guess)
        if found is None and len(gram) <= _FEW:
            return max_margin(gram)
        if found is None:  # dependent, as of examples that are there twice: a little of the identity tells them apart
            found = pivoted(gram + 1e-10 * np.mean(np.diag(gram)) * np.eye(len(gram)), np.ones(len(gram)), guess)
        if found is None:
            raise Unanswered(f"which of {len(gram)} margins are tight was not found")
        return found

    # What the kernel would fit to the labels, were it as simple as its preconditioner, tells which are hard.
    guess = of.product(of.preconditioner(margins.back(np.ones(margins.m))))
    found = on_working_set(
        margins.gram, margins.pull, margins.push, solve, np.ones(margins.m), margins.of(guess), most=MOST
    )
    if np.min(margins.push(found.h)) < 1 - 1e-3:
        raise Unanswered(f"no direction with {margins.m} positive margins was found: there may be none")
    size, scale = float(np.linalg.norm(found.h)), _far(np.asarray(tangent.outputs(instance.problem, start)))
    anchored = Tangent(model=instance.model).anchored(start)
    return KernelPredictor(anchored, of.displaced(found.h, scale), size, 1 / size)


class Margins:
    """The margins of a classifier (`margins`) and products with their derivatives, in place of those of its outputs."""

    def __init__(self, problem: Problem, of: Features):
        targets, self.features = np.asarray(tangent.targets(problem)), of
        n, *classes = of.shape
        c = math.prod(classes)
        if not classes:
            self.examples, self.weights = np.arange(n), targets[:, None].astype(float)
        else:
            self.examples = np.repeat(np.arange(n), c - 1)
            others = (targets[:, None] + np.arange(1, c)) % c
            self.weights = (np.eye(c)[targets][:, None] - np.eye(c)[others]).reshape(-1, c)
        self.m, self.n = len(self.examples), n

    def of(self, outputs: np.ndarray) -> np.ndarray:
        """Margins of given outputs."""
        return np.sum(self.weights * outputs.reshape(self.n, -1)[self.examples], axis=1)

    def back(self, nu: np.ndarray) -> np.ndarray:
        """The weights of all outputs in a weighted sum of margins."""
        each = (nu[:, None] * self.weights).reshape(self.n, -1, self.weights.shape[1])
        return each.sum(axis=1).ravel()

    def push(self, h: np.ndarray) -> np.ndarray:
        """Jh."""
        return self.of(self.features.push_forward(h))

    def pull(self, nu: np.ndarray) -> np.ndarray:
        """Jᵀν."""
        return self.features.pull_back(self.back(nu))

    def gram(self, chosen: np.ndarray) -> np.ndarray:
        """JJᵀ of some."""
        return self.features.gram(self.examples[chosen], self.weights[chosen])


def constraints(problem: Problem, params: PyTree[Array]) -> Linearisation:
    """What the data constrain, linearised at `params`: the outputs of a regression, the margins of a classifier."""
    if problem.task.loss.form == "squared":
        return tangent.linearise(problem, params)
    return margin_features(problem, params)


@compiled
def _value(problem: Problem, start: PyTree[Array]) -> Array:
    return constraints(problem, start).value


@compiled
def _gram(problem: Problem, start: PyTree[Array], trained: PyTree[Array] | None) -> Float[Array, "m m"]:
    return tangent.gram(_restricted(constraints(problem, start), trained))


@compiled
def _moved(
    problem: Problem, start: PyTree[Array], trained: PyTree[Array] | None, coefficients: Array, scale: Array
) -> PyTree[Array]:
    """`start` and `scale` times the sum of features with these coefficients."""
    h = _restricted(constraints(problem, start), trained).pull_back(coefficients)
    return jax.tree.map(lambda leaf, along: leaf + scale * along, start, h)


def _restricted(at: Linearisation, trained: PyTree[Array] | None) -> Linearisation:
    if trained is None:
        return at

    def pull_back(r: Array) -> PyTree[Array]:
        return jax.tree.map(jnp.multiply, at.pull_back(r), trained)

    return Linearisation(at.value, at.push_forward, pull_back)


def has_last_layer(model: Model) -> bool:
    """Whether a model says which of its parameters are its last layer."""
    return type(model).zero_last_layer is not Model.zero_last_layer
