"""Fig. 3: matrix completion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.lyu2023.accuracy import show_steps
from afterfit.plot import TEST, TRAIN, mark_phases
from afterfit.run import Run

__all__ = ["Fig3"]


class Fig3(Entry):
    id = "lyu2023/fig3"
    title = "The multiplication table is completed only after 10⁶ steps"
    where = "Fig. 3, §3.3.3"
    about = (
        "The 97 x 97 table ij/97², of rank 1, is completed from 5 % of its entries by W = UUᵀ − VVᵀ started at "
        "U = V = 10·I, with weight decay λ = 10⁻⁴ and gradient descent of step 0.1 on the mean squared error. The "
        "early phase is a kernel predictor, which fits the observed entries and leaves the others at 0; weight decay "
        "ends it at a time of order (1/λ)·log α, and the minimum-norm solution completes the table."
    )
    claims = (
        "the training loss is small within ~10¹ steps",
        "the test loss drops only around 10⁶ steps",
        "the early phase leaves unobserved entries at 0 (Cor. 3.11)",
        "the transition is at a time of order (1/λ)·log α",
        "the late phase completes the table with rank 1",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            return {"run": self._experiment(d=97, observed=0.05, decay=1e-4, steps=1_200_000)}
        return {"run": self._experiment(d=20, observed=0.25, decay=1e-3, steps=120_000)}

    def _experiment(self, d: int, observed: float, decay: float, steps: int) -> Experiment:
        return Experiment(
            task=tasks.MatrixCompletion(d, d, 1, observed=observed, truth="multiplication_table", reduction="mean"),
            model=models.SymmetricFactorisation(),
            penalty=penalties.L2(decay),
            dynamics=dynamics.GradientDescent(lr=0.1, steps=steps),
            init=inits.Identity(10.0),
        )

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        run = runs["run"]
        curves = run.curves.isel(time=slice(1, None))
        lr, decay, alpha = (run.spec[noun][name] for noun, name in _KNOBS)
        figure = Figure(figsize=(7.5, 5), layout="constrained")
        ax = figure.subplots()
        ax.plot(curves["time"], curves["train_loss"], **TRAIN, label="training loss")
        ax.plot(curves["time"], curves["test_loss"], **TEST, label="test loss")
        ax.axhline(
            zero_filled_loss(run),
            color="k",
            ls=":",
            lw=1.2,
            label="test loss of the kernel predictor (Cor. 3.11)",
        )
        ax.axvspan(0.5 / decay * np.log(alpha), 2 / decay * np.log(alpha), color="0.9", zorder=0)
        ax.axvline(np.log(alpha) / decay, color="0.5", lw=1, label=r"$(1/\lambda)\log\alpha$, and within ×2")
        ax.set(xscale="log", yscale="log", xlabel="training time t = 0.1 · steps", ylabel="mean squared error")
        show_steps(ax, lr, "steps")
        mark_phases(ax, run.verdict)
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        run, curves, verdict = runs["run"], runs["run"].curves, runs["run"].verdict
        lr, decay, alpha = (run.spec[noun][name] for noun, name in _KNOBS)
        relative = curves["train_loss"] / curves["train_loss"][0]
        small = int(curves["step"][np.flatnonzero(relative.values <= 1e-2)[0]]) if (relative <= 1e-2).any() else None
        yield Finding(
            self.claims[0],
            "~10¹ steps to minimise the training loss",
            f"1 % of its initial value after {small} steps; {float(relative[-1]):.1g} of it at the end",
            small is not None and 1 <= small <= 100,
        )
        fell = curves["test_loss"] <= 0.1 * curves["test_loss"][0]
        drop = int(curves["step"][np.flatnonzero(fell.values)[0]]) if fell.any() else None
        expected = 1e6 if scale == "paper" else (np.log(alpha) / decay) / lr
        yield Finding(
            self.claims[1],
            "the sharp transition in test loss occurs only after ~10⁶ steps"
            if scale == "paper"
            else "late, at a time of order (1/λ)·log α",
            f"a tenth of its initial value after {drop} steps; {verdict}",
            drop is not None and expected / 4 <= drop <= 4 * expected and verdict.kind == "grokking",
        )
        t_fit = verdict.t_fit or np.inf
        plateau = float(curves["test_loss"].sel(time=10 * t_fit, method="nearest"))
        predicted = zero_filled_loss(run)
        yield Finding(
            self.claims[2],
            "observed entries (and their mirror images) fitted, the others 0",
            f"test loss {plateau:.5g} at t = 10·t_fit; that of the predictor of Cor. 3.11 is {predicted:.5g}",
            abs(plateau / predicted - 1) <= 1e-2,
        )
        halfway = _crossing(curves, 0.5)
        clock = np.log(alpha) / decay
        yield Finding(
            self.claims[3],
            f"(1/λ)·log α = {clock:.3g}, sharp as α → ∞",
            f"test loss halved at t={halfway:.3g}, {halfway / clock:.2f} of it; 10–90 % within "
            f"{verdict.width_decades or np.nan:.2f} decades",
            0.5 <= halfway / clock <= 2,
        )
        values = curves["singular_values"][-1].values
        yield Finding(
            self.claims[4],
            "the minimum nuclear norm solution recovers X* with very small errors",
            f"‖W − X*‖/‖X*‖ = {float(curves['test_error'][-1]):.2g}; second singular value {values[1] / values[0]:.1g} "
            "of the first",
            float(curves["test_error"][-1]) <= 0.05 and values[1] <= 0.01 * values[0],
        )


_KNOBS = (("dynamics", "lr"), ("penalty", "strength"), ("init", "scale"))


def zero_filled_loss(run: Run) -> float:
    """The test loss of the kernel predictor: entries seen, or whose mirror image is, right; the others 0."""
    data = Experiment.from_dict(run.spec).draw()
    seen = np.maximum(data.inputs.mask, data.inputs.mask.T)
    hidden = data.test_inputs.mask
    return float(np.sum(hidden * (seen * data.truth - data.truth) ** 2) / np.sum(hidden))


def _crossing(curves, share: float) -> float:
    """When the test loss has fallen to a share of its initial value."""
    below = np.flatnonzero(curves["test_loss"].values <= share * float(curves["test_loss"][0]))
    return float(curves["time"][below[0]]) if len(below) else np.inf
