"""afterfit: what training does after the training loss has reached zero.

A **task** observed through data is fitted by a **model**, pulled by a **penalty**, moved by a **dynamics**; the
**run** it leaves behind is **diagnosed**, and **theory** says what it should have been.
"""

import importlib
from typing import TYPE_CHECKING, Any

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit._base.errors import SpecError
from afterfit._diagnose import Settings, Verdict, diagnose
from afterfit._diagnose.thresholds import Criteria, Threshold
from afterfit._training.experiment import Experiment
from afterfit._training.run import Run, load
from afterfit._training.train import run_experiment, train

if TYPE_CHECKING:
    from afterfit import losses, papers, plot, theory
    from afterfit._sweeps import Sweep, SweepFailed, logspace, refine, slurm, sweep
    from afterfit._sweeps.store import Store
    from afterfit.theory import forecast

__version__ = "0.1.0"

__all__ = [
    "Criteria",
    "Experiment",
    "Run",
    "Settings",
    "SpecError",
    "Store",
    "Sweep",
    "SweepFailed",
    "Threshold",
    "Verdict",
    "diagnose",
    "dynamics",
    "forecast",
    "inits",
    "load",
    "logspace",
    "losses",
    "models",
    "papers",
    "penalties",
    "plot",
    "refine",
    "run_experiment",
    "slurm",
    "sweep",
    "tasks",
    "theory",
    "train",
]


_ELSEWHERE = {
    "forecast": "afterfit.theory",
    "Store": "afterfit._sweeps.store",
    **dict.fromkeys(("Sweep", "SweepFailed", "logspace", "refine", "slurm", "sweep"), "afterfit.sweeps"),
}


def __getattr__(name: str) -> Any:
    # On first use: the gallery needs matplotlib, theory convex solvers and sweeps SciPy, which training does not.
    if name in ("losses", "papers", "plot", "theory"):
        return importlib.import_module(f"afterfit.{name}")
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module 'afterfit' has no attribute {name!r}")
