"""Props 3 and 4: t → ∞ first, then λ → 0."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.boursier2025.decays import LINES, by_decay, falls, label
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import log_slope
from afterfit.papers.paths import flat
from afterfit.plot import legend_below, log_time_axes, mark_phases
from afterfit.problem import Problem
from afterfit.run import Run
from afterfit.train import prepare

__all__ = ["Prop4"]


class Prop4(Entry):
    id = "boursier2025/prop4"
    title = "First t → ∞, then λ → 0: the least norm on the manifold"
    where = "Props 3 and 4, §4.2; App. C"
    about = (
        "Gradient flow with weight decay λ is run to its end, for falling λ. The end points come to the manifold M of "
        "interpolating parameters, at a point where ½‖w‖² is stationary on M: far from where the unregularised flow "
        "ends. Three settings: completion of a matrix of full rank by UVᵀ with r = m + n columns, whose least-norm "
        "points are regular points of M but not isolated, since UQ and VQ serve as well for a rotation Q; the "
        "diagonal net u² − v² on dense data, whose least-norm point is regular and isolated; and on sparse data, "
        "where it is singular and no theorem holds (App. C, Dealing with singularities). A stationary point of "
        "F + λ/2·‖w‖² has w in the range of Jᵀ, J the Jacobian of the outputs, whatever λ is: so the gradient on M is "
        "taken at the nearest point of M, found by Gauss–Newton, and not at the end point itself. The picture's "
        "distances are from a convex solver's solution, whose singular values are right to about 10⁻⁵."
    )
    claims = (
        "the runs are at their end: ∇F(w) + λw = 0",
        "the end points come to the manifold at the rate λ",
        "Prop. 3: the gradient of ½‖w‖² on the manifold tends to 0 with λ",
        "Prop. 4, diagonal net on dense data: the limit is a strict minimum, that of min-L1",
        "t → ∞ and λ → 0 do not commute",
        "singular case: the end points come to the sparse point all the same",
    )

    _settings = ("matrix completion", "diagonal net, dense", "diagonal net, sparse")

    def experiments(self, scale: str) -> dict[str, Experiment]:
        # Draws that are at their end by t = 40/λ. What ends at 0 does so at the rate λ(1 − dual), where for the
        # diagonal net the dual is |Xᵀν| off the support of the min-L1 solution: at most 0.62 here, but often near 1.
        if scale == "paper":
            n, d, size, decays, seeds = 8, 20, 6, (1e-2, 1e-3, 1e-4, 1e-5), (3, 1, 34)
        else:
            n, d, size, decays, seeds = 5, 12, 4, (1e-1, 1e-2, 1e-3), (2, 4, 29)
        matrix = tasks.MatrixCompletion(size, size, size, observed=0.6)
        dense = tasks.SparseRegression(n=n, d=d, sparsity=d, entries="gaussian")
        sparse = tasks.SparseRegression(n=n, d=d, sparsity=1)
        diagonal = models.DiagonalNet(depth=2)
        posed = ((matrix, models.MatrixFactorisation(2 * size)), (dense, diagonal), (sparse, diagonal))
        return {
            f"{name} λ={decay:g}": Experiment(
                task=task,
                model=model,
                penalty=penalties.L2(decay),
                dynamics=dynamics.GradientFlow(until=40 / (decay or decays[-1]), first=1e-3, rtol=1e-5),
                init=inits.Gaussian(1.0),
                seed=seed,
                observations=50,
            )
            for name, (task, model), seed in zip(self._settings, posed, seeds, strict=True)
            for decay in (*decays, 0.0)
        }

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.6), layout="constrained")
        for ax, setting in zip(figure.subplots(1, 3), self._settings, strict=True):
            group, free = by_decay(runs, setting)
            for style, (decay, run) in zip(LINES, group.items(), strict=False):
                ax.plot(*_distance_curve(run), **style, label=label(decay))
            ax.plot(*_distance_curve(free), color="#0072B2", ls=":", lw=2.0, label=r"$\lambda=0$")
            of = r"\sigma(UV^\top)" if setting == "matrix completion" else r"\beta"
            ax.set(yscale="log", ylabel=f"relative distance of ${of}$ to that of least norm")
            ax.set_title(setting, pad=18)  # above the phases' labels
            log_time_axes(ax)
            weakest, run = list(group.items())[-1]
            mark_phases(ax, run.verdict)
            legend_below(ax, ncols=3, title=f"phases marked: {label(weakest)}")
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        groups = {setting: by_decay(runs, setting) for setting in self._settings}
        ends = {setting: [end_point(run) for run in group.values()] for setting, (group, _) in groups.items()}
        decays = np.array(list(groups[self._settings[0]][0]))
        left = max(end.unfinished for points in ends.values() for end in points)
        yield Finding(
            self.claims[0],
            "the limit t → ∞ exists (Assumption 1)",
            f"largest ‖∇F(w) + λw‖/‖λw‖ at t = 40/λ of {len(self._settings) * len(decays)} runs: {left:.1g}",
            left <= 1e-3,
        )
        rates = {name: log_slope(decays, [end.distance for end in points]) for name, points in ends.items()}
        yield Finding(
            self.claims[1],
            "‖∇F(w^λ)‖ = O(λ), and so is the distance to M (App. A.4)",
            f"distance/‖w‖ at λ={decays[-1]:g}: "
            + ", ".join(f"{points[-1].distance:.2g} ({name})" for name, points in ends.items())
            + "; log-log slopes "
            + ", ".join(f"{rate:.2f}" for rate in rates.values()),
            all(abs(rate - 1) <= 0.15 for rate in rates.values()),
        )
        frees = {setting: end_point(free) for setting, (_, free) in groups.items()}
        matrix, dense, sparse = self._settings
        slopes = [end.slope for end in ends[matrix]]
        rate = log_slope(decays, slopes)
        yield Finding(
            self.claims[2],
            "limit points are KKT points of min ‖w‖² on M",
            "‖P∇h‖/‖∇h‖, λ falling: "
            + ", ".join(f"{slope:.2g}" for slope in slopes)
            + f", log-log slope {rate:.2f} ({matrix}); at most {max(end.slope for end in ends[dense]):.1g} ({dense}, "
            f"where the nearest point is a KKT point for every λ); at the ends of the unregularised flows "
            f"{frees[matrix].slope:.2g} and {frees[dense].slope:.2g}; rank of J {ends[matrix][-1].rank} of "
            f"{ends[matrix][-1].outputs} and {ends[dense][-1].rank} of {ends[dense][-1].outputs}",
            bool(falls(slopes) and abs(rate - 1) <= 0.15 and ends[dense][-1].slope <= 1e-3),
        )
        gaps, last = [_distance_to_min_l1(run) for run in groups[dense][0].values()], ends[dense][-1]
        yield Finding(
            self.claims[3],
            "lim_λ lim_t w^λ(t) = w*",
            f"‖w − w*‖/‖w*‖, λ falling: {_list(gaps)}, log-log slope {log_slope(decays, gaps):.2f}; least curvature of "
            f"½‖w‖² on M there {last.curvature:.2g}, rank of J {last.rank} of {last.outputs}",
            bool(falls(gaps) and gaps[-1] <= 0.02 and last.curvature > 0 and last.rank == last.outputs),
        )
        apart = {
            name: float(np.linalg.norm(flat(group[decays[-1]]) - flat(free)) / np.linalg.norm(flat(free)))
            for name, (group, free) in groups.items()
        }
        yield Finding(
            self.claims[4],
            "grokking is observed when the two limits cannot be exchanged",
            f"‖lim_t w^λ − lim_t w^GF‖/‖lim_t w^GF‖ at λ={decays[-1]:g}: "
            + ", ".join(f"{gap:.2g} ({name})" for name, gap in apart.items()),
            min(apart.values()) >= 0.1,
        )
        gaps, last = [_distance_to_min_l1(run) for run in groups[sparse][0].values()], ends[sparse][-1]
        yield Finding(
            self.claims[5],
            "an open problem: M is no manifold at such points",
            f"rank of J {last.rank} at the end, {frees[sparse].rank} at that of the unregularised flow; ‖w − w*‖/‖w*‖, "
            f"λ falling: {_list(gaps)}, log-log slope {log_slope(decays, gaps):.2f}",
            bool(last.rank < frees[sparse].rank and falls(gaps) and gaps[-1] <= 0.02),
        )


@dataclasses.dataclass(frozen=True)
class EndPoint:
    """The end of a run, and ½‖w‖² on the manifold M = {w : f(w) = y} at the nearest point of M.

    `unfinished` is ‖∇F + λw‖/‖λw‖ at the end itself, `distance` that to M over ‖w‖; `slope` is ‖P∇h‖/‖∇h‖,
    `curvature` the least eigenvalue of the Riemannian Hessian, and `rank` that of the Jacobian of the `outputs`.
    """

    unfinished: float
    distance: float
    slope: float
    curvature: float
    rank: int
    outputs: int


_RANK = 1e-3  # singular values of J below this share of the largest are those of a singular point


def end_point(run: Run) -> EndPoint:
    """Where a run ends, seen from the manifold."""
    with jax.enable_x64(True):
        problem, params = prepare(Experiment.from_dict(run.spec))

        def at(w: np.ndarray, nu: np.ndarray) -> list[np.ndarray]:
            return [np.asarray(value) for value in _derivatives(problem, params, jnp.asarray(w), jnp.asarray(nu))]

        end = w = flat(run)
        nu = np.zeros(np.size(problem.data.targets))
        total = at(end, nu)[0]
        for _ in range(6):  # Gauss–Newton, from O(λ) away
            _, misfit, J, _ = at(w, nu)
            w = w - np.linalg.pinv(J, rcond=_RANK) @ misfit
        J = at(w, nu)[2]
        nu = np.linalg.pinv(J.T, rcond=_RANK) @ w
        hessian = at(w, nu)[3]
    _, sigma, Vt = np.linalg.svd(J)
    rank = int(np.sum(sigma > _RANK * sigma[0]))
    tangent = Vt[rank:].T  # an orthonormal basis of Ker J: P = tangent·tangentᵀ
    pull = run.spec["penalty"]["strength"] * np.linalg.norm(end)
    return EndPoint(
        unfinished=float(np.linalg.norm(total) / pull) if pull else 0.0,
        distance=float(np.linalg.norm(w - end) / np.linalg.norm(w)),
        slope=float(np.linalg.norm(tangent.T @ w) / np.linalg.norm(w)),
        curvature=float(np.linalg.eigvalsh(tangent.T @ hessian @ tangent)[0]),
        rank=rank,
        outputs=problem.data.n,
    )


@eqx.filter_jit
def _derivatives(
    problem: Problem, like: PyTree[Array], w: Float[Array, " p"], nu: Float[Array, " n"]
) -> tuple[Float[Array, " p"], Float[Array, " n"], Float[Array, "n p"], Float[Array, "p p"]]:
    """∇F + λw, f − y, the Jacobian of f, and the Hessian of ½‖w‖² − ⟨ν, f − y⟩, at w laid out as `like`."""
    tree = ravel_pytree(like)[1]

    def misfit(w: Float[Array, " p"]) -> Float[Array, " n"]:
        return jnp.ravel(problem.model(tree(w), problem.data.inputs) - problem.data.targets)

    def lagrangian(w: Float[Array, " p"]) -> Float[Array, ""]:
        return 0.5 * w @ w - nu @ misfit(w)

    total = ravel_pytree(problem.gradient(tree(w)))[0]
    return total, misfit(w), jax.jacobian(misfit)(w), jax.hessian(lagrangian)(w)


def _distance_to_min_l1(run: Run) -> float:
    """‖w − w*‖/‖w*‖ at the end of a diagonal net, w* = (√β₊, √β₋) with the signs of w and β the min-L1 solution."""
    data = Experiment.from_dict(run.spec).draw()
    best = theory.min_l1(data.inputs, data.targets)
    plus, minus = np.sqrt(np.maximum(best, 0)), np.sqrt(np.maximum(-best, 0))
    gap = np.concatenate([np.abs(run.params["plus"]) - plus, np.abs(run.params["minus"]) - minus])
    return float(np.linalg.norm(gap) / np.sqrt(np.sum(np.abs(best))))


def _distance_curve(run: Run) -> tuple[np.ndarray, np.ndarray]:
    """Times, and the relative distance of the predictor (singular values of a matrix) from that of least norm."""
    data = Experiment.from_dict(run.spec).draw()
    curves = run.curves.isel(time=slice(1, None))
    if run.spec["model"]["kind"] == "MatrixFactorisation":
        X, y = theory.single_entries(data.inputs.mask), data.truth[data.inputs.mask > 0]
        name, best = "singular_values", np.linalg.svd(theory.min_nuclear(X, y), compute_uv=False)
    else:
        name, best = "weights", theory.min_l1(data.inputs, data.targets)
    return curves["time"].values, np.linalg.norm(curves[name].values - best, axis=1) / np.linalg.norm(best)


def _list(values: list[float]) -> str:
    return ", ".join(f"{value:.2g}" for value in values)
