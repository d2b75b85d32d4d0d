"""What an agent knows of a house from the texts it has read, and nothing else.

Rebuilt from the transcript at every turn, so it needs no memory and can pick up after anybody's actions: its own,
a random policy's, a language model's. Reads both the generated houses' and the official games' wording.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from worldline.types import Turn

_NAME = r"([a-z]+ \d+)"
_LISTED = re.compile(rf"\ban? {_NAME}")
_FIRST_VIEW = re.compile(r"you see ([^\n]*)")
_CONTENTS = re.compile(rf"(?:The {_NAME} is open\. In it|On the {_NAME}), you see (.*)")
_CLOSED = re.compile(rf"The {_NAME} is closed\.|You close the {_NAME}\.")
_TAKE = re.compile(rf"You pick up the {_NAME} from the {_NAME}\.")
_PUT = re.compile(rf"You (?:move|put) the {_NAME} (?:to|in/on) the {_NAME}\.")
_TREAT = re.compile(rf"You (clean|heat|cool) the {_NAME} using the {_NAME}\.")


class _News(NamedTuple):
    """What one answer of the world tells; empty strings where it does not."""

    looked_into: str = ""
    things: tuple[str, ...] = ()
    closed: str = ""
    taken: str = ""
    source: str = ""
    put: str = ""
    target: str = ""
    treatment: str = ""
    treated: str = ""


@lru_cache(maxsize=1 << 14)
def _read(answer: str) -> _News:
    """Cached: at every turn the whole transcript is read again, and each answer in it is read once."""
    if took := _TAKE.search(answer):
        return _News(taken=took[1], source=took[2])
    if put := _PUT.search(answer):
        return _News(put=put[1], target=put[2])
    if treated := _TREAT.search(answer):
        return _News(treatment=treated[1], treated=treated[2])
    if seen := _CONTENTS.search(answer):
        return _News(looked_into=seen[1] or seen[2], things=tuple(_LISTED.findall(seen[3])))
    if shut := _CLOSED.search(answer):
        return _News(closed=shut[1] or shut[2])
    return _News()


def kind(name: str) -> str:
    """`cabinet 3` -> `cabinet`"""
    return name.rpartition(" ")[0]


@dataclass
class Belief:
    """`contents` has the receptacles whose inside has been seen; `closed` those that were last seen shut."""

    receptacles: list[str] = field(default_factory=list)
    contents: dict[str, list[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    here: str | None = None
    beside: set[str] = field(default_factory=set)
    """Receptacles that cannot be gone to because they stand where the agent is."""
    held: str | None = None
    origin: str | None = None
    """Where the held object was taken from."""
    cleaned: set[str] = field(default_factory=set)
    heated_or_cooled: dict[str, str] = field(default_factory=dict)
    """Object -> the last of the two done to it."""

    @classmethod
    def of(cls, turn: Turn) -> "Belief":
        """What the agent of `turn` knows."""
        belief = cls()
        texts = [exchange.observation for exchange in turn.history] + [turn.observation]
        view = _FIRST_VIEW.search(texts[0])
        belief.receptacles = _LISTED.findall(view[1]) if view else []
        for exchange, answer in zip(turn.history, texts[1:], strict=True):
            belief.update(exchange.action.strip(), answer)
        return belief

    def at(self, receptacle: str) -> bool:
        return receptacle == self.here or receptacle in self.beside

    def where(self, object_kind: str) -> list[tuple[str, str]]:
        """(object, receptacle) of every seen object of a kind, receptacles in the order of the room's list."""
        seen = [(thing, place) for place in self.receptacles for thing in self.contents.get(place, ())]
        return [(thing, place) for thing, place in seen if kind(thing) == object_kind]

    def done(self, treatment: str, thing: str) -> bool:
        return thing in self.cleaned if treatment == "clean" else self.heated_or_cooled.get(thing) == treatment

    def update(self, action: str, answer: str) -> None:
        """Learn from what the world answered to `action`."""
        if answer == "Nothing happens.":
            goal = action.removeprefix("go to ")
            if goal != action and goal in self.receptacles and self.here is not None:
                self.beside.add(goal)
            return
        if action.startswith("go to "):
            self.here = action.removeprefix("go to ")
            self.beside = set()
        news = _read(answer)
        if news.looked_into:
            self.contents[news.looked_into] = list(news.things)
            self.closed.discard(news.looked_into)
        elif news.closed:
            self.closed.add(news.closed)
        elif news.taken:
            self.held, self.origin = news.taken, news.source
            for things in self.contents.values():
                if news.taken in things:
                    things.remove(news.taken)
        elif news.put:
            self.held = None
            if news.target in self.contents:
                self.contents[news.target].append(news.put)
        elif news.treatment == "clean":
            self.cleaned.add(news.treated)
        elif news.treatment:
            self.heated_or_cooled[news.treated] = news.treatment
