"""Prop. 2: λ → 0 on the slow clock τ = λt."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers._paths import flat, initial, parameters_at
from afterfit.papers.boursier2025 import PAPER
from afterfit.papers.boursier2025.decays import LINES, decayed, falls, falls_like, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Prop2"]

_DECAYS = (1e-2, 1e-3, 1e-4, 1e-5)
_EPSILON, _T = 0.1, 2.0
_FIRST = 1e-7  # in slow time: for the smallest λ, before the fast phase
_Settings = Mapping[str, Mapping[float, "af.Run"]]


class Prop2(Entry):
    paper, name = PAPER, "prop2"
    title = "On the slow clock, weight decay λ → 0 is a Riemannian flow"
    where = "Prop. 2, §4.1; App. C"
    about = (
        "Gradient flow with weight decay λ in slow time τ = λt, w̃^λ(τ) = w^λ(τ/λ), on the paper's two non-convex "
        "examples: the diagonal net u² − v² and matrix completion by UVᵀ with r = m + n columns. As λ → 0 it comes to "
        "w̃°, the Riemannian flow of ½‖w‖² among the interpolating parameters from Φ(w₀), the limit of the "
        "unregularised flow, uniformly on [ε, T]. The two are computed apart: w̃^λ as the flow of the whole objective, "
        "w̃° with a projection and no λ. They are compared in all parameters, at a grid of slow times, by runs to each "
        "of them; tolerances are tight, since the distance to measure is of order λ. T is short of the singular points "
        "to which sparse and low-rank data lead."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment]]:
        """By λ; at λ = 0 it is w̃°."""
        n, d, sparsity, size = (10, 30, 3, 10) if scale == "paper" else (5, 12, 1, 6)
        return {
            "diagonal_net": _flows(
                af.tasks.SparseRegression(n=n, d=d, sparsity=sparsity), af.models.DiagonalNet(depth=2)
            ),
            "matrix_completion": _flows(
                af.tasks.MatrixCompletion(size, size, 1, observed=0.5), af.models.MatrixFactorisation(2 * size)
            ),
        }

    def picture(self, matrix_completion: Mapping[float, af.Run], settings: _Settings) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.6), layout="constrained")
        path, gap, right = figure.subplots(1, 3)
        _show_norms(path, matrix_completion)
        _show_gaps(gap, matrix_completion)
        for ax in (path, gap):
            _show_interval(ax, matrix_completion)
        _show_ends(right, settings)
        af.plot.legend_below(path, gap, ncols=3, title=f"phases marked: {label(_DECAYS[-1])}")
        af.plot.legend_below(right, ncols=3)
        return figure

    @once
    def settings(self, diagonal_net: Mapping[float, af.Run], matrix_completion: Mapping[float, af.Run]) -> _Settings:
        return {"diagonal net": diagonal_net, "matrix completion": matrix_completion}

    @once
    def limits(self, settings: _Settings) -> dict[str, af.Run]:
        """w̃° of each setting."""
        return {name: group[0.0] for name, group in settings.items()}

    @once
    def apart(self, settings: _Settings, scale: str, progress: bool | None) -> dict[str, _Apart]:
        """How far w̃^λ is from w̃° on [ε, T], for each setting."""
        times = np.geomspace(_EPSILON, _T, 24 if scale == "paper" else 4)
        return {name: _apart(group, times, self.id, progress) for name, group in settings.items()}

    @claim(
        "diagonal net: the largest ‖w̃^λ − w̃°‖ on [ε, T] tends to 0 with λ",
        says="uniform convergence on [ε, T] for all ε, T > 0",
    )
    def diagonal_nets_converge(self, apart: Mapping[str, _Apart]) -> Finding:
        return _converge(apart["diagonal net"])

    @claim(
        "matrix completion: the largest ‖w̃^λ − w̃°‖ on [ε, T] tends to 0 with λ",
        says="uniform convergence on [ε, T] for all ε, T > 0",
    )
    def matrices_converge(self, apart: Mapping[str, _Apart]) -> Finding:
        return _converge(apart["matrix completion"])

    @claim("it falls like λ", says="convergence, at no stated rate")
    def falls_like_decay(self, apart: Mapping[str, _Apart]) -> Finding:
        return falls_like(_DECAYS, {name: seen.sups for name, seen in apart.items()})

    @claim(
        "near τ = 0 the distance does not fall: ε > 0 is necessary",
        says="w̃^λ(0) = w₀ for every λ, and w̃°(0) = Φ(w₀)",
    )
    def jumps_at_first(self, settings: _Settings, limits: Mapping[str, af.Run], progress: bool | None) -> Finding:
        early = 1e-4  # training time: before the fast phase, for every λ
        jumps, near = {}, {}
        for name, limit in limits.items():
            landing = parameters_at([1e-9], limit.experiment, self.id, progress)[0]  # Φ(w₀)
            starts = [
                parameters_at([early], run.experiment, self.id, progress)[0] for run in decayed(settings[name]).values()
            ]
            jumps[name] = float(np.linalg.norm(initial(limit) - landing))
            near[name] = [float(np.linalg.norm(start - landing)) for start in starts]
        return Finding(
            "; ".join(
                f"‖w₀ − Φ(w₀)‖ = {jumps[name]:.3g}, and at τ = {early:g}·λ the distance is "
                + ", ".join(f"{gap:.3g}" for gap in near[name])
                + f" for λ falling to {_DECAYS[-1]:g} ({name})"
                for name in limits
            ),
            all(min(near[name]) >= 0.9 * jumps[name] > 0.1 for name in limits),
        )

    @claim(
        "along w̃° the training loss stays 0 and the norm falls",
        says="w̃° stays on M, and ½‖w‖² falls along its Riemannian flow",
    )
    def stays_on_the_manifold(self, limits: Mapping[str, af.Run]) -> Finding:
        errors = {name: float(limit.curves["train_error"][1:].max()) for name, limit in limits.items()}
        norms = {name: limit.curves["norm_l2"].values[1:] for name, limit in limits.items()}
        return Finding(
            f"at {len(norms['diagonal net'])} times: "
            + "; ".join(
                f"‖f − y‖/‖y‖ ≤ {errors[name]:.1g}, ‖w̃°‖ from {norm[0]:.4g} to {norm[-1]:.4g}, by "
                f"{-np.diff(norm).max():.1g} or more between two times ({name})"
                for name, norm in norms.items()
            ),
            all(errors[name] <= 1e-9 and falls(norms[name]) for name in limits),
        )

    @claim(
        "singular case: run on, w̃° comes to a point where the theory ends",
        says="M is a manifold only without its degenerate points; to deal with them is open",
    )
    def ends_singular(self, limits: Mapping[str, af.Run], progress: bool | None) -> Finding:
        ends = {
            name: af.run_experiment(limit.experiment.set({"dynamics.until": 200.0}), progress=progress)
            for name, limit in limits.items()
        }
        return Finding(
            "; ".join(f"{name}: {run.status}, {run.message.split(':')[0]}" for name, run in ends.items()),
            all(run.status == "singular" for run in ends.values()),
        )


def _flows(task: af.tasks.Task, model: af.models.Model) -> dict[float, af.Experiment]:
    """w̃^λ by λ, each to T in slow time, and w̃° at λ = 0."""
    tight: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-12}
    flows: dict[float, af.dynamics.Dynamics] = {
        decay: af.dynamics.GradientFlow(until=_T / decay, first=_FIRST / decay, **tight) for decay in _DECAYS
    }
    flows[0.0] = af.dynamics.RiemannianFlow(until=_T, first=_FIRST, **tight)
    return {
        decay: af.Experiment(
            task=task,
            model=model,
            penalty=af.penalties.L2(decay),
            dynamics=flow,
            init=af.inits.Gaussian(1.0),
            observations=60,
        )
        for decay, flow in flows.items()
    }


@dataclasses.dataclass(frozen=True)
class _Apart:
    """On [ε, T], at so many `times`: the largest ‖w̃^λ − w̃°‖ for each λ, and the `size`, the least ‖w̃°‖."""

    times: int
    sups: np.ndarray
    size: float


def _apart(group: Mapping[float, af.Run], times: np.ndarray, label: str, progress: bool | None) -> _Apart:
    limit = parameters_at(times, group[0.0].experiment, label, progress)
    paths = [parameters_at(times / decay, group[decay].experiment, label, progress) for decay in _DECAYS]
    return _Apart(
        times=len(times),
        sups=np.array([np.linalg.norm(path - limit, axis=1).max() for path in paths]),
        size=np.linalg.norm(limit, axis=1).min(),
    )


def _converge(seen: _Apart) -> Finding:
    """Whether the largest distance on [ε, T] tends to 0 with λ."""
    return Finding(
        f"[ε, T] = [{_EPSILON:g}, {_T:g}], {seen.times} times: "
        + ", ".join(f"{sup:.2g} (λ={decay:g})" for sup, decay in zip(seen.sups, _DECAYS, strict=True))
        + f", beside ‖w̃°‖ ≥ {seen.size:.3g}",
        falls(seen.sups) and seen.sups[-1] <= 1e-4 * seen.size,
    )


def _show_norms(ax: Axes, group: Mapping[float, af.Run]) -> None:
    tau = group[0.0].curves["time"].values[1:]  # the runs' times, in slow time
    for style, (decay, run) in zip(LINES, decayed(group).items(), strict=True):
        ax.plot(tau, run.curves["norm_l2"][1:], **style, label=label(decay))
    ax.plot(tau, group[0.0].curves["norm_l2"][1:], color="#D55E00", ls=":", lw=2.4, label=r"$\tilde w^\circ$")
    ax.set(ylabel=r"$\|\tilde w(\tau)\|$", ylim=(0, None))
    ax.set_title("matrix completion: the norm", pad=18)  # above the phases' labels


def _show_gaps(ax: Axes, group: Mapping[float, af.Run]) -> None:
    limit = group[0.0].curves
    for style, (decay, run) in zip(LINES, decayed(group).items(), strict=True):
        apart = run.curves["singular_values"].values[1:] - limit["singular_values"].values[1:]
        ax.plot(limit["time"].values[1:], np.linalg.norm(apart, axis=1), **style, label=label(decay))
    ax.set(ylabel=r"$\|\sigma(\tau)-\sigma^\circ(\tau)\|$, singular values of $UV^\top$", yscale="log")
    ax.set_title("matrix completion: distance to the limit", pad=18)


def _show_interval(ax: Axes, group: Mapping[float, af.Run]) -> None:
    """[ε, T] on the axis of slow time, and the phases of the run with the weakest decay."""
    ax.axvspan(_EPSILON, _T, color="0.93", zorder=0, label=r"$[\varepsilon,T]$")
    tau = group[0.0].curves["time"].values[1:]
    ax.set(xscale="log", xlabel=r"slow time $\tau=\lambda t$", xlim=(tau[0], tau[-1]))
    af.plot.mark_phases(ax, _in_slow_time(group[_DECAYS[-1]], _DECAYS[-1]))


def _show_ends(ax: Axes, settings: _Settings) -> None:
    """How far w̃^λ(T) is from w̃°(T), over λ."""
    decays = np.array(_DECAYS)
    for (name, group), marker, guide in zip(settings.items(), "os", (None, "slope 1"), strict=True):
        gaps = [np.linalg.norm(flat(run) - flat(group[0.0])) for run in decayed(group).values()]
        ax.plot(decays, gaps, ls="", marker=marker, mfc="none", ms=8, color="k", label=name)
        ax.plot(decays, gaps[0] * decays / decays[0], color="#D55E00", ls=":", zorder=0, label=guide)
    ax.set(xscale="log", yscale="log", xlabel=r"weight decay $\lambda$")
    ax.set_ylabel(rf"$\|\tilde w^\lambda(T)-\tilde w^\circ(T)\|$, all parameters, $T={_T:g}$")
    ax.set_title("both settings: distance at T", pad=18)


def _in_slow_time(run: af.Run, decay: float) -> af.Verdict:
    """The verdict on a run with its times in τ = λt."""
    verdict = run.verdict
    return dataclasses.replace(
        verdict,
        t_fit=None if verdict.t_fit is None else decay * verdict.t_fit,
        t_gen=None if verdict.t_gen is None else decay * verdict.t_gen,
    )
