"""Cases that went wrong once, as data: the input, and what must come of it. Each has its issue and section."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np

import afterfit as af
from afterfit._training.train import run_experiment
from fuzz import stores
from fuzz.nouns import PLAIN, to_toml
from fuzz.oracles import Refusal, attempt, demand, invoke, strict_json, tree

__all__ = ["CORPUS", "Known"]

_AT_ONCE = 2.0  # seconds of processor time in which what cannot be is refused


@dataclasses.dataclass(frozen=True)
class Known:
    """A case that went wrong once: `check` raises if it does again."""

    issue: str
    name: str
    check: Callable[[Path], None]


def _refused(act: Callable[[], Any], words: str) -> None:
    """Demand that `act` is refused with these words (a regular expression), and at once."""
    began = time.process_time()
    try:
        given = attempt(act)
    except Refusal as refusal:
        demand(re.search(words, str(refusal)) is not None, f"refused without {words!r}: {refusal}")
        seconds = time.process_time() - began
        demand(seconds < _AT_ONCE, f"refused after {seconds:.1f} s: {refusal}")
    else:
        demand(False, f"not refused with {words!r}, but {given!r}")


# -------------------------------------------------------------------------------------------------- settings

_REGRESSION = {"kind": "SparseRegression", "n": 4, "d": 6, "sparsity": 2}
_NESTED: dict[str, Any] = {"kind": "MLP", "hidden": [2]}
for _ in range(20):
    _NESTED = {"kind": "Difference", "model": _NESTED}

# What is changed, and the words of the refusal; without words it runs.
SETTINGS: Sequence[tuple[str, dict[str, Any], str]] = [
    ("11.3", {"penalty.strength": float("inf")}, "strength.*inf"),
    ("11.3", {"penalty.strength": float("nan")}, "strength.*nan"),
    ("11.3", {"dynamics.lr": float("inf")}, "lr.*inf"),
    ("11.3", {"init.scale": float("inf")}, "scale.*inf"),
    ("11.3", {"task.scale": float("inf")}, "scale.*inf"),
    ("11.3", {"task": {**_REGRESSION, "noise_variance": float("inf")}}, "noise_variance.*inf"),
    ("11.3", {"task": {"kind": "MarginClassification", "n": 4, "d": 6, "margin": float("inf")}}, "margin.*inf"),
    ("11.3", {"dynamics": {"kind": "LabelNoiseSGD", "lr": 0.1, "steps": 5, "noise": float("inf")}}, "noise.*inf"),
    ("11.3", {"penalty": {"kind": "NoPenalty"}, "penalty.strength": 0.5}, "strength|penalty"),
    ("11.6", {"task": {**_REGRESSION, "n": 10**9}}, "task.n"),
    ("11.6", {"task": {**_REGRESSION, "d": 10**12}}, "task.d"),
    ("11.6", {"task": {**_REGRESSION, "n_test": 10**12}}, "task.n_test"),
    ("11.6", {"task.N": 10**12}, "task.N"),
    ("11.6", {"task.n": 10**9}, "task.n"),
    ("11.6", {"model": {"kind": "MLP", "hidden": [10**12]}}, "model.hidden"),
    ("11.6", {"observations": 10**9}, "observations"),
    ("11.6", {"observations": 10**20}, "observations"),
    ("11.6", {"dynamics.steps": 10**15}, "steps"),
    ("11.6", {"dynamics.steps": 10**20}, "steps"),
    ("11.6", {"model": {"kind": "DiagonalNet", "depth": 10**6}}, "depth"),
    ("11.6", {"model": _NESTED}, "operations|compile"),
    ("11.7", {"init.seed": -1}, "seed.*-1"),
    ("11.7", {"seed": -1}, "seed.*-1"),
    ("11.7", {"seed": 10**30}, "seed"),
    ("11.7", {"dynamics": {"kind": "GradientFlow", "until": 5e-324}}, "until|time"),
    ("11.7", {"dynamics.lr": 1e150}, ""),
    ("11.7", {"dynamics.lr": 1e300}, ""),  # found by commands 319: one threshold, and nothing finite
    ("11.7", {"init.scale": 1e200}, ""),
    ("11.7", {"task.precision": "single"}, ""),
]


def _setting(changes: dict[str, Any], words: str) -> Callable[[Path], None]:
    def check(place: Path) -> None:
        def run() -> Any:
            experiment = af.Experiment.from_dict(PLAIN)
            for name, value in changes.items():  # one after the other: a noun first, and then a setting of it
                experiment = experiment.set({name: value})
            return run_experiment(experiment, progress=False)

        if words:
            _refused(run, words)
            return
        from afterfit._base.html import picture_bytes

        made = run()
        demand(bool(made.verdict.describe()), "no verdict")
        demand(len(picture_bytes(made.plot())) > 1000, "no picture")
        strict_json(json.dumps(made.verdict.to_dict()))

    return check


# ---------------------------------------------------------------------------------------------------- Python

_X = np.random.default_rng(0).integers(0, 255, (8, 3))
_Y = np.arange(8.0)


def _arrays(X: Any = _X, y: Any = _Y, **more: Any) -> Any:
    return af.tasks.Arrays(X, y, X, y, **more)


def _train(task: Any, model: Any = None, steps: int = 5, **more: Any) -> af.Run:
    return af.train(
        task=task,
        model=model or af.models.Linear(),
        dynamics=af.dynamics.GradientDescent(1e-7, steps),
        init=af.inits.Own() if isinstance(model, af.models.Function) else af.inits.Gaussian(0.1),
        observations=4,
        progress=False,
        **more,
    )


def _square(params: Any, x: Any) -> Any:
    return jnp.sum(params["w"] * x**2) * 1e-3


def _same_end(one: af.Run, other: af.Run) -> None:
    for name in ("train_loss", "test_loss"):
        demand(float(one.curves[name][-1]) == float(other.curves[name][-1]), f"{name} differs")


def _function(f: Callable[[Any, Any], Any]) -> Any:
    return af.models.Function(f, {"w": np.ones(3)})


class _Column(af.tasks.Task):
    """Somebody's own task, whose test targets are a column."""

    @property
    def signature(self) -> Any:
        return af.tasks.Signature((3,))

    @property
    def loss(self) -> Any:
        from afterfit.losses import Squared

        return Squared("mean")

    @property
    def criteria(self) -> Any:
        from afterfit._diagnose.thresholds import Criteria

        return Criteria.errors(fit=1e-2, generalise=1e-1)

    def draw(self, rng: np.random.Generator) -> Any:
        X, y = rng.standard_normal((5, 3)), np.ones(5)
        return af.tasks.Data(X, y, X, y[:, None], n=5, n_test=5)


