"""The world model as an environment: the rollout engine that plays in reality plays here too (ADWM algorithm 2).

An imagined episode starts where a logged one did. `step_batch` is one step of the algorithm: encode the action, sample
the next latent by diffusion, decode it to a text the log supports, read that text back, judge with the heads whether
the episode ended and what it earned, list the actions that come next. An episode ends with the probability that the
hazard head gives, where the log allows for an end at all, and never later than the log's horizon.

All waiting episodes advance in one batch. Every draw is a function of the episode's seed and of what it is for, so
policies given the same seed meet the same imagined world: the same cupboard holds the same cup, whoever opens it and
whenever. `log_world` has what this shares with the language model as a world (`rivals.language_model`).
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Self, TypeAlias

import numpy as np
import torch
from torch import Tensor

from worldline.adwm.diffusion import LogPolicy, annealed, guided, sample
from worldline.adwm.ensemble import BOUND, Ensemble, Member
from worldline.adwm.episodes import Reader, encoded, texts
from worldline.adwm.imagination import IMAGINATION_PRESETS, ImaginationConfig
from worldline.adwm.log_world import SPLIT, LogWorld, Support, WaitingEnvironment
from worldline.adwm.networks import Row, current
from worldline.adwm.outcome_head import Outcome
from worldline.adwm.rivals.latent import Rivals
from worldline.narrator.admissible import Situation
from worldline.narrator.history import History
from worldline.narrator.linear import padded_ids
from worldline.narrator.narrator import Answer, StepQuery
from worldline.types import Info, Trajectory, WorldlineError, derive_seed


class ImaginedWorld(LogWorld):
    """A world that an ensemble imagines by `config`, guided by `guide` where there is one."""

    def __init__(
        self,
        ensemble: Ensemble,
        config: ImaginationConfig = IMAGINATION_PRESETS["adwm"],
        guide: "Guide | None" = None,
        starts: Sequence[Trajectory] | None = None,
    ) -> None:
        log_model = ensemble.log_model
        super().__init__("imagined", ensemble.facts, log_model.episodes, starts, lists=log_model.lists)
        self.log_model = log_model
        self.ensemble, self.config, self.guide = ensemble, config, guide
        self.support = Support()

    def make(self) -> "ImaginedEnvironment":
        return ImaginedEnvironment(self)

    def member_of(self, seed: int) -> int:
        """The member of the ensemble that imagines the episode with this seed."""
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


class ImaginedEnvironment(WaitingEnvironment[ImaginedWorld]):
    """One imagined episode."""

    def __init__(self, world: ImaginedWorld) -> None:
        super().__init__(world)
        self.member = 0
        self.state: Row | None = None
        self.goal: Tensor | None = None
        self.situation: Situation | None = None
        self.history: History
        self.reader: Reader
        self.sampled: Tensor | None = None
        """The next latent that was sampled last."""
        self.latent: Tensor | None = None
        """The latent that the history went on with: the sampled one, or that of the text read back."""
        self.outcome: Outcome | None = None
        """What the heads say of the last step."""
        self.shown: list[str] = []
        """The observations as the agent got them."""

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        world = self._world
        self.seed = derive_seed(seed or 0, "imagined")
        task = task if task is not None else world.get_task(SPLIT, int(self.uniform("task") * world.num_tasks(SPLIT)))
        self.member = world.member_of(seed or 0)
        start = world.start(task)
        observation = start.steps[0].observation
        self.history = History(world.log_model.grammar, task, start.goal, observation)
        self.reader = Reader(world.ensemble.members[self.member].model, start.goal)
        self.state = self.situation = self.goal = None
        self.shown = [observation]
        return self._began(task, start)

    @property
    def family(self) -> str:
        return self._world.family

    def clone(self) -> Self:
        twin = type(self)(self._world)
        twin.__dict__ |= self.__dict__
        if not self.over:
            twin.history, twin.reader, twin.shown = self.history.copy(), self.reader.copy(), [*self.shown]
            twin.situation = None if self.situation is None else self.situation.of(twin.history)
        return twin

    def times_done(self, action: str) -> int:
        """How often the episode has had an answer to `action`: part of the key of what is drawn for the next one."""
        return len(self.history.answers(action))

    def noise(self, *purpose: int | str, shape: tuple[int, ...]) -> Tensor:
        drawn = np.random.Generator(np.random.PCG64(derive_seed(self.seed, *purpose))).standard_normal(shape)
        return torch.from_numpy(drawn.astype(np.float32))

    def settle(self, answer: Answer, reward: float, ended: bool, won: bool) -> None:
        """Record the world's answer to the pending action."""
        assert self.action is not None
        assert self.latent is not None
        self.history.advance(self.action, answer.text, answer.valid)
        cut = not ended and len(self.history.actions) >= self._world.max_steps
        self.over = ended or cut
        self.allowed = () if self.over else self.allowed
        info: Info = {
            "won": won,
            "score": reward if ended else 0.0,
            "valid": answer.valid,
            "admissible": self._listed(),
        }
        observation = ImaginedObservation(answer.text, self.latent, self.member)
        self.shown.append(observation)
        self.result = (observation, reward, ended, cut, info)


