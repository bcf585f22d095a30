"""What a class or function of the user's computes, as a digest: its code and all that its code refers to.

The code of a function, the values of the globals, closure and defaults that it reads, and the functions, classes and
objects among them, followed on; of a class its methods, attributes and bases. Code counts as Python compiled it, so
that comments do not matter and a file that was edited after it was loaded does not mislead. Libraries (the standard
one, installed ones, afterfit itself) are not followed: they count by their name, and those that afterfit does not
compute with itself by their version too.

What code reads by other ways (a file, `eval`, `getattr` with a computed name) is not seen.
"""

from __future__ import annotations

import copyreg
import dataclasses
import dis
import functools
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import mmap
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from afterfit._base.errors import AfterfitError, require
from afterfit._base.turns import still_wanted

__all__ = [
    "Mapped",
    "Untold",
    "as_compiled_last",
    "code_of",
    "compiled",
    "digest",
    "digest_if_told",
    "digest_of_arrays",
    "held",
    "is_mapped",
    "parts",
    "said_of_function",
]


class Untold(AfterfitError):
    """What something computes cannot be told; the message says of what, and why."""


def digest(thing: Any) -> str:
    """16 hex digits that change with anything that a class or function computes; `Untold` where that cannot be told.

    They are the same in every process of one minor version of Python. Code that was typed at a prompt, and a lambda,
    have none: nobody could find again what they name.
    """
    if getattr(thing, "__name__", "") == "<lambda>":
        raise Untold("a lambda has no name by which it could be found again: write it as a function, with def")
    seen = _Definition([thing])
    if seen.obstacles:
        raise Untold(seen.obstacles[0])
    return seen.digest


def code_of(thing: Any, where: str) -> str:
    """`digest`, and where there is none the place of `thing` in what `Untold` says."""
    try:
        return digest(thing)
    except Untold as error:
        raise Untold(f"{where}: {error}") from None


def said_of_function(function: Callable[..., Any]) -> dict[str, str | None]:
    """What plain data say of a function of the user's: its name, and a digest of its code where there is one."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return {"function": f"{named.__module__}.{named.__qualname__}", "function_code": digest_if_told(function)}


def digest_if_told(thing: Any) -> str | None:
    """`digest`, None where there is none."""
    try:
        return digest(thing)
    except Untold:
        return None


def digest_of_arrays(arrays: Iterable[Any]) -> str:
    """SHA-256 of the content, type and shape of each of some arrays."""
    total = hashlib.sha256()
    for array in map(np.asarray, arrays):
        total.update(f"{array.dtype.str} {array.dtype.name} {array.shape}".encode())
        for part in parts(array):  # of an array on disk no copy is made
            total.update(np.ascontiguousarray(part).tobytes())
    return total.hexdigest()


def parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array, some rows at a time."""
    if array.nbytes <= _PART or not array.ndim:
        yield array
        return
    rows = max(1, _PART * len(array) // array.nbytes)
    yield from (array[start : start + rows] for start in range(0, len(array), rows))


_PART = 16_000_000  # bytes


def held(array: Any) -> np.ndarray:
    """A copy of an array that nobody can write to: what it is named by stays true. One that is mapped is not copied."""
    if is_mapped(array):
        return array
    if type(array) is np.ndarray and array.base is None and not array.flags.writeable:
        return array  # it is one
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def is_mapped(array: Any) -> bool:
    """Whether an array is in a file that is mapped into memory, and cannot be written to by it."""
    in_file = isinstance(array, np.memmap) and array.filename is not None
    return in_file and not array.flags.writeable


@dataclasses.dataclass(frozen=True)
class Mapped:
    """Where an array is that is mapped into memory: what another process opens in place of having all of it sent."""

    path: str
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: np.memmap) -> Mapped:
        """The place of an array, which may be a part of what is mapped."""
        mapped: Any = array._mmap  # pyright: ignore[reportAttributeAccessIssue]
        begins = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY  # a mapping begins with a page
        offset = begins + array.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
        return cls(str(array.filename), offset, array.dtype, array.shape, array.strides)

    def opened(self) -> np.memmap:
        """The array, from its file."""
        require(
            Path(self.path).is_file(),
            f"the data are in the file {self.path}, which is not there: put it in the same place on every machine that "
            "computes, or give the data in memory, np.array(X).",
        )
        whole = np.memmap(self.path, np.uint8, "r")
        first = whole[self.offset : self.offset + self.dtype.itemsize].view(self.dtype)
        rows: Any = np.lib.stride_tricks.as_strided(first, self.shape, self.strides, subok=True, writeable=False)
        return rows


