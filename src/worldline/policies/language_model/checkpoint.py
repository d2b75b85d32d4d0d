"""Which checkpoint a user means, a folder here or a model of the hub; whether it is still the same; how one is saved.

What is no checkpoint is refused in one line before anything is loaded.
"""

from pathlib import Path
from typing import Any

from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
)

from worldline import files
from worldline.types import InputError

_READ = {".json", ".safetensors", ".bin", ".model", ".txt", ".jinja"}
"""How the files end that transformers loads: others in the folder, such as a training state, change nothing."""


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


def fingerprint(path: str) -> str:
    """What a located checkpoint is: a digest of its files, or the commit of a hub model. Other weights, another one."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        return files.digest(file for file in folder.iterdir() if file.suffix in _READ)
    try:
        commit = get_hf_file_metadata(hf_hub_url(path, "config.json")).commit_hash
    except Exception:  # of any HTTP library; offline, transformers takes what is in the cache
        cached = try_to_load_from_cache(path, "config.json")
        commit = Path(cached).parent.name if isinstance(cached, str) else None
    return commit or path


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write what transformers loads into a folder that is being made."""
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except Exception as error:
        if "(os error " not in str(error):  # how the libraries written in Rust tell of a full disk
            raise
        raise OSError(str(error)) from error


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
