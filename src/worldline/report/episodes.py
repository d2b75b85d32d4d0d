"""A log to page through: a light index of all episodes, whole episodes only when they are needed.

The index holds a few columns of each episode. A search for words opens the steps of some hundred episodes at a time
and says where to go on, so that no request takes long, however large the log.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldline import store
from worldline.types import InputError, Trajectory, policy_label

COLUMNS = ("id", "task_id", "policy", "epsilon", "success", "return", "length")
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
                return self._page(matches[: query.limit], last["row"] + 1)
        return self._page(matches, None)

    def episode(self, row: int) -> Trajectory:
        """One episode, whole."""
        if not 0 <= row < len(self.rows):
            raise InputError(f"{self.path}: has no row {row}: it holds {len(self.rows)} episodes")
        name, shard = self.rows[row]["id"], self.rows[row]["shard"]
        return next(store.read(shard, ids={name}))

    def _page(self, matches: list[dict[str, Any]], following: int | None) -> dict[str, Any]:
        more = following if following is not None and following < len(self.rows) else None
        rows = [{key: value for key, value in row.items() if key != "shard"} for row in matches]
        return {
            "episodes": rows,
            "next": more,
            "total": len(self.rows),
            "policies": self.policies,
            "problems": self.problems,
        }


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
