"""Memory and time are known before they are spent: what exceeds the machine is refused at once, nothing else is."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from conftest import AT_ONCE

import afterfit as af
from afterfit import Experiment, SpecError
from afterfit._base.machine import _left_in_groups, free_memory, in_words
from afterfit._sweeps.knobs import parse_values
from afterfit._training.size import check_size, size_of
from afterfit._training.train import run_experiment
from afterfit.dynamics import SGD, GradientDescent, GradientFlow
from afterfit.inits import Gaussian
from afterfit.models import (
    MLP,
    DeepMatrixFactorisation,
    DiagonalNet,
    DiagonalProduct,
    Difference,
    EmbeddingMLP,
    Linear,
    MatrixFactorisation,
)
from afterfit.papers import SCALES, entries
from afterfit.tasks import (
    Arrays,
    CirclePoints,
    FourierRegression,
    MarginClassification,
    MatrixCompletion,
    MatrixSensing,
    ModularArithmetic,
    ReLURegression,
    SparseClassification,
    SparseRecovery,
    SparseRegression,
    TeacherStudent,
)

SMALL = Experiment(SparseRegression(8, 6, 2), Linear(), GradientDescent(0.1, 100), init=Gaussian())
HUGE = 10**9
af.sweep, af.train  # noqa: B018  (now)


def nested(times: int):
    model = MLP((4,))
    for _ in range(times):
        model = Difference(model)
    return model


def labelled(label: int):
    X = np.ones((3, 2))
    return Arrays(X, [0, 1, label], X, [0, 1, 2], loss_name="cross_entropy")


@pytest.mark.parametrize(
    ("nouns", "words"),
    [
        ({"task": SparseRegression(HUGE, 6, 2)}, "numbers.*GB at least.*free. Instead, lower task.n "),
        ({"task": SparseRegression(8, HUGE, 2)}, "lower task.d "),
        ({"task": SparseRegression(8, 6, 2, n_test=HUGE)}, "lower task.n_test "),
        ({"task": SparseRecovery(HUGE, 5, 30)}, "lower task.n "),
        ({"task": SparseRecovery(100, 5, HUGE)}, "lower task.N "),
        ({"task": SparseClassification(HUGE, HUGE)}, "task.n .*task.d "),
        ({"task": MarginClassification(32, HUGE)}, "task.d "),
        ({"task": MatrixCompletion(HUGE, HUGE, 1)}, "task.rows .*task.columns"),
        ({"task": MatrixSensing(10, 10, 2, N=HUGE)}, "task.N "),
        ({"task": ModularArithmetic(HUGE), "model": MLP((8,))}, "task.p "),
        ({"task": FourierRegression(frequencies=HUGE)}, "task.frequencies "),
        ({"task": TeacherStudent(hidden=HUGE), "model": MLP((8,))}, "task.hidden "),
        ({"task": ReLURegression(teacher_units=HUGE), "model": MLP((8,))}, "task.teacher_units "),
        ({"task": CirclePoints(n=10 * HUGE), "model": MLP((8,))}, "task.n "),
        ({"task": labelled(HUGE), "model": MLP((8,))}, r"outputs of \(1000000001,\) \(one a class\)"),
        ({"model": MLP((HUGE,))}, "7e.09 parameters.*lower model.hidden "),
        ({"model": MLP((HUGE, HUGE))}, "1e.18 parameters.*TB at least"),
        ({"task": ModularArithmetic(7, form="tokens"), "model": EmbeddingMLP(HUGE, HUGE)}, "model.embedding "),
        ({"task": MatrixCompletion(9, 9, 1), "model": MatrixFactorisation(HUGE)}, "model.rank "),
        ({"model": DiagonalNet(10**6)}, "program of 1e.06 operations.*h at least to compile: lower model.depth "),
        ({"model": DiagonalProduct(10**6)}, "lower model.depth "),
        ({"task": MatrixCompletion(9, 9, 1), "model": DeepMatrixFactorisation(10**6)}, "lower model.depth "),
        ({"model": nested(20)}, "operations.*choose one with fewer parts"),
        ({"model": nested(100)}, "operations.*years at least"),
        ({"observations": HUGE}, "1e.09 observations.*1 TB at least.*lower observations"),
        ({"observations": HUGE, "dynamics": GradientFlow(1.0)}, "lower observations"),
        ({"observations": 10**20}, "observations must be a whole number, 2 or more and below"),
        ({"dynamics": GradientDescent(0.1, 10**15)}, "1e.15 steps take 3.17 years at least: lower dynamics.steps"),
        ({"dynamics": SGD(0.1, 10**20)}, "1e.20 steps take 3.17e.05 years at least"),
    ],
)
def test_what_exceeds_the_machine_is_refused_at_once(nouns, words):
    began = time.monotonic()
    with pytest.raises(SpecError, match=words):
        run_experiment(Experiment(**({"task": SMALL.task, "model": SMALL.model, "dynamics": SMALL.dynamics} | nouns)))
    assert time.monotonic() - began < AT_ONCE


def test_a_step_that_needs_more_than_its_data_and_parameters_is_refused():
    # 10⁶ examples and 10⁶ units are megabytes each, and 8 TB together.
    began = time.monotonic()
    with pytest.raises(SpecError, match=r"product of matrices in one step.*8 TB at least.*fewer units"):
        run_experiment(Experiment(CirclePoints(n=10**6), MLP((10**6,)), GradientDescent(0.1, 10), init=Gaussian()))
    assert time.monotonic() - began < 3 * AT_ONCE  # the data and parameters themselves are drawn


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: af.sweep(SMALL, {"init.scale": af.geomspace(1, 2, HUGE)}),
        lambda: parse_values(f"lin:0:1:{HUGE}", "init.scale"),
        lambda: af.sweep(SMALL, {"init.scale": range(1, HUGE)}),
        lambda: af.sweep(SMALL, {"init.scale": [1.0]}, seeds=HUGE),
        lambda: af.sweep(SMALL, {"init.scale": [1.0]}, seeds=10**20),
        lambda: af.sweep(SMALL, {"init.scale": [1.0]}, seeds=range(HUGE)),
        lambda: af.sweep(
            SMALL, dict.fromkeys(("init.scale", "dynamics.lr", "task.noise_variance"), af.geomspace(1, 2, 1000))
        ),
        lambda: af.sweep(SMALL, af.refine("init.scale", resolution=2**30 + 1, budget=10**10)),
        lambda: af.sweep(SMALL, af.refine("init.scale", "dynamics.lr", resolution=2**20 + 1, budget=10**13)),
    ],
)
def test_a_sweep_that_exceeds_the_machine_is_refused_at_once(attempt):
    began = time.monotonic()
    with pytest.raises(SpecError, match=r"(runs|points).*[GT]B at least, and this machine has .* free. Instead, "):
        attempt()
    assert time.monotonic() - began < AT_ONCE


def test_a_sweep_with_one_point_too_large_is_refused_before_anything_is_drawn(tmp_path):
    began = time.monotonic()
    with pytest.raises(SpecError, match=r"lower task\.n "):
        af.sweep(SMALL, {"task.n": [8, 10**6, HUGE]}, store=tmp_path).run(progress=False)
    assert time.monotonic() - began < AT_ONCE


def test_nothing_of_the_gallery_is_too_large_at_any_scale():
    # Papers' own settings, told to be possible without drawing them: well within a laptop's 16 GB.
    for entry in entries().values():
        for scale in SCALES:
            for name, experiment in entry.experiments(scale).items():
                size = check_size(experiment)
                assert 8 * (size.data + 2 * size.parameters) < 8e9, (entry.id, scale, name)
                assert size.seconds < 3600, (entry.id, scale, name)


@pytest.mark.parametrize(
    "task",
    [
        SparseRegression(300, 200, 2),
        SparseRecovery(300, 5, 200),
        SparseClassification(300, 201),
        MarginClassification(300, 200),
        MatrixCompletion(300, 200, 2),
        MatrixSensing(20, 20, 2, N=300),
        ModularArithmetic(201),
        FourierRegression(n=300, frequencies=100),
        TeacherStudent(hidden=300, d=200, n=300),
        ReLURegression(n=300, teacher_units=200),
        CirclePoints(n=300, teacher_units=200),
    ],
    ids=lambda task: type(task).__name__,
)
def test_drawing_takes_the_memory_that_was_foretold(task):
    # At least as much, or something possible would be refused; and not many times as much, or the bound is no use.
    task.draw(np.random.default_rng(0))  # loads what is loaded on first use
    tracemalloc.start()
    try:
        task.draw(np.random.default_rng(0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 8 * task.numbers <= 1.01 * peak
    assert peak <= 6 * 8 * task.numbers


def test_training_takes_the_time_that_was_foretold():
    # Steps of the smallest problem there is, after what is compiled once: slower than the bound, or it is no bound.
    experiment = Experiment(
        SparseRegression(1, 1, 1, n_test=1), Linear(), GradientDescent(1e-3, 200_000), init=Gaussian()
    )
    run_experiment(experiment)
    began = time.monotonic()
    run_experiment(experiment)
    assert time.monotonic() - began >= size_of(experiment).seconds


def test_limits_of_containers_are_limits(tmp_path, monkeypatch):
    def group(place: str, limit: str, used: int, inactive: int = 0, names=("memory.max", "memory.current")):
        folder = tmp_path / place
        folder.mkdir(parents=True, exist_ok=True)
        (folder / names[0]).write_text(f"{limit}\n")
        (folder / names[1]).write_text(f"{used}\n")
        (folder / "memory.stat").write_text(f"anon 1\ninactive_file {inactive}\n")

    mine = tmp_path / "mine"
    group("", "max", 1000)
    group("slurm/job", "5000", 2000, inactive=500)
    group("slurm/job/step", "9000", 1000)
    mine.write_text("0::/slurm/job/step\n")
    assert sorted(_left_in_groups(mine, tmp_path)) == [3500, 8000]
    group("memory/old", "700", 600, names=("memory.limit_in_bytes", "memory.usage_in_bytes"))
    mine.write_text("3:cpu:/old\n4:memory,hugetlb:/old\n")
    assert list(_left_in_groups(mine, tmp_path)) == [100]
    mine.write_text("0::/nowhere\n")
    assert list(_left_in_groups(mine, tmp_path)) == []
    assert list(_left_in_groups(tmp_path / "no such file", tmp_path)) == []
    assert free_memory() > 0
    monkeypatch.setattr("afterfit._base.machine._left_in_groups", lambda: iter(()))
    assert free_memory() > 0, "where no group sets a limit"


@pytest.mark.parametrize(
    ("amount", "of", "words"),
    [
        (12, "bytes", "12 bytes"),
        (3.2e9, "bytes", "3.2 GB"),
        (8e18, "bytes", "8e+06 TB"),
        (0.5, "seconds", "0.5 s"),
        (5400, "seconds", "1.5 h"),
        (1e9, "seconds", "31.7 years"),
    ],
)
def test_amounts_in_words(amount, of, words):
    assert in_words(amount, of) == words
