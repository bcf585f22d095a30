"""The ledger: rows as they were measured, kept so that nothing is measured twice."""

from __future__ import annotations

import ast
import dataclasses
import datetime
import functools
import hashlib
import importlib.util
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from afterfit._base.errors import SpecError
from afterfit.papers import _images
from afterfit.papers._entry import Claim, Entry, Row

__all__ = ["Kept", "Ledger", "code_of", "code_of_runs"]

# What every row says, and what only those do that were measured since there are controls and errata.
_FIELDS = {field.name: field.default is dataclasses.MISSING for field in dataclasses.fields(Row)}


@dataclasses.dataclass(frozen=True)
class Kept:
    """A row, the day on which it was measured, and with what: versions, and a digest of the `code`."""

    row: Row
    date: str
    versions: dict[str, str]
    code: str


class Ledger:
    """A file of rows, one line of JSON each; of one claim at one scale the last is what counts.

    Rows are added at the end, so that a process that is killed, or two at once, lose nothing.
    """

    def __init__(self, path: Path):
        self.path = path
        self.kept = {(k.row.id, k.row.claim, k.row.scale): k for k in self._read()}

    def find(self, entry: Entry, claim: Claim, scale: str) -> Kept | None:
        """The row of a claim, if it was measured by the code and the versions that are here now."""
        kept = self.kept.get((entry.id, claim.words, scale))
        current = kept is not None and kept.code == code_of(entry) and kept.versions == _versions()
        return kept if current else None

    def seconds(self, entry: Entry, scale: str) -> float:
        """How long the rows of an entry took when they were measured last, whatever the code; infinite if never."""
        known = [kept for c in entry.claims if (kept := self.kept.get((entry.id, c.words, scale))) is not None]
        return sum(kept.row.seconds for kept in known) if known else math.inf

    def keep(self, entry: Entry, row: Row) -> Kept:
        """Write a row down."""
        kept = Kept(row, datetime.date.today().isoformat(), _versions(), code_of(entry))
        self.kept[row.id, row.claim, row.scale] = kept
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            cut_off = file.tell() > 0 and _last_byte(file) != b"\n"
            file.write(("\n" if cut_off else "").encode() + _line(kept).encode())
        return kept

    def tidy(self, known: Iterator[tuple[str, str]]) -> str:
        """The lines of all rows of `known` claims (id, words), each once and in that order."""
        order = {key: place for place, key in enumerate(known)}
        there = [kept for (id, words, _), kept in self.kept.items() if (id, words) in order]
        there.sort(key=lambda kept: (kept.row.scale, order[kept.row.id, kept.row.claim]))
        return "".join(map(_line, there))

    def _read(self) -> Iterator[Kept]:
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            raise SpecError(f"the ledger {self.path} cannot be read: {error}.") from None
        for number, line in enumerate(lines, start=1):
            try:
                said = json.loads(line)
                row = Row(**{name: said[name] for name, always in _FIELDS.items() if always or name in said})
                yield Kept(row, said["date"], said["versions"], said["code"])
            except (ValueError, KeyError, TypeError):
                if line.endswith("}"):  # and not cut off, as by a process that was killed
                    raise SpecError(
                        f"{self.path}, line {number} is no row of a ledger: name another file with --ledger, or remove "
                        "that line."
                    ) from None


def _last_byte(file: BinaryIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1)


def _line(kept: Kept) -> str:
    said: dict[str, Any] = {**dataclasses.asdict(kept.row), "date": kept.date}
    return json.dumps({**said, "versions": kept.versions, "code": kept.code}, ensure_ascii=False) + "\n"


def _versions() -> dict[str, str]:
    """Of what numbers may depend on; not of the machine, on which they should not."""
    from afterfit._training.run import PACKAGES, versions_here

    here = versions_here()
    return {name: here[name] for name in ("python", *PACKAGES)}


def code_of_runs() -> str:
    """A digest of the code and versions that a run depends on, wherever it is declared."""
    return hashlib.sha256(f"{_digest(_core())}{_versions()}".encode()).hexdigest()[:16]


def code_of(entry: Entry) -> str:
    """A digest of the code that a row may depend on.

    That is what trains and computes, and of the papers the entry's own module with those that it imports; of a package
    or file from elsewhere, all of it. And which of the papers' images are here, if it runs on images.
    """
    module = type(entry).__module__
    package = module.partition(".")[0]
    files = _closure(module) if package == "afterfit" else _files(package)
    return _digest(_core() | files, _images.sets_here() if Path(_images.__file__) in files else "")


@functools.cache
def _core() -> frozenset[Path]:
    """The files of afterfit but for its papers and what only talks to people."""
    (root,) = _folders("afterfit")
    beside = {root / name for name in ("papers", "_cli", "_reports")}
    return frozenset(path for path in _files("afterfit") if beside.isdisjoint(path.parents))


@functools.cache
def _closure(module: str) -> frozenset[Path]:
    """The file of a module of our papers, and those of all that it imports of them."""
    left, found = [module], {}
    while left:
        name = left.pop()
        if name in found or not name.startswith("afterfit.papers"):
            continue
        loaded = sys.modules.get(name)
        if loaded is None or loaded.__file__ is None:  # a name that a module defines
            continue
        found[name] = Path(loaded.__file__)
        for node in ast.walk(ast.parse(found[name].read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                left += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return frozenset(found.values())


@functools.cache
def _files(package: str) -> frozenset[Path]:
    """The Python files of a package, or that of a module."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, "an entry's module was imported"
    return frozenset(path for folder in _folders(package) for path in folder.rglob("*.py")) or frozenset(
        [Path(spec.origin or "")]
    )


def _folders(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return [Path(place) for place in (spec and spec.submodule_search_locations) or ()]


@functools.cache
def _digest(files: frozenset[Path], beside: str = "") -> str:
    content = hashlib.sha256(beside.encode())
    for path in sorted(files):
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()[:16]
