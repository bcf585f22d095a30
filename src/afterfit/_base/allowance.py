"""How long an answer may take. What takes long asks, as it goes on, whether there is time left.

A report on a run is not to cost more than the run. Who asks for one says how long all of it may take (`within`), and
what is computed for it begins, and goes on, while there is time. What does not is left out, with a sentence.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import time
from collections.abc import Callable, Iterator

from afterfit._base.errors import Unanswered
from afterfit._base.turns import still_wanted

__all__ = ["LEAST", "TimeIsUp", "seconds_left", "time_left", "time_to_factorise", "within"]

LEAST = 5.0  # seconds that a report or an explanation may always take

_EIGENVALUES = 2e-10  # seconds that those of a symmetric m x m matrix take, over m³
_VECTORS = 6e-10  # the same, with eigenvectors or singular ones

_end: contextvars.ContextVar[float] = contextvars.ContextVar("end", default=math.inf)
_show: contextvars.ContextVar[Callable[[], None]] = contextvars.ContextVar("show", default=lambda: None)


class TimeIsUp(Unanswered):
    """It was left out, since it takes longer than was allowed."""


@contextlib.contextmanager
def within(seconds: float, show: Callable[[float], None] | None = None) -> Iterator[None]:
    """What is computed in here has so many seconds, or fewer if it is inside of another such.

    `show` is told the share of them that is over, whenever somebody asks for the time that is left.
    """
    began = time.monotonic()
    end = _end.set(min(_end.get(), began + seconds))
    # Of an endless time no share is ever over.
    look = _show.get() if show is None else lambda: show(min(1.0, (time.monotonic() - began) / seconds))
    shown = _show.set(look)
    try:
        yield
    finally:
        _show.reset(shown)
        _end.reset(end)


def seconds_left() -> float:
    """How many are left of what is allowed here; infinitely many if nobody said anything."""
    return _end.get() - time.monotonic()


def time_left() -> Callable[[float], None]:
    """A function that raises `TimeIsUp` unless `seconds` are left of what is allowed here; any thread may call it."""
    end, show = _end.get(), _show.get()

    def check(seconds: float) -> None:
        still_wanted()
        show()
        if time.monotonic() + seconds > end:
            raise TimeIsUp(
                "left out, to take no longer than the run: ask for it with thorough=True, or --thorough on the command "
                "line"
            )

    return check


def time_to_factorise(m: int, vectors: bool = False) -> None:
    """Raise `TimeIsUp` unless there is time for the eigenvalues of an m x m matrix, or for its `vectors` as well.

    To be asked before: a factorisation cannot be interrupted.
    """
    time_left()((_VECTORS if vectors else _EIGENVALUES) * m**3)
