"""Criteria for curves of which nothing is known: what each is like, and what it has to reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from afterfit._base.errors import require
from afterfit._diagnose.scale import check_thresholds, finite, scale_of, within
from afterfit._diagnose.thresholds import Criteria, Threshold
from afterfit._diagnose.words import number

__all__ = ["guess_criteria"]


def guess_criteria(
    train: ArrayLike,
    test: ArrayLike,
    like: str | tuple[str | None, str | None] | None = None,
    fit: float | None = None,
    generalise: float | None = None,
) -> Criteria:
    """Criteria for curves of which nothing is known; print them to see what was guessed.

    What is given is used; the rest is guessed. `like` is `"error"` or `"accuracy"` for both curves, or a pair
    of these for train and test. Without it, a curve is an accuracy if it stays within [0, 1] and ends above
    its first value, or within [0, 100] and also passes 50; otherwise it is an error. Beside a training accuracy, a
    test curve whose values allow it is an accuracy too, whichever way it goes, since the test accuracy of a
    misgrokking run falls.

    An accuracy whose values exceed 1 (by more than rounding) is in percent. One that does not, beside one in
    percent, may be either: then its threshold has to be given. A threshold on the other scale is refused.

    Accuracies are fitted at 0.99 and generalised at 0.95 (99 and 95 in percent). Errors are fitted at 1 % of
    the first training error and generalised at 10 % of the first test error: looser, since a test error has a
    floor (noise, finite data) that a training error has not.

    ```python
    guess_criteria([2.3, 1e-4], [2.3, 0.1])  # errors: fitted at ≤ 0.023, generalised at ≤ 0.23
    ```
    """
    likes = (like, like) if like is None or isinstance(like, str) else like
    curves = {"train": finite(np.asarray(train, dtype=float)), "test": finite(np.asarray(test, dtype=float))}
    for name, values in curves.items():
        require(values.size > 0, f"the {name} curve has no finite value to guess its threshold from.")
    given = {"train": fit, "test": generalise}
    accuracy = _which_are_accuracies(curves, likes)
    scales = _scales({name: values for name, values in curves.items() if accuracy[name]}, given)
    found = []
    for (name, values), usual, share in zip(curves.items(), (0.99, 0.95), (0.01, 0.1), strict=True):
        if name in scales:
            level = given[name]
            found.append(Threshold("accuracy", usual * scales[name] if level is None else level))
        else:
            found.append(_threshold_of_error(name, values, given[name], share))
    check_thresholds({name: (curves[name], t) for name, t in zip(curves, found, strict=True)})
    return Criteria(*found)


def _which_are_accuracies(curves: Mapping[str, NDArray], likes: Sequence[str | None]) -> dict[str, bool]:
    """Whether each curve is an accuracy: as said, else by its values."""
    found: dict[str, bool] = {}
    for (name, values), like in zip(curves.items(), likes, strict=True):
        if like is not None:
            Threshold(like, 0.0)  # refuses an unknown word, naming the known ones
            found[name] = like == "accuracy"
            ceiling = 100 if scale_of(values) == 100 else 2
            require(
                like == "error" or within(values, ceiling),
                f"{name} is read as an accuracy, but goes from {number(values.min())} to {number(values.max())}: "
                "accuracies lie between 0 and 1, or 0 and 100.",
            )
            continue
        rises = np.median(values[-max(1, values.size // 10) :]) > values[0]
        beside = found.get("train") and within(values, max(1.0, curves["train"].max()))
        fraction, percent = within(values, 1), within(values, 100) and values.max() > 50  # no test loss rises so high
        found[name] = bool(beside or (rises and (fraction or percent)))
    return found


def _scales(accuracies: Mapping[str, NDArray], given: Mapping[str, float | None]) -> dict[str, float]:
    """1 or 100 for each accuracy: by its values, or where these allow both, as its threshold or the other curve."""
    plain = {name: scale_of(values) for name, values in accuracies.items()}
    scales: dict[str, float] = {}
    for name, scale in plain.items():
        level = given[name]
        if scale == 1 and 100 in plain.values():
            done = "fitted" if name == "train" else "generalised"
            require(
                level is not None,
                f"one accuracy is in percent, and {name} goes up to {number(accuracies[name].max())} only: in percent "
                f"too, or a fraction? Say at which accuracy it counts as {done}: in percent, such as 95, or as a "
                "fraction, such as 0.95.",
            )
            scales[name] = Threshold("accuracy", level or 0.0).ceiling
        else:
            scales[name] = scale or (100.0 if 100 in plain.values() else 1.0)
    return scales


def _threshold_of_error(name: str, values: NDArray, given: float | None, share: float) -> Threshold:
    if given is None:
        require(
            values[0] > 0,
            f"the first {name} error is {values[0]:g}, which gives no scale: say at which error "
            f"it counts as {'fitted' if name == 'train' else 'generalised'}.",
        )
        given = share * float(values[0])
    return Threshold("error", given)
