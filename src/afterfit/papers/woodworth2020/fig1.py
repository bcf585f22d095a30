"""Fig. 1: sparse regression from the kernel to the rich regime, and the largest scale that still recovers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once, passing, run_all
from afterfit.papers._measure import power_law, relative_distance
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.ends import end
from afterfit.papers.woodworth2020.recovery import (
    THRESHOLD,
    Posed,
    as_foretold,
    log_alphas,
    log_scale,
    needed,
    parameters,
    recovery_scale,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Fig1"]

_NOISE = 0.01  # §4, "Generalization": y ~ N(⟨β*, x⟩, 0.01), entries of β* equal to 1/√r*
_SIDE = 1.5  # flows start this many times below and above the largest α that recovers
_EXACT = 1e-5  # each parameter is followed to 10⁻⁹ of itself
_RICH, _KERNEL = -600.0, 4.0  # log₁₀ α² at the two ends: α = 10⁻³⁰⁰ and 10²
_CURVE = np.linspace(_KERNEL, -16.0, 41)  # log₁₀ α² of the curves, a quarter of a decade of α apart
_LEVELS = (1e-1, 1e-2, 1e-3, 1e-4)  # of the excess L1 norm, relative to the least
_Progress = bool | Callable[[float], None] | None
_L1: dict[str, Any] = {"color": "#0072B2", "ls": "-", "lw": 1.8}  # blue and red, as in the paper
_L2: dict[str, Any] = {"color": "#D55E00", "ls": "--", "lw": 1.8}


class _Setting(NamedTuple):
    """What the paper leaves out: d, r*, the N of (a) and (b), the N of (c), the draws, the N confirmed by flows."""

    d: int
    sparsity: int
    n: int
    samples: tuple[int, ...]
    seeds: range
    confirmed: tuple[int, ...]

    def task(self, n: int | None = None) -> af.tasks.SparseRegression:
        return af.tasks.SparseRegression(
            n=n or self.n, d=self.d, sparsity=self.sparsity, noise_variance=_NOISE, n_test=200
        )


_SETTINGS = {
    "paper": _Setting(1000, 5, 100, (*range(40, 90, 5), 100, 120), range(7), (60, 80, 100)),
    "quick": _Setting(200, 2, 40, (12, 16, 20, 28, 40), range(10, 15), (40,)),
}


class _Draw(NamedTuple):
    """A draw with N samples: the errors of the least norms, and log₁₀ α² of the largest scale that recovers."""

    n: int
    seed: int
    by_l1: float
    largest: float
    largest_noisy: float  # with the noise of a new label counted in the error


class Fig1(Entry):
    paper, name = PAPER, "fig1"
    title = "Sparse regression recovers from small scales only, the smaller the fewer the samples"
    where = "Fig. 1, §4"
    about = (
        "A diagonal net w₊² − w₋² from w₊ = w₋ = α is fitted to N noisy labels of a sparse β*. (a) The population "
        "error of the limit falls from that of the least L2 norm to that of the least L1 norm as α falls, (b) as its "
        "norms go from the one to the other. (c) The largest α whose limit has an error of at most 0.025, for each N:"
        " a root along α of the error of the exact argmin Q_α, by draw. Flows of the parameters, which know nothing "
        "of Q, are put on both sides of it. The paper gives neither d nor r* nor N: here d = 1000, r* = 5 and N = 100"
        " in (a) and (b), the values of public code for later work that names its data after this paper; N in (c) and"
        " α are ours. The population error is ‖β − β*‖², that of recovering the plant (the words of Fig. 3); with the"
        " noise of a new label counted in, 0.01, more samples are needed and the picture is the same: (c) says both."
    )
    notes = (
        "For Gaussian x the error of the least L2 norm is 1 − N/d + 0.01·N/(d − N − 1) in the mean, never below 0.19 "
        "for N ≤ d: it is N > d, least squares with 0.01·d/(N − d − 1), that recovers, from N = 1.4d on."
    )

    def runs(self, scale: str) -> dict[str, dict[float, af.Experiment]]:
        task, seed = _SETTINGS[scale].task(), _SETTINGS[scale].seeds[0]
        alphas = (0.001, 0.01, 0.1, 1.0) if scale == "paper" else (0.01, 0.3)
        return {"flows": {alpha: parameters(task, 2, 2 * float(np.log10(alpha)), seed) for alpha in alphas}}

    def picture(
        self,
        flows: Mapping[float, af.Run],
        posed: list[Posed],
        curves: list[np.ndarray],
        least: _Least,
        draws: list[_Draw],
        sides: Mapping[str, af.Run],
    ) -> Figure:
        figure = af.plot.Figure(figsize=(12.5, 9.6), layout="constrained")
        (a, b), (c, last) = figure.subplots(2, 2)
        _show_errors(a, posed, curves, least, flows)
        _show_norms(b, curves, least, flows)
        _show_largest(c, draws, sides)
        _show_flows(last, flows)
        af.plot.legend_below(a, b, c, last)
        return figure

    @once
    def posed(self, scale: str) -> list[Posed]:
        """The draws of (a) and (b)."""
        setting = _SETTINGS[scale]
        return [Posed.draw(setting.task(), seed) for seed in setting.seeds]

    @once
    def curves(self, posed: list[Posed]) -> list[np.ndarray]:
        """argmin Q_α over the scales `_CURVE`, by draw."""
        return [np.array([one.minimiser(log_c) for log_c in _CURVE]) for one in posed]

    @once
    def least(self, posed: list[Posed]) -> _Least:
        return _Least.of(posed)

    @once
    def by_l2(self, scale: str) -> list[float]:
        """The errors of the least L2 norm on many other draws."""
        task = _SETTINGS[scale].task().replace(n_test=1)
        many = (Posed.draw(task, seed) for seed in range(1000, 1200))
        return [one.error(af.theory.min_l2(one.X, one.y)) for one in many]

    @once
    def draws(self, scale: str) -> list[_Draw]:
        """The draws of (c)."""
        setting = _SETTINGS[scale]
        return [_draw(setting.task(n), n, seed) for n in setting.samples for seed in setting.seeds]

    @once
    def deeper(self, scale: str, draws: list[_Draw]) -> list[_Draw]:
        """The draws of three sample sizes with the largest scales of depth 3, for controls."""
        setting = _SETTINGS[scale]
        return [
            draw._replace(largest=recovery_scale(Posed.draw(setting.task(draw.n), draw.seed), 3))
            for draw in draws
            if draw.n in _steps(draws)
        ]

    @once
    def sides(self, scale: str, draws: list[_Draw], progress: _Progress) -> dict[str, af.Run]:
        """Flows from below and above the largest α that recovers, on the first draw that has one."""
        setting, experiments = _SETTINGS[scale], {}
        for n in setting.confirmed:
            draw = next(draw for draw in draws if draw.n == n and np.isfinite(draw.largest))
            for side in (1 / _SIDE, _SIDE):
                log_c = draw.largest + 2 * np.log10(side)
                experiments[f"N={n} {'below' if side < 1 else 'above'}"] = parameters(
                    setting.task(n), 2, log_c, draw.seed, until=20.0 if n >= 80 else 60.0
                )
        return run_all(experiments, f"{self.id}: sides", progress)

    @once
    def samples(self, scale: str) -> list[_Needed]:
        """How many samples the least norms need, over d and r*."""
        return _samples(scale)

    @claim(
        "(a): the population error falls with α, from no generalisation to recovery",
        says="generalization will tend to improve as α decreases",
    )
    def error_falls(self, posed: list[Posed], curves: list[np.ndarray]) -> Finding:
        return _falls(np.array([list(map(one.error, curve)) for one, curve in zip(posed, curves, strict=True)])[:, ::4])

    @control(error_falls, "a dense plant, r* = d, which the least L1 norm does not find either")
    def dense_does_not(self, scale: str) -> Finding:
        setting = _SETTINGS[scale]
        dense = setting.task().replace(sparsity=setting.d)
        return _falls(np.array([Posed.draw(dense, seed).errors(_CURVE[::4]) for seed in setting.seeds]))

    @claim(
        "(a): the error ends at that of the least L2 norm, which does not generalise at all, and at that of the least "
        "L1 norm, which does",
        says="the kernel regime solution would not generalize at all with this sample size; β*_L1 does",
        changed="the mean of the least L2 norm's error was held against its formula on the same draws, to 3 standard "
        "errors, which five draws do not bear (0.749 ± 0.016 against 0.803): that is a claim of its own on 200 other "
        "draws, and this one is measured on new draws at quick scale",
    )
    def ends_at_the_norms(self, posed: list[Posed], least: _Least) -> Finding:
        return _ends(posed, least, _RICH, _KERNEL)

    @control(ends_at_the_norms, "α = 0.01 and 0.1, in between")
    def not_in_between(self, posed: list[Posed], least: _Least) -> Finding:
        return _ends(posed, least, -4.0, -2.0)

    @claim(
        "(a): the error of the least L2 norm is 1 − N/d + 0.01·N/(d − N − 1) in the mean: of β*, the share in the rows "
        "of X is learnt",
        says="the kernel regime solution would not generalize at all with this sample size",
    )
    def l2_learns_a_share(self, by_l2: list[float], scale: str) -> Finding:
        n, d = _SETTINGS[scale].n, _SETTINGS[scale].d
        return _learns(by_l2, 1 - n / d + _NOISE * n / (d - n - 1))

    @control(l2_learns_a_share, "nothing learnt: an error of ‖β*‖² = 1")
    def not_nothing(self, by_l2: list[float]) -> Finding:
        return _learns(by_l2, 1.0)

    @claim("flows of the parameters end on the curves of (a) and (b)", says="Thm 1: the limit is argmin Q_α")
    def flows_on_curves(self, flows: Mapping[float, af.Run], sides: Mapping[str, af.Run]) -> Finding:
        return _on_curves([*flows.values(), *sides.values()], 0.0)

    @control(flows_on_curves, "argmin Q at 2α² in place of α²")
    def off_other_curves(self, flows: Mapping[float, af.Run], sides: Mapping[str, af.Run]) -> Finding:
        return _on_curves([*flows.values(), *sides.values()], float(np.log10(2)))

    @claim(
        "(b): ‖β_α‖₂ − ‖β*_L2‖₂ falls like α⁻⁸",
        says="polynomially large α suffices to approximate β*_L2 to a very high degree of accuracy",
    )
    def kernel_rate(self, posed: list[Posed], least: _Least) -> Finding:
        return _kernel_rate(posed, least, lambda one, log_c: one.minimiser(log_c))

    @control(kernel_rate, "a start that is not uniform, from which the flow goes to another L2 norm")
    def no_rate_of_another_norm(self, posed: list[Posed], least: _Least) -> Finding:
        shape = np.geomspace(0.5, 2.0, len(posed[0].planted))
        return _kernel_rate(
            posed, least, lambda one, log_c: af.theory.Q(10 ** (log_c / 2), shape).minimise(one.X, one.y)
        )

    @claim(
        "(b): ‖β_α‖₁ goes to ‖β*_L1‖₁ slower than any power of α over 10⁻¹ to 10⁻⁴ of it: each decade costs more "
        "decades of α than the last",
        says="exponentially small α is needed to approximate β*_L1",
    )
    def rich_rate(self, posed: list[Posed]) -> Finding:
        return _rich_rate(posed, 2)

    @control(rich_rate, "depth 3, which approaches it polynomially")
    def polynomial_with_depth(self, posed: list[Posed]) -> Finding:
        return _rich_rate(posed, 3)

    @claim(
        "(c): as the least L1 norm comes to the edge of recovery, α must become extremely small: log(1/α²) diverges "
        "like a power of its margin",
        says="as N approaches the minimum number of samples for which β*_L1 generalizes, α must become extremely small",
        fails={
            "quick": "24 draws of a small problem scatter too much for a power: −0.58 in [−1.04, −0.12]. That α "
            "becomes extremely small is seen there too: see the next claim.",
        },
    )
    def diverges(self, draws: list[_Draw]) -> Finding:
        return _diverges(draws)

    @control(diverges, "the largest scales that recover at depth 3")
    def deeper_does_not(self, deeper: list[_Draw]) -> Finding:
        return _diverges(deeper)

    @passing(diverges, "scales that are made up, of power −1 in the margins that were measured")
    def would_diverge(self, draws: list[_Draw]) -> Finding:
        inverse = [draw._replace(largest=-0.1 / max(THRESHOLD - draw.by_l1, 1e-9)) for draw in draws]
        return _diverges(inverse)

    @claim(
        "(c): a few more samples, and a much larger α suffices",
        says="much easier if the number of samples is only slightly larger, and much larger α suffices",
    )
    def eases(self, draws: list[_Draw]) -> Finding:
        found = _eases(draws)
        noisy = {n: np.median([draw.largest_noisy for draw in draws if draw.n == n]) / 2 for n in _steps(draws)[1:]}
        said = ", ".join(f"10^{log:.3g} (N={n})" for n, log in noisy.items())
        return Finding(f"{found.measured}; with the noise of a label counted in the error {said}", found.holds)

    @control(eases, "the largest scales that recover at depth 3")
    def deeper_needs_no_ease(self, deeper: list[_Draw]) -> Finding:
        return _eases(deeper)

    @claim(
        "(c): flows of the parameters recover from just below the largest α, and not from just above it",
        says="the largest α such that the gradient flow solution has population error at most 0.025",
    )
    def confirmed(self, sides: Mapping[str, af.Run]) -> Finding:
        return as_foretold(sides, recovery_scale, _alpha)

    @control(confirmed, "the largest α for which argmin R_α (8), the nearest solution to the start, recovers")
    def not_by_distance(self, sides: Mapping[str, af.Run]) -> Finding:
        # R_α is Q⁴ at α² in place of α⁴.
        return as_foretold(sides, lambda posed, _: recovery_scale(posed, 4), _alpha)

    @claim("(c): the least L1 norm needs N = O(r*·log d) samples", says="N = Ω(r* log d) samples suffices for β*_L1")
    def l1_needs_few(self, samples: list[_Needed]) -> Finding:
        return _needs([(one.r, one.d, one.by_l1) for one in samples])

    @control(l1_needs_few, "the samples that the least L2 norm needs")
    def l2_needs_more(self, samples: list[_Needed]) -> Finding:
        return _needs([(one.r, one.d, one.by_l2) for one in samples])

    @claim(
        "(c): the least L2 norm needs N of order d",
        says="N = Ω(d) samples would be needed",
        changed="at quick scale there were three sizes, whose interval of the power, [0.80, 1.21], was wider than what "
        "is asked for; there are five, on new draws",
    )
    def l2_needs_d(self, samples: list[_Needed]) -> Finding:
        return _needs_d([(one.d, one.by_l2) for one in samples])

    @control(l2_needs_d, "the samples that the least L1 norm needs")
    def l1_does_not(self, samples: list[_Needed]) -> Finding:
        return _needs_d([(one.d, one.by_l1) for one in samples])


class _Least(NamedTuple):
    """The solutions of least L1 and of least L2 norm, by draw."""

    l1: list[np.ndarray]
    l2: list[np.ndarray]

    @classmethod
    def of(cls, posed: Iterable[Posed]) -> _Least:
        draws = list(posed)
        return cls([af.theory.min_l1(one.X, one.y) for one in draws], [af.theory.min_l2(one.X, one.y) for one in draws])


class _Needed(NamedTuple):
    """The fewest samples with which the least norms recover in most draws."""

    r: int
    d: int
    by_l1: int
    by_l2: int


def _draw(task: af.tasks.SparseRegression, n: int, seed: int) -> _Draw:
    posed = Posed.draw(task, seed)
    by_l1 = posed.error(af.theory.min_l1(posed.X, posed.y))
    return _Draw(n, seed, by_l1, recovery_scale(posed), recovery_scale(posed, level=THRESHOLD - _NOISE))


def _falls(errors: np.ndarray) -> Finding:
    """By draw and decade of α, from 10² to 10⁻⁸: to a thirtieth, and never up by more than a tenth of 0.025."""
    logs, rise = _CURVE[::4] / 2, float(np.max(errors - np.minimum.accumulate(errors, axis=1)))
    share = float(np.max(errors[:, -1] / errors[:, 0]))
    return Finding(
        f"{len(errors)} draws, mean error "
        + ", ".join(f"{np.mean(errors[:, k]):.3g} (α=10^{logs[k]:.0f})" for k in (0, 2, 3, 4, 5, 10))
        + f"; at the end at most {share:.2g} of the first, on the way never up by more than {rise:.1g}",
        share <= 1 / 30 and rise <= 0.1 * THRESHOLD,
    )


def _ends(posed: list[Posed], least: _Least, rich: float, kernel: float) -> Finding:
    """The errors at two scales beside those of the least norms, to 2 % of 0.025.

    The least L1 norm recovers, and the least L2 norm keeps 70 % or more of the error of β = 0, ‖β*‖² = 1.
    """
    by_l1, by_l2 = (np.array([one.error(b) for one, b in zip(posed, group, strict=True)]) for group in least)
    off_rich = np.max(np.abs([one.error(one.minimiser(rich)) for one in posed] - by_l1))
    off_kernel = np.max(np.abs([one.error(one.minimiser(kernel)) for one in posed] - by_l2))
    return Finding(
        f"{len(posed)} draws: α=10^{rich / 2:g} is within {off_rich:.1g} of the least L1 norm's error, "
        f"{by_l1.min():.2g} to {by_l1.max():.2g}; α=10^{kernel / 2:g} within {off_kernel:.1g} of the least L2 norm's, "
        f"{by_l2.min():.3f} to {by_l2.max():.3f}, of 1 at β=0",
        max(off_rich, off_kernel) <= 0.02 * THRESHOLD and by_l1.max() <= THRESHOLD and by_l2.min() >= 0.7,
    )


def _learns(errors: list[float], expected: float) -> Finding:
    """The mean of errors beside a number, to three standard errors."""
    mean, standard = float(np.mean(errors)), float(np.std(errors, ddof=1) / np.sqrt(len(errors)))
    return Finding(
        f"{len(errors)} draws: {mean:.4f} ± {standard:.4f}, expected {expected:.4f}",
        abs(mean - expected) <= 3 * standard,
    )


def _on_curves(runs: Sequence[af.Run], shift: float) -> Finding:
    """The ends of flows beside argmin Q at scales that are shifted."""
    gaps = [relative_distance(end(run), Posed.of(run).minimiser(log_scale(run) + shift)) for run in runs]
    return Finding(
        f"{len(runs)} flows, α={min(10 ** (log_scale(run) / 2) for run in runs):.2g} to "
        f"{max(10 ** (log_scale(run) / 2) for run in runs):.2g}: relative distance at most {max(gaps):.1g}, "
        f"at least {min(gaps):.1g}",
        max(gaps) <= _EXACT,
    )


def _excess_l2(beta: np.ndarray, least: np.ndarray) -> float:
    """‖β‖₂ − ‖β*‖₂, of which nothing cancels: β − β* is orthogonal to β*."""
    return float(np.sum((beta - least) ** 2) / (np.linalg.norm(beta) + np.linalg.norm(least)))


def _excess_l1(beta: np.ndarray, least: np.ndarray) -> float:
    return float(np.abs(beta).sum() - np.abs(least).sum())


def _kernel_rate(posed: list[Posed], least: _Least, minimiser: Callable[[Posed, float], np.ndarray]) -> Finding:
    """From α = 1 to 10: the next term of arcsinh moves β by α⁻⁴, across β*, and so its norm by the square of that."""
    log_c = np.linspace(0, 2, 5)
    excess = np.array(
        [[_excess_l2(minimiser(one, at), b) for at in log_c] for one, b in zip(posed, least.l2, strict=True)]
    )
    law = power_law(np.tile(10 ** (log_c / 2), len(posed)), (excess / excess[:, :1]).ravel())
    return Finding(
        f"{len(posed)} draws, α from 1 to 10: {np.mean(excess[:, 0]):.1g} to {np.mean(excess[:, -1]):.1g}, like α to "
        f"the power {law}",
        max(abs(number + 8) for number in law) <= 0.1,
    )


def _rich_rate(posed: list[Posed], depth: int) -> Finding:
    """Roots in α of the excess relative to the least; by a power of α each decade would cost the same.

    Each of them at least 1.5 times the one before, in the mean of log α over draws.
    """
    logs = log_alphas(posed, depth, _LEVELS)
    costs = -np.diff(logs)
    return Finding(
        f"{len(posed)} draws, depth {depth}: "
        + ", ".join(f"{level:g} from α=10^{log:.3g} on" for level, log in zip(_LEVELS, logs, strict=True))
        + f": a decade costs {', '.join(f'{cost:.2g}' for cost in costs)} decades of α",
        bool(np.all(np.isfinite(logs))) and bool(np.all(costs[1:] >= 1.5 * costs[:-1])),
    )


def _diverges(draws: list[_Draw]) -> Finding:
    """The power of log(1/α²) in 0.025 less the error of the least L1 norm: −1 or so if that is what is left of it.

    The error comes down to the limit like a power of 1/log(1/α²), so that the power is that of its inverse: it counts
    as divergence where all of the interval is below −0.5. The margins span a factor of 4 at least.
    """
    found = [draw for draw in draws if draw.by_l1 < THRESHOLD and -np.inf < draw.largest < 0]
    margins = np.array([THRESHOLD - draw.by_l1 for draw in found])
    law = power_law(margins, [-draw.largest * np.log(10) for draw in found])
    smallest = min(found, key=lambda draw: draw.largest)
    return Finding(
        f"{len(found)} draws that recover, margins {margins.min():.2g} to {margins.max():.2g}: log(1/c) like the "
        f"margin to the power {law}; the smallest c=10^{smallest.largest:.3g} (N={smallest.n})",
        law.high <= -0.5 and margins.max() >= 4 * margins.min(),
    )


def _steps(draws: Sequence[_Draw]) -> tuple[int, int, int]:
    """The fewest samples with which the least L1 norm recovers in most draws, and the first N 30 and 60 % above."""
    sizes = sorted({draw.n for draw in draws})
    first = next(n for n in sizes if np.median([draw.by_l1 for draw in draws if draw.n == n]) <= THRESHOLD)
    return first, *(next(n for n in sizes if n >= more * first) for more in (1.3, 1.6))  # type: ignore[return-value]


def _median_largest(draws: Iterable[_Draw], n: int) -> float:
    """log₁₀ of the median scale; −∞ if most draws do not recover."""
    return float(np.median([draw.largest for draw in draws if draw.n == n]))


def _eases(draws: list[_Draw]) -> Finding:
    """30 % more samples than the fewest are worth a factor of 10 in α or more, twice the decades of the next 30 %.

    Scales are c = α^D and their decades halved, as if the depth were 2.
    """
    steps = _steps(draws)
    logs = [_median_largest(draws, n) / 2 for n in steps]
    gains = np.diff(np.maximum(logs, _RICH / 2))
    return Finding(
        "median α = √c over draws "
        + ", ".join(f"10^{log:.3g} (N={n})" for n, log in zip(steps, logs, strict=True))
        + f": {gains[0]:.2g} decades, then {gains[1]:.2g}",
        gains[0] >= 1 and gains[0] >= 2 * gains[1] > 0,
    )


def _alpha(run: af.Run) -> str:
    return f"α={run.spec['init']['scale']:.3g}"


def _samples(scale: str) -> list[_Needed]:
    paper = ((125, 5), (250, 5), (500, 5), (1000, 5), (500, 2), (500, 10))
    sizes = paper if scale == "paper" else ((64, 2), (96, 2), (128, 2), (192, 2), (256, 2))
    seeds = range(30, 35)  # none of those above
    found = []
    for d, r in sizes:
        task = af.tasks.SparseRegression(n=1, d=d, sparsity=r, noise_variance=_NOISE, n_test=1)
        few = min(int(4 * r * np.log(d)), d)
        found.append(
            _Needed(r, d, needed(af.theory.min_l1, task, seeds, few), needed(_least_squares, task, seeds, 3 * d))
        )
    return found


def _least_squares(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The least squares of least L2 norm."""
    return np.linalg.lstsq(X, y, rcond=None)[0]


