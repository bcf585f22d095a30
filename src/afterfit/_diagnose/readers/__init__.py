"""Formats of training logs. A new one is a `Reader` in a file of its own here: it is found by being there."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from pathlib import Path

from afterfit._base.rules import Rule, discover

__all__ = ["Reader"]


class Reader(Rule):
    """A format of training logs, by its `name`; an instance is a log in it.

    A file is read in the first format without an `obstacle`, in the order of their `turn`.
    """

    def __init__(self, path: Path):
        self.path = path

    @classmethod
    @abc.abstractmethod
    def obstacle(cls, path: Path) -> str | None:
        """Why a file is no log in this format, such as "it is not text"; None if it may be one."""

    @abc.abstractmethod
    def names(self) -> list[str]:
        """The names of its columns."""

    @abc.abstractmethod
    def rows(self, columns: Sequence[str]) -> Iterator[tuple[str, list[float]]]:
        """Where each row stands, such as "line 3", and its numbers in these columns; nan where there is none."""


discover(__name__)
