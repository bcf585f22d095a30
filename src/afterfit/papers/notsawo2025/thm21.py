"""Thm 2.1 and App. C.1: first the loss, of order 1/α, then the penalty, of order 1/(αβ)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, correction, once
from afterfit.papers._measure import mean_of, power_law, share
from afterfit.papers.notsawo2025 import PAPER, phases
from afterfit.papers.notsawo2025.phases import ETAS, GOALS, Ball, Draw, Path, fit_times, gapless_times
from afterfit.papers.notsawo2025.recovery import descent

if TYPE_CHECKING:
    from matplotlib.figure import Figure


__all__ = ["Thm21"]


class _At(NamedTuple):
    α: float
    β: float
    seed: int


class Thm21(Entry):
    paper, name = PAPER, "thm2.1"
    title = "First the loss, of order 1/α, then the penalty, of order 1/(αβ)"
    where = "Thm 2.1, §2.2; Thms C.10 to C.16"
    about = (
        "Subgradient descent on f = g + βh, here sparse recovery with g(a) = ½‖Xa − y‖² and h = ‖a‖₁, with steps α "
        "small enough for the theorem, on several draws of X and a*. If 4g(x₀) < r²χ, χ the infimum of ‖∇g‖²/g over "
        "the ball B(x₀, r), g falls below ε_g in t₁ = log(1/ε_g)/Θ(α) steps within that ball; after Δt = "
        "dist²(x(t₁), Θ_f)/(αβη) more, f is within ½(η + C'αβ)β of its minimum. χ is known here: twice the least "
        "non-zero singular value of X, squared. The minimiser of f is found by a convex solver. t₁ of the second "
        "phase is taken where β‖H‖ first exceeds ‖G‖; the runs are observed at some steps only, so that the least f "
        "seen is no smaller, and C' no larger, than the true one. η is given in units of η₁ = ‖â‖₁ − h_g*, â the "
        "least-squares solution, which makes draws of different size alike: (a*, β, η) → (ca*, cβ, cη) is a symmetry. "
        "The theorem needs f convex."
    )
    notes = (
        "(9) guarantees ε_g down to Dβ^C only, and C is about 0.1: at β = 1e-10 that is a good part of g(x₀), and what "
        "is reached there is beyond the guarantee. Runs with β = 1e-30 are within it for the larger ε_g. "
        "The remainder (38) in the proof of Lemma C.19 is printed without βH in the step; what is used of the lemma, "
        "R_j ≤ εα‖∇g‖², stands all the same."
    )

    def runs(self, scale: str) -> dict[str, dict[_At, af.Experiment]]:
        if scale == "paper":
            task, seeds = af.tasks.SparseRecovery(n=100, sparsity=5, N=30, scale=1.0), range(1, 6)
            alpha, fitted, slow = 4e-3, 600.0, 3200.0
        else:
            task, seeds = af.tasks.SparseRecovery(n=20, sparsity=2, N=9, scale=1.0), range(30, 36)
            alpha, fitted, slow = 6e-3, 400.0, 2600.0
        fits, free, second = {}, {}, {}
        for seed in seeds:
            # The first phase needs β small against every ε_g, the second need not wait for the smallest β.
            for at in [_At(alpha / k, 1e-10, seed) for k in (1, 2, 4)]:
                fits[at] = descent(task, at.α, at.β, steps=fitted / at.α, seed=seed)
            at = _At(alpha, 1e-30, seed)
            free[at] = descent(task, at.α, at.β, steps=fitted / at.α, seed=seed)
            beta = float(f"{phases.largest_penalty(task, seed) / 20:.3g}")
            for k, j in ((1, 1), (1, 2), (1, 4), (2, 1)):
                at = _At(alpha / k, beta / j, seed)
                second[at] = descent(task, at.α, at.β, steps=slow * k * j / alpha, seed=seed)
        return {"fits": fits, "slow": second, "nearly_free": free}

    def picture(
        self, first_phase: list[Path], second_phase: list[Path], along_beta: list[Path], draws: dict[int, Draw]
    ) -> Figure:
        figure = af.plot.Figure(figsize=(13.5, 4.8), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        seed = first_phase[0].seed
        fits, slow, steady = (_of_draw(paths, seed) for paths in (first_phase, second_phase, along_beta))
        phases.draw_fits(left, fits, draws[seed].limits)
        phases.draw_excess(middle, steady)
        phases.draw_steps(right, slow, steady)
        af.plot.mark_phases(left, fits[0].run.verdict)
        af.plot.legend_below(left, middle)
        af.plot.legend_below(
            right, ncols=3, title=r"markers: seen; lines: $\Delta t(\eta,t_1)$; $\eta_1=\Vert\hat a\Vert_1-h_g^*$"
        )
        return figure

    @once
    def first_phase(self, fits: dict[_At, af.Run]) -> list[Path]:
        """The runs of the first phase."""
        return [Path.of(run) for run in fits.values()]

    @once
    def guaranteed_phase(self, nearly_free: dict[_At, af.Run]) -> list[Path]:
        """The runs with a β so small that (9) guarantees some ε_g."""
        return [Path.of(run) for run in nearly_free.values()]

    @once
    def second_phase(self, slow: dict[_At, af.Run]) -> list[Path]:
        """The runs of the second phase."""
        return [Path.of(run) for run in slow.values()]

    @once
    def along_beta(self, second_phase: list[Path]) -> list[Path]:
        """Those of the second phase that have the largest α."""
        return [path for path in second_phase if path.alpha == second_phase[0].alpha]

    @once
    def along_alpha(self, second_phase: list[Path]) -> list[Path]:
        """Those of the second phase that have the largest β of their draw."""
        largest = {path.seed: path.beta for path in reversed(second_phase) if path.alpha == second_phase[0].alpha}
        return [path for path in second_phase if path.beta == largest[path.seed]]

    @once
    def draws(self, first_phase: list[Path]) -> dict[int, Draw]:
        """The theorem's constants of every draw."""
        return {path.seed: Draw.of(path.run) for path in first_phase if path.alpha == first_phase[0].alpha}

    @once
    def balls(self, first_phase: list[Path], draws: dict[int, Draw]) -> list[Ball]:
        """Of every draw the ball that is hardly larger than r-CL needs: 4g = r²χ for an r one hundredth smaller."""
        return [
            Ball.of(path, draw, 1.01 * float(np.sqrt(4 * draw.loss / draw.chi)), starts=2)
            for path, draw in zip(_with_largest_alpha(first_phase), draws.values(), strict=True)
        ]

    @once
    def taken(self, second_phase: list[Path]) -> dict[float, list[float]]:
        """After which share of Δt(η, t₁) f − f* ≤ ½(η + C'αβ)β, for every η and run."""
        return {eta: [path.needed(eta) / path.proved(eta) for path in second_phase] for eta in ETAS}

    # ------------------------------------------------------------------ the first phase

    @claim(
        "g is r-CL at x₀, with the χ of X, and x stays in that ball",
        says="4g(x₀) < r²χ(g, x₀, r) for some r > 0, and then x stays in B(x₀, r)",
        changed="Before, r was computed from χ so that 4g/(r²χ) was ¼ on every draw, which could not fail, and χ was "
        "compared with descent on one draw alone.",
    )
    def loss_is_cl(self, balls: list[Ball]) -> Finding:
        return _is_cl(balls)

    @control(loss_is_cl, "a ball without a solution, r = 0.9‖â − x₀‖")
    def is_not_cl_without_a_solution(self, first_phase: list[Path], draws: dict[int, Draw]) -> Finding:
        # g does not come to 0 in it: if it were r-CL, the theorem would be wrong.
        paths = zip(_with_largest_alpha(first_phase), draws.values(), strict=True)
        return _is_cl([Ball.of(path, draw, 0.9 * path.fitted_distance, starts=1) for path, draw in paths])

    @control(loss_is_cl, "χ of the second least singular value")
    def next_singular_value(self, balls: list[Ball], draws: dict[int, Draw]) -> Finding:
        return _is_cl(
            [ball._replace(chi=2 * draw.squares[1]) for ball, draw in zip(balls, draws.values(), strict=True)]
        )

    @control(loss_is_cl, "more measurements than unknowns, with noise, in a ball of any size")
    def contradicting_data(self, fits: dict[_At, af.Run]) -> Finding:
        import jax

        run = next(iter(fits.values()))
        noisy = run.experiment.set({"task.N": 2 * run.spec["task"]["n"], "task.snr": 10.0})
        start, chi = af.theory.posed(noisy), 2 * np.linalg.svd(noisy.draw().inputs, compute_uv=False)[-1] ** 2
        with jax.enable_x64(True):
            everywhere = af.theory.chatterjee_lojasiewicz(start.problem, start.initial, 1e6)
        return _is_cl([Ball(1e6, everywhere.loss, chi, everywhere.least, 0.0)])

    @claim(
        "g ≤ ε_g after log(ε_g/g(x₀))/log(1 − δ) steps, and until then x stays in B(x₀, r)",
        says="for α < α_max, β < β_max and any ε_g = Ω(β^C); (8), (9)",
    )
    def fits_in_time(
        self, first_phase: list[Path], guaranteed_phase: list[Path], second_phase: list[Path], draws: dict[int, Draw]
    ) -> Finding:
        return _fits(
            {seed: draw.limits.chi for seed, draw in draws.items()},
            draws,
            first_phase,
            guaranteed_phase,
            max(path.beta for path in second_phase),
        )

    @control(fits_in_time, "δ with the mean of the non-zero singular values for the least")
    def at_the_mean_rate(
        self, first_phase: list[Path], guaranteed_phase: list[Path], second_phase: list[Path], draws: dict[int, Draw]
    ) -> Finding:
        rates = {seed: 2 * float(np.mean(np.sqrt(draw.squares))) ** 2 for seed, draw in draws.items()}
        return _fits(rates, draws, first_phase, guaranteed_phase, max(path.beta for path in second_phase))

    @claim(
        "t₁ is of order log(1/ε_g)/α",
        says="t₁ = −log(ε_g/g(x₀))/Θ(α)",
        changed="That a + b·log(1/ε_g) be nearer to t₁ than a power of ε_g over all ε_g was so on 5 of 6 draws, since "
        "it is a law of small ε_g. It is the rate in the last decade that is asked now, on new draws.",
    )
    def first_phase_lasts(self, first_phase: list[Path], draws: dict[int, Draw]) -> Finding:
        return _lasts(
            [path.alpha for path in _of_draw(first_phase, first_phase[0].seed)],
            [fit_times(_of_draw(first_phase, seed)) for seed in draws],
            [draw.limits.chi for draw in draws.values()],
        )

    @control(first_phase_lasts, "gradient descent on an X without a least singular value: σ² over fourteen decades")
    def without_a_gap(self, first_phase: list[Path], draws: dict[int, Draw]) -> Finding:
        alphas = [path.alpha for path in _of_draw(first_phase, first_phase[0].seed)]
        tables = [gapless_times(alphas, draw.limits.L) for draw in draws.values()]
        return _lasts(alphas, tables, [draw.limits.chi for draw in draws.values()])

    @claim(
        "∇²g has no eigenvalue above √p·max|∂²g| (proof of Thm C.16)",
        says="λ_max(∇²g) ≤ √p·max|∂²g| ≤ √p·L₂, so that g is L-smooth with L = √p·L₂",
    )
    def smoothness(self, first_phase: list[Path]) -> Finding:
        p = first_phase[0].p
        largest, allowed = np.linalg.eigvalsh(np.ones((p, p)))[-1], np.sqrt(p)
        return Finding(
            f"for g = ½(a₁ + … + a_p)², p = {p}, λ_max = {largest:.3g} and √p·max|∂²g| = {allowed:.3g}",
            largest <= allowed * (1 + 1e-9),
        )

    @correction(
        smoothness,
        "λ_max(∇²g) ≤ p·max|∂²g|, so that L = p·L₂ in (7) and in Thms C.14 to C.16",
        why="A p x p matrix with entries of at most 1 has norm at most p, which the matrix of ones attains; √p bounds "
        "the norm of a row. (7) has 2(ε − γ)/(pL₂) already, which is at most 1/((1 + γ)pL₂) where 2(ε − γ)(1 + γ) ≤ 1.",
        touches="No where 2(ε − γ)(1 + γ) ≤ 1: α_max is the same. Beyond that, α_max has to be lowered to "
        "1/((1 + γ)pL₂).",
        where="proof of Thm C.16; Thms C.14 and C.15",
    )
    def smoothness_with_p(self, draws: dict[int, Draw], first_phase: list[Path]) -> Finding:
        p, rng = first_phase[0].p, np.random.default_rng(0)
        entries = rng.uniform(-1, 1, (200, p, p))
        signed = np.sign(entries + entries.transpose(0, 2, 1))
        shares = [*np.abs(np.linalg.eigvalsh(signed)).max(axis=1) / p, np.linalg.eigvalsh(np.ones((p, p)))[-1] / p]
        shares += [draw.limits.L / (p * draw.limits.L2) for draw in draws.values()]
        epsilon = rng.uniform(0, 1, 10_000)
        gamma = epsilon * rng.uniform(0, 1, 10_000)
        unchanged = 2 * (epsilon - gamma) <= 1 / (1 + gamma)  # the second term of (7) is the smaller one
        as_said = unchanged == (2 * (epsilon - gamma) * (1 + gamma) <= 1)
        ours = max(2 * (d.limits.epsilon - d.limits.gamma) * (1 + d.limits.gamma) for d in draws.values())
        return Finding(
            f"λ_max/(p·max|∂²g|) is at most {max(shares):.6f} on 200 matrices of random signs, the matrix of ones and "
            f"∇²g of {len(draws)} draws; 2(ε − γ)(1 + γ) is at most {ours:.2f} here, and at most 1 for "
            f"{np.mean(unchanged):.0%} of random γ < ε < 1",
            bool(max(shares) <= 1 + 1e-9 and np.all(as_said) and not np.all(unchanged) and ours <= 1),
        )

    @claim(
        "β‖H‖₂ ≤ γ‖G‖₂ for as many steps as Thm C.14 says, L_h bounding ‖H‖_∞",
        says="L_h := sup ‖H‖_∞; if γ‖G(x₀)‖₂ ≥ βL_h/τᵏ, then β·sup‖H‖₂ ≤ γ‖G(x_j)‖₂ for all j ≤ k, (24)",
    )
    def penalty_stays_behind(self, first_phase: list[Path], draws: dict[int, Draw]) -> Finding:
        return _stays_behind(first_phase, draws, norm_of_H=1.0)

    @correction(
        penalty_stays_behind,
        "L_h := sup ‖H‖₂, which for ‖·‖₁ is √p",
        why="The proof goes from βL_h ≤ γ‖G‖₂ to β‖H‖₂ ≤ γ‖G‖₂, which needs L_h ≥ ‖H‖₂; with the ∞-norm ‖H‖₂ can be "
        "√p·L_h. At β = β_max, β‖H‖₂ = γ‖G(x₀)‖₂ already, and the next step breaks (24), while k > 0 is allowed.",
        touches="No: D in (9) grows by the factor p^{C/2}, and so does the least ε_g that is guaranteed; C stays.",
        where="Thm C.14, (24)",
    )
    def penalty_stays_behind_in_its_norm(self, first_phase: list[Path], draws: dict[int, Draw]) -> Finding:
        return _stays_behind(first_phase, draws, norm_of_H=np.sqrt(first_phase[0].p))

    # ------------------------------------------------------------------ the second phase

    @claim("one C' for all α and β: ‖F‖² ≤ C'β² from t₁ on", says="‖F‖² = O(β²) once βH leads")
    def one_constant(self, second_phase: list[Path]) -> Finding:
        return _one_constant([path.constant for path in second_phase], second_phase[0].p)

    @control(one_constant, "from the first step with g ≤ g(x₀)/100 on, before βH leads, which Thm 2.1 allows as t₁")
    def no_constant_before(self, second_phase: list[Path]) -> Finding:
        early = [path.size_from(path.first(1e-2 * path.g[0])) for path in second_phase]
        return _one_constant(early, second_phase[0].p)

    @claim(
        "f − f* ≤ ½(η + C'αβ)β only if t₂ > t₁ + Δt(η, t₁)",
        says="min over t₁ ≤ t ≤ t₂ of f − f* ≤ ½(η + C'αβ)β 'if and only if t₂ > t₁ + Δt(η, t₁)'; also (11), (21)",
    )
    def minimises_not_before(self, taken: dict[float, list[float]]) -> Finding:
        shares = [share for of_eta in taken.values() for share in of_eta]
        return Finding(
            f"it is so long before: after the share {min(shares):.2f} to {max(shares):.2f} of Δt",
            min(shares) >= 0.99,
        )

    @correction(
        minimises_not_before,
        "f − f* ≤ ½(η + C'αβ)β if t₂ ≥ t₁ + Δt(η, t₁)",
        why="Lemma C.12 bounds the least f − f* from above by R²/(2α(t₂ − t₁)) + ½C'αβ². (21) solves 'bound ≤ goal' "
        "for t₂: Δt is necessary for the bound, and only sufficient for the run.",
        touches="Yes: Δt is an upper bound of the second phase and no lower one, so that no delay is proved. The same "
        "'if and only if' is in Thms 3.1, 3.3 to 3.5, C.10, C.13, C.29, C.39, C.40 and C.50.",
        where="Thm 2.1, (11), (21)",
    )
    def minimises_in_time(self, second_phase: list[Path], taken: dict[float, list[float]]) -> Finding:
        said = "; ".join(f"{min(shares):.2f} to {max(shares):.2f} (η={eta:g}η₁)" for eta, shares in taken.items())
        # The time of another run, with the largest αβ of the same draw, is not enough: Δt has to know αβ.
        shortest = {path.seed: path for path in reversed(second_phase)}  # the first of each draw has the largest αβ
        other = max(path.needed(eta) / shortest[path.seed].proved(eta) for eta in ETAS for path in second_phase)
        in_time = [max(taken[eta][k] for eta in ETAS) <= 1 for k in range(len(second_phase))]
        draws = {path.seed for path in second_phase}
        good = sum(all(ok for ok, path in zip(in_time, second_phase, strict=True) if path.seed == s) for s in draws)
        return Finding(
            f"on {good} of {len(draws)} draws (share {share(good, len(draws))}), each with 4 pairs α, β, from a share "
            f"of Δt after t₁ on: {said}. (With the Δt of the largest αβ for all pairs it would be up to {other:.2f})",
            good == len(draws) and other > 1,
        )

    @claim(
        "the second phase lasts of order 1/(αβ) steps",
        says="Θ(1/(αβ)) additional steps",
        changed="The exponent of β was −1.05 to −1.1 for β near β_max/14, since the law is one of small β. It is "
        "extrapolated to β → 0 now, on new draws.",
    )
    def second_phase_lasts(self, along_alpha: list[Path], along_beta: list[Path]) -> Finding:
        return _goes_like(along_alpha, along_beta, [functools.partial(Path.needed, share=eta) for eta in ETAS])

    @control(second_phase_lasts, "the first phase, until g ≤ g(x₀)/100")
    def first_phase_goes_otherwise(self, along_alpha: list[Path], along_beta: list[Path]) -> Finding:
        return _goes_like(along_alpha, along_beta, [lambda path: path.first(1e-2 * path.g[0])])

    @claim(
        "Θ_f ∩ Θ_g ≠ ∅ (Assumption C.5)",
        says="assumed for the part about h; in App. C.4 'Θ_f = {a*}' and 'Θ_f ∩ Θ_g ≠ ∅, i.e. ξ = 0'",
    )
    def minimisers_meet(self, along_beta: list[Path]) -> Finding:
        left = [path.best_loss / path.beta**2 for path in along_beta]
        apart = [np.linalg.norm(path.best - path.run.data.truth) / path.beta for path in along_beta]
        return Finding(
            f"without noise, at the minimiser of f, g/β² is {min(left):.3g} to {max(left):.3g} for {len(along_beta)} "
            f"pairs of draw and β, and not 0; it is {min(apart):.3g}β to {max(apart):.3g}β away from a*",
            min(left) <= 1e-6,
        )

    @correction(
        minimisers_meet,
        "Θ_f ∩ Θ_g = ∅ for every norm h where y ≠ 0, with or without noise; β(h − h_g*) ≤ f − f* holds without it",
        why="On Θ_g ∇g = 0, so that a point of both sets has 0 ∈ ∂h: for a norm it is 0, which fits y = 0 only. But "
        "f* ≤ f = βh_g* at the point of Θ_g with least h, and g ≥ 0, which is all that (15) and (20) use.",
        touches="No: Lemma C.6 is needed as an inequality only, and '≤' in (12) stands.",
        where="Assumption C.5, App. C.4",
    )
    def penalty_is_below_the_objective(self, second_phase: list[Path]) -> Finding:
        left = min(path.best_loss / path.beta**2 for path in second_phase)
        # What the solvers of f* and h_g* leave, some 1e-8 of h.
        over = max(float(np.max((path.above_least - path.excess) / path.least_norm)) for path in second_phase)
        return Finding(
            f"g/β² is at least {left:.2g} at the minimisers of f; h − h_g* exceeds (f − f*)/β by at most "
            f"{over:.1g}·h_g* at all steps of {len(second_phase)} runs",
            left > 1e-2 and over <= 1e-6,
        )

    @claim(
        "h − h_g* = ½(η + C'αβ) after Δt(η, t₁)",
        says="min over t₁ ≤ t ≤ t₂ of h − h_g* = 0.5(η + C'αβ) if and only if t₂ > t₁ + Δt(η, t₁); '≤' in (12)",
    )
    def penalty_is_equal(self, second_phase: list[Path]) -> Finding:
        shares = [path.least_penalty(eta) / path.allowed(eta) for path in second_phase for eta in ETAS]
        return Finding(
            f"it is {min(shares):.2g} to {max(shares):.2g} of ½(η + C'αβ) at t₁ + Δt",
            max(abs(share - 1) for share in shares) <= 0.1,
        )

    @correction(
        penalty_is_equal,
        "h − h_g* ≤ ½(η + C'αβ) if t₂ ≥ t₁ + Δt(η, t₁), as in (12)",
        why="(22) bounds the least h − h_g* from above; nothing bounds it from below. It even becomes negative, since "
        "the minimiser of f has a smaller norm than any point that fits.",
        touches="No: what follows from it is drawn from '≤'.",
        where="Thm 2.1, the part about h",
    )
    def penalty_is_least(self, second_phase: list[Path]) -> Finding:
        shares = [path.least_penalty(eta) / path.allowed(eta) for path in second_phase for eta in ETAS]
        at_first = [float(path.above_least[path.start]) / path.allowed(eta) for path in second_phase for eta in ETAS]
        return Finding(
            f"at most {max(shares):.2g} of the bound at t₁ + Δt on {len(second_phase)} runs; {min(at_first):.2g} to "
            f"{max(at_first):.2g} of it at t₁",
            max(shares) <= 1 < min(at_first),
        )


