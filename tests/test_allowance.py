"""An explanation costs no more than was allowed, says what it left out, and leaves nothing out when asked to."""

from __future__ import annotations

import dataclasses
import threading
import time

import jax
import numpy as np
import pytest
from test_report import read

import afterfit as af
from afterfit import theory
from afterfit._base.allowance import TimeIsUp, time_left, time_to_factorise, within
from afterfit.theory import _landscape
from afterfit.theory._routes.manifold import RiemannianLimit

SECONDS = 0.02  # what one piece of the slow constant takes
PIECES = 40


def test_the_time_that_is_left_is_the_least_of_all_that_are_allowed():
    time_left()(1e9)  # nobody said anything
    with within(100.0):
        with within(50.0):
            time_left()(49.0)
            with pytest.raises(TimeIsUp, match="thorough=True"):
                time_left()(51.0)
        time_left()(99.0)
        with within(1000.0), pytest.raises(TimeIsUp):
            time_left()(101.0)
    time_left()(1e9)


def test_a_factorisation_begins_only_if_there_is_time_for_it():
    time_to_factorise(10**6)  # nobody said anything
    with within(5.0):
        time_to_factorise(500, vectors=True)
        for large in (lambda: time_to_factorise(5000), lambda: time_to_factorise(2900, vectors=True)):
            with pytest.raises(TimeIsUp):
                large()


def test_what_factorises_a_kernel_asks_for_the_time_first(monkeypatch):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((130, 4)), rng.standard_normal((130, 10))
    experiment = af.Experiment(
        task=af.tasks.Arrays(X[:110], Y[:110], X[110:], Y[110:]),
        model=af.models.MLP((150,), activation="tanh"),
        penalty=af.penalties.L2(1e-3),
        init=af.inits.He(),
        dynamics=af.dynamics.GradientDescent(0.01, 200),
    )
    for name in ("eigh", "eigvalsh", "lstsq"):
        monkeypatch.setattr(np.linalg, name, None)
    instance = theory.posed(experiment)  # 1,100 outputs
    with jax.enable_x64(True), within(0.2):
        assert RiemannianLimit.obstacle(instance) is None  # its curvature by products alone
        for asked in (
            lambda: RiemannianLimit(instance, np.array([1.0, 10.0])),
            lambda: instance.kernel_values,
            lambda: theory.kkt(instance.problem, instance.initial),
            lambda: theory.hessian_rank(instance.problem, instance.initial),
        ):
            with pytest.raises(TimeIsUp):
                asked()


def test_another_thread_may_ask_and_the_share_is_shown():
    said, shares = [], []

    def ask(check):
        try:
            check(0.0)
        except TimeIsUp:
            said.append("up")

    with within(0.05, shares.append):
        check = time_left()
        for _ in range(2):
            thread = threading.Thread(target=ask, args=(check,))
            thread.start()
            thread.join()
            time.sleep(0.06)
    assert said == ["up"]
    assert shares[0] < 1.0 == shares[1]


@pytest.fixture(scope="module")
def run():
    return af.train(
        task=af.tasks.SparseRecovery(n=10, sparsity=1, N=6),
        model=af.models.Linear(),
        penalty=af.penalties.L2(1e-2),
        dynamics=af.dynamics.GradientDescent(lr=0.1, steps=500),
        init=af.inits.Gaussian(0.5),
        observations=30,
    )


def test_a_slow_constant_is_left_out_unless_it_is_asked_for(run, rules_forgotten, monkeypatch, tmp_path):
    pieces = []

    class Slow(theory.Theorem):
        name, says = "slow", "It takes its time."

        @classmethod
        def obstacle(cls, instance):
            return None

        def assumptions(self, case):
            still = time_left()
            for piece in range(PIECES):
                still((PIECES - piece) * SECONDS)
                time.sleep(SECONDS)
                pieces.append(piece)
            yield theory.Check("slow", "done", True)

        def predictions(self, case):
            return iter(())

    assert theory.explain(run, thorough=True).readings[Slow].checks[0].number == "done"
    assert len(pieces) == PIECES
    for module in ("theory._explain", "_reports.runs"):  # by now all else is compiled
        monkeypatch.setattr(f"afterfit.{module}.LEAST", 0.3)
    quick = dataclasses.replace(run, seconds=0.01)
    page = theory.explain(quick)
    assert len(pieces) == PIECES, "it was seen at once that it would take too long"
    assert "--thorough" in page.readings.silent[Slow]
    assert "slow: left out" in read(af.report(quick, tmp_path / "r.html")).text
    assert len(pieces) == PIECES
    # A run that took long may be explained for as long.
    assert Slow in theory.explain(dataclasses.replace(run, seconds=100.0)).readings
    af.report(quick, tmp_path / "r.html", thorough=True)
    assert len(pieces) == 3 * PIECES


def test_a_constant_that_takes_minutes_gives_up_early(monkeypatch):
    """Of its descents it is told after a few evaluations how long they would take."""
    posed = theory.posed(af.papers.find("boursier2025/fig2").experiments("quick")["run"])
    evaluations, really = [], _landscape._log_ratio

    def slowly(*args):
        evaluations.append(args)
        time.sleep(SECONDS)
        return really(*args)

    monkeypatch.setattr(_landscape, "_log_ratio", slowly)
    with jax.enable_x64(True), within(1000 * SECONDS), pytest.raises(TimeIsUp):  # it takes 8 x 200 or more
        theory.chatterjee_lojasiewicz(posed.problem, posed.initial, radius=10.0)
    assert len(evaluations) < 50
