"""`afterfit sweep` and `afterfit report`."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from afterfit._base.errors import SpecError, require
from afterfit._cli._app import (
    Changes,
    Fit,
    Generalise,
    Imports,
    Quiet,
    ScaleOption,
    StoreOption,
    cache_compilations,
    complain,
    complete_job,
    import_modules,
    one_thread_each,
    say,
    warn_of_length,
)
from afterfit._cli.run import parse_changes, read_job

if TYPE_CHECKING:
    from afterfit._sweeps.sweep import Sweep
    from afterfit._training.experiment import Experiment

__all__ = ["report", "sweep"]

_FAILED = 1  # exit code


def sweep(
    job: Annotated[
        str,
        typer.Argument(
            metavar="ID|FILE",
            help="A gallery id or an entry of your own (its headline run), or a TOML file with an experiment.",
            autocompletion=complete_job,
        ),
    ],
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="A setting and its values: log:1e-6:1e-2:17, lin:0:1:5, or 1e-3,1e-2. Repeatable.",
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds. [default: 1]", show_default=False)] = None,
    scale: ScaleOption = None,
    changes: Changes = None,
    imports: Imports = None,
    on: Annotated[
        str | None,
        typer.Option(
            help="The address of a Dask scheduler. [default: the cores of this machine]",
            show_default=False,
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            help="Gigabytes for the runs under way and, 0.3 each, the processes that help. [default: 4, or 0.6 a core]",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = "results/store",
    quiet: Quiet = False,
) -> None:
    """Run an experiment over values of its settings.

    Runs that are in the store already are not computed again: the same command goes on where it was interrupted.

    \b
      afterfit sweep my.toml
      afterfit sweep notsawo2025/fig3 --scale quick --over penalty.strength=log:1e-6:1e-2:17 --seeds 5
      afterfit sweep my.toml --over init.scale=0.1,1,10 --on tcp://scheduler:8786

    A file may say it all in a table [sweep]: `seeds = 5` and in [sweep.over] lines such as
    `"penalty.strength" = "log:1e-6:1e-2:17"`; or [sweep.refine] with `names`, `budget` and `ranges`, to look for the
    boundary between verdicts. Options come before what the file says. Kinds of your own need --import, as
    in `afterfit run`. `afterfit report SWEEP` makes a page of it.
    """
    from afterfit._base.errors import SweepFailed
    from afterfit._training.experiment import Experiment

    one_thread_each()
    import_modules(imports or [])
    asked = _ask(job, scale, over or [], seeds, changes or [], store)
    assert isinstance(asked.spec, Experiment)  # one that can be run, being made here
    most = {name: max(values) for name, values in asked.knobs.items() if name == "dynamics.steps"}
    warn_of_length([asked.spec.set(most)], quiet)
    if not quiet:
        say(f"sweep {asked.id}: {_in_short(asked)}")
        there = 0 if asked.refine else len(asked.points) * len(asked.seeds) - len(asked.missing)
        if there:
            say(f"{there} of them are there already")
    cache_compilations()
    try:
        asked.run(on, memory=memory, progress=False if quiet else None)
    except SweepFailed as failure:
        complain(str(failure))
        raise typer.Exit(_FAILED) from None
    if quiet:
        say(asked.id)
        return
    _tell(asked)
    where = "" if store == "results/store" else f" --store {shlex.quote(store)}"
    say(f"\nafterfit report {asked.id}{where}    makes a page of it")


def report(
    id: Annotated[str, typer.Argument(metavar="SWEEP", help="A sweep's id, or the beginning of it.")],
    out: Annotated[
        Path | None, typer.Option(help="The file. [default: results/sweep-<id>.html]", show_default=False)
    ] = None,
    fit: Fit = None,
    generalise: Generalise = None,
    store: StoreOption = "results/store",
    quiet: Quiet = False,
) -> None:
    """Make a page of a sweep.

    One HTML file with nothing beside it: phase diagram, curves, fitted laws with intervals, tables, and how to
    reproduce it. A sweep that is not complete is shown as far as it is. --fit and --generalise judge its runs by other
    thresholds than the task's.
    """
    from afterfit._reports import report as write
    from afterfit._sweeps.store import Store
    from afterfit._sweeps.sweep import Sweep

    place = Store(store)
    asked = Sweep.from_dict(place.sweep(id), place)
    out = out or Path("results") / f"sweep-{asked.id}.html"
    write(asked.judged(fit=fit, generalise=generalise), out)
    say(str(out) if quiet else f"report  {out}")


def _ask(job: str, scale: str | None, over: list[str], seeds: int | None, changes: list[str], store: str) -> Sweep:
    """The sweep that the command line and the file together ask for."""
    from afterfit._sweeps.sweep import sweep as make

    experiment, table = _read(job, scale)
    asked = _knobs(over) if over else _knobs_of_file(table)
    how_many = table.get("seeds", 1) if seeds is None else seeds
    settings = parse_changes(changes)
    for name in asked if isinstance(asked, dict) else asked.names:
        require(name not in settings, f"{name} is both set (--set) and swept over: leave one out.")
    return make(experiment.set(settings), asked, how_many, store)


def _knobs(over: list[str]) -> dict[str, tuple[Any, ...]]:
    """The knobs of the command line."""
    from afterfit._sweeps.knobs import parse_knob

    knobs = list(map(parse_knob, over))
    for name, times in Counter(name for name, _ in knobs).items():
        require(times == 1, f"--over {name} is given {times} times: put its values together, {name}=1e-3,1e-2.")
    return dict(knobs)


def _knobs_of_file(table: Mapping[str, Any]) -> Any:
    """The knobs of a file's table [sweep], or where it wants to look for boundaries."""
    from afterfit._sweeps.knobs import parse_values
    from afterfit._sweeps.refine import read_refine

    require(
        not ("over" in table and "refine" in table),
        "the file has both [sweep.over] and [sweep.refine], and a sweep does one of them: take the other out.",
    )
    if "refine" in table:
        return read_refine(table["refine"], "[sweep.refine]")
    over = table.get("over", {})
    require(isinstance(over, Mapping), f"[sweep.over] must be a table of settings and their values, got {over!r}.")
    require(
        bool(over),
        "the sweep does not say what it goes over: give --over penalty.strength=log:1e-6:1e-2:17, or a table "
        "[sweep.over] in the file.",
    )
    return {name: parse_values(values, name) for name, values in over.items()}


