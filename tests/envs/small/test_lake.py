"""The lake against Gymnasium's tables and by enumeration of its chances; its wordings against each other."""

import random
from typing import Any

import numpy as np
import pytest

from worldline import envs
from worldline.envs.small.lake import ACTIONS, SQUARES, LakeConfig, LakeGame, LakeWorld, square_of, transitions
from worldline.types import Turn


class ForcedChoice(random.Random):
    """A draw whose choices are forced."""

    at = 0

    def choice(self, seq: Any) -> Any:
        return seq[self.at]


def test_transitions_are_gymnasiums() -> None:
    gymnasium = pytest.importorskip("gymnasium", reason="needs the extra 'gymnasium'")
    official = gymnasium.make("FrozenLake-v1", map_name="4x4", is_slippery=True).unwrapped
    ours = transitions()
    for square in range(16):
        for move in range(4):
            theirs = np.zeros(16)
            for p, after, _, _ in official.P[square][move]:
                theirs[after] += p
            assert ours[square, move] == pytest.approx(theirs)


@pytest.mark.parametrize("square", [i for i, kind in enumerate(SQUARES) if kind in "SF"])
def test_a_step_has_the_chances_of_the_table(square: int) -> None:
    for move, action in enumerate(ACTIONS["walk"]):
        reached = np.zeros(16)
        for at in range(3):
            draw = ForcedChoice()
            draw.at = at
            game = LakeGame(LakeConfig(), draw)
            game.square = square
            outcome = game.act(action)
            reached[game.square] += 1 / 3
            assert outcome.reward == float(SQUARES[game.square] == "G") == float(outcome.won)
            assert outcome.over == (SQUARES[game.square] in "HG")
        assert reached == pytest.approx(transitions()[square, move])


def test_wordings_tell_the_same_world() -> None:
    options = [
        {"actions": actions, "observations": places} for actions in ("walk", "bare") for places in ("rows", "squares")
    ]
    worlds = [envs.load("lake", None, each) for each in options]
    texts = []
    for seed in range(20):
        draws, environments = random.Random(seed), [world.make() for world in worlds]
        texts.append([env.reset(seed=seed, task="test/0")[0] for env in environments])
        over = False
        while not over:
            move = draws.randrange(4)
            results = [
                env.step(ACTIONS[each["actions"]][move]) for env, each in zip(environments, options, strict=True)
            ]
            texts.append([result[0] for result in results])
            assert len({result[1:4] for result in results}) == 1
            over = results[0][2] or results[0][3]
    for row in texts:
        places = {square_of(Turn("generic", "", text, None, ())) for text in row}
        assert len(places) == 1
        assert len(set(row)) == 2, "two wordings of an observation"


def test_scripts_of_both_wordings_do_the_same() -> None:
    plain, reworded = LakeWorld(), LakeWorld(LakeConfig(actions="bare", observations="squares"))
    turns = [
        [Turn("generic", "", f"You stand on row {i // 4 + 1}, column {i % 4 + 1}.", None, ()) for i in range(16)],
        [Turn("generic", "", f"{'ABCD'[i // 4]}{i % 4 + 1}. Thick ice.", None, ()) for i in range(16)],
    ]
    for rule in plain.scripts:
        for one, other in zip(*turns, strict=True):
            ours, theirs = plain.scripts[rule](one), reworded.scripts[rule](other)
            if isinstance(ours, str):
                assert ACTIONS["walk"].index(ours) == ACTIONS["bare"].index(str(theirs))


def test_the_plan_is_the_optimum_of_sixty_steps() -> None:
    """Against the value of every steady policy that differs in one square, and Gymnasium's published bound."""
    from worldline.bench.exact_values import exact_value
    from worldline.envs.small.script import Script

    world = LakeWorld()
    values = {rule: exact_value(world, Script(rule)) or 0.0 for rule in world.scripts}
    assert max(values, key=lambda rule: values[rule]) == "optimal"
    flag, value = np.eye(16)[15], np.eye(16)[15]
    for _ in range(60):
        value = np.maximum(flag, (transitions() @ value).max(1))
    assert values["optimal"] == pytest.approx(value[0])
