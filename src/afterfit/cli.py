"""The command line: `afterfit list`, `show`, `run`, `verify` and `diagnose`.

Each command imports what it needs when it is called, so that help and refusals do not wait for what they do
not use. Results go to stdout; progress, warnings and errors go to stderr.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from afterfit.spec import SpecError, nearest, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from afterfit.experiment import Experiment
    from afterfit.papers import Claim, Entry
    from afterfit.run import Run

__all__ = ["app", "main"]

_REFUSED, _BUG, _INTERRUPTED, _UNREAD = 2, 70, 130, 141  # exit codes; 1 is a claim that does not hold


class _Stopped(BaseException):
    """Ctrl-C where a run cut short is of no use: training keeps what it has on KeyboardInterrupt only."""


def _stop(*_: object) -> None:
    raise _Stopped


@contextlib.contextmanager
def _on_interrupt(handler: Any) -> Iterator[None]:
    """Handle Ctrl-C in another way for a while, unless it is ignored, as in a background job."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Commands(TyperGroup):
    """The one place where what went wrong becomes a sentence on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a reader that went away can still be dealt with
            return result
        except SpecError as error:
            _complain(f"Error: {error}")
            raise typer.Exit(_REFUSED) from None
        except (KeyboardInterrupt, _Stopped):
            _complain("Interrupted.")
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:  # `afterfit list | head`: nobody reads on, which is no news to anybody
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_UNREAD) from None
        except OSError as error:
            _complain(f"Error: cannot use {error.filename or 'the output'}: {error.strerror or error}.")
            raise typer.Exit(_REFUSED) from None


app = typer.Typer(
    name="afterfit",
    cls=_Commands,
    no_args_is_help=True,
    # Plain help and errors: boxes drawn around them break sentences, and look broken in a pipe.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the `afterfit` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # an old terminal without ≤ or λ still gets its answer
    try:
        app()
    except Exception as error:
        if os.environ.get("AFTERFIT_TRACEBACK"):
            raise
        first = (str(error).strip().splitlines() or [""])[0]
        _complain(
            f"Error: {type(error).__name__}: {first}. This is a bug in afterfit: please report it with "
            "what AFTERFIT_TRACEBACK=1 in the environment shows."
        )
        sys.exit(_BUG)


# --------------------------------------------------------------------------------------------- words and ids


def _say(text: str = "", *, style: str | None = None, bold: bool = False, file: TextIO | None = None) -> None:
    """Print a line, coloured on a terminal only and never against NO_COLOR."""
    plain = bool(os.environ.get("NO_COLOR"))
    typer.secho(text, fg=style, bold=bold or None, file=file, color=False if plain else None)


def _complain(text: str) -> None:
    """A warning or an error, on stderr."""
    _say(text, style="red", file=sys.stderr)


def _wrap(text: str, indent: str = "") -> str:
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    return textwrap.fill(" ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent)


def _complete_entry(incomplete: str) -> list[tuple[str, str]]:
    """Gallery ids for the shell."""
    from afterfit.papers import ENTRIES

    return [(id, entry.title) for id, entry in ENTRIES.items() if id.startswith(incomplete)]


def _complete_job(incomplete: str) -> list[tuple[str, str]]:
    """Gallery ids, and experiments in files."""
    files = [path for path in Path().glob("*.toml") if path.name.startswith(incomplete)]
    return [*_complete_entry(incomplete), *((path.name, "an experiment in a file") for path in files)]


def _complete_group(incomplete: str) -> list[tuple[str, str]]:
    """Gallery ids, and papers."""
    papers = [(name, title) for name, title in _papers().items() if name.startswith(incomplete)]
    return [*papers, *_complete_entry(incomplete)]


def _complete_scale(incomplete: str) -> list[tuple[str, str]]:
    scales = {"quick": "made small enough for a test", "paper": "the paper's own setting"}
    return [(name, help) for name, help in scales.items() if name.startswith(incomplete)]


def _papers() -> dict[str, str]:
    """The papers that have entries, with their titles."""
    from afterfit.papers import ENTRIES, PAPERS

    return {paper: PAPERS.get(paper, paper) for paper in dict.fromkeys(e.paper for e in ENTRIES.values())}


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only what a script needs, and no progress bar.")]


# --------------------------------------------------------------------------------------------------- commands


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        _say(f"afterfit {version('afterfit')}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """What training does after the training loss has reached zero.

    The gallery holds figures and theorems of papers on grokking as experiments that check themselves. Run
    one, change a setting, run your own from a TOML file, or diagnose curves that you already have.

    \b
      afterfit list                                        what there is
      afterfit show boursier2025/fig2                      what it is, its setting, its claims
      afterfit run boursier2025/fig2 --scale quick         run it: verdict, picture, report
      afterfit run boursier2025/fig2 --set penalty.strength=1e-4
      afterfit verify boursier2025                         do the paper's claims hold?
      afterfit diagnose curves.csv                         did this run grok?

    Tab completes ids once `afterfit --install-completion` has been run. Exit codes: 0 done, 1 a claim does
    not hold, 2 refused, 130 interrupted.
    """


@app.command("list")
def list_(quiet: Quiet = False) -> None:
    """List the gallery, by paper.

    With --quiet only the ids, one a line. Then `afterfit show ID` says what an entry is, and `afterfit run
    ID` runs it.
    """
    from afterfit.papers import ENTRIES

    width = max((len(id) for id in ENTRIES), default=0)
    for paper, title in _papers().items():
        if not quiet:
            _say(title, bold=True)
        for entry in ENTRIES.values():
            if entry.paper == paper:
                _say(entry.id if quiet else f"  {entry.id:{width}}  {entry.title} ({entry.where})")


@app.command()
def show(
    id: Annotated[str, typer.Argument(help="A gallery id.", autocompletion=_complete_entry)],
    scale: Annotated[
        str, typer.Option(help="Whose setting: quick or paper.", autocompletion=_complete_scale)
    ] = "paper",
) -> None:
    """Show what an entry is, its claims and its setting.

    The setting is printed by the names that `afterfit run --set` takes. It is also valid TOML: saved in a
    file, `afterfit run my.toml` runs it.
    """
    from afterfit.papers import find
    from afterfit.papers.gallery import check_scale
    from afterfit.report import flatten, to_toml

    entry = find(id)
    check_scale(scale)
    experiments = {name: experiment.to_dict() for name, experiment in entry.experiments(scale).items()}
    _say(f"{entry.id}: {entry.title}", bold=True)
    _say(_wrap(f"{_papers()[entry.paper]}, {entry.where}"))
    _say(f"\n{_wrap(entry.about)}\n")
    _say("Claims", bold=True)
    for claim in entry.claims:
        _say(_wrap(f"- {claim}", "  "))
    (name, headline), *others = experiments.items()
    _say(f"\nSetting of the run {name!r} at {scale} scale", bold=True)
    _say(textwrap.indent(to_toml(headline), "  "))
    if others:
        _say(f"\nThe other runs differ from {name!r} in", bold=True)
    for other, spec in others:
        flat = flatten(headline)
        _say(f"  {other}: " + ", ".join(to_toml({k: v}) for k, v in flatten(spec).items() if flat.get(k) != v))


@app.command()
def run(
    job: Annotated[
        str,
        typer.Argument(
            metavar="ID|FILE",
            help="A gallery id or a TOML file with an experiment.",
            autocompletion=_complete_job,
        ),
    ],
    scale: Annotated[
        str | None,
        typer.Option(
            help="Of a gallery entry: quick, made small, or paper, its own setting. [default: paper]",
            autocompletion=_complete_scale,
            show_default=False,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change a setting, by its dotted name. Repeatable."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where results go. [default: results/<id>-<scale> or results/<file's name>]",
            file_okay=False,
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run an experiment.

    Prints a verdict with its evidence, and writes the runs, a picture and a report to a directory.

    \b
      afterfit run boursier2025/fig2
      afterfit run notsawo2025/fig3 --scale quick --set penalty.strength=1e-4 --set seed=3
      afterfit run my.toml --out results/first-try

    An experiment in a file has the tables [task], [model], [penalty], [dynamics] and [init]; `afterfit show
    ID` prints one to start from. Each run is saved as soon as it ends. Ctrl-C ends the current run early and
    keeps what was observed.
    """
    from afterfit.report import picture_bytes, write_atomically, write_report

    entry, label, experiments = _read_job(job, scale)
    settings = _parse_changes(changes or [])
    experiments = {name: experiment.set(settings) for name, experiment in experiments.items()}
    for experiment in experiments.values():  # all of them now, not when their turn comes
        experiment.model.parameters(experiment.task.signature)
    out = _claim_directory(out or Path("results") / label.replace("/", "-").replace(" ", "-"))

    _cache_compilations()
    runs, complete = _carry_out(experiments, label, out / "runs", quiet)
    for name, finished in runs.items():
        _tell(name if len(experiments) > 1 else "", finished, quiet)
    if not runs:
        raise KeyboardInterrupt
    picture = picture_bytes(_draw(entry if complete else None, runs))
    write_atomically(out / "figure.png", picture)
    write_report(
        out / "report.html",
        title=f"{entry.title} ({label} scale)" if entry else label,
        runs=runs,
        figure=picture if entry and complete else None,  # else it is the headline's curves, shown anyway
        about=_introduce(entry) if entry else "",
        command=_spell_command(job, scale, changes or []),
    )
    for what, place in (("runs", "runs"), ("picture", "figure.png"), ("report", "report.html")):
        _say(str(out / place) if quiet else f"{what:8} {out / place}")
    if not complete:
        if len(runs) < len(experiments):
            _complain(f"{len(experiments) - len(runs)} of {len(experiments)} runs were not started.")
        raise typer.Exit(_INTERRUPTED)


