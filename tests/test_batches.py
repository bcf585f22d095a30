"""Runs that go together: the same as alone, and the same bits whichever of them are asked for."""

import jax
import numpy as np
import pytest

from afterfit import Experiment
from afterfit._training.train import run_experiment, run_together
from afterfit.dynamics import Adam, GradientDescent, GradientFlow, LabelNoiseSGD, ProximalGradient
from afterfit.inits import He, ScaledGaussian
from afterfit.models import MLP, DiagonalNet, Linear, MatrixFactorisation
from afterfit.penalties import L1, L2, NoPenalty, Nuclear
from afterfit.tasks import MatrixCompletion, ModularArithmetic, SparseRecovery

RECOVERY = SparseRecovery(n=12, sparsity=2, N=7)
NET = DiagonalNet(depth=2)
KINDS = {
    "descent": (RECOVERY, Linear(), L1(1e-2), GradientDescent(0.1, 400)),
    "adam": (RECOVERY, NET, L2(1e-2), Adam(1e-2, 400)),
    "label noise": (RECOVERY, NET, NoPenalty(), LabelNoiseSGD(1e-3, 400)),
    "singular values": (
        MatrixCompletion(rows=5, columns=5, rank=1, observed=15),
        Linear(),
        Nuclear(1e-2),
        ProximalGradient(0.1, 200),
    ),
    "net": (ModularArithmetic(p=5), MLP(hidden=(8,)), L2(1e-3), GradientDescent(0.1, 200)),
    "flow": (RECOVERY, NET, L2(1e-2), GradientFlow(100.0)),
}


def experiment(kind="descent", **changes):
    task, model, penalty, dynamics = KINDS[kind]
    init = He() if kind == "net" else ScaledGaussian(0.3)
    return Experiment(task, model, dynamics, penalty, init, observations=20).set(changes)


def leaves(run):
    return [*(run.curves[name].values for name in run.curves.variables), *jax.tree.leaves(run.params)]


def assert_same_bits(run, other):
    for mine, its in zip(leaves(run), leaves(other), strict=True):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize("kind", KINDS)
def test_lanes_are_what_they_are_alone(kind):
    # Up to rounding: another width is another program. Flows choose their steps by errors of 1e-6, and where a
    # rounding error tips a step over, the results differ by as much.
    experiments = [
        experiment(kind, **{"seed": seed, "penalty.strength": 10.0**-k})
        if kind != "label noise"
        else experiment(kind, seed=seed)
        for k, seed in enumerate((3, 4, 5))
    ]
    tolerance = 1e-5 if kind == "flow" else 1e-9
    for lane, single in zip(run_together(experiments), map(run_experiment, experiments), strict=True):
        assert lane.spec == single.spec
        assert lane.status == single.status
        for name in single.curves.variables:
            its = single.curves[name].values
            scale = np.max(np.abs(its[np.isfinite(its)]))
            np.testing.assert_allclose(lane.curves[name].values, its, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["descent", "adam", "net"])
def test_bits_do_not_depend_on_which_runs_are_wanted(kind, shared):
    experiments = [experiment(kind, **{"seed": 1 if shared else k, "penalty.strength": 10.0**-k}) for k in range(1, 6)]
    all_of_them = run_together(experiments, shared=shared)
    for wanted in ([0], [3, 1], [4]):
        for run, place in zip(run_together(experiments, wanted=wanted, shared=shared), sorted(wanted), strict=True):
            assert_same_bits(run, all_of_them[place])


def test_each_run_ends_by_itself():
    longer, diverging = experiment(**{"dynamics.steps": 1200}), experiment(**{"dynamics.lr": 50.0})
    experiments = [longer, experiment(), diverging]
    order = []
    runs = run_together(experiments, ended=lambda run, place: order.append((place, run.status)))
    assert order == [(2, "diverged"), (1, "finished"), (0, "finished")]
    assert [run.work["steps"] for run in runs[:2]] == [1200, 400]
    assert runs[2].work["steps"] < 400
    assert "dynamics.lr" in runs[2].message
    # What waits or has diverged does not disturb those that go on.
    assert_same_bits(runs[0], run_together(experiments, wanted=[0])[0])


def test_a_settled_flow_waits_for_the_others():
    settling = experiment("flow").set({"dynamics": {"kind": "GradientFlow", "until": "settled", "rtol": 1e-6}})
    experiments = [settling.set({"penalty.strength": strength}) for strength in (1.0, 1e-2)]
    quick, slow = run_together(experiments)
    assert "settled" in quick.message
    assert "settled" in slow.message
    assert quick.curves.time[-1] < slow.curves.time[-1]


def test_runs_of_different_shapes_are_sorted_out():
    experiments = [experiment(), experiment(**{"task.n": 15}), experiment("net"), experiment(seed=7)]
    for run, asked in zip(run_together(experiments), experiments, strict=True):
        assert run.spec == asked.to_dict()
        assert run.id == asked.id


def test_progress_goes_from_nothing_to_all(monkeypatch):
    monkeypatch.setattr("afterfit._training.batches._SECONDS_A_LOOK", 0.0)  # after every call of compiled code
    shares = []
    run_together([experiment(), experiment(**{"dynamics.steps": 900})], show=shares.append)
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.5
    assert shares[-1] == pytest.approx(1.0)


def test_matrix_models_share_their_data():
    task = MatrixCompletion(rows=5, columns=5, rank=1, observed=15)
    asked = Experiment(task, MatrixFactorisation(rank=3), GradientDescent(0.05, 300), init=ScaledGaussian(0.1))
    experiments = [asked.set({"init.scale": scale}) for scale in (0.1, 0.2, 0.4)]
    for shared, own in zip(run_together(experiments, shared=True), run_together(experiments), strict=True):
        np.testing.assert_allclose(shared.curves.test_error, own.curves.test_error, rtol=1e-9)
