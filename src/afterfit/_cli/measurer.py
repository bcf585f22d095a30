"""A process that measures entries for `verify`, one at a time: `python -m afterfit._cli.measurer`, started by `_apart`.

It reads from its standard input what to measure and writes to its standard output what it found, pickled.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import sys
import threading
from typing import Any

from afterfit._cli._apart import Task
from afterfit._cli._app import cache_compilations
from afterfit._cli.verify import choose_entries, rows_of, runs_in


def main() -> None:
    """Measure entries until there is nobody to measure them for."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an entry prints must not get between
    read = sys.stdin.buffer
    task: Task = pickle.load(read)  # noqa: S301  (written by our own process)
    places: queue.SimpleQueue[int] = queue.SimpleQueue()

    def receive() -> None:
        with contextlib.suppress(EOFError):
            while True:
                places.put(pickle.load(read))  # noqa: S301
        os._exit(0)  # whatever it is doing: there is nobody to tell

    threading.Thread(target=receive, daemon=True).start()

    from afterfit.papers._ledger import Ledger

    def tell(what: str, value: Any) -> None:
        pickle.dump((what, value), out)
        out.flush()

    cache_compilations()
    entries, ledger = choose_entries(task.ids), Ledger(task.ledger)
    while True:
        entry = entries[places.get()]
        with runs_in(task.runs) as store:
            for found in rows_of(entry, task.scale, ledger, task.fresh, lambda share: tell("share", share)):
                tell("row", found)
        tell("asked", store.asked)


if __name__ == "__main__":
    main()
