"""How a log's actions are built: templates with slots, and the things that fill them. Learned from the log alone.

"take apple 1 from countertop 2" is the template "take * from *" about the things "apple 1" and "countertop 2"; a
word is part of the template when most actions of that verb have it. Things are what observations, goals and
actions share, so they are how knowledge moves from one episode to another. It holds for any environment: web and
search actions ("click[buy now]") come apart the same way, with one slot. Ours; the paper drops arguments (E.6).
At the end, the enumerations of a text ("you see an apple 1, and a cup 2"): read, and written anew.
"""

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from worldline.narrator.words import words

SLOT = "*"
NUMBER = "#"
_MOST = 0.5
"""A word of more than this share of a verb's distinct actions belongs to the template."""
_LONGEST_THING = 4
_LONGEST_TEXT = 400
_BRACKET = re.compile(r"([\[\]])")
_ARTICLE = re.compile(r"\b(?:an?|some) ", re.IGNORECASE)
_EMPTY = re.compile(r"\bnothing\b")
_MEMO = 1 << 16


@dataclass(frozen=True, slots=True)
class Command:
    """An action taken apart."""

    template: str
    things: tuple[str, ...]
    kinds: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        # what an action says of one number it says of others: a year answered is like another year
        kinds = (NUMBER if thing.replace(" ", "").isdigit() else kind(thing) for thing in self.things)
        object.__setattr__(self, "kinds", tuple(kinds))


@functools.lru_cache(_MEMO)
def kind(thing: str) -> str:
    """What sort of thing it is: its name without numbers. "apple 1" is an apple."""
    named = [word for word in thing.split() if not word.isdigit()]
    return " ".join(named) or thing


class Grammar:
    """Parses actions, and finds the things of its actions in any text."""

    def __init__(self, frames: Mapping[str, frozenset[str]], roles: Mapping[str, str]) -> None:
        self.frames = dict(frames)
        """Verb -> the words of its template."""
        self.roles = dict(roles)
        """Kind -> the slot it fills most often ("take * from *#0"): its part of speech, so to say."""
        self._reach: dict[str, int] = {}
        """First word of a kind -> how many words such kinds have at most."""
        for name in roles:
            first, *rest = name.split()
            self._reach[first] = max(self._reach.get(first, 0), 1 + len(rest))
        self.parse = functools.lru_cache(_MEMO)(self._parse)
        self._segments = functools.lru_cache(_MEMO)(self._cut)
        self._piece = functools.lru_cache(_MEMO)(self._cut_piece)
        self._brackets_apart = not any("[" in name or "]" in name for name in roles)
        self.things = functools.lru_cache(_MEMO)(self._things)
        self.outline = functools.lru_cache(_MEMO)(self._outline)
        self.goal_roles = functools.lru_cache(_MEMO)(self._goal_roles)

    @classmethod
    def induce(cls, actions: Iterable[str]) -> "Grammar":
        """The grammar of a log's actions (those taken and those listed as admissible)."""
        counted = Counter(actions)
        by_verb: dict[str, list[list[str]]] = defaultdict(list)
        for action in counted:
            by_verb[_verb(tokens := words(action))].append(tokens)
        frames = {verb: _frame(verb, tokenised) for verb, tokenised in by_verb.items()}
        plain = cls(frames, {})
        fills: dict[str, Counter[str]] = defaultdict(Counter)
        for action, count in counted.items():
            command = plain.parse(action)
            for slot, thing in enumerate(command.things):
                fills[kind(thing)][f"{command.template}#{slot}"] += count
        return cls(frames, {name: max(slots, key=lambda s: (slots[s], s)) for name, slots in fills.items()})

    def _parse(self, action: str) -> Command:
        tokens = words(action)
        frame = self.frames.get(_verb(tokens), frozenset())
        shape: list[str] = []
        things: list[list[str]] = []
        for token in tokens:
            if token in frame and not token.isdigit():
                shape.append(token)
            elif shape and shape[-1] == SLOT:
                things[-1].append(token)
            else:
                # "use desklamp 1" where every lamp is a desklamp: the noun goes with its number
                noun = [shape.pop()] if token.isdigit() and len(shape) > 1 and shape[-1].isalnum() else []
                shape.append(SLOT)
                things.append([*noun, token])
        return Command(" ".join(shape), tuple(" ".join(thing) for thing in things))

    def _things(self, text: str) -> tuple[str, ...]:
        """The things a text names, in order of appearance, each once."""
        return tuple(dict.fromkeys(thing for thing in self._segments(text)[1]))

    def _outline(self, text: str) -> str:
        """The beginning of a text with its things left out: "you arrive at * . the * is closed ."."""
        return " ".join(self._segments(text)[0][:10])

    def _cut(self, text: str) -> tuple[list[str], list[str]]:
        """The words of a text with its things left out, and the things. Web pages repeat what brackets set apart."""
        shape: list[str] = []
        things: list[str] = []
        room = _LONGEST_TEXT
        for part in _BRACKET.split(text) if self._brackets_apart else (text,):
            words_left, named, size = self._piece(part)
            if size > room:
                words_left, named = self._taken_apart(words(part)[:room])
            shape += words_left
            things += named
            room -= size
            if room <= 0:
                break
        return shape, things

    def _cut_piece(self, text: str) -> tuple[list[str], list[str], int]:
        tokens = words(text)
        return *self._taken_apart(tokens[:_LONGEST_TEXT]), len(tokens)

    def _taken_apart(self, tokens: list[str]) -> tuple[list[str], list[str]]:
        shape: list[str] = []
        things: list[str] = []
        at = 0
        while at < len(tokens):
            length = self._named(tokens, at) if tokens[at] in self._reach else 0
            if length:
                things.append(" ".join(tokens[at : at + length]))
            shape.append(SLOT if length else tokens[at])
            at += length or 1
        return shape, things

    def _named(self, tokens: list[str], at: int) -> int:
        """How many tokens from `at` on are the longest name of a thing; 0 if none are."""
        reach, longest, name = self._reach[tokens[at]], 0, ""
        number = tokens[at].isdigit()
        for length, token in enumerate(tokens[at : at + _LONGEST_THING], start=1):
            if token.isdigit() == number:
                name = f"{name} {token}" if name else token
                reach -= 1
            if reach < 0 or (number and not token.isdigit()):
                break
            if name in self.roles:
                longest = length
        return longest

    def _goal_roles(self, goal: str) -> dict[str, str]:
        """Which kind the goal names for each role: {"take * from *#0": "apple", "go to *#0": "fridge"}."""
        named = (kind(thing) for thing in self.things(goal))
        return {self.roles[name]: name for name in named}


