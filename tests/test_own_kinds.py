"""Kinds of one's own in plain data: found where the user imported them, and imported by nothing that is read."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from test_cli import SETTING, call, spawn

import afterfit as af
from afterfit import SpecError
from afterfit._base.files import SUMS, sums_of
from afterfit._training.experiment import Experiment

MODULE = """
import jax
import jax.numpy as jnp

import afterfit as af


class Halved(af.penalties.Penalty):
    def value(self, params):
        return sum(jnp.sum(jnp.abs(p)) for p in jax.tree.leaves(params)) / 2
"""
SWEEP = '\n[sweep.over]\n"penalty.strength" = [1e-3, 2e-3]\n'


def own(kind: str) -> str:
    """The setting of the other tests with another penalty."""
    return SETTING.replace('"L1", strength = 1e-3', f'"{kind}", strength = 2e-3')


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_kind_of_ones_own_runs_from_a_file_once_its_module_is_imported(place):
    Path("halved.py").write_text(MODULE, encoding="utf-8")
    Path("my.toml").write_text(own("halved:Halved"), encoding="utf-8")
    done = spawn("run", "my.toml", "--import", "halved", "--out", "out", "--quiet")
    assert done.returncode == 0, done.stderr
    run = af.load("out/runs/my")
    assert run.spec["penalty"]["kind"] == "halved.Halved"
    assert "halved" not in sys.modules
    # Twice the strength of half the norm is the norm.
    same = af.run_experiment(Experiment.from_dict(tomllib.loads(SETTING)))
    np.testing.assert_allclose(run.curves["test_error"], same.curves["test_error"], rtol=1e-9)
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert "afterfit run my.toml --import halved --out" not in page
    assert page.count("afterfit run my.toml --import halved<") == 2  # as it was asked for, and from its specification


def test_a_sweep_over_a_kind_of_ones_own(place):
    Path("halved.py").write_text(MODULE, encoding="utf-8")
    Path("my.toml").write_text(own("halved:Halved") + SWEEP, encoding="utf-8")
    done = spawn("sweep", "my.toml", "--import", "halved", "--store", "store", "--quiet")
    assert done.returncode == 0, done.stderr
    rows = af.Store("store").summaries().to_pylist()
    assert sorted((row["penalty.kind"], row["penalty.strength"]) for row in rows) == [
        ("halved.Halved", 1e-3),
        ("halved.Halved", 2e-3),
    ]
    assert "halved" not in sys.modules


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "penalty 'halved:Halved' is in a module that is not imported: add --import halved on the command line"),
        (["--import", "halve"], "halve cannot be imported: ModuleNotFoundError: No module named 'halve'."),
        (["--import", "halved.py"], "such as my_module for the file my_module.py here, got 'halved.py'."),
        (["--import", "breaks"], "breaks cannot be imported: ZeroDivisionError: division by zero."),
        (["--import", "leaves"], "leaves cannot be imported: SystemExit."),
        (["--import", "json"], "penalty 'halved:Halved' is in a module that is not imported: add --import halved"),
    ],
)
@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_module_that_was_not_asked_for_is_not_imported(place, monkeypatch, command, args, said):
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("halved.py").write_text(MODULE, encoding="utf-8")
    Path("breaks.py").write_text("1 / 0", encoding="utf-8")
    Path("leaves.py").write_text("import sys; sys.exit()", encoding="utf-8")
    Path("my.toml").write_text(own("halved:Halved") + SWEEP, encoding="utf-8")
    refused = call(command, "my.toml", *args)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert said in refused.stderr
    assert "halved" not in sys.modules


class Doubled(af.penalties.L1):
    """In a module that is imported: this one."""


def test_a_class_is_found_in_any_module_that_has_it_and_in_its_own_family_only():
    def penalty(kind):
        return Experiment.from_dict(tomllib.loads(own(kind))).penalty

    assert penalty(f"{__name__}:Doubled") == Doubled(2e-3) == penalty(Doubled.kind)
    assert penalty("afterfit.penalties:L1") == af.penalties.L1(2e-3)  # handed on by a module, under its short name
    with pytest.raises(SpecError, match=f"unknown penalty '{__name__}:Doubld': did you mean 'Doubled'"):
        penalty(f"{__name__}:Doubld")
    for other in ("Linear", "np", "SETTING"):  # a model, a module, a word
        with pytest.raises(SpecError, match="unknown penalty"):
            penalty(f"{__name__}:{other}")
    experiment = Experiment.from_dict(tomllib.loads(SETTING))
    assert experiment.set({"penalty.kind": f"{__name__}:Doubled", "penalty.strength": 1.0}).penalty == Doubled(1.0)


@pytest.mark.parametrize("kind", ["tripwire:Penalty", "tripwire.Penalty", "tripwire.deep:Penalty"])
def test_nothing_that_is_stored_imports_a_module(place, monkeypatch, kind):
    """A module that would leave a mark if it were imported, named by a run in a store."""
    Path("tripwire").mkdir()
    for name in ("__init__", "deep"):
        Path(f"tripwire/{name}.py").write_text("open('tripped', 'w').close()", encoding="utf-8")
    monkeypatch.syspath_prepend(str(place))
    store = af.Store("store")
    run = af.run_experiment(Experiment.from_dict(tomllib.loads(SETTING)))
    files = run.files()
    spec = json.loads(files["spec.json"])
    spec["penalty"] = {"kind": kind, "strength": 1.0}
    files["spec.json"] = json.dumps(spec).encode()
    del files[SUMS]
    store.publish(run.id, {**files, SUMS: sums_of(files)})

    for loaded in (af.load(f"store/{run.id}"), store.load(run.id)):
        assert loaded.spec["penalty"]["kind"] == kind
        with pytest.raises(SpecError, match="--import tripwire"):
            loaded.experiment  # noqa: B018
        with pytest.raises(SpecError, match="--import tripwire"):
            af.theory.explain(loaded)
        loaded.plot()
    assert call("runs", "ls", "--store", "store").exit_code == 0
    assert call("runs", "show", run.id, "--store", "store").exit_code == 0
    assert store.query("SELECT id FROM runs").num_rows == 1
    assert not Path("tripped").exists()
    assert "tripwire" not in sys.modules
