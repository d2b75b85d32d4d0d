import numpy as np
import pytest
from written_logs import THINGS, shelf, shelves, state_after

from worldline.kernel.answers import StepRequest
from worldline.kernel.lists import BUCKETS, Fillings, ListModel
from worldline.kernel.model import KernelModel
from worldline.kernel.phrases import Phrasing

PHRASING = Phrasing(frozenset({"take", "put", "in", "rest"}))


def test_lists_that_follow_a_rule_are_exact_in_episodes_it_has_not_seen(shelf_model: KernelModel) -> None:
    """The answer, and the whole list after it, at every step of ten new episodes."""
    for logged in shelves(10, seed=9):
        for at in range(len(logged) - 1):
            state = state_after(shelf_model, logged, at)
            (answer,) = shelf_model.answer([StepRequest(state, logged.steps[at].action, 0.5, 0.5, at)])
            assert answer.text == logged.next_observations[at]
            assert answer.listed == logged.steps[at + 1].admissible


def test_lists_stay_right_when_an_episode_is_imagined_to_the_end(shelf_model: KernelModel) -> None:
    """Each list goes on from an imagined one; the rule says what it must be."""
    for number, logged in enumerate(shelves(4, seed=21)):
        state = state_after(shelf_model, logged, 0)
        things = [a.removeprefix("take ") for a in logged.steps[0].admissible or () if a.startswith("take ")]
        held: frozenset[str] = frozenset()
        for at in range(7):
            assert state.listed == shelf(held, things)
            action = state.listed[(at * 5 + number) % len(state.listed)]
            thing = action.partition(" ")[2]
            held = held ^ {thing} if thing else held
            (answer,) = shelf_model.answer([StepRequest(state, action, 0.5, 0.5, at)])
            state.advance(answer.description, answer.text, 0.0, answer.listed)
        assert set(things) <= set(THINGS)


def test_names_in_view_and_what_can_be_made_of_them() -> None:
    fillings = Fillings(PHRASING, ["take red cup 1", "put fork in box", "put red cup 2 in box", "rest"])
    assert fillings.in_view("A red cup 1, a fork; a crimson cup 2.") == ["red cup 1", "fork"]
    assert fillings.in_view("A red cup 9.") == ["red cup 9"], "numbers aside, it is called so"
    assert list(fillings.filled(["red cup 7", "box"])) == ["put red cup 7 in box", "take red cup 7"]
    assert list(fillings.filled(["cup", "box"])) == [], "neither is what a cup is called there"


def test_log_odds_are_learned_from_what_was_listed() -> None:
    """Items of bucket 1 are listed, those of bucket 2 are not, those of bucket 3 in three cases of four."""
    ids = np.array([[1], [2], *[[3]] * 4] * 60)
    there = np.array([True, False, True, True, True, False] * 60)
    model = ListModel()
    model.fit([(ids, there)])
    odds = model.log_odds(np.array([[1], [2], [3], [BUCKETS - 1]]))
    assert odds[0] > 2
    assert odds[1] < -2
    assert odds[2] == pytest.approx(np.log(3), abs=0.02), "at its optimum"
    assert odds[3] == 0, "of what was never seen nothing is said"
