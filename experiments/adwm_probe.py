"""Two scripted agents that show where a world model is wrong: an expert, who wins, and a chooser, who seldom does.

An expert shows what cannot be won in the model, a chooser what is won too easily. The chooser draws from the list: the
more words of the goal an action has, the likelier, and less for each time that it was done. Both are played in truth
and in the model `wm` of a log, each task once, and imagined successes are played again in truth.

    python experiments/adwm_probe.py alfworld RUNS/wm RESULT.json --data GAMES --split valid_seen --max-steps 30
"""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from adwm_episodes import consistency

from worldline import envs, files, policies
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.kernel_env import SPLIT, KernelWorld
from worldline.policies import mix
from worldline.policies.mixing import pick
from worldline.rollout import Episode, Rollout
from worldline.types import Decision, Policy, Trajectory, Turn, World, derive_seed, uniform

GOAL, AGAIN = 2.0, 1.5
"""What a word of the goal counts for an action, and what each time counts against it that it was done."""
_WORD = re.compile(r"[^\W\d_]{3,}")


class Chooser:
    """Draws from the list by words of the goal, at some temperature."""

    def __init__(self, temperature: float) -> None:
        self._temperature, self.name = temperature, f"chooser at {temperature:g}"

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        out = []
        for turn in turns:
            listed = list(dict.fromkeys(turn.admissible or ()))
            log_chances = self._log_chances(turn, listed)
            chosen = pick(np.exp(log_chances).tolist(), uniform(turn.seed, "chooser"))
            out.append(Decision(listed[chosen], listed[chosen], float(log_chances[chosen])))
        return out

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
        out = []
        for turn, scored in zip(turns, actions, strict=True):
            listed = list(dict.fromkeys(turn.admissible or ()))
            chances = dict(zip(listed, self._log_chances(turn, listed).tolist(), strict=True))
            out.append(np.array([chances.get(action, -np.inf) for action in scored]))
        return out

    def _log_chances(self, turn: Turn, listed: Sequence[str]) -> npt.NDArray[np.float64]:
        wanted = set(_WORD.findall(turn.goal.lower()))
        done = Counter(exchange.action for exchange in turn.history)
        words = [wanted.intersection(_WORD.findall(action.lower())) for action in listed]
        scores = [GOAL * len(some) - AGAIN * done[action] for some, action in zip(words, listed, strict=True)]
        scaled = np.array(scores) / self._temperature
        out: npt.NDArray[np.float64] = scaled - np.logaddexp.reduce(scaled)
        return out


def probe(
    world: World, imagined: World, split: str, tasks: Sequence[str], policy: Policy, steps: int
) -> dict[str, Any]:
    """Success in truth and in the model, and how many of the imagined successes are real."""
    real, made_up = (_played(*one, tasks, policy, steps) for one in ((world, split), (imagined, SPLIT)))
    return {
        "episodes": len(tasks),
        "truth": float(np.mean([bool(episode.success) for episode in real])),
        "imagined": float(np.mean([bool(episode.success) for episode in made_up])),
        **consistency(world, made_up),
    }


def _played(world: World, split: str, tasks: Sequence[str], policy: Policy, steps: int) -> list[Trajectory]:
    wanted = [Episode(str(n), task, split, derive_seed(0, "probe", n)) for n, task in enumerate(tasks)]
    return list(Rollout(world, policy, batch_size=len(tasks), max_steps=steps).play(wanted))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("env", help="the environment that the log is of; it needs an expert and lists")
    parser.add_argument("world_model", type=Path, help="the folder of `worldline fit`")
    parser.add_argument("result", type=Path, help="the JSON to write")
    parser.add_argument("--data", type=Path, help="folder of the games")
    parser.add_argument("--split", default="train", help="where the log's tasks are")
    parser.add_argument("--max-steps", type=int, default=30, help="of an episode")
    given = parser.parse_args()
    world = envs.load(given.env, given.data, {"max_steps": given.max_steps})
    ensemble = Ensemble.load(given.world_model, "cpu")
    imagined = KernelWorld(ensemble.kernel, ensemble.facts)
    tasks = sorted({episode.task_id for episode in ensemble.kernel.log.episodes})
    expert = policies.load("expert", world)
    agents: dict[str, Policy] = {
        "expert": expert,
        **{f"expert@{epsilon:g}": mix(expert, epsilon) for epsilon in (0.3, 0.6)},
        **{chooser.name: chooser for chooser in (Chooser(0.5), Chooser(1.0))},
    }
    rows = {}
    for name, agent in agents.items():
        rows[name] = probe(world, imagined, given.split, tasks, agent, given.max_steps)
        print(name, rows[name], flush=True)
    files.write_json(given.result, {"env": given.env, "episodes": len(ensemble.kernel.log.episodes), "agents": rows})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
