"""Slurm: workers as jobs of a queue, through dask-jobqueue."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from afterfit._base.errors import ClusterError, SpecError, require
from afterfit._base.pipes import search_path

__all__ = ["Slurm", "slurm"]

_LOGS = "results/slurm"  # what the jobs print, one file a job
_LOOK = 10.0  # seconds between two questions to Slurm
_TIME = r"(\d+-)?\d+(:\d+){0,2}"  # minutes, h:mm:ss, days-h:mm, as sbatch reads them

_log = logging.getLogger("afterfit.sweeps")


@dataclasses.dataclass(frozen=True)
class Slurm:
    """Where a sweep runs: `jobs` Slurm jobs of `cores` workers each. Made by `slurm`, which says what each is."""

    partition: str | None = None
    jobs: int = 1
    cores: int = 1
    memory: str = "4GB"
    time: str = "1:00:00"
    account: str | None = None
    extra: tuple[str, ...] = ()

    def __post_init__(self):
        for name in ("jobs", "cores"):
            value = getattr(self, name)
            require(type(value) is int and value >= 1, f"slurm {name} must be 1 or more, got {value!r}.")
        require(
            isinstance(self.memory, str) and re.fullmatch(r"\d+(\.\d+)? ?[kMGT]i?B", self.memory) is not None,
            f"slurm memory must be a size such as '4GB' or '500MB', got {self.memory!r}.",
        )
        require(
            isinstance(self.time, str) and re.fullmatch(_TIME, self.time) is not None,
            f"slurm time must be hours:minutes:seconds such as '1:00:00', or days-hours, got {self.time!r}.",
        )
        require(
            not isinstance(self.extra, str) and all(option.startswith("-") for option in self.extra),
            f"slurm extra must be a list of options of sbatch such as ['--exclusive'], got {self.extra!r}.",
        )
        object.__setattr__(self, "extra", tuple(self.extra))

    def job_script(self) -> str:
        """The script that every job runs; the address of the scheduler is filled in when there is one."""
        job = _dask_jobqueue().slurm.SLURMJob("tcp://<scheduler>", name="<worker>", **self._job())
        return job.job_script()

    @contextlib.contextmanager
    def workers(self) -> Iterator[tuple[Any, _Jobs]]:
        """A Dask cluster with its jobs in the queue, and someone to look after them; they are cancelled at the end."""
        os.makedirs(_LOGS, exist_ok=True)  # Slurm does not, and the job fails without a word
        cluster = _dask_jobqueue().SLURMCluster(
            **self._job(), scheduler_options={"dashboard": False, "dashboard_address": ":0"}, silence_logs="critical"
        )
        with cluster:
            jobs = _Jobs(cluster, self.jobs)
            jobs.submit()
            yield cluster, jobs

    def _job(self) -> dict[str, Any]:
        """This, in the words of dask-jobqueue."""
        return {
            "queue": self.partition,
            "account": self.account,
            "cores": self.cores,
            "processes": self.cores,  # one thread each, as on this machine
            "memory": self.memory,
            "walltime": self.time,
            "job_extra_directives": [f"--output={_LOGS}/%j.log", *self.extra],
            "job_name": "afterfit",
            "python": sys.executable,
            "worker_extra_args": ["--no-dashboard"],
            "job_script_prologue": [f"export PYTHONPATH={shlex.quote(search_path())}"],
        }


def slurm(
    partition: str | None = None,
    jobs: int = 1,
    cores: int = 1,
    memory: str = "4GB",
    time: str = "1:00:00",
    account: str | None = None,
    extra: Sequence[str] = (),
) -> Slurm:
    """Say that a sweep runs on Slurm: `jobs` jobs at once, each with `cores` workers that share its `memory`.

    `time` is how long a job may take (hours:minutes:seconds). A job that ends while there is work is submitted again,
    and what it was at is begun anew: it should be several times what a few runs take. `extra` are further options of
    sbatch. This Python, its packages and the working directory must be visible from the nodes.

    ```python
    sweep.run(on=af.slurm(partition="short", jobs=32, memory="2GB", extra=["--exclusive"]))
    print(af.slurm(partition="short").job_script())
    ```
    """
    require(not isinstance(extra, str), f"slurm extra must be a list of options of sbatch, got {extra!r}.")
    return Slurm(partition, jobs, cores, memory, time, account, tuple(extra))


class _Jobs:
    """The jobs of a cluster: submitted, submitted again when they end, and asked about."""

    def __init__(self, cluster: Any, wanted: int):
        self.cluster, self.wanted = cluster, wanted
        self.ended = 0
        self.asked = time.monotonic()

    def submit(self) -> None:
        """Have as many jobs in the queue as wanted; sbatch's refusal is passed on in its own words."""
        try:
            self.cluster.sync(self._submit)
        except (RuntimeError, OSError) as error:
            from distributed.core import Status

            for job in self.cluster.workers.values():
                if job.job_id is None:
                    job.status = Status.failed  # else Dask refuses to close the cluster
            said = re.search(r"stderr:\s*(.*)", str(error), re.DOTALL)
            words = " ".join((said[1] if said else str(error)).split())
            raise ClusterError(f"Slurm did not take the jobs: {words}") from None

    async def _submit(self) -> None:
        # As `scale` does, which would print a traceback of its own if sbatch refused.
        while len(self.cluster.worker_spec) < self.wanted:
            self.cluster.worker_spec.update(self.cluster.new_worker_spec())
        await self.cluster

    def look_after(self, worker_seen: bool) -> None:
        """Submit jobs again that have left the queue: at their time limit, or because a node was lost."""
        if time.monotonic() - self.asked < _LOOK:
            return
        self.asked = time.monotonic()
        queued = self._queue()
        if queued is None:
            return
        ended = [name for name, job in list(self.cluster.workers.items()) if job.job_id not in queued]
        for name in ended:
            self.cluster.workers.pop(name, None)  # Dask's own thread may have
        self.ended += len(ended)
        if not worker_seen and self.ended >= 3 * self.wanted:
            raise ClusterError(
                f"{self.ended} Slurm jobs ended before any worker reached the scheduler: what they said is in {_LOGS}/."
            )
        if len(self.cluster.workers) < self.wanted:
            try:
                self.submit()
            except ClusterError as error:  # Slurm may be busy or restarting: others of our jobs go on meanwhile
                _log.warning("%s; will try again", error)

    def why_none(self) -> str:
        """What Slurm says about the jobs while no worker is there."""
        queued = self._queue()
        if queued is None:
            return "squeue does not answer"
        states = list(queued.values())
        counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
        return f"Slurm says of its jobs: {counts or 'none in the queue'}; what they print is in {_LOGS}/"

    def _queue(self) -> dict[str, str] | None:
        """The jobs that Slurm knows, each with its state and reason; None if it does not answer."""
        ids = [job.job_id for job in list(self.cluster.workers.values())]
        command = ["squeue", "--noheader", "--me", "--format=%i|%T (%r)"]
        try:
            said = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return None
        rows = [line.split("|", 1) for line in said.splitlines() if "|" in line]
        return {id: state for id, state in rows if id in ids}


def _dask_jobqueue() -> Any:
    try:
        import dask_jobqueue
        import dask_jobqueue.slurm
    except ImportError:
        raise SpecError('Slurm needs dask-jobqueue: pip install "afterfit[dask]"') from None
    return dask_jobqueue
