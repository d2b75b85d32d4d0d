"""A path is where one stands: in a tree, the actions that are left name the chamber, and nothing else does."""

import functools
import itertools
import random
import re

from hypothesis import given
from hypothesis import strategies as st
from written_logs import Played, episode, left_of

from worldline.kernel.paths import FEWEST, START, Moves, Path, opening
from worldline.types import Trajectory

WAYS = {"climb": "descend", "descend": "climb", "left": "right", "right": "left"}
TREE = {
    (): ("climb", "left"),
    ("climb",): ("descend", "left"),
    ("left",): ("right", "climb"),
    ("climb", "left"): ("right",),
    ("left", "climb"): ("descend",),
}
"""The ways out of each chamber, which is named by the way that leads to it from the first."""


Chamber = tuple[str, ...]


@given(st.text("ab.!? \n", max_size=20))
def test_an_opening_is_all_before_the_first_sentence_mark_and_space(text: str) -> None:
    assert opening(text) == re.split(r"(?<=[.!?])\s+", text.strip(), maxsplit=1)[0]


def view(chamber: Chamber) -> str:
    return f"Ways: {', '.join(TREE[chamber])}."


def walks(episodes: int, length: int = 12, seed: int = 0) -> tuple[list[Trajectory], list[list[Chamber]]]:
    """Random walks, every third step a look around; and the chamber before each step."""
    rng = random.Random(seed)
    logged, stood = [], []
    for number in range(episodes):
        chamber: Chamber = ()
        steps, chambers = [], []
        for _ in range(length):
            chambers.append(chamber)
            if rng.random() < 1 / 3:
                steps.append(Played("look", f"Dust everywhere. {view(chamber)}"))
                continue
            way = rng.choice(TREE[chamber])
            chamber = chamber[:-1] if chamber and chamber[-1] == WAYS[way] else (*chamber, way)
            steps.append(Played(way, view(chamber)))
        logged.append(episode(f"w{number}", view(()), steps, ended=False))
        stood.append(chambers)
    return logged, stood


def test_opposite_ways_undo_each_other_and_a_look_changes_nothing() -> None:
    moves = Moves.of(walks(60)[0])
    assert moves.undone == frozenset(WAYS.items())
    assert moves.idle == {("look", "Dust everywhere.")}


def test_the_path_is_the_chamber() -> None:
    """Chambers look alike from inside; every step of every walk has the path of the chamber it is in."""
    logged, stood = walks(60)
    moves = Moves.of(logged)
    for one, chambers in zip(logged, stood, strict=True):
        path = START
        for step, answer, chamber in zip(one.steps, one.next_observations, chambers, strict=True):
            assert left_of(path) == chamber
            path = moves.after(path, step.action, answer)


def test_a_world_that_slips_has_no_pairs_that_cancel() -> None:
    """One step in five stays where it was: what follows is no longer sure."""
    rng = random.Random(1)
    logged = []
    for number in range(60):
        at, steps = 5, []
        for _ in range(10):
            way = rng.choice(("up", "down"))
            at += 0 if rng.random() < 0.2 else 1 if way == "up" else -1
            steps.append(Played(way, f"Floor {at}."))
        logged.append(episode(f"s{number}", "Floor 5.", steps, ended=False))
    assert Moves.of(logged).undone == frozenset()


def test_few_cases_say_nothing() -> None:
    steps = [Played("climb", "A roof."), Played("descend", "A yard."), Played("climb", "A roof.")]
    logged = [episode(f"f{number}", "A yard.", steps, ended=False) for number in range(FEWEST - 1)]
    assert Moves.of(logged) == Moves()


def test_a_sentence_that_is_always_there_is_no_place() -> None:
    """The last sentence never changes, the first one tells the room: walking on is not idle."""
    steps = [Played("walk", f"Room {at}. It is dark.") for at in range(1, 6)]
    logged = [episode(f"r{number}", "Room 0. It is dark.", steps, ended=False) for number in range(30)]
    assert Moves.of(logged).idle == frozenset()


def test_codes_tell_paths_apart_and_the_same_actions_in_another_order_do_not() -> None:
    """Every sequence of up to five of three actions: one code for each, one for each multiset."""
    sequences = [actions for n in range(6) for actions in itertools.product("abc", repeat=n)]
    paths = [functools.reduce(Path.then, actions, START) for actions in sequences]
    assert len({path.ordered for path in paths}) == len(sequences)
    assert len({path.unordered for path in paths}) == len({tuple(sorted(actions)) for actions in sequences})
    by_deeds = {path.unordered: tuple(sorted(actions)) for path, actions in zip(paths, sequences, strict=True)}
    assert all(by_deeds[p.unordered] == tuple(sorted(a)) for p, a in zip(paths, sequences, strict=True))


def test_an_undone_action_leaves_the_path_before_it() -> None:
    moves = Moves(undone=frozenset({("left", "right")}))
    there = moves.going(START, "climb")
    assert moves.going(moves.going(there, "left"), "right") is there
    assert moves.going(START, "right").ordered != START.ordered, "nothing was done that it could undo"
