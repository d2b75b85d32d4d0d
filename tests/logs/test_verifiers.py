"""Rollouts of verifiers: v1's traces (a message graph per agent) and the older results, after its own types."""

import json
from pathlib import Path
from typing import Any

import pytest

from worldline import logs
from worldline.types import InputError, Trajectory

USER = {"role": "user", "content": "2 + 2?"}
CALL = {"role": "assistant", "content": None, "reasoning_content": "a sum",
        "tool_calls": [{"id": "c", "name": "add", "arguments": '{"a": 2}'}]}  # packed lines read better  # fmt: skip
TOOL = {"role": "tool", "tool_call_id": "c", "content": "4"}
DONE = {"role": "assistant", "content": "4"}


def node(parent: int | None, message: dict[str, Any], sampled: bool = False, **tokens: Any) -> dict[str, Any]:
    return {"parent": parent, "message": message, "sampled": sampled, "timestamp": 0.0, **tokens}


TRACE: dict[str, Any] = {
    "version": 1,
    "id": "6d9f1f0e7b7c4c0f8d9e0a1b2c3d4e5f",
    "task": {"type": "MathTask", "data": {"idx": 3, "prompt": "2 + 2?"}, "key": "sum-3", "hash": "h"},
    "agent": {"name": "solver", "config": {"harness": "x"}, "trainable": True},
    "nodes": [
        node(None, {"role": "assistant", "content": "An example."}),
        node(0, USER),
        node(1, {"role": "assistant", "content": "a branch that was left"}, True),
        node(1, CALL, True, token_ids=[1, 5, 6], mask=[False, True, True], logprobs=[-0.5, -0.25]),
        node(3, TOOL),
        node(4, DONE, True),
    ],
    "calls": [{"node": 3, "model": "qwen-3"}],
    "rewards": {"correct": {"score": 1.0, "weight": 0.5}, "format": {"score": 1.0, "weight": 0.25}, "skipped": None},
    "metrics": {"turns": 2.0},
    "is_completed": True,
    "ok": True,
    "stop_condition": "done",
    "errors": [],
}


def imported(path: Path, rows: list[Any], **options: str) -> list[Trajectory]:
    path.write_text("\n".join(map(json.dumps, rows)))
    return list(logs.read("auto", path, options=logs.Options(**options)))


def test_a_trace_is_the_path_to_its_last_message(tmp_path: Path) -> None:
    episode = {
        "id": "e",
        "env": {"id": "gsm8k"},
        "task": TRACE["task"],
        "ok": True,
        "traces": [TRACE, {**TRACE, "id": "f" * 32}],
    }
    first, second = imported(tmp_path / "traces.jsonl", [episode])
    assert [step.action for step in first.steps] == ['add({"a": 2})', "4"]
    assert [step.observation for step in first.steps] == ["An example.\n2 + 2?", "4"]
    assert (first.steps[0].token_ids, first.steps[0].token_logprobs) == ((5, 6), (-0.5, -0.25))
    assert first.episode_return == pytest.approx(0.75)
    assert (first.policy, first.env, first.task_id, first.terminated) == ("qwen-3", "gsm8k", "sum-3", True)
    assert (first.id, second.id) == (TRACE["id"], "f" * 32)
    assert first.meta["metrics.turns"] == "2.0" and json.loads(first.meta["steps.thought"]) == ["a sum", ""]


def test_older_results_with_their_metadata_and_tokens(tmp_path: Path) -> None:
    (tmp_path / "metadata.json").write_text(json.dumps({"model": "qwen-2", "env_id": "wordle"}))
    tokens = {"prompt_ids": [1], "completion_ids": [2, 3], "completion_logprobs": [-0.1, -0.2]}
    row = {
        "example_id": 4, "prompt": [{"role": "system", "content": "Play."}, USER], "completion": [CALL, TOOL, DONE],
        "reward": 0.5, "task": "default", "answer": "4", "metrics": {"m": 1.0}, "is_completed": True,
        "is_truncated": False, "trajectory": [{"tokens": tokens}, {"tokens": None}],
    }  # packed lines read better  # fmt: skip
    first, second = imported(tmp_path / "results.jsonl", [row, {**row, "reward": 1.0, "is_truncated": True}])
    assert (first.policy, first.env, first.task_id, first.episode_return) == ("qwen-2", "wordle", "4", 0.5)
    assert (first.steps[0].token_ids, first.steps[0].token_logprobs, first.steps[0].prompt_ids) == (
        (2, 3),
        (-0.1, -0.2),
        (1,),
    )
    assert first.steps[1].token_ids is None
    assert (second.truncated, second.id) == (True, first.id + "#2")
    assert first.meta["system"] == "Play." and first.meta["answer"] == "4"


def test_a_graph_that_leads_nowhere_is_a_bad_row(tmp_path: Path) -> None:
    for nodes in ([node(0, DONE, True)], [node(9, DONE, True)], [node(1, USER), node(0, DONE, True)]):
        with pytest.raises(InputError, match="do not lead from a root"):
            imported(tmp_path / "traces.jsonl", [{**TRACE, "nodes": nodes}])
    with pytest.raises(InputError, match="line 1: an episode without traces"):
        imported(tmp_path / "traces.jsonl", [{"task": {}, "env": {}, "traces": []}])
