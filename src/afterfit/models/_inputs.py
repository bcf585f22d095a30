"""What a model is shown: the few kinds of input, and how a linear map acts on each.

Most inputs are plain arrays with one row per example. Two kinds have structure worth keeping: the observed
entries of a matrix (`Entries`) and concatenated one-hot vectors (`OneHot`), whose product with a weight
matrix is a table lookup rather than a matrix product. A new kind is a subclass of `Inputs`; whoever is given inputs
asks `as_inputs` of them, and need not know which kinds there are.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import numbers
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from afterfit._base.definitions import parts
from afterfit._base.errors import SpecError, require

__all__ = [
    "Entries",
    "File",
    "Inputs",
    "Layer",
    "OnDisk",
    "OneHot",
    "Rows",
    "Signature",
    "as_classes",
    "as_inputs",
    "as_mapped",
    "as_numbers",
    "preactivations",
]

Layer = Mapping[str, Array]  # its "weight", of shape (outputs, inputs), and its "bias" if it has one

_BLOCK = 500_000  # numbers in a block of looked-up rows: 2 MB in single precision, about the size of a cache


@dataclasses.dataclass(frozen=True)
class Signature:
    """What a model must know of a task to have parameters: the shapes of one input and of one output.

    `inputs` is `(d,)` for vectors and `(rows, columns)` for matrices; `outputs` is `()` for one number and
    `(c,)` for c numbers; `tokens` is how many symbols there are when inputs are made of symbols.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    tokens: int | None = None


class Inputs(eqx.Module):
    """The inputs of n examples. `n` is asked for where an array cannot tell it while JAX traces."""

    on_disk: ClassVar[bool] = False  # whether they are in a file and never had all at once
    selects: ClassVar[bool] = False  # whether outputs are the weights themselves where observed, and 0 elsewhere

    @abc.abstractmethod
    def measure(self, weights: Array) -> Array:
        """⟨weights, input⟩ for every input: the outputs of a model that is linear in its input."""

    @abc.abstractmethod
    def each(self, f: Callable[[Any], Array]) -> Array:
        """f of every input."""

    @abc.abstractmethod
    def design(self, n: int) -> Float[Array, "n ..."]:
        """X, the inputs written out: what `measure` multiplies the weights with, one array an example."""

    @abc.abstractmethod
    def take(self, examples: Int[Array, " b"], targets: Array, n: int) -> tuple[Any, Array]:
        """Inputs and targets of some examples."""

    @abc.abstractmethod
    def checked(self, signature: Signature, n: int, name: str, count: str) -> Any:
        """The inputs as arrays of numbers, if they are n of that signature; `name` and `count` are for refusals."""

    def through(self, first: Layer, hidden: Callable[[Array], Array], last: Layer) -> Array:
        """last(hidden(first(x))) for every input x: a network with such a first and last layer."""
        raise SpecError(f"a network takes vectors, not {type(self).__name__}: choose a model of a matrix.")

    def dense(self) -> Float[Array, "n ..."]:
        """The inputs as one array of numbers, one row an example, for what takes no other."""
        raise SpecError(f"a network takes vectors, not {type(self).__name__}: choose a model of a matrix.")

    def symbols(self) -> Int[Array, "n k"]:
        """The tokens that the inputs are made of."""
        raise SpecError(f"{type(self).__name__} are not made of tokens: choose a task such as ModularArithmetic.")

    def layout(self, n: int) -> tuple[int, ...]:
        """The shape of the outputs that are one number an input."""
        return (n,)

    def observed(self, values: Array, n: int) -> Array:
        """Outputs, or targets, with one row an example."""
        return values

    def evaluated(self, f: Callable[[Any], Array]) -> Array:
        """f of these inputs, which may be had in parts: f acts on each example by itself where they are on disk."""
        return f(self)

    def first(self, n: int) -> Any:
        """The first example, as inputs of one."""
        return jax.tree.map(lambda leaf: leaf[0], self.apart(n))

    @abc.abstractmethod
    def apart(self, n: int) -> Any:
        """Every example as inputs of its own: a row of this is inputs with one example."""

    def kernel(self, model: Any, params: PyTree[Array], n: int) -> Array | None:
        """The tangent kernel JJᵀ in closed form; None where a model knows no shortcut on these inputs."""
        return None


