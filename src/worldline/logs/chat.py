"""`chat`: one conversation per row, `{messages, reward, ...}` as JSONL or as a JSON list; tau-bench's result files.

The reward may be anywhere in the row (`Options.reward`, as `info.reward`). A row without `task_id` is named after
what its conversation opens with, so that two agents given the same task share it. Extras end up in `meta`, thoughts
and tool calls of each step too (`steps.thought`, `steps.tool_calls`).
"""

from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from worldline.logs.messages import Message, converse
from worldline.logs.source import NO_ENV, ImportSource, as_meta, override, with_final_reward
from worldline.types import Trajectory


class _Chat(BaseModel):
    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True, allow_inf_nan=False)

    id: str = Field("", validation_alias=AliasChoices("id", "episode_id"))
    messages: list[Message] = Field(validation_alias=AliasChoices("messages", "traj"))
    reward: float | None = None
    score: float | None = None
    success: bool | None = None
    task_id: str = ""
    policy: str = Field("", validation_alias=AliasChoices("policy", "model"))
    env: str = Field("", validation_alias=AliasChoices("env", "dataset"))
    split: str = ""
    trial: str = ""
    truncated: bool = False
    seed: int = Field(0, ge=-(2**63), lt=2**63)
    epsilon: float = 0.0


def convert(row: Any, source: ImportSource) -> Trajectory:
    """One row as an episode; ValueError if it is none."""
    chat = _Chat.model_validate(override(row, source.options))
    conversation = converse(chat.messages)
    policy = source.policy(chat.policy)
    task_id = source.task(chat.task_id, conversation.goal or conversation.system)
    success = chat.success
    if success is None and "traj" in row and chat.reward is not None:
        success = abs(chat.reward - 1.0) <= 1e-6  # tau-bench's own definition
    extras = {
        **(chat.model_extra or {}),
        **conversation.extras,
        "trial": chat.trial or None,
        "reward": "missing" if chat.reward is None else None,
        **source.own_id(chat.id),
    }
    return Trajectory(
        id=source.episode_id(policy, task_id, chat.trial, chat.id),
        env=source.options.env or chat.env or NO_ENV,
        task_id=task_id,
        split=source.options.split or chat.split,
        goal=conversation.goal,
        policy=policy,
        epsilon=chat.epsilon,
        seed=chat.seed,
        steps=with_final_reward(conversation.steps, chat.reward),
        final_observation=conversation.final_observation,
        terminated=chat.reward is not None and not chat.truncated,
        truncated=chat.truncated,
        success=success,
        score=chat.score,
        meta=as_meta(extras),
    )
