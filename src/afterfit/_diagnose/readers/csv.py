"""CSV, as spreadsheets, Keras and Lightning write it: commas, semicolons or tabs, and names in the first line."""

from __future__ import annotations

import codecs
import csv
import functools
import io
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from afterfit._base.errors import SpecError, require
from afterfit._diagnose.readers import Reader

__all__ = ["Csv"]


class Csv(Reader):
    name = "CSV"
    turn = 100.0  # any text may be one

    @classmethod
    def obstacle(cls, path: Path) -> str | None:
        try:
            _text(path)
        except UnicodeDecodeError:
            return "it is not a text file in UTF-8"
        return None

    @functools.cached_property
    def _text(self) -> str:
        return _text(self.path)

    def names(self) -> list[str]:
        return next(self._lines())[1]

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[str, list[float]]]:
        lines = self._lines()
        _, names = next(lines)
        places = [names.index(column) for column in columns]
        for line, row in lines:
            where = f"line {line}"
            self._check_width(where, row, len(names))
            numbers = (self._number(where, row[k], column) for k, column in zip(places, columns, strict=True))
            yield where, list(numbers)

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """The line and the cells of each row that is not empty, the names of the columns first."""
        text = self._text
        header = text.lstrip("\r\n").partition("\n")[0]
        require(bool(header.strip()), f"{self.path} is empty: its first line must name the columns.")
        reader = csv.reader([])
        try:
            separator = max(",;\t", key=lambda s: len(next(csv.reader([header], delimiter=s))))
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, [cell.strip() for cell in row]
        except csv.Error as error:
            raise SpecError(f"{self.path}, line {reader.line_num}: {error}; that is no log of numbers.") from None

    def _check_width(self, where: str, row: list[str], width: int) -> None:
        surplus = [cell for cell in row[width:] if cell]
        comma = " If these are decimal commas, write points." if surplus else ""
        require(
            len(row) >= width and not surplus,
            f"{self.path}, {where}: {len(row)} cells under {width} names of columns.{comma}",
        )

    def _number(self, where: str, text: str, column: str) -> float:
        if not text:
            return math.nan
        try:
            return float(text)
        except ValueError:
            decimal = re.fullmatch(r"[-+]?\d*,\d+(e[-+]?\d+)?", text, re.I)
            comma = ": write a decimal point, not a comma" if decimal else ""
            said = text if len(text) <= 40 else f"{text[:40]}…"
            raise SpecError(f"{self.path}, {where}, column {column!r}: {said!r} is not a number{comma}.") from None


def _text(path: Path) -> str:
    content = path.read_bytes()
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if utf16 else "utf-8-sig")  # spreadsheets may write a byte-order mark
