"""Figs 6d and 8: a convolutional net on CIFAR-10, over the scale of its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import afterfit as af
from afterfit.papers import Entry, Finding, claim, control, once
from afterfit.papers._images import images
from afterfit.papers.woodworth2020 import PAPER
from afterfit.papers.woodworth2020.over_alpha import (
    At,
    Ends,
    Runs,
    differ,
    early,
    ends_of,
    errors,
    fit,
    rise,
    show_errors,
    show_level,
    show_path,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Fig6d"]
