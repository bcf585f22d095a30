"""Many runs: sweeps over settings and seeds, phase diagrams and scaling laws."""

from __future__ import annotations

from afterfit.sweep.knobs import logspace
from afterfit.sweep.refine import refine
from afterfit.sweep.results import ScalingLaw
from afterfit.sweep.slurm import slurm
from afterfit.sweep.sweep import Sweep, SweepFailed, sweep

__all__ = ["ScalingLaw", "Sweep", "SweepFailed", "logspace", "refine", "slurm", "sweep"]
