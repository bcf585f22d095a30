"""A progress bar with an estimate, for anything that takes more than two seconds."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

__all__ = ["progress_bar"]

_PATIENCE = 2.0  # seconds before a bar appears


@contextlib.contextmanager
def progress_bar(
    description: str, show: bool | Callable[[float], None] | None = None, of: int = 1
) -> Iterator[Callable[[float], None]]:
    """Yields a function to call with the share of work done, from 0 to 1; with how many are done, `of` several things.

    `show=None` shows a bar only on a terminal; a function is told instead of a bar. Nothing is drawn, nor is the
    drawing library loaded, unless the work takes longer than two seconds.
    """
    if callable(show):
        yield show
        return
    show = sys.stderr.isatty() if show is None else show
    started = time.monotonic()
    bar, task = None, None

    def update(done: float) -> None:
        nonlocal bar, task
        if not show or time.monotonic() - started < _PATIENCE:
            return
        if bar is None:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TaskProgressColumn,
                TextColumn,
                TimeRemainingColumn,
            )

            count = TaskProgressColumn() if of == 1 else MofNCompleteColumn()
            columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
            bar = Progress(*columns, console=Console(stderr=True), transient=True)
            bar.start()
            task = bar.add_task(description, total=of)
        assert task is not None
        bar.update(task, completed=done)

    try:
        yield update
    finally:
        if bar is not None:
            bar.stop()
