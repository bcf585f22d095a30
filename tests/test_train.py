"""Training end to end: reproducible, observed without being disturbed, compiled once, kept in plain files."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import hashlib
import importlib
import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from conftest import flat

import afterfit as af
from afterfit._base.errors import Damaged, SpecError, Unreadable
from afterfit.dynamics import SGD, Discrete, GradientDescent, GradientFlow, LossScaledDescent
from afterfit.inits import Gaussian, He
from afterfit.models import MLP, Function, Linear, MatrixFactorisation
from afterfit.penalties import L1, L2, Penalty
from afterfit.tasks import Arrays, MatrixCompletion, SparseRecovery

# One small problem for most tests: it is compiled once. No test here turns double precision on by itself.
TASK = SparseRecovery(n=12, sparsity=2, N=6)
BASE = {"task": TASK, "model": Linear(), "init": Gaussian(), "penalty": L1(1e-3), "observations": 20}
DESCENT = GradientDescent(0.1, 1000)


def train(**changes):
    return af.train(**{**BASE, "dynamics": DESCENT, **changes})


@pytest.fixture(scope="module")
def run():
    return train()


def same(a: xr.Dataset, b: xr.Dataset) -> bool:
    """Whether two sets of curves are equal bit for bit, not-a-numbers included."""
    return a.identical(b)


def alike(a, b) -> bool:
    """Whether two trees have the same structure and the same arrays."""
    return jax.tree.structure(a) == jax.tree.structure(b) and all(
        x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


# What a run records.


def test_the_curves_are_what_they_are_called(run):
    data = af.Experiment(TASK, Linear(), DESCENT).draw()  # the data that the run saw, seed 0
    w, last = run.params["weights"], run.curves.isel(time=-1)
    residual = data.inputs @ w - data.targets
    expected = {
        "train_loss": 0.5 * residual @ residual,
        "train_error": np.linalg.norm(residual) / np.linalg.norm(data.targets),
        "test_error": np.linalg.norm(w - data.truth) / np.linalg.norm(data.truth),
        "test_loss": 0.5 * np.sum((data.test_inputs @ w - data.test_targets) ** 2),
        "population_risk": np.sum((w - data.truth) ** 2) / 12,
        "penalty": np.sum(np.abs(w)),
        "norm_l1": np.sum(np.abs(w)),
        "norm_l2": np.linalg.norm(w),
        "loss_gradient": np.linalg.norm(data.inputs.T @ residual),
        "penalty_gradient": 1e-3 * np.sqrt(12),  # β‖sign(w)‖
        "weights": w,
    }
    assert set(run.curves.data_vars) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(last[name], value, rtol=1e-10, atol=1e-16, err_msg=name)
    assert run.status == "finished"
    assert run.work == {"steps": 1000}
    assert run.spec["penalty"] == {"kind": "L1", "strength": 1e-3}
    assert w.dtype == np.float64


def test_observations_are_log_spaced_and_include_start_and_end(run):
    step, seconds = run.curves.step.values, run.curves.time.values
    assert (step[0], step[1], step[-1]) == (0, 1, 1000)
    np.testing.assert_allclose(seconds, 0.1 * step, rtol=1e-12)  # time is the sum of step sizes
    np.testing.assert_allclose(10 ** run.curves.log10_time.values[1:], seconds[1:], rtol=1e-12)
    # Log-spaced up to rounding to whole steps: beyond ten steps, every gap is 1000^(1/19) = 1.44 within 5 %.
    late = step[step > 10]
    np.testing.assert_allclose(late[1:] / late[:-1], 1000 ** (1 / 19), rtol=0.05)
    flow = train(dynamics=GradientFlow(until=50.0, first=1e-3), penalty=L2(1e-3), observations=15)
    seconds = flow.curves.time.values
    assert len(seconds) == 16
    assert (seconds[0], flow.curves.step.values[0]) == (0, 0)
    np.testing.assert_allclose(seconds[1:], 1e-3 * 50_000 ** (np.arange(15) / 14), rtol=1e-12)
    again = train(dynamics=GradientFlow(until=50.0, first=1e-3), penalty=L2(1e-3), observations=15)
    assert same(flow.curves, again.curves)


def test_the_same_seed_gives_the_same_run_bit_for_bit(run):
    again, other = train(), train(seed=1)
    assert same(run.curves, again.curves)
    assert alike(run.params, again.params)
    assert np.all(other.params["weights"] != run.params["weights"])
    random = {"dynamics": SGD(0.05, 300, batch=2)}
    first, second = train(**random), train(**random)
    assert same(first.curves, second.curves)
    assert not same(first.curves, train(**random, seed=1).curves)


def test_observing_more_often_does_not_change_the_run(run):
    often = train(observations=200)
    assert len(often.curves.time) > 3 * len(run.curves.time)
    assert alike(often.params, run.params)
    shared = np.intersect1d(run.curves.step, often.curves.step)
    assert len(shared) > 10
    pairs = [curves.isel(time=np.isin(curves.step, shared)) for curves in (run.curves, often.curves)]
    assert same(*pairs)


def test_memory_depends_on_the_observations_not_on_the_steps(run):
    def alive():
        gc.collect()  # arrays of other tests, and of this one, that only a cycle holds
        return sum(array.nbytes for array in jax.live_arrays())

    before = alive()
    long = train(dynamics=GradientDescent(0.1, 300_000))
    assert long.curves.step.values[-1] == 300_000
    assert len(long.curves.time) <= BASE["observations"] + 1
    assert long.curves.nbytes <= run.curves.nbytes * 21 / len(run.curves.time)
    assert flat(long.params).nbytes == flat(run.params).nbytes
    assert alive() - before < 100_000, "arrays are left behind on the device"


# Compiling.


def compiled(caplog, work: Callable[[], Any]) -> list[str]:
    """The functions of afterfit._training.train that JAX compiles during `work`."""
    caplog.clear()
    with jax.log_compiles():
        work()
    messages = [record.getMessage() for record in caplog.records]
    names = ("_start", "_advance", "_observe")
    return [name for message in messages for name in names if message.startswith(f"Compiling jit({name})")]


def test_changing_numbers_compiles_nothing(caplog):
    task = SparseRecovery(n=13, sparsity=2, N=6)  # of this test alone
    assert sorted(compiled(caplog, lambda: train(task=task))) == ["_advance", "_observe", "_start"]
    changes = {
        "lr": {"dynamics": GradientDescent(0.05, 1000)},
        "strength": {"penalty": L1(1e-4)},
        "seed": {"seed": 7},
        "init": {"init": Gaussian(3.0)},
        "observations": {"observations": 11},
        "number of steps": {"dynamics": GradientDescent(0.1, 3000)},
    }
    needless = {}
    for what, change in changes.items():
        if names := compiled(caplog, functools.partial(train, task=task, **change)):
            needless[what] = names
    assert needless == {}


# How runs end.


def test_a_diverged_run_keeps_its_curves_and_names_the_step_size():
    run = train(dynamics=GradientDescent(1e3, 1000))
    assert run.status == "diverged"
    assert "dynamics.lr=1e+02" in run.message
    assert f"step {run.curves.step.values[-1]}" in run.message
    assert run.curves.step.values[-1] < 1000
    loss = run.curves.train_loss.values
    assert not np.isfinite(loss[-1])
    assert np.all(np.isfinite(loss[:-1]))
    assert len(loss) > 3
    assert run.verdict.to_dict()  # it can be diagnosed all the same
    # Up to there it is the run it would have been: the same as one that stops earlier.
    short = train(dynamics=GradientDescent(1e3, int(run.curves.step.values[3])))
    np.testing.assert_array_equal(short.curves.train_loss.values[-1], loss[3])


def interrupting(after: int):
    """A progress bar during which Ctrl-C is pressed: the real signal, with Python's own handler."""

    @contextlib.contextmanager
    def bar(description, show):
        calls, heard = 0, threading.Event()

        def update(share):
            nonlocal calls
            calls += 1
            if calls == after:
                signal.raise_signal(signal.SIGINT)
                assert heard.wait(60)  # nothing more is observed until then

        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker of pytest-xdist ignores Ctrl-C
        try:
            yield update
        finally:
            heard.set()
            signal.signal(signal.SIGINT, before)

    return bar


