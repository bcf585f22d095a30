"""What theory says of a run: where it must end, when it must turn, and whether the theorem applies."""

from afterfit.theory.potentials import Q, QDepth, R, SpectralQ
from afterfit.theory.programs import min_l1, min_l2, min_nuclear, nuclear_penalised

__all__ = ["Q", "QDepth", "R", "SpectralQ", "min_l1", "min_l2", "min_nuclear", "nuclear_penalised"]
