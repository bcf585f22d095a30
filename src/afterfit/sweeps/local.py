"""Workers on this machine, one process a core."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from afterfit.spec import require
from afterfit.sweeps.threads import cores
from afterfit.sweeps.worker import search_path

__all__ = ["local"]


@contextlib.contextmanager
def local(jobs: int) -> Iterator[tuple[Any, _Processes]]:
    """A scheduler in this process and workers in others, no more than there are jobs; they end with it."""
    from distributed import LocalCluster

    cluster: Any = LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=logging.CRITICAL)
    with cluster:
        processes = _Processes(cluster.scheduler_address, min(cores(), jobs))
        try:
            yield cluster, processes
        finally:
            processes.end()


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
