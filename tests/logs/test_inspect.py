"""Inspect's logs, built here byte by byte in the two forms it writes them in."""

import json
import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from worldline import logs
from worldline.types import InputError, Trajectory

HEADER = {
    "version": 2,
    "status": "success",
    "eval": {"task": "arith", "task_version": 3, "model": "mockllm/model", "created": "2026-01-01T00:00:00+00:00"},
    "results": {"scores": [], "headline": {"scorer": "match", "score": "match", "metric": "accuracy"}},
}
MESSAGES = [
    {"id": "a", "role": "system", "content": "Be brief."},
    {"id": "b", "role": "user", "content": "What is 1+1?", "source": "input"},
    {
        "id": "c",
        "role": "assistant",
        "content": [{"type": "reasoning", "reasoning": "Add."}, {"type": "text", "text": ""}],
        "tool_calls": [{"id": "x", "function": "add", "arguments": {"x": 1, "y": 1}, "type": "function"}],
    },
    {"id": "d", "role": "tool", "content": "2", "tool_call_id": "x", "function": "add"},
    {"id": "e", "role": "assistant", "content": "The answer is 2"},
]


def sample(name: str | int, epoch: int = 1, **fields: Any) -> dict[str, Any]:
    scores = {"includes": {"value": "I"}, "match": {"value": "C", "answer": "2"}}
    return {
        "id": name,
        "epoch": epoch,
        "target": "2",
        "messages": MESSAGES,
        "scores": scores,
        "attachments": {},
        **fields,
    }


def zstd_archive(entries: dict[str, Any]) -> bytes:
    """A zip of Zstandard entries (method 93), as Inspect writes it and as Python's zipfile cannot."""
    body, directory = b"", b""
    for name, value in entries.items():
        data = json.dumps(value).encode()
        packed = pa.compress(data, codec="zstd", asbytes=True)
        common = struct.pack("<HHHHHIIIHH", 63, 0, 93, 0, 33, zlib.crc32(data), len(packed), len(data), len(name), 0)
        directory += (
            b"PK\x01\x02"
            + struct.pack("<H", 63)
            + common
            + struct.pack("<HHHII", 0, 0, 0, 0, len(body))
            + name.encode()
        )
        body += b"PK\x03\x04" + common + name.encode() + packed
    count = len(entries)
    return body + directory + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, count, count, len(directory), len(body), 0)


def write(path: Path, form: str, samples: list[dict[str, Any]]) -> Path:
    entries = {f"samples/{one['id']}_epoch_{one['epoch']}.json": one for one in samples}
    if form == "json":
        path.write_text(json.dumps({**HEADER, "samples": samples}))
    elif form == "zstd":
        path.write_bytes(zstd_archive({"_journal/start.json": {}, **entries, "header.json": HEADER}))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            start = {"version": 2, "eval": HEADER["eval"]}
            archive.writestr("_journal/start.json", json.dumps(start))
            for name, value in entries.items():
                archive.writestr(name, json.dumps(value))
            if form == "deflate":
                archive.writestr("header.json", json.dumps(HEADER))
    return path


def imported(path: Path, *samples: dict[str, Any], **options: str) -> list[Trajectory]:
    return list(logs.read("inspect", write(path, "json", list(samples)), options=logs.Options(**options)))


@pytest.mark.parametrize("form", ["zstd", "deflate", "json"])
def test_a_sample_of_an_epoch_is_an_episode(tmp_path: Path, form: str) -> None:
    path = write(tmp_path / "log.eval", form, [sample("s1"), sample("s1", 2), sample(2)])
    episodes = list(logs.read("inspect", path))
    assert [episode.id for episode in episodes] == [f"log/mockllm/model/{name}" for name in ("s1/1", "s1/2", "2/1")]
    first = episodes[0]
    assert (first.env, first.env_version, first.policy, first.task_id) == ("arith", "3", "mockllm/model", "s1")
    assert [(step.observation, step.action) for step in first.steps] == [
        ("What is 1+1?", 'add({"x": 1, "y": 1})'),
        ("2", "The answer is 2"),
    ]
    assert first.steps[0].response == 'Add.\nadd({"x": 1, "y": 1})'
    assert (first.episode_return, first.success, first.terminated) == (1.0, True, True)
    assert first.meta["system"] == "Be brief."
    assert json.loads(first.meta["scores"]) == {"includes": "I", "match": "C"}


