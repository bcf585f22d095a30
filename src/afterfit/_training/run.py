"""A run: what training left behind, its verdict, its picture, and its files."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import importlib.metadata
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from afterfit._base.curves import NotCurves, from_parquet, to_parquet
from afterfit._base.errors import AfterfitError, Damaged, SpecError, Unreadable, error_in_words, require
from afterfit._base.files import (
    SUMS,
    arrays_from_npz,
    arrays_to_npz,
    check_sums,
    read_json,
    sums_of,
    to_json,
)
from afterfit._base.html import escape, picture, table
from afterfit._diagnose import DiagnosisSettings, Verdict, diagnose
from afterfit._diagnose.thresholds import Criteria, Threshold
from afterfit._diagnose.verdict import NUMBERS
from afterfit._training.checkpoints import Checkpoints
from afterfit._training.experiment import flatten

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from afterfit._training.experiment import Experiment
    from afterfit.tasks import Data

__all__ = [
    "FILES",
    "FORMAT",
    "PACKAGES",
    "READ",
    "Run",
    "check_files",
    "load",
    "replaceable",
    "summary",
    "versions_here",
]

FORMAT = 4  # of the files of a run
_FILES_1 = ("spec.json", "run.json", "curves.parquet", "params.npz")  # of format 1, which is read as well
FILES = (*_FILES_1, "log.txt", SUMS)
_MEMORY = "memory.npz"  # of a run whose optimiser remembers something
READ = (*FILES, _MEMORY)  # what a run is read from; its checkpoints are read when they are asked for
PACKAGES = ("afterfit", "jax", "jaxlib", "equinox", "diffrax", "optax", "numpy", "scipy", "pyarrow")


@functools.cache
def versions_here() -> dict[str, str]:
    """Of everything that a number may depend on, in this process."""
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "platform": platform.platform(),
        "machine": platform.machine(),
        "backend": jax.default_backend(),
    }


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """What training left behind.

    `curves` is an xarray.Dataset over training time; `params` are the final parameters (NumPy arrays); `spec` is the
    full specification as plain data; `status` is `"finished"`, `"diverged"`, `"step limit"`, `"singular"` or
    `"interrupted"`, and `message` says why; `method` is how a flow was followed and why so (empty for discrete
    dynamics); `work` counts what was done, `seconds` how long it took. `id` is the name of the experiment that was
    asked for (empty if it has none), `ended` when training ended, in seconds since 1970 (0 if that is not known),
    and `versions` what it was computed with. `checkpoints` are the parameters on the way, where they were asked for,
    and `memory` the arrays that an optimiser remembered at the end, `memory_kind` what kind they are. `origin` is the
    experiment itself, while it is in memory; a loaded run has only its `spec`. Of a run that goes on from another, the
    curves are those of both; `work` and `seconds` are of its own part.
    """

    spec: dict[str, Any]
    curves: xr.Dataset
    params: Any
    metric: str
    criteria: Criteria
    status: str
    message: str
    work: dict[str, int]
    seconds: float
    method: str = ""
    id: str = ""
    ended: float = dataclasses.field(default_factory=time.time)
    versions: dict[str, str] = dataclasses.field(default_factory=versions_here, repr=False)
    checkpoints: Checkpoints = dataclasses.field(default_factory=lambda: Checkpoints.held([]))
    memory: list[np.ndarray] = dataclasses.field(default_factory=list, repr=False)
    memory_kind: str = dataclasses.field(default="", repr=False)
    origin: Experiment | None = dataclasses.field(default=None, repr=False, compare=False)

    @functools.cached_property
    def experiment(self) -> Experiment:
        """What was run; of a run that was loaded, read from its `spec`."""
        from afterfit._training.experiment import Experiment

        return Experiment.from_dict(self.spec) if self.origin is None else self.origin

    @functools.cached_property
    def data(self) -> Data:
        """The data as the run saw them, NumPy arrays: `inputs`, `targets`, and the `truth` where the task has one."""
        return self.experiment.draw()

    @functools.cached_property
    def verdict(self) -> Verdict:
        """What happened, with its evidence, under the task's thresholds."""
        return self.diagnose()

    def verdict_or_reason(self) -> tuple[Verdict | None, str]:
        """The verdict and its sentence; of a run cut short at once, with too few observations, None and why."""
        try:
            return self.verdict, str(self.verdict)
        except SpecError as error:
            return None, f"No verdict: {error}"

    def diagnose(
        self, *, fit: float | None = None, generalise: float | None = None, settings: DiagnosisSettings | None = None
    ) -> Verdict:
        """The verdict under other thresholds: `fit` for the training metric, `generalise` for the test metric."""
        criteria, curves = self.judged(fit=fit, generalise=generalise).criteria, self.curves
        return diagnose(
            curves["time"].values,
            curves[f"train_{self.metric}"].values,
            curves[f"test_{self.metric}"].values,
            criteria,
            norms={name: curves[name].values for name in ("norm_l2", "norm_l1")},
            loss=curves["train_loss"].values if "train_loss" in curves else None,
            diverged=self.status == "diverged",
            log10_time=curves["log10_time"].values,
            settings=settings or DiagnosisSettings(),
        )

    def judged(self, *, fit: float | None = None, generalise: float | None = None) -> Run:
        """This run under other thresholds, which its verdict and its picture then go by."""
        if fit is None and generalise is None:
            return self
        return dataclasses.replace(self, criteria=self.criteria.at(fit=fit, generalise=generalise))

    def plot(self, y: str | None = None, *, x: str = "time", ax: Axes | None = None) -> Figure:
        """Training and test curves over time with t_fit and t_gen marked, the norms and your own quantities below.

        With any of the arguments, one panel: the quantity `y` of `curves` (`"loss"` is that of training and of test;
        the verdict's metric if it is not given) over `x`, `"time"` or `"step"`, on the axes `ax` if there are some.

        ```python
        run.plot(y="loss", x="step").savefig("loss.png")
        ```
        """
        from afterfit.plot import plot_curves, plot_run

        return plot_run(self) if (y, x, ax) == (None, "time", None) else plot_curves(self, y, x, ax)

    def report(self, path: str | Path = "report.html", *, thorough: bool = False) -> Path:
        """Write one self-contained HTML page about the run, as `af.report` does; returns its path."""
        import afterfit

        return afterfit.report(self, path, thorough=thorough)

    def save(self, directory: str | Path) -> Path:
        """Write the run as a directory of plain files (JSON, Parquet, NPZ), visible only once complete.

        An earlier run in the same place is replaced; anything else there is left alone and refused. Of a link, it is
        the directory it leads to that is written.
        """
        asked = Path(directory)
        directory = Path(os.path.realpath(asked)) if asked.is_symlink() else asked
        require(replaceable(directory), f"{directory} exists and is not a run: choose another directory.")
        files = self.files()
        directory.parent.mkdir(parents=True, exist_ok=True)
        temporary, aside = (Path(tempfile.mkdtemp(prefix=".afterfit-", dir=directory.parent)) for _ in range(2))
        try:
            for name, content in files.items():
                (temporary / name).write_bytes(content)
            temporary.chmod(0o755)
            if _is_run(directory):  # aside first: at no time is there neither the old run nor the new one
                os.replace(directory, aside)
            os.replace(temporary, directory)
        finally:
            if _is_run(aside) and not directory.exists():
                os.replace(aside, directory)
            for left in (temporary, aside):
                shutil.rmtree(left, ignore_errors=True)
        return asked

    def files(self) -> dict[str, bytes]:
        """The run as files, by name: plain JSON, Parquet, NPZ and text, and their checksums.

        The same run gives the same bytes; `run.json` and `log.txt` say how long it took, so those of two runs of
        one experiment differ.
        """
        files = {
            "spec.json": to_json(self.spec),
            "run.json": to_json(self._facts()),
            "curves.parquet": to_parquet(self.curves),
            "params.npz": arrays_to_npz(self.params),
            "log.txt": self._log().encode(errors="replace"),
        }
        if self.memory:
            files[_MEMORY] = arrays_to_npz(self.memory)
        files |= {_checkpoint(place): arrays_to_npz(params) for place, params in enumerate(self.checkpoints)}
        return {**files, SUMS: sums_of(files)}

    @classmethod
    def from_files(
        cls, files: Mapping[str, bytes], where: str = "this run", more: Callable[[str], bytes | None] | None = None
    ) -> Run:
        """The run that `files()` wrote; `where` names its place in error messages.

        `more` reads a file that is not among them, by its name: checkpoints are read when they are asked for.
        `Damaged` if the files are not as they were written: a checksum does not match, or what it matches is not a
        run. `Unreadable` if they cannot be read for any other reason.
        """
        known = {name: files[name] for name in READ if name in files}
        if old := SUMS not in files and "log.txt" not in files:  # as format 1 was, without checksums
            for name in _FILES_1:
                if name not in files:
                    raise Damaged(f"{where} is not a run: it has no {name}.")
        else:
            check_files(known, where)
        try:
            return cls._read(known, where, old, more or files.get)
        except AfterfitError:
            raise
        except Exception as error:  # a module that is missing, memory that is: no fault of the run's
            said = error_in_words(error).rstrip(".")
            raise Unreadable(f"{where} cannot be read here ({said}); it was left as it is.") from error

    @classmethod
    def _read(cls, files: Mapping[str, bytes], where: str, old: bool, more: Callable[[str], bytes | None]) -> Run:
        facts = _read_facts(files["run.json"], where)
        if old and facts["format"] > 1:
            raise Damaged(f"{where} is damaged: it has no {SUMS}.")
        spec = read_json(files["spec.json"], "spec.json", where)
        nouns = [spec.get(noun) for noun in ("task", "model")] if isinstance(spec, dict) else [None]
        if not all(isinstance(noun, dict) and "kind" in noun for noun in nouns):
            raise Damaged(f"{where} is damaged: spec.json is not a specification.")
        try:
            curves = from_parquet(files["curves.parquet"])
        except NotCurves as error:
            raise Damaged(f"{where} is damaged: curves.parquet cannot be read ({error}).") from error
        if facts["memory"] and _MEMORY not in files:
            raise Damaged(f"{where} is damaged: it has no {_MEMORY}.")
        if facts["memory"]:
            check_sums(files[SUMS], {_MEMORY: files[_MEMORY]}, where)
        times, steps = facts["checkpoints"]
        read = functools.partial(_read_checkpoint, more, files.get(SUMS, b""), where)
        return cls(
            spec=spec,
            curves=curves,
            params=_arrays(files, "params.npz", where),
            memory=_arrays(files, _MEMORY, where) if facts["memory"] else [],
            memory_kind=facts["memory_kind"],
            checkpoints=Checkpoints([float(time) for time in times], steps, read),
            metric=facts["metric"],
            criteria=Criteria(*(Threshold(**facts["criteria"][side]) for side in ("train", "test"))),
            status=facts["status"],
            message=facts["message"],
            method=facts["method"],
            work=facts["work"],
            seconds=facts["seconds"],
            id=facts["id"],
            ended=facts["ended"],
            versions=facts["versions"],
        )

    @property
    def summary(self) -> dict[str, Any]:
        """This run in one row, as in `Store.summaries`: its settings by their dotted names, and what came of it."""
        return summary(self._facts(), self.spec)

    def _facts(self) -> dict[str, Any]:
        """What `run.json` says."""
        verdict, _ = self.verdict_or_reason()
        time = self.curves["time"].values
        return {
            "format": FORMAT,
            "id": self.id,
            "metric": self.metric,
            "criteria": {side: dataclasses.asdict(getattr(self.criteria, side)) for side in ("train", "test")},
            "status": self.status,
            "message": self.message,
            "method": self.method,
            "work": self.work,
            "seconds": self.seconds,
            "ended": self.ended,
            "verdict": verdict and verdict.to_dict(),
            "end": float(time[-1]) if time.size else None,
            "final": {
                str(name): float(values.values[-1])
                for name, values in self.curves.data_vars.items()
                if values.ndim == 1 and values.size
            },
            "versions": self.versions,
            "memory": bool(self.memory),
            "memory_kind": self.memory_kind,
            "checkpoints": [self.checkpoints.log10_times, self.checkpoints.steps],
        }

    def _log(self) -> str:
        """What happened, for people."""
        verdict, _ = self.verdict_or_reason()
        lines = {
            "began": _when(self.ended - self.seconds) if self.ended else "",
            "ended": _when(self.ended) if self.ended else "",
            "status": f"{self.status}: {self.message}" if self.message else self.status,
            "method": self.method,
            "work": ", ".join(f"{count} {what}" for what, count in self.work.items()),
            "verdict": verdict.describe() if verdict else "none: too few observations",
        }
        return "".join(f"{name:8} {text}\n" for name, text in lines.items() if text)

    def __repr__(self) -> str:
        return f"<Run {self.spec['task']['kind']} · {self.spec['model']['kind']} · {self.status}>"

    def _repr_html_(self) -> str:
        """For a notebook: the verdict with its evidence, the picture, and what it took."""
        from afterfit.plot import setting_line

        verdict, said = self.verdict_or_reason()
        judged = escape(said) if verdict is None else verdict._repr_html_()
        work = ", ".join(f"{what.replace('_', ' ')} {count:,}" for what, count in self.work.items())
        facts = {
            "status": f"{self.status}: {self.message}" if self.message else self.status,
            "method": self.method,
            "work": f"{work}; {self.seconds:.3g} s",
            "setting": setting_line(self.spec),
        }
        rows = [(name, text) for name, text in facts.items() if text]
        return f"{judged}{picture(self.plot(), said)}{table(('', ''), rows)}"


