"""Estimators on household logs against values by enumeration of the world's states."""

import numpy as np
import pytest
from exact_values import exact_value
from goal_seekers import TASKS, ZEALS, GoalSeeker, Write

from worldline.evaluate import EvaluateConfig, Evaluation, evaluate
from worldline.ope.estimation import ESTIMATORS
from worldline.types import Trajectory, Turn, World

NAMES = tuple(name for name in ESTIMATORS if name != "fqe")
CONSISTENT = ("is", "wis", "pdis", "pdwis", "dr", "wdr", "qreg")
TARGET, EPSILON = GoalSeeker(1.3, "keen"), 0.25


def mixed(turn: Turn) -> dict[str, float]:
    own = TARGET.probabilities(turn)
    return {action: (1 - EPSILON) * p + EPSILON / len(own) for action, p in own.items()}


@pytest.fixture(scope="module")
def evaluation(episodes: list[Trajectory], tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    from worldline import store

    folder = tmp_path_factory.mktemp("log")
    with store.StoreWriter(folder) as writer:
        for trajectory in episodes:
            writer.append(trajectory)
    config = EvaluateConfig(log=(folder,), epsilon=(0.0, EPSILON), estimators=NAMES, features="ngrams:64")
    loggers = {f"seeker{zeal:g}": GoalSeeker(zeal) for zeal in ZEALS}
    return evaluate(config, {"keen": TARGET, **loggers})


@pytest.mark.parametrize("epsilon", [0.0, EPSILON])
def test_estimates_are_near_the_exact_value(evaluation: Evaluation, world: World, epsilon: float) -> None:
    policy = TARGET.probabilities if epsilon == 0 else mixed
    exact = np.mean([exact_value(world, world.get_task("train", task), policy) for task in TASKS])
    for name in CONSISTENT:
        estimate = evaluation.value("keen", name, epsilon)
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.value == pytest.approx(exact, abs=(estimate.high - estimate.low)), name
    for name in NAMES:
        value = evaluation.value("keen", name, epsilon).value
        assert value == pytest.approx(exact, abs=0.1), name


def test_lengths_vary(episodes: list[Trajectory]) -> None:
    assert len({len(trajectory) for trajectory in episodes}) > 4


def test_null_test_of_three_policies(evaluation: Evaluation) -> None:
    assert len(evaluation.meta.null_test) == 3
    for trial in evaluation.meta.null_test:
        for name in NAMES:
            assert trial.estimates[name].covers, (trial.policy, name, trial.estimates.get(name), trial.truth)


def test_certificate_of_three_policies(evaluation: Evaluation) -> None:
    assert {trial.policy for trial in evaluation.meta.certificate.trials} == {"seeker0.6", "seeker1", "seeker1.6"}
    for name in CONSISTENT:
        record = evaluation.record(name)
        assert record is not None
        assert record.trials == 3
        assert record.mae < 0.1
    assert any("mixture of all loggers" in note for note in evaluation.warnings)


def test_network_fqe_passes_the_null_test(episodes: list[Trajectory], write: Write) -> None:
    few = [trajectory for start in (0, 240, 480) for trajectory in episodes[start : start + 24]]
    config = EvaluateConfig(log=(write(few),), estimators=("fqe",), policy=("random",), features="ngrams:64")
    for trial in evaluate(config).meta.null_test:
        assert trial.estimates["fqe"].covers, trial
