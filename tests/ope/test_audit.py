"""The audit of a log: wrong log-probs are convicted, sound ones are not; unshared tasks are noticed."""

from dataclasses import replace

import numpy as np
import pytest
from four_loggers import POLICIES, WORLD, scored
from tabular_world import TabularLog

from worldline.ope.audit import STAKES, UNIFORM, Audit, Probe, audit, ratio_sums, shared_tasks, sharing
from worldline.ope.diagnostics import diagnostics, distrust
from worldline.ope.estimation import EstimatorInput, estimate
from worldline.ope.log import RaggedLog, TargetLog
from worldline.ope.weights import exp


def half_temperature(policy: np.ndarray) -> np.ndarray:
    sharper = policy**2
    return sharper / sharper.sum(axis=1, keepdims=True)


def test_log_probs_of_another_temperature_are_convicted() -> None:
    """What was written down is the policy at half its temperature; the null test alone passes it."""
    policy = WORLD.policy(1, temperature=1.2)
    played = WORLD.play(policy, 600, seed=0)
    honest, target = played.ragged, played.target(WORLD.mixed(policy, 0.2))
    written = np.log(half_temperature(policy)[played.state, played.action])
    wrong = replace(honest, behaviour=written, policy_names=("v1",))
    checked = audit(wrong, {"new": target})
    assert [probe.logger for probe in checked.probes if probe.convicts]
    assert "the log-probs of 'v1' are not those it acted with" in checked.reasons[0]
    assert audit(replace(honest, policy_names=("v1",)), {"new": target}).reasons == ()
    evidence = EstimatorInput(wrong, 1.0, target=target)
    values = estimate(evidence, ["is"]).values["is"]
    flag = distrust("is", values, diagnostics(evidence), wrong.returns(1.0), audit=checked.reasons)
    assert "not those it acted with" in (flag or "")


def test_sound_logs_are_rarely_convicted() -> None:
    convicted = 0
    for seed in range(200):
        played = WORLD.play(POLICIES[0], 200, seed)
        convicted += bool(audit(played.ragged, {"new": played.target(WORLD.mixed(POLICIES[0], 0.3))}).reasons)
    assert convicted <= 3


def chance(log: TabularLog) -> np.ndarray:
    return log.target(WORLD.mixed(POLICIES[0], 1.0)).logprobs


def test_chance_needs_no_candidate_of_its_own() -> None:
    """E_b[u / b] = 1, u uniform over the allowed actions: by hand, step by step."""
    played = WORLD.play(POLICIES[0], 100, seed=0)
    log = played.ragged
    probe = next(
        p for p in audit(log, {"x": played.target(POLICIES[1])}, chance=chance(played)).probes if p.policy == UNIFORM
    )
    by_hand = 1 / WORLD.allowed[played.state].sum(axis=1)
    assert probe.mean == pytest.approx(float((by_hand / np.exp(log.behaviour)).mean()))


def test_the_error_of_a_step_mean_is_that_of_other_logs_of_the_same_tasks() -> None:
    """The steps of an episode go together. Episodes of one task do not: whatever the task, 1 is due."""
    means, errors = [], []
    for seed in range(300):
        played = WORLD.play(POLICIES[0], 60, seed, drawn_tasks=3)
        log = played.ragged
        ratios = exp(played.target(WORLD.mixed(POLICIES[0], 0.5)).logprobs - log.behaviour)
        mean, error = ratio_sums(ratios, log).mean(log, np.ones(60, dtype=np.bool_))
        assert mean == pytest.approx(ratios.mean())
        means.append(mean)
        errors.append(error)
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(means), rel=0.15)


def test_few_tasks_convict_no_more_sound_logs_than_many() -> None:
    """Sixty episodes of two tasks, three probes each: once in 1,000 is due, and standard errors of tasks gave .15."""
    convicted = 0
    for seed in range(300):
        played = WORLD.play(POLICIES[1], 60, seed, drawn_tasks=2)
        targets = {f"{share}": played.target(WORLD.mixed(POLICIES[1], share)) for share in (0.2, 0.5)}
        convicted += bool(audit(played.ragged, targets, chance=chance(played)).reasons)
    assert convicted <= 2


def test_a_ratio_that_is_seldom_0_convicts_nobody_where_none_was_met() -> None:
    """A logger that errs once in 25 steps, and a candidate that never does: the ratio is 1 / .96, with an error of 0,
    in one of five sound logs of 40 steps."""
    exact = np.log(np.full(40, 0.96))
    every = np.arange(40)
    log = RaggedLog(
        np.zeros(40), exact, np.arange(41), every, np.zeros(40, dtype=np.int64), np.ones(40, dtype=np.bool_)
    )
    (probe,) = audit(log, {"sure": TargetLog(np.zeros(40))}).probes
    assert (probe.mean, probe.error) == (pytest.approx(1 / 0.96), pytest.approx(0, abs=1e-12))
    assert not probe.convicts


