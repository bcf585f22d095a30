"""Entries of `verify` side by side: a process on every core, each at one entry at a time.

Much of an entry may be one long run, or claims that are checked one after another: entries side by side keep all cores
at work, which the runs of one cannot. The processes are `python -m afterfit._cli.measurer`, and nobody else reads their
pipes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["Task", "measure_apart"]


@dataclasses.dataclass(frozen=True)
class Task:
    """What `verify` was asked for: every process chooses the same entries by it, and is told the places of its own."""

    ids: tuple[str, ...]
    scale: str
    ledger: Path
    runs: Path  # the folder in which runs are kept
    fresh: bool


def measure_apart(
    task: Task, places: Sequence[int], count: int, show: Callable[[float], None]
) -> Iterator[tuple[int, str, Any]]:
    """Measure the entries at these places, in this order, by `count` processes.

    Yields a place, what came, and its value: `row` with what `verify` shows; `asked` with the ids of the runs that the
    entry was checked by, its last; or in its stead `died`, with how its process ended. `show` is called with the
    shares that are done of what each has before its next row, added up.
    """
    news: queue.SimpleQueue[tuple[_Process, str, Any]] = queue.SimpleQueue()
    left = iter(places)
    team = {_Process(task, place, news) for place in itertools.islice(left, count)}
    try:
        while team:
            process, what, value = news.get()
            if process not in team:  # it was ended, since nothing was left for it
                continue
            if what == "share":
                process.share = value
                show(sum(each.share for each in team))
                continue
            process.share = 0.0
            yield process.place, what, value
            if what == "row":
                continue
            place = next(left, None)
            if what == "asked" and place is not None:
                process.begin(place)
                continue
            process.end()
            team.remove(process)
            if place is not None:
                team.add(_Process(task, place, news))
    finally:
        for process in team:
            process.end()


class _Process:
    """One that measures, seen from here. It ends with this process: its input then ends."""

    def __init__(self, task: Task, place: int, news: queue.SimpleQueue):
        from afterfit._sweeps.jobs import search_path

        alone = {"AFTERFIT_CORES": "1", "NPROC": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._news, self.share = news, 0.0
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "afterfit._cli.measurer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **alone, "PYTHONPATH": search_path()},
            start_new_session=True,  # Ctrl-C reaches this process alone
        )
        self._in: Any = self._process.stdin
        self._out: Any = self._process.stdout
        self._send(task)
        self.begin(place)
        threading.Thread(target=self._listen, daemon=True, name="afterfit-apart").start()

    def begin(self, place: int) -> None:
        self.place = place
        self._send(place)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        for file in (self._in, self._out):
            with contextlib.suppress(OSError):
                file.close()

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError):  # it is dead, which the one who listens will tell
            pickle.dump(message, self._in)
            self._in.flush()

    def _listen(self) -> None:
        try:
            while True:
                self._news.put((self, *pickle.load(self._out)))  # noqa: S301  (written by our own process)
        except Exception:  # it has ended, or what it says cannot be read
            self._process.kill()
            code = self._process.wait()
            self._news.put((self, "died", f"signal {-code}" if code < 0 else f"exit code {code}"))
