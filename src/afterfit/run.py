"""A run: what training left behind, its verdict, its picture, and its files."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import json
import os
import platform
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from afterfit.criteria import Criteria, Threshold
from afterfit.curves import read_parquet, write_parquet
from afterfit.diagnose import Settings, Verdict, diagnose
from afterfit.spec import SpecError, require

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from afterfit.experiment import Experiment

__all__ = ["Run", "load"]

FORMAT = 1  # of the files of a run
_FILES = ("spec.json", "run.json", "curves.parquet", "params.npz")
_VERSIONED = ("afterfit", "jax", "jaxlib", "equinox", "diffrax", "optax", "numpy")


@dataclasses.dataclass(frozen=True)
class Run:
    """What training left behind.

    `curves` is an xarray.Dataset over training time; `params` are the final parameters (NumPy arrays); `spec` is the
    full specification as plain data; `status` is `"finished"`, `"diverged"`, `"step limit"`, `"singular"` or
    `"interrupted"`, and `message` says why; `method` is how a flow was followed and why so (empty for discrete
    dynamics); `work` counts what was done, `seconds` how long it took. `experiment` is what was run, kept with it while
    it is in memory; a loaded run has only its `spec`.
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
    experiment: Experiment | None = dataclasses.field(default=None, repr=False, compare=False)

    @functools.cached_property
    def verdict(self) -> Verdict:
        """What happened, with its evidence, under the task's thresholds."""
        return self.diagnose()

    def diagnose(
        self, *, fit: float | None = None, generalise: float | None = None, settings: Settings | None = None
    ) -> Verdict:
        """The verdict under other thresholds: `fit` for the training metric, `generalise` for the test metric."""
        train, test = self.criteria.train, self.criteria.test
        criteria = Criteria(
            train if fit is None else Threshold(train.like, fit),
            test if generalise is None else Threshold(test.like, generalise),
        )
        curves = self.curves
        return diagnose(
            curves["time"].values,
            curves[f"train_{self.metric}"].values,
            curves[f"test_{self.metric}"].values,
            criteria,
            norms={name: curves[name].values for name in ("norm_l2", "norm_l1")},
            diverged=self.status == "diverged",
            log10_time=curves["log10_time"].values,
            settings=settings or Settings(),
        )

    def plot(self) -> Figure:
        """Training and test curves over time with t_fit and t_gen marked, and the norms below."""
        from afterfit.plot import plot_run

        return plot_run(self)

    def save(self, directory: str | Path) -> Path:
        """Write the run as a directory of plain files (JSON, Parquet, NPZ), visible only once complete.

        An earlier run in the same place is replaced; anything else there is left alone and refused.
        """
        directory = Path(directory)
        free = not directory.exists() or (directory.is_dir() and not any(directory.iterdir()))
        require(free or _is_run(directory), f"{directory} exists and is not a run: choose another directory.")
        directory.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        try:
            _write_json(temporary / "spec.json", self.spec)
            _write_json(temporary / "run.json", self._facts())
            write_parquet(self.curves, temporary / "curves.parquet")
            np.savez(temporary / "params.npz", allow_pickle=False, **_flatten(self.params))
            temporary.chmod(0o755)
            if _is_run(directory):  # aside first: at no time is there neither the old run nor the new one
                aside = Path(tempfile.mkdtemp(prefix=f".{directory.name}-old-", dir=directory.parent))
                os.replace(directory, aside)
                os.replace(temporary, directory)
                shutil.rmtree(aside)
            else:
                os.replace(temporary, directory)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return directory

    def _facts(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "metric": self.metric,
            "criteria": {side: dataclasses.asdict(getattr(self.criteria, side)) for side in ("train", "test")},
            "status": self.status,
            "message": self.message,
            "method": self.method,
            "work": self.work,
            "seconds": self.seconds,
            "verdict": self._verdict_if_any(),
            "versions": {
                "python": platform.python_version(),
                **{name: importlib.metadata.version(name) for name in _VERSIONED},
            },
        }

    def _verdict_if_any(self) -> dict[str, Any] | None:
        """A run cut short at once has too few observations for a verdict, and is worth keeping all the same."""
        try:
            return self.verdict.to_dict()
        except SpecError:
            return None

    def __repr__(self) -> str:
        return f"<Run {self.spec['task']['kind']} · {self.spec['model']['kind']} · {self.status}>"


def load(directory: str | Path) -> Run:
    """Read a run that was saved. Nothing is executed: the files are JSON, Parquet and plain arrays."""
    directory = Path(directory)
    for name in _FILES:
        require((directory / name).is_file(), f"{directory} is not a run: it has no {name}.")
    facts = json.loads((directory / "run.json").read_text(encoding="utf-8"))
    if facts["format"] > FORMAT:
        raise SpecError(
            f"{directory} was written by a newer afterfit (format {facts['format']}, this one reads {FORMAT}): upgrade."
        )
    with np.load(directory / "params.npz", allow_pickle=False) as arrays:
        params = _unflatten(dict(arrays))
    return Run(
        spec=json.loads((directory / "spec.json").read_text(encoding="utf-8")),
        curves=read_parquet(directory / "curves.parquet"),
        params=params,
        metric=facts["metric"],
        criteria=Criteria(*(Threshold(**facts["criteria"][side]) for side in ("train", "test"))),
        status=facts["status"],
        message=facts["message"],
        method=facts.get("method", ""),  # not in the files of afterfit 0.1
        work=facts["work"],
        seconds=facts["seconds"],
    )


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _is_run(directory: Path) -> bool:
    """Whether a directory holds a run and nothing else, so that replacing it loses nothing of anyone's."""
    return directory.is_dir() and {path.name for path in directory.iterdir()} == set(_FILES)


def _flatten(params: Any) -> dict[str, np.ndarray]:
    """Arrays by their place in the tree, written as JSON: `["layers", 0, "weight"]`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(params)
    return {json.dumps([_key(key) for key in path]): np.asarray(leaf) for path, leaf in leaves}


def _key(key: Any) -> str | int:
    if isinstance(key, jax.tree_util.SequenceKey | jax.tree_util.FlattenedIndexKey):
        return getattr(key, "idx", getattr(key, "key", 0))
    return str(getattr(key, "key", getattr(key, "name", key)))


def _unflatten(arrays: dict[str, np.ndarray]) -> Any:
    """Nested dictionaries and lists from the places that `_flatten` writes."""
    return _grow([(json.loads(place), array) for place, array in arrays.items()])


def _grow(leaves: list[tuple[list[str | int], np.ndarray]]) -> Any:
    if len(leaves) == 1 and not leaves[0][0]:
        return leaves[0][1]
    branches: dict[str | int, list] = {}
    for (head, *rest), array in leaves:
        branches.setdefault(head, []).append((rest, array))
    if all(isinstance(head, int) for head in branches):
        return [_grow(branches[k]) for k in range(len(branches))]
    return {head: _grow(branch) for head, branch in branches.items()}
