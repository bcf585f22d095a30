"""Ways to foresee a run: each is a theorem's limit taken at its word, with the curves that it implies.

A new one is a subclass of `Route` in `ROUTES`. Most put two time scales together: outputs that move at the rates of the
loss, and, long after, a predictor that moves at the strength β of the penalty along the data's solutions.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from afterfit import tangent
from afterfit.dynamics import (
    GradientDescent,
    GradientFlow,
    ProjectedSubgradient,
    ProximalGradient,
    RiemannianFlow,
)
from afterfit.losses import Exponential, Logistic, Squared
from afterfit.models import MLP, DiagonalNet, EmbeddingMLP, Linear, Model, Tangent
from afterfit.penalties import L1, L2, NoPenalty, Nuclear
from afterfit.theory.instance import Instance
from afterfit.theory.kernel import MOST
from afterfit.theory.potentials import Q, QDepth
from afterfit.theory.programs import NotSeparableError, lasso, max_l2_margin, nuclear_penalised
from afterfit.train import run_experiment

__all__ = ["ROUTES", "Curves", "Route", "Unanswered"]

_FOLLOWED = (GradientFlow, GradientDescent, ProximalGradient, ProjectedSubgradient)  # dynamics that a flow describes
_SLOW_TIMES = 48  # at which a slow path is computed; between them it is interpolated
_MOST_STEPS = 20_000  # of a limiting flow: a forecast that takes longer than the run is none


@dataclasses.dataclass(frozen=True)
class Curves:
    """Foreseen training and test metric at some times."""

    train: np.ndarray
    test: np.ndarray
    caveats: tuple[str, ...] = ()


class Unanswered(Exception):
    """A theory that seemed to speak to an instance has no limit there; the message says why."""


class Route(abc.ABC):
    """A way to foresee a run. `by` names the theory."""

    by: ClassVar[str]

    @abc.abstractmethod
    def obstacle(self, instance: Instance) -> str | None:
        """Why it does not speak to this instance; None if it does."""

    @abc.abstractmethod
    def curves(self, instance: Instance, times: np.ndarray) -> Curves:
        """The metrics at those training times; `Unanswered` if the theorem's limit turns out not to exist."""


class ClosedForm(Route):
    """Linear regression, with weight decay or none: the exact path."""

    by = "the closed form of linear regression with weight decay (Boursier et al. 2025, (23)–(24))"

    def obstacle(self, instance: Instance) -> str | None:
        if type(instance.experiment.model) is not Linear:
            return f"it is for the linear model, not {type(instance.experiment.model).__name__}"
        return _not_squared(instance) or _not_penalty(instance, L2, NoPenalty) or _not_followed(instance)

    def curves(self, instance: Instance, times: np.ndarray) -> Curves:
        path = _linear_path(instance, times, instance.decay)
        rows = _scored(instance, Linear(), {"weights": path})
        rows[~np.all(np.isfinite(path), axis=tuple(range(1, path.ndim)))] = np.inf
        return Curves(rows[:, 0], rows[:, 1])


