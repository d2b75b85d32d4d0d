"""What is indexed of a large log: within the bound, even over tasks and loggers, blind to how episodes went."""

from collections import Counter

import numpy as np
import pytest
from numbered_episodes import grid, numbered

from worldline.adwm.fitting.log_source import MemoryLog
from worldline.adwm.fitting.sample import SHORTEST, DrawnLog, sampled_numbers
from worldline.adwm.fitting.survey import survey


def test_a_log_below_the_bound_is_taken_whole() -> None:
    log = grid(tasks=4, policies=(3, 1), length=6)
    drawn = DrawnLog.of(MemoryLog(log), 16 * 6, seed=0)
    assert drawn.sample is None
    assert drawn.episodes() == log
    assert DrawnLog.of(MemoryLog(log), 16 * 6 - 1, seed=0).sample is not None


def test_cells_are_filled_in_turn() -> None:
    """Ten tasks; loggers with five, two and one episode of each. 45 fit: one of each, then 15 of 20 second ones."""
    log = grid(tasks=10, policies=(5, 2, 1), length=8)
    drawn = DrawnLog.of(MemoryLog(log), 45 * 8 + 7, seed=1)
    cells = Counter((episode.policy, episode.task_id) for episode in drawn.episodes())
    assert len(cells) == 30
    assert Counter(cells.values()) == {1: 15, 2: 15}
    assert all(times == 1 for (policy, _), times in cells.items() if policy == "p2")
    sample = drawn.sample
    assert sample is not None
    assert (sample.steps, sample.sampled_steps, sample.sampled_episodes) == (640, 360, 45)
    assert sample.facts.episodes == 80
    assert "360 of the log's 640 steps (45 of 80 episodes" in sample.note


def test_every_episode_of_a_cell_is_as_likely() -> None:
    """Twelve episodes of one cell, four are taken: each in a third of the draws; the length says nothing within it."""
    surveyed = survey(MemoryLog([numbered(n, 6) for n in range(12)]))
    taken = Counter(n for seed in range(600) for n in sampled_numbers(surveyed, 9 * 6, seed).tolist())
    assert all(abs(taken[n] / 600 - 9 / 12) < 0.08 for n in range(12)), taken
    assert sampled_numbers(surveyed, 54, 5).tolist() == sampled_numbers(surveyed, 54, 5).tolist()


@pytest.mark.parametrize("length", [1, SHORTEST, 40])
def test_the_bound_holds_whatever_the_episodes_are_like(length: int) -> None:
    surveyed = survey(MemoryLog([numbered(n, length, task=f"t{n % 7}") for n in range(60)]))
    numbers = sampled_numbers(surveyed, 400, 0)
    assert len(numbers) == min(60, 400 // max(length, SHORTEST))
    assert np.all(np.diff(numbers) > 0)
    assert len(sampled_numbers(surveyed, 1, 0)) == min(60, 8), "a world model needs eight"
