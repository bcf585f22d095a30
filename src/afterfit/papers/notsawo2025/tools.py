"""App. G: the tools of compressed sensing, the inequalities between them, and a run that does what they say."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, once
from afterfit.papers._measure import log_slope
from afterfit.papers.notsawo2025 import PAPER, panels
from afterfit.papers.notsawo2025.draws import (
    MANY,
    Factors,
    Matrices,
    Measurements,
    Pairs,
    draw_factors,
    draw_in_basis,
    draw_matrices,
    draw_measurements,
    draw_pairs,
)
from afterfit.papers.notsawo2025.null_space import (
    Robust,
    Support,
    draw_supports,
    error_bound,
    excess,
    null_space_constant,
    robust_constants,
)
from afterfit.papers.notsawo2025.recovery import descent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Tools"]

_SLACK = 1e-9  # rounding; linear programs are good to 1e-7, and what rests on them gets 1e-6


class Tools(Entry):
    paper, name = PAPER, "tools"
    title = "Coherence, restricted isometry and null spaces say which runs recover"
    where = "App. G, §3.1, C.5"
    about = (
        "Coherence, 1-coherence, the restricted isometry constant δ_s, the (robust) null space property and local "
        "coherences are computed by brute force where that is possible and between bounds elsewhere, and every "
        "inequality that the paper states between them is checked on random matrices. Two runs show what they are "
        "for: subgradient descent on ½‖Xa − y‖² + β‖a‖₁ finds a* when the null space constant ρ_S of its support is "
        "below 1 (incoherent measurements, τ = 0), and ends elsewhere, where the linear program does, on a draw with "
        "ρ_S > 1 (three quarters of the measurements columns of the basis, τ = 0.75). Definitions are read so that "
        "they can hold: ≤ for < in the null space properties, which u = 0 would break, and all pairs of columns in "
        "the mutual coherence, printed as [m] x [n]. Theorems with constants that the paper leaves open (G.7, G.11, "
        "G.12) are not checked."
    )
    notes = (
        "An orthonormal basis has coherence 0; the numbers of Example G.1 are those of the 2n columns of (I Φ). ΨᵀΨ "
        "in App. G.1.1 is diagonal only if the columns of Φ are orthogonal already. μ does not see the scale of M, "
        "which C₁ sets in Thm G.4: with C₁ = ½ the theorem holds. After Thm C.36 a and a* are exchanged: with "
        "σ_s(a*) the bound holds. With fewer measurements than unknowns ρ₂ = 1 in Thm 3.1; and with ρ₂ over the row "
        "space, a leaves the ball around the least-squares solution on its way to a*."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment]:
        n, sparsity, N, steps = (100, 5, 40, 2_400_000) if scale == "paper" else (40, 2, 18, 300_000)
        task = af.tasks.SparseRecovery(n=n, sparsity=sparsity, N=N, scale=3.0)
        incoherent = descent(task, alpha=0.5, beta=1e-5, steps=steps, seed=1 if scale == "paper" else 4)
        # A draw that the linear program misses too, and whose slow phase is over within these steps.
        coherent = incoherent.set({"task.coherence": 0.75, "seed": 1 if scale == "paper" else 14})
        return {"incoherent": incoherent, "coherent": coherent}

    def picture(self, incoherent: af.Run, coherent: af.Run, robust: Robust, supports: list[Support]) -> Figure:
        figure = af.plot.Figure(figsize=(11.5, 8.6), layout="constrained")
        (alignment, isometry, errors, constants) = axes = figure.subplots(2, 2).ravel()
        panels.draw_alignment(alignment, incoherent)
        panels.draw_isometry(isometry, incoherent.data.inputs)
        panels.draw_errors(errors, incoherent, coherent, robust)
        af.plot.mark_phases(errors, incoherent.verdict)
        panels.draw_supports(constants, supports)
        for run, label in ((incoherent, "the two runs"), (coherent, None)):
            at = (run.spec["task"]["coherence"], null_space_constant(run.data))
            constants.plot(*at, ls="", marker="*", ms=11, color="k", label=label)
        af.plot.legend_below(*axes)
        return figure

    # ------------------------------------------------------------------ Defs G.1, G.2, Prop. G.3

    @once
    def draws(self, scale: str) -> int:
        """On how many random matrices an inequality is tried."""
        return 200 if scale == "paper" else 20

    @once
    def matrices(self, draws: int) -> Matrices:
        return draw_matrices(draws)

    @claim(
        "Def. G.1: δ_s by singular values is δ_s by norms, grows with s and bounds condition numbers",
        says="equivalent; δ_s ≤ δ_{s+1}; the condition number of A_JᵀA_J is at most (1 + δ_s)/(1 − δ_s)",
    )
    def isometry(self, matrices: Matrices) -> Finding:
        apart, falls, conditions = [], [], []
        for A in matrices.tall:
            deltas = [af.theory.sensing.restricted_isometry(A, s).lower for s in range(1, 9)]
            falls.append(np.min(np.diff(deltas)))
            for s, delta in enumerate(deltas, start=1):
                singular = np.array([np.linalg.svd(A[:, J], compute_uv=False) for J in _subsets(8, s)])
                apart.append(abs(delta - np.max(np.abs(singular**2 - 1))))
                if delta < 1:
                    bound = (1 + delta) / (1 - delta)
                    conditions.append(np.max((singular[:, 0] / singular[:, -1]) ** 2) / bound)
        return Finding(
            f"{len(matrices.tall)} matrices, s = 1 to 8: the two differ by at most {max(apart):.1g}; the smallest rise "
            f"of δ_s is {min(falls):.1g}; condition numbers at most {max(conditions):.3f} of their bounds (δ_s < 1 in "
            f"{len(conditions)} of {8 * len(matrices.tall)})",
            max(apart) <= _SLACK and min(falls) >= -_SLACK and 0 < max(conditions) <= 1 + _SLACK,
        )

    @claim(
        "Def. G.2: μ₁(A, s) ≤ sμ(A), and both are above Welch's bounds",
        says="μ₁(A, s) ≤ sμ(A); μ ≥ √((n − m)/(m(n − 1))), and μ₁(A, s) ≥ s times that for s ≤ √(n − 1)",
    )
    def coherence(self, matrices: Matrices) -> Finding:
        to_welch, to_mu = [], []
        for A in matrices.wide:
            n = A.shape[1]
            welch, mu = af.theory.sensing.welch_bound(*A.shape), af.theory.sensing.mutual_coherence(A)
            to_welch.append(mu / welch)
            for s in range(1, n):
                one = af.theory.sensing.one_coherence(A, s)
                to_mu.append(one / (s * mu))
                if s <= np.sqrt(n - 1):
                    to_welch.append(one / (s * welch))
        return Finding(
            f"{len(matrices.wide)} matrices of up to 12 columns: μ₁/(sμ) at most {max(to_mu):.3f}; μ and μ₁/s at least "
            f"{min(to_welch):.3f} times Welch's bound",
            max(to_mu) <= 1 + _SLACK and min(to_welch) >= 1 - _SLACK,
        )

    @claim("Prop. G.3: μ = δ₂, μ₁(A, s) is a 1→1 norm, δ_s ≤ μ₁(A, s − 1) ≤ (s − 1)μ", says="for columns of norm 1")
    def coherence_bounds_isometry(self, matrices: Matrices) -> Finding:
        equal, shares = [], []
        for A in matrices.normed:
            gram, mu = A.T @ A - np.eye(8), af.theory.sensing.mutual_coherence(A)
            equal.append(abs(mu - af.theory.sensing.restricted_isometry(A, 2).lower))
            for s in range(1, 8):
                norms = [np.linalg.norm(gram[np.ix_(J, J)], 1) for J in _subsets(8, s + 1)]
                one = af.theory.sensing.one_coherence(A, s)
                equal.append(abs(one - max(norms)))
                shares += [af.theory.sensing.restricted_isometry(A, s + 1).lower / one, one / (s * mu)]
        return Finding(
            f"{len(matrices.normed)} matrices: the equalities hold to {max(equal):.1g}; a smaller side is at most "
            f"{max(shares):.3f} of the larger",
            max(equal) <= _SLACK and max(shares) <= 1 + _SLACK,
        )

    # ------------------------------------------------------------------ App. G.1: bases and measurements

    @claim(
        "Example G.1: the Fourier basis has μ₁(Φ, s) = sμ(Φ) = s/√n",
        says="μ₁(Φ, s) = sμ(Φ) = s/√n",
        fails="An orthonormal basis has coherence 0. The numbers are those of the 2n columns of (I Φ).",
    )
    def fourier_basis(self) -> Finding:
        n = 16
        phi = np.fft.fft(np.eye(n)) / np.sqrt(n)
        mu = af.theory.sensing.mutual_coherence(phi)
        beside = [af.theory.sensing.one_coherence(np.hstack([np.eye(n), phi]), s) for s in (1, 4)]
        return Finding(
            f"n={n}: μ(Φ) = {mu:.1g}, as of any orthonormal basis; of the 2n columns of "
            f"(I Φ), μ = {beside[0]:.4g} and μ₁(4) = {beside[1]:.4g}, which are 1/√n and 4/√n",
            abs(mu - 1 / np.sqrt(n)) <= _SLACK,
        )

    @claim(
        "App. G.1.1: independent columns Φ can be taken orthonormal, with as sparse an a*",
        says="ã* = (ΨᵀΨ)^½(a*, 0) has ‖ã*‖₀ = ‖a*‖₀, since ΨᵀΨ is diagonal",
        fails="ΨᵀΨ has the block ΦᵀΦ, which is diagonal only if the columns of Φ are orthogonal already.",
    )
    def independent_columns(self) -> Finding:
        n = 16
        phi = np.random.default_rng(1).standard_normal((n, 6))
        values, vectors = np.linalg.eigh(phi.T @ phi)
        root = vectors * np.sqrt(values) @ vectors.T  # the block of (ΨᵀΨ)^½ that is not the identity
        counts = [int(np.sum(np.abs(column) > 1e-6)) for column in root.T]
        return Finding(
            f"Φ a Gaussian {n}x6 matrix, a* each unit vector: ‖ã*‖₀ is {min(counts)} to {max(counts)} where ‖a*‖₀ = 1. "
            "ΨᵀΨ has the block ΦᵀΦ, which is diagonal only if the columns are orthogonal already",
            max(counts) == 1,
        )

    @once
    def measurements(self, draws: int) -> Measurements:
        return draw_measurements(10 * draws)

    @claim(
        "Thm G.4 with C₁ = ½, the M of App. G.1.2: μ(Mᵀ, Φ) ≤ 2C₂√ln(nN)/n^C₁",
        says="with probability at least 1 − 1/(nN)^{2C₂−1}",
    )
    def measurements_are_incoherent(self, measurements: Measurements) -> Finding:
        return _incoherence(measurements, 0.5)

    @claim(
        "Thm G.4 with any C₁ > 0",
        says="with probability at least 1 − 1/(nN)^{2C₂−1}",
        fails="μ does not see the scale of M, which C₁ sets; the proof bounds max|MΦ| without the norms of M's rows.",
    )
    def measurements_are_incoherent_at_any_scale(self, measurements: Measurements) -> Finding:
        found = _incoherence(measurements, 1.0)
        why = "the proof bounds max|MΦ| and leaves out ‖Mᵢ‖, of order n^{½−C₁}"
        return Finding(f"{found.measured}; {why}", found.holds)

    @claim(
        "Thm G.5: N of order δ⁻² is enough for δ_s ≤ δ",
        says="N ≥ Cδ⁻²(s ln(n/s) + ln(1/η)), C universal, so δ_s falls like N^{−½}",
    )
    def isometry_of_measurements(self, measurements: Measurements) -> Finding:
        def typical(matrices: list[np.ndarray]) -> float:
            """δ₂ with entries of variance 1/N."""
            return float(np.median([_delta(A / np.sqrt(len(A))) for A in matrices]))

        gaussian, bernoulli = (
            [typical(matrices) for matrices in kind] for kind in (measurements.gaussian, measurements.bernoulli)
        )
        slopes = [log_slope(MANY, deltas) for deltas in (gaussian, bernoulli)]
        unscaled = _delta(measurements.largest / np.sqrt(12))
        return Finding(
            f"n=12, s=2, N={MANY[0]} to {MANY[-1]}: log-log slopes {slopes[0]:.2f} (Gaussian) and {slopes[1]:.2f} "
            f"(Bernoulli), δ_s down to {gaussian[-1]:.2g} and {bernoulli[-1]:.2g}, with entries of variance 1/N. The M "
            f"of App. G.1.2 has 1/n, and then δ_s tends to |N/n − 1|: {unscaled:.3g} at N={MANY[-1]}",
            all(abs(slope + 0.5) <= 0.1 for slope in slopes),
        )

    @claim(
        "Fig. 19a: μ(Mᵀ, Φ) rises with τ, to 1",
        says="the higher τ, the less the incoherence; coherence 1 at τ = 1",
    )
    def coherence_rises(self, incoherent: af.Run) -> Finding:
        N, n = incoherent.data.inputs.shape
        taus = [0.0, 0.9 / N, 1 / N, 0.25, 0.5, 0.75, 1.0]
        in_basis = [[draw_in_basis(incoherent, tau, seed) for seed in range(5)] for tau in taus]
        mus = [np.mean([af.theory.sensing.coherence(M.T, np.eye(n)) for M in several]) for several in in_basis]
        return Finding(
            f"N={N}, means of 5 draws: "
            + ", ".join(f"{mu:.3g} (τ={tau:.3g})" for tau, mu in zip(taus, mus, strict=True))
            + ": a step, since one row of M that is a column of Φ already makes it 1",
            bool(np.all(np.diff(mus) >= -_SLACK) and abs(mus[-1] - 1) <= _SLACK and mus[0] < 1),
        )

    # ------------------------------------------------------------------ Defs C.34 and C.37: null space properties

    @once
    def pairs(self, incoherent: af.Run, draws: int) -> Pairs:
        return draw_pairs(incoherent.data.inputs, draws)

    @once
    def rho(self, incoherent: af.Run) -> float:
        """ρ_S of the incoherent run."""
        return null_space_constant(incoherent.data)

    @once
    def robust(self, incoherent: af.Run) -> Robust:
        """A pair (ρ, τ) of the incoherent run."""
        return robust_constants(incoherent.data)

    @once
    def supports(self, incoherent: af.Run) -> list[Support]:
        """Other draws of the runs' task, coherent ones too."""
        return draw_supports(incoherent.experiment.task, seeds=4)

    @claim(
        "Thm C.36: the stable null space property and its error bound are the same",
        says="‖v − u‖₁ ≤ (1 + ρ)/(1 − ρ)·(‖v‖₁ − ‖u‖₁ + 2‖u_{S̄}‖₁) whenever Au = Av, if and only if",
    )
    def stable_bound(self, incoherent: af.Run, rho: float, pairs: Pairs) -> Finding:
        u, v, off = pairs.u, pairs.alike, np.flatnonzero(incoherent.data.truth == 0)
        shares = np.abs(v - u).sum(axis=1) / af.theory.sensing.recovery_bound(rho, 0.0, excess(u, v, off), 0.0)
        tight = [share for share in map(_share_on_line, pairs.lines) if share is not None]
        return Finding(
            f"X of the run, ρ_S={rho:.3f}: at most {shares.max():.3f} of the bound on {len(u)} pairs. Only if: "
            f"u = −w_S and v = w_{{S̄}} attain it, {min(tight):.6f} to {max(tight):.6f} of it on {len(tight)} kernels",
            bool(np.all(shares >= 0) and shares.max() <= 1 and np.ptp([*tight, 1.0]) <= 1e-5),
        )

    @claim(
        "after Thm C.36: basis pursuit errs by at most 2(1 + ρ)/(1 − ρ)·σ_s(a), a its solution",
        says="‖a − a*‖₁ ≤ 2(1 + ρ)/(1 − ρ)·σ_s(a), since ‖a*‖₁ ≤ ‖a‖₁",
        fails="a and a* are exchanged: it is the minimiser a that has ‖a‖₁ ≤ ‖a*‖₁, and σ_s(a*) that bounds the error.",
    )
    def basis_pursuit_bound(self) -> Finding:
        A, truth = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]), np.array([1.0, 1.0, 0.0])
        found, rho = af.theory.min_l1(A, A @ truth), af.theory.sensing.null_space_constant(A, 1).lower
        defects = [float(np.sort(np.abs(a))[:-1].sum()) for a in (found, truth)]
        bounds = [float(af.theory.sensing.recovery_bound(rho, 0.0, 2 * defect, 0.0)) for defect in defects]
        error = float(np.abs(found - truth).sum())
        return Finding(
            f"ker A = span(1, 1, 1), ρ={rho:.3g}, a*=(1, 1, 0): a = (0, 0, −1), ‖a − a*‖₁ = {error:.3g}, σ₁(a) = "
            f"{defects[0]:.3g}. The minimiser has ‖a‖₁ ≤ ‖a*‖₁, and with σ₁(a*) the bound is {bounds[1]:.3g}",
            error <= bounds[0] + _SLACK,
        )

    @claim(
        "Thm C.38: the error bound of the robust null space property",
        says="‖v − u‖₁ ≤ (1 + ρ)/(1 − ρ)·(‖v‖₁ − ‖u‖₁ + 2‖u_{S̄}‖₁) + 2τ/(1 − ρ)·‖A(v − u)‖₂",
    )
    def robust_bound(self, incoherent: af.Run, rho: float, robust: Robust, pairs: Pairs) -> Finding:
        X, truth = incoherent.data.inputs, incoherent.data.truth
        u, v, S, off = pairs.u, pairs.near, np.flatnonzero(truth), np.flatnonzero(truth == 0)
        residual = np.linalg.norm((v - u) @ X.T, axis=1)
        bound = af.theory.sensing.recovery_bound(*robust, excess(u, v, off), residual)
        shares = np.abs(v - u).sum(axis=1) / bound
        below = af.theory.sensing.robust_null_space_constant(X, 0.95 * rho, S.tolist())
        return Finding(
            f"X of the run: ρ={robust.rho:.3f} needs τ={robust.tau:.3g} (below ρ_S={rho:.3f} no τ is enough: "
            f"{below:g} at 0.95ρ_S); at most {shares.max():.3f} of the bound on {len(u)} pairs",
            bool(np.isfinite(robust.tau) and below == np.inf and np.all(shares >= 0) and shares.max() <= 1 + 1e-6),
        )

    @claim(
        "ℓ₁ minimisation finds every vector on S where, and only where, ρ_S < 1",
        says="the null space property relative to S (Def. C.34)",
    )
    def null_space_property_decides(self, supports: list[Support]) -> Finding:
        below = [support.recovers for support in supports if support.rho < 1]
        above = [support.recovers for support in supports if support.rho >= 1]
        return Finding(
            f"{len(supports)} draws, τ in {{0, ¼, ½, ¾, 1}}: every pattern of signs on S found on {sum(below)} of the "
            f"{len(below)} with ρ_S < 1, and on {sum(above)} of the {len(above)} with ρ_S ≥ 1",
            all(below) and not any(above) and bool(below) and bool(above),
        )

    # ------------------------------------------------------------------ Thms 3.1 and 3.3: the runs

    @claim(
        "training ends at a* as the null space property says",
        says="with it, Xa = y* and ‖a‖₁ = ‖a*‖₁ are enough for a = a*",
    )
    def training_ends_there(self, incoherent: af.Run, coherent: af.Run) -> Finding:
        ends = [_end_of(run) for run in (incoherent, coherent)]
        return Finding("; ".join(end.measured for end in ends), all(end.holds for end in ends))

    @claim(
        "Thm 3.3: ‖a(t) − a*‖₁ stays below the bound that its proof rests on",
        says="‖a − a*‖₁ ≤ (1 + ρ)/(1 − ρ)·(‖a‖₁ − ‖a*‖₁) + 2τ/(1 − ρ)·‖X(a − a*)‖₂",
    )
    def training_stays_below(self, incoherent: af.Run, robust: Robust) -> Finding:
        weights, time = incoherent.curves["weights"].values, incoherent.curves["time"].values
        shares = np.abs(weights - incoherent.data.truth).sum(axis=1) / error_bound(incoherent, robust)
        after = shares[time >= (incoherent.verdict.t_fit or np.inf)]
        return Finding(
            f"ρ={robust.rho:.3f}, τ={robust.tau:.3g}: at most {shares.max():.3f} of it at {len(time)} times, "
            f"{np.min(after):.2g} to {np.max(after):.2g} after t₁",
            bool(np.all(shares >= 0) and shares.max() <= 1),
        )

    @once
    def step(self, incoherent: af.Run) -> af.theory.sensing.StepConditions:
        """What Thm 3.1 asks of α and β, and its ρ₂."""
        alpha, beta = incoherent.spec["dynamics"]["lr"], incoherent.spec["penalty"]["strength"]
        return af.theory.sensing.step_conditions(incoherent.data.inputs, alpha, beta, "l1")

    @once
    def least_squares(self, incoherent: af.Run) -> np.ndarray:
        """â."""
        return af.theory.min_l2(incoherent.data.inputs, incoherent.data.targets)

    @once
    def ball(self, incoherent: af.Run, step: af.theory.sensing.StepConditions, least_squares: np.ndarray) -> _Ball:
        """What Thm 3.1 says of this run, with the ρ₂ that is below 1."""
        alpha, beta = incoherent.spec["dynamics"]["lr"], incoherent.spec["penalty"]["strength"]
        weights, rho = incoherent.curves["weights"].values, step.rho_2_rows
        drift = alpha * beta * np.sqrt(weights.shape[1])
        # (78), with p = 2; a step takes the time α.
        ahead = np.log1p((1 - rho) * np.linalg.norm(weights[0] - least_squares) / drift)
        late = incoherent.curves["time"].values >= alpha * np.ceil(-ahead / np.log(rho))
        return _Ball(2 * drift / (1 - rho), late)

    @claim(
        "Thm 3.1: ‖a(t) − â‖₂ ≤ 2αβ√n/(1 − ρ₂) from t₁ on",
        says="with ρ₂ = σ_max(I − αXᵀX)",
        fails="With fewer measurements than unknowns ρ₂ = 1; with ρ₂ over the row space, a(t) leaves the ball on its "
        "way to a*.",
    )
    def stays_near_least_squares(
        self, incoherent: af.Run, step: af.theory.sensing.StepConditions, least_squares: np.ndarray, ball: _Ball
    ) -> Finding:
        alpha, beta = incoherent.spec["dynamics"]["lr"], incoherent.spec["penalty"]["strength"]
        weights, gap = incoherent.curves["weights"].values, np.linalg.norm(least_squares - incoherent.data.truth)
        distance = np.linalg.norm(weights - least_squares, axis=1)[ball.late]
        return Finding(
            f"α={alpha:g} < {step.alpha_max:.3g}, β={beta:g} < {step.beta_max:.3g}, so its conditions "
            f"{'hold' if step.holds else 'do not hold'}. N < n makes ρ₂ = {step.rho_2:.3g} and the bound "
            f"infinite; with max|1 − ασ_k| over the row space, {step.rho_2_rows:.3f} (C.4), it is {ball.radius:.2g}, "
            f"and ‖a(t) − â‖₂ reaches {distance.max():.3g} on the way to a*, at ‖â − a*‖₂ = {gap:.3g}",
            bool(step.holds and step.rho_2 < 1 and np.all(distance <= ball.radius)),
        )

    @claim(
        "(95): ‖Xa(t) − y*‖₂ ≤ 2√n‖X‖αβ/(1 − ρ₂) from t₁ on, ρ₂ over the row space of X",
        says="without noise; the step of the proof of Thm 3.3",
    )
    def stays_near_the_data(self, incoherent: af.Run, step: af.theory.sensing.StepConditions, ball: _Ball) -> Finding:
        weights, data = incoherent.curves["weights"].values, incoherent.data
        residual = np.linalg.norm(weights @ data.inputs.T - data.targets, axis=1)[ball.late]
        allowed, since = np.sqrt(step.sigma_max) * ball.radius, incoherent.curves["time"].values[ball.late][0]
        return Finding(
            f"from t={since:.3g} on at most {residual.max():.2g}, allowed {allowed:.2g} (ρ₂={step.rho_2_rows:.3f})",
            bool(np.all(residual <= allowed)),
        )

    # ------------------------------------------------------------------ Defs G.6 to G.10: matrices

    @once
    def factors(self, draws: int) -> list[Factors]:
        return draw_factors(draws)

    @claim(
        "Defs G.6, G.8, G.9: 1 ≤ μ(U) ≤ n/r, and (124), in the random orthogonal model",
        says="1 ≤ μ(U) ≤ n/r; local coherences in other orthonormal bases are those of P₁ᵀAP₂",
    )
    def local_coherence(self, factors: list[Factors]) -> Finding:
        sensing = af.theory.sensing
        singular = np.array([np.linalg.svd(U @ V.T, compute_uv=False)[:3] for U, V, _, _ in factors])
        of_U, of_V = ([sensing.subspace_coherence(pair[side]) for pair in factors] for side in (0, 1))
        turned = max(_turned_apart(pair) for pair in factors)
        scores = [sensing.leverage_scores(U @ V.T, 3) for U, V, _, _ in factors]
        sums = max(abs(values.sum() - len(values)) for pair in scores for values in pair)
        return Finding(
            f"{len(factors)} matrices 12x8 of rank 3 with singular values 1/√3 (to {np.ptp(singular):.1g}): μ(U) from "
            f"{min(of_U):.3g} to {max(of_U):.3g} of 4, μ(V) from {min(of_V):.3g} to {max(of_V):.3g} of 2.67; (124) to "
            f"{turned:.1g}; Σμᵢ = n₁ and Σνⱼ = n₂ to {sums:.1g}",
            min(*of_U, *of_V) >= 1 - _SLACK
            and max(of_U) <= 4 + _SLACK
            and max(of_V) <= 8 / 3 + _SLACK
            and max(turned, sums) <= _SLACK
            and bool(np.max(np.abs(singular - 3**-0.5)) <= _SLACK),
        )

    @claim("μ₁ = μ₀√r is enough for |UVᵀ|ᵢⱼ ≤ μ₁√(r/n₁n₂)", says="by the Cauchy–Schwarz inequality")
    def completion_coherence(self, factors: list[Factors]) -> Finding:
        both = [af.theory.sensing.completion_coherences(U @ V.T, 3) for U, V, _, _ in factors]
        shares = [mu_1 / (mu_0 * np.sqrt(3)) for mu_0, mu_1 in both]
        return Finding(
            f"the same matrices: the smallest μ₁ is {min(shares):.3f} to {max(shares):.3f} of μ₀√r",
            max(shares) <= 1 + _SLACK,
        )


