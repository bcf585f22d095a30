"""Curves from elsewhere: a CSV file, and criteria for curves of which nothing is known."""

from __future__ import annotations

import codecs
import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from afterfit._base.errors import SpecError, nearest, require
from afterfit._diagnose.scale import check_thresholds, finite, scale_of, within
from afterfit._diagnose.thresholds import Criteria, Threshold
from afterfit._diagnose.words import number

__all__ = ["column_names", "explain_criteria", "guess_criteria", "read_csv"]

_TIME_OF_DAY = 1e8  # seconds since 1970, or more: no log begins with so many steps and does not double them


def guess_criteria(
    train: ArrayLike,
    test: ArrayLike,
    like: str | tuple[str | None, str | None] | None = None,
    fit: float | None = None,
    generalise: float | None = None,
) -> Criteria:
    """Criteria for curves of which nothing is known; say what was guessed with `explain_criteria`.

    What is given is used; the rest is guessed. `like` is `"error"` or `"accuracy"` for both curves, or a pair
    of these for train and test. Without it, a curve is an accuracy if it stays within [0, 1] and ends above
    its first value, or within [0, 100] and also passes 50; otherwise it is an error. Beside a training accuracy, a
    test curve whose values allow it is an accuracy too, whichever way it goes, since the test accuracy of a
    misgrokking run falls.

    An accuracy whose values exceed 1 (by more than rounding) is in percent. One that does not, beside one in
    percent, may be either: then its threshold has to be given. A threshold on the other scale is refused.

    Accuracies are fitted at 0.99 and generalised at 0.95 (99 and 95 in percent). Errors are fitted at 1 % of
    the first training error and generalised at 10 % of the first test error: looser, since a test error has a
    floor (noise, finite data) that a training error has not.

    ```python
    guess_criteria([2.3, 1e-4], [2.3, 0.1])  # errors: fitted at ≤ 0.023, generalised at ≤ 0.23
    ```
    """
    likes = (like, like) if like is None or isinstance(like, str) else like
    curves = {"train": finite(np.asarray(train, dtype=float)), "test": finite(np.asarray(test, dtype=float))}
    for name, values in curves.items():
        require(values.size > 0, f"the {name} curve has no finite value to guess its threshold from.")
    given = {"train": fit, "test": generalise}
    accuracy = _which_are_accuracies(curves, likes)
    scales = _scales({name: values for name, values in curves.items() if accuracy[name]}, given)
    found = []
    for (name, values), usual, share in zip(curves.items(), (0.99, 0.95), (0.01, 0.1), strict=True):
        if name in scales:
            level = given[name]
            found.append(Threshold("accuracy", usual * scales[name] if level is None else level))
        else:
            found.append(_threshold_of_error(name, values, given[name], share))
    check_thresholds({name: (curves[name], t) for name, t in zip(curves, found, strict=True)})
    return Criteria(*found)


