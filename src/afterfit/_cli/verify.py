"""`afterfit verify`."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from afterfit._base.errors import SpecError, error_in_words, nearest, require
from afterfit._cli._apart import Task, measure_apart
from afterfit._cli._app import (
    Quiet,
    cache_compilations,
    complain,
    complete_group,
    complete_scale,
    on_interrupt,
    one_thread_each,
    say,
    stop,
)

if TYPE_CHECKING:
    from afterfit._training.run import Run
    from afterfit.papers import Entry, Row
    from afterfit.papers._ledger import Ledger

__all__ = ["choose_entries", "folder_of_runs", "rows_of", "runs_in", "verify"]

_STYLES = {"holds": "green", "erratum": "cyan", "fails": "yellow"}  # as recorded; else red


def verify(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID|PAPER|FILE]...",
            help="Gallery ids, papers such as lyu2023, or Python files with entries of your own; the whole gallery "
            "when none is given.",
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
    ledger_file: Annotated[
        Path,
        typer.Option("--ledger", metavar="FILE", help="Where rows are kept as they are measured.", dir_okay=False),
    ] = Path("results/ledger.jsonl"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again what was measured before.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 for any claim that does not hold as it is printed.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Check whether the papers' claims hold.

    Runs gallery entries and prints the ledger: each claim, what the paper says, what was measured, whether it
    holds, and the seconds it took. At quick scale unless told otherwise.

    \b
      afterfit verify                             everything, quickly
      afterfit verify lyu2023 --scale paper       one paper, at its own scale
      afterfit verify my_paper.py                 a paper of your own
      afterfit verify --json ledger.json          for a program to read

    Each row is kept as soon as it is measured, and each run beside the ledger (ledger.runs) until all rows are. The
    same command then goes on where it was stopped, and measures again only what the code or the versions of packages
    have changed since; --fresh measures everything again.

    Exits with 0 if everything is as the entries record it: claims hold and their controls are rejected, those known
    to fail fail, and of each erratum what is printed fails and the correction holds. Exits with 1 if something is
    not, or ends in an error; with --strict also for whatever does not hold as printed.

    The JSON is a list of objects with the keys id, claim, paper_says, measured, holds, scale, seconds, control (what
    the check was seen to reject, or of a claim that fails to accept), erratum (what should have been printed, or
    null), as_recorded, and changed (what of the criterion was changed after numbers had been seen, or null).
    """
    one_thread_each()
    from afterfit.papers._entry import check_scale
    from afterfit.papers._ledger import Ledger

    check_scale(scale)
    entries = choose_entries(ids or [])
    for entry in entries:
        entry.check_names()
    if json_file not in (None, "-"):
        _check_writable(Path(json_file))
    # A live progress bar takes over sys.stdout for the sake of the terminal: hold on to a pipe.
    stdout = sys.stdout
    table = _Table(sys.stderr if json_file == "-" else stdout, quiet)
    ledger = Ledger(ledger_file)
    cache_compilations()
    errors = 0
    try:
        with (
            on_interrupt(stop),  # a claim must not be judged by a run that was cut short
            folder_of_runs(ledger_file, fresh) as (folder, remove_served),
            runs_in(folder) as store,
        ):
            task = Task(tuple(ids or ()), scale, ledger_file, folder, fresh)
            for found in _rows(entries, task, ledger, store, quiet):
                if isinstance(found, str):
                    errors += 1
                    complain(f"error  {found}")
                    continue
                table.show(*found)
                if json_file not in (None, "-"):
                    _write_json(Path(json_file), table.rows_of(entries))
            if not errors and all(row.as_recorded for row in table.rows):
                # They have served; else they are of use to who looks into it. Others are of a command that was stopped.
                remove_served(store, {run.id for entry in entries for run in entry.experiments(scale).values()})
    finally:
        if json_file == "-":
            typer.echo(_as_json(table.rows_of(entries)), file=stdout)
    say(_summary(table.rows, errors), bold=True, file=table.stream)
    if errors or not all(row.holds if strict else row.as_recorded for row in table.rows):
        raise typer.Exit(1)


