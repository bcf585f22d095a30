"""What a refusal must look like, and when two runs are the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from typer.testing import CliRunner

from afterfit import AfterfitError
from afterfit._cli import app
from afterfit._training.run import Run

__all__ = ["Fault", "Refusal", "attempt", "check_sentence", "demand", "invoke", "same_bits", "strict_json"]

T = TypeVar("T")

_LONGEST = 1200  # characters that somebody reads
_FOREIGN = re.compile(
    r"Traceback|object at 0x|NoneType|<class '|positional argument|keyword argument|XlaRuntime|jaxlib|<lambda>|"
    r"Tracer|Errno|codec can't|is a bug"
)
_EXIT_CODES = (0, 1, 2, 130, 141)


class Fault(AssertionError):
    """Something is not as it must be: the message says what."""


class Refusal(Exception):
    """The case was refused, and well."""


def demand(condition: bool, message: str) -> None:
    """Raise a `Fault` with `message` unless `condition` holds."""
    if not condition:
        raise Fault(message)


def check_sentence(text: str, *names: str) -> None:
    """Demand a refusal for people: a sentence or two on one line, with one of `names` and nothing of Python's."""
    demand(bool(text.strip()), "refused without a word")
    demand("\n" not in text.strip(), f"refused in several lines: {text!r}")
    demand(text.rstrip().endswith((".", "?")), f"not a sentence: {text!r}")
    demand(len(text) <= _LONGEST, f"a refusal of {len(text)} characters: {text[:100]!r}…")
    foreign = _FOREIGN.search(text)
    demand(foreign is None, f"words for programmers ({foreign and foreign[0]!r}): {text!r}")
    demand(not names or any(name in text for name in names), f"does not name {' or '.join(names)}: {text!r}")


def attempt(act: Callable[[], T], *names: str) -> T:
    """What `act` gives. An `AfterfitError` is a `Refusal`, if it reads well and has one of `names` in it."""
    try:
        return act()
    except AfterfitError as error:
        check_sentence(str(error), *names)
        raise Refusal(str(error)) from None


def same_bits(one: Run, other: Run, what: str) -> None:
    """Demand the same specification, curves and parameters, bit for bit."""
    ones, others = one.files(), other.files()
    for name in ("spec.json", "curves.parquet", "params.npz"):
        demand(ones[name] == others[name], f"{what}: {name} differs")
    demand((one.status, one.message) == (other.status, other.message), f"{what}: {one.message!r}, {other.message!r}")


def invoke(*args: str) -> str:
    """What a command prints; a `Refusal` if it refuses well. Any exit without a meaning is a fault."""
    result = CliRunner().invoke(app, list(args))
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        raise Fault(f"exit 70: {type(error).__name__}: {error}") from error
    judge_exit(result.exit_code, result.stderr)
    if result.exit_code == 2:
        raise Refusal(result.stderr.strip())
    return result.stdout


def judge_exit(code: int, stderr: str) -> None:
    """Demand an exit code with a meaning, and on 2 a refusal that reads well."""
    demand(code in _EXIT_CODES, f"exit {code}: {stderr!r}")
    demand("Traceback" not in stderr, f"a traceback: {stderr!r}")
    if code == 2 and not stderr.startswith("Usage:"):  # those are Typer's own words
        check_sentence(stderr.strip().rpartition("\n")[2])  # warnings may precede it


def strict_json(text: str) -> Any:
    """JSON as the standard has it, without NaN and Infinity."""

    def refuse(word: str) -> None:
        raise Fault(f"{word} in JSON")

    return json.loads(text, parse_constant=refuse)


def tree(directory: Path) -> dict[str, bytes]:
    """All files below a directory, and what is in them."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