class ConvexDescent(Route):
    """The linear model with an L1 or nuclear penalty: least squares, then down the penalty among its solutions."""

    by = (
        "least squares, then the flow of the penalty on {Xa = y} "
        "(Notsawo et al. 2025, Thms 3.1 and 3.4; Boursier et al. 2025, Prop. 2)"
    )

    def obstacle(self, instance: Instance) -> str | None:
        if type(instance.experiment.model) is not Linear:
            return f"it is for the linear model, not {type(instance.experiment.model).__name__}"
        return _not_squared(instance) or _not_penalty(instance, L1, Nuclear) or _not_followed(instance)

    def curves(self, instance: Instance, times: np.ndarray) -> Curves:
        X, y, beta = _rows(instance), instance.targets, float(instance.experiment.penalty.strength)
        fast = _linear_path(instance, times, 0.0)
        landed = _linear_path(instance, np.array([np.inf]), 0.0)[0]
        shape = landed.shape if type(instance.experiment.penalty) is Nuclear else None
        slow_times, points = _down_the_penalty(X, landed, shape, beta * times[-1])
        projected = type(instance.experiment.dynamics) is ProjectedSubgradient
        if not projected:
            points = _given_way(X, slow_times, points, beta / instance.half_factor, shape)
        along = _interpolated(slow_times, points, beta * times).reshape(fast.shape)
        # The two scales together: slow motion starts where the fast one lands, so that is counted once.
        rows = _scored(instance, Linear(), {"weights": fast + along - landed})
        if projected:  # its end is the solution of least norm
            return Curves(rows[:, 0], rows[:, 1])
        floor = instance.score_weights(self._end(instance, X, y, beta, shape))
        return Curves(np.maximum(rows[:, 0], floor[0]), np.maximum(rows[:, 1], floor[1]))

    def _end(self, instance: Instance, X: np.ndarray, y: np.ndarray, beta: float, shape: tuple[int, ...] | None):
        """Where the penalty at its finite strength balances the loss: no error falls below that end's."""
        strength = beta / instance.half_factor
        if shape is None:
            return lasso(X, y, strength)
        return nuclear_penalised(X.reshape(len(X), *shape), y, strength)


class DecayingPotential(Route):
    """A diagonal net with squared loss: the solution of least Q_α, α shrinking as e^{−λt}.

    With w₊ = e^{−λt}·u the decay is gone from the equation of u but for a change of speed, and u moves in the family
    that Woodworth et al. 2020 found: w(t) is argmin Q_{α(t)} among the predictors with its outputs, α(t) = αe^{−λt}.
    Once the outputs are the targets, that is the whole slow phase, for every depth. Until then the outputs follow n
    equations of their own, see `_mirror_path`.
    """

    by = (
        "the mirror flow of Q until the fit, then argmin Q at the decayed initialisation αe^{−λt} "
        "(Woodworth et al. 2020, Thms 1 and 3; Lyu et al. 2023, §3.3)"
    )

    def obstacle(self, instance: Instance) -> str | None:
        return (
            _not_balanced(instance)
            or _not_squared(instance)
            or _not_penalty(instance, L2, NoPenalty)
            or _not_followed(instance)
            or _not_stable(instance)
            or _not_fitted(instance)
        )

    def curves(self, instance: Instance, times: np.ndarray) -> Curves:
        fit = _mirror_path(instance, times)
        settled = times[len(fit) :]
        if not len(settled):
            rows = _scored(instance, Linear(), {"weights": fit})
            return Curves(rows[:, 0], rows[:, 1])
        slow = self._slow_times(instance.decay, settled[0], settled[-1])
        path = np.array([self._potential(instance, t).minimise(instance.design, instance.targets) for t in slow])
        rows = _scored(instance, Linear(), {"weights": np.concatenate([fit, path])})
        train, test = (
            np.concatenate([column[: len(fit)], np.interp(settled, slow, column[len(fit) :])]) for column in rows.T
        )
        return Curves(train, test)

    def _slow_times(self, decay: float, first: float, last: float) -> np.ndarray:
        """Even while log α(t) changes by its own size, 20/λ and more for any α that is not tiny, then log-spaced."""
        if not decay:
            return np.array([first])
        knee = min(last, first + 20 / decay)
        return np.unique(np.append(np.linspace(first, knee, _SLOW_TIMES), np.geomspace(knee, last, 8)))

    def _potential(self, instance: Instance, t: float) -> Q | QDepth:
        start, depth = _balanced_start(instance)
        scale = float(np.exp(-min(instance.decay * t, 230.0)))  # 10⁻¹⁰⁰: it is the L1 norm from there on
        return Q(scale, start) if depth == 2 else QDepth(scale * float(start[0]), depth)


