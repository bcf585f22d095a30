"""Woodworth et al. 2020, Fig. 7: its setting, and what its helpers compute in a second way."""

import jax
import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.optimize import linprog

import afterfit as af
from afterfit.papers._measure import slope_variation
from afterfit.papers.woodworth2020 import fig7
from afterfit.papers.woodworth2020.drawn_points import Drawn, least_on_draws, points, spline_on_draws
from afterfit.papers.woodworth2020.univariate import (
    GRID,
    infinite_width_kernel,
    interpolation,
    least_variation,
    natural_cubic_spline,
    nearest_cubic_spline,
    outputs,
    tangent_interpolant,
)


def _posed(net):
    """A net of the figure, before it is trained."""
    return af.theory.posed(fig7._descent(net, interpolation(fig7._X, fig7._Y), 10))


def test_paper_scale_is_the_ledger_s_setting():
    """k = 10⁴ units, unbiased, in the three panels, with w₁, b₁ and w₂ of the caption's sizes."""
    runs = fig7.Fig7().runs("paper")
    assert {net.k for net in runs["nets"]} == {10_000}
    assert {net.panel for net in runs["nets"]} == {"a", "b", "c"}
    assert len({net.seed for net in runs["nets"]}) == 5
    sizes = {}
    for panel in "abc":
        net = fig7.Net(panel, 10_000, 30.0, 0)
        first, last = jax.tree.map(np.asarray, _posed(net).initial)["layers"]
        assert last["bias"] == 0
        np.testing.assert_allclose(outputs({"layers": [first, last]}, fig7._X), 0, atol=1e-12)
        sizes[panel] = [np.std(array) / net.alpha for array in (first["weight"], first["bias"], last["weight"])]
    np.testing.assert_allclose(sizes["a"], [1, 1, np.sqrt(2 / 10_000)], rtol=0.03)
    np.testing.assert_allclose(sizes["c"], [np.sqrt(2 / 10_000), np.sqrt(2 / 10_000), 1], rtol=0.03)
    # Changed without changing the scale of the output: the product of the sizes stays.
    assert [s[0] * s[2] for s in sizes.values()] == pytest.approx([np.sqrt(2 / 10_000)] * 3, rel=0.05)


@pytest.mark.parametrize("panel", ["a", "b", "c"])
def test_kernel_of_infinite_width(panel):
    """The mean over draws of tangent kernels of finite nets, by derivatives."""
    net = fig7.Net(panel, 1000, 20.0, 0)
    with jax.enable_x64(True):
        kernels = [_posed(net._replace(seed=seed)).kernel for seed in range(30)]
    expected = infinite_width_kernel(fig7._X, fig7._X, net.k, net.alpha, net.c)
    error = np.std(kernels, axis=0) / np.sqrt(len(kernels) - 1)
    assert np.all(np.abs(np.mean(kernels, axis=0) - expected) < 4.5 * error)
    assert np.max(error) < 0.05 * np.max(expected)  # or it would say nothing


def test_interpolant_of_a_net_s_tangent_kernel():
    """As the library's own predictor, which differentiates the model."""
    instance = _posed(fig7.Net("b", 200, 5.0, 3))
    with jax.enable_x64(True):
        predictor = af.theory.kernel_predictor(instance)
        expected = np.asarray(predictor.model(predictor.params, GRID[:, None]))
        values = np.asarray(instance.model(predictor.params, GRID[:, None]))
    np.testing.assert_allclose(tangent_interpolant(instance.initial, fig7._X, fig7._Y, GRID), expected, atol=1e-8)
    np.testing.assert_allclose(outputs(predictor.params, GRID), values, atol=1e-10)


