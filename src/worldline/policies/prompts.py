"""Prompt templates: what a turn looks like as text, and which action stands in a response.

`paper` has the wording of PaW's figures 7-9 (household, shop, search; the line breaks are ours), `plain` asks for
the bare action instead of the <think> block, `react` for a thought and an action. `transcript` has no instructions: it
only grows during an episode, so a small model can be trained on whole episodes, each as one sequence.
Tokens are made in `language_model.encoding`.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from worldline.types import Exchange, Turn


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a prompt that is tokenised on its own; an `action` ends with a line break (or its token)."""

    text: str
    action: bool = False


class Template(Protocol):
    """A way to write a turn as text and to read an action from a response."""

    @property
    def name(self) -> str: ...

    @property
    def chat(self) -> bool:
        """Whether the prompt is a chat message (for models that have a chat template)."""

    @property
    def one_line(self) -> bool:
        """Whether the response is the action itself and nothing else: then its probability is the action's."""

    @property
    def max_new_tokens(self) -> int: ...

    def history(self, family: str) -> int | None:
        """How many past steps to show by default; None for all."""

    def segments(self, turn: Turn, history: Sequence[Exchange]) -> list[Segment]:
        """The prompt of `turn`, showing `history` (the most recent steps of `turn.history`)."""

    def answer(self, action: str) -> str:
        """The response that stands for `action`."""

    def parse(self, response: str, turn: Turn) -> str:
        """The action in `response`; where there is none, its first line, which the world will reject."""

    def well_formed(self, response: str, family: str) -> bool:
        """Whether `response` has an action where the template wants it; the world may still refuse the action."""


def render(template: Template, turn: Turn, history: Sequence[Exchange] | None = None) -> str:
    """The prompt as one text, with all of the turn's history by default."""
    segments = template.segments(turn, turn.history if history is None else history)
    return "".join(f"{segment.text}\n" if segment.action else segment.text for segment in segments)


class TranscriptTemplate:
    """The episode so far and nothing else: goal, observations, and actions on lines that begin with `>`.

    The text ends before the space that separates `>` from the action, because byte-level tokenizers put that space
    into the next word.
    """

    name = "transcript"
    chat = False
    one_line = True
    max_new_tokens = 64

    def history(self, family: str) -> int | None:
        return None

    def segments(self, turn: Turn, history: Sequence[Exchange]) -> list[Segment]:
        pieces = [Segment(f"Task: {_one_line(turn.goal)}\n")]
        for exchange in history:
            pieces.append(Segment(f"{exchange.observation.strip()}\n>"))
            pieces.append(Segment(self.answer(exchange.action), action=True))
        return [*pieces, Segment(f"{turn.observation.strip()}\n>")]

    def answer(self, action: str) -> str:
        return f" {_one_line(action)}"

    def parse(self, response: str, turn: Turn) -> str:
        return _first_line(response)

    def well_formed(self, response: str, family: str) -> bool:
        return bool(_first_line(response))


@dataclass(frozen=True)
class InstructionTemplate:
    """The wording of a figure by family of environment, and the request at its end."""

    name: str
    ask: dict[str, str]
    one_line: bool
    max_new_tokens: int
    chat: bool = True

    def history(self, family: str) -> int | None:
        return None if family == "search" else 2

    def segments(self, turn: Turn, history: Sequence[Exchange]) -> list[Segment]:
        body = _search_body(turn, history) if turn.family == "search" else _acting_body(turn, history)
        ask = self.ask.get(turn.family, self.ask["other"])
        return [Segment(f"{body}\n\n{ask}")]

    def answer(self, action: str) -> str:
        if self.one_line or _TAGGED.fullmatch(action):
            return action
        return f"Action: {action}" if self.name == "react" else f"<action>{action}</action>"

    def parse(self, response: str, turn: Turn) -> str:
        answer = response.rpartition("</think>")[2]
        if turn.family == "search" and (match := _TAGGED.search(answer)):
            return f"<{match[1]}>{match[2].strip()}</{match[1]}>"
        pattern = {"react": _ACTION_LINE, "paper": _ACTION_TAG}.get(self.name)
        match = pattern.search(answer) if pattern else None
        return _first_line(match[1] if match else response)

    def well_formed(self, response: str, family: str) -> bool:
        """As verl-agent judges: `paper` needs its <think> block too."""
        answer = response.rpartition("</think>")[2]
        if self.name == "paper" and not _THOUGHT.search(response):
            return False
        if family == "search":
            return bool(_TAGGED.search(answer))
        pattern = {"react": _ACTION_LINE, "paper": _ACTION_TAG}.get(self.name)
        return bool(pattern.search(answer)) if pattern else bool(_first_line(response))


