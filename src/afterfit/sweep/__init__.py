"""Sweeps: many experiments, and where they are carried out."""

from afterfit.sweep.slurm import Slurm, slurm

__all__ = ["Slurm", "slurm"]
