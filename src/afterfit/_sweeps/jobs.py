"""Doing a job: its runs as they end, what goes from process to process, and how it is with those who are at work."""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from afterfit._base.errors import error_in_words, require
from afterfit._sweeps.plan import Job
from afterfit._training.run import Run
from afterfit._training.train import run_together

__all__ = ["LIVES", "Parcel", "Watch", "cores", "describe", "do_job", "given_up", "log", "work"]

LIVES = 3  # processes that may die at one job before it is given up

log = logging.getLogger("afterfit.sweeps")


def cores() -> int:
    """How many cores this process may use, with its helpers: AFTERFIT_CORES of those that it is allowed."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = os.environ.get("AFTERFIT_CORES") or str(allowed)
    require(told.isdecimal() and int(told) > 0, f"AFTERFIT_CORES wants a number of cores, such as 1, got {told!r}.")
    return min(int(told), allowed)


def given_up(deaths: int) -> str:
    """What is said of a job that nobody survives."""
    return (
        f"given up: {deaths} workers died while they had this job. The memory or the time that it is given may be too "
        "little, or the model ends its process."
    )


def do_job(
    job: Job,
    ended: Callable[[int, Run | str], None],
    show: Callable[[float], None],
    stop: threading.Event | None = None,
) -> None:
    """Compute the wanted runs of a job; `ended` is called with the place of each, and the run or what went wrong.

    Once `stop` is set, runs under way end as they are (interrupted), and KeyboardInterrupt is raised if there are none.
    """
    waiting = set(job.wanted)

    def tell(run: Run, place: int) -> None:
        waiting.discard(place)
        ended(place, run)

    try:
        run_together(job.experiments, wanted=job.wanted, shared=job.shared, show=show, ended=tell, stop=stop)
    except (Exception, SystemExit) as error:  # of the user's own model as much as of ours: the other jobs go on
        for place in sorted(waiting):
            ended(place, error_in_words(error))


def work(job: Job, tell: Callable[[str, Any], None], stop: threading.Event) -> None:
    """Do a job and tell of it: `ended` with each place and what came of it, `share` done, and at last `done`."""
    try:
        do_job(job, lambda place, what: tell("ended", (place, what)), lambda share: tell("share", share), stop)
    except KeyboardInterrupt:  # stopped before there was anything to keep
        pass
    except BaseException as error:
        tell("ended", (job.wanted[0], error_in_words(error)))
    tell("done", None)


@dataclasses.dataclass(frozen=True)
class Parcel:
    """What came of one run, on its way from another process: what this side knows already stays there."""

    place: int
    run: Run | None
    dynamics: Any = None  # with what a flow decided
    error: str = ""

    @classmethod
    def pack(cls, place: int, what: Run | str) -> Parcel:
        """For the way: a run, or what went wrong."""
        if isinstance(what, str):
            return cls(place, None, error=what)
        return cls(place, dataclasses.replace(what, origin=None), what.experiment.dynamics)

    def unpack(self, job: Job) -> Run | str:
        """What came of the run of `job` that it is of."""
        if self.run is None:
            return self.error
        asked = job.experiments[self.place]
        if self.run.id != asked.id_if_any:  # modules are loaded there from their files as these are now
            return (
                f"another process computed {self.run.id or 'something without a name'} in place of {asked.id_if_any}: "
                "a file with a class or function of yours was edited after it was loaded here. Start Python again."
            )
        return dataclasses.replace(self.run, origin=dataclasses.replace(asked, dynamics=self.dynamics))


class Watch:
    """Says so when nothing has moved for a while."""

    _STILL = 120.0  # seconds

    def __init__(self) -> None:
        self._moved = self._said = time.monotonic()

    def move(self) -> None:
        """Something has moved."""
        self._moved = self._said = time.monotonic()

    def look(self, at: Callable[[], Iterable[str]]) -> None:
        """Complain if nothing has; `at` tells, one sentence a worker, what each is at."""
        now = time.monotonic()
        if now - self._said >= self._STILL:
            self._said = now
            still = f"nothing has moved for {(now - self._moved) / 60:.0f} min"
            log.warning("%s: %s. Ctrl-C ends it, and keeps the runs that are done.", still, "; ".join(at()))


def describe(job: Job, share: float) -> str:
    """What somebody is at: a job in words."""
    first = job.experiments[job.wanted[0]]
    kinds = f"{type(first.task).__name__}, {type(first.model).__name__}, seed {first.seed}"
    runs = f"{len(job.wanted)} runs such as {kinds}" if len(job.wanted) > 1 else kinds
    return f"{runs}: {share:.0%} done" if share > 0 else f"{runs}: being compiled, or at their first steps"
