"""Prop. 1: λ → 0 on a fixed interval of time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers._paths import flat
from afterfit.papers.boursier2025 import PAPER
from afterfit.papers.boursier2025.decays import LINES, decayed, falls_like, kept, label, tends_to_0

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Prop1"]

_INTERVALS = (1.0, 10.0, 100.0)  # T; at the largest λ, λT is 0.1, and the distance still of first order in λ
_DECAYS = (1e-3, 1e-4, 1e-5, 1e-6)
_LATER = 5.0  # the runs end at λt = 5 for the smallest λ
_Settings = Mapping[str, Mapping[float, "af.Run"]]


class Prop1(Entry):
    paper, name = PAPER, "prop1"
    title = "On a fixed interval, weight decay λ → 0 changes nothing"
    where = "Prop. 1, §4.1"
    about = (
        "Gradient flow with weight decay λ and without, from the same start, on the paper's two non-convex examples: "
        "the diagonal net u² − v² and matrix completion by UVᵀ with r = m + n columns. On [0, T], for T = 1, 10 and "
        "100, the paths of the parameters come together as λ → 0, like λ, as the Grönwall bound (9) has it; on [0, ∞) "
        "they do not. Paths are compared in all parameters, kept at a grid of times; the picture shows the predictor "
        "or its singular values."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment]]:
        n, d, sparsity, size = (10, 30, 3, 10) if scale == "paper" else (5, 12, 1, 6)
        flow = af.Experiment(
            task=af.tasks.SparseRegression(n=n, d=d, sparsity=sparsity),
            model=af.models.DiagonalNet(depth=2),
            penalty=af.penalties.L2(0.0),
            # In the parameters themselves, not in the dual variables of a diagonal net. Tolerances are tight, since
            # the distance to measure is of order λ.
            dynamics=af.dynamics.GradientFlow(
                until=_LATER / _DECAYS[-1], first=1e-3, rtol=1e-9, atol=1e-12, method="implicit"
            ),
            init=af.inits.Gaussian(1.0),
            observations=50,
            checkpoints=tuple(_times(scale)),
        )
        completion = dataclasses.replace(
            flow,
            task=af.tasks.MatrixCompletion(size, size, 1, observed=0.5),
            model=af.models.MatrixFactorisation(2 * size),
        )
        return {
            name: {decay: posed.set({"penalty.strength": decay}) for decay in (*_DECAYS, 0.0)}
            for name, posed in (("diagonal_net", flow), ("matrix_completion", completion))
        }

    def picture(self, diagonal_net: Mapping[float, af.Run], matrix_completion: Mapping[float, af.Run]) -> Figure:
        figure = af.plot.Figure(figsize=(11, 4.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        _show_gaps(left, diagonal_net, "weights")
        left.set(ylabel=r"$\|\beta^\lambda(t)-\beta^\mathrm{GF}(t)\|$, $\beta=u^2-v^2$")
        left.set_title("diagonal net", pad=18)  # above the phases' labels
        _show_gaps(right, matrix_completion, "singular_values")
        right.set(ylabel=r"$\|\sigma(t)-\sigma^\mathrm{GF}(t)\|$, $\sigma$ of $UV^\top$")
        right.set_title("matrix completion", pad=18)
        return figure

    @once
    def settings(self, diagonal_net: Mapping[float, af.Run], matrix_completion: Mapping[float, af.Run]) -> _Settings:
        return {"diagonal net": diagonal_net, "matrix completion": matrix_completion}

    @once
    def apart(self, settings: _Settings, scale: str) -> dict[str, _Apart]:
        """How far the flows of each setting are from that without weight decay, on each [0, T]."""
        return {name: _apart(group, _times(scale)) for name, group in settings.items()}

    @once
    def later(self, settings: _Settings) -> dict[str, np.ndarray]:
        """How far they are from it at the end of the runs, by λ."""
        return {
            name: np.array([np.linalg.norm(flat(run) - flat(group[0.0])) for run in decayed(group).values()])
            for name, group in settings.items()
        }

    @claim(
        "diagonal net: the largest ‖w^λ − w^GF‖ on [0, T] tends to 0 with λ",
        says="uniform convergence on [0, T] for every T",
    )
    def diagonal_nets_converge(self, apart: Mapping[str, _Apart]) -> Finding:
        return _converge(apart["diagonal net"])

    @control(diagonal_nets_converge, "to t = 5/λ of the smallest λ")
    def diagonal_nets_part(self, apart: Mapping[str, _Apart], later: Mapping[str, np.ndarray]) -> Finding:
        return _converge(apart["diagonal net"].with_sups({"to the end": later["diagonal net"]}))

    @claim(
        "matrix completion: the largest ‖w^λ − w^GF‖ on [0, T] tends to 0 with λ",
        says="uniform convergence on [0, T] for every T",
    )
    def matrices_converge(self, apart: Mapping[str, _Apart]) -> Finding:
        return _converge(apart["matrix completion"])

    @control(matrices_converge, "to t = 5/λ of the smallest λ")
    def matrices_part(self, apart: Mapping[str, _Apart], later: Mapping[str, np.ndarray]) -> Finding:
        return _converge(apart["matrix completion"].with_sups({"to the end": later["matrix completion"]}))

    @claim("it falls like λ", says="O(λ), by Grönwall's inequality (9)")
    def falls_like_decay(self, apart: Mapping[str, _Apart]) -> Finding:
        return falls_like(_DECAYS, _named(apart))

    @control(falls_like_decay, "distances to t = 5/λ of the smallest λ")
    def does_not_fall(self, later: Mapping[str, np.ndarray]) -> Finding:
        return falls_like(_DECAYS, later)

    @control(falls_like_decay, "distances that fall like √λ")
    def falls_less(self, apart: Mapping[str, _Apart]) -> Finding:
        return falls_like(_DECAYS, {name: np.sqrt(sup) for name, sup in _named(apart).items()})

    @claim(
        "it is below the bound (9)",
        says="sup ‖w^λ − w^GF‖ ≤ λT·e^{cT}·sup ‖w‖, c a Lipschitz constant of ∇F",
    )
    def bounded(self, apart: Mapping[str, _Apart]) -> Finding:
        return _below(apart, 1.0)

    @control(bounded, "half of that bound")
    def not_by_half(self, apart: Mapping[str, _Apart]) -> Finding:
        return _below(apart, 0.5)

    @claim(
        "on [0, ∞) the convergence is not uniform",
        says="uniform convergence only holds on finite intervals, not on R₊",
    )
    def parts_later(self, apart: Mapping[str, _Apart], later: Mapping[str, np.ndarray]) -> Finding:
        return _part(apart, later, "end of the runs")

    @control(parts_later, "the same on [0, 100]")
    def not_yet(self, apart: Mapping[str, _Apart]) -> Finding:
        return _part(apart, {name: seen.sups[_INTERVALS[-1]] for name, seen in apart.items()}, "T = 100")


@dataclasses.dataclass(frozen=True)
class _Apart:
    """At so many `times`: the largest ‖w^λ − w^GF‖ for each λ by interval, and the `size`, sup ‖w‖ over all flows."""

    times: int
    sups: Mapping[float | str, np.ndarray]
    size: float

    def with_sups(self, sups: Mapping[float | str, np.ndarray]) -> _Apart:
        return dataclasses.replace(self, sups=sups)


def _times(scale: str) -> np.ndarray:
    """A grid of times with every T in it."""
    return np.geomspace(_INTERVALS[0] / 100, _INTERVALS[-1], 33 if scale == "paper" else 9)


def _apart(group: Mapping[float, af.Run], times: np.ndarray) -> _Apart:
    paths = {decay: kept(run, times) for decay, run in group.items()}
    gaps = {decay: np.linalg.norm(path - paths[0.0], axis=1) for decay, path in decayed(paths).items()}
    return _Apart(
        times=len(times),
        sups={T: np.array([gap[times <= T * (1 + 1e-9)].max() for gap in gaps.values()]) for T in _INTERVALS},
        size=max(np.linalg.norm(path, axis=1).max() for path in paths.values()),
    )


def _named(apart: Mapping[str, _Apart]) -> dict[str, np.ndarray]:
    return {f"{name}, T={T:g}": sup for name, seen in apart.items() for T, sup in seen.sups.items()}


def _converge(seen: _Apart) -> Finding:
    """Whether the largest distance on each interval tends to 0 with λ."""
    named = {T if isinstance(T, str) else f"T={T:g}": sup for T, sup in seen.sups.items()}
    found = tends_to_0(_DECAYS, named, seen.size)
    return Finding(f"{seen.times} times, {found.measured}", found.holds)


def _below(apart: Mapping[str, _Apart], factor: float) -> Finding:
    """Whether all distances are below factor·λT·sup ‖w‖: at factor 1 the bound with c = 0, below it for any c."""
    shares = {
        f"{name}, T={T:g}": np.max(sup / np.array(_DECAYS)) / (factor * float(T) * seen.size)
        for name, seen in apart.items()
        for T, sup in seen.sups.items()
    }
    return Finding(
        f"largest share of {factor:g}·λT·sup ‖w‖, the bound without e^{{cT}}: "
        + ", ".join(f"{share:.3g} ({name})" for name, share in shares.items()),
        all(share <= 1 for share in shares.values()),
    )


def _part(apart: Mapping[str, _Apart], gaps: Mapping[str, np.ndarray], when: str) -> Finding:
    """Whether distances stay with λ → 0: at least a tenth of ‖w‖, and the last at least half of the first."""
    return Finding(
        f"‖w^λ − w^GF‖/sup ‖w‖ at {when}, λ from {_DECAYS[0]:g} to {_DECAYS[-1]:g}: "
        + "; ".join(
            ", ".join(f"{gap / apart[name].size:.2g}" for gap in group) + f" ({name})" for name, group in gaps.items()
        ),
        all(min(group) >= 0.1 * apart[name].size and group[-1] >= 0.5 * group[0] for name, group in gaps.items()),
    )


def _show_gaps(ax: Axes, group: Mapping[float, af.Run], curve: str) -> None:
    """How far what flows record is from that of the flow without weight decay, over time."""
    free = group[0.0]
    t = free.curves["time"].values[1:]
    gaps = {
        decay: np.linalg.norm((run.curves[curve] - free.curves[curve]).values[1:], axis=1)
        for decay, run in decayed(group).items()
    }
    for style, (decay, gap) in zip(LINES, gaps.items(), strict=False):
        ax.plot(t, gap, **style, label=label(decay))
    early, smallest = t <= 1, gaps[min(gaps)]
    ax.plot(t[early], 0.3 * smallest[0] * t[early] / t[0], color="#D55E00", ls=":", label=r"slope 1 in $t$")
    ax.axvspan(t[0], _INTERVALS[-1], color="0.93", zorder=0, label="[0, T]")
    ax.set(yscale="log")
    af.plot.log_time_axes(ax)
    ax.set_xlim(t[0], t[-1])
    af.plot.mark_phases(ax, free.verdict)
    af.plot.legend_below(ax, ncols=3)
