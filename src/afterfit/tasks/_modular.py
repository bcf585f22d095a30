"""Modular arithmetic: predict x₁ ∘ x₂ mod p from the pair."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from afterfit._base.errors import require
from afterfit._base.spec import later
from afterfit._diagnose.thresholds import Criteria
from afterfit.losses import Loss
from afterfit.models._inputs import OneHot, Signature
from afterfit.tasks._base import CLASS_LOSSES, Data, Task, check_choice, one_hot, share_of

__all__ = ["ModularArithmetic"]

_OPERATIONS = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b}


class ModularArithmetic(Task):
    """Learn a ∘ b mod p from a random share of all p² pairs (Lyu et al. 2023, §2).

    `form` is how a pair is shown: `"one_hot"`, the concatenation of two one-hot vectors (Lyu et al. 2023), or
    `"tokens"`, two symbols for an `EmbeddingMLP` (Notsawo et al. 2025, §2.1). `operation` is `"+"`, `"-"` or
    `"*"`. `loss_name` is `"cross_entropy"`, or `"squared"` with one-hot targets; accuracy judges both. Single precision
    unless asked otherwise.

    ```python
    ModularArithmetic(p=97, fraction=0.4)
    ```
    """

    p: int = 97
    fraction: float = 0.4
    operation: str = "+"
    form: str = "one_hot"
    precision: str = eqx.field(default="single", kw_only=True)
    loss_name: str = later("cross_entropy")

    def __check_init__(self):
        require(self.p >= 2, f"the modulus p must be 2 or more, got {self.p}.")
        require(
            0 < self.n < self.p**2,
            f"fraction is the share of the p²={self.p**2} pairs to train on, and must leave some on each side: "
            f"got {self.fraction}.",
        )
        check_choice("operation", self.operation, tuple(_OPERATIONS))
        check_choice("form", self.form, ("one_hot", "tokens"))
        check_choice("loss_name", self.loss_name, tuple(CLASS_LOSSES))

    @property
    def n(self) -> int:
        """How many pairs are trained on."""
        return share_of(self.fraction, self.p**2)

    @property
    def numbers(self) -> int:
        answer = self.p if self.loss_name == "squared" else 1
        return (2 + answer) * self.p**2  # pairs, as symbols and not written out, and their answers

    @property
    def signature(self) -> Signature:
        inputs = (2 * self.p,) if self.form == "one_hot" else (2,)
        return Signature(inputs, (self.p,), tokens=self.p)

    @property
    def loss(self) -> Loss:
        return CLASS_LOSSES[self.loss_name]("mean")

    @property
    def metric(self) -> str:
        return "accuracy"

    @property
    def criteria(self) -> Criteria:
        return Criteria.accuracies()

    def draw(self, rng: np.random.Generator) -> Data:
        a, b = np.divmod(np.arange(self.p**2), self.p)
        answers = _OPERATIONS[self.operation](a, b) % self.p
        if self.loss_name == "squared":
            answers = one_hot(answers, self.p)
        pairs = np.stack([a, b], axis=1)
        order = rng.permutation(self.p**2)
        # Sorted, since the full batch has no order and lookups of neighbouring rows are quicker.
        train, test = np.sort(order[: self.n]), np.sort(order[self.n :])
        inputs, test_inputs = (
            OneHot(pairs[which], self.p) if self.form == "one_hot" else pairs[which] for which in (train, test)
        )
        return Data(inputs, answers[train], test_inputs, answers[test], n=self.n, n_test=len(test))
