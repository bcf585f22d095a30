"""Random training and test curves whose verdict is beyond doubt: ground truth for the diagnosis.

Nothing here knows how a diagnosis is made. A curve is a function of log time, made of levels and of transitions
between them. A draw is kept only if its definition is met with a margin *at the observations*: whoever reads the
numbers of the table alone has to come to the same verdict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from afterfit.criteria import Criteria

FEWEST, MOST = 5, 5000  # observations
EXAMPLES = 100  # that a noisy accuracy is counted on: a standard deviation of 5 % at one half
NOISE = 0.05  # relative, of a noisy error
FIT, GENERALISE = 0.01, 0.05  # the errors of the thresholds, of accuracies
FIT_ERROR, GENERALISE_ERROR = 0.01, 0.1  # of errors that begin at 1


@dataclasses.dataclass(frozen=True)
class Table:
    """What a log holds, and what it shows."""

    kind: str
    time: np.ndarray
    train: np.ndarray
    test: np.ndarray
    loss: np.ndarray | None
    criteria: Criteria
    style: str


@dataclasses.dataclass(frozen=True)
class _Draw:
    """The errors at the observations, and as functions of log time."""

    tau: np.ndarray
    train: np.ndarray
    test: np.ndarray
    fit: float  # the training error at its threshold
    goal: float  # the test error at its threshold
    train_at: Callable
    test_at: Callable

    @property
    def fitted(self) -> int | None:
        """The first observation that is fitted with a margin, as are all that follow."""
        failing = np.flatnonzero(self.train > 0.5 * self.fit)
        first = int(failing[-1]) + 1 if failing.size else 0
        return first if first < self.tau.size else None

    def before_end(self, decades: float) -> tuple[float, float]:
        return float(self.train_at(self.tau[-1] - decades)), float(self.test_at(self.tau[-1] - decades))


def step(tau, centre: float, width: float, before: float, after: float):
    """From `before` to `after`, from 10 % to 90 % within `width` decades around `centre`."""
    done = 1 / (1 + np.exp(np.clip(-2 * np.log(9) * (tau - centre) / width, -500, 500)))
    return before + (after - before) * done


def _grid(rng: np.random.Generator) -> np.ndarray:
    count = int(np.exp(rng.uniform(np.log(FEWEST), np.log(MOST + 0.5))))
    decades = rng.uniform(3, 8)
    kind = rng.choice(["log", "irregular", "linear"] if count >= 1000 else ["log", "irregular"])
    if kind == "linear":
        tau = np.log10(np.arange(1, count + 1))
    elif kind == "log":
        tau = np.linspace(0, decades, count)
    else:
        places = np.arange(count) + rng.uniform(-0.4, 0.4, count)
        tau = decades * (places - places[0]) / (places[-1] - places[0])
    return tau + rng.uniform(-3, 6)  # any unit of time


def _late(draw: _Draw, level: float) -> bool:
    """Whether the test error is still at its plateau `level` when five times the time of the fit is over."""
    f = draw.fitted
    if f is None:
        return False
    waiting = np.flatnonzero(draw.tau >= draw.tau[f] + np.log10(5))
    return bool(waiting.size) and bool(np.all(draw.test[: waiting[0] + 1] >= 0.95 * level))


def _one(kind: str, rng: np.random.Generator, style: str) -> tuple[_Draw, bool]:
    """A draw of a kind, and whether it is beyond doubt."""
    tau = _grid(rng)
    first, last = tau[0], tau[-1]
    fit, goal = (FIT_ERROR, GENERALISE_ERROR) if style == "error" else (FIT, GENERALISE)
    high = 1.0 if style == "error" else rng.uniform(0.5, 0.95)  # chance; in percent it is above 2
    fitted_level = rng.choice([0.0, rng.uniform(0, 0.1)]) * fit
    good_level = rng.choice([0.0, rng.uniform(0, 0.4)]) * goal
    moves = np.sort(rng.uniform(first, last, 2))
    width = rng.uniform(0.1, 0.6, 3)

    def train(tau):
        return step(tau, moves[0], width[0], high, fitted_level)

    def flat(tau):
        return np.full_like(np.asarray(tau, dtype=float), high)

    middle = float(np.exp(rng.uniform(np.log(2 * goal), np.log(high))))  # a level that is not generalisation
    if kind == "grokking":
        test = lambda tau: step(tau, moves[1], width[1], high, good_level)  # noqa: E731
    elif kind == "generalised with the fit":
        shift = rng.uniform(-0.5, 0.0)
        test = lambda tau: step(tau, moves[0] + shift, width[0], high, good_level)  # noqa: E731
    elif kind == "never generalised":
        level = rng.choice([high, middle])
        test = lambda tau: step(tau, moves[0] - 0.3, width[0], high, level)  # noqa: E731
    elif kind == "grokking under way":
        end = last + rng.uniform(-0.1, 0.3)
        test = lambda tau: step(tau, end, width[1] + 0.2, high, good_level)  # noqa: E731
    elif kind == "grokking without understanding":
        test = lambda tau: step(tau, moves[1], width[1], high, middle)  # noqa: E731
    elif kind == "misgrokking":
        gained = moves[0] + rng.choice([-0.3, 0.0, 1.0])
        test = lambda tau: np.maximum(  # noqa: E731
            step(tau, gained, width[1], high, good_level), step(tau, moves[1], width[2], 0.0, middle)
        )
    elif kind == "training collapsed":
        train = lambda tau: np.maximum(  # noqa: E731
            step(tau, moves[0], width[0], high, fitted_level), step(tau, moves[1], width[2], 0.0, rng_level)
        )
        rng_level = float(rng.uniform(8 * fit, high))
        test = flat
    elif kind == "never fitted":
        level = float(np.exp(rng.uniform(np.log(4 * fit), np.log(high))))
        train = lambda tau: step(tau, moves[0], width[0], high, level)  # noqa: E731
        test = rng.choice([flat, lambda tau: step(tau, moves[1], width[1], high, middle)])
    else:  # diverged: finite until then
        test = rng.choice([flat, lambda tau: step(tau, moves[0], width[1], high, good_level)])
    draw = _Draw(tau, train(tau), test(tau), fit, goal, train, test)
    return draw, _beyond_doubt(kind, draw, high, middle)


def _beyond_doubt(kind: str, draw: _Draw, high: float, middle: float) -> bool:
    tau, test, goal = draw.tau, draw.test, draw.goal
    f = draw.fitted
    train_then, test_then = draw.before_end(0.2)
    if kind == "never fitted":
        return bool(np.all(draw.train >= 3 * draw.fit))
    if kind == "diverged":
        return True
    if kind == "training collapsed":
        held = tau[draw.train <= 0.5 * draw.fit]
        lost = draw.train[-1] >= 6 * draw.fit and train_then >= 5 * draw.fit
        return bool(held.size > 1 and held[-1] - held[0] >= 0.7 and lost)
    if f is None or f == 0 or tau[-1] - tau[f] < 0.3:
        return False
    if kind == "grokking":
        return bool(high >= 4 * goal and _late(draw, high) and test[-1] <= 0.5 * goal and test_then <= 0.5 * goal)
    if kind == "generalised with the fit":
        return bool(np.all(test[f:] <= 0.5 * goal))
    if kind == "never generalised":
        return bool(np.all(test >= 3 * goal) and test[f:].max() <= 1.03 * test[f:].min())
    if kind == "misgrokking":
        held = tau[test <= 0.5 * goal]
        kept = held.size > 1 and held[-1] - held[0] >= 0.7 and held[-1] >= tau[f] + 0.2
        return bool(kept and test[-1] >= 4 * goal and test_then >= 3.5 * goal)
    if kind == "grokking without understanding":
        settled = tau[test <= 1.02 * middle]
        short = 2.5 * goal <= middle <= high / 3
        return bool(short and _late(draw, high) and settled.size > 1 and settled[-1] - settled[0] >= 0.5)
    # under way: between a third and nine tenths of the way, most of it in the last factor of two of the time
    linear, logs = (high - test[-1]) / (high - goal), np.log(high / test[-1]) / np.log(high / goal)
    moving = test_then - test[-1] >= 0.15 * (high - test[-1])
    return bool(min(linear, logs) >= 0.3 and test[-1] >= 2.5 * goal and moving and _late(draw, high))


def draw_table(kind: str, rng: np.random.Generator, *, noise: bool) -> Table:
    """A random log that shows `kind`, without noise or with 5 % of it."""
    while True:
        style = str(rng.choice(["fraction", "percent", "error"]))
        draw, sure = _one(kind, rng, style)
        if sure:
            break
    train, test, loss = draw.train, draw.test, None
    if style == "error":
        unit = 10 ** rng.uniform(-3, 3)
        if noise:
            train, test = (error * np.exp(NOISE * rng.normal(size=error.size)) for error in (train, test))
        train, test = unit * train, unit * test
        criteria = Criteria.errors(FIT_ERROR * unit, GENERALISE_ERROR * unit)
    else:
        unit = 100.0 if style == "percent" else 1.0
        train, test = 1 - train, 1 - test
        if noise:
            train, test = (rng.binomial(EXAMPLES, accuracy) / EXAMPLES for accuracy in (train, test))
        train, test = unit * train, unit * test
        criteria = Criteria.accuracies(unit * (1 - FIT), unit * (1 - GENERALISE))
    time = 10.0**draw.tau
    if kind == "diverged":
        train, test, loss = _diverge(rng, draw.tau, train, test, style)
    return Table(kind, time, train, test, loss, criteria, style)


def _diverge(rng: np.random.Generator, tau: np.ndarray, train: np.ndarray, test: np.ndarray, style: str):
    """The curves with divergence at some observation: nan, infinity, or a loss that grows beyond all bounds."""
    since = int(rng.integers(1, tau.size - 1))
    way = rng.choice(["nan", "inf", "blow-up"])
    late = np.arange(tau.size) >= since
    if way != "blow-up":
        broken = np.nan if way == "nan" else np.inf
        return np.where(late, broken, train), np.where(late, broken, test), None
    grown = np.where(late, 1e5 * 10.0 ** (np.arange(tau.size) - since).clip(0, 20), 1.0)
    if style == "error":
        return train[0] * grown, test, None
    chance = np.where(late, train[0], train), np.where(late, test[0], test)
    return *chance, 2.3 * grown
