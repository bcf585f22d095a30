"""A minute of the fuzzer, the same every time, and every case that went wrong once. `make fuzz` goes on from there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from fuzz.corpus import CORPUS
from fuzz.engine import reproduce, run_case, run_known

# How many cases of each group, from the first: about ten seconds each.
CASES = {"specs": 40, "logs": 40, "stores": 25, "commands": 50}


@pytest.mark.parametrize("group", CASES)
def test_odd_input_is_refused_in_a_sentence_or_agrees_with_a_second_way(group):
    outcomes = {number: run_case(group, number) for number in range(CASES[group])}
    faults = [f"{reproduce(group, k)}\n{o.words}" for k, o in outcomes.items() if o.kind == "fault"]
    assert not faults, "\n\n".join(faults)
    # A grammar whose every case is refused, or none, tests nothing.
    assert len({outcome.kind for outcome in outcomes.values()}) == 2


@pytest.mark.parametrize(
    ("group", "known"),
    [pytest.param(group, known, id=f"{known.issue}: {known.name}") for group in CORPUS for known in CORPUS[group]],
)
def test_what_went_wrong_once_does_not_again(group, known):
    outcome = run_known(known)
    assert outcome.kind != "fault", outcome.words


def test_every_test_that_a_promise_names_is_there():
    root = Path(__file__).parents[1]
    named = re.findall(r"`(tests/\w+\.py)::(\w+)`", (root / "docs" / "reliability.md").read_text(encoding="utf-8"))
    assert named
    for file, test in named:
        defined = {node.name for node in ast.parse((root / file).read_text()).body if isinstance(node, ast.FunctionDef)}
        assert test in defined, f"{file} has no {test}"
