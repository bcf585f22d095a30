"""The parts of a page: HTML without scripts, network, or anything beside the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from afterfit._base.errors import SpecError
from afterfit._base.files import write_atomically
from afterfit._base.html import escape, table
from afterfit._training.experiment import Experiment, value_to_toml
from afterfit._training.run import versions_here

__all__ = [
    "document",
    "imports_of",
    "not_readable",
    "paragraphs",
    "section",
    "value_in_words",
    "versions_of",
    "write_page",
]


def write_page(path: str | Path, title: str, parts: Iterable[str]) -> Path:
    """Write a page made of parts of HTML; the file appears only once it is complete."""
    body = "\n".join([f"<h1>{escape(title)}</h1>", *filter(None, parts)])
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, document(title, body).encode(errors="replace"))  # the name of a file may be no UTF-8
    return path


def document(title: str, body: str, header: str = "", style: str = "") -> str:
    """A whole page: its main part and, of several pages that belong together, a header that one can skip."""
    top = f'<a class="skip" href="#main">Skip to the content</a>\n{header}\n' if header else ""
    return _PAGE.format(title=escape(title), style=_STYLE + style, top=top, body=body)


def paragraphs(text: str) -> list[str]:
    """Paragraphs of plain text, which have an empty line between them."""
    return [f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip()]


def not_readable(spec: Mapping[str, Any]) -> str:
    """Why a specification cannot be made an experiment again, such as one of arrays; empty if it can."""
    try:
        Experiment.from_dict(spec)
    except SpecError as error:
        return str(error)
    return ""


def imports_of(spec: Mapping[str, Any]) -> str:
    """The options of the command line that make the kinds of a specification known, where some are from elsewhere."""
    modules = dict.fromkeys(kind.rpartition(".")[0] for kind in _kinds(spec))
    return "".join(f" --import {module}" for module in modules if module)


def _kinds(value: Any) -> Iterator[str]:
    """The kinds of all nouns in a specification."""
    if isinstance(value, Mapping):
        if isinstance(value.get("kind"), str):
            yield value["kind"]
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from _kinds(part)


def value_in_words(value: Any) -> str:
    """A setting's value, for people."""
    return "" if value is None else value if isinstance(value, str) else value_to_toml(value)


def versions_of(runs: Iterable[Mapping[str, str]]) -> str:
    """A table of what computed some runs, given the versions that each says; and of this page, where that differs."""
    here, there = versions_here(), list(runs)
    said = {name: {of_run[name] for of_run in there if of_run.get(name)} for of_run in there for name in of_run}
    other = {name: here[name] for name in said if name in here and said[name] != {here[name]}}
    rows = [(name, ", ".join(sorted(found)), other.get(name, "")) for name, found in said.items() if found]
    if not other:
        return table(("software", "version"), (row[:2] for row in rows))
    return table(("software", "version of the runs", "of this page, where it differs"), rows)


def section(heading: str, content: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>\n{content}\n</section>"


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{top}<main id="main">
{body}
</main>
</body>
</html>
"""

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --good: #1a7f37; --bad: #b42318; --soft: #8881; }
@media (prefers-color-scheme: dark) { :root { --good: #4ac26b; --bad: #ff8b7e; } }
body { font: 1rem/1.55 system-ui, sans-serif; margin: 0; }
.skip { position: absolute; left: -999rem; } .skip:focus { position: static; display: block; padding: .5rem 1rem; }
main { max-width: 56rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin-top: 2rem; border-bottom: 1px solid var(--line); }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
.verdict { font-size: 1.1rem; font-weight: 600; }
.good { color: var(--good); } .bad { color: var(--bad); }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { vertical-align: top; padding: .3rem .9rem .3rem 0; }
td { border-top: 1px solid var(--line); overflow-wrap: break-word; }
pre { background: var(--soft); padding: .7rem; overflow-x: auto; font-size: .85rem; border-radius: 4px; }
@media print {
  main { max-width: none; padding: 0; }
  img, tr, pre { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  pre { white-space: pre-wrap; }
}
"""
