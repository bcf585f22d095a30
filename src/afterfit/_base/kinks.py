"""Whether a function has kinks, read off its program (its jaxpr)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal, jaxprs_in_params
from jaxtyping import Array, PyTree

__all__ = ["has_kinks"]

# Operations on real numbers whose slope jumps, and those whose value does.
_BENT = {"abs", "clamp", "cummax", "cummin", "max", "min", "reduce_max", "reduce_min", "sort", "top_k"}
_BROKEN = {"ceil", "floor", "rem", "round", "sign"}
# Answers that are not real numbers, and yet the same but on a set that no flow stays on; pivots change the way to a
# result, not the result.
_HARMLESS = {"eq", "is_finite", "lu", "ne"}
# JAX's own functions, by name: written with kinks that cancel, and never negative though their programs do not tell.
_SMOOTH_CALLS = {"logaddexp", "logaddexp2"}
_SIZES = {"_std", "_var"}
_CALLS = {"checkpoint", "closed_call", "custom_jvp_call", "custom_vjp_call", "jit", "pjit", "remat", "remat2"}
_WHOLE = {"custom_linear_solve"}  # smooth, whatever it is made of
_NEVER_NEGATIVE = {"abs", "cosh", "exp", "exp2", "logistic", "sqrt", "square"}
_KEEP_SIGN = {"add", "broadcast_in_dim", "convert_element_type", "copy", "div", "dot_general", "max", "min", "mul"} | {
    "reduce_max", "reduce_sum", "reshape", "rsqrt", "slice", "squeeze", "stop_gradient", "transpose"
}  # fmt: skip
_TINY = 1e-3  # what keeps a size that is never negative off 0, as in max(‖h‖, 10⁻⁶), is below


class _Known(NamedTuple):
    """What is known of a value: whether it depends on x, its slope may jump, it may jump itself, it can be negative."""

    moves: bool = False
    bends: bool = False
    jumps: bool = False
    negative: bool = True


def has_kinks(f: Callable[[PyTree[Array]], Array], x: PyTree[Array]) -> bool:
    """Whether f may have kinks, as a ReLU has: a value or a slope that jumps where x changes.

    Of what is written with operations that have kinks, True may be a false alarm. Kinks that are made of smooth
    operations, such as √(h²), are not seen, nor those close to a size of 0, where nothing is divided by it.
    """
    closed = jax.make_jaxpr(f)(x)
    results = _results(closed.jaxpr, [_Known(moves=True) for _ in closed.jaxpr.invars])
    return any(result.bends or result.jumps for result in results)


def _results(jaxpr: Jaxpr, given: Sequence[_Known]) -> list[_Known]:
    """What is known of a program's results, from what is known of its inputs."""
    known: dict[Any, _Known] = dict(zip(jaxpr.invars, given, strict=True))

    def of(atom: Any) -> _Known:
        if isinstance(atom, Literal):
            return _Known(negative=not _at_least_0(atom.val))
        return known.get(atom, _Known())  # constants do not move

    for equation in jaxpr.eqns:
        inputs = [of(atom) for atom in equation.invars]
        if not any(each.moves for each in inputs):
            found = [_Known(negative=_negative(equation, inputs)) for _ in equation.outvars]
        else:
            found = _carried_out(equation, inputs)
        known.update(zip(equation.outvars, found, strict=True))
    return [of(atom) for atom in jaxpr.outvars]


def _carried_out(equation: JaxprEqn, inputs: list[_Known]) -> list[_Known]:
    """What is known of the results of an operation on something that moves."""
    kind, inner = equation.primitive.name, list(jaxprs_in_params(equation.params))
    together = functools.reduce(_either, inputs)
    if kind in _CALLS and len(inner) == 1 and _name(inner[0]) not in _SMOOTH_CALLS:
        results = _results(inner[0], inputs)
        return [result._replace(negative=result.negative and _name(inner[0]) not in _SIZES) for result in results]
    if inner and kind not in _CALLS | _WHOLE:  # a loop or a branch: any of its inputs may come to be any other
        found = (_results(each, [together] * len(each.invars)) for each in inner)
        together = functools.reduce(_either, (result for results in found for result in results), together)
    elif kind == "stop_gradient":
        # A gradient does not see the slope of this, and so does not jump where the slope does.
        together = together._replace(bends=False)
    elif not _keeps_off_0(equation, inputs):
        real = any(_is_real(atom) and each.moves for atom, each in zip(equation.invars, inputs, strict=True))
        answers = not all(map(_is_real, equation.outvars)) and kind not in _HARMLESS  # yes or no, or a place
        together = together._replace(
            bends=together.bends or kind in _BENT, jumps=together.jumps or (real and (answers or kind in _BROKEN))
        )
    return [together._replace(negative=_negative(equation, inputs)) for _ in equation.outvars]


def _name(called: Jaxpr) -> str:
    """Of the function that a program was traced from, for people: without it there is a false alarm."""
    return getattr(called.debug_info, "func_name", "")


def _either(a: _Known, b: _Known) -> _Known:
    return _Known(*(one or other for one, other in zip(a, b, strict=True)))


def _negative(equation: JaxprEqn, inputs: list[_Known]) -> bool:
    """Whether the results of an operation can be negative, as far as is known."""
    kind = equation.primitive.name
    squared = kind == "mul" and equation.invars[0] is equation.invars[1]
    even = kind == "integer_pow" and equation.params["y"] % 2 == 0
    if kind in _NEVER_NEGATIVE or squared or even:
        return False
    return kind not in _KEEP_SIGN or any(each.negative for each in inputs)


def _keeps_off_0(equation: JaxprEqn, inputs: list[_Known]) -> bool:
    """Whether it only sees to it that a size is not 0, or is a size already: |a|, max(a, ε), a > ε for an a ≥ 0."""
    kind = equation.primitive.name
    if kind in ("abs", "sign"):
        return not inputs[0].negative
    if kind not in ("ge", "gt", "le", "lt", "max"):
        return False
    sizes = [not each.negative for each in inputs]
    tiny = [isinstance(atom, Literal) and atom.val <= _TINY for atom in equation.invars]
    return (sizes[0] and tiny[1]) or (sizes[1] and tiny[0])


def _is_real(atom: Any) -> bool:
    return jnp.issubdtype(getattr(atom.aval, "dtype", bool), jnp.inexact)


def _at_least_0(value: Any) -> bool:
    return jnp.ndim(value) == 0 and jnp.isrealobj(value) and bool(value >= 0)
