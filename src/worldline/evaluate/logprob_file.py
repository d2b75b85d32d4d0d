"""Log-probs that were computed elsewhere, `NAME=logprobs:FILE`: JSON lines or Parquet, a row per episode.

A row has `id`, `logprobs` (one per step; null for 'never') and perhaps `admissible_logprobs` (a list per step). Rows
are read some at a time, in whatever order they stand, and go where the log's steps are: in memory, or on disk.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from worldline.evaluate.candidates import Scores
from worldline.nearby import nearby
from worldline.ope.log import RaggedLog, Steps
from worldline.ope.names import Names, column
from worldline.ope.text import TextLog
from worldline.types import InputError

ROWS = 4096
"""Read at once."""
OPTIONS = "admissible_logprobs"


@dataclass(frozen=True, eq=False)
class _Rows:
    """Some rows of a file: `values` end to end, -inf for 'never'; the length of a row that holds no list is -1."""

    ids: pa.Array
    lengths: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    listed: bool
    """Whether every row has a value for every admissible action."""


def from_file(path: Path, log: RaggedLog, text: Callable[[], TextLog]) -> Scores:
    """The log-probs of the logged actions, and of all options where the file has them."""
    logged = np.empty(log.steps) if log.scratch is None else log.scratch.empty(log.steps)
    names = log.ids if isinstance(log.ids, Names) else column([pa.array(log.ids, pa.large_string())])
    present = np.zeros(log.episodes, dtype=np.bool_)
    listed, done = True, 0
    for rows in _batches(path):
        episodes = _episodes(rows.ids, names, done)
        _place(rows, episodes, log, logged, path)
        present[episodes[episodes >= 0]] = True
        listed, done = listed and rows.listed, done + len(rows.ids)
        log.release()
    if not present.all():
        raise InputError(f"{path}: has no row for {log.name(int(np.argmin(present)))} of the log")
    if not listed or text().unlisted:
        return Scores(logged, None)
    by_id = {str(row["id"]): row for _, row in _objects(path)}
    options: list[float] = []
    for episode, name in enumerate(log.ids):
        options += _options(by_id[name][OPTIONS], by_id[name]["logprobs"], episode, log, text(), path)
    return Scores(logged, np.array(options))


def _episodes(ids: pa.Array, names: Names, done: int) -> npt.NDArray[np.int64]:
    """The episode of each row; -1 where the log has none of that name. Most files are in the order of the log."""
    here = names.texts[done : done + len(ids)]
    if len(here) == len(ids) and ids.equals(here):
        return np.arange(done, done + len(ids))
    where: npt.NDArray[np.int64] = pc.index_in(ids, value_set=names.texts).fill_null(-1).to_numpy().astype(np.int64)
    return where


def _place(rows: _Rows, episodes: npt.NDArray[np.int64], log: RaggedLog, logged: Steps, path: Path) -> None:
    """Put the values of the rows at the steps of their episodes."""
    own = np.flatnonzero(episodes >= 0)
    due = log.lengths[episodes[own]]
    wrong = np.flatnonzero(rows.lengths[own] != due)
    if len(wrong):
        length, name = int(rows.lengths[own[wrong[0]]]), log.name(int(episodes[own[wrong[0]]]))
        got = length if length >= 0 else "no list"
        raise InputError(f"{path}: {name} has {due[wrong[0]]} steps, 'logprobs' has {got}")
    ends = np.cumsum(np.maximum(rows.lengths, 0))
    starts = ends - np.maximum(rows.lengths, 0)
    taken = np.arange(int(due.sum())) + np.repeat(starts[own] - (np.cumsum(due) - due), due)
    values = rows.values[taken]
    bad = np.flatnonzero(~(values <= 1e-4))
    if len(bad):
        name = log.name(int(np.repeat(episodes[own], due)[bad[0]]))
        raise _no_logprob(float(values[bad[0]]), path, name)
    logged[log.step_rows(episodes[own])] = np.minimum(values, 0.0)


def _no_logprob(value: object, path: Path, name: str) -> InputError:
    return InputError(f"{path}: {name}: {value!r} is no log-probability (at most 0; null for 'never')")


def _batches(path: Path) -> Iterator[_Rows]:
    if not path.is_file():
        raise InputError(f"{path}: no such file of log-probs{nearby(path)}")
    return _parquet(path) if path.suffix == ".parquet" else _json_lines(path)


def _parquet(path: Path) -> Iterator[_Rows]:
    try:
        with pq.ParquetFile(path, buffer_size=1 << 20) as file:
            columns = [name for name in ("id", "logprobs", OPTIONS) if name in file.schema_arrow.names]
            if columns[:2] != ["id", "logprobs"]:
                raise _incomplete(path, 1)
            for batch in file.iter_batches(ROWS, columns=columns):
                lists = batch["logprobs"]
                kind = lists.type
                if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
                    raise InputError(f"{path}: column 'logprobs' holds {kind}, not a list of numbers per episode")
                yield _Rows(
                    batch["id"].cast(pa.large_string()),
                    pc.list_value_length(lists).fill_null(-1).to_numpy().astype(np.int64),
                    lists.flatten().cast(pa.float64()).fill_null(-np.inf).to_numpy(),
                    OPTIONS in columns and not batch[OPTIONS].null_count,
                )
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: no Parquet file of log-probs: {' '.join(str(error).split())[:200]}") from None


def _json_lines(path: Path) -> Iterator[_Rows]:
    rows = _objects(path)
    while some := list(islice(rows, ROWS)):
        lists = [row["logprobs"] if isinstance(row["logprobs"], list) else None for _, row in some]
        numbers = [-np.inf if value is None else value for values in lists for value in values or ()]
        if not set(map(type, numbers)) <= {float, int}:
            _refuse_other(some, path)
        yield _Rows(
            pa.array([str(row["id"]) for _, row in some], pa.large_string()),
            np.array([-1 if values is None else len(values) for values in lists], dtype=np.int64),
            np.array(numbers, dtype=np.float64),
            all(row.get(OPTIONS) is not None for _, row in some),
        )


def _refuse_other(rows: Sequence[tuple[int, dict[str, object]]], path: Path) -> None:
    """Raise for the first value that is no number."""
    for _, row in rows:
        for value in row["logprobs"] if isinstance(row["logprobs"], list) else ():
            _number(value, path, f"episode '{row['id']}'")


def _objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Row by row, with its number."""
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            rows = (row for batch in file.iter_batches(ROWS) for row in batch.to_pylist())
            yield from enumerate(rows, start=1)
        return
    try:
        with path.open(encoding="utf-8") as lines:
            for number, row in enumerate((json.loads(line) for line in lines if line.strip()), start=1):
                if not isinstance(row, dict) or "id" not in row or "logprobs" not in row:
                    raise _incomplete(path, number)
                yield number, row
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: neither Parquet nor JSON lines: {error}") from None


