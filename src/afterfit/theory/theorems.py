"""Whether a theorem speaks to a run: its assumptions on the run's own instance, what it predicts, and what happened.

A new theorem is a subclass of `Theorem` in `THEOREMS`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from afterfit import tangent
from afterfit.dynamics import Discrete, LabelNoiseSGD
from afterfit.models import MLP, DiagonalNet, EmbeddingMLP, Linear, LinearModel
from afterfit.penalties import L1, L2, NoPenalty, Nuclear
from afterfit.run import Run
from afterfit.spec import SpecError
from afterfit.tasks import SparseClassification
from afterfit.theory import sensing
from afterfit.theory.bounds import l1_margin_bound, l2_margin_bound
from afterfit.theory.clocks import Clock, clock
from afterfit.theory.instance import Instance, instance_of
from afterfit.theory.kernel import MOST, kernel_predictor
from afterfit.theory.landscape import chatterjee_lojasiewicz, hessian_rank, homogeneity
from afterfit.theory.limits import Limits, limits
from afterfit.theory.named import Named
from afterfit.theory.programs import NotSeparableError
from afterfit.theory.stationarity import Stationarity, kkt
from afterfit.theory.thresholds import alpha_thm2_l2, log_alpha_thm2_l1

__all__ = ["THEOREMS", "Case", "Check", "Outcome", "Theorem"]

_SIGNS = 6  # entries of a support whose 2^s signs are all gone through
_EPSILON = 0.1  # of Thm 2: within 10 % of the least norm


@dataclasses.dataclass(frozen=True)
class Check:
    """One assumption on this instance: the number it comes to, and whether it holds (None: it cannot be told).

    What is not `needed` is worth knowing, but the theorem does without it.
    """

    name: str
    number: str
    holds: bool | None
    needed: bool = True


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a theorem predicts and what the run did."""

    predicts: str
    happened: str


class Case:
    """A run with what theory knows of it, each computed once."""

    def __init__(self, run: Run):
        self.run, self.instance = run, instance_of(run)

    @functools.cached_property
    def limits(self) -> Limits:
        return limits(self.run)

    @functools.cached_property
    def clocks(self) -> Named:
        return clock(self.run)

    @functools.cached_property
    def kkt(self) -> Stationarity | None:
        try:
            return kkt(self.instance.problem, self.instance.end)
        except SpecError:
            return None

    @functools.cached_property
    def kernel_values(self) -> np.ndarray | None:
        """Eigenvalues of the tangent kernel at the start, the least first."""
        if self.instance.targets.size > MOST or not self.instance.regression:
            return None
        return np.linalg.eigvalsh(np.asarray(tangent.kernel(self.instance.problem, self.instance.initial)))

    def near(self, name: str) -> Iterator[str]:
        """How far the run ended from a limit, in words, if it is known."""
        if name in self.limits:
            limit = self.limits[name]
            yield f"{limit.distance:.2g} from {name} (its test {self.run.metric} {limit.test:.3g})"


class Theorem(abc.ABC):
    """`name` is where it is found, `says` what it says in a sentence."""

    name: ClassVar[str]
    says: ClassVar[str]

    @abc.abstractmethod
    def speaks(self, instance: Instance) -> bool:
        """Whether a run like this is what it is about."""

    @abc.abstractmethod
    def assumptions(self, case: Case) -> Iterator[Check]:
        """What it assumes, held against this instance."""

    @abc.abstractmethod
    def outcomes(self, case: Case) -> Iterator[Outcome]:
        """What it predicts here, and what happened."""


