"""Tasks whose truth is a function: one-dimensional regression, teacher and student networks."""

from __future__ import annotations

import itertools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from afterfit._base.errors import require
from afterfit._base.spec import later
from afterfit._diagnose.thresholds import Criteria
from afterfit.losses import Loss, Squared
from afterfit.models._inputs import Signature
from afterfit.tasks._base import Data, Task, check_positive
from afterfit.tasks._linear import _VectorTask

__all__ = ["CirclePoints", "FourierRegression", "Interpolation", "ReLURegression", "TeacherStudent"]


def _relu(z: np.ndarray) -> np.ndarray:
    return np.maximum(z, 0)


class ReLURegression(Task):
    """One-dimensional regression on a teacher that is a sum of ReLUs (Boursier et al. 2025, Fig. 3).

    n inputs uniform in [−2, 2]; the teacher Σⱼ aⱼ ReLU(x − cⱼ) has `teacher_units` kinks inside the interval and
    slopes aⱼ from N(0, 1). The loss is (1/2n) Σ (f − y)²; test inputs are an even grid of the interval.
    """

    n: int = 10
    teacher_units: int = 3
    n_test: int = 400

    def __check_init__(self):
        check_positive(n=self.n, teacher_units=self.teacher_units, n_test=self.n_test)

    @property
    def signature(self) -> Signature:
        return Signature((1,))

    @property
    def loss(self) -> Loss:
        return Squared("half_mean")

    @property
    def criteria(self) -> Criteria:
        return Criteria.errors(fit=1e-1, generalise=2e-1)

    @property
    def numbers(self) -> int:
        return super().numbers + self.n_test * self.teacher_units

    def draw(self, rng: np.random.Generator) -> Data:
        kinks, slopes = rng.uniform(-1.5, 1.5, self.teacher_units), rng.standard_normal(self.teacher_units)
        directions = 1 - 2 * rng.integers(0, 2, self.teacher_units)

        def teacher(x: np.ndarray) -> np.ndarray:
            return _relu(directions * (x - kinks)) @ slopes

        X = np.sort(rng.uniform(-2, 2, (self.n, 1)), axis=0)
        grid = np.linspace(-2, 2, self.n_test)[:, None]
        return Data(X, teacher(X), grid, teacher(grid), n=self.n, n_test=self.n_test)


