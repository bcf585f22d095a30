"""Runs that go on from the end of another, on one clock; and runs that stop by themselves."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import optax
import pytest
from conftest import flat
from small_problems import X, task

import afterfit as af
from afterfit import SpecError
from afterfit._training.train import train
from afterfit.dynamics import (
    SGD,
    AdamW,
    GradientDescent,
    GradientFlow,
    LabelNoiseSGD,
    LossScaledDescent,
    Optax,
    RiemannianFlow,
)
from afterfit.inits import EndOf, Gaussian, Own
from afterfit.models import MLP, DiagonalNet, Difference, Function, Linear, Tangent
from afterfit.penalties import L2

HALVING = {"kind": "exponential_decay", "init_value": 1.0, "transition_steps": 50, "decay_rate": 0.5}
# Of which the first remembers nothing, and the second a random key.
CHAIN = optax.chain(optax.clip(10.0), optax.add_noise(0.1, 0.5, jax.random.key(3)), optax.adam(1e-2))


def trained(dynamics, start=None, **others):
    init = None if start is not None else Gaussian(0.5)
    given = {"task": task(), "model": DiagonalNet(), "penalty": L2(0.1), "observations": 12, "init": init}
    return train(**given | others, dynamics=dynamics, start=start)


@pytest.mark.parametrize(
    "dynamics",
    [
        GradientDescent(1e-2, 60, momentum=0.9),
        SGD(1e-2, 60, batch=3, schedule=HALVING),
        AdamW(1e-2, 60, batch=3),
        LabelNoiseSGD(1e-2, 60, noise=0.3),
        Optax(CHAIN, steps=60, batch=2),
    ],
    ids=["momentum", "schedule", "AdamW", "label noise", "Optax"],
)
def test_a_run_in_two_parts_is_the_whole_run_bit_for_bit(dynamics, tmp_path):
    """Momentum, moments, the order of an epoch, the place in a schedule and every random number go on."""
    whole = trained(dynamics.replace(steps=100))
    part = trained(dynamics)
    for start in (part, af.load(part.save(tmp_path / "part"))):
        rest = trained(dynamics.replace(steps=40), start)
        np.testing.assert_array_equal(flat(rest.params), flat(whole.params))
        assert rest.curves["step"].values[-1] == 100
        assert rest.curves["time"].values[-1] == pytest.approx(whole.curves["time"].values[-1], rel=1e-14)
        jax.tree.map(np.testing.assert_array_equal, rest.memory, whole.memory)


class Layers(NamedTuple):
    b: Any
    a: Any


class Net(eqx.Module):
    b: Any
    a: Any
    layers: tuple = ()

    def __call__(self, x):
        return self.b @ jax.numpy.tanh(self.a @ x)


def by_name(params, x):
    return params.b @ jax.numpy.tanh(params.a @ x)


def by_place(params, x):
    return params[10] @ jax.numpy.tanh(params[2] @ x)


def called(params, x):
    return params(x) + sum(layer.bias[0] for layer in params.layers if layer is not None)


A, B = X[:2] / 3, np.array([0.3, -0.2])
LAYERS = (eqx.filter(eqx.nn.Linear(1, 1, key=jax.random.key(0)), eqx.is_array), None) * 2
TREES = {
    "named tuple": (by_name, Layers(B, A)),
    "module": (called, Net(B, A, LAYERS)),
    "whole numbers": (by_place, {10: B, 2: A}),
    "tuple": (by_place, tuple(np.zeros(1) if k not in (2, 10) else (A if k == 2 else B) for k in range(11))),
}


@pytest.mark.parametrize("tree", TREES)
def test_parameters_of_any_tree_go_on_from_files(tree, tmp_path):
    """A file has lists and tables only, and tables in another order."""
    function, initial = TREES[tree]
    given = {"model": Function(function, initial), "penalty": None}
    whole = trained(GradientDescent(1e-2, 10), init=Own(), **given)
    part = trained(GradientDescent(1e-2, 6), init=Own(), **given)
    assert whole.id
    loaded = af.load(part.save(tmp_path / "part"))
    rest = trained(GradientDescent(1e-2, 4), loaded, **given)
    np.testing.assert_array_equal(flat(rest.params), flat(whole.params))
    anew = trained(GradientDescent(1e-2, 4), init=af.inits.From(loaded.params), **given)
    np.testing.assert_array_equal(flat(anew.params), flat(whole.params))


def test_the_name_tells_the_classes_that_parameters_are_of():
    class Other(Net):
        def __call__(self, x):
            return self.b @ jax.numpy.sin(self.a @ x)

    models = [Function(called, kind(B, A, LAYERS)) for kind in (Net, Net, Other)]
    ids = [af.Experiment(task=task(), model=model, dynamics=GradientDescent(1e-2, 4)).id for model in models]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize("model", [Tangent(MLP((4,))), Difference(MLP((4,))), Tangent(Difference(MLP((4,))))])
def test_a_wrapped_model_in_parts_is_the_whole_run_bit_for_bit(model, tmp_path):
    """It is linearised where the first part began, and the two copies of a difference go each from where it was."""
    given = {"model": model, "init": af.inits.He()}
    descent = GradientDescent(1e-2, 60)
    whole, first = trained(descent.replace(steps=100), **given), trained(descent, **given)
    for start in (first, af.load(first.save(tmp_path / "first"))):
        second = trained(descent.replace(steps=20), start, model=model, init=None)
        third = trained(descent.replace(steps=20), second, model=model, init=None)
        np.testing.assert_array_equal(flat(third.params), flat(whole.params))
        assert float(third.curves.train_loss[-1]) == float(whole.curves.train_loss[-1])
    if model.has_anchor:
        with pytest.raises(SpecError, match=r"linearised where its run began.*EndOf"):
            trained(descent, af.load(second.save(tmp_path / "second")), model=model, init=None)


def test_the_curves_are_those_of_both_on_one_clock():
    part = trained(GradientDescent(1e-2, 60))
    rest = trained(GradientDescent(2e-2, 40), part, penalty=L2(0.5), observe={"rank": af.quantities.EffectiveRank()})
    n = part.curves.sizes["time"]
    for name in ("train_loss", "norm_l2", "time", "step", "weights"):
        np.testing.assert_array_equal(rest.curves[name].values[:n], part.curves[name].values)
    assert np.all(np.diff(rest.curves["time"].values) > 0)
    assert np.all(np.diff(rest.curves["step"].values) > 0)
    # 60 steps of 0.01 and 40 of 0.02, and 61 of them at the first observation after the change.
    assert rest.curves["time"].values[[n, -1]] == pytest.approx([0.62, 1.4])
    assert rest.curves["step"].values[[n, -1]].tolist() == [61, 100]
    assert np.isnan(rest.curves["rank"].values[:n]).all()
    assert np.isfinite(rest.curves["rank"].values[n:]).all()
    assert rest.verdict.evidence, "the verdict is on all of it"


def test_a_flow_goes_on_where_it_would_have_been():
    whole = trained(GradientFlow(5.0, rtol=1e-9))
    rest = trained(GradientFlow(3.0, rtol=1e-9), trained(GradientFlow(2.0, rtol=1e-9)))
    np.testing.assert_allclose(flat(rest.params), flat(whole.params), rtol=1e-6)  # of three tolerances of steps
    assert rest.curves["time"].values[-1] == pytest.approx(5.0)
    assert np.all(np.diff(rest.curves["time"].values) > 0)


def test_steps_go_on_from_a_flow_and_a_flow_from_steps():
    """Descent at a small step and the flow are the same curve, whichever of them comes first."""
    whole = trained(GradientFlow(2.0, rtol=1e-9))
    descent, flow = GradientDescent(1e-5, 100_000), GradientFlow(1.0, rtol=1e-9)
    for first, second in ((descent, flow), (flow, descent)):
        both = trained(second, trained(first))
        np.testing.assert_allclose(flat(both.params), flat(whole.params), rtol=1e-4)  # ten steps of descent
        assert both.curves["time"].values[-1] == pytest.approx(2.0)
        assert both.checkpoints.steps == []


def test_times_beyond_floating_point_numbers_go_on_in_logarithms():
    losses = {"task": task("exponential"), "model": Linear(), "penalty": None}
    part = trained(LossScaledDescent(10.0, 2000), **losses)
    assert part.curves["log10_time"].values[-1] > 308
    rest = trained(LossScaledDescent(10.0, 1000), part, **losses)
    whole = trained(LossScaledDescent(10.0, 3000), **losses)
    assert rest.curves["log10_time"].values[-1] == pytest.approx(whole.curves["log10_time"].values[-1], rel=1e-12)


def test_checkpoints_of_the_second_part_are_on_the_continued_clock():
    part = trained(GradientDescent(1e-2, 60))
    rest = trained(GradientDescent(1e-2, 40), part, checkpoints=[0.7, 1.0])
    assert (rest.checkpoints.steps, rest.checkpoints.times) == ([70, 100], pytest.approx([0.7, 1.0]))
    with pytest.raises(SpecError, match=r"begins at t=0\.6"):
        trained(GradientDescent(1e-2, 40), part, checkpoints=[0.5])


COSINE = {"kind": "cosine_decay_schedule", "init_value": 1.0, "decay_steps": 100}
ONES = {"kind": "constant_schedule", "value": 1.0}


def test_an_optimiser_goes_on_with_its_own_memory_only(tmp_path):
    """The velocity of one has the shapes of the second moments of another."""
    velocity = trained(Optax(optax.sgd(1e-2, 0.9), steps=30))
    stored = af.load(velocity.save(tmp_path / "velocity"))
    for start in (velocity, stored):
        scaled = trained(Optax(optax.rmsprop(1e-3), steps=30), start)
        fresh = trained(Optax({"kind": "rmsprop", "learning_rate": 1e-3}, steps=30), init=af.inits.From(start.params))
        np.testing.assert_array_equal(flat(scaled.params), flat(fresh.params))
        assert "does not fit this one" in scaled.message
    # With other numbers it is the same, given as a table or not.
    table = {"kind": "sgd", "learning_rate": 1e-3, "momentum": 0.9}
    slower = [trained(Optax(rate, steps=1), stored) for rate in (optax.sgd(1e-3, 0.9), table)]
    fresh = trained(Optax(table, steps=1), init=af.inits.From(stored.params))
    np.testing.assert_array_equal(flat(slower[0].params), flat(slower[1].params))
    assert np.abs(flat(slower[0].params) - flat(fresh.params)).max() > 1e-4
    assert not slower[0].message


@pytest.mark.parametrize("more", [{"schedule": ONES}, {"batch": 4}, {"batch": 4, "schedule": ONES}])
def test_moments_go_on_when_batches_or_a_schedule_come_or_go(more):
    part = trained(AdamW(1e-2, 30))
    same, other = (trained(AdamW(1e-2, 10, **settings), part) for settings in ({}, more))
    np.testing.assert_allclose(flat(other.params), flat(same.params), rtol=1e-12)  # a batch of all, factors of one
    back = trained(AdamW(1e-2, 10), other)
    np.testing.assert_allclose(flat(back.params), flat(trained(AdamW(1e-2, 10), same).params), rtol=1e-12)


def test_the_place_in_an_epoch_is_that_of_batches_of_one_size():
    part = trained(SGD(1e-2, 3, batch=1))
    assert [int(trained(SGD(1e-2, 1, batch=size), part).memory[0]) for size in (1, 2)] == [0, 1]


def test_a_schedule_goes_on_where_it_was():
    part, whole = (trained(SGD(1e-2, steps, batch=3, schedule=COSINE)) for steps in (60, 100))
    begun, ended = (float(run.curves.time[-1]) for run in (part, whole))
    times = [begun + share * (ended - begun) for share in (0.3, 0.9)]
    rest = trained(SGD(1e-2, 40, batch=3, schedule=COSINE), part, checkpoints=times)
    once = trained(SGD(1e-2, 100, batch=3, schedule=COSINE), checkpoints=times)
    assert rest.checkpoints.steps == once.checkpoints.steps
    assert rest.checkpoints.times == pytest.approx(times, abs=1e-2)
    with pytest.raises(SpecError, match=r"positive at the first step.*got 0.0.*goes on at step 100: give a longer one"):
        trained(SGD(1e-2, 40, batch=3, schedule=COSINE), whole)


def test_a_memory_that_only_jax_has_a_type_for_goes_on_from_files(tmp_path):
    halves = Optax(optax.adam(1e-2, mu_dtype=jax.numpy.bfloat16), steps=10)
    part, whole = trained(halves), trained(halves.replace(steps=20))
    for start in (part, af.load(part.save(tmp_path / "part"))):
        rest = trained(halves, start)
        np.testing.assert_array_equal(flat(rest.params), flat(whole.params))


def test_what_was_done_is_told_of_the_part_that_took_the_time():
    rest = trained(GradientDescent(1e-2, 40), trained(GradientDescent(1e-2, 60)))
    assert (rest.work, int(rest.curves.step[-1])) == ({"steps": 40}, 100)


def test_an_interrupted_run_is_gone_on_with():
    part = dataclasses.replace(trained(GradientDescent(1e-2, 60)), status="interrupted")
    whole = trained(GradientDescent(1e-2, 100))
    np.testing.assert_array_equal(flat(trained(GradientDescent(1e-2, 40), part).params), flat(whole.params))


def test_a_sweep_branches_off_from_one_run(tmp_path):
    sparse = af.tasks.SparseRecovery(n=7, sparsity=2, N=4)
    part = trained(AdamW(1e-2, 30), task=sparse)
    experiment = af.Experiment(
        task=sparse, model=DiagonalNet(), penalty=L2(0.1), dynamics=AdamW(1e-2, 30), init=EndOf(part), observations=12
    )
    af.sweep(experiment, over={"penalty.strength": [0.1, 0.2]}, store=tmp_path / "store").run()
    store = af.Store(tmp_path / "store")
    branches = {run.spec["penalty"]["strength"]: run for run in map(store.load, store.ids())}
    whole = trained(AdamW(1e-2, 60), task=sparse)
    np.testing.assert_allclose(flat(branches[0.1].params), flat(whole.params), rtol=1e-9)  # another program
    assert np.abs(flat(branches[0.2].params) - flat(whole.params)).max() > 1e-6
    assert branches[0.1].spec["init"]["run"] == part.id


def test_the_name_tells_what_it_goes_on_from():
    part, other = trained(AdamW(1e-2, 30)), trained(AdamW(1e-2, 31))
    assert part.memory
    ids = [trained(AdamW(1e-2, 5), start).id for start in (part, part, other)]
    assert ids[0] == ids[1] != ids[2]
    fresh = dataclasses.replace(part, memory=[])
    assert trained(AdamW(1e-2, 5), fresh).id != ids[0], "what the optimiser remembers is part of it"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 1}, "the seed of this one is 0, not 1"),
        ({"task": task("logistic")}, "its own task"),
        ({"model": DiagonalNet(3)}, "the model of this one is DiagonalNet"),
        ({"dynamics": RiemannianFlow(1.0)}, "the run's clock is the sum of step sizes"),
        ({"init": Gaussian()}, "give one of them"),
        ({"start": {"weights": X}}, "EndOf takes a run"),
    ],
)
def test_what_is_no_continuation_is_refused(changed, said):
    part = trained(GradientDescent(1e-2, 5))
    with pytest.raises(SpecError, match=said):
        trained(**{"dynamics": GradientDescent(1e-2, 5), "start": part} | changed)


def test_another_lambda_is_another_model():
    """Plain data say the same of both: that they have no name."""
    one, other = (Function(f, {"w": X[0]}) for f in (lambda p, x: p["w"] @ x, lambda p, x: 2 * p["w"] @ x))
    part = trained(GradientDescent(1e-2, 5), model=one, init=Own())
    assert trained(GradientDescent(1e-2, 5), part, model=one).status == "finished"
    with pytest.raises(SpecError, match=r"goes on with its own model.*a lambda has no name.*it was trained with"):
        trained(GradientDescent(1e-2, 5), part, model=other)


def first(params, data):
    return jax.tree.leaves(params)[0].ravel()[0]


def first_two(params, data):
    return jax.tree.leaves(params)[0].ravel()[:2]


def test_a_curve_goes_on_in_its_shape():
    for before, now in ((first_two, first), (first, first_two)):
        part = trained(GradientDescent(1e-2, 5), observe={"seen": before})
        with pytest.raises(SpecError, match=r"observed 'seen' with the shape .* under another name"):
            trained(GradientDescent(1e-2, 5), part, observe={"seen": now})
    both = trained(GradientDescent(1e-2, 5), part, observe={"seen_too": first_two})
    assert np.isnan(both.curves["seen_too"].values[0]).all()


def test_a_diverged_run_is_not_gone_on_with_and_theory_does_not_speak_of_two_penalties():
    with pytest.raises(SpecError, match="diverged leaves nothing to go on from"):
        trained(GradientDescent(1e-2, 5), trained(GradientDescent(1e3, 50)))
    both = trained(GradientDescent(1e-2, 5), trained(GradientDescent(1e-2, 5)), penalty=L2(0.5))
    with pytest.raises(SpecError, match="goes on from another"):
        af.theory.limits(both)


# ------------------------------------------------------------------------------------------ stopping by itself


def test_steps_stop_where_the_flow_does():
    linear = {"model": Linear(), "penalty": L2(0.5), "observations": 100}
    steps = trained(GradientDescent(1e-2, 10**6, until="settled"), **linear)
    flow = trained(GradientFlow("settled"), **linear)
    assert steps.message.startswith("settled at t=")
    assert steps.curves["time"].values[-1] < 100  # of 10⁴: ten times 1/β, and some more
    np.testing.assert_allclose(flat(steps.params), flat(flow.params), rtol=1e-4)
    # Where it rests is where the gradient is 0: ridge regression.
    A = X.T @ X + 0.5 * np.eye(7)
    targets = np.asarray(task().y)
    np.testing.assert_allclose(flat(steps.params), np.linalg.solve(A, X.T @ targets), rtol=1e-4)


def test_decoupled_weight_decay_counts_as_a_penalty_does():
    linear = {"model": Linear(), "penalty": None, "observations": 100}
    rests = trained(Optax(optax.sgd(1e-2), lr=1.0, steps=20_000, until="settled"), **linear)
    assert rests.curves["train_loss"].values[-1] < 1e-6 * rests.curves["train_loss"].values[0], "nothing decays here"
    decays = trained(AdamW(1e-2, 10**5, eps=1.0, weight_decay=2.0, until="settled"), **linear)  # eps: no rattling
    assert decays.message.startswith("settled"), "although its loss stays where it is"
    assert 10 / 2.0 <= decays.curves["time"].values[-1] < 500  # of 1000
    assert trained(GradientDescent(1e-2, 50, until="settled"), **linear).message.startswith("not settled")


@pytest.mark.parametrize("dynamics", [GradientDescent(1e-2, 10**6, until="certain"), GradientFlow("certain")])
def test_a_run_stops_once_its_verdict_is_certain(dynamics):
    rng = np.random.default_rng(0)
    inputs, tests, w = rng.standard_normal((20, 7)), rng.standard_normal((20, 7)), rng.standard_normal(7)
    easy = af.tasks.Arrays(inputs, inputs @ w, tests, tests @ w)
    run = trained(dynamics, task=easy, model=Linear(), penalty=L2(1e-4), observations=100)
    assert run.message.startswith("certain at t=")
    assert run.verdict.kind == "generalised with the fit"
    last, good = run.curves["time"].values[-1], max(run.verdict.t_fit, run.verdict.t_gen)
    assert 10 * good <= last < 15 * good  # at the first observation after ten times as long
    # What has been so for ten times as long when a run goes on is certain at its first observation.
    rest = trained(dynamics, run, task=easy, model=Linear(), penalty=L2(1e-4), observations=100)
    assert rest.curves.sizes["time"] == run.curves.sizes["time"] + 1
    whole = trained(GradientFlow(1e6), task=easy, model=Linear(), penalty=L2(1e-4))
    assert whole.verdict.kind == run.verdict.kind


def test_what_is_lost_again_is_not_certain():
    """A weak penalty lets a run generalise and lose it later: it goes on until it is at rest."""
    rng = np.random.default_rng(0)
    inputs, w = rng.standard_normal((20, 7)), rng.standard_normal(7)
    poor = af.tasks.Arrays(inputs, inputs @ w, inputs, inputs @ (w + 5))
    run = trained(GradientFlow("certain"), task=poor, model=Linear(), penalty=L2(1e-2))
    assert run.message.startswith("settled at t=")
    assert run.verdict.kind == "never generalised"


def test_an_unknown_way_to_stop_is_refused():
    with pytest.raises(SpecError, match=r"unknown until 'setled'.*settled"):
        GradientDescent(1e-2, 5, until="setled")
    with pytest.raises(SpecError, match='"settled" or "certain"'):
        GradientFlow("soon")
    assert "until" not in GradientDescent(1e-2, 5).to_dict(), "so that runs from before keep their names"
