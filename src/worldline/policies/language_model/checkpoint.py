"""Which checkpoint a path names: a local folder or a model on the hub. A wrong path fails before anything loads."""

from pathlib import Path

from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
)

from worldline.types import InputError


def locate(path: str, written: str) -> str:
    """The folder or hub name that transformers loads for `path`; errors name it as `written` (`--model PATH`)."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"{written}: {_instead(folder, written.rstrip('/'))}")
        return str(folder)
    if folder.exists() or path.count("/") > 1 or path.startswith((".", "/", "~")):
        raise InputError(f"{written}: no such folder")
    try:
        cached = try_to_load_from_cache(path, "config.json")
    except HFValidationError:  # no name the hub would give
        raise InputError(f"{written}: no such folder") from None
    if not isinstance(cached, str):
        _ask_hub(path, written)
    return path


def _instead(folder: Path, written: str) -> str:
    """The message for a folder without config.json: `sft` and `train` keep their models one or two levels down."""
    trained = sorted(folder.glob("checkpoints/update-*/config.json"))
    for config in (folder / "model" / "config.json", *trained[-1:]):
        if config.is_file():
            return f"is a run folder: give {written}/{config.parent.relative_to(folder)}"
    return "not a model: the folder has no config.json"


def _ask_hub(path: str, written: str) -> None:
    """One quick request: transformers would retry for a minute before it reports a wrong name."""
    try:
        get_hf_file_metadata(hf_hub_url(path, "config.json"))
    except (GatedRepoError, EntryNotFoundError):
        return  # transformers gives the reason and what to do
    except RepositoryNotFoundError:
        raise InputError(f"{written}: no such folder here, and no such model on the hub, or a private one") from None
    except HfHubHTTPError:
        return  # a busy hub: transformers retries
    except Exception:  # the hub's client lets errors of its HTTP library through
        raise InputError(f"{written}: no such folder here, and the hub cannot be reached (offline?)") from None
