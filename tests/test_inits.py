"""Initialisations: shapes, norms, scales and variances, and which seed decides what."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from conftest import flat

import afterfit as af
from afterfit._base.errors import SpecError
from afterfit._training.experiment import Experiment
from afterfit._training.train import prepare, train
from afterfit.dynamics import GradientDescent
from afterfit.inits import (
    Constant,
    EmbeddingsApart,
    From,
    Gaussian,
    He,
    Identity,
    Init,
    Own,
    ScaledGaussian,
    ScaledLastLayer,
    Symmetrised,
    Uniform,
    ZeroLastLayer,
)
from afterfit.models import (
    MLP,
    DeepMatrixFactorisation,
    DiagonalNet,
    DiagonalProduct,
    Difference,
    EmbeddingMLP,
    Function,
    Linear,
    MatrixFactorisation,
    SymmetricFactorisation,
)
from afterfit.models._inputs import Signature
from afterfit.tasks import SparseRecovery

VECTOR, SQUARE, PAIR = Signature((6,)), Signature((5, 5)), Signature((6,), (3,), tokens=3)
MODELS = [
    (Linear(), VECTOR),
    (Linear(), SQUARE),
    (DiagonalNet(3), VECTOR),
    (DiagonalProduct(3), VECTOR),
    (MatrixFactorisation(2), SQUARE),
    (SymmetricFactorisation(), SQUARE),
    (DeepMatrixFactorisation(3, 4), SQUARE),
    (MLP((4, 3), "all"), VECTOR),
    (MLP((4,), "hidden"), PAIR),
    (EmbeddingMLP(4, 5), PAIR),
    (Difference(MLP((4,))), VECTOR),
]


def initial(model, init, signature, seed=0):
    return model.initialise(init, signature, np.random.default_rng(seed))


@pytest.mark.parametrize("init", [Constant(2.0), Gaussian(), ScaledGaussian(), He(), He(1.0, "uniform")], ids=repr)
@pytest.mark.parametrize(("model", "signature"), MODELS, ids=lambda v: type(v).__name__)
def test_every_array_has_the_shape_its_model_asks_for(model, signature, init):
    params = initial(model, init, signature)
    wanted = jax.tree.map(lambda parameter: parameter.shape, model.parameters(signature))
    assert jax.tree.map(np.shape, params) == wanted
    assert np.all(np.isfinite(flat(params)))


def test_constant_has_the_scale_or_the_norm():
    np.testing.assert_array_equal(flat(initial(DiagonalNet(), Constant(0.3), VECTOR)), 0.3)
    params = flat(initial(DiagonalNet(), Constant(norm=128.0), VECTOR))
    np.testing.assert_allclose(np.linalg.norm(params), 128.0)
    np.testing.assert_allclose(params, 128 / np.sqrt(12))
    shape = (1.0, -2.0, 3.0, 1.0, 1.0, 0.5)
    shaped = initial(DiagonalNet(), Constant(0.1, shape=shape), VECTOR)
    np.testing.assert_allclose(shaped["plus"], 0.1 * np.array(shape))  # α·w₀ in both halves
    np.testing.assert_allclose(shaped["minus"], 0.1 * np.array(shape))
    normed = flat(initial(DiagonalNet(), Constant(norm=5.0, shape=shape), VECTOR))
    np.testing.assert_allclose(np.linalg.norm(normed), 5.0)
    np.testing.assert_allclose(normed[:6] / normed[0], shape)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("init", "variance"),
    [
        (Gaussian(0.5), lambda rows, columns: 0.25),
        (ScaledGaussian(3.0), lambda rows, columns: 9 / rows),
        (He(), lambda rows, columns: 2 / columns),
        (He(4.0, "uniform"), lambda rows, columns: 16 * 2 / columns),
        (Uniform(2.0), lambda rows, columns: 4 / (3 * columns)),
    ],
    ids=["Gaussian", "ScaledGaussian", "He", "He uniform", "Uniform"],
)
def test_variances(init, variance, seed):
    params = initial(MLP((300, 40), "all"), init, VECTOR, seed)
    for layer in params["layers"][:2]:
        weight = layer["weight"]  # rows are outputs, columns are inputs: the fan-in
        ratio = np.mean(weight**2) / variance(*weight.shape)
        # The estimate has relative deviation √(2/m) for Gaussian entries, less for uniform ones.
        assert abs(ratio - 1) <= 4.5 * np.sqrt(2 / weight.size)
        if isinstance(init, He):
            np.testing.assert_array_equal(layer["bias"], 0)
        else:
            assert np.all(layer["bias"] != 0)
    if init == He(4.0, "uniform"):
        bound = 4 * np.sqrt(6 / 6)  # He's uniform law on ±√(6/fan-in)
        first = np.abs(params["layers"][0]["weight"])
        assert 0.98 * bound < first.max() <= bound


def test_embeddings_apart_from_layers():
    init = EmbeddingsApart(Gaussian(3.0), table=Uniform(2.0))
    params = initial(EmbeddingMLP(4, 5), init, Signature((2,), (900,), tokens=900))
    assert 0.98 * 2 / 30 < np.abs(params["E"]).max() <= 2 / 30  # ±2/√900
    drawn = np.concatenate([params[name].ravel() for name in ("W1", "W2", "b1", "b2")])
    assert abs(np.mean(drawn**2) / 9 - 1) <= 4.5 * np.sqrt(2 / drawn.size)


def test_identity_and_its_perturbation():
    plain = initial(MatrixFactorisation(5), Identity(2.0), SQUARE)
    np.testing.assert_array_equal(plain["U"], 2 * np.eye(5))
    noisy = initial(DeepMatrixFactorisation(3, 40), Identity(2.0, 0.1), Signature((40, 40)))
    noise = flat(noisy) - np.tile(2 * np.eye(40).ravel(), 3)
    assert abs(np.mean(noise**2) / 0.01 - 1) <= 4.5 * np.sqrt(2 / noise.size)


def test_own_scales_the_models_own_parameters():
    model = Function(lambda p, x: x @ p["a"], {"a": [np.arange(6.0)], "b": np.float32(2)})
    params = initial(model, Own(3.0), VECTOR)
    np.testing.assert_array_equal(params["a"][0], 3 * np.arange(6.0))
    assert (params["b"], params["b"].dtype) == (6.0, np.float64)


def test_difference_starts_with_two_equal_halves():
    params = initial(Difference(MLP((4,))), Gaussian(), VECTOR)
    assert jax.tree.all(jax.tree.map(np.array_equal, params["plus"], params["minus"]))
    params["plus"]["layers"][0]["weight"][:] = 0
    assert np.all(params["minus"]["layers"][0]["weight"] != 0), "the halves share memory"


def test_a_scaled_last_layer_is_the_only_thing_that_changes():
    def start(init):
        task = SparseRecovery(6, 2, 4)
        return MLP((4,), "all").initialise(init, task.signature, np.random.default_rng(0))["layers"]

    whole, scaled = start(He()), start(ScaledLastLayer(He(), factor=0.5))
    np.testing.assert_array_equal(flat(scaled[:-1]), flat(whole[:-1]))
    np.testing.assert_array_equal(scaled[-1]["weight"], 0.5 * whole[-1]["weight"])


RANDOM = [
    (Gaussian, {}, MLP((4,))),
    (ScaledGaussian, {}, MLP((4,))),
    (He, {}, MLP((4,))),
    (He, {"distribution": "uniform"}, Difference(MLP((4,)))),
    (ZeroLastLayer, {"init": He()}, MLP((4,))),
    (ScaledLastLayer, {"init": He(), "factor": 0.5}, MLP((4,))),
    (Symmetrised, {"init": He()}, MLP((4,))),
]


@pytest.mark.parametrize(("kind", "settings", "model"), RANDOM, ids=lambda v: getattr(v, "__name__", ""))
def test_which_seed_decides_what(kind, settings, model):
    def start(seed, init_seed):
        experiment = Experiment(
            task=SparseRecovery(6, 2, 4),
            model=model,
            dynamics=GradientDescent(0.1, 1),
            init=kind(**settings, seed=init_seed),
            seed=seed,
        )
        with jax.enable_x64(True):
            problem, params = prepare(experiment)
        return flat(problem.data.inputs), flat(params)

    data, params = start(0, None)
    np.testing.assert_array_equal(start(0, None)[0], data)
    np.testing.assert_array_equal(start(0, None)[1], params)
    assert np.all(start(1, None)[0] != data), "the run's seed decides the data"
    assert np.any(start(1, None)[1] != params), "and without a seed of its own, the initialisation"
    np.testing.assert_array_equal(start(0, 1)[0], data)
    assert np.any(start(0, 1)[1] != start(0, 2)[1]), "its own seed changes the initialisation, not the data"
    np.testing.assert_array_equal(start(0, 1)[1], start(5, 1)[1])
    assert np.any(start(0, 1)[0] != start(5, 1)[0])


def test_a_run_goes_on_from_where_another_ended():
    def run(steps, init, model=MLP((3,), "hidden")):
        descent = GradientDescent(0.01, steps)
        return train(task=SparseRecovery(6, 2, 4), model=model, dynamics=descent, init=init, progress=False)

    half, whole = run(40, Gaussian(0.3)), run(80, Gaussian(0.3))
    again = run(40, From(half.params))
    np.testing.assert_array_equal(flat(again.params), flat(whole.params))
    assert again.id == run(40, From(jax.tree.map(np.array, half.params))).id, "told by what is in it"
    assert again.id != run(40, From(whole.params)).id
    assert run(1, From(half.params), Difference(MLP((3,), "hidden"))).curves.train_error[0] == 1, "in both copies"


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: initial(Linear(), From({"weights": np.ones(5)}), VECTOR), r"\(5,\).*but Linear has .*\(6,\)"),
        (lambda: initial(Linear(), From({"w": np.ones(6)}), VECTOR), r"'w'.*but Linear has .*'weights'"),
        (lambda: From({"weights": [1.0, np.nan]}), "the initial parameter"),
        (lambda: Init.from_dict(From({"w": np.ones(2)}).to_dict()), "exists in Python only"),
        (lambda: Constant(), "scale=None and norm=None"),
        (lambda: Constant(1.0, 2.0), "scale=1.0 and norm=2.0"),
        (lambda: Constant(1.0, shape=(1.0, 0.0)), "no zero entry"),
        (lambda: initial(Linear(), Constant(1.0, shape=(1.0, 2.0)), VECTOR), "2 entries.*have 6"),
        (lambda: He(1.0, "normall"), "'normall'.*'normal'"),
        (lambda: initial(Linear(), Identity(), VECTOR), r"\(6,\).*Constant"),
        (lambda: initial(Linear(), Own(), VECTOR), "Linear has no initial parameters.*Gaussian"),
    ],
)
def test_refusals(attempt, message):
    with pytest.raises(SpecError, match=message):
        attempt()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"init": af.inits.ZeroLastLayer(af.inits.Gaussian())}, r"ZeroLastLayer\(EmbeddingsApart\(...\)\)"),
        ({"init": af.inits.Constant(norm=1.0)}, "draw each array by itself"),
        ({"table": af.inits.Uniform(seed=5)}, "table has a seed of its own, 5"),
    ],
    ids=["wrapper", "norm", "seed"],
)
def test_embeddings_apart_take_starts_that_draw_each_array_by_itself(settings, message):
    """Others would be ignored in silence."""
    with pytest.raises(SpecError, match=message):
        af.inits.EmbeddingsApart(**settings)
