"""The recipe of a training run: all settings of `worldline train`.

The learning rate's default follows the model; the other defaults are the paper's for ALFWorld.
"""

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import field_validator

from worldline.config import Config, Folder, option, positional
from worldline.paw.advantages import Algorithm, CreditConfig
from worldline.paw.credit import Statistics
from worldline.paw.evaluation import EvaluationConfig
from worldline.paw.gradient import UpdateConfig
from worldline.paw.loss import WorldLoss
from worldline.paw.model import LearnerConfig
from worldline.paw.server import ServerConfig
from worldline.paw.world import WorldConfig, WorldObjective
from worldline.policies import PolicyConfig
from worldline.tracking import Tracker


class RolloutConfig(PolicyConfig):
    """How the training episodes are played."""

    temperature: float = option(1.0, help="sampling temperature of the training episodes, above 0")

    @field_validator("temperature")
    @classmethod
    def _leaves_chance(cls, temperature: float) -> float:
        """Without chance the episodes of a group are one episode, and its actions have no log-probability."""
        if temperature <= 0:
            raise ValueError("training needs chance: give a number above 0")
        return temperature


class TrainConfig(Config):
    """Train a language agent by reinforcement learning, with or without world-model co-training (PaW).

    The run folder gets checkpoints that transformers loads, metrics.jsonl, and the training episodes as a log.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline train household --model runs/clone/model --out runs/paw",
        "worldline train household --model runs/clone/model --algo gigpo --wm off --out runs/gigpo",
        "worldline train imagined:runs/wm --model runs/clone/model --out runs/dreamt",
        "worldline train recipes/alfworld.yaml --data ~/alfworld --model Qwen/Qwen2.5-1.5B-Instruct --out runs/alf",
        "accelerate launch -m worldline train household --model runs/clone/model --out runs/paw",
    )

    env: str = positional(
        help="environment: household, shop, searchqa, alfworld, webshop, module:attr, gym:ID, openenv:URL, "
        "imagined:FOLDER (a world model that fit made)"
    )
    model: str = option(help="the causal LM to start from: a folder or a hub id")
    out: Folder = option(help="run folder")
    algo: Algorithm = option("grpo", help="how actions are credited")
    wm: Literal["paw", "mae", "ce", "echo", "off"] = option(
        "paw", help="world-model co-training: PaW, PaW with MAE or cross-entropy, the rival ECHO, none"
    )
    preset: Statistics = option(
        "textbook", help="group statistics over trajectories, or over step rows with an entropy bonus of 0.001"
    )
    data: Path | None = option(None, help="the environment's data, where it needs some")
    options: dict[str, Any] = option({}, help="settings of the environment itself, e.g. --options.level tiny")
    split: str = option("", help="tasks to train on; default: the environment's first split")
    updates: int = option(150, help="how many updates", ge=1)
    groups: int = option(16, help="tasks per update", ge=1)
    refill: int = option(
        0,
        help="drop groups whose episodes all have the same return, and play others in their place, at most this many "
        "times an update (DAPO's dynamic sampling); 0: keep all",
        ge=0,
    )
    group_size: int = option(8, help="episodes per task; PPO plays groups x group_size different tasks", ge=1)
    max_steps: int | None = option(None, help="step budget of an episode; default: the environment's", ge=1)
    batch_size: int = option(128, help="episodes played at once", ge=1)
    most_halted: float = option(
        0.5,
        help="stop where more than this share of an update's imagined episodes left the log's support",
        ge=0,
        le=1,
    )
    precision: Literal["fp32", "bf16"] = option("fp32", help="of the learner's computation; weights stay float32")
    checkpoint_every: int = option(10, help="updates between checkpoints", ge=1)
    keep_checkpoints: int = option(0, help="how many of the newest checkpoints stay on disk; 0: all", ge=0)
    track: Tracker | None = option(None, help="send metrics there too; metrics.jsonl is always written")
    seed: int = option(0, help="seed of every random draw")
    resume: bool = option(False, help="go on with a run that was interrupted")
    overwrite: bool = option(False, help="start anew in a folder that holds a run")
    rollout: RolloutConfig = RolloutConfig()
    server: ServerConfig = ServerConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    learner: LearnerConfig = LearnerConfig()
    update: UpdateConfig = UpdateConfig()
    credit: CreditConfig = CreditConfig()
    world: WorldConfig = WorldConfig()

    @property
    def shape(self) -> tuple[int, int]:
        """Groups per update and episodes per group. A critic needs no group: PPO's have one episode each."""
        return (self.groups * self.group_size, 1) if self.algo == "ppo" else (self.groups, self.group_size)

    @property
    def targets(self) -> WorldConfig:
        """The world's settings with their loss filled in: --world.loss, else what --wm stands for."""
        named: dict[str, WorldObjective] = {"mae": "mae", "ce": "ce", "echo": "echo"}
        return self.world.model_copy(update={"loss": self.world.loss or named.get(self.wm, "cmae")})

    @property
    def world_loss(self) -> WorldLoss:
        """The loss of an observation token; with `off` none has a weight, so any will do."""
        loss = self.targets.loss
        return "ce" if loss is None or loss == "echo" else loss

    @property
    def stepping(self) -> UpdateConfig:
        """The update's settings, with the preset's entropy bonus unless one was given."""
        bonus = 0.001 if self.preset == "verl_agent" else 0.0
        return self.update if self.update.entropy is not None else self.update.model_copy(update={"entropy": bonus})
