"""Batches on other processes: the same bits, every run once, whatever is killed on the way."""

from __future__ import annotations

import io
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import dask_cluster
import numpy as np
import pytest
from dask_cluster import Ill, kill_the_work_of, with_other_version

import afterfit as af
from afterfit.spec import SpecError
from afterfit.sweeps import cluster
from afterfit.sweeps.cluster import carry_out
from afterfit.sweeps.worker import files_of, id_of
from afterfit.train import run_experiment

BASE = af.Experiment(
    task=Ill(n=12, sparsity=2, N=6),
    model=af.models.Linear(),
    init=af.inits.Gaussian(),
    penalty=af.penalties.L1(1e-3),
    dynamics=af.dynamics.GradientDescent(0.1, 1000),
    observations=10,
)
LONG = BASE.set({"dynamics.steps": 4_000_000})  # seconds, so that there is time to kill what runs it


def seeds(base, *wanted):
    return [base.set({"seed": seed}) for seed in wanted]


def ill(how):
    return BASE.set({"task.how": how})


def nothing(share):
    pass


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    found = dask_cluster.Cluster(tmp_path_factory.mktemp("dask"))
    found.nannies = [found.worker("one"), found.worker("two")]
    yield found
    found.end()


@pytest.fixture
def fresh(tmp_path):
    found = dask_cluster.Cluster(tmp_path)
    yield found
    found.end()


def assert_same_bits(outcomes, experiments):
    """Every experiment came back once, with the curves and parameters that it has when carried out here."""
    assert sorted(o.id for o in outcomes) == sorted(id_of(e) for e in experiments)
    by_id = {outcome.id: outcome for outcome in outcomes}
    for experiment in experiments:
        outcome, here = by_id[id_of(experiment)], files_of(run_experiment(experiment, progress=False))
        assert outcome.error == ""
        assert outcome.files is not None
        for name in ("spec.json", "curves.parquet", "params.npz"):
            assert outcome.files[name] == here[name], name


def test_results_are_those_of_this_process_and_come_as_they_are_done(two_workers):
    experiments = seeds(BASE, 0, 1, 2) + [LONG]
    heard, outcomes = [], []
    for outcome in carry_out([experiments[:3], experiments[3:]], two_workers.address, heard.append):
        outcomes.append((outcome, len(heard)))
    assert_same_bits([outcome for outcome, _ in outcomes], experiments)
    assert [outcome.id for outcome, _ in outcomes][-1] == id_of(LONG)  # the short batch was not kept waiting
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
    live = [share for share in heard[outcomes[0][1] :] if 0.75 < share < 1]
    assert len(set(live)) >= 2, heard  # three of four runs done, the fourth under way


def test_a_killed_worker_costs_no_run_and_no_bit(two_workers):
    experiments = seeds(BASE, 0, 1) + [LONG, LONG.set({"seed": 1})]
    killed = threading.Event()

    def kill_once(share):
        if share > 0.6 and not killed.is_set():  # both long runs are under way
            killed.set()
            kill_the_work_of(two_workers.nannies[0])

    outcomes = list(carry_out([experiments[:2], experiments[2:3], experiments[3:]], two_workers.address, kill_once))
    assert killed.is_set()
    assert_same_bits(outcomes, experiments)


def test_what_fails_is_said_in_words_and_stops_nothing_else(two_workers):
    """An error in a user's code, and a batch that kills every worker it is given to."""
    good, killer = seeds(BASE, 0, 1, 2), ill("kills")
    batches = [[good[0], ill("raises"), good[1]], [killer], [good[2]]]
    outcomes = list(carry_out(batches, two_workers.address, nothing))
    failed = {outcome.id: outcome.error for outcome in outcomes if outcome.files is None}
    assert failed.keys() == {id_of(ill("raises")), id_of(killer)}
    assert failed[id_of(ill("raises"))] == "RuntimeError: no such moon"
    assert "3 workers died" in failed[id_of(killer)]
    assert_same_bits([outcome for outcome in outcomes if outcome.files is not None], good)


