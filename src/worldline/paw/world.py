"""The targets of the world-model loss in an update, and their weights (PaW eq. 4, 10 and 11; Algorithm 1 lines 4-9)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from worldline.config import Config, option
from worldline.paw.objective import Coefficient, adaptive_coefficients, scheduled_coefficient, world_weights
from worldline.paw.pool import Pool
from worldline.paw.selection import Selector, duplicates, random_scores, sampled_entropy, select
from worldline.types import InputError


class WorldConfig(Config):
    """The world-model side of the objective. The defaults are the paper's."""

    alpha: float = option(0.75, help="share of the update's transitions that the world model learns from", gt=0, le=1)
    rho: float = option(0.2, help="tokens predicted with more than this probability get no gradient", ge=0, le=1)
    selection: Selector = option("entropy", help="how transitions are ranked; sampled: the printed formula")
    coefficient: Coefficient = option("adaptive", help="1 - return / best return of each group, or a number")
    start: float = option(1.0, help="the constant coefficient, or where the schedule starts", ge=0)
    end: float = option(0.0, help="where the schedule ends", ge=0)
    deduplicate: bool = option(False, help="count equal transitions of an update once")
    horizon: int = option(1, help="observations predicted ahead, along the logged actions", ge=1)
    max_tokens: int = option(512, help="longest continuation of a row", ge=1)


@dataclass(frozen=True, slots=True)
class WorldTargets:
    """The rows the world model learns from. Eq. 11's second term is the sum of `weights` times row losses."""

    weights: Tensor  # (rows,)
    selected: Tensor  # (rows,) bool
    coefficients: Tensor  # (groups,)
    repeated: float
    """Share of the update's transitions that are copies of another."""


def select_world(
    pool: Pool,
    entropies: Tensor,  # (rows,) mean full-vocabulary entropy of the response tokens
    config: WorldConfig,
    *,
    update: int,
    updates: int,
    seed: int,
) -> WorldTargets:
    """Select the transitions (eq. 4), balance the groups (eq. 10), weigh the rows (eq. 11)."""
    repeated = duplicates([row.transition for row in pool.rows])
    candidates = torch.tensor([row.targets > 0 for row in pool.rows])
    if config.deduplicate:
        candidates &= ~repeated
    ranking = _ranking(pool, entropies, config.selection, seed)
    selected = select(ranking, candidates, 1.0 if config.selection == "all" else config.alpha)
    coefficients = _coefficients(pool, config, update, updates)
    weights = world_weights(selected, pool.groups, coefficients)
    return WorldTargets(weights.float(), selected, coefficients, float(repeated.double().mean()))


def _ranking(pool: Pool, entropies: Tensor, selector: Selector, seed: int) -> Tensor:
    match selector:
        case "entropy":
            return entropies
        case "sampled":
            if any(step.token_logprobs is None for step in pool.steps):
                raise InputError("--world.selection sampled: the policy gives no log-probabilities of its tokens")
            return torch.tensor([sampled_entropy(step.token_logprobs or ()) for step in pool.steps])
        case "random":
            return torch.tensor(random_scores(len(pool.rows), seed))
        case "all":
            return torch.zeros(len(pool.rows))


def _coefficients(pool: Pool, config: WorldConfig, update: int, updates: int) -> Tensor:
    if config.coefficient == "adaptive":
        return adaptive_coefficients(pool.episode_returns, pool.episode_groups, pool.max_return)
    groups = int(pool.episode_groups.max()) + 1
    value = config.start
    if config.coefficient == "schedule":
        value = scheduled_coefficient(config.start, config.end, update, updates)
    return torch.full((groups,), value, dtype=torch.float64)
