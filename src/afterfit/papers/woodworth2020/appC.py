"""App. C: magnitudes that start equal stay so."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, correction, once
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
        "conserved, and with weight decay λ it falls like e^{−2λt}. Runs start at u = v, and one at v = u in half of "
        "the coordinates and v = −u in the others. From v = ±u a Runge–Kutta step stays there exactly, as the flow "
        "does: that magnitudes stay equal is shown by u² − v² from other starts, which no step conserves by itself."
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

    @once
    def mixed(self, equal: af.Run) -> af.Experiment:
        """As `equal`, with v = −u in every second coordinate."""
        u, _ = _halves(initial(equal))
        signs = np.where(np.arange(len(u)) // 2 % 2, -1.0, 1.0)  # those of u alternate: both signs with both
        return dataclasses.replace(equal.experiment, init=af.inits.From({"factors": [u, signs * u]}))

    @once
    def from_equal(
        self, equal: af.Run, mixed: af.Experiment, paths: _Paths, shares: np.ndarray, progress: bool | None
    ) -> dict[str, np.ndarray]:
        """(u, v) of the runs that start at |u| = |v|."""
        times = np.concatenate([[1e-9], shares]) * equal.spec["dynamics"]["until"]
        path = parameters_at(times, mixed, f"{self.id}: v = ±u", progress)
        return {"v = u": paths["equal"], "v = u against the data": paths["against"], "v = ±u": path}

    @claim(
        "|u| = |v| at the start: the magnitudes stay equal",
        says="their magnitudes will remain equal throughout training",
    )
    def stay_equal(self, from_equal: _Paths) -> Finding:
        return _stay_equal(from_equal)

    @control(stay_equal, "|u| ≠ |v| at the start")
    def do_not_become_equal(self, paths: _Paths) -> Finding:
        return _stay_equal({"|u| ≠ |v|": paths["unequal"][1:]})

    @claim(
        "|u| = |v| at the start: no sign flips, whether or not the data ask for it",
        says="the signs of the weights cannot change",
    )
    def keep_signs(self, against: af.Run, from_equal: _Paths) -> Finding:
        asked = against.curves["weights"][-1].values[against.data.truth < 0]
        found = _keep_signs(from_equal)
        more = f"; where −1 is true and v = u, uᵢvᵢ ends between {asked.min():.1g} and {asked.max():.1g}"
        return Finding(found.measured + more, found.holds)

    @control(keep_signs, "|u| ≠ |v| at the start")
    def do_not_keep_signs(self, paths: _Paths) -> Finding:
        return _keep_signs({"|u| ≠ |v|": paths["unequal"]})

    @claim(
        "(11), (13): d|u|/dt = −sign(u) ∘ u̇, d|v|/dt = −sign(v) ∘ v̇",
        says="d|u(t)|/dt = −sign(u(t))·u̇(t) (11), and the same of v (13)",
    )
    def signs_as_printed(self, rates: _Rates) -> Finding:
        return _are_the_rates(rates, lambda at: -np.sign(at.weights) * at.velocity)

    @correction(
        signs_as_printed,
        "d|u|/dt = sign(u) ∘ u̇, d|v|/dt = sign(v) ∘ v̇",
        why="The derivative of |x| is sign(x): a weight that moves away from 0 grows in magnitude. The minus sign of "
        "the gradient, which (12) and (14) have, comes with u̇ and v̇.",
        touches="No: u and v have the same sign before their velocities either way, and equal magnitudes follow.",
        where="App. C, (11) and (13)",
    )
    def signs_corrected(self, rates: _Rates) -> Finding:
        return _are_the_rates(rates, lambda at: np.sign(at.weights) * at.velocity)

    @claim(
        "d|u|/dt is (12)",
        says="d|u|/dt = −2Σₙ(⟨u ⊙ v, xₙ⟩ − yₙ)²·sign(u) ∘ v ∘ xₙ (12), and the same with u and v exchanged (14)",
    )
    def moves_as_printed(self, rates: _Rates) -> Finding:
        return _are_the_rates(rates, lambda at: -2 * np.sign(at.weights) * at.others * at.pulled(2))

    @correction(
        moves_as_printed,
        "d|u|/dt = −2Σₙ(⟨u ⊙ v, xₙ⟩ − yₙ)·sign(u) ∘ v ∘ xₙ, and the same with u and v exchanged",
        why="The derivative of the square (⟨u ⊙ v, xₙ⟩ − yₙ)² in u is 2(⟨u ⊙ v, xₙ⟩ − yₙ)·v ∘ xₙ: the residual to the "
        "first power.",
        touches="No: |u| and |v| have the same rate either way where |u| = |v|, and both are 0 where that is 0.",
        where="App. C, (12) and (14)",
    )
    def moves_without_the_square(self, rates: _Rates) -> Finding:
        return _are_the_rates(rates, lambda at: -2 * np.sign(at.weights) * at.others * at.pulled(1))

    @claim("other starts: u² − v² is conserved", says="the same two equations, for any start")
    def conserve(self, paths: _Paths) -> Finding:
        return _conserve(paths["unequal"])

    @control(conserve, "the same start with weight decay")
    def decay_conserves_nothing(self, paths: _Paths) -> Finding:
        return _conserve(paths["decayed"])

    @claim("other starts: signs may flip", says="equal magnitudes are what forbids it")
    def flip_signs(self, paths: _Paths) -> Finding:
        return _flip_signs(paths["unequal"])

    @control(flip_signs, "equal magnitudes, on the same data")
    def equal_ones_do_not_flip(self, paths: _Paths) -> Finding:
        return _flip_signs(paths["equal"])

    @claim(
        "other starts, weight decay λ: u² − v² falls like e^{−2λt}",
        says="not in the paper: d(u² − v²)/dt = −2λ(u² − v²), whatever the loss",
    )
    def decay(self, decayed: af.Run, paths: _Paths, shares: np.ndarray) -> Finding:
        return _decay(2, paths["decayed"], shares * decayed.spec["dynamics"]["until"])

    @control(decay, "e^{−λt}, as u and v themselves fall without a loss")
    def not_like_the_weights(self, decayed: af.Run, paths: _Paths, shares: np.ndarray) -> Finding:
        return _decay(1, paths["decayed"], shares * decayed.spec["dynamics"]["until"])

    @once
    def rates(self, equal: af.Run, unequal: af.Run, mixed: af.Experiment, progress: bool | None) -> list[_Start]:
        """u and v as they leave three starts: v = u, v = ±u and |u| ≠ |v|."""
        experiments = (equal.experiment, mixed, unequal.experiment)
        return [half for experiment in experiments for half in _leaving(experiment, equal, self.id, progress)]


@dataclasses.dataclass(frozen=True)
class _Start:
    """u as it leaves its start, or v: `others` are v, or u."""

    weights: np.ndarray
    others: np.ndarray
    rate: np.ndarray  # d|u|/dt of the flow
    velocity: np.ndarray  # du/dt of the flow
    X: np.ndarray
    residual: np.ndarray

    def pulled(self, power: int) -> np.ndarray:
        """Σₙ rₙᵖ·xₙ."""
        return self.X.T @ self.residual**power


_Rates = Sequence[_Start]


def _leaving(experiment: af.Experiment, run: af.Run, label: str, progress: bool | None) -> list[_Start]:
    """u and v of an experiment on the data of a run at t = 0, with differences over a millionth for derivatives."""
    (X, y), t = examples(run), 1e-6
    before, after = (_halves(path) for path in parameters_at([1e-3 * t, t + 1e-3 * t], experiment, label, progress))
    return [
        _Start(
            weights=before[i],
            others=before[1 - i],
            rate=(np.abs(after[i]) - np.abs(before[i])) / t,
            velocity=(after[i] - before[i]) / t,
            X=X,
            residual=X @ (before[0] * before[1]) - y,
        )
        for i in (0, 1)
    ]


def _are_the_rates(rates: _Rates, formula: Callable[[_Start], np.ndarray]) -> Finding:
    """Whether d|u|/dt and d|v|/dt are a formula, to 10⁻³: rates of order 10³ change them by 10⁻³ in a millionth."""
    off = [relative_distance(formula(at), at.rate) for at in rates]
    return Finding(
        f"off by {min(off):.2g} to {max(off):.2g} of the flow's own rate at t=0, u and v from {len(off) // 2} starts",
        max(off) <= 1e-3,
    )


def _stay_equal(paths: _Paths) -> Finding:
    halves = [_halves(path) for path in paths.values()]
    worst = max(np.max(np.abs(np.abs(u) - np.abs(v))) for u, v in halves)
    return Finding(f"largest ||uᵢ| − |vᵢ|| at {_times(paths)} times, {', '.join(paths)}: {worst:.1g}", worst <= 1e-9)


def _keep_signs(paths: _Paths) -> Finding:
    flips, weights = (sum(int(f(path)) for path in paths.values()) for f in (_flips, lambda path: path.shape[1]))
    smallest = min(float(np.min(np.abs(path))) for path in paths.values())
    return Finding(
        f"{flips} of {weights} weights flip at {_times(paths)} times, {', '.join(paths)}, the smallest in magnitude at "
        f"{smallest:.1g}",
        flips == 0,
    )


def _flip_signs(path: np.ndarray) -> Finding:
    flips = _flips(path)
    return Finding(f"{flips} of {path.shape[1]} weights flip at {len(path) - 1} times", flips > 0)


def _conserve(path: np.ndarray) -> Finding:
    """To 10⁻⁶: each weight is followed to 10⁻⁹ of itself, some hundred steps."""
    imbalance = _imbalance(path)
    drift = float(np.max(np.abs(imbalance - imbalance[0])) / np.max(np.abs(imbalance[0])))
    return Finding(
        f"largest change of uᵢ² − vᵢ² at {len(path) - 1} times, relative to the largest: {drift:.1g}", drift <= 1e-6
    )


def _decay(factor: float, path: np.ndarray, times: np.ndarray) -> Finding:
    """Whether u² − v² falls at the rate factor·λ, to 10⁻⁴, at every coordinate and time."""
    imbalance = _imbalance(path)
    rates = -np.log(imbalance[1:] / imbalance[0]) / (factor * times[:, None])
    return Finding(
        f"−log of the share left over {factor:g}t, at every coordinate and time: {rates.min():.6f} to "
        f"{rates.max():.6f}, λ={_DECAY:g}",
        bool(np.all(np.abs(rates / _DECAY - 1) <= 1e-4)),
    )


def _times(paths: _Paths) -> int:
    return min(map(len, paths.values())) - 1


def _flips(path: np.ndarray) -> int:
    return int(_sign_changes(path).sum())


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
