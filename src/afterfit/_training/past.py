"""What went before a run that goes on from another: its clock, its curves, and what its dynamics remembered."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from afterfit._base.definitions import Untold
from afterfit._base.errors import SpecError, require
from afterfit._base.files import json_text
from afterfit._base.spec import Spec
from afterfit._diagnose.words import power_of_ten
from afterfit._training.experiment import Experiment
from afterfit.dynamics._base import Remembered
from afterfit.inits import Init

if TYPE_CHECKING:
    import xarray as xr

    from afterfit._training.run import Run

__all__ = ["Past"]

_LOG10 = math.log(10)


@dataclasses.dataclass(frozen=True)
class Past:
    """The run that another goes on from, if there is one, how many steps it had made, and log₁₀ of its time."""

    run: Run | None = None
    step: int = 0
    log10_time: float = -math.inf

    @classmethod
    def of(cls, run: Run | None) -> Past:
        """The past that a run is; None is none."""
        if run is None:
            return cls()
        return cls(run, int(run.curves["step"].values[-1]), float(run.curves["log10_time"].values[-1]))

    def check(self, experiment: Experiment) -> None:
        """Refuse an experiment that does not go on from this: on other data, with another model, on another clock."""
        if self.run is None:
            return
        # As files say it: a run that was read has lists for tuples, and words for whole numbers as names.
        spec, now = (json.loads(json_text(said)) for said in (self.run.spec, experiment.to_dict()))
        for name, said in itertools.product(experiment.task.places(), (spec, now)):
            said["task"].pop(name, None)  # the same data in another folder are the same
        require(
            self.run.status != "diverged",
            f"a run that diverged leaves nothing to go on from: begin anew, with {experiment.dynamics.knob}.",
        )
        for name in ("task", "model", "seed"):
            require(
                now[name] == spec[name],
                f"a run goes on with its own task, model and seed, and the {name} of this one is {_named(spec[name])}, "
                f"not {_named(now[name])}. To start elsewhere at its parameters, use init=af.inits.From(run.params).",
            )
        if self.run.origin is not None:
            for name in ("task", "model"):
                _check_same(getattr(self.run.origin, name), getattr(experiment, name), name)
        clock = self.run.curves["time"].attrs["units"]
        require(
            clock == experiment.dynamics.clock,
            f"the run's clock is the {clock}, that of {type(experiment.dynamics).__name__} the "
            f"{experiment.dynamics.clock}: these cannot be continued. Use init=af.inits.From(run.params).",
        )

    def check_curves(self, observed: Callable[[], Mapping[str, Any]]) -> None:
        """Refuse to observe under the name of a curve what has not its shape: they are one curve."""
        if self.run is None:
            return
        for name, now in observed().items():
            before = self.run.curves[name].shape[1:] if name in self.run.curves else now.shape
            require(
                now.shape == before,
                f"the run before observed {name!r} with the shape {before}, not {now.shape}: observe yours under "
                "another name.",
            )

    @property
    def first_init(self) -> Init:
        """Where it all began, before the first of the runs that go on from one another."""
        assert self.run is not None
        try:
            init = Init.from_dict(self.run.spec["init"]) if self.run.origin is None else self.run.origin.init
        except SpecError as error:
            raise SpecError(
                "a model that is linearised where its run began cannot be gone on with, since where that was is not in "
                f"the files of the run ({str(error).rstrip('.')}): go on from the run while it is in memory."
            ) from None
        return init if init.past is None else Past.of(init.past).first_init

    @property
    def initial_loss(self) -> float | None:
        """The training loss where it all began."""
        return None if self.run is None else float(self.run.curves["train_loss"].values[0])

    @property
    def time(self) -> float:
        """When it ended."""
        return power_of_ten(self.log10_time)

    @property
    def remembered(self) -> Remembered | None:
        """What its dynamics remembered at the end; None if there is no past."""
        if self.run is None:
            return None
        dynamics = self.run.spec["dynamics"]
        return Remembered(self.run.memory, self.run.memory_kind or dynamics["kind"], dynamics)

    def continued(self, own: float, began: float) -> float:
        """log₁₀ of the time on the continued clock, from what the dynamics' own clock says now and said at the start.

        In logarithms, since times may be too large for a float.
        """
        if self.run is None or began == self.log10_time:  # the same clock goes on
            return own
        since = own + math.log10(-math.expm1((began - own) * _LOG10)) if own > began else -math.inf
        return float(np.logaddexp(self.log10_time * _LOG10, since * _LOG10)) / _LOG10

    def followed_by(self, curves: xr.Dataset) -> xr.Dataset:
        """All curves on one clock. Where the new ones begin the old ones end, which is one observation."""
        if self.run is None:
            return curves
        import xarray as xr

        return xr.concat(
            [self.run.curves, curves.isel(time=slice(1, None))],
            dim="time",
            data_vars="all",
            coords="different",
            compat="equals",
            join="outer",
            combine_attrs="override",
        )


def _check_same(before: Spec, now: Spec, name: str) -> None:
    """Refuse a noun that may be another although plain data say the same of it: they cannot tell a lambda's code."""
    try:
        list(now.codes())
    except Untold as error:
        functions = ([leaf for leaf in jax.tree.leaves(noun) if callable(leaf)] for noun in (before, now))
        require(
            type(before) is type(now) and all(map(operator.is_, *functions)),
            f"a run goes on with its own {name}, and whether this is the same cannot be told ({error}): give the one "
            "that it was trained with.",
        )


def _named(said: Any) -> str:
    """What plain data say of a noun, or a number, in a word."""
    if not isinstance(said, dict):
        return str(said)
    settings = {name: value for name, value in said.items() if name != "kind"}
    return f"{said['kind']} {settings!r:.120}" if settings else str(said["kind"])
