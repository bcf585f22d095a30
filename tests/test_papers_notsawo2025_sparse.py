"""Figs 7, 9, 12 and 24 of notsawo2025: their settings are the paper's, and what their checks use, a second way."""

import types

import jax
import numpy as np
import pytest
import xarray as xr

import afterfit as af
from afterfit import papers
from afterfit.papers.notsawo2025 import depth, fig7, fig12, fig24
from afterfit.papers.notsawo2025.recovery import descent, measured
from afterfit.theory._instance import posed


def _start(experiment):
    """X, y and the initial parameters, as one array, of an experiment that is not run."""
    instance = posed(experiment)
    with jax.enable_x64(True):
        arrays = [np.asarray(leaf, dtype=float) for leaf in jax.tree.leaves(instance.initial)]
    return np.asarray(instance.design), np.asarray(instance.targets), np.array(arrays)


def _said(id, group):
    """The settings at paper scale of a run, or of all runs of a group."""
    found = papers.find(f"notsawo2025/{id}").runs("paper")[group]
    return found.to_dict() if isinstance(found, af.Experiment) else [one.to_dict() for one in found.values()]


def test_paper_scale_of_fig7_is_the_notebook_s_and_the_caption_s():
    run, descent = _said("fig7", "run"), _said("fig7", "descent")
    assert (run["task"]["n"], run["task"]["sparsity"], run["task"]["N"], run["task"]["snr"]) == (100, 5, 30, 1e8)
    assert (run["penalty"]["kind"], run["penalty"]["strength"]) == ("L2", 1e-5)
    assert run["dynamics"]["until"] == pytest.approx(0.1 * 10**8)  # 10⁸ steps of 0.1
    assert (run["init"]["kind"], run["init"]["scale"]) == ("Constant", 10.0)
    assert (descent["dynamics"]["lr"], descent["dynamics"]["steps"]) == (0.1, 10**8)
    assert descent["penalty"] == run["penalty"]
    norms = [
        np.linalg.norm(_start(one)[2]) for one in papers.find("notsawo2025/fig7").runs("paper")["caption"].values()
    ]
    assert np.sqrt(np.mean(np.square(norms))) == pytest.approx(10, rel=0.1)


def test_paper_scale_of_fig9_is_appendix_f1():
    sizes = _said("fig9", "sizes")
    assert {(one["model"]["depth"], one["task"]["N"]) for one in sizes} == {
        (L, N) for L in (1, 2, 3, 4) for N in range(10, 101, 10)
    }
    for one in sizes:
        assert (one["task"]["n"], one["task"]["sparsity"], one["penalty"]["strength"]) == (100, 5, 0.0)
        assert (one["dynamics"]["lr"], one["dynamics"]["steps"]) == (0.1, 10**6)
        assert one["init"]["scale"] == (1e-6 if one["model"]["depth"] == 1 else 1e-2)
    assert {one["init"]["scale"] for one in _said("fig9", "equal")} == {1e-2}
    assert {one["init"]["scale"] for one in _said("fig9", "text")} == {1e-2 / np.sqrt(100)}
    assert {(one["init"]["scale"], one["penalty"]["strength"]) for one in _said("fig9", "large")} == {(1.0, 1e-5)}
    for one in _said("fig9", "draws") + _said("fig9", "pairs"):  # in the parameters: `dual` would assume the claims
        assert one["dynamics"]["method"] == ("exact" if one["model"]["depth"] == 1 else "implicit")


def test_paper_scale_of_fig12_and_fig24():
    sizes = _said("fig12", "sizes")
    assert {(one["dynamics"]["kind"], one["task"]["sparsity"], one["task"]["N"]) for one in sizes} == {
        (kind, s, N)
        for kind in ("ProjectedSubgradient", "ProximalGradient")
        for s in (1, 5, 10, 15)
        for N in range(10, 101, 10)
    }
    ways = _said("fig24", "descents")
    assert {one["task"]["N"] for one in ways} == set(range(10, 71, 10))
    for one in (*sizes, *ways):
        assert (one["task"]["n"], one["penalty"]["strength"], one["init"]["scale"]) == (100, 1e-5, 1e-6)
        assert (one["dynamics"]["lr"], one["dynamics"]["steps"]) == (0.1, 10**6)
    assert {one["task"]["snr"] for one in ways} == {1e8}


def test_ridge_descent_is_its_closed_form():
    """a_k − â = (1 − αQ)^k (a₀ − â), (113)–(115), by powers of eigenvalues."""
    experiment = descent(measured(20, 2, 8, snr=1e8), 0.1, 1e-3, 100_000, seed=3, observations=100).set(
        {"penalty": {"kind": "L2", "strength": 1e-3}, "init": {"kind": "Constant", "scale": 10.0}}
    )
    run = af.run_experiment(experiment)
    X, y, (start,) = _start(experiment)
    values, vectors = np.linalg.eigh(X.T @ X + 1e-3 * np.eye(20))
    end = vectors @ ((vectors.T @ (X.T @ y)) / values)
    for step, a in zip(run.curves["step"].values, run.curves["weights"].values, strict=True):
        expected = end + vectors @ ((1 - 0.1 * values) ** step * (vectors.T @ (start - end)))
        np.testing.assert_allclose(a, expected, rtol=1e-9, atol=1e-9)
    assert fig7._converges(run, 1 - 0.1 * values[0]).holds
    # Half-way of what is left after the fit, by the same closed form: e^{−βt} = ½.
    assert fig7._half_after_fit(run, "norm_l2") == pytest.approx(np.log(2), rel=0.05)