class Interpolation(Task):
    """Given points of the line, to be joined by a function (Woodworth et al. 2020, App. B.1).

    `x`, rising, and `y`. The loss is the sum of squares. What is tested is the distance from the linear spline through
    the points, on an even grid from the first to the last.

    ```python
    Interpolation(x=(-1.0, 0.0, 1.0), y=(0.0, 1.0, 0.0))
    ```
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    n_test: int = 401

    def __check_init__(self):
        check_positive(n_test=self.n_test)
        rising = all(before < after for before, after in itertools.pairwise(self.x))
        require(len(self.x) >= 2 and rising, f"x must be two or more places from left to right, got {self.x}.")
        require(len(self.y) == len(self.x), f"there are {len(self.x)} places x and {len(self.y)} values y.")

    @property
    def n(self) -> int:
        """How many points there are."""
        return len(self.x)

    @property
    def signature(self) -> Signature:
        return Signature((1,))

    @property
    def loss(self) -> Loss:
        return Squared("sum")

    @property
    def criteria(self) -> Criteria:
        return Criteria.errors(fit=1e-2, generalise=1e-1)

    def draw(self, rng: np.random.Generator) -> Data:
        x, y = np.array(self.x), np.array(self.y)
        grid = np.linspace(x[0], x[-1], self.n_test)
        return Data(x[:, None], y, grid[:, None], np.interp(grid, x, y), n=self.n, n_test=self.n_test)


class FourierRegression(_VectorTask):
    """Regression in d = 2·frequencies + 1 Fourier features of x ∈ [−1, 1] (Boursier et al. 2025, App. D.2).

    φ(x) = [1, cos(πx/2), …, cos(π·frequencies·x/2), sin(πx/2), …, sin(π·frequencies·x/2)]. The teacher is
    f(x) = 1 + Σ cos(πkx/2) over `cosines` + Σ sin(πkx/2) over `sines`. The loss is (1/2n) Σ (f − y)².
    """

    n: int = 12
    frequencies: int = 30
    cosines: tuple[int, ...] = (6,)
    sines: tuple[int, ...] = (21,)
    n_test: int = 400

    def __check_init__(self):
        check_positive(n=self.n, frequencies=self.frequencies, n_test=self.n_test)
        highest = max((*self.cosines, *self.sines, 1))
        require(
            highest <= self.frequencies and min((*self.cosines, *self.sines, 1)) >= 1,
            f"the teacher's frequencies must be between 1 and {self.frequencies}, "
            f"got cosines={self.cosines} and sines={self.sines}.",
        )

    @property
    def signature(self) -> Signature:
        return Signature((2 * self.frequencies + 1,))

    @property
    def loss(self) -> Loss:
        return Squared("half_mean")

    @property
    def criteria(self) -> Criteria:
        return Criteria.errors(fit=1e-2, generalise=1e-1)

    def features(self, x: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n d"]:
        """φ(x) for each x."""
        angles = np.pi / 2 * np.outer(x, np.arange(1, self.frequencies + 1))
        return np.concatenate([np.ones((len(x), 1)), np.cos(angles), np.sin(angles)], axis=1)

    def draw(self, rng: np.random.Generator) -> Data:
        truth = np.zeros(2 * self.frequencies + 1)
        truth[[0, *self.cosines, *(self.frequencies + k for k in self.sines)]] = 1
        X = self.features(np.sort(rng.uniform(-1, 1, self.n)))
        grid = self.features(np.linspace(-1, 1, self.n_test))
        return Data(X, X @ truth, grid, grid @ truth, truth=truth, n=self.n, n_test=self.n_test)

    def population_risk(self, weights: Array, data: Data) -> Float[Array, ""]:
        # E over x uniform in [−1, 1] of ⟨β − β*, φ(x)⟩², by quadrature exact for these trigonometric products.
        nodes, mass = np.polynomial.legendre.leggauss(2 * self.frequencies + 60)
        difference = jnp.asarray(self.features(nodes), weights.dtype) @ (weights - data.truth)
        return jnp.sum(jnp.asarray(mass / 2, weights.dtype) * difference**2)


class TeacherStudent(Task):
    """A two-layer ReLU teacher y* = B* ReLU(A*x) with x, A*, hidden·B* standard Gaussian (Notsawo et al. 2025, §4).

    d inputs, `hidden` teacher units, `outputs` outputs, n examples. The loss is (1/2n) Σ ‖f − y‖² unless
    `reduction` says otherwise. The task knows the teacher's slopes, for `penalties.Sobolev`.
    """

    d: int = 100
    hidden: int = 500
    outputs: int = 2
    n: int = 100
    n_test: int = 1000
    reduction: str = eqx.field(default="half_mean", kw_only=True)

    def __check_init__(self):
        check_positive(d=self.d, hidden=self.hidden, outputs=self.outputs, n=self.n, n_test=self.n_test)
        Squared(self.reduction)

    @property
    def signature(self) -> Signature:
        return Signature((self.d,), (self.outputs,))

    @property
    def loss(self) -> Loss:
        return Squared(self.reduction)

    @property
    def criteria(self) -> Criteria:
        return Criteria.errors(fit=1e-1, generalise=2e-1)

    @property
    def numbers(self) -> int:
        teacher = self.hidden * (self.d + self.outputs)
        return super().numbers + teacher + self.n * (self.hidden + self.d * self.outputs)

    def draw(self, rng: np.random.Generator) -> Data:
        A = rng.standard_normal((self.hidden, self.d))
        B = rng.standard_normal((self.outputs, self.hidden)) / self.hidden
        X, X_test = (rng.standard_normal((m, self.d)) for m in (self.n, self.n_test))
        y, y_test = (_relu(x @ A.T) @ B.T for x in (X, X_test))
        active = (X @ A.T > 0).astype(float)  # ∂y*/∂x = B* diag(ReLU′(A*x)) A*
        slopes = np.einsum("ch,nh,hd->ncd", B, active, A)
        return Data(X, y, X_test, y_test, slopes=slopes, n=self.n, n_test=self.n_test)


class CirclePoints(Task):
    """n points on the unit circle, labelled by a ReLU teacher with few units (Woodworth et al. 2020, App. B.2).

    The teacher is Σⱼ aⱼ ReLU(⟨wⱼ, x⟩) with standard Gaussian weights; the loss is the sum of squares unless
    `reduction` says otherwise; test inputs are an even grid of the circle.
    """

    n: int = 10
    teacher_units: int = 3
    n_test: int = 360
    reduction: str = later("sum")

    def __check_init__(self):
        check_positive(n=self.n, teacher_units=self.teacher_units, n_test=self.n_test)
        Squared(self.reduction)

    @property
    def signature(self) -> Signature:
        return Signature((2,))

    @property
    def loss(self) -> Loss:
        return Squared(self.reduction)

    @property
    def criteria(self) -> Criteria:
        return Criteria.errors(fit=1e-2, generalise=1e-1)

    @property
    def numbers(self) -> int:
        return super().numbers + self.n_test * self.teacher_units

    def draw(self, rng: np.random.Generator) -> Data:
        A, b = rng.standard_normal((self.teacher_units, 2)), rng.standard_normal(self.teacher_units)
        angles = rng.uniform(0, 2 * np.pi, self.n), np.linspace(0, 2 * np.pi, self.n_test, endpoint=False)
        X, X_test = (np.stack([np.cos(angle), np.sin(angle)], axis=1) for angle in angles)
        y, y_test = (_relu(x @ A.T) @ b for x in (X, X_test))
        return Data(X, y, X_test, y_test, n=self.n, n_test=self.n_test)
