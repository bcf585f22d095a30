"""What one process measures. `core.py` and `flows.py` start each of these by name and reads the JSON that it prints.

    python benchmarks/workers.py step_numpy '{"data": "step.npz", "steps": 10000}'

One process each, since PyTorch's threads go on spinning between its calls and take the cores from XLA. The workers
that are not afterfit's read their data from a file and import neither afterfit nor JAX.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CHECKED_STEPS = 1000  # after as many steps all implementations of a loop must be at the same place


def seconds(f: Callable[[], Any]) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    f()
    return time.perf_counter() - began


# --- A subgradient step of notsawo2025/fig3: n = 100 unknowns, N = 30 measurements, double precision ---


def step_data(file: str) -> dict[str, Any]:
    """The data and the start of notsawo2025/fig3, for the workers that do not know afterfit."""
    experiment = headline("notsawo2025/fig3", {})
    data = experiment.draw()
    start = experiment.model.initialise(
        experiment.init, experiment.task.signature, np.random.default_rng([experiment.seed, 1])
    )
    np.savez(
        file,
        X=data.inputs,
        y=data.targets,
        start=start["weights"],
        lr=experiment.dynamics.lr,
        beta=experiment.penalty.strength,
    )
    return {"steps": experiment.dynamics.steps, "observations": experiment.observations}


def step_afterfit(data: str, steps: int, rounds: int) -> dict[str, Any]:
    """The whole run, data and observations included but compiled before, and the bare scan beside it."""
    import jax
    import jax.numpy as jnp

    from afterfit._training.train import run_experiment

    experiment = headline("notsawo2025/fig3", {"dynamics.steps": steps})
    checked = run_experiment(experiment.set({"dynamics.steps": CHECKED_STEPS}), progress=False)  # compiles
    with jax.enable_x64(True):
        X, y, start, lr, beta = (jnp.asarray(value) for value in _load(data))

        def bare(length: int) -> Callable[[], Any]:
            @jax.jit
            def scan(X, y, start, lr, beta):
                def step(a, _):
                    return a - lr * ((X @ a - y) @ X + beta * jnp.sign(a)), None

                return jax.lax.scan(step, start, None, length=length)[0]

            return lambda: jax.block_until_ready(scan(X, y, start, lr, beta))

        same = bare(CHECKED_STEPS)()
        scan = bare(steps)
        scan()  # compiles
        whole, alone = [], []
        for _ in range(rounds):
            whole.append(run_experiment(experiment, progress=False).seconds / steps)
            alone.append(seconds(scan) / steps)
    return {
        "afterfit": whole,
        "scan": alone,
        "afterfit_end": checked.params["weights"].tolist(),
        "scan_end": np.asarray(same).tolist(),
    }


def step_numpy(data: str, steps: int) -> dict[str, Any]:
    X, y, start, lr, beta = _load(data)

    def loop(steps: int) -> np.ndarray:
        a = start.copy()
        for _ in range(steps):
            a -= lr * ((X @ a - y) @ X + beta * np.sign(a))
        return a

    end = loop(CHECKED_STEPS)
    return {"numpy": seconds(lambda: loop(steps)) / steps, "numpy_end": end.tolist()}


def step_torch(data: str, steps: int) -> dict[str, Any]:
    import torch

    X, y, start, lr, beta = (torch.tensor(value) for value in _load(data))

    def loop(steps: int) -> torch.Tensor:
        a = start.clone().requires_grad_()
        optimiser = torch.optim.SGD([a], lr=lr.item())
        for _ in range(steps):
            optimiser.zero_grad()
            objective = 0.5 * torch.sum((X @ a - y) ** 2) + beta * torch.sum(torch.abs(a))
            objective.backward()
            optimiser.step()
        return a.detach()

    end = loop(CHECKED_STEPS)
    return {"torch": seconds(lambda: loop(steps)) / steps, "torch_end": end.tolist()}


def _load(file: str) -> list[np.ndarray]:
    with np.load(file) as arrays:
        return [arrays[name] for name in ("X", "y", "start", "lr", "beta")]


# --- A gradient step of the two-layer net on modular addition: p = 97, 40 % of the pairs, 1024 units, single ---


def _modular() -> Any:
    import afterfit as af

    return af.Experiment(
        task=af.tasks.ModularArithmetic(p=97, fraction=0.4),
        model=af.models.MLP((1024,), biases="hidden"),
        penalty=af.penalties.L2(1e-4),
        dynamics=af.dynamics.GradientDescent(lr=0.1, steps=1_000_000),
        init=af.inits.He(),
    )


def modular_data(file: str) -> dict[str, Any]:
    """The pairs and the initial weights, for PyTorch."""
    experiment = _modular()
    data = experiment.draw()
    start = experiment.model.initialise(
        experiment.init, experiment.task.signature, np.random.default_rng([experiment.seed, 1])
    )
    first, last = start["layers"]
    weights = {"W1": first["weight"], "b1": first["bias"], "W2": last["weight"]}
    np.savez(
        file,
        tokens=data.inputs.tokens,
        answers=data.targets,
        **{name: array.astype(np.float32) for name, array in weights.items()},
    )
    return {"examples": data.n}


def modular_afterfit(steps: int, rounds: int) -> dict[str, Any]:
    """Steps of GradientDescent without observations: its gradient, in the compiled loop that a run uses."""
    import jax

    with jax.enable_x64(True):
        problem, start, advance = _descent(_modular())
        state = advance(start, 5)
        loss = float(problem.loss(state.params))
        times = [seconds(lambda: jax.block_until_ready(advance(state, steps))) / steps for _ in range(rounds)]
    return {"afterfit": times, "afterfit_loss": loss}


def modular_torch(data: str, steps: int, rounds: int) -> dict[str, Any]:
    """The same step with the one-hot vectors written out, autograd and SGD."""
    import torch

    with np.load(data) as arrays:
        tokens, answers = arrays["tokens"], torch.tensor(arrays["answers"])
        W1, b1, W2 = (torch.tensor(arrays[name]).requires_grad_() for name in ("W1", "b1", "W2"))
    p = W1.shape[1] // 2
    inputs = torch.nn.functional.one_hot(torch.tensor(tokens), p).reshape(len(tokens), -1).to(torch.float32)
    optimiser = torch.optim.SGD([W1, b1, W2], lr=0.1, weight_decay=1e-4)

    def loss() -> torch.Tensor:
        return torch.nn.functional.cross_entropy(torch.relu(inputs @ W1.T + b1) @ W2.T, answers)

    def loop(steps: int) -> None:
        for _ in range(steps):
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()

    loop(5)
    checked = loss().item()
    return {"torch": [seconds(lambda: loop(steps)) / steps for _ in range(rounds)], "torch_loss": checked}


# --- Sweeps of Adam: notsawo2025/fig2 (a net of embedded pairs, p = 97) and fig10 (students of a ReLU teacher) ---


def _sweep(entry: str, steps: int) -> dict[str, Any]:
    """The runs of an entry at paper scale, but for their numbers of steps and observations."""
    from afterfit import papers

    few = {"dynamics.steps": steps, "observations": 10}  # as many in a longer and a shorter one
    return {name: run.set(few) for name, run in papers.find(entry).experiments("paper").items()}


def sweep_data(entry: str, folder: str) -> dict[str, Any]:
    """Of each penalty the data, initial weights and settings of the first run, for PyTorch, and how many there are."""
    runs = list(_sweep(entry, 1).values())
    kinds = [run.penalty.kind for run in runs]
    said = []
    for kind in dict.fromkeys(kinds):
        run = runs[kinds.index(kind)]
        data = run.draw()
        start = run.model.initialise(run.init, run.task.signature, np.random.default_rng([run.seed, 1]))
        arrays = start if "E1" in start else {f"W{k + 1}": layer["weight"] for k, layer in enumerate(start["layers"])}
        weights = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
        np.savez(f"{folder}/{kind}.npz", inputs=data.inputs, targets=data.targets, **weights)
        settings = {"lr": run.dynamics.lr, "beta": run.penalty.strength, "batch": run.dynamics.batch}
        said.append({"kind": kind, "runs": kinds.count(kind), **settings})
    return {"kinds": said}


def sweep_afterfit(entry: str, steps: int, shorter: int) -> dict[str, Any]:
    """The whole sweep, on all cores, compiling and observations included, and one of fewer steps after it."""
    from afterfit.papers import run_all

    found: dict[str, Any] = {"losses": {}}
    for name, count in (("first", shorter), ("shorter", shorter), ("longer", steps)):
        runs: dict[str, Any] = {}
        found[name] = seconds(lambda count=count, runs=runs: runs.update(run_all(_sweep(entry, count), "sweep", False)))
    for run in runs.values():
        found["losses"].setdefault(run.experiment.penalty.kind, float(run.curves["train_loss"][0]))
    return found


def sweep_torch(
    entry: str, file: str, kind: str, lr: float, beta: float, batch: int | None, steps: int, rounds: int
) -> dict[str, Any]:
    """Steps of one run as the authors write them, the norms of all weights in the loss, Adam. Without observations."""
    import torch

    norms = {
        "L1": lambda weight: weight.abs().sum(),
        "Frobenius": torch.linalg.matrix_norm,
        "Nuclear": lambda weight: torch.linalg.matrix_norm(weight, "nuc"),
    }
    with np.load(file) as arrays:
        inputs, targets = torch.tensor(arrays["inputs"]), torch.tensor(arrays["targets"])
        weights = {
            name: torch.tensor(arrays[name]).requires_grad_() for name in arrays if name not in ("inputs", "targets")
        }
    optimiser = torch.optim.Adam(weights.values(), lr=lr)
    loss = _addition_loss(inputs, targets, weights) if "fig2" in entry else _student_loss(inputs, targets, weights)
    n = len(inputs)
    of_epoch = max(1, n // (batch or n))

    def loop(steps: int) -> None:
        for step in range(steps):
            if of_epoch > 1 and step % of_epoch == 0:
                order = torch.randperm(n)
            penalty = sum(map(norms[kind], weights.values()))
            optimiser.zero_grad()
            examples = order[step % of_epoch * batch :][:batch] if of_epoch > 1 else slice(None)
            (loss(examples) + beta * penalty).backward()
            optimiser.step()

    checked = loss(slice(None)).item()
    loop(10)
    return {"torch": [seconds(lambda: loop(steps)) / steps for _ in range(rounds)], "torch_loss": checked}


def _addition_loss(tokens: Any, answers: Any, weights: dict[str, Any]) -> Callable[[Any], Any]:
    """Linear layers on one-hot vectors, a product of matrices, and a layer of ReLUs."""
    import torch

    p, d = weights["E1"].shape
    side = round(d**0.5)
    pairs = torch.nn.functional.one_hot(tokens, p).to(torch.float32)

    def loss(examples: Any) -> Any:
        a, b = (pairs[examples, k] @ weights[f"E{k + 1}"] for k in (0, 1))
        embedded = torch.bmm(a.reshape(-1, side, side), b.reshape(-1, side, side)).reshape(-1, d)
        outputs = torch.relu(embedded @ weights["W1"].T) @ weights["W2"].T
        return torch.nn.functional.cross_entropy(outputs, answers[examples])

    return loss


def _student_loss(inputs: Any, targets: Any, weights: dict[str, Any]) -> Callable[[Any], Any]:
    """A layer of ReLUs, and half the mean squared distance."""
    import torch

    inputs, targets = inputs.to(torch.float32), targets.to(torch.float32)

    def loss(examples: Any) -> Any:
        outputs = torch.relu(inputs[examples] @ weights["W1"].T) @ weights["W2"].T
        return (outputs - targets[examples]).square().sum(1).mean() / 2

    return loss


# --- A step of AdamW on real digits: 1,000 x 64, two hidden layers of 200, cross-entropy, both precisions ---

_DIGITS = {"lr": 1e-3, "weight_decay": 0.1}


def one_core() -> None:
    """Keep this process to one core, before anything asks how many there are."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def busy_seconds(f: Callable[[], Any]) -> float:
    """How long one call keeps the processor busy, whatever else it has to do."""
    began = time.process_time()
    f()
    return time.process_time() - began


