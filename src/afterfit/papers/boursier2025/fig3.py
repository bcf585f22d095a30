"""Fig. 3: a two-layer ReLU net of one variable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, correction, once, passing, run_all
from afterfit.papers._measure import first_step
from afterfit.papers.boursier2025 import PAPER
from afterfit.papers.boursier2025.fourier import NEAR, on_most
from afterfit.papers.boursier2025.relu import (
    LEAST,
    Draw,
    Draws,
    arrived,
    at_the_end_of,
    beside,
    few,
    has_dropped,
    least,
    same_function,
    same_kinks,
    slowly,
    span,
)
from afterfit.papers.boursier2025.univariate import sharpness

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Fig3"]

_N, _TEACHER_UNITS = 10, 3  # §5: n = 10 points, x uniform on [−2, 2]; "a sum of 3 ReLUs"
_WIDTH, _DECAY, _SCALE = 100, 1e-3, 2.0  # §5: m = 100, weight decay λ = 10⁻³, initial weights of variance 4
_T2, _SLOW = 1.0, 1 / _DECAY  # §5: "By t₂ = 1, the training loss has dropped to nearly zero"; "around time t = 1/λ"
_T3, _ITERATIONS = 1e5, 1_000_000  # §5: "by t₃ ≈ 10⁵"; T = 10⁶ iterations


class _Size(NamedTuple):
    """What the two scales differ in: how long and how finely flows are followed, and gradient descent beside them.

    A step is `small` well below 2/λ_max(∇²F): the paper gives none.
    """

    until: float
    rtol: float
    small: float
    descends_until: float
    seeds: tuple[int, ...]


_SIZES = {
    "paper": _Size(_T3, rtol=1e-3, small=5e-4, descends_until=_SLOW, seeds=(*range(10, 30), *range(200, 220))),
    "quick": _Size(10**4.5, rtol=2e-3, small=1e-3, descends_until=0.1 * _SLOW, seeds=tuple(range(230, 238))),
}


class Fig3(Entry):
    paper, name = PAPER, "fig3"
    title = "A ReLU net of one variable groks as weight decay removes its kinks"
    where = "Fig. 3, §5"
    about = (
        "Σ uⱼ ReLU(vⱼx + bⱼ) with 100 units is fitted to ten points of a sum of three ReLUs with weight decay λ = 10⁻³ "
        "from weights of variance 4. It fits at t = 2.5 (median; 0.3 to 240) with 30 to 40 kinks. Over a time of order "
        "1/λ the norm falls, and with it the kinks, to the few of the function that minimises (1/2n) Σ(f − y)² + "
        "λ∫√(1+x²)|f″|."
    )
    notes = (
        "The step is not given, and none that is stable at the start reaches t₃ ≈ 10⁵ in 10⁶ iterations (the erratum), "
        "so that the gradient flow is run in place of gradient descent, which is run beside it on the first draw. The "
        "teacher is shown in the picture only; here its three kinks are uniform in [−1.5, 1.5] with Gaussian slopes. A "
        "kink is a change of slope by 2 % and more of the sum of all changes of the teacher's; units whose kinks are "
        "less than 0.05 apart make one. Biases are penalised, and so ∫√(1+x²)|f″| is (Boursier and Flammarion 2023), "
        "not the total variation ∫|f″| of the slope (Savarese et al. 2019), which is a control. The paper shows one "
        "draw and claims no share of draws. Every claim here is on all draws: on each where it says so, else on half "
        "and more, with the share. The draw in the picture is chosen by how it ends, and no claim rests on it: it is "
        "the first whose convex program is within 10 % of the teacher and whose flow without weight decay ends more "
        "than 50 % away, so that its two ends differ as the paper's do. Settings were tried on seeds 100 to 105. "
        "Rounds before rested on a draw so chosen among seeds 0 to 44. At quick scale they had half the units and "
        "three times the decay first, where the phases are closer: on the draws shown (seeds 1, 12, 32) 0.0012 of the "
        "loss at the start was left at t₂, the flow without weight decay ended 31 % from the teacher, and the delay "
        "was 9.4 times. Draws are fresh ones since, 200 to 219, and 230 to 237 at quick scale; at paper scale 10 to 29 "
        "are kept beside them, for two claims do not hold on seed 10."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment | dict[int, af.Experiment]]:
        size = _SIZES[scale]
        flow = _experiment(size)
        return {
            "draws": {seed: flow.set({"seed": seed}) for seed in size.seeds},
            "free": {seed: flow.set({"seed": seed, "penalty.strength": 0.0}) for seed in size.seeds},
            "descent": flow.set(_descending(size.small, size.descends_until)),
        }

    def picture(self, shown: int, drawn: Draws, undecayed: Draws) -> Figure:
        run = drawn[shown].run
        figure = af.plot.Figure(figsize=(11, 7.6), layout="constrained")
        grid = figure.add_gridspec(2, 6, height_ratios=(1.15, 1))
        left, right = (figure.add_subplot(grid[0, 3 * k : 3 * k + 3]) for k in range(2))
        _show_losses(left, run)
        _show_kinks(right, drawn, shown, undecayed[shown])
        af.plot.log_time_axes(left, right)
        for ax in (left, right):
            af.plot.mark_phases(ax, run.verdict)
        af.plot.legend_below(left, right, ncols=3)
        _show_snapshots([figure.add_subplot(grid[1, 2 * k : 2 * k + 2]) for k in range(3)], drawn[shown])
        return figure

    @once
    def drawn(self, draws: Mapping[int, af.Run]) -> Draws:
        return Draw.each(draws)

    @once
    def undecayed(self, free: Mapping[int, af.Run]) -> Draws:
        """The same draws without weight decay."""
        return Draw.each(free)

    @once
    def shown(self, drawn: Draws, undecayed: Draws) -> int:
        """The draw in the picture: the first whose two ends differ as the paper's do, by the rule of the notes."""
        differ = (s for s, d in drawn.items() if d.error(d.program.net) <= 0.1 and d.error(undecayed[s].end) > 0.5)
        return next(differ, next(iter(drawn)))

    @once
    def coarse(self, descent: af.Run, scale: str, progress: bool | None) -> af.Run:
        """Gradient descent with ten times the small step."""
        change = _descending(10 * _SIZES[scale].small, _SIZES[scale].descends_until)
        return next(iter(run_all({"coarse": descent.experiment.set(change)}, f"{self.id}: coarse", progress).values()))

    @once
    def printed(self, draws: Mapping[int, af.Run], progress: bool | None) -> list[af.Run]:
        """The first steps of gradient descent with γ = t₃/T on every draw."""
        change = _descending(_T3 / _ITERATIONS, 20.0)
        # One at a time, by the program that is compiled already for a single descent.
        descents = ({f"seed {seed}": run.experiment.set(change)} for seed, run in draws.items())
        return [run for each in descents for run in run_all(each, f"{self.id}: γ = t₃/T", progress).values()]

    @once
    def largest_steps(self, drawn: Draws) -> list[float]:
        """2/λ_max(∇²F) at the start of every draw: gradient descent with larger steps is unstable."""
        return [2 / sharpness(draw.net(0.0), draw.x, draw.y) for draw in drawn.values()]

    # ---------------------------------------------------------------------------------------------- the fast phase

    @claim(
        "training loss drops quickly to zero: to 10⁻³ of that of the function 0 by t = 0.1/λ",
        says="the training loss drops quickly to zero (caption)",
        changed="It was held against the loss at the start, which is 19 to 2·10⁵ times that of the function 0, and on "
        "one chosen draw.",
    )
    def drops(self, drawn: Draws) -> Finding:
        return has_dropped(drawn, "train_loss", 0.1 * _SLOW, to=1e-3)

    @control(drops, "the test loss of the same runs")
    def does_not_generalise_so(self, drawn: Draws) -> Finding:
        return has_dropped(drawn, "test_loss", 0.1 * _SLOW, to=1e-3)

    @control(drops, "at t = t₂/10")
    def has_not_dropped(self, drawn: Draws) -> Finding:
        return has_dropped(drawn, "train_loss", 0.1 * _T2, to=1e-3)

    @claim(
        "by t₂ = 1 the training loss is nearly zero: 1 % of that of the function 0, a relative error of 10 %",
        says="By t₂ = 1, the training loss has dropped to nearly zero",
        changed="It was 10⁻³ of the loss at the start, on one chosen draw.",
        fails={
            "paper": "0.038 of the loss of the function 0 is left on the median draw of 40, and 1 % and less on ten. "
            "The median draw gets there at t = 2.5, the last at t = 236",
            "quick": "0.027 of the loss of the function 0 is left on the median draw of eight, and 1 % and less on "
            "three. The median draw gets there at t = 1.9, the last at t = 18",
        },
    )
    def fits(self, drawn: Draws) -> Finding:
        return has_dropped(drawn, "train_loss", _T2, to=0.01)

    @passing(fits, "at t = 0.1/λ")
    def fits_later(self, drawn: Draws) -> Finding:
        return has_dropped(drawn, "train_loss", 0.1 * _SLOW, to=0.01)

    @claim(
        "at t₂ the function is the one that the flow without weight decay has then, to 5 %, on every draw",
        says="In a first phase, the weights follow the unregularised gradient flow (§1; Prop. 1)",
    )
    def follows_the_free(self, drawn: Draws, undecayed: Draws) -> Finding:
        return beside(drawn, undecayed, _T2)

    @control(follows_the_free, "at t = 1/λ")
    def does_not_for_long(self, drawn: Draws, undecayed: Draws) -> Finding:
        return beside(drawn, undecayed, _SLOW)

    @claim(
        "by t₂ = 1 the function is the end of the flow without weight decay, to 5 %",
        says="By t₂ = 1 the iterates closely approximate the solution that would be obtained by unregularised gradient "
        "flow",
        changed="It was nine tenths of the way from the start, which is many times larger than the solution, on one "
        "chosen draw. It is 5 % of the solution since, as for Fig. 4, of which the paper says the same.",
        fails={
            "paper": "16 % away on the median draw of 40, and 5 % and less on three. It is at t = 18 on 21 draws, and "
            "at some time on 25; at t = 100 on five, and without weight decay on 34",
            "quick": "23 % away on the median draw of eight, and 5 % and less on one. It is at t = 10 on three, and at "
            "some time on four; at t = 100 on one, and without weight decay on six",
        },
    )
    def near_the_free(self, drawn: Draws, undecayed: Draws) -> Finding:
        return at_the_end_of(undecayed, drawn, _T2)

    @passing(near_the_free, "the flow without weight decay at t = 1/λ")
    def near_later(self, undecayed: Draws) -> Finding:
        return at_the_end_of(undecayed, undecayed, _SLOW)

    # ---------------------------------------------------------------------------------------------- the slow phase

    @claim(
        "half of the draws and more grok: test error is high for ten times as long as the fit takes, then improves",
        says="the test loss remains high for an extended period before eventually improving; no share of draws",
        changed="It was the verdict on one draw, chosen by its ends. It is the share of all draws since: 16 of 20 of "
        "200 to 219, which are fresh. It was three of five of 40 to 44, the draws at quick scale before.",
    )
    def groks(self, drawn: Draws, shown: int) -> Finding:
        found, others = _grok(drawn), [draw for draw in drawn.values() if not _groks(draw)]
        wrong = sum(draw.error(draw.program.net) > 0.2 for draw in others)
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(d.run.verdict.kind for d in others).items())
        return Finding(
            f"{found.measured}; the others by verdict: {kinds or 'none'}; on {wrong} of them the program itself is "
            f"more than 20 % from the teacher. In the picture, seed {shown}, chosen by its ends: "
            f"{drawn[shown].run.verdict}",
            found.holds,
        )

    @control(groks, "the same draws without weight decay")
    def never_grok(self, undecayed: Draws) -> Finding:
        return _grok(undecayed)

    @claim(
        "the norm of the weights falls around t = 1/λ on every draw, and draws that grok generalise then",
        says="around t = 1/λ the weight norms begin to decrease, to a much lower ℓ₂-norm; the test loss improves then",
        changed="On seeds 0 to 9 the test error was to be half-way, from t = 0.01/λ on, when the norm is. On the draw "
        "that was shown it was at t = 142 (paper scale), for the fast phase is not over at 0.01/λ. It is t_gen since, "
        "and on all draws that grok in place of a chosen one.",
    )
    def norm_falls(self, drawn: Draws) -> Finding:
        return _coincides(drawn, "t_gen")

    @control(norm_falls, "the time of the fit")
    def not_with_the_fit(self, drawn: Draws) -> Finding:
        return _coincides(drawn, "t_fit")

    @control(norm_falls, "the same draws without weight decay")
    def norm_stays(self, undecayed: Draws) -> Finding:
        return _coincides(undecayed, "t_gen")

    @claim(
        "few kinks at the end, many at t₂, on every draw",
        says="solutions of low norm are believed to have a small number of kinks, as observed (far right plot)",
    )
    def few_kinks(self, drawn: Draws) -> Finding:
        return few(drawn, _T2, np.inf)

    @control(few_kinks, "the draws at t = 1/λ")
    def not_yet_few(self, drawn: Draws) -> Finding:
        return few(drawn, _T2, _SLOW)

    @control(few_kinks, "the same draws without weight decay")
    def never_few(self, undecayed: Draws) -> Finding:
        return few(undecayed, _T2, np.inf)

    @claim(
        "kinks go in the slow phase, between t = 1/λ and 10/λ, on every draw",
        says="the few kinks come with the lower norm, after t = 1/λ; no time is given",
    )
    def kinks_go(self, drawn: Draws) -> Finding:
        return slowly(drawn, _T2, _SLOW)

    @control(kinks_go, "the same draws without weight decay")
    def kinks_stay(self, undecayed: Draws) -> Finding:
        return slowly(undecayed, _T2, _SLOW)

    # ------------------------------------------------------------------------------------- the variational problem

    @claim(
        "every end point is that of the convex program",
        says="they have drifted to a solution of much lower norm [Savarese et al. 2019, Boursier and Flammarion 2023]",
    )
    def ends_at_the_program(self, drawn: Draws) -> Finding:
        gap = max(1 - draw.program.bound / draw.program.value for draw in drawn.values())
        found = least([draw.excess(draw.end) for draw in drawn.values()])
        return Finding(f"{found.measured}; the program's is within {gap:.1g} of a bound for any width", found.holds)

    @control(ends_at_the_program, "the draws at t = 1/λ")
    def not_yet_least(self, drawn: Draws) -> Finding:
        return least([draw.excess(draw.net(_SLOW)) for draw in drawn.values()])

    @control(ends_at_the_program, "the ends without weight decay")
    def never_least(self, drawn: Draws, undecayed: Draws) -> Finding:
        return least([draw.excess(undecayed[seed].end) for seed, draw in drawn.items()])

    @claim(
        "the function at the end is the program's, on every draw",
        says="solutions of low norm minimise a weighted variation of the slope, which makes them sparse "
        "[Boursier and Flammarion 2023]",
        fails={
            "paper": "on one of 40 draws, seed 10, the function is 0.019 of max |f*| away at t₃ and still moves, with "
            "one kink where the program has two, 0.15 apart; the objective is within 0.05 % of its least there"
        },
    )
    def is_the_program(self, drawn: Draws) -> Finding:
        return same_function([(draw, draw.program.net) for draw in drawn.values()])

    @passing(is_the_program, "draws whose objective is within 10⁻⁴ of its minimum at the end")
    def is_the_program_where_arrived(self, drawn: Draws) -> Finding:
        return self.is_the_program(arrived(drawn))

    @control(is_the_program, "the program with ∫|f″| in place of ∫√(1+x²)|f″|, as if biases were not penalised")
    def is_not_unweighted(self, drawn: Draws) -> Finding:
        return same_function([(draw, draw.unweighted) for draw in drawn.values()])

    @control(is_the_program, "the draws at t = 1/λ in place of the program's functions")
    def is_not_midway(self, drawn: Draws) -> Finding:
        return same_function([(draw, draw.net(_SLOW)) for draw in drawn.values()])

    @claim(
        "its kinks are the program's, in number and place, on every draw",
        says="a small number of kinks, as observed in Figure 3 (far right plot); none is compared",
        fails={
            "paper": "on seed 10 there is one kink at t₃ where the program has two, 0.15 apart, and on seed 212 one at "
            "1.931 for the program's at 1.986; the objectives are 0.02 % and 0.1 % above their least there. On the "
            "other 38 draws they are"
        },
        changed="Not the criterion, but what it is seen to accept: that was all draws but seed 10, by its number, and "
        "then to be those that move by less than 0.1 % over the last half of time. Seed 212 does, where the objective "
        "is flat.",
    )
    def kinks_of_the_program(self, drawn: Draws) -> Finding:
        return same_kinks([(draw, draw.program.net) for draw in drawn.values()])

    @passing(kinks_of_the_program, "draws whose objective is within 10⁻⁴ of its minimum at the end")
    def kinks_where_arrived(self, drawn: Draws) -> Finding:
        return self.kinks_of_the_program(arrived(drawn))

    @control(kinks_of_the_program, "the program with ∫|f″| in place of ∫√(1+x²)|f″|")
    def not_of_the_unweighted(self, drawn: Draws) -> Finding:
        return same_kinks([(draw, draw.unweighted) for draw in drawn.values()])

    # ------------------------------------------------------------------------------------------ gradient descent

    @claim(
        "gradient descent with a small step follows this flow",
        says="gradient descent with a small step size, to align with the continuous-time analysis (App. D.1)",
    )
    def descends_as_it_flows(self, drawn: Draws, descent: af.Run) -> Finding:
        return _follows(descent, drawn[descent.spec["seed"]])

    @control(descends_as_it_flows, "ten times that step")
    def does_not_with_large_steps(self, drawn: Draws, coarse: af.Run) -> Finding:
        return _follows(coarse, drawn[coarse.spec["seed"]])

    @claim(
        "10⁶ iterations of a small step end beyond t₃ ≈ 10⁵",
        says="T = 10⁶ iterations and small step size; by t₃ ≈ 10⁵; t_k = γk (App. D.1)",
        changed="Of the correction: it said that the slow phase is over by 10/λ, F + (λ/2)‖w‖² within 0.5 % of its "
        "minimum on every draw. On seeds 40 to 44 that passed by little, 0.49 %, for on seed 40 a kink that the "
        "program does not have was still to go. On fresh draws it does not: 0.72 % on seed 213, and 1.1 % on seed 230. "
        "When it is over is reported since, and where 10⁶ steps end is held against it.",
    )
    def reaches_t3(self, printed: Sequence[af.Run], largest_steps: list[float]) -> Finding:
        fitting = sum(run.status == "finished" and float(run.curves["train_error"][-1]) < 0.5 for run in printed)
        return Finding(
            f"γ = t₃/T = {_T3 / _ITERATIONS:g}, where 2/λ_max(∇²F) at the start is {span(largest_steps)}: the "
            f"training error gets below 0.5 on {fitting} of {len(printed)} draws, and "
            f"{sum(run.status == 'diverged' for run in printed)} diverge",
            fitting == len(printed),
        )

    @correction(
        reaches_t3,
        "10⁶ steps that are stable at the start end before t = 10⁴ = 10/λ, on most draws with the slow phase not over",
        why="t₃ = γ·10⁶ means γ = 0.1, and ∇²F has eigenvalues of some hundreds at weights of variance 4. The text on "
        "Fig. 4 says t₃ ≈ 10⁵ in the same words, where λ is 10⁻⁴ and 10/λ = 10⁵.",
        touches="The far right panel, if it is of the printed setting: 10⁶ steps of the largest stable size end at t = "
        "1.7·10³ to 5.6·10³ over 40 draws, when the objective is 14 % above its least (median) and up to 32 kinks are "
        "left. Kinks are half gone at 1.6·10³ to 3.2·10³, and the slow phase ends at 4.7·10³ to 1.2·10⁴. What the "
        "panel is to show holds of the flow, run for longer.",
    )
    def ends_midway(self, largest_steps: list[float], drawn: Draws) -> Finding:
        """Not over: F + (λ/2)‖w‖² is more than 0.5 % above its minimum, on half of the draws and more."""
        ends = [step * _ITERATIONS for step in largest_steps]
        cut = [draw.excess(draw.net(end)) for draw, end in zip(drawn.values(), ends, strict=True)]
        kinks = [draw.count(end) for draw, end in zip(drawn.values(), ends, strict=True)]
        words, most = on_most([one > LEAST for one in cut], 0.5)
        over = [
            first_step(draw.times, np.array([draw.excess(net) for net in draw.nets]), LEAST) for draw in drawn.values()
        ]
        return Finding(
            f"10⁶ steps of 2/λ_max end at t = {span(ends)}, with {span(kinks)} kinks where there are "
            f"{span([int(draw.counts[-1]) for draw in drawn.values()])} at the end, and F + (λ/2)‖w‖² above its "
            f"minimum by {np.median(cut):.2g} of it (median); by more than {LEAST:.1%} {words}. The flow is within "
            f"that first at t = {span(over)} (median {np.median(over):.3g})",
            max(ends) < 10 * _SLOW and most,
        )


