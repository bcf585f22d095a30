"""Slurm: the script of a job, and a sweep on a real Slurm of one node."""

from __future__ import annotations

import logging
import shlex
import sys

import pytest
from slurm_node import say, slurm_node  # noqa: F401  (a fixture)

import afterfit as af
from afterfit._base.errors import ClusterError, SpecError
from afterfit._sweeps import cluster
from afterfit._sweeps.cluster import carry_out
from afterfit._sweeps.plan import Job
from afterfit._sweeps.slurm import slurm
from afterfit._training.train import run_experiment

SHORT = af.Experiment(
    task=af.tasks.SparseRecovery(n=12, sparsity=2, N=6),
    model=af.models.Linear(),
    init=af.inits.Gaussian(),
    dynamics=af.dynamics.GradientDescent(0.1, 1000),
    observations=10,
)
LONG = SHORT.set({"dynamics.steps": 20_000_000})  # seconds: time to cancel its job


def job(experiment):
    return Job((experiment,), shared=False, wanted=(0,))


def test_the_script_asks_for_what_was_asked():
    place = slurm(partition="short", jobs=32, cores=4, memory="8GiB", time="0:30:00", account="lab", extra=["--nice=9"])
    lines = place.job_script().splitlines()
    options = dict(pair for line in lines if line.startswith("#SBATCH") for pair in _options(line))
    assert options["-p"] == "short"
    assert options["-A"] == "lab"
    assert options["-t"] == "0:30:00"
    assert options["--mem"] == "8G"
    assert options["--cpus-per-task"] == "4"
    assert options["--nice"] == "9"
    command = shlex.split(lines[-1])
    assert command[:3] == [sys.executable, "-m", "distributed.cli.dask_worker"]
    assert command[command.index("--nworkers") + 1] == "4"
    assert command[command.index("--nthreads") + 1] == "1"
    assert command[command.index("--memory-limit") + 1] == "2.00GiB"  # each, of 8 for four


def _options(line: str):
    """`-p short`, `--mem=8G` as pairs."""
    words = line.removeprefix("#SBATCH ").replace("=", " ", 1).split()
    return [tuple(words)] if len(words) == 2 else []


@pytest.mark.parametrize(
    "wrong",
    [{"jobs": 0}, {"cores": 1.5}, {"memory": "4"}, {"memory": 4}, {"time": "soon"}, {"extra": "--nice"}],
    ids=str,
)
def test_what_cannot_be_asked_of_slurm_is_refused(wrong):
    with pytest.raises(SpecError, match=next(iter(wrong))):
        slurm(**wrong)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the jobs' logs go there
    monkeypatch.setattr(cluster, "_LONELY", 2.0)
    monkeypatch.setattr("afterfit._sweeps.slurm._LOOK", 2.0)


def test_a_sweep_through_the_queue(slurm_node, elsewhere, tmp_path, caplog):  # noqa: F811
    """A job waits in the queue, which is said; it is let go, is cancelled half-way, and another takes its place."""
    cancelled = []

    class LetGo(logging.Handler):
        def emit(self, record):
            for job in say("squeue", "--noheader", "--states=PENDING", "--format=%i").split():
                say("scontrol", "update", f"JobId={job}", "StartTime=now")

    def cancel_once(runs):
        if runs > 1 and not cancelled:
            cancelled.extend(say("squeue", "--noheader", "--states=RUNNING", "--format=%i").split())
            say("scancel", *cancelled)

    log, handler = logging.getLogger("afterfit.sweeps"), LetGo()
    log.addHandler(handler)
    try:
        place = slurm(partition="short", memory="2GB", extra=["--begin=now+1hour"])
        outcomes = list(carry_out([job(SHORT), job(LONG)], place, cancel_once))
    finally:
        log.removeHandler(handler)
    assert "1 PENDING (BeginTime)" in caplog.text
    assert len(cancelled) == 1
    assert len(list((tmp_path / "results" / "slurm").glob("*.log"))) == 2  # that job's, and its successor's
    assert [outcome.id for outcome in outcomes] == [SHORT.id, LONG.id]
    for outcome, experiment in zip(outcomes, (SHORT, LONG), strict=True):
        here = run_experiment(experiment, progress=False).files()
        assert outcome.files is not None, outcome.error
        assert outcome.files["curves.parquet"] == here["curves.parquet"]
        assert outcome.files["params.npz"] == here["params.npz"]
    assert "RUNNING" not in say("squeue", "--noheader", "--format=%T")
    assert "PENDING" not in say("squeue", "--noheader", "--format=%T")


def test_slurms_refusal_is_passed_on(slurm_node, elsewhere):  # noqa: F811
    with pytest.raises(ClusterError, match="invalid partition"):
        next(carry_out([job(SHORT)], slurm(partition="nowhere", memory="2GB"), lambda runs: None))
