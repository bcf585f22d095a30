"""Leases: which runs a process is working on, so that no other process does the same.

A lease names its holder, and the holder has a file of its own, `leases/.holders/<token>`, that says which process it
is. A thread touches that one file every few seconds, however many leases there are. A lease is void when its holder's
process is dead, which is known at once on the same machine, or when the file was not touched for a minute.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import socket
import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path

from afterfit._sweeps.store.places import Place

__all__ = ["Leases"]

_BEAT = 5.0  # seconds between two signs of life
_PATIENCE = 60.0  # seconds without one after which a holder on another machine counts as dead


class Leases:
    """The leases of one worker. They end with `release`, with the process, or when nobody holds this object."""

    def __init__(self, place: Place):
        self._place = place
        self._token = secrets.token_hex(16)
        self._held: set[str] = set()
        self._stop: threading.Event | None = None
        self._lock = threading.Lock()
        # Also at the end of the process, however it ends except by force.
        weakref.finalize(self, _leave, place, self._token, self._held, os.getpid())

    def take(self, ids: Iterable[str]) -> set[str]:
        """Those of `ids` that nobody else holds: they are ours now, or were already."""
        with self._lock:
            ids = set(ids)
            if ids - self._held:
                self._start()
            alive = functools.cache(self._is_alive)  # each holder is asked for once
            taken = {id for id in ids - self._held if self._take(id, alive)}
            self._held |= taken
            if not self._held:
                self._end()
            return ids & self._held

    def release(self, ids: Iterable[str]) -> None:
        """Give up leases; those that are not ours are left alone."""
        with self._lock:
            for id in set(ids) & self._held:
                self._place.release(id, self._token)
                self._held.discard(id)
            if not self._held:
                self._end()

    def _take(self, id: str, alive: Callable[[str], bool]) -> bool:
        while not self._place.lease(id, self._token):
            holders = self._place.holders(id)  # none if it was released in between
            if any(map(alive, holders)):
                return False
            for dead in holders:
                self._place.release(id, dead)
        return True

    def _is_alive(self, token: str) -> bool:
        name = _file_of(token)
        try:
            (content,) = self._place.read([name]).values()
            who = json.loads(content)
            machine, pid, began = str(who["machine"]), int(who["pid"]), float(who["began"])
        except (ValueError, KeyError, TypeError):  # no such file, or no holder's: whoever it was is gone
            return False
        alive = _runs(pid, began) if machine == _machine() else self._place.age(name) < _PATIENCE
        if not alive:  # without its file, all its leases are void; one that only slept writes it again
            self._place.forget(name)
        return alive

    def _start(self) -> None:
        """Say who we are, and go on saying so."""
        if self._stop is None:
            self._stop = threading.Event()
            self._place.write(_file_of(self._token), _who_we_are())
            arguments = (self._place, _file_of(self._token), self._stop)
            weakref.finalize(self, self._stop.set)  # the thread must not keep this object alive
            threading.Thread(target=_beat, args=arguments, name="afterfit leases", daemon=True).start()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None
            self._place.forget(_file_of(self._token))


def _beat(place: Place, name: str, stop: threading.Event) -> None:
    content = _who_we_are()
    while not stop.wait(_BEAT):
        with contextlib.suppress(Exception):  # a file system that stumbles now may be well again at the next beat
            place.touch(name, content)


def _leave(place: Place, token: str, held: set[str], pid: int) -> None:
    """Give up everything."""
    if os.getpid() != pid:  # a fork of the process that holds them
        return
    with contextlib.suppress(Exception):  # the store may be gone
        for id in held:
            place.release(id, token)
        place.forget(_file_of(token))


def _file_of(token: str) -> str:
    return f"leases/.holders/{token}"


def _who_we_are() -> bytes:
    import psutil

    began = psutil.Process().create_time()
    return json.dumps({"machine": _machine(), "pid": os.getpid(), "began": began}).encode()


@functools.cache
def _machine() -> str:
    """The host as far as process numbers go: containers of one host have their own."""
    words = [socket.gethostname()]
    with contextlib.suppress(OSError):  # Linux has these
        words += [Path("/proc/sys/kernel/random/boot_id").read_text().strip(), os.readlink("/proc/self/ns/pid")]
    return " ".join(words)


def _runs(pid: int, began: float) -> bool:
    """Whether the process that had this number when it began is still running."""
    import psutil

    try:
        process = psutil.Process(pid)
        # The time is reckoned from the clock, which may be set; a number is not given again within two seconds.
        return abs(process.create_time() - began) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
