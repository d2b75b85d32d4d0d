"""A log to page through: a light index of all episodes, whole episodes only when they are needed.

The index holds a few columns of each episode. A search for words opens the steps of some hundred episodes at a time
and says where to go on, so that no request takes long, however large the log.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldline import store
from worldline.types import InputError, Trajectory, policy_label

COLUMNS = ("id", "env", "task_id", "policy", "epsilon", "success", "return", "length")
TEXTS = ("id", "goal", "final_observation", "steps.observation", "steps.action")
MOST_PER_PAGE = 200
MOST_SEARCHED = 512
"""Episodes whose words one request reads at most."""


@dataclass(frozen=True)
class Query:
    """Which episodes, from which row on. Success: true, false or unknown."""

    start: int = 0
    limit: int = 50
    policy: str = ""
    success: str = ""
    text: str = ""

    def keeps(self, row: dict[str, Any]) -> bool:
        outcome = {True: "true", False: "false", None: "unknown"}[row["success"]]
        return self.policy in ("", row["label"]) and self.success in ("", outcome)


class EpisodeIndex:
    """The episodes of one log. Broken shards are left out and named in `problems`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []
        self._shards = store.shards(path)
        self._stamp = _stamp(self._shards)
        self.rows: list[dict[str, Any]] = []
        for shard in self._shards:
            table = store.scan(shard, COLUMNS, on_bad=lambda error: self.problems.append(str(error)))
            for row in table.to_pylist():
                label = policy_label(row["policy"], row["epsilon"])
                self.rows.append(row | {"row": len(self.rows), "label": label, "shard": shard})
        self.policies = list(dict.fromkeys(row["label"] for row in self.rows))
        self._by_id: dict[str, int] = {row["id"]: row["row"] for row in self.rows}
        self._by_task: dict[tuple[str, str], list[int]] = {}
        for row in self.rows:
            self._by_task.setdefault((row["env"], row["task_id"]), []).append(row["row"])

    @property
    def stale(self) -> bool:
        """Whether the log has changed since."""
        return _stamp(store.shards(self.path)) != self._stamp

    def page(self, query: Query) -> dict[str, Any]:
        """Up to `limit` episodes that match, and the row to go on from; null when all have been seen."""
        matches: list[dict[str, Any]] = []
        searched = 0
        matching = (row for row in self.rows[query.start :] if query.keeps(row))
        for batch in _batches(matching, 64 if query.text else MOST_PER_PAGE):
            kept = _with_words(batch, query.text) if query.text else batch
            matches += kept
            searched += len(batch)
            if len(matches) >= query.limit or searched >= (MOST_SEARCHED if query.text else len(self.rows)):
                last = matches[query.limit - 1] if len(matches) >= query.limit else batch[-1]
                return self._page(query, matches[: query.limit], last["row"] + 1)
        return self._page(query, matches, None)

    def row_of(self, name: str) -> int:
        """The row of the episode that has this id."""
        if name not in self._by_id:
            raise InputError(f"{self.path}: has no episode '{name[:80]}'")
        return self._by_id[name]

    def same_task(self, env: str, task_id: str) -> list[dict[str, Any]]:
        """The episodes of one task, in the order of the log, without the shards they lie in."""
        rows = (self.rows[number] for number in self._by_task.get((env, task_id), ()))
        return [{key: value for key, value in row.items() if key != "shard"} for row in rows]

    def episode(self, row: int) -> Trajectory:
        """One episode, whole."""
        if not 0 <= row < len(self.rows):
            raise InputError(f"{self.path}: has no row {row}: it holds {len(self.rows)} episodes")
        name, shard = self.rows[row]["id"], self.rows[row]["shard"]
        return next(store.read(shard, ids={name}))

    def _page(self, query: Query, matches: list[dict[str, Any]], following: int | None) -> dict[str, Any]:
        more = following if following is not None and following < len(self.rows) else None
        rows = [{key: value for key, value in row.items() if key != "shard"} for row in matches]
        return {
            "episodes": rows,
            "next": more,
            "total": len(self.rows),
            "matching": None if query.text else sum(map(query.keeps, self.rows)),
            "policies": self.policies,
            "problems": self.problems,
        }


def as_shown(trajectory: Trajectory) -> dict[str, Any]:
    """An episode for the viewer: with what `meta` says of each step, without its tokens."""
    tokens = {"token_ids", "token_logprobs", "prompt_ids"}
    content = trajectory.model_dump(mode="json", exclude={"steps": {"__all__": tokens}, "meta": True})
    thoughts, calls = (_of_each_step(trajectory, name) for name in ("steps.thought", "steps.tool_calls"))
    for step, thought, own in zip(content["steps"], thoughts, calls, strict=True):
        logprob = step["logprob"]
        step["probability"] = math.exp(min(logprob, 0.0)) if isinstance(logprob, float) else None
        step["thought"] = thought if isinstance(thought, str) else None
        step["calls"] = len(own) if isinstance(own, list) else 0
    shown = {key: value for key, value in trajectory.meta.items() if not key.startswith("steps.")}
    return content | {"return": trajectory.episode_return, "meta": shown}


def _of_each_step(trajectory: Trajectory, key: str) -> list[Any]:
    try:
        values = json.loads(trajectory.meta.get(key, "null"))
    except (ValueError, RecursionError):
        values = None
    fits = isinstance(values, list) and len(values) == len(trajectory)
    return values if fits else [None] * len(trajectory)


def _with_words(rows: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The episodes that say `text` somewhere, in whichever case."""
    words = text.casefold()
    shards = list(dict.fromkeys(row["shard"] for row in rows))
    texts = store.scan(shards, TEXTS, ids={row["id"] for row in rows}, on_bad=lambda error: None)
    holding = {
        row["id"]
        for row in texts.to_pylist()
        if any(words in part.casefold() for part in (row["goal"], row["final_observation"], *_parts(row["steps"])))
    }
    return [row for row in rows if row["id"] in holding]


def _parts(steps: list[dict[str, str]]) -> Iterator[str]:
    for step in steps:
        yield step["observation"]
        yield step["action"]


def _batches(rows: Iterator[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _stamp(shards: list[Path]) -> list[tuple[str, int]]:
    return [(shard.name, shard.stat().st_mtime_ns) for shard in shards]
