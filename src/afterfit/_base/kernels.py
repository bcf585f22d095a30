"""JJᵀ for a function of one example at a time, from what every example makes of the parameters.

A row of J is the gradient of one example, and most need not be written out. Where an array W of parameters is used
once, in a product Wk, an example's gradient is the outer product of k and of δ, the derivative with respect to that
product, and ⟨∇ᵢ, ∇ⱼ⟩ = ⟨δᵢ, δⱼ⟩⟨kᵢ, kⱼ⟩. Where an example reads a row of a table, k is a unit vector: ⟨kᵢ, kⱼ⟩ says
whether two have read the same row. What is used how is read off the function's program (its jaxpr): "structured
derivatives" in Novak et al. 2022, Fast finite width neural tangent kernel. Arrays that are used in any other way are
differentiated in full.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit._base.programs import Slot, Step, written_out

__all__ = ["gram_of_examples"]

_TOGETHER = 2**25  # numbers of derivatives that are held at once: a quarter of a gigabyte
_MOST_ROWS = 8  # of a table that an example may read, or vectors that it may multiply, before it is taken in full
_NO_ROW = -1  # the key of what is read outside of a table, and filled in


def gram_of_examples(
    f: Callable[[PyTree[Array], Any], Array], params: PyTree[Array], examples: PyTree[Array], *, mean: bool = False
) -> Float[Array, "m m"]:
    """JJᵀ of all outputs of all examples: f(params, x) of one example x, and `examples` with one in every row.

    Of n examples, instead, the `mean` over the c outputs of the n x n matrices that each output has with itself. The
    memory it takes is bounded by that of its result and of some 2²⁵ numbers.
    """
    program = _Program(f, params, jax.tree.map(lambda leaf: leaf[0], examples))
    n = jax.tree.leaves(examples)[0].shape[0]
    blocks = min(n, -(-n * program.numbers // _TOGETHER))
    if blocks <= 1:
        features = jax.vmap(program.features)(examples)
        return _inner_products(features, features, mean)
    size = -(-n // blocks)
    rows = jnp.minimum(jnp.arange(blocks * size), n - 1).reshape(blocks, size)  # the last one again, to fill up

    def features_of(rows: Array) -> list[_Feature]:
        return jax.vmap(program.features)(jax.tree.map(lambda leaf: leaf[rows], examples))

    def across(some: Array) -> Array:
        here = features_of(some)
        return jax.lax.map(lambda others: _inner_products(here, features_of(others), mean), rows)

    tiles = jax.lax.map(across, rows)  # of every block with every other
    each = 1 if mean else program.outputs
    m = n * each
    return jnp.moveaxis(tiles, 1, 2).reshape(blocks * size * each, -1)[:m, :m]


class _Feature(NamedTuple):
    """Part of the gradients of c outputs: Σ over r of slopes ⊗ keys; no keys for an array differentiated in full."""

    slopes: Float[Array, "*n c r k"]
    keys: Array | None  # r vectors, or r whole numbers that stand for unit vectors


def _inner_products(some: list[_Feature], others: list[_Feature], mean: bool) -> Float[Array, "m m"]:
    """⟨∇ᵢ, ∇ⱼ⟩ of every output of some examples with every output of others, or their mean over the same outputs."""
    (n, c), m = some[0].slopes.shape[:2], others[0].slopes.shape[0]
    total = jnp.zeros((n, m) if mean else (n, c, m, c), some[0].slopes.dtype)
    for left, right in zip(some, others, strict=True):
        for r, s in itertools.product(range(left.slopes.shape[2]), repeat=2):
            way = "ick,jck->ij" if mean else "ick,jdk->icjd"
            slopes = jnp.einsum(way, left.slopes[:, :, r], right.slopes[:, :, s])
            if left.keys is not None and right.keys is not None:
                keys = _key_products(left.keys[:, r], right.keys[:, s])
                slopes = slopes * (keys if mean else keys[:, None, :, None])
            total = total + slopes
    return total / c if mean else total.reshape(n * c, m * c)


def _key_products(some: Array, others: Array) -> Array:
    return (some[:, None] == others) & (others != _NO_ROW) if some.ndim == 1 else some @ others.T


class _Program:
    """A function of one example, taken apart into steps, and which arrays of parameters they use how."""

    def __init__(self, f: Callable[[PyTree[Array], Any], Array], params: PyTree[Array], example: PyTree[Array]):
        self.leaves = jax.tree.leaves(params)
        closed, shape = jax.make_jaxpr(f, return_shape=True)(params, example)
        self.outputs = math.prod(shape.shape)
        self.steps, (self.result,) = written_out(closed)
        uses = [self._uses(Slot(number)) for number in range(len(self.leaves))]
        self.uses = [found if _pays(found, leaf.size) else [] for found, leaf in zip(uses, self.leaves, strict=True)]

    def _uses(self, leaf: Slot) -> list[_Use | None]:
        """Every use of an array of parameters, or of its transpose; None for one that is not known to be linear."""
        axes = {leaf: tuple(range(self.leaves[leaf.number].ndim))}  # in which order it is kept where
        found: list[_Use | None] = []
        for number, step in enumerate(self.steps):
            places = step.places_of(set(axes))
            if places and step.equation.primitive.name == "transpose":
                before = axes[step.inputs[0]]
                axes[step.outputs[0]] = tuple(before[axis] for axis in step.equation.params["permutation"])
            elif len(places) == 1:
                found.append(_use_in(number, step, places[0], axes[step.inputs[places[0]]]))
            elif places:
                found.append(None)
        return [*found, None] if isinstance(self.result, Slot) and self.result in axes else found

    @property
    def numbers(self) -> int:
        """How many the features of one example are."""
        return self.outputs * sum(
            sum(use.rows * use.numbers for use in uses if use) or leaf.size
            for uses, leaf in zip(self.uses, self.leaves, strict=True)
        )

    def features(self, example: PyTree[Array]) -> list[_Feature]:
        """What the gradients of this example's outputs are made of."""
        in_full = [leaf for uses, leaf in zip(self.uses, self.leaves, strict=True) if not uses]
        known = {use.step: use for uses in self.uses for use in uses if use}

        def outputs(added: dict[int, Array], in_full: list[Array]) -> tuple[Array, dict[int, Array]]:
            rest = iter(in_full)
            leaves = [leaf if uses else next(rest) for uses, leaf in zip(self.uses, self.leaves, strict=True)]
            inputs = [*leaves, *jax.tree.leaves(example)]
            values: dict[Any, Array] = {Slot(number): value for number, value in enumerate(inputs)}
            keys = {}
            for number, step in enumerate(self.steps):
                given = [values[each] if isinstance(each, Slot) else each for each in step.inputs]
                found = step.carry_out(given)
                if number in known:
                    keys[number] = known[number].keys(given)
                    found = [found[0] + added[number]]
                values.update(zip(step.outputs, found, strict=True))
            result = values[self.result] if isinstance(self.result, Slot) else self.result
            return jnp.ravel(result), keys

        nothing = {number: jnp.zeros(use.shape, use.dtype) for number, use in known.items()}
        value, pull_back, keys = jax.vjp(outputs, nothing, in_full, has_aux=True)
        of_steps, of_leaves = jax.vmap(pull_back)(jnp.eye(self.outputs, dtype=value.dtype))
        features = [_Feature(slopes.reshape(self.outputs, 1, -1), None) for slopes in of_leaves]
        for uses in filter(None, self.uses):
            slopes = [use.slopes(of_steps[use.step]) for use in uses if use]
            features.append(
                _Feature(jnp.concatenate(slopes, axis=1), jnp.concatenate([keys[use.step] for use in uses if use]))
            )
        return features


