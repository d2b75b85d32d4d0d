"""`atif`: the Agent Trajectory Interchange Format of Harbor and terminal agents, v1.0 to v1.7.

A file is one trajectory, or JSON lines of them. In a trial's folder (`agent/trajectory.json` beside `result.json`) the
result gives task, reward and cost; without it the reward is unknown. A step of the agent is a step; what users,
system and tools say is what it sees next. Steps copied from an earlier trajectory and steps without a model call are no
decisions of the policy: the first are left out, of the second only what came back is kept. Subagents are left out.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from worldline.logs.messages import Message, converse
from worldline.logs.rows import BadRow, DecodedRow, json_rows, load_json
from worldline.logs.source import ImportSource, Options, as_meta, chosen_reward, present, with_final_reward
from worldline.types import InputError, Trajectory

PREFIX = "ATIF"
_TRIAL = "result.json"


class _AgentInfo(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    name: str
    version: str = ""
    model_name: str = ""


class _StepMetrics(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)

    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None


class _AtifStep(BaseModel):
    model_config = ConfigDict(extra="ignore")

    source: str
    message: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    observation: dict[str, Any] | None = None
    metrics: _StepMetrics | None = None
    llm_call_count: int | None = None
    is_copied_context: bool | None = None


class _AtifTrajectory(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    schema_version: str
    session_id: str = ""
    trajectory_id: str = ""
    agent: _AgentInfo
    steps: list[_AtifStep]
    final_metrics: dict[str, Any] = {}
    notes: str = ""
    continued_trajectory_ref: str = ""
    result: dict[str, Any] = {}
    """The trial's result.json, put here when the file is read."""


def rows(path: Path) -> Iterator[DecodedRow | BadRow]:
    """The trajectories of a file, with the result of the trial whose folder it lies in."""
    result = _trial_result(path)
    try:
        documents: list[DecodedRow | BadRow] = [DecodedRow("the trajectory", load_json(path))]
    except InputError:  # not one document: lines of them
        documents = list(json_rows(path))
    for row in documents:
        if isinstance(row, DecodedRow) and isinstance(row.value, dict) and result:
            yield DecodedRow(row.where, {**row.value, "result": result})
        else:
            yield row


def is_trajectory(row: Any) -> bool:
    return isinstance(row, dict) and str(row.get("schema_version", "")).startswith(PREFIX) and "steps" in row


def convert(row: Any, source: ImportSource) -> Trajectory:
    """One trajectory as an episode; ValueError if it is none."""
    if not is_trajectory(row):
        raise ValueError(f"no ATIF trajectory: its schema_version does not begin with {PREFIX}")
    episode = _AtifTrajectory.model_validate(present(row))
    conversation = converse(list(_messages(episode.steps)))
    result = episode.result
    policy = source.options.policy or "+".join(filter(None, (episode.agent.name, episode.agent.model_name)))
    task_id = str(result.get("task_name") or source.named_after(conversation.goal))
    reward = _reward(row, result, source.options)
    own = episode.trajectory_id or episode.session_id
    failure = result.get("exception_info")
    extras = {
        **conversation.extras,
        **{key: value for key, value in episode.final_metrics.items() if isinstance(value, int | float)},
        "cost": _inner(result, "agent_result").get("cost_usd"),
        "agent_version": episode.agent.version or None,
        "trial": result.get("trial_name"),
        "error": failure.get("exception_type") if isinstance(failure, dict) else None,
        "rewards": _inner(result, "verifier_result").get("rewards"),
        "continued_in": episode.continued_trajectory_ref or None,
        "notes": episode.notes or None,
        "reward": "missing" if reward is None else None,
        **source.own_id(own),
    }
    return Trajectory(
        id=source.episode_id(policy, task_id, str(result.get("trial_name") or ""), own),
        env=source.options.env or str(result.get("source") or "harbor"),
        task_id=task_id,
        split=source.options.split,
        goal=conversation.goal,
        policy=policy,
        steps=with_final_reward(conversation.steps, reward),
        final_observation=conversation.final_observation,
        terminated=not failure and reward is not None,
        truncated=isinstance(failure, dict) and "Timeout" in str(failure.get("exception_type")),
        success=None if reward is None else reward >= 1.0,
        meta=as_meta(extras),
    )


def _messages(steps: list[_AtifStep]) -> Iterator[Message]:
    """The steps as chat messages; what a step observed comes after it."""
    for step in steps:
        if step.is_copied_context:
            continue
        role = {"agent": "assistant", "user": "user", "system": "system"}.get(step.source)
        if role is None:
            raise ValueError(f"a step of source '{step.source[:40]}': it must be system, user or agent")
        if role != "assistant" or step.llm_call_count != 0:
            metrics = step.metrics or _StepMetrics()
            yield Message(
                role=role,
                content=step.message,
                reasoning_content=step.reasoning_content,
                tool_calls=[_call(call) for call in step.tool_calls or []],
                token_ids=metrics.completion_token_ids,
                prompt_ids=metrics.prompt_token_ids,
                logprobs=metrics.logprobs,
            )
        results = (step.observation or {}).get("results")
        for one in results if isinstance(results, list) else []:
            content = one.get("content") if isinstance(one, dict) else None
            if content is not None:
                yield Message(role="tool", content=content)


def _call(call: dict[str, Any]) -> dict[str, Any]:
    return {"id": call.get("tool_call_id"), "name": call.get("function_name"), "arguments": call.get("arguments")}


def _reward(row: dict[str, Any], result: dict[str, Any], options: Options) -> float | None:
    """The reward that counts: the one named, else `reward`, else the only one."""
    rewards = _inner(_inner(result, "verifier_result"), "rewards")
    if options.reward in rewards:
        return chosen_reward({}, Options(), rewards[options.reward])
    only = next(iter(rewards.values())) if len(rewards) == 1 else None
    return chosen_reward(row, options, rewards.get("reward", only))


def _inner(values: dict[str, Any], name: str) -> dict[str, Any]:
    inner = values.get(name)
    return inner if isinstance(inner, dict) else {}


def _trial_result(path: Path) -> dict[str, Any]:
    """The result.json of the trial that a trajectory lies in; empty where there is none."""
    for folder in (path.parent, path.parent.parent):
        if (folder / _TRIAL).is_file() and folder / _TRIAL != path:
            result = load_json(folder / _TRIAL)
            if isinstance(result, dict) and ("verifier_result" in result or "task_name" in result):
                return result
    return {}
