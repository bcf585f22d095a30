"""Tasks draw what they say, score it as their papers do, and know their population risk."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.experimental.sparse
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from conftest import as_jax, random_like
from hypothesis import given
from hypothesis import strategies as st

import afterfit as af
from afterfit._base.errors import SpecError
from afterfit._diagnose.thresholds import Criteria
from afterfit._training.experiment import Experiment
from afterfit._training.train import run_experiment
from afterfit.dynamics import GradientDescent
from afterfit.inits import Gaussian
from afterfit.losses import CrossEntropy, Squared
from afterfit.models import MLP, Function, Linear, MatrixFactorisation
from afterfit.models._inputs import Entries, OneHot, Signature
from afterfit.tasks import (
    Arrays,
    CirclePoints,
    Data,
    FourierRegression,
    Interpolation,
    MarginClassification,
    MatrixCompletion,
    MatrixSensing,
    ModularArithmetic,
    ReLURegression,
    SparseClassification,
    SparseRecovery,
    SparseRegression,
    Task,
    TeacherStudent,
)

pytestmark = pytest.mark.usefixtures("x64")

SAMPLES = 200_000
SIGMAS = 4.5  # of a Monte Carlo mean; the seeds are fixed, so a test that passes keeps passing


def draw(task, seed=0):
    return task.draw(np.random.default_rng(seed))


def metrics_of(task, model, params, data):
    """Everything a task records, compiled as in a run."""
    return jax.jit(lambda params, data: task.metrics(model, params, data))(as_jax(params), as_jax(data))


def matches_mean(value, samples, allowance=0.0):
    """Whether `value` is the mean that independent samples estimate."""
    error = np.std(samples) / np.sqrt(len(samples))
    return abs(float(value) - np.mean(samples)) <= SIGMAS * error + allowance


def matches_variance(samples, variance):
    """Whether Gaussian samples have this variance: the estimate's relative error has deviation √(2/m)."""
    return abs(np.mean(samples**2) / variance - 1) <= SIGMAS * np.sqrt(2 / samples.size)


# What each task draws.


@pytest.mark.parametrize("design", ["gaussian", "sign"])
@pytest.mark.parametrize("entries", ["equal", "sign", "gaussian"])
def test_sparse_regression(design, entries):
    task = SparseRegression(500, 60, 4, design=design, entries=entries, noise_variance=0.25, n_test=300)
    data = draw(task)
    support = data.truth != 0
    assert data.inputs.shape == (500, 60)
    assert data.test_inputs.shape == (300, 60)
    assert np.sum(support) == 4
    if entries == "equal":
        np.testing.assert_allclose(data.truth[support], 1 / 2)
    if entries == "sign":
        np.testing.assert_array_equal(np.abs(data.truth[support]), 1)
    if design == "sign":
        assert set(np.unique(data.inputs)) == {-1, 1}
    else:
        assert matches_variance(data.inputs, 1)
    for X, y in ((data.inputs, data.targets), (data.test_inputs, data.test_targets)):
        assert matches_variance(y - X @ data.truth, 0.25)


def test_sparse_recovery_mixes_identity_rows_with_gaussian_ones():
    task = SparseRecovery(n=40, sparsity=7, N=1000, coherence=0.02, snr=1e4)
    data = draw(task)
    assert np.sum(data.truth != 0) == 7
    # M's first rows are columns of Φ, so X = MΦ starts with rows of the identity (App. G.1.2).
    np.testing.assert_allclose(data.inputs[:20], np.eye(40)[:20], atol=1e-13)
    assert matches_variance(data.inputs[20:], 1 / 40)
    variance = 7 / 40 / (1000 * 1e4)  # E‖a*‖²/(N·SNR), with E‖a*‖² = sparsity/n
    np.testing.assert_allclose(data.noise_variance, variance, rtol=1e-12)
    assert matches_variance(data.targets - data.inputs @ data.truth, variance)
    np.testing.assert_allclose(draw(SparseRecovery(12, 2, 12, coherence=1.0)).inputs, np.eye(12), atol=1e-13)
    noiseless = draw(SparseRecovery(40, 7, 10))
    np.testing.assert_allclose(noiseless.targets, noiseless.inputs @ noiseless.truth, rtol=1e-12)


def test_sparse_recovery_entries_have_the_scale_asked_for():
    entries = np.concatenate([draw(SparseRecovery(50, 50, 1, scale=3.0), seed).truth for seed in range(20)])
    assert matches_variance(entries, 9.0)
    default = np.concatenate([draw(SparseRecovery(50, 50, 1), seed).truth for seed in range(20)])
    assert matches_variance(default, 1 / 50)


def test_sparse_recovery_measures_with_the_variance_asked_for():
    task = SparseRecovery(n=40, sparsity=7, N=30, variance=1 / 30)
    given, default = draw(task), draw(task.replace(variance=None))
    for name in ("inputs", "test_inputs"):
        np.testing.assert_allclose(getattr(given, name), np.sqrt(40 / 30) * getattr(default, name), rtol=1e-12)
    np.testing.assert_array_equal(given.truth, default.truth)
    risks = [float(t.population_risk(jnp.zeros(40), given)) for t in (task, task.replace(variance=None))]
    np.testing.assert_allclose(risks[0], 40 / 30 * risks[1], rtol=1e-12)
    assert "variance" not in task.replace(variance=None).to_dict()  # what runs without it are called stays
    with pytest.raises(SpecError, match="variance"):
        task.replace(variance=0.0)


