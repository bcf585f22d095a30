"""Thms E.4 and E.5: how many examples the two margins need."""

from __future__ import annotations

import bisect
import functools
import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once, passing
from afterfit.papers._measure import Interval, power_law, share
from afterfit.papers.lyu2023 import PAPER
from afterfit.papers.lyu2023.regimes import is_law

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Bounds"]

_NORMS = (1, 2)  # p of the Lp margin
_DELTA = 0.1
_DIMENSIONS = {1: (20, 40, 80, 160, 320, 640), 2: (20, 40, 80, 160)}  # by p: log d takes a wider range to be seen
_WIDE = 40  # d where k varies
_SPARSITIES = (1, 3, 5, 7, 9)
_SIZES = tuple(round(5 * 1.25**k) for k in range(30))
_K, _D = 1, 20  # of the teacher and the inputs on which the bounds are checked
_BITES = 0.45  # what the bounds are there: less than the error of a guess


class Bounds(Entry):
    paper, name = PAPER, "bounds"
    title = "The largest L1 margin needs of order log d examples, the largest L2 margin of order d"
    where = "Thms E.2–E.5, App. E"
    about = (
        "Inputs uniform in {±1}^d with the label of a k-sparse ±1 teacher, k odd. The classifiers of largest L1 and L2 "
        "margin are found by convex programs for many training sets, and scored on fresh inputs; the bounds (38) and "
        "(40) are for δ = 0.1. A bound above ½ is kept by any guess, and these say more only when the error has long "
        "been 0: for k = 1 and d = 20, where they are checked at a bound of 0.45, from some 850 (L1) and 1860 (L2) "
        "examples on. So the sample sizes are also measured for themselves. One diagonal net shows what they mean for "
        "training: with n between the two, it is first as bad as the largest L2 margin and then as good as the largest "
        "L1 margin."
    )
    notes = (
        "The proof of Thm E.4 refers to (41) for (39). The bounds were checked where they are 0.91 at first, "
        "which a guess keeps. How many examples are needed grows with k more slowly than k² and k: the orders of "
        "§3.2.3 are bounds, and are attained in d alone. The training sets are others than those seen before, and so "
        "are the draws of the bounds. With d up to 160 alone what L1 needs went like d^(0.347 in [0.185, 0.508]), not "
        "told from d^½ by the width of the interval: d = 320 and 640 were added then."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment]:
        n, d, norm, decay = (100, 3000, 64.0, 1e-2) if scale == "paper" else (60, 300, 32.0, 1e-2)
        return {
            "run": af.Experiment(
                task=af.tasks.SparseClassification(n=n, d=d, sparsity=3, n_test=4000),
                model=af.models.DiagonalNet(),
                penalty=af.penalties.L2(decay),
                dynamics=af.dynamics.GradientFlow(until=20 / decay, first=1e-2, rtol=1e-4, method="implicit"),
                init=af.inits.Constant(norm=norm),
                observations=60,
            )
        }

    @once
    def draws(self, scale: str) -> int:
        """How many training sets are tried."""
        return 100 if scale == "paper" else 36  # with which a share of all is 0.9 or more at 95 %

    @once
    def needs(self, scale: str) -> dict[int, _Needs]:
        """How many examples the classifiers need, by p, against d and against k."""
        sets = 24 if scale == "paper" else 12
        return {
            p: _Needs(
                {d: _needed(p, 3, d, sets) for d in _DIMENSIONS[p]},
                {k: _needed(p, k, _WIDE, sets) for k in _SPARSITIES},
            )
            for p in _NORMS
        }

    @once
    def trials(self, draws: int) -> dict[int, list[_Trial]]:
        """The classifiers of largest Lp margin, by p, from examples enough for their bound to say something."""
        return {p: [_trial(p, _enough(p), _D, _K, seed) for seed in range(draws)] for p in _NORMS}

    @once
    def errors_on_its_data(self, run: af.Run) -> dict[int, float]:
        """The test errors of the classifiers of largest L1 and L2 margin on the data of the run."""
        X, y, test = run.data.inputs, run.data.targets, run.data.test_inputs
        return {p: float(np.mean(run.data.test_targets * (test @ _widest(p, X, y)) <= 0)) for p in _NORMS}

    def picture(self, run: af.Run, errors_on_its_data: dict[int, float], needs: dict[int, _Needs]) -> Figure:
        figure = af.plot.Figure(figsize=(16.5, 4.8), layout="constrained")
        path, error, by_dimension, by_sparsity = figure.subplots(1, 4)
        _draw_path(path, run, errors_on_its_data)
        _draw_errors(error, d=80, sizes=_SIZES[3:20:2])
        _draw_needed(by_dimension, {p: need.by_dimension for p, need in needs.items()}, "d")
        by_dimension.set(xlabel="dimension d", ylabel="examples for a test error of 10 %", title="k = 3")
        _draw_needed(by_sparsity, {p: need.by_sparsity for p, need in needs.items()}, "k")
        by_sparsity.set(xlabel="sparsity k", ylabel="examples for a test error of 10 %", title=f"d = {_WIDE}")
        af.plot.legend_below(*figure.axes)
        return figure

    @claim(
        "Thm E.3: the Rademacher complexities of F₁ and F₂ are below (36) and (37)",
        says="√(2·log(2d)·Σ‖xᵢ‖_∞²)/n and √(Σ‖xᵢ‖₂²)/n",
    )
    def complexities(self) -> Finding:
        return _complexity_finding({1: 1.0, 2: 1.0})

    @control(complexities, "(36) without its factor 2 and (37) with Σ‖xᵢ‖₂²/2")
    def halved_complexities(self) -> Finding:
        return _complexity_finding({1: 0.5**0.5, 2: 0.5**0.5})

    @claim(
        "the margins are at least those of the teacher: 1/k and 1/√k",
        says="γ₁(w) ≥ γ₁(w*) = 1/k, γ₂(w) ≥ γ₂(w*) = 1/√k",
    )
    def margins(self, draws: int) -> Finding:
        return _margin_finding(draws, {1: 1, 2: 2})

    @control(margins, "the two classifiers changed over")
    def margins_changed_over(self, draws: int) -> Finding:
        return _margin_finding(draws, {1: 2, 2: 1})

    @claim(
        "Thm E.2: (35) with these margins",
        says=f"with probability 1 − δ = {1 - _DELTA:g}, q half the teacher's margin",
    )
    def margin_bound(self, trials: dict[int, list[_Trial]]) -> Finding:
        return _probable(
            [trial.error for p in _NORMS for trial in trials[p]], [trial.bound for p in _NORMS for trial in trials[p]]
        )

    @control(margin_bound, "(35) without the complexity, for the largest L2 margin with n = 200, d = 2000, k = 3")
    def margins_are_not_enough(self) -> Finding:
        wide = [_trial(2, 200, 2000, 3, seed, simple=True) for seed in range(8)]
        return _probable([trial.error for trial in wide], [trial.bound for trial in wide])

    @claim(
        "Thm E.4: the error of the largest L1 margin is below (38)",
        says=f"4k·√(2·log(2d)/n) + 3·√(log(2/δ)/2n), with probability {1 - _DELTA:g}",
    )
    def l1_error(self, trials: dict[int, list[_Trial]]) -> Finding:
        return _error_finding(1, [trial.error for trial in trials[1]])

    @control(l1_error, "a guess: the sign of another input")
    def guess_is_above_l1(self, trials: dict[int, list[_Trial]]) -> Finding:
        return _error_finding(1, [trial.guess for trial in trials[1]])

    @claim(
        "Thm E.5: the error of the largest L2 margin is below (40)",
        says=f"4·√(kd/n) + 3·√(log(2/δ)/2n), with probability {1 - _DELTA:g}",
    )
    def l2_error(self, trials: dict[int, list[_Trial]]) -> Finding:
        return _error_finding(2, [trial.error for trial in trials[2]])

    @control(l2_error, "a guess: the sign of another input")
    def guess_is_above_l2(self, trials: dict[int, list[_Trial]]) -> Finding:
        return _error_finding(2, [trial.guess for trial in trials[2]])

    @claim("the largest L1 margin needs O(k²·log d) examples", says="only needs O(k²·log d) (§3.2.3)")
    def l1_needs(self, needs: dict[int, _Needs]) -> Finding:
        # log d has no power of d; over these d it is like d^0.15 to d^0.35. What decides is d^½, which is too much.
        return Finding(needs[1].words, needs[1].of_dimension.high < 0.5 and needs[1].of_sparsity.high < 2)

    @control(l1_needs, "the largest L2 margin")
    def l2_needs_more(self, needs: dict[int, _Needs]) -> Finding:
        return self.l1_needs({1: needs[2]})

    @claim("the largest L2 margin needs O(kd) examples", says="needs O(kd) (§3.2.3)")
    def l2_needs(self, needs: dict[int, _Needs]) -> Finding:
        return Finding(needs[2].words, is_law(needs[2].of_dimension, 1, 0.5) and needs[2].of_sparsity.high < 1)

    @control(l2_needs, "the largest L1 margin")
    def l1_needs_less(self, needs: dict[int, _Needs]) -> Finding:
        return self.l2_needs({2: needs[1]})

    @claim(
        "what the largest L1 margin needs grows with k like k²",
        says="O(k²·log d) (§3.2.3), a bound",
        fails="The bound is not attained: it grows about like k, since (38) is far above the error.",
    )
    def l1_needs_by_sparsity(self, needs: dict[int, _Needs]) -> Finding:
        return Finding(needs[1].words, is_law(needs[1].of_sparsity, 2, 1))

    @passing(l1_needs_by_sparsity, "numbers that are made up, like k² with the scatter of these")
    def would_be_square(self, needs: dict[int, _Needs]) -> Finding:
        return self.l1_needs_by_sparsity({1: needs[1].made_up(2)})

    @claim(
        "what the largest L2 margin needs grows with k like k",
        says="O(kd) (§3.2.3), a bound",
        fails="The bound is not attained: it grows more slowly, since inputs in {±1}^d have hardly a direction of "
        "their own, and a classifier of largest L2 margin does not know a sparse teacher from a dense one.",
    )
    def l2_needs_by_sparsity(self, needs: dict[int, _Needs]) -> Finding:
        return Finding(needs[2].words, is_law(needs[2].of_sparsity, 1, 0.5))

    @passing(l2_needs_by_sparsity, "what it needs by d, in the place of k")
    def needs_by_dimension(self, needs: dict[int, _Needs]) -> Finding:
        found = self.l2_needs_by_sparsity({2: needs[2]._replace(by_sparsity=needs[2].by_dimension)})
        return Finding(f"like d^({needs[2].of_dimension})", found.holds)

    @claim(
        "a diagonal net goes from the error of the largest L2 margin to that of the largest L1 margin",
        says="the early phase has the largest L2 margin, the late one the largest L1 margin (§3.2.3)",
    )
    def net_turns(self, run: af.Run, errors_on_its_data: dict[int, float]) -> Finding:
        return _turn_finding(run, errors_on_its_data, float(run.curves["time"][-1]))

    @control(net_turns, "the same net at t = 1/2λ in the place of the end")
    def has_not_turned(self, run: af.Run, errors_on_its_data: dict[int, float]) -> Finding:
        return _turn_finding(run, errors_on_its_data, 0.5 / run.spec["penalty"]["strength"])


