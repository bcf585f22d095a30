"""The Typer app, how it ends and what it prints: shared by the commands."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import sys
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from afterfit._base.errors import AfterfitError, SpecError, error_in_words, require

if TYPE_CHECKING:
    from afterfit._training.experiment import Experiment

__all__ = [
    "INTERRUPTED",
    "REFUSED",
    "Changes",
    "Fit",
    "Generalise",
    "Imports",
    "Quiet",
    "ScaleOption",
    "StoreOption",
    "app",
    "cache_compilations",
    "complain",
    "complete_entry",
    "complete_group",
    "complete_job",
    "complete_paper",
    "complete_scale",
    "import_modules",
    "main",
    "on_interrupt",
    "one_thread_each",
    "print_verdict",
    "readable",
    "say",
    "stop",
    "warn_of_length",
    "wrap",
]

_LONG = 60.0  # seconds that are said beforehand
REFUSED, _BUG, INTERRUPTED, _UNREAD = 2, 70, 130, 141  # exit codes; 1 is a claim that does not hold


_LESS = "Choose fewer examples, a smaller model or fewer observations."


class _Stopped(BaseException):
    """Ctrl-C where a run cut short is of no use: training keeps what it has on KeyboardInterrupt only."""


def stop(*_: object) -> None:
    raise _Stopped


@contextlib.contextmanager
def on_interrupt(handler: Any) -> Iterator[None]:
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
        except AfterfitError as error:
            complain(f"Error: {error}")
            raise typer.Exit(REFUSED) from None
        except MemoryError:
            complain(f"Error: there is not enough memory for this. {_LESS}")
            raise typer.Exit(REFUSED) from None
        except RecursionError:
            complain("Error: something in this is nested too deeply: write it with fewer levels.")
            raise typer.Exit(REFUSED) from None
        except RuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):  # what JAX says when there is no memory
                raise
            complain(f"Error: there is not enough memory for this. {_LESS}")
            raise typer.Exit(REFUSED) from None
        except (KeyboardInterrupt, _Stopped):
            complain("Interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # `afterfit list | head`: nobody reads on, which is no news to anybody
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_UNREAD) from None
        except OSError as error:
            complain(f"Error: cannot use {error.filename or 'the output'}: {error.strerror or error}.")
            raise typer.Exit(REFUSED) from None


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
    warnings.formatwarning = lambda message, *_: f"{message}\n"  # a sentence, without the line of code it came from
    try:
        app()
    except SystemExit as ended:
        if "afterfit._base.turns" in sys.modules:  # something was computed, and may have been left at Ctrl-C
            from afterfit._base.turns import cut_off

            cut_off(ended.code if isinstance(ended.code, int) else 0, surely=ended.code == INTERRUPTED)
        raise
    except Exception as error:
        if os.environ.get("AFTERFIT_TRACEBACK"):
            raise
        first = (str(error).strip().splitlines() or [""])[0]
        complain(
            f"Error: {type(error).__name__}: {first}. This is a bug in afterfit: please report it with "
            "what AFTERFIT_TRACEBACK=1 in the environment shows."
        )
        sys.exit(_BUG)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        say(f"afterfit {version('afterfit')}")
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
      afterfit gallery --out site/                         all of it as pages to browse
      afterfit diagnose curves.csv                         did this run grok?
      afterfit runs ls                                     what has been stored
      afterfit data fetch mnist                            images, for tasks of images

    Tab completes ids once `afterfit --install-completion` has been run. Exit codes: 0 done, 1 a claim does
    not hold, 2 refused, 130 interrupted.
    """


# ---------------------------------------------------------------------------------------- words and the cache


def say(text: str = "", *, style: str | None = None, bold: bool = False, file: TextIO | None = None) -> None:
    """Print a line, coloured on a terminal only and never against NO_COLOR."""
    plain = bool(os.environ.get("NO_COLOR"))
    typer.secho(text, fg=style, bold=bold or None, file=file, color=False if plain else None)


def complain(text: str) -> None:
    """A warning or an error, on stderr."""
    say(text, style="red", file=sys.stderr)


def readable(text: str) -> str:
    """A name as text that can be written anywhere: of a file whose name is no UTF-8, with marks for what is not."""
    return text.encode(errors="replace").decode()


def wrap(text: str, indent: str = "") -> str:
    width = min(shutil.get_terminal_size((100, 24)).columns, 100)
    return textwrap.fill(" ".join(text.split()), width, initial_indent=indent, subsequent_indent=indent)


def print_verdict(name: str, description: str) -> None:
    verdict, *evidence = description.splitlines()
    say(f"{name}: {verdict}" if name else verdict, bold=True)
    for line in evidence:
        say(line)


