"""The small MDP: exact values against playing, situations as they are described."""

import numpy as np
import pytest

from worldline.bench.small_mdp import ACTIONS, HORIZON, KINDS, PLACES, STATES, SmallMDP, equal_candidates, softmax


def test_the_exact_value_is_that_of_many_episodes() -> None:
    rng = np.random.default_rng(0)
    mdp = SmallMDP.random(rng)
    policy = softmax(rng.normal(size=(STATES, ACTIONS)))
    starts = rng.integers(0, STATES, size=40_000)
    played = mdp.play(np.repeat(policy[None], 40_000, axis=0), np.arange(40_000), starts, rng)
    assert played.success.mean() == pytest.approx(mdp.value(policy), abs=0.01)
    assert played.time.max() == HORIZON - 1
    assert (played.state // PLACES == (starts // PLACES)[played.episode]).all()


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_situation_is_as_described(kind: str) -> None:
    situation = KINDS[kind](np.random.default_rng(1), 200)
    log, played = situation.log, situation.played
    assert log.episodes == 200
    assert set(situation.truth) == set(situation.candidates)
    contexts = played.state[log.starts] // PLACES
    if kind == "disjoint tasks":
        assert not set(contexts[log.policies == 0]) & set(contexts[log.policies == 1])
    if kind == "action never logged":
        assert ACTIONS - 1 not in played.action
        assert all(policy[:, -1].min() > 0 for policy in situation.candidates.values())
    owner = np.repeat(log.policies, log.lengths)
    for code, policy in enumerate(situation.loggers.values()):
        mine = owner == code
        np.testing.assert_allclose(log.behaviour[mine], np.log(policy[played.state, played.action])[mine])


def test_equal_candidates_are_equal_and_differ() -> None:
    situation = equal_candidates(np.random.default_rng(0), 50)
    assert len(situation.truth) == 10
    assert np.ptp(list(situation.truth.values())) < 1e-12
    first, second, *_ = situation.candidates.values()
    assert np.abs(first - second).max() > 0.1
