"""Models against NumPy formulas; homogeneity; starting at zero; structured inputs; refusals."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.signal
import scipy.special
from conftest import as_jax, flat, random_like
from hypothesis import given, settings
from hypothesis import strategies as st

from afterfit._base.errors import SpecError
from afterfit.inits import Gaussian, He, Symmetrised, ZeroLastLayer
from afterfit.models import (
    MLP,
    ConvNet,
    DeepMatrixFactorisation,
    DiagonalNet,
    DiagonalProduct,
    Difference,
    EmbeddingMLP,
    Function,
    LastLayer,
    Linear,
    MatrixFactorisation,
    SymmetricFactorisation,
)
from afterfit.models._inputs import Entries, OneHot, Signature

pytestmark = pytest.mark.usefixtures("x64")

RNG = np.random.default_rng(0)
VECTORS = RNG.standard_normal((6, 5))
MEASUREMENTS = RNG.standard_normal((7, 4, 4))
MASK = (RNG.uniform(size=(4, 4)) < 0.6).astype(float)
TOKENS = RNG.integers(0, 3, (6, 2))
IMAGES = RNG.standard_normal((4, 5, 6, 2))
LARGE_MASK = (RNG.uniform(size=(30, 30)) < 0.5).astype(float)

VECTOR, VECTOR_TO_3 = Signature((5,)), Signature((5,), (3,))
SQUARE, RECTANGLE, LARGE = Signature((4, 4)), Signature((4, 3)), Signature((30, 30))
PAIR = Signature((6,), (3,), tokens=3)
IMAGE = Signature((5, 6, 2), (3,))


def one_hot(tokens, size=3):
    """The concatenated one-hot vectors of each row, entry by entry."""
    dense = np.zeros((len(tokens), tokens.shape[1] * size))
    for i, row in enumerate(tokens):
        for k, token in enumerate(row):
            dense[i, k * size + token] = 1
    return dense


def relu(z):
    return np.where(z > 0, z, 0)


ACTIVATIONS = {
    "relu": relu,
    "tanh": np.tanh,
    "gelu": lambda x: x * scipy.special.ndtr(x),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "quadratic": np.square,
}


def mlp(p, x, activate=relu):
    *hidden, last = p["layers"]
    for layer in hidden:
        x = activate(np.einsum("ij,nj->ni", layer["weight"], x) + layer.get("bias", 0))
    return np.einsum("...j,nj->n...", last["weight"], x) + last.get("bias", 0)


def embedding_mlp(p, tokens):
    e = np.array([p["E"][a] * p["E"][b] for a, b in tokens])
    return relu(e @ p["W1"].T + p["b1"]) @ p["W2"].T + p["b2"]


def conv_net(p, images, layers):
    """By SciPy's correlation of one channel at a time, and the largest of each 2×2 pixels one after the other."""
    kernels = [layer["weight"] for layer in p["layers"]]
    for layer in layers.split("-"):
        if layer == "M":
            corners = [(i, j) for i in range(0, images.shape[1], 2) for j in range(0, images.shape[2], 2)]
            shape = (len(images), -(-images.shape[1] // 2), -(-images.shape[2] // 2), images.shape[3])
            largest = [images[:, i : i + 2, j : j + 2].max(axis=1).max(axis=1) for i, j in corners]
            images = np.stack(largest, axis=1).reshape(shape)
        else:
            kernel, *kernels = kernels
            channels = [
                sum(scipy.signal.correlate2d(image[..., c], filter[c], mode="same") for c in range(len(filter)))
                for image in images
                for filter in kernel
            ]
            images = relu(np.moveaxis(np.reshape(channels, (len(images), len(kernel), *images.shape[1:3])), 1, -1))
    return images.reshape(len(images), -1) @ kernels[0].T


def matrix_embedding(p, tokens):
    e = np.array([(p["E1"][a].reshape(2, 2) @ p["E2"][b].reshape(2, 2)).ravel() for a, b in tokens])
    return relu(e @ p["W1"].T) @ p["W2"].T


def traces(W, X=MEASUREMENTS):
    return np.array([np.trace(x.T @ W) for x in X])


@dataclasses.dataclass(frozen=True)
class Case:
    """A model on inputs, and the same function written in NumPy."""

    model: Any
    signature: Signature
    inputs: Any
    formula: Callable

    def __str__(self):
        return f"{type(self.model).__name__}-{type(self.inputs).__name__}-{self.model.degree}"

    @functools.cached_property
    def shapes(self):
        return self.model.parameters(self.signature)

    @functools.cached_property
    def call(self):
        """The compiled model."""
        return jax.jit(self.model.__call__)

    def params(self, seed):
        return random_like(self.shapes, np.random.default_rng(seed))

    def outputs(self, params):
        return np.asarray(self.call(as_jax(params), as_jax(self.inputs)))


INITIAL = {"W": RNG.standard_normal((4, 5)), "v": RNG.standard_normal(4)}
ON_TOKENS = {"W": RNG.standard_normal((4, 6)), "v": RNG.standard_normal(4)}
GRID = {"a": RNG.standard_normal(4), "b": RNG.standard_normal(4)}


def cubed(p, x):
    return jnp.sum(p["v"] * (p["W"] @ x) ** 2)


def squashed(p, x):
    return jnp.tanh(p["W"] @ x) @ p["v"]


def entry(p, x):
    return p["a"][x[0]] * p["b"][x[1]]


CASES = [
    Case(Linear(), VECTOR, VECTORS, lambda p, x: np.einsum("j,nj->n", p["weights"], x)),
    Case(Linear(), SQUARE, MEASUREMENTS, lambda p, x: traces(p["weights"])),
    Case(Linear(), SQUARE, Entries(MASK), lambda p, x: np.where(MASK == 1, p["weights"], 0)),
    Case(DiagonalNet(2), VECTOR, VECTORS, lambda p, x: x @ (p["plus"] * p["plus"] - p["minus"] * p["minus"])),
    Case(DiagonalNet(5), VECTOR, VECTORS, lambda p, x: x @ (np.power(p["plus"], 5) - np.power(p["minus"], 5))),
    Case(DiagonalProduct(1), VECTOR, VECTORS, lambda p, x: x @ p["factors"][0]),
    Case(DiagonalProduct(3), VECTOR, VECTORS, lambda p, x: x @ np.prod(p["factors"], axis=0)),
    Case(MatrixFactorisation(2), SQUARE, MEASUREMENTS, lambda p, x: traces(p["U"] @ p["V"].T)),
    Case(MatrixFactorisation(12), LARGE, Entries(LARGE_MASK), lambda p, x: LARGE_MASK * (p["U"] @ p["V"].T)),
    Case(
        SymmetricFactorisation(),
        SQUARE,
        Entries(MASK),
        lambda p, x: MASK * (p["U"] @ p["U"].T - p["V"] @ p["V"].T),
    ),
    Case(
        SymmetricFactorisation(2),
        SQUARE,
        MEASUREMENTS,
        lambda p, x: traces(p["U"] @ p["U"].T - p["V"] @ p["V"].T),
    ),
    Case(
        DeepMatrixFactorisation(1),
        RECTANGLE,
        Entries(MASK[:, :3]),
        lambda p, x: MASK[:, :3] * p["factors"][0],
    ),
    Case(
        DeepMatrixFactorisation(3, width=2),
        RECTANGLE,
        Entries(MASK[:, :3]),
        lambda p, x: MASK[:, :3] * np.linalg.multi_dot(p["factors"]),
    ),
    Case(MLP((4,)), VECTOR, VECTORS, mlp),
    Case(MLP((4,), "hidden"), VECTOR_TO_3, VECTORS, mlp),
    Case(MLP((4, 6, 3)), VECTOR, VECTORS, mlp),
    Case(
        Difference(MLP((4,), "hidden")),
        VECTOR,
        VECTORS,
        lambda p, x: (mlp(p["plus"], x) - mlp(p["minus"], x)) / 2**0.5,
    ),
    *(
        Case(ConvNet(layers), IMAGE, IMAGES, functools.partial(conv_net, layers=layers))
        for layers in ("3-M-4-2-M-2-M", "M-3", "2")
    ),
    Case(Function(cubed, INITIAL, 3), VECTOR, VECTORS, lambda p, x: ((x @ p["W"].T) ** 2) @ p["v"]),
    Case(
        Function(cubed, ON_TOKENS, 3),
        PAIR,
        OneHot(TOKENS, 3),
        lambda p, x: ((one_hot(TOKENS) @ p["W"].T) ** 2) @ p["v"],
    ),
    Case(Function(entry, GRID, 2), SQUARE, Entries(MASK), lambda p, x: MASK * np.outer(p["a"], p["b"])),
    Case(MLP((4,), "hidden", activation="quadratic"), VECTOR, VECTORS, lambda p, x: mlp(p, x, np.square)),
    Case(MLP((4, 3), activation="quadratic"), VECTOR_TO_3, VECTORS, lambda p, x: mlp(p, x, np.square)),
    # Not homogeneous:
    *(
        Case(MLP((4, 3), activation=name), VECTOR, VECTORS, functools.partial(mlp, activate=ACTIVATIONS[name]))
        for name in ("tanh", "gelu", "silu", "sigmoid")
    ),
    Case(MLP((4,), "all"), VECTOR, VECTORS, mlp),
    Case(MLP((4, 3), "hidden"), VECTOR_TO_3, VECTORS, mlp),
    Case(MLP((4, 3), "all"), VECTOR_TO_3, VECTORS, mlp),
    Case(EmbeddingMLP(4, 5), PAIR, OneHot(TOKENS, 3), lambda p, x: embedding_mlp(p, TOKENS)),
    Case(EmbeddingMLP(4, 5), Signature((2,), (3,), tokens=3), TOKENS, embedding_mlp),
    Case(
        EmbeddingMLP(4, 5, product="matrix", shared=False, biases="none"),
        PAIR,
        OneHot(TOKENS, 3),
        lambda p, x: matrix_embedding(p, TOKENS),
    ),
    Case(
        Difference(MLP((4,), "all")),
        VECTOR,
        VECTORS,
        lambda p, x: (mlp(p["plus"], x) - mlp(p["minus"], x)) / 2**0.5,
    ),
    Case(Function(squashed, INITIAL), VECTOR, VECTORS, lambda p, x: np.tanh(x @ p["W"].T) @ p["v"]),
]
STATED = {  # the degree is the number of factors or layers
    "Linear": 1,
    "DiagonalNet": lambda m: m.depth,
    "DiagonalProduct": lambda m: m.depth,
    "MatrixFactorisation": 2,
    "SymmetricFactorisation": 2,
    "DeepMatrixFactorisation": lambda m: m.depth,
    "MLP": lambda m: {"relu": len(m.hidden) + 1, "quadratic": 2 ** (len(m.hidden) + 1) - 1}[m.activation],
    "ConvNet": lambda m: {"3-M-4-2-M-2-M": 5, "M-3": 2, "2": 2}[m.layers],
    "Difference": lambda m: len(m.model.hidden) + 1,
    "EmbeddingMLP": 4,  # two embeddings and two layers
    "Function": lambda m: m.homogeneity,
}
HOMOGENEOUS = [case for case in CASES if case.model.degree is not None]
OTHERS = [case for case in CASES if case.model.degree is None]
ids = {"ids": str}


@pytest.mark.parametrize("case", CASES, **ids)
def test_outputs_follow_the_formula(case):
    params = case.params(1)
    # Sums of tens of terms of size about 1, some of them cancelling: 1e-12 of the largest.
    expected = case.formula(params, case.inputs)
    np.testing.assert_allclose(case.outputs(params), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_the_cases_split_as_they_should():
    assert {type(case.model).__name__ for case in HOMOGENEOUS} == set(STATED)
    assert len(OTHERS) == 11
    for case in HOMOGENEOUS:
        stated = STATED[type(case.model).__name__]
        assert case.model.degree == (stated(case.model) if callable(stated) else stated), case


@pytest.mark.parametrize("case", HOMOGENEOUS, **ids)
@given(c=st.floats(0.05, 20), seed=st.integers(0, 10_000))
@settings(max_examples=12)
def test_scaling_the_parameters_scales_the_outputs_by_the_stated_degree(case, c, seed):
    params = case.params(seed)
    scaled, outputs = case.outputs(jax.tree.map(lambda leaf: c * leaf, params)), case.outputs(params)
    expected = c**case.model.degree * outputs
    # Cancellation between terms: rounding is relative to the largest output, and a little above it.
    np.testing.assert_allclose(scaled, expected, rtol=1e-11, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("case", OTHERS, **ids)
def test_models_without_a_degree_have_none(case):
    params = case.params(1)
    doubled, outputs = case.outputs(jax.tree.map(lambda leaf: 2 * leaf, params)), case.outputs(params)
    for degree in range(8):
        assert np.max(np.abs(doubled - 2**degree * outputs)) > 1e-2 * np.max(np.abs(doubled)), degree


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_smooth_where_its_slopes_from_both_sides_agree(name):
    model, step = MLP((1,), activation=name), 1e-4
    left, at, right = (
        float(model({"layers": [{"weight": jnp.full((1, 1), w)}, {"weight": jnp.ones(1)}]}, jnp.ones((1, 1)))[0])
        for w in (-step, 0.0, step)
    )
    jump = abs(right - 2 * at + left) / step
    assert model.smooth == (jump < 0.01), jump


ZERO_STARTS = [
    (DiagonalProduct(3), ZeroLastLayer(Gaussian()), VECTOR, VECTORS),
    (MatrixFactorisation(3), ZeroLastLayer(Gaussian()), SQUARE, Entries(MASK)),
    (DeepMatrixFactorisation(3), ZeroLastLayer(Gaussian()), RECTANGLE, Entries(MASK[:, :3])),
    (MLP((4, 3), "all"), ZeroLastLayer(Gaussian()), VECTOR_TO_3, VECTORS),
    (EmbeddingMLP(4, 5), ZeroLastLayer(Gaussian()), PAIR, OneHot(TOKENS, 3)),
    (ConvNet("3-M-2"), ZeroLastLayer(Gaussian()), IMAGE, IMAGES),
    (DiagonalNet(2), Symmetrised(Gaussian()), VECTOR, VECTORS),
    (DiagonalNet(3), Symmetrised(Gaussian()), VECTOR, VECTORS),
    (SymmetricFactorisation(), Symmetrised(Gaussian()), SQUARE, Entries(MASK)),
    (Difference(DiagonalNet(3)), Gaussian(), VECTOR, VECTORS),
    (Difference(MatrixFactorisation(2)), Gaussian(), SQUARE, Entries(MASK)),
    (Difference(MLP((4, 3), "all")), Gaussian(), VECTOR_TO_3, VECTORS),
    (Difference(EmbeddingMLP(4, 5)), Gaussian(), PAIR, OneHot(TOKENS, 3)),
]


@pytest.mark.parametrize(("model", "init", "signature", "inputs"), ZERO_STARTS, ids=lambda v: type(v).__name__)
def test_starts_with_outputs_exactly_zero(model, init, signature, inputs):
    params = as_jax(model.initialise(init, signature, np.random.default_rng(2)))
    outputs = jax.jit(model.__call__)(params, as_jax(inputs))  # compiled, as in a run
    np.testing.assert_array_equal(outputs, 0.0)
    assert np.linalg.norm(flat(params)) > 1, "the parameters themselves do not start at zero"


@pytest.mark.parametrize(
    ("model", "signature", "inputs"),
    [
        (MLP((40,), "hidden"), VECTOR_TO_3, VECTORS),
        (MatrixFactorisation(10), SQUARE, Entries(np.ones((4, 4)))),
    ],
    ids=["MLP", "MatrixFactorisation"],
)
def test_copied_units_cancel_to_rounding(model, signature, inputs):
    # A sum Σ aᵢhᵢ − aᵢhᵢ is zero up to the rounding of its partial sums, in whatever order they are added:
    # at most (number of units)·eps times the size of what cancels.
    units = 40 if isinstance(model, MLP) else 10
    params = model.initialise(Symmetrised(Gaussian()), signature, np.random.default_rng(2))
    outputs = jax.jit(model.__call__)(as_jax(params), as_jax(inputs))
    single = model.initialise(Gaussian(), signature, np.random.default_rng(2))
    uncopied = np.abs(model(as_jax(single), as_jax(inputs))).max()
    assert np.abs(outputs).max() <= units * np.finfo(float).eps * 10 * uncopied
    assert uncopied > 1
    assert np.linalg.norm(flat(params)) > 1


def test_difference_keeps_the_tangent_kernel_of_its_model():
    inner = MLP((6,), "hidden")
    doubled = Difference(inner)
    params = as_jax(doubled.initialise(He(), VECTOR, np.random.default_rng(3)))

    def kernel(model, params):
        jacobian = jax.jacobian(lambda p: model(p, jnp.asarray(VECTORS)))(params)
        rows = np.concatenate([np.reshape(leaf, (len(VECTORS), -1)) for leaf in jax.tree.leaves(jacobian)], axis=1)
        return rows @ rows.T

    np.testing.assert_allclose(kernel(doubled, params), kernel(inner, params["plus"]), rtol=1e-12)


def test_the_slope_of_a_convolution_is_that_of_finite_differences():
    case = Case(ConvNet("3-M-2-M"), IMAGE, IMAGES, None)
    params, direction = case.params(1), case.params(2)
    _, slope = jax.jvp(lambda p: case.model(p, jnp.asarray(IMAGES)), (as_jax(params),), (as_jax(direction),))
    ends = [case.outputs(jax.tree.map(lambda p, d, s=s: p + s * d, params, direction)) for s in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-6)


def test_he_s_fan_in_of_a_convolution_counts_its_neighbours():
    weights = ConvNet("400-M-300").initialise(He(), IMAGE, np.random.default_rng(0))["layers"]
    assert [layer["weight"].shape for layer in weights] == [(400, 2, 3, 3), (300, 400, 3, 3), (3, 3 * 3 * 300)]
    for layer, inputs in zip(weights, (2 * 9, 400 * 9, 3 * 3 * 300), strict=True):
        np.testing.assert_allclose(layer["weight"].std(), np.sqrt(2 / inputs), rtol=0.05)


@pytest.mark.parametrize("layers", ["", "M", "8-", "8-N", "0-M", "-8", "8.5", "016", "٣-M"])
def test_layers_that_cannot_be_are_refused(layers):
    with pytest.raises(SpecError, match="layers must be channels of convolutions and M for max-pooling"):
        ConvNet(layers)


def test_a_convolution_wants_images():
    with pytest.raises(SpecError, match=r"images of shape \(height, width, channels\).*flat=False"):
        ConvNet("4").parameters(VECTOR)
    with pytest.raises(SpecError, match="a ConvNet"):
        MLP((4,)).parameters(IMAGE)


@pytest.mark.parametrize(
    ("model", "signature", "inputs"),
    [(MLP((4, 3), "all"), VECTOR_TO_3, VECTORS), (ConvNet("3-M-2"), IMAGE, IMAGES)],
    ids=["MLP", "ConvNet"],
)
def test_only_the_last_layer_is_trained(model, signature, inputs):
    """Steps down a squared loss, against least squares of the last layer on the features, written in NumPy."""
    params = random_like(model.parameters(signature), np.random.default_rng(7))
    frozen = LastLayer(model).anchored(as_jax(params))
    loss = jax.jit(jax.grad(lambda p: jnp.sum((frozen(p, jnp.asarray(inputs)) - 1) ** 2)))
    now = params
    for _ in range(5):
        now = jax.tree.map(lambda p, g: p - 1e-4 * np.asarray(g), now, loss(now))
    *hidden, last = params["layers"]
    # Its features are the outputs of the same net with the identity for its last layer.
    size = last["weight"].shape[1]
    eye = {"layers": [*hidden, {"weight": np.eye(size)}]}
    features = np.asarray(model(as_jax(eye), jnp.asarray(inputs)))
    W, b = last["weight"], last.get("bias", np.zeros(3))
    for _ in range(5):
        residual = 2 * (features @ W.T + b - 1)
        W, b = W - 1e-4 * residual.T @ features, b - 1e-4 * residual.sum(axis=0) * ("bias" in last)
    np.testing.assert_allclose(now["layers"][-1]["weight"], W, rtol=1e-10)
    if "bias" in last:
        np.testing.assert_allclose(now["layers"][-1]["bias"], b, rtol=1e-10)
    for left, before in zip(jax.tree.leaves(now["layers"][:-1]), jax.tree.leaves(hidden), strict=True):
        np.testing.assert_array_equal(left, before)
    with pytest.raises(SpecError, match="DiagonalNet has no last layer"):
        LastLayer(DiagonalNet(2))


@pytest.mark.parametrize("model", [MLP((4,), "hidden"), MLP((4,), "none"), Linear(), DiagonalNet(2)], ids=repr)
@pytest.mark.parametrize("times", [1, 5], ids=["few", "more than the table has rows"])
def test_one_hot_lookup_is_the_dense_product(model, times):
    tokens = np.concatenate([np.random.default_rng(k).permuted(TOKENS, axis=0) for k in range(times)])
    signature = PAIR if isinstance(model, MLP) else Signature((6,))
    params = as_jax(random_like(model.parameters(signature), np.random.default_rng(4)))
    weigh = np.random.default_rng(5).standard_normal((len(tokens), 3) if isinstance(model, MLP) else len(tokens))

    def value(params, inputs):
        outputs = model(params, inputs)
        return jnp.sum(weigh * outputs), outputs

    def both(inputs):
        (_, outputs), gradient = jax.jit(jax.value_and_grad(value, has_aux=True))(params, inputs)
        return outputs, flat(gradient)

    # The lookup adds the same few numbers in another order: rounding only.
    looked_up, multiplied = both(as_jax(OneHot(tokens, 3))), both(jnp.asarray(one_hot(tokens)))
    for found, expected in zip(looked_up, multiplied, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(OneHot(jnp.asarray(tokens), 3).dense(), one_hot(tokens))


def test_symmetric_factorisation_does_not_cancel():
    # Where these runs start, U ≈ V are large and UUᵀ − VVᵀ small. Rational arithmetic says exactly what it
    # is; in double precision the two products would leave errors of 1e8·1e-16 in numbers of size 1e-2.
    rng = np.random.default_rng(6)
    U = 1e4 * rng.standard_normal((4, 4))
    V = U + 1e-6 * rng.standard_normal((4, 4))
    exact_U, exact_V = (np.array([[Fraction(entry) for entry in row] for row in A], dtype=object) for A in (U, V))
    exact = (exact_U @ exact_U.T - exact_V @ exact_V.T).astype(float)
    found = SymmetricFactorisation().weights({"U": jnp.asarray(U), "V": jnp.asarray(V)})
    np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-14 * np.abs(exact).max())


def test_linear_models_observe_weights_or_singular_values():
    rng = np.random.default_rng(7)
    plus, minus = rng.standard_normal((2, 1000))
    observed = DiagonalNet(2).observe(as_jax({"plus": plus, "minus": minus}))
    np.testing.assert_allclose(observed["weights"], plus**2 - minus**2, rtol=1e-12, atol=1e-14)
    assert Linear().observe({"weights": jnp.zeros(1001)}) == {}  # too many to keep at every observation
    U, V = rng.standard_normal((2, 4, 2))
    observed = MatrixFactorisation(2).observe(as_jax({"U": U, "V": V}))["singular_values"]
    eigenvalues = np.linalg.eigvalsh(V @ (U.T @ U) @ V.T)[::-1]
    np.testing.assert_allclose(observed[:2], np.sqrt(eigenvalues[:2]), rtol=1e-12)
    np.testing.assert_allclose(observed[2:], 0, atol=1e-14)


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (
            lambda: MatrixFactorisation(2).parameters(VECTOR),
            r"MatrixFactorisation is a model of a matrix.*\(5,\).*Linear",
        ),
        (lambda: SymmetricFactorisation().parameters(RECTANGLE), r"square.*4 x 3"),
        (lambda: Linear().parameters(VECTOR_TO_3), r"Linear has one output.*\(3,\).*MLP"),
        (lambda: DiagonalNet().parameters(VECTOR_TO_3), r"DiagonalNet has one output.*\(3,\)"),
        (lambda: MLP((4,)).parameters(SQUARE), r"MLP takes vectors.*\(4, 4\).*matrix model"),
        (lambda: EmbeddingMLP().parameters(VECTOR), r"EmbeddingMLP takes tokens.*ModularArithmetic"),
        (lambda: Difference(MatrixFactorisation(2)).parameters(VECTOR), r"model of a matrix"),
        (lambda: DiagonalNet(1), r"depth 2 or more, got 1.*Linear"),
        (lambda: DiagonalProduct(0), r"depth.*got 0"),
        (lambda: DeepMatrixFactorisation(0), r"depth.*got 0"),
        (lambda: DeepMatrixFactorisation(2, width=0), r"width.*got 0"),
        (lambda: MatrixFactorisation(0), r"rank.*got 0"),
        (lambda: SymmetricFactorisation(-1), r"rank.*got -1"),
        (lambda: MLP(()), r"hidden.*got \(\)"),
        (lambda: MLP((4, 0)), r"hidden.*got \(4, 0\)"),
        (lambda: MLP((4,), "hiden"), r"'hiden'.*'hidden'"),
        (lambda: EmbeddingMLP(0, 3), r"positive, got 0 and 3"),
        (lambda: EmbeddingMLP(6, 3, product="matrix"), r"must be a square, such as 64 = 8², got 6"),
        (lambda: EmbeddingMLP(6, 3, product="matix"), r"'matix'.*'matrix'"),
        (lambda: EmbeddingMLP(6, 3, biases="non"), r"'non'.*'none'"),
        (lambda: Function(3, INITIAL), r"function f\(params, x\), got 3"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(attempt, message):
    with pytest.raises(SpecError, match=message):
        attempt()


@pytest.mark.parametrize(
    ("model", "init", "signature", "message"),
    [
        (DiagonalNet(), ZeroLastLayer(Gaussian()), VECTOR, "DiagonalNet has no last layer"),
        (Linear(), Symmetrised(Gaussian()), VECTOR, "Linear has no units"),
        (MLP((5,)), Symmetrised(Gaussian()), VECTOR, r"even width, got hidden=\(5,\)"),
        (MLP((4, 4)), Symmetrised(Gaussian()), VECTOR, r"one hidden layer.*\(4, 4\)"),
        (MatrixFactorisation(3), Symmetrised(Gaussian()), SQUARE, "even rank, got 3"),
    ],
)
def test_a_start_at_zero_that_a_model_does_not_have_is_refused(model, init, signature, message):
    with pytest.raises(SpecError, match=message):
        model.initialise(init, signature, np.random.default_rng(0))
