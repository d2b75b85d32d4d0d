"""The engine's rules and the official engine's quirks, on a miniature game written down by hand."""

import random

import pytest
from official import GRAMMAR, PROBLEM, WALKTHROUGH

from worldline.envs.household import HouseholdWorld
from worldline.envs.household.engine import GameEngine
from worldline.envs.household.game import State, mask
from worldline.envs.household.grammar import TextGrammar
from worldline.envs.household.pddl import read_game
from worldline.types import InputError


class Table:
    """A game being played, for short."""

    def __init__(self, problem: str = PROBLEM) -> None:
        self.engine = GameEngine(read_game(problem, TextGrammar.read(GRAMMAR), WALKTHROUGH))
        self.state: State = self.engine.game.initial.copy()

    def say(self, *commands: str) -> str:
        for command in commands:
            answer = self.engine.perform(self.state, self.engine.options(self.state).actions[command])
        return answer

    @property
    def allowed(self) -> tuple[str, ...]:
        return self.engine.options(self.state).commands

    @property
    def won(self) -> bool:
        return self.engine.won(self.state)


def test_names_are_counted_down_in_the_order_of_ids_and_basins_are_not_sinks() -> None:
    game = Table().engine.game
    assert game.receptacles == ("fridge 1", "microwave 1", "shelf 2", "shelf 1", "sinkbasin 1")
    assert game.objects == ("apple 1", "desklamp 1", "knife 1", "mug 2", "mug 1", "sink 1")


def test_introduction_and_look_in_the_middle() -> None:
    table = Table()
    seen = "Around you: a fridge 1, a microwave 1, a shelf 2, a shelf 1 and a sinkbasin 1."
    assert table.engine.introduction == f"Hello!\n\n{seen}\n\nYour task is to: put a hot mug in shelf."
    assert table.say("look") == "Around you: naught."  # the official engine lists what is at the agent's own location
    assert table.say("help") == "Try things.\n"
    assert table.engine.game.task == "put a hot mug in shelf."


def test_walkthrough_wins_with_the_last_command() -> None:
    table = Table()
    for command in WALKTHROUGH:
        assert not table.won
        table.say(command)
    assert table.won


def test_closed_hides_but_still_heats() -> None:
    table = Table()
    assert table.say("go to microwave 1") == "Now at microwave 1 is shut."
    assert "take mug 2 from microwave 1" not in table.allowed
    assert table.say("open microwave 1") == "Opened. microwave 1 (open): a mug 2."
    table.say("take mug 2 from microwave 1")
    assert table.say("close microwave 1") == "Closed microwave 1."
    assert "put mug 2 in/on microwave 1" not in table.allowed
    assert table.say("heat mug 2 with microwave 1") == "Heated mug 2 in microwave 1."
    assert table.say("examine mug 2") == "Hot mug 2."


def test_places_that_share_a_location() -> None:
    table = Table()
    table.say("go to shelf 1")
    assert not {"go to shelf 1", "go to shelf 2"} & set(table.allowed)
    assert {"examine shelf 1", "examine shelf 2", "take mug 1 from shelf 2"} <= set(table.allowed)
    assert table.say("look") == "Before shelf 2 and shelf 1, beside it naught."


def test_beside_lists_an_object_once_per_receptacle_it_was_taken_from() -> None:
    table = Table()
    table.say("go to shelf 1", "take mug 1 from shelf 2")
    assert table.say("look").endswith("beside it naught.")
    table.say("put mug 1 in/on shelf 1")
    assert table.say("look").endswith("beside it mug 1.")
    table.say("take mug 1 from shelf 1", "go to microwave 1", "open microwave 1", "put mug 1 in/on microwave 1")
    table.say("go to shelf 1")
    assert table.say("look").endswith("beside it naught.")
    table.say("go to microwave 1", "take mug 1 from microwave 1", "go to shelf 1", "put mug 1 in/on shelf 2")
    assert table.say("look").endswith("beside it mug 1.")


def test_only_the_held_object_can_be_examined() -> None:
    table = Table()
    table.say("go to fridge 1")
    assert "examine apple 1" not in table.allowed
    table.say("take apple 1 from fridge 1")
    assert table.say("examine apple 1") == "Cold apple 1."
    assert table.say("inventory") == "Holding apple 1."
    assert not any(command.startswith("take") for command in table.allowed)


def test_heat_and_cool_undo_each_other() -> None:
    table = Table()
    table.say("go to fridge 1", "take apple 1 from fridge 1", "go to microwave 1", "heat apple 1 with microwave 1")
    assert table.say("examine apple 1") == "Hot apple 1."
    table.say("go to fridge 1", "cool apple 1 with fridge 1")
    assert table.say("examine apple 1") == "Cold apple 1."


