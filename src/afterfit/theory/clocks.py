"""When a run must turn: the times that the papers' theorems predict, against what the run did."""

from __future__ import annotations

import abc
import dataclasses
from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from afterfit import tangent
from afterfit.dynamics import LabelNoiseSGD
from afterfit.models import Linear
from afterfit.penalties import L1, Nuclear
from afterfit.run import Run
from afterfit.spec import SpecError
from afterfit.theory.instance import Instance, instance_of
from afterfit.theory.kernel import MOST, kernel_predictor
from afterfit.theory.named import Named
from afterfit.theory.obstacles import not_decayed, not_dynamics, not_homogeneous, not_model, not_penalty, not_squared
from afterfit.theory.programs import NotSeparableError, min_l2
from afterfit.turns import computing

__all__ = ["WINDOW", "Clock", "Clocks", "clock", "turning_time"]

WINDOW = 0.5  # c of the (1 ± c)-window around (1/λ)·log α
_CLOSE = 0.01  # how close to its end, relatively, a penalty counts as minimised
_SIGNS = {"about": "≈", "order": "~", "at most": "≥"}


@dataclasses.dataclass(frozen=True)
class Clock:
    """A predicted time, in units of training time, and what the run did.

    `event` is what the theorem times: `"fit"` (t_fit), `"generalisation"` (t_gen), `"turn"` (the test metric half-way
    between its plateaus, the verdict's `t_half`) or `"penalty"` (the penalty within 1 % of its least). `measured` is
    that time in the run, None if it did not come, and `ratio` is measured/prediction.

    `claim` is how much the theorem says: `"about"` this time, within `window`; times of this `"order"`, up to a factor
    that it does not give (or gives in a limit only, in which `window` holds); or `"at most"` this time: a ratio below 1
    agrees. `symbol` is the name as mathtext.
    """

    name: str
    source: str
    event: str
    prediction: float
    measured: float | None
    claim: str
    window: tuple[float, float] | None = None
    symbol: str = ""

    @property
    def bound(self) -> bool:
        """Whether the theorem says "at most"."""
        return self.claim == "at most"

    @property
    def ratio(self) -> float | None:
        """measured/prediction."""
        return None if self.measured is None else self.measured / self.prediction

    def __str__(self) -> str:
        seen = "not seen" if self.ratio is None else f"measured {self.measured:.3g}, {self.ratio:.2g} of it"
        told = f"{self.name} = {self.prediction:.3g} {_SIGNS[self.claim]} time of {self.event}"
        return f"{told}: {seen} ({self.source})"


class Clocks(Named):
    """The clocks of one run, in order and by name; `silent` says of the others why they do not apply to it."""

    silent: dict[str, str]

    def __str__(self) -> str:
        return "\n".join([*map(str, self), *(f"{name}: does not apply: {why}" for name, why in self.silent.items())])

    __repr__ = __str__


def clock(run: Run) -> Clocks:
    """Every clock that applies to a run: its prediction, and its ratio to what the run did.

    ```python
    print(af.theory.clock(run))
    af.theory.clock(run)["(1/λ)·log α"].ratio
    ```
    """
    instance = instance_of(run)
    told, silent = [], {}
    with computing():
        for rule in _RULES:
            why = rule.obstacle(instance)
            if why is None:
                try:
                    told.append(rule.tell(instance, run))
                    continue
                except (SpecError, NotSeparableError, RuntimeError) as error:
                    why = str(error)
            silent[rule.name] = why
    clocks = Clocks(told)
    clocks.silent = silent
    return clocks


def turning_time(run: Run) -> float | None:
    """When the test metric is half-way between its plateaus, as the verdict has it; None if it makes no passage."""
    return run.verdict.t_half


class _Rule(abc.ABC):
    """How a clock is told. `name` and `symbol` are its formula, `source` where it is from."""

    name: ClassVar[str]
    symbol: ClassVar[str]
    source: ClassVar[str]
    event: ClassVar[str]
    claim: ClassVar[str]

    @abc.abstractmethod
    def obstacle(self, instance: Instance) -> str | None:
        """Why it does not apply to this instance; None if it does."""

    @abc.abstractmethod
    def tell(self, instance: Instance, run: Run) -> Clock:
        """Its time, and the run's; `SpecError` if it turns out to have none."""

    def clock(self, run: Run, prediction: float, measured: float | None = None, **more) -> Clock:
        """The clock of this rule at a time, with when its event came in the run."""
        times = {"fit": run.verdict.t_fit, "generalisation": run.verdict.t_gen, "turn": turning_time(run)}
        seen = times.get(self.event, measured)
        fields = {"name": self.name, "source": self.source, "claim": self.claim, "symbol": self.symbol, **more}
        return Clock(event=self.event, prediction=float(prediction), measured=seen, **fields)


