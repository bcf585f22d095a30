"""What sweeps and the store cost, and what they survive.

    python benchmarks/sweeps.py [--quick] [--only NAME ...] [--json FILE]

Prints a table, writes all measurements to docs/benchmarks-sweeps.json and puts the table into docs/benchmarks.md, which
says how each row is measured. `--quick` is smaller and shorter, and leaves the documentation alone.
"""

from __future__ import annotations

import functools
import statistics
import tempfile
from collections.abc import Iterator
from typing import Any

import report
from report import Benchmark, Row, Suite, footer, main, table

worker = functools.partial(report.worker, script="sweep_workers.py")

SHARE, MINUTES, OVERHEAD, LISTING, DATASET, FEWER, KILLS = 0.4, 3.0, 0.05, 1.0, 2.0, 4.0, 20


def batch(quick: bool) -> Iterator[Row]:
    """64 runs as a sweep against 64 single runs, in turns: four lots of singles around three sweeps."""
    steps, parts = (300_000, 16) if quick else (6_000_000, 4)
    kinds = {
        "64 x 1": "64 strengths on one draw",
        "8 x 8": "8 strengths on each of 8 draws",
        "1 x 64": "64 draws",
    }
    lots, sweeps = [worker("singles", steps=steps, part=0, parts=parts)], {}
    for k, kind in enumerate(kinds, start=1):
        sweeps[kind] = worker("sweep_of_64", kind=kind, steps=steps)
        lots.append(worker("singles", steps=steps, part=k, parts=parts))
    times = [taken for lot in lots for taken in lot["seconds"]]
    alone = {id: outcome for lot in lots for id, outcome in lot["outcomes"].items()}
    for kind, what in kinds.items():
        found = sweeps[kind]["outcomes"]
        both = [id for id in alone if id in found]
        same = sum(found[id][0] == alone[id][0] for id in both)
        ratio = sweeps[kind]["seconds"] / (64 * statistics.mean(times))
        yield Row(
            f"batch/{kind}",
            f"notsawo2025/fig3 ({steps:.0e} steps), {what}: a sweep over 64 single runs, one after another",
            f"{sweeps[kind]['seconds']:.1f} s and {64 * statistics.mean(times):.1f} s"
            + (f" (from {len(times)})" if len(times) < 64 else "")
            + (f"; {same} of {len(both)} verdicts the same" if both else ""),
            f"≤ {SHARE:g}",
            ratio,
            None if quick else ratio <= SHARE and len(found) == 64,
            {"singles": lots, "sweep": sweeps[kind]} if kind == "64 x 1" else {"sweep": sweeps[kind]},
        )


def fig4(quick: bool) -> Iterator[Row]:
    """The grid of notsawo2025/fig4."""
    found = worker("grid", entry="notsawo2025/fig4", scale="quick" if quick else "paper")
    what, target = "all runs of notsawo2025/fig4 at paper scale: minutes over the target", f"< {MINUTES:g} min"
    if not found["there"]:
        yield Row("fig4", what, "not measured: the gallery has no notsawo2025/fig4", target)
        return
    minutes = found["seconds"] / 60
    yield Row(
        "fig4",
        what.replace("paper", "quick") if quick else what,
        f"{found['seconds']:.0f} s; {found['runs']} runs, {found['steps']:.2g} steps, {', '.join(found['statuses'])}",
        target,
        minutes / MINUTES,
        None if quick else minutes < MINUTES,
        found,
    )


def store(quick: bool) -> Iterator[Row]:
    """What the store adds to runs of seconds."""
    found = worker("overhead", steps=6_000_000, runs=4 if quick else 16)
    spent, computed = sum(found["spent"].values()), sum(found["computed"])
    shortest = min(found["computed"])
    yield Row(
        "store",
        f"{len(found['computed'])} runs of notsawo2025/fig3 in a sweep: files and store over computing",
        f"{1000 * spent / len(found['computed']):.1f} ms and {computed / len(found['computed']):.2f} s a run "
        f"({shortest:.2f} s at least); {found['bytes'] / 1000:.0f} kB",
        f"< {OVERHEAD:.0%}".replace("%", " %"),
        spent / computed,
        spent / computed < OVERHEAD and shortest > 1 if not quick else None,
        found,
    )


