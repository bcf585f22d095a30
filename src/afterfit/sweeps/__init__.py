"""Many runs: sweeps over settings and seeds, phase diagrams and scaling laws."""

from __future__ import annotations

from afterfit.sweeps.knobs import logspace
from afterfit.sweeps.refine import refine
from afterfit.sweeps.results import ScalingLaw
from afterfit.sweeps.slurm import slurm
from afterfit.sweeps.sweep import Sweep, SweepFailed, sweep

__all__ = ["ScalingLaw", "Sweep", "SweepFailed", "logspace", "refine", "slurm", "sweep"]
