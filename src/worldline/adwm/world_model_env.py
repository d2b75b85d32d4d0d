"""The world model as an environment: the rollout engine that plays in reality plays here too (ADWM algorithm 2).

An imagined episode starts where a logged one did. At each step a latent is sampled by diffusion, decoded to text the
log supports, read back, and judged by the heads: the episode ends with the probability the hazard head gives, where the
log allows for an end at all (`ways`), and never later than the log's horizon. All waiting episodes are advanced in one
batch (`begin` collects them). Every draw is a function of (episode seed, what was asked), so policies given the same
seed meet the same imagined world: the same cupboard holds the same cup, whoever opens it and whenever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from worldline.adwm.diffusion import LogPolicy, annealed, guided, sample
from worldline.adwm.ensemble import BOUND, Ensemble, Member
from worldline.adwm.episodes import Reader, encoded, texts
from worldline.adwm.networks import Row, current
from worldline.adwm.outcome_head import Outcome
from worldline.adwm.rivals.latent import Rivals
from worldline.adwm.soft_tokens.tokens import Sight
from worldline.narrator.admissible import Situation
from worldline.narrator.history import Chronicle
from worldline.narrator.log_model import Lore
from worldline.narrator.narrator import Answer, Question
from worldline.types import Info, InputError, StepResult, Trajectory, Turn, WorldlineError, derive_seed

SPLIT = "log"


class LogWorld(ABC):
    """Episodes begin as those of the log it was fitted on, or those of `starts`. `kind` is how it is made up."""

    def __init__(self, kind: str, ensemble: Ensemble, starts: Sequence[Trajectory] | None) -> None:
        self.facts, self.lore = ensemble.members[0].model.facts, ensemble.lore
        self.name, self.version, self.family = f"{kind}:{self.facts.env}", self.facts.env_version, self.facts.family
        self.max_steps = self.facts.horizon
        self.max_return = max(episode.episode_return for episode in self.lore.episodes)
        self._starts: dict[str, Trajectory] = {}
        for episode in self.lore.episodes if starts is None else starts:
            self._starts.setdefault(episode.task_id, episode)
        self._tasks = list(self._starts)
        self.waiting: list[Any] = []
        """The episodes whose pending action is to be answered next."""

    def splits(self) -> tuple[str, ...]:
        return (SPLIT,)

    def num_tasks(self, split: str) -> int:
        return len(self._tasks)

    def get_task(self, split: str, index: int) -> str:
        return self._tasks[index]

    def expert(self, turn: Turn) -> str:
        raise InputError(f"{self.name} has no expert of its own: name the environment's")

    def start(self, task: str) -> Trajectory:
        """A logged episode that begins as `task` does."""
        if task not in self._starts:
            raise InputError(f"task '{task}' is not in the log: a world model only goes on from a start it has")
        return self._starts[task]

    @abstractmethod
    def advance(self) -> None:
        """Answer every waiting episode."""


W = TypeVar("W", bound=LogWorld)


class WaitingEnvironment(Generic[W]):
    """One episode. `begin` queues an action; whoever asks for its result first has all that wait answered together."""

    def __init__(self, world: W) -> None:
        self._world = world
        self.seed = 0
        self.first: tuple[str, ...] = ()
        """What could be done at the start; below, what can be done now."""
        self.allowed: tuple[str, ...] = ()
        self.action: str | None = None
        self.result: StepResult | None = None
        self.over = True

    def begin(self, action: str) -> None:
        """Queue `action`, to be answered together with everything else that waits."""
        if self.over:
            raise WorldlineError("the episode is over: reset() starts another")
        self.action, self.result = action, None
        self._world.waiting.append(self)

    def step(self, action: str) -> StepResult:
        if self.action != action:
            self.begin(action)
        if self.result is None:
            self._world.advance()
        assert self.result is not None
        result, self.action, self.result = self.result, None, None
        return result

    def offer(self, allowed: tuple[str, ...]) -> None:
        """Record what can be done next."""
        assert self.result is not None
        self.allowed = self.result[4]["admissible"] = allowed

    def _began(self, task: str, start: Trajectory) -> tuple[str, Info]:
        """The first observation, and what there is to say about it."""
        self.action, self.result, self.over = None, None, False
        self.first = self.allowed = start.steps[0].admissible or ()
        info: Info = {"admissible": self._listed(), "won": False, "score": 0.0, "task_id": task, "goal": start.goal}
        return start.steps[0].observation, info

    def _listed(self) -> tuple[str, ...] | None:
        return self.allowed if self._world.lore.lists else None


@dataclass(frozen=True)
class Manner:
    """How to imagine. The default is the exact conditional model, decoded, read back and calibrated."""

    dynamics: Literal["diffusion", "wm-ar", "wm-joint", "wm-knn"] = "diffusion"
    steps: int = 10
    """Reverse steps of the diffusion; 50 with eta 1 is DDPM."""
    eta: float = 0.0
    w: float = 0.0
    alpha: float = 0.0
    clip: float = 1.0
    decode: Literal["learned", "nearest", "copy"] = "learned"
    """By the fitted decoder; to the nearest logged answer; or the neighbour's own step, reward and end included."""
    reread: bool = True
    """Read the decoded text back, or carry the sampled latent forward."""
    heads: Literal["calibrated", "paper"] = "calibrated"
    """A Bernoulli draw at the calibrated hazard, or the paper's threshold on the head as it was trained."""


