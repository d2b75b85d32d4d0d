"""The kernel model as an environment: `wm`, and `wm-bag` beside it. No network is used.

An imagined episode starts where a logged one of its task did, whichever its seed draws, and is cut at the task's step
budget. All waiting episodes are answered in one batch. Every draw is a function of the episode's seed, of the action
and of how often it had been done.
"""

from collections.abc import Sequence
from typing import Self, TypeVar

from worldline.adwm.log_world import SPLIT, LogWorld, Support, WaitingEnvironment
from worldline.adwm.model import LogFacts
from worldline.kernel.answers import KernelAnswer, StepRequest
from worldline.kernel.bag import Bag
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.model import KernelModel
from worldline.kernel.outcome_classes import StepOutcome
from worldline.types import Info, Trajectory, derive_seed

KERNEL, BAG = "wm", "wm-bag"
"""The estimators that play in here."""


class KernelWorld(LogWorld):
    """A world that the kernel model of a log answers, or the bag of its steps."""

    def __init__(
        self, model: KernelModel, facts: LogFacts, *, bag: bool = False, starts: Sequence[Trajectory] | None = None
    ) -> None:
        super().__init__("imagined", facts, model.log.episodes, starts, lists=model.lists)
        self.kernel = model
        self.model: KernelModel | Bag = Bag(model.log) if bag else model
        self.support = Support()

    def make(self) -> "KernelEnvironment[KernelWorld]":
        return KernelEnvironment(self)

    def advance(self) -> None:
        """One step for every waiting episode."""
        waiting, self.waiting = self.waiting, []
        answers = self.model.answer([environment.request() for environment in waiting])
        for environment, answer in zip(waiting, answers, strict=True):
            environment.receive(answer)


W = TypeVar("W", bound=KernelWorld)


class KernelEnvironment(WaitingEnvironment[W]):
    """One imagined episode."""

    state: EpisodeState
    budget = 0
    """Steps after which it is cut."""
    collected = 0.0
    """The sum of its rewards so far."""
    own = -1
    """The logged episode that is replayed, whose record is left out; -1: none."""
    unsupported: frozenset[str] = frozenset()
    """Actions that were answered by what the log does not support: nor is what is answered to them again."""

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        world = self._world
        self.seed = derive_seed(seed or 0, "imagined")
        task = task if task is not None else world.get_task(SPLIT, int(self.uniform("task") * world.num_tasks(SPLIT)))
        starts = world.starts(task)
        return self.start_as(starts[int(self.uniform("start") * len(starts))])

    def start_as(self, start: Trajectory) -> tuple[str, Info]:
        """Begin where this logged episode did."""
        self.unsupported, self.collected = frozenset(), 0.0
        self.budget = self._world.facts.budget(start.task_id)
        language, first = self._world.kernel.log.language, start.steps[0]
        self.state = EpisodeState(language, start.task_id, start.goal, first.observation, first.admissible)
        return self._began(start.task_id, start)

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