Batch: TypeAlias = Sequence[ImaginedEnvironment]
Guide: TypeAlias = Callable[[Batch], LogPolicy]
"""log pi_e of the next action from a batch of next latents: the continuation guidance of equation (9)."""


def step_batch(member: Member, batch: Batch, world: ImaginedWorld) -> None:
    """Algorithm 2, one step: answer the pending action of every episode in `batch`, all of one member."""
    _read_starts(member, [environment for environment in batch if environment.state is None])
    action = _encode_actions(member, batch)
    z = sample_latents(member, batch, action, world)
    answers = _decode(member, batch, action, z, world)
    features = _outcome_features(member, batch, answers)
    after = _read_back(member, batch, answers, z, world)
    _extend_histories(member, batch, after, action)
    outcome = _judge(member, batch, answers, after, features, world)
    for row, (environment, answer) in enumerate(zip(batch, answers, strict=True)):
        environment.sampled, environment.latent = z[row], after[row]
        environment.outcome = Outcome(*(part[row] for part in outcome))
        world.support.add(answer)
        _settle(environment, answer, world)
    _list_actions(member, [(e, answer) for e, answer in zip(batch, answers, strict=True) if not e.over])


def _read_starts(member: Member, batch: Batch) -> None:
    """Read the goal and the first observation of new episodes."""
    if not batch:
        return
    model = member.model
    goals = model.encode_goal(texts([environment.reader.goal() for environment in batch], model.device))
    for row, environment in enumerate(batch):
        environment.goal = None if goals is None else goals[row]
    seen = [environment.reader.observation(environment.history.observation) for environment in batch]
    z = encoded(model.encode_observation, seen, model.device)
    _extend_histories(member, batch, z, model.null_action(len(batch)))


def _extend_histories(member: Member, batch: Batch, z: Tensor, action: Tensor) -> None:
    """h_t to h_{t+1}: one more action and what was seen after it."""
    goals = [environment.goal for environment in batch if environment.goal is not None]
    tokens = member.model.step_tokens(z, action, torch.stack(goals) if goals else None)
    states = member.model.advance(tokens, [environment.state for environment in batch]).split()
    for environment, state in zip(batch, states, strict=True):
        environment.state = state


def _histories(batch: Batch) -> Tensor:
    return current([environment.state for environment in batch if environment.state is not None])


def _encode_actions(member: Member, batch: Batch) -> Tensor:
    """Act: the pending actions (B, action)."""
    tokens = [environment.reader.action(environment.action or "") for environment in batch]
    return encoded(member.model.encode_action, tokens, member.model.device)


def sample_latents(member: Member, batch: Batch, action: Tensor, world: ImaginedWorld) -> Tensor:
    """Sample: z_{t+1} for every episode, the noise keyed by the action and how often it had been done."""
    model, config = member.model, world.config
    h = _histories(batch)
    draws = 1 if config.dynamics == "diffusion" and not config.eta else 1 + config.steps  # DDIM draws its start alone
    shape = (draws, model.architecture.latent)
    keys = [(environment, environment.action or "") for environment in batch]
    drawn = [environment.noise("latent", act, environment.times_done(act), shape=shape) for environment, act in keys]
    noise = torch.stack(drawn, 1).to(model.device)
    if config.dynamics != "diffusion":
        if member.rivals is None:
            raise WorldlineError(f"{config.dynamics} was not fitted with this world model: fit it with --rivals")
        if config.dynamics == "wm-knn":
            return member.rivals.knn.answers[_neighbours(member.rivals, member, batch, action)]
        return member.rivals.drawn()[config.dynamics].next(h, action, noise)
    log_policy = world.guide(batch) if world.guide is not None and config.alpha else None
    predict = guided(
        model.conditional(h, action),
        model.conditional(h, model.null_action(len(batch))),
        model.abar,
        w=config.w,
        alpha=annealed(config.alpha, model.abar) if log_policy is not None else None,
        log_policy=log_policy,
        clip=config.clip,
    )
    injected = noise[1:] if config.eta > 0 else None
    return sample(predict, noise[0], model.abar, steps=config.steps, eta=config.eta, noise=injected, bound=BOUND)


def _neighbours(rivals: Rivals, member: Member, batch: Batch, action: Tensor) -> Tensor:
    """The most similar logged step for each episode; one that replays a logged episode is not answered by itself."""
    episodes = torch.from_numpy(member.narrator.log_model.index.episodes)
    own = torch.tensor([[environment.history.episode] for environment in batch]) == episodes
    return rivals.knn.nearest(_histories(batch), action, own.to(action.device))