def test_a_log_whose_run_was_killed_has_only_the_journal(tmp_path: Path) -> None:
    path = write(tmp_path / "log.eval", "killed", [sample("s1")])
    (episode,) = logs.read("inspect", path)
    assert (episode.env, episode.success) == ("arith", False)  # no headline: the first scorer counts


def test_the_scorer_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    several = sample("s", scores={"rubric": {"value": {"style": 0.25, "facts": True}}, "match": {"value": "P"}})
    assert imported(path, several, reward="match")[0].episode_return == 0.5
    assert imported(path, several, reward="match", score="rubric.style")[0].score == 0.25
    assert imported(path, several, reward="rubric.style")[0].episode_return == 0.25
    assert imported(path, several, reward="rubric.facts")[0].success is True
    for field, reason in (("matsch", "did you mean 'match'"), ("rubric", "rubric.style"), ("rubric.x", "no field 'x'")):
        with pytest.raises(InputError, match=reason):
            imported(path, several, reward=field)
    with pytest.raises(InputError, match="sample 1: its score is 'fine', which is no number"):
        imported(path, sample("s", scores={"match": {"value": "fine"}}))


def test_limits_and_errors_are_told_apart(tmp_path: Path) -> None:
    limited = sample("l", limit={"type": "message", "limit": 6.0})
    failed = sample("f", scores={}, error={"message": "boom", "traceback": "..."})
    first, second = imported(tmp_path / "log.json", limited, failed)
    assert (first.terminated, first.truncated, first.meta["limit"]) == (False, True, "message")
    assert (second.terminated, second.truncated, second.success, second.meta["error"]) == (False, False, None, "boom")
    assert math.isnan(second.episode_return)
    assert second.meta["reward"] == "missing"


def test_long_texts_are_fetched_from_the_attachments_and_tool_errors_are_seen(tmp_path: Path) -> None:
    failing = {"role": "tool", "content": "", "error": {"type": "parsing", "message": "no such tool"}}
    messages = [{"role": "user", "content": "attachment://abc"}, *MESSAGES[2:3], failing]
    (episode,) = imported(tmp_path / "log.json", sample("s", messages=messages, attachments={"abc": "a long text"}))
    assert episode.steps[0].observation == episode.goal == "a long text"
    assert episode.final_observation == "no such tool"


def test_what_is_no_inspect_log_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    path.write_text('{"a": 1}')
    with pytest.raises(InputError, match=r"x.eval: no Inspect log: it has no 'eval'"):
        list(logs.read("inspect", path))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "hello")
    with pytest.raises(InputError, match=r"x.eval: no Inspect log: the archive has no header.json"):
        list(logs.read("inspect", path))


def test_an_archive_that_is_cut_off(tmp_path: Path) -> None:
    path = write(tmp_path / "log.eval", "zstd", [sample("s1")])
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"log.eval: the archive is cut off or corrupt"):
        list(logs.read("inspect", path))


def test_a_damaged_sample_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    data = bytearray(
        zstd_archive({"samples/a.json": sample("a"), "samples/b.json": sample("b"), "header.json": HEADER})
    )
    start = data.index(b"samples/a.json") + len("samples/a.json")
    data[start : start + 8] = b"\xff" * 8
    path.write_bytes(bytes(data))
    bad: list[logs.BadRow] = []
    assert [episode.task_id for episode in logs.read("inspect", path, on_bad=bad.append)] == ["b"]
    assert [row.where for row in bad] == ["samples/a.json"]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"scores": {"match": {"value": [1, 2]}}}, "its score is '[1, 2]', which is no number"),
        ({"scores": {"match": {"value": 10**400}}}, "a number that is too large"),
        ({"scores": {"match": {"value": float("inf")}}}, "its score is 'inf'"),
        ({"scores": [1]}, "scores: Input should be a valid dictionary"),
        ({"attachments": ["a"]}, "its attachments are no object"),
        ({"messages": {"a": 1}}, "messages: Input should be a valid list"),
        ({"metadata": {"a": json.loads("[" * 900 + "]" * 900)}, "attachments": {"a": "b"}}, "nested too deeply"),
    ],
)
@pytest.mark.parametrize("form", ["json", "deflate"])
def test_a_sample_that_is_no_episode_is_named_and_costs_no_other(
    tmp_path: Path, form: str, fields: dict[str, Any], reason: str
) -> None:
    path = write(tmp_path / "log.eval", form, [sample("a"), sample("b", **fields), sample("c")])
    bad: list[logs.BadRow] = []
    assert [episode.task_id for episode in logs.read("inspect", path, on_bad=bad.append)] == ["a", "c"]
    assert [row.where for row in bad] == ["sample 2" if form == "json" else "samples/b_epoch_1.json"]
    assert reason in bad[0].reason