class _KernelThenRich(Theorem):
    """Shared by both halves of Lyu et al. 2023: homogeneous model, large start with zero output, weak decay."""

    def assumptions(self, case: Case) -> Iterator[Check]:
        instance = case.instance
        yield _homogeneous(instance)
        yield _smooth(instance, "Assumption 3.1: f is C² in θ")
        start = np.asarray(tangent.outputs(instance.problem, instance.initial))
        size = float(np.max(np.abs(start)))
        yield Check("Assumption 3.2: zero initial output", f"max |f(θ₀; xᵢ)| = {size:.2g}", size <= 1e-9)
        yield self._features(case)
        alpha, decay = instance.initial_norm, instance.decay
        power = -np.log(decay) / np.log(alpha) if alpha > 1 else np.nan
        yield Check("large start, weak decay: λ = α^(−p), p > 0", f"α = {alpha:.3g}, p = {power:.2g}", power > 0)

    @abc.abstractmethod
    def _features(self, case: Case) -> Check: ...

    def _turn(self, case: Case) -> Iterator[Outcome]:
        if "(1/λ)·log α" in case.clocks:
            told = case.clocks["(1/λ)·log α"]
            low, high = told.window
            seen = (
                "no turn was seen" if told.measured is None else f"the test metric is half-way at {told.measured:.3g}"
            )
            ratio = "" if told.ratio is None else f", {told.ratio:.2f} of it"
            yield Outcome(
                f"a turn at (1/λ)·log α = {told.prediction:.3g}, between {low:.3g} and {high:.3g} (c = ½)", seen + ratio
            )

    def _end(self, case: Case) -> Iterator[Outcome]:
        if case.kkt is not None:
            found = case.kkt
            slack = "" if found.program == "R2" else f", {found.slack:.0%} of the multipliers' weight off the margin"
            yield Outcome(
                f"late, a KKT point of {found.program}: residual 0", f"residual {found.residual:.2g} at the end{slack}"
            )


class Classification(_KernelThenRich):
    name = "Lyu et al. 2023, Thms 3.4 and 3.5"
    says = (
        "From a large start with weak decay, a homogeneous classifier is the kernel max-margin one until (1/λ)·log α, "
        "and a KKT point of the max-margin problem R1 soon after."
    )

    def speaks(self, instance: Instance) -> bool:
        return not instance.regression and bool(instance.decay) and (instance.model.degree or 0) >= 2

    def _features(self, case: Case) -> Check:
        name = "Assumption 3.3: separable tangent features"
        try:
            margin = kernel_predictor(case.instance).margin
        except NotSeparableError:
            return Check(name, "γ_ntk = 0", False)
        except SpecError as error:
            return Check(name, str(error), None)
        return Check(name, f"γ_ntk = {margin:.3g}", True)

    def outcomes(self, case: Case) -> Iterator[Outcome]:
        ends = [said for name in ("kernel max-margin", "max-L1-margin") for said in case.near(name)]
        yield from self._turn(case)
        yield from self._end(case)
        if ends:
            yield Outcome("early the kernel classifier, late (diagonal nets) max-L1-margin", "ended " + ", ".join(ends))


class Regression(_KernelThenRich):
    name = "Lyu et al. 2023, Thms 3.9 and 3.10"
    says = (
        "From a large start with weak decay, a homogeneous model interpolates with its tangent kernel until "
        "(1/λ)·log α, and is a KKT point of the min-norm problem R2 soon after."
    )

    def speaks(self, instance: Instance) -> bool:
        return instance.regression and bool(instance.decay) and (instance.model.degree or 0) >= 2

    def _features(self, case: Case) -> Check:
        return _independent(case, "Assumption 3.8: independent tangent features")

    def outcomes(self, case: Case) -> Iterator[Outcome]:
        yield from self._turn(case)
        yield from self._end(case)
        ends = [said for name in ("kernel interpolation", "min-L1", "min-nuclear") for said in case.near(name)]
        yield Outcome("early kernel interpolation, late the least norm", "ended " + ", ".join(ends))


