"""What nouns state of themselves, each held against their values; and that another formula states nothing."""

from __future__ import annotations

import inspect
import itertools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import as_jax, flat, random_like
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

from afterfit import dynamics, losses, models, penalties
from afterfit.models import (
    MLP,
    ConvNet,
    DeepMatrixFactorisation,
    DiagonalNet,
    DiagonalProduct,
    Difference,
    EmbeddingMLP,
    LastLayer,
    Linear,
    MatrixFactorisation,
    SymmetricFactorisation,
    Tangent,
)
from afterfit.models._inputs import Entries, OneHot, Rows, Signature, as_inputs
from afterfit.penalties import L1, L2, ElasticNet, Frobenius, GroupLasso, NoPenalty, Nuclear, Sum

pytestmark = pytest.mark.usefixtures("x64")

FAMILIES = (penalties.Penalty, models.Model, dynamics.Dynamics, losses.Loss)
KINDS = [
    (family, kind)
    for module, family in zip((penalties, models, dynamics, losses), FAMILIES, strict=True)
    for kind in map(module.__dict__.get, module.__all__)
    if isinstance(kind, type) and issubclass(kind, family) and not inspect.isabstract(kind)
]
every_kind = pytest.mark.parametrize(("family", "kind"), KINDS, ids=lambda kind: kind.__name__)


def stated(kind, name):
    return inspect.getattr_static(kind, name)


def derived(*bases, **attributes):
    return types.new_class("Own", bases, exec_body=lambda body: body.update(attributes))


def formula(self, *arguments):
    """Another one."""


@every_kind
def test_the_same_formula_keeps_what_is_known_of_it(family, kind):
    own = derived(kind, note="no method of the formula")
    assert all(stated(own, name) is stated(kind, name) for name in family.capabilities)


@every_kind
def test_another_formula_knows_nothing_but_what_it_says(family, kind):
    for method in family.formula:
        written = derived(kind, **{method: formula})
        mixed = derived(type("Mixin", (), {method: formula}), kind)  # written by a base that is no noun
        for own in (written, mixed, derived(written)):
            for name in set(family.capabilities) - {method}:
                assert stated(own, name) is stated(family, name), (method, name)
        for name in set(family.capabilities) - {method}:
            assert stated(derived(kind, **{method: formula, name: "said"}), name) == "said"


def test_a_subclass_with_another_value_is_followed_down_that_value():
    class Tilted(L2):
        def value(self, params):
            return super().value(params) + jnp.sum(params)

    np.testing.assert_allclose(Tilted(1.0).subgradient(jnp.arange(3.0)), np.arange(3) + 1)
    assert not Tilted(1.0).proximal


# Penalties


LIKE = {"W": np.zeros((3, 3)), "b": np.zeros(2)}
PENALTIES = {
    "none": NoPenalty(),
    "L1": L1(0.7),
    "L2": L2(0.7),
    "nuclear": Nuclear(0.7),
    "elastic": ElasticNet(0.7, 0.3),
    "groups": GroupLasso(0.7, size=2),
    "arrays": Frobenius(0.7),
    "L1 + groups": L1(0.7) + GroupLasso(0.2),
    "nuclear + L2": Nuclear(0.7) + L2(0.2),
    "L1 + groups + L2 + L2": Sum(0.5, (L2(0.3), L1(0.7) + GroupLasso(0.2) + L2(0.4))),
    "L1 + L2": L1(0.7) + L2(0.2),
    "L2 + L1": Sum(0.5, (L2(0.2), L1(0.7))),
    "L1 + L1": L1(0.7) + L1(0.2),
    "L1 + nuclear": L1(0.7) + Nuclear(0.2),
    "L2 + L2": L2(0.7) + L2(0.2),
    "of weights": Nuclear(0.7, of="weights").bind(MatrixFactorisation(2), None),
}
every_penalty = pytest.mark.parametrize("name", PENALTIES)


