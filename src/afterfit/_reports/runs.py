"""A page about some runs: verdicts, curves, what theory says, claims, settings, cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from afterfit._base.allowance import LEAST, within
from afterfit._base.html import escape, picture, table
from afterfit._base.progress import progress_bar
from afterfit._reports.page import (
    imports_of,
    not_readable,
    paragraphs,
    section,
    value_in_words,
    versions_of,
    write_page,
)
from afterfit._training.experiment import flatten, spec_to_toml
from afterfit.plot import Overlay, plot_run
from afterfit.theory import forecast, overlay
from afterfit.theory._explain import explained

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from afterfit._training.run import Run

__all__ = ["floor", "warning", "write_report"]

_NOT_ASKED = "<p>Theory was not asked: the command was interrupted.</p>"
_DRAWN = 4  # runs that get a picture of their own; of more, the first ones


def write_report(
    path: str | Path,
    title: str,
    runs: Mapping[str, Run],
    figure: Figure | bytes | None = None,
    about: str = "",
    command: str = "",
    theory: bool = True,
    thorough: bool = False,
    progress: bool | None = None,
) -> Path:
    """Write a page on `runs` (by name, the headline first): verdicts, pictures, setting, cost, versions.

    `figure` is a picture of all runs together (a figure, or a PNG already made of it), `about` some paragraphs of
    introduction, `command` what reproduces the runs. What `theory` says of them, if it is asked, takes no longer than
    they did, or 5 s if that is more, unless it is to be `thorough`. `progress` shows a bar, if it is None on a terminal
    only. The file appears only once it is complete.

    ```python
    write_report("report.html", "L1 against L2", {"L1": run, "L2": other})
    ```
    """
    allowed = math.inf if thorough else max(LEAST, sum(run.seconds for run in runs.values()))
    with progress_bar("theory", progress) as show, within(allowed, show):
        verdicts = _verdicts(runs, theory, thorough)
    return write_page(
        path,
        title,
        [
            *paragraphs(about),
            "" if figure is None else picture(figure, f"Picture: {title}"),
            section("Verdict" if len(runs) == 1 else "Verdicts", verdicts),
            section("Cost" if len(runs) == 1 else "Runs", _runs(runs)),
            section("Setting", _setting(runs)),
            section("How to reproduce", _reproduce(runs, command)),
            section("Versions", versions_of(run.versions for run in runs.values())),
        ],
    )


def warning(run: Run) -> str:
    """Why a run did not finish, in one sentence; empty if it did."""
    if run.status == "finished":
        return ""
    named = not run.message or run.message.startswith(run.status)
    return run.message if named else f"{run.status}: {run.message}"


def floor(run: Run) -> str:
    """Where a penalty holds the training error above its threshold, a sentence that says so; else nothing."""
    verdict, _ = run.verdict_or_reason()
    strength = run.spec["penalty"].get("strength") or 0.0
    if verdict is None or verdict.kind != "never fitted" or run.metric != "error" or not strength:
        return ""
    time, error = run.curves["time"].values, run.curves["train_error"].values
    late, threshold = error[time >= time[-1] / 2], run.criteria.train.value
    pull, push = (float(run.curves[name].values[-1]) for name in ("penalty_gradient", "loss_gradient"))
    at_rest = len(late) >= 3 and late.max() <= 1.1 * late.min() and push <= 1.1 * pull  # the two gradients balance
    if not at_rest or late.max() >= 1:
        return ""
    enough = next(level for k in range(-300, 1) for level in (10.0**k, 2 * 10.0**k, 5 * 10.0**k) if level > late.max())
    judge = f"Judge by another threshold (fit={enough:g}), or weaken" if enough <= 0.05 else "Weaken"
    return (
        f"the train error has settled at {late[-1]:.2g}, above the threshold of {threshold:g}: that is as far as a "
        f"penalty of strength {strength:g} lets it. {judge} the penalty."
    )


def _verdicts(runs: Mapping[str, Run], theory: bool, thorough: bool) -> str:
    """Every run's verdict with its evidence; the first ones with their curves, the others folded away."""
    parts = []
    for k, (name, run) in enumerate(runs.items()):
        judged, said = run.verdict_or_reason()
        sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in judged.evidence) if judged else ""
        sentences += f"<li>{escape(floor(run))}</li>" if floor(run) else ""
        evidence = f"<ul>{sentences}</ul>" if sentences else ""
        status = f'<p class="bad">{escape(warning(run))}</p>' if warning(run) else ""
        verdict = f'<p class="verdict">{escape(said)}</p>'
        if k < _DRAWN:
            heading = f"<h3>{escape(name)}</h3>" if len(runs) > 1 else ""
            drawn, page = _theory(run, k == 0, thorough) if theory else (None, _NOT_ASKED)
            curves = picture(plot_run(run, drawn), f"Curves of {name}: {said}")
            parts.append(f"{heading}{verdict}{status}{evidence}{curves}{page}")
        else:
            summary = f"<summary>{escape(name)}: {escape(said)}</summary>"
            parts.append(f"<details>{summary}{status}{evidence}</details>")
    return "\n".join(parts)


