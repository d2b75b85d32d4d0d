"""Experts with faults: do they act as their faults say, with the probabilities they report?"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from worldline import envs
from worldline.policies import PolicySource
from worldline.policies.faulty_expert import Faults, FaultyExpert
from worldline.rollout import Rollout, plan
from worldline.types import Turn, World, turns

FAULTS = Faults(chance=0.3, again=0.2, haste=0.25, hasty="click[buy", fumble=0.4)


@pytest.fixture(scope="module")
def shop() -> World:
    return envs.load("shop")


@pytest.fixture(scope="module")
def moments(shop: World) -> list[Turn]:
    """Turns of a few episodes, with what was admissible at each."""
    played = Rollout(shop, FaultyExpert(shop, FAULTS)).play(plan(shop, "test", 4, seed=0, run="x"))
    return [turn for episode in played for turn in turns(episode)]


def test_probabilities_sum_to_one(shop: World, moments: list[Turn]) -> None:
    policy = FaultyExpert(shop, FAULTS)
    for turn in moments:
        everything = list(
            dict.fromkeys([*(turn.admissible or ()), shop.expert(turn), *(e.action for e in turn.history)])
        )
        assert np.exp(policy.logprobs([turn], [everything])[0]).sum() == pytest.approx(1.0)


def test_it_acts_as_often_as_it_says(shop: World, moments: list[Turn]) -> None:
    policy, turn = FaultyExpert(shop, FAULTS), next(t for t in moments if len(t.history) >= 2)
    drawn = policy.act([replace(turn, seed=seed) for seed in range(600)])
    counts = Counter(decision.action for decision in drawn)
    for action, count in counts.items():
        probability = np.exp(policy.logprobs([turn], [[action]])[0][0])
        assert count / 600 == pytest.approx(probability, abs=0.08)
    assert drawn[0].logprob == pytest.approx(policy.logprobs([turn], [[drawn[0].action]])[0][0])


def test_each_fault_in_its_pure_form(shop: World, moments: list[Turn]) -> None:
    later = [turn for turn in moments if turn.history]
    buying = [turn for turn in moments if "click[buy now]" in (turn.admissible or ())]
    assert buying
    assert [d.action for d in FaultyExpert(shop, Faults()).act(later)] == [shop.expert(turn) for turn in later]
    again = FaultyExpert(shop, Faults(again=1.0)).act(later)
    assert [d.action for d in again] == [turn.history[-1].action for turn in later]
    hasty = FaultyExpert(shop, Faults(haste=1.0, hasty="click[buy now]")).act(buying)
    assert {d.action for d in hasty} == {"click[buy now]"}
    fumbled = FaultyExpert(shop, Faults(fumble=1.0)).act(later)
    for turn, decision in zip(later, fumbled, strict=True):
        own = shop.expert(turn)
        others = [a for a in turn.admissible or () if a != own and a.split("[")[0] == own.split("[")[0]]
        assert decision.action in (others or [own])


def test_faults_are_the_source_of_a_policy(shop: World, moments: list[Turn]) -> None:
    assert isinstance(FAULTS, PolicySource)
    assert FAULTS.load(shop).act(moments) == FaultyExpert(shop, FAULTS).act(moments)
    assert FAULTS.identity != replace(FAULTS, memory=2).identity
