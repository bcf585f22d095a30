"""Fig. 6a, b of Woodworth et al. 2020: its setting, and what it measures computed a second way."""

import dataclasses

import jax
import numpy as np
import pytest

import afterfit as af
from afterfit.papers.woodworth2020 import fig6ab
from afterfit.papers.woodworth2020.fig6ab import Fig6ab


def test_paper_scale_is_the_paper_s_setting():
    runs = Fig6ab().runs("paper")
    assert {at.D for at in runs["nets"]} == {2, 3, 5}
    assert {at.seed for at in runs["nets"]} == {33, 35, 36, 39, 40}
    assert {round(np.log10(at.scale), 6) for at in runs["nets"]} == set(np.arange(-2, 3.1, 0.5))
    for at, experiment in runs["nets"].items():
        spec = experiment.to_dict()
        assert spec["model"]["hidden"] == [30] * (at.D - 1)  # D layers of weights
        assert (spec["model"]["biases"], spec["init"]["distribution"]) == ("none", "uniform")
        assert (spec["task"]["kind"], spec["task"]["n"], spec["task"]["teacher_units"]) == ("CirclePoints", 10, 3)
        assert spec["init"]["scale"] ** at.D == pytest.approx(at.scale)
    assert {at.D for at in runs["descents"]} == {2, 3, 5}
    for at, experiment in runs["descents"].items():
        assert experiment.dynamics.lr == 0.01
        flow = runs["nets"][at._replace(kind="net")]
        assert dataclasses.replace(experiment, dynamics=flow.dynamics) == flow
        assert flow.checkpoints == (experiment.dynamics.lr * experiment.dynamics.steps,)


def test_draws_are_the_first_whose_points_are_all_apart():
    """By the lengths of chords."""

    def apart(seed):
        X = fig6ab._flow(fig6ab._At(2, 1.0, seed), af.inits.He()).draw().inputs
        chords = np.linalg.norm(X[:, None] - X, axis=2) + 2 * np.eye(len(X))
        return 2 * np.arcsin(chords.min() / 2) >= 0.02

    first = [seed for seed in range(32, 60) if apart(seed)]
    assert tuple(first[:5]) == fig6ab._SEEDS["paper"]
    assert tuple(first[:2]) == fig6ab._SEEDS["quick"]
    assert all(map(apart, fig6ab._MORE_SEEDS["paper"]))
    assert not apart(31)


def test_the_end_depends_on_the_targets_over_the_scale_alone():
    """f is homogeneous of degree D: from αw₀ with targets y, weights are α times those from w₀ with y/α^D."""
    alpha, D = 3.0, 3
    data = af.Experiment(af.tasks.CirclePoints(5), af.models.MLP((6,)), af.dynamics.GradientDescent(1.0, 1)).draw()

    def weights(alpha, targets, lr):
        run = af.train(
            task=af.tasks.Arrays(data.inputs, targets, data.test_inputs, data.test_targets),
            model=af.models.MLP((6,) * (D - 1)),
            dynamics=af.dynamics.GradientDescent(lr, 200),
            init=af.inits.He(alpha, "uniform"),
            seed=7,
            progress=False,
        )
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(run.params)])

    small = weights(1.0, data.targets / alpha**D, 0.01)
    large = weights(alpha, data.targets, 0.01 * alpha ** (-2 * (D - 1)))
    assert np.linalg.norm(small - weights(1.0, data.targets, 0.01)) > 1e-3 * np.linalg.norm(small)
    np.testing.assert_allclose(large, alpha * small, rtol=1e-9, atol=1e-12)


def test_steps_on_the_mean_are_a_tenth_of_steps_on_the_sum():
    def weights(reduction, lr):
        run = af.train(
            task=af.tasks.CirclePoints(10, reduction=reduction),
            model=af.models.MLP((6,)),
            dynamics=af.dynamics.GradientDescent(lr, 50),
            init=af.inits.He(1.0, "uniform"),
            progress=False,
        )
        return run.params["layers"][0]["weight"], float(run.curves["train_loss"][-1])

    (mean, mean_loss), (total, total_loss) = weights("mean", 0.01), weights("sum", 0.001)
    np.testing.assert_allclose(mean, total, rtol=1e-12)
    assert mean_loss == pytest.approx(total_loss / 10)


def test_the_end_of_a_run_is_held_against_the_kernel_predictor_of_its_start():
    """By the Jacobians of the net at its start, written out in NumPy for D = 2."""
    at = fig6ab._At(2, 10.0, 50)
    experiment = fig6ab._flow(at, fig6ab._he(at))
    run = af.train(**{field.name: getattr(experiment, field.name) for field in dataclasses.fields(experiment)})
    end, data = fig6ab._end(run), run.data
    with jax.enable_x64(True):
        start = jax.tree.map(np.asarray, af.theory.posed(experiment).initial)

    def net(params, x):
        (first, last) = params["layers"]
        h = np.maximum(x @ first["weight"].T, 0)
        on = (h > 0) * last["weight"]
        return h @ last["weight"], np.concatenate([(on[:, :, None] * x[:, None]).reshape(len(x), -1), h], axis=1)

    f0, J0 = net(start, data.inputs)
    h = np.linalg.lstsq(J0, data.targets - f0, rcond=None)[0]
    test0, J_test = net(start, data.test_inputs)
    kernel, seen = test0 + J_test @ h, net(run.params, data.test_inputs)[0]

    def size(v):
        return np.linalg.norm(v)

    assert end.kernel == pytest.approx(size(kernel - data.test_targets) / size(data.test_targets), rel=1e-6)
    assert end.test == pytest.approx(size(seen - data.test_targets) / size(data.test_targets), rel=1e-9)
    assert end.gap == pytest.approx(size(seen - kernel) / size(kernel), rel=1e-6)
    J = net(run.params, data.inputs)[1]
    assert end.moved == pytest.approx(1 - np.sum(J * J0) / size(J) / size(J0), rel=1e-9)


def test_the_turn_is_found_half_way_between_the_ends():
    scales = np.geomspace(1e-2, 1e3, 11)
    # From 1 to 10⁻² over one decade about α^D = 0.3.
    distances = 10.0 ** -np.clip(2 * (np.log10(scales / 0.3) + 0.5), 0, 2)
    ends = {fig6ab._At(2, s, 0): fig6ab._End(1.0, d, 1.0, 0.0) for s, d in zip(scales, distances, strict=True)}
    (turn,) = fig6ab._turns(ends, 2)
    assert turn == pytest.approx(0.3, rel=0.05)
