"""`bench worlds` at a tiny size, and its table from given rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from worldline import store
from worldline.bench import worlds
from worldline.bench.worlds import WorldsBenchConfig, run, summary, targets
from worldline.types import InputError, ScoringPolicy

pytestmark = pytest.mark.usefixtures("forked_workers")


def settings(out: Path, **changes: Any) -> WorldsBenchConfig:
    chosen = {"worlds": ("echo",), "tasks": 8, "seeds": 2, "jobs": 1, "estimators": ("naive", "pdwis")} | changes
    return WorldsBenchConfig(out=out, **chosen)


def test_rows_are_made_once_and_shares_of_the_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = settings(tmp_path, worlds=("echo", "blackjack"))
    made = run(chosen)
    assert [(row["world"], row["seed"]) for row in made.rows if row["estimator"] == "naive"] == [
        (world, seed) for world in ("echo", "blackjack") for seed in (0, 1)
    ]
    rows = [row for row in made.rows if row["estimator"] == "pdwis" and row["world"] == "blackjack"]
    assert rows[0]["mae"] != rows[1]["mae"], "another seed is another log"
    part = json.loads((tmp_path / "blackjack" / "part-1.json").read_text(encoding="utf-8"))
    errors = [abs(p["estimates"]["pdwis"]["value"] - p["truth"]) for p in part["evaluation"]["policies"]]
    assert rows[1]["valued"] == len(errors) == 10
    assert rows[1]["mae"] == pytest.approx(sum(errors) / len(errors) / 2), "returns of blackjack lie between -1 and 1"

    monkeypatch.setattr(worlds, "_measure", None)  # what is there is not measured again
    assert run(chosen) == made
    with pytest.raises(InputError, match="was made with --tasks 8"):
        run(settings(tmp_path, tasks=9))


def test_collecting_leaves_logs_and_truth(tmp_path: Path) -> None:
    (row,) = run(settings(tmp_path, collect_only=True)).rows
    assert row["range of returns"] == 1.0
    episodes = list(store.read(sorted((tmp_path / "echo" / "log").iterdir())))
    assert len(episodes) == 24 and all(step.logprob is not None for e in episodes for step in e.steps)
    assert len(list(store.read(sorted((tmp_path / "echo" / "log-1").iterdir())))) == 24
    truth = json.loads((tmp_path / "echo" / "truth.json").read_text(encoding="utf-8"))
    assert truth.keys() == targets("echo").keys()
    assert max(truth, key=lambda name: truth[name]) == "optimal"


def test_targets_are_policies() -> None:
    assert all(isinstance(policy, ScoringPolicy) for policy in targets("lake reworded").values())
    with pytest.raises(InputError, match="no small world 'lakes': did you mean 'lake'"):
        targets("lakes")


def test_a_world_without_its_data_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="none is left"):
        run(settings(tmp_path, worlds=("alfworld",)))
    assert "alfworld is left out: it needs its data, and there is no --data" in capsys.readouterr().err
    with pytest.raises(InputError, match="WORLDS: there is no 'ehco': did you mean 'echo'"):
        run(settings(tmp_path, worlds=("ehco",)))


def test_a_world_counts_once_however_many_its_seeds() -> None:
    def row(world: str, spearman: float | None, mae: float) -> dict[str, Any]:
        return {"world": world, "estimator": "e", "spearman": spearman, "mae": mae, "coverage": 1.0, "regret@1": 0.0}

    figures = summary([row("a", 1.0, 0.1), row("a", 0.8, 0.3), row("b", 0.5, 0.0), row("c", None, 0.4)])
    assert figures["e: spearman, mean"] == pytest.approx(0.7)
    assert figures["e: spearman, worst"] == pytest.approx(0.5)
    assert figures["e: mae, mean"] == pytest.approx(0.2)
    assert figures["e: mae, worst"] == pytest.approx(0.4)
