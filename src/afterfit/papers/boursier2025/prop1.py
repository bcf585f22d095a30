"""Prop. 1: λ → 0 on a fixed interval of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit.experiment import Experiment
from afterfit.papers.boursier2025.decays import LINES, by_decay, falls, label
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import log_slope
from afterfit.papers.paths import flat, parameters_at
from afterfit.plot import legend_below, log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Prop1"]


class Prop1(Entry):
    id = "boursier2025/prop1"
    title = "On a fixed interval, weight decay λ → 0 changes nothing"
    where = "Prop. 1, §4.1"
    about = (
        "Gradient flow with weight decay λ and without, from the same start, on the paper's two non-convex examples: "
        "the diagonal net u² − v² and matrix completion by UVᵀ with r = m + n columns. On [0, T] the paths of the "
        "parameters come together as λ → 0, like λ, as the Grönwall bound (9) has it; on [0, ∞) they do not. The "
        "paths are compared at a grid of times, by runs to each of them; the picture shows what runs record along the "
        "way, the predictor or its singular values."
    )
    claims = (
        "diagonal net: the largest ‖w^λ − w^GF‖ on [0, T] tends to 0 with λ",
        "matrix completion: the largest ‖w^λ − w^GF‖ on [0, T] tends to 0 with λ",
        "it falls like λ",
        "it is below the bound (9)",
        "on [0, ∞) the convergence is not uniform",
    )

    _T = 1.0
    _decays = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # of the runs to T

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            n, d, sparsity, size, decays = 10, 30, 3, 10, (1e-2, 1e-3, 1e-4)
        else:
            n, d, sparsity, size, decays = 5, 12, 1, 6, (1e-1, 1e-2, 1e-3)
        flow = dynamics.GradientFlow(until=5 / decays[-1], first=1e-3, rtol=1e-5)
        settings = {
            "diagonal net": (tasks.SparseRegression(n=n, d=d, sparsity=sparsity), models.DiagonalNet(depth=2)),
            "matrix completion": (
                tasks.MatrixCompletion(size, size, 1, observed=0.5),
                models.MatrixFactorisation(2 * size),
            ),
        }
        return {
            f"{name} λ={decay:g}": Experiment(
                task=task,
                model=model,
                penalty=penalties.L2(decay),
                dynamics=flow,
                init=inits.Gaussian(1.0),
                observations=50,
            )
            for name, (task, model) in settings.items()
            for decay in (*decays, 0.0)
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(11, 4.6), layout="constrained")
        shown = {
            "diagonal net": ("weights", r"$\|\beta^\lambda(t)-\beta^\mathrm{GF}(t)\|$, $\beta=u^2-v^2$"),
            "matrix completion": ("singular_values", r"$\|\sigma(t)-\sigma^\mathrm{GF}(t)\|$, $\sigma$ of $UV^\top$"),
        }
        for ax, (setting, (curve, shows)) in zip(figure.subplots(1, 2), shown.items(), strict=True):
            group, free = by_decay(runs, setting)
            t = free.curves["time"].values[1:]
            gaps = [
                np.linalg.norm((run.curves[curve] - free.curves[curve]).values[1:], axis=1) for run in group.values()
            ]
            for style, decay, gap in zip(LINES, group, gaps, strict=False):
                ax.plot(t, gap, **style, label=label(decay))
            early = t <= self._T
            ax.plot(t[early], 0.3 * gaps[-1][0] * t[early] / t[0], color="#D55E00", ls=":", label=r"slope 1 in $t$")
            ax.axvspan(t[0], self._T, color="0.93", zorder=0, label="[0, T]")
            ax.set(yscale="log", ylabel=shows)
            ax.set_title(setting, pad=18)  # above the phases' labels
            log_time_axes(ax)
            ax.set_xlim(t[0], t[-1])
            mark_phases(ax, free.verdict)
            legend_below(ax, ncols=6)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        times = np.geomspace(self._T / 100, self._T, 32 if scale == "paper" else 8)
        settings = ("diagonal net", "matrix completion")
        sups, largest = {}, {}
        for setting, claim in zip(settings, self.claims[:2], strict=True):
            experiment = Experiment.from_dict(by_decay(runs, setting)[1].spec)
            paths = {
                decay: parameters_at(times, experiment.set({"penalty.strength": decay}), self.id, progress)
                for decay in (*self._decays, 0.0)
            }
            sups[setting] = np.array(
                [np.linalg.norm(paths[decay] - paths[0.0], axis=1).max() for decay in self._decays]
            )
            largest[setting] = max(np.linalg.norm(path, axis=1).max() for path in paths.values())
            yield Finding(
                claim,
                "uniform convergence on [0, T] for every T",
                f"T={self._T:g}, {len(times)} times: "
                + ", ".join(f"{sup:.2g} (λ={decay:g})" for sup, decay in zip(sups[setting], self._decays, strict=True))
                + f", beside ‖w‖ ≤ {largest[setting]:.3g}",
                bool(falls(sups[setting]) and sups[setting][-1] <= 1e-3 * largest[setting]),
            )
        slopes = {name: log_slope(self._decays, sup) for name, sup in sups.items()}
        yield Finding(
            self.claims[2],
            "O(λ), by Grönwall's inequality (9)",
            "log-log slope " + ", ".join(f"{slope:.3f} ({name})" for name, slope in slopes.items()),
            all(abs(slope - 1) <= 0.05 for slope in slopes.values()),
        )
        shares = {name: np.max(sups[name] / np.array(self._decays)) / (self._T * largest[name]) for name in settings}
        yield Finding(
            self.claims[3],
            "sup ‖w^λ − w^GF‖ ≤ λT·e^{cT}·sup ‖w‖, c a Lipschitz constant of ∇F",
            "largest share of λT·sup ‖w‖, which is the bound with c = 0 and so below it for any c: "
            + ", ".join(f"{share:.3g} ({name})" for name, share in shares.items()),
            all(share <= 1 for share in shares.values()),
        )
        apart = {}
        for name in settings:
            group, free = by_decay(runs, name)
            apart[name] = [
                np.linalg.norm(flat(run) - flat(free)) / np.linalg.norm(flat(free)) for run in group.values()
            ]
        t = next(iter(runs.values())).spec["dynamics"]["until"]
        yield Finding(
            self.claims[4],
            "uniform convergence only holds on finite intervals, not on R₊",
            f"‖w^λ − w^GF‖/‖w^GF‖ at t={t:.3g}, λ falling to {5 / t:g}: "
            + "; ".join(", ".join(f"{gap:.2g}" for gap in gaps) + f" ({name})" for name, gaps in apart.items()),
            all(min(gaps) >= 0.1 and gaps[-1] >= 0.5 * gaps[0] for gaps in apart.values()),
        )