@pytest.mark.parametrize("design", ["gaussian", "sign"])
def test_sparse_classification_labels_by_a_sparse_vote(design):
    data = draw(SparseClassification(300, 50, 3, design))
    (support,) = np.nonzero(data.truth)
    assert len(support) == 3
    assert set(np.abs(data.truth[support])) == {1}
    votes = sum(data.truth[k] * data.inputs[:, k] for k in support)
    np.testing.assert_array_equal(data.targets, np.where(votes > 0, 1, -1))
    assert set(np.unique(data.inputs)) == {-1, 1} or design == "gaussian"


def test_margin_classification_leaves_a_gap():
    data = draw(MarginClassification(2000, 10, margin=3.0))
    along = data.inputs @ data.truth
    np.testing.assert_allclose(np.linalg.norm(data.truth), 1)
    np.testing.assert_array_equal(np.sign(along), data.targets)
    # Without the gap of γ/2 on either side, what is left is a standard Gaussian, along w* and across it.
    assert np.min(np.abs(along)) > 1.5
    np.testing.assert_allclose(np.min(np.abs(along)), 1.5, atol=5e-3)
    assert matches_variance(data.inputs - 1.5 * data.targets[:, None] * data.truth, 1)


@pytest.mark.parametrize("symmetric", [False, True])
def test_low_rank_truths(symmetric):
    columns = 6 if symmetric else 8
    gaussian = draw(MatrixCompletion(6, columns, 2, symmetric=symmetric)).truth
    orthogonal = draw(MatrixSensing(6, columns, 3, truth="orthogonal", symmetric=symmetric)).truth
    assert np.linalg.matrix_rank(gaussian) == 2
    np.testing.assert_allclose(np.linalg.svd(orthogonal)[1], [3**-0.5] * 3 + [0.0] * 3, atol=1e-14)
    if symmetric:
        np.testing.assert_allclose(gaussian, gaussian.T)
        np.testing.assert_allclose(orthogonal, orthogonal.T)
        assert np.all(np.linalg.eigvalsh(gaussian) > -1e-12)
    table = draw(MatrixCompletion(5, 5, 1, truth="multiplication_table", symmetric=symmetric)).truth
    for i, j in itertools.product(range(5), range(5)):
        assert table[i, j] == pytest.approx(i * j / 25, abs=1e-15)


def leverage(M):
    """μᵢ + νⱼ (Notsawo et al., Def. G.9) from the projections M M⁺ and M⁺M onto column and row space."""
    inverse, rank = np.linalg.pinv(M), np.linalg.matrix_rank(M)
    rows, columns = np.diag(M @ inverse), np.diag(inverse @ M)
    return np.add.outer(M.shape[0] / rank * rows, M.shape[1] / rank * columns)


@pytest.mark.parametrize("coherence", [0.0, 0.5, 1.0])
def test_matrix_completion_observes_by_leverage(coherence):
    task = MatrixCompletion(6, 8, 2, observed=20, coherence=coherence)
    data = draw(task)
    mask, hidden = data.inputs.mask, data.test_inputs.mask
    assert (np.sum(mask), data.n, data.n_test) == (20, 20, 28)
    np.testing.assert_array_equal(mask + hidden, 1)
    np.testing.assert_array_equal(data.targets, np.where(mask == 1, data.truth, 0))
    np.testing.assert_array_equal(data.test_targets, np.where(mask == 0, data.truth, 0))
    top = np.argsort(-leverage(data.truth).ravel())[: round(coherence * 20)]
    assert np.all(mask.ravel()[top] == 1)
    # Entries beyond the τN of highest leverage are observed with equal probability, (1 − τ)N/(48 − τN).
    draws = [draw(task, seed) for seed in range(300)]
    ranked = [data.inputs.mask.ravel()[np.argsort(-leverage(data.truth).ravel())] for data in draws]
    beyond = np.array(ranked)[:, round(coherence * 20) :]
    share = (20 - round(coherence * 20)) / (48 - round(coherence * 20))
    assert np.all(np.abs(beyond.mean(axis=0) - share) <= SIGMAS * np.sqrt(share * (1 - share) / 300))


@given(seen=st.integers(1, 99))
def test_a_share_is_the_number_it_says(seen):
    # 0.57 of 100 entries are 57, although 0.57·100 is 56.99999999999999 in floating point.
    assert MatrixCompletion(10, 10, 1, observed=seen / 100).count == seen
    assert ModularArithmetic(p=10, fraction=seen / 100).n == seen


@pytest.mark.parametrize("share", [0.07, 0.29, 0.57, 0.58, 1.0])  # 0.29·100 = 28.999999999999996
def test_a_share_of_coherent_measurements_is_the_number_it_says(share):
    data = draw(SparseRecovery(n=120, sparsity=1, N=100, coherence=share))
    identity = np.all(np.isclose(data.inputs, np.eye(120)[:100], atol=1e-9), axis=1)
    assert np.sum(identity) == round(100 * share)