class ImplicitBias(Theorem):
    name = "Woodworth et al. 2020, Thms 1 to 3"
    says = "Without penalty, a diagonal net that fits ends at the solution of least Q, between L1 and L2."

    def speaks(self, instance: Instance) -> bool:
        free = type(instance.experiment.penalty) is NoPenalty or instance.experiment.penalty.strength == 0
        return instance.regression and free and type(instance.experiment.model) is DiagonalNet

    def assumptions(self, case: Case) -> Iterator[Check]:
        plus, minus = (np.asarray(case.instance.initial[name]) for name in ("plus", "minus"))
        apart = float(np.max(np.abs(plus - minus)))
        yield Check("w₊(0) = w₋(0)", f"they differ by {apart:.2g}", apart == 0)
        yield Check("w₀ has no zero entry", f"the smallest is {np.min(np.abs(plus)):.2g}", bool(np.all(plus != 0)))
        missing = float(case.run.curves["train_error"].values[-1])
        yield Check("the flow fits: Xβ = y", f"train error {missing:.2g} at the end", missing <= 1e-3)

    def outcomes(self, case: Case) -> Iterator[Outcome]:
        for name in ("argmin Q", "argmin Q^D"):
            for said in case.near(name):
                yield Outcome(f"the end is {name}", f"ended {said}")
        instance, model = case.instance, case.instance.model
        if isinstance(model, DiagonalNet) and model.depth == 2 and "min-L1" in case.limits:
            l1 = float(np.sum(np.abs(case.limits["min-L1"].predictor)))
            l2 = float(np.linalg.norm(case.limits["min-L2"].predictor))
            alpha, d = float(np.max(np.abs(instance.initial["plus"]))), instance.design.shape[1]
            low, high = log_alpha_thm2_l1(_EPSILON, l1, d) / np.log(10), alpha_thm2_l2(_EPSILON, l2)
            end = np.asarray(model.weights(instance.end))
            yield Outcome(
                f"{_EPSILON:.0%} above min-L1 for α ≤ 10^{low:.3g}, above min-L2 for α ≥ {high:.3g} (here {alpha:.3g})",
                f"‖β‖₁ is {np.sum(np.abs(end)) / l1:.3g} of the least, ‖β‖₂² {np.sum(end**2) / l2**2:.3g} of the least",
            )


class TwoTimeScales(Theorem):
    name = "Boursier et al. 2025, Props 1 to 4"
    says = (
        "With weak decay λ, the run follows the unregularised flow to the solutions, then at times of order 1/λ the "
        "Riemannian flow of the norm among them, to a KKT point of least norm."
    )

    def speaks(self, instance: Instance) -> bool:
        return instance.regression and bool(instance.decay)

    def assumptions(self, case: Case) -> Iterator[Check]:
        yield _smooth(case.instance, "Assumption 1: F is C³")
        if case.instance.targets.size > MOST:
            yield Check("Assumption 2: constant rank of the Hessian", f"more than {MOST} outputs", None)
            return
        manifold = hessian_rank(case.instance.problem, case.instance.end)
        m = case.instance.targets.size
        yield Check(
            "Assumption 2 at the end: full rank, Morse–Bott gap",
            f"rank {manifold.rank} of {m} outputs, dimension {manifold.dimension}, gap η = {manifold.gap:.2g} of "
            f"{manifold.eigenvalues[0]:.2g}",
            manifold.rank == m,
        )
        yield Check("the end interpolates", f"‖f − y‖/‖y‖ = {manifold.misfit:.2g}", manifold.misfit <= 1e-2)

    def outcomes(self, case: Case) -> Iterator[Outcome]:
        if "1/λ" in case.clocks:
            told = case.clocks["1/λ"]
            seen = (
                "no turn was seen" if told.measured is None else f"half-way at {told.measured:.3g}, {told.ratio:.2g}/λ"
            )
            yield Outcome(f"the slow phase at times of order 1/λ = {told.prediction:.3g}", seen)
        if case.kkt is not None:
            yield Outcome("the end is a KKT point of least norm (R2)", f"residual {case.kkt.residual:.2g} at the end")
        ends = [said for name in ("nuclear-penalised", "lasso", "ridge") for said in case.near(name)]
        if ends:
            yield Outcome("the global minimum at this λ", "ended " + ", ".join(ends))


