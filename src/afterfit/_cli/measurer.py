"""What measures entries for `verify`, one at a time: `python -m afterfit._cli.measurer`, started by `_apart`."""

from __future__ import annotations

import queue
import threading

from afterfit._base.pipes import Parent
from afterfit._cli._apart import Task
from afterfit._cli._app import cache_compilations
from afterfit._cli.verify import choose_entries, rows_of, runs_in


def main() -> None:
    """Measure entries until there is nobody to measure them for."""
    parent = Parent()
    messages = parent.messages()
    task: Task = next(messages)
    places: queue.SimpleQueue[int] = queue.SimpleQueue()

    def receive() -> None:  # always, so that it hears when the other process is gone
        for place in messages:
            places.put(place)

    threading.Thread(target=receive, daemon=True).start()

    from afterfit.papers._ledger import Ledger

    cache_compilations()
    entries, ledger = choose_entries(task.ids), Ledger(task.ledger)
    while True:
        entry = entries[places.get()]
        with runs_in(task.runs) as store:
            for found in rows_of(entry, task.scale, ledger, task.fresh, lambda share: parent.tell("share", share)):
                parent.tell("row", found)
        parent.tell("asked", store.asked)


if __name__ == "__main__":
    main()