def _hidden() -> Any:
    masked = np.ma.masked_array(_X.astype(float), mask=np.zeros(_X.shape, bool))
    masked[0, 0] = np.ma.masked
    return masked


def _labels(dtype: str) -> af.Run:
    X, y = _X / 255, np.where(_Y > 3, 1, -1) if dtype == "i1" else (_Y > 3).astype(dtype)
    return _train(_arrays(X, y, loss_name="logistic"))


# What is done, and the words of the refusal; or, without words, a comparison that holds.
PYTHON: Sequence[tuple[str, str, Callable[[], Any], str]] = [
    ("11.3", "L1(jnp.array(-1.0))", lambda: af.penalties.L1(jnp.array(-1.0)), "strength.*-1"),
    (
        "11.3",
        "uint8 inputs of a function",
        lambda: _same_end(
            _train(_arrays(_X.astype("u1")), _function(_square)), _train(_arrays(_X.astype(float)), _function(_square))
        ),
        "",
    ),
    ("11.3", "uint8 labels, 0 and 1, of a logistic loss", lambda: _labels("u1"), "±1|-1"),
    ("11.3", "int8 labels of a logistic loss", lambda: _labels("i1"), ""),
    ("11.3", "targets of one's own task in a column", lambda: _train(_Column()), r"shape|\(5, 1\)"),
    ("11.3", "a masked array", lambda: _arrays(_hidden()), "mask"),
    ("11.3", "a masked parameter", lambda: af.models.Function(_square, {"w": _hidden()}), "mask"),
    ("11.3", "a function that returns a whole number", lambda: _train(_arrays(), _function(lambda p, x: 3)), "."),
    (
        "11.3",
        "a function that returns a truth",
        lambda: _train(_arrays(), _function(lambda p, x: jnp.sum(p["w"]) > 0)),
        ".",
    ),
    (
        "11.3",
        "a function that does not depend",
        lambda: _train(_arrays(), _function(lambda p, x: jnp.sum(x))),
        "depend",
    ),
    ("11.2", "a threshold in percent", lambda: _train(_arrays(_X, _Y > 3, loss_name="logistic", fit=99)), "."),
    ("11.6", "a label of 10⁹", lambda: _train(_arrays(y=np.array([10**9] * 8), loss_name="cross_entropy")), "."),
    ("11.7", "complex arrays", lambda: _arrays(_X * 1j), "complex"),
    ("11.7", "arrays of words", lambda: _arrays(np.array([["a", "b"]] * 8)), "."),
    ("11.7", "arrays of objects", lambda: _arrays(np.array([[{}]] * 8)), "."),
    (
        "11.6",
        "a sweep of 10⁹ points",
        lambda: af.sweep(af.Experiment.from_dict(PLAIN), {"seed": "lin:0:1e9:1000000000"}, store="s"),
        ".",
    ),
    (
        "11.6",
        "a sweep of 10⁹ seeds",
        lambda: af.sweep(af.Experiment.from_dict(PLAIN), {"init.scale": [1.0]}, seeds=10**9, store="s"),
        "seeds|runs|points",
    ),
    (
        "11.6",
        "resolution 2³⁰ + 1",
        lambda: af.sweep(
            af.Experiment.from_dict(PLAIN),
            af.refine("penalty.strength", "init.scale", resolution=2**30 + 1, ranges={}),
            store="s",
        ),
        ".",
    ),
    (
        "11.7",
        "seeds=np.int64(2), store=Path(…)",
        lambda: af.sweep(af.Experiment.from_dict(PLAIN), {"init.scale": [1.0]}, seeds=np.int64(2), store=Path("s")),
        "",
    ),
]