class SparseRecovery(Theorem):
    name = "Notsawo et al. 2025, Thms 3.1 and 3.3"
    says = (
        "Subgradient descent with a weak L1 penalty first fits by least squares, then lowers ‖a‖₁ at αβ a step; under "
        "the null space property the least ‖a‖₁ is the truth."
    )

    def speaks(self, instance: Instance) -> bool:
        linear = type(instance.experiment.model) is Linear and instance.design.ndim == 2
        return instance.regression and linear and type(instance.experiment.penalty) is L1

    def assumptions(self, case: Case) -> Iterator[Check]:
        yield from _steps(case, "l1")
        X = case.instance.design
        truth = case.instance.problem.data.truth
        if truth is None:
            return
        support = np.flatnonzero(np.asarray(truth))
        s = len(support)
        yield Check(
            "incoherence",
            f"μ = {sensing.mutual_coherence(X):.3g} (Welch {sensing.welch_bound(*X.shape):.3g}), "
            f"μ₁({s}) = {sensing.one_coherence(X, s):.3g}",
            None,
            needed=False,
        )
        isometry = sensing.restricted_isometry(X / np.linalg.norm(X, axis=0), 2 * s)
        yield Check(
            f"RIP of unit columns: δ_{2 * s} < 1/√2", _between(isometry), _below(isometry, 2**-0.5), needed=False
        )
        if s > _SIGNS:
            yield Check("null space property on the support", f"{s} entries are too many to check all signs", None)
            return
        rho = sensing.null_space_constant(X, support=support.tolist())
        yield Check("null space property on the support: ρ < 1", _between(rho), _below(rho, 1.0))
        if rho.upper < 1:
            wider = (1 + rho.upper) / 2
            tau = sensing.robust_null_space_constant(X, wider, support.tolist())
            yield Check(f"robust null space property with ρ = {wider:.3g}", f"τ = {tau:.3g}", bool(np.isfinite(tau)))

    def outcomes(self, case: Case) -> Iterator[Outcome]:
        yield from _timed(case, "‖â − a*‖_∞/β", "‖x(t₁) − x*‖²/(βη)")
        for name in ("lasso", "min-L1"):
            for said in case.near(name):
                yield Outcome(f"the end is {name}", f"ended {said}")


class MatrixRecovery(Theorem):
    name = "Notsawo et al. 2025, Thms 3.4 and 3.5"
    says = "The same with a weak nuclear-norm penalty on a matrix: singular values fall at αβ a step."

    def speaks(self, instance: Instance) -> bool:
        linear = type(instance.experiment.model) is Linear and instance.design.ndim == 3
        return instance.regression and linear and type(instance.experiment.penalty) is Nuclear

    def assumptions(self, case: Case) -> Iterator[Check]:
        yield from _steps(case, "nuclear")
        truth = case.instance.problem.data.truth
        if truth is None:
            return
        truth = np.asarray(truth)
        rank = int(np.linalg.matrix_rank(truth, tol=1e-8 * np.linalg.norm(truth, 2)))
        mu0, mu1 = sensing.completion_coherences(truth, rank)
        yield Check("coherence of the truth's singular spaces", f"μ₀ = {mu0:.3g}, μ₁ = {mu1:.3g}", None, needed=False)
        rows, columns = sensing.leverage_scores(truth, rank)
        scores = f"rows {rows.min():.2g} to {rows.max():.2g}, columns {columns.min():.2g} to {columns.max():.2g}"
        yield Check("leverage scores of the truth", scores, None, needed=False)
        freedom = rank * (sum(truth.shape) - rank)
        n = len(case.instance.targets)
        yield Check("at least r(n₁ + n₂ − r) observations", f"{n} for {freedom} degrees of freedom", n >= freedom)

    def outcomes(self, case: Case) -> Iterator[Outcome]:
        yield from _timed(case, "‖Â − A*‖₂/β", "‖x(t₁) − x*‖²/(βη)")
        for name in ("nuclear-penalised", "min-nuclear"):
            for said in case.near(name):
                yield Outcome(f"the end is {name}", f"ended {said}")


