"""An environment written with OpenEnv alone, as its users write one, and its server: `python openenv_corridor.py PORT`.

A corridor whose length the seed decides; the right end pays 1. That of seed 999 does not hold.
"""

import sys
from enum import StrEnum
from typing import Any

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_app


class Move(StrEnum):
    LEFT = "left"
    RIGHT = "right"


class CorridorAction(Action):
    move: Move


class CorridorObservation(Observation):
    position: int
    sign: str


class Corridor(Environment[CorridorAction, CorridorObservation, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self.seed, self.length, self.position, self._state = 0, 2, 0, State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> CorridorObservation:
        self.seed = seed or 0
        self.length, self.position = 2 + self.seed % 3, 0
        self._state = State(episode_id=episode_id)
        return CorridorObservation(position=0, sign=f"{self.length} to go")

    def step(self, action: CorridorAction, timeout_s: float | None = None, **_: Any) -> CorridorObservation:
        if self.seed == 999:
            raise RuntimeError("the floor gave way")
        self.position = max(0, self.position + (1 if action.move is Move.RIGHT else -1))
        self._state.step_count += 1
        over = self.position == self.length
        sign = f"{self.length - self.position} to go"
        return CorridorObservation(position=self.position, sign=sign, done=over, reward=float(over))

    @property
    def state(self) -> State:
        return self._state


if __name__ == "__main__":
    app = create_app(Corridor, CorridorAction, CorridorObservation, env_name="corridor", max_concurrent_envs=8)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
