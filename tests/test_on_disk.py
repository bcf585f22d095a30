"""Inputs in a memory-mapped file: the same runs as from memory, without ever holding the data twice."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import afterfit as af
from afterfit import SpecError
from afterfit._training.train import run_together
from afterfit.models import _inputs

N, D = 103, 6  # no multiple of what is evaluated together, nor of the batch
RNG = np.random.default_rng(0)
ROWS = RNG.integers(0, 200, (N, D))
Y = (ROWS @ RNG.standard_normal(D) > 0).astype(int)
MLP = {"model": af.models.MLP((5,), "all"), "init": af.inits.He()}
ADAM = af.dynamics.AdamW(1e-2, 60, batch=10)


def net(params, x):
    return params["W"] @ jnp.tanh(params["V"] @ x)


FUNCTION = {"model": af.models.Function(net, {"V": RNG.standard_normal((4, D)) / 100, "W": np.ones((2, 4))})}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(_inputs, "_AT_ONCE", 20 * D)  # six parts, the last one not full


def mapped(folder, rows):
    np.save(folder / "X.npy", rows)
    return np.load(folder / "X.npy", mmap_mode="r")


def task_of(X, precision):
    return af.tasks.Arrays(X, Y, X[:50], Y[:50], loss_name="cross_entropy", precision=precision)


@pytest.mark.parametrize(
    ("kind", "precision", "model"),
    [(np.float32, "single", MLP), (np.float64, "double", FUNCTION), (np.uint8, "double", MLP), (">f8", "single", MLP)],
)
def test_a_run_from_a_file_is_the_run_from_memory(kind, precision, model, tmp_path):
    rows = ROWS.astype(kind)
    file = mapped(tmp_path, rows)
    tasks = task_of(rows, precision), task_of(file, precision)
    assert tasks[1].X is file
    memory, disk = (af.train(task=task, **model, dynamics=ADAM, observations=12) for task in tasks)
    # The same examples in the same order; sums over parts round differently in their last digits.
    close = {"rtol": 1e-10, "atol": 1e-12} if precision == "double" else {"rtol": 1e-4, "atol": 1e-5}
    for name in memory.curves:
        assert np.allclose(disk.curves[name], memory.curves[name], **close), name
    kinds = {leaf.dtype for leaf in jax.tree.leaves(disk.params)}
    assert kinds == {np.dtype(np.float64 if precision == "double" else np.float32)}


def test_runs_from_one_file_go_together_and_have_the_names_of_runs_from_memory(tmp_path):
    rows = ROWS.astype(np.float32)
    together = []
    for X in (rows, mapped(tmp_path, rows)):
        task = task_of(X, "single")
        rates = [af.Experiment(task, MLP["model"], ADAM.replace(lr=lr), init=MLP["init"]) for lr in (1e-2, 3e-3)]
        together.append(run_together(rates, shared=True))
    for memory, disk in zip(*together, strict=True):
        assert disk.id == memory.id
        assert np.allclose(disk.curves.train_loss, memory.curves.train_loss, rtol=1e-4)


def test_descent_on_all_examples_of_a_file_is_had_part_by_part(tmp_path):
    rows, descent = ROWS.astype(np.float64), af.dynamics.GradientDescent(1e-5, 5)
    memory, disk = (
        af.train(task=task_of(X, "double"), **MLP, dynamics=descent) for X in (rows, mapped(tmp_path, rows))
    )
    assert np.allclose(disk.curves.train_loss, memory.curves.train_loss, rtol=1e-12)


def test_what_needs_all_inputs_at_once_is_refused_in_a_sentence(tmp_path):
    task = task_of(mapped(tmp_path, ROWS.astype(np.float32)), "double")
    with pytest.raises(SpecError, match=r"GradientFlow needs all inputs at once.*np.array\(X\)"):
        af.train(task=task, **MLP, dynamics=af.dynamics.GradientFlow(1.0))
    run = af.train(task=task, **MLP, dynamics=ADAM.replace(steps=20))
    with pytest.raises(SpecError, match=r"theory looks at all inputs at once"):
        af.theory.limits(run)
    with pytest.raises(SpecError, match=r"this needs all inputs at once"):
        run.data.inputs.design(N)


class Centred(af.models.Model):
    """Outputs less their mean: each depends on all inputs that are there."""

    def parameters(self, signature):
        return {"w": af.models.Parameter(signature.inputs)}

    def __call__(self, params, inputs):
        outputs = inputs @ params["w"]
        return outputs - jnp.mean(outputs)


class Doubled(af.models.LinearModel):
    """Twice the weights; that it is linear in each input says that it acts on each."""

    def parameters(self, signature):
        return {"w": af.models.Parameter(signature.inputs)}

    def weights(self, params):
        return 2 * params["w"]


def test_a_model_that_mixes_examples_is_not_trained_on_parts_of_them(tmp_path):
    """Its means would be those of parts: another run under the same name."""
    file = mapped(tmp_path, ROWS.astype(np.float32))
    tasks = [af.tasks.Arrays(X, Y, X[:50], Y[:50]) for X in (np.array(file), file)]
    given = {"dynamics": af.dynamics.GradientDescent(1e-7, 3), "init": af.inits.Gaussian(0.1), "observations": 3}
    assert af.train(task=tasks[0], model=Centred(), **given).status == "finished"
    halves = [af.tasks.Arrays(X, Y, Z[:50], Y[:50]) for X, Z in ((file, np.array(file)), (np.array(file), file))]
    for task in (tasks[1], *halves):
        with pytest.raises(SpecError, match=r"Centred does not say.*separate = True.*np.array\(X\)"):
            af.train(task=task, model=Centred(), **given)
    for model in (af.models.Linear(), Doubled(), af.models.Tangent(af.models.MLP((3,)))):
        memory, disk = (af.train(task=task, model=model, **given) for task in tasks)
        assert np.allclose(disk.curves.train_loss, memory.curves.train_loss, rtol=1e-9)


def test_other_processes_open_the_file_in_place_of_getting_it(tmp_path):
    file = mapped(tmp_path, np.tile(ROWS, (500, 1)).astype(np.float32))
    n = len(file)
    for X, X_test in ((file[n // 2 :], file[:50]), (file[::-2], file[1:51, ::-1])):
        task = af.tasks.Arrays(X, np.ones(len(X)), X_test, np.ones(50))
        sent = pickle.dumps(task)
        assert len(sent) < file.nbytes / 2
        for _ in range(2):  # and once more from there
            task = pickle.loads(sent)  # noqa: S301
            assert isinstance(task.draw(np.random.default_rng(0)).inputs, _inputs.OnDisk)
            np.testing.assert_array_equal(task.X, X)
            np.testing.assert_array_equal(task.X_test, X_test)
            sent = pickle.dumps(task)
    (tmp_path / "X.npy").unlink()
    with pytest.raises(SpecError, match=r"X.npy, which is not there.*np.array\(X\)"):
        pickle.loads(sent)  # noqa: S301


def test_a_file_that_was_written_to_is_another_task(tmp_path):
    task = task_of(mapped(tmp_path, ROWS.astype(np.float32)), "single")
    experiment = af.Experiment(task, MLP["model"], ADAM.replace(steps=2), init=MLP["init"])
    named = experiment.id
    again = np.load(tmp_path / "X.npy", mmap_mode="r+")
    for change in (0, 1):
        again[0, 0] += change
        again.flush()
        os.utime(tmp_path / "X.npy", ns=(change, change))
        if not change:
            assert af.run_experiment(experiment).id == named, "the same numbers"
    with pytest.raises(SpecError, match=r"X.npy was written to since this task was made.*anew"):
        af.run_experiment(experiment)


def test_a_file_is_checked_part_by_part(tmp_path, monkeypatch):
    monkeypatch.setattr("afterfit._base.definitions._PART", 400)
    rows = ROWS.astype(np.float32)
    rows[-1, 3] = np.nan
    with pytest.raises(SpecError, match=r"X has entries that are not finite"):
        task_of(mapped(tmp_path, rows), "single")
    with pytest.raises(SpecError, match=r"X must be real numbers, got complex"):
        task_of(mapped(tmp_path, ROWS.astype(complex)), "single")


def test_a_file_that_can_be_written_to_is_copied(tmp_path):
    file = mapped(tmp_path, ROWS.astype(np.float32))
    task = task_of(np.load(tmp_path / "X.npy", mmap_mode="r+"), "single")
    assert type(task.X) is np.ndarray
    assert task.to_dict() == task_of(file, "single").to_dict()


MEMORY = """
import sys
import numpy as np
import afterfit as af

