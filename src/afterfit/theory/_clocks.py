"""When a run must turn: the times that the papers' theorems predict, against what the run did.

A new clock is a subclass of `Clock` with a `name`.
"""

from __future__ import annotations

import abc
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from afterfit._base import html
from afterfit._base.errors import Unanswered
from afterfit._base.rules import Rule
from afterfit._base.turns import interruptible
from afterfit._training.run import Run
from afterfit.theory._answers import Answers, with_how
from afterfit.theory._instance import Instance, instance_of
from afterfit.theory._kernel import kernel_predictor, way_to_targets
from afterfit.theory._programs import min_l2
from afterfit.theory.obstacles import (
    not_decayed,
    not_direct,
    not_homogeneous,
    not_its_metric,
    not_label_noise,
    not_penalty,
    not_squared,
)

__all__ = [
    "WINDOW",
    "Clock",
    "Clocks",
    "Descent",
    "FitTime",
    "KernelPhase",
    "LabelNoiseTime",
    "LargeStart",
    "MatrixDescent",
    "PenaltyBound",
    "SlowTime",
    "clocks",
]

WINDOW = 0.5  # c of the (1 ± c)-window around (1/λ)·log α
_CLOSE = 0.01  # how close to its end, relatively, a penalty counts as minimised
_SIGNS = {"about": "≈", "order": "~", "at most": "≥"}


class Clock(Rule):
    """A predicted time, in units of training time, and what the run did.

    `name` is its formula, `symbol` the same as mathtext, and `source` where it is from.

    `event` is what the theorem times: `"fit"` (t_fit), `"generalisation"` (t_gen), `"turn"` (the test metric half-way
    between its plateaus, the verdict's `t_half`) or `"penalty"` (the penalty within 1 % of its least). `measured` is
    that time in the run, None if it did not come, and `ratio` is measured/prediction.

    `promise` is how much the theorem says: `"about"` this time, within `window`; times of this `"order"`, up to a
    factor that it does not give (or gives in a limit only, in which `window` holds); or `"at most"` this time: a ratio
    below 1 agrees. `how` says what was not computed exactly, or not on all examples.

    One of your own says when it applies (`obstacle`) and which time it tells (`tell`, which may set `window`):

    ```python
    class Half(Clock):
        name, source = "1/(2λ)", "my paper"
        event, promise = "turn", "order"

        @classmethod
        def obstacle(cls, instance):
            return not_decayed(instance)

        def tell(self, instance, run):
            return 1 / (2 * instance.decay)
    ```
    """

    source: ClassVar[str]
    event: ClassVar[str]
    promise: str
    symbol: ClassVar[str] = ""

    prediction: float
    measured: float | None
    window: tuple[float, float] | None = None
    how: str = ""

    def __init__(self, instance: Instance, run: Run):
        self.prediction = float(self.tell(instance, run))
        self.measured = self.measure(run)

    @classmethod
    @abc.abstractmethod
    def obstacle(cls, instance: Instance) -> str | None:
        """Why it does not apply to this instance; None if it does."""

    @abc.abstractmethod
    def tell(self, instance: Instance, run: Run) -> float:
        """Its time; `Unanswered` if it turns out to have none."""

    def measure(self, run: Run) -> float | None:
        """When its event came in a run."""
        verdict = run.verdict
        return {"fit": verdict.t_fit, "generalisation": verdict.t_gen, "turn": verdict.t_half}[self.event]

    @property
    def ratio(self) -> float | None:
        """measured/prediction."""
        return None if self.measured is None else self.measured / self.prediction

    def __str__(self) -> str:
        seen = "not seen" if self.ratio is None else f"measured {self.measured:.3g}, {self.ratio:.2g} of it"
        told = f"{self.name} = {self.prediction:.3g} {_SIGNS[self.promise]} time of {self.event}"
        return f"{told}: {seen} ({with_how(self.source, self.how)})"

    def __repr__(self) -> str:
        measured = "None" if self.measured is None else f"{self.measured:.4g}"
        return f"{type(self).__name__}(prediction={self.prediction:.4g}, measured={measured})"