@contextlib.contextmanager
def folder_of_runs(ledger: Path, fresh: bool) -> Iterator[tuple[Path, Callable[[Any, set[str]], None]]]:
    """Where runs are kept, beside the ledger, those of other code being removed; to be `fresh`, a new place.

    With what removes runs that have served, those that a store was asked for and others. Another command that is about
    to read them has to find them: the last of those at work removes what the others leave.
    """
    from afterfit._training.experiment import is_id
    from afterfit.papers._ledger import code_of_runs

    if fresh:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            yield Path(folder), lambda store, others: None
        return
    here = ledger.with_suffix(".runs") / code_of_runs()
    for other in here.parent.glob("*"):
        if other != here and is_id(other.name):
            shutil.rmtree(other, ignore_errors=True)
    here.parent.mkdir(parents=True, exist_ok=True)
    with (here.parent / "served").open("a+", encoding="utf-8") as served:

        def remove(store: Any, others: set[str]) -> None:
            print(*store.asked, *others, sep="\n", file=served, flush=True)
            if not _lock(served, alone=True):
                return
            served.seek(0)
            for id in set(served.read().split()) & set(store.ids()):
                with contextlib.suppress(SpecError):  # it is gone
                    store.remove(id)
            served.truncate(0)

        _lock(served)
        yield here, remove


def _lock(file: TextIO, alone: bool = False) -> bool:
    """Hold a file with others, or `alone`: whether that could be had. Until it is closed, or the process ends."""
    try:
        import fcntl
    except ImportError:  # where it cannot be held there is nobody who is known to do so
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def runs_in(folder: Path) -> Iterator[Any]:
    """A store in which runs are kept as they end. It knows which of its runs it was `asked` for."""
    from afterfit._sweeps.store import Store
    from afterfit.papers._entry import keeping

    class Asked(Store):
        def __init__(self, url: Path):
            super().__init__(url)
            self.asked: set[str] = set()

        def load(self, id: str) -> Run:
            self.asked.add(id)
            return super().load(id)

    store = Asked(folder)
    with keeping(store):
        yield store


def _summary(rows: Sequence[Row], errors: int) -> str:
    """How many rows came out how, in words."""
    count = Counter(row.status for row in rows)
    said = {
        "holds": "hold",
        "erratum": "are errata and confirmed",
        "fails": "do not hold, as recorded",
        "FAILS": "DO NOT HOLD",
        "HOLDS": "HOLD, recorded as failing",
    }
    parts = [f"{count[status]} {words}" for status, words in said.items() if count[status]]
    if errors:
        parts.append(f"{errors} ended in an error")
    return f"{len(rows) + errors} claims: {', '.join(parts)}"


def choose_entries(ids: Sequence[str]) -> list[Entry]:
    """The entries of these ids, papers and files, each once; the gallery when none is named."""
    from afterfit.papers import entries, entries_of, find, is_python_file

    gallery = entries() if not all(map(is_python_file, ids)) or not ids else {}
    papers = {entry.paper.name for entry in gallery.values()}
    chosen: dict[str, Entry] = {} if ids else gallery
    for id in ids:
        if id in papers:
            chosen |= {entry.id: entry for entry in gallery.values() if entry.paper.name == id}
        elif id in gallery:
            chosen[id] = gallery[id]
        elif "::" in id:
            chosen[find(id).id] = find(id)
        else:
            known = nearest(id, [*gallery, *papers])
            require(is_python_file(id), f"there is no gallery entry, paper or file {id!r}: {known}")
            chosen |= entries_of(id)
    return list(chosen.values())


def _rows(
    entries: Sequence[Entry], task: Task, ledger: Ledger, store: Any, quiet: bool
) -> Iterator[tuple[Row, str] | str]:
    """Every row with the day of its measurement if that was earlier, or what went wrong; a bar counts them.

    Entries of which something is to be measured go side by side where there are several, and cores for them.
    """
    from afterfit._base.progress import progress_bar
    from afterfit._sweeps.jobs import cores

    total = sum(len(entry.claims) for entry in entries)
    done = 0
    with progress_bar("claims", False if quiet else None, of=total) as show:

        def share(part: float) -> None:
            # Runs come before the first row that they are for, and are at most a part of it.
            show(done + min(part, 0.99))

        missing = [k for k, entry in enumerate(entries) if task.fresh or not _all_kept(entry, task.scale, ledger)]
        apart = sorted(missing, key=lambda k: -ledger.seconds(entries[k], task.scale)) if cores() > 1 else []
        if len(apart) < 2:
            apart = []
        here = [entry for k, entry in enumerate(entries) if k not in apart]
        found = itertools.chain.from_iterable(rows_of(e, task.scale, ledger, task.fresh, share) for e in here)
        for row in itertools.chain(found, _rows_apart(entries, task, apart, cores(), store, share)):
            done += 1
            show(done)
            yield row


