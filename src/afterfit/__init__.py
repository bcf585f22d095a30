"""afterfit: what training does after the training loss has reached zero.

A **task** observed through data is fitted by a **model**, pulled by a **penalty**, moved by a **dynamics**; the
**run** it leaves behind is **diagnosed**.
"""

from afterfit import dynamics, inits, models, penalties, tasks
from afterfit.criteria import Criteria, Threshold
from afterfit.diagnose import Settings, Verdict, diagnose
from afterfit.experiment import Experiment
from afterfit.run import Run, load
from afterfit.spec import SpecError
from afterfit.train import train

__version__ = "0.1.0"

__all__ = [
    "Criteria",
    "Experiment",
    "Run",
    "Settings",
    "SpecError",
    "Threshold",
    "Verdict",
    "diagnose",
    "dynamics",
    "inits",
    "load",
    "models",
    "penalties",
    "tasks",
    "train",
]
