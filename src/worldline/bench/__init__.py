"""The measured figures of the README and the docs, each reproducible by one command: `worldline bench NAME`.

Ratios are measured side by side in one run; absolute figures belong to the machine that is named beside them.
"""

from dataclasses import dataclass, field
from typing import Any

BENCHES = {
    "env": "environment steps per second, and the rollout engine against one episode at a time",
    "searchqa": "a corpus: how fast it is indexed and searched, how many answers it holds and searches bring",
    "scienceworld": "solved episodes replayed, and steps per second with and without the list of valid actions",
    "imagine": "imagined steps per second: batched, by sampler, and a language model through soft tokens",
    "train": "success on unseen tasks with and without world-model co-training, over seeds",
    "paw": "what world-model co-training costs: time and memory of an update, against plain cross-entropy",
    "noise": "share of the world-model gradient that falls on unpredictable tokens, by loss",
    "ope": "the classical estimators on a log of a million steps",
    "fit": "seconds and peak memory of worldline fit on logs of a hundred thousand and of a million steps",
    "coverage": "coverage of intervals, silent errors, false flags and the recommendation, on logs with exact values",
    "ablate": "ablations of the world model, on the policies of bench rank",
    "worlds": "every estimator in small worlds of many kinds: rank correlation, error, coverage, regret",
    "rank": "rank correlation of every estimator on ten policies, from a log of three others",
}


@dataclass(frozen=True)
class Figures:
    """What a bench measured: named numbers, and the rows of its table."""

    figures: dict[str, float]
    rows: list[dict[str, Any]] = field(default_factory=list)
