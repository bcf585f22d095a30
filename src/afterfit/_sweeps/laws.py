"""Scaling laws t = C·xᵖ from times of which some were never seen, because the run ended first.

A run that had not got there by its end says that its time is longer than that: it is censored. Leaving such runs out
keeps the quick ones and bends the law. Here each contributes the probability of a time beyond its end (Tobin 1958).
A run that diverged has no later times to speak of: it is left out, and counted in words.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr
from scipy.stats import t as student

from afterfit._base.errors import require

__all__ = ["PowerLaw", "fit_power_law"]


@dataclasses.dataclass(frozen=True)
class PowerLaw:
    """t = C·xᵖ, with `exponent` p and `constant` C, as `fit_power_law` found it.

    `sigma` is the scatter of log t about the law (natural logarithm), `n` how many runs it was fitted to,
    `n_censored` how many of these had not got there by their end, and `n_left_out` how many more were left out.
    `covariance` is that of (log C, p) over seeds; it is None with one seed, which cannot say how much another would
    differ.
    """

    exponent: float
    log_constant: float
    sigma: float
    n: int
    n_censored: int
    seeds: int
    level: float
    covariance: NDArray | None = dataclasses.field(compare=False)
    n_left_out: int = 0

    @property
    def constant(self) -> float:
        """C, the time at x = 1."""
        return float(np.exp(self.log_constant))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Confidence interval of the exponent over seeds, at `level`; None with one seed."""
        if self.covariance is None:
            return None
        half = float(self._half_width(self.covariance[1, 1]))
        return self.exponent - half, self.exponent + half

    def __call__(self, x: ArrayLike) -> NDArray:
        """The time that the law gives at `x`."""
        return np.exp(self.log_constant + self.exponent * np.log(x))

    def band(self, x: ArrayLike) -> tuple[NDArray, NDArray] | None:
        """Confidence interval of the law's time at each of `x` (not of single runs); None with one seed."""
        if self.covariance is None:
            return None
        row = np.stack([np.ones_like(np.log(x)), np.log(x)], axis=-1)
        variance = np.maximum(np.einsum("...i,ij,...j->...", row, self.covariance, row), 0.0)
        half = self._half_width(variance)
        return self(x) * np.exp(-half), self(x) * np.exp(half)

    def __repr__(self) -> str:
        return f"<PowerLaw {self.describe()}>"

    def describe(self, t: str = "t", x: str = "x") -> str:
        """The law in one sentence, with its variables under the given names."""
        law = f"{t} = {self.constant:.3g}·({x})^{self.exponent:.3g}"
        interval, percent = self.interval, f"{100 * self.level:g} %"
        if interval is None:
            how_sure = "one seed, so no interval over seeds"
        else:
            low, high = interval
            how_sure = f"{percent} interval of the exponent over {self.seeds} seeds: {low:.3g} to {high:.3g}"
        censored = f", {self.n_censored} of which had not got there by their end" if self.n_censored else ""
        left_out = f"; {self.n_left_out} more broke down (diverged) and are left out" if self.n_left_out else ""
        return f"{law} ({how_sure}), from {self.n} runs{censored}{left_out}."

    def _half_width(self, variance: ArrayLike) -> NDArray:
        """Half an interval: Student's quantile, with one degree of freedom fewer than seeds, times the spread."""
        return student.ppf(0.5 + self.level / 2, self.seeds - 1) * np.sqrt(variance)


