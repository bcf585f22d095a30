"""What went wrong, in words for people."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["SpecError", "nearest", "require"]


class SpecError(ValueError):
    """Something asked for cannot be: the message says what, with its value, and what to do."""


def require(condition: bool, message: str) -> None:
    """Raise a `SpecError` with `message` unless `condition` holds."""
    if not condition:
        raise SpecError(message)


def nearest(word: str, choices: Iterable[str]) -> str:
    """The end of an error message: the nearest valid choice to `word`, or all of them."""
    choices = sorted(choices)
    folded = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(str(word).lower(), folded, n=1, cutoff=0.5)
    return f"did you mean {folded[close[0]]!r}?" if close else f"choose one of: {', '.join(choices)}."
