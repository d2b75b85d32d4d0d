"""Seeded new houses: layouts (which receptacles a room has), tasks in them, and the games these make.

Everything is a function of (level, seed, split, index): a task can be made anywhere, in any order, alone. A layout
belongs to one split side: `unseen` tasks take place in rooms whose set of receptacles no train task has. Tasks are
solvable by construction, and each game carries the walkthrough that shows it. On `tiny` levels there are so few
houses that a `seen` task can repeat a `train` task; on the others it practically cannot.
"""

import random
from collections import Counter
from dataclasses import dataclass
from functools import cache

from worldline.envs.household.catalogue import APPLIANCES, KINDS, OPENABLE, ROOMS
from worldline.envs.household.game import Game, GoalCondition, State, mask
from worldline.envs.household.wording import FAMILIES, GRAMMAR, TaskRequest, phrase
from worldline.types import derive_seed

SPLITS = ("train", "seen", "unseen")

_CONDITION = {"clean": "clean", "heat": "hot", "cool": "cool"}


@dataclass(frozen=True, slots=True)
class Level:
    """How large the houses are. An exhaustive search takes a step per receptacle and one more per closed one."""

    receptacles: tuple[int, int]
    search_steps: int
    objects: tuple[int, int]
    max_steps: int
    layouts: dict[str, int]
    """How many layouts `train` (shared with `seen`) and `unseen` have."""


LEVELS = {
    "tiny": Level((3, 3), 4, (2, 2), 12, {"train": 12, "unseen": 8}),
    "small": Level((5, 6), 9, (5, 6), 20, {"train": 32, "unseen": 16}),
    "standard": Level((8, 12), 19, (10, 14), 30, {"train": 64, "unseen": 32}),
}

TASKS = {"train": 6000, "seen": 600, "unseen": 600}


@dataclass(frozen=True, slots=True)
class Layout:
    """A room: the kinds of its receptacles, sorted, one entry per receptacle."""

    room: str
    kinds: tuple[str, ...]


@cache
def homes(layout: Layout, name: str) -> tuple[str, ...]:
    """Where a thing of kind `name` can be in a room, likeliest first; nowhere if it is a thing of other rooms."""
    kind = KINDS[name]
    return tuple(home for home in kind.homes if home in layout.kinds) if layout.room in kind.rooms else ()


@cache
def task_requests(layout: Layout, family: str) -> tuple[TaskRequest, ...]:
    """Every request of `family` that a room allows."""
    if family in APPLIANCES and APPLIANCES[family] not in layout.kinds:
        return ()
    lamps = [name for name, kind in KINDS.items() if kind.lamp and homes(layout, name)]
    requests: list[TaskRequest] = []
    for name, kind in KINDS.items():
        places = homes(layout, name)
        if kind.lamp or len(places) < 2 or (family in APPLIANCES and family not in kind.treatments):
            continue
        targets = lamps if family == "look" else [place for place in places if place != APPLIANCES.get(family)]
        requests += [TaskRequest(family, name, target) for target in targets]
    return tuple(requests)


def layouts(level: str, seed: int) -> dict[str, list[Layout]]:
    """The rooms of each split; no two are equal, so `unseen` shares none with the others."""
    size = LEVELS[level]
    rng = random.Random(derive_seed("household", level, seed, "layouts"))
    made: dict[str, list[Layout]] = {split: [] for split in size.layouts}
    drawn: set[Layout] = set()
    for split, count in size.layouts.items():
        while len(made[split]) < count:
            layout = _draw_layout(rng, rng.choice(list(ROOMS)), size)
            if layout not in drawn and task_requests(layout, FAMILIES[len(made[split]) % len(FAMILIES)]):
                drawn.add(layout)
                made[split].append(layout)
    return {"train": made["train"], "seen": made["train"], "unseen": made["unseen"]}


def _draw_layout(rng: random.Random, name: str, size: Level) -> Layout:
    room = ROOMS[name]
    always = Counter(room.always) if size.receptacles[0] > len(room.always) else Counter()
    pool = sorted((Counter(room.most) - always).elements())
    while True:
        extra = rng.randint(*size.receptacles) - always.total()
        kinds = tuple(sorted([*always.elements(), *rng.sample(pool, extra)]))
        if len(kinds) + sum(kind in OPENABLE for kind in kinds) <= size.search_steps:
            return Layout(name, kinds)


def make_game(level: str, seed: int, split: str, index: int, family: str, rooms: list[Layout]) -> Game:
    """Task `index` of `split`: a room, a request, and objects placed so that the request is not met yet."""
    rng = random.Random(derive_seed("household", level, seed, split, index))
    layout = rng.choice([room for room in rooms if task_requests(room, family)])
    request = rng.choice(task_requests(layout, family))
    objects = _furnish(rng, layout, request, LEVELS[level])
    return _game(layout, request, objects, phrase(request, rng.randrange(1 << 16)))


@dataclass(frozen=True, slots=True)
class _Placed:
    """An object: its kind, and the receptacle it is in."""

    kind: str
    receptacle: int


