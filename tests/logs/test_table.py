"""Tables: a row per step or per episode, from CSV, TSV, Parquet and JSON lines, all to the same episodes."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from worldline import logs, store
from worldline.cli import main
from worldline.types import InputError, Trajectory

_NAMES = ("episode", "model", "task", "observation", "action", "reward", "done")
STEPS: list[dict[str, Any]] = [
    dict(zip(_NAMES, row, strict=True))
    for row in (
        ("e1", "v2", "a", "room", "go", 0.0, False),
        ("e1", "v2", "a", "hall, or so", "take", 1.0, True),
        ("e2", "v3", "a", "room", "stay", 0.0, True),
    )
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


def imported(path: Path, **options: Any) -> list[Trajectory]:
    return list(logs.read("auto", path, options=logs.Options(**options)))


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.jsonl"])
def test_rows_of_steps_are_episodes_whatever_holds_them(tmp_path: Path, name: str) -> None:
    first, second = imported(write(tmp_path / name, STEPS))
    assert [step.observation for step in first.steps] == ["room", "hall, or so"]
    assert [step.action for step in first.steps] == ["go", "take"]
    assert [step.reward for step in first.steps] == [0.0, 1.0]
    assert (first.policy, first.task_id, first.id, first.terminated) == ("v2", "a", "t/e1", True)
    assert (second.policy, len(second), second.meta["id"]) == ("v3", 1, "e2")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_rows_of_outcomes_can_be_compared(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"task_id": str(k), "policy": policy, "success": float(k % most == 0), "cost": 0.5, "trial": 0}
        for policy, most in (("v2", 4), ("v3", 2))
        for k in range(24)
    ]
    path = write(tmp_path / name, rows)
    assert (
        main(
            ["import", str(path), "--map", "reward=success", "--env", "prod", "--out", str(tmp_path / "log"), "--json"]
        )
        == 0
    )
    assert "t." in capsys.readouterr().err
    episodes = list(store.read(tmp_path / "log"))
    assert len(episodes) == 48 and {episode.env for episode in episodes} == {"prod"}
    assert {episode.meta["steps"] for episode in episodes} == {"not logged"}
    assert main(["compare", str(tmp_path / "log"), "--json"]) == 0
    pair = json.loads(capsys.readouterr().out)["pairs"][0]
    assert (pair["difference"]["value"], pair["wins"], pair["losses"]) == (0.25, 6, 0)


def test_an_episode_that_goes_on_later_is_a_bad_row(tmp_path: Path) -> None:
    rows = [STEPS[0], STEPS[2], STEPS[1]]
    with pytest.raises(InputError, match="line 4: episode 'e1' went on after another one began: sort"):
        imported(write(tmp_path / "t.csv", rows))


def test_cells_of_json_and_columns_of_chats(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    (chat,) = imported(write(tmp_path / "c.parquet", [{"messages": messages, "reward": 1.0, "task_id": "t"}]))
    assert (chat.steps[0].action, chat.episode_return) == ("yes", 1.0)
    rows = [
        {"task_id": "t", "action": "go", "observation": "o", "token_logprobs": "[-0.5, -1]", "admissible": '["go"]'}
    ]
    (cells,) = imported(write(tmp_path / "t.csv", rows))
    assert (cells.steps[0].token_logprobs, cells.steps[0].admissible) == ((-0.5, -1.0), ("go",))


def test_files_that_are_broken(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("task_id,action\na\n")
    with pytest.raises(InputError, match="line 2: 1 cells, the first line names 2"):
        list(logs.read("table", path))
    path.write_bytes(b"task_id,action\na,\xff\n")
    with pytest.raises(InputError, match="not UTF-8: 0xff: save it as UTF-8"):
        list(logs.read("table", path))
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="no Parquet file that can be read"):
        list(logs.read("auto", tmp_path / "t.parquet"))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"task_id,action\na,go\n"))
    assert len(imported(tmp_path / "t.csv.gz")) == 1


def test_steps_of_no_named_episode_are_not_thrown_together(tmp_path: Path) -> None:
    rows = [{"taskid": task, "model": "v2", "action": "go", "reward": 0.0} for task in ("a", "a", "b")]
    path = write(tmp_path / "t.csv", rows)
    with pytest.raises(InputError, match="line 2: nothing says which episode the step is of: --map id=FIELD"):
        imported(path)
    episodes = imported(path, map=("task_id=taskid",))
    assert [(episode.task_id, len(episode)) for episode in episodes] == [("a", 2), ("b", 1)]
    goals = [{"question": question, "action": "go"} for question in ("a?", "b?")]
    assert len(imported(write(tmp_path / "goals.csv", goals))) == 2
