"""Fig. 5: matrix completion by UVᵀ, over the scale and the width of its start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers._measure import log_slope, relative_distance
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.cells import Cell, Grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Fig5"]

_RICH, _KERNEL = 1e-2, 10.0  # α²k at most and at least, for ≪ 1 and ≫ 1


class _At(NamedTuple):
    α: float
    k: int
    seed: int


class Fig5(Entry):
    paper, name = PAPER, "fig5"
    title = "Matrix completion goes from rich to kernel at α²k ≈ 1"
    where = "Fig. 5, App. A, §6"
    about = (
        "UVᵀ with k columns, entries from N(0, α²), is fitted to 60 entries of a 10 × 10 matrix Y* = u*v*ᵀ by gradient "
        "flow on the sum of squares until it is at rest; the authors make steps of gradient descent of 10⁻⁵, which "
        "follow the same path. The figure's grid is not in the text: here α covers three decades and k two, with three "
        "draws of Y*, of the entries and of the start. UVᵀ starts at size σ = α²√k. The unobserved entries' movement "
        "is given in units of the root mean square of what Y* has there, and the excess nuclear norm is held against "
        "that of the observed entries filled up with 0, which is what the kernel regime ends with from a small start. "
        "Where σ is large as well, the unobserved entries do move, by 1.5 to 2 times α² whatever k: the kernel's "
        "off-diagonal entries are 1/√k of its diagonal, and what has to be fitted is of size σ. So little of the "
        "kernel regime is seen with k below 100."
    )

    def runs(self, scale: str) -> dict[str, dict[_At, af.Experiment]]:
        widths, seeds = ((10, 30, 100, 300, 1000), (0, 1, 2)) if scale == "paper" else ((30, 1000), (2,))
        alphas = [float(10**exponent) for exponent in np.arange(-2.5, 0.51, 0.25)]
        # The headline is rich: the smallest α of the narrowest.
        places = [_At(alpha, k, seed) for k in widths for seed in seeds for alpha in alphas]
        return {
            "completions": {
                at: af.Experiment(
                    task=af.tasks.MatrixCompletion(10, 10, 1, observed=60),
                    model=af.models.MatrixFactorisation(at.k),
                    dynamics=af.dynamics.GradientFlow(until="settled", rtol=1e-4, method="implicit"),
                    init=af.inits.Gaussian(at.α),
                    seed=at.seed,
                    observations=60,
                )
                for at in places
            }
        }

    def picture(self, completions: Mapping[_At, af.Run], grid: Grid) -> Figure:
        figure = af.plot.Figure(figsize=(12, 9.4), layout="constrained")
        (left, right), (path, share) = figure.subplots(2, 2)
        norm = r"$\Vert M\Vert_*-\Vert Y^*\Vert_*$"
        _heat_map(figure, left, grid, grid.mean("excess"), (1e-2, 1e2), f"excess nuclear norm {norm}")
        _heat_map(figure, right, grid, grid.mean("movement"), (3e-2, 1e0), "RMS movement of unobserved entries")
        headline = _At(grid.alphas[0], grid.widths[0], grid.seeds[0])
        _show_path(path, completions[headline])
        path.set_title(rf"$\alpha={headline.α:.2g}$, $k={headline.k}$", pad=18)  # above the phases
        _show_shares(share, grid)
        left.legend(*left.get_legend_handles_labels(), loc="lower left", fontsize="small", framealpha=0.9)
        af.plot.legend_below(path, share, ncols=3)
        return figure

    @once
    def grid(self, completions: Mapping[_At, af.Run]) -> Grid:
        return Grid.of(completions.values())

    @once
    def kernel(self, grid: Grid) -> list[Cell]:
        """The cells with α²k ≫ 1."""
        return [cell for cell in grid.cells if cell.product >= _KERNEL]

    @claim("every run converges to zero training error", says="the solution reached by gradient descent")
    def converges(self, completions: Mapping[_At, af.Run]) -> Finding:
        losses = [run.curves["train_loss"] for run in completions.values()]
        residual = max(float(loss[-1] / loss[0]) for loss in losses)
        settled = sum(run.message.startswith("settled") for run in completions.values())
        return Finding(
            f"{settled} of {len(losses)} runs came to rest; largest share of the loss left: {residual:.1g}",
            residual <= 1e-6 and settled == len(losses),
        )

    @claim(
        "for α²k ≪ 1 the excess nuclear norm is approximately zero",
        says="approximately zero, corresponding to the rich limit",
    )
    def rich_has_least_norm(self, grid: Grid) -> Finding:
        rich = [cell for cell in grid.cells if cell.product <= _RICH]
        largest = max(cell.excess / cell.nuclear for cell in rich)
        return Finding(
            f"at most {largest:.1%} of ‖Y*‖_* in the {len(rich)} cells with "
            f"α²k ≤ {_RICH:g}; {max(cell.excess / cell.filled for cell in rich):.1%} of the excess of zeros",
            largest <= 0.05,
        )

    @claim(
        "for α²k ≪ 1 the completion tends to Y* as α falls",
        says="the nuclear norm is nearly minimised and M converges to Y*",
    )
    def rich_recovers(self, completions: Mapping[_At, af.Run], grid: Grid) -> Finding:
        errors = dict(zip(grid.widths, grid.mean("error").T, strict=True))
        draws = {at.seed: run for at, run in completions.items()}
        return Finding(
            "‖M − Y*‖/‖Y*‖ at the smallest α "
            + _by_width({k: f"{error[0]:.2g}" for k, error in errors.items()})
            + ", falling with α below α²k = 1; of the completion of least nuclear norm "
            f"{max(map(_least_norm_error, draws.values())):.2g} or less",
            all(np.all(np.diff(error[grid.products(k) <= 1]) > 0) for k, error in errors.items())
            and min(error[0] for error in errors.values()) <= 0.05,
        )

    @claim(
        "the excess nuclear norm has its transition at α²k of order 1, whatever k",
        says="a phase transition around α²k = σ√k ≍ 1",
    )
    def excess_turns(self, grid: Grid) -> Finding:
        """Where the excess is half that of zeros. It grows by powers of α, and may begin below 0: so, by its log."""
        halves = {
            k: [
                _crossing(np.log(np.maximum(2 * excess / filled, 1e-9)), grid.products(k))
                for excess, filled in zip(grid.along(k, "excess"), grid.along(k, "filled"), strict=True)
            ]
            for k in grid.widths
        }
        return _turns_at_1("half that of zeros", halves)

    @claim(
        "the movement of unobserved entries has its transition at α²k of order 1, for large k",
        says="a phase transition around α²k = σ√k ≍ 1",
    )
    def movement_turns(self, grid: Grid) -> Finding:
        """Where it is half the RMS of Y*."""
        halves = {
            k: [_crossing(0.5 - share, grid.products(k)) for share in grid.along(k, "share")] for k in grid.widths
        }
        return _turns_at_1("half the RMS of Y*", halves)

    @claim("the transition sharpens as k increases", says="appears to sharpen somewhat as k increases")
    def sharpens(self, grid: Grid) -> Finding:
        steepness = {
            k: float(np.mean([_steepest(share, grid.products(k)) for share in grid.along(k, "share")]))
            for k in grid.widths
        }
        values = list(steepness.values())
        return Finding(
            "steepest fall of movement/RMS of Y*, a decade of α²k: "
            + _by_width({k: f"{steep:.2f}" for k, steep in steepness.items()}),
            bool(np.all(np.diff(values) > -0.02) and values[-1] > 1.1 * values[0]),
        )

    @claim(
        "for α²k ≫ 1 the unobserved entries do not change",
        says="for σ√k ≫ 1, the unobserved entries do not change",
        fails="Only while σ is small: what has to be fitted, Y* − UVᵀ(0), is of size σ, and moves other entries by its "
        "1/√k, α².",
    )
    def kernel_stays(self, kernel: list[Cell]) -> Finding:
        worst = max(kernel, key=lambda cell: cell.share)
        return Finding(
            f"movement/RMS of Y* with α²k ≥ {_KERNEL:g}: {min(c.share for c in kernel):.2g} to {worst.share:.2g}, "
            f"the latter with σ = {worst.sigma:.2g}: what has to be fitted, Y* − M(0), is then of size σ itself",
            worst.share <= 0.1,
        )

    @claim(
        "for α²k ≫ 1 they change by a share of order 1/√k of the start's size σ",
        says="not in the paper; UUᵀ and VVᵀ are α²k(I + O(1/√k)), and (Cor. 10) no more than that moves other entries",
    )
    def kernel_moves_by_a_share(self, kernel: list[Cell], grid: Grid) -> Finding:
        largest = [cell for cell in kernel if cell.alpha == grid.alphas[-1]]
        moved = {k: float(np.mean([c.movement / c.sigma for c in largest if c.k == k])) for k in grid.widths}
        slope = log_slope(list(moved), list(moved.values()))
        return Finding(
            f"movement/σ at α={grid.alphas[-1]:.2g}: "
            + _by_width({k: f"{share:.2g}" for k, share in moved.items()})
            + f", like k^{slope:.2f}",
            abs(slope + 0.5) <= 0.15,
        )

    @claim(
        "for α²k ≫ 1 with σ ≪ 1, which needs a large k, they do not change",
        says="ω(1/√k) = σ = o(1) leads to the kernel regime (§6)",
    )
    def kernel_stays_from_small_starts(self, grid: Grid) -> Finding:
        smallest = dict(zip(grid.widths, grid.mean("share").min(axis=0), strict=True))
        values = list(smallest.values())
        return Finding(
            "least movement/RMS of Y* over α: " + _by_width({k: f"{share:.2g}" for k, share in smallest.items()}),
            bool(np.all(np.diff(values) < 0) and values[-1] <= 0.1),
        )


def _turns_at_1(half: str, crossings: Mapping[int, Sequence[float]]) -> Finding:
    """Whether the α²k of half-way, by k and seed, is of order 1 whatever k: where it is seen, and it is at two k."""
    typical = {k: float(np.exp(np.mean(np.log(products)))) for k, products in crossings.items()}  # ∞ if one is
    seen = [product for product in typical.values() if np.isfinite(product)]
    return Finding(
        f"{half} at α²k = "
        + _by_width({k: f"{product:.2g}" if np.isfinite(product) else "never" for k, product in typical.items()})
        + f": within a factor {max(seen) / min(seen):.2g}",
        len(seen) >= 2 and min(seen) >= 0.1 and max(seen) <= 10 and max(seen) <= 3 * min(seen),
    )


def _crossing(way: np.ndarray, products: np.ndarray) -> float:
    """The first α²k at which something that rises is 0; ∞ if it never is, or from the first."""
    beyond = np.flatnonzero(way >= 0)
    if not beyond.size or beyond[0] == 0:
        return np.inf
    here = slice(beyond[0] - 1, beyond[0] + 1)
    return float(np.exp(np.interp(0, way[here], np.log(products)[here])))


def _steepest(share: np.ndarray, products: np.ndarray) -> float:
    """The steepest fall of the movement's share between neighbouring α, a decade of α²k."""
    return float(np.max(-np.diff(share) / np.diff(np.log10(products))))


