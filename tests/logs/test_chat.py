"""Conversations as steps: OpenAI's shape, its relatives, and tau-bench's result files."""

import json
from pathlib import Path
from typing import Any

import pytest

from worldline import logs
from worldline.types import InputError, Trajectory

SYSTEM = {"role": "system", "content": "You are an airline's agent."}
USER = {"role": "user", "content": "Cancel my flight."}
CALL = {
    "role": "assistant",
    "content": "Let me see.",
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "find", "arguments": '{"user": "mia"}'}}],
}
ANSWER = {"role": "tool", "tool_call_id": "1", "content": "flight 12"}
DONE = {"role": "assistant", "content": "It is cancelled."}
BYE = {"role": "user", "content": "###STOP###"}


def imported(path: Path, rows: Any, **options: str) -> list[Trajectory]:
    path.write_text("\n".join(map(json.dumps, rows)) if path.suffix == ".jsonl" else json.dumps(rows, indent=1))
    return list(logs.read("chat", path, options=logs.Options(**options)))


def test_what_came_in_is_the_observation_and_the_assistant_acts(tmp_path: Path) -> None:
    row = {"messages": [SYSTEM, USER, CALL, ANSWER, DONE, BYE], "reward": 1, "task_id": "t", "model": "m", "extra": 3}
    (episode,) = imported(tmp_path / "a.jsonl", [row])
    assert [step.observation for step in episode.steps] == ["Cancel my flight.", "flight 12"]
    assert [step.action for step in episode.steps] == ['find({"user": "mia"})', "It is cancelled."]
    assert [step.response for step in episode.steps] == ['Let me see.\nfind({"user": "mia"})', "It is cancelled."]
    assert [step.reward for step in episode.steps] == [0.0, 1.0]
    assert (episode.goal, episode.final_observation) == ("Cancel my flight.", "###STOP###")
    assert (episode.policy, episode.task_id, episode.env, episode.success) == ("m", "t", "a", None)
    assert episode.meta == {"extra": "3", "system": "You are an airline's agent."}


def test_a_tau_bench_file(tmp_path: Path) -> None:
    info = {"task": {"user_id": "mia", "instruction": "Cancel it.", "actions": []}, "reward_info": {"reward": 0.0}}
    traj = [SYSTEM, USER, {**CALL, "content": None, "function_call": None}, ANSWER, DONE, BYE]
    rows = [
        {"task_id": k, "reward": float(k), "info": info, "traj": traj, "trial": trial}
        for trial in (0, 1)
        for k in (0, 1)
    ]
    episodes = imported(tmp_path / "gpt-4.1-airline.json", rows, env="tau-airline")
    assert [(episode.task_id, episode.success, episode.episode_return) for episode in episodes] == [
        ("0", False, 0.0),
        ("1", True, 1.0),
    ] * 2
    assert episodes[2].id == "gpt-4.1-airline/gpt-4.1-airline/0/1"
    assert len({episode.id for episode in episodes}) == 4
    assert {episode.env for episode in episodes} == {"tau-airline"}
    assert json.loads(episodes[0].meta["info"]) == info
    assert episodes[0].steps[0].action == 'find({"user": "mia"})'


def test_the_reward_may_be_anywhere_in_the_row(tmp_path: Path) -> None:
    (episode,) = imported(
        tmp_path / "a.json", [{"messages": [USER, DONE], "eval": {"score": 0.25}}], reward="eval.score"
    )
    assert episode.episode_return == 0.25
    with pytest.raises(InputError, match=r"item 1: it has no field 'eval.reward'"):
        imported(tmp_path / "a.json", [{"messages": [USER, DONE], "eval": {}}], reward="eval.reward")


def test_tasks_without_a_name_are_named_by_what_they_open_with(tmp_path: Path) -> None:
    other = {"role": "user", "content": "Book a flight."}
    first, second, third = imported(
        tmp_path / "a.json",
        [{"messages": [user, DONE], "model": m} for user, m in ((USER, "x"), (USER, "y"), (other, "x"))],
    )
    assert first.task_id == second.task_id != third.task_id
    assert len({first.id, second.id, third.id}) == 3


@pytest.mark.parametrize(
    ("call", "action"),
    [
        ({"tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1}'}}]}, 'f({"a": 1})'),
        ({"tool_calls": [{"name": "f", "arguments": {"a": "ü"}}]}, 'f({"a": "ü"})'),
        ({"tool_calls": [{"function": "f", "arguments": {"a": 1}}]}, 'f({"a": 1})'),
        ({"tool_calls": [{"function": "f", "arguments": None}, {"name": "g"}]}, "f({})\ng({})"),
        ({"function_call": {"name": "f", "arguments": "{}"}}, "f({})"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image_url"}, "b"]}, "a\n[image_url]\nb"),
        ({"content": None}, ""),
    ],
)
def test_relatives_of_the_shape(tmp_path: Path, call: dict[str, Any], action: str) -> None:
    (episode,) = imported(tmp_path / "a.json", [{"messages": [USER, {"role": "assistant", **call}]}])
    assert episode.steps[0].action == action


def test_reasoning_is_part_of_the_response_alone(tmp_path: Path) -> None:
    parts = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Yes."}]
    for message in ({"content": parts}, {"content": "Yes.", "reasoning_content": "Hm."}):
        (episode,) = imported(tmp_path / "a.json", [{"messages": [USER, {"role": "assistant", **message}]}])
        assert (episode.steps[0].action, episode.steps[0].response) == ("Yes.", "Hm.\nYes.")


def test_several_answers_to_one_turn_are_one_observation(tmp_path: Path) -> None:
    (episode,) = imported(tmp_path / "a.json", [{"messages": [USER, CALL, ANSWER, ANSWER, DONE, DONE]}])
    assert [step.observation for step in episode.steps] == ["Cancel my flight.", "flight 12\nflight 12", ""]


def test_a_row_without_messages_is_a_bad_row(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="item 1: messages: Field required"):
        imported(tmp_path / "a.json", [{"prompt": "x"}])


@pytest.mark.parametrize(
    ("more", "logprob"),
    [
        ({"logprob": -1.5}, -1.5),
        ({"logprobs": {"content": [{"token": "a", "logprob": -0.25}, {"token": "b", "logprob": -0.5}]}}, -0.75),
        ({"logprobs": [-0.25, -0.5]}, -0.75),
        ({"logprobs": {"content": []}}, None),
        ({"logprobs": ["x"]}, None),
        ({}, None),
    ],
)
def test_log_probs_and_ids_are_kept(tmp_path: Path, more: dict[str, Any], logprob: float | None) -> None:
    row = {"id": 17, "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ok", **more}]}
    path = tmp_path / "chats.jsonl"
    path.write_text(json.dumps({**row, "reward": 1.0}))
    (episode,) = logs.read("chat", path)
    assert episode.id == "17"
    assert episode.steps[0].logprob == logprob
