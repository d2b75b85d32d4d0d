"""Epsilon-mixing: exact probabilities, one flip per step."""

from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from worldline import policies
from worldline.policies import PolicyConfig, mix
from worldline.policies.language_model import hf
from worldline.policies.mixing import FunctionPolicy
from worldline.types import Decision, InputError, LazyActions, Policy, ScoringPolicy, Turn

Make = Callable[..., Turn]
ACTIONS = ("a", "b", "c", "d", "e")
EXPERT: Any = policies.load("expert", SimpleNamespace(expert=lambda turn: "b"))


class Mute:
    """Acts, but cannot be scored; counts how often it acted."""

    name = "mute"

    def __init__(self) -> None:
        self.acted_on = 0

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        self.acted_on += len(turns)
        return [Decision(action="b", response="b", logprob=-1.0) for _ in turns]


@pytest.fixture
def turns(make_turn: Make) -> list[Turn]:
    return [make_turn(seed=i, admissible=ACTIONS) for i in range(5000)]


def test_probabilities_are_exact(turns: list[Turn]) -> None:
    policy = mix(EXPERT, 0.3)
    expected = {action: 0.3 / 5 + 0.7 * (action == "b") for action in ACTIONS}
    decisions = policy.act(turns)
    assert isinstance(policy, ScoringPolicy)
    scores = policy.logprobs(turns[:1], [[*ACTIONS, "z"]])[0]
    assert np.exp(scores) == pytest.approx([*expected.values(), 0.0])
    assert all(np.exp(d.logprob) == pytest.approx(expected[d.action]) for d in decisions)
    counts = Counter(d.action for d in decisions)
    for action, p in expected.items():
        assert abs(counts[action] / 5000 - p) < 4 * np.sqrt(p * (1 - p) / 5000)


def test_an_inner_action_outside_the_list_keeps_its_probability(make_turn: Make) -> None:
    policy = mix(EXPERT, 0.25)
    assert np.exp(policy.logprobs([make_turn(admissible=("x", "y"))], [["b", "x"]])[0]) == pytest.approx([0.75, 0.125])


def test_mixing_a_language_model_agrees_with_its_own_scores(model: Any, tokenizer: Any, make_turn: Make) -> None:
    inner = hf.from_model(model, tokenizer, PolicyConfig(mode="choose", temperature=2))
    turns = [make_turn(seed=i, steps=i % 3) for i in range(12)]
    own = inner.logprobs(turns, [turn.admissible for turn in turns])
    decisions = mix(inner, 0.5).act(turns)
    for turn, decision, scores in zip(turns, decisions, own, strict=True):
        p = 0.5 * np.exp(scores[turn.admissible.index(decision.action)]) + 0.5 / len(turn.admissible)
        assert np.exp(decision.logprob) == pytest.approx(p, abs=1e-5)
    assert any(d.token_ids is None for d in decisions)
    assert any(d.token_ids is not None for d in decisions)


def test_an_unscorable_policy_mixes_without_probabilities(turns: list[Turn]) -> None:
    inner = Mute()
    policy = mix(inner, 0.4)
    decisions = policy.act(turns)
    assert not isinstance(policy, ScoringPolicy)
    assert all(d.logprob is None for d in decisions)
    assert abs(inner.acted_on / 5000 - 0.6) < 4 * np.sqrt(0.24 / 5000)


def test_epsilon_zero_is_the_policy_itself() -> None:
    inner = Mute()
    assert mix(inner, 0.0) is inner


def test_epsilon_one_never_asks_the_policy(turns: list[Turn]) -> None:
    inner = Mute()
    policy = mix(inner, 1.0)
    decisions = policy.act(turns)
    assert inner.acted_on == 0
    assert isinstance(policy, ScoringPolicy)
    assert {d.action for d in decisions} == set(ACTIONS)
    assert all(d.logprob == pytest.approx(-np.log(5)) for d in decisions)


