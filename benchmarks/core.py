"""Speed and memory of afterfit, beside the same arithmetic without it.

    python benchmarks/core.py [--quick] [--only NAME ...] [--json FILE]

Prints a table, writes it with all measurements to docs/benchmarks.json and puts it into docs/benchmarks.md.
`--only` measures some benchmarks and leaves the rows of the others as they were; `--quick` uses shorter loops and
writes to benchmarks/results/, leaving the documentation alone. How it is measured: docs/benchmarks.md.
"""

from __future__ import annotations

import importlib.util
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from report import Benchmark, Row, Suite, footer, main, table, worker, workers_at_once
from workers import seconds

NO_TORCH = "not measured: pip install torch (CPU build)"


# --- The benchmarks: each yields rows ---


def subgradient(quick: bool) -> Iterator[Row]:
    """A subgradient step of notsawo2025/fig3."""
    rounds, turns = (1, 1) if quick else (3, 2)
    samples: dict[str, list[float]] = {"afterfit": [], "scan": [], "numpy": [], "torch": []}
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/step.npz"
        paper = worker("step_data", file=data)
        steps = paper["steps"]  # also if quick: over fewer steps the observations would cost more than the steps
        for _ in range(rounds):
            found = worker("step_afterfit", data=data, steps=steps, rounds=turns)
            found |= worker("step_numpy", data=data, steps=20_000 if quick else 200_000)
            if has_torch():
                found |= worker("step_torch", data=data, steps=2_000 if quick else 20_000)
            for other in ("scan", "numpy", "torch"):
                if f"{other}_end" in found:
                    check_same(f"{other}'s weights", found[f"{other}_end"], found["afterfit_end"], 1e-9)
            for name, times in samples.items():
                if name in found:
                    times += found[name] if isinstance(found[name], list) else [found[name]]
    ours = statistics.median(samples["afterfit"])
    for other, label, what, target, bound in (
        (
            "scan",
            "lax.scan",
            "a step of notsawo2025/fig3, observations included: afterfit over a bare scan",
            "≤ 1.5",
            1.5,
        ),
        ("numpy", "NumPy", "the same loop in plain NumPy over afterfit", "≥ 5", 5.0),
        ("torch", "PyTorch", "the same loop in PyTorch with autograd and SGD over afterfit", "≥ 50", 50.0),
    ):
        if not samples[other]:
            yield Row(f"subgradient/{other}", what, NO_TORCH, target)
            continue
        theirs = statistics.median(samples[other])
        ratio = ours / theirs if other == "scan" else theirs / ours
        yield Row(
            f"subgradient/{other}",
            what,
            f"afterfit {micro(ours)}, {label} {micro(theirs)}",
            target,
            ratio,
            ratio <= bound if other == "scan" else ratio >= bound,
            {"afterfit": samples["afterfit"], other: samples[other], "steps": steps},
        )


def boursier(quick: bool) -> Iterator[Row]:
    """boursier2025/fig2 at paper scale."""
    yield paper_run("boursier2025/fig2", 10_000_000, 90.0, quick)


def lyu(quick: bool) -> Iterator[Row]:
    """lyu2023/fig3, a million steps of plain gradient descent."""
    yield paper_run("lyu2023/fig3", 1_000_000, 240.0, quick)


