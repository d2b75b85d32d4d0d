"""Which actions an imagined state allows: what epsilon-mixing, constrained choice and prompts need.

Proposals are what was allowed a step ago, what the source of the answer allowed (renamed), what the start allowed, and
the log's templates filled with the things now in view; a logistic model over hashed relations accepts or rejects
each. Fitted on the lists of the log, each episode answered by the others. A log without lists gives none.
"""

import copy
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from worldline.narrator.grammar import Command, Grammar, kind, renamed
from worldline.narrator.history import History
from worldline.narrator.linear import Hashed, padded_ids
from worldline.narrator.retrieval import CandidateAnswer, ContentsModel
from worldline.narrator.words import stable_hash
from worldline.types import Trajectory

BUCKETS = 1 << 16
_MOST_FILLERS = 24
_MOST_KEPT = 1 << 18
_NAME = 4
"""Words of a name at most; whole sentences are listed after names."""


class Fillers:
    """Which kinds of things the log ever put into each slot of each template."""

    def __init__(self, slots: dict[str, tuple[frozenset[str], ...]], spelled: dict[str, str]) -> None:
        self.slots = slots
        self.spelled = spelled
        """Template -> one action spelled as the log spells it, with its things marked {0}, {1}."""
        self.fill = functools.lru_cache(1 << 14)(self._fill)

    @classmethod
    def of(cls, grammar: Grammar, actions: Iterable[str]) -> "Fillers":
        slots: dict[str, list[set[str]]] = {}
        spelled: dict[str, str] = {}
        for action in dict.fromkeys(actions):
            command = grammar.parse(action)
            for at, thing in enumerate(command.things):
                slots.setdefault(command.template, [set() for _ in command.things])[at].add(kind(thing))
            spelled.setdefault(command.template, _spelling(action, command))
        return cls({shape: tuple(map(frozenset, kinds)) for shape, kinds in slots.items()}, spelled)

    def _fill(self, things: tuple[str, ...]) -> frozenset[str]:
        """Every action that the log's templates can say about `things`."""
        kinds = {thing: kind(thing) for thing in things}
        actions = []
        for shape, accepted in self.slots.items():
            fits = [[thing for thing in kinds if kinds[thing] in slot] for slot in accepted]
            spelled = self.spelled[shape]
            actions += [spelled.format(*filled) for filled in itertools.product(*fits) if len({*filled}) == len(filled)]
        return frozenset(actions)


def _spelling(action: str, command: Command) -> str:
    text = action.replace("{", "{{").replace("}", "}}")
    for at, thing in enumerate(command.things):
        text = renamed(text, {thing: f"\x00{at}"})
    for at in range(len(command.things)):
        text = text.replace(f"\x00{at}", f"{{{at}}}")
    return text


class Situation:
    """What admissibility depends on after an answer: the episode up to it, and the lists seen so far."""

    def __init__(
        self,
        history: History,
        contents_model: ContentsModel,
        source: CandidateAnswer | None,
        earlier: Sequence[str] | None,
        start: Sequence[str] | None,
    ) -> None:
        self.history, self.grammar = history, history.grammar
        listed = source.source.admissible if source is not None and source.source is not None else None
        self.source = None if listed is None or source is None else _renamed(listed, source.names)
        self.before = tuple(earlier or ())
        self.earlier = frozenset(self.before)
        self.start = frozenset(start or ())
        self.action = history.actions[-1] if history.actions else ""
        self.command = history.commands[-1] if history.commands else Command("", ())
        self.shown = self.grammar.things(history.observation)
        self.wanted = frozenset(self.grammar.goal_roles(history.goal).values())
        self.around = contents_model.contents(history, self.command.things[-1]) if self.command.things else frozenset()
        self.outline = self.grammar.outline(history.observation)
        held = next((past for past in reversed(history.commands) if len(past.things) > 1), None)
        self.held = held.things[0] if held is not None else None
        self._hands = tuple(f"{held.template if held is not None else ''}|{holds}" for holds in (False, True))
        self._roles: dict[str, str] = {}
        self.visited: dict[str, str] = {}
        for past in history.commands:
            self.visited[past.template] = past.things[0] if past.things else ""

    def of(self, history: History) -> "Situation":
        """The same situation in a copy of the episode."""
        twin = copy.copy(self)
        twin.history = history
        return twin

    def proposals(self, fillers: Fillers) -> list[str]:
        """Actions worth asking about: anything listed lately, and what the templates say about what is in view."""
        focus = [*self.shown, *sorted(self.around), *self.command.things, *self.history.status]
        local = [t for action in sorted(self.earlier - self.start) for t in self.grammar.parse(action).things]
        things = list(dict.fromkeys([*focus, *local]))[:_MOST_FILLERS]
        filled = fillers.fill(tuple(sorted(things)))
        return sorted(filled.union(self.source or (), self.earlier, self.start))

    def ordered(self, actions: Sequence[str]) -> tuple[str, ...]:
        """As a world lists them that does not sort: by template, what was listed before, then in the text's order."""
        parsed = [self.grammar.parse(action).template for action in self.before]
        shapes = {shape: at for at, shape in enumerate(dict.fromkeys(parsed))}
        before = {action: at for at, action in enumerate(self.before)}
        text = self.history.observation.lower()

        def place(action: str) -> tuple[int, int, bool, int, str]:
            command = self.grammar.parse(action)
            named = command.things[0] if command.things else ""
            long, shown = named.count(" ") >= _NAME, text.find(named)
            row = shapes.get(command.template, len(shapes))
            return row, before.get(action, len(before)), long, shown if shown >= 0 else len(text), action

        return tuple(sorted(actions, key=place))

    def ids(self, action: str) -> list[int]:
        """The features of `action`, hashed."""
        return _ids(self.relations(action))

    def relations(self, action: str) -> "Relations":
        """How `action` relates to what was just done, just seen and listed before."""
        command = self.grammar.parse(action)
        things, status = command.things, self.history.status
        source = "-" if self.source is None else f"{action in self.source:d}"
        return Relations(
            command.template,
            self.command.template,
            f"{source}{action in self.earlier:d}{action in self.start:d}",
            action == self.action,
            self.visited.get(command.template) == (things[0] if things else ""),
            tuple([self._roles.get(thing) or self._role(thing) for thing in things]),
            tuple([status.get(thing, "") for thing in things]),
            self.outline,
            self._hands[self.held in things],
            command.kinds,
            tuple([kind(thing) in self.wanted for thing in things]),
        )

    def _role(self, thing: str) -> str:
        """Where a thing stands: in the last action, in the last answer, at the last place, or where the agent went."""
        at = self.command.things.index(thing) if thing in self.command.things else "-"
        here = thing in self.visited.values()
        held = "h" if thing == self.held else ""
        role = self._roles[thing] = f"{at}{thing in self.shown:d}{thing in self.around:d}{here:d}{held}"
        return role


