"""What counts as fitted and as generalised: a task states it, diagnosis uses it."""

from __future__ import annotations

import dataclasses

import numpy as np

from afterfit._base.errors import nearest, require
from afterfit._diagnose.words import number

__all__ = ["Criteria", "Threshold"]


@dataclasses.dataclass(frozen=True)
class Threshold:
    """When a curve is good enough.

    `like` is `"error"` (small is good: errors and losses) or `"accuracy"` (large is good); `value` is the level
    the curve has to reach.

    ```python
    Criteria(train=Threshold("accuracy", 0.99), test=Threshold("error", 1e-4))
    ```
    """

    like: str
    value: float

    def __post_init__(self):
        kinds = ("accuracy", "error")
        require(
            self.like in kinds,
            f"a curve is like an 'error' or an 'accuracy', not {self.like!r}: {nearest(str(self.like), kinds)}",
        )
        require(np.isfinite(self.value), f"a threshold must be a finite number, got {self.value!r}.")

    @property
    def ceiling(self) -> float:
        """The perfect accuracy: 1, or 100 where `value` exceeds 1 and so is in percent."""
        return 1.0 if self.value <= 1 else 100.0


@dataclasses.dataclass(frozen=True)
class Criteria:
    """The thresholds of the training and of the test curve."""

    train: Threshold
    test: Threshold

    def __str__(self) -> str:
        """How each curve is read and what it has to reach."""
        words = [
            f"{name} is read as an {t.like}, {done} at {'≤' if t.like == 'error' else '≥'} {number(t.value)}"
            for name, t, done in (("train", self.train, "fitted"), ("test", self.test, "generalised"))
        ]
        return "; ".join(words) + "."

    @classmethod
    def errors(cls, fit: float, generalise: float) -> Criteria:
        """For error-like curves: fitted at train ≤ `fit`, generalised at test ≤ `generalise`."""
        return cls(Threshold("error", fit), Threshold("error", generalise))

    @classmethod
    def accuracies(cls, fit: float = 0.99, generalise: float = 0.95) -> Criteria:
        """For accuracies: fitted at train ≥ `fit`, generalised at test ≥ `generalise`."""
        return cls(Threshold("accuracy", fit), Threshold("accuracy", generalise))

    def at(self, *, fit: float | None = None, generalise: float | None = None) -> Criteria:
        """These with other levels, where given: of accuracies, fractions. Those no curve can meet, or every one, are
        refused.
        """
        train = self.train if fit is None else Threshold(self.train.like, fit)
        test = self.test if generalise is None else Threshold(self.test.like, generalise)
        for name, threshold in (("fit", train), ("generalise", test)):
            if threshold.like == "error":
                require(threshold.value >= 0, f"no error is below 0: {name} must be 0 or more, got {threshold.value}.")
            else:
                require(
                    0 < threshold.value <= 1,
                    f"accuracies are fractions here: {name} must be between 0 and 1, such as 0.99, "
                    f"got {threshold.value}.",
                )
        return Criteria(train, test)