def _incomplete(path: Path, row: int) -> InputError:
    return InputError(f"{path}: row {row} must have 'id' (of the episode) and 'logprobs' (one per step)")


def _number(value: object, path: Path, name: str) -> float:
    if value is None:
        return float("-inf")
    if not isinstance(value, int | float) or value != value or value > 1e-4:
        raise _no_logprob(value, path, name)
    return min(float(value), 0.0)


def _options(rows: object, logged: object, episode: int, log: RaggedLog, text: TextLog, path: Path) -> list[float]:
    """Log-probs in the order of the step's options: as admissible, then the logged action if it is not among them."""
    log_probs: list[float] = []
    name = log.name(episode)
    if not isinstance(rows, list) or len(rows) != log.lengths[episode] or not isinstance(logged, list):
        raise InputError(f"{path}: {name}: '{OPTIONS}' must have a list for every step")
    for t, listed in enumerate(rows):
        turn = text.turns[log.offsets[episode] + t]
        distinct = dict(zip(turn.admissible or (), listed, strict=False)) if isinstance(listed, list) else {}
        if not isinstance(listed, list) or len(listed) != len(turn.admissible or ()):
            raise InputError(f"{path}: {name}, step {t + 1}: one value per admissible action is needed")
        taken = text.taken[log.offsets[episode] + t]
        distinct.setdefault(taken, logged[t])
        log_probs += [_number(value, path, name) for value in distinct.values()]
    return log_probs
