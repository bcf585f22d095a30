"""Entries of `verify` side by side: a process on every core, each at one entry at a time.

Much of an entry may be one long run, or claims that are checked one after another: entries side by side keep all cores
at work, which the runs of one cannot. The processes are `python -m afterfit._cli.measurer` (`afterfit._base.pipes`).
"""

from __future__ import annotations

import dataclasses
import itertools
import queue
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from afterfit._base.pipes import Child

__all__ = ["Task", "measure_apart"]

_ALONE = {"AFTERFIT_CORES": "1", "NPROC": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # a core each


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
    """One that measures, seen from here."""

    def __init__(self, task: Task, place: int, news: queue.SimpleQueue):
        self.share = 0.0
        self._process = Child(
            "afterfit._cli.measurer", lambda what, value: news.put((self, what, value)), environment=_ALONE
        )
        self._process.send(task)
        self.begin(place)

    def begin(self, place: int) -> None:
        self.place = place
        self._process.send(place)

    def end(self) -> None:
        self._process.end()