def load(directory: str | Path) -> Run:
    """Read a run that was saved. Nothing is executed: the files are JSON, Parquet and plain arrays."""
    directory = Path(directory)
    files = {name: content for name in READ if (content := _content(directory, name)) is not None}
    # Checkpoints are read when they are asked for, wherever the process is by then.
    return Run.from_files(files, str(directory), functools.partial(_content, directory.absolute()))


def _content(directory: Path, name: str) -> bytes | None:
    """What is in a file; None if there is none."""
    path = directory / name
    return path.read_bytes() if path.is_file() else None


def _checkpoint(place: int) -> str:
    """The file with the parameters of a checkpoint."""
    return f"checkpoint-{place:03d}.npz"


def _read_checkpoint(more: Callable[[str], bytes | None], sums: bytes, where: str, place: int) -> Any:
    """The parameters of a checkpoint from its file, if that is as it was written."""
    name = _checkpoint(place)
    content = more(name)
    if content is None:
        raise Damaged(f"{where} is damaged: it has no {name}.")
    check_sums(sums, {name: content}, where)
    return _arrays({name: content}, name, where)


def _arrays(files: Mapping[str, bytes], name: str, where: str) -> Any:
    """The arrays in one of the files of a run."""
    try:
        return arrays_from_npz(files[name])
    except ValueError as error:
        raise Damaged(f"{where} is damaged: {name} cannot be read ({error}).") from error