def _experiment(size: _Size) -> af.Experiment:
    grid = np.concatenate([np.logspace(-2, 3, 21), np.logspace(3.1, 5, 20)])  # t₂, 1/λ and 10/λ are among them
    kept = grid[grid <= size.until * (1 + 1e-9)]
    return af.Experiment(
        task=af.tasks.ReLURegression(n=_N, teacher_units=_TEACHER_UNITS),
        model=af.models.MLP((_WIDTH,), biases="hidden"),
        penalty=af.penalties.L2(_DECAY),
        dynamics=af.dynamics.GradientFlow(until=size.until, first=1e-3, rtol=size.rtol, method="stabilised"),
        init=af.inits.Gaussian(_SCALE),
        seed=size.seeds[0],
        observations=80,
        checkpoints=(0.0, *kept.tolist()),
    )


def _descending(lr: float, until: float) -> dict[str, Any]:
    """Gradient descent in place of the flow."""
    return {
        "dynamics": {"kind": "GradientDescent", "lr": lr, "steps": round(until / lr)},
        "observations": 40,
        "checkpoints": [_T2, until],
    }


def _groks(draw: Draw) -> bool:
    """By the task's levels of relative error (0.1 and 0.2), ten times later than it fits and more."""
    verdict = draw.run.verdict
    return verdict.kind == "grokking" and (verdict.t_gen or 0) >= 10 * (verdict.t_fit or np.inf)


