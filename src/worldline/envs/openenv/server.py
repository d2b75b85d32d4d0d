"""Any world as an OpenEnv server: what TRL, SkyRL, TorchRL and OpenEnv's own clients can play.

An action has one field, `text`. An observation has `text`, `goal` and `admissible`; its metadata has `task_id`,
`split`, `won`, `score`, `valid`, `truncated`. `reset` takes `split` and `index`, or `task`, or a `seed` by which a task
of the first split is chosen. There is no authentication: who reaches the port can play.
"""

import functools
import re
import secrets
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment as OpenEnvBase
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State

from worldline.types import Environment, Info, InputError, World


class TextAction(Action):  # type: ignore[misc]  # OpenEnv has no types
    """An action as text."""

    text: str


class TextObservation(Observation):  # type: ignore[misc]  # OpenEnv has no types
    """What an agent reads, and what it may do."""

    text: str
    goal: str = ""
    admissible: list[str] | None = None


class ServedEnvironment(OpenEnvBase):  # type: ignore[misc]  # OpenEnv has no types
    """The environment of one session."""

    SUPPORTS_CONCURRENT_SESSIONS = True
    REQUIRES_SINGLE_THREAD_EXECUTOR = True  # worlds share caches, and some a random state, between their episodes

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._environment: Environment | None = None
        self._state = State()
        self._over = False

    def reset(self, seed: int | None = None, episode_id: str | None = None, **which: Any) -> TextObservation:
        seed = secrets.randbelow(2**31) if seed is None else seed
        task = self._task(seed, which.get("task"), which.get("split"), which.get("index"))
        self._environment, self._over = self._world.make(), False
        text, info = self._environment.reset(seed=seed, task=task)
        self._state = State(episode_id=episode_id, step_count=0, task_id=task, goal=info.get("goal", ""))
        return self._observation(text, None, False, {**info, "task_id": task})

    def step(self, action: TextAction, timeout_s: float | None = None, **_: Any) -> TextObservation:
        if self._environment is None or self._over:
            raise RuntimeError("no episode is under way: reset first")
        text, reward, terminated, truncated, info = self._environment.step(action.text)
        self._state.step_count += 1
        truncated = not terminated and (truncated or self._state.step_count >= self._world.max_steps)
        self._over = terminated or truncated
        return self._observation(text, reward, self._over, info, truncated=truncated)

    @property
    def state(self) -> State:
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        name = self._world.name
        return EnvironmentMetadata(name=name, description=f"{name}, served by worldline", version=self._world.version)

    def list_splits(self) -> list[str]:
        return list(self._world.splits())

    def num_tasks(self, split: str) -> int:
        return self._world.num_tasks(split) if split in self._world.splits() else 0

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        if not 0 <= index < self.num_tasks(split):
            raise IndexError(f"split '{split}' has no task {index}")
        return {"id": self._world.get_task(split, index), "split": split, "index": index}

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[dict[str, Any]]:
        return [self.get_task(split, index) for index in range(self.num_tasks(split))[start:stop]]

    def list_tasks(self, split: str) -> list[dict[str, Any]]:
        return self.get_task_range(split)

    def _task(self, seed: int, task: str | None, split: str | None, index: int | None) -> str:
        if task is not None:
            return task
        split = split or self._world.splits()[0]
        return str(self.get_task(split, seed % self.num_tasks(split) if index is None else index)["id"])

    def _observation(
        self, text: str, reward: float | None, over: bool, info: Info, *, truncated: bool = False
    ) -> TextObservation:
        admissible = info.get("admissible")
        facts: dict[str, Any] = {key: value for key, value in info.items() if key not in ("admissible", "goal")}
        return TextObservation(
            text=text,
            goal=info.get("goal", ""),
            admissible=None if admissible is None or over else list(admissible),
            reward=reward,
            done=over,
            metadata={**facts, **({"truncated": True} if truncated else {})},
        )


def serve(world: World, *, host: str, port: int, sessions: int, started: Callable[[str], None]) -> None:
    """Serve `world` until a signal ends it; `started` hears the URL. Port 0 is any that is free."""
    app = create_fastapi_app(
        functools.partial(ServedEnvironment, world),
        TextAction,
        TextObservation,
        max_concurrent_envs=sessions,
        env_name=re.sub(r"[^\w.-]+", "-", world.name),
    )
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise InputError(f"--port {port}: cannot be opened at {host}: {error.strerror or error}") from None
        listening.listen(512)
        started(f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}")
        uvicorn.Server(uvicorn.Config(app, log_level="warning", ws_max_size=2**24)).run(sockets=[listening])
