"""Official games: an ALFRED planning problem and a text grammar read into a `Game`.

Reads what the games use of PDDL: typed facts of one or two arguments and the six goal shapes. The planning domain is
the engine's own rules, so a domain with other actions is refused. Numbering follows the official engine: entities
sorted by their lower-case id, names counted down (`cabinet 4` before `cabinet 3`), basins named apart from sinks.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from worldline.envs.household.game import Game, GoalCondition, State, mask
from worldline.envs.household.grammar import TextGrammar
from worldline.envs.household.wording import PREFIX
from worldline.types import InputError

ACTIONS = frozenset(
    {"look", "inventory", "help", "gotolocation", "openobject", "closeobject", "examinereceptacle", "examineobject"}
    | {"pickupobject", "putobject", "cleanobject", "heatobject", "coolobject", "toggleobject", "sliceobject"}
)

_FACT = re.compile(r"\(\s*([\w-]+)\s+([^\s()]+)(?:\s+([^\s()]+))?\s*\)")
_TOKEN = re.compile(r"[()]|[^\s()]+")
_ABLE = ("pickupable", "toggleable", "sliceable", "isreceptacleobject", "cleanable", "heatable", "coolable")
_CONDITIONS = {"isclean": "clean", "ishot": "hot", "iscool": "cool", "issliced": "sliced"}


def check_domain(domain: str) -> None:
    """InputError unless the engine knows every action of a planning domain."""
    text = re.sub(r";[^\n]*", "", domain)
    unknown = {name.lower() for name in re.findall(r"\(:action\s+([\w-]+)", text)} - ACTIONS
    if unknown:
        raise InputError(f"the planning domain has actions this engine does not know: {', '.join(sorted(unknown))}")


def read_game(problem: str, grammar: TextGrammar, walkthrough: Sequence[str] = ()) -> Game:
    """The game of a planning problem, with the wording of `grammar`."""
    start, end = problem.find("(:init"), problem.find("(:goal")
    if start < 0 or end < start:
        raise InputError("the planning problem has no (:init ...) before a (:goal ...)")
    facts: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for predicate, first, second in _FACT.findall(problem[start:end].lower()):
        facts[predicate].append((first, second))
    house = _House.of(facts)
    here = [house.locations[place] for _, place in facts["atlocation"]]
    if len(here) != 1 or not house.receptacles:
        raise InputError("the planning problem has no receptacles or no single (atLocation agent place)")
    able = {name: mask(house.objects[thing] for thing, _ in facts[name]) for name in _ABLE}
    contents = house.table(facts["inreceptacle"], house.receptacles)
    return Game(
        task=grammar.task.removeprefix(PREFIX),
        goal=_goal(problem[end:].lower(), house, able),
        grammar=grammar,
        receptacles=house.names(house.receptacles),
        objects=house.names(house.objects),
        location=tuple(house.locations[place] for _, place in sorted(facts["receptacleatlocation"])),
        initial=State(
            here=here[0],
            contents=contents,
            at=house.table(facts["objectatlocation"], house.locations),
            taken=[0] * len(contents),
            **{_CONDITIONS[name]: mask(house.objects[thing] for thing, _ in facts[name]) for name in _CONDITIONS},
            opened=mask(house.receptacles[place] for place, _ in facts["opened"]),
        ),
        accepts=house.accepts(facts["cancontain"]),
        openable=mask(house.receptacles[place] for place, _ in facts["openable"]),
        pickupable=able["pickupable"],
        toggleable=able["toggleable"],
        sliceable=able["sliceable"],
        knives=house.objects_of("knifetype") | house.objects_of("butterknifetype"),
        vessels=able["isreceptacleobject"],
        inside=tuple(sorted((house.objects[i], house.objects[v]) for i, v in facts["inreceptacleobject"])),
        washable=able["cleanable"],
        heatable=able["heatable"],
        coolable=able["coolable"],
        sinks=house.receptacles_of("sinktype") | house.receptacles_of("sinkbasintype"),
        microwaves=house.receptacles_of("microwavetype"),
        fridges=house.receptacles_of("fridgetype"),
        walkthrough=tuple(walkthrough),
    )


@dataclass(frozen=True)
class _House:
    """The entities of a problem, numbered in the order of their ids, and their types."""

    receptacles: dict[str, int]
    objects: dict[str, int]
    locations: dict[str, int]
    receptacle_types: dict[str, str]
    object_types: dict[str, str]
    titles: dict[str, str]

    @classmethod
    def of(cls, facts: dict[str, list[tuple[str, str]]]) -> "_House":
        receptacles = {place for place, _ in facts["receptacleatlocation"]}
        if len(receptacles) != len(facts["receptacleatlocation"]):
            raise InputError("the planning problem has a receptacle at two locations")
        objects = {
            thing for name in (*_ABLE, "objecttype", "inreceptacle", "objectatlocation") for thing, _ in facts[name]
        }
        objects |= {thing for pair in facts["inreceptacleobject"] for thing in pair}
        located = ("atlocation", "receptacleatlocation", "objectatlocation")
        locations = {place for name in located for _, place in facts[name]}
        types = {first: second for first, second in facts["receptacletype"] if first in receptacles}
        return cls(
            _numbered(receptacles),
            _numbered(objects),
            _numbered(locations),
            types,
            dict(facts["objecttype"]),
            _titles([*receptacles, *objects]),
        )

    def names(self, entities: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.titles[entity] for entity in entities)

    def table(self, pairs: Iterable[tuple[str, str]], places: dict[str, int]) -> list[int]:
        """Per place, the objects that `pairs` puts there."""
        rows = [0] * len(places)
        for thing, place in pairs:
            rows[places[place]] |= 1 << self.objects[thing]
        return rows

    def objects_of(self, kind: str) -> int:
        return mask(number for thing, number in self.objects.items() if self.object_types.get(thing) == kind)

    def receptacles_of(self, kind: str) -> int:
        return mask(number for place, number in self.receptacles.items() if self.receptacle_types.get(place) == kind)

    def accepts(self, pairs: Iterable[tuple[str, str]]) -> tuple[int, ...]:
        """Per receptacle, the objects whose type its type can contain."""
        of_type: dict[str, int] = defaultdict(int)
        for thing, kind in self.object_types.items():
            of_type[kind] |= 1 << self.objects[thing]
        allowed: dict[str, int] = defaultdict(int)
        for place_kind, thing_kind in pairs:
            allowed[place_kind] |= of_type.get(thing_kind, 0)
        return tuple(allowed.get(self.receptacle_types.get(place, ""), 0) for place in self.receptacles)


def _numbered(ids: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(sorted(ids))}


def _titles(ids: Iterable[str]) -> dict[str, str]:
    """`cabinet_bar__minus_01...` -> `cabinet 3`: the first of n sorted ids of a kind is number n."""
    kinds = {name: name.partition("_bar_")[0] + ("basin" if "basin" in name else "") for name in sorted(ids)}
    left = Counter(kinds.values())
    titles = {}
    for name, kind in kinds.items():
        titles[name] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return titles


def _goal(text: str, house: _House, able: dict[str, int]) -> GoalCondition:
    literals = list(_literals(_tree(text)))
    kinds = {literal[1]: literal[2] for literal in literals if literal[0] in ("objecttype", "receptacletype")}
    arguments = {
        name: [literal[1:] for literal in literals if literal[0] == name] for name in {lit[0] for lit in literals}
    }
    try:
        if "holds" in arguments:
            lamp, thing = arguments["istoggled"][0][0], arguments["holds"][0][1]
            return GoalCondition(
                house.objects_of(kinds[thing]), lamps=house.objects_of(kinds[lamp]) & able["toggleable"]
            )
        things = sorted({thing for thing, _ in arguments["inreceptacle"]})
        targets = {kinds[place] for _, place in arguments["inreceptacle"]}
        if len({kinds[thing] for thing in things}) != 1 or len(targets) != 1:
            raise KeyError("one kind of object and of receptacle")
        objects = house.objects_of(kinds[things[0]])
        for name in able.keys() & arguments.keys():
            objects &= able[name]
        condition = tuple(_CONDITIONS[name] for name in _CONDITIONS if name in arguments)
        return GoalCondition(objects, house.receptacles_of(targets.pop()), len(things), condition)
    except (KeyError, IndexError, ValueError):
        shown = " ".join(text.split())[:80]
        raise InputError(f"the goal is none of ALFWorld's six shapes: {shown}") from None


def _tree(text: str) -> list[object]:
    """The first parenthesised expression of `text` as nested lists."""
    stack: list[list[object]] = [[]]
    for token in _TOKEN.findall(text):
        if token == "(":
            stack.append([])
        elif token != ")":
            stack[-1].append(token)
        elif len(stack) > 1:
            branch = stack.pop()
            stack[-1].append(branch)
    return stack[0]


def _literals(tree: object) -> Iterator[list[str]]:
    """The positive facts of a goal; quantifiers' variable lists and inequalities are passed over."""
    if not isinstance(tree, list) or not tree or tree[0] == "not":
        return
    if all(isinstance(part, str) for part in tree):
        if tree[0] not in ("-",) and not str(tree[0]).startswith("?"):
            yield tree
        return
    for part in tree[2:] if tree[0] == "exists" else tree:
        yield from _literals(part)
