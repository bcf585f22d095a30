"""Thm 3.9 and Cor. 3.11: until (1/λ)·log α matrix completion is kernel interpolation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import jax
import numpy as np
from matplotlib.figure import Figure

from afterfit import models, tangent
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.lyu2023.regimes import by_share, mark_shares, scale_of, scale_ticks, table_flow, weights_of
from afterfit.papers.measure import log_slope
from afterfit.plot import TEST, TRAIN, legend_below, log_time_axes, mark_phases
from afterfit.run import Run
from afterfit.theory.instance import instance_of
from afterfit.theory.kernel import kernel_predictor

__all__ = ["Thm39"]


class Thm39(Entry):
    id = "lyu2023/thm3.9"
    title = "Until (1/λ)·log α matrix completion fills unobserved entries with 0"
    where = "Thm 3.9, Cor. 3.11, App. D.1"
    about = (
        "UUᵀ − VVᵀ is fitted to some entries of the multiplication table by gradient flow on the mean squared error "
        "with weight decay λ = 1/α, from U = V = αI, stopped at t = (1 − c)/λ·log α for rising α. Thm 3.9 asks for "
        "linearly independent tangent features, so that no entry is observed together with its mirror image, "
        "whose feature is the same; the entries here are drawn so. Entries then have orthogonal features, of squared "
        "norm 4α², and 8α² on the diagonal."
    )
    claims = (
        "the kernel predictor of Thm 3.9 is the matrix of Cor. 3.11",
        "the whole matrix tends to it",
        "entries that are observed, or whose mirror image is, tend to X*",
        "the other entries tend to 0",
        "the loss is below (26), Lemma D.1",
        "observed entries are within O(λα^{−2(L−1)c}) (proof of Lemma D.5)",
        "observed entries are within O(α^{−2(L−1)}) (proof of Thm D.7)",
    )

    _shares = (0.2, 0.5, 0.8)  # 1 − c

    def experiments(self, scale: str) -> dict[str, Experiment]:
        if scale == "paper":
            d, observed, seed, alphas, observations = 16, 40, _PAPER, (1000, 300, 100, 30, 10), 100
        else:
            d, observed, seed, alphas, observations = 10, 16, _QUICK, (300, 100, 30), 30
        return {
            f"α={alpha:g} share {share:g}": table_flow(d, observed, float(alpha), share, observations).set(
                {"seed": seed}
            )
            for alpha in alphas
            for share in self._shares[::-1]
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.8), layout="constrained")
        path, entries, matrices = figure.subplots(1, 3)
        headline = next(iter(runs.values()))
        alpha = scale_of(headline)
        curves = headline.curves.isel(time=slice(1, None))
        path.plot(curves["time"], curves["train_loss"], **TRAIN, label="training loss")
        path.plot(curves["time"], curves["test_loss"], **TEST, label="test loss")
        path.axhline(_zero_filled(headline), color="k", ls=":", label="test loss of Cor. 3.11")
        mark_shares(path, headline, self._shares)
        path.set(yscale="log", ylabel=rf"mean squared error, $\alpha={alpha:g}$")
        log_time_axes(path)
        mark_phases(path, headline.verdict)
        for (share, group), marker, grey in zip(
            by_share(runs, self._shares).items(), ("o", "s", "^"), ("0.65", "0.4", "0.0"), strict=True
        ):
            alphas, c = np.array([scale_of(run) for run in group]), 1 - share
            style = {"color": grey, "marker": marker, "mfc": "none"}
            seen, unseen = np.array([_errors(run) for run in group]).T
            entries.loglog(alphas, seen, **style, label=f"seen, c = {c:g}")
            entries.loglog(alphas, unseen, **style, ls=":", label=f"unseen, c = {c:g}")
        limit, middle = _limit(headline), by_share(runs, self._shares)[0.5]
        chosen = (middle[0], middle[len(middle) // 2], middle[-1])
        for run, marker, grey in zip(chosen, ("o", "s", "^"), ("0.65", "0.4", "0.0"), strict=True):
            style = {"color": grey, "marker": marker, "mfc": "none", "label": rf"$\alpha={scale_of(run):g}$"}
            matrices.plot(limit.ravel(), weights_of(run).ravel(), ls="", **style)
        matrices.plot([0, limit.max()], [0, limit.max()], color="0.6", lw=1.0, zorder=0, label="equal")
        entries.set(xlabel=r"scale $\alpha$ of the start", ylabel="largest error of an entry, from Cor. 3.11")
        scale_ticks(entries, middle)
        entries.set(title=r"at $t=(1-c)/\lambda\cdot\log\alpha$")
        matrices.set(xlabel="entry of Cor. 3.11", ylabel=r"entry of $W$")
        matrices.set(title=r"at $t=(1-c)/\lambda\cdot\log\alpha$, c = 0.5")
        legend_below(*figure.axes)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        groups = by_share(runs, self._shares)
        headline = next(iter(runs.values()))
        data, limit = Experiment.from_dict(headline.spec).draw(), _limit(headline)
        with jax.enable_x64(True):
            instance = instance_of(headline)
            predictor = kernel_predictor(instance)
            assert isinstance(predictor.model, models.LinearModel)
            kernel = np.asarray(predictor.model.weights(predictor.params))
            values = np.linalg.eigvalsh(np.asarray(tangent.kernel(instance.problem, instance.initial)))
        least = values[0] / scale_of(headline) ** 2  # ν_ntk, of the features at θ̄
        pairs = int(np.sum(data.inputs.mask * data.inputs.mask.T * (1 - np.eye(len(limit))))) // 2
        size = np.linalg.norm(data.truth)
        apart = float(np.linalg.norm(kernel - limit) / size)
        yield Finding(
            self.claims[0],
            "(K2) gives X* on Ω and its mirror image, 0 elsewhere",
            f"‖difference‖/‖X*‖ = {apart:.1g}; ν_ntk = {least:.4g} at θ̄, {pairs} mirror pairs observed",
            apart <= 1e-8 and pairs == 0 and abs(least - 4) <= 1e-6,
        )
        alphas = [scale_of(run) for run in groups[self._shares[0]]]
        reached = f"from α={alphas[0]:g} to {alphas[-1]:g}"
        whole = {s: [float(np.linalg.norm(weights_of(run) - limit) / size) for run in g] for s, g in groups.items()}
        errors = {s: np.array([_errors(run) for run in group]).T for s, group in groups.items()}
        seen, unseen = ({s: list(both[k]) for s, both in errors.items()} for k in (0, 1))
        for claim, says, gaps in (
            (self.claims[1], "for every c in (0, 1), as α → ∞; the remainder is O(α^{−cL}), (30)", whole),
            (self.claims[2], "W_ij → X*_ij", seen),
            (self.claims[3], "W_ij → 0", unseen),
        ):
            name = "‖W − limit‖/‖X*‖" if gaps is whole else "largest error of an entry"
            yield Finding(
                claim,
                says,
                f"{name}, {reached}: "
                + ", ".join(
                    f"{g[0]:.1g} to {g[-1]:.1g}, like α^{log_slope(alphas[-2:], g[-2:]):.2f} at last (c={1 - s:g})"
                    for s, g in gaps.items()
                ),
                all(np.all(np.diff(g) < 0) and g[-1] <= 0.1 for g in gaps.values()),
            )
        shares = [float(run.curves["train_loss"][-1]) / _upper(run, least) for run in runs.values()]
        yield Finding(
            self.claims[4],
            "𝓛 ≤ max{‖y‖²/n·exp(−ν_ntk·A(1 − e^{−2(L−1)λt})/8n(L−1)), 16nL²‖y‖²λ²e^{4(L−1)λt}/(ν_ntk²α^{4(L−1)})}",
            f"𝓛 over it, {len(runs)} runs: {min(shares):.2g} to {max(shares):.2g} (the proof's gradient of 𝓛 "
            "lacks a factor 2, with which the second term would be a quarter)",
            max(shares) <= 1,
        )
        rates = {s: log_slope(alphas[-2:], g[-2:]) for s, g in seen.items()}
        told = ", ".join(f"α^{rate:.2f} (c={1 - s:g})" for s, rate in rates.items())
        yield Finding(
            self.claims[5],
            "λα^{−2c} for L = 2: α^{−1−2c}",
            f"between the last two α like {told}",
            all(rate <= -1 - 2 * (1 - s) + 0.1 for s, rate in rates.items()),
        )
        yield Finding(
            self.claims[6],
            "|fᵢ − yᵢ| = O(α^{−2(L−1)}) at (1 − c)/λ·log α, whatever c",
            f"like {told}: slower than α^−2 for c < 1/2, as Lemma D.1 has it with λ = 1/α",
            all(rate <= -2 + 0.1 for rate in rates.values()),
        )


# Seeds of the data under which no entry is observed together with its mirror image.
_QUICK, _PAPER = 1, 13


def _limit(run: Run) -> np.ndarray:
    """The matrix of Cor. 3.11."""
    data = Experiment.from_dict(run.spec).draw()
    return np.maximum(data.inputs.mask, data.inputs.mask.T) * data.truth


def _errors(run: Run) -> tuple[float, float]:
    """The largest |W_ij − limit| over entries that are seen (or whose mirror image is), and over the others."""
    data = Experiment.from_dict(run.spec).draw()
    seen = np.maximum(data.inputs.mask, data.inputs.mask.T) > 0
    off = np.abs(weights_of(run) - _limit(run))
    return float(off[seen].max()), float(off[~seen].max())


def _zero_filled(run: Run) -> float:
    """The test loss of the matrix of Cor. 3.11."""
    data = Experiment.from_dict(run.spec).draw()
    hidden = data.test_inputs.mask
    return float(np.sum(hidden * (_limit(run) - data.truth) ** 2) / np.sum(hidden))


def _upper(run: Run, least: float) -> float:
    """(26) for L = 2, with ν_ntk = least."""
    data = Experiment.from_dict(run.spec).draw()
    alpha, decay, t = scale_of(run), run.spec["penalty"]["strength"], run.spec["dynamics"]["until"]
    square, n = float(np.sum((data.inputs.mask * data.truth) ** 2)), data.n
    first = square / n * np.exp(least * alpha**2 / decay / (8 * n) * np.expm1(-2 * decay * t))
    return float(max(first, 64 * n * square * decay**2 / (least**2 * alpha**4) * np.exp(4 * decay * t)))
