"""Fig. 2: matrix completion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding, run_all
from afterfit.plot import TEST, TRAIN, legend_below, log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Fig2"]


class Fig2(Entry):
    id = "boursier2025/fig2"
    title = "Matrix completion groks as weight decay lowers the rank"
    where = "Fig. 2, §5"
    about = (
        "UVᵀ with ten columns is fitted to half of the entries of a 20 x 20 matrix of rank 3 by gradient descent "
        "with weight decay λ = 10⁻³. The training loss is zero by t ≈ 1 with all ten singular values large; the "
        "norm then falls over a time of order 1/λ, and with it all singular values but three."
    )
    claims = (
        "training loss drops quickly to zero",
        "test loss stays high, then improves long after",
        "the norm of the weights falls with the test loss",
        "singular values jump up early and all but three decay from t≈10²",
        "the three that remain meet the true ones (this draw)",
        "the three that remain meet the true ones (share of draws)",
        "every end point is that of the convex program",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            # Seed 4 is a draw whose minimum-nuclear-norm completion is nearly exact, as the paper's must be.
            return {"run": self._experiment(20, 3, 0.5, 1e-3, steps=10_000_000, seed=4)}
        return {"run": self._experiment(12, 1, 0.6, 1e-2, steps=200_000, seed=6)}

    def _experiment(self, d: int, rank: int, observed: float, decay: float, steps: int, seed: int) -> Experiment:
        return Experiment(
            task=tasks.MatrixCompletion(d, d, rank, observed=observed, reduction="sum"),
            model=models.MatrixFactorisation(d // 2),
            penalty=penalties.L2(decay),
            dynamics=dynamics.GradientDescent(lr=1e-2, steps=steps),
            init=inits.Gaussian(1.0),
            seed=seed,
        )

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        run = runs["run"]
        curves = run.curves.isel(time=slice(1, None))
        truth = Experiment.from_dict(run.spec).draw().truth
        true_values = np.linalg.svd(truth, compute_uv=False)[: run.spec["task"]["rank"]]
        figure = Figure(figsize=(11, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        distance = curves["test_error"] * np.linalg.norm(truth)
        left.plot(curves["time"], curves["train_loss"], **TRAIN, label="training loss")
        left.plot(curves["time"], distance, **TEST, label=r"test loss $\|M^*-UV^\top\|_F$")
        left.plot(curves["time"], curves["norm_l2"] ** 2, color="0.2", ls="-.", label=r"$\|U\|_F^2+\|V\|_F^2$")
        left.set(yscale="log", ylabel="loss, squared norm")
        values = curves["singular_values"][:, : run.spec["model"]["rank"]]
        for k in range(values.shape[1]):
            kept = k < len(true_values)
            style = {"color": "#D55E00", "lw": 2.0} if kept else {"color": "0.45", "lw": 1.0, "ls": "--"}
            name = {0: "largest, as many as the rank", len(true_values): "the others"}.get(k)
            right.plot(curves["time"], values[:, k], **style, label=name)
        for k, value in enumerate(true_values):
            right.axhline(value, color="k", ls=":", lw=1.2, label=r"true $\sigma^*_i$" if k == 0 else None)
        end = _convex_end(run)
        for k, value in enumerate(np.linalg.svd(end, compute_uv=False)[: len(true_values)]):
            name = "end of the convex program" if k == 0 else None
            right.plot(curves["time"][-1:], [value], "k<", ms=7, clip_on=False, label=name)
        right.set(ylabel=r"singular values of $UV^\top$", ylim=(0, None))
        log_time_axes(left, right)
        for ax in (left, right):
            mark_phases(ax, run.verdict)
        legend_below(left, right, ncols=3)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        run, curves, verdict = runs["run"], runs["run"].curves, runs["run"].verdict
        slow = 1 / run.spec["penalty"]["strength"]  # the slow time scale 1/λ: 10³ in the paper
        rank = run.spec["task"]["rank"]
        early = curves.sel(time=slice(1.0, 1.5)).isel(time=0)
        yield Finding(
            self.claims[0],
            "by t ≈ 1",
            f"fitted at t={_number(verdict.t_fit)}; training loss {float(early['train_loss']):.2g} at t=1, "
            f"{float(curves['train_loss'][-1]):.2g} at the end",
            verdict.t_fit is not None and verdict.t_fit <= 1,
        )
        yield Finding(
            self.claims[1],
            f"grokking: improves from t ≈ {_power(0.1 * slow)}, done by t ≈ {_power(10 * slow)}",
            f"{verdict}",
            verdict.kind == "grokking" and 0.1 * slow <= (verdict.t_gen or 0) <= 10 * slow,
        )
        late = curves.sel(time=slice(0.01 * slow, None))
        from scipy import stats  # on first use: it takes a second to import

        correlation = float(stats.spearmanr(late["test_error"], late["norm_l2"])[0])  # pyright: ignore[reportArgumentType]
        yield Finding(
            self.claims[2],
            "the improvement coincides with a decrease in the norm of the weights",
            f"‖w‖² from {float(late['norm_l2'][0]) ** 2:.0f} to {float(late['norm_l2'][-1]) ** 2:.0f} after "
            f"t={0.01 * slow:g}; its rank correlation with the test error there is {correlation:.2f}",
            correlation > 0.9,
        )
        values = curves["singular_values"]
        t0, t1 = 0.01 * slow, 0.1 * slow
        before, start = (values.sel(time=t, method="nearest").values for t in (t0, t1))
        end, width = values[-1].values, run.spec["model"]["rank"]
        yield Finding(
            self.claims[3],
            f"large positive values at t ≈ 1; all but {rank} decay to zero from t ≈ {_power(t1)}",
            f"smallest of {width} is {before[width - 1]:.2g} at t={t0:g}; number {rank + 1} is {before[rank]:.2g} at "
            f"t={t0:g}, {start[rank]:.2g} at t={t1:g}, {end[rank]:.2g} at the end beside a number {rank} of "
            f"{end[rank - 1]:.2g}",
            bool(start[rank] > 0.5 * before[rank] and end[rank] < 0.05 * end[rank - 1]),
        )
        truth = Experiment.from_dict(run.spec).draw().truth
        true_values = np.linalg.svd(truth, compute_uv=False)[:rank]
        gap = np.max(np.abs(end[:rank] / true_values - 1))
        yield Finding(
            self.claims[4],
            "they approach σ₁*, σ₂*, σ₃*",
            f"end {_list(end[:rank])}, true {_list(true_values)}: within {gap:.1%}",
            bool(gap <= 0.05),
        )
        draws = self._draws(scale)
        others = run_all(draws, f"{self.id}: draws", progress)
        recovered, distances, exact = 0, [], 0
        for name, other in others.items():
            data = draws[name].draw()
            W = other.params["U"] @ other.params["V"].T
            best = _convex_end(other)
            size = np.linalg.norm(data.truth)
            recovered += bool(np.linalg.norm(W - data.truth) <= 0.05 * size)
            exact += bool(np.linalg.norm(best - data.truth) <= 0.05 * size)
            distances.append(np.linalg.norm(W - best) / size)
        yield Finding(
            self.claims[5],
            "one draw is shown, and it recovers M*",
            f"{recovered} of {len(draws)} draws end within 5 % of M*; the convex program itself does on {exact}",
            recovered > len(draws) / 2,
        )
        yield Finding(
            self.claims[6],
            "the slow phase minimises ½(‖U‖² + ‖V‖²), whose minimum is the nuclear norm",
            f"distance to argmin Σ(W−M)² + λ‖W‖_*, relative to ‖M*‖: median {np.median(distances):.2g}, "
            f"largest {max(distances):.2g} over {len(draws)} draws",
            bool(max(distances) <= 0.05),
        )

    def _draws(self, scale: str) -> dict[str, Experiment]:
        """Other draws of the same experiment, to t = 20/λ, where the slow phase has come to its end."""
        headline = self.experiments(scale)["run"]
        steps = int(20 / headline.penalty.strength / 1e-2)
        shorter = headline.set({"dynamics.steps": steps, "observations": 20})
        return {f"seed {seed}": shorter.set({"seed": seed}) for seed in range(10)}


def _convex_end(run: Run) -> np.ndarray:
    """argmin Σ(W − M)² + λ‖W‖_*: the loss is twice what the program has in front of its penalty."""
    data = Experiment.from_dict(run.spec).draw()
    X, y = theory.single_entries(data.inputs.mask), data.truth[data.inputs.mask > 0]
    return theory.nuclear_penalised(X, y, run.spec["penalty"]["strength"] / 2)


def _power(t: float) -> str:
    """A power of ten, as the papers write it."""
    digits = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return f"10{str(round(np.log10(t))).translate(digits)}"


def _number(value: float | None) -> str:
    return "never" if value is None else f"{value:.3g}"


def _list(values: np.ndarray) -> str:
    return "(" + ", ".join(f"{value:.3g}" for value in values) + ")"