_THOUGHT = re.compile(r"<think>.*</think>", re.DOTALL)
_ACTION_TAG = re.compile(r"<action>(.*?)</action>", re.DOTALL)
_ACTION_LINE = re.compile(r"^\s*Action\s*:\s*(\S.*)$", re.MULTILINE | re.IGNORECASE)
_TAGGED = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)

_ROLE = {
    "household": "You are an expert agent operating in the ALFRED embodied Environment.",
    "shop": "You are an expert autonomous agent operating in the WebShop e-commerce environment.",
    "other": "You are an expert agent operating in a text environment.",
}
_ADMISSIBLE = {
    "household": "Your admissible actions of the current situation are",
    "other": "Your admissible actions for the current situation are",
}


def _acting_body(turn: Turn, history: Sequence[Exchange]) -> str:
    """Figures 7 and 8 up to the list of admissible actions."""
    role = _ROLE.get(turn.family, _ROLE["other"])
    taken = f"Prior to this step, you have already taken {turn.step} step(s)."
    if history:
        first = turn.step - len(history) + 1
        past = ", ".join(
            f"[Observation {i}: '{exchange.observation.strip()}', Action {i}: '{exchange.action}']"
            for i, exchange in enumerate(history, start=first)
        )
        taken += (
            f" Below are the most recent {len(history)} observations and the corresponding actions you took: {past}."
        )
    lines = [
        f"{role} Your task is to: {_unstopped(turn.goal)}.",
        taken,
        f"You are now at step {turn.step + 1} and your current observation is: {_unstopped(turn.observation)}.",
    ]
    if turn.admissible:
        listed = ", ".join(f"'{a}'" for a in turn.admissible if not (turn.family == "household" and a == "help"))
        lines.append(f"{_ADMISSIBLE.get(turn.family, _ADMISSIBLE['other'])}: [{listed}].")
    return "\n".join(lines)


def _search_body(turn: Turn, history: Sequence[Exchange]) -> str:
    """Figure 9: the past queries and their results; at the first step the question alone."""
    lines = [
        "You are an expert agent tasked with answering the given question step-by-step. "
        f"Your question: {_unstopped(turn.goal)}.",
        f"Prior to this step, you have already taken {turn.step} step(s).",
    ]
    if history:
        results = [*(exchange.observation for exchange in history[1:]), turn.observation]
        memory = "\n".join(
            f"{exchange.action}\n{_information(result)}" for exchange, result in zip(history, results, strict=True)
        )
        lines[-1] += (
            " Below is the interaction history where <search> </search> wrapped your past search queries and"
            " <information> </information> wrapped the corresponding search results returned by the external search"
            f" engine. History:\n{memory}"
        )
    return "\n".join(lines)


def _information(text: str) -> str:
    stripped = text.strip()
    return stripped if stripped.startswith("<information>") else f"<information>{stripped}</information>"


def _unstopped(text: str) -> str:
    """Without the final full stop: the figures put one after each slot."""
    return text.strip().removesuffix(".")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _first_line(text: str) -> str:
    """The first non-empty line, without the quotes that models copy from the list of actions."""
    line = text.strip().partition("\n")[0].strip()
    return line[1:-1].strip() if len(line) > 1 and line[0] == line[-1] and line[0] in "'\"`" else line


