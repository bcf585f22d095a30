"""Logs from elsewhere: CSV files of runs, written in many ways, and spoilt in many others."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.nouns import choose
from fuzz.oracles import Fault, Refusal, demand, invoke, strict_json

__all__ = ["check", "draw"]

Rng = np.random.Generator
Columns = dict[str, Sequence[str]]

_TRAIN = {"accuracy": ("train_acc", "Train accuracy", "train/acc"), "error": ("train_loss", "train_error", "trainLoss")}
_TEST = {"accuracy": ("val_acc", "test_accuracy", "eval/acc"), "error": ("val_loss", "test_error", "valLoss")}
_CLOSE = 1e-6  # of times that were rescaled: they are printed with 17 digits and computed in logs


@dataclasses.dataclass(frozen=True)
class Writing:
    """How a log is written down."""

    separator: str = ","
    quote: bool = False
    mark: bool = False  # a byte-order mark
    newline: str = "\n"
    blank: bool = False  # an empty line at the end
    spaces: bool = False


@dataclasses.dataclass(frozen=True)
class Log:
    """Curves and how they are written; `other` is a second writing of the same, and `factor` another unit of time."""

    time: np.ndarray
    train: np.ndarray
    test: np.ndarray
    like: str
    names: tuple[str, str, str]
    writing: Writing
    other: Writing
    factor: float

    def __str__(self) -> str:
        return f"{self.like}, {self.writing}, then {self.other} and time x{self.factor:g}: {self.text()[:3000]!r}"

    def columns(self, factor: float = 1, scale: float = 1) -> Columns:
        """The cells by the names of their columns, in another unit of time or in percent."""
        curves = (self.time * factor, self.train * scale, self.test * scale)
        return {name: [repr(float(x)) for x in curve] for name, curve in zip(self.names, curves, strict=True)}

    def text(self) -> bytes:
        return _written(self.columns(), self.writing)


@dataclasses.dataclass(frozen=True)
class Spoilt:
    """A file, after somebody has been at it."""

    content: bytes
    how: tuple[str, ...]

    def __str__(self) -> str:
        return f"{' and '.join(self.how)}: {self.content[:3000]!r}"


def draw(rng: Rng, number: int) -> Log | Spoilt:
    log = _draw_log(rng)
    if rng.random() < 0.5:
        return log
    content, how = log.text(), []
    for _ in range(int(rng.integers(1, 4))):
        how.append(choose(rng, list(_SPOIL)))
        content = _SPOIL[how[-1]](content, rng)
    return Spoilt(content, tuple(how))


def check(case: Log | Spoilt, place: Path) -> None:
    if isinstance(case, Spoilt):
        verdict = _diagnose(place, case.content)
        demand(verdict == _diagnose(place, case.content), "another verdict the second time")
        return
    verdict = _diagnose(place, case.text())
    try:
        _check_others(case, verdict, place)
    except Refusal as refusal:
        raise Fault(f"taken in one form, refused in another: {refusal}") from None


def _check_others(case: Log, verdict: Mapping[str, Any], place: Path) -> None:
    """The same log in other forms has the same verdict."""
    plain = case.columns()
    beside = {"gpu_temperature": ["61"] * len(case.time), "wall_time": [repr(1.7e9 + t) for t in case.time]}
    for how, text in {
        "in another writing": _written(plain, case.other),
        "in another order of columns": _written(dict(reversed(plain.items())), case.writing),
        "beside columns of other things": _written(beside | plain, case.writing),
    }.items():
        other = _diagnose(place, text)
        demand(other == verdict, f"{how} the verdict is {_in_short(other)}, not {_in_short(verdict)}")
    alike = {"in another unit of time": (case.columns(factor=case.factor), case.factor)}
    if case.like == "accuracy":
        fading = [repr(2 / (1 + k)) for k in range(len(case.time))]
        if min(case.train.max(), case.test.max()) > 0.02:  # 1 beside 100 may be in percent or not, and is asked about
            alike["in percent"] = case.columns(scale=100), 1.0
        alike["with a rounding error"] = case.columns(scale=1 + 1e-9), 1.0
        alike["beside losses"] = {**plain, "train_loss": fading, "val_loss": fading}, 1.0
    for how, (columns, factor) in alike.items():
        _alike(verdict, _diagnose(place, _written(columns, case.writing)), factor, how)


def _diagnose(place: Path, content: bytes) -> dict[str, Any]:
    file = place / "log.csv"
    file.write_bytes(content)
    return strict_json(invoke("diagnose", "--json", str(file)))


def _alike(one: Mapping[str, Any], other: Mapping[str, Any], factor: float, how: str) -> None:
    """The same verdict at times that are `factor` apart."""
    said = f"{how} the verdict is {_in_short(other)}, not {_in_short(one)}"
    demand(one["kind"] == other["kind"], said)
    for name in ("t_fit", "t_gen"):
        a, b = one[name], other[name]
        demand((a is None) == (b is None) and (a is None or abs(a * factor - b) <= _CLOSE * abs(b)), said)


def _in_short(verdict: Mapping[str, Any]) -> str:
    return json.dumps({name: verdict[name] for name in ("kind", "t_fit", "t_gen")})


# ------------------------------------------------------------------------------------------------- grammar


def _draw_log(rng: Rng) -> Log:
    n = int(choose(rng, [5, 8, 12, 30, 100, 300]))
    time = choose(rng, [np.geomspace(1, 1e5, n), np.unique(np.geomspace(1, 1e6, n).round()), 1 + np.arange(n) * 50.0])
    tau = np.log10(time)
    like = choose(rng, ["accuracy", "error"])
    fit, gen = (float(rng.uniform(tau[0], 1.2 * tau[-1])) for _ in range(2))
    best, chance = float(choose(rng, [1.0, 1.0, 0.97, 0.8, 0.3])), float(choose(rng, [0.01, 0.1, 0.5]))
    train, test = _rise(tau, fit, chance, 1.0, rng), _rise(tau, gen, chance, best, rng)
    if rng.random() < 0.2:  # what was learnt is lost again
        test *= 1 - _rise(tau, float(rng.uniform(min(gen, tau[-1]), tau[-1])), 0.0, float(rng.uniform(0.1, 0.9)), rng)
    noise = float(choose(rng, [0, 0, 0.005, 0.03]))
    train, test = (np.clip(curve + noise * rng.standard_normal(time.size), 0, 1) for curve in (train, test))
    if like == "error":
        scale = float(np.exp(rng.normal(0, 2)))
        train, test = (scale * np.maximum(1 - curve, 1e-6) for curve in (train, test))
    names = (choose(rng, ["step", "epoch", "t", "Step"]), choose(rng, _TRAIN[like]), choose(rng, _TEST[like]))
    factor = float(choose(rng, [1e-3, 0.5, 2.0, 60.0, 1e4]))
    return Log(time, train, test, like, names, _draw_writing(rng), _draw_writing(rng), factor)


def _rise(tau: np.ndarray, middle: float, low: float, high: float, rng: Rng) -> np.ndarray:
    width = float(rng.uniform(0.02, 0.3))
    return low + (high - low) / (1 + np.exp(np.clip((middle - tau) / width, -500, 500)))


def _draw_writing(rng: Rng) -> Writing:
    flags = [bool(rng.random() < 0.3) for _ in range(4)]
    return Writing(choose(rng, ",,;\t"), flags[0], flags[1], choose(rng, ["\n", "\r\n"]), flags[2], flags[3])


def _written(columns: Columns, how: Writing) -> bytes:
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    quote, space = ('"' if how.quote else ""), (" " if how.spaces and not how.quote else "")
    lines = [f"{how.separator}{space}".join(f"{quote}{cell}{quote}" for cell in row) for row in rows]
    text = how.newline.join([*lines, *([""] if how.blank else []), ""])
    return ("\ufeff" if how.mark else "").encode() + text.encode()


# ----------------------------------------------------------------------------------------------- spoiling

_CELLS = (
    "", " ", "nan", "NaN", "inf", "-inf", "1e999", "-1", "0", "1,5", "1.5.2", "1 000", "1_000", "0x10", "1e-400", "—",
    "None", "null", "True", "99%", "$5", "٣", "1.0000001", "100", "1e30", "=1+1", 'x' * 200000, "\x00", '"', "'", "#",
    "train_loss", "2026-01-01", "12:00", "1;2", "\t", "1\r2",
)  # fmt: skip


def _cell(content: bytes, rng: Rng) -> bytes:
    """Another text in place of a cell."""
    lines = content.split(b"\n")
    k = int(rng.integers(len(lines)))
    cells = lines[k].split(b",")
    cells[int(rng.integers(len(cells)))] = choose(rng, _CELLS).encode()
    lines[k] = b",".join(cells)
    return b"\n".join(lines)


def _lines(content: bytes, rng: Rng, change: Any) -> bytes:
    lines = content.split(b"\n")
    return b"\n".join(change(lines, int(rng.integers(len(lines)))))


def _bytes(content: bytes, rng: Rng) -> bytes:
    """Some bytes at random."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        if changed:
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
    return bytes(changed)


