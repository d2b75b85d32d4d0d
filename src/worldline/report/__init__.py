"""`worldline report`: an evaluation, a run, a world model, a log, or a folder of these, as one HTML file.

The file holds everything it needs, runs no script, asks no network, and prints. Imports no torch.

from worldline.report import write_report

write_report("demo")    # -> demo/report.html
"""

import sys

from worldline.callable_module import CallableModule
from worldline.report.page import Report, compose, render, write_report
from worldline.report.source import ReportSource, find

__all__ = ["Report", "ReportSource", "compose", "find", "render", "write_report"]


sys.modules[__name__].__class__ = CallableModule  # worldline.report(...)
