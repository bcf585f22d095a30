"""Fig. 35 of Notsawo et al. 2025: its setting, and what is read off a curve."""

import numpy as np
import pytest
import xarray as xr

from afterfit.papers import find
from afterfit.papers.notsawo2025 import fig35
from afterfit.papers.notsawo2025.fig35 import _At


def test_paper_scale_is_what_the_paper_says_and_the_rest_as_told():
    nets, fast, free = find("notsawo2025/fig35").runs("paper").values()
    for at, experiment in (nets | fast | free).items():
        spec = experiment.to_dict()
        assert spec["task"]["n"] == (100 if at.norm == "ℓ_*" else 1000)
        assert spec["task"]["loss_name"] == "squared"
        assert (spec["model"]["kind"], len(spec["model"]["hidden"]), spec["model"]["biases"]) == ("MLP", 1, "none")
        assert spec["dynamics"]["kind"] == "Adam"
        assert spec["init"]["kind"] == "ScaledGaussian"
    assert {experiment.penalty.kind for experiment in nets.values()} == {"L1", "Frobenius", "Nuclear"}


class Seen:
    def __init__(self, train, test):
        steps = 10 * 2 ** np.arange(len(train))
        self.curves = xr.Dataset(
            {"step": ("time", steps), "train_accuracy": ("time", train), "test_accuracy": ("time", test)}
        )


def test_times_are_when_accuracies_have_come_to_stay():
    path = fig35._path(Seen([0.5, 0.99, 1, 1, 1, 1], np.array([0.3, 0.4, 0.55, 0.45, 0.55, 0.6])))
    assert (path.t1, path.fitted, path.end) == (20, 0.4, 0.6)
    assert path.t2 == pytest.approx(80 * 2**0.5)  # not at 30, after which it falls once more
    never = fig35._path(Seen([0.5, 1, 1, 1], np.array([0.3, 0.4, 0.55, 0.45])))
    assert (never.t1, never.t2) == (20, np.inf)
    assert fig35._path(Seen([0.5, 0.9], np.array([0.3, 0.4]))).t1 == np.inf


def test_the_order_is_that_of_runs_that_differ_in_one_setting():
    times = {
        _At("ℓ₁", 0.1, 1.0, 0): 10.0,
        _At("ℓ₁", 0.1, 0.5, 0): 20.0,
        _At("ℓ₁", 0.1, 0.25, 0): 40.0,
        _At("ℓ₁", 0.05, 1.0, 0): 19.0,
    }
    found = fig35._later("β", "9 of some", times)
    assert found.holds
    assert "3 of 3 pairs" in found.measured
    assert "p = -1 in" in found.measured
    assert "1 of 1 pairs" in fig35._later("α", "9 of some", times).measured
    assert not fig35._later("β", "9 of some", times | {_At("ℓ₁", 0.1, 0.25, 0): 21.0}).holds


def test_a_time_that_never_comes_is_later_than_one_that_does_and_no_other():
    def late(slow, fast):
        return fig35._later("α", "9 of some", {_At("ℓ₁", 0.1, 1.0, 0): slow, _At("ℓ₁", 0.2, 1.0, 0): fast}).holds

    assert late(np.inf, 5.0)
    assert not late(5.0, np.inf)
    assert not late(np.inf, np.inf)


def test_the_exponent_has_a_constant_for_each_draw():
    times = {_At("ℓ₁", α, 1.0, seed): (1 + 9 * seed) / α for α in (0.1, 0.2) for seed in (0, 1)}
    assert "2 of 2 pairs, like α^p with p = -1 in [-1, -1]" in fig35._later("α", "9 of some", times).measured