def _verb(tokens: list[str]) -> str:
    return next((token for token in tokens if token[0].isalnum()), "")


def _frame(verb: str, tokenised: list[list[str]]) -> frozenset[str]:
    if len(tokenised) == 1:
        return frozenset(tokenised[0])
    counts = Counter(token for tokens in tokenised for token in set(tokens))
    return frozenset(token for token, count in counts.items() if count > _MOST * len(tokenised)) | {verb}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """`text` with every name replaced by its image; names trade places, so that two things never become one."""
    both = {**{new: old for old, new in names.items()}, **names}
    lowered = text.lower()
    there = {old: new for old, new in both.items() if old and old != new and old in lowered}
    return _renamed(text, tuple(there.items())) if there else text


@functools.lru_cache(_MEMO)
def _renamed(text: str, names: tuple[tuple[str, str], ...]) -> str:
    lowered = text.lower()
    if len(lowered) != len(text):  # letters whose small form has another length are left as they are
        lowered = "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)
    spans = sorted((at, -len(old), new) for old, new in names for at in _places(lowered, old))
    parts, end = [], 0
    for at, length, new in spans:
        if at >= end:
            parts += [text[end:at], new]
            end = at - length
    return "".join([*parts, text[end:]])


def _places(text: str, name: str) -> Iterator[int]:
    """Where `name` stands in `text` as words of its own."""
    at = text.find(name)
    while at >= 0:
        if (at == 0 or not _in_word(text[at - 1])) and not _in_word(text[at + len(name) : at + len(name) + 1]):
            yield at
        at = text.find(name, at + 1)


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"


@dataclass(frozen=True, slots=True)
class Listing:
    """The enumeration in a text: what stands before, the things, what stands after."""

    head: str
    things: tuple[str, ...]
    tail: str

    def text(self) -> str:
        named = [f"a {thing}" for thing in self.things] or ["nothing"]
        enumeration = named[0] if len(named) == 1 else f"{', '.join(named[:-1])}, and {named[-1]}"
        return f"{self.head}{enumeration}{self.tail}"


def listing(text: str, grammar: Grammar) -> Listing | None:
    """The enumeration in `text`, if there is one."""
    return _listing(text, grammar.things(text))


@functools.lru_cache(1 << 16)
def _listing(text: str, names: tuple[str, ...]) -> Listing | None:
    if names:
        lowered, longest_first = text.lower(), sorted(names, key=len, reverse=True)
        items: list[tuple[int, int, int]] = []
        for article in _ARTICLE.finditer(text):
            at = article.end()
            name = next((n for n in longest_first if lowered.startswith(n, at) and _ends(text, at + len(n))), None)
            if name is not None:
                items.append((article.start(), at, at + len(name)))
        if items:
            return Listing(text[: items[0][0]], tuple(text[at:end] for _, at, end in items), text[items[-1][2] :])
    empty = _EMPTY.search(text)
    return Listing(text[: empty.start()], (), text[empty.end() :]) if empty else None


def _ends(text: str, at: int) -> bool:
    """Whether a word ends at `at`."""
    return at >= len(text) or not (text[at].isalnum() or text[at] == "_")


def relisted(text: str, grammar: Grammar, gone: Iterable[str], there: Iterable[str]) -> str:
    """`text` with `gone` out of its enumeration and `there` in it, in order where it was ordered."""
    old = listing(text, grammar)
    if old is None:
        return text
    left = [thing for thing in old.things if thing not in set(gone)]
    new = [thing for thing in there if thing not in left]
    ordered = left == sorted(left)
    things = tuple(sorted([*left, *new]) if ordered else [*left, *new])
    return text if things == old.things else Listing(old.head, things, old.tail).text()