def _grok(draws: Draws) -> Finding:
    words, most = on_most([_groks(draw) for draw in draws.values()], 0.5)
    errors = [[draw.error(draw.net(_T2)), draw.error(draw.end)] for draw in draws.values()]
    early, late = np.median(errors, axis=0)
    return Finding(f"grokking {words}; median test error {early:.2g} at t₂ and {late:.2g} at the end", most)


def _about(t: float) -> bool:
    """Half a decade to either side of 1/λ: what "around" is on the logarithmic axis of the figure."""
    return bool(10**-0.5 <= t / _SLOW <= 10**0.5)


def _coincides(draws: Draws, name: str) -> Finding:
    """Whether ‖w‖ falls to a third and less of what it is at t₂, half-way around 1/λ, on every draw.

    And whether a verdict's time is around 1/λ on half and more of the draws that grok.
    """
    halves, falls = [], []
    for draw in draws.values():
        late = draw.run.curves.sel(time=slice(_T2, None))
        t, norm = late["time"].values, late["norm_l2"].values
        falls.append(norm[-1] / norm[0])
        halves.append(first_step(t, norm, (norm[0] + norm[-1]) / 2) if falls[-1] <= 1 / 3 else np.inf)
    times = [getattr(draw.run.verdict, name) for draw in draws.values() if _groks(draw)]
    words, most = on_most([_about(t) for t in times], 0.5) if times else ("on none", False)
    return Finding(
        f"‖w‖ falls to {span(falls)} of what it is at t₂, half-way at t = {span(halves)} for 1/λ = {_SLOW:g}; "
        f"{name} of draws that grok is {span(times or [np.inf])}, around 1/λ {words}",
        all(map(_about, halves)) and most,
    )


