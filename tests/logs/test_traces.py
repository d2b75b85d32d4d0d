"""Traces for the Hugging Face Hub, line by line as its "session traces format" says."""

import json
from pathlib import Path

import pytest

from worldline import logs, store
from worldline.cli import main
from worldline.logs.traces import trace
from worldline.types import InputError, Step, Trajectory

CHAT = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": "One moment.", "reasoning_content": "I need a clock.",
         "tool_calls": [{"id": "t1", "function": {"name": "get_time", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "t1", "content": "15:00"},
        {"role": "assistant", "content": "It is 15:00."},
    ],
    "reward": 1.0, "task_id": "clock", "policy": "v3",
}  # packed lines read better  # fmt: skip


def test_a_chat_comes_out_as_it_went_in(tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text(json.dumps(CHAT))
    (episode,) = logs.read("auto", tmp_path / "chat.jsonl")
    header, *lines = trace(episode)
    assert (header["type"], header["harness"], header["id"]) == ("session", "worldline", episode.id)
    messages = [line["message"] for line in lines]
    assert [(message["role"], message["content"]) for message in messages] == [
        (message["role"], message["content"]) for message in CHAT["messages"]
    ]
    assert messages[2]["reasoningContent"] == "I need a clock."
    assert messages[2]["toolCalls"] == [{"id": "t1", "function": {"name": "get_time", "arguments": "{}"}}]
    assert messages[3]["toolCallId"] == "t1"
    assert {line["type"] for line in lines} == {"message"}


def test_an_episode_of_an_environment(tmp_path: Path) -> None:
    steps = (
        Step(observation="a room", action="go"),
        Step(observation="a hall", action="take", response="Think.\ntake"),
    )
    episode = Trajectory(
        id="a/b c", env="e", task_id="t", goal="find it", policy="p", steps=steps, final_observation="you have it"
    )
    messages = [line["message"] for line in list(trace(episode))[1:]]
    assert [(message["role"], message["content"]) for message in messages] == [
        ("user", "find it"),
        ("user", "a room"),
        ("assistant", "go"),
        ("user", "a hall"),
        ("assistant", "Think.\ntake"),
        ("user", "you have it"),
    ]
    assert logs.export_traces([episode], tmp_path / "traces") == 1
    (file,) = (tmp_path / "traces").iterdir()
    assert file.name == "000001-a_b_c.jsonl"
    assert [json.loads(line) for line in file.read_text().splitlines()] == list(trace(episode))
    with pytest.raises(InputError, match="a new or empty folder"):
        logs.export_traces([episode], tmp_path / "traces")


def test_export_writes_each_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    words = ["collect", "household", "--options.level", "tiny", "--policy", "random", "--episodes", "5"]
    assert main([*words, "--out", str(log), "--json"]) == 0
    for name, form in (("x.jsonl", "jsonl"), ("x.parquet", "parquet"), ("x", "traces")):
        out = str(tmp_path / name)
        assert (
            main(["export", str(log), "--out", out, "--json", *(["--format", form] if form == "traces" else [])]) == 0
        )
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["format"] == form
    assert list(store.read(tmp_path / "x.parquet")) == list(store.read(log))
    assert len(list((tmp_path / "x").iterdir())) == 5
    assert main(["import", str(tmp_path / "x.parquet"), "--out", str(tmp_path / "again")]) == 2
    assert "is a worldline log as it is" in capsys.readouterr().err
