"""A fitted world model: a few members that saw different tasks, the log they read from, and how to read their heads.

Each member is a network and a narrator. Members hold out different tasks, so that every logged task can be judged by
one that has not been trained on it, and their disagreement is part of every interval. On disk: one folder per
member, the log itself (decoding needs its texts), and a card.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_model
from torch import Tensor

from worldline import files, store
from worldline.adwm.calibration import Array, Platt, fit_platt
from worldline.adwm.diffusion import sample
from worldline.adwm.episodes import EpisodeData, encode, facts_of, windows
from worldline.adwm.model import Architecture, LogFacts, WorldModel, save_weights
from worldline.adwm.outcome_head import CalibratedHeads, Outcome, Priors
from worldline.adwm.rivals.latent import Rivals
from worldline.kernel.model import KernelModel
from worldline.narrator.log_model import LogModel
from worldline.narrator.narrator import Narrator
from worldline.policies.language_model.device import usable_device
from worldline.types import InputError, Trajectory, WorldlineError, derive_seed

_MEMBER, _LOG, _HEADS = "member-{}", "log", "heads.json"
_NARRATOR, _RIVALS = "narrator.safetensors", "rivals.safetensors"
CONFIG, FIGURES = "config.json", "figures.json"
"""What `worldline fit` writes beside the members: the first when it begins, the second when it is done."""
KERNEL_FOLDER, _KERNEL = "kernel", "kernel.safetensors"
LINEAR_BUCKETS = Architecture().linear_buckets
BOUND = 3.0
"""Latents have unit mean square: nothing real is beyond this in any dimension."""


@dataclass(frozen=True)
class Member:
    """One network with its narrator and the reading of its heads."""

    model: WorldModel
    narrator: Narrator
    heads: CalibratedHeads
    rivals: Rivals | None = None


@dataclass(frozen=True)
class Ensemble:
    """The members, and the model of the log's texts that they share."""

    members: tuple[Member, ...]
    log_model: LogModel
    replay_error: float = 0.0
    """Root mean square over the loggers of the error of their value in replay on held-out tasks."""
    load_kernel: Callable[[], KernelModel] | None = None
    """Loads, or fits, the kernel model of the same log; None where there is none."""
    kernel_replay_error: float = 0.0

    @cached_property
    def kernel(self) -> KernelModel:
        """The kernel model, which `wm` plays in."""
        if self.load_kernel is None:
            raise WorldlineError("wm was not fitted with this world model: fit it with --kernel")
        return self.load_kernel()

    @cached_property
    def facts(self) -> LogFacts:
        """What is told of the log: names, horizon, range of rewards."""
        return facts_of(self.log_model.episodes)

    def save(self, folder: Path, *, cards: Sequence[str] = ()) -> None:
        """Everything `load` needs. The log is written once, beside the members."""
        save_log(self.log_model, folder)
        if self.load_kernel is not None:
            save_kernel(self.kernel, folder)
        for index, member in enumerate(self.members):
            save_member(member, member_folder(folder, index), card=cards[index] if cards else "")

    @classmethod
    def load(cls, folder: Path, device: str = "cpu") -> "Ensemble":
        parts = sorted(folder.glob(_MEMBER.format("*")), key=lambda part: int(part.name.rpartition("-")[2]))
        kernel = folder / KERNEL_FOLDER
        if not parts and not kernel.is_dir():
            raise InputError(
                f"{folder}: not a world model: it holds no {_MEMBER.format(0)}; make one with worldline fit"
            )
        if (folder / CONFIG).is_file() and not (folder / FIGURES).is_file():
            raise InputError(f"{folder}: this world model is not finished: worldline fit --resume goes on with it")
        linear = WorldModel.from_pretrained(parts[0]).architecture.linear_buckets if parts else LINEAR_BUCKETS
        log_model = LogModel.of(list(store.read(folder / _LOG)), linear)
        device = usable_device(device)
        figures = folder / FIGURES
        measured = json.loads(figures.read_text(encoding="utf-8"))["figures"] if figures.is_file() else {}
        error = float(measured.get("replay_error") or 0.0)
        members = tuple(load_member(part, log_model, device) for part in parts)
        load = partial(load_kernel, kernel, log_model.episodes) if kernel.is_dir() else None
        kernel_errors = [float(measured.get(name) or 0.0) for name in ("wm_replay_error", "wm_left_out_error")]
        return cls(members, log_model, error, load, max(kernel_errors))


def member_folder(folder: Path, index: int) -> Path:
    """Where member `index` of the ensemble in `folder` is; it is there whole or not at all."""
    return folder / _MEMBER.format(index)


def save_log(log_model: LogModel, folder: Path) -> None:
    """The log beside the members, unless it is there already."""
    if (folder / _LOG).is_dir():
        return
    with files.replacing(folder / _LOG) as partial, store.StoreWriter(partial) as writer:
        for episode in log_model.episodes:
            writer.append(episode)


def save_kernel(model: KernelModel, folder: Path) -> None:
    """The kernel model of the log beside it."""
    with files.replacing(folder / KERNEL_FOLDER) as partial_folder:
        partial_folder.mkdir()
        save_weights(model, partial_folder / _KERNEL)


