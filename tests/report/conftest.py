"""A real small evaluation of household policies, made once; runs and world models written by hand."""

import json
from pathlib import Path

import pytest
from report_material import CURVES, FIGURES, METRICS, write_lines

from worldline.cli import main


@pytest.fixture(scope="session")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log of two policies and an evaluation of three others, whose truth was measured."""
    folder = tmp_path_factory.mktemp("judged")
    world = ["household", "--policy", "expert", "--options.level", "tiny", "--json"]
    for epsilon in ("0.3", "0.7"):
        words = ["collect", *world, "--epsilon", epsilon, "--episodes", "40", "--out", str(folder / "logs")]
        assert main(words) == 0
    (folder / "truth.json").write_text(json.dumps({"expert": 1.0, "expert@0.5": 0.5, "expert@0.95": 0.05}))
    words = (
        "--policy expert --epsilon 0 0.5 0.95 --estimators naive is wis lfqe dr --options.level tiny --bootstrap 100"
    )
    truth = ["--truth", str(folder / "truth.json"), "--logger", "expert=expert"]
    assert (
        main(["evaluate", "--log", str(folder / "logs"), *words.split(), *truth, "--out", str(folder), "--json"]) == 0
    )
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_lines(
        tmp_path / "run", METRICS, config={"algo": "gigpo", "updates": 4, "rollout": {"temperature": 0.7}}
    )


@pytest.fixture
def world_model(tmp_path: Path) -> Path:
    rows = [
        {"member": member, "epoch": epoch, "of": 3, "seconds": 2.0, "loss": 3.0 / epoch, "held_out_loss": 4.0 / epoch}
        for member in (0, 1)
        for epoch in (1, 2, 3)
    ]
    folder = write_lines(tmp_path / "wm", rows, config={"preset": "small"})
    (folder / "figures.json").write_text(json.dumps({"figures": FIGURES, "notes": ["only 9 tasks"]}))
    (folder / "horizon.json").write_text(json.dumps({"curves": CURVES}))
    return folder
