"""Initialisations: scale, shape, and where a paper asks for it, zero output.

`scale` multiplies everything and is the α of the papers. `seed` draws the initialisation from a seed of its
own, so that it can change while the data stay; without it the run's seed decides both.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from afterfit._base.definitions import digest_of_arrays
from afterfit._base.errors import nearest, require
from afterfit._base.files import leaves_by_place
from afterfit._base.spec import Spec
from afterfit.models import Model, Parameter
from afterfit.models._wrap import held_params, said_of_params

__all__ = [
    "Constant",
    "EmbeddingsApart",
    "EndOf",
    "From",
    "Gaussian",
    "He",
    "Identity",
    "Init",
    "Own",
    "ScaledGaussian",
    "ScaledLastLayer",
    "Symmetrised",
    "Uniform",
    "ZeroLastLayer",
]


def __dir__() -> list[str]:
    return __all__


class Init(Spec):
    """Initial parameters. A new one is a subclass with `draw`, which gives values to one array."""

    seed: int | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self):
        require(
            self.seed is None or 0 <= self.seed < 2**63,
            f"init.seed must be a whole number, 0 or more and below 2^63, got {self.seed}.",
        )

    @property
    def past(self) -> Any:
        """The run that one which starts here goes on from; mostly none."""
        return None

    def holds(self, parameters: PyTree[Parameter]) -> bool:
        """Whether it has the values of exactly these arrays already; mostly it draws them."""
        return False

    @abc.abstractmethod
    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        """Values of one array of parameters."""

    def apply(self, model: Model, parameters: PyTree[Parameter], rng: np.random.Generator) -> PyTree[np.ndarray]:
        """Values of all arrays of `model`."""
        rng = self.stream(rng)
        return jax.tree.map(lambda parameter: self.draw(parameter, rng), parameters)

    def stream(self, rng: np.random.Generator) -> np.random.Generator:
        """The random numbers to draw from: the run's, or those of a seed of its own."""
        return rng if self.seed is None else np.random.default_rng(self.seed)


class Constant(Init):
    """All entries equal, or following a shape: w(0) = α·w₀ (Woodworth et al. 2020, §2).

    Give either `scale` (α: the entries are scale·shape) or `norm` (the Euclidean norm of all parameters
    together). `shape` is w₀, one number an entry of each array; all ones when not given.
    """

    scale: float | None = None
    norm: float | None = None
    shape: tuple[float, ...] | None = None

    def __check_init__(self):
        require(
            (self.scale is None) != (self.norm is None),
            f"Constant needs either a scale or a norm, got scale={self.scale} and norm={self.norm}.",
        )
        require(
            self.shape is None or all(w != 0 for w in self.shape),
            "Constant.shape must have no zero entry: a weight that starts at 0 never moves.",
        )

    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        shape = np.ones(parameter.shape)
        if self.shape is not None:
            require(
                shape.size == len(self.shape),
                f"Constant.shape has {len(self.shape)} entries, but the model's arrays have {shape.size}.",
            )
            shape = np.asarray(self.shape, dtype=float).reshape(parameter.shape)
        return shape if self.scale is None else self.scale * shape

    def apply(self, model: Model, parameters: PyTree[Parameter], rng: np.random.Generator) -> PyTree[np.ndarray]:
        params = super().apply(model, parameters, rng)
        if self.norm is None:
            return params
        norm = np.sqrt(sum(np.sum(leaf**2) for leaf in jax.tree.leaves(params)))
        return jax.tree.map(lambda leaf: leaf * (self.norm / norm), params)


class Gaussian(Init):
    """Every entry, biases too, from N(0, scale²)."""

    scale: float = 1.0

    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        return self.scale * rng.standard_normal(parameter.shape)


class ScaledGaussian(Init):
    """Entries from N(0, scale²/n₁), n₁ the first dimension of each array: the "normal initialisation" with
    scale ζ of Notsawo et al. 2025 (App. E and H.3)."""

    scale: float = 1.0

    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        return self.scale * rng.standard_normal(parameter.shape) / np.sqrt((parameter.shape or (1,))[0])


