"""The words of a log as codes: what chance would have taken."""

import numpy as np
import pytest

from worldline.ope.audit import UNIFORM, audit
from worldline.ope.log import RaggedLog, TargetLog
from worldline.ope.text import text_log
from worldline.types import Step, Trajectory


def episode(number: int, action: str, listed: tuple[str, ...] | None = ("left", "right")) -> Trajectory:
    step = Step(observation="room", admissible=listed, action=action, reward=0.0, logprob=-1.0)
    return Trajectory(
        id=str(number), env="toy", task_id=str(number), goal="go", policy="agent", steps=(step,), terminated=True,
        truncated=False,
    )  # packed lines read better  # fmt: skip


def test_chance_is_uniform_over_what_was_admissible() -> None:
    text = text_log([episode(0, "left"), episode(1, "say so"), episode(2, "up", ("up", "up", "down", "left"))])
    assert text.chance == pytest.approx([-np.log(2), -np.inf, -np.log(3)])
    assert text_log([episode(0, "left"), episode(1, "left", None)]).chance is None


def test_a_logger_that_writes_what_is_not_listed_is_not_convicted() -> None:
    """One time in ten it writes one of 30 words of its own, which chance never takes: what is left of the mean ratio
    is .54 x .5 / .54 + .36 x .5 / .36 = 1. Chance over the words, too, would take one 150 times as often as it does."""
    rng = np.random.default_rng(0)
    words = rng.random(400) < 0.1
    left = rng.random(400) < 0.6
    actions = np.where(words, [f"say {i}" for i in rng.integers(30, size=400)], np.where(left, "left", "right"))
    text = text_log([episode(i, str(action)) for i, action in enumerate(actions)])
    behaviour = np.log(np.where(words, 0.1 / 30, np.where(left, 0.54, 0.36)))
    every = np.arange(400)
    log = RaggedLog(
        np.zeros(400), behaviour, np.arange(401), every, np.zeros(400, dtype=np.int64), np.ones(400, dtype=np.bool_)
    )
    checked = audit(log, {"itself": TargetLog(behaviour)}, chance=text.chance)
    probe = next(each for each in checked.probes if each.policy == UNIFORM)
    assert probe.mean == pytest.approx(1, abs=0.06)
    assert checked.reasons == ()
