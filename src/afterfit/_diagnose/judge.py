"""From two curves to one verdict."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from afterfit._base.errors import SpecError, require
from afterfit._diagnose.curve import FEWEST, Errors, Spell, sentence, spell_of
from afterfit._diagnose.passage import Passage, companions_of, expected, fall_of, passage_between, say_passage
from afterfit._diagnose.scale import check_thresholds
from afterfit._diagnose.thresholds import Criteria, Threshold
from afterfit._diagnose.verdict import DiagnosisSettings, Verdict
from afterfit._diagnose.words import at, difference, number, power_of_ten, times

__all__ = ["diagnose"]


def diagnose(
    time: ArrayLike,
    train: ArrayLike,
    test: ArrayLike,
    criteria: Criteria,
    *,
    norms: Mapping[str, ArrayLike] | None = None,
    loss: ArrayLike | None = None,
    diverged: bool = False,
    log10_time: ArrayLike | None = None,
    settings: DiagnosisSettings = DiagnosisSettings(),
) -> Verdict:
    """What the curves `train` and `test` over `time` show, by the thresholds in `criteria`.

    `time` increases. It may begin at 0, the initialisation, which has no place on a log axis: the first
    positive time is the resolution, and what is met by then is reported at that time. Where times are too
    large for a float, give `log10_time`, which is then used instead. `nan` is a value that was not observed;
    training and test may be observed at different times. `norms` are further curves, by name, that a falling test
    error is compared with.

    Divergence is an infinity, a training curve that is `nan` to the end for longer than ever before, or one that
    ends far above its start; `loss` is the training loss, to tell the same where accuracies are judged. `diverged`
    says that training stopped for numerical reasons. What happened before is diagnosed either way.

    ```python
    t = np.logspace(-2, 6, 161)
    verdict = diagnose(t, np.exp(-t), 1 / (1 + (t / 1e4) ** 4), Criteria.errors(fit=1e-2, generalise=0.05))
    print(verdict)  # Grokking: fitted at t=4.6, generalised at t=2.1e4, delay x4.5e3
    print(verdict.describe())  # the same with its evidence
    ```
    """
    tau = _log_time(np.asarray(time, dtype=float), log10_time)

    def column(name: str, values: ArrayLike) -> NDArray:
        array = np.asarray(values, dtype=float)
        require(
            array.shape == tau.shape,
            f"{name} must have one value for each of the {tau.size} times, got shape {array.shape}.",
        )
        return array

    log = _Log(
        tau,
        column("train", train),
        column("test", test),
        None if loss is None else column("loss", loss),
        {name: column(f"norm {name}", norm) for name, norm in (norms or {}).items()},
        criteria,
        settings,
    )
    check_thresholds({"train": (log.train, criteria.train), "test": (log.test, criteria.test)})
    good, cause = _until_divergence(log)
    if cause or diverged:
        return _judge_divergence(log.first(good), cause or f"training stopped for numerical reasons after {log.ends}.")
    for name, curve in log.curves:
        require(
            curve.tau.size >= FEWEST,
            f"diagnosis needs at least {FEWEST} observations at positive times, and the {name} curve has "
            f"{curve.tau.size}.",
        )
    return _judge(log)


@dataclasses.dataclass(frozen=True)
class _Log:
    """The rows of a log: values that were not observed in a row are nan."""

    tau: NDArray
    train: NDArray
    test: NDArray
    loss: NDArray | None
    norms: Mapping[str, NDArray]
    criteria: Criteria
    settings: DiagnosisSettings

    def first(self, count: int) -> _Log:
        """The first `count` rows."""
        loss = None if self.loss is None else self.loss[:count]
        norms = {name: norm[:count] for name, norm in self.norms.items()}
        return dataclasses.replace(
            self, tau=self.tau[:count], train=self.train[:count], test=self.test[:count], loss=loss, norms=norms
        )

    def read(self, name: str, values: NDArray, threshold: Threshold) -> Errors:
        return Errors.observed(name, self.tau, values, threshold, self.settings)

    @functools.cached_property
    def curves(self) -> tuple[tuple[str, Errors], tuple[str, Errors]]:
        return (
            ("train", self.read("train", self.train, self.criteria.train)),
            ("test", self.read("test", self.test, self.criteria.test)),
        )

    @property
    def ends(self) -> str:
        return at(self.tau[-1])


def _log_time(time: NDArray, log10_time: ArrayLike | None) -> NDArray:
    """τ = log₁₀ t, checked."""
    require(time.ndim == 1, f"time must be a list of numbers, got an array of shape {time.shape}.")
    if log10_time is None:
        require(
            bool(np.all(np.isfinite(time)) and np.all(time >= 0)),
            "time must be finite and not negative; give log10_time where times are too large for a float.",
        )
        with np.errstate(divide="ignore"):
            tau = np.log10(time)
    else:
        tau = np.asarray(log10_time, dtype=float)
        require(
            tau.shape == time.shape,
            f"log10_time has shape {tau.shape} and time {time.shape}: make them alike.",
        )
        require(bool(np.all(tau < np.inf)), "log10_time must be made of finite numbers (-inf for t=0).")
    clock = time if log10_time is None else tau
    backwards = np.flatnonzero(clock[1:] <= clock[:-1])
    if backwards.size:
        raise SpecError(f"time must increase, but observation {backwards[0] + 1} (counted from 0) does not.")
    return tau


def _judge(log: _Log) -> Verdict:
    """The verdict on curves that are finite where they were observed."""
    (_, train), (_, test) = log.curves
    fit, gen = spell_of(train), spell_of(test)
    evidence = [sentence(train, fit), sentence(test, gen), *_ends_early(log)]
    if fit is None or fit.lost is not None:
        fit, gen = (spell if spell is not None and spell.lasted else None for spell in (fit, gen))
        kind = "never fitted" if fit is None else "training collapsed"
        return _verdict(kind, train, test, fit, gen, None, evidence)
    norms = {name: norm[(log.tau > -np.inf) & np.isfinite(log.test)] for name, norm in log.norms.items()}
    if gen is None or gen.lost is not None:
        return _judge_ungeneralised(train, test, fit, gen, norms, evidence)
    return _judge_generalised(train, test, fit, gen, norms, evidence)


def _ends_early(log: _Log) -> list[str]:
    """What to say of a curve that was not observed for a while at the end of the log."""
    return [
        f"the {name} curve has no value after {at(curve.tau[-1])}, and the log goes on to {log.ends}."
        for name, curve in log.curves
        if curve.tau[-1] < log.tau[-1] - log.settings.lasting
    ]


def _judge_generalised(
    train: Errors, test: Errors, fit: Spell, gen: Spell, norms: Mapping[str, NDArray], evidence: list[str]
) -> Verdict:
    """Fitted and generalised at the end: late, or with the fit."""
    s = test.settings
    decades = gen.start - fit.start
    late = decades >= np.log10(s.delay)
    passage = fall_of(test, fit.start if late else test.tau[0], gen.start)
    at_least = "at least " if fit.start == train.tau[0] < gen.start else ""
    evidence.append(f"t_gen / t_fit is {at_least}{times(decades)}; a delay starts at x{number(s.delay)}.")
    if passage is not None:
        evidence.append(say_passage(test, passage))
    # A curve that was at its threshold all along and drifts across it has made no transition.
    drift = late and (passage is None or passage.before < s.fall * test.level)
    if drift:
        evidence.append(
            f"between the two the test error is already within a factor {number(s.fall)} of the threshold: "
            "it crosses late, but makes no transition."
        )
    if late and not drift and passage is not None:
        evidence += [c.sentence for c in companions_of(test, passage, norms)]
        return _verdict("grokking", train, test, fit, gen, passage, evidence)
    return _verdict("generalised with the fit", train, test, fit, gen, passage, evidence)


def _judge_ungeneralised(
    train: Errors,
    test: Errors,
    fit: Spell,
    gen: Spell | None,
    norms: Mapping[str, NDArray],
    evidence: list[str],
) -> Verdict:
    """Fitted but not generalised at the end: it was lost, it fell short, or it never began."""
    s = test.settings
    if gen is not None and gen.lasted and gen.lost is not None and gen.lost >= fit.start - np.log10(s.delay):
        good = float(np.median(test.between(gen.start, gen.lost)))
        loss = passage_between(test, good, test.end)
        if loss is not None:
            evidence.append(say_passage(test, loss))
        return _verdict("misgrokking", train, test, fit, gen, loss, evidence)

    fall = fall_of(test, fit.start, test.tau[-1])
    there = None if fall is None else expected(test, fall)
    begun = fall is not None and there is not None and test.way(fall.before, fall.after) >= s.begun
    if fall is None or (fall.before < s.fall * fall.after and not begun):
        factor = number(max(1.0, fall.before / fall.after if fall else 1.0))
        evidence.append(f"since the fit the test error has fallen by x{factor}; a transition takes x{number(s.fall)}.")
        return _verdict("never generalised", train, test, fit, None, None, evidence)
    evidence.append(say_passage(test, fall))
    if fall.middle - fit.start < np.log10(s.delay):
        evidence.append(f"that is {times(fall.middle - fit.start)} the time of the fit: no delay.")
        return _verdict("never generalised", train, test, fit, None, fall, evidence)
    companions = companions_of(test, fall, norms)
    evidence += [c.sentence for c in companions]
    if there is None:
        above = f", {number(fall.after / test.level)} times the threshold's error" if test.level > 0 else ""
        evidence.append(f"it then settles at {test.say(fall.after)}{above}.")
        return _verdict("grokking without understanding", train, test, fit, None, fall, evidence)
    evidence.append(f"it still {test.improves} at the end: a longer run could tell where it settles.")
    if any(c.explains for c in companions):
        return _verdict("grokking without understanding", train, test, fit, None, fall, evidence)
    longer = times(there - test.tau[-1])
    evidence.append(f"at its present pace it would meet its threshold at {at(there)}, {longer} the time of this log.")
    verdict = _verdict("grokking under way", train, test, fit, None, fall, evidence)
    progress = test.way(fall.before, fall.after)
    return dataclasses.replace(verdict, progress=progress, t_expected=power_of_ten(there))


def _until_divergence(log: _Log) -> tuple[int, str]:
    """How many rows precede divergence, and what it is; all of them, and nothing, where there is none."""
    curves = {"train curve": log.train, "test curve": log.test}
    if log.loss is not None:
        curves["training loss"] = log.loss
    found = [(log.tau.size, "")]
    for name, values in curves.items():
        strange = np.flatnonzero(np.isinf(values))
        if not np.any(np.isfinite(values)) and name != "test curve":
            never = f"the {name} is not a finite number at any of {values.size} observations"
            found.append((0, f"{never}: it may be undefined, as an error relative to targets that are all 0."))
        elif strange.size:
            found.append((int(strange[0]), f"the {name} is not a finite number at {at(float(log.tau[strange[0]]))}."))
        elif name != "test curve" and (row := _missing_from(log.tau, values)) is not None:
            found.append((row, f"the {name} is not a finite number from {at(log.tau[row])} to the end."))
    good, cause = min(found, key=lambda end: end[0])
    blown = _blown_up(log.first(good))
    return blown or (good, cause)


def _missing_from(tau: NDArray, values: NDArray) -> int | None:
    """The row from which values are missing to the end for longer than ever before, in rows and in log time.

    So a metric that is evaluated now and then has not diverged because the log ends between two evaluations.
    """
    there = np.flatnonzero(np.isfinite(values) & (tau > -np.inf))
    if not there.size:
        return None
    rows, decades = np.diff(there) - 1, np.diff(tau[there])
    longest = rows.max(initial=0)
    missing = tau.size - 1 - int(there[-1])
    if missing == 0 or (longest and (missing <= longest or tau[-1] - tau[there[-1]] <= decades[rows > 0].max())):
        return None
    return int(there[-1]) + 1


def _blown_up(log: _Log) -> tuple[int, str] | None:
    """How many rows precede the blow-up of the training error, or of the loss beside accuracies.

    The last two observations decide, so that a single spike does not, and a blow-up that was just seen does. A loss
    that grows from nearly nothing while the accuracy stays fitted is none.
    """
    train = log.read("train", log.train, log.criteria.train)
    what, values = ("train error", log.train) if train.threshold.like == "error" else ("training loss", log.loss)
    if values is None or train.tau.size < 2 or np.any(train.observed_error[-2:] <= train.level):
        return None
    seen = values[np.isfinite(values)]  # the initialisation included, if it was observed
    bound = log.settings.blowup * max(float(seen[0]), train.level if values is log.train else 0.0)
    if not 0 < bound < seen[-2:].min():
        return None
    good = int(np.flatnonzero(values <= bound)[-1]) + 1
    grown = f"has grown by more than x{number(log.settings.blowup)} at {at(log.tau[good])}"
    return good, f"the {what} {grown}: from {number(float(seen[0]))} to {number(float(seen[-1]))} at the end."


def _judge_divergence(log: _Log, cause: str) -> Verdict:
    """Divergence after the rows of `log`, with the verdict on those."""
    observed = min(curve.tau.size for _, curve in log.curves)
    if observed < FEWEST:
        few = f"only {observed} observations precede it: too few to diagnose."
        return Verdict("diverged", None, None, None, None, None, None, {}, (cause, few), log.criteria)
    earlier = _judge(log)
    return dataclasses.replace(
        earlier,
        kind="diverged",
        evidence=(cause, f"until then: {earlier.kind}.", *earlier.evidence),
        progress=None,
        t_expected=None,
    )


def _verdict(
    kind: str,
    train: Errors,
    test: Errors,
    fit: Spell | None,
    gen: Spell | None,
    passage: Passage | None,
    evidence: Sequence[str],
) -> Verdict:
    """The verdict with its numbers, in the units of the user."""
    t_fit, t_gen = (None if spell is None else power_of_ten(spell.start) for spell in (fit, gen))
    ratio = delay = None
    if fit is not None and gen is not None:
        ratio = power_of_ten(gen.start - fit.start)
        delay = difference(gen.start, fit.start)
    plateaus = {"train_end": train.value(train.end), "test_after": test.value(test.end)}
    width = relative = None
    if passage is not None:
        plateaus["test_before"] = test.value(passage.before)
        width = passage.width
        relative = passage.relative_to(passage.middle if gen is None or gen.lost is not None else gen.start)
    return Verdict(
        kind=kind,
        t_fit=t_fit,
        t_gen=t_gen,
        delay_ratio=ratio,
        delay=delay,
        width_decades=width,
        width_relative=relative,
        plateaus=plateaus,
        evidence=tuple(evidence),
        criteria=Criteria(train.threshold, test.threshold),
        fitted_at_first_sight=fit is not None and bool(fit.start == train.tau[0]),
        t_half=None if passage is None else power_of_ten(passage.middle),
    )