def test_control_c_keeps_what_was_observed(monkeypatch, run):
    module = importlib.import_module("afterfit._training.train")  # not af.train, which is the function
    monkeypatch.setattr(module, "progress_bar", interrupting(after=6))
    monkeypatch.setattr(
        "afterfit._training.batches._SECONDS_A_LOOK", 0.0
    )  # progress is reported at every call of compiled code
    began = time.monotonic()
    stopped = train(dynamics=GradientDescent(0.1, 10**10), observations=40)  # two hours of steps
    assert time.monotonic() - began < 60
    assert stopped.status == "interrupted"
    assert "interrupted" in stopped.message
    assert len(stopped.curves.time) == 6  # the start, and five observations before the sixth was finished
    assert np.all(np.isfinite(stopped.curves.train_loss.values))
    np.testing.assert_allclose(np.linalg.norm(stopped.params["weights"]), stopped.curves.norm_l2.values[-1], rtol=1e-14)
    assert stopped.work["steps"] == stopped.curves.step.values[-1]
    assert stopped.verdict.to_dict()


PRESSED: list[int] = []


class Interrupted(GradientDescent):
    """Ctrl-C while an observation is being recorded."""

    at: int = 1

    def settled(self, problem, before, now, time, left):
        PRESSED.append(1)
        if len(PRESSED) == self.at:
            raise KeyboardInterrupt
        return False


