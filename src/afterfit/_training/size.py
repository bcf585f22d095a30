"""How large an experiment is, told from its specification: what cannot be is refused before anything is drawn.

All numbers are lower bounds, so that nothing possible is refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import jaxprs_in_params
from jaxtyping import Array, PyTree

from afterfit._base.errors import SpecError
from afterfit._base.machine import check_memory, in_words
from afterfit._training.experiment import Experiment, flatten

__all__ = ["STEP", "Size", "check_program", "check_size", "likely_seconds", "size_of", "steps_of"]

_NUMBER = 8  # bytes: data and initial parameters are drawn in double precision
_OBSERVATION = 1000  # bytes of an observation: some twelve arrays, each an object
STEP = 1e-7  # seconds of a step, less than the smallest problem takes (a test measures it)
_LOOK = 1e-5  # seconds of the quickest observation
_LONGEST = 365.25 * 24 * 3600  # seconds: nobody waits for more than a year
_OPERATION = 0.02  # seconds to compile an operation of a long program; with its length it gets longer, not shorter
_COMPILING = 0.5  # seconds, of the smallest run
_ALWAYS = 1e-6  # seconds of a step of the smallest problem
_SPEED = 2e10  # operations a second
_FLOW_STEPS = 300
_MANY = 1000  # a setting from here on may be why an experiment is too large
_MUCH = 1e8  # examples x parameters from which on a step may need more memory than its data and parameters
_OPERATIONS = (
    10_000  # of a program that may still be compiled: of 1000 layers, diagonal nets were not after five minutes
)


@dataclasses.dataclass(frozen=True)
class Size:
    """How many numbers the data and the parameters are, and how many seconds training takes: each at least."""

    data: int
    parameters: int
    seconds: float


def size_of(experiment: Experiment) -> Size:
    """The size of an experiment, without drawing anything; refuses a model that is too long to be written out."""
    task, model, steps = experiment.task, experiment.model, steps_of(experiment)
    _check_length(experiment, model.operations)
    arrays = jax.tree.leaves(model.parameters(task.signature))
    _check_length(experiment, len(arrays))
    looks = min(experiment.observations, steps) if steps else experiment.observations
    return Size(
        data=task.numbers,
        parameters=sum(math.prod(array.shape) for array in arrays),
        seconds=steps * STEP + looks * _LOOK,
    )


def likely_seconds(experiment: Experiment) -> float:
    """How long a run is likely to take, compiling included: not a bound, and too little rather than too much.

    A step goes through the model forwards and backwards. A flow makes some hundreds of steps, each of which may
    solve equations in as many unknowns as there are outputs.
    """
    size, task = size_of(experiment), experiment.task
    each = math.prod(task.signature.inputs) + math.prod(task.signature.outputs)
    examples = size.data / max(1, each)
    pass_through = _ALWAYS + 6 * examples * size.parameters / _SPEED
    steps = steps_of(experiment)
    if steps:
        return _COMPILING + steps * pass_through + size.seconds
    outputs = min(examples * math.prod(task.signature.outputs), 3000)
    return _COMPILING + _FLOW_STEPS * (pass_through + outputs**3 / _SPEED)


def check_size(experiment: Experiment) -> Size:
    """Refuse an experiment that this machine has no memory for, or nobody the time; its size, if it is possible."""
    size, signature = size_of(experiment), experiment.task.signature
    each = " (one a class)" if experiment.task.metric == "accuracy" else ""
    shapes = f"inputs are of shape {signature.inputs}, outputs of {signature.outputs}{each}"
    check_memory(
        _NUMBER * size.data,
        f"the data are {size.data:.3g} numbers",
        lambda: _smaller(experiment, "task") or f"choose fewer examples or smaller ones: {shapes}",
    )
    check_memory(
        _NUMBER * size.parameters * (2 if experiment.task.precision == "double" else 1),
        f"the model has {size.parameters:.3g} parameters, and a gradient of that size",
        lambda: _smaller(experiment, "model", "task") or f"choose a smaller model or smaller examples: {shapes}",
    )
    check_memory(
        _OBSERVATION * experiment.observations,
        f"{experiment.observations:.3g} observations are asked for",
        lambda: "lower observations",
    )
    checkpoints = experiment.checkpoints if isinstance(experiment.checkpoints, int) else len(experiment.checkpoints)
    check_memory(
        _NUMBER * size.parameters * checkpoints // (1 if experiment.task.precision == "double" else 2),
        f"{checkpoints:.3g} checkpoints of {size.parameters:.3g} parameters are asked for",
        lambda: "lower checkpoints",
    )
    if size.seconds > _LONGEST:
        steps, least = steps_of(experiment), in_words(size.seconds, "seconds")
        raise SpecError(f"{steps:.3g} steps take {least} at least: lower dynamics.steps.")
    return size


def check_program(gradient: Callable[[PyTree[Array]], Any], params: PyTree[Array], examples: int) -> None:
    """Refuse a gradient of the loss for which there is no memory, whatever the compiler does.

    It may leave out what is between two operations on entries, but factors and results of a product of matrices are
    written down. Few examples or parameters need not be looked at.
    """
    if examples * sum(leaf.size for leaf in jax.tree.leaves(params)) < _MUCH:
        return
    largest = max(_factors(jax.make_jaxpr(gradient)(params).jaxpr), default=0)
    check_memory(
        largest,
        "of a product of matrices in one step, the largest needs memory of its own",
        lambda: "choose fewer examples, or a model with fewer units",
    )


def _factors(jaxpr: Any) -> Iterator[int]:
    """Bytes of each factor and result of the products in a program, those of the programs within it included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            first = equation.invars[0].aval.shape
            if math.prod(first[axis] for axis in contracted) > 1:  # else it is a product of entries
                for variable in (*equation.invars, *equation.outvars):
                    yield math.prod(variable.aval.shape) * variable.aval.dtype.itemsize
        for inner in jaxprs_in_params(equation.params):
            yield from _factors(inner)


def _check_length(experiment: Experiment, operations: int) -> None:
    """Refuse a model whose program would be too long."""
    if operations > _OPERATIONS:
        least = in_words(operations * _OPERATION, "seconds")
        raise SpecError(
            f"the model is a program of {operations:.3g} operations, which takes {least} at least to compile: "
            f"{_smaller(experiment, 'model') or 'choose one with fewer parts'}."
        )


def steps_of(experiment: Experiment) -> int:
    """How many steps a run makes; 0 of a flow, which chooses for itself."""
    return int(experiment.dynamics.end) if experiment.dynamics.in_steps else 0


def _smaller(experiment: Experiment, *nouns: str) -> str:
    """What to make smaller: the two largest whole numbers among the settings of some nouns, or nothing."""
    sizes: dict[str, int] = {}
    for noun in nouns:
        for name, value in flatten({noun: getattr(experiment, noun).to_dict()}).items():
            numbers = [item for item in (value if isinstance(value, list) else [value]) if type(item) is int]
            if numbers and max(numbers) >= _MANY and not name.startswith("task.shapes."):
                sizes[name] = max(numbers)
    largest = sorted(sizes, key=lambda name: -sizes[name])[:2]
    return "lower " + " or ".join(f"{name} (now {sizes[name]:.3g})" for name in largest) if largest else ""
