"""pass@k against all subsets, the plan of an evaluation, and the cross-entropy of observations against transformers."""

from itertools import combinations

import pytest
import torch
from accelerate import Accelerator
from tiny import random_experience, tiny_lm
from toy_pool import episode

from counting import CountingWorld
from worldline.paw.evaluation import (
    EvaluationConfig,
    evaluation_plan,
    observation_cross_entropy,
    outcomes,
    pass_at_k,
)
from worldline.paw.model import LearnerConfig, wrap
from worldline.paw.rewards import RULES


@pytest.mark.parametrize("n", [1, 2, 5])
def test_pass_at_k_is_the_share_of_subsets_with_a_success(n: int) -> None:
    for won in range(n + 1):
        results = [True] * won + [False] * (n - won)
        for k in range(1, n + 1):
            subsets = list(combinations(results, k))
            assert pass_at_k(n, won, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_repeats_play_each_task_in_a_row_and_one_repeat_is_the_old_plan() -> None:
    world = CountingWorld()
    (once, twice) = (
        evaluation_plan(world, "test", EvaluationConfig(episodes=6, repeats=repeats), seed=3) for repeats in (1, 2)
    )
    tasks = [world.get_task("test", index) for index in range(world.num_tasks("test"))]
    assert [e.task for e in once] == [tasks[index % len(tasks)] for index in range(6)]
    assert [e.task for e in twice] == [tasks[index // 2 % len(tasks)] for index in range(6)]
    assert len({e.seed for e in twice}) == 6


def test_no_evaluation_before_the_first_but_at_the_end() -> None:
    def due(**settings: int) -> list[int]:
        config = EvaluationConfig(**settings)
        return [update for update in range(31) if config.due(update, 30)]

    assert due(every=10) == [0, 10, 20, 30]
    assert due(every=7) == [0, 7, 14, 21, 28, 30]
    assert due(every=5, first=20) == [20, 25, 30]
    assert due(every=5, first=40) == [30]
    assert due(every=0, first=3) == []


def test_outcomes_by_hand() -> None:
    """Task 1 is won once in three, task 2 never, task 3 always."""
    won = {"1": (True, False, False), "2": (False,) * 3, "3": (True,) * 3}
    played = [episode("ab", success, task=task) for task, results in won.items() for success in results]
    metrics = outcomes(played, RULES["household"], repeats=3)
    assert metrics["eval_success"] == pytest.approx(4 / 9)
    assert metrics["eval_return"] == pytest.approx(40 / 9)
    assert metrics["eval_pass@2"] == pytest.approx((2 / 3 + 0 + 1) / 3)
    assert metrics["eval_pass@3"] == pytest.approx((1 + 0 + 1) / 3)
    assert not any("pass" in name for name in outcomes(played, RULES["household"], repeats=1))


def test_observation_cross_entropy_is_the_token_mean_of_plain_logits() -> None:
    rows = random_experience().rows
    lm = tiny_lm()
    total, count = 0.0, 0
    for row in rows:
        tokens = torch.tensor([row.prompt + row.response + row.continuation])
        logp = torch.log_softmax(lm(tokens).logits[0].float(), dim=-1)
        first = len(row.prompt) + len(row.response)
        for at, token in enumerate(row.continuation, first):
            total, count = total - float(logp[at - 1, token].detach()), count + 1
    learner = wrap(tiny_lm(), LearnerConfig())
    for budget in (1, 60, 10_000):
        measured = observation_cross_entropy(learner, rows, Accelerator(cpu=True), budget)
        assert measured == pytest.approx(total / count, abs=1e-4)


def test_success_that_nobody_tells_is_no_failure() -> None:
    """One of two judged episodes is won; a third is not judged, and where none is there is no figure."""
    judged = [episode("ab", success, task="1") for success in (True, False)]
    unjudged = judged[0].model_copy(update={"success": None})
    assert outcomes([*judged, unjudged], RULES["household"], repeats=1)["eval_success"] == 0.5
    metrics = outcomes([unjudged] * 2, RULES["household"], repeats=2)
    assert not any("success" in name or "pass" in name for name in metrics)
