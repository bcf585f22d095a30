"""Figs 2 and 30: over a grid of α and β the delay of grokking falls as αβ grows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once, passing
from afterfit.papers._measure import Interval
from afterfit.papers.notsawo2025 import PAPER
from afterfit.papers.notsawo2025.addition import (
    SEEDS,
    SETTING,
    Cell,
    accuracy_fan,
    adam,
    earlier_with,
    in_steps,
    times,
)
from afterfit.papers.notsawo2025.recovery import slope_within

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    _Delays = Mapping[Cell, float]

__all__ = ["Fig2"]

# β at each α, of those of Fig. 1, and steps where they are not those of Fig. 1. The notebook has six β at each α; at
# 10⁻³ a pilot with the largest was at 3 % at the last step shown, so that has one draw.
_GRID = {
    "paper": {1e-3: (1e-4,), 1e-2: SETTING["paper"].strengths["nuc"], 1e-1: (1e-5, 1e-4)},
    "quick": dict.fromkeys(SETTING["quick"].lrs, (2.5e-4, 5e-4)),
}
_STEPS = {"paper": {1e-1: 3500}, "quick": dict.fromkeys(SETTING["quick"].lrs, 1200)}
# Of Fig. 30 two α and two β of each norm, a decade or more apart; at paper scale those at 10⁻² are runs of Fig. 1. With
# ℓ₂ a pilot (seed 500) at α = 10⁻¹ came no sooner with 5·10⁻⁴ than with 5·10⁻⁵, so its other α is 10⁻³.
_OTHERS = {
    "paper": {"l1": ((1e-2, 1e-1), (1e-6, 1e-5)), "l2": ((1e-3, 1e-2), (5e-5, 7e-4))},
    "quick": {"l1": ((0.03, 0.09), (3e-5, 1e-4)), "l2": ((0.03, 0.09), (6e-4, 2e-3))},
}
_OTHER_STEPS = {"paper": {1e-1: 3500}, "quick": {0.03: 800, 0.09: 800}}
_OTHER_SEEDS = {"paper": SEEDS, "quick": (44, 45, 46)}
_SEEDS = {"paper": SEEDS, "quick": (41, 42, 43)}
_LARGE = "large αβ values lead to faster grokking (H.3.1, Fig. 30)"
_MORE = (
    "At quick scale there were two draws, 41 and 42, with {}: too few to tell. There are three others now, 44 to 46."
)
_CHANGED = (
    "The share of pairs in order had to be above one half by an interval as of independent pairs, of one draw: for α "
    "it was not at quick scale on seed 21, and the grid moved to seed 22. Times are exchanged now, at paper scale on "
    "seeds 31 to 33. At quick scale on these, with α = 0.02, 0.04, 0.08, 8 of 11 pairs were in order by α (P = 0.1), "
    "9 of 9 by β and 32 of 38 by αβ; p was −0.635 in [−1.3, 0.0279], and q had one draw, since with the weaker β at "
    "α = 0.08 two runs of three did not generalise in 800 steps. α and β were chosen anew on seeds 216 to 221, with "
    "1200 steps, and are measured on seeds 41 to 43."
)


class Fig2(Entry):
    paper, name = PAPER, "fig2"
    title = "The delay of grokking falls as αβ grows, also under Adam"
    where = "Figs 2 and 30, §2.1, App. H.3.1"
    about = (
        "The net of Fig. 1 by Adam at α = 10⁻³, 10⁻² and 10⁻¹ with the nuclear norm. The authors' notebook has six "
        "strengths β at each α (the paper gives neither grid); here are the three largest at 10⁻², two at 10⁻¹ and the "
        "largest at 10⁻³, with 5500 steps (3500 at 10⁻¹) where the figure shows 4090, on three draws (10⁻³: one). "
        "Fig. 30 is the same with ℓ₁ and ℓ₂: two β of each on three draws, with 6090 steps at 10⁻², and 3500 of ℓ₁ at "
        "10⁻¹ and 6090 of ℓ₂ at 10⁻³. The delay is t₂ − t₁ in steps: from 99 % of the training to 90 % of the test "
        "examples right. A run that does not generalise within "
        "its steps counts as later than all that do, and has no place in a law."
    )
    notes = (
        "(1) The theorem behind the figure, t₂ − t₁ of order 1/(αβ), is for subgradient descent (Thm 2.1), and Fig. 4 "
        "measures it there. Adam divides the gradient by its size, so that the theorem does not speak of it. (2) At "
        "paper scale the net generalises without a penalty at α = 10⁻¹ (last claim), and with one soon after t₁. So "
        "the powers of the whole grid compare two regimes there, and of those runs neither t₂ nor its order by α can "
        "be put down to the penalty alone; q at α = 10⁻² can, where the net of Fig. 1 does not generalise without "
        "one. At quick scale batches are full, and without a penalty nothing generalises at the largest α. There "
        "mini-batches of a third of the examples (tried on seeds 213 to 215, α = 0.08) did generalise with β = 0."
    )

    def runs(self, scale: str) -> dict[str, dict[Cell, af.Experiment]]:
        cells = [
            Cell("nuc", α, β, seed)
            for α, strengths in _GRID[scale].items()
            for seed in (_SEEDS[scale][:1] if (scale, α) == ("paper", 1e-3) else _SEEDS[scale])
            for β in strengths
        ]
        free = [Cell("nuc", max(_GRID[scale]), 0.0, _SEEDS[scale][0])]
        others = [
            Cell(norm, α, β, seed)
            for norm, (lrs, strengths) in _OTHERS[scale].items()
            for seed in _OTHER_SEEDS[scale]
            for α in lrs
            for β in strengths
        ]

        def descents(cells: Iterable[Cell], steps: Mapping[float, int]) -> dict[Cell, af.Experiment]:
            return {cell: adam(SETTING[scale], cell, steps.get(cell.α)) for cell in cells}

        return {
            "grid": descents(cells, _STEPS[scale]),
            "others": descents(others, _OTHER_STEPS[scale]),
            "free": descents(free, _STEPS[scale]),
        }

    def picture(self, grid: dict[Cell, af.Run], delays: _Delays, law: dict[str, Interval]) -> Figure:
        alphas = sorted({cell.α for cell in grid})
        figure = af.plot.Figure(figsize=(14, 9), layout="constrained")
        top, bottom = figure.subplots(2, len(alphas))
        for ax, α in zip(top, alphas, strict=True):
            groups: dict[float, list[af.Run]] = {}
            for cell, run in grid.items():
                if cell.α == α:
                    groups.setdefault(cell.β, []).append(run)
            accuracy_fan(ax, groups, r"\beta")
            af.plot.mark_phases(ax, in_steps(groups[max(groups)][0]))
            title = rf"$\ell_*$, $\alpha={af.plot.mathtext(α)}$: training (dashed), test (solid)"
            ax.set_title(title, fontsize="medium", pad=18)
            af.plot.legend_below(ax, ncols=3)
        product, over_alpha, over_beta = bottom
        end = max(float(run.curves["step"][-1]) for run in grid.values())
        _draw_delays(product, delays, end)
        _draw_along(over_alpha, delays, law, "α", "β")
        _draw_along(over_beta, delays, law, "β", "α")
        return figure

    @once
    def delays(self, grid: dict[Cell, af.Run]) -> dict[Cell, float]:
        """t₂ − t₁ of each run, inf if it does not come."""
        return {cell: times(run).delay for cell, run in grid.items()}

    @once
    def law(self, delays: _Delays) -> dict[str, Interval]:
        """p and q of t₂ − t₁ ∝ αᵖ β^q."""
        return _law(delays)

    @claim(
        "the delay falls as β grows, at each α", says="the smaller αβ, the longer the delay (§2.1)", changed=_CHANGED
    )
    def stronger_is_earlier(self, delays: _Delays) -> Finding:
        return earlier_with((c.β, (c.α, c.seed), t) for c, t in delays.items())

    @control(stronger_is_earlier, "the seed's number in place of β")
    def higher_seed_is_earlier(self, delays: _Delays) -> Finding:
        return earlier_with((c.seed, (c.α, c.β), t) for c, t in delays.items())

    @claim(
        "the delay falls as α grows, at each β", says="when α increases, the delay decreases (Fig. 2)", changed=_CHANGED
    )
    def faster_is_earlier(self, delays: _Delays) -> Finding:
        return earlier_with((c.α, (c.β, c.seed), t) for c, t in delays.items())

    @control(faster_is_earlier, "the seed's number in place of α")
    def higher_seed_is_earlier_again(self, delays: _Delays) -> Finding:
        return self.higher_seed_is_earlier(delays)

    @claim(
        "over the whole grid the delay falls as αβ grows",
        says="large αβ values lead to faster grokking (H.3.1)",
        changed="It was a rank correlation over one draw's grid, on seeds 21 and 22. " + _CHANGED,
    )
    def larger_product_is_earlier(self, delays: _Delays) -> Finding:
        return earlier_with((c.α * c.β, c.seed, t) for c, t in delays.items())

    @control(larger_product_is_earlier, "β/α in place of αβ")
    def larger_ratio_is_earlier(self, delays: _Delays) -> Finding:
        return earlier_with((c.β / c.α, c.seed, t) for c, t in delays.items())

    @claim(
        "ℓ₁: the delay falls as αβ grows",
        says=_LARGE,
        fails={
            "quick": "On one draw of three, seed 45, the run with the larger α and β does not generalise within its "
            "steps while two others do, and so many pairs in order are not clear of chance."
        },
        changed=_MORE.format("8 of 11 pairs in order (P = 0.2)"),
    )
    def larger_product_is_earlier_l1(self, others: dict[Cell, af.Run]) -> Finding:
        return _earlier_of(others, "l1", lambda c: c.α * c.β)

    @passing(larger_product_is_earlier_l1, "the two other draws")
    def larger_product_is_earlier_l1_of_two(self, others: dict[Cell, af.Run]) -> Finding:
        return self.larger_product_is_earlier_l1({c: run for c, run in others.items() if c.seed != 45})

    @control(larger_product_is_earlier_l1, "β/α in place of αβ")
    def larger_ratio_is_earlier_l1(self, others: dict[Cell, af.Run]) -> Finding:
        return _earlier_of(others, "l1", lambda c: c.β / c.α)

    @control(larger_product_is_earlier_l1, "α/β in place of αβ")
    def smaller_ratio_is_earlier_l1(self, others: dict[Cell, af.Run]) -> Finding:
        return _earlier_of(others, "l1", lambda c: c.α / c.β)

    @claim(
        "ℓ₂: the delay falls as αβ grows",
        says=_LARGE,
        changed=_MORE.format("8 of 9 pairs in order (P = 0.05)"),
    )
    def larger_product_is_earlier_l2(self, others: dict[Cell, af.Run]) -> Finding:
        return _earlier_of(others, "l2", lambda c: c.α * c.β)

    @control(larger_product_is_earlier_l2, "β/α in place of αβ")
    def larger_ratio_is_earlier_l2(self, others: dict[Cell, af.Run]) -> Finding:
        return _earlier_of(others, "l2", lambda c: c.β / c.α)

    @control(larger_product_is_earlier_l2, "α/β in place of αβ")
    def smaller_ratio_is_earlier_l2(self, others: dict[Cell, af.Run]) -> Finding:
        return _earlier_of(others, "l2", lambda c: c.α / c.β)

    @claim(
        "where it comes, the delay is a falling power of α and one of β",
        says="the smaller αβ, the longer the delay (§2.1)",
        changed="It was to be the power −1 of αβ, and expected not to be, on seed 21 at quick scale: too few of its "
        "runs generalised to tell, −0.907 in [−2.4, 0.582]. Then that power was to be below 0, on seed 22. α and β "
        "have a power each now. " + _CHANGED,
    )
    def falls_like_powers(self, law: dict[str, Interval]) -> Finding:
        return Finding(_in_words(law), all(power.high < 0 for power in law.values()))

    @control(falls_like_powers, "delays exchanged among the runs of a seed")
    def exchanged_fall(self, delays: _Delays) -> Finding:
        return self.falls_like_powers(_law(_exchanged(delays)))

    @claim(
        "where it comes, the delay is as 1/(αβ): −1 is in the intervals of both powers",
        says="the grokking time is proportional to 1/αβ (see Figure 2) (§2.2)",
        fails={
            "quick": "Under Adam the delay falls slower than 1/α: −1 is not in the interval of p.",
            "paper": "Under Adam the delay falls slower than 1/β. What of that is the penalty's is said by q at "
            "α = 10⁻² alone, where the net needs one.",
        },
    )
    def is_inverse(self, delays: _Delays) -> Finding:
        law, (_, middle, _) = _law(delays), sorted({c.α for c in delays})
        return Finding(f"{_in_words(law)}; {_alone(delays, middle)}", all(power.holds(-1) for power in law.values()))

    @control(is_inverse, "delays exchanged among the runs of a seed")
    def exchanged_are_inverse(self, delays: _Delays) -> Finding:
        return self.is_inverse(_exchanged(delays))

    @passing(is_inverse, "delays that are made up, 1/(αβ) with the scatter that was measured")
    def would_be_inverse(self, delays: _Delays) -> Finding:
        return self.is_inverse(_made_up(delays))

    @claim(
        "at the largest α, too, the net does not generalise without a penalty",
        says="not in the paper, for which the penalty drives generalisation (§2.2)",
        fails={"paper": "At α = 10⁻¹ it needs none: with β = 0 it generalises soon after it fits."},
    )
    def needs_a_penalty(self, free: dict[Cell, af.Run]) -> Finding:
        return _only_fit(free)

    @control(needs_a_penalty, "with the penalty")
    def penalised_only_fit(self, grid: dict[Cell, af.Run]) -> Finding:
        return _only_fit({c: run for c, run in grid.items() if c.α == max(c.α for c in grid)})

    @passing(needs_a_penalty, "the weakest penalty at α = 10⁻²")
    def slower_only_fit(self, grid: dict[Cell, af.Run]) -> Finding:
        middle = sorted({c.α for c in grid})[1]
        weakest = min(c.β for c in grid if c.α == middle)
        return _only_fit({c: run for c, run in grid.items() if (c.α, c.β) == (middle, weakest)})


def _earlier_of(runs: dict[Cell, af.Run], norm: str, knob: Callable[[Cell], float]) -> Finding:
    """Whether of runs of one seed those with a larger knob have the shorter delay, and all delays by α and β."""
    found = {c: times(run).delay for c, run in runs.items() if c.norm == norm}
    order = earlier_with((float(f"{knob(c):.3e}"), c.seed, t) for c, t in found.items())  # 10⁻²·10⁻⁵ is 10⁻¹·10⁻⁶
    words = [
        f"{α:.0e}, {β:.0e}: "
        + ", ".join(f"{t:.0f}" if t < np.inf else "never" for c, t in found.items() if (c.α, c.β) == (α, β))
        for α, β in dict.fromkeys((c.α, c.β) for c in found)
    ]
    return Finding(f"{order.measured}; delays by α, β and seed: {'; '.join(words)}", order.holds)


def _only_fit(runs: dict[Cell, af.Run]) -> Finding:
    """Whether no run generalises, and all fit."""
    found = [times(run) for run in runs.values()]
    words = [f"{t.fit:.0f} and {f'{t.general:.0f}' if t.general < np.inf else 'never'}" for t in found]
    last = min(float(run.curves["test_accuracy"][-1]) for run in runs.values())
    return Finding(
        f"t₁ and t₂: {', '.join(words)}; {last:.1%} of the test examples right at the end, or more",
        all(t.fit < np.inf and t.general == np.inf for t in found),
    )


def _law(delays: _Delays) -> dict[str, Interval]:
    """p and q of a delay ∝ αᵖ β^q, where it comes: with a constant for every draw and value of the other knob."""
    come = {c: t for c, t in delays.items() if 0 < t < np.inf}

    def along(knob: Callable[[Cell], float], same: Callable[[Cell], Any]) -> Interval:
        groups: dict[Any, list[tuple[float, float]]] = {}
        for c, t in come.items():
            groups.setdefault(same(c), []).append((np.log(knob(c)), np.log(t)))
        return slope_within([group for group in groups.values() if len(group) > 1])

    return {"α": along(lambda c: c.α, lambda c: (c.β, c.seed)), "β": along(lambda c: c.β, lambda c: (c.α, c.seed))}


def _alone(delays: _Delays, α: float) -> str:
    """q at one α, in words, with a constant for every draw."""
    draws: dict[int, list[tuple[float, float]]] = {}
    for c, t in delays.items():
        if c.α == α and 0 < t < np.inf:
            draws.setdefault(c.seed, []).append((np.log(c.β), np.log(t)))
    groups = [group for group in draws.values() if len(group) > 1]
    told = sum(len(group) - 1 for group in groups) > 1  # one to spare, for the interval
    return f"at α = {α:.0e} alone " + (f"q = {slope_within(groups)}" if told else "too few come for q")


def _in_words(law: Mapping[str, Interval]) -> str:
    return f"αᵖ β^q with p = {law['α']}, q = {law['β']}"


def _exchanged(delays: _Delays) -> dict[Cell, float]:
    """The delays that come, exchanged among the runs of each seed."""
    rng, exchanged = np.random.default_rng(0), {}
    for seed in dict.fromkeys(c.seed for c in delays):
        come = {c: t for c, t in delays.items() if c.seed == seed and t < np.inf}
        exchanged |= dict(zip(come, rng.permutation(list(come.values())), strict=True))
    return exchanged


def _made_up(delays: _Delays) -> dict[Cell, float]:
    """1/(αβ) for the delays that come, with their scatter about a law αᵖ β^q, in another order."""
    come = {c: t for c, t in delays.items() if 0 < t < np.inf}
    knobs = np.array([(1.0, np.log(c.α), np.log(c.β)) for c in come])
    seen = np.log(list(come.values()))
    scatter = np.random.default_rng(0).permutation(seen - knobs @ np.linalg.lstsq(knobs, seen)[0])
    return {c: float(np.exp(off)) / (c.α * c.β) for c, off in zip(come, scatter, strict=True)}


def _draw_delays(ax: Axes, delays: _Delays, end: float) -> None:
    """The delay over αβ, a mark for each α, open at the last step where it does not come, beside a slope of −1."""
    for α, marker in zip(sorted({c.α for c in delays}), "sod", strict=True):
        here = {c: t for c, t in delays.items() if c.α == α}
        look: dict[str, Any] = {"marker": marker, "ls": "", "color": "#0072B2"}
        ax.plot([c.α * c.β for c in here], list(here.values()), **look, label=rf"$\alpha={af.plot.mathtext(α)}$")
        never = [c.α * c.β for c, t in here.items() if t == np.inf]
        ax.plot(never, np.full(len(never), end), **look, mfc="none")
    ax.plot([], [], "o", color="#0072B2", mfc="none", label="not within the run")
    come = {c: t for c, t in delays.items() if t < np.inf}
    ends = np.array([min(c.α * c.β for c in come), max(c.α * c.β for c in come)])
    centre, level = (np.exp(np.mean(np.log(each))) for each in ([c.α * c.β for c in come], list(come.values())))
    ax.plot(ends, level * centre / ends, color="k", ls=":", lw=1.2, label=r"slope of $1/(\alpha\beta)$")
    ax.set(xscale="log", yscale="log", xlabel=r"$\alpha\beta$", ylabel="delay $t_2-t_1$ (steps)")
    ax.tick_params(axis="both", which="minor", labelbottom=False)  # on a decade or two they cover each other
    af.plot.legend_below(ax, ncols=3)


def _draw_along(ax: Axes, delays: _Delays, law: dict[str, Interval], knob: str, other: str) -> None:
    """The delay over one knob, a line for each seed and value of the other, where it comes."""
    from matplotlib import colormaps

    symbols = {"α": r"\alpha", "β": r"\beta"}
    values = sorted({getattr(c, other) for c, t in delays.items() if t < np.inf})
    seeds = dict.fromkeys(c.seed for c in delays)
    for value, shade in zip(values, colormaps["viridis"](np.linspace(0.9, 0.0, len(values))), strict=True):
        for k, seed in enumerate(seeds):
            line = sorted(
                (getattr(c, knob), t)
                for c, t in delays.items()
                if (getattr(c, other), c.seed) == (value, seed) and t < np.inf
            )
            label = rf"${symbols[other]}={af.plot.mathtext(value)}$" if k == 0 else None
            ax.plot(*np.array(line).reshape(-1, 2).T, "o-", color=shade, label=label)
    power, letter = law[knob], {"α": "p", "β": "q"}[knob]
    title = rf"${symbols[knob]}^{{\,{letter}}}$, ${letter}={power.value:.2f}$ in $[{power.low:.2f}, {power.high:.2f}]$"
    ax.set_title(title, fontsize="medium")
    ax.set(xscale="log", yscale="log", xlabel=f"${symbols[knob]}$", ylabel="delay $t_2-t_1$ (steps)")
    af.plot.legend_below(ax, ncols=3)
