"""Chat messages as steps: what came in since the last word of the assistant is the observation, that word the action.

Reads OpenAI's shape and its relatives (content as text or as parts; tool calls nested, flat, or Inspect's; the old
`function_call`). A tool call is written `name({"arg": 1})`. Images and other non-text parts leave only their kind.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from worldline.types import Step


class Message(BaseModel):
    """One message; fields that say nothing about what was said are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    role: str
    content: str | list[dict[str, Any] | str] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    function_call: dict[str, Any] | None = None
    reasoning_content: str | None = None
    error: dict[str, Any] | None = None
    """Inspect: why the tool did not answer."""
    logprob: float | None = Field(None, le=1e-6, allow_inf_nan=False)
    """Of the whole message, by who said it."""
    logprobs: Any = None
    """Of its tokens: OpenAI's `{"content": [{"logprob": ...}]}`, or a list of numbers."""

    @property
    def total_logprob(self) -> float | None:
        """The log-probability of the message: given, or the sum over its tokens; None where neither is there."""
        if self.logprob is not None:
            return self.logprob
        tokens = self.logprobs.get("content") if isinstance(self.logprobs, dict) else self.logprobs
        if not isinstance(tokens, list) or not tokens:
            return None
        numbers: list[Any] = [token.get("logprob") if isinstance(token, dict) else token for token in tokens]
        if not all(isinstance(n, int | float) and not isinstance(n, bool) and -1e6 < n <= 1e-6 for n in numbers):
            return None
        return float(min(sum(numbers), 0.0))

    @property
    def text(self) -> str:
        failed = str(self.error.get("message", "")) if self.error else ""
        return "\n".join(filter(None, [*self._parts(reasoning=False), failed]))

    @property
    def reasoning(self) -> str:
        return "\n".join(filter(None, [self.reasoning_content or "", *self._parts(reasoning=True)]))

    @property
    def calls(self) -> list[dict[str, Any]]:
        return (self.tool_calls or []) + ([self.function_call] if self.function_call else [])

    def _parts(self, *, reasoning: bool) -> list[str]:
        if self.content is None or isinstance(self.content, str):
            return [] if reasoning else [self.content or ""]
        parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in self.content]
        return [_part(part) for part in parts if (part.get("type") == "reasoning") == reasoning]


@dataclass(frozen=True)
class Conversation:
    """A chat, cut into steps."""

    system: str
    goal: str
    """The first thing the user said."""
    steps: list[Step]
    final_observation: str


def converse(messages: Sequence[Message]) -> Conversation:
    """The steps of a chat. System messages before the first turn are kept apart: no world said them."""
    start = next(
        (k for k, message in enumerate(messages) if message.role not in ("system", "developer")), len(messages)
    )
    steps: list[Step] = []
    heard: list[str] = []
    for message in messages[start:]:
        if message.role == "assistant":
            action, response = act(message.text, message.calls, message.reasoning)
            step = Step(observation="\n".join(heard), action=action, response=response, logprob=message.total_logprob)
            steps.append(step)
            heard = []
        else:
            heard.append(message.text)
    return Conversation(
        system="\n".join(message.text for message in messages[:start]),
        goal=next((message.text for message in messages if message.role == "user"), ""),
        steps=steps,
        final_observation="\n".join(heard),
    )


def act(text: str, calls: Sequence[dict[str, Any]], reasoning: str) -> tuple[str, str]:
    """The action and the raw response of a turn: where tools are called the calls are what reaches the world."""
    called = "\n".join(_call(call) for call in calls)
    return called or text, "\n".join(filter(None, [reasoning, text, called]))


def _call(call: dict[str, Any]) -> str:
    function = call.get("function")
    inner = function if isinstance(function, dict) else call
    name = function if isinstance(function, str) else inner.get("name")
    if not isinstance(name, str):
        raise ValueError(f"a tool call without a name: {json.dumps(call)[:80]}")
    arguments = inner.get("arguments")
    return f"{name}({arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)})"


def _part(part: dict[str, Any]) -> str:
    for key in ("text", "reasoning", "refusal"):
        if isinstance(part.get(key), str):
            return str(part[key])
    return f"[{part.get('type', 'part')}]"
