"""`worldline compare`: logged policies against each other, from their episodes alone.

import worldline

comparison = worldline.compare(["logs/"], policies=["v2", "v3"], by="split")
print(comparison.answer)
print(comparison.pair("v3").difference)
"""

from worldline.comparison.compare import CompareConfig, compare
from worldline.comparison.result import LogComparison, Pair, PairedDifferenceResult, read_comparison
from worldline.comparison.table import views

__all__ = ["CompareConfig", "LogComparison", "Pair", "PairedDifferenceResult", "compare", "read_comparison", "views"]
