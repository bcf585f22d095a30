"""The report on whatever there is one on."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from afterfit._base.errors import SpecError
from afterfit._reports.runs import write_report
from afterfit._reports.sweeps import write_sweep_report
from afterfit._sweeps.sweep import Sweep
from afterfit._training.run import Run
from afterfit.plot import in_short

__all__ = ["report"]


@functools.singledispatch
def report(of: Run | Mapping[str, Run] | Sweep, path: str | Path, *, thorough: bool = False) -> Path:
    """Write one self-contained HTML page about a run, about several runs by their names, or about a sweep.

    It is the page that `afterfit run` and `afterfit report` write: verdicts with their evidence, pictures, what theory
    says, settings, cost, versions. Of several runs the first is the headline. Other thresholds are asked for before:
    `af.report(run.judged(fit=1e-3), "run.html")`. What theory says of runs takes no longer than the
    runs did, or 5 s if that is more; `thorough` leaves nothing out. Returns the path.

    ```python
    af.report(run, "run.html")
    af.report({"weak": weak, "strong": strong}, "both.html")
    af.report(sweep, "sweep.html")
    ```
    """
    raise SpecError(f"a report is about a run, several runs by their names, or a sweep, got {of!r:.60}.")


@report.register(Run)
def _(of: Run, path: str | Path, *, thorough: bool = False) -> Path:
    kinds = (in_short({"kind": of.spec[noun]["kind"]}) for noun in ("task", "model", "dynamics"))
    return write_report(path, " · ".join(kinds), {"run": of}, thorough=thorough)


@report.register(Mapping)
def _(of: Mapping[str, Run], path: str | Path, *, thorough: bool = False) -> Path:
    for name, run in of.items():
        if not isinstance(run, Run):
            raise SpecError(f"a report on several runs has a run under each name, got {run!r:.60} under {name!r}.")
    if not of:
        raise SpecError("a report needs one run at least, got none.")
    return write_report(path, f"{len(of)} runs", {str(name): run for name, run in of.items()}, thorough=thorough)


@report.register(Sweep)
def _(of: Sweep, path: str | Path, *, thorough: bool = False) -> Path:
    return write_sweep_report(path, of)
