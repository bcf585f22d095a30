"""What theory says of a run: where it must end, when it must turn, and whether the theorem applies."""

from afterfit.theory import bounds, sensing, thresholds
from afterfit.theory.clocks import Clock, Clocks, clock
from afterfit.theory.explain import Explanation, explain
from afterfit.theory.forecast import Forecast, forecast
from afterfit.theory.instance import Instance, instance_of
from afterfit.theory.kernel import KernelPredictor, kernel_predictor, last_layer_predictor
from afterfit.theory.landscape import chatterjee_lojasiewicz, hessian_rank, homogeneity
from afterfit.theory.limits import Limit, Limits, limits
from afterfit.theory.named import Named
from afterfit.theory.overlay import overlay, plot
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
from afterfit.theory.stationarity import Stationarity, kkt, lp_residual

__all__ = [
    "Clock",
    "Clocks",
    "Explanation",
    "Forecast",
    "Instance",
    "KernelPredictor",
    "Limit",
    "Limits",
    "Named",
    "NotSeparableError",
    "Q",
    "QDepth",
    "R",
    "SpectralQ",
    "Stationarity",
    "bounds",
    "chatterjee_lojasiewicz",
    "clock",
    "explain",
    "forecast",
    "hessian_rank",
    "homogeneity",
    "instance_of",
    "kernel_predictor",
    "kkt",
    "lasso",
    "last_layer_predictor",
    "limits",
    "lp_residual",
    "max_l1_margin",
    "max_l2_margin",
    "max_margin",
    "min_l1",
    "min_l2",
    "min_lp",
    "min_nuclear",
    "nuclear_penalised",
    "overlay",
    "plot",
    "ridge",
    "sensing",
    "single_entries",
    "thresholds",
]
