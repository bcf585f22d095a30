"""Theory beyond the sizes whose kernel is factorised: matrix-free, on a part of the examples, or with the reason."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import afterfit as af
from afterfit import theory
from afterfit._base.allowance import TimeIsUp, within
from afterfit._base.kernels import gram_of_examples
from afterfit._training.experiment import Experiment
from afterfit.dynamics import _tangent as tangent
from afterfit.theory import _features, _instance, _kernel, _matrix_free, _stationarity
from afterfit.theory._features import Features
from afterfit.theory._kernel import Margins, kernel_predictor, last_layer_predictor, margin_features
from afterfit.theory._matrix_free import conjugate_gradients, least_eigenvalue, least_squares
from afterfit.theory._programs import max_margin, non_negative, pivoted
from afterfit.theory._theorems import notsawo2025
from afterfit.theory._theorems.boursier2025 import TwoTimeScales
from afterfit.theory._theorems.lyu2023 import Classification, Regression

pytestmark = pytest.mark.usefixtures("x64")


def clusters(loss: str = "cross_entropy", n: int = 60, hidden: int = 60, **more) -> Experiment:
    """Gaussian clusters of 4 classes, as digits are but smaller."""
    rng = np.random.default_rng(0)
    centres, y = 2 * rng.standard_normal((4, 12)), rng.integers(0, 4, 2 * n)
    X = centres[y] + rng.standard_normal((2 * n, 12))
    task = af.tasks.Arrays(X[:n], y[:n], X[n:], y[n:], loss_name=loss, metric_name="accuracy")
    return Experiment(
        task=task,
        model=af.models.MLP((hidden,)),
        init=af.inits.He(),
        penalty=af.penalties.L2(1e-2),
        dynamics=af.dynamics.GradientDescent(lr=0.01, steps=200),
        observations=20,
        **more,
    )


@pytest.fixture
def few(monkeypatch):
    """Every size is a real one."""
    for module in (_features, _instance, _stationarity, _kernel):
        monkeypatch.setattr(module, "MOST", 100) if hasattr(module, "MOST") else None
    monkeypatch.setattr(_kernel, "_FEW", 50)
    monkeypatch.setattr(_stationarity, "_FEW", 50)
    monkeypatch.setattr(_stationarity, "MOST", 300)  # there it bounds the working set, too
    monkeypatch.setattr(_kernel, "MOST", 300)
    monkeypatch.setattr(_kernel, "_SAMPLE", 80)
    monkeypatch.setattr(_matrix_free, "_ADDED", 20)


def explained(run, monkeypatch):
    """The page without the one constant that takes minutes, whatever the size."""

    def left_out(*arguments):
        raise TimeIsUp("left out")

    monkeypatch.setattr(notsawo2025, "chatterjee_lojasiewicz", left_out)
    return theory.explain(run, thorough=True)


def outputs_of(found, instance):
    return np.asarray(found.model(found.params, instance.problem.data.test_inputs))


def test_products_and_parts_of_the_kernel_are_those_of_the_kernel():
    instance = theory.posed(clusters("squared"))
    of, K, rng = instance.features, instance.kernel, np.random.default_rng(1)
    r, m = rng.standard_normal(len(K)), len(K)
    np.testing.assert_allclose(of.product(r), K @ r, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(of.push_forward(of.pull_back(r)), K @ r, rtol=1e-10, atol=1e-10)
    examples, weights = rng.integers(0, 60, 30), rng.standard_normal((30, 4))
    W = np.zeros((30, 60, 4))
    W[np.arange(30), examples] = weights
    W = W.reshape(30, m)
    np.testing.assert_allclose(of.gram(examples, weights), W @ K @ W.T, rtol=1e-9, atol=1e-9)
    values = np.linalg.eigvalsh(K)
    assert of.largest == pytest.approx(values[-1], rel=1e-3)
    # From above, and of the right order: its iterations stop long before rounding.
    assert values[0] * (1 - 1e-9) <= of.least <= 1.5 * values[0]
    mean = gram_of_examples(instance.model, instance.initial, instance.problem.data.inputs[:, None], mean=True)
    np.testing.assert_allclose(mean, np.einsum("icjc->ij", K.reshape(60, 4, 60, 4)) / 4, rtol=1e-9, atol=1e-9)


def test_a_model_that_mixes_examples_has_the_same_parts_of_its_kernel():
    instance = theory.posed(clusters("squared", n=12))

    class MayMix(type(instance.model)):
        """The same function, of which nothing is said."""

        def __call__(self, params, inputs):
            return super().__call__(params, inputs)

    settings = {field.name: getattr(instance.model, field.name) for field in dataclasses.fields(instance.model)}
    problem = dataclasses.replace(instance.problem, model=MayMix(**settings))
    assert not problem.model.separate
    examples, weights = np.array([3, 3, 7]), np.random.default_rng(0).standard_normal((3, 4))
    whole = Features(instance.problem, instance.initial).gram(examples, weights)
    np.testing.assert_allclose(Features(problem, instance.initial).gram(examples, weights), whole, rtol=1e-9)


def test_conjugate_gradients_find_what_factorisations_do():
    rng = np.random.default_rng(0)
    J = rng.standard_normal((30, 50)) * np.geomspace(1, 30, 30)[:, None]
    b, K = rng.standard_normal(30), J @ J.T
    inverse = np.linalg.inv(np.diag(np.diag(K)))
    found = conjugate_gradients(lambda v: K @ v, b, lambda r: inverse @ r, 1e-10)
    np.testing.assert_allclose(found.x, np.linalg.solve(K, b), rtol=1e-7, atol=1e-9)
    # More equations than unknowns, that have no solution.
    tall, c = J.T, rng.standard_normal(50)
    found = least_squares(lambda h: tall @ h, lambda r: r @ tall, c, 1e-10)
    np.testing.assert_allclose(found.x, np.linalg.lstsq(tall, c, rcond=None)[0], rtol=1e-6, atol=1e-8)
    values = np.linalg.eigvalsh(K)
    assert least_eigenvalue(lambda v: K @ v, 30, lambda r: inverse @ r) == pytest.approx(values[0], rel=1e-6)


def test_pivoting_is_non_negative_least_squares():
    rng = np.random.default_rng(0)
    for _ in range(20):
        A, b = rng.standard_normal((40, 25)), rng.standard_normal(40)
        start = rng.standard_normal(25)
        nu = pivoted(A.T @ A, A.T @ b, start)
        np.testing.assert_allclose(nu, non_negative(A, b, 1000), atol=1e-9)
    assert pivoted(np.ones((3, 3)), np.ones(3), np.ones(3)) is None  # dependent


@pytest.mark.parametrize("predictor", [kernel_predictor, last_layer_predictor])
@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_real_sizes_have_the_answers_of_small_ones(few, monkeypatch, loss, predictor):
    experiment = clusters(loss)
    large = theory.posed(experiment)
    found = predictor(large)
    monkeypatch.undo()
    small = theory.posed(experiment)
    exact = predictor(small)
    assert not exact.how
    ours, theirs = outputs_of(found, large), outputs_of(exact, small)
    if loss == "squared":
        assert large.problem.data.n * 4 > 100, "beyond the limit"
        assert "conjugate gradients" in found.how or "least squares" in found.how
        # Outputs are met to 1e-3 on the training examples; elsewhere that is multiplied by what the kernel makes of it.
        np.testing.assert_allclose(ours, theirs, atol=2e-2 * np.abs(theirs).max())
        assert found.norm == pytest.approx(exact.norm, rel=1e-2)
    else:
        assert not found.how, "exact: few of the margins are tight, and the others are looked at"
        assert found.margin == pytest.approx(exact.margin, rel=1e-5)
        size = np.linalg.norm
        np.testing.assert_allclose(ours / size(ours), theirs / size(theirs), atol=1e-4)


def test_the_working_set_breaks_no_margin(few):
    instance = theory.posed(clusters())
    found = kernel_predictor(instance)
    at = margin_features(instance.problem, instance.initial)
    h = np.concatenate([np.ravel(leaf) for leaf in _leaves(found.params, instance.initial)])
    margins = Margins(instance.problem, instance.features).push(h)
    assert margins.min() / np.linalg.norm(h) == pytest.approx(found.margin, rel=1e-5)
    assert found.margin == pytest.approx(1 / np.sqrt((nu := max_margin(K := np.asarray(tangent.gram(at)))) @ K @ nu))


def _leaves(params, start):
    import jax

    return jax.tree.leaves(jax.tree.map(jnp.subtract, params, start))


@pytest.mark.parametrize("loss", ["squared", "cross_entropy"])
def test_the_page_on_a_run_of_real_size_has_an_answer_everywhere(few, monkeypatch, loss):
    run = af.run_experiment(clusters(loss))
    page = explained(run, monkeypatch)
    residual = theory.kkt(theory.instance_of(run).problem, theory.instance_of(run).end)
    monkeypatch.undo()
    exact = explained(run, monkeypatch)
    problem = theory.instance_of(run).problem
    assert residual.residual == pytest.approx(theory.kkt(problem, theory.instance_of(run).end).residual, abs=5e-3)
    for told, before in zip(page.clocks, exact.clocks, strict=True):
        assert told.prediction == pytest.approx(before.prediction, rel=2e-2)
    for limit, before in zip(page.limits, exact.limits, strict=True):
        assert limit.distance == pytest.approx(before.distance, abs=2e-2)
    reading = page.readings[Regression if loss == "squared" else Classification]
    assert "not to be told" not in str(reading)
    if loss == "squared":
        assert "conjugate gradients" in str(page)
        assert "gap at most" in str(page.readings[TwoTimeScales])
        assert page.readings[Regression].checks[3].holds is not True, "a bound from above proves no independence"


def test_without_time_for_all_examples_a_part_of_them_is_taken_and_stated(few, monkeypatch):
    instance = theory.posed(clusters("squared"))
    calls = []

    def slow(*arguments, **more):
        calls.append(1)
        raise TimeIsUp("too slow")

    monkeypatch.setattr(_kernel, "conjugate_gradients", slow)
    found = kernel_predictor(instance)
    assert calls
    assert found.how.startswith("on 20 of the 60 examples, drawn with seed 0")
    assert "thorough=True" in found.how
    kept = np.sort(np.random.default_rng(0).permutation(60)[:20])
    np.testing.assert_allclose(  # it interpolates those
        np.asarray(found.model(found.params, instance.problem.data.inputs[kept])), instance.targets[kept], atol=1e-6
    )
    way, how = _kernel.way_to_targets(instance)
    K, y = instance.kernel.reshape(60, 4, 60, 4)[kept][:, :, kept].reshape(80, 80), instance.targets[kept].ravel()
    assert way == pytest.approx(np.sqrt(y @ np.linalg.solve(K, y)), rel=1e-6)
    assert how == found.how


def test_nothing_is_begun_for_which_there_is_no_time(few):
    with within(0.0), pytest.raises(TimeIsUp):
        kernel_predictor(theory.posed(clusters("squared")))


def test_more_outputs_than_parameters_cannot_be_independent(few, monkeypatch):
    run = af.run_experiment(clusters("squared", hidden=8))
    page = explained(run, monkeypatch)
    checks = {check.name: check for reading in page.readings for check in reading.checks}
    independent = checks["Assumption 3.8: independent tangent features"]
    assert independent.holds is False
    assert independent.number == "240 outputs of 128 parameters"
    assert checks["Assumption 2 at the end: full rank, Morse–Bott gap"].holds is False
    assert "240 outputs have 128 parameters" in page.limits[theory.KernelInterpolation].how
