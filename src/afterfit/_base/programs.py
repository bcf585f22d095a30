"""What a function computes, operation by operation, as JAX traces it (its jaxpr)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun
from jaxtyping import Array

__all__ = ["Slot", "Step", "written_out"]


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
