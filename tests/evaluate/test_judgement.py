"""The judgement of arrays: whose log-probs the weights rest on."""

import numpy as np

from worldline.evaluate.judgement import IntervalSettings, LogEvidence, judged
from worldline.ope.estimation import ESTIMATORS, EstimatorInput
from worldline.ope.log import RaggedLog, TargetLog


def bandit(seed: int, tasks: np.ndarray) -> LogEvidence:
    """Logger a goes left with .8 on tasks where left pays .9 and right .8; b with .2, where they pay .2 and .1."""
    rng, who = np.random.default_rng(seed), np.repeat([0, 1], len(tasks) // 2)
    left = rng.random(len(who)) < np.where(who == 0, 0.8, 0.2)
    log = RaggedLog(
        rewards=(rng.random(len(who)) < np.where(who == 0, 0.8, 0.1) + 0.1 * left).astype(np.float64),
        behaviour=chances(left, np.where(who == 0, 0.8, 0.2)),
        offsets=np.arange(len(who) + 1),
        tasks=tasks,
        policies=who,
        terminated=np.ones(len(who), dtype=np.bool_),
        policy_names=("a", "b"),
    )
    loggers = {"a": TargetLog(chances(left, 0.8)), "b": TargetLog(chances(left, 0.2))}
    plain = EstimatorInput(log, 1.0, target=TargetLog(chances(left, 0.9)))
    return LogEvidence(plain, loggers)


def chances(left: np.ndarray, of_left: np.ndarray | float) -> np.ndarray:
    return np.log(np.where(left, of_left, 1 - np.asarray(of_left)))


def test_loggers_of_other_tasks_keep_their_own_log_probs() -> None:
    """Every task once, and nothing tells which: a candidate that goes left with .9 is worth .45 + .1 x .9 = .54."""
    held = {"shared": 0, "unknown": 0}
    for seed in range(20):
        given = bandit(seed, np.arange(300))
        assert given.audited({}).tasks == "unknown"
        for tasks in ("shared", "unknown"):
            evidence, note = given.weighted(tasks)
            estimate = judged(evidence, ["wis"], ESTIMATORS, IntervalSettings(replicates=200)).estimates["wis"]
            assert estimate.low is not None and estimate.high is not None
            held[tasks] += estimate.low <= 0.54 <= estimate.high
        assert "nothing shows that these share their tasks" in (note or "")
    assert held["unknown"] >= 18
    assert held["shared"] <= 4  # the mixture's weights leave what a played to the good tasks


def test_loggers_that_played_each_task_are_balanced() -> None:
    given = bandit(0, np.tile(np.arange(150), 2))
    assert given.audited({}).tasks == "shared"
    evidence, note = given.weighted("shared")
    assert "mixture of all loggers (a, b)" in (note or "")
    np.testing.assert_allclose(np.exp(evidence.log.behaviour), 0.5, atol=0.31)
