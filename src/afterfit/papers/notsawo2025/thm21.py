"""Thm 2.1 and App. C.1: first the loss, of order 1/α, then the penalty, of order 1/(αβ)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import log_slope
from afterfit.plot import legend_below, mark_phases
from afterfit.run import Run
from afterfit.theory.landscape import StepSizes, chatterjee_lojasiewicz, fit_steps, slow_steps, step_sizes
from afterfit.train import prepare

__all__ = ["Thm21"]


class Thm21(Entry):
    id = "notsawo2025/thm2.1"
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
    claims = (
        "g is r-CL at x₀, with the χ of X",
        "g ≤ ε_g after log(ε_g/g(x₀))/log(1 − δ) steps, and until then x stays in B(x₀, r)",
        "t₁ is of order log(1/ε_g)/α",
        "∇²g has no eigenvalue above √p·max|∂²g| (proof of Thm C.16)",
        "one C' for all α and β: ‖F‖² ≤ C'β² from t₁ on",
        "f − f* ≤ ½(η + C'αβ)β if t₂ > t₁ + Δt(η, t₁)",
        "f − f* ≤ ½(η + C'αβ)β only if t₂ > t₁ + Δt(η, t₁)",
        "the second phase lasts of order 1/(αβ) steps",
        "Θ_f ∩ Θ_g ≠ ∅ (Assumption C.5)",
        "h − h_g* ≤ ½(η + C'αβ) after Δt(η, t₁)",
    )

    _etas = (2.0, 1.0, 0.5)
    _goals = 10.0 ** -np.arange(1, 8)  # ε_g, as shares of g(x₀)

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            task, seed = tasks.SparseRecovery(n=100, sparsity=5, N=30, scale=1.0), 1
            alpha, beta, fitted, slow = 4e-3, 1e-3, 600.0, 6.0
        else:
            task, seed = tasks.SparseRecovery(n=20, sparsity=2, N=9, scale=1.0), 3
            alpha, beta, fitted, slow = 1e-2, 2e-3, 200.0, 2.5
        # The first phase needs β small against every ε_g, the second need not wait for the smallest β.
        pairs = {f"fit α={a:g}": (a, 1e-5, fitted / a) for a in (alpha, alpha / 2, alpha / 4)}
        for a, b in ((1, 1), (1, 1 / 2), (1, 1 / 4), (1 / 2, 1), (1 / 4, 1)):
            a, b = a * alpha, b * beta
            pairs[f"slow α={a:g} β={b:g}"] = (a, b, slow / (a * b))
        return {
            name: Experiment(
                task=task,
                model=models.Linear(),
                penalty=penalties.L1(b),
                dynamics=dynamics.GradientDescent(lr=a, steps=round(steps)),
                init=inits.ScaledGaussian(1e-6),
                seed=seed,
                observations=200,
            )
            for name, (a, b, steps) in pairs.items()
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        fits, slow = _groups(runs)
        limits, _ = _limits(runs)
        figure = Figure(figsize=(13.5, 4.8), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        # The curves lie on one another: the wider below.
        greys = (
            {"color": "0.75", "ls": "-", "lw": 5.0},
            {"color": "0.4", "ls": "--", "lw": 2.6},
            {"color": "0.0", "ls": ":", "lw": 1.4},
        )
        for style, path in zip(greys, fits, strict=True):
            shown = path.t > 0
            left.plot(path.alpha * path.t[shown], path.g[shown], **style, label=rf"$\alpha={path.alpha:g}$")
        t = np.linspace(0, 0.95 * np.log(1e8) / ((1 - limits.epsilon) * limits.chi), 50)
        left.plot(
            t,
            fits[0].g[0] * np.exp(-(1 - limits.epsilon) * limits.chi * t),
            color="#D55E00",
            lw=1.8,
            label=r"bound $(1-\delta)^t g(x_0)$",
        )
        left.set(yscale="log", ylabel=r"$g(x^{(t)})$", xlabel=r"training time $\alpha t$", xlim=(0, 1.1 * t[-1]))
        left.set_ylim(1e-10 * fits[0].g[0], 3 * fits[0].g[0])
        mark_phases(left, next(iter(runs.values())).verdict)
        first = [path for path in slow if path.alpha == slow[0].alpha]
        for style, path in zip(greys, first, strict=True):
            after = path.t > path.t1
            since = path.alpha * path.beta * (path.t[after] - path.t1)
            least = np.minimum.accumulate(path.excess[path.start :])[-len(since) :]
            middle.plot(since, least, **style, label=rf"$\beta={path.beta:g}$")
        bound = np.geomspace(1e-2, slow[0].alpha * slow[0].beta * slow[0].t[-1], 100)
        middle.plot(
            bound,
            0.5 * (first[-1].distance ** 2 / bound + first[-1].constant * first[-1].alpha * first[-1].beta),
            color="#D55E00",
            lw=1.8,
            label="bound of Lemma C.12",
        )
        middle.set(
            xscale="log",
            yscale="log",
            xlim=(1e-2, bound[-1]),
            ylim=(1e-3, 100),
            xlabel=r"slow time $\alpha\beta(t_2-t_1)$",
            ylabel=r"$\min_{t_1\leq t\leq t_2}(f-f^*)/\beta$",
        )
        product = np.array([path.alpha * path.beta for path in slow])
        for marker, style, eta in zip("os^", greys, self._etas, strict=True):
            right.plot(product, [path.needed(eta) for path in slow], marker, color="0.0", mfc="none")
            line = {"color": "#D55E00", "ls": style["ls"], "lw": 1.6}
            right.plot(product[: len(first)], [path.proved(eta) for path in first], **line)
            right.plot([], [], **line, marker=marker, mec="0.0", mfc="none", label=rf"$\eta={eta:g}$")
        right.set(
            xscale="log",
            yscale="log",
            xlabel=r"$\alpha\beta$",
            ylabel=r"steps until $f-f^*\leq(\eta+C^{\prime}\alpha\beta)\beta/2$",
        )
        ticks = sorted(set(np.round(product, 12)))
        right.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        right.minorticks_off()
        legend_below(left, middle)
        legend_below(right, ncols=3, title=r"markers: seen; lines: $\Delta t(\eta,t_1)$")
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        fits, slow = _groups(runs)
        limits, radius = _limits(runs)
        ratio = _descended_ratio(runs, radius)
        p = fits[0].weights.shape[1]
        yield Finding(
            self.claims[0],
            "4g(x₀) < r²χ(g, x₀, r)",
            f"r={radius:.3g}: 4g = {4 * fits[0].g[0]:.3g}, r²χ = {radius**2 * limits.chi:.3g}; χ = 2σ_min² = "
            f"{limits.chi:.4g}, and the least ‖∇g‖²/g that descent finds in the ball is {ratio:.4g}",
            4 * fits[0].g[0] < radius**2 * limits.chi and 1 - 1e-6 <= ratio / limits.chi <= 1.02,
        )
        shares, ways = [], []
        for path in fits:
            delta = limits.delta(path.alpha)
            shares.append([path.first(goal * path.g[0]) / fit_steps(1.0, goal, delta) for goal in self._goals])
            before = path.t <= path.first(self._goals[-1] * path.g[0])
            ways.append(np.linalg.norm(path.weights[before] - path.weights[0], axis=1).max() / radius)
        exponent = limits.exponent(fits[0].alpha)
        yield Finding(
            self.claims[1],
            "for α < α_max, β < β_max and any ε_g = Ω(β^C)",
            f"α at most {fits[0].alpha:g} < {limits.alpha_max:.3g}, β = {fits[0].beta:g} < {limits.beta_max:.2g}: the "
            f"steps until g ≤ ε_g are {np.min(shares):.2f} to {np.max(shares):.2f} of that number for ε_g/g(x₀) = 0.1 "
            f"to {self._goals[-1]:.0g} and {len(fits)} α; x goes {max(ways):.2f}·r away. (C of (9) is "
            f"{exponent:.2g}: β^C = {fits[0].beta ** exponent:.2g}, so far smaller ε_g are reached than are proved)",
            bool(
                fits[0].alpha < limits.alpha_max
                and max(path.beta for path in (*fits, *slow)) < limits.beta_max
                and np.max(shares) <= 1
                and max(ways) <= 1
            ),
        )
        times = np.array([[path.alpha * path.first(goal * path.g[0]) for goal in self._goals] for path in fits])
        slopes = np.diff(times, axis=1) / np.log(10)
        apart = np.max(times / times[0]) - np.min(times / times[0])
        yield Finding(
            self.claims[2],
            "t₁ = −log(ε_g/g(x₀))/Θ(α)",
            f"αt₁ for the {len(fits)} α differs by at most {apart:.1%}; it grows by {slopes[0][0]:.3g} to "
            f"{slopes[0][-1]:.3g} for each factor e in ε_g, the last being {slopes[0][-1] * limits.chi:.2f}/χ",
            bool(apart <= 0.05 and abs(slopes[0][-1] * limits.chi - 1) <= 0.1 and np.all(slopes > 0)),
        )
        ones = np.ones((p, p))
        largest, allowed = (float(np.linalg.eigvalsh(ones)[-1]), np.sqrt(p) * ones.max())
        yield Finding(
            self.claims[3],
            "λ_max(∇²g) ≤ √p·max|∂²g|, so that g is L-smooth with L = √p·L₂",
            f"for g = ½(a₁ + … + a_p)², p = {p}, λ_max = {largest:.3g} and √p·max|∂²g| = {allowed:.3g}: the factor is "
            f"p. Here λ_max = {limits.L:.3g} and √p·max|∂²g| = {np.sqrt(p) * limits.L2:.3g}, and α_max has p already",
            largest <= allowed * (1 + 1e-9),
        )
        constants = [path.constant for path in slow]
        early = [path.size_at(path.first(1e-2 * path.g[0])) for path in slow[:3]]
        yield Finding(
            self.claims[4],
            "‖F‖² = O(β²) once βH leads",
            f"‖F‖²/β² is at most {min(constants):.3g} to {max(constants):.3g} for {len(slow)} pairs α, β (p = {p}); "
            "from the first step with g ≤ g(x₀)/100, which the theorem allows as t₁, it would be "
            + ", ".join(f"{size:.2g} (β={path.beta:g})" for size, path in zip(early, slow, strict=False)),
            max(constants) <= min(4 * p, 2 * min(constants)),  # ‖G‖ ≤ β‖H‖ and ‖H‖ ≤ √p
        )
        taken = {eta: [path.needed(eta) / path.proved(eta) for path in slow] for eta in self._etas}
        said = "; ".join(f"{min(s):.2f} to {max(s):.2f} (η={eta:g})" for eta, s in taken.items())
        yield Finding(
            self.claims[5],
            "min over t₁ ≤ t ≤ t₂ of f − f*",
            f"it is so from a share of Δt after t₁ on, for {len(slow)} pairs α, β: {said}",
            max(max(s) for s in taken.values()) <= 1,
        )
        yield Finding(
            self.claims[6],
            "'if and only if'",
            f"it is so long before: after the share {min(min(s) for s in taken.values()):.2f} to "
            f"{max(max(s) for s in taken.values()):.2f} of Δt. The proof bounds f − f* by R²/(2α(t₂ − t₁)) + ½C'αβ², "
            "and only for that bound is Δt also necessary",
            min(min(s) for s in taken.values()) >= 0.99,
        )
        product = [path.alpha * path.beta for path in slow]
        rates = {eta: log_slope(product, [path.needed(eta) for path in slow]) for eta in self._etas}
        yield Finding(
            self.claims[7],
            "Θ(1/(αβ)) additional steps",
            "steps after t₁ against αβ, log-log slope "
            + ", ".join(f"{rate:.2f} (η={eta:g})" for eta, rate in rates.items())
            + f"; of Δt itself {log_slope(product, [path.proved(1.0) for path in slow]):.2f}",
            all(abs(rate + 1) <= 0.1 for rate in rates.values()),
        )
        left = [path.best_loss / path.beta**2 for path in slow[:3]]
        yield Finding(
            self.claims[8],
            "assumed for the part about h",
            "g/β² at the minimiser of f, without noise: "
            + ", ".join(f"{value:.3g} (β={path.beta:g})" for value, path in zip(left, slow, strict=False))
            + ". On Θ_g ∇g = 0, so that a point of both has 0 ∈ ∂h: it minimises h, and is 0 for a norm",
            min(left) <= 1e-6,
        )
        over = [path.least_penalty(eta) / (0.5 * (eta + path.slack)) for path in slow for eta in self._etas]
        yield Finding(
            self.claims[9],
            "min over t₁ ≤ t ≤ t₂ of h − h_g*, '≤' in (12) and '=' in Thm 2.1",
            f"it is {min(over):.2g} to {max(over):.2g} of the bound at t₁ + Δt: below it, and not equal; it becomes "
            "negative since f's minimiser has a smaller norm than any interpolating point. '≤' needs no Assumption "
            "C.5, since f* ≤ βh_g*",
            max(over) <= 1,
        )


@dataclasses.dataclass(frozen=True)
class Path:
    """A run of subgradient descent on ½‖Xa − y‖² + β‖a‖₁: observed steps t, weights a, g and (f − f*)/β.

    `best` is the minimiser of f, and `start` the first observation at which β‖H‖ ≥ ‖G‖, at step `t1`.
    """

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
        return float(self.squared_slope[self.start :].max() / self.beta**2)

    @property
    def slack(self) -> float:
        """C'αβ."""
        return self.constant * self.alpha * self.beta

    def first(self, goal: float) -> float:
        """The step at which g comes down to `goal`, between two observations on a straight line in (t, log g)."""
        k = int(np.argmax(self.g <= goal))
        above, below = np.log(self.g[k - 1 : k + 1] / goal)
        return float(self.t[k - 1] + (self.t[k] - self.t[k - 1]) * above / (above - below))

    def size_at(self, step: float) -> float:
        """The largest ‖F‖²/β² from a step on."""
        return float(self.squared_slope[self.t >= step].max() / self.beta**2)

    def needed(self, eta: float) -> float:
        """Steps after t₁ until (f − f*)/β ≤ ½(η + C'αβ); ∞ if the run does not come to that."""
        there = self.excess[self.start :] <= 0.5 * (eta + self.slack)
        return float(self.t[self.start + np.argmax(there)] - self.t1) if there.any() else np.inf

    def proved(self, eta: float) -> float:
        """Δt(η, t₁)."""
        return slow_steps(self.distance, self.alpha, self.beta, eta)

    def least_penalty(self, eta: float) -> float:
        """The least h − h_g* between t₁ and t₁ + Δt."""
        between = (self.t >= self.t1) & (self.t <= self.t1 + self.proved(eta))
        return float(np.abs(self.weights[between]).sum(axis=1).min() - self.least_norm)