class _Ball(NamedTuple):
    """The ball around â in which Thm 3.1 sees a(t), and which observations are from its t₁ on."""

    radius: float
    late: np.ndarray


def _subsets(n: int, s: int) -> list[list[int]]:
    return [list(J) for J in itertools.combinations(range(n), s)]


def _delta(A: np.ndarray) -> float:
    """δ₂."""
    return af.theory.sensing.restricted_isometry(A, 2).lower


def _incoherence(measurements: Measurements, C1: float) -> Finding:
    """How often μ(Mᵀ, Φ) exceeds 2C₂√ln(nN)/n^C₁ with C₂ = 1, and how often max|MΦ| does."""
    phi, M = measurements.phi, measurements.M
    N, n = M[0].shape
    bound, allowed = 2 * np.sqrt(np.log(n * N)) / n**C1, 1 / (n * N)
    mu = np.array([af.theory.sensing.coherence(x.T, phi) for x in M])  # of every C₁: μ does not see the scale of M
    products = np.array([np.max(np.abs(x @ phi)) for x in M]) / n**C1
    spread = 2 * np.sqrt(allowed / len(M))  # two standard deviations of the frequency
    return Finding(
        f"n={n}, N={N}, C₁={C1:g}, C₂=1, bound {bound:.3g}: exceeded by μ, {np.median(mu):.3g} in the median, "
        f"in {np.mean(mu > bound):.2%} of {len(M)} draws, by max|MΦ| in {np.mean(products > bound):.2%}, "
        f"allowed {allowed:.2%}",
        bool(np.mean(mu > bound) <= allowed + spread),
    )


