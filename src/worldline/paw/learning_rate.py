"""The learning rate of an update: a default by the kind of model, warm-up, and a schedule over the run.

A small model made from nothing needs far more than the rate of a pretrained one of a billion parameters: at 1e-6 a
clone of 0.7 million parameters does not move, from 5e-5 to 4e-4 it learns (docs/training.md). The rate is
a function of the update's number, so a resumed run needs no state for it; with a schedule that ends, a run that is made
longer goes on along the longer schedule.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

Schedule = Literal["constant", "linear", "cosine"]

SMALL, LARGE = 20_000_000, 1_000_000_000
"""Parameters: below the first a model was made from nothing (`sft --model nano`), from the second on it is large."""


@dataclass(frozen=True, slots=True)
class RateDefaults:
    """The learning rate and warm-up of a kind of model, where the recipe sets none."""

    lr: float
    warmup: int
    """Updates until the full rate is reached."""

    @property
    def critic_lr(self) -> float:
        """Ten times the policy's, as in the paper; a small model's critic at most 1e-3."""
        return min(1e-3, 10 * self.lr)


def rate_defaults(parameters: int, lora: bool) -> RateDefaults:
    """1e-4 below 20 million parameters, 3e-5 below a billion, else the paper's 1e-6; adapters take more."""
    if parameters < SMALL:
        return RateDefaults(5e-4 if lora else 1e-4, 1)
    if parameters < LARGE:
        return RateDefaults(1e-4 if lora else 3e-5, 3)
    return RateDefaults(1e-5 if lora else 1e-6, 3)


def rate_share(update: int, updates: int, schedule: Schedule = "constant", warmup: int = 0) -> float:
    """The share of the full rate at `update` (the first is 1): linear up over `warmup` updates, then the schedule.

    `linear` and `cosine` fall from 1 at the end of the warm-up to a tenth at the last update.
    """
    if update <= warmup:
        return update / (warmup + 1)
    if schedule == "constant":
        return 1.0
    first = warmup + 1
    gone = min(1.0, (update - first) / max(1, updates - first))
    fallen = gone if schedule == "linear" else (1 - math.cos(math.pi * gone)) / 2
    return 1 - 0.9 * fallen


def set_rates(optimizer: Any, rates: tuple[float, ...], share: float) -> None:
    """Give each of the optimizer's groups its share of its full rate."""
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate * share
