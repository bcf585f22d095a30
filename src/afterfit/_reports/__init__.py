"""Reports: self-contained HTML pages about runs and sweeps."""

from __future__ import annotations

from afterfit._reports.runs import floor, warning, write_report
from afterfit._reports.write import report

__all__ = ["floor", "report", "warning", "write_report"]