def replaceable(directory: Path) -> bool:
    """Whether a run may be written there: nothing is there yet, or nothing but a run."""
    if directory.is_symlink() or not directory.exists():  # what still is a link here leads nowhere
        return not directory.is_symlink()
    return _is_run(directory) or (directory.is_dir() and not any(directory.iterdir()))


def _is_run(directory: Path) -> bool:
    """Whether a directory holds a run and nothing else, so that replacing it loses nothing of anyone's."""
    if not directory.is_dir():
        return False
    names = {path.name for path in directory.iterdir()}
    extras = {name for name in names if name == _MEMORY or re.fullmatch(r"checkpoint-\d{3,}\.npz", name)}
    return names - extras == set(FILES) or names == set(_FILES_1)


# ------------------------------------------------------------------------------------------------- run.json

_SAID = {
    "metric": str,
    "criteria": dict,
    "status": str,
    "message": str,
    "method": str,
    "work": dict,
    "seconds": (int, float),
    "id": str,
    "ended": (int, float),
    "verdict": (dict, type(None)),
    "final": dict,
    "versions": dict,
    "memory": bool,
    "memory_kind": str,
    "checkpoints": list,
}
_NOT_SAID_AT_FIRST = {
    "method": "",
    "id": "",
    "ended": 0.0,
    "end": None,
    "verdict": None,
    "final": {},
    "memory": False,
    "memory_kind": "",
    "checkpoints": [[], []],
}