class WithoutUnderstanding(Theorem):
    name = "Notsawo et al. 2025, Thm 3.6"
    says = (
        "A linear model with weight decay converges to the ridge solution, which with fewer examples than weights "
        "misses all of the truth that is orthogonal to the inputs."
    )

    def speaks(self, instance: Instance) -> bool:
        linear = type(instance.experiment.model) is Linear
        return instance.regression and linear and type(instance.experiment.penalty) is L2 and bool(instance.decay)

    def assumptions(self, case: Case) -> Iterator[Check]:
        yield from _steps(case, "l2")
        n, d = case.instance.design.reshape(len(case.instance.design), -1).shape
        yield Check("fewer examples than weights", f"{n} for {d}", n < d)

    def outcomes(self, case: Case) -> Iterator[Outcome]:
        for said in case.near("ridge"):
            yield Outcome("the end is the ridge solution", f"ended {said}")
        truth = case.instance.problem.data.truth
        if truth is not None:
            X, a = case.instance.design.reshape(len(case.instance.design), -1), np.asarray(truth).ravel()
            missed = float(np.linalg.norm(a - np.linalg.pinv(X) @ (X @ a)) / np.linalg.norm(a))
            last = float(case.run.curves[f"test_{case.run.metric}"].values[-1])
            yield Outcome(f"a test error of at least {missed:.3g}", f"{last:.3g} at the end")


class TwoPhases(Theorem):
    name = "Notsawo et al. 2025, Thm 2.1"
    says = (
        "Where the loss satisfies the Chatterjee–Łojasiewicz inequality at the start, it falls in of order log(1/ε)/α "
        "steps, and the penalty is minimised in of order 1/(αβ) more."
    )

    def speaks(self, instance: Instance) -> bool:
        penalised = type(instance.experiment.penalty) is not NoPenalty and instance.experiment.penalty.strength > 0
        return instance.regression and penalised and isinstance(instance.experiment.dynamics, Discrete)

    def assumptions(self, case: Case) -> Iterator[Check]:
        instance, problem = case.instance, case.instance.problem
        # The smallest ball that can hold: it has to reach a point where the loss is 0.
        reach = 2 * np.sqrt(float(problem.loss(instance.initial)))
        radius = 2 * max(reach, instance.initial_norm, 1.0)
        found = chatterjee_lojasiewicz(problem, instance.initial, radius)
        kind = "exact" if found.exact else "an upper bound"
        yield Check(
            "r-CL at the start: 4g < r²χ",
            f"χ = {found.least:.3g} ({kind}) at r = {radius:.3g}: 4g = {4 * found.loss:.3g}, r²χ = "
            f"{radius**2 * found.least:.3g}",
            found.holds if found.exact or not found.holds else None,
        )

    def outcomes(self, case: Case) -> Iterator[Outcome]:
        yield from _timed(case, "log(1/ε)/χ")


class MarginBounds(Theorem):
    name = "Lyu et al. 2023, Thms E.4 and E.5"
    says = (
        "On ±1 inputs with a k-sparse teacher, the max-L1-margin classifier generalises with of order k²·log d "
        "examples; the max-L2-margin one needs of order k·d."
    )

    def speaks(self, instance: Instance) -> bool:
        task = instance.task
        return isinstance(task, SparseClassification) and task.design == "sign" and task.sparsity % 2 == 1

    def assumptions(self, case: Case) -> Iterator[Check]:
        task = case.instance.task
        assert isinstance(task, SparseClassification)
        yield Check("±1 inputs, ±1 teacher with an odd number k of entries", f"k = {task.sparsity}", True)

    def outcomes(self, case: Case) -> Iterator[Outcome]:
        task, delta = case.instance.task, 0.05
        assert isinstance(task, SparseClassification)
        for name, bound in (("max-L1-margin", l1_margin_bound), ("max-L2-margin", l2_margin_bound)):
            if name in case.limits:
                most = bound(task.n, task.d, task.sparsity, delta)
                vacuous = " (says nothing: above ½)" if most > 0.5 else ""
                yield Outcome(
                    f"with 95 % confidence {name} errs on at most {most:.3g} of the inputs{vacuous}",
                    f"it errs on {1 - case.limits[name].test:.3g}",
                )


