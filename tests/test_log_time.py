"""Gradient flow with its time in logarithms: against gradient flow in time, small steps, and the largest margin."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import afterfit as af
from afterfit._base.errors import SpecError
from afterfit.dynamics import GradientFlow, LossScaledDescent, LossScaledFlow

RNG = np.random.default_rng(5)
X = RNG.normal(size=(8, 6))
Y = np.sign(X @ RNG.normal(size=6))  # separable
TIGHT = {"rtol": 1e-7, "method": "explicit"}


def trained(dynamics, **others) -> af.Run:
    given = {
        "task": af.tasks.Arrays(X, Y, X, Y, loss_name="logistic"),
        "model": af.models.DiagonalNet(),
        "init": af.inits.Gaussian(0.5),
    }
    return af.train(**given | others, dynamics=dynamics, seed=1)


def flat(params) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in params.values()])


@pytest.fixture(scope="module")
def scaled() -> af.Run:
    """As far as time is a number, and the parameters on the way."""
    return trained(LossScaledFlow(until=6.0, first=0.01, **TIGHT), observations=16, checkpoints=17)


def test_it_is_gradient_flow_while_time_is_a_number(scaled):
    times = scaled.checkpoints.times
    assert times[0] == 0
    np.testing.assert_allclose(np.log10(1 + times[1:]), np.geomspace(0.01, 6.0, 16), rtol=0.01)
    plain = trained(GradientFlow(until=2 * float(times[-1]), **TIGHT), checkpoints=[float(t) for t in times])
    for mine, other in zip(scaled.checkpoints, plain.checkpoints, strict=True):
        np.testing.assert_allclose(flat(mine), flat(other), rtol=1e-3, atol=1e-4)


def test_it_is_the_limit_of_loss_scaled_descent_far_beyond_underflow():
    descent = trained(LossScaledDescent(5e-4, 24_800), observations=1000).curves
    far = descent.log10_time.values[-1]
    assert far > 350, "beyond the largest number"
    flow = trained(LossScaledFlow(until=float(far), first=1.0, rtol=1e-5), observations=20)
    assert flow.status == "finished"
    assert flow.method.startswith("stabilised")
    assert flow.curves.time.values[-1] == np.inf

    found = flow.curves.isel(time=slice(2, -1))  # the last is a little beyond the end of the descent
    for name in ("norm_l2", "norm_l1", "log10_train_loss"):
        wanted = np.interp(found.log10_time, descent.log10_time[2:], descent[name][2:])
        np.testing.assert_allclose(found[name], wanted, rtol=5e-3)


def test_stabilised_steps_go_where_explicit_ones_do():
    ends = [
        flat(trained(LossScaledFlow(until=30.0, rtol=rtol, method=method), observations=3).params)
        for method, rtol in (("explicit", 1e-7), ("stabilised", 1e-5))
    ]
    np.testing.assert_allclose(ends[1], ends[0], rtol=5e-3, atol=1e-3)


def test_the_direction_goes_to_the_largest_margin():
    run = trained(LossScaledFlow(until=1e3), model=af.models.Linear(), init=af.inits.Constant(0.1), observations=10)
    w = cp.Variable(6)
    cp.Problem(cp.Minimize(cp.sum_squares(w)), [cp.multiply(Y, X @ w) >= 1]).solve(solver=cp.CLARABEL)
    direction = run.params["weights"] / np.linalg.norm(run.params["weights"])
    assert run.curves.log10_time.values[-1] >= 1000
    assert direction @ w.value / np.linalg.norm(w.value) > 1 - 1e-4


def test_a_run_out_of_steps_says_how_far_it_came():
    run = trained(LossScaledFlow(until=1e3, max_steps=60), observations=20)
    assert run.status == "step limit"
    assert "log₁₀ t=" in run.message


@pytest.mark.parametrize(
    ("dynamics", "others", "match"),
    [
        (LossScaledFlow(10.0), {"penalty": af.penalties.L2(0.1)}, "leave the penalty out"),
        (LossScaledFlow(10.0, method="dual"), {}, "one of: stabilised, explicit, not by 'dual'"),
    ],
)
def test_what_it_cannot_follow_is_refused(dynamics, others, match):
    with pytest.raises(SpecError, match=match):
        trained(dynamics, **others)


def test_it_has_no_rest_to_come_to():
    with pytest.raises(SpecError, match="until is a number"):
        LossScaledFlow("settled")
