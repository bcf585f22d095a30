"""The panels of the picture of App. G."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers.notsawo2025.draws import draw_in_basis
from afterfit.papers.notsawo2025.null_space import Robust, Support, error_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_alignment", "draw_errors", "draw_isometry", "draw_supports"]


def draw_alignment(ax: Axes, run: af.Run) -> None:
    """Fig. 19a: how close measurements come to columns of the basis, over the share τ taken from it."""
    N, n = run.data.inputs.shape
    taus = np.sort([*np.linspace(0, 1, 11), 0.999 / N, 1 / N])
    draws = np.array([[draw_in_basis(run, tau, seed) for seed in range(3)] for tau in taus])
    cosines = np.max(np.abs(draws), axis=3) / np.linalg.norm(draws, axis=3)  # with the columns of I
    largest, mean = cosines.max(axis=2).mean(axis=1), cosines.mean(axis=(1, 2))
    ax.plot(taus, largest, color="k", lw=1.8, label=r"$\mu(M^\top,\Phi)$: the largest")
    ax.plot(taus, mean, **af.plot.TEST, label="mean over the measurements")
    label = r"Thm G.4 at $\tau=0$: $2\sqrt{\ln(nN)/n}$"
    ax.axhline(2 * np.sqrt(np.log(n * N) / n), color="0.5", ls=":", label=label)
    ax.set(xlabel=r"share $\tau$ of measurements from the basis", ylabel=r"$\max_j|\cos(M_i,\Phi_j)|$", ylim=(0, None))
    ax.set_title("coherence of measurements and basis (Fig. 19a)", fontsize="medium")


def draw_isometry(ax: Axes, X: np.ndarray) -> None:
    """Prop. G.3: δ_s below the coherences."""
    A, orders = X / np.linalg.norm(X, axis=0), range(1, 9)
    deltas = {s: af.theory.sensing.restricted_isometry(A, s) for s in orders}
    mu, ones = af.theory.sensing.mutual_coherence(A), [af.theory.sensing.one_coherence(A, s - 1) for s in orders]
    ax.plot(orders, [(s - 1) * mu for s in orders], color="0.5", ls=":", marker="s", ms=4, label=r"$(s-1)\mu$")
    ax.plot(orders, ones, **af.plot.TRAIN, marker="^", ms=4, label=r"$\mu_1(A,s-1)$")
    looks: dict[bool, dict[str, Any]] = {
        True: {"marker": "o", "ms": 6, "label": r"$\delta_s$, exact"},
        False: {"marker": "_", "ms": 9, "label": r"$\delta_s$, between bounds"},
    }
    for s, delta in deltas.items():
        ax.plot([s, s], [delta.lower, delta.upper], color="k", lw=1.4)
        ax.plot([s, s], [delta.lower, delta.upper], color="k", ls="", **looks[delta.exact])
        looks[delta.exact].pop("label", None)  # once is enough
    ax.axhline(1.0, color="0.7", lw=0.8)
    ax.text(8, 0.97, r"the property asks for $\delta_s<1$", ha="right", va="top", fontsize="small", color="0.3")
    ax.set(xlabel="sparsity $s$", ylabel="constant", ylim=(0, None))
    ax.set_title(rf"Prop. G.3, columns of $X$ ({X.shape[0]}×{X.shape[1]}) normed", fontsize="medium")


def draw_errors(ax: Axes, incoherent: af.Run, coherent: af.Run, robust: Robust) -> None:
    """The errors of the two runs, and the bound of the first."""
    curves, size = incoherent.curves.isel(time=slice(1, None)), np.abs(incoherent.data.truth).sum()
    ax.plot(curves["time"], curves["train_error"], **af.plot.TRAIN, label=r"$\|Xa-y\|_2/\|y\|_2$, $\tau=0$")
    _draw_distance(ax, incoherent, **af.plot.TEST, label=r"$\|a-a^*\|_1/\|a^*\|_1$, $\tau=0$")
    bound = error_bound(incoherent, robust)[1:] / size
    ax.plot(curves["time"], bound, color="k", ls=":", lw=1.4, label="bound of Thm C.38")
    dashes = {"color": "0.55", "ls": (0, (5, 1.5, 1, 1.5)), "lw": 1.8}
    _draw_distance(ax, coherent, **dashes, label=r"$\|a-a^*\|_1/\|a^*\|_1$, $\tau=0.75$")
    ax.set(yscale="log", ylabel="relative error")
    af.plot.log_time_axes(ax)


def _draw_distance(ax: Axes, run: af.Run, **look: Any) -> None:
    """‖a − a*‖₁/‖a*‖₁ over time."""
    curves, truth = run.curves.isel(time=slice(1, None)), run.data.truth
    ax.plot(curves["time"], np.abs(curves["weights"].values - truth).sum(axis=1) / np.abs(truth).sum(), **look)


def draw_supports(ax: Axes, supports: list[Support]) -> None:
    """ρ_S of random draws over τ, by whether ℓ₁ minimisation recovers."""
    ceiling = 1 + int(max(support.rho for support in supports if np.isfinite(support.rho)))
    for recovers, marker, colour, label in (
        (True, "o", "#0072B2", "every vector on $S$ found"),
        (False, "x", "#D55E00", "some vector missed"),
    ):
        shown = [support for support in supports if support.recovers == recovers]
        heights = [min(support.rho, ceiling + 1) for support in shown]
        look: dict[str, Any] = {"marker": marker, "color": colour, "mfc": "none", "ls": ""}
        ax.plot([support.tau for support in shown], heights, **look, label=label)
    ax.axhline(1.0, color="k", lw=1.0, ls=":")
    ax.set(xlabel=r"share $\tau$ of measurements from the basis", ylabel=r"null space constant $\rho_S$")
    ax.set_yticks(range(ceiling + 2), [*map(str, range(ceiling + 1)), r"$\infty$"])
    ax.set_title(r"$\ell_1$ minimisation on random draws", fontsize="medium")
