"""Which runs go together: all of them once, of one structure, within the memory."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import afterfit as af
from afterfit import Experiment
from afterfit._base.errors import SpecError
from afterfit._sweeps.plan import Footprint, footprint, plan
from afterfit._training.batches import Batch, Lane
from afterfit._training.train import prepare
from afterfit.dynamics import Adam, Discrete, GradientDescent, GradientFlow
from afterfit.inits import He, ScaledGaussian
from afterfit.models import MLP, DiagonalNet, Linear
from afterfit.penalties import L1, L2
from afterfit.tasks import Arrays, ModularArithmetic, SparseRecovery

DESCENT = Experiment(
    SparseRecovery(n=12, sparsity=2, N=7), Linear(), GradientDescent(0.1, 400), L1(1e-2), ScaledGaussian(0.3)
)
FLOW = Experiment(
    SparseRecovery(n=12, sparsity=2, N=7), DiagonalNet(), GradientFlow(10.0), L2(1e-2), ScaledGaussian(0.3)
)
NET = Experiment(ModularArithmetic(p=7), MLP(hidden=(16,)), Adam(1e-3, 100), L2(1e-3), He())

changes = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 3),
        "penalty.strength": st.sampled_from([1e-3, 1e-2, 1e-1]),
        "dynamics.steps": st.sampled_from([100, 150, 1000, 90_000]),
        "task.n": st.sampled_from([12, 15]),
        "dynamics.kind": st.sampled_from(["GradientDescent", "ProximalGradient"]),
    }
)


def changed(change):
    kind = {"kind": change["dynamics.kind"], "lr": 0.1, "steps": change["dynamics.steps"]}
    rest = {name: value for name, value in change.items() if not name.startswith("dynamics")}
    return DESCENT.set({**rest, "dynamics": kind})


@settings(max_examples=15, deadline=None)
@given(st.lists(changes, min_size=1, max_size=40), st.sampled_from([1, 2, 7]))
def test_every_run_is_in_one_job_with_others_like_it(asked, workers):
    experiments = [changed(change) for change in asked]
    jobs = plan(experiments, memory=1e9, workers=workers)
    planned = [experiment for job in jobs for experiment in job.experiments]
    assert sorted(map(id, planned)) == sorted(map(id, experiments))
    for job in jobs:
        assert job.wanted == tuple(range(len(job.experiments)))
        assert len(job.experiments) <= math.ceil(len(experiments) / workers)
        specs = [experiment.to_dict() for experiment in job.experiments]
        assert len({(spec["task"]["n"], spec["dynamics"]["kind"]) for spec in specs}) == 1
        steps = [spec["dynamics"]["steps"] for spec in specs]
        assert max(steps) <= 2 * min(steps)
        if job.shared:
            assert len({spec["seed"] for spec in specs}) == 1
            first, *others = (experiment.draw() for experiment in job.experiments)
            for other in others:
                np.testing.assert_array_equal(other.inputs, first.inputs)
                np.testing.assert_array_equal(other.targets, first.targets)


def test_memory_is_kept_to():
    size = footprint(DESCENT).memory
    experiments = [DESCENT.set({"seed": seed}) for seed in range(30)]
    for lanes in (1, 3, 10):
        jobs = plan(experiments, memory=2 * (lanes + 0.5) * size, workers=2)
        assert max(len(job.experiments) for job in jobs) == lanes


def test_a_size_is_counted_once_for_starts_that_differ_in_their_seed_alone(monkeypatch):
    counted = []
    monkeypatch.setattr(
        "afterfit._sweeps.plan.footprint", lambda experiment: counted.append(experiment) or Footprint(1000, 10)
    )
    widths = [FLOW.set({"task.n": n}) for n in (12, 15)]
    jobs = plan([one.set({"init.seed": seed}) for seed in (None, 1, 2) for one in widths], memory=1e9, workers=1)
    assert len(counted) == len(widths)
    assert [job.bytes for job in jobs] == [1000] * 6
    assert footprint(FLOW) == footprint(FLOW.set({"init.seed": 5}))


def test_large_runs_and_few_flows_go_alone():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 1000)), rng.normal(size=3000)
    large = Arrays(X, y, X[:10], y[:10])
    experiments = [
        Experiment(large, Linear(), GradientDescent(1e-3, 10), L1(strength), ScaledGaussian(0.1), observations=2)
        for strength in (0.1, 0.2, 0.3, 0.4, 0.5)
    ]
    assert [len(job.experiments) for job in plan(experiments, memory=1e12, workers=1)] == [1] * 5
    flows = [FLOW.set({"penalty.strength": float(s)}) for s in np.geomspace(1e-3, 1, 40)]
    assert {len(job.experiments) for job in plan(flows[:10], memory=1e9, workers=1)} == {1}
    assert max(len(job.experiments) for job in plan(flows, memory=1e9, workers=1)) > 10


def test_wide_nets_go_alone():
    """Their steps are as long together: what they compute leaves a core's cache."""
    circle, descent = af.tasks.CirclePoints(), af.dynamics.Adam(0.01, 100)

    def widths(width):
        net = af.models.MLP((width, width))
        runs = [af.Experiment(circle, net, descent, init=af.inits.Gaussian(), seed=seed) for seed in range(20)]
        return {len(job.experiments) for job in plan(runs, memory=1e12, workers=1)}

    assert min(widths(20)) > 4
    assert widths(400) == {1}


