"""What gradient flow costs beside gradient descent at the papers' steps, and how its cost grows.

    python benchmarks/flows.py [--quick] [--thorough] [--only NAME ...] [--json FILE]

Prints a table, writes all measurements to docs/benchmarks-flows.json, and puts tables and a picture into
docs/benchmarks.md. `--only` measures some benchmarks and leaves the rows of the others as they were; `--quick` runs the
entries at the gallery's quick scale, which no target is about, and writes to benchmarks/results/, leaving the
documentation alone; `--thorough` adds what takes long. How it is measured: docs/benchmarks.md.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from report import Benchmark, Row, Suite, footer, grid, main, worker

# --- Entries of the gallery at paper scale ---


@dataclasses.dataclass(frozen=True)
class Case:
    """An entry, the step size of descent in its paper, and what its flow is to reach.

    `bound` is in seconds for the whole run, without compiling if `compiled`; `accuracy` is what the test accuracy must
    have reached. `tolerances` are the factors of rtol to try beside the entry's own, and `within` how far t_gen may be
    from that of the tightest. `descent` says that descent itself is affordable.
    """

    entry: str
    lr: float
    bound: float
    compiled: bool = False
    accuracy: float | None = None
    tolerances: tuple[float, ...] = ()
    within: float | None = None
    descent: bool = False


CASES = (
    Case("lyu2023/fig1a", lr=0.01, bound=40, tolerances=(0.1,), within=0.02),
    Case("lyu2023/fig1b", lr=0.01, bound=20),
    Case("lyu2023/fig2a", lr=0.002, bound=360, accuracy=0.99),
    Case("lyu2023/fig3", lr=0.1, bound=15, tolerances=(10, 0.1)),
    Case("boursier2025/fig2", lr=0.01, bound=5, tolerances=(10, 0.1), descent=True),
    Case("woodworth2020/fig5", lr=1e-5, bound=1, compiled=True),
)


def measure(case: Case, quick: bool) -> Iterator[Row]:
    """The flow of an entry beside descent, and what else its case asks for."""
    found = follow(case.entry, quick)
    step = descent_step(case, quick)
    yield entry_row(case, case.entry, found, step, quick)
    if case.entry == "lyu2023/fig1b":  # as long as Fig. 1a, too; the entry goes on until t = 10⁵
        until = 2e3 if quick else 2e4
        shorter = follow(case.entry, quick, {"dynamics.until": until})
        yield entry_row(case, f"{case.entry}, t = {power(until)}", shorter, step, quick)
    if case.tolerances:
        yield tolerance_row(case, found, case.tolerances, quick)
    if case.descent:
        yield agreement_row(case, found, quick)


def longer_descent(quick: bool) -> Iterator[Row]:
    """lyu2023/fig3 by all its steps of descent: minutes."""
    case = next(case for case in CASES if case.entry == "lyu2023/fig3")
    yield agreement_row(case, follow(case.entry, quick), quick)


def tighter_modular(quick: bool) -> Iterator[Row]:
    """lyu2023/fig2a at half its tolerance: twice the longest run."""
    case = next(case for case in CASES if case.entry == "lyu2023/fig2a")
    yield tolerance_row(case, follow(case.entry, quick), (0.5,), quick)


def follow(entry: str, quick: bool, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """One run of an entry's flow in a process of its own; where compiling takes most of it, once more without."""
    again = any(case.compiled for case in CASES if case.entry == entry)
    # The gallery follows diagonal nets in their parameters, for the sake of evidence; this is about the quickest way.
    chosen = {"dynamics.method": "auto", **(changes or {})}
    return worker("flow", entry=entry, scale=scale(quick), changes=chosen, again=again)


def descent_step(case: Case, quick: bool) -> dict[str, Any]:
    fill, rounds = (0.2, 2) if quick else (2.0, 3)
    return worker("descent_step", entry=case.entry, scale=scale(quick), lr=case.lr, fill=fill, rounds=rounds)


