"""Completing a set of runs: what is missing is leased, computed and published, whatever else goes on or goes wrong."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Sequence

from afterfit._base.errors import require
from afterfit._sweeps import cluster, processes
from afterfit._sweeps.plan import Job, Result, plan
from afterfit._sweeps.slurm import Slurm
from afterfit._sweeps.store import Store
from afterfit._training.experiment import Experiment

__all__ = ["complete"]

_LOOK = 0.5  # seconds between two looks at what other processes have done
_OF_A_WORKER = 4e9  # bytes that the runs of a worker of a cluster may take, where nobody says otherwise
_SOMEWHERE = 16  # workers that a plan for a cluster of unknown size reckons with


def complete(
    store: Store,
    experiments: Sequence[Experiment],
    on: str | Slurm | None,
    memory: float | None,
    show: Callable[[float], None],
) -> dict[str, str]:
    """Have the runs of all experiments in the store; what went wrong, by the ids of runs that failed.

    `memory` is in bytes (None: what is usual); `show` is called with how many runs are there, those under way counted
    by their share.
    """
    if on is not None:
        cluster.check_place(on)
    there = set(store.ids())
    lacking = sum(experiment.id not in there for experiment in experiments)
    if not lacking:
        return {}
    if on is None:
        memory = memory or processes.usual_memory()
        workers, room = processes.share_out(memory)
    else:  # a worker has its memory to itself
        workers = on.jobs * on.cores if isinstance(on, Slurm) else _SOMEWHERE
        memory = memory or _OF_A_WORKER
        room = memory * workers
    jobs = plan(experiments, memory=room, workers=workers)
    failures: dict[str, str] = {}
    done = len(experiments) - lacking
    while jobs := _left(jobs, store, failures):
        turn = _Turn(store, jobs, failures)

        def report(runs: float, done: int = done) -> None:
            show(done + runs)

        if on is None:
            results = _on_this_machine(turn, jobs, memory, report)
        else:
            leased = list(iter(turn.next_job, None))
            results = cluster.carry_out(leased, on, report)
        with contextlib.closing(results):
            turn.publish(results)
        if not turn.computed:  # others are at work on all that is left
            time.sleep(_LOOK)
        done += turn.computed
    return failures


def _on_this_machine(
    turn: _Turn, jobs: Sequence[Job], memory: float, report: Callable[[float], None]
) -> Generator[Result]:
    with contextlib.closing(processes.carry_out(turn.next_job, jobs, memory, report)) as ended:
        for experiment, what in ended:
            yield Result.of(experiment, what)


def _left(jobs: Sequence[Job], store: Store, failures: dict[str, str]) -> list[Job]:
    """The jobs with runs that are neither in the store nor failed."""
    settled = {*store.ids(), *failures}
    left = (job.only(id for id in job.ids if id not in settled) for job in jobs)
    return [job for job in left if job.wanted]


class _Turn:
    """One go through the jobs: those that nobody else is at work on."""

    def __init__(self, store: Store, jobs: Sequence[Job], failures: dict[str, str]):
        self._store, self._jobs, self._failures = store, iter(jobs), failures
        self._held: set[str] = set()
        self.computed = 0

    def next_job(self) -> Job | None:
        """A job that is leased to this process; None when there are no more."""
        for job in self._jobs:
            leased = job.only(self._store.lease(job.ids))
            self._held.update(leased.ids)
            if leased.wanted:
                return leased
        return None

    def publish(self, results: Iterable[Result]) -> None:
        """Put every run into the store as it comes."""
        try:
            for result in results:
                require(
                    result.id in self._held,
                    f"a run came back as {result.id}, which was not asked for: what a class or function of its "
                    "computes has changed while it ran, or is something else on the worker.",
                )
                if result.files is None:
                    self._failures[result.id] = result.error
                else:
                    self._store.publish(result.id, result.files)
                self.computed += 1
                self._store.release([result.id])
                self._held.discard(result.id)
        finally:
            self._store.release(self._held)
