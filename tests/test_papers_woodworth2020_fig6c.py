"""Fig. 6c of Woodworth et al. 2020: its setting, where its images are from, and what it measures."""

import numpy as np
import pytest
import scipy.stats
import test_papers

import afterfit as af
from afterfit._base import images as files
from afterfit.papers import _images, find
from afterfit.papers.woodworth2020 import over_alpha
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


IDS = ["woodworth2020/fig6c", "woodworth2020/fig6d", "notsawo2025/fig35"]


@pytest.mark.parametrize("id", IDS)
def test_without_images_the_gallery_s_test_is_skipped_with_a_reason(id, bare, monkeypatch):
    with pytest.raises(pytest.skip.Exception, match="not on this machine: `afterfit data fetch fashion-mnist`"):
        test_papers.test_claims_at_quick_scale(id, monkeypatch)


@pytest.mark.parametrize("id", IDS)
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
    monkeypatch.setitem(_images._OF_PAPERS, "mnist", af.tasks.Images("mnist", n=1).sha256)
    runs = {scale: find("notsawo2025/fig35").experiments(scale) for scale in ("quick", "paper")}
    sources = {scale: {run.task.source for run in of.values()} for scale, of in runs.items()}
    assert sources == {"quick": {"fashion-mnist"}, "paper": {"mnist"}}
