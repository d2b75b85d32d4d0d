"""The runs of `bench train`: which are compared, in which environment, from which start.

Every run of a comparison has the same budget, the same start and the same settings, which were chosen for the plain
algorithm: the world-model side has the paper's defaults, and nothing was tuned for it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Comparison = Literal["main", "sparse", "ablate", "beyond"]
Taught = Literal["both", "action"]
PAW = {"wm": "paw"}
PLAIN = {"wm": "off"}


@dataclass(frozen=True)
class TrainPlan:
    """An environment, sized so that a run takes minutes: its own settings, those of the clones, those of all runs."""

    options: Mapping[str, Any]
    clone: Mapping[str, Any]
    recipe: Mapping[str, Any]
    algorithms: Mapping[str, int]
    """What is compared, and with how many seeds at most."""
    taught: Taught = "both"
    """What the clone that all runs begin with has learned, unless --taught says otherwise."""
    start: tuple[float, float] = (0.1, 0.25)
    """Lowest and highest success that the clone may have on unseen tasks."""


@dataclass(frozen=True)
class TrainRun:
    """One training run: `variant` is what is compared over seeds."""

    variant: str
    seed: int
    recipe: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.variant.replace('+', '-').replace(' ', '-').replace('=', '')}-{self.seed}"


UPDATE: dict[str, Any] = {
    "lr": 2e-4,
    "critic_lr": 1e-3,
    "value": 0.01,
    "kl": 0.0,
    "mini_batch": 512,
    "batch_tokens": 65536,
}
RECIPE: dict[str, Any] = {
    "updates": 60,
    "groups": 16,
    "group_size": 8,
    "batch_size": 512,
    "checkpoint_every": 20,
    "rollout": {"max_new_tokens": 24},
    "evaluation": {"every": 10, "episodes": 128, "temperature": 1.0},
    "credit": {"penalty": "inadmissible"},
    "update": UPDATE,
}
TAUGHT: dict[Taught, dict[str, Any]] = {"both": {"target": "both"}, "action": {"target": "action", "reading": 0.01}}
"""What a clone learns: its actions and the world's answers, or its actions and next to nothing of the answers."""

PLANS: dict[str, TrainPlan] = {
    "household": TrainPlan(
        options={"level": "small"},
        clone={"episodes": 1000, "epochs": 5, "checkpoints": 12},
        recipe=RECIPE,
        algorithms={"grpo": 99, "gigpo": 99, "ppo": 2, "rloo": 2},
    ),
    # Far more goals than the clone is shown: one that knows them by heart has nothing to learn. Article numbers of ten
    # letters must be copied from the page, which a pretrained model can do and a small new one does not learn in time.
    "shop": TrainPlan(
        options={"products": 2400, "goals_per_product": 2, "max_steps": 8},
        clone={"model": "HuggingFaceTB/SmolLM2-135M-Instruct", "learning_rate": 1e-4, "episodes": 400, "epochs": 1}
        | {"noise": 0.05, "checkpoints": 4, "context": 2048, "batch_tokens": 8192, "reading": 0.0},
        recipe=RECIPE
        | {"updates": 20, "groups": 8, "batch_size": 128, "precision": "bf16"}
        | {"rollout": {"max_new_tokens": 32, "dtype": "bfloat16", "cache_gib": 4.0}}
        | {"evaluation": {"every": 10, "episodes": 64, "temperature": 1.0}}
        | {"update": {**UPDATE, "lr": 3e-5, "mini_batch": 64, "batch_tokens": 8192}},
        algorithms={"grpo": 99},
        taught="action",
        start=(0.02, 0.5),
    ),
    "searchqa": TrainPlan(
        options={"topk": 1},
        clone={"model": "micro", "episodes": 2400, "epochs": 8, "checkpoints": 12},
        recipe=RECIPE | {"rollout": {"max_new_tokens": 32}},
        algorithms={"grpo": 99},
        start=(0.02, 0.3),
    ),
}

SPARSE = (0.004, 0.03)
"""The success of a start that hardly ever succeeds."""

ABLATIONS: dict[str, dict[str, Any]] = {
    "lambda=1": {"world": {"coefficient": "constant", "start": 1.0}},
    "ce": {"wm": "ce"},
    "alpha=0.25": {"world": {"alpha": 0.25}},
    "alpha=0.5": {"world": {"alpha": 0.5}},
    "alpha=1": {"world": {"alpha": 1.0}},
    "rho=0.1": {"world": {"rho": 0.1}},
    "rho=0.5": {"world": {"rho": 0.5}},
    "rho=1": {"world": {"rho": 1.0}},
}
"""The paper's table 4 and figure 6, as changes to GRPO with PaW."""

BEYOND: dict[str, dict[str, Any]] = {
    "failed": {"world": {"coefficient": "failed"}},
    "novel": {"world": {"novel": True}},
    "alone 5": {"world": {"alone": 5}},
    "schedule": {"world": {"coefficient": "schedule", "start": 1.0, "end": 0.0}},
    "horizon 3": {"world": {"horizon": 3}},
}
"""Attempts beyond the paper, as changes to GRPO with PaW."""

CHANGES: dict[Comparison, dict[str, dict[str, Any]]] = {"ablate": ABLATIONS, "beyond": BEYOND}
FIRST_SEEDS: dict[Comparison, int] = {"beyond": 20}
"""The first seed of a comparison, where that is not 0: what follows a look at the others has its own seeds."""


def train_runs(env: str, comparison: Comparison, seeds: int) -> Iterator[TrainRun]:
    """The runs of a comparison, seed by seed: whatever is done when the bench is stopped can be compared."""
    first = FIRST_SEEDS.get(comparison, 0)
    for seed in range(first, first + seeds):
        if comparison == "main":
            for algo, most in PLANS[env].algorithms.items():
                if seed < most:
                    yield TrainRun(algo, seed, {"algo": algo} | PLAIN)
                    yield TrainRun(f"{algo}+paw", seed, {"algo": algo} | PAW)
            continue
        yield TrainRun("grpo", seed, PLAIN)
        yield TrainRun("grpo+paw", seed, PAW)
        for name, changes in CHANGES.get(comparison, {}).items():
            yield TrainRun(f"grpo+paw {name}", seed, PAW | changes)
