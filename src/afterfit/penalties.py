"""Penalties: what pulls on the parameters once the data are fitted.

The objective of a run is loss + strength · value(params). A penalty has a value, a subgradient, and where it
exists a proximal map. This is *coupled* weight decay: the penalty's gradient goes through the optimiser like
the loss's. *Decoupled* weight decay is not a penalty but part of an optimiser: `dynamics.AdamW(weight_decay=…)`.

A new penalty is a subclass of `Penalty` with `value`; `subgradient` is JAX's gradient of it unless you know
better, and `prox` is only needed for proximal descent and for flows across kinks. What else is known of it
(`smooth = True`, …) opens methods and theorems to it. Penalties add up: `L1(1e-5) + L2(1e-3)`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from afterfit._base.errors import SpecError, nearest, require
from afterfit._base.spec import Spec, later

if TYPE_CHECKING:
    from afterfit.models import Model
    from afterfit.tasks import Data

__all__ = ["L1", "L2", "ElasticNet", "Frobenius", "GroupLasso", "NoPenalty", "Nuclear", "Penalty", "Sobolev", "Sum"]


def __dir__() -> list[str]:
    return __all__


class Penalty(Spec):
    """A penalty h with a strength β ≥ 0: the objective is loss + β·h(params).

    What is known of h beside its values is for the class that writes `value` (or `subgradient`) to say:

    - `smooth`: whether h has a continuous gradient where the model has one. A flow that meets kinks is followed by
      other means, and a penalty that does not say it is smooth is taken to have some.
    - `degree`: h(c·params) = c^degree · h(params) for c > 0.
    - `norm`: `"l1"`, `"group"` (a sum of Euclidean norms of groups of entries) or `"nuclear"` where h is that norm, of
      the parameters or of the weights that they stand for.
    - `decay`: λ where β·h = ½λ‖θ‖², weight decay; 0 where there is no penalty.
    - `subgradient` and `prox`, where there is something better than JAX's gradient, and than nothing.
    """

    formula: ClassVar[tuple[str, ...]] = ("value", "subgradient", "bind", "weighted_value", "weighted_subgradient")
    capabilities: ClassVar[tuple[str, ...]] = (
        "smooth",
        "degree",
        "norm",
        "decay",
        "subgradient",
        "prox",
        "proximal",
        "parts",
    )

    smooth: ClassVar[bool] = False
    norm: ClassVar[str | None] = None

    strength: float

    def __check_init__(self):
        if isinstance(self.strength, float):  # not while JAX traces it
            require(self.strength >= 0, f"a penalty's strength must be 0 or more, got {self.strength}.")

    @property
    def weakest(self) -> float:
        """The smallest strength above 0 of what it is made of, or 0: its inverse is the slow time scale."""
        return float(self.strength)

    @property
    def degree(self) -> int | None:
        """The degree of homogeneity of h; None if there is none, or any."""
        return None

    @property
    def decay(self) -> float | Array | None:
        """λ where β·h = ½λ‖θ‖², 0 where there is no penalty, None for any other."""
        return None

    @property
    def proximal(self) -> bool:
        """Whether there is a `prox`."""
        return type(self).prox is not Penalty.prox

    @property
    def parts(self) -> tuple[tuple[float | Array, Penalty], ...]:
        """What it is a sum of, each with a factor: Σ factor·(β·h of the part)."""
        return ((1.0, self),)

    @abc.abstractmethod
    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        """h(params), without the strength."""

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        """One element of ∂h(params), without the strength."""
        return jax.grad(self.value)(params)

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        """argmin over z of ½‖z − params‖² + step·h(z)."""
        raise SpecError(f"the penalty {type(self).__name__.lstrip('_')} has no proximal map: use GradientDescent.")

    def bind(self, model: Model, data: Data) -> Penalty:
        """The penalty on this model and these data; most do not look at them."""
        return self

    def weighted_value(self, params: PyTree[Array]) -> Float[Array, ""]:
        """β·h(params)."""
        return self.strength * self.value(params)

    def weighted_subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        """β·H(params), H a subgradient."""
        return jax.tree.map(lambda g: self.strength * g, self.subgradient(params))

    def weighted_prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        """The proximal map of step·β·h."""
        return self.prox(params, step * self.strength)

    def __add__(self, other: Penalty) -> Sum:
        return Sum(penalties=(self, other))


class NoPenalty(Penalty):
    """No penalty at all."""

    smooth = True

    strength: float = 0.0

    def __check_init__(self):
        require(
            not isinstance(self.strength, float) or self.strength == 0,
            f"there is no penalty that a strength of {self.strength} could be of: choose one, such as "
            f"penalty.kind=L2 with penalty.strength={self.strength}.",
        )

    @property
    def decay(self) -> float:
        return 0.0

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return jnp.zeros(())

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(jnp.zeros_like, params)

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        return params


class L1(Penalty):
    """‖θ‖₁, with subgradient sign(θ) and sign(0) = 0; its prox is soft thresholding."""

    norm = "l1"

    @property
    def degree(self) -> int:
        return 1

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return _total(jax.tree.map(lambda leaf: jnp.sum(jnp.abs(leaf)), params))

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(jnp.sign, params)

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: jnp.sign(leaf) * jnp.maximum(jnp.abs(leaf) - step, 0), params)


class L2(Penalty):
    """½‖θ‖₂², whose gradient is θ: weight decay."""

    smooth = True

    @property
    def degree(self) -> int:
        return 2

    @property
    def decay(self) -> float | Array:
        return self.strength

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return 0.5 * _total(jax.tree.map(lambda leaf: jnp.sum(leaf**2), params))

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        return params

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: leaf / (1 + step), params)


class ElasticNet(Penalty):
    """ρ‖θ‖₁ + ½(1 − ρ)‖θ‖₂², ρ = `l1_ratio` between 0 and 1 (Zou and Hastie 2005), as scikit-learn writes it.

    It is `L1(β·ρ) + L2(β·(1 − ρ))` with one strength to turn. The prox is soft thresholding, then shrinking.

    ```python
    ElasticNet(1e-3, l1_ratio=0.9)
    ```
    """

    l1_ratio: float = 0.5

    def __check_init__(self):
        if isinstance(self.l1_ratio, float):  # not while JAX traces it
            require(
                0 < self.l1_ratio < 1,
                f"ElasticNet.l1_ratio must lie between 0 and 1, got {self.l1_ratio}: for 0 use L2, for 1 use L1.",
            )

    @property
    def parts(self) -> tuple[tuple[float | Array, Penalty], ...]:
        return (self.strength * self.l1_ratio, L1(1.0)), (self.strength * (1 - self.l1_ratio), L2(1.0))

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return self.l1_ratio * L1(1.0).value(params) + (1 - self.l1_ratio) * L2(1.0).value(params)

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: self.l1_ratio * jnp.sign(leaf) + (1 - self.l1_ratio) * leaf, params)

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        return L2(1.0).prox(L1(1.0).prox(params, step * self.l1_ratio), step * (1 - self.l1_ratio))


class _Groups(Penalty):
    """Σ ‖θ_G‖₂ over groups G of parameters; a subclass says of each array which groups it falls into."""

    norm = "group"

    @property
    def degree(self) -> int:
        return 1

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return _total(jax.tree.map(lambda leaf: jnp.sum(self._lengths(leaf)), params))

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        return self._scaled(params, lambda length: 1 / jnp.where(length > 0, length, 1.0))

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        return self._scaled(params, lambda length: jnp.where(length > step, 1 - step / jnp.maximum(length, step), 0.0))

    def _scaled(self, params: PyTree[Array], factor: Callable[[Array], Array]) -> PyTree[Array]:
        """Every group times a function of its length."""

        def of_array(leaf: Array) -> Array:
            return (factor(self._lengths(leaf))[:, None] * self._groups(leaf)).reshape(leaf.shape)

        return jax.tree.map(of_array, params)

    def _lengths(self, leaf: Array) -> Float[Array, " groups"]:
        squares = jnp.sum(self._groups(leaf) ** 2, axis=1)
        there = squares > 0  # the root of 0 has no derivative, and 0 would be multiplied by infinity
        return jnp.where(there, jnp.sqrt(jnp.where(there, squares, 1.0)), 0.0)

    @abc.abstractmethod
    def _groups(self, leaf: Array) -> Float[Array, "groups size"]:
        """The groups of an array, one a row."""


class GroupLasso(_Groups):
    """Σ ‖θ_G‖₂ over groups G of parameters, which are 0 together or not at all (Yuan and Lin 2006).

    A group is a row of a matrix: in weights of shape (outputs, inputs), as `MLP` has them, what comes into one unit. Of
    arrays with more axes it is all that belongs to one place of the first. A vector falls into groups of `size`
    consecutive entries; with the default of 1 each is a group of its own, so that biases are under an L1 penalty.
    Groups are not weighted: where sizes differ, Yuan and Lin multiply each norm by √size, and here a large group costs
    no more than a small one.

    The subgradient is θ_G/‖θ_G‖, and 0 where a group is 0; the prox shortens every group by the step, to 0 at most.

    ```python
    GroupLasso(1e-3, size=5)  # for models.Linear on vectors: 5 weights at a time
    ```
    """

    size: int = 1

    def __check_init__(self):
        require(self.size >= 1, f"GroupLasso.size must be 1 or more entries of a vector, got {self.size}.")

    def _groups(self, leaf: Array) -> Float[Array, "groups size"]:
        if leaf.ndim >= 2:
            return leaf.reshape(leaf.shape[0], -1)
        size = self.size if leaf.ndim else 1
        require(
            leaf.size % size == 0,
            f"GroupLasso has groups of {self.size} entries, and a vector of {leaf.size} parameters does not fall into "
            f"such: choose a size that divides {leaf.size}.",
        )
        return leaf.reshape(-1, size)


class Frobenius(_Groups):
    """Σ ‖W‖_F over the arrays of parameters, each norm by itself and *not* squared.

    What the networks of Notsawo et al. 2025 (Figs 1, 2, 10, 30–33) have for an ℓ₂ penalty, by their code: β·W/‖W‖_F
    pulls a layer with the same force however long it is, where weight decay (`L2`) pulls with β·W. A vector of biases
    is an array too. The subgradient is 0 where an array is; the prox shortens every array by the step, to 0 at most.

    ```python
    Frobenius(1e-5)
    ```
    """

    def _groups(self, leaf: Array) -> Float[Array, "groups size"]:
        return leaf.reshape(1, -1)


class Nuclear(Penalty):
    """The nuclear norm ‖A‖_* (the sum of the singular values).

    `of="parameters"` sums it over all matrices among the parameters (Notsawo et al. 2025, App. H.3), which for
    `models.Linear` is the norm of the matrix itself (§3.2); `of="weights"` takes it of the matrix that a
    factorised model stands for, ‖UVᵀ‖_*. The subgradient is UVᵀ from the singular value decomposition, over
    the singular values that are not 0; the prox is singular value thresholding. Vectors among the parameters
    (biases) are left alone.
    """

    norm = "nuclear"

    of: str = "parameters"

    def __check_init__(self):
        kinds = ("parameters", "weights")
        require(self.of in kinds, f"unknown Nuclear.of {self.of!r}: {nearest(self.of, kinds)}")

    @property
    def degree(self) -> int | None:
        return 1 if self.of == "parameters" else None  # that of the weights: known once it is bound to a model

    def bind(self, model: Model, data: Data) -> Penalty:
        if self.of == "parameters":
            return self
        require(
            hasattr(model, "weights"),
            f"the nuclear norm of the weights needs a model of a matrix, not {type(model).__name__}.",
        )
        return _NuclearOfWeights(strength=self.strength, model=model)

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        matrices = [leaf for leaf in jax.tree.leaves(params) if jnp.ndim(leaf) == 2]
        require(
            bool(matrices),
            "Nuclear needs a matrix among the parameters, and this model has none: use L1 or L2.",
        )
        return _total([jnp.sum(jnp.linalg.svd(matrix, compute_uv=False)) for matrix in matrices])

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: _polar(leaf) if leaf.ndim == 2 else jnp.zeros_like(leaf), params)

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        return jax.tree.map(lambda leaf: _thresholded(leaf, step) if leaf.ndim == 2 else leaf, params)


def _polar(A: Float[Array, "m n"]) -> Float[Array, "m n"]:
    """UVᵀ of A = USVᵀ, over the singular values that are not zero to rounding.

    The directions of the others may take any weight in [-1, 1]: 0 is the least-norm choice, as sign(0) = 0 is for L1.
    """
    zero = max(A.shape) * jnp.finfo(A.dtype).eps  # over the largest singular value
    if A.dtype == jnp.float32 and max(A.shape) >= 3 * min(A.shape) and jax.config.read("jax_enable_x64"):
        # (AAᵀ)^(-1/2) A, which squares singular values: in double precision it costs no digit of single precision, and
        # for a long matrix it takes half to four fifths of the time of its singular vectors.
        wide = A.astype(jnp.float64) if A.shape[0] <= A.shape[1] else A.T.astype(jnp.float64)
        λ, Q = jnp.linalg.eigh(wide @ wide.T)
        keep = λ > λ[-1] * zero**2
        polar = (Q * jnp.where(keep, 1 / jnp.sqrt(jnp.where(keep, λ, 1.0)), 0.0)) @ (Q.T @ wide)
        return (polar if A.shape[0] <= A.shape[1] else polar.T).astype(A.dtype)
    U, s, Vt = jnp.linalg.svd(A, full_matrices=False)
    return (U * (s > s[0] * zero)) @ Vt


@jax.custom_jvp
def _thresholded(A: Float[Array, "m n"], step: float | Float[Array, ""]) -> Float[Array, "m n"]:
    """A with its singular values made smaller by `step`, to 0 at most."""
    U, s, Vt = jnp.linalg.svd(A, full_matrices=False)
    return (U * jnp.maximum(s - step, 0)) @ Vt


@_thresholded.defjvp
def _thresholded_jvp(primals: tuple[Array, Any], tangents: tuple[Array, Any]) -> tuple[Array, Array]:
    """In closed form: JAX's derivative of singular vectors is no number where singular values are equal, or 0."""
    (A, step), (E, d_step) = primals, tangents
    if A.shape[0] < A.shape[1]:
        value, change = _thresholded_jvp((A.T, step), (E.T, d_step))
        return value.T, change.T
    U, s, Vt = jnp.linalg.svd(A, full_matrices=False)
    f, kept = jnp.maximum(s - step, 0), s > step
    # (f(sᵢ) − f(sⱼ))/(sᵢ − sⱼ) and (f(sᵢ) + f(sⱼ))/(sᵢ + sⱼ), without dividing by 0.
    one = kept[:, None] != kept
    differences = jnp.where(
        one, (f[:, None] + f) / jnp.where(one, jnp.abs(s[:, None] - s), 1.0), (kept[:, None] & kept).astype(s.dtype)
    )
    sums = s[:, None] + s
    means = (f[:, None] + f) / jnp.where(sums > 0, sums, 1.0)
    inside = U.T @ E @ Vt.T
    rotated = (differences * (inside + inside.T) + means * (inside - inside.T)) / 2 - d_step * jnp.diag(kept * 1.0)
    outside = (E @ Vt.T - U @ inside) * (f / jnp.where(s > 0, s, 1.0))
    return (U * f) @ Vt, (U @ rotated + outside) @ Vt