def parameters_of(name, rng):
    factors = {"U": np.zeros((3, 2)), "V": np.zeros((3, 2))}
    return random_like(factors if name == "of weights" else LIKE, rng)


@every_penalty
def test_what_a_penalty_states_is_so(name):
    penalty, rng = PENALTIES[name], np.random.default_rng(0)
    x = parameters_of(name, rng)
    if penalty.degree is not None:
        for c in (0.3, 2.0):
            scaled = jax.tree.map(lambda leaf, c=c: c * leaf, x)
            np.testing.assert_allclose(penalty.value(as_jax(scaled)), c**penalty.degree * penalty.value(as_jax(x)))
    if penalty.decay is not None:
        np.testing.assert_allclose(penalty.weighted_value(as_jax(x)), penalty.decay / 2 * np.sum(flat(x) ** 2))
    if penalty.norm == "l1":
        np.testing.assert_allclose(penalty.value(as_jax(x)), np.sum(np.abs(flat(x))))
    if penalty.norm == "group":
        rows = [x["W"]] if name == "arrays" else x["W"]
        expected = sum(map(np.linalg.norm, rows)) + np.linalg.norm(x["b"])
        np.testing.assert_allclose(penalty.value(as_jax(x)), expected)
    if penalty.norm == "nuclear":
        W = x["U"] @ x["V"].T if name == "of weights" else x["W"]
        np.testing.assert_allclose(penalty.value(as_jax(x)), np.linalg.norm(W, "nuc"))


@every_penalty
def test_a_penalty_is_smooth_exactly_if_its_slopes_do_not_jump(name):
    penalty, rng = PENALTIES[name], np.random.default_rng(1)
    x, direction = (parameters_of(name, rng) for _ in range(2))
    at_zero = jax.tree.map(np.zeros_like, x)  # where norms have their kinks
    jumps = []
    for centre in (x, at_zero):
        sides = (jax.tree.map(lambda c, d, s=s: c + s * d, centre, direction) for s in (-1e-9, 1e-9))
        before, after = (flat(penalty.weighted_subgradient(as_jax(side))) for side in sides)
        jumps.append(np.max(np.abs(after - before)))
    # The norm of a product has its kink in its factors where they are 0, and grows from there as a square.
    assert penalty.smooth == (max(jumps) < 1e-6) or name == "of weights"


@every_penalty
def test_a_penalty_is_proximal_exactly_if_it_has_a_proximal_map(name):
    penalty, x = PENALTIES[name], as_jax(parameters_of(name, np.random.default_rng(2)))
    if penalty.proximal:
        best, rng = penalty.prox(x, 0.1), np.random.default_rng(3)

        def objective(z):
            return np.sum((flat(z) - flat(x)) ** 2) / 2 + 0.1 * float(penalty.value(as_jax(z)))

        for _ in range(50):
            other = jax.tree.map(lambda p, d: p + 1e-3 * d, best, random_like(best, rng))
            assert objective(other) > objective(best)
    else:
        with pytest.raises(penalties.SpecError, match="proximal map"):
            penalty.prox(x, 0.1)


# Models


