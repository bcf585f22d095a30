"""What a forecast costs beside its run, for small runs: cold (a new process, nothing compiled) and warm.

    python benchmarks/forecast_cost.py

Each case in a process of its own, the forecast and the run each in turn, twice. Seconds of processor time: they tell
more than those of the clock on a machine with other work. Prints the table of docs/benchmarks.md.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from report import grid

import afterfit as af
from afterfit._training.experiment import Experiment
from afterfit._training.train import run_experiment

GALLERY = ("notsawo2025/fig3", "boursier2025/fig2", "woodworth2020/fig5", "lyu2023/fig1a")


def cases() -> dict[str, Experiment]:
    """The runs of the README and of docs/theory.md, and the first of some entries of the gallery at quick scale."""
    found = {
        "README": Experiment(
            task=af.tasks.SparseClassification(n=96, d=1000, sparsity=3),
            model=af.models.DiagonalNet(depth=2),
            penalty=af.penalties.L2(1e-2),
            dynamics=af.dynamics.GradientFlow(until=2e3, first=1e-2),
            init=af.inits.Constant(norm=30.0),
        ),
        "docs/theory.md": Experiment(
            task=af.tasks.SparseRegression(n=30, d=80, sparsity=3),
            model=af.models.DiagonalNet(),
            penalty=af.penalties.L2(1e-3),
            dynamics=af.dynamics.GradientFlow(2e4),
            init=af.inits.Constant(scale=3.0),
        ),
        "linear, 20,000 steps": Experiment(
            task=af.tasks.SparseRegression(n=59, d=60, sparsity=60),
            model=af.models.Linear(),
            penalty=af.penalties.L2(1e-2),
            dynamics=af.dynamics.GradientDescent(lr=2e-3, steps=20_000),
            init=af.inits.Gaussian(3.0),
        ),
        "nuclear, 10,000 steps": Experiment(
            task=af.tasks.MatrixCompletion(8, 8, 1, observed=40, truth="orthogonal", reduction="half_sum"),
            model=af.models.Linear(),
            penalty=af.penalties.Nuclear(1e-3),
            dynamics=af.dynamics.GradientDescent(lr=0.3, steps=10_000),
            init=af.inits.ScaledGaussian(1e-6),
        ),
    }
    return found | {name: next(iter(af.papers.find(name).experiments("quick").values())) for name in GALLERY}


def measure(name: str) -> None:
    experiment = cases()[name]
    parts = {"forecast": lambda: af.forecast(experiment), "run": lambda: run_experiment(experiment, progress=False)}
    found = {}
    for state in ("cold", "warm"):
        for part, work in parts.items():
            clock, processor = time.perf_counter(), time.process_time()
            said = work()
            found[f"{part} {state}"] = (time.process_time() - processor, time.perf_counter() - clock)
            if isinstance(said, af.theory.Forecast):
                found["answers"] = said.answers or ("left out" if "left out" in said.by else "no theory")
    print(json.dumps(found))


def main() -> None:
    rows = []
    for name in cases():
        alone = {key: value for key, value in os.environ.items() if not key.startswith("JAX_")}
        said = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True, env=alone)
        found = json.loads(said.stdout.splitlines()[-1])
        times = [f"{found[f'{part} {state}'][0]:.2f} s" for state in ("cold", "warm") for part in ("forecast", "run")]
        rows.append((name, *times, "yes" if found["answers"] is True else found["answers"]))
        print(rows[-1], found, flush=True)
    print(grid(("Run", "Forecast, cold", "Run, cold", "Forecast, warm", "Run, warm", "Answers"), rows))


if __name__ == "__main__":
    measure(sys.argv[1]) if len(sys.argv) > 1 else main()
