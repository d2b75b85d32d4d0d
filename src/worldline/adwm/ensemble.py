"""A fitted world model: the kernel model of a log, and members that saw different tasks.

Each member is a network with a decoder over the kernel's candidates. Members hold out different tasks, so that every
logged task can be judged by one that has not been trained on it, and their disagreement is part of every interval. On
disk: the log itself (candidates are its texts) or the sample that the kernel model has of a large one, the kernel
model, one folder per member, and a card.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from worldline import files, store
from worldline.adwm.decoder import LatentDecoder
from worldline.adwm.fitting.sample import LogSample
from worldline.adwm.fitting.survey import facts_of
from worldline.adwm.imagination import DynamicsName
from worldline.adwm.model import LogFacts, WorldModel, model_card
from worldline.adwm.rivals.latent import RIVALS, Rivals
from worldline.adwm.weights import load_weights, save_weights
from worldline.kernel.model import FEATURES, KernelModel
from worldline.policies.language_model.device import usable_device
from worldline.types import InputError, Trajectory

_MEMBER, _LOG, _MEASURED, _SAMPLE = "member-{}", "log", "measured.json", "sample.json"
_DECODER, _RIVALS = "decoder.safetensors", "rivals.safetensors"
CONFIG, FIGURES = "config.json", "figures.json"
"""What `worldline fit` writes beside the members: the first when it begins, the second when it is done."""
KERNEL_FOLDER, _KERNEL = "kernel", "kernel.safetensors"


@dataclass(frozen=True)
class Member:
    """One network with its decoder, the tasks that it was not trained on, and what was measured on them."""

    model: WorldModel
    decoder: LatentDecoder
    held_out: tuple[str, ...]
    figures: dict[str, float]
    rivals: Rivals | None = None


@dataclass(frozen=True)
class Ensemble:
    """The kernel model of a log, and the members that share it."""

    members: tuple[Member, ...]
    kernel: KernelModel
    replay_error: float = 0.0
    """Root mean square over the loggers of the error of their value in replay on held-out tasks."""
    kernel_replay_error: float = 0.0
    """Of `wm`: the same, or the error of the loggers' values without their own episodes, if that is larger."""
    kernel_possible: float = 1.0
    """Of `wm`: the share of held-out answers that it can give, times that of the answers that ended an episode."""
    sample: LogSample | None = None
    """What the kernel model has of its log; None: all of it."""
    figures: Mapping[str, float | None] = field(default_factory=dict)
    """What was measured of it, as `figures.json` has it; empty where it was not read from a folder."""

    @property
    def episodes(self) -> tuple[Trajectory, ...]:
        """The log, as far as the kernel model has it."""
        return self.kernel.log.episodes

    @cached_property
    def facts(self) -> LogFacts:
        """Facts of the whole log: names, horizon, range of rewards."""
        return facts_of(self.episodes) if self.sample is None else self.sample.facts

    def save(self, folder: Path) -> None:
        """Everything `load` needs. The log is written once, beside the members."""
        save_log(self.episodes, folder, self.sample)
        save_kernel(self.kernel, folder)
        for index, member in enumerate(self.members):
            save_member(member, member_folder(folder, index), self.sample)

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> "Ensemble":
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder: worldline fit makes a world model")
        if (folder / CONFIG).is_file() and not (folder / FIGURES).is_file():
            raise InputError(f"{folder}: this world model is not finished: worldline fit --resume goes on with it")
        if not (folder / KERNEL_FOLDER).is_dir():
            raise InputError(f"{folder}: not a world model: it holds no {KERNEL_FOLDER}; make one with worldline fit")
        parts = sorted(folder.glob(_MEMBER.format("*")), key=lambda part: int(part.name.rpartition("-")[2]))
        kernel = load_kernel(folder, list(store.read(folder / _LOG)))
        device = usable_device(device) if parts or device != "auto" else "cpu"  # a kernel alone takes no GPU
        figures = folder / FIGURES
        again = "`worldline fit --resume` with the settings of its fit measures anew"
        measured = read_figures(figures, again, under="figures") if figures.is_file() else {}
        names = ("replay_error", "wm_replay_error", "wm_left_out_error")
        error, *kernel_errors = (float(measured.get(name) or 0.0) for name in names)
        members = tuple(load_member(part, kernel, device) for part in parts)
        return cls(
            members, kernel, error, max(kernel_errors), possible_answers(measured), load_sample(folder), measured
        )


def possible_answers(figures: Mapping[str, float | None]) -> float:
    """Of `wm`, from the figures of its fit: the share of answers that it can give, times that of answers at an end.

    Where one was not measured, all are taken to be possible.
    """
    shares = [figures.get(name) for name in ("wm_possible", "wm_possible_ends")]
    return math.prod(share for share in shares if share is not None)


