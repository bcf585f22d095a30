"""Jobs on the cores of this machine: one process each, this one included.

Each process computes one program at a time (`afterfit._base.turns` says why), and this one begins at once. Helpers take
seconds to start, so they are called only where work is left after that long. They are `python -m
afterfit._sweeps.helper` (`afterfit._base.pipes`).
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import itertools
import queue
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import cloudpickle
import jax

from afterfit._base.errors import RunFailed
from afterfit._base.pipes import Child
from afterfit._base.turns import hearing, in_a_thread
from afterfit._sweeps.jobs import LIVES, Parcel, Watch, cores, describe, given_up, log, work
from afterfit._sweeps.plan import Job, least_seconds, plan
from afterfit._training.experiment import Experiment
from afterfit._training.run import Run

__all__ = ["carry_out", "run_many", "share_out", "usual_memory"]

_HELPER = 0.3e9  # bytes of its own that a helper has before any job: Python with JAX and xarray
_WORTH_HELP = 2.0  # seconds of work after which helpers are called for what is left: about as long as they take to come
_LAST_WORDS = 1.5  # seconds in which those at work may tell how far they were when Ctrl-C came
_CACHE = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


def usual_memory() -> float:
    """Bytes that a sweep may take where nobody says otherwise: enough for a process on every core."""
    return max(4e9, 2 * _HELPER * cores())


def share_out(memory: float) -> tuple[int, float]:
    """How many processes to use within so many bytes, and what they leave to runs: at least half."""
    helpers = min(cores() - 1, int(memory / 2 // _HELPER))
    return 1 + helpers, memory - helpers * _HELPER


@dataclasses.dataclass(eq=False)
class _OpenJob:
    """A job, how many of its runs have come, and how often somebody died of it."""

    job: Job  # what of it is still to come
    came: int = 0  # since it was begun
    deaths: int = 0
    for_helpers: bool = True  # False: it cannot be sent to another process

    def done(self, share: float) -> float:
        """How many runs' worth of work were done beside those that came, given the share since it was begun."""
        return max(0.0, share * (self.came + len(self.job.wanted)) - self.came)


class _Worker(abc.ABC):
    """Somebody who does jobs, one at a time, and puts news into a queue: (worker, what, value)."""

    def __init__(self, name: str, news: queue.SimpleQueue):
        self.name, self.news = name, news
        self.open_job: _OpenJob | None = None
        self.share = 0.0
        self.ready = True

    def tell(self, what: str, value: Any = None) -> None:
        self.news.put((self, what, value))

    @abc.abstractmethod
    def begin(self, job: Job) -> None:
        """Begin a job; ValueError if it cannot be given to this worker."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Ask it to end what it is at, and to tell how far that is."""

    @abc.abstractmethod
    def end(self) -> None:
        """End it now."""


class _Here(_Worker):
    """This process."""

    def __init__(self, news: queue.SimpleQueue):
        super().__init__("this process", news)
        self._stop = threading.Event()
        self._left = threading.Event()  # what it was at, if anything
        self._left.set()

    def begin(self, job: Job) -> None:
        self._left.clear()
        in_a_thread(lambda: self._work(job))

    def _work(self, job: Job) -> None:
        work(job, self.tell, self._stop)
        self._left.set()

    def stop(self) -> None:
        self._stop.set()

    def end(self) -> None:
        self._stop.set()
        self._left.wait(0.5)


class _Helper(_Worker):
    """Another process."""

    def __init__(self, number: int, news: queue.SimpleQueue):
        super().__init__(f"helper {number}", news)
        self.ready = False
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._process = Child("afterfit._sweeps.helper", self.tell, log=self._log)
        self._process.send({name: getattr(jax.config, name) for name in _CACHE})

    def begin(self, job: Job) -> None:
        try:
            content = cloudpickle.dumps(job)
        except Exception as error:  # whatever a user's object raises when it is to be written down
            raise ValueError(str(error)) from error
        self._process.send(("job", content))

    def stop(self) -> None:
        self._process.send(("stop", None))

    def end(self) -> None:
        self._process.end()
        self._log.close()

    def last_words(self) -> str:
        self._log.seek(0)
        return self._log.read()[-2000:].decode(errors="replace").strip() or "nothing"


