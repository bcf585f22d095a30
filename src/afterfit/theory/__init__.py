"""What theory says of a run: where it must end, when it must turn, and whether the theorem applies."""

from afterfit.theory.potentials import Q, QDepth, R, SpectralQ
from afterfit.theory.programs import (
    NotSeparableError,
    lasso,
    max_l1_margin,
    max_l2_margin,
    max_margin,
    min_l1,
    min_l2,
    min_lp,
    min_nuclear,
    nuclear_penalised,
    ridge,
    single_entries,
)

__all__ = [
    "NotSeparableError",
    "Q",
    "QDepth",
    "R",
    "SpectralQ",
    "lasso",
    "max_l1_margin",
    "max_l2_margin",
    "max_margin",
    "min_l1",
    "min_l2",
    "min_lp",
    "min_nuclear",
    "nuclear_penalised",
    "ridge",
    "single_entries",
]