def warn_of_length(experiments: Iterable[Experiment], quiet: bool) -> None:
    """Refuse what is too large, all of it now and not when its turn comes; say how long the rest takes, if long."""
    from afterfit._base.machine import in_words
    from afterfit._training.size import check_size

    seconds = max(check_size(experiment).seconds for experiment in experiments)
    if seconds >= _LONG and not quiet:
        say(f"A run takes {in_words(seconds, 'seconds')} at least, by its steps and observations.")


def cache_compilations() -> None:
    """Keep compiled code between calls of this command, in the user's cache directory, or where they told JAX to.

    Only the command line does this: the library leaves JAX's configuration alone.
    """
    import jax

    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "afterfit" / "jax"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if os.access(cache, os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(cache))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def one_thread_each() -> None:
    """Let this process and its helpers compute with one thread each: before JAX computes anything.

    XLA has a pool of a thread a core in every process. Processes of several threads wait for one another, and the steps
    of a small net take two to three times as long even when there is but one. NPROC=4 in the environment has it
    otherwise. Only the command line does this, and not for a single experiment, which has all cores to itself.
    """
    os.environ.setdefault("NPROC", "1")


def import_modules(names: Iterable[str]) -> None:
    """Import the modules that the user names, for the classes that they define: those of this directory come first."""
    for name in names:
        require(
            all(part.isidentifier() for part in name.split(".")) and not name.endswith(".py"),
            f"--import wants the name of a module, such as my_module for the file my_module.py here, got {name!r}.",
        )
        here = str(Path.cwd())
        if here not in sys.path:
            sys.path.insert(0, here)  # as `python -m` does; processes that help look there too
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            raise SpecError(f"{name} cannot be imported: {error_in_words(error).rstrip('.')}.") from error


# ----------------------------------------------------------------------------------------- ids and completion


def complete_entry(incomplete: str) -> list[tuple[str, str]]:
    """Gallery ids for the shell, Python files, and the entries of a file once it is named."""
    from afterfit.papers import entries, entries_of

    file, named, _ = incomplete.partition("::")
    if not named:
        ids = [(id, entry.title) for id, entry in entries().items() if id.startswith(incomplete)]
        return [*ids, *_files("*.py", "entries of a file", incomplete)]
    try:
        found = {f"{file}::{entry.name}": entry.title for entry in entries_of(file).values()}
    except AfterfitError:  # a file that is not there, or no paper: nothing completes it, which the command will say
        return []
    return [(id, title) for id, title in found.items() if id.startswith(incomplete)]


def complete_paper(incomplete: str) -> list[tuple[str, str]]:
    """Papers, and Python files."""
    return [*_papers(incomplete), *_files("*.py", "entries of a file", incomplete)]


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    """Gallery ids, entries of files, and experiments in files."""
    return [*complete_entry(incomplete), *_files("*.toml", "an experiment in a file", incomplete)]


def complete_group(incomplete: str) -> list[tuple[str, str]]:
    """Papers, gallery ids, and Python files."""
    return [*_papers(incomplete), *complete_entry(incomplete)]


def _papers(incomplete: str) -> list[tuple[str, str]]:
    from afterfit.papers import entries

    papers = dict.fromkeys(entry.paper for entry in entries().values())
    return [(paper.name, paper.title) for paper in papers if paper.name.startswith(incomplete)]


def _files(pattern: str, about: str, incomplete: str) -> list[tuple[str, str]]:
    return [(path.name, about) for path in sorted(Path().glob(pattern)) if path.name.startswith(incomplete)]


def complete_scale(incomplete: str) -> list[tuple[str, str]]:
    scales = {"quick": "made small enough for a test", "paper": "the paper's own setting"}
    return [(name, help) for name, help in scales.items() if name.startswith(incomplete)]


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only what a script needs, and no progress bar.")]
StoreOption = Annotated[
    str,
    typer.Option("--store", metavar="URL", envvar="AFTERFIT_STORE", help="A directory, or a URL such as s3://…."),
]
ScaleOption = Annotated[
    str | None,
    typer.Option(
        help="Of a gallery entry: quick, made small, or paper, its own setting. [default: paper]",
        autocompletion=complete_scale,
        show_default=False,
    ),
]
Fit = Annotated[
    float | None,
    typer.Option(help="The training level that counts as fitted. [default: the task's]", show_default=False),
]
Generalise = Annotated[
    float | None,
    typer.Option(help="The test level that counts as generalised. [default: the task's]", show_default=False),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a setting, by its dotted name. Repeatable."),
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Import a module of yours first, for kinds such as my_module:SparseTeacher. Repeatable.",
    ),
]
