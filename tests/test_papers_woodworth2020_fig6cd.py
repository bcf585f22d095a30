"""Figs 6c and 6d of Woodworth et al. 2020: their settings, where their images are from, and what they measure."""

import jax
import numpy as np
import pytest
import scipy.stats

import afterfit as af
from afterfit._base import images as files
from afterfit.models._inputs import Signature
from afterfit.papers import find
from afterfit.papers.woodworth2020 import fig6d, over_alpha
from afterfit.papers.woodworth2020.over_alpha import At, End


def test_the_wide_net_has_the_paper_s_setting():
    runs = find("woodworth2020/fig6c").runs("paper")
    for at, experiment in {**runs["nets"], **runs["last"]}.items():
        spec = experiment.to_dict()
        net = spec["model"]["model"] if at.kind == "last" else spec["model"]
        assert (net["kind"], net["hidden"], net["biases"]) == ("MLP", [5000], "none")
        assert (spec["dynamics"]["kind"], spec["dynamics"]["batch"]) == ("SGD", 256)
        assert (spec["init"]["kind"], spec["init"]["distribution"], spec["init"]["scale"]) == ("He", "normal", at.α)
        assert spec["task"]["loss_name"] == "cross_entropy"
    assert {at.α for at in runs["nets"]} >= {0.5, 1.0, 2.0, 50.0, 100.0}
    assert {at.α for at in runs["last"]} == {1.0}


def test_the_convolutional_net_is_the_paper_s_with_a_quarter_of_its_channels():
    runs = find("woodworth2020/fig6d").runs("paper")
    channels = {at: experiment.to_dict()["model"]["layers"] for at, experiment in runs["nets"].items()}
    paper = "64-M-128-M-256-256-M-512-512-M-512-M"
    assert set(channels.values()) == {
        "-".join(part if part == "M" else str(int(part) // 4) for part in paper.split("-"))
    }
    for experiment in runs["nets"].values():
        spec = experiment.to_dict()
        assert (spec["dynamics"]["kind"], spec["dynamics"]["batch"]) == ("SGD", 128)
        assert (spec["init"]["kind"], spec["init"]["distribution"]) == ("He", "uniform")
        assert not spec["task"]["flat"]
    assert {experiment.to_dict()["model"]["kind"] for experiment in runs["kernels"].values()} == {"Tangent"}


def test_five_poolings_leave_one_pixel_of_cifar10():
    """Of 512 channels, as the text has it."""
    net = af.models.ConvNet("64-M-128-M-256-256-M-512-512-M-512-M")
    sizes = [layer["weight"].shape for layer in net.parameters(Signature((32, 32, 3), (10,)))["layers"]]
    inputs = (3, 64, 128, 256, 256, 512, 512)
    outputs = (64, 128, 256, 256, 512, 512, 512)
    assert sizes == [(n, m, 3, 3) for m, n in zip(inputs, outputs, strict=True)] + [(10, 512)]
    assert net.degree == 8


def test_step_sizes_move_outputs_by_the_same_share_whatever_alpha():
    """The first step of a net of degree D from αw₀, over its outputs there, is that from w₀ where targets do not count."""
    net = af.models.ConvNet("3-M-2")
    images = np.random.default_rng(0).random((4, 6, 6, 1))
    start = net.initialise(af.inits.He(1.0, "uniform"), Signature((6, 6, 1), (2,)), np.random.default_rng(1))
    moved = {}
    for alpha in (1.0, 3.0):
        posed = fig6d._posed("quick", At(alpha, 0), net, net.degree)
        assert posed.dynamics.lr == pytest.approx(0.1 * alpha ** (2 - 3))
        params = jax.tree.map(lambda leaf, alpha=alpha: alpha * leaf, start)
        gradient = jax.grad(lambda p: net(p, images)[:, 0].sum())(params)
        after = jax.tree.map(lambda p, g, lr=posed.dynamics.lr: p - 1e-3 * lr * g, params, gradient)
        moved[alpha] = (net(after, images) - net(params, images)) / alpha**3
    np.testing.assert_allclose(moved[3.0], moved[1.0], rtol=1e-2, atol=1e-7)


ENDS = {
    At(alpha, seed): End(error, 1.0, 1e-3, "9 of some")
    for alpha, errors in {1.0: (0.1, 0.2, 0.12), 2.0: (0.12, 0.2, 0.1), 50.0: (0.2, 0.3, 0.3)}.items()
    for seed, error in enumerate(errors)
}


def test_a_rise_is_a_paired_t_test_in_every_draw():
    found = over_alpha.rise(ENDS, 2.0, 50.0)
    low, high = np.array([0.11, 0.2, 0.11]), np.array([0.2, 0.3, 0.3])
    interval = scipy.stats.ttest_rel(high, low).confidence_interval(0.95)
    assert found.holds == (interval.low > 0)
    assert f"[{100 * interval.low:.3g}, {100 * interval.high:.3g}]" in found.measured
    assert not over_alpha.rise({at: end for at, end in ENDS.items() if at.α < 3}, 1.0, 2.0).holds


def test_a_level_is_within_half_of_the_rise():
    assert over_alpha.flat(ENDS, 0.0, 2.0, 0.1).holds
    assert not over_alpha.flat(ENDS, 0.0, np.inf, 0.1).holds


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A machine without any images."""
    for variable in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.delenv(files.VARIABLE, raising=False)
    monkeypatch.setattr(files, "_SYSTEM", tmp_path / "none")


@pytest.mark.parametrize("id", ["woodworth2020/fig6c", "woodworth2020/fig6d", "notsawo2025/fig35"])
def test_without_images_an_entry_is_posed_and_its_run_says_how_they_are_had(id, bare):
    for scale in ("quick", "paper"):
        experiment = next(iter(find(id).experiments(scale).values()))
        assert experiment.task.source == "fashion-mnist"
        with pytest.raises(af.SpecError, match="afterfit data fetch fashion-mnist"):
            experiment.draw()


def test_the_paper_s_own_images_are_used_where_they_are(tmp_path, bare, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (1200, 28, 28), np.uint8)
    labels = np.arange(1200) % 10
    parts = {"x_train": images, "y_train": labels, "x_test": np.concatenate([images] * 4), "y_test": np.tile(labels, 4)}
    np.savez(tmp_path / "mnist.npz", **parts)
    monkeypatch.setenv(files.VARIABLE, str(tmp_path))
    runs = {scale: find("notsawo2025/fig35").experiments(scale) for scale in ("quick", "paper")}
    sources = {scale: {run.task.source for run in of.values()} for scale, of in runs.items()}
    assert sources == {"quick": {"fashion-mnist"}, "paper": {"mnist"}}
