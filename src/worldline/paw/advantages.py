"""Which credit rule an update uses, and the way from step rows to response tokens."""

from typing import Literal

import torch
from torch import Tensor

from worldline.config import Config, option
from worldline.paw import credit
from worldline.paw.anchors import identical, similar
from worldline.paw.pool import Pool
from worldline.paw.rewards import Penalty

Algorithm = Literal["grpo", "gigpo", "rloo", "ppo"]


class CreditConfig(Config):
    """How actions are credited with what came of them."""

    norm: credit.Norm = option("mean_std", help="GRPO and GiGPO: divide by the spread, or only centre")
    omega: float = option(1.0, help="GiGPO: weight of the step advantage", ge=0)
    gamma: float = option(0.95, help="GiGPO: discount of the step returns", ge=0, le=1)
    anchors: Literal["identical", "similar"] = option("identical", help="GiGPO: when two states are the same")
    similarity: float = option(0.9, help="GiGPO: least difflib ratio of similar states", ge=0, le=1)
    penalty: Penalty = option(
        "format",
        help="what costs a step the penalty; inadmissible: any action that the world refuses; format: only a response "
        "without an action in it (verl-agent; the paper's recipes); none: nothing",
    )
    invalid: float | None = option(
        None, help="that penalty; default: the family's, 0.1 (search 0.01), else 1 % of the best return", ge=0
    )


def assign(
    pool: Pool,
    algorithm: Algorithm,
    statistics: credit.Statistics,
    config: CreditConfig,
    values: Tensor | None = None,
) -> credit.TokenCredit:
    """Advantages and value targets of all response tokens, flat; `values` are the critic's, for PPO."""
    if algorithm == "ppo":
        return _ppo(pool, values)
    rows = _per_row(pool, algorithm, statistics, config)
    tokens = rows.repeat_interleave(pool.lengths).float()
    return credit.TokenCredit(tokens, torch.zeros_like(tokens))


def _per_row(pool: Pool, algorithm: Algorithm, statistics: credit.Statistics, config: CreditConfig) -> Tensor:
    returns, penalties, groups, trajectories = pool.returns, pool.penalties, pool.groups, pool.trajectory
    if algorithm == "grpo":
        return credit.grpo(returns, penalties, groups, trajectories, statistics, config.norm)
    if algorithm == "rloo":
        return credit.rloo(returns, penalties, groups, trajectories, statistics)
    steps = credit.step_returns(pool.rewards, trajectories, config.gamma)
    places = _anchors(pool, config)
    return credit.gigpo(returns, penalties, steps, groups, trajectories, places, config.omega, statistics, config.norm)


def _anchors(pool: Pool, config: CreditConfig) -> Tensor:
    observations, groups = [step.observation for step in pool.steps], pool.groups.tolist()
    if config.anchors == "identical":
        return identical(observations, groups)
    return similar(observations, groups, config.similarity)


def _ppo(pool: Pool, values: Tensor | None) -> credit.TokenCredit:
    assert values is not None, "PPO needs a critic"
    lengths = pool.lengths
    padded = torch.nn.utils.rnn.pad_sequence(list(torch.split(values.double(), lengths.tolist())), batch_first=True)
    real = torch.arange(padded.shape[1]) < lengths[:, None]
    tokens = credit.gae(pool.returns + pool.penalties, padded, real.double())
    return credit.TokenCredit(tokens.advantages[real].float(), tokens.returns[real].float())