class DecayingMargin(Route):
    """A diagonal net of depth 2 with a margin loss: the loss and Q_{αe^{−λt}} in balance.

    With w = 2a²·sinh(Xᵀν), a = αe^{−λt}, the flow is ν′ = −4g, g the derivative of the loss in the outputs.
    In slow motion ν′ = λρν, ρ the rate −d log Σν/d log a: 2 in the kernel regime, falling to 0 in the rich one. So w(t)
    is argmin L(w) + (λρ/4)·Q_a(w): from a ridge (kernel, Thm 3.4) to λ/2·‖w‖₁ (rich, Thm 3.5).
    """

    by = "the loss in balance with Q at the decayed initialisation αe^{−λt} (Lyu et al. 2023, Thms 3.4 and 3.5)"

    def obstacle(self, instance: Instance) -> str | None:
        if type(instance.task.loss) not in (Logistic, Exponential):
            return "it is for logistic and exponential losses"
        reason = _not_balanced(instance) or _not_penalty(instance, L2) or _not_followed(instance)
        if reason is None and _balanced_start(instance)[1] != 2:
            return f"it is for depth 2, not {_balanced_start(instance)[1]}"
        return reason

    def curves(self, instance: Instance, times: np.ndarray) -> Curves:
        try:
            slow_times, path = self._path(instance, times[-1])
        except NotSeparableError:
            raise Unanswered("the data are not separable") from None
        scores = _scored(instance, Linear(), {"weights": path})
        rows = [np.interp(times, slow_times, scores[:, side]) for side in range(2)]
        return Curves(rows[0], rows[1], ("the first fit is taken to be immediate: margins of any size classify",))

    def _path(self, instance: Instance, end: float) -> tuple[np.ndarray, np.ndarray]:
        X, y, decay = instance.design, instance.targets, instance.decay
        Z, n = y[:, None] * X, len(y)
        start, _ = _balanced_start(instance)
        mean = n * float(
            instance.task.loss(jnp.ones(1), jnp.ones(1), n) / instance.task.loss.each(jnp.ones(()), jnp.ones(()))
        )
        widest = max_l2_margin(X, y)
        step = 0.25 / decay
        slow = np.arange(0.0, min(end, 40 / decay) + step, step)
        rho, nu, found = 2.0, None, []
        for t in slow:
            c = (start * np.exp(-decay * t)) ** 2
            most = 4 * mean / (decay * rho * n)
            if nu is None:  # where the margin would be in the kernel regime
                share = _share(instance, 10 * (Z @ widest))
                nu = most * share
            previous = float(np.sum(nu))
            for _ in range(2):
                nu = _balanced(instance, Z, c, most, nu)
                if not found:
                    break
                rho = float(np.clip(np.log(np.sum(nu) / previous) / (decay * step), 0.02, 2.0))
                most = 4 * mean / (decay * rho * n)
            found.append(2 * c * np.sinh(Z.T @ nu))
        return slow, np.array(found)


def _share(instance: Instance, margins: np.ndarray) -> np.ndarray:
    """−ℓ′ at the margins: the pull of every example, between 0 and 1 for a logistic loss."""
    return np.exp(-margins) if type(instance.task.loss) is Exponential else 1 / (1 + np.exp(margins))


def _balanced(instance: Instance, Z: np.ndarray, c: np.ndarray, most: float, nu: np.ndarray) -> np.ndarray:
    """ν with ν = most·(−ℓ′(Zw)), w = 2c·sinh(Zᵀν): the minimum of Q*(Zᵀν) + most·Σℓ*(−ν/most)."""
    from scipy.optimize import minimize
    from scipy.special import xlogy

    logistic = type(instance.task.loss) is Logistic
    least = 1e-14

    def dual(p: np.ndarray) -> tuple[float, np.ndarray]:
        s = np.clip(Z.T @ (most * p), -350.0, 350.0)
        entropy = xlogy(p, p) + xlogy(1 - p, 1 - p) if logistic else xlogy(p, p) - p
        slope = np.log(p) - np.log1p(-p) if logistic else np.log(p)
        return float(np.sum(4 * c * np.sinh(s / 2) ** 2) / most + np.sum(entropy)), Z @ (2 * c * np.sinh(s)) + slope

    highest = 1 - 1e-12 if logistic else 1e12
    solution = minimize(
        dual,
        np.clip(nu / most, least, highest),
        jac=True,
        method="L-BFGS-B",
        bounds=[(least, highest)] * len(Z),
        options={"maxiter": 500, "maxcor": 30, "ftol": 1e-13, "gtol": 1e-5},
    )
    return most * solution.x


