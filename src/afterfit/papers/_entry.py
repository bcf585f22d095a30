"""What a figure or theorem of a paper is here: its runs at two scales, its picture, and its claims with their checks.

An entry is declared, not scripted. `runs` says what is to be run, by name; a method marked with `claim` is a claim and
its check; one marked with `control` puts the same check to something that it must reject, or, where a claim is known to
fail, one marked with `passing` to something that it must accept; one marked with `correction` checks what a paper
should have printed; one marked with `once` computes what several of them need. Whatever such a method asks for by the
names of its parameters is handed to it: a run or a group of runs, what a `once` method gave, the `scale`.
"""

from __future__ import annotations

import abc
import contextlib
import contextvars
import dataclasses
import functools
import inspect
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from afterfit._base.errors import RunFailed, SpecError, nearest, require
from afterfit._base.rules import register

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from afterfit._sweeps.store import Store
    from afterfit._training.experiment import Experiment
    from afterfit._training.run import Run

__all__ = [
    "SCALES",
    "Claim",
    "Control",
    "Correction",
    "Entry",
    "Finding",
    "Paper",
    "Row",
    "check_scale",
    "claim",
    "control",
    "correction",
    "keeping",
    "once",
    "passing",
    "run_all",
]

SCALES = ("quick", "paper")
_ALWAYS = ("runs", "scale", "progress")  # what can be asked for of every entry
_KEPT: contextvars.ContextVar[Store | None] = contextvars.ContextVar("where runs are kept", default=None)
_Check = TypeVar("_Check", bound=Callable[..., Any])
Progress = bool | Callable[[float], None] | None


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper: the `name` that its ids begin with, and its `title` with authors and year."""

    name: str
    title: str

    def __post_init__(self):
        require(
            re.fullmatch(r"\w[\w.-]*", self.name) is not None,
            f"a paper's name is the first part of its ids, such as doe2027, got {self.name!r}.",
        )


@dataclasses.dataclass(frozen=True)
class Finding:
    """What a check found: what was `measured`, in words, and whether the claim `holds`."""

    measured: str
    holds: bool

    def __post_init__(self):
        object.__setattr__(self, "holds", bool(self.holds))  # NumPy's cannot be written as JSON


@dataclasses.dataclass(frozen=True)
class Control:
    """What a check has to reject, in `words`: a run or a formula that should not show the claim. Or one to accept."""

    words: str
    check: Callable[..., Finding]


@dataclasses.dataclass(frozen=True)
class Correction:
    """What a paper should have printed, in `words`, and its check.

    `why` is the slip in two lines that a referee can follow, `touches` whether a conclusion of the paper depends on it,
    `where` the place of the slip, if that is not the entry's.
    """

    words: str
    why: str
    touches: str
    check: Callable[..., Finding]
    where: str | None = None


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim in words, what the paper `says` of it, and its check.

    `fails` is why it is known not to hold, where it does not. Both may be by scale. Where it is said to hold, its
    `controls` have to be rejected; where it is known to fail, what is `passing` has to be accepted. With a `correction`
    it is an erratum: it fails as printed, and the correction holds. `changed` is what of its criterion was changed
    after numbers had been seen, and on which draws it is measured since.
    """

    words: str
    says: str | Mapping[str, str]
    fails: str | Mapping[str, str] | None
    check: Callable[..., Finding]
    controls: tuple[Control, ...] = ()
    passing: tuple[Control, ...] = ()
    correction: Correction | None = None
    changed: str | None = None

    def __post_init__(self):
        require(
            self.correction is None or self.fails is None,
            f"the claim {self.words!r} has a correction, which says why it fails: leave out `fails`.",
        )

    def holds_at(self, scale: str) -> bool:
        """Whether it is known to hold at this scale: what the ledger records."""
        return self.correction is None and self.fails_at(scale) is None

    def says_at(self, scale: str) -> str:
        """What the paper says, in the terms of this scale."""
        return self.says if isinstance(self.says, str) else self.says[scale]

    def fails_at(self, scale: str) -> str | None:
        """Why it is known not to hold at this scale; None if it holds."""
        return self.fails if self.fails is None or isinstance(self.fails, str) else self.fails.get(scale)


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of the ledger: one claim of one entry held against what was seen.

    `holds` is whether it does as printed, `control` what the check was seen to reject (of a claim that is known to
    fail, to accept), `erratum` what should have been printed, `changed` what of the criterion was changed after numbers
    had been seen. `as_recorded` is whether all of it came out as the entry says: a claim that is known to fail fails,
    of an erratum the correction holds, and every control was rejected or accepted as it should be.
    """

    id: str
    claim: str
    paper_says: str
    measured: str
    holds: bool
    scale: str
    seconds: float
    control: str | None = None
    erratum: str | None = None
    as_recorded: bool = True
    changed: str | None = None

    @property
    def status(self) -> str:
        """holds, erratum or fails, as the entry says; FAILS or HOLDS, where it says otherwise."""
        if not self.as_recorded:
            return "HOLDS" if self.holds else "FAILS"
        return "holds" if self.holds else "fails" if self.erratum is None else "erratum"


def claim(
    words: str,
    says: str | Mapping[str, str],
    *,
    fails: str | Mapping[str, str] | None = None,
    changed: str | None = None,
) -> Callable[[_Check], _Check]:
    """Mark a method of an entry as the check of a claim: it returns a `Finding`.

    `words` are the claim, `says` is what the paper says of it (by scale, where that is said in other terms at the
    other), and `fails` is why the claim is known not to hold (by scale, where it does at the other). `changed` is what
    of the criterion was changed after numbers had been seen, and on which draws it is measured since.

    ```python
    @claim("test accuracy is 100 % at the end", says="100 % after 10⁶ steps")
    def generalises(self, run):
        last = float(run.curves["test_accuracy"][-1])
        return Finding(f"{last:.1%} at the end", last == 1)
    ```
    """

    def mark(check: _Check) -> _Check:
        check.__claim__ = Claim(words, says, fails, check, changed=changed)  # type: ignore[attr-defined]
        return check

    return mark


def control(check: Callable[..., Finding], words: str) -> Callable[[_Check], _Check]:
    """Mark a method as a control of a claim: the same `check`, put to what should not show it. It must be rejected.

    A claim whose control passes is not shown by its check, and does not hold. `words` say what is rejected.

    ```python
    @control(generalises, "a run without weight decay")
    def does_not_generalise(self, free):
        return self.generalises(free)
    ```
    """

    def mark(method: _Check) -> _Check:
        method.__control__ = (check, Control(words, method))  # type: ignore[attr-defined]
        return method

    return mark


def passing(check: Callable[..., Finding], words: str) -> Callable[[_Check], _Check]:
    """Mark a method as what the same `check` must accept: a claim that is known to fail could have held.

    ```python
    @passing(is_inverse, "times that are made up, of power −1 with the scatter that was measured")
    def would_be_inverse(self, times):
        return _law({λ: 3 / λ * scatter for λ, scatter in times.items()})
    ```
    """

    def mark(method: _Check) -> _Check:
        method.__passing__ = (check, Control(words, method))  # type: ignore[attr-defined]
        return method

    return mark


def correction(
    printed: Callable[..., Finding], words: str, *, why: str, touches: str, where: str | None = None
) -> Callable[[_Check], _Check]:
    """Mark a method as the check of what a paper should have `printed`, which makes the claim of that an erratum.

    The claim's own check is of what is printed and has to fail, this one has to hold. `words` are the statement as it
    should be, `why` the slip in two lines that a referee can follow, `touches` whether a conclusion depends on it, and
    `where` the place of the slip, if that is not the entry's.

    ```python
    @correction(as_printed, "the factor is 8", why="(74) counts each pair once.", touches="No: a constant.")
    def with_eight(self, kernels):
        return self.factor(kernels, 8)
    ```
    """

    def mark(method: _Check) -> _Check:
        method.__correction__ = (printed, Correction(words, why, touches, method, where))  # type: ignore[attr-defined]
        return method

    return mark


def once(method: _Check) -> _Check:
    """Mark a method of an entry as something that several checks need: computed once, handed out by its name."""
    method.__once__ = True  # type: ignore[attr-defined]
    return method


class Entry(abc.ABC):
    """A figure or theorem of a `paper`. Its id is `paper/name`; `where` is its place there, `about` what it shows.

    `about` describes the runs at paper scale; `departure` says how others differ from it. `notes` are what there is to
    say of what was seen. `phenomena` are the headings under which the gallery has it; if there are none, they are
    told by its words. A subclass with a `name` is in the gallery by being defined.
    """

    paper: ClassVar[Paper]
    name: ClassVar[str]
    title: ClassVar[str]
    where: ClassVar[str]
    about: ClassVar[str]
    notes: ClassVar[str] = ""
    phenomena: ClassVar[tuple[str, ...]] = ()
    id: ClassVar[str]
    claims: ClassVar[tuple[Claim, ...]]
    _known: ClassVar[dict[str, type[Entry]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        members: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            members |= vars(base)
        cls.claims = _claims(members)
        if "name" in vars(cls):
            cls._register()

    @classmethod
    def _register(cls) -> None:
        for said in ("paper", "title", "where", "about"):
            require(hasattr(cls, said), f"the entry {cls.__qualname__} does not say its {said}.")
        require(
            isinstance(cls.phenomena, tuple | list) and all(isinstance(name, str) for name in cls.phenomena),
            f"the entry {cls.__qualname__} has phenomena = {cls.phenomena!r}: a tuple of words, such as ('Grokking',).",
        )
        require(bool(cls.claims), f"the entry {cls.__qualname__} has no claim: mark its checks with @claim.")
        for words, times in Counter(claim.words for claim in cls.claims).items():  # a row is kept by its claim's words
            require(times == 1, f"the entry {cls.__qualname__} has {times} claims in the same words, {words!r}.")
        cls.id = f"{cls.paper.name}/{cls.name}"
        register(cls._known, cls.id, cls)

    @abc.abstractmethod
    def runs(self, scale: str) -> Mapping[str, Experiment | Mapping[Any, Experiment]]:
        """What is run, by name: an experiment, or a group of them by a key. The first is the headline.

        Keys are numbers, words, or named tuples of them. Names are those by which checks and the picture ask for runs.
        """

    @abc.abstractmethod
    def picture(self, *args: Any, **kwargs: Any) -> Figure:
        """The paper's figure; like a check, it is given what its parameters name."""

    def declared(self, scale: str) -> Mapping[str, Experiment | Mapping[Any, Experiment]]:
        """What `runs` declares, if it is experiments by name."""
        from afterfit._training.experiment import Experiment

        found = self.runs(scale)
        wanted = f"{self.id}: runs({scale!r}) has to give experiments by name, such as {{'run': af.Experiment(...)}}"
        if not isinstance(found, Mapping) or not found:
            raise SpecError(f"{wanted}, not {found!r:.60}")
        for name, declared in found.items():
            for experiment in declared.values() if isinstance(declared, Mapping) else [declared]:
                if not isinstance(experiment, Experiment):
                    raise SpecError(f"{wanted}; {name!r} has {experiment!r:.60}")
        return found

    def experiments(self, scale: str) -> dict[str, Experiment]:
        """All that is run, one experiment a name: groups are spelt out."""
        check_scale(scale)
        found: dict[str, Experiment] = {}
        for name, declared in self.declared(scale).items():
            for label, experiment in _flat(name, declared):
                require(
                    label not in found, f"{self.id} has two runs called {label!r}: name their groups or keys apart."
                )
                found[label] = experiment
        return found

    def departure(self, experiments: Mapping[str, Experiment]) -> str:
        """What is not as `about` says in these runs, made small or with changed settings; empty at paper scale."""
        from afterfit._training.experiment import flatten

        paper = self.experiments("paper")
        (name, headline), (_, original) = next(iter(experiments.items())), next(iter(paper.items()))
        own, theirs = (flatten(experiment.to_dict()) for experiment in (headline, original))
        changed = [
            f"{setting} = {in_words(own.get(setting))} (not {in_words(theirs.get(setting))})"
            for setting in {**own, **theirs}
            if own.get(setting) != theirs.get(setting)
        ]
        if len(experiments) != len(paper):
            changed.append(f"{len(experiments)} runs (not {len(paper)})")
        if not changed:
            return ""
        which = f"the run {name} here" if len(experiments) > 1 else "the run here"
        return f"The text above is about the setting at paper scale. That of {which} has {', '.join(changed)}."

    def run(self, scale: str, changes: Mapping[str, Any] | None = None, progress: Progress = None) -> dict[str, Run]:
        """Carry out the experiments, with some settings changed."""
        experiments = {name: experiment.set(changes or {}) for name, experiment in self.experiments(scale).items()}
        return run_all(experiments, self.id, progress)

    def draw(self, runs: Mapping[str, Run], scale: str) -> Figure:
        """The picture, from the runs that `run` gave."""
        return Evidence(self, runs, scale, False).ask(self.picture)

    def verify_each(
        self, scale: str, progress: Progress = None, but: Collection[str] = ()
    ) -> Iterator[Callable[[], Row]]:
        """Run the entry and check its claims, `but` some: one function a row, of which one may raise and the next not.

        `seconds` is what each cost; the first carries the runs.
        """
        began = time.monotonic()
        runs = self.run(scale, progress=progress)
        evidence = Evidence(self, runs, scale, progress)

        def row(claim: Claim) -> Row:
            nonlocal began
            try:
                row = self._judge(claim, evidence, scale)
                return dataclasses.replace(row, seconds=round(time.monotonic() - began, 3))
            finally:
                began = time.monotonic()

        for claim in self.claims:
            if claim.words not in but:
                yield functools.partial(row, claim)

    def _judge(self, claim: Claim, evidence: Evidence, scale: str) -> Row:
        """A claim held against the evidence: its check, and what has to be rejected or, for an erratum, to hold."""

        def ask(check: Callable[..., Finding]) -> Finding:
            return evidence.ask(check.__get__(self))

        found = ask(claim.check)
        measured, holds = found.measured, found.holds
        expected = holds == claim.holds_at(scale)
        seen = None
        if (correction := claim.correction) is not None:
            corrected = ask(correction.check)
            seen = f"what is printed: {measured}"
            measured = f"as printed: {measured}; corrected: {corrected.measured}"
            expected &= corrected.holds
        elif claim.holds_at(scale):
            controls = {control.words: ask(control.check) for control in claim.controls}
            seen = "; ".join(f"{words}: {control.measured}" for words, control in controls.items()) or None
            if passed := [words for words, control in controls.items() if control.holds]:
                measured += f"; but the check passes what it should reject, {', '.join(passed)}"
                holds = expected = False
        else:
            accepted = {control.words: ask(control.check) for control in claim.passing}
            seen = "; ".join(f"accepted, {words}: {one.measured}" for words, one in accepted.items()) or None
            if refused := [words for words, one in accepted.items() if not one.holds]:
                measured += f"; but the check rejects what it should pass, {', '.join(refused)}"
                expected = False
        return Row(
            id=self.id,
            claim=claim.words,
            paper_says=claim.says_at(scale),
            measured=measured,
            holds=holds,
            scale=scale,
            seconds=0.0,
            control=seen,
            erratum=None if correction is None else correction.words,
            as_recorded=expected,
            changed=claim.changed,
        )

    def check_names(self) -> None:
        """Refuse checks that ask for what there is not, at both scales, before anything is run."""
        parts = (part for c in self.claims for part in (c, *c.controls, *c.passing, c.correction))
        checks = [part.check for part in parts if part is not None]
        for scale in SCALES:
            names = [*self.declared(scale), *_once_methods(self), *_ALWAYS]
            for method in (self.picture, *checks, *_once_methods(self).values()):
                for asked in _parameters(method):
                    require(asked in names, f"{self.id}: {method.__name__} asks for {asked!r}: {nearest(asked, names)}")


