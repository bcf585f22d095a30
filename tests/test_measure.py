"""What entries of the gallery measure alike."""

import numpy as np
import pytest
from scipy.stats import binom

from afterfit.papers._measure import power_law, share


def test_intervals_of_exponents_cover_the_true_one_as_often_as_they_say():
    """Of 1000 noisy laws 95 % are to be covered; 3 standard deviations of that count are 2 %."""
    rng = np.random.default_rng(0)
    x = np.geomspace(1e-3, 1, 7)
    laws = [power_law(x, 3 * x**-1.5 * np.exp(0.2 * rng.standard_normal(7))) for _ in range(1000)]
    covered = np.mean([law.holds(-1.5) for law in laws])
    assert covered == pytest.approx(0.95, abs=0.021)
    assert np.mean([law.holds(-1.0) for law in laws]) < 0.05  # and a wrong law is not
    assert str(power_law(x, 3 * x**-1.5)) == "-1.5 in [-1.5, -1.5]"


@pytest.mark.parametrize(("hits", "of"), [(0, 10), (3, 10), (10, 10), (50, 60)])
def test_the_ends_of_a_share_are_where_its_tails_are_2_5_per_cent(hits, of):
    found = share(hits, of)
    assert found.value == hits / of
    if hits > 0:
        assert binom.sf(hits - 1, of, found.low) == pytest.approx(0.025)
    if hits < of:
        assert binom.cdf(hits, of, found.high) == pytest.approx(0.025)
