"""`python tests/fuzz`: cases until the time is over, from where the last call stopped."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from fuzz.corpus import CORPUS
from fuzz.engine import GROUPS, Outcome, reproduce, run_case

__all__ = ["main"]

_STATE = Path("results/fuzz.json")
_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
_TABLE = re.compile(r"(<!-- fuzz: .*? -->\n).*?(<!-- end -->)", re.DOTALL)


@dataclasses.dataclass
class Tally:
    """What was done in a group: the next case, how many came out how, and faults by their case."""

    next: int = 0
    refused: int = 0
    agreed: int = 0
    seconds: float = 0.0
    under_way: int | None = None  # a case that was begun and of whose end nothing was heard
    faults: dict[str, str] = dataclasses.field(default_factory=dict)

    def note(self, number: int, outcome: Outcome) -> None:
        """Write down what came of a case."""
        if outcome.kind == "fault":
            self.faults[str(number)] = outcome.words
        else:
            setattr(self, outcome.kind, getattr(self, outcome.kind) + 1)
            self.faults.pop(str(number), None)  # it is mended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run cases; 1 if a fault was found or is still there."""
    asked = _parser().parse_args(arguments)
    groups = asked.group or list(GROUPS)
    if asked.case is not None:
        return _one(groups, asked.case)
    tallies = {} if asked.fresh else _read()
    if asked.report:
        _report(tallies)
        return 0
    with contextlib.suppress(KeyboardInterrupt):
        _retry(tallies)
        _go_on(tallies, groups, asked.seconds)
    found = {(group, number): words for group, t in tallies.items() for number, words in t.faults.items()}
    print(_table(tallies))
    for (group, number), words in found.items():
        print(f"\n{reproduce(group, int(number))}\n  {words[:1500]}")
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python tests/fuzz", description=__doc__)
    parser.add_argument("--group", action="append", choices=list(GROUPS), help="only this group; repeatable")
    parser.add_argument("--case", type=int, help="only this case, which is shown")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on, shared among the groups")
    parser.add_argument("--fresh", action="store_true", help="begin anew, and forget what was done")
    parser.add_argument("--report", action="store_true", help="write the counts into docs/reliability.md")
    return parser


def _one(groups: Sequence[str], number: int) -> int:
    if len(groups) != 1:
        print("--case wants one --group.", file=sys.stderr)
        return 2
    outcome = run_case(groups[0], number, verbose=True)
    print(f"{outcome.kind}: {outcome.words}")
    return 1 if outcome.kind == "fault" else 0


def _retry(tallies: dict[str, Tally]) -> None:
    """Faults that were found before: are they mended?"""
    for group, tally in tallies.items():
        if tally.under_way is not None:  # by Ctrl-C, or by the case itself: it comes again
            print(f"The last call ended during {reproduce(group, tally.under_way)}")
        for number in list(tally.faults):
            _do(tallies, group, int(number))


def _go_on(tallies: dict[str, Tally], groups: Sequence[str], seconds: float) -> None:
    """New cases, every group having had about the same time."""
    spent = dict.fromkeys(groups, 0.0)
    while sum(spent.values()) < seconds:
        group = min(spent, key=lambda name: spent[name])
        tally = tallies.setdefault(group, Tally())
        began = time.monotonic()
        outcome = _do(tallies, group, tally.next)
        if outcome.kind == "fault":
            print(f"FAULT  {reproduce(group, tally.next)}\n       {outcome.words[:600]}", flush=True)
        tally.next += 1
        spent[group] += time.monotonic() - began
        _write(tallies)


def _do(tallies: dict[str, Tally], group: str, number: int) -> Outcome:
    tally = tallies[group]
    tally.under_way = number
    _write(tallies)
    began = time.monotonic()
    outcome = run_case(group, number)
    tally.seconds += time.monotonic() - began
    tally.under_way = None
    tally.note(number, outcome)
    return outcome


def _read() -> dict[str, Tally]:
    if not _STATE.is_file():
        return {}
    return {group: Tally(**tally) for group, tally in json.loads(_STATE.read_text()).items()}


def _write(tallies: dict[str, Tally]) -> None:
    _STATE.parent.mkdir(exist_ok=True)
    new = _STATE.with_suffix(".new")
    new.write_text(json.dumps({group: dataclasses.asdict(tally) for group, tally in tallies.items()}, indent=1))
    os.replace(new, _STATE)


def _table(tallies: dict[str, Tally]) -> str:
    """The counts as a table of Markdown."""
    rows = ["| group | tried | refused clearly | ran and agreed | faults | known cases |"]
    rows += ["|---|---:|---:|---:|---:|---:|"]
    counts = [(name, t.next, t.refused, t.agreed, len(t.faults), len(CORPUS[name])) for name, t in tallies.items()]
    total = ("all", *(sum(column) for column in list(zip(*counts, strict=True))[1:])) if counts else ()
    return "\n".join([*rows, *("| " + " | ".join(f"{cell}" for cell in row) + " |" for row in (*counts, total))])


def _report(tallies: dict[str, Tally]) -> None:
    """Put the counts where the page has its table."""
    minutes = sum(tally.seconds for tally in tallies.values()) / 60
    when = datetime.datetime.now(datetime.UTC).date()
    said = f"\n{_table(tallies)}\n\nAs of {when}, after {minutes:.0f} minutes.\n\n"
    page = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(_TABLE.sub(lambda found: f"{found[1]}{said}{found[2]}", page), encoding="utf-8")
