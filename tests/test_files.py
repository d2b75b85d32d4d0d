"""Files are there whole or not at all, whichever system call fails."""

import json
import multiprocessing
import os
from pathlib import Path

import pytest

import faults
from worldline import files
from worldline.types import InputError, WorldlineError


@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_file_is_the_old_or_the_new_one_at_every_point(tmp_path: Path, how: faults.How) -> None:
    path = tmp_path / "kept.json"

    def work() -> None:
        files.write_json(path, {"value": "new" * 100})

    count = faults.points(work)
    assert count == 4  # write, sync, rename, sync of the folder
    for number in range(count):
        path.write_text('"old"')
        assert faults.broken(work, number, how) == (70 if how == "full" else faults.KILLED)
        assert json.loads(path.read_text()) in ("old", {"value": "new" * 100})
    work()
    assert json.loads(path.read_text()) == {"value": "new" * 100}
    assert os.listdir(tmp_path) == ["kept.json"]  # nothing is left behind


@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_folder_is_the_old_or_the_new_one_at_every_point(tmp_path: Path, how: faults.How) -> None:
    path = tmp_path / "model"

    def work(content: str = "new") -> None:
        with files.replacing(path) as partial:
            partial.mkdir()
            (partial / "a").write_text(content)
            (partial / "b").write_text(content)

    work("old")
    for number in range(faults.points(lambda: work("old"))):
        work("old")
        assert faults.broken(work, number, how) in (70, faults.KILLED)
        files.remove_leftovers(tmp_path)
        assert {(path / name).read_text() for name in "ab"} in ({"old"}, {"new"})
    assert os.listdir(tmp_path) == ["model"]


def test_a_line_is_appended_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    files.append_line(path, "first")
    for how in ("full", "killed"):
        assert faults.broken(lambda: files.append_line(path, "lost" * 100), 0, how) != 0
        assert files.read_lines(path).whole == ["first"]
    assert files.read_lines(path).torn  # the killed one left half a line
    files.append_line(path, "second")
    assert files.read_lines(path) == files.Lines(["first", "second"], torn=False)


def test_what_is_not_finite_is_null(tmp_path: Path) -> None:
    files.write_json(tmp_path / "x.json", {"a": [float("nan"), 1.5], "b": (float("inf"),)})
    assert json.loads((tmp_path / "x.json").read_text()) == {"a": [None, 1.5], "b": [None]}


def test_a_write_that_fails_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorldlineError, match=r"file/below: cannot be written"):
        files.write(tmp_path / "file" / "below", "x")


def _add_up(path: Path, total: Path) -> None:
    for _ in range(100):
        with files.locked(path):
            total.write_text(str(int(total.read_text()) + 1))


def test_a_lock_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    total = tmp_path / "total"
    total.write_text("0")
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add_up, args=(tmp_path / "lock", total)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert total.read_text() == "400"


def test_a_taken_lock_is_refused_with_the_reason(tmp_path: Path) -> None:
    with (
        files.locked(tmp_path / "lock"),
        pytest.raises(InputError, match="busy"),
        files.locked(tmp_path / "lock", taken="busy"),
    ):
        pass
    with files.locked(tmp_path / "lock", taken="busy"):
        pass
    assert not (tmp_path / "lock").exists()


def test_a_file_is_synced_before_it_has_its_name_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a machine that dies leaves the old content or the new one."""
    path = tmp_path / "a"
    synced: list[tuple[int, bool]] = []
    monkeypatch.setattr("os.fsync", lambda handle: synced.append((os.fstat(handle).st_ino, path.exists())))
    files.write(path, b"content")
    assert synced == [(path.stat().st_ino, False), (tmp_path.stat().st_ino, True)]
