"""A real Slurm of one node, for the tests: its own daemons, ports and key, all in one temporary directory.

Needs Debian's slurmctld, slurmd, slurm-client and munge; tests that ask for it are skipped where it cannot be had.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

_SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
_DAEMONS = ("munged", "slurmctld", "slurmd")
_COMMANDS = ("sbatch", "scancel", "scontrol", "sinfo", "squeue")


@pytest.fixture(scope="module")
def slurm_node():
    """Slurm's commands work inside this fixture, with one node of this machine's cores in partition `short`."""
    missing = [name for name in (*_DAEMONS, *_COMMANDS) if shutil.which(name, path=_SBIN) is None]
    if missing:
        pytest.skip(f"no Slurm here: {', '.join(missing)} missing (Debian: slurmctld slurmd slurm-client munge)")
    directory = Path(tempfile.mkdtemp(prefix="slurm-"))
    directory.chmod(0o755)  # munge wants its socket where anyone may reach it
    before = os.environ.get("SLURM_CONF")
    started: list[subprocess.Popen] = []
    try:
        os.environ["SLURM_CONF"] = str(_configure(directory))
        trouble = _start(directory, started)
        if trouble:
            pytest.skip(f"Slurm could not be started: {trouble}")
        yield directory
    finally:
        _end(started)
        os.environ.pop("SLURM_CONF")
        if before is not None:
            os.environ["SLURM_CONF"] = before
        shutil.rmtree(directory, ignore_errors=True)


def say(*command: str) -> str:
    """What a command of Slurm's prints; empty if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return done.stdout if done.returncode == 0 else ""


def _configure(directory: Path) -> Path:
    host = socket.gethostname().split(".")[0]
    for name in ("state", "spool"):
        (directory / name).mkdir()
    key = directory / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    controller, daemon = _free_ports(2)
    configuration = directory / "slurm.conf"
    # No cgroups, no accounting, no plugin that a container may not have.
    configuration.write_text(f"""
ClusterName=afterfit
SlurmctldHost={host}(127.0.0.1)
SlurmUser={getpass.getuser()}
SlurmdUser={getpass.getuser()}
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=1000000
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} RealMemory=3000 State=UNKNOWN
PartitionName=short Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
    return configuration


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _start(directory: Path, started: list[subprocess.Popen]) -> str:
    """Start the three daemons and wait for the node; says what went wrong, if anything did."""
    key, configuration = directory / "munge.key", directory / "slurm.conf"
    commands = {
        "munged": [
            "--foreground", "--force", f"--key-file={key}", f"--socket={directory}/munge.socket",
            f"--pid-file={directory}/munged.pid", f"--seed-file={directory}/munged.seed",
        ],
        "slurmctld": ["-D", "-f", str(configuration)],
        "slurmd": ["-D", "-f", str(configuration)],
    }  # fmt: skip
    ready = {
        "munged": lambda: (directory / "munge.socket").exists(),
        "slurmctld": lambda: bool(say("sinfo", "--noheader")),
        "slurmd": lambda: "idle" in say("sinfo", "--noheader", "--format=%t"),
    }
    for name in _DAEMONS:
        program = shutil.which(name, path=_SBIN)
        assert program is not None
        log = directory / f"{name}.log"
        with log.open("wb") as output:
            started.append(
                subprocess.Popen([program, *commands[name]], stdout=output, stderr=output, start_new_session=True)
            )
        until = time.monotonic() + 30
        while not ready[name]():
            if started[-1].poll() is not None or time.monotonic() > until:
                node = say("sinfo", "--noheader", "--format=%t %E")
                return f"{name} is not ready: {log.read_text(errors='replace')[-400:].strip()} {node}".strip()
            time.sleep(0.1)
    return ""


def _end(started: list[subprocess.Popen]) -> None:
    if len(started) == len(_DAEMONS):  # jobs first: they are in sessions of their own
        say("scancel", "--user", getpass.getuser())
        until = time.monotonic() + 15
        while say("squeue", "--noheader").strip() and time.monotonic() < until:
            time.sleep(0.2)
    for process in reversed(started):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