def _of_draw(paths: list[Path], seed: int) -> list[Path]:
    return [path for path in paths if path.seed == seed]


def _with_largest_alpha(paths: list[Path]) -> list[Path]:
    return [path for path in paths if path.alpha == paths[0].alpha]


def _is_cl(balls: list[Ball]) -> Finding:
    """Whether of each ball 4g < r²χ, with the χ that descent finds, that is the χ which is expected, and x stays in it.

    Descent gives an upper bound of an infimum that it comes near to: 2 % above, and no more than rounding below.
    """
    shares = [ball.loss / ball.found * 4 / ball.radius**2 if ball.found > 0 else np.inf for ball in balls]
    beside = [ball.found / ball.chi for ball in balls]
    way = [ball.way / ball.radius for ball in balls]
    each = zip(shares, beside, way, strict=True)
    good = sum(of < 1 and 1 - 1e-6 <= found <= 1.02 and far <= 1 for of, found, far in each)
    return Finding(
        f"the least ‖∇g‖²/g that descent finds is {min(beside):.4f} to {max(beside):.4f} of χ, 4g/(r²χ) with it "
        f"{min(shares):.3g} to {max(shares):.3g}, and x goes {min(way):.2f}·r to {max(way):.2f}·r away; so on {good} "
        f"of {len(balls)} draws (share {share(good, len(balls))})",
        good == len(balls),
    )