def _follows(descent: af.Run, draw: Draw) -> Finding:
    """Whether descent has the function of the flow to 5 % of its largest value, at t₂ and at its end."""
    if descent.status != "finished":
        return Finding(f"γ = {descent.spec['dynamics']['lr']:g}: {descent.status}", False)
    end = float(descent.curves["time"][-1])
    steps, flows = ([of.net(time)(draw.grid) for time in (_T2, end)] for of in (Draw(descent), draw))
    gaps = [np.max(np.abs(step - flow)) / np.max(np.abs(flow)) for step, flow in zip(steps, flows, strict=True)]
    return Finding(
        f"γ = {descent.spec['dynamics']['lr']:g}: max |f − f_flow| on [−2, 2] is {gaps[0]:.2g} of max |f_flow| at t₂ "
        f"and {gaps[1]:.2g} at t = {end:.3g}",
        max(gaps) <= NEAR,
    )


def _show_losses(ax: Axes, run: af.Run) -> None:
    curves = run.curves.isel(time=slice(1, None))
    ax.plot(curves["time"], curves["train_loss"], **af.plot.TRAIN, label="training loss")
    ax.plot(curves["time"], curves["test_loss"], **af.plot.TEST, label="test loss")
    ax.plot(curves["time"], curves["norm_l2"], color="0.2", ls="-.", label=r"$\|w\|_2$")
    ax.axvline(_SLOW, color="0.8", lw=4, zorder=0, label=r"$t=1/\lambda$")
    ax.set(yscale="log", ylabel="loss, norm of the weights")


