"""Which column of a log is time, training and test: told by their names."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from afterfit._base.errors import SpecError

__all__ = ["Columns", "guess_columns", "read_as"]

_METRICS = {"accuracy": "accuracy", "acc": "accuracy", "error": "error", "err": "error", "loss": "loss"}
_SIDES = {
    "train": ("train", "training", ""),  # Keras writes `accuracy` beside `val_accuracy`
    "test": ("test", "val", "valid", "validation", "eval"),
}
_TIMES = ("step", "steps", "iteration", "iterations", "iter", "epoch", "epochs", "t", "time")
_WHERE = ("", "epoch", "step")  # Lightning writes `train_loss_epoch` beside `train_loss_step`


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns to judge, the training loss beside accuracies (to tell divergence), and what was left aside."""

    time: str
    train: str
    test: str
    loss: str | None
    left: tuple[str, ...]

    def __str__(self) -> str:
        taken = f"{self.time!r} is time, {self.train!r} is train, {self.test!r} is test"
        return taken + (f"; left aside: {', '.join(map(repr, self.left))}." if self.left else ".")


def guess_columns(
    names: Sequence[str], *, time: str | None = None, train: str | None = None, test: str | None = None
) -> Columns:
    """The columns by their names, however they are written; what is given is kept.

    Accuracies are preferred to errors, and errors to losses, but training and test are of one kind if that can be:
    a loss may go on changing where the accuracy says that nothing happens, and the other way round.
    """
    times = _times(names)
    metrics = {side: _metrics(names, side) for side in _SIDES}
    kinds = dict.fromkeys(_METRICS.values())
    given = {"train": train, "test": test}
    both = [kind for kind in kinds if all(given[side] or kind in metrics[side] for side in _SIDES)]
    for side, other in (("train", "test"), ("test", "train")):
        like = _metric(given[other] or "")
        order = [like, *both, *kinds]
        given[side] = given[side] or next((metrics[side][kind][0] for kind in order if kind in metrics[side]), None)
    chosen = {"time": time or next(iter(times), None), **given}
    for role, column in chosen.items():
        if column is None:
            raise SpecError(f"cannot tell which column is {role}: name it with --{role}, one of: {', '.join(names)}.")
    judged = read_as(str(chosen["train"]))
    loss = metrics["train"].get("loss", [None])[0] if judged == "accuracy" else None
    known = {*times, *(column for side in metrics.values() for columns in side.values() for column in columns)}
    left = tuple(column for column in names if column in known - set(chosen.values()))
    return Columns(str(chosen["time"]), str(chosen["train"]), str(chosen["test"]), loss, left)


def read_as(column: str) -> str | None:
    """Whether a column is an error or an accuracy, by its name; None if that does not say."""
    kind = _metric(column)
    return "error" if kind == "loss" else kind


def _words(column: str) -> list[str]:
    """`train/acc`, `trainAcc` and `Train acc` are all train, acc."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", column)]


def _metric(column: str) -> str | None:
    """What a column measures, by the last of its words that says it: `train_accum_loss` is a loss."""
    return next((_METRICS[word] for word in reversed(_words(column)) if word in _METRICS), None)


def _times(names: Sequence[str]) -> list[str]:
    plain = {column: [word for word in _words(column) if word not in ("global", "total")] for column in names}
    return [column for word in _TIMES for column, words in plain.items() if words == [word]]


def _metrics(names: Sequence[str], side: str) -> dict[str, list[str]]:
    """The columns of one side by what they measure, the likeliest first."""
    found: dict[str, list[str]] = {}
    for where in _WHERE:
        for word in _SIDES[side]:
            for column in names:
                words = set(_words(column)) - {where}
                kind = _metric(column)
                if kind and words - _METRICS.keys() == ({word} - {""}) and column not in found.setdefault(kind, []):
                    found[kind].append(column)
    return {kind: columns for kind, columns in found.items() if columns}
