"""What a model or a quantity of the user's own has to be, tried before a run: refusals in sentences, without JAX's
traceback.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sysconfig
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.errors import JAXTypeError
from jaxtyping import Array, PyTree

from afterfit._base.curves import axes_of
from afterfit._base.definitions import compiled
from afterfit._base.errors import AfterfitError, SpecError, error_in_words, require
from afterfit._base.spec import all_ours
from afterfit.dynamics import Dynamics
from afterfit.dynamics._optax import made
from afterfit.dynamics._problem import Problem
from afterfit.models import Model
from afterfit.models._inputs import as_inputs
from afterfit.penalties import Penalty
from afterfit.quantities import Quantity

__all__ = [
    "check_outputs",
    "check_own_model",
    "check_own_penalty",
    "check_own_steps",
    "check_schedule",
    "shape_of",
    "watching",
]


def check_own_model(problem: Problem, params: PyTree[Array], outputs: jax.ShapeDtypeStruct) -> None:
    """Refuse a model of the user's, whose outputs have this shape, if it cannot be trained."""
    _check_pure(problem, params)
    _check_start(problem, params, outputs)
    require(
        problem.model.responsive or _moves_outputs(problem, params, outputs),
        "the model's outputs do not depend on its parameters: their derivative is exactly 0 at the start and at "
        "random points of sizes from 1e-3 to 1e6, so that nothing can be learnt.",
    )
    require(
        not problem.model.separate or _acts_on_each(problem, params),
        f"{type(problem.model).__name__} says separate = True, but the output of an example depends on the "
        "others: leave that out.",
    )


def check_own_penalty(penalty: Penalty, params: PyTree[Array]) -> None:
    """Refuse a penalty of the user's that is not one number, or that JAX cannot follow."""
    _require_number("the penalty", shape_of("the penalty", penalty.value, params))


def check_schedule(dynamics: Dynamics) -> None:
    """Refuse a schedule of the user's that is not one number a step, or that JAX cannot follow."""
    schedule = made(getattr(dynamics, "schedule", None), "dynamics.schedule")
    if schedule is not None:
        _require_number("the schedule", shape_of("the schedule", schedule, jnp.zeros((), jnp.int64)))


def _require_number(what: str, seen: Any) -> None:
    number = seen.shape == () if isinstance(seen, jax.ShapeDtypeStruct) else isinstance(seen, int | float)
    require(number, f"{what} must be one number, got {seen!r:.60}.")


def check_own_steps(dynamics: Dynamics, problem: Problem, params: PyTree[Array]) -> None:
    """Refuse steps that JAX cannot follow, or that give other arrays than they got."""
    key, one = jax.random.key(0), jnp.ones((), jnp.int64)
    what = f"a step of {type(dynamics).__name__}"
    shape_of(what, lambda p: dynamics.advance(problem, dynamics.start(problem, p, key), one, one), params)


def _acts_on_each(problem: Problem, params: PyTree[Array]) -> bool:
    """Whether the first example has the output alone that it has among the others, as far as rounding lets one tell.

    At the start, where all outputs may be 0, and at a random point about it.
    """
    n, inputs = problem.data.n, as_inputs(problem.data.inputs)
    for point in (params, jax.tree.map(jnp.add, params, _noise(params))):
        together = inputs.observed(problem.model.outputs(point, problem.data.inputs), n)
        alone, size = problem.model(point, inputs.first(n))[0], float(jnp.max(jnp.abs(together)))
        if np.isfinite(size) and not jnp.allclose(alone, together[0], rtol=1e-3, atol=1e-3 * size):
            return False
    return True


def _noise(params: PyTree[Array]) -> PyTree[Array]:
    """Random numbers in the shapes of the parameters, the same ones always."""
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape), leaf.dtype), params)


def watching(observe: Mapping[str, Quantity], problem: Problem, params: PyTree[Array]) -> Problem:
    """The problem with what is to be observed of it beside its own, from a start at `params`."""
    if not observe and all_ours(problem.model) and all_ours(problem.task):
        return problem
    taken = {*_OF_EVERY_RUN, *shape_of("what is observed", problem.usual, params)}
    own = shape_of("what the model observes", problem.model.observe, params)
    for name in own:
        require(
            name not in taken,
            f"every run has a curve {name!r} of its own, and {type(problem.model).__name__}.observe gives another: "
            "call it something else.",
        )
    watched = {}
    for name, quantity in observe.items():
        require(
            name not in taken | set(own),
            f"every run has a curve {name!r} of its own: observe yours under another name.",
        )
        watched[name] = quantity, _begun(f"the quantity {name!r}", quantity, problem, params)
    problem = dataclasses.replace(problem, watched=watched)
    curves = shape_of("what is observed", problem.observe, params)
    axes = {axis: name for name, curve in curves.items() for axis in axes_of(name, len(curve.shape))}
    for name in curves:
        require(
            name not in axes,
            f"{name!r} is what the axis of the curve {axes.get(name)!r} is called: observe yours under another name.",
        )
    return problem


_OF_EVERY_RUN = ("time", "log10_time", "step", "trouble")