class _SlowTime(_Rule):
    name, symbol = "1/λ", r"$1/\lambda$"
    source, event, claim = "Boursier et al. 2025, Prop. 2", "turn", "order"

    def obstacle(self, instance: Instance) -> str | None:
        return not_decayed(instance) or not_squared(instance)

    def tell(self, instance: Instance, run: Run) -> Clock:
        return self.clock(run, 1 / instance.decay)


class _LargeStart(_Rule):
    name, symbol = "(1/λ)·log α", r"$(1/\lambda)\log\alpha,\ \alpha\to\infty$"
    source, event, claim = "Lyu et al. 2023, Thms 3.4–3.10", "turn", "order"

    def obstacle(self, instance: Instance) -> str | None:
        alpha = instance.initial_norm
        small = None if alpha > 1 else f"it is for a large norm α of the start, and here α = {alpha:.3g}"
        return not_decayed(instance) or not_homogeneous(instance) or small

    def tell(self, instance: Instance, run: Run) -> Clock:
        middle = float(np.log(instance.initial_norm) / instance.decay)
        return self.clock(run, middle, window=((1 - WINDOW) * middle, (1 + WINDOW) * middle))


class _KernelPhase(_Rule):
    """(1/λ)·log α with its constant: when the kernel regime's way h from the start is as long as what is left of it.

    Along tangent features of a start that has decayed to sθ₀, s = e^{−λt}, of degree L, the data are fitted by a
    displacement of s^(1−L)·h: as long as sθ₀ itself at s^L = ‖h‖/‖θ₀‖. For losses of margins the kernel classifier h of
    margin 1 is stretched by log(1/λ), where decay balances it (the (1/L)·log log A of Lemma C.5).
    """

    name, symbol = "(1/Lλ)·log(α/‖h‖)", r"$(1/L\lambda)\log(\alpha/\Vert h\Vert)\pm 1/\lambda$"
    source, event, claim = "Lyu et al. 2023, Lemmas C.5 and D.2, with the constant of this start", "turn", "about"

    def obstacle(self, instance: Instance) -> str | None:
        return not_decayed(instance) or not_homogeneous(instance)

    def tell(self, instance: Instance, run: Run) -> Clock:
        decay, alpha, way = instance.decay, instance.initial_norm, _kernel_way(instance)
        if way >= alpha:
            raise SpecError(
                f"the kernel regime would end ‖h‖ = {way:.3g} from a start of norm α = {alpha:.3g}: that start is too "
                "small for a kernel phase"
            )
        degree = instance.model.degree or 1
        middle, margin = float(np.log(alpha / way) / (degree * decay)), 1 / decay
        return self.clock(run, middle, window=(max(middle - margin, 0.0), middle + margin))


def _kernel_way(instance: Instance) -> float:
    """‖h‖, how far from the start the kernel regime ends."""
    if not instance.regression:
        if instance.decay >= 1:
            raise SpecError(f"it is for weak decay, λ < 1, not {instance.decay:g}")
        return kernel_predictor(instance).norm * float(np.log(1 / instance.decay))
    if instance.targets.size > MOST:
        raise SpecError(_too_many(instance))
    kernel = np.asarray(tangent.kernel(instance.problem, instance.initial))
    y = instance.targets.ravel()
    return float(np.sqrt(y @ np.linalg.lstsq(kernel, y, rcond=1e-13)[0]))


