"""The engine: which commands a state allows, what each does, what the world answers.

The rules are those of ALFRED's planning domain as the official engine plays it, quirks included: a closed microwave
heats, a lamp only ever turns on, `examine` works on the held object alone, "go to" never on the place you stand at.
A `GameEngine` is a game with its cache of texts and command lists, shared by every episode of that game. The key of
a text is everything it depends on, so it is derived from the grammar once and looked up afterwards.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from worldline.envs.household.game import NOTHING, Game, State, mask, members
from worldline.envs.household.grammar import Entity

NOTHING_HAPPENS = "Nothing happens."
_AGENT = Entity("agent", 0, "agent")


class Action(NamedTuple):
    """An official action name with the object and the receptacle it is about; `other` is the thing sliced."""

    name: str
    thing: int = NOTHING
    receptacle: int = NOTHING
    other: int = NOTHING


class AvailableCommands(NamedTuple):
    """The commands that a state allows, sorted, and the action of each."""

    commands: tuple[str, ...]
    actions: dict[str, Action]


class GameEngine:
    """A game, and the texts and commands derived from it so far."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.locations = [Entity("location", number, "") for number in range(len(game.initial.at))]
        self.receptacles = [Entity("receptacle", number, name) for number, name in enumerate(game.receptacles)]
        self.objects = [Entity("object", number, name) for number, name in enumerate(game.objects)]
        self._texts: dict[tuple[object, ...], str] = {}
        self._options: dict[tuple[object, ...], AvailableCommands] = {}
        self._near = [mask(beside) for beside in game.places]
        going = [Action("gotolocation", receptacle=r) for r in range(len(game.receptacles))]
        self._going = {self._command(action): action for action in going}

    @cached_property
    def introduction(self) -> str:
        """The first observation."""
        return self.game.grammar.derive("#intro#", {}, Scene(self, self.game.initial))

    def options(self, state: State) -> AvailableCommands:
        """The commands that `state` allows."""
        beside = self.game.places[state.here]
        opened = state.opened & self._near[state.here]
        key = (state.here, state.held, opened, state.at[state.here], *[state.contents[r] for r in beside])
        options = self._options.get(key)
        if options is None:
            commands = self.game.grammar.commands
            actions = {self._command(action): action for action in self._local(state) if action.name in commands}
            actions |= {text: go for text, go in self._going.items() if go.receptacle not in beside}
            options = self._options[key] = AvailableCommands(tuple(sorted(actions)), actions)
        return options

    def perform(self, state: State, action: Action) -> str:
        """Do `action` (one of `options`), changing `state`; the world's answer."""
        _apply(self.game, state, action)
        key = self._key(state, action)
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = self._answer(state, action)
        return text

    def won(self, state: State) -> bool:
        return self.game.goal.met(state, self.game.places[state.here])

    def _command(self, action: Action) -> str:
        names = {
            "r": self.game.receptacles[action.receptacle],
            "o": self.game.objects[action.thing],
            "ko": self.game.objects[action.thing],
            "co": self.game.objects[action.other],
        }
        return self.game.grammar.commands[action.name].format_map(names)

    def _local(self, state: State) -> Iterator[Action]:
        """The actions beside going elsewhere."""
        game, held = self.game, state.held
        yield from (Action("look"), Action("inventory"), Action("help"))
        for r in game.places[state.here]:
            shut = game.openable >> r & 1 and not state.opened >> r & 1
            yield Action("examinereceptacle", receptacle=r)
            if game.openable >> r & 1:
                yield Action("openobject" if shut else "closeobject", receptacle=r)
            yield from (Action("toggleobject", o, r) for o in members(state.contents[r] & game.toggleable))
            if held == NOTHING and not shut:
                yield from (Action("pickupobject", o, r) for o in members(state.contents[r] & game.pickupable))
            elif held != NOTHING:
                yield from self._with_held(held, r, bool(shut))
        if held != NOTHING:
            yield Action("examineobject", held)
            if game.knives >> held & 1:
                yield from (
                    Action("sliceobject", held, other=o) for o in members(state.at[state.here] & game.sliceable)
                )

    def _with_held(self, held: int, r: int, shut: bool) -> Iterator[Action]:
        game = self.game
        if not shut and game.accepts[r] >> held & 1:
            yield Action("putobject", held, r)
        if game.washable >> held & 1 and game.sinks >> r & 1:
            yield Action("cleanobject", held, r)
        if game.heatable >> held & 1 and game.microwaves >> r & 1:
            yield Action("heatobject", held, r)
        if game.coolable >> held & 1 and game.fridges >> r & 1:
            yield Action("coolobject", held, r)

    def _key(self, state: State, action: Action) -> tuple[object, ...]:
        """Everything that the answer to `action` depends on."""
        name, thing, r, _ = action
        if name in ("gotolocation", "openobject", "examinereceptacle"):
            return (name, r, state.opened >> r & 1, state.contents[r])
        if name == "look":
            beside = self.game.places[state.here]
            return (name, state.here, state.at[state.here], *[state.taken[r] for r in beside])
        if name == "inventory":
            return (name, state.held)
        if name in ("examineobject", "toggleobject"):
            bit = 1 << thing
            return (
                name,
                thing,
                state.clean & bit,
                state.hot & bit,
                state.cool & bit,
                state.sliced & bit,
                state.lit & bit,
            )
        return action

    def _answer(self, state: State, action: Action) -> str:
        bindings = {"a": _AGENT}
        if action.receptacle != NOTHING:
            bindings["r"] = self.receptacles[action.receptacle]
        if action.other != NOTHING:
            bindings |= {"ko": self.objects[action.thing], "co": self.objects[action.other]}
        elif action.thing != NOTHING:
            bindings["o"] = self.objects[action.thing]
        if action.name == "look":
            bindings["l"] = self.locations[state.here]
        return self.game.grammar.derive(self.game.grammar.feedback[action.name], bindings, Scene(self, state))


