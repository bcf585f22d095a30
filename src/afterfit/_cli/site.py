"""`afterfit gallery`."""

from __future__ import annotations

import datetime
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from afterfit._base.errors import error_in_words, require
from afterfit._cli._app import (
    Quiet,
    cache_compilations,
    complain,
    complete_entry,
    complete_group,
    complete_scale,
    on_interrupt,
    one_thread_each,
    say,
    stop,
)
from afterfit._cli.verify import choose_entries, folder_of_runs, runs_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from afterfit._reports.site import Exhibit, Picture
    from afterfit.papers import Entry

__all__ = ["exhibit", "gallery"]

_MARK = ".afterfit"  # the file that says that a directory is for a site, and what of it is ours
_DPI, _COLOURS = 110, 128  # as sharp as a page needs; a plot has few colours, and takes a third of the bytes with fewer


def gallery(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE]...",
            help="Python files with entries of your own, shown beside the gallery's.",
            autocompletion=complete_entry,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the site goes.", file_okay=False)] = Path("site"),
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID|PAPER|FILE", help="Show these alone, and no others. Repeatable.", autocompletion=complete_group
        ),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="Of which runs the pictures are: quick takes minutes for all, paper hours.",
            autocompletion=complete_scale,
        ),
    ] = "quick",
    ledger_file: Annotated[
        Path,
        typer.Option("--ledger", metavar="FILE", help="Where `afterfit verify` keeps its rows.", dir_okay=False),
    ] = Path("results/ledger.jsonl"),
    pictures: Annotated[
        Path, typer.Option(help="Where pictures are kept from one time to the next.", file_okay=False)
    ] = Path("results/pictures"),
    draw: Annotated[
        bool, typer.Option("--draw/--no-draw", help="Run entries whose picture is not kept, or use those that are.")
    ] = True,
    home: Annotated[
        str, typer.Option(metavar="URL", help="Where a link to the documentation leads; none when not given.")
    ] = "",
    quiet: Quiet = False,
) -> None:
    """Write the gallery as a site of static pages.

    An index by paper and by phenomenon, and of each entry a page: its picture, its claims with what was measured at
    both scales, errata, setting, and how to reproduce it. The pages load nothing from elsewhere: open
    site/index.html, or put the directory on any server.

    \b
      afterfit gallery                                     all of it, with pictures at quick scale
      afterfit gallery my_paper.py                         with a paper of your own
      afterfit gallery --only lyu2023 --out lyu            one paper
      afterfit gallery --no-draw                           in seconds, with the pictures that there are

    Numbers are the ledger's: `afterfit verify` measures. A picture is drawn by running its entry, and kept; the same
    command draws again only what other code would draw, and goes on where it was stopped. Exits with 1 if a picture
    could not be drawn: its page is written without it.
    """
    one_thread_each()
    from afterfit.papers._entry import check_scale
    from afterfit.papers._ledger import Ledger

    check_scale(scale)
    chosen = _jobs(files or [], only or [])
    _check_directory(out)
    if not ledger_file.exists():
        complain(
            f"there is no ledger {ledger_file}: claims are shown without numbers. `afterfit verify` measures them."
        )
    ledger = Ledger(ledger_file)
    failed = _draw_all(list(chosen.values()), scale, pictures, quiet) if draw else 0
    from afterfit._reports.site import site

    shown = [exhibit(entry, job, scale, pictures) for job, entry in chosen.items()]
    _write(out, site(shown, ledger, home))
    say(str(out / "index.html") if quiet else f"{'site':8} {out / 'index.html'}")
    if failed:
        raise typer.Exit(1)


def exhibit(entry: Entry, job: str, scale: str, pictures: Path) -> Exhibit:
    """An entry with its picture of this scale; if there is none, of the other."""
    from afterfit._reports.site import Exhibit
    from afterfit.papers import SCALES

    scales = (scale, *(other for other in SCALES if other != scale))
    found = (_picture(entry, one, pictures) for one in scales)
    return Exhibit(entry, job, next((picture for picture in found if picture), None))


def _jobs(files: Sequence[str], only: Sequence[str]) -> dict[str, Entry]:
    """The entries by what they are called on a command line: those chosen, or the gallery with those of the files."""
    from afterfit.papers import entries_of, is_python_file

    for file in files:
        require(
            is_python_file(file), f"{file} is no Python file with entries: choose from the gallery with --only {file}."
        )
    of_files = [file for file in (*files, *only) if is_python_file(file)]
    names = {entry.id: f"{file}::{entry.name}" for file in of_files for entry in entries_of(file).values()}
    chosen = choose_entries([*only, *files] if only else [])
    chosen += [entry for file in files for entry in entries_of(file).values() if not only]
    return {names.get(entry.id, entry.id): entry for entry in chosen}


# -------------------------------------------------------------------------------------------------- pictures


