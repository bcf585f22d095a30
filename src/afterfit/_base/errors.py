"""Errors: one family, so that one `except` catches whatever afterfit says in a sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "AfterfitError",
    "ClusterError",
    "Damaged",
    "NotSeparableError",
    "RunFailed",
    "SpecError",
    "SweepFailed",
    "Unanswered",
    "Unreadable",
    "VersionMismatch",
    "error_in_words",
    "nearest",
    "require",
]


class AfterfitError(Exception):
    """Base of all errors of afterfit: the message is a sentence for people, and says what to do."""


class SpecError(AfterfitError, ValueError):
    """Something asked for cannot be: the message says what, with its value, and what to do."""


class Damaged(AfterfitError):
    """Files that are not as they were written: the message names the file."""


class Unreadable(AfterfitError):
    """Files that cannot be read here, through no fault of theirs: of a newer afterfit, not permitted, no memory."""


class RunFailed(AfterfitError):
    """A run came to nothing: its own code raised, or the processes that had it died."""


class SweepFailed(AfterfitError):
    """Some runs of a sweep failed; the others are in the store."""


class ClusterError(AfterfitError):
    """Those who were to compute cannot be had, or are lost: a scheduler that does not answer, a queue that refuses."""


class VersionMismatch(ClusterError):
    """A worker has other versions than the client: what it computed might not be what the client would."""


class Unanswered(AfterfitError):
    """A question that seemed to have an answer has none here; the message says why.

    A limit that does not exist, a program that no solver solves, a kernel too large to factorise: a clock, limit,
    theorem or route that raises it is counted among those that do not apply. Anything else that is raised is a bug.
    """


class NotSeparableError(Unanswered):
    """No classifier of the kind asked for has a positive margin on these data, or no predictor fits them."""


def error_in_words(error: BaseException) -> str:
    """What went wrong, for a person: afterfit's own errors are sentences already."""
    return str(error) if isinstance(error, AfterfitError) else f"{type(error).__name__}: {error}".rstrip(": ")


def require(condition: bool, message: str) -> None:
    """Raise a `SpecError` with `message` unless `condition` holds."""
    if not condition:
        raise SpecError(message)


def nearest(word: str, choices: Iterable[str]) -> str:
    """The end of an error message: the nearest valid choice to `word`, or all of them. Nothing if it is one."""
    choices = sorted(choices)
    if word in choices:  # most messages are never shown, and to look for what is near takes its time
        return ""
    folded = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(str(word).lower(), folded, n=1, cutoff=0.5)
    return f"did you mean {folded[close[0]]!r}?" if close else f"choose one of: {', '.join(choices)}."