def check_files(files: Mapping[str, bytes], where: str, names: Iterable[str] = FILES) -> dict[str, Any]:
    """What the `run.json` of a run says whose files (of these names) are as they were written; `Damaged` if not."""
    facts = {}
    if SUMS in files and "run.json" in files:  # first, for a newer format may have other files
        check_sums(files[SUMS], {"run.json": files["run.json"]}, where)
        facts = _read_facts(files["run.json"], where)
    for name in names:
        if name not in files:
            raise Damaged(f"{where} is damaged: it has no {name}.")
    check_sums(files[SUMS], {name: files[name] for name in names if name != SUMS}, where)
    return facts


def _read_facts(content: bytes, where: str) -> dict[str, Any]:
    """What `run.json` says. `Damaged` if that is not what a run says, `Unreadable` if a newer afterfit wrote it."""
    facts = read_json(content, "run.json", where)
    written = facts.get("format") if isinstance(facts, dict) else None
    if not isinstance(written, int):
        raise Damaged(f"{where} is damaged: run.json does not say its format.")
    if written > FORMAT:
        raise Unreadable(
            f"{where} was written by a newer afterfit (format {written}, this one reads {FORMAT}): upgrade."
        )
    facts = {**_NOT_SAID_AT_FIRST, **facts}
    if wrong := _what_is_wrong(facts):
        raise Damaged(f"{where} is damaged: run.json does not say its {wrong} as a run does.")
    return facts


