"""Penalties: values, subgradients and proximal maps against NumPy, CVXPY and their defining inequalities."""

from __future__ import annotations

import dataclasses
import re

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import as_jax, flat, random_like, slope, unflat
from hypothesis import given, settings
from hypothesis import strategies as st

import afterfit.dynamics
from afterfit._base.errors import SpecError
from afterfit.models import MLP, DiagonalNet, Linear, MatrixFactorisation, SymmetricFactorisation
from afterfit.penalties import L1, L2, ElasticNet, Frobenius, GroupLasso, NoPenalty, Nuclear, Penalty, Sobolev, Sum
from afterfit.tasks import MatrixCompletion, SparseRecovery, TeacherStudent

pytestmark = pytest.mark.usefixtures("x64")

# A matrix and a vector, as a layer with a bias has: the same shapes everywhere, compiled once.
LIKE = {"W": np.zeros((3, 4)), "b": np.zeros(4)}


def group_norms(p):
    """Rows of the matrix, and pairs of the vector, as a loop."""
    groups = [*p["W"], p["b"][:2], p["b"][2:]]
    return sum(np.sqrt(np.sum(group**2)) for group in groups)


PENALTIES = {
    "L1": (L1(0.7), lambda p: np.abs(p["W"]).sum() + np.abs(p["b"]).sum()),
    "L2": (L2(0.7), lambda p: (np.square(p["W"]).sum() + np.square(p["b"]).sum()) / 2),
    "Nuclear": (Nuclear(0.7), lambda p: np.linalg.norm(p["W"], "nuc")),
    "NoPenalty": (NoPenalty(), lambda p: 0.0),
    "L1+L2": (L1(0.3) + L2(2.0), lambda p: 0.3 * np.abs(flat(p)).sum() + np.square(flat(p)).sum()),
    "ElasticNet": (ElasticNet(0.7, 0.8), lambda p: 0.8 * np.abs(flat(p)).sum() + 0.1 * np.square(flat(p)).sum()),
    "GroupLasso": (GroupLasso(0.7, size=2), group_norms),
    "Frobenius": (Frobenius(0.7), lambda p: np.linalg.norm(p["W"]) + np.linalg.norm(p["b"])),
    "L1+L2+GroupLasso": (
        Sum(2.0, (L1(0.15), L2(1.0))) + GroupLasso(0.5, size=2),
        lambda p: 0.3 * np.abs(flat(p)).sum() + np.square(flat(p)).sum() + 0.5 * group_norms(p),
    ),
    "Nuclear+L2": (
        Nuclear(0.5) + Sum(2.0, (L2(0.2), L2(0.1))),
        lambda p: 0.5 * np.linalg.norm(p["W"], "nuc") + 0.3 * np.square(flat(p)).sum(),
    ),
    "ElasticNet+GroupLasso": (
        ElasticNet(0.5, 0.8) + GroupLasso(0.7, size=2),
        lambda p: 0.4 * np.abs(flat(p)).sum() + 0.05 * np.square(flat(p)).sum() + 0.7 * group_norms(p),
    ),
    "the same twice": (
        Sum(2.0, (L1(0.3), GroupLasso(0.2, size=2))) + (GroupLasso(0.3, size=2) + L1(0.1)),
        lambda p: 0.7 * np.abs(flat(p)).sum() + 0.7 * group_norms(p),
    ),
    "Sum": (
        Sum(3.0, (Nuclear(0.5), L1(0.2))),
        lambda p: 0.5 * np.linalg.norm(p["W"], "nuc") + 0.2 * np.abs(flat(p)).sum(),
    ),
}
WITH_PROX = [name for name in PENALTIES if name != "Sum"]
each = pytest.mark.parametrize("name", PENALTIES)


def trees(seed, zeros):
    """Random parameters; some of them exactly zero, or the matrix of low rank, where norms have kinks."""
    rng = np.random.default_rng(seed)
    tree = random_like(LIKE, rng, 2.0)
    if zeros == "some":
        tree = jax.tree.map(lambda leaf: np.where(rng.uniform(size=leaf.shape) < 0.5, leaf, 0.0), tree)
    if zeros == "rank":
        tree["W"] = np.outer(tree["W"][:, 0], tree["b"])
    if zeros == "all":
        tree = jax.tree.map(np.zeros_like, tree)
    return tree


