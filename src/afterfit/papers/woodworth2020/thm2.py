"""Thm 2 and Lemma 6: how small or large α must be for the L1 or the L2 norm."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import examples, log_slope
from afterfit.plot import TEST, TRAIN, legend_below, log_time_axes, mark_phases, mathtext
from afterfit.run import Run
from afterfit.theory import thresholds

__all__ = ["Thm2"]


class Thm2(Entry):
    id = "woodworth2020/thm2"
    title = "L2 is reached polynomially in α, L1 only exponentially"
    where = "Thm 2, Lemma 6, App. E"
    about = (
        "Gradient flow on w₊² − w₋² from w₊ = w₋ = α1 ends at argmin Q_α. Thm 2 says how small α must be for its L1 "
        "norm to be at most 1 + ε times the least, and how large for its squared L2 norm to be. On a given problem "
        "the least L1 norm may come sooner; for problems with nearly equal columns, and for Q_α itself (Lemma 6), "
        "exponentially small α is needed. Both implications hold on every problem tried. Their proof does not give "
        "them as they are printed: it uses Lemmas 5 and 7 for norms up to (1 + 2ε) times the least, where the theorem "
        "has 1 + ε, and (46) uses Lemma 5 for a β whose norm is only known to be at least the least."
    )
    claims = (
        "α at most the first threshold: ‖β‖₁ ≤ (1 + ε) times the least",
        "α at least the second threshold: ‖β‖₂² ≤ (1 + ε) times the least",
        "the flow itself keeps both bounds, started at the thresholds",
        "polynomially large α is enough for L2",
        "exponentially small α is needed for L1 on some problems",
        "Lemma 6: for α ≥ d^{−1/4−1/8ε} Q_α is not proportional to ‖·‖₁ within 1 + ε",
        "α at most the first threshold is at most α₁(ε/(2 + ε), (1 + 2ε)‖β*‖₁, d), as the proof says",
        "α at least the second threshold is at least α₂(ε/(2 + ε), (1 + 2ε)‖β*‖₂), as the proof says",
    )

    _epsilon = 1.0

    def experiments(self, scale: str) -> dict[str, Experiment]:
        n, d, sparsity = (20, 40, 4) if scale == "paper" else (6, 12, 2)
        task = tasks.SparseRegression(n=n, d=d, sparsity=sparsity, noise_variance=0.01)
        flow = Experiment(
            task=task,
            model=models.DiagonalNet(depth=2),
            dynamics=dynamics.GradientFlow(until=300.0, rtol=1e-9, atol=1e-12, first=1e-3),
            init=inits.Constant(scale=1.0),
            observations=80,
        )
        data = flow.draw()
        l1, l2 = _least_norms(data.inputs, data.targets)
        rich = float(np.exp(thresholds.log_alpha_thm2_l1(self._epsilon, l1, d)))
        kernel = thresholds.alpha_thm2_l2(self._epsilon, l2)
        between = np.geomspace(rich, kernel, 5)[1:-1] if scale == "paper" else [np.sqrt(rich * kernel)]
        return {
            name: flow.set({"init.scale": float(alpha)})
            for name, alpha in (
                ("first threshold", rich),
                ("second threshold", kernel),
                *((f"between {i}", alpha) for i, alpha in enumerate(between, 1)),
            )
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.6), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        run = next(iter(runs.values()))
        X, y = examples(run)
        d, (l1, l2) = X.shape[1], _least_norms(X, y)
        alphas = np.geomspace(1e-12, 30, 60)
        ends = [theory.Q(alpha).minimise(X, y) for alpha in alphas]
        left.plot(
            alphas, [_excess_l1(beta, l1) for beta in ends], **TEST, label=r"$\|\beta\|_1/\|\beta^*_{\ell_1}\|_1-1$"
        )
        left.plot(
            alphas,
            [_excess_l2(beta, l2) for beta in ends],
            **TRAIN,
            label=r"$\|\beta\|_2^2/\|\beta^*_{\ell_2}\|_2^2-1$",
        )
        for one in runs.values():
            alpha, beta = one.spec["init"]["scale"], one.curves["weights"][-1].values
            name = "gradient flow" if one is run else None
            left.plot([alpha] * 2, [_excess_l1(beta, l1), _excess_l2(beta, l2)], "ko", mfc="none", ls="", label=name)
        epsilons = np.geomspace(0.02, 10, 60)
        rich = np.array([thresholds.log_alpha_thm2_l1(epsilon, l1, d) for epsilon in epsilons])
        seen = rich > np.log(alphas[0])
        left.plot(np.exp(rich[seen]), epsilons[seen], color="0.3", ls="-.", lw=1.2, label=r"Thm 2, $\ell_1$")
        kernel = [thresholds.alpha_thm2_l2(epsilon, l2) for epsilon in epsilons]
        left.plot(kernel, epsilons, color="0.3", ls=":", lw=1.8, label=r"Thm 2, $\ell_2$")
        left.set(
            xscale="log",
            yscale="log",
            ylim=(1e-5, 30),
            xlabel=r"scale $\alpha$ of the start",
            ylabel=r"relative excess, or $\epsilon$",
        )
        logs = np.geomspace(2, 600, 12)
        worst = [hardest(log)[0] for log in logs]
        middle.plot(worst, logs, **TEST, label="hardest two-column problem")
        small = np.geomspace(3e-4, 0.3, 40)
        middle.plot(
            small,
            [-thresholds.log_alpha_thm2_l1(epsilon, 1.0, 2) for epsilon in small],
            color="0.3",
            ls="-.",
            lw=1.2,
            label=r"Thm 2, $\ell_1$, $d=2$, $\|\beta^*\|_1=1$",
        )
        middle.plot(
            small,
            [np.log(thresholds.alpha_thm2_l2(epsilon, 1.0)) for epsilon in small],
            color="0.3",
            ls=":",
            lw=1.8,
            label=r"Thm 2, $\ell_2$: $\log\alpha$",
        )
        middle.set(
            xscale="log",
            yscale="log",
            xlim=(3e-4, 0.3),
            xlabel=r"accuracy $\epsilon$",
            ylabel=r"$|\log\alpha|$ that is enough, or needed",
        )
        curves = run.curves.isel(time=slice(1, None))
        weights = curves["weights"].values
        right.plot(
            curves["time"], np.abs(weights).sum(axis=1) / l1, **TEST, label=r"$\|\beta(t)\|_1/\|\beta^*_{\ell_1}\|_1$"
        )
        right.axhline(1 + self._epsilon, color="0.3", ls="-.", lw=1.2, label=r"$1+\epsilon$")
        right.axhline(1, color="0.6", lw=0.8)
        right.set(ylabel=r"$\ell_1$ norm over the least", ylim=(0, 1.1 * (1 + self._epsilon)))
        log_time_axes(right)
        mark_phases(right, run.verdict)
        right.set_title(rf"flow from the first threshold, $\alpha={mathtext(run.spec['init']['scale'])}$", pad=18)
        legend_below(left, middle, right)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        tried = [_Tried.draw(seed) for seed in range(600 if scale == "paper" else 60)]
        for claim, says, shares in (
            (
                self.claims[0],
                "α ≤ min{(2(1+ε)‖β*‖₁)^{−(2+ε)/2ε}, exp(−d/(ε‖β*‖₁))}, 0 < ε < d",
                {str(problem): problem.rich_share() for problem in tried},
            ),
            (self.claims[1], "α ≥ √(2(1+ε)(1+2/ε)‖β*‖₂)", {str(problem): problem.kernel_share() for problem in tried}),
        ):
            worst = max(shares, key=shares.__getitem__)
            yield Finding(
                claim,
                says,
                f"{len(shares)} random problems, half of them with nearly equal columns, ε from 0.02 to 5: the excess "
                f"is at most {shares[worst]:.2g}·ε, at {worst}",
                shares[worst] <= 1,
            )
        run_l1, run_l2 = runs["first threshold"], runs["second threshold"]
        l1, l2 = _least_norms(*examples(run_l1))
        excess = (
            _excess_l1(run_l1.curves["weights"][-1].values, l1),
            _excess_l2(run_l2.curves["weights"][-1].values, l2),
        )
        residual = max(float(run.curves["train_error"][-1]) for run in (run_l1, run_l2))
        yield Finding(
            self.claims[2],
            f"excess at most ε = {self._epsilon:g}",
            f"α={run_l1.spec['init']['scale']:.2g}: L1 excess {excess[0]:.2g}; α={run_l2.spec['init']['scale']:.3g}: "
            f"squared L2 excess {excess[1]:.1g}; ‖Xβ − y‖/‖y‖ is at most {residual:.1g}",
            max(excess) <= self._epsilon and residual <= 1e-4,
        )
        X, y = examples(run_l1)
        large = np.geomspace(1, 5, 5) * np.sqrt(l2)
        above = [_excess_l2(theory.Q(alpha).minimise(X, y), l2) for alpha in large]
        slope = log_slope(large, above)
        yield Finding(
            self.claims[3],
            "α of order ε^{−1/2} is enough",
            f"the squared L2 norm of argmin Q_α exceeds the least by {above[0]:.1g} (α={large[0]:.2g}) to "
            f"{above[-1]:.1g} (α={large[-1]:.2g}), like α^{slope:.1f}: ε^{1 / slope:.3f} is needed here",
            slope <= -2,
        )
        logs = np.array([10.0, 30.0, 100.0, 300.0])
        hard = [hardest(log) for log in logs]
        product = [excess * log for (excess, _), log in zip(hard, logs, strict=True)]
        yield Finding(
            self.claims[4],
            "α exponentially small in 1/ε, for certain problems",
            "X = (1, 1 − δ), y = 1, the largest excess over δ: "
            + ", ".join(f"{e:.2g} (α=e^−{log:g}, δ={delta:.2g})" for (e, delta), log in zip(hard, logs, strict=True))
            + f"; times log(1/α): {product[0]:.3f} to {product[-1]:.3f}",
            max(product) <= 1.2 * min(product),
        )
        margin, where = _lemma6(scale)
        yield Finding(
            self.claims[5],
            "Q_α(e₁)/‖e₁‖₁ ≥ (1 + ε)·Q_α(1/√d)/‖1/√d‖₁ for d ≥ max{e, 12^{4ε}}",
            f"the ratio over 1 + ε is at least {margin:.3f}, at {where}",
            margin >= 1,
        )
        d, epsilon = 10, 1.0
        printed, used = (
            thresholds.log_alpha_thm2_l1(epsilon, 10.0, d),
            thresholds.log_alpha_lemma5(epsilon / (2 + epsilon), (1 + 2 * epsilon) * 10, d),
        )
        ending = thresholds.log_alpha_lemma5(epsilon / (2 + epsilon), 1.0, d)
        yield Finding(
            self.claims[6],
            "by Lemma 5, since α ≤ α₁(ε/(2+ε), (1+2ε)‖β*‖₁, d)",
            f"ε=1, d={d}, ‖β*‖₁=10: the threshold is {np.exp(printed):.3g}, α₁ is {np.exp(used):.3g}; (46) needs α₁ at "
            f"the norm of the minimiser too, with ‖β‖₁=1 e^{ending:.3g}, where the threshold is "
            f"e^{thresholds.log_alpha_thm2_l1(epsilon, 1.0, d):.3g}",
            printed <= used,
        )
        pairs = {
            epsilon: (
                thresholds.alpha_thm2_l2(epsilon, 1.0),
                thresholds.alpha_lemma7(epsilon / (2 + epsilon), 1 + 2 * epsilon),
            )
            for epsilon in (0.1, 0.5, 1.0, 5.0)
        }
        yield Finding(
            self.claims[7],
            "by Lemma 7, since α ≥ α₂(ε/(2+ε), (1+2ε)‖β*‖₂)",
            "‖β*‖₂=1, the threshold and α₂: "
            + ", ".join(f"{a:.3g} and {b:.3g} (ε={e:g})" for e, (a, b) in pairs.items()),
            all(a >= b for a, b in pairs.values()),
        )


def hardest(log: float) -> tuple[float, float]:
    """The largest L1 excess of argmin Q_α, log(1/α) = `log`, over the problems β₁ + (1 − δ)β₂ = 1; and its δ.

    There β₂ = α²e^{(1−δ)ν} beside β₁ = α²e^ν, so β₂/β₁ = e^{−δν}: worst where δ is about 1/ν.
    """
    from scipy.optimize import minimize_scalar

    def excess(log_delta: float) -> float:
        X = np.array([[1.0, -np.expm1(log_delta)]])
        return np.abs(theory.Q(float(np.exp(-log))).minimise(X, np.ones(1))).sum() - 1

    found: Any = minimize_scalar(
        lambda x: -excess(x), bounds=(-np.log(20 * log), -0.1), method="bounded", options={"xatol": 1e-4}
    )
    return float(-found.fun), float(np.exp(found.x))


@dataclasses.dataclass(frozen=True)
class _Tried:
    """A random problem and an accuracy to ask of it."""

    X: np.ndarray
    y: np.ndarray
    epsilon: float

    @classmethod
    def draw(cls, seed: int) -> _Tried:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 6))
        d = n + int(rng.integers(2, 25))
        X = rng.standard_normal((n, d))
        if seed % 2:  # columns that are nearly equal make the least L1 norm hard to reach
            X = rng.standard_normal((n, 1)) * (1 - 10 ** rng.uniform(-3, -0.5, d)) + 1e-2 * X
        y = X @ rng.standard_normal(d)
        y *= 10 ** rng.uniform(0, 3) / _least_norms(X, y)[0]  # so that exp(−d/(ε‖β*‖₁)) is a number
        epsilon = 10 ** rng.uniform(np.log10(0.02), np.log10(5))
        return cls(X, y, float(min(epsilon, 0.9 * d)))

    def rich_share(self) -> float:
        """The L1 excess over ε at the first threshold; at 10⁻³⁰⁰ where that is smaller."""
        l1, _ = _least_norms(self.X, self.y)
        alpha = np.exp(max(thresholds.log_alpha_thm2_l1(self.epsilon, l1, self.X.shape[1]), -690))
        return _excess_l1(theory.Q(float(alpha)).minimise(self.X, self.y), l1) / self.epsilon

    def kernel_share(self) -> float:
        """The squared L2 excess over ε at the second threshold."""
        _, l2 = _least_norms(self.X, self.y)
        beta = theory.Q(thresholds.alpha_thm2_l2(self.epsilon, l2)).minimise(self.X, self.y)
        return _excess_l2(beta, l2) / self.epsilon

    def __str__(self) -> str:
        n, d = self.X.shape
        return f"n={n}, d={d}, ε={self.epsilon:.2g}, ‖β*‖₁={_least_norms(self.X, self.y)[0]:.3g}"


def _lemma6(scale: str) -> tuple[float, str]:
    """The smallest ratio of Lemma 6 over 1 + ε on a grid of (ε, d, α), and where it is."""
    margins = {}
    for epsilon in (0.02, 0.05, 0.1, 0.3, 0.6, 1.0):
        least = np.ceil(max(3.0, 12 ** (4 * epsilon)))
        for d in np.unique(np.round(least * np.geomspace(1, 1e4, 9 if scale == "paper" else 4))):
            first = thresholds.log_alpha_lemma6(epsilon, int(d))
            for log_alpha in first + np.linspace(0, 20, 60 if scale == "paper" else 15):
                if log_alpha < -690:  # below 10⁻³⁰⁰
                    continue
                Q = theory.Q(float(np.exp(log_alpha)))
                ratio = Q.value([1.0]) / (np.sqrt(d) * Q.value([d**-0.5]))
                margins[f"ε={epsilon:g}, d={d:g}, log α={log_alpha:.3g}"] = ratio / (1 + epsilon)
    where = min(margins, key=margins.__getitem__)
    return margins[where], where


def _least_norms(X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """‖β*‖₁ of the least L1 norm and ‖β*‖₂ of the least L2 norm."""
    return float(np.abs(theory.min_l1(X, y)).sum()), float(np.linalg.norm(theory.min_l2(X, y)))


def _excess_l1(beta: np.ndarray, least: float) -> float:
    return float(np.abs(beta).sum() / least - 1)


def _excess_l2(beta: np.ndarray, least: float) -> float:
    return float(np.sum(beta**2) / least**2 - 1)
