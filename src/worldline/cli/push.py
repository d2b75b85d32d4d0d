"""`worldline push`: a log or a world model to the Hugging Face Hub, with a card."""

from pathlib import Path
from typing import ClassVar

from worldline.cli.verb_result import VerbResult
from worldline.config import Config, option, positional
from worldline.hub import push_to_hub


class PushConfig(Config):
    """Put a log or a world model into a new repository of the Hugging Face Hub.

    A log becomes a dataset, a world model a model. The card is made from the folder: size, environments, policies,
    figures. It is private, and nothing is overwritten. `hf auth login` says who you are; $HF_ENDPOINT is another hub.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline push logs/ me/household-log",
        "worldline push wm/ me/household-wm --public --licence apache-2.0",
    )

    folder: Path = positional(help="a log or a world model")
    repo: str = positional(help="OWNER/NAME of the new repository")
    public: bool = option(False, help="everybody may read it: texts of a log too")
    licence: str | None = option(None, help="its licence, as the hub names it (mit, apache-2.0, cc-by-4.0, ...)")


Settings = PushConfig


def run(settings: PushConfig) -> VerbResult:
    pushed = push_to_hub(settings.folder, settings.repo, public=settings.public, licence=settings.licence)
    data = {"url": pushed.url, "kind": pushed.kind, "files": pushed.files, "private": pushed.private}
    who = "private" if pushed.private else "public"
    return VerbResult(data, (f"{pushed.kind}, {pushed.files} files -> {pushed.url} ({who})",))