def _which_are_accuracies(curves: Mapping[str, NDArray], likes: Sequence[str | None]) -> dict[str, bool]:
    """Whether each curve is an accuracy: as said, else by its values."""
    found: dict[str, bool] = {}
    for (name, values), like in zip(curves.items(), likes, strict=True):
        if like is not None:
            Threshold(like, 0.0)  # refuses an unknown word, naming the known ones
            found[name] = like == "accuracy"
            ceiling = 100 if scale_of(values) == 100 else 2
            require(
                like == "error" or within(values, ceiling),
                f"{name} is read as an accuracy, but goes from {number(values.min())} to {number(values.max())}: "
                "accuracies lie between 0 and 1, or 0 and 100.",
            )
            continue
        rises = np.median(values[-max(1, values.size // 10) :]) > values[0]
        beside = found.get("train") and within(values, max(1.0, curves["train"].max()))
        fraction, percent = within(values, 1), within(values, 100) and values.max() > 50  # no test loss rises so high
        found[name] = bool(beside or (rises and (fraction or percent)))
    return found


def _scales(accuracies: Mapping[str, NDArray], given: Mapping[str, float | None]) -> dict[str, float]:
    """1 or 100 for each accuracy: by its values, or where these allow both, as its threshold or the other curve."""
    plain = {name: scale_of(values) for name, values in accuracies.items()}
    scales: dict[str, float] = {}
    for name, scale in plain.items():
        level = given[name]
        if scale == 1 and 100 in plain.values():
            done = "fitted" if name == "train" else "generalised"
            require(
                level is not None,
                f"one accuracy is in percent, and {name} goes up to {number(accuracies[name].max())} only: in percent "
                f"too, or a fraction? Say at which accuracy it counts as {done}: in percent, such as 95, or as a "
                "fraction, such as 0.95.",
            )
            scales[name] = Threshold("accuracy", level or 0.0).ceiling
        else:
            scales[name] = scale or (100.0 if 100 in plain.values() else 1.0)
    return scales


def _threshold_of_error(name: str, values: NDArray, given: float | None, share: float) -> Threshold:
    if given is None:
        require(
            values[0] > 0,
            f"the first {name} error is {values[0]:g}, which gives no scale: say at which error "
            f"it counts as {'fitted' if name == 'train' else 'generalised'}.",
        )
        given = share * float(values[0])
    return Threshold("error", given)


def explain_criteria(criteria: Criteria) -> str:
    """The criteria as one sentence: how each curve is read and what it has to reach."""
    words = [
        f"{name} is read as an {t.like}, {done} at {'≤' if t.like == 'error' else '≥'} {number(t.value)}"
        for name, t, done in (("train", criteria.train, "fitted"), ("test", criteria.test, "generalised"))
    ]
    return "; ".join(words) + "."


def read_csv(
    path: str | Path, *, time: str, train: str, test: str, loss: str | None = None, norms: Sequence[str] = ()
) -> dict[str, NDArray]:
    """The named columns of a CSV file, as arrays `time`, `train`, `test`, `loss` if named, and one for each norm.

    The first line names the columns; they are separated by commas, semicolons or tabs. An empty cell, or `nan`, is a
    value that was not observed, and becomes nan; rows of the same time are joined, as some loggers write training
    and validation to rows of their own. `inf` is a number here: a curve may diverge.

    ```python
    curves = read_csv("log.csv", time="step", train="train_loss", test="val_loss")
    verdict = diagnose(**curves, criteria=guess_criteria(curves["train"], curves["test"]))
    ```
    """
    columns = {"time": time, "train": train, "test": test} | ({} if loss is None else {"loss": loss})
    for name in norms:
        require(name not in columns, f"a norm cannot be a column called {name!r}: rename it in the file.")
    columns |= {name: name for name in norms}
    path = Path(path)
    rows = _rows(path)
    _, names = next(rows)
    for column in columns.values():
        require(column in names, f"{path} has no column {column!r}: {nearest(column, names)}")
        require(names.count(column) == 1, f"{path} has {names.count(column)} columns called {column!r}: rename them.")
    table: list[dict[str, float]] = []
    for line, row in rows:
        _check_width(path, line, row, len(names))
        read = {key: _cell(path, line, row, names.index(column), column) for key, column in columns.items()}
        if table and table[-1]["time"] == read["time"]:
            table[-1] = _joined(path, line, columns, table[-1], read)
            continue
        earlier = table[-1]["time"] if table else -math.inf
        require(
            read["time"] > earlier,
            f"{path}, line {line}: time must increase, but column {time!r} goes from {earlier:g} to {read['time']:g}. "
            "A log of several runs has to be split.",
        )
        table.append(read)
    require(bool(table), f"{path} is empty: it names its columns and has no rows.")
    first, last = table[0]["time"], table[-1]["time"]
    require(
        not (first > _TIME_OF_DAY and last < 2 * first),
        f"{path}: column {time!r} goes from {first:.0f} to {last:.0f}, which is a time of day: name a column of steps, "
        "epochs or the time since the start.",
    )
    return {key: np.array([row[key] for row in table]) for key in columns}


def column_names(path: str | Path) -> list[str]:
    """The names in the first line of a CSV file."""
    return next(_rows(Path(path)))[1]


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The line and the cells of each row that is not empty, the names of the columns first."""
    require(path.is_file(), f"there is no file {path}.")
    content = path.read_bytes()
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if utf16 else "utf-8-sig")  # spreadsheets may write a byte-order mark
    except UnicodeDecodeError:
        raise SpecError(f"{path} is not a text file in UTF-8: give a CSV file.") from None
    header = text.lstrip("\r\n").partition("\n")[0]
    require(bool(header.strip()), f"{path} is empty: its first line must name the columns.")
    reader = csv.reader([])
    try:
        separator = max(",;\t", key=lambda s: len(next(csv.reader([header], delimiter=s))))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, [cell.strip() for cell in row]
    except csv.Error as error:
        raise SpecError(f"{path}, line {reader.line_num}: {error}; that is no log of numbers.") from None


def _check_width(path: Path, line: int, row: list[str], width: int) -> None:
    surplus = [cell for cell in row[width:] if cell]
    comma = " If these are decimal commas, write points." if surplus else ""
    require(
        len(row) >= width and not surplus,
        f"{path}, line {line}: {len(row)} cells under {width} names of columns.{comma}",
    )


def _joined(
    path: Path, line: int, columns: Mapping[str, str], one: dict[str, float], other: dict[str, float]
) -> dict[str, float]:
    """Two rows of one time as one."""
    for key, column in columns.items():
        a, b = one[key], other[key]
        require(
            a == b or np.isnan(a) or np.isnan(b),
            f"{path}, line {line}: column {column!r} has two values, {a:g} and {b:g}, at {columns['time']!r} "
            f"{one['time']:g}. A log of several runs has to be split, or another column is the time.",
        )
    return {key: other[key] if np.isnan(one[key]) else one[key] for key in columns}


def _cell(path: Path, line: int, row: list[str], index: int, column: str) -> float:
    text = row[index]
    if not text:
        return math.nan
    try:
        return float(text)
    except ValueError:
        comma = ": write a decimal point, not a comma" if re.fullmatch(r"[-+]?\d*,\d+(e[-+]?\d+)?", text, re.I) else ""
        said = text if len(text) <= 40 else f"{text[:40]}…"
        raise SpecError(f"{path}, line {line}, column {column!r}: {said!r} is not a number{comma}.") from None
