"""The kernel model as an environment: `wm`, and `wm-bag` beside it. No network is used.

An imagined episode starts where a logged one of its task did, whichever its seed draws, and is cut at the task's step
budget. All waiting episodes are answered in one batch. Every draw is a function of the episode's seed, of the action
and of how often it had been done. What is imagined otherwise begins and waits in the same way: with a diffusion model
(`world_model_env`), in words (`rivals.language_model`), with halts (`pessimistic_world`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from worldline.adwm.logged_success import LoggedSuccess
from worldline.adwm.model import LogFacts
from worldline.kernel.answers import KernelAnswer, StepRequest
from worldline.kernel.bag import Bag
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.model import KernelModel
from worldline.kernel.outcome_classes import StepOutcome
from worldline.types import Info, InputError, StepResult, Trajectory, Turn, WorldlineError, derive_seed, uniform

KERNEL, BAG = "wm", "wm-bag"
"""The estimators that play in here."""
SPLIT = "log"


@dataclass
class Support:
    """How well the log supports what was imagined, by how answers were made of logged ones."""

    near: Counter[str] = field(default_factory=Counter)
    unsupported: int = 0

    def count(self, near: str, *, supported: bool) -> None:
        """One more answer, where it came from and whether the log supports it."""
        self.near[near] += 1
        self.unsupported += not supported

    @property
    def steps(self) -> int:
        return self.near.total()


class KernelWorld:
    """A world that the kernel model of a log answers, or the bag of its steps.

    Episodes begin as those of the log, or those of `starts`.
    """

    def __init__(
        self, model: KernelModel, facts: LogFacts, *, bag: bool = False, starts: Sequence[Trajectory] | None = None
    ) -> None:
        self.facts, self.lists = facts, model.lists
        self.name, self.version, self.family = f"imagined:{facts.env}", facts.env_version, facts.family
        self.max_steps = facts.horizon
        self.kernel = model
        self.model: KernelModel | Bag = Bag(model.log) if bag else model
        self.support = Support()
        self.logged_success = LoggedSuccess(model.log.episodes)
        returns = [episode.episode_return for episode in model.log.episodes]
        self.max_return, self.min_return = max(returns), min(returns)
        self.episodes = model.log.episodes if starts is None else tuple(starts)
        """Where imagined ones begin."""
        self._starts: dict[str, list[Trajectory]] = {}
        for episode in self.episodes:
            self._starts.setdefault(episode.task_id, []).append(episode)
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

    def starts(self, task: str) -> list[Trajectory]:
        """The logged episodes of `task`."""
        if task not in self._starts:
            raise InputError(f"task '{task}' is not in the log: a world model only goes on from a start it has")
        return self._starts[task]

    def member_of(self, seed: int) -> int:
        """The member of an ensemble that imagines the episode with this seed; the kernel model has none."""
        return 0

    def make(self) -> "KernelEnvironment[KernelWorld]":
        return KernelEnvironment(self)

    def advance(self) -> None:
        """One step for every waiting episode."""
        waiting, self.waiting = self.waiting, []
        answers = self.model.answer([environment.request() for environment in waiting])
        for environment, answer in zip(waiting, answers, strict=True):
            environment.receive(answer)


W = TypeVar("W", bound=KernelWorld)


class KernelEnvironment(Generic[W]):
    """One imagined episode. `begin` queues an action; the first `step` that needs a result has all of them answered."""

    state: EpisodeState
    budget = 0
    """Steps after which it is cut."""
    collected = 0.0
    """The sum of its rewards so far."""
    own = -1
    """The logged episode that is replayed, whose record is left out; -1: none."""
    unsupported: frozenset[str] = frozenset()
    """Actions that were answered by what the log does not support: nor is what is answered to them again."""

    def __init__(self, world: W) -> None:
        self._world = world
        self.seed = 0
        self.allowed: tuple[str, ...] = ()
        """The actions that are admissible now."""
        self.action: str | None = None
        self.result: StepResult | None = None
        self.over = True

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        world = self._world
        self.seed = derive_seed(seed or 0, "imagined")
        task = task if task is not None else world.get_task(SPLIT, int(self.uniform("task") * world.num_tasks(SPLIT)))
        starts = world.starts(task)
        return self.start_as(starts[int(self.uniform("start") * len(starts))])

    def start_as(self, start: Trajectory) -> tuple[str, Info]:
        """Begin where this logged episode did."""
        task, goal, first = start.task_id, start.goal, start.steps[0]
        self.action, self.result, self.over = None, None, False
        self.unsupported, self.collected = frozenset(), 0.0
        self.budget = self._world.facts.budget(task)
        self.state = EpisodeState(self._world.kernel.log.language, task, goal, first.observation, first.admissible)
        self.allowed = first.admissible or ()
        info: Info = {"admissible": self._listed(), "won": False, "score": 0.0, "task_id": task, "goal": goal}
        return first.observation, info

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

    def uniform(self, *purpose: int | str) -> float:
        """A number in [0, 1) that depends on the episode's seed and on what it is for, and on nothing else."""
        return uniform(self.seed, *purpose)

    def clone(self) -> Self:
        twin = type(self)(self._world)
        twin.__dict__ |= self.__dict__
        if not self.over:
            twin.state = self.state.copy()
        return twin

    def request(self) -> StepRequest:
        """The pending action, with what decides the answer to it."""
        action = self.action or ""
        key = action, self.state.action_counts[action]
        turn = derive_seed(self.seed, "turn", *key) % 2**20
        draws = self.uniform("answer", *key), self.uniform("outcome", *key)
        return StepRequest(self.state, action, *draws, turn, self.own)

    def receive(self, answer: KernelAnswer) -> None:
        """Record the answer to the pending action."""
        action = answer.description.action
        self.unsupported |= frozenset() if answer.supported else {action}
        self._world.support.count(answer.kind, supported=action not in self.unsupported)
        outcome, state = answer.outcome, self.state
        valid = state.offered(answer.description.action)
        state.likely_listed = answer.log_odds
        state.advance(answer.description, answer.text, outcome.reward, answer.listed)
        self.collected += outcome.reward
        cut = not outcome.ended and state.step >= self.budget
        self.over = outcome.ended or cut
        self.allowed = () if self.over else (answer.listed or ())
        info: Info = {
            "won": self._won(outcome, cut=cut),
            "valid": valid,
            "admissible": self._listed(),
        }
        logged = self._world.logged_success
        if logged.unended is False or not logged.judged:  # else a score of 0 for what does not end would be made up
            info["score"] = outcome.reward if outcome.ended else 0.0
        self.result = (self.shown_as(answer.text), outcome.reward, outcome.ended, cut, info)

    def _won(self, outcome: StepOutcome, *, cut: bool) -> bool | None:
        """Success as the log judges it; None where it does not."""
        logged = self._world.logged_success
        if outcome.ended:
            return logged.of_ended(success=outcome.success)
        return logged.of_cut(self.collected, self.uniform("success")) if cut else logged.unended

    def shown_as(self, text: str) -> str:
        """The observation as the agent gets it."""
        return text

    def _listed(self) -> tuple[str, ...] | None:
        return self.allowed if self._world.lists else None
