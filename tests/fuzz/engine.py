"""Cases by number: each one alone, within its time, and what came of it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import numpy as np

from fuzz import commands, logs, specs, stores
from fuzz.corpus import Known
from fuzz.oracles import Fault, Refusal

__all__ = ["GROUPS", "Outcome", "reproduce", "run_case", "run_known"]


class Group(Protocol):
    """A module with two functions: what case `number` is, and a check that raises `Fault` or `Refusal`, or passes."""

    def draw(self, rng: np.random.Generator, number: int) -> Any: ...
    def check(self, case: Any, place: Path) -> None: ...


GROUPS: dict[str, Any] = {"specs": specs, "logs": logs, "stores": stores, "commands": commands}
SECONDS = 120.0  # that a case may take, programs to be compiled and all


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a case: `refused`, `agreed` or `fault`, and the words."""

    kind: str
    words: str = ""


class _TooLong(BaseException):
    """Nothing that the code under test would catch."""


def _generator(group: str, number: int) -> np.random.Generator:
    """The random numbers of a case: its own, whatever was run before."""
    return np.random.default_rng([*group.encode(), number])


def reproduce(group: str, number: int) -> str:
    """The command that runs one case."""
    return f"python tests/fuzz --group {group} --case {number}"


def run_case(group: str, number: int, verbose: bool = False) -> Outcome:
    """Run a case."""
    case = GROUPS[group].draw(_generator(group, number), number)
    if verbose:
        print(case)
    outcome = _judge(lambda place: GROUPS[group].check(case, place), verbose)
    if outcome.kind == "fault" and not verbose:
        return Outcome("fault", f"{outcome.words}; the case: {case}")
    return outcome


def run_known(known: Known) -> Outcome:
    """Run a case that went wrong once."""
    return _judge(known.check)


def _judge(check: Callable[[Path], None], verbose: bool = False) -> Outcome:
    """What a check comes to, in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="afterfit-fuzz-") as place, _inside(place), _within(SECONDS):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a warning is a question that nobody answers
                warnings.simplefilter("ignore", DeprecationWarning)
                warnings.simplefilter("ignore", PendingDeprecationWarning)
                check(Path(place))
        except Refusal as refusal:
            return Outcome("refused", str(refusal))
        except Fault as fault:
            return Outcome("fault", str(fault))
        except _TooLong:
            return Outcome("fault", f"not done after {SECONDS:g} s")
        except Exception as error:
            if verbose:
                traceback.print_exc()
            where = traceback.extract_tb(error.__traceback__)[-1]
            at = f"{Path(where.filename).name}:{where.lineno}"
            return Outcome("fault", f"{type(error).__name__} at {at}: {error}")
    return Outcome("agreed")


@contextlib.contextmanager
def _inside(place: str) -> Iterator[None]:
    """Work in a directory; caches go there too, and nothing asks the user's environment."""
    before, environment = os.getcwd(), dict(os.environ)
    os.chdir(place)
    os.environ.pop("AFTERFIT_STORE", None)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise `_TooLong` in this thread when the time is over."""

    def ring(signal: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