def _python(act: Callable[[], Any], words: str) -> Callable[[Path], None]:
    return lambda place: _refused(act, words) if words else act()


def _onto_a_link(place: Path) -> None:
    """A run saved onto a link: refused in a sentence, or kept; what the link points to is not lost."""
    (place / "precious").mkdir()
    (place / "precious" / "letter.txt").write_text("dear")
    (place / "link").symlink_to(place / "precious")
    run = run_experiment(af.Experiment.from_dict(PLAIN), progress=False)
    with contextlib.suppress(Refusal):
        attempt(lambda: run.save(place / "link"))
    demand((place / "precious" / "letter.txt").read_text() == "dear", "what a link points to was lost")


# ------------------------------------------------------------------------------------------------------ logs

_SPARSE = "step,train_acc,val_acc\n1,.1,.1\n10,1,.1\n100,1,.1\n1000,1,.8\n100000,1,1.0\n"


def _rising(low: float, middle: int, width: float) -> str:
    """Fitted at once, and a test accuracy that rises at 10^(middle/10)."""
    lines = ["step,train_acc,val_acc"]
    for k in range(51):
        test = low + (1 - low) / (1 + np.exp((middle - k) / width))
        lines.append(f"{10 ** (k / 10):.6g},{min(1, 0.1 + k / 10):.3f},{test:.4f}")
    return "\n".join([*lines, ""])


def _each_row(text: str, change: Callable[[int, list[str]], list[str]], header: str = "") -> str:
    """The log with every row changed, and perhaps another header."""
    head, *rows = text.splitlines()
    return "\n".join([header or head, *(",".join(change(k, row.split(","))) for k, row in enumerate(rows)), ""])


def _percent(text: str, *columns: int) -> str:
    return _each_row(text, lambda _, row: [f"{float(c) * 100:.10g}" if k in columns else c for k, c in enumerate(row)])


_GROKKED, _UNDER_WAY = _rising(0.1, 30, 1.5), _rising(0.02, 46, 2.0)
_WITH_NAN = _each_row(_GROKKED, lambda k, row: row if k % 5 == 0 else [*row[:2], "nan"])
_WITH_TIMES = _each_row(_GROKKED, lambda k, row: [f"{1.7e9 + 60 * k:.0f}", *row], "time,step,train_acc,val_acc")
_WITH_LOSSES = _each_row(
    _GROKKED, lambda k, row: [*row, f"{2 / (k + 1)}", f"{2 / (k + 1)}"], "step,train_acc,val_acc,train_loss,val_loss"
)
_FALLING = "step,train_loss,val_loss\n1,1,1\n10,0.5,1\n100,0.1,0.9\n1000,0.03,0.9\n100000,0.001,0.9\n"
_ADAM = "step,train_loss,val_loss\n1,1,1\n2,1e5,1e5\n10,1e20,1e20\n100,8e27,8e27\n1000,8e27,8e27\n"
_LONG = "step,train_acc,val_acc\n1," + "9" * 200_000 + ",1\n2,1,1\n3,1,1\n"

