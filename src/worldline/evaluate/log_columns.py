"""A log by its columns: what weights, intervals and breakdowns need, without its text.

Read a row group at a time. Rewards and log-probabilities, two numbers per step, go to `scratch` and lie on disk if they
are many; an episode leaves its name and a few integers in memory. The text is read only for what needs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from worldline import store
from worldline.ope.log import RaggedLog
from worldline.ope.names import Coded, coded, column, refuse_repeated
from worldline.ope.scratch import Scratch
from worldline.types import InputError, policy_label

COLUMNS = ("id", "env", "task_id", "policy", "epsilon", "terminated", "truncated", "steps.reward", "steps.logprob")


@dataclass(frozen=True, eq=False)
class LogColumns:
    """The arrays of a log, its environments, and where the columns are that episodes can be grouped by."""

    log: RaggedLog
    folders: tuple[Path, ...]
    worlds: tuple[str, ...]
    loggers: dict[str, tuple[str, float]]
    """Name and epsilon of each policy that logged, by its label."""
    cut: int
    """Episodes that neither ended nor ran out of steps."""
    kept: npt.NDArray[np.int64]
    """Which episodes of the folders these are."""

    def take(self, episodes: npt.NDArray[np.int64]) -> "LogColumns":
        """The same with these episodes only."""
        return replace(self, log=self.log.take(episodes), kept=self.kept[episodes])

    def groups(self, name: str) -> Coded:
        """The value of a column per episode: family, split, task, policy, or a key of the metadata."""
        if name == "task":
            return Coded(self.log.tasks, self.log.task_names)
        if name == "policy":
            return Coded(self.log.policies, self.log.policy_names)
        if name in ("family", "split"):
            return coded(
                column([part for batch in store.batches(self.folders, [name]) for part in batch[name].chunks]).take(
                    self.kept
                )
            )
        keys: set[str] = set()
        values: list[str] = []
        for batch in store.batches(self.folders, ["meta"]):
            rows = [{pair["key"]: pair["value"] for pair in row} for row in batch["meta"].to_pylist()]
            keys |= {key for row in rows for key in row}
            values += [row.get(name, "") for row in rows]
        if name not in keys:
            there = ", ".join(["family", "split", "task", "policy", *sorted(keys)])
            raise InputError(f"--by {name}: the log has no such column: there are {there}")
        return coded([values[i] for i in self.kept])


def read_columns(folders: Sequence[Path], scratch: Scratch | None = None) -> LogColumns:
    """The columns of the log in these folders; the rules are those of `ope.log.ragged_log`."""
    kept: dict[str, list[pa.Array]] = {name: [] for name in COLUMNS[:-2]}
    scratch = scratch or Scratch()
    rewards, behaviour = scratch.column(), scratch.column()
    lengths = [np.zeros(0, dtype=np.int64)]
    worlds: set[str] = set()
    for batch in store.batches(folders, COLUMNS):
        worlds |= set(pc.unique(batch["env"]).to_pylist())
        for steps in batch["steps"].chunks:
            flat = steps.flatten()
            rewards.append(flat.field("reward").to_numpy(zero_copy_only=False).astype(np.float64, copy=False))
            behaviour.append(flat.field("logprob").to_numpy(zero_copy_only=False).astype(np.float64, copy=False))
            lengths.append(np.asarray(pc.list_value_length(steps), dtype=np.int64))
        for name, chunks in kept.items():
            if name != "env":
                chunks += batch[name].chunks
    ids = column(kept["id"])
    refuse_repeated(ids)
    tasks = coded(column(kept["task_id"]))
    policies, loggers = _policies(kept["policy"], kept["epsilon"])
    terminated, truncated = (_flags(kept[name]) for name in ("terminated", "truncated"))
    log = RaggedLog(
        rewards=rewards.array,
        behaviour=behaviour.array,
        offsets=np.concatenate([[0], np.cumsum(np.concatenate(lengths))]),
        tasks=tasks.codes,
        policies=policies.codes,
        terminated=terminated,
        task_names=tasks.names,
        policy_names=tuple(policies.names),
        ids=ids,
        scratch=scratch,
    )
    return LogColumns(
        log=log,
        folders=tuple(folders),
        worlds=tuple(sorted(worlds)),
        loggers=loggers,
        cut=int((~(terminated | truncated)).sum()),
        kept=np.arange(len(ids)),
    )


def _policies(names: Sequence[pa.Array], epsilons: Sequence[pa.Array]) -> tuple[Coded, dict[str, tuple[str, float]]]:
    """Who made each episode, and name and epsilon of each by label."""
    acting = coded(column(names))
    chance, which = np.unique(pa.chunked_array(epsilons, pa.float64()).to_numpy(), return_inverse=True)
    pairs, inverse = np.unique(acting.codes * max(len(chance), 1) + which, return_inverse=True)
    makers = [(acting.names[pair // len(chance)], float(chance[pair % len(chance)])) for pair in pairs]
    labels = coded([policy_label(*maker) for maker in makers])
    by_label = {labels.names[code]: maker for code, maker in zip(labels.codes, makers, strict=True)}
    return Coded(labels.codes[inverse], labels.names), dict(sorted(by_label.items()))


def _flags(chunks: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = pa.chunked_array(chunks, pa.bool_()).to_numpy().astype(np.bool_)
    return flags
