"""Thm 2.1 and App. C.1: first the loss, of order 1/α, then the penalty, of order 1/(αβ)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers._measure import log_slope
from afterfit.papers.notsawo2025 import PAPER
from afterfit.papers.notsawo2025.recovery import descent

if TYPE_CHECKING:
    from jaxtyping import Float
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


__all__ = ["Thm21"]

_ETAS = (2.0, 1.0, 0.5)  # η
_GOALS = 10.0 ** -np.arange(1, 8)  # ε_g, as shares of g(x₀)
_GREYS: tuple[dict[str, Any], ...] = (  # of curves that lie on one another: the wider below
    {"color": "0.75", "ls": "-", "lw": 5.0},
    {"color": "0.4", "ls": "--", "lw": 2.6},
    {"color": "0.0", "ls": ":", "lw": 1.4},
)


class _At(NamedTuple):
    α: float
    β: float


class Thm21(Entry):
    paper, name = PAPER, "thm2.1"
    title = "First the loss, of order 1/α, then the penalty, of order 1/(αβ)"
    where = "Thm 2.1, §2.2; Thms C.10 to C.16"
    about = (
        "Subgradient descent on f = g + βh, here sparse recovery with g(a) = ½‖Xa − y‖² and h = ‖a‖₁, with steps α "
        "small enough for the theorem. If 4g(x₀) < r²χ, χ the infimum of ‖∇g‖²/g over the ball B(x₀, r), g falls below "
        "ε_g in t₁ = log(1/ε_g)/Θ(α) steps within that ball; after Δt = dist²(x(t₁), Θ_f)/(αβη) more, f is within "
        "½(η + C'αβ)β of its minimum. χ is known here: twice the least non-zero singular value of X, squared. The "
        "minimiser of f is found by a convex solver. t₁ is taken where β‖H‖ first exceeds ‖G‖; the runs are observed "
        "at some steps only, so that the least f seen is no smaller, and C' no larger, than the true one. The theorem "
        "says 'if and only if', but its proof compares two upper bounds, and gives 'if'; and it needs f convex."
    )
    notes = (
        "The 'only if' is one of the bound and not of the run: the proof bounds f − f* from above, and descent is "
        "there after 0.2 to 0.4 of Δt. A matrix of ones has the eigenvalue p, so that the factor in the proof of "
        "Thm C.16 is p and not √p; the largest step α_max allows for p already. Assumption C.5 cannot hold for a "
        "norm: where g is least its gradient is 0, so that a point which also minimises f minimises h, and is 0. "
        "The last row does not need it."
    )

    def runs(self, scale: str) -> dict[str, dict[_At, af.Experiment]]:
        if scale == "paper":
            task, seed = af.tasks.SparseRecovery(n=100, sparsity=5, N=30, scale=1.0), 1
            alpha, beta, fitted, slow = 4e-3, 1e-3, 600.0, 6.0
        else:
            task, seed = af.tasks.SparseRecovery(n=20, sparsity=2, N=9, scale=1.0), 3
            alpha, beta, fitted, slow = 1e-2, 2e-3, 200.0, 2.5
        # The first phase needs β small against every ε_g, the second need not wait for the smallest β.
        first = [_At(alpha / k, 1e-5) for k in (1, 2, 4)]
        second = [_At(alpha, beta / k) for k in (1, 2, 4)] + [_At(alpha / k, beta) for k in (2, 4)]
        return {
            "fits": {at: descent(task, *at, steps=fitted / at.α, seed=seed) for at in first},
            "slow": {at: descent(task, *at, steps=slow / (at.α * at.β), seed=seed) for at in second},
        }

    def picture(
        self, first_phase: list[Path], second_phase: list[Path], along_beta: list[Path], limits: af.theory.StepSizes
    ) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.8), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _draw_fits(left, first_phase, limits)
        _draw_excess(middle, along_beta)
        _draw_steps(right, second_phase, along_beta)
        af.plot.mark_phases(left, first_phase[0].run.verdict)
        af.plot.legend_below(left, middle)
        af.plot.legend_below(right, ncols=3, title=r"markers: seen; lines: $\Delta t(\eta,t_1)$")
        return figure

    @once
    def first_phase(self, fits: dict[_At, af.Run]) -> list[Path]:
        """The runs of the first phase."""
        return [Path.of(run) for run in fits.values()]

    @once
    def second_phase(self, slow: dict[_At, af.Run]) -> list[Path]:
        """The runs of the second phase."""
        return [Path.of(run) for run in slow.values()]

    @once
    def along_beta(self, second_phase: list[Path]) -> list[Path]:
        """Those of the second phase that have the largest α."""
        return [path for path in second_phase if path.alpha == second_phase[0].alpha]

    @once
    def radius(self, first_phase: list[Path]) -> float:
        """r: twice as large as r-CL needs."""
        import jax

        start = af.theory.instance_of(first_phase[0].run)
        with jax.enable_x64(True):
            everywhere = af.theory.chatterjee_lojasiewicz(start.problem, start.initial, 1e6)
        return 4 * float(np.sqrt(everywhere.loss / everywhere.least))

    @once
    def limits(self, first_phase: list[Path], radius: float) -> af.theory.StepSizes:
        """The theorem's constants at x₀."""
        import jax

        start = af.theory.instance_of(first_phase[0].run)
        with jax.enable_x64(True):
            return af.theory.step_sizes(start.problem, start.initial, radius, penalty_slope=1.0)

    @once
    def taken(self, second_phase: list[Path]) -> dict[float, list[float]]:
        """After which share of Δt(η, t₁) f − f* ≤ ½(η + C'αβ)β, for every η and run."""
        return {eta: [path.needed(eta) / path.proved(eta) for path in second_phase] for eta in _ETAS}

    @claim("g is r-CL at x₀, with the χ of X", says="4g(x₀) < r²χ(g, x₀, r)")
    def loss_is_cl(self, first_phase: list[Path], limits: af.theory.StepSizes, radius: float) -> Finding:
        g, chi, ratio = first_phase[0].g[0], limits.chi, _descended_ratio(first_phase[0].run, radius)
        return Finding(
            f"r={radius:.3g}: 4g = {4 * g:.3g}, r²χ = {radius**2 * chi:.3g}; χ = 2σ_min² = "
            f"{chi:.4g}, and the least ‖∇g‖²/g that descent finds in the ball is {ratio:.4g}",
            4 * g < radius**2 * chi and 1 - 1e-6 <= ratio / chi <= 1.02,
        )

    @claim(
        "g ≤ ε_g after log(ε_g/g(x₀))/log(1 − δ) steps, and until then x stays in B(x₀, r)",
        says="for α < α_max, β < β_max and any ε_g = Ω(β^C)",
    )
    def fits_in_time(
        self, first_phase: list[Path], second_phase: list[Path], limits: af.theory.StepSizes, radius: float
    ) -> Finding:
        shares = np.array([_shares_of_fit(path, limits) for path in first_phase])
        way = max(path.way(_GOALS[-1] * path.g[0]) for path in first_phase) / radius
        alpha, beta = first_phase[0].alpha, first_phase[0].beta
        exponent = limits.exponent(alpha)
        return Finding(
            f"α at most {alpha:g} < {limits.alpha_max:.3g}, β = {beta:g} < {limits.beta_max:.2g}: the "
            f"steps until g ≤ ε_g are {np.min(shares):.2f} to {np.max(shares):.2f} of that number for ε_g/g(x₀) = 0.1 "
            f"to {_GOALS[-1]:.0g} and {len(first_phase)} α; x goes {way:.2f}·r away. (C of (9) is "
            f"{exponent:.2g}: β^C = {beta**exponent:.2g}, so far smaller ε_g are reached than are proved)",
            alpha < limits.alpha_max
            and max(path.beta for path in (*first_phase, *second_phase)) < limits.beta_max
            and np.max(shares) <= 1
            and way <= 1,
        )

    @claim("t₁ is of order log(1/ε_g)/α", says="t₁ = −log(ε_g/g(x₀))/Θ(α)")
    def first_phase_lasts(self, first_phase: list[Path], limits: af.theory.StepSizes) -> Finding:
        times = np.array([[path.alpha * path.first(goal * path.g[0]) for goal in _GOALS] for path in first_phase])
        slopes, apart = np.diff(times, axis=1) / np.log(10), np.ptp(times / times[0])
        return Finding(
            f"αt₁ for the {len(first_phase)} α differs by at most {apart:.1%}; it grows by {slopes[0][0]:.3g} to "
            f"{slopes[0][-1]:.3g} for each factor e in ε_g, the last being {slopes[0][-1] * limits.chi:.2f}/χ",
            bool(apart <= 0.05 and abs(slopes[0][-1] * limits.chi - 1) <= 0.1 and np.all(slopes > 0)),
        )

    @claim(
        "∇²g has no eigenvalue above √p·max|∂²g| (proof of Thm C.16)",
        says="λ_max(∇²g) ≤ √p·max|∂²g|, so that g is L-smooth with L = √p·L₂",
        fails="The matrix of ones has the eigenvalue p: the factor is p, not √p. The step sizes allow for p already.",
    )
    def smoothness(self, first_phase: list[Path], limits: af.theory.StepSizes) -> Finding:
        p = first_phase[0].p
        ones = np.ones((p, p))
        largest, allowed = np.linalg.eigvalsh(ones)[-1], np.sqrt(p) * ones.max()
        return Finding(
            f"for g = ½(a₁ + … + a_p)², p = {p}, λ_max = {largest:.3g} and √p·max|∂²g| = {allowed:.3g}: the factor is "
            f"p. Here λ_max = {limits.L:.3g} and √p·max|∂²g| = {np.sqrt(p) * limits.L2:.3g}, and α_max has p already",
            largest <= allowed * (1 + 1e-9),
        )

    @claim("one C' for all α and β: ‖F‖² ≤ C'β² from t₁ on", says="‖F‖² = O(β²) once βH leads")
    def one_constant(self, second_phase: list[Path], along_beta: list[Path]) -> Finding:
        constants, p = [path.constant for path in second_phase], second_phase[0].p
        early = {path.beta: path.size_from(path.first(1e-2 * path.g[0])) for path in along_beta}
        return Finding(
            f"‖F‖²/β² is at most {min(constants):.3g} to {max(constants):.3g} for {len(second_phase)} pairs α, β "
            f"(p = {p}); from the first step with g ≤ g(x₀)/100, which the theorem allows as t₁, it would be "
            + ", ".join(f"{size:.2g} (β={beta:g})" for beta, size in early.items()),
            max(constants) <= min(4 * p, 2 * min(constants)),  # ‖G‖ ≤ β‖H‖ and ‖H‖ ≤ √p
        )

    @claim("f − f* ≤ ½(η + C'αβ)β if t₂ > t₁ + Δt(η, t₁)", says="min over t₁ ≤ t ≤ t₂ of f − f*")
    def minimises_in_time(self, second_phase: list[Path], taken: dict[float, list[float]]) -> Finding:
        said = "; ".join(f"{min(shares):.2f} to {max(shares):.2f} (η={eta:g})" for eta, shares in taken.items())
        return Finding(
            f"it is so from a share of Δt after t₁ on, for {len(second_phase)} pairs α, β: {said}",
            max(max(shares) for shares in taken.values()) <= 1,
        )

    @claim(
        "f − f* ≤ ½(η + C'αβ)β only if t₂ > t₁ + Δt(η, t₁)",
        says="'if and only if'",
        fails="What is proved is an upper bound of f − f*, which is met in 0.2 to 0.4 of Δt.",
    )
    def minimises_not_before(self, taken: dict[float, list[float]]) -> Finding:
        shares = [share for of_eta in taken.values() for share in of_eta]
        return Finding(
            f"it is so long before: after the share {min(shares):.2f} to {max(shares):.2f} of Δt. The proof bounds "
            "f − f* by R²/(2α(t₂ − t₁)) + ½C'αβ², and only for that bound is Δt also necessary",
            min(shares) >= 0.99,
        )

    @claim("the second phase lasts of order 1/(αβ) steps", says="Θ(1/(αβ)) additional steps")
    def second_phase_lasts(self, second_phase: list[Path]) -> Finding:
        product = [path.product for path in second_phase]
        rates = {eta: log_slope(product, [path.needed(eta) for path in second_phase]) for eta in _ETAS}
        return Finding(
            "steps after t₁ against αβ, log-log slope "
            + ", ".join(f"{rate:.2f} (η={eta:g})" for eta, rate in rates.items())
            + f"; of Δt itself {log_slope(product, [path.proved(1.0) for path in second_phase]):.2f}",
            all(abs(rate + 1) <= 0.1 for rate in rates.values()),
        )

    @claim(
        "Θ_f ∩ Θ_g ≠ ∅ (Assumption C.5)",
        says="assumed for the part about h",
        fails="∇g = 0 on Θ_g, so that a point of both sets has 0 ∈ ∂h: for a norm, it is 0.",
    )
    def minimisers_meet(self, along_beta: list[Path]) -> Finding:
        left = {path.beta: path.best_loss / path.beta**2 for path in along_beta}
        return Finding(
            "g/β² at the minimiser of f, without noise: "
            + ", ".join(f"{value:.3g} (β={beta:g})" for beta, value in left.items())
            + ". On Θ_g ∇g = 0, so that a point of both has 0 ∈ ∂h: it minimises h, and is 0 for a norm",
            min(left.values()) <= 1e-6,
        )

    @claim(
        "h − h_g* ≤ ½(η + C'αβ) after Δt(η, t₁)",
        says="min over t₁ ≤ t ≤ t₂ of h − h_g*, '≤' in (12) and '=' in Thm 2.1",
    )
    def penalty_is_least(self, second_phase: list[Path]) -> Finding:
        shares = [path.least_penalty(eta) / path.allowed(eta) for path in second_phase for eta in _ETAS]
        return Finding(
            f"it is {min(shares):.2g} to {max(shares):.2g} of the bound at t₁ + Δt: below it, and not equal; it "
            "becomes negative since f's minimiser has a smaller norm than any interpolating point. '≤' needs no "
            "Assumption C.5, since f* ≤ βh_g*",
            max(shares) <= 1,
        )


