"""An OpenEnv server as a world: `openenv:http://HOST:PORT`.

Each episode has a session of its own over the server's WebSocket. Tasks are those that the server lists; else seeds:
task "7" is `reset(seed=7)`. The URL comes from the command line or from Python, never from data.
"""

import importlib.util
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Self
from urllib.parse import urlsplit

from worldline.config import Config, option, suggest
from worldline.envs.openenv.service import Service
from worldline.envs.openenv.session import ActionRefusedError, ServerSession, ServerSessions
from worldline.envs.openenv.wording import NotAnActionError, Wording, wording_of
from worldline.envs.seeded_tasks import SeededTasks
from worldline.envs.worker_process import EpisodeLostError
from worldline.post import public
from worldline.types import Info, InputError, StepResult, Turn, WorldlineError


class OpenEnvConfig(Config):
    """An environment behind an OpenEnv server."""

    action_field: str = option(
        "",
        help="the field that an action's text fills, dotted; json: the text is the whole action; default: the only one",
    )
    action: dict[str, Any] = option({}, help="fields that are the same in every action")
    observation_field: str = option("", help="the field that is the observation's text, dotted; default: all fields")
    reset: dict[str, Any] = option({}, help="passed to every reset")
    tasks: int = option(1_000, help="how many seeds count as tasks, where the server lists none", ge=1)
    won_reward: float | None = option(
        None, help="an episode that ends with a reward of at least this is a success; default: what the server says"
    )
    family: str = option("generic", help="wording of the prompts: household, shop, search or generic")
    max_steps: int = option(50, help="step budget of an episode; the server may have a smaller one", ge=1)
    max_return: float = option(1.0, help="the best return an episode can have", gt=0)
    min_return: float | None = option(None, help="the worst return; default: as far below 0 as the best is above")
    timeout: float = option(60.0, help="seconds to wait for an answer", gt=0)
    patience: float = option(30.0, help="seconds to wait for a server that cannot be reached", ge=0)


class OpenEnvWorld(SeededTasks):
    """Episodes of one server."""

    def __init__(self, url: str, config: OpenEnvConfig) -> None:
        super().__init__(config.tasks)
        self.name = f"openenv:{public(url)}"
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise InputError(f"{self.name}: give a server as openenv:http://HOST:PORT")
        if importlib.util.find_spec("openenv") is None:
            raise InputError("openenv:URL needs OpenEnv: pip install 'worldline[openenv]'")
        service = Service(self.name, url, config.timeout)
        self.config = config
        self.wording = wording_of(
            self.name, service.action_schema(), config.action_field, config.action, config.observation_field
        )
        self.version, self.family = service.version(), config.family
        self.max_steps = config.max_steps
        self.max_return, self.min_return = config.max_return, config.min_return
        self._listed = service.tasks()
        self._sessions = ServerSessions(self.name, url, timeout=config.timeout, patience=config.patience)
        weakref.finalize(self, self._sessions.close)

    def splits(self) -> tuple[str, ...]:
        return tuple(self._listed.sizes) if self._listed else super().splits()

    def num_tasks(self, split: str) -> int:
        if self._listed is None:
            return super().num_tasks(split)
        if split not in self._listed.sizes:
            raise InputError(f"{self.name} has no split '{split}'{suggest(split, list(self._listed.sizes))}")
        return self._listed.sizes[split]

    def get_task(self, split: str, index: int) -> str:
        if self._listed is None or not 0 <= index < self.num_tasks(split):
            return super().get_task(split, index)
        return self._listed.get_task(split, index)

    def make(self) -> "OpenEnvEnvironment":
        return OpenEnvEnvironment(self, self._sessions)

    def expert(self, turn: Turn) -> str:
        raise InputError(f"{self.name} has no expert: choose another policy")

    def start(self, seed: int | None, task: str | None) -> dict[str, Any]:
        """What `reset` is sent."""
        if task is None:
            return {**self.config.reset, "seed": seed or 0}
        if self._listed is None:
            return {**self.config.reset, "seed": int(task)}
        return {**self.config.reset, "seed": seed or 0, **self._listed.place(task)}


class OpenEnvEnvironment:
    """One episode on a server. It has a session from `reset` until it is over or lost."""

    def __init__(self, world: OpenEnvWorld, sessions: ServerSessions) -> None:
        self._world, self._sessions = world, sessions
        self._session: ServerSession | None = None
        self._leave: Callable[[], Any] = lambda: None
        self._start: tuple[int | None, str | None] = (None, None)
        self._actions: list[str] = []
        self._observation = ""
        self._admissible: Any = None
        self._begun: tuple[str, Future[Any]] | None = None

    @property
    def _wording(self) -> Wording:
        return self._world.wording

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        self._start, self._actions, self._begun = (seed, task), [], None
        arguments = self._world.start(seed, task)
        self._leave()
        self._session = session = self._sessions.take()
        self._leave = weakref.finalize(self, self._sessions.give_back, session)
        result = self._answer(session, session.reset(arguments))
        given, metadata = _parts(result)
        self._observation = self._wording.observation(given, metadata)
        info = self._wording.info(given, metadata)
        self._admissible = info.get("admissible")
        named: Info = {"task_id": task or str(seed or 0), "goal": self._wording.goal(given, metadata)}
        return self._observation, {**info, **named}

    def begin(self, action: str) -> None:
        """Send `action` ahead, so that the server works on it until `step(action)` wants the result."""
        try:
            self._begun = action, self._running().send(self._wording.action(action))
        except NotAnActionError:
            self._begun = None  # `step` answers it

    def step(self, action: str) -> StepResult:
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] != action:
            raise WorldlineError("step() got another action than begin()")
        try:
            session = self._running()
            result = self._answer(session, begun[1] if begun else session.send(self._wording.action(action)))
        except (NotAnActionError, ActionRefusedError) as error:
            return str(error), 0.0, False, False, {"admissible": self._admissible, "valid": False}
        self._actions.append(action)
        return self._result(result)

    def clone(self) -> Self:
        """Another session that is led to the same place; EpisodeLostError where the server does not repeat itself."""
        other = type(self)(self._world, self._sessions)
        other.reset(seed=self._start[0], task=self._start[1])
        for action in self._actions:
            other.step(action)
        if other._observation != self._observation:
            raise EpisodeLostError(f"{self._world.name}: replaying the episode for a copy came out differently")
        return other

    def _running(self) -> ServerSession:
        if self._session is None:
            raise EpisodeLostError(f"{self._world.name}: no episode is under way: reset first")
        return self._session

    def _answer(self, session: ServerSession, answer: "Future[Any]") -> Any:
        """What the server answered. What is lost leaves its session at once: the server may have few."""
        try:
            return session.wait(answer)
        except WorldlineError:
            self._session = None
            self._leave()
            raise

    def _result(self, result: Any) -> StepResult:
        given, metadata = _parts(result)
        info = self._wording.info(given, metadata)
        self._observation, self._admissible = self._wording.observation(given, metadata), info.get("admissible")
        reward, over = float(result.reward or 0.0), bool(result.done)
        if over:
            self._session = None
            self._leave()
        if self._world.config.won_reward is not None:
            info["won"] = over and reward >= self._world.config.won_reward
        truncated = over and metadata.get("truncated") is True
        return self._observation, reward, over and not truncated, truncated, info


def _parts(result: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """An answer's observation and metadata; both are the server's, so nothing is taken for granted."""
    given = result.observation if isinstance(result.observation, dict) else {"observation": result.observation}
    metadata = given.get("metadata") or getattr(result, "metadata", None)
    return given, metadata if isinstance(metadata, dict) else {}