def _begun(what: str, quantity: Quantity, problem: Problem, params: PyTree[Array]) -> PyTree[Array]:
    """What a quantity keeps of the start, if it can be had along the run."""
    quantity.check(problem, params)
    shape_of(what, lambda p: quantity.begin(problem, p), params)  # refused in words, before it is computed
    memory = _begin(quantity, problem, params)
    seen = shape_of(what, lambda p: quantity.value(problem, p, memory), params)
    require(
        isinstance(seen, jax.ShapeDtypeStruct) and not jnp.issubdtype(seen.dtype, jnp.complexfloating),
        f"{what} must be a real number or an array of them, got {seen!r:.60}.",
    )
    return memory


@compiled
def _begin(quantity: Quantity, problem: Problem, params: PyTree[Array]) -> PyTree[Array]:
    return quantity.begin(problem, params)


def shape_of(what: str, f: Callable[..., Any], *arguments: Any, in_words: bool = True) -> Any:
    """The shape and type of f(*arguments); what the user's own raises `in_words`, without JAX's traceback.

    `what` it is: "the model".
    """
    try:
        return jax.eval_shape(f, *arguments)
    except (AfterfitError, MemoryError):
        raise
    except Exception as error:
        if not in_words:
            raise
        said = (error_in_words(error).splitlines() or [""])[0].rstrip(".:")
        hint = " (write it with jax.numpy, and jnp.where in place of `if`)" if isinstance(error, JAXTypeError) else ""
        raise SpecError(f"{what} cannot be evaluated: {said}{hint}{_place_of(error)}.") from None


def _place_of(error: Exception) -> str:
    """Where in the user's code something was raised, in words; nothing if it was not there."""
    libraries = (sysconfig.get_path("purelib"), str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(libraries)]
    return f", in {Path(frames[-1].filename).name}, line {frames[-1].lineno}: {frames[-1].line}" if frames else ""


def _check_pure(problem: Problem, params: PyTree[Array]) -> None:
    """Refuse a model that is another function when it is called again: the compiled run would keep the first."""

    def trace() -> tuple[str, list[np.ndarray]]:
        program = jax.make_jaxpr(lambda p: problem.model.outputs(p, problem.data.inputs))(params)
        return re.sub(" at 0x[0-9a-f]+", "", str(program)), [np.asarray(const) for const in program.consts]

    (one, held), (other, held_again) = trace(), trace()
    same = one == other and all(map(functools.partial(np.array_equal, equal_nan=True), held, held_again))
    require(
        same,
        "the model computes something else when it is called a second time: it depends on what changes, such as a "
        "counter or random numbers. Make it depend on its parameters and its input alone.",
    )


def _check_start(problem: Problem, params: PyTree[Array], shape: jax.ShapeDtypeStruct) -> None:
    """Refuse a model that has no finite outputs, or no gradient, at its initial parameters."""
    outputs, slope = _slope(problem.model, problem.data.inputs, params, jnp.ones(shape.shape, shape.dtype))
    wrong = ~jnp.isfinite(outputs).reshape(len(outputs), -1).all(axis=1)
    require(
        not bool(wrong.any()),
        f"the model gives outputs that are not finite at its initial parameters, on {int(wrong.sum())} of {len(wrong)} "
        f"training examples (the first is number {int(jnp.argmax(wrong))}): look for a division by 0, a logarithm or "
        "root of what is not positive, or too large a start.",
    )
    require(
        not any(bool(jnp.isnan(leaf).any()) for leaf in jax.tree.leaves(slope)),
        "the model's outputs are finite at its initial parameters, but their derivative is not a number: look for a "
        "root or a norm at 0, or start elsewhere.",
    )


def check_outputs(outputs: Any) -> None:
    """Refuse what a model of the user's may give in place of an array of real numbers."""
    require(
        isinstance(outputs, jax.ShapeDtypeStruct),
        f"the model must give one array of outputs, got {type(outputs).__name__}.",
    )
    require(
        jnp.issubdtype(outputs.dtype, jnp.floating),
        f"the model gives outputs of type {outputs.dtype}, which have no gradient: make them floating numbers.",
    )


def _moves_outputs(problem: Problem, params: PyTree[Array], outputs: jax.ShapeDtypeStruct) -> bool:
    """Whether the outputs on the training data have a derivative that is not exactly 0, somewhere.

    It may well be 0 at the start, as of a ReLU network whose units are all dead. Then random points of all sizes are
    tried: what is flat at small ones (a unit below its threshold) is not at large ones, nor the other way round.
    """
    rng, noise = np.random.default_rng(1), _noise(params)
    for start, random in ((1.0, 0.0), (1.0, 1.0), (0.0, 1e-3), (0.0, 1.0), (0.0, 1e3), (0.0, 1e6)):
        point = jax.tree.map(lambda p, z, a=start, b=random: a * p + b * z, params, noise)
        weights = jnp.asarray(rng.standard_normal(outputs.shape), outputs.dtype)
        _, slope = _slope(problem.model, problem.data.inputs, point, weights)
        if any(bool(jnp.any(leaf != 0)) for leaf in jax.tree.leaves(slope)):
            return True
    return False


@compiled
def _slope(model: Model, inputs: Any, params: PyTree[Array], weights: Array) -> tuple[Array, PyTree[Array]]:
    """All outputs, and the gradient of a weighted sum of them."""
    outputs, pull_back = jax.vjp(lambda p: model.outputs(p, inputs), params)
    return outputs, pull_back(weights)[0]
