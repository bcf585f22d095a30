"""Fig. 5: matrix completion by UVᵀ, over the scale and the width of its start."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import log_slope, relative_distance
from afterfit.papers.paths import initial
from afterfit.plot import TEST, TRAIN, legend_below, log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["Fig5"]

_RICH, _KERNEL = 1e-2, 10.0  # α²k at most and at least, for ≪ 1 and ≫ 1


class Fig5(Entry):
    id = "woodworth2020/fig5"
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
    claims = (
        "every run converges to zero training error",
        "for α²k ≪ 1 the excess nuclear norm is approximately zero",
        "for α²k ≪ 1 the completion tends to Y* as α falls",
        "the excess nuclear norm has its transition at α²k of order 1, whatever k",
        "the movement of unobserved entries has its transition at α²k of order 1, for large k",
        "the transition sharpens as k increases",
        "for α²k ≫ 1 the unobserved entries do not change",
        "for α²k ≫ 1 they change by a share of order 1/√k of the start's size σ",
        "for α²k ≫ 1 with σ ≪ 1, which needs a large k, they do not change",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        widths, seeds = ((10, 30, 100, 300, 1000), (0, 1, 2)) if scale == "paper" else ((30, 1000), (2,))
        # The headline is rich: the smallest α of the narrowest.
        return {
            f"α={10**exponent:.3g} k={k} seed {seed}": Experiment(
                task=tasks.MatrixCompletion(10, 10, 1, observed=60),
                model=models.MatrixFactorisation(k),
                dynamics=dynamics.GradientFlow(until="settled", rtol=1e-4, method="implicit"),
                init=inits.Gaussian(float(10**exponent)),
                seed=seed,
                observations=60,
            )
            for k in widths
            for seed in seeds
            for exponent in np.arange(-2.5, 0.51, 0.25)
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        grid = _Grid.of(runs)
        figure = Figure(figsize=(12, 9.4), layout="constrained")
        (left, right), (path, share) = figure.subplots(2, 2)
        norm = r"$\Vert M\Vert_*-\Vert Y^*\Vert_*$"
        _heat_map(figure, left, grid, grid.mean("excess"), (1e-2, 1e2), f"excess nuclear norm {norm}")
        _heat_map(figure, right, grid, grid.mean("movement"), (3e-2, 1e0), "RMS movement of unobserved entries")
        headline = next(iter(runs.values()))
        curves = headline.curves.isel(time=slice(1, None))
        path.plot(curves["time"], curves["train_error"], **TRAIN, label="observed entries")
        path.plot(curves["time"], curves["test_error"], **TEST, label="all entries")
        path.set(yscale="log", ylabel=r"relative error of $UV^\top$")
        log_time_axes(path)
        path.set_title(rf"$\alpha={grid.alphas[0]:.2g}$, $k={grid.widths[0]}$", pad=18)  # above the phases
        mark_phases(path, headline.verdict)
        for k, grey in zip(grid.widths, np.linspace(0.75, 0.0, len(grid.widths)), strict=True):
            style: dict[str, Any] = {"color": str(grey), "marker": "o", "ms": 3, "label": f"k = {k}"}
            share.plot(grid.products(k), grid.mean("share")[:, grid.widths.index(k)], **style)
        share.axvline(1, color="k", ls=":", lw=1)
        share.set(xscale="log", ylim=(0, 1.5), xlabel=r"$\alpha^2k=\sigma\sqrt{k}$")
        share.set(ylabel=r"movement / RMS of $Y^*$, unobserved entries")
        left.legend(*left.get_legend_handles_labels(), loc="lower left", fontsize="small", framealpha=0.9)
        legend_below(path, share, ncols=3)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        grid = _Grid.of(runs)
        cells = grid.cells
        residual = max(float(run.curves["train_loss"][-1] / run.curves["train_loss"][0]) for run in runs.values())
        yield Finding(
            self.claims[0],
            "the solution reached by gradient descent",
            f"{sum(run.message.startswith('settled') for run in runs.values())} of {len(runs)} runs came to rest; "
            f"largest share of the loss left: {residual:.1g}",
            residual <= 1e-6 and all(run.message.startswith("settled") for run in runs.values()),
        )
        rich = [cell for cell in cells if cell.product <= _RICH]
        yield Finding(
            self.claims[1],
            "approximately zero, corresponding to the rich limit",
            f"at most {max(cell.excess / cell.nuclear for cell in rich):.1%} of ‖Y*‖_* in the {len(rich)} cells with "
            f"α²k ≤ {_RICH:g}; {max(cell.excess / cell.filled for cell in rich):.1%} of the excess of zeros",
            all(cell.excess <= 0.05 * cell.nuclear for cell in rich),
        )
        errors = [grid.mean("error")[:, j] for j in range(len(grid.widths))]
        low = [error[np.array(grid.products(k)) <= 1] for error, k in zip(errors, grid.widths, strict=True)]
        draws = {run.spec["seed"]: run for run in runs.values()}
        off = [_recovered(run) for run in draws.values()]
        yield Finding(
            self.claims[2],
            "the nuclear norm is nearly minimised and M converges to Y*",
            "‖M − Y*‖/‖Y*‖ at the smallest α "
            + _by_width(grid.widths, [f"{error[0]:.2g}" for error in errors])
            + f", falling with α below α²k = 1; of the completion of least nuclear norm {max(off):.2g} or less",
            all(np.all(np.diff(error) > 0) for error in low) and min(error[0] for error in errors) <= 0.05,
        )
        for claim, name in ((self.claims[3], "excess"), (self.claims[4], "movement")):
            found = {k: _typical([_crossing(grid, k, seed, name) for seed in grid.seeds]) for k in grid.widths}
            seen = [product for product in found.values() if np.isfinite(product)]
            half = "half that of zeros" if name == "excess" else "half the RMS of Y*"
            yield Finding(
                claim,
                "a phase transition around α²k = σ√k ≍ 1",
                f"{half} at α²k = "
                + _by_width(grid.widths, [f"{p:.2g}" if np.isfinite(p) else "never" for p in found.values()])
                + f": within a factor {max(seen) / min(seen):.2g}",
                len(seen) >= 2 and min(seen) >= 0.1 and max(seen) <= 10 and max(seen) <= 3 * min(seen),
            )
        steepness = [float(np.mean([_steepest(grid, k, seed) for seed in grid.seeds])) for k in grid.widths]
        yield Finding(
            self.claims[5],
            "appears to sharpen somewhat as k increases",
            "steepest fall of movement/RMS of Y*, a decade of α²k: "
            + _by_width(grid.widths, [f"{s:.2f}" for s in steepness]),
            bool(np.all(np.diff(steepness) > -0.02) and steepness[-1] > 1.1 * steepness[0]),
        )
        kernel = [cell for cell in cells if cell.product >= _KERNEL]
        worst = max(kernel, key=lambda cell: cell.share)
        yield Finding(
            self.claims[6],
            "for σ√k ≫ 1, the unobserved entries do not change",
            f"movement/RMS of Y* with α²k ≥ {_KERNEL:g}: {min(c.share for c in kernel):.2g} to {worst.share:.2g}, "
            f"the latter with σ = {worst.sigma:.2g}: what has to be fitted, Y* − M(0), is then of size σ itself",
            worst.share <= 0.1,
        )
        largest = {k: [c for c in kernel if c.k == k and c.alpha == grid.alphas[-1]] for k in grid.widths}
        relative = [float(np.mean([c.movement / c.sigma for c in largest[k]])) for k in grid.widths]
        slope = log_slope(grid.widths, relative)
        yield Finding(
            self.claims[7],
            "not in the paper; UUᵀ and VVᵀ are α²k(I + O(1/√k)), and (Cor. 10) no more than that moves other entries",
            f"movement/σ at α={grid.alphas[-1]:.2g}: "
            + _by_width(grid.widths, [f"{r:.2g}" for r in relative])
            + f", like k^{slope:.2f}",
            abs(slope + 0.5) <= 0.15,
        )
        smallest = [float(np.min(grid.mean("share")[:, j])) for j in range(len(grid.widths))]
        yield Finding(
            self.claims[8],
            "ω(1/√k) = σ = o(1) leads to the kernel regime (§6)",
            "least movement/RMS of Y* over α: " + _by_width(grid.widths, [f"{s:.2g}" for s in smallest]),
            bool(np.all(np.diff(smallest) < 0) and smallest[-1] <= 0.1),
        )


@dataclasses.dataclass(frozen=True)
class _Cell:
    """What one run ended with."""

    alpha: float
    k: int
    seed: int
    excess: float  # ‖M‖_* − ‖Y*‖_*
    nuclear: float  # ‖Y*‖_*
    filled: float  # the excess of Y* with zeros where it is not observed
    movement: float  # root mean square of M − M(0), unobserved entries
    size: float  # root mean square of Y*, unobserved entries
    error: float  # ‖M − Y*‖/‖Y*‖

    @property
    def product(self) -> float:
        """α²k = σ√k."""
        return self.alpha**2 * self.k

    @property
    def sigma(self) -> float:
        return self.alpha**2 * np.sqrt(self.k)

    @property
    def share(self) -> float:
        return self.movement / self.size


def _cell(run: Run) -> _Cell:
    data = Experiment.from_dict(run.spec).draw()
    k, hidden = run.spec["model"]["rank"], data.test_inputs.mask > 0
    U, V = initial(run).reshape(2, -1, k)
    M, Y = run.params["U"] @ run.params["V"].T, data.truth
    nuclear = float(np.linalg.norm(Y, "nuc"))
    return _Cell(
        alpha=run.spec["init"]["scale"],
        k=k,
        seed=run.spec["seed"],
        excess=float(np.linalg.norm(M, "nuc")) - nuclear,
        nuclear=nuclear,
        filled=float(np.linalg.norm(np.where(hidden, 0, Y), "nuc")) - nuclear,
        movement=float(np.sqrt(np.mean((M - U @ V.T)[hidden] ** 2))),
        size=float(np.sqrt(np.mean(Y[hidden] ** 2))),
        error=relative_distance(M, Y),
    )


@dataclasses.dataclass(frozen=True)
class _Grid:
    """All cells, in the order of α, k and seed."""

    cells: list[_Cell]
    alphas: list[float]
    widths: list[int]
    seeds: list[int]

    @classmethod
    def of(cls, runs: Mapping[str, Run]) -> _Grid:
        cells = sorted((_cell(run) for run in runs.values()), key=lambda cell: (cell.alpha, cell.k, cell.seed))
        alphas, widths, seeds = (sorted({getattr(c, name) for c in cells}) for name in ("alpha", "k", "seed"))
        return cls(cells, alphas, widths, seeds)

    def values(self, name: str) -> np.ndarray:
        """One quantity over (α, k, seed)."""
        shape = (len(self.alphas), len(self.widths), len(self.seeds))
        return np.array([getattr(cell, name) for cell in self.cells]).reshape(shape)

    def mean(self, name: str) -> np.ndarray:
        """One quantity over (α, k), its mean over seeds."""
        return self.values(name).mean(axis=-1)

    def products(self, k: int) -> list[float]:
        """α²k along α."""
        return [alpha**2 * k for alpha in self.alphas]

    def along(self, k: int, seed: int, name: str) -> np.ndarray:
        """One quantity along α."""
        return self.values(name)[:, self.widths.index(k), self.seeds.index(seed)]


def _crossing(grid: _Grid, k: int, seed: int, name: str) -> float:
    """The first α²k at which the excess is half that of zeros, or the movement half the RMS of Y*; inf if never."""
    if name == "excess":  # it grows by powers of α, and may begin below 0
        way = np.log(np.maximum(2 * grid.along(k, seed, "excess") / grid.along(k, seed, "filled"), 1e-9))
    else:
        way = 0.5 - grid.along(k, seed, "share")
    beyond = np.flatnonzero(way >= 0)
    if not beyond.size or beyond[0] == 0:
        return np.inf
    here = slice(beyond[0] - 1, beyond[0] + 1)
    return float(np.exp(np.interp(0, way[here], np.log(grid.products(k))[here])))


def _typical(products: Sequence[float]) -> float:
    """The geometric mean over seeds, infinite if one is."""
    return float(np.exp(np.mean(np.log(products))))


def _steepest(grid: _Grid, k: int, seed: int) -> float:
    """The steepest fall of the movement's share between neighbouring α, a decade of α²k."""
    return float(np.max(-np.diff(grid.along(k, seed, "share")) / np.diff(np.log10(grid.products(k)))))


def _recovered(run: Run) -> float:
    """‖M − Y*‖/‖Y*‖ of the completion M of least nuclear norm."""
    data = Experiment.from_dict(run.spec).draw()
    seen = data.inputs.mask
    return relative_distance(theory.min_nuclear(theory.single_entries(seen), data.truth[seen > 0]), data.truth)


def _by_width(widths: Sequence[int], values: Sequence[str]) -> str:
    return ", ".join(f"{value} (k={k})" for value, k in zip(values, widths, strict=True))


def _heat_map(
    figure: Figure, ax: Axes, grid: _Grid, values: np.ndarray, limits: tuple[float, float], quantity: str
) -> None:
    """One quantity over k and α, with α²k = 1 and σ = 1 drawn over it."""
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
