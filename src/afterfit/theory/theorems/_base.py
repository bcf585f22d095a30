"""What a theorem is here: a sentence, assumptions with their numbers, and what it predicts of a run."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from afterfit import tangent
from afterfit.models import (
    MLP,
    DeepMatrixFactorisation,
    DiagonalNet,
    DiagonalProduct,
    EmbeddingMLP,
    Linear,
    MatrixFactorisation,
    SymmetricFactorisation,
)
from afterfit.run import Run
from afterfit.spec import SpecError
from afterfit.theory.clocks import Clock, Clocks, clock
from afterfit.theory.instance import Instance, instance_of
from afterfit.theory.kernel import MOST
from afterfit.theory.limits import Limits, limits
from afterfit.theory.stationarity import Stationarity, kkt

__all__ = ["Case", "Check", "Outcome", "Theorem", "seen", "smooth", "timed"]


@dataclasses.dataclass(frozen=True)
class Check:
    """One assumption on this instance: the number it comes to, and whether it holds (None: it cannot be told).

    What is not `needed` is worth knowing, but the theorem does without it.
    """

    name: str
    number: str
    holds: bool | None
    needed: bool = True


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a theorem predicts and what the run did."""

    predicts: str
    happened: str


class Case:
    """A run with what theory knows of it, each computed once."""

    def __init__(self, run: Run):
        self.run, self.instance = run, instance_of(run)

    @functools.cached_property
    def limits(self) -> Limits:
        return limits(self.run)

    @functools.cached_property
    def clocks(self) -> Clocks:
        return clock(self.run)

    @functools.cached_property
    def kkt(self) -> Stationarity | None:
        try:
            return kkt(self.instance.problem, self.instance.end)
        except SpecError:
            return None

    @functools.cached_property
    def kernel_values(self) -> np.ndarray | None:
        """Eigenvalues of the tangent kernel at the start, the least first."""
        if self.instance.targets.size > MOST or not self.instance.regression:
            return None
        return np.linalg.eigvalsh(np.asarray(tangent.kernel(self.instance.problem, self.instance.initial)))

    def near(self, name: str) -> Iterator[str]:
        """How far the run ended from a limit, in words, if it is known."""
        if name in self.limits:
            limit = self.limits[name]
            yield f"{limit.distance:.2g} from {name} (its test {self.run.metric} {limit.test:.3g})"


class Theorem(abc.ABC):
    """`name` is where it is found, `says` what it says in a sentence."""

    name: ClassVar[str]
    says: ClassVar[str]

    @abc.abstractmethod
    def obstacle(self, instance: Instance) -> str | None:
        """Why a run like this is not what it is about; None if it is."""

    @abc.abstractmethod
    def assumptions(self, case: Case) -> Iterator[Check]:
        """What it assumes, held against this instance."""

    @abc.abstractmethod
    def outcomes(self, case: Case) -> Iterator[Outcome]:
        """What it predicts here, and what happened."""


_POLYNOMIALS = (
    Linear,
    DiagonalNet,
    DiagonalProduct,
    MatrixFactorisation,
    SymmetricFactorisation,
    DeepMatrixFactorisation,
)


def smooth(instance: Instance, name: str) -> Check:
    """Whether the model is smooth in its parameters, under the name that the theorem gives to it."""
    model = instance.experiment.model
    if type(model) in _POLYNOMIALS:
        return Check(name, "a polynomial of the parameters", True)
    if isinstance(model, MLP | EmbeddingMLP):
        return Check(name, "ReLU has kinks", False)
    return Check(name, f"not known of {type(model).__name__}", None)


def timed(case: Case, *names: str) -> Iterator[Outcome]:
    """What some clocks predict, of those that apply."""
    for name in names:
        if name in case.clocks:
            told = case.clocks[name]
            sign = "of order" if told.claim == "order" else told.claim
            yield Outcome(f"{told.event} {sign} {told.prediction:.3g} ({name})", seen(told))


def seen(told: Clock) -> str:
    """What the run did of what a clock told."""
    if told.measured is None:
        return "not seen"
    what = "the test metric is half-way at" if told.event == "turn" else "at"
    return f"{what} {told.measured:.3g}, {told.ratio:.2g} of it"
