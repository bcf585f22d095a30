"""A page about a sweep: phase diagram, curves, fitted laws with intervals, tables, how to reproduce it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from afterfit._base.errors import SpecError
from afterfit._base.html import escape, picture, table
from afterfit._reports.page import (
    imports_of,
    not_readable,
    paragraphs,
    section,
    value_in_words,
    versions_of,
    write_page,
)
from afterfit._sweeps.phases import middle
from afterfit._sweeps.pictures import curves_by_knob
from afterfit._sweeps.results import count_verdicts, dimensions, read_rows
from afterfit._training.experiment import flatten, spec_to_toml, value_to_toml
from afterfit.plot import in_short

if TYPE_CHECKING:
    import xarray as xr

    from afterfit._sweeps.results import ScalingLaw
    from afterfit._sweeps.sweep import Sweep

__all__ = ["write_sweep_report"]

_LAWS = ("t_fit", "t_gen")


def write_sweep_report(path: str | Path, sweep: Sweep) -> Path:
    """Write a page on what there is of a sweep."""
    data = sweep.dataset
    return write_page(
        path,
        f"Sweep {sweep.id}",
        [
            *paragraphs(_in_short(sweep, data)),
            section("Phase diagram", _phase_diagrams(sweep)),
            section("Curves", _curves(sweep, data)),
            section("Scaling laws", _laws(sweep)),
            section("Runs", _cells(sweep, data)),
            section("Setting", _setting(sweep)),
            section("How to reproduce", _reproduce(sweep)),
            section("Versions", versions_of(_versions(sweep, data))),
        ],
    )


def _in_short(sweep: Sweep, data: xr.Dataset) -> str:
    counts = count_verdicts(data)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    knobs = " and ".join(f"{len(values)} values of {name}" for name, values in sweep.knobs.items())
    there = set(sweep.store.ids())
    missing = sum(sweep.run_id(point, seed) not in there for point in sweep.points for seed in sweep.seeds)
    unfinished = f" {missing} runs are missing: run the sweep again to complete it." if missing else ""
    asked = ", ".join(f"{name} {value:g}" for name, value in sweep.thresholds.items() if value is not None)
    unfinished += f" Judged by other thresholds than the task's: {asked}." if asked else ""
    return f"{counts.total()} runs over {knobs}, {len(sweep.seeds)} seeds: {kinds}.{unfinished}"


def _phase_diagrams(sweep: Sweep) -> str:
    """The verdict, and when it generalised, over the first two knobs (others at their middle value)."""
    at = {name: values[len(values) // 2] for name, values in list(sweep.knobs.items())[2:]}
    fixed = f"<p>At {escape(', '.join(f'{name} = {value}' for name, value in at.items()))}.</p>" if at else ""
    drawn = []
    for quantity in ("verdict", "t_gen"):
        try:
            drawn.append(picture(sweep.phase_diagram(quantity, at=at), f"{quantity} over {', '.join(sweep.knobs)}"))
        except SpecError as error:  # such as t_gen where nothing generalised
            drawn.append(f"<p>There is no map of {quantity}: {escape(error)}</p>")
    return fixed + "\n".join(drawn)


def _curves(sweep: Sweep, data: xr.Dataset) -> str:
    if sweep.refine is not None:
        return "<p>The curves are in the runs.</p>"
    metric, whole = data.attrs["metric"], data.merge(sweep.curves)
    return "\n".join(
        picture(curves_by_knob(whole, metric, dimension), f"Training and test {metric} by {name}")
        for name, dimension in dimensions(sweep.knobs).items()
    )


def _laws(sweep: Sweep) -> str:
    """t_fit and t_gen against every knob that is a number, with pictures of t_gen."""
    rows, drawn = [], []
    for quantity, x, law in _found(sweep):
        if isinstance(law, str):
            rows.append((quantity, x, "none", "", "", "", law))
            continue
        fit, interval = law.law, law.interval
        between = f"{interval[0]:.3g} to {interval[1]:.3g}" if interval else "one seed: none"
        exponent, constant = f"{fit.exponent:.3g}", f"{fit.constant:.3g}"
        doubt = f"{law.never} may never, and are not just late" if law.never else ""
        left_out = f", {fit.n_left_out} left out (diverged)" if fit.n_left_out else ""
        runs = f"{fit.n} ({fit.n_censored} censored{left_out})"
        rows.append((quantity, x, exponent, between, constant, runs, doubt))
        if quantity == "t_gen":
            drawn.append(picture(law.plot(), str(law)))
    head = ("quantity", "against", "exponent", "95 % interval over seeds", "constant", "runs", "")
    return (table(head, rows) if rows else "<p>No knob is a number.</p>") + "\n".join(drawn)


def _found(sweep: Sweep) -> Iterator[tuple[str, str, ScalingLaw | str]]:
    """Every law there could be, or why there is none."""
    for x, values in sweep.knobs.items():
        if len(values) < 2 or not all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in values):
            continue
        for quantity in _LAWS:
            try:
                yield quantity, x, sweep.scaling_law(quantity, x=x)
            except SpecError as error:
                yield quantity, x, str(error)


def _cells(sweep: Sweep, data: xr.Dataset) -> str:
    """One row a place: what its seeds say."""
    metric = f"final_test_{data.attrs['metric']}"
    rows = []
    for point in sweep.points:
        cell = data.isel(dict(zip(dimensions(sweep.knobs).values(), point, strict=True)))
        kinds = count_verdicts(cell)
        said = ", ".join(f"{kind} ({count})" if len(kinds) > 1 else kind for kind, count in kinds.most_common())
        values = (in_short(sweep.knobs[name][k]) for name, k in zip(sweep.knobs, point, strict=True))
        ran = cell["status"].values != ""
        never = int((ran & np.isnan(cell["t_gen"].values)).sum())
        broken = cell["verdict"].values == "diverged"
        columns = {name: cell[name].values[ran] for name in ("t_fit", "t_gen", metric, "seconds")}
        columns[metric] = np.where(broken[ran], np.nan, columns[metric])
        words = {"t_fit": "never", "t_gen": "never", metric: "diverged"}
        said_of = [_median(column, words.get(name, "")) for name, column in columns.items()]
        rows.append((*values, said or "no run", *said_of[:2], str(never) if never else "", *said_of[2:]))
    head = (*sweep.knobs, "verdict", "t_fit", "t_gen", "without t_gen", metric.replace("_", " "), "seconds")
    return (
        "<p>Medians over seeds (of an even number, the lower of the two in the middle; a time that never came is "
        f"longer than any other). <em>Without t_gen</em> counts seeds.</p>{table(head, rows)}"
    )


def _median(values: np.ndarray, never: str) -> str:
    """The median in words, where NaN is above all numbers and is called `never`."""
    if not values.size:
        return ""
    median = float(middle(np.where(np.isnan(values), np.inf, values)))
    return f"{median:.3g}" if np.isfinite(median) else never


def _versions(sweep: Sweep, data: xr.Dataset) -> Iterator[dict[str, str]]:
    """What each run says it was computed with."""
    rows = read_rows(sweep.store, data["id"].values.ravel().tolist(), lambda column: column.startswith("versions."))
    for row in rows.values():
        yield {name.removeprefix("versions."): said for name, said in row.items() if name != "id"}


def _setting(sweep: Sweep) -> str:
    shared = {k: v for k, v in flatten(sweep.spec.to_dict()).items() if k not in sweep.knobs and k != "seed"}
    rows = [(name, ", ".join(map(value_in_words, values))) for name, values in sweep.knobs.items()]
    rows += [("seed", ", ".join(map(str, sweep.seeds)))]
    rows += [(name, value_in_words(value)) for name, value in shared.items() if value is not None]
    return table(("setting", "value"), rows)


def _reproduce(sweep: Sweep) -> str:
    written = sweep.to_dict()
    tables = {key: written[key] for key in ("over", "refine") if key in written}
    lines = [spec_to_toml(written["spec"]), f"[sweep]\nseeds = {list(sweep.seeds)}"]
    for key, settings in tables.items():
        inside = "\n".join(f'"{name}" = {value_to_toml(value)}' for name, value in settings.items())
        lines.append(f"[sweep.{key}]\n{inside}")
    why = not_readable(written["spec"])
    how = (
        f"In Python, with <code>af.sweep</code>: a file cannot hold all of it ({escape(why)}) What it says is"
        if why
        else "Save these lines as <code>my.toml</code> and run <code>afterfit sweep my.toml"
        f"{escape(imports_of(written['spec']))}</code>; in Python, "
        f"<code>af.Sweep.from_dict</code> reads <code>sweep-{sweep.id}.json</code> of the store."
    )
    return f"<p>{how}</p><pre>{escape(chr(10).join(lines))}</pre>"
