"""The settings of woodworth2020/fig1 and fig3, and what their helpers compute, a second way."""

from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest

import afterfit as af
from afterfit import papers
from afterfit.papers.woodworth2020 import fig1, fig3
from afterfit.papers.woodworth2020.recovery import (
    THRESHOLD,
    Posed,
    largest_scale,
    log_scale,
    needed,
    parameters,
    potential,
    recovery_scale,
)

ENTRIES = papers.entries()
TASK = af.tasks.SparseRegression(n=20, d=60, sparsity=2, noise_variance=0.01, n_test=1)


def test_paper_scale_is_the_ledger_s_setting():
    for entry in ("woodworth2020/fig1", "woodworth2020/fig3"):
        for experiment in ENTRIES[entry].experiments("paper").values():
            task = experiment.task
            assert (task.d, task.sparsity, task.noise_variance) == (1000, 5, 0.01)
            assert (task.design, task.entries, task.reduction) == ("gaussian", "equal", "sum")
            assert experiment.dynamics.method == "explicit"  # primal: it knows nothing of Q
            assert set(np.abs(experiment.draw().truth)) == {0.0, 1 / np.sqrt(5)}
    assert THRESHOLD == 0.025
    one, three = fig1._SETTINGS["paper"], fig3._SETTINGS["paper"]
    assert min(len(one.seeds), len(three.seeds)) >= 5
    assert max(three.depths) == max(three.flows) == 8
    depths = {experiment.model.depth for experiment in ENTRIES["woodworth2020/fig3"].experiments("paper").values()}
    assert depths == {2, 3, 4, 8}


def test_a_draw_is_that_of_a_run_and_its_error_that_of_new_examples():
    posed, data = Posed.draw(TASK, 3), parameters(TASK, 2, -2.0, seed=3).draw()
    np.testing.assert_array_equal(posed.X, data.inputs)
    np.testing.assert_array_equal(posed.y, data.targets)
    beta = np.random.default_rng(0).standard_normal(60)
    x = np.random.default_rng(1).standard_normal((200_000, 60))
    np.testing.assert_allclose(posed.error(beta), np.mean((x @ (beta - posed.planted)) ** 2), rtol=0.02)
    # The library's population risk has the noise of a new label in it.
    np.testing.assert_allclose(posed.error(beta) + 0.01, float(TASK.population_risk(beta, data)), rtol=1e-6)


@pytest.mark.parametrize("depth", [2, 3, 8])
def test_the_largest_scale_is_that_of_a_grid(depth):
    posed = Posed.draw(TASK, 0)
    found = recovery_scale(posed, depth)
    grid = np.arange(1.0, -12.0, -0.05)
    errors = posed.errors(grid, depth)
    first = grid[np.argmax(errors <= THRESHOLD)]
    assert first <= found <= first + 0.05
    np.testing.assert_allclose(posed.errors([found], depth), THRESHOLD, rtol=1e-3)


def test_the_minimiser_at_the_largest_scale_is_that_of_a_conic_program():
    posed = Posed.draw(TASK, 0)
    c = 10 ** recovery_scale(posed)
    nu = cp.Variable(len(posed.y))
    mass = cp.sum(cp.exp(posed.X.T @ nu + np.log(c)) + cp.exp(-posed.X.T @ nu + np.log(c)))
    cp.Problem(cp.Maximize(posed.y @ nu - mass)).solve(solver="CLARABEL")
    assert nu.value is not None
    np.testing.assert_allclose(posed.error(2 * c * np.sinh(posed.X.T @ nu.value)), THRESHOLD, rtol=0.01)


def test_a_measure_that_is_never_low_enough_has_no_largest_scale():
    assert largest_scale(lambda log_c: 1.0, 0.5, -100.0) == -np.inf
    np.testing.assert_allclose(largest_scale(lambda log_c: 10.0**log_c, 1e-7, -100.0), -7, atol=1e-2)


def test_the_samples_needed_are_the_fewest():
    rule = af.theory.min_l1
    fewest = needed(rule, TASK, range(3), 40)

    def recovers(n):
        posed = [Posed.draw(TASK.replace(n=n), seed) for seed in range(3)]
        return np.median([one.error(rule(one.X, one.y)) for one in posed]) <= THRESHOLD

    assert recovers(fewest)
    assert not recovers(fewest - 1)


@pytest.mark.parametrize("depth", [2, 5])
def test_the_scale_of_a_start_is_what_was_asked_for(depth):
    experiment = parameters(TASK, depth, -3.0, seed=0)
    np.testing.assert_allclose(experiment.init.scale**depth, 1e-3)
    np.testing.assert_allclose(potential(-3.0, depth).alpha, experiment.init.scale)
    assert experiment.model.depth == depth
    np.testing.assert_allclose(log_scale(SimpleNamespace(spec=experiment.to_dict())), -3)


@pytest.mark.parametrize("depth", range(3, 9))
def test_the_ratio_is_that_of_integrals(depth):
    # q_D = s·h_D(s) − ∫h_D from 0 to s, by parts, with the integral of h_D in closed form.
    p = depth / (depth - 2)

    def q(z):
        s = fig3._inverse(z, p)
        return s * z - ((1 - s) ** (1 - p) + (1 + s) ** (1 - p) - 2) / (p - 1)

    c = 0.3**depth
    by_parts = q(1 / c) / (fig3._D * q(1 / (c * np.sqrt(fig3._D))))
    np.testing.assert_allclose(fig3.ratio(0.3, depth), by_parts, rtol=1e-7)


def test_the_excess_of_the_least_l2_norm_loses_no_digits():
    posed = Posed.draw(TASK, 0)
    least, beta = af.theory.min_l2(posed.X, posed.y), posed.minimiser(-2.0)
    np.testing.assert_allclose(fig1._excess_l2(beta, least), np.linalg.norm(beta) - np.linalg.norm(least), rtol=1e-6)