def path_of(run: Run) -> Path:
    """A run, with the minimiser of its objective."""
    data = Experiment.from_dict(run.spec).draw()
    X, y, beta, curves = data.inputs, data.targets, run.spec["penalty"]["strength"], run.curves
    best = theory.lasso(X, y, beta)
    a = curves["weights"].values
    g, best_loss = curves["train_loss"].values, 0.5 * float(np.sum((X @ best - y) ** 2))
    return Path(
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
        least_norm=float(np.abs(theory.min_l1(X, y)).sum()),
    )


def _groups(runs: Mapping[str, Run]) -> tuple[list[Path], list[Path]]:
    """The runs of the first phase, and those of the second."""
    fits, slow = ([path_of(run) for name, run in runs.items() if name.startswith(kind)] for kind in ("fit", "slow"))
    return fits, slow


def _limits(runs: Mapping[str, Run]) -> tuple[StepSizes, float]:
    """The theorem's constants at x₀ for a radius twice as large as r-CL needs, and that radius."""
    with jax.enable_x64(True):
        problem, params = prepare(Experiment.from_dict(next(iter(runs.values())).spec))
        everywhere = chatterjee_lojasiewicz(problem, params, 1e6)
        radius = 4 * math.sqrt(everywhere.loss / everywhere.least)
        return step_sizes(problem, params, radius, penalty_slope=1.0), radius


def _descended_ratio(runs: Mapping[str, Run], radius: float) -> float:
    """χ by descent of ‖∇g‖²/g, the model given as any function: that it is linear is not used."""
    experiment = Experiment.from_dict(next(iter(runs.values())).spec)
    with jax.enable_x64(True):
        start = np.asarray(prepare(experiment)[1]["weights"])
        model = models.Function(lambda a, x: a @ x, start)
        problem, params = prepare(dataclasses.replace(experiment, model=model, init=inits.Own()))
        return chatterjee_lojasiewicz(problem, params, radius).least
