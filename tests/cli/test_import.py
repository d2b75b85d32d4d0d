"""`worldline import`: one file, whole and once, or nothing and a clear line."""

import json
import multiprocessing
from pathlib import Path

import pytest

import faults
from worldline import store
from worldline.cli import main
from worldline.types import Step, Trajectory


def write_log(path: Path, episodes: int = 6) -> Path:
    step = Step(observation="o", action="a", reward=1.0)
    rows = [Trajectory(id=f"e{k}", env="e", task_id="t", policy="p", seed=k, steps=(step,)) for k in range(episodes)]
    path.write_text("".join(f"{row.model_dump_json()}\n" for row in rows))
    return path


def run(file: Path, out: Path, *words: str) -> int:
    return main(["import", "jsonl", str(file), "--out", str(out), "--json", *words])


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [("seed", 2**63, "seed: Input should be less than"), ("steps", [{"token_ids": [2**31]}], "steps.0.token_ids.0")],
)
def test_a_row_the_store_cannot_hold_is_named_and_costs_itself_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str, value: object, reason: str
) -> None:
    file = write_log(tmp_path / "log.jsonl")
    lines = file.read_text().splitlines()
    row = json.loads(lines[3])
    row[field] = value if field == "seed" else [{**row["steps"][0], **value[0]}]
    file.write_text("\n".join([*lines[:3], json.dumps(row), *lines[4:]]))
    assert run(file, tmp_path / "log") == 2
    assert f"line 4: {reason}" in capsys.readouterr().err
    assert not store.shards(tmp_path / "log")
    assert run(file, tmp_path / "log", "--skip-bad") == 0
    assert store.ids(tmp_path / "log") == {"e0", "e1", "e2", "e4", "e5"}


def test_repeated_ids_are_bad_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_log(tmp_path / "log.jsonl", 1)
    file.write_text(file.read_text() * 4)
    assert run(file, tmp_path / "log") == 2
    err = capsys.readouterr().err
    assert "line 2: episode id 'e0' is on line 1 already (and 2 more rows for this reason)" in err
    assert "3 bad rows, nothing was written: --skip-bad" in err
    assert run(file, tmp_path / "log", "--skip-bad") == 0
    assert json.loads(capsys.readouterr().out)["bad_rows"] == 3
    assert store.count(tmp_path / "log") == 1


def test_one_bad_row_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_log(tmp_path / "log.jsonl", 1)
    file.write_text(file.read_text() * 2)
    assert run(file, tmp_path / "log") == 2
    assert "1 bad row, nothing was written" in capsys.readouterr().err


