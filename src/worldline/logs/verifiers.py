"""`verifiers`: rollouts of Prime Intellect's verifiers: `traces.jsonl` (v1, an episode a line) and `results.jsonl`.

Of a v1 episode each agent's trace is an episode of ours; of its message graph the path to the last message is read, and
a message of the assistant that no model sampled is context, no decision. The reward is the weighted sum of the rewards.
Token ids and log-probs are kept. `metadata.json` beside `results.jsonl` names model and environment.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from worldline.logs.columns import any_rows
from worldline.logs.messages import Conversation, Message, converse
from worldline.logs.rows import BadRow, DecodedRow, load_json
from worldline.logs.source import ImportSource, as_meta, chosen_reward, present, with_final_reward
from worldline.types import Step, Trajectory


class _TraceNode(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    parent: int | None = None
    message: dict[str, Any]
    sampled: bool = False
    token_ids: list[int] = []
    mask: list[bool] = []
    logprobs: list[float] = []


class _WeightedReward(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    score: float
    weight: float = 1.0


class _TraceRecord(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: str = ""
    task: dict[str, Any] = {}
    agent: dict[str, Any] = {}
    nodes: list[_TraceNode] = []
    calls: list[dict[str, Any]] = []
    rewards: dict[str, _WeightedReward | None] = {}
    metrics: dict[str, Any] = {}
    ok: bool = False
    is_completed: bool = False
    stop_condition: str = ""
    errors: list[dict[str, Any]] = []


class _TurnTokens(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    prompt_ids: list[int] | None = None
    completion_ids: list[int] | None = None
    completion_logprobs: list[float] | None = None


class _Turn(BaseModel):
    model_config = ConfigDict(extra="ignore")

    tokens: _TurnTokens | None = None


class _RolloutRecord(BaseModel):
    """A line of results.jsonl."""

    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    example_id: str
    prompt: list[dict[str, Any]] | str | None = None
    completion: list[dict[str, Any]] | str | None = None
    task: str = ""
    answer: Any = None
    info: Any = None
    metrics: dict[str, Any] = {}
    stop_condition: str = ""
    is_truncated: bool = False
    error: Any = None
    trajectory: list[_Turn] = []


def is_rollout(row: Any) -> bool:
    if not isinstance(row, dict):
        return False
    episode = "traces" in row and isinstance(row.get("task"), dict)
    trace = "nodes" in row and "rewards" in row
    return episode or trace or ("example_id" in row and "completion" in row)


def rows(path: Path) -> Iterator[DecodedRow | BadRow]:
    """One row per trace or rollout, with what the run's metadata says."""
    metadata = run_metadata(path)
    for row in any_rows(path):
        if isinstance(row, BadRow) or not isinstance(row.value, dict) or "traces" not in row.value:
            yield row if isinstance(row, BadRow) else DecodedRow(row.where, (metadata, row.value))
            continue
        traces = row.value["traces"]
        if not isinstance(traces, list) or not traces:
            yield BadRow(row.where, "an episode without traces")
            continue
        env = row.value["env"].get("id") if isinstance(row.value.get("env"), dict) else None
        for number, trace in enumerate(traces, start=1):
            yield DecodedRow(f"{row.where}, trace {number}", ({**metadata, "env": env}, trace))


def convert(value: tuple[dict[str, Any], Any], source: ImportSource) -> Trajectory:
    """One trace or rollout as an episode; ValueError if it is none."""
    metadata, raw = value
    row = present(raw)
    return _from_trace(row, metadata, source) if "nodes" in row else _from_rollout(row, metadata, source)


def run_metadata(path: Path) -> dict[str, Any]:
    """The metadata.json of the run that a file lies in; empty where there is none."""
    beside = path.parent / "metadata.json"
    metadata = load_json(beside) if beside.is_file() else {}
    return metadata if isinstance(metadata, dict) else {}


