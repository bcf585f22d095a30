"""One self-contained HTML page about some runs: no scripts, no network, nothing beside the file."""

from __future__ import annotations

import base64
import html
import importlib.metadata
import io
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from afterfit.files import write_atomically
from afterfit.plot import Overlay, plot_run, verdict_of
from afterfit.theory import explain, overlay

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from afterfit.papers import Claim
    from afterfit.run import Run

__all__ = ["flatten", "picture_bytes", "to_toml", "warning", "write_report"]

_DRAWN = 4  # runs that get a picture of their own; of more, the first ones
_VERSIONED = ("afterfit", "jax", "jaxlib", "equinox", "diffrax", "optax", "numpy", "scipy", "matplotlib")


def write_report(
    path: str | Path,
    title: str,
    runs: Mapping[str, Run],
    figure: Figure | bytes | None = None,
    claims: Sequence[Claim] = (),
    about: str = "",
    command: str = "",
) -> Path:
    """Write a page on `runs` (by name, the headline first): verdicts, pictures, setting, cost, versions.

    `figure` is a picture of all runs together (a figure, or a PNG already made of it), `claims` rows of the
    ledger, `about` some paragraphs of introduction, `command` what reproduces the runs. The file appears only
    once it is complete.

    ```python
    write_report("report.html", "L1 against L2", {"L1": run, "L2": other})
    ```
    """
    pictures = [] if figure is None else [_picture(figure, f"Picture: {title}")]
    sections = [
        _section("Verdict" if len(runs) == 1 else "Verdicts", _verdicts(runs)),
        _section("Claims", _claims(claims)) if claims else "",
        _section("Cost" if len(runs) == 1 else "Runs", _runs(runs)),
        _section("Setting", _setting(runs)),
        _section("How to reproduce", _reproduce(runs, command)),
        _section("Versions", _table(("software", "version"), _versions())),
    ]
    paragraphs = [f"<p>{_escape(text)}</p>" for text in about.split("\n\n") if text.strip()]
    body = "\n".join([f"<h1>{_escape(title)}</h1>", *paragraphs, *pictures, *filter(None, sections)])
    page = _PAGE.format(title=_escape(title), style=_STYLE, body=body)
    path = Path(path)
    write_atomically(path, page.encode())
    return path


def picture_bytes(figure: Figure) -> bytes:
    """A figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def warning(run: Run) -> str:
    """Why a run did not finish, in one sentence; empty if it did."""
    if run.status == "finished":
        return ""
    named = not run.message or run.message.startswith(run.status)
    return run.message if named else f"{run.status}: {run.message}"


def flatten(spec: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A specification by the dotted names that `--set` takes: `{"penalty.strength": 1e-4, …}`."""
    flat = {}
    for name, value in spec.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def to_toml(spec: Mapping[str, Any]) -> str:
    """A specification as TOML, one dotted name a line: what `afterfit run my.toml` reads."""
    return "\n".join(f"{name} = {_toml(v)}" for name, v in flatten(spec).items() if v is not None)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, float):
        return repr(value)  # JSON has no inf
    return json.dumps(value, ensure_ascii=False)


def _verdicts(runs: Mapping[str, Run]) -> str:
    """Every run's verdict with its evidence; the first ones with their curves, the others folded away."""
    parts = []
    for k, (name, run) in enumerate(runs.items()):
        judged, said = verdict_of(run)
        sentences = "".join(f"<li>{_escape(sentence)}</li>" for sentence in judged.evidence) if judged else ""
        evidence = f"<ul>{sentences}</ul>" if sentences else ""
        status = f'<p class="bad">{_escape(warning(run))}</p>' if warning(run) else ""
        verdict = f'<p class="verdict">{_escape(said)}</p>'
        if k < _DRAWN:
            heading = f"<h3>{_escape(name)}</h3>" if len(runs) > 1 else ""
            drawn, page = _theory(run)
            curves = _picture(plot_run(run, drawn), f"Curves of {name}: {said}")
            parts.append(f"{heading}{verdict}{status}{evidence}{curves}{page}")
        else:
            summary = f"<summary>{_escape(name)}: {_escape(said)}</summary>"
            parts.append(f"<details>{summary}{status}{evidence}</details>")
    return "\n".join(parts)


