"""The rollout engine: many episodes at once, one batched policy call per tick.

A policy that decides some turns before others has environments step meanwhile, and sees the next turns early.
A finished episode leaves the batch at once and the next one takes its place, so no finished episode is decoded.
Every random draw comes from the episode's own seed: the result does not depend on batch size, order or resume.
Storing, statistics and progress bars belong to the callers.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import TypeVar

from pydantic import ValidationError

from worldline.config import shortened
from worldline.policies.checked_logprobs import check_decision
from worldline.types import (
    Decision,
    EagerEnvironment,
    EagerPolicy,
    Environment,
    Exchange,
    Info,
    InputError,
    LazyActions,
    Policy,
    Step,
    Trajectory,
    Turn,
    World,
    WorldlineError,
    derive_seed,
)
from worldline.user_module import error_text, is_of_the_machine

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Episode:
    """An episode to be played. Two policies that play the same episode get the same task and the same draws."""

    id: str
    task: str
    split: str
    seed: int


def plan(world: World, split: str, count: int, *, seed: int, run: str, tasks: Sequence[int] = ()) -> list[Episode]:
    """`count` episodes over the split's tasks in canonical order (or over `tasks`), from the start again if needed."""
    order = tasks or range(world.num_tasks(split))
    if count and not order:
        raise InputError(f"{world.name}: split '{split}' has no tasks")
    return [
        Episode(
            id=f"{run}-{index:06d}",
            task=world.get_task(split, order[index % len(order)]),
            split=split,
            seed=derive_seed(seed, split, index),
        )
        for index in range(count)
    ]


