"""App. C: magnitudes that start equal stay so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.paths import flat, initial, parameters_at
from afterfit.plot import legend_below, log_time_axes, mark_phases
from afterfit.run import Run

__all__ = ["AppC"]


class AppC(Entry):
    id = "woodworth2020/appC"
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
    claims = (
        "|u| = |v| at the start: the magnitudes stay equal",
        "|u| = |v| at the start: no sign flips, whether or not the data ask for it",
        "d|u|/dt is (12)",
        "other starts: u² − v² is conserved",
        "other starts: signs may flip",
        "other starts, weight decay λ: u² − v² falls like e^{−2λt}",
    )

    _decay = 0.05

    def experiments(self, scale: str) -> dict[str, Experiment]:
        n, d, sparsity = (40, 100, 5) if scale == "paper" else (8, 20, 3)
        signs = np.where(np.arange(d) % 2, -1.0, 1.0)
        shape = tuple(float(w) for w in signs * np.random.default_rng(0).uniform(0.25, 2.0, d))
        equal = Experiment(
            task=tasks.SparseRegression(n=n, d=d, sparsity=sparsity),
            model=models.DiagonalProduct(depth=2),
            penalty=penalties.L2(0.0),
            dynamics=dynamics.GradientFlow(until=20.0, first=1e-4, rtol=1e-9, atol=1e-12, method="explicit"),
            init=inits.Constant(scale=0.5, shape=shape),
            observations=80,
        )
        # More examples than dimensions and true weights of both signs: none of u ⊙ v = u² ≥ 0 fits them.
        # The end is early: weights pulled to 0 fall like e^{−2·2d·t}, and below the integrator's error have no sign.
        against = equal.set({"task.n": 2 * d, "task.sparsity": d, "task.entries": "sign", "dynamics.until": 2.5 / d})
        unequal = equal.set({"init": {"kind": "Gaussian", "scale": 0.5}})
        return {
            "equal": equal,
            "equal, truth of both signs": against,
            "unequal": unequal,
            f"unequal, λ={self._decay:g}": unequal.set({"penalty.strength": self._decay}),
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.6), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        for ax, name in ((left, "equal"), (middle, "unequal")):
            run = runs[name]
            curves = run.curves.isel(time=slice(1, None))
            flips = _sign_changes(curves["weights"].values)
            for flipped, style, label in (
                (False, {"color": "0.5", "lw": 1.0}, "keeps its sign"),
                (True, {"color": "#D55E00", "lw": 1.6, "ls": "--"}, "changes its sign"),
            ):
                for k, i in enumerate(np.flatnonzero(flips == flipped)):
                    ax.plot(curves["time"], curves["weights"][:, i], **style, label=None if k else label)
            ax.axhline(0, color="k", lw=0.6)
            ax.set(ylabel=r"$\beta_i = u_iv_i$")
            ax.set_yscale("symlog", linthresh=1e-2)
            start = "|u_i(0)| = |v_i(0)|" if name == "equal" else r"|u_i(0)| \neq |v_i(0)|"
            ax.set_title(f"${start}$", pad=18)  # above the phases' labels
            log_time_axes(ax)
            mark_phases(ax, run.verdict)
        decayed = runs[f"unequal, λ={self._decay:g}"]
        T = decayed.spec["dynamics"]["until"]
        share = np.exp(-2 * self._decay * T)
        for run, marker, factor, label in (
            (runs["unequal"], "o", 1.0, r"$\lambda=0$"),
            (decayed, "s", share, rf"$\lambda={self._decay:g}$"),
        ):
            before, after = _imbalance(initial(run)), _imbalance(flat(run))
            right.plot(before, after, ls="", marker=marker, mfc="none", color="k", label=label)
            ends = np.array([before.min(), before.max()])
            slope = "1" if factor == 1 else r"e^{-2\lambda T}"
            style = "-" if factor == 1 else "--"
            right.plot(ends, factor * ends, color="0.5", lw=1.0, ls=style, label=f"slope ${slope}$")
        right.set(xlabel=r"$u_i^2-v_i^2$ at $t=0$", ylabel=rf"$u_i^2-v_i^2$ at $T={T:g}$")
        legend_below(left, middle, right, ncols=4)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        shares = np.geomspace(1e-3, 1, 40 if scale == "paper" else 8)  # of the time to the end of a run
        paths = {}
        for name, run in runs.items():
            times = shares * run.spec["dynamics"]["until"]
            path = parameters_at(times, Experiment.from_dict(run.spec), f"{self.id}: {name}", progress)
            paths[name] = np.concatenate([initial(run)[None], path])
        equal = {name: path for name, path in paths.items() if name.startswith("equal")}
        at = f"at {len(shares)} times"
        worst = max(np.max(np.abs(np.abs(u) - np.abs(v))) for u, v in map(_halves, equal.values()))
        yield Finding(
            self.claims[0],
            "their magnitudes will remain equal throughout training",
            f"largest ||uᵢ| − |vᵢ|| {at}, two runs: {worst:.1g}",
            bool(worst <= 1e-9),
        )
        against = runs["equal, truth of both signs"]
        negative = Experiment.from_dict(against.spec).draw().truth < 0
        asked = against.curves["weights"][-1].values[negative]
        smallest = min(np.min(np.abs(path)) for path in equal.values())
        flips = {name: int(_sign_changes(path).sum()) for name, path in paths.items()}
        weights = sum(path.shape[1] for path in equal.values())
        yield Finding(
            self.claims[1],
            "the signs of the weights cannot change",
            f"{sum(flips[name] for name in equal)} of {weights} weights flip {at}, the smallest in magnitude at "
            f"{smallest:.1g}; where −1 is true, uᵢvᵢ ends between {asked.min():.1g} and {asked.max():.1g}",
            all(flips[name] == 0 for name in equal),
        )
        measured, printed, derived = _rates(runs["equal"], self.id, progress)
        size = np.linalg.norm(measured)
        errors = [float(np.linalg.norm(rate - measured) / size) for rate in (printed, derived)]
        yield Finding(
            self.claims[2],
            "d|u|/dt = −2Σₙ(⟨u ⊙ v, xₙ⟩ − yₙ)²·sign(u) ∘ v ∘ xₙ",
            f"off by {errors[0]:.2g} of the flow's own rate at t=0; without the square on the residual, which the "
            f"gradient does not have, by {errors[1]:.1g}",
            errors[0] <= 1e-3,
        )
        free = paths["unequal"]
        drift = float(np.max(np.abs(_imbalance(free) - _imbalance(free[0]))) / np.max(np.abs(_imbalance(free[0]))))
        yield Finding(
            self.claims[3],
            "the same two equations, for any start",
            f"largest change of uᵢ² − vᵢ² {at}, relative to the largest: {drift:.1g}",
            drift <= 1e-6,
        )
        yield Finding(
            self.claims[4],
            "equal magnitudes are what forbids it",
            f"{flips['unequal']} of {free.shape[1]} weights flip {at}",
            flips["unequal"] > 0,
        )
        decayed = paths[f"unequal, λ={self._decay:g}"]
        share = _imbalance(decayed) / _imbalance(decayed[0])
        times = shares * runs["unequal"].spec["dynamics"]["until"]
        rates = -np.log(share[1:]) / (2 * times[:, None])
        yield Finding(
            self.claims[5],
            "not in the paper: d(u² − v²)/dt = −2λ(u² − v²), whatever the loss",
            f"−log of the share left over 2t, at every coordinate and time: {rates.min():.6f} to {rates.max():.6f}, "
            f"λ={self._decay:g}",
            bool(np.all(np.abs(rates / self._decay - 1) <= 1e-4)),
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


def _rates(run: Run, label: str, progress: bool | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """d|u|/dt at t = 0: of the flow, by (12) as printed, and by (12) without the square."""
    experiment, start, t = Experiment.from_dict(run.spec), initial(run), 1e-6
    data = experiment.draw()
    (u, v), (u_t, _) = _halves(start), _halves(parameters_at([t], experiment, label, progress)[0])
    residual = data.inputs @ (u * v) - data.targets
    printed, derived = (-2 * np.sign(u) * v * (data.inputs.T @ r) for r in (residual**2, residual))
    return (np.abs(u_t) - np.abs(u)) / t, printed, derived
