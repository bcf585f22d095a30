"""Tasks, each with its loss exactly as its paper writes it. A new one is a subclass of `Task`."""

from afterfit.models._inputs import Entries, OneHot, Signature
from afterfit.tasks._base import Data, Task
from afterfit.tasks._functions import CirclePoints, FourierRegression, ReLURegression, TeacherStudent
from afterfit.tasks._given import Arrays, Images
from afterfit.tasks._linear import MarginClassification, SparseClassification, SparseRecovery, SparseRegression
from afterfit.tasks._matrices import MatrixCompletion, MatrixSensing
from afterfit.tasks._modular import ModularArithmetic

__all__ = [
    "Arrays",
    "CirclePoints",
    "Data",
    "Entries",
    "FourierRegression",
    "Images",
    "MarginClassification",
    "MatrixCompletion",
    "MatrixSensing",
    "ModularArithmetic",
    "OneHot",
    "ReLURegression",
    "Signature",
    "SparseClassification",
    "SparseRecovery",
    "SparseRegression",
    "Task",
    "TeacherStudent",
]


def __dir__() -> list[str]:
    return __all__