@dataclass
class Rollout:
    """Plays episodes and yields each as it ends; counts what went wrong on the way.

    An environment that raises, or a decision with a `failure`, costs its episode only: it is played again, `retries`
    times, then counted as failed and left out. A policy that raises ends the rollout: what was yielded before is whole.
    A `forgiving` rollout loses the episode alone.
    """

    world: World
    policy: Policy
    batch_size: int = 64
    epsilon: float = 0.0
    policy_name: str = ""
    max_steps: int | None = None
    retries: int = 1
    retried: int = 0
    mishap: str = ""
    """The first error for which an episode was played again."""
    failed: list[str] = field(default_factory=list)
    forgiving: bool = False
    undecided: list[str] = field(default_factory=list)
    """Of the failed episodes, those in which the policy could not decide: why."""
    failing_task: str = ""
    """The first task at which the policy raised, where one turn alone makes it raise."""

    @property
    def name(self) -> str:
        """What the policy is called."""
        return self.policy_name or self.policy.name

    def play(self, episodes: Iterable[Episode]) -> Iterator[Trajectory]:
        waiting = iter(episodes)
        running = list(self._start(waiting, self.batch_size))
        while running:
            going: dict[int, _Running] = {}
            ended: dict[int, Trajectory] = {}
            try:
                eager = self._eager(running)
                for decisions in self._decided([episode.turn for episode in running], eager):
                    self._tick(running, decisions, going, ended)
                    if eager:
                        eager.foresee([going[place].turn for place in decisions if place in going])
            except Exception:
                yield from _by_place(ended)  # they are whole
                raise
            yield from _by_place(ended)
            # What is over is let go before others begin: it may hold a place of a full server.
            running = _by_place(going)
            running += self._start(waiting, self.batch_size - len(going))

    def _eager(self, running: list["_Running"]) -> EagerPolicy | None:
        """The policy, if it can decide while environments step.

        Eager environments get all actions first: they work on the batch at once, some with the policy's own model.
        """
        alone = all(episode.eager is None for episode in running)
        return self.policy if alone and isinstance(self.policy, EagerPolicy) else None

    def _decided(self, turns: list[Turn], eager: EagerPolicy | None) -> Iterator[dict[int, Decision]]:
        """The decisions by the places of their turns: all at once, or as an eager policy comes to them."""
        missing = len(turns)
        batches = eager.decide(turns) if eager else iter([self._all_decided(turns)])
        for decisions in batches:
            missing -= len(decisions)
            for decision in decisions.values():
                if not isinstance(decision, Decision):
                    raise InputError(
                        f"policy '{self.name}' returned {shortened(decision)}: `act` must return Decisions"
                    )
                if not isinstance(decision.action, str):
                    raise InputError(f"policy '{self.name}' returned the action {shortened(decision.action)}: no text")
                check_decision(self.name, decision)
            yield decisions
        if missing:
            raise InputError(f"policy '{self.name}' left {missing} of {len(turns)} turns undecided")

    def _all_decided(self, turns: list[Turn]) -> dict[int, Decision]:
        try:
            given = self.policy.act(turns)
            decisions = list(given) if isinstance(given, Iterator) else given
        except (Exception, SystemExit) as error:
            if isinstance(error, WorldlineError) or is_of_the_machine(error):
                raise
            if len(turns) > 1:
                middle = len(turns) // 2
                if not self.forgiving:
                    with suppress(Exception, SystemExit):  # to find the task: where one turn alone raises, it is noted
                        self._all_decided(turns[:middle])
                        self._all_decided(turns[middle:])
                    raise
                first, second = self._all_decided(turns[:middle]), self._all_decided(turns[middle:])
                return first | {middle + at: one for at, one in second.items()}
            self.failing_task = self.failing_task or turns[0].task
            if not self.forgiving:
                raise
            return {0: Decision("", "", failure=error_text(error))}
        if not isinstance(decisions, Sequence) or len(decisions) != len(turns):
            got = f"{len(decisions)} decisions" if isinstance(decisions, Sequence) else f"a {type(decisions).__name__}"
            raise InputError(f"policy '{self.name}' returned {got} for {len(turns)} turns: `act` must return a list")
        return dict(enumerate(decisions))

    def _tick(
        self,
        running: list["_Running"],
        decisions: dict[int, Decision],
        going: dict[int, "_Running"],
        ended: dict[int, Trajectory],
    ) -> None:
        """The episodes that were decided one step further; those that are over go into `ended`."""
        for place, decision in decisions.items():
            if not decision.failure:
                running[place].begin(decision)
        for place, decision in decisions.items():
            alive = self._advance(running[place], decision)
            if alive is None:
                continue
            if alive.over:
                ended[place] = alive.trajectory(self)
            else:
                going[place] = alive

    def _start(self, waiting: Iterator[Episode], places: int) -> Iterator["_Running"]:
        while places > 0 and (episode := next(waiting, None)) is not None:
            started = self._attempt(episode, attempt=0)
            if started is not None:
                places -= 1
                yield started

    def _attempt(self, episode: Episode, attempt: int) -> "_Running | None":
        while attempt <= self.retries:
            try:
                return _Running(episode, self.world, self.max_steps or self.world.max_steps, attempt)
            except (Exception, SystemExit) as error:
                attempt = self._excuse(episode, attempt, error)
        return None

    def _advance(self, running: "_Running", decision: Decision) -> "_Running | None":
        try:
            if decision.failure:
                raise WorldlineError(decision.failure)
            running.advance(decision)
        except (Exception, SystemExit) as error:
            again = self._attempt(running.episode, self._excuse(running.episode, running.attempt, error))
            self.undecided += [decision.failure] if again is None and decision.failure else []
            return again
        return running

    def _excuse(self, episode: Episode, attempt: int, error: Exception | SystemExit) -> int:
        """Count what an episode was lost to; the number of the next attempt."""
        if isinstance(error, WorldlineError) and error.exit_code == 2:
            raise error
        reason = f"{episode.id} (task {episode.task}): {error_text(error)}"
        if attempt < self.retries:
            self.retried += 1
            self.mishap = self.mishap or reason
        else:
            self.failed.append(reason)
        return attempt + 1


