"""Which checkpoint a user means: a folder here or a model of the hub, refused in one line before anything is loaded."""

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

DATA_ONLY = {"trust_remote_code": False, "use_safetensors": True}
"""How transformers loads a checkpoint: it runs no code of the folder's own and unpickles no weights."""


def locate(path: str, said: str) -> str:
    """What transformers is to load for `path`. `said` is how the user wrote it, `hf:PATH` or `--model PATH`."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"{said}: {_instead(folder, said.rstrip('/'))}")
        return str(folder)
    if folder.exists() or path.count("/") > 1 or path.startswith((".", "/", "~")):
        raise InputError(f"{said}: no such folder")
    try:
        cached = try_to_load_from_cache(path, "config.json")
    except HFValidationError:  # no name the hub would give
        raise InputError(f"{said}: no such folder") from None
    if not isinstance(cached, str):
        _ask_hub(path, said)
    return path


def _instead(folder: Path, said: str) -> str:
    """What is wrong with a folder without config.json: `sft` and `train` keep their models one or two levels down."""
    trained = sorted(folder.glob("checkpoints/update-*/config.json"))
    for config in (folder / "model" / "config.json", *trained[-1:]):
        if config.is_file():
            return f"is a run folder: give {said}/{config.parent.relative_to(folder)}"
    return "not a model: the folder has no config.json"


def _ask_hub(path: str, said: str) -> None:
    """One quick question, as transformers itself would try for a minute before it says that a name is wrong."""
    try:
        get_hf_file_metadata(hf_hub_url(path, "config.json"))
    except (GatedRepoError, EntryNotFoundError):
        return  # transformers says what is to be done
    except RepositoryNotFoundError:
        raise InputError(f"{said}: no such folder here, and no such model on the hub, or a private one") from None
    except HfHubHTTPError:
        return  # a busy hub: transformers asks again
    except Exception:  # the hub's client lets the errors of whichever HTTP library it uses through
        raise InputError(f"{said}: no such folder here, and not to be had from the hub (offline?)") from None