def test_ctrl_c_keeps_what_is_done_and_takes_back_the_rest(two_workers):
    experiments = seeds(BASE, 0, 1) + seeds(LONG.set({"dynamics.steps": 10**10}), 0, 1, 2)
    outcomes = []

    def stop(share):
        if share >= 0.4:
            signal.raise_signal(signal.SIGINT)

    running = carry_out([experiments[:2], *([e] for e in experiments[2:])], two_workers.address, stop)
    with pytest.raises(KeyboardInterrupt):
        for outcome in running:
            outcomes.append(outcome)
    assert_same_bits(outcomes, experiments[:2])
    # The workers are free again: what was asked of them would have taken hours.
    assert_same_bits(list(carry_out([[BASE]], two_workers.address, nothing)), [BASE])


def test_a_lost_scheduler_is_said_soon_and_a_new_one_can_go_on(fresh, tmp_path):
    fresh.worker("one")
    endless = LONG.set({"dynamics.steps": 10**10})
    outcomes, killed_at = [], []

    def kill_scheduler(share):
        if share > 0.5 and not killed_at:
            killed_at.append(time.monotonic())
            fresh.scheduler.kill()

    with pytest.raises(ConnectionError, match=r"gone, or does not answer.*start the scheduler"):
        for outcome in carry_out([[BASE], [endless]], fresh.address, kill_scheduler):
            outcomes.append(outcome)
    assert_same_bits(outcomes, [BASE])
    assert time.monotonic() - killed_at[0] < 30  # not a matter of speed: without the check it waits for ever


def test_other_versions_are_refused(fresh, tmp_path, caplog, monkeypatch):
    """A worker with another optax is refused, whether it was there first or joins later."""
    monkeypatch.setattr(cluster, "_LONELY", 0.5)
    other = with_other_version(tmp_path / "other", "optax", "0.0.7")
    optax = af.run.importlib.metadata.version("optax")
    late = []

    def join(share):
        if not late:
            late.append(fresh.worker("late", other))

    threading.Timer(2, lambda: fresh.worker("good")).start()
    endless = LONG.set({"dynamics.steps": 10**10})
    with caplog.at_level(logging.WARNING), pytest.raises(SpecError, match=f"optax 0.0.7.*this client has {optax}"):
        list(carry_out([[endless]], fresh.address, join))
    assert "no worker yet" in caplog.text
    with pytest.raises(SpecError, match=r"worker tcp://.* has optax 0\.0\.7"):
        next(carry_out([[BASE]], fresh.address, nothing))


SCRIPT = """
import pickle, sys
import afterfit as af
from afterfit.models import Linear
from afterfit.sweeps.cluster import carry_out

class Mine(Linear):
    "A model of the user's own, in a script that does not ask whether it is the main one."

    def __call__(self, params, inputs):
        return super().__call__(params, inputs) / 2

BASE = af.Experiment(
    task=af.tasks.SparseRecovery(n=12, sparsity=2, N=6), model=Mine(), init=af.inits.Gaussian(),
    dynamics=af.dynamics.GradientDescent(0.1, 1000), observations=10,
)
outcomes = list(carry_out([[BASE], [BASE.set({"seed": 1})]], "local", lambda share: None))
from afterfit.sweeps.worker import files_of, id_of
for outcome, seed in zip(sorted(outcomes, key=lambda o: o.id != id_of(BASE)), (0, 1), strict=True):
    here = files_of(af.run_experiment(BASE.set({"seed": seed}), progress=False))
    assert not outcome.error, outcome.error
    assert all(outcome.files[name] == here[name] for name in ("spec.json", "curves.parquet", "params.npz"))
print("same bits")
"""


def test_a_script_runs_on_this_machine_with_its_own_classes(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "same bits\n"


@pytest.mark.parametrize(
    ("on", "complaint"), [("lokal", "must be"), (7, "must be"), ("tcp://127.0.0.1:9", "no Dask scheduler answers")]
)
def test_places_that_are_none_are_refused(on, complaint, monkeypatch):
    monkeypatch.setattr(cluster, "_PATIENCE", 1.0)
    with pytest.raises(SpecError, match=complaint):
        next(carry_out([[BASE]], on, nothing))
