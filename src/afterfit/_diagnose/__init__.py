"""What a pair of training curves shows: when it fitted, when it generalised, and one verdict in words.

Only the curves are used, so a run of `afterfit` and a CSV file from elsewhere are diagnosed alike.

Everything is done on errors over log time. An accuracy a is read as the error 1 − a (100 − a in percent), and
time as τ = log₁₀ t: grokking lives on a log axis, and a verdict must not depend on the unit of time.
"""

from afterfit._diagnose.columns import Columns, guess_columns, read_as
from afterfit._diagnose.elsewhere import column_names, explain_criteria, guess_criteria, read_csv
from afterfit._diagnose.judge import diagnose
from afterfit._diagnose.verdict import VERDICTS, Settings, Verdict

__all__ = [
    "VERDICTS",
    "Columns",
    "Settings",
    "Verdict",
    "column_names",
    "diagnose",
    "explain_criteria",
    "guess_columns",
    "guess_criteria",
    "read_as",
    "read_csv",
]