class Rows(Inputs):
    """A plain array, one row an example."""

    rows: Any

    def measure(self, weights: Array) -> Array:
        if weights.ndim == 1:
            return self.rows @ weights
        return jnp.tensordot(self.rows, weights, axes=weights.ndim)

    def each(self, f: Callable[[Any], Array]) -> Array:
        return jax.vmap(f)(self.rows)

    def design(self, n: int) -> Float[Array, "n ..."]:
        return self.rows

    def take(self, examples: Int[Array, " b"], targets: Array, n: int) -> tuple[Array, Array]:
        return self.rows[examples], targets[examples]

    def apart(self, n: int) -> Array:
        return self.rows[:, None]

    def checked(self, signature: Signature, n: int, name: str, count: str) -> np.ndarray:
        rows = as_numbers(self.rows, f"the task's {name}")
        if signature.tokens is not None:
            rows = as_classes(rows, f"the task's {name}", signature.tokens)
        _check_shape(rows.shape, signature, n, name, count)
        return rows

    def through(self, first: Layer, hidden: Callable[[Array], Array], last: Layer) -> Array:
        return preactivations(hidden(preactivations(self.rows, first)), last)

    def dense(self) -> Float[Array, "n ..."]:
        return self.rows

    def symbols(self) -> Int[Array, "n k"]:
        return self.rows

    def kernel(self, model: Any, params: PyTree[Array], n: int) -> Array | None:
        weights = model.weight_kernel(params) if self.rows.ndim == 2 else None
        return None if weights is None else (self.rows * weights) @ self.rows.T


class Entries(Inputs):
    """Observed entries of a matrix: 1 where observed, 0 elsewhere.

    The outputs on these inputs are the whole matrix with the unobserved entries set to zero: a product with a
    mask costs less than gathering and scattering the entries, at every size the papers use.
    """

    selects = True

    mask: Float[Any, "rows columns"]

    def places(self, n: int) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
        """Rows and columns of the observed entries."""
        rows, columns = jnp.nonzero(self.mask, size=n)
        return rows, columns

    def measure(self, weights: Array) -> Array:
        return self.mask * weights

    def each(self, f: Callable[[Any], Array]) -> Array:
        # An input is x = (i, j): the function is evaluated on the whole grid.
        rows, columns = (jnp.arange(m) for m in self.mask.shape)
        return self.mask * jax.vmap(lambda i: jax.vmap(lambda j: f((i, j)))(columns))(rows)

    def design(self, n: int) -> Float[Array, "n rows columns"]:
        chosen = jnp.nonzero(self.mask.ravel(), size=n)[0]
        return jnp.eye(self.mask.size, dtype=self.mask.dtype)[chosen].reshape(n, *self.mask.shape)

    def take(self, examples: Int[Array, " b"], targets: Array, n: int) -> tuple[Entries, Array]:
        rows, columns = self.places(n)
        mask = jnp.zeros_like(self.mask).at[rows[examples], columns[examples]].add(1)
        return Entries(mask), mask * targets

    def checked(self, signature: Signature, n: int, name: str, count: str) -> Entries:
        mask = as_numbers(self.mask, f"the task's {name}")
        seen = max(int(np.count_nonzero(mask)), 1)
        require(
            mask.shape == tuple(signature.inputs) and seen == n,
            f"the task's {name} are {seen} entries of a matrix {mask.shape}, but {count}={n} of "
            f"{signature.inputs} were promised.",
        )
        return Entries(mask)

    def layout(self, n: int) -> tuple[int, ...]:
        return np.shape(self.mask)

    def apart(self, n: int) -> _Cells:
        return _Cells(jnp.stack(self.places(n), axis=1)[:, None])

    def observed(self, values: Array, n: int) -> Array:
        return values[self.places(n)]

    def kernel(self, model: Any, params: PyTree[Array], n: int) -> Array | None:
        return model.entries_kernel(params, *self.places(n))