def entry_row(case: Case, name: str, found: dict[str, Any], step: dict[str, Any], quick: bool) -> Row:
    """The flow against as long a descent, whose time is that of a step times their number."""
    taken = found["again"] if case.compiled else found["seconds"]
    a_step = statistics.median(step["descent"])
    steps = round(found["end"] / case.lr)
    there = found["status"] == "finished" and (case.accuracy is None or found["test"] >= case.accuracy)
    facts = {"taken": taken, "steps": steps, "extrapolated": a_step * steps, "descent_step": step, "flow": found}
    small = quick and case.entry != "woodworth2020/fig5"  # one cell is small as it is
    return Row(
        name,
        f"gradient flow until t = {power(found['end'])}: times quicker than {power(steps)} steps of {case.lr:g}",
        f"{duration(taken)}; descent {duration(a_step * steps)}, extrapolated",
        f"≤ {case.bound:g} s" + (" compiled" if case.compiled else ""),
        a_step * steps / taken,
        None if small else taken <= case.bound and there,
        facts,
    )


def tolerance_row(case: Case, found: dict[str, Any], factors: tuple[float, ...], quick: bool) -> Row:
    """t_fit and t_gen at other tolerances: by how much t_gen is off that of the tightest."""
    runs = {1.0: found}
    for factor in factors:
        runs[factor] = follow(case.entry, quick, {"dynamics.rtol": factor * found["rtol"]})
    exact = runs[min(runs)]["t_gen"]
    off = None if found["t_gen"] is None or exact is None else abs(found["t_gen"] / exact - 1)
    ordered = [{"factor": factor, **runs[factor]} for factor in sorted(runs, reverse=True)]
    return Row(
        f"tolerance/{case.entry}",
        "t_gen at the entry's rtol against the tightest: relative difference",
        ", ".join(f"{number(run['t_gen'])} at rtol {run['rtol']:.2g}" for run in ordered),
        "" if case.within is None else f"≤ {case.within:.0%}".replace("%", " %"),
        off,
        None if case.within is None or quick else off is not None and off <= case.within,
        {"runs": ordered},
    )


def agreement_row(case: Case, found: dict[str, Any], quick: bool) -> Row:
    """t_fit and t_gen of the flow beside those of all the paper's steps of descent."""
    descent = worker("descent_run", entry=case.entry, scale=scale(quick), lr=case.lr)
    both = None not in (found["t_gen"], descent["t_gen"])
    return Row(
        f"descent/{case.entry}",
        "t_gen of the flow over that of descent, run in full",
        f"{number(found['t_gen'])}; {number(descent['t_gen'])} in {duration(descent['seconds'])}",
        "",
        found["t_gen"] / descent["t_gen"] if both else None,
        None,
        {"flow": found, "descent": descent},
    )


def scale(quick: bool) -> str:
    return "quick" if quick else "paper"


# --- How the cost grows ---

# Each knob alone, from these values (slow is 1/λ); until = 20/λ, except along `until`, where λ stays 10⁻⁵.
DIAGONAL = {"d": 3000, "n": 32, "slow": 1e2}
MATRIX = {"d": 10, "n": 60, "slow": 1e2}
LONG = [1e2, 1e3, 1e4, 1e5, 1e6]
MATRIX_KNOBS = {"d": [6, 10, 16, 24, 32], "n": [15, 30, 60, 90], "until": LONG, "slow": LONG}
SERIES: dict[str, dict[str, list[float]]] = {
    "dual": {"d": [1000, 3000, 10_000, 30_000, 100_000], "n": [16, 32, 64, 128], "until": LONG, "slow": LONG},
    "implicit": MATRIX_KNOBS,
    "stabilised": MATRIX_KNOBS,
    # Its steps are as many as those of descent: a decade or two are enough to see it.
    "explicit": MATRIX_KNOBS | {"d": [6, 10, 16], "until": [1e2, 1e3, 1e4], "slow": [1e2, 300, 1e3]},
}
KNOBS = {"d": "d", "n": "n", "until": "T", "slow": "1/λ"}
COUNTS = {"steps": "steps", "right_hand_sides": "right-hand sides", "seconds": "seconds"}
EXPECTED = {
    **{(method, knob): "nearly flat" for method in ("dual", "implicit") for knob in ("until", "slow")},
    **{("stabilised", knob): "½" for knob in ("until", "slow")},
    **{("explicit", knob): "1" for knob in ("until", "slow")},
    ("dual", "d"): "1",
}


