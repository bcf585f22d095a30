"""Fig. 24: the way from the start to the least-squares solution, and from there to a* or to a suboptimal point."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers._measure import share
from afterfit.papers.notsawo2025 import PAPER
from afterfit.papers.notsawo2025.recovery import CLOSE, descent, least_l1_recovers, measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Fig24"]

_ALPHA, _BETA, _SNR = 0.1, 1e-5, 1e8  # H.1, cells 41 and 47–49
_STRONGER = 1e-3  # β of the many draws, which go 25 times as far: some ends take long where N is too small
_MUCH = 0.1  # a penalty that is felt before the data are fitted
_NEAR = 0.05  # of ‖a*‖, within which a run is at a point: that penalty leaves one to two hundredths
_BY = 0.25  # of the way from â to a*, within which a path has come by â
_MARKS = 5  # times shown along a path


class _Draw(NamedTuple):
    N: int
    seed: int


class _Way(NamedTuple):
    """A run in the plane: ‖a_I‖ and ‖a_{[n]∖I}‖ at every step observed, of â and of a*."""

    run: af.Run
    a: np.ndarray
    least_squares: np.ndarray

    @classmethod
    def of(cls, run: af.Run) -> _Way:
        data = run.data
        return cls(run, run.curves["weights"].values, af.theory.min_l2(data.inputs, data.targets))

    def plane(self, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """‖a_I‖ and ‖a_{[n]∖I}‖, I the support of a*."""
        on = self.run.data.truth != 0
        return np.linalg.norm(a[..., on], axis=-1), np.linalg.norm(a[..., ~on], axis=-1)

    @property
    def size(self) -> float:
        """‖a*‖."""
        return float(np.linalg.norm(self.run.data.truth))

    @property
    def gaps(self) -> np.ndarray:
        """‖a − â‖ as a share of ‖â − a*‖."""
        whole = np.linalg.norm(self.least_squares - self.run.data.truth)
        return np.linalg.norm(self.a - self.least_squares, axis=1) / whole

    @property
    def nearest(self) -> int:
        """The observation at which a is nearest to â."""
        return int(np.argmin(self.gaps))

    @property
    def off(self) -> float:
        """‖a_{[n]∖I}‖/‖a*‖ at the end."""
        return float(self.plane(self.a[-1])[1]) / self.size

    @property
    def on(self) -> float:
        """‖a_I‖/‖a*‖ at the end."""
        return float(self.plane(self.a[-1])[0]) / self.size

    @property
    def error(self) -> float:
        """‖a − a*‖/‖a*‖ at the end."""
        return float(np.linalg.norm(self.a[-1] - self.run.data.truth)) / self.size

    @property
    def excess(self) -> float:
        """f at the end above the least there is of f = ½‖Xa − y‖² + β‖a‖₁, as a share of β‖a*‖₁."""
        data, beta = self.run.data, self.run.spec["penalty"]["strength"]

        def f(a: np.ndarray) -> float:
            return float(0.5 * np.sum((data.inputs @ a - data.targets) ** 2) + beta * np.abs(a).sum())

        least = f(af.theory.lasso(data.inputs, data.targets, beta))
        return (f(self.a[-1]) - least) / (beta * float(np.abs(data.truth).sum()))


class Fig24(Entry):
    paper, name = PAPER, "fig24"
    title = "To least squares first, and from there to a* or to a suboptimal point"
    where = "Fig. 24, App. H.1"
    about = (
        "The sparse recovery of Fig. 3, with its noise, for several numbers of measurements N, 10⁶ steps with α = 10⁻¹ "
        "and β = 10⁻⁵ from almost zero, in the plane of ‖a_I‖ and ‖a_{[n]∖I}‖, I the support of a*. The path goes to "
        "the least-squares solution â, and turns there: to a* if N is large enough, or to a suboptimal point, the "
        "interpolator of least ℓ₁ norm. The text has N = 20, …, 70 and the notebook 10, …, 100: here it is 10, …, 70, "
        "as with 20 it depends on the draw. The marked times are spread evenly over the logarithm of the step (in the "
        "notebook over its records)."
    )
    notes = (
        "On which draws the end is a* is told by a linear program, and seen with β = 10⁻³, a hundred times the "
        "penalty, which goes 25 times as far in a quarter of the steps."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment | dict[int, af.Experiment] | dict[_Draw, af.Experiment]]:
        if scale == "paper":
            n, s, numbers, steps, sizes, beta, fewer = (
                100,
                5,
                (30, 10, 20, 40, 50, 60, 70),
                1_000_000,
                (20, 40),
                _BETA,
                4,
            )
            seen, seeds = 200, range(70, 80)
        else:  # ten times the penalty and a tenth of the steps; all runs of one N go together
            n, s, numbers, steps, sizes, beta, fewer = 40, 2, (18, 6), 40_000, (6, 18), 10 * _BETA, 1
            seen, seeds = 80, range(70, 78)
        descents = {N: descent(measured(n, s, N, _SNR), _ALPHA, beta, steps, 2, seen) for N in numbers}
        first = descents[numbers[0]]
        return {
            "descents": descents,
            "draws": {
                _Draw(N, seed): descent(measured(n, s, N, _SNR), _ALPHA, _STRONGER, steps // fewer, seed, seen)
                for N in sizes
                for seed in seeds
            },
            "free": first.set({"penalty.strength": 0.0}),
            "decayed": first.set({"penalty": {"kind": "L2", "strength": beta}}),
            "strong": first.set({"penalty.strength": _MUCH}),
        }

    def picture(self, ways: dict[int, _Way]) -> Figure:
        rows = 1 if len(ways) < 3 else 2
        figure = af.plot.Figure(figsize=(14, 4.2 * rows), layout="constrained")
        axes = figure.subplots(rows, -(-(len(ways) + 1) // rows), squeeze=False).ravel()
        errors, *panels = axes
        first = next(iter(ways.values()))
        for ax, (N, way) in zip(panels, sorted(ways.items()), strict=False):
            _draw_path(ax, way)
            ax.set_title(f"$N={N}$", fontsize="medium")
        for ax in panels[len(ways) :]:
            ax.remove()
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=7, frameon=False, fontsize="small")
        curves = first.run.curves.isel(time=slice(1, None))
        errors.plot(curves["time"], curves["train_error"], **af.plot.TRAIN, label="training")
        errors.plot(curves["time"], curves["test_error"], **af.plot.TEST, label="recovery")
        errors.set(yscale="log", ylabel=f"relative error, $N={len(first.run.data.targets)}$")
        af.plot.log_time_axes(errors)
        af.plot.mark_phases(errors, first.run.diagnose(fit=CLOSE, generalise=CLOSE))
        af.plot.legend_below(errors)
        return figure

    @once
    def ways(self, descents: dict[int, af.Run]) -> dict[int, _Way]:
        """The runs of the figure, by N."""
        return {N: _Way.of(run) for N, run in descents.items()}

    @once
    def drawn(self, draws: dict[_Draw, af.Run]) -> list[_Way]:
        """Other draws, half of them with few measurements."""
        return [_Way.of(run) for run in draws.values()]

    @once
    def possible(self, drawn: list[_Way]) -> list[_Way]:
        """Those on which a* is the interpolator of least ℓ₁ norm."""
        return [way for way in drawn if least_l1_recovers(way.run.data)]

    @once
    def impossible(self, drawn: list[_Way]) -> list[_Way]:
        """Those on which it is not."""
        return [way for way in drawn if not least_l1_recovers(way.run.data)]

    @claim(
        "a comes to the least-squares solution first, for every N",
        says="a(t) first converges to the least-squares solution (memorisation)",
        changed="It was to leave â by half of ‖â − a*‖, on seed 1: with N = 6 at quick scale it leaves by 0.45, "
        "for a point that is not a*. It is ten times as far as it had come near, on seed 2.",
    )
    def least_squares_first(self, ways: dict[int, _Way]) -> Finding:
        return _comes_by(ways)

    @control(least_squares_first, "a penalty of 10⁻¹")
    def never_near(self, strong: af.Run) -> Finding:
        return _comes_by({len(strong.data.targets): _Way.of(strong)})

    @control(least_squares_first, "β = 0, where it does not leave")
    def never_leaves(self, free: af.Run) -> Finding:
        return _comes_by({len(free.data.targets): _Way.of(free)})

    @claim(
        "where N is large enough it goes on to a*: ‖a_{[n]∖I}‖ to 0, ‖a_I‖ to ‖a*‖",
        says="from the least-squares solution to a* (N large enough); v(t) converges to zero, u(t) to the norm of a*",
    )
    def goes_on_to_the_truth(self, possible: list[_Way]) -> Finding:
        return _at_the_truth(possible)

    @control(goes_on_to_the_truth, "the draws with too few measurements")
    def goes_elsewhere(self, impossible: list[_Way]) -> Finding:
        return _at_the_truth(impossible)

    @control(goes_on_to_the_truth, "β = 0")
    def goes_nowhere(self, free: af.Run) -> Finding:
        return _at_the_truth([_Way.of(free)])

    @claim(
        "where N is too small it goes on to a suboptimal point, where the penalised loss is least",
        says="from the least-squares solution to a suboptimal solution (N too small)",
        changed="It was the distance from the interpolator of least ℓ₁ norm, with β = 10⁻⁴, on seeds from 30 on, and "
        "up to 0.26‖a*‖; then that from the lasso's solution with β = 10⁻³, on seeds from 50 on, and 0.2‖a*‖ on one "
        "draw of eight, where the penalised loss hardly tells points apart. It is that loss now, on seeds from 70 on.",
    )
    def goes_on_to_less(self, impossible: list[_Way]) -> Finding:
        return _at_another(impossible)

    @control(goes_on_to_less, "the draws with enough measurements")
    def goes_on_to_no_other(self, possible: list[_Way]) -> Finding:
        return _at_another(possible)

    @control(goes_on_to_less, "the least-squares solutions of these draws")
    def stops_at_least_squares(self, impossible: list[_Way]) -> Finding:
        return _at_another([way._replace(a=way.least_squares[None]) for way in impossible])

    @claim(
        "in the figure: a* for the larger N, and not for the smallest",
        says="a* (N large enough) or a suboptimal solution (N too small)",
    )
    def by_number(self, ways: dict[int, _Way]) -> Finding:
        return _by_number({N: (way.on, way.off) for N, way in ways.items()})

    @control(by_number, "where the paths are nearest to least squares")
    def by_number_at_first(self, ways: dict[int, _Way]) -> Finding:
        places = {N: way.plane(way.a[way.nearest]) for N, way in ways.items()}
        return _by_number({N: (float(u) / ways[N].size, float(v) / ways[N].size) for N, (u, v) in places.items()})

    @claim(
        "‖a_{[n]∖I}‖ falls all the way from least squares to a*",
        says="the components of a that are not in I are shrunk at each training step until they all reach 0",
    )
    def shrinks(self, ways: dict[int, _Way]) -> Finding:
        return _falls(ways, 1)

    @control(shrinks, "‖a_I‖")
    def grows(self, ways: dict[int, _Way]) -> Finding:
        return _falls(ways, 0)

    @claim(
        "without the ℓ₁ penalty it stays at least squares, with weight decay too",
        says="this convergence is impossible if the ℓ₁ regularisation strength is 0 (even if ℓ₂ is used)",
    )
    def stays(self, free: af.Run, decayed: af.Run) -> Finding:
        return _stays({"β = 0": free, "weight decay": decayed})

    @control(stays, "the ℓ₁ penalty")
    def leaves(self, descents: dict[int, af.Run]) -> Finding:
        return _stays({"ℓ₁": next(iter(descents.values()))})


def _comes_by(ways: Mapping[int, _Way]) -> Finding:
    # The fit takes some log(10³)/(ασ²_min) steps, in which the penalty moves a by up to αβ√n each: 0.2‖â − a*‖ for
    # N = 70 of 100, less for the others. And then it leaves: ten times as far, or by what is left of the way.
    least = {N: float(way.gaps.min()) for N, way in sorted(ways.items())}
    after = {N: float(way.gaps[way.nearest :].max()) for N, way in sorted(ways.items())}
    return Finding(
        "‖a − â‖/‖â − a*‖ at the least and at most from there on: "
        + ", ".join(f"{least[N]:.2g}, {after[N]:.2g} (N={N})" for N in least),
        max(least.values()) <= _BY and all(after[N] >= min(10 * least[N], 1 - least[N]) for N in least),
    )


def _at_the_truth(ways: Sequence[_Way]) -> Finding:
    found = [way.off <= _NEAR and abs(way.on - 1) <= _NEAR for way in ways]
    return Finding(
        f"at the end ‖a_[n]∖I‖/‖a*‖ is {_span([way.off for way in ways])} and ‖a_I‖/‖a*‖ "
        f"{_span([way.on for way in ways])}; there are a share {share(sum(found), len(found))} of {len(found)} draws",
        all(found),
    )


def _at_another(ways: Sequence[_Way]) -> Finding:
    # Steps of αβ around the end leave αβn/2 of ‖a‖₁, some hundredths of ‖a*‖₁.
    found = [way.error > _NEAR and way.excess <= _NEAR for way in ways]
    return Finding(
        f"at the end ‖a − a*‖/‖a*‖ is {_span([way.error for way in ways])}, and ½‖Xa − y‖² + β‖a‖₁ above its least "
        f"by {_span([way.excess for way in ways])} of β‖a*‖₁; so on a share {share(sum(found), len(found))} of "
        f"{len(found)} draws",
        all(found),
    )


def _by_number(ends: Mapping[int, tuple[float, float]]) -> Finding:
    found = {N: off <= CLOSE and abs(on - 1) <= CLOSE for N, (on, off) in sorted(ends.items())}
    order = list(found.values())
    return Finding(
        "‖a_I‖/‖a*‖, ‖a_[n]∖I‖/‖a*‖ at the end: "
        + ", ".join(f"{ends[N][0]:.3f}, {ends[N][1]:.2g} (N={N})" for N in found),
        order == sorted(order) and not order[0] and order[-1],
    )


def _falls(ways: Mapping[int, _Way], which: int) -> Finding:
    """Whether ‖a_I‖ (0) or ‖a_{[n]∖I}‖ (1) never rises from â on, where the end is a*: by steps of αβ at most."""
    rises, lasts = [], []
    for way in ways.values():
        if way.off > CLOSE:
            continue
        along = way.plane(way.a[way.nearest :])[which]
        rises.append(float(np.diff(along).max()) / float(along[0]))
        lasts.append(float(along[-1] / along[0]))
    return Finding(
        f"between two observations it rises by at most {max(rises):.2g} of what it is at least squares, and ends at "
        f"{_span(lasts)} of that; {len(rises)} numbers N",
        max(rises) <= CLOSE and max(lasts) <= CLOSE,
    )


def _stays(runs: Mapping[str, af.Run]) -> Finding:
    gaps = {name: float(_Way.of(run).gaps[-1]) for name, run in runs.items()}
    return Finding(
        "‖a − â‖/‖â − a*‖ at the end: " + ", ".join(f"{gap:.2g} ({name})" for name, gap in gaps.items()),
        max(gaps.values()) <= CLOSE,
    )


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.2g} to {max(values):.2g}"


def _draw_path(ax: Axes, way: _Way) -> None:
    """The path, where it is at some steps, â, a*, and the interpolator of least ℓ₁ norm where that is another."""
    data, steps = way.run.data, way.run.curves["step"].values
    ax.plot(*way.plane(way.a), color="#0072B2", lw=1.6, label="path")
    shown = np.searchsorted(steps, np.geomspace(10, steps[-1], _MARKS))
    shown = np.minimum(shown, len(steps) - 1)
    for k, number in zip(shown, range(1, _MARKS + 1), strict=True):
        u, v = (float(x) for x in way.plane(way.a[k]))
        ax.plot([u], [v], "o", color="#0072B2", mfc="w", ms=5)
        ax.annotate(f"$t_{number}$", (u, v), xytext=(5, 4), textcoords="offset points", fontsize="small")
    least = af.theory.min_l1(data.inputs, data.targets)
    for point, marker, words in (
        (way.least_squares, "s", r"least squares $\hat a$"),
        (least, "D", r"least $\ell_1$ norm"),
        (data.truth, "*", r"$a^*$"),
    ):
        u, v = (float(x) for x in way.plane(point))
        look = {"ls": "", "color": "#D55E00", "ms": 12 if marker == "*" else 9, "clip_on": False}
        ax.plot([u], [v], marker=marker, mfc="none" if marker == "D" else "#D55E00", **look, label=words, zorder=3)
    ax.plot(
        [], [], "o", color="#0072B2", mfc="w", ms=5, label=f"$t_k$, even in $\\log t$ from 10 to {steps[-1]:,} steps"
    )
    ax.set(xlabel=r"$\|a_I\|_2$", ylabel=r"$\|a_{[n]\setminus I}\|_2$", xlim=(0, None), ylim=(0, None))
    ax.margins(0.12)
