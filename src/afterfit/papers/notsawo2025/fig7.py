"""Figs 7 and 16: grokking without understanding, by a large start and weight decay alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control
from afterfit.papers._measure import at, power_law, relative_distance, share
from afterfit.papers.notsawo2025 import PAPER
from afterfit.papers.notsawo2025.recovery import GOAL, measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Fig7"]

# Captions of Figs 7 and 16, App. E, cells 29–37 of the notebook; the same at both scales.
_TASK = {"n": 100, "sparsity": 5, "N": 30, "snr": 1e8}
_ALPHA, _BETA, _STEPS = 0.1, 1e-5, 10**8
_ONES = 10.0  # the notebook starts from 10·(1, …, 1), of norm 100
_CAPTION = 10.0  # ζ of App. E, a₁ ~ ζ·N(0, 1/n): the norm 10 of the caption
_ALMOST_ZERO = 1e-6  # where the other figures start
_FEW = 5  # measurements, as many as a* has non-zeros: others with as many have the same measurements
_UNSEEN = 0.01  # of a linear axis, which cannot be told from 0
_CLOSE = 0.01  # relative differences up to which two curves are one in the picture
_NAME = "grokking without understanding"


class Fig7(Entry):
    paper, name = PAPER, "fig7"
    title = "Weight decay from a large start: grokking without understanding"
    where = "Figs 7 and 16, §3.3, App. E, Thm 3.6"
    about = (
        "The sparse recovery of Fig. 3 with weight decay in place of the ℓ₁ penalty, ½‖Xa − y‖² + (β/2)‖a‖², β = 10⁻⁵, "
        "from a large start, for 10⁸ steps of size 10⁻¹. The data are fitted at once; the part of the start that "
        "measurements do not see decays like e^{−βt}, and with it the recovery error, from 500 to 0.81. There it "
        "stays: the end is the ridge solution â, and not a*. The problem is linear, so that the flow has a closed "
        "form, which is what is shown; descent makes the same way on one draw. The notebook starts from 10·(1, …, 1), "
        "of norm 100, and the caption has the norm 10, App. E ζ·N(0, 1/n) with ζ = 10: both are run. Measurements "
        "have variance 1/N and there is noise at SNR = 10⁸, as in the notebook."
    )
    notes = (
        "(1) What counts as generalised is a relative error of 10⁻³, as in Fig. 3. Seen on a linear axis from 0 to "
        "where it begins, a hundredth of the axis cannot be told from 0: by that measure the run groks. (2) The last "
        "sentence of Thm 3.6 should have the row space of X for its column space, which is in another ℝᴺ; the proof "
        "(C.8) has Col(V), as it should be. (3) The left panel of Fig. 16 shows ‖a‖₁ beside ‖a*‖₂ in the notebook. "
        "(4) App. E says that ζ ≤ 10⁻⁵ is what is studied; Fig. 16 has ζ = 10."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment | dict[int, af.Experiment] | dict[float, af.Experiment]]:
        paper = scale == "paper"
        seeds, few = (range(2, 22), range(2, 22)) if paper else (range(2, 6), range(2, 5))
        run = af.Experiment(
            task=measured(**_TASK),
            model=af.models.Linear(),
            penalty=af.penalties.L2(_BETA),
            dynamics=af.dynamics.GradientFlow(until=_ALPHA * _STEPS, first=_ALPHA, method="exact"),
            init=af.inits.Constant(_ONES),
            observations=321 if paper else 81,  # forty a decade, or ten
            seed=1,
        )
        too_few = run.set({"task.N": _FEW, "task.variance": 1 / _FEW})
        gaussian = {"kind": "ScaledGaussian", "scale": _CAPTION}
        # At quick scale β is a hundred times as large, with which a hundredth of the steps goes as far.
        beta, steps = (_BETA, _STEPS) if paper else (100 * _BETA, 10**5)
        followed = run.set(
            {"penalty.strength": beta, "dynamics.until": _ALPHA * steps, "observations": 200 if paper else 81}
        )
        descent = {"kind": "GradientDescent", "lr": _ALPHA, "steps": steps}
        l1 = {"kind": "L1", "strength": _BETA}
        return {
            "run": run,
            "draws": {seed: run.set({"seed": seed}) for seed in seeds},
            "caption": {seed: run.set({"init": gaussian, "seed": seed}) for seed in few},
            "few": {seed: too_few.set({"seed": seed}) for seed in few},
            "swept": {β: run.set({"penalty.strength": β}) for β in (1e-3, 1e-4, 1e-6)},
            "small": run.set({"init.scale": _ALMOST_ZERO}),
            "free": run.set({"penalty.strength": 0.0}),
            "sparse": run.set(
                {"penalty": l1, "init.scale": _ALMOST_ZERO, "dynamics.method": "path", "dynamics.until": 1 / _BETA}
            ),
            "followed": followed,
            "descent": followed.set({"dynamics": descent}),
        }

    def picture(self, run: af.Run, caption: dict[int, af.Run], followed: af.Run, descent: af.Run) -> Figure:
        figure = af.plot.Figure(figsize=(11, 8.4), layout="constrained")
        by_decades, linear, norms, others = figure.subplots(2, 2).ravel()
        _draw_errors(by_decades, run)
        by_decades.axhline(GOAL, color="0.4", lw=1.0, ls=(0, (1, 2)), label="threshold $10^{-3}$")
        by_decades.set(yscale="log", ylabel="relative error")
        by_decades.set_title("on a logarithmic axis: no grokking", fontsize="medium", pad=18)
        _draw_errors(linear, run)
        linear.set(ylabel="relative error")
        linear.set_title("on a linear axis: as if it grokked", fontsize="medium", pad=18)
        _draw_norms(norms, run)
        _draw_others(others, caption, followed, descent)
        af.plot.log_time_axes(by_decades, linear, norms, others)
        af.plot.mark_phases(by_decades, _judged(run))
        af.plot.mark_phases(linear, _as_seen(run))
        af.plot.legend_below(by_decades, linear, norms, others)
        return figure

    # ------------------------------------------------------------------------------------------- what it looks like

    @claim(
        "on a logarithmic axis the verdict is grokking without understanding, on every draw",
        says="an abrupt transition in the generalisation error that does not result in convergence to an optimal "
        "solution: “grokking without understanding”",
    )
    def without_understanding(self, run: af.Run, draws: dict[int, af.Run]) -> Finding:
        return _named([run, *draws.values()])

    @control(without_understanding, "the ℓ₁ penalty from almost zero")
    def groks(self, sparse: af.Run) -> Finding:
        return _named([sparse])

    @control(without_understanding, "β = 0")
    def makes_no_transition(self, free: af.Run) -> Finding:
        return _named([free])

    @claim(
        "the same from ‖a₁‖ ≈ 10, Gaussian, as in the caption and App. E",
        says="large initialisation scale ‖a₁‖₂ = 10, a₁ ~ ζ·N(0, 1/n)",
    )
    def from_the_caption_s_start(self, caption: dict[int, af.Run]) -> Finding:
        return _named(list(caption.values()))

    @control(from_the_caption_s_start, "from almost zero")
    def from_almost_zero(self, small: af.Run) -> Finding:
        return _named([small])

    @claim(
        "the same with N = s, too few measurements for any method",
        says="this transition appears even if the problem posed admits no solution, by any method whatsoever",
    )
    def with_too_few(self, few: dict[int, af.Run]) -> Finding:
        return _named(list(few.values()))

    @control(with_too_few, "the ℓ₁ penalty from almost zero, with N = 30")
    def with_enough(self, sparse: af.Run) -> Finding:
        return _named([sparse])

    @claim(
        "on a linear axis the same run looks like grokking",
        says="without visualisation of the error on a logarithmic scale it looks like grokking has occurred, whereas "
        "this is not the case",
    )
    def looks_like_grokking(self, run: af.Run, draws: dict[int, af.Run]) -> Finding:
        return _looks([run, *draws.values()])

    @control(looks_like_grokking, "from almost zero")
    def looks_like_failure(self, small: af.Run) -> Finding:
        return _looks([small])

    @control(looks_like_grokking, "β = 0")
    def looks_like_nothing(self, free: af.Run) -> Finding:
        return _looks([free])

    # ------------------------------------------------------------------------------------------------ what happens

    @claim(
        "the error drops with the ℓ₂ norm: both are half-way at βt = log 2",
        says="an abrupt transition in the generalisation error, driven by changes in the ℓ₂ norm of the parameters",
    )
    def drops_with_the_norm(self, run: af.Run, draws: dict[int, af.Run]) -> Finding:
        return _half_way([run, *draws.values()], "test_error", "norm_l2")

    @control(drops_with_the_norm, "the training error")
    def fits_before(self, run: af.Run, draws: dict[int, af.Run]) -> Finding:
        return _half_way([run, *draws.values()], "train_error", "norm_l2")

    @control(drops_with_the_norm, "the ℓ₁ penalty from almost zero, where the norm rises")
    def drops_without_the_norm(self, sparse: af.Run) -> Finding:
        return _half_way([sparse], "test_error", "norm_l2")

    @claim(
        "the drop comes at a time ∝ 1/β", says="nothing of a rate; ρ₂ of Thm 3.6, which is 1 − αβ for N < n, implies it"
    )
    def waits(self, run: af.Run, swept: dict[float, af.Run]) -> Finding:
        return _inverse([run, *swept.values()], "test_error")

    @control(waits, "the training error")
    def fits_in_any_case(self, run: af.Run, swept: dict[float, af.Run]) -> Finding:
        return _inverse([run, *swept.values()], "train_error")

    @claim("the error stalls at ‖â − a*‖", says="the model only converges to a sub-optimal solution, least squares")
    def stalls(self, run: af.Run, draws: dict[int, af.Run]) -> Finding:
        return _stalls([run, *draws.values()], np.inf)

    @control(stalls, "when the norm is half-way")
    def stalls_not_before(self, run: af.Run, draws: dict[int, af.Run]) -> Finding:
        return _stalls([run, *draws.values()], np.log(2) / _BETA)

    @control(stalls, "the ℓ₁ penalty from almost zero")
    def does_not_stall(self, sparse: af.Run) -> Finding:
        return _stalls([sparse], np.inf)

    @claim(
        "weight decay does not make a sparse",
        says="weight decay alone just reduces the components of the iterate, not ‖a‖₀",
    )
    def stays_dense(self, run: af.Run, draws: dict[int, af.Run]) -> Finding:
        return _dense([run, *draws.values()])

    @control(stays_dense, "the ℓ₁ penalty from almost zero")
    def becomes_sparse(self, sparse: af.Run) -> Finding:
        return _dense([sparse])

    # --------------------------------------------------------------------------------------------------- Thm 3.6

    @claim(
        "Thm 3.6: ‖a(t) − â‖₂ ≤ ρ₂^{t−1}‖a(1) − â‖₂",
        says="for α < 2/(σ_max(XᵀX) + β), with ρ₂ = ‖1 − α(XᵀX + β1)‖",
        changed="At paper scale descent made 10⁷ steps, all looked at. It makes 10⁸ on the same draw, looked at are "
        "those with a bound above 10⁻⁵ of its start, some 10⁷ as before: below, rounding would show.",
    )
    def converges(self, descent: af.Run) -> Finding:
        beta = descent.spec["penalty"]["strength"]
        return _converges(descent, float(np.linalg.norm(np.eye(_TASK["n"]) - _ALPHA * _hessian(descent, beta), 2)))

    @control(converges, "the rate in the row space of X, 1 − α(σ²_min + β)")
    def converges_faster(self, descent: af.Run) -> Finding:
        beta = descent.spec["penalty"]["strength"]
        least = np.linalg.svd(descent.data.inputs, compute_uv=False)[-1] ** 2
        return _converges(descent, 1 - _ALPHA * (least + beta))

    @control(converges, "1 − 1.1αβ")
    def converges_a_little_faster(self, descent: af.Run) -> Finding:
        return _converges(descent, 1 - 1.1 * _ALPHA * descent.spec["penalty"]["strength"])

    @claim(
        "Thm 3.6: for N < n the end misses what of a* is orthogonal to the rows of X",
        says="‖â − a*‖² ≥ ‖(1 − Xᵀ(XXᵀ)†X)a*‖²",
    )
    def misses(self, run: af.Run, draws: dict[int, af.Run], few: dict[int, af.Run]) -> Finding:
        return _misses([run, *draws.values(), *few.values()])

    @control(misses, "the ℓ₁ penalty from almost zero")
    def misses_nothing(self, sparse: af.Run) -> Finding:
        return _misses([sparse])

    @claim(
        "descent makes the way of the closed form",
        says={"paper": "10⁸ steps of descent", "quick": "10⁸ steps of descent; 10⁵ here, with 100β"},
    )
    def descends_so(self, descent: af.Run, followed: af.Run) -> Finding:
        return _together(descent, followed)

    @control(descends_so, "the closed form with another β")
    def descends_not_so(self, descent: af.Run, run: af.Run, swept: dict[float, af.Run], scale: str) -> Finding:
        return _together(descent, swept[1e-4] if scale == "paper" else run)


def _judged(run: af.Run) -> af.Verdict:
    """The verdict by the notebook's thresholds."""
    return run.diagnose(fit=GOAL, generalise=GOAL)


