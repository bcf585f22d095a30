"""Tasks whose truth is one vector: sparse regression, sparse recovery, linear classification."""

from __future__ import annotations

import itertools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jaxtyping import Array, Float, PyTree

from afterfit._base.errors import require
from afterfit._base.spec import later
from afterfit._diagnose.thresholds import Criteria
from afterfit.losses import Exponential, Logistic, Loss, Squared
from afterfit.models import LinearModel, Model
from afterfit.models._inputs import Signature
from afterfit.tasks._base import Data, Task, check_choice, check_positive, share_of

__all__ = ["MarginClassification", "SparseClassification", "SparseRecovery", "SparseRegression"]


def _check_sparsity(sparsity: int, d: int) -> None:
    require(
        1 <= sparsity <= d,
        f"sparsity counts non-zero entries among d={d}, so it must be between 1 and {d}, got {sparsity}.",
    )


def _design(rng: np.random.Generator, n: int, d: int, kind: str) -> Float[np.ndarray, "n d"]:
    """n inputs of dimension d: standard Gaussian, or uniform in {±1}^d."""
    if kind == "gaussian":
        return rng.standard_normal((n, d))
    return 1.0 - 2.0 * rng.integers(0, 2, (n, d), dtype=np.int8)  # a byte each: seven times as quick to draw


class _VectorTask(Task):
    """Shared by the tasks that look for one vector: the test error is the distance to it."""

    def test_metrics(self, model: Model, params: PyTree[Array], data: Data) -> dict[str, Array]:
        metrics = super().test_metrics(model, params, data)
        if isinstance(model, LinearModel):
            # The relative recovery error ‖a − a*‖/‖a*‖ (Notsawo et al. 2025, §3.1) instead of a sampled one.
            metrics["test_error"] = self.score(model.weights(params), data.truth)
        return metrics


class SparseRegression(_VectorTask):
    """Sparse linear regression (Woodworth et al. 2020, §4): y = ⟨β*, x⟩ + noise, β* with few non-zeros.

    `design` is `"gaussian"` or `"sign"` (±1 entries); `entries` of β* are `"equal"` (1/√sparsity each, so that
    ‖β*‖ = 1), `"sign"` (±1) or `"gaussian"`; labels have noise of variance `noise_variance`. The loss is a sum
    of squares unless `reduction` says otherwise.

    ```python
    SparseRegression(n=40, d=100, sparsity=5, noise_variance=0.01)
    ```
    """

    n: int
    d: int
    sparsity: int
    design: str = "gaussian"
    entries: str = "equal"
    noise_variance: float = 0.0
    reduction: str = "sum"
    n_test: int = 1000

    def __check_init__(self):
        check_positive(n=self.n, d=self.d, n_test=self.n_test)
        _check_sparsity(self.sparsity, self.d)
        check_choice("design", self.design, ("gaussian", "sign"))
        check_choice("entries", self.entries, ("equal", "sign", "gaussian"))
        require(self.noise_variance >= 0, f"noise_variance must be 0 or more, got {self.noise_variance}.")
        Squared(self.reduction)

    @property
    def signature(self) -> Signature:
        return Signature((self.d,))

    @property
    def loss(self) -> Loss:
        return Squared(self.reduction)

    @property
    def criteria(self) -> Criteria:
        return Criteria.errors(fit=1e-2, generalise=1e-1)

    def draw(self, rng: np.random.Generator) -> Data:
        truth = np.zeros(self.d)
        support = rng.choice(self.d, self.sparsity, replace=False)
        truth[support] = {
            "equal": lambda: np.full(self.sparsity, 1 / np.sqrt(self.sparsity)),
            "sign": lambda: 1.0 - 2.0 * rng.integers(0, 2, self.sparsity),
            "gaussian": lambda: rng.standard_normal(self.sparsity),
        }[self.entries]()
        X, X_test = (_design(rng, m, self.d, self.design) for m in (self.n, self.n_test))
        noise = np.sqrt(self.noise_variance)
        y, y_test = (x @ truth + noise * rng.standard_normal(len(x)) for x in (X, X_test))
        return Data(
            X,
            y,
            X_test,
            y_test,
            truth=truth,
            noise_variance=self.noise_variance,
            n=self.n,
            n_test=self.n_test,
        )

    def population_risk(self, weights: Array, data: Data) -> Float[Array, ""]:
        # E(⟨β − β*, x⟩ + noise)² with E[xxᵀ] = I for both designs.
        return jnp.sum((weights - data.truth) ** 2) + data.noise_variance


