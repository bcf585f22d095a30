"""Jobs on the cores of this machine: one thread each, since compiled code runs without Python's lock."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import traceback
from collections.abc import Callable, Iterator

import threadpoolctl

from afterfit.run import Run
from afterfit.sweep.plan import Job, Outcome
from afterfit.train import run_together

__all__ = ["carry_out", "cores", "do_job"]


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def do_job(job: Job, ended: Callable[[Outcome], None], show: Callable[[float], None]) -> None:
    """Compute the wanted runs of a job; `ended` is called with each as soon as it ends, or with what went wrong."""
    told: set[str] = set()

    def tell(run: Run) -> None:
        if run.status != "interrupted":
            told.add(run.id)
            ended(Outcome(run.id, run.files()))

    try:
        run_together(job.experiments, wanted=job.wanted, shared=job.shared, show=show, ended=tell)
    except Exception as error:  # of the user's own model as much as of ours: the other runs go on
        where = traceback.extract_tb(error.__traceback__)[-1]
        for id in job.ids:
            if id not in told:
                ended(Outcome(id, error=f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"))


class _Stop(BaseException):
    """The sweep was interrupted: raised in a thread where its job reports progress."""


def carry_out(next_job: Callable[[], Job | None], report: Callable[[float], None]) -> Iterator[Outcome]:
    """Do jobs until there are no more, one on each core; yields what came of each run as soon as it ends.

    `next_job` is asked for a job whenever a core is free; `report` is called with how many runs' worth of work is done.
    """
    outcomes: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
    stop, lock = threading.Event(), threading.Lock()
    under_way: dict[int, float] = {}  # runs' worth of work, by thread

    def work(place: int) -> None:
        done = 0.0

        def show(share: float) -> None:
            if stop.is_set():
                raise _Stop
            under_way[place] = done + share * len(job.wanted)

        try:
            while not stop.is_set():
                with lock:
                    job = next_job()
                if job is None:
                    break
                do_job(job, outcomes.put, show)
                done += len(job.wanted)
                under_way[place] = done
        except _Stop:
            pass
        except BaseException as error:
            outcomes.put(error)
        finally:
            outcomes.put(None)

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(cores())]
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"), contextlib.ExitStack() as at_end:
        at_end.callback(lambda: [thread.join() for thread in threads if thread.ident])
        at_end.callback(stop.set)
        for thread in threads:
            thread.start()
        busy = len(threads)
        while busy:
            try:
                outcome = outcomes.get(timeout=0.2)
            except queue.Empty:
                report(sum(under_way.values()))
                continue
            if outcome is None:
                busy -= 1
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                yield outcome
