"""What a sweep does on a worker: carry out one batch of experiments and say how far it is.

Workers never touch the store: the files of a run go back to the client, which publishes them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from afterfit.experiment import Experiment
from afterfit.run import Run
from afterfit.spec import SpecError
from afterfit.train import run_experiment

__all__ = [
    "PACKAGES",
    "TOPIC",
    "Outcome",
    "VersionMismatch",
    "carry_out_batch",
    "check_versions",
    "in_words",
    "run_batch",
    "search_path",
    "versions_here",
]

TOPIC = "afterfit"  # under which workers say how far they are
_SECONDS_A_WORD = 0.3  # between two reports of a worker
PACKAGES = ("afterfit", "jax", "jaxlib", "numpy", "equinox", "diffrax", "optax")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one run: its `files`, or None and the `error` in words."""

    id: str
    files: Mapping[str, bytes] | None
    error: str = ""


class VersionMismatch(SpecError):
    """A worker has other versions than the client: what it computed might not be what the client would."""


class _NoLongerWanted(Exception):
    """The client was stopped or is gone: nobody waits for this batch."""


def run_batch(experiments: Sequence[Experiment], progress: Callable[[float], None]) -> list[Outcome]:
    """Carry out experiments; one that fails does not stop the others. `progress` gets the share of all done."""
    outcomes = []
    for done, experiment in enumerate(experiments):
        try:
            run = run_experiment(
                experiment, progress=lambda share, done=done: progress((done + share) / len(experiments))
            )
            outcomes.append(Outcome(id_of(experiment), files_of(run)))
        except _NoLongerWanted:
            raise
        except Exception as error:
            outcomes.append(Outcome(id_of(experiment), None, in_words(error)))
    return outcomes


def in_words(error: BaseException) -> str:
    """What went wrong, for a person: afterfit's own errors are sentences already."""
    return str(error) if isinstance(error, SpecError) else f"{type(error).__name__}: {error}"


def carry_out_batch(
    key: str, number: int, experiments: Sequence[Experiment], versions: Mapping[str, str]
) -> list[Outcome]:
    """The task that is sent to a worker: batch `number` of the client whose packages have these `versions`."""
    from distributed import get_worker
    from distributed.core import Status

    worker = get_worker()
    check_versions(f"{worker.name} ({worker.address})", versions_here(), versions)  # it may have joined just now
    last = -float("inf")

    def say(share: float) -> None:
        nonlocal last
        task = worker.state.tasks.get(key)
        if task is None or task.state == "cancelled" or worker.status not in (Status.running, Status.paused):
            raise _NoLongerWanted
        if time.monotonic() - last >= _SECONDS_A_WORD:
            last = time.monotonic()
            worker.log_event(TOPIC, {"key": key, "batch": number, "share": share})

    worker.log_event(TOPIC, {"key": key, "batch": number, "started": True})
    return run_batch(experiments, say)


def versions_here() -> dict[str, str]:
    """The versions of what decides the bits of a run, in this process."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES}}


def check_versions(worker: str, there: Mapping[str, Any], here: Mapping[str, str]) -> None:
    """Refuse a worker whose versions are not the client's; a version is a word, or the exception of asking for it."""

    def short(name: str, version: Any) -> str:
        if not isinstance(version, str):
            return "none"
        return ".".join(version.split(".")[:2]) if name == "python" else version

    pairs = {name: (short(name, there[name]), short(name, here[name])) for name in here}
    different = [
        f"{name} {theirs}, this client {name} {ours}" for name, (theirs, ours) in pairs.items() if theirs != ours
    ]
    if different:
        raise VersionMismatch(
            f"worker {worker} has {'; '.join(different)}. Its results could differ: give it the versions of this "
            "client (best the same environment) and start it again. Runs that were finished are kept."
        )


def search_path() -> str:
    """Where this Python looks for modules: workers look in the same places, such as beside the user's script."""
    return os.pathsep.join(path or os.getcwd() for path in sys.path)


# Stand-ins for Experiment.id and Run.files(), which are written on other branches.


def id_of(experiment: Experiment) -> str:
    return hashlib.sha256(json.dumps(experiment.to_dict(), sort_keys=True).encode()).hexdigest()[:16]


def files_of(run: Run) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as directory:
        saved = run.save(Path(directory) / "run")
        return {path.name: path.read_bytes() for path in sorted(saved.iterdir())}
