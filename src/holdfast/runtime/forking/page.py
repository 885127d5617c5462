from __future__ import annotations
from holdfast.runtime.forking.report import Report
def page_of(report: Report) -> str:
    return ""