def fit_power_law(
    x: ArrayLike,
    t: ArrayLike,
    censored: ArrayLike,
    left_out: ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = 1000,
    rng_seed: int = 0,
) -> PowerLaw:
    """Fit t = C·xᵖ by maximum likelihood, log t being normal about the law with one scatter for all.

    - `x`: the knob's values, positive, shape (knob values,).
    - `t`: times, positive, shape (knob values, seeds), or (knob values,) for one seed. Of a run that did not get
      there, the time at which it ended.
    - `censored`: which these are, in the shape of `t`.
    - `left_out`: which runs say nothing, such as those that diverged; in the shape of `t`.
    - `level`, `resamples`, `rng_seed`: of the intervals, which come from a bootstrap over seeds. A seed is drawn with
      all its runs: they share their data, so they err together. The interval is Student's, from the bootstrap's
      spread times √(S/(S−1)): percentiles of a bootstrap of 5 seeds cover the truth in about 80 % of cases, not 95 %.

    ```python
    law = fit_power_law([1e-4, 1e-3, 1e-2], [[9e4, 1e5], [1e4, 9e3], [1e3, 1e3]], [[False, True], [False] * 2] * 2)
    law.exponent, law.interval
    ```

    Refused, with the reason, is a law that its runs do not bound.
    """
    x, t, censored, left_out = _shaped(x, t, censored, left_out)
    log_x, log_t = _checked(x, t, censored, left_out)
    n_left_out = int(left_out.sum())
    some = ~left_out.all(axis=0)  # a seed that is left out whole is none to draw
    log_t, censored, left_out = log_t[:, some], censored[:, some], left_out[:, some]
    require(0 < level < 1, f"level must lie between 0 and 1, got {level!r}.")
    require(resamples >= 100, f"an interval needs 100 resamples or more, got {resamples!r}.")
    seeds = log_t.shape[1]
    intercept, slope, sigma = _tobit(log_x, log_t, ~censored & ~left_out, censored & ~left_out, np.ones((1, seeds)))[0]
    covariance = None
    if seeds > 1:
        drawn = np.random.default_rng(rng_seed).multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples)
        different, which = np.unique(drawn, axis=0, return_inverse=True)  # five seeds have 126 resamples, no more
        copies = different.astype(float)
        fits = _tobit(log_x, log_t, ~censored & ~left_out, censored & ~left_out, copies)[which.reshape(-1), :2]
        found = np.isfinite(fits).all(axis=1)
        # A resample in which fewer than two values of x are reached leaves the exponent open.
        require(
            bool(np.mean(~found) <= 1 - level),
            f"the exponent hangs on too few of the {seeds} seeds to have a finite interval: drawn again, they reach "
            f"fewer than two values of x in {np.mean(~found):.0%} of cases. Run longer, or with more seeds.",
        )
        covariance = np.cov(fits[found].T) * seeds / (seeds - 1)
    return PowerLaw(
        exponent=float(slope),
        log_constant=float(intercept),
        sigma=float(sigma),
        n=int((~left_out).sum()),
        n_censored=int((censored & ~left_out).sum()),
        seeds=seeds,
        level=level,
        covariance=covariance,
        n_left_out=n_left_out,
    )


def _shaped(
    x: ArrayLike, t: ArrayLike, censored: ArrayLike, left_out: ArrayLike | None
) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """x (K,), t, censored and left_out (K, S), or a refusal in words."""
    x, t, censored = np.asarray(x, float), np.asarray(t, float), np.asarray(censored, bool)
    left_out = np.zeros(t.shape, bool) if left_out is None else np.asarray(left_out, bool)
    require(x.ndim == 1, f"x must be a list of the knob's values, got shape {x.shape}.")
    require(
        t.ndim in (1, 2) and len(t) == len(x),
        f"t must have shape ({len(x)}, seeds): one row a value of x, got {t.shape}.",
    )
    for name, flags in (("censored", censored), ("left_out", left_out)):
        require(flags.shape == t.shape, f"{name} must have the shape of t, {t.shape}, got {flags.shape}.")
    shape = len(x), -1
    return x, t.reshape(shape), censored.reshape(shape), left_out.reshape(shape)


def _checked(x: NDArray, t: NDArray, censored: NDArray, left_out: NDArray) -> tuple[NDArray, NDArray]:
    """log x and log t (0 where it is left out), or a refusal in words."""
    counted = np.where(left_out, 1.0, t)
    for name, values in (("x", x), ("t", counted)):
        wrong = values[~(np.isfinite(values) & (values > 0))]
        more = " For a run that did not get there give its end, and mark it in censored." if name == "t" else ""
        require(
            not wrong.size,
            f"a power law needs positive, finite {name}, got {wrong[0] if wrong.size else None}.{more}",
        )
    reached = np.unique(x[(~censored & ~left_out).any(axis=1)])
    others = f" ({left_out.sum()} diverged)" if left_out.any() else ""
    require(
        len(reached) > 0,
        f"no run got there before its end{others}, so there is no time to fit a law to: run longer.",
    )
    require(
        len(reached) > 1,
        f"runs got there at one value of x only ({reached[0] if len(reached) else None}){others}, and a law needs two: "
        "run the others longer, or vary x further.",
    )
    return np.log(x), np.log(counted)