class _Team:
    """Those at work in this sweep, and what they are at. Everything but the work is done by the calling thread."""

    def __init__(
        self,
        next_job: Callable[[], Job | None],
        jobs: Sequence[Job],
        memory: float,
        report: Callable[[float], None],
        halves: bool,
    ):
        import xarray  # noqa: F401  (before there are threads: two that import it first wait for each other)

        self.next_job, self.report, self.halves = next_job, report, halves
        processes, self.memory = share_out(memory)
        self.news: queue.SimpleQueue[tuple[_Worker, str, Any]] = queue.SimpleQueue()
        self.workers: list[_Worker] = [_Here(self.news)]
        self.helpers_wanted = min(processes, len(jobs)) - 1
        self.numbers = itertools.count(1)  # of helpers
        self.waiting: deque[_OpenJob] = deque()  # taken, and given to nobody yet
        self.done = 0
        self.watch = Watch()
        self.call_at = time.monotonic() + (0.0 if least_seconds(jobs) > 2 * _WORTH_HELP else _WORTH_HELP)

    def results(self) -> Iterator[tuple[Experiment, Run | str]]:
        try:
            while self._give_out():
                self._call_help()
                yield from self._hear(timeout=0.2)
                self.report(self.done + sum(w.open_job.done(w.share) for w in self.workers if w.open_job))
                self.watch.look(self._at)
        except KeyboardInterrupt:
            if self.halves:
                yield from self._stop()
            raise
        finally:
            for worker in self.workers:
                worker.end()

    def _at(self) -> Iterator[str]:
        """What everybody is at."""
        for worker in self.workers:
            if worker.open_job is not None:
                yield f"{worker.name} has {describe(worker.open_job.job, worker.share)}"

    @property
    def busy(self) -> list[_Worker]:
        return [worker for worker in self.workers if worker.open_job is not None]

    def _give_out(self) -> bool:
        """Give every idle worker a job, as far as there is room for it; False if there is nothing left to wait for."""
        for worker in self.workers:
            if worker.open_job is not None or not worker.ready:
                continue
            open_job = self._next_for(worker)
            if open_job is None:
                continue
            try:
                worker.begin(open_job.job)
            except ValueError:  # then only this process can do it
                open_job.for_helpers = False
                self.waiting.appendleft(open_job)
                continue
            worker.open_job, worker.share, open_job.came = open_job, 0.0, 0
            self.watch.move()
        return bool(self.busy or self.waiting)

    def _next_for(self, worker: _Worker) -> _OpenJob | None:
        """A job that this worker may have now: not one that a helper died of, if it is this process."""
        held = sum(other.open_job.job.bytes for other in self.workers if other.open_job)
        here, alone = isinstance(worker, _Here), len(self.workers) == 1
        for open_job in [*self.waiting, None]:
            if open_job is None:
                if len(self.waiting) >= len(self.workers):  # others may have what is not taken
                    return None
                job = self.next_job()
                if job is None:
                    return None
                open_job = _OpenJob(job)
                self.waiting.append(open_job)
            mine = (alone or not open_job.deaths or not open_job.for_helpers) if here else open_job.for_helpers
            if mine and (not held or held + open_job.job.bytes <= self.memory):
                self.waiting.remove(open_job)
                return open_job
        return None

    def _call_help(self) -> None:
        """Start helpers once the work has turned out to be long, and there is some for them."""
        if self.helpers_wanted <= 0 or time.monotonic() < self.call_at:
            return
        if not self.waiting and (job := self.next_job()) is not None:
            self.waiting.append(_OpenJob(job))
        if not any(open_job.for_helpers for open_job in self.waiting):
            return
        for _ in range(self.helpers_wanted):
            self.workers.append(_Helper(next(self.numbers), self.news))
        self.helpers_wanted = 0

    def _hear(self, timeout: float) -> Iterator[tuple[Experiment, Run | str]]:
        """Listen for a moment: what came of experiments."""
        try:
            worker, what, value = self.news.get(timeout=timeout)
        except queue.Empty:
            return
        if what == "share":
            if value > worker.share:
                self.watch.move()
            worker.share = value
            return
        self.watch.move()
        if what == "ready":
            worker.ready = True
        elif what == "died":
            yield from self._bury(worker)
        elif worker.open_job is None:
            raise AssertionError(f"{worker.name} says {what!r} and has no job")
        elif what == "done":
            worker.open_job = None
        elif what == "refused":  # it cannot be read there: this process can do it
            worker.open_job.for_helpers = False
            self.waiting.appendleft(worker.open_job)
            worker.open_job = None
        else:
            open_job = worker.open_job
            place, run = (value.place, value.unpack(open_job.job)) if isinstance(value, Parcel) else value
            experiment = open_job.job.experiments[place]
            open_job.job = dataclasses.replace(open_job.job, wanted=tuple(k for k in open_job.job.wanted if k != place))
            open_job.came += 1
            self.done += 1
            yield experiment, run

    def _bury(self, worker: _Worker) -> Iterator[tuple[Experiment, Run | str]]:
        """A helper has died: what it had is done by somebody else, unless others died of it too."""
        assert isinstance(worker, _Helper)
        self.workers.remove(worker)
        open_job, last = worker.open_job, worker.last_words()
        worker.end()
        if not worker.ready:  # the others would not come either
            log.warning("%s did not start; the others go on without it. It said last: %s", worker.name, last)
            return
        self.workers.append(_Helper(next(self.numbers), self.news))
        if open_job is None:
            return
        open_job.deaths += 1
        if open_job.deaths < LIVES:
            self.waiting.appendleft(open_job)
            return
        for place in open_job.job.wanted:
            yield open_job.job.experiments[place], given_up(open_job.deaths)
        self.done += len(open_job.job.wanted)

    def _stop(self) -> Iterator[tuple[Experiment, Run | str]]:
        """Ask everybody to stop, and wait a moment for what they have."""
        for worker in self.busy:
            worker.stop()
        until = time.monotonic() + _LAST_WORDS
        while self.busy and (left := until - time.monotonic()) > 0:
            yield from self._hear(timeout=left)