class Clocks(Answers):
    """The clocks of one run, in order, by class and by name; `silent` says of the others why they do not apply."""

    def __str__(self) -> str:
        silent = (f"{rule.name}: does not apply: {why}" for rule, why in self.silent.items())
        return "\n".join([*map(str, self), *silent])

    def _repr_html_(self) -> str:
        rows = [
            (
                told.name,
                f"{_SIGNS[told.promise]} {told.event}",
                f"{told.prediction:.3g}",
                "not seen" if told.measured is None else f"{told.measured:.3g}",
                "" if told.ratio is None else f"{told.ratio:.2g}",
                with_how(told.source, told.how),
            )
            for told in self
        ]
        head = ("clock", "times", "prediction", "measured", "ratio", "source")
        return html.table(head, rows, "When it should turn") + self._silent_html()


def clocks(run: Run) -> Clocks:
    """Every clock that applies to a run: its prediction, and its ratio to what the run did.

    ```python
    print(af.theory.clocks(run))
    af.theory.clocks(run)[af.theory.LargeStart].ratio
    ```
    """
    return clocks_of(instance_of(run), run)


def clocks_of(instance: Instance, run: Run) -> Clocks:
    """The same of a run whose problem is posed already."""
    return interruptible(lambda: Clocks.of(Clock.known(), instance, lambda clock: clock(instance, run)))


class SlowTime(Clock):
    """When weight decay λ has had its time."""

    name, symbol = "1/λ", r"$1/\lambda$"
    source, event, promise = "Boursier et al. 2025, Prop. 2", "turn", "order"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_decayed(instance) or not_squared(instance)

    def tell(self, instance: Instance, run: Run) -> float:
        return 1 / instance.decay


class LargeStart(Clock):
    """When weight decay λ has brought a start of large norm α down to norm 1, sharp as α → ∞."""

    name, symbol = "(1/λ)·log α", r"$(1/\lambda)\log\alpha,\ \alpha\to\infty$"
    source, event, promise = "Lyu et al. 2023, Thms 3.4–3.10", "turn", "order"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        alpha = instance.initial_norm
        small = None if alpha > 1 else f"it is for a large norm α of the start, and here α = {alpha:.3g}"
        return not_decayed(instance) or not_homogeneous(instance) or small

    def tell(self, instance: Instance, run: Run) -> float:
        middle = float(np.log(instance.initial_norm) / instance.decay)
        self.window = ((1 - WINDOW) * middle, (1 + WINDOW) * middle)
        return middle


class KernelPhase(Clock):
    """(1/λ)·log α with its constant: when the kernel regime's way h from the start is as long as what is left of it.

    Along tangent features of a start that has decayed to sθ₀, s = e^{−λt}, of degree L, the data are fitted by a
    displacement of s^(1−L)·h: as long as sθ₀ itself at s^L = ‖h‖/‖θ₀‖. For losses of margins the kernel classifier h of
    margin 1 is stretched by log(1/λ), where decay balances it (the (1/L)·log log A of Lemma C.5).
    """

    name, symbol = "(1/Lλ)·log(α/‖h‖)", r"$(1/L\lambda)\log(\alpha/\Vert h\Vert)\pm 1/\lambda$"
    source, event, promise = "Lyu et al. 2023, Lemmas C.5 and D.2, with the constant of this start", "turn", "about"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_decayed(instance) or not_homogeneous(instance)

    def tell(self, instance: Instance, run: Run) -> float:
        decay, alpha = instance.decay, instance.initial_norm
        way, self.how = _kernel_way(instance)
        if way >= alpha:
            raise Unanswered(
                f"the kernel regime would end ‖h‖ = {way:.3g} from a start of norm α = {alpha:.3g}: that start is too "
                "small for a kernel phase"
            )
        degree = instance.model.degree
        assert degree is not None, "an obstacle to any other"
        middle, margin = float(np.log(alpha / way) / (degree * decay)), 1 / decay
        self.window = (max(middle - margin, 0.0), middle + margin)
        return middle


def _kernel_way(instance: Instance) -> tuple[float, str]:
    """‖h‖, how far from the start the kernel regime ends, and how that was found."""
    if not instance.regression:
        if instance.decay >= 1:
            raise Unanswered(f"it is for weak decay, λ < 1, not {instance.decay:g}")
        found = kernel_predictor(instance)
        return found.norm * float(np.log(1 / instance.decay)), found.how
    return way_to_targets(instance)


