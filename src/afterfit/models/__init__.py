"""Models, each stating its degree of homogeneity. A new one is a subclass of `Model` with two methods."""

from afterfit.models._base import LeastNorm, LinearModel, Model, Parameter
from afterfit.models.linear import DiagonalNet, DiagonalProduct, Linear
from afterfit.models.matrix import DeepMatrixFactorisation, MatrixFactorisation, SymmetricFactorisation
from afterfit.models.network import MLP, EmbeddingMLP
from afterfit.models.wrap import Difference, Function, Tangent

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