# The file, the options, and the verdict; or "refused: " and words of it; or "not: " and a verdict it must not be.
LOGS: Sequence[tuple[str, str, str, tuple[str, ...], str]] = [
    ("11.2", "five points", _SPARSE, (), "grokking"),
    ("11.2", "an error that falls to its last point", _FALLING, (), "not: training collapsed"),
    ("11.2", "losses beside accuracies", _WITH_LOSSES, (), "grokking"),
    ("11.2", "Keras's names", _GROKKED.replace("train_acc,val_acc", "accuracy,val_accuracy"), (), "grokking"),
    ("11.2", "percent", _percent(_GROKKED, 1, 2), (), "grokking"),
    ("11.2", "1.0000001", _GROKKED.replace(",1.000,", ",1.0000001,", 1), (), "grokking"),
    ("11.2", "train in percent, test in fractions", _percent(_GROKKED, 1), (), "refused: percent"),
    ("11.2", "--fit 99 on fractions", _GROKKED, ("--fit", "99"), "refused: fraction"),
    ("11.2", "--generalise 0.9 on percent", _percent(_GROKKED, 1, 2), ("--generalise", "0.9"), "refused: percent"),
    ("11.2", "decimal commas", _GROKKED.replace(".", ","), (), "refused: cells|comma"),
    ("11.2", "surplus cells", _GROKKED.replace("\n1,", "\n1,7,8,9,"), (), "refused: cells"),
    ("11.2", "nan where nothing was evaluated", _WITH_NAN, (), "grokking"),
    ("11.2", "a time of day beside steps", _WITH_TIMES, (), "grokking"),
    ("11.2", "train_accum_loss is a loss", _FALLING.replace("train_loss", "train_accum_loss"),
     ("--train", "train_accum_loss"), "not: never fitted"),
    ("11.2", "all zeros", "step,train_loss,val_loss\n1,0,0\n2,0,0\n3,0,0\n4,0,0\n", (), "refused: 0"),
    ("11.2", "Adam at 8·10²⁷", _ADAM, (), "diverged"),
    ("11.2", "still rising at the end", _UNDER_WAY, (), "grokking under way"),
    ("11.7", "a field of 200,000 characters", _LONG.replace("9" * 200_000, "x" * 200_000), (), "refused: line 2"),
    ("11.7", "a number of 200,000 digits", _LONG, (), "refused: ."),
    ("11.7", "a byte-order mark", "\ufeff" + _GROKKED, (), "grokking"),
]  # fmt: skip


def _log(text: str, options: tuple[str, ...], expected: str) -> Callable[[Path], None]:
    def check(place: Path) -> None:
        file = place / "log.csv"
        file.write_text(text, encoding="utf-8")

        def ask() -> str:
            return strict_json(invoke("diagnose", str(file), "--json", *options))["kind"]

        if expected.startswith("refused: "):
            _refused(ask, expected.removeprefix("refused: "))
        elif expected.startswith("not: "):
            kind = ask()
            demand(kind != expected.removeprefix("not: "), f"the verdict is {kind}")
        else:
            kind = ask()
            demand(kind == expected, f"the verdict is {kind}, not {expected}")

    return check


# ---------------------------------------------------------------------------------------------------- stores

# A question, and words of the refusal; or "columns: " and how many there are.
QUESTIONS: Sequence[tuple[str, str, str]] = [
    ("11.5", "COPY runs TO '{out}'", "reads the tables"),
    ("11.5", "ATTACH '{out}' AS o", "reads the tables"),
    ("11.5", "EXPORT DATABASE '{out}'", "reads the tables"),
    ("11.5", "SELECT * FROM read_text('{secret}')", "reads the tables"),
    ("11.5", "SELECT * FROM glob('{place}/*')", "reads the tables"),
    ("11.5", "INSTALL httpfs", "reads the tables"),
    ("11.5", "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')", "."),
    ("11.4", "SELECT a.id, b.id, a.t_gen, b.t_gen FROM runs a, runs b", "columns: 4"),
    ("11.5", "SELECT range(1000000000)", "memory"),
]


