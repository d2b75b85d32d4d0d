"""--map: rows of nobody's format, read by where the user says things are."""

import json
from pathlib import Path
from typing import Any

import pytest

from worldline import logs, store
from worldline.cli import main
from worldline.types import InputError, Trajectory

ROW = {
    "run": "r1",
    "agent": {"name": "v3"},
    "question": {"id": 12, "text": "Where?"},
    "score": 0.75,
    "state": {
        "history": [
            {"content": "start", "do": "go", "why": "hm", "lp": -0.25},
            {"content": {"room": 2}, "do": ["look", 1], "why": None, "lp": -0.5},
        ],
        "end": "done",
    },
    "note": "kept",
}
STEPS = ["observation=state.history[].content", "action=state.history[].do"]


def imported(folder: Path, row: Any, *entries: str, format_: str = "auto") -> list[Trajectory]:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps(row))
    return list(logs.read(format_, path, options=logs.Options(map=entries)))


def test_every_field_is_where_the_mapping_says(tmp_path: Path) -> None:
    entries = [
        "reward=score", "task_id=question.id", "goal=question.text", "policy=agent.name", "thought=state.history[].why",
        "logprob=state.history[].lp", "final_observation=state.end", "meta.end=state.end",
    ]  # packed lines read better  # fmt: skip
    (episode,) = imported(tmp_path, ROW, *STEPS, *entries)
    assert [step.observation for step in episode.steps] == ["start", '{"room": 2}']
    assert [step.action for step in episode.steps] == ["go", '["look", 1]']
    assert [step.logprob for step in episode.steps] == [-0.25, -0.5]
    assert [step.reward for step in episode.steps] == [0.0, 0.75]
    assert (episode.task_id, episode.policy, episode.goal) == ("12", "v3", "Where?")
    assert episode.final_observation == "done"
    assert episode.meta == {"run": "r1", "note": "kept", "end": "done", "steps.thought": '["hm", ""]'}


def test_observations_before_after_and_one_more(tmp_path: Path) -> None:
    row = {"task_id": "t", "goal": "g", "seen": ["a", "b", "c"], "did": ["x", "y"], "r": [0.5, 1.0]}
    (one,) = imported(tmp_path, row, "observation=seen[]", "action=did[]", "rewards=r[]")
    assert ([step.observation for step in one.steps], one.final_observation) == (["a", "b"], "c")
    assert [step.reward for step in one.steps] == [0.5, 1.0]
    (after,) = imported(tmp_path, {**row, "seen": ["b", "c"]}, "next_observation=seen[]", "action=did[]")
    assert ([step.observation for step in after.steps], after.final_observation) == (["g", "b"], "c")
    with pytest.raises(InputError, match="4 observations do not fit 2 actions"):
        imported(tmp_path, {**row, "seen": list("abcd")}, "observation=seen[]", "action=did[]")


def test_messages_may_be_mapped_and_a_known_format_may_be_mended(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    (chat,) = imported(
        tmp_path, {"data": {"turns": messages}, "out": {"r": 1.0}}, "messages=data.turns", "reward=out.r"
    )
    assert [step.action for step in chat.steps] == ["yes"] and chat.episode_return == 1.0
    (mended,) = imported(tmp_path, {"messages": messages, "out": {"r": 0.5}, "who": "v9"}, "reward=out.r", "policy=who")
    assert (mended.episode_return, mended.policy) == (0.5, "v9")


def test_wrong_mappings_are_refused(tmp_path: Path) -> None:
    for entry, reason in (
        ("reward", "write FIELD=PATH"),
        ("rewrd=score", "unknown field 'rewrd': did you mean 'reward'"),
        ("reward=", "write FIELD=PATH"),
        ("reward=a..b", "is no path"),
    ):
        with pytest.raises(InputError, match=reason):
            imported(tmp_path, ROW, entry)
    with pytest.raises(InputError, match="is mapped twice"):
        imported(tmp_path, ROW, "reward=score", "reward=score")
    with pytest.raises(InputError, match="line 1: it has no field 'state.score'"):
        imported(tmp_path, ROW, *STEPS, "reward=state.score")


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW))
    words = ["import", str(tmp_path / "rows.jsonl"), "--out", str(tmp_path / "log"), "--env", "maze", "--json"]
    assert main(words) == 2
    line = capsys.readouterr().err
    assert "no format we know: its rows have the fields run, agent, question, score, state, note" in line
    assert "--map action=PATH observation=PATH reward=PATH task_id=PATH" in line
    assert main([*words, "--map", *STEPS, "--map", "reward=score", "task_id=question.id"]) == 0
    assert "rows.jsonl: read as map" in capsys.readouterr().err
    (episode,) = store.read(tmp_path / "log")
    assert (episode.env, episode.task_id, episode.episode_return) == ("maze", "12", 0.75)


def test_steps_are_mapped_whole_or_field_by_field(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--map action: the mapped steps have their own"):
        imported(tmp_path, ROW, "steps=state.history", "action=state.history[].do")


def rows_file(folder: Path, *logged: list[dict[str, Any]]) -> Path:
    path = folder / "rows.jsonl"
    rows = ({"task": str(k), "log": items, "score": 1.0} for k, items in enumerate(logged))
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_misspelt_path_of_the_steps_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rows_file(tmp_path, [], *[[{"act": "a", "obs": "o"}, {"act": "b"}]] * 3)
    words = ["import", str(path), "--out", str(tmp_path / "log"), "--map", "reward=score", "task_id=task"]
    for entries, field, text in (
        (["action=log[].acts", "observation=log[].obs"], "action", "log[].acts"),
        (["action=log[].act", "observation=log[].obz"], "observation", "log[].obz"),
        (["action=log[].act", "meta.lp=log[].lp"], "meta.lp", "log[].lp"),
    ):
        assert main([*words, *entries, "--skip-bad"]) == 2
        line = f"{path}: --map {field}: in every row no item has '{text}': they have act, obs: mend the path"
        assert line in capsys.readouterr().err
        assert not (tmp_path / "log").exists()


def test_a_key_that_only_some_items_have_is_read(tmp_path: Path) -> None:
    path = rows_file(tmp_path, [{"act": "a"}], [{"act": None, "obs": "o"}, {"act": "b"}])
    options = logs.Options(map=("action=log[].act", "observation=log[].obs", "task_id=task"))
    episodes = list(logs.read("auto", path, options=options))
    assert [[(step.observation, step.action) for step in one.steps] for one in episodes] == [
        [("", "a")],
        [("o", ""), ("", "b")],
    ]


def test_an_episode_without_any_action_is_a_bad_row(tmp_path: Path) -> None:
    path = rows_file(tmp_path, [{"act": "a"}], [{"obs": "o"}])
    with pytest.raises(InputError, match=r"rows.jsonl: line 2: no item has 'log\[\].act': they have obs"):
        list(logs.read("auto", path, options=logs.Options(map=("action=log[].act",))))
