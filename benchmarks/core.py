"""Speed and memory of the core, as ratios measured side by side in one run.

    python benchmarks/core.py [--only NAME ...]

Every competitor runs in a process of its own, one after the other: PyTorch's threads spin while they wait and
would take the cores from XLA. Where two are compared they alternate for several rounds, and the medians are
compared. Writes docs/benchmarks.json and the table in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

DOCS = Path(__file__).parent.parent / "docs"
ROUNDS = 5


# ------------------------------------------------------------------------------------------------ what is measured


def sparse_recovery(steps: int = 2_000_000) -> dict[str, float]:
    """Microseconds a step of notsawo2025/fig3: afterfit with its 200 observations, a bare lax.scan, plain NumPy."""
    import jax
    import jax.numpy as jnp

    from afterfit import papers, run_experiment

    experiment = papers.find("notsawo2025/fig3").experiments("paper")["run"].set({"dynamics.steps": steps})
    data = experiment.draw()
    lr, beta = experiment.dynamics.lr, experiment.penalty.strength
    run_experiment(experiment.set({"dynamics.steps": 1000}), progress=False)  # compiles
    with jax.enable_x64(True):
        X, y = jnp.asarray(data.inputs), jnp.asarray(data.targets)

        @jax.jit
        def scan(a):
            def step(a, _):
                return a - lr * (X.T @ (X @ a - y) + beta * jnp.sign(a)), None

            return jax.lax.scan(step, a, None, length=steps)[0]

        scan(jnp.zeros(X.shape[1])).block_until_ready()
        ours, bare = [], []
        for _ in range(ROUNDS):
            ours.append(run_experiment(experiment, progress=False).seconds)
            began = time.perf_counter()
            scan(jnp.zeros(X.shape[1])).block_until_ready()
            bare.append(time.perf_counter() - began)
    few = 30_000
    a, began = np.zeros(data.inputs.shape[1]), time.perf_counter()
    for _ in range(few):
        a = a - lr * (data.inputs.T @ (data.inputs @ a - data.targets) + beta * np.sign(a))
    numpy_seconds = (time.perf_counter() - began) / few
    scale = 1e6 / steps
    return {
        "afterfit": statistics.median(ours) * scale,
        "scan": statistics.median(bare) * scale,
        "numpy": numpy_seconds * 1e6,
    }


def sparse_recovery_torch(steps: int = 5000) -> dict[str, float]:
    """The same step in PyTorch, with autograd and its SGD."""
    import torch

    from afterfit import papers

    experiment = papers.find("notsawo2025/fig3").experiments("paper")["run"]
    data = experiment.draw()
    X, y = torch.tensor(data.inputs), torch.tensor(data.targets)
    a = torch.zeros(X.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([a], lr=experiment.dynamics.lr)

    def step():
        optimiser.zero_grad()
        (0.5 * ((X @ a - y) ** 2).sum() + experiment.penalty.strength * a.abs().sum()).backward()
        optimiser.step()

    for _ in range(200):
        step()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return {"torch": (time.perf_counter() - began) / steps * 1e6}


def paper_scale(id: str, steps: int) -> dict[str, float]:
    """Seconds of a gallery entry's run at paper scale, compilation included."""
    from afterfit import papers, run_experiment

    experiment = papers.find(id).experiments("paper")["run"].set({"dynamics.steps": steps})
    run = run_experiment(experiment, progress=False)
    assert run.status == "finished"
    return {"seconds": run.seconds}


def _modular_experiment(steps: int):
    from afterfit import Experiment, dynamics, inits, models, penalties, tasks

    return Experiment(
        task=tasks.ModularArithmetic(p=97, fraction=0.4),
        model=models.MLP((1024,), biases="hidden"),
        penalty=penalties.L2(1e-4),
        dynamics=dynamics.GradientDescent(lr=0.002, steps=steps),
        init=inits.He(),
        observations=2,
    )


