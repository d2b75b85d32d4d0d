"""`worldline compare`: is one logged policy better than another, from their episodes alone."""

from worldline.cli.verb_result import Verbatim, VerbResult, visible
from worldline.comparison import CompareConfig, views
from worldline.comparison import compare as judge

Settings = CompareConfig


def run(settings: CompareConfig) -> VerbResult:
    comparison = judge(settings)
    view = tuple(views(comparison, settings.out))
    if settings.out is not None:
        view += (Verbatim(visible(f"all of it: {settings.out / 'comparison.json'}\n")),)
    return VerbResult(comparison.as_dict(), view)
