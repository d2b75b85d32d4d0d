"""Collecting with each of its file system calls broken in turn: no episode is lost, none is there twice."""

from pathlib import Path

import pytest

import faults
from worldline import files, store
from worldline.collect import CollectConfig, collect
from worldline.types import Trajectory


def play(out: Path, **more: object) -> None:
    settings = {"env": "counting:CountingWorld", "policy": "counting:SeededPolicy", "episodes": 70, "out": out}
    collect(CollectConfig.model_validate({**settings, "resume": True, **more}))


def episodes(out: Path) -> dict[str, Trajectory]:
    kept = {episode.id: episode for episode in store.read(out)} if store.shards(out) else {}
    assert not kept or store.count(out) == len(kept), "an episode twice"
    return kept


@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_broken_collection_resumes_to_the_same(how: faults.How, tmp_path: Path) -> None:
    play(tmp_path / "whole")
    whole = episodes(tmp_path / "whole")
    assert len(whole) == 70
    for state in faults.states_left(play, tmp_path, how):
        left = state.path
        assert episodes(left).items() <= whole.items()
        play(left)
        assert episodes(left) == whole
        assert not [path for path in left.iterdir() if files.is_temporary(path)], "nothing is left behind"


@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_broken_overwrite_resumes_to_the_same(how: faults.How, tmp_path: Path) -> None:
    play(tmp_path / "whole")

    def replace(out: Path) -> None:
        play(out, overwrite=True)

    replace(tmp_path / "whole")
    broken = 0
    for state in faults.states_left(replace, tmp_path, how, before=play):
        play(state.path)
        assert episodes(state.path) == episodes(tmp_path / "whole")
        broken += state.calls
    assert broken > 2  # the lock and two shards, at least
