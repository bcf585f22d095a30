"""Training: from an experiment to a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from afterfit._base.definitions import as_compiled_last
from afterfit._base.errors import require
from afterfit._base.machine import blas_on_one_thread
from afterfit._base.progress import progress_bar
from afterfit._base.spec import all_ours
from afterfit._base.turns import attend, computing
from afterfit._training.batches import Batch, Lane, numbers_as_arrays
from afterfit._training.experiment import Experiment
from afterfit._training.own import (
    check_outputs,
    check_own_model,
    check_own_penalty,
    check_own_steps,
    check_schedule,
    shape_of,
)
from afterfit._training.past import Past
from afterfit._training.run import Run
from afterfit._training.size import check_program, check_size
from afterfit.dynamics import Dynamics
from afterfit.dynamics._problem import Problem, pose
from afterfit.inits import EndOf, Init, Own
from afterfit.models import Model
from afterfit.models._inputs import as_inputs
from afterfit.penalties import NoPenalty, Penalty
from afterfit.quantities import Quantity
from afterfit.tasks import Data, Task

__all__ = ["prepare", "run_experiment", "run_together", "train"]


def train(
    *,
    task: Task,
    model: Model,
    dynamics: Dynamics,
    penalty: Penalty | None = None,
    init: Init | None = None,
    seed: int = 0,
    observations: int = 200,
    observe: Mapping[str, Quantity | Callable[[Any, Any], Any]] | None = None,
    checkpoints: int | Sequence[float] = 0,
    start: Run | None = None,
    progress: bool | None = None,
) -> Run:
    """Fit `model` to a draw of `task`, pulled by `penalty` and moved by `dynamics`; return the run it leaves.

    `init` is where the parameters start (a `models.Function` brings its own). `seed` decides the data, the
    initialisation and every random step; the same specification and seed give the same curves, bit for bit, on
    the same machine. `progress` shows a bar (None: on a terminal). Ctrl-C ends the run early and keeps what was
    observed.

    `observations` is how many log-spaced times are observed, and `observe` what is recorded there beside metrics and
    norms: by name, a function f(params, data) or one of `af.quantities`. `checkpoints` keeps the parameters on the way,
    so many times or at given training times (`run.checkpoints`). `start` is a run to go on from, on its clock, in place
    of an `init`: `dynamics` says how much further, and may be another, and so may `penalty`.

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
    if start is not None:
        require(init is None, "a run goes on from another (start) or begins anew (init): give one of them.")
        init = EndOf(start)
    experiment = Experiment(
        task=task,
        model=model,
        dynamics=dynamics,
        penalty=NoPenalty() if penalty is None else penalty,
        init=Own() if init is None else init,
        seed=seed,
        observations=observations,
        observe=observe or {},  # pyright: ignore[reportArgumentType]  (functions become quantities)
        checkpoints=checkpoints,  # pyright: ignore[reportArgumentType]  (a list becomes a tuple)
    )
    return run_experiment(experiment, progress=progress)


def run_experiment(experiment: Experiment, *, progress: bool | Callable[[float], None] | None = None) -> Run:
    """Carry out an experiment. `progress` is as for `train`, or a function to call with the share of work done."""
    with progress_bar("training", progress) as show:
        (run,) = run_together([experiment], show=show)
    return run


def run_together(
    experiments: Sequence[Experiment],
    *,
    wanted: Collection[int] | None = None,
    shared: bool = False,
    show: Callable[[float], None] = lambda share: None,
    ended: Callable[[Run, int], None] = lambda run, place: None,
    stop: threading.Event | None = None,
) -> list[Run]:
    """Carry out experiments, those that differ in numbers only as one compiled program; the runs, in their order.

    `wanted` are the places of those to carry out (all, if None); the others only keep their place, so that the bits of
    the wanted are what they are with all of them. `shared` says that all have the same task and seed, and so the same
    data. `show` is called with the share of work done, `ended` with each run, and its place, as soon as it has ended,
    both from another thread. Ctrl-C, or setting `stop`, ends all runs at once and keeps what was observed; a run of
    which nothing was is left out, and where that is every one of them, KeyboardInterrupt is raised.
    """
    lanes: dict[int, Lane] = {}  # those that are wanted, by their places
    abandoned = threading.Event()

    def show_all() -> None:
        if abandoned.is_set():  # nobody waits any more
            raise _Abandoned
        show(sum(lane.progress for lane in lanes.values()) / len(lanes))

    with computing(lambda: show(0.0)), blas_on_one_thread():
        try:
            attend(lambda: _move(experiments, wanted, shared, lanes, show_all, ended), stop)
        except KeyboardInterrupt:
            abandoned.set()
            lanes = {place: lane for place, lane in lanes.items() if lane.observations}
            if not lanes:
                raise
            for place, lane in lanes.items():
                if lane.interrupt():
                    ended(lane.run(), place)
        except BaseException:
            abandoned.set()
            raise
        return [lane.run() for lane in lanes.values()]


