"""`table`: flat rows, a row per step or a row per episode, from CSV, Parquet or JSON lines.

Columns are called as a trajectory's fields are, or by one of the other names in `ALIASES`. Rows with an action belong
to an episode: that of the same `episode_id`, else of the same policy, task (or goal) and trial; its rows must stand
together. Rows without an action are whole episodes of which only the outcome was logged. In a table `reward` is the
step's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from worldline.logs.fields import PER_STEP, EpisodeFields, assemble
from worldline.logs.rows import BadRow, DecodedRow
from worldline.logs.source import NO_ENV, ImportSource, pick, present
from worldline.types import Trajectory

ALIASES = {
    "id": ("episode_id", "episode", "trajectory_id", "session_id", "run_id"),
    "task_id": ("task", "example_id", "instance_id", "question_id", "problem_id"),
    "policy": ("model", "agent", "version", "variant"),
    "env": ("dataset", "environment", "benchmark"),
    "goal": ("instruction", "prompt", "question"),
    "success": ("resolved", "passed", "correct", "solved", "won"),
    "observation": ("obs", "state"),
    "next_observation": ("next_obs", "result", "response_observation"),
    "thought": ("reasoning", "thinking"),
    "trial": ("attempt", "run"),
    "cost": ("cost_usd", "total_cost", "total_cost_usd"),
    "terminated": ("done",),
    "truncated": ("timeout",),
}
"""Our name of a column -> the other names it goes by."""
_ORIGINAL = {alias: name for name, aliases in ALIASES.items() for alias in aliases}
_STEP_NUMBER = ("step", "t", "turn", "step_id")


def is_table(row: Any) -> bool:
    """Whether a row says which policy did which task and how it ended, or what it did."""
    if not isinstance(row, dict):
        return False
    names = {_ORIGINAL.get(name, name) for name in row}
    return "action" in names or ("task_id" in names and bool(names & {"reward", "success", "score"}))


def step_list(row: Mapping[str, Any]) -> str:
    """The field that holds a list of objects, which may be the steps; empty if there is none."""
    lists = [name for name, value in row.items() if isinstance(value, list) and value and _objects(value)]
    if isinstance(row.get("steps"), list):
        return "steps"
    return next((name for name in lists if has_actions(row[name])), lists[0] if lists else "")


def has_actions(items: Sequence[Any]) -> bool:
    """Whether every object of a list says what was done: then the list is one of steps."""
    return bool(items) and _objects(items) and all("action" in item or "tool_calls" in item for item in items)


def _objects(items: Sequence[Any]) -> bool:
    return all(isinstance(item, dict) for item in items)


def group(rows: Iterable[DecodedRow | BadRow]) -> Iterator[DecodedRow | BadRow]:
    """The episodes of a table: each is a list of rows."""
    pending: list[dict[str, Any]] = []
    began, key, done = "", "", set[str]()
    for row in rows:
        if isinstance(row, BadRow) or not isinstance(row.value, dict):
            yield row if isinstance(row, BadRow) else BadRow(row.where, "a row of a table is an object")
            continue
        fields = renamed(row.value)
        own = _key(fields)
        if pending and own != key:
            done.add(key)
            yield DecodedRow(began, pending)
            pending = []
        if "action" not in fields:
            yield DecodedRow(row.where, [row.value])
        elif not own:
            yield BadRow(row.where, "nothing says which episode the step is of: --map id=FIELD or --map task_id=FIELD")
        elif own in done:
            yield BadRow(row.where, f"episode '{own}' went on after another one began: sort the table by episode")
        else:
            began, key = (began, key) if pending else (row.where, own)
            pending.append(row.value)
    if pending:
        yield DecodedRow(began, pending)


def convert(value: list[dict[str, Any]], source: ImportSource) -> Trajectory:
    """The rows of one episode; ValueError if they are none."""
    steps = [renamed(row) for row in value]
    first, last = steps[0], steps[-1]
    whole = {name: item for name, item in {**first, **last}.items() if name not in (*PER_STEP, *_STEP_NUMBER, "reward")}
    for name, path in (("reward", source.options.reward), ("score", source.options.score)):
        if path:
            whole[name] = pick(value[-1], path)
    if "action" not in first:
        if (name := step_list(value[0])) and has_actions(value[0][name]):
            raise ValueError(f"its steps in '{name}' would be dropped: --format episodes with --map steps={name}")
        return assemble(EpisodeFields.model_validate({**first, **whole}), source, NO_ENV)
    if "reward" not in whole:
        rewards = [row.get("reward") for row in steps]
        if None not in rewards:
            whole["rewards"] = rewards
        elif rewards[-1] is not None:
            whole["reward"] = rewards[-1]
    for name in (name for name in PER_STEP if any(name in row for row in steps) and name != "rewards"):
        whole[name] = [row.get(name) for row in steps]
    return assemble(EpisodeFields.model_validate(whole), source, NO_ENV)


def renamed(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the row says, by our names; a column that has ours already wins."""
    own = {name: value for name, value in present(row).items() if name not in _ORIGINAL}
    for name, value in present(row).items():
        if name in _ORIGINAL:
            own.setdefault(_ORIGINAL[name], value)
    return own


def _key(fields: Mapping[str, Any]) -> str:
    if fields.get("id") is not None:
        return str(fields["id"])
    task = fields.get("task_id", fields.get("goal", ""))
    return f"{fields.get('policy', '')}/{task}/{fields.get('trial', '')}" if task != "" or "trial" in fields else ""