def test_control_c_in_the_middle_of_an_observation_leaves_whole_ones():
    PRESSED.clear()
    stopped = train(dynamics=Interrupted(0.1, 1000, at=2, until="settled"))
    assert stopped.status == "interrupted"
    sizes = {name: curve.sizes["time"] for name, curve in {**stopped.curves, **stopped.curves.coords}.items()}
    assert set(sizes.values()) == {3}
    assert stopped.work["steps"] == stopped.curves.step.values[-1], "parameters and curves end at the same step"


class InterruptedAtOnce(GradientDescent):
    """Ctrl-C before the first observation."""

    def remember(self, problem, params):
        raise KeyboardInterrupt


def test_control_c_before_anything_was_observed_is_control_c():
    with pytest.raises(KeyboardInterrupt):
        train(dynamics=InterruptedAtOnce(0.1, 1000))


# Precision, and the caller's JAX.


def test_the_callers_jax_stays_as_it_was(run):
    assert jax.config.jax_enable_x64 is False
    assert jnp.ones(1).dtype == jnp.float32
    assert run.params["weights"].dtype == np.float64


@pytest.mark.parametrize(
    ("dynamics", "penalty"),
    [
        (GradientDescent(0.1, 500), L2(1e-3)),
        (GradientDescent(np.float64(0.1), 500), L2(np.float64(1e-3))),  # as from a loop over np.geomspace
        (GradientFlow(50.0), L2(1e-3)),
        (LossScaledDescent(1e-3, 500), None),
    ],
    ids=["descent", "NumPy numbers", "flow", "loss-scaled"],
)
def test_single_precision(dynamics, penalty):
    single = train(task=TASK.replace(precision="single"), dynamics=dynamics, penalty=penalty)
    double = train(dynamics=dynamics, penalty=penalty)
    assert single.status == double.status == "finished"
    assert single.params["weights"].dtype == np.float32
    assert single.curves.train_loss.dtype == np.float32
    assert (single.curves.time.dtype, single.curves.log10_time.dtype) == (np.float64, np.float64)
    np.testing.assert_allclose(single.curves.log10_time, double.curves.log10_time, atol=1e-5)
    # 500 steps of rounding at 1e-7, contracting; the flow's tolerance is 1e-6.
    np.testing.assert_allclose(single.params["weights"], double.params["weights"], atol=2e-4)


# Tasks and models of the user's own.

RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((8, 4))
CLASSES = np.arange(8) % 3


@pytest.mark.parametrize("loss_name", ["squared", "logistic", "exponential", "cross_entropy"])
def test_arrays_with_every_loss(loss_name):
    y = {"squared": FEATURES[:, 0], "cross_entropy": CLASSES}.get(loss_name, np.where(CLASSES > 0, 1, -1))
    run = af.train(
        task=Arrays(FEATURES, y, FEATURES, y, loss_name=loss_name),
        model=MLP((16,), "hidden"),
        init=He(),
        dynamics=GradientDescent(0.02, 20_000),
        observations=5,
    )
    # Trained and tested on the same eight points with enough units: everything is fitted.
    assert run.status == "finished"
    metric = "error" if loss_name == "squared" else "accuracy"
    train_curve, test_curve = run.curves[f"train_{metric}"].values, run.curves[f"test_{metric}"].values
    np.testing.assert_allclose(train_curve, test_curve)
    assert train_curve[-1] < 0.02 if metric == "error" else train_curve[-1] == 1