# ------------------------------------------------------------------------------------------- what JAX has compiled

_last: dict[int, tuple[Any, list[Any]]] = {}  # whatever was defined when JAX compiled it: the object, how it was
_MANY = 2_000  # objects that are kept in mind beyond those in use


def as_compiled_last(nouns: Any) -> None:
    """Have JAX forget what it compiled if a class or function among `nouns` is no longer what it was at that time.

    JAX recognises a function by its identity, at every depth: also one that is handed to `lax.scan`, and all that a
    user has under `jit`. So a global with another value, or a method put in the place of another, is not seen by it.
    """
    seen = _Definition([eqx.filter(nouns, lambda leaf: not isinstance(leaf, np.ndarray | jax.Array))])
    changed = any(key in _last and _last[key][1] != tokens for key, (_, tokens) in seen.nodes.items())
    if changed or seen.opaque or len(_last) > _MANY + 2 * len(seen.nodes):
        jax.clear_caches()
        _last.clear()
    _last.update(seen.nodes)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`eqx.filter_jit` of a function that gets nouns: compiled anew when what one of them computes has changed."""
    jitted = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        still_wanted()
        as_compiled_last(arguments)
        return jitted(*arguments)

    return call


# ------------------------------------------------------------------------------------------------ following it on


class _Reference:
    """Mention of another object that is followed for itself, and recognised by its identity."""

    def __init__(self, to: Any):
        self.to = to

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reference) and self.to is other.to

    __hash__ = None  # type: ignore[assignment]


class _Definition:
    """All that some things are made of: for each object with an identity, the words and references that tell it."""

    def __init__(self, roots: Iterable[Any]):
        self.nodes: dict[int, tuple[Any, list[Any]]] = {}  # in the order in which they are met
        self.obstacles: list[str] = []  # why there is no digest: something opaque, or typed at a prompt
        self.opaque = False  # whether something was met whose content cannot be told
        self._within: list[str] = []
        self._root: list[Any] = []
        for root in roots:
            self._try(lambda root=root: self._tell(root, self._root), self._root)

    @property
    def digest(self) -> str:
        places = {key: f"@{place}" for place, key in enumerate(self.nodes)}
        total = hashlib.sha256()
        for tokens in (self._root, *(tokens for _, tokens in self.nodes.values())):
            for token in tokens:
                word = places[id(token.to)] if isinstance(token, _Reference) else token
                total.update(f"{len(word)}:{word}".encode())
            total.update(b";")
        return total.hexdigest()[:16]

    def _tell(self, value: Any, tokens: list[Any]) -> None:
        """Append what tells `value`."""
        kind = type(value)
        if value is None or value is ... or kind in (bool, int, float, complex, str, bytes):
            tokens.append(f"{kind.__name__} {value!r}")
        elif kind in (tuple, list):
            self._tell_all(kind.__name__, value, tokens)
        elif kind in (dict, types.MappingProxyType):
            self._tell_all("dict", [part for pair in value.items() for part in pair], tokens)
        elif kind in (set, frozenset):  # in no order of their own
            tokens.append(f"set {sorted(self._alone(item) for item in value)}")
        elif isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            self._tell_all("key", [str(value.dtype), jax.random.key_data(value)], tokens)
        elif isinstance(value, np.ndarray | np.generic | jax.Array) and value.dtype.kind != "O":
            tokens.append(f"array {digest_of_arrays([value])}")
        elif name := _name_in_library(value):
            tokens.append(name)
        elif isinstance(value, types.ModuleType):  # what is read of it is told by whoever reads it
            tokens.append(f"module {value.__name__}")
        elif isinstance(value, eqx.Module):  # frozen: without an identity of its own
            fields = [(f.name, getattr(value, f.name, None)) for f in dataclasses.fields(value)]
            self._tell_all("noun", [kind, *fields], tokens)
        else:
            self._refer(value, tokens)

    def _tell_all(self, what: str, values: Iterable[Any], tokens: list[Any]) -> None:
        values = list(values)
        tokens.append(f"{what} {len(values)}")
        for value in values:
            self._tell(value, tokens)

    def _alone(self, value: Any) -> str:
        alone = _Definition([value])
        self.obstacles += alone.obstacles
        self.opaque |= alone.opaque
        return alone.digest

    def _refer(self, value: Any, tokens: list[Any]) -> None:
        """Append a reference, and follow it if it is new."""
        tokens.append(_Reference(value))
        if id(value) in self.nodes:
            return
        own: list[Any] = []
        self.nodes[id(value)] = value, own
        self._within.append(_called(value))
        if isinstance(value, types.FunctionType):
            self._try(lambda: self._tell_function(value, own), own)
        elif isinstance(value, type):
            self._try(lambda: self._tell_class(value, own), own)
        else:
            self._try(lambda: self._tell_object(value, own), own)
        self._within.pop()

    def _try(self, tell: Callable[[], None], tokens: list[Any]) -> None:
        """Tell something, or that it cannot be told."""
        depth = len(self._within)
        try:
            tell()
        except Exception as error:  # of an object's own way to say what it is made of
            path = " → ".join(dict.fromkeys(self._within)) or "a part of it"
            del self._within[depth:]
            tokens.append("untold")
            self.opaque = True
            self.obstacles.append(f"{path}: what is in it cannot be told ({error})")

    # ---------------------------------------------------------------------------------------------- functions

    def _tell_function(self, function: types.FunctionType, tokens: list[Any]) -> None:
        code, scope = function.__code__, function.__globals__
        library = _library(scope.get("__name__") or "")
        if library:  # a function that a library made around one of the user's
            tokens.append(f"{library} {code.co_qualname}")
        else:
            if code.co_filename.startswith("<") and not code.co_filename.startswith("<ipython-input"):
                self.obstacles.append(f"{_called(function)} was typed at a prompt: write it in a file or a notebook")
            read = _read(code)
            tokens.append(f"code {read.digest}")
            for name in read.globals:
                if name in scope:
                    self._tell_read(name, scope[name], read.attributes, tokens)
            for name, level in read.imports:
                self._tell_import(name, level, scope, read.attributes, tokens)
        self._tell_all("defaults", [function.__defaults__, function.__kwdefaults__], tokens)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # not filled yet
                tokens.append(f"empty {name}")
            else:
                self._tell_read(name, content, () if library else _read(code).attributes, tokens)
        if function.__dict__:
            self._tell(function.__dict__, tokens)

    def _tell_read(self, name: str, value: Any, attributes: Iterable[str], tokens: list[Any]) -> None:
        """A value that code reads under a name; of a module of the user's, those `attributes` of it that it names."""
        tokens.append(f"reads {name}")
        self._within.append(name)
        self._tell(value, tokens)
        if isinstance(value, types.ModuleType):
            self._tell_module(value, attributes, tokens, set())
        self._within.pop()

    def _tell_module(self, module: types.ModuleType, attributes: Iterable[str], tokens: list[Any], met: set) -> None:
        if module.__name__ in met or _library(module.__name__):
            return
        met.add(module.__name__)
        for name in attributes:
            value = vars(module).get(name)
            if isinstance(value, types.ModuleType):
                self._tell_module(value, attributes, tokens, met)
            elif name in vars(module):
                tokens.append(f"reads {module.__name__}.{name}")
                self._tell(value, tokens)

    def _tell_import(
        self, name: str, level: int, scope: Mapping[str, Any], attributes: Iterable[str], tokens: list[Any]
    ) -> None:
        """A module that a function imports when it is called."""
        full = importlib.util.resolve_name("." * level + name, scope.get("__package__") or "")
        tokens.append(f"imports {full}")
        if not _library(full):
            try:
                self._tell_module(importlib.import_module(full), attributes, tokens, set())
            except ImportError:  # it may know what to do without
                tokens.append("missing")

    # ------------------------------------------------------------------------------------ classes and objects

    def _tell_class(self, kind: type, tokens: list[Any]) -> None:
        tokens.append(f"class {kind.__module__} {kind.__name__}")
        self._tell_all("bases", [type(kind), *kind.__bases__], tokens)
        if dataclasses.is_dataclass(kind):
            for field in dataclasses.fields(kind):
                tokens.append(f"field {field.name} {field.init} {field.kw_only}")
                given = [x for x in (field.default, field.default_factory) if not isinstance(x, _MISSING)]
                self._tell_all("given", [*given, field.metadata], tokens)
        for name, value in sorted(vars(kind).items()):
            if not _is_bookkeeping(kind, name, value):
                tokens.append(f"attribute {name}")
                self._tell(value, tokens)

    def _tell_object(self, value: Any, tokens: list[Any]) -> None:
        self._tell(type(value), tokens)
        if isinstance(value, property):
            self._tell_all("", [value.fget, value.fset, value.fdel], tokens)
        elif isinstance(value, classmethod | staticmethod | types.MethodType):
            self._tell_all("", [value.__func__, getattr(value, "__self__", None)], tokens)
        elif isinstance(value, functools.cached_property):
            self._tell(value.func, tokens)
        elif isinstance(value, functools.partial):
            self._tell_all("", [value.func, value.args, value.keywords], tokens)
        elif type(value).__name__ in ("PjitFunction", "_lru_cache_wrapper"):  # what they have kept does not count
            self._tell(getattr(value, "__wrapped__", None) or value.__getstate__()["fun"], tokens)
        elif hasattr(value, "__wrapped__") and hasattr(value, "__dict__"):  # such as jax.custom_jvp
            kept = {name: part for name, part in vars(value).items() if name not in ("__doc__", "_jit_info")}
            self._tell(kept, tokens)
        else:
            self._tell_parts(value, tokens)

    def _tell_parts(self, value: Any, tokens: list[Any]) -> None:
        """Any other object, by what `copy` and `pickle` would make it from."""
        registered = copyreg.dispatch_table.get(type(value))
        made = registered(value) if registered else value.__reduce_ex__(4)
        if isinstance(made, str):
            tokens.append(made)
            return
        make, arguments, state, items, pairs = (*made, None, None, None)[:5]
        if isinstance(state, dict):  # what was only kept for later does not count
            state = {
                name: part
                for name, part in state.items()
                if not isinstance(getattr(type(value), name, None), functools.cached_property)
            }
        parts = [make, arguments, state, *(list(part) for part in (items, pairs) if isinstance(part, Iterator))]
        self._tell_all("made", parts, tokens)


