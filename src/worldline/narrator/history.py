"""One episode as text so far, indexed by the things it is about.

It answers the questions that what comes next depends on: what was last done to a thing, what was last seen
of it, where a thing was last seen. It is the same object for a logged episode that is replayed and for one
that is being imagined. The networks' view of an episode is `adwm.episodes`.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from worldline.narrator.grammar import Command, Grammar, listing

_VIEW = 6
"""Words of the outline that stand for what was last seen of a thing."""


_NOTHING = Command("", ())


class History:
    """Everything said and done in one episode. `episode` is its number in the log, -1 for an imagined one."""

    __slots__ = (
        "_did",
        "_saw",
        "_touch",
        "_views",
        "actions",
        "commands",
        "episode",
        "first_things",
        "goal",
        "grammar",
        "observations",
        "status",
        "task",
        "where",
    )

    def __init__(self, grammar: Grammar, task: str, goal: str, observation: str, episode: int = -1) -> None:
        self.grammar, self.task, self.goal, self.episode = grammar, task, goal, episode
        self.actions: list[str] = []
        self.commands: list[Command] = []
        self.observations = [observation]
        self.status: dict[str, str] = {}
        """Thing -> the slot it had in the last action that named it; the latest last."""
        self.where: dict[str, set[str]] = {}
        """Thing -> the actions whose answers named it."""
        self._saw: dict[str, int] = {}
        self._did: dict[str, list[int]] = {}
        self._touch: dict[str, int] = {}
        self._views: dict[str, list[int]] = {}
        self.first_things = grammar.things(observation)
        for thing in self.first_things:
            self._saw[thing] = 0

    def advance(self, action: str, observation: str, valid: bool = True) -> None:
        """Record `action` and the world's answer. What the world refused was said, but not done."""
        command = self.grammar.parse(action) if valid else _NOTHING
        self._did.setdefault(action, []).append(len(self.actions))
        self.actions.append(action)
        self.commands.append(command)
        self.observations.append(observation)
        for slot, thing in enumerate(command.things):
            self.status.pop(thing, None)
            self.status[thing] = f"{command.template}#{slot}"
            self._touch[thing] = len(self.actions) - 1
        shown = listing(observation, self.grammar)
        for thing in self.grammar.things(observation):
            self._saw[thing] = len(self.observations) - 1
            if shown is not None and thing not in shown.things:
                self._views.setdefault(thing, []).append(len(self.observations) - 1)
            if thing not in command.things:
                self.where.setdefault(thing, set()).add(action)

    def copy(self) -> "History":
        twin = History.__new__(History)
        twin.grammar, twin.task, twin.goal, twin.episode = self.grammar, self.task, self.goal, self.episode
        twin.actions, twin.commands, twin.observations = [*self.actions], [*self.commands], [*self.observations]
        twin.first_things = self.first_things
        twin.status, twin._saw, twin._touch = dict(self.status), dict(self._saw), dict(self._touch)
        twin.where = {thing: set(actions) for thing, actions in self.where.items()}
        twin._views = {place: [*views] for place, views in self._views.items()}
        twin._did = {action: [*steps] for action, steps in self._did.items()}
        return twin

    @property
    def observation(self) -> str:
        return self.observations[-1]

    @property
    def before(self) -> str:
        """The template of the last action."""
        return self.commands[-1].template if self.commands else ""

    def answers(self, action: str) -> list[str]:
        """What the world answered each time `action` was done, the latest first."""
        return [self.observations[step + 1] for step in reversed(self._did.get(action, ()))]

    def state(self, thing: str) -> str:
        """What was last done to a thing and what was last seen of it."""
        return f"{self.status.get(thing, '')}|{self.view(thing)}"

    def views(self, place: str) -> list[int]:
        """The observations that listed what is at `place`, by number, the latest first."""
        return self._views.get(place, [])[::-1]

    def handled(self, place: str, since: int = 0) -> list[tuple[str, bool]]:
        """The things that actions from step `since` on were about, and whether the last such action was at `place`."""
        late = (
            (thing, self.commands[at].things) for thing, at in self._touch.items() if at >= since and thing != place
        )
        return [(thing, place in named[1:]) for thing, named in late]

    def fate(self, thing: str, places: Sequence[str]) -> str | None:
        """What was last done to a thing, and whether it was done with one of `places`; None if nothing was."""
        at = self._touch.get(thing)
        if at is None:
            return None
        return f"{self.status[thing]}|{any(place in self.commands[at].things for place in places)}"

    def view(self, thing: str) -> str:
        seen = self._saw.get(thing)
        return " ".join(self.grammar.outline(self.observations[seen]).split()[:_VIEW]) if seen is not None else ""

    def states(self, command: Command) -> tuple[str, ...]:
        """The states of the things an action is about; for one about nothing, what was done just before."""
        if command.things:
            return tuple(self.state(thing) for thing in command.things)
        return (self.before, self.view_now)

    @property
    def view_now(self) -> str:
        return " ".join(self.grammar.outline(self.observation).split()[:_VIEW])

    def counterpart(self, status: str) -> str | None:
        """The thing that an action most recently left in `status`."""
        return next((thing for thing in reversed(self.status) if self.status[thing] == status), None)


def shared(left: AbstractSet[str], right: AbstractSet[str]) -> float:
    """The share of words two texts have in common (F1 over distinct words)."""
    return 2 * len(left & right) / (len(left) + len(right)) if left or right else 1.0