class FitTime(Clock):
    """log(1/ε)/α steps of size α: the loss falls at least as e^{−χt}, χ the Chatterjee–Łojasiewicz constant."""

    name, symbol = "log(1/ε)/χ", r"$\log(1/\varepsilon)/\chi$"
    source, event, promise = "Notsawo et al. 2025, Thm 2.1", "fit", "order"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_its_metric(instance)

    def tell(self, instance: Instance, run: Run) -> float:
        least, largest = instance.independence, instance.curvature
        # |∇g|² ≥ χ·g with g = (c/2)‖f − y‖² and ∇g = cJᵀ(f − y): χ = 2c·λ_min(JJᵀ), exact for linear models.
        chi = 2 * instance.half_factor * least
        if instance.model.linear:
            self.promise = "at most"
        start = float(instance.task.score(jnp.asarray(instance.initial_outputs), jnp.asarray(instance.targets)))
        goal = run.criteria.train.value
        if start <= goal:
            raise Unanswered(f"the start has a train error of {start:.3g} already, and {goal:g} counts as fitted")
        if chi <= 1e-12 * largest:
            raise Unanswered(f"the least eigenvalue of the tangent kernel at the start is 0 ({least:.2g})")
        if instance.many:
            self.how = "its least eigenvalue is known from above"
        return 2 * np.log(start / goal) / chi  # the loss is the square of the error


class _Convex(Clock):
    """Linear models with an L1 or nuclear penalty: how far the penalty has to carry the least-squares solution."""

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_squared(instance) or not_direct(instance) or not_penalty(instance, "l1", "nuclear")


class Descent(_Convex):
    """When the penalty has brought down every entry that the least-squares solution has too much."""

    name, symbol = "‖â − a*‖_∞/β", r"$\Vert\hat{a}-a^*\Vert_\infty/\beta$"
    source, event, promise = "Notsawo et al. 2025, Fig. 4", "generalisation", "order"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        matrices = "of a matrix with a nuclear penalty singular values come down, not entries"
        return super().obstacle(instance) or (matrices if _of_matrices(instance) else None)

    def tell(self, instance: Instance, run: Run) -> float:
        return np.max(np.abs(_gap(instance))) / instance.strength


class MatrixDescent(_Convex):
    """The same for the singular values of a matrix under a nuclear penalty."""

    name, symbol = "‖Â − A*‖₂/β", r"$\Vert\hat{A}-A^*\Vert_2/\beta$"
    source, event, promise = "Notsawo et al. 2025, Fig. 29", "generalisation", "order"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        vectors = "it is for matrices with a nuclear penalty"
        return super().obstacle(instance) or (None if _of_matrices(instance) else vectors)

    def tell(self, instance: Instance, run: Run) -> float:
        return float(np.linalg.norm(_gap(instance), 2)) / instance.strength


class PenaltyBound(_Convex):
    """When the penalty is within 1 % of its least, at the latest."""

    name, symbol = "‖x(t₁) − x*‖²/(βη)", r"$\Vert x(t_1)-x^*\Vert^2/(\beta\eta)$"
    source, event, promise = "Notsawo et al. 2025, Thm 2.1", "penalty", "at most"

    def tell(self, instance: Instance, run: Run) -> float:
        gap, end = _gap(instance), instance.least_penalty
        self._least = float(np.linalg.norm(end, "nuc") if _of_matrices(instance) else np.sum(np.abs(end)))
        eta = 2 * _CLOSE * self._least  # h − h* ≤ η/2 is what Δt(η) promises
        return float(np.sum(gap**2)) / (instance.strength * eta)

    def measure(self, run: Run) -> float | None:
        times, values = run.curves["time"].values, run.curves["penalty"].values
        top = int(np.argmax(values))  # the norm grows with the fit first
        reached = np.flatnonzero(values[top:] <= (1 + _CLOSE) * self._least)
        return float(times[top + reached[0]]) if len(reached) else None


def _gap(instance: Instance) -> np.ndarray:
    """From where a convex penalty leads to where the loss alone does, the least-squares solution by the start."""
    start = np.asarray(instance.initial["weights"])
    landed = start + min_l2(instance.rows, instance.targets - instance.rows @ start.ravel()).reshape(start.shape)
    return landed - instance.least_penalty


def _of_matrices(instance: Instance) -> bool:
    return instance.penalty_form == "nuclear" and instance.design.ndim == 3


class LabelNoiseTime(Clock):
    """When label noise has moved the parameters among the solutions."""

    name, symbol = "η⁻² steps", r"$\eta^{-2}$ steps"
    source, event, promise = "Lyu et al. 2023, Thm B.1", "generalisation", "order"

    @classmethod
    def obstacle(cls, instance: Instance) -> str | None:
        return not_label_noise(instance)

    def tell(self, instance: Instance, run: Run) -> float:
        assert instance.step_size is not None
        return 1 / float(instance.step_size)  # η⁻² steps of size η
