"""`afterfit list` and `afterfit show`."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from afterfit._base.errors import nearest, require
from afterfit._cli._app import Quiet, complete_entry, complete_paper, complete_scale, say, wrap

if TYPE_CHECKING:
    from afterfit.papers import Entry

__all__ = ["list_", "show"]


def list_(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAPER|FILE]",
            help="A paper such as lyu2023, or a Python file with entries of your own; all papers when not given.",
            autocompletion=complete_paper,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """List the gallery, by paper, or the entries of one paper or file.

    With --quiet only the ids, one a line. Then `afterfit show ID` says what an entry is, and `afterfit run
    ID` runs it; of a file they are called `afterfit run my_paper.py::fig2`.
    """
    listed = _of_paper(paper)
    width = max(map(len, listed), default=0)
    for heading in dict.fromkeys(entry.paper for entry in listed.values()):
        if not quiet:
            say(heading.title, bold=True)
        for id, entry in listed.items():
            if entry.paper == heading:
                say(id if quiet else f"  {id:{width}}  {entry.title} ({entry.where})")


def _of_paper(paper: str | None) -> dict[str, Entry]:
    """The entries of a paper, of a file or of the whole gallery, by what they are called on the command line."""
    from afterfit.papers import entries, entries_of, is_python_file

    if paper is not None and is_python_file(paper):
        return {f"{paper}::{entry.name}": entry for entry in entries_of(paper).values()}
    gallery = entries()
    names = {entry.paper.name for entry in gallery.values()}
    require(paper is None or paper in names, f"there is no paper {paper!r}: {nearest(paper or '', names)}")
    return {id: entry for id, entry in gallery.items() if paper in (None, entry.paper.name)}


def show(
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID|FILE::NAME", help="A gallery id, or an entry of a file.", autocompletion=complete_entry
        ),
    ],
    scale: Annotated[str, typer.Option(help="Whose setting: quick or paper.", autocompletion=complete_scale)] = "paper",
) -> None:
    """Show what an entry is, its claims and its setting.

    The setting is printed by the names that `afterfit run --set` takes. It is also valid TOML: saved in a
    file, `afterfit run my.toml` runs it.
    """
    from afterfit.papers import find
    from afterfit.papers._entry import check_scale

    entry = find(id)  # before anything is loaded: a name may be refused at once
    check_scale(scale)
    from afterfit._training.experiment import flatten, spec_to_toml

    experiments = entry.experiments(scale)
    say(f"{entry.id}: {entry.title}", bold=True)
    say(wrap(f"{entry.paper.title}, {entry.where}"))
    say(f"\n{wrap(entry.about)}\n")
    if departure := entry.departure(experiments):
        say(f"{wrap(departure)}\n")
    say("Claims", bold=True)
    for claim in entry.claims:
        say(wrap(f"- {claim.words}", "  "))
    (name, headline), *others = experiments.items()
    say(f"\nSetting of the run {name!r} at {scale} scale", bold=True)
    say(textwrap.indent(headline.to_toml(), "  "))
    if others:
        say(f"\nThe other runs differ from {name!r} in", bold=True)
    flat = flatten(headline.to_dict())
    for other, experiment in others:
        changes = ((k, v) for k, v in flatten(experiment.to_dict()).items() if flat.get(k) != v)
        say(f"  {other}: " + ", ".join(_in_short(k, v) or spec_to_toml({k: v}) for k, v in changes))


def _in_short(name: str, value: object) -> str | None:
    """A long list, which would hide the other differences, by its first numbers; None for anything else."""
    if not isinstance(value, list) or len(value) <= 6:
        return None
    return f"{name} = [{', '.join(f'{number:.3g}' for number in value[:3])}, …] ({len(value)} numbers)"
