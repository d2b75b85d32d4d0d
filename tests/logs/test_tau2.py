"""tau2-bench's results, after its own data model: `Results(info, tasks, simulations)`."""

import json
from pathlib import Path
from typing import Any

import pytest

from worldline import logs
from worldline.logs.importer import format_of
from worldline.types import InputError, Trajectory

INFO = {
    "git_commit": "abc",
    "num_trials": 2,
    "max_steps": 100,
    "max_errors": 10,
    "user_info": {"implementation": "user_simulator", "llm": "gpt-4.1"},
    "agent_info": {"implementation": "llm_agent", "llm": "gpt-4.1-mini"},
    "environment_info": {"domain_name": "telecom", "policy": "Be kind."},
}
MESSAGES: list[dict[str, Any]] = [
    {"role": "assistant", "content": "Hi! How can I help?", "tool_calls": None, "turn_idx": 0, "cost": 0.0},
    {"role": "user", "content": "No signal.", "tool_calls": None, "turn_idx": 1},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "name": "find", "arguments": {"n": 1}, "requestor": "assistant"},
        {"id": "c2", "name": "plan", "arguments": {}, "requestor": "assistant"}]},
    {"role": "tool", "tool_messages": [
        {"id": "c1", "role": "tool", "content": "line 1", "requestor": "assistant", "error": False},
        {"id": "c2", "role": "tool", "content": "basic", "requestor": "assistant", "error": True}]},
    {"role": "assistant", "content": "Switch it off and on.", "tool_calls": None},
    {"role": "user", "content": None, "tool_calls": [
        {"id": "u1", "name": "toggle", "arguments": {}, "requestor": "user"}]},
    {"id": "u1", "role": "tool", "content": "toggled", "requestor": "user", "error": False},
    {"role": "user", "content": "It works. ###STOP###", "tool_calls": None},
]  # packed lines read better  # fmt: skip


def simulation(number: int, task: str, reward: float | None, **more: Any) -> dict[str, Any]:
    return {
        "id": f"0c8f2c34-90ab-4cde-8f01-23456789ab{number:02d}", "task_id": task, "trial": number % 2,
        "seed": 300 + number, "start_time": "x", "end_time": "y", "duration": 1.5, "termination_reason": "user_stop",
        "agent_cost": 0.25,
        "user_cost": 0.1, "messages": MESSAGES,
        "reward_info": None if reward is None else {"reward": reward, "reward_breakdown": {"DB": reward}}, **more,
    }  # packed lines read better  # fmt: skip


def imported(path: Path, simulations: list[Any], indent: int | None = 2, **options: str) -> list[Trajectory]:
    path.write_text(
        json.dumps({"timestamp": "t", "info": INFO, "tasks": [], "simulations": simulations}, indent=indent)
    )
    return list(logs.read("auto", path, options=logs.Options(**options)))


@pytest.mark.parametrize("indent", [None, 2])
def test_a_simulation_is_an_episode_as_the_agent_saw_it(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "run.json"
    episodes = imported(path, [simulation(0, "t1", 1.0), simulation(1, "t1", 0.5)], indent)
    assert format_of(path) == "tau2"
    first, second = episodes
    assert [step.observation for step in first.steps] == ["", "No signal.", "line 1\nbasic"]
    assert [step.action for step in first.steps] == [
        "Hi! How can I help?",
        'find({"n": 1})\nplan({})',
        "Switch it off and on.",
    ]
    assert first.final_observation == "It works. ###STOP###"  # what the user did with its own tools is not seen
    assert (first.policy, first.env, first.env_version) == ("gpt-4.1-mini", "tau2-telecom", "abc")
    assert (first.success, second.success, second.episode_return) == (True, False, 0.5)
    assert first.id == simulation(0, "t1", 1.0)["id"] and first.seed == 300
    assert (first.terminated, first.truncated, first.meta["agent_cost"]) == (True, False, "0.25")


def test_ends(tmp_path: Path) -> None:
    rows = [
        simulation(0, "a", 0.0, termination_reason="max_steps"),
        simulation(1, "b", None, termination_reason="infrastructure_error"),
    ]
    late, broken = imported(tmp_path / "run.json", rows)
    assert (late.terminated, late.truncated) == (False, True)
    assert (broken.terminated, broken.truncated, broken.success) == (False, False, None)
    assert broken.meta["reward"] == "missing"


def test_voice_runs_and_broken_rows_are_named(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with pytest.raises(InputError, match="simulation 2: it has no messages: a voice simulation"):
        imported(path, [simulation(0, "a", 1.0), simulation(1, "b", 1.0, messages=None, ticks=[])])
    with pytest.raises(InputError, match="simulation 1: a message that is no object"):
        imported(path, [simulation(0, "a", 1.0, messages=[{"role": "tool", "tool_messages": [3]}])])
    path.write_text(json.dumps({"info": {"agent_info": 3}, "simulations": [1]}))
    with pytest.raises(InputError, match="no tau2 results: its 'info'"):
        list(logs.read("tau2", path))
