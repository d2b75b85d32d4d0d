"""What a stage keeps, and the processes that work for it."""

import json
import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from worldline.bench.cast import CASTS, Cast, Clone, Faults
from worldline.bench.stage import Crew, Stage, StageConfig, Work

from worldline.bench import rank
from worldline.types import InputError

CAST = Cast(loggers={"a": Faults(chance=0.5)}, targets={"b": Faults()}, options={"level": "small"})


def stage(out: Path, **changes: Any) -> Stage:
    settings = {"tasks": 8, "truth": 1, "members": 1, "jobs": 2, "certificate": False} | changes
    return Stage(StageConfig(**settings), "household", CAST, out)


def test_a_folder_is_made_with_one_set_of_settings(tmp_path: Path) -> None:
    stage(tmp_path).claim()
    stage(tmp_path, jobs=1, estimators=("naive",)).claim()
    with pytest.raises(InputError, match=r"was made with --rollouts 2"):
        stage(tmp_path, rollouts=3).claim()


def test_a_crew_plays_and_what_goes_wrong_in_it_is_heard_of(tmp_path: Path) -> None:
    told: list[int] = []
    with Crew(stage(tmp_path)) as crew:
        crew.do([Work("play", "a"), Work("play", "b")], lambda done, of, work: told.append(done))
        assert told == [1, 2]
        with pytest.raises(KeyError, match="nobody"):
            crew.do([Work("play", "nobody")])
    assert len(stage(tmp_path).log()) == 8
    assert stage(tmp_path).truth()["b"] > 0.5, "the expert without faults"


def test_an_interrupted_crew_does_not_finish_its_work_first(tmp_path: Path) -> None:
    started, others = time.monotonic(), set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt), Crew(stage(tmp_path, jobs=1)) as crew:
        crew._pool.submit(time.sleep, 300)
        (worker,) = set(multiprocessing.active_children()) - others
        raise KeyboardInterrupt
    assert not worker.is_alive()
    assert time.monotonic() - started < 100


def test_nobody_is_cloned_before_a_clone_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class ClonedError(Exception):
        pass

    def cloned(*given: object) -> list[Path]:
        raise ClonedError

    monkeypatch.setattr("worldline.bench.stage.ladder", cloned)
    with_clone = replace(CAST, further={"c": Clone(0)}, clone={"episodes": 1})
    asked = Stage(stage(tmp_path).config, "household", with_clone, tmp_path)
    with Crew(asked):
        assert asked.truth().keys() == {"b"}
    for work in asked.questions(0):
        assert work.name != "c", "bench rank asks nothing of it"
    with pytest.raises(ClonedError):
        asked.value("c")
    with pytest.raises(ClonedError):
        Crew(Stage(asked.config, "household", CASTS["household"], tmp_path))


def test_the_speaking_world_model_is_made_once_for_all_seeds(tmp_path: Path) -> None:
    asking = stage(tmp_path, estimators=("naive", "wm-text"), rival_seeds=2)
    assert [work.kind for work in asking.fits([1, 2])] == ["read", "fit", "fit"]
    assert [work.kind for work in asking.fits([2])] == ["fit"], "that seed does not ask for rivals"
    assert [work.kind for work in stage(tmp_path).fits([0])] == ["fit"], "auto does not name it"
    assert "wm-text" in {work.manner for work in asking.questions(1)}


def test_a_table_is_used_again_only_where_the_same_was_asked(tmp_path: Path) -> None:
    plain, more = stage(tmp_path, estimators=("naive",)), stage(tmp_path, estimators=("naive", "adwm"))
    kept = {"asked": rank._asked(plain, 0), "evaluation": {"agreement": {}}}
    rank._path(plain, 0).write_text(json.dumps(kept))
    assert rank._table(plain, 0) == {"agreement": {}}
    assert rank._table(more, 0) is None
    assert rank._table(plain, 1) is None
