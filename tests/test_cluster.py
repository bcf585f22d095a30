"""Jobs on other processes: the same bits, every run once, whatever is killed on the way."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import logging
import signal
import sys
import threading

import dask_cluster
import numpy as np
import pytest
from dask_cluster import BASE, kill_the_work_of, with_other_version

import afterfit as af
from afterfit._base.errors import ClusterError, SpecError, VersionMismatch
from afterfit._sweeps import cluster
from afterfit._sweeps.cluster import carry_out
from afterfit._sweeps.plan import Job
from afterfit._sweeps.slurm import slurm
from afterfit._training.train import run_together

LONG = BASE.set({"dynamics.steps": 10_000_000})  # seconds, so that there is time to kill what runs it


def seeds(base, *wanted):
    return [base.set({"seed": seed}) for seed in wanted]


def job(*experiments):
    return Job(experiments, shared=False, wanted=tuple(range(len(experiments))))


def ill(how):
    return BASE.set({"task.how": how})


def nothing(runs):
    pass


@pytest.fixture(scope="module")
def one_worker(tmp_path_factory):
    """One, so that all tests share what it has compiled, and every job waits beside any that goes wrong."""
    found = dask_cluster.Cluster(tmp_path_factory.mktemp("dask"))
    found.nanny = found.worker("one")
    yield found
    found.end()


@pytest.fixture
def fresh(tmp_path):
    found = dask_cluster.Cluster(tmp_path)
    yield found
    found.end()


def assert_same_bits(outcomes, *jobs):
    """Every run of the jobs came back once, with the curves and parameters that it has when computed here."""
    assert sorted(outcome.id for outcome in outcomes) == sorted(id for job in jobs for id in job.ids)
    by_id = {outcome.id: outcome for outcome in outcomes}
    for each in jobs:
        for run in run_together(each.experiments):
            outcome, here = by_id[run.experiment.id], run.files()
            assert outcome.error == ""
            assert outcome.files.keys() == here.keys()
            for name in ("spec.json", "curves.parquet", "params.npz"):
                assert outcome.files[name] == here[name], name


def test_results_are_those_of_this_process_and_come_as_they_are_done(one_worker):
    longer = LONG.set({"dynamics.steps": 40_000_000})  # under way when three others have come, on busy cores too
    jobs = [job(*seeds(BASE, 0, 1, 2)), job(longer)]
    heard, outcomes = [], []
    for outcome in carry_out(jobs, one_worker.address, heard.append):
        outcomes.append((outcome, len(heard)))
    assert_same_bits([outcome for outcome, _ in outcomes], *jobs)
    assert [outcome.id for outcome, _ in outcomes][-1] == longer.id  # the short job was not kept waiting
    assert heard == sorted(heard)
    assert heard[-1] == 4.0
    live = [runs for runs in heard[outcomes[0][1] :] if 3 < runs < 4]
    assert len(set(live)) >= 2, heard  # three runs done, the fourth under way


def test_a_killed_worker_costs_no_run_and_no_bit(one_worker):
    jobs = [job(*seeds(BASE, 0, 1)), job(LONG), job(LONG.set({"seed": 1}))]
    killed = threading.Event()

    def kill_once(runs):
        if runs > 2.5 and not killed.is_set():  # a long run is half done
            killed.set()
            kill_the_work_of(one_worker.nanny)

    outcomes = list(carry_out(jobs, one_worker.address, kill_once))
    assert killed.is_set()
    assert_same_bits(outcomes, *jobs)


def test_what_fails_is_said_in_words_and_stops_nothing_else(one_worker):
    """An error in a user's code, and a job that kills every worker it is given to."""
    good, raises, kills = job(*seeds(BASE, 0, 1, 2)), ill("raises"), ill("kills")
    outcomes = list(carry_out([job(raises), job(kills), good], one_worker.address, nothing))
    failed = {outcome.id: outcome.error for outcome in outcomes if outcome.files is None}
    assert failed.keys() == {raises.id, kills.id}
    assert failed[raises.id] == "RuntimeError: no such moon"
    assert "3 workers died" in failed[kills.id]
    assert_same_bits([outcome for outcome in outcomes if outcome.files is not None], good)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_keeps_what_is_done_and_takes_back_the_rest(one_worker):
    done = job(*seeds(BASE, 0, 1))
    endless = [job(each) for each in seeds(LONG.set({"dynamics.steps": 10**10}), 0, 1, 2)]
    outcomes = []

    def stop(runs):
        if runs > 2:  # an endless one has begun
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        outcomes.extend(carry_out([done, *endless], one_worker.address, stop))
    assert_same_bits(outcomes, done)
    # The worker is free again: what was asked of it would have taken hours.
    assert_same_bits(list(carry_out([job(BASE)], one_worker.address, nothing)), job(BASE))


