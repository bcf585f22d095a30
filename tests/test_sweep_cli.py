"""`afterfit sweep` and `afterfit report`: from a file to a page, and what they refuse."""

from __future__ import annotations

import dataclasses
import tomllib

import numpy as np
import pytest
from test_cli import SETTING
from test_report import read
from typer.testing import CliRunner

import afterfit as af
from afterfit import SpecError, Store, Sweep
from afterfit import _cli as cli
from afterfit._training.experiment import Experiment

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


@pytest.mark.parametrize("refined", [False, True])
def test_the_page_of_a_sweep_of_arrays(here, refined):
    # Its specification has a digest where the arrays were: it cannot be posed again, but its runs are in the store.
    rng = np.random.default_rng(0)
    X, X_test, truth = rng.standard_normal((8, 12)), rng.standard_normal((20, 12)), np.eye(12)[0]
    spec = Experiment.from_dict(tomllib.loads(SETTING))
    spec = dataclasses.replace(spec, task=af.tasks.Arrays(X, X @ truth, X_test, X_test @ truth))
    strengths = {"penalty.strength": (1e-3, 1e-1)}
    asked = af.sweep(
        spec,
        af.refine("penalty.strength", ranges=strengths, resolution=5, budget=5) if refined else strengths,
        store="arrays",
    ).run(progress=False)
    done = call("report", asked.id, "--store", "arrays", "--out", "arrays.html")
    assert done.exit_code == 0, done.stderr
    page = read(here / "arrays.html")
    for kind in np.unique(asked.dataset["verdict"].values[asked.dataset["verdict"].values != ""]):
        assert kind in page.text
    assert "a file cannot hold all of it (task Arrays holds arrays" in page.text
    again = Sweep.from_dict(Store("arrays").sweep(asked.id), "arrays")
    assert again.id == asked.id
    assert again.knobs == asked.knobs
    assert again.dataset.equals(asked.dataset)
    with pytest.raises(SpecError, match=r"can be read but not run: task Arrays .*af\.sweep"):
        again.run(progress=False)


def test_a_page_may_be_judged_by_other_thresholds(here):
    (id, *_) = Store("results/store").sweeps()
    strict = call("report", id, "--fit", "1e-30", "--out", "strict.html")
    assert strict.exit_code == 0, strict.stderr
    text = read(here / "strict.html").text
    assert "12 never fitted" in text
    assert "Judged by other thresholds than the task's: fit 1e-30." in text


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
        (("sweep", "my.toml", "--seeds", "0"), "seeds must be 1 or more, got 0"),
        (("sweep", "my.toml", "--seeds", "-3"), "seeds must be 1 or more, got -3"),
        (("sweep", "my.toml", "--seeds", "99999999999999999999"), "1e+20 runs or more"),
        (("sweep", "my.toml", "--over", "init.scale=1", "--over", "init.scale=2"), "init.scale is given 2 times"),
        (("sweep", "my.toml", "--over", "init.scale=1,1.0"), "init.scale has a value twice: [1, 1.0]"),
        (("sweep", "my.toml", "--over", "init.scale=lin:0:1:-3"), "lin needs 1 value or more, got -3"),
        (("sweep", "my.toml", "--over", "init.scale=lin:0:inf:3"), "lin goes over finite numbers"),
        (("sweep", "my.toml", "--over", "init.scale=" + 5000 * "["), "init.scale must be a number"),
        (("sweep", "my.toml", "--set", "init.scale=2"), "init.scale is both set (--set) and swept over"),
        (("sweep", "my.toml", "--set", "seed=2", "--set", "seed=3"), "--set seed is given twice"),
        (("sweep", "my.toml", "--over", "task.n=20,1000000000"), "task.n (now 1e+09)"),
    ],
)
def test_refusals(here, arguments, words):
    done = call(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("sweep = [1]", "[sweep] must be a table, got [1]"),
        ("sweep.over = 3", "[sweep.over] must be a table of settings and their values, got 3"),
        ('sweep.over."init.scale" = 3', "init.scale wants a list of values"),
        (
            'sweep = {seeds = 1.5, over = {"init.scale" = [1.0]}}',
            "seeds must be a whole number or a list of them, got 1.5",
        ),
        ('sweep = {seeds = "two", over = {"init.scale" = [1.0]}}', "seeds must be a whole number or a list"),
        ('sweep = {seeds = [1, -2], over = {"init.scale" = [1.0]}}', "seed must be a whole number, 0 or more"),
        ('sweep = {seeds = [1, 1], over = {"init.scale" = [1.0]}}', "a seed is given twice"),
        ('sweep = {seed = 1, over = {"init.scale" = [1.0]}}', "[sweep] has no 'seed': did you mean 'seeds'?"),
        ("sweep.refine = 3", "[sweep.refine] must be a table"),
        ('sweep.refine.names = "init.scale"', "[sweep.refine] wants names of knobs as a list"),
        ("sweep.refine.names = [3]", "names of knobs"),
        ('sweep.refine = {names = ["init.scale"], ranges = 3}', "ranges are pairs of numbers by knob, got 3"),
        ('sweep.refine = {names = ["init.scale"], ranges = {"init.scale" = 3}}', "must be two numbers"),
        ('sweep.refine = {names = ["init.scale"], ranges = {"init.scale" = ["a", "b"]}}', "must be two numbers"),
        ('sweep.refine = {names = ["init.scale"], budget = "many"}', "budget must be a whole number"),
        ('sweep.refine = {names = ["init.scale"], resolution = 9.5}', "resolution must be a whole number"),
        (
            'sweep = {over = {"init.scale" = [1.0]}, refine = {names = ["init.scale"]}}',
            "both [sweep.over] and [sweep.ref",
        ),
    ],
)
def test_a_table_that_cannot_be_is_refused_in_a_sentence(here, table, words):
    (here / "odd.toml").write_text(table + "\n" + SETTING, encoding="utf-8")
    done = call("sweep", "odd.toml")
    assert (done.exit_code, words in done.stderr) == (2, True), done.stderr


def test_without_a_penalty_its_strength_is_not_swept(here):
    bare = "\n".join(line for line in SETTING.splitlines() if not line.startswith("penalty"))
    (here / "bare.toml").write_text(bare, encoding="utf-8")
    done = call("sweep", "bare.toml", "--over", "penalty.strength=log:1e-3:1e-1:3")
    assert done.exit_code == 2
    assert "there is no penalty" in done.stderr


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
    text = read(here / f"results/sweep-{id}.html").text
    (here / "again.toml").write_text(text[text.index("task.kind = ") : text.index("Versions")], encoding="utf-8")
    assert call("sweep", "again.toml", "--quiet").stdout.split() == [id], "what the page says reproduces it"
    (here / "wrong.toml").write_text(SETTING + table.replace("budget", "bugdet"), encoding="utf-8")
    assert call("sweep", "wrong.toml").exit_code == 2
