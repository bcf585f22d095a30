"""Curves from elsewhere: a CSV file, and criteria for curves of which nothing is known."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from afterfit.criteria import Criteria, Threshold
from afterfit.diagnose.words import number
from afterfit.spec import SpecError, nearest, require

__all__ = ["explain_criteria", "guess_criteria", "read_csv"]


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
    its first value, or within [0, 100] and also passes 50 (then it is in percent); otherwise it is an error.
    Beside a training accuracy, a test curve whose values allow it is an accuracy too, whichever way it goes,
    since the test accuracy of a misgrokking run falls.

    Accuracies are fitted at 0.99 and generalised at 0.95 (99 and 95 in percent). Errors are fitted at 1 % of
    the first training error and generalised at 10 % of the first test error: looser, since a test error has a
    floor (noise, finite data) that a training error has not.

    ```python
    guess_criteria([2.3, 1e-4], [2.3, 0.1])  # errors: fitted at ≤ 0.023, generalised at ≤ 0.23
    ```
    """
    train_like, test_like = (like, like) if like is None or isinstance(like, str) else like
    train_values, test_values = _finite("train", train), _finite("test", test)
    train_scale = _accuracy_scale(train_values, train_like)
    test_scale = _accuracy_scale(test_values, test_like, beside=train_scale)
    return Criteria(
        _guess_threshold("train", train_values, train_scale, fit, 0.99, 0.01),
        _guess_threshold("test", test_values, test_scale, generalise, 0.95, 0.1),
    )


def _finite(name: str, curve: ArrayLike) -> NDArray:
    values = np.asarray(curve, dtype=float)
    values = values[np.isfinite(values)]
    require(values.size > 0, f"the {name} curve has no finite value to guess its threshold from.")
    return values


def _accuracy_scale(values: NDArray, like: str | None, beside: float | None = None) -> float | None:
    """1 or 100 for an accuracy, None for an error; `beside` is the scale of the training accuracy, if any."""
    if like is not None:
        Threshold(like, 0.0)  # refuses an unknown word, naming the known ones
    if like == "error" or (like is None and (values.min() < 0 or values.max() > 100)):
        return None
    if beside is not None and values.max() <= beside:
        return beside
    rises = np.median(values[-max(1, values.size // 10) :]) > values[0]
    if values.max() <= 1:
        return 1.0 if like or rises else None
    return 100.0 if like or (rises and values.max() > 50) else None  # a rising test loss stays below 50


def _guess_threshold(
    name: str, values: NDArray, scale: float | None, given: float | None, accuracy: float, share: float
) -> Threshold:
    if scale is not None:
        return Threshold("accuracy", accuracy * scale if given is None else given)
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


def read_csv(path: str | Path, *, time: str, train: str, test: str, norms: Sequence[str] = ()) -> dict[str, NDArray]:
    """The named columns of a CSV file, as arrays `time`, `train`, `test` and one by the name of each norm.

    The first line names the columns; they are separated by commas, semicolons or tabs. `nan` and `inf` are
    numbers here: a curve may diverge.

    ```python
    curves = read_csv("log.csv", time="step", train="train_loss", test="val_loss")
    verdict = diagnose(**curves, criteria=guess_criteria(curves["train"], curves["test"]))
    ```
    """
    columns = {"time": time, "train": train, "test": test}
    for name in norms:
        require(name not in columns, f"a norm cannot be a column called {name!r}: rename it in the file.")
    columns |= {name: name for name in norms}
    path = Path(path)
    require(path.is_file(), f"there is no file {path}.")
    with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets may write a byte-order mark
        header = file.readline()
        require(bool(header.strip()), f"{path} is empty: its first line must name the columns.")
        separator = max(",;\t", key=lambda s: len(next(csv.reader([header], delimiter=s))))
        names = [name.strip() for name in next(csv.reader([header], delimiter=separator))]
        for column in columns.values():
            require(column in names, f"{path} has no column {column!r}: {nearest(column, names)}")
        # Rows are counted as an editor shows them: the header is line 1.
        rows = [(line, row) for line, row in enumerate(csv.reader(file, delimiter=separator), 2) if any(row)]
    require(bool(rows), f"{path} is empty: it names its columns and has no rows.")
    data = {
        key: np.array([_cell(path, line, row, names.index(column), column) for line, row in rows])
        for key, column in columns.items()
    }
    backwards = np.flatnonzero(~(data["time"][1:] > data["time"][:-1]))
    if backwards.size:
        i = backwards[0] + 1
        raise SpecError(
            f"{path}, line {rows[i][0]}: time must increase, but column {time!r} goes from "
            f"{data['time'][i - 1]:g} to {data['time'][i]:g}. A log of several runs has to be split."
        )
    return data


def _cell(path: Path, line: int, row: list[str], index: int, column: str) -> float:
    text = row[index].strip() if index < len(row) else ""
    try:
        return float(text)
    except ValueError:
        what = f"{text!r} is not a number" if text else "the cell is empty"
        raise SpecError(f"{path}, line {line}, column {column!r}: {what}.") from None
