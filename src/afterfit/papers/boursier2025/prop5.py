"""Props 5 and 6: where the interpolating parameters form a manifold, and where they do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once, run_all
from afterfit.papers._paths import flat
from afterfit.papers.boursier2025 import PAPER
from afterfit.papers.boursier2025.hessians import (
    low_rank_factors,
    manifold_at,
    point_with_active,
    root,
    slow_spectrum,
    whole_spectrum,
)

if TYPE_CHECKING:
    from jaxtyping import Array, Float
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


__all__ = ["Prop5"]

_BySeed = Mapping[int, "af.Run"]


class Prop5(Entry):
    paper, name = PAPER, "prop5"
    title = "The Hessian has constant rank on the manifold, and loses rank at sparse and low-rank points"
    where = "Props 5 and 6, App. C"
    about = (
        "Assumption 2 asks that the Hessian of the loss have the same rank on all of M, the interpolating parameters, "
        "and its non-zero eigenvalues a common lower bound η. Flows and descents without penalty end on M at several "
        "points, where the rank is counted: n for the diagonal nets u² − v² and u ⊙ v with n examples, so that M has "
        "dimension 2d − n; the number of measurements for WWᵀ with r = n; that of the observed entries for UVᵀ with "
        "r = m + n, which is WWᵀ for W = (U; V). It is the rank of the tangent kernel JJᵀ, since the Hessian is 2JᵀJ "
        "where the data are interpolated; for the nets it is counted a second time in the whole Hessian. The data are "
        "sparse and of low rank, so that weight decay leads along M to points where the rank drops: η falls on the "
        "way, and Assumption 2 holds only locally. Null coordinates are needed for a drop but are not enough: with "
        "uᵢ = vᵢ = 0 for some i the rank is still n as long as n others are active."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment | dict[int, af.Experiment]]:
        n, d, size, decay = (10, 30, 8, 1e-4) if scale == "paper" else (5, 12, 4, 1e-3)
        seeds = range(4 if scale == "paper" else 2)
        vector = af.tasks.SparseRegression(n=n, d=d, sparsity=1)
        matrix = af.tasks.MatrixCompletion(size, size, 1, observed=0.6)
        slow = af.Experiment(
            task=vector,
            model=af.models.DiagonalNet(depth=2),
            penalty=af.penalties.L2(decay),
            dynamics=af.dynamics.GradientFlow(until=20 / decay, first=1e-3, rtol=1e-8, atol=1e-12),
            init=af.inits.Gaussian(1.0, seed=0),
            observations=120,
        )
        free = slow.set({"penalty.strength": 0.0, "dynamics.until": 1e3, "observations": 20})
        return {
            "slow": slow,
            "differences": {seed: free.set({"init.seed": seed}) for seed in seeds},
            "products": {seed: _descent(vector, af.models.DiagonalProduct(depth=2), seed) for seed in seeds},
            "completions": {seed: _descent(matrix, af.models.MatrixFactorisation(2 * size), seed) for seed in seeds},
        }

    def picture(self, slow: af.Run, differences: _BySeed, products: _BySeed) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.8), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _show_spectra(left, slow, differences, products)
        curves = slow.curves.isel(time=slice(1, None))
        middle.plot(curves["time"], curves["train_error"], **af.plot.TRAIN, label="training error")
        middle.plot(curves["time"], curves["test_error"], **af.plot.TEST, label="distance to the truth")
        middle.set(yscale="log", ylabel="relative error")
        _show_slow_spectrum(right, slow)
        af.plot.log_time_axes(middle, right)
        for ax in (middle, right):
            af.plot.mark_phases(ax, slow.verdict)
        af.plot.legend_below(left, middle, right)
        return figure

    @once
    def nets(self, differences: _BySeed, products: _BySeed) -> dict[str, af.Run]:
        """Diagonal nets that were fitted without penalty."""
        kinds = {"u²−v²": differences, "u⊙v": products}
        return {f"{kind} from {seed}": runs[seed] for seed in differences for kind, runs in kinds.items()}

    @once
    def net_ends(self, nets: Mapping[str, af.Run]) -> dict[str, af.theory.Manifold]:
        """M at the ends of the nets."""
        return {name: manifold_at(run.experiment, run.params) for name, run in nets.items()}

    @once
    def completion_ends(self, completions: _BySeed) -> list[af.theory.Manifold]:
        """M at the ends of matrix completion."""
        return [manifold_at(run.experiment, run.params) for run in completions.values()]

    @once
    def sensed(self, scale: str, progress: bool | None) -> list[af.Run]:
        """WWᵀ fitted to measurements, from several starts."""
        size, seeds = (6, range(4)) if scale == "paper" else (4, range(2))
        starts = {f"from {seed}": _sensing(size, size, seed) for seed in seeds}
        return list(run_all(starts, f"{self.id}: WWᵀ", progress).values())

    @once
    def sensing_rank(self, sensed: Sequence[af.Run]) -> int:
        """The rank of 𝒜*𝒜."""
        X = sensed[0].data.inputs
        return int(np.linalg.matrix_rank(X.reshape(len(X), -1)))

    @claim(
        "without penalty, training ends at regular points of M",
        says="assumed: the unregularised flow converges to a point of M*",
    )
    def ends_regular(
        self,
        nets: Mapping[str, af.Run],
        completions: _BySeed,
        net_ends: Mapping[str, af.theory.Manifold],
        completion_ends: Sequence[af.theory.Manifold],
    ) -> Finding:
        ends = [*net_ends.values(), *completion_ends]
        misfit = max(end.misfit for end in ends)
        null = min(np.abs(flat(run)).min() for run in nets.values())
        singular = min(_stacked(run.params)[-1] for run in completions.values())
        return Finding(
            f"{len(ends)} runs end with ‖f − y‖/‖y‖ at most {misfit:.1g}; the smallest |uᵢ| or |vᵢ| is {null:.2g}, the "
            f"smallest singular value of W = (U; V) {singular:.2g}",
            misfit <= 1e-6 and null > 1e-4 and singular > 1e-3,
        )

    @claim(
        "Prop. 5: rank n and dimension 2d − n for the diagonal nets",
        says="a smooth manifold of dimension 2d − n",
    )
    def nets_on_a_manifold(
        self, slow: af.Run, nets: Mapping[str, af.Run], net_ends: Mapping[str, af.theory.Manifold]
    ) -> Finding:
        n, d = _sizes(slow)
        spectra = [whole_spectrum(run, run.params) for run in nets.values()]
        whole = {int(np.sum(values > 1e-6 * values[0])) for values in spectra}
        return Finding(
            f"n={n}, d={d}, 2d − n = {2 * d - n}: dimension "
            + ", ".join(f"{end.dimension} ({name})" for name, end in net_ends.items())
            + f"; rank of the whole Hessian {_several(whole)}, whose next eigenvalue is at most "
            f"{max(values[n] / values[0] for values in spectra):.1g} of the largest; η = "
            + ", ".join(f"{end.gap:.2g}" for end in net_ends.values()),
            all(end.dimension == 2 * d - n for end in net_ends.values()) and whole == {n},
        )

    @claim(
        "Prop. 6: constant rank for matrix sensing at invertible W, r = n",
        says="the rank of DH(W) is that of 𝒜*𝒜 for any W ∈ M*",
    )
    def sensing_on_a_manifold(self, sensed: Sequence[af.Run], sensing_rank: int) -> Finding:
        ends = [manifold_at(run.experiment, run.params) for run in sensed]
        least = min(np.linalg.svd(run.params["W"], compute_uv=False)[-1] for run in sensed)
        N, size, _ = sensed[0].data.inputs.shape
        return Finding(
            f"{N} measurements of WWᵀ, W {size} x {size}: rank {_several(end.rank for end in ends)} at "
            f"{len(ends)} points, that of 𝒜*𝒜 is {sensing_rank}; ‖f − y‖/‖y‖ is {max(end.misfit for end in ends):.1g}, "
            f"the smallest singular value of W {least:.2g}",
            {end.rank for end in ends} == {sensing_rank} and all(end.interpolates for end in ends) and least > 1e-3,
        )

    @claim(
        "Prop. 6, lifted: constant rank for matrix completion by UVᵀ, r = m + n",
        says="matrix completion is matrix sensing for W = (U; V)",
    )
    def completion_on_a_manifold(self, completions: _BySeed, completion_ends: Sequence[af.theory.Manifold]) -> Finding:
        seen = completions[0].data.n
        return Finding(
            f"{seen} entries observed: rank {_several(end.rank for end in completion_ends)} at "
            f"{len(completion_ends)} points, dimension {_several(end.dimension for end in completion_ends)}",
            {end.rank for end in completion_ends} == {seen},
        )

    @claim(
        "diagonal net: the rank drops where fewer than n coordinates are active",
        says="the critical set has singularities for points who have null coordinates",
    )
    def drops_where_sparse(self, slow: af.Run) -> Finding:
        n, d = _sizes(slow)
        points = {s: manifold_at(slow.experiment, point_with_active(slow, s)) for s in (1, n - 1, n, d - 1, d)}
        return Finding(
            "rank "
            + ", ".join(f"{point.rank} ({s} of {d} active)" for s, point in points.items())
            + f" at interpolating points with uᵢ = vᵢ = 0 for the others: below {n} only with fewer than {n} active; "
            "Prop. 5 holds on more than (ℝ*)^2d",
            all(point.rank == min(s, n) and point.interpolates for s, point in points.items()),
        )

    @claim(
        "matrices: the rank drops at low-rank W",
        says="singular points might be those of least norm: low-rank matrices",
    )
    def drops_at_low_rank(self, completions: _BySeed, sensed: Sequence[af.Run], sensing_rank: int) -> Finding:
        completion = completions[0]
        low = manifold_at(completion.experiment, low_rank_factors(completion))
        poor = _sensing(sensed[0].spec["task"]["rows"], 1, 0)
        square = manifold_at(poor, {"W": root(poor.draw().truth)})
        return Finding(
            f"at interpolating points of rank 1: {low.rank} of {completion.data.n} (UVᵀ), {square.rank} of "
            f"{sensing_rank} (WWᵀ)",
            low.interpolates and square.interpolates and low.rank < completion.data.n and square.rank < sensing_rank,
        )

    @claim(
        "on the way to a singular point the least non-zero eigenvalue has no lower bound",
        says="F does not satisfy Assumption 2 globally",
    )
    def gap_closes(self, slow: af.Run) -> Finding:
        spectrum, t = slow_spectrum(slow), slow.curves["time"].values
        end = np.array(manifold_at(slow.experiment, slow.params).eigenvalues)
        agreement = float(np.max(np.abs(spectrum[-1] / end - 1)[end > 1e-10 * end[0]]))  # smaller ones are rounding
        after = t >= (slow.verdict.t_fit or np.inf)
        eta = spectrum[after, -1]
        return Finding(
            f"η = {eta[0]:.2g} at t_fit = {t[after][0]:.2g}, {eta[-1]:.1g} at t = {t[-1]:.2g}, where the largest "
            f"eigenvalue is {spectrum[-1, 0]:.2g} (these, from the curves and the law of u ⊙ v, are those of the last "
            f"parameters to {agreement:.1g})",
            eta[-1] <= 1e-4 * eta[0] and agreement <= 1e-4,
        )


def _descent(task: af.tasks.Task, model: af.models.Model, seed: int) -> af.Experiment:
    """Gradient descent without penalty."""
    return af.Experiment(
        task=task,
        model=model,
        dynamics=af.dynamics.GradientDescent(lr=2e-3, steps=50_000),
        init=af.inits.Gaussian(1.0, seed=seed),
        observations=20,
    )


def _sensing(size: int, rank: int, seed: int) -> af.Experiment:
    """WWᵀ, W square, fitted to measurements of a matrix of that rank: more of them than a W of rank 1 can follow.

    The truth is drawn positive definite where training is to end at an invertible W: about one of rank 1 there may be
    no other positive semi-definite matrix with the same measurements.
    """
    start = np.random.default_rng(seed).standard_normal((size, size))
    return af.Experiment(
        task=af.tasks.MatrixSensing(size, size, rank, symmetric=True, N=2 * size - 1),
        model=af.models.Function(_squared, {"W": start}, homogeneity=2),
        dynamics=af.dynamics.GradientDescent(lr=2e-3, steps=200_000),
        observations=5,
    )


def _squared(params: dict[str, Array], x: Float[Array, "n n"]) -> Float[Array, ""]:
    """⟨WWᵀ, X⟩."""
    return (x * (params["W"] @ params["W"].T)).sum()


def _sizes(run: af.Run) -> tuple[int, int]:
    """n and d."""
    return run.spec["task"]["n"], run.spec["task"]["d"]


def _stacked(params: Mapping[str, np.ndarray]) -> Float[np.ndarray, " m+n"]:
    """The singular values of W = (U; V)."""
    return np.linalg.svd(np.concatenate([params["U"], params["V"]]), compute_uv=False)


def _several(numbers: Iterable[int]) -> str:
    """The different ones among some numbers."""
    return " or ".join(str(number) for number in sorted(set(numbers)))


def _show_spectra(ax: Axes, slow: af.Run, differences: _BySeed, products: _BySeed) -> None:
    """The eigenvalues of the whole Hessian where training ends without penalty, and at a sparse point."""
    n, d = _sizes(slow)
    regular, sparse = {"color": "0.0", "mfc": "none", "ms": 5}, {"color": "#D55E00", "ms": 6}
    for run, params, marker, style, name in (
        (differences[0], differences[0].params, "o", regular, "$u^2-v^2$ without penalty"),
        (differences[1], differences[1].params, "s", regular, "the same, another start"),
        (products[0], products[0].params, "^", regular, r"$u\odot v$ without penalty"),
        (slow, point_with_active(slow, 1), "x", sparse, "sparse point of $M$"),
    ):
        values = whole_spectrum(run, params)
        shown = np.maximum(values / values[0], 1e-18)  # zeros have no place on a log axis
        ax.plot(np.arange(1, 2 * d + 1), shown, marker, **style, label=name)
    ax.axvline(n + 0.5, color="0.35", ls="--", lw=1)
    ax.annotate(f"$n={n}$", (n + 0.8, 1e-7), fontsize="small")
    ax.set(yscale="log", ylim=(3e-19, 10))
    ax.set(xlabel="eigenvalue of the Hessian, by size", ylabel=r"$|\lambda_k|/\lambda_1$, or $10^{-18}$")


def _show_slow_spectrum(ax: Axes, slow: af.Run) -> None:
    """The non-zero eigenvalues along the slow phase."""
    t, spectrum, (n, _) = slow.curves["time"][1:], slow_spectrum(slow)[1:], _sizes(slow)
    lines = ax.plot(t, spectrum[:, 1:-1], color="0.6", lw=1.0)
    lines[0].set_label("between")
    ax.plot(t, spectrum[:, 0], color="0.0", lw=1.6, label=r"largest, $\lambda_1$")
    ax.plot(t, spectrum[:, -1], color="#D55E00", ls="--", lw=1.8, label=rf"least, $\eta=\lambda_{{{n}}}$")
    ax.set(yscale="log", ylabel=r"non-zero eigenvalues of $2J^\top J$")
