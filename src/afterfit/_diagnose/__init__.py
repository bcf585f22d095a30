"""What a pair of training curves shows: when it fitted, when it generalised, and one verdict in words.

Only the curves are used, so a run of `afterfit` and a CSV file from elsewhere are diagnosed alike.

Everything is done on errors over log time. An accuracy a is read as the error 1 − a (100 − a in percent), and
time as τ = log₁₀ t: grokking lives on a log axis, and a verdict must not depend on the unit of time.
"""

from afterfit._diagnose.judge import diagnose
from afterfit._diagnose.verdict import VERDICTS, DiagnosisSettings, Verdict

__all__ = ["VERDICTS", "DiagnosisSettings", "Verdict", "diagnose"]
