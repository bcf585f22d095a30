"""Thm 2 and Lemma 6: how small or large α must be for the L1 or the L2 norm."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, correction, once
from afterfit.papers._measure import examples, power_law
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.ends import end, parameter_flow
from afterfit.papers.woodworth2020.excesses import Least, Tried, excess_l1, excess_l2, hardest, least_norms

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm2"]

_EPSILON = 0.2  # of the flows: below the L1 excess of the least L2 norm, and the other way round, on their data
_EPSILONS = np.geomspace(0.02, 7, 60)  # of the steps of the proof


class Thm2(Entry):
    paper, name = PAPER, "thm2"
    title = "L2 is reached polynomially in α, L1 only exponentially"
    where = "Thm 2, Lemma 6, App. E"
    about = (
        "Gradient flow on w₊² − w₋² from w₊ = w₋ = α1 ends at argmin Q_α. Thm 2 says how small α must be for its L1 "
        "norm to be at most 1 + ε times the least, and how large for its squared L2 norm to be. On a given problem "
        "the least L1 norm may come sooner; for problems with nearly equal columns, and for Q_α itself (Lemma 6), "
        "exponentially small α is needed. Most problems are solved for argmin Q_α, and of some the parameters are "
        "followed by gradient flow as well. The proof in App. E does not give the theorem as it is printed; with norms "
        "up to 1 + ε times the least in place of 1 + 2ε, and √(1 + ε) times for L2, it does."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment | dict[int, af.Experiment]]:
        n, d, sparsity = (20, 40, 8) if scale == "paper" else (6, 12, 4)
        flow = af.Experiment(
            task=af.tasks.SparseRegression(n=n, d=d, sparsity=sparsity, entries="sign", noise_variance=0.01),
            model=af.models.DiagonalNet(depth=2),
            dynamics=parameter_flow(1000.0, 0.0, first=1e-3),
            init=af.inits.Constant(scale=1.0),
            observations=80,
        )
        data = flow.draw()
        least = least_norms(data.inputs, data.targets)
        rich = float(np.exp(af.theory.thresholds.log_alpha_thm2_l1(_EPSILON, least.l1, d)))
        kernel = af.theory.thresholds.alpha_thm2_l2(_EPSILON, least.l2)
        between = np.geomspace(rich, kernel, 5)[1:-1] if scale == "paper" else [np.sqrt(rich * kernel)]

        def started(alpha: float) -> af.Experiment:
            return dataclasses.replace(
                flow,
                dynamics=parameter_flow(1000.0, alpha, first=1e-3, atol=1e-20),  # however small α, each to 10⁻⁹ of it
                init=af.inits.Constant(scale=alpha),
            )

        return {
            "first_threshold": started(rich),
            "second_threshold": started(float(kernel)),
            "between": {i: started(float(alpha)) for i, alpha in enumerate(between, 1)},
        }

    def picture(self, first_threshold: af.Run, runs: Mapping[str, af.Run], least: Least) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.6), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _show_excesses(left, list(runs.values()), least)
        _show_needed(middle)
        _show_flow(right, first_threshold, least)
        af.plot.legend_below(left, middle, right)
        return figure

    @once
    def least(self, first_threshold: af.Run) -> Least:
        """The least norms on the data of all runs."""
        return least_norms(*examples(first_threshold))

    @once
    def tried(self, scale: str) -> list[Tried]:
        """Random problems, half of them with nearly equal columns."""
        return [Tried.draw(seed) for seed in range(600 if scale == "paper" else 60)]

    @once
    def ends(self, tried: Sequence[Tried], scale: str) -> dict[tuple[int, float], np.ndarray]:
        """Ends of flows of the parameters, by the number of the problem and α: from both thresholds of some.

        First thresholds below e⁻⁵⁰ are left out: they take too long.
        """
        starts = [
            (i, alpha)
            for i, problem in enumerate(tried[: 100 if scale == "paper" else 10])
            for alpha in (float(np.exp(problem.log_rich)), problem.kernel)
            if np.log(alpha) >= -50
        ]
        return {(i, alpha): tried[i].flow(alpha) for i, alpha in starts}

    @claim(
        "α at most the first threshold: ‖β‖₁ ≤ (1 + ε) times the least",
        says="α ≤ min{(2(1+ε)‖β*‖₁)^{−(2+ε)/2ε}, exp(−d/(ε‖β*‖₁))}, 0 < ε < d",
    )
    def small_enough(self, tried: Sequence[Tried]) -> Finding:
        return _within_epsilon({problem: problem.l1_share(problem.log_rich) for problem in tried})

    @control(small_enough, "α polynomially small, 1/(2(1 + ε)‖β*‖₁)")
    def not_small_enough(self, tried: Sequence[Tried]) -> Finding:
        return _within_epsilon({p: p.l1_share(-np.log(2 * (1 + p.epsilon) * p.least.l1)) for p in tried})

    @claim(
        "α at least the second threshold: ‖β‖₂² ≤ (1 + ε) times the least",
        says="α ≥ √(2(1+ε)(1+2/ε)‖β*‖₂)",
    )
    def large_enough(self, tried: Sequence[Tried]) -> Finding:
        return _within_epsilon({problem: problem.l2_share(problem.kernel) for problem in tried})

    @control(large_enough, "α a hundredth of the threshold")
    def not_large_enough(self, tried: Sequence[Tried]) -> Finding:
        return _within_epsilon({problem: problem.l2_share(problem.kernel / 100) for problem in tried})

    @claim(
        "on these problems the flow of the parameters ends at argmin Q_α, from both thresholds",
        says="the setting of Thm 1",
    )
    def flows_end_at_q(self, tried: Sequence[Tried], ends: Mapping[tuple[int, float], np.ndarray]) -> Finding:
        return _end_at(lambda problem, alpha: problem.minimiser(alpha), tried, ends)

    @control(flows_end_at_q, "Q with 2α² in place of α²")
    def not_at_another_q(self, tried: Sequence[Tried], ends: Mapping[tuple[int, float], np.ndarray]) -> Finding:
        return _end_at(lambda problem, alpha: problem.minimiser(np.sqrt(2) * alpha), tried, ends)

    @claim(
        "the flow itself keeps both bounds, started at the thresholds",
        says=f"excess at most ε = {_EPSILON:g}",
    )
    def flows_keep_them(self, first_threshold: af.Run, second_threshold: af.Run, least: Least) -> Finding:
        return _keep_both(first_threshold, second_threshold, least)

    @control(flows_keep_them, "the two starts exchanged")
    def exchanged_they_do_not(self, first_threshold: af.Run, second_threshold: af.Run, least: Least) -> Finding:
        return _keep_both(second_threshold, first_threshold, least)

    @claim("polynomially large α is enough for L2", says="α of order ε^{−1/2} is enough")
    def polynomially_large(self, first_threshold: af.Run, least: Least) -> Finding:
        X, y = examples(first_threshold)
        large = np.geomspace(1, 5, 5) * np.sqrt(least.l2)
        return _falls_as_a_power(large, [excess_l2(af.theory.Q(a).minimise(X, y), least.l2) for a in large])

    @control(polynomially_large, "the L1 excess of the hardest two-column problem, over 1/α")
    def not_for_l1(self) -> Finding:
        logs = (10.0, 30.0, 100.0, 300.0)
        return _falls_as_a_power(np.exp(logs), [hardest(log)[0] for log in logs])

    @claim(
        "exponentially small α is needed for L1 on some problems",
        says="α exponentially small in 1/ε, for certain problems",
    )
    def exponentially_small(self) -> Finding:
        return _needs_exponentially_small(af.theory.Q, (10.0, 30.0, 100.0, 300.0))

    @control(exponentially_small, "R_α of Fig. 2, which approaches L1 polynomially")
    def polynomially_small(self) -> Finding:
        return _needs_exponentially_small(af.theory.R, (2.0, 4.0, 6.0, 8.0))

    @claim(
        "Lemma 6: for α ≥ d^{−1/4−1/8ε} Q_α is not proportional to ‖·‖₁ within 1 + ε",
        says="Q_α(e₁)/‖e₁‖₁ ≥ (1 + ε)·Q_α(1/√d)/‖1/√d‖₁ for d ≥ max{e, 12^{4ε}}",
    )
    def lemma_6(self, scale: str) -> Finding:
        return _lemma6(scale, 8)

    @control(lemma_6, "α down to d^{−1/4−1/2ε}, where the ratio is 1 + ε/2 or so")
    def not_below(self, scale: str) -> Finding:
        return _lemma6(scale, 2)

    @claim(
        "α at most the first threshold is at most α₁(ε/(2 + ε), (1 + 2ε)‖β*‖₁, d), as the proof says",
        says="before (44): by Lemma 5, since α ≤ α₁(ε/(2+ε), (1+2ε)‖β*‖₁, d)",
    )
    def by_lemma_5(self) -> Finding:
        return _l1_step(lambda epsilon: 1 + 2 * epsilon)

    @correction(
        by_lemma_5,
        "α ≤ α₁(ε/(2 + ε), (1 + ε)‖β*‖₁, d), and Thm 2 follows from (45) with 1 + ε in place of 1 + 2ε",
        why="Put η = ε/(2 + ε) and r = ‖β*‖₁. With norm (1 + ε)r the third term of α₁ is the first of the threshold, "
        "the fourth at least its second as 2 + ε ≤ 2(1 + ε), and exp(−d/εr) ≤ min{1, √r} as ε < d. If ‖β‖₁ = (1 + ε)r "
        "and Xβ = y, then by Lemma 5 Q(β) ≥ (1 − η)(1 + ε)r·ln(1/α²) = (1 + η)r·ln(1/α²) ≥ Q(β*) ≥ Q(β^∞). Q is "
        "strictly convex, so β^∞ is not beyond such a β on a line from β*: ‖β^∞‖₁ ≤ (1 + ε)r. (46) is not needed.",
        touches="No: Thm 2 for L1 holds as printed, by this proof.",
        where="App. E, proof of Thm 2, before (44)",
    )
    def by_lemma_5_with_1_plus_epsilon(self) -> Finding:
        return _l1_step(lambda epsilon: 1 + epsilon)

    @claim(
        "α at least the second threshold is at least α₂(ε/(2 + ε), (1 + 2ε)‖β*‖₂), as the proof says",
        says="before (47): by Lemma 7, since α ≥ α₂(ε/(2+ε), (1+2ε)‖β*‖₂)",
    )
    def by_lemma_7(self) -> Finding:
        return _l2_step(lambda epsilon: 1 + 2 * epsilon)

    @correction(
        by_lemma_7,
        "α ≥ 2^{1/4}·α₂(ε/(2 + ε), √(1 + ε)·‖β*‖₂), and Thm 2 follows from (48) with √(1 + ε) in place of 1 + 2ε",
        why="With η = ε/(2 + ε) the threshold is √(2(1 + ε)‖β*‖₂/η), and its square over that of α₂ is "
        "2√(1 + ε)/(√η(1 + η^{1/4})²) ≥ 1/√(2η(1 − η)) ≥ √2, by (a + b)² ≤ 2(a² + b²) twice and "
        "1 + ε = (1 + η)/(1 − η). If ‖β‖₂² = (1 + ε)‖β*‖₂² and Xβ = y, then by Lemma 7 "
        "4α²Q(β) ≥ (1 − η)(1 + ε)‖β*‖₂² = (1 + η)‖β*‖₂² ≥ 4α²Q(β*), and strict convexity ends it as for L1. "
        "(48) moreover takes (1 + 2ε)² for 1 + 2ε.",
        touches="No: Thm 2 for L2 holds as printed, by this proof.",
        where="App. E, proof of Thm 2, before (47)",
    )
    def by_lemma_7_with_the_root(self) -> Finding:
        return _l2_step(lambda epsilon: np.sqrt(1 + epsilon))


def _keep_both(small: af.Run, large: af.Run, least: Least) -> Finding:
    """Whether the L1 excess of one end and the squared L2 excess of the other are at most ε."""
    l1, l2 = excess_l1(end(small), least.l1), excess_l2(end(large), least.l2)
    residual = max(float(run.curves["train_error"][-1]) for run in (small, large))
    return Finding(
        f"α={small.spec['init']['scale']:.2g}: L1 excess {l1:.2g}; "
        f"α={large.spec['init']['scale']:.3g}: squared L2 excess {l2:.1g}; "
        f"‖Xβ − y‖/‖y‖ is at most {residual:.1g}",
        max(l1, l2) <= _EPSILON and residual <= 1e-4,
    )


def _within_epsilon(shares: Mapping[Tried, float]) -> Finding:
    """Whether the excess of every problem is at most ε, from its share of ε."""
    worst = max(shares, key=shares.__getitem__)
    return Finding(
        f"{len(shares)} random problems, half of them with nearly equal columns, ε from 0.02 to 5: the excess "
        f"is at most {shares[worst]:.2g}·ε, at {worst}; above ε at {sum(share > 1 for share in shares.values())}",
        shares[worst] <= 1,
    )


def _end_at(
    limit: Callable[[Tried, float], np.ndarray], tried: Sequence[Tried], ends: Mapping[tuple[int, float], np.ndarray]
) -> Finding:
    """To 10⁻³: at the end Xβ is at y to 10⁻⁷, and nearly equal columns have condition numbers of some 10³."""
    gaps = [
        float(np.linalg.norm(beta - limit(tried[i], alpha)) / np.linalg.norm(beta)) for (i, alpha), beta in ends.items()
    ]
    return Finding(
        f"{len(gaps)} flows from α={min(alpha for _, alpha in ends):.1g} to {max(alpha for _, alpha in ends):.3g}: "
        f"relative distance at most {max(gaps):.1g}, in the middle {np.median(gaps):.1g}",
        max(gaps) <= 1e-3,
    )


def _falls_as_a_power(scales: np.ndarray, excesses: Sequence[float]) -> Finding:
    """Whether the excess ε falls like α⁻² or faster, so that α of order ε^{−1/2} is enough."""
    law = power_law(scales, excesses)
    return Finding(
        f"the excess falls from {excesses[0]:.1g} to {excesses[-1]:.1g} as the scale grows from {scales[0]:.2g} to "
        f"{scales[-1]:.2g}, like its power {law}",
        law.high <= -2,
    )


def _needs_exponentially_small(potential: Callable[[float], Any], logs: Sequence[float]) -> Finding:
    """Whether the largest excess ε is of order 1/log(1/α), so that α has to be exponentially small in 1/ε.

    The product of the two is asked to stay within a factor 1.2: over the range of logs that is an exponent −1 ± 0.06.
    """
    hard = {log: hardest(log, potential) for log in logs}
    products = [excess * log for log, (excess, _) in hard.items()]
    return Finding(
        "X = (1, 1 − δ), y = 1, the largest excess over δ: "
        + ", ".join(f"{excess:.2g} (α=e^−{log:g}, δ={delta:.2g})" for log, (excess, delta) in hard.items())
        + f"; times log(1/α): {products[0]:.3f} to {products[-1]:.3f}",
        max(products) <= 1.2 * min(products),
    )


def _lemma6(scale: str, divisor: float) -> Finding:
    """Whether the ratio of Lemma 6 is above 1 + ε on a grid of (ε, d, α) from α = d^{−1/4−1/(divisor·ε)} up."""
    margins = {}
    for epsilon in (0.02, 0.05, 0.1, 0.3, 0.6, 1.0):
        least = np.ceil(max(3.0, 12 ** (4 * epsilon)))
        for d in np.unique(np.round(least * np.geomspace(1, 1e4, 9 if scale == "paper" else 4))):
            first = -(1 / 4 + 1 / (divisor * epsilon)) * np.log(d)
            for log_alpha in first + np.linspace(0, 20, 60 if scale == "paper" else 15):
                if log_alpha < -690:  # below 10⁻³⁰⁰
                    continue
                Q = af.theory.Q(float(np.exp(log_alpha)))
                ratio = Q.value([1.0]) / (np.sqrt(d) * Q.value([d**-0.5]))
                margins[f"ε={epsilon:g}, d={d:g}, log α={log_alpha:.3g}"] = ratio / (1 + epsilon)
    where = min(margins, key=margins.__getitem__)
    return Finding(f"the ratio over 1 + ε is at least {margins[where]:.3f}, at {where}", margins[where] >= 1)


def _l1_step(radius: Callable[[float], float]) -> Finding:
    """Whether the first threshold is at most α₁ at the radius, on a grid; up to rounding, as terms may be equal."""
    thresholds, over = af.theory.thresholds, {}
    for epsilon in _EPSILONS:
        for l1 in np.geomspace(0.1, 1e3, 17):
            for d in (8, 30, 100, 1000):
                used = thresholds.log_alpha_lemma5(epsilon / (2 + epsilon), radius(epsilon) * l1, d)
                over[epsilon, l1, d] = thresholds.log_alpha_thm2_l1(epsilon, l1, d) - used
    above = sum(gap > 1e-9 for gap in over.values())
    (epsilon, l1, d), worst = max(over.items(), key=lambda item: item[1])
    return Finding(
        f"above α₁ at {above} of {len(over)} (ε, ‖β*‖₁, d); log of the threshold over α₁ is at most {worst:.2g}, at "
        f"ε={epsilon:.2g}, ‖β*‖₁={l1:.2g}, d={d}",
        above == 0,
    )


def _l2_step(radius: Callable[[float], float]) -> Finding:
    """Whether the second threshold is at least α₂ at the radius, on a grid; ‖β*‖₂ scales both alike."""
    thresholds = af.theory.thresholds
    over = {
        epsilon: thresholds.alpha_thm2_l2(epsilon, 1.0)
        / thresholds.alpha_lemma7(epsilon / (2 + epsilon), radius(epsilon))
        for epsilon in _EPSILONS
    }
    where, below = min(over, key=over.__getitem__), [epsilon for epsilon, ratio in over.items() if ratio < 1]
    return Finding(
        f"the threshold over α₂ is at least {over[where]:.3f}, at ε={where:.2g}; below 1 "
        + (f"from ε={below[0]:.2g} on" if below else "nowhere"),
        not below,
    )


_THM2_L1: dict[str, Any] = {"color": "0.3", "ls": "-.", "lw": 1.2}
_THM2_L2: dict[str, Any] = {"color": "0.3", "ls": ":", "lw": 1.8}


def _show_excesses(ax: Axes, runs: Sequence[af.Run], least: Least) -> None:
    """How far the norms of argmin Q_α and of the flows' ends are above the least, over α, and what Thm 2 allows."""
    X, y = examples(runs[0])
    alphas = np.geomspace(1e-12, 30, 60)
    ends = [af.theory.Q(alpha).minimise(X, y) for alpha in alphas]
    above_l1, above_l2 = [excess_l1(beta, least.l1) for beta in ends], [excess_l2(beta, least.l2) for beta in ends]
    ax.plot(alphas, above_l1, **af.plot.TEST, label=r"$\|\beta\|_1/\|\beta^*_{\ell_1}\|_1-1$")
    ax.plot(alphas, above_l2, **af.plot.TRAIN, label=r"$\|\beta\|_2^2/\|\beta^*_{\ell_2}\|_2^2-1$")
    for run in runs:
        alpha, beta = run.spec["init"]["scale"], end(run)
        excesses = [excess_l1(beta, least.l1), excess_l2(beta, least.l2)]
        ax.plot([alpha] * 2, excesses, "ko", mfc="none", ls="", label="gradient flow" if run is runs[0] else None)
    epsilons = np.geomspace(0.02, 10, 60)
    rich = np.array([af.theory.thresholds.log_alpha_thm2_l1(e, least.l1, X.shape[1]) for e in epsilons])
    seen = rich > np.log(alphas[0])
    ax.plot(np.exp(rich[seen]), epsilons[seen], **_THM2_L1, label=r"Thm 2, $\ell_1$")
    kernel = [af.theory.thresholds.alpha_thm2_l2(e, least.l2) for e in epsilons]
    ax.plot(kernel, epsilons, **_THM2_L2, label=r"Thm 2, $\ell_2$")
    ax.set(xscale="log", yscale="log", ylim=(1e-5, 30))
    ax.set(xlabel=r"scale $\alpha$ of the start", ylabel=r"relative excess, or $\epsilon$")


