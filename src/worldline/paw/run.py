"""The folder of a training run: config.json, inputs.json, env.json, metrics.jsonl, log/ and checkpoints/.

A checkpoint is a folder that transformers loads; it gets its name only when it is whole. The newest also holds what
resuming needs, on any number of ranks. Resuming takes everything back to it: later metrics and episodes are thrown away
and made again. Many machines share the folder.
"""

import json
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from worldline import __version__, envs, files, metrics, store, training_state
from worldline.paw import shards
from worldline.paw.actor import Actor
from worldline.paw.groups import episode_prefix
from worldline.paw.model import quiet
from worldline.paw.processes import is_sharded
from worldline.paw.recipe import TrainConfig
from worldline.policies.language_model.checkpoint import fingerprint, locate
from worldline.policies.language_model.checkpoint import save as save_checkpoint
from worldline.run_folder import Run
from worldline.types import Trajectory

STATE, SHARDS = "training_state.pt", "training_state"
"""A file where one process held all the weights, a folder where each held a part."""
PACKAGES = ("torch", "transformers", "accelerate", "peft")


ADJUSTABLE = {
    *("resume", "overwrite", "out", "updates", "checkpoint_every", "keep_checkpoints", "track", "server"),
    *("most_halted", "batch_size", "rollout.cache_gib", "rollout.batch_tokens", "update.batch_tokens"),
}
"""Settings that a resumed run may be given anew: how long it is, what is kept, and what the memory has room for."""


