"""`afterfit data`: the images that are on this machine, and how more come there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from afterfit._base.errors import AfterfitError, nearest, require
from afterfit._cli._app import Quiet, complain, readable, say

__all__ = ["data"]

data = typer.Typer(
    rich_markup_mode=None,
    help="Images for `Images` tasks: list, download, or use a copy that is there.\n\nThey are looked for in the "
    "folders of AFTERFIT_DATA, in those that `afterfit data path` was told, among what was fetched, and where Debian's "
    "packages put theirs, in this order. What an experiment is named by is their content, not their place.",
)


def _complete_set(incomplete: str) -> list[str]:
    from afterfit._base.images import FETCHABLE

    return [name for name in FETCHABLE if name.startswith(incomplete)]


@data.callback(invoke_without_command=True)
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_()


@data.command("ls")
def list_(quiet: Quiet = False) -> None:
    """List the images that are on this machine, and what could be fetched.

    With --quiet only names and places, one a line; the files are not read.
    """
    from afterfit._base.images import FETCHABLE, known_sets

    names = set()
    for name, source in known_sets():
        if quiet:
            say(readable(f"{name}\t{source}"))
        else:
            _print_set(name, source, shadowed=name in names)
        names.add(name)
    for name in FETCHABLE:
        if name not in names and not quiet:
            say(f"{name}: not here. `afterfit data fetch {name}` downloads it.", file=sys.stderr)


def _print_set(name: str, source: Path, shadowed: bool = False) -> None:
    """Say what a set is, or what is wrong with it."""
    from afterfit._base.images import PUBLISHED, in_short, read

    try:
        found = read(source)
    except (AfterfitError, OSError) as error:  # one that cannot be read hides no other
        complain(readable(f"{name}: {error}"))
        return
    notes = " (not the published one)" if name in PUBLISHED and found.published != name else ""
    notes += f" (the {name} above is taken)" if shadowed else ""
    say(readable(f"{name}: {in_short(found)}, in {source}{notes}"))


@data.command("fetch")
def fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="mnist, fashion-mnist or cifar10.", autocompletion=_complete_set)
    ],
    quiet: Quiet = False,
) -> None:
    """Download images, and compare them with their published checksums.

    They are kept in the user's cache directory. A download that was interrupted is started again by the same
    command; files that are there and whole are kept.
    """
    from afterfit._base.fetch import fetch as download
    from afterfit._base.images import FETCHABLE

    require(name in FETCHABLE, f"there is no set {name!r} to fetch: {nearest(name, FETCHABLE)}")
    folder = download(name, complain, show=False if quiet else None)
    if quiet:
        say(readable(str(folder)))
    else:
        _print_set(name, folder)


@data.command("path")
def path(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with images, or with folders of them.")],
    quiet: Quiet = False,
) -> None:
    """Use a copy of images that is there: look into a folder from now on.

    The folder, or one up to two levels below it, holds MNIST's four files, plain or gzipped, the six of CIFAR-10's
    binary version, or .npz files with x_train, y_train, x_test and y_test. Known images are known by their content;
    others are called as their folder or file is. AFTERFIT_DATA in the environment does the same for one command.
    """
    from afterfit._base.images import remember, sets_in

    place = folder.expanduser().absolute()
    require(place.is_dir(), f"{folder} is no folder.")
    require("\n" not in str(place), f"{str(folder)!r} has a line break in its name: choose another place.")
    found = list(sets_in(place))
    require(
        bool(found),
        f"{folder} holds no images: MNIST's four IDX files, the six .bin files of CIFAR-10's binary version, or .npz "
        "files are looked for there, and up to two levels below.",
    )
    failures = {source: why for _, source in found if (why := _why_not(source))}
    require(len(failures) < len(found), f"{folder} holds no images that can be read. {' '.join(failures.values())}")
    for source, why in failures.items():
        complain(readable(f"{source} is left out: {why}"))
    remember(place)
    for name, source in found:
        if not quiet and source not in failures:
            _print_set(name, source)


def _why_not(source: Path) -> str:
    """Why a set cannot be read; nothing if it can."""
    from afterfit._base.images import read

    try:
        read(source)
    except (AfterfitError, OSError) as error:
        return str(error)
    return ""
