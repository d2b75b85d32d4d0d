"""The settings of `worldline collect`, and the name of the run that they decide.

A run is named by a digest of everything that decides its episodes: its settings and, where it plays a checkpoint, the
checkpoint's files.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, ClassVar

from worldline import envs, policies
from worldline.config import Folder, option, positional
from worldline.policies import PolicyConfig


class CollectConfig(PolicyConfig):
    """Run a policy in an environment; print success, return and their 95 % intervals; write a Parquet log.

    Tasks are played in their canonical order, so two policies collected with the same seed meet the same tasks
    and the same random draws.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline collect household --policy expert --episodes 100",
        "worldline collect household --policy hf:runs/clone/model --split unseen --epsilon 0.1 --out logs/",
        "worldline collect alfworld --data ~/alfworld --policy api:MODEL@http://localhost:8000/v1 --prompt react",
        "worldline collect household --policy hf:runs/clone/model --episodes 100000 --out logs/ --engine ray",
    )

    env: str = positional(
        help="environment: household, shop, searchqa, alfworld, webshop, ..., module:attr, gym:ID, openenv:URL, "
        "imagined:FOLDER"
    )
    policy: str = option(help="expert, random, hf:PATH, vllm:MODEL@URL, api:MODEL@URL or module:attr")
    data: Path | None = option(None, help="the environment's data, where it needs some")
    options: dict[str, Any] = option({}, help="settings of the environment itself, e.g. --options.level tiny")
    split: str = option("", help="which tasks; default: the environment's first split")
    tasks: str | None = option(None, help="a slice of the split's tasks, START:STOP, or indices 3,5,8")
    episodes: int = option(100, help="number of episodes to play", ge=1, le=10_000_000)
    epsilon: float = option(0.0, help="probability of a uniformly random admissible action at each step", ge=0, le=1)
    name: str = option("", help="the policy's name in the log; default: its specification")
    seed: int = option(0, help="seed of every random draw")
    batch_size: int = option(64, help="episodes played at once", ge=1)
    max_steps: int | None = option(None, help="step budget; default: the environment's", ge=1)
    engine: str = option(
        "local", help="where to play: local, ray (of $RAY_ADDRESS, else one of its own), ray://HOST:PORT"
    )
    workers: int = option(
        0, help="run environments in this many worker processes; with --engine ray: play in that many at once", ge=0
    )
    gpus: float = option(0.0, help="with --engine ray: GPUs, or the share of one, that each worker takes", ge=0)
    out: Folder | None = option(None, help="folder of the log; without it nothing is stored")
    resume: bool = option(False, help="continue a run that was interrupted")
    overwrite: bool = option(False, help="delete this run's earlier episodes in the folder first")

    @property
    def policy_name(self) -> str:
        return self.name or policies.public_name(self.policy)

    @property
    def settings_name(self) -> str:
        """How the run's name begins: changes with every setting that decides the episodes."""
        ignored = {"out", "resume", "overwrite", "batch_size", "engine", "workers", "gpus", "episodes"}
        decisive = self.model_dump(mode="json", exclude=ignored)
        return hashlib.blake2b(json.dumps(decisive, sort_keys=True).encode(), digest_size=5).hexdigest()


def run_name(config: CollectConfig) -> str:
    """The run's name: changes whenever the episodes would, so also with a checkpoint's weights, or a world model."""
    kind, _, path = config.policy.partition(":")
    played = envs.world_model_digest(config.env)
    if kind == "hf":
        from worldline.policies.language_model.checkpoint import fingerprint

        played += fingerprint(path)
    return config.settings_name + (hashlib.blake2b(played.encode(), digest_size=5).hexdigest() if played else "")
