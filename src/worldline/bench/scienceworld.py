"""ScienceWorld against recorded episodes: do their actions reach the recorded scores, and how fast is it?"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from worldline import envs
from worldline.bench import Figures
from worldline.config import Config, option, positional
from worldline.envs.jsonlines import rows_of
from worldline.types import Environment


class ScienceWorldBenchConfig(Config):
    """Replay recorded episodes (task_id, steps with action and score) and compare the scores they end with; then time
    steps with the list of valid actions read at each of them.
    """

    examples: ClassVar[tuple[str, ...]] = ("worldline bench scienceworld gold_trajectories.jsonl.gz --episodes 20",)

    episodes_file: Path = positional(help="recorded episodes: .jsonl or .jsonl.gz")
    episodes: int = option(0, help="how many to replay, spread over the file; 0 for all", ge=0)
    listed_steps: int = option(100, help="steps to time with the list of valid actions", ge=1)


Settings = ScienceWorldBenchConfig


def run(settings: ScienceWorldBenchConfig) -> Figures:
    recorded = [row for _, row in rows_of(settings.episodes_file)]
    chosen = recorded[:: max(1, len(recorded) // settings.episodes)] if settings.episodes else recorded
    environment = envs.load("scienceworld", options={"max_steps": 10_000}).make()
    environment.reset(task=chosen[0]["task_id"])  # the Java process starts here, outside of the clock
    steps, resets, playing, rows = 0, 0.0, 0.0, []
    for row in chosen:
        started = time.perf_counter()
        _, info = environment.reset(task=row["task_id"])
        ready = time.perf_counter()
        scores = list(_scores(environment, row))
        steps += len(scores)
        resets, playing = resets + ready - started, playing + time.perf_counter() - ready
        wanted = max(row["steps"][-1]["score"] / 100, info["score"])
        if abs(scores[-1] - wanted) > 1e-9:
            rows.append({"task": row["task_id"], "recorded": wanted, "replayed": scores[-1]})
    figures = {
        "episodes": float(len(chosen)),
        "reach_recorded_score": 1 - len(rows) / len(chosen),
        "steps": float(steps),
        "steps_per_second": steps / playing,
        "steps_per_second_with_list": _listing_speed(environment, chosen, settings.listed_steps),
        "reset_seconds": resets / len(chosen),
    }
    return Figures(figures, rows)


def _scores(environment: Environment, row: dict[str, Any]) -> Iterator[float]:
    for step in row["steps"]:
        _, _, terminated, _, info = environment.step(step["action"])
        yield info["score"]
        if terminated:
            return


def _listing_speed(environment: Environment, episodes: list[dict[str, Any]], count: int) -> float:
    done, spent = 0, 0.0
    while done < count:
        row = episodes[done % len(episodes)]
        _, info = environment.reset(task=row["task_id"])
        started = time.perf_counter()
        for step in row["steps"][:10]:
            len(info["admissible"] or ())
            _, _, terminated, _, info = environment.step(step["action"])
            done += 1
            if terminated:
                break
        spent += time.perf_counter() - started
    return done / spent
