"""Jobs on many processes or machines, with dask.distributed.

The client hands out jobs and takes back files; what can go wrong on the way (a worker killed, a scheduler gone,
other versions on a worker) is dealt with or said here.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib.metadata
import platform
import queue
import time
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Protocol

from afterfit._base.errors import ClusterError, SpecError, VersionMismatch, error_in_words, require
from afterfit._sweeps.jobs import LIVES, Parcel, Watch, describe, given_up, log
from afterfit._sweeps.plan import Job, Result
from afterfit._sweeps.slurm import Slurm
from afterfit._sweeps.worker import TOPIC, carry_out_job, check_versions
from afterfit._training.run import PACKAGES, versions_here

__all__ = ["carry_out", "check_place"]

_PATIENCE = 10.0  # seconds before a scheduler that does not answer counts as lost
_LOOK = 2.0  # seconds between two looks at the workers
_LONELY = 30.0  # seconds without any worker before it is said, and said again


def carry_out(jobs: Sequence[Job], on: str | Slurm, report: Callable[[float], None]) -> Generator[Result, None, None]:
    """Do jobs and yield what came of each of their wanted runs, as soon as its job is done.

    `on` is the address of a Dask scheduler (`"tcp://host:8786"`), or `af.slurm(…)`.
    `report` is called with how many runs' worth of work is done. A run that fails gives a result with its error in
    words; a job whose worker is killed is begun again elsewhere. Ctrl-C takes back what is left and raises
    KeyboardInterrupt once the finished runs were yielded; a scheduler that is lost raises ClusterError.
    """
    if jobs:
        with _workers(on) as (scheduler, provider), _client(scheduler, on) as client:
            yield from _Session(client, jobs, report, provider).results()


class _Provider(Protocol):
    """Who started the workers and knows about them."""

    def look_after(self, worker_seen: bool) -> None:
        """Called every few seconds; refuses if there will never be a worker. Was there any so far?"""
        ...

    def why_none(self) -> str:
        """In words, why there may be no worker."""
        ...


class _Session:
    """One client and its jobs, from the first handed out to the last taken back."""

    def __init__(self, client: Any, jobs: Sequence[Job], report: Callable[[float], None], provider: _Provider):
        self.client, self.jobs, self.report, self.provider = client, jobs, report, provider
        self.name = uuid.uuid4().hex[:12]  # others may use the same scheduler
        self.versions = versions_here()
        self.futures: dict[int, Any] = {}  # of the jobs that are not done
        self.shares = [0.0] * len(jobs)
        self.starts = [0] * len(jobs)  # how often a worker began it
        self.kills = [0] * len(jobs)  # how often the scheduler gave it up
        self.finished: collections.deque[Result] = collections.deque()  # to be yielded
        self.news: queue.SimpleQueue = queue.SimpleQueue()  # from Dask's threads: how far, and what is done
        self.known: set[str] = set()  # workers whose versions were looked at
        self.worker_seen = False
        self.looked = -float("inf")
        self.company = time.monotonic()  # when there was a worker last, or when its absence was said
        self.watch = Watch()

    def results(self) -> Iterator[Result]:
        self.client.subscribe_topic(TOPIC, lambda event: self.news.put(event[1]))
        try:
            self._look()  # versions first: nothing is handed out before
            for number in range(len(self.jobs)):
                self._hand_out(number)
            while self.futures:
                self._wait()
                yield from self._deliver()
        except (Exception, KeyboardInterrupt):  # whatever ends it, what is done is done
            self._take_back()
            while not self.news.empty():
                news = self.news.get()
                if isinstance(news, tuple) and isinstance(news[-1], list):
                    self.finished.extend(self._unpack(news[0], news[-1]))
            yield from self._deliver()
            raise
        finally:
            self._take_back()

    def _deliver(self) -> Iterator[Result]:
        while self.finished:
            yield self.finished.popleft()

    def _hand_out(self, number: int) -> None:
        key = f"afterfit-{self.name}-{number}-{self.kills[number]}"
        try:
            future = self.client.submit(
                carry_out_job, key, number, self.jobs[number], self.versions, key=key, pure=False
            )
        except TypeError as error:
            raise SpecError(
                f"an experiment cannot be sent to a worker: {error.__cause__ or error}. Its classes and functions may "
                "not refer to open files, locks or the like."
            ) from None
        self.futures[number] = future
        future.add_done_callback(functools.partial(self._done, number))

    def _done(self, number: int, future: Any) -> None:
        """Called in a thread of Dask's, which fetches the files while this one goes on listening."""
        try:
            self.news.put((number, future, future.result()))
        except BaseException as error:  # Dask's cancellation is not an Exception
            self.news.put((number, future, error))

    def _wait(self) -> None:
        """Listen for a moment, and look at the workers every now and then."""
        with contextlib.suppress(queue.Empty):
            self._hear(self.news.get(timeout=_LOOK / 4))
        if time.monotonic() - self.looked >= _LOOK:
            self._look()
            self.watch.look(self._at)

    def _at(self) -> Iterator[str]:
        """What the workers are at."""
        begun = [number for number in self.futures if self.starts[number]]
        for number in begun:
            yield f"a worker has {describe(self.jobs[number], self.shares[number])}"
        yield f"{len(self.futures) - len(begun)} jobs wait for {len(self.known)} workers"

    def _hear(self, news: Any) -> None:
        if isinstance(news, dict):
            self._note_progress(news)
            return
        number, future, result = news
        if self.futures.get(number) is not future:
            return  # of an earlier attempt
        if isinstance(result, BaseException):
            self._failed(number, result)
        else:
            self._finish(number, self._unpack(number, result))

    def _unpack(self, number: int, parcels: Sequence[Parcel]) -> list[Result]:
        job = self.jobs[number]
        return [Result.of(job.experiments[parcel.place], parcel.unpack(job)) for parcel in parcels]

    def _finish(self, number: int, results: Sequence[Result]) -> None:
        self.finished.extend(results)
        del self.futures[number]
        self._reached(number, 1.0)

    def _note_progress(self, news: dict[str, Any]) -> None:
        number = news["job"]
        future = self.futures.get(number) if news["key"].startswith(f"afterfit-{self.name}-") else None
        if future is None or future.key != news["key"]:
            return  # another client's, or done already
        if news.get("started"):
            self.starts[number] += 1
        self._reached(number, news.get("share", 0.0))

    def _reached(self, number: int, share: float) -> None:
        if share > self.shares[number]:
            self.watch.move()
        self.shares[number] = share
        self.report(sum(share * len(job.wanted) for share, job in zip(self.shares, self.jobs, strict=True)))

    def _failed(self, number: int, error: BaseException) -> None:
        """A job that came back without its runs: try again, give it up, or stop if no job can succeed."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        if isinstance(error, FutureCancelledError):
            raise _lost(self.client)
        if isinstance(error, VersionMismatch):
            raise error
        words = error_in_words(error)
        if isinstance(error, KilledWorker):
            self.kills[number] += 1
            # The scheduler also blames jobs that only waited on a worker that died.
            if self.starts[number] < LIVES and self.kills[number] < LIVES:
                self._hand_out(number)
                return
            words = given_up(max(self.starts[number], LIVES))
        else:  # is it the job? A lost connection, or another afterfit that cannot even read it, is said as such
            self.known.clear()
            self._look()
        self._finish(number, [Result(id, error=words) for id in self.jobs[number].ids])

    def _look(self) -> None:
        """See that the scheduler is there, that it has workers, and that new ones have our versions."""
        self.looked = time.monotonic()
        identity = functools.partial(self.client.scheduler.identity, n_workers=-1)
        try:
            workers = self.client.sync(identity, callback_timeout=_PATIENCE)["workers"]
        except (OSError, TimeoutError):
            raise _lost(self.client) from None
        self._check_versions({address: workers[address]["name"] for address in workers if address not in self.known})
        self.known = set(workers)
        self.worker_seen |= bool(workers)
        self.provider.look_after(self.worker_seen)
        if workers:
            self.company = time.monotonic()
        elif time.monotonic() - self.company > _LONELY:
            self.company = time.monotonic()
            log.warning("no worker is there, still waiting: %s", self.provider.why_none())

    def _check_versions(self, workers: Mapping[str, str]) -> None:
        """Refuse workers (names by address) whose versions are not ours."""
        if not workers:
            return
        # Functions of the standard library: a worker that has no afterfit, or another Python, can call them too.
        ask = functools.partial(self.client.run, workers=list(workers), on_error="return")
        found = {"python": ask(platform.python_version)}
        found |= {package: ask(importlib.metadata.version, package) for package in PACKAGES}
        for address, name in workers.items():
            there = {package: answers[address] for package, answers in found.items()}
            if not any(isinstance(answer, OSError) for answer in there.values()):  # else it has left since
                check_versions(f"{name} ({address})", there, self.versions)

    def _take_back(self) -> None:
        """Cancel what is left on the scheduler; workers notice and stop."""
        futures, self.futures = list(self.futures.values()), {}
        if futures and self.client.status == "running":
            with contextlib.suppress(OSError, TimeoutError):
                self.client.cancel(futures, force=True)


def _lost(client: Any) -> ClusterError:
    address = client.scheduler.address if client.scheduler is not None else "its address"
    return ClusterError(
        f"the scheduler at {address} is gone, or does not answer. Runs that were finished are kept: start the "
        "scheduler and its workers again, and this sweep again, which then does only what is missing."
    )


@contextlib.contextmanager
def _client(scheduler: Any, on: str | Slurm) -> Iterator[Any]:
    """A client of a scheduler that answers."""
    from distributed import Client

    try:
        client = Client(scheduler, timeout=_PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError):
        raise ClusterError(
            f"no Dask scheduler answers at {on}: start one with `dask scheduler` and workers with `dask worker`, or "
            "leave `on` out to use the cores of this machine."
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=2)


def check_place(on: Any) -> None:
    """Refuse what is no place for a sweep."""
    require(
        isinstance(on, Slurm) or (isinstance(on, str) and "://" in on),
        f'on must be the address of a Dask scheduler such as "tcp://host:8786", or af.slurm(…), got {on!r}. Leave it '
        "out to use the cores of this machine.",
    )


@contextlib.contextmanager
def _workers(on: str | Slurm) -> Iterator[tuple[Any, _Provider]]:
    """The scheduler (a cluster or an address) of the workers that `on` means, and who knows about them."""
    check_place(on)
    try:
        import dask
        import distributed  # noqa: F401
    except ImportError:
        raise SpecError(f'on={on!r} needs Dask: pip install "afterfit[dask]"') from None
    with dask.config.set({"distributed.scheduler.allowed-failures": LIVES - 1}):
        if isinstance(on, Slurm):
            with on.workers() as (cluster, queue_of_jobs):
                yield cluster, queue_of_jobs
        else:
            yield on, _StartedByOthers()


class _StartedByOthers:
    """Workers that someone else started."""

    def look_after(self, worker_seen: bool) -> None:
        pass

    def why_none(self) -> str:
        return "start some with `dask worker`, with this address and in this environment"
