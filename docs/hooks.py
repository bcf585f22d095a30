"""For mkdocs: the gallery's site is a part of this one, under gallery/, with the pictures that are in pictures/."""

from __future__ import annotations

from pathlib import Path

from afterfit._cli.site import exhibit
from afterfit._reports.site import site
from afterfit.papers import entries
from afterfit.papers._ledger import Ledger

DOCS = Path(__file__).parent


def gallery() -> dict[str, bytes]:
    """The files of the gallery: nothing is run, and nothing written."""
    ours = {id: entry for id, entry in entries().items() if type(entry).__module__.startswith("afterfit.")}
    shown = [exhibit(entry, id, "quick", DOCS / "pictures") for id, entry in ours.items()]
    return site(shown, Ledger(DOCS / "ledger.jsonl"), home="../index.html")


def on_files(files, config):
    from mkdocs.structure.files import File

    for name, content in gallery().items():
        files.append(File.generated(config, f"gallery/{name}", content=content))
    return files
