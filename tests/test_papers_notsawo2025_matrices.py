"""What the entries on matrices of notsawo2025 compute, a second time."""

import itertools

import numpy as np
import pytest

import afterfit as af
from afterfit import papers
from afterfit.papers.notsawo2025 import deepmf, fig14, matrices, matrix_laws
from afterfit.papers.notsawo2025.completing import SETTINGS
from afterfit.papers.notsawo2025.fading import condition_on_tangents, moving_part


@pytest.mark.parametrize(
    "task",
    [matrices.completed(10, 2, 80), matrices.sensed(10, 2, 80, 1 / 10), matrices.completed(6, 1, 26)],
)
def test_the_truth_has_the_rank_and_the_size_of_the_notebook(task):
    truth = task.draw(np.random.default_rng(3)).truth
    assert np.linalg.norm(truth) == pytest.approx(len(truth))
    assert np.linalg.matrix_rank(truth) == task.rank


def test_a_size_only_rescales_what_is_drawn():
    drawn = af.tasks.MatrixCompletion(5, 4, 2, observed=12).draw(np.random.default_rng(1))
    sized = af.tasks.MatrixCompletion(5, 4, 2, observed=12, size=3.0).draw(np.random.default_rng(1))
    np.testing.assert_allclose(sized.truth, drawn.truth * 3 / np.linalg.norm(drawn.truth))
    np.testing.assert_array_equal(np.asarray(sized.inputs.mask), np.asarray(drawn.inputs.mask))


def test_entries_of_rank_one_measurements_have_the_variance_that_was_asked_for():
    X = matrices.sensed(10, 2, 4000, 0.25).draw(np.random.default_rng(0)).inputs
    assert np.mean(X**2) == pytest.approx(0.25**2, rel=0.1)
    assert np.linalg.matrix_rank(X[0]) == 1


def test_a_variance_is_of_rank_one_measurements_alone():
    with pytest.raises(af.SpecError, match="rank_one"):
        af.tasks.MatrixSensing(4, 4, 2, N=9, variance=0.5)


def test_settings_that_came_later_are_said_only_where_they_are_given():
    assert "size" not in af.tasks.MatrixCompletion(5, 4, 2).to_dict()
    assert {"size", "variance"} <= set(matrices.sensed(4, 1, 9, 0.25).to_dict())


def test_the_null_part_is_what_measurements_do_not_see():
    data = matrices.sensed(6, 1, 20, 1 / 6).draw(np.random.default_rng(0))
    A = np.random.default_rng(1).standard_normal((6, 6))
    X = data.inputs.reshape(20, -1)
    hidden = matrices.null_part(data, A)
    np.testing.assert_allclose(X @ hidden.ravel(), 0, atol=1e-12)
    seen, *_ = np.linalg.lstsq(X, X @ A.ravel(), rcond=None)
    np.testing.assert_allclose(A - hidden, seen.reshape(6, 6), atol=1e-10)


def test_the_null_part_of_entries_is_the_other_entries():
    data = matrices.completed(5, 1, 12).draw(np.random.default_rng(0))
    A = np.random.default_rng(1).standard_normal((5, 5))
    np.testing.assert_allclose(matrices.null_part(data, A), A * (1 - np.asarray(data.inputs.mask)), atol=1e-12)


def test_what_is_fitted_first_is_zero_where_nothing_is_observed():
    data = matrices.completed(5, 1, 12).draw(np.random.default_rng(0))
    np.testing.assert_allclose(matrices.fitted(data), data.truth * np.asarray(data.inputs.mask), atol=1e-12)


def test_with_all_entries_the_program_finds_the_truth_and_with_few_it_does_not():
    draw = np.random.default_rng
    assert matrices.least_nuclear_recovers(matrices.completed(5, 1, 25).draw(draw(0)))
    assert not matrices.least_nuclear_recovers(matrices.completed(5, 1, 8).draw(draw(0)))


def test_the_condition_number_bounds_what_entries_see_of_tangents():
    run = af.train(
        task=matrices.completed(6, 1, 26),
        model=af.models.Linear(),
        dynamics=af.dynamics.GradientDescent(lr=0.5, steps=2),
        init=af.inits.Identity(1e-6),
        seed=1,
    )
    mask, (U, s, Vt) = np.asarray(run.data.inputs.mask), np.linalg.svd(run.data.truth)
    assert s[1] < 1e-9
    rng = np.random.default_rng(0)
    tangents = [
        np.outer(U[:, 0], rng.standard_normal(6)) + np.outer(rng.standard_normal(6), Vt[0]) for _ in range(2000)
    ]
    seen = [np.linalg.norm(mask * E) / np.linalg.norm(E) for E in tangents]
    assert max(seen) / min(seen) <= condition_on_tangents(run) * (1 + 1e-9)
    assert max(seen) / min(seen) >= 0.5 * condition_on_tangents(run)


