"""`episodes`: one JSON object per episode, `{dataset, policy, task_id, task, steps, reward, success}` and extras.

In such a row `observation` is what came back after `action`; in ours it is what the agent saw before it acted. So
`initial_observation` (without one, `task`) is the first observation, and the last answer the final one. `reward` is the
source's own final reward and goes on the last step, unless the steps carry rewards that add up to it. What a step says
of log-probs and token ids is kept in its place; extras, thoughts and tool calls end up in `meta`.
"""

import math
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from worldline.logs.messages import act
from worldline.logs.source import NO_ENV, ImportSource, as_meta, override, with_final_reward
from worldline.types import Step, Trajectory


class _Step(BaseModel):
    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    action: str | None = None
    observation: str | None = None
    thought: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    admissible: list[str] | None = None
    reward: float | None = None
    response: str | None = None
    valid: bool = True
    logprob: float | None = None
    token_ids: list[int] | None = None
    token_logprobs: list[float] | None = None
    entropy: float | None = None
    prompt_ids: list[int] | None = None


class _Episode(BaseModel):
    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True, allow_inf_nan=False)

    id: str = Field("", validation_alias=AliasChoices("id", "episode_id"))
    dataset: str = Field("", validation_alias=AliasChoices("dataset", "env"))
    env_version: str = ""
    family: str = ""
    policy: str = ""
    epsilon: float = 0.0
    task_id: str = Field(min_length=1)
    task: str = Field(validation_alias=AliasChoices("task", "goal"))
    initial_observation: str | None = None
    steps: list[_Step]
    reward: float | None = None
    score: float | None = None
    success: bool | None = None
    trial: str = ""
    split: str = ""
    seed: int = Field(0, ge=-(2**63), lt=2**63)
    terminated: bool | None = None
    truncated: bool = False


def convert(row: Any, source: ImportSource) -> Trajectory:
    """One row as an episode; ValueError if it is none."""
    options = source.options
    episode = _Episode.model_validate(override(row, options))
    policy = source.policy(episode.policy)
    first = episode.task if episode.initial_observation is None else episode.initial_observation
    heard = [first, *(step.observation or "" for step in episode.steps)]
    stepwise = _adds_up(episode)
    scored = stepwise or episode.reward is not None
    steps = [_step(step, seen, stepwise) for step, seen in zip(episode.steps, heard, strict=False)]
    return Trajectory(
        id=source.episode_id(policy, episode.task_id, episode.trial, episode.id),
        env=options.env or episode.dataset or NO_ENV,
        env_version=episode.env_version,
        family=episode.family,
        task_id=episode.task_id,
        split=options.split or episode.split,
        goal=episode.task,
        policy=policy,
        epsilon=episode.epsilon,
        seed=episode.seed,
        steps=tuple(steps) if stepwise else with_final_reward(steps, episode.reward),
        final_observation=heard[-1],
        # Who scored an episode has seen its end; whether the budget was that end, these rows do not say.
        terminated=scored and not episode.truncated if episode.terminated is None else episode.terminated,
        truncated=episode.truncated,
        success=episode.success,
        score=episode.score,
        meta=_meta(episode, stepwise, scored) | source.own_id(episode.id),
    )


def _step(step: _Step, seen: str, stepwise: bool) -> Step:
    if not step.model_fields_set & {"action", "tool_calls"}:
        raise ValueError("a step with neither 'action' nor 'tool_calls'")
    action, response = act(step.action or "", step.tool_calls or [], step.thought or "")
    return Step(
        observation=seen,
        admissible=None if step.admissible is None else tuple(step.admissible),
        action=action,
        response=response if step.response is None else step.response,
        reward=step.reward if stepwise and step.reward is not None else 0.0,
        valid=step.valid,
        logprob=step.logprob,
        token_ids=None if step.token_ids is None else tuple(step.token_ids),
        token_logprobs=None if step.token_logprobs is None else tuple(step.token_logprobs),
        entropy=step.entropy,
        prompt_ids=None if step.prompt_ids is None else tuple(step.prompt_ids),
    )


def _adds_up(episode: _Episode) -> bool:
    """Every step has a reward, and together they are the episode's."""
    rewards = [step.reward for step in episode.steps if step.reward is not None]
    if not rewards or len(rewards) < len(episode.steps):
        return False
    return episode.reward is None or math.isclose(sum(rewards), episode.reward, abs_tol=1e-6)


def _meta(episode: _Episode, stepwise: bool, scored: bool) -> dict[str, str]:
    """What the row says that a trajectory has no field for."""
    extras: dict[str, Any] = dict(episode.model_extra or {})
    for name in dict.fromkeys(name for step in episode.steps for name in step.model_extra or {}):
        extras[f"steps.{name}"] = [(step.model_extra or {}).get(name) for step in episode.steps]
    if not stepwise and any(step.reward is not None for step in episode.steps):
        extras["steps.reward"] = [step.reward for step in episode.steps]
    for name in ("thought", "tool_calls"):
        values = [getattr(step, name) for step in episode.steps]
        if any(values):
            extras[f"steps.{name}"] = values
    if not scored:
        extras["reward"] = "missing"
    if episode.trial:
        extras["trial"] = episode.trial
    return as_meta(extras)
