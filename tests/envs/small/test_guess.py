"""Guess the number, all twenty of them."""

import pytest

from worldline.envs.small.guess import GUESSES, HIGHEST, GuessGame, GuessWorld, bounds_of, sentence
from worldline.types import Exchange, Turn


def turn(*pairs: tuple[str, str]) -> Turn:
    """A turn after these actions with their answers."""
    texts = ["I think of a number.", *(answer for _, answer in pairs)]
    history = tuple(Exchange(text, action) for text, (action, _) in zip(texts, pairs, strict=False))
    return Turn("generic", "", texts[-1], None, history)


@pytest.mark.parametrize("secret", range(1, HIGHEST + 1))
def test_halving_always_finds_it(secret: int) -> None:
    game, pairs, rule = GuessGame(secret), list[tuple[str, str]](), GuessWorld().scripts["halves"]
    for _ in range(GUESSES):
        action = str(rule(turn(*pairs)))
        outcome = game.act(action)
        pairs.append((action, outcome.observation))
        if outcome.over:
            break
    assert (outcome.reward, outcome.won) == (1.0, True)


@pytest.mark.parametrize(("secret", "guess"), [(5, 9), (9, 5), (20, 1), (1, 20)])
def test_answers_and_the_consolation_of_the_last_guess(secret: int, guess: int) -> None:
    game = GuessGame(secret)
    for _ in range(GUESSES - 1):
        assert game.act(sentence(guess)).observation == f"No, my number is {'higher' if guess < secret else 'lower'}."
    last = game.act(sentence(guess))
    assert last.over and not last.won
    assert last.reward == pytest.approx(max(0.0, 0.5 * (1 - abs(secret - guess) / 5)))


def test_any_sentence_with_one_number_is_a_guess() -> None:
    assert GuessGame(7).act("what about 7?").won
    assert not GuessGame(7).act("6 or 7").valid


def test_what_answers_leave_over() -> None:
    pairs = (("I say 10.", "No, my number is higher."), ("I say 15.", "No, my number is lower."))
    assert (bounds_of(turn(*pairs)).low, bounds_of(turn(*pairs)).high) == (11, 14)
    assert (bounds_of(turn(*pairs), 1).low, bounds_of(turn(*pairs), 1).high) == (1, 14)
    assert (bounds_of(turn(*pairs[:1]), misheard=True).high) == 9
