"""Tasks whose truth is a low-rank matrix: completion and sensing."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from afterfit._base.errors import require
from afterfit._base.spec import later
from afterfit._diagnose.thresholds import Criteria
from afterfit.losses import Loss, Squared
from afterfit.models import LinearModel, Model
from afterfit.models._inputs import Entries, Signature
from afterfit.tasks._base import Data, Task, check_choice, check_positive, share_of

__all__ = ["MatrixCompletion", "MatrixSensing"]


class _MatrixTask(Task):
    """A rank-r truth and how it is drawn.

    `truth` is `"gaussian"` (a product of standard Gaussian factors), `"orthogonal"` (the random orthogonal model
    with singular values 1/√rank, Notsawo et al. 2025, Def. G.6) or `"multiplication_table"` (ij/d², rank 1,
    Lyu et al. 2023, §3.3.3). `symmetric` makes it symmetric. With a `size` it is rescaled to that Frobenius norm.
    """

    rows: int
    columns: int
    rank: int
    truth: str = eqx.field(default="gaussian", kw_only=True)
    symmetric: bool = eqx.field(default=False, kw_only=True)
    coherence: float = eqx.field(default=0.0, kw_only=True)
    reduction: str = eqx.field(default="sum", kw_only=True)
    size: float | None = later(None)

    def __check_init__(self):
        check_positive(rows=self.rows, columns=self.columns)
        if self.size is not None:
            check_positive(size=self.size)
        smallest = min(self.rows, self.columns)
        require(
            1 <= self.rank <= smallest,
            f"the rank of a {self.rows} x {self.columns} matrix is between 1 and {smallest}, got {self.rank}.",
        )
        check_choice("truth", self.truth, ("gaussian", "orthogonal", "multiplication_table"))
        square_only = self.symmetric or self.truth == "multiplication_table"
        require(
            not square_only or self.rows == self.columns,
            f"a symmetric matrix is square, got {self.rows} x {self.columns}.",
        )
        require(
            self.truth != "multiplication_table" or self.rank == 1,
            f"the multiplication table ij/d² has rank 1, got rank={self.rank}.",
        )
        require(0 <= self.coherence <= 1, f"coherence must be between 0 and 1, got {self.coherence}.")
        Squared(self.reduction)

    @property
    def signature(self) -> Signature:
        return Signature((self.rows, self.columns))

    @property
    def loss(self) -> Loss:
        return Squared(self.reduction)

    @property
    def criteria(self) -> Criteria:
        return Criteria.errors(fit=1e-1, generalise=1e-1)

    def draw_factors(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Factors U*, V* of the truth U*V*ᵀ."""
        m, n, r = self.rows, self.columns, self.rank
        if self.truth == "multiplication_table":
            U = V = np.arange(m)[:, None] / m
        else:
            U, V = rng.standard_normal((m, r)), rng.standard_normal((n, r))
        if self.truth == "orthogonal":
            U, V = (_orthonormal(factor) / np.sqrt(np.sqrt(r)) for factor in (U, V))
        if self.symmetric:
            V = U
        if self.size is None:
            return U, V
        share = np.sqrt(self.size / np.linalg.norm(U @ V.T))
        return share * U, share * V

    def test_metrics(self, model: Model, params: PyTree[Array], data: Data) -> dict[str, Array]:
        metrics = super().test_metrics(model, params, data)
        if isinstance(model, LinearModel):
            # ‖W − M*‖_F/‖M*‖_F over all entries, observed or not (Boursier et al. 2025, §5, "unmasked").
            metrics["test_error"] = self.score(model.weights(params), data.truth)
        return metrics


class MatrixCompletion(_MatrixTask):
    """Complete a low-rank matrix from some of its entries.

    `observed` is how many entries are seen (a whole number), or their share (a fraction below 1). With
    `coherence` τ, the first τN are those of highest leverage μᵢ + νⱼ and the others uniform
    (Notsawo et al. 2025, App. G.2.2). The loss is over the observed entries; `reduction` is `"sum"`
    (Boursier et al. 2025, (8)), `"mean"` (Lyu et al. 2023, (5)) or `"half_sum"` (Notsawo et al. 2025, §3.2).
    The test loss is the same loss over the entries not observed, the test error ‖W − M*‖_F/‖M*‖_F over all.

    ```python
    MatrixCompletion(rows=20, columns=20, rank=3, observed=0.5)
    ```
    """

    observed: float | int = 0.5

    def __check_init__(self):
        entries = self.rows * self.columns
        require(
            0 < self.count <= entries,
            f"observed must leave between 1 and {entries} entries of {self.rows} x {self.columns}, "
            f"got {self.observed}.",
        )

    @property
    def count(self) -> int:
        """How many entries are observed, N."""
        share = isinstance(self.observed, float) and self.observed < 1
        return share_of(self.observed, self.rows * self.columns) if share else int(self.observed)

    @property
    def numbers(self) -> int:
        return 5 * self.rows * self.columns  # the truth, two masks and two targets

    def draw(self, rng: np.random.Generator) -> Data:
        U, V = self.draw_factors(rng)
        M = U @ V.T
        leverage = leverage_scores(M, self.rank)
        by_leverage = np.argsort(-np.add.outer(*leverage).ravel(), kind="stable")
        chosen = by_leverage[: share_of(self.coherence, self.count)]
        rest = np.setdiff1d(np.arange(M.size), chosen)
        chosen = np.concatenate([chosen, rng.choice(rest, self.count - len(chosen), replace=False)])
        mask = np.zeros(M.size)
        mask[chosen] = 1
        mask = mask.reshape(M.shape)
        hidden = 1 - mask
        return Data(
            Entries(mask),
            mask * M,
            Entries(hidden),
            hidden * M,
            truth=M,
            n=self.count,
            n_test=max(M.size - self.count, 1),
        )

    def population_risk(self, weights: Array, data: Data) -> Float[Array, ""]:
        # The input distribution is uniform over entries (Lyu et al. 2023, §3.3.3).
        return jnp.mean((weights - data.truth) ** 2)


