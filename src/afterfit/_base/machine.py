"""What this machine has room for: asked before memory is used, so that too much is a sentence and not a crash."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from afterfit._base.errors import SpecError

__all__ = ["blas_on_one_thread", "check_memory", "free_memory", "in_words"]

_NEGLIGIBLE = 1e7  # bytes that every machine has, so that it need not be asked


def check_memory(needed: float, what: str, instead: Callable[[], str]) -> None:
    """Refuse what needs more bytes than are free: `what` says it in words, and `instead` what to do."""
    if needed <= _NEGLIGIBLE:
        return
    free = free_memory()
    if needed > free:
        least, left = in_words(needed, "bytes"), in_words(free, "bytes")
        raise SpecError(f"{what}: {least} at least, and this machine has {left} free. Instead, {instead()}.")


def free_memory() -> int:
    """Bytes that this process can still have: what the system has free, within the limits set for the process."""
    import psutil

    return min([psutil.virtual_memory().available, *_left_in_groups()])  # of groups there may be none


def _left_in_groups(of: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """What Linux's control groups, with which containers and batch systems set limits, leave to this process.

    A line of `of` is `0::/place` (version 2) or `4:memory:/place`; a limit may be set at the place or any above it.
    """
    with contextlib.suppress(OSError):
        for line in of.read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            if controllers == "":
                top, limit, used = root, "memory.max", "memory.current"
            elif "memory" in controllers.split(","):
                top, limit, used = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            else:
                continue
            here = top / place.lstrip("/")
            for folder in (here, *here.parents[: len(here.parts) - len(top.parts)]):
                with contextlib.suppress(OSError, ValueError):  # no such file; the word "max"
                    room = int((folder / limit).read_text()) - int((folder / used).read_text())
                    yield max(0, room + _reclaimable(folder / "memory.stat"))


def _reclaimable(stat: Path) -> int:
    """Bytes of files that were read and are kept in case they are wanted again; they count as used."""
    counts = dict(line.split() for line in stat.read_text().splitlines())
    return int(counts.get("total_inactive_file", counts.get("inactive_file", 0)))


def in_words(amount: float, of: str) -> str:
    """Bytes or seconds for people: `3.2 GB`, `1.5 days`."""
    steps = {
        "bytes": (("bytes", 1e3), ("kB", 1e3), ("MB", 1e3), ("GB", 1e3), ("TB", 1e3)),
        "seconds": (("s", 60), ("min", 60), ("h", 24), ("days", 365.25), ("years", float("inf"))),
    }[of]
    for unit, next_unit in steps[:-1]:
        if amount < next_unit:
            return f"{amount:.3g} {unit}"
        amount /= next_unit
    return f"{amount:.3g} {steps[-1][0]}"


@contextlib.contextmanager
def blas_on_one_thread() -> Iterator[None]:
    """LAPACK without threads, which factorises small matrices often.

    Two threads are no quicker on a few hundred rows, and wait for one another whenever another process has a core: a
    step of boursier2025/fig2 then takes 10 to 60 ms in place of 1. And results would depend on how many there are.
    """
    import scipy.linalg.cython_lapack  # noqa: F401  (what JAX calls; it has to be loaded to be told)
    import threadpoolctl

    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        yield
