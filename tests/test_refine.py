"""Adaptive phase diagrams against the dense grid, on labels that are known everywhere."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from afterfit._base.errors import SpecError
from afterfit._sweeps.refine import Refine, refine

PLENTY = 10**6


def carry_out(plan: Refine, dense: np.ndarray) -> dict[tuple[int, ...], object]:
    """The labels of the points that `plan` asks for, round by round, looked up in the dense grid."""
    labels = {}
    while points := plan.next_round(labels):
        assert len(set(points)) == len(points)
        assert not set(points) & labels.keys()  # nothing is run twice
        labels |= {point: dense[point] for point in points}
    return labels


def evaluate(function, resolution: int, knobs: int = 2) -> np.ndarray:
    """`function` of coordinates from 0 to 1, on the whole finest grid."""
    dense = np.empty((resolution,) * knobs, object)
    for point in itertools.product(range(resolution), repeat=knobs):
        dense[point] = function(*(k / (resolution - 1) for k in point))
    return dense


def knobs(n: int) -> list[str]:
    return ["penalty.strength", "init.scale", "dynamics.lr"][:n]


DIAGRAMS = {
    "a straight line": lambda a, b: "grokking" if a + 0.6 * b > 0.73 else "never generalised",
    "a curve": lambda a, b: b > 0.2 + 0.6 * a**3,
    "a wave": lambda a, b: b > 0.5 + 0.25 * math.sin(7 * a),
    "a circle": lambda a, b: (a - 0.52) ** 2 + (b - 0.47) ** 2 < 0.3**2,
    "three regions meeting in a point": lambda a, b: "above" if b > 0.55 else "left" if a < 0.4 + 0.3 * b else None,
    "a thin wedge": lambda a, b: abs(b - 0.5) < 0.12 * (1 - a),
}


@pytest.mark.parametrize("resolution", [33, 65])
@pytest.mark.parametrize("name", DIAGRAMS)
def test_the_dense_grids_diagram_at_a_quarter_of_its_runs(name, resolution):
    dense = evaluate(DIAGRAMS[name], resolution)
    plan = refine(*knobs(2), budget=PLENTY, resolution=resolution)
    labels = carry_out(plan, dense)
    filled, run = plan.fill(labels)
    np.testing.assert_array_equal(filled, dense)
    assert plan.resolved(labels)
    assert {tuple(map(int, p)) for p in np.argwhere(run)} == labels.keys()
    assert len(labels) <= dense.size / 4


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 2 * math.pi), st.floats(-0.7, 0.7))
def test_every_half_plane(angle, offset):
    a, b = np.meshgrid(np.linspace(-0.5, 0.5, 33), np.linspace(-0.5, 0.5, 33), indexing="ij")
    dense = math.cos(angle) * a + math.sin(angle) * b > offset
    plan = refine(*knobs(2), budget=PLENTY)
    labels = carry_out(plan, dense)
    np.testing.assert_array_equal(plan.fill(labels)[0], dense)
    assert len(labels) <= dense.size / 4


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.7, 1.5, 3.0]), st.integers(1, 3))
def test_every_region_that_was_met_is_found_whole(seed, smoothness, dimensions):
    # Whatever the labels, even noise: only regions of which no point was run may be missing.
    resolution = 17 if dimensions < 3 else 9
    noise = np.random.default_rng(seed).normal(size=(resolution,) * dimensions)
    dense = np.digitize(ndimage.gaussian_filter(noise, smoothness), [-0.1, 0.1])
    plan = refine(*knobs(dimensions), budget=PLENTY, resolution=resolution)
    filled, run = plan.fill(carry_out(plan, dense))
    np.testing.assert_array_equal(filled[run], dense[run])
    for label in range(3):
        regions, many = ndimage.label(dense == label)
        for k in range(1, many + 1):
            if run[regions == k].any():
                np.testing.assert_array_equal(filled[regions == k], label)


@pytest.mark.parametrize("resolution", [33, 65])
def test_one_knob_is_bisection(resolution):
    for place in np.linspace(0.01, 0.99, 40):
        dense = evaluate(lambda a, place=place: a > place, resolution, 1)
        plan = refine("penalty.strength", budget=PLENTY, resolution=resolution)
        labels = carry_out(plan, dense)
        np.testing.assert_array_equal(plan.fill(labels)[0], dense)
        assert len(labels) == (resolution - 1) // 8 + 1 + 3  # the coarse grid, then 8 cells halved three times
        assert len(labels) <= resolution / 4


def test_three_knobs():
    dense = evaluate(lambda a, b, c: a + b * b + 0.3 * c > 1.1, 33, 3)
    plan = refine(*knobs(3), budget=PLENTY)
    labels = carry_out(plan, dense)
    np.testing.assert_array_equal(plan.fill(labels)[0], dense)
    assert len(labels) <= dense.size / 4


def test_a_budget_that_ends_early_leaves_an_evenly_resolved_boundary():
    dense = evaluate(DIAGRAMS["a wave"], 65)
    whole = refine(*knobs(2), budget=PLENTY, resolution=65)
    rounds, labels = [], {}
    while points := whole.next_round(labels):
        labels |= {point: dense[point] for point in points}
        rounds.append(len(labels))
    budget = rounds[1] + (rounds[2] - rounds[1]) // 2  # half-way through the round from spacing 4 to spacing 2
    plan = refine(*knobs(2), budget=budget, resolution=65)
    labels = carry_out(plan, dense)
    assert len(labels) == budget
    assert not plan.resolved(labels)
    filled, _ = plan.fill(labels)
    wrong = np.argwhere(filled != dense)
    change = np.argwhere(dense[1:] != dense[:-1])  # the boundary, crossed along the first knob
    change = np.vstack([change, np.argwhere(dense[:, 1:] != dense[:, :-1])])
    distance = np.abs(wrong[:, None] - change).max(axis=2).min(axis=1)
    assert len(wrong)
    assert distance.max() <= 4


def test_an_island_between_the_coarse_points_is_not_found():
    # A limit that the documentation states: this is what it looks like.
    dense = evaluate(lambda a, b: (a - 0.125) ** 2 + (b - 0.125) ** 2 < 0.1**2, 33)
    plan = refine(*knobs(2), budget=PLENTY)
    labels = carry_out(plan, dense)
    assert len(labels) == 25
    assert not plan.fill(labels)[0].any()


def test_started_again_it_asks_for_the_same():
    dense = evaluate(DIAGRAMS["three regions meeting in a point"], 33)
    plan = refine(*knobs(2), budget=100)
    labels = carry_out(plan, dense)
    assert list(carry_out(plan, dense)) == list(labels)
    # Whatever order the runs of a round came back in.
    backwards = dict(reversed(list(labels.items())))
    assert plan.next_round(backwards) == plan.next_round(labels)
    np.testing.assert_array_equal(plan.fill(backwards)[0], plan.fill(labels)[0])
    # A killed round is proposed again, without what is there already.
    first = plan.next_round({})
    assert plan.next_round({p: dense[p] for p in first[:10]}) == first[10:]


def test_seeds_share_the_budget_and_ranges_make_the_axes():
    plan = refine("penalty.strength", "init.scale", budget=150, ranges={"penalty.strength": (1e-6, 1e-2)})
    labels = {point: sum(point) > 20 for point in plan.next_round({}, seeds=5)}
    assert len(labels) == 25
    assert len(plan.next_round(labels, seeds=5)) == 150 // 5 - 25
    with pytest.raises(SpecError, match="takes 250 runs over all seeds"):
        plan.next_round({}, seeds=10)
    axes = plan.axes({"penalty.strength": 0.0, "init.scale": 3})
    np.testing.assert_allclose(np.diff(np.log(axes["penalty.strength"])), math.log(1e4) / 32)
    assert (axes["penalty.strength"][0], axes["penalty.strength"][-1]) == (1e-6, 1e-2)
    np.testing.assert_allclose(axes["init.scale"][[0, 16, -1]], [0.03, 3, 300])


@pytest.mark.parametrize(
    ("names", "settings", "words"),
    [
        ((), {}, "needs the name of a knob"),
        (("a", "a"), {}, "twice"),
        (("a",), {"on": "t_gen"}, "must be 'verdict' or 'status', got 't_gen'"),
        (("a",), {"resolution": 32}, "power of two plus one"),
        (("a", "b"), {"budget": 24}, "takes 25 runs"),
        (("a",), {"ranges": {"b": (1, 2)}}, "no knob here"),
        (("a",), {"ranges": {"a": (2, 1)}}, "lowest < highest"),
        (("a",), {"ranges": {"a": (0, 1)}}, "lowest < highest"),
    ],
)
def test_what_cannot_be_refined_is_refused_in_words(names, settings, words):
    with pytest.raises(SpecError, match=words):
        refine(*names, **settings)


def test_a_knob_at_zero_needs_a_range():
    with pytest.raises(SpecError, match="give its range"):
        refine("penalty.strength").axes({"penalty.strength": 0.0})