@pytest.mark.parametrize("draw", range(4))
def test_least_variation(draw):
    """min Σ|change of slope| over functions on a grid through the points, by a linear program."""
    x, y = points(draw)
    grid = np.unique(np.concatenate([x, np.linspace(-1, 1, 41)]))
    slopes = np.diff(np.eye(len(grid)), axis=0) / np.diff(grid)[:, None]
    turns = np.diff(slopes, axis=0)
    m, n = turns.shape
    # |turns·f| ≤ s, with the least Σs.
    found = linprog(
        np.r_[np.zeros(n), np.ones(m)],
        A_ub=np.block([[turns, -np.eye(m)], [-turns, -np.eye(m)]]),
        b_ub=np.zeros(2 * m),
        A_eq=np.hstack([np.eye(n)[np.searchsorted(grid, x)], np.zeros((len(x), m))]),
        b_eq=y,
        bounds=(None, None),
    )
    assert found.fun == pytest.approx(least_variation(x, y), rel=1e-7)
    assert slope_variation(grid, np.interp(grid, x, y)) == pytest.approx(least_variation(x, y))


def test_the_points_turn_up_and_down_by_turns():
    """So that the linear spline alone has the least variation; and its kinks are on the grid."""
    turns = np.diff(np.diff(fig7._Y) / np.diff(fig7._X))
    assert np.all(turns[1:] * turns[:-1] < 0)
    assert set(fig7._X) <= set(GRID.round(12))


def test_cubic_splines():
    """The natural one as SciPy's; the nearest by a constrained fit of truncated powers, whose knots are the points."""
    x, y = fig7._X, fig7._Y
    natural = CubicSpline(x, y, bc_type="natural")(GRID)
    np.testing.assert_allclose(natural_cubic_spline(x, y, GRID), natural, atol=1e-12)

    def powers(at):
        return np.concatenate([at[:, None] ** np.arange(4), np.maximum(at[:, None] - x[1:-1], 0) ** 3], axis=1)

    f = np.interp(GRID, x, y)
    A, B = powers(GRID), powers(x)
    conditions = np.block([[A.T @ A, B.T], [B, np.zeros((len(x), len(x)))]])
    coefficients = np.linalg.solve(conditions, np.r_[A.T @ f, y])[: A.shape[1]]
    np.testing.assert_allclose(nearest_cubic_spline(x, y, GRID, f), A @ coefficients, atol=1e-8)


@pytest.mark.parametrize("k", [2000, 10_000])
def test_which_relative_scales_give_other_cubic_splines(k):
    """By a grid of c: nearer to a cubic spline than to the linear one, and 2 % from (a)."""
    net = fig7.Net("a", k, fig7._LARGE, 0)
    c = np.geomspace(0.1, 1, 400)
    fs = [fig7._kernel(net, one) for one in c]
    nearer, natural = (
        [fig7._distance(f, cubic(f)) < fig7._distance(f, fig7._SPLINE) for f in fs]
        for cubic in (fig7._nearest_cubic, lambda f: fig7._cubic())
    )
    other = [fig7._distance(f, fig7._kernel(net)) > 0.02 for f in fs]
    found = fig7._other_cubics(k)
    np.testing.assert_allclose([c[nearer][0], c[natural][0], c[other][-1]], found, rtol=0.01)
    for holds in (nearer, natural, np.logical_not(other)):  # from one c on
        assert list(holds) == sorted(holds)
    assert found[1] < fig7.Net("b", k, 1.0, 0).c < found[2]


def test_nets_that_do_not_fit_are_no_evidence():
    """They vary less than any function through the points, and must not count."""
    x, y = points(0)
    drawn = Drawn(x, y, np.interp(GRID, x, y), 0.0, 0.0)
    unfitted = drawn.shrunk(0.99)
    assert unfitted.loss == pytest.approx(1e-4 * np.sum(y**2))
    assert unfitted.variation == pytest.approx(0.99, rel=0.01)
    assert least_on_draws([drawn, drawn, unfitted]).holds
    assert not least_on_draws([drawn, unfitted]).holds
    assert not spline_on_draws([drawn, unfitted]).holds
