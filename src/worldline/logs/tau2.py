"""`tau2`: results of tau2-bench, one JSON document: `info`, `tasks` and `simulations`. A simulation is an episode.

The agent is the policy. It observes its tools' results and the user's messages; what the user did with tools
of its own is left out. A reward of 1 is a success, by tau2's own definition. Voice runs, which have ticks in the place
of messages, are bad rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from worldline.logs.messages import Message, converse
from worldline.logs.rows import BadRow, DecodedRow, load_json
from worldline.logs.source import ImportSource, as_meta, chosen_reward, present, with_final_reward
from worldline.types import InputError, Trajectory

_ENDED = ("user_stop", "agent_stop")
_BROKE = ("infrastructure_error", "unexpected_error", "user_error")
"""No fault of the agent's: such an episode was neither ended nor out of steps."""


@dataclass(frozen=True)
class RunHeader:
    """What holds for all simulations of a file."""

    policy: str
    env: str
    version: str


class _Simulation(BaseModel):
    model_config = ConfigDict(extra="ignore", coerce_numbers_to_str=True)

    id: str = ""
    task_id: str
    trial: str = ""
    seed: int = Field(0, ge=-(2**63), lt=2**63)
    termination_reason: str = ""
    duration: float | None = None
    agent_cost: float | None = None
    user_cost: float | None = None
    reward_info: dict[str, Any] = {}
    messages: list[dict[str, Any]] | None = None


def rows(path: Path) -> Iterator[DecodedRow | BadRow]:
    """The simulations, each with the header of the file."""
    document = load_json(path)
    if not is_document(document):
        raise InputError(f"{path}: no tau2 results: they have 'info' and a list of 'simulations'")
    try:
        header = _header(document["info"])
    except ValueError:
        raise InputError(f"{path}: no tau2 results: its 'info' does not name agent and environment") from None
    for number, simulation in enumerate(document["simulations"], start=1):
        yield DecodedRow(f"simulation {number}", (header, simulation))


def is_document(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and isinstance(document.get("simulations"), list)
        and isinstance(document.get("info"), dict)
    )


def convert(value: tuple[RunHeader, Any], source: ImportSource) -> Trajectory:
    """One simulation as an episode; ValueError if it is none."""
    header, raw = value
    run = _Simulation.model_validate(present(raw))
    if run.messages is None:
        raise ValueError("it has no messages: a voice simulation, which has ticks, cannot be imported")
    conversation = converse([Message.model_validate(message) for message in _seen_by_agent(run.messages)])
    reward = chosen_reward(raw, source.options, run.reward_info.get("reward"))
    policy = source.policy(header.policy)
    details = {key: item for key, item in run.reward_info.items() if key in ("reward_basis", "reward_breakdown")}
    extras = {
        **conversation.extras,
        "trial": run.trial or None,
        "agent_cost": run.agent_cost,
        "user_cost": run.user_cost,
        "duration": run.duration,
        "termination_reason": run.termination_reason or None,
        "reward": "missing" if reward is None else None,
        **details,
        **source.own_id(run.id),
    }
    return Trajectory(
        id=source.episode_id(policy, run.task_id, run.trial, run.id),
        env=source.options.env or header.env,
        env_version=header.version,
        task_id=run.task_id,
        split=source.options.split,
        goal=conversation.goal,
        policy=policy,
        seed=run.seed,
        steps=with_final_reward(conversation.steps, reward),
        final_observation=conversation.final_observation,
        terminated=run.termination_reason in _ENDED,
        truncated=run.termination_reason not in (*_ENDED, *_BROKE),
        success=None if reward is None else abs(reward - 1.0) <= 1e-6,
        meta=as_meta(extras),
    )


def _header(info: dict[str, Any]) -> RunHeader:
    agent, world = (present(info.get(name) or {}) for name in ("agent_info", "environment_info"))
    domain = str(world.get("domain_name") or "")
    return RunHeader(
        policy=str(agent.get("llm") or agent.get("implementation") or ""),
        env=f"tau2-{domain}" if domain else "tau2",
        version=str(info.get("git_commit") or ""),
    )


def _seen_by_agent(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Several tool results in one message are taken apart; the user's own tool calls and their results are left out."""
    for message in messages:
        inner = message.get("tool_messages")
        for one in inner if isinstance(inner, list) else [message]:
            if not isinstance(one, dict):
                raise ValueError("a message that is no object")
            hidden = one.get("role") == "tool" and one.get("requestor") == "user"
            silent = one.get("role") == "user" and not one.get("content")
            if not hidden and not silent:
                yield {key: value for key, value in one.items() if key != "error"}
