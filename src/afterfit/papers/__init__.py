"""The gallery of the four papers: every entry checks itself."""

from __future__ import annotations

from afterfit.papers import boursier2025, lyu2023, notsawo2025, woodworth2020
from afterfit.papers.gallery import SCALES, Claim, Entry, Finding
from afterfit.spec import SpecError, nearest

__all__ = ["ENTRIES", "PAPERS", "SCALES", "Claim", "Entry", "Finding", "find"]

PAPERS = {
    "lyu2023": "Lyu et al. 2023, Dichotomy of early and late phase implicit biases can provably induce grokking",
    "woodworth2020": "Woodworth et al. 2020, Kernel and rich regimes in overparametrized models",
    "notsawo2025": "Notsawo et al. 2025, Grokking beyond the Euclidean norm of model parameters",
    "boursier2025": "Boursier et al. 2025, A theoretical framework for grokking: interpolation followed by Riemannian "
    "norm minimisation",
}
ENTRIES: dict[str, Entry] = {
    entry.id: entry
    for entry in (
        lyu2023.Fig1a(),
        lyu2023.Fig1b(),
        lyu2023.Fig2a(),
        lyu2023.Fig2b(),
        lyu2023.Fig2c(),
        lyu2023.Fig3(),
        lyu2023.Thm34(),
        lyu2023.Thm35(),
        lyu2023.Thm39(),
        lyu2023.Thm310(),
        lyu2023.Sharpness(),
        lyu2023.Bounds(),
        woodworth2020.Thm1(),
        woodworth2020.Thm2(),
        woodworth2020.Shape(),
        woodworth2020.Fig2(),
        woodworth2020.Thm4(),
        woodworth2020.Fig5(),
        woodworth2020.AppC(),
        woodworth2020.Thm9(),
        notsawo2025.Thm21(),
        notsawo2025.Fig3(),
        notsawo2025.Fig4(),
        notsawo2025.Fig27(),
        notsawo2025.Tools(),
        boursier2025.Prop1(),
        boursier2025.Prop2(),
        boursier2025.Prop4(),
        boursier2025.Prop5(),
        boursier2025.Linear(),
        boursier2025.Fig2(),
    )
}


def find(id: str) -> Entry:
    """The entry of that id, such as `boursier2025/fig2`."""
    if id not in ENTRIES:
        raise SpecError(f"there is no gallery entry {id!r}: {nearest(id, ENTRIES)}")
    return ENTRIES[id]