class Relations(NamedTuple):
    """All that the admissibility of an action is judged by."""

    shape: str
    did: str
    lists: str
    """Whether it is in the source's list, the list before and the first list."""
    again: bool
    last: bool
    roles: tuple[str, ...]
    status: tuple[str, ...]
    outline: str
    hand: str
    kinds: tuple[str, ...]
    goal: tuple[bool, ...]
    """Which of its things the goal names."""

    def features(self) -> list[str]:
        shape, together, kinds = self.shape, "/".join(self.roles), ",".join(self.kinds)
        slots = enumerate(zip(self.roles, self.status, strict=True))
        return [
            shape,
            f"{shape}|{self.lists}",
            f"{shape}|{self.did}|{self.again}|{self.lists}",
            f"{shape}|{self.last}|{self.lists}",
            f"{shape}|{self.did}|{together}",
            f"{shape}|{together}|{self.lists}",
            f"{shape}|{self.outline}|{together}",
            f"{shape}|{self.hand}|{together}",
            f"{shape}|{kinds}",
            f"{shape}|{kinds}|{together}",
            f"{shape}|{self.did}|{self.hand}|{together}",
            f"{shape}|{''.join('01'[named] for named in self.goal)}|{together}",
            *(f"{shape}|{at}|{name}" for at, name in enumerate(self.kinds)),
            *(f"{shape}|{at}|{role}|{state}" for at, (role, state) in slots),
        ]


@functools.lru_cache(1 << 16)
def _ids(relations: Relations) -> list[int]:
    return [1 + stable_hash(text) % (BUCKETS - 1) for text in relations.features()]


@functools.lru_cache(1 << 14)
def _renamed(actions: tuple[str, ...], names: tuple[tuple[str, str], ...]) -> frozenset[str]:
    images = dict(names)
    return frozenset(renamed(action, images) for action in actions)


class Admissibility(Hashed):
    """The probability that the world lists an action."""

    def __init__(self) -> None:
        super().__init__(BUCKETS)
        self.bias = nn.Parameter(torch.tensor(-2.0))
        self._logits: dict[Relations, float] = {}

    @torch.no_grad()
    def judged(self, relations: Sequence[Relations]) -> list[float]:
        """The logit of each. The same few thousand come up again and again: each is worked out once."""
        new = [one for one in dict.fromkeys(relations) if one not in self._logits]
        if new:
            if len(self._logits) > _MOST_KEPT:
                self._logits, new = {}, list(dict.fromkeys(relations))
            logits = self(torch.from_numpy(padded_ids([_ids(one) for one in new])))
            self._logits |= dict(zip(new, logits.tolist(), strict=True))
        return [self._logits[one] for one in relations]

    def forget(self) -> None:
        """To be called when the weights have changed."""
        self._logits.clear()

    def forward(self, features: Tensor) -> Tensor:
        """features (n, F) -> logits (n,)."""
        return self.score(features) + self.bias


def listed_actions(episodes: Sequence[Trajectory]) -> list[str]:
    """Every distinct action a log took or listed."""
    listed: dict[str, None] = {}
    taken: dict[str, None] = {}
    for episode in episodes:
        for step in episode.steps:
            taken[step.action] = None
            for action in step.admissible or ():
                listed[action] = None
    return [*listed, *(action for action in taken if action not in listed)]