def _from_trace(row: dict[str, Any], metadata: dict[str, Any], source: ImportSource) -> Trajectory:
    trace = _TraceRecord.model_validate(row)
    conversation = converse([_message(node) for node in _last_branch(trace.nodes)])
    data = trace.task.get("data") if isinstance(trace.task.get("data"), dict) else {}
    names = (trace.task.get("key"), (data or {}).get("name"), (data or {}).get("idx"), trace.task.get("hash"))
    task_id = next((str(name) for name in names if name is not None), "") or source.named_after(conversation.goal)
    config = trace.agent.get("config") if isinstance(trace.agent.get("config"), dict) else {}
    models = [call.get("model") for call in trace.calls] + [(config or {}).get("model"), trace.agent.get("name")]
    policy = source.policy(next((model for model in models if isinstance(model, str)), ""))
    scores = [one.score * one.weight for one in trace.rewards.values() if one is not None]
    reward = chosen_reward(row, source.options, sum(scores) if scores else None)
    extras = {
        **conversation.extras,
        **{f"metrics.{name}": value for name, value in trace.metrics.items()},
        "rewards": {name: one.score for name, one in trace.rewards.items() if one is not None} or None,
        "agent": trace.agent.get("name"),
        "stop_condition": trace.stop_condition or None,
        "error": trace.errors[-1].get("message") if trace.errors else None,
        "reward": "missing" if reward is None else None,
        **source.own_id(trace.id),
    }
    return Trajectory(
        id=source.episode_id(policy, task_id, "", trace.id),
        env=source.options.env or str(metadata.get("env") or "verifiers"),
        task_id=task_id,
        split=source.options.split,
        goal=conversation.goal,
        policy=policy,
        steps=with_final_reward(conversation.steps, reward),
        final_observation=conversation.final_observation,
        terminated=trace.is_completed and not trace.errors,
        meta=as_meta(extras),
    )


def _from_rollout(row: dict[str, Any], metadata: dict[str, Any], source: ImportSource) -> Trajectory:
    rollout = _RolloutRecord.model_validate(row)
    opening, answers = _listed(rollout.prompt, "user"), _listed(rollout.completion, "assistant")
    conversation = converse([Message.model_validate(message) for message in (*opening, *answers)])
    policy = source.policy(str(metadata.get("model") or ""))
    reward = chosen_reward(row, source.options, None)
    extras = {
        **conversation.extras,
        **{f"metrics.{name}": value for name, value in rollout.metrics.items()},
        "answer": rollout.answer,
        "info": rollout.info,
        "stop_condition": rollout.stop_condition or None,
        "error": rollout.error,
        "task": rollout.task or None,
        "reward": "missing" if reward is None else None,
    }
    return Trajectory(
        id=source.episode_id(policy, rollout.example_id, ""),
        env=source.options.env or str(metadata.get("env_id") or "verifiers"),
        task_id=rollout.example_id,
        split=source.options.split,
        goal=conversation.goal,
        policy=policy,
        steps=with_final_reward(_with_tokens(conversation, rollout.trajectory), reward),
        final_observation=conversation.final_observation,
        terminated=not rollout.is_truncated and rollout.error is None,
        truncated=rollout.is_truncated,
        meta=as_meta(extras),
    )


def _listed(messages: list[dict[str, Any]] | str | None, role: str) -> list[dict[str, Any]]:
    return [{"role": role, "content": messages}] if isinstance(messages, str) else messages or []


def _with_tokens(conversation: Conversation, turns: list[_Turn]) -> list[Step]:
    """The steps with the tokens of their turns, where there is a turn for each."""
    if len(turns) != len(conversation.steps):
        return conversation.steps
    steps = []
    for step, turn in zip(conversation.steps, turns, strict=True):
        tokens = turn.tokens or _TurnTokens()
        values = {
            "token_ids": tokens.completion_ids or None,
            "token_logprobs": tokens.completion_logprobs or None,
            "prompt_ids": tokens.prompt_ids or None,
        }
        steps.append(Step.model_validate({**step.model_dump(), **values}))
    return steps


def _last_branch(nodes: list[_TraceNode]) -> list[_TraceNode]:
    """From the root to the last message."""
    branch: list[_TraceNode] = []
    place: int | None = len(nodes) - 1 if nodes else None
    while place is not None:
        if not 0 <= place < len(nodes) or len(branch) > len(nodes):
            raise ValueError("its nodes do not lead from a root to the last message")
        branch.append(nodes[place])
        place = nodes[place].parent
    return branch[::-1]


def _message(node: _TraceNode) -> Message:
    message = Message.model_validate(node.message)
    if message.role == "assistant" and not node.sampled:
        return Message(role="context", content=message.text)
    ids = [token for token, own in zip(node.token_ids, node.mask, strict=False) if own]
    return message.model_copy(update={"token_ids": ids or None, "logprobs": node.logprobs or None})