def test_matrix_sensing_measures_what_it_says():
    task = MatrixSensing(4, 5, 2, N=200, measurements="gaussian")
    data = draw(task)
    assert data.inputs.shape == (200, 4, 5)
    assert matches_variance(data.inputs, 1 / 20)
    np.testing.assert_allclose(data.targets, [np.trace(X.T @ data.truth) for X in data.inputs], rtol=1e-11, atol=1e-12)
    data = draw(MatrixSensing(4, 5, 2, N=400, measurements="rank_one", coherence=0.005))
    _, values, _ = np.linalg.svd(data.truth)
    # The first two measurements are u₁v₁ᵀ and u₂v₂ᵀ, so they read off the singular values.
    np.testing.assert_allclose(data.targets[:2], values[:2], rtol=1e-12)
    assert all(np.linalg.matrix_rank(X, tol=1e-12) == 1 for X in data.inputs)
    # Products of N(0, 1/rows²) and N(0, 1/columns²): variance 1/(4·5)², fourth moment 9, so Var z² = 8.
    entries = data.inputs[2:] * 20
    assert abs(np.mean(entries**2) - 1) <= SIGMAS * np.sqrt(8 / 398)  # entries of one matrix are dependent
    diagonal = draw(MatrixSensing(4, 4, 1, N=50, measurements="diagonal")).inputs
    np.testing.assert_array_equal(diagonal * (1 - np.eye(4)), 0)
    assert matches_variance(diagonal[:, range(4), range(4)], 1)
    symmetric = draw(MatrixSensing(4, 4, 1, N=50, symmetric=True)).inputs
    np.testing.assert_array_equal(symmetric, symmetric.transpose(0, 2, 1))


@pytest.mark.parametrize("operation", ["+", "-", "*"])
@pytest.mark.parametrize("form", ["one_hot", "tokens"])
def test_modular_arithmetic_splits_all_pairs(operation, form):
    task = ModularArithmetic(p=7, fraction=0.4, operation=operation, form=form)
    data = draw(task)
    answers = {"+": lambda a, b: (a + b) % 7, "-": lambda a, b: (a - b) % 7, "*": lambda a, b: (a * b) % 7}[operation]
    seen = set()
    for inputs, targets in ((data.inputs, data.targets), (data.test_inputs, data.test_targets)):
        pairs = inputs.tokens if form == "one_hot" else inputs
        assert [answers(int(a), int(b)) for a, b in pairs] == list(targets)
        assert not seen & {tuple(pair) for pair in pairs.tolist()}
        seen |= {tuple(pair) for pair in pairs.tolist()}
    assert len(seen) == 49
    assert (data.n, data.n_test) == (19, 30)


def test_fourier_regression_is_the_sparse_series_of_the_paper():
    task = FourierRegression()  # f(x) = 1 + cos(6πx/2) + sin(21πx/2), d_f = 30, n = 12
    x = np.linspace(-1, 1, 400)
    data = draw(task)
    np.testing.assert_allclose(data.test_targets, 1 + np.cos(3 * np.pi * x) + np.sin(10.5 * np.pi * x), atol=1e-12)
    features = [
        1 + 0 * x,
        *(np.cos(np.pi * k * x / 2) for k in range(1, 31)),
        *(np.sin(np.pi * k * x / 2) for k in range(1, 31)),
    ]
    np.testing.assert_allclose(task.features(x), np.transpose(features), atol=1e-13)
    assert data.inputs.shape == (12, 61)
    drawn = np.arcsin(data.inputs[:, 31]) / (np.pi / 2)  # sin(πx/2) is one to one on [−1, 1]
    np.testing.assert_allclose(data.targets, 1 + np.cos(3 * np.pi * drawn) + np.sin(10.5 * np.pi * drawn), atol=1e-6)


@pytest.mark.parametrize("units", [1, 4])
def test_relu_regression_has_a_piecewise_linear_teacher(units):
    data = draw(ReLURegression(n=30, teacher_units=units, n_test=40_001))
    x, y = data.test_inputs[:, 0], data.test_targets
    bends = np.abs(np.diff(y, 2)) > 1e-9  # a kink bends at one grid point, or two neighbouring ones
    places = x[1:-1][bends]
    clusters = 1 + np.sum(np.diff(places) > 2e-4)
    assert clusters == units
    assert np.all(np.abs(places) <= 1.5)
    assert np.all(np.abs(data.inputs) <= 2)
    # The training labels come from the same function: interpolation errs at kinks, by a grid step of 1e-4.
    np.testing.assert_allclose(data.targets, np.interp(data.inputs[:, 0], x, y), atol=1e-3)


def test_circle_points_lie_on_the_circle():
    data = draw(CirclePoints(n=10, n_test=36_000))
    for points in (data.inputs, data.test_inputs):
        np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, rtol=1e-14)
    angle = np.arctan2(data.inputs[:, 1], data.inputs[:, 0]) % (2 * np.pi)
    grid = np.linspace(0, 2 * np.pi, 36_000, endpoint=False)
    np.testing.assert_allclose(np.exp(1j * grid), data.test_inputs @ [1, 1j], atol=1e-12)
    found = np.interp(angle, grid, data.test_targets, period=2 * np.pi)
    np.testing.assert_allclose(data.targets, found, atol=2e-3)  # a grid step of 2e-4 times slopes below 10


class Nudged:
    """A generator whose draws of one shape are moved by a constant, and everything else is the same."""

    def __init__(self, shape, by):
        self.rng, self.shape, self.by = np.random.default_rng(3), shape, by

    def standard_normal(self, shape):
        drawn = self.rng.standard_normal(shape)
        return drawn + self.by if shape == self.shape else drawn


def test_teacher_slopes_are_the_teachers_derivative():
    task = TeacherStudent(d=5, hidden=9, outputs=3, n=7, n_test=11)
    data = task.draw(np.random.default_rng(3))
    assert (data.inputs.shape, data.targets.shape, data.slopes.shape) == ((7, 5), (7, 3), (7, 3, 5))
    for k, direction in enumerate(np.eye(5)):
        up, down = (task.draw(Nudged((7, 5), sign * 1e-6 * direction)).targets for sign in (1, -1))
        np.testing.assert_allclose(data.slopes[:, :, k], (up - down) / 2e-6, atol=1e-8)
    # B* ReLU(A*x) is homogeneous in x, so by Euler its slope times x is itself.
    np.testing.assert_allclose(np.einsum("ncd,nd->nc", data.slopes, data.inputs), data.targets, rtol=1e-12)


