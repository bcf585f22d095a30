"""The table of all runs: one row a run, its settings by their dotted names, and what came of it.

A row is made of `spec.json` and `run.json` alone, unless an older afterfit wrote them. `index.cache` keeps the table,
so that only new runs have to be opened; it is a cache, and made anew when it is missing or not as it was written.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from afterfit._base.errors import AfterfitError, Damaged, SpecError, Unreadable
from afterfit._base.files import SUMS, read_json
from afterfit._diagnose.verdict import NUMBERS
from afterfit._sweeps.store.places import Place
from afterfit._training.run import FORMAT, Run, check_files, summary

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Index"]

_CACHE = "index.cache"  # a SHA-256 in hex, and then what it was taken of: the table in Arrow's format
_VERSION = b"3"  # of the cache: one of another version is made anew
_STAMP, _ROW = ".stamp", ".row"
_FILES = ("spec.json", "run.json", SUMS)
# Columns that are there even if no run is; settings and final metrics come with the runs that have them.
_ALWAYS: dict[str, str] = {
    **dict.fromkeys(("id", "status", "verdict"), "string"),
    **dict.fromkeys((*NUMBERS, "end", "seconds"), "double"),
}


class Index:
    """The table of a store, kept up to date with what lies in it."""

    def __init__(self, place: Place, load: Callable[[str], Run], doubt: Callable[[str], Damaged | None]):
        self._place, self._load, self._doubt = place, load, doubt
        self._table: pa.Table | None = None  # with two columns more: each run's stamp, and its row as JSON
        self._left_out: set[str] = set()  # what was said about runs that have no row

    def table(self) -> pa.Table:
        """One row a run, the latest first."""
        stamps = self._place.stamps()
        table = self._read_cache() if self._table is None else self._table
        ids, seen = (table[name].to_pylist() for name in ("id", _STAMP))
        current = [stamps.get(id) == stamp for id, stamp in zip(ids, seen, strict=True)]
        known = set(itertools.compress(ids, current))
        new = self._read(id for id in stamps if id not in known)
        if new or not all(current):
            kept = dict(zip(ids, table[_ROW].to_pylist(), strict=True))
            table = _tabulate({id: kept[id] for id in known} | new, stamps)
            self._write_cache(table)
        self._table = table
        return table.drop_columns([_STAMP, _ROW])

    def _read(self, ids: Iterable[str]) -> dict[str, str]:
        """The rows of runs, as JSON. A damaged run has none and is set aside; one that cannot be read is left out."""
        ids, rows = list(ids), {}
        for k in range(0, len(ids), 1000):  # together, for places where each file takes a while to come
            batch = ids[k : k + 1000]
            for id, files in self._files(batch).items():
                try:
                    if isinstance(files, OSError):
                        raise Unreadable(f"run {id} cannot be read ({files.strerror or files}).")
                    if files or self._place.has(id):  # else removed since
                        rows[id] = json.dumps(self._row(id, files))
                except Damaged as error:
                    self._leave_out(self._doubt(id) or error)
                except Unreadable as error:
                    self._leave_out(error)
                except SpecError:  # removed since
                    pass
        return rows

    def _row(self, id: str, files: Mapping[str, bytes]) -> dict[str, Any]:
        where = f"run {id}"
        facts = check_files(files, where, _FILES)
        if facts["id"] != id:
            raise Damaged(f"{where} is damaged: it is in the place of {facts['id'] or 'a run without a name'}.")
        if facts["format"] < FORMAT:  # then not all of it was written down, and has to be had from the curves
            return self._load(id).summary
        try:
            return summary(facts, read_json(files["spec.json"], "spec.json", where))
        except (AttributeError, RecursionError):  # no mapping, or nested without end
            raise Damaged(f"{where} is damaged: spec.json is not a specification.") from None

    def _files(self, ids: Sequence[str]) -> dict[str, dict[str, bytes] | OSError]:
        """The files of runs that a row is made of, or why they do not come."""
        try:
            found = self._place.read(f"{id}/{name}" for id in ids for name in _FILES)
        except OSError as error:  # of one of them, perhaps
            return {ids[0]: error} if len(ids) == 1 else {id: self._files([id])[id] for id in ids}
        return {id: {name: found[f"{id}/{name}"] for name in _FILES if f"{id}/{name}" in found} for id in ids}

    def _leave_out(self, error: AfterfitError) -> None:
        """Say once that a run is not in the table."""
        if str(error) not in self._left_out:
            self._left_out.add(str(error))
            warnings.warn(str(error), stacklevel=5)

    def _read_cache(self) -> pa.Table:
        import pyarrow as pa

        content = self._place.read([_CACHE]).get(_CACHE, b"")
        said, rest = content[:64], content[64:]
        if hashlib.sha256(_VERSION + rest).hexdigest().encode() != said:  # missing or damaged: it is only a cache
            return _tabulate({}, {})
        try:
            with pa.ipc.open_file(rest) as file:
                table = file.read_all()
        except (pa.ArrowInvalid, OSError):  # of whoever wrote a checksum that fits
            return _tabulate({}, {})
        return table if {*_ALWAYS, _STAMP, _ROW} <= set(table.column_names) else _tabulate({}, {})

    def _write_cache(self, table: pa.Table) -> None:
        import pyarrow as pa

        buffer = io.BytesIO()
        with pa.ipc.new_file(buffer, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
            file.write_table(table)
        rest = buffer.getvalue()
        with contextlib.suppress(OSError):  # a store that one may only read
            self._place.write(_CACHE, hashlib.sha256(_VERSION + rest).hexdigest().encode() + rest)


# ------------------------------------------------------------------------------------------------------- rows


def _tabulate(rows_as_json: Mapping[str, str], stamps: Mapping[str, str]) -> pa.Table:
    import pyarrow as pa

    rows = sorted(map(json.loads, rows_as_json.values()), key=lambda row: (-row["ended"], row["id"]))
    columns = {}
    for name in dict.fromkeys(itertools.chain(_ALWAYS, *rows)):
        columns[_words(name)] = _column([row.get(name) for row in rows], _ALWAYS.get(name))
    columns[_STAMP] = pa.array([stamps[row["id"]] for row in rows], pa.string())
    columns[_ROW] = pa.array([rows_as_json[row["id"]] for row in rows], pa.string())
    return pa.table(columns)


def _column(values: list[Any], kind: str | None) -> pa.Array:
    """Of a kind if it is known; else numbers if all of them are, and words if not: a list is written as JSON."""
    import pyarrow as pa

    if kind == "double":
        return pa.array(values, pa.float64())
    kinds = {type(value) for value in values if value is not None}
    try:
        if kinds == {int, float}:
            return pa.array([None if value is None else float(value) for value in values])
        if kinds in ({int}, {float}, {bool}):
            return pa.array(values)
    except (OverflowError, pa.ArrowInvalid):  # a number too large for a column of numbers
        pass
    return pa.array([None if value is None else _words(value) for value in values], pa.string())


def _words(value: Any) -> str:
    """Words as UTF-8 has them: half a character, as in the name of a file, is spelled out."""
    said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return said.encode(errors="backslashreplace").decode()