def _called(value: Any) -> str:
    """What to call an object in a message."""
    return getattr(value, "__qualname__", "") or f"a {type(value).__qualname__}"


_MISSING = type(dataclasses.MISSING)  # a class that was sent to another process has a copy of it


def _is_bookkeeping(kind: type, name: str, value: Any) -> bool:
    """Whether an attribute of a class is Python's own record of it, or a family's of its members, or follows from its
    fields.
    """
    if isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):
        return True
    written = inspect.unwrap(value) if callable(value) else value
    if isinstance(written, types.FunctionType) and written.__code__.co_qualname.startswith("__create_fn__"):
        return True  # made by `dataclass` from the fields
    told = callable(value) or isinstance(value, property | classmethod | staticmethod)
    if name == "_abc_impl" or (name in ("family", "members") and vars(kind).get("family") is kind):
        return True
    return name.startswith("__") and name.endswith("__") and not told


# ----------------------------------------------------------------------------------------------------------- code


@dataclasses.dataclass(frozen=True)
class _Read:
    """What compiled code is and reads: the names of its globals, of attributes, and of modules it imports."""

    digest: str
    globals: tuple[str, ...]
    attributes: tuple[str, ...]
    imports: tuple[tuple[str, int], ...]


@functools.lru_cache(maxsize=10_000)
def _read(code: types.CodeType) -> _Read:
    inner = [_read(const) for const in code.co_consts if isinstance(const, types.CodeType)]
    plain = [_constant(const) for const in code.co_consts if not isinstance(const, types.CodeType)]
    numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    whole = (code.co_code, code.co_exceptiontable, numbers, names, plain, [part.digest for part in inner])
    found: set[str] = set()
    imports: set[tuple[str, int]] = set()
    before: list[Any] = []
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.add(step.argval)
        elif step.opname == "IMPORT_NAME":  # after its level and its names
            imports.add((step.argval, before[-2] if len(before) >= 2 and isinstance(before[-2], int) else 0))
        if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            before.append(step.argval)
    return _Read(
        hashlib.sha256(repr(whole).encode()).hexdigest(),
        tuple(sorted(found.union(*(part.globals for part in inner)))),
        tuple(sorted({*code.co_names}.union(*(part.attributes for part in inner)))),
        tuple(sorted(imports.union(*(part.imports for part in inner)))),
    )