VECTOR, PAIR = Signature((3,)), Signature((6,), (3,), tokens=3)
SQUARE = Signature((3, 3))
VECTORS = np.random.default_rng(3).standard_normal((5, 3))
MEASUREMENTS = np.random.default_rng(4).standard_normal((5, 3, 3))
TOKENS = OneHot(np.random.default_rng(5).integers(0, 3, (5, 2)), 3)
IMAGES = np.random.default_rng(6).standard_normal((5, 3, 4, 2))
MODELS = {
    "linear": (Linear(), VECTOR, VECTORS),
    "matrix": (Linear(), SQUARE, MEASUREMENTS),
    "net 2": (DiagonalNet(2), VECTOR, VECTORS),
    "net 3": (DiagonalNet(3), VECTOR, VECTORS),
    "product 1": (DiagonalProduct(1), VECTOR, VECTORS),
    "product 2": (DiagonalProduct(2), VECTOR, VECTORS),
    "product 3": (DiagonalProduct(3), VECTOR, VECTORS),
    "UVᵀ": (MatrixFactorisation(3), SQUARE, MEASUREMENTS),
    "UUᵀ − VVᵀ": (SymmetricFactorisation(3), SQUARE, MEASUREMENTS),
    "deep 1": (DeepMatrixFactorisation(1), SQUARE, MEASUREMENTS),
    "deep 2": (DeepMatrixFactorisation(2), SQUARE, MEASUREMENTS),
    "deep 3": (DeepMatrixFactorisation(3), SQUARE, MEASUREMENTS),
    "MLP": (MLP((4,), "hidden"), VECTOR, VECTORS),
    "embedding": (EmbeddingMLP(2, 3), PAIR, TOKENS),
    "difference": (Difference(DiagonalNet(2)), VECTOR, VECTORS),
    "difference of MLPs": (Difference(MLP((4,))), VECTOR, VECTORS),
    "tangent": (Tangent(MLP((4,))), VECTOR, VECTORS),
    "linear tangent": (Tangent(DiagonalNet(2)), VECTOR, VECTORS),
    "convolutions": (ConvNet("2-M-3"), Signature((3, 4, 2), (2,)), IMAGES),
    "last layer": (LastLayer(MLP((4,))), VECTOR, VECTORS),
}
every_model = pytest.mark.parametrize("name", MODELS)


def model_at(name, seed=0):
    """A model, random parameters, and its outputs as a function of them."""
    model, signature, inputs = MODELS[name]
    params = random_like(model.parameters(signature), np.random.default_rng(seed))
    model = model.anchored(as_jax(params))
    return model, params, jax.jit(lambda p: model(p, jax.tree.map(jnp.asarray, inputs)))


@every_model
def test_what_a_model_states_of_its_outputs_is_so(name):
    model, params, outputs = model_at(name)
    other = random_like(params, np.random.default_rng(9))
    middle = jax.tree.map(lambda a, b: (a + b) / 2, params, other)
    affine = np.allclose(2 * outputs(middle), outputs(params) + outputs(other), atol=1e-12)
    assert model.linear == affine or isinstance(model, Difference)  # which does not say
    assert model.responsive
    assert not np.allclose(outputs(params), outputs(other))
    if model.direct:
        assert model.weights(params) is params["weights"]
    if model.power is not None:
        np.testing.assert_allclose(
            model.weights(as_jax(params)), params["plus"] ** model.power - params["minus"] ** model.power
        )


@every_model
def test_a_model_is_smooth_exactly_if_its_slopes_do_not_jump(name):
    model, params, outputs = model_at(name, 1)
    step, jump = 1e-6, 0.0
    leaves, structure = jax.tree.flatten(params)
    direction = jax.tree.leaves(random_like(params, np.random.default_rng(2)))
    for chosen in itertools.product((0, 1), repeat=len(leaves)):  # every choice of arrays that are 0: kinks are there
        centre = [keep * leaf for keep, leaf in zip(chosen, leaves, strict=True)]
        at = [
            outputs(jax.tree.unflatten(structure, [c + s * step * d for c, d in zip(centre, direction, strict=True)]))
            for s in (-1, 0, 1)
        ]
        jump = max(jump, float(jnp.max(jnp.abs(at[0] - 2 * at[1] + at[2]))) / step)
    assert model.smooth == (jump < 1e-3), jump


NORMED = [name for name, (model, _, _) in MODELS.items() if model.least_norm is not None]


def norm_of(weights, least):
    numbers = np.abs(weights) if least.of == "entries" else np.linalg.svd(weights, compute_uv=False)
    return least.factor * np.sum(numbers**least.power)