def carry_out(
    next_job: Callable[[], Job | None],
    jobs: Sequence[Job],
    memory: float,
    report: Callable[[float], None],
    *,
    halves: bool = False,
) -> Generator[tuple[Experiment, Run | str]]:
    """Do jobs until there are no more, one on each core; yields what came of each experiment as soon as it ends.

    `next_job` is asked for one of `jobs` whenever a core is free (others may have done some), and it begins when there
    is room for it in what helpers leave of `memory` bytes; `report` is called with how many runs' worth of work is
    done. A job whose process is killed is begun again. Ctrl-C raises KeyboardInterrupt; with `halves` those under way
    are yielded before, as far as they are.
    """
    yield from _Team(next_job, jobs, memory, report, halves).results()


def run_many(
    experiments: Mapping[str, Experiment],
    show: Callable[[float], None] = lambda share: None,
    ended: Callable[[str, Run], None] = lambda name, run: None,
) -> dict[str, Run]:
    """Carry out experiments, by name, on all cores, as few programs as they need; nothing is stored.

    `show` is called with the share of work done, `ended` with each run as it ends, on Ctrl-C with those interrupted
    too. One that fails stops them all.
    """
    own = {name: dataclasses.replace(experiment) for name, experiment in experiments.items()}  # each its own object
    names = {id(experiment): name for name, experiment in own.items()}
    memory = usual_memory()
    workers, room = share_out(memory)
    jobs = plan(list(own.values()), memory=room, workers=workers)
    left = iter(jobs)
    runs: dict[str, Run] = {}
    share = len(experiments)
    results = carry_out(lambda: next(left, None), jobs, memory, lambda done: show(done / share), halves=True)
    with hearing(), contextlib.closing(results):
        for experiment, run in results:
            name = names[id(experiment)]
            if isinstance(run, str):
                raise RunFailed(f"{name}: {run}")
            runs[name] = run
            ended(name, run)
    return {name: runs[name] for name in experiments}
