"""`bench ope --against scope-rl`: values against a loop over episodes, and against SCOPE-RL where it is installed."""

import sys

import numpy as np
import pytest

from worldline.bench import scope_rl
from worldline.cli import main
from worldline.types import InputError


def test_our_values_on_its_log_are_those_of_a_loop() -> None:
    log = scope_rl.equal_log(30, length=5, seed=1)
    np.testing.assert_allclose(log.behaviour.sum(axis=1), 1)
    np.testing.assert_allclose(log.target.sum(axis=1), 1)
    importance, doubly = [], []
    for start in range(0, 150, 5):
        weight, discount, returned, robust = 1.0, 1.0, 0.0, 0.0
        for step in range(start, start + 5):
            a = log.action[step]
            robust += discount * weight * float(log.target[step] @ log.q[step])
            weight *= log.target[step, a] / log.behaviour[step, a]
            robust += discount * weight * (log.reward[step] - log.q[step, a])
            returned += discount * log.reward[step]
            discount *= scope_rl.GAMMA
        importance.append(weight * returned)
        doubly.append(robust)
    ours = scope_rl.our_values(*log.ours)
    assert ours["is"] == pytest.approx(np.mean(importance), rel=1e-12)
    assert ours["dr"] == pytest.approx(np.mean(doubly), rel=1e-12)
    assert len(scope_rl.our_intervals(*log.ours, replicates=100)) == len(scope_rl.ESTIMATORS)


def test_where_it_is_not_installed_one_line_says_how(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "scope_rl", None)
    monkeypatch.setitem(sys.modules, "scope_rl.ope.discrete", None)
    assert main("bench ope --against scope-rl".split()) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "pip install scope-rl==0.2.1" in line


def test_a_log_that_is_cut_off_is_refused() -> None:
    log = scope_rl.equal_log(3, length=5)
    with pytest.raises(InputError, match="15 steps are no whole number of episodes of 4"):
        scope_rl.EqualLog(log.behaviour, log.target, log.action, log.reward, log.q, 4)


def test_values_are_scope_rls() -> None:
    pytest.importorskip("scope_rl.ope.discrete", reason=scope_rl.INSTALL)
    *rows, summary = scope_rl.compared(scope_rl.equal_log(200, seed=2), replicates=100, repeats=1)
    assert [row["estimator"] for row in rows] == list(scope_rl.ESTIMATORS)
    for row in rows:
        assert row["ours"] == pytest.approx(row["theirs"], abs=1e-9), row["estimator"]
    assert summary["largest_difference"] < 1e-9
    assert summary["times_faster_with_intervals"] > 0
