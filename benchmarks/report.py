"""How benchmarks are run, compared and written down: what the suites share."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison: `ratio` is what is compared, as a number; `met` is None where there is no target."""

    name: str
    what: str
    measured: str
    target: str
    ratio: float | None = None
    met: bool | None = None
    samples: dict[str, Any] = dataclasses.field(default_factory=dict)


Benchmark = Callable[[bool], Iterator[Row]]  # yields its rows; the argument is `quick`


@dataclasses.dataclass(frozen=True)
class Suite:
    """Benchmarks that are measured by one command.

    `file` in docs/ gets all measurements, `markdown(report)` goes between the two marks `mark` of
    docs/benchmarks.md, and `picture(report, file)` draws docs/<picture_file> if there is something to draw. The
    benchmarks named in `thorough` are left out unless `--thorough` or `--only` asks for them.
    """

    about: str
    benchmarks: dict[str, Benchmark]
    file: str
    mark: str
    markdown: Callable[[dict[str, Any]], str]
    thorough: tuple[str, ...] = ()
    picture: Callable[[dict[str, Any], Path], bool] | None = None
    picture_file: str = ""


def main(suite: Suite) -> None:
    arguments = options(suite)
    official = not arguments.quick and arguments.json is None
    folder = DOCS if official else arguments.json.parent if arguments.json else HERE / "results"
    file = arguments.json or folder / suite.file
    names = arguments.only or [
        name for name in suite.benchmarks if name not in suite.thorough or getattr(arguments, "thorough", False)
    ]
    here = machine()
    if here["load"] > 0.5:
        print(f"The machine is busy (load {here['load']:.1f}): times and ratios will be off.", file=sys.stderr)
    before = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    folder.mkdir(parents=True, exist_ok=True)
    rows, today = [], datetime.date.today().isoformat()
    layout = "{:<26} {:<50} {:>7}  {:<21} {}"
    print(layout.format("name", "measured", "ratio", "target", "met"))
    for count, name in enumerate(names, start=1):
        for row in suite.benchmarks[name](arguments.quick):
            rows.append({"benchmark": name, "date": today, **dataclasses.asdict(row)})
            if row.ratio is not None and not math.isfinite(row.ratio):
                raise SystemExit(f"{row.name} has no ratio: {row.samples}")
            print(layout.format(*cells(rows[-1])), flush=True)
        # After each one, since the next may fail: what took long is not lost.
        merged = merge(rows, before, names[:count], list(suite.benchmarks))
        report = {"quick": arguments.quick, "machine": here, "rows": merged}
        file.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"\nAll measurements are in {os.path.relpath(file)}.")
    if suite.picture is not None and suite.picture(report, folder / suite.picture_file):
        print(f"The picture is {os.path.relpath(folder / suite.picture_file)}.")
    if official:
        put_into_docs(suite.markdown(report), DOCS / "benchmarks.md", suite.mark)
        print(f"The table is in {os.path.relpath(DOCS / 'benchmarks.md')}.")


def options(suite: Suite) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=suite.about.split("\n")[0])
    names = list(suite.benchmarks)
    parser.add_argument("--quick", action="store_true", help="shorter, smaller, documentation left alone")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--json", type=Path, help="where to write all measurements")
    if suite.thorough:
        parser.add_argument(
            "--thorough", action="store_true", help=f"with {', '.join(suite.thorough)}, which take long"
        )
    return parser.parse_args()


def worker(name: str, script: str = "workers.py", **settings: Any) -> dict[str, Any]:
    """What a worker, one of those in `script`, measures, alone in a process of its own."""
    command = [sys.executable, str(HERE / script), name, json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def workers_at_once(
    name: str, count: int, environment: dict[str, str | None], script: str = "workers.py", **settings: Any
) -> list[dict[str, Any]]:
    """What several of a worker measure side by side, with these variables set, or removed if None."""
    command = [sys.executable, str(HERE / script), name, json.dumps(settings)]
    variables = {key: value for key, value in {**os.environ, **environment}.items() if value is not None}
    team = [
        subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    found = []
    for process in team:
        out, err = process.communicate()
        if process.returncode:
            raise SystemExit(f"{' '.join(command)}\n{err}")
        found.append(json.loads(out.splitlines()[-1]))
    return found


def machine() -> dict[str, Any]:
    """Where this is measured, and with what."""
    processor = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        names = [line.split(":")[1].strip() for line in facts.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    versions = {"Python": platform.python_version()}
    for name in ("afterfit", "jax", "numpy", "torch"):
        if importlib.util.find_spec(name) is not None:
            versions[name] = importlib.metadata.version(name)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": processor, "cores": cores, "load": os.getloadavg()[0], "versions": versions}


def merge(rows: list[dict], before: list[dict], measured: list[str], order: list[str]) -> list[dict[str, Any]]:
    """The rows, and those from before of the benchmarks that were not measured now, in the usual order."""
    kept = [row for row in before if row["benchmark"] in order and row["benchmark"] not in measured]
    return sorted(kept + rows, key=lambda row: order.index(row["benchmark"]))


# --- Tables ---


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.0f}" if row["ratio"] >= 100 else f"{row['ratio']:.3g}"
    return row["name"], row["measured"], ratio, row["target"], {True: "yes", False: "no", None: ""}[row["met"]]


def table(rows: list[dict[str, Any]]) -> str:
    """One line a row, as the fields of `Row` have it."""
    lines = []
    for row in rows:
        name, measured, ratio, target, met = cells(row)
        lines.append((f"`{name}`", row["what"], measured, ratio, target, met))
    return grid(("Name", "What", "Measured", "Ratio", "Target", "Met"), lines)


def grid(header: tuple[str, ...], lines: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    first, *others = (f"| {' | '.join(line)} |" for line in (header, *lines))
    return "\n".join([first, "|" + "---|" * len(header), *others])


def footer(report: dict[str, Any]) -> str:
    """Where and when this was measured."""
    machine = report["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    dates = sorted({row["date"] for row in report["rows"]})
    return (
        f"{machine['processor']}, {machine['cores']} cores; {versions}; {' to '.join(dates[:1] + dates[1:][-1:])}.\n"
        f"Load of the machine before the first measurement: {machine['load']:.1f}."
    )


def put_into_docs(text: str, page: Path, mark: str) -> None:
    """Replace what stands between the two marks."""
    before, _, rest = page.read_text(encoding="utf-8").partition(f"<!-- {mark} -->")
    _, end, after = rest.partition(f"<!-- /{mark} -->")
    if not end:
        raise SystemExit(f"{page} has no <!-- {mark} --> … <!-- /{mark} --> to fill.")
    page.write_text(f"{before}<!-- {mark} -->\n\n{text}\n\n{end}{after}", encoding="utf-8")
