"""`bench fit`: the log has the steps that it should, and the whole command is measured."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldline import store
from worldline.bench import fit
from worldline.types import InputError

BRIEFLY = """
import sys
from worldline.cli import main
from worldline.kernel import gate, lists, outcome, wordings
for part in (gate, lists, outcome, wordings):
    part._STEPS = 20
sys.exit(main(sys.argv[1:]))
"""
"""`python -m worldline`, with few updates of every part of the kernel model: no test here needs a good fit."""


def test_the_log_is_as_long_as_it_should_be_and_kept(tmp_path: Path) -> None:
    written = fit.write_log(tmp_path / "log", 2000, seed=0)
    episodes = list(store.read(tmp_path / "log"))
    assert written == sum(map(len, episodes))
    assert 2000 <= written < 2000 + max(map(len, episodes))
    assert len({episode.id for episode in episodes}) == len(episodes)
    assert {episode.policy for episode in episodes} <= {f"expert-{epsilon:g}" for epsilon in fit.EPSILONS}


def test_the_command_is_measured_and_its_log_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def briefly(command: list[str], **streams: Any) -> "subprocess.Popen[bytes]":
        assert command[1:3] == ["-m", "worldline"]
        words = [
            command[0],
            "-c",
            BRIEFLY,
            *command[3:],
            *"--no-left-out --text-steps 40 --replayed-episodes 2".split(),
        ]
        return subprocess.Popen(words, **streams)

    monkeypatch.setattr(fit, "subprocess", SimpleNamespace(Popen=briefly))
    settings = fit.FitBenchConfig(steps=(1000,), members=0, kernel_steps=100, out=tmp_path)
    measured = fit.run(settings)
    row = measured.rows[0]
    assert 1000 <= row["steps"] < 1100
    assert 0 < row["wm_held_out_steps"] < 100, "of the sample"
    assert measured.figures["seconds"] == row["seconds"] > 0
    assert 0.05 < measured.figures["beyond_the_model_gb"] <= measured.figures["peak_gb"] < 4
    (log,) = tmp_path.iterdir()
    before = sorted(log.iterdir())
    assert fit.kept_log(tmp_path, 1000, seed=0) == log
    assert sorted(log.iterdir()) == before


def test_a_log_too_small_to_say_anything_is_refused() -> None:
    with pytest.raises(InputError, match="--steps"):
        fit.run(fit.FitBenchConfig(steps=(10,)))