def read_figures(path: Path, mend: str, under: str = "") -> dict[str, float]:
    """The numbers in a JSON file, or in its entry `under`; InputError, which says how to mend that, where it has none.

    One that was not finite when it was written is null there.
    """
    try:
        content = files.read_json_object(path)
    except InputError as error:
        raise InputError(f"{error}: {mend}") from None
    figures = content.get(under) if under else content
    if not isinstance(figures, dict):
        raise InputError(f"{path}: corrupt: has no '{under}': {mend}")
    for name, value in figures.items():
        if not isinstance(value, int | float | None):
            raise InputError(f"{path}: corrupt: '{name}' is no number: {mend}")
    return figures


def member_folder(folder: Path, index: int) -> Path:
    """Where member `index` of the ensemble in `folder` is; it is there whole or not at all."""
    return folder / _MEMBER.format(index)


def save_log(episodes: Sequence[Trajectory], folder: Path, sample: LogSample | None = None) -> None:
    """The log beside the members, unless it is there already, and what it is a sample of."""
    if (folder / _LOG).is_dir():
        return
    if sample is not None:
        files.write_json(folder / _SAMPLE, sample.model_dump(mode="json"))
    with files.replacing(folder / _LOG) as partial, store.StoreWriter(partial) as writer:
        for episode in episodes:
            writer.append(episode)


def load_sample(folder: Path) -> LogSample | None:
    """What the log in `folder` is a sample of; None: it is whole."""
    path = folder / _SAMPLE
    if not path.is_file():
        return None
    try:
        return LogSample.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise InputError(f"{path}: does not say what the log is a sample of: {error.errors()[0]['msg']}") from None


def save_kernel(model: KernelModel, folder: Path) -> None:
    """The kernel model of the log beside it."""
    with files.replacing(folder / KERNEL_FOLDER) as partial:
        partial.mkdir()
        save_weights(model, partial / _KERNEL, episodes=_names(model.log.episodes), features=str(FEATURES))


def load_kernel(folder: Path, episodes: Sequence[Trajectory]) -> KernelModel:
    """The kernel model in `folder`, of the log it was fitted on."""
    path = folder / KERNEL_FOLDER
    model = KernelModel(episodes)
    try:
        facts = load_weights(model, path / _KERNEL)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path}: not a readable kernel model of this version; worldline fit makes one anew: {reason}"
        ) from None
    if facts.get("features") != str(FEATURES):
        raise InputError(f"{path}: was fitted by another version, which describes steps differently: fit it anew")
    if facts.get("episodes", "") not in ("", _names(episodes)):  # older files say nothing of it
        raise InputError(
            f"{folder / _LOG}: not the episodes that this world model was fitted on: restore the folder from a copy, "
            "or worldline fit makes a world model anew"
        )
    return model.eval()


def _names(episodes: Sequence[Trajectory]) -> str:
    """A digest of the episodes' names in their order, by which the kernel model refers to them."""
    return hashlib.blake2b("\n".join(episode.id for episode in episodes).encode(), digest_size=16).hexdigest()


def save_member(member: Member, folder: Path, sample: LogSample | None = None) -> None:
    notes = [] if sample is None else [sample.note]
    with files.replacing(folder) as partial:
        member.model.write(partial, model_card(member.model, member.figures, notes))
        save_weights(member.decoder, partial / _DECODER)
        if member.rivals is not None:
            save_weights(member.rivals, partial / _RIVALS)
        measured = {"held_out": member.held_out, "figures": member.figures}
        (partial / _MEASURED).write_text(json.dumps(measured, indent=1), encoding="utf-8")


def load_member(folder: Path, kernel: KernelModel, device: str = "cpu") -> Member:
    model = WorldModel.from_pretrained(folder)
    rivals = Rivals(model, len(kernel.log)) if (folder / _RIVALS).is_file() else None
    decoder = new_decoder(model, kernel, rivals=rivals is not None)
    try:
        load_weights(decoder, folder / _DECODER)
        measured = files.read_json_object(folder / _MEASURED)
        held_out = tuple(str(task) for task in measured["held_out"])
        figures = {str(name): float(value) for name, value in measured["figures"].items()}
        if rivals is not None:
            load_weights(rivals, folder / _RIVALS)
    except Exception as error:
        raise InputError(f"{folder}: not a readable world model: {' '.join(str(error).split())[:200]}") from None
    rivals = None if rivals is None else rivals.to(device).eval()
    return Member(model.to(device).eval(), decoder.eval(), held_out, figures, rivals)


def new_decoder(model: WorldModel, kernel: KernelModel, *, rivals: bool) -> LatentDecoder:
    """A decoder for the latents of `model`, not yet fitted."""
    dynamics: tuple[DynamicsName, ...] = ("diffusion", *(RIVALS if rivals else ()))
    return LatentDecoder(len(kernel.log), model.architecture.latent, dynamics)
