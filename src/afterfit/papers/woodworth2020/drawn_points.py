"""Univariate nets on points drawn at random (App. B.1): where they end, and whether it is as the rich limit should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Finding
from afterfit.papers._measure import relative_distance, share, slope_variation
from afterfit.papers.woodworth2020.univariate import (
    CLOSE,
    FITTED,
    GRID,
    infinite_width_interpolant,
    least_variation,
    outputs,
)

__all__ = ["Drawn", "all_fit", "least_on_draws", "points", "spline_on_draws"]


def points(draw: int) -> tuple[np.ndarray, np.ndarray]:
    """Five points near an even grid of [−1, 1] and its ends, with y ~ N(0, ¼)."""
    rng = np.random.default_rng(draw)
    x = np.linspace(-1, 1, 5)
    x[1:-1] += rng.uniform(-0.15, 0.15, 3)
    return x, 0.5 * rng.standard_normal(5)


class Drawn(NamedTuple):
    """Where a net has ended on a draw of the data."""

    x: np.ndarray
    y: np.ndarray
    f: np.ndarray  # on the grid
    loss: float
    before: float  # the loss at half the time

    @classmethod
    def of(cls, run: af.Run) -> Drawn:
        """Where a run on any points has ended."""
        curves = run.curves
        before = np.interp(curves["time"][-1] / 2, curves["time"], curves["train_loss"])
        x = run.data.inputs[:, 0]
        return cls(x, run.data.targets, outputs(run.params, GRID), float(curves["train_loss"][-1]), float(before))

    def shrunk(self, factor: float) -> Drawn:
        """The linear spline through the points with y times the factor."""
        loss = float(np.sum(((1 - factor) * self.y) ** 2))
        return self._replace(f=np.interp(GRID, self.x, factor * self.y), loss=loss)

    def by_kernel(self) -> Drawn:
        """The interpolant of the closed-form kernel for layers of standard scales."""
        return self._replace(f=infinite_width_interpolant(self.x, self.y, GRID, 10_000, 1.0, 1.0), loss=0.0)

    @property
    def fits(self) -> bool:
        """Whether it is a function through the points."""
        return self.loss <= FITTED

    @property
    def variation(self) -> float:
        """∫|f''| over the least."""
        return slope_variation(GRID, self.f) / least_variation(self.x, self.y)

    @property
    def from_spline(self) -> float:
        """How far from the linear spline, relative to it."""
        return relative_distance(self.f, np.interp(GRID, self.x, self.y))

    @property
    def alternates(self) -> bool:
        """Whether the points turn up and down by turns, so that the linear spline alone has the least ∫|f''|."""
        turns = np.diff(np.diff(self.y) / np.diff(self.x))
        return bool(np.all(turns[1:] * turns[:-1] < 0))


def least_on_draws(drawn: Sequence[Drawn]) -> Finding:
    """Whether the net fits and ∫|f''| is within 2 % of the least in more than half of the draws."""
    ratios = [one.variation for one in drawn if one.fits]
    within = sum(abs(ratio - 1) <= CLOSE for ratio in ratios)
    seen = f", from {min(ratios):.4g} to {max(ratios):.4g} times the least in these" if ratios else ""
    return Finding(
        f"{len(ratios)} of {len(drawn)} draws are fitted{seen}; fitted and within 2 % of it in a share of "
        f"{share(within, len(drawn))}",
        within > len(drawn) / 2,
    )


def spline_on_draws(drawn: Sequence[Drawn]) -> Finding:
    """Whether all nets fit and are at the linear spline to 2 %."""
    at = {kind: [one.fits and one.from_spline <= CLOSE for one in drawn if one.alternates == kind] for kind in (0, 1)}
    farthest = max((one.from_spline for one in drawn if one.fits and not one.alternates), default=0.0)
    return Finding(
        f"fitted and at the linear spline to 2 % are {sum(at[1])} of {len(at[1])} draws whose points turn up and down "
        f"by turns and {sum(at[0])} of {len(at[0])} others, of which the largest distance of one fitted is "
        f"{farthest:.2g}",
        all(at[0] + at[1]),
    )


def all_fit(on_points: Sequence[Drawn], on_draws: Sequence[Drawn]) -> Finding:
    """Whether every loss is below 10⁻⁴. One above rests if it fell by less than 1 % in the second half of the time."""
    nets = [*on_points, *on_draws]
    above = [one for one in nets if one.loss > 1e-4]
    resting = [one.loss for one in above if one.loss > 0.99 * one.before]
    groups = {"the points of the figure": on_points, "draws of the data": on_draws}
    fitted = [f"{sum(one.loss <= 1e-4 for one in of)} of {len(of)} on {words}" for words, of in groups.items() if of]
    return Finding(
        f"nets that fit: {', '.join(fitted)}; {len(resting)} of the others rest"
        + (f", at a loss of {min(resting):.2g} to {max(resting):.2g}" if resting else ""),
        not above,
    )
