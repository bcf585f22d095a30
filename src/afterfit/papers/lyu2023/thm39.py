"""Thm 3.9 and Cor. 3.11: until (1/λ)·log α matrix completion is kernel interpolation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Finding, claim, once
from afterfit.papers._measure import log_slope
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.regimes import (
    STYLES,
    At,
    Regime,
    by_c,
    falls,
    kernel_regime,
    mark_shares,
    scale_ticks,
    table_flow,
    weights_of,
    zero_filled,
    zero_filled_loss,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Thm39"]

_SHARES = (0.2, 0.5, 0.8)  # 1 − c


class Thm39(Regime):
    paper, name = PAPER, "thm3.9"
    title = "Until (1/λ)·log α matrix completion fills unobserved entries with 0"
    where = "Thm 3.9, Cor. 3.11, App. D.1"
    about = (
        "UUᵀ − VVᵀ is fitted to some entries of the multiplication table by gradient flow on the mean squared error "
        "with weight decay λ = 1/α, from U = V = αI, stopped at t = (1 − c)/λ·log α for rising α. Thm 3.9 asks for "
        "linearly independent tangent features, so that no entry is observed together with its mirror image, "
        "whose feature is the same; the entries here are drawn so. Entries then have orthogonal features, of squared "
        "norm 4α², and 8α² on the diagonal."
    )
    notes = (
        "The proof of Thm D.7 takes observed entries to be within O(α^{−2(L−1)}) whatever c is. Lemma D.1 gives "
        "λα^{−2(L−1)c}, which is what is measured, and slower for c < 1/2 when λ = 1/α and L = 2. Both go to 0, so "
        "that the theorem stands."
    )

    def runs(self, scale: str) -> dict[str, dict[At, af.Experiment]]:
        # The seeds are those under which no entry is observed together with its mirror image.
        if scale == "paper":
            d, observed, seed, alphas, observations = 16, 40, 13, (1000.0, 300.0, 100.0, 30.0, 10.0), 100
        else:
            d, observed, seed, alphas, observations = 10, 16, 1, (300.0, 100.0, 30.0), 30
        ats = [At(α, share) for α in alphas for share in _SHARES[::-1]]
        return {"flows": {at: table_flow(d, observed, *at, observations).set({"seed": seed}) for at in ats}}

    @once
    def limit(self, headline: af.Run) -> np.ndarray:
        """The matrix of Cor. 3.11."""
        return zero_filled(headline)

    @once
    def least(self, headline: af.Run) -> float:
        """ν_ntk, the least eigenvalue of the kernel at θ̄."""
        import jax

        with jax.enable_x64(True):
            instance = af.theory.instance_of(headline)
            values = np.linalg.eigvalsh(np.asarray(af.theory.tangent_kernel(instance.problem, instance.initial)))
        return values[0] / headline.spec["init"]["scale"] ** 2

    @once
    def seen(self, groups: dict[float, list[af.Run]], limit: np.ndarray) -> dict[float, list[float]]:
        """The largest error of an entry that is observed, or whose mirror image is."""
        return by_c(groups, lambda run: float(np.abs(weights_of(run) - limit)[_seen(run)].max()))

    @once
    def unseen(self, groups: dict[float, list[af.Run]], limit: np.ndarray) -> dict[float, list[float]]:
        """The largest error of the other entries."""
        return by_c(groups, lambda run: float(np.abs(weights_of(run) - limit)[~_seen(run)].max()))

    @once
    def rates(self, seen: dict[float, list[float]], alphas: list[float]) -> dict[float, float]:
        """The power of α by which the error of observed entries falls between the last two."""
        return {c: log_slope(alphas[-2:], errors[-2:]) for c, errors in seen.items()}

    def picture(
        self,
        headline: af.Run,
        groups: dict[float, list[af.Run]],
        limit: np.ndarray,
        seen: dict[float, list[float]],
        unseen: dict[float, list[float]],
        alphas: list[float],
    ) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.8), layout="constrained")
        path, entries, matrices = figure.subplots(1, 3)
        _draw_path(path, headline)
        for c, style in zip(groups, STYLES, strict=True):
            entries.loglog(alphas, seen[c], **style, label=f"seen, c = {c:g}")
            entries.loglog(alphas, unseen[c], **style, ls=":", label=f"unseen, c = {c:g}")
        entries.set(xlabel=r"scale $\alpha$ of the start", ylabel="largest error of an entry, from Cor. 3.11")
        scale_ticks(entries, alphas)
        entries.set(title=r"at $t=(1-c)/\lambda\cdot\log\alpha$")
        _draw_matrices(matrices, dict(zip(alphas, groups[0.5], strict=True)), limit)
        af.plot.legend_below(*figure.axes)
        return figure

    @claim(
        "the kernel predictor of Thm 3.9 is the matrix of Cor. 3.11",
        says="(K2) gives X* on Ω and its mirror image, 0 elsewhere",
    )
    def kernel_is_zero_filled(self, headline: af.Run, limit: np.ndarray, least: float) -> Finding:
        kernel, _ = kernel_regime(headline)
        apart, mask = _off(kernel, limit, headline), headline.data.inputs.mask
        pairs = int(np.sum(mask * mask.T * (1 - np.eye(len(limit))))) // 2
        return Finding(
            f"‖difference‖/‖X*‖ = {apart:.1g}; ν_ntk = {least:.4g} at θ̄, {pairs} mirror pairs observed",
            apart <= 1e-8 and pairs == 0 and abs(least - 4) <= 1e-6,
        )

    @claim(
        "the whole matrix tends to it",
        says="for every c in (0, 1), as α → ∞; the remainder is O(α^{−cL}), (30)",
    )
    def matrix_tends(
        self, groups: dict[float, list[af.Run]], limit: np.ndarray, alphas: list[float], reached: str
    ) -> Finding:
        off = by_c(groups, lambda run: _off(weights_of(run), limit, run))
        return _vanishing(f"‖W − limit‖/‖X*‖, {reached}", off, alphas)

    @claim("entries that are observed, or whose mirror image is, tend to X*", says="W_ij → X*_ij")
    def seen_tend(self, seen: dict[float, list[float]], alphas: list[float], reached: str) -> Finding:
        return _vanishing(f"largest error of an entry, {reached}", seen, alphas)

    @claim("the other entries tend to 0", says="W_ij → 0")
    def unseen_tend(self, unseen: dict[float, list[float]], alphas: list[float], reached: str) -> Finding:
        return _vanishing(f"largest error of an entry, {reached}", unseen, alphas)

    @claim(
        "the loss is below (26), Lemma D.1",
        says="𝓛 ≤ max{‖y‖²/n·exp(−ν_ntk·A(1 − e^{−2(L−1)λt})/8n(L−1)), 16nL²‖y‖²λ²e^{4(L−1)λt}/(ν_ntk²α^{4(L−1)})}",
    )
    def is_below(self, flows: dict[At, af.Run], least: float) -> Finding:
        shares = [float(run.curves["train_loss"][-1]) / _upper(run, least) for run in flows.values()]
        return Finding(
            f"𝓛 over it, {len(flows)} runs: {min(shares):.2g} to {max(shares):.2g} (the proof's gradient of 𝓛 "
            "lacks a factor 2, with which the second term would be a quarter)",
            max(shares) <= 1,
        )

    @claim(
        "observed entries are within O(λα^{−2(L−1)c}) (proof of Lemma D.5)",
        says="λα^{−2c} for L = 2: α^{−1−2c}",
    )
    def fits_as_proved(self, rates: dict[float, float]) -> Finding:
        return Finding(
            f"between the last two α like {_powers(rates)}",
            all(rate <= -1 - 2 * c + 0.1 for c, rate in rates.items()),
        )

    @claim(
        "observed entries are within O(α^{−2(L−1)}) (proof of Thm D.7)",
        says="|fᵢ − yᵢ| = O(α^{−2(L−1)}) at (1 − c)/λ·log α, whatever c",
        fails="Lemma D.1 gives λα^{−2(L−1)c}, slower where 2(L−1)c + p < 2(L−1). The limit stays.",
    )
    def fits_whatever_c(self, rates: dict[float, float]) -> Finding:
        return Finding(
            f"like {_powers(rates)}: slower than α^−2 for c < 1/2, as Lemma D.1 has it with λ = 1/α",
            all(rate <= -2 + 0.1 for rate in rates.values()),
        )


def _vanishing(what: str, gaps: dict[float, list[float]], alphas: list[float]) -> Finding:
    """Whether something falls with α for every c, to a tenth or less."""
    return Finding(
        f"{what}: {falls(alphas, gaps, '.1g')}",
        all(np.all(np.diff(g) < 0) and g[-1] <= 0.1 for g in gaps.values()),
    )


def _powers(rates: dict[float, float]) -> str:
    return ", ".join(f"α^{rate:.2f} (c={c:g})" for c, rate in rates.items())


def _seen(run: af.Run) -> np.ndarray:
    mask = run.data.inputs.mask
    return np.maximum(mask, mask.T) > 0


def _off(W: np.ndarray, limit: np.ndarray, run: af.Run) -> float:
    """‖W − limit‖/‖X*‖."""
    return float(np.linalg.norm(W - limit) / np.linalg.norm(run.data.truth))


def _upper(run: af.Run, least: float) -> float:
    """(26) for L = 2, with ν_ntk = least."""
    alpha, decay, t = run.spec["init"]["scale"], run.spec["penalty"]["strength"], run.spec["dynamics"]["until"]
    square, n = float(np.sum((run.data.inputs.mask * run.data.truth) ** 2)), run.data.n
    first = square / n * np.exp(least * alpha**2 / decay / (8 * n) * np.expm1(-2 * decay * t))
    return float(max(first, 64 * n * square * decay**2 / (least**2 * alpha**4) * np.exp(4 * decay * t)))


def _draw_path(ax: Axes, run: af.Run) -> None:
    """Both losses over time, and that of Cor. 3.11."""
    curves = run.curves.isel(time=slice(1, None))
    ax.plot(curves["time"], curves["train_loss"], **af.plot.TRAIN, label="training loss")
    ax.plot(curves["time"], curves["test_loss"], **af.plot.TEST, label="test loss")
    ax.axhline(zero_filled_loss(run), color="k", ls=":", label="test loss of Cor. 3.11")
    mark_shares(ax, run, _SHARES)
    ax.set(yscale="log", ylabel=rf"mean squared error, $\alpha={run.spec['init']['scale']:g}$")
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)


def _draw_matrices(ax: Axes, by_α: dict[float, af.Run], limit: np.ndarray) -> None:
    """The entries of W against those of Cor. 3.11, for the smallest, the middle and the largest α."""
    alphas = list(by_α)
    for α, style in zip((alphas[0], alphas[len(alphas) // 2], alphas[-1]), STYLES, strict=True):
        ax.plot(limit.ravel(), weights_of(by_α[α]).ravel(), ls="", **style, label=rf"$\alpha={α:g}$")
    ax.plot([0, limit.max()], [0, limit.max()], color="0.6", lw=1.0, zorder=0, label="equal")
    ax.set(xlabel="entry of Cor. 3.11", ylabel=r"entry of $W$")
    ax.set(title=r"at $t=(1-c)/\lambda\cdot\log\alpha$, c = 0.5")
