"""Parts of `adwm_real.py`: one cell of the paper's protocol, and what imagining costs beside really playing."""

import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from adwm_parts import PAPER, Parts

from worldline.adwm.ensemble import Ensemble
from worldline.adwm.imagination import IMAGINATION_PRESETS
from worldline.adwm.kernel_env import KernelWorld
from worldline.adwm.soft_tokens.connect import PolicyInterfaceConfig, connect
from worldline.adwm.value import imagine
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.bench.imagine import Sweep
from worldline.evaluate import evaluate
from worldline.policies.language_model.hf import HFPolicy
from worldline.rollout import Episode, Rollout
from worldline.types import InputError, Policy, Trajectory, World, derive_seed

BASELINES = ("dm", "is", "wis", "dr", "fqe")
"""The paper's."""


def baselines(parts: Parts) -> dict[str, Any]:
    """What the paper's estimators without a world model say of one policy at five shares of chance."""
    plan = parts.plan
    if plan.lists:
        config = parts.evaluation(None, epsilon=plan.epsilons, estimators=BASELINES, certificate=False)
        evaluation = evaluate(config, {plan.swept: parts.source(plan.swept)})
        places = [(plan.swept, epsilon) for epsilon in plan.epsilons]
    else:
        config = parts.evaluation(None, estimators=BASELINES, certificate=False)
        evaluation = evaluate(config, {name: parts.source(name) for name in map(plan.at, plan.epsilons)})
        places = [(plan.at(epsilon), 0.0) for epsilon in plan.epsilons]
    return {"values": {name: [evaluation.value(who, name, at).value for who, at in places] for name in BASELINES}}


def cell(parts: Parts) -> dict[str, Any]:
    """One policy at five shares of chance, `plan.cell` rollouts each, all in one batch where the log has lists.

    `adwm-paper` is the paper's: a language model reads soft tokens, through an adapter that is fitted here, and guides,
    its next action drawn at every fifth diffusion step. `adwm` and `wm` stand beside it, in words.
    """
    plan, device = parts.plan, parts.given.device
    policy = parts.source(plan.swept).load(parts.world)
    paper, kernel = (Ensemble.load(parts.model(model), device) for model in (PAPER, "0"))
    begun = time.perf_counter()
    interface: Literal["soft", "text"] = "soft" if isinstance(policy, HFPolicy) else "text"
    if interface == "soft" and not plan.lists:
        raise InputError("cell: a language model reads soft tokens, which is written for worlds with lists of actions")
    soft = connect(policy, paper, interface, PolicyInterfaceConfig(redraw=5), folder=parts.work / "adapters")
    seconds = {"adapter": time.perf_counter() - begun}
    starts = drawn(paper.episodes, plan.cell)
    guided = ImaginedWorld(paper, IMAGINATION_PRESETS["adwm-paper"], soft.guide, starts)
    ways: dict[str, tuple[World, Policy]] = {
        "wm": (KernelWorld(kernel.kernel, kernel.facts, starts=starts), policy),
        "adwm": (ImaginedWorld(paper, IMAGINATION_PRESETS["adwm"], None, starts), policy),
        "adwm-paper": (guided, soft.policy),
    }
    tasks = [start.task_id for start in starts]
    mixtures = [] if plan.lists else [parts.source(plan.at(epsilon)).load(parts.world) for epsilon in plan.epsilons]
    values = {}
    for name, (world, player) in ways.items():
        begun = time.perf_counter()
        values[name] = one_by_one(world, mixtures, tasks) if mixtures else swept(world, player, tasks, plan.epsilons)
        seconds[name] = time.perf_counter() - begun
    return {"values": values, "imagining_seconds": seconds, "rollouts": len(starts), "adapter": soft.figures}


def swept(world: World, policy: Policy, tasks: Sequence[str], epsilons: Sequence[float]) -> list[float]:
    """The mean return at each share of chance, every task once."""
    sweep = Sweep(policy)
    planned = _once(tasks)
    episodes = [e for epsilon in epsilons for e in sweep.episodes(planned, epsilon, world.max_steps)]
    played = {episode.id: episode for episode in Rollout(world, sweep, batch_size=len(episodes)).play(episodes)}
    returns = np.array([played[episode.id].episode_return for episode in episodes])
    return [float(value) for value in returns.reshape(len(epsilons), -1).mean(1)]


def one_by_one(world: World, policies: Sequence[Policy], tasks: Sequence[str]) -> list[float]:
    """The mean return of each policy, every task once: where chance has no list to draw from."""
    played = (Rollout(world, policy, batch_size=len(tasks)).play(_once(tasks)) for policy in policies)
    return [float(np.mean([episode.episode_return for episode in episodes])) for episodes in played]


def _once(tasks: Sequence[str]) -> list[Episode]:
    return [Episode(f"{n:04d}", task, "log", derive_seed(0, "cell", n)) for n, task in enumerate(tasks)]


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
        imagined = imagine(
            KernelWorld(kernel.kernel, kernel.facts),
            policy,
            rollouts=1,
            seed=attempt,
            batch_size=parts.given.batch_size,
        )
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
