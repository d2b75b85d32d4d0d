"""Which checkpoint a user means, a folder here or a model of the hub; whether it is still the same; how one is saved.

What is no checkpoint is refused in one line before anything is loaded.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
)
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worldline import files
from worldline.nearby import nearby
from worldline.policies.language_model.encoding import Encoder
from worldline.policies.prompts import TEMPLATES
from worldline.types import InputError

DATA_ONLY = {"trust_remote_code": False, "use_safetensors": True}
"""How transformers loads a checkpoint: it runs no code of the folder's own and unpickles no weights."""
_READ = {".json", ".safetensors", ".bin", ".model", ".txt", ".jinja"}
"""How the files end that transformers loads: others in the folder, such as a training state, change nothing."""


class TrainedWith(BaseModel):
    """What `sft` trained a checkpoint with: the entry `worldline` of its config.json, so that acting reads alike."""

    model_config = ConfigDict(frozen=True, strict=True)

    prompt: Literal["transcript", "plain", "paper", "react"] | None = None
    history: Annotated[int, Field(ge=0)] | Literal["all"] | None = None
    outcome: bool = False

    @classmethod
    def of(cls, model: Any, name: str) -> "TrainedWith":
        """That of a loaded model, empty where there is no such entry; errors call the model `name`."""
        try:
            return cls.model_validate(getattr(model.config, "worldline", None) or {})
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            entry = ".".join(["worldline", *(str(part) for part in first["loc"][:1])])
            raise InputError(f"{name}: config.json: {entry}: {first['msg']}: mend or delete it") from None


def locate(path: str, written: str) -> str:
    """The folder or hub name that transformers loads for `path`; errors name it as `written` (`--model PATH`)."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        if (inside := _model_inside(folder)) is not None:
            raise InputError(f"{written}: is a run folder: give {written.rstrip('/')}/{inside}")
        if not (folder / "config.json").is_file():
            raise InputError(f"{written}: not a model: the folder has no config.json")
        return str(folder)
    if folder.exists() or path.count("/") > 1 or path.startswith((".", "/", "~")):
        raise InputError(f"{written}: no such folder{nearby(folder)}")
    try:
        cached = try_to_load_from_cache(path, "config.json")
    except HFValidationError:  # no name the hub would give
        raise InputError(f"{written}: no such folder{nearby(folder)}") from None
    if not isinstance(cached, str):
        _ask_hub(path, written)
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
    """Write what transformers loads into a folder that is being made.

    A model trained on transcripts ends an action with a line break, which plain `generate` learns from the folder's
    generation config.
    """
    if TrainedWith.of(model, str(folder)).prompt == "transcript" and model.generation_config is not None:
        model.generation_config.eos_token_id = sorted(Encoder(tokenizer, TEMPLATES["transcript"]).stops())
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except Exception as error:
        if "(os error " not in str(error):  # how the libraries written in Rust tell of a full disk
            raise
        raise OSError(str(error)) from error


def _model_inside(folder: Path) -> Path | None:
    """Where a run folder has its newest model, as `sft` and `train` write it; None for any other folder.

    A run folder has a config.json too, that of the run, but no weights.
    """
    if any(folder.glob("*.safetensors")):
        return None
    trained = sorted(folder.glob("checkpoints/update-*/config.json"))
    models = [config.parent for config in (folder / "model" / "config.json", *trained[-1:]) if config.is_file()]
    return models[0].relative_to(folder) if models else None


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
