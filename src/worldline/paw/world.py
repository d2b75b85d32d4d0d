"""The targets of the world-model loss in an update, and their weights (PaW eq. 4, 10 and 11; Algorithm 1 lines 4-9).

The rival ECHO (arXiv 2605.24517) selects nothing and balances nothing: cross-entropy on every observation token of the
update, each with the same constant weight.
"""

import re
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import field_validator
from torch import Tensor

from worldline.config import Config, option
from worldline.paw.objective import (
    Coefficient,
    adaptive_coefficients,
    echo_weights,
    failed_coefficients,
    scheduled_coefficient,
    world_weights,
)
from worldline.paw.pool import Pool
from worldline.paw.selection import Selector, duplicates, random_scores, sampled_entropy, select
from worldline.types import InputError

WorldObjective = Literal["cmae", "mae", "ce", "echo"]


class WorldConfig(Config):
    """The world-model side of the objective. The defaults are the paper's."""

    loss: WorldObjective | None = option(
        None,
        help="of an observation token: clipped MAE, MAE, cross-entropy; echo: cross-entropy on all observation tokens "
        "at a constant weight, without selection or coefficient; default: as --wm says",
    )
    echo: float = option(0.1, help="weight of the observation tokens' mean cross-entropy with --world.loss echo", ge=0)
    skip: tuple[str, ...] = option(
        (), help="regular expressions: observation tokens that touch a match are read, but no targets"
    )
    novel: bool = option(
        False, help="sentences that an earlier observation of the episode had are read, but no targets"
    )
    alone: int = option(
        0, help="in this many first updates only the world model learns: the advantages of all actions are 0", ge=0
    )

    alpha: float = option(0.75, help="share of the update's transitions that the world model learns from", gt=0, le=1)
    rho: float = option(0.2, help="tokens predicted with more than this probability get no gradient", ge=0, le=1)
    selection: Selector = option("entropy", help="how transitions are ranked; sampled: the printed formula")
    coefficient: Coefficient = option(
        "adaptive",
        help="1 - return / best return of each group, or a number; failed: 1 for groups whose episodes all have the "
        "same return below the best, else 0",
    )
    start: float = option(1.0, help="the constant coefficient, or where the schedule starts", ge=0)
    end: float = option(0.0, help="where the schedule ends", ge=0)
    deduplicate: bool = option(False, help="count equal transitions of an update once")
    horizon: int = option(1, help="observations predicted ahead, along the logged actions", ge=1)
    max_tokens: int = option(512, help="longest continuation of a row", ge=1)
    angle_every: int = option(
        10, help="updates between measurements of both gradients' norms and their cosine; 0: none", ge=0
    )

    @field_validator("skip")
    @classmethod
    def _patterns(cls, skip: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in skip:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"'{pattern}' is no regular expression: {error}") from None
        return skip


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
    if config.loss == "echo":
        return _echo(pool, config.echo, float(repeated.double().mean()))
    candidates = torch.tensor([row.targets > 0 for row in pool.rows])
    if config.deduplicate:
        candidates &= ~repeated
    ranking = _ranking(pool, entropies, config.selection, seed)
    selected = select(ranking, candidates, 1.0 if config.selection == "all" else config.alpha)
    coefficients = _coefficients(pool, config, update, updates)
    weights = world_weights(selected, pool.groups, coefficients)
    return WorldTargets(weights.float(), selected, coefficients, float(repeated.double().mean()))


def _echo(pool: Pool, coefficient: float, repeated: float) -> WorldTargets:
    targets = torch.tensor([row.targets for row in pool.rows])
    groups = int(pool.episode_groups.max()) + 1
    constants = torch.full((groups,), coefficient, dtype=torch.float64)
    return WorldTargets(echo_weights(targets, coefficient).float(), targets > 0, constants, repeated)


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
    if config.coefficient == "failed":
        return failed_coefficients(pool.episode_returns, pool.episode_groups, pool.max_return)
    groups = int(pool.episode_groups.max()) + 1
    value = config.start
    if config.coefficient == "schedule":
        value = scheduled_coefficient(config.start, config.end, update, updates)
    return torch.full((groups,), value, dtype=torch.float64)