def _show_kinks(ax: Axes, draws: Draws, shown: int, free: Draw) -> None:
    """Kinks along the run, over all draws, and without weight decay."""
    times = draws[shown].times[1:]
    counts = np.array([draw.counts[1:] for draw in draws.values()])
    ax.fill_between(times, counts.min(0), counts.max(0), color="0.85", lw=0, label=f"{len(draws)} draws, all")
    ax.plot(times, np.median(counts, 0), color="0.45", lw=1.2, label="their median")
    ax.plot(times, draws[shown].counts[1:], **af.plot.TEST, label="draw shown")
    ax.plot(free.times[1:], free.counts[1:], color="k", ls=":", lw=1.6, label=r"the same, $\lambda=0$")
    ax.set(ylabel="kinks of the function", ylim=(0, None))


def _show_snapshots(axes: Sequence[Axes], draw: Draw) -> None:
    """The function at t₁ = 0, t₂ and t₃, with the teacher and the samples; at the end the program's, too."""
    for ax, name, time in zip(axes, ("t_1", "t_2", "t_3"), (0.0, _T2, float(draw.times[-1])), strict=True):
        ax.plot(draw.grid, draw.net(time)(draw.grid), **af.plot.TEST, label="$f_w$")
        ax.plot(draw.grid, draw.teacher, color="#56B4E9", ls=":", lw=2.2, label="teacher")
        ax.plot(draw.x, draw.y, "kx", ms=6, label="samples")
        ax.set_title(f"${name} = {af.plot.mathtext(time)}$", fontsize="medium")
        ax.set(xlabel="$x$", ylabel="$f(x)$")
    net = draw.program.net
    axes[-1].plot(draw.grid, net(draw.grid), "k--", lw=1.0, label="convex program")
    for k, kink in enumerate(draw.kinks(net)):
        axes[-1].axvline(kink.place, color="0.7", lw=0.8, ls="-.", zorder=0, label="its kinks" if k == 0 else None)
    af.plot.legend_below(*axes, ncols=3)