@app.command()
def verify(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID|PAPER]...",
            help="Gallery ids, or papers such as lyu2023; everything when none is given.",
            autocompletion=_complete_group,
        ),
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="quick takes minutes for the whole gallery; paper is each paper's own setting.",
            autocompletion=_complete_scale,
        ),
    ] = "quick",
    json_file: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE|-", help="Also write the ledger as JSON; - writes it, alone, to stdout."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Check whether the papers' claims hold.

    Runs gallery entries and prints the ledger: each claim, what the paper says, what was measured, whether it
    holds, and the seconds it took. At quick scale unless told otherwise.

    \b
      afterfit verify                             everything, quickly
      afterfit verify lyu2023 --scale paper       one paper, at its own scale
      afterfit verify --json ledger.json          for a program to read

    Exits with 1 if a claim does not hold or an entry ends in an error; the other entries go on. The JSON is a
    list of objects with the keys id, claim, paper_says, measured, holds, scale and seconds; the file is
    brought up to date after every claim, so that an interruption loses nothing.
    """
    from afterfit.papers.gallery import check_scale

    check_scale(scale)
    entries = _choose_entries(ids or [])
    if json_file not in (None, "-"):
        _check_writable(Path(json_file))
    # A live progress bar takes over sys.stdout for the sake of the terminal: hold on to a pipe.
    stdout = sys.stdout
    stream = sys.stderr if json_file == "-" else stdout
    ledger = _Ledger(stream, quiet)
    _cache_compilations()
    errors = 0
    try:
        with _on_interrupt(_stop):  # a claim must not be judged by a run that was cut short
            for entry in entries:
                try:
                    for claim in entry.verify(scale, progress=False if quiet else None):
                        ledger.claims.append(claim)
                        if json_file not in (None, "-"):
                            _write_json(Path(json_file), ledger.claims)
                        ledger.show(claim)
                except BrokenPipeError:
                    raise
                except Exception as error:
                    errors += 1
                    _complain(f"error  {entry.id}: {type(error).__name__}: {error}")
    finally:
        if json_file == "-":
            typer.echo(_as_json(ledger.claims), file=stdout)
    held = sum(claim.holds for claim in ledger.claims)
    failed = f", {errors} entries ended in an error" if errors else ""
    _say(f"{held} claims hold, {len(ledger.claims) - held} do not{failed}", bold=True, file=stream)
    if errors or held < len(ledger.claims):
        raise typer.Exit(1)


@app.command()
def diagnose(
    file: Annotated[Path, typer.Argument(metavar="CURVES.CSV", help="A CSV file whose first line names its columns.")],
    time: Annotated[str | None, typer.Option(metavar="COLUMN", help="Time, steps or epochs.")] = None,
    train: Annotated[str | None, typer.Option(metavar="COLUMN", help="The training curve.")] = None,
    test: Annotated[str | None, typer.Option(metavar="COLUMN", help="The test curve.")] = None,
    train_like: Annotated[
        str | None, typer.Option(metavar="error|accuracy", help="How to read the training curve.")
    ] = None,
    test_like: Annotated[str | None, typer.Option(metavar="error|accuracy", help="How to read the test curve.")] = None,
    fit: Annotated[float | None, typer.Option(help="The training level that counts as fitted.")] = None,
    generalise: Annotated[float | None, typer.Option(help="The test level that counts as generalised.")] = None,
    norm: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A norm to compare the test error with. Repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Diagnose training curves from anywhere.

    Says whether they show grokking, misgrokking or something else, with the evidence.

    \b
      afterfit diagnose curves.csv
      afterfit diagnose log.csv --time epoch --train train_acc --test val_acc --generalise 0.9

    What is not given is guessed, from the names of the columns and from the curves, and printed with the
    verdict: train_loss, train_error or train_accuracy, test_… or val_…, and time, step or epoch.
    """
    from afterfit.diagnose import diagnose as judge
    from afterfit.diagnose import explain_criteria, guess_criteria, read_csv

    columns = _read_columns(file)
    time = time or _guess_column("time", columns)
    train = train or _guess_column("train", columns)
    test = test or _guess_column("test", columns)
    curves: dict[str, Any] = read_csv(file, time=time, train=train, test=test, norms=norm or [])
    like = (train_like or _read_as(train), test_like or _read_as(test))
    criteria = guess_criteria(
        curves["train"],
        curves["test"],
        like,  # pyright: ignore[reportArgumentType]  # None leaves that curve to be guessed from its values
        fit,
        generalise,
    )
    verdict = judge(
        curves["time"],
        curves["train"],
        curves["test"],
        criteria,
        norms={name: curves[name] for name in norm or []},
    )
    if as_json:
        _say(json.dumps(verdict.to_dict(), indent=2, ensure_ascii=False))
    elif quiet:
        _say(str(verdict))
    else:
        _print_verdict("", verdict.describe())
        _say(f"Columns: {time!r} is time, {train!r} is train, {test!r} is test.")
        _say(f"Criteria: {explain_criteria(criteria)}")


