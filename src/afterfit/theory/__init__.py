"""What theory says of a run: where it must end, when it must turn, and whether the theorem applies.

A clock, limit, theorem or route of your own is a subclass of `Clock`, `Limit`, `Theorem` or `Route` with a `name`, and
known by being defined.
"""

from afterfit._base.errors import NotSeparableError, Unanswered
from afterfit.theory import bounds, obstacles, sensing, thresholds
from afterfit.theory._clocks import (
    Clock,
    Clocks,
    Descent,
    FitTime,
    KernelPhase,
    LabelNoiseTime,
    LargeStart,
    MatrixDescent,
    PenaltyBound,
    SlowTime,
    clocks,
)
from afterfit.theory._explain import Explanation, Readings, explain
from afterfit.theory._forecast import Forecast, forecast
from afterfit.theory._instance import Instance, instance_of
from afterfit.theory._kernel import KernelPredictor, kernel_predictor, last_layer_predictor
from afterfit.theory._landscape import chatterjee_lojasiewicz, hessian_rank, homogeneity
from afterfit.theory._limits import (
    ArgminQ,
    ArgminQDepth,
    KernelInterpolation,
    KernelMaxMargin,
    Lasso,
    LastLayerOnly,
    Limit,
    Limits,
    MaxL1Margin,
    MaxL2Margin,
    MinL1,
    MinL2,
    MinLp,
    MinNuclear,
    NuclearPenalised,
    Ridge,
    limits,
)
from afterfit.theory._overlay import overlay, plot
from afterfit.theory._potentials import Q, QDepth, R, SpectralQ
from afterfit.theory._programs import (
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
from afterfit.theory._routes import Curves, Route
from afterfit.theory._stationarity import Stationarity, kkt, lp_residual
from afterfit.theory._theorems import Case, Check, Outcome, Theorem, timed

__all__ = [
    "ArgminQ",
    "ArgminQDepth",
    "Case",
    "Check",
    "Clock",
    "Clocks",
    "Curves",
    "Descent",
    "Explanation",
    "FitTime",
    "Forecast",
    "Instance",
    "KernelInterpolation",
    "KernelMaxMargin",
    "KernelPhase",
    "KernelPredictor",
    "LabelNoiseTime",
    "LargeStart",
    "Lasso",
    "LastLayerOnly",
    "Limit",
    "Limits",
    "MatrixDescent",
    "MaxL1Margin",
    "MaxL2Margin",
    "MinL1",
    "MinL2",
    "MinLp",
    "MinNuclear",
    "NotSeparableError",
    "NuclearPenalised",
    "Outcome",
    "PenaltyBound",
    "Q",
    "QDepth",
    "R",
    "Readings",
    "Ridge",
    "Route",
    "SlowTime",
    "SpectralQ",
    "Stationarity",
    "Theorem",
    "Unanswered",
    "bounds",
    "chatterjee_lojasiewicz",
    "clocks",
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
    "obstacles",
    "overlay",
    "plot",
    "ridge",
    "sensing",
    "single_entries",
    "thresholds",
    "timed",
]


def __dir__() -> list[str]:
    return __all__
