"""The vault: answers against a count by hand, and what deduction is worth."""

from itertools import product

import pytest

from worldline.envs.small.script import Script
from worldline.envs.small.vault import CODES, TRIES, Feedback, VaultGame, VaultWorld, compare, consistent, sentence
from worldline.rollout import Rollout, plan


def counted(code: tuple[int, ...], attempt: tuple[int, ...]) -> Feedback:
    """Cross out what is in place, then pair the rest one by one."""
    left = [(a, b) for a, b in zip(code, attempt, strict=True) if a != b]
    unpaired, elsewhere = [a for a, _ in left], 0
    for _, digit in left:
        if digit in unpaired:
            unpaired.remove(digit)
            elsewhere += 1
    return Feedback(len(code) - len(left), elsewhere)


def test_answers() -> None:
    for code, attempt in product(CODES, CODES):
        assert compare(code, attempt) == counted(code, attempt)


def test_words_and_ends() -> None:
    game = VaultGame((1, 2, 3))
    assert game.act(sentence((3, 2, 4))).observation == "1 in place, 1 elsewhere."
    assert not game.act("open!").valid
    won = game.act("dials at 1, 2 and 3")
    assert won.won and won.reward == pytest.approx(0.8)
    game = VaultGame((1, 2, 3))
    ends = [game.act(sentence((4, 4, 4))).over for _ in range(TRIES)]
    assert ends == [False] * (TRIES - 1) + [True]


def test_what_is_left_is_what_would_have_been_answered_so() -> None:
    answers = (((1, 1, 2), Feedback(1, 0)), ((3, 3, 2), Feedback(1, 1)))
    left = [c for c in CODES if all(counted(c, code) == answer for code, answer in answers)]
    assert set(consistent(answers)) == set(left)


def test_deduction_opens_every_vault() -> None:
    world = VaultWorld()
    for rule in ("splits most", "consistent"):
        episodes = Rollout(world, Script(rule).load(world)).play(plan(world, "test", 150, seed=0, run="t"))
        assert all(episode.success for episode in episodes)
