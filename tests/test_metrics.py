"""What a run is judged by: accuracy of a squared loss, the loss of any, each against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import afterfit as af
from afterfit.models._inputs import Signature
from afterfit.tasks import Arrays, ModularArithmetic

RNG = np.random.default_rng(0)
X, X_TEST = RNG.standard_normal((12, 5)), RNG.standard_normal((9, 5))
Y, Y_TEST = np.arange(12) % 3, np.arange(9) % 3
W0 = RNG.standard_normal((3, 5))
SQUARED = {"loss_name": "squared", "metric_name": "accuracy"}


def scores(params, x):
    return params["W"] @ x


def trained(task, steps=1, initial=W0, **settings):
    model = af.models.Function(scores, {"W": initial})
    return af.train(task=task, model=model, dynamics=af.dynamics.GradientDescent(0.05, steps), progress=False)


def test_a_squared_loss_on_classes_is_judged_by_its_accuracy():
    wanted = np.eye(3)[Y]
    # Class numbers, and the same written out as rows, are one task.
    for y, y_test in ((Y, Y_TEST), (wanted, np.eye(3)[Y_TEST])):
        run = trained(Arrays(X, y, X_TEST, y_test, **SQUARED))
        W = W0 - 0.05 * 2 / 12 * (X @ W0.T - wanted).T @ X
        np.testing.assert_allclose(run.params["W"], W, rtol=1e-13)
        last = run.curves.isel(time=-1)
        assert float(last.train_loss) == pytest.approx(np.sum((X @ W.T - wanted) ** 2) / 12, rel=1e-12)
        assert float(last.train_accuracy) == np.mean(np.argmax(X @ W.T, axis=1) == Y)
        assert float(last.test_accuracy) == np.mean(np.argmax(X_TEST @ W.T, axis=1) == Y_TEST)
        assert run.criteria == af.Criteria.accuracies()


def test_signs_are_judged_by_the_sign_of_one_output():
    y, y_test = np.sign(X[:, 0]), np.sign(X_TEST[:, 0])
    run = trained(Arrays(X, y, X_TEST, y_test, **SQUARED), initial=W0[0])
    w = W0[0] - 0.05 * 2 / 12 * X.T @ (X @ W0[0] - y)
    np.testing.assert_allclose(run.params["W"], w, rtol=1e-13)
    assert float(run.curves.test_accuracy[-1]) == np.mean(np.sign(X_TEST @ w) == y_test)


class Column(af.tasks.Task):
    """One output in a column, whose sign counts."""

    metric = "accuracy"
    loss, signature = af.losses.Squared("mean"), Signature((5,), (1,))
    criteria = af.Criteria.accuracies()

    def draw(self, rng):
        y, y_test = np.sign(X[:, :1]), np.sign(X_TEST[:, :1])
        return af.tasks.Data(X, y, X_TEST, y_test, n=12, n_test=9)


def test_labels_in_a_column_are_labels():
    """Of one column the largest entry is always the right one: nothing could be wrong."""
    signs = np.sign(X[:, 0]), np.sign(X_TEST[:, 0])
    watched = {"margin": af.quantities.Margin()}
    for labels, settings in ((signs, SQUARED), (signs, {"loss_name": "logistic"}), ((Y, Y_TEST), SQUARED)):
        flat, column = (Arrays(X, y, X_TEST, t, **settings) for y, t in (labels, [part[:, None] for part in labels]))
        assert column.to_dict() == flat.to_dict()
    # A task of one's own may keep them so.
    given = {"dynamics": af.dynamics.GradientDescent(0.05, 1), "observe": watched, "init": af.inits.He()}
    flat = af.train(task=Arrays(X, signs[0], X_TEST, signs[1], **SQUARED), model=af.models.MLP((4,)), **given)
    column = af.train(task=Column(), model=af.models.MLP((4,)), **given)
    for name in ("train_accuracy", "test_accuracy", "margin"):
        assert np.allclose(column.curves[name], flat.curves[name]), name
    assert 0 < float(flat.curves.test_accuracy[0]) < 1
    rows = Arrays(X, signs[0][:, None], X_TEST, signs[1][:, None])
    assert rows.signature.outputs == (1,), "numbers are as they are given"


@pytest.mark.parametrize("loss_name", ["cross_entropy", "squared"])
def test_any_loss_can_be_judged_by_itself(loss_name):
    y, y_test = (Y, Y_TEST) if loss_name == "cross_entropy" else (np.eye(3)[Y], np.eye(3)[Y_TEST])
    task = Arrays(X, y, X_TEST, y_test, loss_name=loss_name, metric_name="loss", fit=0.8, generalise=1e-3)
    run = trained(task, 3000)
    loss, time = run.curves.train_loss.values, run.curves.time.values
    first = int(np.argmax(loss <= 0.8))
    assert first > 0
    assert time[first - 1] <= run.verdict.t_fit <= time[first]
    assert run.verdict.kind == "never generalised" or run.verdict.t_gen is None
    assert "train_accuracy" not in run.curves
    assert run.plot() is not None


@pytest.mark.parametrize("form", ["one_hot", "tokens"])
def test_modular_arithmetic_with_a_squared_loss_has_the_same_answers(form):
    one, other = (
        af.Experiment(ModularArithmetic(5, 0.5, form=form, loss_name=name), af.models.MLP((3,)), af.dynamics.SGD(1, 1))
        for name in ("cross_entropy", "squared")
    )
    classes, rows = one.draw(), other.draw()
    np.testing.assert_array_equal(rows.targets, np.eye(5)[classes.targets])
    np.testing.assert_array_equal(rows.test_targets, np.eye(5)[classes.test_targets])
    assert other.task.metric == one.task.metric == "accuracy"
    assert "loss_name" not in one.task.to_dict(), "runs of before keep their names"
    assert one.id != other.id


def test_theory_of_errors_does_not_speak_of_accuracies():
    linear = {"model": af.models.Linear(), "dynamics": af.dynamics.GradientFlow(10.0), "init": af.inits.Gaussian()}
    few, y, y_test = X[:4], np.sign(X[:4, 0]), np.sign(X_TEST[:, 0])
    by_error, by_accuracy = (
        af.train(task=Arrays(few, y, X_TEST, y_test, metric_name=name), **linear, progress=False)
        for name in ("error", "accuracy")
    )
    np.testing.assert_array_equal(by_error.params["weights"], by_accuracy.params["weights"])
    assert af.theory.clocks(by_error).get(af.theory.FitTime) is not None
    assert af.theory.clocks(by_accuracy).get(af.theory.FitTime) is None
    assert af.forecast(by_error.experiment, thorough=True).verdict is not None
    assert "judged by its accuracy" in str(af.forecast(by_accuracy.experiment))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric_name": "acuracy"}, "unknown metric_name 'acuracy': did you mean 'accuracy'"),
        ({"loss_name": "cross_entropy", "metric_name": "error"}, "an error is that of a squared loss"),
        ({"metric_name": "accuracy", "fit": 3.0}, "accuracies are fractions"),
    ],
)
def test_metrics_that_cannot_be_are_refused(settings, message):
    with pytest.raises(af.SpecError, match=message):
        Arrays(X, Y, X_TEST, Y_TEST, **settings)
    with pytest.raises(af.SpecError, match="class"):
        Arrays(X, X[:, 0], X_TEST, X_TEST[:, 0], **SQUARED)
