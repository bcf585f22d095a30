"""`afterfit runs`: what is in a store."""

from __future__ import annotations

import csv
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer

from afterfit._base.errors import SpecError, require
from afterfit._base.machine import in_words
from afterfit._cli._app import Quiet, StoreOption, print_verdict, say

__all__ = ["runs"]

runs = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="List, show, remove and query stored runs.\n\nA run has the name of its experiment, 16 hex digits; its "
    "beginning is enough where only one run begins so. `afterfit runs query --help` shows what can be asked.",
)

_STORE = "results/store"
_SHOWN = ("id", "task", "model", "penalty", "strength", "verdict", "t_gen", "status", "age")


@runs.command("ls")
def list_(
    store: StoreOption = _STORE,
    limit: Annotated[
        int | None, typer.Option(min=1, help="How many, the latest first. [default: 50]", show_default=False)
    ] = None,
    quiet: Quiet = False,
) -> None:
    """List the runs of a store, the latest first.

    With --quiet only their names, one a line, and all of them unless --limit is given with it.
    """
    from afterfit._sweeps.store import Store

    opened = Store(store)
    table = opened.summaries()
    if quiet:
        for id in table["id"].to_pylist()[:limit]:
            say(id)
        return
    limit = min(limit or 50, len(table))
    rows = table.slice(0, limit).to_pylist()
    _print_table(_SHOWN, (_in_short(row) for row in rows))
    more = f"; these are the latest {limit}" if limit < len(table) else ""
    say(f"{len(table)} {'run' if len(table) == 1 else 'runs'} in {opened.url}{more}", file=sys.stderr)


@runs.command("show")
def show(
    id: Annotated[str, typer.Argument(metavar="ID", help="The name of a run, or its beginning.")],
    store: StoreOption = _STORE,
) -> None:
    """Show a run: its verdict with the evidence, its setting, its files, and what computed it.

    The setting is valid TOML: saved in a file, `afterfit run my.toml` runs it again.
    """
    from afterfit._reports import warning
    from afterfit._sweeps.store import Store
    from afterfit._training.experiment import spec_to_toml

    opened = Store(store)
    run = opened.load(id)
    verdict, said = run.verdict_or_reason()
    print_verdict("", verdict.describe() if verdict else said)
    took, ago = in_words(run.seconds, "seconds"), in_words(time.time() - run.ended, "seconds")
    say(f"  - {warning(run) or 'finished'} ({took}, {ago} ago)")
    if run.method:
        say(f"  - followed by {run.method}.")
    say("\nSetting", bold=True)
    say(textwrap.indent(spec_to_toml(run.spec), "  "))
    say("\nVersions", bold=True)
    say("  " + "\n  ".join(f"{name} {version}" for name, version in run.versions.items()))
    say("\nFiles", bold=True)
    for name, size in opened.files(run.id).items():
        say(f"  {opened.url}/{run.id}/{name} ({size} bytes)")


@runs.command("rm")
def remove(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Names of runs, or their beginnings.")],
    store: StoreOption = _STORE,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove runs for good, after asking."""
    from afterfit._sweeps.store import Store

    opened = Store(store)
    found = list(dict.fromkeys(opened.find(id) for id in ids))  # all of them, before any is removed
    if not yes:
        for id in found:
            say(id, file=sys.stderr)
        try:
            sure = typer.confirm(f"Remove {'this run' if len(found) == 1 else f'these {len(found)} runs'}?", err=True)
        except typer.Abort:  # nobody there to ask
            raise SpecError("nothing was removed: --yes removes without asking.") from None
        require(sure, "nothing was removed.")
    for id in found:
        opened.remove(id)


@runs.command("query")
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A question about the tables runs and curves.")],
    store: StoreOption = _STORE,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the answer as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON, a list of objects.")] = False,
) -> None:
    """Ask a question in SQL.

    The table `runs` has one row a run: id, status, verdict, t_fit, t_gen, delay, seconds, every setting by
    its dotted name (in double quotes) and the final value of every curve. The table `curves` has one row an
    observation: id, time, step and every observed quantity.

    \b
      afterfit runs query 'SELECT verdict, count(*) FROM runs GROUP BY verdict'
      afterfit runs query 'SELECT "penalty.strength", median(t_gen) FROM runs GROUP BY 1 ORDER BY 1'
      afterfit runs query 'SELECT time, test_error FROM curves WHERE id = $$0123456789abcdef$$' --csv
      afterfit runs query 'DESCRIBE runs'

    A query reads these two tables and can do nothing else. It may take a minute and 2 GB.
    """
    from afterfit._base.files import json_text
    from afterfit._sweeps.store import Store

    require(not (as_csv and as_json), "choose one of --csv and --json.")
    answer = Store(store).query(sql)
    rows = (row.values() for batch in answer.to_batches() for row in batch.to_pylist())
    if as_json:
        lines = (json_text(dict(zip(answer.column_names, row, strict=True))) for row in rows)
        say("[" + ",\n".join(lines) + "]")
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.column_names)
        writer.writerows(rows)
    else:
        _print_table(answer.column_names, ([_word(value) for value in row] for row in rows))


# ------------------------------------------------------------------------------------------------------ words


def _in_short(row: dict[str, Any]) -> list[str]:
    kinds = [row.get(f"{noun}.kind") for noun in ("task", "model", "penalty")]
    facts = (row.get("penalty.strength"), row["verdict"], row["t_gen"], row["status"])
    return [row["id"], *map(_word, kinds), *map(_word, facts), in_words(time.time() - row["ended"], "seconds")]


def _print_table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    lines = [list(names), *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(names))]
    for number, line in enumerate(lines):
        cells = (f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
        say("  ".join(cells).rstrip(), bold=number == 0)


def _word(value: Any) -> str:
    """A cell of a table for people: six digits are enough."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "[" + ", ".join(map(_word, value)) + "]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
