"""The key and the door: one observation holds the clue, which decides at the end."""

import random

import pytest

from worldline.envs.small.keydoor import BACK, COLOURS, LOOK, ON, OPEN, ROOMS, KeydoorGame, walk_of
from worldline.types import Exchange, Turn

KEYS = {1: "copper", 3: "silver", 5: "ivory"}


def game_of(colour: str) -> KeydoorGame:
    return KeydoorGame(colour, KEYS, random.Random(0))


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("taken", COLOURS)
def test_only_the_key_of_the_note_opens(colour: str, taken: str) -> None:
    game = game_of(colour)
    texts = [game.introduction()]
    for room in range(1, ROOMS):
        texts.append(game.act(ON).observation)
        if KEYS.get(room) == taken:
            texts.append(game.act(f"take the {taken} key").observation)
    end = game.act(OPEN)
    assert end.over and end.won == (colour == taken) == (end.reward == 1.0)
    assert "is true" in texts[0] and not any("is true" in text for text in texts[1:])


def test_what_follows_the_note_does_not_depend_on_it() -> None:
    """Until the door answers, three episodes with three notes read the same."""
    games = [game_of(colour) for colour in COLOURS]
    for action in (ON, "take the copper key", LOOK, ON, BACK, ON, ON, ON, ON, ON):
        outcomes = {game.act(action) for game in games}
        assert len(outcomes) == 1
        assert outcomes.pop().reward == -0.01


def test_one_key_is_carried_at_a_time() -> None:
    game = game_of("copper")
    for action in (ON, "take the copper key", ON, ON):
        game.act(action)
    swapped = game.act("take the silver key").observation
    assert swapped == "You take the silver key. This is room 3 of 6. On a hook hangs the copper key."


def test_without_a_key_the_door_stays_shut() -> None:
    game = game_of("ivory")
    for _ in range(ROOMS - 1):
        game.act(ON)
    assert not game.act(OPEN).over
    assert not game.act(ON).valid


def test_a_walker_remembers() -> None:
    history = (
        Exchange("A note is pinned to the wall: only the ivory key is true. This is room 0 of 6.", ON),
        Exchange("This is room 1 of 6. On a hook hangs the copper key.", "take the copper key"),
    )
    walk = walk_of(Turn("generic", "", "You take the copper key. This is room 1 of 6.", None, history))
    assert (walk.room, walk.note, walk.carried, walk.here) == (1, "ivory", "copper", "")