def test_a_model_whose_outputs_do_not_fit_is_refused():
    model = Function(lambda p, x: p * x, np.ones(4))
    with pytest.raises(SpecError, match=r"outputs of shape \(8, 4\), but the task needs \(8,\)"):
        af.train(task=Arrays(FEATURES, CLASSES, FEATURES, CLASSES), model=model, dynamics=DESCENT)
    with pytest.raises(SpecError, match="MatrixFactorisation is a model of a matrix"):
        train(model=MatrixFactorisation(2))
    with pytest.raises(SpecError, match="Linear has no initial parameters"):
        train(init=None)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda p, x: jnp.sum(p * x).astype(int), "outputs of type int.*make them floating"),
        (lambda p, x: jnp.sum(p * x) > 0, "outputs of type bool"),
        (lambda p, x: jnp.sum(p * x) * 1j, "outputs of type complex"),
        (lambda p, x: {"y": jnp.sum(p * x)}, "one array of outputs, got dict"),
        (lambda p, x: jnp.sum(x), "do not depend on its parameters"),
        (lambda p, x: jnp.sign(p @ x), "do not depend on its parameters"),
        (lambda p, x: jnp.sum(x) + 0 * jnp.sum(p), "do not depend on its parameters"),
    ],
)
def test_a_function_that_nothing_can_be_learnt_with_is_refused(function, said):
    with pytest.raises(SpecError, match=said):
        train(model=Function(function, np.ones(12)), init=None)


def test_a_function_that_is_flat_only_where_it_starts_is_run():
    # ReLU units that are dead on all examples, and a product of zeros: both have a derivative elsewhere.
    def dead(p, x):
        return jax.nn.relu(p["w"] @ x - 100) @ p["v"]

    for f, initial in (
        (dead, {"w": np.ones((3, 12)), "v": np.ones(3)}),
        (lambda p, x: p[0] * p[1] @ x, np.zeros((2, 12))),
    ):
        assert train(model=Function(f, initial), init=None, dynamics=GradientDescent(0.1, 3)).status == "finished"


@pytest.mark.parametrize(
    ("initial", "said"),
    [
        ({}, "needs initial parameters"),
        ({"w": np.array(["a"])}, r"the initial parameter \['w'\] must be real numbers, got words"),
        ({"w": [1.0, np.nan]}, "not finite"),
        (np.ones(3) * 1j, "complex"),
    ],
)
def test_initial_parameters_are_numbers(initial, said):
    with pytest.raises(SpecError, match=said):
        Function(lambda p, x: 0.0, initial)


class Bridge(Penalty):
    """Σ (θ² + ε)^(q/2): a penalty that the library does not have."""

    power: float = 1.0
    smoothing: float = 0.01

    def value(self, params):
        return sum(jnp.sum((leaf**2 + self.smoothing) ** (self.power / 2)) for leaf in jax.tree.leaves(params))


class HeavyBall(Discrete):
    """Polyak's momentum: v ← μv − η∇f, θ ← θ + v."""

    momentum: float = 0.9

    def remember(self, problem, params):
        return jax.tree.map(jnp.zeros_like, params)

    def step(self, problem, params, memory, key):
        velocity = jax.tree.map(lambda v, g: self.momentum * v - self.lr * g, memory, problem.gradient(params))
        return jax.tree.map(jnp.add, params, velocity), velocity


