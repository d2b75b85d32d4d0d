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
    assert (episode.policy, episode.task_id, episode.env, episode.success) == ("m", "t", "imported", None)
    calls = json.loads(episode.meta.pop("steps.tool_calls"))
    assert calls == [[{"id": "1", "name": "find", "arguments": '{"user": "mia"}'}], []]
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


def test_thoughts_tool_calls_log_probs_and_token_ids_are_kept(tmp_path: Path) -> None:
    openai = {
        **CALL,
        "reasoning": "Who is it?",
        "token_ids": [7, 8],
        "logprobs": {"content": [{"token": "a", "logprob": -0.5}] * 2},
    }
    anthropic = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Cancel it."},
            {"type": "text", "text": "One moment."},
            {"type": "tool_use", "id": "u1", "name": "cancel", "input": {"flight": 12}},
        ],
    }
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "u1", "content": "done"}]}
    row = {"messages": [USER, openai, ANSWER, anthropic, result, {**DONE, "logprobs": [-0.1]}], "reward": 1.0}
    (episode,) = imported(tmp_path / "a.jsonl", [row])
    assert [step.action for step in episode.steps] == [
        'find({"user": "mia"})',
        'cancel({"flight": 12})',
        "It is cancelled.",
    ]
    assert [step.observation for step in episode.steps] == ["Cancel my flight.", "flight 12", "done"]
    assert episode.steps[1].response == 'Cancel it.\nOne moment.\ncancel({"flight": 12})'
    assert json.loads(episode.meta["steps.thought"]) == ["Who is it?", "Cancel it.", ""]
    calls = json.loads(episode.meta["steps.tool_calls"])
    assert [[call["name"] for call in own] for own in calls] == [["find"], ["cancel"], []]
    assert [step.token_logprobs for step in episode.steps] == [(-0.5, -0.5), None, (-0.1,)]
    assert episode.steps[0].token_ids == (7, 8)
    assert [step.logprob for step in episode.steps] == [None] * 3  # at which temperature, the tokens do not say


def test_log_probs_that_are_none_are_a_bad_row(tmp_path: Path) -> None:
    row = {"messages": [USER, {**DONE, "logprobs": ["high"]}], "reward": 1.0}
    with pytest.raises(InputError, match="line 1: its logprobs are neither numbers nor objects"):
        imported(tmp_path / "a.jsonl", [row])
