"""Jobs on the processes of this machine: the same bits wherever a run is computed, and whatever is killed."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest
from conftest import AT_ONCE, users_threads
from dask_cluster import BASE, Ill

import afterfit as af
from afterfit._sweeps import jobs, processes
from afterfit._sweeps.jobs import Watch
from afterfit._sweeps.plan import Job
from afterfit._sweeps.processes import carry_out, run_many
from afterfit._training.train import run_together

LONG = BASE.set({"dynamics.steps": 15_000_000})  # seconds, so that a helper comes, and there is time to kill it
ENDLESS = BASE.set({"dynamics.steps": 10**11})


def job(*experiments):
    return Job(experiments, shared=False, wanted=tuple(range(len(experiments))))


@pytest.fixture
def two_cores(monkeypatch):
    """This process and one helper, which is called at once."""
    monkeypatch.setattr(processes, "cores", lambda: 2)
    monkeypatch.setattr(processes, "_WORTH_HELP", 0.0)
    monkeypatch.setenv("AFTERFIT_TEST_WORKER", str(os.getpid()))


def do(given, report=lambda runs: None):
    left = iter(given)
    return list(carry_out(lambda: next(left, None), given, 4e9, report))


def helpers():
    """The helper processes of this one."""
    return [child for child in psutil.Process().children() if "afterfit._sweeps.helper" in child.cmdline()]


def at_work(helper, seconds=4.0):
    """Whether a helper has used so much of a core that it should have started, imported and compiled."""
    return helper.cpu_times().user > seconds


def assert_same_bits(outcomes, *given):
    """Every run of the jobs came once, with the curves and parameters that it has when computed here alone."""
    found = {experiment.id: run for experiment, run in outcomes}
    assert len(found) == len(outcomes) == sum(len(each.wanted) for each in given)
    for each in given:
        for run in run_together(each.experiments):
            here, there = run.files(), found[run.id].files()
            for name in ("spec.json", "curves.parquet", "params.npz"):
                assert here[name] == there[name], name


@pytest.mark.usefixtures("two_cores")
def test_a_killed_helper_costs_no_run_and_no_bit():
    given = [job(LONG.set({"seed": seed})) for seed in range(4)] + [job(BASE, BASE.set({"seed": 1}))]
    killed, seen = [], []

    def kill_once(runs):
        seen.append(runs)
        for helper in helpers() if not killed else ():
            if at_work(helper):
                os.kill(helper.pid, signal.SIGKILL)
                killed.append(helper.pid)

    outcomes = do(given, kill_once)
    assert killed
    assert_same_bits(outcomes, *given)
    assert helpers() == []
    assert seen[-1] == pytest.approx(6, abs=1)


@pytest.mark.usefixtures("two_cores")
def test_what_fails_or_kills_is_said_and_stops_nothing_else():
    """An error in a user's code; and a job of which every helper dies, which this process then does not try.

    It is busy with another meanwhile, however long the helpers take to come.
    """
    raises, kills = BASE.set({"task.how": "raises"}), BASE.set({"task.how": "kills"})
    given = [job(each) for each in (ENDLESS, kills, raises, BASE)]
    left = iter(given)
    with contextlib.closing(carry_out(lambda: next(left, None), given, 4e9, lambda runs: None)) as coming:
        outcomes = dict_of(itertools.islice(coming, 3))
    assert outcomes.pop(raises.id) == "RuntimeError: no such moon"
    assert "3 workers died" in outcomes.pop(kills.id)
    assert isinstance(outcomes.pop(BASE.id), af.Run)


def dict_of(outcomes):
    return {experiment.id: what for experiment, what in outcomes}


@pytest.mark.usefixtures("two_cores")
def test_what_cannot_be_sent_is_done_here():
    lock = threading.Lock()

    def locked(params, x, lock=lock):
        return x @ params

    own = [
        dataclasses.replace(LONG, model=af.models.Function(locked, np.full(12, scale)), init=af.inits.Own(), penalty=p)
        for scale, p in ((0.1, af.penalties.L1(1e-3)), (0.2, af.penalties.L2(1e-3)))
    ]
    runs = run_many({"a": own[0].set({"dynamics.steps": 3_000_000}), "b": own[1].set({"dynamics.steps": 3_000_000})})
    assert [run.status for run in runs.values()] == ["finished", "finished"]


SCRIPT = """
import dataclasses
import numpy as np
import afterfit as af
from afterfit._sweeps import processes
from afterfit._sweeps.processes import run_many
from beside import Spread

class Mine(af.models.Linear):
    "A model of the user's own, in a script that does not ask whether it is the main one."

    def __call__(self, params, inputs):
        return super().__call__(params, inputs) * SHARE

def mine(params, x):
    return SHARE * params @ x

SHARE = 0.5
print("once")
processes._WORTH_HELP, processes.cores = 0.0, lambda: 2
base = af.Experiment(
    task=af.tasks.SparseRecovery(n=12, sparsity=2, N=6), model=Mine(), init=Spread(),
    dynamics=af.dynamics.GradientDescent(0.1, 5_000_000), observations=10,
)
experiments = {str(seed): base.set({"seed": seed, "observations": 10 + seed}) for seed in range(4)}
own = dataclasses.replace(base, model=af.models.Function(mine, np.ones(12)), init=af.inits.Own(), observations=20)
experiments["own"] = own
runs = run_many(experiments)
for name, run in runs.items():
    here = af.run_experiment(experiments[name], progress=False)
    assert run.id == here.id and type(run.experiment.model) is type(experiments[name].model)
    theirs, ours = run.files(), here.files()
    assert all(theirs[name] == ours[name] for name in ("spec.json", "curves.parquet", "params.npz"))