_SPOIL: dict[str, Any] = {
    "a strange cell": _cell,
    "another strange cell": _cell,
    "random bytes": _bytes,
    "nothing but random bytes": lambda content, rng: rng.bytes(int(rng.integers(500))),
    "cut off": lambda content, rng: content[: int(rng.integers(len(content) + 1))],
    "begun late": lambda content, rng: content[int(rng.integers(len(content) + 1)) :],
    "a line lost": lambda content, rng: _lines(content, rng, lambda lines, k: lines[:k] + lines[k + 1 :]),
    "a line twice": lambda content, rng: _lines(content, rng, lambda lines, k: [*lines[: k + 1], *lines[k:]]),
    "lines in another order": lambda content, rng: b"\n".join(rng.permutation(content.split(b"\n")).tolist()),
    "the header twice": lambda content, rng: content.split(b"\n")[0] + b"\n" + content,
    "two logs": lambda content, rng: content + content,
    "no header": lambda content, rng: content.partition(b"\n")[2],
    "another encoding": lambda content, rng: content.decode(errors="replace").encode(choose(rng, ["utf-16", "utf-32"])),
    "decimal commas": lambda content, rng: content.replace(b".", b","),
    "nothing": lambda content, rng: b"",
    "a surplus separator": lambda content, rng: content.replace(b"\n", b",\n"),
    "old line ends": lambda content, rng: content.replace(b"\r\n", b"\n").replace(b"\n", b"\r"),
    "a column constant": lambda content, rng: content.replace(b"0.", b"0.0"),
    "one number": lambda content, rng: b"step,train_acc,val_acc\n1,1,1\n",
}
