"""Fig. 8 of notsawo2025: its setting is the paper's, and what its checks compare with is computed a second way."""

import cvxpy as cp
import numpy as np
import pytest

import afterfit as af
from afterfit import papers
from afterfit.papers.notsawo2025 import coherent, coherent_runs, coherent_scales, completion


def _mask(rank, tau, seed, N):
    """The entries that `least_entries` takes for one draw, and the matrix."""
    truth, leverage, order = coherent._drawn(10, rank)(seed)
    keys = coherent._keys(leverage[None], order[None], np.array([tau]), np.array([N]))
    return completion.masks_of(keys, np.array([N]))[0], truth


def test_paper_scale_is_the_setting_of_the_notebook():
    runs = papers.find("notsawo2025/fig8").runs("paper")
    vector, matrix = (next(iter(runs[name].values())).to_dict() for name in ("sparse", "matrices"))
    assert (vector["task"]["n"], vector["task"]["sparsity"], vector["penalty"]["strength"]) == (100, 5, 1e-5)
    assert vector["task"]["variance"] == 1 / vector["task"]["N"]
    assert (matrix["task"]["rows"], matrix["task"]["columns"], matrix["task"]["rank"]) == (10, 10, 2)
    assert (vector["dynamics"]["until"], matrix["dynamics"]["until"]) == (1e6, 1e7)  # 10⁷ steps of 0.1 and of 1
    everywhere = {(at.N, at.τ) for at in coherent_scales.vectors_of(coherent_scales.SCALES["paper"])}
    assert everywhere == {(N, k / 5) for N in range(10, 101, 10) for k in range(6)}
    for run in runs["others"].values():
        assert (run.dynamics.lr, run.dynamics.steps) == (0.1, 10_000_000)
    # In units in which the matrix has norm 10, as the notebook scales it, the penalty is 10⁻⁵.
    for run in list(runs["matrices"].values())[:3]:
        assert run.penalty.strength * 10 / np.linalg.norm(run.draw().truth) == pytest.approx(1e-5)


@pytest.mark.parametrize("tau", [0.0, 0.5, 1.0])
def test_the_least_number_of_measurements_is_that_of_all_numbers_tried_in_turn(tau):
    n, s, seeds = 12, 2, range(4)
    found = coherent.least_measurements(n, s, tau, seeds)
    for seed, least in zip(seeds, found, strict=True):
        recovered = []
        for N in range(1, n + 1):
            data = coherent.draw_of(coherent.mixed(n, s, N, tau), seed)
            a = cp.Variable(n)
            cp.Problem(cp.Minimize(cp.norm1(a)), [data.inputs @ a == data.targets]).solve(solver="CLARABEL")
            recovered.append(np.linalg.norm(a.value - data.truth) <= 1e-4 * np.linalg.norm(data.truth))
        assert recovered == [least <= N for N in range(1, n + 1)]


@pytest.mark.parametrize("tau", [0.0, 0.3, 1.0])
def test_with_more_measurements_a_draw_keeps_those_that_it_has(tau):
    def rows(N):
        X = coherent.draw_of(coherent.mixed(20, 3, N, tau), 5).inputs
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    for N in range(1, 19):
        few, more = rows(N), rows(N + 1)
        assert all(np.min(np.linalg.norm(more - row, axis=1)) <= 1e-12 for row in few)


@pytest.mark.parametrize("tau", [0.0, 0.4, 1.0])
def test_the_least_number_of_entries_by_an_interior_point_method(tau):
    seeds = range(3)
    needed = coherent.least_entries(10, 2, [tau], seeds)[tau]
    for seed, least in zip(seeds, needed, strict=True):
        for N, expected in ((least, True), (least - 1, False)):
            mask, truth = _mask(2, tau, seed, int(N))
            X = np.zeros((int(N), 10, 10))
            X[np.arange(int(N)), *np.nonzero(mask)] = 1.0
            error = np.linalg.norm(af.theory.min_nuclear(X, truth[mask]) - truth) / np.linalg.norm(truth)
            assert (error <= 1e-3) == expected


def test_entries_are_those_that_the_task_observes():
    for seed in range(3):
        for N in (30, 60):
            data = coherent.draw_of(coherent.completed(10, 2, N, 1.0), seed)
            mask, truth = _mask(2, 1.0, seed, N)
            np.testing.assert_array_equal(truth, data.truth)
            np.testing.assert_array_equal(mask, np.asarray(data.inputs.mask) > 0)
        rows, columns = af.theory.sensing.leverage_scores(truth, 2)
        scores = np.add.outer(rows, columns)
        for tau in (0.2, 0.5):
            few, more = (_mask(2, tau, seed, N)[0] for N in (40, 60))
            assert (few.sum(), more.sum()) == (40, 60)
            assert np.all(more[few])  # those of fewer entries are among those of more
            first = scores >= np.sort(scores, axis=None)[-round(60 * tau)]
            assert np.all(more[first])


def test_the_coherence_is_that_of_the_measurements_and_the_basis():
    for tau in (0.0, 0.1):
        found = coherent.coherences_of(15, tau, [3, 12], [7])
        for N, mu in zip([3, 12], found[0], strict=True):
            X = coherent.draw_of(coherent.mixed(15, 1, N, tau), 7).inputs
            assert mu == pytest.approx(af.theory.sensing.coherence(X.T, np.eye(15)))


def test_trends_are_told_from_none():
    rng = np.random.default_rng(0)
    up = {tau: 50 + 20 * tau + rng.standard_normal(30) for tau in (0.0, 0.5, 1.0)}
    down = dict(zip(up, reversed(up.values()), strict=True))
    flat = {tau: 50 + rng.standard_normal(30) for tau in up}
    assert coherent.rises(up, "N", "τ").holds
    assert coherent.falls(down, "N", "τ").holds
    for needed in (down, flat):
        assert not coherent.rises(needed, "N", "τ").holds
    for needed in (up, flat):
        assert not coherent.falls(needed, "N", "τ").holds


def test_an_exponential_is_told_from_a_fall_to_a_floor():
    rng, taus = np.random.default_rng(1), np.linspace(0, 1, 11)
    noise = {tau: np.exp(0.02 * rng.standard_normal(40)) for tau in taus}
    assert coherent.exponential({tau: 80 * np.exp(-0.4 * tau) * noise[tau] for tau in taus}).holds
    assert not coherent.exponential({tau: (55 + 25 * np.exp(-6 * tau)) * noise[tau] for tau in taus}).holds
    assert not coherent.exponential({tau: 50 * np.exp(0.4 * tau) * noise[tau] for tau in taus}).holds


def test_times_that_do_not_come_are_the_longest():
    def cell(tau, seed, t2):
        return coherent_runs.Cell(run=None, N=30, tau=tau, seed=seed, t1=10.0, t2=t2, error=0.1)

    rising = [cell(tau, k, t) for k in range(5) for tau, t in ((0.0, 10 + k), (0.5, 20 + k), (1.0, np.inf))]
    assert coherent_runs.times_rise(rising, lambda c: c.t2, "t₂", [30]).holds
    assert not coherent_runs.times_fall(rising, lambda c: c.t2, "t₂", [30]).holds
    assert not coherent_runs.times_rise(rising, lambda c: c.t1, "t₁", [30]).holds
