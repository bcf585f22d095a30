"""`afterfit diagnose`."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from afterfit.cli._app import Quiet, print_verdict, say
from afterfit.spec import SpecError, require

__all__ = ["diagnose"]

_METRICS = ("loss", "error", "accuracy", "acc")
_NAMES = {
    "time": ("time", "t", "step", "steps", "epoch", "epochs", "iteration", "iterations"),
    "train": tuple(f"{side}_{metric}" for metric in _METRICS for side in ("train", "training")),
    "test": tuple(f"{side}_{metric}" for metric in _METRICS for side in ("test", "val", "valid", "validation", "eval")),
}


def diagnose(
    file: Annotated[Path, typer.Argument(metavar="CURVES.CSV", help="A CSV file whose first line names its columns.")],
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Time, steps or epochs.")] = None,
    train: Annotated[str | None, typer.Option(metavar="COLUMN", help="The training curve.")] = None,
    test: Annotated[str | None, typer.Option(metavar="COLUMN", help="The test curve.")] = None,
    train_like: Annotated[
        str | None, typer.Option(metavar="error|accuracy", help="How to read the training curve.")
    ] = None,
    test_like: Annotated[str | None, typer.Option(metavar="error|accuracy", help="How to read the test curve.")] = None,
    fit: Annotated[float | None, typer.Option(help="The training level that counts as fitted.")] = None,
    generalise: Annotated[float | None, typer.Option(help="The test level that counts as generalised.")] = None,
    norm: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A norm to compare the test error with. Repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Diagnose training curves from anywhere.

    Says whether they show grokking, misgrokking or something else, with the evidence.

    \b
      afterfit diagnose curves.csv
      afterfit diagnose log.csv --time epoch --train train_acc --test val_acc --generalise 0.9

    What is not given is guessed, from the names of the columns and from the curves, and printed with the
    verdict: train_loss, train_error or train_accuracy, test_… or val_…, and time, step or epoch.
    """
    from afterfit.diagnose import diagnose as judge
    from afterfit.diagnose import explain_criteria, guess_criteria, read_csv
    from afterfit.files import json_text

    columns = _read_columns(file)
    time = time or _guess_column("time", columns)
    train = train or _guess_column("train", columns)
    test = test or _guess_column("test", columns)
    curves: dict[str, Any] = read_csv(file, time=time, train=train, test=test, norms=norm or [])
    like = (train_like or _read_as(train), test_like or _read_as(test))
    criteria = guess_criteria(
        curves["train"],
        curves["test"],
        like,  # pyright: ignore[reportArgumentType]  # None leaves that curve to be guessed from its values
        fit,
        generalise,
    )
    verdict = judge(
        curves["time"],
        curves["train"],
        curves["test"],
        criteria,
        norms={name: curves[name] for name in norm or []},
    )
    if as_json:
        say(json_text(verdict.to_dict(), indent=2))
    elif quiet:
        say(str(verdict))
    else:
        print_verdict("", verdict.describe())
        say(f"Columns: {time!r} is time, {train!r} is train, {test!r} is test.")
        say(f"Criteria: {explain_criteria(criteria)}")


def _read_columns(path: Path) -> list[str]:
    """The names in the first line of a CSV file."""
    require(path.is_file(), f"there is no file {path}.")
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = file.readline()
    except UnicodeDecodeError:
        raise SpecError(f"{path} is not a text file: give a CSV file.") from None
    rows = (next(csv.reader([header], delimiter=separator), []) for separator in ",;\t")
    return [name.strip() for name in max(rows, key=len)]


def _guess_column(role: str, columns: Sequence[str]) -> str:
    """The column that is `time`, `train` or `test` by its name, however it is written."""
    plain = {re.sub(r"[^a-z]+", "_", column.lower()).strip("_"): column for column in columns}
    for name in _NAMES[role]:
        if name in plain:
            return plain[name]
    raise SpecError(f"cannot tell which column is {role}: name it with --{role}, one of: {', '.join(columns)}.")


def _read_as(column: str) -> str | None:
    """Whether a column is an error or an accuracy, by its name; None if that does not say."""
    name = column.lower()
    return "accuracy" if "acc" in name else "error" if "loss" in name or "err" in name else None