def test_a_sample_that_was_never_scored_has_no_reward(tmp_path: Path) -> None:
    (episode,) = imported(tmp_path / "log.json", sample("s", scores={"match": {"value": float("nan")}}))
    assert (math.isnan(episode.episode_return), episode.meta["reward"]) == (True, "missing")


@pytest.mark.parametrize("headline", ["match", ["match"], 3, {"scorer": None}, {}])
def test_a_headline_of_another_shape_names_no_scorer(tmp_path: Path, headline: object) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({**HEADER, "results": {"headline": headline}, "samples": [sample("s")]}))
    (episode,) = logs.read("inspect", path)
    assert episode.success is False  # the first scorer counts


@pytest.mark.parametrize("header", [[], "text", {"eval": []}, {"eval": {"task": "t"}}, {"eval": None}])
def test_a_header_of_another_shape_is_one_line(tmp_path: Path, header: object) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("samples/a.json", json.dumps(sample("a")))
    with pytest.raises(InputError, match=r"log.eval: no Inspect log: its 'eval' does not name a task and a model"):
        list(logs.read("inspect", path))


@pytest.mark.parametrize("samples", [{"a": 1}, "text", 3])
def test_samples_that_are_no_list(tmp_path: Path, samples: object) -> None:
    (tmp_path / "log.json").write_text(json.dumps({**HEADER, "samples": samples}))
    with pytest.raises(InputError, match=r"log.json: no Inspect log: its 'samples' are no list"):
        list(logs.read("inspect", tmp_path / "log.json"))


def changed(path: Path, mark: bytes, offset: int, value: bytes) -> Path:
    """The archive with bytes changed at an offset from the last `mark`."""
    data = bytearray(path.read_bytes())
    start = data.rindex(mark) + offset
    data[start : start + len(value)] = value
    path.write_bytes(bytes(data))
    return path


def test_an_archive_of_an_unknown_version_or_compression(tmp_path: Path) -> None:
    directory = b"PK\x01\x02"
    path = changed(write(tmp_path / "log.eval", "deflate", [sample("s1")]), directory, 6, struct.pack("<H", 99))
    with pytest.raises(InputError, match=r"log.eval: the archive is cut off or corrupt: zip file version 9.9"):
        list(logs.read("inspect", path))
    path = changed(write(tmp_path / "log.eval", "deflate", [sample("s1")]), directory, 10, struct.pack("<H", 14))
    with pytest.raises(InputError, match=r"log.eval: header.json: compressed by method 14"):
        list(logs.read("inspect", path))


@pytest.mark.parametrize("form", ["zstd", "deflate"])
def test_an_entry_that_unfolds_to_more_than_it_claims_or_may(tmp_path: Path, form: str) -> None:
    large = sample("large", target="x" * (1 << 20))
    for size, reason in ((100, ""), (65 << 20, "a sample of over 64 MiB")):
        path = write(tmp_path / "log.eval", form, [sample("s"), large])
        directory = path.read_bytes().rindex(b"samples/large")
        data = bytearray(path.read_bytes())
        data[directory - 22 : directory - 18] = struct.pack("<I", size)
        path.write_bytes(bytes(data))
        bad: list[logs.BadRow] = []
        assert [episode.task_id for episode in logs.read("inspect", path, on_bad=bad.append)] == ["s"]
        assert [row.where for row in bad] == ["samples/large_epoch_1.json"]
        assert reason in bad[0].reason
