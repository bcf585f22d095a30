"""The limit of weak penalties: the data are fitted at once, then the penalty falls among parameters that fit them."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from afterfit._base.curves import SLOW_TIME
from afterfit._base.errors import require
from afterfit.dynamics import _tangent as tangent
from afterfit.dynamics._base import State
from afterfit.dynamics._flow import Continuous, GradientFlow
from afterfit.dynamics._methods._base import Chart, FlowState, Primal
from afterfit.dynamics._methods.explicit import Explicit
from afterfit.dynamics._problem import Problem, norm
from afterfit.penalties import NoPenalty, Penalty

__all__ = ["RiemannianFlow"]

_FITTED = 1e-9  # ‖outputs − targets‖ over ‖targets‖ at which the fast phase has come to its limit
_LOOKS = 60  # times that the fast phase may double before its data count as impossible to fit
_DEPENDENT = 1e-12  # eigenvalues of JJᵀ below this share of the largest belong to dependent constraints


class RiemannianFlow(Continuous):
    """The flow with a penalty β·h as β → 0, in slow time τ = βt (Boursier et al. 2025, Props 1 and 2).

    First the unregularised flow to its limit Φ(θ₀), which takes no slow time; then θ' = −P(θ)∇h(θ), P the projection
    onto the tangent space of the interpolating parameters, with a pull-back onto them after every step. The strength of
    the penalty does not matter. Needs a squared loss and a smooth penalty.

    Duplicate or dependent examples count once. Where examples that were independent at Φ(θ₀) no longer are, the
    parameters have come to a singular point, beyond which the theory says nothing (App. C, "Dealing with
    singularities"): the run ends there with the status `"singular"`. `method` is how the fast phase is followed.

    ```python
    RiemannianFlow(until=10.0)
    ```
    """

    clock = SLOW_TIME

    def lowered(self, problem: Problem) -> Penalty:
        """What falls among the parameters that fit the data; its strength does not count."""
        return problem.penalty

    def check(self, problem: Problem, params: PyTree[Array]) -> None:
        name, lowered = type(self).__name__, self.lowered(problem)
        require(
            problem.task.loss.form == "squared",
            f"{name} moves among the parameters that fit the data exactly and needs a squared loss.",
        )
        require(
            lowered.smooth and not isinstance(lowered, NoPenalty),
            f"{name} lowers a smooth penalty, such as L2, not {type(lowered).__name__}.",
        )
        require(
            problem.task.precision == "double",
            f"{name} keeps to parameters that fit the data to {_FITTED}, which single precision cannot tell: "
            'say precision="double" on the task.',
        )
        self._fast.check(_unregularised(problem), params)

    def resolve(self, problem: Problem, params: PyTree[Array]) -> tuple[RiemannianFlow, str]:
        rtol = 1e-7 if self.rtol is None else self.rtol
        horizon = 1e3 if self.stops and self.horizon is None else self.horizon
        resolved = self.replace(rtol=rtol, horizon=horizon)
        fast, why = resolved._fast.resolve(_unregularised(problem), params)
        slow = f"along the parameters that fit {problem.data.n} examples, Tsitouras 5(4) with pull-back"
        return resolved.replace(method=fast.method), f"to the limit of the loss alone, {why}; then {slow}"

    @property
    def _fast(self) -> GradientFlow:
        return GradientFlow("settled", self.rtol, self.atol, self.max_steps, method=self.method)

    @property
    def _slow(self) -> _Slide:
        assert self.rtol is not None, "resolve() gives a flow its tolerance"
        return _Slide(self.rtol, self.atol, self.max_steps)

    def _sliding(self, problem: Problem) -> Problem:
        """The problem of the slow phase: its penalty is what is lowered."""
        return eqx.tree_at(lambda p: p.penalty, problem, self.lowered(problem))

    def start(self, problem: Problem, params: PyTree[Array], key: Key[Array, ""]) -> State:
        zero = jnp.zeros((), jnp.int64)
        fast = self._fast.start(_unregularised(problem), params, key).memory
        slow = self._slow.start(self._sliding(problem), params)
        # Time enough for the first look at the fast phase: what moves the parameters by about their own size.
        look = norm(params) / jnp.maximum(norm(jax.grad(problem.loss)(params)), 1e-300)
        phases = _Phases(jnp.zeros(()), fast, look.astype(jnp.float64), zero, slow, jnp.zeros((), bool), zero, zero)
        return State(params, phases, zero, key)

    def advance(self, problem: Problem, state: State, target: Array, limit: Int[Array, ""]) -> State:
        last = state.step + limit
        fitting = _unregularised(problem)
        # No closer than the tolerance of the steps; the pull-back does the rest.
        wanted = jnp.maximum(_FITTED, jnp.asarray(self.rtol)) * jnp.linalg.norm(tangent.targets(problem))

        def unfitted(state: State) -> Bool[Array, ""]:
            return ~state.memory.arrived & (state.step < last) & ~_hopeless(state.memory) & (target > 0)

        def fit(state: State) -> State:
            phases: _Phases = state.memory
            moved = self._fast.advance(
                fitting, State(state.params, phases.fast, state.step, state.key), phases.look, last - state.step
            )
            missing = tangent.outputs(problem, moved.params) - tangent.targets(problem)
            there = moved.memory.time >= phases.look
            phases = eqx.tree_at(
                lambda p: (p.fast, p.look, p.looks, p.arrived),
                phases,
                (
                    moved.memory,
                    jnp.where(there, 2 * phases.look, phases.look),
                    phases.looks + there,
                    there & (jnp.linalg.norm(missing) <= wanted),
                ),
            )
            return State(moved.params, phases, moved.step, state.key)

        before = state.memory.arrived
        state = jax.lax.while_loop(unfitted, fit, state)
        state = jax.lax.cond(state.memory.arrived & ~before, lambda s: self._land(problem, s), lambda s: s, state)
        return self._slide(problem, state, target, last)

    def _land(self, problem: Problem, state: State) -> State:
        """Φ(θ₀), and the slow phase from there on."""
        params = pull_back(problem, state.params)
        rank = constraints(problem, params).rank
        phases = eqx.tree_at(
            lambda p: (p.slow, p.rank, p.rank_now),
            state.memory,
            (self._slow.start(self._sliding(problem), params), rank, rank),
        )
        return State(params, phases, state.step, state.key)

    def _slide(self, problem: Problem, state: State, target: Array, last: Int[Array, ""]) -> State:
        phases: _Phases = state.memory
        goal = jnp.where(phases.arrived, target, 0.0)
        at = State(state.params, phases.slow, state.step, state.key)
        moved = self._slow.advance(self._sliding(problem), at, goal, last)
        rank = jnp.where(phases.arrived, constraints(problem, moved.params).rank, phases.rank_now)
        phases = eqx.tree_at(lambda p: (p.time, p.slow, p.rank_now), phases, (moved.memory.time, moved.memory, rank))
        return State(moved.params, phases, moved.step, state.key)

    def trouble(self, state: State) -> Array:
        phases: _Phases = state.memory
        stuck = (_hopeless(phases) & ~phases.arrived) | (phases.slow.stuck & (phases.time < self.end))
        return stuck | (phases.rank_now < phases.rank)

    def complaint(self, state: State) -> tuple[str, str]:
        phases: _Phases = state.memory
        if int(phases.rank_now) < int(phases.rank):
            return "singular", (
                f"of {int(phases.rank)} independent examples {int(phases.rank_now)} are left at slow time "
                f"{float(phases.time):.3g}: a singular point of the interpolating parameters, where the limit theory "
                "ends (Boursier et al. 2025, App. C). A sparse or low-rank solution is one."
            )
        if not bool(phases.arrived):
            return "step limit", (
                f"the data are not fitted at t={float(phases.fast.time):.3g} of the fast phase, after "
                f"{int(state.step)} steps: try {self.knob}, or a model that can fit the data."
            )
        return super().complaint(state)

    def settled(self, problem: Problem, before: State, now: State, time: float, left: float) -> bool:
        return time >= 10 and self.at_rest(before, now)

    def work(self, state: State) -> dict[str, Array]:
        fast, slow = state.memory.fast, state.memory.slow
        rejected = fast.rejected + slow.rejected
        return {
            "steps_accepted": state.step - rejected,
            "steps_rejected": rejected,
            "right_hand_sides": fast.right_hand_sides + slow.right_hand_sides,
            "linear_solves": fast.linear_solves + slow.linear_solves,
        }


class _Phases(eqx.Module):
    """Where a run is in its two phases; `rank` counts independent examples at Φ(θ₀), `rank_now` where it is."""

    time: Float[Array, ""]
    fast: FlowState
    look: Float[Array, ""]  # when the fast phase is next looked at
    looks: Int[Array, ""]
    slow: FlowState
    arrived: Bool[Array, ""]
    rank: Int[Array, ""]
    rank_now: Int[Array, ""]


class Constraints(eqx.Module):
    """The Jacobian J of the outputs at some parameters, with its pseudo-inverse through K = JJᵀ = Q diag(κ) Qᵀ."""

    at: tangent.Linearisation
    Q: Float[Array, "m m"]
    inverse: Float[Array, " m"]  # 1/κ, and 0 for dependent constraints
    rank: Int[Array, ""]

    def project(self, direction: PyTree[Array]) -> PyTree[Array]:
        """P·direction, the part that leaves the outputs as they are: direction − J⁺J·direction."""
        across = self.lift(self.at.push_forward(direction))
        return jax.tree.map(jnp.subtract, direction, across)

    def lift(self, outputs: Float[Array, "n ..."]) -> PyTree[Array]:
        """J⁺·outputs, the shortest change of the parameters that changes the outputs so."""
        multipliers = self.Q @ (self.inverse * (self.Q.T @ outputs.ravel()))
        return self.at.pull_back(multipliers.reshape(outputs.shape))


def constraints(problem: Problem, params: PyTree[Array]) -> Constraints:
    """What the data demand of the parameters, to first order."""
    kappa, Q = jnp.linalg.eigh(tangent.kernel(problem, params))
    independent = kappa > _DEPENDENT * kappa[-1]
    inverse = jnp.where(independent, 1 / jnp.where(independent, kappa, 1.0), 0.0)
    return Constraints(tangent.linearise(problem, params), Q, inverse, jnp.sum(independent))


def pull_back(problem: Problem, params: PyTree[Array]) -> PyTree[Array]:
    """The parameters moved onto those that fit the data, by two Gauss–Newton steps."""
    for _ in range(2):
        missing = tangent.outputs(problem, params) - tangent.targets(problem)
        params = jax.tree.map(jnp.subtract, params, constraints(problem, params).lift(missing))
    return params


class _Slide(Explicit):
    """Explicit steps along the manifold of interpolating parameters."""

    def chart(self, problem: Problem, params: PyTree[Array]) -> Chart:
        return _Manifold()


class _Manifold(Primal):
    """Parameters that fit the data."""

    def field(self, problem: Problem, t: Array, y: PyTree[Array]) -> PyTree[Array]:
        slope = constraints(problem, y).project(problem.penalty.subgradient(y))
        return jax.tree.map(jnp.negative, slope)

    def restore(self, problem: Problem, y: PyTree[Array]) -> PyTree[Array]:
        return pull_back(problem, y)


def _hopeless(phases: _Phases) -> Bool[Array, ""]:
    """Whether the fast phase has given up fitting the data."""
    return phases.fast.stuck | (phases.looks >= _LOOKS)


def _unregularised(problem: Problem) -> Problem:
    return eqx.tree_at(lambda p: p.penalty, problem, NoPenalty())
