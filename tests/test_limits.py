"""What theory says of runs: kernel predictors, KKT residuals, limits, clocks, and the page that tells them."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import Cells
from hypothesis import given, settings
from hypothesis import strategies as st

import afterfit as af
from afterfit import SpecError, theory
from afterfit._diagnose.words import number
from afterfit._training.train import prepare
from afterfit.dynamics import GradientDescent, GradientFlow, LabelNoiseSGD
from afterfit.dynamics import _tangent as tangent
from afterfit.inits import Constant, Gaussian, He, Identity, ScaledGaussian, Symmetrised
from afterfit.models import (
    MLP,
    DiagonalNet,
    Function,
    LeastNorm,
    Linear,
    LinearModel,
    MatrixFactorisation,
    Parameter,
    SymmetricFactorisation,
    Tangent,
)
from afterfit.penalties import L1, L2, Penalty
from afterfit.tasks import MatrixCompletion, ReLURegression, SparseClassification, SparseRecovery, SparseRegression
from afterfit.theory import _instance as instances
from afterfit.theory._instance import posed
from afterfit.theory._kernel import margin_features
from afterfit.theory._programs import non_negative
from afterfit.theory._routes.linear import ClosedForm
from afterfit.theory._routes.manifold import RiemannianLimit
from afterfit.theory._theorems import notsawo2025
from afterfit.theory._theorems.boursier2025 import TwoTimeScales
from afterfit.theory._theorems.lyu2023 import Classification, Regression
from afterfit.theory._theorems.notsawo2025 import SparseRecovery as SparseRecoveryTheorem

pytestmark = pytest.mark.usefixtures("x64")


def _experiment(task, model, init, penalty=None, dynamics=None, seed=0):
    return af.Experiment(
        task=task,
        model=model,
        init=init,
        penalty=L2(1e-3) if penalty is None else penalty,
        dynamics=GradientFlow(2e4) if dynamics is None else dynamics,
        seed=seed,
        observations=60,
    )


REGRESSION = _experiment(SparseRegression(n=12, d=25, sparsity=2), DiagonalNet(), Constant(scale=3.0))
CLASSIFICATION = _experiment(SparseClassification(n=20, d=60, sparsity=3), DiagonalNet(), Constant(scale=3.0))
RECOVERY = _experiment(
    SparseRecovery(n=30, sparsity=2, N=15, scale=1.0),
    Linear(),
    ScaledGaussian(1e-6),
    L1(1e-6),
    GradientFlow(1e7),
)


@pytest.fixture(scope="module")
def grokked():
    return af.run_experiment(REGRESSION)


@pytest.fixture(scope="module")
def classified():
    return af.run_experiment(CLASSIFICATION)


@pytest.fixture(scope="module")
def recovered():
    return af.run_experiment(RECOVERY)


# The kernel regime


def test_kernel_interpolation_is_the_end_of_the_linearised_flow():
    task, init = ReLURegression(), Gaussian(1.0)
    instance = posed(_experiment(task, MLP((40,), biases="hidden"), init))
    predictor = theory.kernel_predictor(instance)
    end = af.train(
        task=task, model=Tangent(MLP((40,), biases="hidden")), init=init, dynamics=GradientFlow(1e9), observations=3
    )
    x = instance.problem.data.test_inputs
    np.testing.assert_allclose(
        predictor.model(predictor.params, x), predictor.model(jax.tree.map(jnp.asarray, end.params), x), atol=1e-5
    )
    assert instance.score(predictor.model, predictor.params)[0] < 1e-6
    assert theory.limits(end)[theory.KernelInterpolation].distance < 1e-5  # the linearised run has limits of its own


def test_the_kernel_margin_of_a_diagonal_net_is_the_l2_margin():
    # ∇f(αe; x) = 2α(x, −x), so that γ_ntk = 2√2·α·γ (Lyu et al. 2023, Cor. 3.6).
    instance = posed(CLASSIFICATION)
    predictor = theory.kernel_predictor(instance)
    w = theory.max_l2_margin(instance.design, instance.targets)
    np.testing.assert_allclose(predictor.margin, 2 * np.sqrt(2) * 3.0 / np.linalg.norm(w), rtol=1e-9)
    found = np.asarray(predictor.model.weights(predictor.params))
    np.testing.assert_allclose(found / np.linalg.norm(found), w / np.linalg.norm(w), atol=1e-8)


def test_margins_of_several_classes_are_those_of_the_targets_over_the_others():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((9, 6)), rng.integers(0, 3, 9)
    task = af.tasks.Arrays(X, y, X, y, loss_name="cross_entropy")
    instance = posed(_experiment(task, MLP((8,)), Symmetrised(Gaussian(1.0))))
    at = margin_features(instance.problem, instance.initial)
    outputs = np.asarray(tangent.outputs(instance.problem, instance.initial))
    by_hand = [outputs[i, y[i]] - outputs[i, j] for i in range(9) for j in range(3) if j != y[i]]
    np.testing.assert_allclose(np.sort(np.asarray(at.value)), np.sort(by_hand), atol=1e-12)
    predictor = theory.kernel_predictor(instance)
    assert instance.score(predictor.model, predictor.params)[0] == 1.0
    # The margin is 1/‖h‖ with every constraint at least 1: no direction of the same norm does better.
    margins = np.asarray(at.push_forward(jax.tree.map(jnp.subtract, predictor.params, instance.initial)))
    np.testing.assert_allclose(margins.min() / np.abs(margins).max(), 1 / np.abs(margins / margins.min()).max())
    assert margins.min() > 0


def test_the_last_layer_predictor_is_least_squares_on_hidden_features():
    instance = posed(_experiment(ReLURegression(), MLP((60,), biases="hidden"), He(1.0)))
    predictor = theory.last_layer_predictor(instance)
    first = instance.initial["layers"][0]
    data = instance.problem.data
    hidden, unseen = (
        np.maximum(np.asarray(x) @ np.asarray(first["weight"]).T + np.asarray(first["bias"]), 0)
        for x in (data.inputs, data.test_inputs)
    )
    by_hand = unseen @ theory.min_l2(hidden, np.asarray(data.targets))
    np.testing.assert_allclose(predictor.model(predictor.params, data.test_inputs), by_hand, atol=1e-6)


def test_the_kernel_in_blocks_is_the_kernel(monkeypatch):
    instance = posed(_experiment(ReLURegression(), MLP((20,)), He(1.0)))
    whole = tangent.kernel(instance.problem, instance.initial)
    monkeypatch.setattr(tangent, "_TOGETHER", 100)
    np.testing.assert_allclose(tangent.kernel(instance.problem, instance.initial), whole, rtol=1e-10, atol=1e-12)


# KKT points


def _lifted(weights):
    return {"plus": jnp.sqrt(jnp.maximum(weights, 0)), "minus": jnp.sqrt(jnp.maximum(-weights, 0))}


def test_convex_solutions_are_kkt_points_of_the_nets_that_hide_them():
    regression, classification = posed(REGRESSION), posed(CLASSIFICATION)
    found = theory.kkt(regression.problem, _lifted(theory.min_l1(regression.design, regression.targets)))
    assert (found.program, found.residual < 1e-6, found.infeasibility < 1e-9) == ("R2", True, True)
    found = theory.kkt(
        classification.problem, _lifted(theory.max_l1_margin(classification.design, classification.targets))
    )
    assert (found.program, found.residual < 1e-6, abs(found.slack) < 1e-6) == ("R1", True, True)
    matrix = posed(_experiment(MatrixCompletion(6, 6, 1, observed=25), MatrixFactorisation(6), Gaussian(1.0)))
    U, s, Vt = np.linalg.svd(theory.min_nuclear(matrix.design, matrix.targets))
    params = {"U": jnp.asarray(U * np.sqrt(s)), "V": jnp.asarray(Vt.T * np.sqrt(s))}
    assert theory.kkt(matrix.problem, params).residual < 1e-2  # the square root of the cone solver's accuracy
    worse = theory.kkt(regression.problem, _lifted(theory.min_l2(regression.design, regression.targets)))
    assert worse.residual > 0.1  # it fits, but is not of least norm


@given(st.floats(0.01, 100.0), st.integers(0, 50))
@settings(max_examples=10)
def test_the_kkt_residual_of_a_classifier_does_not_see_its_scale(scale, seed):
    instance = posed(CLASSIFICATION)
    w = theory.max_l2_margin(instance.design, instance.targets) + 0.01 * np.random.default_rng(seed).standard_normal(60)
    a = theory.kkt(instance.problem, _lifted(w))
    b = theory.kkt(instance.problem, _lifted(scale * w))
    np.testing.assert_allclose([a.residual, a.slack], [b.residual, b.slack], rtol=1e-6)


def test_a_classifier_that_errs_is_infeasible_and_one_that_does_not_scale_is_refused():
    instance = posed(CLASSIFICATION)
    wrong = _lifted(-theory.max_l2_margin(instance.design, instance.targets))
    assert theory.kkt(instance.problem, wrong).infeasibility == np.inf
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((8, 3)), np.sign(rng.standard_normal(8))
    task = af.tasks.Arrays(X, y, X, y, loss_name="logistic")
    biased = posed(_experiment(task, MLP((5,), biases="all"), Gaussian(1.0)))
    with pytest.raises(theory.Unanswered, match="MLP is not homogeneous"):
        theory.kkt(biased.problem, biased.initial)


# Limits


def test_runs_end_at_the_limits_that_theory_names(grokked, classified, recovered):
    found = theory.limits(grokked)
    assert found.nearest is found[theory.Lasso]
    assert found[theory.Lasso].distance < 1e-4
    kernel = found[theory.KernelInterpolation]
    assert kernel.distance > 0.3
    np.testing.assert_allclose(kernel.predictor, found[theory.MinL2].predictor, atol=1e-8)
    np.testing.assert_allclose(found[theory.Lasso].test, grokked.curves.test_error.values[-1], rtol=1e-2)
    found = theory.limits(classified)
    assert found.nearest is found[theory.MaxL1Margin]
    assert found[theory.MaxL1Margin].distance < 0.5 * found[theory.MaxL2Margin].distance
    assert theory.limits(recovered)[theory.Lasso].distance < 1e-8  # both are exact


@pytest.mark.parametrize("depth", [2, 3])
def test_flows_without_penalty_end_at_argmin_q(depth):
    shape = tuple(np.linspace(0.5, 2, 25)) if depth == 2 else None
    spec = dataclasses.replace(
        REGRESSION,
        model=DiagonalNet(depth),
        penalty=af.penalties.NoPenalty(),
        init=Constant(scale=0.5, shape=shape),
        dynamics=GradientFlow("settled", rtol=1e-8),
    )
    found = theory.limits(af.run_experiment(spec))
    assert found.nearest.regime == "between"
    assert found.nearest.distance < 1e-5


@pytest.mark.parametrize("model", [MatrixFactorisation(5), SymmetricFactorisation()])
def test_weight_decay_on_factors_ends_at_the_nuclear_norm(model):
    task = MatrixCompletion(5, 5, 1, observed=20, symmetric=True, reduction="mean")
    init = Identity(1.0, perturbation=0.1) if isinstance(model, SymmetricFactorisation) else Gaussian(1.0)
    run = af.run_experiment(_experiment(task, model, init, L2(1e-2), GradientFlow(5e3)))
    found = theory.limits(run)
    assert found[theory.NuclearPenalised].distance < 1e-4
    assert found[theory.NuclearPenalised].distance < found[theory.MinNuclear].distance


def test_a_model_of_ones_own_has_the_limits_of_what_it_states():
    class Product(LinearModel):
        def parameters(self, signature):
            return {name: Parameter(signature.inputs) for name in "uv"}

        def weights(self, params):
            return params["u"] * params["v"]

        @property
        def least_norm(self):
            return LeastNorm(1.0, 1.0, source="½(u² + v²) ≥ |uv|")

    class Squares(Product):  # another formula, of which nothing is stated
        def weights(self, params):
            return params["u"] ** 2 - params["v"] ** 2

    found = [
        theory.limits(af.run_experiment(dataclasses.replace(REGRESSION, model=model(), init=Gaussian(1.0))))
        for model in (Product, Squares)
    ]
    at = posed(REGRESSION)
    by_hand = theory.lasso(at.design, at.targets, 1e-3 / at.half_factor)
    np.testing.assert_allclose(found[0][theory.Lasso].predictor, by_hand, atol=1e-9)
    assert found[0].nearest is found[0][theory.Lasso]
    assert found[0][theory.Lasso].distance < 1e-3
    assert "L2 on the parameters of Squares comes to is not known" in found[1].silent[theory.Lasso]


def test_the_ridge_limit_of_the_linear_model():
    spec = dataclasses.replace(RECOVERY, penalty=L2(1e-2), init=Gaussian(1.0), dynamics=GradientFlow(1e5))
    found = theory.limits(af.run_experiment(spec))
    assert found[theory.Ridge].distance < 1e-9
    assert found[theory.Ridge].source == "Notsawo et al. 2025, Thm 3.6"


class SumOfSquares(Penalty):
    """β‖θ‖², which is weight decay of λ = 2β."""

    smooth = True

    @property
    def decay(self):
        return 2 * self.strength

    def value(self, params):
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def test_weight_decay_is_told_by_its_decay_and_not_by_its_strength():
    task, decay = SparseRegression(n=4, d=6, sparsity=2), 1e-3
    descent = GradientDescent(lr=1e-3, steps=10_000_000)
    named, instance = (
        dataclasses.replace(
            posed(_experiment(task, Linear(), Gaussian(1.0), penalty, descent)), final={"weights": np.ones(6)}
        )
        for penalty in (L2(decay), SumOfSquares(decay / 2))
    )
    X, y, c = instance.design, instance.targets, instance.half_factor
    by_hand = np.linalg.solve(c * X.T @ X + decay * np.eye(6), c * X.T @ y)
    np.testing.assert_allclose(theory.Ridge(instance).predictor, by_hand)
    assert list(notsawo2025.steps(instance, "l2")) == list(notsawo2025.steps(named, "l2"))
    # The Riemannian flow is the limit λ → 0 of the closed form: in the same time, if it is told by the penalty's own.
    times = np.geomspace(1.0, 1e4, 20)
    limiting, exact = (route(instance, times).curves for route in (RiemannianLimit, ClosedForm))
    np.testing.assert_allclose(limiting.test, exact.test, rtol=2e-2)


def test_limits_are_found_by_class_and_by_name_and_those_that_do_not_apply_say_why(grokked):
    found = theory.limits(grokked)
    assert found["lasso"] is found[theory.Lasso] is found[[limit.name for limit in found].index("lasso")]
    assert theory.Lasso in found
    assert "lasso" in found
    for key in (theory.MaxL1Margin, "max-L1-margin"):
        assert key not in found
        with pytest.raises(KeyError, match="max-L1-margin does not apply: it is for classification"):
            found[key]
    assert found.get(theory.MaxL1Margin) is None
    # A name or class that is none of the family's is an error, not an absence.
    for ask in (lambda key: found[key], lambda key: key in found):
        with pytest.raises(KeyError, match=r"'laso'.*did you mean 'lasso'"):
            ask("laso")
        with pytest.raises(KeyError, match="SlowTime is none of those that were asked: kernel interpolation"):
            ask(theory.SlowTime)
    assert {*map(type, found), *found.silent} == set(theory.Limit.known())
    assert "Cor. 3.7" in str(found)
    assert all(rule.name in str(found) for rule in found.silent)


@pytest.mark.usefixtures("rules_forgotten")
def test_what_cannot_be_computed_is_silent_and_a_bug_is_not(grokked):
    class Odd(theory.Limit):
        name, source, regime = "odd", "nowhere", "rich"
        error: Exception = theory.Unanswered("there is no such predictor")

        @classmethod
        def obstacle(cls, instance):
            return None

        def find(self, instance):
            raise self.error

    found = theory.limits(grokked)
    assert found.silent[Odd] == "there is no such predictor"
    assert found[theory.Lasso].distance < 1e-4  # the others are told
    Odd.error = RuntimeError("a bug")
    with pytest.raises(RuntimeError, match="a bug"):
        theory.limits(grokked)


def test_programs_that_no_solver_solves_are_unanswered():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5, 8)), rng.standard_normal(5)
    with pytest.raises(theory.Unanswered, match="Clarabel failed"):
        theory.lasso(X, y, 1e-200)
    with pytest.raises(theory.Unanswered, match="not solved: infeasible"):
        theory.min_nuclear(np.ones((2, 4, 4)), np.array([1.0, 2.0]))
    with pytest.raises(theory.Unanswered, match="did not end"):
        non_negative(X, y, 1)


def test_theory_speaks_of_loaded_runs_and_of_models_of_ones_own(grokked, tmp_path):
    loaded = af.load(grokked.save(tmp_path / "run"))
    assert theory.limits(loaded)[theory.Lasso].distance == theory.limits(grokked)[theory.Lasso].distance

    def f(params, x):
        return jnp.tanh(params["W"] @ x) @ params["v"]

    rng = np.random.default_rng(0)
    own = Function(f, {"W": rng.standard_normal((20, 25)), "v": rng.standard_normal(20)})
    run = af.train(task=REGRESSION.task, model=own, dynamics=GradientFlow(100.0), penalty=L2(1e-3), observations=20)
    assert theory.limits(run)[theory.KernelInterpolation].train < 1e-6
    assert TwoTimeScales in theory.explain(run, thorough=True).readings
    with pytest.raises(SpecError, match="exists in Python only"):
        theory.limits(af.load(run.save(tmp_path / "own")))


def test_what_is_not_a_run_or_an_experiment_is_refused(grokked):
    with pytest.raises(SpecError, match="theory speaks of a run"):
        theory.limits(grokked.spec)
    with pytest.raises(SpecError, match=r"got 'my\.toml': read a file with Experiment\.from_toml"):
        af.forecast("my.toml")
    with pytest.raises(SpecError, match=r"give of a run its run\.spec"):
        af.forecast(grokked)


# Clocks


def test_the_clock_of_large_starts(grokked):
    told = theory.clocks(grokked)[theory.LargeStart]
    alpha = 3.0 * np.sqrt(50)
    np.testing.assert_allclose(told.prediction, np.log(alpha) / 1e-3, rtol=1e-12)
    np.testing.assert_allclose(told.window, (0.5 * told.prediction, 1.5 * told.prediction))
    np.testing.assert_allclose(told.ratio * told.prediction, grokked.verdict.t_half)
    assert told.window[0] <= told.measured <= told.window[1]
    assert told.promise == "order", "it is sharp in the limit α → ∞ only"


@pytest.mark.parametrize("scale", [3.0, 0.5, 0.25])
def test_a_clock_has_the_constant_of_its_start(scale):
    # At a modest α the constant beside log α is most of the time. With the features of w₊² − w₋² at w₊ = w₋ = s the
    # kernel regime ends ‖h‖ = ‖β‖₂/(2√2·s) from the start, β the least-squares solution.
    spec = dataclasses.replace(REGRESSION, penalty=L2(1e-3), init=Constant(scale), dynamics=GradientFlow(2e4))
    run, data = af.run_experiment(spec), spec.draw()
    told = theory.clocks(run)[theory.KernelPhase]
    alpha = scale * np.sqrt(2 * data.inputs.shape[1])
    way = np.linalg.norm(np.linalg.pinv(data.inputs) @ data.targets) / (2 * np.sqrt(2) * scale)
    np.testing.assert_allclose(told.prediction, np.log(alpha / way) / (2 * 1e-3), rtol=1e-6)
    assert told.window[0] <= told.measured <= told.window[1]
    assert told.window[1] - told.prediction == pytest.approx(1e3)


def test_a_start_too_small_for_a_kernel_phase_is_said():
    spec = dataclasses.replace(REGRESSION, penalty=L2(1e-3), init=Constant(0.05), dynamics=GradientFlow(10.0))
    told = theory.clocks(af.run_experiment(spec))
    assert "too small for a kernel phase" in told.silent[theory.KernelPhase]
    assert "α = 0.3" in told.silent[theory.LargeStart]
    assert "(1/Lλ)·log(α/‖h‖): does not apply" in str(told)


def test_the_clock_of_label_noise_is_not_for_another_step():
    class Quiet(LabelNoiseSGD):
        def step(self, problem, params, memory, key):
            return params, memory

    noisy, quiet = (posed(dataclasses.replace(REGRESSION, dynamics=kind(0.1, 10))) for kind in (LabelNoiseSGD, Quiet))
    assert theory.LabelNoiseTime.obstacle(noisy) is None
    assert "not Quiet" in (theory.LabelNoiseTime.obstacle(quiet) or "")


def test_the_verdict_and_theory_mean_the_same_by_half_way(grokked):
    (said,) = (sentence for sentence in grokked.verdict.evidence if "half-way" in sentence)
    assert f"half-way at t={number(grokked.verdict.t_half)}," in said
    # The curve's own value there is half-way between the plateaus of the verdict, on the verdict's own line between
    # observations: straight in logs over log time.
    levels = grokked.verdict.plateaus["test_before"], grokked.verdict.plateaus["test_after"]
    curve = grokked.curves["test_error"]
    logs = np.log(curve["time"].values[1:]), np.log(curve.values[1:])
    at = np.exp(np.interp(np.log(grokked.verdict.t_half), *logs))
    assert at == pytest.approx(sum(levels) / 2, rel=1e-6)


def test_the_fit_is_no_later_than_its_clock_for_a_linear_model():
    # With σ_min the least singular value, ‖Xa − y‖ falls at least as e^{−σ_min²t} for ½‖Xa − y‖².
    spec = dataclasses.replace(RECOVERY, penalty=L2(1e-9), dynamics=GradientDescent(lr=0.01, steps=100_000))
    run = af.run_experiment(spec)
    told = theory.clocks(run)[theory.FitTime]
    data = spec.draw()
    least = np.linalg.svd(data.inputs, compute_uv=False)[-1]
    start = run.curves.train_error.values[0]
    np.testing.assert_allclose(told.prediction, np.log(start / run.criteria.train.value) / least**2, rtol=1e-6)
    assert told.promise == "at most"
    assert told.ratio <= 1.02  # observations are 10 % apart


def test_the_clocks_of_a_convex_penalty(recovered):
    told = theory.clocks(recovered)
    data = RECOVERY.draw()
    gap = np.linalg.pinv(data.inputs) @ data.targets - theory.min_l1(data.inputs, data.targets)
    np.testing.assert_allclose(told[theory.Descent].prediction, np.max(np.abs(gap)) / 1e-6, rtol=1e-4)
    assert 0.2 < told[theory.Descent].ratio < 5
    bound = told[theory.PenaltyBound]
    assert bound.promise == "at most"
    assert 0 < bound.ratio <= 1


# The page


@pytest.fixture
def posings(monkeypatch):
    """The problems that theory poses from here on."""
    posed = []
    monkeypatch.setattr(instances, "prepare", lambda experiment: posed.append(experiment) or prepare(experiment))
    return posed


def test_the_page_says_which_theorem_applies_and_what_happened(grokked, classified, recovered, posings):
    page = theory.explain(grokked, thorough=True)
    assert len(posings) == 1, "theorems, limits and clocks speak of one problem"
    lyu = page.readings[Regression]
    assert lyu.name == "Lyu et al. 2023, Thms 3.9 and 3.10"
    assert lyu.applies
    assert {check.holds for check in lyu.checks} == {True}
    # The end of a sparse solution is a singular point, which Assumption 2 of Boursier et al. excludes.
    assert page.readings[TwoTimeScales].applies is False
    assert "its assumptions hold here" in str(page)
    (notsawo,) = theory.explain(recovered, thorough=True).readings
    assert type(notsawo) is SparseRecoveryTheorem
    assert notsawo.applies  # whatever the RIP, which it does without
    assert "· RIP of unit columns" in str(notsawo)
    assert Classification in theory.explain(classified, thorough=True).readings


def test_a_broken_assumption_is_told_with_its_number():
    spec = _experiment(
        MatrixCompletion(5, 5, 1, observed=15), MatrixFactorisation(5), Gaussian(1.0), dynamics=GradientFlow(10.0)
    )
    lyu = theory.explain(af.run_experiment(spec), thorough=True).readings[Regression]
    broken = {check.name: check.number for check in lyu.checks if check.holds is False}
    assert list(broken) == ["Assumption 3.2: zero initial output"]
    at = posed(spec)
    size = np.max(np.abs(np.asarray(tangent.outputs(at.problem, at.initial))))
    assert f"{size:.2g}" in broken["Assumption 3.2: zero initial output"]
    assert lyu.applies is False


def test_theory_is_drawn_over_the_run(grokked, posings):
    figure = theory.plot(grokked)
    assert len(posings) == 1, "the problem is posed once for all that is drawn"
    labels = figure.axes[0].get_legend_handles_labels()[1]
    assert {"kernel interpolation", "lasso", "foreseen by theory"} <= set(labels)
    assert labels.index("foreseen by theory") < labels.index("kernel interpolation")
    rows = [text.get_text() for text in figure.axes[-1].texts]
    assert len(rows) == 3
    assert not any("_" in row.split("$")[0] for row in rows), "formulas are typeset"
    figure.draw_without_rendering()


def test_a_notebook_shows_tables_with_the_numbers(grokked):
    page, foreseen = theory.explain(grokked, thorough=True), af.forecast(grokked.spec, thorough=True)
    limits, clocks, whole = (Cells(thing._repr_html_()) for thing in (page.limits, page.clocks, page))
    assert limits.captions == ["Where it could end"]
    assert clocks.captions == ["When it should turn"]
    for limit in page.limits:
        at = limits.cells.index(limit.name)
        assert float(limits.cells[at + 3]) == pytest.approx(limit.test, rel=1e-3)
        assert float(limits.cells[at + 4]) == pytest.approx(limit.distance, rel=0.1)
    for told in page.clocks:
        at = clocks.cells.index(told.name)
        assert float(clocks.cells[at + 2]) == pytest.approx(told.prediction, rel=1e-2)
    assert len(whole.captions) == len(page.readings) + 2
    for check in page.readings[Regression].checks:
        assert check.number in whole.cells  # also where it holds < or &
    assert set(limits.cells + clocks.cells) <= set(whole.cells)
    assert str(foreseen.verdict) in Cells(foreseen._repr_html_()).cells
    assert all(rule.name in page._repr_html_() for rule in page.clocks.silent)


def test_repr_is_one_line_and_print_is_the_page(grokked):
    page, foreseen = theory.explain(grokked, thorough=True), af.forecast(grokked.spec, thorough=True)
    at = theory.instance_of(grokked)
    things = [page, page.limits, page.clocks, page.readings, foreseen, at]
    things += [*page.limits, *page.clocks, *page.readings]
    things += [theory.kkt(at.problem, at.end), theory.kernel_predictor(at), theory.hessian_rank(at.problem, at.end)]
    for thing in things:
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 200, repr(thing)
    assert str(page).count("\n") > 30
    assert "lasso" in repr(page.limits)
    assert "grokking" in repr(foreseen).lower()


def test_an_empty_answer_says_why():
    # No theorem, clock or route is about Adam on a ReLU net with a cross-entropy; each says what stands in its way.
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), rng.integers(0, 3, 30)
    run = af.train(
        task=af.tasks.Arrays(X, y, X, y, loss_name="cross_entropy"),
        model=af.models.MLP(hidden=(8,)),
        dynamics=af.dynamics.Adam(lr=1e-2, steps=50),
        init=Gaussian(0.5),
        observations=10,
    )
    page, clocks = theory.explain(run, thorough=True), theory.clocks(run)
    assert not page.readings
    assert not clocks
    assert set(page.readings.silent) == set(theory.Theorem.known())
    for reasons in (page.readings.silent, clocks.silent):
        assert all(why.startswith("it is for ") for why in reasons.values()), reasons
    assert "it is for L2, not no penalty" in str(clocks)
    assert "linear in their input" in str(page.limits)
    assert all(theorem.name in str(page) for theorem in page.readings.silent)