def _as_seen(run: af.Run) -> af.Verdict:
    """The verdict of who sees a linear axis from 0 to where the recovery error begins."""
    top = _UNSEEN * float(run.curves["test_error"][0])
    return run.diagnose(fit=top, generalise=top)


def _named(runs: Sequence[af.Run]) -> Finding:
    verdicts = [_judged(run) for run in runs]
    kinds = [verdict.kind for verdict in verdicts]
    ends = [verdict.plateaus["test_after"] for verdict in verdicts]
    counted = ", ".join(f"{kind} ({kinds.count(kind)})" for kind in dict.fromkeys(kinds))
    return Finding(
        f"{counted}: a share {share(kinds.count(_NAME), len(kinds))}; error {min(ends):.2g} to {max(ends):.2g} at the "
        "end",
        set(kinds) == {_NAME},
    )


def _looks(runs: Sequence[af.Run]) -> Finding:
    # Where a hundredth of the axis is taken for 0 it is grokking, and by a relative error of 10⁻³ it is not.
    seen, judged = [_as_seen(run) for run in runs], [_judged(run) for run in runs]
    kinds = {(one.kind, other.kind) for one, other in zip(seen, judged, strict=True)}
    ends = [float(run.curves["test_error"][-1] / run.curves["test_error"][0]) for run in runs]
    return Finding(
        f"the error ends at {min(ends):.2g} to {max(ends):.2g} of a linear axis; by {_UNSEEN:.0%} of the axis and by "
        f"10⁻³: {'; '.join(f'{one}, {other}' for one, other in sorted(kinds))} ({len(runs)} draws)",
        kinds == {("grokking", _NAME)},
    )


