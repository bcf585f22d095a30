"""Parameters along a run: when they are kept, what they are, and that they are read from files only when asked for."""

from __future__ import annotations

import pickle

import jax
import numpy as np
import pytest
from conftest import flat
from small_problems import task

import afterfit as af
from afterfit import Damaged, SpecError
from afterfit._training.train import train
from afterfit.dynamics import SGD, GradientDescent, GradientFlow, LossScaledDescent
from afterfit.inits import Gaussian
from afterfit.models import DiagonalNet

CONSTANT = {"kind": "constant_schedule", "value": 0.5}


def trained(dynamics, checkpoints=0, observations=20, **others):
    given = {"task": task(), "model": DiagonalNet(), "init": Gaussian(0.5), "observations": observations}
    return train(**given | others, dynamics=dynamics, checkpoints=checkpoints)


@pytest.fixture(scope="module")
def run():
    return trained(GradientDescent(1e-2, 300), 4)


def test_so_many_are_the_start_the_end_and_observations_between(run):
    assert len(run.checkpoints) == 4
    assert run.checkpoints.times == pytest.approx([0, *run.checkpoints.times[1:3], 3.0])
    assert set(run.checkpoints.steps) <= set(run.curves["step"].values.tolist())
    np.testing.assert_array_equal(flat(run.checkpoints[-1]), flat(run.params))
    gaps = np.diff(np.log(run.checkpoints.steps[1:]))
    assert gaps[0] == pytest.approx(gaps[1], rel=0.5), "log-spaced, as far as observations are"
    one = trained(GradientDescent(1e-2, 300), 1)
    assert one.checkpoints.steps == [300]


def test_asking_for_checkpoints_changes_nothing_else(run):
    plain = trained(GradientDescent(1e-2, 300))
    assert len(plain.checkpoints) == 0
    np.testing.assert_array_equal(plain.curves["train_loss"], run.curves["train_loss"])
    np.testing.assert_array_equal(flat(plain.params), flat(run.params))


@pytest.mark.parametrize(
    ("dynamics", "steps"),
    [
        (GradientDescent(1e-2, 300), [0, 10, 150]),
        (SGD(1e-2, 300, 2, schedule=CONSTANT), [0, 20, 300]),  # at half the step a time takes twice the steps
        (GradientFlow(3.0), None),  # which makes its steps as it likes
    ],
    ids=["descent", "schedule", "flow"],
)
def test_chosen_times_are_met(dynamics, steps):
    found = trained(dynamics, [1.5, 0.0, 0.1]).checkpoints
    assert found.times == pytest.approx([0.0, 0.1, 1.5])
    assert steps is None or found.steps == steps


def test_a_checkpoint_is_where_a_shorter_run_ends():
    flow = trained(GradientFlow(3.0), [1.0])
    np.testing.assert_allclose(flat(flow.checkpoints[0]), flat(trained(GradientFlow(1.0)).params), rtol=1e-5)
    descent = trained(GradientDescent(1e-2, 300), [1.0])
    np.testing.assert_array_equal(flat(descent.checkpoints[0]), flat(trained(GradientDescent(1e-2, 100)).params))


def test_they_are_read_from_the_files_of_a_run_when_they_are_asked_for(run, tmp_path):
    directory = run.save(tmp_path / "run")
    loaded = af.load(directory)
    assert (loaded.checkpoints.steps, repr(loaded.checkpoints)) == (run.checkpoints.steps, "<4 checkpoints, t=0 to 3>")
    assert loaded.checkpoints.times.tolist() == run.checkpoints.times.tolist()
    for ours, theirs in zip(run.checkpoints, loaded.checkpoints[:], strict=True):
        jax.tree.map(np.testing.assert_array_equal, ours, theirs)
    file = directory / "checkpoint-002.npz"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    again = af.load(directory)  # nothing was asked of it yet
    again.checkpoints[1]
    with pytest.raises(Damaged, match=r"checkpoint-002\.npz does not match"):
        again.checkpoints[2]
    file.unlink()
    with pytest.raises(Damaged, match=r"has no checkpoint-002\.npz"):
        again.checkpoints.near(run.checkpoints.times[2])
    run.save(directory)  # it still is a run, and can be replaced
    assert len(af.load(directory).checkpoints[:]) == 4