# Seeds, sizes.

TASKS = [
    SparseRegression(8, 6, 2, noise_variance=0.1),
    SparseRecovery(8, 2, 6, snr=10.0),
    SparseClassification(8, 6, 3),
    SparseClassification(8, 6, 2, "gaussian", loss_name="exponential"),
    MarginClassification(8, 6, 1.0),
    MatrixCompletion(4, 5, 2, observed=0.6),
    MatrixCompletion(5, 5, 1, truth="multiplication_table", observed=9, reduction="mean"),
    MatrixSensing(4, 5, 2, N=8, truth="orthogonal", reduction="half_sum"),
    ModularArithmetic(p=5),
    ReLURegression(n=8),
    FourierRegression(n=8, frequencies=7, cosines=(2,), sines=(3,)),
    TeacherStudent(d=6, hidden=4, outputs=2, n=8),
    CirclePoints(n=8),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_the_same_seed_draws_the_same_data(task):
    first, again, other = draw(task, 1), draw(task, 1), draw(task, 2)
    leaves = jax.tree.leaves(first)
    assert all(np.array_equal(a, b) for a, b in zip(leaves, jax.tree.leaves(again), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(leaves, jax.tree.leaves(other), strict=True))


def test_points_are_given_and_held_against_the_linear_spline():
    task = Interpolation(x=(-1.0, 0.0, 3.0), y=(2.0, 0.0, 6.0), n_test=9)  # slopes −2 and 2
    data = draw(task)
    np.testing.assert_array_equal(data.inputs[:, 0], task.x)
    np.testing.assert_array_equal(data.targets, task.y)
    np.testing.assert_allclose(data.test_targets, 2 * np.abs(data.test_inputs[:, 0]))
    assert task.loss(jnp.zeros(3), data.targets, 3) == 2.0**2 + 6.0**2
    for x, y, said in (
        ((0.0,), (1.0,), "two or more"),
        ((1.0, 0.0), (0.0, 1.0), "left to right"),
        ((0.0, 1.0), (0.0,), "1 values"),
    ):
        with pytest.raises(SpecError, match=said):
            Interpolation(x, y)


# Loss, scores and test metrics against the papers' formulas.


def rows(task, data):
    """Inputs of a linear map as vectors."""
    if isinstance(data.inputs, Entries):
        return np.eye(data.inputs.mask.size)[data.inputs.mask.ravel() == 1]
    return data.inputs.reshape(len(data.inputs), -1)


def paper_loss(task, residuals, margins):
    if isinstance(task, SparseClassification | MarginClassification):
        losses = np.exp(-margins) if task.loss_name == "exponential" else np.log(1 + np.exp(-margins))
        return np.sum(losses) / len(losses)
    factor = {
        "SparseRegression": 1.0,  # ‖Xβ − y‖², Woodworth et al. §4
        "SparseRecovery": 0.5,  # ½‖Xa − y‖², Notsawo et al. §3.1
        "MatrixCompletion": {"mean": 1 / 9, "sum": 1.0}.get(getattr(task, "reduction", "")),  # Lyu (5), Boursier (8)
        "MatrixSensing": 0.5,  # Notsawo et al. §3.2
        "FourierRegression": 1 / 16,  # 1/2n, Boursier et al. App. D.2
        "ReLURegression": 1 / 16,
        "TeacherStudent": 1 / 16,  # 1/2N, Notsawo et al. §4
        "CirclePoints": 1.0,
    }[type(task).__name__]
    return factor * np.sum(residuals**2)


LINEAR = [
    task for task in TASKS if not isinstance(task, ModularArithmetic | ReLURegression | TeacherStudent | CirclePoints)
]


@pytest.mark.parametrize("task", LINEAR, ids=lambda task: type(task).__name__)
def test_losses_and_metrics_of_linear_predictors(task):
    data = draw(task)
    rng = np.random.default_rng(5)
    weights = data.truth + 0.3 * rng.standard_normal(data.truth.shape)
    metrics = metrics_of(task, Linear(), {"weights": weights}, data)
    outputs = rows(task, data) @ weights.ravel()
    targets = data.targets[data.inputs.mask == 1] if isinstance(data.inputs, Entries) else data.targets
    np.testing.assert_allclose(
        metrics["train_loss"], paper_loss(task, outputs - targets, outputs * targets), rtol=1e-12
    )
    if isinstance(task, SparseClassification | MarginClassification):
        assert float(metrics["train_accuracy"]) == np.mean(outputs * targets > 0)
        risk = np.mean((data.test_inputs @ weights) * data.test_targets <= 0)
        if isinstance(task, MarginClassification):  # the population's, of which the 1000 test inputs are a sample
            assert abs(1 - metrics["test_accuracy"] - risk) <= SIGMAS * np.sqrt(risk * (1 - risk) / 1000)
            assert 0 < risk < 0.5
        else:
            np.testing.assert_allclose(metrics["test_accuracy"], 1 - risk)
    else:
        error = np.linalg.norm(outputs - targets) / np.linalg.norm(targets)
        np.testing.assert_allclose(metrics["train_error"], error, rtol=1e-12)
        distance = np.linalg.norm(weights - data.truth) / np.linalg.norm(data.truth)
        np.testing.assert_allclose(metrics["test_error"], distance, rtol=1e-12)


@pytest.mark.parametrize(
    "task", [ReLURegression(n=8), TeacherStudent(d=6, hidden=4, outputs=2, n=8), CirclePoints(n=8)], ids=repr
)
def test_losses_and_metrics_of_networks(task):
    data, model = as_jax(draw(task)), MLP((5,))
    params = as_jax(random_like(model.parameters(task.signature), np.random.default_rng(0)))
    metrics = metrics_of(task, model, params, data)
    residuals = np.asarray(model(params, data.inputs) - data.targets)
    np.testing.assert_allclose(metrics["train_loss"], paper_loss(task, residuals, None), rtol=1e-12)
    unseen = np.asarray(model(params, data.test_inputs) - data.test_targets)
    error = np.sqrt(np.sum(unseen**2) / np.sum(np.asarray(data.test_targets) ** 2))
    np.testing.assert_allclose(metrics["test_error"], error, rtol=1e-12)
    assert "population_risk" not in metrics


def test_loss_and_accuracy_of_modular_arithmetic():
    task = ModularArithmetic(p=5, precision="double")
    data, model = as_jax(draw(task)), MLP((6,), "hidden")
    params = as_jax(random_like(model.parameters(task.signature), np.random.default_rng(0)))
    metrics = metrics_of(task, model, params, data)
    logits, y = np.asarray(model(params, data.inputs)), np.asarray(data.targets)
    chosen = np.exp(logits[range(len(y)), y]) / np.sum(np.exp(logits), axis=1)
    np.testing.assert_allclose(metrics["train_loss"], np.mean(-np.log(chosen)), rtol=1e-11)
    hits = [np.argmax(row) == answer for row, answer in zip(logits, y, strict=True)]
    np.testing.assert_allclose(metrics["train_accuracy"], np.mean(hits))


def test_an_output_of_zero_is_half_right():
    task = SparseClassification(4, 5)
    assert float(task.score(jnp.asarray([0.0, 2.0, -1.0, 0.0]), jnp.asarray([1.0, 1.0, 1.0, -1.0]))) == 0.5


def test_matrix_completion_tests_on_the_hidden_entries():
    task = MatrixCompletion(4, 5, 2, observed=8, reduction="mean")
    data, model = draw(task), MatrixFactorisation(2)
    params = random_like(model.parameters(task.signature), np.random.default_rng(9))
    W, hidden = params["U"] @ params["V"].T, data.inputs.mask == 0
    metrics = metrics_of(task, model, params, data)
    np.testing.assert_allclose(metrics["test_loss"], np.mean((W - data.truth)[hidden] ** 2), rtol=1e-12)


# Population risks against Monte Carlo, with fresh inputs drawn here from their definition.


def risk_of(task, weights, data):
    return float(_risk(task)(jnp.asarray(weights), as_jax(data)))


@functools.cache
def _risk(task):
    return jax.jit(lambda weights, data: task.population_risk(weights, data))


@pytest.mark.parametrize("design", ["gaussian", "sign"])
def test_risk_of_sparse_regression(design):
    task, rng = SparseRegression(3, 6, 2, design=design, noise_variance=0.5), np.random.default_rng(0)
    data, weights = draw(task), rng.standard_normal(6)
    X = rng.standard_normal((SAMPLES, 6)) if design == "gaussian" else rng.choice([-1.0, 1.0], (SAMPLES, 6))
    y = X @ data.truth + np.sqrt(0.5) * rng.standard_normal(SAMPLES)
    assert matches_mean(risk_of(task, weights, data), (X @ weights - y) ** 2)


def test_risk_of_sparse_recovery():
    task, rng = SparseRecovery(6, 2, 4, scale=1.0, snr=2.0), np.random.default_rng(0)
    data, weights = draw(task), rng.standard_normal(6)
    X = rng.standard_normal((SAMPLES, 6)) / np.sqrt(6)
    y = X @ data.truth + np.sqrt(data.noise_variance) * rng.standard_normal(SAMPLES)
    assert matches_mean(risk_of(task, weights, data), (X @ weights - y) ** 2)


def test_risk_of_gaussian_classification():
    task, rng = SparseClassification(3, 6, 2, "gaussian"), np.random.default_rng(0)
    data, weights = draw(task), rng.standard_normal(6)
    X = rng.standard_normal((SAMPLES, 6))
    assert matches_mean(risk_of(task, weights, data), (X @ weights) * (X @ data.truth) < 0)
    assert risk_of(task, data.truth, data) == pytest.approx(0, abs=1e-7)  # arccos near 1 has half the digits
    assert risk_of(task, -data.truth, data) == pytest.approx(1, abs=1e-7)
    assert risk_of(task, 0 * data.truth, data) == 0.5


@pytest.mark.parametrize("seed", range(4))
def test_risk_of_sign_classification_is_exact_on_the_support(seed):
    task, rng = SparseClassification(3, 8, 5), np.random.default_rng(seed)
    data = draw(task, seed)
    weights = np.where(data.truth != 0, rng.integers(-3, 4, 8), 0.0)  # whole numbers: ties happen, half right
    margins = [
        np.dot(weights, x) * np.dot(data.truth, x) for x in itertools.product((-1, 1), repeat=8)
    ]  # all 2⁸ inputs
    expected = np.mean([0.5 if m == 0 else float(m < 0) for m in margins])
    assert risk_of(task, weights, data) == pytest.approx(expected, abs=1e-12)
    assert risk_of(task, data.truth, data) == 0.0


def test_risk_of_sign_classification_off_the_support():
    # The 297 small terms are taken as Gaussian. Their excess kurtosis is about −2·3/297, which moves
    # probabilities by less than 2e-3 (Edgeworth).
    task, rng = SparseClassification(3, 300, 3), np.random.default_rng(1)
    data = draw(task)
    weights = data.truth + 0.15 * rng.standard_normal(300)
    X = rng.choice(np.array([-1, 1], dtype=np.int8), (SAMPLES // 2, 300)).astype(np.float32)
    wrong = (X @ weights.astype(np.float32)) * (X @ data.truth.astype(np.float32)) < 0
    assert 0.05 < np.mean(wrong) < 0.45
    assert matches_mean(risk_of(task, weights, data), wrong, allowance=2e-3)


@pytest.mark.parametrize(("margin", "along"), [(0.0, 0.4), (1.0, 0.4), (6.0, 0.2), (1.0, -0.3)])
def test_risk_of_margin_classification(margin, along):
    task, rng = MarginClassification(3, 6, margin), np.random.default_rng(0)
    data = draw(task)
    across = np.linalg.svd(data.truth[None])[2][1]  # a unit vector orthogonal to w*
    weights = 3 * (along * data.truth + across)
    Z = rng.standard_normal((SAMPLES, 6))
    label = np.sign(Z @ data.truth)
    X = Z + margin / 2 * label[:, None] * data.truth
    assert matches_mean(risk_of(task, weights, data), (X @ weights) * label < 0)


def test_risk_of_margin_classification_at_its_ends():
    task = MarginClassification(3, 6, 2.0)
    data = draw(task)
    assert risk_of(task, 2 * data.truth, data) == pytest.approx(0, abs=1e-12)
    assert risk_of(task, -data.truth, data) == pytest.approx(1, abs=1e-9)
    assert risk_of(task, 0 * data.truth, data) == 0.5


def test_risk_of_fourier_regression():
    task, rng = FourierRegression(), np.random.default_rng(0)
    data, weights = draw(task), rng.standard_normal(61) / 10
    x = rng.uniform(-1, 1, SAMPLES)
    k = np.arange(1, 31)
    angles = np.pi / 2 * x[:, None] * k
    f = weights[0] + np.cos(angles) @ weights[1:31] + np.sin(angles) @ weights[31:]
    teacher = 1 + np.cos(3 * np.pi * x) + np.sin(10.5 * np.pi * x)
    assert matches_mean(risk_of(task, weights, data), (f - teacher) ** 2)


def test_risk_of_matrix_tasks():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((4, 5))
    completion, sensing = MatrixCompletion(4, 5, 2), MatrixSensing(4, 5, 2)
    data = draw(completion)
    i, j = rng.integers(0, 4, SAMPLES), rng.integers(0, 5, SAMPLES)
    assert matches_mean(risk_of(completion, W, data), (W[i, j] - data.truth[i, j]) ** 2)
    data = draw(sensing)
    X = rng.standard_normal((SAMPLES, 20)) / np.sqrt(20)
    assert matches_mean(risk_of(sensing, W, data), (X @ (W - data.truth).ravel()) ** 2)
    assert MatrixSensing(4, 4, 2, symmetric=True).population_risk(jnp.zeros((4, 4)), data) is None


# Data that exist already.


def test_arrays_are_taken_as_they_are():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5, 3)), rng.standard_normal((5, 2))
    task = Arrays(X, y, 2 * X, 2 * y, fit=0.5)
    data = draw(task)
    np.testing.assert_array_equal(data.inputs, X)
    np.testing.assert_array_equal(data.test_targets, 2 * y)
    assert (task.signature.inputs, task.signature.outputs, data.n) == ((3,), (2,), 5)
    assert (task.criteria.train.value, task.criteria.test.value) == (0.5, 0.1)
    assert Arrays(X, [0, 1, 3, 0, 1], X, [0] * 5, loss_name="cross_entropy").signature.outputs == (4,)


class Reader:
    """Something that NumPy can read, as tensors of PyTorch are; `trouble` is what reading it raises."""

    def __init__(self, array, trouble=None):
        self.array, self.trouble = array, trouble

    def __array__(self, dtype=None, copy=None):
        if self.trouble:
            raise self.trouble
        return np.asarray(self.array, dtype)


def as_pandas(X, y):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(X, columns=list("abc")), pandas.Series(y)


def as_mixed_table(X, y):
    """Columns of whole, floating and truth values: NumPy sees objects."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": X[:, 0].astype(int), "b": X[:, 1], "c": X[:, 2] > 1})
    assert table.to_numpy().dtype == object
    return table, y


@pytest.mark.parametrize(
    "given",
    [
        lambda X, y: (X.astype(np.uint8), y.astype(np.uint8)),
        lambda X, y: (X.astype(np.int64), y.astype(np.int16)),
        lambda X, y: (X.astype(np.float16), y.astype(np.longdouble)),
        lambda X, y: (X.tolist(), y.tolist()),
        lambda X, y: (jnp.asarray(X), jnp.asarray(y, jnp.bfloat16)),
        lambda X, y: (np.ma.array(X), np.ma.array(y, mask=False)),
        lambda X, y: (Reader(X.astype(np.float32)), Reader(y)),
        lambda X, y: (pytest.importorskip("xarray").DataArray(X, dims=("row", "column")), y),
        as_pandas,
        as_mixed_table,
    ],
)
def test_arrays_are_what_numpy_can_read(given):
    X = np.array([[1.0, 200.0, 0.0], [255.0, 3.0, 2.0], [7.0, 90.0, 0.0]])
    y = np.array([1.0, 0.0, 2.0])
    expected = np.stack([X[:, 0], X[:, 1], X[:, 2] > 1], axis=1) if given is as_mixed_table else X
    task = Arrays(*given(X, y), *given(X, y))
    data = draw(task)
    for inputs, targets in ((data.inputs, data.targets), (data.test_inputs, data.test_targets)):
        assert (inputs.dtype.kind, targets.dtype.kind) == ("f", "f")
        np.testing.assert_array_equal(inputs, expected)
        np.testing.assert_array_equal(targets, y)
    assert draw(Arrays(*given(X, y), *given(X, y), loss_name="cross_entropy")).targets.dtype.kind == "i"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda X: scipy.sparse.csr_matrix(X), r"X is a sparse matrix: write it out, as X.toarray\(\)"),
        (lambda X: jax.experimental.sparse.BCOO.fromdense(X), "X is a sparse matrix"),
        (lambda X: np.ma.masked_greater(X, 100), "masked"),
        (lambda X: [np.ma.masked_greater(row, 100) for row in X], "masked"),
        (lambda X: X.astype(object) * 1j, "X must be real numbers, got objects such as "),
        (lambda X: [["a", None], [1, 2]], "X must be real numbers, got objects such as 'a'"),
        (lambda X: X.astype(str), "X must be real numbers, got words"),
        (lambda X: X + 1j, "X must be real numbers, got complex numbers"),
        (lambda X: X.astype("datetime64[s]"), "X must be real numbers, got dates"),
        (lambda X: np.ones(3, dtype=[("a", float), ("b", float)]), "X must be real numbers, got"),
        (lambda X: np.where(X > 100, np.nan, X), "X has entries that are not finite"),
        (lambda X: np.where(X > 100, np.inf, X).tolist(), "X has entries that are not finite"),
        (lambda X: [[1.0], [1.0, 2.0]], "X cannot be made an array of numbers"),
        (
            lambda X: Reader(X, RuntimeError("Can't call numpy() on Tensor that requires grad.")),
            "X cannot.*requires grad",
        ),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(given, message):
    X, y = np.array([[1.0, 200.0], [30.0, 4.0]]), np.ones(2)
    with pytest.raises(SpecError, match=message):
        Arrays(given(X), y, X, y)


def test_bytes_do_not_go_round_at_256():
    # The same numbers as bytes and as floats, through a model that squares its inputs: the same run, bit for bit.
    rng = np.random.default_rng(0)
    X, labels = rng.integers(0, 256, (12, 3), dtype=np.uint8), np.ones(12, np.uint8)
    model = Function(lambda p, x: 1e-5 * jnp.sum(p["w"] * x**2), {"w": np.array([1.0, -1.0, 0.5])})
    for loss_name in ("squared", "logistic"):
        given = ((X, labels), (X.astype(float), labels.astype(float)))
        as_bytes, as_floats = (
            af.train(task=Arrays(x, y, x, y, loss_name=loss_name), model=model, dynamics=GradientDescent(1e-3, 20))
            for x, y in given
        )
        np.testing.assert_array_equal(as_bytes.curves.train_loss, as_floats.curves.train_loss)
        outputs = 1e-5 * (X.astype(float) ** 2 @ [1.0, -1.0, 0.5])
        by_hand = np.mean((outputs - 1) ** 2 if loss_name == "squared" else np.log1p(np.exp(-outputs)))
        np.testing.assert_allclose(as_bytes.curves.train_loss[0], by_hand, rtol=1e-12)


class Own(Task):
    """A task of a user's: a draw by whatever `made` makes of arrays that are right."""

    made: Any = dict
    classes: int | None = None

    @property
    def signature(self):
        return Signature((3,), () if self.classes is None else (self.classes,))

    @property
    def loss(self):
        return Squared("mean") if self.classes is None else CrossEntropy("mean")

    @property
    def criteria(self):
        return Criteria.errors(0.1, 0.1) if self.classes is None else Criteria.accuracies()

    def draw(self, rng):
        X = np.arange(12).reshape(4, 3)
        y = X[:, 0] // 3 % 3
        given = {"inputs": X, "targets": y, "test_inputs": X[:2], "test_targets": y[:2], "n": 4, "n_test": 2}
        return Data(**(given | self.made(**given)))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda **g: {"targets": g["targets"][:, None]}, r"targets have shape \(4, 1\), but 4 examples need \(4,\)"),
        (lambda **g: {"test_targets": g["test_targets"][:, None]}, r"test_targets have shape \(2, 1\).*need \(2,\)"),
        (lambda **g: {"n": 3}, r"inputs have shape \(4, 3\), but its n and signature say \(3, 3\)"),
        (lambda **g: {"n_test": 4}, r"test_inputs have shape \(2, 3\), but its n_test and signature say \(4, 3\)"),
        (lambda **g: {"n": 4.0}, "n must be a whole number, 1 or more, got 4.0"),
        (lambda **g: {"test_inputs": g["inputs"][:2, :2]}, r"test_inputs have shape \(2, 2\)"),
        (lambda **g: {"test_inputs": np.where(g["inputs"][:2] > 3, np.nan, 1.0)}, "test_inputs has entries"),
        (lambda **g: {"inputs": np.ma.masked_greater(g["inputs"], 5)}, "inputs is a masked array"),
        (lambda **g: {"targets": 0 * g["targets"]}, "the targets are all 0, and errors are relative to their size"),
        (lambda **g: {"test_targets": 0 * g["test_targets"]}, "the test targets are all 0"),
    ],
)
def test_what_a_task_of_ones_own_draws_is_checked(made, message):
    experiment = Experiment(Own(made), Linear(), GradientDescent(1e-3, 10), init=Gaussian())
    with pytest.raises(SpecError, match=message):
        run_experiment(experiment)


