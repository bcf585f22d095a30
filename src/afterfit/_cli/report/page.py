"""The parts of a page: HTML without scripts, network, or anything beside the file."""

from __future__ import annotations

import importlib.metadata
import io
import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afterfit._base.errors import SpecError
from afterfit._base.files import write_atomically
from afterfit._base.html import escape, image
from afterfit._training.experiment import Experiment, flatten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "not_readable",
    "paragraphs",
    "picture",
    "picture_bytes",
    "section",
    "to_toml",
    "value_in_words",
    "versions",
    "write_page",
]

_VERSIONED = ("afterfit", "jax", "jaxlib", "equinox", "diffrax", "optax", "numpy", "scipy", "matplotlib")


def write_page(path: str | Path, title: str, parts: Iterable[str]) -> Path:
    """Write a page made of parts of HTML; the file appears only once it is complete."""
    body = "\n".join([f"<h1>{escape(title)}</h1>", *filter(None, parts)])
    page = _PAGE.format(title=escape(title), style=_STYLE, body=body)
    path = Path(path)
    write_atomically(path, page.encode(errors="replace"))  # the name of a file may be no UTF-8
    return path


def paragraphs(text: str) -> list[str]:
    """Paragraphs of plain text, which have an empty line between them."""
    return [f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip()]


def picture_bytes(figure: Figure) -> bytes:
    """A figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def to_toml(spec: Mapping[str, Any]) -> str:
    """A specification as TOML, one dotted name a line: what `afterfit run my.toml` reads."""
    return "\n".join(f"{name} = {_toml(v)}" for name, v in flatten(spec).items() if v is not None)


def not_readable(spec: Mapping[str, Any]) -> str:
    """Why a specification cannot be made an experiment again, such as one of arrays; empty if it can."""
    try:
        Experiment.from_dict(spec)
    except SpecError as error:
        return str(error)
    return ""


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)  # JSON has no inf
    return json.dumps(value, ensure_ascii=False)


def value_in_words(value: Any) -> str:
    """A setting's value, for people."""
    return "" if value is None else value if isinstance(value, str) else _toml(value)


def versions() -> list[tuple[str, str]]:
    installed = [(name, importlib.metadata.version(name)) for name in _VERSIONED]
    return [*installed, ("Python", platform.python_version()), ("system", platform.platform())]


def section(heading: str, content: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>\n{content}\n</section>"


def picture(figure: Figure | bytes, alt: str) -> str:
    return f"<p>{image(figure if isinstance(figure, bytes) else picture_bytes(figure), alt)}</p>"


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --good: #1a7f37; --bad: #b42318; --soft: #8881; }
@media (prefers-color-scheme: dark) { :root { --good: #4ac26b; --bad: #ff8b7e; } }
body { font: 1rem/1.55 system-ui, sans-serif; margin: 0; }
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
