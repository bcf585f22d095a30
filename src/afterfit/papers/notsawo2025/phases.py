"""Thm 2.1 on draws of sparse recovery: what is read off a run of each phase, the theorem's constants, its pictures."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af

if TYPE_CHECKING:
    from jaxtyping import Float
    from matplotlib.axes import Axes

__all__ = [
    "ETAS",
    "GOALS",
    "Ball",
    "Draw",
    "Path",
    "draw_excess",
    "draw_fits",
    "draw_steps",
    "fit_times",
    "gapless_times",
    "largest_penalty",
    "share_of_fit",
]

ETAS = (1.2, 0.8, 0.4)  # η, in units of ‖â‖₁ − h_g*
GOALS = 10.0 ** -np.arange(1, 13)  # ε_g, as shares of g(x₀)
_GREYS: tuple[dict[str, Any], ...] = (  # of curves that lie on one another: the wider below
    {"color": "0.75", "ls": "-", "lw": 5.0},
    {"color": "0.4", "ls": "--", "lw": 2.6},
    {"color": "0.0", "ls": ":", "lw": 1.4},
)


@dataclasses.dataclass(frozen=True)
class Path:
    """A run of subgradient descent on ½‖Xa − y‖² + β‖a‖₁: observed steps t, weights a, g and ‖F‖².

    `start` is the first observation at which β‖H‖ ≥ ‖G‖, at step `t1`.
    """

    run: af.Run = dataclasses.field(repr=False)
    alpha: float
    beta: float
    seed: int
    t: Float[np.ndarray, " k"]
    weights: Float[np.ndarray, "k p"]
    g: Float[np.ndarray, " k"]
    squared_slope: Float[np.ndarray, " k"]  # ‖F‖²
    start: int

    @classmethod
    def of(cls, run: af.Run) -> Path:
        """Read a run of `descent`."""
        X, y, beta, curves = run.data.inputs, run.data.targets, run.spec["penalty"]["strength"], run.curves
        a = curves["weights"].values
        return cls(
            run=run,
            alpha=run.spec["dynamics"]["lr"],
            beta=beta,
            seed=run.spec["seed"],
            t=curves["step"].values.astype(float),
            weights=a,
            g=curves["train_loss"].values,
            squared_slope=np.sum(((a @ X.T - y) @ X + beta * np.sign(a)) ** 2, axis=1),
            start=int(np.argmax(curves["penalty_gradient"].values >= curves["loss_gradient"].values)),
        )

    @functools.cached_property
    def best(self) -> np.ndarray:
        """The minimiser of f, which is unique here."""
        return af.theory.lasso(self.run.data.inputs, self.run.data.targets, self.beta)

    @property
    def best_loss(self) -> float:
        """g at the minimiser of f."""
        return 0.5 * float(np.sum((self.run.data.inputs @ self.best - self.run.data.targets) ** 2))

    @functools.cached_property
    def excess(self) -> np.ndarray:
        """(f − f*)/β."""
        return (self.g - self.best_loss) / self.beta + np.abs(self.weights).sum(axis=1) - np.abs(self.best).sum()

    @functools.cached_property
    def least_norm(self) -> float:
        """h_g*, the least h where g = 0."""
        return float(np.abs(af.theory.min_l1(self.run.data.inputs, self.run.data.targets)).sum())

    @property
    def above_least(self) -> np.ndarray:
        """h − h_g*."""
        return np.abs(self.weights).sum(axis=1) - self.least_norm

    @property
    def p(self) -> int:
        """How many parameters there are."""
        return self.weights.shape[1]

    @property
    def product(self) -> float:
        """αβ."""
        return self.alpha * self.beta

    @property
    def t1(self) -> float:
        return float(self.t[self.start])

    @property
    def distance(self) -> float:
        """dist(x(t₁), Θ_f)."""
        return float(np.linalg.norm(self.weights[self.start] - self.best))

    @property
    def constant(self) -> float:
        """C' = max over t ≥ t₁ of ‖F‖²/β² (Thm C.13)."""
        return self.size_from(self.t1)

    def size_from(self, step: float) -> float:
        """The largest ‖F‖²/β² from a step on."""
        return float(self.squared_slope[self.t >= step].max() / self.beta**2)

    def first(self, goal: float) -> float:
        """The step at which g comes down to `goal`, between two observations on a straight line in (t, log g)."""
        if not (self.g <= goal).any():
            return np.inf
        k = int(np.argmax(self.g <= goal))
        above, below = np.log(self.g[k - 1 : k + 1] / goal)
        return float(self.t[k - 1] + (self.t[k] - self.t[k - 1]) * above / (above - below))

    def way(self, goal: float) -> float:
        """How far x goes from x₀ until g comes down to `goal`."""
        before = self.t <= self.first(goal)
        return float(np.linalg.norm(self.weights[before] - self.weights[0], axis=1).max())

    @property
    def fitted_distance(self) -> float:
        """‖â − x₀‖, â the nearest zero of g."""
        missing = self.run.data.targets - self.run.data.inputs @ self.weights[0]
        return float(np.linalg.norm(af.theory.min_l2(self.run.data.inputs, missing)))

    def eta(self, share: float) -> float:
        """η: a share of ‖â‖₁ − h_g*, â the least-squares solution."""
        fitted = af.theory.min_l2(self.run.data.inputs, self.run.data.targets)
        return share * (float(np.abs(fitted).sum()) - self.least_norm)

    def allowed(self, share: float) -> float:
        """½(η + C'αβ)."""
        return 0.5 * (self.eta(share) + self.constant * self.product)

    def needed(self, share: float) -> float:
        """Steps after t₁ until (f − f*)/β ≤ ½(η + C'αβ), on a line between two observations; ∞ if never."""
        excess, t, allowed = self.excess[self.start :], self.t[self.start :], self.allowed(share)
        if not (excess <= allowed).any():
            return np.inf
        k = int(np.argmax(excess <= allowed))
        part = (excess[k - 1] - allowed) / (excess[k - 1] - excess[k])
        return float(t[k - 1] + part * (t[k] - t[k - 1]) - self.t1)

    def proved(self, share: float) -> float:
        """Δt(η, t₁)."""
        return af.theory.slow_steps(self.distance, self.alpha, self.beta, self.eta(share))

    def least_penalty(self, share: float) -> float:
        """The least h − h_g* between t₁ and t₁ + Δt."""
        between = (self.t >= self.t1) & (self.t <= self.t1 + self.proved(share))
        return float(self.above_least[between].min())