def growth(method: str, quick: bool) -> Iterator[Row]:
    """Steps, right-hand sides and seconds of a method against d, n, T and 1/λ, one process each."""
    for knob, values in SERIES[method].items():
        values = values[:2] if quick else values
        points = [setting(method, knob, value) for value in values]
        found = worker("growth", method=method, series=points, most=1_000_000, rounds=1 if quick else 3)["points"]
        for point in found:
            point["value"] = point[knob]
            point["times"], point["seconds"] = point["seconds"], statistics.median(point["seconds"])
        slopes = {count: slope([(point["value"], point[count]) for point in kept(found)]) for count in COUNTS}
        yield Row(
            f"growth/{method}/{KNOBS[knob]}",
            f"{KNOBS[knob]} from {power(values[0])} to {power(values[-1])}: exponent of the seconds",
            ", ".join(f"{words} {signed(slopes[count])}" for count, words in COUNTS.items()),
            EXPECTED.get((method, knob), ""),
            slopes["seconds"],
            None,
            {"method": method, "knob": knob, "exponents": slopes, "points": found},
        )


def setting(method: str, knob: str, value: float) -> dict[str, float]:
    """The problem at one value of a knob."""
    at = dict(DIAGONAL if method == "dual" else MATRIX)
    if knob == "until":
        return at | {"slow": 1e5, "until": value}
    at[knob] = value
    if knob == "d" and method != "dual":
        at["n"] = round(0.6 * value**2)  # the same share of the entries
    return at | {"until": 20 * at["slow"]}


