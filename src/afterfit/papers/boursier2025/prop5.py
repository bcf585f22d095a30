"""Props 5 and 6: where the interpolating parameters form a manifold, and where they do not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, correction, once, run_all
from afterfit.papers._measure import examples, relative_distance
from afterfit.papers._paths import flat
from afterfit.papers.boursier2025 import PAPER
from afterfit.papers.boursier2025.ends import end_point
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
    notes = (
        "That the critical set has singularities at points with null coordinates (before Prop. 5) is over-broad: where "
        "n coordinates are active the rank is n, and nearby critical points interpolate. All its singularities on M "
        "are among such points, which is what Prop. 5 needs."
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
            # In u and v themselves: the law of u ⊙ v, which `slow_spectrum` uses, is built into the dual variables.
            dynamics=af.dynamics.GradientFlow(until=20 / decay, first=1e-3, rtol=1e-8, atol=1e-12, method="implicit"),
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
        null = min(np.abs(flat(run)).min() for run in nets.values())
        singular = min(_stacked(run.params)[-1] for run in completions.values())
        found = _regular([*net_ends.values(), *completion_ends], null)
        return Finding(
            f"{found.measured}, the smallest singular value of W = (U; V) {singular:.2g}",
            found.holds and singular > 1e-3,
        )

    @control(ends_regular, "the end of the flow with weight decay")
    def ends_singular(self, slow: af.Run) -> Finding:
        return _regular([manifold_at(slow.experiment, slow.params)], np.abs(flat(slow)).min())

    @claim(
        "Prop. 5: rank n and dimension 2d − n for the diagonal nets",
        says="a smooth manifold of dimension 2d − n",
    )
    def nets_on_a_manifold(
        self, slow: af.Run, nets: Mapping[str, af.Run], net_ends: Mapping[str, af.theory.Manifold]
    ) -> Finding:
        return _of_dimension(_sizes(slow), net_ends, [whole_spectrum(run, run.params) for run in nets.values()])

    @control(nets_on_a_manifold, "an interpolating point with n − 1 active coordinates")
    def not_where_sparse(self, slow: af.Run) -> Finding:
        point = point_with_active(slow, _sizes(slow)[0] - 1)
        at = {"n − 1 active": manifold_at(slow.experiment, point)}
        return _of_dimension(_sizes(slow), at, [whole_spectrum(slow, point)])

    @claim(
        "the nets u ⊙ v and u² − v² are one up to a rotation of the coordinates",
        says="perform a rotation of the coordinates and rewrite the problem as min ‖X(u² − v²) − y‖² (App. C)",
    )
    def rotated(self, products: _BySeed) -> Finding:
        return _rotated(products, 1.0)

    @correction(
        rotated,
        "rotated, w₁ ⊙ w₂ is ½(u² − v²)",
        why="For the rotation u = (w₁ + w₂)/√2, v = (w₁ − w₂)/√2, u² − v² = 2·w₁ ⊙ w₂. Without the ½, u and v are "
        "halves of sums and differences, which is no rotation and changes the speed of the flow.",
        touches="No: Prop. 5 holds for either. The norm that is minimised is 2‖β‖₁ for w₁ ⊙ w₂, ‖β‖₁ for u² − v².",
    )
    def rotated_with_a_half(self, products: _BySeed) -> Finding:
        return _rotated(products, 0.5)

    @claim(
        "Lemma 5: near M, F is as on M",
        says="for any w ∈ U∖M, F(w) = sup_{x∈M} F(x) (App. B.2)",
    )
    def flat_near(self, differences: _BySeed) -> Finding:
        off = _losses_near(differences, along=False)
        return Finding(f"F up to {max(off):.2g}·ηδ² at a distance δ from M, where it is 0", max(off) <= 1e-3)

    @correction(
        flat_near,
        "F(w) > sup_{x∈M} F(x): at a small distance δ from M it is (η/4)δ² and more above",
        why="F(w) − F* = ∫‖∇F(φ(w, t))‖²dt > 0, as the proof concludes. The minus signs before that integral and the "
        "one of ∇F are slips, too: Φ(w) = w − ∫∇F.",
        touches="No: the lemma is used with the sign >, in Lemmas 3 and 7.",
        where="App. B.2, Lemma 5",
    )
    def higher_near(self, differences: _BySeed) -> Finding:
        off, along = _grows(_losses_near(differences, along=False)), _grows(_losses_near(differences, along=True))
        return Finding(f"{off.measured} off M; {along.measured} along it", off.holds and not along.holds)

    @claim(
        "Prop. 6: constant rank for matrix sensing at invertible W, r = n",
        says="the rank of DH(W) is that of 𝒜*𝒜 for any W ∈ M*",
    )
    def sensing_on_a_manifold(self, sensed: Sequence[af.Run], sensing_rank: int) -> Finding:
        ends = [manifold_at(run.experiment, run.params) for run in sensed]
        least = min(np.linalg.svd(run.params["W"], compute_uv=False)[-1] for run in sensed)
        N, size, _ = sensed[0].data.inputs.shape
        found = _of_rank(ends, sensing_rank)
        return Finding(
            f"{N} measurements of WWᵀ, W {size} x {size}, {found.measured}, that of 𝒜*𝒜; the smallest singular value "
            f"of W is {least:.2g}",
            found.holds and least > 1e-3,
        )

    @control(sensing_on_a_manifold, "an interpolating W of rank 1")
    def not_at_a_singular_square(self, low_square: af.theory.Manifold, sensing_rank: int) -> Finding:
        return _of_rank([low_square], sensing_rank)

    @claim(
        "Prop. 6, lifted: constant rank for matrix completion by UVᵀ, r = m + n",
        says="matrix completion is matrix sensing for W = (U; V)",
    )
    def completion_on_a_manifold(self, completions: _BySeed, completion_ends: Sequence[af.theory.Manifold]) -> Finding:
        found = _of_rank(completion_ends, completions[0].data.n)
        return Finding(
            f"{found.measured}, the observed entries; dimension {_several(end.dimension for end in completion_ends)}",
            found.holds,
        )

    @control(completion_on_a_manifold, "interpolating factors of rank 1")
    def not_at_singular_factors(self, completions: _BySeed, low_factors: af.theory.Manifold) -> Finding:
        return _of_rank([low_factors], completions[0].data.n)

    @claim(
        "diagonal net: the rank drops where fewer than n coordinates are active",
        says="the critical set has singularities for points who have null coordinates",
    )
    def drops_where_sparse(self, slow: af.Run) -> Finding:
        n, _ = _sizes(slow)
        return _ranks(slow, lambda active: min(active, n))

    @control(drops_where_sparse, "a drop at every point with a null coordinate")
    def drops_at_any_null(self, slow: af.Run) -> Finding:
        n, d = _sizes(slow)
        return _ranks(slow, lambda active: n if active == d else min(active, n - 1))

    @once
    def low_factors(self, completions: _BySeed) -> af.theory.Manifold:
        """M at factors U, V of rank 1."""
        return manifold_at(completions[0].experiment, low_rank_factors(completions[0]))

    @once
    def low_square(self, sensed: Sequence[af.Run]) -> af.theory.Manifold:
        """M at a W of rank 1."""
        poor = _sensing(sensed[0].spec["task"]["rows"], 1, 0)
        return manifold_at(poor, {"W": root(poor.draw().truth)})

    @claim(
        "matrices: the rank drops at low-rank W",
        says="singular points might be those of least norm: low-rank matrices",
    )
    def drops_at_low_rank(
        self,
        completions: _BySeed,
        low_factors: af.theory.Manifold,
        low_square: af.theory.Manifold,
        sensing_rank: int,
    ) -> Finding:
        return _drop({"UVᵀ": (low_factors, completions[0].data.n), "WWᵀ": (low_square, sensing_rank)})

    @control(drops_at_low_rank, "the ends of training without penalty")
    def no_drop_where_regular(
        self,
        completions: _BySeed,
        completion_ends: Sequence[af.theory.Manifold],
        sensed: Sequence[af.Run],
        sensing_rank: int,
    ) -> Finding:
        square = manifold_at(sensed[0].experiment, sensed[0].params)
        return _drop({"UVᵀ": (completion_ends[0], completions[0].data.n), "WWᵀ": (square, sensing_rank)})

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

    @control(gap_closes, "the flow without weight decay")
    def gap_stays(self, differences: _BySeed) -> Finding:
        return self.gap_closes(differences[0])


def _regular(ends: Sequence[af.theory.Manifold], null: float) -> Finding:
    """Whether ends interpolate, and the coordinates there are not 0."""
    misfit = max(end.misfit for end in ends)
    return Finding(
        f"{len(ends)} runs end with ‖f − y‖/‖y‖ at most {misfit:.1g}; the smallest |uᵢ| or |vᵢ| is {null:.2g}",
        misfit <= 1e-6 and bool(null > 1e-4),
    )


def _of_dimension(
    sizes: tuple[int, int], ends: Mapping[str, af.theory.Manifold], spectra: Sequence[np.ndarray]
) -> Finding:
    """Whether M has dimension 2d − n at some points, and the whole Hessian rank n."""
    n, d = sizes
    whole = {int(np.sum(values > 1e-6 * values[0])) for values in spectra}
    return Finding(
        f"n={n}, d={d}, 2d − n = {2 * d - n}: dimension "
        + ", ".join(f"{end.dimension} ({name})" for name, end in ends.items())
        + f"; rank of the whole Hessian {_several(whole)}, whose next eigenvalue is at most "
        f"{max(values[n] / values[0] for values in spectra):.1g} of the largest; η = "
        + ", ".join(f"{end.gap:.2g}" for end in ends.values()),
        all(end.dimension == 2 * d - n for end in ends.values()) and whole == {n},
    )


def _rotated(products: _BySeed, factor: float) -> Finding:
    """Whether factor·(u² − v²), with w₁ and w₂ rotated by 45° to u and v, fits where w₁ ⊙ w₂ does."""
    misfits = []
    for run in products.values():
        first, second = np.split(flat(run), 2)
        u, v = (first + second) / np.sqrt(2), (first - second) / np.sqrt(2)
        misfits.append(relative_distance(run.data.inputs @ (factor * (u**2 - v**2)), run.data.targets))
    return Finding(
        f"‖X({factor:g}·(u² − v²)) − y‖/‖y‖ at most {max(misfits):.1g} at the ends of {len(misfits)} runs of w₁ ⊙ w₂",
        max(misfits) <= 1e-6,
    )


def _losses_near(runs: _BySeed, *, along: bool) -> list[float]:
    """F/(ηδ²) at w* + δ·(a random unit vector) for the ends w* of runs on M, normal to M or `along` it.

    η is the least eigenvalue of the Hessian 2JᵀJ there that is not 0. By Taylor's formula F is ½·⟨n, 2JᵀJ n⟩δ² and
    more than that of order δ³ off M, and of order δ⁴ along it.
    """
    shares = []
    for seed, run in runs.items():
        (X, y), end, draw = examples(run), end_point(run), np.random.default_rng(seed)
        eta = 2 * np.linalg.svd(end.J, compute_uv=False)[-1] ** 2
        basis = end.tangent if along else np.linalg.qr(end.J.T)[0]
        for direction, size in itertools.product(draw.standard_normal((10, basis.shape[1])), (1e-3, 1e-4)):
            minus, plus = np.split(end.nearest + size * basis @ direction / np.linalg.norm(direction), 2)
            shares.append(float(np.sum((X @ (plus**2 - minus**2) - y) ** 2) / (eta * size**2)))
    return shares


def _grows(shares: Sequence[float]) -> Finding:
    """Whether F is (η/4)δ² and more: half of what it is to second order, for what the next order may take away."""
    return Finding(
        f"F is {min(shares):.2g} to {max(shares):.2g} times ηδ² at {len(shares)} points", min(shares) >= 0.25
    )


def _of_rank(ends: Sequence[af.theory.Manifold], rank: int) -> Finding:
    """Whether J has the same, given rank at interpolating points."""
    misfit = max(end.misfit for end in ends)
    return Finding(
        f"rank {_several(end.rank for end in ends)} at {len(ends)} points with ‖f − y‖/‖y‖ at most {misfit:.1g}, "
        f"beside {rank}",
        {end.rank for end in ends} == {rank} and all(end.interpolates for end in ends),
    )


def _ranks(slow: af.Run, law: Callable[[int], int]) -> Finding:
    """Whether the rank at interpolating points is a function of how many coordinates are active."""
    n, d = _sizes(slow)
    points = {s: manifold_at(slow.experiment, point_with_active(slow, s)) for s in (1, n - 1, n, d - 1, d)}
    return Finding(
        "rank "
        + ", ".join(f"{point.rank} for {law(s)} ({s} of {d} active)" for s, point in points.items())
        + " at interpolating points with uᵢ = vᵢ = 0 for the others",
        all(point.rank == law(s) and point.interpolates for s, point in points.items()),
    )


def _drop(points: Mapping[str, tuple[af.theory.Manifold, int]]) -> Finding:
    """Whether J has less than its full rank at interpolating points."""
    return Finding(
        "rank " + ", ".join(f"{at.rank} of {full} ({name})" for name, (at, full) in points.items()),
        all(at.interpolates and at.rank < full for at, full in points.values()),
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
