"""`chat`: one conversation per row, `{messages, reward, ...}` as JSONL or as a JSON list; tau-bench's result files.

The reward may be anywhere in the row (`Options.reward`, as `info.reward`). A row without `task_id` is named after
what its conversation opens with, so that two agents given the same task share it. An `id`, and the log-probs of what
the assistant said (`logprob` of a message, or `logprobs` of its tokens), are kept. Extras end up in `meta`.
"""

import hashlib
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from worldline.logs.messages import Conversation, Message, converse
from worldline.logs.source import ImportSource, as_meta, override, with_final_reward
from worldline.types import Trajectory


class _Chat(BaseModel):
    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True, allow_inf_nan=False)

    id: str = ""
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


def convert(row: Any, source: ImportSource) -> Trajectory:
    """One row as an episode; ValueError if it is none."""
    chat = _Chat.model_validate(override(row, source.options))
    conversation = converse(chat.messages)
    policy = source.options.policy or chat.policy or source.name
    task_id = chat.task_id or _named_after(conversation)
    success = chat.success
    if success is None and "traj" in row and chat.reward is not None:
        success = abs(chat.reward - 1.0) <= 1e-6  # tau-bench's own definition
    extras = {
        **(chat.model_extra or {}),
        "system": conversation.system or None,
        "trial": chat.trial or None,
        "reward": "missing" if chat.reward is None else None,
    }
    return Trajectory(
        id=chat.id or source.episode_id(policy, task_id, chat.trial),
        env=source.options.env or chat.env or source.name,
        task_id=task_id,
        split=source.options.split or chat.split,
        goal=conversation.goal,
        policy=policy,
        steps=with_final_reward(conversation.steps, chat.reward),
        final_observation=conversation.final_observation,
        terminated=chat.reward is not None and not chat.truncated,
        truncated=chat.truncated,
        success=success,
        score=chat.score,
        meta=as_meta(extras),
    )


def _named_after(conversation: Conversation) -> str:
    opening = conversation.goal or conversation.system
    return hashlib.blake2b(opening.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
