"""Episodes as session traces, which the Hugging Face Hub opens in its trace viewer (its "session traces format").

One JSON-lines file per episode: a header, then a message a line. Thoughts and tool calls that an import kept beside the
steps are written as such; without them an action is what the assistant says.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from worldline import files
from worldline.types import InputError, Step, Trajectory, policy_label

HARNESS = "worldline"


def export_traces(trajectories: Iterable[Trajectory], folder: Path | str) -> int:
    """Write a file per trajectory into `folder` and say how many. The folder appears whole or not at all."""
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{folder}: traces are written into a new or empty folder: name another")
    written = 0
    with files.replacing(target) as partial:
        partial.mkdir()
        for written, trajectory in enumerate(trajectories, start=1):
            lines = "".join(f"{json.dumps(line)}\n" for line in trace(trajectory))
            (partial / f"{written:06d}-{_file_name(trajectory.id)}.jsonl").write_text(lines, encoding="utf-8")
    return written


def trace(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """The lines of one session."""
    label = policy_label(trajectory.policy, trajectory.epsilon)
    yield {
        "type": "session",
        "harness": HARNESS,
        "id": trajectory.id,
        "name": f"{label}: {trajectory.goal[:80] or trajectory.task_id}",
        "env": trajectory.env,
        "task_id": trajectory.task_id,
        "policy": label,
        "return": files.finite(trajectory.episode_return),
        "success": trajectory.success,
    }
    for message in _messages(trajectory):
        yield {"type": "message", "message": message}


def _messages(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    if system := trajectory.meta.get("system"):
        yield {"role": "system", "content": system}
    if trajectory.goal and trajectory.steps and trajectory.goal not in trajectory.steps[0].observation:
        yield {"role": "user", "content": trajectory.goal}
    thoughts, calls = (_per_step(trajectory, name) for name in ("thought", "tool_calls"))
    answered = ""
    for number, (step, thought, own) in enumerate(zip(trajectory.steps, thoughts, calls, strict=True)):
        if step.observation:
            yield _heard(step.observation, answered)
        used = [_call(call, f"{number}-{place}") for place, call in enumerate(own or []) if isinstance(call, dict)]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": _text(step, thought or "", bool(used)),
            "model": trajectory.policy,
        }
        if thought:
            message["reasoningContent"] = thought
        if used:
            message["toolCalls"] = used
        answered = used[0]["id"] if used else ""
        yield message
    if trajectory.final_observation:
        yield _heard(trajectory.final_observation, answered)


def _heard(text: str, answered: str) -> dict[str, Any]:
    """An observation as a message: the result of the tool call `answered`, else a message of the user."""
    return {"role": "tool", "content": text, "toolCallId": answered} if answered else {"role": "user", "content": text}


def _text(step: Step, thought: str, called: bool) -> str:
    """The text of a response, without the thought before it and the calls after it: both have fields of their own."""
    text = (step.response or step.action).removeprefix(thought).lstrip("\n")
    return text.removesuffix(step.action).rstrip("\n") if called else text


def _call(call: dict[str, Any], number: str) -> dict[str, Any]:
    inner = call["function"] if isinstance(call.get("function"), dict) else call
    arguments = inner.get("arguments")
    written = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"id": str(call.get("id") or number), "function": {"name": str(inner.get("name")), "arguments": written}}


def _per_step(trajectory: Trajectory, name: str) -> list[Any]:
    """What `meta` says of each step; None where it says nothing that fits."""
    try:
        values = json.loads(trajectory.meta.get(f"steps.{name}", "null"))
    except (ValueError, RecursionError):
        values = None
    fits = isinstance(values, list) and len(values) == len(trajectory.steps)
    kind = str if name == "thought" else list
    return [value if isinstance(value, kind) else None for value in values] if fits else [None] * len(trajectory.steps)


def _file_name(name: str) -> str:
    return re.sub(r"[^0-9A-Za-z._-]+", "_", name)[-80:]
