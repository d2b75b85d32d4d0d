"""`worldline pull`: a log or a world model from the Hugging Face Hub."""

from typing import ClassVar, Literal

from worldline.cli.verb_result import VerbResult, note
from worldline.config import Config, Folder, option, positional
from worldline.hub import from_hub


class PullConfig(Config):
    """Download a log or a world model that `worldline push` put on the Hugging Face Hub into a new folder.

    Only files that a log or a world model has are downloaded, and they are checked: Parquet, JSON, safetensors. None of
    them is code. `hf auth login` says who you are; $HF_ENDPOINT is another hub.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline pull me/household-log logs/",
        "worldline pull me/household-wm wm/ --kind world-model",
    )

    repo: str = positional(help="OWNER/NAME of the repository")
    out: Folder = positional(help="the folder, new or empty")
    kind: Literal["auto", "log", "world-model"] = option("auto", help="auto: whichever of the two is there")


Settings = PullConfig


def run(settings: PullConfig) -> VerbResult:
    pulled = from_hub(settings.repo, settings.out, kind=None if settings.kind == "auto" else settings.kind)
    if pulled.left:
        note(f"{len(pulled.left)} other files of the repository were not downloaded: {', '.join(pulled.left[:5])}")
    data = {"folder": str(pulled.folder), "kind": pulled.kind, "files": pulled.files, "left": list(pulled.left)}
    return VerbResult(data, (f"{pulled.kind}, {pulled.files} files -> {pulled.folder}",))