class RiemannianLimit(Route):
    """Any model with squared loss and weight decay: the flow of ‖θ‖²/2 on the solutions, followed once for every λ."""

    by = "the limit λ → 0: the Riemannian flow of the penalty on the solutions (Boursier et al. 2025, Prop. 2)"

    def obstacle(self, instance: Instance) -> str | None:
        if isinstance(instance.experiment.model, MLP | EmbeddingMLP):
            return "it is for smooth models (Assumption 1), and ReLUs have kinks"
        m = jax.eval_shape(lambda p: tangent.outputs(instance.problem, p), instance.initial).size
        if m > MOST:
            return f"the data hold {m} numbers, more than the {MOST} that it can project away"
        return _not_squared(instance) or _not_penalty(instance, L2) or _not_followed(instance) or _not_stable(instance)

    def curves(self, instance: Instance, times: np.ndarray) -> Curves:
        experiment, decay = instance.experiment, instance.decay
        fast = _KernelFlow(instance)
        outputs = fast.outputs(times)
        missing = np.linalg.norm((outputs - instance.targets.ravel()), axis=1) / np.linalg.norm(instance.targets)
        end = float(decay * times[-1])
        flow = RiemannianFlow(until=end, first=1e-4 * end, max_steps=_MOST_STEPS)
        run = run_experiment(dataclasses.replace(experiment, dynamics=flow, observations=_SLOW_TIMES), progress=False)
        metric = instance.task.metric
        slow = run.curves["time"].values[1:] / decay
        if not len(slow) or slow[-1] <= 0:
            raise Unanswered(f"the unregularised flow does not come to a solution ({run.message})")
        train, test = (np.interp(times, slow, run.curves[f"{side}_{metric}"].values[1:]) for side in ("train", "test"))
        early = missing > instance.task.criteria.train.value
        if early.any():
            train[early], test[early] = _scored(instance, fast.model, fast.along(times[early])).T
        caveats = fast.caveats()
        if run.status != "finished":
            caveats += (f"the limiting flow ends early ({run.message})",)
        return Curves(np.where(early, train, np.maximum(train, missing)), test, caveats)


ROUTES: tuple[Route, ...] = (ClosedForm(), ConvexDescent(), DecayingPotential(), DecayingMargin(), RiemannianLimit())


# ----------------------------------------------------------------------------------------- what does not fit where


def _not_squared(instance: Instance) -> str | None:
    return None if type(instance.task.loss) is Squared else "it is for squared losses"


def _not_penalty(instance: Instance, *known: type) -> str | None:
    penalty = instance.experiment.penalty
    if type(penalty) not in known or (penalty.strength == 0 and NoPenalty not in known):
        names = " or ".join(kind.__name__ for kind in known)
        return f"it is for {names}, not {type(penalty).__name__} of strength {penalty.strength:g}"
    return None


def _not_followed(instance: Instance) -> str | None:
    name = type(instance.experiment.dynamics)
    return None if name in _FOLLOWED else f"it describes gradient flow and descent, not {name.__name__}"


def _not_stable(instance: Instance) -> str | None:
    """Descent follows the flow only at steps below 2 over the curvature: else it diverges, or ends elsewhere."""
    if instance.step_size is None:
        return None
    kernel = np.asarray(tangent.kernel(instance.problem, instance.initial))
    curvature = instance.half_factor * float(np.linalg.eigvalsh(kernel)[-1])
    if instance.step_size * curvature <= 2:
        return None
    return f"steps of {instance.step_size:g} do not follow the flow, whose curvature at the start is {curvature:.3g}"


def _not_fitted(instance: Instance) -> str | None:
    """Decay moves along the solutions of Xw = y, so there must be one; without it the flow needs none."""
    X, y = _rows(instance), instance.targets
    missing = np.linalg.norm(X @ np.linalg.lstsq(X, y, rcond=None)[0] - y) if instance.decay else 0.0
    return "it is for data that a linear predictor can fit" if missing > 1e-9 * np.linalg.norm(y) else None


