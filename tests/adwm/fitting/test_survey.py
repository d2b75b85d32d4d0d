"""One pass over a log says what counting by hand says; logs that cannot be fitted are refused elsewhere (test_fit)."""

import numpy as np
import pytest
from numbered_episodes import grid, numbered

from worldline.adwm.fitting.log_source import MemoryLog
from worldline.adwm.fitting.survey import facts_of, survey
from worldline.types import InputError, Trajectory, derive_seed


def test_numbers_of_each_episode() -> None:
    log = [numbered(n, 1 + n % 3, task=f"t{n % 2}", policy="ba"[n % 2], success=n == 4) for n in range(9)]
    surveyed = survey(MemoryLog(log))
    assert surveyed.facts.policies == ("a", "b")
    assert surveyed.policies.tolist() == [1, 0] * 4 + [1]
    assert surveyed.tasks.tolist() == [0, 1] * 4 + [0]
    assert surveyed.lengths.tolist() == [1, 2, 3] * 3
    assert surveyed.steps == 18
    assert np.flatnonzero(surveyed.good).tolist() == [4]
    assert surveyed.notes == ()
    assert surveyed.facts == facts_of(log)


@pytest.mark.parametrize("fine", [-0.1, -1 / 3])
def test_an_episode_that_pays_the_least_at_every_step_is_not_good(fine: float) -> None:
    """Rewards are counted from the least of the log, and seven times a third is not seven thirds."""

    def fined(number: int, *, but_one: bool) -> Trajectory:
        episode = numbered(number, 7)
        rewards = [fine] * 6 + [0.0 if but_one else fine]
        steps = tuple(s.model_copy(update={"reward": r}) for s, r in zip(episode.steps, rewards, strict=True))
        return episode.model_copy(update={"steps": steps})

    good = survey(MemoryLog([fined(n, but_one=n == 3) for n in range(8)])).good
    assert np.flatnonzero(good).tolist() == [3]


def test_folds_keep_tasks_together_and_are_dealt_like_cards() -> None:
    log = grid(tasks=12, policies=(2, 1))
    folds = survey(MemoryLog(log)).folds(5, 3, np.arange(36))
    names = sorted({episode.task_id for episode in log})
    order = np.random.default_rng(derive_seed(3, "folds")).permutation(12)
    dealt = {names[task]: at % 5 for at, task in enumerate(order)}
    assert folds.tolist() == [dealt[episode.task_id] for episode in log]
    alone = survey(MemoryLog(grid(tasks=1, policies=(9,)))).folds(5, 3, np.arange(9))
    assert sorted(np.bincount(alone).tolist()) == [1, 2, 2, 2, 2], "one task: by episode"


def test_each_fold_has_its_share_of_the_indexed_episodes() -> None:
    log = grid(tasks=40, policies=(2,))
    surveyed = survey(MemoryLog(log))
    for seed in range(10):
        folds = surveyed.folds(5, seed, np.arange(10))
        assert np.bincount(folds[:10]).tolist() == [2] * 5, "ten tasks, two for each fold"
        assert np.bincount(folds).tolist() == [16] * 5
        assert np.array_equal(folds[:40], folds[40:]), "whole tasks"


def test_an_episode_that_is_there_twice_is_named() -> None:
    log = [numbered(n) for n in range(9)]
    with pytest.raises(InputError, match="episode e4 is in the log twice"):
        survey(MemoryLog([*log, log[4]]))
    assert len(survey(MemoryLog([*log, log[4]]), checked=False).lengths) == 10