def _fits(
    rates: dict[int, float], draws: dict[int, Draw], paths: list[Path], guaranteed: list[Path], largest_beta: float
) -> Finding:
    """Whether g ≤ ε_g in log(ε_g/g(x₀))/log(1 − δ) steps, δ = (1 − ε)χα with such χ, within the ball, on every draw."""

    def shares(path: Path, least: float) -> list[float]:
        limits = draws[path.seed].limits
        return [phases.share_of_fit(path, limits, rates[path.seed], goal) for goal in GOALS if goal >= least]

    beyond = [max(shares(path, 0.0)) for path in paths]
    sure = [shares(path, draws[path.seed].guaranteed(path.alpha, path.beta)) for path in guaranteed]
    within = [share for of_path in sure for share in of_path]
    way = max(path.way(GOALS[-1] * path.g[0]) / draws[path.seed].radius for path in (*paths, *guaranteed))
    small = [
        max(path.alpha for path in paths) < draw.limits.alpha_max and largest_beta < draw.limits.beta_max
        for draw in draws.values()
    ]
    zeta = [draws[path.seed].guaranteed(path.alpha, path.beta) for path in paths]
    in_time = {path.seed for path in paths} - {p.seed for p, worst in zip(paths, beyond, strict=True) if worst > 1}
    return Finding(
        f"α < α_max and β < β_max on {sum(small)} of {len(small)} draws. Guaranteed ε_g (β={guaranteed[0].beta:g}, "
        f"{len(within)} pairs of draw and ε_g): {min(within):.2f} to {max(within):.2f} of that number. Beyond, for "
        f"ε_g/g(x₀) = 0.1 to {GOALS[-1]:.0g} at β={paths[0].beta:g}, where (9) guarantees {min(zeta):.2g} and more: at "
        f"most {max(beyond):.2f} of it; so on {len(in_time)} of {len(draws)} draws (share "
        f"{share(len(in_time), len(draws))}). x goes at most {way:.2f}·r away",
        all(small) and max(within) <= 1 and max(beyond) <= 1 and way <= 1,
    )