def load_kernel(folder: Path, episodes: Sequence[Trajectory]) -> KernelModel:
    """The kernel model in `folder`, of the log it was fitted on."""
    model = KernelModel(episodes)
    try:
        load_model(model, str(folder / _KERNEL))
    except Exception as error:
        raise InputError(f"{folder}: not a readable kernel model: {' '.join(str(error).split())[:200]}") from None
    return model.eval()


def save_member(member: Member, folder: Path, card: str = "") -> None:
    with files.replacing(folder) as partial:
        member.model.write(partial, card)
        save_weights(member.narrator, partial / _NARRATOR)
        if member.rivals is not None:
            save_weights(member.rivals, partial / _RIVALS)
        (partial / _HEADS).write_text(member.heads.model_dump_json(indent=1), encoding="utf-8")


def load_member(folder: Path, log_model: LogModel, device: str = "cpu") -> Member:
    model = WorldModel.from_pretrained(folder)
    narrator = Narrator(log_model, model.architecture.latent)
    try:
        load_model(narrator, str(folder / _NARRATOR))
        heads = CalibratedHeads.model_validate(json.loads((folder / _HEADS).read_text(encoding="utf-8")))
        rivals = Rivals(model, len(log_model.index.transitions)) if (folder / _RIVALS).is_file() else None
        if rivals is not None:
            load_model(rivals, str(folder / _RIVALS))
    except Exception as error:
        raise InputError(f"{folder}: not a readable world model: {' '.join(str(error).split())[:200]}") from None
    return Member(model.to(device).eval(), narrator.eval(), heads, None if rivals is None else rivals.to(device).eval())


@torch.no_grad()
def drawn_latents(model: WorldModel, data: Sequence[EpisodeData], *, seed: int, size: int = 32) -> list[Tensor]:
    """A sampled next latent for every step of every episode, (T, latent) each, given the true history."""
    model.eval()
    drawn: list[Tensor] = []
    pieces = windows(data, model)
    for start in range(0, len(pieces), size):
        out = encode(model, pieces[start : start + size])
        generator = torch.Generator().manual_seed(derive_seed(seed, "latents", start))
        noise = torch.randn(int(out.real.sum()), out.z.shape[-1], generator=generator).to(model.device)
        predict = model.conditional(out.h[:, :-1][out.real], out.action[out.real])
        drawn.append(sample(predict, noise, model.abar, steps=10, bound=BOUND).cpu())
    return list(torch.split(torch.cat(drawn), [len(one) for one in data]))


@torch.no_grad()
def answer_latents(model: WorldModel, data: Sequence[EpisodeData], size: int = 32) -> Tensor:
    """z of every logged answer, in the order of the log's transitions."""
    model.eval()
    latents = []
    pieces = windows(data, model)
    for start in range(0, len(pieces), size):
        out = encode(model, pieces[start : start + size])
        latents.append(out.z[:, 1:][out.real].cpu())
    return torch.cat(latents)


@torch.no_grad()
def calibrated(model: WorldModel, held_out: Sequence[EpisodeData], priors: Priors) -> CalibratedHeads:
    """Slopes and offsets of the heads on tasks the member was not trained on."""
    heads = CalibratedHeads(priors=priors, held_out=tuple(sorted({data.task for data in held_out})))
    seen = head_readings(model, heads, held_out)
    at_end = seen.ended > 0
    recorded = at_end & ~np.isnan(seen.success)

    def pair(platt: Platt) -> tuple[float, float]:
        return platt.slope, platt.offset

    return heads.model_copy(
        update={
            "hazard": pair(fit_platt(seen.logits.hazard, seen.ended)),
            "reward": pair(fit_platt(seen.logits.reward_at_end[torch.from_numpy(at_end)], seen.rewards[at_end])),
            "success": pair(fit_platt(seen.logits.success[torch.from_numpy(recorded)], seen.success[recorded])),
        }
    )


@dataclass(frozen=True)
class Readings:
    """Corrected logits of every step of some episodes, with the end, the reward and the success that followed."""

    logits: Outcome
    ended: Array
    rewards: Array
    success: Array


@torch.no_grad()
def head_readings(model: WorldModel, heads: CalibratedHeads, data: Sequence[EpisodeData], size: int = 32) -> Readings:
    """What the heads say of logged steps."""
    logits: list[Outcome] = []
    rest: list[Tensor] = []
    pieces = windows(data, model)
    for start in range(0, len(pieces), size):
        out = encode(model, pieces[start : start + size])
        real = out.real
        outcome = model.outcome(out.z[:, 1:][real], out.h[:, 1:][real], out.outcome_features[real])
        logits.append(heads.corrected(outcome))
        success = out.success.unsqueeze(1).expand_as(out.ended)[real]
        rest.append(torch.stack([out.ended[real], out.rewards[real], success]))
    joined = Outcome(*(torch.cat(parts).float().cpu() for parts in zip(*logits, strict=True)))
    return Readings(joined, *torch.cat(rest, 1).double().cpu().numpy())
