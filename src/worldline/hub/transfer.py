"""Push a folder to the Hugging Face Hub, pull one from it; a log is a dataset there, a world model a model.

What goes and what comes is what the readers read, file by file: Parquet, JSON, safetensors and a card. Settings and
digests stay, since they name folders of this machine. What else a repository holds is not downloaded, and what is
pulled is checked before it gets its name. Nothing is replaced, here or there. Left out: branches, changes to what is
there, logs too large for one commit.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError
from safetensors import SafetensorError, safe_open

from worldline import files, store
from worldline.hub.card import FIGURES, log_card, model_card
from worldline.types import InputError, WorldlineError

Kind = Literal["log", "world-model"]
_TYPES: dict[Kind, str] = {"log": "dataset", "world-model": "model"}
_NAME = r"[\w-][\w.-]*"
_ALLOWED: dict[Kind, re.Pattern[str]] = {
    "log": re.compile(rf"README\.md|log/{_NAME}\.parquet"),
    "world-model": re.compile(
        rf"README\.md|(figures|horizon|kernel|sample)\.json|metrics\.jsonl|log/{_NAME}\.parquet|kernel/{_NAME}\.safetensors|"
        rf"member-\d+/({_NAME}\.safetensors|(config|measured)\.json|README\.md)"
    ),
}
"""The files of each kind, by their paths: there is no code among them and no pickle."""


@dataclass(frozen=True)
class Pushed:
    """Where a folder is now."""

    url: str
    kind: Kind
    files: int
    private: bool


@dataclass(frozen=True)
class Pulled:
    """What came, and what a repository holds besides."""

    folder: Path
    kind: Kind
    files: int
    left: tuple[str, ...]


def push_to_hub(
    folder: Path | str,
    repo: str,
    *,
    public: bool = False,
    licence: str | None = None,
    endpoint: str | None = None,
) -> Pushed:
    """Put a log or a world model into a new repository, with a card; private unless it is to be public."""
    source = Path(folder)
    kind = kind_of(source)
    card = (log_card if kind == "log" else model_card)(source, repo, licence)
    content = {"README.md": card.encode()} | _content(source, kind)
    operations = [CommitOperationAdd(path, data) for path, data in content.items()]
    api, repo_type = HfApi(endpoint=endpoint), _TYPES[kind]
    with _hub_errors(repo):
        url = _new_repository(api, repo, repo_type, public=public)
        api.create_commit(repo, operations, commit_message=f"worldline {kind}", repo_type=repo_type)
    return Pushed(url, kind, len(content), not public)


def from_hub(repo: str, out: Path | str, *, kind: Kind | None = None, endpoint: str | None = None) -> Pulled:
    """Download a log or a world model into a new folder; it is there whole and checked, or not at all."""
    target = Path(out)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target}: is there already: name another folder")
    api = HfApi(endpoint=endpoint)
    with _hub_errors(repo):
        kind = kind or _kind_there(api, repo)
        there = api.list_repo_files(repo, repo_type=_TYPES[kind])
    wanted = [path for path in there if _ALLOWED[kind].fullmatch(path)]
    if not any(path.startswith("log/") for path in wanted):
        raise InputError(f"{repo}: holds no {kind} of worldline: there is no log/*.parquet in it")
    with files.replacing(target) as partial:
        with _hub_errors(repo):
            api.snapshot_download(repo, repo_type=_TYPES[kind], local_dir=partial, allow_patterns=wanted)
        shutil.rmtree(partial / ".cache", ignore_errors=True)
        _check(partial, kind, repo)
    left = tuple(sorted(set(there) - set(wanted) - {".gitattributes"}))
    return Pulled(target, kind, len(wanted), left)


def kind_of(folder: Path) -> Kind:
    """What a folder holds; InputError where it is neither."""
    if (folder / "kernel").is_dir():
        return "world-model"
    if not store.shards(folder):
        raise InputError(f"{folder}: neither a log nor a world model: give a folder that collect, import or fit made")
    return "log"


def _content(folder: Path, kind: Kind) -> dict[str, Path]:
    """The files that go, by their paths there."""
    if kind == "log":
        return {f"log/{path.name}": path for path in store.shards(folder)}
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: path for name, path in paths.items() if _ALLOWED[kind].fullmatch(name) and name != "README.md"}


def _new_repository(api: HfApi, repo: str, repo_type: str, *, public: bool) -> str:
    """Its address. One that is there is taken if a push that failed left it empty."""
    try:
        return str(api.create_repo(repo, repo_type=repo_type, private=not public))
    except HfHubHTTPError as error:
        if error.response.status_code != 409:
            raise
    if set(api.list_repo_files(repo, repo_type=repo_type)) - {".gitattributes"}:
        raise InputError(f"{repo}: is there already, and nothing is overwritten: name another repository")
    return str(api.create_repo(repo, repo_type=repo_type, private=not public, exist_ok=True))


def _kind_there(api: HfApi, repo: str) -> Kind:
    kinds = [kind for kind, repo_type in _TYPES.items() if api.repo_exists(repo, repo_type=repo_type)]
    if len(kinds) > 1:
        raise InputError(f"{repo}: there is a dataset and a model of this name: --kind log or --kind world-model")
    if not kinds:
        raise InputError(f"{repo}: no such repository, or it is private and you are not logged in (hf auth login)")
    return kinds[0]


def _check(folder: Path, kind: Kind, repo: str) -> None:
    """Shards are whole and ours; the files of a world model can be opened."""
    try:
        store.row_groups(folder / "log")
        if kind == "world-model":
            if not (folder / FIGURES).is_file() or not (folder / "kernel").is_dir():
                raise InputError(f"a world model has {FIGURES} and a folder 'kernel'")
            for path in folder.rglob("*.safetensors"):
                with safe_open(path, framework="numpy"):
                    pass
    except (InputError, SafetensorError) as error:
        reason = str(error).replace(f"{folder}/", "")
        raise InputError(f"{repo}: what it holds is broken, and nothing was kept: {reason}") from None


@contextmanager
def _hub_errors(repo: str) -> Iterator[None]:
    """What the hub or the network refuses, as one line."""
    try:
        yield
    except HFValidationError as error:
        raise InputError(f"{repo}: no name of a repository (OWNER/NAME): {_line(error)}") from None
    except RepositoryNotFoundError:
        raise InputError(f"{repo}: no such repository, or you may not use it: log in with hf auth login") from None
    except (HfHubHTTPError, LocalEntryNotFoundError) as error:
        raise WorldlineError(f"{repo}: the hub refused: {_line(error)}") from None
    except Exception as error:
        if not (isinstance(error, OSError) or _is_of_transport(error)):
            raise
        raise WorldlineError(f"{repo}: the hub cannot be reached: {_line(error)}") from None


def _is_of_transport(error: Exception) -> bool:
    """By its name: versions of huggingface_hub speak HTTP through different packages."""
    return any(kind.__name__ == "TransportError" for kind in type(error).__mro__)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