rows, columns = (int(size) for size in sys.argv[2:])

def train(n):
    X = np.load(sys.argv[1], mmap_mode="r")[:n]
    y = np.arange(n) % 2
    task = af.tasks.Arrays(X, y, X[:1000], y[:1000], loss_name="cross_entropy", precision="double")
    dynamics = af.dynamics.SGD(1e-3, 50, 100)
    af.train(task=task, model=af.models.MLP((20,)), init=af.inits.He(), dynamics=dynamics, observations=3)

def most(name):
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return 1024 * int(status[name].split()[0])

train(2000)
open("/proc/self/clear_refs", "w").write("5")  # forget the most there was, which may be that of the process before
before = most("VmRSS")
train(rows)
print((most("VmHWM") - before) / (4 * rows * columns))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the most memory that a process had is told otherwise")
def test_data_on_disk_are_never_held_twice(tmp_path):
    """Pages of the file count as memory while they are there: once the data, and what is evaluated together.

    In single precision on disk, in double in the run: the copies of data in memory would be four times the file.
    """
    size, path = (50_000, 500), tmp_path / "X.npy"  # 100 MB
    file = np.lib.format.open_memmap(path, "w+", np.float32, size)
    for start in range(0, size[0], 1000):
        file[start : start + 1000] = np.random.default_rng(start).standard_normal((1000, size[1]))
    del file
    command = [sys.executable, "-c", MEMORY, str(path), *map(str, size)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    assert 0.9 < float(done.stdout) < 1.6  # of the file's size
