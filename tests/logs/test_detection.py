"""Every format is detected by the file's content, under any name; the error for any other says what it looks like."""

import gzip
import json
import math
import os
from pathlib import Path

import pytest

from worldline import logs
from worldline.logs.detection import SIGNS, detect
from worldline.types import InputError

STEP = {"observation": "o", "action": "a"}
SAMPLES = {
    "inspect": {"version": 2, "eval": {"task": "t", "model": "m"}, "samples": []},
    "tau2": {"info": {}, "tasks": [], "simulations": []},
    "atif": {"schema_version": "ATIF-v1.6", "agent": {"name": "a"}, "steps": []},
    "jsonl": {"schema_version": 1, "id": "e", "env": "e", "task_id": "t", "policy": "p", "steps": [STEP]},
    "verifiers": {"example_id": 1, "prompt": [], "completion": [], "reward": 1.0},
    "openenv": {"episode_id": "e", "messages": [], "reward": 1.0, "tool_trace": []},
    "chat": {"messages": [], "reward": 1.0},
    "episodes": {"task_id": "t", "task": "g", "steps": [STEP]},
    "table": {"task_id": "t", "policy": "v2", "success": True},
}


@pytest.mark.parametrize("name", list(SAMPLES))
@pytest.mark.parametrize("indent", [None, 1])
def test_each_format_is_found_in_one_line_and_in_many(tmp_path: Path, name: str, indent: int | None) -> None:
    path = tmp_path / "some.file"
    path.write_text(json.dumps(SAMPLES[name], indent=indent))
    assert detect(path) == name
    assert SAMPLES.keys() == SIGNS.keys() == logs.FORMATS.keys()


def test_a_first_line_that_is_broken_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"messages": [\n' + json.dumps(SAMPLES["chat"]) + "\n")
    assert detect(path) == "chat"


def test_what_is_no_log(tmp_path: Path) -> None:
    for content, line in (
        (b'{"colour": 1, "size": 2}', "its rows have the fields colour, size: --map action=PATH"),
        (b"[1, 2]", "its rows are no JSON objects"),
        (b"", "holds no episode"),
        (b"hello", "not JSON"),
    ):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(InputError, match=line):
            detect(tmp_path / "x")
    with pytest.raises(InputError, match="no such file"):
        detect(tmp_path / "nothing")
    with pytest.raises(InputError, match="a folder without trajectory.json"):
        logs.expand(tmp_path)


DATA = Path(os.environ.get("WORLDLINE_DATA") or Path(__file__).parents[3] / "shared" / "data") / "trajectories"
REAL = (
    "agenttraj_sciworld",
    "agenttraj_webshop",
    "fireact_hotpotqa",
    "knowagent_alfworld",
    "mint_alfworld",
    "tau_bench_airline",
)


@pytest.mark.data
@pytest.mark.parametrize("name", REAL)
def test_logs_of_real_agents_need_no_flag(name: str) -> None:
    """As many episodes, steps and rewards as a direct count finds."""
    source = DATA / f"{name}.jsonl.gz"
    if not source.is_file():
        pytest.skip(f"{source} is not there: the data sets are kept beside the checkout")
    with gzip.open(source, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    episodes = list(logs.read("auto", source))
    assert len(episodes) == len(rows)
    assert sum(map(len, episodes)) == sum(len(row["steps"]) for row in rows)
    rewards = [episode.episode_return for episode in episodes]
    if rows[0].get("reward") is not None:
        assert sum(rewards) == pytest.approx(sum(row["reward"] for row in rows))
    else:
        assert all(math.isnan(reward) for reward in rewards)


EPISODE = {"taskid": "t1", "task": "find it", "policy": "v2", "reward": 1.0, "steps": [STEP, STEP]}


def test_a_row_with_steps_is_never_read_as_an_outcome_alone(tmp_path: Path) -> None:
    """The error for each slip names the flag that mends it, and that flag gives every step."""
    path = tmp_path / "v2.jsonl"
    renamed = {("task_id" if name == "taskid" else name): value for name, value in EPISODE.items()}
    turns = {("turns" if name == "steps" else name): value for name, value in renamed.items()}
    both = {("turns" if name == "steps" else name): value for name, value in EPISODE.items()}
    for row, line, flags in (
        (EPISODE, "its rows have 'steps' but no 'task_id': --map task_id=taskid", ["task_id=taskid"]),
        (turns, "its rows have 'turns' but no 'steps': --map steps=turns", ["steps=turns"]),
        (
            both,
            "its rows have 'turns' but no 'steps' and no 'task_id': --map steps=turns --map task_id=taskid",
            ["steps=turns", "task_id=taskid"],
        ),
    ):
        path.write_text("\n".join([json.dumps(row)] * 3))
        with pytest.raises(InputError) as refusal:
            detect(path)
        assert str(refusal.value) == f"{path}: {line}"
        episodes = list(logs.read("auto", path, options=logs.Options(map=tuple(flags))))
        assert [len(episode) for episode in episodes] == [2, 2, 2]
        assert {episode.task_id for episode in episodes} == {"t1"} and "turns" not in episodes[0].meta


def test_steps_under_names_of_their_own_are_told_too(tmp_path: Path) -> None:
    path = tmp_path / "v2.jsonl"
    row = {"task_id": "t1", "success": True, "turns": [{"act": "go", "obs": "hall"}]}
    path.write_text(json.dumps(row))
    with pytest.raises(InputError, match=r"'turns', a list of objects with act, obs: --map action=turns\[\].FIELD"):
        detect(path)
    (episode,) = logs.read("table", path)  # with the format given: the outcome alone, the turns in meta
    assert json.loads(episode.meta["turns"]) == row["turns"]
    path.write_text(json.dumps({"task_id": "t1", "reward": 0.0, "obs": "hall", "actn": "go"}))
    with pytest.raises(InputError, match="its rows have 'obs' but no 'action': --map action=actn"):
        detect(path)
    for column in ("state", "result"):  # an episode may have them too
        path.write_text(json.dumps({"task_id": "t1", "reward": 0.0, column: "closed"}))
        assert detect(path) == "table"


def test_steps_that_only_later_rows_have_are_bad_rows_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "v2.jsonl"
    crashed = {"task_id": "t0", "reward": 0.0, "turns": []}
    path.write_text("\n".join(json.dumps({**crashed, "turns": turns}) for turns in ([], [STEP])))
    assert detect(path) == "table"
    with pytest.raises(InputError, match="line 2: its steps in 'turns' would be dropped"):
        list(logs.read("auto", path))
