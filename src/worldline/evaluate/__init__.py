"""Offline evaluation of policies from a log: `worldline evaluate`, and `worldline.evaluate(...)` from Python.

import worldline

result = worldline.evaluate(log=["logs/"], policy=["new=hf:runs/new/model", "old=hf:runs/old/model"], epsilon=[0, 0.2])
print(result.value("new", "dr"))
print(result.recommended or result.meta.no_recommendation)
"""

import sys

from worldline.callable_module import CallableModule
from worldline.evaluate.candidates import Candidate, Watch
from worldline.evaluate.evaluation import Extra, evaluate
from worldline.evaluate.result import Evaluation, Recommendation, read_evaluation
from worldline.evaluate.result_parts import Estimate, PolicyResult
from worldline.evaluate.settings import EvaluateConfig
from worldline.evaluate.table import views

__all__ = [
    "Candidate",
    "Estimate",
    "EvaluateConfig",
    "Evaluation",
    "Extra",
    "PolicyResult",
    "Recommendation",
    "Watch",
    "evaluate",
    "read_evaluation",
    "views",
]


sys.modules[__name__].__class__ = CallableModule  # worldline.evaluate(...)