# -------------------------------------------------------------------------------------------------------- run


def _read_job(job: str, scale: str | None) -> tuple[Entry | None, str, dict[str, Experiment]]:
    """The gallery entry if it is one, a name for the job, and its experiments by name."""
    if job.endswith(".toml") or Path(job).is_file():
        from afterfit.experiment import Experiment

        require(scale is None, f"--scale {scale} is for gallery entries: an experiment in a file has one setting.")
        return None, Path(job).stem, {Path(job).stem: Experiment.from_toml(job)}
    from afterfit.papers import find
    from afterfit.papers.gallery import check_scale

    entry, scale = find(job), scale or "paper"
    check_scale(scale)
    return entry, f"{entry.id} {scale}", entry.experiments(scale)


def _parse_changes(changes: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` options as values by name. A value is TOML if it can be, else a word."""
    parsed = {}
    for change in changes:
        name, equals, text = change.partition("=")
        require(bool(equals and name), f"--set wants NAME=VALUE, such as penalty.strength=1e-4, got {change!r}.")
        parsed[name.strip()] = _parse_value(text)
    return parsed


def _parse_value(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return table["value"] if len(table) == 1 else text  # a line break would have begun another key


def _claim_directory(out: Path) -> Path:
    """Make the output directory, unless something else lives there."""
    ours = (out / "runs").is_dir() or (out / "report.html").is_file()
    require(
        ours or not out.exists() or not any(out.iterdir()),
        f"{out} has files in it that are not afterfit's: choose another directory with --out.",
    )
    (out / "runs").mkdir(parents=True, exist_ok=True)
    return out


def _carry_out(
    experiments: Mapping[str, Experiment], label: str, directory: Path, quiet: bool
) -> tuple[dict[str, Run], bool]:
    """Run and save one experiment after the other: what came of them, and whether that is all of them."""
    from afterfit.progress import progress_bar
    from afterfit.train import run_experiment

    shown = False if quiet else None
    many = len(experiments) > 8  # runs are then counted, under one bar, instead of watched one by one
    runs: dict[str, Run] = {}
    with progress_bar(label, shown if many else False) as show:
        for name, experiment in experiments.items():
            try:
                run = run_experiment(experiment, progress=False if many else shown)
            except KeyboardInterrupt:  # before there was anything to observe
                return runs, False
            runs[name] = run
            _keep(run, directory / re.sub(r"[^\w.=+-]+", "-", name))
            if run.status == "interrupted":
                return runs, False
            show(len(runs) / len(experiments))
    return runs, True


def _keep(run: Run, directory: Path) -> None:
    """Save a run; one that was interrupted does not replace an earlier one."""
    if run.status == "interrupted" and directory.exists():
        directory = directory.with_name(f"{directory.name}-interrupted")
    with _on_interrupt(signal.SIG_IGN):  # an impatient second Ctrl-C must not lose what the first one kept
        run.save(directory)


def _tell(name: str, run: Run, quiet: bool) -> None:
    """The verdict on a run, and what went wrong with it."""
    from afterfit.report import warning

    if quiet:
        _say(f"{name}: {run.verdict}" if name else str(run.verdict))
    else:
        _print_verdict(name, run.verdict.describe())
    if run.message:
        _complain(f"{name}: {warning(run)}" if name else warning(run))


def _print_verdict(name: str, description: str) -> None:
    verdict, *evidence = description.splitlines()
    _say(f"{name}: {verdict}" if name else verdict, bold=True)
    for line in evidence:
        _say(line)


def _draw(entry: Entry | None, runs: Mapping[str, Run]) -> Figure:
    """The entry's picture; of an experiment in a file, and where that fails, the headline's curves."""
    from afterfit.plot import plot_run

    if entry is not None:
        try:
            return entry.picture(runs)
        except Exception as error:  # changed settings or a diverged run can be more than a picture expects
            _complain(f"the picture of {entry.id} cannot be drawn from these runs ({error!r}): showing curves.")
    return plot_run(next(iter(runs.values())))


def _introduce(entry: Entry) -> str:
    return (
        f"{entry.about}\n\n{_papers()[entry.paper]}, {entry.where}. "
        f"Its claims are checked by: afterfit verify {entry.id}"
    )


def _spell_command(job: str, scale: str | None, changes: Sequence[str]) -> str:
    options = [*(["--scale", scale] if scale else []), *(part for c in changes for part in ("--set", c))]
    return shlex.join(["afterfit", "run", job, *options])


def _cache_compilations() -> None:
    """Keep compiled code between calls of this command, in the user's cache directory.

    Only the command line does this: the library leaves JAX's configuration alone.
    """
    import jax

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "afterfit" / "jax"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(cache, os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


# ----------------------------------------------------------------------------------------------------- verify


def _choose_entries(ids: Sequence[str]) -> list[Entry]:
    """The entries of these ids and papers, each once; all when none is named."""
    from afterfit.papers import ENTRIES

    papers = _papers()
    for id in ids:
        if id not in ENTRIES and id not in papers:
            raise SpecError(f"there is no gallery entry or paper {id!r}: {nearest(id, [*ENTRIES, *papers])}")
    return [entry for entry in ENTRIES.values() if not ids or entry.id in ids or entry.paper in ids]


@dataclasses.dataclass
class _Ledger:
    """Claims as they arrive: a table on a terminal, and lines that read well anywhere else."""

    stream: TextIO
    quiet: bool
    claims: list[Claim] = dataclasses.field(default_factory=list)

    def show(self, claim: Claim) -> None:
        if self.quiet:
            self._say(claim, f"{claim.id}: {claim.claim}")
        elif self.stream.isatty():
            self._add_row(claim)
        else:
            self._say(claim, f"{claim.id}: {claim.claim} ({claim.scale}, {claim.seconds:.1f} s)")
            _say(f"       paper:    {claim.paper_says}", file=self.stream)
            _say(f"       measured: {claim.measured}", file=self.stream)

    def _say(self, claim: Claim, text: str) -> None:
        _say(f"{'holds' if claim.holds else 'FAILS'}  {text}", file=self.stream)

    def _add_row(self, claim: Claim) -> None:
        """One row of a table whose columns have the same width in every row, so that it can grow."""
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        # The stream is looked up anew: a live progress bar takes the row and stays below it.
        console = Console(stderr=self.stream is sys.__stderr__, highlight=False)
        before = self.claims[-2] if len(self.claims) > 1 else None
        table = Table(box=None, expand=True, show_header=before is None, pad_edge=False)
        table.add_column("", width=5)
        for heading, ratio in (("claim", 3), ("the paper says", 4), ("measured", 4)):
            table.add_column(heading, ratio=ratio)
        table.add_column("seconds", width=7, justify="right")
        mark = Text("holds", style="green") if claim.holds else Text("FAILS", style="bold red")
        words = (Text(text) for text in (claim.claim, claim.paper_says, claim.measured))
        table.add_row(mark, *words, f"{claim.seconds:.1f}")
        if before is None or before.id != claim.id:
            console.print(Text(f"{claim.id} ({claim.scale} scale)", style="bold"))
        console.print(table)


def _as_json(claims: Sequence[Claim]) -> str:
    rows = [{**dataclasses.asdict(claim), "holds": bool(claim.holds)} for claim in claims]
    return json.dumps(rows, indent=2, ensure_ascii=False)


def _write_json(path: Path, claims: Sequence[Claim]) -> None:
    from afterfit.report import write_atomically

    write_atomically(path, f"{_as_json(claims)}\n".encode())


def _check_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the work whose results it is for."""
    require(path.parent.is_dir(), f"--json {path}: there is no directory {path.parent}.")
    require(not path.is_dir(), f"--json {path} is a directory: name a file in it.")
    require(os.access(path.parent, os.W_OK), f"--json {path}: the directory {path.parent} cannot be written to.")


# --------------------------------------------------------------------------------------------------- diagnose

_METRICS = ("loss", "error", "accuracy", "acc")
_NAMES = {
    "time": ("time", "t", "step", "steps", "epoch", "epochs", "iteration", "iterations"),
    "train": tuple(f"{side}_{metric}" for metric in _METRICS for side in ("train", "training")),
    "test": tuple(f"{side}_{metric}" for metric in _METRICS for side in ("test", "val", "valid", "validation", "eval")),
}


def _read_columns(path: Path) -> list[str]:
    """The names in the first line of a CSV file."""
    require(path.is_file(), f"there is no file {path}.")
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = file.readline()
    except UnicodeDecodeError:
        raise SpecError(f"{path} is not a text file: give a CSV file.") from None
    rows = (next(csv.reader([header], delimiter=separator), []) for separator in ",;\t")
    return [name.strip() for name in max(rows, key=len)]


def _guess_column(role: str, columns: Sequence[str]) -> str:
    """The column that is `time`, `train` or `test` by its name, however it is written."""
    plain = {re.sub(r"[^a-z]+", "_", column.lower()).strip("_"): column for column in columns}
    for name in _NAMES[role]:
        if name in plain:
            return plain[name]
    raise SpecError(f"cannot tell which column is {role}: name it with --{role}, one of: {', '.join(columns)}.")


def _read_as(column: str) -> str | None:
    """Whether a column is an error or an accuracy, by its name; None if that does not say."""
    name = column.lower()
    return "accuracy" if "acc" in name else "error" if "loss" in name or "err" in name else None
