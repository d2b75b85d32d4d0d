"""Diagnostics of a log that covers the target, of one that does not, and of wild weights; the flags they raise."""

from dataclasses import replace

import numpy as np
import pytest
from four_loggers import POLICIES
from tabular_world import TabularLog

from worldline.ope.diagnostics import Diagnostics, diagnostics, distrust, lacks_actions
from worldline.ope.estimation import EstimatorInput, estimate
from worldline.ope.log import Choices, TargetLog


def test_diagnostics_tell_support_and_overlap(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    own = replace(evidence.take(np.arange(300)), target=logs[0].target(POLICIES[0]))
    measured = diagnostics(own, places=logs[0].state)
    assert measured.ess == pytest.approx(300)
    assert (measured.overlap, measured.mean_weight, measured.never) == (pytest.approx(1), pytest.approx(1), 0.0)
    assert measured.support == pytest.approx(1.0)
    foreign = Choices(np.zeros(own.log.steps), np.full(own.log.steps, 9), np.arange(own.log.steps + 1))
    away = replace(own, target=TargetLog(np.full(own.log.steps, -np.inf), foreign))
    gone = diagnostics(away, places=logs[0].state)
    assert (gone.ess, gone.never, gone.support) == (0.0, 1.0, 0.0)
    flag = distrust("lfqe", np.zeros(300), gone, own.log.returns(1.0))
    assert flag is not None
    assert "only 0% of the target's choices" in flag


def test_huge_ratios_flag_is_and_keep_wis(evidence: EstimatorInput) -> None:
    log = evidence.log
    signs = np.repeat(np.where(np.arange(log.episodes) % 2, 1.0, -1.0), log.lengths)
    wild = replace(log, behaviour=np.where(signs > 0, -500.0, 0.0) / np.repeat(log.lengths, log.lengths))
    target = TargetLog(np.where(signs > 0, 0.0, -500.0) / np.repeat(log.lengths, log.lengths))
    far = EstimatorInput(wild, 1.0, target=target)
    measured = diagnostics(far)
    assert measured.ess == pytest.approx(log.episodes / 2, rel=1e-6)
    results = estimate(far, ["is", "wis"])
    assert distrust("is", results.values["is"], measured, log.returns(1.0)) is not None
    assert np.isfinite(results.values["wis"]).all()


def test_an_interval_without_width_is_flagged(evidence: EstimatorInput) -> None:
    """Zero spread among the few that count is no certainty."""
    log = evidence.log
    best = log.returns(1.0).argmax()
    only = np.where(np.repeat(np.arange(log.episodes), log.lengths) == best, 0.0, -np.inf)
    sole = EstimatorInput(log, 1.0, target=TargetLog(only))
    results = estimate(sole, ["wis"]).values["wis"]
    flag = distrust("wis", results, diagnostics(sole), log.returns(1.0))
    assert flag is not None
    assert "have the same return" in flag
    assert "1.0 effective episodes" in flag


def test_what_is_under_its_limit_is_shown_under_it() -> None:
    """A support of .496 is under a half, and 24.97 effective episodes are under 25."""
    measured = Diagnostics(300, 50, ess=24.97, support=0.496)
    flag = distrust("lfqe", np.zeros(300), measured, np.array([0.0, 1.0] * 150))
    assert flag is not None
    assert "24.97 effective episodes of 300" in flag
    assert "only 49.6% of the target's choices are in the log" in flag


def test_flags_do_not_depend_on_the_unit_of_rewards() -> None:
    """Values that are all alike, and values beyond the logged returns, of returns of 1e-12 too."""
    measured, returns = Diagnostics(40, 40, ess=40.0), np.array([0.0, 1.0] * 20)
    for unit in (1e-12, 1.0):
        alike = distrust("wis", np.full(40, 0.5 * unit), measured, returns * unit)
        assert alike is not None and "have the same return" in alike
        beyond = distrust("is", np.linspace(1.5, 1.6, 40) * unit, measured, returns * unit)
        assert beyond is not None and "outside the logged returns" in beyond


@pytest.mark.parametrize(
    ("tasks", "words"), [(1, "one task only"), (2, "2 tasks only"), (3, "3 tasks only"), (4, None)]
)
def test_few_tasks_are_flagged(tasks: int, words: str | None) -> None:
    measured = Diagnostics(300, tasks, ess=300.0, mean_weight=1.0, mean_weight_error=0.1)
    flag = distrust("wis", np.array([0.4, 0.6]), measured, np.array([0.0, 1.0] * 150))
    assert (flag is None) if words is None else words in (flag or "")


def test_sound_weights_are_as_rarely_far_from_1_as_a_normal(logs: list[TabularLog]) -> None:
    """Two tasks, 60 episodes: the mean step weight was 3 standard errors of tasks from 1 in every sixth log."""
    world, far = logs[0].world, 0
    for seed in range(200):
        played = world.play(POLICIES[1], 60, seed, drawn_tasks=2)
        near = played.target(world.mixed(POLICIES[1], 0.2))
        far += lacks_actions(diagnostics(EstimatorInput(played.ragged, 1.0, target=near)))
    assert far <= 3
