"""The wide part of the heads: what precedents say, and that it is learned beside many words that say nothing."""

import math
import random

import numpy as np
import pytest
import torch

from worldline.adwm.episodes import facts_of, read_episode
from worldline.adwm.model import PRESETS, WorldModel
from worldline.adwm.outcome_head import linear_logits
from worldline.adwm.training import fit_linear, outcome_terms
from worldline.narrator.log_model import LogModel
from worldline.types import Step, Trajectory

TASKS, WORDS = 48, ("red", "blue", "green", "tall", "small", "old", "new", "near", "far", "loud", "warm", "cold")


def question(task: int, answer: str, who: str) -> Trajectory:
    """A question of many words, answered at once; `place TASK` is the right answer."""
    words = " ".join(random.Random(task).sample(WORDS, 6))
    won = answer == f"place {task}"
    step = Step(observation=f"Where is the {words} house?", action=f"<answer>{answer}</answer>", reward=float(won))
    return Trajectory(
        id=f"{who}-{task}",
        env="quiz",
        split="train",
        task_id=str(task),
        goal=step.observation,
        seed=0,
        policy=who,
        steps=[step],
        final_observation="",
        success=won,
        terminated=True,
        truncated=False,
    )


@pytest.fixture(scope="module")
def quiz() -> list[Trajectory]:
    """One logger is right, one says something, one is right half of the time."""
    luck = random.Random(0)
    return [
        question(task, f"place {task}" if right else f"place {luck.randrange(100, 200)}", who)
        for task in range(TASKS)
        for who, right in (("knows", True), ("guesses", False), ("tries", luck.random() < 0.5))
    ]


def test_precedents_are_about_what_was_said_not_how(quiz: list[Trajectory]) -> None:
    log_model = LogModel.of(quiz, 4096)
    history = log_model.history(1)
    assert quiz[0].success
    right, wrong = (
        log_model.outcome_features.precedents(history, f"<answer>{what}</answer>") for what in ("place 0", "a mill")
    )
    assert right[0].endswith("|1.0|1.0")
    assert right[1].endswith("|1.0|1.0")
    assert wrong[0] == "", "nothing like it was ever said"
    assert wrong[1].endswith("|1.0|0.0"), "what is known to be right has no word of it"


def test_what_contradicts_a_known_solution_earns_nothing(quiz: list[Trajectory]) -> None:
    log_model = LogModel.of(quiz, 4096)
    torch.manual_seed(0)
    model = WorldModel(PRESETS["small"], facts_of(quiz))
    data = [read_episode(model, episode, number, log_model.outcome_features) for number, episode in enumerate(quiz)]
    training, held_out, unseen = data[:90], data[90:114], range(114, len(quiz))
    fit_linear(model, training, held_out, np.full(len(training), 1 / len(training)), seed=0)
    bias = model.reward_head[-1].bias[0]
    errors = []
    for number in unseen:
        episode, others = quiz[number], [q for q in quiz[114:] if q.task_id == quiz[number].task_id]
        if not any(other.success for other in others if other is not episode):
            continue
        logits = linear_logits(
            torch.from_numpy(data[number].outcome_features[0])[None], model.linear.weight, model.precedent.weight
        )
        errors.append(abs(torch.sigmoid(logits[0, 1] + bias).item() - episode.episode_return))
    assert len(errors) > 15
    assert np.mean(errors) < 0.15


def test_outcome_terms_by_hand() -> None:
    logits = torch.tensor([[0.0, 1.0, -1.0, 2.0], [0.5, 1.0, -1.0, 2.0]])
    y = torch.tensor([[1.0, 0.5, math.nan], [0.0, 0.0, 1.0]])

    def bce(x: float, t: float) -> float:
        return math.log1p(math.exp(-x)) * t + math.log1p(math.exp(x)) * (1 - t)

    expected = torch.tensor([[bce(0, 1), bce(1, 0.5), 0, 0], [bce(0.5, 0), 0, bce(-1, 0), 0]])
    torch.testing.assert_close(outcome_terms(logits, y), expected)
