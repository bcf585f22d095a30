"""The images that entries run on: those of their papers where they are on this machine, else Fashion-MNIST."""

from __future__ import annotations

from typing import Any

import numpy as np

import afterfit as af

__all__ = ["STAND_IN", "images", "is_here", "sets_here"]

STAND_IN = "fashion-mnist"  # to be had as Debian's package dataset-fashion-mnist as well
_SHA256 = "697249e9d1e87d6b2c6a738e828c890264cffecccb13840d472e3585751a5582"
_OF_PAPERS = {  # and what they are known by, where that is known; files of CIFAR-10 are compared when they are read
    "mnist": "ca679089cd9dd461d7b26e36e51216fc71f9271f8082e09656a7c1d29a50483b",
    "cifar10": "",
}


def is_here(name: str) -> bool:
    """Whether a set of images is on this machine; one that is damaged, or another of that name, is refused."""
    try:
        af.tasks.Images(name, n=1, sha256=_OF_PAPERS.get(name, "")).draw(np.random.default_rng(0))
    except af.SpecError as error:
        if "not on this machine" in str(error):
            return False
        raise
    return True


def sets_here() -> str:
    """Which of the papers' images are on this machine: rows at paper scale depend on it."""
    return " ".join(filter(is_here, _OF_PAPERS))


def images(name: str, scale: str, **settings: Any) -> af.tasks.Images:
    """A task with the images of a paper, at paper scale and where they are; else with those that stand in.

    Those need not be here for the task to be posed. A run then says how they are had.
    """
    if scale == "paper" and is_here(name):
        return af.tasks.Images(name, **settings, sha256=_OF_PAPERS.get(name, ""))
    return af.tasks.Images(STAND_IN, **settings, sha256=_SHA256)