def _not_balanced(instance: Instance) -> str | None:
    model = instance.experiment.model
    if type(model) is not DiagonalNet:
        return f"it is for diagonal nets w₊^D − w₋^D, not {type(model).__name__}"
    plus, minus = (np.asarray(instance.initial[name]) for name in ("plus", "minus"))
    if not np.array_equal(plus, minus) or np.any(plus <= 0):
        return "it is for a start with w₊ = w₋ > 0"
    if model.depth > 2 and np.ptp(plus) > 1e-12 * plus[0]:
        return "for depths above 2 it is for a start with all entries equal"
    return None


# ------------------------------------------------------------------------------------------------- the fast phase


class _KernelFlow:
    """Gradient flow on the linearised model without penalty: outputs in closed form (exact for linear models)."""

    def __init__(self, instance: Instance):
        problem, start = instance.problem, instance.initial
        self.instance, self.linear = instance, tangent.linearise(problem, start)
        self.model = Tangent(model=instance.experiment.model).anchored(start)
        self.values, self.vectors = np.linalg.eigh(np.asarray(tangent.kernel(problem, start)))
        self.values = np.clip(self.values, 0.0, None)
        self.missing = self.vectors.T @ (np.asarray(self.linear.value).ravel() - instance.targets.ravel())
        self.rates = instance.half_factor * self.values

    def outputs(self, times: np.ndarray) -> np.ndarray:
        """Outputs on the training data, one row a time."""
        left = np.exp(-np.outer(times, self.rates)) * self.missing
        return self.instance.targets.ravel() + left @ self.vectors.T

    def along(self, times: np.ndarray):
        """The parameters, every array with one row a time."""
        moving = self.values > 1e-13 * self.values[-1]
        gone = self.missing[moving] * -np.expm1(-np.outer(times, self.rates[moving]))
        nu = (gone / self.values[moving]) @ self.vectors[:, moving].T
        back = jax.lax.map(self.linear.pull_back, jnp.asarray(nu).reshape(len(nu), *self.linear.value.shape))
        return jax.tree.map(jnp.subtract, self.instance.initial, back)

    def caveats(self) -> tuple[str, ...]:
        """Whether features would move during the fit: how far the kernel changes on the way to its own solution."""
        if self.instance.model.linear:
            return ()
        end = jax.tree.map(lambda rows: rows[0], self.along(np.array([np.inf])))
        after = np.asarray(tangent.kernel(self.instance.problem, end))
        before = (self.vectors * self.values) @ self.vectors.T
        change = float(np.linalg.norm(after - before) / np.linalg.norm(before))
        if change <= 0.5:
            return ()
        return (f"t_fit is the kernel regime's, but the tangent kernel would change by {change:.0%} on the way",)


def _balanced_start(instance: Instance) -> tuple[np.ndarray, int]:
    """α, one number a weight, and the depth D of a diagonal net."""
    model = instance.experiment.model
    assert isinstance(model, DiagonalNet), "an obstacle to any other"
    return np.asarray(instance.initial["plus"]), model.depth