def test_a_lamp_only_turns_on() -> None:
    table = Table()
    table.say("go to shelf 2")
    assert [table.say("use desklamp 1") for _ in range(3)] == ["desklamp 1 on."] * 3


def test_slicing_needs_a_knife_and_reaches_into_closed_places() -> None:
    table = Table()
    table.say("go to fridge 1", "close fridge 1")
    assert not any(command.startswith("slice") for command in table.allowed)
    table.say("go to shelf 1", "take knife 1 from shelf 2", "go to fridge 1")
    assert table.say("slice apple 1 with knife 1") == "Sliced apple 1 with knife 1."
    assert table.state.sliced == mask([0])


def test_a_vessel_shows_what_is_inside_it() -> None:
    table = Table()
    table.say("go to shelf 1", "take mug 1 from shelf 2")
    assert table.say("examine mug 1") == "mug 1 holds knife 1."
    assert "heat mug 1 with microwave 1" not in (table.say("go to microwave 1"), *table.allowed)


def test_an_object_in_two_receptacles_leaves_one_at_a_time() -> None:
    problem = PROBLEM.replace(
        "(inReceptacle Mug_bar_2 Shelf_bar_1)",
        "(inReceptacle Mug_bar_2 Shelf_bar_1) (inReceptacle Mug_bar_2 Shelf_bar_2)",
    )
    table = Table(problem)
    table.say("go to shelf 1", "take mug 1 from shelf 2")
    assert table.say("examine shelf 1") == "shelf 1: a desklamp 1 and a mug 1."


def goal(text: str) -> str:
    return PROBLEM[: PROBLEM.index("(:goal")] + f"(:goal {text}))"


def test_look_goal_needs_object_in_hand_beside_the_lit_lamp() -> None:
    lit = "(objectType ?ot DeskLampType) (toggleable ?ot) (isToggled ?ot)"
    near = "(receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)"
    lamp = f"(exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and {lit} {near}))"
    held = "(exists (?o - object ?a - agent) (and (objectType ?o KnifeType) (holds ?a ?o)))"
    table = Table(goal(f"(and {lamp} {held})"))
    table.say("go to shelf 1", "use desklamp 1")
    assert not table.won
    table.say("take knife 1 from shelf 2")
    assert table.won
    table.say("go to fridge 1")
    assert not table.won


def test_two_objects_must_be_in_the_same_receptacle() -> None:
    one = "(objectType ?o1 MugType) (receptacleType ?r ShelfType) (inReceptacle ?o1 ?r)"
    other = f"(exists (?o2 - object) (and (not (= ?o1 ?o2)) {one.replace('?o1', '?o2')}))"
    table = Table(goal(f"(and (exists (?r - receptacle) (exists (?o1 - object) (and {one} {other}))))"))
    assert not table.won
    table.say("go to microwave 1", "open microwave 1", "take mug 2 from microwave 1", "go to shelf 1")
    table.say("put mug 2 in/on shelf 1")
    assert not table.won
    table.say("take mug 2 from shelf 1", "put mug 2 in/on shelf 2")
    assert table.won


@pytest.mark.parametrize(
    ("problem", "complaint"),
    [
        ("(define (problem x))", "no \\(:init"),
        ("(:init ) (:goal (and))", "no receptacles"),
        (goal("(and (forall (?o - object) (isClean ?o)))"), "six shapes"),
        (goal("(and (inReceptacle ?o ?r) (objectType ?o MugType))"), "six shapes"),
        (PROBLEM.replace("(openable Fridge_bar_1)", "(receptacleAtLocation Fridge_bar_1 loc_bar_1)"), "two locations"),
    ],
)
def test_problems_that_cannot_be_played_are_refused(problem: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Table(problem)


def test_nothing_is_lost_or_doubled_in_play() -> None:
    world = HouseholdWorld()
    rng = random.Random(0)
    for index in range(25):
        engine = world.engine(world.get_task("train", index))
        state = engine.game.initial.copy()
        everything, before = mask(range(len(engine.game.objects))), state.key()
        for _ in range(60):
            options = engine.options(state)
            engine.perform(state, options.actions[rng.choice(options.commands)])
            held = 1 << state.held if state.held >= 0 else 0
            assert sum(bits.bit_count() for bits in (*state.contents, held)) == len(engine.game.objects)
            assert sum((*state.contents, held)) == everything
            assert state.at == [*state.contents, 0]
        assert engine.game.initial.key() == before != state.key()
