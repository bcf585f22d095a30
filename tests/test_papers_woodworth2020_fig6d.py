"""Fig. 6d of Woodworth et al. 2020: its setting, and its step sizes."""

import jax
import numpy as np
import pytest

import afterfit as af
from afterfit.models._inputs import Signature
from afterfit.papers import find
from afterfit.papers.woodworth2020 import fig6d
from afterfit.papers.woodworth2020.over_alpha import At


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


def test_step_sizes_move_outputs_by_the_same_share_whatever_alpha_above_one():
    """The first step of a net of degree D from αw₀, over its outputs there, is that from w₀, but for targets."""
    net = af.models.ConvNet("3-M-2")
    images = np.random.default_rng(0).random((4, 6, 6, 1))
    start = net.initialise(af.inits.He(1.0, "uniform"), Signature((6, 6, 1), (2,)), np.random.default_rng(1))
    moved = {}
    for alpha in (2.0, 6.0):
        posed = fig6d._posed("quick", At(alpha, 0), net, net.degree)
        assert posed.dynamics.lr == pytest.approx(0.15 * alpha ** (2 - 3))
        params = jax.tree.map(lambda leaf, alpha=alpha: alpha * leaf, start)
        gradient = jax.grad(lambda p: net(p, images)[:, 0].sum())(params)
        after = jax.tree.map(lambda p, g, lr=posed.dynamics.lr: p - 1e-3 * lr * g, params, gradient)
        moved[alpha] = (net(after, images) - net(params, images)) / alpha**3
    np.testing.assert_allclose(moved[6.0], moved[2.0], rtol=1e-2, atol=1e-7)


def test_the_kernel_predictor_is_the_same_net_s():
    """Linearised where the net of the same draw starts, and fitted to the same images."""
    runs = find("woodworth2020/fig6d").runs("quick")
    for at, experiment in runs["kernels"].items():
        net = runs["nets"][At(1.0, at.seed)]
        assert experiment.set({"model": net.to_dict()["model"]}).to_dict() == net.to_dict()
        assert experiment.to_dict()["model"]["model"] == net.to_dict()["model"]