class Evidence:
    """The runs of an entry and what is computed from them, handed out by name; each is computed once."""

    def __init__(self, entry: Entry, runs: Mapping[str, Run], scale: str, progress: Progress):
        self._declared, self._once = entry.declared(scale), _once_methods(entry)
        self._given: dict[str, Any] = {"runs": runs, "scale": scale, "progress": progress}

    def ask(self, method: Callable[..., Any]) -> Any:
        """Call a method with what its parameters name."""
        return method(**{name: self._find(name) for name in _parameters(method)})

    def _find(self, name: str) -> Any:
        if name not in self._given:
            names = [*self._given, *self._declared, *self._once]
            require(name in names, f"there is no run or result {name!r} here: {nearest(name, names)}")
            self._given[name] = self._runs(name) if name in self._declared else self.ask(self._once[name])
        return self._given[name]

    def _runs(self, name: str) -> Run | dict[Any, Run]:
        """A run, or a group of runs by their keys."""
        found, runs = self._declared[name], self._given["runs"]
        return {key: runs[_label(name, key)] for key in found} if isinstance(found, Mapping) else runs[name]


def _claims(members: Mapping[str, Any]) -> tuple[Claim, ...]:
    """The claims among the members of an entry, each with its controls, and its correction if it is an erratum."""
    claims = {name: member.__claim__ for name, member in members.items() if hasattr(member, "__claim__")}
    for member in members.values():
        for mark, field in (("__control__", "controls"), ("__passing__", "passing"), ("__correction__", "correction")):
            if not hasattr(member, mark):
                continue
            of, part = getattr(member, mark)
            require(
                of.__name__ in claims,
                f"{member.__name__} refers to {of.__name__}, which is no claim: {nearest(of.__name__, list(claims))}",
            )
            claim = claims[of.__name__]
            more = part if field == "correction" else (*getattr(claim, field), part)
            claims[of.__name__] = dataclasses.replace(claim, **{field: more})
    return tuple(claims.values())


