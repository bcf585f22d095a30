"""What entries read off curves."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from afterfit.papers._measure import first_step


@given(
    exponent=st.floats(0.2, 3.0),
    constant=st.floats(0.1, 10.0),
    level=st.floats(1e-3, 1e-1),
    observations=st.integers(5, 60),
)
def test_the_first_step_of_a_power_law_is_where_the_law_says(exponent, constant, level, observations):
    steps = np.concatenate([[0.0], np.geomspace(1, 1e6, observations)])
    values = np.concatenate([[2 * constant], constant * steps[1:] ** -exponent])
    law = (constant / level) ** (1 / exponent)
    found = first_step(steps, values, level)
    if law > 1e6:
        assert found == math.inf
    else:  # at most the first observed step after 0, where there is nothing to interpolate from
        assert math.isclose(found, max(law, 1.0), rel_tol=1e-9)


def test_a_curve_that_starts_below_is_there_at_its_first_step():
    assert first_step(np.array([0, 1, 10]), np.array([0.1, 0.5, 0.01]), 0.2) == 0