def _lasts(alphas: list[float], tables: list[np.ndarray], chis: list[float]) -> Finding:
    """Whether the steps until g ≤ ε_g, one table a draw, go like 1/α, and in the end by 1/(χα) a factor e in ε_g.

    log(1 − αχ) = −αχ(1 + αχ/2 + …), and αχ is below 0.01: the exponent is −1 to within 0.01. In the last decade of
    twelve the slowest mode is left, so that its rate is χα to within 10 %; along a power of ε_g it would go on growing.
    """
    slopes = [power_law(alphas, times).value for table in tables for times in table.T]
    growth = [
        chi * alphas[0] * float(table[0, -1] - table[0, -2]) / np.log(10)
        for chi, table in zip(chis, tables, strict=True)
    ]
    good = sum(abs(last - 1) <= 0.1 for last in growth)
    return Finding(
        f"t₁ goes like α^p with p from {min(slopes):.4f} to {max(slopes):.4f} ({len(slopes)} pairs of draw and ε_g), "
        f"and in the end by {min(growth):.3g} to {max(growth):.3g} times 1/(χα) for each factor e in ε_g, 1 on {good} "
        f"of {len(tables)} draws (share {share(good, len(tables))})",
        all(abs(slope + 1) <= 0.01 for slope in slopes) and good == len(tables),
    )