@dataclasses.dataclass(frozen=True)
class Path:
    """A run of subgradient descent on ½‖Xa − y‖² + β‖a‖₁: observed steps t, weights a, g and (f − f*)/β.

    `best` is the minimiser of f, and `start` the first observation at which β‖H‖ ≥ ‖G‖, at step `t1`.
    """

    run: af.Run = dataclasses.field(repr=False)
    alpha: float
    beta: float
    t: Float[np.ndarray, " k"]
    weights: Float[np.ndarray, "k p"]
    g: Float[np.ndarray, " k"]
    excess: Float[np.ndarray, " k"]
    squared_slope: Float[np.ndarray, " k"]  # ‖F‖²
    start: int
    best: Float[np.ndarray, " p"]
    best_loss: float
    least_norm: float  # h_g*, the least h where g = 0

    @classmethod
    def of(cls, run: af.Run) -> Path:
        """A run, with the minimiser of its objective."""
        X, y, beta, curves = run.data.inputs, run.data.targets, run.spec["penalty"]["strength"], run.curves
        best = af.theory.lasso(X, y, beta)
        a, g = curves["weights"].values, curves["train_loss"].values
        best_loss = 0.5 * float(np.sum((X @ best - y) ** 2))
        return cls(
            run=run,
            alpha=run.spec["dynamics"]["lr"],
            beta=beta,
            t=curves["step"].values.astype(float),
            weights=a,
            g=g,
            excess=(g - best_loss) / beta + np.abs(a).sum(axis=1) - np.abs(best).sum(),
            squared_slope=np.sum(((a @ X.T - y) @ X + beta * np.sign(a)) ** 2, axis=1),
            start=int(np.argmax(curves["penalty_gradient"].values >= curves["loss_gradient"].values)),
            best=best,
            best_loss=best_loss,
            least_norm=float(np.abs(af.theory.min_l1(X, y)).sum()),
        )

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
        """dist(x(t₁), Θ_f); the minimiser of f is unique."""
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
        k = int(np.argmax(self.g <= goal))
        above, below = np.log(self.g[k - 1 : k + 1] / goal)
        return float(self.t[k - 1] + (self.t[k] - self.t[k - 1]) * above / (above - below))

    def way(self, goal: float) -> float:
        """How far x goes from x₀ until g comes down to `goal`."""
        before = self.t <= self.first(goal)
        return float(np.linalg.norm(self.weights[before] - self.weights[0], axis=1).max())

    def allowed(self, eta: float) -> float:
        """½(η + C'αβ)."""
        return 0.5 * (eta + self.constant * self.alpha * self.beta)

    def needed(self, eta: float) -> float:
        """Steps after t₁ until (f − f*)/β ≤ ½(η + C'αβ); ∞ if the run does not come to that."""
        there = self.excess[self.start :] <= self.allowed(eta)
        return float(self.t[self.start + np.argmax(there)] - self.t1) if there.any() else np.inf

    def proved(self, eta: float) -> float:
        """Δt(η, t₁)."""
        return af.theory.slow_steps(self.distance, self.alpha, self.beta, eta)

    def least_penalty(self, eta: float) -> float:
        """The least h − h_g* between t₁ and t₁ + Δt."""
        between = (self.t >= self.t1) & (self.t <= self.t1 + self.proved(eta))
        return float(np.abs(self.weights[between]).sum(axis=1).min() - self.least_norm)


