"""What theory says of a run: where it must end, when it must turn, and whether the theorem applies.

A clock, limit, theorem or route of your own is a subclass of `Clock`, `Limit`, `Theorem` or `Route` with a `name`, and
known by being defined. Those of `_clocks` and `_limits` are public by being in their `__all__`.
"""

from afterfit._base.errors import NotSeparableError, Unanswered
from afterfit.dynamics._tangent import kernel as tangent_kernel
from afterfit.theory import _clocks, _limits, bounds, obstacles, sensing, thresholds
from afterfit.theory._arc_cosine import arc_cosine
from afterfit.theory._clocks import *
from afterfit.theory._explain import Explanation, Readings, explain
from afterfit.theory._forecast import Forecast, forecast
from afterfit.theory._instance import Instance, instance_of, posed
from afterfit.theory._kernel import KernelPredictor, kernel_predictor, last_layer_predictor
from afterfit.theory._landscape import (
    Manifold,
    StepSizes,
    chatterjee_lojasiewicz,
    fit_steps,
    hessian_rank,
    homogeneity,
    slow_steps,
    step_sizes,
)
from afterfit.theory._limits import *
from afterfit.theory._overlay import overlay, plot
from afterfit.theory._potentials import Minimisers, Q, QDepth, R, SpectralQ
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
    "Case",
    "Check",
    "Curves",
    "Explanation",
    "Forecast",
    "Instance",
    "KernelPredictor",
    "Manifold",
    "Minimisers",
    "NotSeparableError",
    "Outcome",
    "Q",
    "QDepth",
    "R",
    "Readings",
    "Route",
    "SpectralQ",
    "Stationarity",
    "StepSizes",
    "Theorem",
    "Unanswered",
    "arc_cosine",
    "bounds",
    "chatterjee_lojasiewicz",
    "explain",
    "fit_steps",
    "forecast",
    "hessian_rank",
    "homogeneity",
    "instance_of",
    "kernel_predictor",
    "kkt",
    "lasso",
    "last_layer_predictor",
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
    "posed",
    "ridge",
    "sensing",
    "single_entries",
    "slow_steps",
    "step_sizes",
    "tangent_kernel",
    "thresholds",
    "timed",
]
__all__ += _clocks.__all__
__all__ += _limits.__all__


def __dir__() -> list[str]:
    return __all__
