"""How fast the embedded environments step, and what batching buys the rollout engine."""

import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from worldline import envs, policies
from worldline.bench import Figures
from worldline.config import Config, option
from worldline.policies import PolicyConfig
from worldline.rollout import Rollout, plan
from worldline.types import Policy, Trajectory, World


class EnvBenchConfig(Config):
    """Steps per second of the embedded environments under the random policy, every admissible list read, on one
    core; then the rollout engine with a small language model, a full batch against one episode at a time.
    """

    examples: ClassVar[tuple[str, ...]] = ("worldline bench env", "worldline bench env --model runs/clone/model --json")

    steps: int = option(20_000, help="environment steps to time per environment", ge=100)
    batch_size: int = option(64, help="the full batch", ge=2)
    episodes: int = option(128, help="episodes of the language model at the full batch", ge=1)
    model: Path | None = option(None, help="a causal LM folder; default: a small clone trained for half a minute")
    seed: int = option(0, help="decides tasks and draws")


Settings = EnvBenchConfig


def run(settings: EnvBenchConfig) -> Figures:
    rows = [
        {"environment": name, "steps_per_second": _engine_speed(envs.load(name), settings)}
        for name in ("household", "shop", "searchqa")
    ]
    figures = {f"{row['environment']}_steps_per_second": float(row["steps_per_second"]) for row in rows}
    return Figures({**figures, **_batching(settings)}, rows)


def _engine_speed(world: World, settings: EnvBenchConfig) -> float:
    """Environment only: the policy is a random draw from the admissible list, which is read at every step."""
    draw = random.Random(settings.seed)
    env, split = world.make(), world.splits()[0]
    steps, task, started = 0, 0, time.perf_counter()
    while steps < settings.steps:
        _, info = env.reset(seed=task, task=world.get_task(split, task % world.num_tasks(split)))
        task, over = task + 1, False
        while not over:
            _, _, terminated, truncated, info = env.step(draw.choice(info["admissible"] or ("look",)))
            over = terminated or truncated
            steps += 1
    return steps / (time.perf_counter() - started)


def _batching(settings: EnvBenchConfig) -> dict[str, float]:
    """Generated tokens per second of the same episodes, at the full batch and one by one."""
    world = envs.load("household")
    with TemporaryDirectory() as folder:
        path = settings.model or _briefly_trained(Path(folder) / "clone")
        policy = policies.load(f"hf:{path}", world, PolicyConfig())
        full = _token_speed(world, policy, settings.batch_size, settings.episodes, settings.seed)
        single = _token_speed(world, policy, 1, max(2, settings.episodes // 32), settings.seed)
    return {
        "tokens_per_second_batched": full,
        "tokens_per_second_one_by_one": single,
        "batched_over_one_by_one": full / single,
    }


def _token_speed(world: World, policy: Policy, batch_size: int, episodes: int, seed: int) -> float:
    wanted = plan(world, world.splits()[0], episodes, seed=seed, run="bench")
    started = time.perf_counter()
    played = list(Rollout(world, policy, batch_size=batch_size).play(wanted))
    return sum(map(_generated, played)) / (time.perf_counter() - started)


def _generated(trajectory: Trajectory) -> int:
    return sum(len(step.token_ids or ()) for step in trajectory.steps)


def _briefly_trained(folder: Path) -> Path:
    """A small clone that has learned at least to say one action and stop: speed depends on that, not on its success."""
    from worldline.sft import SftConfig, sft

    sft(SftConfig(source="household", out=folder, episodes=400, epochs=1, checkpoints=1))
    return folder / "model"
