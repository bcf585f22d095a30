"""Theory's programs at the size of lyu2023/fig1a: d = 10⁵ weights, n = 256 examples.

    python benchmarks/theory.py

Targets: each margin in under 30 s and 4 GiB, the data included.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from report import Row, Suite, footer, main, table, worker

SECONDS, GIBIBYTES = 30.0, 4.0


def margin(quick: bool, norm: str) -> Iterator[Row]:
    seen = worker("margin", norm=norm, d=10_000 if quick else 100_000, n=256)
    yield Row(
        f"max-{norm.upper()}-margin",
        f"argmin ‖w‖ with every margin at least 1, d = {seen['d']}, n = {seen['n']}",
        f"{seen['seconds']:.1f} s, {seen['gibibytes']:.2f} GiB; smallest margin {seen['smallest']:.8f}, "
        f"{seen['used']} weights",
        f"≤ {SECONDS:g} s, ≤ {GIBIBYTES:g} GiB",
        met=seen["seconds"] <= SECONDS and seen["gibibytes"] <= GIBIBYTES,
        samples=seen,
    )


def markdown(report: dict[str, Any]) -> str:
    return f"{table(report['rows'])}\n\n{footer(report)}"


if __name__ == "__main__":
    main(
        Suite(
            __doc__ or "",
            {f"margin/{norm}": functools.partial(margin, norm=norm) for norm in ("l1", "l2")},
            file="benchmarks-theory.json",
            mark="theory",
            markdown=markdown,
        )
    )