def _theory(run: Run, foresee: bool, thorough: bool) -> tuple[Overlay | None, str]:
    """What theory says of a run: what to draw over it, and a page folded away. No failure of it costs the report.

    The headline alone is foreseen: that can take half a minute.
    """
    if run.status == "diverged" or run.verdict_or_reason()[0] is None:
        return None, "<p>Theory is not asked: the run came to nothing that it could speak of.</p>"
    try:
        page = explained(run, thorough)
        foreseen = forecast(run.experiment, thorough=True, progress=False) if foresee else None
    except Exception as error:  # a run of the user's own making can be more than theory expects
        return None, f"<p>Theory has nothing to say of this run: {escape(error)}</p>"
    said = f"{page}\n\nBefore the run\n  {foreseen}" if foreseen else str(page)
    folded = f"<details><summary>What theory says of it</summary><pre>{escape(said)}</pre></details>"
    return overlay(page.limits, page.clocks, foreseen), folded


def _runs(runs: Mapping[str, Run]) -> str:
    """What differs between the runs, what each came to, and what it cost."""
    differing = _differing(runs)
    rows = []
    for name, run in runs.items():
        work = ", ".join(f"{what.replace('_', ' ')} {count:,}" for what, count in run.work.items())
        settings = flatten(run.spec)
        values = [value_in_words(settings.get(setting)) for setting in differing]
        verdict, _ = run.verdict_or_reason()
        kind = verdict.kind if verdict else "none"
        rows.append((name, *values, kind, run.status, run.method or "step by step", work, f"{run.seconds:.1f} s"))
    return table(("run", *differing, "verdict", "status", "method", "work", "time"), rows)


def _differing(runs: Mapping[str, Run]) -> list[str]:
    """The settings that are not the same in all runs."""
    flat = [flatten(run.spec) for run in runs.values()]
    names = dict.fromkeys(name for settings in flat for name in settings)
    return [name for name in names if any(s.get(name) != flat[0].get(name) for s in flat)]


def _setting(runs: Mapping[str, Run]) -> str:
    differing = _differing(runs)
    shared = {k: v for k, v in flatten(next(iter(runs.values())).spec).items() if k not in differing}
    return table(("setting", "value"), [(k, value_in_words(v)) for k, v in shared.items() if v is not None])


def _reproduce(runs: Mapping[str, Run], command: str) -> str:
    name, headline = next(iter(runs.items()))
    which = f" (here of the run {escape(name)})" if len(runs) > 1 else ""
    asked = f"<p>On the command line:</p><pre>{escape(command)}</pre>" if command else ""
    why = not_readable(headline.spec)
    how = (
        f"In Python, with <code>af.train</code>: a file cannot hold all of it ({escape(why)}) What it says{which} is"
        if why
        else f"Or from its specification{which}: save these lines as <code>my.toml</code> and run "
        f"<code>afterfit run my.toml{escape(imports_of(headline.spec))}</code>."
    )
    return f"{asked}<p>{how}</p><pre>{escape(spec_to_toml(headline.spec))}</pre>"
