"""The world model as an environment: the rollout engine that plays in reality plays here too (ADWM algorithm 2).

An imagined episode starts where a logged one did. At each step a latent is sampled by diffusion, decoded to text the
log supports, read back, and judged by the heads: the episode ends with the probability the hazard head gives, and
never later than the log's horizon. All waiting episodes are advanced in one batch (`begin` collects them). Every draw
is a function of (episode seed, what was asked), so policies given the same seed meet the same imagined world:
the same cupboard holds the same cup, whoever opens it and whenever.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from torch import Tensor

from worldline.adwm.admissibility import Situation
from worldline.adwm.chronicle import Chronicle
from worldline.adwm.diffusion import LogPolicy, annealed, guided, sample
from worldline.adwm.ensemble import BOUND, Ensemble, Member
from worldline.adwm.episodes import encoded
from worldline.adwm.model import State
from worldline.adwm.narrator import Answer, Question
from worldline.adwm.reading import Reader, texts
from worldline.types import Info, InputError, StepResult, Turn, WorldlineError, derive_seed


@dataclass(frozen=True)
class Sampling:
    """How next latents are drawn. The default is the exact conditional model; `PAPER` guides it as the paper does."""

    steps: int = 10
    eta: float = 0.0
    w: float = 0.0
    alpha: float = 0.0
    clip: float = 1.0


EXACT = Sampling()
PAPER = Sampling(steps=50, eta=1.0, w=0.5, alpha=0.1)
SPLIT = "log"


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


class ImaginedWorld:
    """Where imagined episodes come from: the tasks of the log."""

    def __init__(self, ensemble: Ensemble, sampling: Sampling = EXACT, guide: Guide | None = None) -> None:
        self.ensemble, self.sampling, self.guide = ensemble, sampling, guide
        facts = ensemble.members[0].model.facts
        self.name, self.version, self.family = f"imagined:{facts.env}", facts.env_version, facts.family
        self.max_steps = facts.horizon
        self.max_return = max(episode.episode_return for episode in ensemble.lore.episodes)
        self.support = Support()
        self._starts: dict[str, int] = {}
        for number, episode in enumerate(ensemble.lore.episodes):
            self._starts.setdefault(episode.task_id, number)
        self._tasks = list(self._starts)
        self._waiting: list[ImaginedEnvironment] = []

    def splits(self) -> tuple[str, ...]:
        return (SPLIT,)

    def num_tasks(self, split: str) -> int:
        return len(self._tasks)

    def get_task(self, split: str, index: int) -> str:
        return self._tasks[index]

    def make(self) -> "ImaginedEnvironment":
        return ImaginedEnvironment(self)

    def expert(self, turn: Turn) -> str:
        raise InputError(f"{self.name} has no expert of its own: name the environment's")

    def start(self, task: str) -> int:
        """The logged episode that `task` begins like."""
        if task not in self._starts:
            raise InputError(
                f"task '{task}' is not in the world model's log: it can only imagine what it has a start of"
            )
        return self._starts[task]

    def wait(self, environment: "ImaginedEnvironment") -> None:
        self._waiting.append(environment)

    @torch.no_grad()
    def advance(self) -> None:
        """One step for every waiting episode, a batch for each member."""
        waiting, self._waiting = self._waiting, []
        for index, member in enumerate(self.ensemble.members):
            mine = [environment for environment in waiting if environment.member == index]
            if mine:
                _advance(member, mine, self)


class ImaginedEnvironment:
    """One imagined episode."""

    def __init__(self, world: ImaginedWorld) -> None:
        self._world = world
        self.member = 0
        self.seed = 0
        self.state: State | None = None
        self.goal: Tensor | None = None
        self.allowed: tuple[str, ...] = ()
        self.first: tuple[str, ...] = ()
        self.situation: Situation | None = None
        self.chronicle: Chronicle
        self.reader: Reader
        self.action: str | None = None
        self.result: StepResult | None = None
        self.over = True

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        world = self._world
        self.seed = derive_seed(seed or 0, "imagined")
        task = task if task is not None else world.get_task(SPLIT, self.draw_integer("task", world.num_tasks(SPLIT)))
        self.member = self.draw_integer("member", len(world.ensemble.members))
        start = world.ensemble.lore.episodes[world.start(task)]
        observation = start.steps[0].observation
        self.chronicle = Chronicle(world.ensemble.lore.grammar, task, start.goal, observation)
        self.reader = Reader(world.ensemble.members[self.member].model, start.goal)
        self.state = self.situation = self.action = self.result = self.goal = None
        self.first = self.allowed = start.steps[0].admissible or ()
        self.over = False
        info: Info = {"admissible": self._listed(), "won": False, "score": 0.0}
        return observation, info | {"task_id": task, "goal": start.goal}

    def begin(self, action: str) -> None:
        """Queue `action`, to be answered together with everything else that waits."""
        if self.over:
            raise WorldlineError("the episode is over: reset() starts another")
        self.action, self.result = action, None
        self._world.wait(self)

    def step(self, action: str) -> StepResult:
        if self.action != action:
            self.begin(action)
        if self.result is None:
            self._world.advance()
        assert self.result is not None
        result, self.action, self.result = self.result, None, None
        return result

    def clone(self) -> Self:
        twin = type(self)(self._world)
        twin.__dict__ |= self.__dict__
        if not self.over:
            twin.chronicle, twin.reader = self.chronicle.copy(), self.reader.copy()
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
        self.chronicle.advance(self.action, answer.text)
        cut = not ended and len(self.chronicle.actions) >= self._world.max_steps
        self.over = ended or cut
        info: Info = {"won": won, "score": reward if ended else 0.0, "valid": answer.valid}
        self.result = (answer.text, reward, ended, cut, info)

    def offer(self, allowed: tuple[str, ...]) -> None:
        """Record what can be done next."""
        self.allowed = allowed
        assert self.result is not None
        self.result[4]["admissible"] = self._listed()

    def _listed(self) -> tuple[str, ...] | None:
        return self.allowed if self._world.ensemble.lore.lists else None


def _advance(member: Member, batch: Sequence[ImaginedEnvironment], world: ImaginedWorld) -> None:
    """Algorithm 2, one step: act, sample the next latent, decode, read back, judge."""
    model, narrator = member.model, member.narrator
    _begin(member, [environment for environment in batch if environment.state is None])
    actions = [environment.action or "" for environment in batch]
    done = [environment.reader.action(action) for environment, action in zip(batch, actions, strict=True)]
    action = encoded(model.encode_action, done, model.device)
    z = _sampled(member, batch, action, world)
    listed = narrator.listed([e.situation for e in batch], [e.first for e in batch], actions)
    questions = [
        Question(e.chronicle, act, offered, e.uniform("answer", act))
        for e, act, offered in zip(batch, actions, listed, strict=True)
    ]
    answers = narrator.answers(questions, z)
    evidence = world.ensemble.lore.evidence
    proof = [evidence.ids(e.chronicle, act, a.text) for e, act, a in zip(batch, actions, answers, strict=True)]
    seen = [environment.reader.observation(answer.text) for environment, answer in zip(batch, answers, strict=True)]
    after = encoded(model.encode_observation, seen, model.device)
    _remember(member, batch, after, action)
    h = torch.stack([environment.state.h for environment in batch if environment.state is not None])
    told = member.heads.read(model.outcome(after, h, _padded(proof).to(model.device)))
    for index, (environment, answer) in enumerate(zip(batch, answers, strict=True)):
        world.support.add(answer)
        act, step = actions[index], len(environment.chronicle.actions)
        ended = environment.uniform("end", act, step) < told.hazard[index].item()
        share = (told.reward_at_end if ended else told.reward_on_way)[index].item()
        won = ended and environment.uniform("won", act, step) < told.success[index].item()
        reward = model.facts.reward_low + share * (model.facts.reward_high - model.facts.reward_low)
        environment.settle(answer, reward, ended, won)
    _offer(member, [(e, a) for e, a in zip(batch, answers, strict=True) if not e.over])
    for environment in batch:
        if environment.result is not None and "admissible" not in environment.result[4]:
            environment.offer(())


def _begin(member: Member, batch: Sequence[ImaginedEnvironment]) -> None:
    """Read the first observation and the goal of new episodes."""
    if not batch:
        return
    model = member.model
    goals = model.encode_goal(texts([environment.reader.goal() for environment in batch], model.device))
    for index, environment in enumerate(batch):
        environment.goal = None if goals is None else goals[index]
    seen = [environment.reader.observation(environment.chronicle.observation) for environment in batch]
    z = encoded(model.encode_observation, seen, model.device)
    _remember(member, batch, z, model.null_action(len(batch)))


def _remember(member: Member, batch: Sequence[ImaginedEnvironment], z: Tensor, action: Tensor) -> None:
    """Move the histories on by an action and what was seen after it."""
    goals = [environment.goal for environment in batch if environment.goal is not None]
    tokens = member.model.step_tokens(z, action, torch.stack(goals) if goals else None)
    states = member.model.advance(tokens, [environment.state for environment in batch])
    for environment, state in zip(batch, states, strict=True):
        environment.state = state


def _sampled(member: Member, batch: Sequence[ImaginedEnvironment], action: Tensor, world: ImaginedWorld) -> Tensor:
    """z_{t+1} by guided diffusion, the noise keyed by what was done."""
    model, how = member.model, world.sampling
    h = torch.stack([environment.state.h for environment in batch if environment.state is not None])
    size = model.architecture.latent
    drawn = [
        environment.noise("latent", environment.action or "", shape=(1 + how.steps, size)) for environment in batch
    ]
    noise = torch.stack(drawn, 1).to(model.device)
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


def _offer(member: Member, going: Sequence[tuple[ImaginedEnvironment, Answer]]) -> None:
    """What each episode that goes on allows next."""
    if not member.narrator.lore.lists or not going:
        return
    for environment, answer in going:
        environment.situation = member.narrator.situation(
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