class SparseRecovery(_VectorTask):
    """Recover a sparse vector from N measurements, in a random orthonormal basis Φ (Notsawo et al. 2025, §3.1, App. G).

    y = X a* + ξ with X = MΦ; a* has `sparsity` entries from N(0, scale²), scale 1/√n when not given. The first
    ⌊coherence·N⌋ rows of M are columns of Φ and the others N(0, variance), so coherence 0 is a Gaussian design and 1
    observes entries of a* one by one. The variance is 1/n when not given, as in the text of App. G; in the authors'
    notebooks it is 1/N. The noise ξ has variance E‖a*‖²/(N·snr), none when `snr` is not given (10⁸ in App. G). The loss
    is ½‖Xa − y‖².

    ```python
    SparseRecovery(n=100, sparsity=5, N=30)
    ```
    """

    n: int
    sparsity: int
    N: int
    scale: float | None = None
    coherence: float = 0.0
    snr: float | None = None
    variance: float | None = later(None)

    def __check_init__(self):
        check_positive(n=self.n, N=self.N)
        given = {"snr": self.snr, "scale": self.scale, "variance": self.variance}
        check_positive(**{name: value for name, value in given.items() if value is not None})
        _check_sparsity(self.sparsity, self.n)
        require(0 <= self.coherence <= 1, f"coherence must be between 0 and 1, got {self.coherence}.")

    @property
    def signature(self) -> Signature:
        return Signature((self.n,))

    @property
    def loss(self) -> Loss:
        return Squared("half_sum")

    @property
    def criteria(self) -> Criteria:
        return Criteria.errors(fit=1e-4, generalise=1e-4)  # t₁ and t₂ of Figs 4 and 28

    @property
    def numbers(self) -> int:
        return self.n * (self.n + self.N + 1000)  # the basis, training and test inputs

    @property
    def _inverse_variance(self) -> float:
        return self.n if self.variance is None else 1 / self.variance

    def draw(self, rng: np.random.Generator) -> Data:
        n, N = self.n, self.N
        scale = 1 / np.sqrt(n) if self.scale is None else self.scale
        truth = np.zeros(n)
        truth[rng.choice(n, self.sparsity, replace=False)] = scale * rng.standard_normal(self.sparsity)
        basis, _ = np.linalg.qr(rng.standard_normal((n, n)))
        coherent = min(share_of(self.coherence, N), n)
        spread = np.sqrt(self._inverse_variance)
        M = np.concatenate([basis[:, :coherent].T, rng.standard_normal((N - coherent, n)) / spread])
        X, X_test = M @ basis, rng.standard_normal((1000, n)) / spread
        variance = 0.0 if self.snr is None else self.sparsity * scale**2 / (N * self.snr)  # E‖a*‖² = sparsity·scale²
        y = X @ truth + np.sqrt(variance) * rng.standard_normal(N)
        return Data(X, y, X_test, X_test @ truth, truth=truth, noise_variance=variance, n=N, n_test=1000)

    def population_risk(self, weights: Array, data: Data) -> Float[Array, ""]:
        # E(a) = σ²‖a − a*‖² + E ε², a fresh Gaussian measurement having entries of variance σ² (§3.1).
        return jnp.sum((weights - data.truth) ** 2) / self._inverse_variance + data.noise_variance


class _LinearClassification(Task):
    loss_name: str = eqx.field(default="logistic", kw_only=True)
    n_test: int = eqx.field(default=1000, kw_only=True)

    def __check_init__(self):
        check_choice("loss_name", self.loss_name, ("exponential", "logistic"))
        check_positive(n_test=self.n_test)

    @property
    def loss(self) -> Loss:
        return Logistic("mean") if self.loss_name == "logistic" else Exponential("mean")

    @property
    def criteria(self) -> Criteria:
        return Criteria.accuracies()


