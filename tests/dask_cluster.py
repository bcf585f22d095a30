"""Real Dask schedulers and workers for the tests, each a process of its own; and nouns that misbehave on a worker."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
from conftest import users_threads

import afterfit as af
from afterfit.tasks import SparseRecovery

HERE = Path(__file__).parent


class Ill(SparseRecovery):
    """A task whose draw fails, or ends its process, for chosen seeds' data: what it does depends on `how`."""

    how: str = "well"

    def draw(self, rng):
        if self.how == "raises":
            raise RuntimeError("no such moon")
        if self.how == "quits":
            raise SystemExit("enough")
        if self.how == "kills" and os.environ.get("AFTERFIT_TEST_WORKER", str(os.getpid())) != str(os.getpid()):
            time.sleep(0.2)  # long enough to have said that it began
            os.kill(os.getpid(), signal.SIGKILL)
        return super().draw(rng)


BASE = af.Experiment(
    task=Ill(n=12, sparsity=2, N=6),
    model=af.models.Linear(),
    init=af.inits.Gaussian(),
    penalty=af.penalties.L1(1e-3),
    dynamics=af.dynamics.GradientDescent(0.1, 1000),
    observations=10,
)


class Cluster:
    """A scheduler in a process, and workers that join it."""

    def __init__(self, directory: Path):
        self.directory, self.processes = directory, []
        file = directory / "scheduler.json"
        self.scheduler = self._start("dask_scheduler", "--port", "0", "--scheduler-file", str(file))
        until = time.monotonic() + 60
        while not file.exists() or not file.read_text().strip():
            assert self.scheduler.poll() is None, "the scheduler did not start"
            assert time.monotonic() < until, "the scheduler did not start within a minute"
            time.sleep(0.05)
        self.address = json.loads(file.read_text())["address"]

    def worker(self, name: str, *paths: Path) -> subprocess.Popen:
        """A worker under a nanny; `paths` come first where it looks for packages."""
        return self._start(
            "dask_worker", self.address, "--name", name, "--nthreads", "1", "--local-directory", str(self.directory),
            paths=paths,
        )  # fmt: skip

    def _start(self, module: str, *options: str, paths: tuple[Path, ...] = ()) -> subprocess.Popen:
        search = os.pathsep.join([*map(str, paths), str(HERE), *filter(None, sys.path)])
        with (self.directory / "log.txt").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard", *options],
                env={
                    **users_threads(),
                    "PYTHONPATH": search,
                    "AFTERFIT_TEST_WORKER": "1",
                    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "2",
                },
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def kill_the_work_of(process: subprocess.Popen) -> None:
    """SIGKILL to the worker under a nanny, which starts another."""
    for child in psutil.Process(process.pid).children():
        if "multiprocessing.spawn" in " ".join(child.cmdline()):
            child.kill()


def with_other_version(directory: Path, package: str, version: str) -> Path:
    """A directory that, looked at first, makes a package seem to be of another version."""
    info = directory / f"{package}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    return directory
