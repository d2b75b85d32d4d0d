"""Your own environment and policy to a trained agent: collect, clone, train, play again.

python examples/own_environment.py [FOLDER]      # two to three minutes on two cores
"""

import sys
from pathlib import Path
from typing import Any

import worldline
from worldline.types import Turn


class Stairs:
    """Climb to the top floor. Text in, text out: this is all that an environment needs."""

    max_steps = 8
    tasks = tuple(f"floor-{floor}" for floor in range(2, 6))

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, dict[str, Any]]:
        self.top, self.floor = int((task or "floor-3").rpartition("-")[2]), 0
        return self._say(), {"goal": f"reach floor {self.top}", "admissible": ["up", "down"]}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.floor += {"up": 1, "down": -1}.get(action, 0)
        won = self.floor == self.top
        info = {"won": won, "valid": action in ("up", "down"), "admissible": ["up", "down"]}
        return self._say(), float(won), won, False, info

    def _say(self) -> str:
        return f"you are on floor {self.floor}"


def climber(turn: Turn) -> str:
    """A policy of your own: any function of a turn. It only knows the easier half of the tasks."""
    return "up" if turn.goal <= "reach floor 3" or turn.step % 3 else "down"


def run(folder: Path, epochs: int = 8, updates: int = 8, episodes: int = 80, group_size: int = 8) -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    world, me = "own_environment:Stairs", "own_environment:climber"
    log = folder / "log"
    print(worldline.collect(world, me, episodes=200, out=log, name="climber"))
    clone = worldline.sft(str(log), folder / "clone", epochs=epochs, vocabulary=300, context=256, batch_tokens=2048)
    model = str(clone.summary()["model"])
    print(worldline.collect(world, f"hf:{model}", episodes=episodes, name="clone", max_new_tokens=8))
    trained = worldline.train(
        world, model, folder / "paw", updates=updates, groups=4, group_size=group_size, batch_size=32,
        checkpoint_every=updates, rollout={"max_new_tokens": 8}, update={"lr": 3e-4}, evaluation={"every": 0},
    )  # fmt: skip
    print(worldline.collect(world, f"hf:{trained.checkpoint}", episodes=episodes, name="trained", max_new_tokens=8))


if __name__ == "__main__":
    here = Path(sys.argv[1] if len(sys.argv) > 1 else "own-environment")
    here.mkdir(parents=True, exist_ok=True)
    run(here)