@dataclasses.dataclass(frozen=True)
class Draw:
    """A draw of X, y and x₀ with the theorem's constants: g(x₀), σ² (the non-zero ones), r and what r gives."""

    seed: int
    loss: float
    squares: np.ndarray  # non-zero squared singular values of X, the least first
    radius: float
    limits: af.theory.StepSizes

    @classmethod
    def of(cls, run: af.Run) -> Draw:
        """The draw of a run, with r twice as large as r-CL needs."""
        import jax

        start, squares = af.theory.instance_of(run), np.linalg.svd(run.data.inputs, compute_uv=False)[::-1] ** 2
        loss = float(run.curves["train_loss"].values[0])
        radius = 4 * np.sqrt(loss / (2 * squares[0]))
        with jax.enable_x64(True):
            limits = af.theory.step_sizes(start.problem, start.initial, radius, penalty_slope=1.0)
        return cls(run.spec["seed"], loss, squares, radius, limits)

    @property
    def chi(self) -> float:
        """χ of a ball that reaches a zero of g: twice the least non-zero singular value of X, squared."""
        return 2 * float(self.squares[0])

    def guaranteed(self, alpha: float, beta: float) -> float:
        """ζ of (9): the least ε_g/g(x₀) that is guaranteed, with ‖H‖₂ ≤ √p for the L_h that is printed."""
        return (beta / self.limits.beta_max) ** self.limits.exponent(alpha)


class Ball(NamedTuple):
    """A ball B(x₀, r): g(x₀), the χ that is expected, the least ‖∇g‖²/g that descent finds, and how far x goes."""

    radius: float
    loss: float
    chi: float
    found: float
    way: float

    @classmethod
    def of(cls, path: Path, draw: Draw, radius: float, starts: int) -> Ball:
        """A ball about x₀ of a run; the ratio is descended from so many points of it."""
        found = _descended_ratio(path.run, radius, starts)
        return cls(radius, draw.loss, draw.chi, found, path.way(GOALS[-1] * path.g[0]))


def _descended_ratio(run: af.Run, radius: float, starts: int) -> float:
    """χ by descent of ‖∇g‖²/g, the model given as any function: that it is linear is not used."""
    import jax

    initial = np.asarray(af.theory.instance_of(run).initial["weights"])
    model = af.models.Function(_predicted, initial)
    with jax.enable_x64(True):
        start = af.theory.posed(dataclasses.replace(run.experiment, model=model, init=af.inits.Own()))
        return af.theory.chatterjee_lojasiewicz(start.problem, start.initial, radius, starts=starts).least


def _predicted(a: Any, x: Any) -> Any:
    return a @ x