def _once_methods(entry: Entry) -> dict[str, Callable[..., Any]]:
    methods = {name: getattr(entry, name) for name in dir(type(entry)) if callable(getattr(type(entry), name))}
    return {name: method for name, method in methods.items() if hasattr(method, "__once__")}


def _parameters(method: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(method).parameters if name != "self"]


def _flat(name: str, found: Experiment | Mapping[Any, Experiment]) -> Iterator[tuple[str, Experiment]]:
    """A run under its name, or the runs of a group under the group's name and their keys."""
    if not isinstance(found, Mapping):
        yield name, found
        return
    for key, experiment in found.items():
        yield _label(name, key), experiment


def _label(group: str, key: Any) -> str:
    """`seed 3` of a group by numbers, `α=10 share=0.5` of one by named tuples."""
    if hasattr(key, "_asdict"):
        return " ".join(f"{field}={_short(value)}" for field, value in key._asdict().items())
    return f"{group} {_short(key)}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def in_words(value: Any) -> str:
    """The value of a setting, shortened where it is long."""
    if isinstance(value, list) and len(value) > 4:
        return f"{len(value)} values"
    return "none" if value is None else _short(value)


def check_scale(scale: str) -> None:
    """Refuse a scale that is neither quick nor paper."""
    require(scale in SCALES, f"unknown scale {scale!r}: {nearest(scale, SCALES)}")


