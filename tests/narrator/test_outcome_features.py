"""What goals take, by a log of those who reached them; against the world itself."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tiny_house import play

from worldline.adwm.fit import Fitted
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.narrator.history import History
from worldline.narrator.log_model import LogModel
from worldline.types import Trajectory, World


@pytest.fixture(scope="module")
def able(house: World) -> list[Trajectory]:
    """The expert's own episodes: nobody here forgets to heat."""
    return play(house, 0.0, 24)


def heating(episodes: Sequence[Trajectory]) -> Trajectory:
    return next(e for e in episodes if any(step.action.startswith("heat") for step in e.steps))


def unpaid(episode: Trajectory) -> Trajectory:
    """The same, but that its last step earned nothing."""
    *steps, last = episode.steps
    made: Trajectory = episode.model_copy(
        update={"id": "unpaid", "steps": (*steps, last.model_copy(update={"reward": 0.0}))}
    )
    return made


def before_the_end(log_model: LogModel, episode: Trajectory, without: str) -> History:
    """The chronicle before the last action, but for actions that begin with `without`."""
    history = History(log_model.grammar, episode.task_id, episode.goal, episode.steps[0].observation)
    answers = [step.observation for step in episode.steps[1:]]
    for step, answer in zip(episode.steps, answers, strict=False):
        if not without or not step.action.startswith(without):
            history.advance(step.action, answer)
    return history


def test_what_every_success_had_done_is_needed(house: World, able: list[Trajectory]) -> None:
    log_model, episode = LogModel.of(able, 64), heating(able)
    last = episode.steps[-1].action
    assert log_model.prerequisites.missing(before_the_end(log_model, episode, ""), last) == frozenset()
    assert log_model.prerequisites.missing(before_the_end(log_model, episode, "heat"), last) == {"heat * with *"}
    environment = house.make()
    environment.reset(seed=0, task=episode.task_id)
    ends = [environment.step(s.action)[2] for s in episode.steps if not s.action.startswith("heat")]
    assert not any(ends), "the world agrees"


def test_attempts_that_failed_make_it_firmer(able: list[Trajectory]) -> None:
    assert LogModel.of(able, 64).prerequisites.chance == 0.5
    episode = heating(able)
    cold = tuple(step for step in episode.steps if not step.action.startswith("heat"))
    failed = episode.model_copy(
        update={"id": "cold", "steps": (*cold[:-1], cold[-1].model_copy(update={"reward": 0.0}))}
    )
    failed = failed.model_copy(update={"terminated": False, "truncated": True})
    for times in (1, 4):
        more = [failed.model_copy(update={"id": f"cold-{n}"}) for n in range(times)]
        assert LogModel.of([*able, *more], 64).prerequisites.chance == pytest.approx(1 / (times + 2))


def test_nothing_is_needed_where_episodes_also_end_without_success(able: list[Trajectory]) -> None:
    steps = able[0].steps
    given_up = able[0].model_copy(
        update={"id": "x", "steps": (*steps[:-1], steps[-1].model_copy(update={"reward": 0.0}))}
    )
    assert LogModel.of(able, 64).prerequisites.needed
    assert not LogModel.of([*able, given_up], 64).prerequisites.needed


def test_an_imagined_success_that_lacks_something_has_that_chance(
    fitted: Fitted, able: list[Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same actions from the same start, with the heating and without it; at no chance at all."""
    log_model, episode = fitted.ensemble.log_model, heating(able)
    monkeypatch.setitem(log_model.__dict__, "prerequisites", replace(LogModel.of(able, 64).prerequisites, chance=0.0))

    def won(actions: Sequence[str]) -> float:
        ends = []
        for seed in range(20):
            environment = ImaginedWorld(fitted.ensemble).make()
            environment.reset(seed=seed, task=episode.task_id)
            ended = False
            for action in actions:
                ended = ended or environment.step(action)[2]
            ends.append(ended)
        return sum(ends) / len(ends)

    whole = [step.action for step in episode.steps]
    assert won(whole) > 0.8
    assert won([action for action in whole if not action.startswith("heat")]) == 0