def paper_run(entry: str, steps: int, bound: float, quick: bool) -> Row:
    """A whole run, data, compiling and observations included; `quick` runs a part and adds the other steps."""
    part = steps // 50 if quick else steps
    found = worker("gallery", entry=entry, steps=part, shorter=part // 2 if quick else 0)
    if found["status"] != "finished" or found["steps"] != part:
        raise SystemExit(f"{entry} did not finish: {found}.")
    taken = found["seconds"]
    if quick:  # two lengths with as many observations: what is between them are steps only
        taken += (found["again"] - found["shorter"]) / (part - part // 2) * (steps - part)
    return Row(
        entry,
        f"a whole run at paper scale, {steps:,} steps: seconds over the target",
        f"{taken:.1f} s" + (f", from {part} steps" if quick else ""),
        f"< {bound:g} s",
        taken / bound,
        taken < bound,
        found,
    )


def modular(quick: bool) -> Iterator[Row]:
    """A gradient step of the two-layer net on modular addition."""
    rounds, loop = (2, {"steps": 10, "rounds": 5}) if quick else (4, {"steps": 20, "rounds": 10})
    samples: dict[str, list[float]] = {"afterfit": [], "torch": []}
    what = "a gradient step on one-hot pairs (p = 97, 40 %, h = 1024): one-hot products in PyTorch over afterfit"
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/modular.npz"
        worker("modular_data", file=data)
        for _ in range(rounds):
            found = worker("modular_afterfit", **loop)
            samples["afterfit"] += found["afterfit"]
            if has_torch():
                other = worker("modular_torch", data=data, **loop)
                samples["torch"] += other["torch"]
                check_same("PyTorch's loss", [other["torch_loss"]], [found["afterfit_loss"]], 1e-5)
    ours = statistics.median(samples["afterfit"])
    if not samples["torch"]:
        yield Row("modular", what, f"afterfit {milli(ours)}; PyTorch {NO_TORCH}", "≥ 2", None, None, samples)
        return
    theirs = statistics.median(samples["torch"])
    ratio = theirs / ours
    yield Row("modular", what, f"afterfit {milli(ours)}, PyTorch {milli(theirs)}", "≥ 2", ratio, ratio >= 2, samples)


def adam_sweep(quick: bool) -> Iterator[Row]:
    """Whole sweeps of notsawo2025/fig2 and fig10, against PyTorch's loop on the same cores."""
    steps, rounds = (40, 1) if quick else (300, 4)
    for entry, said in (("notsawo2025/fig2", "addition, p = 97"), ("notsawo2025/fig10", "students of a teacher")):
        name = f"adam_sweep/{entry.rpartition('/')[2]}"
        with tempfile.TemporaryDirectory() as folder:
            kinds = worker("sweep_data", entry=entry, folder=folder)["kinds"]
            runs = sum(kind["runs"] for kind in kinds)
            what = f"Adam, the {runs} runs of {entry} ({said}) at paper scale, a step: PyTorch's loop over afterfit"
            found = worker("sweep_afterfit", entry=entry, steps=steps, shorter=steps // 2)
            # Two lengths with as many observations: what is between them are steps only.
            ours = (found["longer"] - found["shorter"]) / (steps - steps // 2) / runs
            if not has_torch():
                yield Row(name, what, f"afterfit {milli(ours)}; PyTorch {NO_TORCH}", "≥ 5", None, None, found)
                continue
            theirs = 0.0
            for kind in kinds:
                count, file = kind.pop("runs"), f"{folder}/{kind['kind']}.npz"
                other = worker("sweep_torch", entry=entry, file=file, steps=steps // 2, rounds=rounds, **kind)
                check_same("PyTorch's loss", [other["torch_loss"]], [found["losses"][kind["kind"]]], 1e-4)
                theirs += statistics.median(other["torch"]) * count / runs
                found[f"torch_{kind['kind']}"] = other["torch"]
        ratio = theirs / ours
        yield Row(name, what, f"afterfit {milli(ours)}, PyTorch {milli(theirs)}", "≥ 5", ratio, ratio >= 5, found)


def digits(quick: bool) -> Iterator[Row]:
    """A step of AdamW with a user's net on real digits, in both precisions."""
    if importlib.util.find_spec("sklearn") is None:
        yield Row("digits", "steps of a user's net on real digits", "not measured: pip install scikit-learn", "≤ 1.3")
        return
    rounds, loop = (1, {"steps": 300, "rounds": 1}) if quick else (3, {"steps": 2000, "rounds": 2})
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/digits.npz"
        worker("digits_data", file=data)
        for precision, agreement in (("single", 1e-3), ("double", 1e-9)):
            samples: dict[str, list[float]] = {"afterfit": [], "jax": [], "torch": []}
            for _ in range(rounds):
                found = worker("digits_afterfit", data=data, precision=precision, **loop)
                if has_torch():
                    found |= worker("digits_torch", data=data, precision=precision, **loop | {"steps": 200})
                for name, times in samples.items():
                    if name in found:
                        times += found[name]
                        check_same(f"{name}'s loss", [found[f"{name}_loss"]], [found["afterfit_loss"]], agreement)
            ours = statistics.median(samples["afterfit"])
            for other, label, bound in (("jax", "a bare compiled loop in JAX", 1.3), ("torch", "PyTorch", 1.0)):
                what = f"CPU time of a step on digits, {precision}, 200 observations included: afterfit over {label}"
                if not samples[other]:
                    yield Row(f"digits/{precision}/{other}", what, NO_TORCH, f"≤ {bound:g}")
                    continue
                ratio = ours / statistics.median(samples[other])
                measured = f"afterfit {milli(ours)}, {label.split()[-1]} {milli(statistics.median(samples[other]))}"
                shown = {"afterfit": samples["afterfit"], other: samples[other]} | loop
                yield Row(f"digits/{precision}/{other}", what, measured, f"≤ {bound:g}", ratio, ratio <= bound, shown)


def label_noise(quick: bool) -> Iterator[Row]:
    """A step of label-noise SGD, alone and with other seeds of the noise."""
    for lanes, bound in ((1, 4.0), (16, 3.0)):
        found = worker("label_noise", lanes=lanes, steps=(10_000 if quick else 200_000) // lanes, rounds=5)
        ours, before = (statistics.median(found[name]) for name in ("blocks", "one_by_one"))
        together = "alone" if lanes == 1 else f"{lanes} seeds of the noise together"
        yield Row(
            f"label_noise/{lanes}",
            f"CPU time of a step of lyu2023/labelnoise, {together}: random numbers drawn step by step over "
            "drawn for 128 steps at once",
            f"at once {micro(ours)}, step by step {micro(before)}",
            f"≥ {bound:g}",
            before / ours,
            before / ours >= bound,
            found,
        )


def kinked_flows(quick: bool) -> Iterator[Row]:
    """Flows of ReLU nets, one by one as sweeps have them, and together."""
    count = 6 if quick else 24
    found = worker("kinked_flows", count=count, rounds=1 if quick else 3)
    alone, together = (statistics.median(found[name]) for name in ("alone", "together"))
    yield Row(
        "kinked_flows",
        f"CPU time of a flow of woodworth2020/fig6ab, D = 2: {count} together, as one program, over one by one",
        f"one by one {milli(alone)}, together {milli(together)}",
        "≥ 1.5",
        together / alone,
        together / alone >= 1.5,
        found,
    )


def threads(quick: bool) -> Iterator[Row]:
    """Processes that share the cores: a thread a core in each, and one in each."""
    entry, changes = "woodworth2020/fig7", {"dynamics.steps": 5000}
    for count, bound in ((2, 2.0), (1, 1.5)):
        slower: dict[str, list[float]] = {"many": [], "one": []}
        for _ in range(1 if quick else 3):
            for way, told in (("many", None), ("one", "1")):
                found = workers_at_once("one_run", count, {"NPROC": told}, entry=entry, changes=changes)
                slower[way].append(max(each["seconds"] for each in found))
        many, one = (statistics.median(times) for times in slower.values())
        yield Row(
            f"threads/{count}",
            f"a run of {entry} in {'two processes at once' if count == 2 else 'one process'}: a thread a core over one "
            "thread",
            f"a thread a core {many:.1f} s, one thread {one:.1f} s",
            f"≥ {bound:g}",
            many / one,
            many / one >= bound,
            slower,
        )


def memory(quick: bool) -> Iterator[Row]:
    """Resident memory against the number of steps and of observations."""
    rounds = 1 if quick else 3

    def growth(steps: int, observations: int) -> dict[str, Any]:
        found = [worker("memory", steps=steps, observations=observations) for _ in range(rounds)]
        return found[0] | {"bytes": statistics.median(one["bytes"] for one in found)}

    by_steps = {steps: growth(steps, 200) for steps in (10_000, 100_000, 1_000_000)}
    rise = {steps: found["bytes"] for steps, found in by_steps.items()}
    # The observations are log-spaced whole numbers: more of them are distinct when there are more steps.
    seen = {steps: found["observed"] for steps, found in by_steps.items()}
    a_step = (rise[1_000_000] - rise[10_000]) / (1_000_000 - 10_000)
    yield Row(
        "memory/steps",
        "growth of the resident memory over a run of 10⁴, 10⁵, 10⁶ steps: bytes a step",
        ", ".join(mega(rise[steps]) for steps in rise),
        "< 8, one number",
        a_step,
        a_step < 8,
        {"bytes": rise, "observed": seen},
    )
    by_count = {count: growth(1_000_000, count) for count in (50, 500, 5000)}
    few, many = by_count[50], by_count[5000]
    a_row = (many["bytes"] - few["bytes"]) / (many["observed"] - few["observed"])
    own = (many["curves"] - few["curves"]) / (many["observed"] - few["observed"])
    yield Row(
        "memory/observations",
        f"the same with 50, 500, 5000 observations of 10⁶ steps: bytes an observation of {own / 8:.0f} numbers",
        ", ".join(mega(found["bytes"]) for found in by_count.values()),
        "may grow",
        a_row,
        None,
        {str(count): found for count, found in by_count.items()},
    )


def imports(quick: bool) -> Iterator[Row]:
    """The time to import the package beyond that of JAX."""
    codes = {"jax": "import jax", "both": "import jax; import afterfit"}
    times: dict[str, list[float]] = {name: [] for name in codes}
    for round in range(4 if quick else 12):
        for name, code in codes.items():
            taken = seconds(lambda code=code: subprocess.run([sys.executable, "-c", code], check=True))
            if round:  # the first one reads the files from the disk
                times[name].append(taken)
    jax, both = (statistics.median(times[name]) for name in codes)
    yield Row(
        "import",
        "`import jax; import afterfit` beyond `import jax`: seconds",
        f"both {both:.2f} s, jax {jax:.2f} s",
        "< 1",
        both - jax,
        both - jax < 1,
        times,
    )


BENCHMARKS: dict[str, Benchmark] = {
    "subgradient": subgradient,
    "boursier": boursier,
    "lyu": lyu,
    "modular": modular,
    "adam_sweep": adam_sweep,
    "digits": digits,
    "label_noise": label_noise,
    "kinked_flows": kinked_flows,
    "threads": threads,
    "memory": memory,
    "import": imports,
}


# --- How they are written down ---


def has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def check_same(what: str, found: list[float], expected: list[float], tolerance: float) -> None:
    """Competitors that do not compute the same thing are not compared."""
    scale = max(abs(value) for value in expected)
    error = max(abs(a - b) for a, b in zip(found, expected, strict=True)) / scale
    if not error <= tolerance:
        raise SystemExit(f"{what} differ from afterfit's by {error:.2g} of their size: nothing to compare.")


def micro(seconds: float) -> str:
    return f"{1e6 * seconds:.3g} µs"


def milli(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def mega(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


def markdown(report: dict[str, Any]) -> str:
    """The table of the documentation."""
    return f"{table(report['rows'])}\n\n{footer(report)}"


if __name__ == "__main__":
    main(Suite(__doc__ or "", BENCHMARKS, file="benchmarks.json", mark="table", markdown=markdown))