MANNERS: dict[str, Manner] = {
    "adwm": Manner(),
    "adwm-paper": Manner(steps=50, eta=1.0, w=0.5, alpha=0.1, decode="nearest", reread=False, heads="paper"),
    "wm-ar": Manner("wm-ar", decode="nearest", reread=False),
    "wm-joint": Manner("wm-joint", decode="nearest", reread=False),
    "wm-knn": Manner("wm-knn", decode="copy", reread=False),
}


@dataclass
class Support:
    """How well the log supports what was imagined: where answers came from, and how far latents were from them."""

    near: Counter[str] = field(default_factory=Counter)
    distance: float = 0.0
    unsupported: int = 0

    def add(self, answer: Answer) -> None:
        self.near[answer.candidate.near if answer.candidate is not None else "none"] += 1
        self.unsupported += not answer.supported
        self.distance += answer.distance if np.isfinite(answer.distance) else 0.0

    @property
    def steps(self) -> int:
        return self.near.total()


Guide = Callable[[Sequence["ImaginedEnvironment"]], LogPolicy]
"""log pi_e of the next action from a batch of next latents: the continuation guidance of equation (9)."""


class ImaginedWorld(LogWorld):
    """Where imagined episodes come from: the tasks of the log it was fitted on, or those of `starts`."""

    def __init__(
        self,
        ensemble: Ensemble,
        manner: Manner = MANNERS["adwm"],
        guide: Guide | None = None,
        starts: Sequence[Trajectory] | None = None,
    ) -> None:
        super().__init__("imagined", ensemble, starts)
        self.ensemble, self.manner, self.guide = ensemble, manner, guide
        self.support = Support()

    def make(self) -> ImaginedEnvironment:
        return ImaginedEnvironment(self)

    def member_of(self, seed: int) -> int:
        """The member of the ensemble that imagines the episode with this seed."""
        return derive_seed(seed, "member") % len(self.ensemble.members)

    @torch.no_grad()
    def advance(self) -> None:
        """One step for every waiting episode, a batch for each member."""
        waiting, self.waiting = self.waiting, []
        for index, member in enumerate(self.ensemble.members):
            mine = [environment for environment in waiting if environment.member == index]
            if mine:
                move(member, mine, self)


class ImaginedEnvironment(WaitingEnvironment[ImaginedWorld]):
    """One imagined episode."""

    def __init__(self, world: ImaginedWorld) -> None:
        super().__init__(world)
        self.member = 0
        self.state: Row | None = None
        self.goal: Tensor | None = None
        self.situation: Situation | None = None
        self.chronicle: Chronicle
        self.reader: Reader
        self.latent: Tensor | None = None
        """The next latent that was sampled last."""
        self.seen: Tensor | None = None
        """The latent that the history went on with: the sampled one, or that of the text read back."""
        self.told: Outcome | None = None
        """What the heads said of the last step."""
        self.shown: list[str] = []
        """The observations as the agent got them."""

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        world = self._world
        self.seed = derive_seed(seed or 0, "imagined")
        task = task if task is not None else world.get_task(SPLIT, self.draw_integer("task", world.num_tasks(SPLIT)))
        self.member = world.member_of(seed or 0)
        start = world.start(task)
        observation = start.steps[0].observation
        self.chronicle = Chronicle(world.ensemble.lore.grammar, task, start.goal, observation)
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
            twin.chronicle, twin.reader, twin.shown = self.chronicle.copy(), self.reader.copy(), [*self.shown]
            twin.situation = None if self.situation is None else self.situation.of(twin.chronicle)
        return twin

    def uniform(self, *purpose: int | str) -> float:
        """A number in [0, 1) that depends on the episode's seed and on what it is for, and on nothing else."""
        return (derive_seed(self.seed, *purpose) >> 10) / 2**53

    def draw_integer(self, purpose: str, below: int) -> int:
        return int(self.uniform(purpose) * below)

    def noise(self, *purpose: int | str, shape: tuple[int, ...]) -> Tensor:
        drawn = np.random.Generator(np.random.PCG64(derive_seed(self.seed, *purpose))).standard_normal(shape)
        return torch.from_numpy(drawn.astype(np.float32))

    def settle(self, answer: Answer, reward: float, ended: bool, won: bool) -> None:
        """Record the world's answer to the pending action."""
        assert self.action is not None
        self.chronicle.advance(self.action, answer.text, answer.valid)
        cut = not ended and len(self.chronicle.actions) >= self._world.max_steps
        self.over = ended or cut
        self.allowed = () if self.over else self.allowed
        info: Info = {
            "won": won,
            "score": reward if ended else 0.0,
            "valid": answer.valid,
            "admissible": self._listed(),
        }
        text = answer.text if self.seen is None else Sight(answer.text, self.seen, self.member)
        self.shown.append(text)
        self.result = (text, reward, ended, cut, info)


