"""Write the pages that are made: api.md, ledger.md, errata.md, and tables of concepts.md and theory.md.

Run by `make pages`. `afterfit verify --ledger docs/ledger.jsonl` measures; rows of claims that are no more are dropped.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import afterfit
from afterfit._base.spec import Spec
from afterfit._reports.site import file_names
from afterfit.papers import SCALES, Claim, Entry, Paper, entries
from afterfit.papers._ledger import Kept, Ledger
from afterfit.papers.afterfit2026 import PAPER as FINDINGS

DOCS = Path(__file__).parent
LEDGER = DOCS / "ledger.jsonl"
_NOUNS = ("models", "penalties", "dynamics", "inits", "quantities")  # tasks have a table of their own


def pages() -> dict[Path, str]:
    """Every generated file with its text."""
    ours, ledger = _ours(), Ledger(LEDGER)
    return {
        DOCS / "api.md": _api(),
        DOCS / "benchmarks.md": _filled(DOCS / "benchmarks.md"),
        DOCS / "concepts.md": _filled(DOCS / "concepts.md"),
        DOCS / "flows.md": _filled(DOCS / "flows.md"),
        DOCS / "theory.md": _filled(DOCS / "theory.md"),
        DOCS / "ledger.md": _ledger(ours, ledger),
        DOCS / "errata.md": _errata(ours),
        LEDGER: ledger.tidy((entry.id, claim.words) for entry in ours for claim in entry.claims),
    }


def _ours() -> list[Entry]:
    """The entries of our own papers."""
    return [entry for entry in entries().values() if type(entry).__module__.startswith("afterfit.")]


def _api() -> str:
    parts = [
        "# Everything public",
        "",
        _made("what `afterfit` exports and its docstrings"),
        _fill(
            "What can be imported and is meant to be. Anything else has a name that begins with an underscore, or is "
            "in a module that does, and may change without notice."
        ),
        "",
    ]
    for module in _modules(afterfit):
        parts += [f"## {module.__name__}", "", _first_sentence(module), "", "| name | what it is |", "|---|---|"]
        parts += [f"| `{name}` | {_cell(_about(module, name))} |" for name in dir(module)]
        parts += [""]
    return "\n".join(parts).rstrip() + "\n"


def _modules(module: ModuleType) -> Iterator[ModuleType]:
    """A public module, and those that are public in it."""
    yield module
    for name in dir(module):
        if isinstance(inner := getattr(module, name), ModuleType):
            yield from _modules(inner)


def _about(module: ModuleType, name: str) -> str:
    """The first sentence of what is said of a public thing; of a number or a word, itself.

    Of a function that its name and module explain, how it is called.
    """
    value = getattr(module, name)
    if isinstance(value, FunctionType) and not value.__doc__:
        return f"`{name}({', '.join(inspect.signature(value).parameters)})`"
    documented = isinstance(value, type | FunctionType | ModuleType)
    return _first_sentence(value) if documented else f"`{value!r}`"


def _first_sentence(value: object) -> str:
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    assert text, f"{value} is public and says nothing of itself"
    return re.split(r"(?<!App\.)(?<!Def\.)(?<!al\.)(?<=\.) (?=[A-Z`])", text)[0]


def _filled(page: Path) -> str:
    """A page with its tables made: what stands between `<!-- made: … -->` and `<!-- /made -->`."""
    tables = {
        "tasks": _tasks,
        "limits": _limits,
        "clocks": _clocks,
        "methods": _methods,
        "routes": _routes,
        "slowest": _slowest,
        **{name: functools.partial(_nouns, name) for name in _NOUNS},
    }

    def made(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n" + "\n".join(tables[found[2]]()) + f"\n\n{found[3]}"

    text = page.read_text(encoding="utf-8")
    return re.sub(r"(<!-- made: (\w+) -->)\n.*?\n(<!-- /made -->)", made, text, flags=re.S)


def _members(module: str) -> Iterator[tuple[str, type]]:
    """The nouns of ours in a public module that can be used as they are, in the order of the alphabet."""
    for name in sorted(dir(getattr(afterfit, module))):
        kind = getattr(getattr(afterfit, module), name)
        if isinstance(kind, type) and issubclass(kind, Spec) and not inspect.isabstract(kind):
            yield name, kind


def _nouns(module: str) -> Iterator[str]:
    yield from ("| name | what it is |", "|---|---|")
    for name, kind in _members(module):
        yield f"| `{name}` | {_cell(_first_sentence(kind))} |"


def _tasks() -> Iterator[str]:
    yield from ("| task | what it is | metric | fitted | generalised |", "|---|---|---|---|---|")
    for name, kind in _members("tasks"):
        task = object.__new__(kind)  # with what its class says alone: the settings without a default do not matter
        levels = (f"{'≤' if t.like == 'error' else '≥'} {t.value:g}" for t in (task.criteria.train, task.criteria.test))
        yield f"| `{name}` | {_cell(_first_sentence(kind))} | {task.metric} | {' | '.join(levels)} |"


def _limits() -> Iterator[str]:
    yield from ("| limit | class | what it is | regime | source |", "|---|---|---|---|---|")
    for rule in afterfit.theory.Limit.known():
        words = (_cell(text) for text in (rule.name, f"`{rule.__name__}`", _first_sentence(rule), rule.regime))
        yield f"| {' | '.join(words)} | {getattr(rule, 'source', 'depends on the model')} |"


def _clocks() -> Iterator[str]:
    signs = {"about": "≈", "order": "~", "at most": "≤"}
    yield from ("| clock | class | times | what it is | source |", "|---|---|---|---|---|")
    for rule in afterfit.theory.Clock.known():
        words = (f"{signs[rule.promise]} {rule.name}", f"`{rule.__name__}`", rule.event, _first_sentence(rule))
        yield f"| {' | '.join(map(_cell, words))} | {rule.source} |"


def _routes() -> Iterator[str]:
    yield from ("| route | what it is | source | cost |", "|---|---|---|---|")
    for route in afterfit.theory.Route.known():
        yield f"| `{route.__name__}` | {_cell(_first_sentence(route))} | {route.source} | {route.cost} |"


def _methods() -> Iterator[str]:
    yield from ("| method | what it is | `rtol` |", "|---|---|---|")
    for method in afterfit.dynamics.Method.in_turn():
        yield f"| `{method.name}` | {_cell(_first_sentence(method))} | {method.default_rtol:g} |"


def _ledger(ours: list[Entry], ledger: Ledger) -> str:
    parts = [
        "# The ledger",
        "",
        _made("`docs/ledger.jsonl`, where `afterfit verify --ledger docs/ledger.jsonl` keeps what it measures"),
        _fill(
            "What the papers claim, what they say, and what was measured. `afterfit verify --json FILE` writes "
            "the same rows for a program to read. The first row of an entry carries the seconds of its runs."
        ),
        "",
        "| scale | claims | measured | hold | errata | do not hold | with a control | minutes |",
        "|---|---|---|---|---|---|---|---|",
        *(_count(ours, ledger, scale) for scale in SCALES),
        "",
    ]
    for scale in reversed(SCALES):
        rows = [kept for kept in _rows(ours, ledger) if kept.row.scale == scale]
        parts += [f"## {scale.capitalize()} scale", ""]
        parts += _measured(rows) if rows else ["Nothing has been measured.", ""]
        missing = [entry.id for entry in ours if not any(kept.row.id == entry.id for kept in rows)]
        parts += [_fill(f"Not measured: {', '.join(missing)}."), ""] if missing and rows else []
    return "\n".join(parts).rstrip() + "\n"


def _count(ours: list[Entry], ledger: Ledger, scale: str) -> str:
    claims = sum(len(entry.claims) for entry in ours)
    rows = [kept.row for kept in _rows(ours, ledger) if kept.row.scale == scale]
    held, errata = sum(row.holds for row in rows), sum(row.erratum is not None for row in rows)
    numbers = (claims, len(rows), held, errata, len(rows) - held - errata, sum(row.control is not None for row in rows))
    return f"| {scale} | {' | '.join(map(str, numbers))} | {sum(row.seconds for row in rows) / 60:.1f} |"


def _slowest() -> Iterator[str]:
    """What the entries cost at paper scale, the slowest first, down to a hundredth of all."""
    seconds: Counter[str] = Counter()
    for kept in _rows(_ours(), Ledger(LEDGER)):
        if kept.row.scale == "paper":
            seconds[kept.row.id] += kept.row.seconds
    total = sum(seconds.values())
    yield from ("| entry | minutes | share |", "|---|---|---|")
    shown = [(id, each) for id, each in seconds.most_common() if each >= total / 100]
    yield from (f"| {_link(id)} | {each / 60:.1f} | {each / total:.0%} |" for id, each in shown)
    rest = len(seconds) - len(shown)
    yield f"| {rest} others | {(total - sum(each for _, each in shown)) / 60:.1f} | |"
    yield f"| all {len(seconds)} | {total / 60:.1f} | |"


def _measured(rows: list[Kept]) -> Iterator[str]:
    made: Counter[str] = Counter(f"{kept.date} with {_versions(kept)}" for kept in rows)
    yield _fill("Measured on " + "; ".join(f"{when} ({count} rows)" for when, count in made.items()) + ".")
    yield from (
        "",
        "| entry | claim | the paper says | measured | holds | rejected, or accepted | seconds |",
        "|" + "---|" * 7,
    )
    for kept in rows:
        row = kept.row
        holds = "yes" if row.holds else "**no**" if row.erratum is None else "**erratum**"
        changed = f" (Changed after numbers were seen: {row.changed})" if row.changed else ""
        words = (row.claim, row.paper_says, row.measured + changed, holds, "" if row.erratum else row.control or "")
        cells = " | ".join(map(_cell, words))
        yield f"| {_link(row.id)} | {cells} | {row.seconds:.1f} |"
    yield ""


def _errata(ours: list[Entry]) -> str:
    parts = [
        "# Errata and findings",
        "",
        _made("the claims in `src/afterfit/papers/` that have a correction"),
        _fill(
            "What is wrong in the papers as printed, as far as it was found. Each is a row of the [ledger](ledger.md) "
            "that asserts two things: what is printed fails, and what should have been printed holds. `afterfit "
            "verify` exits with 0 while both do; `--strict` counts every erratum as a failure. "
            "[Findings of our own](#findings-of-our-own) are at the end."
        ),
        "",
    ]
    for paper, group in _by_paper(ours):
        if paper == FINDINGS:
            continue
        found = [(entry, claim) for entry in group for claim in entry.claims if claim.correction]
        parts += [f"## {paper.name}", "", f"**{paper.title}**", "", *(_erratum(*each) for each in found), ""]
        parts += [] if found else ["None was found.", ""]
    parts += ["## Findings of our own", ""]
    for entry in ours:
        if entry.paper == FINDINGS:
            parts += [*_finding(entry), ""]
    return "\n".join(parts).rstrip() + "\n"


def _finding(entry: Entry) -> Iterator[str]:
    yield from (f"**{entry.where} {entry.title}.**", "", _fill(entry.about), "", _fill(entry.notes), "")
    claims = "; ".join(claim.words for claim in entry.claims)
    yield _fill(f"Evidence: {_link(entry.id)}: {claims}.")


def _erratum(entry: Entry, claim: Claim) -> str:
    right = claim.correction
    assert right is not None
    lines = {
        "As printed": f"{claim.words} ({claim.says_at('paper')}).",
        "As it should be": f"{right.words}.",
        "Why": right.why,
        "Is a conclusion touched?": right.touches,
        "Shown by": f"{_link(entry.id)}",
    }
    said = "\n".join(_fill(f"  - *{heading}* {text}", "    ") for heading, text in lines.items())
    return _fill(f"- **{right.where or entry.where}**", "  ") + f"\n{said}"


def _rows(ours: Iterable[Entry], ledger: Ledger) -> Iterator[Kept]:
    for entry in ours:
        for claim in entry.claims:
            for scale in SCALES:
                if kept := ledger.kept.get((entry.id, claim.words, scale)):
                    yield kept


def _versions(kept: Kept) -> str:
    return ", ".join(f"{name} {version}" for name, version in kept.versions.items() if name in ("afterfit", "jax"))


def _by_paper(ours: list[Entry]) -> Iterator[tuple[Paper, list[Entry]]]:
    for paper in dict.fromkeys(entry.paper for entry in ours):
        yield paper, [entry for entry in ours if entry.paper == paper]


def _link(id: str) -> str:
    """To the page of an entry in the gallery, which `hooks.py` makes."""
    return f"[{id}](gallery/{_pages_of_entries()[id]}.html)"


@functools.cache
def _pages_of_entries() -> dict[str, str]:
    return file_names(_ours())


def _made(of: str) -> str:
    return f"<!-- Made by `make pages` of {of}: do not edit. -->\n"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _fill(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
