"""`afterfit verify`."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from afterfit.cli._app import (
    Quiet,
    cache_compilations,
    complain,
    complete_group,
    complete_scale,
    on_interrupt,
    paper_titles,
    say,
    stop,
)
from afterfit.spec import SpecError, nearest, require

if TYPE_CHECKING:
    from afterfit.papers import Claim, Entry

__all__ = ["verify"]


def verify(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID|PAPER]...",
            help="Gallery ids, or papers such as lyu2023; everything when none is given.",
            autocompletion=complete_group,
        ),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="quick takes minutes for the whole gallery; paper is each paper's own setting.",
            autocompletion=complete_scale,
        ),
    ] = "quick",
    json_file: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE|-", help="Also write the ledger as JSON; - writes it, alone, to stdout."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Check whether the papers' claims hold.

    Runs gallery entries and prints the ledger: each claim, what the paper says, what was measured, whether it
    holds, and the seconds it took. At quick scale unless told otherwise.

    \b
      afterfit verify                             everything, quickly
      afterfit verify lyu2023 --scale paper       one paper, at its own scale
      afterfit verify --json ledger.json          for a program to read

    Exits with 1 if a claim does not hold or an entry ends in an error; the other entries go on. The JSON is a
    list of objects with the keys id, claim, paper_says, measured, holds, scale and seconds; the file is
    brought up to date after every claim, so that an interruption loses nothing.
    """
    from afterfit.papers.gallery import check_scale

    check_scale(scale)
    entries = _choose_entries(ids or [])
    if json_file not in (None, "-"):
        _check_writable(Path(json_file))
    # A live progress bar takes over sys.stdout for the sake of the terminal: hold on to a pipe.
    stdout = sys.stdout
    stream = sys.stderr if json_file == "-" else stdout
    ledger = _Ledger(stream, quiet)
    cache_compilations()
    errors = 0
    try:
        with on_interrupt(stop):  # a claim must not be judged by a run that was cut short
            for entry in entries:
                try:
                    for claim in entry.verify(scale, progress=False if quiet else None):
                        ledger.claims.append(claim)
                        if json_file not in (None, "-"):
                            _write_json(Path(json_file), ledger.claims)
                        ledger.show(claim)
                except BrokenPipeError:
                    raise
                except Exception as error:
                    errors += 1
                    complain(f"error  {entry.id}: {type(error).__name__}: {error}")
    finally:
        if json_file == "-":
            typer.echo(_as_json(ledger.claims), file=stdout)
    held = sum(claim.holds for claim in ledger.claims)
    failed = f", {errors} entries ended in an error" if errors else ""
    say(f"{held} claims hold, {len(ledger.claims) - held} do not{failed}", bold=True, file=stream)
    if errors or held < len(ledger.claims):
        raise typer.Exit(1)


def _choose_entries(ids: Sequence[str]) -> list[Entry]:
    """The entries of these ids and papers, each once; all when none is named."""
    from afterfit.papers import ENTRIES

    papers = paper_titles()
    for id in ids:
        if id not in ENTRIES and id not in papers:
            raise SpecError(f"there is no gallery entry or paper {id!r}: {nearest(id, [*ENTRIES, *papers])}")
    return [entry for entry in ENTRIES.values() if not ids or entry.id in ids or entry.paper in ids]


@dataclasses.dataclass
class _Ledger:
    """Claims as they arrive: a table on a terminal, and lines that read well anywhere else."""

    stream: TextIO
    quiet: bool
    claims: list[Claim] = dataclasses.field(default_factory=list)

    def show(self, claim: Claim) -> None:
        if self.quiet:
            self._say(claim, f"{claim.id}: {claim.claim}")
        elif self.stream.isatty():
            self._add_row(claim)
        else:
            self._say(claim, f"{claim.id}: {claim.claim} ({claim.scale}, {claim.seconds:.1f} s)")
            say(f"       paper:    {claim.paper_says}", file=self.stream)
            say(f"       measured: {claim.measured}", file=self.stream)

    def _say(self, claim: Claim, text: str) -> None:
        say(f"{'holds' if claim.holds else 'FAILS'}  {text}", file=self.stream)

    def _add_row(self, claim: Claim) -> None:
        """One row of a table whose columns have the same width in every row, so that it can grow."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        # The stream is looked up anew: a live progress bar takes the row and stays below it.
        console = Console(stderr=self.stream is sys.__stderr__, highlight=False)
        before = self.claims[-2] if len(self.claims) > 1 else None
        table = Table(box=None, expand=True, show_header=before is None, pad_edge=False)
        table.add_column("", width=5)
        for heading, ratio in (("claim", 3), ("the paper says", 4), ("measured", 4)):
            table.add_column(heading, ratio=ratio)
        table.add_column("seconds", width=7, justify="right")
        mark = Text("holds", style="green") if claim.holds else Text("FAILS", style="bold red")
        words = (Text(text) for text in (claim.claim, claim.paper_says, claim.measured))
        table.add_row(mark, *words, f"{claim.seconds:.1f}")
        if before is None or before.id != claim.id:
            console.print(Text(f"{claim.id} ({claim.scale} scale)", style="bold"))
        console.print(table)


def _as_json(claims: Sequence[Claim]) -> str:
    from afterfit.files import json_text

    rows = [{**dataclasses.asdict(claim), "holds": bool(claim.holds)} for claim in claims]
    return json_text(rows, indent=2)


def _write_json(path: Path, claims: Sequence[Claim]) -> None:
    from afterfit.files import write_atomically

    write_atomically(path, f"{_as_json(claims)}\n".encode())


def _check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the work whose results it is for."""
    require(path.parent.is_dir(), f"--json {path}: there is no directory {path.parent}.")
    require(not path.is_dir(), f"--json {path} is a directory: name a file in it.")
    require(os.access(path.parent, os.W_OK), f"--json {path}: the directory {path.parent} cannot be written to.")