def _what_is_wrong(facts: Mapping[str, Any]) -> str:
    """The first of the facts that is not as `Run` writes it; none if all are."""
    for name, kinds in _SAID.items():
        if not isinstance(facts.get(name), kinds):
            return name
    try:
        for side in ("train", "test"):
            Threshold(**facts["criteria"][side])
    except (KeyError, TypeError, SpecError):
        return "criteria"
    if facts["verdict"] and not isinstance(facts["verdict"].get("kind"), str):
        return "verdict"
    times, steps = facts["checkpoints"] if len(facts["checkpoints"]) == 2 else (None, None)
    if not isinstance(times, list) or not isinstance(steps, list) or len(times) != len(steps):
        return "checkpoints"
    if not all(isinstance(step, int) for step in steps) or not all(x is not None and _is_number(x) for x in times):
        return "checkpoints"
    numbers = {name: facts[name] for name in ("seconds", "ended", "end")}
    numbers |= {name: (facts["verdict"] or {}).get(name) for name in NUMBERS} | facts["final"]
    return next((name for name, value in numbers.items() if not _is_number(value)), "")


def _is_number(value: Any) -> bool:
    """Whether it is a number, nothing, or a number that JSON has to spell out: `"inf"`."""
    if isinstance(value, int):
        return abs(value) < sys.float_info.max
    return value is None or isinstance(value, float) or value in ("inf", "-inf", "nan")


def summary(facts: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """A run in one row, from what its `run.json` and `spec.json` say: plain numbers and words, None where none is.

    Settings have their dotted names, and so have the last values of curves (`final.test_error`), what was done
    (`work.steps`) and what computed it (`versions.jax`).
    """
    verdict = facts["verdict"] or {}
    return {
        **flatten(spec),
        "id": facts["id"],
        "status": facts["status"],
        "verdict": verdict.get("kind"),
        **{name: _real(verdict.get(name)) for name in NUMBERS},
        "end": _real(facts["end"]),
        "seconds": float(facts["seconds"]),
        **{name: facts[name] for name in ("metric", "method", "message", "ended")},
        **{f"final.{name}": _real(value) for name, value in facts["final"].items()},
        **{f"work.{name}": value for name, value in facts["work"].items()},
        **{f"versions.{name}": value for name, value in facts["versions"].items()},
    }


def _real(value: float | str | None) -> float | None:
    """A number that JSON may have had to spell out: `"inf"`."""
    return None if value is None else float(value)


def _when(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(sep=" ", timespec="seconds")
