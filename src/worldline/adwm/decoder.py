"""From a sampled latent to a text: which of the candidate answers the latent stands for.

The candidates are those of the kernel model, the same for every dynamics. Each is read in its place in the episode; a
small gate weighs its distance from the sampled latent, its place in the retrieval and how it was made of a logged
answer. The gate is fitted on tasks that the networks were not trained on, by the likelihood of what was answered.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from worldline.adwm.dynamics import next_latents, seeded_noise
from worldline.adwm.episodes import EpisodeData, Reader, Tokens, encode, encoded, windows
from worldline.adwm.imagination import DynamicsName, ImaginationConfig
from worldline.adwm.model import WorldModel
from worldline.adwm.rivals.latent import Rivals
from worldline.kernel.candidates import KINDS
from worldline.kernel.compared_rows import KEPT
from worldline.kernel.described_steps import DescribedStep, described_steps
from worldline.kernel.features import Features
from worldline.kernel.gate import Exercise, Gate
from worldline.kernel.left_out import Progress
from worldline.kernel.model import Chances, Considered, KernelModel
from worldline.types import Trajectory, derive_seed

FEATURES = ("distance", "log distance", "nearest", "place", *KINDS)
_CLOSE = 1e-4
STEPS = 800
"""Held-out steps that a decoder is fitted on."""
_UPDATES = 200
_JUDGED = 3
"""One of so many of their episodes judges the fit."""


class LatentDecoder(nn.Module):
    """A gate for each dynamics, and the latent of every logged answer."""

    latents: Tensor

    def __init__(self, steps: int, latent: int, dynamics: Sequence[DynamicsName] = ("diffusion",)) -> None:
        super().__init__()
        self.dynamics = tuple(dynamics)
        self.gates = nn.ModuleDict({name: Gate(len(FEATURES)) for name in dynamics})
        self.register_buffer("latents", torch.zeros(steps, latent))

    def gate(self, dynamics: DynamicsName) -> Gate:
        """Noise is decoded as the diffusion's latent would be: nothing is fitted to it."""
        gate = self.gates["diffusion" if dynamics == "noise" else dynamics]
        assert isinstance(gate, Gate)
        return gate

    def chances(self, dynamics: DynamicsName, described: Sequence[Features]) -> list[Chances]:
        """Probabilities of the candidates of several steps, given the features of each."""
        return self.gate(dynamics).chances(np.concatenate(described), [len(one) for one in described])


@torch.no_grad()
def candidate_latents(model: WorldModel, readers: Sequence[Reader], considered: Sequence[Considered]) -> list[Tensor]:
    """(n, latent) for the n candidates of each step, each text read where the episode stands."""
    places: dict[tuple[bytes, bytes], int] = {}
    tokens: list[Tokens] = []
    rows: list[list[int]] = []
    for reader, one in zip(readers, considered, strict=True):
        read: dict[str, int] = {}
        for text in one.candidates.texts:
            if text not in read:
                token = reader.copy().observation(text)
                key = token.ids.tobytes(), token.marks.tobytes()
                read[text] = places.setdefault(key, len(tokens))
                if read[text] == len(tokens):
                    tokens.append(token)
        rows.append([read[text] for text in one.candidates.texts])
    latents = encoded(model.encode_observation, tokens, model.device).cpu()
    return [latents[which] for which in rows]


def latent_features(latents: Tensor, z: Tensor, considered: Considered) -> Features:
    """(n, len(FEATURES)) of a step's candidates, given their latents (n, latent) and the sampled one (latent,)."""
    possible = considered.candidates
    out = np.zeros((len(possible), len(FEATURES)), np.float32)
    distance = (latents - z.cpu()).square().mean(-1).numpy()
    out[:, 0], out[:, 1] = distance, np.log(distance + _CLOSE)
    out[:, 2] = distance <= distance.min() + _CLOSE
    out[:, 3] = possible.places / KEPT
    out[np.arange(len(possible)), 4 + possible.kinds] = 1.0
    return out


def fit_decoder(
    decoder: LatentDecoder,
    model: WorldModel,
    rivals: Rivals | None,
    kernel: KernelModel,
    data: Sequence[EpisodeData],
    seed: int,
    watch: Progress = lambda done, of: None,
) -> dict[str, float]:
    """Fit a gate for each dynamics on steps of the held-out episodes `data`; `watch` hears of its parts.

    Nats per step of what was answered, on episodes that the gates were not fitted on: of each dynamics; of noise with
    the diffusion's gate; and of `wm` there, alone and with the diffusion's latent: what the latent adds to it.
    """
    parts = 2 * len(decoder.dynamics) + 3  # the steps, a latent and a gate of each dynamics, noise, the kernel
    watch(0, parts)
    steps = described_steps(kernel, seed, STEPS, [one.number for one in data])
    judged = frozenset(sorted({one.row.episode for one in steps})[::_JUDGED])
    latents = _read_candidates(model, steps, kernel.log.episodes)
    exercises: dict[DynamicsName, list[Exercise]] = {}
    names: tuple[DynamicsName, ...] = (*decoder.dynamics, "noise")
    for done, name in enumerate(names, start=1):
        watch(done, parts)
        drawn = predicted_latents(model, rivals, ImaginationConfig(name), kernel, data, seed)
        exercises[name] = _exercises(steps, latents, drawn)
    nats: dict[str, float] = {}
    for done, name in enumerate(decoder.dynamics, start=1 + len(names)):
        watch(done, parts)
        nats[name] = decoder.gate(name).fit(exercises[name], judged, derive_seed(seed, name) % 2**31, _UPDATES)
    watch(parts - 1, parts)
    nats["noise"] = decoder.gate("noise").score([one for one in exercises["noise"] if one.episode in judged])
    return nats | _beside_kernel(kernel, steps, exercises["diffusion"], judged, seed)