def _half_after_fit(run: af.Run, name: str) -> float:
    """β times the time at which a curve is half-way from its value after the fit to its last; inf if it rises.

    The fit takes the start's part in the row space of X away at once; what decays is the rest, and it is
    looked at from twice the time of the fit on.
    """
    verdict, curves = _judged(run), run.curves
    begun = 0.0 if name == "train_error" else 2 * (verdict.t_fit or np.inf)
    time, values = (curves[each].values[curves["time"].values >= begun] for each in ("time", name))
    if not len(time) or values[-1] >= values[0]:
        return float("inf")
    half = (values[0] + values[-1]) / 2
    k = int(np.argmax(values <= half))
    part = (half - values[k - 1]) / (values[k] - values[k - 1])
    return float(run.spec["penalty"]["strength"] * (time[k - 1] + part * (time[k] - time[k - 1])))


def _half_way(runs: Sequence[af.Run], error: str, norm: str) -> Finding:
    # A tenth to either side: what is left in the end is a hundredth of what there was, and observations are 6 % apart,
    # or a quarter at quick scale.
    halves = [[_half_after_fit(run, name) for name in (error, norm)] for run in runs]
    (first, second), far = zip(*halves, strict=True), np.abs(np.array(halves) / np.log(2) - 1)
    return Finding(
        f"βt = {min(first):.3g} to {max(first):.3g} ({error}) and {min(second):.3g} to {max(second):.3g} ({norm}) when "
        f"half-way from the fit to the end, beside log 2 = {np.log(2):.3f}; {len(runs)} draws",
        bool(np.all(far <= 0.1)),
    )