def modular_addition(steps: int = 40) -> dict[str, float]:
    """Milliseconds a step of the two-layer net on modular addition (p=97, 40 %, h=1024, float32)."""
    import jax
    import jax.numpy as jnp

    from afterfit.train import _advance, _numbers_as_arrays, _start, prepare

    experiment = _modular_experiment(steps)
    with jax.enable_x64(True):
        problem, params = prepare(experiment)
        dynamics = _numbers_as_arrays(experiment.dynamics, params)
        state = _start(dynamics, problem, params, jax.random.key(0))

        def go(target: int):
            return jax.block_until_ready(_advance(dynamics, problem, state, jnp.asarray(target), jnp.asarray(10**9)))

        go(2)
        began = time.perf_counter()
        go(steps)
        return {"afterfit": (time.perf_counter() - began) / steps * 1e3}


def modular_addition_torch(steps: int = 40) -> dict[str, float]:
    """The same step in PyTorch with one-hot matrix products."""
    import torch

    data = _modular_experiment(steps).draw()
    tokens = torch.tensor(np.asarray(data.inputs.tokens))
    x = torch.nn.functional.one_hot(tokens, 97).reshape(len(tokens), -1).float()
    labels = torch.tensor(np.asarray(data.targets))
    torch.manual_seed(0)
    W1 = (torch.randn(1024, 194) * (2 / 194) ** 0.5).requires_grad_()
    b1 = torch.zeros(1024, requires_grad=True)
    W2 = (torch.randn(97, 1024) * (2 / 1024) ** 0.5).requires_grad_()
    optimiser = torch.optim.SGD([W1, b1, W2], lr=0.002, weight_decay=1e-4)

    def step():
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(torch.relu(x @ W1.T + b1) @ W2.T, labels).backward()
        optimiser.step()

    for _ in range(3):
        step()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return {"torch": (time.perf_counter() - began) / steps * 1e3}


def memory(steps: int, observations: int) -> dict[str, float]:
    """Megabytes of peak memory of one run of notsawo2025/fig3, beyond those of a short one."""
    from afterfit import papers, run_experiment

    experiment = papers.find("notsawo2025/fig3").experiments("paper")["run"]
    run_experiment(experiment.set({"dynamics.steps": 100, "observations": 10}), progress=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = run_experiment(experiment.set({"dynamics.steps": steps, "observations": observations}), progress=False)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"megabytes": grown / 1024, "curves": run.curves.nbytes / 1e6}


def import_time() -> dict[str, float]:
    """Seconds of `import jax`, and of `import afterfit` after it."""
    code = (
        "import time; a = time.perf_counter(); import jax; b = time.perf_counter(); import afterfit; "
        "print(b - a, time.perf_counter() - b)"
    )
    times = [
        [float(t) for t in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()]
        for _ in range(ROUNDS + 1)
    ][1:]  # the first one fills the cache of the file system
    jax, afterfit = (statistics.median(column) for column in zip(*times, strict=True))
    return {"jax": jax, "afterfit": afterfit}


WORKERS: dict[str, Callable[..., dict[str, float]]] = {
    f.__name__: f
    for f in (
        sparse_recovery,
        sparse_recovery_torch,
        paper_scale,
        modular_addition,
        modular_addition_torch,
        memory,
        import_time,
    )
}


# -------------------------------------------------------------------------------------------------- what is asked


