"""Command lines: every command with options that are right, wrong and odd, on files that are right, wrong and odd."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import afterfit as af
from afterfit._training.train import run_experiment
from fuzz import logs, stores
from fuzz.nouns import HOSTILE, PLAIN, choose, leaves, replaced, to_toml
from fuzz.oracles import Refusal, demand, invoke, judge_exit, same_bits, strict_json

__all__ = ["check", "draw"]

Rng = np.random.Generator

_NAMES = (
    "a.toml",
    "with space.toml",
    "naïve ξ.toml",
    "-dash.toml",
    "a.TOML",
    "x" * 300 + ".toml",
    "$x$.toml",
    "#.toml",
)
_UNREADABLE = os.fsdecode(b"caf\xe9.toml")  # a name that is not UTF-8


@dataclasses.dataclass(frozen=True)
class Line:
    """A command line and the files it finds; `process` says that it is run as a process of its own."""

    args: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...]
    process: bool

    def __str__(self) -> str:
        files = "".join(f"\n{name!r}: {content[:1500]!r}" for name, content in self.files)
        return f"afterfit {' '.join(map(repr, self.args))}{files}"


def draw(rng: Rng, number: int) -> Line:
    files: dict[str, bytes] = {}
    command = choose(rng, list(_COMMANDS))
    args = [*command.split(), *_COMMANDS[command](rng, files)]
    if rng.random() < 0.15:  # anything anywhere
        args.insert(int(rng.integers(len(args) + 1)), choose(rng, _STRAY))
    if rng.random() < 0.05:
        args.pop(int(rng.integers(len(args))))
    return Line(tuple(args), tuple(files.items()), number % 50 == 25)  # a process takes seconds: at known places


def check(case: Line, place: Path) -> None:
    for name, content in case.files:
        with contextlib.suppress(OSError):  # a name that this file system does not take: then it is not there
            Path(name).write_bytes(content)
    if "store" in case.args:
        stores.copy(place)
    if case.process:
        _check_process(case)
        return
    printed = invoke(*case.args)
    _second_way(case, place, printed)


def _check_process(case: Line) -> None:
    """As a process of its own, with everything that `main` does."""
    line = [sys.executable, "-c", "from afterfit._cli import main; main()", *case.args]
    if any("\x00" in arg for arg in line):  # the system does not pass these on
        return
    ended = subprocess.run(line, capture_output=True, stdin=subprocess.DEVNULL, timeout=100)
    stderr = ended.stderr.decode(errors="replace")
    judge_exit(ended.returncode, stderr)
    if ended.returncode == 2:
        raise Refusal(stderr.strip())


def _second_way(case: Line, place: Path, printed: str) -> None:
    """What a command did is what Python does."""
    command, args = case.args[0], case.args
    if {"-h", "--help", "--version"} & set(args):
        return
    if command == "run" and "kept" in args and len(args) == 4 and args[1].endswith(".toml"):
        (kept,) = [path for path in (place / "kept" / "runs").iterdir() if path.is_dir()]
        same_bits(af.load(kept), run_experiment(af.Experiment.from_toml(args[1]), progress=False), "run in Python")
    elif args[:3] == ("runs", "ls", "-q") and args[3:] == ("--store", "store"):
        demand(sorted(printed.split()) == sorted(stores.healthy()), f"lists {printed!r}")
    elif "--json" in args and command != "verify":
        strict_json(printed)
    elif command == "sweep" and "-q" in args and printed:
        demand(invoke(*args) == printed, "another sweep the second time")


# ------------------------------------------------------------------------------------------------- grammar

_STRAY = (
    "--unknown", "--", "", "-", "-q", "--quiet", "-h", "--help", "--version", "ξ", "\x00", 'a' * 400, "--store",
    "--set", "--set=", "--out", "--over", "--seeds", "--json", "*", "$(true)", "%s", "{}", "../..",
)  # fmt: skip


def _experiment(rng: Rng, files: dict[str, bytes], sweep: bool = False) -> str:
    """A file with an experiment in it, mostly right: its name."""
    name = choose(rng, _NAMES) if rng.random() < 0.3 else "a.toml"
    data = dict(PLAIN)
    if sweep:
        data["sweep"] = _table(rng)
    content = to_toml(data).encode()
    kind = rng.random()
    if kind < 0.15:
        path, _ = choose(rng, leaves(data))
        content = to_toml(replaced(data, path, choose(rng, HOSTILE))).encode()
    elif kind < 0.3:
        content = choose(rng, _FILES)(content, rng)
    elif kind < 0.35:
        return choose(rng, ["missing.toml", ".", "/dev/null", "", "/proc/self/mem", "https://example.org/a.toml"])
    elif kind < 0.38:
        name = _UNREADABLE
    files[name] = content
    return name


_FILES = [
    lambda content, rng: b"\xef\xbb\xbf" + content,
    lambda content, rng: content.replace(b"\n", b"\r\n"),
    lambda content, rng: content.decode().encode("utf-16"),
    lambda content, rng: rng.bytes(200),
    lambda content, rng: content[: int(rng.integers(len(content)))],
    lambda content, rng: b"x = " + b"[" * 3000 + b"]" * 3000,
    lambda content, rng: b"x" + b".x" * 3000 + b" = 1",
    lambda content, rng: b"[task]\n" + content,
    lambda content, rng: content + content,
    lambda content, rng: b"",
    lambda content, rng: b"seed = 1979-05-27\n" + content,
    lambda content, rng: content + b"\x00",
]


def _table(rng: Rng) -> Any:
    """What [sweep] says."""
    tables = [
        {"over": {"penalty.strength": [0.1, 0.2]}, "seeds": 2},
        {"over": {"penalty.strength": "log:1e-3:1e-1:3"}},
        {"over": {"seed": [1, 2]}},
        {"over": {"penalty.strength": choose(rng, HOSTILE)}},
        {"over": choose(rng, HOSTILE)},
        {"over": {"penalty.strength": [0.1]}, "seeds": choose(rng, HOSTILE)},
        {"refine": choose(rng, HOSTILE)},
        {"over": {"penalty.strength": [0.1]}, "refine": {"names": ["penalty.strength"]}},
        {"refine": {"names": ["penalty.strength", "init.scale"], "ranges": choose(rng, HOSTILE), "budget": 3}},
        {"over": {"penalty.strength": [0.1]}, "seed": 1},
        choose(rng, HOSTILE),
    ]
    return tables[0] if rng.random() < 0.3 else choose(rng, tables)


_SETTINGS = (
    "penalty.strength=0.2", "seed=3", "init.scale=0.1", "dynamics.steps=10", "observations=5", "model.depth=2",
    "penalty.kind=L1", "penalty.strength=-1", "penalty.strength=inf", "penalty.strength=nan", "seed=-1", "seed=1e30",
    "dynamics.lr=1e150", "dynamics.lr=1e300", "init.scale=1e200", "task.n=1000000000000", "init=3",
    "dynamics.steps=100000000000000000000", "observations=1000000000000", "penalty.strenght=1", "nothing", "=",
    "task.kind=SparseRecovery", "model.kind=MLP", "a.b.c.d=1", "penalty={kind='L1', strength=1}", "seed=[", "ξ=1",
    "init.kind=Constant", "task.precision=single", "init.seed=-1", "penalty.strength=", "task.scale=inf",
)  # fmt: skip
_VALUES = (
    "penalty.strength=0.1,0.2", "penalty.strength=log:1e-3:1e-1:3", "init.scale=lin:0.1:1:2", "seed=1,2",
    "penalty.strength=1,1.0", "penalty.strength=log:0:1:3", "penalty.strength=lin:0:1:-3", "penalty.strength=",
    "penalty.strength=log:1:2", "penalty.strength=log:1e-3:1e-1:1000000000", "task.n=6,7", "penalty.kind=L1,L2",
    "dynamics.steps=10,20", "model.hidden=[3],[4]", "unknown=1,2", "penalty.strength=a,b",
    "penalty.strength=lin:a:b:c", "penalty.strength=log:1e-3:inf:3", "penalty.strength=nan", "=1",
    "penalty.strength=log:1:10:2.5", ",",
)  # fmt: skip


_QUESTIONS = (
    "SELECT id, t_gen FROM runs", "SELECT * FROM curves LIMIT 2", "", "nonsense", "DESCRIBE runs", "SELECT NULL",
    "SELECT 'inf'::DOUBLE AS x", "SELECT a.id, b.id FROM runs a, runs b", "SELECT penalty.strength FROM runs",
    "SELECT [1.5, NULL] AS l, {'a': 'nan'::DOUBLE} AS s", "SELECT 'ξ\n' AS x",
)  # fmt: skip


def _sometimes(rng: Rng, share: float, *args: str) -> list[str]:
    return list(args) if rng.random() < share else []


def _run(rng: Rng, files: dict[str, bytes]) -> list[str]:
    job = (
        _experiment(rng, files) if rng.random() < 0.9 else choose(rng, ["woodworth2020/fig99", "ξ", "notsawo2025", ""])
    )
    out = _sometimes(rng, 0.6, "--out", choose(rng, ["kept", "kept", "a/b/c", ".", "", "a.toml", "/proc/x", "x" * 300]))
    return [
        job,
        *out,
        *_sometimes(rng, 0.3, "--set", choose(rng, _SETTINGS)),
        *_sometimes(rng, 0.05, "--scale", "quick"),
    ]


def _sweep(rng: Rng, files: dict[str, bytes]) -> list[str]:
    job = _experiment(rng, files, sweep=rng.random() < 0.5)
    return [
        job,
        *_sometimes(rng, 0.6, "--over", choose(rng, _VALUES)),
        *_sometimes(rng, 0.2, "--over", choose(rng, _VALUES)),
        *_sometimes(rng, 0.3, "--seeds", choose(rng, ["1", "2", "0", "-1", "1.5", "99999999999999999999", "x"])),
        *_sometimes(rng, 0.2, "--set", choose(rng, _SETTINGS)),
        *_sometimes(rng, 0.1, "--memory", choose(rng, ["0", "-1", "nan", "inf", "1e-9", "x"])),
        *_sometimes(rng, 0.1, "--on", choose(rng, ["tcp://127.0.0.1:1", "nonsense", ""])),
        *_sometimes(
            rng, 0.5, "--store", choose(rng, ["new", "store", ".", "a.toml", "", "ξ", "nonsense://x", "/proc/x"])
        ),
        *_sometimes(rng, 0.7, "-q"),
    ]


def _ids(rng: Rng) -> str:
    known = sorted(stores.healthy())
    return choose(rng, [known[0], known[1][:6], "", "zz", "0", "../store", "damaged", "x" * 16, "\x00", "*"])


def _store(rng: Rng) -> list[str]:
    return ["--store", "store" if rng.random() < 0.8 else choose(rng, ["nowhere", ".", "", "/dev/null", "a://b", "ξ"])]


def _report(rng: Rng, files: dict[str, bytes]) -> list[str]:
    sweep = next(iter(af.Store(stores.prepared()).sweeps()))
    id = choose(rng, [sweep, sweep[:5], "", "zz", "../x", "\x00"])
    return [
        id,
        *_store(rng),
        *_sometimes(rng, 0.5, "--out", choose(rng, ["page.html", "a/b.html", ".", "", "x" * 300])),
    ]


def _ls(rng: Rng, files: dict[str, bytes]) -> list[str]:
    limit = _sometimes(rng, 0.3, "--limit", choose(rng, ["1", "3", "0", "-1", "x", "99999999999999999999"]))
    return [*_sometimes(rng, 0.5, "-q"), *_store(rng), *limit]


def _show_run(rng: Rng, files: dict[str, bytes]) -> list[str]:
    return [_ids(rng), *_store(rng)]


def _rm(rng: Rng, files: dict[str, bytes]) -> list[str]:
    return [_ids(rng), *_sometimes(rng, 0.3, _ids(rng)), *_sometimes(rng, 0.7, "--yes"), *_store(rng)]


def _query(rng: Rng, files: dict[str, bytes]) -> list[str]:
    sql = choose(rng, _QUESTIONS)
    return [sql, *_sometimes(rng, 0.3, "--json"), *_sometimes(rng, 0.3, "--csv"), *_store(rng)]


def _diagnose(rng: Rng, files: dict[str, bytes]) -> list[str]:
    case = logs.draw(rng, 0)
    files["log.csv"] = case.content if isinstance(case, logs.Spoilt) else case.text()
    columns = ["step", "train_acc", "val_acc", "train_loss", "nothing", "", "ξ"]
    level = ["0.9", "90", "-1", "nan", "inf", "0", "x", "1e-3"]
    return [
        "log.csv" if rng.random() < 0.9 else choose(rng, ["missing.csv", ".", "", "/dev/null"]),
        *_sometimes(rng, 0.2, "--time", choose(rng, columns)),
        *_sometimes(rng, 0.2, "--train", choose(rng, columns)),
        *_sometimes(rng, 0.2, "--test", choose(rng, columns)),
        *_sometimes(rng, 0.2, "--fit", choose(rng, level)),
        *_sometimes(rng, 0.2, "--generalise", choose(rng, level)),
        *_sometimes(rng, 0.1, "--train-like", choose(rng, ["error", "accuracy", "loss", ""])),
        *_sometimes(rng, 0.2, "--norm", choose(rng, columns)),
        *_sometimes(rng, 0.4, "--json"),
    ]


def _gallery(rng: Rng, files: dict[str, bytes]) -> list[str]:
    id = choose(rng, ["notsawo2025/fig3", "boursier2025/fig2", "boursier2025", "fig2", "", "ξ", "notsawo2025/fig33"])
    return [id, *_sometimes(rng, 0.3, "--scale", choose(rng, ["quick", "paper", "huge", ""]))]


def _verify(rng: Rng, files: dict[str, bytes]) -> list[str]:
    """Nothing that begins to compute: that is the gallery's own test."""
    wrong = [["nobody2000"], ["boursier2025/fig99"], ["--scale", "huge"], ["--json", "a/b/c.json"], ["--json", "."]]
    return choose(rng, wrong)


_COMMANDS: dict[str, Any] = {
    "list": lambda rng, files: _sometimes(rng, 0.5, "-q"),
    "show": _gallery,
    "run": _run,
    "sweep": _sweep,
    "report": _report,
    "runs ls": _ls,
    "runs show": _show_run,
    "runs rm": _rm,
    "runs query": _query,
    "runs": lambda rng, files: _sometimes(rng, 0.5, "nothing"),
    "diagnose": _diagnose,
    "verify": _verify,
    "": lambda rng, files: [choose(rng, ["", "nothing", "--version", "runs ls", "RUN"])],
}
