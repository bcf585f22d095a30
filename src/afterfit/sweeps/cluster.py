"""Carrying out batches of experiments on many processes or machines, with dask.distributed.

The client hands out batches and takes back files; what can go wrong on the way (a worker killed, a scheduler gone,
other versions on a worker) is dealt with or said here.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import os
import queue
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from afterfit.experiment import Experiment
from afterfit.spec import SpecError, require
from afterfit.sweeps.slurm import Slurm, search_path
from afterfit.sweeps.worker import (
    PACKAGES,
    TOPIC,
    Outcome,
    VersionMismatch,
    carry_out_batch,
    disagreement,
    id_of,
    in_words,
    versions_of,
)

__all__ = ["Outcome", "carry_out"]

_LIVES = 3  # workers that may die at one batch before it is given up
_PATIENCE = 10.0  # seconds before a scheduler that does not answer counts as lost
_LOOK = 2.0  # seconds between two looks at the workers
_LONELY = 30.0  # seconds without any worker before it is said, and said again

_log = logging.getLogger("afterfit.sweeps")


def carry_out(
    batches: Sequence[Sequence[Experiment]], on: str | Slurm, report: Callable[[float], None]
) -> Iterator[Outcome]:
    """Carry out batches of experiments and yield what became of each run, as soon as its batch is done.

    `on` is `"local"` (one process a core, here), the address of a Dask scheduler (`"tcp://host:8786"`) or `af.slurm(…)`.
    `report` is called with the share of all runs done. A run that fails gives an outcome with its error in words; a
    batch whose worker is killed is begun again elsewhere. Ctrl-C takes back what is left and raises KeyboardInterrupt
    once the finished runs were yielded; a scheduler that is lost raises ConnectionError.
    """
    batches = [batch for batch in batches if batch]
    if not batches:
        return
    with _workers(on, len(batches)) as (scheduler, helper), _client(scheduler, on) as client:
        yield from _Session(client, batches, report, helper).outcomes()


class _Session:
    """One client and its batches, from the first handed out to the last taken back."""

    def __init__(self, client: Any, batches: Sequence[Sequence[Experiment]], report: Callable, helper: Any):
        self.client, self.batches, self.report, self.helper = client, batches, report, helper
        self.name = uuid.uuid4().hex[:12]  # others may use the same scheduler
        self.versions = versions_of(PACKAGES)()
        self.futures: dict[int, Any] = {}  # of the batches that are not done
        self.shares = [0.0] * len(batches)
        self.starts = [0] * len(batches)  # how often a worker began it
        self.kills = [0] * len(batches)  # how often the scheduler gave it up
        self.finished: collections.deque[Outcome] = collections.deque()  # to be yielded
        self.news: queue.SimpleQueue = queue.SimpleQueue()  # from Dask's threads: how far, and what is done
        self.known: set[str] = set()  # workers whose versions were looked at
        self.looked = -float("inf")
        self.company = time.monotonic()  # when there was a worker last, or when its absence was said

    def outcomes(self) -> Iterator[Outcome]:
        self.client.subscribe_topic(TOPIC, lambda event: self.news.put(event[1]))
        try:
            self._look()  # versions first: nothing is handed out before
            for number in range(len(self.batches)):
                self._hand_out(number)
            while self.futures:
                self._wait()
                yield from self._deliver()
        except KeyboardInterrupt:
            self._take_back()
            while not self.news.empty():
                news = self.news.get()
                if isinstance(news, tuple) and isinstance(news[-1], list):
                    self.finished.extend(news[-1])
            yield from self._deliver()
            raise
        finally:
            self._take_back()

    def _deliver(self) -> Iterator[Outcome]:
        while self.finished:
            yield self.finished.popleft()

    def _hand_out(self, number: int) -> None:
        key = f"afterfit-{self.name}-{number}-{self.kills[number]}"
        future = self.client.submit(
            carry_out_batch, key, number, self.batches[number], self.versions, key=key, pure=False
        )
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
            self._finish(number, result)

    def _finish(self, number: int, outcomes: Sequence[Outcome]) -> None:
        self.finished.extend(outcomes)
        del self.futures[number]
        self._reached(number, 1.0)

    def _note_progress(self, news: dict[str, Any]) -> None:
        number = news["batch"]
        future = self.futures.get(number) if news["key"].startswith(f"afterfit-{self.name}-") else None
        if future is None or future.key != news["key"]:
            return  # another client's, or done already
        if news.get("started"):
            self.starts[number] += 1
        self._reached(number, news.get("share", 0.0))

    def _reached(self, number: int, share: float) -> None:
        self.shares[number] = share
        runs = [len(batch) for batch in self.batches]
        self.report(sum(share * count for share, count in zip(self.shares, runs, strict=True)) / sum(runs))

    def _failed(self, number: int, error: BaseException) -> None:
        """A batch that came back without its runs: try again, give it up, or stop if no batch can succeed."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        if isinstance(error, FutureCancelledError):
            raise _lost(self.client)
        if isinstance(error, VersionMismatch):
            raise error
        words = in_words(error)
        if isinstance(error, KilledWorker):
            self.kills[number] += 1
            # The scheduler also blames batches that only waited on a worker that died.
            if self.starts[number] < _LIVES and self.kills[number] < _LIVES:
                self._hand_out(number)
                return
            words = (
                f"given up: {max(self.starts[number], _LIVES)} workers died while they had this batch. The memory or "
                "the time of a job may be too small for it, or the model ends its process"
            )
        else:
            self._check_versions(self.known)  # another afterfit may not even be able to read the batch
        self._finish(number, [Outcome(id_of(experiment), None, words) for experiment in self.batches[number]])

    def _look(self) -> None:
        """See that the scheduler is there, that it has workers, and that new ones have our versions."""
        self.looked = time.monotonic()
        try:
            workers = self.client.sync(self.client.scheduler.identity, n_workers=-1, callback_timeout=_PATIENCE)[
                "workers"
            ]
        except (OSError, TimeoutError, AttributeError):
            raise _lost(self.client) from None
        self._check_versions(set(workers) - self.known)
        self.known = set(workers)
        self.helper.look_after(bool(self.known))
        if workers:
            self.company = time.monotonic()
        elif time.monotonic() - self.company > _LONELY:
            self.company = time.monotonic()
            _log.warning("no worker yet, still waiting: %s", self.helper.why_none())

    def _check_versions(self, workers: set[str]) -> None:
        if not workers:
            return
        found = self.client.run(versions_of(PACKAGES), workers=sorted(workers), on_error="return")
        for worker, versions in found.items():
            if isinstance(versions, dict):  # else it has left since
                different = disagreement(worker, versions, self.versions)
                if different:
                    raise VersionMismatch(different)

    def _take_back(self) -> None:
        """Cancel what is left on the scheduler; workers notice and stop."""
        futures, self.futures = list(self.futures.values()), {}
        if futures and self.client.status == "running":
            with contextlib.suppress(OSError, TimeoutError):
                self.client.cancel(futures, force=True)


