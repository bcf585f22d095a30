"""Bounds, against exact errors and complexities of classifiers and against the flows of wide factorisations."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from afterfit import SpecError, theory
from afterfit.papers.woodworth2020.bounds import Start
from afterfit.papers.woodworth2020.cells import kernel_movement
from afterfit.papers.woodworth2020.excesses import Tried
from afterfit.theory.bounds import (
    l1_margin_bound,
    l2_margin_bound,
    margin_bound,
    rademacher_l1_bound,
    rademacher_l2_bound,
)

few = settings(max_examples=25, deadline=None, derandomize=True)


def all_signs(d):
    return np.array(list(itertools.product((-1.0, 1.0), repeat=d)))


def drawn(seed, n, d, k):
    rng = np.random.default_rng(seed)
    teacher = np.zeros(d)
    teacher[:k] = 1 - 2 * rng.integers(0, 2, k)
    X = 1.0 - 2 * rng.integers(0, 2, (n, d))
    return X, np.sign(X @ teacher), teacher


def exact_error(w, teacher):
    """The share of all 2^d inputs with y*(x)·⟨w, x⟩ ≤ 0."""
    inputs = all_signs(len(w))
    return np.mean(np.sign(inputs @ teacher) * (inputs @ w) <= 1e-12 * np.linalg.norm(w))


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 9), st.booleans())
@few
def test_rademacher_bounds_are_above_the_exact_complexities(seed, d, n, signs):
    X = np.random.default_rng(seed).standard_normal((n, d))
    X = np.sign(X) if signs else X
    sums = all_signs(n) @ X / n  # for every σ; the sup over ‖w‖_p ≤ 1 is the dual norm
    assert np.mean(np.max(np.abs(sums), axis=1)) <= rademacher_l1_bound(X) * (1 + 1e-12)
    assert np.mean(np.linalg.norm(sums, axis=1)) <= rademacher_l2_bound(X) * (1 + 1e-12)


def test_the_l2_rademacher_bound_is_attained_by_one_example_and_by_orthogonal_ones():
    # Jensen's inequality E‖Σσx‖ ≤ √(E‖Σσx‖²) is an equality where ‖Σσx‖ does not depend on σ.
    for X in (np.array([[3.0, -4.0]]), 2.0 * np.eye(3)):
        exact = np.mean(np.linalg.norm(all_signs(len(X)) @ X, axis=1)) / len(X)
        assert rademacher_l2_bound(X) == pytest.approx(exact, rel=1e-12)


@given(st.integers(1, 10**6), st.integers(1, 50), st.sampled_from([1, 3, 5]), st.floats(0.001, 0.5))
@few
def test_theorems_follow_from_the_margin_bound(n, extra, k, delta):
    # The proofs of Thms E.4 and E.5: margins of at least 1/k (1/√k), asked for half of that.
    d, rows = k + extra, min(n, 7)
    X = np.ones((rows, d))
    for bound, margin, complexity in (
        (l1_margin_bound, 1 / k, rademacher_l1_bound(X)),
        (l2_margin_bound, 1 / np.sqrt(k), rademacher_l2_bound(X)),
    ):
        by_hand = margin_bound(np.full(rows, margin), margin / 2, complexity, delta)
        assert bound(rows, d, k, delta) == pytest.approx(by_hand, rel=1e-12)
        # Every term falls like 1/√n, so that four times the examples halve it.
        assert bound(4 * n, d, k, delta) == pytest.approx(bound(n, d, k, delta) / 2, rel=1e-12)


def test_margin_bound_counts_small_margins():
    margins = np.array([-1.0, 0.2, 0.5, 0.9])
    # Only the first term depends on the margins: from none to all four below q.
    differences = [margin_bound(margins + s, 0.5, 0.0, 0.1) - margin_bound(margins + 9, 0.5, 0.0, 0.1) for s in (0, -9)]
    assert differences == pytest.approx([3 / 4, 1.0])


@pytest.mark.parametrize(("k", "n", "d"), [(1, 300, 8), (3, 4000, 5)])
def test_bounds_hold_on_exact_errors_where_they_say_something(k, n, d):
    delta, wrong = 0.1, []
    for seed in range(10):
        X, y, teacher = drawn(seed, n, d, k)
        # ±1 inputs in d dimensions take 2^d values: repeated examples change neither program.
        X, first = np.unique(X, axis=0, return_index=True)
        y = y[first]
        for classifier, bound in ((theory.max_l1_margin, l1_margin_bound), (theory.max_l2_margin, l2_margin_bound)):
            assert bound(n, d, k, delta) < 1
            wrong.append(exact_error(classifier(X, y), teacher) > bound(n, d, k, delta))
    assert np.mean(wrong) <= delta


@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([(1, 6), (3, 8), (3, 10)]))
@few
def test_margins_are_those_that_the_proofs_need(seed, n, sizes):
    # γ₁(w) ≥ γ₁(w*) ≥ 1/k and γ₂(w) ≥ γ₂(w*) ≥ 1/√k for the classifiers of largest margin.
    k, d = sizes
    X, y, teacher = drawn(seed, n, d, k)
    l1, l2 = theory.max_l1_margin(X, y), theory.max_l2_margin(X, y)
    assert np.min(y * (X @ l1)) / np.abs(l1).sum() >= 1 / k - 1e-7  # the solvers' tolerance
    assert np.min(y * (X @ l2)) / np.linalg.norm(l2) >= 1 / np.sqrt(k) - 1e-7
    # (35) for every f of the family at once: a q that was fixed beforehand, and any classifier, here the teacher too.
    for w, norm, complexity in (
        (l1, 1, rademacher_l1_bound(X)),
        (l2, 2, rademacher_l2_bound(X)),
        (teacher, 1, rademacher_l1_bound(X)),
    ):
        margins = y * (X @ w) / np.linalg.norm(w, norm)
        assert exact_error(w, teacher) <= margin_bound(margins, 0.5 / k, complexity, 0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: l1_margin_bound(10, 5, 2, 0.1), "odd"),
        (lambda: l2_margin_bound(10, 5, 7, 0.1), "between 1 and d=5, got 7"),
        (lambda: l1_margin_bound(0, 5, 1, 0.1), "at least one example, got n=0"),
        (lambda: l2_margin_bound(10, 5, 1, 1.5), "between 0 and 1, got 1.5"),
        (lambda: margin_bound(np.ones(3), 0.0, 1.0, 0.1), "must be positive, got 0.0"),
        (lambda: margin_bound(np.ones(3), 0.5, -1.0, 0.1), "0 or more, got -1.0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(SpecError, match=message):
        call()


# The kernel regime of a wide factorisation


@given(st.integers(0, 10_000), st.floats(0.1, 1.0), st.floats(0.0, 0.9))
@settings(max_examples=12)
def test_a_wide_factorisation_stays_as_near_its_tangent_model_as_thm_9_says(seed, share, crooked):
    """Woodworth et al. 2020, Thm 9, by SciPy's integrator on random symmetric measurements of WWᵀ."""
    rng = np.random.default_rng(seed)
    d, k, n, mu = 3, 5, 3, 4.0
    X = rng.standard_normal((n, d, d))
    X = (X + X.transpose(0, 2, 1)) / 2
    eigenvalues = np.linalg.eigvalsh(X.reshape(n, -1) @ X.reshape(n, -1).T)
    least, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    # W(0)W(0)ᵀ = μI + γS with ‖S‖ = 1, and γ as large as `crooked` of what is allowed.
    gamma = crooked * mu * least / (4 * largest)
    S = np.diag([1.0, -1.0, 0.5])
    V, _ = np.linalg.qr(rng.standard_normal((k, d)))
    W0 = np.sqrt(mu + gamma * np.diag(S))[:, None] * V.T
    start = Start(d, k, 1.0, mu, gamma, 1.0, 1.0, least, largest)
    misfit = share * start.allowed
    start = dataclasses.replace(start, misfit=misfit)
    assert start.close
    assert start.fits
    away = rng.standard_normal(n)
    y = np.tensordot(X, W0 @ W0.T) + misfit * away / np.linalg.norm(away)

    def flow(t, w):
        W = w.reshape(d, k)
        return (-4 * np.tensordot(np.tensordot(X, W @ W.T) - y, X, axes=1) @ W).ravel()

    def tangent_flow(t, w):
        f = np.tensordot(X, W0 @ W0.T) + 2 * np.tensordot(X, (w.reshape(d, k) - W0) @ W0.T)
        return (-4 * np.tensordot(f - y, X, axes=1) @ W0).ravel()

    times = np.geomspace(1e-3, 50, 60) / (mu * largest)
    paths = [
        solve_ivp(f, (0, times[-1]), W0.ravel(), t_eval=times, rtol=1e-8, atol=1e-10, method="LSODA").y.T
        for f in (flow, tangent_flow)
    ]
    assert np.linalg.norm(paths[0] - W0.ravel(), axis=1).max() <= start.way
    assert np.linalg.norm(paths[0] - paths[1], axis=1).max() <= start.apart