def _mirror_path(instance: Instance, times: np.ndarray) -> np.ndarray:
    """The weights of a balanced diagonal net without penalty, up to the time when the data are fitted to 10⁻⁶.

    The flow keeps w = 2α²·sinh(Xᵀν), ν′ = −4g, g the derivative of the loss in the outputs; for depth D > 2,
    w = α^D·h_D(Xᵀν), ν′ = −D(D − 2)α^{D−2}g (Woodworth et al. 2020, proofs of Thms 1 and 3). That is n numbers to
    follow, and good in the kernel and in the rich regime alike.
    """
    from scipy.integrate import solve_ivp

    X, y = instance.design, instance.targets
    start, depth = _balanced_start(instance)
    speed = instance.half_factor * (4 if depth == 2 else depth * (depth - 2) * start[0] ** (depth - 2))
    power = depth / (depth - 2) if depth > 2 else np.inf

    def weights(s: np.ndarray) -> np.ndarray:
        if depth == 2:
            return 2 * start**2 * np.sinh(s)
        inside = np.where(np.abs(s) < 1, s, np.nan)  # a step out of the domain is refused
        return start**depth * ((1 - inside) ** -power - (1 + inside) ** -power)

    def slopes(s: np.ndarray) -> np.ndarray:
        if depth == 2:
            return 2 * start**2 * np.cosh(s)
        return start**depth * power * ((1 - s) ** (-power - 1) + (1 + s) ** (-power - 1))

    def left(t: float, nu: np.ndarray) -> float:
        return float(np.linalg.norm(X @ weights(X.T @ nu) - y) - 1e-6 * np.linalg.norm(y))

    left.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    found = solve_ivp(
        lambda t, nu: speed * (y - X @ weights(X.T @ nu)),
        (0.0, times[-1]),
        np.zeros(len(y)),
        method="BDF",
        t_eval=times,
        events=left,
        jac=lambda t, nu: -speed * (X * slopes(X.T @ nu)) @ X.T,
        rtol=1e-6,
        atol=1e-9,
    )
    if not found.success:
        raise Unanswered(f"the mirror flow could not be followed ({found.message})")
    nu = np.reshape(found.y, (len(y), -1))  # no columns if the data are fitted before they are first looked at
    return weights(nu.T @ X)


def _scored(instance: Instance, model: Model, params: PyTree[Array]) -> np.ndarray:
    """Training and test metric of a model, one row for each row of its parameters."""
    names = [f"{side}_{instance.task.metric}" for side in ("train", "test")]

    def score(row: PyTree[Array]) -> Array:
        metrics = instance.task.metrics(model, row, instance.problem.data)
        return jnp.stack([metrics[name] for name in names])

    return np.array(jax.jit(lambda rows: jax.lax.map(score, rows))(jax.tree.map(jnp.asarray, params)))


def _rows(instance: Instance) -> np.ndarray:
    return instance.design.reshape(len(instance.design), -1)


def _linear_path(instance: Instance, times: np.ndarray, decay: float) -> np.ndarray:
    """w(t) of the linear model with weight decay, for gradient flow or descent, mode by mode."""
    X, c = _rows(instance), instance.half_factor
    start = np.asarray(instance.initial["weights"])
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    rates = c * sigma**2 + decay
    goal = np.divide(c * sigma * (U.T @ instance.targets), rates, out=np.zeros_like(rates), where=rates > 0)
    modes = Vt @ start.ravel()
    rest = start.ravel() - Vt.T @ modes
    left, left_rest = (_remaining(instance, np.atleast_1d(rate), times) for rate in (rates, decay))
    with np.errstate(invalid="ignore", over="ignore"):  # where it diverges
        path = (goal + (modes - goal) * left) @ Vt + left_rest * rest
    return path.reshape(len(times), *start.shape)


def _remaining(instance: Instance, rates: np.ndarray, times: np.ndarray) -> np.ndarray:
    """What is left of each mode: e^{−rate·t} for a flow, (1 − lr·rate)^k after k = t/lr steps of descent."""
    lr = instance.step_size
    if type(instance.experiment.dynamics) is ProjectedSubgradient:  # it fits in its first step
        return np.where(rates > 0, 0.0, 1.0) * np.ones((len(times), 1))
    if lr is None:
        return np.exp(-np.outer(times, rates)) if np.all(np.isfinite(times)) else np.where(rates > 0, 0.0, 1.0)[None]
    if not np.all(np.isfinite(times)):
        return np.where(rates > 0, 0.0, 1.0)[None]
    factor = 1 - lr * rates
    with np.errstate(over="ignore"):
        return np.sign(factor) ** np.round(times / lr)[:, None] * np.abs(factor) ** (times / lr)[:, None]


# ------------------------------------------------------------------------------------------------- the slow phase


