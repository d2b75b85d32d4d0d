"""ATIF trajectories after the specification (v1.7): steps, tool calls, metrics, a trial's folder with its result."""

import json
from pathlib import Path
from typing import Any

import pytest

from worldline import logs, store
from worldline.cli import main
from worldline.types import InputError, Trajectory

TRAJECTORY: dict[str, Any] = {
    "schema_version": "ATIF-v1.7",
    "session_id": "run-1",
    "trajectory_id": "0123456789abcdef0123",
    "agent": {"name": "terminus-2", "version": "2.0.0", "model_name": "openai/gpt-5"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "You are in a shell."},
        {"step_id": 2, "source": "user", "message": "Count the files."},
        {"step_id": 3, "source": "agent", "message": "old", "is_copied_context": True},
        {"step_id": 4, "source": "agent", "message": "Let me look.", "reasoning_content": "ls will do",
         "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls | wc -l"}}],
         "observation": {"results": [{"source_call_id": "c1", "content": "3"}]},
         "metrics": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_token_ids": [1, 2, 3],
                     "completion_token_ids": [8, 9], "logprobs": [-0.1, -0.2], "cost_usd": 0.01}},
        {"step_id": 5, "source": "agent", "message": "", "llm_call_count": 0,
         "tool_calls": [{"tool_call_id": "c2", "function_name": "lint", "arguments": {}}],
         "observation": {"results": [{"content": [{"type": "text", "text": "clean"}]}, {"source_call_id": "c2"}]}},
        {"step_id": 6, "source": "agent", "message": "There are 3 files.", "llm_call_count": 1},
    ],
    "final_metrics": {"total_cost_usd": 0.03, "total_prompt_tokens": 12},
}  # packed lines read better  # fmt: skip
RESULT: dict[str, Any] = {
    "task_name": "count-files",
    "trial_name": "count-files__x1",
    "source": "terminal-bench",
    "agent_result": {"cost_usd": 0.04},
    "verifier_result": {"rewards": {"reward": 1.0, "partial": 0.5}},
    "exception_info": None,
}


def trial(folder: Path, result: dict[str, Any] | None = None, **changes: Any) -> Path:
    (folder / "agent").mkdir(parents=True)
    (folder / "agent" / "trajectory.json").write_text(json.dumps({**TRAJECTORY, **changes}, indent=2))
    if result is not None:
        (folder / "result.json").write_text(json.dumps(result))
    return folder / "agent" / "trajectory.json"


def imported(path: Path, **options: Any) -> Trajectory:
    (episode,) = logs.read("auto", path, options=logs.Options(**options))
    return episode


def test_a_trial_is_an_episode_with_its_result(tmp_path: Path) -> None:
    episode = imported(trial(tmp_path / "trial", RESULT))
    assert [step.action for step in episode.steps] == ['bash({"cmd": "ls | wc -l"})', "There are 3 files."]
    assert [step.observation for step in episode.steps] == ["Count the files.", "3\nclean"]
    assert episode.steps[0].response == 'ls will do\nLet me look.\nbash({"cmd": "ls | wc -l"})'
    assert (episode.steps[0].token_ids, episode.steps[0].token_logprobs) == ((8, 9), (-0.1, -0.2))
    assert episode.steps[0].prompt_ids == (1, 2, 3)
    assert json.loads(episode.meta["steps.thought"]) == ["ls will do", ""]
    assert (episode.policy, episode.env, episode.task_id) == (
        "terminus-2+openai/gpt-5",
        "terminal-bench",
        "count-files",
    )
    assert (episode.id, episode.success, episode.episode_return) == ("0123456789abcdef0123", True, 1.0)
    assert (episode.meta["cost"], episode.meta["total_cost_usd"]) == ("0.04", "0.03")
    assert imported(tmp_path / "trial" / "agent" / "trajectory.json", reward="partial").episode_return == 0.5


def test_without_a_result_the_reward_is_unknown(tmp_path: Path) -> None:
    episode = imported(trial(tmp_path / "trial", session_id="s", trajectory_id=None))
    assert episode.success is None and episode.meta["reward"] == "missing"
    assert episode.id == "trial/s" and episode.meta["id"] == "s"
    mapped = imported(trial(tmp_path / "other", extra={"score": 0.25}), map=["reward=extra.score"])
    assert mapped.episode_return == 0.25


def test_a_failed_trial(tmp_path: Path) -> None:
    failure = {**RESULT, "verifier_result": None, "exception_info": {"exception_type": "AgentTimeoutError"}}
    episode = imported(trial(tmp_path / "trial", failure))
    assert (episode.terminated, episode.truncated, episode.success) == (False, True, None)
    assert episode.meta["error"] == "AgentTimeoutError"


def test_a_jobs_folder_is_all_its_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "job"
    for number in range(3):
        name = {"trial_name": f"t{number}", "verifier_result": {"rewards": {"reward": float(number > 0)}}}
        trial(job / f"t{number}", {**RESULT, **name}, trajectory_id=f"{number:020d}")
    (job / "result.json").write_text(json.dumps({"n_total_trials": 3}))
    assert main(["import", str(job), "--out", str(tmp_path / "log"), "--json"]) == 0
    out = capsys.readouterr()
    assert json.loads(out.out)["episodes"] == 3
    assert "and 2 more: read as atif" in out.err
    assert sum(episode.episode_return for episode in store.read(tmp_path / "log")) == 2.0


def test_older_versions_and_lines_of_trajectories(tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    rows = [{**TRAJECTORY, "schema_version": f"ATIF-v1.{k}", "trajectory_id": f"{k:020d}"} for k in (0, 4, 7)]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert len(list(logs.read("auto", path))) == 3
    path.write_text(json.dumps({**TRAJECTORY, "steps": [{"source": "robot", "message": ""}]}))
    with pytest.raises(InputError, match="a step of source 'robot'"):
        list(logs.read("auto", path))
