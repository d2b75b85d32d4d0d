"""`worldline compare`: is one logged policy better than another, from their episodes alone."""

from worldline.cli.verb_result import VerbResult
from worldline.comparison import CompareConfig, views
from worldline.comparison import compare as judge

Settings = CompareConfig


def run(settings: CompareConfig) -> VerbResult:
    comparison = judge(settings)
    return VerbResult(comparison.as_dict(), tuple(views(comparison, settings.out)))