def _least_norm_error(run: af.Run) -> float:
    """‖M − Y*‖/‖Y*‖ of the completion M of least nuclear norm."""
    seen, truth = run.data.inputs.mask, run.data.truth
    return relative_distance(af.theory.min_nuclear(af.theory.single_entries(seen), truth[seen > 0]), truth)


def _by_width(values: Mapping[int, str]) -> str:
    return ", ".join(f"{value} (k={k})" for k, value in values.items())


def _show_path(ax: Axes, run: af.Run) -> None:
    curves = run.curves.isel(time=slice(1, None))
    ax.plot(curves["time"], curves["train_error"], **af.plot.TRAIN, label="observed entries")
    ax.plot(curves["time"], curves["test_error"], **af.plot.TEST, label="all entries")
    ax.set(yscale="log", ylabel=r"relative error of $UV^\top$")
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)


def _show_shares(ax: Axes, grid: Grid) -> None:
    """The movement of unobserved entries over α²k, a line a width."""
    greys = np.linspace(0.75, 0.0, len(grid.widths))
    for k, shares, grey in zip(grid.widths, grid.mean("share").T, greys, strict=True):
        style: dict[str, Any] = {"color": str(grey), "marker": "o", "ms": 3, "label": f"k = {k}"}
        ax.plot(grid.products(k), shares, **style)
    ax.axvline(1, color="k", ls=":", lw=1)
    ax.set(xscale="log", ylim=(0, 1.5), xlabel=r"$\alpha^2k=\sigma\sqrt{k}$")
    ax.set(ylabel=r"movement / RMS of $Y^*$, unobserved entries")


