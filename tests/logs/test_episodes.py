"""Rows of one episode each: observations move by one, and the real files count the same before and after."""

import gzip
import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from worldline import logs, store
from worldline.types import InputError, Trajectory

ROW = {
    "dataset": "maze",
    "policy": "walker",
    "task_id": 7,
    "task": "Find the door.",
    "steps": [
        {"action": "go north", "observation": "A wall.", "thought": "The door may be north."},
        {"action": "go south", "observation": "A door."},
        {"action": None, "tool_calls": [{"name": "open", "arguments": '{"what":"door"}'}], "observation": None},
    ],
    "reward": 0.5,
    "success": True,
}


def imported(tmp_path: Path, *rows: dict[str, Any], **options: str) -> list[Trajectory]:
    path = tmp_path / "runs.v1.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return list(logs.read("episodes", path, options=logs.Options(**options)))


def test_a_row_becomes_an_episode_that_sees_before_it_acts(tmp_path: Path) -> None:
    (episode,) = imported(tmp_path, ROW)
    assert [step.observation for step in episode.steps] == ["Find the door.", "A wall.", "A door."]
    assert [step.action for step in episode.steps] == ["go north", "go south", 'open({"what":"door"})']
    assert episode.steps[0].response == "The door may be north.\ngo north"
    assert [step.reward for step in episode.steps] == [0.0, 0.0, 0.5]
    assert (episode.final_observation, episode.goal) == ("", "Find the door.")
    assert (episode.env, episode.policy, episode.task_id, episode.success) == ("maze", "walker", "7", True)
    assert episode.id == "runs.v1/walker/7"


def test_a_null_says_nothing_and_a_budget_that_ran_out_is_no_end(tmp_path: Path) -> None:
    rows = [{**ROW, "dataset": None, "policy": None, "trial": None}, {**ROW, "truncated": True}]
    first, second = imported(tmp_path, *rows)
    assert (first.env, first.policy, first.id) == ("imported", "runs.v1", "runs.v1/runs.v1/7")
    assert (first.terminated, first.truncated) == (True, False)
    assert (second.terminated, second.truncated) == (False, True)


def test_ids_are_unique_and_the_same_every_time(tmp_path: Path) -> None:
    rows = [ROW, ROW, {**ROW, "trial": 1}, {**ROW, "trial": 1}, {**ROW, "policy": "other"}]
    ids = [episode.id for episode in imported(tmp_path, *rows)]
    assert len(set(ids)) == len(rows)
    assert ids == [episode.id for episode in imported(tmp_path, *rows)]


def test_an_unknown_reward_stays_unknown(tmp_path: Path) -> None:
    (episode,) = imported(tmp_path, {**ROW, "reward": None, "success": None})
    assert math.isnan(episode.episode_return)
    assert [step.reward for step in episode.steps[:-1]] == [0.0, 0.0]
    assert (episode.success, episode.terminated, episode.meta["reward"]) == (None, False, "missing")


@pytest.mark.parametrize(
    ("total", "expected", "noted"),
    [(0.75, [0.25, 0.0, 0.5], False), (None, [0.25, 0.0, 0.5], False), (1.0, [0.0, 0.0, 1.0], True)],
)
def test_rewards_of_the_steps_count_where_they_add_up(
    tmp_path: Path, total: float | None, expected: list[float], noted: bool
) -> None:
    steps = [{**step, "reward": reward} for step, reward in zip(ROW["steps"], [0.25, 0.0, 0.5], strict=True)]
    (episode,) = imported(tmp_path, {**ROW, "steps": steps, "reward": total})
    assert [step.reward for step in episode.steps] == expected
    assert (episode.meta.get("steps.reward") == "[0.25, 0.0, 0.5]") == noted
    assert "reward" not in episode.meta


