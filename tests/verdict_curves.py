"""Random training and test curves whose verdict is beyond doubt: ground truth for the diagnosis.

Nothing here knows how a diagnosis is made. A curve is a function of log time, made of levels and of transitions
between them. A draw is kept only if its definition is met with a margin *at the observations*: whoever reads the
numbers of the table alone has to come to the same verdict.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from afterfit._diagnose.thresholds import Criteria

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
class Step:
    """From `before` to `after`, from 10 % to 90 % of it within `width` decades around `centre`."""

    centre: float
    width: float
    before: float
    after: float

    def at(self, tau: np.ndarray) -> np.ndarray:
        done = 1 / (1 + np.exp(np.clip(-2 * np.log(9) * (tau - self.centre) / self.width, -500, 500)))
        return self.before + (self.after - self.before) * done


@dataclasses.dataclass(frozen=True)
class _Draw:
    """Errors as functions of log time, each the larger of its steps, and their levels at the thresholds."""

    tau: np.ndarray
    train_steps: tuple[Step, ...]
    test_steps: tuple[Step, ...]
    fit: float
    goal: float
    high: float  # where errors begin
    middle: float  # a test error that is not generalisation

    @functools.cached_property
    def train(self) -> np.ndarray:
        return np.max([step.at(self.tau) for step in self.train_steps], axis=0)

    @functools.cached_property
    def test(self) -> np.ndarray:
        return np.max([step.at(self.tau) for step in self.test_steps], axis=0)

    @property
    def before_end(self) -> tuple[float, float]:
        """Both errors 0.2 decades before the end, whether they were observed there or not."""
        then = dataclasses.replace(self, tau=self.tau[-1:] - 0.2)
        return float(then.train[0]), float(then.test[0])

    @property
    def fitted(self) -> int | None:
        """The first observation that is fitted with a margin, as are all that follow."""
        failing = np.flatnonzero(self.train > 0.5 * self.fit)
        first = int(failing[-1]) + 1 if failing.size else 0
        return first if first < self.tau.size else None

    @property
    def late(self) -> bool:
        """Whether the test error is still where it began when five times the time of the fit is over."""
        if self.fitted is None:
            return False
        waiting = np.flatnonzero(self.tau >= self.tau[self.fitted] + np.log10(5))
        return bool(waiting.size) and bool(np.all(self.test[: waiting[0] + 1] >= 0.95 * self.high))


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


def _one(kind: str, rng: np.random.Generator, style: str) -> _Draw:
    """A draw meant to be of a kind; whether it is, the observations have to tell."""
    tau = _grid(rng)
    fit, goal = (FIT_ERROR, GENERALISE_ERROR) if style == "error" else (FIT, GENERALISE)
    high = 1.0 if style == "error" else rng.uniform(0.5, 0.95)  # chance; in percent it is above 2
    fits, good = (float(rng.choice([0.0, rng.uniform(0, most)])) * level for most, level in ((0.1, fit), (0.4, goal)))
    early, late = np.sort(rng.uniform(tau[0], tau[-1], 2))
    narrow, wide, third = rng.uniform(0.1, 0.6, 3)
    middle, unfit = (float(np.exp(rng.uniform(np.log(low), np.log(high)))) for low in (2 * goal, 4 * fit))
    fall = Step(early, narrow, high, fits)
    flat = Step(early, narrow, high, high)
    train, test = (fall,), (flat,)
    if kind == "grokking":
        test = (Step(late, wide, high, good),)
    elif kind == "grokking under way":
        test = (Step(tau[-1] + rng.uniform(-0.1, 0.3), wide + 0.2, high, good),)
    elif kind == "grokking without understanding":
        test = (Step(late, wide, high, middle),)
    elif kind == "generalised with the fit":
        test = (Step(early + rng.uniform(-0.5, 0.0), narrow, high, good),)
    elif kind == "never generalised":
        test = (Step(early - 0.3, narrow, high, float(rng.choice([high, middle]))),)
    elif kind == "misgrokking":
        gained = early + rng.choice([-0.3, 0.0, 1.0])
        test = (Step(gained, wide, high, good), Step(late, third, 0.0, middle))
    elif kind == "training collapsed":
        train = (fall, Step(late, third, 0.0, rng.uniform(8 * fit, high)))
    elif kind == "never fitted":
        train = (Step(early, narrow, high, unfit),)
        test = (Step(late, wide, high, float(rng.choice([high, middle]))),)
    elif kind == "diverged":  # what precedes it
        test = (Step(early, wide, high, float(rng.choice([high, good]))),)
    return _Draw(tau, train, test, fit, goal, high, middle)


def _beyond_doubt(kind: str, draw: _Draw) -> bool:
    """Whether the observations meet the definition of a verdict with a margin."""
    tau, test, goal, high = draw.tau, draw.test, draw.goal, draw.high
    train_then, test_then = draw.before_end
    if kind == "never fitted":
        return bool(np.all(draw.train >= 3 * draw.fit))
    if kind == "diverged":
        return True
    if kind == "training collapsed":
        held = tau[draw.train <= 0.5 * draw.fit]
        lost = draw.train[-1] >= 6 * draw.fit and train_then >= 5 * draw.fit
        return bool(held.size > 1 and held[-1] - held[0] >= 0.7 and lost)
    f = draw.fitted
    if f is None or f == 0 or tau[-1] - tau[f] < 0.3:
        return False
    if kind == "grokking":
        return bool(high >= 4 * goal and draw.late and max(test[-1], test_then) <= 0.5 * goal)
    if kind == "generalised with the fit":
        return bool(np.all(test[f:] <= 0.5 * goal))
    if kind == "never generalised":
        return bool(np.all(test >= 3 * goal) and test[f:].max() <= 1.03 * test[f:].min())
    if kind == "misgrokking":
        held = tau[test <= 0.5 * goal]
        kept = held.size > 1 and held[-1] - held[0] >= 0.7 and held[-1] >= tau[f] + 0.2
        return bool(kept and test[-1] >= 4 * goal and test_then >= 3.5 * goal)
    if kind == "grokking without understanding":
        settled = tau[test <= 1.02 * draw.middle]
        short = 2.5 * goal <= draw.middle <= high / 3
        return bool(short and draw.late and settled.size > 1 and settled[-1] - settled[0] >= 0.5)
    # Under way: a third of the way or more, however it is measured, and on its way at the end.
    linear, logs = (high - test[-1]) / (high - goal), np.log(high / test[-1]) / np.log(high / goal)
    moving = test_then - test[-1] >= 0.15 * (high - test[-1])
    return bool(min(linear, logs) >= 1 / 3 and test[-1] >= 2.5 * goal and moving and draw.late)


def draw_table(kind: str, rng: np.random.Generator, *, noise: bool) -> Table:
    """A random log that shows `kind`, without noise or with 5 % of it."""
    while True:
        style = str(rng.choice(["fraction", "percent", "error"]))
        draw = _one(kind, rng, style)
        if _beyond_doubt(kind, draw):
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