class _Abandoned(BaseException):
    """Nobody waits for these runs any more."""


def _move(
    experiments: Sequence[Experiment],
    wanted: Collection[int] | None,
    shared: bool,
    chosen: dict[int, Lane],
    show: Callable[[], None],
    ended: Callable[[Run, int], None],
) -> None:
    """Carry out experiments; their lanes appear in `chosen` as soon as they are posed."""
    import xarray  # noqa: F401  (a run needs it at its end, and Ctrl-C is to end it at once)

    began = time.monotonic()
    data = experiments[0].draw() if shared else None
    lanes = [Lane(experiment, *prepare(experiment, data)) for experiment in experiments]
    chosen |= {place: lane for place, lane in enumerate(lanes) if wanted is None or place in wanted}
    for place, lane in enumerate(lanes):
        if place in chosen:
            lane.seconds = (time.monotonic() - began) / len(chosen)
        else:
            lane.status = "not wanted"
    for group in _by_structure(lanes):
        if any(not lane.status for lane in group):
            Batch(group, shared).run(lambda lane: ended(lane.run(), lanes.index(lane)), show)


def _by_structure(lanes: Sequence[Lane]) -> list[list[Lane]]:
    """Lanes that one compiled program can move."""
    groups: dict[Any, list[Lane]] = {}
    for lane in lanes:
        groups.setdefault(lane.structure, []).append(lane)
    return list(groups.values())


def prepare(experiment: Experiment, data: Data | None = None) -> tuple[Problem, PyTree[Array]]:
    """The problem and the initial parameters of an experiment; every mismatch is refused here.

    `data` are the experiment's own, if they have been drawn already.
    """
    task, model = experiment.task, experiment.model
    as_compiled_last((task, model, experiment.penalty, experiment.dynamics, *experiment.observe.values()))
    check_size(experiment)  # before any data are drawn
    past = Past.of(experiment.init.past)
    past.check(experiment)
    task.criteria.at()  # are they possible?
    params = _initialised(experiment, experiment.init)
    # A run that goes on has the model of the whole run, which began where the first of them did.
    anchor = _initialised(experiment, past.first_init) if model.has_anchor and past.run is not None else params
    data = experiment.draw() if data is None else data
    for inputs in (data.inputs, data.test_inputs):
        model.check_inputs(inputs)
        require(
            model.in_parts or not as_inputs(inputs).on_disk,
            f"inputs in a memory-mapped file are evaluated some at a time, and {type(model).__name__} does not say "
            "that each output is a function of its own input alone: say separate = True in its class if it is so, or "
            "give them in memory, np.array(X).",
        )
    problem = pose(task, model, experiment.penalty, data)
    problem = eqx.tree_at(lambda p: p.model, problem, problem.model.anchored(anchor))
    tried = not model.responsive or not all_ours(model)  # ours are known to be sound
    outputs = shape_of("the model", lambda p: problem.model.outputs(p, problem.data.inputs), params, in_words=tried)
    check_outputs(outputs)
    wanted = problem.data.targets.shape
    if task.loss.metric == "accuracy":  # targets are class numbers, outputs one number a class
        wanted = (*wanted, *task.signature.outputs)
    require(
        outputs.shape == wanted,
        f"the model gives outputs of shape {outputs.shape}, but the task needs {wanted}.",
    )
    check_program(jax.grad(problem.loss), params, problem.data.n)
    _check_moves(experiment, problem, params)
    experiment.dynamics.check_past(past.remembered)
    if tried:
        check_own_model(problem, params, outputs)
    return eqx.tree_at(lambda p: p.penalty, problem, numbers_as_arrays(problem.penalty, params)), params


def _check_moves(experiment: Experiment, problem: Problem, params: PyTree[Array]) -> None:
    """Refuse a penalty and a dynamics that cannot move the parameters; those of the user's are tried."""
    dynamics, ours = experiment.dynamics, all_ours(experiment.penalty)
    if not ours:
        check_own_penalty(problem.penalty, params)
    check_schedule(dynamics)
    dynamics.check(problem, params)
    if dynamics.in_steps and not (ours and all_ours(dynamics)):
        check_own_steps(dynamics, problem, params)


def _initialised(experiment: Experiment, init: Init) -> PyTree[Array]:
    """The parameters where `init` begins, on the experiment's task and with its seed."""
    # Streams of one seed: 0 is the data's (Experiment.draw), 1 the initialisation's.
    rng, task = np.random.default_rng([experiment.seed, 1]), experiment.task
    dtype = jnp.float64 if task.precision == "double" else jnp.float32
    initial = experiment.model.initialise(init, task.signature, rng)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), initial)
