"""The latent world model as an environment: the engine that plays in reality plays here too (ADWM algorithm 2).

An imagined episode starts where a logged one did. `step_batch` is one step of the algorithm: encode the action, sample
the next latent by diffusion, decode it to one of the answers that the log supports, read that text back, say what it
earned and whether the episode ended, list the actions that come next. Candidates, outcomes and lists are those of the
kernel model (`wm`); which candidate is answered is for the latent.

All waiting episodes advance in one batch. Every draw is a function of the episode's seed and of what it is for, so
policies that are given the same seed and do the same see the same, whoever else shares the batch.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Self, TypeAlias

import numpy as np
import torch
from torch import Tensor

from worldline.adwm.decoder import candidate_latents, latent_features
from worldline.adwm.diffusion import LogPolicy
from worldline.adwm.dynamics import next_latents, noise_draws
from worldline.adwm.ensemble import Ensemble, Member
from worldline.adwm.episodes import Reader, encoded, texts
from worldline.adwm.imagination import IMAGINATION_PRESETS, ImaginationConfig
from worldline.adwm.kernel_env import KernelEnvironment, KernelWorld
from worldline.adwm.networks import Row, current
from worldline.kernel.answers import KernelAnswer
from worldline.kernel.candidates import KINDS
from worldline.kernel.model import Chances, Considered, draw
from worldline.kernel.outcome_classes import StepOutcome
from worldline.types import Info, Trajectory, derive_seed


class ImaginedWorld(KernelWorld):
    """A world that an ensemble imagines by `config`, guided by `guide` where there is one."""

    def __init__(
        self,
        ensemble: Ensemble,
        config: ImaginationConfig = IMAGINATION_PRESETS["adwm"],
        guide: "Guide | None" = None,
        starts: Sequence[Trajectory] | None = None,
    ) -> None:
        super().__init__(ensemble.kernel, ensemble.facts, starts=starts)
        self.ensemble, self.config, self.guide = ensemble, config, guide

    def make(self) -> "ImaginedEnvironment":  # type: ignore[override]  # an environment of this world
        return ImaginedEnvironment(self)

    def member_of(self, seed: int) -> int:
        return derive_seed(seed, "member") % len(self.ensemble.members)

    @torch.no_grad()
    def advance(self) -> None:
        """One step for every waiting episode, a batch for each member."""
        waiting, self.waiting = self.waiting, []
        for index, member in enumerate(self.ensemble.members):
            batch = [environment for environment in waiting if environment.member == index]
            if batch:
                step_batch(member, batch, self)


class ImaginedObservation(str):
    """The text that an agent gets, with the latent (d,) it stands for and the member that imagined it.

    `number` tells imagined observations apart, also those of equal text.
    """

    latent: Tensor
    member: int
    number: int
    _numbers = itertools.count()

    def __new__(cls, text: str, latent: Tensor, member: int = 0) -> Self:
        made = super().__new__(cls, text)
        made.latent, made.member, made.number = latent, member, next(cls._numbers)
        return made


class ImaginedEnvironment(KernelEnvironment[ImaginedWorld]):
    """One imagined episode."""

    def __init__(self, world: ImaginedWorld) -> None:
        super().__init__(world)
        self.member = 0
        self.network_state: Row | None = None
        self.goal: Tensor | None = None
        self.reader: Reader
        self.sampled: Tensor | None = None
        """The next latent that was sampled last."""
        self.latent: Tensor | None = None
        """The latent that the history went on with: the sampled one, or that of the text read back."""
        self.answer: KernelAnswer | None = None
        """The last one."""
        self.shown: list[str] = []
        """The observations as the agent got them."""

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        self.member = self._world.member_of(seed or 0)
        return super().reset(seed=seed, task=task)

    def start_as(self, start: Trajectory) -> tuple[str, Info]:
        observation, info = super().start_as(start)
        self.reader = Reader(self._world.ensemble.members[self.member].model, start.goal)
        self.network_state = self.goal = self.sampled = self.latent = self.answer = None
        self.shown = [observation]
        return observation, info

    @property
    def family(self) -> str:
        return self._world.family

    def clone(self) -> Self:
        twin = super().clone()
        if not self.over:
            twin.reader, twin.shown = self.reader.copy(), [*self.shown]
        return twin

    def noise(self, shape: tuple[int, ...]) -> Tensor:
        """Keyed by the pending action and how often it had been done."""
        action = self.action or ""
        seed = derive_seed(self.seed, "latent", action, self.state.action_counts[action])
        drawn = np.random.Generator(np.random.PCG64(seed)).standard_normal(shape)
        return torch.from_numpy(drawn.astype(np.float32))

    def shown_as(self, text: str) -> str:
        assert self.latent is not None
        observation = ImaginedObservation(text, self.latent, self.member)
        self.shown.append(observation)
        return observation


Batch: TypeAlias = Sequence[ImaginedEnvironment]
Guide: TypeAlias = Callable[[Batch], LogPolicy]
"""log pi_e of the next action from a batch of next latents: the continuation guidance of equation (9)."""


def step_batch(member: Member, batch: Batch, world: ImaginedWorld) -> None:
    """Algorithm 2, one step: answer the pending action of every episode in `batch`, all of one member."""
    _read_starts(member, [environment for environment in batch if environment.network_state is None])
    action = _encode_actions(member, batch)
    z = sample_latents(member, batch, action, world)
    requests = [environment.request() for environment in batch]
    considered = world.kernel.consider_requests(requests)
    weighed = _decode(member, batch, considered, z, world)
    drawn = [draw(chances, request.draw) for chances, request in zip(weighed, requests, strict=True)]
    answers = [one.candidates.texts[at] for one, at in zip(considered, drawn, strict=True)]
    after = _read_back(member, batch, answers, z, world)
    _extend_histories(member, batch, after, action)
    outcomes = _head_outcomes(member, batch, after, world)
    for row, environment in enumerate(batch):
        environment.sampled, environment.latent = z[row], after[row]
        kind = KINDS[considered[row].candidates.kinds[drawn[row]]]
        environment.answer = world.kernel.followed(
            requests[row], considered[row], weighed[row], answers[row], kind, outcomes[row]
        )
        environment.receive(environment.answer)


def _read_starts(member: Member, batch: Batch) -> None:
    """Read the goal and the first observation of new episodes."""
    if not batch:
        return
    model = member.model
    goals = model.encode_goal(texts([environment.reader.goal() for environment in batch], model.device))
    for row, environment in enumerate(batch):
        environment.goal = None if goals is None else goals[row]
    seen = [environment.reader.observation(environment.state.observation) for environment in batch]
    z = encoded(model.encode_observation, seen, model.device)
    _extend_histories(member, batch, z, model.null_action(len(batch)))


def _extend_histories(member: Member, batch: Batch, z: Tensor, action: Tensor) -> None:
    """h_t to h_{t+1}: one more action and what was seen after it."""
    goals = [environment.goal for environment in batch if environment.goal is not None]
    tokens = member.model.step_tokens(z, action, torch.stack(goals) if goals else None)
    states = member.model.advance(tokens, [environment.network_state for environment in batch]).split()
    for environment, state in zip(batch, states, strict=True):
        environment.network_state = state


def _histories(batch: Batch) -> Tensor:
    return current([environment.network_state for environment in batch if environment.network_state is not None])


def _encode_actions(member: Member, batch: Batch) -> Tensor:
    """Act: the pending actions (B, action)."""
    tokens = [environment.reader.action(environment.action or "") for environment in batch]
    return encoded(member.model.encode_action, tokens, member.model.device)


def sample_latents(member: Member, batch: Batch, action: Tensor, world: ImaginedWorld) -> Tensor:
    """Sample: z_{t+1} for every episode."""
    model, config = member.model, world.config
    shape = (noise_draws(config), model.architecture.latent)
    noise = torch.stack([environment.noise(shape) for environment in batch], 1).to(model.device)
    own = None
    if config.dynamics == "wm-knn":
        episodes = torch.from_numpy(world.kernel.log.episode_of)
        own = (torch.tensor([[environment.own] for environment in batch]) == episodes).to(model.device)
    log_policy = world.guide(batch) if world.guide is not None and config.alpha else None
    return next_latents(model, member.rivals, config, _histories(batch), action, noise, own, log_policy)


def _decode(
    member: Member, batch: Batch, considered: Sequence[Considered], z: Tensor, world: ImaginedWorld
) -> list[Chances]:
    """Decode: how likely each candidate is what the sampled latent stands for."""
    latents = candidate_latents(member.model, [environment.reader for environment in batch], considered)
    described = [latent_features(*one) for one in zip(latents, z.cpu(), considered, strict=True)]
    if world.config.decode == "nearest":
        return [np.eye(len(one))[int(one[:, 0].argmin())] for one in described]
    return member.decoder.chances(world.config.dynamics, described)


def _read_back(member: Member, batch: Batch, answers: Sequence[str], z: Tensor, world: ImaginedWorld) -> Tensor:
    """Read back: the latent of the text that was decoded, or the sampled one where the config carries that forward."""
    tokens = [environment.reader.observation(answer) for environment, answer in zip(batch, answers, strict=True)]
    return encoded(member.model.encode_observation, tokens, member.model.device) if world.config.reread else z


def _head_outcomes(
    member: Member, batch: Batch, after: Tensor, world: ImaginedWorld
) -> Sequence[StepOutcome] | Sequence[None]:
    """The paper's reading: an end where the hazard is above one half, the head's mean reward there; or None."""
    if world.config.outcome == "learned":
        return [None] * len(batch)
    hazard, reward = member.model.heads(after, _histories(batch))
    outcomes = []
    for environment, end, share in zip(batch, hazard.tolist(), reward.sigmoid().tolist(), strict=True):
        ended = end > 0
        paid = ended or environment.state.step + 1 >= environment.budget
        outcomes.append(StepOutcome(world.facts.reward(share) if paid else 0.0, ended, ended and share > 0.5))
    return outcomes
