"""Reports: self-contained HTML pages about runs and sweeps."""

from __future__ import annotations

from afterfit._cli.report.runs import floor, warning, write_report
from afterfit._cli.report.sweeps import write_sweep_report

__all__ = ["floor", "warning", "write_report", "write_sweep_report"]
