"""Jobs on the cores of this machine: one thread each, since compiled code runs without Python's lock."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import queue
import threading
from collections.abc import Callable, Generator, Mapping
from typing import Any

import threadpoolctl

from afterfit.experiment import Experiment
from afterfit.run import Run
from afterfit.spec import SpecError
from afterfit.sweeps.plan import Job, plan
from afterfit.train import run_together

__all__ = ["carry_out", "cores", "do_job", "run_many"]

_MEMORY = 4e9  # bytes that the runs under way may take together, where nobody says otherwise


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def do_job(job: Job, ended: Callable[[Experiment, Run | str], None], show: Callable[[float], None]) -> None:
    """Compute the wanted runs of a job; `ended` is called with each as it ends, or with what went wrong, in words."""
    waiting = set(job.wanted)

    def tell(run: Run, place: int) -> None:
        waiting.discard(place)
        ended(job.experiments[place], run)

    try:
        run_together(job.experiments, wanted=job.wanted, shared=job.shared, show=show, ended=tell)
    except Exception as error:  # of the user's own model as much as of ours: the other jobs go on
        words = str(error) if isinstance(error, SpecError) else f"{type(error).__name__}: {error}"
        for place in sorted(waiting):
            ended(job.experiments[place], words)


class _Stop(BaseException):
    """The sweep was interrupted: raised in a thread where its job reports progress."""


def carry_out(
    next_job: Callable[[], Job | None], memory: float, report: Callable[[float], None]
) -> Generator[tuple[Experiment, Run | str]]:
    """Do jobs until there are no more, one on each core; yields what came of each experiment as soon as it ends.

    `next_job` is asked for one whenever a core is free, and it begins when there is room for it in `memory` bytes;
    `report` is called with how many runs' worth of work is done.
    """
    news: queue.SimpleQueue[Any] = queue.SimpleQueue()  # what came of an experiment; an error; None from an idle thread
    stop, room = threading.Event(), threading.Condition()
    held: dict[int, int] = {}  # bytes, by thread
    under_way: dict[int, float] = {}  # runs' worth of work, by thread

    def work(place: int) -> None:
        done, runs = 0, 0

        def show(share: float) -> None:
            if stop.is_set():
                raise _Stop
            under_way[place] = done + share * runs

        try:
            while not stop.is_set():
                with room:
                    job = next_job()
                    if job is None:
                        break
                    while held and sum(held.values()) + job.bytes > memory and not stop.is_set():
                        room.wait()
                    held[place] = job.bytes
                runs = len(job.wanted)
                try:
                    do_job(job, lambda *what: news.put(what), show)
                finally:
                    with room:
                        del held[place]
                        room.notify_all()
                done += runs
                under_way[place] = done
        except _Stop:
            pass
        except BaseException as error:
            news.put(error)
        finally:
            news.put(None)

    def stop_all() -> None:
        with room:
            stop.set()
            room.notify_all()

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(cores())]
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"), contextlib.ExitStack() as at_end:
        at_end.callback(lambda: [thread.join() for thread in threads if thread.ident])
        at_end.callback(stop_all)
        for thread in threads:
            thread.start()
        busy = len(threads)
        while busy:
            try:
                new = news.get(timeout=0.2)
            except queue.Empty:
                report(sum(under_way.values()))
                continue
            if new is None:
                busy -= 1
            elif isinstance(new, BaseException):
                raise new
            else:
                yield new


def run_many(
    experiments: Mapping[str, Experiment],
    show: Callable[[float], None] = lambda share: None,
    ended: Callable[[str, Run], None] = lambda name, run: None,
) -> dict[str, Run]:
    """Carry out experiments, by name, on all cores, as few programs as they need; nothing is stored.

    `show` is called with the share of work done, `ended` with each run as it ends. One that fails stops them all.
    """
    own = {name: dataclasses.replace(experiment) for name, experiment in experiments.items()}  # each its own object
    names = {id(experiment): name for name, experiment in own.items()}
    jobs = iter(plan(list(own.values()), memory=_MEMORY, workers=cores()))
    runs: dict[str, Run] = {}
    outcomes = carry_out(lambda: next(jobs, None), _MEMORY, lambda done: show(done / len(experiments)))
    with contextlib.closing(outcomes):
        for experiment, run in outcomes:
            name = names[id(experiment)]
            if isinstance(run, str):
                raise SpecError(f"{name}: {run}")
            runs[name] = run
            ended(name, run)
    return {name: runs[name] for name in experiments}