def digits_data(file: str) -> dict[str, Any]:
    """Digits that come with scikit-learn, 1,000 to train on and 797 to test, and where the net starts."""
    from sklearn.datasets import load_digits

    digits, rng = load_digits(), np.random.default_rng(0)
    order = rng.permutation(len(digits.data))
    X, y = digits.data[order] / 16, digits.target[order]
    sizes = (64, 200, 200, 10)
    start = {f"W{k}": np.sqrt(2 / m) * rng.standard_normal((sizes[k + 1], m)) for k, m in enumerate(sizes[:-1])}
    start |= {f"b{k}": np.zeros(size) for k, size in enumerate(sizes[1:])}
    np.savez(file, X=X[:1000], y=y[:1000], X_test=X[1000:], y_test=y[1000:], **start)
    return {}


def digits_afterfit(data: str, precision: str, steps: int, rounds: int) -> dict[str, Any]:
    """Whole runs of a user's net, 200 observations included and compiled before, in turns with a bare compiled loop."""
    one_core()
    import jax
    import jax.numpy as jnp
    import optax

    import afterfit as af

    X, y, X_test, y_test, start = _digits(data)

    def net(p: Any, x: Any) -> Any:
        h = jax.nn.relu(p["W0"] @ x + p["b0"])
        return p["W2"] @ jax.nn.relu(p["W1"] @ h + p["b1"]) + p["b2"]

    task = af.tasks.Arrays(X, y, X_test, y_test, loss_name="cross_entropy", precision=precision)
    experiment = af.Experiment(task, af.models.Function(net, start), af.dynamics.AdamW(steps=steps, **_DIGITS))
    checked = af.run_experiment(experiment.set({"dynamics.steps": CHECKED_STEPS // 10}), progress=False)  # compiles
    with jax.enable_x64(precision == "double"):
        real = jnp.float64 if precision == "double" else jnp.float32
        inputs, targets = jnp.asarray(X, real), jnp.asarray(y)
        optimiser = optax.adamw(_DIGITS["lr"], weight_decay=_DIGITS["weight_decay"])

        def loss(p: Any) -> Any:
            h = jax.nn.relu(inputs @ p["W0"].T + p["b0"])
            outputs = jax.nn.relu(h @ p["W1"].T + p["b1"]) @ p["W2"].T + p["b2"]
            return optax.softmax_cross_entropy_with_integer_labels(outputs, targets).mean()

        @jax.jit
        def loop(p: Any, steps: int) -> Any:
            def step(_: Any, at: Any) -> Any:
                p, state = at
                update, state = optimiser.update(jax.grad(loss)(p), state, p)
                return optax.apply_updates(p, update), state

            return jax.lax.fori_loop(0, steps, step, (p, optimiser.init(p)))[0]

        at = jax.tree.map(lambda leaf: jnp.asarray(leaf, real), start)
        bare_loss = float(loss(loop(at, CHECKED_STEPS // 10)))
        whole, alone = [], []
        for _ in range(rounds):
            whole.append(busy_seconds(lambda: af.run_experiment(experiment, progress=False)) / steps)
            alone.append(busy_seconds(lambda: jax.block_until_ready(loop(at, steps))) / steps)
    return {
        "afterfit": whole,
        "jax": alone,
        "afterfit_loss": float(checked.curves.train_loss[-1]),
        "jax_loss": bare_loss,
    }


def digits_torch(data: str, precision: str, steps: int, rounds: int) -> dict[str, Any]:
    """The same steps in PyTorch as people write them, without observations."""
    one_core()
    import torch

    X, y, _, _, start = _digits(data)
    real = torch.float64 if precision == "double" else torch.float32
    inputs, targets = torch.tensor(X).to(real), torch.tensor(y)
    nn = torch.nn

    def made() -> Any:
        net = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10)).to(real)
        names = {f"{2 * k}.{own}": start[f"{short}{k}"] for k in range(3) for own, short in _OWN.items()}
        net.load_state_dict({name: torch.tensor(array) for name, array in names.items()})
        return net, torch.optim.AdamW(net.parameters(), **_DIGITS)

    def loop(net: Any, optimiser: Any, steps: int) -> float:
        for _ in range(steps):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(inputs), targets).backward()
            optimiser.step()
        return nn.functional.cross_entropy(net(inputs), targets).item()

    checked = loop(*made(), CHECKED_STEPS // 10)
    return {
        "torch": [busy_seconds(lambda at=made(): loop(*at, steps)) / steps for _ in range(rounds)],
        "torch_loss": checked,
    }


_OWN = {"weight": "W", "bias": "b"}


def _digits(file: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    with np.load(file) as arrays:
        first = [arrays[name] for name in ("X", "y", "X_test", "y_test")]
        return *first, {name: arrays[name] for name in arrays.files if name[0] in "Wb"}  # type: ignore[return-value]


# --- A step of label-noise SGD: lyu2023/labelnoise, its random numbers drawn in blocks or step by step ---


def label_noise(lanes: int, steps: int, rounds: int) -> dict[str, Any]:
    """CPU time of a step of so many runs on the same data, in turns with steps that each draw their own numbers."""
    one_core()
    import jax
    import jax.numpy as jnp

    from afterfit._training.train import prepare
    from afterfit.dynamics import LabelNoiseSGD

    class OneByOne(LabelNoiseSGD):
        def step(self, problem: Any, params: Any, memory: Any, key: Any) -> Any:
            return LabelNoiseSGD.step(self, problem, params, memory, key)

    experiment = headline("lyu2023/labelnoise", {})
    with jax.enable_x64(True):
        problem, params = prepare(experiment)
        keys = jax.random.split(jax.random.key(0), lanes)
        loops, ends = {}, {}
        for name, kind in (("blocks", LabelNoiseSGD), ("one_by_one", OneByOne)):
            dynamics = kind(experiment.dynamics.lr, steps)

            def loop(key: Any, steps: Any, dynamics: LabelNoiseSGD = dynamics) -> Any:
                return dynamics.advance(problem, dynamics.start(problem, params, key), steps, steps)

            many = jax.jit(jax.vmap(loop, in_axes=(0, None)))
            loops[name] = lambda many=many: jax.block_until_ready(many(keys, jnp.asarray(steps)))
            state = loops[name]()  # compiles
            ends[name] = float(jnp.mean(problem.model.weights(state.params)[:, problem.data.truth != 0]))
        times: dict[str, list[float]] = {name: [] for name in loops}
        for _ in range(rounds):
            for name, run in loops.items():
                times[name].append(busy_seconds(run) / steps)
    return times | {"ends": ends}


# --- Many flows of a model with kinks: woodworth2020/fig6ab ---


def kinked_flows(count: int, rounds: int) -> dict[str, Any]:
    """CPU time of a flow, when they go one by one and when all go together, compiled before."""
    one_core()
    from afterfit._training.train import run_experiment, run_together
    from afterfit.papers import find

    nets = find("woodworth2020/fig6ab").runs("paper")["nets"]
    experiments = [experiment for at, experiment in nets.items() if at.D == 2][:count]
    ways = {
        "alone": lambda: [run_experiment(experiment, progress=False) for experiment in experiments],
        "together": lambda: run_together(experiments),
    }
    losses = {name: [float(run.curves["train_loss"][-1]) for run in way()] for name, way in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(busy_seconds(way) / count)
    return times | {"largest_loss": {name: max(found) for name, found in losses.items()}}


# --- Runs of the gallery, memory, import ---


def one_run(entry: str, changes: dict[str, Any]) -> dict[str, Any]:
    """Seconds of the first run of an entry at paper scale, compiled before."""
    from afterfit._training.train import run_experiment

    experiment = headline(entry, changes)
    run_experiment(experiment, progress=False)
    return {"seconds": run_experiment(experiment, progress=False).seconds}


def gallery(entry: str, steps: int, shorter: int) -> dict[str, Any]:
    """One run of an entry at paper scale in a fresh process, compiling included; after it, if `shorter` is not 0,
    the same again and one of fewer steps."""
    from afterfit._training.train import run_experiment

    experiment = headline(entry, {"dynamics.steps": steps})
    first = run_experiment(experiment, progress=False)
    found = {"seconds": first.seconds, "steps": first.work["steps"], "status": first.status}
    if shorter:
        found["again"] = run_experiment(experiment, progress=False).seconds
        less = experiment.set({"dynamics.steps": shorter})
        found["shorter"] = run_experiment(less, progress=False).seconds
    return found


def margin(norm: str, d: int, n: int) -> dict[str, Any]:
    """A classifier of largest margin on data as in lyu2023/fig1a, and the most memory that the process ever had."""
    import resource

    from afterfit import theory

    rng = np.random.default_rng(0)
    X = 1.0 - 2.0 * rng.integers(0, 2, (n, d), dtype=np.int8)
    y = np.sign(X[:, :3].sum(axis=1))
    solve = {"l1": theory.max_l1_margin, "l2": theory.max_l2_margin}[norm]
    found: list[np.ndarray] = []
    took = seconds(lambda: found.append(solve(X, y)))
    return {
        "d": d,
        "n": n,
        "seconds": took,
        "gibibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "smallest": float(np.min(y * (X @ found[0]))),
        "used": int(np.count_nonzero(np.abs(found[0]) > 1e-9)),
    }


def memory(steps: int, observations: int) -> dict[str, Any]:
    """By how much the resident memory rises while training, with everything compiled before."""
    from afterfit._training.train import run_experiment

    experiment = headline("notsawo2025/fig3", {"dynamics.steps": 1000, "observations": 50})
    run_experiment(experiment, progress=False)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is in use now
    before = resident("VmRSS")
    run = run_experiment(experiment.set({"dynamics.steps": steps, "observations": observations}), progress=False)
    growth = resident("VmHWM") - before
    return {"bytes": growth, "observed": run.curves.sizes["time"], "curves": run.curves.nbytes}


def resident(field: str) -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(status[field].split()[0])


# --- Flows: runs of the gallery, a step of descent beside them, and what they cost on small problems ---


def flow(entry: str, scale: str, changes: dict[str, Any], again: bool) -> dict[str, Any]:
    """One run of an entry followed by GradientFlow in a fresh process, compiling included; `again`, compiled before."""
    # Importing is not measured, and a run imports these on first use.
    import diffrax  # noqa: F401
    import scipy.linalg  # noqa: F401
    import xarray  # noqa: F401

    from afterfit._training.train import run_experiment

    experiment = _flow(entry, scale).set(changes)
    run = run_experiment(experiment, progress=False)
    found = {"seconds": run.seconds, "method": run.method, "rtol": run.spec["dynamics"]["rtol"], **_outcome(run)}
    return found | ({"again": run_experiment(experiment, progress=False).seconds} if again else {})


def descent_step(entry: str, scale: str, lr: float, fill: float, rounds: int) -> dict[str, Any]:
    """The time a step of GradientDescent takes on the problem of an entry, compiled before and without observations;
    as many steps as fill `fill` seconds."""
    import jax

    experiment = _flow(entry, scale).set({"dynamics": {"kind": "GradientDescent", "lr": lr, "steps": 1}})
    with jax.enable_x64(True):
        _, start, advance = _descent(experiment)

        def loop() -> float:
            return seconds(lambda: jax.block_until_ready(advance(start, steps)))

        steps = 1
        loop()  # compiles
        while (taken := loop()) < fill:
            steps = min(10 * steps, int(1.2 * steps * fill / taken) + 1)
        times = [loop() / steps for _ in range(rounds)]
    return {"descent": times, "steps": steps}


def descent_run(entry: str, scale: str, lr: float) -> dict[str, Any]:
    """The same entry by gradient descent, as long as its flow."""
    from afterfit._training.train import run_experiment

    experiment = _flow(entry, scale)
    steps = round(experiment.dynamics.until / lr)
    run = run_experiment(
        experiment.set({"dynamics": {"kind": "GradientDescent", "lr": lr, "steps": steps}}), progress=False
    )
    return {"seconds": run.seconds, **_outcome(run)}


def growth(method: str, series: list[dict[str, float]], most: int, rounds: int) -> dict[str, Any]:
    """What a flow costs on small problems, without data, compiling and observations: from the start to `until`."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from afterfit._training.train import prepare

    @eqx.filter_jit
    def advance(dynamics, problem, state, target, limit):
        return dynamics.advance(problem, state, target, limit)

    points = []
    with jax.enable_x64(True):
        for at in series:
            experiment = _small(method, d=at["d"], n=at["n"], decay=1 / at["slow"], most=most)
            problem, params = prepare(experiment)
            dynamics, _ = experiment.dynamics.resolve(problem, params)
            start = dynamics.start(problem, params, jax.random.key(0))
            until, limit = jnp.asarray(float(at["until"])), jnp.asarray(most)
            advance(dynamics, problem, start, 0 * until, 0 * limit)  # compiles
            times = []
            while len(times) < rounds and sum(times) < 2:  # once is enough for what takes long
                began = time.perf_counter()
                end = jax.block_until_ready(advance(dynamics, problem, start, until, limit))
                times.append(time.perf_counter() - began)
            work = {name: int(value) for name, value in dynamics.work(end).items()}
            reached = bool(end.memory.time >= until)
            points.append(at | {"seconds": times, "steps": int(end.step), "reached": reached, **work})
    return {"points": points}


def own(model: str, rounds: int) -> dict[str, Any]:
    """A run with a model of ours, and with the same as a user's function: seconds in turn, compiled before."""
    import dataclasses

    import afterfit as af

    ours, function = _twice(model)
    start = ours.model.initialise(ours.init, ours.task.signature, np.random.default_rng([ours.seed, 1]))
    theirs = dataclasses.replace(ours, model=af.models.Function(function, start), init=af.inits.Own())
    runs = {"built in": ours, "own": theirs}
    found = {name: af.run_experiment(experiment, progress=False) for name, experiment in runs.items()}  # compiles
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, experiment in runs.items():
            times[name].append(seconds(lambda experiment=experiment: af.run_experiment(experiment, progress=False)))
    last = {name: float(run.curves.train_loss[-1]) for name, run in found.items()}
    work = {name: {key: int(value) for key, value in run.work.items()} for name, run in found.items()}
    return {"seconds": times, "work": work, "method": found["own"].method, "last_loss": last}


def _twice(model: str) -> tuple[Any, Callable[[Any, Any], Any]]:
    """An experiment with a model of ours, and that model as a user writes it down for one example."""
    import jax
    import jax.numpy as jnp

    import afterfit as af

    def mlp(p: Any, x: Any) -> Any:
        *hidden, last = p["layers"]
        for layer in hidden:
            x = jax.nn.relu(layer["weight"] @ x + layer["bias"])
        return last["weight"] @ x + last["bias"]

    def embedding(p: Any, x: Any) -> Any:
        h = jax.nn.relu(p["W1"] @ jnp.prod(p["E"][x], axis=0) + p["b1"])
        return p["W2"] @ h + p["b2"]

    flow, table = af.dynamics.GradientFlow, {"truth": "multiplication_table", "reduction": "mean"}
    task, ours, start, dynamics, function = {
        "diagonal net": (  # `dual` is for ours alone
            af.tasks.SparseClassification(n=256, d=2000, sparsity=3, n_test=1000),
            af.models.DiagonalNet(),
            af.inits.Constant(norm=64.0),
            flow(1e4, method="implicit"),
            lambda p, x: (p["plus"] ** 2 - p["minus"] ** 2) @ x,
        ),
        "matrix factorisation": (  # lyu2023/fig3
            af.tasks.MatrixCompletion(97, 97, 1, observed=0.05, **table),
            af.models.SymmetricFactorisation(),
            af.inits.Identity(10.0),
            flow(1e4, method="implicit"),
            lambda p, x: p["U"][x[0]] @ p["U"][x[1]] - p["V"][x[0]] @ p["V"][x[1]],
        ),
        "MLP": (
            af.tasks.TeacherStudent(d=20, hidden=20, outputs=2, n=300),
            af.models.MLP((100, 100), "all"),
            af.inits.He(),
            flow(100.0, method="stabilised"),
            mlp,
        ),
        "embedding MLP": (
            af.tasks.ModularArithmetic(31, 0.5, "+", "tokens"),
            af.models.EmbeddingMLP(64, 128),
            af.inits.He(),
            af.dynamics.AdamW(1e-3, 1000),
            embedding,
        ),
    }[model]
    return af.Experiment(task, ours, dynamics, af.penalties.L2(1e-4), start, observations=40), function


def _small(method: str, d: int, n: int, decay: float, most: int) -> Any:
    """A diagonal net on d inputs for the dual method, a factorised d x d matrix for the others; n examples."""
    import afterfit as af

    diagonal = method == "dual"
    return af.Experiment(
        task=af.tasks.SparseClassification(n=n, d=d, sparsity=3, n_test=1)
        if diagonal
        else af.tasks.MatrixCompletion(d, d, 1, observed=n),
        model=af.models.DiagonalNet() if diagonal else af.models.MatrixFactorisation(d),
        penalty=af.penalties.L2(decay),
        # `until` is given to `advance`, so that one compilation serves them all.
        dynamics=af.dynamics.GradientFlow(until=1.0, method=method, max_steps=most),
        init=af.inits.Constant(norm=64.0) if diagonal else af.inits.Gaussian(1.0),
    )


def _flow(entry: str, scale: str) -> Any:
    """The experiment of an entry as a flow; gradient descent is replaced by the flow that it follows."""
    import afterfit as af

    if entry == "woodworth2020/fig5":  # one cell of the figure
        return af.Experiment(
            task=af.tasks.MatrixCompletion(10, 10, 1, observed=0.6, reduction="sum"),
            model=af.models.MatrixFactorisation(10),
            dynamics=af.dynamics.GradientFlow(until="settled"),
            init=af.inits.Gaussian(0.1),
        )
    experiment = headline(entry, {}, scale)
    if isinstance(experiment.dynamics, af.dynamics.GradientFlow):
        return experiment
    lr, steps = experiment.dynamics.lr, experiment.dynamics.steps
    return experiment.set({"dynamics": {"kind": "GradientFlow", "until": lr * steps, "first": lr}})


def _outcome(run: Any) -> dict[str, Any]:
    """What a run has found, and what it took."""
    return {
        "work": run.work,
        "status": run.status,
        "message": run.message,
        "verdict": run.verdict.kind,
        "t_fit": run.verdict.t_fit,
        "t_gen": run.verdict.t_gen,
        "end": float(run.curves["time"][-1]),
        "test": float(run.curves[f"test_{run.metric}"][-1]),
    }


# --- What several of them need ---


def headline(id: str, changes: dict[str, Any], scale: str = "paper") -> Any:
    """The headline experiment of a gallery entry."""
    from afterfit import papers

    return next(iter(papers.find(id).experiments(scale).values())).set(changes)


def _descent(experiment: Any) -> tuple[Any, Any, Callable[[Any, int], Any]]:
    """The problem of an experiment, its state at the start, and the compiled loop that a run uses."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from afterfit._training.train import prepare

    problem, params = prepare(experiment)
    start = experiment.dynamics.start(problem, params, jax.random.key(0))

    @eqx.filter_jit
    def advance(problem, state, steps):
        return experiment.dynamics.advance(problem, state, state.step + steps, steps)

    return problem, start, lambda state, steps: advance(problem, state, jnp.asarray(steps))


WORKERS = {
    f.__name__: f
    for f in (
        step_data,
        step_afterfit,
        step_numpy,
        step_torch,
        sweep_data,
        sweep_afterfit,
        sweep_torch,
        modular_data,
        modular_afterfit,
        modular_torch,
        digits_data,
        digits_afterfit,
        digits_torch,
        label_noise,
        kinked_flows,
        one_run,
        gallery,
        memory,
        flow,
        descent_step,
        descent_run,
        growth,
        own,
        margin,
    )
}

if __name__ == "__main__":
    name, settings = sys.argv[1:]
    print(json.dumps(WORKERS[name](**json.loads(settings))))