def _tobit(log_x: NDArray, log_t: NDArray, came: NDArray, censored: NDArray, copies: NDArray) -> NDArray:
    """Intercept, slope and scatter (R, 3) of each resample, in which seed s occurs copies[r, s] times.

    Runs that neither `came` nor are `censored` do not count. NaN where a resample reaches fewer than two values of x.
    All resamples go through Newton's method at once.
    """
    mean, width = log_x.mean(), log_x.std()
    u = np.broadcast_to(((log_x - mean) / width)[:, None], log_t.shape)
    found = np.full((len(copies), 3), np.nan)
    reached = copies @ came.T > 0
    varied = np.where(reached, log_x, np.inf).min(axis=1) < np.where(reached, log_x, -np.inf).max(axis=1)
    weight = np.broadcast_to(copies[varied, None, :], (varied.sum(), *log_t.shape))
    w, v = weight[:, came], weight[:, censored]

    # Least squares through what was seen is where to start, and the whole answer where it leaves nothing unexplained.
    total = w.sum(axis=1, keepdims=True)
    u_mean, t_mean = (w @ u[came])[:, None] / total, (w @ log_t[came])[:, None] / total
    du, dt = u[came] - u_mean, log_t[came] - t_mean
    slope = np.sum(w * du * dt, axis=1, keepdims=True) / np.sum(w * du**2, axis=1, keepdims=True)
    seen = dt - slope * du
    ended = log_t[censored] - t_mean - slope * (u[censored] - u_mean)
    unexplained = np.sum(w * seen**2, axis=1) + np.sum(v * np.maximum(ended, 0) ** 2, axis=1)
    scale = np.sqrt(unexplained / (w.sum(axis=1) + v.sum(axis=1)))[:, None]
    exact = scale[:, 0] < 1e-12 * max(1.0, np.abs(log_t).max())

    a, b, sigma = (np.zeros(len(w)) for _ in range(3))
    rest = ~exact
    if rest.any():
        design = [
            np.stack(np.broadcast_arrays(1.0, u[mask], -value[rest] / scale[rest]), axis=-1)
            for mask, value in ((came, seen), (censored, ended))
        ]
        theta = _most_likely(design[0], w[rest], design[1], v[rest])
        a[rest], b[rest] = (scale[rest] * theta[:, :2] / theta[:, 2:]).T
        sigma[rest] = scale[rest, 0] / theta[:, 2]
    intercept = t_mean[:, 0] - slope[:, 0] * u_mean[:, 0] + a
    slope = slope[:, 0] + b
    found[varied] = np.stack([intercept - slope * mean / width, slope / width, sigma], axis=1)
    return found


def _most_likely(seen: NDArray, w: NDArray, ended: NDArray, v: NDArray) -> NDArray:
    """θ = (α/σ, β/σ, 1/σ) that maximises Σ w (log 1/σ − z²/2) + Σ v log Φ(z), z = rows·θ; one a resample.

    Rows are (1, u, −log t), shapes (R, N, 3). In these variables the likelihood is concave (Olsen 1978), so Newton's
    method with steps halved until they gain arrives from anywhere.
    """
    total = w.sum(axis=1)
    quadratic = np.einsum("rn,rni,rnj->rij", w, seen, seen)
    theta = np.tile([0.0, 0.0, 1.0], (len(w), 1))

    def likelihood(theta: NDArray) -> NDArray:
        z = np.einsum("rni,ri->rn", ended, theta)
        of_seen = (
            total * np.log(np.maximum(theta[:, 2], 1e-300)) - np.einsum("ri,rij,rj->r", theta, quadratic, theta) / 2
        )
        return np.where(theta[:, 2] > 0, of_seen + np.sum(v * log_ndtr(z), axis=1), -np.inf)

    for _ in range(100):
        z = np.einsum("rni,ri->rn", ended, theta)
        hazard = np.exp(-(z**2) / 2 - math.log(2 * math.pi) / 2 - log_ndtr(z))
        bend = v * np.clip(hazard * (z + hazard), 0, 1)
        gradient = np.einsum("rn,rni->ri", v * hazard, ended) - np.einsum("rij,rj->ri", quadratic, theta)
        curvature = quadratic + np.einsum("rn,rni,rnj->rij", bend, ended, ended)
        gradient[:, 2] += total / theta[:, 2]
        curvature[:, 2, 2] += total / theta[:, 2] ** 2
        step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
        gain = np.sum(gradient * step, axis=1)
        before = likelihood(theta)
        for _ in range(50):
            worse = likelihood(theta + step) < before - 1e-12 * (1 + np.abs(before))  # by more than rounding
            if not worse.any():
                break
            step[worse] /= 2
        theta = theta + step
        if np.all(gain < 1e-16 * total):  # Newton's steps square their error: this one was the last that counts
            break
    return theta
