"""Files as bytes: JSON, arrays in a tree, checksums; and how a file is replaced. Nothing read here is executed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from afterfit.spec import SpecError

__all__ = [
    "SUMS",
    "Damaged",
    "arrays_from_npz",
    "arrays_to_npz",
    "check_sums",
    "sums_of",
    "to_json",
    "write_atomically",
]

SUMS = "SHA256SUMS"  # the file that holds the checksums of all others in its directory


class Damaged(SpecError):
    """Files that are not as they were written: the message names the file."""


def to_json(data: Any) -> bytes:
    """Plain data as a JSON file that people can read too."""
    return (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode()


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
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    arrays: dict[str, Any] = {json.dumps([_key(key) for key in path]): np.asarray(leaf) for path, leaf in leaves}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def arrays_from_npz(content: bytes) -> Any:
    """Nested dictionaries and lists of arrays, from what `arrays_to_npz` wrote."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return _grow([(json.loads(place), array) for place, array in arrays.items()])


def _key(key: Any) -> str | int:
    if isinstance(key, jax.tree_util.SequenceKey | jax.tree_util.FlattenedIndexKey):
        return getattr(key, "idx", getattr(key, "key", 0))
    return str(getattr(key, "key", getattr(key, "name", key)))


def _grow(leaves: list[tuple[list[str | int], np.ndarray]]) -> Any:
    if len(leaves) == 1 and not leaves[0][0]:
        return leaves[0][1]
    branches: dict[str | int, list] = {}
    for (head, *rest), array in leaves:
        branches.setdefault(head, []).append((rest, array))
    if branches and all(isinstance(head, int) for head in branches):
        return [_grow(branches[k]) for k in range(len(branches))]
    return {head: _grow(branch) for head, branch in branches.items()}


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