def _needs(sizes: Sequence[tuple[int, int, int]]) -> Finding:
    """The numbers are of one size in units of r*·log d: the largest at most 1.5 times the smallest."""
    units = [n / (r * np.log(d)) for r, d, n in sizes]
    return Finding(
        ", ".join(f"{n} (r*={r}, d={d})" for r, d, n in sizes)
        + f": {min(units):.2f} to {max(units):.2f} times r*·log d",
        max(units) <= 1.5 * min(units),
    )


def _needs_d(sizes: Sequence[tuple[int, int]]) -> Finding:
    """The power of d is 1, to 0.1; least squares have an error of 0.01·d/(N − d − 1), so N is 1.4d + 1 in the mean."""
    law = power_law([d for d, _ in sizes], [n for _, n in sizes])
    return Finding(
        ", ".join(f"{n} (d={d})" for d, n in sizes) + f": like d to the power {law}",
        max(abs(number - 1) for number in law) <= 0.1,
    )


def _band(ax: Axes, values: np.ndarray, style: Mapping[str, Any], label: str) -> None:
    """The median over draws, in a band from the least to the largest."""
    x = 10 ** (_CURVE / 2)
    ax.plot(x, np.median(values, axis=0), **style, label=label)
    ax.fill_between(x, values.min(axis=0), values.max(axis=0), color=style["color"], alpha=0.2, lw=0)


