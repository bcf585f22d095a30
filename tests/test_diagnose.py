"""Diagnosis against curves whose times, widths and levels are known in closed form."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdict_curves import draw_table

from afterfit._base.errors import SpecError
from afterfit._diagnose import VERDICTS, DiagnosisSettings, Verdict, diagnose
from afterfit._diagnose.guesses import guess_criteria
from afterfit._diagnose.log import open_log, read_columns, read_log
from afterfit._diagnose.thresholds import Criteria, Threshold

FIT, GENERALISE = 0.01, 0.05
CRITERIA = Criteria.errors(fit=FIT, generalise=GENERALISE)
LAST = 1e6  # when the logs below end
T_FIT = np.log(1 / FIT)  # of a training error exp(-t)

# Crossings are interpolated linearly in log time. On a grid of h = 0.05 decades, a curve that is smooth over
# a decade departs from its chord by about (h ln 10)²/8 < 0.2 %; 1 % leaves room for the steepest curves here.
NEAR = 0.01


def grid(per_decade: int = 20) -> np.ndarray:
    return np.logspace(-2, np.log10(LAST), 8 * per_decade + 1)


def drop(t, centre, power):
    """From 1 to 0, half-way at `centre`: reaches ε at centre·(1/ε − 1)^(1/power)."""
    return 1 / (1 + (t / centre) ** power)


def drop_time(level, centre, power):
    return centre * (1 / level - 1) ** (1 / power)


def drop_width(power):
    """Decades from 0.9 to 0.1."""
    return 2 * np.log10(9) / power


@dataclasses.dataclass(frozen=True)
class Case:
    """Curves as functions of time, and what is known about them."""

    kind: str
    train: Callable
    test: Callable
    t_fit: float | None = None
    t_gen: float | None = None
    width: float | None = None
    lost: float | None = None

    def verdict(self, t, criteria=CRITERIA, view=lambda error: error, **kwargs) -> Verdict:
        return diagnose(t, view(self.train(t)), view(self.test(t)), criteria, **kwargs)


def fitted(t):
    return np.exp(-t)


def case(kind: str, centre: float = 3e3, power: float = 4.0) -> Case:
    """A run of each kind whose late change is half-way at `centre`; all errors lie between 0 and 1."""

    def late(t):
        return drop(t, centre, power)

    def early(t):
        return drop(t, 1.0, 4.0)

    def cut_short(t):
        return drop(t, LAST / 4 ** (1 / power), power)  # 0.2 at the end of the log

    gained, lost = drop_time(GENERALISE, 1.0, 4.0), drop_time(1 - GENERALISE, centre, power)
    width = drop_width(power)
    return {
        "grokking": Case(kind, fitted, late, T_FIT, drop_time(GENERALISE, centre, power), width),
        "grokking under way": Case(
            kind, fitted, cut_short, T_FIT, width=np.log10(drop_time(0.28, 1.0, power) / drop_time(0.92, 1.0, power))
        ),
        "misgrokking": Case(
            kind, fitted, lambda t: np.maximum(early(t), 1 - late(t)), T_FIT, gained, width, lost
        ),
        "generalised with the fit": Case(kind, fitted, early, T_FIT, gained, drop_width(4.0)),
        "never generalised": Case(kind, fitted, lambda t: 0.9 + 0.1 * early(t), T_FIT),
        "never fitted": Case(kind, lambda t: 0.1 + 0.9 * fitted(t), lambda t: 0.9 + 0.1 * early(t)),
        "training collapsed": Case(
            kind,
            lambda t: np.maximum(fitted(t), 1 - late(t)),
            lambda t: 0.9 + 0.1 * early(t),
            T_FIT,
            lost=drop_time(1 - FIT, centre, power),
        ),
        "grokking without understanding": Case(
            kind, fitted, lambda t: 0.2 + 0.8 * late(t), T_FIT, width=width
        ),
        "diverged": Case(
            kind, fitted, lambda t: np.where(t < 1e5, 0.9, np.inf), T_FIT
        ),
    }[kind]  # fmt: skip


# The late change begins at least a decade after the fit (t = 4.6) and ends well before t = 10⁶.
cases = st.builds(case, st.sampled_from(VERDICTS), st.floats(500, 1e4), st.floats(2.5, 8.0))


@pytest.mark.parametrize("kind", VERDICTS)
def test_each_verdict_with_its_known_times(kind):
    known = case(kind)
    seen = known.verdict(grid())
    assert seen.kind == kind
    assert seen.t_fit == (None if known.t_fit is None else pytest.approx(known.t_fit, rel=NEAR))
    assert seen.t_gen == (None if known.t_gen is None else pytest.approx(known.t_gen, rel=NEAR))
    if known.t_fit and known.t_gen:
        assert seen.delay_ratio == pytest.approx(known.t_gen / known.t_fit, rel=2 * NEAR)
        assert seen.delay == pytest.approx(known.t_gen - known.t_fit, rel=2 * NEAR)
    assert seen.width_decades == (None if known.width is None else pytest.approx(known.width, abs=NEAR))
    if known.lost:
        # The evidence gives the time to two digits, hence 5 %.
        times = [float(x) for sentence in seen.evidence for x in re.findall(r"t=([\d.e-]+\d)", sentence)]
        assert any(t == pytest.approx(known.lost, rel=0.05) for t in times)
    assert str(seen).lower().startswith(kind)
    assert seen.describe().splitlines() == [str(seen), *(f"  - {e}" for e in seen.evidence)]


def test_levels_and_relative_width():
    shaped = dataclasses.replace(case("grokking", 3e3, 4.0), test=lambda t: 0.02 + 0.6 * drop(t, 3e3, 4.0))
    seen = shaped.verdict(grid())
    t_gen = drop_time(0.03 / 0.6, 3e3, 4.0)
    assert seen.plateaus["test_before"] == pytest.approx(0.62, rel=NEAR)
    assert seen.plateaus["test_after"] == pytest.approx(0.02, rel=NEAR)
    assert seen.width_relative == pytest.approx(3e3 * (9**0.25 - 9**-0.25) / t_gen, rel=2 * NEAR)


@given(cases, st.floats(-200, 200))
def test_the_unit_of_time_changes_only_times(known, exponent):
    t, factor = grid(), 10.0**exponent
    one, other = known.verdict(t), diagnose(t * factor, known.train(t), known.test(t), CRITERIA)
    assert other.kind == one.kind == known.kind
    for name in ("t_fit", "t_gen", "delay"):
        a, b = getattr(one, name), getattr(other, name)
        assert b == (None if a is None else pytest.approx(a * factor))
    for name in ("delay_ratio", "width_decades", "width_relative", "plateaus"):
        a, b = getattr(one, name), getattr(other, name)
        assert b == (None if a is None else pytest.approx(a))


@given(cases, st.integers(12, 200), st.booleans())
def test_the_grid_does_not_matter(known, per_decade, zero):
    t = np.concatenate([[0.0], grid(per_decade)]) if zero else grid(per_decade)
    with np.errstate(divide="ignore"):
        seen = known.verdict(t)
    assert seen.kind == known.kind
    # At 12 a decade the chord is up to (20/12)² times further off than on the grid above.
    if known.t_gen:
        assert seen.t_gen == pytest.approx(known.t_gen, rel=3 * NEAR)
    if known.t_fit:
        assert seen.t_fit == pytest.approx(known.t_fit, rel=3 * NEAR)


@given(cases.filter(lambda c: c.kind != "diverged"), st.sampled_from([1.0, 100.0]))
def test_an_accuracy_is_an_error_upside_down(known, scale):
    t = grid()
    criteria = Criteria.accuracies(scale * (1 - FIT), scale * (1 - GENERALISE))
    error, accuracy = known.verdict(t), known.verdict(t, criteria, lambda e: scale * (1 - e))
    assert accuracy.kind == error.kind
    for name in ("t_fit", "t_gen", "width_decades", "width_relative"):
        a = getattr(error, name)
        # 1 − (1 − e) keeps e to 10⁻¹⁶, one part in 10¹⁴ at the thresholds.
        assert getattr(accuracy, name) == (None if a is None else pytest.approx(a, rel=1e-9))
    for name, level in error.plateaus.items():
        assert accuracy.plateaus[name] == pytest.approx(scale * (1 - level))


@given(cases, st.booleans())
def test_a_verdict_survives_json(known, beyond_floats):
    t = grid()
    log10_time = np.log10(t) + (400 if beyond_floats else 0)
    seen = known.verdict(t, log10_time=log10_time, norms={"l2": 1 + known.test(t)})
    assert Verdict.from_dict(json.loads(json.dumps(seen.to_dict(), allow_nan=False))) == seen


def test_times_too_large_for_floats_are_kept_in_logs():
    known, t = case("grokking"), grid()
    near = known.verdict(t)
    far = diagnose(np.full_like(t, np.inf), known.train(t), known.test(t), CRITERIA, log10_time=np.log10(t) + 400)
    assert (far.kind, far.t_fit, far.t_gen, far.delay) == ("grokking", np.inf, np.inf, np.inf)
    assert far.delay_ratio == pytest.approx(near.delay_ratio)
    assert far.width_relative == pytest.approx(near.width_relative)
    said = [float(x) for x in re.findall(r"t=10\^([\d.]+\d)", far.describe())]
    assert near.t_gen is not None
    assert any(x == pytest.approx(np.log10(near.t_gen) + 400, abs=1e-3) for x in said)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=60, max_size=120), st.integers(0, 59))
def test_staying_fitted_means_so(noise, calm):
    """Any 0/1 training error that is 0 on its last `calm` observations, on an even log grid."""
    error = np.array(noise)
    error[error.size - calm :] = 0.0
    t = np.logspace(0, 3, error.size)
    seen = diagnose(t, error, np.ones_like(error), CRITERIA)
    if calm >= 3:
        assert seen.t_fit is not None
    if seen.t_fit is None or seen.kind == "training collapsed":
        return
    since = t >= seen.t_fit * (1 - 1e-9)
    failing = t[error > FIT]
    earlier, later = failing[failing < seen.t_fit], failing[failing >= seen.t_fit]
    # Never before the last failing observation that counts, nor after the next one.
    if earlier.size:
        assert np.searchsorted(t, seen.t_fit) - np.searchsorted(t, earlier[-1]) <= 1
    # Lapses are rare, but for one stray observation at the very end.
    lapses = np.sum(later < t[-1])
    assert lapses <= DiagnosisSettings().patience * np.sum(since & (error <= FIT))


def test_a_short_lapse_is_forgiven_and_a_long_one_is_not():
    t = grid()
    error = fitted(t)
    blip, lapse = (t > 2.7e3) & (t < 3.1e3), (t > 1e3) & (t < 1e4)
    assert np.sum(blip) == 1
    test = np.ones_like(t)
    strict = diagnose(t, np.where(blip, 1.0, error), test, CRITERIA, settings=DiagnosisSettings(patience=0.01))
    for seen, since in [
        (diagnose(t, np.where(blip, 1.0, error), test, CRITERIA), T_FIT),
        (strict, t[blip][-1]),
        (diagnose(t, np.where(lapse, 1.0, error), test, CRITERIA), t[lapse][-1]),
    ]:
        # The error jumps from 1 to 0 at the end of a lapse: known to one spacing of the grid.
        assert since * (1 - NEAR) <= seen.t_fit <= since * 10**0.05


@pytest.mark.parametrize("stray", [0.0, 1.0])
@pytest.mark.parametrize("kind", [kind for kind in VERDICTS if kind != "diverged"])
def test_one_stray_observation_at_the_end_decides_nothing(kind, stray):
    t, known = grid(), case(kind)
    train, test = known.train(t), known.test(t)
    train[-1] = test[-1] = stray
    assert diagnose(t, train, test, CRITERIA).kind == kind


def test_spikes_of_stochastic_training_do_not_move_the_times():
    """Every epoch of a run is logged; now and then training spikes for some epochs."""
    rng = np.random.default_rng(0)
    epoch = np.arange(20_001.0)
    train, test = 1 - np.exp(-epoch / 20), 1 - 0.5 * drop(epoch, 3e3, 6.0) + rng.normal(0, 0.01, epoch.size)
    for start in rng.integers(500, 19_000, 30):
        train[start : start + 5] = 0.8
    seen = diagnose(epoch, train, test, Criteria.accuracies())
    assert seen.kind == "grokking"
    assert seen.t_fit == pytest.approx(20 * np.log(100), rel=NEAR)
    # Staying above the threshold takes a mean some noise (σ = 0.01) clear of it: from its crossing, when half
    # of the epochs fail, to 2.33 σ beyond, when one in a hundred does. Lapses are forgiven in between.
    assert drop_time(0.1, 3e3, 6.0) <= seen.t_gen <= drop_time(2 * (0.05 - 0.0233), 3e3, 6.0)


def test_the_lines_can_be_moved():
    t, late = grid(), case("grokking").verdict(grid())
    assert late.delay_ratio is not None
    for delay, kind in [
        (0.9 * late.delay_ratio, "grokking"),
        (1.1 * late.delay_ratio, "generalised with the fit"),
    ]:
        assert case("grokking").verdict(t, settings=DiagnosisSettings(delay=delay)).kind == kind
    falls = case("grokking without understanding")  # by a factor 5
    for fall, kind in [(4.9, falls.kind), (5.1, "never generalised")]:
        assert falls.verdict(t, settings=DiagnosisSettings(fall=fall)).kind == kind
    held = case("training collapsed")
    assert held.lost is not None
    decades = np.log10(held.lost / T_FIT)
    for lasting, kind in [(0.9 * decades, held.kind), (1.1 * decades, "never fitted")]:
        assert held.verdict(t, settings=DiagnosisSettings(lasting=lasting)).kind == kind


def test_crossings_of_power_laws_are_exact_on_any_grid():
    t = grid(2)
    seen = diagnose(t, t**-2.0, 100 * t**-1.0, CRITERIA)
    assert (seen.t_fit, seen.t_gen) == pytest.approx((FIT**-0.5, 100 / GENERALISE))


def test_a_fall_with_the_fit_that_stops_short_is_no_grokking():
    t = grid()[grid() <= 100]
    for centre, kind in [(2 * T_FIT, "never generalised"), (4 * T_FIT, "grokking without understanding")]:
        assert diagnose(t, fitted(t), 0.2 + 0.8 * drop(t, centre, 16.0), CRITERIA).kind == kind


def test_overfitting_long_before_the_fit_is_no_misgrokking():
    t = grid()
    test = np.maximum(drop(t, 0.1, 4.0), 1 - drop(t, 10.0, 4.0))
    assert diagnose(t, fitted(t / 1e3), test, CRITERIA).kind == "never generalised"
    assert diagnose(t, fitted(t), test, CRITERIA).kind == "misgrokking"


def test_crossing_late_without_a_fall_is_no_grokking():
    t = grid()
    drifting = 0.06 - 0.004 * np.log10(t).clip(0)  # at 0.05 when t = 10^2.5, from 1.2 times that
    assert diagnose(t, fitted(t), drifting, CRITERIA).kind == "generalised with the fit"


def test_hovering_at_the_threshold_is_no_loss():
    t = grid()
    hovering = np.maximum(drop(t, 1.0, 4.0), GENERALISE * (0.9 + 0.3 * (t > 1e3)))
    assert diagnose(t, fitted(t), hovering, CRITERIA).kind == "generalised with the fit"
    doubled = np.maximum(hovering, 2.2 * GENERALISE * (t > 1e3))
    assert diagnose(t, fitted(t), doubled, CRITERIA).kind == "misgrokking"


def test_the_norm_that_the_error_moves_with_is_named():
    """As in ridge regression: the error is that of the limit plus a norm that decays."""
    t = grid()
    l2 = np.sqrt(0.3**2 + np.exp(-2 * t / 1e4))
    norms = {"l2": l2, "wiggle": 2 + np.sin(40 * np.log(t)), "constant": np.ones_like(t)}
    seen = diagnose(t, fitted(t), l2, CRITERIA, norms=norms)
    assert seen.kind == "grokking without understanding"
    named = [name for name in norms if f"norm {name}" in seen.describe()]
    assert named == ["l2"]


def test_a_fall_cut_short_is_told_by_its_norm():
    """Still falling at the end: grokking under way, unless a norm accounts for the fall."""
    t = grid()
    t = t[t <= 2e4]
    error = np.exp(-t / 1e4)
    slow, like_it = 2 + error / 10, 3 * error
    assert diagnose(t, fitted(t), error, CRITERIA).kind == "grokking under way"
    assert diagnose(t, fitted(t), error, CRITERIA, norms={"l2": slow}).kind == "grokking under way"
    assert diagnose(t, fitted(t), error, CRITERIA, norms={"l2": like_it}).kind == "grokking without understanding"


def test_what_precedes_divergence_is_diagnosed():
    t, known = grid(), case("grokking")
    before = known.verdict(t)
    broken = np.where(t > 5e5, np.nan, known.train(t))
    exploding = np.where(t > 5e5, 1e4, known.train(t))
    for seen in (
        diagnose(t, broken, known.test(t), CRITERIA),
        diagnose(t, exploding, known.test(t), CRITERIA),
        known.verdict(t, diverged=True),
    ):
        assert seen.kind == "diverged"
        assert (seen.t_fit, seen.t_gen) == (before.t_fit, before.t_gen)
        assert any("grokking" in sentence for sentence in seen.evidence)
    assert diagnose(t, np.full_like(t, np.nan), known.test(t), CRITERIA).kind == "diverged"


def test_a_fit_at_the_initialisation_is_reported_at_the_first_positive_time():
    t = np.concatenate([[0.0], grid()])
    seen = diagnose(t, np.zeros_like(t), np.ones_like(t), CRITERIA)
    assert seen.t_fit == pytest.approx(t[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": [1, 2, 2, 3]}, "must increase"),
        ({"time": [-1, 2, 3, 4]}, "not negative"),
        ({"time": [1, 2, 3, np.inf]}, "log10_time"),
        ({"log10_time": [1, 2, np.nan, 3]}, "finite"),
        ({"test": [1, 2, 3]}, "test must have one value for each of the 4 times"),
        ({"norms": {"l2": [1, 2, 3]}}, "norm l2 must have"),
        ({"time": [0, 1], "train": [1, 1], "test": [1, 1]}, "at least 3"),
        ({"criteria": Criteria(Threshold("error", -1.0), Threshold("error", 1.0))}, "negative"),
        ({"criteria": Criteria.accuracies(101.0, 0.9)}, "percent"),
    ],
)
def test_curves_that_cannot_be_diagnosed_say_why(change, message):
    arguments = {"time": [1, 2, 3, 4], "train": [1] * 4, "test": [1] * 4, "criteria": CRITERIA}
    with pytest.raises(SpecError, match=message):
        diagnose(**(arguments | change))


@pytest.mark.parametrize(
    "bad", [{"delay": 1.0}, {"fall": 0.5}, {"lasting": 0.0}, {"patience": 1.0}, {"end": -1.0}, {"rank": 0.0}]
)
def test_settings_are_checked(bad):
    with pytest.raises(SpecError, match=next(iter(bad))):
        DiagnosisSettings(**bad)


# ------------------------------------------------------------------------------------------------ sparse logs


SPARSE = {
    # five observations over five decades: what they show is plain
    "grokking": ([0.1, 1, 1, 1, 1], [0.1, 0.1, 0.1, 0.8, 1.0]),
    "grokking under way": ([0.1, 1, 1, 1, 1], [0.1, 0.1, 0.1, 0.3, 0.62]),
    "generalised with the fit": ([0.1, 0.5, 1, 1, 1], [0.1, 0.5, 0.98, 0.99, 1.0]),
    "never generalised": ([0.1, 1, 1, 1, 1], [0.1, 0.1, 0.1, 0.12, 0.1]),
    "never fitted": ([0.1, 0.2, 0.3, 0.4, 0.5], [0.1, 0.2, 0.2, 0.2, 0.2]),
    "training collapsed": ([0.1, 1, 1, 0.4, 0.1], [0.1, 0.1, 0.1, 0.1, 0.1]),
    "misgrokking": ([0.1, 1, 1, 1, 1], [0.1, 0.98, 0.98, 0.4, 0.1]),
    "grokking without understanding": ([0.1, 1, 1, 1, 1], [0.1, 0.1, 0.1, 0.75, 0.75]),
}


@pytest.mark.parametrize("kind", SPARSE)
def test_five_observations_are_read_as_they_are(kind):
    train, test = SPARSE[kind]
    seen = diagnose([1, 10, 100, 1000, 1e5], train, test, Criteria.accuracies())
    assert seen.kind == kind, seen.describe()
    assert seen.plateaus["test_after"] == pytest.approx(test[-1])


@given(st.data(), st.sampled_from(["error", "accuracy"]))
def test_a_curve_that_improves_to_its_last_point_is_never_lost(data, like):
    """Whatever its grid and its steps; neither the training curve nor the test curve."""
    count = data.draw(st.integers(3, 40))
    gaps, steps = (st.lists(st.floats(low, high), min_size=count, max_size=count) for low, high in ((1e-3, 2), (0, 2)))
    t = 10 ** np.cumsum(data.draw(gaps))
    falling = [np.exp(-np.cumsum(data.draw(steps))) for _ in range(2)]
    train, test = falling if like == "error" else [1 - curve for curve in falling]
    criteria = CRITERIA if like == "error" else Criteria.accuracies()
    seen = diagnose(t, train, test, criteria)
    assert seen.kind not in ("misgrokking", "training collapsed")
    assert "lost" not in seen.describe()
    if t[-1] / t[-2] > 2:  # a sparse curve ends where its last observation is
        level = criteria.train.value
        fitted = train[-1] <= level if like == "error" else train[-1] >= level
        assert (seen.kind == "never fitted") == (not fitted)


def on_its_line(t: np.ndarray, error: np.ndarray, more: np.ndarray, level: float) -> np.ndarray:
    """The error between observations: straight in logs over log time, but not below a tenth of the threshold."""
    floored = np.interp(np.log(more), np.log(t), np.log(np.maximum(error, level / 10)))
    return np.where(np.isin(more, t), np.interp(more, t, error), np.exp(floored))


@given(
    st.sampled_from([kind for kind in VERDICTS if kind != "diverged"]),
    st.integers(0, 10_000),
    st.integers(1, 2000),
    st.booleans(),
)
def test_observations_added_on_the_curve_change_nothing(kind, seed, count, noise):
    rng = np.random.default_rng(seed)
    table = draw_table(kind, rng, noise=noise)
    scale = table.criteria.test.ceiling
    errors, levels = [table.train, table.test], [table.criteria.train.value, table.criteria.test.value]
    accuracies = table.criteria.test.like == "accuracy"
    if accuracies:
        errors, levels = [scale - e for e in errors], [scale - level for level in levels]
    one = diagnose(table.time, table.train, table.test, table.criteria)
    t = np.unique(np.concatenate([table.time, np.exp(rng.uniform(*np.log(table.time[[0, -1]]), count))]))
    train, test = (on_its_line(table.time, e, t, level) for e, level in zip(errors, levels, strict=True))
    if accuracies:
        train, test = scale - train, scale - test
    assert diagnose(t, train, test, table.criteria).kind == one.kind


@given(st.sampled_from(VERDICTS), st.integers(0, 10_000), st.booleans(), st.floats(-100, 100))
def test_neither_the_unit_of_time_nor_percent_changes_a_verdict(kind, seed, noise, exponent):
    table = draw_table(kind, np.random.default_rng(seed), noise=noise)
    one = diagnose(table.time, table.train, table.test, table.criteria, loss=table.loss)
    factor = 10.0**exponent
    assert diagnose(factor * table.time, table.train, table.test, table.criteria, loss=table.loss).kind == one.kind
    if table.style == "fraction":
        percent = Criteria.accuracies(*(100 * x.value for x in (table.criteria.train, table.criteria.test)))
        other = diagnose(table.time, 100 * table.train, 100 * table.test, percent, loss=table.loss)
        assert other.kind == one.kind


@pytest.mark.parametrize(("noise", "goal"), [(False, 0.99), (True, 0.95)])
def test_verdicts_on_random_curves_are_right(noise, goal):
    """Fewer of those that `benchmarks/verdicts.py` counts; a share of 60 is known to two standard deviations."""
    count = 60
    for k, kind in enumerate(VERDICTS):
        rng = np.random.default_rng([1, k])
        tables = [draw_table(kind, rng, noise=noise) for _ in range(count)]
        right = sum(diagnose(t.time, t.train, t.test, t.criteria, loss=t.loss).kind == kind for t in tables)
        assert right >= count * goal - 2 * np.sqrt(count * goal * (1 - goal)), kind


def test_grokking_under_way_says_how_far_it_is_and_what_it_needs():
    t = np.array([1, 10, 100, 1e3, 1e4, 1e5])
    test = [0.05, 0.05, 0.05, 0.05, 0.05, 0.5]
    seen = diagnose(t, [0.1, 1, 1, 1, 1, 1], test, Criteria.accuracies())
    assert seen.kind == "grokking under way"
    assert seen.progress == pytest.approx(0.45 / 0.9)
    assert seen.plateaus["test_before"] == pytest.approx(0.05)
    assert f"test accuracy 0.5 at the end, {int(100 * seen.progress)} % of the way from 0.05 to 0.95" in str(seen)
    # By 0.45 a decade 0.95 would be a decade away; straight in the log of 1 − a it slows down as it rises.
    assert 1e6 < seen.t_expected < 10**6.5
    errors = diagnose(t, [1, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3], [1, 1, 1, 1, 1, 0.2], Criteria.errors(0.01, 0.04))
    assert errors.kind == "grokking under way"
    assert errors.progress == pytest.approx(0.5)
    assert errors.t_expected == pytest.approx(1e6, rel=0.01)


@pytest.mark.parametrize("count", [40, 400, 4000])
def test_noise_at_the_threshold_is_not_a_loss(count):
    """Training and test touch their thresholds now and then; they end a little below."""
    rng = np.random.default_rng(0)
    t = np.geomspace(1, 1e6, count)
    train, test = 1 - drop(t, 10.0, 4.0), 0.945 - 0.9 * drop(t, 1e4, 4.0)
    train, test = (curve + rng.normal(0, 0.004, count) for curve in (0.99 * train, test))
    test[-1], train[-1] = 0.941, 0.987
    seen = diagnose(t, train, test, Criteria.accuracies(0.985, 0.95))
    assert (test >= 0.95).any()
    assert seen.kind in ("grokking", "grokking under way", "grokking without understanding")
    assert "lost" not in seen.describe()


def test_accuracies_of_minibatches_are_judged_by_what_they_scatter_about():
    """Every step is logged, on 32 examples: an accuracy of 0.995 is 1 or 0.969, which is no fit by itself."""
    rng = np.random.default_rng(0)
    step = np.arange(1.0, 20_001)
    train, test = 0.995 - 0.9 * drop(step, 50, 4.0), 0.99 - 0.9 * drop(step, 5e3, 6.0)
    seen = diagnose(step, rng.binomial(32, train) / 32, rng.binomial(32, test) / 32, Criteria.accuracies())
    assert seen.kind == "grokking"
    # 0.99 is reached at 5e-3 of 0.9; most minibatches are without a mistake from 0.978 on, 0.017 of 0.9 earlier.
    assert drop_time(0.05, 50, 4.0) < seen.t_fit < 1.5 * drop_time(0.005, 50, 4.0)


# --------------------------------------------------------------------------------- what is missing, what diverged


def test_a_metric_that_was_not_evaluated_is_missing():
    """Training every row, test every tenth; then each on rows of its own; then a log that ends between two."""
    t, known = grid(), case("grokking")
    whole = known.verdict(t)
    every = np.arange(t.size) % 10 == 0
    seen = diagnose(t, known.train(t), np.where(every, known.test(t), np.nan), CRITERIA)
    assert seen.kind == "grokking"
    assert seen.t_fit == whole.t_fit
    assert seen.t_gen == pytest.approx(whole.t_gen, rel=0.3)  # half a decade between observations
    odd = np.arange(t.size) % 2 == 1
    for cut in (t.size, t.size - 1):
        train, test = np.where(odd, known.train(t), np.nan)[:cut], np.where(odd, np.nan, known.test(t))[:cut]
        apart = diagnose(t[:cut], train, test, CRITERIA)
        assert apart.kind == "grokking"
        assert (apart.t_fit, apart.t_gen) == pytest.approx((whole.t_fit, whole.t_gen), rel=4 * NEAR)
    norm = np.where(every, np.nan, known.test(t))
    assert diagnose(t, known.train(t), known.test(t), CRITERIA, norms={"l2": norm}).kind == "grokking"
    stopped = diagnose(t, known.train(t), np.where(t < 1e5, known.test(t), np.nan), CRITERIA)
    assert stopped.kind == "grokking"
    assert any("the test curve has no value after" in sentence for sentence in stopped.evidence)
    with pytest.raises(SpecError, match="at least 3 observations at positive times, and the test curve has 2"):
        diagnose(t, known.train(t), np.where(np.arange(t.size) < 2, 1.0, np.nan), CRITERIA)


def test_a_loss_that_blows_up_is_divergence_however_accuracies_look():
    t = np.concatenate([[0.0], grid()])
    accuracy, loss = np.where(t > 1e3, 0.1, 0.5), np.where(t > 1e3, 8e27, 0.7)
    seen = diagnose(t, accuracy, accuracy, Criteria.accuracies(), loss=loss)
    assert seen.kind == "diverged"
    assert any("training loss has grown" in sentence and "8.0e27" in sentence for sentence in seen.evidence)
    assert (
        diagnose(t, accuracy, accuracy, Criteria.accuracies(), loss=np.where(t > 1e3, np.nan, 0.7)).kind == "diverged"
    )
    # From nothing to little, the accuracy fitted: no divergence.
    fit = np.ones_like(t)
    assert diagnose(t, fit, accuracy, Criteria.accuracies(), loss=1e-9 + 1e-4 * (t > 1e3)).kind != "diverged"
    # One step took it there: where it began is at t = 0.
    at_once = diagnose(t, np.where(t > 0, 8e27, 1.0), np.ones_like(t), CRITERIA)
    assert at_once.kind == "diverged"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_curve_that_is_never_finite_says_so(value):
    t = grid()
    seen = diagnose(t, np.full_like(t, value), np.full_like(t, value), CRITERIA)
    assert seen.kind == "diverged"
    assert f"not a finite number at any of {t.size} observations" in seen.evidence[0]
    assert str(seen) == "Diverged"


# ------------------------------------------------------------------------------------------- from elsewhere


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_gives_the_verdict_of_its_arrays(tmp_path, separator):
    t, known = grid(), case("grokking without understanding")
    accuracy, error, norm = 1 - known.train(t), known.test(t), np.sqrt(known.test(t))
    columns = {"step": t, '"acc, train"': accuracy, "note": ["x"] * t.size, "val": error, "‖w‖": norm}
    rows = [columns, *zip(*columns.values(), strict=True)]
    path = tmp_path / "log.csv"
    text = "\n".join(separator.join(str(cell) for cell in row) for row in rows)
    path.write_text(f"\ufeff{text}\n\n", encoding="utf-8")  # as a spreadsheet would write it
    read = read_log(path, time="step", train="acc, train", test="val", norms=["‖w‖"])
    criteria = Criteria(Threshold("accuracy", 1 - FIT), Threshold("error", GENERALISE))
    like = ("accuracy", "error")
    assert guess_criteria(read["train"], read["test"], like, fit=1 - FIT, generalise=GENERALISE) == criteria
    norms = {"‖w‖": read.pop("‖w‖")}
    seen = diagnose(**read, criteria=criteria, norms=norms)
    assert seen == diagnose(t, accuracy, error, criteria, norms={"‖w‖": norm})
    assert seen.kind == known.kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("step,loss,val\n", "no rows"),
        ("step,loss,vall\n1,1,1\n", "no column 'val': did you mean 'vall'"),
        ("step,loss,val\n1,1,1\n\n2,1,oops\n", "line 4, column 'val': 'oops' is not a number"),
        ("step,loss,val\n1,1\n", "line 2: 2 cells under 3 names"),
        ("step,loss,val\n1,0,1,0,1\n", "line 2: 5 cells under 3 names of columns. If these are decimal commas"),
        ("step;loss;val\n1;0,1;0,1\n", "line 2, column 'loss': '0,1' is not a number: write a decimal point"),
        ("step,loss,loss,val\n1,1,1,1\n", "2 columns called 'loss'"),
        (f"step,loss,val\n1,1,{'1' * 140_000}\n", "line 2: field larger than field limit"),
        ("step,loss,val\n3,.5,\n3,,.4\n3,.6,\n", "line 4: column 'loss' has two values, 0.5 and 0.6, at 'step' 3"),
        ("step,loss,val\n,1,1\n", "line 2: time must increase"),
        ("step,loss,val\n1700000000,1,1\n1700000060,1,1\n", "from 1700000000 to 1700000060, which is a time of day"),
        (
            "step,loss,val\n1,1,1\n3,1,1\n2,1,1\n",
            "line 4: time must increase, but column 'step' goes from 3 to 2",
        ),
        ("step,loss,val\n1,1,1\nnan,1,1\n", "line 3: time must increase"),
    ],
)
def test_a_bad_csv_says_where(tmp_path, text, message):
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(SpecError, match=re.escape(message)):
        read_log(path, time="step", train="loss", test="val")


def test_a_log_is_read_once(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("step,loss,val\n1,2,3\n2,1,2\n")
    log = open_log(path)
    assert log.names() == ["step", "loss", "val"]
    path.unlink()
    assert read_columns(log, time="step", train="loss", test="val")["test"].tolist() == [3, 2]


def test_a_log_in_no_known_format_says_which_there_are(tmp_path):
    path = tmp_path / "log.bin"
    path.write_bytes(b"\xff\x00\xfe")
    with pytest.raises(SpecError, match=r"no format that is known here .*CSV: it is not a text file in UTF-8"):
        open_log(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SpecError, match=r"nowhere\.csv"):
        read_log(tmp_path / "nowhere.csv", time="step", train="loss", test="val")


@pytest.mark.parametrize(
    ("train", "test", "given", "criteria"),
    [
        ([0.1, 0.9, 1.0], [0.1, 0.1, 0.9], {}, Criteria.accuracies(0.99, 0.95)),
        ([0.5, 1.0, 1.0], [1.0, 1.0, 0.5], {}, Criteria.accuracies(0.99, 0.95)),  # misgrokking
        ([1.0, 90.0, 100.0], [0.9, 0.8, 0.9], {"generalise": 95}, Criteria.accuracies(99.0, 95.0)),  # at chance
        ([1.0, 90.0, 100.0], [0.1, 0.1, 0.9], {"generalise": 0.95}, Criteria.accuracies(99.0, 0.95)),
        ([1.0, 90.0, 100.0], [0.0, 0.0, 0.0], {}, Criteria.accuracies(99.0, 95.0)),
        ([0.1, 0.9, 1.0000001], [0.1, 0.1, 1.0000001], {}, Criteria.accuracies(0.99, 0.95)),
        ([1.0, 90.0, 100.00001], [1.0, 1.0, 100.00001], {}, Criteria.accuracies(99.0, 95.0)),
        ([2.0, 0.1, 1e-6], [4.0, 5.0, 9.0], {}, Criteria.errors(0.02, 0.4)),  # a rising test loss
        (
            [2.0, 0.1, 1e-6],
            [0.1, 0.1, 0.9],
            {},
            Criteria(Threshold("error", 0.02), Threshold("accuracy", 0.95)),
        ),
        (
            [0.1, 0.9, 1.0],
            [3.0, 5.0, 2.0],
            {},
            Criteria(Threshold("accuracy", 0.99), Threshold("error", 0.3)),
        ),
        ([0.5, 0.7, 0.8], [0.5, 0.6, 0.7], {"like": "error"}, Criteria.errors(0.005, 0.05)),
        (
            [0.1, 0.9, 1.0],
            [0.5, 0.1, 0.1],
            {"like": ("accuracy", "error"), "fit": 0.9},
            Criteria(Threshold("accuracy", 0.9), Threshold("error", 0.05)),
        ),
        ([np.nan, 2.0, 1.0], [4.0, 4.0, 4.0], {"fit": 0.5}, Criteria.errors(0.5, 0.4)),
        ([20.0, 10.0, 10.0], [5.0, 5.0, 5.0], {"like": "accuracy"}, Criteria.accuracies(99.0, 95.0)),
    ],
)
def test_criteria_are_guessed_as_documented(train, test, given, criteria):
    guessed = guess_criteria(train, test, **given)
    assert (guessed.train.like, guessed.test.like) == (criteria.train.like, criteria.test.like)
    assert (guessed.train.value, guessed.test.value) == pytest.approx((criteria.train.value, criteria.test.value))
    said = str(guessed)
    assert [t.like for t in (guessed.train, guessed.test)] == re.findall("error|accuracy", said)


@pytest.mark.parametrize(
    ("train", "test", "given", "message"),
    [
        ([10, 90, 100], [0.1, 0.1, 0.9], {}, "one accuracy is in percent, and test goes up to 0.9 only"),
        ([0.1, 0.9, 1], [10, 10, 90], {"like": "accuracy"}, "one accuracy is in percent, and train goes up to 1 only"),
        ([0.1, 0.9, 1], [0.1, 0.1, 0.9], {"fit": 99}, "they are fractions. Give a threshold that is a fraction"),
        ([10, 90, 100], [10, 10, 90], {"generalise": 0.9}, "they are in percent. Give a threshold in percent too"),
        ([0.1, 0.5, 0.99, 99, 100], [10, 10, 10, 10, 90], {"like": "accuracy"}, "fractions and percent in one column"),
        ([50, 0.6, 70, 0.72, 99], [10, 10, 10, 10, 90], {"like": "accuracy"}, "fractions and percent in one column"),
        ([0.1, 130.0], [0.1, 0.2], {"like": "accuracy"}, "accuracies lie between 0 and 1, or 0 and 100"),
    ],
)
def test_accuracies_on_two_scales_are_refused(train, test, given, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        guess_criteria(train, test, **given)


def test_a_threshold_on_the_other_scale_is_refused_for_arrays_too():
    t, known = grid(), case("grokking")
    for scale, criteria in ((1.0, Criteria.accuracies(99, 95)), (100.0, Criteria.accuracies(0.99, 0.9))):
        with pytest.raises(SpecError, match="threshold"):
            known.verdict(t, criteria, lambda e, scale=scale: scale * (1 - e))


def test_what_cannot_be_guessed_is_asked_for():
    with pytest.raises(SpecError, match="counts as fitted"):
        guess_criteria([0.0, 0.0], [1.0, 0.5])
    with pytest.raises(SpecError, match="did you mean 'accuracy'"):
        guess_criteria([0.0, 0.0], [1.0, 0.5], like="acuracy")
