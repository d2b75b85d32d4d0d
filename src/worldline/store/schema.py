"""The columns of a shard, and the way from trajectories to a table and back.

The columns are `Trajectory`'s fields, then `return` and `length`, so that most scans need not open the steps.
`meta` is a list of key/value pairs: a Parquet map would be its natural type, but `datasets` does not read maps.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any

import pyarrow as pa

from worldline.types import SCHEMA_VERSION, InputError, Step, Trajectory

VERSION_KEY = b"worldline.schema_version"

_TEXTS = pa.list_(pa.string())
_TOKENS = pa.list_(pa.int32())
_NUMBERS = pa.list_(pa.float64())

STEP = pa.struct(
    {
        "observation": pa.string(),
        "admissible": _TEXTS,
        "action": pa.string(),
        "response": pa.string(),
        "reward": pa.float64(),
        "valid": pa.bool_(),
        "logprob": pa.float64(),
        "token_ids": _TOKENS,
        "token_logprobs": _NUMBERS,
        "entropy": pa.float64(),
        "prompt_ids": _TOKENS,
    }
)

SCHEMA = pa.schema(
    {
        "schema_version": pa.int32(),
        "id": pa.string(),
        "env": pa.string(),
        "env_version": pa.string(),
        "family": pa.string(),
        "task_id": pa.string(),
        "split": pa.string(),
        "goal": pa.string(),
        "policy": pa.string(),
        "epsilon": pa.float64(),
        "seed": pa.int64(),
        "steps": pa.list_(STEP),
        "final_observation": pa.string(),
        "terminated": pa.bool_(),
        "truncated": pa.bool_(),
        "success": pa.bool_(),
        "score": pa.float64(),
        "meta": pa.list_(pa.struct({"key": pa.string(), "value": pa.string()})),
        "return": pa.float64(),
        "length": pa.int32(),
    },
    metadata={VERSION_KEY: str(SCHEMA_VERSION)},
)

_DERIVED: dict[str, Callable[[Trajectory], Any]] = {
    "return": lambda trajectory: float(trajectory.episode_return),
    "length": len,
    "meta": lambda trajectory: [{"key": key, "value": value} for key, value in trajectory.meta.items()],
}


OPTIONAL = {
    "success",
    "score",
    *(f"steps.{name}" for name in ("admissible", "logprob", "token_ids", "token_logprobs", "entropy", "prompt_ids")),
}
"""What may be null; a null anywhere else comes from a tool that is not ours."""


def to_table(trajectories: Sequence[Trajectory]) -> tuple[pa.Table, int]:
    """The trajectories as rows, and how many texts held characters that Unicode cannot store.

    Such characters (lone surrogates, which is how Python carries undecodable bytes) become U+FFFD: a world that
    prints binary rubbish must not cost the run its episodes.
    """
    try:
        return _to_table(trajectories)
    except InputError as error:
        if len(trajectories) == 1:
            raise InputError(f"episode '{trajectories[0].id}' {error}") from None
        for trajectory in trajectories:  # one of them raises, and is named
            to_table([trajectory])
        raise


def _to_table(trajectories: Sequence[Trajectory]) -> tuple[pa.Table, int]:
    mended = 0
    columns = []
    for field in SCHEMA:
        if field.name == "steps":
            column, changed = _steps(trajectories)
        elif field.name in _DERIVED:
            column, changed = _column(list(map(_DERIVED[field.name], trajectories)), field)
        else:
            column, changed = _column([getattr(trajectory, field.name) for trajectory in trajectories], field)
        columns.append(column)
        mended += changed
    return pa.Table.from_arrays(columns, schema=SCHEMA), mended


def to_trajectories(table: pa.Table) -> Iterator[Trajectory]:
    """The rows of a table that has all the columns of `SCHEMA`."""
    names = list(Trajectory.model_fields)
    for row in table.select(names).to_pylist():
        row["meta"] = {pair["key"]: pair["value"] for pair in row["meta"]}
        yield Trajectory.model_validate(row)


def _steps(trajectories: Sequence[Trajectory]) -> tuple[pa.Array, int]:
    """All steps as one flat struct, cut into episodes by offsets: several times faster than row by row."""
    flat: list[Step] = list(chain.from_iterable(trajectory.steps for trajectory in trajectories))
    offsets = list(accumulate(map(len, trajectories), initial=0))
    columns = [_column([getattr(step, field.name) for step in flat], field) for field in STEP]
    struct = pa.StructArray.from_arrays([column for column, _ in columns], fields=list(STEP))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), struct), sum(changed for _, changed in columns)


def _column(values: list[Any], field: pa.Field) -> tuple[pa.Array, int]:
    try:
        return pa.array(values, field.type), 0
    except UnicodeEncodeError:
        mended = [mend(value) for value in values]
        return pa.array(mended, field.type), sum(new != old for new, old in zip(mended, values, strict=True))
    except (pa.ArrowInvalid, OverflowError) as error:
        raise InputError(f"does not fit the store: {field.name}: {error}") from None


def mend(value: Any) -> Any:
    """`value` with its lone surrogates replaced, wherever in it they are."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {key: mend(item) for key, item in value.items()}
    return [mend(item) for item in value] if isinstance(value, list | tuple) else value
