"""The synthetic log as a folder: what is read back is what was written, and the command values it."""

from pathlib import Path

import numpy as np
import pytest

from worldline import store
from worldline.bench.ope import synthetic
from worldline.bench.ope_log import CANDIDATES, evaluated, write_log
from worldline.evaluate.candidates import ELSEWHERE, named
from worldline.evaluate.log_columns import read_columns
from worldline.evaluate.logprob_file import from_file


def test_the_folder_is_the_log(tmp_path: Path) -> None:
    evidence = synthetic(1000, tasks=20, seed=0)
    candidates = named(write_log(evidence, tmp_path, seed=0), "--policy")
    log = read_columns([tmp_path / "log"]).log
    np.testing.assert_array_equal(log.rewards, evidence.log.rewards)
    np.testing.assert_array_equal(log.behaviour, evidence.log.behaviour)
    np.testing.assert_array_equal(log.offsets, evidence.log.offsets)
    assert len(list(store.read(tmp_path / "log"))) == log.episodes
    assert len(candidates) == CANDIDATES
    for spec in candidates.values():
        scores = from_file(Path(spec.removeprefix(ELSEWHERE)), log, lambda: pytest.fail("the text was read"))
        assert np.abs(scores.logged - log.behaviour).mean() < 0.2


def test_the_whole_command_is_measured() -> None:
    row = evaluated(synthetic(1000, tasks=20, seed=0), ("is", "wis"), 100, 0)
    assert row["steps"] == 1000
    assert row["evaluate_seconds"] > 0
    assert 0.01 < row["evaluate_peak_gb"] < 4
