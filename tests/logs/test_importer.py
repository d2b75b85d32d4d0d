"""Files as they come: compressed, cut off, half broken, empty, or not there."""

import gzip
import json
import lzma
import os
import subprocess
import sys
import zlib
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
    assert bad[3].reason == (
        "task, steps: Field required: 'task' is the instruction to the agent (--map goal=FIELD); "
        "'steps' is the list of its steps (--map steps=FIELD)"
    )
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


def test_a_list_that_does_not_end_gives_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_bytes(b"[" + GOOD + b"," + GOOD)
    with pytest.raises(InputError, match=r"log.json: item 2: not JSON: the list does not end"):
        list(logs.read("episodes", path))
    assert len(list(logs.read("episodes", path, on_bad=lambda row: None))) == 1


def test_a_bad_item_of_a_list_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    deep = b"[" * 200_000 + b"]" * 200_000
    items = [GOOD, b'{"a": }', deep, b"", b"9" * 5000, GOOD.replace(b"go", rb"a \"[,]\" \\"), b"\xff", b"[1,2]"]
    path.write_bytes(b"[" + b",".join(items) + b"] x")
    bad: list[logs.BadRow] = []
    episodes = list(logs.read("episodes", path, on_bad=bad.append))
    assert [episode.goal for episode in episodes] == ["go", 'a "[,]" \\']
    assert [row.where for row in bad] == [f"item {number}" for number in (2, 3, 4, 5, 7, 8, 9)]
    assert "nested too deeply" in bad[1].reason
    assert "something follows the end of the list" in bad[-1].reason
    path.write_bytes(b" [ ] ")
    with pytest.raises(InputError, match="holds no episode"):
        list(logs.read("episodes", path))


def test_items_are_cut_alike_wherever_the_chunks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.json"
    rows = [{**json.loads(GOOD), "task_id": str(k), "task": 'a\\"[{,' * (k % 3)} for k in range(30)]
    path.write_text(json.dumps(rows, indent=1))
    whole = list(logs.read("episodes", path))
    assert [episode.goal for episode in whole] == [row["task"] for row in rows]
    for size in (1, 2, 3, 7):
        monkeypatch.setattr("worldline.logs.rows._CHUNK", size)
        assert list(logs.read("episodes", path)) == whole


@pytest.mark.parametrize("form", ["lines", "list"])
def test_a_row_that_is_too_long_is_a_bad_row(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worldline.logs.rows.MAX_ROW", 1000)
    long = GOOD.replace(b"go", b"go" * 5000)
    path = tmp_path / "log.json"
    path.write_bytes(b"\n".join([GOOD, long, GOOD]) if form == "lines" else b"[" + b",".join([GOOD, long, GOOD]) + b"]")
    bad: list[logs.BadRow] = []
    assert len(list(logs.read("episodes", path, on_bad=bad.append))) == 2
    assert [str(row) for row in bad] == [f"{'line' if form == 'lines' else 'item'} 2: a row of over 64 MiB"]


def peak_memory(words: list[str]) -> int:
    """MiB that a process of its own takes at most."""
    code = "import sys; from worldline.cli import main; main(sys.argv[1:]); print(open('/proc/self/status').read())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True)
    return int(done.stdout.split("VmHWM:")[1].split()[0]) >> 10


@pytest.mark.parametrize(("format_", "unit"), [("episodes", b"x"), ("inspect", b"[],")])
def test_a_small_file_that_unfolds_takes_little_memory(tmp_path: Path, format_: str, unit: bytes) -> None:
    path = tmp_path / "bomb.gz"
    packer = zlib.compressobj(9, wbits=31)
    megabyte = unit * ((1 << 20) // len(unit))
    path.write_bytes(b"".join([*(packer.compress(megabyte) for _ in range(100)), packer.flush()]))
    assert path.stat().st_size < 1 << 20
    assert peak_memory(["import", format_, str(path), "--out", str(tmp_path / "log")]) < 500
    with pytest.raises(InputError, match=r"bomb.gz: unfolds to over 64 MiB, too much for its size"):
        list(logs.read(format_, path, on_bad=lambda row: None))


def test_a_row_of_very_many_values_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(GOOD + b"\n[" + b"[]," * (2 << 20) + b"1]\n" + GOOD)
    bad: list[logs.BadRow] = []
    assert len(list(logs.read("episodes", path, on_bad=bad.append))) == 2
    assert [str(row) for row in bad] == ["line 2: over 4 million JSON values in one row"]


def test_a_number_is_added_to_an_id_until_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{**json.loads(GOOD), "task_id": task} for task in ("t", "t", "t#2", "t", "t#2")]
    path.write_text("\n".join(map(json.dumps, rows)))
    names = [episode.id for episode in logs.read("episodes", path)]
    assert len(set(names)) == 5
    assert names[:2] == ["log/p/t", "log/p/t#2"]


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


def test_the_flag_that_a_bad_row_names_mends_it(tmp_path: Path) -> None:
    path, options = tmp_path / "log.jsonl", logs.Options(map=("goal=instruction",))
    path.write_bytes(GOOD.replace(b'"task"', b'"instruction"'))
    (bad,) = logs.bad_rows("episodes", path)
    assert bad.reason == "task: Field required: 'task' is the instruction to the agent (--map goal=FIELD)"
    (mended,), (right,) = logs.read("episodes", path, options=options), logs.read("episodes", _written(tmp_path))
    assert mended.goal == right.goal != ""


def _written(folder: Path) -> Path:
    (folder / "good.jsonl").write_bytes(GOOD)
    return folder / "good.jsonl"


def test_json_that_is_cut_off_says_where_in_one_at(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"task_id": "un')
    (bad,) = logs.bad_rows("episodes", path)
    assert bad.reason == "not JSON: Unterminated string starting at character 13"
