"""What a sweep does on a worker: carry out one job and say how far it is.

Workers never touch the store: a run goes back to the client, which publishes it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from afterfit._base.errors import VersionMismatch
from afterfit._sweeps.jobs import Parcel, do_job
from afterfit._sweeps.plan import Job
from afterfit._training.run import PACKAGES, versions_here

__all__ = [
    "TOPIC",
    "carry_out_job",
    "check_versions",
]

TOPIC = "afterfit"  # under which workers say how far they are
_SECONDS_A_WORD = 0.3  # between two reports of a worker


class _NoLongerWanted(BaseException):
    """The client was stopped or is gone: nobody waits for this job. Not an error of the experiment's."""


def carry_out_job(key: str, number: int, job: Job, versions: Mapping[str, str]) -> list[Parcel]:
    """The task that is sent to a worker: job `number` of a client whose packages have these `versions`."""
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
            worker.log_event(TOPIC, {"key": key, "job": number, "share": share})

    worker.log_event(TOPIC, {"key": key, "job": number, "started": True})
    parcels: list[Parcel] = []
    do_job(job, lambda place, what: parcels.append(Parcel.pack(place, what)), say)
    return parcels


def check_versions(worker: str, there: Mapping[str, Any], here: Mapping[str, str]) -> None:
    """Refuse a worker whose versions are not the client's; a version is a word, or the exception of asking for it."""

    def short(name: str, version: Any) -> str:
        if not isinstance(version, str):
            return "none"
        return ".".join(version.split(".")[:2]) if name == "python" else version

    pairs = {name: (short(name, there[name]), short(name, here[name])) for name in ("python", *PACKAGES)}
    different = [
        f"{name} {theirs}, this client {name} {ours}" for name, (theirs, ours) in pairs.items() if theirs != ours
    ]
    if different:
        raise VersionMismatch(
            f"worker {worker} has {'; '.join(different)}. Its results could differ: give it the versions of this "
            "client (best the same environment) and start it again. Runs that were finished are kept."
        )
