"""Props 5 and 6: where the interpolating parameters form a manifold, and where they do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding, run_all
from afterfit.papers.paths import initial
from afterfit.plot import TEST, TRAIN, legend_below, log_time_axes, mark_phases
from afterfit.problem import Problem
from afterfit.run import Run
from afterfit.theory.landscape import Manifold, hessian_rank
from afterfit.train import prepare

__all__ = ["Prop5"]


class Prop5(Entry):
    id = "boursier2025/prop5"
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
    claims = (
        "without penalty, training ends at regular points of M",
        "Prop. 5: rank n and dimension 2d − n for the diagonal nets",
        "Prop. 6: constant rank for matrix sensing at invertible W, r = n",
        "Prop. 6, lifted: constant rank for matrix completion by UVᵀ, r = m + n",
        "diagonal net: the rank drops where fewer than n coordinates are active",
        "matrices: the rank drops at low-rank W",
        "on the way to a singular point the least non-zero eigenvalue has no lower bound",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        n, d, size, decay = (10, 30, 8, 1e-4) if scale == "paper" else (5, 12, 4, 1e-3)
        vector = tasks.SparseRegression(n=n, d=d, sparsity=1)
        matrix = tasks.MatrixCompletion(size, size, 1, observed=0.6)
        slow = Experiment(
            task=vector,
            model=models.DiagonalNet(depth=2),
            penalty=penalties.L2(decay),
            dynamics=dynamics.GradientFlow(until=20 / decay, first=1e-3, rtol=1e-8, atol=1e-12),
            init=inits.Gaussian(1.0, seed=0),
            observations=120,
        )
        experiments = {"u²−v² λ": slow}
        for seed in range(4 if scale == "paper" else 2):
            free = {"penalty.strength": 0.0, "init.seed": seed, "dynamics.until": 1e3, "observations": 20}
            experiments[f"u²−v² from {seed}"] = slow.set(free)
            for name, task, model in (
                ("u⊙v", vector, models.DiagonalProduct(depth=2)),
                ("UVᵀ", matrix, models.MatrixFactorisation(2 * size)),
            ):
                experiments[f"{name} from {seed}"] = Experiment(
                    task=task,
                    model=model,
                    dynamics=dynamics.GradientDescent(lr=2e-3, steps=50_000),
                    init=inits.Gaussian(1.0, seed=seed),
                    observations=20,
                )
        return experiments

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(13.5, 4.8), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        slow = runs["u²−v² λ"]
        n, d = (slow.spec["task"][name] for name in ("n", "d"))
        rows = (
            ("u²−v² from 0", "o", "$u^2-v^2$ without penalty"),
            ("u²−v² from 1", "s", "the same, another start"),
            ("u⊙v from 0", "^", r"$u\odot v$ without penalty"),
        )
        points = [(marker, label, whole_spectrum(runs[name], runs[name].params)) for name, marker, label in rows]
        points.append(("x", "sparse point of $M$", whole_spectrum(slow, point_with_active(slow, 1))))
        for marker, label, values in points:
            shown = np.maximum(values / values[0], 1e-18)  # zeros have no place on a log axis
            style = {"color": "#D55E00", "ms": 6} if marker == "x" else {"color": "0.0", "mfc": "none", "ms": 5}
            left.plot(np.arange(1, 2 * d + 1), shown, marker, **style, label=label)
        left.axvline(n + 0.5, color="0.35", ls="--", lw=1)
        left.annotate(f"$n={n}$", (n + 0.8, 1e-7), fontsize="small")
        left.set(
            yscale="log",
            ylim=(3e-19, 10),
            xlabel="eigenvalue of the Hessian, by size",
            ylabel=r"$|\lambda_k|/\lambda_1$, or $10^{-18}$",
        )
        curves = slow.curves.isel(time=slice(1, None))
        middle.plot(curves["time"], curves["train_error"], **TRAIN, label="training error")
        middle.plot(curves["time"], curves["test_error"], **TEST, label="distance to the truth")
        middle.set(yscale="log", ylabel="relative error")
        spectrum = slow_spectrum(slow)[1:]
        lines = right.plot(curves["time"], spectrum[:, 1:-1], color="0.6", lw=1.0)
        lines[0].set_label("between")
        right.plot(curves["time"], spectrum[:, 0], color="0.0", lw=1.6, label=r"largest, $\lambda_1$")
        right.plot(
            curves["time"], spectrum[:, -1], color="#D55E00", ls="--", lw=1.8, label=rf"least, $\eta=\lambda_{{{n}}}$"
        )
        right.set(yscale="log", ylabel=r"non-zero eigenvalues of $2J^\top J$")
        log_time_axes(middle, right)
        for ax in (middle, right):
            mark_phases(ax, slow.verdict)
        legend_below(left, middle, right)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        slow = runs["u²−v² λ"]
        n, d = (slow.spec["task"][name] for name in ("n", "d"))
        nets = {name: run for name, run in runs.items() if name.startswith(("u²−v² from", "u⊙v"))}
        matrices = {name: run for name, run in runs.items() if name.startswith("UVᵀ")}
        at = {name: manifold_at(Experiment.from_dict(run.spec), run.params) for name, run in (nets | matrices).items()}
        misfit = max(end.misfit for end in at.values())
        null = min(np.abs(leaf).min() for run in nets.values() for leaf in jax.tree.leaves(run.params))
        singular = min(_stacked(run.params)[-1] for run in matrices.values())
        yield Finding(
            self.claims[0],
            "assumed: the unregularised flow converges to a point of M*",
            f"{len(at)} runs end with ‖f − y‖/‖y‖ at most {misfit:.1g}; the smallest |uᵢ| or |vᵢ| is {null:.2g}, the "
            f"smallest singular value of W = (U; V) {singular:.2g}",
            misfit <= 1e-6 and null > 1e-4 and singular > 1e-3,
        )
        spectra = [whole_spectrum(run, run.params) for run in nets.values()]
        whole = {int(np.sum(values > 1e-6 * values[0])) for values in spectra}
        yield Finding(
            self.claims[1],
            "a smooth manifold of dimension 2d − n",
            f"n={n}, d={d}, 2d − n = {2 * d - n}: dimension "
            + ", ".join(f"{at[name].dimension} ({name})" for name in nets)
            + f"; rank of the whole Hessian {_several(whole)}, whose next eigenvalue is at most "
            f"{max(values[n] / values[0] for values in spectra):.1g} of the largest; η = "
            + ", ".join(f"{at[name].gap:.2g}" for name in nets),
            all(at[name].dimension == 2 * d - n for name in nets) and whole == {n},
        )
        size = 6 if scale == "paper" else 4
        sensing = [_sensing(size, size, seed) for seed in range(4 if scale == "paper" else 2)]
        ends = run_all({f"from {seed}": e for seed, e in enumerate(sensing)}, f"{self.id}: WWᵀ", progress)
        squares = [manifold_at(e, run.params) for e, run in zip(sensing, ends.values(), strict=True)]
        least = min(np.linalg.svd(run.params["W"], compute_uv=False)[-1] for run in ends.values())
        X = sensing[0].draw().inputs
        wanted = int(np.linalg.matrix_rank(X.reshape(len(X), -1)))
        yield Finding(
            self.claims[2],
            "the rank of DH(W) is that of 𝒜*𝒜 for any W ∈ M*",
            f"{len(X)} measurements of WWᵀ, W {X.shape[1]} x {X.shape[1]}: rank {_several(m.rank for m in squares)} at "
            f"{len(squares)} points, that of 𝒜*𝒜 is {wanted}; ‖f − y‖/‖y‖ is {max(m.misfit for m in squares):.1g}, "
            f"the smallest singular value of W {least:.2g}",
            {m.rank for m in squares} == {wanted} and all(m.interpolates for m in squares) and least > 1e-3,
        )
        seen = int(Experiment.from_dict(next(iter(matrices.values())).spec).draw().n)
        yield Finding(
            self.claims[3],
            "matrix completion is matrix sensing for W = (U; V)",
            f"{seen} entries observed: rank {_several(at[name].rank for name in matrices)} at {len(matrices)} points, "
            f"dimension {_several(at[name].dimension for name in matrices)}",
            {at[name].rank for name in matrices} == {seen},
        )
        experiment = Experiment.from_dict(slow.spec)
        active = {s: manifold_at(experiment, point_with_active(slow, s)) for s in (1, n - 1, n, d - 1, d)}
        yield Finding(
            self.claims[4],
            "the critical set has singularities for points who have null coordinates",
            "rank "
            + ", ".join(f"{m.rank} ({s} of {d} active)" for s, m in active.items())
            + f" at interpolating points with uᵢ = vᵢ = 0 for the others: below {n} only with fewer than {n} active; "
            "Prop. 5 holds on more than (ℝ*)^2d",
            all(m.rank == min(s, n) and m.interpolates for s, m in active.items()),
        )
        low = manifold_at(Experiment.from_dict(next(iter(matrices.values())).spec), _low_rank_factors(matrices))
        poor = _sensing(size, 1, 0)
        square = manifold_at(poor, {"W": _root(poor.draw().truth)})
        yield Finding(
            self.claims[5],
            "singular points might be those of least norm: low-rank matrices",
            f"at interpolating points of rank 1: {low.rank} of {seen} (UVᵀ), {square.rank} of {wanted} (WWᵀ)",
            low.interpolates and square.interpolates and low.rank < seen and square.rank < wanted,
        )
        spectrum, t = slow_spectrum(slow), slow.curves["time"].values
        end = np.array(manifold_at(experiment, slow.params).eigenvalues)
        agreement = float(np.max(np.abs(spectrum[-1] / end - 1)[end > 1e-10 * end[0]]))  # smaller ones are rounding
        after = t >= (slow.verdict.t_fit or np.inf)
        eta = spectrum[after, -1]
        yield Finding(
            self.claims[6],
            "F does not satisfy Assumption 2 globally",
            f"η = {eta[0]:.2g} at t_fit = {t[after][0]:.2g}, {eta[-1]:.1g} at t = {t[-1]:.2g}, where the largest "
            f"eigenvalue is {spectrum[-1, 0]:.2g} (these, from the curves and the law of u ⊙ v, are those of the last "
            f"parameters to {agreement:.1g})",
            bool(eta[-1] <= 1e-4 * eta[0] and agreement <= 1e-4),
        )


def manifold_at(experiment: Experiment, params: PyTree[np.ndarray]) -> Manifold:
    """Rank and gap of the Hessian of an experiment's loss at any parameters."""
    with jax.enable_x64(True):
        problem, _ = prepare(experiment)
        return hessian_rank(problem, jax.tree.map(jnp.asarray, params))