many = given(
    seed=st.integers(0, 10_000),
    zeros=st.sampled_from(["none", "some", "rank", "all"]),
    step=st.floats(1e-3, 5.0),
)


@each
@many
@settings(max_examples=15)
def test_value_and_subgradient(name, seed, zeros, step):
    penalty, formula = PENALTIES[name]
    x, y = trees(seed, zeros), trees(seed + 1, "none")
    value = float(penalty.value(as_jax(x)))
    H = flat(penalty.subgradient(as_jax(x)))
    np.testing.assert_allclose(value, formula(x), rtol=1e-12)
    # A subgradient's plane lies below a convex function everywhere; values of about 20 are rounded at 1e-14.
    for other in (y, jax.tree.map(lambda a, b: a + 1e-3 * step * b, x, y)):
        assert formula(other) >= formula(x) + H @ (flat(other) - flat(x)) - 1e-12
    weighted = flat(penalty.weighted_subgradient(as_jax(x)))
    np.testing.assert_allclose(weighted, penalty.strength * H, rtol=1e-14)
    np.testing.assert_allclose(penalty.weighted_value(as_jax(x)), penalty.strength * value, rtol=1e-14)


@each
def test_subgradient_is_the_gradient_where_there_is_one(name):
    penalty, formula = PENALTIES[name]
    x = trees(3, "none")  # no zero entries, full rank: all penalties are smooth here
    np.testing.assert_allclose(flat(penalty.subgradient(as_jax(x))), slope(formula, x), atol=1e-7)


@pytest.mark.parametrize("name", WITH_PROX)
@many
@settings(max_examples=15)
def test_prox_is_optimal_and_firmly_nonexpansive(name, seed, zeros, step):
    penalty, formula = PENALTIES[name]
    x, y, z = trees(seed, zeros), trees(seed + 1, "none"), trees(seed + 2, "some")
    at_x, at_y = (jax.tree.map(np.asarray, penalty.prox(as_jax(point), jnp.asarray(step))) for point in (x, y))
    # p = prox(x) exactly when x − p is a subgradient of step·h at p, that is, when its plane lies below.
    pull = flat(x) - flat(at_x)
    for other in (z, x, jax.tree.map(np.zeros_like, x)):
        assert step * formula(other) >= step * formula(at_x) + pull @ (flat(other) - flat(at_x)) - 1e-12
    # ‖Px − Py‖² ≤ ⟨Px − Py, x − y⟩, which also says that P is single-valued and does not expand.
    moved = flat(at_x) - flat(at_y)
    assert moved @ moved <= moved @ (flat(x) - flat(y)) + 1e-12


@pytest.mark.parametrize("name", [name for name in WITH_PROX if name != "NoPenalty"])
def test_weighted_prox_against_a_convex_solver(name):
    penalty, _ = PENALTIES[name]
    x, step = trees(5, "none"), 0.9
    W, b = cp.Variable((3, 4)), cp.Variable(4)
    l1 = cp.sum(cp.abs(W)) + cp.sum(cp.abs(b))
    l2 = (cp.sum_squares(W) + cp.sum_squares(b)) / 2
    groups = cp.sum(cp.norm(W, axis=1)) + cp.norm(b[:2]) + cp.norm(b[2:])
    h = {
        "L1": 0.7 * l1,
        "L2": 0.7 * l2,
        "Nuclear": 0.7 * cp.normNuc(W),
        "L1+L2": 0.3 * l1 + 2.0 * l2,
        "ElasticNet": 0.7 * (0.8 * l1 + 0.2 * l2),
        "GroupLasso": 0.7 * groups,
        "Frobenius": 0.7 * (cp.norm(W, "fro") + cp.norm(b)),
        "L1+L2+GroupLasso": 0.3 * l1 + 2.0 * l2 + 0.5 * groups,
        "Nuclear+L2": 0.5 * cp.normNuc(W) + 0.6 * l2,
        "ElasticNet+GroupLasso": 0.4 * l1 + 0.1 * l2 + 0.7 * groups,
        "the same twice": 0.7 * l1 + 0.7 * groups,
    }[name]
    near = (cp.sum_squares(W - x["W"]) + cp.sum_squares(b - x["b"])) / 2
    cp.Problem(cp.Minimize(near + step * h)).solve(solver=cp.CLARABEL)
    found = penalty.weighted_prox(as_jax(x), jnp.asarray(step))
    # Clarabel stops at a gap of 1e-8; the objective is strongly convex, so the point is within √(2·1e-8).
    np.testing.assert_allclose(found["W"], W.value, atol=2e-4)
    np.testing.assert_allclose(found["b"], b.value, atol=2e-4)


