"""What the entries of notsawo2025 read off runs: when an error is at its plateau, and laws within groups."""

import numpy as np
import pytest

from afterfit.papers._measure import power_law
from afterfit.papers.notsawo2025.recovery import power_law_within, settling_step

STEPS = np.concatenate([[0], np.geomspace(1, 1e4, 400)])


def test_it_is_where_the_error_comes_within_five_percent_of_its_end():
    falling = 1e-3 + np.exp(-STEPS / 100)
    assert settling_step(STEPS, falling) == pytest.approx(100 * np.log(1 / (0.05 * 1e-3)), rel=0.01)


def test_passing_by_is_not_settling():
    passing = np.where(STEPS < 500, 1e-3 * (1000 / np.maximum(STEPS, 1)) ** 3, np.where(STEPS < 2000, 2e-4, 1e-3))
    assert settling_step(STEPS, passing) == pytest.approx(2000, rel=0.03)


def test_an_error_that_still_falls_has_not_settled():
    assert settling_step(STEPS, 1 / (1 + STEPS**3)) == np.inf


def test_an_error_that_never_moved_is_settled_from_the_start():
    assert settling_step(STEPS, np.ones_like(STEPS)) == 0


def test_a_law_within_one_group_is_the_law_of_its_points():
    rng = np.random.default_rng(0)
    points = [(x, 3 * x**-1.5 * np.exp(0.2 * rng.standard_normal())) for x in np.geomspace(1e-3, 1, 7)]
    within = power_law_within([points], lambda point: point[0], lambda point: point[1])
    np.testing.assert_allclose(within, power_law(*map(list, zip(*points, strict=True))), rtol=1e-12)


def test_a_law_within_groups_leaves_out_their_constants():
    """Of 1000 noisy laws 95 % are to be covered, though the constants of groups are much further apart."""
    rng, x = np.random.default_rng(0), np.geomspace(1e-3, 1, 3)
    covered = []
    for _ in range(1000):
        groups = [[(a, c * a * np.exp(0.2 * rng.standard_normal())) for a in x] for c in (1.0, 1e2, 1e4, 1e6)]
        covered.append(power_law_within(groups, lambda point: point[0], lambda point: point[1]).holds(1))
    assert np.mean(covered) == pytest.approx(0.95, abs=0.021)