def _inverse(runs: Sequence[af.Run], name: str) -> Finding:
    # Followed between observations: over three decades of β the exponent is good to some 0.01.
    strengths = [run.spec["penalty"]["strength"] for run in runs]
    law = power_law(strengths, [_half_after_fit(run, name) / β for run, β in zip(runs, strengths, strict=True)])
    return Finding(
        f"half-way at a time ∝ β^p with p = {law}, β from {min(strengths):.0e} to {max(strengths):.0e}",
        law.low >= -1.05 and law.high <= -0.95,
    )


def _stalls(runs: Sequence[af.Run], time: float) -> Finding:
    # At the end βt = 100: nothing is left of the start.
    ratios = [float(at(run, "test_error", time)) / _ridge_error(run) for run in runs]
    return Finding(
        f"relative error {float(at(runs[0], 'test_error', time)):.3g} on the draw shown; from {min(ratios):.6g} to "
        f"{max(ratios):.6g} times ‖â − a*‖/‖a*‖ on {len(runs)} draws",
        all(abs(ratio - 1) <= 1e-3 for ratio in ratios),
    )


def _ridge_error(run: af.Run) -> float:
    data = run.data
    return relative_distance(af.theory.ridge(data.inputs, data.targets, _BETA), data.truth)


def _dense(runs: Sequence[af.Run]) -> Finding:
    # Larger than a hundredth of the largest are more than half of all components, where a* has one in twenty.
    ends = [np.abs(run.curves["weights"].values[-1]) for run in runs]
    counts = [int(np.sum(end > 0.01 * end.max())) for end in ends]
    return Finding(
        f"{min(counts)} to {max(counts)} of {len(ends[0])} components are above a hundredth of the largest at the end; "
        f"a* has {_TASK['sparsity']}",
        min(counts) > len(ends[0]) / 2,
    )


