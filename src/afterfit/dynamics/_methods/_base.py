"""What a method of following a flow is, and the adaptive loop that most of them share."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from afterfit._base.definitions import compiled
from afterfit._base.errors import nearest, require
from afterfit._base.kinks import has_kinks
from afterfit._base.rules import Rule
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._base import State
from afterfit.dynamics._problem import Problem, norm

__all__ = ["Chart", "FlowState", "FlowToFollow", "Method", "Primal", "Solver", "Stepping"]

_ROUNDING = 32  # units in the last place below which no step can be told right from wrong


class FlowState(eqx.Module):
    """How far a flow has come: `place` is what its method needs to go on, the others count its work."""

    time: Float[Array, ""]
    place: PyTree[Any]
    rejected: Int[Array, ""]
    right_hand_sides: Int[Array, ""]
    linear_solves: Int[Array, ""]
    stuck: Bool[Array, ""]

    @classmethod
    def begin(cls, place: PyTree[Any], right_hand_sides: int | Array = 0) -> FlowState:
        """At time 0."""
        zero = jnp.zeros((), jnp.int64)
        return cls(
            time=jnp.zeros((), jnp.float64),
            place=place,
            rejected=zero,
            right_hand_sides=zero + right_hand_sides,
            linear_solves=zero,
            stuck=jnp.zeros((), bool),
        )


class FlowToFollow:
    """A flow that a method is wanted for: what methods ask before they offer themselves, computed when first asked for.

    `until` is when the run ends; None if it ends by itself.
    """

    def __init__(self, problem: Problem, params: PyTree[Array], until: float | None):
        self.problem, self.params, self.until = problem, params, until

    @functools.cached_property
    def numbers(self) -> int:
        """How many numbers the parameters are."""
        return sum(leaf.size for leaf in jax.tree.leaves(self.params))

    @functools.cached_property
    def curvature(self) -> float:
        """The largest curvature of the objective at the start."""
        return float(_curvature(self.problem, self.params))

    @functools.cached_property
    def magnification(self) -> float:
        """‖J‖·‖θ‖ over the size of the outputs: how many times larger a relative error of θ is in them, at most.

        From a start of entries α it is of order α^D for a model of degree D: outputs are small differences there.
        """
        return float(_magnification(self.problem, self.params))

    @functools.cached_property
    def kinks(self) -> bool:
        """Whether the model has kinks, as it says, or may have some, as its program does if it does not say."""
        problem = self.problem
        if problem.model.smooth is not None:
            return not problem.model.smooth
        return has_kinks(lambda params: problem.model(params, problem.data.inputs), self.params)

    @property
    def horizon(self) -> float:
        """When a run that has not settled gives up: 1000 times the slow time scale, or long after the fast one."""
        weakest = self.problem.penalty.weakest
        return 1e3 / weakest if weakest > 0 else 1e8 / max(self.curvature, 1e-12)

    @property
    def stiffness(self) -> float:
        """Curvature x time."""
        return self.curvature * (self.until or self.horizon)

    @property
    def stiff(self) -> str:
        """How stiff it is, in words."""
        return f"curvature x time is {self.stiffness:.1g} at the start"


@compiled
def _curvature(problem: Problem, params: PyTree[Array]) -> Float[Array, ""]:
    from afterfit.dynamics._solvers.chebyshev import RungeKuttaChebyshev, spectral_radius

    def field(params: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(jnp.negative, problem.gradient(params))

    dtype = jax.tree.leaves(params)[0].dtype
    return spectral_radius(field, params, RungeKuttaChebyshev.any_direction(params), jnp.zeros((), dtype))[0]


@compiled
def _magnification(problem: Problem, params: PyTree[Array]) -> Float[Array, ""]:
    from afterfit.dynamics._solvers.chebyshev import RungeKuttaChebyshev, spectral_radius

    at = tangent.linearise(problem, params)
    direction, zero = RungeKuttaChebyshev.any_direction(at.value), jnp.zeros((), at.value.dtype)
    largest, _, _ = spectral_radius(lambda r: at.push_forward(at.pull_back(r)), direction, direction, zero)  # ‖J‖²
    squared = problem.task.loss.form == "squared"
    aimed_at = norm(tangent.targets(problem)) if squared else jnp.sqrt(at.value.size)  # labels are of order 1
    size = jnp.where(aimed_at > 0, aimed_at, norm(at.value))
    return jnp.where(size > 0, jnp.sqrt(largest) * norm(params) / jnp.where(size > 0, size, 1.0), 0.0)


class Method(Rule, eqx.Module):
    """One way to follow θ' = −∇(loss + β·penalty). A new one is a subclass with a `name`, by which it can be asked for.

    `method="auto"` asks those without an `obstacle`, in the order of their `turn`, and takes the first that gives a
    reason to be `preferred`: closed forms from 0 on, methods for special problems from 20, for any problem from 30.
    `rtol` and `atol` bound the error of a step, `max_steps` the steps of a run; `default_rtol` is what `rtol` is when
    the user gives none.
    """

    default_rtol: ClassVar[float] = 1e-6

    rtol: float | Array
    atol: float | Array
    max_steps: int

    @classmethod
    @abc.abstractmethod
    def obstacle(cls, problem: Problem, params: PyTree[Array]) -> str | None:
        """Why this method cannot follow the flow of that problem; None if it can."""

    @classmethod
    @abc.abstractmethod
    def preferred(cls, flow: FlowToFollow) -> str | None:
        """Why to prefer it to all whose turn is later, in words that follow its name; None if it is not."""

    @classmethod
    def tolerance(cls, flow: FlowToFollow, atol: float) -> float:
        """What `rtol` is when the user gives none."""
        return cls.default_rtol

    @classmethod
    def named(cls, name: str) -> type[Method]:
        """The method that is called so."""
        called = [method for method in cls.known() if method.name == name]
        others = ("auto", *(method.name for method in cls.known()))
        require(bool(called), f"unknown method {name!r}: {nearest(name, others)}")
        where = " and ".join(f"{method.__module__}.{method.__qualname__}" for method in called)
        require(len(called) == 1, f"several methods are called {name!r}, {where}: give one another name.")
        return called[0]

    @abc.abstractmethod
    def start(self, problem: Problem, params: PyTree[Array]) -> FlowState:
        """The flow at time 0."""

    @abc.abstractmethod
    def advance(self, problem: Problem, state: State, target: Array, last: Int[Array, ""]) -> State:
        """Go on to time `target`, or until step number `last`."""


class Chart(eqx.Module):
    """The variables y in which a flow is integrated: y' = field(t, y), and the parameters they stand for."""

    @abc.abstractmethod
    def start(self, problem: Problem, params: PyTree[Array]) -> PyTree[Array]:
        """y at time 0."""

    @abc.abstractmethod
    def params(self, problem: Problem, t: Array, y: PyTree[Array]) -> PyTree[Array]:
        """The parameters that y stands for at time t."""

    @abc.abstractmethod
    def field(self, problem: Problem, t: Array, y: PyTree[Array]) -> PyTree[Array]:
        """y'."""

    def restore(self, problem: Problem, y: PyTree[Array]) -> PyTree[Array]:
        """y after a step, put back where it belongs if the step left it."""
        return y

    def rebase(
        self, problem: Problem, t: Array, y: PyTree[Array], params: PyTree[Array], solver: PyTree[Any]
    ) -> tuple[Chart, PyTree[Array], PyTree[Any]]:
        """The chart, y and the state of the solver to go on with after a step to time t."""
        return self, y, solver


