"""Fig. 35: a two-layer net groks on images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers._images import images
from afterfit.papers.notsawo2025 import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    _Runs = Mapping["_At", af.Run]

__all__ = ["Fig35"]

# App. H.3.4: N = 1000 images, B·ReLU(Ax) without biases, ℓ₁ (Fig. 35), ℓ₂ and ℓ_* (in words); Adam, as in App. H.3.
_IMAGES = {"paper": 1000, "quick": 300}
# There is no code, and no number beside N. What was chosen:
_UNITS = {"paper": 200, "quick": 50}  # as Liu et al. 2023 have on MNIST
_START = {"paper": 4.0, "quick": 4.0}  # times the start of the authors' other nets, N(0, 1/outputs of a layer)
_STEPS = {"paper": 5000, "quick": 2000}
_SEEDS = {"paper": range(21, 24), "quick": range(21, 23)}
_TESTED = {"paper": 2000, "quick": 1000}  # test images


class _At(NamedTuple):
    norm: str
    α: float
    β: float
    seed: int


_PENALTIES = {"ℓ₁": af.penalties.L1, "ℓ₂": af.penalties.L2, "ℓ_*": af.penalties.Nuclear}
