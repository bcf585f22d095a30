"""Arc-cosine kernels against quadrature in the plane, draws in more dimensions, and tangent kernels of wide nets."""

import jax
import numpy as np
import pytest

import afterfit as af
from afterfit._base.errors import SpecError


@pytest.mark.parametrize("degree", [0, 1])
def test_by_quadrature(degree):
    """In the plane g = r(cos φ, sin φ): the mean of r² is 2, and what is left is an integral over φ."""
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((4, 2)), rng.standard_normal((3, 2))
    phi = (np.arange(200_000) + 0.5) * 2 * np.pi / 200_000
    g = np.stack([np.cos(phi), np.sin(phi)])
    x, z = (np.maximum(rows @ g, 0) ** degree * (rows @ g > 0) for rows in (X, Z))
    expected = 2**degree * x @ z.T / len(phi)
    np.testing.assert_allclose(af.theory.arc_cosine(X, Z, degree=degree), expected, atol=2e-5)


@pytest.mark.parametrize("degree", [0, 1])
def test_by_draws(degree):
    rng = np.random.default_rng(1)
    X, g = rng.standard_normal((4, 6)), rng.standard_normal((6, 400_000))
    h = np.maximum(X @ g, 0) ** degree * (X @ g > 0)
    products = h[:, None] * h[None]
    error = products.std(axis=-1) / np.sqrt(g.shape[1])
    assert np.all(np.abs(af.theory.arc_cosine(X, degree=degree) - products.mean(axis=-1)) < 4 * error)


def test_small_angles_keep_their_digits():
    """The kernel of degree 0 falls by θ/2π, where the arc cosine of a product near 1 would have lost θ."""
    angle = 1e-9
    near = [[np.cos(angle), np.sin(angle)]]
    fall = 0.5 - af.theory.arc_cosine([[1.0, 0.0]], near, degree=0)[0, 0]
    assert fall == pytest.approx(angle / (2 * np.pi), rel=1e-6)
    assert af.theory.arc_cosine([[3.0, 4.0]], [[-3.0, -4.0]], degree=1)[0, 0] == pytest.approx(0, abs=1e-14)


def test_tangent_kernel_of_a_wide_net():
    """As its docstring says: that of a net without biases, by derivatives, over draws of the weights."""
    rng = np.random.default_rng(2)
    X, k, s, t = rng.standard_normal((5, 3)), 4000, 0.5, 2.0
    task = af.tasks.Arrays(X, np.ones(5), X, np.ones(5))
    init = af.inits.ScaledLastLayer(af.inits.Gaussian(s), factor=t / s)
    experiment = af.Experiment(task=task, model=af.models.MLP((k,)), dynamics=af.dynamics.GradientFlow(1.0), init=init)
    with jax.enable_x64(True):
        kernels = [af.theory.posed(experiment.set({"seed": seed})).kernel for seed in range(8)]
    expected = s**2 * af.theory.arc_cosine(X, degree=1) + t**2 * af.theory.arc_cosine(X, degree=0) * (X @ X.T)
    error = np.std(kernels, axis=0) / np.sqrt(len(kernels) - 1)
    assert np.all(np.abs(np.mean(kernels, axis=0) - k * expected) < 5 * error)
    assert np.max(error / (k * expected.max())) < 0.02  # or it would say nothing


def test_refused():
    with pytest.raises(SpecError, match="degree is 0"):
        af.theory.arc_cosine([[1.0]], degree=2)
    with pytest.raises(SpecError, match="as many columns"):
        af.theory.arc_cosine([[1.0]], [[1.0, 2.0]], degree=1)
    with pytest.raises(SpecError, match="length 0"):
        af.theory.arc_cosine([[0.0, 0.0]], degree=1)
