"""Thms 3.10 and 3.12: after (1/λ)·log α matrix completion minimises the norm."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.lyu2023.regimes import (
    by_share,
    end_slopes,
    mark_shares,
    scale_of,
    scale_ticks,
    table_flow,
    weights_of,
)
from afterfit.papers.measure import log_slope
from afterfit.plot import TEST, TRAIN, legend_below, log_time_axes, mark_phases
from afterfit.run import Run
from afterfit.theory.stationarity import Stationarity

__all__ = ["Thm310"]


class Thm310(Entry):
    id = "lyu2023/thm3.10"
    title = "After (1/λ)·log α matrix completion minimises the norm, and recovers the matrix as t → ∞"
    where = "Thms 3.10 and 3.12, App. D.2 and F"
    about = (
        "UUᵀ − VVᵀ on half the entries of the multiplication table. First from U = V = αI with λ = 1/α, stopped at "
        "t = (1 + c)/λ·log α, the last time that Thm 3.10 allows: how far θ is from a KKT point of min ‖θ‖² subject "
        "to fᵢ(θ) = yᵢ (R2). Then from α = 3 with N(0, σ²) added to all entries, for falling λ, until the "
        "flow is at rest: Thm 3.12, where W minimises (42), Σ(⟨Pᵢ, W⟩ − yᵢ)²/n + (λ/2)‖W‖_*, which a convex solver "
        "does on its own. The hypothesis N ≳ μ⁴·d·log²d of Thm 3.12 leaves its constant open; with "
        "1 it would ask for more entries than this matrix has, so that more is checked than is proved."
    )
    claims = (
        "the KKT residual of R2 goes to 0 with α",
        "the data are fitted at that time",
        "‖θ‖ is bounded between (1/λ)·log α and (1 + c)/λ·log α (Lemma D.8)",
        "‖∇𝓛_λ‖ = O(λ·(log 1/λ)^{−1/2}) at that time",
        "W tends to the minimum nuclear norm solution",
        "Thm 3.12: the flow from a perturbed start ends at the global minimum",
        "Thm 3.12: ‖W − X*‖_F ≲ √λ·‖X*‖_*·μ²·log d",
    )

    _shares = (1.5, 1.9)  # 1 + c

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            d, alphas, decays, observations = 16, (1000, 300, 100, 30, 10), (0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5), 100
        else:
            d, alphas, decays, observations = 10, (300, 100, 30), (0.03, 3e-4), 30
        rising = {
            f"α={alpha:g} share {share:g}": table_flow(d, 0.5, float(alpha), share, observations)
            for alpha in alphas
            for share in (*self._shares[::-1], 1.0)
        }
        perturbed = {
            f"λ={decay:g}": table_flow(d, 0.5, 3.0, 60.0, observations, decay).set({"init.perturbation": 0.1})
            for decay in decays
        }
        return rising | perturbed

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.8), layout="constrained")
        path, stationary, recovery = figure.subplots(1, 3)
        headline = next(iter(runs.values()))
        alpha = scale_of(headline)
        curves = headline.curves.isel(time=slice(1, None))
        path.plot(curves["time"], curves["train_error"], **TRAIN, label="training error")
        path.plot(curves["time"], curves["test_error"], **TEST, label=r"$\|W-X^*\|_F/\|X^*\|_F$")
        mark_shares(path, headline, (1.0, *self._shares))
        path.set(yscale="log", ylabel=rf"relative error, $\alpha={alpha:g}$")
        log_time_axes(path)
        mark_phases(path, headline.verdict)
        groups = by_share(runs, self._shares)
        for (share, group), marker, grey in zip(groups.items(), ("o", "s"), ("0.55", "0.0"), strict=True):
            alphas, ends, c = [scale_of(run) for run in group], [_end(run) for run in group], f"c = {share - 1:g}"
            style = {"color": grey, "marker": marker, "mfc": "none"}
            stationary.loglog(alphas, [end.kkt.residual for end in ends], **style, label=f"residual, {c}")
            stationary.loglog(alphas, [end.kkt.infeasibility for end in ends], **style, ls=":", label=f"misfit, {c}")
        stationary.set(xlabel=r"scale $\alpha$ of the start", ylabel="KKT residual and misfit of R2")
        scale_ticks(stationary, groups[self._shares[0]])
        stationary.set(title=r"at $t=(1+c)/\lambda\cdot\log\alpha$")
        settled = _perturbed(runs)
        decays = np.array([run.spec["penalty"]["strength"] for run in settled])
        truth = Experiment.from_dict(headline.spec).draw().truth
        recovery.loglog(
            decays, [np.linalg.norm(weights_of(run) - truth) for run in settled], "ko", mfc="none", label="flow"
        )
        convex = [np.linalg.norm(_convex(run) - truth) for run in settled]
        recovery.loglog(decays, convex, color="0.6", lw=1.0, zorder=0, label="convex program (42)")
        recovery.loglog(
            decays, np.sqrt(decays) * _factor(truth), **TEST, label=r"$\sqrt{\lambda}\,\|X^*\|_*\,\mu^2\log d$"
        )
        recovery.set(xlabel=r"weight decay $\lambda$", ylabel=r"$\|W-X^*\|_F$", title=r"perturbed start, $t\to\infty$")
        legend_below(*figure.axes)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        groups = {share: [_end(run) for run in group] for share, group in by_share(runs, self._shares).items()}
        data = Experiment.from_dict(next(iter(runs.values())).spec).draw()
        alphas = [end.alpha for end in groups[self._shares[0]]]
        reached = f"from α={alphas[0]:g} to {alphas[-1]:g}"
        for claim, says, of in (
            (self.claims[0], "every limit point is a KKT point, for every c > 0, as α → ∞", "residual"),
            (self.claims[1], "a KKT point is feasible; 𝓛 = O(λ²) at (1/λ)·log α", "infeasibility"),
        ):
            gaps = {share: [getattr(end.kkt, of) for end in ends] for share, ends in groups.items()}
            yield Finding(
                claim,
                says,
                f"{'residual' if of == 'residual' else '‖f − y‖/‖y‖'} {reached}: "
                + ", ".join(
                    f"{g[0]:.2g} to {g[-1]:.2g}, like α^{log_slope(alphas[-2:], g[-2:]):.2f} at last (c={share - 1:g})"
                    for share, g in gaps.items()
                ),
                all(np.all(np.diff(g) < 0) and log_slope(alphas[-2:], g[-2:]) < -0.1 for g in gaps.values()),
            )
        norms = {
            share: [float(run.curves["norm_l2"][-1]) for run in group]
            for share, group in by_share(runs, (1.0, *self._shares)).items()
        }
        yield Finding(
            self.claims[2],
            "max over t of ‖θ‖ = O(1)",
            f"for α = {', '.join(f'{alpha:g}' for alpha in alphas)}: "
            + "; ".join(
                ", ".join(f"{size:.3g}" for size in sizes) + f" (c={share - 1:g})" for share, sizes in norms.items()
            )
            + f"; ‖θ̄‖ = √(2d) = {np.sqrt(2 * len(data.truth)):.3g}",
            all(sizes[-1] <= 1.05 * sizes[-2] for sizes in norms.values())
            and max(norms[1.0]) == max(map(max, norms.values())),
        )
        orders = {
            share: [end.gradient / (end.decay * np.log(1 / end.decay) ** -0.5) for end in ends]
            for share, ends in groups.items()
        }
        yield Finding(
            self.claims[3],
            "at some t up to (1 + c)/λ·log α (App. D.2)",
            f"‖∇𝓛_λ‖ at the last t over λ·(log 1/λ)^−½, {reached}: "
            + ", ".join(f"{o[0]:.2g} to {o[-1]:.2g} (c={share - 1:g})" for share, o in orders.items()),
            all(o[-1] <= o[0] for o in orders.values()),
        )
        measured = theory.single_entries(data.inputs.mask)
        least = theory.min_nuclear(measured, np.tensordot(measured, data.truth, 2), symmetric=True)
        off = {
            share: [float(np.linalg.norm(weights_of(run) - least) / np.linalg.norm(least)) for run in group]
            for share, group in by_share(runs, self._shares).items()
        }
        yield Finding(
            self.claims[4],
            "if the KKT point is global (Ding et al. 2022); not proved",
            f"‖W − argmin ‖·‖_*‖ relative, {reached}: "
            + ", ".join(f"{o[0]:.2g} to {o[-1]:.2g} (c={share - 1:g})" for share, o in off.items())
            + f"; that solution is {np.linalg.norm(least - data.truth) / np.linalg.norm(data.truth):.1g} from X*",
            all(np.all(np.diff(o[-3:]) < 0) and o[-1] <= 0.5 * o[-3] for o in off.values()),
        )
        settled = _perturbed(runs)
        decays = [run.spec["penalty"]["strength"] for run in settled]
        size = np.linalg.norm(data.truth)
        apart = [float(np.linalg.norm(weights_of(run) - _convex(run)) / size) for run in settled]
        yield Finding(
            self.claims[5],
            "a global minimiser of 𝓛_λ, for any σ > 0, almost surely; its W minimises (42)",
            "σ=0.1, ‖W − argmin (42)‖/‖X*‖: "
            + ", ".join(f"{gap:.1g} (λ={decay:g})" for gap, decay in zip(apart, decays, strict=True)),
            max(apart) <= 1e-3,
        )
        errors = [float(np.linalg.norm(weights_of(run) - data.truth)) for run in settled]
        shares = [error / (np.sqrt(decay) * _factor(data.truth)) for error, decay in zip(errors, decays, strict=True)]
        yield Finding(
            self.claims[6],
            "with probability 1 − d^{−3}, up to a constant",
            f"over √λ·‖X*‖_*·μ²·log d, μ={_incoherence(data.truth):.3g}: "
            + ", ".join(f"{share:.2g} (λ={decay:g})" for share, decay in zip(shares, decays, strict=True))
            + f"; ‖W − X*‖_F itself like λ^{log_slope(decays[-2:], errors[-2:]):.2f}, better than the bound: the "
            "recovery is exact at λ = 0",
            max(shares) <= 1 and bool(np.all(np.diff(shares) < 0)),
        )


@dataclasses.dataclass(frozen=True)
class _End:
    """The end of a run, and how near it is to a KKT point."""

    alpha: float
    decay: float
    kkt: Stationarity
    gradient: float  # ‖∇𝓛_λ‖


def _end(run: Run) -> _End:
    return _End(scale_of(run), run.spec["penalty"]["strength"], *end_slopes(run))


def _perturbed(runs: Mapping[str, Run]) -> list[Run]:
    """The runs of Thm 3.12, in the order of falling λ."""
    return [run for name, run in runs.items() if name.startswith("λ")]


def _incoherence(truth: np.ndarray) -> float:
    """μ of a symmetric matrix of rank 1: d times the largest squared entry of its singular vector."""
    return len(truth) * float(np.max(np.abs(np.linalg.svd(truth)[0][:, 0]))) ** 2


def _factor(truth: np.ndarray) -> float:
    """‖X*‖_*·μ²·log d, which times √λ is the bound of Thm 3.12 up to a constant."""
    return float(np.linalg.norm(truth, "nuc") * _incoherence(truth) ** 2 * np.log(len(truth)))


def _convex(run: Run) -> np.ndarray:
    """argmin (42), which times n/2 is ½Σ(⟨Pᵢ, W⟩ − yᵢ)² + (λn/4)‖W‖_*."""
    data = Experiment.from_dict(run.spec).draw()
    X = theory.single_entries(data.inputs.mask)
    strength = run.spec["penalty"]["strength"] * data.n / 4
    return theory.nuclear_penalised(X, np.tensordot(X, data.truth, 2), strength, symmetric=True)