def test_sum_of_l1_and_l2_in_either_order_and_with_a_common_strength():
    x, step = as_jax(trees(6, "none")), jnp.asarray(0.4)
    a, b = L1(0.3), L2(2.0)
    first = flat((a + b).weighted_prox(x, step))
    np.testing.assert_allclose(flat((b + a).weighted_prox(x, step)), first, rtol=1e-14)
    doubled = Sum(2.0, (a, b)).weighted_prox(x, step)
    np.testing.assert_allclose(flat(doubled), flat((L1(0.6) + L2(4.0)).weighted_prox(x, step)), rtol=1e-14)
    nested = (a + b) + Nuclear(0.5)
    expected = 0.3 * a.value(x) + 2.0 * b.value(x) + 0.5 * Nuclear(1.0).value(x)
    np.testing.assert_allclose(nested.weighted_value(x), expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("penalty", "decay"),
    [
        (L2(0.3) + L2(0.1), 0.4),
        (Sum(2.0, (L2(0.3), NoPenalty())), 0.6),
        (NoPenalty() + NoPenalty(), 0.0),
        (L2(0.3) + L1(0.1), None),
        (L2(0.3) + ElasticNet(0.1), None),
    ],
)
def test_a_sum_of_weight_decays_is_one_and_of_anything_else_is_not(penalty, decay):
    assert penalty.decay == (decay if decay is None else pytest.approx(decay, rel=1e-15))
    if decay is not None:
        x = as_jax(trees(5, "none"))
        np.testing.assert_allclose(flat(penalty.weighted_subgradient(x)), decay * flat(x), rtol=1e-14)


def test_subgradients_at_kinks_are_the_shortest():
    # Of all subgradients at 0, and at a matrix of low rank, the one of least norm: it does not push off the kink.
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal(3), rng.standard_normal(4)
    low = as_jax({"W": np.outer(a, b), "b": b})
    expected = np.outer(a, b) / (np.linalg.norm(a) * np.linalg.norm(b))
    np.testing.assert_allclose(Nuclear(1.0).subgradient(low)["W"], expected, atol=1e-14)
    zero = as_jax(LIKE)
    for penalty in (L1(1.0), Nuclear(1.0), GroupLasso(1.0), Frobenius(1.0), ElasticNet(1.0)):
        np.testing.assert_array_equal(flat(penalty.subgradient(zero)), 0)


@pytest.mark.parametrize("shape", [(60, 8), (8, 60), (20, 8)])
@pytest.mark.parametrize("rank", [8, 3])
def test_the_nuclear_norm_s_subgradient_in_single_precision_is_that_of_double(shape, rank):
    # Long matrices go without singular vectors. Singular values over three orders, then zeros: a route that lost digits
    # would be off by their ratio, here 1e3, times the rounding of single precision; one that kept zeros, by 1.
    rng = np.random.default_rng(11)
    U, V = (np.linalg.qr(rng.standard_normal((side, rank)))[0] for side in shape)
    W = (U * np.geomspace(1.0, 1e-3, rank)) @ V.T
    with jax.enable_x64(True):
        single = {"W": jnp.asarray(W, jnp.float32), "b": jnp.ones(3, jnp.float32)}
        found = Nuclear(1.0).subgradient(single)["W"]
        assert found.dtype == jnp.float32
        left, _, right = np.linalg.svd(np.asarray(single["W"], float))
        np.testing.assert_allclose(found, left[:, :rank] @ right[:rank], atol=2e-5)
    np.testing.assert_allclose(Nuclear(1.0).subgradient(single)["W"], found, atol=1e-3)