def _share_on_line(w: np.ndarray) -> float | None:
    """‖v − u‖₁ beside its bound for u = −w_S, v = w_{S̄} and a kernel spanned by w, which needs its ρ; S = {1}.

    None where ρ is not well below 1.
    """
    rho = af.theory.sensing.null_space_constant(np.linalg.svd(w[None, :])[2][1:], support=[0]).lower
    if rho >= 0.99:
        return None
    bound = af.theory.sensing.recovery_bound(rho, 0.0, np.abs(w[1:]).sum() - abs(w[0]), 0.0)
    return float(np.abs(w).sum() / bound)


def _end_of(run: af.Run) -> Finding:
    """Whether a run ends at the minimum-ℓ₁ a, and this is a* where ρ_S < 1."""
    data, rho, tau = run.data, null_space_constant(run.data), run.spec["task"]["coherence"]
    least = af.theory.min_l1(data.inputs, data.targets)
    to_truth, to_least = (
        np.linalg.norm(run.params["weights"] - a) / np.linalg.norm(data.truth) for a in (data.truth, least)
    )
    return Finding(
        f"τ={tau:g}: ρ_S={rho:.3f}, ‖a − a*‖/‖a*‖ = {to_truth:.2g}, from the minimum-ℓ₁ a {to_least:.2g}",
        bool((rho < 1) == (to_truth <= 1e-3) and to_least <= 1e-3),
    )


def _turned_apart(factors: Factors) -> float:
    """How far the local coherences of A in the bases P and Q are from those of PᵀAQ, (124)."""
    U, V, P, Q = factors
    rows, columns = af.theory.sensing.leverage_scores(P.T @ (U @ V.T) @ Q, 3)
    return max(
        np.max(np.abs(af.theory.sensing.local_coherences(U, P) - rows)),
        np.max(np.abs(af.theory.sensing.local_coherences(V, Q) - columns)),
    )
