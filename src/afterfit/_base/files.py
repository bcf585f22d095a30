"""Files as bytes: JSON, arrays in a tree, checksums; and how a file is replaced. Nothing read here is executed."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import struct
import tempfile
import tokenize
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from afterfit._base.errors import Damaged

__all__ = [
    "SUMS",
    "array_from_npy",
    "arrays_from_npz",
    "arrays_to_npz",
    "check_sums",
    "json_text",
    "leaves_by_place",
    "read_json",
    "sums_of",
    "to_json",
    "write_atomically",
]

SUMS = "SHA256SUMS"  # the file that holds the checksums of all others in its directory


# ------------------------------------------------------------------------------------------------------ JSON


def to_json(data: Any) -> bytes:
    """Plain data as a JSON file that people can read too."""
    return (json_text(data, indent=2) + "\n").encode()


def json_text(data: Any, indent: int | None = None) -> str:
    """Data as JSON that every reader takes: infinity, which JSON has not, is `"inf"`; what is not plain is words."""
    data = _without_infinity(data)
    text = json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a character, as in the name of a file that is not UTF-8: JSON can spell it
        return json.dumps(data, indent=indent, allow_nan=False, default=str)
    return text


def _without_infinity(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _without_infinity(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_without_infinity(value) for value in data]
    return str(float(data)) if isinstance(data, float) and not math.isfinite(data) else data


def read_json(content: bytes, name: str, where: str) -> Any:
    """What a JSON file says; `Damaged` if it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or nested without end
        raise Damaged(f"{where} is damaged: {name} is not JSON ({error}).") from None


# ------------------------------------------------------------------------------------------------- checksums


def sums_of(files: Mapping[str, bytes]) -> bytes:
    """The checksums of some files, in the format of `sha256sum -c`."""
    return "".join(f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)).encode()


def check_sums(sums: bytes, files: Mapping[str, bytes], where: str) -> None:
    """Refuse `files` that are not those that `sums` was written for. Others may be among those of `sums`."""
    lines = [re.fullmatch(rb"([0-9a-f]{64})  ([\w.-]+)", line) for line in sums.split(b"\n")[:-1]]
    if not lines or not all(lines) or not sums.endswith(b"\n"):
        raise Damaged(f"{where} is damaged: {SUMS} is not a list of checksums.")
    known = {line[2].decode(): line[1].decode() for line in lines if line}
    for name, content in files.items():
        if name not in known:
            raise Damaged(f"{where} is damaged: {name} is not in {SUMS}.")
        if hashlib.sha256(content).hexdigest() != known[name]:
            raise Damaged(f"{where} is damaged: {name} does not match its checksum.")


# ------------------------------------------------------------------------------------------- arrays in a tree


def arrays_to_npz(tree: Any) -> bytes:
    """The arrays of a tree by their places, written as JSON: `["layers", 0, "weight"]`.

    The same arrays give the same bytes: NumPy writes no times into the file.
    """
    arrays: dict[str, Any] = {json.dumps(place): np.asarray(leaf) for place, leaf in _leaves(tree)}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def leaves_by_place(tree: Any) -> dict[str, Any]:
    """The leaves of a tree by their places in words, `['layers']['0']`: the same once it was written and read."""
    return {"".join(f"[{str(key)!r}]" for key in place): leaf for place, leaf in _leaves(tree)}


def _leaves(tree: Any) -> list[tuple[list[str | int], Any]]:
    """The leaves of a tree, each with its place."""
    import jax  # not at the top: JSON and checksums are needed where nothing is trained

    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return [([_key(key) for key in path], leaf) for path, leaf in leaves]


def arrays_from_npz(content: bytes) -> Any:
    """Nested dictionaries and lists of arrays, from what `arrays_to_npz` wrote; a `ValueError` if it is not that.

    Nothing is unpacked, and sizes that the file claims are compared with its own before anything is made of them: it
    never takes more memory than twice its length.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            plain = all(e.compress_type == zipfile.ZIP_STORED and not e.flag_bits & 1 for e in entries)
            if not plain or sum(entry.file_size for entry in entries) > len(content):
                raise ValueError("its arrays are larger than the file, or packed")
            return _grow([(_place(entry.filename), array_from_npy(archive.read(entry))) for entry in entries])
    except (zipfile.BadZipFile, NotImplementedError, EOFError, struct.error, RecursionError) as error:
        # All of them zipfile's: NotImplementedError is what it says to kinds of packing that it does not know.
        raise ValueError(f"{type(error).__name__}: {error}") from error
    except (SyntaxError, tokenize.TokenError) as error:  # of NumPy, whose headers are written like Python
        raise ValueError(f"an array's header is not one: {error}") from error


def _place(name: str) -> list[str | int]:
    place = json.loads(name.removesuffix(".npy"))
    if not isinstance(place, list) or not all(isinstance(key, str | int) for key in place):
        raise ValueError(f"{name!r} is not a place in a tree")
    return place


def array_from_npy(content: bytes) -> np.ndarray:
    """An array from NumPy's format, as long as it says."""
    file = io.BytesIO(content)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError(f"an array of version {version}")
    shape, by_columns, dtype = readers[version](file)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} and shape {shape}")
    numbers = content[file.tell() :]
    if math.prod(shape) * dtype.itemsize != len(numbers):
        raise ValueError(f"an array of {dtype} and shape {shape} in {len(numbers)} bytes")
    return np.frombuffer(bytearray(numbers), dtype).reshape(shape, order="F" if by_columns else "C")


def _key(key: Any) -> str | int:
    import jax

    if isinstance(key, jax.tree_util.SequenceKey | jax.tree_util.FlattenedIndexKey):
        return getattr(key, "idx", getattr(key, "key", 0))
    return str(getattr(key, "key", getattr(key, "name", key)))


def _grow(leaves: list[tuple[list[str | int], np.ndarray]]) -> Any:
    if len(leaves) == 1 and not leaves[0][0]:
        return leaves[0][1]
    branches: dict[str | int, list] = {}
    for (head, *rest), array in leaves:
        branches.setdefault(head, []).append((rest, array))
    if set(branches) == set(range(len(branches))):
        return [_grow(branches[k]) for k in range(len(branches))]
    return {str(head): _grow(branch) for head, branch in branches.items()}  # also a list of which some hold no arrays


# --------------------------------------------------------------------------------------------------- writing


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file that nobody ever sees half-written."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
