"""Files as they come: compressed, cut off, half broken, empty, or not there."""

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from worldline import logs
from worldline.types import InputError

GOOD = json.dumps({"dataset": "d", "policy": "p", "task_id": "t", "task": "go", "steps": [], "reward": 0.0}).encode()


def plain(data: bytes) -> bytes:
    return data


@pytest.mark.parametrize("pack", [plain, gzip.compress, lzma.compress])
@pytest.mark.parametrize("name", ["log.jsonl", "log.anything"])
def test_compression_is_told_by_the_content(tmp_path: Path, pack: Callable[[bytes], bytes], name: str) -> None:
    (tmp_path / name).write_bytes(pack(b"\xef\xbb\xbf" + GOOD + b"\r\n\n" + GOOD))
    assert len(list(logs.read("episodes", tmp_path / name))) == 2
    (tmp_path / name).write_bytes(pack(b" [" + GOOD + b",\n" + GOOD + b"]"))
    assert len(list(logs.read("episodes", tmp_path / name))) == 2


def test_bad_rows_are_all_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\n".join([GOOD, b"{", b"", b'"text"', b"\xff\xfe", b'{"task_id": "t"}', b"[" * 100_000, GOOD]))
    bad: list[logs.BadRow] = []
    assert len(list(logs.read("episodes", path, on_bad=bad.append))) == 2
    assert logs.bad_rows("episodes", path) == bad
    assert [row.where for row in bad] == ["line 2", "line 4", "line 5", "line 6", "line 7"]
    assert "not JSON" in bad[0].reason
    assert "JSON object, this is str" in bad[1].reason
    assert "not UTF-8: 0xff at byte 1" in bad[2].reason
    assert "task: Field required (and 1 more)" in bad[3].reason
    with pytest.raises(InputError, match=r"log.jsonl: line 2: not JSON"):
        list(logs.read("episodes", path))


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_a_compressed_file_that_is_cut_off_gives_what_came_before(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    rows = [
        json.dumps({**json.loads(GOOD), "task_id": str(k), "noise": str(hash(k) ** 7)}).encode() for k in range(4000)
    ]
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(pack(b"\n".join(rows))[:-2000])
    bad: list[logs.BadRow] = []
    episodes = list(logs.read("episodes", path, on_bad=bad.append))
    assert 0 < len(episodes) < 4000
    assert [episode.task_id for episode in episodes] == [str(k) for k in range(len(episodes))]
    assert [row.where for row in bad] == [f"line {len(episodes) + 1}"]
    assert "cut off" in bad[0].reason


def test_bytes_after_the_magic_that_are_no_gzip(tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_bytes(b"\x1f\x8bhello")
    with pytest.raises(InputError, match="cut off or corrupt"):
        list(logs.read("episodes", tmp_path / "log.gz"))
    with pytest.raises(InputError, match=r"log\.gz: "):
        list(logs.read("inspect", tmp_path / "log.gz"))


def test_a_list_that_does_not_end(tmp_path: Path) -> None:
    (tmp_path / "log.json").write_bytes(b"[" + GOOD)
    with pytest.raises(InputError, match=r"log.json: not JSON: Expecting"):
        list(logs.read("chat", tmp_path / "log.json"))


def test_what_cannot_be_read_at_all(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"\n")
    for format_, path, reason in (
        ("episodes", tmp_path / "absent", "absent: no such file"),
        ("episodes", tmp_path, "a folder: give one file"),
        ("episodes", tmp_path / "empty.jsonl", "empty.jsonl: holds no episode"),
        ("inspct", tmp_path / "empty.jsonl", "unknown format 'inspct': did you mean 'inspect'"),
    ):
        with pytest.raises(InputError, match=reason):
            list(logs.read(format_, path))
