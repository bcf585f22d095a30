"""Logs from elsewhere: named columns of numbers over time, whatever the format."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from afterfit._base.errors import SpecError, nearest, require
from afterfit._diagnose.readers import Reader

__all__ = ["open_log", "read_columns", "read_log"]

_TIME_OF_DAY = 1e8  # seconds since 1970, or more: no log begins with so many steps and does not double them


def open_log(path: str | Path) -> Reader:
    """A log in the first format that it may be in."""
    path = Path(path)
    require(path.is_file(), f"there is no file {path}.")
    obstacles = {}
    for reader in Reader.in_turn():
        obstacle = reader.obstacle(path)
        if obstacle is None:
            return reader(path)
        obstacles[reader.name] = obstacle
    said = "; ".join(f"{name}: {obstacle}" for name, obstacle in obstacles.items())
    raise SpecError(f"{path} is a log in no format that is known here ({said}): write it in one of these.")


def read_log(
    path: str | Path, *, time: str, train: str, test: str, loss: str | None = None, norms: Sequence[str] = ()
) -> dict[str, NDArray]:
    """The named columns of a log, as arrays `time`, `train`, `test`, `loss` if named, and one for each norm.

    Of a CSV file the first line names the columns; they are separated by commas, semicolons or tabs. An empty cell, or
    `nan`, is a value that was not observed, and becomes nan; rows of the same time are joined, as some loggers write
    training and validation to rows of their own. `inf` is a number here: a curve may diverge.

    ```python
    curves = af.read_log("log.csv", time="step", train="train_loss", test="val_loss")
    verdict = af.diagnose(**curves, criteria=af.guess_criteria(curves["train"], curves["test"]))
    ```
    """
    return read_columns(open_log(path), time=time, train=train, test=test, loss=loss, norms=norms)


def read_columns(
    log: Reader, *, time: str, train: str, test: str, loss: str | None = None, norms: Sequence[str] = ()
) -> dict[str, NDArray]:
    """The same of a log that was opened."""
    columns = {"time": time, "train": train, "test": test} | ({} if loss is None else {"loss": loss})
    for name in norms:
        require(name not in columns, f"a norm cannot be a column called {name!r}: rename it in the file.")
    columns |= {name: name for name in norms}
    path, names = log.path, log.names()
    for column in columns.values():
        require(column in names, f"{path} has no column {column!r}: {nearest(column, names)}")
        require(names.count(column) == 1, f"{path} has {names.count(column)} columns called {column!r}: rename them.")
    table: list[dict[str, float]] = []
    for where, numbers in log.rows(list(columns.values())):
        read = dict(zip(columns, numbers, strict=True))
        if table and table[-1]["time"] == read["time"]:
            table[-1] = _joined(f"{path}, {where}", columns, table[-1], read)
            continue
        earlier = table[-1]["time"] if table else -math.inf
        require(
            read["time"] > earlier,
            f"{path}, {where}: time must increase, but column {time!r} goes from {earlier:g} to {read['time']:g}. "
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


def _joined(where: str, columns: Mapping[str, str], one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """Two rows of one time as one."""
    for key, column in columns.items():
        a, b = one[key], other[key]
        require(
            a == b or np.isnan(a) or np.isnan(b),
            f"{where}: column {column!r} has two values, {a:g} and {b:g}, at {columns['time']!r} "
            f"{one['time']:g}. A log of several runs has to be split, or another column is the time.",
        )
    return {key: other[key] if np.isnan(one[key]) else one[key] for key in columns}