def _decode(member: Member, batch: Batch, action: Tensor, z: Tensor, world: ImaginedWorld) -> list[Answer]:
    """Decode: what the world says to each action, by the config's way of decoding."""
    narrator, decode = member.narrator, world.config.decode
    actions = [environment.action or "" for environment in batch]
    if decode == "copy" and member.rivals is not None:
        return [narrator.copied(int(index)) for index in _neighbours(member.rivals, member, batch, action)]
    if decode == "nearest":
        return narrator.nearest([environment.history for environment in batch], actions, z.cpu())
    listed = narrator.listed([e.situation for e in batch], [e.allowed for e in batch], actions)
    questions = [
        StepQuery(e.history, act, offered, e.uniform("answer", act, e.times_done(act)))
        for e, act, offered in zip(batch, actions, listed, strict=True)
    ]
    return narrator.answers(questions, z)


def _outcome_features(member: Member, batch: Batch, answers: Sequence[Answer]) -> Tensor:
    """What the linear part of the heads reads (B, F), 0 for none; none at all in the paper's network."""
    model, features = member.model, member.narrator.log_model.outcome_features
    if not model.architecture.text:
        return torch.zeros(len(batch), 0, dtype=torch.long, device=model.device)
    ids = [features.ids(e.history, e.action or "", answer.text) for e, answer in zip(batch, answers, strict=True)]
    return torch.from_numpy(padded_ids(ids)).to(model.device)


def _read_back(member: Member, batch: Batch, answers: Sequence[Answer], z: Tensor, world: ImaginedWorld) -> Tensor:
    """Read back: the latent of the text that was decoded, or the sampled one where the config carries that forward."""
    tokens = [environment.reader.observation(answer.text) for environment, answer in zip(batch, answers, strict=True)]
    return encoded(member.model.encode_observation, tokens, member.model.device) if world.config.reread else z


def _judge(
    member: Member, batch: Batch, answers: Sequence[Answer], after: Tensor, features: Tensor, world: ImaginedWorld
) -> Outcome:
    """Judge: the probabilities of an end, a reward and a success at this step."""
    model, config = member.model, world.config
    logits = model.outcome(after, _histories(batch), features)
    calibrated = config.heads == "calibrated"
    outcome = member.heads.read(logits) if calibrated else Outcome(*(torch.sigmoid(x) for x in logits))
    if config.decode == "copy":
        return _copied_outcome(outcome, answers, world)
    if config.decode == "learned":
        possible = [_may_end(e, answer, member) for e, answer in zip(batch, answers, strict=True)]
        return outcome._replace(hazard=outcome.hazard * torch.tensor(possible, device=model.device))
    return outcome


def _copied_outcome(outcome: Outcome, answers: Sequence[Answer], world: ImaginedWorld) -> Outcome:
    """The neighbour's own end and reward in the place of the heads'."""
    sources = [answer.candidate.source for answer in answers if answer.candidate is not None]
    ended = torch.tensor([float(source.ended) for source in sources if source is not None])
    reward = torch.tensor([source.reward for source in sources if source is not None])
    share = world.facts.reward_share(reward)
    won = (share > 0).float() * ended
    return Outcome(ended, share, share, won) if len(ended) == len(answers) else outcome


def _may_end(environment: ImaginedEnvironment, answer: Answer, member: Member) -> bool:
    """Whether the log allows for an end here. What a goal takes is drawn once for each imagined world."""
    if answer.refused:
        return False
    prerequisites = member.narrator.log_model.prerequisites
    missing = prerequisites.missing(environment.history, environment.action or "")
    return not missing or environment.uniform("way", *sorted(missing)) < prerequisites.chance


def _settle(environment: ImaginedEnvironment, answer: Answer, world: ImaginedWorld) -> None:
    """Draw whether the episode is over, and what the step earned."""
    outcome, facts = environment.outcome, world.facts
    assert outcome is not None
    if answer.refused:
        environment.settle(answer, 0.0, False, False)
        return
    act, step = environment.action or "", len(environment.history.actions)
    last = step + 1 >= world.max_steps
    if world.config.heads == "paper":
        ended = outcome.hazard.item() > 0.5
        share = outcome.reward_at_end.item() if ended or last else 0.0
    else:
        ended = environment.uniform("end", act, step) < outcome.hazard.item()
        share = (outcome.reward_at_end if ended else outcome.reward_on_way).item()
    won = ended and environment.uniform("won", act, step) < outcome.success.item()
    earns = facts.dense or ended or world.config.heads == "paper"
    environment.settle(answer, facts.reward(share) if earns else 0.0, ended, won)


def _list_actions(member: Member, going: Sequence[tuple[ImaginedEnvironment, Answer]]) -> None:
    """List: the actions that each episode that goes on allows next."""
    log_model = member.narrator.log_model
    if not log_model.lists or not going:
        return
    situations = []
    for environment, answer in going:
        environment.situation = log_model.situation(
            environment.history, answer.candidate, environment.allowed, environment.first
        )
        situations.append(environment.situation)
    for (environment, _), allowed in zip(going, member.narrator.allowed(situations), strict=True):
        environment.offer(allowed)
