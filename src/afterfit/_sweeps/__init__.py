"""Many runs: sweeps over settings and seeds, phase diagrams and scaling laws."""

from __future__ import annotations

from afterfit._base.errors import SweepFailed
from afterfit._sweeps.knobs import geomspace
from afterfit._sweeps.refine import refine
from afterfit._sweeps.results import ScalingLaw
from afterfit._sweeps.slurm import slurm
from afterfit._sweeps.sweep import Sweep, sweep

__all__ = ["ScalingLaw", "Sweep", "SweepFailed", "geomspace", "refine", "slurm", "sweep"]