def test_a_resumed_import_counts_what_was_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With nothing new there is no table."""
    words = ["import", "jsonl", str(write_log(tmp_path / "a.jsonl", 6)), "--out", str(tmp_path / "log"), "--resume"]
    assert main(words) == 0
    assert "already" not in capsys.readouterr().out
    assert main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "6 episodes of the import there already, left out" in shown and "mean return" not in shown
    write_log(tmp_path / "a.jsonl", 8)
    assert main(words) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "6 episodes of the import there already, left out" in shown and "mean return" in shown


def test_what_is_there_already_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write_log(tmp_path / "a.jsonl", 6), tmp_path / "log") == 0
    file = write_log(tmp_path / "b.jsonl", 2000)
    file.write_text("".join(reversed(file.read_text().splitlines(keepends=True))))  # what is there comes last
    assert run(file, tmp_path / "log") == 2
    assert "holds episode 'e0' already (and 5 more): --resume leaves it out" in capsys.readouterr().err
    assert store.count(tmp_path / "log") == 6
    assert run(file, tmp_path / "log", "--resume") == 0
    assert store.count(tmp_path / "log") == 2000
    store.check_unique(tmp_path / "log")


def test_of_two_imports_of_one_file_at_once_one_succeeds(tmp_path: Path) -> None:
    file = write_log(tmp_path / "log.jsonl", 1500)
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_exit_with, args=(file, tmp_path / "log")) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(process.exitcode or 0 for process in processes) == [0, 2]
    store.check_unique(tmp_path / "log")
    assert store.count(tmp_path / "log") == 1500


def _exit_with(file: Path, out: Path) -> None:
    raise SystemExit(run(file, out))


@pytest.mark.parametrize("how", ["full", "killed"])
def test_whichever_call_fails_resuming_finishes_the_import(tmp_path: Path, how: faults.How) -> None:
    file = write_log(tmp_path / "log.jsonl", 600)  # two shards
    count = faults.points(lambda: run(file, tmp_path / "whole"))
    assert count == 11  # the import's lock, then lock, write, sync, rename and sync of the folder for each shard
    whole = sorted(store.read(tmp_path / "whole"), key=lambda one: one.id)
    for number in range(count):
        out = tmp_path / str(number)
        assert faults.broken(lambda out=out: run(file, out), number, how) == (1 if how == "full" else faults.KILLED)
        assert run(file, out, "--resume") == 0
        assert sorted(store.read(out), key=lambda one: one.id) == whole
        assert {*out.iterdir()} <= {*store.shards(out), out / ".lock"}


def rows_of(path: Path, **fields: object) -> Path:
    row = {"task": "g", "steps": [{"action": "a", "observation": "o"}], **fields}
    path.write_text("\n".join(json.dumps({**row, "task_id": str(k)}) for k in range(3)))
    return path


def imported(capsys: pytest.CaptureFixture[str], file: Path, *words: str) -> str:
    assert main(["import", str(file), "--out", str(file.with_suffix("")), "--resume", *words]) == 0
    return capsys.readouterr().err


def test_outcomes_that_no_row_has_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    misspelt = rows_of(tmp_path / "b2.jsonl", policy="v2", rew=1.0, sucess=True)
    line = "no row has reward, success or score (they have 'rew', 'sucess'): --map reward=rew --map success=sucess"
    assert f"{misspelt}: {line}" in imported(capsys, misspelt)
    none = rows_of(tmp_path / "c.jsonl", policy="v2", colour="red")
    assert "no row has reward, success or score: --map reward=FIELD names one" in imported(capsys, none)
    for field in ("reward", "success", "score"):
        assert "no row has" not in imported(capsys, rows_of(tmp_path / f"{field}.jsonl", policy="v2", **{field: 1}))


def test_a_policy_called_after_the_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = rows_of(tmp_path / "b2.jsonl", reward=1.0)
    line = "3 episodes name no policy and are called 'b2' after the file: --policy NAME or --map policy=FIELD names it"
    assert f"{file}: {line}" in imported(capsys, file)
    assert "name no policy" not in imported(capsys, file, "--policy", "b2")
    assert "name no policy" not in imported(capsys, rows_of(tmp_path / "v3.jsonl", reward=1.0, policy="v3"))


def test_steps_that_were_not_logged_are_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "outcomes.jsonl"
    file.write_text("\n".join(json.dumps({"task_id": str(k), "policy": "v2", "success": True}) for k in range(3)))
    assert main(["import", str(file), "--out", str(tmp_path / "log"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 0


def test_episodes_that_name_no_task_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "v2.jsonl"
    rows = [{"ticket": k, "log": [{"act": "a", "obs": "hello"}], "score": 1.0} for k in range(3)]
    file.write_text("\n".join(map(json.dumps, rows)))
    words = ["--map", "action=log[].act", "observation=log[].obs", "reward=score"]
    line = "3 episodes name no task and are 1 task by what they open with: --map task_id=FIELD names it"
    assert f"{file}: {line}" in imported(capsys, file, *words)
    assert "name no task" not in imported(capsys, file, *words, "task_id=ticket")
    chats = tmp_path / "chats.jsonl"
    turns = [[{"role": "user", "content": text}, {"role": "assistant", "content": "yes"}] for text in "ab"]
    chats.write_text("\n".join(json.dumps({"messages": messages, "reward": 1}) for messages in turns))
    assert f"{chats}: 2 episodes name no task and are 2 tasks by what they open with" in imported(capsys, chats)


def test_why_a_mean_return_is_unknown_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = rows_of(tmp_path / "v2.jsonl", policy="v2", reward=1.0)
    with file.open("a") as more:
        step = {"action": "a", "observation": "o"}
        more.write("\n" + json.dumps({"task": "g", "task_id": "9", "policy": "v2", "success": True, "steps": [step]}))
    line = "no reward in 1 of 4 episodes, so the mean return is unknown: --map reward=FIELD names one"
    assert f"{file}: {line}" in imported(capsys, file)
    assert "no reward in" not in imported(capsys, rows_of(tmp_path / "v3.jsonl", policy="v3", reward=1.0))


def test_a_log_probability_above_0_is_a_bad_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    step = {"action": "a", "observation": "o", "logprob": -0.5}
    file = rows_of(tmp_path / "v2.jsonl", policy="v2", reward=1.0, steps=[step, {**step, "logprob": 0.7}])
    assert main(["import", str(file), "--out", str(tmp_path / "log")]) == 2
    assert f"{file}: line 1: steps.1.logprob: is 0.7: a log-probability is at most 0" in capsys.readouterr().err
    rounded = rows_of(tmp_path / "v3.jsonl", policy="v3", reward=1.0, steps=[{**step, "logprob": 1e-9}])
    assert "logprob" not in imported(capsys, rounded)
