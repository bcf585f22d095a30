"""App. G: the tools of compressed sensing, the inequalities between them, and a run that does what they say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

import numpy as np
from matplotlib.figure import Figure

from afterfit import dynamics, inits, models, penalties, tasks, theory
from afterfit.experiment import Experiment
from afterfit.papers.gallery import Entry, Finding
from afterfit.papers.measure import log_slope
from afterfit.plot import TEST, TRAIN, legend_below, log_time_axes, mark_phases
from afterfit.run import Run
from afterfit.tasks import Task
from afterfit.theory import sensing

__all__ = ["Tools"]

_SLACK = 1e-9  # rounding; linear programs are good to 1e-7, and what rests on them gets 1e-6


class Tools(Entry):
    id = "notsawo2025/tools"
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
    claims = (
        "Def. G.1: δ_s by singular values is δ_s by norms, grows with s and bounds condition numbers",
        "Def. G.2: μ₁(A, s) ≤ sμ(A), and both are above Welch's bounds",
        "Prop. G.3: μ = δ₂, μ₁(A, s) is a 1→1 norm, δ_s ≤ μ₁(A, s − 1) ≤ (s − 1)μ",
        "Example G.1: the Fourier basis has μ₁(Φ, s) = sμ(Φ) = s/√n",
        "App. G.1.1: independent columns Φ can be taken orthonormal, with as sparse an a*",
        "Thm G.4 with C₁ = ½, the M of App. G.1.2: μ(Mᵀ, Φ) ≤ 2C₂√ln(nN)/n^C₁",
        "Thm G.4 with any C₁ > 0",
        "Thm G.5: N of order δ⁻² is enough for δ_s ≤ δ",
        "Fig. 19a: μ(Mᵀ, Φ) rises with τ, to 1",
        "Thm C.36: the stable null space property and its error bound are the same",
        "after Thm C.36: basis pursuit errs by at most 2(1 + ρ)/(1 − ρ)·σ_s(a), a its solution",
        "Thm C.38: the error bound of the robust null space property",
        "ℓ₁ minimisation finds every vector on S where, and only where, ρ_S < 1",
        "training ends at a* as the null space property says",
        "Thm 3.3: ‖a(t) − a*‖₁ stays below the bound that its proof rests on",
        "Thm 3.1: ‖a(t) − â‖₂ ≤ 2αβ√n/(1 − ρ₂) from t₁ on",
        "(95): ‖Xa(t) − y*‖₂ ≤ 2√n‖X‖αβ/(1 − ρ₂) from t₁ on, ρ₂ over the row space of X",
        "Defs G.6, G.8, G.9: 1 ≤ μ(U) ≤ n/r, and (124), in the random orthogonal model",
        "μ₁ = μ₀√r is enough for |UVᵀ|ᵢⱼ ≤ μ₁√(r/n₁n₂)",
    )

    def experiments(self, scale: str) -> dict[str, Experiment]:
        n, sparsity, N, steps = (100, 5, 40, 2_400_000) if scale == "paper" else (40, 2, 18, 300_000)
        incoherent = Experiment(
            task=tasks.SparseRecovery(n=n, sparsity=sparsity, N=N, scale=3.0),
            model=models.Linear(),
            penalty=penalties.L1(1e-5),
            dynamics=dynamics.GradientDescent(lr=0.5, steps=steps),
            init=inits.ScaledGaussian(1e-6),
            seed=1 if scale == "paper" else 4,
        )
        # A draw that the linear program misses too, and whose slow phase is over within these steps.
        coherent = incoherent.set({"task.coherence": 0.75, "seed": 1 if scale == "paper" else 14})
        return {"τ=0": incoherent, "τ=0.75": coherent}

    def picture(self, runs: Mapping[str, Run]) -> Figure:
        figure = Figure(figsize=(11.5, 8.6), layout="constrained")
        (alignment, isometry), (errors, constants) = figure.subplots(2, 2)
        run = runs["τ=0"]
        X, _, truth = _given(run)
        n = X.shape[1]

        taus = np.sort([*np.linspace(0, 1, 11), 0.999 / len(X), 1 / len(X)])
        task = Experiment.from_dict(run.spec).task
        draws = np.array([[_in_basis(task, tau, seed) for seed in range(3)] for tau in taus])
        cosines = np.max(np.abs(draws), axis=3) / np.linalg.norm(draws, axis=3)  # with the columns of I
        largest, mean = cosines.max(axis=2).mean(axis=1), cosines.mean(axis=(1, 2))
        alignment.plot(taus, largest, color="k", lw=1.8, label=r"$\mu(M^\top,\Phi)$: the largest")
        alignment.plot(taus, mean, **TEST, label="mean over the measurements")
        alignment.axhline(
            2 * np.sqrt(np.log(X.size) / n), color="0.5", ls=":", label=r"Thm G.4 at $\tau=0$: $2\sqrt{\ln(nN)/n}$"
        )
        alignment.set(xlabel=r"share $\tau$ of measurements from the basis", ylabel=r"$\max_j|\cos(M_i,\Phi_j)|$")
        alignment.set(ylim=(0, None))
        alignment.set_title("coherence of measurements and basis (Fig. 19a)", fontsize="medium")

        A = X / np.linalg.norm(X, axis=0)
        orders = list(range(1, 9))
        deltas = [sensing.restricted_isometry(A, s) for s in orders]
        ones, mu = [sensing.one_coherence(A, s - 1) for s in orders], sensing.mutual_coherence(A)
        isometry.plot(
            orders, [(s - 1) * mu for s in orders], color="0.5", ls=":", marker="s", ms=4, label=r"$(s-1)\mu$"
        )
        isometry.plot(orders, ones, **TRAIN, marker="^", ms=4, label=r"$\mu_1(A,s-1)$")
        for exact, style in ((True, {"marker": "o", "ls": ""}), (False, {"marker": "_", "ls": ""})):
            shown = [(s, d) for s, d in zip(orders, deltas, strict=True) if d.exact == exact]
            for k, (s, d) in enumerate(shown):
                name = (r"$\delta_s$, exact" if exact else r"$\delta_s$, between bounds") if k == 0 else None
                isometry.plot([s, s], [d.lower, d.upper], color="k", lw=1.4)
                isometry.plot([s, s], [d.lower, d.upper], color="k", ms=6 if exact else 9, label=name, **style)
        isometry.axhline(1.0, color="0.7", lw=0.8)
        isometry.text(
            8, 0.97, r"the property asks for $\delta_s<1$", ha="right", va="top", fontsize="small", color="0.3"
        )
        isometry.set(xlabel="sparsity $s$", ylabel="constant", ylim=(0, None))
        isometry.set_title(rf"Prop. G.3, columns of $X$ ({X.shape[0]}×{n}) normed", fontsize="medium")

        rho, tau = _robust_constants(run)
        curves = run.curves.isel(time=slice(1, None))
        size = np.abs(truth).sum()
        errors.plot(curves["time"], curves["train_error"], **TRAIN, label=r"$\|Xa-y\|_2/\|y\|_2$, $\tau=0$")
        distance = np.abs(curves["weights"].values - truth).sum(axis=1)
        errors.plot(curves["time"], distance / size, **TEST, label=r"$\|a-a^*\|_1/\|a^*\|_1$, $\tau=0$")
        errors.plot(
            curves["time"], _bound(run, rho, tau)[1:] / size, color="k", ls=":", lw=1.4, label="bound of Thm C.38"
        )
        astray = runs["τ=0.75"].curves.isel(time=slice(1, None))
        missed = _given(runs["τ=0.75"])[2]
        errors.plot(
            astray["time"],
            np.abs(astray["weights"].values - missed).sum(axis=1) / np.abs(missed).sum(),
            color="0.55",
            ls=(0, (5, 1.5, 1, 1.5)),
            lw=1.8,
            label=r"$\|a-a^*\|_1/\|a^*\|_1$, $\tau=0.75$",
        )
        errors.set(yscale="log", ylabel="relative error")
        log_time_axes(errors)
        mark_phases(errors, run.verdict)

        points = _support_constants(task, seeds=4)
        ceiling = 1 + int(max(constant for _, constant, _ in points if np.isfinite(constant)))
        for recovers, style, name in (
            (True, {"marker": "o", "color": "#0072B2"}, "every vector on $S$ found"),
            (False, {"marker": "x", "color": "#D55E00"}, "some vector missed"),
        ):
            shown = [(tau, min(constant, ceiling + 1)) for tau, constant, found in points if found == recovers]
            constants.plot(*np.array(shown).reshape(-1, 2).T, ls="", mfc="none", **style, label=name)
        constants.axhline(1.0, color="k", lw=1.0, ls=":")
        for other in runs.values():
            at = (other.spec["task"]["coherence"], _null_space_constant(other))
            constants.plot(*at, ls="", marker="*", ms=11, color="k", label="the two runs" if other is run else None)
        constants.set(xlabel=r"share $\tau$ of measurements from the basis", ylabel=r"null space constant $\rho_S$")
        constants.set_yticks(range(ceiling + 2), [*map(str, range(ceiling + 1)), r"$\infty$"])
        constants.set_title(r"$\ell_1$ minimisation on random draws", fontsize="medium")
        legend_below(alignment, isometry, errors, constants)
        return figure

    def check(self, runs: Mapping[str, Run], scale: str, progress: bool | None) -> Iterator[Finding]:
        draws = 200 if scale == "paper" else 20
        yield from self._coherence_and_isometry(np.random.default_rng(0), draws)
        yield from self._bases(np.random.default_rng(1))
        yield from self._random_measurements(runs["τ=0"], np.random.default_rng(2), draws)
        yield from self._null_spaces(runs["τ=0"], np.random.default_rng(3), draws)
        yield from self._training(runs)
        yield from self._matrices(np.random.default_rng(4), draws)

    def _coherence_and_isometry(self, rng: np.random.Generator, draws: int) -> Iterator[Finding]:
        apart, falls, conditions, worst = [], [], [], 0.0
        for _ in range(draws):
            A = rng.standard_normal((60, 8)) / np.sqrt(60)
            deltas = [sensing.restricted_isometry(A, s).lower for s in range(1, 9)]
            for s, delta in enumerate(deltas, start=1):
                singular = np.array([np.linalg.svd(A[:, J], compute_uv=False) for J in _subsets(8, s)])
                apart.append(abs(delta - np.max(np.abs(singular**2 - 1))))
                if delta < 1:
                    bound = (1 + delta) / (1 - delta)
                    conditions.append(np.max((singular[:, 0] / singular[:, -1]) ** 2) / bound)
            falls.append(np.min(np.diff(deltas)))
            worst = max(worst, deltas[-1])
        yield Finding(
            self.claims[0],
            "equivalent; δ_s ≤ δ_{s+1}; the condition number of A_JᵀA_J is at most (1 + δ_s)/(1 − δ_s)",
            f"{draws} matrices, s = 1 to 8: the two differ by at most {max(apart):.1g}; the smallest rise of δ_s is "
            f"{min(falls):.1g}; condition numbers at most {max(conditions):.3f} of their bounds (δ_s < 1 in "
            f"{len(conditions)} of {8 * draws})",
            max(apart) <= _SLACK and min(falls) >= -_SLACK and 0 < max(conditions) <= 1 + _SLACK,
        )
        to_welch, to_mu = [], []
        for _ in range(draws):
            n = int(rng.integers(3, 13))
            A = rng.standard_normal((int(rng.integers(2, n)), n))
            welch, mu = sensing.welch_bound(*A.shape), sensing.mutual_coherence(A)
            to_welch.append(mu / welch)
            for s in range(1, n):
                to_mu.append(sensing.one_coherence(A, s) / (s * mu))
                if s <= np.sqrt(n - 1):
                    to_welch.append(sensing.one_coherence(A, s) / (s * welch))
        yield Finding(
            self.claims[1],
            "μ₁(A, s) ≤ sμ(A); μ ≥ √((n − m)/(m(n − 1))), and μ₁(A, s) ≥ s times that for s ≤ √(n − 1)",
            f"{draws} matrices of up to 12 columns: μ₁/(sμ) at most {max(to_mu):.3f}; μ and μ₁/s at least "
            f"{min(to_welch):.3f} times Welch's bound",
            max(to_mu) <= 1 + _SLACK and min(to_welch) >= 1 - _SLACK,
        )
        equal, shares = [], []
        for _ in range(draws):
            A = rng.standard_normal((5, 8))
            A /= np.linalg.norm(A, axis=0)
            gram, mu = A.T @ A - np.eye(8), sensing.mutual_coherence(A)
            equal.append(abs(mu - sensing.restricted_isometry(A, 2).lower))
            for s in range(1, 8):
                norms = [np.linalg.norm(gram[np.ix_(J, J)], 1) for J in _subsets(8, s + 1)]
                one = sensing.one_coherence(A, s)
                equal.append(abs(one - max(norms)))
                shares += [sensing.restricted_isometry(A, s + 1).lower / one, one / (s * mu)]
        yield Finding(
            self.claims[2],
            "for columns of norm 1",
            f"{draws} matrices: the equalities hold to {max(equal):.1g}; a smaller side is at most {max(shares):.3f} "
            "of the larger",
            max(equal) <= _SLACK and max(shares) <= 1 + _SLACK,
        )

    def _bases(self, rng: np.random.Generator) -> Iterator[Finding]:
        n = 16
        phi = np.fft.fft(np.eye(n)) / np.sqrt(n)
        beside = [sensing.one_coherence(np.hstack([np.eye(n), phi]), s) for s in (1, 4)]
        yield Finding(
            self.claims[3],
            "μ₁(Φ, s) = sμ(Φ) = s/√n",
            f"n={n}: μ(Φ) = {sensing.mutual_coherence(phi):.1g}, as of any orthonormal basis; of the 2n columns of "
            f"(I Φ), μ = {beside[0]:.4g} and μ₁(4) = {beside[1]:.4g}, which are 1/√n and 4/√n",
            abs(sensing.mutual_coherence(phi) - 1 / np.sqrt(n)) <= _SLACK,
        )
        phi = rng.standard_normal((n, 6))
        values, vectors = np.linalg.eigh(phi.T @ phi)
        root = vectors * np.sqrt(values) @ vectors.T  # the block of (ΨᵀΨ)^½ that is not the identity
        counts = [int(np.sum(np.abs(column) > 1e-6)) for column in root.T]
        yield Finding(
            self.claims[4],
            "ã* = (ΨᵀΨ)^½(a*, 0) has ‖ã*‖₀ = ‖a*‖₀, since ΨᵀΨ is diagonal",
            f"Φ a Gaussian {n}x6 matrix, a* each unit vector: ‖ã*‖₀ is {min(counts)} to {max(counts)} where ‖a*‖₀ = 1. "
            "ΨᵀΨ has the block ΦᵀΦ, which is diagonal only if the columns are orthogonal already",
            max(counts) == 1,
        )

    def _random_measurements(self, run: Run, rng: np.random.Generator, draws: int) -> Iterator[Finding]:
        n, N = 40, 10
        phi = np.linalg.qr(rng.standard_normal((n, 30)))[0]
        M = [rng.standard_normal((N, n)) for _ in range(10 * draws)]
        mu = np.array([sensing.coherence(x.T, phi) for x in M])  # of every C₁: μ does not see the scale of M
        products = np.array([np.max(np.abs(x @ phi)) for x in M])
        exceed, allowed = {}, 1 / (n * N)
        for C1 in (0.5, 1.0):
            bound = 2 * np.sqrt(np.log(n * N)) / n**C1
            exceed[C1] = (np.mean(mu > bound), np.mean(products / n**C1 > bound), bound)
        spread = 2 * np.sqrt(allowed / len(M))  # two standard deviations of the frequency
        for claim, C1 in ((self.claims[5], 0.5), (self.claims[6], 1.0)):
            above, unnormed, bound = exceed[C1]
            yield Finding(
                claim,
                "with probability at least 1 − 1/(nN)^{2C₂−1}",
                f"n={n}, N={N}, C₁={C1:g}, C₂=1, bound {bound:.3g}: exceeded by μ, {np.median(mu):.3g} in the median, "
                f"in {above:.2%} of {len(M)} draws, by max|MΦ| in {unnormed:.2%}, allowed {allowed:.2%}"
                + ("; the proof bounds max|MΦ| and leaves out ‖Mᵢ‖, of order n^{½−C₁}" if C1 > 0.5 else ""),
                above <= allowed + spread,
            )
        many = np.array([100, 200, 400, 800, 1600])
        slopes, ends = [], []
        for entries in (rng.standard_normal, lambda shape: rng.choice([-1.0, 1.0], shape)):
            delta = [
                np.median([sensing.restricted_isometry(entries((k, 12)) / np.sqrt(k), 2).lower for _ in range(9)])
                for k in many
            ]
            slopes.append(log_slope(many, delta))
            ends.append(delta[-1])
        wide = sensing.restricted_isometry(rng.standard_normal((1600, 12)) / np.sqrt(12), 2).lower
        yield Finding(
            self.claims[7],
            "N ≥ Cδ⁻²(s ln(n/s) + ln(1/η)), C universal, so δ_s falls like N^{−½}",
            f"n=12, s=2, N={many[0]} to {many[-1]}: log-log slopes {slopes[0]:.2f} (Gaussian) and {slopes[1]:.2f} "
            f"(Bernoulli), δ_s down to {ends[0]:.2g} and {ends[1]:.2g}, with entries of variance 1/N. The M of App. "
            f"G.1.2 has 1/n, and then δ_s tends to |N/n − 1|: {wide:.3g} at N={many[-1]}",
            all(abs(slope + 0.5) <= 0.1 for slope in slopes),
        )
        task, (N, n) = Experiment.from_dict(run.spec).task, _given(run)[0].shape
        taus = [0.0, 0.9 / N, 1 / N, 0.25, 0.5, 0.75, 1.0]
        mus = np.array(
            [np.mean([sensing.coherence(_in_basis(task, t, k).T, np.eye(n)) for k in range(5)]) for t in taus]
        )
        yield Finding(
            self.claims[8],
            "the higher τ, the less the incoherence; coherence 1 at τ = 1",
            f"N={N}, means of 5 draws: "
            + ", ".join(f"{m:.3g} (τ={t:.3g})" for t, m in zip(taus, mus, strict=True))
            + ": a step, since one row of M that is a column of Φ already makes it 1",
            bool(np.all(np.diff(mus) >= -_SLACK) and abs(mus[-1] - 1) <= _SLACK and mus[0] < 1),
        )

    def _null_spaces(self, run: Run, rng: np.random.Generator, draws: int) -> Iterator[Finding]:
        X, _, truth = _given(run)
        n, S = X.shape[1], np.flatnonzero(truth)
        off = np.setdiff1d(np.arange(n), S)
        rho = _null_space_constant(run)
        kernel = np.linalg.svd(X)[2][len(X) :]
        u = rng.standard_normal((100 * draws, n)) * rng.uniform(0, 1, n) ** 4
        v = u + rng.standard_normal((len(u), len(kernel))) @ kernel
        shares = np.abs(v - u).sum(axis=1) / sensing.recovery_bound(rho, 0.0, _excess(u, v, off), 0.0)
        tight = []
        for _ in range(draws):  # a kernel that is one line: its vector w needs ρ
            w = rng.standard_normal(9) * np.array([1.0, *8 * [3.0]])
            constant = sensing.null_space_constant(np.linalg.svd(w[None, :])[2][1:], support=[0]).lower
            if constant < 0.99:
                bound = sensing.recovery_bound(constant, 0.0, np.abs(w[1:]).sum() - abs(w[0]), 0.0)
                tight.append(np.abs(w).sum() / bound)
        yield Finding(
            self.claims[9],
            "‖v − u‖₁ ≤ (1 + ρ)/(1 − ρ)·(‖v‖₁ − ‖u‖₁ + 2‖u_{S̄}‖₁) whenever Au = Av, if and only if",
            f"X of the run, ρ_S={rho:.3f}: at most {shares.max():.3f} of the bound on {len(u)} pairs. Only if: "
            f"u = −w_S and v = w_{{S̄}} attain it, {min(tight):.6f} to {max(tight):.6f} of it on {len(tight)} kernels",
            bool(np.all(shares >= 0) and shares.max() <= 1 and np.ptp([*tight, 1.0]) <= 1e-5),
        )
        A, dense = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]), np.array([1.0, 1.0, 0.0])
        found, constant = theory.min_l1(A, A @ dense), sensing.null_space_constant(A, 1).lower
        defects = [float(np.sort(np.abs(a))[:-1].sum()) for a in (found, dense)]
        bounds = [float(sensing.recovery_bound(constant, 0.0, 2 * defect, 0.0)) for defect in defects]
        error = float(np.abs(found - dense).sum())
        yield Finding(
            self.claims[10],
            "‖a − a*‖₁ ≤ 2(1 + ρ)/(1 − ρ)·σ_s(a), since ‖a*‖₁ ≤ ‖a‖₁",
            f"ker A = span(1, 1, 1), ρ={constant:.3g}, a*=(1, 1, 0): a = (0, 0, −1), ‖a − a*‖₁ = {error:.3g}, σ₁(a) = "
            f"{defects[0]:.3g}. The minimiser has ‖a‖₁ ≤ ‖a*‖₁, and with σ₁(a*) the bound is {bounds[1]:.3g}",
            error <= bounds[0] + _SLACK,
        )
        larger, tau = _robust_constants(run)
        v = u + rng.standard_normal(u.shape) * rng.uniform(0, 1, (len(u), 1)) ** 8
        residual = np.linalg.norm((v - u) @ X.T, axis=1)
        robust = np.abs(v - u).sum(axis=1) / sensing.recovery_bound(larger, tau, _excess(u, v, off), residual)
        few = sensing.robust_null_space_constant(X, 0.95 * rho, S.tolist())
        yield Finding(
            self.claims[11],
            "‖v − u‖₁ ≤ (1 + ρ)/(1 − ρ)·(‖v‖₁ − ‖u‖₁ + 2‖u_{S̄}‖₁) + 2τ/(1 − ρ)·‖A(v − u)‖₂",
            f"X of the run: ρ={larger:.3f} needs τ={tau:.3g} (below ρ_S={rho:.3f} no τ is enough: {few:g} at 0.95ρ_S); "
            f"at most {robust.max():.3f} of the bound on {len(u)} pairs",
            bool(np.isfinite(tau) and few == np.inf and np.all(robust >= 0) and robust.max() <= 1 + 1e-6),
        )
        points = _support_constants(Experiment.from_dict(run.spec).task, seeds=4)
        below = [recovers for _, constant, recovers in points if constant < 1]
        above = [recovers for _, constant, recovers in points if constant >= 1]
        yield Finding(
            self.claims[12],
            "the null space property relative to S (Def. C.34)",
            f"{len(points)} draws, τ in {{0, ¼, ½, ¾, 1}}: every pattern of signs on S found on {sum(below)} of the "
            f"{len(below)} with ρ_S < 1, and on {sum(above)} of the {len(above)} with ρ_S ≥ 1",
            all(below) and not any(above) and bool(below) and bool(above),
        )

    def _training(self, runs: Mapping[str, Run]) -> Iterator[Finding]:
        told, agree = [], True
        for name, run in runs.items():
            X, y, truth = _given(run)
            rho, size = _null_space_constant(run), np.linalg.norm(truth)
            least = theory.min_l1(X, y)
            to_truth, to_least = (np.linalg.norm(run.params["weights"] - a) / size for a in (truth, least))
            told.append(f"{name}: ρ_S={rho:.3f}, ‖a − a*‖/‖a*‖ = {to_truth:.2g}, from the minimum-ℓ₁ a {to_least:.2g}")
            agree &= bool((rho < 1) == (to_truth <= 1e-3) and to_least <= 1e-3)
        yield Finding(
            self.claims[13],
            "with it, Xa = y* and ‖a‖₁ = ‖a*‖₁ are enough for a = a*",
            "; ".join(told),
            agree,
        )
        run = runs["τ=0"]
        X, y, truth = _given(run)
        alpha, beta = run.spec["dynamics"]["lr"], run.spec["penalty"]["strength"]
        rho, tau = _robust_constants(run)
        weights, time = run.curves["weights"].values, run.curves["time"].values
        shares = np.abs(weights - truth).sum(axis=1) / _bound(run, rho, tau)
        after = time >= (run.verdict.t_fit or np.inf)
        yield Finding(
            self.claims[14],
            "‖a − a*‖₁ ≤ (1 + ρ)/(1 − ρ)·(‖a‖₁ − ‖a*‖₁) + 2τ/(1 − ρ)·‖X(a − a*)‖₂",
            f"ρ={rho:.3f}, τ={tau:.3g}: at most {shares.max():.3f} of it at {len(time)} times, "
            f"{np.min(shares[after]):.2g} to {np.max(shares[after]):.2g} after t₁",
            bool(np.all(shares >= 0) and shares.max() <= 1),
        )
        step = sensing.step_conditions(X, alpha, beta, "l1")
        n, nearest = X.shape[1], theory.min_l2(X, y)
        distance = np.linalg.norm(weights - nearest, axis=1)
        reach = 2 * alpha * beta * np.sqrt(n) / (1 - step.rho_2_rows)
        # (78), with p = 2 and the ρ₂ that is below 1; a step takes the time α.
        ahead = np.log1p((1 - step.rho_2_rows) * distance[0] / (alpha * beta * np.sqrt(n)))
        late = time >= alpha * np.ceil(-ahead / np.log(step.rho_2_rows))
        yield Finding(
            self.claims[15],
            "with ρ₂ = σ_max(I − αXᵀX)",
            f"α={alpha:g} < {step.alpha_max:.3g}, β={beta:g} < {step.beta_max:.3g}, so its conditions "
            f"{'hold' if step.holds else 'do not hold'}. N < n makes ρ₂ = {step.rho_2:.3g} and the bound "
            f"infinite; with max|1 − ασ_k| over the row space, {step.rho_2_rows:.3f} (C.4), it is {reach:.2g}, and "
            f"‖a(t) − â‖₂ reaches {distance[late].max():.3g} on the way to a*, at ‖â − a*‖₂ = "
            f"{np.linalg.norm(nearest - truth):.3g}",
            bool(step.holds and step.rho_2 < 1 and np.all(distance[late] <= reach)),
        )
        residual, allowed = np.linalg.norm(weights @ X.T - y, axis=1), np.sqrt(step.sigma_max) * reach
        yield Finding(
            self.claims[16],
            "without noise; the step of the proof of Thm 3.3",
            f"from t={time[late][0]:.3g} on at most {residual[late].max():.2g}, allowed {allowed:.2g} "
            f"(ρ₂={step.rho_2_rows:.3f})",
            bool(late.any() and np.all(residual[late] <= allowed)),
        )

    def _matrices(self, rng: np.random.Generator, draws: int) -> Iterator[Finding]:
        task = tasks.MatrixCompletion(12, 8, 3, truth="orthogonal")
        coherences, turned, sums, singular, slack = [], [], [], [], []
        for _ in range(draws):
            U, V = task.draw_factors(rng)
            A = U @ V.T
            singular.append(np.linalg.svd(A, compute_uv=False)[:3])
            mu, nu = sensing.leverage_scores(A, 3)
            P, Q = (np.linalg.qr(rng.standard_normal((k, k)))[0] for k in A.shape)
            rotated = sensing.leverage_scores(P.T @ A @ Q, 3)
            turned += [
                np.max(np.abs(sensing.local_coherences(U, P) - rotated[0])),
                np.max(np.abs(sensing.local_coherences(V, Q) - rotated[1])),
            ]
            coherences.append((sensing.subspace_coherence(U), sensing.subspace_coherence(V)))
            sums += [abs(mu.sum() - 12), abs(nu.sum() - 8)]
            mu_0, mu_1 = sensing.completion_coherences(A, 3)
            slack.append(mu_1 / (mu_0 * np.sqrt(3)))
        least, most = np.min(coherences, axis=0), np.max(coherences, axis=0)
        yield Finding(
            self.claims[17],
            "1 ≤ μ(U) ≤ n/r; local coherences in other orthonormal bases are those of P₁ᵀAP₂",
            f"{draws} matrices 12x8 of rank 3 with singular values 1/√3 (to {np.ptp(singular):.1g}): μ(U) from "
            f"{least[0]:.3g} to {most[0]:.3g} of 4, μ(V) from {least[1]:.3g} to {most[1]:.3g} of 2.67; (124) to "
            f"{max(turned):.1g}; Σμᵢ = n₁ and Σνⱼ = n₂ to {max(sums):.1g}",
            bool(
                least.min() >= 1 - _SLACK
                and most[0] <= 4 + _SLACK
                and most[1] <= 8 / 3 + _SLACK
                and max(*turned, *sums) <= _SLACK
                and np.max(np.abs(np.array(singular) - 3**-0.5)) <= _SLACK
            ),
        )
        yield Finding(
            self.claims[18],
            "by the Cauchy–Schwarz inequality",
            f"the same matrices: the smallest μ₁ is {min(slack):.3f} to {max(slack):.3f} of μ₀√r",
            max(slack) <= 1 + _SLACK,
        )


def _given(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and a* of a run."""
    data = Experiment.from_dict(run.spec).draw()
    return data.inputs, data.targets, data.truth