def _measure(worker: str, *args) -> dict[str, float] | None:
    """Run a worker in a process of its own; None where what it needs is not installed."""
    command = [sys.executable, __file__, "--worker", json.dumps([worker, *args])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        if "No module named 'torch'" in done.stderr:
            return None
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def _alternate(ours: str, theirs: str) -> tuple[float, float] | None:
    """Medians of two workers that take turns."""
    pairs = [(_measure(ours), _measure(theirs)) for _ in range(ROUNDS)]
    if any(their is None for _, their in pairs):
        return None
    return tuple(statistics.median(next(iter(m.values())) for m in column) for column in zip(*pairs, strict=True))


def _row(name: str, measured: str, value: float | None, target: str, met: bool | None) -> dict:
    return {"name": name, "measured": measured, "value": value, "target": target, "met": met}


NOT_MEASURED = "not measured: install torch (CPU build)"


def bench_step():
    rates = _measure("sparse_recovery")
    ours, scan, plain = rates["afterfit"], rates["scan"], rates["numpy"]
    name = "step of notsawo2025/fig3, observations included"
    said = f"{ours:.2f} µs; bare lax.scan {scan:.2f} µs"
    yield _row(f"{name}: against lax.scan", said, ours / scan, "≤ 1.5", ours / scan <= 1.5)
    yield _row(f"{name}: NumPy against it", f"NumPy {plain:.1f} µs", plain / ours, "≥ 5", plain / ours >= 5)
    torch = _measure("sparse_recovery_torch")
    if torch is None:
        yield _row(f"{name}: PyTorch against it", NOT_MEASURED, None, "≥ 50", None)
    else:
        ratio = torch["torch"] / ours
        yield _row(f"{name}: PyTorch against it", f"PyTorch {torch['torch']:.0f} µs", ratio, "≥ 50", ratio >= 50)


def bench_paper():
    for id, steps, limit in (("boursier2025/fig2", 10**7, 90), ("lyu2023/fig3", 10**6, 240)):
        seconds = _measure("paper_scale", id, steps)["seconds"]
        yield _row(f"{id}, {steps:.0e} steps", f"{seconds:.0f} s", seconds, f"< {limit} s", seconds < limit)


def bench_modular():
    name = "step of a two-layer net on modular addition: PyTorch against it"
    both = _alternate("modular_addition", "modular_addition_torch")
    if both is None:
        yield _row(name, NOT_MEASURED, None, "≥ 2", None)
        return
    ours, torch = both
    yield _row(name, f"{ours:.1f} ms; PyTorch {torch:.1f} ms", torch / ours, "≥ 2", torch / ours >= 2)


def bench_memory():
    by_steps = {steps: _measure("memory", steps, 100)["megabytes"] for steps in (10**4, 10**5, 10**6, 10**7)}
    grown = max(by_steps.values()) - min(by_steps.values())
    said = ", ".join(f"{steps:.0e} steps {grown:.1f} MB" for steps, grown in by_steps.items())
    yield _row("memory of a run by steps (100 observations)", said, grown, "no growth (< 5 MB)", grown < 5)
    runs = {n: _measure("memory", 10**6, n) for n in (50, 500, 5000)}
    said = ", ".join(f"{n} observations {m['megabytes']:.1f} MB (curves {m['curves']:.2f})" for n, m in runs.items())
    yield _row("memory of a run by observations (10⁶ steps)", said, None, "grows with observations", None)


def bench_import():
    times = _measure("import_time")
    said = f"{times['afterfit']:.2f} s beyond JAX's {times['jax']:.2f} s"
    yield _row("import", said, times["afterfit"], "< 1 s", times["afterfit"] < 1)


BENCHMARKS = {
    "step": bench_step,
    "paper": bench_paper,
    "modular": bench_modular,
    "memory": bench_memory,
    "import": bench_import,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, *args = json.loads(options.worker)
        print(json.dumps(WORKERS[name](*args)))
        return
    path = DOCS / "benchmarks.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    for name in options.only:
        rows = []
        for row in BENCHMARKS[name]():
            value = "" if row["value"] is None else f"{row['value']:.3g}"
            print(f"{row['name']}: {row['measured']} -> {value} (target {row['target']}) {row['met']}", flush=True)
            rows.append(row)
        results[name] = {"rows": rows, "python": platform.python_version(), "cores": len(_cores())}
        path.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    _write_table([row for name in BENCHMARKS if name in results for row in results[name]["rows"]])


def _cores() -> set[int]:
    import os

    return os.sched_getaffinity(0)


def _write_table(rows: list[dict]) -> None:
    """The table between the two comments in docs/benchmarks.md."""
    path = DOCS / "benchmarks.md"
    lines = ["| what | measured | value | target | met |", "|---|---|---|---|---|"]
    for row in rows:
        value = "" if row["value"] is None else f"{row['value']:.3g}"
        met = {True: "yes", False: "**no**", None: ""}[row["met"]]
        lines.append(f"| {row['name']} | {row['measured']} | {value} | {row['target']} | {met} |")
    before, _, rest = path.read_text(encoding="utf-8").partition("<!-- table -->")
    _, _, after = rest.partition("<!-- /table -->")
    table = "\n".join(lines)
    path.write_text(f"{before}<!-- table -->\n{table}\n<!-- /table -->{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