Batch: TypeAlias = "Sequence[ImaginedEnvironment]"


def move(member: Member, batch: Batch, world: ImaginedWorld) -> None:
    """Answer the pending action of every episode in `batch`."""
    model, lore, manner = member.model, member.narrator.lore, world.manner
    begin(member, [environment for environment in batch if environment.state is None])
    actions = [environment.action or "" for environment in batch]
    done = [environment.reader.action(action) for environment, action in zip(batch, actions, strict=True)]
    action = encoded(model.encode_action, done, model.device)
    z = sampled(member, batch, action, world)
    answers = _answers(member, batch, actions, action, z, world)
    proof = [
        lore.evidence.ids(e.chronicle, act, a.text) if model.architecture.text else []
        for e, act, a in zip(batch, actions, answers, strict=True)
    ]
    seen = [environment.reader.observation(answer.text) for environment, answer in zip(batch, answers, strict=True)]
    after = encoded(model.encode_observation, seen, model.device) if manner.reread else z
    _remember(member, batch, after, action)
    told = model.outcome(after, _histories(batch), _padded(proof).to(model.device))
    told = member.heads.read(told) if manner.heads == "calibrated" else Outcome(*(torch.sigmoid(x) for x in told))
    if manner.decode == "copy":
        told = _copied(told, answers, world)
    elif manner.decode == "learned":
        possible = [_may_end(e, act, a, lore) for e, act, a in zip(batch, actions, answers, strict=True)]
        told = told._replace(hazard=told.hazard * torch.tensor(possible, device=model.device))
    for index, (environment, answer) in enumerate(zip(batch, answers, strict=True)):
        environment.latent, environment.seen = z[index], after[index]
        environment.told = Outcome(*(part[index] for part in told))
        world.support.add(answer)
        _settle(environment, answer, world)
    _offer(member, [(e, a) for e, a in zip(batch, answers, strict=True) if not e.over])


def begin(member: Member, batch: Batch) -> None:
    """Read the first observation and the goal of new episodes."""
    if not batch:
        return
    model = member.model
    goals = model.encode_goal(texts([environment.reader.goal() for environment in batch], model.device))
    for index, environment in enumerate(batch):
        environment.goal = None if goals is None else goals[index]
    seen = [environment.reader.observation(environment.chronicle.observation) for environment in batch]
    _remember(member, batch, encoded(model.encode_observation, seen, model.device), model.null_action(len(batch)))


def _remember(member: Member, batch: Batch, z: Tensor, action: Tensor) -> None:
    """Move the histories on by an action and what was seen after it."""
    goals = [environment.goal for environment in batch if environment.goal is not None]
    tokens = member.model.step_tokens(z, action, torch.stack(goals) if goals else None)
    states = member.model.advance(tokens, [environment.state for environment in batch]).split()
    for environment, state in zip(batch, states, strict=True):
        environment.state = state


def _histories(batch: Batch) -> Tensor:
    return current([environment.state for environment in batch if environment.state is not None])


def sampled(member: Member, batch: Batch, action: Tensor, world: ImaginedWorld) -> Tensor:
    """z_{t+1} for every episode, the noise keyed by what was done and how often it had been."""
    model, how = member.model, world.manner
    h = _histories(batch)
    draws = 1 if how.dynamics == "diffusion" and not how.eta else 1 + how.steps  # DDIM draws its start alone
    drawn = [
        environment.noise(
            "latent",
            act := environment.action or "",
            len(environment.chronicle.answers(act)),
            shape=(draws, model.architecture.latent),
        )
        for environment in batch
    ]
    noise = torch.stack(drawn, 1).to(model.device)
    if how.dynamics != "diffusion":
        if member.rivals is None:
            raise WorldlineError(f"{how.dynamics} was not fitted with this world model: fit it with --rivals")
        if how.dynamics == "wm-knn":
            return member.rivals.knn.answers[_neighbours(member.rivals, member, batch, action)]
        return member.rivals.drawn()[how.dynamics].next(h, action, noise)
    log_policy = world.guide(batch) if world.guide is not None and how.alpha else None
    predict = guided(
        model.conditional(h, action),
        model.conditional(h, model.null_action(len(batch))),
        model.abar,
        w=how.w,
        alpha=annealed(how.alpha, model.abar) if log_policy is not None else None,
        log_policy=log_policy,
        clip=how.clip,
    )
    injected = noise[1:] if how.eta > 0 else None
    return sample(predict, noise[0], model.abar, steps=how.steps, eta=how.eta, noise=injected, bound=BOUND)


