"""`afterfit sweep` and `afterfit report`: from a file to a page, and what they refuse."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
from test_cli import SETTING
from test_report import read
from typer.testing import CliRunner

from afterfit import Store, Sweep, cli
from afterfit.experiment import Experiment

SWEEP = """
[sweep]
seeds = 2

[sweep.over]
"penalty.strength" = "log:1e-3:1e-1:3"
"init.scale" = [0.1, 1.0]
"""


def call(*args: str, **more):
    return CliRunner().invoke(cli.app, list(args), **more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweeps")
    (folder / "my.toml").write_text(SETTING + SWEEP, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = call("sweep", "my.toml")
    assert done.exit_code == 0, done.stderr
    assert "3x2 values x 2 seeds = 12 runs" in done.stdout
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def test_a_sweep_in_a_file_is_run_once(here):
    store = Store("results/store")
    (id,) = store.sweeps()
    read = Sweep.from_dict(store.sweep(id), store)
    assert read.spec == Experiment.from_dict(tomllib.loads(SETTING))
    assert read.knobs == {"penalty.strength": (1e-3, 1e-2, 1e-1), "init.scale": (0.1, 1.0)}
    assert (read.seeds, read.missing) == ((0, 1), [])
    again = call("sweep", "my.toml")
    assert "= 12 runs" in again.stdout
    assert "12 of them are there already" in again.stdout
    assert call("sweep", "my.toml", "--quiet").stdout.split() == [id]
    assert Experiment.from_toml("my.toml") == read.spec, "the table [sweep] does not disturb `afterfit run`"


def test_options_come_before_the_file(here):
    options = ("--over", "penalty.strength=1e-3,1e-2", "--seeds", "1", "--set", "observations=30", "--store", "other")
    (id,) = call("sweep", "my.toml", "-q", *options).stdout.split()
    asked = Sweep.from_dict(Store("other").sweep(id), "other")
    assert asked.knobs == {"penalty.strength": (1e-3, 1e-2)}
    assert asked.seeds == (0,)
    assert asked.spec.observations == 30
    assert len(Store("other").ids()) == 2


def test_the_page_of_a_sweep_holds_everything(here):
    (id,) = Store("results/store").sweeps()
    assert call("report", id[:5], "--quiet").stdout.split() == [f"results/sweep-{id}.html"]
    page = read(here / f"results/sweep-{id}.html")
    for heading in ("Phase diagram", "Curves", "Scaling laws", "Runs", "Setting", "How to reproduce", "Versions"):
        assert heading in page.text
    assert "script" not in page.tags
    assert page.tags.count("img") >= 4  # two maps, and curves by either knob
    data = Sweep.from_dict(Store("results/store").sweep(id), "results/store").dataset
    for kind, count in zip(*np.unique(data["verdict"].values, return_counts=True), strict=True):
        assert f"{count} {kind}" in page.text
    # What it says reproduces it: the lines are a file that asks for the same sweep.
    lines = page.text[page.text.index("task.kind = ") : page.text.index("Versions")]
    (here / "again.toml").write_text(lines, encoding="utf-8")
    assert call("sweep", "again.toml", "--quiet").stdout.split() == [id]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sweep", "my.toml", "--over", "penalty.strenth=1,2"), "did you mean 'penalty.strength'?"),
        (("sweep", "my.toml", "--over", "penalty.strength"), "NAME=VALUES"),
        (("sweep", "my.toml", "--over", "penalty.strength=log:1:2"), "log:low:high:count"),
        (("sweep", "my.toml", "--scale", "quick"), "gallery entries"),
        (("sweep", "my.toml", "--memory", "-1", "--seeds", "3"), "memory is in gigabytes"),
        (("sweep", "notsawo2025/fig3"), "--over"),
        (("sweep", "my.toml", "--on", "somewhere", "--seeds", "3"), "on must be the address"),
        (("report", "ffff"), "there is no sweep 'ffff'"),
    ],
)
def test_refusals(here, arguments, words):
    done = call(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_a_file_may_ask_for_a_boundary(here):
    table = """
[sweep.refine]
names = ["penalty.strength"]
budget = 9
ranges = {"penalty.strength" = [1e-3, 1e-1]}
resolution = 9
"""
    (here / "boundary.toml").write_text(SETTING + table, encoding="utf-8")
    (id,) = call("sweep", "boundary.toml", "-q").stdout.split()
    asked = Sweep.from_dict(Store("results/store").sweep(id), "results/store")
    assert asked.refine.resolution == 9
    assert 5 <= len(asked.points) <= 9
    assert call("report", id).exit_code == 0
    (here / "wrong.toml").write_text(SETTING + table.replace("budget", "bugdet"), encoding="utf-8")
    assert call("sweep", "wrong.toml").exit_code == 2