def test_a_wager_gains_what_it_should() -> None:
    """By hand: one episode of two steps, ratios 2 and 3, and one of a step that the policy never takes."""
    log = RaggedLog(
        np.zeros(3), np.log([0.25, 0.2, 0.5]), np.array([0, 2, 3]), np.arange(2), np.zeros(2, dtype=np.int64),
        np.ones(2, dtype=np.bool_),
    )  # packed lines read better  # fmt: skip
    (probe,) = audit(log, {"x": TargetLog(np.log([0.5, 0.6, 1e-300]))}).probes
    products = [(1 + c) * (1 + 2 * c) * (1 - c) for c in STAKES]
    assert np.exp(probe.log_gain) == pytest.approx(np.average(products, weights=STAKES))


def test_loggers_of_different_tasks_are_noticed() -> None:
    rng = np.random.default_rng(0)
    who = np.arange(200) % 2
    drawn = rng.integers(0, 20, size=200)
    assert sharing(drawn, who) == "shared"
    assert sharing(np.arange(200) // 2, who) == "shared"  # every task once by each: as shared as can be
    assert sharing(drawn + 20 * who, who) == "apart"
    partly = np.where(rng.random(200) < 0.5, drawn, drawn + 20 * who)
    assert sharing(partly, who) == "apart"
    assert sharing(drawn, np.zeros(200, dtype=np.int64)) == "shared"


def test_tasks_that_are_played_once_are_no_evidence_of_sharing() -> None:
    who = np.arange(200) % 2
    assert sharing(np.arange(200), who) == "unknown"
    one_in_common = np.arange(200)
    one_in_common[1] = 0
    assert sharing(one_in_common, who) == "unknown"
    newcomer = np.append(np.arange(200) // 2, [100, 101]), np.append(who, [2, 2])
    assert sharing(*newcomer) == "unknown"  # two of three loggers share theirs, the third has none in common


def test_tasks_that_every_logger_played_once_are_shared_by_those_that_did() -> None:
    """Two loggers, each with a task once: one in two tasks is played by both, the others by one of them."""
    tasks = np.concatenate([np.arange(100), np.arange(50, 150)])
    assert sharing(tasks, np.repeat([0, 1], 100)) == "apart"
    within = np.concatenate([np.arange(100), np.arange(50)])
    assert sharing(within, np.repeat([0, 1], [100, 50])) == "shared"


def test_of_new_tasks_the_split_or_family_decides() -> None:
    rng = np.random.default_rng(0)
    who, new, same = np.arange(200) % 2, np.arange(200), np.zeros(200, dtype=np.int64)
    family = rng.integers(0, 4, size=200)
    assert shared_tasks(new, None, [same, family], who) == "shared"
    assert shared_tasks(new, None, [who, family], who) == "apart"
    assert shared_tasks(new, None, [same], who) == "unknown"  # every episode has the default
    assert shared_tasks(new, None, [], who) == "unknown"
    assert shared_tasks(new, same, [], who) == "shared"  # all begin alike
    assert shared_tasks(new // 2, None, [who], who) == "shared"  # tasks say it: what they are called is nothing to it
    assert shared_tasks(new // 2, who, [], who) == "apart"


def test_four_loggers_share_their_tasks(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    by_chance = np.concatenate([chance(log) for log in logs])
    checked = audit(evidence.log, {"a": scored(logs, POLICIES[0])}, chance=by_chance)
    assert checked.tasks == "shared"
    assert {(p.policy, p.logger) for p in checked.probes} == {(p, k) for p in ("a", UNIFORM) for k in "abcd"}


def test_missing_log_probs_are_not_probed(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    blank = replace(evidence.log, behaviour=np.full(evidence.log.steps, np.nan))
    assert audit(blank, {"a": scored(logs, POLICIES[0])}).probes == ()


def test_the_worst_probe_of_each_logger_is_reported() -> None:
    probes = (
        Probe("x", "v1", 1.3, 0.05, 8.0), Probe("y", "v1", 1.9, 0.05, 20.0), Probe("x", "v2", 1.01, 0.001, 9.0),
        Probe("y", "v2", 1.3, 0.2, 2.0),
    )  # packed lines read better  # fmt: skip
    reasons = Audit(probes, contradictions=("c",), clones=("v3",)).reasons
    assert len(reasons) == 3
    assert reasons[0] == "c"
    assert "step weights of y average 1.90" in reasons[1]
    assert "'v3' are estimated by a clone" in reasons[2]
