"""Fig. 2: matrix completion."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once, passing, run_all
from afterfit.papers._measure import relative_distance, share
from afterfit.papers.boursier2025 import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from xarray import DataArray, Dataset

__all__ = ["Fig2"]

_LR = 1e-2


class Fig2(Entry):
    paper, name = PAPER, "fig2"
    title = "Matrix completion groks as weight decay lowers the rank"
    where = "Fig. 2, §5"
    about = (
        "UVᵀ with ten columns is fitted to half of the entries of a 20 x 20 matrix of rank 3 by gradient descent "
        "with weight decay λ = 10⁻³. The training loss is zero by t ≈ 1 with all ten singular values large; the "
        "norm then falls over a time of order 1/λ, and with it all singular values but three."
    )
    notes = (
        "The figure shows one draw, which recovers M*, and the paper claims no share of draws: the share is reported "
        "with the last claim, without pass or fail. On most Gaussian draws of this size minimum-nuclear-norm "
        "completion itself is not exact, and that is the problem the slow phase solves. The draw shown is chosen by "
        "the data alone: the first seed whose convex completion, argmin Σ(W − M)² + λ‖W‖_*, is within 5 % of M*, seed "
        "4 at paper scale. At quick scale that is seed 1, but checks were mended on it and on the next one, seed 3, so "
        "that the third, seed 4, is shown. The last claim is about seeds 0 to 9. The law of M* is not given in the "
        "paper; here M* = ABᵀ with Gaussian A and B."
    )

    def runs(self, scale: str) -> dict[str, af.Experiment]:
        d, rank, observed, decay, seed = (20, 3, 0.5, 1e-3, 4) if scale == "paper" else (12, 2, 0.8, 1e-2, 4)
        steps = 10_000_000 if scale == "paper" else 200_000
        run = _completion(d, rank, observed, decay, steps, seed)
        return {"run": run, "free": run.set({"penalty.strength": 0.0, "dynamics.steps": _slow_steps(decay)})}

    def picture(self, run: af.Run, true_values: np.ndarray) -> Figure:
        figure = af.plot.Figure(figsize=(11, 4.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        _show_losses(left, run)
        _show_singular_values(right, run, true_values)
        af.plot.log_time_axes(left, right)
        for ax in (left, right):
            af.plot.mark_phases(ax, run.verdict)
        af.plot.legend_below(left, right, ncols=3)
        return figure

    @once
    def slow(self, run: af.Run) -> float:
        """The slow time scale 1/λ: 10³ in the paper."""
        return 1 / run.spec["penalty"]["strength"]

    @once
    def true_values(self, run: af.Run) -> np.ndarray:
        """The singular values of M* that are not 0."""
        return np.linalg.svd(run.data.truth, compute_uv=False)[: run.spec["task"]["rank"]]

    @once
    def draws(self, run: af.Run, slow: float, progress: bool | None) -> list[_Draw]:
        """Other draws of the same experiment, at t = 1/λ and at t = 20/λ, when the slow phase has come to its end."""
        steps = _slow_steps(1 / slow)
        shorter = run.experiment.set({"dynamics.steps": steps, "observations": 20, "checkpoints": [slow]})
        others = {f"seed {seed}": shorter.set({"seed": seed}) for seed in range(10)}
        return [_draw(other) for other in run_all(others, f"{self.id}: draws", progress).values()]

    @claim("training loss drops quickly to zero", says="the training loss drops quickly to zero; no time is given")
    def fits(self, run: af.Run, slow: float) -> Finding:
        return _fits(run, run.curves["train_loss"], slow)

    @control(fits, "the test loss ‖M* − UVᵀ‖² of the same run")
    def does_not_generalise_so(self, run: af.Run, slow: float) -> Finding:
        return _fits(run, run.curves["test_error"] ** 2, slow)

    @claim(
        "test loss stays high, then improves long after",
        says={
            "paper": "remains high for an extended period; grokking starts around t ≈ 10², by t ≈ 10⁴ it is over",
            "quick": "remains high for an extended period; grokking starts around t ≈ 10¹, by t ≈ 10³ it is over",
        },
        fails={
            "quick": "on seed 4 a tenth of the way is gone at t = 2.5 already, a little before the half decade about "
            "10¹; on seed 3, which was shown before, it is at t = 4.6"
        },
    )
    def groks(self, run: af.Run, slow: float) -> Finding:
        return _groks(run, "test_error", slow)

    @once
    def other(self, run: af.Run, progress: bool | None) -> af.Run:
        """The draw that was shown before at quick scale."""
        return next(iter(run_all({"seed 3": run.experiment.set({"seed": 3})}, f"{self.id}: seed 3", progress).values()))

    @passing(groks, "another draw, seed 3")
    def groks_elsewhere(self, other: af.Run, slow: float) -> Finding:
        return _groks(other, "test_error", slow)

    @control(groks, "the training error")
    def fits_early(self, run: af.Run, slow: float) -> Finding:
        return _groks(run, "train_error", slow)

    @control(groks, "a run without weight decay")
    def never_groks(self, free: af.Run, slow: float) -> Finding:
        return _groks(free, "test_error", slow)

    @claim(
        "the norm of the weights falls with the test loss",
        says="the improvement coincides with a decrease in the norm of the weights",
        changed="On seed 1 at quick scale the fast phase was counted as part of the test loss's fall: it is not since, "
        "on seed 4.",
    )
    def norm_falls(self, run: af.Run, slow: float) -> Finding:
        return _coincides(run, run.curves["test_error"], slow)

    @control(norm_falls, "the training loss in place of the test loss")
    def not_with_the_training_loss(self, run: af.Run, slow: float) -> Finding:
        return _coincides(run, run.curves["train_loss"], slow)

    @control(norm_falls, "a run without weight decay")
    def norm_stays(self, free: af.Run, slow: float) -> Finding:
        return _coincides(free, free.curves["test_error"], slow)

    @claim(
        "singular values jump up early and all but three decay from t≈10²",
        says={
            "paper": "large positive values at time t ≈ 1; around time t ≈ 10² all but three begin decay towards zero",
            "quick": "large positive values at time t ≈ 1; around time t ≈ 10¹ all but two begin decay towards zero",
        },
    )
    def rank_falls(self, run: af.Run, slow: float, true_values: np.ndarray) -> Finding:
        return _rank_falls(run, len(true_values), slow, true_values)

    @control(rank_falls, "one less in place of three")
    def not_all_but_two(self, run: af.Run, slow: float, true_values: np.ndarray) -> Finding:
        return _rank_falls(run, len(true_values) - 1, slow, true_values)

    @control(rank_falls, "a run without weight decay")
    def rank_stays(self, free: af.Run, slow: float, true_values: np.ndarray) -> Finding:
        return _rank_falls(free, len(true_values), slow, true_values)

    @claim(
        "the three that remain meet the true ones (this draw)",
        says="they approach σ₁*, σ₂*, σ₃*; the end actually coincides with the ground truth M*",
        changed="That UVᵀ is within 5 % of M* was added on seed 3 at quick scale, where the claim passed its controls "
        "without it. It is measured on seed 4 since.",
    )
    def recovers(self, run: af.Run, true_values: np.ndarray) -> Finding:
        return _meets(run.curves.isel(time=-1), true_values)

    @control(recovers, "the same run at t = 0.1/λ, where the decay starts")
    def not_at_first(self, run: af.Run, slow: float, true_values: np.ndarray) -> Finding:
        return _meets(run.curves.sel(time=0.1 * slow, method="nearest"), true_values)

    @control(recovers, "a run without weight decay")
    def not_without(self, free: af.Run, true_values: np.ndarray) -> Finding:
        return _meets(free.curves.isel(time=-1), true_values)

    @claim(
        "every end point is that of the convex program",
        says="the slow phase minimises ½(‖U‖² + ‖V‖²), whose minimum is the nuclear norm",
    )
    def ends_at_the_program(self, draws: list[_Draw]) -> Finding:
        found = _least([draw.end for draw in draws])
        near, exact = (
            share(sum(gap <= 0.05 for gap in gaps), len(draws)) for gaps in zip(*(d.gaps for d in draws), strict=True)
        )
        return Finding(
            f"{found.measured} (the share of draws that end within 5 % of M* is {near}; of the program's own {exact})",
            found.holds,
        )

    @control(ends_at_the_program, "the draws at t = 1/λ")
    def not_yet(self, draws: list[_Draw]) -> Finding:
        return _least([draw.midway for draw in draws])

    @control(ends_at_the_program, "M* in place of the end points")
    def not_the_truth(self, draws: list[_Draw]) -> Finding:
        return _least([draw.truth for draw in draws])


def _slow_steps(decay: float) -> int:
    """Steps to t = 20/λ."""
    return round(20 / decay / _LR)


def _part_way(t: np.ndarray, values: np.ndarray, part: float, begin: float) -> float:
    """When a curve has gone that part of its way from where it is at `begin` to its end; inf if it does not fall."""
    first, last = np.interp(np.log(begin), np.log(t), values), values[-1]
    there = (t >= begin) & (values <= first + part * (last - first))
    return float(t[there][0]) if last < 0.99 * first and np.any(there) else float("inf")


def _about(t: float, when: float) -> bool:
    """Half a decade to either side: what "around" is on the logarithmic axis of the figure."""
    return bool(10**-0.5 <= t / when <= 10**0.5)


def _curve(run: af.Run, values: DataArray) -> tuple[np.ndarray, np.ndarray]:
    """Times and values after the start, which a logarithmic axis does not show."""
    return run.curves["time"].values[1:], values.values[1:]


def _fits(run: af.Run, loss: DataArray, slow: float) -> Finding:
    """Whether a loss drops quickly, and to zero.

    Quickly: to a thousandth of its start by t = 1, where the singular values are said to have risen. To zero: to 10⁻⁵
    by t = 0.1/λ, before the slow phase. Weight decay keeps residuals of order λ/2: (λ/2)² is 10⁻⁵ of ‖y‖² and less.
    """
    early, late = (float(loss.sel(time=t, method="nearest") / loss[0]) for t in (1.0, 0.1 * slow))
    return Finding(
        f"{float(loss[0]):.3g} at the start; what is left of it is {early:.2g} at t = 1 and {late:.2g} at "
        f"t = {0.1 * slow:g}",
        early <= 1e-3 and late <= 1e-5,
    )


def _groks(run: af.Run, error: str, slow: float) -> Finding:
    """Whether an error starts to fall around t = 0.1/λ and is done by 10/λ: a tenth and nine tenths of its way."""
    curve = _curve(run, run.curves[error])
    starts, done = (_part_way(*curve, part, 0.01 * slow) for part in (0.1, 0.9))
    return Finding(
        f"{run.verdict}; {error.replace('_', ' ')}: a tenth of the way from t = {0.01 * slow:g} at t = {starts:.3g}, "
        f"nine tenths at {done:.3g}",
        run.verdict.kind == "grokking" and _about(starts, 0.1 * slow) and done <= 10 * slow,
    )


def _coincides(run: af.Run, loss: DataArray, slow: float) -> Finding:
    """Whether a loss and ‖w‖² fall together: ‖w‖² by a fifth and more, and both half-way at about the same time."""
    t, squared = _curve(run, run.curves["norm_l2"] ** 2)
    begin = np.interp(np.log(0.01 * slow), np.log(t), squared)
    half_norm = _part_way(t, squared, 0.5, 0.01 * slow)
    half_loss = _part_way(*_curve(run, loss), 0.5, 0.01 * slow)
    return Finding(
        f"‖w‖² from {begin:.0f} to {squared[-1]:.0f} after t = {0.01 * slow:g}, half-way at t = {half_norm:.3g}; the "
        f"loss is at t = {half_loss:.3g}",
        squared[-1] <= 0.8 * begin and _about(half_loss, half_norm),
    )


def _rank_falls(run: af.Run, rank: int, slow: float, true_values: np.ndarray) -> Finding:
    """Whether the singular value after the first `rank` jumps up and decays.

    It is to be a fifth of the least true one and more at t = 1, to fall by a tenth around t = 0.1/λ, and to be less
    than a twentieth of the one before it at the end.
    """
    t, values = _curve(run, run.curves["singular_values"])
    number, least = values[:, rank], true_values[-1]
    risen, falls_at, end = np.interp(0.0, np.log(t), number), _below(t, number, 0.01 * slow), values[-1]
    return Finding(
        f"number {rank + 1} is {risen:.2g} at t = 1, beside a least true one of {least:.2g}, falls by a tenth at "
        f"t = {falls_at:.3g}, and is {end[rank]:.2g} at the end beside a number {rank} of {end[rank - 1]:.3g}",
        bool(risen >= 0.2 * least and _about(falls_at, 0.1 * slow) and end[rank] < 0.05 * end[rank - 1]),
    )


def _below(t: np.ndarray, values: np.ndarray, begin: float) -> float:
    """When a curve is a tenth below what it is at `begin`; inf if never."""
    there = (t >= begin) & (values <= 0.9 * np.interp(np.log(begin), np.log(t), values))
    return float(t[there][0]) if np.any(there) else float("inf")


def _meets(seen: Dataset, true_values: np.ndarray) -> Finding:
    """Whether the largest singular values are the true ones to 5 %, and the matrix is M* to 5 % of its norm.

    5 %, since a draw is shown whose convex completion is that near to M*.
    """
    values, distance = seen["singular_values"].values[: len(true_values)], float(seen["test_error"])
    gap = np.max(np.abs(values / true_values - 1))
    return Finding(
        f"{_list(values)}, true {_list(true_values)}: within {gap:.1%}; ‖UVᵀ − M*‖/‖M*‖ = {distance:.2g}",
        bool(gap <= 0.05 and distance <= 0.05),
    )


def _least(excesses: list[float]) -> Finding:
    """Whether Σ(W − M)² + λ‖W‖_* is its minimum to 0.5 % on every draw."""
    return Finding(
        f"Σ(W − M)² + λ‖W‖_* above its minimum by {np.median(excesses):.2g} of it (median) and {max(excesses):.2g} "
        f"(largest), over {len(excesses)} draws",
        max(excesses) <= 0.005,
    )


def _completion(d: int, rank: int, observed: float, decay: float, steps: int, seed: int) -> af.Experiment:
    return af.Experiment(
        task=af.tasks.MatrixCompletion(d, d, rank, observed=observed, reduction="sum"),
        model=af.models.MatrixFactorisation(d // 2),
        penalty=af.penalties.L2(decay),
        dynamics=af.dynamics.GradientDescent(lr=_LR, steps=steps),
        init=af.inits.Gaussian(1.0),
        seed=seed,
    )


class _Draw(NamedTuple):
    """By how much the convex objective is above its minimum, relative to that, at the end, at t = 1/λ and at M*.

    `gaps` are distances from M* relative to ‖M*‖: of the end, and of the program's.
    """

    end: float
    midway: float
    truth: float
    gaps: tuple[float, float]


def _draw(run: af.Run) -> _Draw:
    best, truth, decay = _convex_end(run), run.data.truth, run.spec["penalty"]["strength"]
    end, midway = (params["U"] @ params["V"].T for params in (run.params, run.checkpoints[0]))

    def value(W: np.ndarray) -> float:
        return float(np.sum((run.data.inputs.mask * (W - truth)) ** 2) + decay * np.linalg.norm(W, "nuc"))

    def above(W: np.ndarray) -> float:
        return value(W) / value(best) - 1

    return _Draw(
        above(end), above(midway), above(truth), (relative_distance(end, truth), relative_distance(best, truth))
    )


def _convex_end(run: af.Run) -> np.ndarray:
    """argmin Σ(W − M)² + λ‖W‖_*: the loss is twice what the program has in front of its penalty."""
    seen = run.data.inputs.mask
    X, y = af.theory.single_entries(seen), run.data.truth[seen > 0]
    return af.theory.nuclear_penalised(X, y, run.spec["penalty"]["strength"] / 2)


def _show_losses(ax: Axes, run: af.Run) -> None:
    curves = run.curves.isel(time=slice(1, None))
    distance = curves["test_error"] * np.linalg.norm(run.data.truth)
    ax.plot(curves["time"], curves["train_loss"], **af.plot.TRAIN, label="training loss")
    ax.plot(curves["time"], distance, **af.plot.TEST, label=r"test loss $\|M^*-UV^\top\|_F$")
    ax.plot(curves["time"], curves["norm_l2"] ** 2, color="0.2", ls="-.", label=r"$\|U\|_F^2+\|V\|_F^2$")
    ax.set(yscale="log", ylabel="loss, squared norm")


def _show_singular_values(ax: Axes, run: af.Run, true_values: np.ndarray) -> None:
    """Those of UVᵀ along the run, the true ones, and at the end those of the convex program."""
    curves = run.curves.isel(time=slice(1, None))
    values = curves["singular_values"][:, : run.spec["model"]["rank"]]
    for k in range(values.shape[1]):
        kept = k < len(true_values)
        style = {"color": "#D55E00", "lw": 2.0} if kept else {"color": "0.45", "lw": 1.0, "ls": "--"}
        name = {0: "largest, as many as the rank", len(true_values): "the others"}.get(k)
        ax.plot(curves["time"], values[:, k], **style, label=name)
    for k, value in enumerate(true_values):
        ax.axhline(value, color="k", ls=":", lw=1.2, label=r"true $\sigma^*_i$" if k == 0 else None)
    for k, value in enumerate(np.linalg.svd(_convex_end(run), compute_uv=False)[: len(true_values)]):
        name = "end of the convex program" if k == 0 else None
        ax.plot(curves["time"][-1:], [value], "k<", ms=7, clip_on=False, label=name)
    ax.set(ylabel=r"singular values of $UV^\top$", ylim=(0, None))


def _list(values: np.ndarray) -> str:
    return "(" + ", ".join(f"{value:.3g}" for value in values) + ")"
