"""notsawo2025/fig1 and fig2: their net, start and times, computed a second way."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import xarray as xr

import afterfit as af
from afterfit.models import EmbeddingMLP
from afterfit.models._inputs import Signature
from afterfit.papers.notsawo2025.addition import (
    SEEDS,
    SETTING,
    Cell,
    adam,
    adam_of_the_text,
    earlier_with,
    times,
)
from afterfit.papers.notsawo2025.fig1 import _course, _falls, _general, _is_late, _late, _shorter, _turns_twice
from afterfit.papers.notsawo2025.fig2 import _alone, _exchanged, _law, _made_up


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


def test_times_are_where_accuracy_passes_its_level():
    run = seen([0, 0.5, 1, 0.98, 1], [0, 0, 0.1, 0.95, 0.2])
    assert times(run) == pytest.approx((10 + 10 * 0.98, 20 + 10 * 0.8 / 0.85))
    assert times(run).delay == pytest.approx(times(run).general - times(run).fit)
    assert times(seen([0, 1], [0, 0.89])) == (pytest.approx(9.9), np.inf)
    assert times(seen([1, 1, 1], [0, 0.5, 1])) == (0, 18)


def test_pairs_in_order():
    never = np.inf
    right = [(knob, block, t) for block in "ab" for knob, t in ((1.0, never), (2.0, 50.0), (3.0, 20.0))]
    found = earlier_with(right)
    assert "6 of 6 pairs" in found.measured
    assert not found.holds  # 1 of 36 orders
    assert earlier_with(right + [(knob, "c", t) for knob, block, t in right if block == "a"]).holds  # 1 of 216
    assert not earlier_with([(-knob, block, t) for knob, block, t in right]).holds
    assert not earlier_with([(1.0, "a", never), (2.0, "a", never)]).holds


def test_how_often_times_are_in_order_by_chance():
    import itertools

    blocks = [[5.0, 4.0, 1.0, 2.0], [9.0, 3.0, np.inf]]

    def less_than_not(order):
        return sum(np.sign(min(x, 1e9) - min(y, 1e9)) for times in order for x, y in itertools.combinations(times, 2))

    every = [less_than_not(order) for order in itertools.product(*map(itertools.permutations, blocks))]
    exact = np.mean(np.array(every) >= less_than_not(blocks))
    found = earlier_with((knob, k, t) for k, block in enumerate(blocks) for knob, t in enumerate(block))
    assert float(found.measured.split("P = ")[1]) == pytest.approx(exact, rel=0.15)


def test_the_net_of_the_text_cannot_tell_a_pair_from_its_mirror_image():
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 5, (20, 2))
    notebook = EmbeddingMLP(4, 3, product="matrix", shared=False, biases="none")
    for net, same in ((EmbeddingMLP(4, 3), True), (notebook, False)):
        shapes = net.parameters(Signature((2,), (5,), tokens=5))
        params = {name: rng.standard_normal(each.shape).astype(np.float32) for name, each in shapes.items()}
        assert np.allclose(net(params, pairs), net(params, pairs[:, ::-1]), atol=1e-5) == same


def test_the_net_of_the_text_starts_from_a_normal_with_one_table():
    experiment = adam_of_the_text(SETTING["paper"], Cell("l1", 1e-2, 1e-5, 0), 10)
    params = experiment.model.initialise(experiment.init, experiment.task.signature, np.random.default_rng(0))
    assert {name: array.shape for name, array in params.items()} == {
        "E": (97, 64),
        "W1": (64, 64),
        "W2": (97, 64),
        "b1": (64,),
        "b2": (97,),
    }
    for name, n1 in (("E", 97), ("W1", 64), ("W2", 97)):
        np.testing.assert_allclose(params[name].std(), 1 / np.sqrt(n1), rtol=0.03)


def test_a_delay_that_is_three_times_shorter():
    def shorter(own, than, time="delay"):
        text, notebook = (
            {Cell(norm, 0, 1, seed): run for seed in range(3)} for norm, run in (("text", own), ("l1", than))
        )
        return _shorter(text, notebook, time).holds

    fits = [0, *[1] * 40]
    slow, quick, never = (seen(fits, [0] * (41 - known) + [1] * known) for known in (10, 30, 0))
    assert shorter(quick, slow)
    assert not shorter(quick, slow, "fit")
    assert not shorter(slow, quick)
    assert shorter(quick, never)  # which lasts 390 steps at least
    assert not shorter(slow, never)
    assert not shorter(never, slow)


def test_the_course_of_a_norm():
    run = seen([1] * 8, [0, 0, 0.05, 0.5, 0.95, 1, 1, 1], [1, 4, 8, 6, 5, 3, 4, 6])
    assert _course(run) == (1, 8, 5, 3, 6, (20, 40, 50), 1)
    assert _turns_twice([run]).holds
    after = seen([1] * 8, [0, 0, 0.95, 1, 1, 1, 1, 1], [1, 4, 8, 6, 5, 3, 4, 6])
    assert not _turns_twice([run, after]).holds  # it falls when all is over


def test_what_falls_across_the_transition():
    late = seen([0] + [1] * 29, [0] * 20 + [0.3] * 5 + [0.95] * 5, [1, 4, *range(40, 12, -1)])
    assert _is_late(late)
    assert (_late(late), _general(late)) == (10, 25)  # t₁ is 9.9, at the second observation
    assert _falls([(late, 10, 25)]).holds
    assert not _falls([(late, 0, 1)]).holds
    assert not _falls([]).holds
    assert not _is_late(seen([0, 1, 1], [0, 1, 1]))


def test_powers_of_a_law():
    law = {Cell("nuc", α, β, s): 3 * s * α**-0.5 / β for α in (1, 2, 4) for β in (1, 3) for s in SEEDS}
    found = _law(law | {Cell("nuc", 8, 1, SEEDS[0]): np.inf})
    assert found["α"].value == pytest.approx(-0.5)
    assert found["β"].value == pytest.approx(-1)
    assert _alone(law, 2) == "at α = 2e+00 alone q = -1 in [-1, -1]"
    assert "too few" in _alone(law, 8)
    assert {c: t * c.α * c.β for c, t in _made_up(law).items()} == pytest.approx(dict.fromkeys(law, 1.0), rel=0.2)
    assert sorted(_exchanged(law).values()) == pytest.approx(sorted(law.values()))


def test_frobenius_is_not_weight_decay():
    W = {"W": np.array([[3.0, 0.0], [0.0, 4.0]], np.float32)}
    assert float(af.penalties.Frobenius(1.0).value(W)) == 5.0
    assert float(af.penalties.L2(1.0).value(W)) == 12.5