def _beside_kernel(
    kernel: KernelModel,
    steps: Sequence[DescribedStep],
    exercises: Sequence[Exercise],
    judged: frozenset[int],
    seed: int,
) -> dict[str, float]:
    """Nats per step by what `wm` says of the candidates, and by that and the distance from the latent."""
    described = [kernel.described(one.considered, one.row.episode) for one in steps]
    weighed = kernel.weighed([one.considered for one in steps], described)
    nats = {}
    for name, columns in (("wm", 1), ("wm_and_latent", 4)):
        both = [
            np.column_stack([np.log(chances + 1e-6), one.features[:, :3]])[:, :columns].astype(np.float32)
            for chances, one in zip(weighed, exercises, strict=True)
        ]
        stacked = [replace(one, features=features) for one, features in zip(exercises, both, strict=True)]
        nats[name] = Gate(columns).fit(stacked, judged, derive_seed(seed, name) % 2**31, _UPDATES)
    return nats


def _exercises(steps: Sequence[DescribedStep], latents: Sequence[Tensor], drawn: dict[int, Tensor]) -> list[Exercise]:
    """The steps with the features that a decoder reads; `drawn` has latents (T, latent) by episode."""
    return [
        Exercise(
            one.row.episode,
            latent_features(near, drawn[one.row.episode][one.row.step], one.considered),
            one.exercise.credit,
            one.exercise.weight,
        )
        for one, near in zip(steps, latents, strict=True)
    ]


def _read_candidates(model: WorldModel, steps: Sequence[DescribedStep], episodes: Sequence[Trajectory]) -> list[Tensor]:
    """The candidates' latents of logged steps, which are in the order of the log."""
    readers: dict[tuple[int, int], Reader] = {}
    wanted = {(one.row.episode, one.row.step) for one in steps}
    for number in sorted({episode for episode, _ in wanted}):
        episode = episodes[number]
        reader = Reader(model, episode.goal)
        reader.observation(episode.steps[0].observation)
        for at, (step, answer) in enumerate(zip(episode.steps, episode.next_observations, strict=True)):
            reader.action(step.action)
            if (number, at) in wanted:
                readers[number, at] = reader.copy()
            reader.observation(answer)
    ordered = [readers[one.row.episode, one.row.step] for one in steps]
    return candidate_latents(model, ordered, [one.considered for one in steps])


@torch.no_grad()
def predicted_latents(
    model: WorldModel,
    rivals: Rivals | None,
    config: ImaginationConfig,
    kernel: KernelModel,
    data: Sequence[EpisodeData],
    seed: int,
    size: int = 32,
) -> dict[int, Tensor]:
    """By episode number: a next latent for every step, (T, latent), given the true history."""
    model.eval()
    drawn: list[Tensor] = []
    pieces = windows(data, model)
    for start in range(0, len(pieces), size):
        batch = pieces[start : start + size]
        out = encode(model, batch)
        numbers = torch.tensor([one.number for one in batch]).unsqueeze(1).expand(out.real.shape)[out.real.cpu()]
        noise = seeded_noise(config, len(numbers), out.z.shape[-1], derive_seed(seed, "latents", start))
        own = numbers.unsqueeze(1) == torch.from_numpy(kernel.log.episode_of) if config.dynamics == "wm-knn" else None
        drawn.append(
            next_latents(
                model,
                rivals,
                config,
                out.h[:, :-1][out.real],
                out.action[out.real],
                noise.to(model.device),
                None if own is None else own.to(model.device),
            ).cpu()
        )
    parts = torch.split(torch.cat(drawn), [len(one) for one in data])
    return {one.number: part for one, part in zip(data, parts, strict=True)}


@torch.no_grad()
def answer_latents(model: WorldModel, data: Sequence[EpisodeData], size: int = 32) -> Tensor:
    """z of every logged answer, in the order of the log's steps."""
    model.eval()
    latents = []
    pieces = windows(data, model)
    for start in range(0, len(pieces), size):
        out = encode(model, pieces[start : start + size])
        latents.append(out.z[:, 1:][out.real].cpu())
    return torch.cat(latents)