def test_flows_of_models_with_kinks_go_alone():
    """Their descents do not."""
    circle, init = af.tasks.CirclePoints(), af.inits.Gaussian()
    flow, descent = af.dynamics.GradientFlow(until=1.0, method="implicit"), af.dynamics.GradientDescent(0.01, 100)

    def widths(activation, dynamics):
        net = af.models.MLP((5,), activation=activation)
        runs = [af.Experiment(circle, net, dynamics, init=init, seed=seed) for seed in range(40)]
        return {len(job.experiments) for job in plan(runs, memory=1e9, workers=1)}

    assert widths("relu", flow) == {1}
    assert min(widths("relu", descent)) > 10
    assert min(widths("tanh", flow)) > 10


@pytest.mark.parametrize("experiment", [DESCENT, FLOW, NET], ids=["descent", "flow", "net"])
def test_a_batch_takes_no_more_than_was_planned(experiment):
    # Against what XLA itself says of the compiled program: arguments, results and scratch space.
    width = 6
    with jax.enable_x64(True):
        lanes = [Lane(e, *prepare(e)) for e in (experiment.set({"seed": seed}) for seed in range(width))]
        stacked = [Batch(lanes)._stack([pick(lane) for lane in lanes]) for pick in (_traced, _problem, _params, _key)]
        goal, limit = jnp.asarray(lanes[0].targets[-1]), jnp.asarray(10)

        def move(dynamics, problem, params, key):
            return dynamics.advance(problem, dynamics.start(problem, params, key), goal, limit)

        arrays, static = eqx.partition(stacked, eqx.is_array)
        moving = jax.jit(lambda arrays: eqx.filter(eqx.filter_vmap(move)(*eqx.combine(arrays, static)), eqx.is_array))
        said = moving.lower(arrays).compile().memory_analysis()
    taken = said.argument_size_in_bytes + said.output_size_in_bytes + said.temp_size_in_bytes
    assert taken <= width * footprint(experiment).memory
    assert width * footprint(experiment).memory <= 300 * taken, "so careful that nothing would go together"


def _traced(lane):
    return lane.traced


def _problem(lane):
    return lane.problem


def _params(lane):
    return lane.params


def _key(lane):
    return lane.key


def test_a_job_for_some_of_its_runs_keeps_the_others_places():
    (job,) = plan([DESCENT.set({"penalty.strength": s}) for s in (0.1, 0.2, 0.3, 0.4)], memory=1e9, workers=1)
    assert isinstance(job.experiments[0].dynamics, Discrete)
    some = job.only([job.ids[2], job.ids[0]])
    assert some.experiments == job.experiments
    assert some.wanted == (0, 2)
    assert some.ids == [job.ids[0], job.ids[2]]


def test_the_longest_of_runs_that_are_otherwise_alike_is_looked_at():
    with pytest.raises(SpecError, match="steps take"):
        plan([DESCENT, DESCENT.set({"dynamics.steps": 10**15})], memory=1e9, workers=1)