def whole_spectrum(run: Run, params: PyTree[np.ndarray]) -> Float[np.ndarray, " p"]:
    """|eigenvalues| of the whole Hessian of a run's training loss, the largest first."""
    with jax.enable_x64(True):
        problem, _ = prepare(Experiment.from_dict(run.spec))
        hessian = np.asarray(_hessian(problem, jax.tree.map(jnp.asarray, params)))
    return np.sort(np.abs(np.linalg.eigvalsh(hessian)))[::-1]


@eqx.filter_jit
def _hessian(problem: Problem, params: PyTree[Array]) -> Float[Array, "p p"]:
    at, tree = ravel_pytree(params)
    return jax.hessian(lambda w: problem.loss(tree(w)))(at)


def slow_spectrum(run: Run) -> Float[np.ndarray, "k n"]:
    """The eigenvalues of 2JJᵀ along a flow of u² − v² with weight decay λ, the largest first, one row a time.

    JJᵀ = X diag(4(u² + v²)) Xᵀ. A run records u² − v² = w, and u ⊙ v is known: the loss leaves it alone, and weight
    decay shrinks it like e^{−2λt}. So u² + v² = √(w² + 4(u ⊙ v)²).
    """
    X = Experiment.from_dict(run.spec).draw().inputs
    v, u = np.split(initial(run), 2)
    t, w = run.curves["time"].values[:, None], run.curves["weights"].values
    both = np.sqrt(w**2 + 4 * (u * v * np.exp(-2 * run.spec["penalty"]["strength"] * t)) ** 2)
    kernels = np.einsum("ni,ti,mi->tnm", X, 4 * both, X)
    return 2 * np.linalg.eigvalsh(kernels)[:, ::-1]


