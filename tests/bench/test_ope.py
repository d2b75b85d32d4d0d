"""`bench ope`: the synthetic logs are as described, their estimates right, and the growth is seconds over steps."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest

from worldline.bench import ope
from worldline.cli import main
from worldline.ope.estimation import estimate


def test_the_estimates_on_its_log_are_those_of_a_loop_over_episodes() -> None:
    evidence = ope.synthetic(1000, tasks=20, seed=3)
    log, target = evidence.log, evidence.target
    assert target is not None
    lengths = np.diff(log.offsets)
    assert (log.steps, log.episodes) == (1000, 50)
    assert 5 <= lengths.min() <= lengths.max() <= 60
    values: dict[str, list[float]] = {"naive": [], "is": [], "pdis": []}
    for start, end in itertools.pairwise(log.offsets):
        weight, discount, returned, per_decision = 1.0, 1.0, 0.0, 0.0
        for step in range(start, end):
            weight *= float(np.exp(target.logprobs[step] - log.behaviour[step]))
            returned += discount * float(log.rewards[step])
            per_decision += discount * weight * float(log.rewards[step])
            discount *= 0.99
        for name, value in zip(values, (returned, weight * returned, per_decision), strict=True):
            values[name].append(value)
    estimates = estimate(evidence, ope.WEIGHT_BASED).values
    for name, expected in values.items():
        np.testing.assert_allclose(estimates[name], expected, rtol=1e-9)


def test_growth_is_seconds_over_steps(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wall = iter([0.0, 2.0, 10.0, 16.0])  # 2 s for 1,000 steps, 6 s for 4,000
    clock = SimpleNamespace(perf_counter=lambda: next(wall), process_time=lambda: 0.0)
    monkeypatch.setattr(ope, "time", clock)
    words = "bench ope --steps 1000 4000 --tasks 20 --replicates 100 --repeats 1 --evaluate 0 --json".split()
    assert main(words) == 0
    measured = json.loads(capsys.readouterr().out)
    assert [row["steps"] for row in measured["rows"]] == [1000, 4000]
    assert [row["seconds"] for row in measured["rows"]] == [2.0, 6.0]
    assert measured["figures"]["seconds"] == 6.0
    assert measured["figures"]["growth_over_linear"] == pytest.approx((6 / 2) / (4000 / 1000))
    assert measured["figures"]["peak_memory_over_log"] > 1
