"""Training: from an experiment to a run."""

from __future__ import annotations

import contextlib
import functools
import re
import sysconfig
import threading
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.errors import JAXTypeError
from jaxtyping import Array, PyTree

from afterfit._base.definitions import as_compiled_last, compiled
from afterfit._base.errors import AfterfitError, SpecError, error_in_words, require
from afterfit._base.progress import progress_bar
from afterfit._base.turns import attend, computing
from afterfit._training.batches import Batch, Lane, numbers_as_arrays
from afterfit._training.experiment import Experiment
from afterfit._training.run import Run
from afterfit._training.size import check_program, check_size
from afterfit.dynamics import Dynamics
from afterfit.dynamics._problem import Problem, pose
from afterfit.inits import Init, Own
from afterfit.models import Model
from afterfit.models._inputs import as_inputs
from afterfit.penalties import NoPenalty, Penalty
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

    with computing(lambda: show(0.0)), _blas_on_one_thread():
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


@contextlib.contextmanager
def _blas_on_one_thread():
    """LAPACK without threads, which factorises small matrices often.

    Two threads are no quicker on a few hundred rows, and wait for one another whenever another process has a core: a
    step of boursier2025/fig2 then takes 10 to 60 ms in place of 1. And results would depend on how many there are.
    """
    import scipy.linalg.cython_lapack  # noqa: F401  (what JAX calls; it has to be loaded to be told)
    import threadpoolctl

    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        yield


def prepare(experiment: Experiment, data: Data | None = None) -> tuple[Problem, PyTree[Array]]:
    """The problem and the initial parameters of an experiment; every mismatch is refused here.

    `data` are the experiment's own, if they have been drawn already.
    """
    task, model = experiment.task, experiment.model
    as_compiled_last((task, model, experiment.penalty, experiment.dynamics))
    check_size(experiment)  # before any data are drawn
    task.criteria.at()  # are they possible?
    # Streams of one seed: 0 is the data's (Experiment.draw), 1 the initialisation's.
    initial = model.initialise(experiment.init, task.signature, np.random.default_rng([experiment.seed, 1]))
    problem = pose(task, model, experiment.penalty, experiment.draw() if data is None else data)
    dtype = jnp.float64 if task.precision == "double" else jnp.float32
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), initial)
    problem = eqx.tree_at(lambda p: p.model, problem, problem.model.anchored(params))
    outputs = _shape_of_outputs(problem, params, in_words=not model.responsive)
    _check_outputs(outputs)
    wanted = problem.data.targets.shape
    if task.loss.metric == "accuracy":  # targets are class numbers, outputs one number a class
        wanted = (*wanted, *task.signature.outputs)
    require(
        outputs.shape == wanted,
        f"the model gives outputs of shape {outputs.shape}, but the task needs {wanted}.",
    )
    check_program(jax.grad(problem.loss), params, problem.data.n)
    experiment.dynamics.check(problem, params)
    if not model.responsive:
        _check_pure(problem, params)
        _check_start(problem, params, outputs)
        require(
            _moves_outputs(problem, params, outputs),
            "the model's outputs do not depend on its parameters: their derivative is exactly 0 at the start and at "
            "random points of sizes from 1e-3 to 1e6, so that nothing can be learnt.",
        )
        require(
            not model.separate or _acts_on_each(problem, params),
            f"{type(model).__name__} says separate = True, but the output of an example depends on the others: leave "
            "that out.",
        )
    return eqx.tree_at(lambda p: p.penalty, problem, numbers_as_arrays(problem.penalty, params)), params


def _acts_on_each(problem: Problem, params: PyTree[Array]) -> bool:
    """Whether the first example has the output alone that it has among the others, as far as rounding lets one tell."""
    n, inputs = problem.data.n, as_inputs(problem.data.inputs)
    together = inputs.observed(problem.model(params, problem.data.inputs), n)
    alone = problem.model(params, jax.tree.map(lambda leaf: leaf[0], inputs.apart(n)))[0]
    return bool(jnp.allclose(alone, together[0], rtol=1e-3, atol=1e-3 * float(jnp.max(jnp.abs(together)))))


