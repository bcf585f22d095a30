"""What a sweep does on a worker: carry out one batch of experiments and say how far it is.

Workers never touch the store: the files of a run go back to the client, which publishes them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from afterfit.experiment import Experiment
from afterfit.run import Run
from afterfit.spec import SpecError
from afterfit.train import run_experiment

__all__ = ["TOPIC", "Outcome", "VersionMismatch", "carry_out_batch", "disagreement", "run_batch", "versions_of"]

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
    found = disagreement(f"{worker.name} ({worker.address})", versions_of(PACKAGES)(), versions)
    if found:  # it joined after the client had looked
        raise VersionMismatch(found)
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


def versions_of(packages: Sequence[str]) -> Callable[[], dict[str, str]]:
    """A function that says which versions there are where it is called.

    Made here rather than given a name, so that it is sent whole: a worker may have no afterfit to import it from.
    """

    def versions() -> dict[str, str]:
        import importlib.metadata
        import sys

        found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
        for name in packages:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                found[name] = "none"
        return found

    return versions


def disagreement(worker: str, there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """What differs between a worker's versions and the client's, and what to do; empty if nothing does."""
    different = [
        f"{name} {there[name]} where this client has {here[name]}" for name in here if there[name] != here[name]
    ]
    if not different:
        return ""
    return (
        f"worker {worker} has {', '.join(different)}: its results could differ. Give it the client's versions (the "
        "same environment is best) and start it again; runs that were finished are kept."
    )


# Stand-ins for Experiment.id and Run.files(), which are written on other branches.


def id_of(experiment: Experiment) -> str:
    return hashlib.sha256(json.dumps(experiment.to_dict(), sort_keys=True).encode()).hexdigest()[:16]


def files_of(run: Run) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as directory:
        saved = run.save(Path(directory) / "run")
        return {path.name: path.read_bytes() for path in sorted(saved.iterdir())}
