"""A log by its columns: what weights, intervals and breakdowns need, without its text.

A step takes two numbers in memory, rewards and log-probabilities, and an episode a few: a million steps fit 20 MB. The
text of the log is read only for what asks for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from worldline import store
from worldline.ope.log import Coded, RaggedLog, coded
from worldline.types import InputError, policy_label

COLUMNS = ("id", "env", "family", "task_id", "split", "policy", "epsilon", "terminated", "truncated", "meta")


@dataclass(frozen=True, eq=False)
class LogColumns:
    """The arrays of a log, its environments, and the columns that episodes can be grouped by."""

    log: RaggedLog
    worlds: tuple[str, ...]
    loggers: dict[str, tuple[str, float]]
    """Name and epsilon of each policy that logged, by its label."""
    cut: int
    """Episodes that neither ended nor ran out of steps."""
    families: tuple[str, ...]
    splits: tuple[str, ...]
    meta: tuple[dict[str, str], ...]
    kept: npt.NDArray[np.int64]
    """Which episodes of the folders these are."""

    def take(self, episodes: npt.NDArray[np.int64]) -> "LogColumns":
        """The same with these episodes only."""
        return replace(
            self,
            log=self.log.take(episodes),
            families=tuple(self.families[i] for i in episodes),
            splits=tuple(self.splits[i] for i in episodes),
            meta=tuple(self.meta[i] for i in episodes) if self.meta else (),
            kept=self.kept[episodes],
        )

    def groups(self, column: str) -> Coded:
        """The value of a column per episode: family, split, task, policy, or a key of the metadata."""
        if column == "task":
            return Coded(self.log.tasks, self.log.task_names)
        if column == "policy":
            return Coded(self.log.policies, self.log.policy_names)
        if column in ("family", "split"):
            return coded(self.families if column == "family" else self.splits)
        keys = {key for row in self.meta for key in row}
        if column not in keys:
            there = ", ".join(["family", "split", "task", "policy", *sorted(keys)])
            raise InputError(f"--by {column}: the log has no such column: there are {there}")
        return coded([row.get(column, "") for row in self.meta])


def read_columns(folders: Sequence[Path]) -> LogColumns:
    """The columns of the log in these folders; the rules are those of `ope.log.ragged_log`."""
    table = store.scan(folders, [*COLUMNS, "steps.reward", "steps.logprob"])
    ids = table["id"].to_pylist()
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(name for name in ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]  # add returns None, which is the point
        raise InputError(f"episode id '{twice}' occurs {ids.count(twice)} times: was a log folder given twice?")
    steps = table["steps"].combine_chunks() if table.num_rows else pa.array([], table["steps"].type)
    flat = steps.flatten()
    lengths = np.asarray(pa.compute.list_value_length(steps), dtype=np.int64)
    tasks = coded(table["task_id"].to_pylist())
    names = list(zip(table["policy"].to_pylist(), table["epsilon"].to_pylist(), strict=True))
    labels = {pair: policy_label(*pair) for pair in set(names)}
    policies = coded([labels[pair] for pair in names])
    terminated = table["terminated"].to_numpy(zero_copy_only=False).astype(np.bool_)
    truncated = table["truncated"].to_numpy(zero_copy_only=False).astype(np.bool_)
    meta = table["meta"].to_pylist()
    log = RaggedLog(
        rewards=flat.field("reward").to_numpy(zero_copy_only=False).astype(np.float64),
        behaviour=flat.field("logprob").to_numpy(zero_copy_only=False).astype(np.float64),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        tasks=tasks.codes,
        policies=policies.codes,
        terminated=terminated,
        task_names=tasks.names,
        policy_names=policies.names,
        ids=tuple(ids),
    )
    return LogColumns(
        log=log,
        worlds=tuple(sorted(set(table["env"].to_pylist()))),
        loggers={label: pair for pair, label in sorted(labels.items(), key=lambda item: item[1])},
        cut=int((~(terminated | truncated)).sum()),
        families=tuple(table["family"].to_pylist()),
        splits=tuple(table["split"].to_pylist()),
        meta=tuple({pair["key"]: pair["value"] for pair in row} for row in meta) if any(meta) else (),
        kept=np.arange(len(ids)),
    )