def _show_errors(
    ax: Axes, posed: list[Posed], curves: list[np.ndarray], least: _Least, flows: Mapping[float, af.Run]
) -> None:
    errors = np.array([list(map(one.error, curve)) for one, curve in zip(posed, curves, strict=True)])
    _band(ax, errors, {"color": "#222222", "lw": 1.8}, r"$\mathrm{argmin}\,Q_\alpha$, median and range")
    for group, style, name in ((least.l1, _L1, r"least $\ell_1$ norm"), (least.l2, _L2, r"least $\ell_2$ norm")):
        error = np.median([one.error(b) for one, b in zip(posed, group, strict=True)])
        ax.axhline(error, **{**style, "lw": 1.1}, label=name)
    ax.axhline(THRESHOLD, color="0.5", ls=":", lw=1.2, label=f"{THRESHOLD}")
    ends = [Posed.of(run).error(end(run)) for run in flows.values()]
    ax.plot(list(flows), ends, "ko", mfc="none", label="flows of the parameters, first draw")
    ax.set(xscale="log", yscale="log", xlabel=r"scale $\alpha$", ylabel=r"population error $\|\beta-\beta^*\|^2$")
    ax.set_title("(a)", loc="left")


def _show_norms(ax: Axes, curves: list[np.ndarray], least: _Least, flows: Mapping[float, af.Run]) -> None:
    for group, excess, style, name, marker in (
        (least.l1, _excess_l1, _L1, r"$\|\beta_\alpha\|_1-\|\beta^*_{\ell_1}\|_1$", "o"),
        (least.l2, _excess_l2, _L2, r"$\|\beta_\alpha\|_2-\|\beta^*_{\ell_2}\|_2$", "s"),
    ):
        values = np.array([[excess(beta, b) for beta in curve] for curve, b in zip(curves, group, strict=True)])
        _band(ax, values, style, name)
        ends = [excess(end(run), group[0]) for run in flows.values()]
        ax.plot(list(flows), ends, marker, mfc="none", color=style["color"])
    far = np.array([1.0, 10.0])
    at_one = float(np.median(values, axis=0)[np.argmin(np.abs(_CURVE))])
    ax.plot(far, 4 * at_one * far**-8.0, color="0.7", lw=3, zorder=1, label=r"$\propto\alpha^{-8}$")
    ax.set(xscale="log", yscale="log", ylim=(1e-12, 20), xlabel=r"scale $\alpha$", ylabel="excess norm")
    ax.set_title("(b), markers are flows", loc="left")