def test_a_penalty_and_a_dynamics_of_ones_own(tmp_path, caplog):
    own = {"penalty": Bridge(0.01, 0.5), "dynamics": HeavyBall(0.02, 200, 0.8)}
    run = train(**own)
    data = af.Experiment(TASK, Linear(), DESCENT).draw()
    w, v = np.array(train(dynamics=GradientDescent(1e-300, 1)).params["weights"]), 0.0  # where both start
    for _ in range(200):
        pull = 0.01 * 0.5 * w * (w**2 + 0.01) ** (0.25 - 1)
        v = 0.8 * v - 0.02 * (data.inputs.T @ (data.inputs @ w - data.targets) + pull)
        w = w + v
    np.testing.assert_allclose(run.params["weights"], w, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(run.curves.penalty.values[-1], np.sum((w**2 + 0.01) ** 0.25), rtol=1e-12)
    # Everything else works on them unchanged: names in files, verdicts, one compilation for all numbers.
    experiment = af.Experiment.from_dict(run.spec)
    assert experiment.dynamics == own["dynamics"]
    assert experiment.set({"dynamics.momentum": 0.5}).dynamics.momentum == 0.5
    assert af.load(run.save(tmp_path / "own")).spec == run.spec
    assert run.verdict.to_dict()
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        train(penalty=Bridge(0.02, 0.7), dynamics=HeavyBall(0.01, 200, 0.7))
        assert not [line for line in caplog.messages if "Compiling" in line], "compiled again for other numbers"
        train(penalty=Bridge(0.02, 0.7) + L2(1.0), dynamics=HeavyBall(0.01, 200, 0.7))
    assert [line for line in caplog.messages if "Compiling" in line]


# Files.

TREES = {
    "dict": {"weights": np.arange(3.0)},
    "network": {"layers": [{"weight": np.ones((2, 3)), "bias": np.zeros(2)}, {"weight": np.ones(2)}]},
    "many layers": {"factors": [np.full((2, 2), float(k)) for k in range(12)]},  # [10] comes after [9], not after [1]
    "single array": np.arange(4.0),
    "scalar": np.array(3.0),
    "list": [np.ones(2), [np.zeros(1)]],
    "single precision": {"w": np.ones(3, dtype=np.float32)},
    "nested": {"plus": {"U": np.ones((2, 2))}, "minus": {"U": np.zeros((2, 2))}},
    "named params": {"params": np.ones(3)},
    "named params inside": {"encoder": {"params": np.ones(3)}, "head": np.ones(2)},
    "named like an argument of np.savez": {"file": np.ones(3)},
    "names with slashes": {"a/b": np.ones(2), "a": {"c": np.zeros(1)}},
}


@pytest.mark.parametrize("name", TREES)
def test_a_run_is_read_back_as_it_was_saved(run, tmp_path, name):
    kept = dataclasses.replace(run, params=TREES[name])
    directory = kept.save(tmp_path / "deep" / "run")
    again = af.load(directory)
    assert alike(again.params, TREES[name])
    assert same(again.curves, run.curves)
    for field in ("spec", "metric", "criteria", "status", "message", "work", "seconds"):
        assert getattr(again, field) == getattr(run, field), field
    assert again.verdict.to_dict() == run.verdict.to_dict()
    assert [path.name for path in directory.parent.iterdir()] == ["run"], "something temporary is left"


def not_json(word):
    """Python reads and writes NaN and Infinity; nothing else does."""
    raise AssertionError(f"{word} is not JSON")


def test_files_are_plain_and_strict(tmp_path):
    diverged = train(dynamics=GradientDescent(1e3, 1000))  # with infinities in its curves
    matrix = af.train(
        task=MatrixCompletion(4, 5, 1),
        model=MatrixFactorisation(2),
        dynamics=GradientDescent(0.01, 50),
        init=Gaussian(),
        observations=4,
    )
    for kept in (diverged, matrix):
        directory = kept.save(tmp_path / kept.status)
        assert sorted(path.name for path in directory.iterdir()) == [
            "SHA256SUMS",
            "curves.parquet",
            "log.txt",
            "params.npz",
            "run.json",
            "spec.json",
        ]
        for name in ("spec.json", "run.json"):
            json.loads((directory / name).read_text(), parse_constant=not_json)
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=directory, check=True)
        again = af.load(directory)
        assert same(again.curves, kept.curves)
        assert alike(again.params, kept.params)
    assert matrix.curves.singular_values.shape == (len(matrix.curves.time), 4)


def test_an_earlier_run_is_replaced_and_survives_a_failure(run, tmp_path, monkeypatch):
    directory = run.save(tmp_path / "run")
    other = dataclasses.replace(run, message="another")
    assert af.load(other.save(directory)).message == "another"

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("afterfit._training.run.to_parquet", full)
    with pytest.raises(OSError, match="no space"):
        run.save(directory)
    assert af.load(directory).message == "another"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("at", [1, 2])
