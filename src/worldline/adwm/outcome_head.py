"""What a step did to the episode: did it end, what did it earn, was it a success? Logits, and how to read them.

The networks have a head for each; beside them stands a linear part over the outcome features of the narrator.
`CalibratedHeads` undoes the prior of training and applies slope and offset fitted on held-out tasks.
"""

from typing import NamedTuple

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor
from torch.nn import functional as F

from worldline.adwm.calibration import prior_shift

PRECEDENTS = 4
"""The first outcome features of a step: what other episodes of its task earned."""


class Outcome(NamedTuple):
    """Logits of what a step did: the end of the episode, its reward at the end and on the way, success at the end."""

    hazard: Tensor
    reward_at_end: Tensor
    reward_on_way: Tensor
    success: Tensor


def linear_logits(outcome_features: Tensor, linear: Tensor, precedent: Tensor) -> Tensor:
    """(N, F) -> (N, 4): every feature counts for every head, but precedents do not count for the end."""
    outcome_features = F.pad(outcome_features, (0, max(0, PRECEDENTS + 1 - outcome_features.shape[1])))
    logits = F.embedding_bag(outcome_features[:, PRECEDENTS:], linear, mode="sum", padding_idx=0)
    earned = F.embedding_bag(outcome_features[:, :PRECEDENTS], precedent, mode="sum", padding_idx=0)
    return logits + F.pad(earned, (1, 0))


class Priors(BaseModel):
    """Rates of the end of an episode, and mean reward and success at it: as drawn in training, and in the log."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hazard: tuple[float, float]
    reward: tuple[float, float]
    success: tuple[float, float]


class CalibratedHeads(BaseModel):
    """What stands between a logit and a probability: the training prior, then slope and offset on held-out tasks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    priors: Priors
    hazard: tuple[float, float] = (1.0, 0.0)
    reward: tuple[float, float] = (1.0, 0.0)
    success: tuple[float, float] = (1.0, 0.0)
    held_out: tuple[str, ...] = ()
    """The tasks this member was not trained on."""

    def corrected(self, outcome: Outcome) -> Outcome:
        """The logits with the upsampling of training undone."""
        shift = {name: prior_shift(*getattr(self.priors, name)) for name in ("hazard", "reward", "success")}
        return Outcome(
            outcome.hazard + shift["hazard"],
            outcome.reward_at_end + shift["reward"],
            outcome.reward_on_way,
            outcome.success + shift["success"],
        )

    def read(self, outcome: Outcome) -> Outcome:
        """Calibrated probabilities."""
        return self.calibrated(self.corrected(outcome))

    def calibrated(self, logits: Outcome) -> Outcome:
        """Probabilities from corrected logits."""
        return Outcome(
            torch.sigmoid(self.hazard[0] * logits.hazard + self.hazard[1]),
            torch.sigmoid(self.reward[0] * logits.reward_at_end + self.reward[1]),
            torch.sigmoid(logits.reward_on_way),
            torch.sigmoid(self.success[0] * logits.success + self.success[1]),
        )