def _stays_behind(paths: list[Path], draws: dict[int, Draw], norm_of_H: float) -> Finding:
    """Whether β‖H‖₂ ≤ γ‖G‖₂ up to the last k with γ‖G(x₀)‖ ≥ βL_h/τᵏ, on every draw, for β from β_max down."""
    kept, counts = [], []
    for path in {path.seed: path for path in paths}.values():
        limits, X, y = draws[path.seed].limits, path.run.data.inputs, path.run.data.targets
        alpha, slope = 0.9 * limits.alpha_max, np.linalg.norm(X.T @ (X @ path.weights[0] - y))
        for part in (1.0, 0.5, 0.1):
            beta = part * limits.beta_max
            longest = np.log(beta * norm_of_H / (limits.gamma * slope)) / np.log1p(
                -(1 + limits.gamma) * alpha * limits.L
            )
            a, behind = path.weights[0], []
            for _ in range(int(longest + 1e-9) + 1):
                G, H = X.T @ (X @ a - y), np.sign(a)
                behind.append(beta * np.linalg.norm(H) <= limits.gamma * np.linalg.norm(G) * (1 + 1e-9))
                a = a - alpha * (G + beta * H)
            kept.append(all(behind))
            counts.append(len(behind) - 1)
    return Finding(
        f"L_h = {norm_of_H:.3g}: for all k = {min(counts)} to {max(counts)} steps in {sum(kept)} of {len(kept)} "
        "pairs of draw and β/β_max in {1, ½, 0.1}",
        all(kept),
    )