def kept(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The points whose flow got to its end in the steps allowed."""
    return [point for point in points if point["reached"]]


def slope(points: list[tuple[float, float]]) -> float | None:
    """The exponent of a power law, by least squares in logarithms."""
    if len(points) < 2:
        return None
    return statistics.linear_regression(*zip(*((math.log(x), math.log(y)) for x, y in points), strict=True)).slope


# --- A model of one's own ---

OWN = ("diagonal net", "matrix factorisation", "MLP", "embedding MLP")


def own(quick: bool) -> Iterator[Row]:
    """The same problem with a model of ours and with a user's function, in turn."""
    for model in OWN:
        found = worker("own", model=model, rounds=1 if quick else 5)
        ours, theirs = (statistics.median(found["seconds"][name]) for name in ("built in", "own"))
        yield Row(
            f"own/{model}",
            "seconds of a run with a user's function over those with our model, compiled",
            f"{duration(theirs)}; {duration(ours)}",
            "≤ 3",
            theirs / ours,
            theirs <= 3 * ours,
            found,
        )


BENCHMARKS: dict[str, Benchmark] = {
    "own": own,
    **{case.entry: functools.partial(measure, case) for case in CASES},
    "descent/lyu2023/fig3": longer_descent,
    "tolerance/lyu2023/fig2a": tighter_modular,
    **{f"growth/{method}": functools.partial(growth, method) for method in SERIES},
}


# --- How they are written down ---


def markdown(report: dict[str, Any]) -> str:
    """The tables of the documentation, and its picture."""
    parts = {
        "": entries_table([row for row in report["rows"] if "extrapolated" in row["samples"]]),
        "**The same at other tolerances.**": tolerances_table(named(report, "tolerance/")),
        "**Beside descent, run in full.**": agreement_table(named(report, "descent/")),
        "**A model of one's own:** the same problem with a user's function of one example.": own_table(
            named(report, "own/")
        ),
        "**How the cost grows:** the fitted exponents of steps, right-hand sides and seconds.": growth_table(
            named(report, "growth/")
        ),
    }
    text = "\n\n".join(f"{title}\n\n{table}".lstrip() for title, table in parts.items() if table)
    if named(report, "growth/"):
        text += "\n\n![Right-hand sides and seconds of each method against d, n, T and 1/λ](flows.png)"
    return f"{text}\n\n{footer(report)}\nAll samples are in [benchmarks-flows.json](benchmarks-flows.json)."


def named(report: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    return [row for row in report["rows"] if row["name"].startswith(prefix)]


def entries_table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        facts, flow = row["samples"], row["samples"]["flow"]
        compiled = "again" in flow
        work = flow["work"]
        lines.append(
            (
                f"`{row['name']}`",
                duration(facts["taken"]) + (f"; {duration(flow['seconds'])} with compiling" if compiled else ""),
                row["target"],
                yes_or_no(row),
                f"{power(facts['steps'])} steps: {duration(facts['extrapolated'])}",
                f"{row['ratio']:.2g}" if row["ratio"] < 10 else f"{row['ratio']:,.0f}",
                f"{flow['method'].split(':')[0]}, rtol {flow['rtol']:g}: {work['steps_accepted']:,} steps "
                f"({work['steps_rejected']:,} rejected), {work['right_hand_sides']:,} right-hand sides, "
                f"{work['linear_solves']:,} solves",
                number(flow["t_fit"]),
                number(flow["t_gen"]),
                f"{flow['verdict']}; {flow['status']} at t = {power(flow['end'])}, test {flow['test']:.3g}",
            )
        )
    header = ("Entry", "Flow", "Target", "Met", "Descent at the paper's step, extrapolated", "Times quicker")
    return grid((*header, "Method and work", "t_fit", "t_gen", "Ended"), lines) if lines else ""


def tolerances_table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        for run in row["samples"]["runs"]:
            own = run["factor"] == 1
            lines.append(
                (
                    f"`{row['name'].partition('/')[2]}`",
                    f"{run['rtol']:.2g}" + (", the entry's" if own else ""),
                    f"{run['work']['steps_accepted']:,}",
                    duration(run["seconds"]),
                    number(run["t_fit"], 5),
                    number(run["t_gen"], 5),
                    "" if not own or row["ratio"] is None else f"{100 * row['ratio']:.2g} %",
                    row["target"] if own else "",
                    yes_or_no(row) if own else "",
                )
            )
    header = ("Entry", "rtol", "Steps", "Run", "t_fit", "t_gen", "t_gen off the tightest", "Target", "Met")
    return grid(header, lines) if lines else ""


def agreement_table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        flow, descent = row["samples"]["flow"], row["samples"]["descent"]
        lines.append(
            (
                f"`{row['name'].partition('/')[2]}`",
                f"{duration(flow['seconds'])}, {duration(descent['seconds'])}",
                f"{number(flow['t_fit'])}, {number(descent['t_fit'])}",
                f"{number(flow['t_gen'], 5)}, {number(descent['t_gen'], 5)}",
                "" if row["ratio"] is None else f"{row['ratio']:.4f}",
            )
        )
    return grid(("Entry", "Flow, descent", "t_fit", "t_gen", "Ratio of t_gen"), lines) if lines else ""


def own_table(rows: list[dict[str, Any]]) -> str:
    lines = [
        (
            row["name"].partition("/")[2],
            row["samples"]["method"].split(":")[0] or "AdamW",
            f"{max(row['samples']['work']['own'].values()):,}",
            row["measured"].replace(";", ","),
            f"{row['ratio']:.2f}",
            row["target"],
            yes_or_no(row),
        )
        for row in rows
    ]
    header = ("Model", "Followed by", "Steps or right-hand sides", "Own, ours", "Ratio", "Target", "Met")
    return grid(header, lines) if lines else ""


def growth_table(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        facts = row["samples"]
        points = kept(facts["points"])
        lines.append(
            (
                facts["method"],
                KNOBS[facts["knob"]],
                f"{power(points[0]['value'])} to {power(points[-1]['value'])}",
                *(signed(facts["exponents"][count]) for count in COUNTS),
                row["target"],
                f"{duration(points[0]['seconds'])} to {duration(points[-1]['seconds'])}",
            )
        )
    header = ("Method", "Against", "From, to", *(words.capitalize() for words in COUNTS.values()), "Expected", "Took")
    return grid(header, lines) if lines else ""


def yes_or_no(row: dict[str, Any]) -> str:
    return {True: "yes", False: "no", None: ""}[row["met"]]


def duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2g} s" if seconds >= 0.1 else f"{1e3 * seconds:.2g} ms"


def number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}g}"