def point_with_active(run: Run, active: int) -> dict[str, np.ndarray]:
    """An interpolating (u, v) of the net u² − v² with so many active coordinates, the others uᵢ = vᵢ = 0.

    The truth fits; its support is active, and further coordinates with uᵢ = vᵢ = 1 do not change the outputs.
    """
    truth = Experiment.from_dict(run.spec).draw().truth
    plus, minus = np.sqrt(np.maximum(truth, 0)), np.sqrt(np.maximum(-truth, 0))
    others = np.flatnonzero(truth == 0)[: active - np.count_nonzero(truth)]
    plus[others] = minus[others] = 1.0
    return {"plus": plus, "minus": minus}


def _sensing(size: int, rank: int, seed: int) -> Experiment:
    """WWᵀ, W square, fitted to measurements of a matrix of that rank: more of them than a W of rank 1 can follow.

    The truth is drawn positive definite where training is to end at an invertible W: about one of rank 1 there may be
    no other positive semi-definite matrix with the same measurements.
    """
    start = np.random.default_rng(seed).standard_normal((size, size))
    return Experiment(
        task=tasks.MatrixSensing(size, size, rank, symmetric=True, N=2 * size - 1),
        model=models.Function(_squared, {"W": start}, homogeneity=2),
        dynamics=dynamics.GradientDescent(lr=2e-3, steps=200_000),
        observations=5,
    )


def _squared(params: dict[str, Array], x: Float[Array, "n n"]) -> Float[Array, ""]:
    """⟨WWᵀ, X⟩."""
    return jnp.sum(x * (params["W"] @ params["W"].T))


def _root(M: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    """The symmetric W with WWᵀ = M, for a positive semi-definite M."""
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(np.where(values > 1e-12 * values[-1], values, 0))) @ vectors.T


def _stacked(params: Mapping[str, np.ndarray]) -> Float[np.ndarray, " m+n"]:
    """The singular values of W = (U; V)."""
    return np.linalg.svd(np.concatenate([params["U"], params["V"]]), compute_uv=False)


def _low_rank_factors(runs: Mapping[str, Run]) -> dict[str, np.ndarray]:
    """Factors U, V of the truth itself, with no more non-zero columns than its rank."""
    run = next(iter(runs.values()))
    left, sigma, right = np.linalg.svd(Experiment.from_dict(run.spec).draw().truth)
    rank = run.spec["task"]["rank"]
    factors = {name: np.zeros_like(run.params[name]) for name in ("U", "V")}
    factors["U"][:, :rank] = left[:, :rank] * np.sqrt(sigma[:rank])
    factors["V"][:, :rank] = right[:rank].T * np.sqrt(sigma[:rank])
    return factors


def _several(numbers: Iterable[int]) -> str:
    """The different ones among some numbers."""
    return " or ".join(str(number) for number in sorted(set(numbers)))
