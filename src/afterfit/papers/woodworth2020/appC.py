"""App. C: magnitudes that start equal stay so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers._measure import examples, relative_distance
from afterfit.papers._paths import flat, initial, parameters_at
from afterfit.papers.woodworth2020 import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["AppC"]

_DECAY = 0.05
_Paths = Mapping[str, np.ndarray]


class AppC(Entry):
    paper, name = PAPER, "appC"
    title = "Weights that start equal in magnitude stay so, and keep their signs"
    where = "App. C, §4"
    about = (
        "The model ⟨u ⊙ v, x⟩ is fitted by gradient flow on the squared loss. From |u| = |v| the magnitudes stay equal "
        "and no sign flips, which is why §4 may share one weight: it holds on data that such weights can fit, and on "
        "data that they cannot, which pull on the signs. From other starts signs do flip; u² − v² is then what is "
        "conserved, and with weight decay λ it falls like e^{−2λt}. As u = v at the start here, a coordinate whose "
        "true weight is negative stands for one with v = −u and a positive weight. The derivative (12) of |u| is "
        "printed with the residual squared."
    )
    notes = (
        "(12) is printed with the residual squared, which the gradient of a squared loss does not have; without the "
        "square it is the flow's rate. The conclusion of the appendix, equal magnitudes and signs that stay, does "
        "not depend on it and holds."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment]:
        n, d, sparsity = (40, 100, 5) if scale == "paper" else (8, 20, 3)
        signs = np.where(np.arange(d) % 2, -1.0, 1.0)
        shape = tuple(float(w) for w in signs * np.random.default_rng(0).uniform(0.25, 2.0, d))
        equal = af.Experiment(
            task=af.tasks.SparseRegression(n=n, d=d, sparsity=sparsity),
            model=af.models.DiagonalProduct(depth=2),
            penalty=af.penalties.L2(0.0),
            dynamics=af.dynamics.GradientFlow(until=20.0, first=1e-4, rtol=1e-9, atol=1e-12, method="explicit"),
            init=af.inits.Constant(scale=0.5, shape=shape),
            observations=80,
        )
        # More examples than dimensions and true weights of both signs: none of u ⊙ v = u² ≥ 0 fits them.
        # The end is early: weights pulled to 0 fall like e^{−2·2d·t}, and below the integrator's error have no sign.
        against = equal.set({"task.n": 2 * d, "task.sparsity": d, "task.entries": "sign", "dynamics.until": 2.5 / d})
        unequal = equal.set({"init": {"kind": "Gaussian", "scale": 0.5}})
        decayed = unequal.set({"penalty.strength": _DECAY})
        return {"equal": equal, "against": against, "unequal": unequal, "decayed": decayed}

    def picture(self, equal: af.Run, unequal: af.Run, decayed: af.Run) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.6), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        for ax, run, start in ((left, equal, "|u_i(0)| = |v_i(0)|"), (middle, unequal, r"|u_i(0)| \neq |v_i(0)|")):
            _show_signs(ax, run)
            ax.set_title(f"${start}$", pad=18)  # above the phases' labels
        T = decayed.spec["dynamics"]["until"]
        _show_imbalance(right, unequal, "o", r"$\lambda=0$", 1.0, "-", "slope $1$")
        share, slope = np.exp(-2 * _DECAY * T), r"slope $e^{-2\lambda T}$"
        _show_imbalance(right, decayed, "s", rf"$\lambda={_DECAY:g}$", share, "--", slope)
        right.set(xlabel=r"$u_i^2-v_i^2$ at $t=0$", ylabel=rf"$u_i^2-v_i^2$ at $T={T:g}$")
        af.plot.legend_below(left, middle, right, ncols=4)
        return figure

    @once
    def shares(self, scale: str) -> np.ndarray:
        """When the paths are looked at, as shares of the time to the end of a run."""
        return np.geomspace(1e-3, 1, 40 if scale == "paper" else 8)

    @once
    def paths(self, runs: Mapping[str, af.Run], shares: np.ndarray, progress: bool | None) -> dict[str, np.ndarray]:
        """(u, v) of every run by its name: at t = 0, and at those times."""
        paths = {}
        for name, run in runs.items():
            times = shares * run.spec["dynamics"]["until"]
            path = parameters_at(times, run.experiment, f"{self.id}: {name}", progress)
            paths[name] = np.concatenate([initial(run)[None], path])
        return paths

    @claim(
        "|u| = |v| at the start: the magnitudes stay equal",
        says="their magnitudes will remain equal throughout training",
    )
    def stay_equal(self, paths: _Paths, shares: np.ndarray) -> Finding:
        halves = [_halves(paths[name]) for name in ("equal", "against")]
        worst = max(np.max(np.abs(np.abs(u) - np.abs(v))) for u, v in halves)
        return Finding(f"largest ||uᵢ| − |vᵢ|| at {len(shares)} times, two runs: {worst:.1g}", worst <= 1e-9)

    @claim(
        "|u| = |v| at the start: no sign flips, whether or not the data ask for it",
        says="the signs of the weights cannot change",
    )
    def keep_signs(self, against: af.Run, paths: _Paths, shares: np.ndarray) -> Finding:
        equal = np.concatenate([paths["equal"], paths["against"]], axis=1)
        flips = int(_sign_changes(equal).sum())
        asked = against.curves["weights"][-1].values[against.data.truth < 0]
        return Finding(
            f"{flips} of {equal.shape[1]} weights flip at {len(shares)} times, the smallest in magnitude at "
            f"{np.min(np.abs(equal)):.1g}; where −1 is true, uᵢvᵢ ends between {asked.min():.1g} and {asked.max():.1g}",
            flips == 0,
        )

    @claim(
        "d|u|/dt is (12)",
        says="d|u|/dt = −2Σₙ(⟨u ⊙ v, xₙ⟩ − yₙ)²·sign(u) ∘ v ∘ xₙ",
        fails="Printed with the residual squared, which the gradient of a squared loss does not have.",
    )
    def moves_as_printed(self, equal: af.Run, progress: bool | None) -> Finding:
        measured, printed, derived = _rates(equal, self.id, progress)
        off, off_derived = relative_distance(printed, measured), relative_distance(derived, measured)
        return Finding(
            f"off by {off:.2g} of the flow's own rate at t=0; without the square on the residual, which the "
            f"gradient does not have, by {off_derived:.1g}",
            off <= 1e-3,
        )

    @claim("other starts: u² − v² is conserved", says="the same two equations, for any start")
    def conserve(self, paths: _Paths, shares: np.ndarray) -> Finding:
        imbalance = _imbalance(paths["unequal"])
        drift = float(np.max(np.abs(imbalance - imbalance[0])) / np.max(np.abs(imbalance[0])))
        return Finding(
            f"largest change of uᵢ² − vᵢ² at {len(shares)} times, relative to the largest: {drift:.1g}", drift <= 1e-6
        )

    @claim("other starts: signs may flip", says="equal magnitudes are what forbids it")
    def flip_signs(self, paths: _Paths, shares: np.ndarray) -> Finding:
        changes = _sign_changes(paths["unequal"])
        flips = int(changes.sum())
        return Finding(f"{flips} of {len(changes)} weights flip at {len(shares)} times", flips > 0)

    @claim(
        "other starts, weight decay λ: u² − v² falls like e^{−2λt}",
        says="not in the paper: d(u² − v²)/dt = −2λ(u² − v²), whatever the loss",
    )
    def decay(self, decayed: af.Run, paths: _Paths, shares: np.ndarray) -> Finding:
        imbalance, times = _imbalance(paths["decayed"]), shares * decayed.spec["dynamics"]["until"]
        rates = -np.log(imbalance[1:] / imbalance[0]) / (2 * times[:, None])
        return Finding(
            f"−log of the share left over 2t, at every coordinate and time: {rates.min():.6f} to {rates.max():.6f}, "
            f"λ={_DECAY:g}",
            bool(np.all(np.abs(rates / _DECAY - 1) <= 1e-4)),
        )


def _halves(path: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u and v of the parameters (u, v) of ⟨u ⊙ v, x⟩."""
    u, v = np.split(path, 2, axis=-1)
    return u, v