def run_all(
    experiments: Mapping[str, Experiment],
    label: str,
    progress: Progress = None,
    ended: Callable[[str, Run], None] = lambda name, run: None,
) -> dict[str, Run]:
    """Carry out several experiments under one progress bar (or the run's own, if there is only one).

    `ended` is called with the name of each run and the run as it ends, on Ctrl-C with those interrupted too. Inside
    `keeping`, what its store has is taken from there.
    """
    from afterfit._base.progress import progress_bar
    from afterfit._sweeps.processes import run_many
    from afterfit._training.train import run_experiment

    store = _KEPT.get()
    if store is not None and all(experiment.id_if_any for experiment in experiments.values()):
        with progress_bar(label, progress) as show:
            return _through(store, experiments, show)
    if len(experiments) == 1:
        ((name, experiment),) = experiments.items()
        run = run_experiment(experiment, progress=progress)
        ended(name, run)
        return {name: run}
    with progress_bar(label, progress) as show:
        return run_many(experiments, show, ended)


@contextlib.contextmanager
def keeping(store: Store) -> Iterator[None]:
    """Keep the runs of `run_all` in a store as they end: what is there already is not computed again."""
    before = _KEPT.set(store)
    try:
        yield
    finally:
        _KEPT.reset(before)


def _through(store: Store, experiments: Mapping[str, Experiment], show: Callable[[float], None]) -> dict[str, Run]:
    """Complete the runs of a store, and take them from there."""
    from afterfit._base.turns import hearing
    from afterfit._sweeps.complete import complete

    once = {experiment.id: experiment for experiment in experiments.values()}
    with hearing():
        store.set_aside_damaged(set(once) & set(store.ids()))
        failures = complete(store, list(once.values()), None, None, lambda done: show(done / len(once)))
    for name, experiment in experiments.items():
        if experiment.id in failures:
            raise RunFailed(f"{name}: {failures[experiment.id]}")
    return {name: _taken(store, experiment) for name, experiment in experiments.items()}


def _taken(store: Store, asked: Experiment) -> Run:
    """A run of a store, with the experiment that was asked for: arrays that a model holds are not in files."""
    run = store.load(asked.id)
    if run.spec["dynamics"] != asked.to_dict()["dynamics"]:  # what a flow decided
        asked = dataclasses.replace(asked, dynamics=type(asked.dynamics).from_dict(run.spec["dynamics"]))
    return dataclasses.replace(run, origin=asked)