def _read(job: str, scale: str | None) -> tuple[Experiment, Mapping[str, Any]]:
    """The experiment of a file or the headline of a gallery entry, and the file's table [sweep]."""
    from afterfit._training.experiment import Experiment

    entry, _, experiments = read_job(job, scale)
    headline = next(iter(experiments.values()))
    return headline, {} if entry else Experiment.pop_sweep(Experiment.read_toml(job))


def _in_short(asked: Sweep) -> str:
    """How many runs it is, said at once: which of many are there takes a while to find out."""
    size = "x".join(str(len(values)) for values in asked.knobs.values())
    if asked.refine:
        return f"up to {asked.refine.budget} runs at the boundary of {asked.refine.on} on a grid of {size}"
    seeds = f"{len(asked.seeds)} seed{'s' if len(asked.seeds) > 1 else ''}"
    return f"{size} values x {seeds} = {len(asked.points) * len(asked.seeds)} runs"


def _tell(asked: Sweep) -> None:
    """How many runs came to which verdict, and the laws they follow."""
    from afterfit._sweeps.results import count_verdicts

    for kind, count in count_verdicts(asked.dataset).most_common():
        say(f"{count:6}  {kind}")
    for name, values in asked.knobs.items():
        if len(values) > 1 and all(isinstance(value, float) and value > 0 for value in values):
            try:
                say(str(asked.scaling_law("t_gen", x=name)))
            except SpecError as error:
                say(f"no law of t_gen against {name}: {error}")