def _rows_apart(
    entries: Sequence[Entry], task: Task, places: Sequence[int], count: int, store: Any, show: Callable[[float], None]
) -> Iterator[tuple[Row, str] | str]:
    """The rows of the entries at these places, measured side by side by other processes."""
    came: Counter[int] = Counter()
    for place, what, value in measure_apart(task, places, count, show):
        if what == "row":
            came[place] += 1
            yield value
        elif what == "asked":
            store.asked |= value
        else:
            entry = entries[place]
            for _ in range(len(entry.claims) - came[place]):
                yield f"{entry.id}: the process that measured it ended with {value}, perhaps for want of memory"


def _all_kept(entry: Entry, scale: str, ledger: Ledger) -> bool:
    return all(ledger.find(entry, claim, scale) is not None for claim in entry.claims)


def rows_of(
    entry: Entry, scale: str, ledger: Ledger, fresh: bool, show: Callable[[float], None]
) -> Iterator[tuple[Row, str] | str]:
    """The rows of an entry: those that were kept first, and those that have to be measured."""
    kept = {} if fresh else {c.words: k for c in entry.claims if (k := ledger.find(entry, c, scale)) is not None}
    yield from ((row.row, row.date) for row in kept.values())
    missing = [claim.words for claim in entry.claims if claim.words not in kept]
    if not missing:
        return
    try:
        checks = entry.verify_each(scale, show, but=kept)
        for words, check in zip(missing, checks, strict=True):
            try:
                yield ledger.keep(entry, check()).row, ""
            except Exception as error:
                yield f"{entry.id}, {words}: {error_in_words(error)}"
    except Exception as error:  # of its runs, which all of its claims need
        yield from (f"{entry.id}, {words}: {error_in_words(error)}" for words in missing)


@dataclasses.dataclass
class _Table:
    """Rows as they arrive: a table on a terminal, and lines that read well anywhere else."""

    stream: TextIO
    quiet: bool
    rows: list[Row] = dataclasses.field(default_factory=list)

    def rows_of(self, entries: Sequence[Entry]) -> list[Row]:
        """The rows in the order of their entries, in which they need not have come."""
        order = {entry.id: place for place, entry in enumerate(entries)}
        return sorted(self.rows, key=lambda row: order[row.id])

    def show(self, row: Row, date: str) -> None:
        """One row; `date` is when it was measured, if not now."""
        self.rows.append(row)
        when = f"measured on {date}" if date else f"{row.seconds:.1f} s"
        if self.quiet:
            self._say(row, f"{row.id}: {row.claim}")
        elif self.stream.isatty():
            self._add_row(row, date or f"{row.seconds:.1f}")
        else:
            self._say(row, f"{row.id}: {row.claim} ({row.scale}, {when})")
            say(f"         paper:    {row.paper_says}", file=self.stream)
            say(f"         measured: {row.measured}", file=self.stream)
            if row.erratum is not None:
                say(f"         erratum:  {row.erratum}", file=self.stream)
            elif row.control is not None:
                say(f"         {'rejected' if row.holds else 'control'}: {row.control}", file=self.stream)
            if row.changed is not None:
                say(f"         changed:  {row.changed}", file=self.stream)

    def _say(self, row: Row, text: str) -> None:
        say(f"{row.status:7}  {text}", file=self.stream)

    def _add_row(self, row: Row, when: str) -> None:
        """One row of a table whose columns have the same width in every row, so that it can grow."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        # The stream is looked up anew: a live progress bar takes the row and stays below it.
        console = Console(stderr=self.stream is sys.__stderr__, highlight=False)
        before = self.rows[-2] if len(self.rows) > 1 else None
        table = Table(box=None, expand=True, show_header=before is None, pad_edge=False)
        table.add_column("", width=7)
        for heading, ratio in (("claim", 3), ("the paper says", 4), ("measured", 4)):
            table.add_column(heading, ratio=ratio)
        table.add_column("seconds", width=10, justify="right")
        mark = Text(row.status, style=_STYLES.get(row.status, "bold red"))
        table.add_row(mark, *(Text(text) for text in (row.claim, row.paper_says, row.measured)), when)
        if before is None or before.id != row.id:
            console.print(Text(f"{row.id} ({row.scale} scale)", style="bold"))
        console.print(table)


def _as_json(rows: Sequence[Row]) -> str:
    from afterfit._base.files import json_text

    return json_text([dataclasses.asdict(row) for row in rows], indent=2)


def _write_json(path: Path, rows: Sequence[Row]) -> None:
    from afterfit._base.files import write_atomically

    write_atomically(path, f"{_as_json(rows)}\n".encode())


def _check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the work whose results it is for."""
    require(path.parent.is_dir(), f"--json {path}: there is no directory {path.parent}.")
    require(not path.is_dir(), f"--json {path} is a directory: name a file in it.")
    require(os.access(path.parent, os.W_OK), f"--json {path}: the directory {path.parent} cannot be written to.")
