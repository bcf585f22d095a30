"""Training: from an experiment to a run."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PyTree

from afterfit.curves import dataset
from afterfit.dynamics import Discrete, Dynamics, State
from afterfit.experiment import Experiment
from afterfit.inits import Init, Own
from afterfit.models import Model
from afterfit.penalties import NoPenalty, Penalty
from afterfit.problem import Problem, pose
from afterfit.progress import progress_bar
from afterfit.run import Run
from afterfit.spec import require
from afterfit.tasks import Task

__all__ = ["run_experiment", "train"]

_SECONDS_A_CALL = 0.25  # how long compiled code may run before Python looks up: for Ctrl-C and progress


def train(
    *,
    task: Task,
    model: Model,
    dynamics: Dynamics,
    penalty: Penalty | None = None,
    init: Init | None = None,
    seed: int = 0,
    observations: int = 200,
    progress: bool | None = None,
) -> Run:
    """Fit `model` to a draw of `task`, pulled by `penalty` and moved by `dynamics`; return the run it leaves.

    `init` is where the parameters start (a `models.Function` brings its own). `seed` decides the data, the
    initialisation and every random step; the same specification and seed give the same curves, bit for bit, on
    the same machine. `observations` is how many log-spaced times are observed. `progress` shows a bar (None: on
    a terminal). Ctrl-C ends the run early and keeps what was observed.

    ```python
    run = af.train(
        task=af.tasks.SparseRecovery(n=100, sparsity=5, N=30),
        model=af.models.Linear(),
        penalty=af.penalties.L1(1e-5),
        dynamics=af.dynamics.GradientDescent(lr=0.1, steps=1_000_000),
        init=af.inits.ScaledGaussian(1e-6),
    )
    run.verdict
    ```
    """
    experiment = Experiment(
        task=task,
        model=model,
        dynamics=dynamics,
        penalty=NoPenalty() if penalty is None else penalty,
        init=Own() if init is None else init,
        seed=seed,
        observations=observations,
    )
    return run_experiment(experiment, progress=progress)


def run_experiment(experiment: Experiment, *, progress: bool | Callable[[float], None] | None = None) -> Run:
    """Carry out an experiment. `progress` is as for `train`, or a function to call with the share of work done."""
    started, asked = time.monotonic(), experiment
    with jax.enable_x64(True), _blas_on_one_thread(experiment.dynamics):
        problem, params = prepare(experiment)
        dynamics, method = experiment.dynamics.resolve(problem, params)
        experiment = dataclasses.replace(experiment, dynamics=dynamics)
        record = _Record()
        status, message = "finished", ""
        traced = _numbers_as_arrays(dynamics, params)
        if isinstance(traced, Discrete):  # how many steps are made does not change what a step is
            traced = eqx.tree_at(lambda d: d.steps, traced, jnp.asarray(traced.steps))
        key = jax.random.key(experiment.seed)
        initial = state = reference = _start(traced, problem, params, key)
        bar = contextlib.nullcontext(progress) if callable(progress) else progress_bar("training", progress)
        with bar as show:
            try:
                record.add(dynamics, problem, initial)
                for reached in _observed_states(experiment, problem, traced, initial, show):
                    record.add(dynamics, problem, reached)
                    state = reached  # only now: the run's parameters are those of its last observation
                    if not record.finite:
                        status = "diverged"
                        message = (
                            f"the loss is no longer a finite number at t={record.time:.3g} "
                            f"(step {int(state.step)}): try {dynamics.knob}."
                        )
                        break
                    if bool(dynamics.trouble(state)):
                        status, message = dynamics.complaint(state)
                        break
                    if dynamics.settled(problem, reference, state, record.initial_loss):
                        message = f"settled at t={record.time:.3g}: the parameters are at rest."
                        break
                    if float(dynamics.position(state)) >= 2 * float(dynamics.position(reference)):
                        reference = state
                else:
                    message = dynamics.afterword
            except KeyboardInterrupt:
                if not record.observations:  # nothing was observed yet, so there is nothing to keep
                    raise
                status = "interrupted"
                message = f"interrupted at t={record.time:.3g}; what was observed until then is kept."
        work = {name: int(value) for name, value in dynamics.work(state).items()}
        final = jax.tree.map(np.asarray, state.params)
    return Run(
        spec=experiment.to_dict(),
        curves=record.dataset(dynamics.clock),
        params=final,
        metric=experiment.task.metric,
        criteria=experiment.task.criteria,
        status=status,
        message=message,
        method=method,
        work=work,
        seconds=time.monotonic() - started,
        id=asked.id_if_any,
        experiment=experiment,
    )


@contextlib.contextmanager
def _blas_on_one_thread(dynamics: Dynamics):
    """LAPACK without threads for flows, which factorise small matrices often.

    Two threads are no quicker on a few hundred rows, and wait for one another whenever another process has a core: a
    step of boursier2025/fig2 then takes 10 to 60 ms in place of 1.
    """
    if isinstance(dynamics, Discrete):
        yield
        return
    import scipy.linalg.cython_lapack  # noqa: F401  (what JAX calls; it has to be loaded to be told)
    import threadpoolctl

    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        yield


def prepare(experiment: Experiment) -> tuple[Problem, PyTree[Array]]:
    """The problem and the initial parameters of an experiment; every mismatch is refused here."""
    task, model = experiment.task, experiment.model
    model.parameters(task.signature)  # before any data are drawn
    # Streams of one seed: 0 is the data's (Experiment.draw), 1 the initialisation's.
    initial = model.initialise(experiment.init, task.signature, np.random.default_rng([experiment.seed, 1]))
    problem = pose(task, model, experiment.penalty, experiment.draw())
    dtype = jnp.float64 if task.precision == "double" else jnp.float32
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), initial)
    problem = eqx.tree_at(lambda p: p.model, problem, problem.model.anchored(params))
    experiment.dynamics.check(problem, params)
    outputs = jax.eval_shape(lambda p: problem.model(p, problem.data.inputs), params)
    wanted = problem.data.targets.shape
    if task.metric == "accuracy":  # targets are class numbers, outputs one number a class
        wanted = (*wanted, *task.signature.outputs)
    require(
        outputs.shape == wanted,
        f"the model gives outputs of shape {outputs.shape}, but the task needs {wanted}.",
    )
    return eqx.tree_at(lambda p: p.penalty, problem, _numbers_as_arrays(problem.penalty, params)), params


def _numbers_as_arrays(spec: Any, params: PyTree[Array]) -> Any:
    """A noun with its numbers as arrays, so that changing a number does not compile anything again."""
    dtype = jax.tree.leaves(params)[0].dtype
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype) if type(leaf) is float else leaf, spec)


@eqx.filter_jit
def _start(dynamics: Dynamics, problem: Problem, params: PyTree[Array], key: Array) -> State:
    return dynamics.start(problem, params, key)


@eqx.filter_jit
def _advance(dynamics: Dynamics, problem: Problem, state: State, target: Array, limit: Int[Array, ""]) -> State:
    return dynamics.advance(problem, state, target, limit)


@eqx.filter_jit
def _observe(problem: Problem, params: PyTree[Array]) -> dict[str, Array]:
    return problem.observe(params)


def _observed_states(experiment: Experiment, problem: Problem, traced: Dynamics, state: State, show: Any):
    """The states at which the run is observed, one after the other.

    Compiled code cannot be interrupted, so it is called for about a quarter of a second at a time: how many
    steps that is, is measured on the way and does not change the result.
    """
    dynamics = experiment.dynamics
    targets = dynamics.targets(experiment.observations)
    state = _advance(traced, problem, state, jnp.asarray(targets[0] * 0), jnp.asarray(0))  # compiles only
    limit = 1000
    for count, target in enumerate(targets, start=1):
        goal = jnp.asarray(target)
        while True:
            began, before = time.monotonic(), int(state.step)
            state = jax.block_until_ready(_advance(traced, problem, state, goal, jnp.asarray(limit)))
            made = int(state.step) - before
            seconds_a_step = (time.monotonic() - began) / max(made, 1)
            show(dynamics.progress(float(dynamics.position(state)), count / len(targets)))
            if made < limit:  # it stopped by itself: at the target, or in trouble
                break
            limit = int(np.clip(_SECONDS_A_CALL / seconds_a_step, 1, 1e9))
        yield state


class _Record:
    """What has been observed so far."""

    def __init__(self):
        self.observations: list[tuple[float, int, dict[str, np.ndarray]]] = []  # log₁₀ time, step, quantities

    def add(self, dynamics: Dynamics, problem: Problem, state: State) -> None:
        # Copied: a view would keep a JAX buffer alive, many times the size of the number in it.
        quantities = {name: np.array(value) for name, value in _observe(problem, state.params).items()}
        log10_time = float(dynamics.log10_time(state))
        if self.observations and not self.observations[-1][0] < log10_time < math.inf:
            # The clock of a run that diverges may stand still or be lost with it: this is just later than before.
            log10_time = math.nextafter(self.observations[-1][0], math.inf)
        self.observations.append((log10_time, int(state.step), quantities))

    @property
    def time(self) -> float:
        """The training time of the last observation."""
        return _power_of_ten(self.observations[-1][0])

    @property
    def initial_loss(self) -> float:
        return float(self.observations[0][2]["train_loss"])

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.observations[-1][2]["train_loss"]))

    def dataset(self, clock: str) -> Any:
        """All of it as an xarray.Dataset over time."""
        log10_time, step, quantities = zip(*self.observations, strict=True)
        columns = {name: np.stack([row[name] for row in quantities]) for name in quantities[0]}
        return dataset(columns, [_power_of_ten(t) for t in log10_time], log10_time, step, clock)


def _power_of_ten(exponent: float) -> float:
    return 10.0**exponent if exponent < 308 else math.inf