def _hessian(run: af.Run, beta: float) -> np.ndarray:
    X = run.data.inputs
    return X.T @ X + beta * np.eye(X.shape[1])


def _converges(run: af.Run, rate: float) -> Finding:
    # While the bound is above 10⁻⁵ of its start, of which rounding is some 10⁻⁹: it stops a at 10⁻¹⁷/(αβ) from â.
    data, steps, weights = run.data, run.curves["step"].values, run.curves["weights"].values
    away = np.linalg.norm(weights - af.theory.ridge(data.inputs, data.targets, run.spec["penalty"]["strength"]), axis=1)
    asked = steps * np.log(rate) >= np.log(1e-5)
    logs = (np.log(away / away[0]) - steps * np.log(rate))[asked]
    return Finding(
        f"log of ‖a − â‖ over the bound from {logs.min():.3g} to {logs.max():.3g} over {steps[asked][-1]:.1e} steps, "
        f"1 − ρ₂ = {1 - rate:.4g}, α(σ²_max + β) = {_ALPHA * np.linalg.norm(_hessian(run, 0.0), 2):.2g} < 2",
        bool(np.all(logs <= 1e-6)),
    )


def _misses(runs: Sequence[af.Run]) -> Finding:
    ends, missed = [], []
    for run in runs:
        X, truth = run.data.inputs, run.data.truth
        missed.append(float(np.linalg.norm(truth - X.T @ np.linalg.pinv(X @ X.T) @ X @ truth)))
        ends.append(float(np.linalg.norm(run.curves["weights"].values[-1] - truth)))
    ratios = np.array(ends) / missed
    return Finding(
        f"‖a − a*‖ at the end is {ratios.min():.6g} to {ratios.max():.6g} times the bound, which is "
        f"{min(m / np.linalg.norm(r.data.truth) for m, r in zip(missed, runs, strict=True)):.2g}‖a*‖ at the least; "
        f"{len(runs)} draws",
        bool(np.all(ratios >= 1 - 1e-9)),
    )


