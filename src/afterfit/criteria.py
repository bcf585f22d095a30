"""What counts as fitted and as generalised: a task states it, diagnosis uses it."""

from __future__ import annotations

import dataclasses

import numpy as np

from afterfit.spec import nearest, require

__all__ = ["Criteria", "Threshold"]


@dataclasses.dataclass(frozen=True)
class Threshold:
    """When a curve is good enough.

    `like` is `"error"` (small is good: errors and losses) or `"accuracy"` (large is good); `value` is the level
    the curve has to reach.

    ```python
    Threshold("error", 1e-4).met([1.0, 1e-5])  # [False, True]
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

    def met(self, curve) -> np.ndarray:
        """Where `curve` has reached the threshold; never where it is not a number."""
        curve = np.asarray(curve, dtype=float)
        return curve <= self.value if self.like == "error" else curve >= self.value


@dataclasses.dataclass(frozen=True)
class Criteria:
    """The thresholds of the training and of the test curve."""

    train: Threshold
    test: Threshold

    @classmethod
    def errors(cls, fit: float, generalise: float) -> Criteria:
        """For error-like curves: fitted at train ≤ `fit`, generalised at test ≤ `generalise`."""
        return cls(Threshold("error", fit), Threshold("error", generalise))

    @classmethod
    def accuracies(cls, fit: float = 0.99, generalise: float = 0.95) -> Criteria:
        """For accuracies: fitted at train ≥ `fit`, generalised at test ≥ `generalise`."""
        return cls(Threshold("accuracy", fit), Threshold("accuracy", generalise))
