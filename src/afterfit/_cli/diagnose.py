"""`afterfit diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from afterfit._cli._app import Quiet, print_verdict, say

__all__ = ["diagnose"]


def diagnose(
    file: Annotated[Path, typer.Argument(metavar="LOG", help="A log with named columns, such as a CSV file.")],
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
    verdict: train_accuracy (or Keras's accuracy), train_error or train_loss, in this order, the same of test_…
    or val_…, and step, epoch or time. An empty cell is a value that was not observed.
    """
    from afterfit._base.files import json_text
    from afterfit._diagnose.columns import guess_columns, read_as
    from afterfit._diagnose.guesses import guess_criteria
    from afterfit._diagnose.judge import diagnose as judge
    from afterfit._diagnose.log import open_log, read_columns

    log = open_log(file)
    columns = guess_columns(log.names(), time=time, train=train, test=test)
    curves: dict[str, Any] = read_columns(
        log, time=columns.time, train=columns.train, test=columns.test, loss=columns.loss, norms=norm or []
    )
    like = (train_like or read_as(columns.train), test_like or read_as(columns.test))
    criteria = guess_criteria(curves["train"], curves["test"], like, fit, generalise)
    norms = {name: curves[name] for name in norm or []}
    curves = {name: curve for name, curve in curves.items() if name not in norms}
    verdict = judge(**curves, criteria=criteria, norms=norms)
    if as_json:
        say(json_text(verdict.to_dict(), indent=2))
    elif quiet:
        say(str(verdict))
    else:
        print_verdict("", verdict.describe())
        say(f"Columns: {columns}")
        say(f"Criteria: {criteria}")
