"""Expert, random and function policies."""

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from worldline import policies
from worldline.types import InputError, LazyActions, Policy, ScoringPolicy, Turn

Make = Callable[..., Turn]
WORLD: Any = SimpleNamespace(expert=lambda turn: turn.admissible[turn.step])


def test_expert_does_what_the_world_says(make_turn: Make) -> None:
    policy = policies.load("expert", WORLD)
    turns = [make_turn(steps=i) for i in range(4)]
    assert isinstance(policy, ScoringPolicy)
    assert [d.action for d in policy.act(turns)] == [turn.admissible[i] for i, turn in enumerate(turns)]
    assert [d.logprob for d in policy.act(turns)] == [0.0] * 4
    scores = policy.logprobs(turns, [turn.admissible for turn in turns])
    assert [np.flatnonzero(found == 0).tolist() for found in scores] == [[0], [1], [2], [3]]
    assert all(np.isneginf(np.delete(found, i)).all() for i, found in enumerate(scores))


def test_expert_needs_a_world() -> None:
    with pytest.raises(InputError, match="only in an environment"):
        policies.load("expert")


def test_random_is_uniform_and_reproducible(make_turn: Make) -> None:
    policy = policies.load("random")
    actions = ("a", "b", "c", "d")
    turns = [make_turn(seed=i, admissible=actions) for i in range(4000)]
    decisions = policy.act(turns)
    counts = Counter(d.action for d in decisions)
    assert set(counts) == set(actions)
    assert max(abs(n - 1000) for n in counts.values()) < 4 * np.sqrt(4000 * 0.25 * 0.75)
    assert all(d.logprob == pytest.approx(-np.log(4)) for d in decisions)
    assert [d.action for d in policy.act(turns[::-1])] == [d.action for d in decisions[::-1]]


def test_random_scores(make_turn: Make) -> None:
    policy = policies.load("random")
    scores = policy.logprobs([make_turn(admissible=LazyActions(lambda: ["a", "b"]))], [["a", "z", "b"]])[0]
    assert scores == pytest.approx([-np.log(2), -np.inf, -np.log(2)])


@pytest.mark.parametrize("admissible", [None, ()])
def test_random_needs_admissible_actions(make_turn: Make, admissible: Any) -> None:
    with pytest.raises(InputError, match="lists none"):
        policies.load("random").act([make_turn(admissible=admissible)])


def test_a_plain_function_is_a_policy(make_turn: Make) -> None:
    policy = policies.load("sample_policies:look_around")
    assert isinstance(policy, Policy)
    assert not isinstance(policy, ScoringPolicy)
    assert [(d.action, d.logprob) for d in policy.act([make_turn(steps=3)])] == [("look 3", None)]
