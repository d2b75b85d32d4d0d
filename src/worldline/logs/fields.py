"""An episode by its fields: what a table, or a row read by `--map`, says before it is a trajectory.

`observation` is what the agent saw before each action, `next_observation` what came back after it; either may be given.
With one more observation than actions, the last is the final one. Values that are no text are kept as JSON. An episode
without steps has one empty step, which carries its reward, and says so in `meta`.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from worldline.logs.source import ImportSource, as_meta, with_final_reward
from worldline.types import NOT_LOGGED, Step, Trajectory


def _text(value: Any) -> Any:
    """As text: what is no text is written as JSON, nothing is empty."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _texts(value: Any) -> Any:
    """One per step; a single value is an episode of one step."""
    return [_text(item) for item in (value if isinstance(value, list) else [value])]


def _flag(value: Any) -> Any:
    """A table writes true as 1.0 too."""
    return {"1.0": True, "0.0": False}.get(value, value) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_text)]
Flag = Annotated[bool | None, BeforeValidator(_flag)]
Texts = Annotated[list[str], BeforeValidator(_texts)]

PER_STEP = (
    "observation", "next_observation", "action", "thought", "response", "rewards", "admissible", "valid", "logprob",
    "token_ids", "token_logprobs", "prompt_ids", "entropy",
)  # packed lines read better  # fmt: skip
"""Fields that are lists with a value per step."""


class EpisodeFields(BaseModel):
    """The fields of an episode that a file gives. Fields of a step are lists."""

    model_config = ConfigDict(extra="allow", coerce_numbers_to_str=True, allow_inf_nan=False)

    id: Text = ""
    env: Text = ""
    env_version: Text = ""
    family: Text = ""
    task_id: Text = ""
    split: Text = ""
    goal: Text = ""
    policy: Text = ""
    epsilon: float = 0.0
    seed: int = Field(0, ge=-(2**63), lt=2**63)
    trial: Text = ""
    reward: float | None = None
    score: float | None = None
    success: Flag = None
    terminated: Flag = None
    truncated: Annotated[bool, BeforeValidator(_flag)] = False
    final_observation: Text = ""
    cost: float | None = None

    observation: Texts = []
    next_observation: Texts = []
    action: Texts = []
    thought: Texts = []
    response: Texts = []
    rewards: list[float | None] = []
    admissible: list[list[str] | None] = []
    valid: list[bool | None] = []
    logprob: list[float | None] = []
    token_ids: list[list[int] | None] = []
    token_logprobs: list[list[float] | None] = []
    prompt_ids: list[list[int] | None] = []
    entropy: list[float | None] = []

    @property
    def count(self) -> int:
        return len(self.action) or len(self.observation) or len(self.next_observation)


def assemble(fields: EpisodeFields, source: ImportSource, default_env: str) -> Trajectory:
    """The trajectory that the fields describe; ValueError if they do not fit together."""
    options = source.options
    policy = source.policy(fields.policy)
    steps, final = _steps(fields)
    logged = bool(steps)
    if not logged:
        steps = [Step(observation=fields.goal, action="")]
    stepwise = len(fields.rewards) == len(steps) and None not in fields.rewards and fields.reward is None
    if stepwise:
        pairs = zip(steps, fields.rewards, strict=True)
        rewarded = tuple(step.model_copy(update={"reward": reward}) for step, reward in pairs)
    else:
        rewarded = with_final_reward(steps, fields.reward)
    scored = stepwise or fields.reward is not None
    task_id = source.task(fields.task_id, fields.goal or steps[0].observation)
    extras = {
        **(fields.model_extra or {}),
        "cost": fields.cost,
        "trial": fields.trial or None,
        "reward": None if scored else "missing",
        "steps": None if logged else NOT_LOGGED,
        "steps.thought": fields.thought or None,
        **source.own_id(fields.id),
    }
    return Trajectory(
        id=source.episode_id(policy, task_id, fields.trial, fields.id),
        env=options.env or fields.env or default_env,
        env_version=fields.env_version,
        family=fields.family,
        task_id=task_id,
        split=options.split or fields.split,
        goal=fields.goal,
        policy=policy,
        epsilon=fields.epsilon,
        seed=fields.seed,
        steps=rewarded,
        final_observation=fields.final_observation or final,
        terminated=scored and not fields.truncated if fields.terminated is None else fields.terminated,
        truncated=fields.truncated,
        success=fields.success,
        score=fields.score,
        meta=as_meta(extras),
    )


def _steps(fields: EpisodeFields) -> tuple[list[Step], str]:
    """The steps without rewards, and what came after the last."""
    count = fields.count
    seen, after = list(fields.observation), list(fields.next_observation)
    if not seen and after:
        seen = [fields.goal, *after]
    if count and len(seen) not in (0, count, count + 1):
        raise ValueError(f"{len(seen)} observations do not fit {count} actions: as many, or one more")
    final = seen[count] if len(seen) == count + 1 else after[-1] if len(after) == count and after else ""
    blank = [""] * count
    columns: dict[str, Sequence[Any]] = {
        "observation": seen[:count] or blank,
        "action": fields.action or blank,
    }
    for name in PER_STEP:
        values = getattr(fields, name)
        if not values or name in ("observation", "next_observation", "action", "rewards"):
            continue
        if len(values) != count:
            raise ValueError(f"{len(values)} values of '{name}' for {count} steps: give one per step")
        columns[name] = values
    thoughts = columns.pop("thought", blank)
    if "response" not in columns:
        columns["response"] = ["\n".join(filter(None, pair)) for pair in zip(thoughts, columns["action"], strict=True)]
    columns["valid"] = [value is not False for value in columns.get("valid", [True] * count)]
    rows = zip(*columns.values(), strict=True)
    return [Step.model_validate(dict(zip(columns, row, strict=True))) for row in rows], final