def _together(descent: af.Run, flow: af.Run) -> Finding:
    """Whether two runs have the same errors and norms from the fit on."""
    time, since = descent.curves["time"].values, _judged(descent).t_fit or np.inf
    late, apart = time >= 2 * since, []
    for name in ("test_error", "norm_l2"):
        own, other = (np.log(run.curves[name].values[1:]) for run in (descent, flow))
        foreseen = np.interp(np.log(time[late]), np.log(flow.curves["time"].values[1:]), other)
        apart.append(float(np.max(np.abs(np.exp(own[late[1:]] - foreseen) - 1))))
    return Finding(
        f"from t = {2 * since:.3g} to {time[-1]:.3g}, {descent.curves['step'].values[-1]:.0e} steps, the errors differ "
        f"by at most {apart[0]:.2g} of them and the norms by {apart[1]:.2g}",
        max(apart) <= _CLOSE,
    )


def _draw_errors(ax: Axes, run: af.Run) -> None:
    """Both errors, and where the recovery error stalls."""
    curves = run.curves.isel(time=slice(1, None))
    ax.plot(curves["time"], curves["train_error"], **af.plot.TRAIN, label=r"training $\|Xa-y^*\|/\|y^*\|$")
    ax.plot(curves["time"], curves["test_error"], **af.plot.TEST, label=r"recovery $\|a-a^*\|/\|a^*\|$")
    ax.axhline(_ridge_error(run), color="k", ls=":", lw=1.2, label=r"$\|\hat a-a^*\|/\|a^*\|$")


def _draw_norms(ax: Axes, run: af.Run) -> None:
    """‖a‖₂ and ‖a‖₁, those of a*, and e^{−βt}."""
    curves, truth, X = run.curves.isel(time=slice(1, None)), run.data.truth, run.data.inputs
    start = np.full(len(truth), _ONES)
    left = np.linalg.norm(start - X.T @ np.linalg.pinv(X @ X.T) @ X @ start)
    time = curves["time"].values
    ax.plot(time, curves["norm_l2"], color="0.2", lw=1.8, label=r"$\|a\|_2$")
    ax.plot(time, curves["norm_l1"], color="#009E73", ls=(0, (5, 1.5, 1, 1.5)), lw=1.6, label=r"$\|a\|_1$")
    ax.plot(
        time, left * np.exp(-_BETA * time), color="#7B3294", ls="--", lw=1.1, label=r"$e^{-\beta t}\|P_\perp a_1\|_2$"
    )
    for p, colour in ((2, "0.2"), (1, "#009E73")):
        ax.axhline(float(np.linalg.norm(truth, p)), color=colour, ls=":", lw=1.2, label=rf"$\|a^*\|_{p}$")
    ax.set(yscale="log", ylabel="norm", ylim=(0.05, 3e3))


def _draw_others(ax: Axes, caption: Mapping[int, af.Run], followed: af.Run, descent: af.Run) -> None:
    """The recovery error from the caption's start, as a band over draws, and descent beside the closed form."""
    runs = list(caption.values())
    time, errors = runs[0].curves["time"].values[1:], np.array([run.curves["test_error"].values[1:] for run in runs])
    ax.fill_between(time, errors.min(axis=0), errors.max(axis=0), color="#D55E00", alpha=0.25, lw=0)
    ax.plot(time, np.median(errors, axis=0), color="#D55E00", lw=1.8, label=rf"$\|a_1\|\approx10$, {len(runs)} draws")
    curves, beta = followed.curves.isel(time=slice(1, None)), followed.spec["penalty"]["strength"]
    ax.plot(
        curves["time"],
        curves["test_error"],
        color="k",
        lw=1.2,
        label=rf"$\|a_1\|=100$, $\beta={af.plot.mathtext(beta)}$",
    )
    steps = descent.curves.isel(time=slice(1, None, 6))
    words = "the same by descent"
    ax.plot(steps["time"], steps["test_error"], "o", color="k", mfc="none", ms=4, label=words)
    ax.set(yscale="log", ylabel=r"recovery $\|a-a^*\|/\|a^*\|$")
