"""Models, each stating its degree of homogeneity. A new one is a subclass of `Model` with two methods."""

from afterfit.models._base import LeastNorm, LinearModel, Model, Parameter
from afterfit.models._linear import DiagonalNet, DiagonalProduct, Linear
from afterfit.models._matrix import DeepMatrixFactorisation, MatrixFactorisation, SymmetricFactorisation
from afterfit.models._network import MLP, EmbeddingMLP
from afterfit.models._wrap import Difference, Function, Tangent

__all__ = [
    "MLP",
    "DeepMatrixFactorisation",
    "DiagonalNet",
    "DiagonalProduct",
    "Difference",
    "EmbeddingMLP",
    "Function",
    "LeastNorm",
    "Linear",
    "LinearModel",
    "MatrixFactorisation",
    "Model",
    "Parameter",
    "SymmetricFactorisation",
    "Tangent",
]


def __dir__() -> list[str]:
    return __all__