def test_groups_are_what_comes_into_a_unit_and_single_entries_of_vectors():
    params = MLP((5,), "all").parameters(TeacherStudent(d=3, hidden=4, outputs=2, n=5, n_test=2).signature)
    params = random_like(params, np.random.default_rng(2))
    first, last = params["layers"]
    expected = sum(np.linalg.norm(incoming) for layer in (first, last) for incoming in layer["weight"])
    expected += np.abs(first["bias"]).sum() + np.abs(last["bias"]).sum()
    np.testing.assert_allclose(GroupLasso(1.0).value(as_jax(params)), expected, rtol=1e-12)
    cube = {"T": np.random.default_rng(3).standard_normal((2, 3, 4)), "s": np.asarray(-2.0)}
    expected = sum(np.linalg.norm(cube["T"][k].ravel()) for k in range(2)) + 2.0
    np.testing.assert_allclose(GroupLasso(1.0, size=2).value(as_jax(cube)), expected, rtol=1e-12)


def test_proximal_maps_have_derivatives_of_their_own_at_kinks_and_off_them():
    # Flows solve with them. At 0, and at a matrix with equal or no singular values, JAX's own would be no numbers.
    eye = {"W": np.eye(3, 4), "b": np.zeros(4)}
    for name in WITH_PROX:
        penalty, _ = PENALTIES[name]
        for x in (trees(1, "none"), trees(2, "rank"), trees(3, "all"), eye):
            along = trees(4, "none")
            prox = lambda t, penalty=penalty: penalty.prox(as_jax(t), jnp.asarray(0.37))  # noqa: E731
            _, change = jax.jvp(prox, (as_jax(x),), (as_jax(along),))
            up, down = (flat(prox(jax.tree.map(lambda a, d, e=e: a + e * d, x, along))) for e in (1e-6, -1e-6))
            np.testing.assert_allclose(flat(change), (up - down) / 2e-6, atol=1e-5, err_msg=name)


def test_nuclear_norm_leaves_vectors_alone():
    x = as_jax(trees(7, "none"))
    np.testing.assert_array_equal(Nuclear(1.0).prox(x, jnp.asarray(0.5))["b"], x["b"])
    np.testing.assert_array_equal(Nuclear(1.0).subgradient(x)["b"], 0)


@pytest.mark.parametrize("model", [MatrixFactorisation(2), SymmetricFactorisation()], ids=repr)
def test_nuclear_norm_of_the_weights(model):
    task = MatrixCompletion(4, 4, 1)
    penalty = Nuclear(0.5, of="weights").bind(model, task.draw(np.random.default_rng(0)))
    params = random_like(model.parameters(task.signature), np.random.default_rng(1))

    def formula(p):
        symmetric = isinstance(model, SymmetricFactorisation)
        W = p["U"] @ p["U"].T - p["V"] @ p["V"].T if symmetric else p["U"] @ p["V"].T
        return np.sum(np.linalg.svd(W, compute_uv=False))

    np.testing.assert_allclose(penalty.value(as_jax(params)), formula(params), rtol=1e-12)
    # With rank 2 of 4, two singular values stay 0 whatever the factors: the norm is smooth in the factors.
    np.testing.assert_allclose(
        flat(penalty.weighted_subgradient(as_jax(params))), 0.5 * slope(formula, params), atol=1e-7
    )
    own = Nuclear(0.5).bind(model, task.draw(np.random.default_rng(0))).value(as_jax(params))
    np.testing.assert_allclose(own, sum(np.linalg.norm(params[k], "nuc") for k in "UV"), rtol=1e-12)