class _Fit(_Rule):
    """log(1/ε)/α steps of size α: the loss falls at least as e^{−χt}, χ the Chatterjee–Łojasiewicz constant."""

    name, symbol = "log(1/ε)/χ", r"$\log(1/\varepsilon)/\chi$"
    source, event, claim = "Notsawo et al. 2025, Thm 2.1", "fit", "order"

    def obstacle(self, instance: Instance) -> str | None:
        return not_squared(instance) or (_too_many(instance) if instance.targets.size > MOST else None)

    def tell(self, instance: Instance, run: Run) -> Clock:
        values = np.linalg.eigvalsh(np.asarray(tangent.kernel(instance.problem, instance.initial)))
        # |∇g|² ≥ χ·g with g = (c/2)‖f − y‖² and ∇g = cJᵀ(f − y): χ = 2c·λ_min(JJᵀ), exact for linear models.
        chi = 2 * instance.half_factor * float(values[0])
        outputs = tangent.outputs(instance.problem, instance.initial)
        start = float(instance.task.score(outputs, jnp.asarray(instance.targets)))
        goal = run.criteria.train.value
        if start <= goal:
            raise SpecError(f"the start has a train error of {start:.3g} already, and {goal:g} counts as fitted")
        if chi <= 1e-12 * values[-1]:
            raise SpecError(f"the least eigenvalue of the tangent kernel at the start is 0 ({values[0]:.2g})")
        time = 2 * np.log(start / goal) / chi  # the loss is the square of the error
        return self.clock(run, time, claim="at most" if instance.model.linear else "order")


class _Convex(_Rule):
    """Linear models with an L1 or nuclear penalty: how far the penalty has to carry the least-squares solution."""

    def obstacle(self, instance: Instance) -> str | None:
        return not_squared(instance) or not_model(instance, Linear) or not_penalty(instance, L1, Nuclear)


class _Descent(_Convex):
    name, symbol = "‖â − a*‖_∞/β", r"$\Vert\hat{a}-a^*\Vert_\infty/\beta$"
    source, event, claim = "Notsawo et al. 2025, Fig. 4", "generalisation", "order"

    def tell(self, instance: Instance, run: Run) -> Clock:
        gap, strength = _gap(instance), float(instance.experiment.penalty.strength)
        if not _of_matrices(instance):
            return self.clock(run, np.max(np.abs(gap)) / strength)
        return self.clock(
            run,
            float(np.linalg.norm(gap, 2)) / strength,
            name="‖Â − A*‖₂/β",
            symbol=r"$\Vert\hat{A}-A^*\Vert_2/\beta$",
            source="Notsawo et al. 2025, Fig. 29",
        )


class _PenaltyBound(_Convex):
    name, symbol = "‖x(t₁) − x*‖²/(βη)", r"$\Vert x(t_1)-x^*\Vert^2/(\beta\eta)$"
    source, event, claim = "Notsawo et al. 2025, Thm 2.1", "penalty", "at most"

    def tell(self, instance: Instance, run: Run) -> Clock:
        gap, end = _gap(instance), instance.least_penalty
        least = float(np.linalg.norm(end, "nuc") if _of_matrices(instance) else np.sum(np.abs(end)))
        eta = 2 * _CLOSE * least  # h − h* ≤ η/2 is what Δt(η) promises
        bound = float(np.sum(gap**2)) / (float(instance.experiment.penalty.strength) * eta)
        times, values = run.curves["time"].values, run.curves["penalty"].values
        top = int(np.argmax(values))  # the norm grows with the fit first
        reached = np.flatnonzero(values[top:] <= (1 + _CLOSE) * least)
        return self.clock(run, bound, float(times[top + reached[0]]) if len(reached) else None)


def _gap(instance: Instance) -> np.ndarray:
    """From where a convex penalty leads to where the loss alone does, the least-squares solution by the start."""
    X, start = instance.design, np.asarray(instance.initial["weights"])
    flat = X.reshape(len(X), -1)
    landed = start + min_l2(flat, instance.targets - flat @ start.ravel()).reshape(start.shape)
    return landed - instance.least_penalty


def _of_matrices(instance: Instance) -> bool:
    return type(instance.experiment.penalty) is Nuclear and instance.design.ndim == 3


class _LabelNoise(_Rule):
    name, symbol = "η⁻² steps", r"$\eta^{-2}$ steps"
    source, event, claim = "Lyu et al. 2023, Thm B.1", "generalisation", "order"

    def obstacle(self, instance: Instance) -> str | None:
        return not_dynamics(instance, LabelNoiseSGD)

    def tell(self, instance: Instance, run: Run) -> Clock:
        dynamics = instance.experiment.dynamics
        assert isinstance(dynamics, LabelNoiseSGD)
        return self.clock(run, 1 / float(dynamics.lr))  # η⁻² steps of size η


def _too_many(instance: Instance) -> str:
    return f"the tangent kernel of {instance.targets.size} outputs is too large to factorise: at most {MOST}"


_RULES: tuple[_Rule, ...] = (
    _SlowTime(),
    _LargeStart(),
    _KernelPhase(),
    _Fit(),
    _Descent(),
    _PenaltyBound(),
    _LabelNoise(),
)
