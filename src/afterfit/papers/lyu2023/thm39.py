"""Thm 3.9 and Cor. 3.11: until (1/λ)·log α matrix completion is kernel interpolation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Finding, claim, control, correction, once
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.regimes import (
    STYLES,
    At,
    Law,
    Regime,
    by_c,
    first_to_last,
    in_words,
    kernel_regime,
    laws,
    mark_shares,
    off_the_start,
    scale_ticks,
    start_slope,
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
        "Cor. D.6 has α → 0 for α → ∞; §3.3.1 sends the reader to App. C.2 for a proof that is in D.1. A start of α = "
        "3 "
        "was left out after first runs, in which the kernel regime had not begun. At first errors were asked to "
        "fall for each larger α and between the last two α; the laws over all α were written when those numbers were "
        "known, and are measured on draws that were not."
    )

    def runs(self, scale: str) -> dict[str, dict[At, af.Experiment]]:
        # The seeds are new, and the first under which no entry is observed together with its mirror image.
        if scale == "paper":
            d, observed, seed, alphas, observations = 16, 40, 15, (1000.0, 300.0, 100.0, 30.0, 10.0), 100
        else:
            d, observed, seed, alphas, observations = 10, 16, 3, (300.0, 100.0, 30.0, 10.0), 30
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
    def ends(self, groups: dict[float, list[af.Run]]) -> dict[float, list[np.ndarray]]:
        """W, by c and in the order of α."""
        return {c: [weights_of(run) for run in group] for c, group in groups.items()}

    @once
    def known(self, headline: af.Run) -> np.ndarray:
        """Which entries are observed, or have a mirror image that is."""
        return (headline.data.inputs.mask + headline.data.inputs.mask.T) > 0

    @once
    def seen(
        self, ends: dict[float, list[np.ndarray]], limit: np.ndarray, known: np.ndarray
    ) -> dict[float, list[float]]:
        """The largest error of an entry that is observed, or whose mirror image is."""
        return _largest(ends, limit, known)

    @once
    def unseen(
        self, ends: dict[float, list[np.ndarray]], limit: np.ndarray, known: np.ndarray
    ) -> dict[float, list[float]]:
        """The largest error of the other entries."""
        return _largest(ends, limit, ~known)

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
        apart, mask = _off(kernel, limit), headline.data.inputs.mask
        pairs = int(np.sum(mask * mask.T * (1 - np.eye(len(limit))))) // 2
        return Finding(
            f"‖difference‖/‖X*‖ = {apart:.1g}; ν_ntk = {least:.4g} at θ̄, {pairs} mirror pairs observed",
            apart <= 1e-8 and pairs == 0 and abs(least - 4) <= 1e-6,
        )

    @control(kernel_is_zero_filled, "mirror images left at 0, as by UVᵀ")
    def kernel_is_symmetric(self, headline: af.Run, least: float) -> Finding:
        return self.kernel_is_zero_filled(headline, _as_observed(headline), least)

    @claim(
        "the whole matrix tends to it",
        says="for every c in (0, 1), as α → ∞; the remainder is O(α^{−cL}), (30)",
    )
    def matrix_tends(
        self, ends: dict[float, list[np.ndarray]], limit: np.ndarray, alphas: list[float], reached: str
    ) -> Finding:
        off = by_c(ends, lambda W: _off(W, limit))
        return _vanishing(f"‖W − limit‖/‖limit‖, {reached}", off, alphas)

    @control(matrix_tends, "X*, the matrix of the rich regime")
    def matrix_is_not_complete(
        self, ends: dict[float, list[np.ndarray]], headline: af.Run, alphas: list[float], reached: str
    ) -> Finding:
        return self.matrix_tends(ends, headline.data.truth, alphas, reached)

    @claim("entries that are observed, or whose mirror image is, tend to X*", says="W_ij → X*_ij")
    def seen_tend(self, seen: dict[float, list[float]], alphas: list[float], reached: str) -> Finding:
        return _vanishing(f"largest error of an entry, {reached}", seen, alphas)

    @control(seen_tend, "mirror images left at 0, as by UVᵀ")
    def mirror_images_tend(
        self,
        ends: dict[float, list[np.ndarray]],
        headline: af.Run,
        known: np.ndarray,
        alphas: list[float],
        reached: str,
    ) -> Finding:
        return self.seen_tend(_largest(ends, _as_observed(headline), known), alphas, reached)

    @claim("the other entries tend to 0", says="W_ij → 0")
    def unseen_tend(self, unseen: dict[float, list[float]], alphas: list[float], reached: str) -> Finding:
        return _vanishing(f"largest error of an entry, {reached}", unseen, alphas)

    @control(unseen_tend, "X*, the matrix of the rich regime")
    def unseen_do_not_recover(
        self,
        ends: dict[float, list[np.ndarray]],
        headline: af.Run,
        known: np.ndarray,
        alphas: list[float],
        reached: str,
    ) -> Finding:
        return self.unseen_tend(_largest(ends, headline.data.truth, ~known), alphas, reached)

    @claim(
        "the loss is below (26), Lemma D.1",
        says="𝓛 ≤ max{‖y‖²/n·exp(−ν_ntk·A(1 − e^{−2(L−1)λt})/8n(L−1)), 16nL²‖y‖²λ²e^{4(L−1)λt}/(ν_ntk²α^{4(L−1)})}",
    )
    def is_below(self, flows: dict[At, af.Run], least: float) -> Finding:
        return _below([float(run.curves["train_loss"][-1]) / _upper(run, least) for run in flows.values()])

    @control(is_below, "(26) with e^{2(L−1)λt}, as if the kernel shrank like the features")
    def shrinks(self, flows: dict[At, af.Run], least: float) -> Finding:
        return _below([float(run.curves["train_loss"][-1]) / _upper(run, least, 2) for run in flows.values()])

    @claim(
        "∇𝓛 = 2·Σsᵢ∇fᵢ, (23)",
        says="∇𝓛 = 2·Σsᵢ∇fᵢ, (23); the proofs of Lemmas D.1 and D.2 have (1/n)·Σsᵢ∇fᵢ",
    )
    def gradient_as_printed(self, headline: af.Run) -> Finding:
        return _gradient_finding(headline, {"2": 2.0, "1/n": 1 / headline.data.n})

    @correction(
        gradient_as_printed,
        "∇𝓛 = (2/n)·Σsᵢ∇fᵢ",
        why="𝓛 = (1/n)·Σ(fᵢ − yᵢ)². (23) and (24) lose the 1/n; Lemmas D.1 and D.2 have it and lose the 2, so that V₁ "
        "lacks a "
        "factor of 4 and V₂ of 2.",
        touches="No: constants. With them the first exponent of (26) is four times as large and its second term a "
        "quarter: what is printed holds all the more.",
        where="App. D.1, (23), (24), Lemmas D.1 and D.2",
    )
    def gradient_as_derived(self, headline: af.Run) -> Finding:
        return _gradient_finding(headline, {"2/n": 2 / headline.data.n})

    @claim(
        "‖δ‖ = ‖e^{λt}θ/α − θ̄‖ of order e^{−cL} makes ‖h‖ = O(1) at (1 − c)/λ·log α (proof of Lemma D.5)",
        says="By Lemma D.2 ‖δ(T_c⁻)‖ = O(e^{−cL}), so that ‖h‖ = α^L·e^{−LλT_c⁻}·‖δ‖ = O(1)",
    )
    def moves_as_printed(self, groups: dict[float, list[af.Run]], alphas: list[float]) -> Finding:
        return _size_finding({c: [np.exp(-2 * c)] * len(alphas) for c in groups}, alphas)

    @correction(
        moves_as_printed,
        "‖δ‖ = O(α^{−cL})",
        why="Lemma D.2 has α^{−L}·e^{Lλt}, which is α^{−cL} at T_c⁻. e^{−cL} is true, but a constant, and with it the "
        "next line would give no more than ‖h‖ = O(α^{cL}).",
        touches="No: ‖h‖ = Θ(1) follows from α^{−cL}.",
        where="App. D.1, proof of Lemma D.5",
    )
    def moves_as_proved(self, groups: dict[float, list[af.Run]], alphas: list[float]) -> Finding:
        return _size_finding(by_c(groups, off_the_start), alphas)

    @claim(
        "observed entries are within O(α^{−2(L−1)}) (proof of Thm D.7)",
        says="By Lemma D.1 |fᵢ − yᵢ| = O(α^{−2(L−1)}) at (1 − c)/λ·log α, whatever c",
    )
    def fits_whatever_c(self, seen: dict[float, list[float]], alphas: list[float]) -> Finding:
        return _fits_finding(laws(alphas, seen), dict.fromkeys(seen, -2.0))

    @correction(
        fits_whatever_c,
        "|fᵢ − yᵢ| = O(λα^{−2(L−1)c})",
        why="(26) at T_c⁻ is λ²α^{−4(L−1)}·α^{4(L−1)(1−c)} = λ²α^{−4(L−1)c}, as in the proof of Lemma D.5; in D.7 the "
        "c is "
        "lost. With λ = α^{−p} it is slower where 2(L−1)c + p < 2(L−1).",
        touches="No: it goes to 0 for every c > 0, which is all that Thm D.7 needs.",
        where="App. D.1, proof of Thm D.7",
    )
    def fits_as_proved(self, seen: dict[float, list[float]], alphas: list[float]) -> Finding:
        return _fits_finding(laws(alphas, seen), {c: -1 - 2 * c for c in seen})


def _largest(ends: dict[float, list[np.ndarray]], goal: np.ndarray, where: np.ndarray) -> dict[float, list[float]]:
    """The largest error of some entries."""
    return by_c(ends, lambda W: float(np.abs(W - goal)[where].max()))


def _vanishing(what: str, gaps: dict[float, list[float]], alphas: list[float]) -> Finding:
    """Whether something goes to 0 with α as fast as (30) has it, like α^{−cL}, for every c."""
    powers = laws(alphas, gaps)
    return Finding(
        f"{what}: {first_to_last(gaps, '.1g')}; like {in_words(powers)}",
        all(power.high <= -2 * c for c, power in powers.items()),
    )


def _fits_finding(powers: dict[float, Law], bounds: dict[float, float]) -> Finding:
    """Whether errors go to 0 as fast as α^bound. The two bounds are 0.6 apart at c = 0.2: half of that decides."""
    return Finding(
        f"like {in_words(powers)}, for α^{', α^'.join(f'{bound:.1f}' for bound in bounds.values())}",
        all(power.high <= bounds[c] + 0.3 for c, power in powers.items()),
    )


def _size_finding(moved: dict[float, list[float]], alphas: list[float]) -> Finding:
    """‖h‖ = α^L·e^{−LλT}·‖δ‖ = α^{cL}·‖δ‖ as powers of α, by c: 0, and cL for a ‖δ‖ that does not go with α."""
    powers = laws(
        alphas, {c: [α ** (2 * c) * δ for α, δ in zip(alphas, by_α, strict=True)] for c, by_α in moved.items()}
    )
    return Finding(
        f"‖h‖ like {in_words(powers, halves=True)}, for α^0",
        all(power.tends_to(0, 2 * c) for c, power in powers.items()),
    )


def _gradient_finding(run: af.Run, factors: dict[str, float]) -> Finding:
    """‖∇𝓛_λ‖ at the start over ‖factor·Σsᵢ∇fᵢ + λθ‖, where Σsᵢ∇fᵢ = ((S + Sᵀ)U, −(S + Sᵀ)V) for S = Σsᵢe_k e_lᵀ."""
    α, λ = run.spec["init"]["scale"], run.spec["penalty"]["strength"]
    S, start = -_as_observed(run), α * np.eye(len(run.data.truth))
    total = np.array([(S + S.T) @ start, -(S + S.T) @ start])
    slope = start_slope(run)
    shares = {name: slope / float(np.linalg.norm(f * total + λ * start)) for name, f in factors.items()}
    return Finding(
        "‖∇𝓛_λ‖ at the start over that: " + ", ".join(f"{share:.6g} (factor {name})" for name, share in shares.items()),
        any(abs(share - 1) <= 1e-6 for share in shares.values()),
    )


def _below(shares: list[float]) -> Finding:
    return Finding(f"𝓛 over it, {len(shares)} runs: {min(shares):.2g} to {max(shares):.2g}", max(shares) <= 1)


def _as_observed(run: af.Run) -> np.ndarray:
    """X* where it is observed, and 0 elsewhere, mirror images too."""
    return run.data.inputs.mask * run.data.truth


def _off(W: np.ndarray, limit: np.ndarray) -> float:
    """‖W − limit‖/‖limit‖."""
    return float(np.linalg.norm(W - limit) / np.linalg.norm(limit))


def _upper(run: af.Run, least: float, shrinking: float = 4) -> float:
    """(26) for L = 2, with ν_ntk = least and e^{shrinking·λt}."""
    alpha, decay, t = run.spec["init"]["scale"], run.spec["penalty"]["strength"], run.spec["dynamics"]["until"]
    square, n = float(np.sum((run.data.inputs.mask * run.data.truth) ** 2)), run.data.n
    first = square / n * np.exp(least * alpha**2 / decay / (8 * n) * np.expm1(-2 * decay * t))
    return float(max(first, 64 * n * square * decay**2 / (least**2 * alpha**4) * np.exp(shrinking * decay * t)))


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