def test_ctrl_c_between_the_old_run_and_the_new_one_leaves_the_old(run, tmp_path, monkeypatch, at):
    directory = dataclasses.replace(run, message="old").save(tmp_path / "run")
    done, replace = [], os.replace

    def interrupted(*places):
        done.append(places)
        if len(done) != at:
            return replace(*places)
        if at == 1:  # just after the old one was put aside
            replace(*places)
        raise KeyboardInterrupt

    monkeypatch.setattr("afterfit._training.run.os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run.save(directory)
    assert af.load(directory).message == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    "content", [["thesis.tex"], ["spec.json", "thesis.tex"]], ids=["other", "a spec.json of others"]
)
def test_a_foreign_directory_is_left_alone(run, tmp_path, content):
    place = tmp_path / "place"
    place.mkdir()
    for name in content:
        (place / name).write_text("precious")
    with pytest.raises(SpecError, match=r"place exists and is not a run"):
        run.save(place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["place"]
    assert {path.name: path.read_text() for path in place.iterdir()} == dict.fromkeys(content, "precious")


def test_notes_beside_an_earlier_run_are_not_lost(run, tmp_path):
    place = run.save(tmp_path / "run")
    (place / "notes.md").write_text("precious")
    with contextlib.suppress(SpecError):  # refusing is as good as keeping them
        run.save(place)
    assert (place / "notes.md").read_text() == "precious"


def test_a_file_in_the_way_is_left_alone(run, tmp_path):
    (tmp_path / "place").write_text("precious")
    with pytest.raises(SpecError, match="place"):
        run.save(tmp_path / "place")
    assert (tmp_path / "place").read_text() == "precious"


def test_a_link_is_written_through(run, tmp_path):
    there = run.save(tmp_path / "there")
    (tmp_path / "to a run").symlink_to("there")
    dataclasses.replace(run, message="another").save(tmp_path / "to a run")
    assert af.load(there).message == af.load(tmp_path / "to a run").message == "another"
    (tmp_path / "to nothing yet").symlink_to(tmp_path / "deep" / "new")
    assert af.load(run.save(tmp_path / "to nothing yet")).id == run.id
    assert (tmp_path / "deep" / "new" / "run.json").is_file()
    (tmp_path / "in circles").symlink_to("in circles")
    with pytest.raises(SpecError, match="in circles exists and is not a run"):
        run.save(tmp_path / "in circles")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "deep",
        "in circles",
        "there",
        "to a run",
        "to nothing yet",
    ]


def test_an_empty_directory_may_be_used(run, tmp_path):
    assert af.load(run.save(tmp_path)).status == "finished"


def sum_up(directory):
    """Write the checksums of the files as they are now."""
    names = sorted(path.name for path in directory.iterdir() if path.name != "SHA256SUMS")
    sums = [f"{hashlib.sha256((directory / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
    (directory / "SHA256SUMS").write_text("".join(sums))


def test_what_is_not_a_run_is_not_read(run, tmp_path):
    with pytest.raises(Damaged, match="is not a run"):
        af.load(tmp_path / "nothing")
    directory = run.save(tmp_path / "run")
    facts = json.loads((directory / "run.json").read_text())
    (directory / "run.json").write_text(json.dumps({**facts, "format": 99}))
    with pytest.raises(Damaged, match=r"run\.json does not match its checksum"):
        af.load(directory)
    sum_up(directory)
    with pytest.raises(Unreadable, match=r"newer afterfit \(format 99.*upgrade"):
        af.load(directory)
    (directory / "run.json").write_text(json.dumps(facts))
    pickled = {'["w"]': np.array([print], dtype=object)}  # in NumPy's clothes
    np.savez(directory / "params.npz", **pickled)
    sum_up(directory)
    with pytest.raises(Damaged, match=r"params\.npz cannot be read \(an array of object"):
        af.load(directory)
    (directory / "curves.parquet").unlink()
    with pytest.raises(Damaged, match=r"no curves\.parquet"):
        af.load(directory)


def test_runs_of_the_first_format_are_still_read(run, tmp_path):
    """As afterfit 0.1 wrote them: four files, no name, no checksums."""
    directory = run.save(tmp_path / "run")
    facts = json.loads((directory / "run.json").read_text())
    for name in ("id", "ended", "final"):
        del facts[name]
    (directory / "run.json").write_text(json.dumps({**facts, "format": 1}))
    for name in ("log.txt", "SHA256SUMS"):
        (directory / name).unlink()
    again = af.load(directory)
    assert (again.id, again.ended) == ("", 0)
    assert same(again.curves, run.curves)
    assert again.verdict.to_dict() == run.verdict.to_dict()
    assert "1970" not in (again.save(directory) / "log.txt").read_text()  # and may be replaced by one of today
    (directory / "log.txt").unlink()
    (directory / "SHA256SUMS").unlink()
    with pytest.raises(Damaged, match="no SHA256SUMS"):  # one of today that lost them is not one of then
        af.load(directory)