class _Running:
    """One episode under way."""

    def __init__(self, episode: Episode, world: World, max_steps: int, attempt: int) -> None:
        self.episode, self.max_steps, self.attempt = episode, max_steps, attempt
        self.world = world
        self.env: Environment = world.make()
        self.eager = self.env if isinstance(self.env, EagerEnvironment) else None  # the check is slow: once an episode
        self.observation, info = self.env.reset(seed=episode.seed, task=episode.task)
        self.admissible = info.get("admissible")
        self.goal = info.get("goal", "")
        self.steps: list[Step] = []
        self.history: list[Exchange] = []
        self.terminated = self.truncated = False
        self.success: bool | None = None
        self.score: float | None = None
        self.meta: dict[str, str] = {}
        self.turn = self._turn()

    @property
    def over(self) -> bool:
        return self.terminated or self.truncated

    def _turn(self) -> Turn:
        return Turn(
            family=self.world.family,
            goal=self.goal,
            observation=self.observation,
            admissible=self.admissible,
            history=tuple(self.history),
            seed=derive_seed(self.episode.seed, len(self.history)),
            task=self.episode.task,
        )

    def begin(self, decision: Decision) -> None:
        """Environments in other processes work on the whole batch at once."""
        if self.eager is not None:
            self.eager.begin(decision.action)

    def advance(self, decision: Decision) -> None:
        answer, reward, self.terminated, truncated, info = self.env.step(decision.action)
        self.steps.append(self._logged(decision, reward, valid=info.get("valid", True)))
        self.history.append(Exchange(self.observation, decision.action))
        self.observation, self.admissible = answer, info.get("admissible")
        self.truncated = not self.terminated and (truncated or len(self.steps) >= self.max_steps)
        self._judge(info)
        self.turn = self._turn()

    def _logged(self, decision: Decision, reward: float, *, valid: bool) -> Step:
        try:
            return Step(
                observation=self.observation,
                admissible=_listed(self.admissible),
                action=decision.action,
                response=decision.response,
                reward=reward,
                valid=valid,
                logprob=decision.logprob,
                token_ids=decision.token_ids,
                token_logprobs=decision.token_logprobs,
                entropy=decision.entropy,
                prompt_ids=decision.prompt_ids,
            )
        except ValidationError as error:
            raise _refusal(self.world, error) from None

    def _judge(self, info: Info) -> None:
        if "won" in info:
            self.success = info["won"]
        if "score" in info:
            self.score = info["score"]
        if "answerable" in info:
            self.meta["answerable"] = str(info["answerable"]).lower()
        if "halted" in info:
            self.meta["halted"] = str(info["halted"]).lower()

    def trajectory(self, rollout: Rollout) -> Trajectory:
        try:
            return Trajectory(
                id=self.episode.id,
                env=self.world.name,
                env_version=self.world.version,
                family=self.world.family,
                task_id=self.episode.task,
                split=self.episode.split,
                goal=self.goal,
                policy=rollout.name,
                epsilon=rollout.epsilon,
                seed=self.episode.seed,
                steps=tuple(self.steps),
                final_observation=self.observation,
                terminated=self.terminated,
                truncated=self.truncated,
                success=self.success,
                score=self.score,
                meta=self.meta,
            )
        except ValidationError as error:
            raise _refusal(self.world, error) from None


def _by_place(values: dict[int, Value]) -> list[Value]:
    return [values[place] for place in sorted(values)]


def _refusal(world: World, error: ValidationError) -> InputError:
    """One line on a value that no log can hold, and who returned it."""
    first = error.errors(include_url=False)[0]
    name = ".".join(map(str, first["loc"]))
    source = "the policy" if first["loc"][0] in {part.name for part in fields(Decision)} else "the environment"
    return InputError(
        f"{world.name}: {source} returned a wrong {name}: {first['msg']}, got {shortened(first['input'])}"
    )


def _listed(admissible: Sequence[str] | None) -> tuple[str, ...] | None:
    """The admissible list if there is one; a lazy one that nothing has read is not computed: None."""
    if admissible is None or (isinstance(admissible, LazyActions) and not admissible.computed):
        return None
    return tuple(admissible)