def _shape_of_outputs(problem: Problem, params: PyTree[Array], in_words: bool) -> Any:
    """The shape and type of a model's outputs; what the user's own raises `in_words`, without JAX's traceback."""
    try:
        return jax.eval_shape(lambda p: problem.model(p, problem.data.inputs), params)
    except (AfterfitError, MemoryError):
        raise
    except Exception as error:
        if not in_words:
            raise
        said = error_in_words(error).splitlines()[0].rstrip(".:")
        hint = " (write it with jax.numpy, and jnp.where in place of `if`)" if isinstance(error, JAXTypeError) else ""
        raise SpecError(f"the model cannot be evaluated: {said}{hint}{_place_of(error)}.") from None


def _place_of(error: Exception) -> str:
    """Where in the user's code something was raised, in words; nothing if it was not there."""
    libraries = (sysconfig.get_path("purelib"), str(Path(__file__).parents[1]), sysconfig.get_path("stdlib"))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(libraries)]
    return f", in {Path(frames[-1].filename).name}, line {frames[-1].lineno}: {frames[-1].line}" if frames else ""


def _check_pure(problem: Problem, params: PyTree[Array]) -> None:
    """Refuse a model that is another function when it is called again: the compiled run would keep the first."""

    def trace() -> tuple[str, list[np.ndarray]]:
        program = jax.make_jaxpr(lambda p: problem.model(p, problem.data.inputs))(params)
        return re.sub(" at 0x[0-9a-f]+", "", str(program)), [np.asarray(const) for const in program.consts]

    (one, held), (other, held_again) = trace(), trace()
    same = one == other and all(map(functools.partial(np.array_equal, equal_nan=True), held, held_again))
    require(
        same,
        "the model computes something else when it is called a second time: it depends on what changes, such as a "
        "counter or random numbers. Make it depend on its parameters and its input alone.",
    )


def _check_start(problem: Problem, params: PyTree[Array], shape: jax.ShapeDtypeStruct) -> None:
    """Refuse a model that has no finite outputs, or no gradient, at its initial parameters."""
    outputs, slope = _slope(problem.model, problem.data.inputs, params, jnp.ones(shape.shape, shape.dtype))
    wrong = ~jnp.isfinite(outputs).reshape(len(outputs), -1).all(axis=1)
    require(
        not bool(wrong.any()),
        f"the model gives outputs that are not finite at its initial parameters, on {int(wrong.sum())} of {len(wrong)} "
        f"training examples (the first is number {int(jnp.argmax(wrong))}): look for a division by 0, a logarithm or "
        "root of what is not positive, or too large a start.",
    )
    require(
        not any(bool(jnp.isnan(leaf).any()) for leaf in jax.tree.leaves(slope)),
        "the model's outputs are finite at its initial parameters, but their derivative is not a number: look for a "
        "root or a norm at 0, or start elsewhere.",
    )


def _check_outputs(outputs: Any) -> None:
    """Refuse what a model of the user's may give in place of an array of real numbers."""
    require(
        isinstance(outputs, jax.ShapeDtypeStruct),
        f"the model must give one array of outputs, got {type(outputs).__name__}.",
    )
    require(
        jnp.issubdtype(outputs.dtype, jnp.floating),
        f"the model gives outputs of type {outputs.dtype}, which have no gradient: make them floating numbers.",
    )


def _moves_outputs(problem: Problem, params: PyTree[Array], outputs: jax.ShapeDtypeStruct) -> bool:
    """Whether the outputs on the training data have a derivative that is not exactly 0, somewhere.

    It may well be 0 at the start, as of a ReLU network whose units are all dead. Then random points of all sizes are
    tried: what is flat at small ones (a unit below its threshold) is not at large ones, nor the other way round.
    """
    rng = np.random.default_rng(0)
    noise = jax.tree.map(lambda leaf: jnp.asarray(rng.standard_normal(leaf.shape), leaf.dtype), params)
    for start, random in ((1.0, 0.0), (1.0, 1.0), (0.0, 1e-3), (0.0, 1.0), (0.0, 1e3), (0.0, 1e6)):
        point = jax.tree.map(lambda p, z, a=start, b=random: a * p + b * z, params, noise)
        weights = jnp.asarray(rng.standard_normal(outputs.shape), outputs.dtype)
        _, slope = _slope(problem.model, problem.data.inputs, point, weights)
        if any(bool(jnp.any(leaf != 0)) for leaf in jax.tree.leaves(slope)):
            return True
    return False


@compiled
def _slope(model: Model, inputs: Any, params: PyTree[Array], weights: Array) -> tuple[Array, PyTree[Array]]:
    """All outputs, and the gradient of a weighted sum of them."""
    outputs, pull_back = jax.vjp(lambda p: model(p, inputs), params)
    return outputs, pull_back(weights)[0]
