"""Playing unseen tasks along the way: success, pass@k, and how well the world is predicted.

The tasks and draws of an evaluation are always the same ones, so two evaluations can be compared. The observations that
are predicted are those of the start policy's own episodes: the same text at every update, and in every run from the
same start with the same seed, whether it learns of the world or not.
"""

from collections.abc import Sequence
from math import comb
from typing import Any

import torch

from worldline.config import Config, option
from worldline.paw.batches import action_starts, deal, micro_batches, pack
from worldline.paw.rewards import RewardRule
from worldline.paw.rows import StepRow
from worldline.paw.sequences import token_sequences
from worldline.rollout import Episode, plan
from worldline.types import Trajectory, World, derive_seed


class EvaluationConfig(Config):
    """Playing unseen tasks along the way."""

    every: int = option(10, help="updates between evaluations; 0: none", ge=0)
    first: int = option(
        0,
        help="no evaluation before this update, except at the end; of the start only held-out episodes are played",
        ge=0,
    )
    episodes: int = option(128, help="episodes of one evaluation", ge=1)
    repeats: int = option(
        1, help="episodes of each task; above 1 an evaluation gives pass@2, pass@4, ... up to this many as well", ge=1
    )
    split: str = option("", help="which tasks; default: the environment's second split")
    temperature: float = option(0.4, help="sampling temperature; 0 is greedy", ge=0)
    held_out: int = option(
        32, help="episodes of the start policy on which the cross-entropy of observations is measured; 0: none", ge=0
    )

    def due(self, update: int, last: int) -> bool:
        """Whether the policy after this update is evaluated, in a run whose last update is `last`."""
        return self.every > 0 and (update == last or (update >= self.first and update % self.every == 0))


def evaluation_plan(world: World, split: str, config: EvaluationConfig, seed: int) -> list[Episode]:
    """The episodes of every evaluation of a run: each task `repeats` times in a row."""
    count = world.num_tasks(split)
    wanted = -(-config.episodes // config.repeats)
    tasks = [task for task in range(min(wanted, count)) for _ in range(config.repeats)]
    return plan(world, split, config.episodes, seed=derive_seed(seed, "evaluation"), run="evaluation", tasks=tasks)


def outcomes(played: Sequence[Trajectory], rule: RewardRule, repeats: int) -> dict[str, Any]:
    """What the episodes of an evaluation came to."""
    count = max(1, len(played))
    metrics: dict[str, Any] = {
        "eval_episodes": len(played),
        **success_share("eval_success", played),
        "eval_return": sum(sum(rule.rewards(trajectory)) for trajectory in played) / count,
        "eval_steps": sum(len(trajectory) for trajectory in played) / count,
    }
    by_task: dict[str, list[bool]] = {}
    for trajectory in played:
        if trajectory.success is not None:
            by_task.setdefault(trajectory.task_id, []).append(trajectory.success)
    for k in _sizes(repeats):
        chances = [pass_at_k(len(won), sum(won), k) for won in by_task.values() if len(won) >= k]
        if chances:
            metrics[f"eval_pass@{k}"] = sum(chances) / len(chances)
    return metrics


def success_share(name: str, played: Sequence[Trajectory]) -> dict[str, float]:
    """How many of the episodes succeeded of which it is said; nothing where it is said of none."""
    judged = [trajectory.success for trajectory in played if trajectory.success is not None]
    return {name: sum(judged) / len(judged)} if judged else {}


def pass_at_k(episodes: int, successes: int, k: int) -> float:
    """The chance that one of k episodes succeeds, without bias: 1 - C(n - c, k) / C(n, k) (Chen et al. 2021, eq. 1)."""
    return 1 - comb(episodes - successes, k) / comb(episodes, k)


def _sizes(repeats: int) -> list[int]:
    """2, 4, 8, ... below `repeats`, and `repeats` itself; none for 1."""
    powers = [2**power for power in range(1, repeats.bit_length()) if 2**power < repeats]
    return [*powers, repeats] if repeats > 1 else []


def observation_cross_entropy(
    learner: Any, rows: Sequence[StepRow], accelerator: Any, batch_tokens: int, *, packed: bool = False
) -> float:
    """-log p of the observation tokens of `rows` under `learner`, mean over tokens, in nats (PaW eq. 5 on all of them).

    NaN where the rows hold none.
    """
    starts, world = action_starts(rows), [True] * len(rows)
    sums = torch.zeros(2, device=accelerator.device)
    batches = micro_batches(token_sequences(rows, range(len(rows)), world), batch_tokens, packed=packed)
    with torch.no_grad(), accelerator.autocast():
        for chosen in deal(batches, accelerator.process_index, accelerator.num_processes):
            batch = pack(rows, starts, chosen, world, packed=packed).to(accelerator.device)
            logprob = learner(batch)["world"]
            sums += torch.stack([-logprob.sum(), torch.ones_like(logprob).sum()])
    total, count = accelerator.reduce(sums, reduction="sum").tolist()
    return total / count if count else float("nan")