def test_extras_are_kept_and_options_win(tmp_path: Path) -> None:
    row = {**ROW, "note": "x", "info": {"f1": 0.8, "n": [1]}, "nothing": None}
    (episode,) = imported(tmp_path, row, policy="mine", env="e", split="dev", reward="info.f1", score="info.f1")
    thoughts, calls = (json.loads(episode.meta.pop(f"steps.{name}")) for name in ("thought", "tool_calls"))
    assert [bool(thought) for thought in thoughts] == ["thought" in step for step in ROW["steps"]]
    assert calls == [step.get("tool_calls") for step in ROW["steps"]]
    assert episode.meta == {"note": "x", "info": '{"f1": 0.8, "n": [1]}'}
    assert (episode.policy, episode.env, episode.split, episode.score) == ("mine", "e", "dev", 0.8)
    assert episode.episode_return == 0.8


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"steps": "none"}, "line 2: steps: "),
        ({"steps": [{"observation": "x"}]}, "line 2: a step with neither 'action' nor 'tool_calls'"),
        ({"steps": [{"action": "x", "tool_calls": [{"arguments": "{}"}]}]}, "line 2: a tool call without a name"),
        ({"task_id": None}, "line 2: task_id: "),
        ({"reward": "high"}, "line 2: reward: "),
        ({"reward": math.nan}, "line 2: reward: Input should be a finite number"),
        ({"steps": [{"action": "x", "reward": -math.inf}]}, "line 2: steps.0.reward: Input should be a finite"),
        ({"steps": [], "reward": 1.0}, "line 2: a reward of 1, but no step"),
    ],
)
def test_a_bad_row_is_named_by_line_and_reason(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        imported(tmp_path, ROW, {**ROW, **change})
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_reward_field_that_is_not_there_is_a_bad_row(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 1: it has no field 'info.score'"):
        imported(tmp_path, {**ROW, "info": {}}, reward="info.score")


def test_an_empty_action_is_an_action(tmp_path: Path) -> None:
    (episode,) = imported(tmp_path, {**ROW, "steps": [{"action": None, "tool_calls": [], "observation": "?"}]})
    assert (episode.steps[0].action, episode.final_observation) == ("", "?")


FILES = [
    "agenttraj_sciworld",
    "agenttraj_webshop",
    "fireact_hotpotqa",
    "knowagent_alfworld",
    "mint_alfworld",
    "tau_bench_airline",
]


@pytest.mark.data
def test_science_world_solutions_begin_with_what_was_seen_first(shared_data: Path) -> None:
    path = shared_data / "scienceworld" / "gold_trajectories.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for row, episode in zip(rows, logs.read("episodes", path), strict=True):
        assert episode.steps[0].observation == row["initial_observation"]
        assert episode.goal == row["task"]
        assert [step.action for step in episode.steps] == [step["action"] for step in row["steps"]]


@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_the_real_files_count_the_same_before_and_after(shared_data: Path, tmp_path: Path, name: str) -> None:
    path = shared_data / "trajectories" / f"{name}.jsonl.gz"
    expected: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            entry = expected[row["policy"]]
            entry[0] += 1
            entry[1] += len(row["steps"])
            entry[2] += math.nan if row["reward"] is None else row["reward"]
    with store.StoreWriter(tmp_path, flush_every=1000) as writer:
        for episode in logs.read("episodes", path):
            writer.append(episode)
    store.check_unique(tmp_path)
    totals: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for row in store.scan(tmp_path, ["policy", "length", "return"]).to_pylist():
        entry = totals[row["policy"]]
        entry[0] += 1
        entry[1] += row["length"]
        entry[2] += row["return"]
    assert {policy: pytest.approx(entry, nan_ok=True) for policy, entry in expected.items()} == totals


def test_log_probs_token_ids_and_ids_are_kept(tmp_path: Path) -> None:
    given = {"logprob": -0.5, "token_ids": [4, 5], "token_logprobs": [-0.2, -0.3], "entropy": 0.1, "prompt_ids": [1]}
    steps = [{**step, **given, "valid": False} for step in ROW["steps"]]
    own = "3f2a9c1d4e5b60718293a4b5c6d7e8f9"
    long, short = imported(
        tmp_path, {**ROW, "id": own, "steps": steps, "epsilon": 0.2}, {**ROW, "id": 7, "steps": steps}
    )
    assert long.id == own and long.epsilon == 0.2 and "id" not in long.meta
    assert short.id.endswith("/7") and short.meta["id"] == "7"
    for step in (*long.steps, *short.steps):
        assert (step.logprob, step.entropy, step.valid) == (-0.5, 0.1, False)
        assert (step.token_ids, step.token_logprobs, step.prompt_ids) == ((4, 5), (-0.2, -0.3), (1,))
