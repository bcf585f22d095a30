"""What a function computes, operation by operation, as JAX traces it (its jaxpr)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun, jaxprs_in_params
from jaxtyping import Array, PyTree

__all__ = ["Slot", "Step", "has_kinks", "written_out"]

# Operations on real numbers whose slope jumps, or that are constant between jumps.
_KINKED = {"abs", "argmax", "argmin", "ceil", "clamp", "cummax", "cummin", "floor", "max", "min", "reduce_max"} | {
    "reduce_min", "round", "select_n", "sign", "sort", "top_k"
}  # fmt: skip


class Slot(NamedTuple):
    """Where a value is kept while a program runs; the first are the program's inputs."""

    number: int


class Step(NamedTuple):
    """An operation of a program: what it is of, slots or values, and where its results go."""

    equation: JaxprEqn
    inputs: list[Any]
    outputs: list[Slot]

    def operand(self, place: int) -> Any:
        """The shape and type of an input."""
        return self.equation.invars[place].aval

    @property
    def result(self) -> Any:
        """The shape and type of the first output."""
        return self.equation.outvars[0].aval

    def places_of(self, slots: set[Slot]) -> list[int]:
        """Which of its inputs are one of these."""
        return [place for place, each in enumerate(self.inputs) if isinstance(each, Slot) and each in slots]

    def carry_out(self, given: list[Any]) -> list[Array]:
        """The results, as a program of this one operation gives them."""
        equation = self.equation
        variables = {atom: value for atom, value in zip(equation.invars, given, strict=True) if isinstance(atom, Var)}
        alone = Jaxpr([], list(variables), equation.outvars, [equation], equation.effects)
        return jaxpr_as_fun(ClosedJaxpr(alone, []))(*variables.values())


def written_out(closed: ClosedJaxpr) -> tuple[list[Step], list[Any]]:
    """The steps of a program, those of compiled functions that it calls among them, and where its results are."""
    steps: list[Step] = []
    numbers = itertools.count()
    inputs = [Slot(next(numbers)) for _ in closed.jaxpr.invars]
    return steps, _write_out(closed, inputs, steps, numbers)


def _write_out(closed: ClosedJaxpr, inputs: list[Any], steps: list[Step], numbers: Iterator[int]) -> list[Any]:
    where: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    where.update(zip(closed.jaxpr.invars, inputs, strict=True))

    def place(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else where[atom]

    for equation in closed.jaxpr.eqns:
        given = [place(atom) for atom in equation.invars]
        if equation.primitive.name in ("jit", "pjit"):
            results = _write_out(equation.params["jaxpr"], given, steps, numbers)
        else:
            results = [Slot(next(numbers)) for _ in equation.outvars]
            steps.append(Step(equation, given, results))
        where.update(zip(equation.outvars, results, strict=True))
    return [place(atom) for atom in closed.jaxpr.outvars]


def has_kinks(f: Callable[[PyTree[Array]], Array], x: PyTree[Array]) -> bool:
    """Whether something that depends on x goes through an operation with kinks, as through a ReLU.

    False is certain but for operations that JAX does not know; True may be a false alarm (a smooth function may be
    written with operations that have kinks).
    """
    steps, _ = written_out(jax.make_jaxpr(f)(x))
    moving = {Slot(number) for number in range(len(jax.tree.leaves(x)))}
    for step in steps:
        depends = step.places_of(moving)
        if depends:
            moving.update(step.outputs)
            chosen_by_others = step.equation.primitive.name == "select_n" and 0 not in depends
            if _kinked(step.equation) and not chosen_by_others:
                return True
    return False


def _kinked(equation: JaxprEqn) -> bool:
    real = any(jnp.issubdtype(getattr(out.aval, "dtype", bool), jnp.floating) for out in equation.outvars)
    inner = (each for jaxpr in jaxprs_in_params(equation.params) for each in jaxpr.eqns)
    return (real and equation.primitive.name in _KINKED) or any(map(_kinked, inner))