@pytest.mark.parametrize("form", ["mean_square", "norm"])
@pytest.mark.parametrize("biases", ["none", "hidden"])
def test_sobolev_compares_slopes(biases, form):
    task, model = TeacherStudent(d=3, hidden=4, outputs=2, n=5, n_test=2), MLP((6,), biases)
    data = task.draw(np.random.default_rng(0))
    penalty = Sobolev(0.1, form=form).bind(model, as_jax(data))
    params = random_like(model.parameters(task.signature), np.random.default_rng(1))
    call, value = jax.jit(model.__call__), jax.jit(lambda p: penalty.value(p))

    def formula(p):
        total = 0.0
        for k, direction in enumerate(np.eye(3)):
            up, down = (
                np.asarray(call(as_jax(p), jnp.asarray(data.inputs + sign * 1e-6 * direction))) for sign in (1, -1)
            )
            total += np.sum(((up - down) / 2e-6 - data.slopes[:, :, k]) ** 2)
        return np.sqrt(total) if form == "norm" else total / 5  # (1/N) Σᵢ ‖·‖_F², Notsawo et al. (125)

    np.testing.assert_allclose(value(as_jax(params)), formula(params), rtol=1e-7)
    gradient = flat(jax.jit(lambda p: penalty.subgradient(p))(as_jax(params)))
    numerical = slope(lambda p: value(as_jax(p)), params)
    np.testing.assert_allclose(gradient, numerical, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("form", ["mean_square", "norm"])
def test_sobolev_rests_at_the_teacher_s_slopes(form):
    """There the norm has a kink, and the shortest of its subgradients is 0."""
    task, model = TeacherStudent(d=3, hidden=4, outputs=2, n=5, n_test=2), MLP((6,))
    params = as_jax(random_like(model.parameters(task.signature), np.random.default_rng(1)))
    data = as_jax(task.draw(np.random.default_rng(0)))
    own = jax.vmap(jax.jacobian(lambda x: model(params, x[None])[0]))(data.inputs)
    penalty = Sobolev(0.1, form=form).bind(model, dataclasses.replace(data, slopes=own))
    np.testing.assert_array_equal(flat(penalty.subgradient(params)), 0)
    assert penalty.smooth is (form == "mean_square")


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: L1(-0.5), "0 or more, got -0.5"),
        (lambda: Nuclear(-2.0), "0 or more, got -2.0"),
        (lambda: L2(float("nan")), "got nan"),
        (lambda: Sum(-1.0, (L1(1.0),)), "got -1"),
        (lambda: Sum(1.0, ()), "at least one penalty"),
        (lambda: ElasticNet(1.0, 0.0), "between 0 and 1, got 0.0: for 0 use L2"),
        (lambda: ElasticNet(-1.0), "0 or more, got -1.0"),
        (lambda: GroupLasso(1.0, size=0), "1 or more entries of a vector, got 0"),
        (lambda: GroupLasso(1.0, size=3).value({"w": jnp.ones(4)}), "groups of 3 entries.*size that divides 4"),
        (lambda: Nuclear(1.0, of="weight"), "'weight'.*'weights'"),
        (lambda: Nuclear(1.0).value({"w": jnp.ones(3)}), "needs a matrix"),
        (lambda: Nuclear(1.0, of="weights").bind(MLP((3,)), None), "model of a matrix, not MLP"),
        (
            lambda: Sobolev(1.0).bind(Linear(), SparseRecovery(4, 1, 2).draw(np.random.default_rng(0))),
            "TeacherStudent",
        ),
        (lambda: Sobolev(1.0).value({"w": jnp.ones(3)}), "bind"),
        (lambda: Sobolev(1.0, form="norms"), "'norms'.*'norm'"),
    ],
)
def test_refusals(attempt, message):
    with pytest.raises(SpecError, match=message):
        attempt()


class Quartic(Penalty):
    """Σ θ⁴, without a proximal map."""

    def value(self, params):
        return sum(jnp.sum(leaf**4) for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize(
    "penalty",
    [
        Quartic(1.0),
        L1(1.0) + Nuclear(1.0),
        GroupLasso(1.0) + GroupLasso(1.0, size=2),
        Nuclear(1.0, of="weights").bind(DiagonalNet(), None),
    ],
    ids=["own", "L1+Nuclear", "groups", "of weights"],
)
def test_a_missing_proximal_map_is_refused_with_a_way_out(penalty):
    with pytest.raises(SpecError, match="proximal map") as refusal:
        penalty.prox(as_jax(LIKE), jnp.ones(()))
    (advice,) = re.findall(r"use (\w+)", str(refusal.value))
    assert hasattr(afterfit.dynamics, advice), f"there is no dynamics {advice}"
    assert not re.search(r"\b_\w+", str(refusal.value)), "a private name in a message for people"


def test_a_penalty_of_ones_own_needs_only_its_value():
    x = trees(8, "none")
    np.testing.assert_allclose(flat(Quartic(2.0).weighted_subgradient(as_jax(x))), 8 * flat(x) ** 3, rtol=1e-12)


def test_trees_and_vectors_go_round():
    x = trees(9, "none")
    assert jax.tree.all(jax.tree.map(np.array_equal, x, unflat(flat(x), x)))
