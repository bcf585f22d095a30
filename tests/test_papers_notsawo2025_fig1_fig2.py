"""notsawo2025/fig1 and fig2: their net, start and times, computed a second way."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import xarray as xr

import afterfit as af
from afterfit.models import EmbeddingMLP
from afterfit.models._inputs import Signature
from afterfit.papers.notsawo2025.addition import SETTING, Cell, Times, adam, earlier_with, times
from afterfit.papers.notsawo2025.fig1 import _course


@dataclasses.dataclass
class Seen:
    """A run that was made up: what was observed of it."""

    curves: xr.Dataset


def seen(train, test, norm=None):
    steps = np.arange(len(test)) * 10
    curves = {"step": steps, "train_accuracy": train, "test_accuracy": test, "norm_l2": norm or np.ones(len(test))}
    return Seen(xr.Dataset({name: ("time", np.asarray(values, float)) for name, values in curves.items()}))


def test_the_net_and_its_start_are_those_of_the_notebook():
    experiment = adam(SETTING["paper"], Cell("l2", 1e-2, 1e-5, 0))
    data, model = experiment.draw(), experiment.model
    assert len(data.targets) == 3763
    assert len(data.test_targets) == 5646
    params = model.initialise(experiment.init, experiment.task.signature, np.random.default_rng(0))
    assert {name: array.shape for name, array in params.items()} == {
        "E1": (97, 64),
        "E2": (97, 64),
        "W1": (64, 64),
        "W2": (97, 64),
    }
    for table in ("E1", "E2"):
        assert np.abs(params[table]).max() <= 1 / np.sqrt(97)
        np.testing.assert_allclose(params[table].std(), 1 / np.sqrt(3 * 97), rtol=0.03)
    np.testing.assert_allclose(params["W1"].std(), 1 / np.sqrt(64), rtol=0.03)
    np.testing.assert_allclose(params["W2"].std(), 1 / np.sqrt(97), rtol=0.03)
    x = data.inputs[:5]
    products = np.array([(params["E1"][a].reshape(8, 8) @ params["E2"][b].reshape(8, 8)).ravel() for a, b in x])
    expected = np.maximum(products @ params["W1"].T, 0) @ params["W2"].T
    single = {name: array.astype(np.float32) for name, array in params.items()}
    np.testing.assert_allclose(model(single, x), expected, atol=1e-5)  # few examples: product by product
    many = np.asarray(model(single, data.inputs))  # many: all pairs at once
    np.testing.assert_allclose(many[:5], expected, atol=1e-5)
    np.testing.assert_allclose(
        experiment.penalty.value(single), sum(np.sqrt(np.sum(W**2)) for W in params.values()), rtol=1e-5
    )


@pytest.mark.parametrize("examples", [3, 40])
@pytest.mark.parametrize("shared", [True, False])
def test_products_of_matrices_have_the_same_gradient_by_pairs_and_by_examples(examples, shared):
    import jax

    model = EmbeddingMLP(4, 3, product="matrix", shared=shared, biases="none")
    shapes = model.parameters(Signature((2,), (5,), tokens=5))
    rng = np.random.default_rng(0)
    params = {name: rng.standard_normal(parameter.shape).astype(np.float32) for name, parameter in shapes.items()}
    tokens, push = rng.integers(0, 5, (examples, 2)), rng.standard_normal((examples, 5)).astype(np.float32)
    found = jax.grad(lambda p: (push * model(p, tokens)).sum())(params)
    one_by_one = [
        jax.grad(lambda p, k=k: (push[k : k + 1] * model(p, tokens[k : k + 1])).sum())(params) for k in range(examples)
    ]
    for name in params:
        np.testing.assert_allclose(found[name], sum(each[name] for each in one_by_one), atol=2e-5)


def test_times_are_the_first_observed_steps():
    run = seen([0, 0.5, 1, 0.98, 1], [0, 0, 0.1, 0.95, 0.2])
    assert times(run) == Times(20, 30)
    assert times(run).delay == 10
    assert times(seen([0, 1], [0, 0.89])) == Times(10, np.inf)


def test_pairs_in_order():
    early, late, never = (seen([1] * 8, [0] * k + [1] * (8 - k)) for k in (2, 5, 8))
    right = [(3.0, ("a",), early), (2.0, ("a",), late), (1.0, ("a",), never), (9.0, ("b",), never)]
    finding, _ = earlier_with(right + [(x, ("c",), run) for x, _, run in right[:3]], lambda t: t.general)
    assert finding.holds
    assert "of 6 pairs" in finding.measured
    finding, _ = earlier_with([(-x, same, run) for x, same, run in right * 2], lambda t: t.general)
    assert not finding.holds
    assert not earlier_with([(1.0, (), never), (2.0, (), never)], lambda t: t.general)[0].holds


def test_the_course_of_a_norm():
    run = seen([1] * 8, [0, 0, 0.05, 0.5, 0.95, 1, 1, 1], [1, 4, 8, 6, 5, 3, 4, 6])
    assert _course(run)[:4] == (1, 8, 3, 6)


def test_frobenius_is_not_weight_decay():
    W = {"W": np.array([[3.0, 0.0], [0.0, 4.0]], np.float32)}
    assert float(af.penalties.Frobenius(1.0).value(W)) == 5.0
    assert float(af.penalties.L2(1.0).value(W)) == 12.5
