"""What one process of the benchmarks of sweeps measures: `workers.py` for `sweeps.py`.

    python benchmarks/sweep_workers.py singles '{"steps": 300000, "part": 0, "parts": 16}'

The Dask processes that are killed are those of the tests.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from workers import headline, seconds

HERE = Path(__file__).parent
SAME = ("spec.json", "curves.parquet", "params.npz")  # the other files of a run say when it was and how long it took


# --- 64 runs of notsawo2025/fig3, one by one and as a sweep ---


def _fig3(steps: int) -> Any:
    return headline("notsawo2025/fig3", {"dynamics.steps": steps})


def _sweep_of_64(kind: str, steps: int, store: str) -> Any:
    import afterfit as af

    strengths, seeds = {"64 x 1": (64, 1), "8 x 8": (8, 8), "1 x 64": (1, 64)}[kind]
    values = af.geomspace(1e-6, 1e-4, strengths) if strengths > 1 else (1e-5,)
    return af.sweep(_fig3(steps), {"penalty.strength": values}, seeds=seeds, store=store)


def singles(steps: int, part: int, parts: int) -> dict[str, Any]:
    """Every `parts`-th of 64 strengths from the `part`-th on, one run after another, compiled before."""
    import afterfit as af
    from afterfit._training.train import run_experiment

    experiment = _fig3(steps)
    run_experiment(experiment.set({"dynamics.steps": 1000}), progress=False)  # compiles
    times, outcomes = [], {}
    for strength in list(af.geomspace(1e-6, 1e-4, 64))[part::parts]:
        one = experiment.set({"penalty.strength": strength})
        began = time.perf_counter()
        run = run_experiment(one, progress=False)
        times.append(time.perf_counter() - began)
        outcomes[one.id] = [run.verdict.kind, run.verdict.t_gen]
    return {"seconds": times, "outcomes": outcomes}


def sweep_of_64(kind: str, steps: int) -> dict[str, Any]:
    """The sweep, from `af.sweep` until the last run is in a fresh store: planning and compiling included."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        sweep = _sweep_of_64(kind, steps, f"{folder}/store").run(progress=False)
        taken = time.perf_counter() - began
        rows = sweep.store.summaries().to_pylist()
    return {"seconds": taken, "outcomes": {row["id"]: [row["verdict"], row["t_gen"]] for row in rows}}


def grid(entry: str, scale: str) -> dict[str, Any]:
    """All runs of an entry in a fresh process, compiling included; `there` is False if there is no such entry."""
    from afterfit import SpecError, papers

    try:
        found = papers.find(entry)
    except SpecError:
        return {"there": False}
    runs: dict[str, Any] = {}
    taken = seconds(lambda: runs.update(found.run(scale, progress=False)))
    statuses = sorted({run.status for run in runs.values()})
    steps = sum(run.work.get("steps", 0) for run in runs.values())
    return {"there": True, "seconds": taken, "runs": len(runs), "steps": steps, "statuses": statuses}


# --- The store ---


def overhead(steps: int, runs: int) -> dict[str, Any]:
    """What a sweep of notsawo2025/fig3 spends on files and in the store, by function, beside what its runs took."""
    import afterfit as af
    from afterfit._training.run import Run

    spent: dict[str, float] = {}
    _time_calls(Run, "files", spent)
    for name in ("publish", "lease", "release"):
        _time_calls(af.Store, name, spent)
    with tempfile.TemporaryDirectory() as folder:
        over = {"penalty.strength": af.geomspace(1e-6, 1e-4, runs)}
        sweep = af.sweep(_fig3(steps), over, store=f"{folder}/store").run(progress=False)
        computed = sweep.store.summaries()["seconds"].to_pylist()
        size = sum(sum(sweep.store.files(id).values()) for id in sweep.store.ids()) / runs
    return {"spent": spent, "computed": computed, "bytes": size}


