"""A store on any file system that fsspec can reach."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Iterable, Mapping
from typing import Any

from afterfit._base.files import SUMS
from afterfit._training.experiment import is_id

__all__ = ["Remote"]

_MOMENT = 0.05  # seconds at most before a lease that two wanted at once is tried again


class Remote:
    """A file system of fsspec, such as a bucket, which renames nothing in one step: checksums are written last."""

    def __init__(self, filesystem: Any, root: str, url: str):
        self.filesystem, self.root = filesystem, root.rstrip("/")
        self.url = url.rstrip("/")

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def names(self) -> set[str]:
        self.filesystem.invalidate_cache()
        try:
            listed = self.filesystem.ls(self.root, detail=False)
        except FileNotFoundError:
            return set()
        return {name for path in listed if not (name := path.rstrip("/").rsplit("/", 1)[-1]).startswith(".")}

    def stamps(self) -> dict[str, str]:
        self.filesystem.invalidate_cache()
        found = {}
        for path, info in self.filesystem.find(self.root, maxdepth=2, detail=True).items():
            id, _, name = path.removeprefix(f"{self.root}/").partition("/")
            if name == SUMS and is_id(id):
                found[id] = str([info.get(word) for word in ("ETag", "etag", "mtime", "LastModified", "created")])
        return found

    def has(self, id: str) -> bool:
        self.filesystem.invalidate_cache()
        return self.filesystem.exists(self._path(f"{id}/{SUMS}"))

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        by_path = {self._path(name): name for name in names}
        if not by_path:
            return {}
        found = {}
        for path, content in self.filesystem.cat(list(by_path), on_error="return").items():
            if isinstance(content, FileNotFoundError | NotADirectoryError | IsADirectoryError):
                continue
            if isinstance(content, Exception):  # a file that did not come is not one that is not there
                raise content
            found[by_path[path]] = content
        return found

    def path(self, name: str) -> str | None:
        return None

    def sizes(self, id: str) -> dict[str, int]:
        listed = self.filesystem.ls(self._path(id), detail=True)
        return {info["name"].rsplit("/", 1)[-1]: info["size"] for info in listed}

    def write(self, name: str, content: bytes) -> None:
        self.filesystem.makedirs(self._path(name).rsplit("/", 1)[0], exist_ok=True)
        self.filesystem.pipe_file(self._path(name), content)

    def publish(self, id: str, files: Mapping[str, bytes]) -> bool:
        if self.has(id):
            return False
        for name in sorted(files, key=lambda name: name == SUMS):
            self.write(f"{id}/{name}", files[name])
        return True

    def remove(self, id: str) -> None:
        self.forget(f"{id}/{SUMS}")  # first: from here on it is not seen
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.rm(self._path(id), recursive=True)

    def set_aside(self, id: str) -> str:
        taken = (f"damaged/{id}-{k}" for k in itertools.count(1))
        place = next(name for name in taken if not self.filesystem.exists(self._path(name)))
        for name, content in self.read(f"{id}/{name}" for name in self.sizes(id)).items():
            self.write(f"{place}/{name.rsplit('/', 1)[-1]}", content)
        self.remove(id)
        return f"{self.url}/{place}"

    def sweep_up(self, age: float) -> None:
        """What a killed publisher leaves is written over by the next one."""

    # A lease is a file that is named by its holder's token. Not every place can make a file only if there is none, but
    # what was written is listed at once. So whoever wants a lease writes his file, and has it if it is then the only
    # one; else he takes it back and, after a moment, looks again. Of two, the one who listed first had written before
    # the other listed: both cannot be alone. A token never comes back: whoever
    # removes the file of one that is dead cannot take away the lease of another.

    def lease(self, id: str, token: str) -> bool:
        self.write(f"leases/{id}/{token}", b"")
        if self.holders(id) == {token}:
            return True
        self.release(id, token)
        time.sleep(random.uniform(0, _MOMENT))  # not the same for two that got in each other's way
        return False

    def holders(self, id: str) -> set[str]:
        self.filesystem.invalidate_cache()
        try:
            listed = self.filesystem.ls(self._path(f"leases/{id}"), detail=False)
        except FileNotFoundError:
            return set()
        return {path.rstrip("/").rsplit("/", 1)[-1] for path in listed}

    def release(self, id: str, token: str) -> None:
        self.forget(f"leases/{id}/{token}")

    def touch(self, name: str, content: bytes) -> None:
        self.write(name, content)

    def age(self, name: str) -> float:
        self.filesystem.invalidate_cache()
        try:
            return time.time() - self.filesystem.modified(self._path(name)).timestamp()
        except FileNotFoundError:
            return float("inf")

    def forget(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.rm_file(self._path(name))
