"""From turns and actions to tokens: the one place where acting, scoring and training tokenise.

Each segment of a prompt is tokenised on its own and the pieces are concatenated. So the tokens of a `transcript` at
one step are the first tokens of that episode at every later step, and `prompt(turn) + action(a)` is exactly what a
model sees when it acts, what it is scored on, and what it is trained on.

A prompt over the token budget loses its oldest history first, then the middle of the observation; `counts` says how
often that happened.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, Literal

from worldline.policies.prompts import Counts, Template, View, shortened, view
from worldline.types import InputError, Turn

Tokenizer = Any
"""A transformers tokenizer (transformers publishes no types)."""

_MOST_REMEMBERED = 50_000
_CUTS = re.compile(r"(?<=[,.])(?= \S)|(?<=\S\n)(?=\S)")
"""Where a prompt is cut into clauses: before the space that follows a comma or a full stop, and after a line's end."""
_CHARS_PER_TOKEN = 32  # no real tokenizer has longer tokens on average


@dataclass(frozen=True, slots=True)
class Piece:
    """A tokenised segment."""

    ids: list[int]
    action: bool


@dataclass(frozen=True, slots=True)
class EncodedExample:
    """A prompt and its answer as one training sequence; `is_action` marks the agent's own tokens."""

    ids: list[int]
    is_action: list[bool]