def _time_calls(owner: type, name: str, spent: dict[str, float]) -> None:
    """Have all calls of a method add up their seconds in `spent`."""
    method = getattr(owner, name)

    def timed(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return method(*arguments, **options)
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - began

    setattr(owner, name, timed)


def _sweep_of_many(store: str, count: int) -> Any:
    import afterfit as af

    return af.sweep(_small(1000), {"penalty.strength": af.geomspace(1e-4, 1e-2, 100)}, seeds=count // 100, store=store)


def many_runs(store: str, count: int) -> dict[str, Any]:
    """Fill a store with the runs of a sweep, by their names and settings; their curves are those of one small run."""
    from afterfit._base.files import SUMS, to_json
    from afterfit._training.train import run_experiment

    run = run_experiment(_small(1000), progress=False)
    files = {name: content for name, content in run.files().items() if name != SUMS}
    facts = json.loads(files["run.json"])
    sweep = _sweep_of_many(store, count)
    os.fsync = lambda _: None  # in this process only: these runs may be lost with the machine
    began = time.perf_counter()
    for experiment in sweep.missing:
        own = {"spec.json": to_json(experiment.to_dict()), "run.json": to_json({**facts, "id": experiment.id})}
        sweep.store.publish(experiment.id, {**files, **own})
    return {"seconds": time.perf_counter() - began}


def listing(store: str, count: int) -> dict[str, Any]:
    """The table of all runs, a question about it, and a sweep's dataset of it, each with a new `Store`.

    Loading pyarrow, DuckDB and xarray is included.
    """
    import afterfit as af

    sql = 'SELECT "penalty.strength", count(*), median(t_gen) FROM runs GROUP BY 1 ORDER BY 1'
    found: dict[str, Any] = {}
    listed = seconds(lambda: found.update(rows=af.Store(store).summaries().num_rows))
    queried = seconds(lambda: found.update(answers=af.Store(store).query(sql).num_rows))
    swept = seconds(lambda: found.update(cells=_sweep_of_many(store, count).dataset["t_gen"].size))
    return {"listing": listed, "query": queried, "dataset": swept, **found}


# --- Memory ---


def sweep_memory(budget: float, runs: int, n: int, d: int) -> dict[str, Any]:
    """By how much a sweep raises the resident memory at most, its helpers' included; libraries are loaded before."""
    import afterfit as af
    from afterfit._sweeps.plan import footprint

    with tempfile.TemporaryDirectory() as folder:
        _small_sweep(1000, f"{folder}/small").run(progress=False)
        large = af.Experiment(
            af.tasks.SparseRegression(n=n, d=d, sparsity=5, n_test=10),
            af.models.Linear(),
            af.dynamics.GradientDescent(1e-5, 600),
            af.penalties.L1(1e-4),
            af.inits.ScaledGaussian(1e-6),
            observations=20,
        )
        one = footprint(large).memory
        sweep = af.sweep(large, {"penalty.strength": (1e-4, 1e-3)}, seeds=runs // 2, store=f"{folder}/store")
        with _family_memory() as used:
            taken = seconds(lambda: sweep.run(memory=budget, progress=False))
        growth = max(used) - used[0]
        done = len(sweep.store.ids())
    return {"bytes": growth, "budget": budget * 1e9, "runs": done, "one": one, "seconds": taken}


@contextlib.contextmanager
def _family_memory() -> Iterator[list[int]]:
    """Bytes of resident memory of this process and its children, fifty times a second."""
    import psutil

    me, used, done = psutil.Process(), [], threading.Event()

    def look() -> None:
        total = 0
        for process in (me, *me.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        used.append(total)

    def keep_looking() -> None:
        while not done.wait(0.02):
            look()

    look()
    thread = threading.Thread(target=keep_looking)
    thread.start()
    try:
        yield used
    finally:
        done.set()
        thread.join()


# --- Kills ---


def _small(steps: int) -> Any:
    import afterfit as af

    return af.Experiment(
        af.tasks.SparseRecovery(n=12, sparsity=1, N=9, scale=3.0),
        af.models.Linear(),
        af.dynamics.GradientDescent(0.1, steps),
        af.penalties.L1(1e-4),
        af.inits.ScaledGaussian(1e-6),
        observations=60,
    )


def _small_sweep(steps: int, store: str) -> Any:
    """48 runs of two lengths on 4 draws, in several jobs that end one after another."""
    import afterfit as af

    over = {"penalty.strength": af.geomspace(1e-4, 1e-2, 6), "dynamics.steps": (steps // 3, steps)}
    return af.sweep(_small(steps), over, seeds=4, store=store)


def sweep_once(store: str, steps: int) -> dict[str, Any]:
    """The small sweep in this process; says when it begins, for whoever is to kill it."""
    sweep = _small_sweep(steps, store)
    print("begun", flush=True)
    return {"seconds": seconds(lambda: sweep.run(progress=False))}


def kill_process(steps: int, times: int) -> dict[str, Any]:
    """Kill the process of a sweep, start it again, and compare with one that was left alone."""
    moments = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        takes = _child(f"{folder}/alone", steps)
        alone = _contents(f"{folder}/alone", steps)
        kills = []
        for k in range(times):
            store, moment = f"{folder}/{k}", moments.uniform(0, takes)
            hit = _child(store, steps, kill_after=moment) is None
            done = _count(store)
            _child(store, steps)
            kills.append({"moment": moment, "hit": hit, "done": done, "same": _contents(store, steps) == alone})
    return {"takes": takes, "runs": len(alone) // len(SAME), "kills": kills}


def _child(store: str, steps: int, kill_after: float | None = None) -> float | None:
    """The seconds that a sweep takes in a process of its own; None if it was killed before its end."""
    command = [sys.executable, __file__, "sweep_once", json.dumps({"store": store, "steps": steps})]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it has begun
        if kill_after is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(kill_after)
            child.kill()
        said = child.stdout.read()
    if said.strip():
        return json.loads(said)["seconds"]
    if kill_after is None or child.returncode != -signal.SIGKILL:
        raise SystemExit(f"the sweep failed by itself, with code {child.returncode}")
    return None


def kill_dask(what: str, steps: int, times: int) -> dict[str, Any]:
    """The same on two Dask workers, of which one is killed, or their scheduler; the client is this process."""
    moments = random.Random(0)
    with tempfile.TemporaryDirectory() as folder, _clusters(Path(folder)) as (start, current):
        start()
        takes = 0.0
        for k in range(2):  # the first compiles
            sweep = _small_sweep(steps, f"{folder}/alone-{k}")
            takes = seconds(lambda sweep=sweep: sweep.run(on=current().address, progress=False))
        alone = _contents(f"{folder}/alone-0", steps)
        kills = []
        for k in range(times):
            store, moment = f"{folder}/store-{k}", moments.uniform(0, takes)
            facts: dict[str, Any] = {"moment": moment, "hit": False, "done": None, "lost": False}

            def kill(facts: dict[str, Any] = facts, store: str = store) -> None:
                facts["hit"] = current().kill(what)
                facts["done"] = _count(store)
                if what == "scheduler":
                    start()  # now, while the client finds out

            sweep = _small_sweep(steps, store)
            _wait_for_workers(current().address)
            timer = threading.Timer(moment, kill)
            timer.start()
            try:
                sweep.run(on=current().address, progress=False)
            except ConnectionError:
                facts["lost"] = True
            timer.cancel()
            timer.join()
            _wait_for_workers(current().address)
            sweep.run(on=current().address, progress=False)
            kills.append(facts | {"same": _contents(store, steps) == alone})
    return {"takes": takes, "runs": len(alone) // len(SAME), "kills": kills}


@contextlib.contextmanager
def _clusters(folder: Path) -> Iterator[tuple[Callable[[], None], Callable[[], Any]]]:
    """Functions that start a scheduler with two workers in the place of those before, and that give the current one."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    import psutil
    from dask_cluster import Cluster, kill_the_work_of

    class Two(Cluster):
        def __init__(self):
            super().__init__(Path(tempfile.mkdtemp(dir=folder)))
            self.nannies = [self.worker("one"), self.worker("two")]

        def kill(self, what: str) -> bool:
            """Whether there was something to kill: a nanny may still be starting its worker."""
            if what == "scheduler":
                self.scheduler.kill()
                return True
            there = [" ".join(child.cmdline()) for child in psutil.Process(self.nannies[0].pid).children()]
            kill_the_work_of(self.nannies[0])
            return any("multiprocessing.spawn" in command for command in there)

    started: list[Two] = []

    def start() -> None:
        if started:
            started.pop().end()
        started.append(Two())

    try:
        yield start, lambda: started[-1]
    finally:
        for one in started:
            one.end()


def _wait_for_workers(address: str) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)


def _count(store: str) -> int:
    import afterfit as af

    return len(af.Store(store).ids())


def _contents(store: str, steps: int) -> dict[str, str]:
    """What is in a store, every file by its hash; what a sweep lacks or does not know shows as well."""
    sweep = _small_sweep(steps, store)
    known = {sweep.experiment(point, seed).id for point in sweep.points for seed in sweep.seeds}
    found = {
        f"{id}/{name}": hashlib.sha256((Path(store) / id / name).read_bytes()).hexdigest()
        for id in sweep.store.ids()
        for name in SAME
    }
    strange = known ^ set(sweep.store.ids())
    return found | dict.fromkeys(strange, "missing or unknown")


# --- Refined diagrams ---


def refined(steps: int, resolution: int) -> dict[str, Any]:
    """A refined diagram of verdicts, then all runs of the same grid."""
    import afterfit as af

    spec = _small(steps).set({"dynamics.lr": 0.3, "seed": 1})  # a draw with five kinds of verdict
    ranges = {"penalty.strength": (1e-7, 1e-2), "init.scale": (1e-2, 1e3)}
    with tempfile.TemporaryDirectory() as folder:
        over = af.refine(*ranges, budget=resolution**2, ranges=ranges, resolution=resolution)
        few = af.sweep(spec, over, store=f"{folder}/few")
        quick = seconds(lambda: few.run(progress=False))
        filled, ran = few.refine.fill(few.labels)
        dense = af.sweep(spec, few.knobs, store=f"{folder}/all")
        long = seconds(lambda: dense.run(progress=False))
        labels = dense.dataset["verdict"].transpose("penalty_strength", "init_scale", "seed").values[..., 0]
    kinds, counts = [], []
    for kind in sorted(set(labels.flat)):
        kinds.append(str(kind))
        counts.append(int((labels == kind).sum()))
    return {
        "runs": int(ran.sum()),
        "points": int(labels.size),
        "equal": int((filled == labels).sum()),
        "kinds": dict(zip(kinds, counts, strict=True)),
        "resolved": few.refine.resolved(few.labels),
        "seconds": {"refined": quick, "dense": long},
    }


WORKERS = {
    f.__name__: f
    for f in (
        singles,
        sweep_of_64,
        grid,
        overhead,
        many_runs,
        listing,
        sweep_memory,
        sweep_once,
        kill_process,
        kill_dask,
        refined,
    )
}

if __name__ == "__main__":
    name, settings = sys.argv[1:]
    print(json.dumps(WORKERS[name](**json.loads(settings))))
