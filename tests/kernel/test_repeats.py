"""What changes nothing, in a house that reports what was done and shows a room to those alone who look."""

import functools
import random

from written_logs import Listed, Played, episode, left_of

from worldline.kernel.paths import FEWEST, START, Moves
from worldline.kernel.repeats import Repeats
from worldline.kernel.step_table import StepTable
from worldline.types import Trajectory

ROOMS = ("hall", "kitchen", "garden")
"""In a row."""


def visits(episodes: int, length: int = 24, listed: Listed = None) -> tuple[list[Trajectory], list[list[str]]]:
    """Somebody looks, sings, and walks to rooms that may not be next door; and the room before and after each step."""
    rng = random.Random(0)
    logged, stood = [], []
    for number in range(episodes):
        at, steps, rooms = 0, [], [ROOMS[0]]
        for _ in range(length):
            action = rng.choice(("look", "look", "look", "sing", *(f"go to {room}" for room in ROOMS)))
            answer = {"look": f"A {ROOMS[at]}. It is tidy.", "sing": "La la. La!"}.get(action, "No way.")
            aim = ROOMS.index(action.removeprefix("go to ")) if action.startswith("go") else at
            if abs(aim - at) == 1:
                at, answer = aim, f"You walk to the {ROOMS[aim]}."
            steps.append(Played(action, answer, listed=listed))
            rooms.append(ROOMS[at])
        logged.append(episode(f"v{number}", "A house.", steps, listed=listed, ended=False))
        stood.append(rooms)
    return logged, stood


def test_what_was_looked_at_before_and_after_says_what_changed_nothing() -> None:
    repeats = Repeats.of(visits(60)[0])
    looks = {("look", f"A {room}.") for room in ROOMS}
    assert repeats.idle == looks | {("sing", "La la.")} | {(f"go to {room}", "No way.") for room in ROOMS}
    assert repeats.nothing == {"No way."}, "a song and a look are one action each"


def test_a_step_between_two_looks_is_judged_as_it_was() -> None:
    logged, stood = visits(60)
    judged = [
        (same, before == after)
        for kept, rooms in zip(Repeats.of(logged).unchanged, stood, strict=True)
        for same, before, after in zip(kept, rooms, rooms[1:], strict=False)
        if same is not None
    ]
    assert len(judged) > 0.3 * 60 * 24 and all(same == true for same, true in judged)


def test_a_path_is_the_walks_alone() -> None:
    logged, stood = visits(60)
    repeats = Repeats.of(logged)
    moves = Moves.of(logged, repeats.idle, repeats.nothing)
    assert not moves.undone, "walks are reported, and no two reports are the same place"
    for one, rooms in zip(logged, stood, strict=True):
        path = functools.reduce(
            lambda path, step: moves.after(path, *step),
            zip((step.action for step in one.steps), one.next_observations, strict=True),
            START,
        )
        walked = [f"go to {after}" for before, after in zip(rooms, rooms[1:], strict=False) if before != after]
        assert left_of(path) == tuple(walked)


def test_what_was_refused_is_of_no_effect() -> None:
    language = StepTable.of(visits(60)[0]).language
    assert language.refused == {(f"go to {room}", "no way.") for room in ROOMS}
    assert not any("walk" in answer for _, answer in language.idle)


def test_lists_and_few_cases_say_nothing() -> None:
    assert Repeats.of(visits(60, listed=("look", "sing"))[0]) == Repeats()
    few = Repeats.of(visits(1, length=FEWEST - 1)[0])
    assert not few.idle and not few.nothing
