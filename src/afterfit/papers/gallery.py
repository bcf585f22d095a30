"""The gallery: what a figure or theorem of a paper is here, and how its claims are checked.

An entry is declared once: its experiments at two scales, its picture, and its claims. A paper is one module
or package with one class an entry; `ENTRIES` in `afterfit.papers` lists them.
"""

from __future__ import annotations

import abc
import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from afterfit.experiment import Experiment, flatten
from afterfit.progress import progress_bar
from afterfit.run import Run
from afterfit.spec import nearest, require
from afterfit.sweeps.processes import run_many
from afterfit.train import run_experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SCALES", "Claim", "Entry", "Finding", "check_scale", "run_all"]

SCALES = ("quick", "paper")


@dataclasses.dataclass(frozen=True)
class Finding:
    """One claim held against what was seen: before it knows its entry's id, scale and cost."""

    claim: str
    paper_says: str
    measured: str
    holds: bool

    def __post_init__(self):
        object.__setattr__(self, "holds", bool(self.holds))  # NumPy's cannot be written as JSON


@dataclasses.dataclass(frozen=True)
class Claim:
    """A row of the ledger."""

    id: str
    claim: str
    paper_says: str
    measured: str
    holds: bool
    scale: str
    seconds: float


class Entry(abc.ABC):
    """A figure or theorem: `id` is `paper/figure`, `where` its place in the paper, `about` what it shows.

    `about` describes the runs at paper scale; `departure` says how others differ from it.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    where: ClassVar[str]
    about: ClassVar[str]
    claims: ClassVar[tuple[str, ...]]  # in words, for `afterfit show`; `check` finds whether each holds

    @abc.abstractmethod
    def experiments(self, scale: str) -> dict[str, Experiment]:
        """The runs that the picture shows, by name; the first is the headline."""

    @abc.abstractmethod
    def picture(self, runs: Mapping[str, Run]) -> Figure:
        """The paper's figure, from those runs."""

    @abc.abstractmethod
    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        """Every claim of the entry's ledger row, one finding each, in the order of `claims`."""

    @property
    def paper(self) -> str:
        """The paper's name, such as `lyu2023`."""
        return self.id.split("/")[0]

    def departure(self, experiments: Mapping[str, Experiment]) -> str:
        """What is not as `about` says in these runs, made small or with changed settings; empty at paper scale."""
        paper = self.experiments("paper")
        (name, headline), (_, original) = next(iter(experiments.items())), next(iter(paper.items()))
        own, theirs = (flatten(experiment.to_dict()) for experiment in (headline, original))
        changed = [
            f"{setting} = {in_words(own.get(setting))} (not {in_words(theirs.get(setting))})"
            for setting in {**own, **theirs}
            if own.get(setting) != theirs.get(setting)
        ]
        if len(experiments) != len(paper):
            changed.append(f"{len(experiments)} runs (not {len(paper)})")
        if not changed:
            return ""
        which = f"the run {name} here" if len(experiments) > 1 else "the run here"
        return f"The text above is about the setting at paper scale. That of {which} has {', '.join(changed)}."

    def run(self, scale: str, changes: Mapping[str, Any] | None = None, progress: bool | None = None) -> dict[str, Run]:
        """Carry out the experiments of the picture, with some settings changed."""
        check_scale(scale)
        experiments = {name: experiment.set(changes or {}) for name, experiment in self.experiments(scale).items()}
        return run_all(experiments, self.id, progress)

    def verify(self, scale: str, progress: bool | None = None) -> Iterator[Claim]:
        """Run the entry and check its claims. `seconds` is what each cost; the first carries the runs."""
        began = time.monotonic()
        runs = self.run(scale, progress=progress)
        for finding in self.check(runs, scale, progress):
            now = time.monotonic()
            yield Claim(self.id, **dataclasses.asdict(finding), scale=scale, seconds=round(now - began, 3))
            began = now


def in_words(value: Any) -> str:
    """The value of a setting, shortened where it is long."""
    if isinstance(value, list) and len(value) > 4:
        return f"{len(value)} values"
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def check_scale(scale: str) -> None:
    """Refuse a scale that is neither quick nor paper."""
    require(scale in SCALES, f"unknown scale {scale!r}: {nearest(scale, SCALES)}")


def run_all(experiments: Mapping[str, Experiment], label: str, progress: bool | None) -> dict[str, Run]:
    """Carry out several experiments under one progress bar (or the run's own, if there is only one)."""
    if len(experiments) == 1:
        return {name: run_experiment(experiment, progress=progress) for name, experiment in experiments.items()}
    with progress_bar(label, progress) as show:
        return run_many(experiments, show)
