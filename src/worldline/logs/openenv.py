"""`openenv`: what `openenv collect` writes: `results.jsonl`, an episode a line, and `metadata.json` beside it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from worldline.logs.columns import any_rows
from worldline.logs.messages import Message, converse
from worldline.logs.rows import BadRow, DecodedRow
from worldline.logs.source import ImportSource, as_meta, override, with_final_reward
from worldline.logs.verifiers import run_metadata
from worldline.types import Trajectory


class _OpenEnvEpisode(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True, allow_inf_nan=False)

    episode_id: str
    messages: list[Message]
    reward: float | None = None
    score: float | None = None
    done: bool = False
    task: Any = None
    metrics: dict[str, Any] = {}
    verify_metrics: dict[str, Any] = {}
    artifacts: dict[str, Any] = {}
    extra: dict[str, Any] = {}


def is_episode(row: Any) -> bool:
    return isinstance(row, dict) and {"episode_id", "messages", "tool_trace"} <= row.keys()


def rows(path: Path) -> Iterator[DecodedRow | BadRow]:
    """The episodes, each with the metadata of the run."""
    metadata = run_metadata(path)
    for row in any_rows(path):
        yield row if isinstance(row, BadRow) else DecodedRow(row.where, (metadata, row.value))


def convert(value: tuple[dict[str, Any], Any], source: ImportSource) -> Trajectory:
    """One line as an episode; ValueError if it is none."""
    metadata, row = value
    episode = _OpenEnvEpisode.model_validate(override(row, source.options))
    conversation = converse(episode.messages)
    policy = source.policy(str(metadata.get("model") or metadata.get("provider") or ""))
    task_id = _task_id(episode.task) or source.named_after(conversation.goal or conversation.system)
    extras = {
        **conversation.extras,
        **{f"metrics.{name}": item for name, item in {**episode.metrics, **episode.verify_metrics}.items()},
        **episode.extra,
        "task": episode.task,
        "artifacts": episode.artifacts or None,
        "reward": "missing" if episode.reward is None else None,
        **source.own_id(episode.episode_id),
    }
    return Trajectory(
        id=source.episode_id(policy, task_id, "", episode.episode_id),
        env=source.options.env or str(metadata.get("env") or "openenv"),
        task_id=task_id,
        split=source.options.split,
        goal=conversation.goal,
        policy=policy,
        steps=with_final_reward(conversation.steps, episode.reward),
        final_observation=conversation.final_observation,
        terminated=episode.done,
        score=episode.score,
        meta=as_meta(extras),
    )


def _task_id(task: Any) -> str:
    """What names the task: a text or number, or the id in an object; else the object itself."""
    if task is None:
        return ""
    if isinstance(task, dict):
        named = [task[key] for key in ("task_id", "id", "name", "seed") if task.get(key) is not None]
        return str(named[0]) if named else json.dumps(task, sort_keys=True)[:200]
    return str(task)
