"""Prop. 2: λ → 0 on the slow clock τ = λt."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit.diagnose import Verdict
from afterfit.experiment import Experiment
from afterfit.papers.boursier2025.decays import LINES, by_decay, falls, label
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import log_slope
from afterfit.papers.paths import flat, initial, parameters_at
from afterfit.plot import legend_below, mark_phases
from afterfit.run import Run
from afterfit.train import run_experiment

__all__ = ["Prop2"]


class Prop2(Entry):
    id = "boursier2025/prop2"
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
    claims = (
        "diagonal net: the largest ‖w̃^λ − w̃°‖ on [ε, T] tends to 0 with λ",
        "matrix completion: the largest ‖w̃^λ − w̃°‖ on [ε, T] tends to 0 with λ",
        "it falls like λ",
        "near τ = 0 the distance does not fall: ε > 0 is necessary",
        "along w̃° the training loss stays 0 and the norm falls",
        "singular case: run on, w̃° comes to a point where the theory ends",
    )

    _settings = ("diagonal net", "matrix completion")
    _decays = (1e-2, 1e-3, 1e-4, 1e-5)
    _interval = (0.1, 2.0)  # [ε, T]
    _first = 1e-7  # in slow time: for the smallest λ, before the fast phase

    def experiments(self, scale: str) -> dict[str, Experiment]:
        n, d, sparsity, size = (10, 30, 3, 10) if scale == "paper" else (5, 12, 1, 6)
        T, first, rtol, atol = self._interval[1], self._first, 1e-9, 1e-12
        flows: dict[float, dynamics.Dynamics] = {
            decay: dynamics.GradientFlow(until=T / decay, first=first / decay, rtol=rtol, atol=atol)
            for decay in self._decays
        }
        flows[0.0] = dynamics.RiemannianFlow(until=T, first=first, rtol=rtol, atol=atol)
        posed = (
            (tasks.SparseRegression(n=n, d=d, sparsity=sparsity), models.DiagonalNet(depth=2)),
            (tasks.MatrixCompletion(size, size, 1, observed=0.5), models.MatrixFactorisation(2 * size)),
        )
        return {
            f"{name} λ={decay:g}" if decay else f"{name} λ→0": Experiment(
                task=task,
                model=model,
                penalty=penalties.L2(decay),
                dynamics=flow,
                init=inits.Gaussian(1.0),
                observations=60,
            )
            for name, (task, model) in zip(self._settings, posed, strict=True)
            for decay, flow in flows.items()
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.6), layout="constrained")
        path, gap, right = figure.subplots(1, 3)
        group, limit = by_decay(runs, "matrix completion")
        tau = limit.curves["time"].values[1:]  # the runs' times, in slow time
        for style, (decay, run) in zip(LINES, group.items(), strict=True):
            path.plot(tau, run.curves["norm_l2"][1:], **style, label=label(decay))
            sigma, limit_sigma = (curves["singular_values"].values[1:] for curves in (run.curves, limit.curves))
            gap.plot(tau, np.linalg.norm(sigma - limit_sigma, axis=1), **style, label=label(decay))
        path.plot(tau, limit.curves["norm_l2"][1:], color="#D55E00", ls=":", lw=2.4, label=r"$\tilde w^\circ$")
        path.set(ylabel=r"$\|\tilde w(\tau)\|$", ylim=(0, None))
        gap.set(ylabel=r"$\|\sigma(\tau)-\sigma^\circ(\tau)\|$, singular values of $UV^\top$", yscale="log")
        for ax, title in ((path, "matrix completion: the norm"), (gap, "matrix completion: distance to the limit")):
            ax.axvspan(*self._interval, color="0.93", zorder=0, label=r"$[\varepsilon,T]$")
            ax.set(xscale="log", xlabel=r"slow time $\tau=\lambda t$", xlim=(tau[0], tau[-1]))
            ax.set_title(title, pad=18)  # above the phases' labels
            weakest, run = list(group.items())[-1]
            mark_phases(ax, _in_slow_time(run, weakest))
        for setting, marker in zip(self._settings, "os", strict=True):
            group, limit = by_decay(runs, setting)
            decays = np.array(list(group))
            gaps = [np.linalg.norm(flat(run) - flat(limit)) for run in group.values()]
            right.plot(decays, gaps, ls="", marker=marker, mfc="none", ms=8, color="k", label=setting)
            guide = "slope 1" if setting == self._settings[-1] else None
            right.plot(decays, gaps[0] * decays / decays[0], color="#D55E00", ls=":", zorder=0, label=guide)
        right.set(xscale="log", yscale="log", xlabel=r"weight decay $\lambda$")
        T = self._interval[1]
        right.set_ylabel(rf"$\|\tilde w^\lambda(T)-\tilde w^\circ(T)\|$, all parameters, $T={T:g}$")
        right.set_title("both settings: distance at T", pad=18)
        legend_below(path, gap, ncols=3, title=f"phases marked: {label(self._decays[-1])}")
        legend_below(right, ncols=3)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        epsilon, T = self._interval
        times = np.geomspace(epsilon, T, 24 if scale == "paper" else 4)
        decays = np.array(self._decays)
        limits = {name: by_decay(runs, name)[1] for name in self._settings}
        sups = {}
        for setting, claim in zip(self._settings, self.claims[:2], strict=True):
            path = parameters_at(times, Experiment.from_dict(limits[setting].spec), self.id, progress)
            sups[setting] = np.array(
                [
                    np.linalg.norm(self._slow_path(runs, setting, decay, times, progress) - path, axis=1).max()
                    for decay in decays
                ]
            )
            size = np.linalg.norm(path, axis=1).min()
            yield Finding(
                claim,
                "uniform convergence on [ε, T] for all ε, T > 0",
                f"[ε, T] = [{epsilon:g}, {T:g}], {len(times)} times: "
                + ", ".join(f"{sup:.2g} (λ={decay:g})" for sup, decay in zip(sups[setting], decays, strict=True))
                + f", beside ‖w̃°‖ ≥ {size:.3g}",
                bool(falls(sups[setting]) and sups[setting][-1] <= 1e-4 * size),
            )
        slopes = {name: log_slope(decays, sup) for name, sup in sups.items()}
        yield Finding(
            self.claims[2],
            "convergence, at no stated rate",
            "log-log slope " + ", ".join(f"{slope:.3f} ({name})" for name, slope in slopes.items()),
            all(abs(slope - 1) <= 0.05 for slope in slopes.values()),
        )
        early = 1e-4  # training time: before the fast phase, for every λ
        jumps, near = {}, {}
        for name, limit in limits.items():
            landing = parameters_at([1e-9], Experiment.from_dict(limit.spec), self.id, progress)[0]  # Φ(w₀)
            jumps[name] = float(np.linalg.norm(initial(limit) - landing))
            paths = [self._slow_path(runs, name, decay, np.array([early * decay]), progress)[0] for decay in decays]
            near[name] = [float(np.linalg.norm(path - landing)) for path in paths]
        yield Finding(
            self.claims[3],
            "w̃^λ(0) = w₀ for every λ, and w̃°(0) = Φ(w₀)",
            "; ".join(
                f"‖w₀ − Φ(w₀)‖ = {jumps[name]:.3g}, and at τ = {early:g}·λ the distance is "
                + ", ".join(f"{gap:.3g}" for gap in near[name])
                + f" for λ falling to {decays[-1]:g} ({name})"
                for name in self._settings
            ),
            all(min(near[name]) >= 0.9 * jumps[name] > 0.1 for name in self._settings),
        )
        losses = {name: float(limit.curves["train_error"][1:].max()) for name, limit in limits.items()}
        norms = {name: limit.curves["norm_l2"].values[1:] for name, limit in limits.items()}
        yield Finding(
            self.claims[4],
            "w̃° stays on M, and ½‖w‖² falls along its Riemannian flow",
            f"at {len(norms[self._settings[0]])} times: "
            + "; ".join(
                f"‖f − y‖/‖y‖ ≤ {losses[name]:.1g}, ‖w̃°‖ from {norms[name][0]:.4g} to {norms[name][-1]:.4g}, by "
                f"{-np.diff(norms[name]).max():.1g} or more between two times ({name})"
                for name in self._settings
            ),
            all(losses[name] <= 1e-9 and falls(norms[name]) for name in self._settings),
        )
        ends = {
            name: run_experiment(Experiment.from_dict(limit.spec).set({"dynamics.until": 200.0}), progress=progress)
            for name, limit in limits.items()
        }
        yield Finding(
            self.claims[5],
            "M is a manifold only without its degenerate points; to deal with them is open",
            "; ".join(f"{name}: {run.status}, {run.message.split(':')[0]}" for name, run in ends.items()),
            all(run.status == "singular" for run in ends.values()),
        )

    def _slow_path(
        self, runs: Mapping[str, Run], setting: str, decay: float, times: np.ndarray, progress: bool | None
    ) -> np.ndarray:
        """w̃^λ at slow times."""
        experiment = Experiment.from_dict(by_decay(runs, setting)[0][float(decay)].spec)
        return parameters_at(times / decay, experiment, self.id, progress)


def _in_slow_time(run: Run, decay: float) -> Verdict:
    """The verdict on a run with its times in τ = λt."""
    verdict = run.verdict
    return dataclasses.replace(
        verdict,
        t_fit=None if verdict.t_fit is None else decay * verdict.t_fit,
        t_gen=None if verdict.t_gen is None else decay * verdict.t_gen,
    )