class Encoder:
    """Turns and actions as tokens, for one tokenizer, one template and one budget."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: Template,
        max_tokens: int = 2048,
        history: int | Literal["all"] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.template = template
        self.max_tokens = max_tokens
        self.counts = Counts()
        self.history = history
        self._chat = template.chat and tokenizer.chat_template is not None
        self._start = [] if self._chat else [t for t in tokenizer.encode("") if t == tokenizer.bos_token_id][:1]
        self._clauses = _cuts_are_tokens(tokenizer)
        self._remembered: dict[str, list[int]] = {}
        self._decoded: dict[tuple[int, ...], str] = {}
        self.end = self._end_token()

    def prompt(self, turn: Turn) -> list[int]:
        return self.prompts([turn])[0]

    def prompts(self, turns: Sequence[Turn]) -> list[list[int]]:
        """The tokens of each turn's prompt, never more than the budget."""
        return [[token for piece in pieces for token in piece.ids] for pieces in self.pieces(turns)]

    def action(self, action: str) -> list[int]:
        return self.actions([action])[0]

    def actions(self, actions: Sequence[str]) -> list[list[int]]:
        """The tokens of the response for each action, with the end token."""
        return [[*ids, self.end] for ids in self.tokenised([self.template.answer(action) for action in actions])]

    def example(self, turn: Turn, action: str) -> EncodedExample:
        """A training sequence. In a transcript the actions of the history are marked too, so the last turn of an
        episode gives the whole episode; in other templates only `action` is marked."""
        pieces = [*self.pieces([turn])[0], Piece(self.action(action), action=True)]
        return EncodedExample(
            [token for piece in pieces for token in piece.ids],
            [piece.action for piece in pieces for _ in piece.ids],
        )

    def decode(self, ids: Sequence[int]) -> str:
        key = tuple(ids)  # a policy says the same few things again and again
        if key not in self._decoded:
            if len(self._decoded) >= _MOST_REMEMBERED:
                self._decoded.clear()
            options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
            self._decoded[key] = self.tokenizer.decode(ids, **options)
        return self._decoded[key]

    def stops(self) -> set[int]:
        """The tokens that end a response: the end of text, and any line break where a response is one line."""
        stops = {self.end, self.tokenizer.eos_token_id} - {None}
        if self.template.one_line:
            stops |= _line_breaks(self.tokenizer)
        return stops

    def _end_token(self) -> int:
        newline = self.tokenizer.encode("\n", add_special_tokens=False)[-1:]
        readable = newline and "\n" in self.tokenizer.decode(newline)
        eos = self.tokenizer.eos_token_id
        end = newline[0] if readable and (not self.template.chat or eos is None) else eos
        if end is None:
            raise InputError("the tokenizer has neither a line break nor an end-of-text token: no response would end")
        return int(end)

    def pieces(self, turns: Sequence[Turn]) -> list[list[Piece]]:
        """Each turn's prompt in tokenised segments, within the budget."""
        views = [view(self.template, turn, self.history, _CHARS_PER_TOKEN * self.max_tokens) for turn in turns]
        self.counts.prompts += len(turns)
        return [
            pieces if _length(pieces) <= self.max_tokens else self._shortened(shown)
            for shown, pieces in zip(views, self._segmented(views), strict=True)
        ]

    def _shortened(self, shown: View) -> list[Piece]:
        kept = shortened(shown, lambda v: _length(self._segmented([v])[0]) <= self.max_tokens, self.counts)
        pieces = self._segmented([kept])[0]
        excess = _length(pieces) - self.max_tokens
        if excess <= 0:
            return pieces
        ids = [token for piece in pieces for token in piece.ids]  # the goal or the list of actions is too long
        half = self.max_tokens // 2
        return [Piece(ids[:half] + ids[half + excess :], action=False)]

    def _segmented(self, views: Sequence[View]) -> list[list[Piece]]:
        segments = [self.template.segments(shown.turn, shown.history) for shown in views]
        texts = [self._message(segment.text) for prompt in segments for segment in prompt]
        ids = iter(self.tokenised(texts))
        start = [Piece(self._start, action=False)] if self._start else []
        return [
            start
            + [
                Piece([*tokens, self.end] if segment.action else tokens, segment.action)
                for segment, tokens in zip(prompt, islice(ids, len(prompt)), strict=True)
            ]
            for prompt in segments
        ]

    def _message(self, text: str) -> str:
        if not self.template.chat:
            return text
        if not self._chat:
            return f"{text}\n"
        message: str = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": text}],
            tokenize=False,
            add_generation_prompt=True,
            enable_thinking=not self.template.one_line,
        )
        return message

    def tokenised(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text. What a transcript repeats at every step are its segments; what other prompts repeat
        are clauses, such as one action of the list, so these are tokenised apart where that gives the same tokens."""
        if not (self.template.chat and self._clauses):
            return self._recalled(texts, remember=not self.template.chat)
        clauses = [_CUTS.split(text) for text in texts]
        ids = iter(self._recalled([clause for parts in clauses for clause in parts], remember=True))
        return [[token for part in islice(ids, len(parts)) for token in part] for parts in clauses]

    def _recalled(self, texts: Sequence[str], remember: bool) -> list[list[int]]:
        """The tokens of each text; `remember` those that will come back."""
        new = [text for text in dict.fromkeys(texts) if text not in self._remembered]
        if len(self._remembered) + len(new) > _MOST_REMEMBERED:
            self._remembered.clear()
            new = list(dict.fromkeys(texts))
        fresh = _tokens(self.tokenizer, new) if new else []
        tokenised = dict(zip(new, fresh, strict=True))
        if remember:
            self._remembered |= tokenised
        return [self._remembered[text] if text in self._remembered else tokenised[text] for text in texts]


def _tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    encoded = tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False)
    ids: list[list[int]] = encoded["input_ids"]
    return ids


def _length(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.ids) for piece in pieces)


@functools.lru_cache(maxsize=4)
def _line_breaks(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that contain a line break; cached, as decoding a whole vocabulary is slow."""
    texts = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
    return frozenset(token for token, text in enumerate(texts) if "\n" in text)


_ENDS = ("word", "Word", "7", *")'\"]:-_>\u00e9\u65e5\u2014\n\t", "a b", "...")
_BEGINNINGS = ("word", "Word", "7", "'s", *"'\"([<-_.,\u00e9\u65e5\u2014\u0301")


@functools.lru_cache(maxsize=4)
def _cuts_are_tokens(tokenizer: Tokenizer) -> bool:
    """Whether no token of this tokenizer reaches across a cut, whatever it has learned: its words end there before
    any are merged, and what is tokenised apart gets no mark of a beginning."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or backend.pre_tokenizer is None:
        return False
    added = " ".join(tokenizer.get_added_vocab())
    if "\n" in added or _CUTS.search(added):
        return False
    texts = [end + cut + begin for end in _ENDS for cut in (", ", ". ", "\n") for begin in _BEGINNINGS]
    clauses = [_CUTS.split(text) for text in texts]
    for text, parts in zip(texts, clauses, strict=True):
        cuts = [*accumulate(len(part) for part in parts)]
        words = [span for _, span in backend.pre_tokenizer.pre_tokenize_str(text)]
        if any(start < cut < end for start, end in words for cut in cuts):
            return False
    ids = iter(_tokens(tokenizer, [part for parts in clauses for part in parts]))
    joined = [[token for part in islice(ids, len(parts)) for token in part] for parts in clauses]
    return joined == _tokens(tokenizer, texts)