def test_kernel_regression_moves_hidden_entries_as_the_nearest_parameters_that_fit_do():
    """By the Jacobian of UVᵀ written out, and the least change of (U, V) to first order that fits what is seen."""
    rng = np.random.default_rng(0)
    d, k = 4, 6
    U, V = rng.standard_normal((2, d, k))
    Y, hidden = rng.standard_normal((d, d)), rng.permutation(d * d).reshape(d, d) < 6
    J = np.zeros((d, d, 2, d, k))
    for i, j in itertools.product(range(d), repeat=2):
        J[i, j, 0, i], J[i, j, 1, j] = V[j], U[i]
    J = J.reshape(d * d, -1)
    seen = ~hidden.ravel()
    change = np.linalg.lstsq(J[seen], (Y - U @ V.T).ravel()[seen])[0]
    np.testing.assert_allclose(kernel_movement(U, V, Y, hidden), J[~seen] @ change, atol=1e-10)


def test_the_flow_of_a_random_problem_ends_as_small_steps_of_descent_do():
    problem = Tried(np.array([[1.0, 0.5, -0.3]]), np.array([1.0]), 1.0)
    w = np.full((2, 3), 0.3)
    for _ in range(20_000):
        gradient = 2 * problem.X.T @ (problem.X @ (w[0] ** 2 - w[1] ** 2) - problem.y)
        w -= 2e-4 * 2 * np.array([gradient, -gradient]) * w
    np.testing.assert_allclose(problem.flow(0.3), w[0] ** 2 - w[1] ** 2, rtol=1e-3)
