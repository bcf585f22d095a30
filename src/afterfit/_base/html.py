"""Pieces of HTML that pages and notebooks share: plain, escaped, in the reader's own colours."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Raw", "escape", "folded", "listed", "picture", "picture_bytes", "table"]


class Raw(str):
    """Text that is HTML already."""


def escape(text: object) -> str:
    """Any text as HTML."""
    return text if isinstance(text, Raw) else html.escape(str(text))


def table(head: Iterable[object], rows: Iterable[Iterable[object]], caption: str = "") -> Raw:
    """A table that scrolls sideways by itself where the screen is narrow.

    What it needs of style it brings along, since a notebook has none for it; colours are the reader's, light or dark.
    """
    left = 'style="text-align:left"'  # notebooks align to the right, which is for numbers
    title = f'<caption style="text-align:left">{escape(caption)}</caption>' if caption else ""
    top = "".join(f'<th scope="col" {left}>{escape(cell)}</th>' for cell in head)
    lines = "\n".join("<tr>" + "".join(f"<td {left}>{escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    parts = f"{title}<thead><tr>{top}</tr></thead><tbody>\n{lines}\n</tbody>"
    return Raw(f'<div style="overflow-x:auto"><table>{parts}</table></div>')


def listed(items: Iterable[object]) -> Raw:
    """A list; nothing if it is empty."""
    lines = "".join(f"<li>{escape(item)}</li>" for item in items)
    return Raw(f"<ul>{lines}</ul>" if lines else "")


def folded(summary: str, items: Iterable[object]) -> Raw:
    """A list behind its summary; nothing if it is empty."""
    inside = listed(items)
    return Raw(f"<details><summary>{escape(summary)}</summary>{inside}</details>" if inside else "")


def picture(figure: Figure | bytes, alt: str) -> Raw:
    """A figure, or a PNG already made of it, with the words for those who cannot see it."""
    data = base64.b64encode(figure if isinstance(figure, bytes) else picture_bytes(figure)).decode()
    return Raw(f'<p><img src="data:image/png;base64,{data}" alt="{escape(alt)}" style="max-width:100%"></p>')


def picture_bytes(figure: Figure) -> bytes:
    """A figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()
