"""From two curves to one verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from afterfit.criteria import Criteria
from afterfit.diagnose.curve import FEWEST, Errors, Spell, sentence, spell_of
from afterfit.diagnose.passage import Passage, companions_of, fall_of, passage_between, say_passage, settled
from afterfit.diagnose.verdict import Settings, Verdict
from afterfit.diagnose.words import at, difference, number, power_of_ten, times
from afterfit.spec import SpecError, require

__all__ = ["diagnose"]


def diagnose(
    time: ArrayLike,
    train: ArrayLike,
    test: ArrayLike,
    criteria: Criteria,
    *,
    norms: Mapping[str, ArrayLike] | None = None,
    diverged: bool = False,
    log10_time: ArrayLike | None = None,
    settings: Settings = Settings(),
) -> Verdict:
    """What the curves `train` and `test` over `time` show, by the thresholds in `criteria`.

    `time` increases. It may begin at 0, the initialisation, which has no place on a log axis: the first
    positive time is the resolution, and what is met by then is reported at that time. Where times are too
    large for a float, give `log10_time`, which is then used instead. `norms` are further curves, by name,
    that a falling test error is compared with. `diverged` says that training stopped for numerical reasons; a
    curve that is not finite says so itself. What happened before is diagnosed either way.

    ```python
    t = np.logspace(-2, 6, 161)
    verdict = diagnose(t, np.exp(-t), 1 / (1 + (t / 1e4) ** 4), Criteria.errors(fit=1e-2, generalise=0.05))
    print(verdict)  # Grokking: fitted at t=4.6, generalised at t=2.1e4, delay x4.5e3
    print(verdict.describe())  # the same with its evidence
    ```
    """
    tau = _log_time(np.asarray(time, dtype=float), log10_time)
    # t = 0 (log -inf) is the initialisation: it says nothing about times that the next observation does not.
    later = tau > -np.inf
    count = int(np.sum(later))
    few = f"diagnosis needs at least {FEWEST} observations at positive times, got {count}."
    require(count > 0, few)

    def column(name: str, values: ArrayLike) -> NDArray:
        array = np.asarray(values, dtype=float)
        require(
            array.shape == tau.shape,
            f"{name} must have one value for each of the {tau.size} times, got shape {array.shape}.",
        )
        return array[later]

    train_errors = Errors("train", tau[later], column("train", train), criteria.train, settings)
    test_errors = Errors("test", tau[later], column("test", test), criteria.test, settings)
    others = {name: column(f"norm {name}", norm) for name, norm in (norms or {}).items()}
    good = _until_divergence(train_errors, test_errors)
    if diverged or good < train_errors.tau.size:
        return _judge_divergence(train_errors, test_errors, others, good)
    require(count >= FEWEST, few)
    return _judge(train_errors, test_errors, others)


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


def _judge(train: Errors, test: Errors, norms: Mapping[str, NDArray]) -> Verdict:
    """The verdict on curves that are finite throughout."""
    fit, gen = spell_of(train), spell_of(test)
    evidence = [sentence(train, fit), sentence(test, gen)]
    if fit is None or fit.lost is not None:
        fit, gen = (spell if spell is not None and spell.lasted else None for spell in (fit, gen))
        kind = "never fitted" if fit is None else "training collapsed"
        return _verdict(kind, train, test, fit, gen, None, evidence)
    if gen is None or gen.lost is not None:
        return _judge_ungeneralised(train, test, fit, gen, norms, evidence)
    return _judge_generalised(train, test, fit, gen, norms, evidence)


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
    if fall is None or fall.before < s.fall * fall.after:
        factor = number(max(1.0, fall.before / fall.after if fall else 1.0))
        evidence.append(f"since the fit the test error has fallen by x{factor}; a transition takes x{number(s.fall)}.")
        return _verdict("never generalised", train, test, fit, None, None, evidence)
    evidence.append(say_passage(test, fall))
    if fall.middle - fit.start < np.log10(s.delay):
        evidence.append(f"that is {times(fall.middle - fit.start)} the time of the fit: no delay.")
        return _verdict("never generalised", train, test, fit, None, fall, evidence)
    companions = companions_of(test, fall, norms)
    evidence += [c.sentence for c in companions]
    if settled(test, fall):
        above = f", {number(fall.after / test.level)} times the threshold's error" if test.level > 0 else ""
        evidence.append(f"it then settles at {test.say(fall.after)}{above}.")
    else:
        evidence.append(f"it still {test.improves} at the end: a longer run could tell where it settles.")
        if not any(c.explains for c in companions):
            return _verdict("never generalised", train, test, fit, None, fall, evidence)
    return _verdict("grokking without understanding", train, test, fit, None, fall, evidence)


def _until_divergence(train: Errors, test: Errors) -> int:
    """How many observations precede divergence: a value that is not finite, or a training error blown up."""
    strange = np.flatnonzero(~(np.isfinite(train.curve) & np.isfinite(test.curve)))
    good = int(strange[0]) if strange.size else train.tau.size
    if good < FEWEST or train.threshold.like == "accuracy":
        return good
    tame = train.first(good)
    bound = train.settings.blowup * max(tame.error[0], tame.level)
    if 0 < bound < tame.end:
        good = int(np.flatnonzero(tame.error <= bound)[-1]) + 1
    return good


def _judge_divergence(train: Errors, test: Errors, norms: Mapping[str, NDArray], good: int) -> Verdict:
    """Divergence after the first `good` observations, with the verdict on those."""
    if good == train.tau.size:
        cause = f"training stopped for numerical reasons after {at(train.tau[-1])}."
    elif np.isfinite(train.curve[good]) and np.isfinite(test.curve[good]):
        factor = number(train.settings.blowup)
        cause = f"the train error has grown by more than x{factor} at {at(train.tau[good])}."
    else:
        name = "train" if not np.isfinite(train.curve[good]) else "test"
        cause = f"the {name} curve is not a finite number at {at(train.tau[good])}."
    if good < FEWEST:
        few = f"only {good} observations precede it: too few to diagnose."
        criteria = Criteria(train.threshold, test.threshold)
        return Verdict("diverged", None, None, None, None, None, None, {}, (cause, few), criteria)
    earlier = _judge(train.first(good), test.first(good), {name: norm[:good] for name, norm in norms.items()})
    return dataclasses.replace(
        earlier, kind="diverged", evidence=(cause, f"until then: {earlier.kind}.", *earlier.evidence)
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
