"""What an agent knows of a house from the texts it has read, and nothing else.

Rebuilt from the transcript at every turn, so it needs no memory and can pick up after anybody's actions: its own,
a random policy's, a language model's. Reads both the generated houses' and the official games' wording.
"""

import re
from dataclasses import dataclass, field

from worldline.types import Turn

_NAME = r"([a-z]+ \d+)"
_LISTED = re.compile(rf"\ban? {_NAME}")
_FIRST_VIEW = re.compile(r"you see ([^\n]*)")
_OPEN = re.compile(rf"The {_NAME} is open\. In it, you see (.*)")
_ON = re.compile(rf"On the {_NAME}, you see (.*)")
_CLOSED = re.compile(rf"The {_NAME} is closed\.|You close the {_NAME}\.")
_ARRIVE = re.compile(rf"You arrive at {_NAME}\.")
_TAKE = re.compile(rf"You pick up the {_NAME} from the {_NAME}\.")
_PUT = re.compile(rf"You (?:move|put) the {_NAME} (?:to|in/on) the {_NAME}\.")
_TREAT = re.compile(rf"You (clean|heat|cool) the {_NAME} using the {_NAME}\.")
_LIGHT = re.compile(rf"You turn on the {_NAME}\.")


def kind(name: str) -> str:
    """`cabinet 3` -> `cabinet`"""
    return name.rpartition(" ")[0]


@dataclass
class Belief:
    """`contents` has the receptacles whose inside has been seen; `closed` those known to be shut."""

    receptacles: list[str] = field(default_factory=list)
    contents: dict[str, list[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    here: str | None = None
    beside: set[str] = field(default_factory=set)
    """Receptacles that cannot be gone to because they stand where the agent is."""
    held: str | None = None
    origin: str | None = None
    """Where the held object was taken from."""
    treated: dict[str, str] = field(default_factory=dict)
    """Object -> the last of heat and cool done to it."""
    cleaned: set[str] = field(default_factory=set)
    lit: set[str] = field(default_factory=set)

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
        return thing in self.cleaned if treatment == "clean" else self.treated.get(thing) == treatment

    def update(self, action: str, answer: str) -> None:
        """Learn from what the world answered to `action`."""
        if answer == "Nothing happens.":
            goal = action.removeprefix("go to ")
            if goal != action and goal in self.receptacles and self.here is not None:
                self.beside.add(goal)
            return
        if arrived := _ARRIVE.search(answer):
            self.here = arrived[1]
            self.beside = set()
        for seen in (_OPEN.search(answer), _ON.search(answer)):
            if seen:
                self.contents[seen[1]] = _LISTED.findall(seen[2])
                self.closed.discard(seen[1])
        if shut := _CLOSED.search(answer):
            self.closed.add(shut[1] or shut[2])
        if took := _TAKE.search(answer):
            self.held, self.origin = took[1], took[2]
            for things in self.contents.values():
                if took[1] in things:
                    things.remove(took[1])
        elif put := _PUT.search(answer):
            self.held = None
            self.contents.setdefault(put[2], []).append(put[1])
        elif treated := _TREAT.search(answer):
            self._treat(treated[1], treated[2])
        elif light := _LIGHT.search(answer):
            self.lit.add(light[1])

    def _treat(self, treatment: str, thing: str) -> None:
        if treatment == "clean":
            self.cleaned.add(thing)
        else:
            self.treated[thing] = treatment