_TURN = "Now it's your turn to take an action."
_SHOP_TURN = "Now it's your turn to take one action for the current step."
_SEARCH_TURN = "Now it's your turn to respond for the current step."
_REASON = "You should first reason step-by-step about the current situation"
_THINK = "This reasoning process MUST be enclosed within <think> </think> tags."
_ACTION = (
    "Once you've finished your reasoning, you should choose an admissible action for current step and present it"
    " within <action> </action> tags."
)
_SEARCH_CHOICE = (
    "choose only one of the following actions (do not perform both): (1) If you find you lack some knowledge, you can"
    " call a search engine to get more external information using format: <search> your query </search>. (2) If you"
    " have enough knowledge to answer the question confidently, provide your final answer within <answer> </answer>"
    " tags, without detailed illustrations. For example, <answer>Beijing</answer>."
)
_BARE = "Choose an admissible action for the current step and answer with the action only."
_REACT = (
    "Answer in two lines: 'Thought: ' and your reasoning about the current situation, then 'Action: ' and one"
    " admissible action."
)

TEMPLATES: dict[str, Template] = {
    "transcript": TranscriptTemplate(),
    "plain": InstructionTemplate(
        "plain",
        {
            "shop": f"{_SHOP_TURN} {_BARE}",
            "search": f"{_SEARCH_TURN} Answer with the action only; {_SEARCH_CHOICE}",
            "other": f"{_TURN} {_BARE}",
        },
        one_line=True,
        max_new_tokens=64,
    ),
    "paper": InstructionTemplate(
        "paper",
        {
            "shop": f"{_SHOP_TURN} {_REASON}, then think carefully which admissible action best advances the shopping"
            f" goal. {_THINK} {_ACTION}",
            "search": f"{_SEARCH_TURN} You should first conduct reasoning process. This process MUST be enclosed"
            f" within <think> </think> tags. After completing your reasoning, {_SEARCH_CHOICE}",
            "other": f"{_TURN} {_REASON}. {_THINK} {_ACTION}",
        },
        one_line=False,
        max_new_tokens=512,
    ),
    "react": InstructionTemplate(
        "react",
        {
            "shop": f"{_SHOP_TURN} {_REACT}",
            "search": f"{_SEARCH_TURN} Answer in two lines: 'Thought: ' and your reasoning, then 'Action: ' and the"
            f" action; {_SEARCH_CHOICE}",
            "other": f"{_TURN} {_REACT}",
        },
        one_line=False,
        max_new_tokens=512,
    ),
}


_ELLIPSIS = " ... "
_CUTS = 64


@dataclass
class Counts:
    """How many prompts were made, and how many of them left something out."""

    prompts: int = 0
    dropped_history: int = 0
    cut_observation: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """The part of a turn that a prompt shows: the turn (its observation perhaps cut) and the most recent steps."""

    turn: Turn
    history: Sequence[Exchange]


def view(template: Template, turn: Turn, history: int | Literal["all"] | None, longest: int) -> View:
    """What `template` shows of `turn`, with observations of at most `longest` characters: a 10 MB page is not
    tokenised to keep 2,000 tokens of it."""
    shown = template.history(turn.family) if history is None else history
    past = turn.history if shown in (None, "all") else turn.history[max(0, turn.step - int(shown)) :]
    if any(len(exchange.observation) > longest for exchange in past):
        past = [Exchange(_without_middle(exchange.observation, longest), exchange.action) for exchange in past]
    if len(turn.observation) > longest:
        turn = replace(turn, observation=_without_middle(turn.observation, longest))
    return View(turn, past)


def shortened(shown: View, fits: Callable[[View], bool], counts: Counts) -> View:
    """The fullest view that fits; the view with an empty observation if none does."""
    turn, history = shown.turn, shown.history

    def without(dropped: int) -> View:
        return View(turn, history[dropped:])

    def cut(share: int) -> View:
        keep = len(turn.observation) * (_CUTS - share) // _CUTS
        return View(replace(turn, observation=_without_middle(turn.observation, keep)), ())

    dropped = bisect_left(range(len(history)), True, key=lambda n: fits(without(n)))
    counts.dropped_history += dropped > 0
    if dropped < len(history) or fits(without(dropped)):
        return without(dropped)
    counts.cut_observation += 1
    return cut(bisect_left(range(_CUTS), True, key=lambda share: fits(cut(share))))


def _without_middle(text: str, keep: int) -> str:
    if len(text) <= keep:
        return text
    head = (keep + 1) // 2
    return f"{text[:head]}{_ELLIPSIS}{text[len(text) - (keep - head) :]}"
