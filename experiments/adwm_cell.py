"""Two parts of `adwm_real.py`: one cell of the paper's protocol, and what imagining costs beside really playing."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from adwm_parts import PAPER, Parts

from worldline.adwm.ensemble import Ensemble
from worldline.adwm.imagination import IMAGINATION_PRESETS
from worldline.adwm.soft_tokens.connect import connect
from worldline.adwm.value import Imagined, imagine, imagine_kernel
from worldline.evaluate import evaluate
from worldline.policies import mix
from worldline.rollout import Episode, Rollout
from worldline.types import Policy, Trajectory, derive_seed

BASELINES = ("dm", "is", "wis", "dr", "fqe")
"""The paper's."""


def cell(parts: Parts) -> dict[str, Any]:
    """One policy at five shares of chance, `plan.cell` rollouts each: the paper's preset, `adwm` and `wm` in words.

    `adwm-paper` reads soft tokens and is guided; its adapter is fitted here. The baselines are the paper's.
    """
    plan = parts.plan
    config = parts.evaluation(None, epsilon=plan.epsilons, estimators=BASELINES, certificate=False)
    evaluation = evaluate(config, {plan.swept: parts.source(plan.swept)})
    values = {
        name: [evaluation.value(plan.swept, name, epsilon).value for epsilon in plan.epsilons] for name in BASELINES
    }
    seconds: dict[str, float] = {}
    policy = parts.source(plan.swept).load(parts.world)
    paper = Ensemble.load(parts.model(PAPER), parts.given.device)
    begun = time.perf_counter()
    soft = connect(policy, paper, "soft", folder=parts.work / "adapters")
    seconds["adapter"] = time.perf_counter() - begun
    starts = drawn(paper.episodes, plan.cell)
    kernel = Ensemble.load(parts.model("0"), parts.given.device)

    def guided(epsilon: float) -> Imagined:
        preset = IMAGINATION_PRESETS["adwm-paper"]
        return imagine(paper, mix(soft.policy, epsilon), config=preset, guide=soft.guide, starts=starts, rollouts=1)

    def in_words(epsilon: float) -> Imagined:
        return imagine(paper, mix(policy, epsilon), starts=starts, rollouts=1)

    def in_kernel(epsilon: float) -> Imagined:
        return imagine_kernel(kernel, mix(policy, epsilon), starts=starts, rollouts=1)

    ways: dict[str, Callable[[float], Imagined]] = {"adwm-paper": guided, "adwm": in_words, "wm": in_kernel}
    for name, way in ways.items():
        begun = time.perf_counter()
        values[name] = [float(way(epsilon).values.mean()) for epsilon in plan.epsilons]
        seconds[name] = time.perf_counter() - begun
    truth = [parts.result(f"truth.{plan.at(epsilon)}").get("value") for epsilon in plan.epsilons]
    return {
        "policy": plan.swept,
        "epsilons": list(plan.epsilons),
        "truth": truth,
        "values": values,
        "imagining_seconds": seconds,
        "rollouts": len(starts),
        "adapter": soft.figures,
    }


def drawn(episodes: Sequence[Trajectory], tasks: int) -> list[Trajectory]:
    """The first episode of each of so many tasks, evenly over the log's tasks."""
    first: dict[str, Trajectory] = {}
    for episode in episodes:
        first.setdefault(episode.task_id, episode)
    chosen = np.linspace(0, len(first) - 1, min(tasks, len(first))).round().astype(int)
    return [[*first.values()][at] for at in chosen]


def timing(parts: Parts) -> dict[str, Any]:
    """The swept policy, each task once, in truth and in the kernel's world; each twice, as the first is a warm-up."""
    plan, world = parts.plan, parts.world
    policy = parts.source(plan.swept).load(world)
    kernel = Ensemble.load(parts.model("0"), parts.given.device)
    rows = []
    for attempt in range(2):
        begun = time.perf_counter()
        episodes = really_played(parts, policy, attempt)
        real = time.perf_counter() - begun
        begun = time.perf_counter()
        imagined = imagine_kernel(kernel, policy, rollouts=1, seed=attempt, batch_size=parts.given.batch_size)
        rows.append(
            {
                "real_seconds": real,
                "imagined_seconds": time.perf_counter() - begun,
                "real_steps": sum(map(len, episodes)),
                "imagined_steps": sum(map(len, imagined.trajectories)),
                "episodes": len(episodes),
            }
        )
    return {"policy": plan.swept, "attempts": rows}


def really_played(parts: Parts, policy: Policy, seed: int) -> list[Trajectory]:
    """Every task once, in the environment."""
    plan, world = parts.plan, parts.world
    player = Rollout(world, policy, batch_size=parts.given.batch_size)
    tasks = [world.get_task(plan.split, index) for index in range(plan.tasks)]
    wanted = [Episode(str(n), task, plan.split, derive_seed(seed, "timing", n)) for n, task in enumerate(tasks)]
    return list(player.play(wanted))
