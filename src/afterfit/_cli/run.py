"""`afterfit run`."""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import signal
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afterfit._base.errors import SpecError, require
from afterfit._cli._app import (
    INTERRUPTED,
    REFUSED,
    Changes,
    Fit,
    Generalise,
    Imports,
    Quiet,
    ScaleOption,
    cache_compilations,
    complain,
    complete_job,
    import_modules,
    on_interrupt,
    one_thread_each,
    print_verdict,
    readable,
    say,
    warn_of_length,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from afterfit._training.experiment import Experiment
    from afterfit._training.run import Run
    from afterfit.papers import Entry

__all__ = ["parse_changes", "read_job", "run"]

_MARK = ".afterfit"  # the file that says that a directory is for results


def run(
    job: Annotated[
        str,
        typer.Argument(
            metavar="ID|FILE",
            help="A gallery id, an entry of your own such as my_paper.py::fig2, or a TOML file with an experiment.",
            autocompletion=complete_job,
        ),
    ],
    scale: ScaleOption = None,
    changes: Changes = None,
    imports: Imports = None,
    fit: Fit = None,
    generalise: Generalise = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where results go. [default: results/<id>-<scale> or results/<file's name>]",
            file_okay=False,
            show_default=False,
        ),
    ] = None,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Let theory take longer than the runs did, to leave nothing out.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment.

    Prints a verdict with its evidence, and writes the runs, a picture and a report to a directory.

    \b
      afterfit run boursier2025/fig2
      afterfit run notsawo2025/fig3 --scale quick --set penalty.strength=1e-4 --set seed=3
      afterfit run my.toml --out results/first-try
      afterfit run my_paper.py::fig2 --scale quick
      afterfit run my.toml --import my_module

    An experiment in a file has the tables [task], [model], [penalty], [dynamics] and [init]; `afterfit show
    ID` prints one to start from. A kind of your own is my_module:Class, and its module is imported if you say so with
    --import. Each run is saved as soon as it ends. Ctrl-C ends the current run early and
    keeps what was observed. --fit and --generalise are how the runs are judged here, in words and in pictures; their
    files keep the task's own thresholds. Results go to a directory that is new, empty or of an earlier `afterfit run`.
    """
    if not _is_experiment(job):
        one_thread_each()
    import_modules(imports or [])
    entry, label, experiments = read_job(job, scale)  # before anything is loaded: a name may be refused at once
    from afterfit._base.files import write_atomically
    from afterfit._base.html import picture_bytes
    from afterfit._reports import write_report

    settings = parse_changes(changes or [])
    experiments = {name: experiment.set(settings) for name, experiment in experiments.items()}
    for experiment in experiments.values():
        experiment.task.criteria.at(fit=fit, generalise=generalise)  # refused now, or not at all
    warn_of_length(experiments.values(), quiet)
    out = out or Path("results") / _as_file_name(label)
    places = _places(out / "runs", experiments)
    _take_directory(out, places.values())

    misplaced = []

    def save(name: str, run: Run) -> None:
        if not _keep(run, places[name]):
            misplaced.append(name)

    cache_compilations()
    runs, complete = _carry_out(experiments, label, save, quiet)
    runs = {name: run.judged(fit=fit, generalise=generalise) for name, run in runs.items()}
    for name, finished in runs.items():
        _tell(name if len(experiments) > 1 else "", finished, quiet)
    if not runs:
        raise KeyboardInterrupt
    picture = picture_bytes(_draw(entry if complete else None, runs, scale or "paper"))
    write_atomically(out / "figure.png", picture)
    write_report(
        out / "report.html",
        title=f"{entry.title} ({label} scale)" if entry else label,
        runs=runs,
        figure=picture if entry and complete else None,  # else it is the headline's curves, shown anyway
        about=_introduce(entry, job, experiments) if entry else "",
        command=_spell_command(job, scale, changes or [], imports or [], fit, generalise),
        theory=complete,  # whoever pressed Ctrl-C does not want to wait for it
        thorough=thorough,
        progress=False if quiet else None,
    )
    for what, place in (("runs", "runs"), ("picture", "figure.png"), ("report", "report.html")):
        say(str(out / place) if quiet else f"{what:8} {out / place}")
    if misplaced:
        raise typer.Exit(REFUSED)
    if not complete:
        if len(runs) < len(experiments):
            complain(f"{len(experiments) - len(runs)} of {len(experiments)} runs were not finished.")
        raise typer.Exit(INTERRUPTED)


def read_job(job: str, scale: str | None) -> tuple[Entry | None, str, dict[str, Experiment]]:
    """The gallery entry if it is one, a name for the job, and its experiments by name."""
    from afterfit.papers import find

    if _is_experiment(job):
        from afterfit._training.experiment import Experiment

        require(scale is None, f"--scale {scale} is for gallery entries: an experiment in a file has one setting.")
        label = readable(Path(job).stem)
        return None, label, {label: Experiment.from_toml(job)}
    entry, scale = find(job), scale or "paper"
    return entry, f"{entry.id} {scale}", entry.experiments(scale)


def _is_experiment(job: str) -> bool:
    """Whether a job is an experiment in a file, and not a gallery entry."""
    from afterfit.papers import is_python_file

    return job.endswith(".toml") or (Path(job).is_file() and not is_python_file(job))


def parse_changes(changes: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` options as values by name. A value is TOML if it can be, else a word."""
    parsed = {}
    for change in changes:
        name, equals, text = change.partition("=")
        require(bool(equals and name), f"--set wants NAME=VALUE, such as penalty.strength=1e-4, got {change!r}.")
        name = name.strip()
        require(name not in parsed, f"--set {name} is given twice: {parsed.get(name)!r} and {text}. Leave one out.")
        parsed[name] = _parse_value(text)
    return parsed


def _parse_value(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # no TOML; a number of thousands of digits; lists a thousand deep
        return text
    return table["value"] if len(table) == 1 else text  # a line break would have begun another key


def _as_file_name(name: str) -> str:
    """A name that every file system takes, and that stays where it is put."""
    return re.sub(r"[^\w.=+-]+", "-", name).lstrip(".").encode()[:200].decode(errors="ignore") or "run"


def _places(directory: Path, names: Iterable[str]) -> dict[str, Path]:
    """Where each run goes: no two to the same place."""
    places: dict[str, Path] = {}
    for name in names:
        known, plain = set(places.values()), _as_file_name(name)
        numbered = (directory / f"{plain}-{k}" for k in itertools.count(2))
        place = directory / plain
        places[name] = place if place not in known else next(other for other in numbered if other not in known)
    return places


def _take_directory(out: Path, places: Iterable[Path]) -> None:
    """Make the output directory and mark it as ours, unless something else would be written over."""
    from afterfit._training.run import replaceable

    require(
        not out.exists() or (out / _MARK).is_file() or not any(out.iterdir()),
        f"{out} has files in it that are not afterfit's, as far as can be told (there is no {_MARK}): choose another "
        "directory with --out, or empty this one.",
    )
    for place in places:
        for run in (place, _interrupted(place)):
            require(replaceable(run), f"{run} is not a run of afterfit's: move it away, or choose another --out.")
    for file in (out / "figure.png", out / "report.html"):
        require(not file.is_dir(), f"{file} is a directory: move it away, or choose another --out.")
    (out / "runs").mkdir(parents=True, exist_ok=True)
    (out / _MARK).write_text("Results of `afterfit run`, which may replace the runs, picture and report here.\n")


def _carry_out(
    experiments: Mapping[str, Experiment], label: str, save: Callable[[str, Run], None], quiet: bool
) -> tuple[dict[str, Run], bool]:
    """Run and save experiments: what came of them, in their order, and whether that is all of them."""
    from afterfit.papers import run_all

    kept: dict[str, Run] = {}

    def keep(name: str, run: Run) -> None:
        kept[name] = run
        save(name, run)

    try:
        runs = run_all(experiments, label, False if quiet else None, keep)
    except KeyboardInterrupt:
        return {name: kept[name] for name in experiments if name in kept}, False
    return runs, all(run.status != "interrupted" for run in runs.values())


def _keep(run: Run, place: Path) -> bool:
    """Save a run, elsewhere if need be: whether it is in its place. One cut short does not replace an earlier one."""
    with on_interrupt(signal.SIG_IGN):  # an impatient second Ctrl-C must not lose what the first one kept
        try:
            run.save(_interrupted(place) if run.status == "interrupted" and place.exists() else place)
            return True
        except (OSError, SpecError) as error:  # the disk is full, or something else is there by now
            why = str(getattr(error, "strerror", None) or error).rstrip(".")
            complain(f"{place} cannot be written ({why}): {_keep_elsewhere(run, place)}.")
            return False


def _keep_elsewhere(run: Run, place: Path) -> str:
    """Save a run beside the output directory or, if that cannot be either, among temporary files: what came of it."""
    for folder in (place.absolute().parents[2], Path(tempfile.gettempdir())):
        with contextlib.suppress(OSError):
            return f"the run is in {run.save(Path(tempfile.mkdtemp(prefix=f'{place.name}-', dir=folder)))}"
    return f"nor can {tempfile.gettempdir()}, and the run is lost"


def _interrupted(place: Path) -> Path:
    return place.with_name(f"{place.name}-interrupted")


def _tell(name: str, run: Run, quiet: bool) -> None:
    """The verdict on a run, and what went wrong with it."""
    from afterfit._reports import floor, warning

    verdict, said = run.verdict_or_reason()
    if quiet:
        say(f"{name}: {said}" if name else said)
    else:
        print_verdict(name, verdict.describe() if verdict else said)
        if run.method:
            say(f"  - followed by {run.method}.")
        if run.status == "finished" and run.message:
            say(f"  - {run.message}")
        if floor(run):
            say(f"  - {floor(run)}")
    if warning(run):
        complain(f"{name}: {warning(run)}" if name else warning(run))


def _draw(entry: Entry | None, runs: Mapping[str, Run], scale: str) -> Figure:
    """The entry's picture; of an experiment in a file, and where that fails, the headline's curves."""
    from afterfit.plot import plot_run

    if entry is not None:
        try:
            return entry.draw(runs, scale)
        except Exception as error:  # changed settings or a diverged run can be more than a picture expects
            complain(f"the picture of {entry.id} cannot be drawn from these runs ({error!r}): showing curves.")
    return plot_run(next(iter(runs.values())))


def _introduce(entry: Entry, job: str, experiments: Mapping[str, Experiment]) -> str:
    return (
        f"{entry.about}\n\n{entry.departure(experiments)}\n\n{entry.paper.title}, {entry.where}. "
        f"Its claims are checked by: afterfit verify {readable(job)}"
    )


def _spell_command(
    job: str,
    scale: str | None,
    changes: Sequence[str],
    imports: Sequence[str],
    fit: float | None,
    generalise: float | None,
) -> str:
    given = {"--scale": scale, "--fit": fit, "--generalise": generalise}
    options = [part for name, value in given.items() if value is not None for part in (name, str(value))]
    options += [part for name in imports for part in ("--import", name)]
    options += [part for change in changes for part in ("--set", change)]
    return readable(shlex.join(["afterfit", "run", job, *options]))
