"""Logs in arrays, and the clear line each broken one gets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from worldline.ope import log as log_module
from worldline.ope import scratch as scratch_module
from worldline.ope.log import Choices, RaggedLog, TargetLog, ragged_log
from worldline.ope.scratch import Scratch
from worldline.types import InputError, Step, Trajectory


def episode(name: str, rewards: list[float], logprob: float | None = -1.0, **given: object) -> Trajectory:
    steps = tuple(Step(observation="o", action="a", reward=r, logprob=logprob) for r in rewards)
    return Trajectory(**({"id": name, "env": "e", "task_id": name, "policy": "p", "steps": steps} | given))


def test_arrays_of_a_log() -> None:
    log = ragged_log(
        [
            episode("x", [0.0, 1.0], terminated=True, epsilon=0.2),
            episode("y", [0.5], logprob=None, task_id="x"),
        ]
    )
    assert (log.episodes, log.steps, log.horizon) == (2, 3, 2)
    np.testing.assert_array_equal(log.returns(0.5), [0.5, 0.5])
    np.testing.assert_array_equal(np.isnan(log.behaviour), [False, False, True])
    assert log.policy_names == ("p", "p@0.2")
    assert log.policies.tolist() == [1, 0]
    assert log.task_names == ("x",)
    assert log.terminated.tolist() == [True, False]


def test_taking_episodes() -> None:
    log = ragged_log([episode("x", [1.0, 2.0]), episode("y", [3.0]), episode("z", [4.0, 5.0, 6.0])])
    part = log.take(np.array([2, 0, 2]))
    assert part.rewards.tolist() == [4.0, 5.0, 6.0, 1.0, 2.0, 4.0, 5.0, 6.0]
    assert part.offsets.tolist() == [0, 3, 5, 8]
    assert part.ids == ("z", "x", "z")


@pytest.mark.parametrize(
    ("episodes", "line"),
    [
        ([], "the log is empty"),
        ([episode("x", [1.0]), episode("x", [1.0])], "episode id 'x' occurs 2 times"),
        ([episode("x", [])], "episode 'x' has no steps"),
        ([episode("x", [0.0]), episode("y", [0.0, float("nan")])], "episode 'y', step 2: reward is nan"),
        ([episode("x", [0.0], logprob=0.3)], "column 'logprob' holds 0.3"),
    ],
)
def test_a_broken_log_gets_a_clear_line(episodes: list[Trajectory], line: str) -> None:
    with pytest.raises(InputError, match=line):
        ragged_log(episodes)


def test_target_log_probs_are_checked() -> None:
    with pytest.raises(InputError, match="hold NaN"):
        TargetLog(np.array([np.nan]))
    with pytest.raises(InputError, match="at most 0"):
        TargetLog(np.array([0.5]))


def test_choices_average_and_cut() -> None:
    choices = Choices(np.log([0.5, 0.5, 1.0]), np.array([3, 4, 3]), np.array([0, 2, 3]))
    np.testing.assert_allclose(choices.mean(np.array([2.0, 4.0, 7.0])), [3.0, 7.0])
    part = choices.take(np.array([1, 0]))
    assert part.actions.tolist() == [3, 3, 4]
    assert part.offsets.tolist() == [0, 1, 3]


def test_discounts_restart_with_every_episode() -> None:
    log = RaggedLog(
        np.ones(5), np.zeros(5), np.array([0, 2, 5]), np.arange(2), np.zeros(2, int), np.zeros(2, dtype=bool)
    )
    np.testing.assert_allclose(log.discounts(0.5), [1, 0.5, 1, 0.5, 0.25])


def test_a_log_in_blocks_is_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some episodes are longer than a block; arrays of more than four numbers lie on disk."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 20, size=40)
    steps = int(lengths.sum())
    whole = RaggedLog(
        rewards=rng.normal(size=steps),
        behaviour=-rng.exponential(size=steps),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        tasks=np.arange(40),
        policies=np.zeros(40, dtype=np.int64),
        terminated=np.ones(40, dtype=np.bool_),
        ids=tuple(map(str, range(40))),
    )
    x = rng.normal(size=steps)
    episodes = np.array([3, 3, *range(30, 40), 0])
    due = {
        "returns": whole.returns(0.9),
        "last": whole.last(x),
        "time": whole.time.astype(np.float64),
        "total": whole.total(x),
        "sum": x.sum(),
        "gathered": x[whole.step_rows(episodes)],
        "taken": whole.take(episodes).returns(0.9),
    }
    monkeypatch.setattr(log_module, "BLOCK", 11)
    monkeypatch.setattr(scratch_module, "IN_MEMORY", 4)
    log = replace(whole, scratch=Scratch(tmp_path))
    parts = list(log.blocks())
    assert len(parts) > 20
    assert [i for part in parts for i in range(40)[part.episodes]] == list(range(40))
    assert [i for part in parts for i in range(steps)[part.steps]] == list(range(steps))
    assert all(part.log.steps <= 11 or part.log.episodes == 1 for part in parts)
    got = {
        "returns": log.returns(0.9),
        "last": log.last(x),
        "time": log.each_step(lambda part, _: part.time.astype(np.float64)),
        "total": log.each_episode(lambda part, steps: part.total(x[steps])),
        "sum": log.summed(lambda _, steps: x[steps].sum()),
        "gathered": log.gather(x, episodes),
        "taken": log.take(episodes).returns(0.9),
    }
    for name, values in due.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-12, err_msg=name)
    assert log.take(np.arange(40)) is log