class RunFolder:
    """The main process writes; all wait for it where they will read."""

    def __init__(self, config: TrainConfig) -> None:
        """Refuses what `Run.goes_on` refuses. Nothing is touched before `open`."""
        self.folder = config.out
        self._keep = config.keep_checkpoints
        self.notes: tuple[str, ...] = ()
        """What was wrong in the folder of a resumed run."""
        inputs = {config.model: fingerprint(locate(config.model, f"--model {config.model}"))}
        if digest := envs.world_model_digest(config.env):
            inputs[config.env] = digest
        self._run = Run(config, "training run", ADJUSTABLE, inputs)
        self._run.goes_on()

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    @contextmanager
    def open(self, accelerator: Any) -> Iterator[None]:
        """Hold the folder for this run."""
        self.main: bool = accelerator.is_main_process
        self._accelerator = accelerator
        self._wait = accelerator.wait_for_everyone
        if is_sharded(accelerator):
            shards.safetensors_storage()  # or this is refused
        self._wait()  # all ranks have seen the folder as it was
        with self._run.opened() if self.main else nullcontext():
            if self.main:
                files.write_json(self.folder / "env.json", _environment(accelerator))
            self._wait()
            yield

    def keep(self, trajectories: Sequence[Trajectory]) -> None:
        """Add the episodes of one update to the log, in shards of their own."""
        if self.main:
            with store.StoreWriter(self.log) as writer:
                for trajectory in trajectories:
                    writer.append(trajectory)

    def write(self, row: dict[str, Any]) -> None:
        """Append one line of metrics."""
        if self.main:
            metrics.append(self.metrics, row)

    def last_metrics(self) -> dict[str, Any]:
        """The newest line of metrics; none where there is none."""
        lines = files.read_lines(self.metrics).whole
        return dict(json.loads(lines[-1])) if lines else {}

    def all_metrics(self) -> list[dict[str, Any]]:
        """Every line of metrics, also of the updates before the run was resumed."""
        return [dict(json.loads(line)) for line in files.read_lines(self.metrics).whole]

    def checkpoints(self) -> list[Path]:
        """Whole checkpoints, oldest first."""
        return sorted((self.folder / "checkpoints").glob("update-*"))

    def last_whole(self) -> str:
        """What a run that stops leaves to go on from, in words."""
        checkpoints = self.checkpoints()
        return f"{checkpoints[-1]} is whole" if checkpoints else "there is no checkpoint yet"

    def resumable(self) -> list[Path]:
        """The checkpoints that hold what resuming needs, oldest first."""
        return [folder for folder in self.checkpoints() if any((folder / name).exists() for name in (STATE, SHARDS))]

    @property
    def newest_update(self) -> int:
        """The update of the checkpoint that `restore` goes back to; 0 where there is none."""
        numbers = [folder.name.rpartition("-")[2] for folder in self.resumable()]
        return int(numbers[-1]) if numbers and numbers[-1].isdigit() else 0

    def save(self, update: int, learner: Any, optimizer: Any, actor: Actor, tokenizer: Any) -> Path:
        """A checkpoint after `update` updates. Every rank must call this: each writes its shard of the state."""
        target = self.folder / "checkpoints" / f"update-{update:06d}"
        sharded = is_sharded(self._accelerator)
        weights, moments = ({}, {}) if sharded else get_state_dict(learner, _bare(optimizer), options=_options())
        weights = {name: weight for name, weight in weights.items() if ".weight." not in name}  # how it is quantised
        with self._replacing(target) as partial:
            if self.main:
                with quiet():
                    save_checkpoint(actor.plain(), tokenizer, partial)
            if sharded:
                self._wait()
                shards.save(partial / SHARDS, update, learner, _bare(optimizer), self._accelerator)
            elif self.main:
                training_state.save(partial / STATE, {"update": update, "weights": weights, "optimizer": moments})
        if self.main:
            self._keep_newest_state()
            self._prune()
        self._wait()
        return target

    def restore(self, learner: Any, optimizer: Any) -> int:
        """Go back to the newest checkpoint; the number of updates it had seen, 0 if there is none.

        The state may have been written by any number of ranks.
        """
        resumable = self.resumable()
        update = 0
        if resumable and (resumable[-1] / SHARDS).exists():
            update = shards.load(resumable[-1] / SHARDS, learner, _bare(optimizer), self._accelerator)
        elif resumable:
            state = training_state.load(resumable[-1] / STATE)
            update = int(state["update"])
            set_state_dict(
                learner,
                _bare(optimizer),
                model_state_dict=state["weights"],
                optim_state_dict=state["optimizer"],
                options=_options(),
            )
        self._wait()  # all ranks have read the state
        if self.main:
            self._keep_newest_state()
            self._forget(update)
        self._wait()
        return update

    @contextmanager
    def _replacing(self, target: Path) -> Iterator[Path]:
        """The path that the main process replaces `target` by when all ranks have written to it."""
        with files.replacing(target) if self.main else nullcontext(target) as path:
            (partial,) = broadcast_object_list([path])
            yield partial
            self._wait()

    def _prune(self) -> None:
        """Delete the oldest checkpoints beyond the number to keep."""
        for older in self.checkpoints()[: -self._keep] if self._keep else ():
            files.delete(older)

    def _keep_newest_state(self) -> None:
        """An older checkpoint is for playing only."""
        for older in self.checkpoints()[:-1]:
            files.delete(older / STATE)
            files.delete(older / SHARDS)

    def _forget(self, update: int) -> None:
        """Throw away the metrics and training episodes of later updates; of a run before its first, all metrics."""
        self.notes = metrics.cut_back(self.metrics, "update", update if update else -1)
        for shard in store.shards(self.log):
            if any(name >= episode_prefix(update + 1) for name in store.ids(shard)):
                files.delete(shard)


def _bare(optimizer: Any) -> Any:
    """The torch optimizer under accelerate's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)


def _options() -> StateDictOptions:
    """Whole tensors on the CPU, of what is trained only: the rest is in the start model."""
    return StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True, strict=False)


def _environment(accelerator: Any) -> dict[str, Any]:
    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "python": platform.python_version(),
        "devices": devices or ["cpu"],
        "processes": accelerator.num_processes,
        "sharded": is_sharded(accelerator),
        "packages": {"worldline": __version__} | {name: version(name) for name in PACKAGES if find_spec(name)},
    }
