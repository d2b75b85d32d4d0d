"""What each family of worlds pays for an episode."""

import pytest
from toy_pool import episode

from worldline.paw.rewards import RULES, penalised, rule
from worldline.policies import TEMPLATES
from worldline.types import WorldlineError


def test_each_family_pays_its_own_way() -> None:
    assert RULES["search"].rewards(episode("ab", True)) == [0, 1]
    assert RULES["search"].penalties(episode("ab", True, invalid=1)) == [0, -0.01]
    assert RULES["shop"].rewards(episode("ab", True, score=0.99)) == [0, 0]
    assert RULES["shop"].rewards(episode("ab", True, score=1.0)) == [0, 10]
    other = rule("somewhere else", max_return=4.0)
    assert other.rewards(episode("ab", True)) == [0.25, 0.25]
    assert other.penalties(episode("a", True, invalid=0)) == [-0.04]
    assert rule("household", 10.0, invalid=0.7).penalties(episode("ab", True, invalid=1)) == [0, -0.7]
    assert rule("household", 10.0, invalid=0.7).rewards(episode("ab", True)) == [0, 10]


def test_who_pays_the_penalty() -> None:
    """The third action is refused by the world; the response to the second has no action in it."""
    responses = ("<think>x</think><action>go</action>", "I go.", "<think>x</think><action>fly</action>")
    trajectory = episode("abc", False, invalid=2)
    steps = tuple(s.model_copy(update={"response": r}) for s, r in zip(trajectory.steps, responses, strict=True))
    trajectory = trajectory.model_copy(update={"steps": steps})
    expected = {"inadmissible": [0, 0, -0.1], "format": [0, -0.1, 0], "none": [0, 0, 0]}
    for penalty, paid in expected.items():
        pays = penalised(penalty, TEMPLATES["paper"], "household")
        assert RULES["household"].penalties(trajectory, pays) == paid


def test_a_reward_that_is_no_number_stops_the_run_by_name() -> None:
    with pytest.raises(WorldlineError, match="1-ab"):
        rule("other", 1.0).rewards(episode("ab", True, rewards=[0.0, float("nan")]))