def _theory(run: Run) -> tuple[Overlay | None, str]:
    """What theory says of a run: what to draw over it, and a page folded away. No failure of it costs the report."""
    if run.status == "diverged" or verdict_of(run)[0] is None:
        return None, ""
    try:
        explained = explain(run)
    except Exception as error:  # a run of the user's own making can be more than theory expects
        return None, f"<p>Theory has nothing to say of this run: {_escape(error)}</p>"
    page = f"<details><summary>What theory says of it</summary><pre>{_escape(explained)}</pre></details>"
    return overlay(explained.limits, explained.clocks), page


def _claims(claims: Iterable[Claim]) -> str:
    rows = [
        (
            c.claim,
            c.paper_says,
            c.measured,
            _Raw('<span class="good">holds</span>' if c.holds else '<span class="bad">does not hold</span>'),
            f"{c.scale}, {c.seconds:.1f} s",
        )
        for c in claims
    ]
    return _table(("claim", "the paper says", "measured", "", "scale, time"), rows)


def _runs(runs: Mapping[str, Run]) -> str:
    """What differs between the runs, what each came to, and what it cost."""
    differing = _differing(runs)
    rows = []
    for name, run in runs.items():
        work = ", ".join(f"{what.replace('_', ' ')} {count:,}" for what, count in run.work.items())
        settings = flatten(run.spec)
        values = [_value(settings.get(setting)) for setting in differing]
        verdict, _ = verdict_of(run)
        kind = verdict.kind if verdict else "none"
        rows.append((name, *values, kind, run.status, run.method or "step by step", work, f"{run.seconds:.1f} s"))
    return _table(("run", *differing, "verdict", "status", "method", "work", "time"), rows)


def _differing(runs: Mapping[str, Run]) -> list[str]:
    """The settings that are not the same in all runs."""
    flat = [flatten(run.spec) for run in runs.values()]
    names = dict.fromkeys(name for settings in flat for name in settings)
    return [name for name in names if any(s.get(name) != flat[0].get(name) for s in flat)]


def _setting(runs: Mapping[str, Run]) -> str:
    differing = _differing(runs)
    shared = {k: v for k, v in flatten(next(iter(runs.values())).spec).items() if k not in differing}
    return _table(("setting", "value"), [(k, _value(v)) for k, v in shared.items() if v is not None])


def _value(value: Any) -> str:
    """A setting's value, for people."""
    return "" if value is None else value if isinstance(value, str) else _toml(value)


def _reproduce(runs: Mapping[str, Run], command: str) -> str:
    name, headline = next(iter(runs.items()))
    which = f" (here of the run {_escape(name)})" if len(runs) > 1 else ""
    asked = f"<p>On the command line:</p><pre>{_escape(command)}</pre>" if command else ""
    return (
        f"{asked}<p>Or from its specification{which}: save these lines as <code>my.toml</code> and run "
        f"<code>afterfit run my.toml</code>.</p><pre>{_escape(to_toml(headline.spec))}</pre>"
    )


def _versions() -> list[tuple[str, str]]:
    installed = [(name, importlib.metadata.version(name)) for name in _VERSIONED]
    return [*installed, ("Python", platform.python_version()), ("system", platform.platform())]


# ------------------------------------------------------------------------------------------------------- HTML


class _Raw(str):
    """Text that is HTML already."""


def _escape(text: object) -> str:
    return text if isinstance(text, _Raw) else html.escape(str(text))


def _section(heading: str, content: str) -> str:
    return f"<section><h2>{_escape(heading)}</h2>\n{content}\n</section>"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table that scrolls sideways by itself where the screen is narrow."""
    top = "".join(f'<th scope="col">{_escape(cell)}</th>' for cell in head)
    lines = "\n".join("<tr>" + "".join(f"<td>{_escape(c)}</td>" for c in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>\n{lines}\n</tbody></table></div>'


def _picture(figure: Figure | bytes, alt: str) -> str:
    data = base64.b64encode(figure if isinstance(figure, bytes) else picture_bytes(figure)).decode()
    return f'<p><img src="data:image/png;base64,{data}" alt="{_escape(alt)}"></p>'


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
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .3rem .9rem .3rem 0; }
td { border-top: 1px solid var(--line); overflow-wrap: break-word; }
pre { background: var(--soft); padding: .7rem; overflow-x: auto; font-size: .85rem; border-radius: 4px; }
@media print {
  main { max-width: none; padding: 0; }
  img, tr, pre { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  pre { white-space: pre-wrap; }
}
"""