def _imbalance(path: np.ndarray) -> np.ndarray:
    """u² − v²."""
    u, v = _halves(path)
    return u**2 - v**2


def _sign_changes(path: np.ndarray) -> np.ndarray:
    """Which coordinates have at some time another sign than at the first."""
    return np.any(np.sign(path) != np.sign(path[0]), axis=0)


def _rates(run: af.Run, label: str, progress: bool | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """d|u|/dt at t = 0: of the flow, by (12) as printed, and by (12) without the square."""
    (X, y), t = examples(run), 1e-6
    (u, v), (u_t, _) = _halves(initial(run)), _halves(parameters_at([t], run.experiment, label, progress)[0])
    residual = X @ (u * v) - y
    printed, derived = (-2 * np.sign(u) * v * (X.T @ r) for r in (residual**2, residual))
    return (np.abs(u_t) - np.abs(u)) / t, printed, derived


def _show_signs(ax: Axes, run: af.Run) -> None:
    """The weights over time, by whether they change their signs."""
    curves = run.curves.isel(time=slice(1, None))
    flips = _sign_changes(curves["weights"].values)
    looks: tuple[tuple[bool, dict[str, Any], str], ...] = (
        (False, {"color": "0.5", "lw": 1.0}, "keeps its sign"),
        (True, {"color": "#D55E00", "lw": 1.6, "ls": "--"}, "changes its sign"),
    )
    for flipped, style, label in looks:
        for k, i in enumerate(np.flatnonzero(flips == flipped)):
            ax.plot(curves["time"], curves["weights"][:, i], **style, label=None if k else label)
    ax.axhline(0, color="k", lw=0.6)
    ax.set(ylabel=r"$\beta_i = u_iv_i$")
    ax.set_yscale("symlog", linthresh=1e-2)
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)


def _show_imbalance(ax: Axes, run: af.Run, marker: str, label: str, share: float, style: str, guide: str) -> None:
    """u² − v² at the end over that at the start, and the share of it that should be left."""
    before, after = _imbalance(initial(run)), _imbalance(flat(run))
    ax.plot(before, after, ls="", marker=marker, mfc="none", color="k", label=label)
    ends = np.array([before.min(), before.max()])
    ax.plot(ends, share * ends, color="0.5", lw=1.0, ls=style, label=guide)