class _Needs(NamedTuple):
    """Examples for an error of 10 %, by d at k = 3 and by k at d = 40."""

    by_dimension: dict[int, float]
    by_sparsity: dict[int, float]

    @property
    def of_dimension(self) -> Interval:
        return power_law(list(self.by_dimension), list(self.by_dimension.values()))

    @property
    def of_sparsity(self) -> Interval:
        return power_law(list(self.by_sparsity), list(self.by_sparsity.values()))

    def made_up(self, power: float) -> _Needs:
        """Others that grow like a power of k, with the scatter of these about theirs."""
        k, n = np.log(list(self.by_sparsity)), np.log(list(self.by_sparsity.values()))
        scatter = np.std(n - np.polyval(np.polyfit(k, n, 1), k), ddof=2)
        drawn = n[0] + power * k + scatter * np.random.default_rng(0).standard_normal(len(k))
        return self._replace(by_sparsity=dict(zip(self.by_sparsity, np.exp(drawn), strict=True)))

    @property
    def words(self) -> str:
        by_d = ", ".join(f"{n:.0f} (d={d})" for d, n in self.by_dimension.items())
        by_k = ", ".join(f"{n:.0f} (k={k})" for k, n in self.by_sparsity.items())
        return (
            f"examples for an error of 10 %, k=3: {by_d}, like d^({self.of_dimension}); d={_WIDE}: {by_k}, like "
            f"k^({self.of_sparsity})"
        )