def _lost(client: Any) -> ConnectionError:
    address = client.scheduler.address if client.scheduler is not None else "its address"
    return ConnectionError(
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
        raise SpecError(
            f"no Dask scheduler answers at {on}: start one with `dask scheduler`, workers with `dask worker`, or "
            'choose on="local".'
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=2)


@contextlib.contextmanager
def _workers(on: str | Slurm, batches: int) -> Iterator[tuple[Any, Any]]:
    """The scheduler (a cluster or an address) of the workers that `on` means, and who knows about them."""
    try:
        import dask
        import distributed  # noqa: F401
    except ImportError:
        raise SpecError(f'on={on!r} needs Dask: pip install "afterfit[dask]"') from None
    require(
        isinstance(on, Slurm) or on == "local" or (isinstance(on, str) and "://" in on),
        f'on must be "local", the address of a Dask scheduler such as "tcp://host:8786", or af.slurm(…), got {on!r}.',
    )
    with dask.config.set({"distributed.scheduler.allowed-failures": _LIVES - 1}):
        if isinstance(on, Slurm):
            with on.workers() as (cluster, jobs):
                yield cluster, jobs
        elif on == "local":
            with _local(batches) as (cluster, processes):
                yield cluster, processes
        else:
            yield on, _Elsewhere()


class _Elsewhere:
    """Workers that someone else started."""

    def look_after(self, worker_seen: bool) -> None:
        pass

    def why_none(self) -> str:
        return "start some with `dask worker`, with this address and in this environment"


class _Processes:
    """The worker processes of this machine, started by one command as anyone would on a command line."""

    def __init__(self, address: str, count: int):
        self.scratch = tempfile.TemporaryDirectory(prefix="afterfit-", ignore_cleanup_errors=True)
        self.log = Path(self.scratch.name) / "workers.log"
        # Not Dask's own spawning, which would run a user's script again in every worker; and a session of their own,
        # so that Ctrl-C reaches the client alone.
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--local-directory", self.scratch.name]
        command += ["--nworkers", str(count), "--nthreads", "1", "--no-dashboard", "--death-timeout", "60"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": search_path()},
                start_new_session=True,
            )

    def look_after(self, worker_seen: bool) -> None:
        require(self.process.poll() is None, f"the local workers ended by themselves. They said last: {self._last()}")

    def why_none(self) -> str:
        return f"the local workers are starting. They said last: {self._last()}"

    def _last(self) -> str:
        return self.log.read_bytes()[-2000:].decode(errors="replace").strip() or "nothing."

    def end(self) -> None:
        """At once: what they have is nobody's any more, and an orderly end takes seconds."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.scratch.cleanup()


@contextlib.contextmanager
def _local(batches: int) -> Iterator[tuple[Any, _Processes]]:
    from dask.system import CPU_COUNT
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=None, silence_logs=logging.CRITICAL) as cluster:
        processes = _Processes(cluster.scheduler_address, min(CPU_COUNT, batches))
        try:
            yield cluster, processes
        finally:
            processes.end()
