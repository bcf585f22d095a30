"""Scaling laws with censored times, against least squares, SciPy's censored likelihood, and known truths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

from afterfit._base.errors import SpecError
from afterfit._sweeps.laws import fit_power_law


def runs_until(end: float, x: np.ndarray, seeds: int, rng: np.random.Generator, scatter: float = 0.5, exponent=-1.0):
    """Times of t = e²·xᵖ cut off at `end`, with what a seed shares over x (0.3 in logs) and what it does not."""
    shared = 0.3 * scatter / 0.5 * rng.normal(size=seeds)
    log_t = 2 + exponent * np.log(x)[:, None] + shared + scatter * rng.normal(size=(len(x), seeds))
    return np.exp(np.minimum(log_t, math.log(end))), log_t > math.log(end)


def test_without_censoring_it_is_least_squares_in_logs():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 10, 7)
    t, censored = runs_until(1e9, x, 4, rng)
    law = fit_power_law(x, t, censored)
    log_x = np.repeat(np.log(x), 4)
    line = np.polyfit(log_x, np.log(t).ravel(), 1)
    np.testing.assert_allclose([law.exponent, law.log_constant], line, rtol=1e-12)
    np.testing.assert_allclose(law.sigma, np.std(np.log(t).ravel() - np.polyval(line, log_x)), rtol=1e-12)
    assert (law.n, law.n_censored, law.seeds) == (28, 0, 4)
    np.testing.assert_allclose(law(x), law.constant * x**law.exponent, rtol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.floats(-3, 3), st.floats(0.05, 3), st.floats(0.5, 0.9))
def test_with_censoring_it_is_the_maximum_of_scipys_likelihood(seed, exponent, scatter, quantile):
    rng = np.random.default_rng(seed)
    x = np.logspace(-2, 2, 6)
    everything, _ = runs_until(1e300, x, 3, np.random.default_rng(seed), scatter, exponent)
    # At least half the runs get there: at three values of x or more.
    t, censored = runs_until(float(np.quantile(everything, quantile)), x, 3, rng, scatter, exponent)
    law = fit_power_law(x, t, censored, resamples=100)

    def likelihood(exponent: float, log_constant: float, sigma: float) -> float:
        away = np.log(t) - log_constant - exponent * np.log(x)[:, None]
        return norm.logpdf(away[~censored], scale=sigma).sum() + norm.logsf(away[censored], scale=sigma).sum()

    best = minimize(
        lambda free: -likelihood(free[0], free[1], math.exp(free[2])),
        [1.0, 1.0, 1.0],  # a simplex of a sensible size
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 4000, "maxfev": 4000},
    )
    # A simplex ends near the maximum, not at it: it must not be above ours, and near in every parameter.
    assert likelihood(law.exponent, law.log_constant, law.sigma) >= -best.fun - 1e-9
    found = [law.exponent, law.log_constant, math.log(law.sigma)]
    np.testing.assert_allclose(found, best.x, rtol=1e-4, atol=1e-4)


def test_intervals_cover_and_dropping_censored_runs_is_biased():
    rng = np.random.default_rng(1)
    x, draws, level = np.logspace(-4, -2, 6), 300, 0.95
    covered, ours, dropped = [], [], []
    for _ in range(draws):
        t, censored = runs_until(2e4, x, 5, rng)
        law = fit_power_law(x, t, censored, level=level, resamples=200)
        assert law.interval is not None
        covered.append(law.interval[0] <= -1 <= law.interval[1])
        ours.append(law.exponent)
        log_x = np.broadcast_to(np.log(x)[:, None], t.shape)
        dropped.append(np.polyfit(log_x[~censored], np.log(t[~censored]), 1)[0])
    error = 3 * math.sqrt(level * (1 - level) / draws)  # three standard errors of a binomial share
    assert abs(np.mean(covered) - level) < error
    standard_error = np.std(ours) / math.sqrt(draws)
    assert abs(np.mean(ours) + 1) < 3 * standard_error
    assert np.mean(dropped) + 1 > 10 * standard_error  # too flat: the slow runs are those that are missing


@pytest.mark.parametrize("end", [math.inf, 1e5, 2e3])
def test_an_exact_law_comes_out_exact_whatever_was_censored(end):
    x = np.logspace(-4, 0, 9)
    t = np.repeat(7 * x[:, None] ** -1.25, 3, axis=1)
    law = fit_power_law(x, np.minimum(t, end), t > end)  # whole columns censored at the smallest x
    assert law.exponent == pytest.approx(-1.25, rel=1e-12)
    assert law.constant == pytest.approx(7, rel=1e-12)
    assert law.sigma == pytest.approx(0, abs=1e-12)
    assert law.interval == pytest.approx((-1.25, -1.25), rel=1e-10)


def test_a_censored_run_above_an_exact_line_bends_it():
    # The seen points lie on t = 1/x, but at x = 0.01 nothing had happened at ten times that.
    law = fit_power_law([1, 0.1, 0.01], [1.0, 10.0, 1000.0], [False, False, True])
    assert law.exponent < -1
    assert law.sigma > 0
    # One that ended long before says nothing.
    silent = fit_power_law([1, 0.1, 0.01], [1.0, 10.0, 1.0], [False, False, True])
    assert silent.exponent == pytest.approx(-1, rel=1e-12)


def test_units_change_the_constant_only():
    t, censored = runs_until(2e4, x := np.logspace(-4, -2, 6), 4, np.random.default_rng(3))
    law, scaled = fit_power_law(x, t, censored), fit_power_law(10 * x, 60 * t, censored)
    assert scaled.exponent == pytest.approx(law.exponent, rel=1e-9)
    assert scaled.interval == pytest.approx(law.interval, rel=1e-6)
    assert scaled.constant == pytest.approx(60 * law.constant * 10**-law.exponent, rel=1e-9)
    np.testing.assert_allclose(np.array(scaled.band(10 * x)), 60 * np.array(law.band(x)), rtol=1e-6)


def test_the_bootstrap_of_a_linear_estimate_is_students_interval():
    # With every seed on its own exact power law, the exponent is the mean of the seeds' exponents.
    exponents = np.array([-1.1, -0.9, -1.3, -1.0])
    x = np.logspace(-2, 2, 5)
    law = fit_power_law(x, x[:, None] ** exponents, np.zeros((5, 4), bool), resamples=100_000)
    half = 3.182446 * exponents.std(ddof=1) / 2  # Student's 97.5 % quantile with three degrees of freedom
    # 100 000 resamples know a standard deviation to about 0.3 %.
    assert law.interval == pytest.approx((exponents.mean() - half, exponents.mean() + half), rel=0.01)


def test_what_too_few_seeds_leave_open_is_said():
    one = fit_power_law([1, 2, 4], [1.0, 2.1, 3.9], [False] * 3)
    assert one.interval is None
    assert one.band([1.0]) is None
    assert "one seed" in one.describe()
    t = [[1.0, 1.1, 0.9], [2.0, 1.5, 1.5]]
    with pytest.raises(SpecError, match=r"too few of the 3 seeds to have a finite interval.*more seeds"):
        fit_power_law([1, 2], t, [[False] * 3, [False, True, True]])  # it hangs on one run of three at x = 2


def test_runs_that_are_left_out_count_for_nothing():
    t, censored = runs_until(2e4, x := np.logspace(-4, -2, 6), 4, np.random.default_rng(3))
    law = fit_power_law(x, t, censored)
    assert law.n_censored > 0
    # A diverged run is not one that ended early: as censored it would only be silent, with these values it would bend.
    wider = np.concatenate([t, np.full((6, 1), 0.1)], axis=1)
    more = np.concatenate([t, np.full((1, 4), np.nan)])
    for x_, t_, shape in ((x, wider, (6, 5)), (np.append(x, 1.0), more, (7, 4))):
        left_out = np.ones(shape, bool)
        left_out[:6, :4] = False
        flags = np.zeros(shape, bool)
        flags[:6, :4] = censored
        other = fit_power_law(x_, t_, flags, left_out)
        assert (other.exponent, *other.interval) == pytest.approx((law.exponent, *law.interval), rel=1e-9)
        assert (other.n, other.n_censored, other.seeds) == (law.n, law.n_censored, law.seeds)
        assert f"{other.n_left_out} more broke down" in other.describe()
    with pytest.raises(SpecError, match=r"no run got there before its end \(2 diverged\)"):
        fit_power_law([1, 2], [1.0, 1.0], [False] * 2, [True] * 2)


@pytest.mark.parametrize(
    ("x", "t", "censored", "words"),
    [
        ([1, 2], [5.0, 5.0], [True, True], "run longer"),
        ([1, 2], [5.0, 5.0], [False, True], "one value of x only .1.0."),
        ([1, 1], [5.0, 6.0], [False, False], "one value of x only"),
        ([0, 2], [5.0, 5.0], [False, False], "positive, finite x, got 0"),
        ([1, 2], [5.0, math.nan], [False, False], "mark it in censored"),
        ([1, 2], [5.0, -1.0], [False, False], "positive, finite t, got -1"),
        ([1, 2], [[5.0, 1.0]], [[False, False]], r"shape \(2, seeds\)"),
        ([1, 2], [5.0, 1.0], [False], "shape of t"),
    ],
)
def test_what_has_no_law_is_refused_in_words(x, t, censored, words):
    with pytest.raises(SpecError, match=words):
        fit_power_law(x, t, censored)