class _Trial(NamedTuple):
    """The error of a classifier of largest margin, what (35) allows on its training set, and the error of a guess."""

    error: float
    bound: float
    guess: float


def _trial(p: int, n: int, d: int, k: int, seed: int, simple: bool = False) -> _Trial:
    """One training set, with q half the teacher's margin; if `simple`, the complexity is left out of (35)."""
    X, y, teacher = _training_set(n, d, k, seed)
    w = _widest(p, X, y)
    q = 0.5 / k ** (1 / p)
    complexity = 0.0 if simple else _complexity_bound(p, X)
    bound = af.theory.bounds.margin_bound(_margins(p, X, y, w), q, complexity, _DELTA)
    return _Trial(_error(w, teacher, seed), bound, _error(np.roll(teacher, k), teacher, seed))


def _enough(p: int) -> int:
    """Examples with which the bound of Thm E.4 or E.5 is below the error of a guess."""
    return int((_bound(p, 1, _D, _K) / _BITES) ** 2) + 1


def _bites(p: int, k: int, d: int) -> int:
    """The first n at which that bound is below 1: every term of it is proportional to 1/√n."""
    return int(np.floor(_bound(p, 1, d, k) ** 2)) + 1


def _bound(p: int, n: int, d: int, k: int) -> float:
    """(38) or (40)."""
    bounds = {1: af.theory.bounds.l1_margin_bound, 2: af.theory.bounds.l2_margin_bound}
    return bounds[p](n, d, k, _DELTA)


