"""`afterfit runs`: what it prints is what is in the store."""

from __future__ import annotations

import csv
import io
import itertools
import json
import tomllib

import pytest
from test_cli import spawn
from test_plot import SPEC
from test_store import facts_of, lay, named, put, rewritten
from typer.testing import CliRunner

from afterfit import _cli as cli
from afterfit._sweeps.store import Store

RUNS = ((1, "grokking"), (2, "with the fit"), (3, "diverged"))


@pytest.fixture
def store(tmp_path, monkeypatch) -> Store:
    """Three runs where the commands look for them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AFTERFIT_STORE", raising=False)
    store = Store("results/store")
    put(store, *(named(*which) for which in RUNS))
    return store


def call(*args: str, group: bool = True, **more):
    return CliRunner().invoke(cli.app, ["runs", *args] if group else list(args), **more)


def test_ls(store, tmp_path):
    lines = call("ls").stdout.splitlines()
    assert lines[0].split() == ["id", "task", "model", "penalty", "strength", "verdict", "t_gen", "status", "age"]
    newest, between, oldest = (store.load(named(*which).id) for which in RUNS[::-1])
    for line, run in zip(lines[1:], (newest, between, oldest), strict=True):
        for word in (run.id, "SparseRecovery", "Linear", "L1", f"{run.spec['penalty']['strength']:g}", run.status):
            assert word in line, word
        assert run.verdict.kind in line
        assert run.verdict.t_gen is None or f"{run.verdict.t_gen:.6g}" in line
    assert call("ls", "--quiet").stdout.split() == [newest.id, between.id, oldest.id]
    assert call("ls", "--quiet", "--limit", "1").stdout.split() == [newest.id]
    assert "3 runs" in call("ls", "--limit", "1").stderr
    assert len(call("ls", "--limit", "1").stdout.splitlines()) == 2
    other = f"{tmp_path}/other"
    put(Store(other), named(7))
    assert call("ls", "-q", "--store", other).stdout.split() == [named(7).id]
    assert call("ls", "-q", env={"AFTERFIT_STORE": other}).stdout.split() == [named(7).id]
    assert call("ls", "-q", "--store", "nowhere").stdout == ""


def test_show(store):
    run = named(1)
    shown = call("show", run.id[:6]).stdout
    assert run.verdict.describe() in shown
    setting = tomllib.loads(shown.split("Setting\n")[1].split("\n\n")[0])
    assert setting["penalty"] == run.spec["penalty"]
    assert setting["task"] == SPEC["task"]
    assert f"jax {run.versions['jax']}\n" in shown
    assert f"results/store/{run.id}/curves.parquet ({len(run.files()['curves.parquet'])} bytes)" in shown
    missing = call("show", "nothing")
    assert missing.exit_code == 2
    assert "there is no run 'nothing'" in missing.stderr
    (store._place.root / run.id / "log.txt").write_text("")
    damaged = call("show", run.id)
    assert damaged.exit_code == 2
    assert "log.txt does not match its checksum" in damaged.stderr
    assert "results/store/damaged" in damaged.stderr


def test_rm_asks_first(store):
    first, second = named(1).id, named(3, "diverged").id
    for words in ("n\n", ""):
        result = call("rm", first, second, input=words)
        assert result.exit_code == 2
        assert "nothing was removed" in result.stderr
        assert len(store.ids()) == 3
    assert call("rm", first, "nothing", "--yes").exit_code == 2
    assert len(store.ids()) == 3, "one that is not there: none is removed"
    assert call("rm", first[:7], input="y\n").exit_code == 0
    assert first not in store
    assert call("rm", second, "--yes").exit_code == 0
    assert store.ids() == [named(2, "with the fit").id]


def test_query(store):
    sql = 'SELECT id, "penalty.strength" AS strength, t_gen, "final.train_error" AS e FROM runs ORDER BY strength'
    rows = store.query(sql).to_pylist()
    said = json.loads(call("query", sql, "--json").stdout, parse_constant=lambda word: pytest.fail(word))
    assert [row["e"] for row in said] == ["nan", *(row["e"] for row in rows[1:])], "JSON has no nan"
    assert [row["t_gen"] for row in said] == [row["t_gen"] for row in rows]
    table = list(csv.DictReader(io.StringIO(call("query", sql, "--csv").stdout)))
    assert [float(row["strength"]) for row in table] == [1e-3, 1e-2, 1e-1]
    assert [row["t_gen"] for row in table] == ["" if row["t_gen"] is None else str(row["t_gen"]) for row in rows]
    lines = call("query", sql).stdout.splitlines()
    assert lines[0].split() == ["id", "strength", "t_gen", "e"]
    assert [line.split()[0] for line in lines[1:]] == [row["id"] for row in rows]
    refused = call("query", "SELECT nonsense FROM runs")
    assert refused.exit_code == 2
    assert "nonsense" in refused.stderr
    assert call("query", sql, "--csv", "--json").exit_code == 2


def test_query_in_every_form_keeps_all_columns_and_is_strict(store):
    sql = "SELECT a.id, b.id, a.seed, b.seed FROM runs a, runs b WHERE a.seed < b.seed ORDER BY ALL"
    expected = [
        [a.id, b.id, a.spec["seed"], b.spec["seed"]]
        for a, b in itertools.combinations([named(*which) for which in RUNS], 2)
    ]
    rows = list(csv.reader(io.StringIO(call("query", sql, "--csv").stdout)))
    assert rows[0] == ["id", "id_1", "seed", "seed_1"]
    assert sorted(rows[1:]) == sorted([*map(str, row)] for row in expected)
    said = json.loads(call("query", sql, "--json").stdout)
    assert sorted([*row.values()] for row in said) == sorted(expected)
    assert [line.split() for line in call("query", sql).stdout.splitlines()] == rows

    sql = "SELECT {'a': ['inf'::DOUBLE, 1.5], 'b': MAP {'x': 'nan'::DOUBLE}} AS s, 'x'::BLOB AS b"
    said = json.loads(call("query", sql, "--json").stdout, parse_constant=lambda word: pytest.fail(word))
    assert said[0]["s"] == {"a": ["inf", 1.5], "b": [["x", "nan"]]}
    assert json.loads(call("query", "SELECT 1 WHERE false", "--json").stdout) == []


def test_one_odd_run_is_skipped_with_a_sentence(store, tmp_path):
    newer, malformed = named(8), named(9)
    for run, facts in ((newer, {"format": 99}), (malformed, {"ended": "yesterday"})):
        changed = rewritten(run, run_json=facts_of(run, **facts))
        lay(store, run.id, changed)
    (tmp_path / "results/store/sweep-feed.json").write_bytes(b"\x80")
    result = spawn("runs", "ls", "--quiet")
    assert result.returncode == 0
    assert sorted(result.stdout.split()) == sorted(named(*which).id for which in RUNS)
    assert sorted(line[:20] for line in result.stderr.splitlines()) == sorted(f"run {r.id}" for r in (newer, malformed))
    report = call("report", "feed", group=False)
    assert report.exit_code == 2
    assert "sweep feed is damaged" in report.stderr