class SparseClassification(_LinearClassification):
    """Labels sign⟨w*, x⟩ of a sparse ±1 vector w* (Lyu et al. 2023, §3.2.3); x uniform in {±1}^d, or Gaussian.

    Training minimises the mean logistic (or exponential) loss. The sparsity is odd for ±1 inputs, so that no
    input lies on the boundary. Test accuracy is over `n_test` fresh inputs.

    ```python
    SparseClassification(n=256, d=100_000, sparsity=3)
    ```
    """

    n: int
    d: int
    sparsity: int = 3
    design: str = "sign"

    def __check_init__(self):
        check_positive(n=self.n, d=self.d)
        _check_sparsity(self.sparsity, self.d)
        check_choice("design", self.design, ("gaussian", "sign"))
        require(
            self.design == "gaussian" or self.sparsity % 2 == 1,
            f"with ±1 inputs the sparsity must be odd, or ⟨w*, x⟩ can be 0: got {self.sparsity}.",
        )

    @property
    def signature(self) -> Signature:
        return Signature((self.d,))

    def draw(self, rng: np.random.Generator) -> Data:
        truth = np.zeros(self.d)
        truth[rng.choice(self.d, self.sparsity, replace=False)] = 1.0 - 2.0 * rng.integers(0, 2, self.sparsity)
        X, X_test = (_design(rng, m, self.d, self.design) for m in (self.n, self.n_test))
        y, y_test = np.sign(X @ truth), np.sign(X_test @ truth)
        return Data(X, y, X_test, y_test, truth=truth, n=self.n, n_test=self.n_test)

    def population_risk(self, weights: Float[Array, " d"], data: Data) -> Float[Array, ""] | None:
        """Share of inputs misclassified: angle(w, w*)/π for Gaussian inputs; for ±1 inputs, exact over the signs
        of the support, and with the rest of ⟨w, x⟩ taken as Gaussian (many small terms) or exactly 0."""
        truth = data.truth
        if self.design == "gaussian":
            cosine = weights @ truth / (jnp.linalg.norm(weights) * jnp.linalg.norm(truth))
            return jnp.where(jnp.any(weights != 0), jnp.arccos(jnp.clip(cosine, -1, 1)) / jnp.pi, 0.5)
        if self.sparsity > 11:  # 2^sparsity patterns of signs
            return None
        support = jnp.nonzero(truth, size=self.sparsity)[0]
        signs = jnp.asarray(list(itertools.product((-1.0, 1.0), repeat=self.sparsity)), dtype=weights.dtype)
        margin = (signs @ weights[support]) * jnp.sign(signs @ truth[support])
        rest = jnp.sqrt(jnp.maximum(jnp.sum(weights**2) - jnp.sum(weights[support] ** 2), 0))
        return jnp.mean(jnp.where(rest > 0, norm.cdf(-margin / rest), (1 - jnp.sign(margin)) / 2))


class MarginClassification(_LinearClassification):
    """Two Gaussian half-spaces pushed apart: x = z + (γ/2)·sign⟨z, w*⟩·w*, label sign⟨z, w*⟩, z ~ N(0, I),
    ‖w*‖ = 1 (Lyu et al. 2023, §3.2.3, "misgrokking").

    Test accuracy of a linear model is the population's, by one-dimensional quadrature.

    ```python
    MarginClassification(n=32, d=100_000, margin=25.0)
    ```
    """

    n: int
    d: int
    margin: float = 25.0

    def __check_init__(self):
        check_positive(n=self.n, d=self.d)
        require(self.margin >= 0, f"the margin must be 0 or more, got {self.margin}.")

    @property
    def signature(self) -> Signature:
        return Signature((self.d,))

    def draw(self, rng: np.random.Generator) -> Data:
        truth = rng.standard_normal(self.d)
        truth /= np.linalg.norm(truth)

        def sample(m: int) -> tuple[np.ndarray, np.ndarray]:
            z = rng.standard_normal((m, self.d))
            label = np.sign(z @ truth)
            z += self.margin / 2 * label[:, None] * truth
            return z, label

        (X, y), (X_test, y_test) = sample(self.n), sample(self.n_test)
        return Data(X, y, X_test, y_test, truth=truth, n=self.n, n_test=self.n_test)

    def population_risk(self, weights: Float[Array, " d"], data: Data) -> Float[Array, ""]:
        """Share of inputs misclassified. With s = |⟨z, w*⟩| and c = ⟨w, w*⟩ the signed output is
        c(s + γ/2) + ‖w − c w*‖·N(0, 1), so the risk is E_s Φ(−c(s + γ/2)/‖w − c w*‖)."""
        along = weights @ data.truth
        across = jnp.sqrt(jnp.maximum(jnp.sum(weights**2) - along**2, jnp.finfo(weights.dtype).tiny))
        nodes, mass = np.polynomial.legendre.leggauss(200)
        s, mass = (
            5.0 * (nodes + 1),
            5.0 * mass * 2 * np.exp(-((5.0 * (nodes + 1)) ** 2) / 2) / np.sqrt(2 * np.pi),
        )
        risk = jnp.sum(jnp.asarray(mass, weights.dtype) * norm.cdf(-along * (s + self.margin / 2) / across))
        return jnp.where(jnp.any(weights != 0), risk, 0.5)

    def test_metrics(self, model: Model, params: PyTree[Array], data: Data) -> dict[str, Array]:
        metrics = super().test_metrics(model, params, data)
        if isinstance(model, LinearModel):
            metrics["test_accuracy"] = 1 - self.population_risk(model.weights(params), data)
        return metrics
