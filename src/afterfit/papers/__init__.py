"""The gallery: every figure and theorem of the papers checks itself, and so can those of yours.

A paper is a module or a package with one `Entry` for each figure or theorem. Ours are here; those of an installed
package are found by its entry points of the group `afterfit.papers`; a file of your own is named on the command line.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import re
import sys
import warnings
from pathlib import Path

from afterfit._base.errors import SpecError, error_in_words, nearest, require
from afterfit._base.rules import discover
from afterfit.papers._entry import (
    SCALES,
    Claim,
    Control,
    Correction,
    Entry,
    Finding,
    Paper,
    Progress,
    Row,
    claim,
    control,
    correction,
    once,
    passing,
    run_all,
)

__all__ = [
    "SCALES",
    "Claim",
    "Control",
    "Correction",
    "Entry",
    "Finding",
    "Paper",
    "Progress",
    "Row",
    "claim",
    "control",
    "correction",
    "entries",
    "entries_of",
    "find",
    "once",
    "passing",
    "run_all",
]


def __dir__() -> list[str]:
    return __all__


GROUP = "afterfit.papers"  # of the entry points by which installed packages are found


def entries() -> dict[str, Entry]:
    """The gallery by id: the entries of afterfit and of installed packages."""
    packages = ("afterfit", *_installed())
    return _instances(cls for cls in Entry._known.values() if cls.__module__.partition(".")[0] in packages)


def entries_of(file: str | Path) -> dict[str, Entry]:
    """The entries that a Python file of one's own defines, by id."""
    module = _load(Path(file))
    found = _instances(cls for cls in Entry._known.values() if cls.__module__ == module)
    require(bool(found), f"{file} defines no gallery entry: write a subclass of afterfit.papers.Entry with a name.")
    return found


def find(id: str) -> Entry:
    """The entry of an id such as `boursier2025/fig2`, or of a file and a name, `my_paper.py::fig2`."""
    if "::" in id:
        file, _, name = id.partition("::")
        by_name = {entry.name: entry for entry in entries_of(file).values()}
        require(name in by_name, f"{file} has no entry {name!r}: {nearest(name, by_name)}")
        return by_name[name]
    if is_python_file(id):
        named = ", ".join(f"{id}::{entry.name}" for entry in entries_of(id).values())
        raise SpecError(f"{id} is a file of entries: name one of them, {named}.")
    known = entries()
    if id not in known:
        raise SpecError(f"there is no gallery entry {id!r}: {nearest(id, known)}")
    return known[id]


def is_python_file(job: str) -> bool:
    """Whether what is named on a command line is a Python file, which holds entries of one's own."""
    return job.endswith(".py")


def _instances(classes) -> dict[str, Entry]:
    """By paper and name, numbers in names by their value: thm3.9 comes before thm3.10."""
    return {cls.id: cls() for cls in sorted(classes, key=lambda cls: _natural(cls.id))}


def _natural(id: str) -> list[tuple[bool, int, str]]:
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", id)]


@functools.cache
def _installed() -> tuple[str, ...]:
    """Load our papers, and those of installed packages: the names of these. One that cannot be loaded is said."""
    for module in pkgutil.iter_modules(__path__):
        if not module.name.startswith("_"):
            _import_all(f"{__name__}.{module.name}")
    packages = []
    for point in importlib.metadata.entry_points(group=GROUP):
        try:
            _import_all(point.module)
        except Exception as error:  # somebody else's package must not take the gallery with it
            said = error_in_words(error).rstrip(".")
            warnings.warn(f"the papers of {point.module} (installed) cannot be loaded: {said}.", stacklevel=2)
            continue
        packages.append(point.module.partition(".")[0])
    return tuple(packages)


def _import_all(paper: str) -> None:
    """Import a paper: a module, or a package with all its modules."""
    if hasattr(importlib.import_module(paper), "__path__"):
        discover(paper)


def _load(file: Path) -> str:
    """Import a file as a module of its own name, as Python does a script's neighbours: that name."""
    require(file.is_file(), f"there is no file {file}.")
    name, folder = file.stem, str(file.parent.resolve())
    require(
        file.suffix == ".py" and name.isidentifier(),
        f"{file} cannot be imported: a paper is a Python file whose name is a name of Python's, such as my_paper.py.",
    )
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(file.resolve()):
        return name
    taken = loaded is not None or importlib.util.find_spec(name) is not None
    if folder not in sys.path:
        sys.path.insert(0, folder)  # other processes look there too, so that they know the file's classes
    importlib.invalidate_caches()
    spec = importlib.util.find_spec(name) if loaded is None else None
    require(
        spec is not None and spec.origin == str(file.resolve()),
        f"{file} cannot be imported as {name!r}: {'so is another module' if taken else 'it is not found'}. Rename it.",
    )
    try:
        importlib.import_module(name)
    except SpecError:
        raise
    except Exception as error:
        raise SpecError(f"{file} cannot be imported: {error_in_words(error)}.") from error
    return name
