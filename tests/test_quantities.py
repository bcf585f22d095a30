"""What is observed of a run beside its metrics and norms: each quantity against the same by another way."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import flat
from small_problems import LABELS, X, posed, task

import afterfit as af
from afterfit import SpecError
from afterfit._base.spectrum import largest_eigenvalue
from afterfit._training.train import train
from afterfit.dynamics import GradientDescent
from afterfit.inits import Gaussian
from afterfit.models import MLP, DiagonalNet, Linear, MatrixFactorisation
from afterfit.quantities import DistanceFromStart, EffectiveRank, FeatureDistance, KernelAlignment, Margin, Sharpness


def value(quantity, problem, params, start=None):
    """A quantity at `params` of a run that began at `start`."""
    memory = quantity.begin(problem, params if start is None else start)
    return np.asarray(quantity.value(problem, params, memory))


# ------------------------------------------------------------------------------------------------ along a run


def largest(params, data):
    return jnp.max(jnp.abs(params["plus"])) + 0 * data.targets[0]


@pytest.fixture(scope="module")
def run():
    observe = {"largest": largest, "rank": EffectiveRank(), "away": DistanceFromStart(), "sharp": Sharpness()}
    return train(
        task=task(),
        model=DiagonalNet(),
        dynamics=GradientDescent(1e-2, 500),
        init=Gaussian(0.5),
        observations=8,
        observe=observe,
        checkpoints=3,
    )


def test_own_quantities_are_curves_of_the_run_its_files_and_its_picture(run, tmp_path):
    kept = run.checkpoints[-1]
    assert run.curves["largest"].values[-1] == np.abs(kept["plus"]).max() == np.abs(run.params["plus"]).max()
    moved = np.linalg.norm(flat(run.params) - flat(run.checkpoints[0])) / np.linalg.norm(flat(run.checkpoints[0]))
    assert run.curves["away"].values[[0, -1]] == pytest.approx([0, moved])
    again = af.load(run.save(tmp_path / "run"))
    np.testing.assert_array_equal(again.curves["sharp"], run.curves["sharp"])
    words = {
        text.get_text() for ax in run.plot().axes for text in (ax.get_legend().get_texts() if ax.get_legend() else ())
    }
    assert all(any(word.startswith(name) for word in words) for name in ("largest", "rank", "away", "sharp"))


def test_what_is_observed_is_part_of_the_experiment(run):
    plain = run.experiment.set({"observe": {}, "checkpoints": 0})
    assert "observe" not in plain.to_dict(), "so that runs from before keep their names"
    ids = {plain.id, run.experiment.id, plain.set({"checkpoints": 3}).id, plain.set({"checkpoints": [1.0]}).id}
    ids |= {plain.set({"observe.align": {"kind": "KernelAlignment"}, "observe.align.examples": k}).id for k in (3, 4)}
    assert len(ids) == 6
    assert run.spec["observe"]["rank"] == {"kind": "EffectiveRank"}
    assert run.spec["observe"]["largest"]["function"].endswith("test_quantities.largest")


def test_quantities_are_written_in_toml_and_changed_by_their_names(tmp_path):
    text = """
    task = {kind = "SparseRecovery", n = 6, sparsity = 2, N = 4}
    model = {kind = "Linear"}
    dynamics = {kind = "GradientDescent", lr = 0.1, steps = 5}
    init = {kind = "Gaussian"}
    checkpoints = [0.1, 0.2]
    observe.align = {kind = "KernelAlignment", examples = 3}
    """
    (tmp_path / "my.toml").write_text(text)
    experiment = af.Experiment.from_toml(tmp_path / "my.toml")
    assert experiment.observe == {"align": KernelAlignment(3)}
    (tmp_path / "again.toml").write_text(experiment.to_toml())
    assert af.Experiment.from_toml(tmp_path / "again.toml") == experiment
    changed = experiment.set({"observe.align.examples": 2, "observe.sharp": {"kind": "Sharpness"}})
    assert changed.observe == {"align": KernelAlignment(2), "sharp": Sharpness()}
    with pytest.raises(SpecError, match="examples must be 1 or more, got 0"):
        experiment.set({"observe.align.examples": 0})


def test_a_changed_function_is_computed_anew():
    """JAX knows a function by its identity; what it reads may be another number by now."""
    scale = {"by": 1.0}

    def scaled(params, data):
        return scale["by"] * params["weights"][0]

    one, two = (
        train(task=task(), model=Linear(), dynamics=GradientDescent(1e-2, 5), init=Gaussian(), observe={"w": scaled})
        for scale["by"] in (1.0, 2.0)
    )
    np.testing.assert_array_equal(two.curves["w"], 2 * one.curves["w"])


@pytest.mark.parametrize(
    ("observe", "said"),
    [
        ({"norm_l2": largest}, "has a curve 'norm_l2' of its own"),
        ({"two words": largest}, "letters and digits such as 'rank', got 'two words'"),
        ({"rank": EffectiveRank}, "write EffectiveRank()"),
        ({"rank": 3}, r"a function f\(params, data\), got 3"),
        ([largest], "a table of quantities by name"),
        ({"rank": {"kind": "EffectiveRang"}}, "EffectiveRank"),
        ({"odd": lambda p, d: "a word"}, "the quantity 'odd' cannot be evaluated"),
        (
            {"odd": lambda p, d: 1.0 if p["plus"][0] > 0 else 2.0},
            "jnp.where in place of `if`.*test_quantities.py, line",
        ),
        ({"odd": lambda p, d: (p["plus"], 1.0)}, "a real number or an array"),
        ({"margin": Margin()}, "of a classification, and Arrays is judged by its error"),
    ],
)
def test_what_cannot_be_observed_is_refused_before_the_run(observe, said):
    with pytest.raises(SpecError, match=said):
        train(task=task(), model=DiagonalNet(), dynamics=GradientDescent(1e-2, 5), init=Gaussian(), observe=observe)


# --------------------------------------------------------------------------------------------- the ready ones


class Grown(af.quantities.Quantity):
    """How many times its start the norm is: what it keeps of the start is a number."""

    def begin(self, problem, params):
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    def value(self, problem, params, memory):
        return self.begin(problem, params) / memory


class Telling(af.models.Linear):
    """Tells of itself under a name that is taken already."""

    name: str = "spread"

    def observe(self, params):
        return {self.name: jnp.sum(params["weights"]), "parts": params["weights"]}


def observed(model, **observe):
    given = {"task": task(), "dynamics": GradientDescent(1e-2, 5), "init": Gaussian(0.5)}
    return train(**given, model=model, observe=observe, observations=4)


def test_a_quantity_may_keep_one_number():
    run = observed(Telling(), grown=Grown())
    assert float(run.curves.grown[0]) == 1
    assert run.curves.grown.values == pytest.approx((run.curves.norm_l2.values / run.curves.norm_l2.values[0]) ** 2)


@pytest.mark.parametrize("name", ["train_loss", "test_error", "penalty", "step", "time", "parts_0"])
def test_a_model_does_not_take_the_names_of_other_curves(name):
    said = "is what the axis of the curve 'parts' is called" if name == "parts_0" else "every run has a curve"
    with pytest.raises(SpecError, match=f"{said}.*"):
        observed(Telling(name=name))


@pytest.mark.parametrize(("name", "model"), [("coordinate", af.models.Linear()), ("parts_0", Telling())])
def test_a_quantity_does_not_take_the_name_of_an_axis(name, model):
    """It would be a coordinate, and gone once the run was saved."""
    with pytest.raises(SpecError, match=f"'{name}' is what the axis of the curve"):
        observed(model, **{name: lambda params, data: jnp.sum(params["weights"])})


@pytest.mark.usefixtures("x64")
class TestReady:
    def test_effective_rank_counts_equal_singular_values(self):
        problem, params = posed(MLP((5,), "all"))
        params["layers"][0]["weight"] = jnp.diag(jnp.array([2.0, -2.0, 2.0, 0.0, 0.0])) @ jnp.eye(5, 7)
        assert value(EffectiveRank(), problem, params) == pytest.approx([3.0])
        # Of unequal ones it is exp(−Σ s log s), here by hand: shares 3/4 and 1/4.
        params["layers"][0]["weight"] = jnp.eye(5, 7).at[0, 0].set(3.0) * (jnp.arange(5) < 2)[:, None]
        assert value(EffectiveRank(), problem, params) == pytest.approx([4 / 3**0.75])
        linear, w = posed(Linear())
        w["weights"] = jnp.array([1.0, -1.0, 0, 0, 0, 0, 0])
        assert value(EffectiveRank(), linear, w) == pytest.approx(2.0)

    def test_margin_is_the_least_one_over_the_norm(self):
        problem, params = posed(DiagonalNet(3), task=task("logistic"))
        w = np.asarray(params["plus"] ** 3 - params["minus"] ** 3)
        least = min(label * x @ w for label, x in zip(LABELS, X, strict=True))
        assert value(Margin(), problem, params) == pytest.approx(least / np.linalg.norm(flat(params)) ** 3)

    def test_margin_of_classes_is_that_of_the_right_one_over_the_best_other(self):
        for classes, ahead in (([0, 2, 1, 2], 0.0), ([2, 2, 2, 2], 50.0)):  # some wrong; all right, by far
            entropy = af.tasks.Arrays(X, classes, X, classes, loss_name="cross_entropy")
            squared = af.tasks.Arrays(X, classes, X, classes, loss_name="squared", metric_name="accuracy")
            for either in (entropy, squared):
                problem, params = posed(MLP((5,), "all"), task=either)  # of no degree: not divided by anything
                params["layers"][-1]["bias"] = params["layers"][-1]["bias"].at[2].add(ahead)
                outputs = np.asarray(problem.model(params, X))
                gaps = [row[k] - max(np.delete(row, k)) for row, k in zip(outputs, classes, strict=True)]
                assert value(Margin(), problem, params) == pytest.approx(min(gaps))

    def test_sharpness_is_the_largest_eigenvalue_of_the_hessian(self):
        for model, penalty in ((DiagonalNet(), af.penalties.L2(0.3)), (MLP((5,), activation="tanh"), None)):
            problem, params = posed(model, penalty=penalty)
            dense, as_tree = jax.flatten_util.ravel_pytree(params)
            hessian = jax.hessian(lambda z, p=problem, t=as_tree: p.objective(t(z)))(dense)
            assert value(Sharpness(), problem, params) == pytest.approx(np.linalg.eigvalsh(hessian)[-1], rel=1e-8)

    def test_kernel_alignment_is_a_cosine_of_kernels_of_the_first_examples(self):
        problem, start = posed(MLP((5,), activation="tanh"))
        _, params = posed(MLP((5,), activation="tanh"), seed=1)

        def kernel(at, count):
            jacobian = jax.jacobian(lambda p: problem.model(p, X[:count]))(at)
            rows = np.concatenate([np.reshape(leaf, (count, -1)) for leaf in jax.tree.leaves(jacobian)], axis=1)
            return rows @ rows.T

        for count in (3, len(X)):
            K, K0 = kernel(params, count), kernel(start, count)
            cosine = np.sum(K * K0) / np.linalg.norm(K) / np.linalg.norm(K0)
            assert value(KernelAlignment(count), problem, params, start) == pytest.approx(cosine)
        assert value(KernelAlignment(), problem, start) == pytest.approx(1.0)

    def test_feature_distance_is_the_cosine_distance_of_gradients_of_the_first_examples(self):
        problem, start = posed(MLP((5,), activation="tanh"))
        _, params = posed(MLP((5,), activation="tanh"), seed=1)

        def features(at, count):
            """By central differences, example by example and parameter by parameter."""
            flat, as_tree = jax.flatten_util.ravel_pytree(at)
            flat, h = np.asarray(flat), 1e-6
            moved = (flat + sign * h * unit for unit in np.eye(len(flat)) for sign in (1, -1))
            outputs = np.array([problem.model(as_tree(jnp.asarray(z)), X[:count]) for z in moved])
            return (outputs[::2] - outputs[1::2]) / (2 * h)

        for count in (3, len(X)):
            now, before = features(params, count), features(start, count)
            cosine = np.sum(now * before) / np.linalg.norm(now) / np.linalg.norm(before)
            assert value(FeatureDistance(count), problem, params, start) == pytest.approx(1 - cosine, abs=1e-7)
        assert value(FeatureDistance(), problem, start) == pytest.approx(0.0, abs=1e-12)

    def test_kernel_alignment_of_entries_of_a_matrix(self):
        entries = af.tasks.MatrixCompletion(5, 5, 1, observed=12)
        problem, params = posed(MatrixFactorisation(2), task=entries)
        _, start = posed(MatrixFactorisation(2), task=entries, init=Gaussian(0.5, seed=3))
        places = np.argwhere(np.asarray(problem.data.inputs.mask))[:4]

        def kernel(at):
            jacobian = jax.jacobian(lambda p: problem.model.weights(p)[places[:, 0], places[:, 1]])(at)
            rows = np.concatenate([np.reshape(leaf, (4, -1)) for leaf in jax.tree.leaves(jacobian)], axis=1)
            return rows @ rows.T

        K, K0 = kernel(params), kernel(start)
        cosine = np.sum(K * K0) / np.linalg.norm(K) / np.linalg.norm(K0)
        assert value(KernelAlignment(4), problem, params, start) == pytest.approx(cosine)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    "values",
    [np.arange(1.0, 8.0), -np.arange(1.0, 8.0), np.r_[-30.0, np.linspace(0, 1, 200)], np.zeros(6), [-2.0] * 5, [3.0]],
    ids=["few", "all negative", "one far below", "zeros", "all the same", "one"],
)
def test_the_largest_eigenvalue_of_any_symmetric_matrix(values):
    """200 eigenvalues without a gap are found to a thousandth by 40 products, fewer of them exactly."""
    values = np.asarray(values)
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    A, start = jnp.asarray((Q * values) @ Q.T), jnp.asarray(rng.standard_normal(len(values)))
    found = float(largest_eigenvalue(lambda v: A @ v, start))
    assert found == pytest.approx(values.max(), abs=(1e-3 if len(values) > 40 else 1e-9) * max(1, abs(values.max())))