class _NuclearOfWeights(Penalty):
    norm = "nuclear"

    model: Any

    @property
    def degree(self) -> int | None:
        return self.model.degree

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return Nuclear(1.0).value(self.model.weights(params))

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        weights, pull_back = jax.vjp(self.model.weights, params)
        return pull_back(Nuclear(1.0).subgradient(weights))[0]


class Sobolev(Penalty):
    """How far the model's slopes at the training inputs are from the teacher's (Notsawo et al. 2025, §4).

    `form="mean_square"` is (1/N) Σᵢ ‖∂f/∂x(xᵢ) − ∂f*/∂x(xᵢ)‖_F², their (125). `form="norm"` is √(Σᵢ ‖·‖_F²), the norm
    of all differences together, neither squared nor divided by N, which is what their code has: it pulls with the same
    force however small the differences are. Its gradient is taken to be 0 where they are all 0.

    Needs a task that knows the slopes of its teacher: `tasks.TeacherStudent`.

    ```python
    Sobolev(1e-3, form="norm")
    ```
    """

    form: str = later("mean_square")

    def __check_init__(self):
        kinds = ("mean_square", "norm")
        require(self.form in kinds, f"unknown Sobolev.form {self.form!r}: {nearest(self.form, kinds)}")

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.form == "mean_square"  # where the model's slopes are

    def bind(self, model: Model, data: Data) -> Penalty:
        require(
            data.slopes is not None,
            "Sobolev compares the model's slopes with the teacher's, and this task knows none: "
            "use tasks.TeacherStudent.",
        )
        return _BoundSobolev(self.strength, model, data.inputs, data.slopes, self.form)

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        raise SpecError("Sobolev depends on the model and the data: call bind(model, data) first, as train does.")


