"""How long runs under the nuclear norm take and how close they come: laws over α, β and draws, as in Figs 6 and 29."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import Interval, power_law, relative_distance, share
from afterfit.papers.notsawo2025.matrices import (
    EXACT,
    Recovered,
    along,
    gap,
    grouped,
    least_nuclear,
    least_penalised_error,
    span,
)

__all__ = [
    "End",
    "alike",
    "ends_at",
    "faster_and_worse",
    "inverse",
    "is_near",
    "more_often",
    "near_the_program_s",
    "norm_law",
    "on_some",
    "slow_law",
    "takes_too_long",
]

_MOST = 10_000_000  # steps of a run of Fig. 6
_NEAR = 0.05  # how near an exponent is to be: over two decades, observations that far apart make 0.015
_ALIKE = 1.1  # numbers that differ by less are the same: observations are 3 to 7 % apart
_FOUND = 0.05  # a distance, relative to A*, that counts as none where the penalty is ten times as strong
_NORMS: dict[str, float | str] = {"‖·‖_{2→2}": 2, "‖·‖_F": "fro", "‖·‖_*": "nuc"}


class End(NamedTuple):
    """What is to be had of a draw: the matrix of least nuclear norm that fits, and A*."""

    program: np.ndarray
    truth: np.ndarray

    @classmethod
    def of(cls, data: af.tasks.Data) -> End:
        """By the convex program."""
        return cls(least_nuclear(data), np.asarray(data.truth))

    @property
    def recovers(self) -> bool:
        """Whether the two are the same."""
        return relative_distance(self.program, self.truth) <= EXACT


def is_near(law: Interval, exponent: float) -> bool:
    """Whether the interval is within 0.05 of an exponent."""
    return exponent - _NEAR <= law.low and law.high <= exponent + _NEAR


def inverse(cells: Sequence[Recovered], time: Callable[[Recovered], float]) -> Finding:
    """Whether times go like 1/α along α and like 1/β along β."""
    # Along α and along β by itself: an exponent of −1 in both is 1/(αβ), and no other.
    groups = {
        knob: [group for group in grouped(cells, "seed", fixed) if len(group) > 1]
        for knob, fixed in (("alpha", "beta"), ("beta", "alpha"))
    }
    if not all(groups.values()):
        return Finding("too few runs for a law", False)
    laws = {knob: along(each, lambda c, knob=knob: getattr(c, knob), time) for knob, each in groups.items()}
    return Finding(
        f"steps ∝ α^p β^q with p = {laws['alpha']} and q = {laws['beta']}, αβ {span([c.product for c in cells])}",
        all(is_near(law, -1) for law in laws.values()),
    )


def slow_law(cells: Sequence[Recovered], slow_times: dict[float, float], time: Callable[[Recovered], float]) -> Finding:
    """Whether times of small β go like 1/β, and those of other runs with the same β and draw are the same."""
    # Runs with other α follow the same flow, the better the smaller their steps: to a tenth, on the same draw.
    seed = cells[0].seed
    ratios = [time(c) / slow_times[c.beta] for c in cells if c.seed == seed and c.beta in slow_times]
    law = power_law(list(slow_times), list(slow_times.values()))
    return Finding(
        f"training time ∝ β^p with p = {law}, β {span(list(slow_times))}; that of the other runs is {span(ratios)} "
        f"times this on {len(ratios)} pairs α, β",
        max(ratios) <= _ALIKE and min(ratios) >= 1 / _ALIKE and is_near(law, -1),
    )


def takes_too_long(slow_times: dict[float, float], alpha: float, beta: float) -> Finding:
    """Whether 10⁷ steps are too few, by the nearest β and the law of the row on small ones."""
    nearest = min(slow_times, key=lambda β: abs(np.log(β / beta)))
    needed = slow_times[nearest] * nearest / (alpha * beta)
    return Finding(f"t₂ is step {needed:.2g} for α = {alpha:g}, β = {beta:.0e} (by β = {nearest:.1e})", needed > _MOST)


def alike(cells: Sequence[Recovered], value: Callable[[Recovered], float]) -> Finding:
    """Whether runs with equal αβ have the same value, whatever α."""
    groups = [[value(c) for c in group] for group in grouped(cells, "seed", "product") if len(group) > 1]
    spread = [max(group) / min(group) for group in groups]
    return Finding(
        f"{len(groups)} times runs with equal αβ and other α: they differ by a factor {span(spread)}",
        max(spread) <= _ALIKE,
    )


def norm_law(draws: Sequence[Recovered], times: np.ndarray) -> Finding:
    """Whether times of draws are proportional to ‖Â − A*‖_{2→2}; what other norms would do is said."""
    # Proportional is by one factor, to a tenth: as near as t₂ is to 1/(αβ).
    norms = {name: np.array([gap(c.run.data, of) for c in draws]) for name, of in _NORMS.items()}
    scatter = {name: float(np.std(np.log(times / far))) for name, far in norms.items()}
    return Finding(
        f"{len(draws)} draws: αβt₂/‖Â − A*‖_{{2→2}} is {span((times / norms['‖·‖_{2→2}']).tolist())}; standard "
        f"deviation of log αβt₂/‖Â − A*‖: {', '.join(f'{each:.2f} ({name})' for name, each in scatter.items())}",
        scatter["‖·‖_{2→2}"] <= 0.1,
    )


def faster_and_worse(of: dict[str, tuple[list[list[Recovered]], str]]) -> Finding:
    """Whether along a knob t₂ falls and the error at the end grows."""
    laws = {
        knob: [
            along([g for g in groups if len(g) > 1], lambda c, name=name: getattr(c, name), value)
            for value in (lambda c: c.t2, lambda c: c.test)
        ]
        for knob, (groups, name) in of.items()
    }
    return Finding(
        "; ".join(
            f"along {knob} t₂ has the exponent {t2} and ‖A − A*‖_F {distance}" for knob, (t2, distance) in laws.items()
        ),
        all(t2.high < 0 < distance.low for t2, distance in laws.values()),
    )


def near_the_program_s(group: Sequence[Recovered]) -> Finding:
    """Whether errors at the end, with one β on one draw, are those of the convex program, and a little more."""
    # Singular values at 0 step by αβ, which adds about α times Cβ: so it is above the program's by a share of α at most
    # for the smallest α, and grows with α.
    first, *_, last = group = sorted(group, key=lambda c: c.alpha)
    own = least_penalised_error(first.run.data, first.beta)
    by_alpha = ", ".join(f"{c.test / c.beta:.3g} (α = {c.alpha:.3g})" for c in group)
    return Finding(
        f"‖A − A*‖_F/(β‖A*‖_F), β = {first.beta:.0e}: {own / first.beta:.3g} by the program, {by_alpha}",
        0.99 * own <= first.test <= (1 + first.alpha) * own and last.test > first.test,
    )


def ends_at(runs: Sequence[af.Run], name: str, goals: Sequence[np.ndarray]) -> Finding:
    """Whether runs end where they should, on nine draws of ten."""
    # To 5 % of A*: the penalty leaves about β of it, and a few draws take much longer than others.
    apart = [
        float(np.linalg.norm(run.params["weights"] - goal) / np.linalg.norm(run.data.truth))
        for run, goal in zip(runs, goals, strict=True)
    ]
    near = share(sum(each <= _FOUND for each in apart), len(apart))
    return Finding(
        f"within {_FOUND:.0%} of {name} on a share {near} of {len(apart)} draws, {np.median(apart):.2g} from it in the "
        f"median and {max(apart):.2g} at most",
        near.value >= 0.9,
    )


def more_often(N: int, often: Sequence[bool], fewer: int, rarely: Sequence[bool]) -> Finding:
    """Whether one share of draws is above another: their intervals do not meet."""
    high, low = (share(sum(hits), len(hits)) for hits in (often, rarely))
    return Finding(
        f"a share {high} of {len(often)} draws with N = {N}, {low} of {len(rarely)} with N = {fewer}",
        high.low > low.high,
    )


def on_some(hits: Sequence[bool]) -> Finding:
    """Whether something is so on some draws and not on others: the interval of its share is within 5 and 95 %."""
    found = share(sum(hits), len(hits))
    return Finding(f"on a share {found} of {len(hits)} draws", found.low > 0.05 and found.high < 0.95)