def largest_penalty(task: af.tasks.Task, seed: int) -> float:
    """β_max of the draw that a run of this seed has, from x₀ = 0 and with γ = ⅛: what `Draw.of` finds."""
    data = task.draw(np.random.default_rng(seed))
    return float(np.linalg.norm(data.inputs.T @ data.targets) / (8 * np.sqrt(data.inputs.shape[1])))


def share_of_fit(path: Path, limits: af.theory.StepSizes, chi: float, goal: float) -> float:
    """The steps until g ≤ ε_g beside log(ε_g/g(x₀))/log(1 − δ), δ = (1 − ε)χα."""
    delta = (1 - limits.epsilon) * chi * path.alpha
    return path.first(goal * path.g[0]) / af.theory.fit_steps(1.0, goal, delta)


def fit_times(paths: Sequence[Path]) -> np.ndarray:
    """The steps until g ≤ ε_g: one row a path, one column an ε_g."""
    return np.array([[path.first(goal * path.g[0]) for goal in GOALS] for path in paths])


def gapless_times(alphas: Sequence[float], largest: float) -> np.ndarray:
    """`fit_times` of gradient descent on an X whose σ² run through fourteen decades below `largest`, in closed form."""
    from scipy.optimize import brentq
    from scipy.special import logsumexp

    squares = largest * np.geomspace(1e-14, 1.0, 29)

    def left(log_t: float, alpha: float, goal: float) -> float:
        """log(g/ε_g), from a residual with entries σ."""
        fading = 2 * np.exp(log_t) * np.log1p(-alpha * squares)
        return float(logsumexp(fading, b=squares / squares.sum()) - np.log(goal))

    logs = [[brentq(left, -5, 80, args=(alpha, goal)) for goal in GOALS] for alpha in alphas]
    return np.exp(np.array(logs, dtype=float))


def draw_fits(ax: Axes, paths: Sequence[Path], limits: af.theory.StepSizes) -> None:
    """g over αt, and the theorem's bound."""
    for style, path in zip(_GREYS, paths, strict=True):
        shown = path.t > 0
        ax.plot(path.alpha * path.t[shown], path.g[shown], **style, label=rf"$\alpha={path.alpha:g}$")
    g, rate = paths[0].g[0], (1 - limits.epsilon) * limits.chi
    t = np.linspace(0, 0.95 * np.log(1e8) / rate, 50)
    ax.plot(t, g * np.exp(-rate * t), color="#D55E00", lw=1.8, label=r"bound $(1-\delta)^t g(x_0)$")
    ax.set(yscale="log", ylabel=r"$g(x^{(t)})$", xlabel=r"training time $\alpha t$")
    ax.set(xlim=(0, 1.1 * t[-1]), ylim=(1e-10 * g, 3 * g))


def draw_excess(ax: Axes, paths: Sequence[Path]) -> None:
    """The least (f − f*)/β since t₁ over slow time, and the bound of Lemma C.12."""
    for style, path in zip(_GREYS, paths, strict=True):
        since = path.product * (path.t[path.start + 1 :] - path.t1)
        least = np.minimum.accumulate(path.excess[path.start :])[1:]
        ax.plot(since, least, **style, label=rf"$\beta={path.beta:g}$")
    longest, last = paths[0], paths[-1]
    slow_time = np.geomspace(1e-2, longest.product * longest.t[-1], 100)
    bound = 0.5 * last.distance**2 / slow_time + last.allowed(0.0)
    ax.plot(slow_time, bound, color="#D55E00", lw=1.8, label="bound of Lemma C.12")
    ax.set(xscale="log", yscale="log", xlim=(1e-2, slow_time[-1]), ylim=(1e-3, 100))
    ax.set(xlabel=r"slow time $\alpha\beta(t_2-t_1)$", ylabel=r"$\min_{t_1\leq t\leq t_2}(f-f^*)/\beta$")


def draw_steps(ax: Axes, paths: Sequence[Path], along_beta: Sequence[Path]) -> None:
    """The steps of the second phase over αβ: those seen in every run, and Δt of those with one α."""
    for marker, style, share in zip("os^", _GREYS, ETAS, strict=True):
        steps = [path.needed(share) for path in paths]
        ax.plot([path.product for path in paths], steps, marker, color="0.0", mfc="none")
        line = {"color": "#D55E00", "ls": style["ls"], "lw": 1.6}
        ax.plot([path.product for path in along_beta], [path.proved(share) for path in along_beta], **line)
        ax.plot([], [], **line, marker=marker, mec="0.0", mfc="none", label=rf"$\eta={share:g}\,\eta_1$")
    ylabel = r"steps until $f-f^*\leq(\eta+C^{\prime}\alpha\beta)\beta/2$"
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha\beta$", ylabel=ylabel)
    ticks = sorted({round(path.product, 12) for path in paths})
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
