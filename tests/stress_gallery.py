"""All runs of the gallery, cut short, in batches of random widths on two processes: does everything end?

    python tests/stress_gallery.py [--seed 0] [--times 1] [ID ...]

A hang is what this looks for (batched LAPACK that waits for itself, a helper that is never heard of again), so nothing
is checked but that every run comes back, once, with a status. `make stress` runs it three times.
"""

import argparse
import dataclasses
import faulthandler
import time

import numpy as np

from afterfit._sweeps import plan as planning
from afterfit._sweeps import processes
from afterfit.dynamics import Discrete
from afterfit.papers import entries


def shortened(experiment):
    """The same program, for a few steps."""
    dynamics = experiment.dynamics
    field, most = ("steps", 300) if isinstance(dynamics, Discrete) else ("max_steps", 40)
    fewer = dynamics.replace(**{field: min(getattr(dynamics, field), most)})
    return dataclasses.replace(experiment, dynamics=fewer, observations=min(experiment.observations, 20))


def stress(ids, seed: int) -> int:
    """Run what these entries run at quick scale, with random widths; how many runs there were."""
    rng = np.random.default_rng(seed)
    processes.cores, processes._WORTH_HELP = (lambda: 2), 0.0
    planning._MANY_FLOWS = 2  # flows too go together, which puts their factorisations under vmap
    total = 0
    for id in rng.permutation(sorted(ids)):
        planning._WIDEST, planning._ENOUGH = (int(rng.integers(low, 20)) for low in (1, 2))
        experiments = {name: shortened(each) for name, each in entries()[str(id)].experiments("quick").items()}
        runs = processes.run_many(experiments)
        assert runs.keys() == experiments.keys()
        assert all(run.status for run in runs.values())
        total += len(runs)
    return total


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("ids", nargs="*", default=list(entries()))
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--times", type=int, default=1)
    chosen = options.parse_args()
    faulthandler.dump_traceback_later(1800, exit=True)  # what hangs, says where
    for seed in range(chosen.seed, chosen.seed + chosen.times):
        began = time.monotonic()
        print(f"seed {seed}: {stress(chosen.ids, seed)} runs ended in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
