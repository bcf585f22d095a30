"""`afterfit verify` of several entries: side by side in processes of their own, whatever becomes of these."""

from __future__ import annotations

import json
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import AT_ONCE, users_threads

import afterfit as af
from afterfit._cli._apart import Task
from afterfit._sweeps.jobs import cores

pytestmark = pytest.mark.skipif(cores() < 2, reason="on one core entries go one after another")

# Four entries, of which one says where and with how many cores it was measured, one raises, one ends its process.
MANY = """
import os, signal, time
import jax
import afterfit as af
from afterfit._sweeps.jobs import cores
from afterfit.papers import Entry, Finding, Paper, claim, control

PAPER = Paper("many2000", "Many 2000, Side by side")

class One(Entry):
    paper, name, title, where, about = PAPER, "one", "One", "Fig. 1", "Nothing much."

    def runs(self, scale):
        return {"run": af.Experiment(
            task=af.tasks.SparseRecovery(n=12, sparsity=2, N=6), model=af.models.Linear(), init=af.inits.Gaussian(),
            dynamics=af.dynamics.GradientDescent(0.1, 1000), observations=10,
        )}

    def picture(self, run):
        return af.plot.Figure()

    @claim("it ran", says="it runs")
    def ran(self, run):
        return Finding(f"process {os.getpid()}, {cores()} core, {run.status}", run.status == "finished")

    @control(ran, "a run that is not there")
    def no_run(self):
        return Finding("", False)

class Two(One):
    name = "two"

class Raises(One):
    name = "raises"

    @claim("it raises", says="it raises")
    def raises(self):
        raise ZeroDivisionError("by zero")

class Dies(One):
    name = "dies"

    @claim("it dies", says="it dies")
    def dies(self):
        os.kill(os.getpid(), signal.SIGKILL)

class Waits(One):
    name = "waits"

    @claim("it waits", says="it waits")
    def waits(self):
        while os.path.exists("wait"):
            time.sleep(0.1)
        return Finding("enough", True)

    @control(waits, "not waiting")
    def hurries(self):
        return Finding("", False)
"""


@pytest.fixture
def paper(tmp_path) -> Path:
    (tmp_path / "many.py").write_text(MANY)
    return tmp_path


def verify(place: Path, *args: str) -> subprocess.Popen:
    command = [str(Path(sys.executable).with_name("afterfit")), "verify", *args]
    return subprocess.Popen(
        command, cwd=place, env=users_threads(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_one_that_fails_or_dies_costs_the_others_nothing(paper):
    process = verify(paper, "many.py", "--json", "-", "--quiet")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 1
    rows = {(row["id"], row["claim"]): row for row in json.loads(out)}
    ids = [row["id"] for row in json.loads(out)]
    assert ids == sorted(ids), "in the order of the entries, whichever was first"
    assert set(rows) == {
        *((f"many2000/{name}", "it ran") for name in ("one", "two", "raises", "dies", "waits")),
        ("many2000/waits", "it waits"),
    }
    assert all(row["holds"] and row["as_recorded"] for row in rows.values())
    assert "error  many2000/raises, it raises: ZeroDivisionError: by zero" in err
    assert "error  many2000/dies: the process that measured it ended with signal 9, perhaps for want of memory" in err
    said = [
        re.match(r"process (\d+), 1 core, finished", row["measured"]) for (_, c), row in rows.items() if c == "it ran"
    ]
    processes = {int(match[1]) for match in said if match}
    assert all(said), "each has one core"
    assert len(processes) in (2, 3), "two at a time; and one more for that which died"
    assert process.pid not in processes

    # What was measured is kept, by whichever process, and what is missing goes on from the runs that are there.
    kept = [json.loads(line) for line in (paper / "results/ledger.jsonl").read_text("utf-8").splitlines()]
    assert {(row["id"], row["claim"]) for row in kept} == set(rows)
    (paper / "many.py").touch()
    again = verify(paper, "many.py", "--json", "-", "--quiet")
    out, _ = again.communicate(timeout=300)
    assert {row["measured"] for row in json.loads(out)} == {row["measured"] for row in rows.values()}


def test_ctrl_c_ends_all_and_the_same_command_goes_on(paper):
    (paper / "wait").touch()
    ledger, ids = paper / "results/ledger.jsonl", ("many.py::one", "many.py::two", "many.py::waits")
    process = verify(paper, *ids)
    until = time.monotonic() + 120
    while not ledger.exists() or len(ledger.read_text("utf-8").splitlines()) < 3:
        assert time.monotonic() < until, "the first rows did not come"
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    pressed = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - pressed < AT_ONCE
    assert process.returncode == 130
    assert "Interrupted." in err
    assert not psutil.wait_procs(children, timeout=10)[1], "it left processes behind"
    (paper / "wait").unlink()
    before = ledger.read_text("utf-8")
    went_on = verify(paper, *ids)
    out, err = went_on.communicate(timeout=120)
    assert went_on.returncode == 0, err
    assert ledger.read_text("utf-8").startswith(before)
    assert len(ledger.read_text("utf-8").splitlines()) == 4
    assert "4 claims: 4 hold" in out


def test_runs_stay_until_the_last_command_that_may_read_them_ends(paper):
    """One command ends while another, with the same run, is at work: it leaves the run, and the other removes it."""
    (paper / "wait").touch()
    ledger = paper / "results/ledger.jsonl"

    def runs() -> list[str]:
        return [place.name for place in (paper / "results/ledger.runs").glob("*/*/spec.json")]

    at_work = verify(paper, "many.py::waits")
    until = time.monotonic() + 120
    while not ledger.exists():
        assert time.monotonic() < until, "the first row did not come"
        time.sleep(0.05)
    first = verify(paper, "many.py::one")
    _, err = first.communicate(timeout=120)
    assert first.returncode == 0, err
    assert len(runs()) == 1
    (paper / "wait").unlink()
    _, err = at_work.communicate(timeout=120)
    assert at_work.returncode == 0, err
    assert runs() == []


def test_those_apart_end_with_the_one_that_asked(paper):
    """Also when it is killed, and can tell nobody."""
    (paper / "wait").touch()
    process = verify(paper, "many.py::one", "many.py::waits")
    until, children = time.monotonic() + 120, []
    ledger = paper / "results/ledger.jsonl"
    while not ledger.exists() or len(ledger.read_text("utf-8").splitlines()) < 2:
        assert time.monotonic() < until, "the first rows did not come"
        children = psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert not psutil.wait_procs(children, timeout=AT_ONCE)[1], "it left processes behind"


@pytest.mark.parametrize("told", ["0", "two", "-1"])
def test_a_wrong_number_of_cores_is_refused(monkeypatch, told):
    monkeypatch.setenv("AFTERFIT_CORES", told)
    with pytest.raises(af.SpecError, match=f"AFTERFIT_CORES wants a number of cores, such as 1, got '{told}'"):
        cores()


def test_one_that_is_told_half_a_word_ends():
    """As when the other process is killed while it speaks."""
    word = pickle.dumps(Task(("boursier2025",), "quick", Path("ledger.jsonl"), Path("runs"), False))
    for cut in (1, len(word) // 2, len(word) - 1):
        program = [sys.executable, "-m", "afterfit._cli.measurer"]
        assert subprocess.run(program, input=word[:cut], timeout=100, check=False).returncode == 0
