"""What one process measures. `core.py` starts each of these by name and reads the JSON that it prints.

    python benchmarks/workers.py step_numpy '{"data": "step.npz", "steps": 10000}'

One process each, since PyTorch's threads go on spinning between its calls and take the cores from XLA. The workers
that are not afterfit's read their data from a file and import neither afterfit nor JAX.
"""

from __future__ import annotations

import json
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
    experiment = _entry("notsawo2025/fig3", {})
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

    from afterfit.train import run_experiment

    experiment = _entry("notsawo2025/fig3", {"dynamics.steps": steps})
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
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from afterfit.train import prepare

    with jax.enable_x64(True):
        experiment = _modular()
        problem, params = prepare(experiment)
        start = experiment.dynamics.start(problem, params, jax.random.key(0))

        @eqx.filter_jit
        def advance(problem, state, steps):
            return experiment.dynamics.advance(problem, state, state.step + steps, steps)

        state = advance(problem, start, jnp.asarray(5))
        loss = float(problem.loss(state.params))
        many = jnp.asarray(steps)
        times = [seconds(lambda: jax.block_until_ready(advance(problem, state, many))) / steps for _ in range(rounds)]
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


# --- Runs of the gallery, memory, import ---


def gallery(entry: str, steps: int, shorter: int) -> dict[str, Any]:
    """One run of an entry at paper scale in a fresh process, compiling included; after it, if `shorter` is not 0,
    the same again and one of fewer steps."""
    from afterfit.train import run_experiment

    experiment = _entry(entry, {"dynamics.steps": steps})
    first = run_experiment(experiment, progress=False)
    found = {"seconds": first.seconds, "steps": first.work["steps"], "status": first.status}
    if shorter:
        found["again"] = run_experiment(experiment, progress=False).seconds
        less = experiment.set({"dynamics.steps": shorter})
        found["shorter"] = run_experiment(less, progress=False).seconds
    return found


def memory(steps: int, observations: int) -> dict[str, Any]:
    """By how much the resident memory rises while training, with everything compiled before."""
    from afterfit.train import run_experiment

    experiment = _entry("notsawo2025/fig3", {"dynamics.steps": 1000, "observations": 50})
    run_experiment(experiment, progress=False)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is in use now
    before = _resident("VmRSS")
    run = run_experiment(experiment.set({"dynamics.steps": steps, "observations": observations}), progress=False)
    growth = _resident("VmHWM") - before
    return {"bytes": growth, "observed": run.curves.sizes["time"], "curves": run.curves.nbytes}


def _resident(field: str) -> int:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(status[field].split()[0])


def _entry(id: str, changes: dict[str, Any]) -> Any:
    """The headline experiment of a gallery entry at paper scale."""
    from afterfit import papers

    return next(iter(papers.find(id).experiments("paper").values())).set(changes)


WORKERS = {
    f.__name__: f
    for f in (
        step_data,
        step_afterfit,
        step_numpy,
        step_torch,
        modular_data,
        modular_afterfit,
        modular_torch,
        gallery,
        memory,
    )
}

if __name__ == "__main__":
    name, settings = sys.argv[1:]
    print(json.dumps(WORKERS[name](**json.loads(settings))))