class He(Init):
    """He initialisation times `scale`: variance 2/fan-in for weights, zero for biases.

    `distribution` is `"normal"` (Lyu et al. 2023, §2) or `"uniform"` (Woodworth et al. 2020, App. B.2).
    """

    scale: float = 1.0
    distribution: str = "normal"

    def __check_init__(self):
        kinds = ("normal", "uniform")
        require(
            self.distribution in kinds,
            f"unknown distribution {self.distribution!r}: {nearest(self.distribution, kinds)}",
        )

    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        if parameter.bias:
            return np.zeros(parameter.shape)
        std = self.scale * np.sqrt(2 / parameter.fan_in)
        if self.distribution == "normal":
            return std * rng.standard_normal(parameter.shape)
        return np.sqrt(3) * std * rng.uniform(-1, 1, parameter.shape)


class Uniform(Init):
    """Entries uniform on ±scale/√fan-in, biases too: what PyTorch's linear layers start from."""

    scale: float = 1.0

    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        return self.scale / np.sqrt(parameter.fan_in) * rng.uniform(-1, 1, parameter.shape)


class Identity(Init):
    """scale·I, plus N(0, perturbation²) on every entry (Lyu et al. 2023, Cor. 3.11 and Thm 3.12)."""

    scale: float = 1.0
    perturbation: float = 0.0

    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        require(
            len(parameter.shape) == 2,
            f"Identity initialises matrices, but a parameter has shape {parameter.shape}: use Constant.",
        )
        rows, columns = parameter.shape
        return self.scale * np.eye(rows, columns) + self.perturbation * rng.standard_normal(parameter.shape)


class Own(Init):
    """The model's own initial parameters (`Function.initial`, the weights of a `Sequential`) times `scale`."""

    scale: float = 1.0

    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        raise AssertionError("Own takes whole trees of parameters: see apply")

    def apply(self, model: Model, parameters: PyTree[Parameter], rng: np.random.Generator) -> PyTree[np.ndarray]:
        initial = getattr(model, "initial", None)
        require(
            initial is not None,
            f"{type(model).__name__} has no initial parameters of its own: give train() an init, "
            "such as af.inits.Gaussian(1.0).",
        )
        # In the shapes that they have on this task: () and (1,) are one layer (models.Sequential).
        return jax.tree.map(
            lambda leaf, here: self.scale * np.asarray(leaf, dtype=float).reshape(here.shape), initial, parameters
        )


class From(Init):
    """Given parameters, such as those that another run ended at: a tree of arrays as the model has them.

    ```python
    af.inits.From(run.params)
    ```
    """

    in_python_only: ClassVar[bool] = True

    params: PyTree

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "params", held_params(self.params))

    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        raise AssertionError("From takes whole trees of parameters: see apply")

    def holds(self, parameters: PyTree[Parameter]) -> bool:
        return _shapes(self.params) == _shapes(parameters)

    def apply(self, model: Model, parameters: PyTree[Parameter], rng: np.random.Generator) -> PyTree[np.ndarray]:
        given, wanted = _shapes(self.params), _shapes(parameters)
        require(
            given == wanted,
            f"From has parameters of shapes {given!r:.200}, but {type(model).__name__} has {wanted!r:.200} here.",
        )
        # By their places: what was read from a file has lists for tuples, and tables for classes.
        values = {place: np.array(leaf, dtype=float) for place, leaf in leaves_by_place(self.params).items()}
        return jax.tree.unflatten(jax.tree.structure(parameters), [values[place] for place in wanted])

    def to_dict(self) -> dict[str, Any]:
        """Shapes and a digest stand for the arrays, which a specification does not hold."""
        return {**self._said_of_it(), **said_of_params(self.params), **self._settings(but=("params",))}