class _Cells(Rows):
    """Entries of a matrix one by one, each row a place (i, j): how `Entries` are taken apart."""

    def measure(self, weights: Array) -> Array:
        return weights[self.rows[:, 0], self.rows[:, 1]]

    def each(self, f: Callable[[Any], Array]) -> Array:
        return jax.vmap(lambda place: f((place[0], place[1])))(self.rows)


class OneHot(Inputs):
    """Each example is k tokens in range(size), standing for the concatenation of their one-hot vectors."""

    tokens: Int[Any, "n k"]
    size: int = eqx.field(static=True)

    def measure(self, weights: Array) -> Array:
        return sum((weights[row] for row in self.rows()), start=jnp.zeros((), weights.dtype))

    def each(self, f: Callable[[Any], Array]) -> Array:
        return jax.vmap(f)(self.dense())

    def design(self, n: int) -> Float[Array, "n k*size"]:
        return self.dense()

    def take(self, examples: Int[Array, " b"], targets: Array, n: int) -> tuple[OneHot, Array]:
        return OneHot(self.tokens[examples], self.size), targets[examples]

    def apart(self, n: int) -> OneHot:
        return OneHot(self.tokens[:, None], self.size)

    def checked(self, signature: Signature, n: int, name: str, count: str) -> OneHot:
        tokens = as_classes(as_numbers(self.tokens, f"the task's {name}"), f"the task's {name}", self.size)
        _check_shape((len(tokens), tokens.shape[1] * self.size), signature, n, name, count)
        return OneHot(tokens, self.size)

    def through(self, first: Layer, hidden: Callable[[Array], Array], last: Layer) -> Array:
        # Columns, W₂Hᵀ and not HW₂ᵀ: the gradient of W₂ is then a product of arrays as they lie in memory.
        outputs = self._through_lookup(lambda h: last["weight"] @ hidden(h).T, first["weight"], first.get("bias"))
        return outputs + last["bias"] if "bias" in last else outputs

    def _through_lookup(
        self, f: Callable[[Float[Array, "m h"]], Array], weight: Float[Array, "h d"], bias: Float[Array, " h"] | None
    ) -> Array:
        """f(W x + b) for every input, f acting on each example by itself and giving one column an example.

        Looking rows up is quick; writing their n x h sums to memory, and reading them back for the gradient, is not.
        So the sums are never kept: a block of examples that stays in the cache goes all the way through f, and is
        looked up once more on the way back. Only products of matrices inside f are kept, being dearer than memory.
        """
        n, k = self.tokens.shape
        if n <= weight.shape[1]:  # fewer examples than rows: nothing to gain, and what is looked up is seen to be W's
            looked_up = self.measure(weight.T)
            return f(looked_up if bias is None else looked_up + bias).T
        # The bias is shared out over the k looked-up rows: adding it to the small table costs less than adding it to
        # all examples. One table a token, since the gradient of every block is added to all that it looks into.
        table = weight.T if bias is None else weight.T + bias / k
        tables = jnp.split(table, k)

        def block(tokens: Int[Array, "m k"]) -> Array:
            return f(functools.reduce(jnp.add, (table[tokens[:, i]] for i, table in enumerate(tables))))

        blocks = max(1, round(n * weight.shape[0] / _BLOCK))
        m = -(-n // blocks)
        padded = jnp.pad(self.tokens, ((0, blocks * m - n), (0, 0))).reshape(blocks, m, k)
        again = jax.checkpoint(block, prevent_cse=False, policy=jax.checkpoint_policies.dots_saveable)
        outputs = jnp.moveaxis(jax.lax.map(again, padded), -1, 1)
        return outputs.reshape(blocks * m, *outputs.shape[2:])[:n]

    def symbols(self) -> Int[Array, "n k"]:
        return self.tokens

    def dense(self) -> Float[Array, "n k*size"]:
        """The one-hot vectors written out, in the precision of what they meet (as Python's own 1.0 and 0.0 are)."""
        marked = jnp.where(self.tokens[..., None] == jnp.arange(self.size), 1.0, 0.0)
        return marked.reshape(self.tokens.shape[0], -1)

    def rows(self) -> list[Int[Array, " n"]]:
        """Which rows of a (k·size)-row table the examples add up."""
        return [self.tokens[:, k] + k * self.size for k in range(self.tokens.shape[1])]


class File:
    """An array in a file, mapped into memory. JAX knows it by its identity, and never has all of it."""

    def __init__(self, rows: np.memmap, dtype: Any):
        self.rows, self.dtype = rows, np.dtype(dtype)
        # What is short is sent as it is; double precision in halves, since a callback runs where JAX knows no double.
        self.sent = rows.dtype.newbyteorder("=") if rows.dtype.itemsize <= 4 else self.dtype
        self.halved = self.sent.itemsize > 4

    def read(self, examples: Any) -> np.ndarray:
        """Some examples, as they are sent."""
        rows = np.ascontiguousarray(self.rows[np.asarray(examples)], self.sent)
        return rows[..., None].view(np.uint32) if self.halved else rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, File) and self.rows is other.rows and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((id(self.rows), self.dtype))