def _show_needed(ax: Axes) -> None:
    """How small or large α must be, over ε."""
    thresholds, small, logs = af.theory.thresholds, np.geomspace(3e-4, 0.3, 40), np.geomspace(2, 600, 12)
    ax.plot([hardest(log)[0] for log in logs], logs, **af.plot.TEST, label="hardest two-column problem")
    rich = [-thresholds.log_alpha_thm2_l1(epsilon, 1.0, 2) for epsilon in small]
    ax.plot(small, rich, **_THM2_L1, label=r"Thm 2, $\ell_1$, $d=2$, $\|\beta^*\|_1=1$")
    kernel = [np.log(thresholds.alpha_thm2_l2(epsilon, 1.0)) for epsilon in small]
    ax.plot(small, kernel, **_THM2_L2, label=r"Thm 2, $\ell_2$: $\log\alpha$")
    ax.set(xscale="log", yscale="log", xlim=(3e-4, 0.3))
    ax.set(xlabel=r"accuracy $\epsilon$", ylabel=r"$|\log\alpha|$ that is enough, or needed")


def _show_flow(ax: Axes, run: af.Run, least: Least) -> None:
    """The L1 norm along the flow from the first threshold."""
    curves = run.curves.isel(time=slice(1, None))
    norms = np.abs(curves["weights"].values).sum(axis=1)
    ax.plot(curves["time"], norms / least.l1, **af.plot.TEST, label=r"$\|\beta(t)\|_1/\|\beta^*_{\ell_1}\|_1$")
    ax.axhline(1 + _EPSILON, color="0.3", ls="-.", lw=1.2, label=r"$1+\epsilon$")
    ax.axhline(1, color="0.6", lw=0.8)
    ax.set(ylabel=r"$\ell_1$ norm over the least", ylim=(0, 1.1 * (1 + _EPSILON)))
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)
    ax.set_title(rf"flow from the first threshold, $\alpha={af.plot.mathtext(run.spec['init']['scale'])}$", pad=18)