def _shares_of_fit(path: Path, limits: af.theory.StepSizes) -> list[float]:
    """How many steps it takes until g ≤ ε_g, beside log(ε_g/g(x₀))/log(1 − δ), for every ε_g."""
    delta = limits.delta(path.alpha)
    return [path.first(goal * path.g[0]) / af.theory.fit_steps(1.0, goal, delta) for goal in _GOALS]


def _descended_ratio(run: af.Run, radius: float) -> float:
    """χ by descent of ‖∇g‖²/g, the model given as any function: that it is linear is not used."""
    import jax

    initial = np.asarray(af.theory.instance_of(run).initial["weights"])
    model = af.models.Function(lambda a, x: a @ x, initial)
    with jax.enable_x64(True):
        start = af.theory.posed(dataclasses.replace(run.experiment, model=model, init=af.inits.Own()))
        return af.theory.chatterjee_lojasiewicz(start.problem, start.initial, radius).least


def _draw_fits(ax: Axes, paths: Sequence[Path], limits: af.theory.StepSizes) -> None:
    """g over αt, and the theorem's bound."""
    for style, path in zip(_GREYS, paths, strict=True):
        shown = path.t > 0
        ax.plot(path.alpha * path.t[shown], path.g[shown], **style, label=rf"$\alpha={path.alpha:g}$")
    g, rate = paths[0].g[0], (1 - limits.epsilon) * limits.chi
    t = np.linspace(0, 0.95 * np.log(1e8) / rate, 50)
    ax.plot(t, g * np.exp(-rate * t), color="#D55E00", lw=1.8, label=r"bound $(1-\delta)^t g(x_0)$")
    ax.set(yscale="log", ylabel=r"$g(x^{(t)})$", xlabel=r"training time $\alpha t$")
    ax.set(xlim=(0, 1.1 * t[-1]), ylim=(1e-10 * g, 3 * g))


def _draw_excess(ax: Axes, paths: Sequence[Path]) -> None:
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


def _draw_steps(ax: Axes, paths: Sequence[Path], along_beta: Sequence[Path]) -> None:
    """The steps of the second phase over αβ: those seen in every run, and Δt of those with one α."""
    for marker, style, eta in zip("os^", _GREYS, _ETAS, strict=True):
        ax.plot([path.product for path in paths], [path.needed(eta) for path in paths], marker, color="0.0", mfc="none")
        line = {"color": "#D55E00", "ls": style["ls"], "lw": 1.6}
        ax.plot([path.product for path in along_beta], [path.proved(eta) for path in along_beta], **line)
        ax.plot([], [], **line, marker=marker, mec="0.0", mfc="none", label=rf"$\eta={eta:g}$")
    ylabel = r"steps until $f-f^*\leq(\eta+C^{\prime}\alpha\beta)\beta/2$"
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha\beta$", ylabel=ylabel)
    ticks = sorted({round(path.product, 12) for path in paths})
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
