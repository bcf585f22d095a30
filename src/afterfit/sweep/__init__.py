"""Many runs: over knobs and seeds."""

from afterfit.sweep.laws import PowerLaw, fit_power_law

__all__ = ["PowerLaw", "fit_power_law"]
