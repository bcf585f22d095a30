"""Losses against plain NumPy formulas, their logarithms where the loss itself underflows, their gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import slope
from hypothesis import example, given, settings
from hypothesis import strategies as st

from afterfit._base.errors import SpecError
from afterfit.losses import CrossEntropy, Exponential, Logistic, Squared

pytestmark = pytest.mark.usefixtures("x64")

# The papers' factors. The number of examples is an argument of its own, not the number of rows: a masked
# matrix has more entries than examples.
FACTORS = {
    "sum": lambda n: 1,
    "half_sum": lambda n: 1 / 2,
    "mean": lambda n: 1 / n,
    "half_mean": lambda n: 1 / (2 * n),
}


def cross_entropy(outputs, targets):
    return -np.log([np.exp(z[y]) / np.sum(np.exp(z)) for z, y in zip(outputs, targets, strict=True)])


FORMULAS = {
    Squared: lambda outputs, targets: (outputs - targets) ** 2,
    Logistic: lambda outputs, targets: np.log1p(np.exp(-targets * outputs)),
    Exponential: lambda outputs, targets: np.exp(-targets * outputs),
    CrossEntropy: cross_entropy,
}
LOSSES = [pytest.param(kind, id=kind.__name__) for kind in FORMULAS]


def outputs_and_targets(kind, seed=0, scale=3.0):
    """Five outputs and targets; margins up to about 3·scale, so that no loss is below 1e-10."""
    rng = np.random.default_rng(seed)
    if kind is CrossEntropy:
        return scale * rng.standard_normal((5, 4)), rng.integers(0, 4, 5)
    outputs = scale * rng.standard_normal(5)
    return outputs, rng.standard_normal(5) if kind is Squared else np.array([1.0, -1.0, 1.0, 1.0, -1.0])


@pytest.mark.parametrize("reduction", FACTORS)
@pytest.mark.parametrize("kind", LOSSES)
def test_value_gradient_and_logarithm_follow_the_formula(kind, reduction):
    outputs, targets = outputs_and_targets(kind)
    n, loss = 7, kind(reduction)

    def formula(outputs):
        return FACTORS[reduction](n) * np.sum(FORMULAS[kind](outputs, targets))

    value, gradient = jax.value_and_grad(loss)(jnp.asarray(outputs), targets, n)
    # −log softmax as a quotient loses a few digits where the class is likely: 1e-12 is what NumPy's side has.
    np.testing.assert_allclose(value, formula(outputs), rtol=1e-12)
    np.testing.assert_allclose(np.ravel(gradient), slope(formula, outputs), rtol=1e-6, atol=1e-9)
    log_value, log_gradient = jax.value_and_grad(loss.log_value)(jnp.asarray(outputs), targets, n)
    np.testing.assert_allclose(log_value, np.log(formula(outputs)), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(log_gradient, gradient / value, rtol=1e-9, atol=1e-14)


# The examples below have the shapes of the ones above, so that JAX compiles nothing again.
FAR = 2000.0  # a margin that adds e^-1000 relative to one of 1000: nothing


@pytest.mark.parametrize("kind", [Logistic, Exponential], ids=["Logistic", "Exponential"])
def test_logarithm_goes_on_where_the_loss_is_zero_in_floating_point(kind):
    # Both losses are e^s(1 + O(e^s)) at s = −margin → −∞, so for margins 1000 and 1003 the mean is
    # e^-1000 (1 + e^-3)/5 with a relative error below 1e-434; its logarithm's gradient has softmax weights.
    outputs, targets = jnp.asarray([1000.0, -1003.0, FAR, FAR, FAR]), jnp.asarray([1.0, -1.0, 1.0, 1.0, 1.0])
    loss = kind("mean")
    assert float(loss(outputs, targets, 5)) == 0.0
    value, gradient = jax.value_and_grad(loss.log_value)(outputs, targets, 5)
    np.testing.assert_allclose(value, -1000 + np.log((1 + np.exp(-3)) / 5), rtol=1e-15)
    np.testing.assert_allclose(gradient, np.array([-1, np.exp(-3), 0, 0, 0]) / (1 + np.exp(-3)), rtol=1e-14)


def test_logarithm_of_cross_entropy_where_the_loss_is_zero_in_floating_point():
    # ℓ = log(1 + e^-1000 + e^-1002 + e^-2000) = e^-1000 (1 + e^-2) to a relative error below 1e-434; the
    # other four examples have losses e^-2000.
    outputs = np.full((5, 4), -FAR)
    outputs[:, 1] = 0.0
    outputs[0] = [0.0, 1000.0, -2.0, -1000.0]
    targets = np.ones(5, dtype=int)
    loss = CrossEntropy("mean")
    assert float(loss(jnp.asarray(outputs), targets, 5)) == 0.0
    value, gradient = jax.value_and_grad(loss.log_value)(jnp.asarray(outputs), targets, 5)
    np.testing.assert_allclose(value, -1000 + np.log1p(np.exp(-2)) - np.log(5), rtol=1e-15)
    share = 1 / (1 + np.exp(-2))
    np.testing.assert_allclose(gradient[0], [share, -1, 1 - share, 0], rtol=1e-13)
    np.testing.assert_array_equal(gradient[1:], 0.0)


@given(s=st.floats(-300, 30))
@example(s=-40.0)
@settings(max_examples=60)
def test_logarithm_is_seamless_where_it_changes_formula(s):
    # NumPy's log1p is accurate as far as e^s does not underflow, that is to s = −700.
    loss = Logistic("mean")
    value, gradient = jax.value_and_grad(loss.log_value)(jnp.full(5, -s), jnp.ones(5), 5)
    softplus = np.log1p(np.exp(s))
    np.testing.assert_allclose(value, np.log(softplus), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(gradient, np.full(5, -1 / 5 / (1 + np.exp(-s)) / softplus), rtol=1e-13)


def test_gradient_of_the_logarithm_survives_an_exact_fit():
    # Residuals 2 and 0, like those of the unobserved entries of a matrix: log of a sum of squares is smooth.
    outputs, targets = jnp.asarray([2.0, 3.0, 0.0, 0.0, 0.0]), jnp.asarray([2.0, 1.0, 0.0, 0.0, 0.0])
    value, gradient = jax.value_and_grad(Squared("mean").log_value)(outputs, targets, 2)
    np.testing.assert_allclose(value, np.log(2.0), rtol=1e-15)
    np.testing.assert_allclose(gradient, [0.0, 1.0, 0.0, 0.0, 0.0], atol=1e-15)


def test_unknown_reduction_is_refused_with_the_nearest():
    with pytest.raises(SpecError, match=r"'half_men'.*'half_mean'"):
        Squared("half_men")