def _down_the_penalty(
    X: np.ndarray, start: np.ndarray, shape: tuple[int, ...] | None, end: float
) -> tuple[np.ndarray, np.ndarray]:
    """The steepest descent of ‖a‖₁ (or the nuclear norm, given a shape) from `start`, Xa staying as it is.

    Slow times and points. Implicit steps: a_{k+1} is the point that trades the norm off against its distance from a_k,
    so that kinks need no care and every step goes down.
    """
    _, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    rows = Vt[sigma > max(X.shape) * np.finfo(float).eps * sigma[0]]
    a, tau, multipliers = start.ravel(), 0.0, np.zeros(len(rows))
    target = rows @ a
    times, points = [tau], [a]
    scale = float(np.linalg.norm(start, 2) if shape else np.max(np.abs(a)))
    while tau < end and scale > 0:
        step = max(0.02 * scale, 0.05 * tau)
        new, multipliers = _implicit_step(rows, target, a, step, shape, multipliers)
        tau += step
        times.append(tau)
        points.append(new)
        if np.linalg.norm(new - a) <= 1e-7 * np.linalg.norm(a):
            break
        a = new
    return np.array(times), np.array(points)


def _implicit_step(rows, target, a, step, shape, multipliers) -> tuple[np.ndarray, np.ndarray]:
    """argmin over Vb = v of step·‖b‖ + ½‖b − a‖², V with orthonormal rows, and the multipliers m of Vb = v.

    By its dual, which is smooth: b = shrunk(a + Vᵀm), where m minimises ½‖shrunk(a + Vᵀm)‖² − ⟨v, m⟩.
    """
    from scipy.optimize import minimize

    size = np.linalg.norm(a)

    def dual(m: np.ndarray) -> tuple[float, np.ndarray]:
        b = _shrunk(a + m @ rows, step, shape)
        return (b @ b / 2 - target @ m) / size**2, (rows @ b - target) / size**2

    options = {"maxiter": 2000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-9 / size}
    m = minimize(dual, multipliers, jac=True, method="L-BFGS-B", options=options).x
    b = _shrunk(a + m @ rows, step, shape)
    return b + (target - rows @ b) @ rows, m


def _given_way(
    X: np.ndarray, times: np.ndarray, points: np.ndarray, strength: float, shape: tuple[int, ...] | None
) -> np.ndarray:
    """Where a penalty of finite strength (over the loss's factor) has the slow path, to first order.

    Only what is not zero moves: entries, or singular directions. Along those the loss gives way by δ with
    XᵀXδ = −strength·(slope of the norm), as the solution of the lasso does at the end of the path. Modes so slow that
    they have not had the time are left where they are.
    """
    moved = points.copy()
    for k, (tau, a) in enumerate(zip(np.maximum(times, times[1:2].sum()), points, strict=True)):
        active, slope = _smooth_part(X, a, shape)
        _, sigma, Vt = np.linalg.svd(active, full_matrices=False)
        quick = sigma**2 * tau > strength
        moved[k] -= strength * ((Vt[quick] @ slope) / sigma[quick] ** 2) @ Vt[quick]
    return moved


def _smooth_part(X: np.ndarray, a: np.ndarray, shape: tuple[int, ...] | None) -> tuple[np.ndarray, np.ndarray]:
    """X on the directions along which the norm is smooth at a, and the norm's slope there."""
    if shape is None:
        some = np.abs(a) > 1e-6 * np.max(np.abs(a))
        return X * some, np.sign(a) * some
    U, values, Vt = np.linalg.svd(a.reshape(shape), full_matrices=False)
    some = values > 1e-6 * values[0]
    U, V = U[:, some], Vt[some].T
    matrices = X.reshape(-1, *shape)
    outside = matrices - U @ (U.T @ matrices)
    tangential = matrices - outside + outside @ V @ V.T  # UUᵀM + (I − UUᵀ)MVVᵀ
    return tangential.reshape(len(X), -1), (U @ V.T).ravel()


def _shrunk(b: np.ndarray, by: float, shape: tuple[int, ...] | None) -> np.ndarray:
    if shape is None:
        return np.sign(b) * np.maximum(np.abs(b) - by, 0.0)
    U, values, Vt = np.linalg.svd(b.reshape(shape), full_matrices=False)
    return ((U * np.maximum(values - by, 0.0)) @ Vt).ravel()


def _interpolated(times: np.ndarray, points: np.ndarray, at: np.ndarray) -> np.ndarray:
    return np.stack([np.interp(at, times, column) for column in points.T], axis=1)
