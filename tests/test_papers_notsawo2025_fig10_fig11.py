"""A ReLU student of a ReLU teacher: the paper's setting, and what is read off a run, computed a second way."""

import itertools

import numpy as np
import pytest

import afterfit as af
from afterfit import papers
from afterfit.papers.notsawo2025 import fig10
from afterfit.papers.notsawo2025.teacher import (
    FITTED,
    GENERALISED,
    Size,
    Student,
    exponents,
    fits_first,
    in_order,
    inverse_times,
    slower,
    student,
)

ALPHAS, BETAS = (1e-4, 5.5e-4, 1e-3, 5.5e-3, 1e-2, 5.5e-2), tuple(10.0**-k for k in range(1, 8))  # the notebooks'


def cell(alpha, beta, t2, t1=10.0, seed=0, least=None):
    return Student(None, alpha, beta, seed, t1, t2, t2 if least is None else least)


@pytest.mark.parametrize("name", ["fig10", "fig11"])
def test_paper_scale_is_the_ledger_s_setting(name):
    specs = [each.to_dict() for each in papers.find(f"notsawo2025/{name}").experiments("paper").values()]
    sizes = {tuple(spec["task"][key] for key in ("d", "hidden", "outputs", "n", "n_test")) for spec in specs}
    assert sizes == {(100, 500, 2, 100, 1000)}
    assert {tuple(spec["model"]["hidden"]) for spec in specs} == {(500,)}
    assert {(spec["dynamics"]["kind"], spec["model"]["biases"]) for spec in specs} == {("Adam", "none")}
    assert {spec["dynamics"]["lr"] for spec in specs} <= set(ALPHAS)
    own = [spec for spec in specs if spec["task"]["reduction"] == "half_mean"]  # not those of (125)
    assert all(any(np.isclose(spec["penalty"]["strength"], (0.0, *BETAS))) for spec in own)


def test_the_penalties_are_the_notebooks():
    kinds = {
        name: {each.to_dict()["penalty"]["kind"] for each in group.values()}
        for name, group in papers.find("notsawo2025/fig10").runs("paper").items()
    }
    assert kinds == {"L1": {"L1"}, "L2": {"Frobenius"}, "nuclear": {"Nuclear"}, "decay": {"L2"}, "free": {"L1"}}
    groups = papers.find("notsawo2025/fig11").runs("paper")
    assert {each.to_dict()["penalty"]["form"] for each in groups["grid"].values()} == {"norm"}
    assert all("form" not in each.to_dict()["penalty"] for each in groups["text"].values())  # (125), the default


@pytest.fixture(scope="module")
def run():
    experiment = student(Size(5, 12, 8, 30), af.penalties.L1(1e-2), 1e-2, 400, 0)
    return af.train(
        task=experiment.task,
        model=experiment.model,
        penalty=experiment.penalty,
        dynamics=experiment.dynamics,
        init=experiment.init,
        checkpoints=7,
    )


def test_times_are_those_of_the_curves(run):
    seen, steps = Student.of(run), run.curves["step"].values
    for time, name, level in ((seen.t1, "train_error", FITTED), (seen.t2, "test_error", GENERALISED)):
        errors = run.curves[name].values
        before = [k for k in range(len(steps)) if steps[k] < time]
        after = [k for k in range(len(steps)) if steps[k] >= time]
        assert all(errors[k] > level for k in before)
        assert not after or errors[after[0]] <= level * (1 + 1e-6)
    losses = run.curves["test_loss"].values
    down = next(step for step, loss in zip(steps, losses, strict=True) if loss <= 1.25 * min(losses))
    before = max(step for step in steps if step < down)
    assert before <= seen.least <= down <= 0.8 * steps[-1]


def test_errors_of_the_best_multiple(run):
    data = run.data
    for step, params in zip(run.checkpoints.steps, run.checkpoints, strict=True):
        error, free = fig10._errors(run, params)
        k = int(np.flatnonzero(run.curves["step"].values == step)[0])
        np.testing.assert_allclose(error, run.curves["test_error"].values[k], rtol=1e-4)
        A, B = (layer["weight"] for layer in params["layers"])
        f, y = (np.maximum(data.test_inputs @ A.T, 0) @ B.T).reshape(-1, 1), data.test_targets.ravel()
        _, squares, *_ = np.linalg.lstsq(f, y)
        np.testing.assert_allclose(free, np.sqrt(squares[0] / (y @ y)), rtol=1e-6)


def test_orders_and_exponents_of_made_up_times():
    places = list(itertools.product((1e-3, 1e-2), (1e-3, 1e-2, 1e-1), (0, 1)))
    rooted = [cell(a, b, 10 / (a * np.sqrt(b)), seed=seed) for a, b, seed in places]
    law = exponents(rooted, lambda c: c.t2)
    np.testing.assert_allclose((law["α"].value, law["β"].value), (-1, -0.5), atol=1e-9)
    assert slower({"made up": law}).holds
    inverted = [cell(a, b, 1 / (a * b), seed=seed) for a, b, seed in places]
    assert in_order(inverted, lambda c: c.t2).holds
    assert not in_order([cell(a, b, a * b, seed=seed) for a, b, seed in places], lambda c: c.t2).holds
    rng = np.random.default_rng(0)
    scattered = [cell(c.alpha, c.beta, c.t2 * np.exp(0.1 * rng.standard_normal()), seed=c.seed) for c in rooted]
    assert not slower({"made up": exponents(scattered, inverse_times(scattered))}).holds


def test_times_that_do_not_come_are_late():
    late, later = cell(1e-3, 1e-2, 100.0), cell(1e-3, 1e-3, np.inf)
    assert in_order([late, later], lambda c: c.t2).holds
    assert not in_order([cell(1e-3, 1e-2, np.inf), cell(1e-3, 1e-3, 100.0)], lambda c: c.t2).holds
    assert not fits_first([later]).holds
    assert not fits_first([cell(1e-3, 1e-2, 100.0, t1=np.inf)]).holds
    assert fits_first([late]).holds
    assert late.memorises
    assert not cell(1e-3, 1e-1, 100.0, t1=np.inf).memorises