def _show_largest(ax: Axes, draws: list[_Draw], sides: Mapping[str, af.Run]) -> None:
    sizes = sorted({draw.n for draw in draws})
    first = _steps(draws)[0]
    for field, style, name in (
        ("largest", {"color": "#222222", "marker": "o", "ls": "-"}, "median over draws"),
        ("largest_noisy", {"color": "0.55", "marker": "s", "ls": "--"}, "with the noise counted in"),
    ):
        medians = np.array([np.median([getattr(d, field) for d in draws if d.n == n]) for n in sizes]) / 2
        seen = np.isfinite(medians)
        ax.plot(np.array(sizes)[seen], medians[seen], ms=4, lw=1.6, label=name, **style)  # type: ignore[arg-type]
    each = [draw for draw in draws if np.isfinite(draw.largest)]
    ax.plot([d.n for d in each], [d.largest / 2 for d in each], ".", color="#0072B2", ms=4, label="each draw")
    for label, run in sides.items():
        posed = Posed.of(run)
        recovers = posed.error(end(run)) <= THRESHOLD
        ax.plot(
            len(posed.y),
            log_scale(run) / 2,
            "v" if recovers else "^",
            color="#D55E00",
            ms=7,
            mfc="#D55E00" if recovers else "none",
            ls="",
            label={"below": "flow that recovers", "above": "flow that does not"}[label.split()[-1]]
            if label.startswith(next(iter(sides)).split()[0])
            else None,
        )
    ax.axvline(first, color="0.3", ls="--", lw=1.2, label=rf"needed by least $\ell_1$ norm: $N={first}$")
    ax.set_yscale("symlog", linthresh=1, linscale=0.3)
    ax.set(ylim=(-300, 0), xlabel=r"samples $N$", ylabel=r"$\log_{10}$ of the largest $\alpha$ that recovers")
    ax.set_yticks([-300, -100, -30, -10, -3, -1], ["−300", "−100", "−30", "−10", "−3", "−1"])
    ax.set_title("(c)", loc="left")


def _show_flows(ax: Axes, flows: Mapping[float, af.Run]) -> None:
    for (alpha, run), grey in zip(flows.items(), np.linspace(0, 0.7, len(flows)), strict=True):
        curves, posed = run.curves.isel(time=slice(1, None)), Posed.of(run)
        ax.plot(
            curves["time"],
            [posed.error(b) for b in curves["weights"].values],
            color=str(grey),
            lw=1.6,
            label=rf"$\alpha={alpha:g}$",
        )
    ax.axhline(THRESHOLD, color="0.5", ls=":", lw=1.2)
    ax.set(yscale="log", ylabel=r"population error of $\beta(t)$")
    af.plot.log_time_axes(ax)
    headline = next(iter(flows))
    af.plot.mark_phases(ax, flows[headline].verdict)
    ax.set_title(rf"flows of the parameters, phases of $\alpha={headline:g}$", pad=18, fontsize="medium")