# --------------------------------------------------------------------------------------------------------- uses


@dataclasses.dataclass(frozen=True)
class _Use:
    """A step that is linear in an array of parameters: its result is made of r rows, each belonging to a key.

    `slopes` puts derivatives with respect to the result into those rows, (c, *shape) to (c, r, k); `keys` finds the
    keys from what the step is given. `table` is how rows are read, the order of the array's axes and those of which one
    place is read; None for a product. Rows of several steps belong together where that is the same.
    """

    step: int
    shape: tuple[int, ...]
    dtype: Any
    rows: int
    numbers: int  # in one row and its key
    slopes: Callable[[Array], Float[Array, "c r k"]]
    keys: Callable[[list[Array]], Array]
    table: tuple[tuple[int, ...], tuple[int, ...]] | None


def _pays(uses: list[_Use | None], size: int) -> bool:
    """Whether an array of so many parameters can be left undifferentiated, and whether that saves work."""
    known = [use for use in uses if use is not None]
    tables = {use.table for use in known}
    alone = len(uses) == 1 or (len(tables) == 1 and None not in tables)
    rows = sum(use.rows for use in known)
    return (
        0 < len(uses) == len(known)
        and alone
        and rows <= _MOST_ROWS
        and rows**2 * max(use.numbers for use in known) < size
    )


