"""What theory says of a run: where it must end, when it must turn, and whether the theorem applies."""

from afterfit.theory.programs import min_l1, min_l2, min_nuclear, min_q, nuclear_penalised

__all__ = ["min_l1", "min_l2", "min_nuclear", "min_q", "nuclear_penalised"]