def _apply(game: Game, state: State, action: Action) -> None:
    name, thing, r, other = action
    bit = 1 << thing if thing != NOTHING else 0
    if name == "gotolocation":
        state.here = game.location[r]
    elif name == "openobject":
        state.opened |= 1 << r
    elif name == "closeobject":
        state.opened &= ~(1 << r)
    elif name == "pickupobject":
        state.contents[r] &= ~bit
        state.taken[r] |= bit
        state.at[state.here] &= ~bit
        state.held = thing
    elif name == "putobject":
        state.contents[r] |= bit
        state.taken[r] &= ~bit
        state.at[state.here] |= bit
        state.held = NOTHING
    elif name == "cleanobject":
        state.clean |= bit
    elif name == "heatobject":
        state.hot |= bit
        state.cool &= ~bit
    elif name == "coolobject":
        state.cool |= bit
        state.hot &= ~bit
    elif name == "toggleobject":
        state.lit |= bit
    elif name == "sliceobject":
        state.sliced |= 1 << other


_OF_RECEPTACLES = {"openable", "opened"}
# Predicates of one argument, and the fields of `Game` and `State` that hold them.
_LASTING = {
    "openable": "openable",
    "isreceptacleobject": "vessels",
    "toggleable": "toggleable",
    "sliceable": "sliceable",
}
_CHANGING = {
    "opened": "opened",
    "isclean": "clean",
    "ishot": "hot",
    "iscool": "cool",
    "issliced": "sliced",
    "istoggled": "lit",
}


class Scene:
    """What is true in a state, in the words the grammar asks with."""

    def __init__(self, engine: GameEngine, state: State) -> None:
        self._engine = engine
        self._state = state

    def __call__(self, predicate: str, pattern: tuple[Entity | None, ...]) -> Iterable[tuple[Entity, ...]]:
        """The facts of `predicate` that agree with `pattern`, sorted."""
        if predicate in _LASTING:
            return self._property(predicate, getattr(self._engine.game, _LASTING[predicate]), pattern[0])
        if predicate in _CHANGING:
            return self._property(predicate, getattr(self._state, _CHANGING[predicate]), pattern[0])
        return [fact for fact in self._relation(predicate, pattern) if _agrees(fact, pattern)]

    def _property(self, predicate: str, bits: int, required: Entity | None) -> list[tuple[Entity, ...]]:
        entities = self._engine.receptacles if predicate in _OF_RECEPTACLES else self._engine.objects
        return [(entity,) for entity in _chosen(entities, required) if bits >> entity.number & 1]

    def _relation(self, predicate: str, pattern: tuple[Entity | None, ...]) -> Iterator[tuple[Entity, ...]]:
        engine, state = self._engine, self._state
        if predicate == "atlocation":
            yield (_AGENT, engine.locations[state.here])
        elif predicate in ("holds", "holdsany") and state.held != NOTHING:
            yield (_AGENT, engine.objects[state.held]) if predicate == "holds" else (_AGENT,)
        elif predicate == "receptacleatlocation":
            for receptacle in _chosen(engine.receptacles, pattern[0]):
                yield (receptacle, engine.locations[engine.game.location[receptacle.number]])
        elif predicate == "inreceptacleobject":
            for inner, vessel in engine.game.inside:
                yield (engine.objects[inner], engine.objects[vessel])
        elif predicate in ("inreceptacle", "not_inreceptacle", "objectatlocation"):
            yield from self._whereabouts(predicate, pattern)

    def _whereabouts(self, predicate: str, pattern: tuple[Entity | None, ...]) -> Iterator[tuple[Entity, ...]]:
        """Object-to-place facts, by object first as the official engine sorts them."""
        engine, state = self._engine, self._state
        where, table = {
            "inreceptacle": (engine.receptacles, state.contents),
            "not_inreceptacle": (engine.receptacles, state.taken),
            "objectatlocation": (engine.locations, state.at),
        }[predicate]
        places = list(_chosen(where, pattern[1]))
        anywhere = 0
        for place in places:
            anywhere |= table[place.number]
        for number in members(anywhere):
            for place in places:
                if table[place.number] >> number & 1:
                    yield (engine.objects[number], place)


def _chosen(entities: list[Entity], required: Entity | None) -> Iterable[Entity]:
    return entities if required is None else (required,)


def _agrees(fact: tuple[Entity, ...], pattern: tuple[Entity | None, ...]) -> bool:
    return all(required is None or required == entity for entity, required in zip(fact, pattern, strict=True))