def _complexity(p: int, X: np.ndarray) -> float:
    """The Rademacher complexity of {x ↦ ⟨w, x⟩: ‖w‖_p ≤ 1}, by all signs: the sup is the dual norm."""
    n, dual = len(X), {1: np.inf, 2: 2}[p]
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=n)))
    return float(np.mean(np.linalg.norm(signs @ X / n, dual, axis=1)))


def _complexity_bound(p: int, X: np.ndarray) -> float:
    """(36) or (37)."""
    bounds = {1: af.theory.bounds.rademacher_l1_bound, 2: af.theory.bounds.rademacher_l2_bound}
    return bounds[p](X)


def _widest(p: int, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The classifier of largest Lp margin."""
    programs = {1: af.theory.max_l1_margin, 2: af.theory.max_l2_margin}
    return programs[p](X, y)


def _margins(p: int, X: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The margins of the examples, w of norm 1."""
    return y * (X @ w) / np.linalg.norm(w, p)


def _training_set(n: int, d: int, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and the teacher, drawn by the task itself."""
    data = af.tasks.SparseClassification(n=n, d=d, sparsity=k, n_test=1).draw(np.random.default_rng([seed, n, d]))
    return data.inputs, data.targets, data.truth


def _error(w: np.ndarray, teacher: np.ndarray, seed: int) -> float:
    """The share of 5000 fresh inputs with y*(x)·⟨w, x⟩ ≤ 0."""
    fresh = 1.0 - 2.0 * np.random.default_rng([seed, 1]).integers(0, 2, (5000, len(w)), dtype=np.int8)
    return float(np.mean(np.sign(fresh @ teacher) * (fresh @ w) <= 0))


def _complexity_finding(factors: dict[int, float]) -> Finding:
    """Rademacher complexities over (36) and (37), these times a factor."""
    rng, n = np.random.default_rng(0), 12
    inputs = [1.0 - 2.0 * rng.integers(0, 2, (n, d)) for d in _DIMENSIONS[2]]
    shares = {p: [_complexity(p, X) / (factors[p] * _complexity_bound(p, X)) for X in inputs] for p in _NORMS}
    return Finding(
        f"over the bound, n={n} and d in {_DIMENSIONS[2]}, by all 2ⁿ signs: "
        + "; ".join(f"L{p} " + ", ".join(f"{share:.4f}" for share in group) for p, group in shares.items()),
        all(max(group) <= 1 for group in shares.values()),
    )


def _margin_finding(draws: int, programs: dict[int, int]) -> Finding:
    """The least Lp margin, k = 3, of the classifiers that `programs` names by p, over training sets."""
    sets = [_training_set(40, 40, 3, seed) for seed in range(draws)]
    l1, l2 = (min(_margins(p, X, y, _widest(programs[p], X, y)).min() for X, y, _ in sets) for p in _NORMS)
    return Finding(
        f"k=3, d=40, n=40, least of {draws} training sets: {l1:.4f} (L1, 1/k = {1 / 3:.4f}), "
        f"{l2:.4f} (L2, 1/√k = {3**-0.5:.4f})",
        l1 >= 1 / 3 - 1e-7 and l2 >= 3**-0.5 - 1e-7,
    )


def _probable(errors: list[float], bounds: list[float]) -> Finding:
    """Whether errors are below their bounds with a probability of 1 − δ or more, at 95 % confidence."""
    below = share(sum(error <= bound for error, bound in zip(errors, bounds, strict=True)), len(errors))
    return Finding(
        f"errors of up to {max(errors):.2g} below bounds of {min(bounds):.2g} or more in a share of {below}, for "
        f"{1 - _DELTA:g} or more; {len(errors)} training sets",
        below.low >= 1 - _DELTA,
    )


def _error_finding(p: int, errors: list[float]) -> Finding:
    """Errors against (38) or (40)."""
    n = _enough(p)
    found = _probable(errors, [_bound(p, n, _D, _K)] * len(errors))
    return Finding(
        f"k={_K}, d={_D}, n={n}: {found.measured}; the bound is below 1 from n={_bites(p, _K, _D)} on, for k=3 and "
        f"d=10⁵ "
        f"(Fig. 1a, n=256) from n={float(_bites(p, 3, 100_000)):.2g}",
        found.holds,
    )


def _turn_finding(run: af.Run, errors: dict[int, float], late: float) -> Finding:
    """Test errors between the fit and 1/2λ and at a later time, against those of the two programs."""
    wrong, fit = 1 - run.curves["test_accuracy"], run.verdict.t_fit or np.inf
    early = float(wrong.sel(time=slice(fit, 0.5 / run.spec["penalty"]["strength"])).mean())
    end = float(wrong.sel(time=late, method="nearest"))
    # Test errors are of 4000 inputs: two standard deviations at ½ are 0.016 for each of the two.
    return Finding(
        f"test error {early:.3f} between the fit and t = 1/2λ, {end:.3f} at t={late:g}; the programs' are "
        f"{errors[2]:.3f} (L2) and {errors[1]:.3f} (L1)",
        abs(early - errors[2]) <= 0.03 and abs(end - errors[1]) <= 0.03,
    )


def _needed(p: int, k: int, d: int, sets: int, level: float = 0.1) -> float:
    """How many examples bring the mean error down to `level`, interpolated between sizes a quarter apart."""
    place = bisect.bisect_left(_SIZES, True, key=lambda n: _mean_error(p, k, d, n, sets) <= level)
    before, after = _SIZES[place - 1 : place + 1]
    errors = [_mean_error(p, k, d, n, sets) for n in (before, after)]
    return float(np.interp(-level, [-errors[0], -errors[1]], [before, after]))


@functools.cache
def _mean_error(p: int, k: int, d: int, n: int, sets: int = 6) -> float:
    """The error over some training sets."""
    drawn = [(seed, *_training_set(n, d, k, seed)) for seed in range(1000, 1000 + sets)]
    return float(np.mean([_error(_widest(p, X, y), teacher, seed) for seed, X, y, teacher in drawn]))


def _styles() -> dict[int, dict]:
    return {1: af.plot.TEST, 2: af.plot.TRAIN}


def _draw_path(ax: Axes, run: af.Run, errors: dict[int, float]) -> None:
    """The test error of the net over time, and those of the two classifiers."""
    curves = run.curves.isel(time=slice(1, None))
    ax.plot(curves["time"], 1 - curves["test_accuracy"], color="0.2", label="diagonal net")
    for p, style in _styles().items():
        ax.axhline(errors[p], **style, label=f"largest $L^{p}$ margin")
    ax.set(ylabel="test error", ylim=(-0.02, 0.55))
    ax.set_title(f"k = 3, d = {run.spec['task']['d']}, n = {run.spec['task']['n']}", pad=18)  # above the phases
    af.plot.log_time_axes(ax)
    af.plot.mark_phases(ax, run.verdict)


def _draw_errors(ax: Axes, d: int, sizes: tuple[int, ...]) -> None:
    """Errors and their bounds against the number of examples."""
    wide = np.geomspace(sizes[0], 2e4, 60)
    for p, style in _styles().items():
        errors = [_mean_error(p, 3, d, n) for n in sizes]
        ax.plot(sizes, errors, **style, marker="o", mfc="none", label=f"$L^{p}$, measured")
        bound = [_bound(p, round(n), d, 3) for n in wide]
        ax.plot(wide, bound, color=style["color"], ls=style["linestyle"], lw=1.0, label=f"$L^{p}$, bound")
    ax.axhline(1, color="0.6", lw=0.8)
    ax.set(xscale="log", ylim=(0, 30), xlabel="examples n", ylabel="test error, and its bound (log scale above 1)")
    ax.set_yscale("symlog", linthresh=1.0)
    ax.set_title(f"k = 3, d = {d}, δ = {_DELTA:g}")


def _draw_needed(ax: Axes, counts: dict[int, dict[int, float]], name: str) -> None:
    """The examples that are needed against the dimension, beside d and log d, or the sparsity, beside k and k²."""
    for p, style in _styles().items():
        ax.loglog(list(counts[p]), list(counts[p].values()), **style, marker="o", mfc="none", label=f"$L^{p}$")
    knobs = list(counts[1])
    fine, first = np.geomspace(knobs[0], knobs[-1], 30), {p: count[knobs[0]] for p, count in counts.items()}
    ax.plot(fine, first[2] * fine / fine[0], "k:", lw=1.0, label=f"∝ {name}")
    slow = np.log(fine) / np.log(fine[0]) if name == "d" else fine**2
    ax.plot(fine, first[1] * slow, "k-.", lw=1.0, label="∝ log d" if name == "d" else "∝ k²")
    ax.set_xticks(knobs, [f"{knob}" for knob in knobs])
    ax.set_yticks([10, 20, 40, 100, 200], ["10", "20", "40", "100", "200"])
    ax.set_ylim(5, 500)
    ax.minorticks_off()