class Primal(Chart):
    """The parameters themselves."""

    def start(self, problem: Problem, params: PyTree[Array]) -> PyTree[Array]:
        return params

    def params(self, problem: Problem, t: Array, y: PyTree[Array]) -> PyTree[Array]:
        return y

    def field(self, problem: Problem, t: Array, y: PyTree[Array]) -> PyTree[Array]:
        return jax.tree.map(jnp.negative, problem.gradient(y))


class Solver(NamedTuple):
    """A Diffrax solver, and what the loop has to know of it beside what Diffrax does, from the state it leaves."""

    diffrax: Any
    cost: Callable[[Any], tuple[int | Array, int | Array]]  # right-hand sides and linear solves of the last step
    longest: Callable[[Any], Float[Array, ""]] = lambda state: jnp.asarray(jnp.inf)  # step that makes sense
    after_rejection: Callable[[Any, PyTree[Array]], Any] = lambda state, error: state  # what a failed step teaches


class _Place(eqx.Module):
    """Where an adaptive integrator is, between two steps."""

    y: PyTree[Array]
    chart: Chart
    dt: Float[Array, ""]
    solver: PyTree[Any]
    controller: PyTree[Any]


class Stepping(Method):
    """A method made of steps with error control: variables (a chart), a solver, and what counts as error."""

    @abc.abstractmethod
    def solver(self, problem: Problem, chart: Chart) -> Solver:
        """The solver; its vector field has the time since the step began and `(problem, t0)` as arguments."""

    @classmethod
    def tolerance(cls, flow: FlowToFollow, atol: float) -> float:
        # Relative to the parameters, but not so loose that outputs may be off by more than they are large: an implicit
        # step whose every error is allowed does not follow them at all.
        if flow.magnification * cls.default_rtol <= 1:
            return cls.default_rtol
        rtol, leaves = 1 / flow.magnification, jax.tree.leaves(flow.params)
        finest = _ROUNDING * float(jnp.finfo(leaves[0].dtype).eps)
        typical = float(norm(flow.params)) / flow.numbers**0.5
        require(
            rtol >= finest + atol / typical,
            f"from this start, parameters of about {typical:.2g}, a relative error of the parameters is up to "
            f"{flow.magnification:.1g} times as large in the outputs, more than {leaves[0].dtype} with atol={atol:g} "
            "can follow: begin with smaller parameters (of large ones models.Tangent(model) is the limit).",
        )
        return rtol

    def chart(self, problem: Problem, params: PyTree[Array]) -> Chart:
        """The variables to integrate in."""
        return Primal()

    def allowed(self, before: PyTree[Array], after: PyTree[Array]) -> Float[Array, ""]:
        """What the error of a step may be, as one number for all parameters together: atol·√p + rtol·‖params‖."""
        count = sum(leaf.size for leaf in jax.tree.leaves(after))
        return self.atol * count**0.5 + self.rtol * jnp.maximum(norm(before), norm(after))

    def error(self, before: PyTree[Array], after: PyTree[Array], change: PyTree[Array]) -> Float[Array, ""]:
        """The size of an error `change` of the parameters over what is allowed."""
        return norm(change) / self.allowed(before, after)

    def _controller(self) -> Any:
        import diffrax  # on first use: half a second that discrete runs need not pay

        # It is given the error as one number, already in units of what is allowed.
        return diffrax.PIDController(rtol=0.0, atol=1.0)

    def _terms(self, chart: Chart) -> Any:
        import diffrax

        def field(t: Any, y: PyTree[Array], arguments: Any) -> PyTree[Array]:
            problem, t0 = arguments
            return chart.field(problem, t0 + t, y)

        return diffrax.ODETerm(field)

    def start(self, problem: Problem, params: PyTree[Array]) -> FlowState:
        chart = self.chart(problem, params)
        y = chart.start(problem, params)
        solver, terms, dtype = self.solver(problem, chart).diffrax, self._terms(chart), jax.tree.leaves(y)[0].dtype
        # A first step that moves the parameters by a small share of their size; the controller takes it from there.
        t0 = jnp.zeros((), jnp.float64)
        speed, size = norm(problem.gradient(params)), norm(params)
        dt = jnp.where(speed > 0, 1e-3 * (size + self.atol) / speed, 1.0).astype(jnp.float64)
        _, controller = self._controller().init(
            terms, t0, dt, jnp.zeros(()), dt, None, lambda *_: jnp.zeros(()), solver.error_order(terms)
        )
        place = _Place(
            y=y,
            chart=chart,
            dt=dt,
            solver=solver.init(terms, t0.astype(dtype), dt.astype(dtype), y, (problem, t0)),
            controller=jax.tree.map(jnp.asarray, controller),  # not Python's False: one compilation serves all steps
        )
        return FlowState.begin(place, right_hand_sides=1)

    def advance(self, problem: Problem, state: State, target: Array, last: Int[Array, ""]) -> State:
        target = target.astype(jnp.float64)

        def unfinished(state: State) -> Bool[Array, ""]:
            return (state.memory.time < target) & (state.step < last) & ~state.memory.stuck

        return jax.lax.while_loop(unfinished, lambda state: self._step(problem, state, target), state)

    def _step(self, problem: Problem, state: State, target: Array) -> State:
        flow: FlowState = state.memory
        place: _Place = flow.place
        chart, controller, t0 = place.chart, self._controller(), flow.time
        solver, terms, dtype = self.solver(problem, chart), self._terms(chart), jax.tree.leaves(place.y)[0].dtype
        order = solver.diffrax.error_order(terms)
        dt = jnp.minimum(place.dt, solver.longest(place.solver).astype(jnp.float64))
        t1 = jnp.minimum(t0 + dt, target)  # land on the observation instead of interpolating to it
        clipped = t1 == target
        # Time within the step counts from its beginning: t0 + h − t0 would lose digits of h in single precision.
        h = (t1 - t0).astype(dtype)
        y, error, _, solver_state, _ = solver.diffrax.step(
            terms, jnp.zeros((), dtype), h, place.y, (problem, t0), place.solver, made_jump=False
        )
        y = chart.restore(problem, y)
        # At t0 + h, as the solver sees it, so that the compiler computes once what both need.
        params = chart.params(problem, t0 + h, y)
        without = chart.params(problem, t0 + h, jax.tree.map(jnp.subtract, y, error))
        ratio = self.error(state.params, params, jax.tree.map(jnp.subtract, params, without)).astype(jnp.float64)
        ratio = jnp.where(jnp.isfinite(ratio), ratio, jnp.inf)  # a step that left the domain is a failed step
        nothing = jnp.zeros(())
        keep, next_t0, next_t1, _, controller_state, _ = controller.adapt_step_size(
            t0, t1, nothing, nothing, None, ratio, order, place.controller
        )
        # A step cut short to land on an observation says little about how long the next one may be.
        next_dt = next_t1 - next_t0
        next_dt = jnp.where(keep & clipped, jnp.maximum(dt, next_dt), next_dt)

        def chosen(new: PyTree, old: PyTree) -> PyTree:
            return jax.tree.map(lambda n, o: jnp.where(keep, n, o), new, old)

        right_hand_sides, linear_solves = solver.cost(solver_state)
        new_chart, y, solver_state = chart.rebase(problem, t1, y, params, solver_state)
        out_of_steps = state.step + 1 >= self.max_steps
        flow = FlowState(
            time=jnp.where(keep, t1, t0),
            place=_Place(
                y=chosen(y, place.y),
                chart=chosen(new_chart, chart),
                dt=next_dt,
                solver=chosen(solver_state, solver.after_rejection(place.solver, error)),
                controller=controller_state,
            ),
            rejected=flow.rejected + ~keep,
            right_hand_sides=flow.right_hand_sides + right_hand_sides,
            linear_solves=flow.linear_solves + linear_solves,
            stuck=(t0 + next_dt == t0) | ~jnp.isfinite(next_dt) | out_of_steps,
        )
        return State(chosen(params, state.params), flow, state.step + 1, state.key)
