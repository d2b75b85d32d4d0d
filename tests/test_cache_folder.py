"""Where caches lie: by variable, by the XDG specification, by the files they are made from."""

from pathlib import Path

import pytest

from worldline.cache_folder import cache_of, cache_root


def test_the_folder_is_named_by_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("WORLDLINE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_root() == tmp_path / "home" / ".cache" / "worldline"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_root() == tmp_path / "home" / ".cache" / "worldline"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "worldline"
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path / "own"))
    assert cache_root() == tmp_path / "own"


def test_files_of_one_name_in_two_places_have_two_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLDLINE_CACHE", str(tmp_path))
    one, other = Path("/a/wiki.jsonl"), Path("/b/wiki.jsonl")
    assert cache_of("index", [one]) == cache_of("index", [one]) != cache_of("index", [other])
    assert cache_of("index", [one]).parent == tmp_path / "index"
    assert cache_of("index", [one, other]) != cache_of("index", [one])
