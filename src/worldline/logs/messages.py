"""Chat messages as steps: what came in since the last word of the assistant is the observation, that word the action.

Reads OpenAI's shape and its relatives (content as text or as parts; tool calls nested, flat, or Inspect's; the old
`function_call`) and Anthropic's blocks (`thinking`, `tool_use`, `tool_result`). A tool call is written
`name({"arg": 1})`. Thoughts and tool calls are kept beside the steps as well; so are token ids and log-probs, where a
message has them (`token_ids`, `logprobs` as numbers or as OpenAI's objects). Images leave only their kind.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from worldline.types import Step


class Message(BaseModel):
    """One message. Fields that are no part of the conversation are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: str
    content: str | list[dict[str, Any] | str] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    function_call: dict[str, Any] | None = None
    reasoning_content: str | None = Field(
        None, validation_alias=AliasChoices("reasoning_content", "reasoning", "thinking", "thought", "reasoningContent")
    )
    token_ids: list[int] | None = Field(None, validation_alias=AliasChoices("token_ids", "completion_ids"))
    prompt_ids: list[int] | None = Field(None, validation_alias=AliasChoices("prompt_ids", "prompt_token_ids"))
    logprob: float | None = None
    logprobs: Any = None
    """Of the tokens: numbers, or OpenAI's `{content: [{token, logprob}]}`."""
    error: dict[str, Any] | None = None
    """Inspect: why the tool did not answer."""

    @property
    def text(self) -> str:
        failed = str(self.error.get("message", "")) if self.error else ""
        return "\n".join(filter(None, [*self._parts(_is_text), failed]))

    @property
    def reasoning(self) -> str:
        return "\n".join(filter(None, [self.reasoning_content or "", *self._parts(_is_thought)]))

    @property
    def calls(self) -> list[dict[str, Any]]:
        used = [part for part in self._blocks() if part.get("type") == "tool_use"]
        return (self.tool_calls or []) + ([self.function_call] if self.function_call else []) + used

    @property
    def token_logprobs(self) -> tuple[float, ...] | None:
        listed = self.logprobs.get("content") if isinstance(self.logprobs, dict) else self.logprobs
        if not isinstance(listed, list) or not listed:
            return None
        values = [item.get("logprob") if isinstance(item, dict) else item for item in listed]
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            raise ValueError("its logprobs are neither numbers nor objects with a 'logprob'")
        return tuple(map(float, values))  # type: ignore[arg-type]  # they are numbers

    def _blocks(self) -> list[dict[str, Any]]:
        if self.content is None or isinstance(self.content, str):
            return [{"type": "text", "text": self.content or ""}]
        return [{"type": "text", "text": part} if isinstance(part, str) else part for part in self.content]

    def _parts(self, wanted: Callable[[dict[str, Any]], bool]) -> list[str]:
        return [_part(part) for part in self._blocks() if wanted(part)]


def _is_thought(part: dict[str, Any]) -> bool:
    return part.get("type") in ("reasoning", "thinking")


def _is_text(part: dict[str, Any]) -> bool:
    return not _is_thought(part) and part.get("type") != "tool_use"


@dataclass(frozen=True)
class Conversation:
    """A chat, cut into steps."""

    system: str
    goal: str
    """The user's first message."""
    steps: list[Step]
    final_observation: str
    thoughts: list[str]
    """One per step; empty where it has none."""
    calls: list[list[dict[str, Any]]]
    """The tool calls of each step, as `{id, name, arguments}`."""

    @property
    def extras(self) -> dict[str, Any]:
        """For `meta`: what a trajectory has no field for."""
        return {
            "system": self.system or None,
            "steps.thought": self.thoughts if any(self.thoughts) else None,
            "steps.tool_calls": self.calls if any(self.calls) else None,
        }


def converse(messages: Sequence[Message]) -> Conversation:
    """The steps of a chat. System messages before the first turn are kept apart: they are no observation of a world."""
    start = next(
        (k for k, message in enumerate(messages) if message.role not in ("system", "developer")), len(messages)
    )
    steps: list[Step] = []
    heard: list[str] = []
    thoughts: list[str] = []
    calls: list[list[dict[str, Any]]] = []
    for message in messages[start:]:
        if message.role == "assistant":
            steps.append(_step(message, "\n".join(heard)))
            thoughts.append(message.reasoning)
            calls.append([_named(call) for call in message.calls])
            heard = []
        else:
            heard.append(message.text)
    return Conversation(
        system="\n".join(message.text for message in messages[:start]),
        goal=next((message.text for message in messages if message.role == "user"), ""),
        steps=steps,
        final_observation="\n".join(heard),
        thoughts=thoughts,
        calls=calls,
    )


def _step(message: Message, observation: str) -> Step:
    action, response = act(message.text, message.calls, message.reasoning)
    return Step(
        observation=observation,
        action=action,
        response=response,
        logprob=message.logprob,
        token_ids=None if message.token_ids is None else tuple(message.token_ids),
        token_logprobs=message.token_logprobs,
        prompt_ids=None if message.prompt_ids is None else tuple(message.prompt_ids),
    )


def act(text: str, calls: Sequence[dict[str, Any]], reasoning: str) -> tuple[str, str]:
    """The action and the raw response of a turn: where tools are called the calls are what reaches the world."""
    called = "\n".join(_call(call) for call in calls)
    return called or text, "\n".join(filter(None, [reasoning, text, called]))


def _call(call: dict[str, Any]) -> str:
    named = _named(call)
    return f"{named['name']}({named['arguments']})"


def _named(call: dict[str, Any]) -> dict[str, str]:
    """A tool call in one shape, its arguments as JSON."""
    function = call.get("function")
    inner = function if isinstance(function, dict) else call
    name = function if isinstance(function, str) else inner.get("name")
    if not isinstance(name, str):
        raise ValueError(f"a tool call without a name: {json.dumps(call)[:80]}")
    arguments = inner.get("arguments", inner.get("input"))
    written = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"id": str(call.get("id") or ""), "name": name, "arguments": written}


def _part(part: dict[str, Any]) -> str:
    for key in ("text", "reasoning", "thinking", "refusal"):
        if isinstance(part.get(key), str):
            return str(part[key])
    if part.get("type") == "tool_result":
        content = part.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
        return "\n".join(_part(block) for block in blocks if isinstance(block, dict))
    return f"[{part.get('type', 'part')}]"