def _shapes(tree: PyTree) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays of a tree by their places, in its order."""
    return {place: tuple(leaf.shape) for place, leaf in leaves_by_place(tree).items()}


class EndOf(Init):
    """Where another run has ended, to go on from there: what `af.train(..., start=run)` starts from.

    The clock goes on, the curves are those of both, and steps go on with what the optimiser remembers, if it is of the
    same kind. Task, model and seed are the run's own; penalty and dynamics may be others.

    ```python
    af.train(task=task, model=model, penalty=stronger, dynamics=dynamics, init=af.inits.EndOf(run))
    ```
    """

    in_python_only: ClassVar[bool] = True
    # 1 linearised a Tangent anew where a run goes on, and took an optimiser's memory for another's of the same shapes
    meaning: ClassVar[int] = 2

    run: Any

    def __check_init__(self):
        whole = all(hasattr(self.run, name) for name in ("params", "curves", "memory", "spec"))
        require(whole, f"EndOf takes a run, such as train() returns or load() reads, got {self.run!r:.60}.")

    @property
    def past(self) -> Any:
        return self.run

    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        raise AssertionError("EndOf takes whole trees of parameters: see apply")

    def holds(self, parameters: PyTree[Parameter]) -> bool:
        return From(self.run.params).holds(parameters)

    def apply(self, model: Model, parameters: PyTree[Parameter], rng: np.random.Generator) -> PyTree[np.ndarray]:
        return From(self.run.params).apply(model, parameters, rng)

    def to_dict(self) -> dict[str, Any]:
        """The run's name, when it ended, and digests of its parameters and of all that goes on with them."""
        if "_told" not in vars(self):  # once: a run does not change
            curves = self.run.curves
            kept = (*self.run.memory, *(curves[name].values for name in (*curves.coords, *curves.data_vars)))
            told = {
                "run": self.run.id,
                "time": float(curves["time"].values[-1]),
                **said_of_params(self.run.params),
                "past_sha256": digest_of_arrays(kept),
            }
            object.__setattr__(self, "_told", told)
        return {**self._said_of_it(), **vars(self)["_told"]}


class _Wrapper(Init):
    init: Init = Gaussian()

    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        return self.init.draw(parameter, rng)


class ZeroLastLayer(_Wrapper):
    """`init` with the last layer's weights set to 0, so that the output starts at zero (Lyu et al. 2023, §2)."""

    def apply(self, model: Model, parameters: PyTree[Parameter], rng: np.random.Generator) -> PyTree[np.ndarray]:
        return model.zero_last_layer(self.init.apply(model, parameters, self.stream(rng)))


class ScaledLastLayer(_Wrapper):
    """`init` with the last layer's weights times `factor`: with √½ and `He()`, the variance 1/fan-in of other codes."""

    factor: float = 1.0

    def apply(self, model: Model, parameters: PyTree[Parameter], rng: np.random.Generator) -> PyTree[np.ndarray]:
        whole = self.init.apply(model, parameters, self.stream(rng))
        others = model.zero_last_layer(whole)
        return jax.tree.map(lambda whole, other: other + self.factor * (whole - other), whole, others)


class Symmetrised(_Wrapper):
    """`init` with every unit copied with opposite output sign, so that the output starts at zero
    (Chizat et al. 2019; Woodworth et al. 2020, §3); for networks, to rounding."""

    def apply(self, model: Model, parameters: PyTree[Parameter], rng: np.random.Generator) -> PyTree[np.ndarray]:
        return model.symmetrise(self.init.apply(model, parameters, self.stream(rng)))


class EmbeddingsApart(_Wrapper):
    """`init` but for tables of embeddings, which are drawn by `table`, such as the default of PyTorch's linear layers.

    Both draw each array by itself, from this one's random numbers: what is made of all arrays goes around it, as in
    `ZeroLastLayer(EmbeddingsApart(Gaussian()))`.

    The start of the authors' code for Notsawo et al. 2025, Figs 1 and 2:

    ```python
    EmbeddingsApart(ScaledGaussian(), table=Uniform())
    ```
    """

    table: Init = Uniform()

    def __check_init__(self):
        for name, init in (("init", self.init), ("table", self.table)):
            around = isinstance(init, _Wrapper)
            other = (
                f"put it around, {init.kind}(EmbeddingsApart(...))" if around else "choose another, such as Gaussian()"
            )
            require(
                type(init).apply is Init.apply,
                f"EmbeddingsApart.{name} has to draw each array by itself, and {init.kind} makes something of all of "
                f"them: {other}.",
            )
            require(
                init.seed is None,
                f"EmbeddingsApart.{name} has a seed of its own, {init.seed}: give it to EmbeddingsApart.",
            )

    def draw(self, parameter: Parameter, rng: np.random.Generator) -> np.ndarray:
        return (self.table if parameter.table else self.init).draw(parameter, rng)