def test_deaths_are_for_good_and_the_smallest_comes_first():
    steps = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    values = np.array([[5, 2, 1, 0.0], [5, 2, 0.05, 0.0], [5, 1, 0.5, 0.0], [5, 0.05, 0.05, 0.0], [5, 0.0, 0.0, 0.0]])
    found = matrices.deaths(steps, values, start=0, level=0.1)
    assert found == [matrices.Death(3.0, 1.0), matrices.Death(3.0, 2.0), matrices.Death(np.inf, 5.0)]


def test_an_error_settles_where_it_is_a_quarter_above_its_end():
    steps = np.arange(1.0, 2001.0)
    errors = np.maximum(1 - steps / 1000, 0.01)
    assert matrices.settling(steps, errors) == pytest.approx(987.5, abs=1)


def test_equal_factors_see_the_symmetric_part_alone():
    data = matrices.sensed(10, 2, 80, 1 / 10).draw(np.random.default_rng(0))
    equal = fig14._with_equal_factors(data, 0)
    X = equal.inputs.reshape(80, -1)
    assert np.linalg.matrix_rank(X) == 55
    assert np.linalg.matrix_rank(data.inputs.reshape(80, -1)) == 80
    U, _, Vt = np.linalg.svd(data.truth)
    K = np.triu(np.random.default_rng(1).standard_normal((10, 10)), 1)
    unseen = U.T @ (K - K.T) @ Vt.T  # U* unseen V*ᵀ is antisymmetric
    np.testing.assert_allclose(X @ unseen.ravel(), 0, atol=1e-12)
    np.testing.assert_allclose(X @ data.truth.ravel(), equal.targets)


@pytest.mark.parametrize("L", [2, 3, 4])
def test_balanced_factors_are_balanced_and_multiply_to_the_matrix(L):
    A = np.random.default_rng(0).standard_normal((5, 5))
    factors = deepmf._balanced(A, L)
    np.testing.assert_allclose(np.linalg.multi_dot(factors), A)
    for left, right in itertools.pairwise(factors):
        np.testing.assert_allclose(left.T @ left, right @ right.T, atol=1e-12)


def test_powers_of_matrices_are_those_of_scipy():
    from scipy.linalg import fractional_matrix_power

    B = np.random.default_rng(0).standard_normal((5, 5))
    np.testing.assert_allclose(deepmf._power(B @ B.T, 0.3), fractional_matrix_power(B @ B.T, 0.3), atol=1e-8)


@pytest.mark.parametrize("settings", [deepmf._SETTINGS, fig14._SETTINGS, SETTINGS])
def test_the_paper_scale_has_the_sizes_of_the_text(settings):
    assert (settings["paper"].n, settings["paper"].rank) == (10, 2)


@pytest.mark.parametrize(("name", "kind"), [("fig5", "MatrixCompletion"), ("fig14", "MatrixSensing")])
def test_the_first_run_at_paper_scale_is_that_of_the_figure(name, kind):
    spec = next(iter(papers.find(f"notsawo2025/{name}").experiments("paper").values())).to_dict()
    assert (spec["task"]["kind"], spec["dynamics"]["lr"], spec["penalty"]["strength"]) == (kind, 0.1, 1e-4)
    assert spec["task"]["observed" if name == "fig5" else "N"] == 80  # the notebook's; the text has 70


def test_what_moves_is_the_unseen_part_of_the_polar_factor_where_no_value_is_at_0():
    data = matrices.completed(5, 1, 12).draw(np.random.default_rng(0))
    A = np.random.default_rng(1).standard_normal((5, 5))
    mask, step = np.asarray(data.inputs.mask), 1e-6
    moving = moving_part(data, A, level=0.0)
    # The derivative of the nuclear norm along unseen entries, by differences.
    for i, j in np.argwhere(mask == 0)[:5]:
        E = np.zeros((5, 5))
        E[i, j] = step
        slope = (np.linalg.norm(A + E, "nuc") - np.linalg.norm(A - E, "nuc")) / (2 * step)
        assert moving[i, j] == pytest.approx(slope, abs=1e-6)
    np.testing.assert_allclose(moving * mask, 0, atol=1e-12)


def test_a_matrix_at_rest_moves_no_more():
    data = matrices.completed(6, 1, 30).draw(np.random.default_rng(2))
    assert matrices.least_nuclear_recovers(data)
    assert np.linalg.norm(moving_part(data, np.asarray(data.truth), level=1e-9)) < 1e-8


def test_ends_and_shares_of_draws():
    eye = np.eye(3)
    assert matrix_laws.End(eye, eye).recovers
    assert not matrix_laws.End(1.01 * eye, eye).recovers
    assert matrix_laws.more_often(80, 10 * [True], 70, 10 * [False]).holds
    assert not matrix_laws.more_often(80, 10 * [True], 70, 8 * [True] + 2 * [False]).holds


def test_runs_of_the_quick_scale_go_together_three_at_a_time():
    """Every width is a program to compile, which takes longer than the runs."""
    specs = [each.to_dict() for each in papers.find("notsawo2025/fig5").experiments("quick").values()]
    steps = [spec["dynamics"]["steps"] for spec in specs]
    assert sorted(steps.count(each) for each in set(steps)) == [3, 3, 3, 3]
