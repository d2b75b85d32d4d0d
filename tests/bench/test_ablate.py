"""The rows of `bench ablate`: over whom each is, and what is measured once."""

import functools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from brief_fits import make_fits_brief, make_networks_small
from worldline.adwm.fit import FitSettings
from worldline.bench import ablate, rank
from worldline.bench.experiment import Experiment, ExperimentConfig
from worldline.bench.policy_suite import Checkpoint, PolicySuite
from worldline.policies import PolicyConfig
from worldline.policies.faulty_expert import Faults
from worldline.sft.small import SIZES
from worldline.types import InputError

CHOOSE = PolicyConfig(mode="choose")
SUITE = PolicySuite(
    loggers={"a": Faults(chance=0.3), "b": Faults(chance=0.6)},
    targets={"c": Faults(), "d": Faults(chance=0.9), "half by chance": Checkpoint(1, 0.5, CHOOSE)},
    language_models={"e": Checkpoint(0, settings=CHOOSE), "f": Checkpoint(1, settings=CHOOSE)},
    cloning={"episodes": 16, "checkpoints": 2},
    split="test",
)


@pytest.fixture(autouse=True)
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    make_fits_brief(monkeypatch, 10)
    make_networks_small(monkeypatch)
    monkeypatch.setitem(SIZES, "nano", SIZES["nano"] | {"hidden_size": 32, "num_hidden_layers": 1})


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    config = ExperimentConfig(tasks=8, truth=1, members=1, jobs=1)
    return Experiment(config, "searchqa", SUITE, tmp_path_factory.mktemp("experiment"))


@pytest.fixture
def settings(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> ablate.AblateBenchConfig:
    monkeypatch.setattr(ablate.rank, "experiment_of", lambda settings: experiment)
    monkeypatch.setattr(
        ablate, "FitSettings", functools.partial(FitSettings, epochs=1, text_steps=40, replayed_episodes=0)
    )
    return ablate.AblateBenchConfig(envs=("searchqa",), tasks=4, guided=4, out=experiment.out)


def test_what_needs_weights_is_over_language_models() -> None:
    assert SUITE.with_gradients == ["e", "f"], "a policy that acts by chance half the time has no gradient of its own"
    for variant in ablate.VARIANTS.values():
        assert variant.interface == "text" or variant.over == "language models"


def test_soft_and_text_rows_are_over_the_same_policies(
    experiment: Experiment, settings: ablate.AblateBenchConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ("adwm", "language models: paper, no adapter", "language models: paper")
    figures = ablate.run(settings.model_copy(update={"variants": rows}))
    assert [row["searchqa policies"] for row in figures.rows] == [3, 2, 2]
    lines = capsys.readouterr().err
    assert [lines.count(f"  {name}: ") for name in "cdef"] == [1, 1, 2, 2]
    assert experiment.truth().keys() == SUITE.targets.keys(), "bench rank judges the same as before"


def test_a_row_is_measured_once_for_the_same_policies(
    experiment: Experiment, settings: ablate.AblateBenchConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies: list[list[str]] = []

    def measured(
        variant: ablate.Variant, experiment: Experiment, settings: ablate.AblateBenchConfig
    ) -> dict[str, float | None]:
        policies.append(ablate._policies(variant, experiment))
        return {"spearman": None, "mae": 0.5, "policies": 2}

    monkeypatch.setattr(ablate, "_measured", measured)
    fresh = settings.model_copy(update={"seed": 7, "variants": ("adwm", "language models: adwm")})
    for _ in range(2):
        figures = ablate.run(fresh)
        assert policies == [["c", "d", "half by chance"], ["e", "f"]]
    assert "adwm searchqa spearman" not in figures.figures
    more = replace(SUITE, language_models={**SUITE.language_models, "g": Checkpoint(0)})
    other = replace(experiment, suite=more)
    monkeypatch.setattr(ablate.rank, "experiment_of", lambda settings: other)
    ablate.run(fresh)
    assert policies[2:] == [["e", "f", "g"]], "the targets are the same"
    assert len(json.loads((experiment.out / "ablate" / "rows.json").read_text())) >= 3


def test_the_folder_of_a_ranking_is_used_as_it_was_made(tmp_path: Path) -> None:
    made = rank.experiment_of(rank.RankBenchConfig(env="searchqa", out=tmp_path, tasks=16, rollouts=1))
    made.claim()
    assert ablate._experiment("searchqa", tmp_path).config.tasks == 16
    assert ablate._experiment("shop", tmp_path).config.tasks == rank.RankBenchConfig(env="shop").tasks
    with pytest.raises(InputError, match="tasks 171"):  # and a ranking does not mix with what an ablation made
        rank.experiment_of(rank.RankBenchConfig(env="shop", out=tmp_path, tasks=16)).claim()


def test_an_unknown_row_is_named() -> None:
    with pytest.raises(InputError, match="there is no 'adwm, DDPM': did you mean 'adwm, DDPM-50'"):
        ablate.run(ablate.AblateBenchConfig(variants=("adwm", "adwm, DDPM")))
