"""Fig. 8 of notsawo2025: its setting is the paper's, and what its checks compare with is computed a second way."""

import dataclasses

import cvxpy as cp
import numpy as np
import pytest

import afterfit as af
from afterfit import papers
from afterfit.papers.notsawo2025 import coherent, coherent_runs, coherent_scales, completion, fig12
from afterfit.papers.notsawo2025.agreement import Answer


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


def _cell(tau, seed, t2=np.inf, *, found=False, N=30):
    error = 1e-4 if found or t2 < np.inf else 0.5
    return coherent_runs.Cell(run=None, N=N, tau=tau, seed=seed, t1=10.0, t2=t2, error=error)


def test_a_time_that_only_comes_less_often_is_not_a_later_one():
    rng = np.random.default_rng(0)
    times = {seed: 1e4 * np.exp(0.2 * rng.standard_normal(3)) for seed in range(10)}
    until = {0.0: 10, 0.5: 6, 1.0: 2}  # so many draws are found
    same, later = [], []
    for k, (tau, found) in enumerate(until.items()):
        for seed, drawn in times.items():
            came = seed < found
            same.append(_cell(tau, seed, drawn[k] if came else np.inf))
            later.append(_cell(tau, seed, drawn[k] * 9**tau if came else np.inf))
    assert coherent_runs.times_rise(same, lambda c: c.t2, "t₂", [30]).holds  # ∞ does it
    assert not coherent_runs.later_where_found(same, [30]).holds
    found = coherent_runs.later_where_found(later, [30])
    assert found.holds
    assert "of 6 (N=30)" in found.measured
    assert not coherent_runs.sooner_where_found(later, [30]).holds
    assert not coherent_runs.later_where_found(later, [30, 50]).holds  # no draw of N = 50
    dealt = coherent_runs.dealt_anew(later)
    assert {(c.tau, c.seed) for c in dealt} == {(c.tau, c.seed) for c in later if c.t2 < np.inf}
    assert sorted(c.t2 for c in dealt) == sorted(c.t2 for c in later if c.t2 < np.inf)
    assert not coherent_runs.later_where_found(dealt, [30]).holds
    sooner = [dataclasses.replace(c, t2=1e9 / c.t2) for c in later if c.t2 < np.inf]
    assert coherent_runs.sooner_where_found(sooner, [30]).holds


def _paper_cells(shares):
    """Made-up runs of sparse recovery at every place of paper scale; so large shares are found at N = 30, 50 and 70."""
    rng = np.random.default_rng(3)
    ease = {seed: float(rng.uniform()) for seed in range(11, 21)}
    return [
        _cell(at.τ, at.seed, found=ease[at.seed] < shares[round(at.τ * 5)], N=at.N)
        for at in coherent_scales.vectors_of(coherent_scales.SCALES["paper"])
    ]


def test_runs_agree_with_the_program_at_every_place_and_not_only_more_often_than_by_one_answer():
    fig8 = papers.find("notsawo2025/fig8")
    cells = _paper_cells([1, 0.8, 0.6, 0.4, 0.2, 0])
    own = [cell.found for cell in cells]
    assert len(cells) == 222

    found = fig8.as_the_linear_program(cells, own, "paper")
    assert found.holds
    assert "at 60 pairs (N, τ), 222 runs in all" in found.measured
    assert "one draw at each of the other 42" in found.measured
    assert "they differ nowhere" in found.measured
    assert not fig8.as_the_next_program(cells, own, "paper").holds

    rng = np.random.default_rng(4)  # 0.64 of the runs are right, where one answer for all is on 0.55 or so
    most = [can == bool(right) for can, right in zip(own, rng.permutation(222) < 0.64 * 222, strict=True)]
    found = fig8.as_the_linear_program(cells, most, "paper")
    share = float(found.measured.split("agree on a share ")[1].split(" ")[0])
    assert share == pytest.approx(0.64, abs=0.01)
    assert not found.holds

    few = [not can if k % 25 == 0 else can for k, can in enumerate(own)]  # 9 of 222, here and there
    assert fig8.as_the_linear_program(cells, few, "paper").holds

    # The same at one place of ten draws, all pairs together as well as before.
    there = [k for k, cell in enumerate(cells) if (cell.N, cell.tau) == (50, 0.4)]
    assert len(there) == 10
    apart = [can != (k in there[:6]) for k, can in enumerate(own)]
    found = fig8.as_the_linear_program(cells, apart, "paper")
    assert "they differ at N=50 τ=0.4 (6 of 10)" in found.measured
    assert not found.holds


def test_runs_of_completion_agree_at_paper_scale():
    fig8 = papers.find("notsawo2025/fig8")
    places = coherent_scales.matrices_of(coherent_scales.SCALES["paper"])
    found = {70: [0.25, 0.85, 0.9, 1, 1, 1], 80: [0.55, 1, 1, 1, 1, 1]}
    cells = [
        _cell(
            at.τ, at.seed, found=(at.seed - 0.5) / 8 < found.get(at.entries, [0.5] * 6)[round(at.τ * 5)], N=at.entries
        )
        for at in places
    ]
    own = [cell.found for cell in cells]
    assert len(cells) == 114
    assert fig8.as_the_nuclear_program(cells, own, "paper").holds
    assert not fig8.as_the_next_nuclear_program(cells, own, "paper").holds
    assert fig8.would_be_as_the_program(cells, own, "paper").holds
    six = [can != (k % 20 == 0) for k, can in enumerate(own)]
    assert sum(a != b for a, b in zip(own, six, strict=True)) == 6
    assert not fig8.as_the_nuclear_program(cells, six, "paper").holds


def test_methods_agree_with_the_program_on_all_but_one_of_twenty_draws():
    def answers(wrong):
        return {
            fig12._Draw(method, N, seed): Answer(
                f"N={N}", "", (possible := (seed - 60) < few), possible != (seed in wrong)
            )
            for method in fig12._METHODS
            for N, few in ((15, 3), (25, 8))
            for seed in range(60, 70)
        }

    entry = papers.find("notsawo2025/fig12")
    assert entry.recover_where_possible(answers([])).holds
    assert "N=15 of 10 draws 3|3; N=25 of 10 draws 8|8" in entry.recover_where_possible(answers([])).measured
    assert not entry.recover_where_possible(answers([60])).holds  # at both N: two of twenty
    assert not entry.recover_elsewhere(answers([])).holds
    one = answers([])
    draw = fig12._Draw("proximal", 15, 65)
    one[draw] = one[draw]._replace(run=True)
    assert entry.recover_where_possible(one).holds
