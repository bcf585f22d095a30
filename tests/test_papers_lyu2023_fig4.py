"""lyu2023/fig4: its setting is the ledger's, and what it measures is computed a second way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import afterfit as af
from afterfit.papers.lyu2023 import fig2a, fig4


def test_paper_scale_is_the_ledger_s_setting():
    runs = fig4.Fig4().experiments("paper")
    assert set(runs) == {"run", "far 5", "far 6", "descent", "decayed"}
    assert runs["far 5"].dynamics.end == 1e4
    for name in ("run", "descent"):
        spec = runs[name].to_dict()
        assert (spec["task"]["p"], spec["task"]["fraction"]) == (97, 0.4)
        assert spec["model"]["hidden"] == [1024]
        assert spec["model"]["biases"] == "hidden"
        assert spec["init"]["kind"] == "He"
        assert spec["penalty"]["strength"] == 0
    assert runs["run"].dynamics.kind == "LossScaledFlow"
    assert runs["run"].dynamics.end >= 1e3
    assert runs["descent"].dynamics.kind == "LossScaledDescent"
    assert runs["decayed"].id == fig2a.Fig2a().experiments("paper")["run"].id, "that of Fig. 2a, which verify shares"


@pytest.fixture(scope="module")
def small() -> af.Run:
    """A model of degree 2 without kinks, far beyond the largest number, with its margins observed."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(8, 6))
    y = np.sign(X @ rng.normal(size=6))
    return af.train(
        task=af.tasks.Arrays(X, y, X, y, loss_name="logistic"),
        model=af.models.DiagonalNet(),
        init=af.inits.Gaussian(0.5),
        dynamics=af.dynamics.LossScaledFlow(400.0, first=0.1),
        observe={"margin": af.quantities.Margin()},
        observations=50,
        checkpoints=51,
    )


def test_the_smoothed_margin_is_a_little_below_the_margin(small):
    smoothed = fig4._margins(small)
    margin = small.curves["margin"].values[-len(smoothed) :]
    assert np.all(smoothed <= margin * (1 + 1e-9))
    slack = (np.log(8) + 1) / small.curves["norm_l2"].values[-len(smoothed) :] ** 2
    assert np.all(margin - smoothed <= slack), "by log n over ‖θ‖², and little more"
    assert fig4._widens([smoothed]).holds


def test_the_way_between_checkpoints_is_the_gradient_where_there_are_no_kinks(small):
    of = fig4._directions(small)
    assert len(of.residual) == len(of.at) - 1 >= 20
    off = np.abs(of.residual - 0.5 * (of.residual_at[1:] + of.residual_at[:-1]))
    assert np.quantile(off, 0.9) < 0.02, "but where it turns quickly between two of them"


def test_the_residual_is_the_least_over_all_factors():
    rng = np.random.default_rng(0)
    θ, way = rng.normal(size=(2, 7))
    for sign in (1, -1):
        way = sign * np.sign(θ @ way) * way
        least = minimize_scalar(lambda c: np.linalg.norm(θ - c * way), bounds=(0, 10), method="bounded").fun  # noqa: B023
        np.testing.assert_allclose(fig4._apart(θ, way), least / np.linalg.norm(θ), rtol=1e-4)


def test_levels_are_reached_between_observations(small):
    times = small.curves["log10_time"].values[1:]
    accuracy = small.curves["test_accuracy"].values[1:]
    k = int(np.argmax(accuracy >= 0.99))
    assert times[k - 1] <= fig4._reached(small, 0.99) <= times[k]
    assert fig4._reached(small, 1.1) == np.inf
    assert fig4._accuracy(small, float(times[3])) == accuracy[3]


def test_slackness_is_that_of_the_gradient_of_the_loss():
    """Weights by finite differences of log L in the margins, of two classes and of three."""
    rng = np.random.default_rng(5)
    scores, labels = rng.normal(size=(6, 3)), rng.integers(0, 3, 6)

    def log_loss(s):
        return np.log(np.mean(np.log(np.sum(np.exp(s - s[np.arange(6), labels][:, None]), axis=1))))

    step = 1e-6
    slopes = []
    for i in range(6):
        up, down = scores.copy(), scores.copy()
        up[i, labels[i]] += step
        down[i, labels[i]] -= step
        slopes.append((log_loss(down) - log_loss(up)) / (2 * step))
    q = [s[y] - np.log(np.sum(np.exp(np.delete(s, y)))) for s, y in zip(scores, labels, strict=True)]
    margin, slack = fig4._slack(scores, labels)
    assert margin == pytest.approx(min(q))
    # Steps of 10⁻⁶ leave some 10⁻⁹ of rounding.
    assert slack == pytest.approx(np.average(np.array(q) - min(q), weights=slopes), rel=1e-6)
    both = np.stack([scores[:, 0], np.zeros(6)], axis=1)
    signs = np.where(labels == 0, 1, -1)
    assert fig4._slack(scores[:, 0], signs) == pytest.approx(fig4._slack(both, np.where(labels == 0, 0, 1)))
