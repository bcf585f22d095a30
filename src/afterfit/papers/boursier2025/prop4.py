"""Props 3 and 4: t → ∞ first, then λ → 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers._measure import examples, log_slope, relative_distance
from afterfit.papers._paths import flat
from afterfit.papers.boursier2025 import PAPER
from afterfit.papers.boursier2025.decays import LINES, decayed, falls, label
from afterfit.papers.boursier2025.ends import EndPoint, end_point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Prop4"]

_MATRIX, _DENSE, _SPARSE = "matrix completion", "diagonal net, dense", "diagonal net, sparse"
_Group = Mapping[float, "af.Run"]
_Ends = Mapping[str, Mapping[float, EndPoint]]


class Prop4(Entry):
    paper, name = PAPER, "prop4"
    title = "First t → ∞, then λ → 0: the least norm on the manifold"
    where = "Props 3 and 4, §4.2; App. C"
    about = (
        "Gradient flow with weight decay λ is run to its end, for falling λ. The end points come to the manifold M of "
        "interpolating parameters, at a point where ½‖w‖² is stationary on M: far from where the unregularised flow "
        "ends. Three settings: completion of a matrix of full rank by UVᵀ with r = m + n columns, whose least-norm "
        "points are regular points of M but not isolated, since UQ and VQ serve as well for a rotation Q; the "
        "diagonal net u² − v² on dense data, whose least-norm point is regular and isolated; and on sparse data, "
        "where it is singular and no theorem holds (App. C, Dealing with singularities). A stationary point of "
        "F + λ/2·‖w‖² has w in the range of Jᵀ, J the Jacobian of the outputs, whatever λ is: so the gradient on M is "
        "taken at the nearest point of M, found by Gauss–Newton, and not at the end point itself. The picture's "
        "distances are from a convex solver's solution, whose singular values are right to about 10⁻⁵."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment]]:
        # Draws that are at their end by t = 40/λ. What ends at 0 does so at the rate λ(1 − dual), where for the
        # diagonal net the dual is |Xᵀν| off the support of the min-L1 solution: at most 0.62 here, but often near 1.
        if scale == "paper":
            n, d, size, decays, seeds = 8, 20, 6, (1e-2, 1e-3, 1e-4, 1e-5), (3, 1, 34)
        else:
            n, d, size, decays, seeds = 5, 12, 4, (1e-1, 1e-2, 1e-3), (2, 4, 29)
        matrix = af.tasks.MatrixCompletion(size, size, size, observed=0.6)
        dense = af.tasks.SparseRegression(n=n, d=d, sparsity=d, entries="gaussian")
        sparse = af.tasks.SparseRegression(n=n, d=d, sparsity=1)
        net = af.models.DiagonalNet(depth=2)
        return {
            "matrix": _flows(matrix, af.models.MatrixFactorisation(2 * size), decays, seeds[0]),
            "dense": _flows(dense, net, decays, seeds[1]),
            "sparse": _flows(sparse, net, decays, seeds[2]),
        }

    def picture(self, settings: Mapping[str, _Group]) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.6), layout="constrained")
        for ax, (setting, group) in zip(figure.subplots(1, 3), settings.items(), strict=True):
            _show_distances(ax, group)
            of = r"\sigma(UV^\top)" if setting == _MATRIX else r"\beta"
            ax.set(ylabel=f"relative distance of ${of}$ to that of least norm")
            ax.set_title(setting, pad=18)  # above the phases' labels
        return figure

    @once
    def settings(self, matrix: _Group, dense: _Group, sparse: _Group) -> dict[str, _Group]:
        return {_MATRIX: matrix, _DENSE: dense, _SPARSE: sparse}

    @once
    def ends(self, settings: Mapping[str, _Group]) -> _Ends:
        """The end of every run, by setting and λ."""
        return {name: {decay: end_point(run) for decay, run in group.items()} for name, group in settings.items()}

    @once
    def weakest(self, matrix: _Group) -> float:
        """The smallest λ but 0."""
        return min(decayed(matrix))

    @claim("the runs are at their end: ∇F(w) + λw = 0", says="the limit t → ∞ exists (Assumption 1)")
    def at_their_end(self, ends: _Ends) -> Finding:
        left = [end.unfinished for group in ends.values() for end in decayed(group).values()]
        return Finding(
            f"largest ‖∇F(w) + λw‖/‖λw‖ at t = 40/λ of {len(left)} runs: {max(left):.1g}",
            max(left) <= 1e-3,
        )

    @claim(
        "the end points come to the manifold at the rate λ",
        says="‖∇F(w^λ)‖ = O(λ), and so is the distance to M (App. A.4)",
    )
    def near_the_manifold(self, ends: _Ends, weakest: float) -> Finding:
        rates = [_rate({decay: end.distance for decay, end in decayed(group).items()}) for group in ends.values()]
        return Finding(
            f"distance/‖w‖ at λ={weakest:g}: "
            + ", ".join(f"{group[weakest].distance:.2g} ({name})" for name, group in ends.items())
            + "; log-log slopes "
            + ", ".join(f"{rate:.2f}" for rate in rates),
            all(abs(rate - 1) <= 0.15 for rate in rates),
        )

    @claim(
        "Prop. 3: the gradient of ½‖w‖² on the manifold tends to 0 with λ",
        says="limit points are KKT points of min ‖w‖² on M",
    )
    def stationary(self, ends: _Ends, weakest: float) -> Finding:
        matrix, dense = ends[_MATRIX], ends[_DENSE]
        slopes = {decay: end.slope for decay, end in decayed(matrix).items()}
        rate, steepest = _rate(slopes), max(end.slope for end in decayed(dense).values())
        return Finding(
            f"‖P∇h‖/‖∇h‖, λ falling: {_list(slopes)}, log-log slope {rate:.2f} ({_MATRIX}); at most {steepest:.1g} "
            f"({_DENSE}, where the nearest point is a KKT point for every λ); at the ends of the unregularised flows "
            f"{matrix[0.0].slope:.2g} and {dense[0.0].slope:.2g}; "
            f"rank of J {matrix[weakest].rank} of {matrix[weakest].outputs} and {dense[weakest].rank} of "
            f"{dense[weakest].outputs}",
            falls(list(slopes.values())) and abs(rate - 1) <= 0.15 and dense[weakest].slope <= 1e-3,
        )

    @claim(
        "Prop. 4, diagonal net on dense data: the limit is a strict minimum, that of min-L1",
        says="lim_λ lim_t w^λ(t) = w*",
    )
    def least_norm(self, dense: _Group, ends: _Ends, weakest: float) -> Finding:
        gaps, last = _gaps_to_min_l1(dense), ends[_DENSE][weakest]
        return Finding(
            f"‖w − w*‖/‖w*‖, λ falling: {_list(gaps)}, log-log slope {_rate(gaps):.2f}; least curvature of "
            f"½‖w‖² on M there {last.curvature:.2g}, rank of J {last.rank} of {last.outputs}",
            _comes_to_0(gaps) and last.curvature > 0 and last.rank == last.outputs,
        )

    @claim(
        "t → ∞ and λ → 0 do not commute",
        says="grokking is observed when the two limits cannot be exchanged",
    )
    def limits_differ(self, settings: Mapping[str, _Group], weakest: float) -> Finding:
        apart = {name: relative_distance(flat(group[weakest]), flat(group[0.0])) for name, group in settings.items()}
        return Finding(
            f"‖lim_t w^λ − lim_t w^GF‖/‖lim_t w^GF‖ at λ={weakest:g}: "
            + ", ".join(f"{gap:.2g} ({name})" for name, gap in apart.items()),
            min(apart.values()) >= 0.1,
        )

    @claim(
        "singular case: the end points come to the sparse point all the same",
        says="an open problem: M is no manifold at such points",
    )
    def least_norm_where_singular(self, sparse: _Group, ends: _Ends, weakest: float) -> Finding:
        gaps, last, free = _gaps_to_min_l1(sparse), ends[_SPARSE][weakest], ends[_SPARSE][0.0]
        return Finding(
            f"rank of J {last.rank} at the end, {free.rank} at that of the unregularised flow; ‖w − w*‖/‖w*‖, "
            f"λ falling: {_list(gaps)}, log-log slope {_rate(gaps):.2f}",
            last.rank < free.rank and _comes_to_0(gaps),
        )


def _flows(
    task: af.tasks.Task, model: af.models.Model, decays: tuple[float, ...], seed: int
) -> dict[float, af.Experiment]:
    return {
        decay: af.Experiment(
            task=task,
            model=model,
            penalty=af.penalties.L2(decay),
            dynamics=af.dynamics.GradientFlow(until=40 / (decay or decays[-1]), first=1e-3, rtol=1e-5),
            init=af.inits.Gaussian(1.0),
            seed=seed,
            observations=50,
        )
        for decay in (*decays, 0.0)
    }


def _gaps_to_min_l1(group: _Group) -> dict[float, float]:
    """‖w − w*‖/‖w*‖ at the ends of a diagonal net, w* = (√β₊, √β₋) with the signs of w and β the min-L1 solution."""
    best = af.theory.min_l1(*examples(group[0.0]))
    plus, minus = np.sqrt(np.maximum(best, 0)), np.sqrt(np.maximum(-best, 0))
    gaps = {}
    for decay, run in decayed(group).items():
        gap = np.concatenate([np.abs(run.params["plus"]) - plus, np.abs(run.params["minus"]) - minus])
        gaps[decay] = float(np.linalg.norm(gap) / np.sqrt(np.sum(np.abs(best))))
    return gaps


def _comes_to_0(gaps: Mapping[float, float]) -> bool:
    return falls(list(gaps.values())) and min(gaps.values()) <= 0.02


def _rate(by_decay: Mapping[float, float]) -> float:
    """The slope in λ, on log-log axes."""
    return log_slope(list(by_decay), list(by_decay.values()))


def _show_distances(ax: Axes, group: _Group) -> None:
    """How far the predictors are from that of least norm, over time, for every λ."""
    for style, (decay, run) in zip(LINES, decayed(group).items(), strict=False):
        ax.plot(*_distance_curve(run), **style, label=label(decay))
    ax.plot(*_distance_curve(group[0.0]), color="#0072B2", ls=":", lw=2.0, label=r"$\lambda=0$")
    ax.set(yscale="log")
    af.plot.log_time_axes(ax)
    weakest = min(decayed(group))
    af.plot.mark_phases(ax, group[weakest].verdict)
    af.plot.legend_below(ax, ncols=3, title=f"phases marked: {label(weakest)}")


def _distance_curve(run: af.Run) -> tuple[np.ndarray, np.ndarray]:
    """Times, and the relative distance of the predictor (singular values of a matrix) from that of least norm."""
    curves, data = run.curves.isel(time=slice(1, None)), run.data
    if run.spec["model"]["kind"] == "MatrixFactorisation":
        X, y = af.theory.single_entries(data.inputs.mask), data.truth[data.inputs.mask > 0]
        name, best = "singular_values", np.linalg.svd(af.theory.min_nuclear(X, y), compute_uv=False)
    else:
        name, best = "weights", af.theory.min_l1(data.inputs, data.targets)
    return curves["time"].values, np.linalg.norm(curves[name].values - best, axis=1) / np.linalg.norm(best)


def _list(by_decay: Mapping[float, float]) -> str:
    return ", ".join(f"{value:.2g}" for value in by_decay.values())
