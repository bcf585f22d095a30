"""Whether runs find the truth where and only where a convex program does, draw by draw and place by place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from afterfit.papers import Finding
from afterfit.papers._measure import share

__all__ = ["Answer", "agree"]


class Answer(NamedTuple):
    """Whether a run and whether the program finds the truth of a draw. Its place is in a row and, if any, a column."""

    row: str
    column: str
    run: bool
    program: bool


def agree(answers: Sequence[Answer], program: str, places: str, least: float) -> Finding:
    """Whether runs find the truth where and only where a program does.

    By its interval the share of draws on which they agree is `least` or more, and above that of one and the same answer
    for all; and at each place with several draws they agree on more than half of these. With ten draws or fewer, where
    they do, the intervals of the two shares that are found meet.
    """
    by_place: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        by_place.setdefault((answer.row, answer.column), []).append(answer)
    can, runs = sum(answer.program for answer in answers), sum(answer.run for answer in answers)
    agreed = share(sum(map(_same, answers)), len(answers))
    guessed = max(can, len(answers) - can) / len(answers)
    several = {place: group for place, group in by_place.items() if len(group) > 1}
    return Finding(
        f"at {len(by_place)} {places}, {len(answers)} runs in all, runs find the truth on {runs} and "
        f"{program} on {can}; they agree on a share {agreed}, where {least:g} is asked for and one answer for all "
        f"would on {guessed:.2f}; runs|program: {_counted(several)}"
        + (f"; one draw at each of the other {alone}" if (alone := len(by_place) - len(several)) else "")
        + f"; they differ {_apart(by_place)}",
        agreed.low >= least
        and agreed.low > guessed
        and all(2 * sum(map(_same, group)) > len(group) for group in several.values()),
    )


def _same(answer: Answer) -> bool:
    return answer.run == answer.program


def _counted(several: Mapping[tuple[str, str], Sequence[Answer]]) -> str:
    """How often runs and the program find the truth at each place, row by row."""
    rows: dict[str, list[str]] = {}
    for (row, column), group in several.items():
        counts = f"{column} {sum(a.run for a in group)}|{sum(a.program for a in group)}".strip()
        rows.setdefault(f"{row} of {len(group)} draws", []).append(counts)
    return "; ".join(f"{row} {', '.join(counts)}" for row, counts in rows.items())


def _apart(by_place: Mapping[tuple[str, str], Sequence[Answer]]) -> str:
    """Where they do not agree, and on how many draws."""
    words = [
        f"{' '.join(place).strip()} ({wrong} of {len(group)})"
        for place, group in by_place.items()
        if (wrong := len(group) - sum(map(_same, group)))
    ]
    return f"at {', '.join(words)}" if words else "nowhere"