def memory(quick: bool) -> Iterator[Row]:
    """Peak memory against what it was allowed."""
    for what, budget, runs, n, d in (
        ("10 MB", 0.15, 64, 300, 2000),
        ("10 MB", 1.0, 64, 300, 2000),
        ("100 MB", 1.2, 16, 1000, 6000),
    ):
        if quick:
            runs //= 2
        found = worker("sweep_memory", budget=budget, runs=runs, n=n, d=d)
        ratio = found["bytes"] / found["budget"]
        yield Row(
            f"memory/{what} in {budget:g} GB",
            f"{runs} runs of {found['one'] / 1e6:.0f} MB each as planned: growth of memory, helpers included, over "
            "`memory=`",
            f"{found['bytes'] / 1e9:.3f} GB; all at once {runs * found['one'] / 1e9:.1f} GB",
            "≤ 1",
            ratio,
            None if quick else ratio <= 1 and found["runs"] == runs,
            found,
        )


def listing(quick: bool) -> Iterator[Row]:
    """A store with many runs, seen by a new process."""
    count = 1000 if quick else 10_000
    with tempfile.TemporaryDirectory() as folder:
        url = f"{folder}/store"
        filled = worker("many_runs", store=url, count=count)
        first = worker("listing", store=url, count=count)
        again = [worker("listing", store=url, count=count) for _ in range(3)]
    assert all(found["rows"] == found["cells"] == count for found in (first, *again))
    asked = {
        "listing": ("the table of all runs", LISTING),
        "query": ("a question in SQL about it", LISTING),
        "dataset": ("`Sweep.dataset` from the specification on", DATASET),
    }
    for name, (what, target) in asked.items():
        taken = statistics.median(found[name] for found in again)
        yield Row(
            f"store/{name}",
            f"{count:,} runs, a new process: {what}, in seconds",
            f"{taken:.2f} s" + (f"; {first[name]:.1f} s before there was a cache" if name == "listing" else ""),
            f"< {target:g} s",
            taken,
            None if quick else taken < target,
            {"first": first, "again": again, "filled": filled},
        )


def kills(quick: bool, what: str) -> Iterator[Row]:
    """SIGKILL at random moments, then the sweep again."""
    steps, times = (100_000, 3) if quick else (200_000, KILLS)
    settings = {"steps": steps, "times": times}
    found = worker("kill_process", **settings) if what == "process" else worker("kill_dask", what=what, **settings)
    same = sum(kill["same"] for kill in found["kills"])
    hits = [kill for kill in found["kills"] if kill["hit"]]
    done = [kill["done"] for kill in hits] or [0]
    owner = {"process": "the sweep's process", "worker": "one of two Dask workers", "scheduler": "the Dask scheduler"}
    yield Row(
        f"kills/{what}",
        f"`kill -9` of {owner[what]} at a random moment in {found['takes']:.1f} s, then on to the end: every run there "
        "once, bit for bit as if left alone",
        f"{same} of {times} identical; {len(hits)} hit a running sweep, with {min(done)} to {max(done)} of "
        f"{found['runs']} runs stored",
        f"{times} of {times}",
        same / times,
        same == times if not quick else None,
        found,
    )


def refine(quick: bool) -> Iterator[Row]:
    """A refined diagram against the whole grid."""
    side = 17 if quick else 33
    found = worker("refined", steps=300_000, resolution=side)
    fewer = found["points"] / found["runs"]
    yield Row(
        "refine",
        f"verdicts over strength and initial scale, {side} x {side}: runs of the whole grid over those of `af.refine`",
        f"{found['runs']} of {found['points']} runs, {found['equal']} of {found['points']} labels equal; "
        + ", ".join(f"{kind} {count}" for kind, count in found["kinds"].items()),
        f"≥ {FEWER:g}",
        fewer,
        None if quick else fewer >= FEWER,
        found,
    )


BENCHMARKS: dict[str, Benchmark] = {
    "batch": batch,
    "fig4": fig4,
    "store": store,
    "memory": memory,
    "listing": listing,
    **{f"kills/{what}": functools.partial(kills, what=what) for what in ("process", "worker", "scheduler")},
    "refine": refine,
}


def markdown(report: dict[str, Any]) -> str:
    link = "All samples are in [benchmarks-sweeps.json](benchmarks-sweeps.json)."
    return f"{table(report['rows'])}\n\n{footer(report)}\n{link}"


if __name__ == "__main__":
    main(
        Suite(__doc__ or "", BENCHMARKS, file="benchmarks-sweeps.json", mark="sweeps", markdown=markdown),
    )
