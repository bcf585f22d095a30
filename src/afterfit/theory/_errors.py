"""What theory raises where it has no answer."""

from __future__ import annotations

__all__ = ["NotSeparableError", "Unanswered"]


class Unanswered(Exception):
    """A question that seemed to have an answer has none here; the message says why.

    A limit that does not exist, a program that no solver solves, a kernel too large to factorise: a clock, limit,
    theorem or route that raises it is counted among those that do not apply. Anything else that is raised is a bug.
    """


class NotSeparableError(Unanswered):
    """No classifier of the kind asked for has a positive margin on these data, or no predictor fits them."""