def _in_basis(task: Task, tau: float, seed: int) -> np.ndarray:
    """X = MΦ of a draw with a share τ of measurements from the basis: M in the coordinates where Φ is I."""
    return task.replace(coherence=float(tau)).draw(np.random.default_rng(seed)).inputs


def _null_space_constant(run: Run) -> float:
    """ρ_S of the measurements and the support of a run."""
    X, _, truth = _given(run)
    return sensing.null_space_constant(X, support=np.flatnonzero(truth).tolist()).lower


def _robust_constants(run: Run) -> tuple[float, float]:
    """A pair (ρ, τ) of the robust null space property of a run: ρ midway between ρ_S and 1."""
    X, _, truth = _given(run)
    rho = (1 + _null_space_constant(run)) / 2
    return rho, sensing.robust_null_space_constant(X, rho, np.flatnonzero(truth).tolist())


def _bound(run: Run, rho: float, tau: float) -> np.ndarray:
    """Thm C.38's bound on ‖a(t) − a*‖₁ at every time of a run."""
    X, _, truth = _given(run)
    weights = run.curves["weights"].values
    excess = np.abs(weights).sum(axis=1) - np.abs(truth).sum()
    return sensing.recovery_bound(rho, tau, excess, np.linalg.norm((weights - truth) @ X.T, axis=1))


