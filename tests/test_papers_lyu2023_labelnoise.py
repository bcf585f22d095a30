"""lyu2023/labelnoise: its setting, and what its checks compute, a second way."""

from __future__ import annotations

import jax
import numpy as np

from afterfit import papers
from afterfit.papers.lyu2023 import labelnoise
from afterfit.papers.lyu2023.labelnoise import corrected_law


def test_the_setting_is_that_of_theorem_b1():
    entry = papers.find("lyu2023/labelnoise")
    runs = entry.runs("paper")
    for experiment in entry.experiments("paper").values():
        task, model, init = (experiment.to_dict()[noun] for noun in ("task", "model", "init"))
        assert (task["kind"], task["design"], task["noise_variance"]) == ("SparseRegression", "gaussian", 0.0)
        assert (model["kind"], model["depth"], init["kind"]) == ("DiagonalNet", 2, "Constant")
    noisy = [experiment.to_dict() for experiment in runs["noisy"].values()]
    assert {(e["dynamics"]["kind"], e["dynamics"]["noise"], e["penalty"]["kind"]) for e in noisy} == {
        ("LabelNoiseSGD", 1.0, "NoPenalty")
    }
    steps = {e["dynamics"]["lr"] for e in noisy}
    assert np.isclose(max(steps) / min(steps), 100)
    n, d, sparsity = (noisy[0]["task"][name] for name in ("n", "d", "sparsity"))
    assert 2 * sparsity * np.log(d) <= n <= d / 2
    assert len({e["seed"] for e in noisy}) == 1  # the same data, many seeds of the noise
    assert len({at.data for at in runs["late"]}) >= 20


def test_the_law_with_its_first_correction_is_found_and_its_interval_covers():
    η = np.geomspace(5e-3, 5e-4, 6)
    exact = corrected_law(η, 0.1 * η**-2 * np.exp(40 * η))
    np.testing.assert_allclose([exact.power.value, exact.slope, exact.factor], [-2, 40, 0.1], rtol=1e-9)
    rng = np.random.default_rng(0)
    covered = [
        corrected_law(η, 0.1 * η**-2 * np.exp(40 * η + 0.02 * rng.standard_normal(6))).power.holds(-2)
        for _ in range(400)
    ]
    assert 0.92 <= np.mean(covered) <= 0.98  # 95 %, with a standard error of 1.1 %


def test_half_the_trace_of_the_hessian_is_weight_decay_with_the_mean_squares_of_the_inputs():
    rng = np.random.default_rng(1)
    X, u, v = rng.standard_normal((5, 8)), rng.standard_normal(8), rng.standard_normal(8)
    y = X @ (u**2 - v**2)  # fitted
    with jax.enable_x64(True):
        hessian = jax.hessian(lambda θ: ((X @ (θ[:8] ** 2 - θ[8:] ** 2) - y) ** 2).mean())(np.concatenate([u, v]))
    found = labelnoise._half_trace({"plus": u, "minus": v}, X)
    np.testing.assert_allclose(found, np.trace(hessian) / 2, rtol=1e-12)