def _draw_all(entries: Sequence[Entry], scale: str, pictures: Path, quiet: bool) -> int:
    """Draw what is not kept, one after the other: how many could not be drawn."""
    from afterfit._base.files import write_atomically
    from afterfit._base.progress import progress_bar

    missing = [entry for entry in entries if not _is_current(entry, scale, pictures)]
    if not missing:
        return 0
    for entry in missing:
        entry.check_names()
    pictures.mkdir(parents=True, exist_ok=True)
    cache_compilations()
    failed = 0
    with (
        on_interrupt(stop),  # a picture of runs that were cut short would be another
        folder_of_runs(pictures, fresh=False) as (folder, remove_served),
        runs_in(folder) as store,
        progress_bar("pictures", False if quiet else None, of=len(missing)) as show,
    ):
        for done, entry in enumerate(missing):
            try:
                runs = entry.run(scale, progress=lambda share: show(done + min(share, 0.99)))  # noqa: B023
                write_atomically(_place(entry, scale, pictures), _as_png(entry, entry.draw(runs, scale), scale))
            except Exception as error:  # one entry must not take the others' pictures with it
                failed += 1
                complain(f"the picture of {entry.id} cannot be drawn: {error_in_words(error)}")
                continue
            show(done + 1)
        if not failed:  # else they are of use to who looks into it
            remove_served(store, set())
    return failed


def _as_png(entry: Entry, figure: Figure, scale: str) -> bytes:
    """A figure with few colours, that says of itself what drew it and when."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    from afterfit.papers._ledger import code_of

    drawn, written = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=_DPI, facecolor="white")
    said = PngInfo()
    for key, text in {"id": entry.id, "scale": scale, "code": code_of(entry), "date": _today()}.items():
        said.add_text(key, text)
    few = Image.open(drawn).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    few.save(written, format="png", optimize=True, pnginfo=said)
    return written.getvalue()


def _picture(entry: Entry, scale: str, pictures: Path) -> Picture | None:
    """The picture that is kept of an entry, with a remark if other code drew it."""
    from PIL import Image

    from afterfit._reports.site import Picture

    said = _said(entry, scale, pictures)
    if said is None:
        return None
    png = _place(entry, scale, pictures).read_bytes()
    by = "" if _is_current(entry, scale, pictures) else ", by other code than is here now"
    return Picture(png, scale, Image.open(io.BytesIO(png)).size, f", on {said.get('date', 'a day unknown')}{by}")


def _is_current(entry: Entry, scale: str, pictures: Path) -> bool:
    from afterfit.papers._ledger import code_of

    said = _said(entry, scale, pictures)
    return said is not None and said.get("code") == code_of(entry)


def _said(entry: Entry, scale: str, pictures: Path) -> dict[str, str] | None:
    """What a kept picture says of itself; None if there is none that can be read."""
    from PIL import Image

    place = _place(entry, scale, pictures)
    if not place.is_file():
        return None
    try:
        with Image.open(place, formats=["png"]) as picture:
            picture.load()
            said = {key: str(text) for key, text in getattr(picture, "text", {}).items()}
            return said if said.get("id", entry.id) == entry.id else None  # or of one whose id differs in signs alone
    except (OSError, ValueError, SyntaxError):  # what Pillow raises of bytes that are no PNG
        complain(f"{place} is no picture that can be read: it is left out, and drawn again without --no-draw.")
        return None


def _place(entry: Entry, scale: str, pictures: Path) -> Path:
    from afterfit._reports.site import file_names

    return pictures / f"{file_names([entry])[entry.id]}-{scale}.png"


def _today() -> str:
    return datetime.date.today().isoformat()


# ------------------------------------------------------------------------------------------------ the directory


def _check_directory(out: Path) -> None:
    """Refuse a directory with files of others, before the work whose results it is for."""
    require(
        not out.exists() or (out / _MARK).is_file() or not any(out.iterdir()),
        f"{out} has files in it that are not afterfit's, as far as can be told (there is no {_MARK}): choose another "
        "directory with --out, or empty this one.",
    )


def _write(out: Path, files: dict[str, bytes]) -> None:
    """Write the site, and remove what an earlier one had and this one has not."""
    from afterfit._base.files import write_atomically

    out.mkdir(parents=True, exist_ok=True)
    mark = out / _MARK
    before = mark.read_text(encoding="utf-8").splitlines() if mark.is_file() else []
    mark.write_text("\n".join(dict.fromkeys([*before, *files])) + "\n", encoding="utf-8")
    for name, content in files.items():
        write_atomically(out / name, content)
    for name in set(before) - set(files):
        if Path(name).name == name:  # and no path that leads elsewhere
            (out / name).unlink(missing_ok=True)
    mark.write_text("\n".join(files) + "\n", encoding="utf-8")