def test_a_store_keeps_them_and_finds_them_damaged(tmp_path):
    sparse = af.tasks.SparseRecovery(n=7, sparsity=2, N=4)
    kept = trained(GradientDescent(1e-2, 30), 3, task=sparse)
    store = af.Store(tmp_path / "store")
    assert store.publish(kept.id, kept.files())
    np.testing.assert_array_equal(flat(store.load(kept.id).checkpoints[1]), flat(kept.checkpoints[1]))
    elsewhere = pickle.loads(pickle.dumps(store.load(kept.id).checkpoints))  # noqa: S301
    np.testing.assert_array_equal(flat(elsewhere[1]), flat(kept.checkpoints[1]))
    assert store.check() == {}
    (tmp_path / "store" / kept.id / "checkpoint-001.npz").write_bytes(b"")
    assert "checkpoint-001.npz does not match" in store.check()[kept.id]
    assert kept.id not in store


def test_a_sweep_has_the_checkpoints_of_each_run(tmp_path):
    sparse = af.tasks.SparseRecovery(n=7, sparsity=2, N=4)
    experiment = af.Experiment(
        task=sparse, model=DiagonalNet(), dynamics=GradientDescent(1e-2, 30), init=Gaussian(0.5), checkpoints=3
    )
    af.sweep(experiment, over={"dynamics.lr": [1e-2, 2e-2]}, store=tmp_path / "store").run()
    store = af.Store(tmp_path / "store")
    one, other = map(store.load, store.ids())
    assert one.checkpoints.steps == other.checkpoints.steps == [0, *one.checkpoints.steps[1:2], 30]
    for each in (one, other):
        np.testing.assert_array_equal(flat(each.checkpoints[-1]), flat(each.params))
    assert not np.array_equal(flat(one.params), flat(other.params))


def test_a_run_that_stops_by_itself_keeps_its_end():
    for dynamics in (GradientDescent(0.01, 10**6, until="settled"), GradientFlow("settled")):
        run = trained(dynamics, 20, 100, penalty=af.penalties.L2(0.5))
        assert run.message.startswith("settled")
        assert run.checkpoints.times[-1] == float(run.curves.time[-1])
        np.testing.assert_array_equal(flat(run.checkpoints[-1]), flat(run.params))
        assert len(set(run.checkpoints.steps)) == len(run.checkpoints)


def test_a_checkpoint_at_the_start_is_there_whatever_the_rounding():
    tiny = trained(GradientDescent(0.01, 10), [1e-9, 0.1])
    assert (tiny.checkpoints.steps, tiny.curves.step.values.tolist().count(0)) == ([0, 10], 1)
    for n in (10, 30, 60, 70, 110, 150):
        part = trained(GradientDescent(5e-3, n))
        rest = trained(GradientDescent(5e-3, n), [5e-3 * n, 2 * 5e-3 * n], init=None, start=part)
        assert rest.checkpoints.steps == [n, 2 * n]
        assert np.all(np.diff(rest.curves.step.values) > 0)


def test_they_are_found_from_another_place(run, tmp_path, monkeypatch):
    run.save(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    loaded = af.load("run")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(flat(loaded.checkpoints[0]), flat(run.checkpoints[0]))


def test_the_nearest_is_found_on_a_log_axis(run):
    times = run.checkpoints.times
    between = np.sqrt(times[1] * times[2])
    near = run.checkpoints.near
    np.testing.assert_array_equal(flat(near(0.99 * between)), flat(run.checkpoints[1]))
    np.testing.assert_array_equal(flat(near(1.01 * between)), flat(run.checkpoints[2]))
    np.testing.assert_array_equal(flat(near(0)), flat(run.checkpoints[0]))
    with pytest.raises(SpecError, match="train it with checkpoints"):
        trained(GradientDescent(1e-2, 3)).checkpoints.near(1.0)


@pytest.mark.parametrize(
    ("dynamics", "checkpoints", "said"),
    [
        (GradientDescent(1e-2, 300), -1, "a number of them, or a list of times.*got -1"),
        (GradientDescent(1e-2, 300), [-1.0], "times of 0 or more"),
        (GradientDescent(1e-2, 300), "often", "a number of them, or a list of times"),
        (GradientDescent(1e-2, 300), [3.02], "ends before t=3.02"),
        (LossScaledDescent(1e-2, 300), [1.0], "not known before: ask for a number"),
        (GradientDescent(1e-2, 300), 10**13, "checkpoints of 14 parameters are asked for"),
    ],
)
def test_what_cannot_be_kept_is_refused(dynamics, checkpoints, said):
    with pytest.raises(SpecError, match=said):
        trained(dynamics, checkpoints)