class _BoundSobolev(Penalty):
    model: Any
    inputs: Any
    slopes: Any
    form: str

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.form == "mean_square"  # where the model's slopes are

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        def slope(x: Float[Array, " d"]) -> Float[Array, "c d"]:
            return jax.jacobian(lambda x: self.model(params, x[None])[0])(x)

        slopes = jax.vmap(slope)(self.inputs)
        squares = jnp.sum((slopes.reshape(self.slopes.shape) - self.slopes) ** 2)
        return _root(squares) if self.form == "norm" else squares / self.slopes.shape[0]


def _root(squares: Float[Array, ""]) -> Float[Array, ""]:
    """√squares; at 0, where that has no derivative, one of 0."""
    there = squares > 0
    return jnp.where(there, jnp.sqrt(jnp.where(there, squares, 1.0)), 0.0)


class Sum(Penalty):
    """A sum of penalties, each with its own strength; `strength` multiplies them all."""

    strength: float = 1.0
    penalties: tuple[Penalty, ...] = ()

    def __check_init__(self):
        require(len(self.penalties) >= 1, "a Sum needs at least one penalty.")

    def bind(self, model: Model, data: Data) -> Penalty:
        return Sum(self.strength, tuple(penalty.bind(model, data) for penalty in self.penalties))

    @property
    def weakest(self) -> float:
        return float(self.strength) * min((p.weakest for p in self.penalties if p.weakest > 0), default=0.0)

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return all(penalty.smooth for penalty in self.penalties)

    @property
    def degree(self) -> int | None:
        degrees = {penalty.degree for penalty in self.penalties}
        return degrees.pop() if len(degrees) == 1 else None

    @property
    def decay(self) -> float | Array | None:
        decays = [factor * part.decay for factor, part in self.parts if part.decay is not None]
        return sum(decays, start=0.0) if len(decays) == len(self.parts) else None

    @property
    def parts(self) -> tuple[tuple[float | Array, Penalty], ...]:
        return tuple((self.strength * factor, part) for p in self.penalties for factor, part in p.parts)

    @property
    def proximal(self) -> bool:
        _, norms = self._decays_and_norms()
        known = len(norms) <= 1 or [part.norm for _, part in norms] == ["l1", "group"]
        return known and all(part.degree == 1 and part.proximal for _, part in norms)

    def _decays_and_norms(self) -> tuple[list[tuple[Any, Penalty]], list[tuple[Any, Penalty]]]:
        """Its parts: those that are weight decay, and the others, L1 first; without the strength of the whole."""
        parts = [pair for penalty in self.penalties for pair in penalty.parts]
        others = _norms_once([pair for pair in parts if pair[1].decay is None])
        return [pair for pair in parts if pair[1].decay is not None], sorted(others, key=lambda p: p[1].norm != "l1")

    def value(self, params: PyTree[Array]) -> Float[Array, ""]:
        return _total([penalty.weighted_value(params) for penalty in self.penalties])

    def subgradient(self, params: PyTree[Array]) -> PyTree[Array]:
        parts = [penalty.weighted_subgradient(params) for penalty in self.penalties]
        return jax.tree.map(lambda *gs: _total(list(gs)), *parts)

    def prox(self, params: PyTree[Array], step: float | Float[Array, ""]) -> PyTree[Array]:
        require(
            self.proximal,
            "the proximal map of a sum is known for L1, GroupLasso, L1 + GroupLasso, or another norm with a prox, "
            "each with or without L2: use GradientDescent.",
        )
        # Soft thresholding, then shortening groups (Yu 2013, "On decomposing the proximal map"). Weight decay last: the
        # prox of a norm commutes with scaling, so that of norm + ½λ‖θ‖² is the norm's, divided by 1 + step·λ.
        decays, norms = self._decays_and_norms()
        for factor, part in norms:
            params = part.weighted_prox(params, step * factor)
        decay = sum(factor * part.decay for factor, part in decays)
        return jax.tree.map(lambda leaf: leaf / (1 + step * decay), params) if decays else params


def _norms_once(parts: list[tuple[Any, Penalty]]) -> list[tuple[Any, Penalty]]:
    """The same parts, with those that are multiples of one norm as one."""
    found: list[tuple[Any, Penalty]] = []
    for factor, part in parts:
        alone = part.replace(strength=1.0)
        same = [place for place, (_, other) in enumerate(found) if part.norm and other.replace(strength=1.0) == alone]
        if same:
            before, other = found[same[0]]
            found[same[0]] = (before * other.strength + factor * part.strength, alone)
        else:
            found.append((factor, part))
    return found


def _total(values: PyTree[Array]) -> Array:
    leaves = jax.tree.leaves(values)
    total = leaves[0]
    for leaf in leaves[1:]:
        total = total + leaf
    return total