def _question(sql: str, expected: str) -> Callable[[Path], None]:
    def check(place: Path) -> None:
        try:
            stores.check(stores.Question(sql), place)
        except Refusal as refusal:
            demand(re.search(expected, str(refusal)) is not None, f"refused without {expected!r}: {refusal}")
            return
        demand(expected.startswith("columns: "), "not refused")
        header, first, *_ = invoke("runs", "query", sql, "--csv", "--store", str(place / "store")).splitlines()
        count = int(expected.removeprefix("columns: "))
        demand(len(header.split(",")) == len(first.split(",")) == count, f"{header!r} above {first!r}")

    return check


def _a_module_is_missing(place: Path) -> None:
    """What the reader lacks is no damage to what is read."""
    import warnings

    store = stores.copy(place)
    before = {name for name in tree(store) if "/" in name}
    with mock.patch.dict(sys.modules, {"pyarrow.parquet": None}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        demand(af.Store(store).check() == {}, "healthy runs are called damaged")
    demand({name for name in tree(store) if "/" in name} == before, "healthy runs were moved")


def _damage(how: str, use: str) -> Callable[[Path], None]:
    return lambda place: stores.check(stores.Damages(((how, 2, 12345),), use), place)


DAMAGES: Sequence[tuple[str, str, str]] = [
    ("11.4", "malformed with right sums", "ls"),
    ("11.4", "a newer format", "ls"),
    ("11.4", "a newer format", "query"),
    ("11.4", "a newer format", "sweep"),
    ("11.4", "a garbage sweep", "sweep"),
    ("11.4", "a sweep spoilt", "sweep"),
    ("11.5", "forged with right sums", "check"),
]


def _recomputed_in_the_same_call(place: Path) -> None:
    """A damaged run is computed again by the sweep that finds it."""
    import warnings

    store = stores.copy(place)
    id = sorted(stores.healthy())[0]
    (store / id / "params.npz").write_bytes(b"")
    opened = af.Store(store)
    (sweep,) = opened.sweeps()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        af.Sweep.from_dict(opened.sweep(sweep), opened).run(progress=False)
    again = {name: (store / id / name).read_bytes() for name in ("spec.json", "curves.parquet")}
    demand(all(again[name] == stores.healthy()[id][name] for name in again), "it is not as it was")


# -------------------------------------------------------------------------------------------------- commands

_FILE = to_toml(PLAIN)
_BARE = to_toml({key: value for key, value in PLAIN.items() if key != "penalty"})

_OVER = "over = {'init.scale' = [1.0]}"
_NAMES = "names = ['init.scale', 'penalty.strength']"

# Files, the command line, and words of its refusal; without words it is done.
COMMANDS: Sequence[tuple[str, dict[str, str | bytes], tuple[str, ...], str]] = [
    ("11.3", {"a.toml": _BARE}, ("run", "a.toml", "--set", "penalty.strength=0.5"), "penalty"),
    ("11.3", {"a.toml": _BARE}, ("sweep", "a.toml", "--over", "penalty.strength=0.1,0.5"), "penalty"),
    ("11.3", {"a.toml": _FILE}, ("sweep", "a.toml", "--over", "init.scale=1,2", "--seeds", "0"), "seeds"),
    ("11.3", {"a.toml": _FILE}, ("sweep", "a.toml", "--over", "init.scale=1", "--over", "init.scale=2"), "init.scale"),
    ("11.3", {"a.toml": _FILE}, ("sweep", "a.toml", "--over", "init.scale=1,1.0"), "init.scale"),
    ("11.3", {"a.toml": f"{_FILE}[sweep]\n{_OVER}\nseed = 1\n"}, ("sweep", "a.toml"), "seed"),
    ("11.3", {"a.toml": f"{_FILE}[sweep]\n{_OVER}\nrefine = {{{_NAMES}}}\n"},
     ("sweep", "a.toml"), "refine|over"),
    ("11.7", {"a.toml": f"{_FILE}[sweep]\nover = 3\n"}, ("sweep", "a.toml"), "over"),
    ("11.7", {"a.toml": f"{_FILE}[sweep]\nover = {{'init.scale' = 3}}\n"}, ("sweep", "a.toml"), "."),
    ("11.7", {"a.toml": f"{_FILE}[sweep]\n{_OVER}\nseeds = 1.5\n"}, ("sweep", "a.toml"), "seeds"),
    ("11.7", {"a.toml": f"{_FILE}[sweep]\nrefine = 3\n"}, ("sweep", "a.toml"), "refine"),
    ("11.7", {"a.toml": f"{_FILE}[sweep]\nrefine = {{{_NAMES}, ranges = 3}}\n"},
     ("sweep", "a.toml"), "ranges"),
    ("11.7", {"a.toml": _FILE}, ("sweep", "a.toml", "--over", "init.scale=lin:0:1:-3"), "-3"),
    ("11.7", {"a.toml": _FILE}, ("sweep", "a.toml", "--over", "init.scale=1", "--seeds", f"{10**20}"), "seeds"),
    ("11.6", {"a.toml": _FILE}, ("sweep", "a.toml", "--over", "init.scale=log:1e-3:1:1000000000"), "."),
    ("11.6", {"a.toml": _FILE}, ("sweep", "a.toml", "--over", "init.scale=log:1e-3:1:1000", "--over",
     "penalty.strength=log:1e-3:1:1000", "--over", "dynamics.lr=log:1e-3:1:1000"), "."),
    ("11.7", {"a.toml": "\ufeff" + _FILE}, ("run", "a.toml", "--out", "o"), ""),
    ("11.7", {"a.toml": "x = " + "[" * 5000 + "]" * 5000}, ("run", "a.toml", "--out", "o"), "a.toml"),
    ("11.7", {os.fsdecode(b"caf\xe9.toml"): _FILE}, ("run", os.fsdecode(b"caf\xe9.toml"), "--out", "o"), ""),
    ("11.7", {"a.toml": _FILE}, ("run", "a.toml", "--out", "o", "--set", "dynamics.lr=1e150"), ""),
    ("11.7", {"a.toml": _FILE}, ("run", "a.toml", "--out", "o", "--set", "task.n=1000000000000"), "task.n"),
    ("11.4", {"a.toml": _FILE, "o/runs/x.txt": "", "o/figure.png": "mine"}, ("run", "a.toml", "--out", "o"), "o "),
    ("11.4", {"a.toml": _FILE, "o/report.html": "precious"}, ("run", "a.toml", "--out", "o"), "o "),
    ("11.9", {}, ("runs", "ls", "--limit", "99999999999999999999"), ""),  # found by commands 403
    ("11.9", {"a.toml": _FILE}, ("sweep", "a.toml", "--over", "init.scale=1", "--memory", "inf"), "memory.*inf"),  # 606
]  # fmt: skip


def _command(files: dict[str, str | bytes], args: tuple[str, ...], words: str) -> Callable[[Path], None]:
    def check(place: Path) -> None:
        for name, content in files.items():
            file = place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        before = tree(place)
        if not words:
            invoke(*args)
            return
        try:
            printed = invoke(*args)
        except Refusal as refusal:
            demand(re.search(words, str(refusal)) is not None, f"refused without {words!r}: {refusal}")
        else:
            demand(False, f"not refused: {printed!r}")
        demand(tree(place) == before, "files were changed by what was refused")

    return check


CORPUS: dict[str, list[Known]] = {
    "specs": [
        *(Known(issue, str(changes)[:60], _setting(changes, words)) for issue, changes, words in SETTINGS),
        *(Known(issue, name, _python(act, words)) for issue, name, act, words in PYTHON),
        Known("11.7", "saved onto a link", _onto_a_link),
    ],
    "logs": [Known(issue, name, _log(text, options, kind)) for issue, name, text, options, kind in LOGS],
    "stores": [
        *(Known(issue, sql, _question(sql, expected)) for issue, sql, expected in QUESTIONS),
        *(Known(issue, f"{how}: {use}", _damage(how, use)) for issue, how, use in DAMAGES),
        Known("11.4", "a module is missing", _a_module_is_missing),
        Known("11.4", "a damaged run in a sweep", _recomputed_in_the_same_call),
    ],
    "commands": [
        Known(issue, " ".join(args)[:80], _command(files, args, words)) for issue, files, args, words in COMMANDS
    ],
}