print("same bits")
"""
BESIDE = """
from afterfit.inits import Gaussian

class Spread(Gaussian):
    pass
"""


def test_a_script_runs_with_its_own_classes(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT)
    (tmp_path / "beside.py").write_text(BESIDE)
    done = subprocess.run(
        [sys.executable, str(script)], env=users_threads(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "once\nsame bits\n"


EDITED = """
from pathlib import Path
import afterfit as af
from afterfit._sweeps import processes
from beside import Spread

beside = Path("beside.py")
beside.write_text(beside.read_text().replace("pass", "def draw(self, *a): return 2 * super().draw(*a)"))
processes._WORTH_HELP, processes.cores = 0.0, lambda: 2
base = af.Experiment(
    task=af.tasks.SparseRecovery(n=12, sparsity=2, N=6), model=af.models.Linear(), init=Spread(),
    dynamics=af.dynamics.GradientDescent(0.1, 30_000_000), observations=10,
)
processes.run_many({str(k): base.set({"observations": 10 + k}) for k in range(4)})
"""


def test_code_that_was_edited_after_it_was_loaded_is_not_taken_for_the_same(tmp_path):
    (tmp_path / "edited.py").write_text(EDITED)
    (tmp_path / "beside.py").write_text(BESIDE)
    done = subprocess.run([sys.executable, "edited.py"], capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 1
    assert "was edited after it was loaded" in done.stderr


@pytest.mark.usefixtures("two_cores")
def test_ctrl_c_keeps_what_was_observed_of_every_run(ctrl_c):
    """Of one here and of one in a helper; each as far as it was."""
    # Other numbers of observations are other programs, so these are two jobs.
    experiments = {"here": ENDLESS, "there": ENDLESS.set({"observations": 12})}
    kept, pressed = {}, []

    def press(share):
        # It must have observed something: on slow cores four seconds are not enough for that.
        if not pressed and any(at_work(helper, seconds=12.0) for helper in helpers()):
            pressed.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run_many(experiments, press, kept.__setitem__)
    assert time.monotonic() - pressed[0] < AT_ONCE
    assert kept.keys() == experiments.keys()
    assert {run.status for run in kept.values()} == {"interrupted"}
    assert all(len(run.curves.time) > 2 for run in kept.values())


def test_a_sweep_that_stands_still_says_so(monkeypatch, caplog):
    monkeypatch.setattr(Watch, "_STILL", 0.2)
    watch = Watch()
    watch.look(lambda: ["helper 1 has nothing"])
    assert caplog.text == ""
    time.sleep(0.25)
    with caplog.at_level(logging.WARNING, "afterfit.sweeps"):
        watch.look(lambda: [f"helper 1 has {jobs.describe(job(BASE, LONG), 0.25)}"])
        watch.look(lambda: ["said twice"])
    assert "nothing has moved" in caplog.text
    assert "helper 1 has 2 runs such as Ill, Linear, seed 0: 25% done" in caplog.text
    assert "said twice" not in caplog.text


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_helpers_and_runs_share_the_memory(monkeypatch, cores):
    monkeypatch.setattr(processes, "cores", lambda: cores)
    assert processes.share_out(processes.usual_memory())[0] == cores, "by default there is enough for every core"
    for memory in (1e8, 1e9, 3e9, 1e11):
        workers, room = processes.share_out(memory)
        assert 1 <= workers <= cores
        assert memory / 2 <= room == memory - (workers - 1) * processes._HELPER


def test_a_helper_takes_what_it_is_said_to_take():
    news = queue.SimpleQueue()
    helper = processes._Helper(1, news)
    try:
        assert news.get(timeout=60)[1] == "ready"
        own = psutil.Process(helper._process.pid).memory_full_info().uss  # not what it shares with other Pythons
        assert 0.3 < own / processes._HELPER < 1.2
    finally:
        helper.end()


@pytest.mark.usefixtures("two_cores")
def test_no_more_jobs_are_taken_than_can_be_done_soon():
    """Another process at the same sweep is to find some."""
    second = BASE.set({"dynamics.steps": 3_000_000})
    given = [dataclasses.replace(job(second.set({"observations": 10 + k})), bytes=3 * 10**9) for k in range(8)]
    left, taken, most = iter(given), 0, 0

    def take():
        nonlocal taken
        one = next(left, None)
        taken += one is not None
        return one

    for done, _ in enumerate(carry_out(take, given, 4e9, lambda runs: None), start=1):
        most = max(most, taken - done)
    assert done == taken == 8
    assert most <= 3  # one under way, and one waiting for each of two workers


def test_a_model_that_ends_python_fails_alone():
    quits = dataclasses.replace(BASE, task=Ill(n=12, sparsity=2, N=6, how="quits"))
    outcomes = do([job(quits, quits.set({"seed": 1})), job(BASE)])
    assert [what if isinstance(what, str) else what.status for _, what in outcomes] == [
        "SystemExit: enough",
        "SystemExit: enough",
        "finished",
    ]
