"""How a log's actions are built: templates with slots, and the things that fill them. Learned from the log alone.

"take apple 1 from countertop 2" is the template "take * from *" about the things "apple 1" and "countertop 2"; a
word is part of the template when most actions of that verb have it. Things are what observations, goals and
actions share, so they are how knowledge moves from one episode to another. No environment is known here: web and
search actions ("click[buy now]") come apart the same way, with one slot. Ours; the paper drops arguments (E.6).
"""

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from worldline.adwm.tokenizer import words

SLOT = "*"
_MOST = 0.5
"""A word of more than this share of a verb's distinct actions belongs to the template."""
_LONGEST_THING = 4
_MEMO = 1 << 16


@dataclass(frozen=True, slots=True)
class Command:
    """An action taken apart."""

    template: str
    things: tuple[str, ...]
    kinds: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", tuple(kind(thing) for thing in self.things))


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
        self._openings = {name.split()[0] for name in roles}
        """Kind -> the slot it fills most often ("take * from *#0"): its part of speech, so to say."""
        self.parse = functools.lru_cache(_MEMO)(self._parse)
        self._segments = functools.lru_cache(_MEMO)(self._cut)
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
        frames = {verb: _frame(verb, said) for verb, said in by_verb.items()}
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
                noun = [shape.pop()] if token.isdigit() and len(shape) > 1 and shape[-1] != SLOT else []
                shape.append(SLOT)
                things.append([*noun, token])
        return Command(" ".join(shape), tuple(" ".join(thing) for thing in things))

    def _things(self, text: str) -> tuple[str, ...]:
        """The things a text names, in order of appearance, each once."""
        return tuple(dict.fromkeys(found for found in self._segments(text)[1]))

    def _outline(self, text: str) -> str:
        """The beginning of a text with its things left out: "you arrive at * . the * is closed ."."""
        return " ".join(self._segments(text)[0][:10])

    def _cut(self, text: str) -> tuple[list[str], list[str]]:
        tokens = words(text)[:400]
        shape: list[str] = []
        found: list[str] = []
        at = 0
        while at < len(tokens):
            longest = min(_LONGEST_THING, len(tokens) - at) if tokens[at] in self._openings else 0
            for length in range(longest, 0, -1):
                phrase = " ".join(tokens[at : at + length])
                if kind(phrase) in self.roles:
                    found.append(phrase)
                    shape.append(SLOT)
                    at += length
                    break
            else:
                shape.append(tokens[at])
                at += 1
        return shape, found

    def _goal_roles(self, goal: str) -> dict[str, str]:
        """Which kind the goal names for each role: {"take * from *#0": "apple", "go to *#0": "fridge"}."""
        named = (kind(thing) for thing in self.things(goal))
        return {self.roles[name]: name for name in named}


def _verb(tokens: list[str]) -> str:
    return next((token for token in tokens if token[0].isalnum()), "")


def _frame(verb: str, said: list[list[str]]) -> frozenset[str]:
    if len(said) == 1:
        return frozenset(said[0])
    counts = Counter(token for tokens in said for token in set(tokens))
    return frozenset(token for token, count in counts.items() if count > _MOST * len(said)) | {verb}


def renamed(text: str, names: Mapping[str, str]) -> str:
    """`text` with every name replaced by its image; names trade places, so that two things never become one."""
    both = {**{new: old for old, new in names.items()}, **names}
    lowered = text.lower()
    there = {old: new for old, new in both.items() if old and old != new and old in lowered}
    return _renamed(text, tuple(there.items())) if there else text


@functools.lru_cache(_MEMO)
def _renamed(text: str, names: tuple[tuple[str, str], ...]) -> str:
    images = dict(names)
    return _pattern(tuple(sorted(images, key=len, reverse=True))).sub(lambda m: images[m[0].lower()], text)


@functools.lru_cache(_MEMO)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)", re.IGNORECASE)