def _answers(
    member: Member, batch: Batch, actions: Sequence[str], action: Tensor, z: Tensor, world: ImaginedWorld
) -> list[Answer]:
    """What the world says, by the manner's way of decoding."""
    narrator, decode = member.narrator, world.manner.decode
    if decode == "copy" and member.rivals is not None:
        found = _neighbours(member.rivals, member, batch, action)
        return [narrator.copied(int(index)) for index in found]
    if decode == "nearest":
        return narrator.nearest([environment.chronicle for environment in batch], actions, z.cpu())
    listed = narrator.listed([e.situation for e in batch], [e.allowed for e in batch], actions)
    questions = [
        Question(e.chronicle, act, offered, e.uniform("answer", act, len(e.chronicle.answers(act))))
        for e, act, offered in zip(batch, actions, listed, strict=True)
    ]
    return narrator.answers(questions, z)


def _neighbours(rivals: Rivals, member: Member, batch: Batch, action: Tensor) -> Tensor:
    """The most similar logged step for each episode; one that replays a logged episode is not answered by itself."""
    episodes = torch.from_numpy(member.narrator.lore.memory.episodes)
    own = torch.tensor([[environment.chronicle.episode] for environment in batch]) == episodes
    return rivals.knn.nearest(_histories(batch), action, own.to(action.device))


def _copied(told: Outcome, answers: Sequence[Answer], world: ImaginedWorld) -> Outcome:
    """The neighbour's own end and reward in the place of the heads'."""
    facts = world.ensemble.members[0].model.facts
    sources = [answer.candidate.source for answer in answers if answer.candidate is not None]
    ended = torch.tensor([float(source.ended) for source in sources if source is not None])
    reward = torch.tensor([source.reward for source in sources if source is not None])
    share = (reward - facts.reward_low) / (facts.reward_high - facts.reward_low)
    won = (share > 0).float() * ended
    return Outcome(ended, share, share, won) if len(ended) == len(answers) else told


def _may_end(environment: ImaginedEnvironment, action: str, answer: Answer, lore: Lore) -> bool:
    """Whether the log allows for an end here. What a goal takes is drawn once for each imagined world."""
    if answer.refused:
        return False
    missing = lore.ways.lacking(environment.chronicle, action)
    return not missing or environment.uniform("way", *sorted(missing)) < lore.ways.chance


def _settle(environment: ImaginedEnvironment, answer: Answer, world: ImaginedWorld) -> None:
    """Draw whether the episode is over, and what the step earned."""
    told, facts = environment.told, world.ensemble.members[0].model.facts
    assert told is not None
    if answer.refused:
        environment.settle(answer, 0.0, False, False)
        return
    act, step = environment.action or "", len(environment.chronicle.actions)
    last = step + 1 >= world.max_steps
    if world.manner.heads == "paper":
        ended = told.hazard.item() > 0.5
        share = told.reward_at_end.item() if ended or last else 0.0
    else:
        ended = environment.uniform("end", act, step) < told.hazard.item()
        share = (told.reward_at_end if ended else told.reward_on_way).item()
    won = ended and environment.uniform("won", act, step) < told.success.item()
    earns = facts.dense or ended or world.manner.heads == "paper"
    reward = facts.reward_low + share * (facts.reward_high - facts.reward_low) if earns else 0.0
    environment.settle(answer, reward, ended, won)


def _offer(member: Member, going: Sequence[tuple[ImaginedEnvironment, Answer]]) -> None:
    """What each episode that goes on allows next."""
    if not member.narrator.lore.lists or not going:
        return
    for environment, answer in going:
        environment.situation = member.narrator.lore.situation(
            environment.chronicle, answer.candidate, environment.allowed, environment.first
        )
    situations = [environment.situation for environment, _ in going if environment.situation is not None]
    for (environment, _), allowed in zip(going, member.narrator.allowed(situations), strict=True):
        environment.offer(allowed)


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    out = torch.zeros(len(rows), max(map(len, rows), default=0), dtype=torch.long)
    for row, ids in zip(out, rows, strict=True):
        row[: len(ids)] = torch.tensor(ids, dtype=torch.long)
    return out