def _use_in(number: int, step: Step, position: int, order: tuple[int, ...]) -> _Use | None:
    """How a step uses an array of parameters, its input at that position, with its axes in that order."""
    kind = step.equation.primitive.name
    if kind == "dot_general":
        return _product(number, step, position)
    if kind in ("dynamic_slice", "gather") and position == 0:
        return (_slice if kind == "dynamic_slice" else _gather)(number, step, order)
    return None


def _product(number: int, step: Step, position: int) -> _Use | None:
    """W·k, summed over some axes of both."""
    (left, right), (batch, _) = step.equation.params["dimension_numbers"]
    if batch or jnp.issubdtype(step.result.dtype, jnp.complexfloating):  # the gradient of a real W is a real part
        return None
    summed = (right, left)[position]  # axes of the other operand
    W, k = step.operand(position), step.operand(1 - position)
    out = step.result
    width = math.prod(k.shape[axis] for axis in summed)
    rows = k.size // width

    def slopes(derivatives: Array) -> Float[Array, "c r k"]:
        # A result has the axes that are left of the first operand, then those of the second.
        if position == 1:
            return derivatives.reshape(len(derivatives), rows, -1)
        return jnp.swapaxes(derivatives.reshape(len(derivatives), -1, rows), 1, 2)

    def keys(given: list[Array]) -> Float[Array, "r k"]:
        kept = [axis for axis in range(k.ndim) if axis not in summed]
        return jnp.transpose(given[1 - position], (*kept, *summed)).reshape(rows, width)

    return _Use(number, out.shape, out.dtype, rows, W.size // width + width, slopes, keys, None)


def _slice(number: int, step: Step, order: tuple[int, ...]) -> _Use | None:
    """table[i], or table[i, :, j]: whole in some axes, one place in others."""
    table, out = step.operand(0), step.result
    axes = _single(table.shape, step.equation.params["slice_sizes"])
    if axes is None:
        return None

    def keys(given: list[Array]) -> Array:
        return _place(table.shape, axes, [given[1 + axis] for axis in axes], to_border=True)[None]

    def slopes(derivatives: Array) -> Float[Array, "c r k"]:
        return derivatives.reshape(len(derivatives), 1, -1)

    return _Use(number, out.shape, out.dtype, 1, out.size + 1, slopes, keys, (order, axes))


def _gather(number: int, step: Step, order: tuple[int, ...]) -> _Use | None:
    """table[rows], for several of them."""
    table, out = step.operand(0), step.result
    settings = step.equation.params
    how = settings["dimension_numbers"]
    axes = _single(table.shape, settings["slice_sizes"])
    if axes is None or how.operand_batching_dims or set(axes) != set(how.start_index_map):
        return None
    to_border = settings["mode"] == jax.lax.GatherScatterMode.CLIP  # else what is outside has no gradient
    width = math.prod(out.shape[axis] for axis in how.offset_dims)

    def keys(given: list[Array]) -> Array:
        places = [given[1][..., how.start_index_map.index(axis)] for axis in axes]
        return jnp.ravel(_place(table.shape, axes, places, to_border))

    def slopes(derivatives: Array) -> Float[Array, "c r k"]:
        inner = [1 + axis for axis in how.offset_dims]
        outer = [axis for axis in range(1, derivatives.ndim) if axis not in inner]
        return jnp.transpose(derivatives, (0, *outer, *inner)).reshape(len(derivatives), -1, width)

    return _Use(number, out.shape, out.dtype, out.size // width, width + 1, slopes, keys, (order, axes))


def _single(shape: tuple[int, ...], sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The axes of which one place is read, the others being read as a whole; None if there is another kind."""
    axes = tuple(axis for axis, (full, read) in enumerate(zip(shape, sizes, strict=True)) if read != full)
    return axes if axes and all(sizes[axis] == 1 for axis in axes) else None


def _place(shape: tuple[int, ...], axes: tuple[int, ...], places: list[Array], to_border: bool) -> Array:
    """Places along several axes as one number; those outside are taken to the border, or to no row."""
    sizes = tuple(shape[axis] for axis in axes)
    places = [place.astype(int) for place in places]  # unsigned ones know no -1
    one = jnp.ravel_multi_index(tuple(places), sizes, mode="clip")
    if to_border:
        return one
    inside = [(place >= 0) & (place < size) for place, size in zip(places, sizes, strict=True)]
    return jnp.where(functools.reduce(jnp.logical_and, inside), one, _NO_ROW)