def _one_constant(constants: list[float], p: int) -> Finding:
    """Whether ‖F‖²/β² ≤ 4p: once β‖H‖ leads, ‖F‖ ≤ ‖G‖ + β‖H‖ ≤ 2β‖H‖, and ‖H‖² ≤ p."""
    return Finding(
        f"‖F‖²/β² is at most {min(constants):.3g} to {max(constants):.3g} on {len(constants)} runs, 4p = {4 * p}",
        max(constants) <= 4 * p,
    )


def _goes_like(along_alpha: list[Path], along_beta: list[Path], times: list[Callable[[Path], float]]) -> Finding:
    """Whether steps go like 1/(αβ): the intervals of both exponents, over draws, within 0.05 of −1.

    The law is that of small β, and its correction is of order β: of the exponents between β_max/20, /40 and /80 that
    for β → 0 is extrapolated on a line. An exponent of −½ or −2, or that of the first phase, is far outside.
    """
    seeds = sorted({path.seed for path in along_beta})
    in_alpha, in_beta = [], []
    for time in times:
        local = [
            _exponents([p.beta for p in _of_draw(along_beta, s)], [time(p) for p in _of_draw(along_beta, s)])
            for s in seeds
        ]
        in_beta.append(mean_of([2 * smaller - larger for larger, smaller in local]))
        in_alpha.append(
            mean_of(
                [
                    _exponents(
                        [p.alpha for p in _of_draw(along_alpha, s)], [time(p) for p in _of_draw(along_alpha, s)]
                    )[0]
                    for s in seeds
                ]
            )
        )
    return Finding(
        f"exponent of α {', '.join(map(str, in_alpha))}; of β {', '.join(map(str, in_beta))}; {len(seeds)} draws",
        all(interval.low >= -1.05 and interval.high <= -0.95 for interval in (*in_alpha, *in_beta)),
    )


def _exponents(x: list[float], y: list[float]) -> np.ndarray:
    """The slopes of log y over log x from each point to the next."""
    return np.diff(np.log(y)) / np.diff(np.log(x))