@pytest.mark.parametrize("name", NORMED)
def test_the_least_norm_is_a_bound_that_the_best_parameters_reach(name):
    model, params, _ = model_at(name, 3)
    W = np.asarray(model.weights(as_jax(params)))
    symmetric = W.ndim == 2 and np.allclose(W, W.T)
    told = np.triu_indices(3) if symmetric else ...  # the other entries of a symmetric matrix say nothing new
    weights = jax.jit(lambda v: model.weights(unflat_jax(v, params))[told].ravel())
    jacobian = jax.jit(jax.jacrev(weights))
    goal, least = np.asarray(weights(flat(params))), norm_of(W, model.least_norm)
    reached = []
    for seed in range(8):  # powers below 1 have local minima
        start = flat(params) * (1 + 0.5 * np.random.default_rng(seed).standard_normal(flat(params).size))
        found = minimize(
            lambda v: 0.5 * v @ v,
            start,
            jac=lambda v: v,
            method="SLSQP",
            constraints={
                "type": "eq",
                "fun": lambda v: np.asarray(weights(v)) - goal,
                "jac": lambda v: np.asarray(jacobian(v)),
            },
            options={"maxiter": 1000, "ftol": 1e-12},
        )
        if np.allclose(weights(found.x), goal, atol=1e-8):
            reached.append(found.fun)
    np.testing.assert_allclose(min(reached), least, rtol=1e-5)
    assert model.least_norm.symmetric == symmetric


def unflat_jax(vector, like):
    leaves, structure = jax.tree.flatten(like)
    cuts = np.cumsum([leaf.size for leaf in leaves])[:-1]
    pieces = zip(jnp.split(vector, cuts), leaves, strict=True)
    return jax.tree.unflatten(structure, [piece.reshape(leaf.shape) for piece, leaf in pieces])


@pytest.mark.parametrize("name", ["net 2", "net 3", "product 2", "product 3"])
def test_pushed_weights_go_where_their_own_flow_takes_them(name):
    model, params, _ = model_at(name, 4)
    push = 0.2 * np.random.default_rng(5).standard_normal(3)
    slope = jax.jit(lambda v: jax.vjp(lambda v: model.weights(unflat_jax(v, params)), v)[1](push)[0])
    end = solve_ivp(lambda t, v: -np.asarray(slope(v)), (0, 1), flat(params), rtol=1e-10, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(flat(model.pushed(as_jax(params), jnp.asarray(push))), end, rtol=1e-6)


# Inputs


MASK = np.array([[1.0, 0, 1], [0, 1, 0], [0, 1, 1]])
INPUTS = {
    "vectors": (VECTORS, (3,), 5),
    "matrices": (MEASUREMENTS, (3, 3), 5),
    "entries": (Entries(MASK), (3, 3), 5),
    "one-hot": (TOKENS, (6,), 5),
}


@pytest.mark.parametrize("name", INPUTS)
def test_every_kind_of_input_acts_as_its_design_does(name):
    raw, shape, n = INPUTS[name]
    inputs, rng = as_inputs(jax.tree.map(jnp.asarray, raw)), np.random.default_rng(6)
    weights = rng.standard_normal(shape)
    X = np.asarray(inputs.design(n))
    wanted = [np.sum(x * weights) for x in X]
    outputs = inputs.measure(jnp.asarray(weights))
    assert X.shape == (n, *shape)
    assert outputs.shape == inputs.layout(n)
    np.testing.assert_allclose(inputs.observed(outputs, n), wanted, atol=1e-14)

    def product(x):  # an entry of a matrix is told by its place
        return jnp.asarray(weights)[x] if isinstance(x, tuple) else jnp.sum(x * weights)

    np.testing.assert_allclose(inputs.each(product), outputs, atol=1e-14)
    chosen = jnp.array([3, 1])
    some, targets = inputs.take(chosen, outputs, n)
    np.testing.assert_allclose(np.sort(as_inputs(some).observed(targets, 2)), np.sort(np.array(wanted)[[3, 1]]))
    np.testing.assert_allclose(as_inputs(some).measure(jnp.asarray(weights)), targets, atol=1e-14)
    assert inputs.selects == (name == "entries")


def test_a_plain_array_is_rows():
    assert isinstance(as_inputs(VECTORS), Rows)
    assert as_inputs(TOKENS) is TOKENS