class MatrixSensing(_MatrixTask):
    """Recover a low-rank matrix from N linear measurements ⟨Xᵢ, M*⟩.

    `measurements` are `"gaussian"` (full matrices with N(0, 1/(rows·columns)) entries), `"rank_one"`
    (x⁽¹⁾x⁽²⁾ᵀ with N(0, 1/rows²) and N(0, 1/columns²) entries, the first ⌊coherence·N⌋ of them singular vectors
    of M*; Notsawo et al. 2025, App. G.2.2) or `"diagonal"` (commuting; Woodworth et al. 2020, §6). With
    `symmetric` they are symmetrised, as a map on symmetric matrices (Boursier et al. 2025, (26)). `variance` is that of
    the entries of both x⁽¹⁾ and x⁽²⁾, for `"rank_one"`: 1/N in the notebooks of Notsawo et al. 2025.

    ```python
    MatrixSensing(rows=10, columns=10, rank=2, N=70, truth="orthogonal", reduction="half_sum")
    ```
    """

    N: int = 70
    measurements: str = "gaussian"
    variance: float | None = later(None)

    def __check_init__(self):
        check_positive(N=self.N)
        if self.variance is not None:
            check_positive(variance=self.variance)
            require(
                self.measurements == "rank_one",
                f'variance={self.variance} is of measurements="rank_one", not of {self.measurements!r}.',
            )
        check_choice("measurements", self.measurements, ("gaussian", "rank_one", "diagonal"))
        require(
            self.measurements != "diagonal" or self.rows == self.columns,
            f"diagonal measurements need a square matrix, got {self.rows} x {self.columns}.",
        )

    def draw_measurements(self, n: int, M: np.ndarray, coherence: float, rng: np.random.Generator) -> np.ndarray:
        """n measurement matrices."""
        rows, columns = M.shape
        if self.measurements == "gaussian":
            X = rng.standard_normal((n, rows, columns)) / np.sqrt(rows * columns)
        elif self.measurements == "diagonal":
            X = rng.standard_normal((n, rows))[:, :, None] * np.eye(rows)
        else:
            U, _, Vt = np.linalg.svd(M)
            spreads = M.shape if self.variance is None else 2 * (1 / np.sqrt(self.variance),)
            left, right = (rng.standard_normal((n, k)) / spread for k, spread in zip(M.shape, spreads, strict=True))
            coherent = share_of(coherence, n)
            left[: min(coherent, rows)] = U.T[: min(coherent, rows)]
            right[: min(coherent, columns)] = Vt[: min(coherent, columns)]
            X = left[:, :, None] * right[:, None, :]
        return (X + X.transpose(0, 2, 1)) / 2 if self.symmetric else X

    @property
    def numbers(self) -> int:
        return (self.N + 1000 + 1) * self.rows * self.columns  # measurements to train on and to test with, the truth

    def draw(self, rng: np.random.Generator) -> Data:
        U, V = self.draw_factors(rng)
        M = U @ V.T
        X, X_test = (self.draw_measurements(n, M, c, rng) for n, c in ((self.N, self.coherence), (1000, 0.0)))
        y, y_test = (np.tensordot(x, M, axes=2) for x in (X, X_test))
        return Data(X, y, X_test, y_test, truth=M, n=self.N, n_test=1000)

    def population_risk(self, weights: Array, data: Data) -> Float[Array, ""] | None:
        if self.measurements == "gaussian" and not self.symmetric:
            return jnp.mean((weights - data.truth) ** 2)
        return None


def _orthonormal(G: np.ndarray) -> np.ndarray:
    """Orthonormal columns, uniform among all such families if G is Gaussian: signs are those of G, not LAPACK's."""
    Q, R = np.linalg.qr(G)
    return Q * np.sign(np.diag(R))


def leverage_scores(M: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Local coherences μᵢ of the rows and νⱼ of the columns of a matrix (Notsawo et al. 2025, Def. G.9)."""
    U, _, Vt = np.linalg.svd(M, full_matrices=False)
    rows = M.shape[0] / rank * np.sum(U[:, :rank] ** 2, axis=1)
    columns = M.shape[1] / rank * np.sum(Vt[:rank] ** 2, axis=0)
    return rows, columns