def _furnish(rng: random.Random, layout: Layout, request: TaskRequest, size: Level) -> list[_Placed]:
    """The requested things, never where they have to go; a lamp if one is requested; distractors of other kinds."""
    needed = 2 if request.family == "pick_two" else 1
    placed = [_place(rng, layout, request.thing, request.target) for _ in range(needed)]
    if request.family == "look":
        placed.append(_place(rng, layout, request.target, ""))
    others = [name for name in KINDS if name not in (request.thing, request.target) and homes(layout, name)]
    missing = rng.randint(*size.objects) - len(placed)
    placed += [_place(rng, layout, rng.choice(others), "") for _ in range(missing)]
    rng.shuffle(placed)
    return sorted(placed, key=lambda thing: thing.kind)


def _place(rng: random.Random, layout: Layout, name: str, avoid: str) -> _Placed:
    places = [place for place in homes(layout, name) if place != avoid]
    home = rng.choices(places, weights=[0.5**rank for rank in range(len(places))])[0]
    return _Placed(name, rng.choice([number for number, kind in enumerate(layout.kinds) if kind == home]))


def _numbered(kinds: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    counts: Counter[str] = Counter()
    names = []
    for kind in kinds:
        counts[kind] += 1
        names.append(f"{kind} {counts[kind]}")
    return tuple(names)


def _game(layout: Layout, request: TaskRequest, placed: list[_Placed], task: str) -> Game:
    kinds = [thing.kind for thing in placed]
    receptacles = range(len(layout.kinds))
    contents = [mask(o for o, thing in enumerate(placed) if thing.receptacle == r) for r in receptacles]
    middle = len(layout.kinds)  # each receptacle has a location of its own; the agent starts at one that has none
    names, objects = _numbered(layout.kinds), _numbered(kinds)
    return Game(
        task=task,
        goal=_goal(layout, request, kinds),
        grammar=GRAMMAR.with_task(task),
        receptacles=names,
        objects=objects,
        location=tuple(receptacles),
        initial=State(here=middle, contents=contents, at=[*contents, 0], taken=[0] * middle),
        accepts=tuple(mask(o for o, kind in enumerate(kinds) if home in KINDS[kind].homes) for home in layout.kinds),
        openable=mask(r for r in receptacles if layout.kinds[r] in OPENABLE),
        pickupable=mask(o for o, kind in enumerate(kinds) if not KINDS[kind].lamp),
        toggleable=mask(o for o, kind in enumerate(kinds) if KINDS[kind].lamp),
        washable=mask(o for o, kind in enumerate(kinds) if "clean" in KINDS[kind].treatments),
        heatable=mask(o for o, kind in enumerate(kinds) if "heat" in KINDS[kind].treatments),
        coolable=mask(o for o, kind in enumerate(kinds) if "cool" in KINDS[kind].treatments),
        sinks=mask(r for r in receptacles if layout.kinds[r] == APPLIANCES["clean"]),
        microwaves=mask(r for r in receptacles if layout.kinds[r] == APPLIANCES["heat"]),
        fridges=mask(r for r in receptacles if layout.kinds[r] == APPLIANCES["cool"]),
        walkthrough=_walkthrough(layout, request, placed, names, objects),
    )


def _goal(layout: Layout, request: TaskRequest, kinds: list[str]) -> GoalCondition:
    things = mask(o for o, kind in enumerate(kinds) if kind == request.thing)
    if request.family == "look":
        return GoalCondition(things, lamps=mask(o for o, kind in enumerate(kinds) if kind == request.target))
    condition = (_CONDITION[request.family],) if request.family in _CONDITION else ()
    targets = mask(r for r, kind in enumerate(layout.kinds) if kind == request.target)
    return GoalCondition(things, targets, 2 if request.family == "pick_two" else 1, condition)


def _walkthrough(
    layout: Layout, request: TaskRequest, placed: list[_Placed], names: tuple[str, ...], objects: tuple[str, ...]
) -> tuple[str, ...]:
    """The commands of somebody who knows where everything is."""
    path: list[str] = []
    opened: set[int] = set()
    here = -1

    def reach(receptacle: int, to_open: bool) -> None:
        nonlocal here
        if receptacle != here:
            path.append(f"go to {names[receptacle]}")
            here = receptacle
        if to_open and layout.kinds[receptacle] in OPENABLE and receptacle not in opened:
            path.append(f"open {names[receptacle]}")
            opened.add(receptacle)

    for number, thing in enumerate(placed):
        if thing.kind != request.thing:
            continue
        reach(thing.receptacle, to_open=True)
        path.append(f"take {objects[number]} from {names[thing.receptacle]}")
        if request.family == "look":
            lamp = next(o for o, other in enumerate(placed) if other.kind == request.target)
            reach(placed[lamp].receptacle, to_open=False)
            return (*path, f"use {objects[lamp]}")
        if request.family in APPLIANCES:
            appliance = layout.kinds.index(APPLIANCES[request.family])
            reach(appliance, to_open=False)
            path.append(f"{request.family} {objects[number]} with {names[appliance]}")
        reach(layout.kinds.index(request.target), to_open=True)
        path.append(f"move {objects[number]} to {names[here]}")
    return tuple(path)
