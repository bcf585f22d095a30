"""Reports: self-contained HTML pages about runs and sweeps."""

from __future__ import annotations

from afterfit.report.page import picture_bytes, to_toml
from afterfit.report.runs import floor, warning, write_report
from afterfit.report.sweeps import write_sweep_report

__all__ = ["floor", "picture_bytes", "to_toml", "warning", "write_report", "write_sweep_report"]