def test_a_task_of_ones_own_may_draw_whole_numbers():
    data = Experiment(Own(), Linear(), GradientDescent(1e-3, 10)).draw()
    assert {leaf.dtype.kind for leaf in jax.tree.leaves((data.inputs, data.targets, data.test_targets))} == {"f"}
    classes = Experiment(Own(classes=3), MLP((4,)), GradientDescent(1e-3, 10)).draw()
    assert (classes.inputs.dtype.kind, classes.targets.dtype.kind) == ("f", "i")
    with pytest.raises(SpecError, match="class numbers below 2, as the task's signature says, got 2"):
        Experiment(Own(classes=2), MLP((4,)), GradientDescent(1e-3, 10)).draw()


X, Y = np.ones((4, 3)), np.array([1.0, -1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: SparseRegression(0, 6, 2), "n must be positive, got 0"),
        (lambda: SparseRegression(8, -6, 2), "d must be positive, got -6"),
        (lambda: SparseRegression(8, 6, 7), "between 1 and 6, got 7"),
        (lambda: SparseRegression(8, 6, 0), "between 1 and 6, got 0"),
        (lambda: SparseRegression(8, 6, 2, noise_variance=-0.5), "noise_variance.*-0.5"),
        (lambda: SparseRegression(8, 6, 2, "gausian"), "'gausian'.*'gaussian'"),
        (lambda: SparseRegression(8, 6, 2, entries="equall"), "'equall'.*'equal'"),
        (lambda: SparseRegression(8, 6, 2, reduction="summ"), "'summ'.*'sum'"),
        (lambda: SparseRegression(8, 6, 2, precision="doubel"), "'doubel'.*'double'"),
        (lambda: SparseRecovery(8, 2, 0), "N must be positive, got 0"),
        (lambda: SparseRecovery(8, 2, 4, coherence=1.5), "between 0 and 1, got 1.5"),
        (lambda: SparseRecovery(8, 2, 4, snr=0.0), "snr must be positive, got 0"),
        (lambda: SparseClassification(8, 6, 2), "odd.*got 2"),
        (lambda: SparseClassification(8, 6, 3, loss_name="hinge"), "'hinge'.*exponential, logistic"),
        (lambda: SparseClassification(8, 6, 3, n_test=0), "n_test must be positive, got 0"),
        (lambda: MarginClassification(8, 6, -1.0), "margin.*got -1"),
        (lambda: MatrixCompletion(4, 5, 5), "4 x 5 matrix is between 1 and 4, got 5"),
        (lambda: MatrixCompletion(4, 5, 2, observed=21), "1 and 20 entries of 4 x 5.*got 21"),
        (lambda: MatrixCompletion(4, 5, 2, observed=0.01), "got 0.01"),
        (lambda: MatrixCompletion(4, 5, 2, symmetric=True), "square, got 4 x 5"),
        (lambda: MatrixCompletion(4, 4, 2, truth="multiplication_table"), "rank 1, got rank=2"),
        (lambda: MatrixSensing(4, 5, 2, measurements="diagonal"), "square matrix, got 4 x 5"),
        (lambda: ModularArithmetic(p=1), "2 or more, got 1"),
        (lambda: ModularArithmetic(p=5, fraction=1.0), "p²=25.*got 1"),
        (lambda: ModularArithmetic(p=5, operation="/"), "'/'"),
        (lambda: FourierRegression(frequencies=5, cosines=(6,), sines=()), r"between 1 and 5.*\(6,\)"),
        (lambda: ReLURegression(teacher_units=0), "teacher_units must be positive, got 0"),
        (lambda: TeacherStudent(hidden=0), "hidden must be positive, got 0"),
        (lambda: CirclePoints(n_test=0), "n_test must be positive, got 0"),
        (lambda: Arrays(X, Y[:3], X, Y), r"same number of rows.*y \(3,\)"),
        (lambda: Arrays(X[:, 0], Y, X, Y), r"one row per example.*X \(4,\)"),
        (lambda: Arrays(X, Y, X[:, :2], Y), r"same shape.*X_test \(4, 2\)"),
        (lambda: Arrays(X * np.nan, Y, X, Y), "X has entries that are not finite"),
        (lambda: Arrays(X, 2 * Y, X, Y, loss_name="logistic"), "labels -1 and 1, got"),
        (lambda: Arrays(X, Y, X, Y, loss_name="cross_entropy"), "class numbers"),
        (lambda: Arrays(X, Y, X, Y, loss_name="square"), "'square'.*'squared'"),
        (lambda: Arrays(X, Y, X, Y, fit=-1), "fit must be 0 or more, got -1"),
        (lambda: Arrays(X, Y, X, Y, loss_name="logistic", fit=99), "fit must be between 0 and 1.* got 99"),
        (lambda: Arrays(X, Y, X, Y, loss_name="logistic", generalise=95), "generalise must be between 0 and 1"),
        (lambda: Arrays(X, Y, X, Y, reduction="avg"), "'avg'"),
        (lambda: Arrays(X, Y, X, Y, loss_name="logistic", fit=99), "accuracies are fractions here: fit.*0.99, got 99"),
        (lambda: Arrays(X, Y, X, Y, loss_name="logistic", generalise=-0.1), "generalise.*got -0.1"),
        (lambda: Arrays(X, Y, X, Y, fit=-1), "no error is below 0: fit.*got -1"),
    ],
)
def test_bad_sizes_and_words_are_refused_by_value(attempt, message):
    with pytest.raises(SpecError, match=message):
        attempt()


def test_one_hot_is_what_modular_arithmetic_shows():
    inputs = draw(ModularArithmetic(p=3, fraction=0.5)).inputs
    assert isinstance(inputs, OneHot)
    np.testing.assert_array_equal(
        as_jax(inputs).dense(),
        [[float(a == k) for k in range(3)] + [float(b == k) for k in range(3)] for a, b in inputs.tokens],
    )
