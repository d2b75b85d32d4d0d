"""The folder of a training run: config.json, env.json, metrics.jsonl, log/ and checkpoints/.

A checkpoint is a folder that transformers loads; it gets its name only when it is whole. The newest also holds what
resuming needs. Resuming takes everything back to it: later metrics and episodes are thrown away and made again.
"""

import json
import platform
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from worldline import __version__, store
from worldline.config import Config
from worldline.paw.actor import Actor
from worldline.paw.groups import episode_prefix
from worldline.run_folder import emptied, going_on
from worldline.types import Trajectory

STATE = "training_state.pt"
PACKAGES = ("torch", "transformers", "accelerate", "peft")


class RunFolder:
    """The main process writes; all wait for it where they will read."""

    def __init__(self, config: Config, folder: Path, *, resume: bool, overwrite: bool, adjustable: set[str]) -> None:
        """Refuses what `going_on` refuses. Nothing is touched before `open`."""
        self.folder = folder
        self._settings = config.model_dump(mode="json")
        goes_on = going_on(config, folder, "run", resume=resume, overwrite=overwrite, adjustable=adjustable)
        self._replaces = not goes_on

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.jsonl"

    def open(self, accelerator: Any) -> None:
        """Take the folder for this run."""
        self.main: bool = accelerator.is_main_process
        self._wait = accelerator.wait_for_everyone
        self._wait()  # all ranks have seen the folder as it was
        if self.main:
            if self._replaces:
                emptied(self.folder)
            for name, content in (("config.json", self._settings), ("env.json", _environment())):
                (self.folder / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
        self._wait()

    def keep(self, trajectories: Sequence[Trajectory]) -> None:
        """Add the episodes of one update to the log, in shards of their own."""
        if self.main:
            with store.StoreWriter(self.log) as writer:
                for trajectory in trajectories:
                    writer.append(trajectory)

    def write(self, metrics: dict[str, Any]) -> None:
        """Append one line of metrics."""
        if self.main:
            with self.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps(metrics) + "\n")

    def checkpoints(self) -> list[Path]:
        """Whole checkpoints, oldest first."""
        return sorted((self.folder / "checkpoints").glob("update-*"))

    def save(self, update: int, learner: Any, optimizer: Any, actor: Actor, tokenizer: Any) -> Path:
        """A checkpoint after `update` updates. Every rank must call this: sharded state is gathered."""
        target = self.folder / "checkpoints" / f"update-{update:06d}"
        weights, moments = get_state_dict(learner, _bare(optimizer), options=_options())
        if self.main:
            partial = target.with_name(f".{target.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            actor.save(partial)
            tokenizer.save_pretrained(partial)
            torch.save({"update": update, "weights": weights, "optimizer": moments}, partial / STATE)
            shutil.rmtree(target, ignore_errors=True)
            partial.replace(target)
            for older in self.checkpoints()[:-1]:
                (older / STATE).unlink(missing_ok=True)
        self._wait()
        return target

    def restore(self, learner: Any, optimizer: Any) -> int:
        """Go back to the newest checkpoint; the number of updates it had seen, 0 if there is none."""
        found = [folder for folder in self.checkpoints() if (folder / STATE).exists()]
        update = 0
        if found:
            state = torch.load(found[-1] / STATE, map_location="cpu", weights_only=True)
            update = int(state["update"])
            set_state_dict(
                learner,
                _bare(optimizer),
                model_state_dict=state["weights"],
                optim_state_dict=state["optimizer"],
                options=_options(),
            )
        if self.main:
            self._forget(update)
        self._wait()
        return update

    def _forget(self, update: int) -> None:
        """Throw away the metrics and training episodes of later updates."""
        if self.metrics.exists():
            lines = self.metrics.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if update and _number(line) <= update]
            self.metrics.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        if self.log.exists():
            for shard in store.shards(self.log):
                if any(name >= episode_prefix(update + 1) for name in store.ids(shard)):
                    shard.unlink()


def _number(line: str) -> float:
    """The update a line of metrics is about; a line that was cut short by a crash is about none."""
    try:
        return float(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _bare(optimizer: Any) -> Any:
    """The torch optimizer under accelerate's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)


def _options() -> StateDictOptions:
    """Whole tensors on the CPU, of what is trained only: the rest is in the start model."""
    return StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True, strict=False)


def _environment() -> dict[str, Any]:
    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "python": platform.python_version(),
        "devices": devices or ["cpu"],
        "packages": {"worldline": __version__} | {name: version(name) for name in PACKAGES},
    }
