import random

import numpy as np
import pytest
from written_logs import THINGS, Played, episode, shelf, shelves, state_after

from worldline.kernel import gate, outcome, wordings
from worldline.kernel.answers import StepRequest
from worldline.kernel.fitting import fit_once
from worldline.kernel.list_items import BUCKETS
from worldline.kernel.lists import ListModel, _distinct_rows
from worldline.kernel.model import KernelModel
from worldline.types import Trajectory

ROOMS = ("attic", "barn", "cellar", "den", "foyer", "garage", "hall", "library", "kitchen", "loft")


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


def test_an_episode_may_have_more_steps_than_its_log() -> None:
    (logged,) = shelves(1, seed=3)
    model = KernelModel([logged])
    state = state_after(model, logged, 0)
    for at in range(2 * len(logged)):
        assert state.listed
        (answer,) = model.answer([StepRequest(state, state.listed[0], 0.5, 0.5, at)])
        state.advance(answer.description, answer.text, 0.0, answer.listed)
    assert state.step == 2 * len(logged)


def test_lists_are_right_of_places_that_nobody_has_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in a new house nobody knows; given what is seen there, what can be done follows from the rule."""
    for module in (gate, outcome, wordings):
        monkeypatch.setattr(module, "_STEPS", 50)
    log = [errand(f"e{house}", house, f"p{house % 3}", seed=house) for house in range(36)]
    model = fit_once(log, steps=500)[0]
    exact = []
    for house in range(100, 104):
        new = errand("new", house, "p", seed=house)
        for at in range(len(new) - 1):
            request = StepRequest(state_after(model, new, at), new.steps[at].action, 0.5, 0.5, at)
            (considered,) = model.consider_requests([request])
            (chances,) = model.request_chances([request], [considered])
            answer = model.followed(request, considered, chances, new.next_observations[at], "logged")
            exact.append(answer.listed == new.steps[at + 1].admissible)
    assert np.mean(exact) > 0.9


def errand(name: str, house: int, policy: str, seed: int) -> Trajectory:
    """Of somebody in a house of its own: one thing can be carried, and taken or put down where it is."""
    there, rng = random.Random(house), random.Random(seed + 1000)
    rooms = [f"{kind} {there.randrange(1, 9)}" for kind in there.sample(ROOMS, 5)]
    some = {room: there.sample(THINGS, there.randrange(3)) for room in rooms}
    inside = {room: {f"{thing} {there.randrange(9)}" for thing in things} for room, things in some.items()}
    at, held = rooms[0], ""

    def listed() -> tuple[str, ...]:
        moves = [f"go to {room}" for room in rooms if room != at]
        things = [f"put {held} in {at}"] if held else [f"take {thing} from {at}" for thing in inside[at]]
        return tuple(sorted([*moves, *things]))

    start, first, steps = f"You wake up in {at}.", listed(), list[Played]()
    for _ in range(12):
        deeds = [action for action in listed() if not action.startswith("go")]
        action = rng.choice(deeds) if deeds and rng.random() < 0.4 else rng.choice(listed())
        verb, thing = action.split()[0], " ".join(action.split()[1:3])
        if verb == "go":
            at = action.removeprefix("go to ")
            seen = f"You see {', '.join(sorted(inside[at]))}." if inside[at] else "You see nothing."
            answer = f"You are in {at}. {seen}"
        else:
            held = thing if verb == "take" else ""
            (inside[at].remove if held else inside[at].add)(thing)
            answer = f"You {verb} {thing}."
        steps.append(Played(action, answer, listed=listed()))
    return episode(name, start, steps, task=f"house {house}", listed=first, policy=policy, ended=False)


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


def test_distinct_rows_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (400, 4)) * np.array([1, 255, 256, BUCKETS])
    ids, of = _distinct_rows(rows)
    assert (ids == np.unique(rows, axis=0)).all()
    assert (ids[of] == rows).all()
