"""The training state of a sharded run: every process writes its part, and any number of processes reads what it needs.

torch's distributed checkpoint cuts and joins the tensors; the files are safetensors, which hold data only. state.json
is written last: it has a digest of every file, for nothing else would notice a flipped bit.
"""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelerate.utils import gather_object
from torch import Tensor
from torch.distributed import is_initialized
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load as load_parts
from torch.distributed.checkpoint.state_dict_saver import save as save_parts

from worldline import files
from worldline.paw.processes import everywhere
from worldline.types import InputError

_INDEX = "state.json"
_OPTIONS = StateDictOptions(ignore_frozen_params=True, strict=False, flatten_optimizer_state_dict=True)
"""Of what is trained only: the rest is in the start model."""


def safetensors_storage() -> Any:
    """torch's module for shards in safetensors; InputError where torch is too old to have it."""
    try:
        from torch.distributed.checkpoint import hf_storage
    except ImportError:
        raise InputError("accelerate: FSDP: checkpoints of sharded weights need torch 2.9 or newer") from None
    return hf_storage


def save(folder: Path, update: int, learner: Any, optimizer: Any, accelerator: Any) -> None:
    """Write the state after `update` updates into a folder that is being made. Every process must call this."""
    weights, moments = get_state_dict(learner, optimizer, options=_OPTIONS)
    writer = safetensors_storage().HuggingFaceStorageWriter(str(folder), save_distributed=True)
    with _quiet():
        save_parts(_tensors(learner, weights, moments), storage_writer=writer, no_dist=not is_initialized())
    accelerator.wait_for_everyone()  # all files are there
    digests = gather_object([_digests(folder, accelerator)])
    if accelerator.is_main_process:
        listed = {name: digest for part in digests for name, digest in part.items()}
        files.write_json(folder / _INDEX, {"update": update, "files": listed})


def load(folder: Path, learner: Any, optimizer: Any, accelerator: Any) -> int:
    """Take over the state in `folder`, whatever number of processes wrote it; the number of updates it had seen."""
    try:
        index = json.loads((folder / _INDEX).read_text(encoding="utf-8"))
        update, listed = int(index["update"]), dict(index["files"])
        own = _digests(folder, accelerator)
        whole = all(listed.get(name) == digest for name, digest in own.items()) and _names(folder) == sorted(listed)
    except (OSError, ValueError, KeyError, TypeError):
        update, whole = 0, False
    if not everywhere(whole, accelerator):
        raise InputError(f"{folder}: no training state to go on from: cut short or corrupt: --overwrite starts anew")
    weights, moments = get_state_dict(learner, optimizer, options=_OPTIONS)
    reader = safetensors_storage().HuggingFaceStorageReader(str(folder))
    tensors = _tensors(learner, weights, moments)
    with _quiet():
        load_parts(tensors, storage_reader=reader, no_dist=not is_initialized())  # in place
    set_state_dict(learner, optimizer, model_state_dict=weights, optim_state_dict=moments, options=_OPTIONS)
    return update


@contextmanager
def _quiet() -> Iterator[None]:
    """Without torch's warning that a single process is a single process."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")
        yield


def _tensors(learner: Any, weights: dict[str, Any], moments: dict[str, Any]) -> dict[str, Tensor]:
    """What a checkpoint must hold, each tensor once: a tied weight has two names, the settings are in config.json."""
    every, first = ({_plain(name) for name, _ in learner.named_parameters(remove_duplicate=k)} for k in (False, True))
    kept = {f"weights.{name}": weight for name, weight in weights.items() if name not in every - first}
    return kept | {f"optimizer.{name}": value for name, value in moments.items() if isinstance(value, Tensor)}


def _plain(name: str) -> str:
    """A weight's name without those of the wrappers around its modules."""
    return name.removeprefix("module.").replace("_checkpoint_wrapped_module.", "")


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.safetensors"))


def _digests(folder: Path, accelerator: Any) -> dict[str, str]:
    """Of this process's share of the files."""
    share = _names(folder)[accelerator.process_index :: accelerator.num_processes]
    return {name: files.digest([folder / name]) for name in share}
