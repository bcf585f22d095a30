"""Where a store is: a directory of this machine or a cluster, or anything that fsspec can reach.

Both kinds of place answer the same questions. A directory can be renamed in one atomic step, and that is what
publishing, removing and leasing rest on; elsewhere a run is there from the moment its checksums are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from afterfit._base.errors import SpecError, require
from afterfit._sweeps.store.local import Local
from afterfit._sweeps.store.remote import Remote

__all__ = ["Place", "find_place"]


def find_place(url: str) -> Place:
    """The place that a path or an fsspec URL names."""
    if "://" not in url and "::" not in url:
        return _local(url)
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    try:
        filesystem, root = fsspec.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise SpecError(f"cannot open a store at {url}: {error}.") from None
    return _local(root) if isinstance(filesystem, LocalFileSystem) else Remote(filesystem, root, url)


def _local(path: str) -> Local:
    require(not Path(path).is_file(), f"{path} is a file, and a store is a directory: choose another place.")
    return Local(Path(path))


class Place(Protocol):
    """What a store asks of its place. Names of files are relative to it."""

    @property
    def url(self) -> str:
        """How people find it."""
        ...

    def names(self) -> set[str]:
        """What lies directly in the store, hidden files left out."""
        ...

    def stamps(self) -> dict[str, str]:
        """The runs that are there, each with a word that changes when it is written again."""
        ...

    def has(self, id: str) -> bool: ...

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """The files that are there, of those named; an error if one is there and does not come."""
        ...

    def path(self, name: str) -> str | None:
        """Where a file is on this machine, if it is, in words that every library understands."""
        ...

    def sizes(self, id: str) -> dict[str, int]:
        """The files of a run, in bytes."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Replace a file in one step."""
        ...

    def publish(self, id: str, files: Mapping[str, bytes]) -> bool:
        """Make a run visible, complete; False if there is one already."""
        ...

    def remove(self, id: str) -> None: ...

    def set_aside(self, id: str) -> str:
        """Move a run to `damaged/`; where it is now."""
        ...

    def sweep_up(self, age: float) -> None:
        """Remove what publishers that were killed left behind, if it is older than `age` seconds."""
        ...

    # Leases: `token` is whoever holds one, and never comes back. At no time do two hold the lease of a run.
    def lease(self, id: str, token: str) -> bool:
        """Take a lease that nobody holds; False if somebody does, or tries to."""
        ...

    def holders(self, id: str) -> set[str]:
        """Whoever holds a lease; where that is not one step, those too who are about to find out."""
        ...

    def release(self, id: str, token: str) -> None:
        """End the lease of `token`, if there is one: its own, or that of somebody who is dead."""
        ...

    def touch(self, name: str, content: bytes) -> None:
        """Say that a file is of now, and write it again if it is gone."""
        ...

    def age(self, name: str) -> float:
        """Seconds since a file was touched; infinite if it is not there."""
        ...

    def forget(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...