@pytest.mark.parametrize("with_data", [False, True])
def test_the_projected_step_forgets_the_gradient_of_the_data(with_data):
    """The notebook's step takes it along and the text's does not: both are the library's."""
    experiment = fig12._by("projected", descent(measured(20, 2, 8), 0.1, 1e-2, 300, seed=3, observations=30))
    run = af.run_experiment(experiment)
    X, y, (a,) = _start(experiment)
    seen = [a]
    for _ in range(300):
        gradient = 1e-2 * np.sign(a) + (X.T @ (X @ a - y) if with_data else 0)
        moved = a - 0.1 * gradient
        a = moved - X.T @ np.linalg.solve(X @ X.T, X @ moved - y)
        seen.append(a)
    steps = run.curves["step"].values[:12]  # later, rounding decides the signs of what is at 0
    np.testing.assert_allclose(run.curves["weights"].values[:12], np.array(seen)[steps], atol=1e-12)


@pytest.mark.parametrize("L", [2, 3])
@pytest.mark.parametrize("start", ["Constant", "Gaussian"])
def test_the_product_s_descent_is_118(L, start):
    """All factors at once, as (118); equal positive ones stay equal and positive."""
    experiment = descent(measured(20, 3, 12), 0.1, 0.0, 3000, seed=5, observations=30).set(
        {
            "model": {"kind": "DiagonalProduct", "depth": L},
            "penalty": {"kind": "L2", "strength": 1e-3},
            "init": {"kind": start, "scale": 0.1},
        }
    )
    run = af.run_experiment(experiment)
    X, y, A = _start(experiment)
    seen = [A.prod(axis=0)]
    for _ in range(3000):
        G = X.T @ (X @ A.prod(axis=0) - y)
        others = np.array([np.delete(A, k, axis=0).prod(axis=0) for k in range(L)])
        A = (1 - 0.1 * 1e-3) * A - 0.1 * others * G
        seen.append(A.prod(axis=0))
    np.testing.assert_allclose(run.curves["weights"].values, np.array(seen)[run.curves["step"].values], atol=1e-10)
    held = depth.stays_positive({depth.Draw(L, seed): run for seed in range(5)}).holds
    assert held == (start == "Constant")
    assert not depth.stays_positive({depth.Draw(L, 5): run}).holds  # on too few draws


def test_the_plane_of_fig24_is_a_right_angle():
    run = af.run_experiment(descent(measured(20, 2, 8), 0.1, 1e-3, 2000, seed=3, observations=20))
    way = fig24._Way.of(run)
    u, v = way.plane(way.a)
    np.testing.assert_allclose(np.hypot(u, v), np.linalg.norm(way.a, axis=1))
    assert way.plane(run.data.truth)[1] == 0
    X, y = run.data.inputs, run.data.targets
    np.testing.assert_allclose(way.least_squares, X.T @ np.linalg.solve(X @ X.T, y))
    kept = way._replace(a=af.theory.lasso(X, y, 1e-3)[None])
    assert kept.excess == pytest.approx(0, abs=1e-6)
    assert way.excess > 0


def _falling(errors, seed=0):
    """A run of which nothing is known but its errors."""
    time = np.geomspace(1.0, 1e4, len(errors))
    curves = {
        name: xr.DataArray(np.asarray(errors, dtype=float), dims="time") for name in ("train_error", "test_error")
    }
    return types.SimpleNamespace(curves=xr.Dataset(curves, coords={"time": time}))


def test_stairs_are_told_from_a_slope():
    log_t = np.linspace(0, 4, 81)
    slope, tail = 10 ** (-log_t / 2), np.where(log_t < 1, 1.0, 0.01)  # at the end it may rest
    two = np.select([log_t < 1, log_t < 2, log_t < 3], [1.0, 0.5, 0.1], 0.001)
    counts = [depth._plateaus(10**log_t, errors) for errors in (slope, tail, two)]
    assert counts == [0, 0, 2]
    smooth, stairs = [_falling(slope)] * 8, [_falling(two)] * 8
    assert depth.stairs(smooth, {3: stairs}).holds
    assert not depth.stairs(smooth, {3: smooth}).holds
    assert not depth.stairs(smooth[:2], {3: stairs[:2]}).holds  # too few draws
    abrupt = {depth.Draw(L, seed): run for L, runs in ((2, smooth), (3, stairs)) for seed, run in enumerate(runs)}
    assert depth.is_abrupt(abrupt, 2, (3,)).holds
    assert not depth.is_abrupt(abrupt, 3, (2,)).holds


def test_recovery_by_a_time_is_asked_of_the_share_of_draws():
    late = _falling(np.where(np.linspace(0, 4, 81) < 2, 1.0, 0.1))  # from t = 100 on
    draws = {depth.Draw(2, seed): late for seed in range(6)}
    assert depth.recover_by(draws, 2, 1000.0).holds
    assert not depth.recover_by(draws, 2, 50.0).holds
    assert not depth.recover_by({draw: run for draw, run in draws.items() if draw.seed < 5}, 2, 1000.0).holds


def test_least_squares_from_more_measurements_are_those_of_the_same_draw():
    run = af.run_experiment(descent(measured(20, 3, 12), 0.1, 0.0, 10, seed=5, observations=5))
    data = descent(measured(20, 3, 18), 0.1, 0.0, 10, seed=5).draw()
    np.testing.assert_array_equal(data.truth, run.data.truth)
    X, y = data.inputs, data.targets
    expected = np.linalg.norm(X.T @ np.linalg.solve(X @ X.T, y) - data.truth) / np.linalg.norm(data.truth)
    assert depth.squares_error(run, 18) == pytest.approx(expected)
    assert depth.squares_error(run, 18) < depth.squares_error(run)
