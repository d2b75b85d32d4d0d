"""Playing a policy in an environment and keeping the log. This is also the online evaluation.

Episode ids start with the run's name (`collect_settings`). So `--resume` knows what is missing, other runs can share
the folder, and nothing is played or stored twice.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldline import envs, files, policies, store
from worldline.callable_module import CallableModule
from worldline.collect_notes import changed_code, refuse_other_options, refuse_other_policy
from worldline.collect_settings import CollectConfig as CollectConfig  # part of what this module offers
from worldline.collect_settings import run_name
from worldline.notebook import html_table
from worldline.policies import PolicyConfig
from worldline.ray_pool import check_engine, ray_pool
from worldline.rollout import Episode, Rollout, plan
from worldline.shard import ShardOutcome, ShardRun, guarded, play_shards, shortened_prompts
from worldline.tally import Tally
from worldline.types import InputError, Policy, Trajectory, World, WorldlineError, derive_seed, lowest_return


@dataclass(frozen=True, repr=False)
class Collection:
    """What a collection came to."""

    config: CollectConfig
    split: str
    tally: Tally
    played: int
    played_steps: int
    seconds: float
    retried: int
    mishap: str
    failed: tuple[str, ...]
    truncated_prompts: int
    max_return: float = 1.0
    """The most that the world gives in an episode."""
    min_return: float | None = None
    """The least; None where nobody knows."""
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        summary = self.summary()
        rate = "unknown" if math.isnan(summary["success"]) else f"{summary['success']:.3f}"
        where = f", in {summary['out']}" if summary["out"] else ""
        return f"<{summary['policy']} in {summary['env']}: {summary['episodes']} episodes, success {rate}{where}>"

    def _repr_html_(self) -> str:
        summary = self.summary()
        shown = ("episodes", "success", "return", "mean_length", "invalid_actions", "out")
        rows = [(name.replace("_", " "), _written(summary[name])) for name in shown if summary[name] is not None]
        return html_table(repr(self).strip("<>"), ("", "value"), rows)

    def summary(self) -> dict[str, Any]:
        success, mean = self.tally.success(), self.tally.mean_return(self.min_return, self.max_return)
        episodes = len(self.tally.returns)
        return {
            "env": self.config.env,
            "split": self.split,
            "policy": self.config.policy_name,
            "epsilon": self.config.epsilon,
            "seed": self.config.seed,
            "episodes": episodes,
            "tasks": len(set(self.tally.tasks)),
            "success": success.value,
            "success_low": success.low,
            "success_high": success.high,
            "return": mean.value,
            "return_low": mean.low,
            "return_high": mean.high,
            "score": sum(self.tally.scores) / len(self.tally.scores) if self.tally.scores else None,
            "answerable": sum(answerable) / len(answerable) if (answerable := self.tally.answerable) else None,
            "steps": self.tally.steps,
            "mean_length": self.tally.steps / max(episodes, 1),
            "invalid_actions": self.tally.invalid,
            "steps_without_logprob": self.tally.unscored,
            "truncated_prompts": self.truncated_prompts,
            "retried": self.retried,
            "mishap": self.mishap or None,
            "failed": list(self.failed),
            "seconds": self.seconds,
            "steps_per_second": self.played_steps / self.seconds if self.seconds > 0 else 0.0,
            "out": str(self.config.out) if self.config.out else None,
        }


def _written(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def collect(config: CollectConfig, watch: Callable[[Tally], None] = lambda tally: None) -> Collection:
    """Play the episodes of `config`, less those that a resumed folder holds; `watch` sees the start and each one."""
    check_engine(config.engine)
    local = config.engine == "local"
    world = envs.load(config.env, config.data, config.options, workers=config.workers if local else 0)
    split = _split(world, config)
    play = _here(world, config) if local else _by_ray(config)
    run = run_name(config)
    episodes = plan(world, split, config.episodes, seed=config.seed, run=run, tasks=_tasks(world, split, config))
    tally, notes = Tally(), list[str]()
    with _log(config, run, tally, notes) as (writer, done):
        missing = [episode for episode in episodes if episode.id not in done]
        watch(tally)
        started = time.perf_counter()
        outcome = play(missing, writer, tally, watch)
    seconds = time.perf_counter() - started
    if not tally.returns:
        raise WorldlineError(f"every episode failed, the first was {outcome.failed[0]}")
    return Collection(
        config=config,
        split=split,
        tally=tally,
        played=len(missing),
        played_steps=outcome.played_steps,
        seconds=seconds,
        retried=outcome.retried,
        mishap=outcome.mishap,
        failed=tuple(outcome.failed),
        truncated_prompts=outcome.truncated_prompts,
        max_return=world.max_return,
        min_return=lowest_return(world),
        notes=tuple(notes),
    )


Watch = Callable[[Tally], None]
Play = Callable[[list[Episode], store.StoreWriter | None, Tally, Watch], ShardOutcome]
"""Plays episodes into a writer and a tally; `watch` sees the tally after each, or after each shard."""


def _here(world: World, config: CollectConfig) -> Play:
    """In this process. The policy is loaded before anything is written."""
    policy = policies.load(config.policy, world, config)
    player = Rollout(
        world,
        policies.mix(policy, config.epsilon, config.policy_name),
        batch_size=config.batch_size,
        epsilon=config.epsilon,
        policy_name=config.policy_name,
        max_steps=config.max_steps,
    )

    def play(episodes: list[Episode], writer: store.StoreWriter | None, tally: Tally, watch: Watch) -> ShardOutcome:
        kept = tally.steps
        for trajectory in guarded(player, episodes, config.out):
            tally.add(trajectory)
            if writer is not None:
                writer.append(trajectory)
            watch(tally)
        return ShardOutcome(
            played_steps=tally.steps - kept,
            retried=player.retried,
            mishap=player.mishap,
            failed=player.failed,
            truncated_prompts=shortened_prompts(policy),
        )

    return play


def _by_ray(config: CollectConfig) -> Play:
    """In Ray's workers, which load the policy and write into the log's folder themselves."""
    kind, _, path = config.policy.partition(":")
    if kind == "hf":
        from worldline.policies.language_model.checkpoint import locate

        locate(path, config.policy)  # a bad checkpoint is refused before Ray starts
    run = ShardRun(
        env=config.env,
        data=config.data,
        options=json.dumps(config.options, sort_keys=True),
        policy=config.policy,
        settings=PolicyConfig.model_validate(config.model_dump(include=set(PolicyConfig.model_fields))),
        epsilon=config.epsilon,
        policy_name=config.policy_name,
        batch_size=config.batch_size,
        max_steps=config.max_steps,
        out=config.out,
    )

    def play(episodes: list[Episode], writer: store.StoreWriter | None, tally: Tally, watch: Watch) -> ShardOutcome:
        with ray_pool(config.engine, config.workers, config.gpus) as pool:
            return play_shards(pool, run, episodes, tally, watch, config.workers or pool.cores)

    return play


def collect_tasks(
    world: World,
    policy: Policy,
    *,
    name: str,
    split: str,
    tasks: int,
    repeats: int = 1,
    seed: int = 0,
    batch_size: int = 128,
    out: Path,
) -> list[Trajectory]:
    """Play a policy object at the first tasks of a split, each `repeats` times, into the log `out`.

    What the log holds already under this name is not played again. The episodes come back task by task.
    """
    episodes = [
        Episode(f"{name}-{repeat}-{task:05d}", world.get_task(split, task), split, derive_seed(seed, task, repeat))
        for repeat in range(repeats)
        for task in range(tasks)
    ]
    wanted = {episode.id for episode in episodes}
    kept = {t.id: t for t in store.read(out, ids=wanted)} if store.shards(out) else {}
    player = Rollout(world, policy, batch_size=batch_size, policy_name=name)
    with store.StoreWriter(out) as writer:
        for trajectory in guarded(player, [episode for episode in episodes if episode.id not in kept], out):
            writer.append(trajectory)
            kept[trajectory.id] = trajectory
    if player.failed:
        raise WorldlineError(f"{len(player.failed)} episodes of '{name}' failed, the first was {player.failed[0]}")
    return [kept[episode.id] for episode in episodes]


def _split(world: World, config: CollectConfig) -> str:
    splits = world.splits()
    if config.split and config.split not in splits:
        raise InputError(f"--split: {config.env} has no split '{config.split}': it has {', '.join(splits)}")
    return config.split or splits[0]


def _tasks(world: World, split: str, config: CollectConfig) -> tuple[int, ...]:
    """`--tasks` as indices: START:STOP or I,J,K; none for all."""
    if config.tasks is None:
        return ()
    size = world.num_tasks(split)
    try:
        if ":" in config.tasks:
            start, stop = (int(part) if part else None for part in config.tasks.split(":"))
            chosen = tuple(range(size)[start:stop])
        else:
            chosen = tuple(int(part) for part in config.tasks.split(","))
    except ValueError:
        raise InputError(f"--tasks: give START:STOP or indices such as 3,5,8, got '{config.tasks}'") from None
    if not chosen:
        raise InputError(f"--tasks: '{config.tasks}' is an empty slice of the {size} tasks of split '{split}'")
    if not all(0 <= index < size for index in chosen):
        raise InputError(f"--tasks: '{config.tasks}' is not within the {size} tasks of split '{split}'")
    return chosen


@contextmanager
def _log(
    config: CollectConfig, run: str, tally: Tally, notes: list[str]
) -> Iterator[tuple[store.StoreWriter | None, set[str]]]:
    """The writer of the run's log and the ids it holds already, which are entered in the tally.

    The lock is released after the writer's last flush: who takes it next sees every episode.
    """
    if config.out is None:
        yield None, set()
        return
    writer = store.StoreWriter(config.out)
    refuse_other_options(config, config.out)
    refuse_other_policy(config, config.out)
    taken = f"{config.out}: another process is collecting this very run; give another --seed"
    with files.locked(config.out / f".{config.settings_name}.lock", taken=taken):
        done = _kept(config, run)
        notes += changed_code(config, config.out)
        tally.recall(config.out, done)
        with writer:
            yield writer, done


def _kept(config: CollectConfig, run: str) -> set[str]:
    """The ids of the run's episodes in the folder, if it may go on with them; none if it starts anew."""
    assert config.out is not None
    alike = {name for name in store.ids(config.out) if name.startswith(config.settings_name)}
    if alike and config.overwrite:
        _discard(config.out, config.settings_name)
        return set()
    others = [name for name in alike if not name.startswith(f"{run}-")]
    if others:
        raise InputError(
            f"{config.out}: holds {len(others)} episodes that {config.policy} played before it was changed: "
            f"--overwrite throws them away, another --name or --out keeps them apart"
        )
    if alike and not config.resume:
        raise InputError(
            f"{config.out}: holds {len(alike)} episodes of this very run: --resume goes on, --overwrite starts anew"
        )
    return alike


def _discard(folder: Path, settings_name: str) -> None:
    """Delete the shards of these settings; a writer serves one run, so a shard is all of one run."""
    for shard in store.shards(folder):
        if all(name.startswith(settings_name) for name in store.ids(shard)):
            files.delete(shard)


sys.modules[__name__].__class__ = CallableModule  # worldline.collect(...)
