"""What `openenv collect` writes, after its own README: results.jsonl and metadata.json."""

import json
from pathlib import Path

from worldline import logs, store
from worldline.cli import main

ROW = {
    "episode_id": "ep-0",
    "messages": [
        {"role": "user", "content": "Your move."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c", "function": {"name": "play", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "you won"},
    ],
    "reward": 1.0,
    "done": True,
    "tool_trace": [{"tool_name": "play", "arguments": {}, "result": {"data": "you won", "done": True}}],
    "metrics": {"turns": 1},
    "verify_metrics": {"step_count": 1},
    "artifacts": {"board": "x"},
    "task": {"seed": 7},
    "extra": {"who": "me"},
}


def test_two_runs_with_the_same_names_go_into_one_log(tmp_path: Path) -> None:
    for run, model in (("a", "gpt-5-mini"), ("b", "qwen")):
        (tmp_path / run).mkdir()
        (tmp_path / run / "results.jsonl").write_text(
            json.dumps(ROW) + "\n" + json.dumps({**ROW, "episode_id": "ep-1"})
        )
        (tmp_path / run / "metadata.json").write_text(json.dumps({"env": "openspiel", "model": model}))
    words = ["import", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "log"), "--json"]
    assert main(words) == 0
    episodes = list(store.read(tmp_path / "log"))
    assert {episode.id for episode in episodes} == {"a/ep-0", "a/ep-1", "b/ep-0", "b/ep-1"}
    assert {(episode.env, episode.task_id) for episode in episodes} == {("openspiel", "7")}
    first = episodes[0]
    assert (first.steps[0].observation, first.steps[0].action) == ("Your move.", "play({})")
    assert (first.final_observation, first.terminated, first.episode_return) == ("you won", True, 1.0)
    assert first.meta["metrics.step_count"] == "1" and first.meta["who"] == "me"


def test_without_metadata(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text(json.dumps({**ROW, "task": None}))
    (episode,) = logs.read("auto", tmp_path / "mine.jsonl")
    assert (episode.policy, episode.env, episode.meta["id"]) == ("mine", "openenv", "ep-0")
