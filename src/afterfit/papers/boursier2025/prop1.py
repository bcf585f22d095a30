"""Prop. 1: λ → 0 on a fixed interval of time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers._measure import relative_distance
from afterfit.papers._paths import flat, parameters_at
from afterfit.papers.boursier2025 import PAPER
from afterfit.papers.boursier2025.decays import LINES, decayed, falls, falls_like, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Prop1"]

_T = 1.0
_DECAYS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # of the runs to T
_Settings = Mapping[str, Mapping[float, "af.Run"]]


class Prop1(Entry):
    paper, name = PAPER, "prop1"
    title = "On a fixed interval, weight decay λ → 0 changes nothing"
    where = "Prop. 1, §4.1"
    about = (
        "Gradient flow with weight decay λ and without, from the same start, on the paper's two non-convex examples: "
        "the diagonal net u² − v² and matrix completion by UVᵀ with r = m + n columns. On [0, T] the paths of the "
        "parameters come together as λ → 0, like λ, as the Grönwall bound (9) has it; on [0, ∞) they do not. The "
        "paths are compared at a grid of times, by runs to each of them; the picture shows what runs record along the "
        "way, the predictor or its singular values."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment]]:
        if scale == "paper":
            n, d, sparsity, size, decays = 10, 30, 3, 10, (1e-2, 1e-3, 1e-4)
        else:
            n, d, sparsity, size, decays = 5, 12, 1, 6, (1e-1, 1e-2, 1e-3)
        flow = af.Experiment(
            task=af.tasks.SparseRegression(n=n, d=d, sparsity=sparsity),
            model=af.models.DiagonalNet(depth=2),
            penalty=af.penalties.L2(0.0),
            dynamics=af.dynamics.GradientFlow(until=5 / decays[-1], first=1e-3, rtol=1e-5),
            init=af.inits.Gaussian(1.0),
            observations=50,
        )
        completion = dataclasses.replace(
            flow,
            task=af.tasks.MatrixCompletion(size, size, 1, observed=0.5),
            model=af.models.MatrixFactorisation(2 * size),
        )
        return {
            name: {decay: posed.set({"penalty.strength": decay}) for decay in (*decays, 0.0)}
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
    def apart(self, settings: _Settings, scale: str, progress: bool | None) -> dict[str, _Apart]:
        """How far the flows of each setting are from that without weight decay, on [0, T]."""
        times = np.geomspace(_T / 100, _T, 32 if scale == "paper" else 8)
        return {name: _apart(group[0.0].experiment, times, self.id, progress) for name, group in settings.items()}

    @claim(
        "diagonal net: the largest ‖w^λ − w^GF‖ on [0, T] tends to 0 with λ",
        says="uniform convergence on [0, T] for every T",
    )
    def diagonal_nets_converge(self, apart: Mapping[str, _Apart]) -> Finding:
        return _converge(apart["diagonal net"])

    @claim(
        "matrix completion: the largest ‖w^λ − w^GF‖ on [0, T] tends to 0 with λ",
        says="uniform convergence on [0, T] for every T",
    )
    def matrices_converge(self, apart: Mapping[str, _Apart]) -> Finding:
        return _converge(apart["matrix completion"])

    @claim("it falls like λ", says="O(λ), by Grönwall's inequality (9)")
    def falls_like_decay(self, apart: Mapping[str, _Apart]) -> Finding:
        return falls_like(_DECAYS, {name: seen.sups for name, seen in apart.items()})

    @claim(
        "it is below the bound (9)",
        says="sup ‖w^λ − w^GF‖ ≤ λT·e^{cT}·sup ‖w‖, c a Lipschitz constant of ∇F",
    )
    def bounded(self, apart: Mapping[str, _Apart]) -> Finding:
        shares = {name: np.max(seen.sups / np.array(_DECAYS)) / (_T * seen.size) for name, seen in apart.items()}
        return Finding(
            "largest share of λT·sup ‖w‖, which is the bound with c = 0 and so below it for any c: "
            + ", ".join(f"{share:.3g} ({name})" for name, share in shares.items()),
            all(share <= 1 for share in shares.values()),
        )

    @claim(
        "on [0, ∞) the convergence is not uniform",
        says="uniform convergence only holds on finite intervals, not on R₊",
    )
    def parts_later(self, settings: _Settings) -> Finding:
        gaps = {
            name: [relative_distance(flat(run), flat(group[0.0])) for run in decayed(group).values()]
            for name, group in settings.items()
        }
        t = settings["diagonal net"][0.0].spec["dynamics"]["until"]
        return Finding(
            f"‖w^λ − w^GF‖/‖w^GF‖ at t={t:.3g}, λ falling to {5 / t:g}: "
            + "; ".join(", ".join(f"{gap:.2g}" for gap in group) + f" ({name})" for name, group in gaps.items()),
            all(min(group) >= 0.1 and group[-1] >= 0.5 * group[0] for group in gaps.values()),
        )


@dataclasses.dataclass(frozen=True)
class _Apart:
    """On [0, T], at so many `times`: the largest ‖w^λ − w^GF‖ for each λ, and the `size`, sup ‖w‖ over all flows."""

    times: int
    sups: np.ndarray
    size: float


def _apart(experiment: af.Experiment, times: np.ndarray, label: str, progress: bool | None) -> _Apart:
    paths = {
        decay: parameters_at(times, experiment.set({"penalty.strength": decay}), label, progress)
        for decay in (*_DECAYS, 0.0)
    }
    return _Apart(
        times=len(times),
        sups=np.array([np.linalg.norm(paths[decay] - paths[0.0], axis=1).max() for decay in _DECAYS]),
        size=max(np.linalg.norm(path, axis=1).max() for path in paths.values()),
    )


def _converge(seen: _Apart) -> Finding:
    """Whether the largest distance on [0, T] tends to 0 with λ."""
    return Finding(
        f"T={_T:g}, {seen.times} times: "
        + ", ".join(f"{sup:.2g} (λ={decay:g})" for sup, decay in zip(seen.sups, _DECAYS, strict=True))
        + f", beside ‖w‖ ≤ {seen.size:.3g}",
        falls(seen.sups) and seen.sups[-1] <= 1e-3 * seen.size,
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
    early, smallest = t <= _T, gaps[min(gaps)]
    ax.plot(t[early], 0.3 * smallest[0] * t[early] / t[0], color="#D55E00", ls=":", label=r"slope 1 in $t$")
    ax.axvspan(t[0], _T, color="0.93", zorder=0, label="[0, T]")
    ax.set(yscale="log")
    af.plot.log_time_axes(ax)
    ax.set_xlim(t[0], t[-1])
    af.plot.mark_phases(ax, free.verdict)
    af.plot.legend_below(ax, ncols=6)