def _constant(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"frozenset {sorted(map(repr, value))}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))})"
    return repr(value)


# ------------------------------------------------------------------------------------------------------ libraries

# What afterfit itself computes with counts by its name, as it does for afterfit's own nouns; a run says the versions.
_OWN = ("afterfit", "jax", "jaxlib", "numpy", "scipy", "equinox", "diffrax", "optax", "jaxtyping")
_libraries: dict[str, str] = {}


def _library(module: str) -> str:
    """The library that a module is of, with its version where that counts; empty for a module of the user's."""
    top = module.partition(".")[0]
    if top not in _libraries:
        if top in sys.stdlib_module_names or top in _OWN:
            _libraries[top] = top
        elif top.startswith("namedtuple_"):  # as the standard library calls what it makes for one
            return "collections"
        elif version := _installed_version(top):
            _libraries[top] = f"{top} {version}"
    return _libraries.get(top, "")


def _installed_version(top: str) -> str:
    """The version of a package that is installed, and not merely found beside a script or linked to."""
    try:
        found = importlib.util.find_spec(top) if top and top != "__main__" else None
    except (ImportError, ValueError):
        return ""
    place = found and (found.origin or next(iter(found.submodule_search_locations or ()), ""))
    if not place or not {"site-packages", "dist-packages"} & set(Path(place).parts):
        return ""
    try:
        return importlib.metadata.version(top)
    except importlib.metadata.PackageNotFoundError:  # the package has another name than its module
        names = importlib.metadata.packages_distributions().get(top, ())
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in sorted(set(names)))


def _name_in_library(value: Any) -> str:
    """What tells a class, function or object that a library has under a name: that name. Empty for any other."""
    name, module = getattr(value, "__qualname__", None) or getattr(value, "__name__", None), None
    if isinstance(name, str):
        module = getattr(value, "__module__", None) or getattr(type(value), "__module__", None)
    if isinstance(value, types.ModuleType) and _library(value.__name__):
        return f"{_library(value.__name__)}: {value.__name__}"
    if not isinstance(name, str) or not isinstance(module, str) or not (library := _library(module)):
        return ""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value and not isinstance(value, type):
        return ""
    meaning = getattr(value, "meaning", 1) if isinstance(value, type) else 1
    place = _public(module) if library == "afterfit" else module
    return f"{library}: {place}.{name}" + (f" {meaning}" if meaning != 1 else "")


def _public(module: str) -> str:
    """Where users find what a module of ours has: in which file it is may change, and is nothing to a user's class."""
    return module.partition("._")[0]
