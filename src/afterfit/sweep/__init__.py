"""Many runs: over knobs and seeds."""

from afterfit.sweep.laws import PowerLaw, fit_power_law
from afterfit.sweep.refine import Refine, refine

__all__ = ["PowerLaw", "Refine", "fit_power_law", "refine"]