def test_the_same_steps_flip_whatever_the_batch_or_policy(turns: list[Turn]) -> None:
    some = turns[:60]
    together = [d.action for d in mix(Mute(), 0.5).act(some)]
    assert [mix(EXPERT, 0.5).act([turn])[0].action for turn in some] == together


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, float("nan")])
def test_epsilon_is_a_probability(epsilon: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        mix(Mute(), epsilon)


def test_names_tell_mixtures_apart() -> None:
    assert len({mix(EXPERT, e).name for e in (0.0, 0.2, 0.4, 1.0)}) == 4


WORLD: Any = SimpleNamespace(expert=lambda turn: turn.admissible[turn.step])


def test_expert_does_what_the_world_says(make_turn: Make) -> None:
    policy = policies.load("expert", WORLD)
    turns = [make_turn(steps=i) for i in range(4)]
    assert isinstance(policy, ScoringPolicy)
    assert [d.action for d in policy.act(turns)] == [turn.admissible[i] for i, turn in enumerate(turns)]
    assert [d.logprob for d in policy.act(turns)] == [0.0] * 4
    scores = policy.logprobs(turns, [turn.admissible for turn in turns])
    assert [np.flatnonzero(log_probs == 0).tolist() for log_probs in scores] == [[0], [1], [2], [3]]
    assert all(np.isneginf(np.delete(log_probs, i)).all() for i, log_probs in enumerate(scores))


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


def test_chance_needs_admissible_actions_and_says_who_asked_for_it(make_turn: Make) -> None:
    mixed = mix(FunctionPolicy(lambda turn: "look", "mine"), 0.999)
    with pytest.raises(
        InputError, match=r"^--epsilon 0\.999 chooses among admissible actions, and the environment lists"
    ):
        mixed.act([make_turn(admissible=None)])


def test_a_plain_function_is_a_policy(make_turn: Make) -> None:
    policy = policies.load("sample_policies:look_around")
    assert isinstance(policy, Policy)
    assert not isinstance(policy, ScoringPolicy)
    assert [(d.action, d.logprob) for d in policy.act([make_turn(steps=3)])] == [("look 3", None)]


class Spoiled:
    """Acts as the expert does, with log-probs that are none; `taken` is that of its decisions."""

    name = "spoiled"

    def __init__(self, taken: float, given: float) -> None:
        self.taken, self.given = taken, given

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [Decision("b", "b", logprob=self.taken) for _ in turns]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[Any]:
        return [np.full(len(some), self.given) for some in actions]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("taken", "given", "line"),
    [
        (np.nan, -1.7, "'spoiled' returned logprob=nan for 'b': it must be at most 0, or None where it is unknown"),
        (0.5, -1.7, "'spoiled' returned logprob=0.5 for 'b': it must be at most 0"),
        (-0.1, np.nan, r"'spoiled' gave nan as the log-probability of '\w': it must be at most 0"),
        (-0.1, 0.2, r"'spoiled' gave 0.2 as the log-probability of '\w'"),
        (-0.1, 0.0, "'spoiled' gave the 5 actions of a turn probabilities that sum to 5: it must be at most 1"),
    ],
)
def test_what_is_no_log_probability_is_not_mixed(turns: list[Turn], taken: float, given: float, line: str) -> None:
    with pytest.raises(InputError, match=line):
        mix(Spoiled(taken, given), 0.3).act(turns[:20])
    with pytest.raises(InputError, match="policy 'mine:Spoiled' "):
        mix(Spoiled(taken, given), 0.3, "mine:Spoiled").act(turns[:20])


def test_rounding_is_no_wrong_log_probability(turns: list[Turn]) -> None:
    decisions = mix(Spoiled(1e-6, np.log(0.2) + 1e-3), 0.3).act(turns[:20])
    assert all(d.logprob is not None and d.logprob <= 0 for d in decisions)
