"""The rows of `bench ablate`: over whom each is, and what is measured once."""

import functools
import json
from pathlib import Path

import pytest

from worldline.adwm.fit import FitSettings
from worldline.bench import ablate, rank
from worldline.bench.cast import CASTS, Cast, Clone, Faults
from worldline.bench.stage import Stage, StageConfig
from worldline.policies import PolicyConfig
from worldline.types import InputError

CHOOSE = PolicyConfig(mode="choose")
CAST = Cast(
    loggers={"a": Faults(chance=0.3), "b": Faults(chance=0.6)},
    targets={"c": Faults(), "d": Faults(chance=0.9), "half by chance": Clone(1, 0.5, CHOOSE)},
    further={"e": Clone(0, settings=CHOOSE), "f": Clone(1, settings=CHOOSE)},
    clone={"episodes": 40, "checkpoints": 2},
    split="test",
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    config = StageConfig(tasks=12, truth=1, members=1, jobs=1)
    return Stage(config, "searchqa", CAST, tmp_path_factory.mktemp("stage"))


@pytest.fixture
def settings(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> ablate.Settings:
    monkeypatch.setattr(ablate.rank, "stage_of", lambda settings: stage)
    monkeypatch.setattr(ablate, "FitSettings", functools.partial(FitSettings, epochs=1, text_steps=40))
    return ablate.Settings(envs=("searchqa",), tasks=4, guided=4, out=stage.out)


def test_what_needs_weights_is_over_language_models() -> None:
    assert CAST.language_models == ["e", "f"], "who acts by chance half the time has no gradient of its own"
    for variant in ablate.VARIANTS.values():
        assert variant.interface == "text" or variant.over == "language models"
    for cast in CASTS.values():
        assert len(cast.language_models) >= 4
        assert not cast.further.keys() & (cast.targets | cast.loggers).keys()


def test_soft_and_text_rows_are_over_the_same_policies(
    stage: Stage, settings: ablate.Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ("adwm", "language models: paper, no adapter", "language models: paper")
    found = ablate.run(settings.model_copy(update={"variants": rows}))
    assert [row["searchqa policies"] for row in found.rows] == [3, 2, 2]
    told = capsys.readouterr().err
    assert [told.count(f"  {name}: ") for name in "cdef"] == [1, 1, 2, 2]
    assert stage.truth().keys() == CAST.targets.keys(), "bench rank judges the same as before"


def test_a_row_is_measured_once_for_the_same_policies(
    stage: Stage, settings: ablate.Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def measured(variant: ablate.Variant, stage: Stage, settings: ablate.Settings) -> dict[str, float | None]:
        asked.append(ablate._policies(variant, stage))
        return {"spearman": None, "mae": 0.5, "policies": 2}

    monkeypatch.setattr(ablate, "_measured", measured)
    fresh = settings.model_copy(update={"seed": 7, "variants": ("adwm", "language models: adwm")})
    for _ in range(2):
        figures = ablate.run(fresh)
        assert asked == [["c", "d", "half by chance"], ["e", "f"]]
    assert "adwm searchqa spearman" not in figures.figures
    more = Cast(CAST.loggers, CAST.targets, CAST.further | {"g": Clone(0)}, CAST.clone, CAST.split)
    other = Stage(stage.config, "searchqa", more, stage.out)
    monkeypatch.setattr(ablate.rank, "stage_of", lambda settings: other)
    ablate.run(fresh)
    assert asked[2:] == [["e", "f", "g"]], "the targets are the same"
    assert len(json.loads((stage.out / "ablate" / "rows.json").read_text())) >= 3


def test_the_folder_of_a_ranking_is_used_as_it_was_made(tmp_path: Path) -> None:
    made = rank.stage_of(rank.Settings(env="searchqa", out=tmp_path, tasks=16, rollouts=1))
    made.claim()
    assert ablate._stage("searchqa", tmp_path).config.tasks == 16
    assert ablate._stage("shop", tmp_path).config.tasks == rank.Settings(env="shop").tasks
    with pytest.raises(InputError, match="tasks 171"):  # and a ranking does not mix with what an ablation made
        rank.stage_of(rank.Settings(env="shop", out=tmp_path, tasks=16)).claim()


def test_an_unknown_row_is_named() -> None:
    with pytest.raises(InputError, match="there is no 'adwm, DDPM': did you mean 'adwm, DDPM-50'"):
        ablate.run(ablate.Settings(variants=("adwm", "adwm, DDPM")))