def signed(exponent: float | None) -> str:
    return "–" if exponent is None else f"{exponent:.2f}".replace("-", "−")


def power(value: float) -> str:
    """1.2·10⁶ for 1200000, and 3000 for 3000."""
    if value < 1e4:
        return f"{value:.3g}" if value < 1e3 else f"{value:.0f}"
    exponent = math.floor(math.log10(value) + 1e-9)
    digits = f"{value / 10**exponent:.3g}"
    return (
        ("" if digits == "1" else f"{digits}·")
        + "10"
        + str(exponent).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    )


# Told apart without colour, too: by dashes and markers.
STYLES = {
    "dual": {"color": "#222222", "linestyle": "-", "marker": "o"},
    "implicit": {"color": "#0072B2", "linestyle": "--", "marker": "s"},
    "stabilised": {"color": "#D55E00", "linestyle": "-.", "marker": "^"},
    "explicit": {"color": "#777777", "linestyle": ":", "marker": "x"},
}
AXES = {
    "d": "size d: inputs (dual),\nrows and columns (the others)",
    "n": "number of examples n",
    "until": "length T of the flow, at λ = 10⁻⁵",
    "slow": "time scale 1/λ of the penalty, until 20/λ",
}


def picture(report: dict[str, Any], file: Path) -> bool:
    """The growth of right-hand sides and seconds, one column a knob; False if it was not measured."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    rows = [row["samples"] for row in named(report, "growth/")]
    if not rows:
        return False
    figure = Figure(figsize=(12, 6), layout="constrained")
    panels = figure.subplots(2, len(AXES), sharex="col", sharey="row")
    for axes, count, label in zip(
        panels, ("right_hand_sides", "seconds"), ("right-hand sides", "seconds"), strict=True
    ):
        axes[0].set_ylabel(label)
        for ax, knob in zip(axes, AXES, strict=True):
            ax.set(xscale="log", yscale="log")
            for line in rows:
                if line["knob"] == knob:
                    points = kept(line["points"])
                    x, y = ([point[name] for point in points] for name in ("value", count))
                    ax.plot(x, y, **STYLES[line["method"]], ms=5, lw=1.6, label=line["method"])
            ax.grid(True, which="major", color="0.92", lw=0.6)
    for ax, label in zip(panels[1], AXES.values(), strict=True):
        ax.set_xlabel(label)
        ax.xaxis.set_minor_formatter(NullFormatter())
    panels[1][list(AXES).index("n")].set_xticks([15, 30, 60, 120], ["15", "30", "60", "120"])
    for ax in panels.flat:
        add_guides(ax)
    handles = {
        label: handle for ax in panels.flat for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=6, frameon=False)
    figure.savefig(file, dpi=130)
    return True


def add_guides(ax: Any) -> None:
    """Slopes 1 and ½ from the lower left corner of the data, without moving the axes."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    for exponent, label, width in ((1.0, "slope 1", 2.4), (0.5, "slope ½", 0.8)):
        ends = [2 * low, 2 * low * (right / left) ** exponent]
        ax.plot([left, right], ends, color="0.75", lw=width, zorder=0, label=label)
    ax.set(xlim=(left, right), ylim=(low, high))


if __name__ == "__main__":
    main(
        Suite(
            __doc__ or "",
            BENCHMARKS,
            file="benchmarks-flows.json",
            mark="flows",
            markdown=markdown,
            thorough=("descent/lyu2023/fig3", "tolerance/lyu2023/fig2a"),
            picture=picture,
            picture_file="flows.png",
        )
    )
