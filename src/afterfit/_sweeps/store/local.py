"""A store in a directory of this machine, or of a file system that a cluster shares."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from afterfit._base.files import write_atomically
from afterfit._training.experiment import is_id

__all__ = ["Local"]


class Local:
    """A directory. Renaming is atomic: it succeeds for one process only, and nobody sees it half done."""

    def __init__(self, root: Path):
        self.root = root

    @property
    def url(self) -> str:
        return str(self.root)

    def names(self) -> set[str]:
        return {entry.name for entry in _entries(self.root) if not entry.name.startswith(".")}

    def stamps(self) -> dict[str, str]:
        found = {}
        for entry in _entries(self.root):
            with contextlib.suppress(OSError):  # removed since, or a link that leads nowhere
                if is_id(entry.name) and entry.is_dir():
                    found[entry.name] = str(entry.stat().st_mtime_ns)
        return found

    def has(self, id: str) -> bool:
        return (self.root / id).is_dir()

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        contents = ((name, _read(f"{self.root}/{name}")) for name in names)
        return {name: content for name, content in contents if content is not None}

    def path(self, name: str) -> str | None:
        path = os.path.abspath(self.root / name)
        return path if os.fsencode(path) == path.encode(errors="replace") else None

    def sizes(self, id: str) -> dict[str, int]:
        return {entry.name: entry.stat(follow_symlinks=False).st_size for entry in _entries(self.root / id)}

    def write(self, name: str, content: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)

    def publish(self, id: str, files: Mapping[str, bytes]) -> bool:
        temporary = self._temporary()
        temporary.mkdir(parents=True)
        try:
            for name, content in files.items():
                with (temporary / name).open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            _sync(temporary)
            if os.path.lexists(self.root / id) and not self.has(id):  # a file or a dead link in the way
                with contextlib.suppress(FileNotFoundError):  # somebody else was quicker
                    self.set_aside(id)
            published = _rename(temporary, self.root / id)
            _sync(self.root)
            return published
        finally:
            shutil.rmtree(temporary, ignore_errors=True)  # if it is still there

    def remove(self, id: str) -> None:
        temporary = self._temporary()
        with contextlib.suppress(FileNotFoundError):  # somebody else was quicker
            os.rename(self.root / id, temporary)
            if temporary.is_symlink():  # what it leads to is not ours
                temporary.unlink()
        shutil.rmtree(temporary, ignore_errors=True)

    def set_aside(self, id: str) -> str:
        (self.root / "damaged").mkdir(exist_ok=True)
        for k in itertools.count(1):
            place = self.root / "damaged" / f"{id}-{k}"
            if not place.exists() and _rename(self.root / id, place):
                return str(place)
        raise AssertionError

    def sweep_up(self, age: float) -> None:
        for entry in itertools.chain(_entries(self.root), _entries(self.root / "leases")):
            with contextlib.suppress(FileNotFoundError):
                if entry.name.startswith(".tmp-") and time.time() - entry.stat().st_mtime > age:
                    shutil.rmtree(entry.path, ignore_errors=True)

    # A lease is a directory with one file, whose name is the holder's token. It appears with its file in it, by
    # renaming, which takes the place of an empty directory and of nothing else. A token never comes back: whoever
    # removes the file of one that is dead cannot take away the lease of another.

    def lease(self, id: str, token: str) -> bool:
        temporary = self.root / "leases" / f".tmp-{secrets.token_hex(8)}"
        temporary.mkdir(parents=True)
        (temporary / token).touch()
        if _rename(temporary, self.root / "leases" / id):
            return True
        shutil.rmtree(temporary, ignore_errors=True)
        return False

    def holders(self, id: str) -> set[str]:
        return {entry.name for entry in _entries(self.root / "leases" / id)}

    def release(self, id: str, token: str) -> None:
        place = self.root / "leases" / id
        with contextlib.suppress(OSError):  # it is gone, or the lease was taken again since
            (place / token).unlink()
            place.rmdir()

    def touch(self, name: str, content: bytes) -> None:
        try:
            os.utime(self.root / name)
        except FileNotFoundError:
            self.write(name, content)

    def age(self, name: str) -> float:
        try:
            return time.time() - (self.root / name).stat().st_mtime
        except FileNotFoundError:
            return float("inf")

    def forget(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def _temporary(self) -> Path:
        return self.root / f".tmp-{secrets.token_hex(8)}"


def _entries(directory: Path) -> Iterator[os.DirEntry]:
    try:
        with os.scandir(directory) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return


def _read(path: str) -> bytes | None:
    """A file; None if there is none. A pipe or a device is none, and is not waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read()


def _rename(source: Path, target: Path) -> bool:
    """Rename a directory; False if there is one with something in it at the target."""
    try:
        os.rename(source, target)
    except OSError as error:  # what was in the way may be gone by now: the refusal itself says that it was there
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST) or target.is_dir():
            return False
        raise
    return True


def _sync(directory: Path) -> None:
    """Have what a directory holds written to the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
