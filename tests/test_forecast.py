"""Forecasts against runs, one small case for each theory, and against what they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit._training.experiment import Experiment
from afterfit._training.run import Run
from afterfit._training.size import likely_seconds, size_of
from afterfit._training.train import run_experiment
from afterfit.theory import Curves, Q, Route, Unanswered, lasso, nuclear_penalised
from afterfit.theory import _forecast as forecasts
from afterfit.theory._forecast import Forecast, forecast
from afterfit.theory._instance import posed
from afterfit.theory._routes import diagonal, linear, manifold

RECOVERY = tasks.SparseRecovery(n=20, sparsity=2, N=13, scale=1.0)
REGRESSION = tasks.SparseRegression(n=20, d=40, sparsity=3)

DECAYED_NET = Experiment(
    task=REGRESSION,
    model=models.DiagonalNet(),
    penalty=penalties.L2(1e-2),
    dynamics=dynamics.GradientFlow(until=2000.0, first=1e-3),
    init=inits.Constant(scale=1.0),
)

# One small case a theory: name of the theory's first words, experiment.
CASES = {
    "closed form": Experiment(
        task=tasks.SparseRegression(n=59, d=60, sparsity=60),
        model=models.Linear(),
        penalty=penalties.L2(1e-2),
        dynamics=dynamics.GradientDescent(lr=2e-3, steps=500_000),
        init=inits.Gaussian(3.0),
    ),
    "least squares, then the flow of the penalty": Experiment(
        task=RECOVERY,
        model=models.Linear(),
        penalty=penalties.L1(1e-5),
        dynamics=dynamics.GradientDescent(lr=0.4, steps=250_000),
        init=inits.ScaledGaussian(1e-6),
        seed=1,
    ),
    "mirror flow of Q": DECAYED_NET,
    "loss in balance with Q": Experiment(
        task=tasks.SparseClassification(n=50, d=200),
        model=models.DiagonalNet(),
        penalty=penalties.L2(1e-2),
        dynamics=dynamics.GradientFlow(until=2000.0, first=0.01),
        init=inits.Constant(norm=32.0),
    ),
    "Riemannian flow": Experiment(
        task=tasks.SparseRegression(n=8, d=12, sparsity=1),
        model=models.DiagonalProduct(2),
        penalty=penalties.L2(1e-2),
        dynamics=dynamics.GradientDescent(lr=5e-3, steps=600_000),
        init=inits.Gaussian(1.0),
    ),
}


def both(experiment: Experiment) -> tuple[Forecast, Run]:
    return forecast(experiment, thorough=True), run_experiment(experiment, progress=False)


@pytest.mark.parametrize("theory", CASES)
def test_each_theory_foresees_the_run(theory):
    foreseen, run = both(CASES[theory])
    assert theory in foreseen.by
    assert run.verdict.kind == "grokking"
    assert foreseen.verdict is not None
    assert foreseen.verdict.kind == run.verdict.kind
    assert foreseen.t_gen is not None
    assert run.verdict.t_gen is not None
    assert 1 / 2 <= foreseen.t_gen / run.verdict.t_gen <= 2
    # Only the limiting flow is trained, and it says so.
    trains = theory == "Riemannian flow"
    assert ("no training step" not in foreseen.cost) == (foreseen.steps > 0) == trains
    assert foreseen.steps <= 20_000
    assert (f"It took {foreseen.steps} steps" in str(foreseen)) == trains
    assert f"{foreseen.seconds:.2g} s: {foreseen.cost}" in str(foreseen)


def test_closed_form_is_the_run_pointwise():
    foreseen, run = both(CASES["closed form"].set({"dynamics.steps": 20_000}))
    np.testing.assert_allclose(run.curves["time"].values[1:], foreseen.time, rtol=1e-12)
    for side in ("train", "test"):
        measured = run.curves[f"{side}_error"].values[1:]
        # Mode by mode it is exact; 20,000 steps round to 1e-16 each.
        np.testing.assert_allclose(getattr(foreseen, side), measured, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("depth", "alpha", "lr"), [(2, 1e-3, 1e-5), (3, 1e-1, 4e-5)])
def test_mirror_flow_is_the_run_pointwise(depth, alpha, lr):
    """In the rich regime, without penalty: n equations against the 2d of the net, by descent in small steps."""
    foreseen, run = both(
        Experiment(
            task=REGRESSION,
            model=models.DiagonalNet(depth),
            dynamics=dynamics.GradientDescent(lr=lr, steps=100_000),
            init=inits.Constant(scale=alpha),
        )
    )
    assert foreseen.t_gen is not None
    # Descent is off the flow by lr x curvature, here up to 1 % of the time and with it of the errors.
    np.testing.assert_allclose(foreseen.test, run.curves["test_error"].values[1:], atol=2e-2)


def test_mirror_flow_ends_at_the_least_potential():
    instance = posed(DECAYED_NET.set({"init.scale": 0.1}))
    path = diagonal._mirror_path(instance, np.geomspace(1e-3, 1e3, 300))
    expected = Q(0.1).minimise(instance.design, instance.targets)
    # The path stops at a relative error of 1e-6 in the outputs; the weights follow up to the conditioning of X.
    np.testing.assert_allclose(path[-1], expected, atol=1e-3)
    assert len(path) < 300


def test_too_large_steps_are_foreseen():
    linear = CASES["closed form"].set({"dynamics": {"kind": "GradientDescent", "lr": 0.1, "steps": 1000}})
    foreseen, run = both(linear)
    assert foreseen.verdict is not None
    assert foreseen.verdict.kind == run.verdict.kind == "diverged"
    net = DECAYED_NET.set({"dynamics": {"kind": "GradientDescent", "lr": 0.1, "steps": 1000}})
    assert not forecast(net, thorough=True).answers
    assert "steps of 0.1 do not follow the flow" in forecast(net, thorough=True).by


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dynamics": {"kind": "Adam", "lr": 1e-3, "steps": 1000}}, "gradient flow and descent, not Adam"),
        ({"model": {"kind": "MLP", "hidden": (8,)}, "init": {"kind": "He"}}, "MLP has kinks"),
        ({"init": {"kind": "Gaussian"}, "penalty": {"kind": "L1", "strength": 1e-3}}, "w₊ = w₋ without a zero entry"),
    ],
)
def test_no_theory_says_why(changes, reason):
    found = forecast(DECAYED_NET.set(changes), thorough=True)
    assert not found.answers
    assert found.t_fit is None
    assert found.t_gen is None
    assert reason in found.by
    assert str(found).startswith("No forecast")


def test_decay_needs_a_solution_to_move_along():
    noisy = DECAYED_NET.set({"task.n": 50, "task.noise_variance": 1.0})
    assert "data that a linear predictor can fit" in (diagonal.DecayingPotential.obstacle(posed(noisy)) or "")


@pytest.mark.usefixtures("rules_forgotten")
def test_a_limit_that_does_not_exist_is_no_answer_and_the_next_route_is_asked():
    class Limitless(Route):
        name, source, cost, turn = "a theorem", "of somebody", "nothing", -1

        @classmethod
        def obstacle(cls, instance):
            return None

        def follow(self, instance, times):
            raise Unanswered("there is no limit")

    assert "closed form" in forecast(CASES["closed form"], thorough=True).by
    silent = forecast(
        CASES["closed form"].set({"dynamics": {"kind": "Adam", "lr": 1e-3, "steps": 1000}}), thorough=True
    )
    assert not silent.answers
    assert silent.by.startswith("no theory here speaks of it. a theorem: there is no limit; the closed form of")


@pytest.mark.usefixtures("rules_forgotten")
def test_of_several_routes_the_most_special_is_asked_first():
    class Mine(Route):
        name, source, cost = "all is fitted", "me", "nothing"

        @classmethod
        def obstacle(cls, instance):
            return None

        def follow(self, instance, times):
            return Curves(np.zeros(len(times)), np.zeros(len(times)))

    assert "closed form" in forecast(CASES["closed form"], thorough=True).by
    Mine.turn = -1
    assert forecast(CASES["closed form"], thorough=True).by == "all is fitted (me)"


@pytest.mark.parametrize("shape", [None, (4, 5)])
def test_implicit_step_is_optimal(shape):
    """The conditions of optimality: b feasible, and the slope (a + Vᵀm − b)/step a subgradient of the norm at b."""
    rng = np.random.default_rng(0)
    rows = np.linalg.qr(rng.standard_normal((20, 8)))[0].T
    a, target, step = rng.standard_normal(20), rng.standard_normal(8), 0.3
    b, m = linear._implicit_step(rows, target, a, step, shape, np.zeros(8))
    slope = (a + m @ rows - b) / step
    np.testing.assert_allclose(rows @ b, target, atol=1e-12)
    size = np.abs(b).sum() if shape is None else np.linalg.norm(b.reshape(shape), "nuc")
    dual = np.abs(slope).max() if shape is None else np.linalg.norm(slope.reshape(shape), 2)
    assert dual <= 1 + 1e-6  # the dual is minimised to 1e-9, and divided by the step
    assert slope @ b == pytest.approx(size, rel=1e-6)


@pytest.mark.parametrize("matrix", [False, True])
def test_the_path_ends_at_the_penalised_program(matrix):
    """The slow path and what it gives way by a finite strength, against the convex program at that strength."""
    rng, shape, strength = np.random.default_rng(0), (5, 5) if matrix else None, 1e-4
    truth = np.outer(*rng.standard_normal((2, 5))).ravel() if matrix else np.eye(25)[3] - np.eye(25)[7]
    X = rng.standard_normal((18, 25)) / 5
    y = X @ truth
    landed = np.linalg.pinv(X) @ y
    start = landed.reshape(shape) if shape else landed
    times, points = linear._down_the_penalty(X, start, shape, 100.0)
    end = linear._given_way(X, times, points, strength, shape)[-1]
    exact = nuclear_penalised(X.reshape(18, 5, 5), y, strength).ravel() if matrix else lasso(X, y, strength)
    # To first order: what the strength moves is found to 1 % of itself.
    change = float(np.linalg.norm(exact - points[-1]))
    assert change > 1e-5
    np.testing.assert_allclose(end, exact, atol=1e-2 * change)


@pytest.mark.parametrize("theory", ["closed form", "least squares, then the flow of the penalty", "mirror flow of Q"])
def test_without_time_there_is_no_forecast_and_it_says_how_to_ask(monkeypatch, theory):
    monkeypatch.setattr(forecasts, "_LEAST", 0.0)
    monkeypatch.setattr(forecasts, "likely_seconds", lambda experiment: 0.0)
    left_out = forecast(CASES[theory])
    assert not left_out.answers
    assert "left out, to take no longer than the run: ask for it with thorough=True" in str(left_out)
    assert left_out.seconds > 0
    assert f"It took {left_out.seconds:.2g} s." in str(left_out)


def test_of_a_small_run_nothing_is_trained_to_foresee_it(monkeypatch):
    """The run makes 600,000 steps of a microsecond, and takes a tenth of what the limiting flow does."""

    def trained(*arguments, **more):
        raise AssertionError("the limiting flow was trained")

    monkeypatch.setattr(manifold, "run_experiment", trained)
    small = CASES["Riemannian flow"]
    found = forecast(small)
    assert not found.answers
    assert "Riemannian flow of the penalty on the solutions: left out" in found.by
    with pytest.raises(AssertionError, match="was trained"):  # a run of minutes may be foreseen for as long
        forecast(small.set({"dynamics.steps": 100_000_000}))


def test_a_longer_run_is_likely_to_take_longer_and_none_less_than_its_steps():
    short, long = (likely_seconds(CASES["closed form"].set({"dynamics.steps": n})) for n in (10_000, 10_000_000))
    assert short < 1.0 < 5.0 < long
    assert long >= size_of(CASES["closed form"].set({"dynamics.steps": 10_000_000})).seconds