class LabelNoise(Theorem):
    name = "Lyu et al. 2023, Thm B.1"
    says = "Label-noise SGD stays at the flow's limit for less than η⁻² steps, and generalises after that order."

    def speaks(self, instance: Instance) -> bool:
        return isinstance(instance.experiment.dynamics, LabelNoiseSGD)

    def assumptions(self, case: Case) -> Iterator[Check]:
        instance = case.instance
        n, d = instance.targets.size, instance.design.shape[1] if isinstance(instance.model, LinearModel) else 0
        yield Check("diagonal net, Gaussian inputs, n < d", f"n = {n}, d = {d}", type(instance.model) is DiagonalNet)

    def outcomes(self, case: Case) -> Iterator[Outcome]:
        yield from _timed(case, "η⁻² steps")


THEOREMS: tuple[Theorem, ...] = (
    Classification(),
    Regression(),
    MarginBounds(),
    ImplicitBias(),
    TwoTimeScales(),
    TwoPhases(),
    SparseRecovery(),
    MatrixRecovery(),
    WithoutUnderstanding(),
    LabelNoise(),
)


def _homogeneous(instance: Instance) -> Check:
    found, stated = homogeneity(instance.problem, instance.initial), instance.model.degree
    seen = "none" if found.degree is None else f"{found.degree:.3g}"
    return Check(
        "Assumption 3.1: homogeneous in θ",
        f"degree {seen} measured (spread {found.spread:.1g}), {stated} stated",
        found.degree is not None and stated is not None and abs(found.degree - stated) < 1e-3,
    )


def _smooth(instance: Instance, name: str) -> Check:
    model = instance.experiment.model
    if isinstance(model, LinearModel):
        return Check(name, "a polynomial of the parameters", True)
    if isinstance(model, MLP | EmbeddingMLP):
        return Check(name, "ReLU has kinks", False)
    return Check(name, f"not known of {type(model).__name__}", None)


def _independent(case: Case, name: str) -> Check:
    values = case.kernel_values
    if values is None:
        return Check(name, f"more than {MOST} outputs", None)
    return Check(
        name, f"tangent kernel between {values[0]:.2g} and {values[-1]:.2g}", bool(values[0] > 1e-10 * values[-1])
    )


def _steps(case: Case, penalty: str) -> Iterator[Check]:
    instance = case.instance
    if instance.step_size is None:
        yield Check("step size", "a flow, which has none", True)
        return
    # The theorems have ½‖Xa − y‖² in front; another factor is a change of α and β.
    c = instance.half_factor
    alpha, beta = instance.step_size * c, float(instance.experiment.penalty.strength) / c
    found = sensing.step_conditions(instance.design, alpha, beta, penalty)
    yield Check(
        "step size and strength are small enough",
        f"α = {alpha:.3g} < {found.alpha_max:.3g}, β = {beta:.3g} < {found.beta_max:.3g}",
        found.holds,
    )


def _timed(case: Case, *names: str) -> Iterator[Outcome]:
    for name in names:
        if name in case.clocks:
            told = case.clocks[name]
            sign = "at most" if told.bound else "about"
            yield Outcome(f"{told.event} {sign} {told.prediction:.3g} ({name})", _seen(told))


def _seen(told: Clock) -> str:
    if told.measured is None:
        return "not seen"
    what = "the test metric is half-way at" if told.event == "turn" else "at"
    return f"{what} {told.measured:.3g}, {told.ratio:.2g} of it"


def _between(constant: sensing.Constant) -> str:
    return f"{constant.lower:.3g}" if constant.exact else f"between {constant.lower:.3g} and {constant.upper:.3g}"


def _below(constant: sensing.Constant, level: float) -> bool | None:
    if constant.upper < level:
        return True
    return False if constant.lower >= level else None
