"""The episodes of logs as outcomes: who played which task, how it ended, how long it took, what it cost."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from worldline import store
from worldline.config import listed
from worldline.types import NOT_LOGGED, InputError, policy_label

Metric = Literal["auto", "success", "return", "score"]
METRICS = ("success", "return", "score")
COSTS = ("cost", "total_cost", "total_cost_usd", "cost_usd", "agent_cost")
"""Keys of `meta` that hold what an episode cost, the first that is there counts."""
COLUMNS = (
    "id", "env", "env_version", "family", "task_id", "split", "policy", "epsilon", "success", "score", "return",
    "length", "meta",
)  # packed lines read better  # fmt: skip
_GROUPS = ("env", "env_version", "family", "split", "task_id")


@dataclass(frozen=True)
class EpisodeOutcome:
    """One episode. What the log does not say is None."""

    id: str
    env: str
    task_id: str
    policy: str
    success: float | None
    returned: float | None
    score: float | None
    steps: int | None
    cost: float | None
    group: str

    def value(self, metric: str) -> float | None:
        return {"success": self.success, "return": self.returned, "score": self.score}[metric]


def read_outcomes(logs: Sequence[Path], by: str, cost: str) -> list[EpisodeOutcome]:
    """Every episode of the logs, a shard at a time: `meta` can be large."""
    store.check_unique(logs)
    outcomes: list[EpisodeOutcome] = []
    numbers: set[str] = set()
    for log in logs:
        for shard in store.shards(log):
            rows = store.scan(shard, COLUMNS).to_pylist()
            outcomes += (_outcome(row, by, cost) for row in rows)
            if cost:
                pairs = (pair for row in rows for pair in row["meta"] if pair["key"] not in numbers)
                numbers.update(pair["key"] for pair in pairs if _number(pair["value"]) is not None)
    if by and not any(outcome.group for outcome in outcomes):
        raise InputError(f"--by {by}: no episode has it: give {', '.join(_GROUPS)}, task_id:SEPARATOR or a key of meta")
    if cost and cost not in numbers:
        there = f"has {listed(cost, sorted(numbers))}" if numbers else "has none either"
        raise InputError(f"--cost {cost}: no episode has such a number in its meta, which {there}")
    return outcomes


def chosen_metric(metric: Metric, outcomes: Iterable[EpisodeOutcome]) -> str:
    """`auto` is success where every episode says it, else the return."""
    if metric != "auto":
        return metric
    return "success" if all(outcome.success is not None for outcome in outcomes) else "return"


def _outcome(row: Mapping[str, Any], by: str, cost: str) -> EpisodeOutcome:
    meta = {pair["key"]: pair["value"] for pair in row["meta"]}
    costs = [meta[key] for key in ((cost,) if cost else COSTS) if key in meta]
    return EpisodeOutcome(
        id=row["id"],
        env=row["env"],
        task_id=row["task_id"],
        policy=policy_label(row["policy"], row["epsilon"]),
        success=None if row["success"] is None else float(row["success"]),
        returned=_finite(row["return"]),
        score=_finite(row["score"]),
        steps=None if meta.get("steps") == NOT_LOGGED else row["length"],
        cost=_number(costs[0]) if costs else None,
        group=_group(row, meta, by),
    )


def _group(row: Mapping[str, Any], meta: Mapping[str, str], by: str) -> str:
    """A key of `meta` wins over the column of the same name; `task_id:-` is the task id up to its first '-'."""
    name, _, separator = by.partition(":")
    if by in meta:
        return meta[by]
    if name == "task_id" and separator:
        return str(row["task_id"]).partition(separator)[0]
    return str(row[name]) if name in _GROUPS else ""


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _number(text: str) -> float | None:
    try:
        return _finite(float(text))
    except ValueError:
        return None