def _excess(u: np.ndarray, v: np.ndarray, off: np.ndarray) -> np.ndarray:
    """‖v‖₁ − ‖u‖₁ + 2‖u_{S̄}‖₁ of each row."""
    return np.abs(v).sum(axis=1) - np.abs(u).sum(axis=1) + 2 * np.abs(u[:, off]).sum(axis=1)


def _support_constants(task: Task, seeds: int) -> list[tuple[float, float, bool]]:
    """τ, ρ_S, and whether ℓ₁ minimisation finds every pattern of signs on S, for draws of a task.

    Where a pattern is found once it is found with any magnitudes (Foucart & Rauhut 2013, Thm 4.30), but ρ_S = 1 apart.
    """
    points = []
    for tau, seed in itertools.product((0.0, 0.25, 0.5, 0.75, 1.0), range(seeds)):
        data = task.replace(coherence=tau).draw(np.random.default_rng(seed))
        X, S = data.inputs, np.flatnonzero(data.truth)
        missed = 0.0
        for signs in itertools.product((1.0, -1.0), repeat=len(S) - 1):
            a = np.zeros(X.shape[1])
            a[S] = (1.0, *signs)
            missed = max(missed, float(np.max(np.abs(theory.min_l1(X, X @ a) - a))))
        points.append((tau, sensing.null_space_constant(X, support=S.tolist()).lower, missed <= 1e-6))
    return points


def _subsets(n: int, s: int) -> list[list[int]]:
    return [list(J) for J in itertools.combinations(range(n), s)]
