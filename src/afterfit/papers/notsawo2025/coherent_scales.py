"""What is run and solved on measurements of coherence τ, at both scales: Figs 8 and 19 to 23."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import afterfit as af
from afterfit.papers.notsawo2025.coherent import completed, mixed
from afterfit.papers.notsawo2025.coherent_runs import flow_of, on_matrix
from afterfit.papers.notsawo2025.recovery import descent

__all__ = [
    "MATRIX",
    "SCALES",
    "VECTOR",
    "Entries",
    "Rows",
    "Scale",
    "matrices_of",
    "matrix_at",
    "vector_at",
    "vectors_of",
]

VECTOR, MATRIX = 0.1, 1.0  # α of sparse recovery (G.1.3) and, in the notebook, of completion (G.2.3 has 0.1)


class Rows(NamedTuple):
    """Where a run of sparse recovery is."""

    N: int
    τ: float
    seed: int


class Entries(NamedTuple):
    """Where a run of completion is."""

    entries: int
    τ: float
    seed: int


@dataclasses.dataclass(frozen=True)
class Scale:
    """What is run and solved: sizes, numbers of measurements N, shares τ, and draws."""

    n: int
    sparsity: int
    numbers: tuple[int, ...]  # N of sparse recovery; the first is drawn
    timed: tuple[int, ...]  # those of them with all seeds: a* is mostly found at τ = 0 and mostly not at τ = 1
    size: int  # of the matrices of the runs; programs have the paper's
    rank: int
    entries: tuple[int, ...]  # N of completion
    timed_entries: tuple[int, ...]  # and here: at 60 half of the draws are not found at any τ
    taus: tuple[float, ...]
    seeds: tuple[int, ...]
    matrix_seeds: tuple[int, ...]
    vector_run: tuple[float, float]  # β and steps of sparse recovery
    matrix_run: tuple[float, float]  # and of completion
    flows: bool  # whether the runs are followed as flows, with descent at a sample, or the other way round
    method: str  # of the flows of sparse recovery
    sample: tuple[tuple[int, float], ...]  # (N, τ) at which the other is run
    matrix_sample: tuple[tuple[int, float], ...]  # and for completion descent, of 10⁶ steps: one takes 40 µs
    finer: tuple[float, ...]  # τ of the programs
    draws: int  # of the programs
    sparsities: tuple[int, ...]  # s of the programs
    ranks: tuple[int, ...]  # r of the programs
    agreed: float  # the share of runs that have to agree with the programs; 24 of 24 leave 0.86 possible


SCALES = {
    "paper": Scale(
        n=100,
        sparsity=5,
        numbers=(50, 10, 20, 30, 40, 60, 70, 80, 90, 100),
        timed=(30, 50, 70),
        size=10,
        rank=2,
        entries=(70, 50, 60, 80, 90),
        timed_entries=(70, 80),
        taus=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
        seeds=tuple(range(11, 21)),
        matrix_seeds=(1, 2, 3, 4, 5, 6, 7, 8),
        vector_run=(1e-5, 1e7),
        matrix_run=(1e-5, 1e7),
        flows=True,
        method="proximal",
        sample=((50, 0.0), (50, 0.4), (30, 0.2), (70, 0.6)),
        matrix_sample=((80, 1.0),),
        finer=tuple(k / 10 for k in range(11)),
        draws=40,
        sparsities=(1, 5, 20, 60),
        ranks=(1, 2, 3),
        agreed=0.9,
    ),
    "quick": Scale(
        n=40,
        sparsity=3,
        numbers=(16,),
        timed=(16,),
        size=7,
        rank=1,
        entries=(24,),
        timed_entries=(24,),
        taus=(0.0, 0.3, 0.6, 1.0),
        seeds=tuple(range(41, 51)),
        matrix_seeds=(11, 12, 13, 14, 15, 16),
        vector_run=(2e-5, 4e5),
        matrix_run=(5e-3, 6e3),
        flows=False,
        method="path",
        sample=((16, 0.3),),
        matrix_sample=(),
        finer=(0.0, 0.4, 1.0),
        draws=12,
        sparsities=(1, 8),
        ranks=(1, 3),
        agreed=0.75,
    ),
}


def vector_at(of: Scale, at: Rows, *, flow: bool) -> af.Experiment:
    task = mixed(of.n, of.sparsity, at.N, at.τ)
    run = descent(task, VECTOR, *of.vector_run, at.seed, observations=100)
    return flow_of(run, of.method) if flow else run


def vectors_of(of: Scale) -> dict[Rows, af.Experiment]:
    """All runs of sparse recovery, the one of the picture first."""
    places = [
        Rows(N, tau, seed)
        for N in of.numbers
        for seed in (of.seeds if N in of.timed else of.seeds[:1])
        for tau in of.taus
    ]
    return {at: vector_at(of, at, flow=of.flows) for at in places}


def matrix_at(of: Scale, at: Entries, *, flow: bool) -> af.Experiment:
    run = on_matrix(completed(of.size, of.rank, at.entries, at.τ), MATRIX, *of.matrix_run, at.seed, observations=100)
    return flow_of(run) if flow else run


def matrices_of(of: Scale) -> dict[Entries, af.Experiment]:
    """All runs of completion, the one of the picture first."""
    places = [
        Entries(N, tau, seed)
        for N in of.entries
        for seed in (of.matrix_seeds if N in of.timed_entries else of.matrix_seeds[:1])
        for tau in of.taus
    ]
    return {at: matrix_at(of, at, flow=of.flows) for at in places}
