"""The table of all runs: one row a run, its settings by their dotted names, and what came of it.

A row is made of `spec.json` and `run.json` alone. `index.cache` keeps the table, so that only new runs have to be
opened; it is a cache, and made anew when it is missing or not as it was written.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from afterfit.files import SUMS, Damaged, check_sums
from afterfit.run import FORMAT
from afterfit.spec import SpecError
from afterfit.store.places import Place

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Index"]

_CACHE = "index.cache"  # a SHA-256 in hex, and then what it was taken of: the table in Arrow's format
_VERSION = b"1"  # of the cache: one of another version is made anew
_STAMP, _ROW = ".stamp", ".row"
_FILES = ("spec.json", "run.json", SUMS)
_VERDICT = ("t_fit", "t_gen", "delay", "delay_ratio", "width_decades", "width_relative")
# Columns that are there even if no run is; settings and final metrics come with the runs that have them.
_ALWAYS = {"id": "string", "status": "string", "verdict": "string"} | dict.fromkeys((*_VERDICT, "seconds"), "double")


class Index:
    """The table of a store, kept up to date with what lies in it."""

    def __init__(self, place: Place, doubt: Callable[[str], Damaged | None]):
        self._place, self._doubt = place, doubt
        self._table: pa.Table | None = None  # with two columns more: each run's stamp, and its row as JSON

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
        """The rows of runs, as JSON. Damaged ones have none, and are set aside."""
        ids, rows = list(ids), {}
        for k in range(0, len(ids), 1000):  # together, for places where each file takes a while to come
            batch = ids[k : k + 1000]
            found = self._place.read(f"{id}/{name}" for id in batch for name in _FILES)
            for id in batch:
                files = {name: found[f"{id}/{name}"] for name in _FILES if f"{id}/{name}" in found}
                if not files and not self._place.has(id):  # removed since
                    continue
                try:
                    rows[id] = json.dumps(_row(id, files), ensure_ascii=False)
                except Damaged:
                    if error := self._doubt(id):
                        warnings.warn(str(error), stacklevel=4)
        return rows

    def _read_cache(self) -> pa.Table:
        import pyarrow as pa

        content = self._place.read([_CACHE]).get(_CACHE, b"")
        said, rest = content[:64], content[64:]
        if hashlib.sha256(_VERSION + rest).hexdigest().encode() != said:  # missing or damaged: it is only a cache
            return _tabulate({}, {})
        with pa.ipc.open_file(rest) as file:
            return file.read_all()

    def _write_cache(self, table: pa.Table) -> None:
        import pyarrow as pa

        buffer = io.BytesIO()
        with pa.ipc.new_file(buffer, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
            file.write_table(table)
        rest = buffer.getvalue()
        with contextlib.suppress(OSError):  # a store that one may only read
            self._place.write(_CACHE, hashlib.sha256(_VERSION + rest).hexdigest().encode() + rest)


# ------------------------------------------------------------------------------------------------------- rows


def _row(id: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    """A run in one row: plain numbers and words."""
    where = f"run {id}"
    for name in _FILES:
        if name not in files:
            raise Damaged(f"{where} is damaged: it has no {name}.")
    check_sums(files[SUMS], {name: files[name] for name in _FILES if name != SUMS}, where)
    spec, facts = (json.loads(files[name]) for name in ("spec.json", "run.json"))
    if facts["format"] > FORMAT:
        raise SpecError(f"{where} was written by a newer afterfit (format {facts['format']}): upgrade.")
    if facts["id"] != id:
        raise Damaged(f"{where} is damaged: it is in the place of {facts['id'] or 'a run without a name'}.")
    verdict = facts["verdict"] or {}
    return {
        "id": id,
        "status": facts["status"],
        "verdict": verdict.get("kind"),
        **{name: _real(verdict.get(name)) for name in _VERDICT},
        "seconds": facts["seconds"],
        **_flatten(spec),
        "metric": facts["metric"],
        **{name: facts[name] for name in ("method", "message", "ended")},
        **{f"final.{name}": _real(value) for name, value in facts["final"].items()},
        **{f"work.{name}": value for name, value in facts["work"].items()},
        "afterfit": facts["versions"]["afterfit"],
    }


def _real(value: float | str | None) -> float | None:
    """A number that JSON may have had to spell out: `"inf"`."""
    return None if value is None else float(value)


def _flatten(spec: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for name, value in spec.items():
        flat |= _flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return flat


def _tabulate(rows_as_json: Mapping[str, str], stamps: Mapping[str, str]) -> pa.Table:
    import pyarrow as pa

    rows = sorted(map(json.loads, rows_as_json.values()), key=lambda row: (-row["ended"], row["id"]))
    columns = {}
    for name in dict.fromkeys(itertools.chain(_ALWAYS, *rows)):
        values = [row.get(name) for row in rows]
        columns[name] = pa.array(values, _ALWAYS[name]) if name in _ALWAYS else _column(values)
    columns[_STAMP] = pa.array([stamps[row["id"]] for row in rows], pa.string())
    columns[_ROW] = pa.array([rows_as_json[row["id"]] for row in rows], pa.string())
    return pa.table(columns)


def _column(values: list[Any]) -> pa.Array:
    """Numbers if all of them are, else words: a list, or a number among words, by its JSON."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and len(kinds) == 2:
        values = [None if value is None else float(value) for value in values]
    elif not (len(kinds) == 1 and kinds <= {int, float, str, bool}):
        values = [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
    return pa.array(values) if kinds else pa.array(values, pa.string())
