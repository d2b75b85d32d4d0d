"""TextArena's single-player games as worlds: `textarena:ID`, such as `textarena:TowerOfHanoi-v0`.

Tasks are seeds: task "7" is `reset(seed=7)`. TextArena shows the whole game so far at every turn; a step's observation
is what is new. The reward comes at the end, and 1 is a win. Its games draw from Python's global generator; each episode
keeps a state of its own, so that episodes played at the same time do not change each other.
"""

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from worldline.config import Config, option, suggest
from worldline.envs.seeded_tasks import SeededTasks
from worldline.types import Info, InputError, StepResult, Turn


class TextArenaConfig(Config):
    """A game of TextArena."""

    tasks: int = option(1_000, help="how many seeds count as tasks", ge=1)
    max_steps: int = option(50, help="step budget of an episode", ge=1)
    kwargs: dict[str, Any] = option({}, help="passed to textarena.make")


class TextArenaWorld(SeededTasks):
    """Episodes of one game."""

    version = ""
    family = "generic"
    max_return = 1.0

    def __init__(self, game: str, config: TextArenaConfig) -> None:
        super().__init__(config.tasks)
        self.name = f"textarena:{game}"
        self.config = config
        self.max_steps = config.max_steps
        self._game = game
        _made(game, config.kwargs)  # a wrong name or setting is refused at once

    def make(self) -> "TextArenaEnvironment":
        return TextArenaEnvironment(_made(self._game, self.config.kwargs))

    def expert(self, turn: Turn) -> str:
        raise InputError(f"{self.name} has no expert: choose another policy")


class TextArenaEnvironment:
    """One game with one player."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._seen = ""
        self._state: Any = None

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        seed = int(task) if task is not None else seed or 0
        self._seen, self._state = "", random.Random(seed).getstate()
        with self._own_randomness():
            self._inner.reset(num_players=1, seed=seed)
            opening = self._news()
        return opening, {"goal": "", "admissible": None, "task_id": str(seed)}

    def step(self, action: str) -> StepResult:
        with self._own_randomness():
            done, _ = self._inner.step(action=action)
            if not done:
                return self._news(), 0.0, False, False, {}
            rewards, about = self._inner.close()
        reward = float((rewards or {}).get(0, 0.0))
        ending = (about or {}).get(0) or {}
        info: Info = {"won": reward >= 1.0, "valid": not ending.get("invalid_move", False)}
        return str(ending.get("reason") or "the game is over"), reward, True, False, info

    def clone(self) -> Self:
        return copy.deepcopy(self)

    def _news(self) -> str:
        """What the player is shown beyond what it was shown before."""
        _, shown = self._inner.get_observation()
        whole = str(shown)
        news = whole.removeprefix(self._seen)
        self._seen = whole
        return news.strip()

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        outside = random.getstate()
        random.setstate(self._state)
        try:
            yield
        finally:
            self._state = random.getstate()
            random.setstate(outside)


def _made(game: str, kwargs: dict[str, Any]) -> Any:
    try:
        import textarena
        from textarena.envs.registration import ENV_REGISTRY
    except ModuleNotFoundError:
        raise InputError("textarena:ID needs TextArena: pip install 'worldline[textarena]'") from None
    if game not in ENV_REGISTRY:
        raise InputError(f"textarena has no game '{game}'{suggest(game, list(ENV_REGISTRY))}")
    try:
        made = textarena.make(game, **kwargs)
        made.reset(num_players=1, seed=0)
    except Exception as error:  # of any of its games: one for two players, one that needs a download
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"textarena:{game}: cannot be played alone and offline: {reason}") from None
    return made
