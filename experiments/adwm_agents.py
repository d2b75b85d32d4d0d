"""Who plays in `adwm_real.py`: clones of a pretrained model and the agents made of them, and all settings of a plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from adwm_scientists import Scientist

from worldline.ope.estimation import ESTIMATORS
from worldline.policies import PolicyConfig, PolicySource, PolicySpec, mix
from worldline.types import Policy, World


@dataclass(frozen=True)
class Clone:
    """One cloning run, from the first `walkthroughs` train games that are won."""

    walkthroughs: int
    seed: int
    epochs: float = 4.0
    checkpoints: int = 1
    lora: int = 0
    rate: float = 1e-4


@dataclass(frozen=True)
class Agent:
    """A checkpoint of a clone (1 the first; None: the end of the run), and how its policy reads and acts."""

    clone: str
    checkpoint: int | None = None
    temperature: float = 1.0
    epsilon: float = 0.0
    mode: Literal["generate", "choose"] = "generate"
    history: int | None = None
    dtype: Literal["float32", "bfloat16"] = "bfloat16"


Player = Agent | PolicySource


@dataclass(frozen=True)
class ClonedPolicy:
    """An agent's policy, as data. Its identity is how it was made: cached answers outlive its weights."""

    folder: Path
    settings: PolicyConfig
    epsilon: float
    identity: str

    def load(self, world: World) -> Policy:
        return PolicySpec(f"hf:{self.folder}", self.settings, self.epsilon).load(world)


@dataclass(frozen=True)
class Plan:
    """All settings of an environment's experiment."""

    loggers: Mapping[str, Player]
    targets: Mapping[str, Player]
    swept: str
    """The target that the paper's protocol mixes with chance."""
    split: str
    tasks: int
    clones: Mapping[str, Clone] = field(default_factory=dict)
    repeats: Mapping[str, int] = field(default_factory=dict)
    """Times that a logger plays every task, where it is not once."""
    epsilons: tuple[float, ...] = (0.0, 0.2, 0.4, 0.6, 0.8)
    truth: int = 2
    """Times that a target plays every task for its true value."""
    seeds: int = 3
    """World models, each from another seed."""
    rollouts: int = 2
    """Imagined episodes of a task."""
    cell: int = 32
    """Rollouts of one point of the paper's protocol."""
    rivals: tuple[str, ...] = ("adwm", "adwm-noise", "wm-ar", "wm-joint", "wm-knn")
    classical: tuple[str, ...] = tuple(name for name in ESTIMATORS if name != "fqe")
    """Estimators beside the first world model, beside the others those of `evaluate`'s default; `fqe` takes minutes for
    each policy and is one of the paper's baselines only."""
    lists: bool = True
    """Whether the log has lists of actions, from which chance draws; else the swept target has chances of its own."""
    walkthroughs: bool = True
    """Whether the games come with their solutions; else the expert's wins are cloned."""
    tokens: int = 24
    """Longest response."""
    context: int = 2048
    """Longest prompt, and longest sequence of a clone."""
    options: Mapping[str, Any] = field(default_factory=dict)
    fit: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the networks, where they are not the default."""

    def player(self, name: str) -> Player:
        """A logger, a target, or TARGET@EPSILON of the sweep."""
        everybody = {**self.loggers, **self.targets}
        if name in everybody:
            return everybody[name]
        whom, _, epsilon = name.rpartition("@")
        swept = everybody[whom]
        if isinstance(swept, Agent | Scientist):
            return replace(swept, epsilon=float(epsilon))
        return Chance(swept, float(epsilon))

    def at(self, epsilon: float) -> str:
        """The name of the swept target at this share of chance."""
        return f"{self.swept}@{epsilon:g}" if epsilon else self.swept


@dataclass(frozen=True)
class Chance:
    """A policy mixed with chance, as data."""

    policy: PolicySource
    epsilon: float

    @property
    def identity(self) -> str:
        return f"{self.policy.identity} {self.epsilon:g}"

    def load(self, world: World) -> Policy:
        return mix(self.policy.load(world), self.epsilon)


def settings(plan: Plan) -> dict[str, Any]:
    """A plan as JSON has it."""

    def written(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: written(each) for name, each in value.items()}
        if isinstance(value, tuple):
            return list(value)
        return value if isinstance(value, str | int | float) else str(value)

    return {name: written(value) for name, value in vars(plan).items()}
