"""Offline evaluation of policies from a log: `worldline evaluate`, and `worldline.evaluate(...)` from Python.

import worldline

result = worldline.evaluate(log=["logs/"], policy=["new=hf:runs/new/model", "old=hf:runs/old/model"], epsilon=[0, 0.2])
print(result.value("new", "dr"))
print(result.recommended or result.meta.no_recommendation)
"""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from worldline.config import validate
from worldline.evaluate.candidates import Candidate, Watch
from worldline.evaluate.evaluation import Extra, evaluate
from worldline.evaluate.result import Estimate, Evaluation, PolicyResult, Recommendation, read_evaluation
from worldline.evaluate.settings import EvaluateConfig
from worldline.evaluate.table import views
from worldline.policies import PolicySource
from worldline.types import Policy

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


class _CallableModule(ModuleType):
    """Python binds a package's name to the module as soon as it is imported; so the module is the function, too."""

    def __call__(
        self,
        candidates: Mapping[str, Policy | PolicySource] | None = None,
        extra: Extra | None = None,
        loggers: Mapping[str, Policy | PolicySource] | None = None,
        **settings: Any,
    ) -> Evaluation:
        """Evaluate with the settings of `EvaluateConfig`; `candidates` and `loggers` are objects, by name."""
        return evaluate(validate(EvaluateConfig, settings), candidates, extra, loggers=loggers)


sys.modules[__name__].__class__ = _CallableModule