def test_a_lost_scheduler_is_said_and_loses_nothing(fresh):
    fresh.worker("one")
    endless = LONG.set({"dynamics.steps": 10**10})
    outcomes = []

    def kill_scheduler(runs):
        if runs > 1:
            fresh.scheduler.kill()

    with pytest.raises(ClusterError, match=r"gone, or does not answer.*start the scheduler"):
        outcomes.extend(carry_out([job(BASE), job(endless)], fresh.address, kill_scheduler))
    assert_same_bits(outcomes, job(BASE))


def test_other_versions_are_refused(fresh, tmp_path, caplog, monkeypatch):
    """A worker with another optax is refused, whether it joins later or was there first."""
    monkeypatch.setattr(cluster, "_LONELY", 0.5)
    other = with_other_version(tmp_path / "other", "optax", "0.0.7")
    complaint = (
        rf"worker late \(tcp://.*\) has optax 0\.0\.7, this client optax {importlib.metadata.version('optax')}\."
    )
    joined = []

    class Start(logging.Handler):
        def emit(self, record):  # that there is no worker
            if not joined:
                joined.append(fresh.worker("good"))

    def join_later(runs):
        if len(joined) == 1:
            joined.append(fresh.worker("late", other))

    log, handler = logging.getLogger("afterfit.sweeps"), Start()
    log.addHandler(handler)
    try:
        endless = LONG.set({"dynamics.steps": 10**10})
        with pytest.raises(VersionMismatch, match=complaint):
            list(carry_out([job(endless)], fresh.address, join_later))
    finally:
        log.removeHandler(handler)
    assert "start some with `dask worker`" in caplog.text
    with pytest.raises(VersionMismatch, match=complaint):
        next(carry_out([job(BASE)], fresh.address, nothing))


def test_what_cannot_be_sent_is_refused(one_worker):
    def locked(params, inputs, lock=threading.Lock()):
        return inputs @ params

    model = af.models.Function(locked, np.zeros(12))
    with pytest.raises(SpecError, match=r"cannot be sent to a worker.*lock"):
        next(carry_out([job(dataclasses.replace(BASE, model=model, init=af.inits.Own()))], one_worker.address, nothing))


@pytest.mark.parametrize(
    ("on", "kind", "complaint"),
    [
        ("local", SpecError, "must be"),
        (7, SpecError, "must be"),
        ("tcp://127.0.0.1:9", ClusterError, "no Dask scheduler answers"),
    ],
)
def test_places_that_are_none_are_refused(on, kind, complaint, monkeypatch):
    monkeypatch.setattr(cluster, "_PATIENCE", 1.0)
    with pytest.raises(kind, match=complaint):
        next(carry_out([job(BASE)], on, nothing))


@pytest.mark.parametrize("on", ["tcp://127.0.0.1:9", slurm()], ids=str)
def test_without_dask_it_says_what_to_install(on, monkeypatch):
    for name in ("distributed", "dask_jobqueue"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not there
    with pytest.raises(SpecError, match=r'pip install "afterfit\[dask\]"'):
        next(carry_out([job(BASE)], on, nothing))