class OnDisk(Inputs):
    """Rows of a memory-mapped file, one an example, of which a program reads those that it needs.

    The compiled loop calls back for the rows of a mini-batch, in the order of the epoch as for any other data. All of
    them are evaluated some thousand at a time, gradients included, so that no more than these are ever held.
    """

    on_disk = True

    file: File = eqx.field(static=True)

    def _read(self, examples: Int[Array, " b"]) -> Array:
        file, shape = self.file, (*examples.shape, *self.file.rows.shape[1:])
        wanted = jax.ShapeDtypeStruct((*shape, 2), np.uint32) if file.halved else jax.ShapeDtypeStruct(shape, file.sent)
        sent = jax.pure_callback(file.read, wanted, examples, vmap_method="expand_dims")
        return jax.lax.bitcast_convert_type(sent, file.dtype) if file.halved else sent.astype(file.dtype)

    def take(self, examples: Int[Array, " b"], targets: Array, n: int) -> tuple[Array, Array]:
        return self._read(examples), targets[examples]

    def evaluated(self, f: Callable[[Any], Array]) -> Array:
        n, *shape = self.file.rows.shape
        count = -(-n * int(np.prod(shape)) // _AT_ONCE)
        m = -(-n // count)
        # Read again for the gradient rather than kept: the last rows stand in for those that are missing at the end.
        part = jax.checkpoint(lambda start: f(self._read(jnp.minimum(start + jnp.arange(m), n - 1))), prevent_cse=False)
        outputs = jax.lax.map(part, m * jnp.arange(count))
        return outputs.reshape(count * m, *outputs.shape[2:])[:n]

    def first(self, n: int) -> Array:
        return self._read(jnp.zeros(1, int))

    def checked(self, signature: Signature, n: int, name: str, count: str) -> OnDisk:
        _check_shape(self.file.rows.shape, signature, n, name, count)
        return self

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise SpecError(
            "this needs all inputs at once, which are in a memory-mapped file: train by steps of an optimiser, or give "
            "them in memory, np.array(X), or a part of them, np.array(X[:1000])."
        )

    measure = each = design = apart = through = dense = symbols = _refuse


_AT_ONCE = 1_000_000  # numbers of a file that are evaluated together: 4 MB in single precision


def as_inputs(inputs: Any) -> Inputs:
    """Inputs as what can be asked of them; a plain array is rows."""
    return inputs if isinstance(inputs, Inputs) else Rows(inputs)


def _check_shape(shape: tuple[int, ...], signature: Signature, n: int, name: str, count: str) -> None:
    wanted = (n, *signature.inputs)
    require(shape == wanted, f"the task's {name} have shape {shape}, but its {count} and signature say {wanted}.")


def as_numbers(value: Any, name: str) -> np.ndarray:
    """What a user gives as numbers, as a NumPy array of floating ones; `name` is what error messages call it.

    Takes whatever NumPy can read: lists, arrays of NumPy, JAX, pandas and xarray, tensors of PyTorch. Whole numbers and
    truth values become floating, or arithmetic with bytes would go round at 256. Anything that is not an array of
    finite real numbers is refused.
    """
    require(
        not (hasattr(value, "toarray") or hasattr(value, "todense")),
        f"{name} is a sparse matrix: write it out, as {name}.toarray() or {name}.todense().",
    )
    require(not _hides_something(value), f"{name} is a masked array with entries masked: fill them, or leave them out.")
    try:
        array = np.asarray(value)
    except Exception as error:  # ragged lists; a tensor that is on another device or asks for gradients says so itself
        first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise SpecError(f"{name} cannot be made an array of numbers: {first}.") from None
    if array.dtype == object and all(isinstance(item, numbers.Real | np.bool_) for item in array.flat):
        array = array.astype(float)  # columns of several types, as a table has them
    real = any(jnp.issubdtype(array.dtype, kind) for kind in (jnp.bool_, jnp.integer, jnp.floating))
    require(real, f"{name} must be real numbers, got {_in_words(array)}.")
    # Single precision holds all numbers of up to two bytes; extended precision is more than JAX has.
    wide = array.dtype.itemsize > 2 and array.dtype != np.float32
    array = np.asarray(array, np.float64 if wide else np.float32)
    require(bool(np.all(np.isfinite(array))), f"{name} has entries that are not finite numbers.")
    return array


def as_mapped(rows: np.memmap, name: str) -> np.memmap:
    """An array in a file that is mapped for reading, if all of it are finite real numbers; it is read once."""
    real = any(np.issubdtype(rows.dtype, kind) for kind in (np.bool_, np.integer, np.floating))
    require(real, f"{name} must be real numbers, got {_in_words(rows)}.")
    finite = all(bool(np.isfinite(part).all()) for part in parts(rows))
    require(finite, f"{name} has entries that are not finite numbers.")
    return rows


def as_classes(numbers: np.ndarray, name: str, classes: int | None = None) -> np.ndarray:
    """Class numbers, or symbols, as whole numbers from 0 (to below `classes`)."""
    whole = bool(np.all(numbers == np.round(numbers)) and numbers.min() >= 0)
    require(whole, f"{name} must be class numbers 0, 1, …, got {np.unique(numbers)[:5]}.")
    require(
        classes is None or numbers.max() < classes,
        f"{name} must be class numbers below {classes}, as the task's signature says, got {numbers.max():g}.",
    )
    return numbers.astype(np.int64)


def _hides_something(value: Any) -> bool:
    """Whether a masked array, or a list of arrays with one among them, has entries masked."""
    if isinstance(value, list | tuple):
        return any(map(_hides_something, value))
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))


def _in_words(array: np.ndarray) -> str:
    """What an array holds that is not numbers."""
    if array.dtype == object:
        odd = next((item for item in array.flat if not isinstance(item, numbers.Real)), None)
        return f"objects such as {odd!r:.40}"
    kinds = {"U": "words", "S": "words", "c": "complex numbers", "M": "dates", "m": "durations"}
    return kinds.get(array.dtype.kind, str(array.dtype))


def preactivations(inputs: Float[Array, "n d"], layer: Layer) -> Float[Array, "n h"]:
    """W x + b for every input."""
    h = inputs @ layer["weight"].T
    return h + layer["bias"] if "bias" in layer else h
