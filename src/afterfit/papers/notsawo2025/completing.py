"""Matrix completion under the nuclear norm: the settings of Figs 5, 6 and 29, and what is claimed of Fig. 5's run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, correction, once, passing
from afterfit.papers.notsawo2025.fading import (
    alpha_of,
    as_closely,
    between,
    crossing,
    die_in_turn,
    falls_by,
    fits_at_rate,
    gradient_ratio,
    in_proportion,
    moving_part,
    norm_settles,
    of_order,
    over_time,
)
from afterfit.papers.notsawo2025.matrices import Recovered, judged, span

__all__ = ["SETTINGS", "Completion", "Setting"]


class Setting(NamedTuple):
    """n₁ = n₂ = n, rank r, N entries (and as many as in the text), α and β of Fig. 5, its goal and its steps."""

    n: int
    rank: int
    N: int
    N_text: int
    N_few: int  # with which the convex program finds A* on fewer draws than with N
    alpha: float
    beta: float
    goal: float
    steps: int
    observations: tuple[int, int]  # of the run of Fig. 5, and of others
    seeds: tuple[int, ...]  # the first, from 1 on at paper scale, on which the convex program finds A*
    alphas: tuple[float, ...]  # of Figs 6 and 29
    betas: tuple[float, ...]  # by descent, with every α
    beyond: tuple[float, ...]  # by descent, with α = 1
    slow: tuple[float, ...]  # by the flow with kinks; at quick scale by descent with α = 1, as it takes long to compile
    draws: int  # on which it is asked where descent ends, and
    programs: int  # whether the convex program finds A*


SETTINGS = {
    # §3.2 but for N, which is 80 in cell 23 of the notebook that makes the figure; α and β of Figs 6 and 29 from cells
    # 29 to 38, where β goes down to 10⁻⁶ with every α. 10⁷ steps there; the run is at rest well before.
    "paper": Setting(
        n=10,
        rank=2,
        N=80,
        N_text=70,
        N_few=70,
        alpha=0.1,
        beta=1e-4,
        goal=1e-4,
        steps=2_500_000,
        observations=(400, 200),
        seeds=(5, 6, 7),
        alphas=(0.0825, 0.1, 0.75, 0.825, 1.0, 1.5),
        betas=(1e-4, 1e-3, 1e-2),
        beyond=(1e-5,),
        slow=(1e-3, 1e-4, 1e-5, 1e-6),
        draws=40,
        programs=250,
    ),
    # Runs of about equal αβ go together, three at a time, so that one program is compiled: that takes long enough.
    "quick": Setting(
        n=6,
        rank=1,
        N=26,
        N_text=26,
        N_few=18,
        alpha=0.2,
        beta=2e-3,
        goal=3e-3,
        steps=60_000,
        observations=(400, 400),
        # 1, 2, 4, 5, 7 and 8 were seen before criteria or settings were changed; 11 is not at rest after so many steps.
        seeds=(13,),
        alphas=(0.2, 0.2 * 10**0.5),
        betas=(2e-3, 2e-3 * 10**0.5, 2e-2),
        beyond=(),
        slow=(2e-3 / 10**0.5, 2e-3, 2e-3 * 10**0.5, 2e-3 * 10**0.85, 2e-2),
        draws=20,
        programs=24,
    ),
}


class Completion(Entry):
    """What is claimed of the run of Fig. 5. The entry declares it, `run`, and the same with β = 0, `free`."""

    @once
    def verdict(self, run: af.Run, scale: str) -> af.Verdict:
        """What the run shows by the thresholds of the notebook."""
        return judged(run, SETTINGS[scale].goal)

    @once
    def t1(self, verdict: af.Verdict) -> float:
        """When the entries are fitted."""
        return verdict.t_fit or np.inf

    @once
    def t2(self, verdict: af.Verdict) -> float:
        """When A* is recovered."""
        return verdict.t_gen or np.inf

    @claim(
        "the training error ‖X vec(A) − y*‖₂ first comes down to the order of β",
        says={"paper": "first decreases to 10⁻⁴, with β = 10⁻⁴", "quick": "first decreases to 10⁻⁴, which is β"},
        changed="At first it was asked of all observations between t₁ and t₂ but the first quarter of them; after a "
        "look at pilots it is of those from 2t₁ on. Measured on other draws.",
    )
    def fits_first(self, run: af.Run, t1: float, t2: float) -> Finding:
        return of_order(run, t1, t2, run.spec["penalty"]["strength"])

    @control(fits_first, "β = 0")
    def fits_exactly(self, run: af.Run, free: af.Run, t1: float, t2: float) -> Finding:
        return of_order(free, t1, t2, run.spec["penalty"]["strength"])

    @claim("recovery comes much later", says="after a long training time")
    def recovers_late(self, run: af.Run, scale: str) -> Finding:
        # Two decades of time, which are to be seen on the figure's logarithmic axis.
        verdict, alpha = judged(run, SETTINGS[scale].goal), alpha_of(run)
        t1, t2 = (t or np.inf for t in (verdict.t_fit, verdict.t_gen))
        return Finding(
            f"t₁={t1:.3g} (step {t1 / alpha:.3g}), t₂={t2:.3g} (step {t2 / alpha:.3g}): {verdict.kind}",
            verdict.kind == "grokking" and t2 > 100 * t1,
        )

    @control(recovers_late, "β = 0")
    def never_recovers(self, free: af.Run, scale: str) -> Finding:
        return self.recovers_late(free, scale)

    @claim(
        "the recovery error comes down to the training error",
        says="the recovery error decreases and matches the training error",
    )
    def recovers_as_closely(self, run: af.Run) -> Finding:
        return as_closely(run, np.inf)

    @control(recovers_as_closely, "at t₁")
    def fits_more_closely(self, run: af.Run, t1: float) -> Finding:
        return as_closely(run, t1)

    @control(recovers_as_closely, "β = 0")
    def fits_alone(self, free: af.Run) -> Finding:
        return as_closely(free, np.inf)

    @claim(
        "G dominates βH until memorisation, log(‖y*‖/(β√n))/log(1/(1 − α)) steps",
        says="G dominates βH until memorisation (t ≤ t₁); t₁ is logarithmic in 1/(αβ), at the rate ρ₂ (Thm 3.4)",
    )
    def fits_at_its_rate(self, cells: list[Recovered]) -> Finding:
        return fits_at_rate([c.run for c in cells if c.alpha < 0.8], crossing)

    @control(fits_at_its_rate, "t₂")
    def recovers_at_its_rate(self, cells: list[Recovered]) -> Finding:
        return fits_at_rate(
            [c.run for c in cells if c.alpha < 0.8], lambda run: next(c.t2 for c in cells if c.run is run)
        )

    @claim("from memorisation on βH dominates G", says="from memorisation βH(A) dominates (caption of Fig. 5)")
    def penalty_dominates(self, run: af.Run, t2: float) -> Finding:
        # To dominate is to be ten times as large, as G is for most of the time before t₁.
        ratio = gradient_ratio(run)[between(run, 2 * alpha_of(run) * crossing(run), t2)]
        return Finding(f"β‖H‖ is {1 / ratio.max():.2f} to {1 / ratio.min():.2f} times ‖G‖", ratio.max() <= 0.1)

    @correction(
        penalty_dominates,
        "from memorisation on the two are of one size, √(r/n) ≤ ‖G‖/(β‖H‖) ≤ 1",
        why="G = P(A − A*) is a mean of the −βPH of the last steps, so that ‖G‖ ≤ β‖H‖; at the end −G is β times a "
        "subgradient at A*, of norm √r at least, and ‖H‖ = √n. Only what βH has on the other entries moves A.",
        touches="No: that the penalty alone moves A along the matrices that fit holds of that part of βH.",
        where="caption of Fig. 5; §3.2, Generalization",
    )
    def penalty_balances(self, run: af.Run, t2: float, scale: str) -> Finding:
        s = SETTINGS[scale]
        ratio = gradient_ratio(run)[between(run, 2 * alpha_of(run) * crossing(run), t2)]
        least = float(np.sqrt(s.rank / s.n))
        return Finding(
            f"‖G‖/(β‖H‖) from {ratio.min():.3f} to {ratio.max():.3f} between twice the crossing and t₂; √(r/n) = "
            f"{least:.2f}",
            least <= ratio.min() and ratio.max() <= 1.001,  # what is left of the fit is β there, a thousandth at most
        )

    @claim("‖A‖_* converges to ‖A*‖_* at t₂", says="‖A‖_* converges to ‖A*‖_* at t₂ = t₁ + Δt")
    def norm_converges(self, run: af.Run, t1: float, t2: float) -> Finding:
        return norm_settles(run, t1, t2)

    @control(norm_converges, "a third of t₂")
    def norm_on_its_way(self, run: af.Run, t1: float, t2: float) -> Finding:
        return norm_settles(run, t1, t2 / 3)

    @control(norm_converges, "β = 0")
    def norm_stays(self, free: af.Run, t1: float, t2: float) -> Finding:
        return norm_settles(free, t1, t2)

    @claim(
        "singular values die one by one until r are left",
        says="the small singular value after memorization converges to 0, followed by the next smaller one until "
        "‖A‖_* ≈ ‖A*‖_*",
        fails={
            "paper": "Eight die, the last five times as late as the first, but three of them, of 0.77, 0.87 and 0.97 "
            "after the fit, within one observation, 4 % of the time."
        },
    )
    def die_from_the_smallest(self, run: af.Run, t1: float, t2: float, scale: str) -> Finding:
        return die_in_turn(
            run, run.curves["singular_values"].values, t1, t2, SETTINGS[scale].rank, SETTINGS[scale].beta
        )

    @passing(die_from_the_smallest, "singular values that are made up, and fall by αβ a step, as in the text")
    def die_as_printed(self, run: af.Run, t1: float, t2: float, scale: str) -> Finding:
        s, values, time = SETTINGS[scale], run.curves["singular_values"].values.copy(), run.curves["time"].values
        start = int(np.argmax(time >= t1))
        fallen = s.beta * (time[start:, None] - time[start])
        values[start:, s.rank :] = np.maximum(values[start, s.rank :] - fallen, 0)
        return die_in_turn(run, values, t1, t2, s.rank, s.beta)

    @control(die_from_the_smallest, "singular values that are made up, and shrink in proportion with ‖A‖_* − ‖A*‖_*")
    def die_together(self, run: af.Run, t1: float, t2: float, scale: str) -> Finding:
        s = SETTINGS[scale]
        return die_in_turn(run, in_proportion(run, t1, s.rank), t1, t2, s.rank, s.beta)

    @control(die_from_the_smallest, "β = 0")
    def none_dies(self, free: af.Run, t1: float, t2: float, scale: str) -> Finding:
        s = SETTINGS[scale]
        return die_in_turn(free, free.curves["singular_values"].values, t1, t2, s.rank, s.beta)

    @once
    def slowest(self, cells: list[Recovered]) -> list[af.Run]:
        """The run with the smallest αβ on every draw."""
        return list({c.seed: c.run for c in sorted(cells, key=lambda c: -c.product)}.values())

    @claim(
        "they die in the course of time: the last is dead three times as late as the first or later, on every draw",
        says="a multiscale singular value decay phenomenon",
        changed="It is a part of the row before, asked of all draws after that had failed at paper scale, on draw 5; 6 "
        "and 7 had not been seen.",
    )
    def die_over_time(self, slowest: list[af.Run], scale: str) -> Finding:
        return over_time([(run, run.curves["singular_values"].values) for run in slowest], SETTINGS[scale].rank)

    @control(die_over_time, "singular values that are made up, and shrink in proportion with ‖A‖_* − ‖A*‖_*")
    def die_at_once(self, slowest: list[af.Run], scale: str) -> Finding:
        rank = SETTINGS[scale].rank
        return over_time([(run, in_proportion(run, alpha_of(run) * crossing(run), rank)) for run in slowest], rank)

    @claim(
        "after memorisation every singular value of A − A* falls by αβ a step",
        says="σᵢ(A⁽ᵗ⁺¹⁾ − A*) = |σᵢ(A⁽ᵗ⁾ − A*) − αβ|, approximately, once G is negligible beside βH",
        changed="In what is to hold instead singular values at 0 counted in H at first. On a draw with one or two of "
        "them the rate was half of that, which was 1.8αβ. They do not count now. And the rate was that from βt = 0.02 "
        "to 0.07, in which singular values die: 1.95αβ beside 1.55αβ on a pilot. It is that to 0.03 now, within 3 % on "
        "five pilots. Measured on other draws.",
    )
    def fall_alike(self, run: af.Run) -> Finding:
        # Approximately is to a quarter of it, for those that are not 0.
        earlier, later, passed = falls_by(run)
        values = [np.linalg.svd(A - run.data.truth, compute_uv=False) for A in (earlier, later)]
        present = values[0] > 3 * passed
        start, end = run.checkpoints.times * run.spec["penalty"]["strength"]
        falls = ((values[0] - values[1]) / passed)[present]
        return Finding(
            f"{present.sum()} of them, between βt = {start:.2g} and {end:.2g}: {span(falls.tolist())} times αβ a step",
            bool(np.all(np.abs(falls - 1) <= 0.25)),
        )

    @correction(
        fall_alike,
        "‖A‖_* falls by αβ‖(1 − P)(H + W)‖² a step, 1 − P being the entries that are not observed, and W what keeps "
        "at 0 the singular values that are there",
        why="Once the entries are fitted G = −βPH to first order, so that a step moves A by −αβ(1 − P)H; the nuclear "
        "norm changes by the scalar product of that with H.",
        touches="The number of steps, by the factor that (1 − P)H is smaller than H; not that it is of order 1/(αβ).",
        where="§3.2, Generalization",
    )
    def norm_falls(self, run: af.Run) -> Finding:
        # The rate changes on the way, of which the mean of both ends is taken: to a fifth.
        earlier, later, passed = falls_by(run)
        fall = float(np.linalg.norm(earlier, "nuc") - np.linalg.norm(later, "nuc")) / passed
        level = 10 * alpha_of(run) * run.spec["penalty"]["strength"]
        told = float(np.mean([np.sum(moving_part(run.data, A, level) ** 2) for A in (earlier, later)]))
        return Finding(
            f"‖A‖_* falls by {fall:.3g}αβ a step, ‖(1 − P)(H + W)‖² is {told:.3g} and ‖H‖² {len(earlier)}",
            abs(fall / told - 1) <= 0.2,
        )
