"""`bench coverage`: what is finished is used again; the tables count what they say, by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from worldline.bench import coverage
from worldline.bench.small_mdp import KINDS
from worldline.cli import main
from worldline.types import InputError


def test_finished_cells_are_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = coverage.CoverageBenchConfig(
        logs=2, sizes=(20,), kinds=("good", "poor"), equal=0, replicates=100, out=tmp_path
    )
    monkeypatch.setattr(coverage, "worker_pool", _none)
    monkeypatch.setattr(coverage, "run_all", lambda pool, work, watch: [one() for one in work.values()])
    first = coverage.run(settings)
    assert first.figures["logs"] == 4
    monkeypatch.setattr(coverage, "judge", lambda *given: pytest.fail("was judged before"))
    assert coverage.run(settings) == first


def test_the_network_is_judged_on_as_many_logs_as_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = coverage.CoverageBenchConfig(logs=3, sizes=(20,), kinds=("good",), equal=2, network=1, out=tmp_path)
    judged: list[bool] = []
    monkeypatch.setattr(coverage, "worker_pool", _none)
    monkeypatch.setattr(coverage, "run_all", lambda pool, work, watch: [one() for one in work.values()])
    monkeypatch.setattr(coverage, "summary", lambda rows: rows)
    monkeypatch.setattr(coverage, "judge", lambda situation, names, replicates: judged.append("fqe" in names) or {})
    coverage.run(settings)
    assert judged == [True, False, False, False, False]
    with pytest.raises(InputError, match="--network 4: there are 3 logs"):
        coverage.run(settings.model_copy(update={"network": 4}))


class _none:  # noqa: N801 - stands in for a function
    def __init__(self, jobs: int, engine: str) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def test_a_log_is_judged_as_evaluate_judges() -> None:
    row = coverage.judge(KINDS["wrong temperature"](np.random.default_rng(3), 400), ("wis", "wdr", "lfqe"), 200)
    assert all(flagged for estimates in row["estimates"].values() for *_, flagged in estimates.values())
    assert row["recommended"] is None  # all are flagged, and no logger is given to try them on
    sound = coverage.judge(KINDS["good"](np.random.default_rng(3), 400), ("wis", "wdr", "lfqe"), 200)
    assert not any(flagged for estimates in sound["estimates"].values() for *_, flagged in estimates.values())
    json.dumps([row, sound])


@pytest.mark.parametrize(("words", "line"), [("--kinds odd", "unknown 'odd'"), ("--sizes 5", "20 episodes at least")])
def test_bad_settings_are_named(words: str, line: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["bench", "coverage", *words.split(), "--out", str(tmp_path)]) == 2
    assert line in capsys.readouterr().err
    with pytest.raises(InputError):
        coverage.run(coverage.CoverageBenchConfig(sizes=(5,), out=tmp_path))