def _heat_map(
    figure: Figure, ax: Axes, grid: Grid, values: np.ndarray, limits: tuple[float, float], quantity: str
) -> None:
    """One quantity over k and α, with α²k = 1 and σ = 1 drawn over it."""
    from matplotlib.colors import LogNorm

    # Below the limits too: an excess may be below 0, of a Y* that is not of least nuclear norm.
    shown = np.clip(values, limits[0] / 10, None)
    mesh = ax.pcolormesh(_edges(grid.widths), _edges(grid.alphas), shown, norm=LogNorm(*limits), cmap="cividis")
    bar = figure.colorbar(mesh, ax=ax, extend="both")
    bar.set_label(quantity)
    draws = f"mean of\n{len(grid.seeds)} draws" if len(grid.seeds) > 1 else "one draw"
    bar.ax.set_xlabel(draws, fontsize="small", labelpad=14)  # below the tip
    k = np.array(ax.get_xlim())
    ax.set(xscale="log", yscale="log", xlabel="width $k$", ylabel=r"scale $\alpha$ of the start")
    for power, style, name in ((0.5, "-", r"$\alpha^2k=1$"), (0.25, "--", r"$\sigma=\alpha^2\sqrt{k}=1$")):
        ax.plot(k, k**-power, color="w", lw=3.0, ls=style)
        ax.plot(k, k**-power, color="k", lw=1.5, ls=style, label=name)
    ax.set(xlim=tuple(k), ylim=tuple(_edges(grid.alphas)[[0, -1]]))


def _edges(centres: Sequence[float]) -> np.ndarray:
    """The borders of cells around log-spaced centres."""
    logs = np.log(centres)
    middles = (logs[1:] + logs[:-1]) / 2
    return np.exp(np.concatenate([[2 * logs[0] - middles[0]], middles, [2 * logs[-1] - middles[-1]]]))
